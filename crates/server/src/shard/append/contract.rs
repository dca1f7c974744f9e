//! What goes into a shard's append and what comes out of it: the request, its answer, the refusals.

use std::net::IpAddr;
use std::sync::Arc;

use protocol::leader::{AppendError, TrimError};
use record::{BatchError, Offset, PartitionId, RecompressError};
use storage::{BatchBytes, Reserve, StageError};
use tokio::sync::oneshot;

use super::allowance::Allowance;
use super::bad_records::BadRecords;

/// What the producer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acks {
    /// Nothing: no answer is wanted.
    None,
    /// The leader's own flush.
    Leader,
    /// The ack quorum.
    Quorum,
}

/// A batch on its way to its partition.
pub(crate) struct AppendRequest {
    pub(in crate::shard) partition: PartitionId,
    pub(in crate::shard) batch: BatchBytes,
    pub(in crate::shard) acks: Acks,
    /// Where its client is; `None` for the node itself, and for HTTP.
    pub(in crate::shard) from: Option<IpAddr>,
    /// The allowance that it shares with other batches of its request, if those are compressed.
    pub(in crate::shard) allowance: Option<Allowance>,
    /// The part of the journal's reserve that it may use.
    pub(in crate::shard) reserve: Reserve,
    /// Says whether it waits where the journal has no room.
    pub(in crate::shard) waits: bool,
    pub(in crate::shard) reply: oneshot::Sender<Result<AppendOutcome, AppendRefusal>>,
}

/// Brings the outcome of an append; nothing comes if the node stops.
pub(crate) type AppendAnswer = oneshot::Receiver<Result<AppendOutcome, AppendRefusal>>;

impl AppendRequest {
    /// A request, and where its answer comes.
    pub(crate) fn new(
        partition: PartitionId,
        batch: impl Into<BatchBytes>,
        acks: Acks,
    ) -> (AppendRequest, AppendAnswer) {
        let (reply, answer) = oneshot::channel();
        let request = AppendRequest {
            partition,
            batch: batch.into(),
            acks,
            from: None,
            allowance: None,
            reserve: Reserve::Keep,
            waits: true,
            reply,
        };
        (request, answer)
    }

    /// Where it goes.
    pub(crate) fn partition(&self) -> PartitionId {
        self.partition
    }

    /// Names the address of the client that sent it.
    pub(crate) fn sent_from(self, address: IpAddr) -> AppendRequest {
        AppendRequest {
            from: Some(address),
            ..self
        }
    }

    /// With a part of the journal's reserve.
    pub(crate) fn with_reserve(self, reserve: Reserve) -> AppendRequest {
        AppendRequest { reserve, ..self }
    }

    /// Refused where the journal has no room, instead of waiting for some.
    pub(crate) fn at_once(self) -> AppendRequest {
        AppendRequest { waits: false, ..self }
    }

    /// With what all batches it came with may be decompressed to.
    pub(crate) fn within(self, allowance: Option<Allowance>) -> AppendRequest {
        AppendRequest { allowance, ..self }
    }
}

/// Where the batch came to stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AppendOutcome {
    pub(crate) first_offset: Offset,
    pub(crate) log_start: Offset,
    /// Set for `LogAppendTime`.
    pub(crate) append_time_ms: Option<i64>,
}

/// The free space of a disk that has less than its reserve left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{} MiB free, disk.reserve_bytes is {} MiB", .free_bytes >> 20, .reserve_bytes >> 20)]
pub(crate) struct DiskShortage {
    pub(crate) free_bytes: u64,
    pub(crate) reserve_bytes: u64,
}

/// Why a batch was not appended, or its fate is not known here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AppendRefusal {
    #[error("this partition is not here")]
    UnknownPartition,
    #[error("this node does not lead the partition any more")]
    NotLeader,
    #[error("the batch is not sound: {0}")]
    Batch(BatchError),
    #[error(
        "the batches of the request decompress to more than {bytes_max} bytes together, which is limits.decompressed_bytes \
         and 32 bytes for each byte of theirs"
    )]
    RequestDecompressesTooLarge { bytes_max: u64 },
    #[error("the batch has {bytes} bytes, the topic allows {bytes_max} (max.message.bytes)")]
    TooLarge { bytes: usize, bytes_max: u32 },
    #[error("{0} (compression.type, max.message.bytes)")]
    TooLargeRecompressed(RecompressError),
    #[error("the batch takes {bytes} bytes, a journal file has room for {bytes_max} (journal.file_bytes)")]
    TooLargeForJournal { bytes: usize, bytes_max: u64 },
    #[error("a producer's batch begins at offset 0, this one at {base_offset}")]
    BaseOffset { base_offset: Offset },
    #[error("{0}")]
    Records(BadRecords),
    #[error(
        "the topic became compacted (cleanup.policy) while the batch waited, and its keys were not looked at; send it again"
    )]
    BecameCompacted,
    #[error(transparent)]
    Leader(AppendError),
    #[error(transparent)]
    Trim(TrimError),
    #[error("the topic is only compacted (cleanup.policy): nobody gives up its beginning")]
    OnlyCompacted,
    #[error("the disk is full: {0}; free some space, add retention, or lower disk.reserve_bytes")]
    DiskFull(DiskShortage),
    #[error(
        "the disk has less than disk.reserve_bytes left, and {changes_max} changes of retention were made since; delete topics, \
         or free some space"
    )]
    ReservedChangesSpent { changes_max: u32 },
    /// It was staged, and the flush that was to make it durable failed: it may be there at the next start.
    #[error("{0}; whether it is on the disk is not known")]
    FlushFailed(String),
    #[error("{0}")]
    JournalDead(String),
    #[error("the journal has no room, nothing was changed: {why}")]
    JournalFull { why: Arc<str> },
    #[error("the node's start is not journaled yet; if the disk is full, free some space")]
    Starting,
    #[error("the node is stopping")]
    Stopping,
}

impl AppendRefusal {
    /// The refusal for the journal's error; `why` says why the journal has no room, if that is it.
    pub(in crate::shard) fn of(error: StageError, why: impl FnOnce() -> Arc<str>) -> AppendRefusal {
        match error {
            StageError::Full => AppendRefusal::JournalFull { why: why() },
            StageError::Dead(reason) => AppendRefusal::JournalDead(reason),
            StageError::TooLarge { bytes, file_bytes } => AppendRefusal::TooLargeForJournal {
                bytes,
                bytes_max: file_bytes,
            },
        }
    }
}
