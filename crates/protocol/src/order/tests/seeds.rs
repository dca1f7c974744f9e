//! Several shards by seed: appends, cuts, flushes and power cuts. The oracle is a list of all that was shown.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use planted::{Bug, with};
use record::{Offset, Position};

use super::super::*;

const PARTITIONS: usize = 5;
const STEPS: usize = 400;
const SEEDS: u64 = 2_000;

/// Mistakes of the shards that drive the order, rather than its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    /// A generation is used before the record that opens it is durable.
    OpenNotDurable,
    /// A shard that waits for others is not told.
    LetterLost,
}

struct Random(u64);

impl Random {
    /// Xorshift (Marsaglia).
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).expect("it is below")
    }
}

/// A flush that was sealed: the ends of what it makes durable.
struct Frame {
    logs: BTreeMap<usize, usize>,
    strand: usize,
}

struct Shard {
    /// The records of each partition here, by their numbers, and how many of them are durable.
    logs: BTreeMap<usize, (Vec<u64>, usize)>,
    /// As many of them may be shown.
    shown: BTreeMap<usize, usize>,
    cutter: Cutter,
    strand: (Vec<Entry>, usize),
    frames: VecDeque<Frame>,
}

struct World {
    random: Random,
    mistake: Option<Mistake>,
    shards: Vec<Shard>,
    line: Arc<Line>,
    /// Shards that are to be told that they need not wait any more.
    letters: VecDeque<usize>,
    /// The record of each position: of this generation, and of those that were shown before.
    given: BTreeMap<u64, u64>,
    /// The records that were shown, by position.
    shown: Vec<u64>,
    /// As many of them are of each partition.
    vector: [usize; PARTITIONS],
    /// Of each record its partition, and what was shown when it was appended.
    began: Vec<(usize, u64)>,
    /// The records that were to have one position or none.
    conditions: BTreeMap<u64, u64>,
    /// As many more were refused.
    refused: usize,
}

impl Shard {
    fn new(line: &Arc<Line>, index: usize) -> Shard {
        Shard {
            logs: BTreeMap::new(),
            shown: BTreeMap::new(),
            cutter: Cutter::new(line.clone(), index, Generation(0)),
            strand: (Vec::new(), 0),
            frames: VecDeque::new(),
        }
    }
}

fn index_of(partition: usize) -> i32 {
    i32::try_from(partition).expect("few")
}

impl World {
    fn new(seed: u64, mistake: Option<Mistake>) -> World {
        let mut random = Random(seed.wrapping_mul(2) + 1);
        let count = 1 + random.below(3);
        let line = Arc::new(Line::new(Position(0), count));
        let mut shards: Vec<Shard> = (0..count).map(|index| Shard::new(&line, index)).collect();
        for partition in 0..PARTITIONS {
            let shard = &mut shards[partition % count];
            shard.logs.insert(partition, (Vec::new(), 0));
        }
        let mut world = World {
            random,
            mistake,
            line,
            shards,
            letters: VecDeque::new(),
            given: BTreeMap::new(),
            shown: Vec::new(),
            vector: [0; PARTITIONS],
            began: Vec::new(),
            conditions: BTreeMap::new(),
            refused: 0,
        };
        world.open(Open {
            generation: Generation(1),
            first: Position(0),
            vector: vec![Offset::ZERO; PARTITIONS],
        });
        world
    }

    fn open(&mut self, open: Open) {
        self.line = Arc::new(Line::new(open.first, self.shards.len()));
        self.letters.clear();
        self.given = (0..).zip(self.shown.iter().copied()).collect();
        for (index, shard) in self.shards.iter_mut().enumerate() {
            shard.cutter = Cutter::new(self.line.clone(), index, open.generation);
            for (partition, (log, _)) in &shard.logs {
                let shown = open.vector[*partition];
                let end = Offset(log.len() as i64);
                if shown < end {
                    shard.cutter.note(index_of(*partition), shown..end);
                }
                shard.shown.insert(*partition, self.vector[*partition]);
            }
        }
        let (strand, durable) = &mut self.shards[0].strand;
        strand.push(Entry::Open(open));
        if self.mistake != Some(Mistake::OpenNotDurable) {
            *durable = strand.len();
        }
    }

    fn append(&mut self) {
        let partition = self.random.below(PARTITIONS);
        let count = self.shards.len();
        let number = self.began.len() as u64;
        self.began.push((partition, self.shown.len() as u64));
        let Shard { logs, cutter, .. } = &mut self.shards[partition % count];
        let (log, _) = logs.get_mut(&partition).expect("it is here");
        let offset = Offset(log.len() as i64);
        log.push(number);
        cutter.note(index_of(partition), offset..offset.advance(1));
    }

    /// Appends a record that is to be behind all that a reader has seen, or not at all.
    fn append_at_tail(&mut self) -> Result<(), String> {
        let partition = self.random.below(PARTITIONS);
        let index = partition % self.shards.len();
        let tail = match self.random.below(4) {
            // Somebody guesses.
            0 => (self.shown.len() + self.random.below(3)) as u64,
            _ => self.shown.len() as u64,
        };
        let number = self.began.len() as u64;
        let Shard {
            logs, cutter, strand, ..
        } = &mut self.shards[index];
        let (log, _) = logs.get_mut(&partition).expect("it is here");
        let offset = Offset(log.len() as i64);
        let entry = Offset(strand.0.len() as i64);
        let batch = (index_of(partition), offset..offset.advance(1));
        let Some(cut) = cutter.cut_with(entry, batch, Some(Position(tail))) else {
            self.refused += 1;
            return self.show_at(index);
        };
        log.push(number);
        strand.0.push(Entry::Cut(cut));
        self.began.push((partition, self.shown.len() as u64));
        self.given.insert(tail, number);
        self.conditions.insert(number, tail);
        Ok(())
    }

    /// Seals a frame, with the cut of what has no position yet.
    fn seal(&mut self, index: usize) {
        let shard = &mut self.shards[index];
        if let Some(cut) = shard.cutter.cut(Offset(shard.strand.0.len() as i64)) {
            let mut next = cut.base.0;
            for run in &cut.runs {
                let (log, _) = &shard.logs[&usize::try_from(run.partition).expect("it is none of ours")];
                // All that has no position is at the end.
                let records = &log[log.len() - run.offsets as usize..];
                self.given.extend((next..).zip(records.iter().copied()));
                next += u64::from(run.offsets);
            }
            shard.strand.0.push(Entry::Cut(cut));
        }
        let logs = shard
            .logs
            .iter()
            .map(|(partition, (log, _))| (*partition, log.len()));
        shard.frames.push_back(Frame {
            logs: logs.collect(),
            strand: shard.strand.0.len(),
        });
    }

    fn flush(&mut self, index: usize) -> Result<(), String> {
        let shard = &mut self.shards[index];
        let Some(frame) = shard.frames.pop_front() else {
            return Ok(());
        };
        for (partition, end) in frame.logs {
            let log = shard.logs.get_mut(&partition).expect("it is here");
            log.1 = log.1.max(end);
        }
        shard.strand.1 = shard.strand.1.max(frame.strand);
        shard.cutter.handle_durable(Offset(shard.strand.1 as i64));
        self.show_at(index)
    }

    /// A shard looks how far it may show its partitions, and tells those that waited for it.
    fn show_at(&mut self, index: usize) -> Result<(), String> {
        let mut told = Vec::new();
        let tell = |partition, offsets: &Range<Offset>, position| {
            told.push((partition, offsets.clone(), position));
        };
        let ordered = self.shards[index].cutter.show(tell);
        if self.mistake != Some(Mistake::LetterLost) {
            self.letters.extend(self.line.take_waiting(ordered));
        }
        self.show(ordered)?;
        for (partition, offsets, first) in told {
            let (partition, end) = (partition as usize, offsets.end.0 as usize);
            let (log, _) = &self.shards[index].logs[&partition];
            for (position, offset) in (first.0..).zip(offsets.start.0..offsets.end.0) {
                if self.shown.get(position as usize) != log.get(offset as usize) {
                    return Err(format!(
                        "offset {offset} is told another position than {position}"
                    ));
                }
            }
            if end > self.vector[partition] {
                return Err(format!(
                    "partition {partition} is shown below {end}, before its turn"
                ));
            }
            self.shards[index].shown.insert(partition, end);
        }
        Ok(())
    }

    fn deliver(&mut self) -> Result<(), String> {
        match self.letters.pop_front() {
            Some(index) => self.show_at(index),
            None => Ok(()),
        }
    }

    fn is_durable(&self, record: u64) -> bool {
        let mut logs = self.shards.iter().flat_map(|shard| shard.logs.values());
        logs.any(|(log, durable)| log[..*durable].contains(&record))
    }

    fn show(&mut self, ordered: Position) -> Result<(), String> {
        if ordered.0 < self.shown.len() as u64 {
            return Err(format!("what is ordered falls to {}", ordered.0));
        }
        for position in self.shown.len() as u64..ordered.0 {
            let Some(record) = self.given.get(&position).copied() else {
                return Err(format!("position {position} is shown, and nobody has it"));
            };
            if !self.is_durable(record) {
                return Err(format!("position {position} is shown before it is durable"));
            }
            let (partition, began) = self.began[usize::try_from(record).expect("few")];
            if position < began {
                return Err(format!(
                    "position {position} was shown before its record was begun"
                ));
            }
            self.vector[partition] += 1;
            self.check_condition(record)?;
            self.shown.push(record);
        }
        Ok(())
    }

    /// The record that is shown next has the position that it was to have.
    fn check_condition(&self, record: u64) -> Result<(), String> {
        let position = self.shown.len() as u64;
        match self.conditions.get(&record) {
            Some(tail) if *tail != position => {
                Err(format!("a record that was to be at {tail} is at {position}"))
            }
            _ => Ok(()),
        }
    }

    /// The power fails: what was not flushed is gone. The order goes on in a new generation.
    fn crash(&mut self) -> Result<(), String> {
        for shard in &mut self.shards {
            shard.frames.clear();
            shard.strand.0.truncate(shard.strand.1);
            for (log, durable) in shard.logs.values_mut() {
                log.truncate(*durable);
            }
        }
        let strands: Vec<_> = self.shards.iter().map(|shard| shard.strand.0.clone()).collect();
        let count = self.shards.len();
        let log = |partition: usize| &self.shards[partition % count].logs[&partition].0;
        let tails: Vec<_> = (0..PARTITIONS)
            .map(|partition| Offset(log(partition).len() as i64))
            .collect();
        let recovered = recover(&strands, &tails).map_err(|error| error.to_string())?;
        let recovered = recovered.ok_or("it was never opened")?;
        let mut at = [0; PARTITIONS];
        let mut sequence = Vec::new();
        // Positions below the opening were shown; only its vector tells of them.
        let opened = recovered.cuts.first().map_or(recovered.next, |cut| cut.base);
        for cut in &recovered.cuts {
            for run in &cut.runs {
                at[run.partition as usize] += run.offsets as usize;
            }
        }
        for (partition, at) in at.iter_mut().enumerate() {
            *at = recovered.vector[partition].0 as usize - *at;
        }
        for cut in &recovered.cuts {
            for run in &cut.runs {
                let partition = run.partition as usize;
                let end = at[partition] + run.offsets as usize;
                sequence.extend_from_slice(&log(partition)[at[partition]..end]);
                at[partition] = end;
            }
        }
        let known: Vec<u64> = self.shown.iter().copied().skip(opened.0 as usize).collect();
        if recovered.next.0 < self.shown.len() as u64 || !sequence.starts_with(&known) {
            return Err(format!(
                "after {} positions were shown, {} are found, or others",
                self.shown.len(),
                recovered.next.0
            ));
        }
        if self.shown.len() < opened.0 as usize {
            return Err("positions below the opening were never shown".into());
        }
        // They may be shown now: their cuts are durable and touch.
        let more = sequence.len() - known.len();
        let found = sequence.split_off(sequence.len() - more);
        let open = recovered.open();
        for record in found {
            self.vector[self.began[usize::try_from(record).expect("few")].0] += 1;
            self.check_condition(record)?;
            self.shown.push(record);
        }
        self.open(open);
        Ok(())
    }

    fn step(&mut self) -> Result<(), String> {
        let shard = self.random.below(self.shards.len());
        match self.random.below(100) {
            0..38 => self.append(),
            38..45 => self.append_at_tail()?,
            45..65 => self.seal(shard),
            65..90 => self.flush(shard)?,
            90..98 => self.deliver()?,
            _ => self.crash()?,
        }
        Ok(())
    }
}

/// Returns the records that are shown in the end, how many of these were to have their position or none, and how many were refused.
fn run(seed: u64, mistake: Option<Mistake>) -> Result<[usize; 3], String> {
    let mut world = World::new(seed, mistake);
    for _ in 0..STEPS {
        world.step()?;
    }
    // Everything comes to be shown.
    for shard in 0..world.shards.len() {
        world.seal(shard);
        while !world.shards[shard].frames.is_empty() {
            world.flush(shard)?;
        }
    }
    while !world.letters.is_empty() {
        world.deliver()?;
    }
    for shard in &world.shards {
        for (partition, (log, _)) in &shard.logs {
            if shard.shown[partition] != log.len() {
                return Err(format!("partition {partition} is never shown whole"));
            }
        }
    }
    let kept: usize = world
        .shards
        .iter()
        .flat_map(|shard| shard.logs.values())
        .map(|(log, _)| log.len())
        .sum();
    match world.shown.len() == kept {
        true => {
            let shown = world.shown.iter();
            let conditional = shown.filter(|record| world.conditions.contains_key(record));
            Ok([kept, conditional.count(), world.refused])
        }
        false => Err(format!("{} of {kept} records are shown", world.shown.len())),
    }
}

#[test]
fn every_reader_sees_one_sequence_whatever_is_lost() {
    let mut all = [0; 3];
    for seed in 0..SEEDS {
        let found = run(seed, None).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        all.iter_mut().zip(found).for_each(|(all, found)| *all += found);
    }
    let [shown, conditional, refused] = all.map(|count| count as u64);
    assert!(shown > 50 * SEEDS, "{shown} records were shown");
    assert!(
        conditional > SEEDS && refused > SEEDS,
        "{conditional} and {refused}"
    );
}

#[test]
fn mistakes_are_found() {
    let is_found = |mistake| (0..SEEDS).any(|seed| run(seed, mistake).is_err());
    for mistake in [Mistake::OpenNotDurable, Mistake::LetterLost] {
        assert!(is_found(Some(mistake)), "{mistake:?}");
    }
    for bug in [
        Bug::VoidCutsCount,
        Bug::GapJumped,
        Bug::FloorOverwritten,
        Bug::FloorRaisedEarly,
        Bug::ShownAtOwnFlush,
        Bug::TailNotOrdered,
        Bug::StagedOvertaken,
    ] {
        assert!(with(bug, || is_found(None)), "{bug:?}");
    }
}
