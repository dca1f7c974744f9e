//! Requests of very many entries, which are taken apart beside the core: they are answered as others are, and in their order.

use bytes::Bytes;
use kafka_wire::alter_partition_reassignments::{ReassignablePartition, ReassignableTopic};
use kafka_wire::delete_records::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_wire::describe_configs::DescribeConfigsResource;
use kafka_wire::describe_log_dirs::DescribableLogDirTopic;
use kafka_wire::list_offsets::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_wire::list_partition_reassignments::ListPartitionReassignmentsTopics;
use kafka_wire::offset_delete::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use kafka_wire::offset_for_leader_epoch::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use kafka_wire::{
    AlterPartitionReassignmentsRequest, DeleteRecordsRequest, DescribeConfigsRequest, DescribeLogDirsRequest,
    DescribeProducersRequest, DescribeTopicPartitionsRequest, ElectLeadersRequest, ErrorCode,
    IncrementalAlterConfigsRequest, ListOffsetsRequest, ListPartitionReassignmentsRequest, MetadataRequest,
    OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest, Text,
    describe_producers, describe_topic_partitions, elect_leaders, incremental_alter_configs,
};
use record::TopicId;

use crate::ask::configs::{TOPIC, all_of};
use crate::ask::{LATEST, named};
use crate::support::groups::{commit_request, patiently};
use crate::support::{TestNode, Wire};

/// Entries of a few bytes that make a request of half a megabyte.
const MANY: i32 = 30_000;
const NOBODY: (&str, &str, i32) = ("readers", "", -1);
const ORDERS: (&str, TopicId) = ("orders", TopicId([0; 16]));
const COMMIT_VERSION: i16 = 8;
const FETCH_VERSION: i16 = 5;

fn committed(wire: &mut Wire) -> i64 {
    let request = OffsetFetchRequest {
        group_id: Text::from("readers"),
        topics: None,
        ..OffsetFetchRequest::default()
    };
    let told = wire.call(FETCH_VERSION, &request);
    told.topics[0].partitions[0].committed_offset
}

#[test]
fn what_comes_behind_a_wide_request_is_begun_behind_it() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let first = commit_request(NOBODY, ORDERS, &[(0, 1)]);
    patiently(
        || wire.call(COMMIT_VERSION, &first),
        |told| told.topics[0].partitions[0].error_code,
    );
    for offset in (10..50).step_by(10) {
        // Of those that are not there nothing is kept.
        let all: Vec<(i32, i64)> = (0..MANY).map(|index| (index, offset)).collect();
        let wide = wire.frame(COMMIT_VERSION, &commit_request(NOBODY, ORDERS, &all));
        let last = wire.frame(
            COMMIT_VERSION,
            &commit_request(NOBODY, ORDERS, &[(0, offset + 1)]),
        );
        wire.send(&[wide, last].concat());
        let (_, told) = wire.receive::<OffsetCommitRequest>(COMMIT_VERSION);
        let codes: Vec<i16> = told.topics[0]
            .partitions
            .iter()
            .map(|told| told.error_code)
            .collect();
        assert_eq!((codes.len(), codes[0]), (MANY as usize, 0));
        let unknown = ErrorCode::UnknownTopicOrPartition.code();
        assert!(codes[1..].iter().all(|code| *code == unknown));
        wire.receive::<OffsetCommitRequest>(COMMIT_VERSION);
        assert_eq!(committed(&mut wire), offset + 1);
    }
}

#[test]
fn a_wide_request_is_answered_in_its_own_order() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 3, &[]);
    let mut names: Vec<String> = (0..MANY).map(|index| format!("no-such-topic-{index}")).collect();
    names.insert(MANY as usize / 2, "orders".into());
    // Named twice, told once.
    names.push("orders".into());
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let request = MetadataRequest {
        allow_auto_topic_creation: false,
        ..named(&names)
    };
    let told = wire.call(9, &request).topics;
    let told_names = told.iter().filter_map(|topic| topic.name.as_deref());
    assert!(told_names.eq(names[..names.len() - 1].iter().copied()));
    assert_eq!(told[MANY as usize / 2].partitions.len(), 3);
}

#[test]
fn a_wide_request_that_is_malformed_ends_its_connection_alone() {
    let node = TestNode::start();
    let mut wire = node.connect();
    let names: Vec<String> = (0..MANY).map(|index| format!("no-such-topic-{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut frame = wire.frame(9, &named(&names));
    // The last name is longer than what is left.
    let at = frame.len() - 20;
    frame[at..].fill(0x7f);
    let before = wire.frame(9, &named(&[]));
    wire.send(&[before, frame].concat());
    assert!(wire.receive_frame().map(|frame: Bytes| frame.len()) > Some(0));
    wire.expect_hang_up();
    wire = node.connect();
    assert_eq!(wire.call(9, &named(&[])).topics.len(), 0);
}

/// Entries of which each takes little, and all of them together far more than a turn of a core. That no turn was long is checked by
/// the node of a test when it is gone.
const VERY_MANY: i32 = 200_000;

fn very_many_names() -> Vec<String> {
    (0..VERY_MANY)
        .map(|index| format!("no-such-topic-{index}"))
        .collect()
}

/// One partition of each of very many topics, and very many partitions of one, of which the first three are there.
fn places() -> Vec<(Text, Vec<i32>)> {
    let names = very_many_names().into_iter();
    let mut places: Vec<(Text, Vec<i32>)> = names.map(|name| (name.into(), vec![0])).collect();
    places.push(("orders".into(), (0..VERY_MANY).collect()));
    places
}

/// Checks what was told of `places`: a code of each partition.
fn check(told: impl Iterator<Item = (Text, Vec<(i32, i16)>)>, there: i16) {
    let mut topics = 0;
    for ((name, partitions), (told_name, told)) in places().into_iter().zip(told) {
        assert_eq!(name, told_name);
        let unknown = ErrorCode::UnknownTopicOrPartition.code();
        let code = |index: i32| match name.as_str() == "orders" && index < 3 {
            true => there,
            false => unknown,
        };
        let expected = partitions.into_iter().map(|index| (index, code(index)));
        assert!(expected.eq(told), "{name}");
        topics += 1;
    }
    assert_eq!(topics, VERY_MANY + 1);
}

fn start() -> (TestNode, Wire) {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 3, &[]);
    (node, wire)
}

#[test]
fn very_many_names_keep_nobody_waiting() {
    let (node, mut wire) = start();
    let names = very_many_names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for allow_auto_topic_creation in [false, true] {
        let request = MetadataRequest {
            allow_auto_topic_creation,
            ..named(&names)
        };
        // Nobody waits for one of the answers.
        let mut gone = node.connect();
        let frame = gone.frame(9, &request);
        gone.send(&frame);
        assert_eq!(wire.call(9, &request).topics.len(), names.len());
    }
    let topic = |name: &&str| describe_topic_partitions::TopicRequest {
        name: Text::from(*name),
    };
    let request = DescribeTopicPartitionsRequest {
        topics: names.iter().map(topic).collect(),
        response_partition_limit: 10,
        ..DescribeTopicPartitionsRequest::default()
    };
    let told = wire.call(0, &request).topics;
    assert!(told.is_sorted_by_key(|topic| topic.name.clone()));
}

#[test]
fn offsets_of_very_many_partitions_keep_nobody_waiting() {
    let (node, mut wire) = start();
    let topic = |(name, partitions): (Text, Vec<i32>)| ListOffsetsTopic {
        name,
        partitions: partitions
            .into_iter()
            .map(|partition_index| ListOffsetsPartition {
                partition_index,
                timestamp: LATEST,
                ..ListOffsetsPartition::default()
            })
            .collect(),
    };
    let request = ListOffsetsRequest {
        topics: places().into_iter().map(topic).collect(),
        ..ListOffsetsRequest::default()
    };
    let mut gone = node.connect();
    let frame = gone.frame(6, &request);
    gone.send(&frame);
    let told = wire.call(6, &request).topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter();
        let codes = partitions.map(|told| (told.partition_index, told.error_code));
        (topic.name, codes.collect())
    });
    check(told, 0);
}

#[test]
fn ends_of_epochs_of_very_many_partitions_keep_nobody_waiting() {
    let (_node, mut wire) = start();
    let topic = |(topic, partitions): (Text, Vec<i32>)| OffsetForLeaderTopic {
        topic,
        partitions: partitions
            .into_iter()
            .map(|partition| OffsetForLeaderPartition {
                partition,
                ..OffsetForLeaderPartition::default()
            })
            .collect(),
    };
    let request = OffsetForLeaderEpochRequest {
        topics: places().into_iter().map(topic).collect(),
        ..OffsetForLeaderEpochRequest::default()
    };
    let told = wire.call(4, &request).topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter();
        let codes = partitions.map(|told| (told.partition, told.error_code));
        (topic.topic, codes.collect())
    });
    check(told, 0);
}

#[test]
fn trims_of_very_many_partitions_keep_nobody_waiting() {
    let (_node, mut wire) = start();
    let topic = |(name, partitions): (Text, Vec<i32>)| DeleteRecordsTopic {
        name,
        partitions: partitions
            .into_iter()
            .map(|partition_index| DeleteRecordsPartition {
                partition_index,
                offset: 0,
            })
            .collect(),
    };
    let request = DeleteRecordsRequest {
        topics: places().into_iter().map(topic).collect(),
        timeout_ms: 60_000,
    };
    let told = wire.call(2, &request).topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter();
        let codes = partitions.map(|told| (told.partition_index, told.error_code));
        (topic.name, codes.collect())
    });
    check(told, 0);
}

#[test]
fn reassignments_of_very_many_partitions_keep_nobody_waiting() {
    let (node, mut wire) = start();
    for replicas in [Some(vec![1]), None] {
        let topic = |(name, partitions): (Text, Vec<i32>)| ReassignableTopic {
            name,
            partitions: partitions
                .into_iter()
                .map(|partition_index| ReassignablePartition {
                    partition_index,
                    replicas: replicas.clone(),
                })
                .collect(),
        };
        let request = AlterPartitionReassignmentsRequest {
            topics: places().into_iter().map(topic).collect(),
            ..AlterPartitionReassignmentsRequest::default()
        };
        let mut gone = node.connect();
        let frame = gone.frame(1, &request);
        gone.send(&frame);
        drop(gone);
        let told = wire.call(1, &request).responses.into_iter().map(|topic| {
            let partitions = topic.partitions.iter();
            let codes = partitions.map(|told| (told.partition_index, told.error_code));
            (topic.name, codes.collect())
        });
        let there = match replicas {
            Some(_) => ErrorCode::None,
            None => ErrorCode::NoReassignmentInProgress,
        };
        check(told, there.code());
    }
    let topic = |(name, partition_indexes): (Text, Vec<i32>)| ListPartitionReassignmentsTopics {
        name,
        partition_indexes,
    };
    let request = ListPartitionReassignmentsRequest {
        topics: Some(places().into_iter().map(topic).collect()),
        ..ListPartitionReassignmentsRequest::default()
    };
    assert!(wire.call(0, &request).topics.is_empty());
}

#[test]
fn descriptions_of_very_many_partitions_keep_nobody_waiting() {
    let (_node, mut wire) = start();
    let topic = |(name, partition_indexes): (Text, Vec<i32>)| describe_producers::TopicRequest {
        name,
        partition_indexes,
    };
    let request = DescribeProducersRequest {
        topics: places().into_iter().map(topic).collect(),
    };
    let told = wire.call(0, &request).topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter();
        let codes = partitions.map(|told| (told.partition_index, told.error_code));
        (topic.name, codes.collect())
    });
    check(told, 0);

    let topic = |(topic, partitions): (Text, Vec<i32>)| elect_leaders::TopicPartitions { topic, partitions };
    // The preferred one, and any that is left.
    for election_type in [0, 1] {
        let request = ElectLeadersRequest {
            election_type,
            topic_partitions: Some(places().into_iter().map(topic).collect()),
            timeout_ms: 30_000,
        };
        let results = wire.call(2, &request).replica_election_results;
        let told = results.into_iter().map(|topic| {
            let partitions = topic.partition_result.iter();
            let codes = partitions.map(|told| (told.partition_id, told.error_code));
            (topic.topic, codes.collect())
        });
        check(told, ErrorCode::ElectionNotNeeded.code());
    }

    let topic = |(topic, partitions): (Text, Vec<i32>)| DescribableLogDirTopic { topic, partitions };
    let request = DescribeLogDirsRequest {
        topics: Some(places().into_iter().map(topic).collect()),
    };
    let told = wire.call(2, &request).results.remove(0).topics.remove(0);
    let indexes = told.partitions.iter().map(|told| told.partition_index);
    assert!(indexes.eq(0..3));
}

#[test]
fn very_many_names_of_configs_keep_nobody_waiting() {
    let (_node, mut wire) = start();
    let mut keys: Vec<Text> = very_many_names().into_iter().map(Text::from).collect();
    keys.push("retention.ms".into());
    let resource = DescribeConfigsResource {
        configuration_keys: Some(keys),
        ..all_of(TOPIC, "orders")
    };
    // The same again and again is told once.
    let resources = (0..VERY_MANY).map(|_| all_of(TOPIC, "orders"));
    let request = DescribeConfigsRequest {
        resources: [resource].into_iter().chain(resources).collect(),
        ..DescribeConfigsRequest::default()
    };
    let told = wire.call(4, &request).results;
    assert_eq!((told.len(), told[0].configs.len()), (VERY_MANY as usize + 1, 1));
    let twice = ErrorCode::InvalidRequest.code();
    assert!(told[1..].iter().all(|told| told.error_code == twice));
}

#[test]
fn configs_of_very_many_topics_keep_nobody_waiting() {
    let (node, mut wire) = start();
    let mut names = very_many_names();
    names.push("orders".into());
    let resource = |name: &String| incremental_alter_configs::AlterConfigsResource {
        resource_type: TOPIC,
        resource_name: Text::from(name.as_str()),
        configs: vec![incremental_alter_configs::AlterableConfig {
            name: "retention.ms".into(),
            value: Some("5000".into()),
            ..incremental_alter_configs::AlterableConfig::default()
        }],
    };
    let request = IncrementalAlterConfigsRequest {
        resources: names.iter().map(resource).collect(),
        validate_only: false,
    };
    let mut gone = node.connect();
    let frame = gone.frame(1, &request);
    gone.send(&frame);
    let told = wire.call(1, &request).responses;
    let in_order = told
        .iter()
        .zip(&names)
        .all(|(told, name)| told.resource_name == *name.as_str());
    assert!(in_order && told.len() == names.len());
    let (orders, others) = told.split_last().expect("all are told");
    assert_eq!(orders.error_code, 0);
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    assert!(others.iter().all(|told| told.error_code == unknown));
}

#[test]
fn forgotten_offsets_of_very_many_partitions_keep_nobody_waiting() {
    let (_node, mut wire) = start();
    let first = commit_request(NOBODY, ORDERS, &[(0, 1)]);
    patiently(
        || wire.call(COMMIT_VERSION, &first),
        |told| told.topics[0].partitions[0].error_code,
    );
    let topic = |(name, partitions): (Text, Vec<i32>)| OffsetDeleteRequestTopic {
        name,
        partitions: partitions
            .into_iter()
            .map(|partition_index| OffsetDeleteRequestPartition { partition_index })
            .collect(),
    };
    let request = OffsetDeleteRequest {
        group_id: "readers".into(),
        topics: places().into_iter().map(topic).collect(),
    };
    let told = wire.call(0, &request).topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter();
        let codes = partitions.map(|told| (told.partition_index, told.error_code));
        (topic.name, codes.collect())
    });
    check(told, 0);
}

#[test]
fn offsets_are_forgotten_in_parts() {
    let (_node, mut wire) = start();
    // The last part has no more room than it needs.
    let partitions = 4_000;
    wire.create_topic("wide", partitions, &[]);
    let all: Vec<(i32, i64)> = (0..partitions).map(|index| (index, 7)).collect();
    let wide = ("wide", TopicId::default());
    patiently(
        || wire.call(COMMIT_VERSION, &commit_request(NOBODY, wide, &all)),
        |told| told.topics[0].partitions[0].error_code,
    );
    let request = OffsetDeleteRequest {
        group_id: "readers".into(),
        topics: vec![OffsetDeleteRequestTopic {
            name: "wide".into(),
            partitions: (0..partitions)
                .map(|partition_index| OffsetDeleteRequestPartition { partition_index })
                .collect(),
        }],
    };
    let told = wire.call(0, &request);
    assert_eq!(told.error_code, 0);
    assert_eq!(told.topics[0].partitions.len(), partitions as usize);
    assert!(told.topics[0].partitions.iter().all(|told| told.error_code == 0));
    let left = OffsetFetchRequest {
        group_id: "readers".into(),
        topics: None,
        ..OffsetFetchRequest::default()
    };
    assert_eq!(wire.call(FETCH_VERSION, &left).topics, []);
}
