//! Where coordinators are, and the topic that they keep groups in: clients can see it, and nothing that they ask of it takes
//! groups away.

use kafka_wire::create_partitions::CreatePartitionsTopic;
use kafka_wire::delete_records::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_wire::describe_configs::DescribeConfigsResource;
use kafka_wire::{
    CreatePartitionsRequest, DeleteRecordsRequest, DeleteTopicsRequest, DescribeConfigsRequest, ErrorCode,
    FindCoordinatorRequest, MetadataRequest, Text,
};

use super::{ORDERS, code, commit, committed, start};
use crate::support::{TestNode, batch, now_ms};

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

#[test]
fn the_groups_topic_cannot_be_trimmed_or_widened() {
    let (node, mut wire) = start();
    let told = commit(&mut wire, 8, ("readers", "", -1), ORDERS, &[(0, 7)]);
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
    assert_eq!(committed(&mut node.connect(), "readers"), [(0, 7)]);
}
