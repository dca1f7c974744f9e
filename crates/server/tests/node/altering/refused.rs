//! Changes of configs that cannot be: each is refused in words, and nothing of its resource is changed.

use kafka_wire::ErrorCode;
use kafka_wire::incremental_alter_configs::AlterableConfig;

use crate::ask::configs::{APPEND, BROKER, DELETE, SET, SUBTRACT, TOPIC, alter, edit, edits, told};
use crate::support::TestNode;

/// Behind a change that could be made.
fn of_orders(change: AlterableConfig) -> (i8, &'static str, Vec<AlterableConfig>) {
    let good = edit("segment.ms", SET, Some("7777"));
    (TOPIC, "orders", vec![good, change])
}

/// The same of brokers.
fn of_broker(name: &'static str, change: AlterableConfig) -> (i8, &'static str, Vec<AlterableConfig>) {
    let good = edit("log.roll.ms", SET, Some("7777"));
    (BROKER, name, vec![good, change])
}

#[test]
fn what_cannot_be_is_refused_and_nothing_is_half_changed() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[("retention.ms", "5000000")]);
    let set = |name, value| edit(name, SET, Some(value));
    let no_config = vec![
        of_orders(set("nonsense", "1")),
        of_orders(set("log.retention.ms", "1")),
        of_orders(set("retention.ms", "week")),
        of_orders(set("retention.ms", "")),
        of_orders(set("retention.ms", "9223372036854775808")),
        of_orders(edit("retention.ms", APPEND, Some("1"))),
        of_orders(edit("retention.ms", SUBTRACT, Some("1"))),
        of_orders(edit("cleanup.policy", APPEND, Some("archive"))),
        of_broker("1", edit("log.retention.ms", APPEND, Some("1"))),
        of_broker("1", set("log.retention.ms", "x")),
        of_broker("1", set("retention.ms", "1")),
        of_broker("1", set("max.connections", "0")),
        of_broker("", set("nonsense", "1")),
    ];
    let no_request = vec![
        of_orders(edit("retention.ms", SET, None)),
        of_orders(edit("retention.ms", 4, Some("1"))),
        of_orders(edit("retention.ms", -1, Some("1"))),
        of_orders(set("segment.ms", "7777")),
        of_orders(edit("segment.ms", DELETE, None)),
        of_broker("1", edit("log.roll.ms", DELETE, None)),
        of_broker("1", set("cores", "1")),
        of_broker("1", set("topics.defaults.retention.ms", "1")),
        of_broker("", set("listeners", "x")),
        of_broker("2", set("log.retention.ms", "1")),
        of_broker("01", set("log.retention.ms", "1")),
        (8, "1", vec![set("kafka", "DEBUG")]),
        (0, "", vec![]),
        (-1, "", vec![]),
    ];
    let good = || vec![set("segment.ms", "7777")];
    for (cases, expected) in [
        (no_config, ErrorCode::InvalidConfig),
        (no_request, ErrorCode::InvalidRequest),
        (
            vec![(TOPIC, "nowhere", good())],
            ErrorCode::UnknownTopicOrPartition,
        ),
        (
            vec![(TOPIC, "not/a/name", good())],
            ErrorCode::InvalidTopicException,
        ),
    ] {
        for (resource_type, name, configs) in cases {
            let what = format!("{resource_type} {name:?} {configs:?}");
            let told = alter(&mut wire, vec![edits(resource_type, name, configs)]);
            assert_eq!(told[0].0, expected, "{what}: {}", told[0].1);
            assert!(!told[0].1.is_empty(), "{what} is refused with a sentence");
        }
    }
    // A config that has another name while the node runs is told with it.
    let wished = vec![set("limits.connections", "5")];
    let (_, why) = alter(&mut wire, vec![edits(BROKER, "1", wished)]).remove(0);
    assert!(why.contains("or set max.connections, which"), "{why}");
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
    let answered = alter(
        &mut wire,
        vec![
            edits(TOPIC, "one", value("1111")),
            edits(TOPIC, "nowhere", value("1111")),
            edits(TOPIC, "two", value("1111")),
            edits(TOPIC, "two", value("2222")),
            edits(BROKER, "", vec![edit("log.roll.ms", SET, Some("3333"))]),
        ],
    );
    let codes: Vec<_> = answered.iter().map(|(code, _)| *code).collect();
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
    assert_eq!(told(&mut wire, TOPIC, "one", "segment.ms").0, "1111");
    assert_eq!(told(&mut wire, TOPIC, "two", "segment.ms").0, "3333");
}
