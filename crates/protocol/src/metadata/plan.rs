//! From a client's wish to a command: defaults filled in, replicas placed, everything checked against the image.
//!
//! A plan is good for the image it was made on. Commands that are committed first may spoil it; `apply` finds out.

use std::fmt;
use std::sync::Arc;

use record::{Epoch, PartitionId, TopicId};
use thiserror::Error;

use super::topic_config::ConfigChange;
use super::{
    ApplyError, COMMAND_BYTES_MAX, Command, FeatureLevel, Home, Metadata, Node, Plans, ReplicaSet, Topic,
    TopicConfig, is_internal, order_log_name,
};
use crate::leader::NodeId;
use crate::order::order_log_of;
use crate::producers::ProducerId;

/// Producer ids that are handed out at a time.
pub const PRODUCER_ID_BLOCK: i64 = 1000;

/// Bounds on how large clients may make the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanLimits {
    /// Partitions of one topic.
    pub topic_partitions_max: i32,
    /// Partitions of all topics together.
    pub partitions_max: usize,
    /// Replicas of one partition.
    pub replicas_max: i32,
    /// Bytes of a core's memory for all topics together; one client's address may take half of them.
    pub bytes_max: usize,
}

impl Default for PlanLimits {
    fn default() -> Self {
        PlanLimits {
            topic_partitions_max: 10_000,
            partitions_max: 100_000,
            replicas_max: i32::MAX,
            bytes_max: 64 << 20,
        }
    }
}

/// A topic that a client wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTopic {
    /// A fresh, random identity.
    pub id: TopicId,
    /// Its name.
    pub name: Arc<str>,
    /// The number of partitions.
    pub partition_count: i32,
    /// The number of replicas of each.
    pub replica_count: i32,
    /// The replicas of each partition where the client has chosen them: then the counts are theirs.
    pub chosen: Option<Vec<ReplicaSet>>,
    /// Configs that differ from the defaults.
    pub config: Vec<ConfigChange>,
}

/// Why a wish cannot be granted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    /// The command that grants it would be refused.
    #[error(transparent)]
    Refused(#[from] ApplyError),
    /// Fewer than one, or not more than there are (Kafka: INVALID_PARTITIONS); more than allowed (POLICY_VIOLATION).
    #[error("{}", told_partition_count(*.min, *.max, *.got))]
    PartitionCount {
        /// The fewest.
        min: i32,
        /// The most.
        max: i32,
        /// The count wished for.
        got: i32,
    },
    /// The cluster would have too many partitions (Kafka: POLICY_VIOLATION).
    #[error("the cluster can have {max} partitions (limits.partitions), this would make it {wanted}")]
    ClusterFull {
        /// The most.
        max: usize,
        /// The number that there would be.
        wanted: usize,
    },
    /// Too many groups would have configs (Kafka: POLICY_VIOLATION).
    #[error(
        "{max} groups can have configs, and so many do: give up those of a group that needs none any more"
    )]
    GroupConfigsFull {
        /// The most.
        max: usize,
    },
    /// Fewer than one replica, or more than there are nodes (Kafka: INVALID_REPLICATION_FACTOR).
    #[error("{}", told_replica_count(*.got, *.nodes))]
    ReplicaCount {
        /// The count wished for.
        got: i32,
        /// The nodes there are.
        nodes: usize,
    },
    /// More replicas than a partition may have (Kafka: INVALID_REPLICATION_FACTOR).
    #[error("a partition can have at most {max} replicas, not {got}")]
    ReplicasMax {
        /// The count wished for.
        got: i32,
        /// The most.
        max: i32,
    },
    /// More replicas than nodes that other nodes reach (Kafka: INVALID_REPLICATION_FACTOR).
    #[error(
        "a partition cannot have {got} replicas: other nodes reach {reachable} node(s) of the cluster; start the others with --peer"
    )]
    UnreachableNodes {
        /// The count wished for.
        got: i32,
        /// The nodes that others reach.
        reachable: usize,
    },
    /// Nobody needs to give anything up (Kafka: ELECTION_NOT_NEEDED).
    #[error(
        "{partition} needs no unclean opening: enough of its replicas are connected to open its next epoch"
    )]
    NotStuck {
        /// The partition.
        partition: PartitionId,
    },
    /// No replica is there whose log could be opened (Kafka: ELIGIBLE_LEADERS_NOT_AVAILABLE).
    #[error("none of the replicas of {partition} is there: start a node that holds one")]
    NobodyLeft {
        /// The partition.
        partition: PartitionId,
    },
    /// Nothing can be sent to a node (Kafka: INVALID_REPLICA_ASSIGNMENT).
    #[error(
        "node {node} can hold no more replicas: other nodes do not reach it (start it with --peer), or it is drained"
    )]
    Unreachable {
        /// The node.
        node: NodeId,
    },
    /// Replicas are chosen for another number of partitions (Kafka: INVALID_REPLICA_ASSIGNMENT).
    #[error("replicas are chosen for {got} partition(s), and {wanted} are wanted")]
    ChosenPartitions {
        /// The partitions that they are chosen for.
        got: usize,
        /// The partitions that are to be made.
        wanted: usize,
    },
    /// A partition is to have more replicas than another one, or fewer (Kafka: INVALID_REPLICA_ASSIGNMENT).
    #[error("{got} replica(s) are chosen for a partition, and others have {wanted}")]
    ChosenReplicas {
        /// The replicas that are chosen for it.
        got: usize,
        /// The replicas of the others.
        wanted: usize,
    },
    /// A node is away, and nobody knows what its program reads.
    #[error(
        "node {node} is away, and nobody knows which feature levels its release has: start it with this release, or remove it"
    )]
    LevelUnknown {
        /// The node.
        node: NodeId,
    },
    /// No other replicas are on their way to a partition (Kafka: NO_REASSIGNMENT_IN_PROGRESS).
    #[error("No partition reassignment is in progress.")]
    NoReassignment,
    /// Several replicas of a compacted topic (Kafka: INVALID_CONFIG).
    #[error(
        "topics with cleanup.policy=compact have 1 replica at feature level {level}, not {got}: raise it (ropewalk cluster upgrade)"
    )]
    CompactedReplicas {
        /// The count wished for.
        got: i32,
        /// The cluster's level.
        level: FeatureLevel,
    },
    /// Other replicas of a compacted topic (Kafka: INVALID_REPLICA_ASSIGNMENT).
    #[error(
        "topics with cleanup.policy=compact keep the one replica that they have at feature level {level}: raise it (ropewalk cluster upgrade)"
    )]
    CompactedMove {
        /// The cluster's level.
        level: FeatureLevel,
    },
    /// One order over a topic of the node itself, or of nodes that others can join (Kafka: INVALID_CONFIG).
    #[error("ropewalk.order=total cannot be had {}", .0)]
    NoOrder(NoOrder),
    /// Another node leads by now (Kafka: NOT_LEADER_OR_FOLLOWER).
    #[error("{partition} is led by node {leader} by now")]
    LeaderChanged {
        /// The partition.
        partition: PartitionId,
        /// Its leader.
        leader: NodeId,
    },
    /// The command would be too large for the metadata's log (Kafka: POLICY_VIOLATION).
    #[error("the change takes {bytes} bytes of metadata, {bytes_max} are allowed; make it in parts")]
    TooLarge {
        /// The command's size.
        bytes: usize,
        /// The largest allowed.
        bytes_max: usize,
    },
    /// The topics would take more memory than they may (Kafka: POLICY_VIOLATION).
    #[error(
        "all topics together take at most {bytes_max} bytes of each core's memory (limits.metadata_bytes_per_core), with their \
         partitions and configs; delete some that are not needed any more, or raise the limit"
    )]
    MetadataFull {
        /// The most.
        bytes_max: usize,
    },
    /// The same for those that count for the client's address.
    #[error(
        "topics that were made or made larger from one client's address take at most {share_max} bytes of each core's memory, half \
         of limits.metadata_bytes_per_core; delete some that are not needed any more, use another address, or raise the limit"
    )]
    MetadataShareTaken {
        /// The most for one address.
        share_max: usize,
    },
    /// Every producer id has been handed out.
    #[error("no producer ids are left")]
    ProducerIdsExhausted,
}

/// Why a topic has no order over all of its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoOrder {
    /// The node keeps it itself.
    Internal,
    /// Several nodes can hold its partitions, and not all of them may know of such orders.
    Level(FeatureLevel),
}

impl fmt::Display for NoOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoOrder::Internal => f.write_str("by topics that nodes keep for themselves"),
            NoOrder::Level(level) => write!(
                f,
                "in a cluster of feature level {level}: when all its nodes run a release that keeps orders on several nodes, raise the level \
                 (ropewalk cluster upgrade)"
            ),
        }
    }
}

/// Refuses a number of partitions: none in Kafka's words, too many in our own.
fn told_partition_count(min: i32, max: i32, got: i32) -> String {
    match got {
        ..1 => "Number of partitions was set to an invalid non-positive value.".to_owned(),
        _ => format!("a topic can have from {min} to {max} partitions, not {got}"),
    }
}

/// Refuses a replica count that cannot be, in Kafka's words.
fn told_replica_count(got: i32, nodes: usize) -> String {
    match got {
        ..1 => "Replication factor must be larger than 0, or -1 to use the default value.".to_owned(),
        _ => format!(
            "Unable to replicate the partition {got} time(s): The target replication factor of {got} cannot be reached because \
             only {nodes} broker(s) are registered."
        ),
    }
}

impl Metadata {
    /// Plans a new topic. Unless the client has chosen them, replicas go round the nodes, each partition beginning one node further.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn plan_topic(&self, wanted: &NewTopic, plans: &mut Plans) -> Result<Command, PlanError> {
        // The name first: "exists already" is what a client that creates its topic on every start expects.
        self.check_new_topic(wanted.id, &wanted.name)?;
        self.check_partition_count(1, wanted.partition_count, wanted.partition_count, plans)?;
        let (got, max) = (wanted.replica_count, plans.limits.replicas_max);
        let partitions = match &wanted.chosen {
            Some(chosen) => self.check_chosen(chosen, wanted.partition_count, got)?,
            None => self.place(0..wanted.partition_count, got)?,
        };
        if got > max {
            return Err(PlanError::ReplicasMax { got, max });
        }
        // The node itself keeps its own topics short, by what they hold.
        let is_free = self.replicates_compacted() || is_internal(&wanted.name);
        if got > 1 && !is_free && self.is_compacted(&wanted.config) {
            return Err(PlanError::CompactedReplicas {
                got,
                level: self.level(),
            });
        }
        self.check_order(&wanted.name, &TopicConfig::new(), &wanted.config)?;
        let (id, name) = (wanted.id, Arc::clone(&wanted.name));
        let config = wanted.config.iter().cloned().map(ConfigChange::canonical);
        let command = Command::CreateTopic {
            id,
            name,
            partitions,
            config: config.collect(),
            client: plans.client,
        };
        self.counted(command, plans)
    }

    /// Checks that a topic with these configs may have the order that changes give it.
    pub(super) fn check_order(
        &self,
        name: &str,
        config: &TopicConfig,
        changes: &[ConfigChange],
    ) -> Result<(), PlanError> {
        let mut config = config.clone();
        // What is wrong with a change is found where it is made.
        if config.change(changes).is_err() || !config.is_ordered() {
            return Ok(());
        }
        match is_internal(name) {
            true => Err(PlanError::NoOrder(NoOrder::Internal)),
            false if self.orders_replicas() || !self.can_be_joined() => Ok(()),
            false => Err(PlanError::NoOrder(NoOrder::Level(self.level()))),
        }
    }

    /// Says whether other nodes have joined this one, or can.
    pub(super) fn can_be_joined(&self) -> bool {
        let is_member = |node: &Node| node.home.as_ref().is_some_and(|home| home.start > 0);
        !self.joined.is_empty() || self.nodes.values().any(is_member)
    }

    /// Plans the topic that keeps the order of another one: on the nodes that hold the lane of that, its first partition.
    ///
    /// # Errors
    /// See [`PlanError`]; `TopicExists` if it is there.
    pub fn plan_order_log(&self, ordered: TopicId) -> Result<Command, PlanError> {
        let topic = self.check_topic(ordered)?;
        let replicas = topic.replicas(0).ok_or(ApplyError::NoPartitions)?;
        self.checked(Command::CreateTopic {
            id: order_log_of(ordered),
            name: order_log_name(ordered).into(),
            partitions: vec![replicas.clone()],
            config: Vec::new(),
            client: None,
        })
    }

    /// The topics that should have a log for their order, and have none yet.
    pub fn without_order_log(&self) -> impl Iterator<Item = &Topic> {
        let has_none = |topic: &&Topic| self.topic(order_log_of(topic.id)).is_none();
        self.topics()
            .filter(move |topic| topic.settings.is_ordered && has_none(topic))
    }

    /// Plans that a topic gets more partitions, `count` in all.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn plan_partitions(&self, id: TopicId, count: i32, plans: &mut Plans) -> Result<Command, PlanError> {
        self.plan_more(id, count, None, plans)
    }

    /// The same with the replicas of the new partitions, as a client has chosen them.
    ///
    /// # Errors
    /// See [`PlanError`]; `Refused` if others have come meanwhile, and these would not be so many.
    pub fn plan_chosen_partitions(
        &self,
        id: TopicId,
        count: i32,
        chosen: &[ReplicaSet],
        plans: &mut Plans,
    ) -> Result<Command, PlanError> {
        self.plan_more(id, count, Some(chosen), plans)
    }

    fn plan_more(
        &self,
        id: TopicId,
        count: i32,
        chosen: Option<&[ReplicaSet]>,
        plans: &mut Plans,
    ) -> Result<Command, PlanError> {
        let topic = self.check_topic(id)?;
        let first_index = topic.partition_count();
        let added = count.saturating_sub(first_index);
        self.check_partition_count(first_index.saturating_add(1), count, added, plans)?;
        let replica_count = topic.partitions.first().map_or(1, |first| first.replicas.len());
        let replica_count = i32::try_from(replica_count).expect("replica sets are small");
        let partitions = match chosen {
            Some(chosen) => self.check_chosen(chosen, added, replica_count)?,
            None => self.place(first_index..count, replica_count)?,
        };
        let command = Command::CreatePartitions {
            id,
            first_index,
            partitions,
            client: plans.client,
        };
        self.counted(command, plans)
    }

    /// Plans that a node joins: with the id that it wants, or with the first that is free.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn plan_join(&self, wanted: Option<NodeId>, home: &Home) -> Result<Command, PlanError> {
        let is_free = |node: &NodeId| !self.nodes.contains_key(node) && !self.joined.contains_key(node);
        let mut ids = (1..=i32::MAX).map(NodeId);
        let free = wanted
            .or_else(|| ids.find(is_free))
            .ok_or(ApplyError::NodesExhausted)?;
        self.checked(Command::JoinNode {
            node: free,
            home: home.clone(),
        })
    }

    /// Plans that a topic is deleted.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn plan_topic_deletion(&self, id: TopicId) -> Result<Command, PlanError> {
        self.checked(Command::DeleteTopic { id })
    }

    /// Plans to take the next block of producer ids.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn plan_producer_ids(&self) -> Result<Command, PlanError> {
        let first = self.next_producer_id;
        let next = first
            .0
            .checked_add(PRODUCER_ID_BLOCK)
            .ok_or(PlanError::ProducerIdsExhausted)?;
        self.checked(Command::AllocateProducerIds {
            first,
            next: ProducerId(next),
        })
    }

    /// Plans the next epoch of a partition under `leader`.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn plan_epoch(&self, partition: PartitionId, leader: NodeId) -> Result<Command, PlanError> {
        let state = self
            .partition(partition)
            .ok_or(ApplyError::UnknownPartition { partition })?;
        self.checked(Command::OpenEpoch {
            partition,
            epoch: Epoch(state.epoch.0 + 1),
            leader,
        })
    }

    /// The same where another node leads, if that does so still.
    ///
    /// # Errors
    /// See [`PlanError`]; `LeaderChanged` if somebody was quicker.
    pub fn plan_succession(
        &self,
        partition: PartitionId,
        before: NodeId,
        leader: NodeId,
    ) -> Result<Command, PlanError> {
        match self.partition(partition) {
            Some(state) if state.leader != before => Err(PlanError::LeaderChanged {
                partition,
                leader: state.leader,
            }),
            _ => self.plan_epoch(partition, leader),
        }
    }

    /// Checks what was planned, and counts it among the plans of its client.
    pub(super) fn counted(&self, command: Command, plans: &mut Plans) -> Result<Command, PlanError> {
        let command = self.checked(command)?;
        self.admit(&command, plans)?;
        Ok(command)
    }

    /// Checks what was planned. Its size, too: what the log refuses in the middle of a change would leave half of it made.
    pub(super) fn checked(&self, command: Command) -> Result<Command, PlanError> {
        self.check(&command)?;
        match command.encode().len() {
            ..=COMMAND_BYTES_MAX => Ok(command),
            bytes => Err(PlanError::TooLarge {
                bytes,
                bytes_max: COMMAND_BYTES_MAX,
            }),
        }
    }

    fn check_partition_count(&self, min: i32, got: i32, added: i32, plans: &Plans) -> Result<(), PlanError> {
        let max = plans.limits.topic_partitions_max;
        if got < min || got > max {
            return Err(PlanError::PartitionCount { min, max, got });
        }
        let added = usize::try_from(added).expect("at least one, or it would be below the fewest");
        let max = plans.limits.partitions_max;
        match self.partition_count + plans.partitions + added {
            wanted if wanted > max => Err(PlanError::ClusterFull { max, wanted }),
            _ => Ok(()),
        }
    }

    /// Checks replicas that a client has chosen, for so many partitions and with so many each. That the nodes are there, each once in a set, is
    /// for the command's own check to see.
    fn check_chosen(
        &self,
        chosen: &[ReplicaSet],
        partitions: i32,
        replicas: i32,
    ) -> Result<Vec<ReplicaSet>, PlanError> {
        let (got, wanted) = (chosen.len(), usize::try_from(partitions).unwrap_or(0));
        if got != wanted {
            return Err(PlanError::ChosenPartitions { got, wanted });
        }
        let wanted = usize::try_from(replicas).unwrap_or(0);
        let open: Vec<NodeId> = self.open_nodes().collect();
        let can_hold = |node: &NodeId| match wanted {
            // Nobody has to reach it.
            1 => self.nodes[node].drain.is_none(),
            _ => open.contains(node),
        };
        for set in chosen {
            if set.len() != wanted {
                let got = set.len();
                return Err(PlanError::ChosenReplicas { got, wanted });
            }
            let known = set.iter().filter(|node| self.nodes.contains_key(node));
            if let Some(node) = known.copied().find(|node| !can_hold(node)) {
                return Err(PlanError::Unreachable { node });
            }
        }
        Ok(chosen.to_vec())
    }

    fn place(&self, indexes: std::ops::Range<i32>, replica_count: i32) -> Result<Vec<ReplicaSet>, PlanError> {
        let count = usize::try_from(replica_count).unwrap_or(0);
        let all = self.nodes.len();
        let nodes: Vec<NodeId> = match count > 1 {
            true => self.open_nodes().collect(),
            false => {
                let all = self.nodes.iter();
                let open = all.filter(|(_, node)| node.drain.is_none());
                open.map(|(id, _)| *id).collect()
            }
        };
        if count == 0 || count > all {
            return Err(PlanError::ReplicaCount {
                got: replica_count,
                nodes: all,
            });
        }
        if count > nodes.len() {
            return Err(PlanError::UnreachableNodes {
                got: replica_count,
                reachable: nodes.len(),
            });
        }
        // There are as many sets as nodes: partitions share them.
        let nodes = self.by_turns_of_racks(nodes);
        let sets: Vec<ReplicaSet> = (0..nodes.len())
            .map(|first| self.over_racks(nodes.iter().cycle().skip(first).take(nodes.len()), count))
            .collect();
        let of_index = |index: i32| {
            let index = usize::try_from(index).expect("partition indexes are not negative");
            ReplicaSet::clone(&sets[index % sets.len()])
        };
        Ok(indexes.map(of_index).collect())
    }
}
