//! Consumer groups over the wire: members join, commit, leave and come back, over restarts; and what nobody should send.

use bytes::Bytes;
use kafka_wire::describe_configs::DescribeConfigsResource;
use kafka_wire::join_group::JoinGroupRequestProtocol;
use kafka_wire::offset_commit::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_wire::offset_fetch::{OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics};
use kafka_wire::sync_group::SyncGroupRequestAssignment;
use kafka_wire::{
    ConsumerGroupHeartbeatRequest, DeleteGroupsRequest, DeleteTopicsRequest, DescribeConfigsRequest,
    DescribeGroupsRequest, ErrorCode, FindCoordinatorRequest, HeartbeatRequest, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, ListGroupsRequest, MetadataRequest, OffsetCommitRequest,
    OffsetFetchRequest, SyncGroupRequest, Text,
};

use crate::support::{TestNode, Wire, batch, now_ms};

/// So that the first generation of a group does not wait for others.
const AT_ONCE: &[(&str, &str)] = &[("groups.initial_rebalance_delay", "0s")];

fn code(number: i16) -> ErrorCode {
    ErrorCode::from_code(number).expect("one of Kafka's codes")
}

/// Asks again while the coordinator reads its log.
fn patiently<T>(mut ask: impl FnMut() -> T, error_code: impl Fn(&T) -> i16) -> T {
    loop {
        let answer = ask();
        if code(error_code(&answer)) != ErrorCode::CoordinatorLoadInProgress {
            return answer;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

fn join(wire: &mut Wire, version: i16, member: &str) -> JoinGroupResponse {
    let request = JoinGroupRequest {
        group_id: Text::from("readers"),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 30_000,
        member_id: Text::from(member),
        protocol_type: Text::from("consumer"),
        protocols: vec![JoinGroupRequestProtocol {
            name: Text::from("range"),
            metadata: Bytes::from_static(b"what I want"),
        }],
        ..JoinGroupRequest::default()
    };
    patiently(|| wire.call(version, &request), |answer| answer.error_code)
}

/// Joins alone and gets an assignment; gives the member's id and the generation.
fn join_alone(wire: &mut Wire) -> (Text, i32) {
    let first = join(wire, 5, "");
    assert_eq!(code(first.error_code), ErrorCode::MemberIdRequired);
    assert!(!first.member_id.is_empty());
    let joined = join(wire, 5, &first.member_id);
    assert_eq!(code(joined.error_code), ErrorCode::None);
    assert_eq!((&joined.leader, joined.members.len()), (&joined.member_id, 1));
    let sync = SyncGroupRequest {
        group_id: Text::from("readers"),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        assignments: vec![SyncGroupRequestAssignment {
            member_id: joined.member_id.clone(),
            assignment: Bytes::from_static(b"everything"),
        }],
        ..SyncGroupRequest::default()
    };
    let synced = wire.call(3, &sync);
    assert_eq!(
        (synced.error_code, &synced.assignment[..]),
        (0, &b"everything"[..])
    );
    (joined.member_id, joined.generation_id)
}

fn commit(member: &str, generation: i32, topic: &str, offset: i64) -> OffsetCommitRequest {
    OffsetCommitRequest {
        group_id: Text::from("readers"),
        generation_id_or_member_epoch: generation,
        member_id: Text::from(member),
        topics: vec![OffsetCommitRequestTopic {
            name: Text::from(topic),
            partitions: vec![OffsetCommitRequestPartition {
                partition_index: 0,
                committed_offset: offset,
                committed_metadata: Some(Text::from("so far")),
                ..OffsetCommitRequestPartition::default()
            }],
            ..OffsetCommitRequestTopic::default()
        }],
        ..OffsetCommitRequest::default()
    }
}

fn commit_code(wire: &mut Wire, version: i16, request: &OffsetCommitRequest) -> ErrorCode {
    let answer = patiently(
        || wire.call(version, request),
        |answer| answer.topics[0].partitions[0].error_code,
    );
    code(answer.topics[0].partitions[0].error_code)
}

/// What the group has committed of partition 0 of `orders`.
fn committed(wire: &mut Wire, version: i16) -> (i64, String) {
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
                    topic_id: topic_id(wire),
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

fn topic_id(wire: &mut Wire) -> record::TopicId {
    let all = MetadataRequest {
        topics: None,
        ..MetadataRequest::default()
    };
    let topics = wire.call(12, &all).topics;
    let orders = topics
        .iter()
        .find(|topic| topic.name.as_deref() == Some("orders"));
    orders.expect("it was made").topic_id
}

#[test]
fn a_coordinator_is_found_in_every_version() {
    let node = TestNode::start();
    let mut wire = node.connect();
    for version in 0..=6 {
        let request = FindCoordinatorRequest {
            key: Text::from("readers"),
            key_type: 0,
            coordinator_keys: vec![Text::from("readers"), Text::from("writers")],
        };
        let answer = wire.call(version, &request);
        let port = i32::from(node.address().port());
        match version {
            ..4 => assert_eq!((answer.error_code, answer.node_id, answer.port), (0, 1, port)),
            _ => {
                let found: Vec<_> = answer
                    .coordinators
                    .iter()
                    .map(|found| (found.key.as_str(), found.error_code, found.node_id, found.port))
                    .collect();
                assert_eq!(found, [("readers", 0, 1, port), ("writers", 0, 1, port)]);
            }
        }
    }
    let transaction = FindCoordinatorRequest {
        key: Text::from("mine"),
        key_type: 1,
        ..FindCoordinatorRequest::default()
    };
    let refused = wire.call(3, &transaction);
    assert_eq!(
        code(refused.error_code),
        ErrorCode::TransactionalIdAuthorizationFailed
    );
}

#[test]
fn members_join_commit_and_leave() {
    let node = TestNode::start_with(AT_ONCE);
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let (member, generation) = join_alone(&mut wire);
    let heartbeat = |generation_id| HeartbeatRequest {
        group_id: Text::from("readers"),
        generation_id,
        member_id: member.clone(),
        ..HeartbeatRequest::default()
    };
    assert_eq!(
        code(wire.call(4, &heartbeat(generation)).error_code),
        ErrorCode::None
    );
    let stale = wire.call(4, &heartbeat(generation - 1));
    assert_eq!(code(stale.error_code), ErrorCode::IllegalGeneration);

    for version in 2..=9 {
        let request = commit(&member, generation, "orders", 100 + i64::from(version));
        assert_eq!(
            commit_code(&mut wire, version, &request),
            ErrorCode::None,
            "version {version}"
        );
        assert_eq!(
            committed(&mut wire, 5),
            (100 + i64::from(version), "so far".to_owned())
        );
    }
    for version in 1..=10 {
        assert_eq!(
            committed(&mut wire, version),
            (109, "so far".to_owned()),
            "version {version}"
        );
    }
    let refusals = [
        (
            commit(&member, generation + 1, "orders", 1),
            ErrorCode::IllegalGeneration,
        ),
        (
            commit("somebody", generation, "orders", 1),
            ErrorCode::UnknownMemberId,
        ),
        (
            commit(&member, generation, "nowhere", 1),
            ErrorCode::UnknownTopicOrPartition,
        ),
    ];
    for (request, expected) in refusals {
        assert_eq!(commit_code(&mut wire, 8, &request), expected);
    }
    let mut talkative = commit(&member, generation, "orders", 1);
    talkative.topics[0].partitions[0].committed_metadata = Some(Text::from("x".repeat(5_000)));
    assert_eq!(
        commit_code(&mut wire, 8, &talkative),
        ErrorCode::OffsetMetadataTooLarge
    );
    assert_eq!(committed(&mut wire, 7).0, 109, "what is refused changes nothing");

    let leave = LeaveGroupRequest {
        group_id: Text::from("readers"),
        member_id: member.clone(),
        ..LeaveGroupRequest::default()
    };
    assert_eq!(code(wire.call(1, &leave).error_code), ErrorCode::None);
    assert_eq!(
        code(wire.call(4, &heartbeat(generation)).error_code),
        ErrorCode::UnknownMemberId
    );
}

#[test]
fn groups_and_their_offsets_are_there_after_restarts() {
    let node = TestNode::start_with(AT_ONCE);
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let (member, generation) = join_alone(&mut wire);
    let request = commit(&member, generation, "orders", 41);
    assert_eq!(commit_code(&mut wire, 8, &request), ErrorCode::None);

    let node = node.kill_and_restart();
    let mut wire = node.connect();
    assert_eq!(
        committed(&mut wire, 8).0,
        41,
        "what was acknowledged outlives a crash"
    );
    // The member does not notice: its generation goes on.
    let heartbeat = HeartbeatRequest {
        group_id: Text::from("readers"),
        generation_id: generation,
        member_id: member.clone(),
        ..HeartbeatRequest::default()
    };
    assert_eq!(code(wire.call(4, &heartbeat).error_code), ErrorCode::None);
    let request = commit(&member, generation, "orders", 42);
    assert_eq!(commit_code(&mut wire, 8, &request), ErrorCode::None);

    let node = node.restart();
    let mut wire = node.connect();
    assert_eq!(committed(&mut wire, 8).0, 42);
}

#[test]
fn operators_list_describe_and_delete() {
    let node = TestNode::start_with(AT_ONCE);
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let unknown = |wire: &mut Wire, version| {
        let request = DescribeGroupsRequest {
            groups: vec![Text::from("readers")],
            ..DescribeGroupsRequest::default()
        };
        wire.call(version, &request).groups.remove(0)
    };
    let old = unknown(&mut wire, 5);
    assert_eq!((old.error_code, old.group_state.as_str()), (0, "Dead"));
    let new = unknown(&mut wire, 6);
    assert_eq!(code(new.error_code), ErrorCode::GroupIdNotFound);

    let (member, _) = join_alone(&mut wire);
    let described = unknown(&mut wire, 6);
    assert_eq!(
        (described.group_state.as_str(), described.protocol_data.as_str()),
        ("Stable", "range")
    );
    let [only] = &described.members[..] else {
        panic!("one member: {:?}", described.members);
    };
    assert_eq!(
        (
            &only.member_id,
            only.client_id.as_str(),
            only.client_host.as_str()
        ),
        (&member, "test", "/127.0.0.1")
    );
    let listed = wire.call(5, &ListGroupsRequest::default()).groups;
    let listed: Vec<_> = listed
        .iter()
        .map(|group| {
            (
                group.group_id.as_str(),
                group.group_state.as_str(),
                group.group_type.as_str(),
            )
        })
        .collect();
    assert_eq!(listed, [("readers", "Stable", "classic")]);

    let delete = DeleteGroupsRequest {
        groups_names: vec![Text::from("readers"), Text::from("nobody")],
    };
    let codes = |wire: &mut Wire| -> Vec<ErrorCode> {
        let results = wire.call(2, &delete).results;
        results.iter().map(|result| code(result.error_code)).collect()
    };
    assert_eq!(
        codes(&mut wire),
        [ErrorCode::NonEmptyGroup, ErrorCode::GroupIdNotFound]
    );
    let leave = LeaveGroupRequest {
        group_id: Text::from("readers"),
        member_id: member,
        ..LeaveGroupRequest::default()
    };
    wire.call(1, &leave);
    assert_eq!(codes(&mut wire), [ErrorCode::None, ErrorCode::GroupIdNotFound]);
    assert!(wire.call(5, &ListGroupsRequest::default()).groups.is_empty());
}

#[test]
fn a_consumer_group_gets_its_partitions_from_the_node() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 3, &[]);
    let joining = ConsumerGroupHeartbeatRequest {
        group_id: Text::from("readers"),
        member_id: Text::from("one"),
        member_epoch: 0,
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec![Text::from("orders")]),
        topic_partitions: Some(Vec::new()),
        ..ConsumerGroupHeartbeatRequest::default()
    };
    let joined = patiently(|| wire.call(1, &joining), |answer| answer.error_code);
    assert_eq!(
        code(joined.error_code),
        ErrorCode::None,
        "{:?}",
        joined.error_message
    );
    let assigned = joined.assignment.expect("all partitions are free");
    assert_eq!(assigned.topic_partitions[0].partitions, [0, 1, 2]);
    assert!(joined.member_epoch > 0 && joined.heartbeat_interval_ms > 0);

    let nonsense = ConsumerGroupHeartbeatRequest {
        member_epoch: -7,
        ..joining.clone()
    };
    assert_eq!(
        code(wire.call(1, &nonsense).error_code),
        ErrorCode::InvalidRequest
    );
    let hostile = ConsumerGroupHeartbeatRequest {
        member_id: Text::from("two"),
        subscribed_topic_names: None,
        subscribed_topic_regex: Some(Text::from("(a{1000}){1000}")),
        ..joining.clone()
    };
    assert_eq!(
        code(wire.call(1, &hostile).error_code),
        ErrorCode::InvalidRegularExpression
    );

    let leaving = ConsumerGroupHeartbeatRequest {
        member_epoch: -1,
        ..joining
    };
    let left = wire.call(1, &leaving);
    assert_eq!((code(left.error_code), left.member_epoch), (ErrorCode::None, -1));
}

#[test]
fn the_groups_topic_is_the_nodes_own() {
    let node = TestNode::start();
    let mut wire = node.connect();
    let find = FindCoordinatorRequest {
        key: Text::from("readers"),
        ..FindCoordinatorRequest::default()
    };
    assert_eq!(wire.call(3, &find).error_code, 0);
    let all = MetadataRequest {
        topics: None,
        ..MetadataRequest::default()
    };
    let topics = wire.call(12, &all).topics;
    assert_eq!(topics.len(), 1);
    assert!(topics[0].is_internal && topics[0].name.as_deref() == Some("__consumer_offsets"));

    let configs = DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type: 2,
            resource_name: Text::from("__consumer_offsets"),
            configuration_keys: Some(vec![Text::from("cleanup.policy")]),
        }],
        ..DescribeConfigsRequest::default()
    };
    let told = wire.call(4, &configs).results.remove(0).configs.remove(0);
    assert_eq!(told.value.as_deref(), Some("compact"));

    let produced = wire.produce("__consumer_offsets", 0, batch(&[(now_ms(), "x")]));
    assert_eq!(code(produced.error_code), ErrorCode::InvalidTopicException);
    let delete = DeleteTopicsRequest {
        topic_names: vec![Text::from("__consumer_offsets")],
        ..DeleteTopicsRequest::default()
    };
    let deleted = wire.call(5, &delete).responses.remove(0);
    assert_eq!(code(deleted.error_code), ErrorCode::InvalidTopicException);
}

/// A member that waits for others does not keep the node from stopping.
#[test]
fn a_join_under_way_ends_when_the_node_drains() {
    let mut node = TestNode::start_with(&[
        ("groups.initial_rebalance_delay", "1h"),
        ("groups.session_timeout_max", "2h"),
    ]);
    let mut wire = node.connect();
    let first = join(&mut wire, 5, "");
    let request = JoinGroupRequest {
        group_id: Text::from("readers"),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 3_600_000,
        member_id: first.member_id,
        protocol_type: Text::from("consumer"),
        protocols: vec![JoinGroupRequestProtocol {
            name: Text::from("range"),
            metadata: Bytes::new(),
        }],
        ..JoinGroupRequest::default()
    };
    let frame = wire.frame(5, &request);
    wire.send(&frame);
    // Until the coordinator has it: what is asked behind it waits.
    let mut other = node.connect();
    loop {
        let listed = other.call(4, &ListGroupsRequest::default()).groups;
        if listed
            .iter()
            .any(|group| group.group_state.as_str() == "PreparingRebalance")
        {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    drop(other);
    node.stop();
    let (_, answer) = wire.receive::<JoinGroupRequest>(5);
    assert_eq!(code(answer.error_code), ErrorCode::CoordinatorNotAvailable);
}
