//! Several shards by seed: appends, cuts, flushes and power cuts. The oracle is a list of all that was shown.

use std::collections::{BTreeMap, VecDeque};

use planted::{Bug, with};
use record::{Offset, Position};

use super::super::*;

const PARTITIONS: usize = 5;
const STEPS: usize = 400;
const SEEDS: u64 = 2_000;

/// Mistakes of the shards that drive the order, rather than its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    /// A shard's own flush shows its positions.
    ShownAtOwnFlush,
    /// A generation is used before the record that opens it is durable.
    OpenNotDurable,
    /// A shard's floor goes with the seal, and not with the flush.
    FloorRaisedEarly,
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
    cut: Option<Cut>,
}

#[derive(Default)]
struct Shard {
    /// The records of each partition here, by their numbers, and how many of them are durable.
    logs: BTreeMap<usize, (Vec<u64>, usize)>,
    /// The number of those that have positions.
    numbered: BTreeMap<usize, usize>,
    strand: (Vec<Entry>, usize),
    frames: VecDeque<Frame>,
}

struct World {
    random: Random,
    mistake: Option<Mistake>,
    shards: Vec<Shard>,
    line: Line,
    generation: Generation,
    /// The record of each position: of this generation, and of those that were shown before.
    given: BTreeMap<u64, u64>,
    /// The records that were shown, by position.
    shown: Vec<u64>,
    /// Of each record what was shown when it was appended.
    began: Vec<u64>,
}

impl World {
    fn new(seed: u64, mistake: Option<Mistake>) -> World {
        let mut random = Random(seed.wrapping_mul(2) + 1);
        let count = 1 + random.below(3);
        let mut shards: Vec<Shard> = (0..count).map(|_| Shard::default()).collect();
        for partition in 0..PARTITIONS {
            let shard = &mut shards[partition % count];
            shard.logs.insert(partition, (Vec::new(), 0));
            shard.numbered.insert(partition, 0);
        }
        let mut world = World {
            random,
            mistake,
            line: Line::new(Position(0), count),
            shards,
            generation: Generation(0),
            given: BTreeMap::new(),
            shown: Vec::new(),
            began: Vec::new(),
        };
        world.open(Open {
            generation: Generation(1),
            first: Position(0),
            vector: vec![Offset::ZERO; PARTITIONS],
        });
        world
    }

    fn open(&mut self, open: Open) {
        self.generation = open.generation;
        self.line = Line::new(open.first, self.shards.len());
        self.given = (0..).zip(self.shown.iter().copied()).collect();
        for shard in &mut self.shards {
            for (partition, numbered) in &mut shard.numbered {
                *numbered = usize::try_from(open.vector[*partition].0).expect("few");
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
        self.began.push(self.shown.len() as u64);
        let log = self.shards[partition % count].logs.get_mut(&partition);
        log.expect("it is here").0.push(number);
    }

    /// Seals a frame, with the cut of what has no position yet.
    fn seal(&mut self, index: usize) {
        let shard = &mut self.shards[index];
        let mut runs = Vec::new();
        let mut records = Vec::new();
        for (partition, (log, _)) in &shard.logs {
            let numbered = shard.numbered.get_mut(partition).expect("it is here");
            if *numbered < log.len() {
                records.extend_from_slice(&log[*numbered..]);
                runs.push(Run {
                    partition: i32::try_from(*partition).expect("few"),
                    offsets: u32::try_from(log.len() - *numbered).expect("few"),
                });
                *numbered = log.len();
            }
        }
        let cut = (!runs.is_empty()).then(|| {
            let base = self.line.take(index, records.len() as u64);
            self.given.extend((base.0..).zip(records));
            let cut = Cut {
                generation: self.generation,
                base,
                ordered: self.line.ordered(),
                runs,
            };
            shard.strand.0.push(Entry::Cut(cut.clone()));
            cut
        });
        let logs = shard
            .logs
            .iter()
            .map(|(partition, (log, _))| (*partition, log.len()));
        shard.frames.push_back(Frame {
            logs: logs.collect(),
            strand: shard.strand.0.len(),
            cut,
        });
        if self.mistake == Some(Mistake::FloorRaisedEarly) {
            self.line.made_durable(index, None);
        }
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
        let floor = shard
            .frames
            .iter()
            .find_map(|frame| Some(frame.cut.as_ref()?.base));
        self.line.made_durable(index, floor);
        let mut ordered = self.line.ordered();
        if self.mistake == Some(Mistake::ShownAtOwnFlush) {
            ordered = frame.cut.map_or(ordered, |cut| cut.next().max(ordered));
        }
        self.show(ordered)
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
            if position < self.began[usize::try_from(record).expect("few")] {
                return Err(format!(
                    "position {position} was shown before its record was begun"
                ));
            }
            self.shown.push(record);
        }
        Ok(())
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
        self.shown.extend(found);
        self.open(open);
        Ok(())
    }

    fn step(&mut self) -> Result<(), String> {
        let shard = self.random.below(self.shards.len());
        match self.random.below(100) {
            0..45 => self.append(),
            45..70 => self.seal(shard),
            70..98 => self.flush(shard)?,
            _ => self.crash()?,
        }
        Ok(())
    }
}

fn run(seed: u64, mistake: Option<Mistake>) -> Result<usize, String> {
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
    let kept: usize = world
        .shards
        .iter()
        .flat_map(|shard| shard.logs.values())
        .map(|(log, _)| log.len())
        .sum();
    match world.shown.len() == kept {
        true => Ok(kept),
        false => Err(format!("{} of {kept} records are shown", world.shown.len())),
    }
}

#[test]
fn every_reader_sees_one_sequence_whatever_is_lost() {
    let mut shown = 0;
    for seed in 0..SEEDS {
        shown += run(seed, None).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    }
    assert!(shown as u64 > 50 * SEEDS, "{shown} records were shown");
}

#[test]
fn mistakes_are_found() {
    let is_found = |mistake| (0..SEEDS).any(|seed| run(seed, mistake).is_err());
    for mistake in [
        Mistake::ShownAtOwnFlush,
        Mistake::OpenNotDurable,
        Mistake::FloorRaisedEarly,
    ] {
        assert!(is_found(Some(mistake)), "{mistake:?}");
    }
    for bug in [Bug::VoidCutsCount, Bug::GapJumped, Bug::FloorOverwritten] {
        assert!(with(bug, || is_found(None)), "{bug:?}");
    }
}
