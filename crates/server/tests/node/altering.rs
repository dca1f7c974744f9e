//! AlterConfigs and IncrementalAlterConfigs: what takes effect, what is refused, what a restart remembers.

use std::thread::sleep;
use std::time::Duration;

use kafka_wire::alter_configs::{
    AlterConfigsResource as ReplacedResource, AlterableConfig as ReplacedConfig,
};
use kafka_wire::describe_configs::{DescribeConfigsResource, DescribeConfigsResourceResult};
use kafka_wire::incremental_alter_configs::{AlterConfigsResource, AlterableConfig};
use kafka_wire::{AlterConfigsRequest, DescribeConfigsRequest, ErrorCode, IncrementalAlterConfigsRequest};

use crate::support::{TestNode, Wire, batch, eventually, now_ms};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

fn edit(name: &str, config_operation: i8, value: Option<&str>) -> AlterableConfig {
    AlterableConfig {
        name: name.into(),
        config_operation,
        value: value.map(Into::into),
    }
}

fn resource(resource_type: i8, name: &str, configs: Vec<AlterableConfig>) -> AlterConfigsResource {
    AlterConfigsResource {
        resource_type,
        resource_name: name.into(),
        configs,
    }
}

/// Codes and messages, by resource.
fn alter(wire: &mut Wire, resources: Vec<AlterConfigsResource>) -> Vec<(Option<ErrorCode>, String)> {
    let request = IncrementalAlterConfigsRequest {
        resources,
        validate_only: false,
    };
    let told = wire.call(1, &request).responses.into_iter();
    told.map(|told| {
        let message = told.error_message.as_deref().map(str::to_owned);
        (ErrorCode::from_code(told.error_code), message.unwrap_or_default())
    })
    .collect()
}

fn set(wire: &mut Wire, resource_type: i8, name: &str, config: &str, value: &str) {
    let edits = vec![edit(config, SET, Some(value))];
    let told = alter(wire, vec![resource(resource_type, name, edits)]);
    assert_eq!(told[0].0, Some(ErrorCode::None), "{}", told[0].1);
}

fn described(wire: &mut Wire, resource_type: i8, name: &str) -> Vec<DescribeConfigsResourceResult> {
    let request = DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type,
            resource_name: name.into(),
            configuration_keys: None,
        }],
        include_synonyms: true,
        include_documentation: false,
    };
    wire.call(4, &request).results.remove(0).configs
}

/// Value and source of a config, and the names and sources of its synonyms.
fn told(wire: &mut Wire, resource_type: i8, name: &str, config: &str) -> (String, i8, Vec<(String, i8)>) {
    let configs = described(wire, resource_type, name);
    let found = configs
        .iter()
        .find(|found| found.name == config)
        .expect("it is told");
    let synonyms = found.synonyms.iter();
    (
        found.value.as_deref().unwrap_or_default().to_owned(),
        found.config_source,
        synonyms
            .map(|synonym| (synonym.name.to_string(), synonym.source))
            .collect(),
    )
}

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
        let code = ErrorCode::from_code(refused.error_code);
        assert_eq!(code, Some(ErrorCode::MessageTooLarge), "partition {index}");
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
    let unset = vec![edit("max.message.bytes", DELETE, None)];
    assert_eq!(
        alter(&mut wire, vec![resource(TOPIC, "orders", unset)])[0].0,
        Some(ErrorCode::None)
    );
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
        let unset = vec![edit("log.retention.ms", DELETE, None)];
        let told = alter(&mut wire, vec![resource(BROKER, name, unset)]);
        assert_eq!(told[0].0, Some(ErrorCode::None));
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
fn what_cannot_be_is_refused_and_nothing_is_half_changed() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[("retention.ms", "5000000")]);
    let good = || edit("segment.ms", SET, Some("7777"));
    let with = |other| vec![good(), other];
    let of_broker = |other| vec![edit("log.roll.ms", SET, Some("7777")), other];
    let cases = [
        (
            TOPIC,
            "orders",
            with(edit("nonsense", SET, Some("1"))),
            ErrorCode::InvalidConfig,
        ),
        (
            TOPIC,
            "orders",
            with(edit("log.retention.ms", SET, Some("1"))),
            ErrorCode::InvalidConfig,
        ),
        (
            TOPIC,
            "orders",
            with(edit("retention.ms", SET, Some("week"))),
            ErrorCode::InvalidConfig,
        ),
        (
            TOPIC,
            "orders",
            with(edit("retention.ms", SET, Some(""))),
            ErrorCode::InvalidConfig,
        ),
        (
            TOPIC,
            "orders",
            with(edit("nonsense", DELETE, None)),
            ErrorCode::InvalidConfig,
        ),
        (
            TOPIC,
            "orders",
            with(edit("retention.ms", APPEND, Some("1"))),
            ErrorCode::InvalidConfig,
        ),
        (
            TOPIC,
            "orders",
            with(edit("cleanup.policy", SUBTRACT, Some("delete"))),
            ErrorCode::InvalidConfig,
        ),
        (
            TOPIC,
            "orders",
            with(edit("retention.ms", SET, None)),
            ErrorCode::InvalidRequest,
        ),
        (
            TOPIC,
            "orders",
            with(edit("retention.ms", 4, Some("1"))),
            ErrorCode::InvalidRequest,
        ),
        (
            TOPIC,
            "orders",
            with(edit("retention.ms", -1, Some("1"))),
            ErrorCode::InvalidRequest,
        ),
        (TOPIC, "orders", with(good()), ErrorCode::InvalidRequest),
        (
            TOPIC,
            "orders",
            with(edit("segment.ms", DELETE, None)),
            ErrorCode::InvalidRequest,
        ),
        (
            TOPIC,
            "orders",
            with(edit("retention.ms", SET, Some("9223372036854775808"))),
            ErrorCode::InvalidConfig,
        ),
        (
            TOPIC,
            "orders",
            with(edit("cleanup.policy", APPEND, Some("archive"))),
            ErrorCode::InvalidConfig,
        ),
        (
            BROKER,
            "1",
            of_broker(edit("log.retention.ms", APPEND, Some("1"))),
            ErrorCode::InvalidConfig,
        ),
        (
            BROKER,
            "",
            of_broker(edit("nonsense", SET, Some("1"))),
            ErrorCode::InvalidConfig,
        ),
        (
            BROKER,
            "1",
            of_broker(edit("log.roll.ms", DELETE, None)),
            ErrorCode::InvalidRequest,
        ),
        (TOPIC, "nowhere", vec![good()], ErrorCode::UnknownTopicOrPartition),
        (
            TOPIC,
            "not/a/name",
            vec![good()],
            ErrorCode::InvalidTopicException,
        ),
        (
            BROKER,
            "1",
            of_broker(edit("cores", SET, Some("1"))),
            ErrorCode::InvalidRequest,
        ),
        (
            BROKER,
            "",
            of_broker(edit("listeners", SET, Some("x"))),
            ErrorCode::InvalidRequest,
        ),
        (
            BROKER,
            "1",
            of_broker(edit("topics.defaults.retention.ms", SET, Some("1"))),
            ErrorCode::InvalidRequest,
        ),
        (
            BROKER,
            "1",
            of_broker(edit("log.retention.ms", SET, Some("x"))),
            ErrorCode::InvalidConfig,
        ),
        (
            BROKER,
            "1",
            of_broker(edit("retention.ms", SET, Some("1"))),
            ErrorCode::InvalidConfig,
        ),
        (
            BROKER,
            "1",
            of_broker(edit("max.connections", SET, Some("0"))),
            ErrorCode::InvalidConfig,
        ),
        (
            BROKER,
            "2",
            of_broker(edit("log.retention.ms", SET, Some("1"))),
            ErrorCode::InvalidRequest,
        ),
        (
            BROKER,
            "01",
            of_broker(edit("log.retention.ms", SET, Some("1"))),
            ErrorCode::InvalidRequest,
        ),
        (
            8,
            "1",
            vec![edit("kafka", SET, Some("DEBUG"))],
            ErrorCode::InvalidRequest,
        ),
        (0, "", vec![], ErrorCode::InvalidRequest),
        (-1, "", vec![], ErrorCode::InvalidRequest),
    ];
    for (resource_type, name, configs, expected) in cases {
        let what = format!("{resource_type} {name:?} {configs:?}");
        let told = alter(&mut wire, vec![resource(resource_type, name, configs)]);
        assert_eq!(told[0].0, Some(expected), "{what}: {}", told[0].1);
        assert!(!told[0].1.is_empty(), "{what} is refused with a sentence");
    }
    assert_eq!(told(&mut wire, TOPIC, "orders", "segment.ms").1, 5);
    assert_eq!(told(&mut wire, BROKER, "1", "log.roll.ms").1, 5);
    assert_eq!(told(&mut wire, TOPIC, "orders", "retention.ms").0, "5000000");
}

#[test]
fn each_resource_is_changed_or_refused_by_itself() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("one", 1, &[]);
    wire.create_topic("two", 1, &[]);
    let value = |value| vec![edit("segment.ms", SET, Some(value))];
    let told = alter(
        &mut wire,
        vec![
            resource(TOPIC, "one", value("1111")),
            resource(TOPIC, "nowhere", value("1111")),
            resource(TOPIC, "two", value("1111")),
            resource(TOPIC, "two", value("2222")),
            resource(BROKER, "", vec![edit("log.roll.ms", SET, Some("3333"))]),
        ],
    );
    let codes: Vec<_> = told.iter().filter_map(|(code, _)| *code).collect();
    assert_eq!(
        codes,
        [
            ErrorCode::None,
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::InvalidRequest,
            ErrorCode::InvalidRequest,
            ErrorCode::None,
        ]
    );
    assert_eq!(
        crate::altering::told(&mut wire, TOPIC, "one", "segment.ms").0,
        "1111"
    );
    assert_eq!(
        crate::altering::told(&mut wire, TOPIC, "two", "segment.ms").0,
        "3333"
    );
}

#[test]
fn a_rehearsal_changes_nothing() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    for (value, expected) in [("5", ErrorCode::None), ("x", ErrorCode::InvalidConfig)] {
        for version in 0..=1 {
            let request = IncrementalAlterConfigsRequest {
                resources: vec![resource(
                    TOPIC,
                    "orders",
                    vec![edit("segment.ms", SET, Some(value))],
                )],
                validate_only: true,
            };
            let told = wire.call(version, &request).responses.remove(0);
            assert_eq!(ErrorCode::from_code(told.error_code), Some(expected));
        }
    }
    assert_eq!(told(&mut wire, TOPIC, "orders", "segment.ms").1, 5);
}

#[test]
fn replacing_gives_up_what_is_not_named() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[("segment.ms", "5000"), ("retention.ms", "6000")]);
    let replace = |configs: &[(&str, Option<&str>)], validate_only| AlterConfigsRequest {
        resources: vec![ReplacedResource {
            resource_type: TOPIC,
            resource_name: "orders".into(),
            configs: configs
                .iter()
                .map(|(name, value)| ReplacedConfig {
                    name: (*name).into(),
                    value: value.map(Into::into),
                })
                .collect(),
        }],
        validate_only,
    };
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
        let told = wire.call(2, &replace(configs, false)).responses.remove(0);
        assert_eq!(ErrorCode::from_code(told.error_code), Some(*expected));
    }
    // A node's own keys are set where it is started, by whichever request.
    for (name, expected) in [
        ("cores", ErrorCode::InvalidRequest),
        ("nonsense", ErrorCode::InvalidConfig),
    ] {
        let mut of_node = replace(&[("log.roll.ms", Some("7777")), (name, Some("1"))], false);
        of_node.resources[0].resource_type = BROKER;
        of_node.resources[0].resource_name = "1".into();
        let refused = wire.call(2, &of_node).responses.remove(0);
        assert_eq!(ErrorCode::from_code(refused.error_code), Some(expected));
        assert_eq!(told(&mut wire, BROKER, "1", "log.roll.ms").1, 5);
    }
    for version in 0..=2 {
        let told = wire.call(version, &replace(&[], true)).responses.remove(0);
        assert_eq!(told.error_code, 0);
    }
    assert_eq!(told(&mut wire, TOPIC, "orders", "segment.ms").0, "5000");
    let told_of_change = wire.call(2, &replace(&[("segment.ms", Some("7000"))], false));
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
        ("topics.defaults.ropewalk.durability", "memory"),
    ];
    let node = TestNode::start_with(&sets);
    let mut wire = node.connect();
    wire.create_topic("orders", 3, &[("segment.ms", "5000")]);
    set(&mut wire, BROKER, "", "log.retention.ms", "1");
    sleep(Duration::from_millis(300));
    let node = node.kill_and_restart();
    let mut wire = node.connect();
    assert_eq!(told(&mut wire, TOPIC, "orders", "segment.ms").0, "5000");
    assert_eq!(told(&mut wire, TOPIC, "orders", "retention.ms").1, 3);
}
