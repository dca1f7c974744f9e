//! The part of one shard in an order: it cuts what the shard stages, and says how far the shard's partitions may be shown.
//!
//! A batch goes through four states: *staged* in the shard's next frame, *cut* with positions in that same frame, *durable* with its cut, and
//! *shown* once everything below is durable on all shards. Nothing of a partition may be shown, or acknowledged to those who wait for its
//! commit, beyond what [`Cutter::show`] has said.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use planted::{Bug, planted};
use record::{Offset, Position};

use super::entry::{Cut, Generation, Run};
use super::line::{Line, SharedNumber};

/// See the module. Partitions go by their indexes in the topic.
#[derive(Debug)]
pub struct Cutter<Number = AtomicU64> {
    line: Arc<Line<Number>>,
    shard: usize,
    generation: Generation,
    /// The offsets of each partition that are staged and in no cut.
    staged: BTreeMap<i32, Range<Offset>>,
    /// Cuts that are not shown, in their order.
    cuts: VecDeque<Unshown>,
    /// The number of the first ones of these that are durable.
    durable: usize,
    /// Cuts that are shown, and were not taken yet.
    shown: Vec<Shown>,
    /// The number of their runs.
    runs_shown: usize,
    /// The line is to tell when other shards have made durable what is below.
    waits: bool,
}

/// A cut that is not shown.
#[derive(Debug)]
struct Unshown {
    base: Position,
    next: Position,
    /// The offset of its entry in the shard's strand.
    entry: Offset,
    /// Of each of its partitions the offsets that are in it.
    offsets: Vec<(i32, Range<Offset>)>,
}

/// A cut that is shown: all that it says holds for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The position of its first record.
    pub base: Position,
    /// The offset of its entry in the shard's strand.
    pub entry: Offset,
    /// In the order of their positions.
    pub runs: Vec<Run>,
}

impl<Number: SharedNumber> Cutter<Number> {
    /// The part of a shard that has nothing staged yet, in a generation that is open.
    #[must_use]
    pub fn new(line: Arc<Line<Number>>, shard: usize, generation: Generation) -> Cutter<Number> {
        Cutter {
            line,
            shard,
            generation,
            staged: BTreeMap::new(),
            cuts: VecDeque::new(),
            durable: 0,
            shown: Vec::new(),
            runs_shown: 0,
            waits: false,
        }
    }

    /// The line that it takes positions from.
    pub fn line(&self) -> &Line<Number> {
        &self.line
    }

    /// The generation of its cuts.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Takes note of offsets of a partition that were staged, whole batches of them. Those of one partition follow each other.
    ///
    /// # Panics
    /// They do not.
    pub fn note(&mut self, partition: i32, offsets: Range<Offset>) {
        assert!(offsets.start < offsets.end, "a batch has records");
        let staged = self.staged.entry(partition);
        let staged = staged.or_insert(offsets.start..offsets.start);
        assert_eq!(
            staged.end, offsets.start,
            "batches of a partition follow each other"
        );
        staged.end = offsets.end;
    }

    /// The number of partitions of the next cut; 0 if nothing is to be cut.
    pub fn partitions_staged(&self) -> usize {
        self.staged.len()
    }

    /// Takes positions for all that was staged; gives the cut that tells of them, if there is one. It is for the frame that is to be sealed next, and `entry`
    /// is the offset that it gets in the shard's strand: look before if there is room for it, for the positions hold up all others until it is durable.
    ///
    /// # Panics
    /// A partition has more offsets staged than a run can have.
    pub fn cut(&mut self, entry: Offset) -> Option<Cut> {
        if self.staged.is_empty() {
            return None;
        }
        let count = self.staged.values().map(count_of).sum();
        let base = self.line.take(self.shard, count);
        Some(self.cut_from(base, entry))
    }

    /// Takes note of whole batches, and cuts at once. With a `tail` only these are cut, and only if their first position is that one and all below is ordered.
    /// If not, nothing has changed, and [`Cutter::show`] has to be called: others may have waited meanwhile.
    ///
    /// # Panics
    /// As [`Cutter::note`] and [`Cutter::cut`].
    pub fn cut_with(
        &mut self,
        entry: Offset,
        (partition, offsets): (i32, Range<Offset>),
        tail: Option<Position>,
    ) -> Option<Cut> {
        let Some(tail) = tail else {
            self.note(partition, offsets);
            return self.cut(entry);
        };
        if !self.staged.is_empty() && !planted(Bug::StagedOvertaken) {
            return None;
        }
        let before: u64 = self.staged.values().map(count_of).sum();
        let base = self.line.take_if(self.shard, tail, before + count_of(&offsets))?;
        self.note(partition, offsets);
        Some(self.cut_from(base, entry))
    }

    /// The cut of all that is staged, from a position on that was taken for it.
    fn cut_from(&mut self, base: Position, entry: Offset) -> Cut {
        let staged = std::mem::take(&mut self.staged);
        let staged: Vec<(i32, Range<Offset>)> = staged.into_iter().collect();
        let runs: Vec<Run> = staged.iter().map(run_of).collect();
        if planted(Bug::FloorRaisedEarly) {
            self.line.made_durable(self.shard, None);
        }
        let cut = Cut {
            generation: self.generation,
            base,
            ordered: self.line.ordered(),
            runs,
        };
        self.cuts.push_back(Unshown {
            base,
            next: cut.next(),
            entry,
            offsets: staged,
        });
        cut
    }

    /// Takes note that the shard's strand is durable below an offset.
    pub fn handle_durable(&mut self, strand: Offset) {
        let later = self.cuts.iter().skip(self.durable);
        let count = later.take_while(|cut| cut.entry < strand).count();
        if count > 0 {
            self.durable += count;
            let floor = self.cuts.get(self.durable).map(|cut| cut.base);
            self.line.made_durable(self.shard, floor);
        }
    }

    /// Tells of each partition that may be shown further now, the offsets that may, and the position of the first of these. Returns what is ordered, for
    /// [`Line::take_waiting`]. To be called after a flush, and when the line says that this shard waits no more.
    pub fn show(&mut self, mut tell: impl FnMut(i32, &Range<Offset>, Position)) -> Position {
        loop {
            let ordered = self.line.ordered();
            let is_shown = |cut: &Unshown| cut.next <= ordered || planted(Bug::ShownAtOwnFlush);
            while self.durable > 0 && self.cuts.front().is_some_and(is_shown) {
                let cut = self.cuts.pop_front().expect("there is a first one");
                self.durable -= 1;
                let mut first = cut.base;
                for (partition, offsets) in &cut.offsets {
                    tell(*partition, offsets, first);
                    first = Position(first.0 + count_of(offsets));
                }
                self.runs_shown += cut.offsets.len();
                self.shown.push(Shown {
                    base: cut.base,
                    entry: cut.entry,
                    runs: cut.offsets.iter().map(run_of).collect(),
                });
            }
            let first = self.cuts.front().filter(|_| self.durable > 0);
            let wanted = first.map(|cut| cut.next);
            if self.waits || wanted.is_some() {
                self.line.wait(self.shard, wanted);
                self.waits = wanted.is_some();
            }
            // It may have come to pass just before.
            let is_late = wanted.is_some_and(|wanted| wanted <= self.line.ordered());
            if !is_late || planted(Bug::NoSecondLook) {
                return ordered;
            }
        }
    }

    /// Says whether something is durable here and not shown.
    pub fn has_unshown(&self) -> bool {
        self.durable > 0
    }

    /// The number of runs of the cuts that [`Cutter::take_shown`] would give.
    pub fn runs_shown(&self) -> usize {
        self.runs_shown
    }

    /// The cuts that were shown since the last call, in their order.
    pub fn take_shown(&mut self) -> Vec<Shown> {
        self.runs_shown = 0;
        std::mem::take(&mut self.shown)
    }
}

fn count_of(offsets: &Range<Offset>) -> u64 {
    (offsets.end.0 - offsets.start.0) as u64
}

fn run_of((partition, offsets): &(i32, Range<Offset>)) -> Run {
    Run {
        partition: *partition,
        offsets: u32::try_from(offsets.end.0 - offsets.start.0).expect("a frame has fewer records"),
    }
}
