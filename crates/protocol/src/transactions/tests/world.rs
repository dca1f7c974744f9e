//! A coordinator with a server around it that does what it is told, one step at a time: the log, the partitions, the clock.

use std::collections::VecDeque;
use std::time::Duration;

use super::super::contract::*;
use super::super::entry::COMPLETION_REST;
use super::super::{Coordinator, Settings};
use crate::ProducerId;

/// The wall clock at the beginning.
pub(super) const BEGIN_MS: i64 = 1_700_000_000_000;

pub(super) struct World {
    pub(super) coordinator: Coordinator,
    settings: Settings,
    pub(super) epoch: i32,
    /// Since the latest start.
    pub(super) now: Duration,
    /// The wall clock at the latest start.
    started_ms: i64,
    pub(super) log: Vec<StoredRecord>,
    pub(super) persists: VecDeque<(PersistId, Vec<StoredRecord>)>,
    pub(super) takes: VecDeque<TakeId>,
    /// Markers that were sent and not reported.
    pub(super) markers: Vec<WriteMarker>,
    pub(super) answers: Vec<(Ticket, Answer)>,
    next_ticket: u64,
    next_producer: i64,
}

pub(super) fn name(text: &str) -> Name {
    Name::from(text)
}

pub(super) fn partition(topic: &str, index: i32) -> TopicPartition {
    TopicPartition {
        topic: name(topic),
        index,
    }
}

pub(super) fn init(named: Option<(i64, i16)>) -> InitProducer {
    InitProducer {
        transactional_id: name("x"),
        timeout_ms: 60_000,
        producer: named.map(|(id, epoch)| (ProducerId(id), epoch)),
    }
}

pub(super) fn add(producer: (i64, i16), partitions: &[(&str, i32)]) -> AddPartitions {
    AddPartitions {
        transactional_id: name("x"),
        producer: ProducerId(producer.0),
        epoch: producer.1,
        partitions: partitions
            .iter()
            .map(|(topic, index)| partition(topic, *index))
            .collect(),
        version: 2,
    }
}

pub(super) fn verify(producer: (i64, i16), partitions: &[(&str, i32)]) -> VerifyPartitions {
    VerifyPartitions {
        transactional_id: name("x"),
        producer: ProducerId(producer.0),
        epoch: producer.1,
        partitions: partitions
            .iter()
            .map(|(topic, index)| partition(topic, *index))
            .collect(),
    }
}

/// EndTxn of version 2.
pub(super) fn end(producer: (i64, i16), commit: bool) -> EndTransaction {
    EndTransaction {
        transactional_id: name("x"),
        producer: ProducerId(producer.0),
        epoch: producer.1,
        commit,
        bumps_epoch: true,
    }
}

/// EndTxn of the versions before.
pub(super) fn old_end(producer: (i64, i16), commit: bool) -> EndTransaction {
    EndTransaction {
        bumps_epoch: false,
        ..end(producer, commit)
    }
}

impl World {
    pub(super) fn new() -> World {
        World::with(Settings::default())
    }

    pub(super) fn with(settings: Settings) -> World {
        let mut coordinator = Coordinator::new(settings.clone(), 1, BEGIN_MS);
        coordinator.handle_loaded(Duration::ZERO);
        World {
            coordinator,
            settings,
            epoch: 1,
            now: Duration::ZERO,
            started_ms: BEGIN_MS,
            log: Vec::new(),
            persists: VecDeque::new(),
            takes: VecDeque::new(),
            markers: Vec::new(),
            answers: Vec::new(),
            next_ticket: 0,
            next_producer: 1_000,
        }
    }

    /// One with a producer 1000 at this epoch, as if it had lived long.
    pub(super) fn at_epoch(epoch: i16) -> World {
        let mut world = World::new();
        let _ = world.run(init(None));
        let record = &world.log[0];
        let mut value = record.value.as_ref().expect("not forgotten").to_vec();
        value[10..12].copy_from_slice(&epoch.to_be_bytes());
        world.log[0].value = Some(value.into());
        world.restart();
        world
    }

    /// A coordinator of a higher epoch that knows nothing but the log. Whatever was under way is lost.
    pub(super) fn restart(&mut self) {
        self.restart_after(Duration::ZERO, 0);
    }

    /// The same after a while, with a wall clock that is wrong by so much.
    pub(super) fn restart_after(&mut self, pause: Duration, wrong_ms: i64) {
        let passed = self.now + pause;
        self.started_ms += i64::try_from(passed.as_millis()).expect("a short time") + wrong_ms;
        self.epoch += 1;
        self.now = Duration::ZERO;
        self.persists.clear();
        self.takes.clear();
        self.markers.clear();
        self.coordinator = Coordinator::new(self.settings.clone(), self.epoch, self.started_ms);
        for record in &self.log {
            self.coordinator
                .replay(&record.key, record.value.as_deref())
                .expect("just written");
        }
        self.coordinator.handle_loaded(self.now);
        self.collect();
    }

    /// The actions that are there now.
    pub(super) fn collect(&mut self) {
        while let Some(action) = self.coordinator.next_action() {
            match action {
                Action::Persist { id, records } => self.persists.push_back((id, records)),
                Action::WriteMarker(marker) => self.markers.push(marker),
                Action::TakeProducerId { id } => self.takes.push_back(id),
                Action::Answer { ticket, answer } => {
                    assert!(
                        self.answers.iter().all(|(other, _)| *other != ticket),
                        "a ticket is answered once"
                    );
                    self.answers.push((ticket, answer));
                }
            }
        }
    }

    pub(super) fn ask(&mut self, request: impl Into<Request>) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.coordinator.handle_request(self.now, ticket, request.into());
        self.collect();
        ticket
    }

    /// The answer to a ticket, if there is one yet.
    pub(super) fn answer(&self, ticket: Ticket) -> Option<Answer> {
        let found = self.answers.iter().find(|(other, _)| *other == ticket);
        found.map(|(_, answer)| answer.clone())
    }

    /// Asks and expects the answer at once.
    pub(super) fn now<A: Ask>(&mut self, request: A) -> Result<A::Answer, TransactionError> {
        let ticket = self.ask(request);
        let answer = self.answer(ticket).expect("answered at once");
        A::take(answer).expect("an answer of the same kind")
    }

    /// Asks, lets everything succeed, and gives the answer.
    pub(super) fn run<A: Ask>(&mut self, request: A) -> Result<A::Answer, TransactionError> {
        let ticket = self.ask(request);
        self.settle();
        let answer = self.answer(ticket).expect("answered when all is done");
        A::take(answer).expect("an answer of the same kind")
    }

    /// The first change becomes durable.
    pub(super) fn persist(&mut self) {
        let (id, records) = self.persists.pop_front().expect("something is to be written");
        self.log.extend(records);
        self.coordinator.handle_persisted(self.now, id, Ok(()));
        self.collect();
    }

    /// The log refuses the first change.
    pub(super) fn refuse(&mut self) {
        let (id, _) = self.persists.pop_front().expect("something is to be written");
        self.coordinator.handle_persisted(self.now, id, Err(NotPersisted));
        self.collect();
    }

    pub(super) fn take(&mut self) -> ProducerId {
        let id = self.takes.pop_front().expect("a producer id is wanted");
        let producer = ProducerId(self.next_producer);
        self.next_producer += 1;
        self.coordinator.handle_producer_id(self.now, id, Ok(producer));
        self.collect();
        producer
    }

    pub(super) fn take_fails(&mut self) {
        let id = self.takes.pop_front().expect("a producer id is wanted");
        self.coordinator
            .handle_producer_id(self.now, id, Err(NoProducerId));
        self.collect();
    }

    /// Reports the marker that was sent first.
    pub(super) fn mark(&mut self, marked: Marked) -> WriteMarker {
        let marker = self.markers.remove(0);
        self.coordinator.handle_marked(self.now, marker.id, marked);
        self.collect();
        marker
    }

    /// Reports a marker once more.
    pub(super) fn mark_again(&mut self, marker: &WriteMarker, marked: Marked) {
        self.coordinator.handle_marked(self.now, marker.id, marked);
        self.collect();
    }

    /// Lets everything succeed until nothing is left to do.
    pub(super) fn settle(&mut self) {
        loop {
            if !self.takes.is_empty() {
                let _ = self.take();
            } else if !self.persists.is_empty() {
                self.persist();
            } else if !self.markers.is_empty() {
                let _ = self.mark(Marked::Done);
            } else {
                return;
            }
        }
    }

    /// Lets a completion be written, as nothing else comes.
    pub(super) fn rest(&mut self) {
        self.pass(COMPLETION_REST);
        self.settle();
    }

    /// Lets time pass, waking the coordinator at each of its deadlines.
    pub(super) fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        let mut wakes = 0;
        while let Some(at) = self.coordinator.deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.coordinator.handle_time(self.now);
            self.collect();
            wakes += 1;
            assert!(wakes < 10_000, "a deadline that does not go away");
        }
        self.now = until;
    }

    pub(super) fn describe(&mut self) -> DescribedTransaction {
        self.now(DescribeTransaction {
            transactional_id: name("x"),
        })
        .expect("the id is known")
    }

    pub(super) fn state(&mut self) -> TransactionState {
        self.describe().state
    }

    /// The producer's identity as the coordinator has it.
    pub(super) fn identity(&mut self) -> (i64, i16) {
        let described = self.describe();
        (described.producer.0, described.epoch)
    }

    /// The records that a restart would read give what is known now.
    pub(super) fn assert_replays(&self) {
        let mut fresh = Coordinator::new(self.settings.clone(), self.epoch + 1, self.started_ms);
        for record in &self.log {
            fresh
                .replay(&record.key, record.value.as_deref())
                .expect("just written");
        }
        let known = &self.coordinator.entries;
        assert!(fresh.entries.keys().all(|name| known.contains_key(name)));
        for (name, entry) in known {
            let read = fresh.entries.get(name).and_then(|entry| entry.state.clone());
            let read = match &entry.state {
                Some(state) if entry.is_unwritten => read.map(|decided| decided.completed(state.updated_ms)),
                _ => read,
            };
            assert_eq!(read, entry.state, "replay gives another state of {name}");
        }
    }
}
