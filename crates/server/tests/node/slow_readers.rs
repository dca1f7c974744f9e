//! Clients that do not take their answers, and clients that wait: what the node holds for them is bounded, and others
//! are served.

use kafka_wire::{FetchRequest, MetadataRequest};

use crate::ask::named;
use crate::support::{TestNode, Wire, batch, eventually, fetch_request, now_ms, records_of};

/// Bytes that answers may hold where that matters.
const LIMIT_BYTES: u64 = 2 << 20;
/// Little more than one batch takes, with everything around it.
const BATCH_BYTES: u64 = 260 << 10;
const BATCHES: i64 = 16;
/// Much more than the kernel keeps for a client that reads nothing.
const ANSWERS_PER_READER: usize = 48;
/// Each holds one answer of a batch at least, and a second one if the next request came before the first was written.
const READERS: usize = 12;
/// Never awaited here.
const LONG_MS: i32 = 600_000;
const HELD: &str = "ropewalk_answer_bytes";

/// A node of one core and with such a limit, and topic "orders" with 4 MiB of records.
fn start(answer_bytes: &str) -> (TestNode, Wire) {
    let node = TestNode::start_with(&[("cores", "1"), ("limits.answer_bytes_per_core", answer_bytes)]);
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let value = "x".repeat(256 << 10);
    for offset in 0..BATCHES {
        let told = wire.produce("orders", 0, batch(&[(now_ms(), &value)]));
        assert_eq!((told.error_code, told.base_offset), (0, offset));
    }
    (node, wire)
}

/// A Fetch from the beginning that waits for records.
fn patient(max_wait_ms: i32, min_bytes: i32) -> FetchRequest {
    FetchRequest {
        max_wait_ms,
        min_bytes,
        ..fetch_request("orders", 0, 0)
    }
}

/// Clients that ask for more than the node may hold, and take none of it.
fn greedy_readers(node: &TestNode) -> Vec<Wire> {
    node.greedy(READERS, ANSWERS_PER_READER, 12, &patient(LONG_MS, 1))
}

#[test]
fn readers_that_take_nothing_are_bounded_and_others_get_their_records() {
    let (node, mut good) = start("2MiB");
    let greedy = greedy_readers(&node);
    let check = || {
        let held = node.metric(HELD);
        assert!(held <= LIMIT_BYTES + BATCH_BYTES, "{held} bytes are held");
        held
    };
    eventually("all room is taken", || check() >= LIMIT_BYTES);
    // Some of them have to be cut off until everybody has got something.
    for round in 0..20 {
        eventually(&format!("round {round} has its records"), || {
            let response = good.call(12, &patient(25_000, 1));
            check();
            !records_of(&response.responses[0].partitions[0]).is_empty()
        });
    }
    // The room that they leave is scarce until the first of them is cut off.
    eventually("one of them is cut off", || {
        node.metric("ropewalk_connections_cut_off_total") > 0
    });
    drop(greedy);
    eventually("all room is given back", || node.metric(HELD) == 0);
}

#[test]
fn long_answers_to_short_requests_are_bounded_and_who_asks_for_little_is_answered() {
    // About 400 KB.
    const ALL_TOPICS_BYTES: u64 = 1 << 20;
    let node = TestNode::start_with(&[("cores", "1"), ("limits.answer_bytes_per_core", "2MiB")]);
    let mut good = node.connect();
    good.create_topic("wide", 10_000, &[]);
    good.create_topic("orders", 1, &[]);
    let all = MetadataRequest {
        topics: None,
        ..named(&[])
    };
    let _greedy = node.greedy(40, ANSWERS_PER_READER, 12, &all);
    let check = || {
        let held = node.metric(HELD);
        assert!(held <= LIMIT_BYTES + ALL_TOPICS_BYTES, "{held} bytes are held");
        held
    };
    // Half of it is left for answers whose length is not known beforehand.
    eventually("the room for long answers is taken", || {
        check() >= LIMIT_BYTES / 2
    });
    for _ in 0..20 {
        assert_eq!(good.call(12, &named(&["orders"])).topics.len(), 1);
        check();
    }
}

#[test]
fn who_waits_for_more_than_there_is_holds_nothing_and_gets_what_there_is() {
    let (node, mut wire) = start("16MiB");
    // More than one partition may answer, so time is up before it is found.
    let frame = wire.frame(12, &patient(300, 4 << 20));
    let requests = node.metric("ropewalk_requests_total");
    wire.send(&frame);
    eventually("the request has arrived", || {
        node.metric("ropewalk_requests_total") > requests
    });
    let (_, response) = wire.receive::<FetchRequest>(12);
    assert_eq!(records_of(&response.responses[0].partitions[0]).len(), 3);

    let frame = wire.frame(12, &patient(LONG_MS, 4 << 20));
    wire.send(&frame);
    eventually("the next one has arrived", || {
        node.metric("ropewalk_requests_total") > requests + 1
    });
    assert_eq!(node.metric(HELD), 0);
}

#[test]
fn where_the_log_stands_is_told_even_without_room() {
    let (node, mut wire) = start("2MiB");
    let _greedy = greedy_readers(&node);
    eventually("all room is taken", || node.metric(HELD) >= LIMIT_BYTES);
    for _ in 0..50 {
        let fetched = wire.fetch("orders", 0, 0);
        assert_eq!((fetched.error_code, fetched.high_watermark), (0, BATCHES));
        let fetched = wire.fetch("orders", 0, BATCHES + 1);
        assert_eq!(fetched.error_code, kafka_wire::ErrorCode::OffsetOutOfRange.code());
    }
}
