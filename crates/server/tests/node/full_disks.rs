//! Metadata while the disk has less than its reserve left: what frees room is done, all else is refused.

use kafka_wire::{CreateTopicsRequest, ErrorCode};
use platform::disk::{Disk, SimulatedDisk};

use crate::ask::configs::{SET, TOPIC, change, edit};
use crate::ask::{code, deletion};
use crate::support::{TestNode, Wire, batch, creatable, eventually, now_ms, produce_request};

#[test]
fn only_what_frees_room_may_use_the_reserve() {
    let disk = SimulatedDisk::new();
    disk.set_capacity(Some(1 << 30));
    let mut node = TestNode::start_on(&disk, &[]);
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    wire.create_topic("old", 1, &[]);
    drop(wire);
    node.stop();
    let node = TestNode::start_on(&disk, &[("disk.reserve_bytes", "1TiB")]);
    eventually("the disk is seen to be full", || {
        node.get("/ready").contains("the disk is full")
    });
    let mut wire = node.connect();
    let create = CreateTopicsRequest {
        topics: vec![creatable("new", 1)],
        ..CreateTopicsRequest::default()
    };
    let told = wire.call(7, &create).topics.remove(0);
    assert_eq!(code(told.error_code), ErrorCode::KafkaStorageError);
    let why = told.error_message.expect("a sentence");
    let ready = node.get("/ready");
    for text in [&why.to_string(), &ready] {
        let reserve = "MiB free, disk.reserve_bytes is 1048576 MiB; free some space, add retention, or lower disk.reserve_bytes";
        assert!(
            text.contains("the disk is full: ") && text.contains(reserve),
            "{text}"
        );
    }
    let mut set = |config, value| change(&mut wire, TOPIC, "orders", edit(config, SET, Some(value)));
    assert_eq!(set("max.message.bytes", "5000"), ErrorCode::KafkaStorageError);
    assert_eq!(set("retention.ms", "5000"), ErrorCode::None);
    assert_eq!(set("retention.ms", "5000"), ErrorCode::None, "it is so already");
    let deleted = wire.call(5, &deletion("old", 5_000)).responses.remove(0);
    assert_eq!(code(deleted.error_code), ErrorCode::None);
}

/// Appends so much to a topic; the error code.
fn append(wire: &mut Wire, topic: &str, bytes: usize, timeout_ms: i32) -> ErrorCode {
    let batch = batch(&[(now_ms(), &"x".repeat(bytes))]);
    let mut request = produce_request(topic, 0, batch, -1);
    request.timeout_ms = timeout_ms;
    let mut told = wire.call(9, &request);
    code(told.responses.remove(0).partition_responses.remove(0).error_code)
}

#[test]
fn a_topic_is_deleted_at_once_when_the_metadatas_journal_is_full_and_records_have_room_again() {
    const CAPACITY: u64 = 1 << 30;
    let disk = SimulatedDisk::new();
    disk.set_capacity(Some(CAPACITY));
    // With one core the metadata and the topics have one journal.
    let node = TestNode::start_on(&disk, &[("cores", "1")]);
    let mut wire = node.connect();
    wire.create_topic("large", 1, &[]);
    wire.create_topic("small", 1, &[]);
    let used = CAPACITY - disk.free_bytes().expect("it tells");
    // Neither another journal file nor a segment of the large topic fits.
    disk.set_capacity(Some(used + (256 << 10)));
    // Ever smaller records fill the journal to its reserve.
    for bytes in [900 << 10, 64 << 10, 1] {
        while append(&mut wire, "large", bytes, 300) == ErrorCode::None {}
    }
    assert_ne!(append(&mut wire, "small", 1, 100), ErrorCode::None);
    // Nothing has made room meanwhile: the answer does not wait for it.
    let deleted = wire.call(5, &deletion("large", 2_000)).responses.remove(0);
    assert_eq!(code(deleted.error_code), ErrorCode::None);
    eventually("records have room again", || {
        append(&mut wire, "small", 1, 100) == ErrorCode::None
    });
}
