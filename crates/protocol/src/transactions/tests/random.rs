//! Runs by seed: a few instances of two producers ask for anything at any time, the log and the partitions refuse now and then, the
//! coordinator restarts. After each step the checker compares what was told with what is durable.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::contract::*;
use super::super::record;
use super::super::state::IdState;
use super::world::*;
use crate::ProducerId;

/// Runs of one test.
pub(super) const SEEDS: u64 = 400;
const STEPS: usize = 300;

/// A generator whose numbers follow from its seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.below(sides) == 0
    }
}

/// Things that are known to be true, from the outside.
#[derive(Default)]
struct Checker {
    durable: BTreeMap<Name, IdState>,
    records_seen: usize,
    answers_seen: usize,
    asked: BTreeMap<Ticket, Request>,
    /// Tickets that must be answered: a restart loses them.
    open: BTreeSet<Ticket>,
    /// Partitions that have the marker of the transaction that is decided.
    told: BTreeSet<(Name, TopicPartition)>,
    /// Identities given to instances.
    given: BTreeSet<(Name, ProducerId, i16)>,
    /// Things that have happened: runs in which nothing happens prove nothing.
    seen: BTreeSet<&'static str>,
}

/// All that the runs together must have come to.
const TO_SEE: [&str; 14] = [
    "commit of version 1",
    "commit of version 2",
    "abort of version 1",
    "abort of version 2",
    "commit told",
    "abort told",
    "abort for an operator",
    "abort without a transaction",
    "another id at the end",
    "another id at the beginning",
    "given again",
    "partitions of the open transaction",
    "stale epoch",
    "refused by the log",
];

impl Checker {
    fn check(&mut self, world: &World) {
        for record in &world.log[self.records_seen..] {
            let (name, state) = record::decode(&record.key, record.value.as_deref()).expect("just written");
            self.check_step(&name, state);
        }
        self.records_seen = world.log.len();
        for (ticket, answer) in &world.answers[self.answers_seen..] {
            self.open.remove(ticket);
            let request = self.asked.get(ticket).expect("asked before").clone();
            self.note_answer(answer);
            self.check_answer(&request, answer);
        }
        self.answers_seen = world.answers.len();
        for marker in &world.markers {
            let decided = self.durable.values().any(|state| {
                state.phase.is_prepared()
                    && state.producer == marker.producer
                    && state.epoch == marker.producer_epoch
                    && state.phase.is_commit() == marker.commit
                    && state.partitions.contains(&marker.partition)
            });
            assert!(decided, "a marker of what is not decided: {marker:?}");
        }
        world.assert_replays();
    }

    /// A record is durable that follows another one of the same id.
    fn check_step(&mut self, name: &Name, next: Option<IdState>) {
        let before = self.durable.remove(name);
        let Some(next) = next else {
            let before = before.expect("only what is there is forgotten");
            assert!(before.phase != TransactionState::Ongoing && !before.phase.is_prepared());
            return;
        };
        if let Some(before) = &before {
            let identity = |state: &IdState| (state.producer, state.epoch);
            assert!(
                identity(&next) >= identity(before),
                "epochs never fall: {before:?} {next:?}"
            );
            self.check_transition(name, before, &next);
            self.note_step(before, &next);
        }
        if next.phase.is_prepared() {
            self.told.retain(|(other, _)| other != name);
        }
        self.durable.insert(Name::clone(name), next);
    }

    fn note_step(&mut self, before: &IdState, next: &IdState) {
        let version_2 = next.version == 2;
        let moves = next.producer != before.producer;
        self.seen.extend(match (next.phase, before.phase) {
            (TransactionState::PrepareCommit, _) if version_2 => Some("commit of version 2"),
            (TransactionState::PrepareCommit, _) => Some("commit of version 1"),
            (TransactionState::PrepareAbort, _) if version_2 => Some("abort of version 2"),
            (TransactionState::PrepareAbort, _) => Some("abort of version 1"),
            (TransactionState::Empty, _) if moves => Some("another id at the beginning"),
            (phase, _) if phase.is_complete() && moves => Some("another id at the end"),
            (phase, before) if phase.is_complete() && !before.is_prepared() => {
                Some("abort without a transaction")
            }
            (TransactionState::Ongoing, TransactionState::Ongoing) => {
                Some("partitions of the open transaction")
            }
            _ => None,
        });
    }

    fn note_answer(&mut self, answer: &Answer) {
        let error = match answer {
            Answer::Init(Err(error))
            | Answer::AddPartitions(Err(error))
            | Answer::End(Err(error))
            | Answer::Abort(Err(error)) => error,
            _ => return,
        };
        self.seen.extend(match error {
            TransactionError::StaleEpoch { .. } => Some("stale epoch"),
            TransactionError::NotPersisted => Some("refused by the log"),
            _ => None,
        });
    }

    fn check_transition(&self, name: &Name, before: &IdState, next: &IdState) {
        match before.phase {
            TransactionState::Ongoing if next.phase == TransactionState::Ongoing => {
                assert_eq!((next.producer, next.epoch), (before.producer, before.epoch));
                assert!(next.partitions.is_superset(&before.partitions));
                assert_eq!(next.start_ms, before.start_ms);
            }
            TransactionState::Ongoing => {
                assert!(next.phase.is_prepared(), "an open transaction is ended: {next:?}");
                let raised = before.epoch + i16::from(next.version == 2);
                assert_eq!(next.epoch, raised, "an end of version 2 has another epoch");
                assert_eq!(next.partitions, before.partitions);
            }
            phase if phase.is_prepared() => {
                // The completion, or the next change in its place.
                assert!(
                    !next.phase.is_prepared(),
                    "what is decided is completed: {next:?}"
                );
                let same = before.identity();
                let is_completion =
                    next.phase.is_complete() && (next.producer, next.epoch) == (same.producer, same.epoch);
                if is_completion {
                    assert_eq!(next.phase.is_commit(), phase.is_commit());
                }
                for partition in before.partitions.iter() {
                    let told = self.told.contains(&(Name::clone(name), partition.clone()));
                    assert!(told, "completed before {partition:?} is told");
                }
            }
            _ => assert!(
                !next.phase.is_prepared(),
                "only open transactions are decided: {next:?}"
            ),
        }
    }

    fn check_answer(&mut self, request: &Request, answer: &Answer) {
        let name = request.transactional_id().expect("all of them name an id");
        match (request, answer) {
            (Request::End(request), Answer::End(Ok(ended))) => {
                let state = self.durable.get(name).expect("known");
                assert!(
                    state.phase.is_prepared() || state.phase.is_complete(),
                    "told too early"
                );
                assert_eq!(state.phase.is_commit(), request.commit);
                let identity = state.identity();
                assert_eq!((identity.producer, identity.epoch), (ended.producer, ended.epoch));
                let was = (request.producer, request.epoch);
                assert_eq!((ended.producer, ended.epoch) > was, request.bumps_epoch);
                self.seen.insert(if request.commit {
                    "commit told"
                } else {
                    "abort told"
                });
            }
            (Request::Abort(request), Answer::Abort(Ok(()))) => {
                let state = self.durable.get(name).expect("known");
                let is_aborted = matches!(
                    state.phase,
                    TransactionState::PrepareAbort | TransactionState::CompleteAbort
                );
                assert!(is_aborted, "told too early");
                assert_eq!(state.start_ms, request.start_ms, "another one was meant");
                self.seen.insert("abort for an operator");
            }
            (Request::Init(request), Answer::Init(Ok(given))) => {
                let state = self.durable.get(name).expect("known");
                assert_eq!(state.phase, TransactionState::Empty);
                assert_eq!((state.producer, state.epoch), (given.producer, given.epoch));
                let given = (Name::clone(name), given.producer, given.epoch);
                let is_first = self.given.insert(given);
                assert!(
                    is_first || request.producer.is_some(),
                    "two instances have one epoch"
                );
                self.seen.extend((!is_first).then_some("given again"));
            }
            (Request::AddPartitions(request), Answer::AddPartitions(Ok(()))) => {
                let state = self.durable.get(name).expect("known");
                assert_eq!(state.phase, TransactionState::Ongoing);
                assert_eq!((state.producer, state.epoch), (request.producer, request.epoch));
                let added = &request.partitions;
                assert!(added.iter().all(|partition| state.partitions.contains(partition)));
            }
            _ => {}
        }
    }
}

struct Run {
    world: World,
    checker: Checker,
    dice: Dice,
    /// Identities that some instance has, or had.
    identities: Vec<(ProducerId, i16)>,
    /// Markers that were reported before.
    old: Vec<(Name, WriteMarker)>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut dice = Dice(seed);
        let world = match dice.below(2) {
            0 => World::new(),
            _ => World::at_epoch(32_763),
        };
        let mut checker = Checker {
            answers_seen: world.answers.len(),
            ..Checker::default()
        };
        checker.check(&world);
        Run {
            identities: vec![(ProducerId(1_000), 0), (ProducerId(1_000), 32_763)],
            world,
            checker,
            dice,
            old: Vec::new(),
        }
    }

    fn ask(&mut self, request: Request) {
        let ticket = self.world.ask(request.clone());
        self.checker.asked.insert(ticket, request);
        self.checker.open.insert(ticket);
    }

    /// An identity, mostly one of the latest.
    fn identity(&mut self) -> (ProducerId, i16) {
        let back = match self.dice.below(4) {
            0 => self.dice.below(self.identities.len() as u64) as usize,
            _ => self.dice.below(2) as usize,
        };
        self.identities[self.identities.len() - 1 - back]
    }

    fn any_request(&mut self) -> Request {
        let transactional_id = name(if self.dice.one_in(4) { "y" } else { "x" });
        let (producer, epoch) = self.identity();
        let version = self.dice.below(3) as u8;
        let commit = self.dice.one_in(2);
        let bumps_epoch = !self.dice.one_in(3);
        let count = 1 + self.dice.below(3);
        match self.dice.below(10) {
            0 => Request::Init(InitProducer {
                transactional_id,
                timeout_ms: 10_000,
                producer: None,
            }),
            1 => Request::Init(InitProducer {
                transactional_id,
                timeout_ms: 20_000,
                producer: Some((producer, epoch)),
            }),
            2..=5 => Request::AddPartitions(AddPartitions {
                transactional_id,
                producer,
                epoch,
                partitions: (0..count)
                    .map(|_| partition("t", self.dice.below(5) as i32))
                    .collect(),
                version,
            }),
            6 => Request::Verify(VerifyPartitions {
                transactional_id,
                producer,
                epoch,
                partitions: vec![partition("t", 0)],
            }),
            7 => Request::Abort(AbortTransaction {
                start_ms: match (self.checker.durable.get(&transactional_id), self.dice.one_in(3)) {
                    (Some(state), false) => state.start_ms,
                    _ => BEGIN_MS,
                },
                transactional_id,
            }),
            _ => Request::End(EndTransaction {
                transactional_id,
                producer,
                epoch,
                commit,
                bumps_epoch,
            }),
        }
    }

    fn step(&mut self) {
        match self.dice.below(20) {
            0..=7 => {
                let request = self.any_request();
                self.ask(request);
            }
            8..=12 if !self.world.persists.is_empty() => match self.dice.one_in(6) {
                true => self.world.refuse(),
                false => self.world.persist(),
            },
            13..=15 if !self.world.markers.is_empty() => {
                let marked = match self.dice.below(8) {
                    0 => Marked::PartitionGone,
                    1 | 2 => Marked::Retry,
                    _ => Marked::Done,
                };
                self.report_marker(marked);
            }
            16 if !self.world.takes.is_empty() => match self.dice.one_in(4) {
                true => self.world.take_fails(),
                false => {
                    let _ = self.world.take();
                }
            },
            17 => {
                let time = Duration::from_millis(self.dice.below(4_000));
                self.world.pass(time);
            }
            18 if self.dice.one_in(4) => {
                self.checker.open.clear();
                self.old.clear();
                self.world.restart();
            }
            19 if !self.old.is_empty() => {
                let which = self.dice.below(self.old.len() as u64) as usize;
                let (_, marker) = self.old[which].clone();
                self.world.mark_again(&marker, Marked::Done);
            }
            _ => {}
        }
        self.note_identities();
        self.checker.check(&self.world);
    }

    /// Reports any of the markers that are under way.
    fn report_marker(&mut self, marked: Marked) {
        let which = self.dice.below(self.world.markers.len() as u64) as usize;
        self.world.markers.swap(0, which);
        let marker = self.world.markers[0].clone();
        let owner = self.checker.durable.iter();
        let owner = owner
            .filter(|(_, state)| state.producer == marker.producer)
            .map(|(name, _)| Name::clone(name))
            .next()
            .expect("each marker is of a producer that is known");
        if marked != Marked::Retry {
            self.checker
                .told
                .insert((Name::clone(&owner), marker.partition.clone()));
            self.old.push((owner, marker));
        }
        let _ = self.world.mark(marked);
    }

    fn note_identities(&mut self) {
        for (_, answer) in &self.world.answers[self.checker.answers_seen..] {
            match answer {
                Answer::Init(Ok(given)) => self.identities.push((given.producer, given.epoch)),
                Answer::End(Ok(ended)) => self.identities.push((ended.producer, ended.epoch)),
                _ => {}
            }
        }
    }

    /// From here on nothing fails: whatever is open ends, and whoever asked is answered.
    fn finish(mut self) -> BTreeSet<&'static str> {
        for _ in 0..1_000 {
            while !(self.world.takes.is_empty()
                && self.world.persists.is_empty()
                && self.world.markers.is_empty())
            {
                if !self.world.takes.is_empty() {
                    let _ = self.world.take();
                } else if !self.world.persists.is_empty() {
                    self.world.persist();
                } else {
                    self.report_marker(Marked::Done);
                }
                self.checker.check(&self.world);
            }
            self.world.pass(Duration::from_secs(1));
            let is_open =
                |state: &IdState| state.phase == TransactionState::Ongoing || state.phase.is_prepared();
            if self.checker.open.is_empty() && !self.checker.durable.values().any(is_open) {
                return self.checker.seen;
            }
        }
        panic!(
            "something never ends: {:?} {:?}",
            self.checker.open, self.checker.durable
        );
    }
}

/// One run; gives what happened in it.
pub(super) fn run(seed: u64) -> BTreeSet<&'static str> {
    let mut run = Run::new(seed);
    for _ in 0..STEPS {
        run.step();
    }
    run.finish()
}

#[test]
fn nothing_is_told_that_is_not_so() {
    let mut seen = BTreeSet::new();
    for seed in 0..SEEDS {
        match std::panic::catch_unwind(|| run(seed)) {
            Ok(happened) => seen.extend(happened),
            Err(cause) => {
                eprintln!("seed {seed}");
                std::panic::resume_unwind(cause);
            }
        }
    }
    for thing in TO_SEE {
        assert!(seen.contains(thing), "no run has come to: {thing}");
    }
}
