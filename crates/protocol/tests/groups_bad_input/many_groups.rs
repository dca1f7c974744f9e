//! More groups than are looked at in one call: a call ends soon, and none is forgotten.

use std::time::Duration;

use protocol::groups::{
    Action, Answer, DeleteGroup, DescribeConsumer, GroupOffset, MemberPresence, Name, OffsetsPlace, Request,
    TopicChange,
};
use record::TopicId;

use crate::{Stand, at_once, commit, heartbeat_of};

const GROUPS: usize = 2_000;

fn name_of(number: usize) -> String {
    format!("g{number}")
}

/// What one call of `handle_time` has stored.
fn changes_at_once(stand: &mut Stand) -> usize {
    stand.coordinator.handle_time(stand.now);
    let mut changes = 0;
    while let Some(action) = stand.coordinator.next_action() {
        if let Action::Persist { id, records } = action {
            changes += 1;
            stand.log.extend(records);
            stand.coordinator.handle_persisted(stand.now, id, Ok(()));
        }
    }
    changes
}

fn subscribe(stand: &mut Stand, groups: usize) {
    for number in 0..groups {
        let mut joining = heartbeat_of(&name_of(number), "ann", MemberPresence::Joining);
        joining.topics = None;
        joining.regex = Some(Name::from("orders.*"));
        let heard = stand.ask(Request::ConsumerHeartbeat(joining));
        assert!(matches!(heard, Answer::ConsumerHeartbeat(Ok(_))), "{heard:?}");
    }
}

/// The second one comes when some groups have seen the first.
#[test]
fn all_groups_see_new_topics_but_not_at_once() {
    let mut stand = Stand::empty(at_once());
    subscribe(&mut stand, GROUPS);
    for (id, name) in [(2, "orders-eu"), (3, "orders-us")] {
        let new = TopicChange::There {
            topic: Name::from(name),
            id: TopicId([id; 16]),
            partition_count: 1,
        };
        stand.coordinator.handle_topics(stand.now, [new]);
        let changes = changes_at_once(&mut stand);
        assert!((1..GROUPS).contains(&changes), "{changes}");
        assert_eq!(
            stand.coordinator.deadline(),
            Some(stand.now),
            "there is more to do"
        );
    }
    stand.settle();
    for number in 0..GROUPS {
        let describe = DescribeConsumer {
            group: Name::from(name_of(number)),
        };
        let Answer::DescribeConsumer(Ok(group)) = stand.ask(Request::DescribeConsumer(describe)) else {
            panic!("it is there");
        };
        assert_eq!(group.members[0].target.len(), 3);
    }
}

/// Whoever goes through them gets each offset once, and goes on where groups are that were made and deleted meanwhile.
#[test]
fn offsets_are_gone_through_some_at_a_time() {
    let mut stand = Stand::empty(at_once());
    for group in ["a", "b", "c"] {
        for (topic, id) in [("orders", 1), ("refunds", 2)] {
            let mut offsets = commit(group, "", -1, &[(0, 5, 0), (1, 7, 0)]);
            for committed in &mut offsets.partitions {
                committed.partition.topic = Name::from(topic);
                committed.topic_id = TopicId([id; 16]);
            }
            let told = stand.ask(Request::CommitOffsets(offsets));
            assert!(matches!(told, Answer::CommitOffsets(Ok(_))), "{told:?}");
        }
    }
    // Looked at as well: groups that have committed nothing.
    subscribe(&mut stand, 2);
    let (all, rest) = stand
        .coordinator
        .offsets_from(OffsetsPlace::default(), usize::MAX);
    assert_eq!((all.len(), rest), (12, None));
    let place = |found: &GroupOffset| (found.group.to_string(), found.partition.clone(), found.offset.0);
    assert!(all.iter().map(place).is_sorted(), "{all:?}");
    let refund = &all[3];
    assert_eq!(
        (&*refund.group, refund.topic_id, refund.offset.0),
        ("a", TopicId([2; 16]), 7)
    );
    for work_max in 1..=18 {
        let mut found = Vec::new();
        let mut place = Some(OffsetsPlace::default());
        while let Some(from) = place {
            let (some, next) = stand.coordinator.offsets_from(from, work_max);
            assert!(some.len() <= work_max, "{work_max} at a time: {some:?}");
            found.extend(some);
            assert!(found.len() <= all.len(), "{work_max} at a time: {found:?}");
            place = next;
        }
        assert_eq!(found, all, "{work_max} at a time");
    }

    let (some, next) = stand.coordinator.offsets_from(OffsetsPlace::default(), 7);
    assert_eq!(some, all[..6], "the first group is one to look at, too");
    let delete = DeleteGroup {
        group: Name::from("b"),
    };
    let gone = stand.ask(Request::DeleteGroup(delete));
    assert!(matches!(gone, Answer::DeleteGroup(Ok(()))), "{gone:?}");
    let (rest, _) = stand
        .coordinator
        .offsets_from(next.expect("there is more"), usize::MAX);
    assert_eq!(rest, all[8..]);
}

/// Groups whose members want many topics are more to look at: there are fewer of them in a call.
#[test]
fn what_groups_match_is_work() {
    let mut stand = Stand::empty(at_once());
    subscribe(&mut stand, 40);
    let topics = (0..1_000u16).map(|number| {
        let mut id = [3; 16];
        id[..2].copy_from_slice(&number.to_be_bytes());
        TopicChange::There {
            topic: Name::from(format!("orders-{number}")),
            id: TopicId(id),
            partition_count: 1,
        }
    });
    stand.coordinator.handle_topics(stand.now, topics);
    let changes = changes_at_once(&mut stand);
    assert!((1..40).contains(&changes), "{changes}");
    assert_eq!(
        stand.coordinator.deadline(),
        Some(stand.now),
        "there is more to do"
    );
    stand.settle();
    // A member, what it is to have, and what it has, of each; and two epochs.
    assert_eq!(stand.coordinator.image().count(), 40 * 5);
}

#[test]
fn the_silent_are_put_out_but_not_at_once() {
    let mut stand = Stand::empty(at_once());
    subscribe(&mut stand, GROUPS);
    stand.now += Duration::from_secs(50);
    let changes = changes_at_once(&mut stand);
    assert!((1..GROUPS).contains(&changes), "{changes}");
    stand.settle();
    let members = stand.coordinator.image().filter(|record| record.key[1] == 5);
    assert_eq!(members.count(), 0);
}

#[test]
fn old_offsets_go_but_not_at_once() {
    let mut stand = Stand::empty(at_once());
    for number in 0..GROUPS {
        let committed = commit(&name_of(number), "", -1, &[(0, 5, 0)]);
        stand.ask(Request::CommitOffsets(committed));
    }
    stand.now += Duration::from_secs(8 * 24 * 3600);
    let changes = changes_at_once(&mut stand);
    assert!((1..GROUPS).contains(&changes), "{changes}");
    stand.settle();
    assert_eq!(stand.coordinator.group_count(), 0);
}
