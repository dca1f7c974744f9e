//! The store: all partitions of one core over one journal.
//!
//! An append is staged in memory here and durable once its flush came back. The store numbers nothing and
//! commits nothing: its owner does, says so here, and asks for bytes only up to where readers may see.

mod aborted;
mod appending;
mod caches;
mod carrying;
mod checkpointing;
mod compacting;
mod cutting;
mod forgetting;
mod importing;
mod layout;
mod load;
mod open;
mod pieces;
mod read;
mod read_ahead;
mod removal;
mod repairing;
mod resident;
mod returning;

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use platform::disk::Disk;
use platform::random::Random;
use record::{Offset, PartitionId};

pub use crate::compaction::CompactionJob;
pub use aborted::{Aborted, AbortedFound, AbortedJob, AbortedOutcome};
pub use appending::Append;
pub use checkpointing::CheckpointJob;
pub use compacting::{Compacted, CompactionNeed, CompactionOrder};
pub use importing::{SealedSegment, SegmentRead};
pub use layout::{LayoutJob, StepFailed};
pub use open::{Recovered, RecoveredPartition};
pub(crate) use open::{Replay, recover};
pub use read::{Located, Read, ReadError, ReadJob, ReadOutcome};
pub use removal::{AgeLimit, REMOVAL_PAUSE, RemovalJob, Removed};
pub use repairing::{NotNow, RepairEnd};

use crate::checksum::JournalIdentity;
use crate::journal::{Flush, Journal, JournalFile, JournalSizes, PrepareFile, StageError};
use crate::partition::{PartitionLog, SegmentRolling};
use crate::witness::Witnesses;
use caches::Caches;
use compacting::Compaction;
use forgetting::Deleted;
use importing::Imports;
use layout::Layout;
use removal::Removals;
use returning::Returning;

/// The rest that the owner of a store takes after one of its jobs has failed, before it tries another: a disk does not mend at
/// once, and each failure is told.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The settings of one store.
#[derive(Debug, Clone, Copy)]
pub struct StoreConfig {
    /// Whose journal it is.
    pub identity: JournalIdentity,
    /// The journal's sizes.
    pub journal: JournalSizes,
    /// Layout begins when this many journal bytes wait for it.
    pub layout_trigger_bytes: u64,
    /// Memory for frames that were written lately.
    pub tail_cache_bytes: usize,
    /// Memory for chunks and indexes that were read from segments lately.
    pub chunk_cache_bytes: usize,
    /// Compaction waits for a checkpoint when this many bytes of segments are only kept until then; a larger group waits by
    /// itself.
    pub superseded_bytes_max: u64,
}

/// Figures for metrics and for deciding when to do background work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreStatus {
    /// Bytes staged or sealed and not yet durable.
    pub unflushed_bytes: usize,
    /// Journal bytes that are not released, and the most there may be.
    pub journal_bytes: u64,
    /// See `journal_bytes`.
    pub journal_bytes_max: u64,
    /// Memory held by the tail cache.
    pub tail_cache_bytes: usize,
    /// Memory held by the chunk cache.
    pub chunk_cache_bytes: u64,
    /// Partitions known.
    pub partitions: usize,
    /// Pieces found in the chunk cache since the start.
    pub chunk_cache_hits: u64,
    /// Pieces not found there.
    pub chunk_cache_misses: u64,
}

/// See the module.
pub struct Store {
    disk: Arc<dyn Disk>,
    random: Random,
    config: StoreConfig,
    journal: Journal,
    /// Each in its own place: a table that grows moves what is in it, all at once.
    partitions: IndexMap<PartitionId, Box<PartitionLog>>,
    layout: Layout,
    /// Sequences of the journal files that segments consist of.
    adopted: BTreeSet<u64>,
    removals: Removals,
    deleted: Deleted,
    returning: Returning,
    imports: Imports,
    compaction: Compaction,
    /// The partition of which a damaged segment is being written anew.
    repairing: Option<PartitionId>,
    witnesses: Witnesses,
    /// The last checkpoint is durable for certain: what it does not name may go.
    is_settled: bool,
    short_of_space: bool,
    caches: Caches,
}

impl Store {
    /// Makes the partition known, empty if it is new. No I/O.
    pub fn open_partition(&mut self, id: PartitionId, rolling: SegmentRolling) {
        self.partitions
            .entry(id)
            .or_insert_with(|| Box::new(PartitionLog::new(id, rolling)))
            .rolling = rolling;
    }

    /// The number of the journal's first frame that is not known to be durable. It only rises, over starts too.
    pub fn durable_before(&self) -> u64 {
        self.journal.durable_before()
    }

    /// First offset kept and the offset after the last staged record; `None` if the partition is unknown.
    pub fn bounds(&self, id: PartitionId) -> Option<(Offset, Offset)> {
        self.partitions
            .get(&id)
            .map(|log| (Offset(log.log_start), Offset(log.next)))
    }

    /// The first offset of the segment that an offset lies in; `None` if it lies in none. A batch began there, in every copy of the log.
    pub fn segment_start(&self, id: PartitionId, offset: Offset) -> Option<Offset> {
        let log = self.partitions.get(&id)?;
        let segment = log.segments.get(log.segment_index(offset.0)?)?;
        (segment.first <= offset.0).then_some(Offset(segment.first))
    }

    /// Says whether batches may be missing everywhere between two offsets: all of that lies in segments that compaction has written.
    pub fn may_lack(&self, id: PartitionId, first: Offset, next: Offset) -> bool {
        let mut at = first.0;
        if let Some(log) = self.partitions.get(&id) {
            let covering = log.segments.iter().skip_while(|segment| segment.next <= first.0);
            for segment in covering.take_while(|segment| segment.sparse && segment.first <= next.0) {
                if segment.first <= at {
                    at = at.max(segment.next);
                }
            }
        }
        at >= next.0
    }

    /// Bytes of the partition on disk: segments, and batches that are in the journal only.
    pub fn partition_bytes(&self, id: PartitionId) -> u64 {
        self.partitions.get(&id).map_or(0, |log| {
            let journal_only = log.tail.iter().filter(|batch| batch.next > log.laid_out);
            log.segment_bytes() + journal_only.map(|batch| u64::from(batch.length)).sum::<u64>()
        })
    }

    /// The next durable write, if anything waits and none is on its way.
    pub fn next_flush(&mut self) -> Option<Flush> {
        self.journal.next_flush()
    }

    /// Stages an empty frame behind the last one, to be flushed as any other: once it is durable, damage in the last records
    /// cannot pass for a torn flush. For a journal that falls silent or is closed; does nothing for one that needs none. Returns
    /// whether there is something to flush.
    pub fn stage_closing_frame(&mut self) -> bool {
        self.journal.stage_closing_frame()
    }

    /// Applies a flush's outcome: the partitions that became durable and up to where. A partition may be named twice, with growing
    /// offsets unless it was cut in between: the last one counts.
    ///
    /// # Errors
    /// `Dead` if the flush failed. Nothing is appended here any more; what was staged and not flushed is of unknown
    /// outcome.
    pub fn flushed(
        &mut self,
        flush: Flush,
        result: io::Result<()>,
    ) -> Result<Vec<(PartitionId, Offset)>, StageError> {
        let durable = self.journal.flushed(flush, result)?;
        self.journal.evict(self.config.tail_cache_bytes);
        Ok(durable.into_iter().map(|(id, next)| (id, Offset(next))).collect())
    }

    /// Frames before this one hold everything staged so far, for `is_durable`.
    pub fn staged_before(&self) -> u64 {
        self.journal.staged_before()
    }

    /// Says whether everything staged in `frame` is on the disk.
    pub fn is_durable(&self, frame: u64) -> bool {
        frame < self.journal.durable_before()
    }

    /// Why this store accepts nothing any more, if so.
    pub fn dead(&self) -> Option<&str> {
        self.journal.dead()
    }

    /// Work that keeps a journal file ready; to be run anywhere and given to `prepared`.
    pub fn next_preparation(&mut self) -> Option<PrepareFile> {
        self.journal.next_preparation()
    }

    /// Takes a preparation's outcome.
    ///
    /// # Errors
    /// The disk's, for reporting. Appends go on in the files at hand; ask `next_preparation` again later.
    pub fn prepared(&mut self, job: PrepareFile, result: io::Result<JournalFile>) -> io::Result<()> {
        self.journal.prepared(job, result)
    }

    /// Has the preparation that is on its way end as soon as may be.
    pub fn hurry_preparation(&self) {
        self.journal.hurry_preparation();
    }

    /// Says whether appends without room may just have to wait for a preparation.
    pub fn is_preparing(&self) -> bool {
        self.journal.is_preparing()
    }

    /// Bytes staged or sealed and not yet durable.
    pub fn unflushed_bytes(&self) -> usize {
        self.journal.unflushed_bytes()
    }

    /// See `StoreStatus`.
    pub fn status(&self) -> StoreStatus {
        let (journal_bytes, journal_bytes_max) = self.journal.occupied_bytes();
        StoreStatus {
            unflushed_bytes: self.unflushed_bytes(),
            journal_bytes,
            journal_bytes_max,
            tail_cache_bytes: self.journal.resident_bytes(),
            chunk_cache_bytes: self.caches.bytes(),
            partitions: self.partitions.len(),
            chunk_cache_hits: self.caches.pieces.hits(),
            chunk_cache_misses: self.caches.pieces.misses(),
        }
    }
}

#[cfg(test)]
pub(crate) use tests::rig as testing;

#[cfg(test)]
mod tests;
