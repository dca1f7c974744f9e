//! One run: a workload on one system through one driver, checked, metered, and cleaned up after.

mod check;
mod failing_over;
mod metering;
mod reading;
mod restarting;
mod together;
mod warming;

use std::time::Duration;

use anyhow::Result;

pub(super) use self::check::BrokenPromise;
use self::check::{check, check_samples, verify};
pub(super) use self::failing_over::SENT_AGAIN_FOR;
use self::metering::{Course, Metering, rest, settle};
use self::together::{Part, as_one, together};
pub(super) use self::warming::warm_up;
use super::driving::Driving;
use super::figures::{self, Cost};
use super::fleet::{Fleet, Way};
use super::plan::{Load, Work, request_bytes};
use super::progress;
use super::record::Run;
use super::server::Server;
use bench::contract::{Append, Done, Read};

/// The share of a run that goes before it, unmeasured.
const WARMUP_SHARE: f64 = 0.25;
const WARMUP_RECORDS_MAX: u64 = 2_000_000;
/// What lasts longer than so many times a run's seconds does so for its tail, which trials do not tell.
const TRIAL_TIMES_MAX: f64 = 3.0;
/// What goes into each of many shards before it counts: some systems make files when the first few KiB are there (Kafka's
/// indexes). For all shards together no more than so many records.
const WARMUP_SHARD_BYTES: u64 = 8 << 10;
const WARMUP_SHARDS_RECORDS_MAX: u64 = 20_000;
/// A run of so many times its length and a minute more is over.
const LATE: f64 = 5.0;
const LATE_BY: Duration = Duration::from_secs(60);
/// The same for runs of a number of records.
const RECORDS_WITHIN: Duration = Duration::from_secs(600);

/// What a run is made with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// Of a timed run.
    pub(super) seconds: f64,
    /// The same of a run that counts, which a trial is shorter than: what a cell keeps is written for times of that.
    pub(super) full_seconds: f64,
    /// Of the load that goes before all runs of what was just started.
    pub(super) warmup_seconds: f64,
    /// Records a second that the cell took in its trial; none in the trial itself.
    pub(super) known_rate: Option<f64>,
    /// Records a second that are due, in the open loop.
    pub(super) rate: Option<f64>,
    /// Whether everything is read back and compared.
    pub(super) verify: bool,
    /// Whether its figures are wanted at all; a trial only warms up and tells about how fast it is.
    pub(super) counts: bool,
}

/// A log that is kept from run to run of a cell.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    log: String,
    load: Load,
    appended: Vec<u64>,
    /// The number of the server that has it: with that, it is gone.
    server: u32,
}

impl Stored {
    fn records(&self) -> u64 {
        self.appended.iter().sum()
    }

    /// What a client appended.
    fn new(log: &str, load: &Load, done: &Done, server: &Server) -> Stored {
        Stored {
            log: log.to_owned(),
            load: *load,
            appended: done.appended.clone(),
            server: server.number(),
        }
    }

    /// What each client appended.
    fn of_each(commands: &[Append], load: &Load, parts: &[Part], server: &Server) -> Vec<Stored> {
        let each = commands.iter().zip(parts);
        each.map(|(command, part)| Stored::new(&command.log, load, &part.done, server))
            .collect()
    }

    /// Of those, what is read: as many for every system, where there are as many.
    fn records_to_read(&self) -> u64 {
        self.load.records.unwrap_or(u64::MAX).min(self.records())
    }

    /// The same in 10^6 bytes, to a tenth.
    fn megabytes_to_read(&self) -> f64 {
        let bytes = self.records_to_read() * self.load.record_bytes as u64;
        (bytes as f64 / 1e5).round() / 10.0
    }

    /// One consumer's way through what is to be read.
    fn whole(&self) -> Read {
        Read {
            log: self.log.clone(),
            shards: self.load.shards,
            consumers: 1,
            record_bytes: self.load.record_bytes,
            request_bytes: request_bytes(self.load.record_bytes),
            records: self.records_to_read(),
            verify: false,
        }
    }
}

/// One run, and what it is made with.
pub(super) struct Running<'a> {
    pub(super) way: &'a Way,
    pub(super) manner: Manner,
    pub(super) fleet: &'a mut Fleet,
    /// What the cell keeps between its runs: a log for each client.
    pub(super) stored: &'a mut Vec<Stored>,
    /// Is told how many records are through.
    pub(super) tell: &'a dyn Fn(u64),
}

impl Running<'_> {
    /// Its outcome, of no cell yet.
    pub(super) fn run(&mut self, work: &Work) -> Result<Run> {
        match work {
            Work::Append(load) => self.append(load, &Course::default()),
            Work::Read(load) => self.read(load),
            Work::ReadMeanwhile { stored, load, cold } => self.read_meanwhile(stored, load, *cold),
            Work::Restart(load) => self.restart(load),
            Work::FailOver(load) => self.fail_over(load),
        }
    }

    /// Appends; `course` says how far that is.
    fn append(&mut self, load: &Load, course: &Course) -> Result<Run> {
        let (server, drivers) = self.fleet.have_clients(self.way, load.clients as usize)?;
        let commands = create_for_each(load, self.manner, self.way, server, drivers)?;
        if self.manner.counts {
            // What making the logs has left to do is not the run's.
            rest(server)?;
        }
        let at_rest = server.meter()?;
        let mut metering = Metering::new(server, drivers, self.tell).telling(course);
        let limit = limit(load, self.manner);
        let parts = together(drivers, &mut metering, &|client, driving, watch| {
            driving.append(&commands[client], limit, watch)
        })?;
        let mut cost = Cost {
            at_rest,
            ..metering.cost
        };
        for (part, command) in parts.iter().zip(&commands) {
            check(&part.done, load)?;
            check_samples(&part.done, command, self.way.system.peer.file.acknowledges)?;
        }
        if self.manner.counts {
            cost.settled = settle(server)?;
        }
        let stored = Stored::of_each(&commands, load, &parts, server);
        let mut verified_records = None;
        for stored in stored.iter().filter(|_| self.manner.verify) {
            *verified_records.get_or_insert(0) += verify(stored, &[], &mut drivers[0])?;
        }
        for stored in &stored {
            remove(stored, self.way, self.fleet);
        }
        let done = as_one(parts);
        let mut figures = figures::of_load(&done, load.clients * load.producers, &cost, true);
        if let Some(rate) = self.manner.rate {
            figures.insert(figures::DUE.to_owned(), rate.round());
        }
        Ok(Run {
            figures,
            latency_ns: done.latency_ns,
            delivery_ns: done.delivery_ns.unwrap_or_default(),
            verified_records,
            ..Run::default()
        })
    }
}

/// Removes what was measured, if it is not gone with its server. A system that does not let go of it goes itself: the next run
/// is made with a new one.
pub(super) fn remove(stored: &Stored, way: &Way, fleet: &mut Fleet) {
    if let Err(trouble) = try_to_remove(stored, way, fleet) {
        progress::say(&format!(
            "{}: {}; it is started anew",
            way.system.variant.title,
            fleet.told(&trouble)
        ));
        fleet.discard(way);
    }
}

fn try_to_remove(stored: &Stored, way: &Way, fleet: &mut Fleet) -> Result<()> {
    if fleet.server_number(way) != Some(stored.server) {
        return Ok(());
    }
    let (server, driving) = fleet.have(way)?;
    driving.delete(&stored.log)?;
    rest(server)?;
    Ok(())
}

/// Makes a log for each client; what each is to append.
fn create_for_each(
    load: &Load,
    manner: Manner,
    way: &Way,
    server: &Server,
    drivers: &mut [Driving],
) -> Result<Vec<Append>> {
    let commands = drivers.iter_mut().map(|driving| {
        let log = driving.create(load.shards, way, server)?;
        Ok(command(&log, load, manner))
    });
    commands.collect()
}

/// What one client is to append.
fn command(log: &str, load: &Load, manner: Manner) -> Append {
    let times = match load.records.is_some() || manner.counts {
        true => load.times(),
        false => load.times().map(|times| times.min(TRIAL_TIMES_MAX)),
    };
    // Each producer and each shard is used once before it counts.
    let mut least = u64::from(load.producers.max(load.shards)) * u64::from(load.batch_records);
    if load.shards > load.producers {
        let shard_records = WARMUP_SHARD_BYTES.div_ceil(load.record_bytes.max(1) as u64);
        least = least.max((u64::from(load.shards) * shard_records).min(WARMUP_SHARDS_RECORDS_MAX));
    }
    let rate = manner.rate.or(manner.known_rate).unwrap_or(0.0) / f64::from(load.clients);
    let warm = rate * manner.seconds * WARMUP_SHARE;
    Append {
        log: log.to_owned(),
        shards: load.shards,
        producers: load.producers,
        record_bytes: load.record_bytes,
        batch_records: load.batch_records,
        in_flight: load.in_flight,
        warmup_records: (warm as u64).clamp(least, WARMUP_RECORDS_MAX.max(least)),
        records: load.records,
        seconds: times.map(|times| times * manner.seconds),
        rate: manner.rate,
        follow: load.follow,
        retry: false,
        transactional: load.transactional,
    }
}

fn limit(load: &Load, manner: Manner) -> Duration {
    match load.times() {
        Some(times) => Duration::from_secs_f64(times * manner.seconds * LATE) + LATE_BY,
        None => RECORDS_WITHIN,
    }
}
