//! Giving up: the prefix of a log (trim), or a partition. Journaled first; files go later, in the background. Journal files
//! that segments adopted go back to the journal if it has a use of them (`returning`).
//!
//! A large file goes in steps. First its name, for good; then what it has, from its end on: where a file system tells the disk of
//! freed blocks at once, many of them together make flushes wait. What reads it meanwhile finds it too short, looks again where
//! its records are, and finds them there or given up.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use planted::{Bug, planted};
use platform::disk::{BLOCK_BYTES, Disk, File};
use record::{Epoch, Offset, PartitionId};

use super::Store;
use crate::checkpoint::Removal;
use crate::checksum::JournalIdentity;
use crate::journal::frame::{EntryHeader, EntryKind};
use crate::journal::{self, JournalFile, Reserve, StageError};
use crate::segment::{AdoptedFile, PARTITIONS, Segment, directory, path};

/// The most bytes that a file gives back at once. Flushes wait about as long for it as for a write of this length.
const STEP_BYTES: u64 = 2 << 20;
/// A journal file goes in so many steps at least.
const STEPS_MIN: u64 = 4;
/// Files of one partition that lose their names at once: until they are gone, each is open.
pub(super) const UNNAMED_MAX: usize = 16;
/// The least time between two steps of large files. With `STEP_BYTES` far more than a core appends meanwhile.
pub const REMOVAL_PAUSE: Duration = Duration::from_millis(6);

/// The limit by age: older records are given up if they have stood long enough for readers to come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgeLimit {
    /// The earliest time that is kept, in milliseconds since 1970.
    pub oldest_ms: i64,
    /// Records from here on were appended too lately, whatever time they bear: they stay.
    pub stood_before: Offset,
}

/// Removes files that nothing refers to, or gets a journal file ready to go back to the journal; to be run anywhere, then
/// given to `removed`. Blocks.
pub struct RemovalJob {
    disk: Arc<dyn Disk>,
    journal: JournalIdentity,
    doomed: Doomed,
    /// Bytes that a file may give back at once.
    step_bytes: u64,
}

/// The files that a job removes.
enum Doomed {
    /// The files that a trim or a deletion gave up. With `keep`, but for the journal file.
    GivenUp { removal: Removal, keep: bool },
    /// A journal file that the journal has no use of.
    Surplus(JournalFile),
    /// A step of a large one.
    Unnamed(Unnamed),
}

/// A large file that has lost its name, and what it still has.
struct Unnamed {
    file: Arc<dyn File>,
    bytes: u64,
}

/// Files that are given up and not gone yet.
#[derive(Default)]
pub(super) struct Removals {
    /// Each in its own place, and the frame that must be durable before.
    waiting: VecDeque<(Box<Removal>, u64)>,
    /// Those whose files an earlier checkpoint needs, where the one that was read may not be durable.
    held_back: VecDeque<(Box<Removal>, u64)>,
    under_way: Option<Removal>,
    /// Large files on their way out.
    unnamed: Vec<Unnamed>,
}

impl Removals {
    /// Those that a checkpoint lists: each may be made at once.
    pub(super) fn listed(removals: VecDeque<(Box<Removal>, u64)>) -> Removals {
        Removals {
            waiting: removals,
            ..Removals::default()
        }
    }

    /// Has those that wait now wait for a durable checkpoint.
    pub(super) fn hold_back(&mut self) {
        self.held_back.append(&mut self.waiting);
    }

    /// A checkpoint is durable: nothing is held back any more.
    pub(super) fn release(&mut self) {
        self.waiting.append(&mut self.held_back);
    }

    /// Has files removed once `frame` is durable.
    pub(super) fn push(&mut self, removal: Removal, frame: u64) {
        self.waiting.push_back((Box::new(removal), frame));
    }

    /// Has files removed that nothing in the journal is about.
    pub(super) fn push_free(&mut self, removal: Removal) {
        self.push(removal, 0);
    }

    /// All that are not made.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Removal> {
        let waiting = self.waiting.iter().chain(&self.held_back);
        let waiting = waiting.map(|(removal, _)| removal.as_ref());
        waiting.chain(&self.under_way)
    }
}

/// The rest that a removal left.
#[derive(Default)]
pub struct Removed {
    kept: Option<JournalFile>,
    unnamed: Vec<Unnamed>,
    /// More is left than goes at once.
    is_part: bool,
}

impl RemovalJob {
    /// Says whether the next one is to wait for [`REMOVAL_PAUSE`].
    pub fn wants_pause(&self) -> bool {
        matches!(self.doomed, Doomed::Unnamed(_)) && self.step_bytes < u64::MAX
    }

    /// Removes.
    ///
    /// # Errors
    /// The disk's; the removal may be tried again.
    pub fn run(&self) -> io::Result<Removed> {
        let mut removed = Removed::default();
        match &self.doomed {
            Doomed::GivenUp { removal, keep } => self.remove_given_up(removal, *keep, &mut removed)?,
            Doomed::Surplus(file) => {
                let directory = journal::directory(&self.journal);
                self.unlink(&directory.join(&file.name), &directory, &mut removed)?;
            }
            Doomed::Unnamed(unnamed) => removed.unnamed.extend(self.shrink(unnamed)?),
        }
        Ok(removed)
    }

    fn remove_given_up(&self, removal: &Removal, keep: bool, removed: &mut Removed) -> io::Result<()> {
        if let Some(file) = &removal.adopted {
            removed.kept = if keep { self.reopen(file) } else { None };
            if removed.kept.is_none() {
                let directory = journal::directory(&self.journal);
                self.unlink(&file.path(&self.journal), &directory, removed)?;
            }
        }
        let partition = directory(&removal.partition);
        match (removal.segment, removal.adopted) {
            (Some(name), _) => self.unlink(&path(&removal.partition, name), &partition, removed),
            // One of the files of a partition that goes as a whole.
            (None, Some(_)) => Ok(()),
            (None, None) => self.remove_partition(&partition, removed),
        }
    }

    /// Large files lose their names before their directory goes, some at a time.
    fn remove_partition(&self, directory: &Path, removed: &mut Removed) -> io::Result<()> {
        for name in self.disk.list(directory)? {
            let path = directory.join(name);
            if let Some(large) = self.open_large(&path) {
                self.disk.remove(&path)?;
                removed.unnamed.push(large);
                if removed.unnamed.len() == UNNAMED_MAX {
                    removed.is_part = true;
                    return self.sync(directory);
                }
            }
        }
        if !removed.unnamed.is_empty() {
            self.sync(directory)?;
        }
        self.disk.remove_directory(directory)?;
        self.sync(Path::new(PARTITIONS))
    }

    /// Takes a file's name away for good. What it has is left, if that is much.
    fn unlink(&self, path: &Path, directory: &Path, removed: &mut Removed) -> io::Result<()> {
        let large = self.open_large(path);
        self.disk.remove(path)?;
        self.sync(directory)?;
        removed.unnamed.extend(large);
        Ok(())
    }

    /// A file that is not to go at once. One that cannot be looked at goes so.
    fn open_large(&self, path: &Path) -> Option<Unnamed> {
        let file = self.disk.open(path).ok()?;
        let bytes = file.length().ok()?;
        (bytes > self.step_bytes).then_some(Unnamed { file, bytes })
    }

    /// Makes a file shorter by a step. Returns what it still has; of the last step nothing is left to do but to let go of it.
    fn shrink(&self, unnamed: &Unnamed) -> io::Result<Option<Unnamed>> {
        let bytes = unnamed.bytes.saturating_sub(self.step_bytes);
        if bytes == 0 {
            return Ok(None);
        }
        unnamed.file.shrink_unnamed(bytes)?;
        let file = unnamed.file.clone();
        Ok(Some(Unnamed { file, bytes }))
    }

    /// The file for the journal, or none if it is not fit for that: then it goes.
    fn reopen(&self, file: &AdoptedFile) -> Option<JournalFile> {
        journal::reopen(&self.disk, &self.journal, file)
            .inspect_err(|error| {
                // A removal that a crash or a full disk cut short is made again at the next start.
                if error.kind() == io::ErrorKind::NotFound {
                    return;
                }
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
        let log = self.partitions.get(&id);
        let log = log.expect("a partition is opened before it is trimmed");
        log.assert_open();
        let next = Offset(log.next);
        assert!(log_start <= next, "a log cannot start behind its end");
        let frame = self.stage_bare(EntryKind::Trim, id, log_start)?;
        // Only committed records are given up, and with a part of a batch all of it.
        let log = &self.partitions[&id];
        let batch = log.tail_index(log_start.0).map(|index| log.tail[index]);
        let whole = batch.filter(|batch| batch.first < log_start.0);
        self.commit_to(id, Offset(whole.map_or(log_start.0, |batch| batch.next)));
        self.give_up_below(id, log_start.0, frame);
        Ok(frame)
    }

    /// Forgets the segments that a trim, journaled in `frame`, leaves nothing of. A layout step of this partition that is out
    /// may be writing to the open one: that one goes when the step is back. Nobody comes back to it for another's step.
    pub(super) fn give_up_below(&mut self, id: PartitionId, log_start: i64, frame: u64) {
        let stepping = self.layout.is_writing_to(id);
        let Some(log) = self.partitions.get_mut(&id) else {
            return;
        };
        for segment in log.trim(log_start, stepping && !planted(Bug::RunInTrimmedSegment)) {
            self.give_up_segment(id, &segment, frame);
        }
    }

    /// Has a segment's files removed once `frame` is durable, which says that nothing of it is kept.
    pub(super) fn give_up_segment(&mut self, id: PartitionId, segment: &Segment, frame: u64) {
        let removal = Removal {
            partition: id,
            segment: Some(segment.name()),
            adopted: self.forget_segment(id, segment),
        };
        self.removals.push(removal, frame);
    }

    /// Drops what is in memory of a segment. Returns the journal file that it adopted, if that is to be removed with it:
    /// one that recovery still needs goes back to the journal.
    pub(super) fn forget_segment(&mut self, id: PartitionId, segment: &Segment) -> Option<AdoptedFile> {
        self.caches.forget_segment(&(id, segment.name()));
        let adopted = segment.adopted?;
        self.adopted.remove(&adopted.sequence);
        let is_needed = self.journal.has_file(adopted.sequence) && !planted(Bug::AdoptedFileRemoved);
        if is_needed {
            self.returning.end_lease(adopted.sequence);
            return None;
        }
        Some(adopted)
    }

    /// Gives a partition up for ever. Its identity may be used again when [`Store::may_begin`] says so.
    ///
    /// # Errors
    /// As `append`. Nothing has changed then.
    pub fn delete_partition(&mut self, id: PartitionId) -> Result<(), StageError> {
        if !self.partitions.contains_key(&id) {
            return Ok(());
        }
        let frame = self.stage_bare(EntryKind::Delete, id, Offset::ZERO)?;
        let log = self.partitions.swap_remove(&id).expect("seen above");
        self.deleted.note(id, frame);
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
            self.removals.push(removal, frame);
        }
        Ok(())
    }

    fn stage_bare(
        &mut self,
        kind: EntryKind,
        partition: PartitionId,
        first: Offset,
    ) -> Result<u64, StageError> {
        let header = EntryHeader::bare(kind, partition, Epoch(0), first);
        // A deleted partition is gone for good; a trim may give up next to nothing, and come again.
        let reserve = match kind {
            EntryKind::Delete => Reserve::Use,
            _ => Reserve::UseHalf,
        };
        let staged = self.journal.stage(&header, &[], reserve);
        staged.map(|staged| staged.frame)
    }

    /// Where the log should start so that nothing is kept that is too old, and no sealed segment that a size of `bytes_max`
    /// has no room for; `None` if nothing is to go. Kafka's `retention.ms` and `retention.bytes`. A segment whose records have
    /// no times is as old as the next one's beginning; without a next one it stays, as what is in the journal only.
    pub fn retention_start(
        &self,
        id: PartitionId,
        age: Option<AgeLimit>,
        bytes_max: Option<u64>,
    ) -> Option<Offset> {
        let log = self.partitions.get(&id).filter(|log| log.is_open())?;
        let too_old = |time_ms: i64, next: i64| {
            age.is_some_and(|age| time_ms < age.oldest_ms && next <= age.stood_before.0)
        };
        let mut excess = bytes_max.map_or(0, |most| self.partition_bytes(id).saturating_sub(most));
        let mut start = None;
        for (index, segment) in log.segments.iter().enumerate() {
            let too_much = segment.sealed && excess >= segment.stored_bytes() && excess > 0;
            let newest_ms = match segment.max_timestamp_ms {
                time_ms @ 0.. => Some(time_ms),
                _ => log.segments.get(index + 1).map(|next| next.created_ms),
            };
            if !too_much && !newest_ms.is_some_and(|time_ms| too_old(time_ms, segment.next)) {
                return start;
            }
            excess = excess.saturating_sub(segment.stored_bytes());
            start = Some(Offset(segment.next));
        }
        let journal_only = log.tail.iter().skip_while(|batch| batch.next <= log.laid_out);
        let gone = journal_only
            .take_while(|batch| batch.max_timestamp_ms >= 0 && too_old(batch.max_timestamp_ms, batch.next));
        gone.last().map(|batch| Offset(batch.next)).or(start)
    }

    /// The next files to remove, if any may be and none are being removed. Never while a layout step is out: it may be
    /// writing there.
    pub fn next_removal(&mut self) -> Option<RemovalJob> {
        if self.layout.is_stepping() || self.removals.under_way.is_some() {
            return None;
        }
        let unnamed = self.removals.unnamed.pop().map(Doomed::Unnamed);
        let doomed = unnamed
            .or_else(|| self.next_given_up())
            .or_else(|| self.journal.take_surplus().map(Doomed::Surplus))?;
        Some(RemovalJob {
            disk: self.disk.clone(),
            journal: self.config.identity,
            doomed,
            step_bytes: self.removal_step_bytes(),
        })
    }

    /// The part of a file that may go back at once: all, if that is needed.
    fn removal_step_bytes(&self) -> u64 {
        if self.short_of_space {
            return u64::MAX;
        }
        let few = self.config.journal.file_bytes / STEPS_MIN / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
        few.clamp(BLOCK_BYTES as u64, STEP_BYTES)
    }

    fn next_given_up(&mut self) -> Option<Doomed> {
        let (removal, frame) = self.removals.waiting.front()?;
        let (removal, frame) = (**removal, *frame);
        if !self.is_durable(frame) && !planted(Bug::RemovedBeforeTrimIsDurable) {
            return None;
        }
        self.removals.waiting.pop_front();
        if !self.is_settled && removal.adopted.is_some() {
            // For an earlier checkpoint it is a file of the journal.
            self.removals.held_back.push_back((Box::new(removal), frame));
            return self.next_given_up();
        }
        self.removals.under_way = Some(removal);
        let keep = removal.adopted.is_some_and(|file| self.wants_back(&file));
        Some(Doomed::GivenUp { removal, keep })
    }

    /// Takes a removal's outcome.
    ///
    /// # Errors
    /// The disk's, for reporting; it will be tried again.
    pub fn removed(&mut self, job: RemovalJob, result: io::Result<Removed>) -> io::Result<()> {
        match (job.doomed, result) {
            (Doomed::GivenUp { removal, .. }, Ok(removed)) => {
                self.removals.under_way = None;
                self.removals.unnamed.extend(removed.unnamed);
                if let Some(adopted) = removal.adopted {
                    self.settle_adopted(adopted, removed.kept);
                }
                if removed.is_part {
                    self.removals.waiting.push_front((Box::new(removal), 0));
                }
                Ok(())
            }
            (Doomed::GivenUp { removal, .. }, Err(error)) => {
                self.removals.under_way = None;
                self.removals.push_free(removal);
                Err(error)
            }
            (Doomed::Surplus(_) | Doomed::Unnamed(_), Ok(removed)) => {
                self.removals.unnamed.extend(removed.unnamed);
                Ok(())
            }
            (Doomed::Surplus(file), Err(error)) => {
                self.journal.not_removed(file);
                Err(error)
            }
            // Nobody has it open any more, so it goes at once.
            (Doomed::Unnamed(_), Err(error)) => Err(error),
        }
    }
}
