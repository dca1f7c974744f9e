//! Consumer groups over the wire. What all these tests ask for stands here; each idea has a file of its own.

mod classic;
mod compacted;
mod configs;
mod consumer;
mod coordinators;
mod damage;
mod long_answers;
mod operators;
mod refused_members;
mod refused_offsets;
mod turns;
mod unknown_changes;

use bytes::Bytes;
use kafka_wire::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, ErrorCode, FindCoordinatorRequest,
    HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, OffsetCommitRequest, OffsetFetchRequest,
    SyncGroupRequest, Text,
};
use record::TopicId;

use crate::ask::code;
use crate::support::groups::{self, commit_request, patiently};
use crate::support::{TestNode, Wire};

/// So that the first generation of a group does not wait for others.
const AT_ONCE: (&str, &str) = ("groups.initial_rebalance_delay", "0s");
/// The topic that the node keeps groups in.
pub(crate) const GROUPS: &str = "__consumer_offsets";
/// The topic that everybody reads, by its name alone.
pub(crate) const ORDERS: (&str, TopicId) = ("orders", TopicId([0; 16]));

/// A node on which groups begin at once, with a topic of two partitions.
fn start() -> (TestNode, Wire) {
    let node = TestNode::start_with(&[AT_ONCE]);
    let mut wire = node.connect();
    wire.create_topic("orders", 2, &[]);
    (node, wire)
}

/// Has the node make the topic that it keeps groups in.
pub(crate) fn find_coordinator(wire: &mut Wire) {
    let find = FindCoordinatorRequest {
        key: Text::from("readers"),
        ..FindCoordinatorRequest::default()
    };
    assert_eq!(wire.call(3, &find).error_code, 0);
}

fn join_request(group: &str, member: &str) -> JoinGroupRequest {
    groups::join_request(group, member, Bytes::from_static(b"what I want"))
}

fn join(wire: &mut Wire, version: i16, request: &JoinGroupRequest) -> JoinGroupResponse {
    patiently(|| wire.call(version, request), |answer| answer.error_code)
}

/// The leader of `readers` gives itself everything.
fn sync_request(member: &str, generation: i32) -> SyncGroupRequest {
    groups::sync_request(("readers", member, generation), Bytes::from_static(b"everything"))
}

/// Joins `readers` alone and gets everything; gives the member's id. It is in generation 1.
fn member(wire: &mut Wire) -> Text {
    let first = join(wire, 5, &join_request("readers", ""));
    assert_eq!(code(first.error_code), ErrorCode::MemberIdRequired);
    assert!(!first.member_id.is_empty());
    let joined = join(wire, 5, &join_request("readers", &first.member_id));
    assert_eq!(
        (code(joined.error_code), joined.generation_id),
        (ErrorCode::None, 1)
    );
    assert_eq!((&joined.leader, joined.members.len()), (&joined.member_id, 1));
    let synced = wire.call(3, &sync_request(&joined.member_id, 1));
    assert_eq!(
        (synced.error_code, &synced.assignment[..]),
        (0, &b"everything"[..])
    );
    joined.member_id
}

/// A sign of life of a member of `readers`.
fn beat(member: &str, generation: i32) -> HeartbeatRequest {
    HeartbeatRequest {
        group_id: Text::from("readers"),
        generation_id: generation,
        member_id: Text::from(member),
        ..HeartbeatRequest::default()
    }
}

/// Codes by partition.
fn send_commit(wire: &mut Wire, version: i16, request: &OffsetCommitRequest) -> Vec<ErrorCode> {
    let answer = patiently(
        || wire.call(version, request),
        |answer| answer.topics[0].partitions[0].error_code,
    );
    let told = answer.topics[0].partitions.iter();
    told.map(|partition| code(partition.error_code)).collect()
}

/// Commits these partitions and offsets of one topic, each with a note. Codes by partition.
pub(crate) fn commit(
    wire: &mut Wire,
    version: i16,
    committer: (&str, &str, i32),
    topic: (&str, TopicId),
    partitions: &[(i32, i64)],
) -> Vec<ErrorCode> {
    send_commit(wire, version, &commit_request(committer, topic, partitions))
}

/// Commits the same offset of each of the first partitions of `orders`, with a note of some length.
fn commit_noted(
    wire: &mut Wire,
    committer: (&str, &str, i32),
    partitions: i32,
    offset: i64,
    note_bytes: usize,
) {
    let offsets: Vec<_> = (0..partitions).map(|index| (index, offset)).collect();
    let mut request = commit_request(committer, ORDERS, &offsets);
    for partition in &mut request.topics[0].partitions {
        partition.committed_metadata = Some(Text::from("x".repeat(note_bytes)));
    }
    let told = send_commit(wire, 8, &request);
    assert!(told.iter().all(|code| *code == ErrorCode::None), "{told:?}");
}

/// All that a group has committed.
pub(crate) fn committed(wire: &mut Wire, group: &str) -> Vec<(i32, i64)> {
    let request = OffsetFetchRequest {
        group_id: Text::from(group),
        topics: None,
        ..OffsetFetchRequest::default()
    };
    let answer = patiently(|| wire.call(5, &request), |answer| answer.error_code);
    let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
    partitions
        .map(|found| (found.partition_index, found.committed_offset))
        .collect()
}

/// A sign of life of a member of `consumers`, by the consumer protocol.
fn heartbeat(member: &str, epoch: i32) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest {
        group_id: Text::from("consumers"),
        member_id: Text::from(member),
        member_epoch: epoch,
        ..ConsumerGroupHeartbeatRequest::default()
    }
}

/// The first one, which says what it wants.
fn joining(member: &str) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest {
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec![Text::from("orders")]),
        topic_partitions: Some(Vec::new()),
        ..heartbeat(member, 0)
    }
}

fn hear(wire: &mut Wire, request: &ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse {
    patiently(|| wire.call(1, request), |answer| answer.error_code)
}
