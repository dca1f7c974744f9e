//! One group whose members come and go by both protocols, so that it changes over and back: no partition is with two of
//! them, and every ticket is answered.
//!
//! Members of the classic protocol let go of everything before they join again; whoever leads hands out all partitions.

use std::time::Duration;

use protocol::groups::{Answer, ConsumerHeartbeat, GroupError, JoinGroup, Joined, Name, Request, Settings};
use record::{PartitionId, TopicId};

use super::embedded::{hand_out, read_assignment, subscription};
use super::host::Host;
use super::member::{Member, check_owners};

const TOPIC: TopicId = TopicId([1; 16]);
const PARTITIONS: i32 = 5;
const GROUP: &str = "g";
const CLIENTS: usize = 4;
const SESSION: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Client {
    member: Member,
    by_classic: bool,
    must_join: bool,
    must_sync: bool,
    /// As a leader, whom it assigns to.
    followers: Vec<Name>,
}

pub(super) struct World {
    host: Host,
    clients: Vec<Client>,
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        let settings = Settings {
            consumer_session_timeout: SESSION,
            initial_rebalance_delay: Duration::from_secs(1),
            ..Settings::default()
        };
        let topics = vec![(Name::from("a"), TOPIC, PARTITIONS)];
        World {
            host: Host::new(seed, settings, topics),
            clients: (0..CLIENTS).map(Client::new).collect(),
        }
    }

    pub(super) fn step(&mut self) {
        self.host.now += Duration::from_millis(self.host.dice.roll(600));
        match self.host.dice.roll(60) {
            0 => self.restart(),
            1 => self.host.now += Duration::from_secs(self.host.dice.roll(20)),
            2..20 => self.report(),
            _ => self.act(),
        }
        self.settle();
    }

    pub(super) fn finish(&mut self) {
        for _ in 0..100 {
            while self.host.is_behind() {
                self.report();
                self.settle();
            }
            self.host.now += Duration::from_secs(5);
            self.settle();
        }
        while self.host.is_behind() {
            self.report();
            self.take_answers();
        }
        self.host.check_end();
    }

    fn settle(&mut self) {
        self.host.wake();
        self.take_answers();
        for client in &mut self.clients {
            client.member.expire(self.host.now, SESSION);
        }
        check_owners(self.clients.iter().map(|client| &client.member));
    }

    fn restart(&mut self) {
        self.take_answers();
        self.host.restart();
        for client in &mut self.clients {
            client.member.asked = None;
        }
    }

    fn report(&mut self) {
        self.host.report(15);
    }

    fn take_answers(&mut self) {
        while let Some((who, answer)) = self.host.next_answer() {
            self.clients[who].member.asked = None;
            self.clients[who].hear(answer);
        }
    }

    fn act(&mut self) {
        let who = usize::try_from(self.host.dice.roll(CLIENTS as u64)).expect("few");
        if self.clients[who].member.asked.is_some() {
            return;
        }
        if self.clients[who].member.epoch == 0 && !self.clients[who].must_join {
            self.begin(who);
        }
        let leaves = self.host.dice.one_in(15);
        let member = &mut self.clients[who].member;
        member.leaving = leaves && member.epoch > 0;
        if member.leaving {
            member.has.clear();
        }
        let request = if self.clients[who].by_classic {
            self.classic_request(who)
        } else {
            self.consumer_request(who)
        };
        let ticket = self.host.ask(who, request);
        self.clients[who].member.wait_for(ticket, self.host.now);
    }

    /// A new member, by one of the protocols.
    fn begin(&mut self, who: usize) {
        let by_classic = !self.host.dice.one_in(3);
        let mut member = Member::new(who);
        member.heard_at = self.host.now;
        if !by_classic {
            // Members of the classic protocol are named by the coordinator.
            member.id = self.host.new_id(who);
        }
        self.clients[who] = Client {
            member,
            by_classic,
            must_join: true,
            ..Client::default()
        };
    }

    fn consumer_request(&mut self, who: usize) -> Request {
        let for_a_while = self.host.dice.one_in(2);
        let member = &mut self.clients[who].member;
        member.let_go();
        Request::ConsumerHeartbeat(ConsumerHeartbeat {
            topics: Some(vec![Name::from("a")]),
            ..member.heartbeat(GROUP, for_a_while)
        })
    }

    fn classic_request(&mut self, who: usize) -> Request {
        let client = &mut self.clients[who];
        if client.member.leaving {
            return Request::Leave(client.member.leave(GROUP));
        }
        if client.must_join {
            client.member.has.clear();
            return Request::Join(JoinGroup {
                // Longer than the session: who works on is never put out for not joining.
                rebalance_timeout: Duration::from_secs(30),
                random: self.host.random(),
                ..client.member.join(GROUP, subscription())
            });
        }
        if client.must_sync {
            let assignments = hand_out(PARTITIONS, &client.followers);
            return Request::Sync(client.member.sync(GROUP, assignments));
        }
        Request::Heartbeat(client.member.beat(GROUP))
    }
}

impl Client {
    fn new(who: usize) -> Client {
        Client {
            member: Member::new(who),
            ..Client::default()
        }
    }

    fn forget(&mut self) {
        self.member.forget();
        *self = Client {
            member: std::mem::take(&mut self.member),
            ..Client::default()
        };
    }

    fn hear(&mut self, answer: Answer) {
        match answer {
            Answer::ConsumerHeartbeat(Ok(heard)) if heard.epoch < 0 => self.forget(),
            Answer::ConsumerHeartbeat(Ok(heard)) => {
                self.must_join = false;
                self.member.hear(&heard);
            }
            Answer::Join(Ok(joined)) => self.joined(joined),
            Answer::Sync(Ok(synced)) => {
                self.member.accept();
                self.must_sync = false;
                let assigned = read_assignment(&synced.assignment).into_iter();
                self.member.has = assigned
                    .map(|index| PartitionId { topic: TOPIC, index })
                    .collect();
            }
            Answer::Heartbeat(Ok(())) => self.member.accept(),
            Answer::Leave(Ok(_)) => self.forget(),
            Answer::Heartbeat(Err(GroupError::RebalanceInProgress)) => {
                self.member.accept();
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
        self.member.accept();
        assert!(joined.generation >= 1, "a generation begins at 1");
        self.member.id = joined.member;
        self.member.epoch = joined.generation;
        self.followers = joined.members.into_iter().map(|member| member.member).collect();
        self.must_join = false;
        self.must_sync = true;
    }

    /// Everything is let go of first.
    fn rejoin(&mut self) {
        self.member.has.clear();
        self.must_join = true;
        self.must_sync = false;
    }
}
