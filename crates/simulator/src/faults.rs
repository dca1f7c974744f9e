//! Faults of a simulation and their times: drawn from the seed, one fault after the other, each with its end.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
const READ_FAILS: &str = "a read fails";
const SEGMENTS_FAIL: &str = "segments cannot be written";
const CHECKPOINTS_FAIL: &str = "checkpoints cannot be written";
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
    /// A node whose journal may be dead is started anew, if it is still the one of this start.
    Replace(u64),
    Space,
    /// Calls that failed by a plan fail no more.
    Unplan(PlanId),
    Kill,
    TurnBack,
}

/// Says of each disk call whether it fails.
type Planner = Box<dyn Fn(&Call) -> Option<FaultKind> + Send>;
type PlanId = u64;

/// What is to go wrong with calls of the disk: the first plan that has something to say decides.
#[derive(Clone, Default)]
struct Plans(Arc<Mutex<BTreeMap<PlanId, Planner>>>);

impl Plans {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PlanId, Planner>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn judge(&self, call: &Call) -> Option<FaultKind> {
        self.lock().values().find_map(|planner| planner(call))
    }
}

/// A fault of a disk call that is still to come.
enum Expected {
    /// Of the call of this number.
    At(u64),
    /// Of a call that sets this.
    Planned(PlanId, Arc<AtomicBool>),
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
    plans: Plans,
    next_plan: PlanId,
    starts: u64,
    /// The disk has been made to fail since the last start, or the node was told to stop.
    start_may_fail: bool,
    /// The disk has been called as a power cut waits for.
    cut_is_due: Arc<AtomicBool>,
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
            plans: Plans::default(),
            next_plan: 0,
            starts: 0,
            start_may_fail: false,
            cut_is_due: Arc::default(),
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
            Expected::Planned(_, has_come) => has_come.load(Ordering::Relaxed),
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

    /// Has calls of the disk fail of which `planner` says so. What it is handed is to be set when one has.
    fn fail_when(
        &mut self,
        fault: &'static str,
        machine: &Machine,
        planner: impl FnOnce(Arc<AtomicBool>) -> Planner,
    ) -> PlanId {
        let id = self.next_plan;
        self.next_plan += 1;
        let has_come = Arc::new(AtomicBool::new(false));
        self.plans.lock().insert(id, planner(has_come.clone()));
        self.expected.push((fault, Expected::Planned(id, has_come)));
        let plans = self.plans.clone();
        machine.disk().fail_when(move |call| plans.judge(call));
        id
    }

    /// Has no more calls fail by this plan.
    fn forget(&mut self, plan: PlanId, machine: &Machine) {
        self.note_expected(machine);
        self.plans.lock().remove(&plan);
        let is_other = |expected: &Expected| !matches!(expected, Expected::Planned(id, _) if *id == plan);
        self.expected.retain(|(_, expected)| is_other(expected));
    }

    fn mend_after(&mut self, most_ms: u64, mending: Mending) {
        let at = Instant::now() + Duration::from_millis(1 + self.random.below(most_ms));
        self.mendings.insert((at, self.next_mending), mending);
        self.next_mending += 1;
    }

    /// Runs for a while, mending what is due.
    pub(crate) async fn pass(&mut self, engine: &mut Engine, machine: &mut Machine, net: &SimulatedNet) {
        let end = Instant::now() + Duration::from_millis(1 + self.random.below(20));
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
        let is_due = self.cut_is_due.clone();
        if engine.run(moment, || is_due.load(Ordering::Relaxed)).await {
            machine.cut_power(engine);
            is_due.store(false, Ordering::Relaxed);
            self.mend_after(30, Mending::Start);
        }
        engine.run_until(moment).await;
    }

    /// Has the power cut in one of the next calls: of any, of those of a kind, or of those about a checkpoint. No later call does anything.
    fn cut_in_call(&mut self, machine: &Machine) {
        let kind = CUT_IN[self.random.below(CUT_IN.len() as u64) as usize];
        let choice = self.random.below(4);
        let left = AtomicU64::new(self.random.below(4));
        let first = self.disk_fault();
        let cut_is_due = self.cut_is_due.clone();
        self.fail_when(POWER_CUT_IN_CALL, machine, |has_come| {
            Box::new(move |call| {
                if cut_is_due.load(Ordering::Relaxed) {
                    return Some(FaultKind::Error {
                        errno: EIO,
                        applied: Applied::Nothing,
                    });
                }
                let is_meant = match choice {
                    0 => is_in(&call.path, "checkpoints"),
                    1 => call.kind == kind,
                    _ => true,
                };
                if call.kind.is_read() || !is_meant || left.fetch_sub(1, Ordering::Relaxed) > 0 {
                    return None;
                }
                has_come.store(true, Ordering::Relaxed);
                cut_is_due.store(true, Ordering::Relaxed);
                Some(first)
            })
        });
    }

    /// Has one more thing go wrong, of which `left` are still to come with this one. It counts when the node meets it: at once, or
    /// with the disk's call that is to fail. A node that is down meets nothing.
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
            KILL => {
                self.note(fault);
                machine.kill(engine);
                self.mend_after(30, Mending::Start);
            }
            POWER_CUT => {
                self.note(fault);
                machine.cut_power(engine);
                self.mend_after(30, Mending::Start);
            }
            "stop in order" => {
                self.note(fault);
                self.start_may_fail = true;
                machine.drain();
                self.mend_after(300, Mending::Kill);
            }
            "a core stands still" => {
                self.note(fault);
                let core = self.random.below(machine.cores() as u64) as usize;
                machine.stop_core(engine, core);
                self.mend_after(200, Mending::Continue);
            }
            "process stopped" => {
                self.note(fault);
                machine.stop(engine, true);
                self.mend_after(300, Mending::Continue);
            }
            "requests cut off" => {
                self.note(fault);
                net.cut(self.clients, node);
                self.mend_after(200, Mending::Net);
            }
            "answers cut off" => {
                self.note(fault);
                net.cut(node, self.clients);
                self.mend_after(200, Mending::Net);
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
                self.mend_after(200, Mending::Replace(self.starts));
            }
            DURABLE_WRITE_FAILS_ONCE => {
                let fails = self.disk_fault();
                self.fail_when(fault, machine, |has_come| {
                    once(has_come, fails, |kind| kind == OperationKind::WriteDurable)
                });
                self.mend_after(200, Mending::Replace(self.starts));
            }
            OPERATION_FAILS => {
                let fails = self.disk_fault();
                let call = next_call + self.random.below(10);
                self.fail_call(fault, machine, call, fails);
                self.mend_after(200, Mending::Replace(self.starts));
            }
            DISK_FULL => {
                self.start_may_fail = true;
                let full = FaultKind::NoSpace { until_lifted: true };
                if self.random.chance(1, 2) {
                    // The node can see it coming.
                    machine.fill_disk(true);
                }
                self.fail_call(fault, machine, next_call, full);
                self.mend_after(200, Mending::Space);
            }
            READ_FAILS => {
                let fails = self.disk_fault();
                self.fail_when(fault, machine, |has_come| {
                    once(has_come, fails, |kind| kind == OperationKind::Read)
                });
            }
            SEGMENTS_FAIL | CHECKPOINTS_FAIL => {
                let fails = self.disk_fault();
                let plan = self.fail_when(fault, machine, |has_come| {
                    Box::new(move |call| {
                        let is_of_its_kind = match fault {
                            SEGMENTS_FAIL => call.path.extension().is_some_and(|end| end == "segment"),
                            _ => is_in(&call.path, "checkpoints"),
                        };
                        let is_meant = !call.kind.is_read() && is_of_its_kind;
                        has_come.fetch_or(is_meant, Ordering::Relaxed);
                        is_meant.then_some(fails)
                    })
                });
                self.mend_after(3_000, Mending::Unplan(plan));
            }
            WRITE_SPLIT => {
                self.fail_when(fault, machine, |has_come| {
                    once(has_come, FaultKind::ShortWrite, |kind| {
                        matches!(kind, OperationKind::Write | OperationKind::WriteDurable)
                    })
                });
            }
            CALL_INTERRUPTED => {
                // A sync is never made twice: the node may die of it.
                self.start_may_fail = true;
                let call = next_call + self.random.below(10);
                self.fail_call(fault, machine, call, FaultKind::Interrupted);
                self.mend_after(200, Mending::Replace(self.starts));
            }
            _ => {
                self.note(fault);
                machine
                    .clock()
                    .jump(self.random.below(7_200_000) as i64 - 3_600_000);
            }
        }
    }

    fn draw(&mut self) -> &'static str {
        match self.random.below(100) {
            0..11 => KILL,
            11..17 => POWER_CUT,
            17..30 => POWER_CUT_IN_CALL,
            30..33 => "stop in order",
            33..36 => BIT_TURNS,
            36..39 => "process stopped",
            39..43 => "requests cut off",
            43..47 => "answers cut off",
            47..69 => RESET,
            69..72 => CHECKPOINTS_FAIL,
            72..74 => READ_FAILS,
            74..77 => SEGMENTS_FAIL,
            77..80 => "a core stands still",
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
                machine.fill_disk(false);
                // Its journal may have died of it.
                self.mend_after(200, Mending::Replace(self.starts));
            }
            Mending::Unplan(plan) => self.forget(plan, machine),
            Mending::Replace(start) if start != self.starts => {}
            Mending::Replace(_) | Mending::Kill => {
                machine.kill(engine);
                self.mend_after(30, Mending::Start);
            }
            Mending::TurnBack => {
                machine.kill(engine);
                self.turn_back(machine);
                self.mend_after(30, Mending::Start);
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
                self.mend_after(300, Mending::TurnBack);
            }
        }
        self.mend_after(30, Mending::Start);
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
        machine.fill_disk(false);
        self.plans.lock().clear();
        self.cut_is_due.store(false, Ordering::Relaxed);
        self.start_may_fail = false;
        self.starts += 1;
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
                self.mend_after(30, Mending::Start);
            }
            Started::Failed(error) if self.start_may_fail => {
                self.trace.note(format_args!("a start failed: {error}"));
                self.trace.count("a start failed with its disk, or was stopped");
                machine.kill(engine);
                self.mend_after(30, Mending::Start);
            }
            Started::Failed(error) => self.history.violate(format!("a node cannot start: {error}")),
            Started::Serving => {
                if let Some(overdrawn) = machine.audit() {
                    self.history.violate(format!("a budget is exceeded: {overdrawn}"));
                }
                if let Some(violation) = machine.ask_order() {
                    self.history.violate(violation);
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

/// Says whether a directory of this name is on the path.
fn is_in(path: &Path, directory: &str) -> bool {
    path.components().any(|part| part.as_os_str() == directory)
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
