//! The latest epochs of producers whose transactions have to do with groups here: what comes with a lower one is of a producer, or
//! a transaction coordinator, that has been replaced.
//!
//! Producers with pending offsets are all known: their records tell the epochs after a start. Of the others so many are
//! remembered as were heard of last. One that is forgotten, or was heard of before a start, is checked by the transaction
//! coordinator alone.

use std::collections::{BTreeMap, BTreeSet};

use super::super::contract::{EndTransaction, GroupError};
use crate::producers::ProducerId;

/// Producers without pending offsets that are remembered.
const RECENT_MAX: usize = 10_000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Producers {
    known: BTreeMap<ProducerId, Known>,
    /// Those without pending offsets, the one first that was heard of least recently.
    recent: BTreeSet<(u64, ProducerId)>,
    next_turn: u64,
}

#[derive(Debug)]
struct Known {
    epoch: i16,
    coordinator_epoch: i32,
    /// The highest epoch with which something is pending.
    pending_epoch: Option<i16>,
    /// The place among the recent ones.
    turn: u64,
}

impl Producers {
    pub(super) fn coordinator_epoch(&self, producer: ProducerId) -> i32 {
        self.known
            .get(&producer)
            .map_or(-1, |known| known.coordinator_epoch)
    }

    pub(super) fn check_epoch(&self, producer: ProducerId, got: i16) -> Result<(), GroupError> {
        match self.known.get(&producer) {
            Some(known) if got < known.epoch => Err(GroupError::InvalidProducerEpoch {
                current: known.epoch,
                got,
            }),
            _ => Ok(()),
        }
    }

    /// Checks that a marker may end what is pending.
    pub(super) fn check_end(&self, end: &EndTransaction) -> Result<(), GroupError> {
        self.check_epoch(end.producer, end.producer_epoch)?;
        let Some(known) = self.known.get(&end.producer) else {
            return Ok(());
        };
        // A late marker, of a transaction before the one that is open.
        if let Some(current) = known.pending_epoch.filter(|epoch| !end.ends(*epoch)) {
            let got = end.producer_epoch;
            return Err(GroupError::InvalidProducerEpoch { current, got });
        }
        if end.coordinator_epoch < known.coordinator_epoch {
            return Err(GroupError::TransactionCoordinatorFenced {
                current: known.coordinator_epoch,
                got: end.coordinator_epoch,
            });
        }
        Ok(())
    }

    /// A marker is taken.
    pub(super) fn note_end(&mut self, end: &EndTransaction) {
        self.raise(end.producer, end.producer_epoch, end.coordinator_epoch);
    }

    /// The producer has a pending offset.
    pub(super) fn note_pending(&mut self, producer: ProducerId, epoch: i16, coordinator_epoch: i32) {
        let known = self.raise(producer, epoch, coordinator_epoch);
        let before = known.pending_epoch;
        known.pending_epoch = Some(before.map_or(epoch, |before| before.max(epoch)));
        let place = (known.turn, producer);
        self.recent.remove(&place);
    }

    /// The producer has no pending offsets any more.
    pub(super) fn note_settled(&mut self, producer: ProducerId) {
        if let Some(known) = self.known.get_mut(&producer) {
            known.pending_epoch = None;
        }
        self.raise(producer, -1, -1);
    }

    /// Hears of a producer: its epochs never fall, and it is the most recent one.
    fn raise(&mut self, producer: ProducerId, epoch: i16, coordinator_epoch: i32) -> &mut Known {
        let turn = self.next_turn;
        self.next_turn += 1;
        let known = self.known.entry(producer).or_insert(Known {
            epoch,
            coordinator_epoch,
            pending_epoch: None,
            turn,
        });
        known.epoch = known.epoch.max(epoch);
        known.coordinator_epoch = known.coordinator_epoch.max(coordinator_epoch);
        self.recent.remove(&(known.turn, producer));
        known.turn = turn;
        if known.pending_epoch.is_none() {
            self.recent.insert((turn, producer));
        }
        self.forget_oldest();
        self.known.get_mut(&producer).expect("it is the most recent one")
    }

    fn forget_oldest(&mut self) {
        while self.recent.len() > RECENT_MAX
            && let Some((_, producer)) = self.recent.pop_first()
        {
            self.known.remove(&producer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(producer: i64, epoch: i16, coordinator_epoch: i32, version: i16) -> EndTransaction {
        EndTransaction {
            producer: ProducerId(producer),
            producer_epoch: epoch,
            coordinator_epoch,
            version,
            commit: true,
        }
    }

    #[test]
    fn so_many_are_remembered_and_all_with_pending_offsets() {
        let mut producers = Producers::default();
        producers.note_pending(ProducerId(1), 7, 3);
        producers.note_end(&end(2, 7, 3, 1));
        for producer in 0..RECENT_MAX as i64 {
            producers.note_end(&end(1_000 + producer, 1, 1, 1));
        }
        assert_eq!(producers.recent.len(), RECENT_MAX);
        assert_eq!(producers.known.len(), RECENT_MAX + 1);
        assert_eq!(producers.check_epoch(ProducerId(2), 0), Ok(()));
        let stale = GroupError::InvalidProducerEpoch { current: 7, got: 6 };
        assert_eq!(producers.check_epoch(ProducerId(1), 6), Err(stale));
        // It is one of the others once nothing is pending.
        producers.note_settled(ProducerId(1));
        assert_eq!(producers.known.len(), RECENT_MAX);
        assert_eq!(producers.coordinator_epoch(ProducerId(1)), 3);
    }

    #[test]
    fn a_late_marker_does_not_end_the_next_transaction() {
        let mut producers = Producers::default();
        let producer = ProducerId(1);
        producers.note_pending(producer, 0, -1);
        assert_eq!(producers.check_end(&end(1, 1, 5, 2)), Ok(()));
        producers.note_end(&end(1, 1, 5, 2));
        // Not all of it is done: it comes again.
        assert_eq!(producers.check_end(&end(1, 1, 5, 2)), Ok(()));
        producers.note_settled(producer);
        assert_eq!(producers.check_end(&end(1, 1, 5, 2)), Ok(()));
        producers.note_pending(producer, 1, 5);
        let late = GroupError::InvalidProducerEpoch { current: 1, got: 1 };
        assert_eq!(producers.check_end(&end(1, 1, 5, 2)), Err(late));
        // By the first version that cannot be told from the right one.
        assert_eq!(producers.check_end(&end(1, 1, 5, 1)), Ok(()));
        let fenced = GroupError::TransactionCoordinatorFenced { current: 5, got: 4 };
        assert_eq!(producers.check_end(&end(1, 2, 4, 2)), Err(fenced));
        assert_eq!(producers.check_end(&end(1, 2, 6, 2)), Ok(()));
    }
}
