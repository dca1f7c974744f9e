//! Tests of leaders that the scenario files cannot express: mistakes of our own that must stop the process, calls that take two
//! steps, and the state that a leader starts from.

use record::{BatchBuilder, Compression, Logged};

use super::*;
use crate::history::{History, RecoverError};
use crate::producers::{Admission, ProducerId, ProducerLimits, SequenceError, Stamp};

const NOW: Duration = Duration::from_secs(1);
const ANYBODY: Admission = Admission {
    now: NOW,
    next_id: ProducerId(1000),
    from: None,
    has_room: true,
};

fn leader() -> Leader {
    let history = History::new(ProducerLimits::default());
    Leader::open(LeaderState::single(
        NodeId(0),
        Epoch(0),
        Offset::ZERO,
        Offset::ZERO,
        history,
    ))
}

fn append(record_count: i32, first_sequence: i32) -> Append {
    let producer = Some(Stamp {
        id: ProducerId(1),
        epoch: 0,
        first_sequence,
    });
    Append {
        record_count,
        max_timestamp_ms: 0,
        producer,
        inside: None,
    }
}

fn number(leader: &Leader, append: &Append) -> Numbered {
    match leader.check_append(append, &ANYBODY) {
        Ok(Checked::New(numbered)) => numbered,
        other => panic!("expected a new batch, got {other:?}"),
    }
}

#[test]
fn a_refused_journal_leaves_no_trace() {
    let mut leader = leader();
    let dropped = number(&leader, &append(3, 0));
    drop(dropped);
    assert_eq!(leader.next_offset(), Offset(0));
    assert!(leader.producers().is_empty());
    let again = number(&leader, &append(3, 0));
    assert_eq!(leader.handle_append(NOW, again).next_offset, Offset(3));
}

/// The first of so many replicas.
fn leader_among(replicas: usize, ack_quorum: usize) -> Leader {
    let history = History::new(ProducerLimits::default());
    let node = |number| Replica {
        node: NodeId(number),
        next_offset: Offset::ZERO,
    };
    Leader::open(LeaderState {
        replicas: (0..).map(node).take(replicas).collect(),
        ack_quorum,
        ..LeaderState::single(NodeId(0), Epoch(0), Offset::ZERO, Offset::ZERO, history)
    })
}

#[test]
fn what_is_held_is_on_as_many_replicas_as_are_wanted_and_there() {
    // Nobody has said anything in this epoch yet, and what was found is committed all the same.
    let history = History::new(ProducerLimits::default());
    let opened = Leader::open(LeaderState {
        replicas: leader_among(3, 2).state.replicas,
        ack_quorum: 2,
        tail: Offset(5),
        ..LeaderState::single(NodeId(0), Epoch(0), Offset::ZERO, Offset(5), history)
    });
    assert_eq!((opened.tail(), opened.held()), (Offset(5), Offset(5)));
    for (wanted, held) in [(0, 2), (1, 2), (2, 2), (3, 1), (4, 1), (u32::MAX, 1)] {
        let mut leader = leader_among(3, 2);
        let three = number(&leader, &append(3, 0));
        leader.handle_append(NOW, three);
        leader.handle_insync_min(wanted, false);
        for (node, durable) in [(0, 3), (1, 2), (2, 1)] {
            let acknowledged = leader.handle_durable(NodeId(node), Offset(durable));
            acknowledged.expect("it was appended");
        }
        assert_eq!(
            (leader.tail(), leader.held()),
            (Offset(2), Offset(held)),
            "{wanted}"
        );
        // What is committed stays so, and nothing more is before all hold it.
        leader.handle_insync_min(wanted, true);
        leader
            .handle_durable(NodeId(1), Offset(3))
            .expect("it was appended");
        let tail = if wanted > 2 { 2 } else { 3 };
        assert_eq!(leader.tail(), Offset(tail), "{wanted}");
        leader.handle_insync_min(wanted, false);
        assert_eq!(leader.tail(), Offset(3), "{wanted}");
    }
}

#[test]
#[should_panic(expected = "given out once")]
fn a_number_is_good_for_one_append() {
    let mut leader = leader();
    let first = number(&leader, &append(3, 0));
    let second = number(&leader, &append(1, 0));
    leader.handle_append(NOW, first);
    leader.handle_append(NOW, second);
}

#[test]
#[should_panic(expected = "accepts nothing")]
fn a_number_from_before_the_seal_is_void() {
    let mut leader = leader();
    let numbered = number(&leader, &append(3, 0));
    leader.handle_seal();
    leader.handle_append(NOW, numbered);
}

#[test]
#[should_panic(expected = "numbered in the epoch that appends it")]
fn a_number_from_before_the_epoch_is_void() {
    let mut leader = leader();
    let numbered = number(&leader, &append(3, 0));
    leader.handle_epoch(Epoch(1));
    leader.handle_append(NOW, numbered);
}

#[test]
fn a_leader_that_goes_on_in_a_later_epoch_keeps_its_log() {
    let mut leader = leader();
    for (count, sequence) in [(3, 0), (2, 3)] {
        let numbered = number(&leader, &append(count, sequence));
        leader.handle_append(NOW, numbered);
    }
    leader.handle_durable(NodeId(0), Offset(3)).expect("appended");
    while leader.next_action().is_some() {}
    leader.handle_epoch(Epoch(4));
    assert_eq!(leader.epoch(), Epoch(4));
    assert_eq!((leader.tail(), leader.next_offset()), (Offset(3), Offset(5)));
    assert_eq!(
        leader.next_action(),
        None,
        "nothing was committed by that, nor given up"
    );
    assert_eq!(leader.epochs().at(Offset(4)), Some(Epoch(0)));
    let numbered = number(&leader, &append(1, 5));
    leader.handle_append(NOW, numbered);
    assert_eq!(leader.epochs().at(Offset(5)), Some(Epoch(4)));
    leader.handle_durable(NodeId(0), Offset(5)).expect("appended");
    assert_eq!(
        leader.next_action(),
        Some(Action::Commit {
            tail: Offset(5),
            held: Offset(5)
        })
    );
}

#[test]
fn what_followers_acknowledged_before_the_epoch_counts_no_more() {
    let mut leader = leader_among(3, 2);
    let numbered = number(&leader, &append(3, 0));
    leader.handle_append(NOW, numbered);
    leader.handle_durable(NodeId(1), Offset(3)).expect("appended");
    leader.handle_epoch(Epoch(1));
    leader.handle_durable(NodeId(0), Offset(3)).expect("appended");
    assert_eq!(leader.tail(), Offset(0));
    leader.handle_durable(NodeId(1), Offset(3)).expect("appended");
    assert_eq!(leader.tail(), Offset(3));
}

#[test]
fn a_sealed_leader_accepts_again_in_a_later_epoch() {
    let mut leader = leader();
    leader.handle_seal();
    assert_eq!(
        leader.check_append(&append(1, 0), &ANYBODY),
        Err(AppendError::Sealed { epoch: Epoch(0) })
    );
    leader.handle_epoch(Epoch(1));
    assert!(leader.check_append(&append(1, 0), &ANYBODY).is_ok());
}

#[test]
fn a_trim_that_the_journal_refused_leaves_no_trace() {
    let history = History::new(ProducerLimits::default());
    let mut leader = Leader::open(LeaderState::single(
        NodeId(0),
        Epoch(0),
        Offset(2),
        Offset(9),
        history,
    ));
    assert_eq!(leader.check_trim(Offset(5)), Ok(Offset(5)));
    assert_eq!(leader.log_start(), Offset(2));
    assert_eq!(leader.check_trim(Offset(1)), Ok(Offset(2)));
    leader.handle_trim(Offset(5));
    assert_eq!(leader.log_start(), Offset(5));
}

#[test]
#[should_panic(expected = "given up in a sealed epoch")]
fn a_trim_from_before_the_seal_is_void() {
    let mut leader = leader();
    let checked = leader.check_trim(Offset::ZERO);
    leader.handle_seal();
    leader.handle_trim(checked.expect("it was not sealed yet"));
}

/// A batch of one record, written in this epoch.
fn found(epoch: Epoch) -> Logged {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.append(0, None, Some(b"value"), &[]);
    let mut batch = builder.build().to_vec();
    record::set_leader_epoch(&mut batch, epoch);
    Logged::read(&batch).expect("it was just built")
}

#[test]
fn an_epoch_that_the_log_has_passed_is_not_opened() {
    let batches = [found(Epoch(3))];
    let recover = |epoch| {
        let found = Found {
            log_start: Offset::ZERO,
            next_offset: Offset(1),
            snapshot: &[],
            batches: &batches,
        };
        LeaderState::recover(
            NodeId(0),
            epoch,
            NOW,
            ProducerLimits::default(),
            ProducerId(0),
            Some(found),
        )
    };
    let latest = Epoch(3);
    for epoch in [Epoch(2), Epoch(3)] {
        assert_eq!(
            recover(Some(epoch)),
            Err(RecoverError::EpochPassed { epoch, latest })
        );
    }
    for (wanted, opened) in [(Some(Epoch(9)), Epoch(9)), (None, Epoch(4))] {
        let leader = Leader::open(recover(wanted).expect("it is above all in the log"));
        assert_eq!((leader.epoch(), leader.tail()), (opened, Offset(1)));
    }
}

#[test]
fn a_new_partition_begins_with_the_first_epoch_or_the_given_one() {
    for (wanted, opened) in [(Some(Epoch(7)), Epoch(7)), (None, Epoch(0))] {
        let state = LeaderState::recover(
            NodeId(0),
            wanted,
            NOW,
            ProducerLimits::default(),
            ProducerId(0),
            None,
        );
        let leader = Leader::open(state.expect("there is nothing to contradict"));
        assert_eq!((leader.epoch(), leader.next_offset()), (opened, Offset::ZERO));
    }
}

#[test]
fn offsets_end() {
    let history = History::new(ProducerLimits::default());
    let end = Offset(i64::MAX - 1);
    let leader = Leader::open(LeaderState::single(NodeId(0), Epoch(0), end, end, history));
    let refused = leader.check_append(&append(2, 0), &ANYBODY);
    assert_eq!(
        refused,
        Err(AppendError::OffsetsExhausted {
            next_offset: end,
            record_count: 2
        })
    );
}

#[test]
fn opening_commits_what_a_lone_leader_holds() {
    let history = History::new(ProducerLimits::default());
    let mut leader = Leader::open(LeaderState::single(
        NodeId(0),
        Epoch(4),
        Offset(2),
        Offset(9),
        history,
    ));
    assert_eq!(
        leader.next_action(),
        Some(Action::Commit {
            tail: Offset(9),
            held: Offset(9)
        })
    );
    assert_eq!(leader.next_action(), None);
    assert_eq!(leader.tail(), Offset(9));
}

/// A leader of three that has found a log that is committed up to 4 and ends at 9.
fn leader_over_what_was_found() -> Leader {
    let history = History::new(ProducerLimits::default());
    let (start, end) = (Offset::ZERO, Offset(9));
    let replica = |node| Replica {
        node: NodeId(node),
        next_offset: Offset::ZERO,
    };
    Leader::open(LeaderState {
        tail: Offset(4),
        replicas: (0..3).map(replica).collect(),
        ack_quorum: 2,
        ..LeaderState::single(NodeId(0), Epoch(4), start, end, history)
    })
}

#[test]
fn what_was_found_is_committed_once_the_ack_quorum_acknowledges_it_in_the_new_epoch() {
    let mut leader = leader_over_what_was_found();
    assert_eq!(leader.next_action(), None);
    assert_eq!((leader.tail(), leader.next_offset()), (Offset(4), Offset(9)));
    let numbered = number(&leader, &append(2, 0));
    assert_eq!(leader.handle_append(NOW, numbered).first_offset, Offset(9));
    leader.handle_durable(NodeId(2), Offset(9)).expect("found");
    assert_eq!(leader.tail(), Offset(4));
    leader.handle_durable(NodeId(1), Offset(11)).expect("appended");
    assert_eq!(
        leader.next_action(),
        Some(Action::Commit {
            tail: Offset(9),
            held: Offset(9)
        })
    );
}

#[test]
fn what_a_replica_acknowledged_before_it_was_lost_counts_no_more() {
    let mut leader = leader_over_what_was_found();
    leader.handle_durable(NodeId(1), Offset(9)).expect("found");
    leader.handle_lost(NodeId(1));
    leader.handle_durable(NodeId(0), Offset(9)).expect("found");
    assert_eq!(leader.tail(), Offset(4));
    leader.handle_durable(NodeId(1), Offset(6)).expect("found");
    assert_eq!(leader.tail(), Offset(6));
    leader.handle_lost(NodeId(1));
    assert_eq!(leader.tail(), Offset(6), "what is committed stays committed");
}

#[test]
fn a_snapshot_claims_committed_batches_only() {
    let mut leader = leader();
    let first = number(&leader, &append(3, 0));
    leader.handle_append(NOW, first);
    leader.handle_durable(NodeId(0), Offset(3)).expect("appended");
    let second = number(&leader, &append(2, 3));
    leader.handle_append(NOW, second);

    let (offset, bytes) = leader.snapshot_history(NOW);
    assert_eq!(offset, Offset(3));
    let restored = History::restore(NOW, ProducerLimits::default(), &bytes).expect("just written");
    let stamp = |first_sequence| Stamp {
        id: ProducerId(1),
        epoch: 0,
        first_sequence,
    };
    assert!(matches!(
        restored.producers.check(stamp(0), 3, &ANYBODY),
        Ok(Sequence::Duplicate(_))
    ));
    assert_eq!(
        restored.producers.check(stamp(3), 2, &ANYBODY),
        Ok(Sequence::Next),
        "the lost batch may be sent again"
    );
    assert_eq!(
        restored.producers.check(stamp(5), 1, &ANYBODY),
        Err(SequenceError::OutOfOrder { expected: 3, got: 5 })
    );
}
