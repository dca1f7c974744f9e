//! Too many and too large: every limit comes before the memory, and whoever is inside goes on.

use std::time::Duration;

use bytes::Bytes;
use protocol::groups::{
    Answer, ConsumerHeartbeat, DeleteOffsets, DescribeClassic, GroupError, GroupState, ListGroups,
    MemberPresence, Name, Request, Settings,
};

use crate::{
    CLASSIC, Stand, at_once, beat, commit, error_in, heartbeat, heartbeat_of, is_limit, join, join_as,
    subscription, sync,
};

#[test]
fn names_have_a_length() {
    let mut stand = Stand::new();
    for group in [String::new(), "g".repeat(513)] {
        for request in [
            join(&group, "", "ann"),
            beat(&group, "ann", 1),
            sync(&group, "ann", 1, &[]),
            Request::DeleteOffsets(DeleteOffsets {
                group: Name::from(group.as_str()),
                partitions: Vec::new(),
            }),
        ] {
            let error = stand.refused(request);
            assert!(matches!(error, GroupError::InvalidGroupId { .. }), "{error}");
        }
    }
    let error = stand.refused(heartbeat(&"g".repeat(513), "ann", MemberPresence::Joining));
    assert!(matches!(error, GroupError::InvalidGroupId { .. }), "{error}");
    let long = "n".repeat(2000);
    let joining = |change: &dyn Fn(&mut protocol::groups::JoinGroup)| {
        let mut joining = join_as("new", "", "ann", None, subscription(&["orders"]));
        change(&mut joining);
        Request::Join(joining)
    };
    let hearing = |change: &dyn Fn(&mut ConsumerHeartbeat)| {
        let mut hearing = heartbeat_of("new", "ann", MemberPresence::Joining);
        change(&mut hearing);
        Request::ConsumerHeartbeat(hearing)
    };
    let name = || Name::from(long.as_str());
    for request in [
        joining(&|join| join.member = name()),
        joining(&|join| join.client_id = name()),
        joining(&|join| join.instance = Some(name())),
        joining(&|join| join.protocol_type = name()),
        joining(&|join| join.protocols[0].name = name()),
        joining(&|join| join.protocols = vec![join.protocols[0].clone(); 33]),
        joining(&|join| join.protocols[0].metadata = Bytes::from(vec![0; 256 * 1024 + 1])),
        hearing(&|heard| heard.member = name()),
        hearing(&|heard| heard.rack = Some(name())),
        hearing(&|heard| heard.instance = Some(name())),
        hearing(&|heard| heard.assignor = Some(name())),
        hearing(&|heard| heard.topics = Some(vec![name()])),
        hearing(&|heard| heard.topics = Some(vec![Name::from("t"); 10_001])),
    ] {
        let error = stand.refused(request);
        assert!(is_limit(&error), "{error}");
    }
    let ann = stand.ann.to_string();
    let error = stand.refused(sync(CLASSIC, &ann, 1, &[(&ann, &vec![0; 8 * 1024 * 1024 + 1])]));
    assert!(is_limit(&error), "{error}");
}

#[test]
fn what_a_consumer_names_is_not_empty() {
    let mut stand = Stand::new();
    let nameless = |change: &dyn Fn(&mut ConsumerHeartbeat)| {
        let mut hearing = heartbeat_of("new", "ann", MemberPresence::Joining);
        change(&mut hearing);
        Request::ConsumerHeartbeat(hearing)
    };
    for request in [
        nameless(&|heard| heard.group = Name::default()),
        nameless(&|heard| heard.instance = Some(Name::default())),
        nameless(&|heard| heard.rack = Some(Name::default())),
    ] {
        let error = stand.refused(request);
        assert!(matches!(error, GroupError::InvalidRequest { .. }), "{error}");
    }
}

/// The id that a member is given is longer than the name it is made of, and must be taken back.
#[test]
fn a_member_of_the_longest_name_can_come_back() {
    let mut stand = Stand::empty(at_once());
    let client = "c".repeat(1024);
    let mut joining = join_as("g", "", &client, None, subscription(&["orders"]));
    joining.requires_known_member = true;
    let Answer::Join(Err(GroupError::MemberIdRequired { member })) =
        stand.ask(Request::Join(joining.clone()))
    else {
        panic!("it is given an id first");
    };
    joining.member = Name::clone(&member);
    let joined = stand.ask(Request::Join(joining));
    assert!(matches!(joined, Answer::Join(Ok(_))), "{joined:?}");
    let committed = stand.ask(Request::CommitOffsets(commit("g", &member, 0, &[(0, 1, 0)])));
    assert!(
        matches!(
            error_in(&committed),
            Some(GroupError::IllegalGeneration { current: 1, got: 0 })
        ),
        "{committed:?}"
    );
}

#[test]
fn timeouts_that_cannot_be_are_refused() {
    let mut stand = Stand::new();
    for session_timeout in [
        Duration::ZERO,
        Duration::from_millis(1),
        Duration::from_secs(24 * 3600),
        Duration::MAX,
    ] {
        let mut joining = join_as("new", "", "ann", None, Bytes::new());
        joining.session_timeout = session_timeout;
        let error = stand.refused(Request::Join(joining));
        assert!(
            matches!(error, GroupError::InvalidSessionTimeout { .. }),
            "{error}"
        );
    }
    // No limit of its own, so it must do no harm: a longer one than can be stored counts as the longest that can.
    for rebalance_timeout in [Duration::ZERO, Duration::MAX] {
        let mut joining = join_as("new", "", "ann", None, Bytes::new());
        joining.rebalance_timeout = rebalance_timeout;
        joining.random = u128::from(rebalance_timeout.as_secs());
        let joined = stand.ask(Request::Join(joining));
        assert!(matches!(joined, Answer::Join(Ok(_))), "{joined:?}");
        let mut hearing = heartbeat_of("other", "ann", MemberPresence::Joining);
        // The longest that the wire can say.
        hearing.rebalance_timeout = Some(Duration::from_millis(i32::MAX as u64));
        let heard = stand.ask(Request::ConsumerHeartbeat(hearing));
        assert!(matches!(heard, Answer::ConsumerHeartbeat(Ok(_))), "{heard:?}");
    }
}

#[test]
fn there_are_so_many_groups() {
    let settings = Settings {
        groups_max: 3,
        ..at_once()
    };
    let mut stand = Stand::with_groups(settings);
    stand.ask(Request::CommitOffsets(commit("third", "", -1, &[(0, 5, 0)])));
    for request in [
        join("fourth", "", "bob"),
        heartbeat("fourth", "bob", MemberPresence::Joining),
        Request::CommitOffsets(commit("fourth", "", -1, &[(0, 5, 0)])),
    ] {
        let error = stand.refused(request);
        assert!(is_limit(&error), "{error}");
    }
    stand.ask(Request::CommitOffsets(commit("third", "", -1, &[(0, 6, 0)])));
    assert_eq!(stand.committed("third"), [(0, 6)]);
}

/// An id that is handed out holds a place: ids cannot be asked for without end.
#[test]
fn ids_that_nobody_comes_back_with_are_counted() {
    let settings = Settings {
        members_max: 3,
        ..at_once()
    };
    let mut stand = Stand::empty(settings);
    for round in 0..3 {
        let mut joining = join_as("g", "", "ann", None, Bytes::new());
        joining.requires_known_member = true;
        joining.random = round;
        let error = error_in(&stand.ask(Request::Join(joining)));
        assert!(
            matches!(error, Some(GroupError::MemberIdRequired { .. })),
            "{error:?}"
        );
    }
    let mut joining = join_as("g", "", "ann", None, Bytes::new());
    joining.requires_known_member = true;
    let error = stand.refused(Request::Join(joining));
    assert_eq!(error, GroupError::GroupFull { max: 3 });
}

#[test]
fn filters_that_name_nothing_let_nothing_through() {
    let mut stand = Stand::new();
    let mut listed = |states: &[&str], types: &[&str]| {
        let names = |names: &[&str]| names.iter().map(|name| Name::from(*name)).collect();
        let list = ListGroups {
            states: names(states),
            types: names(types),
            ..ListGroups::default()
        };
        match stand.ask(Request::List(list)) {
            Answer::List(Ok(listed)) => listed.groups.len(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(listed(&[], &[]), 2);
    assert_eq!(listed(&["stable"], &["CLASSIC"]), 1);
    assert_eq!(listed(&["Empty", "Dead"], &[]), 0);
    assert_eq!(listed(&["stabil", "", "*"], &[]), 0);
    let many = vec!["no such state"; 100_000];
    assert_eq!(listed(&many, &[]), 0);
    let unknown = stand.ask(Request::DescribeClassic(DescribeClassic {
        group: Name::from(CLASSIC),
    }));
    assert!(
        matches!(&unknown, Answer::DescribeClassic(Ok(group)) if group.state == GroupState::Stable),
        "{unknown:?}"
    );
}
