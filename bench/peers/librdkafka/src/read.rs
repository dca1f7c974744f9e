//! Reads a log from its first record, on several consumers at once, and checks what it had if asked to.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use bench::contract::driver::Events;
use bench::contract::payload::{Payloads, crc32};
use bench::contract::{Done, Event, Read};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::BorrowedMessage;
use rdkafka::{Message, Offset, TopicPartitionList};

use crate::{settings, topics};

/// How long the brokers have to name the partitions' leaders.
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);
/// After so long without a record a consumer gives up.
const IDLE_PATIENCE: Duration = Duration::from_secs(60);
/// How long one call waits for a record: so soon a consumer notices that others have had the last one.
const WAIT: Duration = Duration::from_millis(20);

/// What all consumers know of each other.
struct Shared {
    wanted: u64,
    /// How many records were taken by all together; past `wanted` they are not counted.
    taken: AtomicU64,
    /// When the last one was had.
    ended: OnceLock<Instant>,
    /// Set when one consumer gave up.
    failed: AtomicBool,
}

/// What one consumer had.
#[derive(Default)]
struct Had {
    records: u64,
    bytes: u64,
    errors: u64,
    first_error: Option<String>,
    checks: Checks,
}

/// What `verify` adds up.
#[derive(Default)]
struct Checks {
    crc32_sum: u64,
    out_of_order: u64,
    /// By shard and producer, the number of its last record.
    last: HashMap<(i32, u32), u64>,
}

/// Reads as `read` says.
pub(crate) fn read(address: &str, read: &Read, events: &Events<'_>) -> Result<Done> {
    ensure!(read.consumers > 0, "without a consumer nothing can be read");
    topics::check_existing(address, &read.log, read.shards)?;
    let payloads = read
        .verify
        .then(|| Payloads::new(read.record_bytes))
        .transpose()?;
    let consumers = (0..read.consumers)
        .map(|_| connect(address, &read.log, read.request_bytes))
        .collect::<Result<Vec<_>>>()?;
    let shared = Shared {
        wanted: read.records,
        taken: AtomicU64::new(0),
        ended: OnceLock::new(),
        failed: AtomicBool::new(false),
    };
    events.say(&Event::Started);
    let began = Instant::now();
    let had = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(&consumers)
            .map(|(number, consumer)| {
                let (shared, payloads) = (&shared, payloads.as_ref());
                scope.spawn(move || consume(consumer, &shards_of(number, read), read, shared, payloads))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a consumer's thread died"))?)
            .collect::<Result<Vec<_>>>()
    })?;
    let ended = shared.ended.get().copied().unwrap_or_else(Instant::now);
    Ok(sum(had, ended.saturating_duration_since(began), read.verify))
}

/// A consumer that already knows the partitions' leaders.
pub(crate) fn connect(address: &str, log: &str, request_bytes: u32) -> Result<BaseConsumer> {
    let consumer: BaseConsumer = settings::consumer(address, request_bytes)
        .create()
        .with_context(|| format!("cannot make a consumer for {address}"))?;
    consumer
        .fetch_metadata(Some(log), CONNECT_PATIENCE)
        .with_context(|| format!("{address} does not tell of the topic {log}"))?;
    Ok(consumer)
}

/// The shards that a consumer reads.
fn shards_of(consumer: u32, read: &Read) -> Vec<u32> {
    if read.consumers > read.shards {
        vec![consumer % read.shards]
    } else {
        (consumer..read.shards).step_by(read.consumers as usize).collect()
    }
}

fn consume(
    consumer: &BaseConsumer,
    shards: &[u32],
    read: &Read,
    shared: &Shared,
    payloads: Option<&Payloads>,
) -> Result<Had> {
    let had = consume_until_done(consumer, shards, read, shared, payloads);
    if had.is_err() {
        shared.failed.store(true, Ordering::Relaxed);
    }
    had
}

fn consume_until_done(
    consumer: &BaseConsumer,
    shards: &[u32],
    read: &Read,
    shared: &Shared,
    payloads: Option<&Payloads>,
) -> Result<Had> {
    assign(
        consumer,
        &read.log,
        shards.iter().map(|shard| (*shard, Offset::Beginning)),
    )?;
    let mut had = Had::default();
    let mut idle = Duration::ZERO;
    while !shared.is_over() {
        match consumer.poll(WAIT) {
            Some(Ok(message)) => {
                idle = Duration::ZERO;
                if shared.take(|| had.add(&message, payloads)) {
                    break;
                }
            }
            Some(Err(error)) => had.fail(error.to_string()),
            None => idle += WAIT,
        }
        if idle >= IDLE_PATIENCE {
            bail!(
                "no record for {} s, after {} of {} of the topic {}{}",
                idle.as_secs(),
                shared.taken.load(Ordering::Relaxed),
                shared.wanted,
                read.log,
                had.first_error
                    .map(|why| format!("; before: {why}"))
                    .unwrap_or_default()
            );
        }
    }
    Ok(had)
}

/// Gives a consumer partitions and where to begin in each.
pub(crate) fn assign(
    consumer: &BaseConsumer,
    log: &str,
    partitions: impl IntoIterator<Item = (u32, Offset)>,
) -> Result<()> {
    let mut list = TopicPartitionList::new();
    for (shard, offset) in partitions {
        list.add_partition_offset(log, i32::try_from(shard)?, offset)?;
    }
    consumer
        .assign(&list)
        .with_context(|| format!("cannot read the topic {log}"))
}

impl Shared {
    fn is_over(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= self.wanted || self.failed.load(Ordering::Relaxed)
    }

    /// Counts a record if it is still wanted, after `add`. Whether it was the last.
    fn take(&self, add: impl FnOnce()) -> bool {
        let before = self.taken.fetch_add(1, Ordering::Relaxed);
        if before < self.wanted {
            add();
        }
        let last = before + 1 == self.wanted;
        if last {
            self.ended.get_or_init(Instant::now);
        }
        last
    }
}

impl Had {
    fn add(&mut self, message: &BorrowedMessage<'_>, payloads: Option<&Payloads>) {
        let payload = message.payload().unwrap_or_default();
        self.records += 1;
        self.bytes += payload.len() as u64;
        let Some(payloads) = payloads else {
            return;
        };
        self.checks.crc32_sum += crc32(payload);
        let Some(stamp) = payloads.check(payload) else {
            self.fail(format!(
                "record {} of partition {} holds what nobody appended",
                message.offset(),
                message.partition()
            ));
            return;
        };
        let last = self
            .checks
            .last
            .insert((message.partition(), stamp.producer), stamp.sequence);
        if last.is_some_and(|last| last >= stamp.sequence) {
            self.checks.out_of_order += 1;
        }
    }

    fn fail(&mut self, why: String) {
        self.errors += 1;
        self.first_error.get_or_insert(why);
    }
}

fn sum(had: Vec<Had>, took: Duration, verify: bool) -> Done {
    let total = |part: fn(&Had) -> u64| had.iter().map(part).sum::<u64>();
    Done {
        seconds: took.as_secs_f64(),
        records: total(|had| had.records),
        bytes: total(|had| had.bytes),
        errors: total(|had| had.errors),
        crc32_sum: verify.then(|| total(|had| had.checks.crc32_sum)),
        out_of_order: verify.then(|| total(|had| had.checks.out_of_order)),
        first_error: had.into_iter().find_map(|had| had.first_error),
        ..Done::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_by(consumers: u32, shards: u32) -> Vec<Vec<u32>> {
        let read = Read {
            log: "log".to_owned(),
            shards,
            consumers,
            record_bytes: 100,
            request_bytes: 1 << 20,
            records: 0,
            verify: false,
        };
        (0..consumers)
            .map(|consumer| shards_of(consumer, &read))
            .collect()
    }

    #[test]
    fn consumers_share_the_shards_or_read_them_again() {
        assert_eq!(read_by(2, 5), [vec![0, 2, 4], vec![1, 3]]);
        assert_eq!(read_by(3, 3), [[0], [1], [2]]);
        assert_eq!(read_by(5, 2), [[0], [1], [0], [1], [0]]);
    }

    #[test]
    fn only_wanted_records_are_taken() {
        let shared = Shared {
            wanted: 2,
            taken: AtomicU64::new(0),
            ended: OnceLock::new(),
            failed: AtomicBool::new(false),
        };
        let mut added = 0;
        assert!(!shared.take(|| added += 1) && !shared.is_over());
        assert!(shared.take(|| added += 1) && shared.is_over() && shared.ended.get().is_some());
        assert!(!shared.take(|| added += 1));
        assert_eq!(added, 2);
    }
}
