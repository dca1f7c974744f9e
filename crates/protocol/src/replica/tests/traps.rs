//! Assumptions that hold on one node, and are wrong as soon as another one leads or follows.

use std::time::Duration;

use planted::{Bug, with};
use record::{Epoch, Offset};

use super::world::{NOW, node_id};
use crate::history::{BatchFacts, History, Part};
use crate::leader::{self, Append, AppendError, Checked, NodeId};
use crate::producers::{Admission, ProducerId, ProducerLimits, Stamp};
use crate::replica::lease::Believer;
use crate::replica::link::{FrameNumber, Generation, ReceiveCursor};
use crate::replica::{
    Action, Assignment, Configuration, NO_EPOCH, Persist, Prompt, Refusal, Replica, RoleName, Standing,
    Stored, Sworn,
};

const LEADER: NodeId = NodeId(0);
const FOLLOWER: NodeId = NodeId(1);

fn recover(node: NodeId, stored: Stored) -> Replica {
    Replica::recover(NOW, node, ProducerLimits::default(), stored).expect("it is sound")
}

fn assign(replica: &mut Replica, epoch: i32, leader: NodeId, earlier: bool) {
    let configuration = Configuration {
        replicas: (0..3).map(node_id).collect(),
        ack_quorum: 2,
    };
    let assignment = Assignment {
        epoch: Epoch(epoch),
        leader,
        configuration: configuration.clone(),
        earlier: if earlier { vec![configuration] } else { Vec::new() },
        joining: Vec::new(),
        uncertain: Vec::new(),
    };
    replica.handle_assignment(NOW, assignment);
}

fn actions(replica: &mut Replica) -> Vec<Action> {
    std::iter::from_fn(|| replica.next_action()).collect()
}

/// Tells a replica what it has sworn to itself: its disk is done with all of it.
fn flush(replica: &mut Replica, node: NodeId, actions: &[Action]) {
    for action in actions {
        if let Action::SendDurable { to, message } = action
            && *to == node
        {
            replica.handle_sworn(NOW, node, message);
        }
    }
}

fn batch(epoch: i32, first_offset: i64) -> BatchFacts {
    BatchFacts {
        epoch: Epoch(epoch),
        first_offset: Offset(first_offset),
        record_count: 1,
        max_timestamp_ms: 0,
        producer: None,
        part: Part::Outside,
    }
}

/// Appends a record; the entry and the acknowledgement that waits for its flush come back.
fn append_one(leader: &mut Replica) -> Vec<Action> {
    let append = Append {
        record_count: 1,
        max_timestamp_ms: 0,
        producer: None,
        inside: None,
    };
    let admission = Admission {
        now: NOW,
        next_id: ProducerId(1),
        from: None,
        has_room: true,
    };
    let Ok(Checked::New(numbered)) = leader.check_append(&append, &admission) else {
        panic!("a quorum is live");
    };
    leader.handle_append(NOW, numbered);
    actions(leader)
}

fn append_and_flush(leader: &mut Replica) {
    let appended = append_one(leader);
    flush(leader, LEADER, &appended);
}

/// One node opens an epoch above all that it finds, and refuses a log that has batches of the metadata's own. A follower's log has them
/// by right: another node's leader wrote them. It goes on with that epoch, and may lead the next.
#[test]
fn a_follower_starts_with_batches_of_the_epoch_that_the_metadata_has_now() {
    let mut stored = Stored::default();
    for entry in [batch(0, 0), batch(1, 1)] {
        stored.replay(&Persist::Append { batch: entry });
    }
    let mut replica = recover(FOLLOWER, stored);
    assign(&mut replica, 1, LEADER, true);
    let append = Prompt::Append {
        epoch: Epoch(1),
        writer_before: Epoch(1),
        batches: vec![batch(1, 2)],
    };
    replica.handle_prompt(NOW, LEADER, &append);
    assert_eq!(
        (replica.role(), replica.next_offset()),
        (RoleName::Following, Offset(3))
    );
    actions(&mut replica);

    assign(&mut replica, 2, FOLLOWER, true);
    let opening = actions(&mut replica);
    flush(&mut replica, FOLLOWER, &opening);
    let standing = promised_here(&opening);
    let promised = Sworn::Promised {
        epoch: Epoch(2),
        standing,
        believers: Vec::new(),
    };
    replica.handle_sworn(NOW, node_id(2), &promised);
    assert_eq!(replica.role(), RoleName::Leading);
    assert_eq!(replica.next_offset(), Offset(3), "it opens over the whole log");
}

/// A leader that was cut off takes its tail for the latest until its lease is over, or until it hears better. A later epoch must not commit
/// before that.
#[test]
fn an_epoch_opens_when_nobody_can_believe_in_an_earlier_one_any_more() {
    let second = Duration::from_secs(1);
    for (node, promises, opens) in [
        (Some(LEADER), false, false),
        (Some(LEADER), true, true),
        (None, true, false),
    ] {
        let mut replica = recover(FOLLOWER, Stored::default());
        assign(&mut replica, 1, LEADER, true);
        assign(&mut replica, 2, FOLLOWER, true);
        let opening = actions(&mut replica);
        flush(&mut replica, FOLLOWER, &opening);
        let promised = |believers| Sworn::Promised {
            epoch: Epoch(2),
            standing: promised_here(&opening),
            believers,
        };
        let left = Duration::from_millis(100);
        replica.handle_sworn(second, node_id(2), &promised(vec![Believer { node, left }]));
        assert_eq!(replica.role(), RoleName::Opening);
        let until = second + left / 4 * 5;
        assert!(actions(&mut replica).contains(&Action::Wake { at: until }));
        if promises {
            replica.handle_sworn(second, LEADER, &promised(Vec::new()));
        }
        assert_eq!(replica.role() == RoleName::Leading, opens, "{node:?} {promises}");
        replica.handle_look(until);
        assert_eq!(replica.role(), RoleName::Leading, "time has passed");
    }
}

/// Nothing is sent to followers where nothing is uncertain, so they acknowledge nothing before the first append. They hold everything all the same.
#[test]
fn an_idle_leader_can_give_its_place_to_a_follower_that_promised_the_same() {
    let mut replica = recover(FOLLOWER, Stored::default());
    assign(&mut replica, 2, FOLLOWER, true);
    let opening = actions(&mut replica);
    flush(&mut replica, FOLLOWER, &opening);
    let promised = Sworn::Promised {
        epoch: Epoch(2),
        standing: promised_here(&opening),
        believers: Vec::new(),
    };
    replica.handle_sworn(NOW, LEADER, &promised);
    assert_eq!(replica.role(), RoleName::Leading);
    assert_eq!(
        (replica.preferred(), replica.successor()),
        (Some(LEADER), Some(LEADER))
    );
    replica.handle_link_lost(NOW, LEADER);
    assert_eq!((replica.preferred(), replica.successor()), (None, None));
}

/// The one that is listened to no more is told.
#[test]
fn a_leader_is_left_once_when_a_later_one_is_heard() {
    let mut replica = recover(FOLLOWER, Stored::default());
    assign(&mut replica, 1, LEADER, true);
    actions(&mut replica);
    let left = |actions: Vec<Action>| {
        let leaves = actions
            .into_iter()
            .filter(|action| matches!(action, Action::Leave { .. }));
        leaves.collect::<Vec<_>>()
    };
    let later = Prompt::Seal { epoch: Epoch(3) };
    let told = Action::Leave {
        leader: LEADER,
        epoch: Epoch(1),
        floor: Epoch(3),
    };
    replica.handle_prompt(NOW, node_id(2), &later);
    assert_eq!(left(actions(&mut replica)), [told]);
    replica.handle_prompt(NOW, node_id(2), &later);
    assign(&mut replica, 2, LEADER, true);
    assign(&mut replica, 3, node_id(2), true);
    assert_eq!(left(actions(&mut replica)), []);
}

/// The metadata gave it a later epoch, of which it has not heard, and then the next one to another: it leads neither.
#[test]
fn a_leader_ends_when_it_is_left_in_a_later_epoch_of_its_own() {
    let mut leader = recover(LEADER, Stored::default());
    assign(&mut leader, 0, LEADER, false);
    let own = actions(&mut leader);
    flush(&mut leader, LEADER, &own);
    assert_eq!(leader.role(), RoleName::Leading);
    let mut follower = recover(FOLLOWER, Stored::default());
    for (epoch, of) in [(0, LEADER), (1, LEADER), (2, node_id(2))] {
        assign(&mut follower, epoch, of, epoch > 0);
    }
    let told = actions(&mut follower);
    let leaves = told.iter().filter_map(|action| match action {
        Action::Leave { leader, epoch, floor } => Some((*leader, *epoch, *floor)),
        _ => None,
    });
    let (of, epoch, floor) = leaves.last().expect("the leader before is told");
    assert_eq!(of, LEADER);
    let refusal = Refusal::Fenced { floor };
    leader.handle_prompt(NOW, FOLLOWER, &Prompt::Refused { epoch, refusal });
    assert_eq!(leader.role(), RoleName::Sealed);
    // One that comes late ends nothing.
    assign(&mut leader, 3, LEADER, true);
    leader.handle_prompt(NOW, FOLLOWER, &Prompt::Refused { epoch, refusal });
    assert_eq!(leader.role(), RoleName::Opening);
}

fn promised_here(actions: &[Action]) -> Standing {
    let own = actions.iter().find_map(|action| match action {
        Action::SendDurable {
            message: Sworn::Promised { standing, .. },
            ..
        } => Some(*standing),
        _ => None,
    });
    own.expect("a leader promises its own epoch first")
}

/// A flush may block the core. An entry goes to the followers before the leader's own flush, as a message that claims nothing of a
/// disk; an acknowledgement, the leader's own too, is of the type that waits for the flush, and comes behind its entry.
#[test]
fn entries_leave_before_the_flush_and_acknowledgements_after_it() {
    let mut leader = recover(LEADER, Stored::default());
    assign(&mut leader, 0, LEADER, false);
    let opening = actions(&mut leader);
    flush(&mut leader, LEADER, &opening);
    for follower in [1, 2].map(node_id) {
        let acknowledged = Sworn::Acknowledged {
            epoch: Epoch(0),
            accepted: Epoch(0),
            next_offset: Offset::ZERO,
        };
        leader.handle_sworn(NOW, follower, &acknowledged);
    }
    actions(&mut leader);

    let appended = append_one(&mut leader);
    let [
        Action::Persist(entry),
        Action::SendDurable { to: LEADER, message },
    ] = appended.as_slice()
    else {
        panic!("an entry, and the leader's own acknowledgement behind it: {appended:?}");
    };
    assert!(matches!(
        message,
        Sworn::Acknowledged {
            next_offset: Offset(1),
            ..
        }
    ));
    assert_eq!(leader.live_followers().count(), 2);
    let message = leader
        .as_message(entry)
        .expect("followers get it before any flush");
    assert_eq!(leader.tail(), Offset::ZERO, "nothing is durable yet");

    let mut follower = recover(FOLLOWER, Stored::default());
    assign(&mut follower, 0, LEADER, false);
    follower.handle_prompt(NOW, LEADER, &message);
    let taken = actions(&mut follower);
    assert!(
        matches!(
            taken.as_slice(),
            [
                Action::Persist(Persist::Append { .. }),
                Action::SendDurable {
                    to: LEADER,
                    message: Sworn::Acknowledged { .. }
                }
            ]
        ),
        "{taken:?}"
    );
}

/// A frame is of one journal: its number and its checksum are that journal's. A batch in it is the same in every replica's log, in a
/// frame of another number: a follower says that the leader's frame is durable once its own is.
#[test]
fn entries_are_copied_and_frames_are_not() {
    let entry = batch(0, 0);
    let message = Prompt::Append {
        epoch: Epoch(0),
        writer_before: NO_EPOCH,
        batches: vec![entry],
    };
    let mut follower = recover(FOLLOWER, Stored::default());
    assign(&mut follower, 0, LEADER, false);
    follower.handle_prompt(NOW, LEADER, &message);
    let taken = actions(&mut follower);
    let expected = Action::Persist(Persist::Append { batch: entry });
    assert_eq!(
        taken.first(),
        Some(&expected),
        "the batch keeps its epoch and its offsets"
    );

    let (leaders, own) = (FrameNumber(7), FrameNumber(3));
    let mut link = ReceiveCursor::default();
    link.handle_taken(Generation(1), FrameNumber(6));
    link.handle_frame(Generation(1), leaders, FrameNumber(6))
        .expect("it follows");
    link.handle_staged(own);
    link.handle_flushed(FrameNumber(2));
    let before = link.next_ack().expect("it has arrived");
    assert_eq!((before.received, before.durable), (leaders, FrameNumber(6)));
    link.handle_flushed(own);
    assert_eq!(link.next_ack().expect("it is durable").durable, leaders);
}

/// Also of one whose disk is in doubt already: what it has acknowledged and what was reported of it is not true any more.
#[test]
fn a_disk_that_is_doubted_again_is_asked_again_what_it_holds() {
    let joiner = node_id(3);
    let mut leader = recover(LEADER, Stored::default());
    let configuration = Configuration {
        replicas: (0..3).map(node_id).collect(),
        ack_quorum: 2,
    };
    let assignment = Assignment {
        epoch: Epoch(0),
        leader: LEADER,
        configuration,
        earlier: Vec::new(),
        joining: vec![joiner],
        uncertain: Vec::new(),
    };
    leader.handle_assignment(NOW, assignment);
    let opening = actions(&mut leader);
    flush(&mut leader, LEADER, &opening);
    let acknowledge = |leader: &mut Replica, accepted: Epoch| {
        let acknowledged = Sworn::Acknowledged {
            epoch: Epoch(0),
            accepted,
            next_offset: Offset::ZERO,
        };
        leader.handle_sworn(NOW, joiner, &acknowledged);
        actions(leader).contains(&Action::CaughtUp { replica: joiner })
    };
    let is_awaited = |leader: &Replica| leader.awaited().contains(&joiner);

    assert!(is_awaited(&leader));
    assert!(
        !acknowledge(&mut leader, NO_EPOCH),
        "it has not accepted the epoch"
    );
    assert!(acknowledge(&mut leader, Epoch(0)));
    assert!(!is_awaited(&leader));
    for _ in 0..2 {
        leader.handle_doubt(NOW, joiner);
        assert!(is_awaited(&leader), "what it has said counts no more");
        assert!(acknowledge(&mut leader, Epoch(0)), "it is reported anew");
        assert!(!is_awaited(&leader));
    }
}

/// A journal may not have room for all that a replica lacks until what it has is committed, and nobody tells a quiet partition's tail again.
#[test]
fn a_tail_that_was_heard_early_counts_for_what_comes_later() {
    let mut follower = recover(FOLLOWER, Stored::default());
    assign(&mut follower, 1, LEADER, true);
    let epoch = Epoch(1);
    let commit = |tail| Prompt::Commit {
        epoch,
        tail: Offset(tail),
    };
    let append = |first_offset| Prompt::Append {
        epoch,
        writer_before: if first_offset == 0 { NO_EPOCH } else { Epoch(0) },
        batches: vec![batch(0, first_offset)],
    };
    follower.handle_prompt(NOW, LEADER, &append(0));
    follower.handle_prompt(NOW, LEADER, &commit(2));
    assert_eq!(follower.tail(), Offset(1));
    follower.handle_prompt(NOW, LEADER, &append(1));
    assert_eq!(follower.tail(), Offset(2));
    follower.handle_prompt(NOW, LEADER, &append(2));
    assert_eq!(follower.tail(), Offset(2), "nobody has said that it is committed");
    let told = |action: &Action| matches!(action, Action::Committed { .. });
    assert_eq!(
        actions(&mut follower)
            .iter()
            .filter(|action| told(action))
            .count(),
        2
    );

    // Another leader knows only of its own epoch's tail.
    assign(&mut follower, 2, node_id(2), true);
    let append = Prompt::Append {
        epoch: Epoch(2),
        writer_before: Epoch(0),
        batches: vec![batch(2, 3)],
    };
    follower.handle_prompt(NOW, node_id(2), &append);
    assert_eq!(follower.tail(), Offset(2));
}

fn acknowledge(leader: &mut Replica, from: NodeId, next_offset: i64) -> Vec<leader::Action> {
    let acknowledged = Sworn::Acknowledged {
        epoch: Epoch(0),
        accepted: Epoch(0),
        next_offset: Offset(next_offset),
    };
    leader.handle_sworn(NOW, from, &acknowledged);
    commits(leader)
}

fn commits(replica: &mut Replica) -> Vec<leader::Action> {
    let commit = |action| match action {
        Action::Leader(action @ leader::Action::Commit { .. }) => Some(action),
        _ => None,
    };
    actions(replica).into_iter().filter_map(commit).collect()
}

/// `min.insync.replicas` above the ack quorum: what is acknowledged is on so many disks, and what the quorum holds can be read all the same when
/// one of them is away.
#[test]
fn more_replicas_than_the_quorum_are_waited_for_while_they_are_there() {
    let (second, third) = (node_id(1), node_id(2));
    let commit = |tail, held| leader::Action::Commit {
        tail: Offset(tail),
        held: Offset(held),
    };
    let mut leader = recover(LEADER, Stored::default());
    leader.handle_insync_min(NOW, 3);
    assign(&mut leader, 0, LEADER, false);
    let opening = actions(&mut leader);
    flush(&mut leader, LEADER, &opening);
    assert_eq!(acknowledge(&mut leader, second, 0), []);
    let refused = AppendError::NotEnoughReplicas {
        replicas: 2,
        wanted: 3,
    };
    assert_eq!(leader.check_insync(3), Err(refused));
    assert_eq!(leader.check_insync(2), Ok(()));
    assert_eq!(acknowledge(&mut leader, third, 0), []);
    assert_eq!(
        leader.check_insync(9),
        Ok(()),
        "more than there are is never wanted"
    );

    append_and_flush(&mut leader);
    assert_eq!(acknowledge(&mut leader, second, 1), []);
    assert_eq!(acknowledge(&mut leader, third, 1), [commit(1, 1)]);

    append_and_flush(&mut leader);
    assert_eq!(acknowledge(&mut leader, second, 2), []);
    leader.handle_link_lost(NOW, third);
    assert_eq!(
        commits(&mut leader),
        [commit(2, 0)],
        "two hold it, and the third may have lost all"
    );
    assert_eq!(leader.check_insync(3), Err(refused));
    append_and_flush(&mut leader);
    assert_eq!(
        acknowledge(&mut leader, second, 3),
        [commit(3, 0)],
        "the third may have lost all"
    );
    leader.handle_insync_min(NOW, 1);
    append_and_flush(&mut leader);
    assert_eq!(acknowledge(&mut leader, second, 4), [commit(4, 4)]);
}

/// A disk may stand still while its node says that it is alive.
#[test]
fn a_member_that_stands_still_is_waited_for_no_longer_than_ten_seconds() {
    let (second, third) = (node_id(1), node_id(2));
    let seconds = |seconds| NOW + Duration::from_secs(seconds);
    let mut leader = recover(LEADER, Stored::default());
    leader.handle_insync_min(NOW, 3);
    assign(&mut leader, 0, LEADER, false);
    let opening = actions(&mut leader);
    flush(&mut leader, LEADER, &opening);
    for follower in [second, third] {
        assert_eq!(acknowledge(&mut leader, follower, 0), []);
    }
    let looked = |leader: &mut Replica, at| {
        leader.handle_look(at);
        (commits(leader).len(), leader.check_insync(3).is_ok())
    };
    assert_eq!(
        looked(&mut leader, seconds(100)),
        (0, true),
        "nothing was appended"
    );
    append_and_flush(&mut leader);
    assert_eq!(acknowledge(&mut leader, second, 1), []);
    assert_eq!(looked(&mut leader, seconds(101)), (0, true));
    assert_eq!(looked(&mut leader, seconds(110)), (0, true));
    // It is slow, and goes along.
    assert_eq!(acknowledge(&mut leader, third, 1).len(), 1);
    append_and_flush(&mut leader);
    assert_eq!(acknowledge(&mut leader, second, 2), []);
    assert_eq!(looked(&mut leader, seconds(112)), (0, true));
    assert_eq!(looked(&mut leader, seconds(121)), (0, true));
    assert_eq!(
        looked(&mut leader, seconds(122)),
        (1, false),
        "the two others hold it"
    );
    assert_eq!(acknowledge(&mut leader, third, 2), []);
    assert_eq!(
        looked(&mut leader, seconds(123)),
        (0, true),
        "it goes along again"
    );
}

/// Compaction leaves gaps, and a message may be lost: a follower cannot tell which it is. It takes no batch that does not begin at its
/// end, also where the writer before is its own.
#[test]
fn a_batch_behind_a_gap_is_not_taken() {
    let mut follower = recover(FOLLOWER, Stored::default());
    assign(&mut follower, 0, LEADER, false);
    for (first_offset, writer_before) in [(0, NO_EPOCH), (2, Epoch(0))] {
        let append = Prompt::Append {
            epoch: Epoch(0),
            writer_before,
            batches: vec![batch(0, first_offset)],
        };
        follower.handle_prompt(NOW, LEADER, &append);
    }
    assert_eq!(follower.next_offset(), Offset(1));
    let refused = Prompt::Refused {
        epoch: Epoch(0),
        refusal: Refusal::Apart { tail: Offset::ZERO },
    };
    let expected = Action::Send {
        to: LEADER,
        message: refused,
    };
    assert_eq!(actions(&mut follower).last(), Some(&expected));
}

/// Where an operator gives up the others, each of those that are left may be the one that holds a record: one promise is not enough.
#[test]
fn an_unclean_epoch_opens_with_the_best_of_all_that_are_left() {
    let mut stored = Stored::default();
    stored.replay(&Persist::Append { batch: batch(0, 0) });
    let mut replica = recover(FOLLOWER, stored);
    let left = Configuration {
        replicas: vec![FOLLOWER, node_id(2)],
        ack_quorum: 2,
    };
    let all_of_them = Configuration {
        ack_quorum: 1,
        ..left.clone()
    };
    let assignment = Assignment {
        epoch: Epoch(2),
        leader: FOLLOWER,
        configuration: left.clone(),
        earlier: vec![all_of_them, left],
        joining: Vec::new(),
        uncertain: Vec::new(),
    };
    replica.handle_assignment(NOW, assignment);
    let opening = actions(&mut replica);
    flush(&mut replica, FOLLOWER, &opening);
    assert_eq!(replica.role(), RoleName::Opening);
    let standing = Standing {
        next_offset: Offset(2),
        ..promised_here(&opening)
    };
    let promised = Sworn::Promised {
        epoch: Epoch(2),
        standing,
        believers: Vec::new(),
    };
    replica.handle_sworn(NOW, node_id(2), &promised);
    let asked = actions(&mut replica);
    let locates = |action: &Action| matches!(action, Action::Send { to, message: Prompt::Locate { .. } } if *to == node_id(2));
    assert!(asked.iter().any(locates), "the longer log is copied: {asked:?}");
}

/// One that is left alone has nobody to wait for. The metadata waits for its word all the same: until then the others keep what they have.
#[test]
fn one_that_is_left_alone_settles_its_epoch_without_a_record() {
    let mut replica = recover(FOLLOWER, Stored::default());
    let alone = Configuration {
        replicas: vec![FOLLOWER],
        ack_quorum: 1,
    };
    let assignment = Assignment {
        epoch: Epoch(2),
        leader: FOLLOWER,
        configuration: alone.clone(),
        earlier: vec![alone.clone(), alone],
        joining: Vec::new(),
        uncertain: Vec::new(),
    };
    replica.handle_assignment(NOW, assignment);
    let mut told = Vec::new();
    for _ in 0..3 {
        let next = actions(&mut replica);
        flush(&mut replica, FOLLOWER, &next);
        told.extend(next);
    }
    assert_eq!(replica.role(), RoleName::Leading);
    let settled = Action::Settled { epoch: Epoch(2) };
    assert_eq!(
        told.iter().filter(|action| **action == settled).count(),
        1,
        "{told:?}"
    );
}

/// A replica that takes these in the place of the batches knows the same of epochs and producers.
#[test]
fn what_compaction_has_taken_is_told_by_epoch_and_by_producer() {
    let of = |epoch, first_offset, record_count, sequence: Option<i32>| BatchFacts {
        record_count,
        max_timestamp_ms: 1_000,
        producer: sequence.map(|first_sequence| Stamp {
            id: ProducerId(9),
            epoch: 0,
            first_sequence,
        }),
        ..batch(epoch, first_offset)
    };
    let written = [
        of(0, 0, 5, None),
        of(0, 5, 3, Some(0)),
        of(1, 8, 2, None),
        of(4, 10, 1, Some(3)),
    ];
    let history_of = |batches: &[BatchFacts]| {
        let mut history = History::new(ProducerLimits::default());
        let noted = batches.iter().try_for_each(|batch| history.replay(NOW, batch));
        noted.expect("epochs rise");
        history
    };
    let end = Offset(11);
    let replica = recover(
        FOLLOWER,
        Stored {
            next_offset: end,
            covered: end,
            history: history_of(&written).snapshot(NOW, end),
            ..Stored::default()
        },
    );
    let gone = |first, next| {
        let remembered = replica.remembered(Offset(first), Offset(next));
        replica.batches_gone(&remembered, Offset(first), Offset(next))
    };
    // All but their times: in an empty batch nothing is found by time.
    let timeless = |batches: &[BatchFacts]| {
        let timeless = batches.iter().map(|batch| BatchFacts {
            max_timestamp_ms: -1,
            ..*batch
        });
        Some(timeless.collect::<Vec<_>>())
    };
    assert_eq!(gone(0, 11), timeless(&written));
    // The rest of a batch whose beginning is not asked for is nobody's.
    assert_eq!(gone(6, 9), timeless(&[of(0, 6, 2, None), of(1, 8, 1, None)]));
    assert_eq!(gone(8, 8), Some(Vec::new()));
    assert_eq!(gone(8, 12), None, "the log does not reach so far");
    for bug in [Bug::GapsOfNobody, Bug::GapsOfOneEpoch] {
        let all = || [gone(0, 11), gone(6, 9)];
        assert_ne!(with(bug, all), all(), "{bug:?}");
    }
}

/// A leader may have compacted where the tail lies that it told before. The batch that stands for that part was committed, all of it: a
/// store must not be told that a batch is half committed.
#[test]
fn a_tail_that_lies_in_a_gap_commits_what_stands_for_it() {
    let follow = || {
        let mut replica = recover(FOLLOWER, Stored::default());
        assign(&mut replica, 1, LEADER, true);
        let epoch = Epoch(1);
        let empty = BatchFacts {
            record_count: 10,
            ..batch(0, 0)
        };
        let tail = Offset(5);
        replica.handle_prompt(NOW, LEADER, &Prompt::Commit { epoch, tail });
        let append = Prompt::Append {
            epoch,
            writer_before: NO_EPOCH,
            batches: vec![empty],
        };
        replica.handle_prompt(NOW, LEADER, &append);
        (replica.tail(), replica.next_offset())
    };
    assert_eq!(follow(), (Offset(10), Offset(10)));
    assert_eq!(with(Bug::CommitsPartOfGap, follow), (Offset(5), Offset(10)));
}
