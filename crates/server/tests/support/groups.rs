//! Requests of members of groups to a coordinator, as every version has them; a test that wants more says it with a change.

use bytes::Bytes;
use kafka_wire::join_group::JoinGroupRequestProtocol;
use kafka_wire::offset_commit::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_wire::sync_group::SyncGroupRequestAssignment;
use kafka_wire::{ErrorCode, JoinGroupRequest, OffsetCommitRequest, SyncGroupRequest, Text};
use record::TopicId;

use super::eventually;

/// Asks again while the coordinator reads its log.
pub(crate) fn patiently<T>(mut ask: impl FnMut() -> T, error_code: impl Fn(&T) -> i16) -> T {
    let mut answer = None;
    eventually("the coordinator has read its log", || {
        let told = answer.insert(ask());
        error_code(told) != ErrorCode::CoordinatorLoadInProgress.code()
    });
    answer.expect("it was asked")
}

/// A consumer that knows one way of assigning.
pub(crate) fn join_request(group: &str, member: &str, metadata: Bytes) -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: Text::from(group),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 30_000,
        member_id: Text::from(member),
        protocol_type: Text::from("consumer"),
        protocols: vec![JoinGroupRequestProtocol {
            name: Text::from("range"),
            metadata,
        }],
        ..JoinGroupRequest::default()
    }
}

/// The leader, who is alone, gives itself something.
pub(crate) fn sync_request(
    (group, member, generation): (&str, &str, i32),
    assignment: Bytes,
) -> SyncGroupRequest {
    SyncGroupRequest {
        group_id: Text::from(group),
        generation_id: generation,
        member_id: Text::from(member),
        protocol_type: Some(Text::from("consumer")),
        protocol_name: Some(Text::from("range")),
        assignments: vec![SyncGroupRequestAssignment {
            member_id: Text::from(member),
            assignment,
        }],
        ..SyncGroupRequest::default()
    }
}

/// A commit of these partitions and offsets of one topic, each with a note.
pub(crate) fn commit_request(
    (group, member, generation): (&str, &str, i32),
    (topic, topic_id): (&str, TopicId),
    partitions: &[(i32, i64)],
) -> OffsetCommitRequest {
    let partitions = partitions
        .iter()
        .map(|(index, offset)| OffsetCommitRequestPartition {
            partition_index: *index,
            committed_offset: *offset,
            committed_metadata: Some(Text::from("so far")),
            ..OffsetCommitRequestPartition::default()
        });
    OffsetCommitRequest {
        group_id: Text::from(group),
        generation_id_or_member_epoch: generation,
        member_id: Text::from(member),
        topics: vec![OffsetCommitRequestTopic {
            name: Text::from(topic),
            topic_id,
            partitions: partitions.collect(),
        }],
        ..OffsetCommitRequest::default()
    }
}
