//! A group of each protocol beside the other, and one that only outsiders commit to.

mod clients;

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::groups::{Answer, Name, Settings, StoredRecord};
use record::TopicId;

use super::host::Host;
use super::member::{Member, check_owners};
use clients::Joiner;

const CLIENTS: usize = 4;
const CONSUMERS: &str = "consumers";
const CLASSICS: &str = "classics";
const SESSION: Duration = Duration::from_secs(20);

pub(super) struct World {
    host: Host,
    /// Consumers by the new protocol.
    clients: Vec<Member>,
    joiners: Vec<Joiner>,
    group_epoch: i32,
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        let settings = Settings {
            members_max: 5,
            consumer_session_timeout: SESSION,
            offsets_retention: Duration::from_secs(60),
            offsets_check_interval: Duration::from_secs(30),
            ..Settings::default()
        };
        let topics = vec![
            (Name::from("a"), TopicId([1; 16]), 3),
            (Name::from("b"), TopicId([2; 16]), 2),
        ];
        World {
            host: Host::new(seed, settings, topics),
            clients: (0..CLIENTS).map(Member::new).collect(),
            joiners: (0..CLIENTS).map(Joiner::new).collect(),
            group_epoch: 0,
        }
    }

    pub(super) fn step(&mut self) {
        self.host.now += Duration::from_millis(self.host.dice.roll(1500));
        match self.host.dice.roll(40) {
            0 => self.topic_grows(),
            1 => self.restart(),
            2 => self.host.now += Duration::from_secs(self.host.dice.roll(30)),
            3..15 => self.report(),
            15..27 => self.consumer_acts(),
            27..37 => self.classic_acts(),
            _ => self.outsider_acts(),
        }
        self.host.wake();
        self.go_on();
    }

    /// Everything comes to rest.
    pub(super) fn finish(&mut self) {
        for _ in 0..200 {
            self.catch_up();
            self.host.now += Duration::from_secs(10);
            self.host.coordinator.handle_time(self.host.now);
            self.go_on();
        }
        self.catch_up();
        self.host.check_end();
        self.host.check_image();
    }

    fn catch_up(&mut self) {
        while self.host.is_behind() {
            self.report();
            self.take_answers();
        }
    }

    fn go_on(&mut self) {
        self.take_answers();
        for client in &mut self.clients {
            client.expire(self.host.now, SESSION);
        }
        check_owners(self.clients.iter());
    }

    fn topic_grows(&mut self) {
        let which = usize::from(self.host.dice.one_in(2));
        if self.host.topics[which].2 < 6 {
            self.host.topics[which].2 += 1;
            self.host.tell_topics();
        }
    }

    fn restart(&mut self) {
        self.take_answers();
        self.host.restart();
        for client in &mut self.clients {
            client.asked = None;
        }
        for joiner in &mut self.joiners {
            // A generation that nobody assigned in is not in the log.
            joiner.seen = 0;
        }
    }

    fn report(&mut self) {
        // A group that is gone may come again, and begins anew then.
        let ends = |record: &StoredRecord| record.key[1] == 3 && record.value.is_none();
        if self.host.report(12).iter().any(ends) {
            self.group_epoch = 0;
        }
    }

    fn take_answers(&mut self) {
        while let Some((who, answer)) = self.host.next_answer() {
            match who {
                0..CLIENTS => self.hear_consumer(who, &answer),
                _ if who < 2 * CLIENTS => self.joiners[who - CLIENTS].hear(&answer),
                _ => self.hear_outsider(&answer),
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
}
