//! The number of sessions, and the bytes that one keeps.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use kafka_wire::fetch::{FetchPartition, FetchRequest, FetchTopic, ForgottenTopic};
use protocol::metadata::TOPIC_NAME_BYTES_MAX;

use super::session::{LISTED_IN_ONE_TURN, PARTITION_BYTES, PARTITIONS_MAX, SESSION_BYTES};
use super::*;

/// A version in which topics are named by their names.
const NAMES: i16 = 12;

/// A Fetch of these partitions of one topic.
fn fetch((session_id, session_epoch): (i32, i32), topic: &str, partitions: &[i32]) -> FetchRequest {
    let partitions = partitions.iter().map(|index| FetchPartition {
        partition: *index,
        ..FetchPartition::default()
    });
    FetchRequest {
        session_id,
        session_epoch,
        topics: vec![FetchTopic {
            topic: topic.into(),
            partitions: partitions.collect(),
            ..FetchTopic::default()
        }],
        ..FetchRequest::default()
    }
}

const ROOM: SessionRoom = SessionRoom {
    sessions: 4,
    bytes: 32 << 20,
};

fn sessions() -> FetchSessions {
    FetchSessions::new(0, ROOM)
}

fn at(session: &Cell<i32>, last: u8) -> Consumer<'_> {
    Consumer {
        session,
        address: IpAddr::from([10, 0, 0, last]),
    }
}

/// A Fetch of a consumer at the usual address.
fn open(
    sessions: &mut FetchSessions,
    own: &Cell<i32>,
    request: FetchRequest,
    version: i16,
) -> Result<Opened, ErrorCode> {
    sessions.open(at(own, 1), asked(request, version), Instant::now())
}

/// The partitions of a request, and the turns that it took to list them.
fn listed(topics: Vec<FetchTopic>) -> (Vec<Wanted>, usize) {
    let mut list = pin!(list(topics));
    let mut context = Context::from_waker(Waker::noop());
    for turn in 1.. {
        if let Poll::Ready(wanted) = list.as_mut().poll(&mut context) {
            return (wanted, turn);
        }
    }
    unreachable!("each turn lists some");
}

/// The demands of a request.
fn asked(request: FetchRequest, version: i16) -> Asked {
    Asked {
        session: request.session_id,
        epoch: request.session_epoch,
        names_ids: version >= FIRST_WITH_TOPIC_IDS,
        wanted: listed(request.topics).0,
        forgotten: request.forgotten_topics_data,
    }
}

/// Says whether a consumer gets a session for its partitions of one topic.
fn begins(sessions: &mut FetchSessions, consumer: Consumer<'_>, partitions: &[i32], now: Instant) -> bool {
    let opened = sessions.open(
        consumer,
        asked(fetch((0, INITIAL_EPOCH), "orders", partitions), NAMES),
        now,
    );
    let opened = opened.expect("it is served");
    assert_eq!(opened.wanted.len(), partitions.len(), "with a session or without");
    opened.session != 0
}

#[test]
fn sessions_take_no_more_bytes_than_they_may() {
    let partitions: Vec<i32> = (0..1_000).collect();
    let bytes = SESSION_BYTES + partitions.len() * (PARTITION_BYTES + "orders".len());
    let room = SessionRoom {
        sessions: 100,
        bytes: 4 * bytes,
    };
    let mut sessions = FetchSessions::new(0, room);
    let cells: Vec<Cell<i32>> = (0..5).map(|_| Cell::new(0)).collect();
    let now = Instant::now();
    let begun = |sessions: &mut FetchSessions, place: usize, address| {
        begins(sessions, at(&cells[place], address), &partitions, now)
    };
    assert!(begun(&mut sessions, 0, 1) && begun(&mut sessions, 1, 1));
    assert!(!begun(&mut sessions, 2, 1), "one address has half of them");
    assert!(begun(&mut sessions, 2, 2) && begun(&mut sessions, 3, 2));
    assert!(!begun(&mut sessions, 4, 3), "there is no more");
    // Nor may one grow, but it may change.
    let id = cells[0].get();
    let changed = sessions.open(
        at(&cells[0], 1),
        asked(fetch((id, 1), "orders", &[5]), NAMES),
        now,
    );
    assert!(changed.is_ok());
    let grown = sessions.open(
        at(&cells[0], 1),
        asked(fetch((id, 2), "orders", &[1_000]), NAMES),
        now,
    );
    assert_eq!(grown.err(), Some(ErrorCode::FetchSessionIdNotFound));
    assert!(begun(&mut sessions, 4, 3), "its room is free again");
    for cell in &cells {
        sessions.take(cell.get());
    }
    assert_eq!(
        sessions.shares.take(at(&cells[0], 1).address, room.half()),
        Ok(()),
        "all room comes back"
    );
}

#[test]
fn only_sessions_that_nobody_uses_make_way() {
    let room = SessionRoom { sessions: 2, ..ROOM };
    let mut sessions = FetchSessions::new(0, room);
    let [first, second, third] = [0; 3].map(Cell::new);
    let began_at = Instant::now();
    assert!(begins(&mut sessions, at(&first, 1), &[0], began_at));
    assert!(begins(&mut sessions, at(&second, 2), &[0], began_at));
    let later = began_at + IDLE_MIN;
    let used = sessions.open(
        at(&first, 1),
        asked(fetch((first.get(), 1), "orders", &[]), NAMES),
        later,
    );
    assert!(used.is_ok());
    assert!(
        !begins(&mut sessions, at(&third, 1), &[0], later),
        "its address has one in use"
    );
    assert!(!begins(
        &mut sessions,
        at(&third, 3),
        &[0],
        later - Duration::from_millis(1)
    ));
    assert!(begins(&mut sessions, at(&third, 3), &[0], later));
    let gone = sessions.open(
        at(&second, 2),
        asked(fetch((second.get(), 1), "orders", &[]), NAMES),
        later,
    );
    assert_eq!(gone.err(), Some(ErrorCode::FetchSessionIdNotFound));
}

/// The partitions that a Fetch wants in the end.
fn wanted(opened: &Opened) -> Vec<i32> {
    let wanted = opened.wanted.iter();
    wanted.map(|wanted| wanted.partition.partition).collect()
}

#[test]
fn a_connection_has_one_session_at_most() {
    let mut sessions = sessions();
    let own = Cell::new(0);
    for _ in 0..5 {
        let opened = open(
            &mut sessions,
            &own,
            fetch((0, INITIAL_EPOCH), "orders", &[0]),
            NAMES,
        );
        let opened = opened.expect("anybody may begin a session");
        assert_ne!(opened.session, 0, "there is always a place for it");
        assert_eq!((opened.session, sessions.len()), (own.get(), 1));
    }
    // Neither a fetch without a session nor one that is refused loses sight of it.
    let id = own.get();
    let without = open(
        &mut sessions,
        &own,
        fetch((0, FINAL_EPOCH), "orders", &[0]),
        NAMES,
    );
    assert_eq!(without.map(|opened| opened.session).ok(), Some(0));
    let refused = open(&mut sessions, &own, fetch((id, 7), "orders", &[]), NAMES);
    assert_eq!(refused.err(), Some(ErrorCode::InvalidFetchSessionEpoch));
    assert_eq!((own.get(), sessions.len()), (id, 1));
    let ended = open(
        &mut sessions,
        &own,
        fetch((id, FINAL_EPOCH), "orders", &[]),
        NAMES,
    );
    assert_eq!(ended.map(|opened| opened.session).ok(), Some(0));
    assert_eq!((own.get(), sessions.len()), (0, 0));
}

#[test]
fn a_session_is_found_by_its_own_connection_only() {
    let mut sessions = sessions();
    let (own, other) = (Cell::new(0), Cell::new(0));
    let began = open(
        &mut sessions,
        &own,
        fetch((0, INITIAL_EPOCH), "orders", &[0, 1]),
        NAMES,
    );
    let id = began.expect("anybody may begin a session").session;
    let foreign = open(&mut sessions, &other, fetch((id, 1), "orders", &[]), NAMES);
    assert_eq!(foreign.err(), Some(ErrorCode::FetchSessionIdNotFound));
    let ended = open(
        &mut sessions,
        &other,
        fetch((id, FINAL_EPOCH), "orders", &[]),
        NAMES,
    );
    assert!(ended.is_ok());
    let opened = open(&mut sessions, &own, fetch((id, 1), "orders", &[2]), NAMES);
    let opened = opened.expect("it is there as before");
    assert_eq!((wanted(&opened), opened.incremental), (vec![0, 1, 2], true));
}

#[test]
fn partitions_come_and_go() {
    let mut sessions = sessions();
    let own = Cell::new(0);
    let began = open(
        &mut sessions,
        &own,
        fetch((0, INITIAL_EPOCH), "orders", &[0, 1, 2, 1]),
        NAMES,
    );
    let id = began.expect("anybody may begin a session").session;
    let forgotten = ForgottenTopic {
        topic: "orders".into(),
        partitions: vec![0],
        ..ForgottenTopic::default()
    };
    let request = FetchRequest {
        forgotten_topics_data: vec![forgotten],
        ..fetch((id, 1), "orders", &[3])
    };
    let opened = open(&mut sessions, &own, request, NAMES).expect("it is there");
    assert_eq!(wanted(&opened), [2, 1, 3]);
}

#[test]
fn a_session_that_outgrows_its_bound_ends() {
    let mut sessions = sessions();
    let own = Cell::new(0);
    let first: Vec<i32> = (0..PARTITIONS_MAX as i32).collect();
    let began = open(
        &mut sessions,
        &own,
        fetch((0, INITIAL_EPOCH), "orders", &first),
        NAMES,
    );
    let id = began.expect("anybody may begin a session").session;
    // A partition that it has already may be named again.
    let opened = open(&mut sessions, &own, fetch((id, 1), "orders", &[0, 5]), NAMES);
    assert!(opened.is_ok());
    let outgrown = open(&mut sessions, &own, fetch((id, 2), "orders", &[-1]), NAMES);
    assert_eq!(outgrown.err(), Some(ErrorCode::FetchSessionIdNotFound));
    assert_eq!((own.get(), sessions.len()), (0, 0));
}

#[test]
fn who_wants_too_much_is_served_without_a_session() {
    let mut sessions = sessions();
    let own = Cell::new(0);
    let many: Vec<i32> = (0..=PARTITIONS_MAX as i32).collect();
    let long_name = "x".repeat(TOPIC_NAME_BYTES_MAX + 1);
    for request in [
        fetch((0, INITIAL_EPOCH), "orders", &many),
        fetch((0, INITIAL_EPOCH), &long_name, &[0]),
    ] {
        let asked = request.topics[0].partitions.len();
        let opened = open(&mut sessions, &own, request, NAMES).expect("it is served");
        assert_eq!((opened.session, opened.wanted.len()), (0, asked));
    }
    assert_eq!((own.get(), sessions.len()), (0, 0));
}

#[test]
fn no_partition_waits_behind_those_that_always_have_records() {
    let mut sessions = sessions();
    let own = Cell::new(0);
    let opened = open(
        &mut sessions,
        &own,
        fetch((0, INITIAL_EPOCH), "orders", &[0, 1, 2, 3]),
        NAMES,
    );
    let id = opened.expect("anybody may begin a session").session;
    // Each answer has room for two of them.
    for (epoch, expected) in [[0, 1, 2, 3], [2, 3, 0, 1], [0, 1, 2, 3]].iter().enumerate() {
        let opened = open(
            &mut sessions,
            &own,
            fetch((id, epoch as i32 + 1), "orders", &[]),
            NAMES,
        );
        let opened = opened.expect("it is in order");
        assert_eq!(wanted(&opened), expected);
        let answered = opened.wanted.into_iter().enumerate().map(|(place, wanted)| Told {
            topic: wanted.topic,
            partition: wanted.partition.partition,
            stands: Some((10, 10, 0)),
            brings_records: place < 2,
        });
        sessions.told(id, answered.collect());
    }
    // Fewer than there were: it begins where it can.
    let last = FetchRequest {
        forgotten_topics_data: vec![ForgottenTopic {
            topic: "orders".into(),
            partitions: vec![1, 2, 3],
            ..ForgottenTopic::default()
        }],
        ..fetch((id, 4), "orders", &[])
    };
    let opened = open(&mut sessions, &own, last, NAMES).expect("it is in order");
    assert_eq!(wanted(&opened), [0]);
}

#[test]
fn a_session_names_its_topics_in_one_way() {
    let mut sessions = sessions();
    for (began, other) in [(NAMES, FIRST_WITH_TOPIC_IDS), (FIRST_WITH_TOPIC_IDS, NAMES)] {
        let own = Cell::new(0);
        let opened = open(
            &mut sessions,
            &own,
            fetch((0, INITIAL_EPOCH), "orders", &[0]),
            began,
        );
        let id = opened.expect("anybody may begin a session").session;
        let refused = open(&mut sessions, &own, fetch((id, 1), "orders", &[]), other);
        assert_eq!(refused.err(), Some(ErrorCode::FetchSessionTopicIdError));
        let opened = open(&mut sessions, &own, fetch((id, 1), "orders", &[]), began);
        assert!(opened.is_ok(), "it goes on as it was");
    }
}

#[test]
fn a_session_that_has_nothing_left_ends() {
    let mut sessions = sessions();
    let own = Cell::new(0);
    let began = open(
        &mut sessions,
        &own,
        fetch((0, INITIAL_EPOCH), "orders", &[0]),
        NAMES,
    );
    let id = began.expect("anybody may begin a session").session;
    let last = FetchRequest {
        forgotten_topics_data: vec![ForgottenTopic {
            topic: "orders".into(),
            partitions: vec![0],
            ..ForgottenTopic::default()
        }],
        topics: Vec::new(),
        ..fetch((id, 1), "orders", &[])
    };
    let ended = open(&mut sessions, &own, last, NAMES).expect("it is in order");
    assert_eq!((ended.session, ended.wanted.len()), (0, 0));
    assert_eq!((own.get(), sessions.len()), (0, 0));
}

#[test]
fn what_comes_behind_an_error_is_news() {
    let mut sessions = sessions();
    let own = Cell::new(0);
    let began = open(
        &mut sessions,
        &own,
        fetch((0, INITIAL_EPOCH), "orders", &[0]),
        NAMES,
    );
    let id = began.expect("anybody may begin a session").session;
    let stands = Some((10, 10, 0));
    for (epoch, told_before, stands) in [(1, None, stands), (2, stands, None), (3, None, stands)] {
        let opened = open(&mut sessions, &own, fetch((id, epoch), "orders", &[]), NAMES);
        let wanted = opened.expect("it is in order").wanted.remove(0);
        assert_eq!(wanted.told, told_before);
        let told = Told {
            topic: wanted.topic,
            partition: 0,
            stands,
            brings_records: false,
        };
        sessions.told(id, vec![told]);
    }
}

#[test]
fn a_partition_that_is_named_often_is_wanted_once() {
    let mut sessions = sessions();
    let own = Cell::new(0);
    let mut request = fetch((0, FINAL_EPOCH), "orders", &[2, 1, 2]);
    request.topics[0].partitions[2].fetch_offset = 7;
    let opened = open(&mut sessions, &own, request, NAMES).expect("no session is asked for");
    assert_eq!(wanted(&opened), [2, 1]);
    assert_eq!(opened.wanted[0].partition.fetch_offset, 7, "the last word holds");
}

#[test]
fn very_many_partitions_are_listed_in_many_turns() {
    let named: Vec<i32> = (0..90_000).collect();
    let of_one_topic = fetch((0, FINAL_EPOCH), "orders", &named).topics;
    let topics = named.iter().map(|number| FetchTopic {
        topic: format!("orders-{number}").into(),
        partitions: vec![FetchPartition::default()],
        ..FetchTopic::default()
    });
    for topics in [of_one_topic, topics.collect()] {
        let (wanted, turns) = listed(topics);
        assert_eq!(wanted.len(), named.len());
        assert!(turns >= named.len() / LISTED_IN_ONE_TURN, "{turns} turns");
    }
}

#[test]
fn ids_that_come_round_pass_over_those_in_use() {
    let mut sessions = sessions();
    let begin = |sessions: &mut FetchSessions| {
        let request = fetch((0, INITIAL_EPOCH), "orders", &[0]);
        let opened = open(sessions, &Cell::new(0), request, NAMES);
        opened.expect("there is a place").session
    };
    let first = begin(&mut sessions);
    sessions.next_id = OF_CORE;
    assert_eq!(begin(&mut sessions), OF_CORE);
    sessions.take(OF_CORE).expect("it began");
    assert_eq!((first, begin(&mut sessions)), (1, 2));
    // Nor is one taken over under an id that another has.
    let mut others = FetchSessions::new(0, ROOM);
    let foreign = begin(&mut others);
    let session = others.take(foreign).expect("it began");
    assert_eq!((sessions.adopt(session, Instant::now()), sessions.len()), (0, 2));
    let last = FetchSessions::new(1_023, ROOM).next_id;
    assert!(last > 0 && after(last | OF_CORE) > 0, "ids are positive");
}
