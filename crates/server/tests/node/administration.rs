//! The node's reports on itself and its partitions: cluster, directory, producers, quorum, elections.

use kafka_wire::describe_log_dirs::DescribableLogDirTopic;
use kafka_wire::elect_leaders::TopicPartitions;
use kafka_wire::list_partition_reassignments::ListPartitionReassignmentsTopics;
use kafka_wire::{
    DescribeClusterRequest, DescribeLogDirsRequest, DescribeProducersRequest, DescribeQuorumRequest,
    DescribeTopicPartitionsRequest, ElectLeadersRequest, ErrorCode, ListConfigResourcesRequest,
    ListPartitionReassignmentsRequest, MetadataRequest, describe_producers, describe_quorum,
};

use crate::ask::{code, named};
use crate::producers::init;
use crate::support::{TestNode, Wire, batch, now_ms, stamped_batch};

#[test]
fn the_cluster_is_its_one_node() {
    let node = TestNode::start();
    let mut wire = node.connect();
    for version in 0..=2 {
        let told = wire.call(version, &DescribeClusterRequest::default());
        assert_eq!(
            (told.error_code, told.controller_id, told.endpoint_type),
            (0, 1, 1)
        );
        assert!(!told.cluster_id.is_empty());
        let brokers: Vec<_> = told
            .brokers
            .iter()
            .map(|broker| (broker.broker_id, broker.port))
            .collect();
        assert_eq!(brokers, [(1, i32::from(node.address().port()))]);
    }
    for (endpoint_type, expected) in [
        (2, ErrorCode::MismatchedEndpointType),
        (3, ErrorCode::UnsupportedEndpointType),
        (0, ErrorCode::UnsupportedEndpointType),
    ] {
        let request = DescribeClusterRequest {
            endpoint_type,
            ..DescribeClusterRequest::default()
        };
        let told = wire.call(1, &request);
        assert_eq!((code(told.error_code), told.brokers.len()), (expected, 0));
        assert!(told.error_message.is_some());
    }
}

#[test]
fn what_clients_may_do_is_told_to_who_asks() {
    // Kafka's bits: of a topic, of the cluster, and of what was not asked for.
    const ON_TOPIC: i32 = 3_576;
    const ON_CLUSTER: i32 = 8_096;
    const NOT_ASKED: i32 = i32::MIN;
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    for version in 8..=13 {
        let has_cluster = version <= 10;
        let request = MetadataRequest {
            include_topic_authorized_operations: true,
            include_cluster_authorized_operations: has_cluster,
            ..named(&["orders"])
        };
        let told = wire.call(version, &request);
        assert_eq!(told.topics[0].topic_authorized_operations, ON_TOPIC);
        let expected = if has_cluster { ON_CLUSTER } else { NOT_ASKED };
        assert_eq!(told.cluster_authorized_operations, expected, "version {version}");
        let told = wire.call(version, &named(&["orders"]));
        assert_eq!(told.topics[0].topic_authorized_operations, NOT_ASKED);
        assert_eq!(told.cluster_authorized_operations, NOT_ASKED);
    }
    for (is_asked, expected) in [(true, ON_CLUSTER), (false, NOT_ASKED)] {
        let request = DescribeClusterRequest {
            include_cluster_authorized_operations: is_asked,
            ..DescribeClusterRequest::default()
        };
        let told = wire.call(1, &request);
        assert_eq!(told.cluster_authorized_operations, expected);
    }
    // A client that asks for this has asked for that, too.
    let all = DescribeTopicPartitionsRequest::default();
    assert_eq!(wire.call(0, &all).topics[0].topic_authorized_operations, ON_TOPIC);
}

#[test]
fn what_has_configs_is_listed() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("b", 1, &[]);
    wire.create_topic("a", 1, &[]);
    let mut list = |version, resource_types: &[i8]| {
        let request = ListConfigResourcesRequest {
            resource_types: resource_types.to_vec(),
        };
        let told = wire.call(version, &request);
        let names = told.config_resources.iter();
        let names: Vec<String> = names
            .map(|resource| format!("{}{}", resource.resource_type, resource.resource_name))
            .collect();
        (code(told.error_code), names.join(" "))
    };
    assert_eq!(
        list(0, &[]),
        (ErrorCode::None, String::new()),
        "subscriptions to metrics"
    );
    assert_eq!(list(1, &[]), (ErrorCode::None, "2a 2b 41".into()));
    assert_eq!(list(1, &[4, 2, 4]), (ErrorCode::None, "2a 2b 41".into()));
    assert_eq!(list(1, &[2]), (ErrorCode::None, "2a 2b".into()));
    assert_eq!(list(1, &[8, 16, 32]), (ErrorCode::None, String::new()));
    for unknown in [0, 1, -1, 127] {
        assert_eq!(
            list(1, &[2, unknown]),
            (ErrorCode::UnsupportedVersion, String::new())
        );
    }
}

#[test]
fn the_directory_is_told_with_its_partitions() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 3, &[]);
    wire.create_topic("empty", 1, &[]);
    let value = "x".repeat(5_000);
    assert_eq!(
        wire.produce("orders", 2, batch(&[(now_ms(), &value)])).error_code,
        0
    );
    for version in 1..=5 {
        let told = wire.call(version, &DescribeLogDirsRequest { topics: None });
        assert_eq!((told.error_code, told.results.len()), (0, 1));
        let directory = &told.results[0];
        let path = node.directory().to_str().expect("plain");
        assert_eq!((directory.error_code, directory.log_dir.as_str()), (0, path));
        let sizes: Vec<_> = directory
            .topics
            .iter()
            .flat_map(|topic| {
                topic
                    .partitions
                    .iter()
                    .map(|partition| (topic.name.as_str(), partition))
            })
            .map(|(name, partition)| (name, partition.partition_index, partition.partition_size > 5_000))
            .collect();
        let expected = [
            ("empty", 0, false),
            ("orders", 0, false),
            ("orders", 1, false),
            ("orders", 2, true),
        ];
        assert_eq!(sizes, expected);
        if version >= 4 {
            assert!(directory.total_bytes >= directory.usable_bytes && directory.usable_bytes > 0);
        }
    }
    let topic = |name: &str, partitions: &[i32]| DescribableLogDirTopic {
        topic: name.into(),
        partitions: partitions.to_vec(),
    };
    let topics = vec![
        topic("orders", &[2, 2, 7, -1]),
        topic("nowhere", &[0]),
        topic("orders", &[2]),
    ];
    let told = wire.call(4, &DescribeLogDirsRequest { topics: Some(topics) });
    let found = &told.results[0].topics;
    assert_eq!(
        (found.len(), found[0].partitions.len()),
        (1, 1),
        "what is there, once"
    );
    let none = wire.call(
        4,
        &DescribeLogDirsRequest {
            topics: Some(Vec::new()),
        },
    );
    assert!(none.results[0].topics.is_empty());
}

#[test]
fn producers_are_told() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let (first, second) = (init(&mut wire), init(&mut wire));
    assert_eq!(
        wire.produce("orders", 0, stamped_batch(first, 3, 0, &["a", "b"]))
            .error_code,
        0
    );
    assert_eq!(
        wire.produce("orders", 0, stamped_batch(second, 0, 0, &["c"]))
            .error_code,
        0
    );
    let topic = |name: &str, indexes: &[i32]| describe_producers::TopicRequest {
        name: name.into(),
        partition_indexes: indexes.to_vec(),
    };
    let request = DescribeProducersRequest {
        topics: vec![topic("orders", &[0, 1, 0]), topic("a/b", &[0])],
    };
    let told = wire.call(0, &request);
    let partitions = &told.topics[0].partitions;
    let producers: Vec<_> = partitions[0]
        .active_producers
        .iter()
        .map(|it| {
            (
                it.producer_id,
                it.producer_epoch,
                it.last_sequence,
                it.current_txn_start_offset,
            )
        })
        .collect();
    assert_eq!(producers, [(first, 3, 1, -1), (second, 0, 0, -1)]);
    let codes: Vec<_> = partitions
        .iter()
        .map(|partition| code(partition.error_code))
        .collect();
    assert_eq!(
        codes,
        [
            ErrorCode::None,
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::InvalidRequest
        ]
    );
    assert_eq!(
        code(told.topics[1].partitions[0].error_code),
        ErrorCode::UnknownTopicOrPartition
    );
}

#[test]
fn the_metadata_has_a_quorum_of_one() {
    let node = TestNode::start();
    let mut wire = node.connect();
    let began_ms = now_ms();
    let request = |name: &str, partition_index| DescribeQuorumRequest {
        topics: vec![describe_quorum::TopicRequest {
            topic_name: name.into(),
            partitions: vec![describe_quorum::PartitionRequest { partition_index }],
        }],
    };
    for version in 0..=2 {
        let tail = |wire: &mut Wire| {
            let told = wire.call(version, &request("__cluster_metadata", 0));
            let partition = &told.topics[0].partitions[0];
            assert_eq!(
                (told.error_code, partition.error_code, partition.leader_id),
                (0, 0, 1)
            );
            let voters: Vec<_> = partition
                .current_voters
                .iter()
                .map(|voter| voter.replica_id)
                .collect();
            assert_eq!((voters, partition.observers.len()), (vec![1], 0));
            assert_eq!(
                partition.current_voters[0].log_end_offset,
                partition.high_watermark
            );
            assert_eq!(told.nodes.len(), usize::from(version >= 2));
            if version >= 1 {
                assert!(partition.current_voters[0].last_fetch_timestamp >= began_ms);
            }
            partition.high_watermark
        };
        let before = tail(&mut wire);
        wire.create_topic(&format!("topic-{version}"), 1, &[]);
        assert_eq!(
            tail(&mut wire),
            before + 1,
            "a command is a record of the metadata"
        );
    }
    for (name, index) in [("topic-0", 0), ("__cluster_metadata", 1), ("nowhere", 0)] {
        let told = wire.call(2, &request(name, index));
        let partition = &told.topics[0].partitions[0];
        assert_eq!(code(partition.error_code), ErrorCode::UnknownTopicOrPartition);
    }
    assert!(wire.call(2, &DescribeQuorumRequest::default()).topics.is_empty());
}

#[test]
fn no_partition_moves_and_none_needs_a_leader() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 2, &[]);
    let named = vec![ListPartitionReassignmentsTopics {
        name: "orders".into(),
        partition_indexes: vec![0, 1],
    }];
    for topics in [None, Some(named)] {
        let request = ListPartitionReassignmentsRequest {
            timeout_ms: 1_000,
            topics,
        };
        let told = wire.call(0, &request);
        assert_eq!((told.error_code, told.topics.len()), (0, 0));
    }
    let elect = |election_type, topic_partitions| ElectLeadersRequest {
        election_type,
        topic_partitions,
        timeout_ms: 1_000,
    };
    let partitions = |name: &str| TopicPartitions {
        topic: name.into(),
        partitions: vec![1, 2],
    };
    for version in 0..=2 {
        let told = wire.call(
            version,
            &elect(0, Some(vec![partitions("orders"), partitions("nowhere")])),
        );
        let codes: Vec<_> = told
            .replica_election_results
            .iter()
            .flat_map(|topic| topic.partition_result.iter())
            .map(|partition| code(partition.error_code))
            .collect();
        let unknown = ErrorCode::UnknownTopicOrPartition;
        assert_eq!(codes, [ErrorCode::ElectionNotNeeded, unknown, unknown, unknown]);
        let all = wire.call(version, &elect(0, None));
        assert_eq!((all.error_code, all.replica_election_results.len()), (0, 0));
    }
    let told = wire.call(2, &elect(2, None));
    assert_eq!(code(told.error_code), ErrorCode::InvalidRequest);
}
