//! Changes that cannot be made durable, yet or ever: every client is answered within its timeout, and readers as before.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kafka_wire::create_topics::{CreatableTopic, CreatableTopicConfig};
use kafka_wire::{
    CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest, ErrorCode, ProduceRequest,
    ProduceResponse,
};
use platform::disk::{Applied, Call, FaultKind, OperationKind, SimulatedDisk};

use crate::ask::{deletion, look_at_all, trim, widening};
use crate::support::{Flushes, TestNode, Wire, batch, creatable, eventually, now_ms, produce_request};

/// EIO, as errno(3) numbers it.
const INPUT_OUTPUT_ERROR: i32 = 5;
/// Long enough for nothing here: what waits for a flush that is held up waits for ever.
const SHORT_MS: i32 = 50;
/// Never awaited: an answer comes before, or the client's own patience is over.
const LONG_MS: i32 = 600_000;

fn creation(name: &str, timeout_ms: i32) -> CreateTopicsRequest {
    CreateTopicsRequest {
        topics: vec![creatable(name, 1)],
        timeout_ms,
        ..CreateTopicsRequest::default()
    }
}

fn trim_code(wire: &mut Wire, index: i32, offset: i64, timeout_ms: i32) -> i16 {
    let response = wire.call(2, &trim("orders", &[(index, offset)], timeout_ms));
    response.topics[0].partitions[0].error_code
}

/// The answers to every sort of change of topic "orders": creation of another, widening, deletion, trim.
fn changes(wire: &mut Wire, timeout_ms: i32) -> [i16; 4] {
    [
        wire.call(7, &creation("more", timeout_ms)).topics[0].error_code,
        wire.call(3, &widening("orders", 16, timeout_ms)).results[0].error_code,
        wire.call(5, &deletion("orders", timeout_ms)).responses[0].error_code,
        trim_code(wire, 0, 1, timeout_ms),
    ]
}

/// The names of all topics.
fn topics(wire: &mut Wire) -> Vec<String> {
    let topics = look_at_all(wire).into_iter();
    topics
        .filter_map(|topic| topic.name.as_deref().map(str::to_owned))
        .collect()
}

fn sorted_topics(wire: &mut Wire) -> Vec<String> {
    let mut names = topics(wire);
    names.sort();
    names
}

/// A topic whose creation takes more than 500 bytes of the metadata: the longest values that configs may have and keep.
fn wordy(name: &str) -> CreatableTopic {
    let configs = [
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
    ];
    let replicas = vec!["1:1"; 63].join(",");
    let config = |name: &str| CreatableTopicConfig {
        name: name.into(),
        value: Some(replicas.as_str().into()),
    };
    CreatableTopic {
        configs: configs.map(config).to_vec(),
        ..creatable(name, 1)
    }
}

/// Topic "orders" with two records in each partition.
fn prepare(wire: &mut Wire, partitions: i32) {
    wire.create_topic("orders", partitions, &[]);
    for index in 0..partitions {
        for value in ["a", "b"] {
            assert_eq!(
                wire.produce("orders", index, batch(&[(now_ms(), value)]))
                    .error_code,
                0
            );
        }
    }
}

#[test]
fn changes_that_take_too_long_are_answered_in_time_and_may_still_be_made() {
    let disk = SimulatedDisk::new();
    let flushes = Flushes::of(&disk, "");
    let node = TestNode::start_on(&disk, &[("cores", "1")]);
    let mut wire = node.connect();
    prepare(&mut wire, 1);
    let held_up = flushes.hold_up();
    let timed_out = ErrorCode::RequestTimedOut.code();
    assert_eq!(changes(&mut wire, SHORT_MS), [timed_out; 4]);
    assert_eq!(changes(&mut wire, 0), [timed_out; 4]);
    // No change of a topic is committed, so nobody sees one. A trim shows at once.
    assert_eq!(topics(&mut wire), ["orders"]);
    assert_eq!(wire.read_all("orders", 0, 1).len(), 1);
    drop(held_up);
    // A client that does not know the outcome of a change looks. Each was under way, in order: the deletion was the last.
    eventually("all changes are made", || topics(&mut wire) == ["more"]);
    wire.create_topic("orders", 1, &[]);
    assert!(wire.read_all("orders", 0, 0).is_empty());
}

#[test]
fn appends_of_one_connection_time_out_together() {
    let disk = SimulatedDisk::new();
    let flushes = Flushes::of(&disk, "");
    let node = TestNode::start_on(&disk, &[("cores", "1")]);
    let mut wire = node.connect();
    let count = 200;
    prepare(&mut wire, 1);
    let held_up = flushes.hold_up();
    let append = ProduceRequest {
        timeout_ms: 500,
        ..produce_request("orders", 0, batch(&[(now_ms(), "late")]), -1)
    };
    let frames: Vec<u8> = (0..count).flat_map(|_| wire.frame(9, &append)).collect();
    let began = Instant::now();
    wire.send(&frames);
    for _ in 0..count {
        let (_, response) = wire.receive::<ProduceRequest>(9);
        let answered = &response.responses[0].partition_responses[0];
        assert_eq!(answered.error_code, ErrorCode::RequestTimedOut.code());
    }
    // One after the other they take 100 seconds.
    assert!(began.elapsed() < Duration::from_secs(50));
    drop(held_up);
}

#[test]
fn who_gives_no_time_waits_for_a_flush_all_the_same() {
    let disk = SimulatedDisk::new();
    let flushes = Flushes::of(&disk, "");
    let node = TestNode::start_on(&disk, &[("cores", "1")]);
    let mut wires = [node.connect(), node.connect()];
    prepare(&mut wires[0], 1);
    let append = |acks| ProduceRequest {
        timeout_ms: 0,
        ..produce_request("orders", 0, batch(&[(now_ms(), "x")]), acks)
    };
    let code = |told: ProduceResponse| told.responses[0].partition_responses[0].error_code;
    for acks in [-1, 1] {
        assert_eq!(code(wires[0].call(9, &append(acks))), 0, "acks={acks}");
    }
    assert_eq!(trim_code(&mut wires[0], 0, 1, 0), 0);

    // No client's time is about the leader's own disk.
    let held_up = flushes.hold_up();
    for (wire, acks) in wires.iter_mut().zip([1, -1]) {
        let frame = wire.frame(9, &append(acks));
        wire.send(&frame);
    }
    let (_, of_quorum) = wires[1].receive::<ProduceRequest>(9);
    assert_eq!(code(of_quorum), ErrorCode::RequestTimedOut.code());
    drop(held_up);
    let (_, of_leader) = wires[0].receive::<ProduceRequest>(9);
    assert_eq!(code(of_leader), 0);
}

#[test]
fn a_journal_that_dies_in_the_middle_of_changes_refuses_them_and_serves_readers() {
    let disk = SimulatedDisk::new();
    let flushes = Flushes::of(&disk, "");
    let node = TestNode::start_on(&disk, &[("cores", "1")]);
    let mut wires = [node.connect(), node.connect(), node.connect()];
    prepare(&mut wires[0], 1);
    let held_up = flushes.hold_up();
    let frames = [
        wires[0].frame(7, &creation("more", LONG_MS)),
        wires[1].frame(2, &trim("orders", &[(0, 1)], LONG_MS)),
        wires[2].frame(5, &deletion("orders", LONG_MS)),
    ];
    for (wire, frame) in wires.iter_mut().zip(&frames) {
        wire.send(frame);
    }
    flushes.fail();
    let dead = ErrorCode::KafkaStorageError.code();
    let (_, created) = wires[0].receive::<CreateTopicsRequest>(7);
    let (_, trimmed) = wires[1].receive::<DeleteRecordsRequest>(2);
    let (_, deleted) = wires[2].receive::<DeleteTopicsRequest>(5);
    let told = [
        created.topics[0].error_code,
        trimmed.topics[0].partitions[0].error_code,
        deleted.responses[0].error_code,
    ];
    assert_eq!(told, [dead; 3]);
    drop(held_up);

    // From now on at once, and the disk getting well again does not matter: that flush is never retried.
    disk.clear_faults();
    let wire = &mut wires[0];
    assert_eq!(changes(wire, LONG_MS), [dead; 4]);
    assert_eq!(
        wire.produce("orders", 0, batch(&[(now_ms(), "c")])).error_code,
        dead
    );
    assert_eq!(topics(wire), ["orders"]);
    assert_eq!(wire.read_all("orders", 0, 1).len(), 1);
    assert!(node.get("/health").starts_with("HTTP/1.1 200 "));
    assert!(node.get("/ready").starts_with("HTTP/1.1 503 "));
    assert!(
        node.get("/metrics")
            .contains("\nropewalk_journal_dead{core=\"0\",journal=\"0\"} 1\n")
    );
    let mut node = node;
    node.stop();

    let node = TestNode::start_on(&disk, &[("cores", "1")]);
    let mut wire = node.connect();
    assert_eq!(topics(&mut wire), ["orders"]);
    assert_eq!(wire.read_all("orders", 0, 0).len(), 2);
    assert_eq!(
        changes(&mut wire, LONG_MS),
        [0, 0, 0, ErrorCode::UnknownTopicOrPartition.code()]
    );
}

#[test]
fn one_dead_journal_of_two_leaves_the_other_and_the_metadata_alone() {
    let disk = SimulatedDisk::new();
    let flushes = Flushes::of(&disk, "journals/001");
    let node = TestNode::start_on(&disk, &[("cores", "2")]);
    let mut wire = node.connect();
    // Partitions take turns with the journals.
    prepare(&mut wire, 2);
    flushes.fail();
    let dead = ErrorCode::KafkaStorageError.code();
    let mut told = [0, 1].map(|index| trim_code(&mut wire, index, 1, LONG_MS));
    told.sort_unstable();
    assert_eq!(told, [0, dead]);
    assert_eq!(wire.call(7, &creation("more", LONG_MS)).topics[0].error_code, 0);
    assert_eq!(
        wire.call(3, &widening("more", 16, LONG_MS)).results[0].error_code,
        0
    );
    for index in 0..2 {
        assert_eq!(wire.read_all("orders", index, 1).len(), 1);
    }
    // Its files go with the next start: the dead journal cannot take note of the deletion.
    assert_eq!(
        wire.call(5, &deletion("orders", LONG_MS)).responses[0].error_code,
        0
    );
    assert_eq!(topics(&mut wire), ["more"]);
    let mut node = node;
    node.stop();

    disk.clear_faults();
    let node = TestNode::start_on(&disk, &[("cores", "2")]);
    let mut wire = node.connect();
    assert_eq!(topics(&mut wire), ["more"]);
    for index in 0..16 {
        assert_eq!(
            wire.produce("more", index, batch(&[(now_ms(), "x")])).error_code,
            0
        );
    }
}

#[test]
fn of_a_change_that_is_journaled_in_part_that_part_is_made() {
    let disk = SimulatedDisk::new();
    // So many topics are made in parts, which are written one after the other.
    let sets = [
        ("cores", "1"),
        ("journal.file_bytes", "1MiB"),
        ("journal.bytes_max", "8MiB"),
        ("journal.layout_trigger", "4MiB"),
    ];
    let node = TestNode::start_on(&disk, &sets);
    let mut wire = node.connect();
    let parts = AtomicU32::new(0);
    disk.fail_when(move |call: &Call| {
        let is_part = call.kind == OperationKind::WriteDurable && call.length > 20_000;
        (is_part && parts.fetch_add(1, Ordering::Relaxed) > 0).then_some(FaultKind::Error {
            errno: INPUT_OUTPUT_ERROR,
            applied: Applied::Nothing,
        })
    });
    let request = CreateTopicsRequest {
        topics: (0..2_500).map(|index| wordy(&format!("t{index:04}"))).collect(),
        timeout_ms: LONG_MS,
        ..CreateTopicsRequest::default()
    };
    let told = wire.call(7, &request).topics;
    let made = told.iter().take_while(|topic| topic.error_code == 0).count();
    assert!((1..told.len()).contains(&made), "{made} are made");
    let dead = ErrorCode::KafkaStorageError.code();
    assert!(told[made..].iter().all(|topic| topic.error_code == dead));
    let names: Vec<&str> = told[..made].iter().map(|topic| topic.name.as_str()).collect();
    assert_eq!(sorted_topics(&mut wire), names);
    assert!(wire.read_all("t0000", 0, 0).is_empty());
    let mut node = node;
    node.stop();

    disk.clear_faults();
    let node = TestNode::start_on(&disk, &sets);
    let mut wire = node.connect();
    assert_eq!(
        sorted_topics(&mut wire),
        names,
        "the next start finds what was there"
    );
    assert_eq!(wire.produce("t0000", 0, batch(&[(now_ms(), "x")])).error_code, 0);
}
