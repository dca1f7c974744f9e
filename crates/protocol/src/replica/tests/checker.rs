//! Invariants of all replicas together, checked whenever one of them changes. A violation is a panic.

use std::collections::BTreeMap;

use record::{Epoch, Offset};

use crate::history::BatchFacts;
use crate::producers::ProducerId;

/// The committed log as somebody sees it who sees every replica.
#[derive(Default)]
pub(super) struct Checker {
    /// Every batch that any replica has ever shown as committed. The timestamp of a batch names it.
    committed: Vec<BatchFacts>,
    /// The epoch in which each of them was first shown.
    committed_in: Vec<Epoch>,
    /// The batches that were ever written, by epoch and first offset.
    named: BTreeMap<(Epoch, Offset), i64>,
    /// The leaders that have opened: where each epoch began, and its log then.
    opened: Vec<(Epoch, Opened)>,
    leaders: BTreeMap<Epoch, (usize, u32)>,
    sequences: BTreeMap<ProducerId, i32>,
}

/// The log of a leader when it opened.
pub(super) struct Opened {
    pub(super) log_start: Offset,
    pub(super) log: Vec<BatchFacts>,
}

impl Opened {
    /// Says whether the log has this very batch, or had it and gave it up.
    fn holds(&self, batch: &BatchFacts) -> bool {
        batch.first_offset < self.log_start || holds(&self.log, batch)
    }
}

impl Checker {
    pub(super) fn committed(&self) -> &[BatchFacts] {
        &self.committed
    }

    pub(super) fn committed_end(&self) -> Offset {
        self.committed
            .last()
            .map_or(Offset::ZERO, BatchFacts::next_offset)
    }

    /// A batch was written by the leader of an epoch, or copied.
    pub(super) fn wrote(&mut self, batch: &BatchFacts) {
        let name = self
            .named
            .entry((batch.epoch, batch.first_offset))
            .or_insert(batch.max_timestamp_ms);
        assert_eq!(
            *name, batch.max_timestamp_ms,
            "epoch {} and offset {} name two batches",
            batch.epoch, batch.first_offset
        );
    }

    /// A leader has opened an epoch: its log holds everything that earlier epochs have committed.
    pub(super) fn opened(&mut self, node: usize, incarnation: u32, epoch: Epoch, opened: Opened) {
        let known = *self.leaders.entry(epoch).or_insert((node, incarnation));
        assert_eq!(
            known,
            (node, incarnation),
            "epoch {epoch} is opened by two leaders"
        );
        let committed = self.committed.iter().zip(&self.committed_in);
        let mut earlier = committed.filter(|(_, committed_in)| **committed_in < epoch);
        let missing = earlier.find(|(batch, _)| !opened.holds(batch));
        assert_eq!(
            missing, None,
            "epoch {epoch} opens on node {node} without a committed batch"
        );
        self.opened.push((epoch, opened));
    }

    /// A replica shows everything below `tail` as committed, in this epoch. Below `from` it has shown the same before.
    pub(super) fn shown(
        &mut self,
        node: usize,
        epoch: Epoch,
        log: &[BatchFacts],
        from: Offset,
        tail: Offset,
    ) {
        let begin = log.partition_point(|batch| batch.first_offset < from);
        for batch in log[begin..]
            .iter()
            .take_while(|batch| batch.next_offset() <= tail)
        {
            if batch.first_offset < self.committed_end() {
                assert!(
                    holds(&self.committed, batch),
                    "node {node} shows {batch:?} where something else is committed"
                );
                continue;
            }
            assert_eq!(
                batch.first_offset,
                self.committed_end(),
                "what is committed has no gaps"
            );
            self.commit(epoch, *batch);
        }
    }

    fn commit(&mut self, epoch: Epoch, batch: BatchFacts) {
        for (later, log) in self.opened.iter().filter(|(later, _)| *later > epoch) {
            assert!(
                log.holds(&batch),
                "{batch:?} is committed in epoch {epoch}, and epoch {later} has opened without it"
            );
        }
        if let Some(stamp) = batch.producer {
            let next = self.sequences.entry(stamp.id).or_insert(0);
            assert_eq!(
                stamp.first_sequence, *next,
                "each sequence of a producer stands in the log once, in order"
            );
            *next += batch.record_count;
        }
        self.committed.push(batch);
        self.committed_in.push(epoch);
    }
}

fn holds(log: &[BatchFacts], batch: &BatchFacts) -> bool {
    let at = log.binary_search_by_key(&batch.first_offset, |held| held.first_offset);
    at.is_ok_and(|at| log[at] == *batch)
}
