//! Plays the scripts in `testdata/replicas/`: lines `> command` say what happens to some nodes, the lines beneath tell what came
//! of it. A script that fails prints what really came out.

use std::collections::BTreeMap;
use std::fmt::Write;

use planted::{Bug, with};

use super::world::{Letter, Mistake, World, index, narrate, node_id};
use crate::leader::NodeId;
use crate::producers::{ProducerId, Stamp};
use crate::replica::Configuration;

macro_rules! scenarios {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            play(script(stringify!($name)), None);
        })*

        fn script(name: &str) -> &'static str {
            match name {
                $(stringify!($name) => include_str!(concat!("../../../testdata/replicas/", stringify!($name), ".txt")),)*
                _ => panic!("there is no script {name}"),
            }
        }
    };
}

scenarios! {
    order slow_leader fail_over accept_needs_the_log old_records_count_by_accepts acks_of_an_earlier_disk
    promise_is_flushed_first writer_before_is_compared copied_is_committed
    run_1_catch_up_raises_accepted run_2_resent_accept run_3_settled_by_shortcut run_3_two_changes run_4_restarted_leader
    run_5_power_cut run_6_old_leader run_8_two_leaders_in_one_term
    run_9_cut_keeps_accepted run_10_late_landmark run_11_lost_promise run_12_old_acks run_13_late_metadata
    run_14_all_replicas_wanted run_15_trim_overtakes run_16_trim_hides_the_writer
    run_17_lost_promiser run_20_begins_inside_a_batch run_22_trim_overtakes_a_piece
}

/// Plays a script with a bug or a mistake in it: it must come out otherwise, or break something.
fn fails(name: &str, bug: Option<Bug>, mistake: Option<Mistake>) {
    let play = || std::panic::catch_unwind(|| play(script(name), mistake));
    let outcome = match bug {
        Some(bug) => with(bug, play),
        None => play(),
    };
    assert!(outcome.is_err(), "{name} does not show {bug:?} {mistake:?}");
}

#[test]
fn scripts_show_bugs_that_seeds_hardly_find() {
    fails("accept_needs_the_log", Some(Bug::AcceptedShort), None);
    fails("old_records_count_by_accepts", Some(Bug::AckWithoutAccept), None);
    fails(
        "run_8_two_leaders_in_one_term",
        None,
        Some(Mistake::TwoLeadersInOneTerm),
    );
    fails("run_9_cut_keeps_accepted", Some(Bug::AcceptsIgnored), None);
    fails("writer_before_is_compared", Some(Bug::WriterBeforeIgnored), None);
    fails("copied_is_committed", Some(Bug::CopiedIsUncommitted), None);
    fails("acks_of_an_earlier_disk", None, Some(Mistake::OldOathsDelivered));
    fails(
        "promise_is_flushed_first",
        None,
        Some(Mistake::PromiseBeforeFlush),
    );
}

#[test]
fn each_run_shows_its_bug() {
    fails(
        "run_1_catch_up_raises_accepted",
        Some(Bug::CatchUpKeepsAccepted),
        None,
    );
    fails("run_2_resent_accept", Some(Bug::ResentAcceptCuts), None);
    fails(
        "run_3_settled_by_shortcut",
        Some(Bug::ShortcutDespiteChange),
        None,
    );
    fails(
        "run_3_settled_by_shortcut",
        None,
        Some(Mistake::SettledWhenAssigned),
    );
    fails("run_3_two_changes", None, Some(Mistake::ChangesUnsettled));
    fails("run_4_restarted_leader", Some(Bug::EpochOpenedAgain), None);
    fails("run_5_power_cut", None, Some(Mistake::LossNotNoticed));
    fails("run_6_old_leader", Some(Bug::AcksAfterSeal), None);
    fails("run_9_cut_keeps_accepted", Some(Bug::AcceptedFallsWithCut), None);
    fails("run_10_late_landmark", Some(Bug::StaleLandmarkCuts), None);
    fails("run_11_lost_promise", Some(Bug::AssignmentIsNoFloor), None);
    fails("run_12_old_acks", Some(Bug::AcksOutliveLink), None);
    fails("run_13_late_metadata", Some(Bug::CertaintyByLeader), None);
    fails("run_15_trim_overtakes", Some(Bug::LeftBehindByTrim), None);
    fails("run_20_begins_inside_a_batch", Some(Bug::BeginsInsideBatch), None);
    fails("run_16_trim_hides_the_writer", Some(Bug::CommittedCompared), None);
    fails("run_17_lost_promiser", Some(Bug::PromiseOutlivesLink), None);
    fails("run_17_lost_promiser", None, Some(Mistake::OldOathsDelivered));
}

fn play(script: &str, mistake: Option<Mistake>) {
    let mut stage = Stage {
        world: World::new(3, 3, 2),
        aside: Vec::new(),
    };
    let mut played = String::new();
    for line in script.lines() {
        let command = line.strip_prefix("> ");
        if command.is_some() || line.starts_with('#') || line.is_empty() {
            writeln!(played, "{line}").expect("a string takes everything");
        }
        if let Some(command) = command {
            stage.run(command, mistake);
            let story = stage.world.story.replace(Vec::new());
            for event in story.into_iter().flatten() {
                writeln!(played, "{event}").expect("a string takes everything");
            }
        }
    }
    assert!(played == script, "the script came out as:\n{played}");
}

/// More rounds of deliveries than any script needs.
const ROUNDS_MAX: usize = 100;

struct Stage {
    world: World,
    /// Letters that take their time.
    aside: Vec<Letter>,
}

impl Stage {
    fn run(&mut self, command: &str, mistake: Option<Mistake>) {
        let words: Vec<_> = command.split(' ').collect();
        let named: BTreeMap<_, _> = words.iter().filter_map(|word| word.split_once('=')).collect();
        let number = |name: &str, default: usize| {
            named
                .get(name)
                .map_or(default, |value| value.parse().expect("a number"))
        };
        let first = || words[1].parse::<usize>();
        let kind = words.get(2).copied().unwrap_or("");
        match words[0] {
            "nodes" | "open" => {
                let nodes = first().expect("a number");
                self.world = World::new(nodes, number("replicas", nodes), number("quorum", 2));
                self.world.mistake = mistake;
                if words[0] == "open" {
                    self.open();
                }
                self.world.story = Some(Vec::new());
            }
            "assign" => {
                let known = self.world.metadata.configuration.clone();
                let replicas = named.get("replicas").map(|list| nodes_of(list));
                let configuration = Configuration {
                    replicas: replicas.map_or(known.replicas, |list| list.into_iter().map(node_id).collect()),
                    ack_quorum: number("quorum", known.ack_quorum),
                };
                if let Some(joining) = named.get("joining") {
                    let joining = nodes_of(joining).into_iter().map(node_id);
                    self.world.metadata.joining.extend(joining);
                }
                self.world.assign(number("leader", 0), configuration);
            }
            "learn" => {
                for node in self.nodes(words[1]) {
                    while self.world.learn(node) {}
                }
            }
            "flush" => {
                for node in self.nodes(words[1]) {
                    if self.world.is_up(node) {
                        self.world.flush(node);
                    }
                }
            }
            "append" => self.append(
                first().expect("a number"),
                number("pid", 0),
                number("seq", 0),
                number("count", 1),
            ),
            "trim" => {
                let to = words[2].parse().expect("an offset");
                self.world.trim(first().expect("a number"), record::Offset(to));
            }
            "late" => self.world.ships_late = true,
            "deliver" => {
                for letter in self.take(words[1], kind) {
                    self.deliver(letter);
                }
            }
            "drop" => drop(self.take(words[1], kind)),
            "aside" => {
                let letters = self.take(words[1], kind);
                self.aside.extend(letters);
            }
            "repeat" => {
                let letters = self.take(words[1], kind);
                self.aside.extend(letters.iter().cloned());
                self.world.letters.extend(letters);
            }
            "arrive" => {
                for letter in std::mem::take(&mut self.aside) {
                    self.deliver(letter);
                }
            }
            "rest" => self.rest(),
            "crash" => self.world.crash(first().expect("a number"), number("kept", 0)),
            "lose" => self.world.lose(first().expect("a number"), number("kept", 0)),
            "start" => self.world.start(first().expect("a number")),
            "metadata" => {
                let metadata = &self.world.metadata;
                let members = metadata.configuration.replicas.iter().map(NodeId::to_string);
                let line = format!(
                    "  epoch {} of {} with {}, {} configurations unsettled",
                    metadata.epoch,
                    metadata.leader,
                    members.collect::<Vec<_>>().join(","),
                    metadata.unsettled.len()
                );
                self.world.story.as_mut().expect("it is written").push(line);
            }
            "link" => {
                let other = words[2].parse().expect("a number");
                self.world.link(first().expect("a number"), other);
            }
            "status" => {
                for node in self.nodes(words[1]) {
                    let line = self.status(node);
                    self.world.story.as_mut().expect("it is written").push(line);
                }
            }
            unknown => panic!("no such command: {unknown}"),
        }
    }

    /// Opens the first epoch on the first node, and brings all in.
    fn open(&mut self) {
        let configuration = self.world.metadata.configuration.clone();
        self.world.assign(0, configuration);
        for node in self.nodes("all") {
            while self.world.learn(node) {}
        }
        self.rest();
    }

    fn nodes(&self, word: &str) -> Vec<usize> {
        match word {
            "all" => (0..self.world.nodes.len()).collect(),
            list => nodes_of(list),
        }
    }

    /// Takes the letters of `all`, of one sender `0->`, or of a pair `0->1`, out of the post; of one kind, if that is given.
    fn take(&mut self, word: &str, kind: &str) -> Vec<Letter> {
        let (from, to) = word.split_once("->").unwrap_or(("", ""));
        let is_meant = |letter: &Letter| {
            let is_of = |name: &str, node: usize| name.is_empty() || name.parse() == Ok(node);
            is_of(from, letter.from) && is_of(to, letter.to) && narrate(&letter.message).starts_with(kind)
        };
        let (taken, left) = std::mem::take(&mut self.world.letters)
            .into_iter()
            .partition(is_meant);
        self.world.letters = left;
        taken
    }

    fn deliver(&mut self, letter: Letter) {
        match self.world.can_arrive(&letter) {
            true => self.world.deliver(letter),
            false => self.world.letters.push(letter),
        }
    }

    /// Flushes and delivers until nothing moves.
    fn rest(&mut self) {
        for _ in 0..ROUNDS_MAX {
            for node in self.nodes("all") {
                if self.world.is_up(node) {
                    self.world.flush(node);
                }
            }
            let letters = self.take("all", "");
            if letters.iter().all(|letter| !self.world.can_arrive(letter)) {
                self.world.letters.extend(letters);
                return;
            }
            for letter in letters {
                self.deliver(letter);
            }
        }
        panic!("the replicas do not come to rest");
    }

    fn append(&mut self, node: usize, id: usize, sequence: usize, count: usize) {
        let stamp = Stamp {
            id: ProducerId(i64::try_from(id).expect("it fits")),
            epoch: 0,
            first_sequence: i32::try_from(sequence).expect("it fits"),
        };
        let count = i32::try_from(count).expect("it fits");
        let appended = self.world.append(node, (id > 0).then_some(stamp), count);
        let line = match appended {
            Ok(appended) => format!(
                "  {node} takes {}..{}",
                appended.first_offset, appended.next_offset
            ),
            Err(error) => format!("  {node} refuses: {error}"),
        };
        self.world.story.as_mut().expect("it is written").push(line);
    }

    fn status(&self, node: usize) -> String {
        let known = &self.world.nodes[node];
        let Some(replica) = &known.replica else {
            return format!("  {node}: down");
        };
        let log: Vec<_> = known.log.iter().map(|of| of.epoch.to_string()).collect();
        format!(
            "  {node}: {:?} promised {} accepted {} tail {} next {} written by [{}]",
            replica.role(),
            replica.promised(),
            replica.accepted(),
            replica.tail(),
            replica.next_offset(),
            log.join(" ")
        )
    }
}

fn nodes_of(list: &str) -> Vec<usize> {
    let numbers = list.split(',').map(|node| node.parse().expect("a number"));
    numbers.map(|node| index(NodeId(node))).collect()
}
