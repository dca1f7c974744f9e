//! Deleted partitions that something on the disk still tells of. Such a one must not begin anew: its deletion would be read back at the next
//! start, and takes all files of that name along.

use std::collections::{BTreeMap, VecDeque};

use record::PartitionId;

use super::Store;
use crate::checkpoint::{Checkpoint, Removal};

/// Each with the frame of its deletion.
#[derive(Default)]
pub(super) struct Deleted(BTreeMap<PartitionId, u64>);

impl Deleted {
    /// Those that recovery found to be removed still.
    pub(super) fn recovered(removals: &VecDeque<(Box<Removal>, u64)>) -> Deleted {
        let whole = removals.iter().filter(|(removal, _)| removal.segment.is_none());
        Deleted(
            whole
                .map(|(removal, frame)| (removal.partition, *frame))
                .collect(),
        )
    }

    pub(super) fn note(&mut self, id: PartitionId, frame: u64) {
        self.0.insert(id, frame);
    }
}

impl Store {
    /// Says whether the partition may be opened, empty: nothing tells of an earlier one of this identity.
    pub fn may_begin(&self, id: PartitionId) -> bool {
        let log = self.partitions.get(&id);
        log.is_none_or(|log| log.next == 0 && !log.has_vows) && !self.deleted.0.contains_key(&id)
    }

    /// Has the next round of layout end with a checkpoint if that makes [`Store::may_begin`] true of a deleted partition: its files are gone. Says
    /// whether it does.
    pub fn hasten_forgetting(&mut self, id: PartitionId) -> bool {
        let frame = self.deleted.0.get(&id).copied();
        let is_gone = !self.removals.iter().any(|removal| removal.partition == id);
        let is_due = frame.is_some_and(|frame| self.is_durable(frame)) && is_gone;
        if is_due {
            self.owe_checkpoint();
        }
        is_due
    }

    /// Forgets what neither a durable checkpoint nor the journal behind it tells of.
    pub(super) fn forget_deleted(&mut self, checkpoint: &Checkpoint) {
        let left = self.removals.iter().chain(&checkpoint.removals);
        let left: Vec<PartitionId> = left.map(|removal| removal.partition).collect();
        let is_told = |id: &PartitionId, frame: u64| frame >= checkpoint.replay.frame || left.contains(id);
        self.deleted.0.retain(|id, frame| is_told(id, *frame));
    }
}
