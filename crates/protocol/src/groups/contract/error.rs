//! Why a coordinator refuses, in Kafka's terms: each variant stands for the error code that its comment names.
//!
//! The server turns these into codes in its one table of codes; the texts are for people.

use std::time::Duration;

use thiserror::Error;

use super::Name;

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GroupError {
    /// COORDINATOR_LOAD_IN_PROGRESS: the log is still being replayed. Retry.
    #[error("the coordinator is still loading")]
    Loading,
    /// COORDINATOR_LOAD_IN_PROGRESS: a classic group turns to the consumer protocol only when it is stable. Retry.
    #[error("the group is rebalancing by the classic protocol and cannot change over yet")]
    ChangingOver,
    /// COORDINATOR_NOT_AVAILABLE: the groups' log did not take the change, or is so far behind that no more may wait for it;
    /// nothing was changed. Retry.
    #[error("the groups' log did not take the change")]
    NotPersisted,
    /// INVALID_GROUP_ID: the group's name is empty or too long.
    #[error("a group's name has 1 to {bytes_max} bytes, this one has {bytes}")]
    InvalidGroupId {
        /// Its length.
        bytes: usize,
        /// The most that is allowed.
        bytes_max: usize,
    },
    /// GROUP_ID_NOT_FOUND: there is no such group, or it is of the other type.
    #[error("Group {group} not found.")]
    GroupNotFound {
        /// The group.
        group: Name,
    },
    /// NON_EMPTY_GROUP: the group has members, or is about to have some.
    #[error("The group is not empty: it has {members} members")]
    NonEmptyGroup {
        /// The number.
        members: usize,
    },
    /// NON_EMPTY_GROUP: a transaction is open in which offsets of the group were committed. Retry when it has ended.
    #[error("The group is not empty: it has {count} offsets that are pending in transactions")]
    PendingOffsets {
        /// The number.
        count: usize,
    },
    /// UNSTABLE_OFFSET_COMMIT (KIP-447): a transaction is open in which an offset of the partition was committed. Retry.
    #[error("an offset of the partition is pending in a transaction")]
    UnstableOffset,
    /// INVALID_PRODUCER_EPOCH: another producer with this id has taken over, or the marker is of a transaction before this one.
    #[error("the producer is at epoch {current}: {got} is too low")]
    InvalidProducerEpoch {
        /// The coordinator's.
        current: i16,
        /// The request's.
        got: i16,
    },
    /// TRANSACTION_COORDINATOR_FENCED: another transaction coordinator has taken over.
    #[error("the transaction coordinator is at epoch {current}, not {got}")]
    TransactionCoordinatorFenced {
        /// The epoch seen last.
        current: i32,
        /// The request's.
        got: i32,
    },
    /// GROUP_SUBSCRIBED_TO_TOPIC: a member subscribes to the topic.
    #[error(
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it: {topic}"
    )]
    SubscribedToTopic {
        /// The topic.
        topic: Name,
    },
    /// POLICY_VIOLATION: a limit of this coordinator is reached; a retry does not help.
    #[error("no more than {max} {what}; this limit is fixed")]
    LimitReached {
        /// Of what there are too many.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// INVALID_REQUEST: a part of the request is missing or impossible.
    #[error("invalid request: {what}")]
    InvalidRequest {
        /// The one that is refused, and the reason.
        what: &'static str,
    },
    /// INVALID_SESSION_TIMEOUT.
    #[error("a session timeout lies between {min:?} and {max:?}, not {got:?}")]
    InvalidSessionTimeout {
        /// The shortest allowed.
        min: Duration,
        /// The longest allowed.
        max: Duration,
        /// The request's.
        got: Duration,
    },
    /// UNKNOWN_MEMBER_ID: join anew.
    #[error("there is no member {member} in the group")]
    UnknownMember {
        /// The request's member.
        member: Name,
    },
    /// MEMBER_ID_REQUIRED (KIP-394): join again with this id.
    #[error("join again as {member}")]
    MemberIdRequired {
        /// The id to use.
        member: Name,
    },
    /// FENCED_INSTANCE_ID (KIP-345): another member has this instance id now.
    #[error("the instance {instance} belongs to another member now")]
    FencedInstance {
        /// The instance id.
        instance: Name,
    },
    /// UNRELEASED_INSTANCE_ID (KIP-848): the member that has this instance id has not left.
    #[error("the instance {instance} is still held by another member")]
    UnreleasedInstance {
        /// The instance id.
        instance: Name,
    },
    /// ILLEGAL_GENERATION: the group has moved on.
    #[error("the group is at generation {current}, not {got}")]
    IllegalGeneration {
        /// The group's.
        current: i32,
        /// The request's.
        got: i32,
    },
    /// REBALANCE_IN_PROGRESS: join again.
    #[error("the group is rebalancing")]
    RebalanceInProgress,
    /// INCONSISTENT_GROUP_PROTOCOL.
    #[error("the member's protocols do not fit the group's")]
    InconsistentProtocol,
    /// GROUP_MAX_SIZE_REACHED.
    #[error("a group has at most {max} members")]
    GroupFull {
        /// The limit.
        max: usize,
    },
    /// OFFSET_METADATA_TOO_LARGE.
    #[error("metadata of {bytes} bytes, at most {bytes_max} are kept")]
    OffsetMetadataTooLarge {
        /// Its length.
        bytes: usize,
        /// The most that is allowed.
        bytes_max: usize,
    },
    /// FENCED_MEMBER_EPOCH (KIP-848): join anew.
    #[error("the member is at epoch {current}, not {got}")]
    FencedMemberEpoch {
        /// The coordinator's.
        current: i32,
        /// The request's.
        got: i32,
    },
    /// STALE_MEMBER_EPOCH (KIP-848): heartbeat first, then retry.
    #[error("the member is at epoch {current}, not {got}")]
    StaleMemberEpoch {
        /// The coordinator's.
        current: i32,
        /// The request's.
        got: i32,
    },
    /// UNSUPPORTED_VERSION: the member is of the consumer protocol, and its version of the request knows no member epochs.
    #[error("members of the consumer protocol commit by versions that know member epochs")]
    CommitWithoutEpoch,
    /// UNSUPPORTED_ASSIGNOR (KIP-848).
    #[error("there is no server-side assignor {assignor}; there are uniform and range")]
    UnsupportedAssignor {
        /// The request's.
        assignor: Name,
    },
    /// INVALID_REGULAR_EXPRESSION (KIP-848).
    #[error("not a regular expression that is taken here: {why}")]
    InvalidRegex {
        /// The fault in it.
        why: Name,
    },
}
