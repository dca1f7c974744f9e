//! The ends of a shard's append: the request, its answer, the refusals.

use std::net::IpAddr;
use std::sync::Arc;

use protocol::leader::{AppendError, EndMarker, Permit, TrimError};
use protocol::order::LANE;
use record::{BatchError, Epoch, Offset, PartitionId, Position, RecompressError};
use storage::{BatchBytes, Reserve, StageError};
use tokio::sync::oneshot;

use super::allowance::Allowance;
use super::bad_records::BadRecords;
use crate::verifying::{Claim, Unverified};

/// The durability that a producer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acks {
    /// Nothing: no answer is wanted.
    None,
    /// The leader's own flush.
    Leader,
    /// The ack quorum.
    Quorum,
}

/// A batch on its way to its partition. Its builder methods name where it came from and the bounds it is under.
pub struct AppendRequest {
    pub(crate) partition: PartitionId,
    pub(crate) batch: BatchBytes,
    pub(crate) acks: Acks,
    /// The address of its client; `None` for the node itself.
    pub(crate) from: Option<IpAddr>,
    /// The allowance that it shares with other batches of its request, if those are compressed.
    pub(crate) allowance: Option<Allowance>,
    /// The part of the journal's reserve that it may use.
    pub(crate) reserve: Reserve,
    /// The epoch in which it is to be appended, or not at all; `None` for any.
    pub(crate) epoch: Option<Epoch>,
    /// It waits where the journal has no room, instead of being refused.
    pub(crate) waits: bool,
    pub(crate) conditions: Conditions,
    /// It was sent to the twin of its topic.
    pub(crate) is_of_twin: bool,
    /// The transaction that its producer says it is part of.
    pub(crate) claim: Option<Claim>,
    /// The leader's permit for it to open that transaction.
    pub(crate) permit: Option<Permit>,
    /// It has waited for the end of its producer's transaction before that one.
    pub(crate) is_behind_end: bool,
    /// The end of a transaction that it is.
    pub(crate) marker: Option<EndMarker>,
    pub(crate) reply: oneshot::Sender<Result<AppendOutcome, AppendRefusal>>,
}

/// Brings the outcome of an append, once its acks are met. The channel closes without one if the node stops.
pub type AppendAnswer = oneshot::Receiver<Result<AppendOutcome, AppendRefusal>>;

impl AppendRequest {
    /// Returns a request of the node itself that waits for room and keeps off the journal's reserve, and the end where its answer comes.
    /// The batch is one record batch v2 with base offset 0, as a producer sends it.
    pub fn new(
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
            epoch: None,
            waits: true,
            conditions: Conditions::default(),
            is_of_twin: false,
            claim: None,
            permit: None,
            is_behind_end: false,
            marker: None,
            reply,
        };
        (request, answer)
    }

    /// The same in one epoch, of whoever leads in it: in another one it is refused (`NotLeader`).
    #[must_use]
    pub fn in_epoch(mut self, epoch: Option<Epoch>) -> AppendRequest {
        self.epoch = epoch;
        self
    }

    /// The partition that it goes to.
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// Names the address of the client that sent it: clients' examinations take turns, and each may use a share of the producers' memory.
    pub fn sent_from(self, address: IpAddr) -> AppendRequest {
        AppendRequest {
            from: Some(address),
            ..self
        }
    }

    /// Lets it use a part of the journal's reserve: it is then not stopped by appends that wait for room.
    pub fn with_reserve(self, reserve: Reserve) -> AppendRequest {
        AppendRequest { reserve, ..self }
    }

    /// Has it refused with [`AppendRefusal::JournalFull`] where the journal has no room, instead of waiting for some.
    pub fn at_once(self) -> AppendRequest {
        AppendRequest { waits: false, ..self }
    }

    /// Has it refused where these do not hold. A batch that it repeats is found before.
    pub fn only_if(self, conditions: Conditions) -> AppendRequest {
        AppendRequest { conditions, ..self }
    }

    /// Takes it as one that was sent to the twin of its topic: its producer is another one there.
    pub fn to_twin(self) -> AppendRequest {
        AppendRequest {
            is_of_twin: true,
            ..self
        }
    }

    /// Says whether it takes its positions when it is staged, if its topic has one order, and not with others when a flush begins: a large batch is a
    /// frame of its own.
    pub(crate) fn is_cut_at_once(&self) -> bool {
        self.conditions.tail.is_some() || matches!(self.batch, BatchBytes::Alone(_))
    }

    /// Bounds it by the allowance of the request that it came with; `None` for a request of one batch.
    pub fn within(self, allowance: Option<Allowance>) -> AppendRequest {
        AppendRequest { allowance, ..self }
    }
}

/// The conditions of an append: all of them hold when it gets its place, or nothing is appended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Its first record gets this position, and all below was ordered before.
    pub tail: Option<Position>,
    /// Its first record gets this offset.
    pub offset: Option<Offset>,
}

/// The place of an appended batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendOutcome {
    /// The offset of its first record. A duplicate has that of the batch it repeats.
    pub first_offset: Offset,
    /// The first offset of the partition when it was appended.
    pub log_start: Offset,
    /// The time that its records were given, in milliseconds since 1970; `None` unless the topic has `LogAppendTime`.
    pub append_time_ms: Option<i64>,
    /// The position of its first record, in a topic with one order; the others follow it. `None` where nobody waited for that, and for a duplicate of a
    /// batch that was shown before.
    pub position: Option<Position>,
}

/// The free space of a disk that has less than its reserve left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{} MiB free, disk.reserve_bytes is {} MiB", .free_bytes >> 20, .reserve_bytes >> 20)]
pub struct DiskShortage {
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Bytes that should be free.
    pub reserve_bytes: u64,
}

/// Reasons for which a batch was not appended, or a trim not made. Nothing has changed, but for `FlushFailed` and `Abandoned`, whose outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendRefusal {
    /// The shard has no such partition.
    #[error("this partition is not here")]
    UnknownPartition,
    /// Another node leads the partition now.
    #[error("this node does not lead the partition any more")]
    NotLeader,
    /// It was staged, and another node leads the partition since: the batch may be there.
    #[error("another node leads the partition by now; whether it has the batch is not known")]
    Abandoned,
    /// The bytes are no sound batch.
    #[error("the batch is not sound: {0}")]
    Batch(BatchError),
    /// The batches of its request together exceed their allowance.
    #[error(
        "the batches of the request decompress to more than {bytes_max} bytes together, which is limits.decompressed_bytes \
         and 32 bytes for each byte of theirs"
    )]
    RequestDecompressesTooLarge {
        /// The most bytes that they may decompress to together.
        bytes_max: u64,
    },
    /// The batch is longer than its topic allows.
    #[error("the batch has {bytes} bytes, the topic allows {bytes_max} (max.message.bytes)")]
    TooLarge {
        /// Its length in bytes.
        bytes: usize,
        /// The longest that is allowed.
        bytes_max: u32,
    },
    /// The batch is too long in the compression that its topic asks for.
    #[error("{0} (compression.type, max.message.bytes)")]
    TooLargeRecompressed(RecompressError),
    /// The batch is longer than a journal file.
    #[error("the batch takes {bytes} bytes, a journal file has room for {bytes_max} (journal.file_bytes)")]
    TooLargeForJournal {
        /// Its length.
        bytes: usize,
        /// The longest that a file has room for.
        bytes_max: u64,
    },
    /// A batch of a producer has no offset yet.
    #[error("a producer's batch begins at offset 0, this one at {base_offset}")]
    BaseOffset {
        /// The offset that it begins at.
        base_offset: Offset,
    },
    /// The topic does not take some of its records.
    #[error("{0}")]
    Records(BadRecords),
    /// The topic makes demands now that the batch was not examined for.
    #[error(
        "the topic became compacted (cleanup.policy) while the batch waited, and its keys were not looked at; send it again"
    )]
    BecameCompacted,
    /// It is committed, and on fewer replicas than its topic wants.
    #[error(
        "the batch is committed, and on fewer replicas than the topic wants (min.insync.replicas); sent again, it is told as soon as they have it"
    )]
    TooFewHold,
    /// The tail of its topic's order is another one.
    #[error("the append is for position {wanted}, and the next one is {tail}, or others are being appended there", wanted = .wanted.0, tail = .tail.0)]
    TailMoved {
        /// The position that was to be its own.
        wanted: Position,
        /// The first one that is not ordered.
        tail: Position,
    },
    /// The next offset of its partition is another one.
    #[error("the append is for offset {wanted}, and the next one is {next}")]
    OffsetMoved {
        /// The offset that was to be its own.
        wanted: Offset,
        /// The one that it would have.
        next: Offset,
    },
    /// Its topic has no order.
    #[error("the append is for a position, and the records of the topic have none: set ropewalk.order=total")]
    NoOrder,
    /// Its topic is to have an order that is not open yet.
    #[error("the append is for a position, and the topic's order is not open yet")]
    OrderNotOpen,
    /// It is for a position, and its partition is not the one that such appends go to.
    #[error(
        "the append is for a position: where other nodes can join, such appends go to partition {LANE} of their topic"
    )]
    NotInLane,
    /// Its transaction does not open.
    #[error(transparent)]
    Unverified(Unverified),
    /// The leader does not take it.
    #[error(transparent)]
    Leader(AppendError),
    /// The leader does not give up what was asked.
    #[error(transparent)]
    Trim(TrimError),
    /// The topic is never trimmed.
    #[error("the topic is only compacted (cleanup.policy): nobody gives up its beginning")]
    OnlyCompacted,
    /// The disk has less than its reserve left.
    #[error("the disk is full: {0}; free some space, add retention, or lower disk.reserve_bytes")]
    DiskFull(DiskShortage),
    /// The changes that the reserve is for were made already.
    #[error(
        "the disk has less than disk.reserve_bytes left, and {changes_max} changes of retention were made since; delete topics, \
         or free some space"
    )]
    ReservedChangesSpent {
        /// As many were allowed.
        changes_max: u32,
    },
    /// It was staged, and the flush that was to make it durable failed: it may be there at the next start.
    #[error("{0}; whether it is on the disk is not known")]
    FlushFailed(String),
    /// A flush has failed before: the journal takes nothing any more.
    #[error("{0}")]
    JournalDead(String),
    /// The journal has no room now, and the request does not wait for some.
    #[error("the journal has no room, nothing was changed: {why}")]
    JournalFull {
        /// The reason, for the operator.
        why: Arc<str>,
    },
    /// Clients may append once the start is journaled.
    #[error("the node's start is not journaled yet; if the disk is full, free some space")]
    Starting,
    /// The node accepts nothing any more.
    #[error("the node is stopping")]
    Stopping,
}

impl AppendRefusal {
    /// The refusal for the journal's error; `why` says why the journal has no room, if that is it.
    pub(crate) fn of(error: StageError, why: impl FnOnce() -> Arc<str>) -> AppendRefusal {
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
