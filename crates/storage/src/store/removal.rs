//! Giving up: the prefix of a log (trim), or a partition. Journaled first; files go later, in the background.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use platform::disk::Disk;
use record::{Epoch, Offset, PartitionId};

use super::Store;
use crate::checkpoint::Removal;
use crate::journal::StageError;
use crate::journal::frame::{EntryHeader, EntryKind};
use crate::planted::{Bug, planted};
use crate::segment::{PARTITIONS, directory, path};

/// Removes files that nothing refers to; to be run anywhere, then given to `removed`. Blocks.
pub struct RemovalJob {
    disk: Arc<dyn Disk>,
    removal: Removal,
}

impl RemovalJob {
    /// Removes.
    ///
    /// # Errors
    /// The disk's; the removal may be tried again.
    pub fn run(&self) -> io::Result<()> {
        let partition = directory(&self.removal.partition);
        let above = match self.removal.segment {
            Some(first) => {
                self.disk.remove(&path(&self.removal.partition, first))?;
                partition
            }
            None => {
                self.disk.remove_directory(&partition)?;
                PathBuf::from(PARTITIONS)
            }
        };
        // Only then may a checkpoint forget it: a name that comes back after a crash would stay for ever.
        match self.disk.sync_directory(&above) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            synced => synced,
        }
    }
}

impl Store {
    /// Moves a log's start up to `log_start`: at once for readers, for ever once the returned frame `is_durable`.
    ///
    /// # Errors
    /// As `append`. Nothing has changed then.
    ///
    /// # Panics
    /// If the partition is unknown or `log_start` lies behind its end: the caller's mistake.
    pub fn trim(&mut self, id: PartitionId, log_start: Offset) -> Result<u64, StageError> {
        let next = Offset(
            self.partitions
                .get(&id)
                .expect("a partition is opened before it is trimmed")
                .next,
        );
        assert!(log_start <= next, "a log cannot start behind its end");
        let frame = self.stage_bare(EntryKind::Trim, id, log_start)?;
        self.give_up_below(id, log_start.0, frame);
        Ok(frame)
    }

    /// Forgets the segments that a trim, journaled in `frame`, leaves nothing of. A layout step that is out may be writing
    /// to the open one: that one goes when the step is back.
    pub(super) fn give_up_below(&mut self, id: PartitionId, log_start: i64, frame: u64) {
        let stepping = self.round.as_ref().is_some_and(|round| round.stepping);
        let Some(log) = self.partitions.get_mut(&id) else {
            return;
        };
        for segment in log.trim(log_start, stepping && !planted(Bug::RunInTrimmedSegment)) {
            self.files.remove(&(id, segment.first));
            self.tables.remove(&(id, segment.first));
            self.removals.push_back((
                Removal {
                    partition: id,
                    segment: Some(segment.first),
                },
                frame,
            ));
        }
    }

    /// Gives a partition up for ever. Its identity is never used again.
    ///
    /// # Errors
    /// As `append`. Nothing has changed then.
    pub fn delete_partition(&mut self, id: PartitionId) -> Result<(), StageError> {
        if !self.partitions.contains_key(&id) {
            return Ok(());
        }
        let frame = self.stage_bare(EntryKind::Delete, id, Offset::ZERO)?;
        self.forget_partition(id);
        self.removals.push_back((
            Removal {
                partition: id,
                segment: None,
            },
            frame,
        ));
        Ok(())
    }

    fn forget_partition(&mut self, id: PartitionId) {
        let Some(log) = self.partitions.remove(&id) else {
            return;
        };
        for segment in &log.segments {
            self.files.remove(&(id, segment.first));
            self.tables.remove(&(id, segment.first));
        }
    }

    fn stage_bare(
        &mut self,
        kind: EntryKind,
        partition: PartitionId,
        first: Offset,
    ) -> Result<u64, StageError> {
        let header = EntryHeader {
            kind,
            partition,
            epoch: Epoch(0),
            first,
            next: first,
            payload_bytes: 0,
        };
        self.journal.stage(&header, &[]).map(|staged| staged.frame)
    }

    /// Where the log should start so that nothing is kept that is older than `oldest_ms`, and no sealed segment that a size
    /// of `bytes_max` has no room for; `None` if nothing is to go. Kafka's `retention.ms` and `retention.bytes`.
    pub fn retention_start(
        &self,
        id: PartitionId,
        oldest_ms: Option<i64>,
        bytes_max: Option<u64>,
    ) -> Option<Offset> {
        let log = self.partitions.get(&id)?;
        let too_old = |max_timestamp_ms: i64| oldest_ms.is_some_and(|oldest| max_timestamp_ms < oldest);
        let mut excess = bytes_max.map_or(0, |most| self.partition_bytes(id).saturating_sub(most));
        let mut start = None;
        for segment in &log.segments {
            let too_much = segment.sealed && excess >= segment.end && excess > 0;
            if !too_much && !too_old(segment.max_timestamp_ms) {
                return start;
            }
            excess = excess.saturating_sub(segment.end);
            start = Some(Offset(segment.next));
        }
        let journal_only = log.tail.iter().skip_while(|batch| batch.next <= log.laid_out);
        let gone = journal_only.take_while(|batch| too_old(batch.max_timestamp_ms));
        gone.last().map(|batch| Offset(batch.next)).or(start)
    }

    /// The next files to remove, if any may be and none are being removed. Never while a layout step is out: it may be
    /// writing there.
    pub fn next_removal(&mut self) -> Option<RemovalJob> {
        let stepping = self.round.as_ref().is_some_and(|round| round.stepping);
        let (removal, frame) = *self.removals.front()?;
        let may_go = self.is_durable(frame) || planted(Bug::RemovedBeforeTrimIsDurable);
        if stepping || self.removing.is_some() || !may_go {
            return None;
        }
        self.removals.pop_front();
        self.removing = Some(removal);
        Some(RemovalJob {
            disk: self.disk.clone(),
            removal,
        })
    }

    /// Takes a removal's outcome.
    ///
    /// # Errors
    /// The disk's, for reporting; it will be tried again.
    pub fn removed(&mut self, job: RemovalJob, result: io::Result<()>) -> io::Result<()> {
        self.removing = None;
        if result.is_err() {
            self.removals.push_back((job.removal, 0));
        }
        result
    }
}
