//! The whole image as bytes: what a start reads instead of every command there ever was.
//!
//! In the metadata log an image stands in parts, each a record, one after the other with no command between them (`log`).
//! The bytes of equal images are equal. docs/formats/metadata.md has the layout.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use crc_fast::{CrcAlgorithm, Digest};
use record::{ClusterId, Epoch, Offset, TopicId};

use super::broker_config::BrokerConfig;
use super::command::{
    read_address, read_broker, read_changes, read_client, read_drain, read_flag, read_home, read_level,
    read_rack, read_replica_set,
};
use super::command::{
    write_address, write_broker, write_changes, write_client, write_drain, write_home, write_rack,
    write_replica_set,
};
use super::memory::new_topic_bytes;
use super::reassignment::{Reassignment, UNCLEAN_EPOCHS_MAX};
use super::topic_config::{ConfigChange, TopicConfig, TopicSettings};
use super::{FeatureLevel, Metadata, Node, Partition, Topic};
use crate::encoding::{DecodeError, Reader, Writer};
use crate::leader::NodeId;
use crate::producers::ProducerId;

const FORMAT: &str = "metadata image";
/// Says since version 2 how other nodes reach a node, and which have joined and not started; since 3 which replicas change, and which nodes are
/// drained; since 4 the racks of nodes; since 5 the epochs that were opened uncleanly; since 6 the feature level; since 7 the configs of groups.
const VERSION: u8 = 7;
/// An image of the first feature level is written in this, or in the next if an epoch was opened uncleanly: programs that know no levels read it.
const VERSION_BEFORE_LEVELS: u8 = 4;
const FIRST_WITH_HOMES: u8 = 2;
const FIRST_WITH_REASSIGNMENTS: u8 = 3;
const FIRST_WITH_RACKS: u8 = 4;
const FIRST_WITH_UNCLEAN_EPOCHS: u8 = 5;
const FIRST_WITH_LEVELS: u8 = 6;
const FIRST_WITH_GROUP_CONFIGS: u8 = 7;
const CHECKSUM_BYTES: usize = 8;
/// Incarnations and epochs: far from what counting up could reach, so that what goes on from there never overflows.
const COUNT_MAX: i32 = i32::MAX / 2;
/// Far more partitions than all topics may have together: an image that claims more is damaged. A few bytes stand for many of them.
const PARTITIONS_MAX: usize = 1 << 20;

/// Writes an image in steps, so that a large one keeps nobody waiting. The image must be the same in all of them.
pub struct ImageWriter {
    writer: Writer,
    digest: Digest,
    digested_bytes: usize,
    /// The last topic written.
    last: Option<TopicId>,
    version: u8,
}

impl ImageWriter {
    /// Begins the image that reflects every command before `place`, with everything but the topics.
    ///
    /// # Panics
    /// The cluster has not been formatted: its log is empty.
    #[must_use]
    pub fn begin(image: &Metadata, place: Offset) -> ImageWriter {
        let mut partitions = image.topics.values().flat_map(|topic| &topic.partitions);
        let version = match image.level {
            FeatureLevel::FIRST if !partitions.any(|partition| !partition.unclean.is_empty()) => {
                VERSION_BEFORE_LEVELS
            }
            FeatureLevel::FIRST => FIRST_WITH_UNCLEAN_EPOCHS,
            // Programs that know the level may know no configs of groups.
            _ if image.group_configs.is_empty() => FIRST_WITH_LEVELS,
            _ => VERSION,
        };
        let mut writer = Writer::open(version);
        writer.bytes_16(image.cluster.expect("a cluster is formatted first").0);
        writer.i64(image.next_producer_id.0);
        if version >= FIRST_WITH_LEVELS {
            writer.u16(image.level.0);
        }
        writer.count(image.nodes.len());
        for (node, known) in &image.nodes {
            writer.i32(node.0);
            write_address(&mut writer, &known.address);
            writer.i32(known.incarnation);
            write_home(&mut writer, known.home.as_ref());
            write_drain(&mut writer, known.drain.as_ref());
            write_rack(&mut writer, known.rack.as_ref());
        }
        writer.count(image.joined.len());
        for (node, home) in &image.joined {
            writer.i32(node.0);
            write_home(&mut writer, Some(home));
        }
        writer.count(image.broker_configs.len());
        for (broker, config) in &image.broker_configs {
            write_broker(&mut writer, *broker);
            write_values(&mut writer, config.iter());
        }
        if version >= FIRST_WITH_GROUP_CONFIGS {
            writer.count(image.group_configs.len());
            for (group, config) in &image.group_configs {
                writer.text(group);
                write_values(&mut writer, config.iter());
            }
        }
        writer.count(image.topics.len());
        ImageWriter {
            writer,
            digest: digest_at(place),
            digested_bytes: 0,
            last: None,
            version,
        }
    }

    /// Writes further topics until they came to so many bytes. Returns whether any are left.
    pub fn go_on(&mut self, image: &Metadata, bytes: usize) -> bool {
        let enough = self.writer.bytes().len() + bytes;
        let rest = (
            self.last.map_or(Bound::Unbounded, Bound::Excluded),
            Bound::Unbounded,
        );
        let mut is_left = false;
        for (id, topic) in image.topics.range(rest) {
            is_left = self.writer.bytes().len() >= enough;
            if is_left {
                break;
            }
            write_topic(&mut self.writer, topic, self.version);
            self.last = Some(*id);
        }
        self.digest.update(&self.writer.bytes()[self.digested_bytes..]);
        self.digested_bytes = self.writer.bytes().len();
        is_left
    }

    /// Ends the image with its checksum.
    #[must_use]
    pub fn finish(mut self) -> Bytes {
        assert_eq!(
            self.digested_bytes,
            self.writer.bytes().len(),
            "all topics were written"
        );
        self.writer.u64(self.digest.finalize());
        self.writer.close()
    }
}

impl Metadata {
    /// Reads the image that reflects every command before `place`, as this node has it: with what the present one was started with.
    ///
    /// # Errors
    /// The bytes are not what was written there, or of a version that this program does not know.
    pub(super) fn read_image(&self, place: Offset, bytes: &[u8]) -> Result<Metadata, DecodeError> {
        let damaged = DecodeError::Impossible {
            field: "checksum of the metadata image",
        };
        let content_bytes = bytes.len().checked_sub(CHECKSUM_BYTES).ok_or(damaged.clone())?;
        let (content, sum) = bytes.split_at(content_bytes);
        let mut digest = digest_at(place);
        digest.update(content);
        if sum != digest.finalize().to_be_bytes() {
            return Err(damaged);
        }
        let mut image = self.before_any_command();
        let mut reader = Reader::open(content, FORMAT, VERSION)?;
        image.read_all(&mut reader, content[0])?;
        reader.close()?;
        Ok(image)
    }

    /// The image of a log without commands, as this node has it.
    pub(super) fn before_any_command(&self) -> Metadata {
        let mut image = Metadata::new(self.started_with.clone());
        image.own = self.own;
        image
    }

    fn read_all(&mut self, reader: &mut Reader<'_>, version: u8) -> Result<(), DecodeError> {
        self.cluster = Some(ClusterId(reader.bytes_16("cluster id")?));
        self.next_producer_id = ProducerId(reader.i64("producer id")?);
        possible(self.next_producer_id.0 >= 0, "producer id")?;
        if version >= FIRST_WITH_LEVELS {
            self.level = read_level(reader)?;
        }
        for _ in 0..reader.count("nodes", 14)? {
            let id = NodeId(reader.i32("node")?);
            possible(id.0 >= 0 && follows(&self.nodes, &id), "node")?;
            let address = read_address(reader)?;
            let incarnation = reader.i32("incarnation")?;
            possible((0..=COUNT_MAX).contains(&incarnation), "incarnation")?;
            let home = match version {
                ..FIRST_WITH_HOMES => None,
                _ => read_home(reader)?,
            };
            let drain = match version {
                ..FIRST_WITH_REASSIGNMENTS => None,
                _ => read_drain(reader)?,
            };
            let rack = match version {
                ..FIRST_WITH_RACKS => None,
                _ => read_rack(reader)?,
            };
            self.nodes.insert(
                id,
                Node {
                    address,
                    incarnation,
                    home,
                    drain,
                    rack,
                },
            );
        }
        if version >= FIRST_WITH_HOMES {
            self.read_joined(reader)?;
        }
        for _ in 0..reader.count("brokers with configs", 5)? {
            let broker = read_broker(reader)?;
            let is_known = broker.is_none_or(|node| self.nodes.contains_key(&node));
            possible(is_known && follows(&self.broker_configs, &broker), "broker")?;
            let mut config = BrokerConfig::new();
            let made = config.change(&read_changes(reader)?);
            made.map_err(|_| impossible("configs of a broker"))?;
            self.broker_configs.insert(broker, config);
        }
        if version >= FIRST_WITH_GROUP_CONFIGS {
            self.read_group_configs(reader)?;
        }
        for _ in 0..reader.count("topics", 28)? {
            let topic = self.read_topic(reader, version)?;
            self.insert_topic(topic);
        }
        self.resolve_settings();
        Ok(())
    }

    fn read_joined(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        for _ in 0..reader.count("nodes that have not started", 24)? {
            let id = NodeId(reader.i32("node")?);
            let is_new = id.0 >= 0 && follows(&self.joined, &id) && !self.nodes.contains_key(&id);
            possible(is_new, "node")?;
            let home = read_home(reader)?.ok_or(impossible("home of a node"))?;
            self.joined.insert(id, home);
        }
        Ok(())
    }

    fn read_group_configs(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        for _ in 0..reader.count("groups with configs", 8)? {
            let group: Arc<str> = reader.text("group")?.into();
            let changes = read_changes(reader)?;
            let is_sound = !changes.is_empty() && self.check_group_config(&group, &changes).is_ok();
            possible(
                is_sound && follows(&self.group_configs, &group),
                "configs of a group",
            )?;
            self.set_group_config(&group, &changes);
        }
        Ok(())
    }

    fn read_topic(&self, reader: &mut Reader<'_>, version: u8) -> Result<Topic, DecodeError> {
        let id = TopicId(reader.bytes_16("topic id")?);
        possible(follows(&self.topics, &id), "topic id")?;
        let name: Arc<str> = reader.text("topic name")?.into();
        self.check_new_topic(id, &name).map_err(|_| impossible("topic"))?;
        let mut config = TopicConfig::new();
        let made = config.change(&read_changes(reader)?);
        made.map_err(|_| impossible("configs of a topic"))?;
        let mut partitions = Vec::new();
        for _ in 0..reader.count("runs of partitions", 20)? {
            let alike = reader.u32("partitions")? as usize;
            let known = self.partition_count + partitions.len();
            if alike == 0 || alike > PARTITIONS_MAX - known {
                return Err(impossible("number of partitions"));
            }
            let partition = self.read_partition(reader, version)?;
            partitions.resize(partitions.len() + alike, partition);
        }
        possible(!partitions.is_empty(), "number of partitions")?;
        let client = read_client(reader)?;
        let replica_sets = partitions.iter().map(|partition| &partition.replicas);
        Ok(Topic {
            id,
            bytes: new_topic_bytes(&name, replica_sets, &config),
            client,
            name,
            // Resolved when everything is read.
            settings: TopicSettings::resolve(&config, &self.defaults),
            config,
            partitions,
        })
    }

    fn read_partition(&self, reader: &mut Reader<'_>, version: u8) -> Result<Partition, DecodeError> {
        let replicas = read_replica_set(reader)?;
        let mut partition = Partition {
            leader: NodeId(reader.i32("leader")?),
            opened_epoch: Epoch(reader.i32("epoch")?),
            opened_incarnation: reader.i32("incarnation")?,
            is_shared: replicas.len() > 1,
            reassignment: None,
            uncertain: Vec::new(),
            unclean: Vec::new(),
            replicas,
        };
        if version >= FIRST_WITH_REASSIGNMENTS {
            partition.is_shared = read_flag(reader, "shared partition")?;
            partition.reassignment = read_reassignment(reader)?.map(Box::new);
            partition.uncertain = read_replica_set(reader)?.to_vec();
        }
        if version >= FIRST_WITH_UNCLEAN_EPOCHS {
            partition.unclean = read_epochs(reader)?;
        }
        let replicas = &partition.replicas;
        possible(self.is_replica_set(replicas), "replicas")?;
        possible(replicas.contains(&partition.leader), "leader")?;
        let starts = 0..=self.nodes[&partition.leader].incarnation;
        possible(starts.contains(&partition.opened_incarnation), "incarnation")?;
        possible((0..=COUNT_MAX).contains(&partition.opened_epoch.0), "epoch")?;
        let is_lone = replicas.len() == 1 && partition.reassignment.is_none();
        possible(partition.is_shared || is_lone, "shared partition")?;
        let is_sound = match partition.reassignment.as_deref() {
            None => true,
            Some(Reassignment::Unclean { given_up }) => {
                let is_other = |node: &NodeId| !replicas.contains(node);
                given_up.is_empty() || (self.is_replica_set(given_up) && given_up.iter().all(is_other))
            }
            Some(Reassignment::Unsettled { before }) => self.is_replica_set(before) && before != replicas,
            Some(Reassignment::Filling { target, caught_up }) => {
                let mut joining = partition.joining();
                self.is_replica_set(target)
                    && joining.any(|node| !caught_up.contains(&node))
                    && caught_up.iter().enumerate().all(|(index, node)| {
                        partition.joining().any(|joining| joining == *node)
                            && !caught_up[..index].contains(node)
                    })
            }
        };
        possible(is_sound, "change of replicas")?;
        let uncertain = &partition.uncertain;
        let is_member = |(index, node): (usize, &NodeId)| {
            partition.members().any(|member| member == *node) && !uncertain[..index].contains(node)
        };
        possible(uncertain.iter().enumerate().all(is_member), "nodes in doubt")?;
        let unclean = &partition.unclean;
        let can_be = |epoch: &Epoch| (Epoch(1)..=partition.opened_epoch).contains(epoch);
        let is_sound = unclean.len() <= UNCLEAN_EPOCHS_MAX
            && unclean.is_sorted_by(|one, next| one < next)
            && unclean.iter().all(can_be);
        possible(is_sound, "epochs opened uncleanly")?;
        Ok(partition)
    }

    fn is_replica_set(&self, nodes: &[NodeId]) -> bool {
        let is_fit =
            |(index, node): (usize, &NodeId)| self.nodes.contains_key(node) && !nodes[..index].contains(node);
        !nodes.is_empty() && nodes.iter().enumerate().all(is_fit)
    }
}

/// Says whether the key comes behind all that were read: each is there once, and equal images have equal bytes.
fn follows<K: Ord, V>(read: &BTreeMap<K, V>, key: &K) -> bool {
    read.last_key_value().is_none_or(|(last, _)| last < key)
}

/// A checksum of what stands at this place: an image that was moved to another does not match.
fn digest_at(place: Offset) -> Digest {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    digest.update(&place.0.to_be_bytes());
    digest
}

fn impossible(field: &'static str) -> DecodeError {
    DecodeError::Impossible { field }
}

fn possible(is_possible: bool, field: &'static str) -> Result<(), DecodeError> {
    is_possible.then_some(()).ok_or(impossible(field))
}

fn write_values<'a>(writer: &mut Writer, values: impl Iterator<Item = (&'static str, &'a Arc<str>)>) {
    let changes: Vec<ConfigChange> = values
        .map(|(name, value)| ConfigChange::set(name, value))
        .collect();
    write_changes(writer, &changes);
}

const FILLING: u8 = 1;
const UNSETTLED: u8 = 2;
const UNCLEAN: u8 = 3;

fn write_reassignment(writer: &mut Writer, reassignment: Option<&Reassignment>) {
    match reassignment {
        None => writer.u8(0),
        Some(Reassignment::Filling { target, caught_up }) => {
            writer.u8(FILLING);
            write_replica_set(writer, target);
            write_replica_set(writer, caught_up);
        }
        Some(Reassignment::Unsettled { before }) => {
            writer.u8(UNSETTLED);
            write_replica_set(writer, before);
        }
        Some(Reassignment::Unclean { given_up }) => {
            writer.u8(UNCLEAN);
            write_replica_set(writer, given_up);
        }
    }
}

fn read_epochs(reader: &mut Reader<'_>) -> Result<Vec<Epoch>, DecodeError> {
    let count = reader.count("epochs opened uncleanly", 4)?;
    (0..count).map(|_| Ok(Epoch(reader.i32("epoch")?))).collect()
}

fn read_reassignment(reader: &mut Reader<'_>) -> Result<Option<Reassignment>, DecodeError> {
    let field = "change of replicas";
    Ok(match reader.u8(field)? {
        0 => None,
        FILLING => Some(Reassignment::Filling {
            target: read_replica_set(reader)?,
            caught_up: read_replica_set(reader)?.to_vec(),
        }),
        UNSETTLED => Some(Reassignment::Unsettled {
            before: read_replica_set(reader)?,
        }),
        UNCLEAN => Some(Reassignment::Unclean {
            given_up: read_replica_set(reader)?,
        }),
        value => return Err(DecodeError::UnknownKind { field, value }),
    })
}

/// Partitions that are alike stand once, with their number: most topics need one entry.
fn write_topic(writer: &mut Writer, topic: &Topic, version: u8) {
    writer.bytes_16(topic.id.0);
    writer.text(&topic.name);
    write_values(writer, topic.config.iter());
    let runs = topic.partitions.chunk_by(|one, other| one == other);
    writer.count(runs.clone().count());
    for run in runs {
        writer.count(run.len());
        write_replica_set(writer, &run[0].replicas);
        writer.i32(run[0].leader.0);
        writer.i32(run[0].opened_epoch.0);
        writer.i32(run[0].opened_incarnation);
        writer.u8(u8::from(run[0].is_shared));
        write_reassignment(writer, run[0].reassignment.as_deref());
        write_replica_set(writer, &run[0].uncertain);
        if version >= FIRST_WITH_UNCLEAN_EPOCHS {
            writer.count(run[0].unclean.len());
            run[0].unclean.iter().for_each(|epoch| writer.i32(epoch.0));
        }
    }
    write_client(writer, topic.client);
}
