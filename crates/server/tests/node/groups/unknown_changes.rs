//! A change whose flush failed: the log may have it or not, so its coordinator answers nothing until the log is read anew.

use kafka_wire::{ErrorCode, OffsetFetchRequest, Text};
use platform::disk::SimulatedDisk;

use super::{ORDERS, code, commit, committed};
use crate::support::{Flushes, TestNode, eventually};

const SETTINGS: [(&str, &str); 1] = [("cores", "1")];
/// A committer that is no member.
const READERS: (&str, &str, i32) = ("readers", "", -1);

#[test]
fn a_change_that_may_be_in_the_log_or_not_closes_its_coordinator_until_the_next_start() {
    let disk = SimulatedDisk::new();
    let flushes = Flushes::of(&disk, "");
    let mut node = TestNode::start_on(&disk, &SETTINGS);
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let told = commit(&mut wire, 8, READERS, ORDERS, &[(0, 1)]);
    assert_eq!(told, [ErrorCode::None]);

    flushes.fail();
    let told = commit(&mut wire, 8, READERS, ORDERS, &[(0, 2)]);
    assert_eq!(told, [ErrorCode::CoordinatorNotAvailable]);
    eventually("the coordinator has closed", || {
        node.metric("ropewalk_closed_coordinators") == 1
    });
    let ready = node.get("/ready");
    assert!(ready.starts_with("HTTP/1.1 503 "), "{ready}");
    assert!(
        ready.contains("are not served: it is not known whether a change is in their log: "),
        "{ready}"
    );
    // Neither offset is told, for the log may have either one; and a disk that is well again does not matter.
    disk.clear_faults();
    let request = OffsetFetchRequest {
        group_id: Text::from("readers"),
        topics: None,
        ..OffsetFetchRequest::default()
    };
    let fetched = wire.call(5, &request);
    assert_eq!(code(fetched.error_code), ErrorCode::CoordinatorNotAvailable);
    node.stop();

    let node = TestNode::start_on(&disk, &SETTINGS);
    let mut wire = node.connect();
    assert_eq!(
        committed(&mut wire, "readers"),
        [(0, 1)],
        "the flush wrote nothing"
    );
    let told = commit(&mut wire, 8, READERS, ORDERS, &[(0, 3)]);
    assert_eq!(told, [ErrorCode::None]);
    assert_eq!(committed(&mut wire, "readers"), [(0, 3)]);
    assert_eq!(node.metric("ropewalk_closed_coordinators"), 0);
    assert!(node.get("/ready").starts_with("HTTP/1.1 200 "));
}
