//! Members that are not there, and members of another time.

use protocol::groups::{
    Answer, DeleteGroup, DeleteOffsets, DescribeGroup, FetchOffsets, GroupError, MemberPresence, Name,
    Request, TopicPartition,
};

use crate::{CLASSIC, CONSUMER, Stand, beat, commit, heartbeat, heartbeat_of, join, join_as, leave, sync};

/// Generations and epochs that `ann` is not at.
const OTHER_TIMES: [i32; 6] = [i32::MIN, -1, 0, 2, 3, i32::MAX];

fn as_member(group: &str, member: &str, epoch: i32) -> Request {
    Request::FetchOffsets(FetchOffsets {
        group: Name::from(group),
        member: Some((Name::from(member), epoch)),
        topics: None,
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
        let expected = GroupError::IllegalGeneration {
            current: -1,
            got: generation,
        };
        assert_eq!(error, expected);
    }
    let group = Name::from("nowhere");
    let describe = || DescribeGroup {
        group: Name::clone(&group),
    };
    let clear = DeleteOffsets {
        group: Name::clone(&group),
        partitions: vec![TopicPartition {
            topic: Name::from("orders"),
            index: 0,
        }],
    };
    for request in [
        Request::DescribeClassic(describe()),
        Request::DescribeConsumer(describe()),
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
    for instance in [Some("three"), None] {
        let metadata = crate::subscription(&["orders"]);
        let joined = stand.ask(Request::Join(join_as("static", "dan", "dan", instance, metadata)));
        assert!(matches!(joined, Answer::Join(Ok(_))), "{joined:?}");
    }
    let left = stand.ask(leave("static", "dan", None));
    assert_eq!(crate::error_in(&left), None);
    for instance in ["two", "three"] {
        let heard = stand.ask(static_member(instance, Some(instance)));
        assert!(matches!(heard, Answer::ConsumerHeartbeat(Ok(_))), "{heard:?}");
    }
}
