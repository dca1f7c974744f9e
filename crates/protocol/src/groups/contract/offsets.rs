//! The requests about committed offsets: commit, fetch, delete.

use record::{Epoch, Offset, TopicId};

use super::{GroupError, Name};

/// One partition of a topic, by the topic's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic: Name,
    /// The partition's index.
    pub index: i32,
}

/// The offset that a group has committed of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupOffset {
    /// The group.
    pub group: Name,
    /// The partition.
    pub partition: TopicPartition,
    /// The topic's id when it was committed.
    pub topic_id: TopicId,
    /// The offset where reading goes on.
    pub offset: Offset,
}

/// An offset as a group remembers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The offset where reading goes on.
    pub offset: Offset,
    /// The leader epoch of the record before it, if the client knew.
    pub leader_epoch: Option<Epoch>,
    /// The client's own words.
    pub metadata: Name,
}

/// The committer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetCommitter {
    /// The member's id; empty for one that is in no group.
    pub member: Name,
    /// Its instance id.
    pub instance: Option<Name>,
    /// Its generation, or with the consumer protocol its epoch; negative for one that is in no group.
    pub generation_or_epoch: i32,
    /// Says whether its version of the request knows member epochs (from version 9 on): one that does not cannot be of the
    /// consumer protocol.
    pub knows_epochs: bool,
}

/// OffsetCommit. Whether the topics exist is the server's to check, as it must find their ids and names anyway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitOffsets {
    /// The group.
    pub group: Name,
    /// The address that the request came from.
    pub client_host: Name,
    /// The committer.
    pub committer: OffsetCommitter,
    /// The partitions, each with its offset.
    pub partitions: Vec<CommitPartition>,
}

/// One offset to commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitPartition {
    /// Of which partition.
    pub partition: TopicPartition,
    /// The topic's id: a topic that is made anew under the same name does not inherit the offset.
    pub topic_id: TopicId,
    /// The offset.
    pub committed: CommittedOffset,
}

/// The outcome for one partition of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionOutcome {
    /// The partition.
    pub partition: TopicPartition,
    /// Its success, or the refusal.
    pub outcome: Result<(), GroupError>,
}

/// OffsetFetch, for one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchOffsets {
    /// The group.
    pub group: Name,
    /// The member and its epoch, where the client gives them (from version 9 on).
    pub member: Option<(Name, i32)>,
    /// The partitions; all that the group has if `None`.
    pub topics: Option<Vec<FetchTopic>>,
    /// Says that a partition is refused of which an offset is pending (KIP-447): what is committed now may change yet, by a
    /// transaction that began before. If all partitions are asked for, those with nothing but pending offsets are named, too.
    pub require_stable: bool,
}

/// Partitions of one topic to fetch the offsets of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchTopic {
    /// The topic.
    pub topic: Name,
    /// The partitions' indexes.
    pub partitions: Vec<i32>,
}

/// The offsets of one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedTopic {
    /// The topic.
    pub topic: Name,
    /// Its partitions, in the order asked; by index if all were asked.
    pub partitions: Vec<FetchedPartition>,
}

/// The offset of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedPartition {
    /// The partition's index.
    pub index: i32,
    /// The offset that was committed; on the wire, none is offset -1. Or the reason why it is not told.
    pub committed: Result<Option<CommittedOffset>, GroupError>,
}

/// OffsetDelete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteOffsets {
    /// The group.
    pub group: Name,
    /// The offsets.
    pub partitions: Vec<TopicPartition>,
}
