//! Appending: each producer has a connection to each broker and sends whole batches.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use client::{Cluster, Completion, TopicProducer};
use platform::clock::{Clock, SystemClock};

use super::{Ropewalk, follow};
use crate::contract::driver::Events;
use crate::contract::payload::Payloads;
use crate::contract::producers::{Appender, Batches, Completed, Schedule};
use crate::contract::{Append, Done, producers};

/// Appends, with consumers that follow if that is asked for.
pub(super) fn run(system: &Ropewalk, append: &Append, events: &Events<'_>) -> Result<Done> {
    let payloads = Payloads::new(append.record_bytes)?;
    let schedule = Schedule::new(append);
    let connect = |producer| TopicAppender::connect(system, append, &payloads, producer);
    let produce = || producers::run(append, Batches::ByDriver, &schedule, connect, events);
    if append.follow {
        follow::run(system, append, &schedule, produce)
    } else {
        produce()
    }
}

/// One producer's way into a topic.
struct TopicAppender<'a> {
    producer: u32,
    payloads: &'a Payloads,
    /// Where a record's payload is written before it goes into a batch.
    payload: Vec<u8>,
    clock: SystemClock,
    cluster: Cluster,
    topic: TopicProducer,
    /// What `poll` brought; empty between calls.
    completions: Vec<Completion>,
}

impl<'a> TopicAppender<'a> {
    fn connect(
        system: &Ropewalk,
        append: &Append,
        payloads: &'a Payloads,
        producer: u32,
    ) -> Result<TopicAppender<'a>> {
        let mut cluster = system.cluster()?;
        let topic = TopicProducer::new(&mut cluster, &append.log)?;
        ensure!(
            topic.partitions() == append.shards as usize,
            "topic {} has {} partitions, not {}",
            append.log,
            topic.partitions(),
            append.shards
        );
        Ok(TopicAppender {
            producer,
            payloads,
            payload: vec![0; append.record_bytes],
            clock: SystemClock::new(),
            cluster,
            topic,
            completions: Vec::new(),
        })
    }
}

impl Appender for TopicAppender<'_> {
    fn send(&mut self, shard: u32, records: Range<u64>) -> Result<()> {
        let timestamp_ms = self.clock.wall_ms();
        for sequence in records {
            self.payloads.write(self.producer, sequence, &mut self.payload);
            self.topic.append(timestamp_ms, &self.payload);
        }
        // What cannot be sent is told by `poll`, like any failure; batches are numbered as units are.
        self.topic.send(&mut self.cluster, shard as i32);
        Ok(())
    }

    fn poll(&mut self, wait: Duration, completed: &mut Vec<Completed>) {
        self.topic.poll(wait, &mut self.completions);
        let at = Instant::now();
        completed.extend(self.completions.drain(..).map(|completion| Completed {
            unit: completion.batch.0,
            at,
            failure: completion.outcome.err().map(|error| error.to_string()),
        }));
    }
}
