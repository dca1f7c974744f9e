//! The words in which the server and the coordinator speak: tickets, requests, answers, actions, errors.
//!
//! Plain data, independent of any version of Kafka's wire format: the server translates. Nothing here decides.
//! The requests of one protocol stand together in one of the modules beneath, each with its answer.

mod admin;
mod ask;
mod classic;
mod consumer;
mod error;
mod offsets;
mod transactions;

use std::sync::Arc;

use bytes::Bytes;

use super::consumer::Planning;

pub use admin::{
    DeleteGroup, DescribeClassic, DescribeConsumer, DescribedClassic, DescribedClassicMember,
    DescribedConsumer, DescribedConsumerMember, GroupState, GroupType, ListGroups, ListedGroup, ListedGroups,
    NamedPartitions,
};
pub use ask::Ask;
pub use classic::{
    Heartbeat, JoinGroup, Joined, JoinedMember, LeaveGroup, LeavingMember, LeftMember, Protocol, SyncGroup,
    Synced,
};
pub use consumer::{ConsumerHeartbeat, Heard, MemberPresence};
pub use error::GroupError;
pub use offsets::{
    CommitOffsets, CommitPartition, CommittedOffset, DeleteOffsets, FetchOffsets, FetchTopic,
    FetchedPartition, FetchedTopic, GroupOffset, OffsetCommitter, PartitionOutcome, TopicPartition,
};
pub use transactions::{CommitPending, EndTransaction};

/// The name of a group, a member, an instance, a topic: shared, since the same few stand in many places.
pub type Name = Arc<str>;

/// Chosen by the caller for each request; the answer carries it. Each ticket is answered exactly once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Names an [`Action::Persist`]; ids rise by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PersistId(pub u64);

/// One record of the groups' log: no value means that the key is gone. Layouts: docs/formats/groups.md.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// The subject of the record; a later record with the same key replaces it.
    pub key: Bytes,
    /// The state that holds from now on.
    pub value: Option<Bytes>,
}

impl StoredRecord {
    /// Of both.
    pub(super) fn bytes(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, Bytes::len)
    }
}

/// Something that the server must do next.
#[derive(Debug)]
pub enum Action {
    /// Plan a group's next change, on any thread: it takes longer than a call may. What it gives goes to `handle_planned`, in
    /// any order among the groups.
    Plan(Box<Planning>),
    /// Append these records to the groups' log, all or none of them, in the order of the actions; then say so by
    /// `handle_persisted`. Several may be under way; they are reported in the order of their ids.
    Persist {
        /// The change whose outcome is to be reported.
        id: PersistId,
        /// The records to append; never empty.
        records: Vec<StoredRecord>,
    },
    /// Answer a request. Whatever it promises is durable already.
    Answer {
        /// The group.
        ticket: Ticket,
        /// The answer.
        answer: Answer,
    },
}

/// The groups' log did not take the records of an [`Action::Persist`]: none of them is there, nor will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotPersisted;

/// A request of a client to a coordinator. A wire request about several groups becomes one of these for each group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// JoinGroup.
    Join(JoinGroup),
    /// SyncGroup.
    Sync(SyncGroup),
    /// Heartbeat.
    Heartbeat(Heartbeat),
    /// LeaveGroup.
    Leave(LeaveGroup),
    /// OffsetCommit.
    CommitOffsets(CommitOffsets),
    /// TxnOffsetCommit.
    CommitPending(CommitPending),
    /// The end of a transaction: for all groups of this coordinator.
    EndTransaction(EndTransaction),
    /// OffsetFetch, for one group.
    FetchOffsets(FetchOffsets),
    /// OffsetDelete.
    DeleteOffsets(DeleteOffsets),
    /// ConsumerGroupHeartbeat.
    ConsumerHeartbeat(ConsumerHeartbeat),
    /// DescribeGroups, for one group.
    DescribeClassic(DescribeClassic),
    /// ConsumerGroupDescribe, for one group.
    DescribeConsumer(DescribeConsumer),
    /// ListGroups: the groups of this coordinator.
    List(ListGroups),
    /// DeleteGroups, for one group.
    DeleteGroup(DeleteGroup),
}

/// The answer to the [`Request`] with the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// To JoinGroup.
    Join(Result<Joined, GroupError>),
    /// To SyncGroup.
    Sync(Result<Synced, GroupError>),
    /// To Heartbeat.
    Heartbeat(Result<(), GroupError>),
    /// To LeaveGroup: one outcome for each member, in the order asked.
    Leave(Result<Vec<LeftMember>, GroupError>),
    /// To OffsetCommit: one outcome for each partition, in the order asked, or the reason why none was looked at.
    CommitOffsets(Result<Vec<PartitionOutcome>, GroupError>),
    /// To TxnOffsetCommit: one outcome for each partition, in the order asked, or the reason why none was looked at.
    CommitPending(Result<Vec<PartitionOutcome>, GroupError>),
    /// To the end of a transaction: it is carried out in all groups. After an error in some of them, perhaps: it comes again.
    EndTransaction(Result<(), GroupError>),
    /// To OffsetFetch.
    FetchOffsets(Result<Vec<FetchedTopic>, GroupError>),
    /// To OffsetDelete: one outcome for each partition, in the order asked, or the reason why none was looked at.
    DeleteOffsets(Result<Vec<PartitionOutcome>, GroupError>),
    /// To ConsumerGroupHeartbeat.
    ConsumerHeartbeat(Result<Heard, GroupError>),
    /// To DescribeGroups.
    DescribeClassic(Result<DescribedClassic, GroupError>),
    /// To ConsumerGroupDescribe.
    DescribeConsumer(Result<DescribedConsumer, GroupError>),
    /// To ListGroups.
    List(Result<ListedGroups, GroupError>),
    /// To DeleteGroups.
    DeleteGroup(Result<(), GroupError>),
}

impl Request {
    /// The group that the request is about; none for ListGroups and the end of a transaction.
    #[must_use]
    pub fn group(&self) -> Option<&Name> {
        match self {
            Request::Join(request) => Some(&request.group),
            Request::Sync(request) => Some(&request.group),
            Request::Heartbeat(request) => Some(&request.group),
            Request::Leave(request) => Some(&request.group),
            Request::CommitOffsets(request) => Some(&request.group),
            Request::CommitPending(request) => Some(&request.commit.group),
            Request::FetchOffsets(request) => Some(&request.group),
            Request::DeleteOffsets(request) => Some(&request.group),
            Request::ConsumerHeartbeat(request) => Some(&request.group),
            Request::DescribeClassic(request) => Some(&request.group),
            Request::DescribeConsumer(request) => Some(&request.group),
            Request::DeleteGroup(request) => Some(&request.group),
            Request::List(_) | Request::EndTransaction(_) => None,
        }
    }

    /// The answer of this kind that carries an error.
    pub(crate) fn refused(&self, error: GroupError) -> Answer {
        match self {
            Request::Join(_) => Answer::Join(Err(error)),
            Request::Sync(_) => Answer::Sync(Err(error)),
            Request::Heartbeat(_) => Answer::Heartbeat(Err(error)),
            Request::Leave(_) => Answer::Leave(Err(error)),
            Request::CommitOffsets(_) => Answer::CommitOffsets(Err(error)),
            Request::CommitPending(_) => Answer::CommitPending(Err(error)),
            Request::EndTransaction(_) => Answer::EndTransaction(Err(error)),
            Request::FetchOffsets(_) => Answer::FetchOffsets(Err(error)),
            Request::DeleteOffsets(_) => Answer::DeleteOffsets(Err(error)),
            Request::ConsumerHeartbeat(_) => Answer::ConsumerHeartbeat(Err(error)),
            Request::DescribeClassic(_) => Answer::DescribeClassic(Err(error)),
            Request::DescribeConsumer(_) => Answer::DescribeConsumer(Err(error)),
            Request::List(_) => Answer::List(Err(error)),
            Request::DeleteGroup(_) => Answer::DeleteGroup(Err(error)),
        }
    }

    /// Says whether it changes nothing: then it never waits for other requests of its group.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(
            self,
            Request::FetchOffsets(_)
                | Request::DescribeClassic(_)
                | Request::DescribeConsumer(_)
                | Request::List(_)
        )
    }
}

impl Answer {
    /// The same kind of answer, saying that the groups' log took nothing.
    pub(crate) fn not_persisted(&self) -> Answer {
        let error = GroupError::NotPersisted;
        match self {
            Answer::Join(_) => Answer::Join(Err(error)),
            Answer::Sync(_) => Answer::Sync(Err(error)),
            Answer::Heartbeat(_) => Answer::Heartbeat(Err(error)),
            Answer::Leave(_) => Answer::Leave(Err(error)),
            Answer::CommitOffsets(_) => Answer::CommitOffsets(Err(error)),
            Answer::CommitPending(_) => Answer::CommitPending(Err(error)),
            Answer::EndTransaction(_) => Answer::EndTransaction(Err(error)),
            Answer::FetchOffsets(_) => Answer::FetchOffsets(Err(error)),
            Answer::DeleteOffsets(_) => Answer::DeleteOffsets(Err(error)),
            Answer::ConsumerHeartbeat(_) => Answer::ConsumerHeartbeat(Err(error)),
            Answer::DescribeClassic(_) => Answer::DescribeClassic(Err(error)),
            Answer::DescribeConsumer(_) => Answer::DescribeConsumer(Err(error)),
            Answer::List(_) => Answer::List(Err(error)),
            Answer::DeleteGroup(_) => Answer::DeleteGroup(Err(error)),
        }
    }
}
