//! What stands around the coordinator in either world: a clock, a log that is slow and refuses at times, and the tickets
//! of all who wait. It dies and comes back, and then has what was durable, no more and no less.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::groups::{
    Action, Answer, Coordinator, Name, NotPersisted, PersistId, Planning, Request, Settings, StoredRecord,
    Ticket, TopicChange,
};
use record::TopicId;

use super::support::Dice;

pub(crate) struct Host {
    pub(crate) now: Duration,
    pub(crate) dice: Dice,
    pub(crate) coordinator: Coordinator,
    /// Names, ids, and how many partitions.
    pub(crate) topics: Vec<(Name, TopicId, i32)>,
    settings: Settings,
    /// Changes that are to be planned beside the coordinator.
    to_plan: Vec<Planning>,
    under_way: Vec<(PersistId, Vec<StoredRecord>)>,
    log: Vec<StoredRecord>,
    open_tickets: BTreeMap<Ticket, usize>,
    next_ticket: u64,
    lives: u64,
}

impl Host {
    /// In every other history all changes of consumer groups are planned beside the coordinator.
    pub(crate) fn new(seed: u64, mut settings: Settings, topics: Vec<(Name, TopicId, i32)>) -> Host {
        if seed % 2 == 1 {
            settings.planned_at_once_max = 0;
        }
        let mut host = Host {
            now: Duration::ZERO,
            dice: Dice(seed),
            coordinator: Coordinator::new(settings.clone(), 0),
            topics,
            settings,
            to_plan: Vec::new(),
            under_way: Vec::new(),
            log: Vec::new(),
            open_tickets: BTreeMap::new(),
            next_ticket: 0,
            lives: 0,
        };
        host.load();
        host
    }

    fn load(&mut self) {
        self.coordinator = Coordinator::new(self.settings.clone(), 0);
        self.tell_topics();
        for record in &self.log {
            self.coordinator
                .replay(&record.key, record.value.as_deref())
                .expect("records that were just made");
        }
        self.coordinator.handle_loaded(self.now);
    }

    /// Tells the coordinator what topics there are.
    pub(crate) fn tell_topics(&mut self) {
        let there = self.topics.iter().map(|(topic, id, count)| TopicChange::There {
            topic: Name::clone(topic),
            id: *id,
            partition_count: *count,
        });
        self.coordinator.handle_topics(self.now, there);
    }

    /// The id of a new member.
    pub(crate) fn new_id(&mut self, who: usize) -> Name {
        self.lives += 1;
        Name::from(format!("c{who}-{}", self.lives))
    }

    /// Bits that no other request has.
    pub(crate) fn random(&self) -> u128 {
        u128::from(self.next_ticket) + 1
    }

    pub(crate) fn ask(&mut self, who: usize, request: Request) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.open_tickets.insert(ticket, who);
        self.coordinator.handle_request(self.now, ticket, request);
        ticket
    }

    /// Wakes the coordinator if it is time.
    pub(crate) fn wake(&mut self) {
        if self.coordinator.deadline().is_some_and(|at| at <= self.now) {
            self.coordinator.handle_time(self.now);
        }
    }

    /// Does what the coordinator wants done, up to the next answer, and whose that is.
    pub(crate) fn next_answer(&mut self) -> Option<(usize, Answer)> {
        while let Some(action) = self.coordinator.next_action() {
            match action {
                // What is told later is of an earlier moment all the same.
                Action::Plan(planning) if planning.only_reads() => {
                    self.coordinator.handle_planned(self.now, planning.run());
                }
                Action::Plan(planning) => self.to_plan.push(*planning),
                Action::Persist { id, records } => {
                    assert!(!records.is_empty());
                    self.under_way.push((id, records));
                }
                Action::Answer { ticket, answer } => {
                    let who = self
                        .open_tickets
                        .remove(&ticket)
                        .expect("only what was asked is answered, and once");
                    return Some((who, answer));
                }
            }
        }
        None
    }

    /// Whether something is not planned yet, or the log has not taken all that it was given.
    pub(crate) fn is_behind(&self) -> bool {
        !(self.to_plan.is_empty() && self.under_way.is_empty())
    }

    /// One of the changes that are to be planned is; or the log takes the first of what it was given, or refuses it once in so
    /// many times. What it took.
    pub(crate) fn report(&mut self, refuses_one_in: u64) -> &[StoredRecord] {
        let before = self.log.len();
        if !self.to_plan.is_empty() && (self.under_way.is_empty() || self.dice.one_in(2)) {
            let count = u64::try_from(self.to_plan.len()).expect("few");
            let which = usize::try_from(self.dice.roll(count)).expect("few");
            let planned = self.to_plan.swap_remove(which).run();
            self.coordinator.handle_planned(self.now, planned);
        } else if !self.under_way.is_empty() {
            let (id, records) = self.under_way.remove(0);
            let result = if self.dice.one_in(refuses_one_in) {
                Err(NotPersisted)
            } else {
                Ok(())
            };
            if result.is_ok() {
                self.log.extend(records);
            }
            self.coordinator.handle_persisted(self.now, id, result);
        }
        &self.log[before..]
    }

    /// The process dies and comes back. Answers that were owed are lost.
    pub(crate) fn restart(&mut self) {
        self.to_plan.clear();
        self.under_way.clear();
        self.open_tickets.clear();
        self.check_replay();
    }

    fn check_replay(&mut self) {
        let before: Vec<StoredRecord> = self.coordinator.image().collect();
        self.load();
        let after: Vec<StoredRecord> = self.coordinator.image().collect();
        assert_eq!(before, after, "replay gives what was durable");
    }

    /// Everything has come to rest: every ticket has its answer, and replay gives the same.
    pub(crate) fn check_end(&mut self) {
        assert!(self.open_tickets.is_empty(), "every ticket is answered");
        self.check_replay();
    }

    /// The image is as good as the whole log.
    pub(crate) fn check_image(&mut self) {
        self.log = self.coordinator.image().collect();
        self.check_replay();
    }
}
