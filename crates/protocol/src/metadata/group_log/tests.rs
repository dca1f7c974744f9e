//! Proposals that come twice, late and from copies; images in parts; snapshots at any place.

use proptest::prelude::*;
use record::ClusterId;

use super::*;
use crate::metadata::tests::{any_command, cluster_of, new_topic, planned, topic_id};
use crate::metadata::{ConfigChange, PlanLimits, Plans, TopicConfig};

const ONE: Process = Process {
    node: NodeId(0),
    start: 4,
    nonce: 77,
};

fn empty() -> GroupImage {
    GroupImage::new(Metadata::new(TopicConfig::new()))
}

fn proposal(by: Process, number: u64, commands: &[Command]) -> Bytes {
    let commands = commands.to_vec();
    Proposal { by, number, commands }.encode()
}

/// A cluster of two nodes with a topic.
fn begun() -> GroupImage {
    let mut image = cluster_of(2);
    let plan = planned(
        &image,
        &new_topic(1, "orders", 3, 2),
        &mut Plans::of(PlanLimits::default(), None),
    );
    image.apply(&plan).expect("it fits");
    let mut group = empty();
    for entry in image_entries(&image) {
        group.take(&entry).expect("it is sound");
    }
    assert_eq!(*group.metadata(), image);
    group
}

fn set(value: &str) -> Command {
    Command::SetTopicConfig {
        id: topic_id(1),
        changes: vec![ConfigChange::set("retention.ms", value)],
        client: None,
    }
}

fn retention(group: &GroupImage) -> Option<String> {
    let topic = group.metadata().topic(topic_id(1)).expect("it was made");
    let set = topic.config.get("retention.ms");
    set.map(|value| value.to_string())
}

fn is_nothing(effect: &Effect) -> bool {
    matches!(effect, Effect::Nothing)
}

#[test]
fn a_proposal_that_comes_again_changes_nothing_whatever_came_in_between() {
    let mut group = begun();
    let other = Process {
        node: NodeId(1),
        ..ONE
    };
    let first = proposal(ONE, 8, &[set("1000")]);
    assert!(matches!(group.take(&first), Ok(Effect::Commands(..))));
    group
        .take(&proposal(other, 1, &[set("2000")]))
        .expect("it is sound");
    let before = group.snapshot();
    assert!(is_nothing(&group.take(&first).expect("it is sound")));
    assert!(is_nothing(
        &group
            .take(&proposal(ONE, 7, &[set("3000")]))
            .expect("it is sound")
    ));
    assert_eq!(group.snapshot(), before);
    assert_eq!(retention(&group).as_deref(), Some("2000"));
}

#[test]
fn a_process_is_not_heard_once_a_later_one_was_but_a_copy_is_told_that_it_is_one() {
    let mut group = begun();
    let later = Process { start: 5, ..ONE };
    let copy = Process { nonce: 78, ..later };
    for (by, number, counts) in [
        (later, 3, true),
        (ONE, 9, false),
        (copy, 1, true),
        (later, 3, false),
        (later, 4, true),
    ] {
        let taken = group.take(&proposal(by, number, &[set("1000")]));
        assert_eq!(is_nothing(&taken.expect("it is sound")), !counts, "{by:?}");
    }
}

#[test]
fn a_refused_command_is_told_and_leaves_the_others() {
    let mut group = begun();
    let gone = Command::DeleteTopic { id: topic_id(9) };
    let taken = group.take(&proposal(ONE, 1, &[gone, set("1000")]));
    let Ok(Effect::Commands(_, outcomes)) = taken else {
        panic!("{taken:?}");
    };
    assert!(matches!(
        outcomes[..],
        [Err(ApplyError::UnknownTopic { .. }), Ok(())]
    ));
    assert_eq!(retention(&group).as_deref(), Some("1000"));
}

#[test]
fn a_founder_that_was_interrupted_begins_anew_and_does_so_once() {
    let image = begun().metadata().clone();
    let entries = image_entries(&image);
    assert!(entries.len() > 2, "it takes several parts");
    let mut group = empty();
    for entry in entries[..2].iter().chain(&entries).chain(&entries[1..]) {
        group.take(entry).expect("it is sound");
    }
    assert_eq!(*group.metadata(), image);
    // The founder had not heard that it was done.
    group
        .take(&proposal(ONE, 1, &[set("1000")]))
        .expect("it is sound");
    for entry in &entries {
        assert!(is_nothing(&group.take(entry).expect("it is sound")));
    }
    assert_eq!(retention(&group).as_deref(), Some("1000"));
}

#[test]
fn a_snapshot_stands_for_all_entries_before_it_wherever_it_is_taken() {
    let image = begun().metadata().clone();
    let mut entries = image_entries(&image);
    entries.push(proposal(ONE, 1, &[set("1000")]));
    entries.push(proposal(ONE, 2, &[set("2000")]));
    // Again.
    entries.push(proposal(ONE, 1, &[set("1000")]));
    for place in 0..entries.len() {
        let (mut straight, mut resumed) = (empty(), empty());
        for entry in &entries[..place] {
            straight.take(entry).expect("it is sound");
        }
        resumed.install(&straight.snapshot()).expect("it is sound");
        for entry in &entries[place..] {
            straight.take(entry).expect("it is sound");
            resumed.take(entry).expect("it is sound");
        }
        assert_eq!(resumed.snapshot(), straight.snapshot(), "at {place}");
        assert_eq!(retention(&resumed).as_deref(), Some("2000"), "at {place}");
    }
}

#[test]
fn what_cannot_be_read_changes_nothing() {
    let mut group = begun();
    let before = group.snapshot();
    let whole = proposal(ONE, 1, &[set("1000")]);
    let mut later = whole.to_vec();
    later[0] = VERSION + 1;
    for entry in [&later[..], &whole[..whole.len() - 1], &[VERSION, 9], &[]] {
        assert!(group.take(entry).is_err());
        assert!(group.install(entry).is_err());
    }
    assert_eq!(group.snapshot(), before);
    assert!(Proposal::decode(&image_entries(group.metadata())[0]).is_err());
}

proptest! {
    #[test]
    fn proposals_are_read_back(
        commands in prop::collection::vec(any_command(), 0..5),
        node in 0..i32::MAX,
        (start, nonce, number) in any::<(u64, u64, u64)>(),
    ) {
        let by = Process { node: NodeId(node), start, nonce };
        let proposal = Proposal { by, number, commands };
        prop_assert_eq!(Proposal::decode(&proposal.encode()), Ok(proposal));
    }

    #[test]
    fn whatever_comes_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..4_u8) {
        let mut group = empty();
        let entry: Vec<u8> = [VERSION, kind].into_iter().chain(bytes).collect();
        let _ = group.take(&entry);
        let _ = group.install(&entry);
    }
}

#[test]
fn an_image_of_another_cluster_stays_that() {
    let mut image = Metadata::new(TopicConfig::new());
    let cluster = ClusterId([9; 16]);
    image
        .apply(&Command::FormatCluster { cluster })
        .expect("it is the first");
    let mut group = empty();
    for entry in image_entries(&image) {
        group.take(&entry).expect("it is sound");
    }
    assert_eq!(group.metadata().cluster(), Some(cluster));
}
