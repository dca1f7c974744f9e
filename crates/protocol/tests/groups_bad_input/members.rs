//! Members that are not there, and members of another time.

use std::time::Duration;

use protocol::groups::{
    Action, Answer, Coordinator, DeleteGroup, DeleteOffsets, DescribeClassic, DescribeConsumer, FetchOffsets,
    GroupError, MemberPresence, Name, Request, Settings, Ticket, TopicPartition,
};

use crate::{
    CLASSIC, CONSUMER, Stand, at_once, beat, commit, heartbeat, heartbeat_of, join, join_as, leave, sync,
};

/// Generations and epochs that `ann` is not at.
const OTHER_TIMES: [i32; 6] = [i32::MIN, -1, 0, 2, 3, i32::MAX];

fn as_member(group: &str, member: &str, epoch: i32) -> Request {
    Request::FetchOffsets(FetchOffsets {
        group: Name::from(group),
        member: Some((Name::from(member), epoch)),
        topics: None,
        require_stable: false,
    })
}

/// One who says that it leaves for a while must be static.
fn pause(group: &str, member: &str) -> Request {
    let mut pausing = heartbeat_of(group, member, MemberPresence::LeavingForAWhile);
    pausing.instance = Some(Name::from("one"));
    Request::ConsumerHeartbeat(pausing)
}

#[test]
fn unknown_members_are_told_so() {
    let mut stand = Stand::new();
    for group in [CLASSIC, CONSUMER] {
        for request in [
            beat(group, "nobody", 1),
            beat(group, "", 1),
            sync(group, "nobody", 1, &[("nobody", b"everything")]),
            leave(group, "nobody", None),
            leave(group, "", None),
            leave(group, "", Some("nobody's")),
            Request::CommitOffsets(commit(group, "nobody", 1, &[(0, 5, 0)])),
            // From outside, while there are members.
            Request::CommitOffsets(commit(group, "", -1, &[(0, 5, 0)])),
            heartbeat(group, "nobody", MemberPresence::At(1)),
            heartbeat(group, "nobody", MemberPresence::Leaving),
            pause(group, "nobody"),
        ] {
            let what = format!("{request:?}");
            let error = stand.refused(request);
            assert!(
                matches!(error, GroupError::UnknownMember { .. }),
                "{what}: {error}"
            );
        }
    }
    let error = stand.refused(as_member(CONSUMER, "nobody", 1));
    assert!(matches!(error, GroupError::UnknownMember { .. }), "{error}");
    let error = stand.refused(join(CLASSIC, "nobody", "nobody"));
    assert!(matches!(error, GroupError::UnknownMember { .. }), "{error}");
}

#[test]
fn a_group_that_is_not_there_is_not_made_by_who_thinks_it_is() {
    let mut stand = Stand::new();
    for request in [
        join("nowhere", "nobody", "nobody"),
        beat("nowhere", "nobody", 1),
        sync("nowhere", "nobody", 1, &[]),
        leave("nowhere", "nobody", None),
        heartbeat("nowhere", "nobody", MemberPresence::At(1)),
        heartbeat("nowhere", "nobody", MemberPresence::Leaving),
        pause("nowhere", "nobody"),
    ] {
        let what = format!("{request:?}");
        let error = stand.refused(request);
        assert!(
            matches!(error, GroupError::UnknownMember { .. }),
            "{what}: {error}"
        );
    }
    for generation in [0, 1, i32::MAX] {
        let error = stand.refused(Request::CommitOffsets(commit(
            "nowhere",
            "nobody",
            generation,
            &[(0, 5, 0)],
        )));
        assert!(matches!(error, GroupError::GroupNotFound { .. }), "{error}");
    }
    let group = Name::from("nowhere");
    // It has committed nothing, whoever asks.
    let fetched = stand.ask(as_member("nowhere", "nobody", 1));
    assert_eq!(fetched, Answer::FetchOffsets(Ok(Vec::new())));
    let clear = DeleteOffsets {
        group: Name::clone(&group),
        partitions: vec![TopicPartition {
            topic: Name::from("orders"),
            index: 0,
        }],
    };
    for request in [
        Request::DescribeClassic(DescribeClassic {
            group: Name::clone(&group),
        }),
        Request::DescribeConsumer(DescribeConsumer {
            group: Name::clone(&group),
        }),
        Request::DeleteOffsets(clear),
        Request::DeleteGroup(DeleteGroup {
            group: Name::clone(&group),
        }),
    ] {
        let error = stand.refused(request);
        assert!(matches!(error, GroupError::GroupNotFound { .. }), "{error}");
    }
}

#[test]
fn a_refused_first_member_leaves_no_group_behind() {
    let mut stand = Stand::new();
    let mut without_protocols = join_as("new", "", "ann", None, bytes::Bytes::new());
    without_protocols.protocols.clear();
    assert_eq!(
        stand.refused(Request::Join(without_protocols)),
        GroupError::InconsistentProtocol
    );
    let mut wishless = heartbeat_of("new", "ann", MemberPresence::Joining);
    wishless.topics = None;
    let error = stand.refused(Request::ConsumerHeartbeat(wishless));
    assert!(matches!(error, GroupError::InvalidRequest { .. }), "{error}");
}

#[test]
fn members_of_another_generation_are_told_so() {
    let mut stand = Stand::new();
    let ann = stand.ann.to_string();
    for got in OTHER_TIMES {
        for request in [
            beat(CLASSIC, &ann, got),
            sync(CLASSIC, &ann, got, &[(&ann, b"something else")]),
            Request::CommitOffsets(commit(CLASSIC, &ann, got, &[(0, 5, 0)])),
        ] {
            let expected = GroupError::IllegalGeneration { current: 1, got };
            assert_eq!(stand.refused(request), expected);
        }
    }
    let heard = stand.ask(beat(CLASSIC, &ann, 1));
    assert_eq!(heard, Answer::Heartbeat(Ok(())));
}

#[test]
fn members_of_another_epoch_are_told_so() {
    let mut stand = Stand::new();
    for got in OTHER_TIMES {
        let stale = GroupError::StaleMemberEpoch { current: 1, got };
        let committed = Request::CommitOffsets(commit(CONSUMER, "ann", got, &[(0, 5, 0)]));
        assert_eq!(stand.refused(committed), stale);
        assert_eq!(stand.refused(as_member(CONSUMER, "ann", got)), stale);
        if got > 0 {
            let fenced = GroupError::FencedMemberEpoch { current: 1, got };
            assert_eq!(
                stand.refused(heartbeat(CONSUMER, "ann", MemberPresence::At(got))),
                fenced
            );
        }
        // She does not speak the classic protocol.
        let error = stand.refused(beat(CONSUMER, "ann", got));
        assert!(matches!(error, GroupError::UnknownMember { .. }), "{error}");
    }
    for epoch in [i32::MIN, -4, -3] {
        assert_eq!(MemberPresence::from_epoch(epoch), None);
    }
    let heard = stand.ask(heartbeat(CONSUMER, "ann", MemberPresence::At(1)));
    assert!(matches!(heard, Answer::ConsumerHeartbeat(Ok(_))), "{heard:?}");
}

/// Whoever joins again under another instance id gives the first one up, by either protocol: it must not lead to a member
/// that is gone.
#[test]
fn an_instance_id_is_free_when_its_member_has_another() {
    let mut stand = Stand::new();
    let static_member = |member: &str, instance: Option<&str>| {
        let mut joining = heartbeat_of("static", member, MemberPresence::Joining);
        joining.instance = instance.map(Name::from);
        Request::ConsumerHeartbeat(joining)
    };
    for (member, instance) in [("ann", "one"), ("ann", "two"), ("bob", "one")] {
        let heard = stand.ask(static_member(member, Some(instance)));
        assert!(matches!(heard, Answer::ConsumerHeartbeat(Ok(_))), "{heard:?}");
    }
    let error = stand.refused(static_member("cid", Some("two")));
    assert!(matches!(error, GroupError::UnreleasedInstance { .. }), "{error}");
    let left = stand.ask(heartbeat("static", "ann", MemberPresence::Leaving));
    assert!(matches!(left, Answer::ConsumerHeartbeat(Ok(_))), "{left:?}");
    // The same by the classic protocol, where the second time there is none.
    let mut dan = Name::default();
    for instance in [Some("three"), None] {
        let metadata = crate::subscription(&["orders"]);
        let joined = stand.ask(Request::Join(join_as("static", &dan, "dan", instance, metadata)));
        let Answer::Join(Ok(joined)) = joined else {
            panic!("{joined:?}");
        };
        dan = joined.member;
    }
    let left = stand.ask(leave("static", &dan, None));
    assert_eq!(crate::error_in(&left), None);
    for instance in ["two", "three"] {
        let heard = stand.ask(static_member(instance, Some(instance)));
        assert!(matches!(heard, Answer::ConsumerHeartbeat(Ok(_))), "{heard:?}");
    }
}

/// Who is a member need not look for another coordinator while this one reads its log, and none is silent then.
#[test]
fn members_are_heard_before_the_log_is_read() {
    let mut coordinator = Coordinator::new(at_once(), 0);
    let mut told = |request: Request| {
        coordinator.handle_request(Duration::ZERO, Ticket(0), request);
        match coordinator.next_action() {
            Some(Action::Answer { answer, .. }) => answer,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(told(beat(CLASSIC, "ann", 1)), Answer::Heartbeat(Ok(())));
    let loading = Answer::Join(Err(GroupError::Loading));
    assert_eq!(told(join(CLASSIC, "", "ann")), loading);
    let nowhere = told(beat("", "ann", 1));
    assert!(
        matches!(nowhere, Answer::Heartbeat(Err(GroupError::InvalidGroupId { .. }))),
        "{nowhere:?}"
    );
}

/// Its members have left, but its first generation is still to begin, and would be stored behind the deletion.
#[test]
fn a_group_that_is_about_to_begin_is_not_deleted() {
    let mut stand = Stand::empty(Settings::default());
    let joining = join_as("g", "", "ann", Some("one"), crate::subscription(&["orders"]));
    stand.send(Request::Join(joining));
    let left = stand.ask(leave("g", "", Some("one")));
    assert_eq!(crate::error_in(&left), None);
    let delete = || {
        Request::DeleteGroup(DeleteGroup {
            group: Name::from("g"),
        })
    };
    assert_eq!(stand.refused(delete()), GroupError::NonEmptyGroup { members: 0 });
    stand.now = Duration::from_secs(5);
    stand.settle();
    assert_eq!(stand.ask(delete()), Answer::DeleteGroup(Ok(())));
}
