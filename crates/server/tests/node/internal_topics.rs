//! The topic that the node keeps for itself: absent it is a topic like others that are absent, and clients change nothing about
//! it that groups need.

use kafka_wire::alter_configs;
use kafka_wire::describe_configs::DescribeConfigsResource;
use kafka_wire::describe_producers;
use kafka_wire::describe_topic_partitions;
use kafka_wire::incremental_alter_configs::{AlterConfigsResource, AlterableConfig};
use kafka_wire::metadata::MetadataRequestTopic;
use kafka_wire::offset_commit::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_wire::{
    AlterConfigsRequest, DescribeConfigsRequest, DescribeProducersRequest, DescribeTopicPartitionsRequest,
    ErrorCode, FindCoordinatorRequest, IncrementalAlterConfigsRequest, MetadataRequest, OffsetCommitRequest,
    OffsetFetchRequest, Text,
};

use crate::support::{TestNode, Wire};

const GROUPS: &str = "__consumer_offsets";
const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

fn code(number: i16) -> ErrorCode {
    ErrorCode::from_code(number).expect("one of Kafka's codes")
}

/// Has the node make the topic.
fn find_coordinator(wire: &mut Wire) {
    let find = FindCoordinatorRequest {
        key: Text::from("readers"),
        ..FindCoordinatorRequest::default()
    };
    assert_eq!(wire.call(3, &find).error_code, 0);
}

fn edit(wire: &mut Wire, resource: (i8, &str), name: &str, operation: i8, value: Option<&str>) -> ErrorCode {
    let request = IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: resource.0,
            resource_name: resource.1.into(),
            configs: vec![AlterableConfig {
                name: name.into(),
                config_operation: operation,
                value: value.map(Into::into),
            }],
        }],
        validate_only: false,
    };
    code(wire.call(1, &request).responses[0].error_code)
}

fn replace(wire: &mut Wire, configs: &[(&str, &str)]) -> ErrorCode {
    let config = |(name, value): &(&str, &str)| alter_configs::AlterableConfig {
        name: (*name).into(),
        value: Some((*value).into()),
    };
    let request = AlterConfigsRequest {
        resources: vec![alter_configs::AlterConfigsResource {
            resource_type: TOPIC,
            resource_name: GROUPS.into(),
            configs: configs.iter().map(config).collect(),
        }],
        validate_only: false,
    };
    code(wire.call(2, &request).responses[0].error_code)
}

/// What is set for the topic itself.
fn own_configs(wire: &mut Wire) -> Vec<(String, String)> {
    let request = DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type: TOPIC,
            resource_name: GROUPS.into(),
            configuration_keys: None,
        }],
        ..DescribeConfigsRequest::default()
    };
    let configs = wire.call(4, &request).results.remove(0).configs;
    let own = configs.iter().filter(|config| config.config_source == 1);
    own.map(|config| {
        let value = config.value.as_deref().unwrap_or_default();
        (config.name.to_string(), value.to_owned())
    })
    .collect()
}

fn commit(wire: &mut Wire, offset: i64) {
    let request = OffsetCommitRequest {
        group_id: Text::from("readers"),
        generation_id_or_member_epoch: -1,
        topics: vec![OffsetCommitRequestTopic {
            name: Text::from("orders"),
            partitions: vec![OffsetCommitRequestPartition {
                partition_index: 0,
                committed_offset: offset,
                ..OffsetCommitRequestPartition::default()
            }],
            ..OffsetCommitRequestTopic::default()
        }],
        ..OffsetCommitRequest::default()
    };
    let committed = loop {
        let answer = wire.call(8, &request);
        match code(answer.topics[0].partitions[0].error_code) {
            ErrorCode::CoordinatorLoadInProgress => {}
            code => break code,
        }
    };
    assert_eq!(committed, ErrorCode::None);
}

fn committed(wire: &mut Wire) -> i64 {
    let request = OffsetFetchRequest {
        group_id: Text::from("readers"),
        topics: None,
        ..OffsetFetchRequest::default()
    };
    loop {
        let answer = wire.call(5, &request);
        if code(answer.error_code) != ErrorCode::CoordinatorLoadInProgress {
            return answer.topics[0].partitions[0].committed_offset;
        }
    }
}

#[test]
fn what_groups_need_of_their_topic_stays() {
    let node = TestNode::start_with(&[
        ("topics.defaults.ropewalk.durability", "memory"),
        ("topics.defaults.min.insync.replicas", "2"),
    ]);
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    find_coordinator(&mut wire);
    let made = own_configs(&mut wire);
    let fixed = [
        ("cleanup.policy", "compact", "delete"),
        ("max.message.bytes", "16777216", "0"),
        ("message.timestamp.after.max.ms", "9223372036854775807", "0"),
        ("message.timestamp.before.max.ms", "9223372036854775807", "0"),
        ("min.insync.replicas", "1", "2"),
        ("ropewalk.durability", "fsync", "memory"),
    ];
    for (name, value, other) in fixed {
        assert!(made.contains(&(name.to_owned(), value.to_owned())), "{name}");
        let refused = ErrorCode::InvalidConfig;
        for (operation, value) in [
            (SET, Some(other)),
            (DELETE, None),
            (APPEND, Some(other)),
            (SUBTRACT, Some(other)),
        ] {
            let told = edit(&mut wire, (TOPIC, GROUPS), name, operation, value);
            assert_eq!(told, refused, "{name} {operation} {value:?}");
        }
        assert_eq!(replace(&mut wire, &[(name, other)]), refused, "{name}");
        let same = edit(&mut wire, (TOPIC, GROUPS), name, SET, Some(value));
        assert_eq!(same, ErrorCode::None, "{name} is that already");
    }
    assert_eq!(own_configs(&mut wire), made);

    // The rest is the clients' to choose; what they do not name stays or goes, as for any topic.
    let told = edit(&mut wire, (TOPIC, GROUPS), "segment.ms", SET, Some("60000"));
    assert_eq!(told, ErrorCode::None);
    let values = [("cleanup.policy", "compact"), ("segment.bytes", "2000000")];
    assert_eq!(replace(&mut wire, &values), ErrorCode::None);
    let mut expected = made.clone();
    for config in &mut expected {
        if config.0 == "segment.bytes" {
            config.1 = "2000000".to_owned();
        }
    }
    assert_eq!(own_configs(&mut wire), expected);
    assert_eq!(replace(&mut wire, &[]), ErrorCode::None);
    expected.retain(|config| config.0 != "segment.bytes");
    assert_eq!(own_configs(&mut wire), expected);

    // Nor does it matter what other topics have by default.
    let for_all = [
        ("message.max.bytes", "100"),
        ("log.message.timestamp.before.max.ms", "0"),
    ];
    for (name, value) in for_all {
        assert_eq!(
            edit(&mut wire, (BROKER, ""), name, SET, Some(value)),
            ErrorCode::None
        );
    }
    commit(&mut wire, 7);
    let node = node.kill_and_restart();
    assert_eq!(committed(&mut node.connect()), 7);
}

/// What Metadata, DescribeTopicPartitions and DescribeProducers tell of a topic.
fn looked_up(wire: &mut Wire, name: &str) -> [ErrorCode; 3] {
    let metadata = MetadataRequest {
        topics: Some(vec![MetadataRequestTopic {
            name: Some(name.into()),
            ..MetadataRequestTopic::default()
        }]),
        ..MetadataRequest::default()
    };
    let partitions = DescribeTopicPartitionsRequest {
        topics: vec![describe_topic_partitions::TopicRequest { name: name.into() }],
        ..DescribeTopicPartitionsRequest::default()
    };
    let producers = DescribeProducersRequest {
        topics: vec![describe_producers::TopicRequest {
            name: name.into(),
            partition_indexes: vec![0],
        }],
    };
    [
        wire.call(12, &metadata).topics[0].error_code,
        wire.call(0, &partitions).topics[0].error_code,
        wire.call(0, &producers).topics[0].partitions[0].error_code,
    ]
    .map(code)
}

#[test]
fn reserved_names_are_looked_up_like_others() {
    let node = TestNode::start();
    let mut wire = node.connect();
    for name in [GROUPS, "__cluster_metadata"] {
        let told = looked_up(&mut wire, name);
        assert_eq!(told, [ErrorCode::UnknownTopicOrPartition; 3], "{name}");
    }
    assert_eq!(looked_up(&mut wire, "a/b"), [ErrorCode::InvalidTopicException; 3]);
    find_coordinator(&mut wire);
    assert_eq!(looked_up(&mut wire, GROUPS), [ErrorCode::None; 3]);
}
