//! Groups that have more than the log takes in one batch: they can be taken away all the same.

use std::time::Duration;

use bytes::Bytes;
use protocol::groups::{
    Action, Answer, DeleteGroup, DeleteOffsets, MemberPresence, Name, NotPersisted, Request, Settings,
    Ticket, TopicChange, TopicPartition,
};

use crate::{ORDERS, Stand, at_once, commit, error_in, heartbeat, is_limit};

const PARTITIONS: i32 = 105;

/// As long as can be, almost: the keys of a few offsets fill a batch.
fn long_name() -> String {
    "g".repeat(500)
}

/// Like `Stand::settle`, with a log that refuses larger batches.
fn settle(stand: &mut Stand, batch_bytes_max: usize) {
    loop {
        while let Some(action) = stand.coordinator.next_action() {
            match action {
                Action::Plan(planning) => stand.coordinator.handle_planned(stand.now, planning.run()),
                Action::Persist { id, records } => {
                    let values = records.iter().filter_map(|record| record.value.as_ref());
                    let keys = records.iter().map(|record| &record.key);
                    let bytes: usize = keys.chain(values).map(Bytes::len).sum();
                    let result = if bytes > batch_bytes_max {
                        Err(NotPersisted)
                    } else {
                        stand.log.extend(records);
                        Ok(())
                    };
                    stand.coordinator.handle_persisted(stand.now, id, result);
                }
                Action::Answer { ticket, answer } => {
                    let other = stand.answers.insert(ticket, answer);
                    assert!(other.is_none(), "a ticket is answered once");
                }
            }
        }
        match stand.coordinator.deadline() {
            Some(at) if at <= stand.now => stand.coordinator.handle_time(stand.now),
            _ => break,
        }
    }
}

fn ask(stand: &mut Stand, request: Request) -> Answer {
    let ticket = Ticket(stand.next_ticket);
    stand.next_ticket += 1;
    stand.coordinator.handle_request(stand.now, ticket, request);
    settle(stand, 10_000);
    stand.answers.remove(&ticket).expect("it is answered")
}

fn with_offsets() -> Stand {
    let settings = Settings {
        commit_bytes_max: 10_000,
        ..at_once()
    };
    let mut stand = Stand::empty(settings);
    let indexes: Vec<i32> = (0..PARTITIONS).collect();
    for part in indexes.chunks(15) {
        let partitions: Vec<(i32, i64, usize)> = part.iter().map(|index| (*index, 5, 0)).collect();
        let committing = commit(&long_name(), "", -1, &partitions);
        let committed = ask(&mut stand, Request::CommitOffsets(committing));
        assert_eq!(error_in(&committed), None);
    }
    stand
}

fn assert_nothing_is_left(stand: &Stand) {
    assert_eq!(stand.coordinator.group_count(), 0);
    stand.assert_replays(TopicChange::Gone { id: ORDERS });
}

#[test]
fn a_group_with_many_offsets_is_deleted() {
    let mut stand = with_offsets();
    let delete = DeleteGroup {
        group: Name::from(long_name()),
    };
    let deleted = ask(&mut stand, Request::DeleteGroup(delete));
    assert_eq!(deleted, Answer::DeleteGroup(Ok(())));
    assert_nothing_is_left(&stand);
}

#[test]
fn many_offsets_are_deleted() {
    let mut stand = with_offsets();
    let partitions = (0..PARTITIONS).map(|index| TopicPartition {
        topic: Name::from("orders"),
        index,
    });
    let delete = DeleteOffsets {
        group: Name::from(long_name()),
        partitions: partitions.collect(),
    };
    let deleted = ask(&mut stand, Request::DeleteOffsets(delete));
    assert!(
        matches!(&deleted, Answer::DeleteOffsets(Ok(outcomes)) if outcomes.len() == 105),
        "{deleted:?}"
    );
    assert_eq!(error_in(&deleted), None);
    assert_nothing_is_left(&stand);
}

#[test]
fn many_offsets_expire() {
    let mut stand = with_offsets();
    stand.now += Duration::from_secs(8 * 24 * 3600);
    for _ in 0..20 {
        settle(&mut stand, 10_000);
        stand.now += Duration::from_secs(600);
    }
    assert_nothing_is_left(&stand);
}

#[test]
fn many_offsets_of_a_deleted_topic_go() {
    let mut stand = with_offsets();
    stand
        .coordinator
        .handle_topics(stand.now, [TopicChange::Gone { id: ORDERS }]);
    settle(&mut stand, 10_000);
    assert_nothing_is_left(&stand);
}

/// A group takes no more members than can all go at once.
#[test]
fn members_with_long_names_go_together() {
    let settings = Settings {
        classic_bytes_max: 20_000,
        assignment_bytes_max: 0,
        ..at_once()
    };
    let mut stand = Stand::empty(settings);
    let mut joined = 0;
    let error = loop {
        assert!(joined < 100, "there is a limit");
        let member = format!("{joined:0>500}");
        match error_in(&stand.ask(heartbeat("g", &member, MemberPresence::Joining))) {
            Some(error) => break error,
            None => joined += 1,
        }
    };
    assert!(is_limit(&error), "{error}");
    assert!(joined > 5, "{joined}");
    stand.now += Duration::from_secs(50);
    settle(&mut stand, 20_000);
    let members = stand.coordinator.image().filter(|record| record.key[1] == 5);
    assert_eq!(members.count(), 0);
}
