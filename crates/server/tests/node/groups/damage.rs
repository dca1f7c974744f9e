//! A coordinator that cannot read its log: operators see it, and may give its groups up.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use kafka_wire::ErrorCode;
use platform::disk::SimulatedDisk;
use record::PartitionId;

use super::{GROUPS, ORDERS, code, commit, commit_noted, committed};
use crate::ask::{look, trim};
use crate::support::{TestNode, Wire, batch, eventually, now_ms};

const TIMEOUT_MS: i32 = 10_000;
const PARTITIONS: i32 = 20;
/// So that little data is laid out in segments.
const SMALL: [(&str, &str); 4] = [
    ("cores", "1"),
    ("journal.file_bytes", "1MiB"),
    ("journal.bytes_max", "16MiB"),
    ("journal.layout_trigger", "1MiB"),
];
/// A committer that is no member.
const READERS: (&str, &str, i32) = ("readers", "", -1);

/// The segments of the groups' one partition.
fn segments(disk: &SimulatedDisk, wire: &mut Wire) -> Vec<PathBuf> {
    let partition = PartitionId {
        topic: look(wire, GROUPS).topic_id,
        index: 0,
    };
    let directory = Path::new("partitions").join(partition.to_string());
    let paths = disk.paths().into_iter();
    paths.filter(|path| path.starts_with(&directory)).collect()
}

/// Commits until the beginning of the groups' log is in a segment and nowhere else, and gives that segment.
fn lay_out_commits(node: &TestNode, disk: &SimulatedDisk, wire: &mut Wire) -> PathBuf {
    // Others' batches between them, so that no journal file becomes a segment as it is.
    let others: Bytes = batch(&[(now_ms(), &"x".repeat(100_000))]);
    let mut offset = 0;
    eventually("commits are laid out", || {
        offset += 1;
        commit_noted(wire, READERS, PARTITIONS, offset, 4_000);
        assert_eq!(wire.produce("orders", 0, others.clone()).error_code, 0);
        node.metric("ropewalk_layout_rounds_total") >= 2
    });
    segments(disk, wire).remove(0)
}

fn trim_code(wire: &mut Wire, offset: i64) -> ErrorCode {
    let told = wire.call(2, &trim(GROUPS, &[(0, offset)], TIMEOUT_MS));
    code(told.topics[0].partitions[0].error_code)
}

#[test]
fn a_damaged_log_of_groups_is_told_of_and_may_be_given_up() {
    let disk = SimulatedDisk::new();
    let mut node = TestNode::start_on(&disk, &SMALL);
    let mut wire = node.connect();
    wire.create_topic("orders", PARTITIONS, &[]);
    let segment = lay_out_commits(&node, &disk, &mut wire);
    assert_eq!(node.metric("ropewalk_closed_coordinators"), 0);
    assert!(node.get("/ready").starts_with("HTTP/1.1 200 "));
    node.stop();

    disk.flip_bit(&segment, 8 * 1_000 + 3);
    let mut node = TestNode::start_on(&disk, &SMALL);
    let mut wire = node.connect();
    eventually("the coordinator has closed", || {
        node.metric("ropewalk_closed_coordinators") == 1
    });
    let ready = node.get("/ready");
    assert!(ready.starts_with("HTTP/1.1 503 "), "{ready}");
    assert!(
        ready.contains("the groups of __consumer_offsets-0 are not served: their log cannot be read: "),
        "{ready}"
    );
    assert!(node.get("/health").starts_with("HTTP/1.1 200 "));
    let told = commit(&mut wire, 8, READERS, ORDERS, &[(0, 1)]);
    assert_eq!(told, [ErrorCode::CoordinatorNotAvailable]);
    // Not in part: what is left would not fit together.
    assert_eq!(trim_code(&mut wire, 1), ErrorCode::InvalidTopicException);
    assert_eq!(trim_code(&mut wire, -1), ErrorCode::None);
    node.stop();

    let node = TestNode::start_on(&disk, &SMALL);
    let mut wire = node.connect();
    assert!(committed(&mut wire, "readers").is_empty());
    let told = commit(&mut wire, 8, READERS, ORDERS, &[(0, 7)]);
    assert_eq!(told, [ErrorCode::None]);
    assert_eq!(trim_code(&mut wire, -1), ErrorCode::InvalidTopicException);
    assert_eq!(committed(&mut wire, "readers"), [(0, 7)]);
    assert_eq!(node.metric("ropewalk_closed_coordinators"), 0);
    assert!(node.get("/ready").starts_with("HTTP/1.1 200 "));
}
