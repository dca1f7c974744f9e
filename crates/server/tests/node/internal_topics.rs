//! The topic that the node keeps for itself: absent it is a topic like others that are absent, and clients change nothing about
//! it that groups need.

use kafka_wire::describe_producers;
use kafka_wire::describe_topic_partitions;
use kafka_wire::{CreateTopicsRequest, DescribeProducersRequest, DescribeTopicPartitionsRequest, ErrorCode};

use crate::ask::configs::{
    APPEND, BROKER, DELETE, SET, SUBTRACT, TOPIC, change, described, edit, replacement, set,
};
use crate::ask::{code, named};
use crate::groups::{GROUPS, ORDERS, commit, committed, find_coordinator};
use crate::support::{TestNode, Wire, creatable};

/// The answer to a request that the topic shall have these configs and no others.
fn replace(wire: &mut Wire, configs: &[(&str, &str)]) -> ErrorCode {
    let configs: Vec<_> = configs
        .iter()
        .map(|(name, value)| (*name, Some(*value)))
        .collect();
    let told = wire.call(2, &replacement(TOPIC, GROUPS, &configs));
    code(told.responses[0].error_code)
}

/// The configs set for the topic itself.
fn own_configs(wire: &mut Wire) -> Vec<(String, String)> {
    let configs = described(wire, TOPIC, GROUPS);
    let own = configs.iter().filter(|config| config.config_source == 1);
    own.map(|config| {
        let value = config.value.as_deref().unwrap_or_default();
        (config.name.to_string(), value.to_owned())
    })
    .collect()
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
            let told = change(&mut wire, TOPIC, GROUPS, edit(name, operation, value));
            assert_eq!(told, refused, "{name} {operation} {value:?}");
        }
        assert_eq!(replace(&mut wire, &[(name, other)]), refused, "{name}");
        // It is that already.
        set(&mut wire, TOPIC, GROUPS, name, value);
    }
    assert_eq!(own_configs(&mut wire), made);

    // The rest is the clients' to choose; what they do not name stays or goes, as for any topic.
    set(&mut wire, TOPIC, GROUPS, "segment.ms", "60000");
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
        set(&mut wire, BROKER, "", name, value);
    }
    let told = commit(&mut wire, 8, ("readers", "", -1), ORDERS, &[(0, 7)]);
    assert_eq!(told, [ErrorCode::None]);
    let node = node.kill_and_restart();
    assert_eq!(committed(&mut node.connect(), "readers"), [(0, 7)]);
}

fn about_partitions(name: &str) -> DescribeTopicPartitionsRequest {
    DescribeTopicPartitionsRequest {
        topics: vec![describe_topic_partitions::TopicRequest { name: name.into() }],
        ..DescribeTopicPartitionsRequest::default()
    }
}

/// Says if a topic is internal, by Metadata and by DescribeTopicPartitions.
fn internal(wire: &mut Wire, name: &str) -> [bool; 2] {
    [
        wire.call(12, &named(&[name])).topics[0].is_internal,
        wire.call(0, &about_partitions(name)).topics[0].is_internal,
    ]
}

/// The errors of Metadata, DescribeTopicPartitions and DescribeProducers for a topic.
fn looked_up(wire: &mut Wire, name: &str) -> [ErrorCode; 3] {
    let producers = DescribeProducersRequest {
        topics: vec![describe_producers::TopicRequest {
            name: name.into(),
            partition_indexes: vec![0],
        }],
    };
    [
        wire.call(12, &named(&[name])).topics[0].error_code,
        wire.call(0, &about_partitions(name)).topics[0].error_code,
        wire.call(0, &producers).topics[0].partitions[0].error_code,
    ]
    .map(code)
}

#[test]
fn reserved_names_are_looked_up_like_others() {
    let node = TestNode::start();
    let mut wire = node.connect();
    for name in [
        GROUPS,
        "__cluster_metadata",
        "__transaction_state",
        "__share_group_state",
    ] {
        let told = looked_up(&mut wire, name);
        assert_eq!(told, [ErrorCode::UnknownTopicOrPartition; 3], "{name}");
    }
    let invalid = ErrorCode::InvalidTopicException;
    assert_eq!(
        looked_up(&mut wire, "a/b"),
        [invalid, invalid, ErrorCode::UnknownTopicOrPartition]
    );
    find_coordinator(&mut wire);
    assert_eq!(looked_up(&mut wire, GROUPS), [ErrorCode::None; 3]);
}

#[test]
fn what_the_node_keeps_for_itself_is_told_to_be_internal() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    // Also while it is not there yet.
    assert_eq!(internal(&mut wire, GROUPS), [true; 2]);
    find_coordinator(&mut wire);
    assert_eq!(internal(&mut wire, GROUPS), [true; 2]);
    assert_eq!(internal(&mut wire, "orders"), [false; 2]);
    // A client that wants to make it is told that it is there.
    let request = CreateTopicsRequest {
        topics: vec![creatable(GROUPS, 1)],
        ..CreateTopicsRequest::default()
    };
    let refused = wire.call(7, &request).topics.remove(0);
    assert_eq!(code(refused.error_code), ErrorCode::TopicAlreadyExists);
}
