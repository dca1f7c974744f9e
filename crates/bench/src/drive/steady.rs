//! A producer that lives through the death of a broker: its batches have sequence numbers, and what was not acknowledged is sent
//! again to whoever leads then. One request after the other.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use client::{Cluster, ConnectionOptions, Producer, ProducerOptions};
use platform::clock::{Clock, SystemClock};

use super::Ropewalk;
use crate::contract::Append;
use crate::contract::payload::Payloads;
use crate::contract::producers::{Appender, Completed};

/// How long a batch is sent again.
pub(super) const RETRY_FOR: Duration = Duration::from_secs(120);

/// One producer's way into a topic.
pub(super) struct SteadyAppender<'a> {
    number: u32,
    payloads: &'a Payloads,
    payload: Vec<u8>,
    clock: SystemClock,
    cluster: Cluster,
    partitions: Vec<Producer>,
    /// The one that the last unit went to.
    last: usize,
    sent: u64,
}

impl<'a> SteadyAppender<'a> {
    pub(super) fn connect(
        system: &Ropewalk,
        append: &Append,
        payloads: &'a Payloads,
        number: u32,
    ) -> Result<SteadyAppender<'a>> {
        let mut cluster = Cluster::connect(&system.address, ConnectionOptions::default())?;
        let options = ProducerOptions {
            in_flight_max: 1,
            retry_for: RETRY_FOR,
            ..ProducerOptions::default()
        };
        let partitions = (0..append.shards)
            .map(|shard| Producer::new(&mut cluster, &append.log, shard as i32, options.clone()))
            .collect::<client::Result<_>>()
            .with_context(|| format!("topic {}", append.log))?;
        Ok(SteadyAppender {
            number,
            payloads,
            payload: vec![0; append.record_bytes],
            clock: SystemClock::new(),
            cluster,
            partitions,
            last: 0,
            sent: 0,
        })
    }
}

impl Appender for SteadyAppender<'_> {
    fn send(&mut self, shard: u32, records: Range<u64>) -> Result<()> {
        self.last = shard as usize;
        self.sent += 1;
        let partition = &mut self.partitions[self.last];
        let timestamp_ms = self.clock.wall_ms();
        for sequence in records {
            self.payloads.write(self.number, sequence, &mut self.payload);
            partition.append(timestamp_ms, None, Some(&self.payload), &[]);
        }
        partition.send(&mut self.cluster);
        Ok(())
    }

    fn poll(&mut self, wait: Duration, completed: &mut Vec<Completed>) {
        let done = self.partitions[self.last].poll(&mut self.cluster, wait);
        // One is under way, and that is the last.
        completed.extend(done.into_iter().map(|completion| Completed {
            unit: self.sent - 1,
            at: Instant::now(),
            failure: completion.outcome.err().map(|error| error.to_string()),
        }));
    }
}
