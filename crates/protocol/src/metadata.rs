//! The cluster's metadata as a replicated state machine: nodes, topics, partitions, epochs, producer ids.
//!
//! Commands are committed in the metadata log and applied in its order; every core of every node holds the
//! image that results. Now and then the log gets the whole image, and what lies before is trimmed away (`log`). `plan_*` turns a client's wish into a command, `apply` carries it out, and refuses, with no
//! change, what no longer fits. Applying must depend on nothing but the image and the command.
//!
//! **Leader epochs cost nothing to advance.** A partition stores the epoch that was opened explicitly and its leader's
//! count of starts at that moment; its epoch is that epoch plus the starts since. One `StartNode` thereby opens a new
//! epoch on every partition the node leads. Epochs begin at 0 and only rise.

mod apply;
pub mod broker_config;
mod command;
mod config_values;
mod configs;
pub mod group_config;
mod group_log;
mod image;
mod level;
mod log;
mod memory;
mod placement;
mod plan;
mod reassignment;
#[cfg(test)]
mod tests;
pub mod topic_config;
mod topic_id;
mod topic_name;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;

use record::{ClusterId, DirectoryId, Epoch, PartitionId, TopicId};

pub use apply::ApplyError;
pub use broker_config::{BrokerConfig, KnownBrokerConfig};
pub use command::{Address, COMMAND_BYTES_MAX, Command, Drain, Home, ReplicaSet};
pub(crate) use command::{read_address, read_home, write_address, write_home};
pub use config_values::{ConfigSort, ConfigValues};
pub use configs::{ConfigEdit, ConfigOperation, ConfigTarget, ConfigValue, ConfigWish};
pub use group_config::{GROUP_CONFIGS, GroupConfig};
pub use group_log::{Effect, GroupImage, PROPOSAL_COMMANDS_MAX, Process, Proposal, image_entries};
pub use image::ImageWriter;
pub use level::FeatureLevel;
pub use log::{Growth, ImagePart, Replay, ReplayError, image_parts};
pub use memory::Plans;
pub use plan::{NewTopic, NoOrder, PRODUCER_ID_BLOCK, PlanError, PlanLimits};
pub use topic_config::{
    ConfigChange, ConfigEntry, ConfigError, ConfigSource, Route, TopicConfig, TopicSettings,
};
pub use topic_id::fresh_topic_id;
pub use topic_name::{
    TOPIC_NAME_BYTES_MAX, TopicNameError, check_new_name, check_topic_name, is_internal, is_order_log,
    order_log_name,
};

use memory::Taken;
use reassignment::Reassignment;

use crate::leader::NodeId;
use crate::producers::ProducerId;

/// The internal partition that holds the metadata's commands (the identity Kafka gives its own).
pub const METADATA_PARTITION: PartitionId = PartitionId {
    topic: TopicId([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
    index: 0,
};

/// Kafka's name for that partition's topic: its tools would take any topic of this name for it.
pub const METADATA_NAME: &str = "__cluster_metadata";

/// Replicas of a partition of the node's own topics, if there are so many nodes: the loss of any one loses nothing. The log of an order has those of its lane.
pub const INTERNAL_REPLICAS: i32 = 3;

/// The settings of that partition: kept for ever and flushed before anybody acts by it, whatever topics have by default.
/// Commands that retention took would be missing after the next start.
#[must_use]
pub fn metadata_settings() -> TopicSettings {
    let mut config = TopicConfig::new();
    config
        .change(&[ConfigChange::set("retention.ms", "-1")])
        .expect("a valid value");
    TopicSettings::resolve(&config, &TopicConfig::new())
}

/// The image: everything the commands applied so far have made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// The configs that topics have unless somebody sets others. Every node is started with its own: they shape the typed
    /// settings only, never what a command does.
    started_with: TopicConfig,
    /// The node whose image this is: what is set for that broker shapes the settings, too.
    own: Option<NodeId>,
    /// Configs that clients have set for brokers; the entry without a node is for all of them.
    broker_configs: BTreeMap<Option<NodeId>, BrokerConfig>,
    /// And for groups.
    group_configs: BTreeMap<Arc<str>, GroupConfig>,
    /// Configs of topics that set nothing themselves, put together from the three above.
    defaults: TopicConfig,
    cluster: Option<ClusterId>,
    level: FeatureLevel,
    nodes: BTreeMap<NodeId, Node>,
    /// Nodes that have joined and not started yet.
    joined: BTreeMap<NodeId, Home>,
    topics: BTreeMap<TopicId, Topic>,
    names: BTreeMap<Arc<str>, TopicId>,
    /// Names with `.` and `_` made the same, to find those that would collide.
    folded_names: BTreeMap<Box<str>, TopicId>,
    next_producer_id: ProducerId,
    partition_count: usize,
    /// Memory that the topics take, and for whom.
    taken: Taken,
}

/// A node that has started at least once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The addresses by which clients reach it.
    pub address: Address,
    /// The starts since it joined; 0 in its first run.
    pub incarnation: i32,
    /// For other nodes; `None` if its last start did not say it.
    pub home: Option<Home>,
    /// It gives up all that it holds, and gets nothing more.
    pub drain: Option<Drain>,
    /// The rack that it shares with nodes that fail at the same time, as its last start said; `None` if it named none.
    pub rack: Option<Rack>,
}

/// The name of a rack.
pub type Rack = Arc<str>;

/// A topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Its identity.
    pub id: TopicId,
    /// Its name.
    pub name: Arc<str>,
    /// The configs that it sets itself.
    pub config: TopicConfig,
    /// The configs in force.
    pub settings: TopicSettings,
    partitions: Vec<Partition>,
    /// Bytes that it takes in the image.
    bytes: usize,
    /// The address that these count for.
    client: Option<IpAddr>,
}

impl Topic {
    /// The number of its partitions; their indexes are 0 up to this.
    #[must_use]
    pub fn partition_count(&self) -> i32 {
        i32::try_from(self.partitions.len()).expect("checked before partitions are created")
    }

    /// The nodes that hold a partition.
    #[must_use]
    pub fn replicas(&self, index: i32) -> Option<&ReplicaSet> {
        let index = usize::try_from(index).ok()?;
        self.partitions.get(index).map(|partition| &partition.replicas)
    }

    /// Says whether several nodes hold a partition, or have held it: then they are told of its epochs (`Metadata::assignment`).
    #[must_use]
    pub fn is_shared(&self, index: i32) -> bool {
        let index = usize::try_from(index).ok();
        let found = index.and_then(|index| self.partitions.get(index));
        found.is_some_and(|partition| partition.is_shared)
    }

    /// Says whether a partition's replicas change, or have changed so lately that their log is not settled.
    #[must_use]
    pub fn is_changing(&self, index: i32) -> bool {
        let index = usize::try_from(index).ok();
        let found = index.and_then(|index| self.partitions.get(index));
        found.is_some_and(|partition| partition.reassignment.is_some())
    }

    /// All nodes that hold some of a partition's log (`Metadata::holders`).
    pub fn holders(&self, index: i32) -> impl Iterator<Item = NodeId> + '_ {
        let index = usize::try_from(index).ok();
        let found = index.and_then(|index| self.partitions.get(index));
        found.into_iter().flat_map(Partition::holders)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Partition {
    replicas: ReplicaSet,
    leader: NodeId,
    /// The epoch opened when `leader` took over ...
    opened_epoch: Epoch,
    /// ... and the leader's incarnation at that moment.
    opened_incarnation: i32,
    /// Several nodes hold it, or have held it.
    is_shared: bool,
    /// The change of its replicas that is under way; mostly none.
    reassignment: Option<Box<Reassignment>>,
    /// Members whose disks may have lost what they acknowledged; mostly none.
    uncertain: Vec<NodeId>,
    /// The epochs that were opened uncleanly, the last ones of them; mostly none.
    unclean: Vec<Epoch>,
}

/// The leader of a partition, and its epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionState {
    /// The leader.
    pub leader: NodeId,
    /// Its epoch.
    pub epoch: Epoch,
    /// The nodes that hold the partition.
    pub replicas: ReplicaSet,
    /// The replica set that it is to have, where that is another one.
    pub target: Option<ReplicaSet>,
    /// Several nodes hold it, or have held it.
    pub is_shared: bool,
    /// Replicas whose disks may have lost what they acknowledged: they count for nothing.
    pub uncertain: Vec<NodeId>,
    /// The epochs that an operator had opened without replicas that may have held more: before each, acknowledged records may be lost.
    pub unclean: Vec<Epoch>,
}

impl PartitionState {
    /// The replicas, and behind them the nodes that are to become some.
    pub fn holding(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.replicas.iter().copied().chain(self.joining())
    }

    /// The replicas that count.
    pub fn certain(&self) -> impl Iterator<Item = NodeId> + '_ {
        let all = self.replicas.iter().copied();
        all.filter(|node| !self.uncertain.contains(node))
    }

    /// The nodes that are to become replicas.
    pub fn joining(&self) -> impl Iterator<Item = NodeId> + '_ {
        let target = self.target.iter().flat_map(|target| target.iter().copied());
        target.filter(|node| !self.replicas.contains(node))
    }
}

impl Metadata {
    /// The image before the first command. `defaults` are the configs of topics that set none of their own.
    #[must_use]
    pub fn new(defaults: TopicConfig) -> Metadata {
        Metadata {
            started_with: defaults.clone(),
            own: None,
            broker_configs: BTreeMap::new(),
            group_configs: BTreeMap::new(),
            defaults,
            cluster: None,
            level: FeatureLevel::FIRST,
            nodes: BTreeMap::new(),
            joined: BTreeMap::new(),
            topics: BTreeMap::new(),
            names: BTreeMap::new(),
            folded_names: BTreeMap::new(),
            next_producer_id: ProducerId(0),
            partition_count: 0,
            taken: Taken::default(),
        }
    }

    /// The same image as this node has it: what clients set for this broker counts here.
    #[must_use]
    pub fn of_node(mut self, node: NodeId) -> Metadata {
        self.own = Some(node);
        self.resolve_settings();
        self
    }

    /// The cluster's identity, once it is formatted.
    #[must_use]
    pub fn cluster(&self) -> Option<ClusterId> {
        self.cluster
    }

    /// The configs of topics that set none of their own, whoever set them.
    #[must_use]
    pub fn defaults(&self) -> &TopicConfig {
        &self.defaults
    }

    /// A node.
    #[must_use]
    pub fn node(&self, node: NodeId) -> Option<&Node> {
        self.nodes.get(&node)
    }

    /// What other nodes know of a node, whether or not it has started yet.
    #[must_use]
    pub fn home(&self, node: NodeId) -> Option<&Home> {
        let started = self.nodes.get(&node).map(|node| node.home.as_ref());
        started.unwrap_or_else(|| self.joined.get(&node))
    }

    /// The homes of all nodes, of those that have not started yet too.
    pub fn homes(&self) -> impl Iterator<Item = (NodeId, &Home)> + '_ {
        let started = self.nodes.iter();
        let started = started.filter_map(|(id, node)| Some((*id, node.home.as_ref()?)));
        started.chain(self.joined.iter().map(|(id, home)| (*id, home)))
    }

    /// The node whose directory this is, if it has joined and not started yet.
    #[must_use]
    pub fn joined_as(&self, directory: DirectoryId) -> Option<NodeId> {
        let mut joined = self.joined.iter();
        joined
            .find(|(_, home)| home.directory == directory)
            .map(|(node, _)| *node)
    }

    /// The nodes that can hold replicas together with others: they have started, and others reach them.
    pub(crate) fn reachable_nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        let is_reachable = |node: &Node| node.home.as_ref().is_some_and(|home| home.peer.is_some());
        let reachable = self.nodes.iter().filter(move |(_, node)| is_reachable(node));
        reachable.map(|(id, _)| *id)
    }

    /// The number of replicas that a partition of a topic with these configs gets if nobody chooses one: so many, or all that there are.
    ///
    /// Where nodes of earlier releases may be, a compacted topic gets one: its log has gaps, which they do not take.
    #[must_use]
    pub fn default_replicas(&self, config: &[ConfigChange], wanted: i32) -> i32 {
        let nodes = i32::try_from(self.open_nodes().count()).unwrap_or(i32::MAX);
        match !self.replicates_compacted() && self.is_compacted(config) {
            true => 1,
            false => nodes.clamp(1, wanted.max(1)),
        }
    }

    /// Says whether a topic with these configs is compacted.
    pub(crate) fn is_compacted(&self, config: &[ConfigChange]) -> bool {
        let mut wanted = TopicConfig::new();
        let is_sound = wanted.change(config).is_ok();
        is_sound
            && TopicSettings::resolve(&wanted, &self.defaults)
                .compaction
                .is_some()
    }

    /// All nodes that have started, sorted by id.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = (NodeId, &Node)> + '_ {
        self.nodes.iter().map(|(id, node)| (*id, node))
    }

    /// The topic with this identity.
    #[must_use]
    pub fn topic(&self, id: TopicId) -> Option<&Topic> {
        self.topics.get(&id)
    }

    /// The topic with this name.
    #[must_use]
    pub fn topic_named(&self, name: &str) -> Option<&Topic> {
        self.names
            .get(name)
            .map(|id| self.topics.get(id).expect("every name belongs to a topic"))
    }

    /// All topics, sorted by name.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = &Topic> + '_ {
        self.names
            .values()
            .map(|id| self.topics.get(id).expect("every name belongs to a topic"))
    }

    /// The topics from this name on, sorted by name.
    pub fn topics_from(&self, name: &str) -> impl Iterator<Item = &Topic> {
        let bounds = (Bound::Included(name), Bound::Unbounded);
        self.names
            .range::<str, _>(bounds)
            .map(|(_, id)| self.topics.get(id).expect("every name belongs to a topic"))
    }

    /// The same without those that are in no list.
    pub fn listed_from(&self, name: &str) -> impl Iterator<Item = &Topic> {
        self.topics_from(name).filter(|topic| !is_order_log(&topic.name))
    }

    /// The topics that keep orders of others.
    pub fn order_logs(&self) -> impl Iterator<Item = &Topic> {
        let from = self.topics_from(topic_name::ORDER_LOG);
        let named = from.take_while(|topic| topic.name.starts_with(topic_name::ORDER_LOG));
        named.filter(|topic| is_order_log(&topic.name))
    }

    /// Returns the number of partitions of all topics together.
    #[must_use]
    pub fn partition_count(&self) -> usize {
        self.partition_count
    }

    /// The first producer id that has not been handed out.
    #[must_use]
    pub fn next_producer_id(&self) -> ProducerId {
        self.next_producer_id
    }

    /// Returns the leader of a partition, and its epoch.
    #[must_use]
    pub fn partition(&self, partition: PartitionId) -> Option<PartitionState> {
        self.find_partition(partition).map(|found| self.state_of(found))
    }

    /// Returns the leader of each partition of a topic, by index.
    pub fn partitions<'a>(&'a self, topic: &'a Topic) -> impl ExactSizeIterator<Item = PartitionState> + 'a {
        topic.partitions.iter().map(|partition| self.state_of(partition))
    }

    fn find_partition(&self, partition: PartitionId) -> Option<&Partition> {
        let index = usize::try_from(partition.index).ok()?;
        self.topics.get(&partition.topic)?.partitions.get(index)
    }

    fn state_of(&self, partition: &Partition) -> PartitionState {
        PartitionState {
            leader: partition.leader,
            epoch: self.epoch_of(partition),
            replicas: Arc::clone(&partition.replicas),
            is_shared: partition.is_shared,
            uncertain: partition.uncertain.clone(),
            unclean: partition.unclean.clone(),
            target: match partition.reassignment.as_deref() {
                Some(Reassignment::Filling { target, .. }) => Some(Arc::clone(target)),
                _ => None,
            },
        }
    }

    fn epoch_of(&self, partition: &Partition) -> Epoch {
        let leader = self
            .nodes
            .get(&partition.leader)
            .expect("a leader is a known node");
        let starts = leader.incarnation - partition.opened_incarnation;
        assert!(starts >= 0, "incarnations only rise");
        // Each step of either is one command: a cluster does not live to see this overflow.
        Epoch(
            partition
                .opened_epoch
                .0
                .checked_add(starts)
                .expect("epochs do not run out"),
        )
    }
}
