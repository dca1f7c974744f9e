//! What nobody should ask of groups over the wire: Kafka's code for each, in the place where its clients look, and nothing
//! lost by it.

use bytes::Bytes;
use kafka_wire::create_partitions::CreatePartitionsTopic;
use kafka_wire::delete_records::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_wire::join_group::JoinGroupRequestProtocol;
use kafka_wire::leave_group::MemberIdentity;
use kafka_wire::offset_commit::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_wire::offset_delete::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use kafka_wire::offset_fetch::{OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics};
use kafka_wire::{
    ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
    CreatePartitionsRequest, DeleteRecordsRequest, DescribeGroupsRequest, ErrorCode, HeartbeatRequest,
    JoinGroupRequest, LeaveGroupRequest, ListGroupsRequest, OffsetCommitRequest, OffsetDeleteRequest,
    OffsetFetchRequest, SyncGroupRequest, Text,
};
use record::TopicId;

use crate::support::{TestNode, Wire};

fn code(number: i16) -> ErrorCode {
    ErrorCode::from_code(number).expect("one of Kafka's codes")
}

fn start() -> (TestNode, Wire) {
    let node = TestNode::start_with(&[("groups.initial_rebalance_delay", "0s")]);
    let mut wire = node.connect();
    wire.create_topic("orders", 2, &[]);
    (node, wire)
}

fn join(group: &str, member: &str) -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: Text::from(group),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 30_000,
        member_id: Text::from(member),
        protocol_type: Text::from("consumer"),
        protocols: vec![JoinGroupRequestProtocol {
            name: Text::from("range"),
            metadata: Bytes::from_static(b"what I want"),
        }],
        ..JoinGroupRequest::default()
    }
}

/// A member of generation 1 of the classic group `readers`.
fn member(wire: &mut Wire) -> Text {
    let joined = loop {
        let joined = wire.call(3, &join("readers", ""));
        if code(joined.error_code) != ErrorCode::CoordinatorLoadInProgress {
            break joined;
        }
    };
    assert_eq!(
        (code(joined.error_code), joined.generation_id),
        (ErrorCode::None, 1)
    );
    let sync = sync(&joined.member_id, 1);
    assert_eq!(code(wire.call(3, &sync).error_code), ErrorCode::None);
    joined.member_id
}

fn sync(member: &str, generation: i32) -> SyncGroupRequest {
    SyncGroupRequest {
        group_id: Text::from("readers"),
        generation_id: generation,
        member_id: Text::from(member),
        ..SyncGroupRequest::default()
    }
}

fn beat(member: &str, generation: i32) -> HeartbeatRequest {
    HeartbeatRequest {
        group_id: Text::from("readers"),
        generation_id: generation,
        member_id: Text::from(member),
        ..HeartbeatRequest::default()
    }
}

/// A commit of these partitions and offsets of one topic; codes by partition.
fn commit(
    wire: &mut Wire,
    version: i16,
    (group, member, generation): (&str, &str, i32),
    (topic, topic_id): (&str, TopicId),
    partitions: &[(i32, i64)],
) -> Vec<ErrorCode> {
    let partitions = partitions
        .iter()
        .map(|(index, offset)| OffsetCommitRequestPartition {
            partition_index: *index,
            committed_offset: *offset,
            ..OffsetCommitRequestPartition::default()
        });
    let request = OffsetCommitRequest {
        group_id: Text::from(group),
        generation_id_or_member_epoch: generation,
        member_id: Text::from(member),
        topics: vec![OffsetCommitRequestTopic {
            name: Text::from(topic),
            topic_id,
            partitions: partitions.collect(),
        }],
        ..OffsetCommitRequest::default()
    };
    loop {
        let answer = wire.call(version, &request);
        let told = answer.topics[0].partitions.iter();
        let codes: Vec<_> = told.map(|partition| code(partition.error_code)).collect();
        if codes
            .iter()
            .all(|code| *code != ErrorCode::CoordinatorLoadInProgress)
        {
            return codes;
        }
    }
}

/// All that a group has committed.
fn committed(wire: &mut Wire, group: &str) -> Vec<(i32, i64)> {
    let request = OffsetFetchRequest {
        group_id: Text::from(group),
        topics: None,
        ..OffsetFetchRequest::default()
    };
    let answer = loop {
        let answer = wire.call(5, &request);
        if code(answer.error_code) != ErrorCode::CoordinatorLoadInProgress {
            break answer;
        }
    };
    let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
    partitions
        .map(|found| (found.partition_index, found.committed_offset))
        .collect()
}

#[test]
fn members_of_the_classic_protocol_that_are_not_or_are_of_another_time() {
    let (_node, mut wire) = start();
    let ann = member(&mut wire);
    let orders = ("orders", TopicId::default());
    let unknown = ErrorCode::UnknownMemberId;
    assert_eq!(code(wire.call(4, &beat("nobody", 1)).error_code), unknown);
    assert_eq!(code(wire.call(3, &sync("nobody", 1)).error_code), unknown);
    let joined = wire.call(5, &join("readers", "nobody"));
    assert_eq!((code(joined.error_code), joined.generation_id), (unknown, -1));
    assert_eq!(
        commit(&mut wire, 8, ("readers", "nobody", 1), orders, &[(0, 1)]),
        [unknown]
    );
    let leave = LeaveGroupRequest {
        group_id: Text::from("readers"),
        member_id: Text::from("nobody"),
        members: vec![MemberIdentity {
            member_id: Text::from("nobody"),
            ..MemberIdentity::default()
        }],
    };
    assert_eq!(code(wire.call(2, &leave).error_code), unknown);
    let left = wire.call(5, &leave);
    assert_eq!(
        (code(left.error_code), code(left.members[0].error_code)),
        (ErrorCode::None, unknown)
    );
    for generation in [i32::MIN, -1, 0, 2, i32::MAX] {
        let stale = ErrorCode::IllegalGeneration;
        assert_eq!(code(wire.call(4, &beat(&ann, generation)).error_code), stale);
        assert_eq!(code(wire.call(5, &sync(&ann, generation)).error_code), stale);
        for version in [2, 9] {
            let told = commit(
                &mut wire,
                version,
                ("readers", &ann, generation),
                orders,
                &[(0, 1)],
            );
            assert_eq!(told, [stale], "{generation}");
        }
    }
    assert_eq!(code(wire.call(4, &beat(&ann, 1)).error_code), ErrorCode::None);
    assert_eq!(committed(&mut wire, "readers"), []);
    for generation in [0, 1, i32::MAX] {
        let told = commit(&mut wire, 8, ("nowhere", "", generation), orders, &[(0, 1)]);
        assert_eq!(told, [ErrorCode::IllegalGeneration], "no such group");
    }
    assert_eq!(wire.call(4, &ListGroupsRequest::default()).groups.len(), 1);
}

fn heartbeat(member: &str, epoch: i32) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest {
        group_id: Text::from("consumers"),
        member_id: Text::from(member),
        member_epoch: epoch,
        ..ConsumerGroupHeartbeatRequest::default()
    }
}

fn joining(member: &str) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest {
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec![Text::from("orders")]),
        topic_partitions: Some(Vec::new()),
        ..heartbeat(member, 0)
    }
}

fn hear(wire: &mut Wire, request: &ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse {
    loop {
        let heard = wire.call(1, request);
        if code(heard.error_code) != ErrorCode::CoordinatorLoadInProgress {
            return heard;
        }
    }
}

#[test]
fn members_of_the_consumer_protocol_that_are_not_or_are_of_another_time() {
    let (_node, mut wire) = start();
    let orders = ("orders", TopicId::default());
    let nobody = hear(&mut wire, &heartbeat("nobody", 1));
    assert_eq!(code(nobody.error_code), ErrorCode::UnknownMemberId);
    assert_eq!(wire.call(4, &ListGroupsRequest::default()).groups.len(), 0);
    let epoch = hear(&mut wire, &joining("ann")).member_epoch;
    assert_eq!(epoch, 1);
    for (member, at, expected) in [
        ("nobody", 1, ErrorCode::UnknownMemberId),
        ("nobody", -1, ErrorCode::UnknownMemberId),
        ("ann", 2, ErrorCode::FencedMemberEpoch),
        ("ann", i32::MAX, ErrorCode::FencedMemberEpoch),
        ("ann", -2, ErrorCode::InvalidRequest),
        ("ann", -3, ErrorCode::InvalidRequest),
        ("ann", i32::MIN, ErrorCode::InvalidRequest),
        ("", 1, ErrorCode::InvalidRequest),
        ("", -1, ErrorCode::InvalidRequest),
    ] {
        let heard = hear(&mut wire, &heartbeat(member, at));
        assert_eq!(code(heard.error_code), expected, "{member} at {at}");
        assert!(heard.error_message.is_some_and(|message| !message.is_empty()));
    }
    for (version, expected) in [
        (8, ErrorCode::UnsupportedVersion),
        (9, ErrorCode::StaleMemberEpoch),
    ] {
        for at in [i32::MIN, 0, 2, i32::MAX] {
            let told = commit(&mut wire, version, ("consumers", "ann", at), orders, &[(0, 1)]);
            assert_eq!(told, [expected], "{at}");
        }
    }
    let told = commit(&mut wire, 9, ("consumers", "nobody", 1), orders, &[(0, 1)]);
    assert_eq!(told, [ErrorCode::UnknownMemberId]);
    assert_eq!(committed(&mut wire, "consumers"), []);
    assert_eq!(hear(&mut wire, &heartbeat("ann", 1)).member_epoch, 1);
}

#[test]
fn patterns_that_nobody_can_use_are_refused_in_words() {
    let (_node, mut wire) = start();
    for regex in ["(", "a)|(b", "[z-a]", "(a{1000}){1000}", r"\p{Greek}"] {
        let hostile = ConsumerGroupHeartbeatRequest {
            subscribed_topic_names: None,
            subscribed_topic_regex: Some(Text::from(regex)),
            ..joining("ann")
        };
        let heard = hear(&mut wire, &hostile);
        assert_eq!(
            code(heard.error_code),
            ErrorCode::InvalidRegularExpression,
            "{regex}"
        );
        assert!(heard.error_message.is_some_and(|message| !message.is_empty()));
    }
    let long = ConsumerGroupHeartbeatRequest {
        subscribed_topic_regex: Some(Text::from("a".repeat(2_000))),
        ..joining("ann")
    };
    assert_eq!(
        code(hear(&mut wire, &long).error_code),
        ErrorCode::PolicyViolation
    );
    assert_eq!(wire.call(4, &ListGroupsRequest::default()).groups.len(), 0);
}

#[test]
fn a_member_that_comes_back_as_another_instance_frees_the_first() {
    let (_node, mut wire) = start();
    let as_instance = |member: &str, instance: &str| ConsumerGroupHeartbeatRequest {
        instance_id: Some(Text::from(instance)),
        ..joining(member)
    };
    for (member, instance) in [("ann", "one"), ("ann", "two")] {
        let heard = hear(&mut wire, &as_instance(member, instance));
        assert_eq!(code(heard.error_code), ErrorCode::None);
    }
    let left = hear(&mut wire, &heartbeat("ann", -1));
    assert_eq!(code(left.error_code), ErrorCode::None);
    for instance in ["one", "two"] {
        let heard = hear(&mut wire, &as_instance(instance, instance));
        assert_eq!(code(heard.error_code), ErrorCode::None, "{instance}");
    }
}

#[test]
fn offsets_are_of_partitions_that_are_there() {
    let (node, mut wire) = start();
    let outside = ("readers", "", -1);
    let unknown = ErrorCode::UnknownTopicOrPartition;
    let orders = ("orders", TopicId::default());
    // What is there is committed all the same, whatever its offset.
    let told = commit(
        &mut wire,
        8,
        outside,
        orders,
        &[
            (0, 7),
            (2, 7),
            (-1, 7),
            (1, i64::MAX),
            (i32::MAX, 7),
            (i32::MIN, 7),
        ],
    );
    let none = ErrorCode::None;
    assert_eq!(told, [none, unknown, unknown, none, unknown, unknown]);
    let nowhere = ("nowhere", TopicId::default());
    assert_eq!(commit(&mut wire, 8, outside, nowhere, &[(0, 7)]), [unknown]);
    let by_id = ("", TopicId([7; 16]));
    assert_eq!(
        commit(&mut wire, 10, outside, by_id, &[(0, 7)]),
        [ErrorCode::UnknownTopicId]
    );
    assert_eq!(committed(&mut wire, "readers"), [(0, 7), (1, i64::MAX)]);
    let node = node.kill_and_restart();
    let mut wire = node.connect();
    assert_eq!(committed(&mut wire, "readers"), [(0, 7), (1, i64::MAX)]);
    // Deleting goes by the same rule for topics; a partition without an offset is deleted already.
    let delete = |topic: &str| OffsetDeleteRequest {
        group_id: Text::from("readers"),
        topics: vec![OffsetDeleteRequestTopic {
            name: Text::from(topic),
            partitions: [0, 5, -1]
                .map(|partition_index| OffsetDeleteRequestPartition { partition_index })
                .to_vec(),
        }],
    };
    let mut codes = |request: &OffsetDeleteRequest| -> Vec<ErrorCode> {
        let deleted = wire.call(0, request);
        assert_eq!(code(deleted.error_code), none);
        let partitions = deleted.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.map(|partition| code(partition.error_code)).collect()
    };
    assert_eq!(codes(&delete("nowhere")), [unknown; 3]);
    assert_eq!(codes(&delete("orders")), [none; 3]);
    assert_eq!(committed(&mut wire, "readers"), [(1, i64::MAX)]);
}

/// An answer says everything about a group: a short request must not have it said without end.
#[test]
fn what_a_request_names_twice_is_told_once() {
    let (_node, mut wire) = start();
    member(&mut wire);
    let twice = || vec![Text::from("readers"), Text::from("nobody"), Text::from("readers")];
    let request = DescribeGroupsRequest {
        groups: twice(),
        ..DescribeGroupsRequest::default()
    };
    let described = wire.call(6, &request).groups;
    let told: Vec<_> = described
        .iter()
        .map(|group| (code(group.error_code), group.members.len()))
        .collect();
    assert_eq!(
        told,
        [
            (ErrorCode::None, 1),
            (ErrorCode::GroupIdNotFound, 0),
            (ErrorCode::InvalidRequest, 0)
        ]
    );
    let request = ConsumerGroupDescribeRequest {
        group_ids: twice(),
        ..ConsumerGroupDescribeRequest::default()
    };
    let described = wire.call(1, &request).groups;
    assert_eq!(code(described[2].error_code), ErrorCode::InvalidRequest);

    let group = |name: &str, partitions: &[i32]| OffsetFetchRequestGroup {
        group_id: Text::from(name),
        topics: Some(vec![OffsetFetchRequestTopics {
            name: Text::from("orders"),
            partition_indexes: partitions.to_vec(),
            ..OffsetFetchRequestTopics::default()
        }]),
        ..OffsetFetchRequestGroup::default()
    };
    let request = OffsetFetchRequest {
        groups: vec![
            group("readers", &[0, 1]),
            group("readers", &[0]),
            group("others", &[0, 1, 0]),
        ],
        ..OffsetFetchRequest::default()
    };
    let fetched = wire.call(8, &request).groups;
    let told: Vec<_> = fetched.iter().map(|group| code(group.error_code)).collect();
    let invalid = ErrorCode::InvalidRequest;
    assert_eq!(told, [ErrorCode::None, invalid, invalid]);
    let old = OffsetFetchRequest {
        group_id: Text::from("readers"),
        topics: Some(vec![OffsetFetchRequestTopic {
            name: Text::from("orders"),
            partition_indexes: vec![1, 1],
        }]),
        ..OffsetFetchRequest::default()
    };
    assert_eq!(code(wire.call(5, &old).error_code), invalid);
}

#[test]
fn what_is_too_long_is_refused_in_its_place() {
    let (_node, mut wire) = start();
    member(&mut wire);
    let long = "g".repeat(600);
    for group in ["", &long] {
        let joined = wire.call(5, &join(group, ""));
        assert_eq!(code(joined.error_code), ErrorCode::InvalidGroupId);
    }
    let told = commit(
        &mut wire,
        8,
        (&long, "", -1),
        ("orders", TopicId::default()),
        &[(0, 1), (1, 1)],
    );
    assert_eq!(told, [ErrorCode::InvalidGroupId; 2]);
    let mut talkative = join("others", "");
    talkative.protocols[0].metadata = Bytes::from(vec![0; 300 << 10]);
    assert_eq!(
        code(wire.call(5, &talkative).error_code),
        ErrorCode::PolicyViolation
    );
    for timeout in [i32::MIN, -1, 0, i32::MAX] {
        let mut impatient = join("others", "");
        impatient.session_timeout_ms = timeout;
        let joined = wire.call(5, &impatient);
        assert_eq!(code(joined.error_code), ErrorCode::InvalidSessionTimeout);
    }
    assert_eq!(wire.call(4, &ListGroupsRequest::default()).groups.len(), 1);
}

/// Groups are kept in a topic that clients can see: nothing that a client asks of it takes them away.
#[test]
fn the_groups_topic_cannot_be_trimmed_or_widened() {
    let (node, mut wire) = start();
    let orders = ("orders", TopicId::default());
    let told = commit(&mut wire, 8, ("readers", "", -1), orders, &[(0, 7)]);
    assert_eq!(told, [ErrorCode::None]);
    let partitions = [0, 1, 2].map(|partition_index| DeleteRecordsPartition {
        partition_index,
        offset: -1,
    });
    let trim = DeleteRecordsRequest {
        topics: vec![DeleteRecordsTopic {
            name: Text::from("__consumer_offsets"),
            partitions: partitions.to_vec(),
        }],
        timeout_ms: 10_000,
    };
    for partition in &wire.call(2, &trim).topics[0].partitions {
        assert_eq!(code(partition.error_code), ErrorCode::PolicyViolation);
    }
    let widen = CreatePartitionsRequest {
        topics: vec![CreatePartitionsTopic {
            name: Text::from("__consumer_offsets"),
            count: 50,
            assignments: None,
        }],
        timeout_ms: 10_000,
        validate_only: false,
    };
    let widened = wire.call(3, &widen).results.remove(0);
    assert_eq!(code(widened.error_code), ErrorCode::InvalidTopicException);
    let node = node.restart();
    let mut wire = node.connect();
    assert_eq!(committed(&mut wire, "readers"), [(0, 7)]);
}
