//! Ropewalk's driver for the comparison of systems: the crate `client`, commanded as `bench/peers/README.md` says.
//!
//! A log is a topic, a shard a partition. Producers make their batches themselves and append with acks=all, without
//! retries and without sequence numbers; readers fetch ahead, compare checksums and take every record apart.

mod append;
mod follow;
mod read;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use client::{Cluster, ConnectionOptions, NewTopic};

use crate::contract::driver::{Events, System, serve};
use crate::contract::{Append, Create, Described, Done, Read};

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
            ("retries", "0"),
            ("idempotence", "none"),
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

    fn append(&mut self, append: &Append, events: &Events<'_>) -> Result<Done> {
        append::run(self, append, events)
    }

    fn read(&mut self, read: &Read, events: &Events<'_>) -> Result<Done> {
        read::run(self, read, events)
    }
}
