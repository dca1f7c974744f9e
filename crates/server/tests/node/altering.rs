//! AlterConfigs and IncrementalAlterConfigs: what takes effect, and what a restart remembers.

mod refused;

use kafka_wire::{AlterConfigsRequest, ErrorCode, IncrementalAlterConfigsRequest};

use crate::ask::code;
use crate::ask::configs::{
    BROKER, DELETE, SET, TOPIC, change, described, edit, edits, replacement, set, told,
};
use crate::support::{TestNode, batch, eventually, now_ms};

#[test]
fn a_topics_configs_change_for_open_partitions_and_outlast_restarts() {
    let node = TestNode::start();
    let mut wire = node.connect();
    // More partitions than cores: a change reaches those of every core.
    wire.create_topic("orders", 4, &[("retention.ms", "-1")]);
    let large = "x".repeat(2_000);
    for index in 0..4 {
        assert_eq!(
            wire.produce("orders", index, batch(&[(now_ms(), &large)]))
                .error_code,
            0
        );
    }
    set(&mut wire, TOPIC, "orders", "max.message.bytes", "1000");
    for index in 0..4 {
        let refused = wire.produce("orders", index, batch(&[(now_ms(), &large)]));
        assert_eq!(
            code(refused.error_code),
            ErrorCode::MessageTooLarge,
            "partition {index}"
        );
    }
    set(
        &mut wire,
        TOPIC,
        "orders",
        "message.timestamp.type",
        "LogAppendTime",
    );
    let appended = wire.produce("orders", 3, batch(&[(5, "old")]));
    assert!(appended.log_append_time_ms > 5, "{appended:?}");

    let node = node.kill_and_restart();
    let mut wire = node.connect();
    let refused = wire.produce("orders", 2, batch(&[(now_ms(), &large)]));
    assert_eq!(refused.error_code, ErrorCode::MessageTooLarge.code());
    assert_eq!(told(&mut wire, TOPIC, "orders", "retention.ms").0, "-1");
    let unset = edit("max.message.bytes", DELETE, None);
    assert_eq!(change(&mut wire, TOPIC, "orders", unset), ErrorCode::None);
    assert_eq!(
        wire.produce("orders", 2, batch(&[(now_ms(), &large)])).error_code,
        0
    );
    let (value, source, _) = told(&mut wire, TOPIC, "orders", "max.message.bytes");
    assert_eq!((value.as_str(), source), ("1048588", 5));
}

#[test]
fn retention_goes_by_the_new_value() {
    let node = TestNode::start_with(&[("retention.check_interval", "10ms")]);
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[("retention.ms", "-1")]);
    wire.create_topic("kept", 1, &[("retention.ms", "-1")]);
    wire.create_topic("by-default", 1, &[]);
    let old = now_ms() - 60_000;
    for topic in ["orders", "kept", "by-default"] {
        assert_eq!(wire.produce(topic, 0, batch(&[(old, "old")])).error_code, 0);
    }
    set(&mut wire, TOPIC, "orders", "retention.ms", "1000");
    set(&mut wire, BROKER, "", "log.retention.ms", "1000");
    for topic in ["orders", "by-default"] {
        eventually("the old record goes", || {
            wire.fetch(topic, 0, 1).log_start_offset == 1
        });
    }
    assert_eq!(
        wire.fetch("kept", 0, 0).log_start_offset,
        0,
        "a topic's own value goes first"
    );
}

#[test]
fn brokers_configs_come_in_layers() {
    let node = TestNode::start_with(&[("topics.defaults.retention.ms", "40000")]);
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let layers = [
        ("log.retention.ms".to_owned(), 2),
        ("log.retention.ms".to_owned(), 3),
        ("topics.defaults.retention.ms".to_owned(), 4),
    ];
    set(&mut wire, BROKER, "", "log.retention.ms", "30000");
    let (value, source, synonyms) = told(&mut wire, TOPIC, "orders", "retention.ms");
    assert_eq!((value.as_str(), source), ("30000", 3));
    assert_eq!(synonyms[..2], layers[1..]);
    assert_eq!(synonyms[2..], [("log.retention.ms".to_owned(), 5)]);
    set(&mut wire, BROKER, "1", "log.retention.ms", "20000");
    let (value, source, synonyms) = told(&mut wire, TOPIC, "orders", "retention.ms");
    assert_eq!((value.as_str(), source), ("20000", 2));
    assert_eq!(synonyms[..3], layers);
    let (value, source, synonyms) = told(&mut wire, BROKER, "1", "log.retention.ms");
    assert_eq!((value.as_str(), source), ("20000", 2));
    assert_eq!(synonyms[..3], layers);
    assert_eq!(synonyms[3].1, 5);
    let of_all = described(&mut wire, BROKER, "");
    assert_eq!(of_all.len(), 1, "only what is set for all");
    assert_eq!(of_all[0].value.as_deref(), Some("30000"));

    let node = node.restart();
    let mut wire = node.connect();
    assert_eq!(told(&mut wire, TOPIC, "orders", "retention.ms").0, "20000");
    for name in ["1", ""] {
        let unset = edit("log.retention.ms", DELETE, None);
        assert_eq!(change(&mut wire, BROKER, name, unset), ErrorCode::None);
    }
    assert_eq!(told(&mut wire, TOPIC, "orders", "retention.ms").1, 5);
}

#[test]
fn connections_are_let_in_by_the_new_limit() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    set(&mut wire, BROKER, "", "max.connections", "2");
    let mut second = node.connect();
    assert_eq!(told(&mut second, BROKER, "1", "max.connections").1, 3);
    node.connect().expect_hang_up();
    assert_eq!(
        wire.fetch("orders", 0, 0).error_code,
        0,
        "those who came first stay"
    );
    set(&mut wire, BROKER, "1", "max.connections", "100");
    let mut third = node.connect();
    assert_eq!(told(&mut third, BROKER, "1", "max.connections").0, "100");
}

#[test]
fn a_rehearsal_changes_nothing() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    for (value, expected) in [("5", ErrorCode::None), ("x", ErrorCode::InvalidConfig)] {
        for version in 0..=1 {
            let request = IncrementalAlterConfigsRequest {
                resources: vec![edits(TOPIC, "orders", vec![edit("segment.ms", SET, Some(value))])],
                validate_only: true,
            };
            let told = wire.call(version, &request).responses.remove(0);
            assert_eq!(code(told.error_code), expected);
        }
    }
    assert_eq!(told(&mut wire, TOPIC, "orders", "segment.ms").1, 5);
}

#[test]
fn replacing_gives_up_what_is_not_named() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[("segment.ms", "5000"), ("retention.ms", "6000")]);
    let replace = |configs: &[(&str, Option<&str>)]| replacement(TOPIC, "orders", configs);
    let refused = [
        (vec![("segment.ms", None)], ErrorCode::InvalidRequest),
        (
            vec![("segment.ms", Some("7")), ("segment.ms", Some("8"))],
            ErrorCode::InvalidRequest,
        ),
        (
            vec![("segment.ms", Some("7")), ("nonsense", Some("8"))],
            ErrorCode::InvalidConfig,
        ),
    ];
    for (configs, expected) in &refused {
        let told = wire.call(2, &replace(configs)).responses.remove(0);
        assert_eq!(code(told.error_code), *expected);
    }
    // A node's own keys are set where it is started, by whichever request.
    for (name, expected) in [
        ("cores", ErrorCode::InvalidRequest),
        ("nonsense", ErrorCode::InvalidConfig),
    ] {
        let of_node = replacement(BROKER, "1", &[("log.roll.ms", Some("7777")), (name, Some("1"))]);
        let refused = wire.call(2, &of_node).responses.remove(0);
        assert_eq!(code(refused.error_code), expected);
        assert_eq!(told(&mut wire, BROKER, "1", "log.roll.ms").1, 5);
    }
    let rehearsal = AlterConfigsRequest {
        validate_only: true,
        ..replace(&[])
    };
    for version in 0..=2 {
        let told = wire.call(version, &rehearsal).responses.remove(0);
        assert_eq!(told.error_code, 0);
    }
    assert_eq!(told(&mut wire, TOPIC, "orders", "segment.ms").0, "5000");
    let told_of_change = wire.call(2, &replace(&[("segment.ms", Some("7000"))]));
    assert_eq!(told_of_change.responses[0].error_code, 0);
    assert_eq!(told(&mut wire, TOPIC, "orders", "segment.ms").0, "7000");
    assert_eq!(told(&mut wire, TOPIC, "orders", "retention.ms").1, 5);
}

#[test]
fn no_default_of_topics_takes_the_metadata_away() {
    let sets = [
        ("retention.check_interval", "10ms"),
        ("topics.defaults.retention.ms", "1"),
        ("topics.defaults.retention.bytes", "1"),
        ("topics.defaults.max.message.bytes", "10"),
        ("topics.defaults.cleanup.policy", "compact,delete"),
        ("topics.defaults.ropewalk.durability", "memory"),
    ];
    let node = TestNode::start_with(&sets);
    let mut wire = node.connect();
    wire.create_topic("orders", 3, &[("segment.ms", "5000")]);
    set(&mut wire, BROKER, "", "log.retention.ms", "1");
    // More partitions than cores: what goes shows that each core has looked. At its second look it is through with the first.
    wire.create_topic(
        "canary",
        4,
        &[("cleanup.policy", "delete"), ("max.message.bytes", "1000000")],
    );
    for (look, index) in (0..2).flat_map(|look| (0..4).map(move |index| (look, index))) {
        let old = batch(&[(now_ms() - 60_000, "old")]);
        assert_eq!(wire.produce("canary", index, old).error_code, 0);
        eventually("the old record goes", || {
            wire.fetch("canary", index, look).error_code == ErrorCode::OffsetOutOfRange.code()
        });
    }
    let node = node.kill_and_restart();
    let mut wire = node.connect();
    assert_eq!(told(&mut wire, TOPIC, "orders", "segment.ms").0, "5000");
    assert_eq!(told(&mut wire, TOPIC, "orders", "retention.ms").1, 3);
}
