//! A group of each protocol beside the other, and one that only outsiders commit to.

mod clients;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use protocol::groups::{
    Action, Answer, Coordinator, Name, NotPersisted, PersistId, Request, Settings, StoredRecord, Ticket,
    TopicChange,
};
use record::TopicId;

use super::support::Dice;
use clients::{Client, Joiner};

const CLIENTS: usize = 4;
const CONSUMERS: &str = "consumers";
const CLASSICS: &str = "classics";
const SESSION: Duration = Duration::from_secs(20);

pub(super) struct World {
    now: Duration,
    dice: Dice,
    coordinator: Coordinator,
    topics: Vec<(Name, TopicId, i32)>,
    clients: Vec<Client>,
    joiners: Vec<Joiner>,
    under_way: Vec<(PersistId, Vec<StoredRecord>)>,
    log: Vec<StoredRecord>,
    open_tickets: HashMap<Ticket, usize>,
    next_ticket: u64,
    lives: u64,
    group_epoch: i32,
}

fn settings() -> Settings {
    Settings {
        members_max: 5,
        consumer_session_timeout: SESSION,
        offsets_retention: Duration::from_secs(60),
        offsets_check_interval: Duration::from_secs(30),
        ..Settings::default()
    }
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        let mut world = World {
            now: Duration::ZERO,
            dice: Dice(seed),
            coordinator: Coordinator::new(settings(), 0),
            topics: vec![
                (Name::from("a"), TopicId([1; 16]), 3),
                (Name::from("b"), TopicId([2; 16]), 2),
            ],
            clients: (0..CLIENTS).map(Client::new).collect(),
            joiners: (0..CLIENTS).map(Joiner::new).collect(),
            under_way: Vec::new(),
            log: Vec::new(),
            open_tickets: HashMap::new(),
            next_ticket: 0,
            lives: 0,
            group_epoch: 0,
        };
        world.load();
        world
    }

    fn topic_changes(&self) -> Vec<TopicChange> {
        self.topics
            .iter()
            .map(|(topic, id, count)| TopicChange::There {
                topic: Name::clone(topic),
                id: *id,
                partition_count: *count,
            })
            .collect()
    }

    fn load(&mut self) {
        self.coordinator = Coordinator::new(settings(), 0);
        self.coordinator.handle_topics(self.now, self.topic_changes());
        for record in &self.log {
            self.coordinator
                .replay(&record.key, record.value.as_deref())
                .expect("records that were just made");
        }
        self.coordinator.handle_loaded(self.now);
    }

    pub(super) fn step(&mut self) {
        self.now += Duration::from_millis(self.dice.roll(1500));
        match self.dice.roll(40) {
            0 => self.topic_grows(),
            1 => self.restart(),
            2 => self.now += Duration::from_secs(self.dice.roll(30)),
            3..15 => self.report(),
            15..27 => self.consumer_acts(),
            27..37 => self.classic_acts(),
            _ => self.outsider_acts(),
        }
        if self.coordinator.deadline().is_some_and(|at| at <= self.now) {
            self.coordinator.handle_time(self.now);
        }
        self.take_actions();
        self.expire_clients();
        self.check();
    }

    /// Everything comes to rest: every ticket has its answer then, and replay gives the same.
    pub(super) fn finish(&mut self) {
        for _ in 0..200 {
            while !self.under_way.is_empty() {
                self.report();
                self.take_actions();
            }
            self.now += Duration::from_secs(10);
            self.coordinator.handle_time(self.now);
            self.take_actions();
            self.expire_clients();
            self.check();
        }
        while !self.under_way.is_empty() {
            self.report();
            self.take_actions();
        }
        assert!(self.open_tickets.is_empty(), "every ticket is answered");
        let before: Vec<StoredRecord> = self.coordinator.image().collect();
        self.load();
        assert_eq!(before, self.coordinator.image().collect::<Vec<_>>());
        // The image is as good as the whole log.
        self.log = before.clone();
        self.load();
        assert_eq!(before, self.coordinator.image().collect::<Vec<_>>());
    }

    fn topic_grows(&mut self) {
        let which = usize::from(self.dice.one_in(2));
        if self.topics[which].2 < 6 {
            self.topics[which].2 += 1;
            let changes = self.topic_changes();
            self.coordinator.handle_topics(self.now, changes);
        }
    }

    /// The process dies and comes back. Answers that were owed are lost.
    fn restart(&mut self) {
        self.take_actions();
        let before: Vec<StoredRecord> = self.coordinator.image().collect();
        self.under_way.clear();
        self.open_tickets.clear();
        self.load();
        assert_eq!(
            before,
            self.coordinator.image().collect::<Vec<_>>(),
            "replay gives what was durable"
        );
        for client in &mut self.clients {
            client.asked = None;
        }
        for joiner in &mut self.joiners {
            // A generation that nobody assigned in is not in the log.
            joiner.seen = 0;
        }
    }

    /// The log takes the first of what it was given, or refuses it.
    fn report(&mut self) {
        if self.under_way.is_empty() {
            return;
        }
        let (id, records) = self.under_way.remove(0);
        let result = if self.dice.one_in(12) {
            Err(NotPersisted)
        } else {
            Ok(())
        };
        if result.is_ok() {
            // A group that is gone may come again, and begins anew then.
            let ends = |record: &StoredRecord| record.key[1] == 3 && record.value.is_none();
            if records.iter().any(ends) {
                self.group_epoch = 0;
            }
            self.log.extend(records);
        }
        self.coordinator.handle_persisted(self.now, id, result);
    }

    fn ask(&mut self, who: usize, request: Request) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.open_tickets.insert(ticket, who);
        self.coordinator.handle_request(self.now, ticket, request);
        ticket
    }

    fn take_actions(&mut self) {
        while let Some(action) = self.coordinator.next_action() {
            match action {
                Action::Persist { id, records } => {
                    assert!(!records.is_empty());
                    self.under_way.push((id, records));
                }
                Action::Answer { ticket, answer } => {
                    let who = self
                        .open_tickets
                        .remove(&ticket)
                        .expect("only what was asked is answered, and once");
                    match who {
                        0..CLIENTS => self.hear_consumer(who, &answer),
                        _ if who < 2 * CLIENTS => self.joiners[who - CLIENTS].hear(&answer),
                        _ => self.hear_outsider(&answer),
                    }
                }
            }
        }
    }

    fn hear_outsider(&mut self, answer: &Answer) {
        let Answer::DescribeConsumer(Ok(group)) = answer else {
            return;
        };
        assert!(group.epoch >= self.group_epoch, "a group's epoch only grows");
        assert!(group.target_epoch <= group.epoch);
        self.group_epoch = group.epoch;
        let mut owners = BTreeMap::new();
        for member in &group.members {
            for topic in &member.assignment {
                for index in &topic.partitions {
                    let other = owners.insert((topic.id, *index), &member.member);
                    assert!(other.is_none(), "a partition has one owner");
                }
            }
        }
    }

    /// No two clients work on one partition.
    fn check(&self) {
        let mut owners = BTreeMap::new();
        for (who, client) in self.clients.iter().enumerate() {
            for partition in &client.has {
                if let Some(other) = owners.insert(*partition, who) {
                    panic!("{partition} is with {other} and {who}");
                }
            }
        }
    }
}
