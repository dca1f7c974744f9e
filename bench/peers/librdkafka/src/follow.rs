//! Appends while consumers read at the tail, and measures how long records took from when they were due until delivered.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use bench::LatencyRecorder;
use bench::contract::driver::Events;
use bench::contract::payload::Stamp;
use bench::contract::producers::Schedule;
use bench::contract::{Append, Done};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Message, Offset};

use crate::append::append_on;
use crate::read::{assign, connect};
use crate::settings::TAIL_REQUEST_BYTES;

/// How long the brokers have to tell where a partition ends.
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);
/// How long records may be under way to a consumer after all were acknowledged.
const DELIVERY_PATIENCE: Duration = Duration::from_secs(30);
/// How long one call waits for a record: so soon a consumer notices that all is over.
const WAIT: Duration = Duration::from_millis(20);

/// What the followers tell and are told.
#[derive(Default)]
struct Shared {
    /// Measured records that were delivered.
    delivered: AtomicU64,
    over: AtomicBool,
}

/// Appends as `append` says, with a consumer for each shard.
pub(crate) fn append_and_follow(address: &str, append: &Append, events: &Events<'_>) -> Result<Done> {
    ensure!(
        append.rate.is_some(),
        "deliveries count from when records are due: give a rate"
    );
    let schedule = Schedule::new(append);
    let shared = Shared::default();
    let consumers = (0..append.shards)
        .map(|shard| at_the_tail(address, &append.log, shard))
        .collect::<Result<Vec<_>>>()?;
    std::thread::scope(|scope| {
        let followers: Vec<_> = consumers
            .iter()
            .map(|consumer| scope.spawn(|| follow(consumer, &schedule, &shared)))
            .collect();
        let done = append_on(address, append, &schedule, events);
        if let Ok(done) = &done {
            wait_for_deliveries(done.records, &shared);
        }
        shared.over.store(true, Ordering::Relaxed);
        let mut deliveries = LatencyRecorder::new();
        for follower in followers {
            deliveries.merge(&follower.join().map_err(|_| anyhow!("a consumer's thread died"))?);
        }
        Ok(with_deliveries(done?, &deliveries))
    })
}

/// A consumer of one shard that will have what is appended from now on.
fn at_the_tail(address: &str, log: &str, shard: u32) -> Result<BaseConsumer> {
    let consumer = connect(address, log, TAIL_REQUEST_BYTES)?;
    let (_, tail) = consumer
        .fetch_watermarks(log, i32::try_from(shard)?, CONNECT_PATIENCE)
        .with_context(|| format!("{address} does not tell where partition {shard} of {log} ends"))?;
    assign(&consumer, log, [(shard, Offset::Offset(tail))])?;
    Ok(consumer)
}

fn follow(consumer: &BaseConsumer, schedule: &Schedule, shared: &Shared) -> LatencyRecorder {
    let mut deliveries = LatencyRecorder::new();
    while !shared.over.load(Ordering::Relaxed) {
        // Errors pass, or records are missing in the end.
        let Some(Ok(message)) = consumer.poll(WAIT) else {
            continue;
        };
        let now = Instant::now();
        let stamp = message.payload().and_then(Stamp::parse);
        if let Some(due) = stamp.and_then(|stamp| schedule.due(stamp)) {
            deliveries.record(now.saturating_duration_since(due));
            shared.delivered.fetch_add(1, Ordering::Relaxed);
        }
    }
    deliveries
}

fn wait_for_deliveries(records: u64, shared: &Shared) {
    let began = Instant::now();
    while shared.delivered.load(Ordering::Relaxed) < records && began.elapsed() < DELIVERY_PATIENCE {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn with_deliveries(mut done: Done, deliveries: &LatencyRecorder) -> Done {
    let missing = done.records.saturating_sub(deliveries.count());
    if missing > 0 {
        done.errors += missing;
        done.first_error.get_or_insert(format!(
            "{missing} acknowledged records were not delivered within {} s",
            DELIVERY_PATIENCE.as_secs()
        ));
    }
    done.delivery_ns = Some(deliveries.pairs());
    done
}
