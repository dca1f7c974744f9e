//! Faults of a simulation and their times: drawn from the seed, one fault after the other, each with its end.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use platform::disk::{Applied, FaultKind, OperationKind};
use platform::net::SimulatedNet;
use platform::random::SeededRandom;
use tokio::time::Instant;

use crate::damage::Damage;
use crate::engine::Engine;
use crate::history::History;
use crate::machine::{Machine, Started};
use crate::trace::Trace;

/// How often each kind of fault came about.
pub type FaultCounts = BTreeMap<&'static str, u64>;

/// The errno of a disk that fails.
const EIO: i32 = 5;
/// Kinds of which a run has so many at least, if it has as many faults as `LEAST_FAULTS`.
const LEAST: [(&str, u64); 9] = [
    (KILL, 4),
    (POWER_CUT, 4),
    (POWER_CUT_IN_CALL, 8),
    (RESET, 20),
    (DURABLE_WRITE_FAILS, 2),
    (DURABLE_WRITE_FAILS_ONCE, 2),
    (BIT_TURNS, 2),
    (OPERATION_FAILS, 2),
    (DISK_FULL, 2),
];
/// See `LEAST`.
const LEAST_FAULTS: u64 = 100;
const KILL: &str = "kill";
const POWER_CUT: &str = "power cut";
const POWER_CUT_IN_CALL: &str = "power cut in a disk's call";
const BIT_TURNS: &str = "a bit turns";
const RESET: &str = "connections reset";
const DURABLE_WRITE_FAILS: &str = "durable writes fail";
const DURABLE_WRITE_FAILS_ONCE: &str = "a durable write fails";
const OPERATION_FAILS: &str = "disk operation fails";
const DISK_FULL: &str = "disk full";
/// Calls that the power is cut in: each is a step of something that is to survive it.
const CUT_IN: [OperationKind; 8] = [
    OperationKind::WriteDurable,
    OperationKind::Write,
    OperationKind::Sync,
    OperationKind::Create,
    OperationKind::Rename,
    OperationKind::Remove,
    OperationKind::SyncDirectory,
    OperationKind::FillWithZeros,
];
/// How long a node is given to stop in order.
const DRAIN_MAX: Duration = Duration::from_secs(2);
/// How long a node may take to start, in simulated time.
const START_MAX: Duration = Duration::from_secs(60);

/// The end of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mending {
    Start,
    Continue,
    Net,
    /// A node whose journal is dead is started anew.
    Replace,
    Space,
    Kill,
    TurnBack,
}

/// See the module.
pub(crate) struct Faults {
    random: SeededRandom,
    trace: Trace,
    history: History,
    clients: IpAddr,
    mendings: BTreeMap<(Instant, u64), Mending>,
    next_mending: u64,
    counts: FaultCounts,
    /// The disk has been made to fail since the last start, or the node was told to stop.
    start_may_fail: bool,
    /// Set when the disk is called as somebody waits for, to cut the power.
    cut_is_due: Option<Arc<AtomicBool>>,
    damage: Option<Damage>,
}

impl Faults {
    /// No fault yet.
    pub(crate) fn new(random: SeededRandom, trace: Trace, history: History, clients: IpAddr) -> Faults {
        Faults {
            random,
            trace,
            history,
            clients,
            mendings: BTreeMap::new(),
            next_mending: 0,
            counts: FaultCounts::new(),
            start_may_fail: false,
            cut_is_due: None,
            damage: None,
        }
    }

    /// Faults that came about, by kind.
    pub(crate) fn counts(&self) -> &FaultCounts {
        &self.counts
    }

    fn note(&mut self, fault: &'static str) {
        *self.counts.entry(fault).or_default() += 1;
        self.trace.note(fault);
    }

    fn mend_after(&mut self, most_ms: u64, mending: Mending) {
        let at = Instant::now() + Duration::from_millis(1 + self.random.below(most_ms));
        self.mendings.insert((at, self.next_mending), mending);
        self.next_mending += 1;
    }

    /// Runs for a while, mending what is due.
    pub(crate) async fn pass(&mut self, engine: &mut Engine, machine: &mut Machine, net: &SimulatedNet) {
        let end = Instant::now() + Duration::from_millis(10 + self.random.below(240));
        loop {
            let due = self.mendings.first_key_value().map(|((at, _), _)| *at);
            match due {
                Some(at) if at <= end => {
                    self.run_until(at, engine, machine).await;
                    let (_, mending) = self.mendings.pop_first().expect("it was seen");
                    self.mend(mending, engine, machine, net);
                }
                _ => break,
            }
        }
        self.run_until(end, engine, machine).await;
        self.look_after(engine, machine);
    }

    /// Runs until a moment, and cuts the power where that is due.
    async fn run_until(&mut self, moment: Instant, engine: &mut Engine, machine: &mut Machine) {
        if let Some(is_due) = self.cut_is_due.clone()
            && engine.run(moment, || is_due.load(Ordering::Relaxed)).await
        {
            machine.cut_power(engine);
            self.cut_is_due = None;
            self.mend_after(500, Mending::Start);
        }
        engine.run_until(moment).await;
    }

    /// Has the power cut in one of the next calls of a kind, or of those about a checkpoint. No later call does anything any more.
    fn cut_in_call(&mut self, machine: &Machine) {
        let kind = CUT_IN[self.random.below(CUT_IN.len() as u64) as usize];
        let is_of_checkpoint = self.random.chance(1, 3);
        let left = AtomicU64::new(self.random.below(4));
        let first = self.disk_fault();
        let is_due = Arc::new(AtomicBool::new(false));
        self.cut_is_due = Some(is_due.clone());
        machine.disk().fail_when(move |call| {
            if is_due.load(Ordering::Relaxed) {
                return Some(FaultKind::Error {
                    errno: EIO,
                    applied: Applied::Nothing,
                });
            }
            let is_meant = match is_of_checkpoint {
                true => call
                    .path
                    .components()
                    .any(|part| part.as_os_str() == "checkpoints"),
                false => call.kind == kind,
            };
            if !is_meant || left.fetch_sub(1, Ordering::Relaxed) > 0 {
                return None;
            }
            is_due.store(true, Ordering::Relaxed);
            Some(first)
        });
    }

    /// Has one more thing go wrong, of which `left` are still to come with this one.
    pub(crate) async fn strike(
        &mut self,
        left: u64,
        engine: &mut Engine,
        machine: &mut Machine,
        net: &SimulatedNet,
    ) {
        let fault = self.missing(left).unwrap_or_else(|| self.draw());
        self.note(fault);
        let node = machine.address();
        let next_call = machine.disk().call_count();
        match fault {
            KILL => {
                machine.kill(engine);
                self.mend_after(300, Mending::Start);
            }
            POWER_CUT => {
                machine.cut_power(engine);
                self.mend_after(500, Mending::Start);
            }
            "stop in order" => {
                self.start_may_fail = true;
                machine.drain();
                self.mend_after(2_000, Mending::Kill);
            }
            "process stopped" => {
                machine.stop(engine, true);
                self.mend_after(3_000, Mending::Continue);
            }
            "requests cut off" => {
                net.cut(self.clients, node);
                self.mend_after(2_000, Mending::Net);
            }
            "answers cut off" => {
                net.cut(node, self.clients);
                self.mend_after(2_000, Mending::Net);
            }
            POWER_CUT_IN_CALL => self.cut_in_call(machine),
            BIT_TURNS => self.turn(engine, machine, net).await,
            RESET => {
                net.reset(node, self.clients);
            }
            DURABLE_WRITE_FAILS => {
                let fault = self.disk_fault();
                machine
                    .disk()
                    .fail_when(move |call| (call.kind == OperationKind::WriteDurable).then_some(fault));
                self.mend_after(1_500, Mending::Replace);
            }
            DURABLE_WRITE_FAILS_ONCE => {
                let fault = self.disk_fault();
                let is_first = AtomicBool::new(true);
                machine.disk().fail_when(move |call| {
                    let fails =
                        call.kind == OperationKind::WriteDurable && is_first.swap(false, Ordering::Relaxed);
                    fails.then_some(fault)
                });
                self.mend_after(1_500, Mending::Replace);
            }
            OPERATION_FAILS => {
                let fault = self.disk_fault();
                machine
                    .disk()
                    .fail_operation(next_call + self.random.below(10), fault);
                self.mend_after(1_500, Mending::Replace);
            }
            DISK_FULL => {
                self.start_may_fail = true;
                machine
                    .disk()
                    .fail_operation(next_call, FaultKind::NoSpace { until_lifted: true });
                self.mend_after(1_500, Mending::Space);
            }
            "write split" => {
                let call = next_call + self.random.below(10);
                machine.disk().fail_operation(call, FaultKind::ShortWrite);
            }
            "call interrupted" => {
                // A sync is never made twice: the node may die of it.
                self.start_may_fail = true;
                let call = next_call + self.random.below(10);
                machine.disk().fail_operation(call, FaultKind::Interrupted);
                self.mend_after(1_500, Mending::Replace);
            }
            _ => machine
                .clock()
                .jump(self.random.below(7_200_000) as i64 - 3_600_000),
        }
    }

    fn draw(&mut self) -> &'static str {
        match self.random.below(100) {
            0..9 => KILL,
            9..13 => POWER_CUT,
            13..24 => POWER_CUT_IN_CALL,
            24..27 => "stop in order",
            27..30 => BIT_TURNS,
            30..36 => "process stopped",
            36..45 => "requests cut off",
            45..54 => "answers cut off",
            54..80 => RESET,
            80..82 => DURABLE_WRITE_FAILS,
            82..85 => DURABLE_WRITE_FAILS_ONCE,
            85..88 => OPERATION_FAILS,
            88..92 => DISK_FULL,
            92..94 => "write split",
            94..96 => "call interrupted",
            _ => "wall clock jumps",
        }
    }

    /// A kind that would be too rare if it did not come now.
    fn missing(&self, left: u64) -> Option<&'static str> {
        let so_far = self.counts.values().sum::<u64>();
        if so_far + left < LEAST_FAULTS {
            return None;
        }
        let lacks = |(kind, least): &(&'static str, u64)| {
            let lacks = least.saturating_sub(self.counts.get(kind).copied().unwrap_or(0));
            (lacks > 0).then_some((*kind, lacks))
        };
        let lacking: Vec<(&str, u64)> = LEAST.iter().filter_map(lacks).collect();
        let count: u64 = lacking.iter().map(|(_, lacks)| lacks).sum();
        (count >= left)
            .then(|| lacking.first().map(|(kind, _)| *kind))
            .flatten()
    }

    fn disk_fault(&mut self) -> FaultKind {
        self.start_may_fail = true;
        let applied = match self.random.below(3) {
            0 => Applied::Nothing,
            1 => Applied::Part,
            _ => Applied::All,
        };
        FaultKind::Error { errno: EIO, applied }
    }

    fn mend(&mut self, mending: Mending, engine: &mut Engine, machine: &mut Machine, net: &SimulatedNet) {
        self.trace.note(format_args!("mended: {mending:?}"));
        match mending {
            Mending::Start => self.start(engine, machine),
            Mending::Continue => machine.stop(engine, false),
            Mending::Net => net.mend(),
            Mending::Space => machine.disk().lift_no_space(),
            Mending::Replace | Mending::Kill => {
                machine.kill(engine);
                self.mend_after(100, Mending::Start);
            }
            Mending::TurnBack => {
                machine.kill(engine);
                self.turn_back(machine);
                self.mend_after(100, Mending::Start);
            }
        }
    }

    /// Has the node stop in order, and then a bit of its files turn: all that was acknowledged is behind it, so it must be noticed.
    async fn turn(&mut self, engine: &mut Engine, machine: &mut Machine, net: &SimulatedNet) {
        net.mend();
        machine.stop(engine, false);
        machine.drain();
        let deadline = Instant::now() + DRAIN_MAX;
        let has_stopped = engine.run(deadline, || machine.is_drained()).await;
        machine.kill(engine);
        if has_stopped && self.damage.is_none() {
            self.damage = Damage::draw(machine.disk(), &mut self.random);
        }
        if let Some(damage) = &self.damage {
            self.trace.note(damage);
            self.trace.count("a bit of a stored file turned");
            self.mend_after(3_000, Mending::TurnBack);
        }
        self.mend_after(100, Mending::Start);
    }

    fn turn_back(&mut self, machine: &Machine) {
        if let Some(damage) = self.damage.take() {
            damage.repair(machine.disk());
        }
    }

    fn start(&mut self, engine: &mut Engine, machine: &mut Machine) {
        if machine.started() != Started::Down {
            return;
        }
        machine.disk().clear_faults();
        self.cut_is_due = None;
        self.start_may_fail = false;
        if let Err(error) = machine.start(engine) {
            self.history
                .violate(format!("a node cannot be assembled: {error}"));
        }
    }

    /// A node that could not start because its disk failed is started anew.
    fn look_after(&mut self, engine: &mut Engine, machine: &mut Machine) {
        match machine.started() {
            Started::Failed(error) if self.damage.is_some() => {
                self.trace.note(format_args!("a start refused damage: {error}"));
                self.trace.count("a start refused damage");
                machine.kill(engine);
                self.turn_back(machine);
                self.mend_after(100, Mending::Start);
            }
            Started::Failed(error) if self.start_may_fail => {
                self.trace.note(format_args!("a start failed: {error}"));
                self.trace.count("a start failed with its disk, or was stopped");
                machine.kill(engine);
                self.mend_after(100, Mending::Start);
            }
            Started::Failed(error) => self.history.violate(format!("a node cannot start: {error}")),
            _ => {}
        }
    }

    /// Mends everything, and waits until the node serves.
    pub(crate) async fn end(&mut self, engine: &mut Engine, machine: &mut Machine, net: &SimulatedNet) {
        self.mendings.clear();
        net.mend();
        machine.stop(engine, false);
        machine.kill(engine);
        self.turn_back(machine);
        engine.run_until(Instant::now() + Duration::from_millis(1)).await;
        self.start(engine, machine);
        let deadline = Instant::now() + START_MAX;
        while machine.started() == Started::Opening && Instant::now() < deadline {
            engine.run_until(Instant::now() + Duration::from_millis(10)).await;
        }
        if machine.started() != Started::Serving {
            self.history.violate(format!(
                "the node does not serve after all is mended: {:?}",
                machine.started()
            ));
        }
    }
}
