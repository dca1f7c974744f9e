//! One group whose members come and go by both protocols, so that it changes over and back: no partition is with two of
//! them, and every ticket is answered.
//!
//! Members of the classic protocol let go of everything before they join again; whoever leads hands out all partitions.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use protocol::groups::{
    Action, Answer, ConsumerHeartbeat, Coordinator, GroupError, Heartbeat, JoinGroup, Joined, LeaveGroup,
    LeavingMember, MemberPresence, Name, NotPersisted, PersistId, Protocol, Request, Settings, StoredRecord,
    SyncGroup, Ticket, TopicChange,
};
use record::{PartitionId, TopicId};

use super::Dice;

const TOPIC: TopicId = TopicId([1; 16]);
const PARTITIONS: i32 = 5;
const GROUP: &str = "g";
const CLIENTS: usize = 4;
const SESSION: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Client {
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
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
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
                ..Client::default()
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
        let client = &mut self.clients[who];
        let joins = client.epoch == 0;
        client.has = client.has.intersection(&client.told).copied().collect();
        Request::ConsumerHeartbeat(ConsumerHeartbeat {
            group: Name::from(GROUP),
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
            rebalance_timeout: Some(Duration::from_secs(600)),
            topics: Some(vec![Name::from("a")]),
            regex: None,
            assignor: None,
            owned: Some(
                client
                    .has
                    .iter()
                    .map(|index| PartitionId {
                        topic: TOPIC,
                        index: *index,
                    })
                    .collect(),
            ),
            random: 0,
        })
    }

    fn classic_request(&mut self, who: usize) -> Request {
        let random = u128::from(self.next_ticket) + 1;
        let client = &mut self.clients[who];
        let (group, member) = (Name::from(GROUP), Name::clone(&client.member));
        if client.leaving {
            return Request::Leave(LeaveGroup {
                group,
                members: vec![LeavingMember {
                    member,
                    instance: None,
                }],
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
                instance: None,
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
                instance: None,
                generation: client.epoch,
                protocol_type: None,
                protocol: None,
                assignments: hand_out(&client.followers),
            });
        }
        Request::Heartbeat(Heartbeat {
            group,
            member,
            instance: None,
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
    fn hear(&mut self, answer: Answer) {
        match answer {
            Answer::ConsumerHeartbeat(Ok(heard)) if heard.epoch < 0 => *self = Client::default(),
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
            Answer::Leave(Ok(_)) => *self = Client::default(),
            Answer::Heartbeat(Err(GroupError::RebalanceInProgress)) => {
                self.accept();
                self.rejoin();
            }
            Answer::Join(Err(GroupError::RebalanceInProgress | GroupError::NotPersisted))
            | Answer::Sync(Err(GroupError::RebalanceInProgress | GroupError::NotPersisted))
            | Answer::Heartbeat(Err(GroupError::IllegalGeneration { .. }))
            | Answer::Sync(Err(GroupError::IllegalGeneration { .. })) => self.rejoin(),
            Answer::Join(Err(GroupError::UnknownMember { .. }))
            | Answer::Sync(Err(GroupError::UnknownMember { .. }))
            | Answer::Heartbeat(Err(GroupError::UnknownMember { .. }))
            | Answer::ConsumerHeartbeat(Err(
                GroupError::UnknownMember { .. } | GroupError::FencedMemberEpoch { .. },
            )) => *self = Client::default(),
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

fn subscription() -> Bytes {
    Bytes::from_static(b"\x00\x00\x00\x00\x00\x01\x00\x01a\xff\xff\xff\xff")
}

/// All partitions, in turn.
fn hand_out(members: &[Name]) -> Vec<(Name, Bytes)> {
    let mut shares: Vec<Vec<i32>> = vec![Vec::new(); members.len()];
    for (turn, index) in (0..PARTITIONS).enumerate() {
        if !members.is_empty() {
            shares[turn % members.len()].push(index);
        }
    }
    let write = |share: Vec<i32>| {
        let mut bytes = BytesMut::from(&b"\x00\x00\x00\x00\x00\x01\x00\x01a"[..]);
        bytes.put_i32(i32::try_from(share.len()).expect("few"));
        share.into_iter().for_each(|index| bytes.put_i32(index));
        bytes.put_i32(-1);
        bytes.freeze()
    };
    members
        .iter()
        .cloned()
        .zip(shares.into_iter().map(write))
        .collect()
}

fn read_assignment(mut bytes: &[u8]) -> BTreeSet<i32> {
    let mut partitions = BTreeSet::new();
    if bytes.is_empty() {
        return partitions;
    }
    bytes.advance(2);
    for _ in 0..bytes.get_i32() {
        bytes.advance(3);
        for _ in 0..bytes.get_i32() {
            partitions.insert(bytes.get_i32());
        }
    }
    partitions
}
