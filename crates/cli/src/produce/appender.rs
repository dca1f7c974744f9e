//! Sends records to the partitions they belong to, in batches, and learns what became of each.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use client::{Acks, Cluster, Completion, Producer, ProducerOptions, TopicMetadata, partition_of};

use super::ProduceArguments;
use super::draft::Draft;
use super::pace::Pace;
use super::report::Report;
use crate::time::now_ms;

/// What a batch gathers before it is sent: well below the least that brokers accept by default, 1 MiB.
const BATCH_BYTES: usize = 128 << 10;

pub(super) struct Appender<'a> {
    arguments: &'a ProduceArguments,
    cluster: Cluster,
    topic: &'a str,
    /// One for each partition, made when the first record goes there.
    producers: Vec<Option<Producer>>,
    /// The partition that the next record without a key goes to.
    turn: usize,
    pace: Option<Pace>,
    /// What is acknowledged, or sent where nothing is acknowledged.
    pub(super) report: Report,
}

impl<'a> Appender<'a> {
    pub(super) fn new(
        arguments: &'a ProduceArguments,
        cluster: Cluster,
        topic: &'a TopicMetadata,
    ) -> Result<Appender<'a>> {
        let count = topic.partitions.len();
        let turn = arguments.partition.map_or(0, |partition| partition as usize);
        if turn >= count {
            bail!(
                "topic {} has no partition {turn}, its last one is {}",
                topic.name,
                count as i64 - 1
            );
        }
        let producers = (0..count).map(|_| None).collect();
        Ok(Appender {
            arguments,
            cluster,
            topic: &topic.name,
            producers,
            turn,
            pace: arguments.rate.map(Pace::new),
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
        let header_bytes = |(name, value): &(&[u8], Option<&[u8]>)| name.len() + value.map_or(0, <[u8]>::len);
        let bytes = key.map_or(0, <[u8]>::len)
            + value.map_or(0, <[u8]>::len)
            + headers.iter().map(header_bytes).sum::<usize>();
        if self.producer(partition)?.gathered_bytes() + bytes > BATCH_BYTES {
            self.send(partition)?;
        }
        let timestamp_ms = draft.timestamp_ms.unwrap_or_else(now_ms);
        self.producer(partition)?
            .append(timestamp_ms, key, value, &headers);
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
        let wait = self.pace.as_mut().map(|pace| pace.take(Instant::now()));
        if let Some(wait) = wait.filter(|wait| !wait.is_zero()) {
            let due = Instant::now() + wait;
            self.flush()?;
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        Ok(())
    }

    fn producer(&mut self, partition: usize) -> Result<&mut Producer> {
        let place = &mut self.producers[partition];
        if place.is_none() {
            let options = ProducerOptions {
                acks: self.arguments.acks,
                idempotent: self.arguments.acks == Acks::All,
                compression: self.arguments.compression,
                ..ProducerOptions::default()
            };
            *place = Some(Producer::new(
                &mut self.cluster,
                self.topic,
                partition as i32,
                options,
            )?);
        }
        Ok(place.as_mut().expect("made just now"))
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
        Ok(())
    }

    /// Learns of what is under way, for the report; what is only gathered is not sent.
    pub(super) fn learn(&mut self) {
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
                    let records = self.report.records();
                    outcome = Err(failure).with_context(|| format!("after {records} appended records"));
                }
                Err(_) => {}
            }
        }
        outcome
    }
}
