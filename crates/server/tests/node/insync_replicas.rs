//! `min.insync.replicas`: more replicas than there are cannot hold a batch, and nobody who waits for them is told they do.

use kafka_wire::incremental_alter_configs::{AlterConfigsResource, AlterableConfig};
use kafka_wire::{ErrorCode, IncrementalAlterConfigsRequest};

use crate::support::{TestNode, Wire, batch, now_ms, produce_request};

/// What a producer that waits for so many is told.
fn produce(wire: &mut Wire, topic: &str, acks: i16) -> (ErrorCode, String) {
    let request = produce_request(topic, 0, batch(&[(now_ms(), "x")]), acks);
    let told = wire.call(9, &request).responses.remove(0);
    let told = &told.partition_responses[0];
    (
        ErrorCode::from_code(told.error_code).expect("Kafka's"),
        told.error_message.as_deref().unwrap_or_default().to_owned(),
    )
}

/// Sets the config for a topic, or for all brokers.
fn set(wire: &mut Wire, topic: Option<&str>, value: &str) {
    let request = IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: topic.map_or(4, |_| 2),
            resource_name: topic.unwrap_or_default().into(),
            configs: vec![AlterableConfig {
                name: "min.insync.replicas".into(),
                config_operation: 0,
                value: Some(value.into()),
            }],
        }],
        validate_only: false,
    };
    assert_eq!(wire.call(1, &request).responses[0].error_code, 0);
}

#[test]
fn who_waits_for_more_replicas_than_there_are_is_refused() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[("min.insync.replicas", "2")]);
    wire.create_topic("events", 1, &[]);
    let (refused, message) = produce(&mut wire, "orders", -1);
    assert_eq!(refused, ErrorCode::NotEnoughReplicas);
    assert!(message.contains("min.insync.replicas"), "{message}");
    assert_eq!(produce(&mut wire, "orders", 1).0, ErrorCode::None);
    assert_eq!(produce(&mut wire, "events", -1).0, ErrorCode::None);
    set(&mut wire, Some("orders"), "1");
    assert_eq!(produce(&mut wire, "orders", -1).0, ErrorCode::None);
    set(&mut wire, None, "3");
    assert_eq!(produce(&mut wire, "events", -1).0, ErrorCode::NotEnoughReplicas);
    assert_eq!(
        produce(&mut wire, "orders", -1).0,
        ErrorCode::None,
        "the topic's own value goes first"
    );
    assert_eq!(wire.read_all("orders", 0, 0).len(), 3);
    assert_eq!(wire.read_all("events", 0, 0).len(), 1);

    // Neither the metadata nor the groups wait for replicas of other topics.
    wire.create_topic("more", 1, &[]);
    let node = node.kill_and_restart();
    let mut wire = node.connect();
    assert_eq!(produce(&mut wire, "more", -1).0, ErrorCode::NotEnoughReplicas);
    assert_eq!(wire.read_all("orders", 0, 0).len(), 3);
}
