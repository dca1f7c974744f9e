//! One run: machines, a network, faults and an operator, all drawn from one seed; then calm, in which all must come to agree.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use metadata_group::{Member, Settings};
use platform::random::SeededRandom;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::history::{History, Value};
use crate::machine::{self, Change, Machine};
use crate::net::Net;
use crate::panics;
use crate::trace::Trace;

/// How long a calm group may take to agree.
const CALM: Duration = Duration::from_secs(30);
const ACTIONS: u64 = 90;

/// What a run amounted to.
pub(crate) struct Outcome {
    pub(crate) hash: u64,
    pub(crate) text: String,
    pub(crate) steps: u64,
    pub(crate) counts: BTreeMap<&'static str, u64>,
    pub(crate) wrong: Option<String>,
}

/// Runs a seed.
pub(crate) fn run(seed: u64, keeps_text: bool) -> Outcome {
    panics::keep();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.expect("a runtime").block_on(async move {
        let trace = Trace::new(keeps_text);
        let mut world = World::new(seed, trace.clone());
        let went = world.go().await;
        world.machines.iter().for_each(Machine::note_operations);
        let panicked = panics::kept().map(|panic| format!("panic: {panic}"));
        Outcome {
            hash: trace.hash(),
            text: trace.text(),
            steps: trace.steps(),
            counts: trace.counts(),
            wrong: panicked.or(world.history.wrong()).or(went.err()),
        }
    })
}

struct World {
    random: SeededRandom,
    engine: Engine,
    net: Net,
    history: History,
    trace: Trace,
    machines: Vec<Machine>,
    next_value: Value,
    operator: Operator,
}

/// Changes the members, one change after the other.
#[derive(Default)]
struct Operator {
    under_way: Option<(Change, machine::Outcome, Instant)>,
    /// Of a node that has lost its disk, the member that it was and is to be no more.
    lost: Option<Member>,
}

impl World {
    fn new(seed: u64, trace: Trace) -> World {
        let mut random = SeededRandom::new(seed);
        let history = History::default();
        let mut engine = Engine::new(random.split(), trace.clone());
        let (net, delivering) = Net::new(random.split(), trace.clone(), history.clone());
        engine.add(delivering);
        let settings = Settings {
            snapshot_bytes: 1_000 + random.below(30_000),
            kept_entries: random.below(10),
            file_bytes: 16_384 + random.below(100_000),
            snapshot_timeout: Duration::from_millis(400),
            ..Settings::default()
        };
        let count = 3 + random.below(3) as i32;
        let machines = (1..=count).map(|node| {
            let (net, history, trace) = (net.clone(), history.clone(), trace.clone());
            Machine::new(node, settings.clone(), net, history, trace, random.split())
        });
        let machines = machines.collect();
        World {
            machines,
            random,
            engine,
            net,
            history,
            trace,
            next_value: 1,
            operator: Operator::default(),
        }
    }

    async fn go(&mut self) -> Result<(), String> {
        for machine in &mut self.machines {
            machine.start(&mut self.engine, machine.member.node == 1);
        }
        self.pass(Duration::from_millis(500)).await?;
        let grows_first = self.random.chance(2, 3);
        for action in 0..ACTIONS {
            let quiet = grows_first && action < 15;
            self.act(quiet);
            self.operate();
            let ms = self.random.below(200);
            self.pass(Duration::from_millis(ms)).await?;
        }
        self.calm_down().await
    }

    /// Lets time pass, and sees to what came of it.
    async fn pass(&mut self, time: Duration) -> Result<(), String> {
        let until = Instant::now() + time;
        loop {
            let (machines, history) = (&self.machines, &self.history);
            let is_due = || {
                history.is_wrong()
                    || panics::has_any()
                    || machines.iter().any(|m| m.is_alive() && m.cut_is_due())
            };
            let is_early = self.engine.run(until, is_due).await;
            if self.history.is_wrong() || panics::has_any() {
                return Err(String::from("see there"));
            }
            if !is_early {
                return Ok(());
            }
            for machine in &mut self.machines {
                if machine.is_alive() && machine.cut_is_due() {
                    self.trace
                        .note(format_args!("power of {} is cut in a call", machine.member));
                    self.trace.count("power cuts in calls");
                    machine.cut_power(&mut self.engine);
                }
            }
        }
    }

    fn any(&mut self) -> usize {
        self.random.below(self.machines.len() as u64) as usize
    }

    /// The machine that leads in the greatest term, as it believes.
    fn leader(&self) -> Option<usize> {
        let led = |machine: &Machine| {
            machine
                .group()
                .map(|group| group.status())
                .filter(|status| status.is_leader)
        };
        let leading = self
            .machines
            .iter()
            .enumerate()
            .filter_map(|(at, machine)| Some((led(machine)?.term, at)));
        leading.max().map(|(_, at)| at)
    }

    /// Does one thing, good or bad.
    fn act(&mut self, quiet: bool) {
        for _ in 0..self.random.below(4) {
            self.propose();
        }
        let at = self.any();
        let (node, other) = (self.machines[at].member, self.any());
        let other = self.machines[other].member;
        let lot = if quiet { 99 } else { self.random.below(100) };
        let machine = &mut self.machines[at];
        let event = match lot {
            0..8 if machine.is_alive() => {
                machine.kill(&mut self.engine);
                "killed"
            }
            8..16 if machine.is_alive() => {
                machine.cut_power(&mut self.engine);
                "power cuts"
            }
            16..24 if machine.is_alive() => {
                machine.cut_power_in_call();
                "power to be cut in a call"
            }
            24..27 if machine.is_alive() => {
                machine.fail_call();
                "call to fail"
            }
            27..30 => {
                // All at once, as one socket has them.
                for machine in &mut self.machines {
                    machine.cut_power(&mut self.engine);
                }
                "power cuts of all"
            }
            30..36 if machine.is_alive() => {
                machine.stop(&mut self.engine, true);
                "stopped"
            }
            36..46 => {
                self.machines
                    .iter()
                    .for_each(|machine| machine.stop(&mut self.engine, false));
                "continued"
            }
            46..54 => {
                self.net.cut(node.node, other.node);
                "ways cut"
            }
            54..58 => {
                for machine in &self.machines {
                    self.net.cut(node.node, machine.member.node);
                    self.net.cut(machine.member.node, node.node);
                }
                "cut off"
            }
            58..68 => {
                self.net.mend();
                "mended"
            }
            68..71 => {
                if let Some(leader) = self.leader() {
                    self.machines[leader].hand_over(node);
                }
                "handed over"
            }
            71..75 => {
                self.exchange(at);
                return;
            }
            _ => {
                self.revive(lot);
                return;
            }
        };
        self.trace.note(format_args!("{event}: {node}"));
        self.trace.count(event);
    }

    /// Starts what is down, or has failed.
    fn revive(&mut self, lot: u64) {
        for machine in &mut self.machines {
            if machine.has_failed() {
                machine.kill(&mut self.engine);
            }
            if !machine.is_alive() && (lot >= 85 || self.random.chance(1, 3)) {
                self.trace.note(format_args!("started: {}", machine.member));
                self.trace.count("started");
                machine.start(&mut self.engine, false);
            }
        }
    }

    fn propose(&mut self) {
        let at = match self.leader() {
            Some(leader) if self.random.chance(4, 5) => leader,
            _ => self.any(),
        };
        if self.machines[at].group().is_none() {
            return;
        }
        let value = self.next_value;
        self.next_value += 1;
        let length = match self.random.below(20) {
            0 => self.random.below(20_000),
            _ => self.random.below(300),
        };
        let mut entry = value.to_le_bytes().to_vec();
        entry.resize(8 + length as usize, value as u8);
        self.trace.note(format_args!(
            "{value} is proposed to {}",
            self.machines[at].member
        ));
        self.machines[at].propose(Bytes::from(entry));
    }

    /// Looks at the change under way, and begins another.
    fn operate(&mut self) {
        if let Some((change, outcome, asked_at)) = &self.operator.under_way {
            let done = outcome.borrow().clone();
            match (done, change) {
                (None, _) if asked_at.elapsed() < Duration::from_secs(3) => return,
                (Some(Ok(())), Change::RemoveLearner(member)) if Some(*member) == self.operator.lost => {
                    self.operator.lost = None;
                }
                _ => {}
            }
            self.operator.under_way = None;
        }
        let Some(leader) = self.leader() else { return };
        if !self.random.chance(1, 3) {
            return;
        }
        if let Some(change) = self.next_change(leader) {
            self.trace
                .note(format_args!("{change:?} at {}", self.machines[leader].member));
            let outcome = self.machines[leader].change(change);
            self.operator.under_way = Some((change, outcome, Instant::now()));
        }
    }

    /// Exchanges a node's disk for an empty one, if the group can do without it.
    fn exchange(&mut self, at: usize) {
        let status = self
            .leader()
            .and_then(|leader| Some(self.machines[leader].group()?.status()));
        let member = self.machines[at].member;
        let is_spare = status.is_some_and(|status| {
            !status.is_changing && (!status.voters.contains(&member) || status.voters.len() > 2)
        });
        // A second one may be one too many.
        if !is_spare || self.operator.lost.is_some() || self.operator.under_way.is_some() {
            return;
        }
        let machine = &mut self.machines[at];
        machine.kill(&mut self.engine);
        machine.exchange_disk();
        self.operator.lost = Some(member);
        self.trace.note(format_args!(
            "{member} is lost, {} comes with an empty disk",
            machine.member
        ));
        self.trace.count("disks exchanged");
        machine.start(&mut self.engine, false);
    }

    fn next_change(&mut self, leader: usize) -> Option<Change> {
        let status = self.machines[leader].group()?.status();
        if status.is_changing {
            return Some(Change::End);
        }
        let node = self.any();
        let node = match self.operator.lost {
            Some(lost) if status.voters.contains(&lost) => return Some(Change::RemoveVoter(lost)),
            Some(lost) if status.learners.contains(&lost) => return Some(Change::RemoveLearner(lost)),
            Some(_) => {
                self.operator.lost = None;
                return None;
            }
            None => self.machines[node].member,
        };
        let wanted = 1 + self.random.below(self.machines.len() as u64 + 2) as usize;
        let is_voter = status.voters.contains(&node);
        let is_learner = status.learners.contains(&node);
        Some(match (is_voter, is_learner) {
            (true, _) if status.voters.len() > wanted => Change::RemoveVoter(node),
            (true, _) => return None,
            (false, true) if self.random.chance(1, 4) => Change::RemoveLearner(node),
            (false, true) => Change::AddVoter(node),
            (false, false) => Change::AddLearner(node),
        })
    }

    /// Ends all faults, and waits until all members have all.
    async fn calm_down(&mut self) -> Result<(), String> {
        self.trace.note("calm");
        self.net.calm();
        for machine in &mut self.machines {
            machine.stop(&mut self.engine, false);
            machine.disk.clear_faults();
        }
        self.pass(Duration::from_millis(300)).await?;
        let deadline = Instant::now() + CALM;
        let mut began = None;
        while Instant::now() < deadline {
            self.revive(99);
            if let Some(leader) = self.leader() {
                began.get_or_insert(self.history.acknowledged_count());
                if self.machines[leader]
                    .group()
                    .is_some_and(|group| group.status().is_changing)
                {
                    drop(self.machines[leader].change(Change::End));
                }
                self.propose();
            }
            self.pass(Duration::from_millis(200)).await?;
            if began.is_some_and(|before| self.history.acknowledged_count() > before + 2) {
                return self.compare(deadline).await;
            }
        }
        Err(format!("nothing is committed any more: {}", self.describe()))
    }

    /// That all members come to have the same, and all of it.
    async fn compare(&mut self, deadline: Instant) -> Result<(), String> {
        loop {
            self.pass(Duration::from_millis(400)).await?;
            let leader = self.leader();
            let status = leader.and_then(|leader| Some(self.machines[leader].group()?.status()));
            let Some(status) = status else {
                // One that has lost its vote gives up its office.
                if Instant::now() >= deadline {
                    return Err(format!("nobody leads: {}", self.describe()));
                }
                continue;
            };
            let members: Vec<&Machine> = self
                .machines
                .iter()
                .filter(|machine| {
                    status.voters.contains(&machine.member) || status.learners.contains(&machine.member)
                })
                .collect();
            let applied = |machine: &&Machine| machine.group().and_then(|group| group.status().applied);
            let is_even =
                members.iter().all(|machine| applied(machine) == status.applied) && !status.is_changing;
            if is_even {
                members
                    .iter()
                    .for_each(|machine| self.history.has_all(machine.member, *machine.state.borrow()));
                return match self.history.wrong() {
                    Some(_) => Err(String::from("see there")),
                    None => Ok(()),
                };
            }
            if Instant::now() >= deadline {
                return Err(format!("members do not catch up: {}", self.describe()));
            }
            self.revive(99);
            if status.is_changing
                && let Some(leader) = leader
            {
                drop(self.machines[leader].change(Change::End));
            }
        }
    }

    fn describe(&self) -> String {
        let each = self.machines.iter().map(|machine| {
            let status = machine.group().map(|group| group.status());
            format!("\n  {}: {status:?} {:?}", machine.member, machine.state.borrow())
        });
        each.collect()
    }
}
