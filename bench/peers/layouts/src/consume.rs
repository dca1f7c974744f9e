//! Reading a log from its first record, by several consumers at once.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use bench::contract::driver::Events;
use bench::contract::payload::{Payloads, crc32};
use bench::contract::{Done, Event, Read};

use crate::log::Log;

/// What one consumer had.
#[derive(Debug, Default)]
struct Had {
    records: u64,
    bytes: u64,
    crc32_sum: u64,
    out_of_order: u64,
    errors: u64,
    first_error: Option<String>,
}

/// Carries out `read`. A scan has no requests, so there are no latencies.
pub(crate) fn read(log: &Log, read: &Read, events: &Events<'_>) -> Result<Done> {
    let payloads = read
        .verify
        .then(|| Payloads::new(read.record_bytes))
        .transpose()?;
    let wanted = AtomicU64::new(read.records);
    events.say(&Event::Started);
    let began = Instant::now();
    let consume = |consumer| consume(log, read, consumer, payloads.as_ref(), &wanted);
    let consumers = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..read.consumers)
            .map(|consumer| scope.spawn(move || consume(consumer)))
            .collect();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().expect("a consumer does not panic"));
        joined.collect::<Result<Vec<Had>>>()
    })?;
    let seconds = began.elapsed().as_secs_f64();
    let mut all = Had::default();
    for had in consumers {
        all.add(had);
    }
    ensure!(
        all.records == read.records,
        "the log has {} records, {} were to be read",
        all.records,
        read.records
    );
    Ok(Done {
        seconds,
        records: all.records,
        bytes: all.bytes,
        errors: all.errors,
        first_error: all.first_error,
        crc32_sum: read.verify.then_some(all.crc32_sum),
        out_of_order: read.verify.then_some(all.out_of_order),
        ..Done::default()
    })
}

/// The shards of a consumer: every n-th, or one that it shares.
fn shards_of(consumer: u32, consumers: u32, shards: u32) -> impl Iterator<Item = u32> {
    let first = consumer % shards;
    let step = if consumers > shards { shards } else { consumers };
    (first..shards).step_by(step as usize)
}

fn consume(
    log: &Log,
    read: &Read,
    consumer: u32,
    payloads: Option<&Payloads>,
    wanted: &AtomicU64,
) -> Result<Had> {
    let mut had = Had::default();
    for shard in shards_of(consumer, read.consumers, read.shards) {
        let mut last = HashMap::new();
        log.scan(shard, 0..log.tails().of(shard), &mut |record| {
            if !take_one(wanted) {
                return ControlFlow::Break(());
            }
            had.records += 1;
            had.bytes += record.len() as u64;
            if let Some(payloads) = payloads {
                had.verify(payloads, record, shard, &mut last);
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok(had)
}

/// Whether a record more is wanted by all consumers together.
fn take_one(wanted: &AtomicU64) -> bool {
    wanted
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
        .is_ok()
}

impl Had {
    /// Compares a record with what it must be. `last` are the greatest numbers so far, by producer.
    fn verify(&mut self, payloads: &Payloads, record: &[u8], shard: u32, last: &mut HashMap<u32, u64>) {
        self.crc32_sum += crc32(record);
        let Some(stamp) = payloads.check(record) else {
            self.errors += 1;
            self.first_error
                .get_or_insert_with(|| format!("a record of shard {shard} is not what was appended"));
            return;
        };
        let before = last.insert(stamp.producer, stamp.sequence);
        self.out_of_order += u64::from(before.is_some_and(|before| before >= stamp.sequence));
    }

    fn add(&mut self, other: Had) {
        self.records += other.records;
        self.bytes += other.bytes;
        self.crc32_sum += other.crc32_sum;
        self.out_of_order += other.out_of_order;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
    }
}
