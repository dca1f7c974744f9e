//! The configs and versions that are in force: ApiVersions and DescribeConfigs.

mod long_answers;

use kafka_wire::describe_configs::{
    DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResult,
};
use kafka_wire::{
    ApiKey, ApiVersionsRequest, ApiVersionsResponse, Decode, DescribeConfigsRequest, ErrorCode, Reader,
    ResponseHeader,
};

use crate::ask::code;
use crate::ask::configs::{BROKER, SET, TOPIC, all_of, change, edit, set, told};
use crate::support::{TestNode, Wire};

fn describe(wire: &mut Wire, version: i16, resource: DescribeConfigsResource) -> DescribeConfigsResult {
    let request = DescribeConfigsRequest {
        resources: vec![resource],
        include_synonyms: true,
        include_documentation: true,
    };
    wire.call(version, &request).results.remove(0)
}

fn find<'a>(result: &'a DescribeConfigsResult, name: &str) -> &'a DescribeConfigsResourceResult {
    result
        .configs
        .iter()
        .find(|config| config.name == name)
        .expect("a known config")
}

#[test]
fn the_served_apis_are_listed_in_every_version() {
    let node = TestNode::start();
    let mut wire = node.connect();
    let request = ApiVersionsRequest {
        client_software_name: "test".into(),
        client_software_version: "1.0".into(),
    };
    for version in 0..=4 {
        let response = wire.call(version, &request);
        assert_eq!(response.error_code, 0);
        let listed: Vec<_> = response
            .api_keys
            .iter()
            .map(|api| (api.api_key, api.min_version, api.max_version))
            .collect();
        assert_eq!(listed.len(), 57);
        assert!(listed.contains(&(0, 0, 13)), "Produce is advertised from 0 on");
        assert!(listed.contains(&(18, 0, 4)));
    }
}

#[test]
fn a_client_from_the_future_is_told_in_version_zero() {
    let node = TestNode::start();
    let mut wire = node.connect();
    // Key 18, version 99, correlation id 7, no client id, no tags, and a body nobody here can read.
    let header = [0, 18, 0, 99, 0, 0, 0, 7, 0xff, 0xff, 0, 1, 2, 3];
    wire.send(&(header.len() as i32).to_be_bytes());
    wire.send(&header);
    let mut reader = Reader::new(wire.receive_frame().expect("an answer"));
    let header = ResponseHeader::decode(&mut reader, ApiKey::ApiVersions, 0).expect("a sound header");
    let response = ApiVersionsResponse::decode(&mut reader, 0).expect("version 0");
    assert_eq!(
        (header.correlation_id, response.error_code),
        (7, ErrorCode::UnsupportedVersion.code())
    );
    assert_eq!(
        (response.api_keys[0].api_key, response.api_keys[0].max_version),
        (18, 4)
    );
}

#[test]
fn a_topics_configs_come_with_their_sources() {
    let node = TestNode::start_with(&[("topics.defaults.segment.ms", "5000")]);
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[("retention.ms", "1000"), ("segment.ms", "6000")]);
    for version in 1..=4 {
        let result = describe(&mut wire, version, all_of(TOPIC, "orders"));
        assert_eq!(
            (
                result.error_code,
                result.resource_type,
                result.resource_name.as_str()
            ),
            (0, TOPIC, "orders")
        );
        let retention = find(&result, "retention.ms");
        assert_eq!(
            (retention.value.as_deref(), retention.config_source),
            (Some("1000"), 1)
        );
        assert!(!retention.read_only && !retention.is_sensitive);
        let synonyms = |name| -> Vec<(String, i8)> {
            let config = find(&result, name);
            let value =
                |value: &Option<kafka_wire::Text>| value.as_deref().map(str::to_owned).unwrap_or_default();
            config
                .synonyms
                .iter()
                .map(|synonym| (value(&synonym.value), synonym.source))
                .collect()
        };
        assert_eq!(
            synonyms("retention.ms"),
            [("1000".into(), 1), ("604800000".into(), 5)]
        );
        assert_eq!(
            synonyms("segment.ms"),
            [("6000".into(), 1), ("5000".into(), 4), ("604800000".into(), 5)]
        );
        assert_eq!(synonyms("cleanup.policy"), [("delete".into(), 5)]);
        if version >= 3 {
            assert_eq!(
                (retention.config_type, find(&result, "cleanup.policy").config_type),
                (5, 7)
            );
            assert_eq!(find(&result, "preallocate").config_type, 1);
            assert!(
                retention
                    .documentation
                    .as_deref()
                    .is_some_and(|text| text.contains("segment"))
            );
        }
    }
    let request = DescribeConfigsRequest {
        resources: vec![all_of(TOPIC, "orders")],
        ..Default::default()
    };
    let bare = wire.call(4, &request).results.remove(0);
    let retention = find(&bare, "retention.ms");
    assert!(
        retention.synonyms.is_empty() && retention.documentation.is_none(),
        "only what was asked for"
    );
}

#[test]
fn only_the_requested_configs_are_told() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let keys = |keys: &[&str]| DescribeConfigsResource {
        configuration_keys: Some(keys.iter().map(|key| (*key).into()).collect()),
        ..all_of(TOPIC, "orders")
    };
    let names = |result: DescribeConfigsResult| -> Vec<String> {
        result
            .configs
            .iter()
            .map(|config| config.name.to_string())
            .collect()
    };
    let some = describe(&mut wire, 4, keys(&["segment.ms", "nonsense", "retention.ms"]));
    assert_eq!(names(some), ["retention.ms", "segment.ms"]);
    assert!(
        names(describe(&mut wire, 4, keys(&[]))).len() > 10,
        "no keys are all keys"
    );
}

#[test]
fn the_nodes_own_keys_are_read_only() {
    let node = TestNode::start();
    let mut wire = node.connect();
    let result = describe(&mut wire, 4, all_of(BROKER, "1"));
    assert_eq!(result.error_code, 0, "{:?}", result.error_message);
    let cores = find(&result, "cores");
    assert!(cores.read_only);
    assert_eq!(
        (cores.value.as_deref(), cores.config_source, cores.config_type),
        (Some("2"), 4, 5)
    );
    let sources: Vec<i8> = cores.synonyms.iter().map(|synonym| synonym.source).collect();
    assert_eq!(sources, [4, 5]);
    let idle = find(&result, "limits.connection_idle");
    assert_eq!(
        (idle.value.as_deref(), idle.config_source, idle.config_type),
        (Some("10m"), 5, 2)
    );
    let changeable = result.configs.iter().filter(|config| !config.read_only);
    assert!(changeable.clone().any(|config| config.name == "log.retention.ms"));
    assert!(changeable.clone().all(|config| config.config_source == 5));
    let of_all = describe(&mut wire, 4, all_of(BROKER, ""));
    assert_eq!(
        (of_all.error_code, of_all.configs.len()),
        (0, 0),
        "nothing is set for all"
    );
}

#[test]
fn the_nodes_own_keys_are_found_under_kafkas_names() {
    let node = TestNode::start_with(&[
        ("groups.offsets_retention", "2h"),
        ("topics.default_partitions", "3"),
    ]);
    let mut wire = node.connect();
    let asked = [
        "num.partitions",
        "auto.create.topics.enable",
        "offsets.retention.minutes",
        "connections.max.idle.ms",
        "max.connections",
        "log.retention.check.interval.ms",
    ];
    let result = describe(
        &mut wire,
        4,
        DescribeConfigsResource {
            configuration_keys: Some(asked.iter().map(|name| (*name).into()).collect()),
            ..all_of(BROKER, "1")
        },
    );
    assert_eq!(result.configs.len(), asked.len(), "each is told once");
    let told = |name| {
        let config = find(&result, name);
        (config.value.as_deref(), config.read_only, config.config_source)
    };
    assert_eq!(told("num.partitions"), (Some("3"), true, 4));
    assert_eq!(told("auto.create.topics.enable"), (Some("true"), true, 5));
    assert_eq!(told("offsets.retention.minutes"), (Some("120"), true, 4));
    assert_eq!(told("connections.max.idle.ms"), (Some("600000"), true, 5));
    assert_eq!(told("log.retention.check.interval.ms"), (Some("300000"), true, 5));
    assert!(!told("max.connections").1, "what changes is told as such");
    let retention = find(&result, "offsets.retention.minutes");
    assert_eq!(retention.config_type, 5);
    let synonyms = retention.synonyms.iter();
    let synonyms: Vec<_> = synonyms
        .map(|synonym| {
            (
                synonym.name.as_str(),
                synonym.value.as_deref().unwrap_or_default(),
            )
        })
        .collect();
    assert_eq!(
        synonyms,
        [
            ("groups.offsets_retention", "2h"),
            ("offsets.retention.minutes", "10080")
        ]
    );
}

#[test]
fn a_config_without_effect_is_checked_kept_and_told_as_such() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let mut set = |value| change(&mut wire, TOPIC, "orders", edit("flush.ms", SET, Some(value)));
    assert_eq!(set("1"), ErrorCode::None);
    assert_eq!(set("never"), ErrorCode::InvalidConfig);
    let described = describe(&mut wire, 4, all_of(TOPIC, "orders"));
    let flush = find(&described, "flush.ms");
    assert_eq!((flush.value.as_deref(), flush.config_source), (Some("1"), 1));
    let documentation = flush.documentation.as_deref().unwrap_or_default();
    assert!(documentation.starts_with("No effect"), "{documentation}");
}

/// The configs that tools look for before they act have the types that Kafka's brokers tell.
#[test]
fn what_kafkas_tools_look_for_is_told_and_cannot_be_changed() {
    const FIXED: [(&str, &str, i8); 7] = [
        ("controlled.shutdown.enable", "true", 1),
        ("default.replication.factor", "1", 3),
        ("delete.topic.enable", "true", 1),
        ("log.cleaner.enable", "true", 1),
        ("offsets.topic.replication.factor", "1", 4),
        ("process.roles", "broker,controller", 7),
        ("security.inter.broker.protocol", "PLAINTEXT", 2),
    ];
    let node = TestNode::start();
    let mut wire = node.connect();
    for (name, value, config_type) in FIXED {
        let named = DescribeConfigsResource {
            configuration_keys: Some(vec![name.into()]),
            ..all_of(BROKER, "1")
        };
        let mut told = describe(&mut wire, 4, named).configs;
        assert_eq!(told.len(), 1, "{name}");
        let config = told.remove(0);
        assert_eq!(
            (config.value.as_deref(), config.config_type),
            (Some(value), config_type),
            "{name}"
        );
        assert!(config.read_only && !config.is_sensitive, "{name}");
        assert_eq!(config.config_source, 5, "{name}");
        let synonyms = config.synonyms.iter();
        let synonyms: Vec<_> = synonyms
            .map(|synonym| (synonym.name.as_str(), synonym.value.as_deref(), synonym.source))
            .collect();
        assert_eq!(synonyms, [(name, Some(value), 5)]);
        assert!(
            config.documentation.is_some_and(|text| text.ends_with('.')),
            "{name}"
        );
        for broker in ["1", ""] {
            let refused = change(&mut wire, BROKER, broker, edit(name, SET, Some("false")));
            assert_eq!(refused, ErrorCode::InvalidRequest, "{name}");
        }
    }
}

/// A tool that moves many partitions names each of them.
#[test]
fn long_lists_of_throttled_replicas_are_taken_and_told() {
    const NAME: &str = "leader.replication.throttled.replicas";
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let list = |first: u32| -> String {
        let replicas: Vec<String> = (first..first + 1_000).map(|index| format!("{index}:1")).collect();
        replicas.join(",")
    };
    set(&mut wire, TOPIC, "orders", NAME, &list(1_000));
    assert_eq!(told(&mut wire, TOPIC, "orders", NAME).0, list(1_000));
    wire.create_topic("created", 1, &[(NAME, &list(9_000))]);
    let node = node.kill_and_restart();
    let mut wire = node.connect();
    assert_eq!(told(&mut wire, TOPIC, "orders", NAME).0, list(1_000));
    assert_eq!(told(&mut wire, TOPIC, "created", NAME).0, list(9_000));
}

#[test]
fn what_has_no_configs_is_refused_with_a_sentence() {
    let node = TestNode::start();
    let mut wire = node.connect();
    let cases = [
        (all_of(TOPIC, "nowhere"), ErrorCode::UnknownTopicOrPartition),
        (all_of(TOPIC, "not/a/name"), ErrorCode::InvalidTopicException),
        (all_of(BROKER, "2"), ErrorCode::InvalidRequest),
        (all_of(BROKER, "one"), ErrorCode::InvalidRequest),
        (all_of(8, "1"), ErrorCode::InvalidRequest),
        (all_of(0, ""), ErrorCode::InvalidRequest),
        (all_of(-1, ""), ErrorCode::InvalidRequest),
    ];
    for (wanted, expected) in cases {
        let what = format!("{wanted:?}");
        let result = describe(&mut wire, 4, wanted);
        assert_eq!(code(result.error_code), expected, "{what}");
        assert!(
            result.error_message.is_some_and(|message| !message.is_empty()),
            "{what}"
        );
    }
    let twice = vec![all_of(BROKER, ""), all_of(BROKER, "")];
    let results = wire
        .call(
            4,
            &DescribeConfigsRequest {
                resources: twice,
                ..Default::default()
            },
        )
        .results;
    let told: Vec<i16> = results.iter().map(|result| result.error_code).collect();
    assert_eq!(told, [0, ErrorCode::InvalidRequest.code()]);
}
