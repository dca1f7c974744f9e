//! The content of the groups' log: changes of groups as records with keys, laid out as in Kafka's `__consumer_offsets`.
//!
//! Stands between the coordinator and the log. A change is encoded once it is decided and decoded by replay; both give
//! the same change, or replay would build other groups than those that were acknowledged. docs/formats/groups.md has
//! the bytes, and the one kind of record that is our own. Nothing from the log is believed: whatever cannot be read is an
//! error, never a panic.

mod consumer;
mod forms;
mod key;
#[cfg(test)]
mod tests;
mod value;

use std::time::Duration;

use bytes::Bytes;
use record::TopicId;

use super::Assignment;
use super::contract::{CommittedOffset, Name, Protocol, StoredRecord, TopicPartition};
use crate::DecodeError;
use crate::producers::ProducerId;

/// The name of the topic whose partitions hold these records: tools know it and treat it as internal.
pub const GROUPS_TOPIC: &str = "__consumer_offsets";

/// A change of one group. No value takes away what the key names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) group: Name,
    pub(crate) what: What,
}

/// The thing that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// A committed offset.
    Offset(TopicPartition, Option<OffsetValue>),
    /// An offset that a producer has committed in a transaction that has not ended.
    Pending(ProducerId, TopicPartition, Option<PendingValue>),
    /// A classic group with all its members.
    Classic(Option<ClassicValue>),
    /// A consumer group's epoch.
    Consumer(Option<ConsumerValue>),
    /// The words of a member of a consumer group of itself.
    Member(Name, Option<MemberValue>),
    /// The group epoch that the target assignment is for.
    TargetEpoch(Option<i32>),
    /// The partitions that a member is to have.
    Target(Name, Option<Assignment>),
    /// The partitions that a member has.
    Current(Name, Option<CurrentValue>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OffsetValue {
    pub(crate) committed: CommittedOffset,
    pub(crate) topic_id: TopicId,
    /// Milliseconds since 1970.
    pub(crate) committed_ms: i64,
    /// The address of the client that made the group; `None` if that is not known.
    pub(crate) maker: Option<Name>,
    /// Says that it is written anew, and was committed before: it overtakes nothing that is pending.
    pub(crate) is_copy: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PendingValue {
    pub(crate) producer_epoch: i16,
    /// The highest epoch that a transaction coordinator had shown for the producer until then; -1 if none was known.
    pub(crate) coordinator_epoch: i32,
    /// A plain commit, or that of a transaction in which the offset was committed later, stands behind it.
    pub(crate) is_overtaken: bool,
    /// The offset as it is to be if the transaction is committed.
    pub(crate) offset: OffsetValue,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClassicValue {
    pub(crate) protocol_type: Name,
    pub(crate) generation: i32,
    pub(crate) protocol: Option<Name>,
    pub(crate) leader: Option<Name>,
    /// The time since which the group is in its state, milliseconds since 1970.
    pub(crate) state_since_ms: i64,
    pub(crate) members: Vec<ClassicMemberValue>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClassicMemberValue {
    pub(crate) member: Name,
    pub(crate) instance: Option<Name>,
    pub(crate) client_id: Name,
    pub(crate) client_host: Name,
    pub(crate) rebalance_timeout: Duration,
    pub(crate) session_timeout: Duration,
    pub(crate) metadata: Bytes,
    pub(crate) assignment: Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConsumerValue {
    pub(crate) epoch: i32,
    /// Stands for the partitions of all subscribed topics when the epoch began.
    pub(crate) topics_hash: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemberValue {
    pub(crate) instance: Option<Name>,
    pub(crate) rack: Option<Name>,
    pub(crate) client_id: Name,
    pub(crate) client_host: Name,
    /// Sorted, each once.
    pub(crate) topics: Vec<Name>,
    pub(crate) regex: Option<Name>,
    pub(crate) rebalance_timeout: Duration,
    pub(crate) assignor: Option<Name>,
    /// For a member that speaks the classic protocol.
    pub(crate) classic: Option<ClassicFace>,
}

/// Words that a member of a consumer group adds that speaks the classic protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClassicFace {
    pub(crate) session_timeout: Duration,
    pub(crate) protocols: Vec<Protocol>,
}

/// The state of a member on the way to its target (KIP-848).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It has what it should.
    Stable,
    /// It must give up partitions first.
    Unrevoked,
    /// It waits for partitions that others still have.
    Unreleased,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CurrentValue {
    pub(crate) epoch: i32,
    pub(crate) previous_epoch: i32,
    pub(crate) progress: Progress,
    pub(crate) assigned: Assignment,
    /// The partitions that it still may have but must give up.
    pub(crate) revoking: Assignment,
}

impl Change {
    pub(crate) fn of(group: &Name, what: What) -> Change {
        Change {
            group: Name::clone(group),
            what,
        }
    }

    pub(crate) fn encode(&self) -> StoredRecord {
        StoredRecord {
            key: key::encode(self),
            value: value::encode(&self.what),
        }
    }

    /// Reads a record back.
    ///
    /// # Errors
    /// The record is damaged, or of a kind or version that this program does not know.
    pub(crate) fn decode(key: &[u8], value: Option<&[u8]>) -> Result<Change, DecodeError> {
        let (group, kind) = key::decode(key)?;
        Ok(Change {
            group,
            what: value::decode(kind, value)?,
        })
    }
}
