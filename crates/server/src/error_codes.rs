//! Our refusals as Kafka's error codes. The only place that knows both.

use kafka_wire::ErrorCode;
use protocol::SequenceError;
use protocol::groups::GroupError;
use protocol::leader::{AppendError, TransactionError, TrimError};
use protocol::metadata::{ApplyError, PlanError, TopicNameError};
use protocol::transactions;
use record::BatchError;
use shard::{AppendRefusal, NotLed, ReadRefusal, Unverified};

use crate::controller::{ChangeError, CommitError};

/// For Produce, and for what else is journaled.
pub(crate) fn append_code(refusal: &AppendRefusal) -> ErrorCode {
    match refusal {
        AppendRefusal::UnknownPartition => ErrorCode::UnknownTopicOrPartition,
        AppendRefusal::NotLeader
        | AppendRefusal::Abandoned
        | AppendRefusal::OrderNotOpen
        | AppendRefusal::BecameCompacted
        | AppendRefusal::Stopping => ErrorCode::NotLeaderOrFollower,
        AppendRefusal::Batch(error) => batch_code(error),
        AppendRefusal::BaseOffset { .. }
        | AppendRefusal::TailMoved { .. }
        | AppendRefusal::OffsetMoved { .. }
        | AppendRefusal::NoOrder
        | AppendRefusal::NotInLane => ErrorCode::InvalidRecord,
        // As in Kafka, a wrong time goes before everything else.
        AppendRefusal::Records(bad) if bad.has_bad_times() => ErrorCode::InvalidTimestamp,
        AppendRefusal::Records(_) => ErrorCode::InvalidRecord,
        // Clients send it again in smaller ones.
        AppendRefusal::TooLarge { .. }
        | AppendRefusal::TooLargeRecompressed(_)
        | AppendRefusal::TooLargeForJournal { .. }
        | AppendRefusal::RequestDecompressesTooLarge { .. } => ErrorCode::MessageTooLarge,
        AppendRefusal::TooFewHold => ErrorCode::NotEnoughReplicasAfterAppend,
        AppendRefusal::Unverified(why) => unverified_code(why),
        AppendRefusal::Leader(error) => leader_code(error),
        AppendRefusal::Trim(TrimError::OutOfRange { .. }) => ErrorCode::OffsetOutOfRange,
        AppendRefusal::Trim(TrimError::Sealed { .. }) => ErrorCode::NotLeaderOrFollower,
        AppendRefusal::OnlyCompacted => ErrorCode::PolicyViolation,
        AppendRefusal::DiskFull(_)
        | AppendRefusal::ReservedChangesSpent { .. }
        | AppendRefusal::Starting
        | AppendRefusal::FlushFailed(_)
        | AppendRefusal::JournalDead(_)
        | AppendRefusal::JournalFull { .. } => ErrorCode::KafkaStorageError,
    }
}

fn batch_code(error: &BatchError) -> ErrorCode {
    match error {
        // No producer sent it so: clients send it again.
        BatchError::ChecksumMismatch { .. } | BatchError::LengthTooSmall { .. } => ErrorCode::CorruptMessage,
        // Kafka's old formats are no damage.
        BatchError::UnsupportedMagic { magic } if !matches!(magic, 0 | 1) => ErrorCode::CorruptMessage,
        BatchError::UnknownCompression { .. } => ErrorCode::UnsupportedCompressionType,
        _ => ErrorCode::InvalidRecord,
    }
}

fn leader_code(error: &AppendError) -> ErrorCode {
    match error {
        AppendError::Sealed { .. } => ErrorCode::NotLeaderOrFollower,
        AppendError::Sequence(SequenceError::StaleEpoch { .. }) => ErrorCode::InvalidProducerEpoch,
        AppendError::Sequence(SequenceError::OutOfOrder { .. }) => ErrorCode::OutOfOrderSequenceNumber,
        AppendError::Sequence(SequenceError::Malformed { .. }) | AppendError::InvalidRecordCount { .. } => {
            ErrorCode::InvalidRecord
        }
        AppendError::Sequence(SequenceError::NotHandedOut { .. }) => ErrorCode::InvalidProducerIdMapping,
        // The newcomer is to try again, and to know that nothing was written. All clients do both at this code. At those
        // of sequences some give up for good and some begin a new epoch, which helps neither; others look for another leader.
        AppendError::Sequence(
            SequenceError::PartitionFull { .. }
            | SequenceError::NodeFull
            | SequenceError::PartitionShareTaken { .. }
            | SequenceError::NodeShareTaken,
        )
        | AppendError::NotEnoughReplicas { .. } => ErrorCode::NotEnoughReplicas,
        AppendError::Transaction(error) => match error {
            TransactionError::Outside | TransactionError::NoProducer => ErrorCode::InvalidTxnState,
            TransactionError::NotEnded => ErrorCode::ConcurrentTransactions,
            TransactionError::LateMarker { .. } => ErrorCode::InvalidProducerEpoch,
            TransactionError::CoordinatorFenced { .. } => ErrorCode::TransactionCoordinatorFenced,
        },
        AppendError::OffsetsExhausted { .. } => ErrorCode::UnknownServerError,
    }
}

/// For whatever needs a partition's leader.
pub(crate) fn led_code(why: NotLed) -> ErrorCode {
    match why {
        NotLed::UnknownPartition => ErrorCode::UnknownTopicOrPartition,
        NotLed::NotLeader => ErrorCode::NotLeaderOrFollower,
        NotLed::NotOpen => ErrorCode::OffsetNotAvailable,
    }
}

/// For Fetch, ListOffsets and their kin.
pub(crate) fn read_code(refusal: &ReadRefusal) -> ErrorCode {
    match refusal {
        ReadRefusal::UnknownPartition => ErrorCode::UnknownTopicOrPartition,
        ReadRefusal::NotLeader => ErrorCode::NotLeaderOrFollower,
        ReadRefusal::NotOpen => ErrorCode::OffsetNotAvailable,
        ReadRefusal::FencedEpoch { .. } => ErrorCode::FencedLeaderEpoch,
        ReadRefusal::UnknownEpoch { .. } => ErrorCode::UnknownLeaderEpoch,
        ReadRefusal::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        ReadRefusal::Fault(_) => ErrorCode::KafkaStorageError,
    }
}

/// For changes of topics. A node that stops is no controller any more: clients ask for another one.
pub(crate) fn change_code(error: &ChangeError) -> ErrorCode {
    match error {
        ChangeError::Plan(error) => plan_code(error),
        ChangeError::Append(AppendRefusal::NotLeader | AppendRefusal::Stopping)
        | ChangeError::Stopping(_) => ErrorCode::NotController,
        ChangeError::Commit(CommitError::NoLeader) => ErrorCode::NotController,
        // Perhaps it is made all the same.
        ChangeError::Commit(_) => ErrorCode::RequestTimedOut,
        ChangeError::Append(refusal) => append_code(refusal),
    }
}

/// For groups, when their topic cannot be made: clients look for the coordinator again, until there is one. To a controller's
/// errors, or a disk's, some have no answer.
pub(crate) fn coordinator_code(error: &ChangeError) -> ErrorCode {
    match error {
        ChangeError::Plan(error) => plan_code(error),
        ChangeError::Append(_) | ChangeError::Stopping(_) | ChangeError::Commit(_) => {
            ErrorCode::CoordinatorNotAvailable
        }
    }
}

/// For producer ids, when no more can be reserved now. All clients ask again at this code, which is Kafka's own. At
/// COORDINATOR_NOT_AVAILABLE Java's producers look for the coordinator of a transactional id that they do not have, and give
/// up; at KAFKA_STORAGE_ERROR Go's do.
pub(crate) fn producer_id_code(error: &ChangeError) -> ErrorCode {
    match error {
        ChangeError::Plan(error) => plan_code(error),
        ChangeError::Append(_) | ChangeError::Stopping(_) | ChangeError::Commit(_) => {
            ErrorCode::CoordinatorLoadInProgress
        }
    }
}

/// For transactions.
pub(crate) fn transaction_code(error: &transactions::TransactionError) -> ErrorCode {
    use transactions::TransactionError as Error;
    match error {
        Error::CoordinatorLoading => ErrorCode::CoordinatorLoadInProgress,
        Error::NotPersisted | Error::NoProducerId => ErrorCode::CoordinatorNotAvailable,
        Error::ConcurrentTransactions => ErrorCode::ConcurrentTransactions,
        Error::InvalidTxnState { .. } => ErrorCode::InvalidTxnState,
        Error::InvalidProducerIdMapping => ErrorCode::InvalidProducerIdMapping,
        Error::StaleEpoch { .. } => ErrorCode::ProducerFenced,
        Error::InvalidTimeout { .. } => ErrorCode::InvalidTransactionTimeout,
        Error::InvalidRequest { .. } => ErrorCode::InvalidRequest,
        Error::TransactionAbortable => ErrorCode::TransactionAbortable,
        Error::TransactionalIdNotFound { .. } => ErrorCode::TransactionalIdNotFound,
        Error::LimitReached { .. } => ErrorCode::PolicyViolation,
    }
}

/// For the batches of a transaction that does not open. Clients of earlier versions are told what they know (`append_path`).
fn unverified_code(why: &Unverified) -> ErrorCode {
    match why {
        Unverified::NoTransactionalId => ErrorCode::TransactionalIdAuthorizationFailed,
        Unverified::NotAdded => ErrorCode::TransactionAbortable,
        Unverified::NoTransaction(_) | Unverified::Ordered => ErrorCode::InvalidTxnState,
        Unverified::Fenced => ErrorCode::InvalidProducerEpoch,
        Unverified::UnknownProducer => ErrorCode::InvalidProducerIdMapping,
        Unverified::Busy => ErrorCode::ConcurrentTransactions,
        Unverified::Unreachable(_) => ErrorCode::NotEnoughReplicas,
    }
}

/// For groups.
pub(crate) fn group_code(error: &GroupError) -> ErrorCode {
    match error {
        GroupError::Loading | GroupError::ChangingOver => ErrorCode::CoordinatorLoadInProgress,
        GroupError::NotPersisted => ErrorCode::CoordinatorNotAvailable,
        GroupError::InvalidGroupId { .. } => ErrorCode::InvalidGroupId,
        GroupError::GroupNotFound { .. } => ErrorCode::GroupIdNotFound,
        GroupError::NonEmptyGroup { .. } | GroupError::PendingOffsets { .. } => ErrorCode::NonEmptyGroup,
        GroupError::UnstableOffset => ErrorCode::UnstableOffsetCommit,
        GroupError::InvalidProducerEpoch { .. } => ErrorCode::InvalidProducerEpoch,
        GroupError::TransactionCoordinatorFenced { .. } => ErrorCode::TransactionCoordinatorFenced,
        GroupError::SubscribedToTopic { .. } => ErrorCode::GroupSubscribedToTopic,
        GroupError::LimitReached { .. } => ErrorCode::PolicyViolation,
        GroupError::InvalidRequest { .. } => ErrorCode::InvalidRequest,
        GroupError::InvalidSessionTimeout { .. } => ErrorCode::InvalidSessionTimeout,
        GroupError::UnknownMember { .. } => ErrorCode::UnknownMemberId,
        GroupError::MemberIdRequired { .. } => ErrorCode::MemberIdRequired,
        GroupError::FencedInstance { .. } => ErrorCode::FencedInstanceId,
        GroupError::UnreleasedInstance { .. } => ErrorCode::UnreleasedInstanceId,
        GroupError::IllegalGeneration { .. } => ErrorCode::IllegalGeneration,
        GroupError::RebalanceInProgress => ErrorCode::RebalanceInProgress,
        GroupError::InconsistentProtocol => ErrorCode::InconsistentGroupProtocol,
        GroupError::GroupFull { .. } => ErrorCode::GroupMaxSizeReached,
        GroupError::OffsetMetadataTooLarge { .. } => ErrorCode::OffsetMetadataTooLarge,
        GroupError::FencedMemberEpoch { .. } => ErrorCode::FencedMemberEpoch,
        GroupError::StaleMemberEpoch { .. } => ErrorCode::StaleMemberEpoch,
        GroupError::CommitWithoutEpoch => ErrorCode::UnsupportedVersion,
        GroupError::UnsupportedAssignor { .. } => ErrorCode::UnsupportedAssignor,
        GroupError::InvalidRegex { .. } => ErrorCode::InvalidRegularExpression,
    }
}

fn plan_code(error: &PlanError) -> ErrorCode {
    match error {
        PlanError::Refused(error) => apply_code(error),
        PlanError::PartitionCount { max, got, .. } if got > max => ErrorCode::PolicyViolation,
        PlanError::PartitionCount { .. } => ErrorCode::InvalidPartitions,
        PlanError::ClusterFull { .. }
        | PlanError::GroupConfigsFull { .. }
        | PlanError::MetadataFull { .. }
        | PlanError::MetadataShareTaken { .. }
        | PlanError::TooLarge { .. } => ErrorCode::PolicyViolation,
        PlanError::ReplicaCount { .. }
        | PlanError::ReplicasMax { .. }
        | PlanError::UnreachableNodes { .. } => ErrorCode::InvalidReplicationFactor,
        PlanError::CompactedReplicas { .. } | PlanError::NoOrder(_) => ErrorCode::InvalidConfig,
        PlanError::CompactedMove { .. }
        | PlanError::Unreachable { .. }
        | PlanError::ChosenPartitions { .. }
        | PlanError::ChosenReplicas { .. } => ErrorCode::InvalidReplicaAssignment,
        PlanError::NotStuck { .. } => ErrorCode::ElectionNotNeeded,
        PlanError::NobodyLeft { .. } => ErrorCode::EligibleLeadersNotAvailable,
        PlanError::LevelUnknown { .. } => ErrorCode::FeatureUpdateFailed,
        PlanError::NoReassignment => ErrorCode::NoReassignmentInProgress,
        PlanError::LeaderChanged { .. } => ErrorCode::NotLeaderOrFollower,
        PlanError::ProducerIdsExhausted => ErrorCode::UnknownServerError,
    }
}

fn apply_code(error: &ApplyError) -> ErrorCode {
    match error {
        ApplyError::TopicExists { .. } | ApplyError::TopicIdExists { .. } => ErrorCode::TopicAlreadyExists,
        ApplyError::TopicName(TopicNameError::Reserved { .. }) => ErrorCode::InvalidRequest,
        ApplyError::TopicName(_) | ApplyError::TopicNameCollides { .. } => ErrorCode::InvalidTopicException,
        ApplyError::UnknownTopic { .. } | ApplyError::UnknownPartition { .. } => {
            ErrorCode::UnknownTopicOrPartition
        }
        // Only configs have needed another level so far.
        ApplyError::LevelTooLow { .. } | ApplyError::Config(_) => ErrorCode::InvalidConfig,
        ApplyError::GroupName { .. } => ErrorCode::InvalidGroupId,
        ApplyError::LevelReached { .. } => ErrorCode::FeatureUpdateFailed,
        ApplyError::NoPartitions | ApplyError::PartitionsExhausted | ApplyError::PartitionsChanged { .. } => {
            ErrorCode::InvalidPartitions
        }
        ApplyError::InvalidReplicaSet
        | ApplyError::ReplicasInDoubt { .. }
        | ApplyError::NotAReplica { .. } => ErrorCode::InvalidReplicaAssignment,
        // Somebody else has changed the partition, or it has just been changed: clients are to try again, and take
        // REASSIGNMENT_IN_PROGRESS for lasting.
        ApplyError::ReplicasUnsettled { .. } | ApplyError::EpochNotNext { .. } => {
            ErrorCode::LeaderNotAvailable
        }
        // It is as it shall be.
        ApplyError::ReplicasUnchanged { .. } => ErrorCode::None,
        ApplyError::UnknownNode { .. } => ErrorCode::BrokerIdNotRegistered,
        ApplyError::NodeHolds { .. } | ApplyError::LastNode { .. } | ApplyError::DrainedToItself { .. } => {
            ErrorCode::InvalidRequest
        }
        ApplyError::AlreadyFormatted { .. }
        | ApplyError::NotFormatted
        | ApplyError::InvalidNode { .. }
        | ApplyError::NodeExists { .. }
        | ApplyError::OtherDirectory { .. }
        | ApplyError::NodesExhausted
        | ApplyError::StartPassed { .. }
        | ApplyError::EpochPassed { .. }
        | ApplyError::StartOver { .. }
        | ApplyError::NotJoining { .. }
        | ApplyError::NothingUnsettled { .. }
        | ApplyError::ProducerIdsTaken { .. } => ErrorCode::UnknownServerError,
    }
}

/// For whatever the node does not begin or finish any more because it is stopping: clients look for another leader.
pub(crate) fn stopping_code() -> ErrorCode {
    ErrorCode::NotLeaderOrFollower
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::Stopping;
    use record::{Epoch, PartitionId, TopicId};
    use shard::DiskShortage;

    #[test]
    fn a_stopping_node_sends_clients_to_whom_they_can_find() {
        let stopping = [
            ChangeError::Stopping(Stopping),
            ChangeError::Append(AppendRefusal::Stopping),
            ChangeError::Append(AppendRefusal::NotLeader),
        ];
        for error in stopping {
            assert_eq!(change_code(&error), ErrorCode::NotController);
            assert_eq!(coordinator_code(&error), ErrorCode::CoordinatorNotAvailable);
            assert_eq!(producer_id_code(&error), ErrorCode::CoordinatorLoadInProgress);
        }
        let disk = [
            AppendRefusal::JournalDead("flush failed".into()),
            AppendRefusal::DiskFull(DiskShortage {
                free_bytes: 0,
                reserve_bytes: 1,
            }),
            AppendRefusal::ReservedChangesSpent { changes_max: 1 },
            AppendRefusal::Starting,
            AppendRefusal::JournalFull { why: "layout".into() },
        ];
        for error in disk.map(ChangeError::Append) {
            assert_eq!(change_code(&error), ErrorCode::KafkaStorageError);
            assert_eq!(coordinator_code(&error), ErrorCode::CoordinatorNotAvailable);
            assert_eq!(producer_id_code(&error), ErrorCode::CoordinatorLoadInProgress);
        }
        let used_up = ChangeError::Plan(PlanError::ProducerIdsExhausted);
        assert_eq!(producer_id_code(&used_up), ErrorCode::UnknownServerError);
    }

    #[test]
    fn who_is_in_the_way_of_another_change_is_told_to_try_again() {
        let partition = PartitionId {
            topic: TopicId([1; 16]),
            index: 0,
        };
        let outrun = ApplyError::EpochNotNext {
            current: Epoch(2),
            got: Epoch(2),
        };
        for error in [ApplyError::ReplicasUnsettled { partition }, outrun] {
            let code = change_code(&ChangeError::Plan(error.into()));
            assert!(code.is_retriable(), "{code:?}");
        }
        let unchanged = PlanError::from(ApplyError::ReplicasUnchanged { partition });
        assert_eq!(change_code(&ChangeError::Plan(unchanged)), ErrorCode::None);
    }
}
