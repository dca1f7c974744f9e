//! Requests that would turn a group to the other protocol if they were not refused: the group stays what it is.

use std::time::Duration;

use bytes::Bytes;
use protocol::groups::{
    Answer, DescribeClassic, DescribeConsumer, GroupError, GroupState, MemberPresence, Name, Request,
    Settings,
};

use crate::{
    CLASSIC, CONSUMER, Stand, at_once, beat, commit, heartbeat, heartbeat_of, is_limit, join_as, leave,
    subscription, sync,
};

/// A classic group whose assignment can be read, and groups of both protocols that everybody has left.
const READABLE: &str = "readable";
const EMPTIED: &str = "emptied";
const EMPTIED_CONSUMER: &str = "emptied consumer";

/// Both partitions of `orders`, as a leader of the embedded consumer protocol hands them out.
const BOTH: &[u8] = &[
    0, 0, 0, 0, 0, 1, 0, 6, b'o', b'r', b'd', b'e', b'r', b's', 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0xff,
    0xff, 0xff, 0xff,
];

/// Makes a stable classic group of one member, and gives the member's id.
fn readable_group(stand: &mut Stand, group: &str, metadata: Bytes) -> String {
    let joining = join_as(group, "", "ann", None, metadata);
    let Answer::Join(Ok(joined)) = stand.ask(Request::Join(joining)) else {
        panic!("ann joins");
    };
    let ann = joined.member.to_string();
    let synced = stand.ask(sync(group, &ann, 1, &[(&ann, BOTH)]));
    assert!(matches!(synced, Answer::Sync(Ok(_))), "{synced:?}");
    ann
}

/// Gives the id of the member of `READABLE`.
fn with_emptied_groups(stand: &mut Stand) -> String {
    let ann = readable_group(stand, EMPTIED, subscription(&["orders"]));
    stand.ask(leave(EMPTIED, &ann, None));
    stand.ask(heartbeat(EMPTIED_CONSUMER, "ann", MemberPresence::Joining));
    stand.ask(heartbeat(EMPTIED_CONSUMER, "ann", MemberPresence::Leaving));
    readable_group(stand, READABLE, subscription(&["orders"]))
}

#[test]
fn refused_heartbeats_turn_no_group() {
    let settings = Settings {
        consumer_bytes_max: 4_000,
        ..at_once()
    };
    let mut stand = Stand::with_groups(settings);
    let ann = with_emptied_groups(&mut stand);
    for group in [CLASSIC, READABLE, EMPTIED, EMPTIED_CONSUMER] {
        let joining = || heartbeat_of(group, "bob", MemberPresence::Joining);
        let mut malformed = joining();
        malformed.regex = Some(Name::from("("));
        let mut wishless = joining();
        wishless.topics = None;
        let mut hurried = joining();
        hurried.rebalance_timeout = None;
        let mut choosy = joining();
        choosy.assignor = Some(Name::from("sticky"));
        let mut talkative = joining();
        talkative.topics = Some(
            (0..40)
                .map(|number| Name::from(format!("{number:0>80}")))
                .collect(),
        );
        for request in [malformed, wishless, hurried, choosy, talkative] {
            stand.refused(Request::ConsumerHeartbeat(request));
        }
        for presence in [MemberPresence::At(1), MemberPresence::Leaving] {
            stand.refused(heartbeat(group, "bob", presence));
        }
    }
    assert_eq!(stand.ask(beat(READABLE, &ann, 1)), Answer::Heartbeat(Ok(())));
}

#[test]
fn a_full_group_does_not_turn() {
    let settings = Settings {
        members_max: 1,
        ..at_once()
    };
    let mut stand = Stand::with_groups(settings);
    let ann = with_emptied_groups(&mut stand);
    let error = stand.refused(heartbeat(READABLE, "bob", MemberPresence::Joining));
    assert_eq!(error, GroupError::GroupFull { max: 1 });
    assert_eq!(stand.ask(beat(READABLE, &ann, 1)), Answer::Heartbeat(Ok(())));
    // There is room in one that is empty.
    let heard = stand.ask(heartbeat(EMPTIED, "bob", MemberPresence::Joining));
    assert!(matches!(heard, Answer::ConsumerHeartbeat(Ok(_))), "{heard:?}");
}

#[test]
fn refused_joins_turn_no_group() {
    let settings = Settings {
        classic_bytes_max: 4_000,
        ..at_once()
    };
    let mut stand = Stand::with_groups(settings);
    with_emptied_groups(&mut stand);
    for group in [EMPTIED, EMPTIED_CONSUMER] {
        let mut without_protocols = join_as(group, "", "bob", None, Bytes::new());
        without_protocols.protocols.clear();
        let mut of_no_type = join_as(group, "", "bob", None, Bytes::new());
        of_no_type.protocol_type = Name::default();
        for request in [
            without_protocols,
            of_no_type,
            join_as(group, "bob", "bob", None, Bytes::new()),
            join_as(group, "bob", "bob", Some("one"), Bytes::new()),
            join_as(group, "", "bob", None, Bytes::from(vec![0; 4_000])),
        ] {
            stand.refused(Request::Join(request));
        }
    }
}

/// Offsets are kept for so long from the moment at which everybody had left, whoever knocks in vain meanwhile.
#[test]
fn a_refused_heartbeat_does_not_age_offsets() {
    let settings = Settings {
        offsets_retention: Duration::from_secs(60),
        offsets_check_interval: Duration::from_secs(5),
        ..at_once()
    };
    let mut stand = Stand::empty(settings);
    let ann = readable_group(&mut stand, EMPTIED, subscription(&["orders"]));
    stand.ask(Request::CommitOffsets(commit(EMPTIED, &ann, 1, &[(0, 5, 0)])));
    // She is silent for longer than her session.
    stand.now = Duration::from_secs(11);
    stand.settle();
    let mut malformed = heartbeat_of(EMPTIED, "bob", MemberPresence::Joining);
    malformed.regex = Some(Name::from("("));
    stand.refused(Request::ConsumerHeartbeat(malformed));
    stand.now = Duration::from_secs(65);
    stand.settle();
    assert_eq!(stand.committed(EMPTIED), [(0, 5)]);
    stand.now = Duration::from_secs(75);
    stand.settle();
    assert!(stand.committed(EMPTIED).is_empty());
}

/// What a leader tells members beside their partitions would be lost with it.
#[test]
fn what_an_assignor_says_of_its_own_keeps_a_group_classic() {
    let mut stand = Stand::new();
    let both = &BOTH[..BOTH.len() - 4];
    let user_data: [&[u8]; 2] = [&[0, 0, 0, 1, 7], &[]];
    for (number, user_data) in user_data.into_iter().enumerate() {
        let group = format!("group {number}");
        let joining = join_as(&group, "", "ann", None, subscription(&["orders"]));
        let Answer::Join(Ok(joined)) = stand.ask(Request::Join(joining)) else {
            panic!("ann joins");
        };
        let assignment = [both, user_data].concat();
        stand.ask(sync(&group, &joined.member, 1, &[(&joined.member, &assignment)]));
        let error = stand.refused(heartbeat(&group, "bob", MemberPresence::Joining));
        assert!(matches!(error, GroupError::GroupNotFound { .. }), "{error}");
        let heard = stand.ask(beat(&group, &joined.member, 1));
        assert_eq!(heard, Answer::Heartbeat(Ok(())));
    }
}

/// A group is one record by the classic protocol, which has less room.
#[test]
fn a_group_turns_back_when_its_members_fit() {
    let settings = Settings {
        classic_bytes_max: 4_000,
        ..at_once()
    };
    let mut stand = Stand::with_groups(settings);
    let long = "t".repeat(1_000);
    let joined = ["bob", "cid"].map(|client| {
        let joining = join_as(CONSUMER, "", client, None, subscription(&["orders", &long]));
        match stand.ask(Request::Join(joining)) {
            Answer::Join(Ok(joined)) => joined.member,
            other => panic!("{other:?}"),
        }
    });
    stand.ask(heartbeat(CONSUMER, "ann", MemberPresence::Leaving));
    let described = stand.ask(Request::DescribeConsumer(DescribeConsumer {
        group: Name::from(CONSUMER),
    }));
    assert!(
        matches!(&described, Answer::DescribeConsumer(Ok(group)) if group.members.len() == 2),
        "{described:?}"
    );
    stand.ask(leave(CONSUMER, &joined[0], None));
    let described = stand.ask(Request::DescribeClassic(DescribeClassic {
        group: Name::from(CONSUMER),
    }));
    assert!(
        matches!(&described, Answer::DescribeClassic(Ok(group)) if group.state == GroupState::PreparingRebalance),
        "{described:?}"
    );
}

#[test]
fn a_group_does_not_turn_if_the_log_cannot_take_it() {
    let settings = Settings {
        classic_bytes_max: 2_000,
        assignment_bytes_max: 200,
        ..at_once()
    };
    let mut stand = Stand::with_groups(settings);
    let long = "t".repeat(1_000);
    let ann = readable_group(&mut stand, READABLE, subscription(&["orders", &long]));
    let error = stand.refused(heartbeat(READABLE, "bob", MemberPresence::Joining));
    assert!(is_limit(&error), "{error}");
    assert_eq!(stand.ask(beat(READABLE, &ann, 1)), Answer::Heartbeat(Ok(())));
}
