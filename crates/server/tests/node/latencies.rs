//! The times of answers that the node counts: of which requests, and once each.

use kafka_wire::fetch::FetchRequest;
use kafka_wire::{ErrorCode, ProduceRequest};

use crate::support::{TestNode, Wire, batch, fetch_request, now_ms, produce_request};

const PRODUCED: &str = "ropewalk_produce_latency_seconds_count";
const FETCHED: &str = "ropewalk_fetch_latency_seconds_count";

/// A node of two cores with a topic "orders" of two partitions: one is on another core than the connection.
fn start() -> (TestNode, Wire) {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 2, &[]);
    (node, wire)
}

/// A Fetch from the tail of an empty partition that waits for records.
fn patient(max_wait_ms: i32) -> FetchRequest {
    FetchRequest {
        max_wait_ms,
        min_bytes: 1,
        ..fetch_request("orders", 0, 0)
    }
}

#[test]
fn a_produce_is_counted_once_if_it_is_answered() {
    let (node, mut wire) = start();
    assert_eq!(node.metric(PRODUCED), 0, "other requests are no produces");
    for partition in 0..2 {
        wire.produce("orders", partition, batch(&[(now_ms(), "x")]));
        assert_eq!(node.metric(PRODUCED), partition as u64 + 1);
    }
    let silent = produce_request("orders", 0, batch(&[(now_ms(), "nobody waits")]), 0);
    let frame = wire.frame(9, &silent);
    wire.send(&frame);
    // Behind it on the connection, so that it has been looked at.
    let refused = wire.produce("orders", 7, batch(&[(now_ms(), "x")]));
    assert_eq!(refused.error_code, ErrorCode::UnknownTopicOrPartition.code());
    assert_eq!(node.metric(PRODUCED), 3, "a refusal is an answer");
    assert_eq!(node.metric(FETCHED), 0);
}

#[test]
fn pipelined_produces_are_counted_each() {
    let (node, mut wire) = start();
    let request = produce_request("orders", 0, batch(&[(now_ms(), "x")]), -1);
    let frames: Vec<u8> = (0..10).flat_map(|_| wire.frame(9, &request)).collect();
    wire.send(&frames);
    for _ in 0..10 {
        wire.receive::<ProduceRequest>(9);
    }
    assert_eq!(node.metric(PRODUCED), 10);
}

#[test]
fn a_fetch_that_waits_is_not_counted_as_served_at_once() {
    let (node, mut wire) = start();
    wire.call(12, &patient(50));
    assert_eq!(node.metric(FETCHED), 0, "it waited in vain");

    // The one behind it had to wait, too.
    let frames = [patient(50), fetch_request("orders", 0, 0)].map(|fetch| wire.frame(12, &fetch));
    wire.send(&frames.concat());
    for _ in 0..2 {
        wire.receive::<FetchRequest>(12);
    }
    assert_eq!(node.metric(FETCHED), 0);

    wire.produce("orders", 0, batch(&[(now_ms(), "x")]));
    wire.call(12, &patient(600_000));
    assert_eq!(node.metric(FETCHED), 1, "there is something: it need not wait");
    wire.fetch("orders", 1, 0);
    assert_eq!(node.metric(FETCHED), 2, "there is nothing, and it does not wait");
}
