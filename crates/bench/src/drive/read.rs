//! Reading a log from its first record: consumers that share out its shards or read the same ones over again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use client::{ConsumerOptions, Fetched, TopicConsumer};

use super::Ropewalk;
use crate::contract::driver::Events;
use crate::contract::payload::{Stamp, crc32};
use crate::contract::{Done, Read, together};
use crate::latency::LatencyRecorder;
use crate::stretches;

/// Before a shard's end there are records: after so many fetches in a row without one they are lost.
const EMPTY_MAX: u32 = 20;

/// Reads until all consumers together have what is asked for.
pub(super) fn run(system: &Ropewalk, read: &Read, events: &Events<'_>) -> Result<Done> {
    ensure!(read.consumers > 0, "there must be one consumer at least");
    let stretches = stretches::find(&mut system.cluster()?, &read.log, None)?;
    ensure!(
        stretches.len() == read.shards as usize,
        "topic {} has {} partitions, not {}",
        read.log,
        stretches.len(),
        read.shards
    );
    let shares = stretches::share_out(&stretches, read.consumers);
    let options = ConsumerOptions {
        bytes_max: i32::try_from(read.request_bytes).context("request_bytes is too large")?,
        ..ConsumerOptions::default()
    };
    let connect = |consumer| {
        let share: &Vec<_> = &shares[consumer as usize];
        let consumer = TopicConsumer::new(&mut system.cluster()?, &read.log, share, options.clone());
        consumer.context("a consumer cannot connect")
    };
    let had = AtomicU64::new(0);
    let (began, outcomes) = together::run(
        read.consumers,
        "consumer",
        connect,
        |consumer, _| consume(read, consumer, &had),
        Instant::now,
        &had,
        &mut &*events,
    )?;
    let outcomes = outcomes.into_iter().collect::<Result<Vec<Outcome>>>()?;
    let done = sum_up(read, began, &outcomes);
    if done.records < read.records {
        bail!(
            "the log has {} records for its consumers, not {}",
            done.records,
            read.records
        );
    }
    Ok(done)
}

/// What one consumer read.
#[derive(Default)]
struct Outcome {
    records: u64,
    bytes: u64,
    latencies: LatencyRecorder,
    ended: Option<Instant>,
    crc32_sum: u64,
    out_of_order: u64,
    /// The number of the last record by partition and producer.
    last: HashMap<(i32, u32), u64>,
}

fn consume(read: &Read, mut consumer: TopicConsumer, had: &AtomicU64) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut empty = 0;
    while had.load(Ordering::Relaxed) < read.records {
        let asked = Instant::now();
        let Some(all_fetched) = consumer.fetch()? else {
            break;
        };
        outcome.latencies.record(asked.elapsed());
        let before = outcome.records;
        for (partition, fetched) in &all_fetched {
            if read.verify {
                outcome.verify(*partition, fetched)?;
            } else {
                outcome.touch(fetched)?;
            }
        }
        empty = if outcome.records == before { empty + 1 } else { 0 };
        ensure!(
            empty < EMPTY_MAX,
            "the log {} has more records, but {EMPTY_MAX} fetches in a row brought none",
            read.log
        );
        had.fetch_add(outcome.records - before, Ordering::Relaxed);
    }
    outcome.ended = Some(Instant::now());
    Ok(outcome)
}

impl Outcome {
    /// Takes every record apart, as a reader does.
    fn touch(&mut self, fetched: &Fetched) -> Result<()> {
        for record in fetched.records() {
            let record = record?;
            self.records += 1;
            self.bytes += record.value.as_ref().map_or(0, |value| value.len() as u64);
            // The value is what a reader reads for: the compiler must not leave it out.
            std::hint::black_box(&record.value);
        }
        Ok(())
    }

    /// The same, and compares what the contract says about each.
    fn verify(&mut self, partition: i32, fetched: &Fetched) -> Result<()> {
        for record in fetched.records() {
            let value = record?.value.unwrap_or_default();
            self.records += 1;
            self.bytes += value.len() as u64;
            self.crc32_sum += crc32(&value);
            // What has no stamp shows in the sum.
            let Some(stamp) = Stamp::parse(&value) else {
                continue;
            };
            let last = self.last.insert((partition, stamp.producer), stamp.sequence);
            self.out_of_order += u64::from(last.is_some_and(|last| stamp.sequence <= last));
        }
        Ok(())
    }
}

fn sum_up(read: &Read, began: Instant, outcomes: &[Outcome]) -> Done {
    let latencies = LatencyRecorder::merged(outcomes.iter().map(|outcome| &outcome.latencies));
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    let ended = outcomes.iter().filter_map(|outcome| outcome.ended).max();
    Done {
        seconds: ended.map_or(0.0, |ended| ended.duration_since(began).as_secs_f64()),
        records: sum(|outcome| outcome.records),
        bytes: sum(|outcome| outcome.bytes),
        latency_ns: latencies.pairs(),
        crc32_sum: read.verify.then(|| sum(|outcome| outcome.crc32_sum)),
        out_of_order: read.verify.then(|| sum(|outcome| outcome.out_of_order)),
        ..Done::default()
    }
}
