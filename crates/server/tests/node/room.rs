//! Clients that announce much and send little, and clients that go before they are answered: what they asked for keeps nobody
//! waiting, and is not kept.

use kafka_wire::list_offsets::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_wire::{ListOffsetsRequest, MetadataRequest};

use crate::support::{TestNode, Wire, batch, eventually, now_ms};

const HELD: &str = "ropewalk_request_bytes";

/// The head of a request that announces as much as a node of these tests takes, and as much again of it as room is asked for.
fn shown(wire: &mut Wire, announced: i32) {
    let mut request = wire.frame(
        12,
        &MetadataRequest {
            topics: None,
            ..MetadataRequest::default()
        },
    );
    request[..4].copy_from_slice(&announced.to_be_bytes());
    request.resize(128 << 10, 0);
    wire.send(&request);
}

#[test]
fn requests_that_trickle_keep_no_append_of_any_size_waiting() {
    let node = TestNode::start_with(&[
        ("cores", "1"),
        ("limits.request_bytes", "12MiB"),
        ("limits.in_flight_bytes_per_core", "16MiB"),
    ]);
    let mut good = node.connect();
    good.create_topic("orders", 1, &[]);
    let trickling: Vec<Wire> = (0..20)
        .map(|_| {
            let mut wire = node.connect();
            shown(&mut wire, 12 << 20);
            wire
        })
        .collect();
    eventually("one of them holds some room", || node.metric(HELD) > 0);
    for bytes in [100, 100 << 10, 300 << 10, 900 << 10] {
        let value = "x".repeat(bytes);
        let told = good.produce("orders", 0, batch(&[(now_ms(), &value)]));
        assert_eq!(told.error_code, 0);
        // They are still there: nobody had to go for it.
        assert!(node.metric(HELD) > 0);
    }
    drop(trickling);
    eventually("all room is given back", || node.metric(HELD) == 0);
}

#[test]
fn announced_requests_hold_little_more_than_what_came_of_them() {
    let node = TestNode::start_with(&[
        ("cores", "1"),
        ("limits.request_bytes", "12MiB"),
        ("limits.in_flight_bytes_per_core", "16MiB"),
    ]);
    let mut wire = node.connect();
    shown(&mut wire, 12 << 20);
    eventually("it holds some room", || node.metric(HELD) > 0);
    assert!(node.metric(HELD) <= 1 << 20);
}

#[test]
fn what_closed_connections_asked_for_is_not_kept() {
    let node = TestNode::start();
    let mut good = node.connect();
    good.create_topic("wide", 10_000, &[]);
    let partitions = (0..10_000).map(|partition_index| ListOffsetsPartition {
        partition_index,
        timestamp: -2,
        ..ListOffsetsPartition::default()
    });
    let all = ListOffsetsRequest {
        topics: vec![ListOffsetsTopic {
            name: "wide".into(),
            partitions: partitions.collect(),
        }],
        ..ListOffsetsRequest::default()
    };
    for _ in 0..20 {
        let mut wire = node.connect();
        let frame = wire.frame(4, &all);
        wire.send(&frame);
    }
    eventually("all room is given back", || node.metric(HELD) == 0);
    assert_eq!(good.call(4, &all).topics[0].partitions.len(), 10_000);
}
