//! Changes that take longer to plan than a call may: they are planned beside the coordinator, and nothing of the group changes until
//! they are durable.

use protocol::groups::{
    Action, Answer, DescribeConsumer, MemberPresence, Name, NotPersisted, Planned, Planning, Request,
    Settings, Ticket, TopicChange,
};

use crate::{ORDERS, Stand, at_once, commit, error_in, heartbeat};

fn beside() -> Stand {
    Stand::empty(Settings {
        planned_at_once_max: 0,
        ..at_once()
    })
}

fn orders(partition_count: i32) -> TopicChange {
    TopicChange::There {
        topic: Name::from("orders"),
        id: ORDERS,
        partition_count,
    }
}

fn send(stand: &mut Stand, request: Request) -> Ticket {
    let ticket = Ticket(stand.next_ticket);
    stand.next_ticket += 1;
    stand.coordinator.handle_request(stand.now, ticket, request);
    ticket
}

/// What is to be planned now; nothing else is to be done.
fn to_plan(stand: &mut Stand) -> Vec<Planning> {
    let mut plannings = Vec::new();
    while let Some(action) = stand.coordinator.next_action() {
        match action {
            Action::Plan(planning) => plannings.push(*planning),
            other => panic!("{other:?}"),
        }
    }
    plannings
}

fn plan_of(stand: &mut Stand) -> Planned {
    let [planning] = <[Planning; 1]>::try_from(to_plan(stand)).expect("one change is to be planned");
    planning.run()
}

fn member_target(stand: &mut Stand, member: &str) -> usize {
    let describe = DescribeConsumer {
        group: Name::from("g"),
    };
    let Answer::DescribeConsumer(Ok(group)) = stand.ask(Request::DescribeConsumer(describe)) else {
        panic!("it is there");
    };
    let member = group.members.iter().find(|known| *known.member == *member);
    let target = &member.expect("it is a member").target;
    target.iter().map(|topic| topic.partitions.len()).sum()
}

#[test]
fn requests_wait_until_a_change_is_planned_and_durable() {
    let mut stand = beside();
    let ann = send(&mut stand, heartbeat("g", "ann", MemberPresence::Joining));
    let planned = plan_of(&mut stand);
    // Both want the same partitions, and the offset is that of a member that is not one yet.
    let bob = send(&mut stand, heartbeat("g", "bob", MemberPresence::Joining));
    let offset = send(
        &mut stand,
        Request::CommitOffsets(commit("g", "ann", 1, &[(0, 5, 0)])),
    );
    assert!(to_plan(&mut stand).is_empty(), "they wait");
    stand.coordinator.handle_planned(stand.now, planned);
    stand.settle();
    for ticket in [ann, bob, offset] {
        let answer = stand.answers.remove(&ticket).expect("all are answered");
        assert_eq!(error_in(&answer), None);
    }
    stand.assert_replays(orders(3));
}

#[test]
fn a_plan_that_the_log_refuses_changes_nothing() {
    let mut stand = beside();
    let joining = send(&mut stand, heartbeat("g", "ann", MemberPresence::Joining));
    let planned = plan_of(&mut stand);
    stand.coordinator.handle_planned(stand.now, planned);
    let Some(Action::Persist { id, .. }) = stand.coordinator.next_action() else {
        panic!("it is to be stored");
    };
    stand
        .coordinator
        .handle_persisted(stand.now, id, Err(NotPersisted));
    stand.settle();
    let answer = stand.answers.remove(&joining).expect("it is answered");
    assert!(error_in(&answer).is_some(), "{answer:?}");
    assert_eq!(stand.coordinator.image().count(), 0);
    let heard = stand.ask(heartbeat("g", "ann", MemberPresence::Joining));
    assert_eq!(error_in(&heard), None);
}

/// The plan is of the topics as they were; the group sees what has become of them as soon as it holds.
#[test]
fn topics_that_change_meanwhile_are_seen_afterwards() {
    let mut stand = beside();
    stand.coordinator.handle_topics(stand.now, [orders(3)]);
    stand.settle();
    send(&mut stand, heartbeat("g", "ann", MemberPresence::Joining));
    let planned = plan_of(&mut stand);
    stand.coordinator.handle_topics(stand.now, [orders(7)]);
    stand.coordinator.handle_planned(stand.now, planned);
    stand.settle();
    assert_eq!(member_target(&mut stand, "ann"), 7);
    stand.assert_replays(orders(7));
}

/// A look at the topics that comes too late must not hide what has changed since it was begun.
#[test]
fn a_look_that_is_overtaken_is_taken_again() {
    let mut stand = beside();
    stand.coordinator.handle_topics(stand.now, [orders(3)]);
    stand.settle();
    assert_eq!(
        error_in(&stand.ask(heartbeat("g", "ann", MemberPresence::Joining))),
        None
    );
    stand.coordinator.handle_topics(stand.now, [orders(3)]);
    stand.coordinator.handle_time(stand.now);
    let planned = plan_of(&mut stand);
    stand.coordinator.handle_topics(stand.now, [orders(9)]);
    stand.coordinator.handle_time(stand.now);
    stand.coordinator.handle_planned(stand.now, planned);
    stand.settle();
    assert_eq!(member_target(&mut stand, "ann"), 9);
}

/// Whatever is under way with a group, operators see it as it is.
#[test]
fn a_group_is_described_while_it_is_planned_with() {
    let mut stand = beside();
    assert_eq!(
        error_in(&stand.ask(heartbeat("g", "ann", MemberPresence::Joining))),
        None
    );
    send(&mut stand, heartbeat("g", "bob", MemberPresence::Joining));
    let planned = plan_of(&mut stand);
    let describe = DescribeConsumer {
        group: Name::from("g"),
    };
    let described = send(&mut stand, Request::DescribeConsumer(describe));
    let description = plan_of(&mut stand);
    stand.coordinator.handle_planned(stand.now, planned);
    stand.coordinator.handle_planned(stand.now, description);
    stand.settle();
    match stand.answers.remove(&described) {
        Some(Answer::DescribeConsumer(Ok(group))) => assert_eq!(group.members.len(), 1),
        other => panic!("{other:?}"),
    }
}
