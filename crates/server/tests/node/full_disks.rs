//! Metadata while the disk has less than its reserve left: what frees room is done, all else is refused.

use kafka_wire::{CreateTopicsRequest, ErrorCode};
use platform::disk::SimulatedDisk;

use crate::ask::configs::{SET, TOPIC, change, edit};
use crate::ask::{code, deletion};
use crate::support::{TestNode, creatable, eventually};

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
    assert!(why.contains("the disk is full"), "{why}");
    let mut set = |config, value| change(&mut wire, TOPIC, "orders", edit(config, SET, Some(value)));
    assert_eq!(set("max.message.bytes", "5000"), ErrorCode::KafkaStorageError);
    assert_eq!(set("retention.ms", "5000"), ErrorCode::None);
    assert_eq!(set("retention.ms", "5000"), ErrorCode::None, "it is so already");
    let deleted = wire.call(5, &deletion("old", 5_000)).responses.remove(0);
    assert_eq!(code(deleted.error_code), ErrorCode::None);
}
