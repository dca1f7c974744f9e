//! One producer's way into a partition of its own, with whatever acknowledgement, compression and numbering was asked for.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Result;
use client::{Acks, BatchId, Cluster, Completion, Producer, ProducerOptions};
use platform::clock::{Clock, SystemClock};

use super::AppendOptions;
use super::ring::Ring;
use crate::contract::producers::{Appender, Completed, UNTIL_SOMETHING};

/// Where an acknowledged batch is, and which records of a producer are in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Acknowledged {
    pub(super) partition: i32,
    pub(super) producer: u32,
    pub(super) base_offset: i64,
    pub(super) first_sequence: u64,
    pub(super) records: u32,
}

/// A connection to the partition's leader.
pub(super) struct PartitionAppender<'a> {
    number: u32,
    partition: i32,
    payloads: &'a Ring,
    clock: SystemClock,
    cluster: Cluster,
    producer: Producer,
    receipts: Option<Receipts<'a>>,
}

/// What is kept of acknowledged batches, to verify them.
struct Receipts<'a> {
    /// The records of each batch that was sent and has not completed, in the order of sending.
    sent: VecDeque<(BatchId, Range<u64>)>,
    acknowledged: &'a Mutex<Vec<Acknowledged>>,
}

impl<'a> PartitionAppender<'a> {
    /// Connects producer `number`. What is acknowledged goes to `acknowledged` if it is to be verified.
    pub(super) fn connect(
        options: &AppendOptions,
        number: u32,
        payloads: &'a Ring,
        acknowledged: &'a Mutex<Vec<Acknowledged>>,
    ) -> Result<PartitionAppender<'a>> {
        let mut cluster = options.broker.cluster()?;
        let partition = (number % options.partitions) as i32;
        let how = ProducerOptions {
            acks: options.acks,
            in_flight_max: options.in_flight as usize,
            idempotent: options.idempotent,
            compression: options.compression,
            // A retry would hide a failure inside a latency.
            retry_for: Duration::ZERO,
        };
        let producer = Producer::new(&mut cluster, &options.topic, partition, how)?;
        let is_verified = options.verify && options.acks != Acks::None;
        Ok(PartitionAppender {
            number,
            partition,
            payloads,
            clock: SystemClock::new(),
            cluster,
            producer,
            receipts: is_verified.then(|| Receipts {
                sent: VecDeque::new(),
                acknowledged,
            }),
        })
    }
}

impl Appender for PartitionAppender<'_> {
    /// The shard is this producer's partition, whatever its number.
    fn send(&mut self, _shard: u32, records: Range<u64>) -> Result<()> {
        let timestamp_ms = self.clock.wall_ms();
        for sequence in records.clone() {
            let payload = self.payloads.payload(self.number, sequence);
            self.producer.append(timestamp_ms, None, Some(payload), &[]);
        }
        // What cannot be sent is told by `poll`, like any failure; batches are numbered as units are.
        let batch = self.producer.send(&mut self.cluster);
        if let Some(receipts) = &mut self.receipts {
            receipts.sent.push_back((batch, records));
        }
        Ok(())
    }

    fn poll(&mut self, wait: Duration, completed: &mut Vec<Completed>) {
        // Waiting in the read itself saves a call of the system for each batch; the connection's limit ends it.
        let completions = if wait < UNTIL_SOMETHING {
            self.producer.poll(&mut self.cluster, wait)
        } else {
            self.producer.wait(&mut self.cluster)
        };
        let at = Instant::now();
        if let Some(receipts) = &mut self.receipts {
            receipts.keep(&completions, self.number, self.partition);
        }
        completed.extend(completions.into_iter().map(|completion| Completed {
            unit: completion.batch.0,
            at,
            failure: completion.outcome.err().map(|error| error.to_string()),
        }));
    }
}

impl Receipts<'_> {
    fn keep(&mut self, completions: &[Completion], producer: u32, partition: i32) {
        let mut acknowledged = self.acknowledged.lock().expect("nobody dies while adding");
        for completion in completions {
            let (batch, records) = self.sent.pop_front().expect("only sent batches complete");
            assert_eq!(batch, completion.batch, "batches complete in their order");
            if let Ok(Some(offset)) = completion.outcome {
                acknowledged.push(Acknowledged {
                    partition,
                    producer,
                    base_offset: offset.0,
                    first_sequence: records.start,
                    records: completion.records.unsigned_abs(),
                });
            }
        }
    }
}
