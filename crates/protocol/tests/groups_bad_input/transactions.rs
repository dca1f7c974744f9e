//! Offsets that are pending in transactions, when there are many, when the log is slow or refuses, and when little room is left:
//! nothing is lost, nor stays pending for ever.

use protocol::groups::{
    Action, Answer, CommitPending, EndTransaction, FetchOffsets, GroupError, Name, NotPersisted, PersistId,
    Request, Settings, StoredRecord, Ticket, TopicChange,
};
use protocol::producers::ProducerId;

use crate::{CONSUMER, ORDERS, Stand, at_once, commit, error_in, is_limit};

const PRODUCER: i64 = 7;

fn pend(group: &str, producer: i64, partitions: &[(i32, i64, usize)]) -> Request {
    Request::CommitPending(CommitPending {
        producer: ProducerId(producer),
        producer_epoch: 0,
        commit: commit(group, "", -1, partitions),
    })
}

fn end(producer: i64, commit: bool) -> Request {
    Request::EndTransaction(EndTransaction {
        producer: ProducerId(producer),
        producer_epoch: 0,
        coordinator_epoch: 1,
        version: 1,
        commit,
    })
}

fn orders() -> TopicChange {
    TopicChange::There {
        topic: Name::from("orders"),
        id: ORDERS,
        partition_count: 2,
    }
}

/// Asks, and leaves what that stores to the log.
fn ask(stand: &mut Stand, request: Request) -> Ticket {
    let ticket = Ticket(stand.next_ticket);
    stand.next_ticket += 1;
    stand.coordinator.handle_request(stand.now, ticket, request);
    ticket
}

/// Takes what is for the log. Answers are noted.
fn under_way(stand: &mut Stand) -> Vec<(PersistId, Vec<StoredRecord>)> {
    let mut changes = Vec::new();
    while let Some(action) = stand.coordinator.next_action() {
        match action {
            Action::Plan(planning) => stand.coordinator.handle_planned(stand.now, planning.run()),
            Action::Persist { id, records } => changes.push((id, records)),
            Action::Answer { ticket, answer } => {
                let other = stand.answers.insert(ticket, answer);
                assert!(other.is_none(), "a ticket is answered once");
            }
        }
    }
    changes
}

fn take_one(stand: &mut Stand, (id, records): (PersistId, Vec<StoredRecord>)) {
    stand.log.extend(records);
    stand.coordinator.handle_persisted(stand.now, id, Ok(()));
}

fn unstable(stand: &mut Stand, group: &str) -> usize {
    let fetch = FetchOffsets {
        group: Name::from(group),
        member: None,
        topics: None,
        require_stable: true,
    };
    let Answer::FetchOffsets(Ok(topics)) = stand.ask(Request::FetchOffsets(fetch)) else {
        panic!("anybody may fetch");
    };
    let partitions = topics.iter().flat_map(|topic| &topic.partitions);
    partitions
        .filter(|found| found.committed == Err(GroupError::UnstableOffset))
        .count()
}

fn pending_records(stand: &Stand) -> usize {
    stand
        .coordinator
        .image()
        .filter(|record| record.key[1] == 100)
        .count()
}

/// A batch of the log has room for two or three offsets here.
fn small_batches() -> Settings {
    Settings {
        commit_bytes_max: 1_000,
        ..at_once()
    }
}

fn pend_many(stand: &mut Stand, group: &str, count: i32) {
    for index in 0..count {
        let told = stand.ask(pend(group, PRODUCER, &[(index, 5, 0)]));
        assert_eq!(error_in(&told), None);
    }
}

#[test]
fn an_end_goes_in_parts_and_what_is_left_is_unstable() {
    let mut stand = Stand::empty(small_batches());
    pend_many(&mut stand, "g", 20);
    let ending = ask(&mut stand, end(PRODUCER, true));
    let later = ask(
        &mut stand,
        Request::CommitOffsets(commit("g", "", -1, &[(0, 9, 0)])),
    );
    let mut parts = 0;
    let mut last_unstable = 20;
    loop {
        let mut changes = under_way(&mut stand);
        if stand.answers.contains_key(&ending) {
            assert_eq!(changes.len(), 1, "the commit that came later");
            take_one(&mut stand, changes.remove(0));
            break;
        }
        assert_eq!(changes.len(), 1, "one part after the other");
        assert!(changes[0].1.len() <= 8);
        take_one(&mut stand, changes.remove(0));
        parts += 1;
        // Reading does not wait.
        let left = pending_records(&stand);
        assert!(left < last_unstable);
        last_unstable = left;
        stand.assert_replays(orders());
    }
    assert!(parts >= 5, "{parts}");
    stand.settle();
    assert_eq!(error_in(&stand.answers[&ending]), None);
    assert_eq!(error_in(&stand.answers[&later]), None);
    assert_eq!(pending_records(&stand), 0);
    let committed = stand.committed("g");
    assert_eq!(committed.len(), 20);
    assert_eq!(committed[..2], [(0, 9), (1, 5)]);
}

/// The process dies after each of the parts in turn, or the log refuses each: the marker comes again, and all is well.
#[test]
fn an_end_that_stops_anywhere_is_finished_later() {
    for committed in [true, false] {
        for fails_at in 0..8 {
            for dies in [true, false] {
                let mut stand = Stand::empty(small_batches());
                pend_many(&mut stand, "g", 20);
                let plain = commit("g", "", -1, &[(3, 9, 0)]);
                stand.ask(Request::CommitOffsets(plain));
                let ending = ask(&mut stand, end(PRODUCER, committed));
                for part in 0..=fails_at {
                    let Some(change) = under_way(&mut stand).pop() else {
                        break;
                    };
                    if part < fails_at {
                        take_one(&mut stand, change);
                    } else if dies {
                        stand.restart(small_batches());
                    } else {
                        stand
                            .coordinator
                            .handle_persisted(stand.now, change.0, Err(NotPersisted));
                        stand.settle();
                        let told = stand.answers.remove(&ending).expect("it is told");
                        assert_eq!(error_in(&told), Some(GroupError::NotPersisted));
                    }
                }
                stand.settle();
                let told = stand.ask(end(PRODUCER, committed));
                assert_eq!(error_in(&told), None);
                assert_eq!(unstable(&mut stand, "g"), 0);
                assert_eq!(pending_records(&stand), 0);
                let offsets = stand.committed("g");
                assert_eq!(offsets.len(), if committed { 20 } else { 1 });
                assert!(offsets.contains(&(3, 9)), "what came later wins: {offsets:?}");
                stand.assert_replays(orders());
            }
        }
    }
}

/// Groups get to it some at a time; the sender is told once, when all are done.
#[test]
fn an_end_concerns_many_groups() {
    let mut stand = Stand::empty(at_once());
    let groups: Vec<String> = (0..50).map(|number| format!("g{number}")).collect();
    let many: Vec<(i32, i64, usize)> = (0..1_000).map(|index| (index, 5, 0)).collect();
    for group in &groups {
        assert_eq!(error_in(&stand.ask(pend(group, PRODUCER, &many))), None);
    }
    let ending = ask(&mut stand, end(PRODUCER, true));
    let first = under_way(&mut stand);
    assert!((2..50).contains(&first.len()), "{}", first.len());
    let refused = first.len() - 1;
    for (number, (id, records)) in first.into_iter().enumerate() {
        assert!(!stand.answers.contains_key(&ending));
        if number == refused {
            stand
                .coordinator
                .handle_persisted(stand.now, id, Err(NotPersisted));
        } else {
            take_one(&mut stand, (id, records));
        }
    }
    stand.settle();
    let told = stand.answers.remove(&ending).expect("those at work are done");
    assert_eq!(error_in(&told), Some(GroupError::NotPersisted));
    let left = pending_records(&stand);
    assert!((1..50_000).contains(&left), "{left}");
    assert_eq!(error_in(&stand.ask(end(PRODUCER, true))), None);
    assert_eq!(pending_records(&stand), 0);
    for group in &groups {
        assert_eq!(stand.committed(group).len(), 1_000);
    }
    stand.assert_replays(orders());
}

/// A pending commit that waits at a closed gate, or is planned beside the coordinator, does not outlive its transaction.
#[test]
fn an_end_waits_for_what_was_taken_before() {
    for planned_at_once_max in [0, 10_000] {
        let settings = Settings {
            planned_at_once_max,
            ..at_once()
        };
        let mut stand = Stand::empty(settings);
        let first = ask(&mut stand, pend("g", PRODUCER, &[(0, 5, 0)]));
        let second = ask(&mut stand, pend("g", PRODUCER, &[(1, 5, 0)]));
        let ending = ask(&mut stand, end(PRODUCER, false));
        let other = ask(&mut stand, end(PRODUCER + 1, false));
        let mut order = Vec::new();
        while order.len() < 4 {
            let changes = under_way(&mut stand);
            for (ticket, answer) in std::mem::take(&mut stand.answers) {
                assert_eq!(error_in(&answer), None);
                order.push(ticket);
            }
            for change in changes {
                take_one(&mut stand, change);
            }
        }
        assert_eq!(order, [other, first, second, ending]);
        assert_eq!(stand.coordinator.group_count(), 0);
        assert_eq!(stand.coordinator.held_bytes(), 0);
    }
}

#[test]
fn pending_offsets_take_room() {
    let settings = Settings {
        held_bytes_max: 10_000,
        ..at_once()
    };
    let mut stand = Stand::empty(settings.clone());
    let refused = (0..100).find_map(|index| error_in(&stand.ask(pend("g", PRODUCER, &[(index, 5, 100)]))));
    assert!(is_limit(&refused.expect("there is no more room")));
    assert!(stand.coordinator.held_bytes() < 12_000);
    stand.restart(settings);
    assert!((8_000..12_000).contains(&stand.coordinator.held_bytes()));
    stand.ask(end(PRODUCER, false));
    assert_eq!(stand.coordinator.held_bytes(), 0);
}

#[test]
fn so_much_may_be_pending() {
    let settings = Settings {
        offsets_max: 3,
        ..at_once()
    };
    let mut stand = Stand::empty(settings);
    let told = stand.ask(pend("g", PRODUCER, &[(0, 5, 0), (1, 5, 0), (2, 5, 0), (3, 5, 0)]));
    assert!(is_limit(&error_in(&told).expect("the last is one too many")));
    assert_eq!(pending_records(&stand), 3);
    // Those that are there go on.
    assert_eq!(error_in(&stand.ask(pend("g", PRODUCER, &[(0, 6, 0)]))), None);
    stand.ask(end(PRODUCER, true));
    assert_eq!(stand.committed("g"), [(0, 6), (1, 5), (2, 5)]);
    assert_eq!(error_in(&stand.ask(pend("g", PRODUCER, &[(1, 7, 0)]))), None);
    // One partition has so many producers.
    let mut stand = Stand::empty(at_once());
    let refused = (0..200).find_map(|producer| {
        let told = stand.ask(pend("g", producer, &[(0, producer, 0)]));
        error_in(&told).map(|error| (producer, error))
    });
    let (refused, error) = refused.expect("there are too many");
    assert!(refused == 100 && is_limit(&error), "{refused}: {error}");
    for producer in 0..200 {
        stand.ask(end(producer, true));
    }
    assert_eq!(stand.committed("g"), [(0, 99)]);
    assert_eq!(pending_records(&stand), 0);
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    let mut stand = Stand::new();
    for request in [pend(CONSUMER, -1, &[(0, 5, 0)]), end(-1, true)] {
        let error = stand.refused(request);
        assert!(matches!(error, GroupError::InvalidRequest { .. }), "{error}");
    }
    let error = stand.refused(pend("", PRODUCER, &[(0, 5, 0)]));
    assert!(matches!(error, GroupError::InvalidGroupId { .. }), "{error}");
}

/// The log of a group is written anew behind itself, and the process dies at any record of that: it replays to the same.
#[test]
fn a_group_that_is_written_anew_in_part_is_the_same() {
    let mut stand = Stand::empty(at_once());
    stand.ask(pend("g", 1, &[(0, 5, 0), (1, 5, 0)]));
    stand.ask(pend("g", 2, &[(0, 6, 0)]));
    stand.ask(Request::CommitOffsets(commit(
        "g",
        "",
        -1,
        &[(0, 7, 0), (2, 7, 0)],
    )));
    stand.now += std::time::Duration::from_secs(1);
    stand.ask(pend("g", 3, &[(0, 8, 0)]));
    stand.ask(pend("g", 2, &[(1, 9, 0)]));
    let image: Vec<StoredRecord> = stand.coordinator.image().collect();
    let log = stand.log.clone();
    for written in 0..=image.len() {
        // With what was before, and at last without it.
        for before in [&log[..], &[]] {
            if before.is_empty() && written < image.len() {
                continue;
            }
            let again = before.iter().chain(&image[..written]).cloned().collect();
            let mut stand = Stand::of_log(at_once(), again);
            let held: Vec<StoredRecord> = stand.coordinator.image().collect();
            assert_eq!(held, image, "{written} records are written anew");
            for (producer, offsets) in [
                (2, [(0, 7), (1, 9), (2, 7)]),
                (1, [(0, 7), (1, 9), (2, 7)]),
                (3, [(0, 8), (1, 9), (2, 7)]),
            ] {
                stand.ask(end(producer, true));
                assert_eq!(stand.committed("g"), offsets);
            }
        }
    }
}
