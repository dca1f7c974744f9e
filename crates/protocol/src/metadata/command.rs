//! The commands that change the cluster's metadata, and their bytes in the metadata log.

mod fields;

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use record::{ClusterId, DirectoryId, Epoch, PartitionId, TopicId};

use super::broker_config::KnownBrokerConfig;
use super::topic_config::ConfigChange;
use super::{FeatureLevel, Rack};
use crate::encoding::{DecodeError, Reader, Writer};
use crate::leader::NodeId;
use crate::producers::ProducerId;

pub(crate) use fields::{read_address, read_home, write_address, write_home};
pub(in crate::metadata) use fields::{
    read_broker, read_changes, read_client, read_drain, read_flag, read_rack, read_replica_set, write_broker,
    write_changes, write_client, write_drain, write_rack, write_replica_set,
};
use fields::{read_partition, read_replica_sets, write_partition, write_replica_sets};

/// The address by which clients reach a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// A name or an IP address.
    pub host: Arc<str>,
    /// The TCP port.
    pub port: u16,
}

/// What other nodes must know of a node to speak with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// The directory that its id belongs to.
    pub directory: DirectoryId,
    /// The number of its shards; at least one.
    pub shards: u16,
    /// The address by which other nodes reach it; `None` if none can.
    pub peer: Option<Address>,
    /// Which start of the node this is, as its directory counts them; 0 before the first, and of a node that is alone.
    pub start: u64,
}

/// A node is to give up all that it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drain {
    /// The node that gets it, where that can; otherwise those that hold the fewest replicas.
    pub to: Option<NodeId>,
}

/// The nodes that hold one partition; the first is its first leader.
pub type ReplicaSet = Arc<[NodeId]>;

/// One change of the metadata. Commands carry decisions, not wishes: ids, replica sets and epochs are already chosen,
/// so that every node that applies them comes out the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// The first command of every cluster.
    FormatCluster {
        /// Its identity for ever.
        cluster: ClusterId,
    },
    /// A node starts. Starting again opens a new epoch on every partition the node leads, in this one command however many they are.
    StartNode {
        /// The node.
        node: NodeId,
        /// The addresses by which clients reach it from now on.
        address: Address,
        /// For other nodes; `None` in logs that do not say it.
        home: Option<Home>,
        /// See [`Node::rack`](super::Node::rack).
        rack: Option<Rack>,
    },
    /// An id is given to a directory, for the node that is to start over it.
    JoinNode {
        /// The id: one that no node has had.
        node: NodeId,
        /// For other nodes.
        home: Home,
    },
    /// Creates a topic.
    CreateTopic {
        /// Its identity for ever.
        id: TopicId,
        /// Its name.
        name: Arc<str>,
        /// The replicas of each partition, by index.
        partitions: Vec<ReplicaSet>,
        /// Configs that differ from the defaults.
        config: Vec<ConfigChange>,
        /// The address of the client whose wish it is; `None` for the node's own, and in logs that do not say it.
        client: Option<IpAddr>,
    },
    /// Deletes a topic and its records.
    DeleteTopic {
        /// Its id.
        id: TopicId,
    },
    /// Adds partitions to a topic.
    CreatePartitions {
        /// The topic.
        id: TopicId,
        /// The number of partitions that it has so far: somebody else may have been faster.
        first_index: i32,
        /// The replicas of each new partition.
        partitions: Vec<ReplicaSet>,
        /// See `CreateTopic`.
        client: Option<IpAddr>,
    },
    /// Changes configs of a topic.
    SetTopicConfig {
        /// The topic.
        id: TopicId,
        /// The changes.
        changes: Vec<ConfigChange>,
        /// See `CreateTopic`.
        client: Option<IpAddr>,
    },
    /// Changes configs of one broker or of all.
    SetBrokerConfig {
        /// The broker; `None` for all.
        broker: Option<NodeId>,
        /// The changes.
        changes: Vec<ConfigChange>,
    },
    /// Changes configs of one group, which need not be there.
    SetGroupConfig {
        /// Its name.
        group: Arc<str>,
        /// The changes.
        changes: Vec<ConfigChange>,
    },
    /// Hands out the producer ids from `first` up to, not including, `next`.
    AllocateProducerIds {
        /// The first id handed out; somebody else may have taken it.
        first: ProducerId,
        /// The first id left for others.
        next: ProducerId,
    },
    /// Opens the next epoch of one partition under a leader.
    OpenEpoch {
        /// The partition.
        partition: PartitionId,
        /// The epoch: one above the present one.
        epoch: Epoch,
        /// Its leader, one of the replicas.
        leader: NodeId,
    },
    /// Opens the next epoch of one partition, from which on it is to have other replicas.
    SetReplicas {
        /// The partition.
        partition: PartitionId,
        /// The epoch: one above the present one.
        epoch: Epoch,
        /// The replicas. Those that are none yet are sent the log first.
        replicas: ReplicaSet,
    },
    /// Opens the next epoch of one partition with what these members hold, though others may hold more: an operator's word. What only others
    /// have is lost.
    OpenUncleanly {
        /// The partition.
        partition: PartitionId,
        /// The epoch: one above the present one.
        epoch: Epoch,
        /// The members that are left, all of whom are asked; the first leads.
        replicas: ReplicaSet,
    },
    /// The leader of an epoch says that a node which is to become a replica holds all that is committed. The last one opens the next epoch.
    CaughtUp {
        /// The partition.
        partition: PartitionId,
        /// The epoch: the present one.
        epoch: Epoch,
        /// The node.
        replica: NodeId,
        /// The start of it that does so.
        start: u64,
    },
    /// The leader of an epoch says that its ack quorum holds all that the replicas before have committed: they may give it up.
    Settled {
        /// The partition.
        partition: PartitionId,
        /// The epoch: the present one.
        epoch: Epoch,
    },
    /// Has a node give up all that it holds and get nothing more; or not any longer.
    DrainNode {
        /// The node.
        node: NodeId,
        /// `None` if it may hold something again.
        drain: Option<Drain>,
    },
    /// The disk of a node may have lost what it acknowledged: it counts for nothing in its partitions until their leaders have seen that it holds
    /// everything again.
    DoubtNode {
        /// The node.
        node: NodeId,
        /// The start that found so.
        start: u64,
    },
    /// A node that holds nothing is none of the cluster's any more.
    RemoveNode {
        /// The node.
        node: NodeId,
    },
    /// From here on the log may hold what programs read that know this level.
    SetFeatureLevel {
        /// The level: above the present one.
        level: FeatureLevel,
    },
}

/// The largest command that a plan may come to, in bytes: a topic of as many partitions as it can have, with eight replicas
/// each. Several commands share a batch, and none may make it too large for the metadata's partition.
pub const COMMAND_BYTES_MAX: usize = 384 << 10;

const FORMAT: &str = "metadata command";
/// Says since version 2 for which client's address topics are made or changed, and since 3 how other nodes reach a node. Since 4 there are
/// changes of replicas, and nodes that are drained or removed, since 5 the racks of nodes, since 6 epochs that are opened uncleanly, since 7
/// feature levels, and since 8 configs of groups.
const VERSION: u8 = 8;
const VERSION_OF_LEVELS: u8 = 7;
/// All other commands are written in this: programs that know no feature levels read it.
const VERSION_BEFORE_LEVELS: u8 = 5;
const VERSION_OF_UNCLEAN_OPENINGS: u8 = 6;
/// 16 is a part of an image.
const DOUBT_KIND: u8 = 17;
const UNCLEAN_KIND: u8 = 18;
const LEVEL_KIND: u8 = 19;
const GROUP_CONFIG_KIND: u8 = 20;
const FIRST_WITH_CLIENTS: u8 = 2;
const FIRST_WITH_HOMES: u8 = 3;
const FIRST_WITH_RACKS: u8 = 5;

/// Says whether a config, of topics or of brokers, is one by which less can be kept.
fn limits_what_is_kept(config: &str) -> bool {
    let of_topics = ["retention.ms", "retention.bytes", "cleanup.policy"];
    let of_brokers = of_topics.map(KnownBrokerConfig::of_topic_config);
    of_topics.contains(&config) || of_brokers.iter().flatten().any(|known| known.name == config)
}

impl Command {
    /// Says whether it leaves everything as it is: then it need not be committed.
    #[must_use]
    pub fn changes_nothing(&self) -> bool {
        match self {
            Command::SetTopicConfig { changes, .. }
            | Command::SetBrokerConfig { changes, .. }
            | Command::SetGroupConfig { changes, .. } => changes.is_empty(),
            _ => false,
        }
    }

    /// Returns the bytes of the config values that it sets.
    #[must_use]
    pub fn config_bytes(&self) -> usize {
        match self {
            Command::CreateTopic { config: changes, .. }
            | Command::SetTopicConfig { changes, .. }
            | Command::SetBrokerConfig { changes, .. }
            | Command::SetGroupConfig { changes, .. } => {
                let values = changes.iter().filter_map(|change| change.value.as_ref());
                values.map(|value| value.len()).sum()
            }
            _ => 0,
        }
    }

    /// Returns the number of partitions that it adds.
    #[must_use]
    pub fn new_partition_count(&self) -> usize {
        match self {
            Command::CreateTopic { partitions, .. } | Command::CreatePartitions { partitions, .. } => {
                partitions.len()
            }
            _ => 0,
        }
    }

    /// Says whether it can make room on a full disk. A change of retention can, whatever to: it costs little.
    #[must_use]
    pub fn frees_room(&self) -> bool {
        match self {
            Command::DeleteTopic { .. } => true,
            Command::SetTopicConfig { changes, .. } | Command::SetBrokerConfig { changes, .. } => {
                changes.iter().all(|change| limits_what_is_kept(&change.name))
            }
            _ => false,
        }
    }

    /// Says whether it may be journaled while the disk has less than its reserve left: it frees room, or the node itself needs it
    /// to serve what is there.
    #[must_use]
    pub fn may_use_reserve(&self) -> bool {
        match self {
            Command::FormatCluster { .. }
            | Command::StartNode { .. }
            | Command::JoinNode { .. }
            | Command::OpenEpoch { .. }
            | Command::OpenUncleanly { .. }
            | Command::CaughtUp { .. }
            | Command::Settled { .. }
            | Command::DrainNode { .. }
            | Command::RemoveNode { .. }
            | Command::DoubtNode { .. }
            | Command::SetFeatureLevel { .. }
            | Command::AllocateProducerIds { .. } => true,
            Command::CreateTopic { .. }
            | Command::CreatePartitions { .. }
            | Command::SetReplicas { .. }
            | Command::SetGroupConfig { .. } => false,
            Command::DeleteTopic { .. }
            | Command::SetTopicConfig { .. }
            | Command::SetBrokerConfig { .. } => self.frees_room(),
        }
    }

    /// Says whether clients can have it made again without end.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        matches!(
            self,
            Command::SetTopicConfig { .. }
                | Command::SetBrokerConfig { .. }
                | Command::SetGroupConfig { .. }
                | Command::DrainNode { .. }
                | Command::AllocateProducerIds { .. }
        )
    }

    /// The command as bytes: version, kind, fields.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::open(match self {
            Command::SetGroupConfig { .. } => VERSION,
            Command::SetFeatureLevel { .. } => VERSION_OF_LEVELS,
            Command::OpenUncleanly { .. } => VERSION_OF_UNCLEAN_OPENINGS,
            _ => VERSION_BEFORE_LEVELS,
        });
        match self {
            Command::FormatCluster { cluster } => {
                writer.u8(1);
                writer.bytes_16(cluster.0);
            }
            Command::StartNode {
                node,
                address,
                home,
                rack,
            } => {
                writer.u8(2);
                writer.i32(node.0);
                write_address(&mut writer, address);
                write_home(&mut writer, home.as_ref());
                write_rack(&mut writer, rack.as_ref());
            }
            Command::JoinNode { node, home } => {
                writer.u8(10);
                writer.i32(node.0);
                write_home(&mut writer, Some(home));
            }
            Command::CreateTopic {
                id,
                name,
                partitions,
                config,
                client,
            } => {
                writer.u8(3);
                writer.bytes_16(id.0);
                writer.text(name);
                write_replica_sets(&mut writer, partitions);
                write_changes(&mut writer, config);
                write_client(&mut writer, *client);
            }
            Command::DeleteTopic { id } => {
                writer.u8(4);
                writer.bytes_16(id.0);
            }
            Command::CreatePartitions {
                id,
                first_index,
                partitions,
                client,
            } => {
                writer.u8(5);
                writer.bytes_16(id.0);
                writer.i32(*first_index);
                write_replica_sets(&mut writer, partitions);
                write_client(&mut writer, *client);
            }
            Command::SetTopicConfig { id, changes, client } => {
                writer.u8(6);
                writer.bytes_16(id.0);
                write_changes(&mut writer, changes);
                write_client(&mut writer, *client);
            }
            Command::SetBrokerConfig { broker, changes } => {
                writer.u8(9);
                write_broker(&mut writer, *broker);
                write_changes(&mut writer, changes);
            }
            Command::SetGroupConfig { group, changes } => {
                writer.u8(GROUP_CONFIG_KIND);
                writer.text(group);
                write_changes(&mut writer, changes);
            }
            Command::AllocateProducerIds { first, next } => {
                writer.u8(7);
                writer.i64(first.0);
                writer.i64(next.0);
            }
            Command::OpenEpoch {
                partition,
                epoch,
                leader,
            } => {
                writer.u8(8);
                write_partition(&mut writer, *partition);
                writer.i32(epoch.0);
                writer.i32(leader.0);
            }
            Command::SetReplicas {
                partition,
                epoch,
                replicas,
            } => {
                writer.u8(11);
                write_partition(&mut writer, *partition);
                writer.i32(epoch.0);
                write_replica_set(&mut writer, replicas);
            }
            Command::OpenUncleanly {
                partition,
                epoch,
                replicas,
            } => {
                writer.u8(UNCLEAN_KIND);
                write_partition(&mut writer, *partition);
                writer.i32(epoch.0);
                write_replica_set(&mut writer, replicas);
            }
            Command::CaughtUp {
                partition,
                epoch,
                replica,
                start,
            } => {
                writer.u8(12);
                write_partition(&mut writer, *partition);
                writer.i32(epoch.0);
                writer.i32(replica.0);
                writer.u64(*start);
            }
            Command::Settled { partition, epoch } => {
                writer.u8(13);
                write_partition(&mut writer, *partition);
                writer.i32(epoch.0);
            }
            Command::DrainNode { node, drain } => {
                writer.u8(14);
                writer.i32(node.0);
                write_drain(&mut writer, drain.as_ref());
            }
            Command::RemoveNode { node } => {
                writer.u8(15);
                writer.i32(node.0);
            }
            Command::DoubtNode { node, start } => {
                writer.u8(DOUBT_KIND);
                writer.i32(node.0);
                writer.u64(*start);
            }
            Command::SetFeatureLevel { level } => {
                writer.u8(LEVEL_KIND);
                writer.u16(level.0);
            }
        }
        writer.close()
    }

    /// Reads a command back.
    ///
    /// # Errors
    /// The bytes are corrupt, or of a version or kind that this program does not know. A node that meets one must stop
    /// there: skipping it would leave it with other metadata than its peers.
    pub fn decode(bytes: &[u8]) -> Result<Command, DecodeError> {
        let mut reader = Reader::open(bytes, FORMAT, VERSION)?;
        let command = read_command(&mut reader, bytes[0])?;
        reader.close()?;
        Ok(command)
    }
}

fn read_command(reader: &mut Reader<'_>, version: u8) -> Result<Command, DecodeError> {
    let client = |reader: &mut Reader<'_>| match version {
        ..FIRST_WITH_CLIENTS => Ok(None),
        _ => read_client(reader),
    };
    let kind = reader.u8("command kind")?;
    Ok(match kind {
        1 => Command::FormatCluster {
            cluster: ClusterId(reader.bytes_16("cluster id")?),
        },
        2 => Command::StartNode {
            node: NodeId(reader.i32("node")?),
            address: read_address(reader)?,
            home: match version {
                ..FIRST_WITH_HOMES => None,
                _ => read_home(reader)?,
            },
            rack: match version {
                ..FIRST_WITH_RACKS => None,
                _ => read_rack(reader)?,
            },
        },
        3 => Command::CreateTopic {
            id: TopicId(reader.bytes_16("topic id")?),
            name: reader.text("topic name")?.into(),
            partitions: read_replica_sets(reader)?,
            config: read_changes(reader)?,
            client: client(reader)?,
        },
        4 => Command::DeleteTopic {
            id: TopicId(reader.bytes_16("topic id")?),
        },
        5 => Command::CreatePartitions {
            id: TopicId(reader.bytes_16("topic id")?),
            first_index: reader.i32("partition index")?,
            partitions: read_replica_sets(reader)?,
            client: client(reader)?,
        },
        6 => Command::SetTopicConfig {
            id: TopicId(reader.bytes_16("topic id")?),
            changes: read_changes(reader)?,
            client: client(reader)?,
        },
        7 => Command::AllocateProducerIds {
            first: ProducerId(reader.i64("producer id")?),
            next: ProducerId(reader.i64("producer id")?),
        },
        8 => Command::OpenEpoch {
            partition: read_partition(reader)?,
            epoch: Epoch(reader.i32("epoch")?),
            leader: NodeId(reader.i32("leader")?),
        },
        9 => {
            let broker = read_broker(reader)?;
            Command::SetBrokerConfig {
                broker,
                changes: read_changes(reader)?,
            }
        }
        10 => Command::JoinNode {
            node: NodeId(reader.i32("node")?),
            home: read_home(reader)?.ok_or(DecodeError::Impossible { field: "home" })?,
        },
        11 => Command::SetReplicas {
            partition: read_partition(reader)?,
            epoch: Epoch(reader.i32("epoch")?),
            replicas: read_replica_set(reader)?,
        },
        12 => Command::CaughtUp {
            partition: read_partition(reader)?,
            epoch: Epoch(reader.i32("epoch")?),
            replica: NodeId(reader.i32("replica")?),
            start: reader.u64("start of a node")?,
        },
        13 => Command::Settled {
            partition: read_partition(reader)?,
            epoch: Epoch(reader.i32("epoch")?),
        },
        14 => Command::DrainNode {
            node: NodeId(reader.i32("node")?),
            drain: read_drain(reader)?,
        },
        15 => Command::RemoveNode {
            node: NodeId(reader.i32("node")?),
        },
        UNCLEAN_KIND => Command::OpenUncleanly {
            partition: read_partition(reader)?,
            epoch: Epoch(reader.i32("epoch")?),
            replicas: read_replica_set(reader)?,
        },
        DOUBT_KIND => Command::DoubtNode {
            node: NodeId(reader.i32("node")?),
            start: reader.u64("start of a node")?,
        },
        LEVEL_KIND => Command::SetFeatureLevel {
            level: read_level(reader)?,
        },
        GROUP_CONFIG_KIND => Command::SetGroupConfig {
            group: reader.text("group")?.into(),
            changes: read_changes(reader)?,
        },
        value => {
            return Err(DecodeError::UnknownKind {
                field: "command kind",
                value,
            });
        }
    })
}

/// A level that this program does not know ends it: what follows may be of any form.
pub(super) fn read_level(reader: &mut Reader<'_>) -> Result<FeatureLevel, DecodeError> {
    let level = FeatureLevel(reader.u16("feature level")?);
    match (FeatureLevel::FIRST..=FeatureLevel::NEWEST).contains(&level) {
        true => Ok(level),
        false => Err(DecodeError::UnknownLevel {
            got: level.0,
            known: FeatureLevel::NEWEST.0,
        }),
    }
}
