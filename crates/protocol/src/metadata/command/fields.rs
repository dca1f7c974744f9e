//! The fields that commands and images are made of, as bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use record::{DirectoryId, PartitionId, TopicId};

use super::{Address, Drain, Home, ReplicaSet};
use crate::encoding::{DecodeError, Reader, Writer};
use crate::leader::NodeId;
use crate::metadata::{ConfigChange, Rack};

pub(super) fn write_partition(writer: &mut Writer, partition: PartitionId) {
    writer.bytes_16(partition.topic.0);
    writer.i32(partition.index);
}

pub(super) fn read_partition(reader: &mut Reader<'_>) -> Result<PartitionId, DecodeError> {
    Ok(PartitionId {
        topic: TopicId(reader.bytes_16("topic id")?),
        index: reader.i32("partition index")?,
    })
}

pub(in crate::metadata) fn write_drain(writer: &mut Writer, drain: Option<&Drain>) {
    writer.u8(u8::from(drain.is_some()));
    if let Some(drain) = drain {
        writer.u8(u8::from(drain.to.is_some()));
        drain.to.iter().for_each(|to| writer.i32(to.0));
    }
}

pub(in crate::metadata) fn read_drain(reader: &mut Reader<'_>) -> Result<Option<Drain>, DecodeError> {
    if !read_flag(reader, "drain")? {
        return Ok(None);
    }
    let to = match read_flag(reader, "node that gets what another gives up")? {
        true => Some(NodeId(reader.i32("node")?)),
        false => None,
    };
    Ok(Some(Drain { to }))
}

pub(crate) fn write_address(writer: &mut Writer, address: &Address) {
    writer.text(&address.host);
    writer.u16(address.port);
}

pub(crate) fn read_address(reader: &mut Reader<'_>) -> Result<Address, DecodeError> {
    Ok(Address {
        host: reader.text("host")?.into(),
        port: reader.u16("port")?,
    })
}

pub(crate) fn write_home(writer: &mut Writer, home: Option<&Home>) {
    writer.u8(u8::from(home.is_some()));
    if let Some(home) = home {
        writer.bytes_16(home.directory.0);
        writer.u16(home.shards);
        writer.u8(u8::from(home.peer.is_some()));
        home.peer.iter().for_each(|peer| write_address(writer, peer));
        writer.u64(home.start);
    }
}

pub(crate) fn read_home(reader: &mut Reader<'_>) -> Result<Option<Home>, DecodeError> {
    if !read_flag(reader, "home")? {
        return Ok(None);
    }
    let directory = DirectoryId(reader.bytes_16("directory id")?);
    let shards = reader.u16("number of shards")?;
    if shards == 0 {
        let field = "number of shards";
        return Err(DecodeError::Impossible { field });
    }
    let peer = match read_flag(reader, "address for other nodes")? {
        true => Some(read_address(reader)?),
        false => None,
    };
    Ok(Some(Home {
        directory,
        shards,
        peer,
        start: reader.u64("start of a node")?,
    }))
}

pub(in crate::metadata) fn write_rack(writer: &mut Writer, rack: Option<&Rack>) {
    writer.u8(u8::from(rack.is_some()));
    rack.iter().for_each(|rack| writer.text(rack));
}

pub(in crate::metadata) fn read_rack(reader: &mut Reader<'_>) -> Result<Option<Rack>, DecodeError> {
    match read_flag(reader, "rack")? {
        true => Ok(Some(reader.text("rack")?.into())),
        false => Ok(None),
    }
}

pub(in crate::metadata) fn read_flag(
    reader: &mut Reader<'_>,
    field: &'static str,
) -> Result<bool, DecodeError> {
    match reader.u8(field)? {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(DecodeError::UnknownKind { field, value }),
    }
}

/// One broker, or all.
pub(in crate::metadata) fn write_broker(writer: &mut Writer, broker: Option<NodeId>) {
    writer.u8(u8::from(broker.is_some()));
    if let Some(broker) = broker {
        writer.i32(broker.0);
    }
}

pub(in crate::metadata) fn read_broker(reader: &mut Reader<'_>) -> Result<Option<NodeId>, DecodeError> {
    match reader.u8("broker")? {
        0 => Ok(None),
        1 => Ok(Some(NodeId(reader.i32("broker")?))),
        value => Err(DecodeError::UnknownKind {
            field: "broker",
            value,
        }),
    }
}

/// The version of an address, then the address; or zero.
pub(in crate::metadata) fn write_client(writer: &mut Writer, client: Option<IpAddr>) {
    match client {
        None => writer.u8(0),
        Some(IpAddr::V4(address)) => {
            writer.u8(4);
            writer.i32(address.to_bits().cast_signed());
        }
        Some(IpAddr::V6(address)) => {
            writer.u8(6);
            writer.bytes_16(address.octets());
        }
    }
}

pub(in crate::metadata) fn read_client(reader: &mut Reader<'_>) -> Result<Option<IpAddr>, DecodeError> {
    match reader.u8("client")? {
        0 => Ok(None),
        4 => Ok(Some(
            Ipv4Addr::from_bits(reader.i32("client")?.cast_unsigned()).into(),
        )),
        6 => Ok(Some(Ipv6Addr::from(reader.bytes_16("client")?).into())),
        value => Err(DecodeError::UnknownKind {
            field: "client",
            value,
        }),
    }
}

pub(in crate::metadata) fn write_replica_set(writer: &mut Writer, replicas: &[NodeId]) {
    writer.count(replicas.len());
    replicas.iter().for_each(|node| writer.i32(node.0));
}

pub(in crate::metadata) fn read_replica_set(reader: &mut Reader<'_>) -> Result<ReplicaSet, DecodeError> {
    let count = reader.count("replicas", 4)?;
    (0..count).map(|_| Ok(NodeId(reader.i32("replica")?))).collect()
}

pub(super) fn write_replica_sets(writer: &mut Writer, partitions: &[ReplicaSet]) {
    writer.count(partitions.len());
    partitions
        .iter()
        .for_each(|replicas| write_replica_set(writer, replicas));
}

pub(super) fn read_replica_sets(reader: &mut Reader<'_>) -> Result<Vec<ReplicaSet>, DecodeError> {
    let count = reader.count("partitions", 4)?;
    (0..count).map(|_| read_replica_set(reader)).collect()
}

pub(in crate::metadata) fn write_changes(writer: &mut Writer, changes: &[ConfigChange]) {
    writer.count(changes.len());
    for change in changes {
        writer.text(&change.name);
        writer.u8(u8::from(change.value.is_some()));
        if let Some(value) = &change.value {
            writer.text(value);
        }
    }
}

pub(in crate::metadata) fn read_changes(reader: &mut Reader<'_>) -> Result<Vec<ConfigChange>, DecodeError> {
    let count = reader.count("config changes", 5)?;
    (0..count).map(|_| read_change(reader)).collect()
}

fn read_change(reader: &mut Reader<'_>) -> Result<ConfigChange, DecodeError> {
    let name = reader.text("config name")?;
    match reader.u8("config value")? {
        0 => Ok(ConfigChange::reset(name)),
        1 => Ok(ConfigChange::set(name, reader.text("config value")?)),
        value => Err(DecodeError::UnknownKind {
            field: "config value",
            value,
        }),
    }
}
