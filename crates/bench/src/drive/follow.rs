//! Consumers that read at the tail while producers append: one for each shard, until all is delivered.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use client::{Consumer, ConsumerOptions, Start};

use super::{LOOK_PAUSE, Ropewalk};
use crate::contract::payload::Stamp;
use crate::contract::producers::Schedule;
use crate::contract::{Append, Done};
use crate::latency::LatencyRecorder;

/// How long a fetch at the tail may wait; records end it at once. So often a consumer looks whether all is over.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// How long nothing may be delivered after all was acknowledged.
const PATIENCE: Duration = Duration::from_secs(30);

/// What consumers have done so far, and whether they should end.
#[derive(Default)]
struct Delivery {
    records: AtomicU64,
    is_over: AtomicBool,
}

/// Lets consumers follow while `produce` runs. They are at the tail before it begins.
pub(super) fn run(
    system: &Ropewalk,
    append: &Append,
    schedule: &Schedule,
    produce: impl FnOnce() -> Result<Done>,
) -> Result<Done> {
    ensure!(
        append.rate.is_some(),
        "consumers can follow only where records are due at a rate"
    );
    let delivery = Delivery::default();
    std::thread::scope(|scope| {
        let (arrive, arrivals) = mpsc::channel();
        let consumers: Vec<_> = (0..append.shards)
            .map(|shard| {
                let (arrive, delivery) = (arrive.clone(), &delivery);
                scope.spawn(move || -> Result<LatencyRecorder> {
                    let consumer = open(system, &append.log, shard)?;
                    let _ = arrive.send(());
                    drop(arrive);
                    follow(consumer, schedule, delivery)
                })
            })
            .collect();
        drop(arrive);
        // Ends when each consumer is there or has failed.
        let followed = if arrivals.iter().count() == append.shards as usize {
            produce().and_then(|done| {
                wait_for_delivery(done.appended.iter().sum(), &delivery)?;
                Ok(done)
            })
        } else {
            Err(anyhow!("not all shards can be followed"))
        };
        delivery.is_over.store(true, Ordering::Release);
        let mut latencies = LatencyRecorder::new();
        for consumer in consumers {
            // Why a consumer failed is worth more than that records did not come.
            latencies.merge(&consumer.join().expect("a consumer's panic is a bug here")?);
        }
        let mut done = followed?;
        done.delivery_ns = Some(latencies.pairs());
        Ok(done)
    })
}

fn open(system: &Ropewalk, log: &str, shard: u32) -> Result<Consumer> {
    let options = ConsumerOptions {
        wait_max: WAIT_MAX,
        ..ConsumerOptions::default()
    };
    let consumer = Consumer::new(&mut system.cluster()?, log, shard as i32, Start::Latest, options);
    consumer.with_context(|| format!("cannot follow shard {shard}"))
}

fn follow(mut consumer: Consumer, schedule: &Schedule, delivery: &Delivery) -> Result<LatencyRecorder> {
    let mut latencies = LatencyRecorder::new();
    while !delivery.is_over.load(Ordering::Acquire) {
        let fetched = consumer.fetch()?;
        let now = Instant::now();
        let mut records = 0;
        for record in fetched.records() {
            let value = record?.value.unwrap_or_default();
            records += 1;
            if let Some(due) = Stamp::parse(&value).and_then(|stamp| schedule.due(stamp)) {
                latencies.record(now.saturating_duration_since(due));
            }
        }
        delivery.records.fetch_add(records, Ordering::Release);
    }
    Ok(latencies)
}

/// Waits until consumers have had `records`.
fn wait_for_delivery(records: u64, delivery: &Delivery) -> Result<()> {
    let (mut before, mut since) = (0, Instant::now());
    loop {
        let delivered = delivery.records.load(Ordering::Acquire);
        if delivered >= records {
            return Ok(());
        }
        if delivered > before {
            (before, since) = (delivered, Instant::now());
        }
        ensure!(
            since.elapsed() < PATIENCE,
            "{delivered} of {records} acknowledged records were delivered, and for {} s no more",
            PATIENCE.as_secs()
        );
        std::thread::sleep(LOOK_PAUSE);
    }
}
