//! What is asked while the log has not taken yet what came before: nothing that was acknowledged goes, and no more waits than
//! there is room for.

use protocol::groups::{
    Action, Answer, CommitOffsets, GroupError, MemberPresence, Name, PersistId, Request, Settings,
    StoredRecord, Ticket, TopicChange,
};
use record::TopicId;

use crate::{CONSUMER, ORDERS, Stand, at_once, commit, error_in, heartbeat, join, sync};

/// The topic `orders`, made again.
const ANEW: TopicId = TopicId([2; 16]);

/// Asks, and leaves what that stores to the log.
fn ask(stand: &mut Stand, request: Request) -> Ticket {
    let ticket = Ticket(stand.next_ticket);
    stand.next_ticket += 1;
    stand.coordinator.handle_request(stand.now, ticket, request);
    ticket
}

/// What the log is to take. Answers are noted.
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

/// The log takes all of it, and then whatever comes.
fn take(stand: &mut Stand, changes: Vec<(PersistId, Vec<StoredRecord>)>) {
    for (id, records) in changes {
        stand.log.extend(records);
        stand.coordinator.handle_persisted(stand.now, id, Ok(()));
    }
    stand.settle();
}

fn commit_anew(offset: i64) -> Request {
    let mut committing: CommitOffsets = commit("g", "", -1, &[(0, offset, 0)]);
    committing.partitions[0].topic_id = ANEW;
    Request::CommitOffsets(committing)
}

fn orders_anew() -> TopicChange {
    TopicChange::There {
        topic: Name::from("orders"),
        id: ANEW,
        partition_count: 2,
    }
}

/// The topic that a group has offsets of is deleted and made again; a commit for the new one is under way when the group is
/// told so, and others come then.
fn commit_while_topics_change(later: &[i64]) -> Stand {
    let mut stand = Stand::empty(at_once());
    let before = commit("g", "", -1, &[(0, 5, 0), (1, 5, 0)]);
    stand.ask(Request::CommitOffsets(before));
    let topics = [TopicChange::Gone { id: ORDERS }, orders_anew()];
    stand.coordinator.handle_topics(stand.now, topics);
    let mut tickets = vec![ask(&mut stand, commit_anew(7))];
    let mut changes = under_way(&mut stand);
    assert_eq!(changes.len(), 1);
    stand.coordinator.handle_time(stand.now);
    for offset in later {
        tickets.push(ask(&mut stand, commit_anew(*offset)));
    }
    changes.extend(under_way(&mut stand));
    take(&mut stand, changes);
    for ticket in tickets {
        assert_eq!(error_in(&stand.answers[&ticket]), None);
    }
    stand.assert_replays(orders_anew());
    stand
}

#[test]
fn a_commit_under_way_stays_when_the_topic_before_is_forgotten() {
    let mut stand = commit_while_topics_change(&[]);
    assert_eq!(stand.committed("g"), [(0, 7)]);
    let left = stand.coordinator.image().count();
    assert_eq!(left, 1, "what was committed for the topic before is gone");
}

#[test]
fn commits_that_never_pause_do_not_keep_the_topic_before() {
    let mut stand = commit_while_topics_change(&[8, 9]);
    assert_eq!(stand.committed("g"), [(0, 9)]);
    assert_eq!(stand.coordinator.image().count(), 1);
}

/// Large requests at a closed gate: beyond the room for them clients are told to come again, and what has waited makes room.
#[test]
fn so_much_waits_for_a_change() {
    let settings = Settings {
        waiting_bytes_max: 300_000,
        ..at_once()
    };
    let mut stand = Stand::with_groups(settings);
    let large = vec![7; 100_000];
    for member in ["bob", "cid"] {
        ask(&mut stand, heartbeat(CONSUMER, member, MemberPresence::Joining));
        let changes = under_way(&mut stand);
        assert_eq!(changes.len(), 1);
        let syncing = || sync(CONSUMER, "ann", 1, &[("ann", &large)]);
        let tickets: Vec<Ticket> = (0..5).map(|_| ask(&mut stand, syncing())).collect();
        assert!(under_way(&mut stand).is_empty());
        let told: Vec<&Answer> = tickets
            .iter()
            .filter_map(|ticket| stand.answers.get(ticket))
            .collect();
        assert_eq!(told.len(), 3, "two have room to wait");
        for answer in told {
            assert_eq!(error_in(answer), Some(GroupError::NotPersisted));
        }
        take(&mut stand, changes);
        assert!(tickets.iter().all(|ticket| stand.answers.contains_key(ticket)));
    }
}

/// Commits do not wait for each other, but for the log: each takes many times what its request did.
#[test]
fn so_much_is_committed_at_once() {
    let settings = Settings {
        waiting_bytes_max: 300_000,
        ..at_once()
    };
    let mut stand = Stand::empty(settings);
    let offsets: Vec<(i32, i64, usize)> = (0..400).map(|partition| (partition, 5, 0)).collect();
    let group = "g".repeat(200);
    let committing = || Request::CommitOffsets(commit(&group, "", -1, &offsets));
    let mut changes = Vec::new();
    let mut refused = Vec::new();
    for _ in 0..10 {
        let ticket = ask(&mut stand, committing());
        changes.extend(under_way(&mut stand));
        refused.extend(stand.answers.get(&ticket).map(error_in));
    }
    assert!((1..=3).contains(&changes.len()), "{}", changes.len());
    assert_eq!(refused.len(), 10 - changes.len());
    assert!(
        refused
            .iter()
            .all(|error| *error == Some(GroupError::NotPersisted))
    );
    // Nobody is told what the log does not know yet.
    assert!(stand.committed(&group).is_empty());
    take(&mut stand, changes);
    let later = stand.ask(committing());
    assert_eq!(error_in(&later), None);
    assert_eq!(stand.committed(&group).len(), 400);
}

/// What leaders hand out waits for the log as well.
#[test]
fn so_much_is_handed_out_at_once() {
    let settings = Settings {
        waiting_bytes_max: 300_000,
        ..at_once()
    };
    let mut stand = Stand::empty(settings);
    let [one, other] = ["one", "other"].map(|group| match stand.ask(join(group, "", "ann")) {
        Answer::Join(Ok(joined)) => joined.member,
        other => panic!("{other:?}"),
    });
    let large = vec![7; 200_000];
    let syncing = |group, leader: &Name| sync(group, leader, 1, &[(leader, &large)]);
    let first = ask(&mut stand, syncing("one", &one));
    let changes = under_way(&mut stand);
    assert_eq!(changes.len(), 1);
    let second = ask(&mut stand, syncing("other", &other));
    assert!(under_way(&mut stand).is_empty());
    let error = error_in(&stand.answers[&second]);
    assert_eq!(error, Some(GroupError::NotPersisted));
    take(&mut stand, changes);
    assert_eq!(error_in(&stand.answers[&first]), None);
    let synced = stand.ask(syncing("other", &other));
    assert_eq!(error_in(&synced), None);
}
