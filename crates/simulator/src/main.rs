//! `simulator`: runs seeds, and tells of each that fails with the command that runs it again.

#![expect(clippy::print_stdout, reason = "its report is for people who run it")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use simulator::{Options, Report, run};

/// Half as long as with the system's: a seed makes and drops tens of millions of small values.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs whole nodes from seeds, and checks what their clients see.
#[derive(Parser)]
#[command(name = "simulator")]
struct Arguments {
    /// Runs this seed alone, and tells its events.
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Runs so many seeds.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=u64::MAX / 2))]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=u64::MAX / 2))]
    first: u64,
    /// Nodes of a cluster whose metadata is tried; 1 is a node by itself, with all that its clients do.
    #[arg(long, default_value_t = 1, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=9))]
    nodes: usize,
    /// Faults that each seed meets.
    #[arg(long, default_value_t = 200)]
    faults: u64,
    /// Bytes that each node's disk has; as many as it wants if not given.
    #[arg(long)]
    room: Option<u64>,
    /// Threads that run seeds; 0 is one for each CPU.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Puts one node's journals, checkpoints and segments back from a copy now and then; of a cluster of three nodes or more.
    #[arg(long)]
    copies: bool,
    /// Turns a bit in a segment of one node now and then; of a cluster of three nodes or more.
    #[arg(long)]
    bits: bool,
    /// Compacts every other topic that has several replicas; of a cluster of three nodes or more.
    #[arg(long)]
    tables: bool,
    /// Gives topics one order over their partitions.
    #[arg(long)]
    order: bool,
    /// Adds clients with transactions, and readers of what these commit.
    #[arg(long)]
    transactions: bool,
    /// Runs each seed twice and compares their traces.
    #[arg(long)]
    twice: bool,
}

impl Arguments {
    /// Two other nodes have to be there: a partition goes on without the one whose disk lost something.
    fn check(&self) -> Result<(), clap::Error> {
        let refusal = match () {
            () if (self.copies || self.bits || self.tables) && self.nodes < 3 => {
                "--copies, --bits and --tables need a cluster: give --nodes 3 or more"
            }
            // Nothing may be acknowledged just before a disk is put back, and coordinators end transactions whenever time is up.
            () if self.copies && self.transactions => "--copies goes without --transactions",
            () => return Ok(()),
        };
        Err(Arguments::command().error(ErrorKind::ArgumentConflict, refusal))
    }

    fn options(&self, shows: bool) -> Options {
        Options {
            nodes: self.nodes,
            faults: self.faults,
            room: self.room,
            copies: self.copies,
            bits: self.bits,
            tables: self.tables,
            order: self.order,
            transactions: self.transactions,
            shows,
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Err(error) = arguments.check() {
        error.exit();
    }
    match arguments.seed {
        Some(seed) => one(seed, &arguments),
        None => many(&arguments),
    }
}

fn one(seed: u64, arguments: &Arguments) -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .without_time()
        .init();
    let report = run(seed, arguments.options(true));
    show(std::slice::from_ref(&report));
    verdict(&report, arguments)
}

fn verdict(report: &Report, arguments: &Arguments) -> ExitCode {
    match &report.violation {
        None => ExitCode::SUCCESS,
        Some(violation) => {
            let seed = report.seed;
            let chosen = [
                (arguments.copies, " COPIES=1"),
                (arguments.bits, " BITS=1"),
                (arguments.tables, " TABLES=1"),
                (arguments.order, " ORDER=1"),
                (arguments.transactions, " TRANSACTIONS=1"),
            ];
            let chosen = chosen.iter().filter(|(is_chosen, _)| *is_chosen);
            let chosen: String = chosen.map(|(_, word)| *word).collect();
            let again = match arguments.nodes {
                1 => {
                    format!("make sim{chosen} SEED={seed}")
                }
                nodes => {
                    let faults = arguments.faults;
                    format!("make sim NODES={nodes} FAULTS={faults}{chosen} SEED={seed}")
                }
            };
            eprintln!("seed {seed} failed: {violation}\n  run it again: {again}");
            ExitCode::FAILURE
        }
    }
}

fn many(arguments: &Arguments) -> ExitCode {
    let began = Instant::now();
    let options = arguments.options(false);
    let (next, reports) = (AtomicU64::new(arguments.first), Mutex::new(Vec::new()));
    let end = arguments.first + arguments.seeds;
    let threads = match arguments.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let mut report = run(seed, options);
                    if arguments.twice && report.trace != run(seed, options).trace {
                        report.violation = Some("the same seed gave another trace".into());
                    }
                    verdict(&report, arguments);
                    reports
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(report);
                }
            });
        }
    });
    let reports = reports.into_inner().unwrap_or_else(PoisonError::into_inner);
    show(&reports);
    let failed = reports.iter().filter(|report| report.violation.is_some()).count();
    println!(
        "{} seeds, {failed} failed, {:.1} s",
        reports.len(),
        began.elapsed().as_secs_f64()
    );
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The sums of what was reached.
fn show(reports: &[Report]) {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for report in reports {
        for (fault, count) in &report.faults {
            *sums.entry(format!("fault: {fault}")).or_default() += count;
        }
        for (what, count) in &report.reached {
            *sums.entry(what.clone()).or_default() += count;
        }
    }
    for (what, count) in sums {
        println!("{count:>10}  {what}");
    }
    let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
    let simulated: f64 = reports.iter().map(|report| report.simulated.as_secs_f64()).sum();
    let least = reports
        .iter()
        .map(|report| report.acknowledged)
        .min()
        .unwrap_or(0);
    println!(
        "{} batches acknowledged (at least {least} of a seed), {} steps, {simulated:.0} s simulated",
        sum(|report| report.acknowledged),
        sum(|report| report.steps)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(arguments: &[&str]) -> String {
        let all = std::iter::once("simulator").chain(arguments.iter().copied());
        Arguments::try_parse_from(all)
            .err()
            .expect("it is refused")
            .to_string()
    }

    #[test]
    fn what_is_no_seed_is_refused_with_its_name() {
        for wrong in ["abc", "-1", "1.5", "", "18446744073709551616"] {
            let error = refused(&[&format!("--seed={wrong}")]);
            assert!(error.contains("--seed <SEED>"), "{wrong}: {error}");
        }
        assert!(refused(&["--seed=1", "--seeds=2"]).contains("cannot be used with"));
    }

    #[test]
    fn one_of_two_disks_loses_nothing() {
        for (nodes, is_refused) in [("1", true), ("2", true), ("3", false)] {
            let arguments = Arguments::parse_from(["simulator", "--copies", "--nodes", nodes]);
            assert_eq!(arguments.check().is_err(), is_refused, "{nodes}");
        }
    }

    #[test]
    fn no_seeds_are_no_run() {
        assert!(refused(&["--seeds=0"]).contains("--seeds <SEEDS>"));
    }
}
