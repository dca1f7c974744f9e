//! Topics with `ropewalk.durability=memory`: answered before they are flushed, but not without bound.

use kafka_wire::ProduceRequest;
use platform::disk::SimulatedDisk;

use crate::support::{Flushes, TestNode, Wire, batch, eventually, now_ms, produce_request};

/// Twice what may be answered and not be flushed.
const BATCHES: u64 = 32;
const BATCH_BYTES: u64 = 1_000_000;
/// Of the answered ones, with their frames; the last one comes on top.
const UNFLUSHED_BYTES_MAX: u64 = (16 << 20) + BATCH_BYTES + (1 << 20);

/// Sends a batch on a connection of its own.
fn send(node: &TestNode, index: i32, value: &str) -> Wire {
    let mut wire = node.connect();
    let request = produce_request("clicks", index, batch(&[(now_ms(), value)]), -1);
    let frame = wire.frame(9, &request);
    wire.send(&frame);
    wire
}

fn answer(wire: &mut Wire) -> i16 {
    let (_, response) = wire.receive::<ProduceRequest>(9);
    response.responses[0].partition_responses[0].error_code
}

#[test]
fn what_is_answered_and_not_flushed_is_bounded_and_the_rest_waits_for_the_disk() {
    let disk = SimulatedDisk::new();
    let flushes = Flushes::of(&disk, "journals");
    // One journal file has room for all: none is prepared while flushes are held up.
    let roomy = [("journal.file_bytes", "64MiB"), ("journal.bytes_max", "192MiB")];
    let node = TestNode::start_on(&disk, &[("cores", "1"), roomy[0], roomy[1]]);
    let mut wire = node.connect();
    wire.create_topic("clicks", 2, &[("ropewalk.durability", "memory")]);
    let already = node.metric("ropewalk_appended_batches_total");
    let value = "x".repeat(BATCH_BYTES as usize);

    let held_up = flushes.hold_up();
    let mut wires: Vec<Wire> = (0..BATCHES)
        .map(|number| send(&node, (number % 2) as i32, &value))
        .collect();
    let appended = || node.metric("ropewalk_appended_batches_total") - already;
    let stalled = || node.metric("ropewalk_stalled_appends");
    eventually("every batch has arrived", || appended() + stalled() == BATCHES);
    assert!(appended() >= 16, "{} were answered", appended());
    assert!(stalled() > 0, "all were answered");
    let unflushed = node.metric("ropewalk_unflushed_bytes");
    assert!(unflushed <= UNFLUSHED_BYTES_MAX, "{unflushed} bytes");

    drop(held_up);
    assert!(wires.iter_mut().all(|wire| answer(wire) == 0));
    assert_eq!((appended(), stalled()), (BATCHES, 0));
    // Nothing waits for more to come.
    eventually("all is flushed", || node.metric("ropewalk_unflushed_bytes") == 0);
}
