//! Reaching a node from a tool: the `--bootstrap` argument and what follows from it.

use anyhow::{Result, anyhow};
use clap::Args;
use client::{ClientError, Cluster, ConnectionOptions, ErrorCode, NewTopic, TopicMetadata};
use std::time::Duration;

use crate::address::hosts_and_ports;

/// Where a node listens if it was not told otherwise.
pub(crate) const DEFAULT_BOOTSTRAP: &str = "127.0.0.1:9092";
/// How long a topic that was just made may take to get its leaders.
const READY_PATIENCE: Duration = Duration::from_secs(10);

#[derive(Args, Clone)]
pub(crate) struct Remote {
    /// The node's address, or several with commas between
    #[arg(long, env = "ROPEWALK_BOOTSTRAP", value_name = "HOST:PORT", default_value = DEFAULT_BOOTSTRAP, value_parser = hosts_and_ports)]
    bootstrap: String,
}

impl Remote {
    pub(crate) fn connect(&self) -> Result<Cluster> {
        self.connect_with(ConnectionOptions::default())
    }

    pub(crate) fn connect_with(&self, options: ConnectionOptions) -> Result<Cluster> {
        Ok(Cluster::connect(&self.bootstrap, options)?)
    }
}

/// What every command takes that asks a node for something and prints the answer.
#[derive(Args)]
pub(crate) struct Everywhere {
    #[command(flatten)]
    pub(crate) remote: Remote,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The same for one topic or one group.
#[derive(Args)]
pub(crate) struct OneNamed {
    /// Its name
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) everywhere: Everywhere,
}

/// That a topic does not have a partition that was named.
pub(crate) fn no_partition(topic: &TopicMetadata, absent: i32) -> anyhow::Error {
    let last = topic.partitions.len() as i64 - 1;
    anyhow!(
        "topic {} has no partition {absent}, its last one is {last}",
        topic.name
    )
}

/// Creates a topic and waits until it can be used.
pub(crate) fn create_topic(cluster: &mut Cluster, topic: &NewTopic) -> Result<TopicMetadata, ClientError> {
    cluster.create_topic(topic)?;
    cluster.wait_topic(&topic.name, READY_PATIENCE)
}

/// The topic, made with the node's defaults if there is none. Tells whether it was made.
pub(crate) fn topic_or_new(cluster: &mut Cluster, name: &str) -> Result<(TopicMetadata, bool), ClientError> {
    match cluster.topic(name) {
        Err(error) if error.code() == Some(ErrorCode::UnknownTopicOrPartition) => {}
        found => return Ok((found?, false)),
    }
    match create_topic(cluster, &NewTopic::new(name, -1)) {
        // Someone else was faster.
        Err(error) if error.code() == Some(ErrorCode::TopicAlreadyExists) => {
            Ok((cluster.wait_topic(name, READY_PATIENCE)?, false))
        }
        made => Ok((made?, true)),
    }
}
