//! The values of the groups' log that the consumer protocol needs (KIP-848): group, member, target, current assignment.
//!
//! All are version 0 of Kafka's schemas and written compactly. Tagged fields that are not known are passed over.

use bytes::Bytes;
use record::{PartitionId, TopicId};

use super::value::{duration, millis};
use super::{ClassicFace, ConsumerValue, CurrentValue, MemberValue, Progress};
use crate::DecodeError;
use crate::encoding::{Reader, Writer};
use crate::groups::Assignment;
use crate::groups::contract::Protocol;

pub(super) fn encode_group(value: ConsumerValue) -> Bytes {
    let mut bytes = Writer::open_record(0);
    bytes.i32(value.epoch);
    bytes.tag_0(&value.topics_hash.to_be_bytes());
    bytes.close()
}

pub(super) fn decode_group(bytes: &[u8]) -> Result<ConsumerValue, DecodeError> {
    let (mut bytes, _) = Reader::open_record(bytes, "ConsumerGroupMetadataValue", 0..=0)?;
    let epoch = bytes.i32("epoch")?;
    let topics_hash = match bytes.tag_0("metadata hash")? {
        Some(tagged) => Reader::new(tagged).i64("metadata hash")?,
        None => 0,
    };
    bytes.close()?;
    Ok(ConsumerValue { epoch, topics_hash })
}

pub(super) fn encode_member(value: &MemberValue) -> Bytes {
    let mut bytes = Writer::open_record(0);
    bytes.compact_optional_text(value.instance.as_deref());
    bytes.compact_optional_text(value.rack.as_deref());
    bytes.compact_text(&value.client_id);
    bytes.compact_text(&value.client_host);
    bytes.compact_count(value.topics.len());
    for topic in &value.topics {
        bytes.compact_text(topic);
    }
    bytes.compact_optional_text(value.regex.as_deref());
    bytes.i32(millis(value.rebalance_timeout));
    bytes.compact_optional_text(value.assignor.as_deref());
    match &value.classic {
        None => bytes.no_tags(),
        Some(classic) => bytes.tag_0(&encode_classic_face(classic)),
    }
    bytes.close()
}

/// A nullable structure: a byte says that it is there.
fn encode_classic_face(classic: &ClassicFace) -> Bytes {
    let mut bytes = Writer::new();
    bytes.i8(1);
    bytes.i32(millis(classic.session_timeout));
    bytes.compact_count(classic.protocols.len());
    for protocol in &classic.protocols {
        bytes.compact_text(&protocol.name);
        bytes.compact_slice(&protocol.metadata);
        bytes.no_tags();
    }
    bytes.no_tags();
    bytes.close()
}

pub(super) fn decode_member(bytes: &[u8]) -> Result<MemberValue, DecodeError> {
    let (mut bytes, _) = Reader::open_record(bytes, "ConsumerGroupMemberMetadataValue", 0..=0)?;
    let instance = bytes.compact_optional_text("instance")?;
    let rack = bytes.compact_optional_text("rack")?;
    let client_id = bytes.compact_text("client id")?;
    let client_host = bytes.compact_text("client host")?;
    let count = bytes.compact_count("topics", 1)?;
    let topics = (0..count)
        .map(|_| bytes.compact_text("topic"))
        .collect::<Result<_, _>>()?;
    let regex = bytes.compact_optional_text("regular expression")?;
    let rebalance_timeout = duration(bytes.i32("rebalance timeout")?);
    let assignor = bytes.compact_optional_text("assignor")?;
    let classic = match bytes.tag_0("classic member")? {
        Some(tagged) => decode_classic_face(tagged)?,
        None => None,
    };
    bytes.close()?;
    Ok(MemberValue {
        instance,
        rack,
        client_id,
        client_host,
        topics,
        regex,
        rebalance_timeout,
        assignor,
        classic,
    })
}

fn decode_classic_face(bytes: &[u8]) -> Result<Option<ClassicFace>, DecodeError> {
    let mut bytes = Reader::new(bytes);
    if bytes.i8("classic member")? < 0 {
        return Ok(None);
    }
    let session_timeout = duration(bytes.i32("session timeout")?);
    let count = bytes.compact_count("protocols", 3)?;
    let mut protocols = Vec::with_capacity(count);
    for _ in 0..count {
        let name = bytes.compact_text("protocol")?;
        let metadata = bytes.compact_slice("metadata")?;
        bytes.tag_0("protocol")?;
        protocols.push(Protocol { name, metadata });
    }
    bytes.tag_0("classic member")?;
    bytes.close()?;
    Ok(Some(ClassicFace {
        session_timeout,
        protocols,
    }))
}

pub(super) fn encode_target_epoch(epoch: i32) -> Bytes {
    let mut bytes = Writer::open_record(0);
    bytes.i32(epoch);
    bytes.no_tags();
    bytes.close()
}

pub(super) fn decode_target_epoch(bytes: &[u8]) -> Result<i32, DecodeError> {
    let (mut bytes, _) = Reader::open_record(bytes, "ConsumerGroupTargetAssignmentMetadataValue", 0..=0)?;
    let epoch = bytes.i32("epoch")?;
    bytes.tag_0("target")?;
    bytes.close()?;
    Ok(epoch)
}

pub(super) fn encode_target(target: &Assignment) -> Bytes {
    let mut bytes = Writer::open_record(0);
    write_assignment(&mut bytes, target);
    bytes.no_tags();
    bytes.close()
}

pub(super) fn decode_target(bytes: &[u8]) -> Result<Assignment, DecodeError> {
    let (mut bytes, _) = Reader::open_record(bytes, "ConsumerGroupTargetAssignmentMemberValue", 0..=0)?;
    let target = read_assignment(&mut bytes)?;
    bytes.tag_0("target")?;
    bytes.close()?;
    Ok(target)
}

pub(super) fn encode_current(value: &CurrentValue) -> Bytes {
    let mut bytes = Writer::open_record(0);
    bytes.i32(value.epoch);
    bytes.i32(value.previous_epoch);
    bytes.i8(match value.progress {
        Progress::Stable => 0,
        Progress::Unrevoked => 1,
        Progress::Unreleased => 2,
    });
    write_assignment(&mut bytes, &value.assigned);
    write_assignment(&mut bytes, &value.revoking);
    bytes.no_tags();
    bytes.close()
}

pub(super) fn decode_current(bytes: &[u8]) -> Result<CurrentValue, DecodeError> {
    let (mut bytes, _) = Reader::open_record(bytes, "ConsumerGroupCurrentMemberAssignmentValue", 0..=0)?;
    let epoch = bytes.i32("epoch")?;
    let previous_epoch = bytes.i32("previous epoch")?;
    let progress = match bytes.i8("state")? {
        0 => Progress::Stable,
        1 => Progress::Unrevoked,
        2 => Progress::Unreleased,
        other => {
            return Err(DecodeError::UnknownKind {
                field: "state",
                value: u8::try_from(other).unwrap_or(u8::MAX),
            });
        }
    };
    let assigned = read_assignment(&mut bytes)?;
    let revoking = read_assignment(&mut bytes)?;
    bytes.tag_0("current assignment")?;
    bytes.close()?;
    Ok(CurrentValue {
        epoch,
        previous_epoch,
        progress,
        assigned,
        revoking,
    })
}

fn write_assignment(bytes: &mut Writer, assignment: &Assignment) {
    bytes.compact_count(assignment.topics().len());
    for (topic, indexes) in assignment.topics() {
        bytes.topic_id(topic);
        bytes.compact_count(indexes.len());
        for index in indexes {
            bytes.i32(*index);
        }
        bytes.no_tags();
    }
}

fn read_assignment(bytes: &mut Reader<'_>) -> Result<Assignment, DecodeError> {
    let mut assignment = Assignment::default();
    for _ in 0..bytes.compact_count("topics", 18)? {
        let topic: TopicId = bytes.topic_id("topic id")?;
        for _ in 0..bytes.compact_count("partitions", 4)? {
            let index = bytes.i32("partition")?;
            assignment.insert(PartitionId { topic, index });
        }
        bytes.tag_0("topic")?;
    }
    Ok(assignment)
}
