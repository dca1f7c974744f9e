//! Faults of a simulation and their times: drawn from the seed, one fault after the other, each with its end.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use platform::disk::{Applied, Call, FaultKind, OperationKind};
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
const WRITE_SPLIT: &str = "write split";
const CALL_INTERRUPTED: &str = "call interrupted";
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

/// Says of each disk call whether it fails.
type Planner = Box<dyn Fn(&Call) -> Option<FaultKind> + Send>;

/// A fault of a disk call that is still to come.
enum Expected {
    /// Of the call of this number.
    At(u64),
    /// Of a call that has set this.
    Planned(Arc<AtomicBool>),
}

/// See the module.
pub(crate) struct Faults {
    random: SeededRandom,
    trace: Trace,
    history: History,
    clients: IpAddr,
    mendings: BTreeMap<(Instant, u64), Mending>,
    next_mending: u64,
    /// Faults that the node has met.
    counts: FaultCounts,
    /// Faults of disk calls to come: they count when the call has come.
    expected: Vec<(&'static str, Expected)>,
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
            expected: Vec::new(),
            start_may_fail: false,
            cut_is_due: None,
            damage: None,
        }
    }

    /// Faults that the node has met, by kind.
    pub(crate) fn counts(&self) -> &FaultCounts {
        &self.counts
    }

    /// How many faults the node has met.
    pub(crate) fn met(&self) -> u64 {
        self.counts.values().sum()
    }

    fn note(&mut self, fault: &'static str) {
        *self.counts.entry(fault).or_default() += 1;
        self.trace.note(fault);
    }

    /// Counts the expected faults that have come.
    fn note_expected(&mut self, machine: &Machine) {
        let calls = machine.disk().call_count();
        let has_come = |(_, expected): &mut (&'static str, Expected)| match expected {
            Expected::At(call) => *call < calls,
            Expected::Planned(has_come) => has_come.load(Ordering::Relaxed),
        };
        let come: Vec<_> = self.expected.extract_if(.., has_come).collect();
        for (fault, _) in come {
            self.note(fault);
        }
    }

    /// Has a call of the disk fail.
    fn fail_call(&mut self, fault: &'static str, machine: &Machine, call: u64, kind: FaultKind) {
        machine.disk().fail_operation(call, kind);
        self.expected.push((fault, Expected::At(call)));
    }

    /// Has calls of the disk fail of which `planner` says so; no others do any more that were planned so. What it is handed is to
    /// be set when one has.
    fn fail_when(
        &mut self,
        fault: &'static str,
        machine: &Machine,
        planner: impl FnOnce(Arc<AtomicBool>) -> Planner,
    ) {
        self.expected
            .retain(|(_, expected)| matches!(expected, Expected::At(_)));
        self.cut_is_due = None;
        let has_come = Arc::new(AtomicBool::new(false));
        machine.disk().fail_when(planner(has_come.clone()));
        self.expected.push((fault, Expected::Planned(has_come)));
    }

    fn mend_after(&mut self, most_ms: u64, mending: Mending) {
        let at = Instant::now() + Duration::from_millis(1 + self.random.below(most_ms));
        self.mendings.insert((at, self.next_mending), mending);
        self.next_mending += 1;
    }

    /// Runs for a while, mending what is due.
    pub(crate) async fn pass(&mut self, engine: &mut Engine, machine: &mut Machine, net: &SimulatedNet) {
        let end = Instant::now() + Duration::from_millis(5 + self.random.below(55));
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
            self.mend_after(150, Mending::Start);
        }
        engine.run_until(moment).await;
    }

    /// Has the power cut in one of the next calls of a kind, or of those about a checkpoint. No later call does anything any more.
    fn cut_in_call(&mut self, machine: &Machine) {
        let kind = CUT_IN[self.random.below(CUT_IN.len() as u64) as usize];
        let is_of_checkpoint = self.random.chance(1, 3);
        let left = AtomicU64::new(self.random.below(4));
        let first = self.disk_fault();
        let mut cut_is_due = None;
        self.fail_when(POWER_CUT_IN_CALL, machine, |is_due| {
            cut_is_due = Some(is_due.clone());
            Box::new(move |call| {
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
            })
        });
        self.cut_is_due = cut_is_due;
    }

    /// Has one more thing go wrong, of which `left` are still to come with this one. A node that is down can meet nothing.
    pub(crate) async fn strike(
        &mut self,
        left: u64,
        engine: &mut Engine,
        machine: &mut Machine,
        net: &SimulatedNet,
    ) {
        self.note_expected(machine);
        let fault = self.missing(left).unwrap_or_else(|| self.draw());
        if machine.started() == Started::Down {
            return;
        }
        let node = machine.address();
        let next_call = machine.disk().call_count();
        match fault {
            BIT_TURNS
            | POWER_CUT_IN_CALL
            | RESET
            | DURABLE_WRITE_FAILS
            | DURABLE_WRITE_FAILS_ONCE
            | OPERATION_FAILS
            | DISK_FULL
            | WRITE_SPLIT
            | CALL_INTERRUPTED => {}
            _ => self.note(fault),
        }
        match fault {
            KILL => {
                machine.kill(engine);
                self.mend_after(60, Mending::Start);
            }
            POWER_CUT => {
                machine.cut_power(engine);
                self.mend_after(150, Mending::Start);
            }
            "stop in order" => {
                self.start_may_fail = true;
                machine.drain();
                self.mend_after(500, Mending::Kill);
            }
            "process stopped" => {
                machine.stop(engine, true);
                self.mend_after(1_000, Mending::Continue);
            }
            "requests cut off" => {
                net.cut(self.clients, node);
                self.mend_after(600, Mending::Net);
            }
            "answers cut off" => {
                net.cut(node, self.clients);
                self.mend_after(600, Mending::Net);
            }
            POWER_CUT_IN_CALL => self.cut_in_call(machine),
            BIT_TURNS => self.turn(engine, machine, net).await,
            RESET => {
                if net.reset(node, self.clients) > 0 {
                    self.note(RESET);
                }
            }
            DURABLE_WRITE_FAILS => {
                let fails = self.disk_fault();
                self.fail_when(fault, machine, |has_come| {
                    Box::new(move |call| {
                        let is_meant = call.kind == OperationKind::WriteDurable;
                        has_come.fetch_or(is_meant, Ordering::Relaxed);
                        is_meant.then_some(fails)
                    })
                });
                self.mend_after(400, Mending::Replace);
            }
            DURABLE_WRITE_FAILS_ONCE => {
                let fails = self.disk_fault();
                self.fail_when(fault, machine, |has_come| {
                    once(has_come, fails, |kind| kind == OperationKind::WriteDurable)
                });
                self.mend_after(400, Mending::Replace);
            }
            OPERATION_FAILS => {
                let fails = self.disk_fault();
                let call = next_call + self.random.below(10);
                self.fail_call(fault, machine, call, fails);
                self.mend_after(400, Mending::Replace);
            }
            DISK_FULL => {
                self.start_may_fail = true;
                let full = FaultKind::NoSpace { until_lifted: true };
                self.fail_call(fault, machine, next_call, full);
                self.mend_after(400, Mending::Space);
            }
            WRITE_SPLIT => self.fail_when(fault, machine, |has_come| {
                once(has_come, FaultKind::ShortWrite, |kind| {
                    matches!(kind, OperationKind::Write | OperationKind::WriteDurable)
                })
            }),
            CALL_INTERRUPTED => {
                // A sync is never made twice: the node may die of it.
                self.start_may_fail = true;
                let call = next_call + self.random.below(10);
                self.fail_call(fault, machine, call, FaultKind::Interrupted);
                self.mend_after(400, Mending::Replace);
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
            92..94 => WRITE_SPLIT,
            94..96 => CALL_INTERRUPTED,
            _ => "wall clock jumps",
        }
    }

    /// Says whether the node has met so many faults, and of each kind enough.
    pub(crate) fn suffice(&self, faults: u64) -> bool {
        self.met() >= faults && (faults < LEAST_FAULTS || self.lacking().next().is_none())
    }

    /// Kinds of which there were too few so far, and how many are missing.
    fn lacking(&self) -> impl Iterator<Item = (&'static str, u64)> {
        LEAST.iter().filter_map(|(kind, least)| {
            let lacks = least.saturating_sub(self.counts.get(kind).copied().unwrap_or(0));
            (lacks > 0).then_some((*kind, lacks))
        })
    }

    /// A kind that would be too rare if it did not come now, with `left` faults to come.
    fn missing(&self, left: u64) -> Option<&'static str> {
        if self.met() + left < LEAST_FAULTS {
            return None;
        }
        let count: u64 = self.lacking().map(|(_, lacks)| lacks).sum();
        let (first, _) = self.lacking().next()?;
        (count >= left).then_some(first)
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
            Mending::Space => {
                self.note_expected(machine);
                self.expected.retain(|(fault, _)| *fault != DISK_FULL);
                machine.disk().lift_no_space();
            }
            Mending::Replace | Mending::Kill => {
                machine.kill(engine);
                self.mend_after(60, Mending::Start);
            }
            Mending::TurnBack => {
                machine.kill(engine);
                self.turn_back(machine);
                self.mend_after(60, Mending::Start);
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
            if let Some(damage) = &self.damage {
                self.trace.note(damage);
                self.note(BIT_TURNS);
                self.mend_after(500, Mending::TurnBack);
            }
        }
        self.mend_after(60, Mending::Start);
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
        self.note_expected(machine);
        self.expected.clear();
        machine.disk().clear_faults();
        self.cut_is_due = None;
        self.start_may_fail = false;
        if let Err(error) = machine.start(engine) {
            self.history
                .violate(format!("a node cannot be assembled: {error}"));
        }
    }

    /// A node that could not start because its disk failed is started anew; one that serves is held against its budgets.
    fn look_after(&mut self, engine: &mut Engine, machine: &mut Machine) {
        match machine.started() {
            Started::Failed(error) if self.damage.is_some() => {
                self.trace.note(format_args!("a start refused damage: {error}"));
                self.trace.count("a start refused damage");
                machine.kill(engine);
                self.turn_back(machine);
                self.mend_after(60, Mending::Start);
            }
            Started::Failed(error) if self.start_may_fail => {
                self.trace.note(format_args!("a start failed: {error}"));
                self.trace.count("a start failed with its disk, or was stopped");
                machine.kill(engine);
                self.mend_after(60, Mending::Start);
            }
            Started::Failed(error) => self.history.violate(format!("a node cannot start: {error}")),
            Started::Serving => {
                if let Some(overdrawn) = machine.audit() {
                    self.history.violate(format!("a budget is exceeded: {overdrawn}"));
                }
            }
            Started::Opening | Started::Down => {}
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

/// Plans a fault of the first call of some kinds.
fn once(
    has_come: Arc<AtomicBool>,
    fault: FaultKind,
    is_meant: impl Fn(OperationKind) -> bool + Send + 'static,
) -> Planner {
    Box::new(move |call| {
        let is_first = is_meant(call.kind) && !has_come.swap(true, Ordering::Relaxed);
        is_first.then_some(fault)
    })
}
