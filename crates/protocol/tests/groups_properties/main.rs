//! What must hold for any history of a coordinator: no partition has two owners, epochs and generations only grow, every
//! ticket is answered once, and what replay gives is what was durable.
//!
//! Clients by both protocols act at random on one group, the log is slow and refuses at times, requests get lost. Each
//! seed is one history.

mod mixed;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use protocol::groups::{
    Action, Answer, Assignment, CommitOffsets, CommitPartition, CommittedOffset, ConsumerHeartbeat,
    Coordinator, DeleteGroup, DescribeGroup, GroupError, Heartbeat, JoinGroup, LeaveGroup, LeavingMember,
    MemberPresence, Name, NotPersisted, OffsetCommitter, PersistId, Protocol, Request, Settings,
    StoredRecord, SyncGroup, Ticket, TopicChange, TopicPartition,
};
use record::{Offset, PartitionId, TopicId};

/// SplitMix64: a history is its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }
}

/// A consumer by the new protocol, as a careful client behaves: what it is told to have it takes, what it must give up
/// it gives up, sooner or later, and it forgets everything when its session is over or it is fenced.
#[derive(Default)]
struct Client {
    member: Name,
    epoch: i32,
    /// What it works on.
    has: BTreeSet<PartitionId>,
    /// What it was told to have.
    told: Assignment,
    /// When it sent the last heartbeat that was accepted: its session counts from there.
    heard_at: Duration,
    asked_at: Duration,
    /// The ticket that it waits for.
    asked: Option<Ticket>,
    leaving: bool,
}

struct World {
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

/// A member of a classic group.
#[derive(Default)]
struct Joiner {
    member: Name,
    generation: i32,
    /// The generation below which none may follow.
    seen: i32,
    asked: Option<Ticket>,
}

const CLIENTS: usize = 4;
const CONSUMERS: &str = "consumers";
const CLASSICS: &str = "classics";

fn settings() -> Settings {
    Settings {
        members_max: 5,
        consumer_session_timeout: Duration::from_secs(20),
        offsets_retention: Duration::from_secs(60),
        offsets_check_interval: Duration::from_secs(30),
        ..Settings::default()
    }
}

impl World {
    fn new(seed: u64) -> World {
        let mut world = World {
            now: Duration::ZERO,
            dice: Dice(seed),
            coordinator: Coordinator::new(settings(), 0),
            topics: vec![
                (Name::from("a"), TopicId([1; 16]), 3),
                (Name::from("b"), TopicId([2; 16]), 2),
            ],
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            joiners: (0..CLIENTS).map(|_| Joiner::default()).collect(),
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

    fn step(&mut self) {
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
    fn finish(&mut self) {
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
            joiner.asked = None;
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

    fn consumer_acts(&mut self) {
        let who = usize::try_from(self.dice.roll(CLIENTS as u64)).expect("few");
        if self.clients[who].asked.is_some() {
            return;
        }
        let joins = self.clients[who].epoch == 0;
        if joins {
            self.lives += 1;
            self.clients[who].member = Name::from(format!("c{who}-{}", self.lives));
        } else {
            // Lets go of what it must not have any more, if it is not slow.
            if !self.dice.one_in(4) {
                let told = self.clients[who].told.clone();
                self.clients[who]
                    .has
                    .retain(|partition| told.contains(*partition));
            }
            self.clients[who].leaving = self.dice.one_in(12);
        }
        let request = self.consumer_heartbeat(who, joins);
        let ticket = self.ask(who, Request::ConsumerHeartbeat(request));
        self.clients[who].asked = Some(ticket);
        self.clients[who].asked_at = self.now;
    }

    fn consumer_heartbeat(&mut self, who: usize, joins: bool) -> ConsumerHeartbeat {
        let changes_wishes = joins || self.dice.one_in(8);
        let topics = match self.dice.roll(3) {
            0 => vec!["a"],
            1 => vec!["b"],
            _ => vec!["a", "b"],
        };
        let client = &self.clients[who];
        if client.leaving {
            // It lets go of everything before it says so.
            self.clients[who].has.clear();
        }
        let client = &self.clients[who];
        ConsumerHeartbeat {
            group: Name::from(CONSUMERS),
            member: Name::clone(&client.member),
            presence: match (joins, client.leaving) {
                (true, _) => MemberPresence::Joining,
                (false, true) => MemberPresence::Leaving,
                (false, false) => MemberPresence::At(client.epoch),
            },
            instance: None,
            rack: None,
            client_id: Name::from("c"),
            client_host: Name::from("/h"),
            rebalance_timeout: Some(Duration::from_secs(3600)),
            topics: changes_wishes.then(|| topics.into_iter().map(Name::from).collect()),
            regex: None,
            assignor: None,
            owned: Some(client.has.iter().copied().collect()),
            random: 0,
        }
    }

    fn hear_consumer(&mut self, who: usize, answer: &Answer) {
        // One answer in ten gets lost on its way.
        let lost = self.dice.one_in(10);
        let client = &mut self.clients[who];
        client.asked = None;
        if lost && client.epoch > 0 && !client.leaving {
            return;
        }
        match answer {
            Answer::ConsumerHeartbeat(Ok(heard)) => {
                if heard.epoch < 0 || lost {
                    *client = Client::default();
                    return;
                }
                assert!(heard.epoch >= client.epoch, "a member's epoch only grows");
                client.epoch = heard.epoch;
                client.heard_at = client.asked_at;
                if let Some(assignment) = &heard.assignment {
                    client.told = assignment.clone();
                    client.has.extend(assignment.iter());
                }
            }
            Answer::ConsumerHeartbeat(Err(
                GroupError::UnknownMember { .. }
                | GroupError::FencedMemberEpoch { .. }
                | GroupError::GroupFull { .. },
            )) => *client = Client::default(),
            Answer::ConsumerHeartbeat(Err(GroupError::NotPersisted | GroupError::Loading)) => {}
            other => panic!("a client that keeps the rules gets {other:?}"),
        }
    }

    /// A client that has heard nothing for a session does not go on working.
    fn expire_clients(&mut self) {
        for client in &mut self.clients {
            if client.epoch > 0 && self.now >= client.heard_at + Duration::from_secs(20) {
                client.has.clear();
            }
        }
    }

    fn classic_acts(&mut self) {
        let who = usize::try_from(self.dice.roll(CLIENTS as u64)).expect("few");
        let group = Name::from(CLASSICS);
        let member = Name::clone(&self.joiners[who].member);
        let generation = self.joiners[who].generation;
        let request = match self.dice.roll(10) {
            0..4 => Request::Join(JoinGroup {
                group,
                member,
                instance: None,
                client_id: Name::from("j"),
                client_host: Name::from("/h"),
                session_timeout: Duration::from_secs(10),
                rebalance_timeout: Duration::from_secs(5),
                protocol_type: Name::from("consumer"),
                protocols: vec![Protocol {
                    name: Name::from("range"),
                    metadata: Bytes::from(vec![0; usize::try_from(self.dice.roll(3)).expect("few")]),
                }],
                requires_known_member: self.dice.one_in(2),
                can_skip_assignment: true,
                random: u128::from(self.next_ticket) + 1,
            }),
            4..6 => Request::Sync(SyncGroup {
                group,
                member: Name::clone(&member),
                instance: None,
                generation,
                protocol_type: None,
                protocol: None,
                assignments: vec![(member, Bytes::from_static(b"x"))],
            }),
            6..8 => Request::Heartbeat(Heartbeat {
                group,
                member,
                instance: None,
                generation,
            }),
            8 => Request::CommitOffsets(commit(group, member, generation)),
            _ => Request::Leave(LeaveGroup {
                group,
                members: vec![LeavingMember {
                    member,
                    instance: None,
                }],
            }),
        };
        let ticket = self.ask(CLIENTS + who, request);
        self.joiners[who].asked = Some(ticket);
    }

    fn hear_classic(&mut self, who: usize, answer: &Answer) {
        let joiner = &mut self.joiners[who];
        match answer {
            Answer::Join(Ok(joined)) => {
                assert!(
                    joined.member != joiner.member || joined.generation >= joiner.seen,
                    "generations only grow"
                );
                joiner.member = Name::clone(&joined.member);
                joiner.generation = joined.generation;
                joiner.seen = joined.generation;
            }
            Answer::Join(Err(GroupError::MemberIdRequired { member })) => joiner.member = Name::clone(member),
            Answer::Join(Err(GroupError::UnknownMember { .. }))
            | Answer::Heartbeat(Err(GroupError::UnknownMember { .. })) => *joiner = Joiner::default(),
            _ => {}
        }
    }

    fn outsider_acts(&mut self) {
        let group =
            Name::from(["outside", CONSUMERS, CLASSICS][usize::try_from(self.dice.roll(3)).expect("few")]);
        let request = match self.dice.roll(4) {
            0 => Request::DeleteGroup(DeleteGroup { group }),
            1 => Request::DescribeConsumer(DescribeGroup { group }),
            _ => Request::CommitOffsets(commit(group, Name::default(), -1)),
        };
        self.ask(2 * CLIENTS, request);
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
                        _ if who < 2 * CLIENTS => self.hear_classic(who - CLIENTS, &answer),
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

fn commit(group: Name, member: Name, generation: i32) -> CommitOffsets {
    CommitOffsets {
        group,
        committer: OffsetCommitter {
            member,
            instance: None,
            generation_or_epoch: generation,
        },
        partitions: vec![CommitPartition {
            partition: TopicPartition {
                topic: Name::from("a"),
                index: 0,
            },
            topic_id: TopicId([1; 16]),
            committed: CommittedOffset {
                offset: Offset(1),
                leader_epoch: None,
                metadata: Name::default(),
            },
        }],
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_keeps_the_promises(seed: u64) {
        let mut world = World::new(seed);
        for _ in 0..300 {
            world.step();
        }
        world.finish();
    }
    #[test]
    fn a_group_that_changes_over_keeps_them_too(seed: u64) {
        let mut world = mixed::World::new(seed);
        for _ in 0..300 {
            world.step();
        }
        world.finish();
    }
}
