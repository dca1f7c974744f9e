//! Ropewalk's driver for the comparison of systems: the crate `client`, commanded as `bench/peers/README.md` says.
//!
//! A log is a topic, a shard a partition. Producers make their batches themselves and append with acks=all, without
//! retries and without sequence numbers (where nodes die, with both); readers fetch ahead, compare checksums and take every
//! record apart.

mod follow;
mod read;
mod steady;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use client::{Broker, Cluster, Completion, ConnectionOptions, NewTopic, TopicProducer};
use platform::clock::{Clock, SystemClock};

use self::steady::SteadyAppender;
use crate::contract::driver::{Events, System, serve};
use crate::contract::payload::Payloads;
use crate::contract::producers::{self, Appender, Batches, Completed, Schedule};
use crate::contract::{Append, Create, Described, Done, Read, node_at};

/// How long a topic may take to have leaders after its creation, or to vanish after its deletion.
const TOPIC_PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two looks whether a topic is gone.
const LOOK_PAUSE: Duration = Duration::from_millis(10);
/// How long an answer may take: making thousands of partitions takes long.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(100);

/// Which system to drive.
#[derive(Debug, Clone, clap::Args)]
pub struct DriveOptions {
    /// Brokers to ask first, host:port, separated by commas
    pub address: String,
}

/// Carries out commands from standard input until it ends; writes events to standard output.
///
/// # Errors
/// If a line cannot be read.
pub fn run(options: &DriveOptions) -> Result<()> {
    let mut system = Ropewalk {
        address: options.address.clone(),
    };
    serve(&mut system, std::io::stdin().lock(), &mut std::io::stdout())
}

/// The system at an address.
struct Ropewalk {
    address: String,
}

impl Ropewalk {
    fn cluster(&self) -> Result<Cluster> {
        let options = ConnectionOptions {
            request_timeout: REQUEST_TIMEOUT,
            ..ConnectionOptions::default()
        };
        Ok(Cluster::connect(&self.address, options)?)
    }
}

impl System for Ropewalk {
    fn describe(&mut self) -> Result<Described> {
        let settings = [
            ("replication factor", "as many as there are nodes"),
            ("acks", "all"),
            ("retries", "0; with retry for 120 s"),
            ("idempotence", "none; with retry sequence numbers"),
            ("requests in flight", "in_flight"),
            (
                "batches",
                "made by the driver; at a rate, of what is due when there is room",
            ),
            ("compression", "none"),
            ("fetch bytes", "request_bytes"),
            ("checksums", "compared"),
        ];
        Ok(Described {
            client: "ropewalk".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            settings: settings
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        })
    }

    fn create(&mut self, create: &Create) -> Result<()> {
        let partitions = i32::try_from(create.shards).context("so many shards cannot be numbered")?;
        let mut topic = NewTopic::new(&create.log, partitions);
        topic.replication_factor =
            i16::try_from(create.nodes).context("so many replicas cannot be numbered")?;
        topic.configs = create.settings.clone().into_iter().collect();
        let mut cluster = self.cluster()?;
        cluster.create_topic(&topic)?;
        cluster.wait_topic(&create.log, TOPIC_PATIENCE)?;
        Ok(())
    }

    fn delete(&mut self, log: &str) -> Result<()> {
        let mut cluster = self.cluster()?;
        cluster.delete_topic(log)?;
        let deadline = Instant::now() + TOPIC_PATIENCE;
        while !cluster.metadata(Some(&[log]))?.topics.is_empty() {
            ensure!(
                Instant::now() < deadline,
                "topic {log} is still there {} s after it was deleted",
                TOPIC_PATIENCE.as_secs()
            );
            std::thread::sleep(LOOK_PAUSE);
        }
        Ok(())
    }

    fn leader(&mut self, log: &str) -> Result<Option<u32>> {
        let metadata = self.cluster()?.metadata(Some(&[log]))?;
        let mut partitions = metadata.topics.iter().flat_map(|topic| &topic.partitions);
        let leader = partitions
            .find(|partition| partition.index == 0)
            .and_then(|first| first.leader);
        let leads = |broker: &&Broker| Some(broker.node_id) == leader;
        let broker = metadata.brokers.iter().find(leads);
        let broker = broker.with_context(|| format!("no broker leads topic {log}"))?;
        node_at(&self.address, &broker.address).map(Some)
    }

    /// Appends, with consumers that follow if that is asked for.
    fn append(&mut self, append: &Append, events: &Events<'_>) -> Result<Done> {
        let payloads = Payloads::new(append.record_bytes)?;
        let schedule = Schedule::new(append);
        let connect = |producer| TopicAppender::connect(self, append, &payloads, producer);
        let produce = || producers::run(append, Batches::ByDriver, &schedule, connect, events);
        if append.retry {
            let connect = |producer| SteadyAppender::connect(self, append, &payloads, producer);
            producers::run(append, Batches::ByDriver, &schedule, connect, events)
        } else if append.follow {
            follow::run(self, append, &schedule, produce)
        } else {
            produce()
        }
    }

    fn read(&mut self, read: &Read, events: &Events<'_>) -> Result<Done> {
        read::run(self, read, events)
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
    /// The outcomes that `poll` brought; empty between calls.
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
        // A unit that cannot be sent is told by `poll`, like any failure; batches are numbered as units are.
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
