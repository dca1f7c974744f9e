//! What must hold for any inputs: the tail never moves back, a sequence is accepted once, and a history that was
//! snapshotted, cut and replayed equals the one that went on running.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use protocol::{
    Action, Admission, Append, BatchFacts, Checked, History, Leader, LeaderState, NodeId, Part, ProducerId,
    ProducerLimits, Replica, Stamp,
};
use record::{Epoch, Offset};

#[derive(Debug, Clone)]
enum Input {
    Append {
        id: i64,
        epoch: i16,
        first_sequence: i32,
        record_count: i32,
    },
    Durable {
        replica: i32,
        next_offset: i64,
    },
    Trim(i64),
    Seal,
}

fn any_input() -> impl Strategy<Value = Input> {
    prop_oneof![
        20 => (0..3i64, 0..2i16, 0..12i32, 1..4i32).prop_map(|(id, epoch, first_sequence, record_count)| {
            Input::Append { id, epoch, first_sequence, record_count }
        }),
        10 => (0..4i32, 0..40i64).prop_map(|(replica, next_offset)| Input::Durable { replica, next_offset }),
        3 => (-1..40i64).prop_map(Input::Trim),
        1 => Just(Input::Seal),
    ]
}

fn limits() -> ProducerLimits {
    ProducerLimits {
        producers_max: 2,
        retry_horizon: Duration::from_secs(20),
        expiration: Duration::from_secs(1_000_000),
    }
}

fn admission(now: Duration) -> Admission {
    Admission {
        now,
        next_id: ProducerId(1000),
        has_room: true,
        from: None,
    }
}

fn leader(ack_quorum: usize, limits: ProducerLimits) -> Leader {
    let replicas = (0..3)
        .map(|node| Replica {
            node: NodeId(node),
            next_offset: Offset::ZERO,
        })
        .collect();
    let single = LeaderState::single(
        NodeId(0),
        Epoch(0),
        Offset::ZERO,
        Offset::ZERO,
        History::new(limits),
    );
    Leader::open(LeaderState {
        replicas,
        ack_quorum,
        ..single
    })
}

proptest! {
    #[test]
    fn the_tail_never_moves_back_and_is_always_earned(
        inputs in prop::collection::vec(any_input(), 0..80),
        ack_quorum in 1usize..=3,
    ) {
        let mut leader = leader(ack_quorum, limits());
        let mut acknowledged = [Offset::ZERO; 3];
        let mut sealed = false;
        for (now, input) in (1..).zip(inputs) {
            let tail = leader.tail();
            match input {
                Input::Append { id, epoch, first_sequence, record_count } => {
                    let producer = Some(Stamp { id: ProducerId(id), epoch, first_sequence });
                    let append = Append { record_count, max_timestamp_ms: 0, producer, inside: None };
                    let now = Duration::from_secs(now);
                    if let Ok(Checked::New(numbered)) = leader.check_append(&append, &admission(now)) {
                        leader.handle_append(now, numbered);
                    }
                }
                Input::Durable { replica, next_offset } => {
                    if leader.handle_durable(NodeId(replica), Offset(next_offset)).is_ok() && !sealed {
                        let known = &mut acknowledged[usize::try_from(replica).expect("not negative")];
                        *known = (*known).max(Offset(next_offset));
                    }
                }
                Input::Trim(first_kept) => {
                    if let Ok(log_start) = leader.check_trim(Offset(first_kept)) {
                        leader.handle_trim(log_start);
                    }
                }
                Input::Seal => {
                    leader.handle_seal();
                    sealed = true;
                }
            }
            while let Some(action) = leader.next_action() {
                if let Action::Commit { tail, .. } = action {
                    prop_assert_eq!(tail, leader.tail());
                }
            }
            prop_assert!(leader.tail() >= tail);
            prop_assert!(!sealed || leader.tail() == tail);
            prop_assert!(leader.log_start() <= leader.tail() && leader.tail() <= leader.next_offset());
            let holders = acknowledged.iter().filter(|next_offset| **next_offset >= leader.tail()).count();
            prop_assert!(holders >= ack_quorum, "the tail {} is held by {}", leader.tail(), holders);
        }
    }

    #[test]
    fn a_producer_writes_each_sequence_once_while_it_may_retry_whoever_else_writes(
        inputs in prop::collection::vec((any_input(), 0..8u64, any::<bool>(), any::<bool>()), 0..200),
    ) {
        let mut leader = leader(1, limits());
        let mut now = Duration::ZERO;
        // When each producer has written last, and what since it last came back from a longer silence.
        let mut heard_of: BTreeMap<i64, (Duration, BTreeSet<(i16, i32)>)> = BTreeMap::new();
        for (input, seconds, has_room, looks_round) in inputs {
            let Input::Append { id, epoch, first_sequence, record_count } = input else { continue };
            now += Duration::from_secs(seconds);
            if looks_round {
                leader.forget_settled_producers(now);
            }
            let producer = Some(Stamp { id: ProducerId(id), epoch, first_sequence });
            let append = Append { record_count, max_timestamp_ms: 0, producer, inside: None };
            let admission = Admission { has_room, ..admission(now) };
            let Ok(Checked::New(numbered)) = leader.check_append(&append, &admission) else { continue };
            leader.handle_append(now, numbered);
            prop_assert!(leader.producers().len() <= limits().producers_max);
            let (last, written) = heard_of.entry(id).or_default();
            if now >= *last + limits().retry_horizon {
                written.clear();
            }
            *last = now;
            for sequence in first_sequence..first_sequence + record_count {
                prop_assert!(written.insert((epoch, sequence)), "{sequence} is written twice");
            }
        }
    }

    #[test]
    fn who_was_never_forgotten_begins_at_zero_and_leaves_nothing_out(
        inputs in prop::collection::vec((0..3i64, 0..12i32, 1..4i32, any::<bool>()), 0..200),
    ) {
        let mut history = History::new(ProducerLimits::default());
        history.producers.begin_at(ProducerId(0));
        let (node, start) = (NodeId(0), Offset::ZERO);
        let mut leader = Leader::open(LeaderState::single(node, Epoch(0), start, start, history));
        let mut expected = BTreeMap::new();
        for (id, first_sequence, record_count, journal_takes_it) in inputs {
            let producer = Some(Stamp { id: ProducerId(id), epoch: 0, first_sequence });
            let append = Append { record_count, max_timestamp_ms: 0, producer, inside: None };
            let now = Duration::ZERO;
            let Ok(Checked::New(numbered)) = leader.check_append(&append, &admission(now)) else { continue };
            if journal_takes_it {
                leader.handle_append(now, numbered);
                let expected = expected.entry(id).or_insert(0);
                prop_assert_eq!(first_sequence, *expected, "a batch went ahead of one that was refused");
                *expected += record_count;
            }
        }
    }

    #[test]
    fn snapshot_and_replay_equal_the_running_state(
        batches in prop::collection::vec((0..4i64, 1..4i32, 0..3i32), 1..60),
        checkpoint in any::<prop::sample::Index>(),
        snapshot_late in any::<bool>(),
    ) {
        let now = Duration::from_secs(5);
        let limits = ProducerLimits { producers_max: 100, ..limits() };
        let (mut running, mut facts) = (History::new(limits), Vec::new());
        let (mut next_offset, mut epoch, mut sequences) = (Offset::ZERO, 0, [0; 4]);
        for (id, record_count, epoch_steps) in batches {
            epoch += epoch_steps;
            let next_sequence = &mut sequences[usize::try_from(id).expect("not negative")];
            facts.push(BatchFacts {
                epoch: Epoch(epoch),
                first_offset: next_offset,
                record_count,
                max_timestamp_ms: 0,
                producer: Some(Stamp { id: ProducerId(id), epoch: 0, first_sequence: *next_sequence }),
                part: Part::Outside,
            });
            *next_sequence += record_count;
            next_offset = next_offset.advance(i64::from(record_count));
        }
        let below = checkpoint.index(facts.len());
        let checkpoint = facts[below].first_offset;
        let mut snapshot = running.snapshot(now, checkpoint);
        for (index, batch) in facts.iter().enumerate() {
            if index == below {
                snapshot = running.snapshot(now, checkpoint);
            }
            running.replay(now, batch).expect("epochs rise");
        }
        if snapshot_late {
            snapshot = running.snapshot(now, checkpoint);
        }
        let mut restored = History::restore(now, limits, &snapshot).expect("just written");
        for batch in &facts[below..] {
            restored.replay(now, batch).expect("epochs rise");
        }
        prop_assert_eq!(&restored.epochs, &running.epochs);
        let check = |history: &History, id, first_sequence| {
            let stamp = Stamp { id: ProducerId(id), epoch: 0, first_sequence };
            (1..4).map(|count| history.producers.check(stamp, count, &admission(now))).collect::<Vec<_>>()
        };
        if snapshot_late {
            // The order of silence may differ; what is accepted, what is a duplicate and what is refused must not.
            for (id, next) in (0..4).zip(sequences) {
                for first_sequence in 0..=next + 1 {
                    prop_assert_eq!(check(&restored, id, first_sequence), check(&running, id, first_sequence));
                }
            }
        } else {
            prop_assert_eq!(restored, running);
        }
    }
}
