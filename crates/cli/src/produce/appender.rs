//! Sends records to the partitions they belong to, in batches, and learns what became of each.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use client::{
    Acks, Cluster, Completion, ConfigResource, Producer, ProducerOptions, TopicMetadata, partition_of,
};
use platform::threads;

use super::ProduceArguments;
use super::draft::Draft;
use super::pace::Pace;
use super::report::Report;
use super::stop::Stop;
use crate::remote::no_partition;
use crate::time::now_ms;

/// Bytes that a batch gathers before it is sent, unless its topic takes less: well below the usual limit, 1 MiB.
const BATCH_BYTES: usize = 128 << 10;
/// The topic's limit of a batch.
const BATCH_LIMIT: &str = "max.message.bytes";
/// Bytes that a record and a header take at most beside their content (Kafka's record format 2).
const RECORD_OVERHEAD: usize = 36;
const HEADER_OVERHEAD: usize = 10;
/// Bytes that are gathered or under way, for all partitions together.
const UNSETTLED_BYTES_MAX: usize = 64 << 20;
/// Producers have a connection each; a node takes 5,000 from one address, unless it is set otherwise.
const PRODUCERS_MAX: u64 = 4_000;

pub(super) struct Appender<'a> {
    arguments: &'a ProduceArguments,
    cluster: Cluster,
    topic: &'a str,
    /// One for each partition, made when the first record goes there; `producers_max` of them are there at a time.
    producers: Vec<Option<Producer>>,
    producers_max: usize,
    batch_bytes: usize,
    /// Appended since all that was sent was known to be answered.
    unsettled_bytes: usize,
    /// The partition that the next record without a key goes to.
    turn: usize,
    pace: Option<Pace>,
    stop: Stop,
    /// Something was not appended: nothing more is sent.
    has_failed: bool,
    /// Records that are acknowledged, or sent where nothing is acknowledged.
    pub(super) report: Report,
}

impl<'a> Appender<'a> {
    pub(super) fn new(
        arguments: &'a ProduceArguments,
        mut cluster: Cluster,
        topic: &'a TopicMetadata,
        stop: Stop,
    ) -> Result<Appender<'a>> {
        let count = topic.partitions.len();
        let wanted = arguments.partition.unwrap_or(0);
        let turn = wanted as usize;
        if turn >= count {
            return Err(no_partition(topic, wanted));
        }
        let batch_bytes = BATCH_BYTES.min(batch_limit(&mut cluster, &topic.name));
        // Half of the descriptors at most.
        let producers_max = (threads::raise_descriptor_limit() / 2).clamp(1, PRODUCERS_MAX);
        Ok(Appender {
            arguments,
            cluster,
            topic: &topic.name,
            producers: (0..count).map(|_| None).collect(),
            producers_max: producers_max as usize,
            batch_bytes,
            unsettled_bytes: 0,
            turn,
            pace: arguments.rate.map(Pace::new),
            stop,
            has_failed: false,
            report: Report::default(),
        })
    }

    /// Takes a record, which goes out with others of its partition: by `flush` at the latest.
    pub(super) fn append(&mut self, draft: &Draft<'_>) -> Result<()> {
        // Before the first record counts: what this takes must not be made good by a burst.
        self.producer(self.partition(draft))?;
        self.wait_for_pace()?;
        let partition = self.partition(draft);
        let (key, value) = (draft.key.as_deref(), draft.value.as_deref());
        let headers = draft.headers.iter().chain(&self.arguments.header);
        let headers: Vec<_> = headers
            .map(|(name, value)| (name.as_slice(), value.as_deref()))
            .collect();
        let length = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
        let header_bytes =
            |(name, value): &(&[u8], Option<&[u8]>)| HEADER_OVERHEAD + name.len() + length(*value);
        let bytes =
            RECORD_OVERHEAD + length(key) + length(value) + headers.iter().map(header_bytes).sum::<usize>();
        if self.producer(partition)?.gathered_bytes() + bytes > self.batch_bytes {
            self.send(partition)?;
        }
        let timestamp_ms = draft.timestamp_ms.unwrap_or_else(now_ms);
        self.producer(partition)?
            .append(timestamp_ms, key, value, &headers);
        self.unsettled_bytes += bytes;
        if self.unsettled_bytes > UNSETTLED_BYTES_MAX {
            self.flush()?;
        }
        Ok(())
    }

    /// Where a record goes, as things stand.
    fn partition(&self, draft: &Draft<'_>) -> usize {
        match &draft.key {
            Some(key) if self.arguments.partition.is_none() => partition_of(key, self.producers.len()),
            _ => self.turn,
        }
    }

    /// Waits until the next record is due. What was gathered until then goes out first.
    fn wait_for_pace(&mut self) -> Result<()> {
        let Some(pace) = &mut self.pace else { return Ok(()) };
        let wait = pace.take(Instant::now());
        if !wait.is_zero() {
            let due = Instant::now() + wait;
            self.flush()?;
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        // Records that were read already could take long at this rate.
        Ok(self.stop.check()?)
    }

    fn producer(&mut self, partition: usize) -> Result<&mut Producer> {
        if self.producers[partition].is_none() {
            self.make_room_for_one()?;
            let options = ProducerOptions {
                acks: self.arguments.acks,
                idempotent: self.arguments.acks == Acks::All,
                compression: self.arguments.compression,
                ..ProducerOptions::default()
            };
            let made = Producer::new(&mut self.cluster, self.topic, partition as i32, options)?;
            self.producers[partition] = Some(made);
        }
        Ok(self.producers[partition].as_mut().expect("made just now"))
    }

    /// Gives all producers up, with nothing under way, if there are as many as there may be.
    fn make_room_for_one(&mut self) -> Result<()> {
        if self.producers.iter().flatten().count() < self.producers_max {
            return Ok(());
        }
        self.flush()?;
        self.producers.fill_with(|| None);
        Ok(())
    }

    /// Sends what was gathered for a partition, if anything was.
    fn send(&mut self, partition: usize) -> Result<()> {
        let Some(producer) = &mut self.producers[partition] else {
            return Ok(());
        };
        if producer.gathered_records() == 0 {
            return Ok(());
        }
        producer.send(&mut self.cluster);
        let completions = producer.poll(&mut self.cluster, Duration::ZERO);
        if self.arguments.partition.is_none() && partition == self.turn {
            self.turn = (self.turn + 1) % self.producers.len();
        }
        self.take_in(partition, completions)
    }

    /// Sends everything gathered and waits until all of it is acknowledged.
    pub(super) fn flush(&mut self) -> Result<()> {
        for partition in 0..self.producers.len() {
            self.send(partition)?;
        }
        for partition in 0..self.producers.len() {
            let Some(producer) = &mut self.producers[partition] else {
                continue;
            };
            let completions = producer.flush(&mut self.cluster);
            self.take_in(partition, completions)?;
        }
        self.unsettled_bytes = 0;
        Ok(())
    }

    /// Sends everything gathered, unless something was not appended already, and learns what became of all that was sent.
    pub(super) fn finish(&mut self) -> Result<()> {
        let flushed = match self.has_failed {
            true => Ok(()),
            false => self.flush(),
        };
        if self.has_failed {
            self.learn();
        }
        flushed
    }

    /// Learns of what is under way, for the report; what is only gathered is not sent.
    fn learn(&mut self) {
        for partition in 0..self.producers.len() {
            let Some(producer) = &mut self.producers[partition] else {
                continue;
            };
            let completions = producer.flush(&mut self.cluster);
            // The first failure is what is told, and it is known.
            let _ = self.take_in(partition, completions);
        }
    }

    /// Reports all that was acknowledged, also behind a batch that was not.
    fn take_in(&mut self, partition: usize, completions: Vec<Completion>) -> Result<()> {
        let mut outcome = Ok(());
        for completion in completions {
            match completion.outcome {
                Ok(first) => self.report.add(partition, completion.records as u64, first),
                Err(failure) if outcome.is_ok() => {
                    self.has_failed = true;
                    outcome = Err(failure.into());
                }
                Err(_) => {}
            }
        }
        outcome
    }
}

/// The largest batch that a topic takes. Who cannot tell takes any, until it refuses one.
fn batch_limit(cluster: &mut Cluster, topic: &str) -> usize {
    let configs = cluster.configs(&ConfigResource::Topic(topic.to_owned()));
    let limit = configs
        .into_iter()
        .flatten()
        .find(|config| config.name == BATCH_LIMIT);
    let limit = limit.and_then(|config| config.value?.parse().ok());
    limit.unwrap_or(usize::MAX)
}
