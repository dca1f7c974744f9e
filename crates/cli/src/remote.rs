//! Reaching a node from a tool: the `--bootstrap` argument and what follows from it.

use anyhow::{Result, anyhow};
use clap::Args;
use client::{ClientError, Cluster, ConfigResource, ConnectionOptions, ErrorCode, NewTopic, TopicMetadata};
use std::time::Duration;

use crate::address::hosts_and_ports;
use crate::failure::note;
use crate::top::{http_address, http_of};

/// Where a node listens if it was not told otherwise.
pub(crate) const DEFAULT_BOOTSTRAP: &str = "127.0.0.1:9092";
/// The config of the space that a node keeps free.
const DISK_RESERVE: &str = "disk.reserve_bytes";
/// The longest time that a command waits for a node without a word.
const SILENCE_MAX: Duration = Duration::from_secs(2);
/// The longest time that a topic that was just made may take to get its leaders.
const READY_PATIENCE: Duration = Duration::from_secs(10);

#[derive(Args, Clone)]
pub(crate) struct Remote {
    /// The node's address, or several with commas between
    #[arg(short, long, env = "ROPEWALK_BOOTSTRAP", value_name = "HOST:PORT", default_value = DEFAULT_BOOTSTRAP, value_parser = hosts_and_ports)]
    bootstrap: String,
}

impl Remote {
    /// Connects, and has whoever waits be told why where a node refuses for long.
    pub(crate) fn connect(&self) -> Result<Cluster> {
        let mut cluster = self.connect_with(ConnectionOptions::default())?;
        let remote = self.clone();
        cluster.tell_of_waiting(SILENCE_MAX, move |error| {
            let cause = remote.cause_of(error);
            let cause = cause.map_or_else(String::new, |cause| format!("; {cause}"));
            note(&format!("waiting: {error}{cause}"));
        });
        Ok(cluster)
    }

    /// An error with its cause, as far as the node can still tell it.
    pub(crate) fn explained(&self, error: ClientError) -> anyhow::Error {
        let cause = self.cause_of(&error);
        match cause {
            Some(cause) => anyhow!(error).context(cause),
            None => error.into(),
        }
    }

    /// Returns the likely cause of a refusal that has no message of its own: little room on a node's disk.
    fn cause_of(&self, error: &ClientError) -> Option<String> {
        let ClientError::Broker {
            code, message: None, ..
        } = error
        else {
            return None;
        };
        let may_lack_room = [ErrorCode::CoordinatorNotAvailable, ErrorCode::KafkaStorageError];
        if !may_lack_room.contains(code) {
            return None;
        }
        let options = ConnectionOptions {
            connect_timeout: SILENCE_MAX,
            request_timeout: SILENCE_MAX,
            ..ConnectionOptions::default()
        };
        let mut cluster = self.connect_with(options).ok()?;
        let disks = cluster.disks().ok()?;
        let least = disks.into_iter().min_by_key(|disk| disk.free_bytes)?;
        // Only our own nodes have a reserve.
        let configs = cluster.configs(&ConfigResource::Node(least.broker)).ok()?;
        let reserve = configs.into_iter().find(|config| config.name == DISK_RESERVE)?;
        Some(format!(
            "{} MiB are free on the disk with {}, {DISK_RESERVE} is {}: free some space, add retention, or lower the reserve",
            least.free_bytes >> 20,
            least.directory,
            reserve.value?
        ))
    }

    /// The host of the first address.
    pub(crate) fn host(&self) -> &str {
        let first = self.bootstrap.split(',').next().unwrap_or_default();
        first.rsplit_once(':').map_or(first, |(host, _)| host)
    }

    /// As it was given.
    pub(crate) fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    pub(crate) fn connect_with(&self, options: ConnectionOptions) -> Result<Cluster> {
        Ok(Cluster::connect(&self.bootstrap, options)?)
    }
}

/// The arguments of every command that asks a node for something and prints the answer.
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

/// The arguments of every command that asks a node over HTTP and prints the answer.
#[derive(Args)]
pub(crate) struct OverHttp {
    /// A node's HTTP address; without it, port 8092 of the host of --bootstrap
    #[arg(long, value_name = "HOST:PORT", env = "ROPEWALK_HTTP", value_parser = http_address)]
    http: Option<String>,
    #[command(flatten)]
    remote: Remote,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl OverHttp {
    pub(crate) fn address(&self) -> String {
        http_of(self.http.as_deref(), &self.remote)
    }
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
