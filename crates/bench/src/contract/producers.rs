//! Producers of all workloads here, and for a driver in Rust: warm-up, schedule, latencies, shares. A system gives only the
//! call that appends.
//!
//! Each producer is a thread with an appender of its own. All warm up, wait until everyone has, and begin together; what
//! one of them does then stands in `producer`.

mod producer;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use self::producer::{Outcome, Plan, Producer};
use super::driver::Events;
use super::payload::Stamp;
use super::time::{MachineTime, Time};
use super::watch::Watch;
use super::{Append, Done, together};
use crate::latency::LatencyRecorder;

/// How long a producer that cannot go on without an acknowledgement has an appender wait for one.
pub const UNTIL_SOMETHING: Duration = Duration::from_secs(1);

/// One producer's way into a system.
///
/// A unit is what is acknowledged at once: a batch where the driver makes batches (at a rate: of what is due), else a record. Units are numbered from 0
/// for each producer, warm-up included; each call of `send` takes a number, also one that fails.
pub trait Appender {
    /// Hands a unit over; it holds the producer's records with these numbers. Must not wait for its acknowledgement.
    ///
    /// # Errors
    /// If it could not be handed over; then it has failed.
    fn send(&mut self, shard: u32, records: Range<u64>) -> Result<()>;

    /// Adds what was acknowledged or failed since the last call to `completed`, in any order. If there is nothing, waits for
    /// something for at most `wait`; if that is `UNTIL_SOMETHING`, a system's own time limit may take its place.
    fn poll(&mut self, wait: Duration, completed: &mut Vec<Completed>);
}

/// A unit that is acknowledged or has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completed {
    /// Which, by the order of sending, from 0.
    pub unit: u64,
    /// When that was known.
    pub at: Instant,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

/// Who puts records into batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Batches {
    /// The driver: a unit is a batch.
    ByDriver,
    /// The client, or nobody: a unit is a record.
    ByClient,
}

/// When each measured record is due; shared by producers and the consumers that follow them.
#[derive(Debug)]
pub struct Schedule {
    began: OnceLock<Instant>,
    rate: Option<f64>,
    producers: u32,
    /// Of each producer.
    warmup_records: Vec<u64>,
}

impl Schedule {
    /// That of `append`; it begins when the producers do, and serves one run.
    #[must_use]
    pub fn new(append: &Append) -> Schedule {
        let warmup = |producer| share(append.warmup_records, producer, append.producers);
        Schedule {
            began: OnceLock::new(),
            rate: append.rate,
            producers: append.producers,
            warmup_records: (0..append.producers).map(warmup).collect(),
        }
    }

    /// When a record was due; none for a record of the warm-up, and in the closed loop.
    #[must_use]
    pub fn due(&self, stamp: Stamp) -> Option<Instant> {
        let warmup_records = *self.warmup_records.get(stamp.producer as usize)?;
        let measured = stamp.sequence.checked_sub(warmup_records)?;
        let before = measured * u64::from(self.producers) + u64::from(stamp.producer);
        // From the beginning each time: adding up a rounded interval would drift.
        let ns = before as f64 * 1e9 / self.rate?;
        Some(*self.began.get()? + Duration::from_nanos(ns as u64))
    }

    fn begin(&self, at: Instant) -> Instant {
        assert!(self.began.set(at).is_ok(), "a schedule serves one run");
        at
    }
}

/// Runs the producers of `append`, each on a thread with the appender that `connect` makes for it (given the producer's
/// number, on that thread), and says `started` and `progress`. The caller adds `delivery_ns` if consumers follow.
///
/// # Errors
/// If a producer cannot connect.
pub fn run<A: Appender>(
    append: &Append,
    batches: Batches,
    schedule: &Schedule,
    connect: impl Fn(u32) -> Result<A> + Sync,
    events: &Events<'_>,
) -> Result<Done> {
    let (done, _) = produce_by(&MachineTime, append, batches, schedule, connect, &mut &*events)?;
    Ok(done)
}

/// The same by any time, for whoever wants the latencies as they were recorded.
pub(crate) fn produce_by<A: Appender, T: Time>(
    time: &T,
    append: &Append,
    batches: Batches,
    schedule: &Schedule,
    connect: impl Fn(u32) -> Result<A> + Sync,
    watch: &mut dyn Watch,
) -> Result<(Done, LatencyRecorder)> {
    check(append)?;
    let acknowledged = AtomicU64::new(0);
    let get_ready = |index| {
        let plan = Plan::new(append, batches, index, schedule);
        let appender = connect(index).with_context(|| format!("producer {index} cannot connect"))?;
        Ok(Producer::warmed_up(plan, time, appender, &acknowledged))
    };
    let (began, outcomes) = together::run(
        append.producers,
        "producer",
        get_ready,
        Producer::measure,
        || schedule.begin(time.now()),
        &acknowledged,
        watch,
    )?;
    Ok(sum_up(append, began, &outcomes))
}

/// What all producers did together.
fn sum_up(append: &Append, began: Instant, outcomes: &[Outcome]) -> (Done, LatencyRecorder) {
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    let last = outcomes
        .iter()
        .filter_map(|outcome| outcome.last_acknowledged)
        .max();
    let took = last.map_or(Duration::ZERO, |last| last.saturating_duration_since(began));
    let latencies = LatencyRecorder::merged(outcomes.iter().map(|outcome| &outcome.latencies));
    let records = sum(|outcome| outcome.records);
    let done = Done {
        seconds: took.as_secs_f64(),
        records,
        bytes: records * append.record_bytes as u64,
        errors: sum(|outcome| outcome.errors),
        first_error: outcomes.iter().find_map(|outcome| outcome.first_error.clone()),
        appended: outcomes.iter().map(|outcome| outcome.appended).collect(),
        latency_ns: latencies.pairs(),
        ..Done::default()
    };
    (done, latencies)
}

fn check(append: &Append) -> Result<()> {
    let Append {
        shards,
        producers,
        batch_records,
        in_flight,
        ..
    } = *append;
    ensure!(
        shards > 0 && producers > 0 && batch_records > 0 && in_flight > 0,
        "shards, producers, batch_records and in_flight must be 1 at least"
    );
    ensure!(
        !append.retry || ((batch_records, in_flight) == (1, 1) && append.rate.is_none()),
        "with retry, one record is sent after the other (batch_records and in_flight 1, no rate)"
    );
    ensure!(
        !append.transactional
            || (in_flight == 1 && !append.retry && (append.rate.is_none() || batch_records == 1)),
        "with transactional, one transaction follows the other (in_flight 1, no retry; with a rate, batch_records 1)"
    );
    ensure!(
        append.records.is_some() || append.seconds.is_some(),
        "records, seconds or both must be given"
    );
    let positive = |number: Option<f64>| number.is_none_or(|number| number.is_finite() && number > 0.0);
    ensure!(positive(append.rate), "rate must be more than 0");
    ensure!(positive(append.seconds), "seconds must be more than 0");
    Ok(())
}

/// The part of `total` that falls to `producer` of `producers`; all parts together are `total`.
fn share(total: u64, producer: u32, producers: u32) -> u64 {
    let (producer, producers) = (u64::from(producer), u64::from(producers));
    total / producers + u64::from(producer < total % producers)
}
