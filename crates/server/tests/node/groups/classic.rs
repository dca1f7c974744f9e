//! Members by the classic protocol join, commit, leave and come back, over restarts.

use kafka_wire::offset_fetch::{OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics};
use kafka_wire::{
    ErrorCode, JoinGroupRequest, LeaveGroupRequest, ListGroupsRequest, OffsetFetchRequest, Text,
};
use record::TopicId;

use super::{
    ORDERS, beat, code, commit, commit_request, committed, join, join_request, member, patiently,
    send_commit, start,
};
use crate::ask::look;
use crate::support::{TestNode, Wire, batch, eventually, now_ms};

/// The offset that the group has committed of partition 0 of `orders`, and its note.
fn told(wire: &mut Wire, version: i16) -> (i64, String) {
    let request = match version {
        ..8 => OffsetFetchRequest {
            group_id: Text::from("readers"),
            topics: Some(vec![OffsetFetchRequestTopic {
                name: Text::from("orders"),
                partition_indexes: vec![0],
            }]),
            ..OffsetFetchRequest::default()
        },
        _ => OffsetFetchRequest {
            groups: vec![OffsetFetchRequestGroup {
                group_id: Text::from("readers"),
                topics: Some(vec![OffsetFetchRequestTopics {
                    name: Text::from("orders"),
                    topic_id: look(wire, "orders").topic_id,
                    partition_indexes: vec![0],
                }]),
                ..OffsetFetchRequestGroup::default()
            }],
            ..OffsetFetchRequest::default()
        },
    };
    let answer = patiently(
        || wire.call(version, &request),
        |answer| match version {
            0..2 => answer.topics[0].partitions[0].error_code,
            2..8 => answer.error_code,
            _ => answer.groups[0].error_code,
        },
    );
    let told = |metadata: &Option<Text>| metadata.as_ref().map_or("", |text| text.as_str()).to_owned();
    match version {
        ..8 => {
            let found = &answer.topics[0].partitions[0];
            (found.committed_offset, told(&found.metadata))
        }
        _ => {
            let found = &answer.groups[0].topics[0].partitions[0];
            (found.committed_offset, told(&found.metadata))
        }
    }
}

#[test]
fn members_join_commit_and_leave() {
    let (_node, mut wire) = start();
    let ann = member(&mut wire);
    assert_eq!(code(wire.call(4, &beat(&ann, 1)).error_code), ErrorCode::None);
    let stale = wire.call(4, &beat(&ann, 0));
    assert_eq!(code(stale.error_code), ErrorCode::IllegalGeneration);

    for version in 2..=9 {
        let offset = 100 + i64::from(version);
        let codes = commit(&mut wire, version, ("readers", &ann, 1), ORDERS, &[(0, offset)]);
        assert_eq!(codes, [ErrorCode::None], "version {version}");
        assert_eq!(told(&mut wire, 5), (offset, "so far".to_owned()));
    }
    for version in 1..=10 {
        let expected = (109, "so far".to_owned());
        assert_eq!(told(&mut wire, version), expected, "version {version}");
    }
    let nowhere = ("nowhere", TopicId::default());
    let refusals = [
        (("readers", &*ann, 2), ORDERS, ErrorCode::IllegalGeneration),
        (("readers", "somebody", 1), ORDERS, ErrorCode::UnknownMemberId),
        (("readers", &*ann, 1), nowhere, ErrorCode::UnknownTopicOrPartition),
    ];
    for (committer, topic, expected) in refusals {
        assert_eq!(commit(&mut wire, 8, committer, topic, &[(0, 1)]), [expected]);
    }
    let mut talkative = commit_request(("readers", &ann, 1), ORDERS, &[(0, 1)]);
    talkative.topics[0].partitions[0].committed_metadata = Some(Text::from("x".repeat(5_000)));
    assert_eq!(
        send_commit(&mut wire, 8, &talkative),
        [ErrorCode::OffsetMetadataTooLarge]
    );
    assert_eq!(told(&mut wire, 7).0, 109, "what is refused changes nothing");

    let leave = LeaveGroupRequest {
        group_id: Text::from("readers"),
        member_id: ann.clone(),
        ..LeaveGroupRequest::default()
    };
    assert_eq!(code(wire.call(1, &leave).error_code), ErrorCode::None);
    let gone = wire.call(4, &beat(&ann, 1));
    assert_eq!(code(gone.error_code), ErrorCode::UnknownMemberId);
}

#[test]
fn groups_and_their_offsets_are_there_after_restarts() {
    let (node, mut wire) = start();
    let ann = member(&mut wire);
    let told = commit(&mut wire, 8, ("readers", &ann, 1), ORDERS, &[(0, 41)]);
    assert_eq!(told, [ErrorCode::None]);

    let node = node.kill_and_restart();
    let mut wire = node.connect();
    let outlived = committed(&mut wire, "readers");
    assert_eq!(outlived, [(0, 41)], "what was acknowledged outlives a crash");
    // The member does not notice: its generation goes on.
    assert_eq!(code(wire.call(4, &beat(&ann, 1)).error_code), ErrorCode::None);
    let told = commit(&mut wire, 8, ("readers", &ann, 1), ORDERS, &[(0, 42)]);
    assert_eq!(told, [ErrorCode::None]);

    let node = node.restart();
    assert_eq!(committed(&mut node.connect(), "readers"), [(0, 42)]);
}

/// A node of one core, where a group waits an hour for more members.
fn start_with_patience() -> TestNode {
    TestNode::start_with(&[
        ("cores", "1"),
        ("groups.initial_rebalance_delay", "1h"),
        ("groups.session_timeout_max", "2h"),
        ("limits.in_flight_bytes_per_core", "1MiB"),
    ])
}

/// A join of `readers` that waits for others for long.
fn patient_join(wire: &mut Wire) -> JoinGroupRequest {
    let first = join(wire, 5, &join_request("readers", ""));
    assert_eq!(code(first.error_code), ErrorCode::MemberIdRequired);
    JoinGroupRequest {
        rebalance_timeout_ms: 3_600_000,
        ..join_request("readers", &first.member_id)
    }
}

/// Waits until the coordinator has such a join: what is asked behind it waits.
fn await_rebalance(node: &TestNode) {
    let mut other = node.connect();
    eventually("the group prepares its first generation", || {
        let listed = other.call(4, &ListGroupsRequest::default()).groups;
        let mut states = listed.iter().map(|group| group.group_state.as_str());
        states.any(|state| state == "PreparingRebalance")
    });
}

/// A member that waits for others does not keep the node from stopping.
#[test]
fn a_join_under_way_ends_when_the_node_drains() {
    let mut node = start_with_patience();
    let mut wire = node.connect();
    let request = patient_join(&mut wire);
    let frame = wire.frame(5, &request);
    wire.send(&frame);
    await_rebalance(&node);
    node.stop();
    let (_, answer) = wire.receive::<JoinGroupRequest>(5);
    assert_eq!(code(answer.error_code), ErrorCode::CoordinatorNotAvailable);
}

/// Nor does it keep others from the memory that its request came in.
#[test]
fn a_join_under_way_leaves_the_room_of_its_request_to_others() {
    let node = start_with_patience();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let request = patient_join(&mut wire);
    let mut frame = wire.frame(5, &request);
    // Bytes that follow a request in its frame are not looked at, but take room: here all there is.
    let size = 1i32 << 20;
    frame.resize(4 + size as usize, 0);
    frame[..4].copy_from_slice(&size.to_be_bytes());
    wire.send(&frame);
    await_rebalance(&node);
    let value = "x".repeat(200_000);
    let told = node.connect().produce("orders", 0, batch(&[(now_ms(), &value)]));
    assert_eq!(told.error_code, 0);
}
