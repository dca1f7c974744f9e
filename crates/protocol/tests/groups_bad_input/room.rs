//! What groups may take in memory: each of its kind, and all of a coordinator together.

use bytes::Bytes;
use protocol::groups::{Answer, MemberPresence, Name, Protocol, Request, Settings, TopicChange};
use record::TopicId;

use crate::{
    CLASSIC, CONSUMER, Stand, at_once, beat, commit, error_in, heartbeat, heartbeat_of, is_limit, join,
    join_as, leave, subscription, sync,
};

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
    stand.ask(leave(CLASSIC, &ann, None));
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
    let mut wishing = heartbeat_of(CONSUMER, "ann", MemberPresence::At(1));
    wishing.regex = Some(Name::from(".*"));
    for request in [
        join(CLASSIC, "", "bob"),
        Request::Join(more),
        heartbeat(CONSUMER, "bob", MemberPresence::Joining),
        Request::ConsumerHeartbeat(wishing),
        Request::CommitOffsets(commit(CLASSIC, &ann, 1, &[(0, 5, 0)])),
        // A longer note than before.
        Request::CommitOffsets(commit("outside", "", -1, &[(0, 6, 3_001)])),
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

/// A few bytes may ask for thousands of partitions: those count.
#[test]
fn partitions_take_room() {
    let settings = Settings {
        held_bytes_max: 100_000,
        ..at_once()
    };
    let mut stand = Stand::empty(settings);
    let wide = TopicChange::There {
        topic: Name::from("wide"),
        id: TopicId([2; 16]),
        partition_count: 1_000,
    };
    stand.coordinator.handle_topics(stand.now, [wide]);
    stand.settle();
    let wishing = |group: &str, presence| {
        let mut wishing = heartbeat_of(group, "ann", presence);
        wishing.topics = Some(Vec::new());
        wishing.regex = Some(Name::from("w.*"));
        Request::ConsumerHeartbeat(wishing)
    };
    for request in [
        heartbeat("narrow", "ann", MemberPresence::Joining),
        wishing("wide", MemberPresence::Joining),
    ] {
        assert_eq!(error_in(&stand.ask(request)), None);
    }
    for request in [
        wishing("another", MemberPresence::Joining),
        // It says less than before, and would get more.
        wishing("narrow", MemberPresence::At(1)),
    ] {
        let error = stand.refused(request);
        assert!(is_limit(&error), "{error}");
    }
    stand.ask(heartbeat("wide", "ann", MemberPresence::Leaving));
    let heard = stand.ask(wishing("narrow", MemberPresence::At(1)));
    assert_eq!(error_in(&heard), None);
}

/// What leaders hand out counts, also while no member holds it: it is stored until the next time.
#[test]
fn assignments_take_room() {
    let settings = Settings {
        held_bytes_max: 100_000,
        ..at_once()
    };
    let mut stand = Stand::empty(settings);
    let groups = ["a", "b", "c", "d", "e", "f"];
    let leaders = groups.map(|group| match stand.ask(join(group, "", "ann")) {
        Answer::Join(Ok(joined)) => joined.member,
        other => panic!("{other:?}"),
    });
    let syncing = |place: usize, generation, bytes| {
        let leader = &leaders[place];
        sync(groups[place], leader, generation, &[(leader, &vec![7; bytes])])
    };
    let errors: Vec<_> = (0..6)
        .filter_map(|place| error_in(&stand.ask(syncing(place, 1, 30_000))))
        .collect();
    assert_eq!(errors.len(), 2, "four of them fill it: {errors:?}");
    assert!(errors.iter().all(is_limit), "{errors:?}");
    // Whoever was inside goes on with as much as before.
    let again = stand.ask(join("a", &leaders[0], "ann"));
    assert_eq!(error_in(&again), None);
    for request in [join("g", "", "ann"), syncing(0, 2, 30_001)] {
        let error = stand.refused(request);
        assert!(is_limit(&error), "{error}");
    }
    let synced = stand.ask(syncing(0, 2, 30_000));
    assert_eq!(error_in(&synced), None);
    stand.ask(leave("b", &leaders[1], None));
    let synced = stand.ask(syncing(5, 1, 30_000));
    assert_eq!(error_in(&synced), None);
}

/// What only those had who have left takes no room any more.
#[test]
fn expressions_that_nobody_has_make_room() {
    let settings = Settings {
        held_bytes_max: 100_000,
        ..at_once()
    };
    let mut stand = Stand::empty(settings);
    let wishing = |number: usize| {
        let mut wishing = heartbeat_of(&format!("g{number}"), "ann", MemberPresence::Joining);
        wishing.topics = None;
        wishing.regex = Some(Name::from(format!("orders-{number}.*")));
        Request::ConsumerHeartbeat(wishing)
    };
    let mut count = 0;
    let error = loop {
        match error_in(&stand.ask(wishing(count))) {
            Some(error) => break error,
            None => count += 1,
        }
    };
    assert!(is_limit(&error), "{error}");
    for number in 0..count {
        let left = stand.ask(heartbeat(&format!("g{number}"), "ann", MemberPresence::Leaving));
        assert_eq!(error_in(&left), None);
    }
    for request in [heartbeat("new", "ann", MemberPresence::Joining), wishing(count)] {
        assert_eq!(error_in(&stand.ask(request)), None);
    }
}
