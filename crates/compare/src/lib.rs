//! The comparison: several systems under the same workloads with named guarantees, run by run in turn, and one report.
//!
//! Systems are folders (`bench/peers`), workloads are suites (`suite`), a run is one workload on one system through one
//! driver (`work`), and everything that was found is one value (`results`) of which all reports are made (`report`).
//! No system is known by name here but our own, which comes first, and those that a publication compares, which suites name.

pub mod agent;
mod asking;
mod assemble;
mod child;
pub mod diff;
mod directories;
mod driving;
mod figures;
mod fleet;
mod group;
mod hosts;
mod identity;
mod interrupt;
mod machine;
mod meter;
mod peer;
mod plan;
mod progress;
mod record;
pub mod report;
mod reserve;
pub mod results;
mod runner;
mod server;
mod site;
mod suite;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bench::floor::{self, FloorOptions};
use clap::ValueEnum;

pub use self::hosts::Host;
pub use self::interrupt::{Interrupt, Interrupted};
pub use self::results::Results;
pub use self::suite::Suite;

use self::directories::Directories;
use self::fleet::Fleet;
use self::hosts::Hosts;
use self::peer::{LeftOut, Peers};
use self::plan::Plan;
use self::record::{Asked, Line, Moment, Record};
use self::reserve::Reserve;
use self::runner::{Runner, Setting};
use self::suite::Scale;

/// The folder whose systems come first: this project's own.
const OWN: &str = "ropewalk";
/// More than that before the first run, and the figures say little.
const QUIET_LOAD: f64 = 0.5;
/// How long measuring the floors may take.
const FLOORS_WITHIN: Duration = Duration::from_secs(180);

/// Which clients drive a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Clients {
    /// Its own best one
    Best,
    /// That, and the common ones of several systems
    All,
}

/// What to compare, and how.
#[derive(Debug, Clone, clap::Args)]
pub struct CompareOptions {
    /// Systems, or single variants of them, with commas between; all unless told
    #[arg(long, value_delimiter = ',')]
    pub systems: Vec<String>,
    /// Whether each system is driven by its best client only, or also by those that others are driven by
    #[arg(long, value_enum, default_value_t = Clients::All)]
    pub clients: Clients,
    /// Which workloads
    #[arg(long, value_enum, default_value_t = Suite::Quick)]
    pub suite: Suite,
    /// Only these tables of the suite, with commas between
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Where report.md, results.json and plots go, and the runs as they are made; the same command again goes on there
    #[arg(long, default_value = "comparison")]
    pub out: PathBuf,
    /// Where systems keep their data meanwhile, on the disk to measure; inside --out unless told
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// The folder of systems
    #[arg(long, default_value = "bench/peers")]
    pub peers: PathBuf,
    /// How many nodes each system has
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=9))]
    pub nodes: u32,
    /// The hosts that nodes run on, one on each, with commas between, instead of this machine: NAME, USER@NAME or NAME=ADDRESS, a name that ssh
    /// knows and the address where the node listens. A host has the same programs and folders as this machine, at the same paths
    #[arg(long, value_delimiter = ',', value_name = "HOST", conflicts_with = "nodes")]
    pub hosts: Vec<Host>,
    /// The command that runs another one on a host, whose name and that command come after its words
    #[arg(
        long,
        value_name = "COMMAND",
        default_value = "ssh -T -o BatchMode=yes -o ServerAliveInterval=5"
    )]
    pub ssh: String,
    /// How often each run is made, in turn with all others
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub repetitions: u32,
    /// How often at most, where the figure that decides the score varies by more than 30 %
    #[arg(long, default_value_t = 7)]
    pub repetitions_max: u32,
    /// How long a timed run is measured
    #[arg(long, default_value_t = 3.0)]
    pub seconds: f64,
    /// How long a system and a client that were just started are loaded before their first run; longer while they get faster
    #[arg(long, default_value_t = 20.0)]
    pub warmup_seconds: f64,
    /// The share of the numbers of records that publications name
    #[arg(long, default_value_t = 0.1)]
    pub scale: f64,
    /// How many seconds a client may be silent in the middle of a load until its run has failed
    #[arg(long, default_value_t = 60.0)]
    pub silent_seconds: f64,
}

/// Runs the comparison, or what is left of it, and writes its reports. Gives back the failed runs, as sentences: they are in
/// the reports too.
///
/// # Errors
/// If it cannot begin, was interrupted, or its reports cannot be written.
pub fn run(options: &CompareOptions, command: &str, interrupt: &Interrupt) -> Result<Vec<String>> {
    let hosts: Vec<Host> = options.hosts.iter().map(Host::found).collect::<Result<_>>()?;
    let options = &CompareOptions {
        nodes: if hosts.is_empty() {
            options.nodes
        } else {
            hosts.len() as u32
        },
        hosts: hosts.clone(),
        ..options.clone()
    };
    let silent_max = check(options)?;
    let hosts = Hosts {
        all: hosts,
        reach: options.ssh.split_whitespace().map(str::to_owned).collect(),
    };
    let peers = Peers::read(&options.peers)?;
    let (systems, broken) = peers.choose(&options.systems, OWN)?;
    let plans = choose_plans(options)?;
    let setting = Setting {
        systems: &systems,
        peers: &peers,
        options,
        interrupt,
    };
    let left_out = left_out(broken, &setting, &plans);
    ensure!(
        !systems.is_empty() || !left_out.is_empty(),
        "there is no system in {}",
        options.peers.display()
    );
    fs::create_dir_all(&options.out).with_context(|| format!("cannot make {}", options.out.display()))?;
    let data = options.dir.clone().unwrap_or_else(|| options.out.join("data"));
    let in_memory = plans.iter().any(|plan| plan.in_memory);
    let directories = Directories::make(&data, in_memory)?;
    let machine = machine::describe(&directories.paths[0]);
    let asked = asked(options, &machine, &directories.paths[0])?;
    let mut record = Record::open(&options.out.join("runs.jsonl"), &asked)?;
    let reserve = Reserve::keep(&options.out);
    let mut moment = moment();
    moment.floors = measure_floors(options, &directories.paths[0])?;
    record.add(Line::Moment(moment));
    let paths = directories.paths.clone();
    let addresses = hosts.addresses();
    let fleet = Fleet::new(options.nodes, hosts, paths, logs(options)?, silent_max, interrupt);
    let mut record = Runner::new(setting, fleet, record, &plans).run(&plans)?;
    // From here on everything is measured: nothing may keep it from being written.
    drop(reserve);
    record.add(Line::Moment(moment_after(options, &directories.paths[0])));
    let known = Results {
        suite: options.suite.name(),
        command: command.to_owned(),
        nodes: options.nodes,
        repetitions: options.repetitions,
        hosts: addresses,
        asked: Some(asked_of_runs(options)),
        machine,
        systems: left_out,
        ..Results::default()
    };
    let results = assemble::results(known, &plans, &record, &setting);
    write_somewhere(&results, &options.out)?;
    let mut failures = assemble::failures(&results);
    if let Some(trouble) = record.write() {
        failures.push(format!(
            "the report is whole, but not the record of runs ({trouble}): some would be made again"
        ));
    }
    Ok(failures)
}

/// Refuses numbers that mean nothing. How long a client may be silent.
fn check(options: &CompareOptions) -> Result<Duration> {
    for (name, value) in [
        ("--seconds", options.seconds),
        ("--warmup-seconds", options.warmup_seconds),
        ("--scale", options.scale),
    ] {
        ensure!(value.is_finite() && value > 0.0, "{name} must be more than 0");
    }
    let addresses: BTreeSet<&str> = options.hosts.iter().map(|host| host.address.as_str()).collect();
    ensure!(
        addresses.len() == options.hosts.len() && addresses.len() <= 9,
        "--hosts names one to nine hosts, each once"
    );
    ensure!(!options.ssh.trim().is_empty(), "--ssh has no command");
    Duration::try_from_secs_f64(options.silent_seconds).context("--silent-seconds is no time")
}

/// Those that were asked for and cannot take part, for the report; told at once as well. Variants that were asked for by name and that
/// no chosen table asks are among them.
fn left_out(mut left_out: Vec<LeftOut>, setting: &Setting<'_>, plans: &[Plan]) -> Vec<results::SystemFacts> {
    let ways = plans.iter().flat_map(|plan| asking::ways(setting, plan));
    let in_tables: BTreeSet<String> = ways.map(|way| way.system.variant.name).collect();
    let names = setting.systems.iter().map(|system| &system.variant.name);
    let unasked = names.filter(|name| setting.options.systems.contains(name) && !in_tables.contains(*name));
    left_out.extend(unasked.map(|name| (name.clone(), "none of the chosen tables asks it".to_owned())));
    let facts = left_out.into_iter().map(|(name, why)| {
        eprintln!("{name} cannot take part: {why}");
        assemble::broken(&name, &why)
    });
    facts.collect()
}

/// Where systems and drivers say what goes wrong.
fn logs(options: &CompareOptions) -> Result<PathBuf> {
    let logs = fs::canonicalize(&options.out)?.join("logs");
    fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
    Ok(logs)
}

/// Into `out`; if that cannot be written, into the folder for temporary files: a comparison of hours is not lost.
fn write_somewhere(results: &Results, out: &Path) -> Result<()> {
    let Err(error) = write(results, out) else {
        return Ok(());
    };
    let elsewhere = std::env::temp_dir().join(format!("ropewalk-comparison-{}", std::process::id()));
    let written = fs::create_dir_all(&elsewhere)
        .map_err(anyhow::Error::from)
        .and_then(|()| write(results, &elsewhere));
    match written {
        Ok(()) => Err(error.context(format!(
            "{} could not be written; the report is in {}",
            out.display(),
            elsewhere.display()
        ))),
        Err(_) => Err(error),
    }
}

/// Reads the results of a comparison.
///
/// # Errors
/// If the file is not there, not understood, or of another version of the schema.
pub fn read_results(path: &Path) -> Result<Results> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let value: serde_json::Value =
        serde_json::from_str(&text).with_context(|| format!("{} is no JSON", path.display()))?;
    let schema = value.get("schema").and_then(serde_json::Value::as_u64);
    let (oldest, newest) = (results::OLDEST_SCHEMA, results::SCHEMA);
    ensure!(
        schema.is_some_and(|schema| (u64::from(oldest)..=u64::from(newest)).contains(&schema)),
        "{} has the schema {schema:?}; this program reads {oldest} to {newest}",
        path.display(),
    );
    let results: Results = serde_json::from_value(value)
        .with_context(|| format!("{} is not what a comparison writes", path.display()))?;
    Ok(results.upgraded())
}

fn write(results: &Results, out: &Path) -> Result<()> {
    let text = serde_json::to_string_pretty(results).expect("results are plain data");
    let (path, aside) = (out.join("results.json"), out.join("results.json.part"));
    fs::write(&aside, text + "\n").with_context(|| format!("cannot write {}", aside.display()))?;
    fs::rename(&aside, &path).with_context(|| format!("cannot write {}", path.display()))?;
    report::write_all(results, out, report::Form::Markdown)
}

fn choose_plans(options: &CompareOptions) -> Result<Vec<Plan>> {
    let all = options.suite.plans(Scale {
        records: options.scale,
        nodes: options.nodes,
    });
    for name in &options.only {
        let names: Vec<&str> = all.iter().map(|plan| plan.name.as_str()).collect();
        ensure!(
            names.contains(&name.as_str()),
            "the suite {} has no table {name:?}, only: {}",
            options.suite.name(),
            names.join(", ")
        );
    }
    // A share of a maximum needs that maximum.
    let needed: Vec<&str> = all
        .iter()
        .filter(|plan| options.only.contains(&plan.name))
        .flat_map(|plan| plan.needs().chain(std::iter::once(plan.name.as_str())))
        .collect();
    let is_wanted = |plan: &Plan| options.only.is_empty() || needed.contains(&plan.name.as_str());
    Ok(all.iter().filter(|plan| is_wanted(plan)).cloned().collect())
}

fn asked(options: &CompareOptions, machine: &results::Machine, data: &Path) -> Result<Asked> {
    Ok(Asked {
        suite: options.suite.name(),
        nodes: options.nodes,
        hosts: options.hosts.iter().map(|host| host.address.clone()).collect(),
        seconds: options.seconds,
        scale: options.scale,
        warmup_seconds: options.warmup_seconds,
        machine: format!("{} × {}, {} GB", machine.cpus, machine.cpu, machine.memory_gb),
        disk: machine::disk(data),
        build: identity::build()?,
    })
}

/// The same for the report: what it should tell, besides what its tables and systems do.
fn asked_of_runs(options: &CompareOptions) -> results::Asked {
    let clients = options.clients.to_possible_value();
    results::Asked {
        seconds: options.seconds,
        warmup_seconds: options.warmup_seconds,
        scale: options.scale,
        repetitions_max: options.repetitions_max,
        clients: clients.map_or_else(String::new, |clients| clients.get_name().to_owned()),
    }
}

fn measure_floors(options: &CompareOptions, data: &Path) -> Result<BTreeMap<String, f64>> {
    let asked = FloorOptions {
        dir: data.to_owned(),
        // Floors are measured as long as a run is, about.
        samples: (options.seconds * 200.0).clamp(1.0, 1_000.0) as u32,
        json: false,
    };
    let (tell, told) = mpsc::channel();
    // A disk that hangs keeps a thread of ours, not the comparison; who has stopped listening needs no answer.
    thread::spawn(move || drop(tell.send(floor::run(&asked))));
    let floors = told.recv_timeout(FLOORS_WITHIN).with_context(|| {
        format!(
            "the floors of disk and loopback were not measured within {} s",
            FLOORS_WITHIN.as_secs()
        )
    })?;
    Ok(assemble::floors(&floors?))
}

/// The time and the load, before anything of ours adds to it.
fn moment() -> Moment {
    let load = machine::load();
    if load > QUIET_LOAD {
        eprintln!(
            "the load of the last minute is {load}: unless that is our own work, this machine is not quiet"
        );
    }
    Moment {
        at: machine::now(),
        load,
        floors: BTreeMap::new(),
    }
}

/// The same at the end, with the floors as they are then.
fn moment_after(options: &CompareOptions, data: &Path) -> Moment {
    let floors = measure_floors(options, data).unwrap_or_else(|error| {
        eprintln!("the floors could not be measured again: {error:#}");
        BTreeMap::new()
    });
    Moment { floors, ..moment() }
}
