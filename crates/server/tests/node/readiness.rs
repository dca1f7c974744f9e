//! A node's reports on itself while it drains.

use std::thread;

use kafka_wire::ProduceRequest;
use platform::disk::SimulatedDisk;

use crate::support::{Flushes, PATIENCE, TestNode, batch, eventually, http_get, now_ms, produce_request};

#[test]
fn a_draining_node_says_so_while_it_still_answers() {
    let disk = SimulatedDisk::new();
    let flushes = Flushes::of(&disk, "");
    let mut node = TestNode::start_on(&disk, &[("cores", "1")]);
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    assert!(node.get("/ready").starts_with("HTTP/1.1 200 "));
    let node = node.take();
    let http = node.http_address();

    let held_up = flushes.hold_up();
    let request = produce_request("orders", 0, batch(&[(now_ms(), "under way")]), -1);
    let frame = wire.frame(9, &request);
    wire.send(&frame);
    // A request that was not read before the drain begins is not answered.
    eventually("the request has been read", || {
        http_get(http, "/metrics").contains("\nropewalk_requests_total{core=\"0\"} 2\n")
    });
    let draining = thread::spawn(move || node.drain(PATIENCE));
    let mut answer = String::new();
    eventually("the node is not ready any more", || {
        answer = http_get(http, "/ready");
        !answer.starts_with("HTTP/1.1 200 ")
    });
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("[\"the node is draining\"]"), "{answer}");
    assert!(http_get(http, "/health").starts_with("HTTP/1.1 200 "));
    drop(held_up);
    let (_, told) = wire.receive::<ProduceRequest>(9);
    assert_eq!(told.responses[0].partition_responses[0].error_code, 0);
    assert!(draining.join().expect("no panic"), "everything was answered");
}
