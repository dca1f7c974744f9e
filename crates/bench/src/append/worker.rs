//! One producer of an append run: warms up, waits for the others, then sends until its share is done.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use client::{Acks, BatchId, Cluster, Completion, ConnectionOptions, Producer, ProducerOptions};

use super::AppendOptions;
use crate::latency::LatencyRecorder;
use crate::pacing::Pace;
use crate::payloads::Payloads;
use crate::progress::Progress;

/// After so many failures in a row there is nothing to measure.
const FAILURES_MAX: u64 = 100;
/// How long before a due time a producer stops sleeping and watches the clock: about what waking up takes.
const WATCH: Duration = Duration::from_micros(20);

/// One producer's part of a run.
pub(super) struct Plan {
    bootstrap: String,
    topic: String,
    partition: i32,
    index: usize,
    producers: usize,
    batch_records: u32,
    warmup_batches: u64,
    /// Batches to send, or else the time to send for.
    batches: Option<u64>,
    time: Duration,
    /// Batches a second of all producers.
    batches_per_s: Option<f64>,
    producer: ProducerOptions,
    payloads: Arc<Payloads>,
    keep_acknowledged: bool,
}

impl Plan {
    /// The share of producer `index`.
    pub(super) fn new(options: &AppendOptions, index: usize, payloads: &Arc<Payloads>) -> Plan {
        let batch_records = u64::from(options.batch_records);
        let share = |records: u64| share(records.div_ceil(batch_records), index, options.producers as usize);
        Plan {
            bootstrap: options.bootstrap.clone(),
            topic: options.topic.clone(),
            partition: (index % options.partitions as usize) as i32,
            index,
            producers: options.producers as usize,
            batch_records: options.batch_records,
            warmup_batches: share(options.warmup_records),
            batches: options.records.map(share),
            time: Duration::from_secs_f64(options.seconds),
            batches_per_s: options.rate.map(|rate| rate / batch_records as f64),
            producer: ProducerOptions {
                acks: options.acks,
                in_flight_max: options.in_flight as usize,
                idempotent: options.idempotent,
                compression: options.compression,
                // A retry would hide a failure inside a latency.
                retry_for: Duration::ZERO,
            },
            payloads: Arc::clone(payloads),
            keep_acknowledged: options.verify && options.acks != Acks::None,
        }
    }
}

/// The part of `total` that falls to `index` of `parts`; all parts together are `total`.
fn share(total: u64, index: usize, parts: usize) -> u64 {
    let (index, parts) = (index as u64, parts as u64);
    total / parts + u64::from(index < total % parts)
}

/// Where an acknowledged batch is, and what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Acknowledged {
    pub(super) partition: i32,
    pub(super) base_offset: i64,
    pub(super) records: u32,
    /// Which value its first record has; the others follow.
    pub(super) first_value: u64,
}

/// What one producer did.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) latencies: LatencyRecorder,
    pub(super) records: u64,
    pub(super) began: Instant,
    pub(super) ended: Instant,
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
    pub(super) acknowledged: Vec<Acknowledged>,
}

/// A batch that was sent and not yet answered.
struct Sent {
    id: BatchId,
    since: Instant,
    first_value: u64,
}

struct Worker<'a> {
    plan: Plan,
    cluster: Cluster,
    producer: Producer,
    progress: &'a Progress,
    sent: VecDeque<Sent>,
    next_value: u64,
    failures_in_a_row: u64,
    outcome: Outcome,
}

/// Runs one producer. Always passes the gate twice, also if it cannot work.
pub(super) fn run(plan: Plan, gate: &Barrier, progress: &Progress) -> anyhow::Result<Outcome> {
    // Timers that are late by less than the default 50 µs; where the system refuses, the rate is a little less even.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1_000));
    let mut worker = Worker::connect(plan, progress);
    if let Ok(worker) = &mut worker {
        worker.warm_up();
    }
    gate.wait();
    gate.wait();
    worker.map(Worker::measure)
}

impl<'a> Worker<'a> {
    fn connect(plan: Plan, progress: &'a Progress) -> anyhow::Result<Worker<'a>> {
        let mut cluster = Cluster::connect(&plan.bootstrap, ConnectionOptions::default())?;
        let producer = Producer::new(&mut cluster, &plan.topic, plan.partition, plan.producer.clone())?;
        Ok(Worker {
            // Producers of one partition begin at different values.
            next_value: plan.index as u64 * 997,
            plan,
            cluster,
            producer,
            progress,
            sent: VecDeque::new(),
            failures_in_a_row: 0,
            outcome: Outcome::new(),
        })
    }

    /// Sends the first batches as fast as they are answered, and keeps of it only what failed and what can be verified.
    fn warm_up(&mut self) {
        self.send_closed(End::Batches(self.plan.warmup_batches));
        let warm = std::mem::replace(&mut self.outcome, Outcome::new());
        self.outcome.errors = warm.errors;
        self.outcome.first_error = warm.first_error;
        self.outcome.acknowledged = warm.acknowledged;
    }

    fn measure(mut self) -> Outcome {
        let began = Instant::now();
        self.outcome.began = began;
        let end = match self.plan.batches {
            Some(batches) => End::Batches(batches),
            None => End::At(began + self.plan.time),
        };
        match self.plan.batches_per_s {
            None => self.send_closed(end),
            Some(rate) => self.send_paced(rate, end),
        }
        self.outcome.ended = Instant::now();
        self.outcome
    }

    /// Sends the next batch as soon as there is room for it.
    fn send_closed(&mut self, end: End) {
        let mut batches = 0;
        loop {
            while !self.producer.has_room() {
                let done = self.producer.wait(&mut self.cluster);
                self.count(done);
            }
            let now = Instant::now();
            if end.is_reached(batches, now) || self.is_hopeless() {
                break;
            }
            self.send(now);
            batches += 1;
        }
        self.drain();
    }

    /// Sends each batch when it is due, or as soon after that as there is room.
    fn send_paced(&mut self, batches_per_s: f64, end: End) {
        let origin = self.outcome.began;
        let mut pace = Pace::new(
            Duration::ZERO,
            batches_per_s,
            self.plan.index,
            self.plan.producers,
        );
        let mut batches = 0;
        loop {
            let due = origin + pace.due();
            if end.is_reached(batches, due) || self.is_hopeless() {
                break;
            }
            self.wait_until(&pace, origin);
            while !self.producer.has_room() {
                let done = self.producer.wait(&mut self.cluster);
                self.count(done);
            }
            self.send(due);
            pace.advance();
            batches += 1;
        }
        self.drain();
    }

    /// Takes answers until the next batch is due: asleep for most of the time, awake for the last of it.
    fn wait_until(&mut self, pace: &Pace, origin: Instant) {
        loop {
            let wait = pace.wait(origin.elapsed());
            if wait.is_zero() {
                return;
            }
            let asleep = wait.saturating_sub(WATCH);
            if self.producer.in_flight() > 0 {
                let done = self.producer.poll(&mut self.cluster, asleep);
                self.count(done);
            } else if !asleep.is_zero() {
                std::thread::sleep(asleep);
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Makes a batch and sends it; its latency counts from `since`.
    fn send(&mut self, since: Instant) {
        let timestamp_ms = wall_ms();
        let first_value = self.next_value;
        for _ in 0..self.plan.batch_records {
            let value = self.plan.payloads.value(self.next_value);
            self.producer.append(timestamp_ms, None, Some(value), &[]);
            self.next_value += 1;
        }
        let id = self.producer.send(&mut self.cluster);
        self.sent.push_back(Sent {
            id,
            since,
            first_value,
        });
        if self.plan.producer.acks == Acks::None {
            let done = self.producer.wait(&mut self.cluster);
            self.count(done);
        }
    }

    fn drain(&mut self) {
        let done = self.producer.flush(&mut self.cluster);
        self.count(done);
    }

    fn count(&mut self, done: Vec<Completion>) {
        if done.is_empty() {
            return;
        }
        let now = Instant::now();
        for completion in done {
            let sent = self.sent.pop_front().expect("only sent batches complete");
            assert_eq!(sent.id, completion.batch, "batches complete in their order");
            let records = u64::from(completion.records.unsigned_abs());
            match completion.outcome {
                Ok(offset) => {
                    self.failures_in_a_row = 0;
                    self.outcome
                        .latencies
                        .record(now.saturating_duration_since(sent.since));
                    self.outcome.records += records;
                    self.progress.add(records);
                    if let (true, Some(offset)) = (self.plan.keep_acknowledged, offset) {
                        self.outcome.acknowledged.push(Acknowledged {
                            partition: self.plan.partition,
                            base_offset: offset.0,
                            records: self.plan.batch_records,
                            first_value: sent.first_value,
                        });
                    }
                }
                Err(error) => {
                    self.failures_in_a_row += 1;
                    self.outcome.errors += 1;
                    self.outcome.first_error.get_or_insert_with(|| error.to_string());
                }
            }
        }
    }

    fn is_hopeless(&self) -> bool {
        self.failures_in_a_row >= FAILURES_MAX
    }
}

/// When a producer has sent enough.
#[derive(Debug, Clone, Copy)]
enum End {
    /// After this many batches.
    Batches(u64),
    /// With the first batch that would be sent then or later.
    At(Instant),
}

impl End {
    fn is_reached(self, batches: u64, next: Instant) -> bool {
        match self {
            End::Batches(all) => batches >= all,
            End::At(end) => next >= end,
        }
    }
}

impl Outcome {
    fn new() -> Outcome {
        let now = Instant::now();
        Outcome {
            latencies: LatencyRecorder::new(),
            records: 0,
            began: now,
            ended: now,
            errors: 0,
            first_error: None,
            acknowledged: Vec::new(),
        }
    }
}

fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_even_and_complete() {
        for (total, parts) in [(0, 3), (10, 3), (3, 7), (1_000_000, 16)] {
            let shares: Vec<u64> = (0..parts).map(|index| share(total, index, parts)).collect();
            assert_eq!(shares.iter().sum::<u64>(), total);
            let (least, most) = (shares.iter().min(), shares.iter().max());
            assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1));
        }
    }
}
