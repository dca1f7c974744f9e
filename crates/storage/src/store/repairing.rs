//! Scrubbing and repair as the store sees them: which segment is read next, which may be written anew, and when what was written
//! counts. All of that is as for compaction (`compacting.rs`): the switch is the next checkpoint.

use record::{Offset, PartitionId};

use super::Store;
use crate::compaction::Place;
use crate::damage::Damage;
use crate::repair::{Repair, Rewrite};
use crate::scrub::Scrub;

/// Why a damaged segment is not written anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotNow {
    /// It is not there any more: it was trimmed, deleted, compacted or repaired.
    #[error("it is gone")]
    Gone,
    /// Try again: it is being written to, or something else is being written.
    #[error("it is in use")]
    InUse,
    /// Try again after a checkpoint: none names all of it yet.
    #[error("it is in no checkpoint yet")]
    Unrecorded,
    /// This version cannot.
    #[error("it lists aborted transactions, which cannot be lent")]
    Unable,
}

/// The outcome of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairEnd {
    /// The new segment is in the place of the old one.
    InPlace,
    /// The old one is not there any more.
    Gone,
}

impl Store {
    /// Begins to read the segment that holds `from`, or the first one behind it, for damage. `None` if there is none.
    pub fn begin_scrub(&mut self, id: PartitionId, from: Offset) -> Option<Scrub> {
        let log = self.partitions.get(&id)?;
        let log_start = log.log_start;
        let segment = log.segments[log.segment_index(from.0.max(log_start))?];
        let lease = self.lease(&segment);
        Some(Scrub::new(self.place(id), segment, log_start, lease))
    }

    /// Says whether what is read is still its partition's: if not, what was found of it is of no account.
    pub fn has_scrubbed(&self, scrub: &Scrub) -> bool {
        self.has_segment((scrub.partition(), scrub.name()))
    }

    /// Says whether the segment that is damaged is still its partition's.
    pub fn has_damaged(&self, damage: &Damage) -> bool {
        self.has_segment((damage.partition(), damage.lost.segment.name()))
    }

    /// Begins to write a damaged segment anew. Nothing is read or written before the first step. The disk keeps its reserve.
    ///
    /// # Errors
    /// See [`NotNow`]: then nothing has begun.
    pub fn begin_repair(&mut self, damage: &Damage, disk_reserve_bytes: u64) -> Result<Repair, NotNow> {
        let (id, name) = (damage.partition(), damage.lost.segment.name());
        let is_writing = self.layout.is_writing_to(id);
        let is_compacting = self.compaction.is_under_way(id);
        let log = self.partitions.get_mut(&id).ok_or(NotNow::Gone)?;
        let found = log.segments.iter().find(|segment| segment.name() == name);
        let mut segment = *found.ok_or(NotNow::Gone)?;
        if segment.aborted > 0 {
            return Err(NotNow::Unable);
        }
        let is_dead = self.journal.dead().is_some();
        if self.repairing.is_some() || is_compacting || is_writing || is_dead || log.is_importing() {
            return Err(NotNow::InUse);
        }
        if !segment.sealed {
            // Later batches go into another one.
            log.end_segment(Some(segment.first));
            segment.sealed = true;
        }
        if segment.next > log.recorded {
            return Err(NotNow::Unrecorded);
        }
        let log_start = log.log_start;
        let log = &self.partitions[&id];
        let known = self.files_of(log);
        let lease = self.lease(&segment);
        self.repairing = Some(id);
        Ok(Repair::new(
            self.place(id),
            segment,
            log_start,
            known,
            disk_reserve_bytes,
            lease,
        ))
    }

    /// Puts what was written in the place of the damaged segment, if that is still there. A checkpoint is owed then.
    pub fn repaired(&mut self, repair: &Repair, rewrite: &Rewrite) -> RepairEnd {
        let id = repair.partition();
        assert!(self.repairing.take() == Some(id), "a repair ends once");
        match self.put_in_place(id, &rewrite.rewritten) {
            Some(_) => {
                self.compaction.note_owed(true);
                RepairEnd::InPlace
            }
            None => RepairEnd::Gone,
        }
    }

    /// Gives a repair up. Its file is to be removed: by the returned job's `run`, which blocks.
    pub fn end_repair(&mut self, repair: Repair) -> AbandonedRepair {
        assert!(
            self.repairing.take() == Some(repair.partition()),
            "a repair ends once"
        );
        AbandonedRepair(repair)
    }

    fn place(&self, partition: PartitionId) -> Place {
        Place {
            disk: self.disk.clone(),
            journal: self.config.identity,
            partition,
        }
    }
}

/// A repair that came to nothing.
pub struct AbandonedRepair(Repair);

impl AbandonedRepair {
    /// Takes away what it has written.
    pub fn run(self) {
        self.0.abandon();
    }
}
