//! Carrying commands out: all checks first, then the change, so that a refused command leaves no trace.

use std::net::IpAddr;
use std::sync::Arc;

use record::{ClusterId, DirectoryId, Epoch, PartitionId, TopicId};
use thiserror::Error;

use super::broker_config::BrokerConfig;
use super::memory::{config_bytes, new_topic_bytes, partitions_bytes};
use super::topic_config::{ConfigChange, ConfigError};
use super::topic_name::{TopicNameError, check_topic_name, folded, is_order_log, order_log_name};
use super::{
    Command, FeatureLevel, Home, Metadata, Node, Partition, ReplicaSet, Topic, TopicConfig, TopicSettings,
};
use crate::leader::NodeId;
use crate::order::order_log_of;
use crate::producers::ProducerId;

/// Nodes that a cluster can have had.
const NODES_MAX: usize = 1_000;

/// Why a command does not fit the image. Every node finds the same; whoever proposed it should look at the image
/// again, and plan anew or tell its client.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ApplyError {
    /// A cluster is formatted once.
    #[error("the cluster is formatted already, as {cluster}")]
    AlreadyFormatted {
        /// Its identity.
        cluster: ClusterId,
    },
    /// Before anything else, the cluster must be formatted.
    #[error("the cluster has not been formatted")]
    NotFormatted,
    /// No group has such a name.
    #[error("the name of a group has 1 to {max} bytes, not {bytes}")]
    GroupName {
        /// Its bytes.
        bytes: usize,
        /// The most that there may be.
        max: usize,
    },
    /// No such node.
    #[error("node {node} is unknown")]
    UnknownNode {
        /// The node.
        node: NodeId,
    },
    /// The id is taken, or was.
    #[error("node {node} exists already: give the new node another id, or none and it is given a free one")]
    NodeExists {
        /// The node.
        node: NodeId,
    },
    /// Node ids are not negative.
    #[error("{node} cannot be a node's id")]
    InvalidNode {
        /// The node.
        node: NodeId,
    },
    /// The id is another directory's, or the directory has another id.
    #[error(
        "node {node} is directory {directory}: start it over that directory, or have this one join as another node"
    )]
    OtherDirectory {
        /// The node that there is.
        node: NodeId,
        /// Its directory.
        directory: DirectoryId,
    },
    /// The start has been told already, or a later one was.
    #[error(
        "node {node} has told its start {known}, and this is its start {got}: another process runs over a copy of its directory, or this is said twice"
    )]
    StartPassed {
        /// The node.
        node: NodeId,
        /// The latest start that was told.
        known: u64,
        /// The start.
        got: u64,
    },
    /// A cluster has so many nodes at most, those that have joined and never started too.
    #[error("the cluster has had {NODES_MAX} nodes, and can have no more")]
    NodesExhausted,
    /// No such topic.
    #[error("topic {id} is unknown")]
    UnknownTopic {
        /// The topic.
        id: TopicId,
    },
    /// No such partition.
    #[error("partition {partition} is unknown")]
    UnknownPartition {
        /// The partition.
        partition: PartitionId,
    },
    /// The name is taken.
    #[error("Topic '{name}' already exists.")]
    TopicExists {
        /// The name.
        name: Arc<str>,
    },
    /// The identity is taken.
    #[error("a topic with the id {id} exists already")]
    TopicIdExists {
        /// The identity.
        id: TopicId,
    },
    /// The name differs from that of another topic in `.` and `_` only.
    #[error("Topic '{name}' collides with existing topic: {other} ('.' and '_' count as the same)")]
    TopicNameCollides {
        /// The name.
        name: Arc<str>,
        /// The other topic's.
        other: Arc<str>,
    },
    /// The name cannot be a topic's.
    #[error(transparent)]
    TopicName(#[from] TopicNameError),
    /// A config cannot be set so.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A topic needs partitions, and adding none is no change.
    #[error("at least one partition is needed")]
    NoPartitions,
    /// More partitions than there are indexes.
    #[error("a topic cannot have so many partitions")]
    PartitionsExhausted,
    /// Somebody else has added partitions in the meantime.
    #[error("the topic has {got} partitions, not {expected}")]
    PartitionsChanged {
        /// The number that the command expects.
        expected: i32,
        /// The number that there are.
        got: i32,
    },
    /// A replica set is empty, or names a node twice.
    #[error("a partition's replicas must be at least one, each on another node")]
    InvalidReplicaSet,
    /// Only a replica can lead.
    #[error("node {leader} holds no replica of {partition}")]
    NotAReplica {
        /// The node that was to lead.
        leader: NodeId,
        /// The partition.
        partition: PartitionId,
    },
    /// Another epoch has been opened in the meantime.
    #[error("epoch {got} cannot follow epoch {current}")]
    EpochNotNext {
        /// The present epoch.
        current: Epoch,
        /// The epoch that was to be opened.
        got: Epoch,
    },
    /// The epoch that something is said of is over.
    #[error("epoch {got} is over: {current} is the present one")]
    EpochPassed {
        /// The present epoch.
        current: Epoch,
        /// The epoch that something was said of.
        got: Epoch,
    },
    /// Something is said of an earlier start of a node.
    #[error("start {got} of node {node} is over: {current} is the present one")]
    StartOver {
        /// The node.
        node: NodeId,
        /// Its present start.
        current: u64,
        /// The start that something was said of.
        got: u64,
    },
    /// One change of a partition's replicas at a time.
    #[error(
        "the replicas of {partition} have just changed, and its log is not yet safe with the new ones; try again"
    )]
    ReplicasUnsettled {
        /// The partition.
        partition: PartitionId,
    },
    /// Its log would be held by nobody who is known to hold it.
    #[error(
        "the disks of all these replicas of {partition} are in doubt; keep one that holds what was acknowledged"
    )]
    ReplicasInDoubt {
        /// The partition.
        partition: PartitionId,
    },
    /// It has these replicas, or is getting them.
    #[error("{partition} has these replicas, or is getting them")]
    ReplicasUnchanged {
        /// The partition.
        partition: PartitionId,
    },
    /// Only nodes that are to become replicas catch up.
    #[error("node {replica} is not about to become a replica of {partition}")]
    NotJoining {
        /// The node.
        replica: NodeId,
        /// The partition.
        partition: PartitionId,
    },
    /// Nothing is left to be settled.
    #[error("the replicas of {partition} are settled")]
    NothingUnsettled {
        /// The partition.
        partition: PartitionId,
    },
    /// Not all nodes could read it.
    #[error(
        "this needs feature level {wanted}, and the cluster has {level}: when all its nodes run a release that knows it, raise the level \
         (ropewalk cluster upgrade)"
    )]
    LevelTooLow {
        /// The level that it needs.
        wanted: FeatureLevel,
        /// The cluster's.
        level: FeatureLevel,
    },
    /// Levels only rise.
    #[error("the cluster has feature level {level} already, which is all that its nodes know in common")]
    LevelReached {
        /// The cluster's.
        level: FeatureLevel,
    },
    /// A node gives up what it holds before it is removed.
    #[error("node {node} holds {partitions} partition(s): drain it first, and wait until it holds none")]
    NodeHolds {
        /// The node.
        node: NodeId,
        /// The partitions.
        partitions: usize,
    },
    /// A cluster has a node.
    #[error("node {node} is the cluster's only one")]
    LastNode {
        /// The node.
        node: NodeId,
    },
    /// Somebody else has to get what a node gives up.
    #[error("node {node} cannot give to itself what it gives up")]
    DrainedToItself {
        /// The node.
        node: NodeId,
    },
    /// Somebody else has got these ids, or the block is empty.
    #[error("producer ids from {} cannot be handed out: {} is next", got.0, next.0)]
    ProducerIdsTaken {
        /// The first id wanted.
        got: ProducerId,
        /// The first id that is left.
        next: ProducerId,
    },
}

impl Metadata {
    /// Carries a command out.
    ///
    /// # Errors
    /// The command does not fit the image; nothing has changed.
    pub fn apply(&mut self, command: &Command) -> Result<(), ApplyError> {
        self.check(command)?;
        match command {
            Command::FormatCluster { cluster } => self.cluster = Some(*cluster),
            Command::StartNode {
                node,
                address,
                home,
                rack,
            } => {
                let known = self.nodes.get(node);
                let incarnation = known.map_or(0, |known| known.incarnation + 1);
                let drain = known.and_then(|known| known.drain.clone());
                self.joined.remove(node);
                self.nodes.insert(
                    *node,
                    Node {
                        address: address.clone(),
                        incarnation,
                        home: home.clone(),
                        drain,
                        rack: rack.clone(),
                    },
                );
            }
            Command::JoinNode { node, home } => {
                self.joined.insert(*node, home.clone());
            }
            Command::CreateTopic {
                id,
                name,
                partitions,
                config,
                client,
            } => {
                let topic = self.new_topic(*id, name, partitions, config, *client);
                self.insert_topic(topic);
            }
            Command::DeleteTopic { id } => {
                self.delete_topic(*id);
                let log = self.topics.get(&order_log_of(*id));
                // The other way round the ordered topic stays, and gets another log.
                if log.is_some_and(|log| is_order_log(&log.name)) {
                    self.delete_topic(order_log_of(*id));
                }
            }
            Command::CreatePartitions {
                id,
                partitions,
                client,
                ..
            } => {
                let added = self.new_partitions(partitions);
                self.partition_count += added.len();
                let topic = self.topics.get_mut(id).expect("checked");
                self.taken.remove(topic);
                topic.partitions.reserve_exact(added.len());
                topic.partitions.extend(added);
                topic.resize(topic.bytes + partitions_bytes(partitions), *client);
                self.taken.add(topic);
            }
            Command::SetTopicConfig { id, changes, client } => {
                let topic = self.topics.get_mut(id).expect("checked");
                self.taken.remove(topic);
                let others = topic.bytes - config_bytes(&topic.config);
                topic.config.change(changes).expect("checked");
                topic.resize(others + config_bytes(&topic.config), *client);
                self.taken.add(topic);
                topic.settings = TopicSettings::resolve(&topic.config, &self.defaults);
            }
            Command::SetBrokerConfig { broker, changes } => self.set_broker_config(*broker, changes),
            Command::SetGroupConfig { group, changes } => self.set_group_config(group, changes),
            Command::AllocateProducerIds { next, .. } => self.next_producer_id = *next,
            Command::OpenEpoch {
                partition,
                epoch,
                leader,
            } => self.open_epoch(*partition, *epoch, *leader),
            Command::SetReplicas {
                partition,
                epoch,
                replicas,
            } => self.set_replicas(*partition, *epoch, replicas),
            Command::OpenUncleanly {
                partition,
                epoch,
                replicas,
            } => self.open_uncleanly(*partition, *epoch, replicas),
            Command::CaughtUp {
                partition,
                epoch,
                replica,
                ..
            } => self.note_caught_up(*partition, *epoch, *replica),
            Command::Settled { partition, .. } => self.note_settled(*partition),
            Command::DrainNode { node, drain } => {
                let known = self.nodes.get_mut(node).expect("checked");
                known.drain.clone_from(drain);
            }
            Command::DoubtNode { node, .. } => self.doubt(*node),
            Command::SetFeatureLevel { level } => self.level = *level,
            Command::RemoveNode { node } => {
                self.nodes.remove(node);
                self.joined.remove(node);
                self.broker_configs.remove(&Some(*node));
                self.resolve_settings();
            }
        }
        assert_eq!(self.topics.len(), self.names.len(), "every topic has one name");
        Ok(())
    }

    /// The topic that a command gives partitions, as it will be then, and the index of the first that is new. `None` for other
    /// commands, and for one that does not fit the image.
    #[must_use]
    pub fn grown_by(&self, command: &Command) -> Option<(Topic, i32)> {
        match command {
            Command::CreateTopic {
                id,
                name,
                partitions,
                config,
                client,
            } => {
                self.check(command).ok()?;
                Some((self.new_topic(*id, name, partitions, config, *client), 0))
            }
            Command::CreatePartitions {
                id,
                first_index,
                partitions,
                ..
            } => {
                self.check(command).ok()?;
                let mut topic = self.topics.get(id)?.clone();
                topic.partitions.extend(self.new_partitions(partitions));
                Some((topic, *first_index))
            }
            _ => None,
        }
    }

    /// Checks that a command fits the image.
    ///
    /// # Errors
    /// See [`ApplyError`].
    pub fn check(&self, command: &Command) -> Result<(), ApplyError> {
        if let Command::FormatCluster { .. } = command {
            return self
                .cluster
                .map_or(Ok(()), |cluster| Err(ApplyError::AlreadyFormatted { cluster }));
        }
        if self.cluster.is_none() {
            return Err(ApplyError::NotFormatted);
        }
        self.check_level(command)?;
        match command {
            Command::FormatCluster { .. } => Ok(()),
            Command::StartNode { node, .. } | Command::JoinNode { node, .. } if node.0 < 0 => {
                Err(ApplyError::InvalidNode { node: *node })
            }
            Command::StartNode { node, home, .. } => self.check_start(*node, home.as_ref()),
            Command::JoinNode { node, home } => self.check_join(*node, home),
            Command::CreateTopic {
                id,
                name,
                partitions,
                config,
                ..
            } => {
                self.check_new_topic(*id, name)?;
                if is_order_log(name) {
                    // The ordered one may have gone meanwhile.
                    let ordered = self.check_topic(order_log_of(*id))?.id;
                    if **name != order_log_name(ordered) {
                        return Err(TopicNameError::OrderLog.into());
                    }
                }
                check_changed(TopicConfig::new(), config)?;
                self.check_replica_sets(0, partitions)
            }
            Command::DeleteTopic { id } => self.check_topic(*id).map(|_| ()),
            Command::CreatePartitions {
                id,
                first_index,
                partitions,
                ..
            } => {
                let got = self.check_topic(*id)?.partition_count();
                if got != *first_index {
                    return Err(ApplyError::PartitionsChanged {
                        expected: *first_index,
                        got,
                    });
                }
                self.check_replica_sets(got, partitions)
            }
            Command::SetTopicConfig { id, changes, .. } => {
                let topic = self.check_topic(*id)?;
                Ok(check_changed(topic.config.clone(), changes)?)
            }
            Command::SetBrokerConfig { broker, changes } => {
                if let Some(node) = broker.filter(|node| !self.nodes.contains_key(node)) {
                    return Err(ApplyError::UnknownNode { node });
                }
                Ok(changes.iter().try_for_each(BrokerConfig::check)?)
            }
            Command::SetGroupConfig { group, changes } => self.check_group_config(group, changes),
            Command::AllocateProducerIds { first, next }
                if *first != self.next_producer_id || next <= first =>
            {
                Err(ApplyError::ProducerIdsTaken {
                    got: *first,
                    next: self.next_producer_id,
                })
            }
            Command::AllocateProducerIds { .. } => Ok(()),
            Command::OpenEpoch {
                partition,
                epoch,
                leader,
            } => self.check_open_epoch(*partition, *epoch, *leader),
            Command::SetReplicas {
                partition,
                epoch,
                replicas,
            } => self.check_set_replicas(*partition, *epoch, replicas),
            Command::OpenUncleanly {
                partition,
                epoch,
                replicas,
            } => self.check_open_uncleanly(*partition, *epoch, replicas),
            Command::CaughtUp {
                partition,
                epoch,
                replica,
                start,
            } => self.check_caught_up(*partition, *epoch, (*replica, *start)),
            Command::Settled { partition, epoch } => self.check_settled(*partition, *epoch),
            Command::DrainNode { node, drain } => self.check_drain(*node, drain.as_ref()),
            Command::RemoveNode { node } => self.check_removal(*node),
            Command::DoubtNode { node, start } => self.check_own_start(*node, *start),
            Command::SetFeatureLevel { level } => self.check_raise(*level),
        }
    }

    /// A node that says where it is at home has joined, unless it is the cluster's first.
    fn check_start(&self, node: NodeId, home: Option<&Home>) -> Result<(), ApplyError> {
        let Some(home) = home else { return Ok(()) };
        match self.home(node) {
            Some(known) if known.directory != home.directory => Err(ApplyError::OtherDirectory {
                node,
                directory: known.directory,
            }),
            Some(known) if home.start <= known.start && home.start > 0 => Err(ApplyError::StartPassed {
                node,
                known: known.start,
                got: home.start,
            }),
            None if !self.nodes.contains_key(&node) && !self.nodes.is_empty() => {
                Err(ApplyError::UnknownNode { node })
            }
            _ => Ok(()),
        }
    }

    fn check_join(&self, node: NodeId, home: &Home) -> Result<(), ApplyError> {
        if self.nodes.len() + self.joined.len() >= NODES_MAX {
            return Err(ApplyError::NodesExhausted);
        }
        if self.nodes.contains_key(&node) || self.joined.contains_key(&node) {
            return Err(ApplyError::NodeExists { node });
        }
        let mut homes = self.homes();
        match homes.find(|(_, known)| known.directory == home.directory) {
            Some((node, known)) => Err(ApplyError::OtherDirectory {
                node,
                directory: known.directory,
            }),
            None => Ok(()),
        }
    }

    pub(super) fn check_topic(&self, id: TopicId) -> Result<&Topic, ApplyError> {
        self.topics.get(&id).ok_or(ApplyError::UnknownTopic { id })
    }

    pub(super) fn check_new_topic(&self, id: TopicId, name: &Arc<str>) -> Result<(), ApplyError> {
        check_topic_name(name)?;
        if self.names.contains_key(name) {
            return Err(ApplyError::TopicExists {
                name: Arc::clone(name),
            });
        }
        if let Some(other) = self.folded_names.get(&folded(name)) {
            let other = Arc::clone(&self.check_topic(*other)?.name);
            return Err(ApplyError::TopicNameCollides {
                name: Arc::clone(name),
                other,
            });
        }
        if self.topics.contains_key(&id) {
            return Err(ApplyError::TopicIdExists { id });
        }
        Ok(())
    }

    pub(super) fn check_replica_sets(
        &self,
        first_index: i32,
        partitions: &[ReplicaSet],
    ) -> Result<(), ApplyError> {
        if partitions.is_empty() {
            return Err(ApplyError::NoPartitions);
        }
        let added = i32::try_from(partitions.len()).map_err(|_| ApplyError::PartitionsExhausted)?;
        first_index
            .checked_add(added)
            .ok_or(ApplyError::PartitionsExhausted)?;
        for replicas in partitions {
            let twice = replicas
                .iter()
                .enumerate()
                .any(|(index, node)| replicas[..index].contains(node));
            if replicas.is_empty() || twice {
                return Err(ApplyError::InvalidReplicaSet);
            }
            if let Some(node) = replicas.iter().find(|node| !self.nodes.contains_key(node)) {
                return Err(ApplyError::UnknownNode { node: *node });
            }
        }
        Ok(())
    }

    fn check_open_epoch(
        &self,
        partition: PartitionId,
        epoch: Epoch,
        leader: NodeId,
    ) -> Result<(), ApplyError> {
        let found = self.check_partition(partition)?;
        if !found.replicas.contains(&leader) {
            return Err(ApplyError::NotAReplica { leader, partition });
        }
        self.check_next_epoch(found, epoch)
    }

    fn new_topic(
        &self,
        id: TopicId,
        name: &Arc<str>,
        partitions: &[ReplicaSet],
        changes: &[ConfigChange],
        client: Option<IpAddr>,
    ) -> Topic {
        let mut config = TopicConfig::new();
        config.change(changes).expect("checked");
        let settings = TopicSettings::resolve(&config, &self.defaults);
        Topic {
            id,
            name: Arc::clone(name),
            bytes: new_topic_bytes(name, partitions, &config),
            config,
            settings,
            partitions: self.new_partitions(partitions),
            client,
        }
    }

    /// Takes in a topic that was checked.
    pub(super) fn insert_topic(&mut self, topic: Topic) {
        self.partition_count += topic.partitions.len();
        self.taken.add(&topic);
        self.names.insert(Arc::clone(&topic.name), topic.id);
        self.folded_names.insert(folded(&topic.name), topic.id);
        self.topics.insert(topic.id, topic);
    }

    fn delete_topic(&mut self, id: TopicId) {
        let topic = self.topics.remove(&id).expect("checked");
        self.names.remove(&topic.name);
        self.folded_names.remove(&folded(&topic.name));
        self.partition_count -= topic.partitions.len();
        self.taken.remove(&topic);
    }

    fn new_partitions(&self, replica_sets: &[ReplicaSet]) -> Vec<Partition> {
        let new_partition = |replicas: &ReplicaSet| {
            let leader = replicas[0];
            let opened_incarnation = self.nodes.get(&leader).expect("checked").incarnation;
            Partition {
                replicas: Arc::clone(replicas),
                leader,
                opened_epoch: Epoch(0),
                opened_incarnation,
                is_shared: replicas.len() > 1,
                reassignment: None,
                uncertain: Vec::new(),
                unclean: Vec::new(),
            }
        };
        replica_sets.iter().map(new_partition).collect()
    }

    pub(super) fn open_epoch(&mut self, partition: PartitionId, epoch: Epoch, leader: NodeId) {
        let opened_incarnation = self
            .nodes
            .get(&leader)
            .expect("replicas are known nodes")
            .incarnation;
        let index = usize::try_from(partition.index).expect("checked");
        let found = &mut self.topics.get_mut(&partition.topic).expect("checked").partitions[index];
        found.leader = leader;
        found.opened_epoch = epoch;
        found.opened_incarnation = opened_incarnation;
        assert_eq!(
            self.partition(partition).map(|state| state.epoch),
            Some(epoch),
            "the epoch opened is in force"
        );
    }
}

/// Checks that the changes may be made to a topic's configs, and that the configs go together then.
fn check_changed(mut config: TopicConfig, changes: &[ConfigChange]) -> Result<(), ConfigError> {
    config.change(changes)?;
    config.check_together()
}
