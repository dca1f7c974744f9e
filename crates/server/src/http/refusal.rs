//! Our refusals as problems. The only place that knows both, as `error_codes` is for Kafka's.

use kafka_wire::ErrorCode;
use protocol::leader::TrimError;
use record::Offset;

use crate::mailbox::Stopping;
use crate::shard::{AppendRefusal, ReadRefusal};

use super::cores::Unread;
use super::problem::{Kind, Problem};

impl From<Stopping> for Problem {
    fn from(stopping: Stopping) -> Problem {
        Problem::new(Kind::Unavailable, stopping.to_string())
    }
}

impl From<AppendRefusal> for Problem {
    fn from(refusal: AppendRefusal) -> Problem {
        let kind = match &refusal {
            AppendRefusal::UnknownPartition => Kind::UnknownPartition,
            AppendRefusal::TooLarge { .. } => Kind::BodyTooLarge,
            AppendRefusal::Batch(_) | AppendRefusal::Timestamp { .. } | AppendRefusal::WithoutKey { .. } => {
                Kind::InvalidRecord
            }
            AppendRefusal::Trim(TrimError::OutOfRange { .. }) => Kind::OffsetOutOfRange,
            // What is appended here has no producer whose sequence could be wrong.
            AppendRefusal::Leader(_) => Kind::Unavailable,
            AppendRefusal::NotLeader
            | AppendRefusal::Trim(TrimError::Sealed { .. })
            | AppendRefusal::DiskFull
            | AppendRefusal::JournalDead(_)
            | AppendRefusal::Starting
            | AppendRefusal::Stopping => Kind::Unavailable,
            AppendRefusal::JournalFull => Kind::Busy,
        };
        let problem = Problem::new(kind, refusal.to_string());
        match refusal {
            AppendRefusal::TooLarge { bytes_max, .. } => problem.with("bytes_max", bytes_max),
            AppendRefusal::Trim(TrimError::OutOfRange { tail, .. }) => problem.with("tail", tail.0),
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
            Unread::Refused(ReadRefusal::FencedEpoch { .. } | ReadRefusal::UnknownEpoch { .. }) => {
                Problem::new(Kind::Unavailable, detail)
            }
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

/// The problem of a change of topics that one of Kafka's handlers refused.
pub(super) fn change_problem(code: i16, message: Option<&str>) -> Problem {
    const CODES: &[(ErrorCode, Kind)] = &[
        (ErrorCode::TopicAlreadyExists, Kind::TopicExists),
        (ErrorCode::UnknownTopicOrPartition, Kind::UnknownTopic),
        (ErrorCode::UnknownTopicId, Kind::UnknownTopic),
        (ErrorCode::InvalidTopicException, Kind::InvalidTopic),
        (ErrorCode::InvalidConfig, Kind::InvalidTopic),
        (ErrorCode::InvalidPartitions, Kind::InvalidTopic),
        (ErrorCode::InvalidReplicationFactor, Kind::InvalidTopic),
        (ErrorCode::InvalidReplicaAssignment, Kind::InvalidTopic),
        (ErrorCode::PolicyViolation, Kind::InvalidTopic),
        (ErrorCode::InvalidRequest, Kind::InvalidTopic),
        (ErrorCode::RequestTimedOut, Kind::OutcomeUnknown),
        (ErrorCode::NotController, Kind::Unavailable),
        (ErrorCode::NotLeaderOrFollower, Kind::Unavailable),
        (ErrorCode::KafkaStorageError, Kind::Unavailable),
    ];
    let known = CODES.iter().find(|(known, _)| known.code() == code);
    let kind = known.map_or(Kind::Internal, |(_, kind)| *kind);
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
    fn what_is_not_known_of_a_change_is_our_mistake() {
        assert_eq!(
            change_problem(ErrorCode::UnknownServerError.code(), None).kind,
            Kind::Internal
        );
        assert_eq!(
            change_problem(ErrorCode::InvalidConfig.code(), Some("x")).kind,
            Kind::InvalidTopic
        );
    }
}
