//! Plays the scripts in `testdata/groups`: each line `> command` is done to a coordinator, the lines beneath it are what
//! it answers and stores. A script that fails prints what really came out.
//!
//! People stand for clients: the stage remembers the member id, the generation or epoch and the partitions that each was
//! told, and uses them in its next request, as a client does. A second passes before each command.

mod ask;
mod tell;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use protocol::groups::{
    Action, Answer, Assignment, Coordinator, Name, NotPersisted, OwnPace, PersistId, Request, Settings,
    StoredRecord, Ticket, TopicChange,
};
use record::{TopicId, whole_ms};

macro_rules! scenarios {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            play(include_str!(concat!("../../testdata/groups/", stringify!($name), ".txt")));
        })*
    };
}

scenarios! {
    offsets expiry expiry_gathering join fencing limits static_members rebalance_timeouts
    consumer_join consumer_refusals consumer_timeouts consumer_static consumer_regex consumer_classic migration
    late_commits mixed_members pace transactions transactions_and_groups
}

fn play(script: &str) {
    let mut stage = Stage::new();
    let mut played = String::new();
    for line in script.lines() {
        let command = line.strip_prefix("> ");
        if command.is_some() || line.starts_with('#') || line.is_empty() {
            writeln!(played, "{line}").expect("a string takes everything");
        }
        if let Some(command) = command {
            stage.now += Duration::from_secs(1);
            stage.run(command);
            stage.settle();
            played.push_str(&std::mem::take(&mut stage.said));
        }
    }
    assert!(played == script, "the script came out as:\n{played}");
}

fn seconds(time: &str) -> Duration {
    let seconds = time.strip_suffix('s').expect("seconds");
    Duration::from_secs(seconds.parse().expect("a number"))
}

/// What the groups' log does with what it is given.
#[derive(Clone, Copy, PartialEq)]
enum Log {
    Takes,
    Refuses,
    HoldsBack,
}

/// What a client knows of itself in one group.
#[derive(Default, Clone)]
struct Client {
    member: Name,
    generation: i32,
    assigned: Assignment,
    protocols: Option<Vec<protocol::groups::Protocol>>,
}

struct Stage {
    now: Duration,
    /// How far the clock on the wall is ahead of `now`.
    clock_ahead: Duration,
    settings: Settings,
    coordinator: Coordinator,
    log: Log,
    /// Everything that was taken.
    records: Vec<StoredRecord>,
    held_back: Vec<(PersistId, Vec<StoredRecord>)>,
    topics: BTreeMap<Name, (TopicId, i32)>,
    clients: BTreeMap<(String, String), Client>,
    asked: BTreeMap<Ticket, (String, String)>,
    answered: BTreeSet<Ticket>,
    next_ticket: u64,
    /// People's names for members' ids.
    names: BTreeMap<Name, String>,
    said: String,
}

impl Stage {
    fn new() -> Stage {
        let settings = Settings {
            members_max: 4,
            offsets_retention: Duration::from_secs(3600),
            ..Settings::default()
        };
        let mut coordinator = Coordinator::new(settings.clone(), 0);
        coordinator.handle_loaded(Duration::ZERO);
        Stage {
            now: Duration::ZERO,
            clock_ahead: Duration::ZERO,
            settings,
            coordinator,
            log: Log::Takes,
            records: Vec::new(),
            held_back: Vec::new(),
            topics: BTreeMap::new(),
            clients: BTreeMap::new(),
            asked: BTreeMap::new(),
            answered: BTreeSet::new(),
            next_ticket: 0,
            names: BTreeMap::new(),
            said: String::new(),
        }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.said, "  {line}").expect("a string takes everything");
    }

    fn run(&mut self, command: &str) {
        let words: Vec<&str> = command.split(' ').collect();
        match words[..] {
            ["topics", ..] => self.make_topics(&words[1..]),
            ["topic", topic, "is", "deleted"] => self.delete_topic(topic),
            ["wait", time] => self.wait(time),
            ["the", "clock", "is", "set", time, "ahead"] => self.set_clock(time),
            ["the", "session", "of", group, "is", time] => {
                let own = OwnPace {
                    session_timeout: Some(seconds(time)),
                    ..OwnPace::default()
                };
                self.coordinator.handle_pace(group.into(), own);
            }
            ["the", "log", "refuses"] => self.log = Log::Refuses,
            ["the", "log", "holds", "back"] => self.log = Log::HoldsBack,
            ["the", "log", "takes", "everything"] => self.release_log(Ok(())),
            ["the", "log", "drops", "everything"] => self.release_log(Err(NotPersisted)),
            ["restart"] => self.restart(),
            [who, verb, ..] => {
                let request = self.request(who, verb, &words[2..]);
                let group = request
                    .group()
                    .map_or_else(String::new, |group| group.to_string());
                let ticket = self.ask(request);
                self.asked.insert(ticket, (who.to_string(), group));
            }
            _ => panic!("no such command: {command}"),
        }
    }

    fn ask(&mut self, request: Request) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.coordinator.handle_request(self.now, ticket, request);
        ticket
    }

    fn make_topics(&mut self, words: &[&str]) {
        let mut changes = Vec::new();
        for word in words {
            let (topic, count) = word.split_once('=').expect("topic=partitions");
            let next = u8::try_from(self.topics.len() + 1).expect("few topics");
            let topic = Name::from(topic);
            let (id, known_count) = self
                .topics
                .entry(Name::clone(&topic))
                .or_insert((TopicId([next; 16]), 0));
            *known_count = count.parse().expect("a number");
            changes.push(TopicChange::There {
                topic,
                id: *id,
                partition_count: *known_count,
            });
        }
        self.coordinator.handle_topics(self.now, changes);
        self.coordinator.handle_time(self.now);
    }

    fn delete_topic(&mut self, topic: &str) {
        let (id, _) = self.topics.remove(topic).expect("a topic that is there");
        self.coordinator
            .handle_topics(self.now, [TopicChange::Gone { id }]);
        self.coordinator.handle_time(self.now);
    }

    fn set_clock(&mut self, ahead: &str) {
        self.clock_ahead = seconds(ahead);
        let shown = whole_ms(self.now + self.clock_ahead);
        self.coordinator.handle_wall_clock(self.now, shown);
    }

    /// Time passes, from one deadline to the next.
    fn wait(&mut self, time: &str) {
        let until = self.now + seconds(time) - Duration::from_secs(1);
        while let Some(at) = self.coordinator.deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.coordinator.handle_time(self.now);
            self.settle();
        }
        self.now = until;
    }

    fn release_log(&mut self, result: Result<(), NotPersisted>) {
        self.log = Log::Takes;
        for (id, records) in std::mem::take(&mut self.held_back) {
            self.report(id, records, result);
        }
    }

    fn report(&mut self, id: PersistId, records: Vec<StoredRecord>, result: Result<(), NotPersisted>) {
        if result.is_ok() {
            self.records.extend(records);
        }
        self.coordinator.handle_persisted(self.now, id, result);
    }

    /// The process dies; the next one replays the log. What is durable must be what the last one held.
    fn restart(&mut self) {
        let before: Vec<StoredRecord> = self.coordinator.image().collect();
        self.held_back.clear();
        self.coordinator = Coordinator::new(self.settings.clone(), whole_ms(self.clock_ahead));
        let topics: Vec<TopicChange> = self
            .topics
            .iter()
            .map(|(topic, (id, count))| TopicChange::There {
                topic: Name::clone(topic),
                id: *id,
                partition_count: *count,
            })
            .collect();
        self.coordinator.handle_topics(self.now, topics);
        for record in &self.records {
            self.coordinator
                .replay(&record.key, record.value.as_deref())
                .expect("records that were just made");
        }
        self.coordinator.handle_loaded(self.now);
        let after: Vec<StoredRecord> = self.coordinator.image().collect();
        assert_eq!(before, after, "replay gives what was durable");
        self.say(&format!(
            "replayed {} records, {} hold",
            self.records.len(),
            after.len()
        ));
        self.coordinator.handle_time(self.now);
    }

    /// Carries out actions until there are none.
    fn settle(&mut self) {
        while let Some(action) = self.coordinator.next_action() {
            match action {
                Action::Plan(planning) => self.coordinator.handle_planned(self.now, planning.run()),
                Action::Persist { id, records } => {
                    let line = self.stores(&records);
                    self.say(&line);
                    match self.log {
                        Log::Takes => self.report(id, records, Ok(())),
                        Log::Refuses => self.report(id, records, Err(NotPersisted)),
                        Log::HoldsBack => self.held_back.push((id, records)),
                    }
                }
                Action::Answer { ticket, answer } => self.hear(ticket, answer),
            }
        }
    }

    fn hear(&mut self, ticket: Ticket, answer: Answer) {
        assert!(self.answered.insert(ticket), "a ticket is answered once");
        // One that a restart left behind is answered by nobody.
        let (who, group) = self.asked.get(&ticket).cloned().expect("answers follow requests");
        self.learn(&who, &group, &answer);
        let line = self.tell(&answer);
        self.say(&format!("{who}: {line}"));
    }
}
