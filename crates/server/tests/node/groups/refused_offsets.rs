//! Offsets that nobody can have, and requests that would have the same told again and again.

use kafka_wire::offset_delete::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use kafka_wire::offset_fetch::{OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics};
use kafka_wire::{
    ConsumerGroupDescribeRequest, DescribeGroupsRequest, ErrorCode, OffsetDeleteRequest, OffsetFetchRequest,
    Text,
};
use record::TopicId;

use super::{ORDERS, code, commit, committed, member, patiently, start};

#[test]
fn offsets_are_of_partitions_that_are_there() {
    let (node, mut wire) = start();
    let outside = ("readers", "", -1);
    let unknown = ErrorCode::UnknownTopicOrPartition;
    // The offset of a partition that is there is committed all the same, whatever it is.
    let told = commit(
        &mut wire,
        8,
        outside,
        ORDERS,
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
    // Deleting goes by the same rule; a partition without an offset is deleted already.
    let delete = |topic: &str| OffsetDeleteRequest {
        group_id: Text::from("readers"),
        topics: vec![OffsetDeleteRequestTopic {
            name: Text::from(topic),
            partitions: [0, 2, -1]
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
    for _ in 0..2 {
        assert_eq!(codes(&delete("orders")), [none, unknown, unknown]);
    }
    assert_eq!(committed(&mut wire, "readers"), [(1, i64::MAX)]);
    let nameless = OffsetDeleteRequest {
        group_id: Text::EMPTY,
        ..delete("orders")
    };
    let refused = wire.call(0, &nameless);
    assert_eq!(code(refused.error_code), ErrorCode::InvalidGroupId);
}

#[test]
fn a_group_that_is_not_there_has_committed_nothing_to_tell_its_members() {
    let (_node, mut wire) = start();
    let request = OffsetFetchRequest {
        groups: vec![OffsetFetchRequestGroup {
            group_id: Text::from("nowhere"),
            member_id: Some(Text::from("ann")),
            member_epoch: 1,
            topics: Some(vec![OffsetFetchRequestTopics {
                name: Text::from("orders"),
                partition_indexes: vec![0],
                ..OffsetFetchRequestTopics::default()
            }]),
        }],
        ..OffsetFetchRequest::default()
    };
    let fetched = patiently(|| wire.call(9, &request), |answer| answer.groups[0].error_code);
    let [group] = &fetched.groups[..] else {
        panic!("one group: {fetched:?}");
    };
    assert_eq!(code(group.error_code), ErrorCode::None);
    let found = &group.topics[0].partitions[0];
    assert_eq!(
        (code(found.error_code), found.committed_offset),
        (ErrorCode::None, -1)
    );
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
