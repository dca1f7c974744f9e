//! An answer says all there is about groups, however short the request: what such answers take on a core is bounded, and who
//! asks for little is served beside those who ask for much and take none of it.

use bytes::Bytes;
use kafka_wire::offset_fetch::{OffsetFetchRequestGroup, OffsetFetchRequestTopic};
use kafka_wire::{
    ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, DescribeGroupsRequest, ErrorCode,
    OffsetFetchRequest, Text,
};

use super::{
    AT_ONCE, ORDERS, code, commit_request, hear, join, join_request, joining, send_commit, sync_request,
};
use crate::support::{TestNode, Wire, eventually};

/// Bytes that answers may hold here.
const LIMIT_BYTES: u64 = 1 << 20;
/// The offsets that a group remembers, and the bytes of each one's note.
const PARTITIONS: i32 = 200;
const NOTE_BYTES: usize = 4_000;
/// Bytes that telling all of that takes: as texts and in a frame, with everything around it.
const ANSWER_BYTES: u64 = 2 * PARTITIONS as u64 * (NOTE_BYTES as u64 + 200);
/// Much more than the kernel keeps for a client that reads nothing.
const ANSWERS_PER_READER: usize = 60;
const READERS: usize = 6;
const HELD: &str = "ropewalk_answer_bytes";

/// The error of a group for which an answer has no room left.
const NO_ROOM: ErrorCode = ErrorCode::CoordinatorLoadInProgress;

fn start() -> (TestNode, Wire) {
    let node = TestNode::start_with(&[AT_ONCE, ("cores", "1"), ("limits.answer_bytes_per_core", "1MiB")]);
    let mut wire = node.connect();
    wire.create_topic("orders", PARTITIONS, &[]);
    (node, wire)
}

/// Has a group that nobody joins remember offsets with long notes.
fn remember(wire: &mut Wire, group: &str) {
    let partitions: Vec<_> = (0..PARTITIONS).map(|index| (index, 7)).collect();
    let mut request = commit_request((group, "", -1), ORDERS, &partitions);
    for partition in &mut request.topics[0].partitions {
        partition.committed_metadata = Some(Text::from("x".repeat(NOTE_BYTES)));
    }
    let codes = send_commit(wire, 8, &request);
    assert!(codes.iter().all(|code| *code == ErrorCode::None));
}

/// Asks for what `readers` remember: of some partitions, or of all.
fn fetch_request(indexes: Option<&[i32]>) -> OffsetFetchRequest {
    let topics = indexes.map(|indexes| {
        vec![OffsetFetchRequestTopic {
            name: Text::from("orders"),
            partition_indexes: indexes.to_vec(),
        }]
    });
    OffsetFetchRequest {
        group_id: Text::from("readers"),
        topics,
        ..OffsetFetchRequest::default()
    }
}

#[test]
fn what_clients_do_not_take_is_bounded_and_who_asks_for_little_is_served() {
    let (node, mut wire) = start();
    remember(&mut wire, "readers");
    let greedy = node.greedy(READERS, ANSWERS_PER_READER, 5, &fetch_request(None));
    let check = || {
        let held = node.metric(HELD);
        assert!(held <= LIMIT_BYTES + ANSWER_BYTES, "{held} bytes are held");
        held
    };
    eventually("all room is taken", || check() >= LIMIT_BYTES);
    for _ in 0..20 {
        let told = wire.call(5, &fetch_request(Some(&[0, 1])));
        assert_eq!(code(told.error_code), ErrorCode::None);
        assert_eq!(told.topics[0].partitions.len(), 2);
        check();
    }
    // A long question waits until there is room.
    let frame = wire.frame(5, &fetch_request(None));
    wire.send(&frame);
    drop(greedy);
    let (_, told) = wire.receive::<OffsetFetchRequest>(5);
    assert_eq!(code(told.error_code), ErrorCode::None);
    assert_eq!(told.topics[0].partitions.len(), PARTITIONS as usize);
    eventually("all room is given back", || node.metric(HELD) == 0);
}

/// Codes, and how many partitions are told, by group.
fn fetch(wire: &mut Wire, groups: &[&str]) -> Vec<(ErrorCode, usize)> {
    let all = |group: &&str| OffsetFetchRequestGroup {
        group_id: Text::from(*group),
        topics: None,
        ..OffsetFetchRequestGroup::default()
    };
    let request = OffsetFetchRequest {
        groups: groups.iter().map(all).collect(),
        ..OffsetFetchRequest::default()
    };
    let told = wire.call(8, &request).groups;
    told.iter()
        .map(|group| {
            let partitions = group.topics.iter().map(|topic| topic.partitions.len());
            (code(group.error_code), partitions.sum::<usize>())
        })
        .collect()
}

#[test]
fn offsets_that_find_no_room_beside_others_are_asked_for_again() {
    let (_node, mut wire) = start();
    remember(&mut wire, "one");
    remember(&mut wire, "two");
    let (whole, left_out) = ((ErrorCode::None, PARTITIONS as usize), (NO_ROOM, 0));
    assert_eq!(fetch(&mut wire, &["one", "two"]), [whole, left_out]);
    assert_eq!(fetch(&mut wire, &["two"]), [whole]);
}

#[test]
fn classic_groups_that_find_no_room_beside_others_are_asked_for_again() {
    let (_node, mut wire) = start();
    let metadata = Bytes::from(vec![7; 250 << 10]);
    let groups: Vec<Text> = ["a", "b", "c", "d", "e", "f"].map(Text::from).to_vec();
    for group in &groups {
        let mut request = join_request(group, "");
        request.protocols[0].metadata = metadata.clone();
        let joined = join(&mut wire, 3, &request);
        assert_eq!(code(joined.error_code), ErrorCode::None);
        let mut sync = sync_request(&joined.member_id, 1);
        sync.group_id = group.clone();
        assert_eq!(code(wire.call(3, &sync).error_code), ErrorCode::None);
    }
    let mut describe = |groups: &[Text]| -> Vec<(ErrorCode, usize)> {
        let request = DescribeGroupsRequest {
            groups: groups.to_vec(),
            ..DescribeGroupsRequest::default()
        };
        let told = wire.call(6, &request).groups;
        told.iter()
            .map(|group| {
                let bytes = group.members.iter().map(|member| member.member_metadata.len());
                (code(group.error_code), bytes.sum::<usize>())
            })
            .collect()
    };
    let whole = (ErrorCode::None, metadata.len());
    // Four leave a little, which the fifth may pass.
    assert_eq!(
        describe(&groups),
        [whole, whole, whole, whole, whole, (NO_ROOM, 0)]
    );
    assert_eq!(describe(&groups[5..]), [whole]);
}

#[test]
fn consumer_groups_that_find_no_room_beside_others_are_asked_for_again() {
    let (_node, mut wire) = start();
    let topics: Vec<Text> = (0..5_000)
        .map(|number| Text::from(format!("topic-that-may-come-{number:05}")))
        .collect();
    let groups: Vec<Text> = ["a", "b", "c"].map(Text::from).to_vec();
    for group in &groups {
        let request = ConsumerGroupHeartbeatRequest {
            group_id: group.clone(),
            subscribed_topic_names: Some(topics.clone()),
            ..joining("ann")
        };
        assert_eq!(code(hear(&mut wire, &request).error_code), ErrorCode::None);
    }
    let mut describe = |groups: &[Text]| -> Vec<(ErrorCode, usize)> {
        let request = ConsumerGroupDescribeRequest {
            group_ids: groups.to_vec(),
            ..ConsumerGroupDescribeRequest::default()
        };
        let told = wire.call(1, &request).groups;
        told.iter()
            .map(|group| {
                let topics = group
                    .members
                    .iter()
                    .map(|member| member.subscribed_topic_names.len());
                (code(group.error_code), topics.sum::<usize>())
            })
            .collect()
    };
    let whole = (ErrorCode::None, topics.len());
    assert_eq!(describe(&groups), [whole, whole, (NO_ROOM, 0)]);
    assert_eq!(describe(&groups[2..]), [whole]);
}
