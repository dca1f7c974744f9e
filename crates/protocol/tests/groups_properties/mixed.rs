//! One group whose members come and go by both protocols, so that it changes over and back: no partition is with two of
//! them, and every ticket is answered.
//!
//! Members of the classic protocol let go of everything before they join again; whoever leads hands out all partitions.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use protocol::groups::{
    Action, Answer, ConsumerHeartbeat, Coordinator, GroupError, Heartbeat, JoinGroup, Joined, LeaveGroup,
    LeavingMember, MemberPresence, Name, NotPersisted, PersistId, Protocol, Request, Settings, StoredRecord,
    SyncGroup, Ticket, TopicChange,
};
use record::{PartitionId, TopicId};

use super::embedded::{hand_out, read_assignment, subscription};
use super::support::Dice;
use super::{heartbeat, instance_of};

const TOPIC: TopicId = TopicId([1; 16]);
const PARTITIONS: i32 = 5;
const GROUP: &str = "g";
const CLIENTS: usize = 4;
const SESSION: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Client {
    instance: Option<Name>,
    by_classic: bool,
    member: Name,
    /// Its epoch or generation; 0 before it has joined.
    epoch: i32,
    has: BTreeSet<i32>,
    told: BTreeSet<i32>,
    /// When it sent what was last accepted.
    heard_at: Duration,
    asked_at: Duration,
    asked: Option<Ticket>,
    must_join: bool,
    must_sync: bool,
    leaving: bool,
    /// As a leader, whom it assigns to.
    followers: Vec<Name>,
}

pub(super) struct World {
    now: Duration,
    dice: Dice,
    coordinator: Coordinator,
    clients: Vec<Client>,
    under_way: Vec<(PersistId, Vec<StoredRecord>)>,
    log: Vec<StoredRecord>,
    open_tickets: HashMap<Ticket, usize>,
    next_ticket: u64,
    lives: u64,
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        let mut world = World {
            now: Duration::ZERO,
            dice: Dice(seed),
            coordinator: Coordinator::new(Settings::default(), 0),
            clients: (0..CLIENTS).map(Client::new).collect(),
            under_way: Vec::new(),
            log: Vec::new(),
            open_tickets: HashMap::new(),
            next_ticket: 0,
            lives: 0,
        };
        world.load();
        world
    }

    fn load(&mut self) {
        let settings = Settings {
            consumer_session_timeout: SESSION,
            initial_rebalance_delay: Duration::from_secs(1),
            ..Settings::default()
        };
        self.coordinator = Coordinator::new(settings, 0);
        let topic = TopicChange::There {
            topic: Name::from("a"),
            id: TOPIC,
            partition_count: PARTITIONS,
        };
        self.coordinator.handle_topics(self.now, [topic]);
        for record in &self.log {
            self.coordinator
                .replay(&record.key, record.value.as_deref())
                .expect("records that were just made");
        }
        self.coordinator.handle_loaded(self.now);
    }

    pub(super) fn step(&mut self) {
        self.now += Duration::from_millis(self.dice.roll(600));
        match self.dice.roll(60) {
            0 => self.restart(),
            1 => self.now += Duration::from_secs(self.dice.roll(20)),
            2..20 => self.report(),
            _ => self.act(),
        }
        self.settle();
    }

    pub(super) fn finish(&mut self) {
        for _ in 0..100 {
            while !self.under_way.is_empty() {
                self.report();
                self.settle();
            }
            self.now += Duration::from_secs(5);
            self.settle();
        }
        while !self.under_way.is_empty() {
            self.report();
            self.take_actions();
        }
        assert!(self.open_tickets.is_empty(), "every ticket is answered");
        let before: Vec<StoredRecord> = self.coordinator.image().collect();
        self.load();
        assert_eq!(before, self.coordinator.image().collect::<Vec<_>>());
    }

    fn settle(&mut self) {
        if self.coordinator.deadline().is_some_and(|at| at <= self.now) {
            self.coordinator.handle_time(self.now);
        }
        self.take_actions();
        for client in &mut self.clients {
            if self.now >= client.heard_at + SESSION {
                client.has.clear();
            }
        }
        let mut owners = BTreeMap::new();
        for (who, client) in self.clients.iter().enumerate() {
            for index in &client.has {
                if let Some(other) = owners.insert(*index, who) {
                    panic!("{index} is with {other} and {who}");
                }
            }
        }
    }

    fn restart(&mut self) {
        self.take_actions();
        let before: Vec<StoredRecord> = self.coordinator.image().collect();
        self.under_way.clear();
        self.open_tickets.clear();
        self.load();
        assert_eq!(before, self.coordinator.image().collect::<Vec<_>>());
        for client in &mut self.clients {
            client.asked = None;
        }
    }

    fn report(&mut self) {
        if self.under_way.is_empty() {
            return;
        }
        let (id, records) = self.under_way.remove(0);
        let result = if self.dice.one_in(15) {
            Err(NotPersisted)
        } else {
            Ok(())
        };
        if result.is_ok() {
            self.log.extend(records);
        }
        self.coordinator.handle_persisted(self.now, id, result);
    }

    fn act(&mut self) {
        let who = usize::try_from(self.dice.roll(CLIENTS as u64)).expect("few");
        if self.clients[who].asked.is_some() {
            return;
        }
        if self.clients[who].epoch == 0 && !self.clients[who].must_join {
            self.lives += 1;
            self.clients[who] = Client {
                by_classic: !self.dice.one_in(3),
                member: Name::from(format!("c{who}-{}", self.lives)),
                heard_at: self.now,
                must_join: true,
                ..Client::new(who)
            };
        }
        let leaves = self.dice.one_in(15);
        self.clients[who].leaving = leaves && self.clients[who].epoch > 0;
        if self.clients[who].leaving {
            self.clients[who].has.clear();
        }
        let request = if self.clients[who].by_classic {
            self.classic_request(who)
        } else {
            self.consumer_request(who)
        };
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.open_tickets.insert(ticket, who);
        self.clients[who].asked = Some(ticket);
        self.clients[who].asked_at = self.now;
        self.coordinator.handle_request(self.now, ticket, request);
    }

    fn consumer_request(&mut self, who: usize) -> Request {
        let for_a_while = self.dice.one_in(2);
        let client = &mut self.clients[who];
        let joins = client.epoch == 0;
        client.has = client.has.intersection(&client.told).copied().collect();
        let presence = match (joins, client.leaving) {
            (true, _) => MemberPresence::Joining,
            (false, true) if for_a_while && client.instance.is_some() => MemberPresence::LeavingForAWhile,
            (false, true) => MemberPresence::Leaving,
            (false, false) => MemberPresence::At(client.epoch),
        };
        let owned = client.has.iter().map(|index| PartitionId {
            topic: TOPIC,
            index: *index,
        });
        Request::ConsumerHeartbeat(ConsumerHeartbeat {
            instance: client.instance.clone(),
            topics: Some(vec![Name::from("a")]),
            ..heartbeat(GROUP, &client.member, presence, owned.collect())
        })
    }

    fn classic_request(&mut self, who: usize) -> Request {
        let random = u128::from(self.next_ticket) + 1;
        let client = &mut self.clients[who];
        let (group, member) = (Name::from(GROUP), Name::clone(&client.member));
        let instance = client.instance.clone();
        if client.leaving {
            return Request::Leave(LeaveGroup {
                group,
                members: vec![LeavingMember { member, instance }],
            });
        }
        if client.must_join {
            client.has.clear();
            return Request::Join(JoinGroup {
                group,
                member: if client.epoch == 0 {
                    Name::default()
                } else {
                    member
                },
                instance,
                client_id: Name::from("c"),
                client_host: Name::from("/h"),
                session_timeout: SESSION,
                // Longer than the session: who works on is never put out for not joining.
                rebalance_timeout: Duration::from_secs(30),
                protocol_type: Name::from("consumer"),
                protocols: vec![Protocol {
                    name: Name::from("range"),
                    metadata: subscription(),
                }],
                requires_known_member: false,
                can_skip_assignment: false,
                random,
            });
        }
        if client.must_sync {
            return Request::Sync(SyncGroup {
                group,
                member,
                instance,
                generation: client.epoch,
                protocol_type: None,
                protocol: None,
                assignments: hand_out(PARTITIONS, &client.followers),
            });
        }
        Request::Heartbeat(Heartbeat {
            group,
            member,
            instance,
            generation: client.epoch,
        })
    }

    fn take_actions(&mut self) {
        while let Some(action) = self.coordinator.next_action() {
            match action {
                Action::Persist { id, records } => self.under_way.push((id, records)),
                Action::Answer { ticket, answer } => {
                    let who = self
                        .open_tickets
                        .remove(&ticket)
                        .expect("only what was asked is answered, and once");
                    self.clients[who].asked = None;
                    self.clients[who].hear(answer);
                }
            }
        }
    }
}

impl Client {
    fn new(who: usize) -> Client {
        Client {
            instance: instance_of(who),
            ..Client::default()
        }
    }

    fn forget(&mut self) {
        *self = Client {
            instance: self.instance.take(),
            ..Client::default()
        };
    }

    fn hear(&mut self, answer: Answer) {
        match answer {
            Answer::ConsumerHeartbeat(Ok(heard)) if heard.epoch < 0 => self.forget(),
            Answer::ConsumerHeartbeat(Ok(heard)) => {
                self.accept();
                self.must_join = false;
                self.epoch = heard.epoch;
                if let Some(assignment) = heard.assignment {
                    self.told = assignment.iter().map(|partition| partition.index).collect();
                    self.has.extend(&self.told);
                }
            }
            Answer::Join(Ok(joined)) => self.joined(joined),
            Answer::Sync(Ok(synced)) => {
                self.accept();
                self.must_sync = false;
                self.has = read_assignment(&synced.assignment);
            }
            Answer::Heartbeat(Ok(())) => self.accept(),
            Answer::Leave(Ok(_)) => self.forget(),
            Answer::Heartbeat(Err(GroupError::RebalanceInProgress)) => {
                self.accept();
                self.rejoin();
            }
            Answer::Join(Err(GroupError::RebalanceInProgress | GroupError::NotPersisted))
            | Answer::Sync(Err(GroupError::RebalanceInProgress | GroupError::NotPersisted))
            | Answer::Heartbeat(Err(GroupError::IllegalGeneration { .. }))
            | Answer::Sync(Err(GroupError::IllegalGeneration { .. })) => self.rejoin(),
            Answer::Join(Err(GroupError::UnknownMember { .. } | GroupError::FencedInstance { .. }))
            | Answer::Sync(Err(GroupError::UnknownMember { .. } | GroupError::FencedInstance { .. }))
            | Answer::Heartbeat(Err(GroupError::UnknownMember { .. } | GroupError::FencedInstance { .. }))
            | Answer::ConsumerHeartbeat(Err(
                GroupError::UnknownMember { .. }
                | GroupError::FencedMemberEpoch { .. }
                | GroupError::FencedInstance { .. }
                | GroupError::UnreleasedInstance { .. },
            )) => self.forget(),
            // Tries again.
            Answer::ConsumerHeartbeat(Err(GroupError::NotPersisted | GroupError::ChangingOver))
            | Answer::Leave(Err(GroupError::NotPersisted)) => {}
            other => panic!("a client that keeps the rules gets {other:?}"),
        }
    }

    fn joined(&mut self, joined: Joined) {
        self.accept();
        assert!(
            joined.member != self.member || joined.generation >= 1,
            "a generation begins at 1"
        );
        self.member = joined.member;
        self.epoch = joined.generation;
        self.followers = joined.members.into_iter().map(|member| member.member).collect();
        self.must_join = false;
        self.must_sync = true;
    }

    fn accept(&mut self) {
        self.heard_at = self.asked_at;
    }

    /// Everything is let go of first.
    fn rejoin(&mut self) {
        self.has.clear();
        self.must_join = true;
        self.must_sync = false;
    }
}
