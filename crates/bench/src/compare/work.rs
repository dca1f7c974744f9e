//! One run: a workload on one system through one driver, checked, metered, and cleaned up after.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use platform::process::process_usage;

use super::driving::{Driving, Watch};
use super::figures::{self, Cost};
use super::fleet::{Fleet, Way};
use super::machine;
use super::meter::Meter;
use super::plan::{Amount, Load, Work};
use super::server::Server;
use crate::contract::payload::Payloads;
use crate::contract::{Append, Create, Done, LatencyPairs, Read};

/// How long a system may take to come to rest after a run.
const REST_WITHIN: Duration = Duration::from_secs(10);
const REST_LOOK: Duration = Duration::from_millis(200);
/// What a system at rest may use within one look.
const REST_CPU: Duration = Duration::from_millis(20);
const REST_BYTES: u64 = 1 << 20;
/// The share of a run that goes before it, unmeasured.
const WARMUP_SHARE: f64 = 0.25;
const WARMUP_RECORDS_MAX: u64 = 2_000_000;
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
    /// Records a second that the cell took in its trial; none in the trial itself.
    pub(super) known_rate: Option<f64>,
    /// Records a second that are due, in the open loop.
    pub(super) rate: Option<f64>,
    /// Whether everything is read back and compared.
    pub(super) verify: bool,
}

/// What came of a run.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) figures: BTreeMap<String, f64>,
    pub(super) latency_ns: LatencyPairs,
    pub(super) verified_records: Option<u64>,
}

/// A log that is kept from run to run of a cell.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    log: String,
    load: Load,
    appended: Vec<u64>,
}

/// Names of logs that no other run has.
#[derive(Debug, Default)]
pub(super) struct Names(u32);

impl Names {
    fn next(&mut self) -> String {
        self.0 += 1;
        format!("compare-{}-{}", std::process::id(), self.0)
    }
}

impl Stored {
    fn records(&self) -> u64 {
        self.appended.iter().sum()
    }
}

/// Reads the meters when a load begins and ends.
struct Metering<'a> {
    server: &'a Server,
    driver_pid: u32,
    client_before: Duration,
    cost: Cost,
    tell: &'a dyn Fn(u64),
}

impl<'a> Metering<'a> {
    fn new(server: &'a Server, driving: &Driving, tell: &'a dyn Fn(u64)) -> Metering<'a> {
        Metering {
            server,
            driver_pid: driving.pid(),
            client_before: Duration::ZERO,
            cost: Cost {
                has_server: !server.is_in_driver(),
                ..Cost::default()
            },
            tell,
        }
    }

    fn client_cpu(&self) -> Result<Duration> {
        let usage = process_usage(self.driver_pid).context("the driver is gone")?;
        Ok(usage.cpu_user + usage.cpu_system)
    }
}

impl Watch for Metering<'_> {
    fn started(&mut self) -> Result<()> {
        self.client_before = self.client_cpu()?;
        self.cost.before = self.server.meter()?;
        Ok(())
    }

    fn progress(&mut self, records: u64) {
        (self.tell)(records);
    }

    fn done(&mut self) -> Result<()> {
        self.cost.after = self.server.meter()?;
        self.cost.client_cpu = self.client_cpu()?.saturating_sub(self.client_before);
        Ok(())
    }
}

/// Makes one run of `work`. `stored` is what the cell keeps between runs.
///
/// # Errors
/// If it failed in any way; then nothing of it counts.
pub(super) fn run(
    work: &Work,
    way: &Way,
    manner: Manner,
    fleet: &mut Fleet,
    stored: &mut Option<Stored>,
    names: &mut Names,
    tell: &dyn Fn(u64),
) -> Result<Outcome> {
    match work {
        Work::Append(load) => append(load, way, manner, fleet, names, tell),
        Work::Read {
            load,
            consumers,
            batch_records,
        } => {
            let (server, driving) = fleet.have(way)?;
            let kept = keep(load, way, manner, server, driving, stored, names)?;
            let read = Read {
                log: kept.log.clone(),
                shards: load.shards,
                consumers: *consumers,
                record_bytes: load.record_bytes,
                batch_records: *batch_records,
                records: kept.records() * u64::from((*consumers).div_ceil(load.shards).max(1)),
                verify: false,
            };
            measure_read(&read, manner, server, driving, tell)
        }
        Work::ReadMeanwhile {
            stored: before,
            load,
            cold,
        } => read_meanwhile(before, load, *cold, way, manner, fleet, stored, names, tell),
        Work::Restart(load) => restart(load, way, manner, fleet, names),
    }
}

/// Loads a system and a driver that were just started, for `seconds`, and forgets it: compilers that work while a program runs, caches
/// and files are then as in a system that has been running for a while.
///
/// # Errors
/// If a load fails.
pub(super) fn warm_up(way: &Way, seconds: f64, fleet: &mut Fleet, names: &mut Names) -> Result<()> {
    let (server, driving) = fleet.have(way)?;
    let one_by_one = Load::one_by_one(100);
    for load in [one_by_one, one_by_one.in_batches(100, 4)] {
        let log = names.next();
        create(&log, load.shards, way, server, driving)?;
        let manner = Manner {
            seconds: seconds / 2.0,
            known_rate: None,
            rate: None,
            verify: false,
        };
        let done = driving.append(
            &command(&log, &load, manner),
            limit(&load, manner),
            &mut Unwatched,
        )?;
        check(&done, &load)?;
        let stored = Stored {
            log,
            load,
            appended: done.appended,
        };
        verify(&stored, &[], driving)?;
        driving.delete(&stored.log)?;
    }
    rest(server)?;
    fleet.set_warm(way);
    Ok(())
}

/// Removes what the cell kept.
pub(super) fn forget(stored: Stored, way: &Way, fleet: &mut Fleet) -> Result<()> {
    let (server, driving) = fleet.have(way)?;
    driving.delete(&stored.log)?;
    rest(server)?;
    Ok(())
}

fn append(
    load: &Load,
    way: &Way,
    manner: Manner,
    fleet: &mut Fleet,
    names: &mut Names,
    tell: &dyn Fn(u64),
) -> Result<Outcome> {
    let (server, driving) = fleet.have(way)?;
    let log = names.next();
    create(&log, load.shards, way, server, driving)?;
    let command = command(&log, load, manner);
    let mut metering = Metering::new(server, driving, tell);
    let done = driving.append(&command, limit(load, manner), &mut metering)?;
    let mut cost = metering.cost;
    check(&done, load)?;
    cost.settled = rest(server)?;
    let stored = Stored {
        log,
        load: *load,
        appended: done.appended.clone(),
    };
    let verified_records = if manner.verify {
        Some(verify(&stored, &[], driving)?)
    } else {
        None
    };
    driving.delete(&stored.log)?;
    rest(server)?;
    Ok(Outcome {
        figures: figures::of_load(&done, load.producers, &cost, true),
        latency_ns: done.latency_ns,
        verified_records,
    })
}

fn create(log: &str, shards: u32, way: &Way, server: &Server, driving: &mut Driving) -> Result<()> {
    driving.create(&Create {
        log: log.to_owned(),
        shards,
        nodes: server.nodes(),
        settings: way.system.variant.log_settings.clone(),
    })
}

fn command(log: &str, load: &Load, manner: Manner) -> Append {
    let (records, seconds) = match load.amount {
        Amount::Records(records) => (Some(records), None),
        Amount::Time(times) => (None, Some(times * manner.seconds)),
    };
    // Each producer and each shard is used once before it counts.
    let least = u64::from(load.producers.max(load.shards)) * u64::from(load.batch_records);
    let warm = manner.rate.or(manner.known_rate).unwrap_or(0.0) * manner.seconds * WARMUP_SHARE;
    Append {
        log: log.to_owned(),
        shards: load.shards,
        producers: load.producers,
        record_bytes: load.record_bytes,
        batch_records: load.batch_records,
        in_flight: load.in_flight,
        warmup_records: (warm as u64).clamp(least, WARMUP_RECORDS_MAX.max(least)),
        records,
        seconds,
        rate: manner.rate,
        follow: load.follow,
    }
}

fn limit(load: &Load, manner: Manner) -> Duration {
    match load.amount {
        Amount::Time(times) => Duration::from_secs_f64(times * manner.seconds * LATE) + LATE_BY,
        Amount::Records(_) => RECORDS_WITHIN,
    }
}

/// That what a driver says of its appends can be so.
fn check(done: &Done, load: &Load) -> Result<()> {
    ensure!(
        done.errors == 0,
        "{} appends failed; the first: {}",
        done.errors,
        done.first_error.as_deref().unwrap_or("no reason given")
    );
    ensure!(done.records > 0, "not one record was acknowledged");
    let appended: u64 = done.appended.iter().sum();
    ensure!(
        done.appended.len() == load.producers as usize && appended >= done.records,
        "the driver says that {} records were acknowledged, but {appended} of its {} producers",
        done.records,
        done.appended.len()
    );
    ensure!(
        done.bytes == done.records * load.record_bytes as u64,
        "the driver says that {} records of {} B have {} bytes",
        done.records,
        load.record_bytes,
        done.bytes
    );
    Ok(())
}

/// Reads back everything that was acknowledged, and `besides` (records of a producer by their number), and compares it; how many
/// records that were.
fn verify(stored: &Stored, besides: &[(u32, u64)], driving: &mut Driving) -> Result<u64> {
    let load = &stored.load;
    let records = stored.records() + besides.len() as u64;
    let read = Read {
        log: stored.log.clone(),
        shards: load.shards,
        consumers: load.shards.min(4),
        record_bytes: load.record_bytes,
        batch_records: 1_000,
        records,
        verify: true,
    };
    let done = driving
        .read(&read, RECORDS_WITHIN, &mut Unwatched)
        .context("reading back what was acknowledged")?;
    let payloads = Payloads::new(load.record_bytes)?;
    let acknowledged = stored.appended.iter().enumerate();
    let of_producers = acknowledged.map(|(producer, count)| payloads.crc32_sum(producer as u32, 0..*count));
    let of_others = besides
        .iter()
        .map(|&(producer, sequence)| payloads.crc32_sum(producer, sequence..sequence + 1));
    let sum: u64 = of_producers.chain(of_others).sum();
    ensure!(
        done.records == records,
        "{records} records were acknowledged, but {} were read back",
        done.records
    );
    ensure!(
        done.crc32_sum == Some(sum),
        "{records} records were read back, but they are not those that were acknowledged (their sum is {:?}, not {sum})",
        done.crc32_sum
    );
    // What comes besides begins at a producer's first number again.
    let out_of_order = done.out_of_order.unwrap_or(u64::MAX);
    ensure!(
        out_of_order <= besides.len() as u64,
        "{out_of_order} of {records} records came back out of their order"
    );
    Ok(records)
}

struct Unwatched;

impl Watch for Unwatched {
    fn started(&mut self) -> Result<()> {
        Ok(())
    }

    fn progress(&mut self, _records: u64) {}

    fn done(&mut self) -> Result<()> {
        Ok(())
    }
}

/// What the cell keeps: made at its first run, and read back whole once.
fn keep<'s>(
    load: &Load,
    way: &Way,
    manner: Manner,
    server: &Server,
    driving: &mut Driving,
    stored: &'s mut Option<Stored>,
    names: &mut Names,
) -> Result<&'s Stored> {
    if stored.is_none() {
        let log = names.next();
        create(&log, load.shards, way, server, driving)?;
        let command = command(&log, load, Manner { rate: None, ..manner });
        let done = driving.append(&command, limit(load, manner), &mut Unwatched)?;
        check(&done, load)?;
        let kept = Stored {
            log,
            load: *load,
            appended: done.appended,
        };
        verify(&kept, &[], driving)?;
        rest(server)?;
        *stored = Some(kept);
    }
    Ok(stored.as_ref().expect("it was made"))
}

fn measure_read(
    read: &Read,
    manner: Manner,
    server: &Server,
    driving: &mut Driving,
    tell: &dyn Fn(u64),
) -> Result<Outcome> {
    let mut metering = Metering::new(server, driving, tell);
    let done = driving.read(read, RECORDS_WITHIN, &mut metering)?;
    let cost = metering.cost;
    ensure!(
        done.records >= read.records,
        "only {} of {} records were read",
        done.records,
        read.records
    );
    Ok(Outcome {
        figures: figures::of_load(&done, read.consumers, &cost, false),
        latency_ns: done.latency_ns,
        verified_records: manner.verify.then_some(read.records),
    })
}

#[allow(clippy::too_many_arguments)]
fn read_meanwhile(
    before: &Load,
    load: &Load,
    cold: bool,
    way: &Way,
    manner: Manner,
    fleet: &mut Fleet,
    stored: &mut Option<Stored>,
    names: &mut Names,
    tell: &dyn Fn(u64),
) -> Result<Outcome> {
    let (server, driving) = fleet.have(way)?;
    let kept = keep(before, way, manner, server, driving, stored, names)?.clone();
    let mut second = fleet.start_driver(way)?;
    second.describe()?;
    if cold {
        ensure!(
            machine::empty_page_cache(),
            "emptying the page cache is not allowed here: it needs the right to write /proc/sys/vm/drop_caches"
        );
    }
    let read = Read {
        log: kept.log.clone(),
        shards: before.shards,
        consumers: 1,
        record_bytes: before.record_bytes,
        batch_records: before.batch_records,
        records: kept.records(),
        verify: false,
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_over_and_over(&read, &mut second, &over));
        let appended = append(load, way, manner, fleet, names, tell);
        over.store(true, Ordering::Relaxed);
        let (records, seconds) = reader.join().expect("a panic is a bug here")?;
        let mut outcome = appended?;
        let per_s = records as f64 / seconds;
        outcome
            .figures
            .insert("read_records_per_s".to_owned(), per_s.round());
        let mb_per_s = per_s * before.record_bytes as f64 / 1e6;
        outcome
            .figures
            .insert("read_mb_per_s".to_owned(), mb_per_s.round());
        Ok(outcome)
    })
}

/// How many records were read, and in how many seconds of reading.
fn read_over_and_over(read: &Read, driving: &mut Driving, over: &AtomicBool) -> Result<(u64, f64)> {
    let (mut records, mut seconds) = (0, 0.0);
    while !over.load(Ordering::Relaxed) {
        let done = driving.read(read, RECORDS_WITHIN, &mut Unwatched)?;
        records += done.records;
        seconds += done.seconds;
    }
    Ok((records, seconds))
}

fn restart(load: &Load, way: &Way, manner: Manner, fleet: &mut Fleet, names: &mut Names) -> Result<Outcome> {
    let (server, driving) = fleet.have(way)?;
    let log = names.next();
    create(&log, load.shards, way, server, driving)?;
    let append = command(&log, load, manner);
    let done = driving.append(&append, limit(load, manner), &mut Unwatched)?;
    check(&done, load)?;
    let kept = Stored {
        log,
        load: *load,
        appended: done.appended,
    };
    fleet.crash(way);
    let ready = fleet.start_again(way)?;
    let (server, driving) = fleet.have(way)?;
    driving.describe()?;
    let one = Append {
        producers: 1,
        batch_records: 1,
        in_flight: 1,
        warmup_records: 0,
        records: Some(1),
        seconds: None,
        ..append
    };
    let began = Instant::now();
    let first = driving.append(&one, RECORDS_WITHIN, &mut Unwatched)?;
    let first_ack = ready + began.elapsed();
    ensure!(
        first.errors == 0,
        "the first append after the start failed: {:?}",
        first.first_error
    );
    // A system that does not flush may have lost what the crash of its processes alone cannot take: then it says so here.
    let verified = verify(&kept, &[(0, 0)], driving)?;
    driving.delete(&kept.log)?;
    rest(server)?;
    let figures = [("ready_s", ready), ("first_ack_s", first_ack)];
    let figures = figures.map(|(name, time)| (name.to_owned(), (time.as_secs_f64() * 1e3).round() / 1e3));
    Ok(Outcome {
        figures: figures.into(),
        latency_ns: Vec::new(),
        verified_records: Some(verified),
    })
}

/// Waits until the system has nothing left to do, and the page cache nothing to write out. Its meters then.
fn rest(server: &Server) -> Result<Meter> {
    machine::write_out();
    let end = Instant::now() + REST_WITHIN;
    let mut before = server.meter()?;
    loop {
        if server.is_in_driver() {
            return Ok(before);
        }
        std::thread::sleep(REST_LOOK);
        let now = server.meter()?;
        let is_idle = now.cpu.saturating_sub(before.cpu) <= REST_CPU
            && now.written_bytes.saturating_sub(before.written_bytes) <= REST_BYTES;
        if is_idle || Instant::now() >= end {
            machine::write_out();
            return Ok(now);
        }
        before = now;
    }
}
