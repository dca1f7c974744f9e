//! Our refusals as problems. The only place that knows both, as `error_codes` is for Kafka's.

use kafka_wire::ErrorCode;
use protocol::groups::GroupError;
use protocol::leader::TrimError;
use protocol::transactions::TransactionError;
use record::Offset;
use shard::{AppendRefusal, ReadRefusal};

use crate::mailbox::Stopping;

use super::cores::Unread;
use super::groups::GroupRefusal;
use super::problem::{Kind, Problem};
use super::transactions::TransactionRefusal;

impl From<Stopping> for Problem {
    fn from(stopping: Stopping) -> Problem {
        Problem::new(Kind::Unavailable, stopping.to_string())
    }
}

impl From<AppendRefusal> for Problem {
    fn from(refusal: AppendRefusal) -> Problem {
        let kind = match &refusal {
            AppendRefusal::UnknownPartition => Kind::UnknownPartition,
            AppendRefusal::TooLarge { .. }
            | AppendRefusal::TooLargeRecompressed(_)
            | AppendRefusal::TooLargeForJournal { .. }
            | AppendRefusal::RequestDecompressesTooLarge { .. } => Kind::BodyTooLarge,
            AppendRefusal::Batch(_) | AppendRefusal::BaseOffset { .. } | AppendRefusal::Records(_) => {
                Kind::InvalidRecord
            }
            AppendRefusal::OnlyCompacted => Kind::OnlyCompacted,
            AppendRefusal::Trim(TrimError::OutOfRange { .. }) => Kind::OffsetOutOfRange,
            // A record appended here has no producer whose sequence could be wrong.
            AppendRefusal::Leader(_) => Kind::Unavailable,
            AppendRefusal::Unverified(_) => Kind::InvalidRecord,
            AppendRefusal::NotLeader
            | AppendRefusal::BecameCompacted
            | AppendRefusal::Trim(TrimError::Sealed { .. })
            | AppendRefusal::DiskFull(_)
            | AppendRefusal::ReservedChangesSpent { .. }
            | AppendRefusal::JournalDead(_)
            | AppendRefusal::Starting
            | AppendRefusal::OrderNotOpen
            | AppendRefusal::Stopping => Kind::Unavailable,
            AppendRefusal::FlushFailed(_) | AppendRefusal::Abandoned | AppendRefusal::TooFewHold => {
                Kind::OutcomeUnknown
            }
            AppendRefusal::JournalFull { .. } => Kind::Busy,
            AppendRefusal::TailMoved { .. } | AppendRefusal::OffsetMoved { .. } => Kind::ConditionFailed,
            AppendRefusal::NoOrder | AppendRefusal::NotInLane => Kind::NoOrder,
        };
        let problem = Problem::new(kind, refusal.to_string());
        match refusal {
            AppendRefusal::TooLarge { bytes_max, .. } => problem.with("bytes_max", bytes_max),
            AppendRefusal::TooLargeForJournal { bytes_max, .. } => problem.with("bytes_max", bytes_max),
            AppendRefusal::TailMoved { tail, .. } => problem.with("ordered", tail.0),
            AppendRefusal::OffsetMoved { next, .. } => problem.with("next_offset", next.0),
            AppendRefusal::Trim(TrimError::OutOfRange { log_start, tail, .. }) => {
                problem.with("first_offset", log_start.0).with("tail", tail.0)
            }
            _ => problem,
        }
    }
}

impl From<Unread> for Problem {
    fn from(unread: Unread) -> Problem {
        let detail = unread.to_string();
        match unread {
            Unread::Stopping(stopping) => stopping.into(),
            Unread::NoRoom => Problem::new(Kind::Busy, detail),
            Unread::Refused(ReadRefusal::OutOfRange {
                wanted,
                log_start,
                tail,
            }) => out_of_range(wanted, log_start, tail),
            Unread::Refused(ReadRefusal::UnknownPartition) => Problem::new(Kind::UnknownPartition, detail),
            Unread::Refused(ReadRefusal::Fault(_)) => Problem::new(Kind::StorageFault, detail),
            Unread::Refused(
                ReadRefusal::NotLeader
                | ReadRefusal::NotOpen
                | ReadRefusal::FencedEpoch { .. }
                | ReadRefusal::UnknownEpoch { .. },
            ) => Problem::new(Kind::Unavailable, detail),
        }
    }
}

/// The problem of an offset that a partition does not have, with those that it has.
pub(super) fn out_of_range(wanted: Offset, log_start: Offset, tail: Offset) -> Problem {
    let detail = format!("offset {wanted} is not here; the partition can be read from {log_start} to {tail}");
    Problem::new(Kind::OffsetOutOfRange, detail)
        .with("first_offset", log_start.0)
        .with("tail", tail.0)
}

impl From<GroupRefusal> for Problem {
    fn from(refusal: GroupRefusal) -> Problem {
        match refusal {
            GroupRefusal::Group(error) => error.into(),
            GroupRefusal::NoCoordinator => Problem::new(Kind::Unavailable, refusal.to_string()),
            GroupRefusal::Stopping(stopping) => stopping.into(),
        }
    }
}

impl From<GroupError> for Problem {
    fn from(error: GroupError) -> Problem {
        let problem = |kind| Problem::new(kind, error.to_string());
        match &error {
            GroupError::GroupNotFound { group } => {
                Problem::new(Kind::UnknownGroup, format!("there is no group {group:?}"))
                    .with("group", &**group)
            }
            GroupError::NonEmptyGroup { members } => problem(Kind::GroupNotEmpty).with("members", *members),
            GroupError::SubscribedToTopic { .. } | GroupError::PendingOffsets { .. } => {
                problem(Kind::GroupNotEmpty)
            }
            // A client here is no member, which matters only while there are some.
            GroupError::UnknownMember { .. }
            | GroupError::RebalanceInProgress
            | GroupError::IllegalGeneration { .. } => Problem::new(
                Kind::GroupNotEmpty,
                "the group has members, and only they may commit: stop them first",
            ),
            GroupError::InvalidGroupId { .. }
            | GroupError::LimitReached { .. }
            | GroupError::InvalidRequest { .. } => problem(Kind::InvalidGroup),
            GroupError::Loading | GroupError::ChangingOver | GroupError::NotPersisted => {
                problem(Kind::Unavailable)
            }
            // About what only members and producers send.
            GroupError::UnstableOffset
            | GroupError::InvalidProducerEpoch { .. }
            | GroupError::TransactionCoordinatorFenced { .. }
            | GroupError::InvalidSessionTimeout { .. }
            | GroupError::MemberIdRequired { .. }
            | GroupError::FencedInstance { .. }
            | GroupError::UnreleasedInstance { .. }
            | GroupError::InconsistentProtocol
            | GroupError::GroupFull { .. }
            | GroupError::OffsetMetadataTooLarge { .. }
            | GroupError::FencedMemberEpoch { .. }
            | GroupError::StaleMemberEpoch { .. }
            | GroupError::CommitWithoutEpoch
            | GroupError::UnsupportedAssignor { .. }
            | GroupError::InvalidRegex { .. } => problem(Kind::Internal),
        }
    }
}

impl From<TransactionRefusal> for Problem {
    fn from(refusal: TransactionRefusal) -> Problem {
        match refusal {
            TransactionRefusal::Transaction(error) => error.into(),
            TransactionRefusal::NoCoordinator => Problem::new(Kind::Unavailable, refusal.to_string()),
            TransactionRefusal::Stopping(stopping) => stopping.into(),
        }
    }
}

impl From<TransactionError> for Problem {
    fn from(error: TransactionError) -> Problem {
        let problem = |kind| Problem::new(kind, error.to_string());
        match &error {
            TransactionError::TransactionalIdNotFound { transactional_id } => {
                let detail = format!("there is no transactional id {transactional_id:?}");
                Problem::new(Kind::UnknownTransaction, detail).with("transaction", &**transactional_id)
            }
            // No id can be like that.
            TransactionError::InvalidRequest { .. } => problem(Kind::UnknownTransaction),
            TransactionError::CoordinatorLoading
            | TransactionError::NotPersisted
            | TransactionError::NoProducerId
            | TransactionError::ConcurrentTransactions
            | TransactionError::LimitReached { .. } => problem(Kind::Unavailable),
            // About what only producers send.
            TransactionError::InvalidTxnState { .. }
            | TransactionError::InvalidProducerIdMapping
            | TransactionError::StaleEpoch { .. }
            | TransactionError::InvalidTimeout { .. }
            | TransactionError::TransactionAbortable => problem(Kind::Internal),
        }
    }
}

/// The problem of a change that is not answered in time.
pub(super) fn outcome_unknown() -> Problem {
    let detail = "not known to be durable in time; it may become so yet: look before trying again";
    Problem::new(Kind::OutcomeUnknown, detail)
}

/// The problem of a change of topics or configs that one of Kafka's handlers refused; `invalid` if what was wanted cannot be.
pub(super) fn change_problem(code: i16, message: Option<&str>, invalid: Kind) -> Problem {
    const INVALID: &[ErrorCode] = &[
        ErrorCode::InvalidTopicException,
        ErrorCode::InvalidConfig,
        ErrorCode::InvalidGroupId,
        ErrorCode::InvalidPartitions,
        ErrorCode::InvalidReplicationFactor,
        ErrorCode::InvalidReplicaAssignment,
        ErrorCode::PolicyViolation,
        ErrorCode::InvalidRequest,
    ];
    const CODES: &[(ErrorCode, Kind)] = &[
        (ErrorCode::TopicAlreadyExists, Kind::TopicExists),
        (ErrorCode::UnknownTopicOrPartition, Kind::UnknownTopic),
        (ErrorCode::UnknownTopicId, Kind::UnknownTopic),
        (ErrorCode::RequestTimedOut, Kind::OutcomeUnknown),
        (ErrorCode::LeaderNotAvailable, Kind::Busy),
        (ErrorCode::NotController, Kind::Unavailable),
        (ErrorCode::EligibleLeadersNotAvailable, Kind::Unavailable),
        (ErrorCode::NotLeaderOrFollower, Kind::Unavailable),
        (ErrorCode::KafkaStorageError, Kind::Unavailable),
    ];
    let kind = match INVALID.iter().any(|known| known.code() == code) {
        true => invalid,
        false => {
            let known = CODES.iter().find(|(known, _)| known.code() == code);
            known.map_or(Kind::Internal, |(_, kind)| *kind)
        }
    };
    Problem::new(kind, message.unwrap_or("the change was refused"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_that_is_missed_is_told() {
        let refusal = ReadRefusal::OutOfRange {
            wanted: Offset(9),
            log_start: Offset(2),
            tail: Offset(5),
        };
        let problem = Problem::from(Unread::from(refusal)).json();
        assert_eq!(problem["status"], 416);
        assert_eq!(
            (&problem["first_offset"], &problem["tail"]),
            (&2.into(), &5.into())
        );
        assert_eq!(problem["type"], "urn:ropewalk:problem:offset-out-of-range");
    }

    #[test]
    fn only_what_was_on_the_way_to_the_disk_may_be_there() {
        let kind = |refusal: AppendRefusal| Problem::from(refusal).kind;
        assert_eq!(kind(AppendRefusal::FlushFailed("x".into())), Kind::OutcomeUnknown);
        assert_eq!(kind(AppendRefusal::JournalDead("x".into())), Kind::Unavailable);
    }

    #[test]
    fn what_is_not_known_of_a_change_is_our_mistake() {
        assert_eq!(
            change_problem(ErrorCode::UnknownServerError.code(), None, Kind::InvalidTopic).kind,
            Kind::Internal
        );
        for invalid in [Kind::InvalidTopic, Kind::InvalidConfig] {
            let code = ErrorCode::InvalidConfig.code();
            assert_eq!(change_problem(code, Some("x"), invalid).kind, invalid);
        }
    }

    #[test]
    fn whoever_is_refused_as_no_member_is_told_of_the_members() {
        let member = "".into();
        let problem = Problem::from(GroupRefusal::Group(GroupError::UnknownMember { member })).json();
        assert_eq!(problem["type"], "urn:ropewalk:problem:group-not-empty");
        assert!(problem["detail"].to_string().contains("stop them first"));
        let problem = Problem::from(GroupError::NonEmptyGroup { members: 3 }).json();
        assert_eq!(
            (&problem["status"], &problem["members"]),
            (&409.into(), &3.into())
        );
    }
}
