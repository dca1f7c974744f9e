//! The input and the output of a leader: appends, answers, refusals, actions.

use record::{Epoch, Offset};
use thiserror::Error;

use super::{Inside, NodeId, TransactionError};
use crate::history::{BatchFacts, Part};
use crate::producers::{Admission, SequenceError, Stamp};

/// A batch that a client wants to append; its bytes have been validated already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Append {
    /// The number of its records.
    pub record_count: i32,
    /// The largest timestamp in it, milliseconds since 1970.
    pub max_timestamp_ms: i64,
    /// Its producer; `None` if the producer is not idempotent.
    pub producer: Option<Stamp>,
    /// Its claim to be part of its producer's transaction, if it has one.
    pub inside: Option<Inside>,
}

/// The outcome of checking a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// It is new. Hand its bytes to the store with the offsets of the number, then call [`super::Leader::handle_append`].
    New(Numbered),
    /// It was written already. Nothing is to be stored; answer with these offsets once the tail has reached
    /// `next_offset`.
    Duplicate(Appended),
    /// It would open a transaction. Nothing is to be stored: take a [`super::Permit`] for its producer, ask the coordinator, and check it again
    /// with that. Batches of the producer that come meanwhile wait behind it.
    Unverified,
}

/// The place that a new batch gets if the store takes it. Good until the next batch is appended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a number that is not handed back by handle_append leaves the batch without a place"]
pub struct Numbered {
    /// The offset of its first record.
    pub first_offset: Offset,
    /// The first offset after it.
    pub next_offset: Offset,
    /// The epoch to write into its header.
    pub epoch: Epoch,
    pub(super) append: Append,
    pub(super) admission: Admission,
    pub(super) part: Part,
    /// Says whether its producer is remembered from this batch on.
    pub takes_on_producer: bool,
}

impl Numbered {
    /// The first offset of the transaction that it aborts, if it is a marker that does.
    #[must_use]
    pub fn aborts(&self) -> Option<Offset> {
        match self.part {
            Part::Ends(ending) => ending.aborts,
            _ => None,
        }
    }

    /// The batch as its header will tell it.
    #[must_use]
    pub fn facts(&self) -> BatchFacts {
        BatchFacts {
            epoch: self.epoch,
            first_offset: self.first_offset,
            record_count: self.append.record_count,
            max_timestamp_ms: self.append.max_timestamp_ms,
            producer: self.append.producer,
            part: self.part,
        }
    }
}

/// The offsets of a batch in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The offset of its first record: the client's answer.
    pub first_offset: Offset,
    /// The first offset after it: the client is answered once the tail has reached this.
    pub next_offset: Offset,
}

/// Why a batch was not accepted. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AppendError {
    /// This epoch is over: look for the new leader.
    #[error("epoch {epoch} is sealed")]
    Sealed {
        /// The sealed epoch.
        epoch: Epoch,
    },
    /// The producer's sequence, epoch or stamp is wrong.
    #[error(transparent)]
    Sequence(#[from] SequenceError),
    /// A batch must have records.
    #[error("a batch of {got} records cannot be appended")]
    InvalidRecordCount {
        /// The count found.
        got: i32,
    },
    /// A committed batch is on fewer replicas than the topic has its producers wait for (`min.insync.replicas`).
    #[error("{wanted} replicas must hold a batch (min.insync.replicas), {replicas} do when it is committed")]
    NotEnoughReplicas {
        /// The number of replicas that hold it for certain.
        replicas: usize,
        /// The number that must.
        wanted: usize,
    },
    /// It does not fit the transactions of its producer.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    /// The partition has used up all offsets.
    #[error("no {record_count} offsets are left after {next_offset}")]
    OffsetsExhausted {
        /// The end of the log.
        next_offset: Offset,
        /// The number that was wanted.
        record_count: i32,
    },
}

/// Why an acknowledgement does not count. A late or repeated one is no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AckError {
    /// The node holds no replica in this epoch.
    #[error("node {replica} is not a replica of this epoch")]
    UnknownReplica {
        /// The node that acknowledged.
        replica: NodeId,
    },
    /// More is acknowledged than was ever appended: a broken peer, or one of another history.
    #[error("offset {got} is acknowledged, the log ends at {next_offset}")]
    BeyondEnd {
        /// The end of the log.
        next_offset: Offset,
        /// The end acknowledged.
        got: Offset,
    },
}

/// Why a prefix was not given up. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TrimError {
    /// Only committed records can be given up (Kafka: OFFSET_OUT_OF_RANGE).
    #[error("cannot trim to {got}: committed records end at {tail}")]
    OutOfRange {
        /// The first offset that is kept.
        log_start: Offset,
        /// The tail.
        tail: Offset,
        /// The first offset that was to stay.
        got: Offset,
    },
    /// This epoch is over: look for the new leader.
    #[error("epoch {epoch} is sealed")]
    Sealed {
        /// The sealed epoch.
        epoch: Epoch,
    },
}

/// The state of a sealed epoch. Nothing in it changes any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    /// The epoch.
    pub epoch: Epoch,
    /// The end of what this leader has committed: the next epoch must keep at least this.
    pub tail: Offset,
    /// The end of what this leader has appended. The sealing leader decides how much of it survives.
    pub next_offset: Offset,
}

/// Something that the leader wants done. Each says what is durable, or has to be, before it is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Everything below `next_offset` is durable here, but not yet on the ack quorum: answer the producers that wait
    /// for the leader only (`acks=1`). Left out where a `Commit` says as much.
    DurableHere {
        /// The first offset that is not durable here.
        next_offset: Offset,
    },
    /// Everything below `tail` has been acknowledged by the ack quorum: wake readers up to it, and answer
    /// the producers that wait for less than `held`. Those between wait in vain: their batches are on fewer replicas than the topic wants
    /// (`min.insync.replicas`). Nothing more has to become durable.
    Commit {
        /// The new tail.
        tail: Offset,
        /// The end of what is on so many replicas, `tail` at most.
        held: Offset,
    },
    /// The epoch was sealed under these appends: their fate is the next leader's to decide. Tell waiting producers
    /// to look for it; they must not be told that their batches are lost. Nothing has to be durable.
    Abandon {
        /// The tail: batches that end above it are concerned.
        tail: Offset,
    },
}
