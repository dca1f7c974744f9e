//! Too many and too large: every limit comes before the memory, and whoever is inside goes on.

use std::time::Duration;

use bytes::Bytes;
use protocol::groups::{
    Answer, ConsumerHeartbeat, DescribeGroup, GroupError, GroupState, ListGroups, MemberPresence, Name,
    Protocol, Request, Settings, TopicChange,
};
use record::TopicId;

use crate::{
    CLASSIC, CONSUMER, Stand, at_once, beat, commit, error_in, heartbeat, heartbeat_of, join, join_as,
    subscription, sync,
};

fn subscribing(member: &str, regex: &str) -> ConsumerHeartbeat {
    let mut joining = heartbeat_of(CONSUMER, member, MemberPresence::Joining);
    joining.topics = None;
    joining.regex = Some(Name::from(regex));
    joining
}

fn is_limit(error: &GroupError) -> bool {
    matches!(error, GroupError::LimitReached { .. })
}

#[test]
fn hostile_patterns_are_refused() {
    let mut stand = Stand::new();
    let mut malformed: Vec<String> = [
        "(",
        ")",
        "[",
        "a{2",
        "*",
        "+a",
        "a**{",
        r"\",
        r"(?P<n>",
        "(?<",
        "[z-a]",
        r"\p{Greek}",
        "a{3,2}",
        // No part of a larger expression, either.
        "a)|(b",
        "a)(?:b",
        "(?x)a#",
        "x)\\z|(?:.*",
    ]
    .map(str::to_owned)
    .into();
    // Large once they are compiled, and nested deeper than anybody needs.
    malformed.extend([
        "(a{1000}){1000}".to_owned(),
        "((a{100}){100}){100}".to_owned(),
        "(x+x+)+y{5000}".to_owned(),
        ".{0,30000}".to_owned(),
        format!("{}a{}", "(".repeat(400), ")".repeat(400)),
    ]);
    for regex in &malformed {
        let error = stand.refused(Request::ConsumerHeartbeat(subscribing("bob", regex)));
        assert!(
            matches!(error, GroupError::InvalidRegex { .. }),
            "{regex}: {error}"
        );
        // Nor does a member lose what it has by asking so.
        let mut asking = heartbeat_of(CONSUMER, "ann", MemberPresence::At(1));
        asking.regex = Some(Name::from(regex.as_str()));
        let error = stand.refused(Request::ConsumerHeartbeat(asking));
        assert!(
            matches!(error, GroupError::InvalidRegex { .. }),
            "{regex}: {error}"
        );
    }
    let long = "a".repeat(1025);
    let error = stand.refused(Request::ConsumerHeartbeat(subscribing("bob", &long)));
    assert!(is_limit(&error), "{error}");
}

/// Expressions that others take exponential time for are matched in linear time here.
#[test]
fn patterns_that_explode_elsewhere_are_matched() {
    let mut stand = Stand::new();
    for regex in ["(a+)+b", "(a|a)*c", "(.*)*x", "(o|or|ord|orde|order)*s"] {
        let heard = stand.ask(Request::ConsumerHeartbeat(subscribing("bob", regex)));
        assert!(
            matches!(heard, Answer::ConsumerHeartbeat(Ok(_))),
            "{regex}: {heard:?}"
        );
    }
    // As long as can be, and plain.
    let heard = stand.ask(Request::ConsumerHeartbeat(subscribing("bob", &"a".repeat(1024))));
    assert!(matches!(heard, Answer::ConsumerHeartbeat(Ok(_))), "{heard:?}");
}

/// Names such that each byte of each leads the expressions below to a state that none before led to.
fn hostile_names() -> impl Iterator<Item = TopicChange> {
    (0..100u8).map(|number| {
        let mut bits = u64::from(number) + 1;
        let letters = (0..249).map(|_| {
            bits = bits
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            if bits >> 63 == 0 { 'a' } else { 'b' }
        });
        TopicChange::There {
            topic: Name::from(letters.collect::<String>()),
            id: TopicId([100 + number; 16]),
            partition_count: 1,
        }
    })
}

/// What one expression and the names of all topics cost together is bounded. Nobody who is inside loses by it.
#[test]
fn patterns_and_names_that_cost_too_much_together() {
    let mut stand = Stand::new();
    let (costly, other) = ("[ab]*a[ab]{400}c|orders", "(?:[ab]?){400}[ab]*a[ab]{50}c|orders");
    let heard = stand.ask(Request::ConsumerHeartbeat(subscribing("bob", costly)));
    assert!(
        matches!(heard, Answer::ConsumerHeartbeat(Ok(_))),
        "with these names it costs nothing: {heard:?}"
    );
    stand.coordinator.handle_topics(stand.now, hostile_names());
    stand.settle();
    for regex in [costly, other] {
        let new = Request::ConsumerHeartbeat(ConsumerHeartbeat {
            group: Name::from("another"),
            ..subscribing("cid", regex)
        });
        let error = stand.refused(new);
        assert!(
            matches!(error, GroupError::InvalidRegex { .. }),
            "{regex}: {error}"
        );
    }
    // A plain one goes on, and has everybody assigned anew.
    let plain = Request::ConsumerHeartbeat(subscribing("dan", "[ab]*"));
    let heard = stand.ask(plain);
    assert!(matches!(heard, Answer::ConsumerHeartbeat(Ok(_))), "{heard:?}");
    let describe = DescribeGroup {
        group: Name::from(CONSUMER),
    };
    let Answer::DescribeConsumer(Ok(group)) = stand.ask(Request::DescribeConsumer(describe)) else {
        panic!("it is there");
    };
    let targets: Vec<usize> = group.members.iter().map(|member| member.target.len()).collect();
    assert_eq!(targets, [1, 1, 100], "bob still wants orders, as ann does");
}

#[test]
fn a_group_has_so_many_patterns() {
    let settings = Settings {
        regexes_max: 2,
        ..at_once()
    };
    let mut stand = Stand::with_groups(settings);
    for (member, regex) in [("bob", "a.*"), ("cid", "b.*"), ("dan", "b.*")] {
        let heard = stand.ask(Request::ConsumerHeartbeat(subscribing(member, regex)));
        assert!(matches!(heard, Answer::ConsumerHeartbeat(Ok(_))), "{heard:?}");
    }
    let error = stand.refused(Request::ConsumerHeartbeat(subscribing("eve", "c.*")));
    assert!(is_limit(&error), "{error}");
}

#[test]
fn names_have_a_length() {
    let mut stand = Stand::new();
    for group in [String::new(), "g".repeat(513)] {
        for request in [
            join(&group, "", "ann"),
            beat(&group, "ann", 1),
            sync(&group, "ann", 1, &[]),
            heartbeat(&group, "ann", MemberPresence::Joining),
        ] {
            let error = stand.refused(request);
            assert!(matches!(error, GroupError::InvalidGroupId { .. }), "{error}");
        }
    }
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
    // No limit of its own, so it must do no harm: a longer one than allowed counts as the longest allowed.
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
fn what_the_members_of_a_group_say_is_limited_together() {
    let settings = Settings {
        classic_bytes_max: 4_000,
        consumer_bytes_max: 4_000,
        ..at_once()
    };
    let mut stand = Stand::with_groups(settings);
    let ann = stand.ann.to_string();
    // By one that is new, and by one that says more than before.
    let large = Bytes::from(vec![0; 3_500]);
    let larger = Bytes::from(vec![0; 3_900]);
    for (member, metadata) in [("", large.clone()), (&ann, larger)] {
        let joining = join_as(CLASSIC, member, "ann", None, metadata);
        let error = stand.refused(Request::Join(joining));
        assert!(is_limit(&error), "{error}");
    }
    let topics: Vec<Name> = (0..40)
        .map(|number| Name::from(format!("{number:0>80}")))
        .collect();
    for (member, presence) in [("bob", MemberPresence::Joining), ("ann", MemberPresence::At(1))] {
        let mut saying = heartbeat_of(CONSUMER, member, presence);
        saying.topics = Some(topics.clone());
        let error = stand.refused(Request::ConsumerHeartbeat(saying));
        assert!(is_limit(&error), "{error}");
    }
    // One who leaves makes room.
    stand.ask(crate::leave(CLASSIC, &ann, None));
    let mut joining = join_as(CLASSIC, "", "ann", None, large);
    joining.random = 8;
    let joined = stand.ask(Request::Join(joining));
    assert!(matches!(joined, Answer::Join(Ok(_))), "{joined:?}");
}

/// When all groups together take what they may, nothing grows; what is there goes on, and may end.
#[test]
fn a_coordinator_that_is_full_goes_on() {
    let settings = Settings {
        held_bytes_max: 6_000,
        ..at_once()
    };
    let mut stand = Stand::with_groups(settings);
    let ann = stand.ann.to_string();
    let fill = |offset| commit("outside", "", -1, &[(0, offset, 3_000), (1, offset, 3_000)]);
    stand.ask(Request::CommitOffsets(fill(5)));
    let mut more = join_as(CLASSIC, &ann, "ann", None, subscription(&["orders"]));
    more.protocols.push(Protocol {
        name: Name::from("sticky"),
        metadata: Bytes::from_static(b"more"),
    });
    for request in [
        join(CLASSIC, "", "bob"),
        Request::Join(more),
        heartbeat(CONSUMER, "bob", MemberPresence::Joining),
        Request::CommitOffsets(commit(CLASSIC, &ann, 1, &[(0, 5, 0)])),
    ] {
        let error = stand.refused(request);
        assert!(is_limit(&error), "{error}");
    }
    assert_eq!(error_in(&stand.ask(beat(CLASSIC, &ann, 1))), None);
    let heard = stand.ask(heartbeat(CONSUMER, "ann", MemberPresence::At(1)));
    assert_eq!(error_in(&heard), None);
    stand.ask(Request::CommitOffsets(fill(6)));
    assert_eq!(stand.committed("outside"), [(0, 6), (1, 6)]);
    // Joining again with what was said before makes nothing grow.
    let again = stand.ask(join(CLASSIC, &ann, "ann"));
    assert!(matches!(again, Answer::Join(Ok(_))), "{again:?}");
    let delete = protocol::groups::DeleteGroup {
        group: Name::from("outside"),
    };
    assert_eq!(error_in(&stand.ask(Request::DeleteGroup(delete))), None);
    let mut joining = join_as("new", "", "bob", None, subscription(&["orders"]));
    joining.random = 8;
    let joined = stand.ask(Request::Join(joining));
    assert!(matches!(joined, Answer::Join(Ok(_))), "{joined:?}");
}

#[test]
fn filters_that_name_nothing_let_nothing_through() {
    let mut stand = Stand::new();
    let mut listed = |states: &[&str], types: &[&str]| {
        let names = |names: &[&str]| names.iter().map(|name| Name::from(*name)).collect();
        let list = ListGroups {
            states: names(states),
            types: names(types),
        };
        match stand.ask(Request::List(list)) {
            Answer::List(Ok(groups)) => groups.len(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(listed(&[], &[]), 2);
    assert_eq!(listed(&["stable"], &["CLASSIC"]), 1);
    assert_eq!(listed(&["Empty", "Dead"], &[]), 0);
    assert_eq!(listed(&["stabil", "", "*"], &[]), 0);
    let many = vec!["no such state"; 100_000];
    assert_eq!(listed(&many, &[]), 0);
    let unknown = stand.ask(Request::DescribeClassic(DescribeGroup {
        group: Name::from(CLASSIC),
    }));
    assert!(
        matches!(&unknown, Answer::DescribeClassic(Ok(group)) if group.state == GroupState::Stable),
        "{unknown:?}"
    );
}
