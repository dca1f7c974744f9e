//! Giving up: the prefix of a log (trim), or a partition. Journaled first; files go later, in the background. Journal files
//! that segments adopted go back to the journal if it has a use of them (`returning`).

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use platform::disk::Disk;
use record::{Epoch, Offset, PartitionId};

use super::Store;
use crate::checkpoint::Removal;
use crate::checksum::JournalIdentity;
use crate::journal::frame::{EntryHeader, EntryKind};
use crate::journal::{self, JournalFile, StageError};
use crate::planted::{Bug, planted};
use crate::segment::{AdoptedFile, PARTITIONS, Segment, directory, path};

/// The least time between removals of whole journal files. Where a file system tells the disk of freed blocks at once, many
/// large files removed together make flushes wait for hundreds of milliseconds. Far more than a core appends meanwhile.
pub const REMOVAL_PAUSE: Duration = Duration::from_millis(100);

/// Removes files that nothing refers to, or gets a journal file ready to go back to the journal; to be run anywhere, then
/// given to `removed`. Blocks.
pub struct RemovalJob {
    disk: Arc<dyn Disk>,
    journal: JournalIdentity,
    doomed: Doomed,
}

/// What a job removes.
enum Doomed {
    /// What a trim or a deletion gave up. With `keep`, but for the journal file.
    GivenUp { removal: Removal, keep: bool },
    /// A journal file that the journal has no use of.
    Surplus(JournalFile),
}

impl RemovalJob {
    /// Whether it frees a whole journal file, which is large: the next removal then waits for [`REMOVAL_PAUSE`].
    pub fn frees_journal_file(&self) -> bool {
        match &self.doomed {
            Doomed::GivenUp { removal, keep } => removal.adopted.is_some() && !keep,
            Doomed::Surplus(_) => true,
        }
    }

    /// Removes. Returns the journal file that was kept, if one was.
    ///
    /// # Errors
    /// The disk's; the removal may be tried again.
    pub fn run(&self) -> io::Result<Option<JournalFile>> {
        match &self.doomed {
            Doomed::GivenUp { removal, keep } => self.remove_given_up(removal, *keep),
            Doomed::Surplus(file) => {
                let directory = journal::directory(&self.journal);
                self.disk.remove(&directory.join(&file.name))?;
                self.sync(&directory).map(|()| None)
            }
        }
    }

    fn remove_given_up(&self, removal: &Removal, keep: bool) -> io::Result<Option<JournalFile>> {
        let mut kept = None;
        if let Some(file) = &removal.adopted {
            kept = if keep { self.reopen(file) } else { None };
            if kept.is_none() {
                self.disk.remove(&file.path(&self.journal))?;
                self.sync(&journal::directory(&self.journal))?;
            }
        }
        let partition = directory(&removal.partition);
        match (removal.segment, removal.adopted) {
            (Some(name), _) => {
                self.disk.remove(&path(&removal.partition, name))?;
                self.sync(&partition)?;
            }
            // One of the files of a partition that goes as a whole.
            (None, Some(_)) => {}
            (None, None) => {
                self.disk.remove_directory(&partition)?;
                self.sync(Path::new(PARTITIONS))?;
            }
        }
        Ok(kept)
    }

    /// The file for the journal, or none if it is not fit for that: then it goes.
    fn reopen(&self, file: &AdoptedFile) -> Option<JournalFile> {
        journal::reopen(&self.disk, &self.journal, file)
            .inspect_err(|error| {
                let path = self.disk.root().join(file.path(&self.journal));
                tracing::warn!(%error, file = %path.display(), "a journal file is removed instead of being used again");
            })
            .ok()
    }

    /// Only then may a checkpoint forget it: a name that comes back after a crash would stay for ever.
    fn sync(&self, directory: &Path) -> io::Result<()> {
        match self.disk.sync_directory(directory) {
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

    /// Forgets the segments that a trim, journaled in `frame`, leaves nothing of. A layout step of this partition that is out
    /// may be writing to the open one: that one goes when the step is back. Nobody comes back to it for another's step.
    pub(super) fn give_up_below(&mut self, id: PartitionId, log_start: i64, frame: u64) {
        let round = self.round.as_ref();
        let stepping = round.is_some_and(|round| round.stepping && round.waiting.front() == Some(&id));
        let Some(log) = self.partitions.get_mut(&id) else {
            return;
        };
        for segment in log.trim(log_start, stepping && !planted(Bug::RunInTrimmedSegment)) {
            let removal = Removal {
                partition: id,
                segment: Some(segment.name()),
                adopted: self.forget_segment(id, &segment),
            };
            self.removals.push_back((removal, frame));
        }
    }

    /// Drops what is in memory of a segment. Returns the journal file that it adopted, if that is to be removed with it:
    /// one that recovery still needs goes back to the journal.
    pub(super) fn forget_segment(&mut self, id: PartitionId, segment: &Segment) -> Option<AdoptedFile> {
        self.files.remove(&(id, segment.name()));
        self.tables.remove(&(id, segment.name()));
        let adopted = segment.adopted?;
        self.adopted.remove(&adopted.sequence);
        let is_needed = self.journal.has_file(adopted.sequence) && !planted(Bug::AdoptedFileRemoved);
        if is_needed {
            self.leases.remove(&adopted.sequence);
            return None;
        }
        Some(adopted)
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
        let log = self.partitions.remove(&id).expect("seen above");
        let files: Vec<AdoptedFile> = log
            .segments
            .iter()
            .filter_map(|segment| self.forget_segment(id, segment))
            .collect();
        for adopted in files.into_iter().map(Some).chain([None]) {
            let removal = Removal {
                partition: id,
                segment: None,
                adopted,
            };
            self.removals.push_back((removal, frame));
        }
        Ok(())
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
            let too_much = segment.sealed && excess >= segment.stored_bytes() && excess > 0;
            if !too_much && !too_old(segment.max_timestamp_ms) {
                return start;
            }
            excess = excess.saturating_sub(segment.stored_bytes());
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
        if stepping || self.removing.is_some() {
            return None;
        }
        let doomed = self
            .next_given_up()
            .or_else(|| self.journal.take_surplus().map(Doomed::Surplus))?;
        Some(RemovalJob {
            disk: self.disk.clone(),
            journal: self.config.identity,
            doomed,
        })
    }

    fn next_given_up(&mut self) -> Option<Doomed> {
        let (removal, frame) = *self.removals.front()?;
        if !self.is_durable(frame) && !planted(Bug::RemovedBeforeTrimIsDurable) {
            return None;
        }
        self.removals.pop_front();
        self.removing = Some(removal);
        let keep = removal.adopted.is_some_and(|file| self.wants_back(&file));
        Some(Doomed::GivenUp { removal, keep })
    }

    /// Takes a removal's outcome.
    ///
    /// # Errors
    /// The disk's, for reporting; it will be tried again.
    pub fn removed(&mut self, job: RemovalJob, result: io::Result<Option<JournalFile>>) -> io::Result<()> {
        match (job.doomed, result) {
            (Doomed::GivenUp { removal, .. }, Ok(kept)) => {
                self.removing = None;
                if let Some(adopted) = removal.adopted {
                    self.settle_adopted(adopted, kept);
                }
                Ok(())
            }
            (Doomed::GivenUp { removal, .. }, Err(error)) => {
                self.removing = None;
                self.removals.push_back((removal, 0));
                Err(error)
            }
            (Doomed::Surplus(_), Ok(_)) => Ok(()),
            (Doomed::Surplus(file), Err(error)) => {
                self.journal.not_removed(file);
                Err(error)
            }
        }
    }
}
