//! The whole image as bytes, so that a node starts from it instead of from the first command.

use std::sync::Arc;

use bytes::Bytes;
use record::{ClusterId, Epoch, TopicId};

use super::command::{
    read_address, read_broker, read_replica_set, write_address, write_broker, write_replica_set,
};
use super::topic_config::ConfigChange;
use super::{BrokerConfig, Metadata, Node, Partition, Topic, TopicConfig};
use crate::encoding::{DecodeError, Reader, Writer};
use crate::leader::NodeId;
use crate::producers::ProducerId;

const FORMAT: &str = "metadata snapshot";
const VERSION: u8 = 1;
/// Id, host, port, incarnation.
const NODE_BYTES_MIN: usize = 4 + 4 + 2 + 4;
/// Whose, configs.
const BROKER_CONFIG_BYTES_MIN: usize = 1 + 4;
/// A name and a value.
const CONFIG_BYTES_MIN: usize = 4 + 4;
/// Id, name, configs, partitions.
const TOPIC_BYTES_MIN: usize = 16 + 4 + 4 + 4;
/// Replicas, leader, epoch, incarnation.
const PARTITION_BYTES_MIN: usize = 4 + 4 + 4 + 4;

impl Metadata {
    /// The image as bytes. Equal images give equal bytes; the defaults, which each node brings along, are left out.
    #[must_use]
    pub fn snapshot(&self) -> Bytes {
        let mut writer = Writer::open(VERSION);
        writer.u8(u8::from(self.cluster.is_some()));
        if let Some(cluster) = self.cluster {
            writer.bytes_16(cluster.0);
        }
        writer.i64(self.next_producer_id.0);
        writer.count(self.nodes.len());
        for (id, node) in &self.nodes {
            writer.i32(id.0);
            write_address(&mut writer, &node.address);
            writer.i32(node.incarnation);
        }
        writer.count(self.broker_configs.len());
        for (broker, config) in &self.broker_configs {
            write_broker(&mut writer, *broker);
            write_config(&mut writer, config.iter());
        }
        writer.count(self.topics.len());
        for topic in self.topics.values() {
            write_topic(&mut writer, topic);
        }
        writer.close()
    }

    /// Reads a snapshot back.
    ///
    /// # Errors
    /// The bytes are corrupt, of an unknown version, or hold what no commands could have made.
    pub fn restore(defaults: TopicConfig, bytes: &[u8]) -> Result<Metadata, DecodeError> {
        let mut reader = Reader::open(bytes, FORMAT, VERSION)?;
        let mut image = Metadata::new(defaults);
        image.cluster = match reader.u8("cluster id")? {
            0 => None,
            1 => Some(ClusterId(reader.bytes_16("cluster id")?)),
            value => {
                return Err(DecodeError::UnknownKind {
                    field: "cluster id",
                    value,
                });
            }
        };
        image.next_producer_id = ProducerId(reader.i64("producer id")?);
        possible("producer id", image.next_producer_id >= ProducerId(0))?;
        for _ in 0..reader.count("nodes", NODE_BYTES_MIN)? {
            let id = NodeId(reader.i32("node")?);
            let node = Node {
                address: read_address(&mut reader)?,
                incarnation: reader.i32("incarnation")?,
            };
            possible("node", id >= NodeId(0) && node.incarnation >= 0)?;
            possible("node", image.nodes.insert(id, node).is_none())?;
        }
        for _ in 0..reader.count("broker configs", BROKER_CONFIG_BYTES_MIN)? {
            image.read_broker_config(&mut reader)?;
        }
        image.resolve_settings();
        for _ in 0..reader.count("topics", TOPIC_BYTES_MIN)? {
            image.read_topic(&mut reader)?;
        }
        reader.close()?;
        Ok(image)
    }

    fn read_broker_config(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let broker = read_broker(reader)?;
        possible("broker", broker.is_none_or(|node| self.nodes.contains_key(&node)))?;
        let mut config = BrokerConfig::new();
        for _ in 0..reader.count("broker config", CONFIG_BYTES_MIN)? {
            possible("broker config", config.change(&[read_set(reader)?]).is_ok())?;
        }
        possible("broker config", !config.is_empty())?;
        possible(
            "broker config",
            self.broker_configs.insert(broker, config).is_none(),
        )
    }

    fn read_topic(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let id = TopicId(reader.bytes_16("topic id")?);
        let name = reader.text("topic name")?.into();
        possible("topic", self.check_new_topic(id, &name).is_ok())?;
        let mut config = TopicConfig::new();
        for _ in 0..reader.count("topic configs", CONFIG_BYTES_MIN)? {
            possible("topic config", config.change(&[read_set(reader)?]).is_ok())?;
        }
        let count = reader.count("partitions", PARTITION_BYTES_MIN)?;
        let partitions = (0..count)
            .map(|_| self.read_partition(reader))
            .collect::<Result<Vec<_>, _>>()?;
        possible(
            "partitions",
            !partitions.is_empty() && i32::try_from(partitions.len()).is_ok(),
        )?;
        self.partition_count += partitions.len();
        self.insert_topic(id, name, config);
        self.topics.get_mut(&id).expect("just inserted").partitions = partitions;
        Ok(())
    }

    fn read_partition(&self, reader: &mut Reader<'_>) -> Result<Partition, DecodeError> {
        let partition = Partition {
            replicas: read_replica_set(reader)?,
            leader: NodeId(reader.i32("leader")?),
            opened_epoch: Epoch(reader.i32("epoch")?),
            opened_incarnation: reader.i32("incarnation")?,
        };
        let replicas = std::slice::from_ref(&partition.replicas);
        possible("replicas", self.check_replica_sets(0, replicas).is_ok())?;
        possible("leader", partition.replicas.contains(&partition.leader))?;
        // What is computed from these later must not fail: the epoch is their sum.
        let starts = self
            .nodes
            .get(&partition.leader)
            .and_then(|node| node.incarnation.checked_sub(partition.opened_incarnation));
        let (epoch, incarnation) = (partition.opened_epoch.0, partition.opened_incarnation);
        let sound = starts.is_some_and(|starts| starts >= 0 && epoch.checked_add(starts).is_some());
        possible("epoch", epoch >= 0 && incarnation >= 0 && sound)?;
        Ok(partition)
    }
}

fn write_topic(writer: &mut Writer, topic: &Topic) {
    writer.bytes_16(topic.id.0);
    writer.text(&topic.name);
    write_config(writer, topic.config.iter());
    writer.count(topic.partitions.len());
    for partition in &topic.partitions {
        write_replica_set(writer, &partition.replicas);
        writer.i32(partition.leader.0);
        writer.i32(partition.opened_epoch.0);
        writer.i32(partition.opened_incarnation);
    }
}

fn write_config<'a>(
    writer: &mut Writer,
    values: impl ExactSizeIterator<Item = (&'static str, &'a Arc<str>)>,
) {
    writer.count(values.len());
    for (name, value) in values {
        writer.text(name);
        writer.text(value);
    }
}

fn read_set(reader: &mut Reader<'_>) -> Result<ConfigChange, DecodeError> {
    Ok(ConfigChange::set(
        reader.text("config name")?,
        reader.text("config value")?,
    ))
}

fn possible(field: &'static str, holds: bool) -> Result<(), DecodeError> {
    if holds {
        Ok(())
    } else {
        Err(DecodeError::Impossible { field })
    }
}
