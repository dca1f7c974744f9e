//! The groups' own log is compacted, and offsets that nobody needs are taken out of it: a start finds the same all the same.

use kafka_wire::{DeleteGroupsRequest, ErrorCode, ListGroupsRequest, Text};
use platform::disk::SimulatedDisk;

use super::{AT_ONCE, GROUPS, ORDERS, beat, code, commit, commit_noted, committed, member, patiently};
use crate::ask::configs::{TOPIC, set};
use crate::support::{TestNode, Wire, eventually};

/// So that little data makes complete segments, and looks at what to compact are frequent.
const QUICK: [(&str, &str); 6] = [
    ("cores", "1"),
    ("journal.file_bytes", "1MiB"),
    ("journal.bytes_max", "16MiB"),
    ("journal.layout_trigger", "1MiB"),
    ("compaction.check_interval", "20ms"),
    AT_ONCE,
];
const PARTITIONS: i32 = 25;
const REMOVED: u64 = 500;

/// A group's name, its state, and what it has committed by partition.
type Group = (String, String, Vec<(i32, i64)>);

fn groups(wire: &mut Wire) -> Vec<Group> {
    let listed = patiently(
        || wire.call(4, &ListGroupsRequest::default()),
        |answer| answer.error_code,
    );
    let mut found: Vec<_> = listed
        .groups
        .iter()
        .map(|group| {
            let name = group.group_id.as_str();
            let mut offsets = committed(wire, name);
            offsets.sort_unstable();
            (name.to_owned(), group.group_state.as_str().to_owned(), offsets)
        })
        .collect();
    found.sort();
    found
}

#[test]
fn groups_are_the_same_after_their_log_was_compacted_and_the_node_killed() {
    let node = TestNode::start_with(&QUICK);
    let mut wire = node.connect();
    wire.create_topic("orders", PARTITIONS, &[]);
    let ann = member(&mut wire);
    set(&mut wire, TOPIC, GROUPS, "segment.bytes", "1048576");
    let told = commit(&mut wire, 8, ("gone", "", -1), ORDERS, &[(0, 1)]);
    assert_eq!(told, [ErrorCode::None]);
    let delete = DeleteGroupsRequest {
        groups_names: vec![Text::from("gone")],
    };
    assert_eq!(wire.call(2, &delete).results[0].error_code, 0);

    let mut last = 0;
    eventually("commits are compacted", || {
        last += 1;
        for committer in [("readers", &*ann, 1), ("audit", "", -1), ("billing", "", -1)] {
            commit_noted(&mut wire, committer, PARTITIONS, last, 1_000);
        }
        node.metric("ropewalk_compaction_removed_records_total") >= REMOVED
    });
    let before = groups(&mut wire);
    let offsets: Vec<(i32, i64)> = (0..PARTITIONS).map(|index| (index, last)).collect();
    let expected = [("audit", "Empty"), ("billing", "Empty"), ("readers", "Stable")];
    let expected = expected.map(|(name, state)| (name.to_owned(), state.to_owned(), offsets.clone()));
    assert_eq!(before, expected);

    let node = node.kill_and_restart();
    let mut wire = node.connect();
    assert_eq!(groups(&mut wire), expected);
    assert_eq!(code(wire.call(4, &beat(&ann, 1)).error_code), ErrorCode::None);
}

#[test]
fn offsets_expire_over_restarts_and_stay_away() {
    let disk = SimulatedDisk::new();
    let as_ever = [("cores", "1")];
    let node = TestNode::start_on(&disk, &as_ever);
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let told = commit(&mut wire, 8, ("readers", "", -1), ORDERS, &[(0, 7)]);
    assert_eq!(told, [ErrorCode::None]);
    drop(node);

    let node = TestNode::start_on(&disk, &as_ever);
    assert_eq!(committed(&mut node.connect(), "readers"), [(0, 7)]);
    drop(node);

    let impatient = [
        ("cores", "1"),
        ("groups.offsets_retention", "1s"),
        ("groups.offsets_check_interval", "10ms"),
    ];
    let node = TestNode::start_on(&disk, &impatient);
    let mut wire = node.connect();
    eventually("the group goes with its offset", || groups(&mut wire).is_empty());
    drop(node);

    let node = TestNode::start_on(&disk, &as_ever);
    assert!(groups(&mut node.connect()).is_empty());
}
