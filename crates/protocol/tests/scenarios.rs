//! Plays the scripts in `testdata/`: each line `> command` is given to a leader, the lines beneath it are what it
//! must answer and the actions that it must ask for. A script that fails prints what really came out.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::time::Duration;

use protocol::{
    Action, Admission, Append, AppendError, Checked, Durability, EndMarker, History, Inside, Leader,
    LeaderState, NodeId, Permit, ProducerId, ProducerLimits, Replica, Stamp,
};
use record::{Epoch, Offset};

macro_rules! scenarios {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            play(include_str!(concat!("../testdata/", stringify!($name), ".txt")));
        })*
    };
}

scenarios! {
    order duplicates gaps wraparound producer_epochs unknown_producers seal memory_durability
    slow_replica trim expiry epoch_history acknowledgements restart refused_batches full_of_producers
    share_of_producers transactions late_markers
}

fn play(script: &str) {
    let mut stage = Stage::default();
    let mut played = String::new();
    for line in script.lines() {
        let command = line.strip_prefix("> ");
        if command.is_some() || line.starts_with('#') || line.is_empty() {
            writeln!(played, "{line}").expect("a string takes everything");
        }
        if let Some(command) = command {
            stage.now += Duration::from_secs(1);
            writeln!(played, "{}", stage.run(command)).expect("a string takes everything");
            stage.report_actions(&mut played);
        }
    }
    assert!(played == script, "the script came out as:\n{played}");
}

/// One leader and the time; a second passes before each command.
#[derive(Default)]
struct Stage {
    now: Duration,
    leader: Option<Leader>,
    limits: ProducerLimits,
    /// The first producer id that nobody was given.
    next_id: i64,
    /// The node has memory for no more producers.
    is_full: bool,
    /// The permits that producers were given last.
    permits: BTreeMap<i64, Permit>,
}

/// The words of a command: `verb plain words key=value`.
struct Words<'a> {
    plain: Vec<&'a str>,
    named: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    fn of(command: &'a str) -> Words<'a> {
        let (named, plain): (Vec<&str>, Vec<&str>) = command.split(' ').partition(|word| word.contains('='));
        Words {
            plain,
            named: named
                .into_iter()
                .filter_map(|word| word.split_once('='))
                .collect(),
        }
    }

    fn plain(&self, index: usize) -> i64 {
        self.plain[index].parse().expect("a number")
    }

    fn number<T: TryFrom<i64>>(&self, name: &str, default: i64) -> T {
        let value = self
            .named
            .get(name)
            .map_or(default, |value| value.parse().expect("a number"));
        T::try_from(value).ok().expect("the number fits")
    }
}

impl Stage {
    fn run(&mut self, command: &str) -> String {
        let words = Words::of(command);
        let now = self.now;
        match words.plain[0] {
            "open" => self.open(&words),
            "restart" => self.restart(&words),
            "append" => self.append(&words),
            "durable" => {
                let replica = NodeId(words.number("replica", 0));
                outcome(
                    self.leader().handle_durable(replica, Offset(words.plain(1))),
                    |()| "ok".into(),
                )
            }
            "permit" => {
                let pid = words.number("pid", 0);
                let permit = Permit(self.now.as_secs());
                self.leader().handle_permit(ProducerId(pid), permit);
                self.permits.insert(pid, permit);
                "ok".into()
            }
            "marker" => self.marker(&words),
            "stable" => self.leader().stable().to_string(),
            "promise" => {
                self.leader().handle_durability(durability(&words));
                "ok".into()
            }
            "give-ids" => {
                self.next_id = words.plain(1);
                "ok".into()
            }
            "node" => {
                self.is_full = words.plain[1] == "full";
                "ok".into()
            }
            "seal" => {
                let sealed = self.leader().handle_seal();
                format!(
                    "sealed epoch={} tail={} next={}",
                    sealed.epoch, sealed.tail, sealed.next_offset
                )
            }
            "trim" => {
                let checked = self.leader().check_trim(Offset(words.plain(1)));
                outcome(checked, |start| {
                    self.leader().handle_trim(start);
                    format!("start={start}")
                })
            }
            "wait" => {
                self.now += Duration::from_secs(u64::try_from(words.plain(1)).expect("not negative"));
                let now = self.now;
                self.leader().handle_time(now);
                format!("producers={}", self.leader().producers().len())
            }
            "deadline" => match self.leader().deadline() {
                Some(deadline) => format!("in {}s", deadline.saturating_sub(now).as_secs()),
                None => "none".into(),
            },
            "end-of" => {
                let end = self
                    .leader()
                    .epoch_end_offset(Epoch(i32::try_from(words.plain(1)).expect("an epoch")));
                format!("epoch={} next={}", end.epoch, end.next_offset)
            }
            "status" => {
                let leader = self.leader();
                let (start, tail, next) = (leader.log_start(), leader.tail(), leader.next_offset());
                format!(
                    "epoch={} start={start} tail={tail} next={next} here={}",
                    leader.epoch(),
                    leader.durable_here()
                )
            }
            unknown => panic!("no such command: {unknown}"),
        }
    }

    fn leader(&mut self) -> &mut Leader {
        self.leader.as_mut().expect("a script begins with open")
    }

    fn open(&mut self, words: &Words<'_>) -> String {
        self.limits = ProducerLimits {
            producers_max: words.number("producers", 100),
            retry_horizon: Duration::from_secs(words.number("horizon", 600)),
            expiration: Duration::from_secs(words.number("expiration", 1000)),
        };
        self.next_id = words.number("ids", 100);
        let mut history = History::new(self.limits);
        history.producers.begin_at(ProducerId(self.next_id));
        let next_offset = Offset::ZERO;
        let replicas: i32 = words.number("replicas", 1);
        let state = LeaderState {
            replicas: (0..replicas)
                .map(|node| Replica {
                    node: NodeId(node),
                    next_offset,
                })
                .collect(),
            ack_quorum: words.number("quorum", 1),
            durability: durability(words),
            ..LeaderState::single(NodeId(0), Epoch(0), next_offset, next_offset, history)
        };
        self.leader = Some(Leader::open(state));
        "ok".into()
    }

    /// The process dies; the next one finds the log up to `words[1]` and a checkpoint made just before.
    fn restart(&mut self, words: &Words<'_>) -> String {
        let next_offset = Offset(words.plain(1));
        let now = self.now;
        let leader = self.leader();
        let (epoch, log_start) = (Epoch(leader.epoch().0 + 1), leader.log_start());
        let (_, snapshot) = leader.snapshot_history(now);
        let mut history = History::restore(self.now, self.limits, &snapshot).expect("just written");
        history.cut_to(next_offset);
        self.leader = Some(Leader::open(LeaderState::single(
            NodeId(0),
            epoch,
            log_start,
            next_offset,
            history,
        )));
        "ok".into()
    }

    fn append(&mut self, words: &Words<'_>) -> String {
        let stamp = || Stamp {
            id: ProducerId(words.number("pid", 0)),
            epoch: words.number("epoch", 0),
            first_sequence: words.number("seq", 0),
        };
        let append = Append {
            record_count: words.number("count", 1),
            max_timestamp_ms: 0,
            producer: words.named.contains_key("pid").then(stamp),
            inside: words.plain.contains(&"inside").then(|| Inside {
                permit: self
                    .permits
                    .get(&words.number("pid", 0))
                    .filter(|_| words.plain.contains(&"permitted"))
                    .copied(),
                from_zero: words.plain.contains(&"from-zero"),
            }),
        };
        let now = self.now;
        let admission = Admission {
            now,
            next_id: ProducerId(self.next_id),
            has_room: !self.is_full,
            from: words
                .named
                .contains_key("from")
                .then(|| address(words.number("from", 0))),
        };
        let checked = self.leader().check_append(&append, &admission);
        self.take(checked)
    }

    fn marker(&mut self, words: &Words<'_>) -> String {
        let marker = EndMarker {
            producer: ProducerId(words.number("pid", 0)),
            epoch: words.number("epoch", 0),
            coordinator_epoch: words.number("coordinator", 0),
            commit: words.plain.contains(&"commit"),
            has_own_epoch: words.plain.contains(&"own-epoch"),
            timestamp_ms: 0,
        };
        let leader = self.leader();
        leader.revoke_permit(marker.producer);
        let checked = leader.check_marker(&marker);
        self.take(checked)
    }

    fn take(&mut self, checked: Result<Checked, AppendError>) -> String {
        let now = self.now;
        let leader = self.leader();
        match checked {
            Ok(Checked::Unverified) => "unverified".into(),
            Ok(Checked::New(numbered)) => {
                let appended = leader.handle_append(now, numbered);
                format!("new {}..{}", appended.first_offset, appended.next_offset)
            }
            Ok(Checked::Duplicate(written)) => {
                format!("duplicate {}..{}", written.first_offset, written.next_offset)
            }
            Err(error) => format!("error: {error}"),
        }
    }

    fn report_actions(&mut self, played: &mut String) {
        while let Some(action) = self.leader().next_action() {
            let line = match action {
                Action::Commit { tail, .. } => format!("  commit tail={tail}"),
                Action::DurableHere { next_offset } => format!("  durable here next={next_offset}"),
                Action::Abandon { tail } => format!("  abandon above={tail}"),
            };
            writeln!(played, "{line}").expect("a string takes everything");
        }
    }
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn durability(words: &Words<'_>) -> Durability {
    match words.plain.contains(&"memory") {
        true => Durability::Memory,
        false => Durability::Flushed,
    }
}

fn outcome<T, E: std::fmt::Display>(result: Result<T, E>, show: impl FnOnce(T) -> String) -> String {
    result.map_or_else(|error| format!("error: {error}"), show)
}
