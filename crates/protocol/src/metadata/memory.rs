//! Memory that topics take in every core's image, and for whom: what clients have a node keep is bounded, and no client can fill it
//! alone.
//!
//! A topic counts for one address: that of the client which last made it larger. So whoever has others' topics grow takes them
//! over, with all that they take. What the node makes for itself counts for no address, nor does what was made before the log said
//! for whom.
//!
//! The counts are part of the image: commands say for whom they are, and a replay counts the same. The bounds are not, since each
//! node has its own: a plan keeps to them, and what is there stays, however low they become.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::topic_config::ConfigChange;
use super::{ApplyError, Command, Metadata, PlanError, PlanLimits, ReplicaSet, Topic, TopicConfig};

/// Bytes that a topic takes beside its name, partitions and configs: its place and its names' in maps that may be half empty.
const TOPIC_BYTES: usize = 1_024;
/// Times that a name is kept: as it is, and as it is compared with others.
const NAMES: usize = 2;
/// Bytes that a partition takes beside its replicas, and each of these.
const PARTITION_BYTES: usize = 64;
const REPLICA_BYTES: usize = 4;
/// Bytes of a topic's map of configs, which has room for eleven as soon as there is one.
const CONFIGS_BYTES: usize = 400;
/// Bytes that a config takes beside its value.
const CONFIG_BYTES: usize = 96;

pub(super) fn new_topic_bytes<'a>(
    name: &str,
    partitions: impl IntoIterator<Item = &'a ReplicaSet>,
    config: &TopicConfig,
) -> usize {
    TOPIC_BYTES + NAMES * name.len() + partitions_bytes(partitions) + config_bytes(config)
}

pub(super) fn partitions_bytes<'a>(partitions: impl IntoIterator<Item = &'a ReplicaSet>) -> usize {
    let bytes = |replicas: &ReplicaSet| PARTITION_BYTES + REPLICA_BYTES * replicas.len();
    partitions.into_iter().map(bytes).sum()
}

pub(super) fn config_bytes(config: &TopicConfig) -> usize {
    let bytes = |(_, value): (&str, &Arc<str>)| CONFIG_BYTES + value.len();
    match config.iter().len() {
        0 => 0,
        _ => CONFIGS_BYTES + config.iter().map(bytes).sum::<usize>(),
    }
}

impl Topic {
    /// A client's change leaves the topic with so many bytes: if they are more than before, it counts for that client.
    pub(super) fn resize(&mut self, bytes: usize, client: Option<IpAddr>) {
        if bytes > self.bytes {
            self.client = client;
        }
        self.bytes = bytes;
    }
}

/// Bytes of all topics, and of those that count for each address. An address without topics takes no memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Taken {
    bytes: usize,
    shares: BTreeMap<IpAddr, usize>,
}

impl Taken {
    pub(super) fn add(&mut self, topic: &Topic) {
        self.bytes += topic.bytes;
        if let Some(client) = topic.client {
            *self.shares.entry(client).or_default() += topic.bytes;
        }
    }

    pub(super) fn remove(&mut self, topic: &Topic) {
        self.bytes -= topic.bytes;
        if let Some(client) = topic.client {
            let share = self.shares.get_mut(&client).expect("its topic was added");
            *share -= topic.bytes;
            if *share == 0 {
                self.shares.remove(&client);
            }
        }
    }
}

/// Plans that are made for one client on one image, each about another topic: each keeps within the limits together with those
/// before it, which are not carried out yet.
#[derive(Debug, Clone, Default)]
pub struct Plans {
    pub(super) limits: PlanLimits,
    /// The address of the client; `None` for the node itself.
    pub(super) client: Option<IpAddr>,
    /// Partitions that the plans until now add.
    pub(super) partitions: usize,
    /// Groups that they give their first configs.
    pub(super) groups: usize,
    /// Bytes that they add to the image,
    bytes: usize,
    /// and to the client's share.
    share_bytes: usize,
}

impl Plans {
    /// None so far.
    #[must_use]
    pub fn of(limits: PlanLimits, client: Option<IpAddr>) -> Plans {
        Plans {
            limits,
            client,
            ..Plans::default()
        }
    }
}

impl Metadata {
    /// Bytes that the topics take in the image of a core.
    #[must_use]
    pub fn topics_bytes(&self) -> usize {
        self.taken.bytes
    }

    /// Bytes of the topics that count for an address.
    #[must_use]
    pub fn topics_bytes_of(&self, client: IpAddr) -> usize {
        self.taken.shares.get(&client).copied().unwrap_or(0)
    }

    /// Counts a command among the plans. What makes nothing larger is always taken.
    ///
    /// # Errors
    /// With it and the other plans carried out, the image would take more than it may, or the client's share.
    pub(super) fn admit(&self, command: &Command, plans: &mut Plans) -> Result<(), PlanError> {
        let (topic, growth) = self.growth_by(command)?;
        if growth > 0 {
            let taken_over = topic.filter(|topic| topic.client != plans.client);
            let bytes = plans.bytes + growth;
            let share_bytes = plans.share_bytes + growth + taken_over.map_or(0, |topic| topic.bytes);
            self.check_bounds(bytes, share_bytes, plans)?;
            (plans.bytes, plans.share_bytes) = (bytes, share_bytes);
        }
        plans.partitions += command.new_partition_count();
        Ok(())
    }

    /// Checks that the image and the client's share may grow by so much. What the node makes for itself is one topic, which must
    /// fit whatever clients have made.
    fn check_bounds(&self, bytes: usize, share_bytes: usize, plans: &Plans) -> Result<(), PlanError> {
        let Some(client) = plans.client else {
            return Ok(());
        };
        let bytes_max = plans.limits.bytes_max;
        let share_max = bytes_max / 2;
        if self.topics_bytes_of(client) + share_bytes > share_max {
            return Err(PlanError::MetadataShareTaken { share_max });
        }
        match self.taken.bytes + bytes > bytes_max {
            true => Err(PlanError::MetadataFull { bytes_max }),
            false => Ok(()),
        }
    }

    /// Bytes by which a command makes a topic larger, and that topic if it is there.
    fn growth_by(&self, command: &Command) -> Result<(Option<&Topic>, usize), ApplyError> {
        match command {
            Command::CreateTopic {
                name,
                partitions,
                config,
                ..
            } => {
                let config = changed(&TopicConfig::new(), config)?;
                Ok((None, new_topic_bytes(name, partitions, &config)))
            }
            Command::CreatePartitions { id, partitions, .. } => {
                Ok((Some(self.check_topic(*id)?), partitions_bytes(partitions)))
            }
            Command::SetTopicConfig { id, changes, .. } => {
                let topic = self.check_topic(*id)?;
                let after = config_bytes(&changed(&topic.config, changes)?);
                Ok((Some(topic), after.saturating_sub(config_bytes(&topic.config))))
            }
            _ => Ok((None, 0)),
        }
    }
}

fn changed(config: &TopicConfig, changes: &[ConfigChange]) -> Result<TopicConfig, ApplyError> {
    let mut changed = config.clone();
    changed.change(changes)?;
    Ok(changed)
}

#[cfg(test)]
mod tests;
