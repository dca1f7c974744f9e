//! The journal: where every append of one core becomes durable, many partitions to a flush.
//!
//! Staged entries gather in the frame being built. When no flush is on its way the frame is sealed and written by one
//! durable call; what arrives meanwhile rides in the next. Only one flush is ever on its way, so a valid frame proves
//! that all frames before it are whole: that is how recovery tells a torn tail from damage. A flush that failed is
//! never tried again; the journal is dead from then on.

mod closing;
mod complete;
mod files;
pub(crate) mod frame;
mod lone_frame;
mod majority;
mod mend;
mod opening;
mod preparation;
mod reread;
mod reserve;
mod returned;
mod scan;
mod staging;

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use planted::{Bug, planted};
use platform::disk::File;
use platform::memory::MemoryPool;
use record::PartitionId;

pub(crate) use complete::CompleteFile;
pub(crate) use files::{Files, JournalFile, directory, file_name};
pub use preparation::PrepareFile;
pub(crate) use reread::{FrameBatches, MissingFrame, RereadError, SPAN_BYTES_MAX};
pub use reserve::Reserve;
pub(crate) use returned::reopen;
pub(crate) use scan::{ReplayStart, Scanned, scan, survey};

use crate::checksum::{FrameIdentity, JournalIdentity};
use crate::slab::{FrameMemory, Slab};
use frame::FrameHeader;
use majority::Majority;

/// Sizes of one journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalSizes {
    /// The size of each journal file in bytes, a multiple of the block size.
    pub file_bytes: u64,
    /// The most files the journal may have. When all wait for layout, appends are refused until one is free again.
    pub files_max: usize,
}

impl JournalSizes {
    /// The least `files_max` to configure: one file that is written, one that is ready, one that is laid out. With two the
    /// journal goes on as well, but has none ready while one is laid out.
    pub const FILES_MIN: usize = 3;
}

/// Why an entry could not be staged. Nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StageError {
    /// All journal files wait for layout, or the next one is still being prepared. Try again later.
    #[error("the journal is full until the background layout has caught up; retry")]
    Full,
    /// A flush failed; nothing can be made durable in this journal any more.
    #[error("the journal is closed: {0}")]
    Dead(String),
    /// The entry would not fit into an empty journal file.
    #[error("an entry of {bytes} bytes does not fit into the {file_bytes} bytes of a journal file")]
    TooLarge {
        /// The entry's size.
        bytes: usize,
        /// The most that an empty journal file can take.
        file_bytes: u64,
    },
}

/// Where a staged payload lies: its frame, and its first byte counted from the frame's first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Staged {
    pub(crate) frame: u64,
    pub(crate) start: u32,
}

/// A sealed frame. `bytes` is empty once the tail cache has let go of it.
struct FrameRecord {
    location: FrameLocation,
    bytes: Bytes,
    memory: FrameMemory,
    /// Where the log of each partition in the frame ends behind it; of one that others stand between, more than once.
    appended: Vec<(PartitionId, i64)>,
}

/// Where a frame stands on disk.
#[derive(Clone)]
pub(crate) struct FrameLocation {
    pub(crate) file: Arc<dyn File>,
    pub(crate) file_sequence: u64,
    /// The file's, in this use.
    pub(crate) salt: u64,
    pub(crate) frame_sequence: u64,
    pub(crate) position: u64,
    pub(crate) total_bytes: u32,
}

impl FrameLocation {
    /// Completes the header of the frame of `entries` that is to stand here.
    fn complete(&self, journal: JournalIdentity, entries: u32, frame: &mut [u8]) {
        let identity = FrameIdentity {
            journal,
            salt: self.salt,
        };
        FrameHeader::complete(frame, &identity, self.file_sequence, self.frame_sequence, entries);
    }
}

/// One durable write, to be run on any thread and given back to `flushed`.
pub struct Flush {
    file: Arc<dyn File>,
    position: u64,
    bytes: Bytes,
    frame: u64,
}

impl Flush {
    /// Writes the frame; blocks until it is on the disk. Never to be repeated after an error.
    pub fn run(&self) -> io::Result<()> {
        if planted(Bug::AckBeforeFlush) {
            return self.file.write(self.position, &self.bytes);
        }
        let flushed = self.file.write_durable(self.position, &self.bytes);
        if planted(Bug::FlushRetried) && flushed.is_err() {
            return self.file.write_durable(self.position, &self.bytes);
        }
        flushed
    }

    /// Bytes written, padding included.
    pub fn total_bytes(&self) -> usize {
        self.bytes.len()
    }
}

pub(crate) struct Journal {
    identity: JournalIdentity,
    files: Files,
    slabs: Arc<MemoryPool>,
    /// The same for large frames.
    large_slabs: Arc<MemoryPool>,
    slab: Slab,
    pending_entries: u32,
    pending_appended: Vec<(PartitionId, i64)>,
    pending_majority: Majority,
    /// Sealed frames from `first_record` on: waiting, on their way, durable, until neither cache nor layout needs them.
    records: VecDeque<FrameRecord>,
    first_record: u64,
    /// The next sealed frame to flush.
    next_flush: u64,
    in_flight: bool,
    /// Frames before this one are durable.
    durable_before: u64,
    /// Bytes of sealed frames that are not.
    sealed_bytes: usize,
    /// The last frame is a closing one.
    is_closed: bool,
    /// Frames before this one are of no use to recovery any more.
    released_before: u64,
    /// Frames before this one are no longer in memory.
    resident_from: u64,
    resident_bytes: usize,
    dead: Option<String>,
}

impl Journal {
    /// The sequence of the frame being built.
    pub(crate) fn pending_frame(&self) -> u64 {
        self.first_record + self.records.len() as u64
    }

    /// Frames before this one hold everything staged so far.
    pub(crate) fn staged_before(&self) -> u64 {
        self.pending_frame() + u64::from(self.pending_entries > 0)
    }

    /// Frames before this one are on the disk.
    pub(crate) fn durable_before(&self) -> u64 {
        self.durable_before
    }

    /// Frames before this one are of no use to recovery any more.
    pub(crate) fn released_before(&self) -> u64 {
        self.released_before
    }

    /// Frames before this one must be read from the disk.
    pub(crate) fn resident_from(&self) -> u64 {
        self.resident_from
    }

    /// Why nothing can be appended any more, if so.
    pub(crate) fn dead(&self) -> Option<&str> {
        self.dead.as_deref()
    }

    /// Bytes of sealed and pending frames that are not yet durable.
    pub(crate) fn unflushed_bytes(&self) -> usize {
        self.sealed_bytes + self.slab.filled()
    }

    /// The next durable write, if there is something to flush and no flush is on its way.
    pub(crate) fn next_flush(&mut self) -> Option<Flush> {
        if self.in_flight || self.dead.is_some() {
            return None;
        }
        if self.next_flush == self.pending_frame() {
            if self.pending_entries == 0 {
                return None;
            }
            self.seal();
        }
        let frame = self.next_flush;
        let record = self
            .record(frame)
            .expect("a frame that waits for its flush has a record");
        let flush = Flush {
            file: record.location.file.clone(),
            position: record.location.position,
            bytes: record.bytes.clone(),
            frame,
        };
        self.next_flush += 1;
        self.in_flight = true;
        Some(flush)
    }

    /// Takes the outcome of the flush on its way: the partitions that became durable and how far, or the journal's death.
    pub(crate) fn flushed(
        &mut self,
        flush: Flush,
        result: io::Result<()>,
    ) -> Result<Vec<(PartitionId, i64)>, StageError> {
        assert!(
            self.in_flight && flush.frame == self.durable_before,
            "flushes end in the order they began"
        );
        self.in_flight = false;
        if let Err(error) = result {
            let reason = format!("flushing it failed: {error}");
            self.dead = Some(reason.clone());
            return Err(StageError::Dead(reason));
        }
        self.durable_before += 1;
        let index = (flush.frame - self.first_record) as usize;
        let record = &mut self.records[index];
        let frame_bytes = record.location.total_bytes as usize;
        let left = self.sealed_bytes.checked_sub(frame_bytes);
        self.sealed_bytes = left.expect("a frame counts from its seal until it is durable");
        Ok(std::mem::take(&mut record.appended))
    }

    /// A range of a frame, if it is in memory. Of the frame being built the bytes are copied, since they may not be shared yet.
    pub(crate) fn resident(&self, staged: Staged, length: usize) -> Option<Bytes> {
        let start = staged.start as usize;
        if staged.frame == self.pending_frame() {
            return Some(Bytes::copy_from_slice(&self.slab.frame()[start..start + length]));
        }
        let record = self.record(staged.frame)?;
        (!record.bytes.is_empty()).then(|| record.bytes.slice(start..start + length))
    }

    /// The memory that a sealed frame lies in, if it does.
    pub(crate) fn memory_of(&self, frame: u64) -> Option<FrameMemory> {
        let record = self.record(frame)?;
        (!record.bytes.is_empty()).then_some(record.memory)
    }

    /// Where a sealed frame stands on disk.
    pub(crate) fn location(&self, frame: u64) -> Option<FrameLocation> {
        self.record(frame).map(|record| record.location.clone())
    }

    fn record(&self, frame: u64) -> Option<&FrameRecord> {
        self.records
            .get(usize::try_from(frame.checked_sub(self.first_record)?).ok()?)
    }

    /// Lets go of the oldest durable frames in memory until at most `bytes_max` are held.
    pub(crate) fn evict(&mut self, bytes_max: usize) {
        while self.resident_bytes > bytes_max && self.resident_from < self.durable_before {
            let index = (self.resident_from - self.first_record) as usize;
            let bytes = std::mem::take(&mut self.records[index].bytes);
            self.resident_bytes -= bytes.len();
            self.resident_from += 1;
        }
    }

    /// Where the journal must be read from if everything before `frame` is in segments.
    pub(crate) fn replay_start(&self, frame: u64) -> ReplayStart {
        let (file_sequence, position) = self.record(frame).map_or_else(
            || self.files.next_place(),
            |record| (record.location.file_sequence, record.location.position),
        );
        ReplayStart {
            file_sequence,
            position,
            frame,
        }
    }

    /// A checkpoint is durable: no earlier one needs anything any more.
    pub(crate) fn release_held_back(&mut self) {
        self.files.release_held_back();
    }

    /// Gives up what comes before `start`, where a durable checkpoint says that recovery begins. Files are reused by what
    /// it says and not by where frames are now: the frame that it names may have gone to the next file since. Not those
    /// that are `adopted`, by their sequences: they are segments now.
    pub(crate) fn release_before(&mut self, start: &ReplayStart, adopted: &BTreeSet<u64>) {
        assert!(
            start.frame <= self.durable_before,
            "only what is durable may be released"
        );
        self.files.release_before(start.file_sequence, adopted);
        self.released_before = start.frame;
        while self.first_record < start.frame.min(self.resident_from) {
            self.records.pop_front();
            self.first_record += 1;
        }
    }

    /// Work that keeps the next file ready, to be run on any thread and given back to `prepared`.
    pub(crate) fn next_preparation(&mut self) -> Option<PrepareFile> {
        self.files.next_preparation()
    }

    /// Takes the outcome of a preparation; an error is for reporting, the next preparation tries another file.
    pub(crate) fn prepared(&mut self, job: PrepareFile, result: io::Result<JournalFile>) -> io::Result<()> {
        self.files.prepared(job, result)
    }

    /// Has the next file ready as soon as may be, whatever is left to fill of it.
    pub(crate) fn hurry_preparation(&self) {
        self.files.hurry_preparation();
    }

    /// Says whether a preparation is on its way.
    pub(crate) fn is_preparing(&self) -> bool {
        self.files.is_preparing()
    }

    /// Memory of frames that can still be read without the disk.
    pub(crate) fn resident_bytes(&self) -> usize {
        self.resident_bytes
    }

    /// Bytes of frames that were given their place since the start.
    pub(crate) fn placed_bytes(&self) -> u64 {
        self.files.placed_bytes()
    }

    /// Bytes of files that hold frames not yet released, and the most they may take.
    pub(crate) fn occupied_bytes(&self) -> (u64, u64) {
        self.files.occupied_bytes()
    }
}

#[cfg(test)]
mod tests;
