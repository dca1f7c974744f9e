//! Questions about groups wait for the disk in nobody's turn: others are answered meanwhile.

use kafka_wire::{ListGroupsRequest, OffsetFetchRequest, Text};
use platform::disk::SimulatedDisk;

use crate::support::{Flushes, TestNode, eventually};

#[test]
fn groups_are_listed_while_their_topic_is_being_made() {
    let disk = SimulatedDisk::new();
    let flushes = Flushes::of(&disk, "journals");
    let node = TestNode::start_on(&disk, &[("cores", "1")]);
    let (mut first, mut second) = (node.connect(), node.connect());
    first.create_topic("orders", 1, &[]);
    let appended = || node.metric("ropewalk_appended_batches_total");
    let before = appended();

    let held_up = flushes.hold_up();
    let fetch_all = OffsetFetchRequest {
        group_id: Text::from("readers"),
        topics: None,
        ..OffsetFetchRequest::default()
    };
    let frame = first.frame(5, &fetch_all);
    first.send(&frame);
    eventually("the topic is being made", || appended() > before);
    let listed = second.call(4, &ListGroupsRequest::default());
    assert_eq!((listed.error_code, listed.groups.len()), (0, 0));

    drop(held_up);
    let (_, told) = first.receive::<OffsetFetchRequest>(5);
    assert!(told.topics.is_empty(), "nothing was committed");
}
