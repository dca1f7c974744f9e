//! The k-th call on the disk fails, for every k and every kind of failure, while a run goes on and while recovery does;
//! and the process is killed before the k-th call. Nothing acknowledged is lost, errors are typed, a flush that failed is
//! never tried again, and what a full disk held up goes on when there is room.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};

use platform::disk::{Applied, Call, FaultKind, OperationKind, SimulatedDisk};

use super::history::History;
use super::rig::{config, open};
use super::workload::{Driver, Op, draw, draw_compacting, draw_replicated};

const EIO: i32 = 5;

pub(super) const KINDS: [FaultKind; 7] = [
    FaultKind::Error {
        errno: EIO,
        applied: Applied::Nothing,
    },
    FaultKind::Error {
        errno: EIO,
        applied: Applied::Part,
    },
    FaultKind::Error {
        errno: EIO,
        applied: Applied::All,
    },
    FaultKind::NoSpace { until_lifted: false },
    FaultKind::NoSpace { until_lifted: true },
    FaultKind::ShortWrite,
    FaultKind::Interrupted,
];

/// A disk whose call number `index` fails; tells which one that was.
fn failing(disk: &SimulatedDisk, index: u64, kind: FaultKind) -> Arc<Mutex<Option<Call>>> {
    let hit = Arc::new(Mutex::new(None));
    let seen = hit.clone();
    disk.fail_when(move |call| {
        (call.index == index).then(|| {
            *seen.lock().expect("nobody panics with it") = Some(call.clone());
            kind
        })
    });
    hit
}

/// Cuts the power in several ways and recovers.
fn check_cuts(disk: &SimulatedDisk, history: &History, cuts: u64) -> Result<(), String> {
    for choice in 0..cuts {
        let crashed = disk.crash(choice);
        let (mut store, recovered) = open(&crashed).map_err(|fault| format!("cut {choice}: {fault}"))?;
        history
            .check(&mut store, &recovered, history.acknowledged())
            .map_err(|why| format!("cut {choice}: {why}"))?;
    }
    Ok(())
}

fn calls_of(ops: &[Op]) -> u64 {
    let disk = SimulatedDisk::new();
    let mut driver = Driver::for_ops(&disk, config(), ops).expect("nothing is wrong with the disk");
    driver.run(ops);
    driver.settle();
    disk.call_count()
}

/// Lets every `stride`-th call of a drawn run fail in every way; the number of runs.
pub(super) fn sweep(seed: u64, steps: usize, stride: usize) -> Result<usize, String> {
    sweep_ops(seed, &draw(seed, steps), stride)
}

fn sweep_ops(seed: u64, ops: &[Op], stride: usize) -> Result<usize, String> {
    let mut runs = 0;
    for (shift, kind) in KINDS.into_iter().enumerate() {
        for index in (shift as u64 % stride as u64..calls_of(ops)).step_by(stride) {
            run_with_failure(ops, index, kind)
                .map_err(|why| format!("seed {seed}, {kind:?} at call {index}: {why}"))?;
            runs += 1;
        }
    }
    Ok(runs)
}

fn run_with_failure(ops: &[Op], index: u64, kind: FaultKind) -> Result<(), String> {
    let disk = SimulatedDisk::new();
    let hit = failing(&disk, index, kind);
    let Ok(mut driver) = Driver::for_ops(&disk, config(), ops) else {
        disk.clear_faults();
        return Driver::new(&disk)
            .map(|_| ())
            .map_err(|fault| format!("it does not start afterwards: {fault}"));
    };
    driver.errors_expected = true;
    driver.run(&ops[..ops.len() * 2 / 3]);
    disk.clear_faults();
    let hit = hit.lock().expect("nobody panics with it").clone();
    driver.errors_expected = hit.is_none();
    driver.run(&ops[ops.len() * 2 / 3..]);
    if driver.died_at.is_none() {
        // Work that the failure held up goes on: this panics if the journal stays full.
        driver.settle();
    }
    check_death(&driver, hit.as_ref(), kind)?;
    check_cuts(&disk, &driver.history, 3)?;
    driver
        .start_again()
        .map_err(|why| format!("started again: {why}"))?;
    check_cuts(&disk, &driver.history, 2).map_err(|why| format!("started again: {why}"))?;
    driver.errors_expected = false;
    driver.run(&ops[..ops.len().min(12)]);
    driver.flush_all();
    check_cuts(&disk, &driver.history, 2).map_err(|why| format!("gone on after a start: {why}"))
}

/// A journal is dead exactly if one of its flushes failed, and nothing is written to it from then on.
fn check_death(driver: &Driver, hit: Option<&Call>, kind: FaultKind) -> Result<(), String> {
    let failed_flush = hit.is_some_and(|call| {
        call.kind == OperationKind::WriteDurable
            && call.position > 0
            && matches!(kind, FaultKind::Error { .. })
    });
    if failed_flush && driver.died_at.is_none() {
        return Err("a flush failed, and the journal goes on".into());
    }
    let Some(died_at) = driver.died_at else {
        return Ok(());
    };
    let operations = driver.disk.operations();
    let mut later = operations.iter().filter(|operation| operation.index >= died_at);
    match later.find(|operation| operation.kind == OperationKind::WriteDurable && operation.position > 0) {
        Some(operation) => Err(format!("a dead journal was written to: {operation}")),
        None => Ok(()),
    }
}

/// Kills the process before every `stride`-th call, starts it again on the same disk, and cuts the power then: what the
/// second process found must stay.
pub(super) fn kill(seed: u64, steps: usize, stride: usize) -> Result<usize, String> {
    kill_ops(seed, &draw(seed, steps), stride)
}

fn kill_ops(seed: u64, ops: &[Op], stride: usize) -> Result<usize, String> {
    struct Killed;
    let mut kills = 0;
    let disk = SimulatedDisk::new();
    drop(Driver::new(&disk));
    for index in (disk.call_count()..calls_of(ops)).step_by(stride) {
        let disk = SimulatedDisk::new();
        let mut driver = Driver::for_ops(&disk, config(), ops).map_err(|fault| fault.to_string())?;
        disk.fail_when(move |call| {
            if call.index == index {
                resume_unwind(Box::new(Killed))
            } else {
                None
            }
        });
        let run = catch_unwind(AssertUnwindSafe(|| driver.run(ops)));
        if let Err(cause) = run
            && !cause.is::<Killed>()
        {
            resume_unwind(cause);
        }
        disk.clear_faults();
        let again = || -> Result<(), String> {
            driver.start_again()?;
            check_cuts(&disk, &driver.history, 3)
        };
        AssertUnwindSafe(again)().map_err(|why| format!("seed {seed}, killed before call {index}: {why}"))?;
        kills += 1;
    }
    Ok(kills)
}

/// Lets every call of recoveries fail.
fn sweep_recovery(seed: u64, steps: usize, stride: usize) -> Result<usize, String> {
    sweep_recovery_ops(seed, &draw(seed, steps), stride)
}

fn sweep_recovery_ops(seed: u64, ops: &[Op], stride: usize) -> Result<usize, String> {
    let disk = SimulatedDisk::new();
    let mut driver = Driver::for_ops(&disk, config(), ops).map_err(|fault| fault.to_string())?;
    driver.run(ops);
    let mut runs = 0;
    for operation in (5..disk.operation_count()).step_by(stride) {
        let acknowledged = driver.history.acknowledged_at(operation + 1);
        let counted = disk.crash_after(operation, seed);
        counted.count_reads(true);
        open(&counted).map_err(|fault| fault.to_string())?;
        for (index, kind) in (0..counted.call_count()).flat_map(|index| KINDS.map(|kind| (index, kind))) {
            let crashed = disk.crash_after(operation, seed);
            crashed.count_reads(true);
            let hit = failing(&crashed, index, kind);
            // Whatever comes of it is typed: this returns.
            let _ = open(&crashed);
            crashed.clear_faults();
            crashed.count_reads(false);
            let checked = recover_and_cut(&crashed, &driver.history, acknowledged, &hit);
            checked.map_err(|why| {
                format!("seed {seed}, crash after {operation}, {kind:?} at call {index}: {why}")
            })?;
            runs += 1;
        }
    }
    Ok(runs)
}

fn recover_and_cut(
    crashed: &SimulatedDisk,
    history: &History,
    acknowledged: u64,
    hit: &Mutex<Option<Call>>,
) -> Result<(), String> {
    let (mut store, recovered) = open(crashed).map_err(|fault| fault.to_string())?;
    let (frames, _) = history.check(&mut store, &recovered, acknowledged)?;
    drop(store);
    let hit = hit.lock().expect("nobody panics with it").clone();
    if hit.is_some_and(|call| call.kind == OperationKind::SyncDirectory) {
        return Ok(());
    }
    let cut = crashed.crash(acknowledged);
    let (mut store, recovered) = open(&cut).map_err(|fault| format!("cut: {fault}"))?;
    history
        .check(&mut store, &recovered, frames)
        .map(|_| ())
        .map_err(|why| format!("cut: {why}"))
}

#[test]
fn any_call_of_a_run_may_fail() {
    let runs = sum((1..=3).map(|seed| sweep(seed, 90, 5)));
    eprintln!("{runs} runs with one failed call each");
    assert!(runs > 500);
}

#[test]
fn any_call_of_a_compacting_run_may_fail_and_the_process_be_killed_before_it() {
    let runs = sweep_ops(1, &draw_compacting(1, 90), 7).unwrap_or_else(|why| panic!("{why}"));
    let kills = kill_ops(5, &draw_compacting(5, 100), 4).unwrap_or_else(|why| panic!("{why}"));
    eprintln!("{runs} runs with one failed call each, {kills} processes killed");
    assert!(runs > 150 && kills > 30);
}

#[test]
fn any_call_of_a_replicas_run_may_fail_and_the_process_be_killed_before_it() {
    let runs = sum([1, 3].map(|seed| sweep_ops(seed, &draw_replicated(seed, 80), 11)));
    let kills = sum([5, 6].map(|seed| kill_ops(seed, &draw_replicated(seed, 100), 5)));
    eprintln!("{runs} runs with one failed call each, {kills} processes killed");
    assert!(runs > 150 && kills > 40, "{runs} runs, {kills} kills");
}

#[test]
fn any_call_of_a_recovery_may_fail() {
    let replicas = sweep_recovery_ops(4, &draw_replicated(4, 80), 37);
    let runs = sum([sweep_recovery(4, 100, 23), replicas]);
    eprintln!("{runs} recoveries with one failed call each");
    assert!(runs > 500);
}

#[test]
fn the_process_may_be_killed_before_any_call() {
    let kills = sum((5..=8).map(|seed| kill(seed, 100, 3)));
    assert!(kills > 100, "{kills}");
}

/// The number of cases in all.
fn sum(outcomes: impl IntoIterator<Item = Result<usize, String>>) -> usize {
    outcomes
        .into_iter()
        .map(|outcome| outcome.unwrap_or_else(|why| panic!("{why}")))
        .sum()
}

#[test]
#[ignore = "takes minutes; for changes to recovery"]
fn every_call_of_many_runs_may_fail() {
    let runs = sum((100..115).map(|seed| sweep(seed, 120, 1)));
    let recoveries = sum((100..110).map(|seed| sweep_recovery(seed, 120, 7)));
    eprintln!("counted: {runs} runs and {recoveries} recoveries with one failed call each");
    assert!(
        runs > 20_000 && recoveries > 40_000,
        "{runs} runs and {recoveries} recoveries"
    );
}

#[test]
#[ignore = "takes minutes; for changes to compaction"]
fn every_call_of_many_compacting_runs_may_fail() {
    let runs = sum((100..110).map(|seed| sweep_ops(seed, &draw_compacting(seed, 120), 1)));
    eprintln!("counted: {runs} compacting runs with one failed call each");
    assert!(runs > 13_000, "{runs}");
}

#[test]
#[ignore = "takes minutes; for changes to recovery"]
fn the_process_may_be_killed_before_every_call_of_many_runs() {
    let kills = sum((100..140).map(|seed| kill(seed, 150, 1)));
    eprintln!("counted: {kills} runs killed before a call");
    assert!(kills > 10_000, "{kills}");
}

#[test]
#[ignore = "takes minutes; for changes to compaction"]
fn the_process_may_be_killed_before_every_call_of_many_compacting_runs() {
    let kills = sum((100..120).map(|seed| kill_ops(seed, &draw_compacting(seed, 150), 1)));
    eprintln!("counted: {kills} compacting runs killed before a call");
    assert!(kills > 5_000, "{kills}");
}

#[test]
#[ignore = "takes minutes; for changes to what replicas store"]
fn every_call_of_many_replicas_runs_may_fail() {
    let runs = sum((100..110).map(|seed| sweep_ops(seed, &draw_replicated(seed, 110), 1)));
    let recoveries = sum((100..104).map(|seed| sweep_recovery_ops(seed, &draw_replicated(seed, 110), 7)));
    eprintln!("counted: {runs} runs and {recoveries} recoveries of replicas with one failed call each");
    assert!(
        runs > 13_000 && recoveries > 10_000,
        "{runs} runs and {recoveries} recoveries"
    );
}

#[test]
#[ignore = "takes minutes; for changes to what replicas store"]
fn the_process_may_be_killed_before_every_call_of_many_replicas_runs() {
    let kills = sum((100..120).map(|seed| kill_ops(seed, &draw_replicated(seed, 140), 1)));
    eprintln!("counted: {kills} runs of replicas killed before a call");
    assert!(kills > 5_000, "{kills}");
}
