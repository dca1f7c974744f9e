//! The values of the groups' log that both protocols share: offsets and classic groups.
//!
//! OffsetCommitValue is written in version 4 (with the topic's id) and read from 3 on; GroupMetadataValue in version 3. The value of a
//! pending offset is our own: it has an OffsetCommitValue within.

use std::time::Duration;

use bytes::Bytes;
use record::{Epoch, Offset, TopicId};

use super::forms::name_of;
use super::key::Kind;
use super::{ClassicMemberValue, ClassicValue, OffsetValue, PendingValue, What, consumer};
use crate::DecodeError;
use crate::encoding::{Reader, Writer};
use crate::groups::contract::CommittedOffset;

/// Tagged fields of an offset: Kafka's, and two that Kafka does not have and passes over.
const TOPIC_ID_TAG: u32 = 0;
const MAKER_TAG: u32 = 1_000;
const COPY_TAG: u32 = 1_001;

pub(super) fn encode(what: &What) -> Option<Bytes> {
    match what {
        What::Offset(_, value) => value.as_ref().map(encode_offset),
        What::Pending(_, _, value) => value.as_ref().map(encode_pending),
        What::Classic(value) => value.as_ref().map(encode_classic),
        What::Consumer(value) => value.map(consumer::encode_group),
        What::Member(_, value) => value.as_ref().map(consumer::encode_member),
        What::TargetEpoch(value) => value.map(consumer::encode_target_epoch),
        What::Target(_, value) => value.as_ref().map(consumer::encode_target),
        What::Current(_, value) => value.as_ref().map(consumer::encode_current),
    }
}

pub(super) fn decode(kind: Kind, value: Option<&[u8]>) -> Result<What, DecodeError> {
    Ok(match kind {
        Kind::Offset(partition) => What::Offset(partition, value.map(decode_offset).transpose()?),
        Kind::Pending(producer, partition) => {
            What::Pending(producer, partition, value.map(decode_pending).transpose()?)
        }
        Kind::Classic => What::Classic(value.map(decode_classic).transpose()?),
        Kind::Consumer => What::Consumer(value.map(consumer::decode_group).transpose()?),
        Kind::Member(member) => What::Member(member, value.map(consumer::decode_member).transpose()?),
        Kind::TargetEpoch => What::TargetEpoch(value.map(consumer::decode_target_epoch).transpose()?),
        Kind::Target(member) => What::Target(member, value.map(consumer::decode_target).transpose()?),
        Kind::Current(member) => What::Current(member, value.map(consumer::decode_current).transpose()?),
    })
}

fn encode_offset(value: &OffsetValue) -> Bytes {
    let mut bytes = Writer::open_record(4);
    bytes.i64(value.committed.offset.0);
    bytes.i32(value.committed.leader_epoch.map_or(-1, |epoch| epoch.0));
    bytes.compact_text(&value.committed.metadata);
    bytes.i64(value.committed_ms);
    bytes.varint(1 + u32::from(value.maker.is_some()) + u32::from(value.is_copy));
    bytes.tagged(TOPIC_ID_TAG, &value.topic_id.0);
    if let Some(maker) = &value.maker {
        bytes.tagged(MAKER_TAG, maker.as_bytes());
    }
    if value.is_copy {
        bytes.tagged(COPY_TAG, &[]);
    }
    bytes.close()
}

fn decode_offset(bytes: &[u8]) -> Result<OffsetValue, DecodeError> {
    let (mut bytes, version) = Reader::open_record(bytes, "OffsetCommitValue", 3..=4)?;
    let offset = Offset(bytes.i64("offset")?);
    let leader_epoch = Some(bytes.i32("leader epoch")?)
        .filter(|epoch| *epoch >= 0)
        .map(Epoch);
    let metadata = if version >= 4 {
        bytes.compact_text("metadata")?
    } else {
        bytes.short_text("metadata")?
    };
    let committed_ms = bytes.i64("commit time")?;
    let [topic_id, maker, copy] = match version {
        4.. => bytes.tags("topic id", [TOPIC_ID_TAG, MAKER_TAG, COPY_TAG])?,
        _ => [None; 3],
    };
    let topic_id = match topic_id {
        Some(tagged) => Reader::new(tagged).topic_id("topic id")?,
        None => TopicId::default(),
    };
    let maker = maker.map(|tagged| name_of("maker", tagged)).transpose()?;
    bytes.close()?;
    let committed = CommittedOffset {
        offset,
        leader_epoch,
        metadata,
    };
    Ok(OffsetValue {
        committed,
        topic_id,
        committed_ms,
        maker,
        is_copy: copy.is_some(),
    })
}

fn encode_pending(value: &PendingValue) -> Bytes {
    let mut bytes = Writer::open_record(0);
    bytes.i16(value.producer_epoch);
    bytes.i32(value.coordinator_epoch);
    bytes.u8(u8::from(value.is_overtaken));
    bytes.put_slice(&encode_offset(&value.offset));
    bytes.close()
}

fn decode_pending(bytes: &[u8]) -> Result<PendingValue, DecodeError> {
    let (mut bytes, _) = Reader::open_record(bytes, "pending offset", 0..=0)?;
    let field = "producer epoch";
    let producer_epoch = Some(bytes.i16(field)?).filter(|epoch| *epoch >= 0);
    Ok(PendingValue {
        producer_epoch: producer_epoch.ok_or(DecodeError::Impossible { field })?,
        coordinator_epoch: bytes.i32("coordinator epoch")?,
        is_overtaken: match bytes.u8("overtaken")? {
            0 => false,
            1 => true,
            _ => return Err(DecodeError::Impossible { field: "overtaken" }),
        },
        offset: decode_offset(bytes.take_rest())?,
    })
}

fn encode_classic(value: &ClassicValue) -> Bytes {
    let mut bytes = Writer::open_record(3);
    bytes.short_text(&value.protocol_type);
    bytes.i32(value.generation);
    bytes.optional_short_text(value.protocol.as_deref());
    bytes.optional_short_text(value.leader.as_deref());
    bytes.i64(value.state_since_ms);
    bytes.count(value.members.len());
    for member in &value.members {
        bytes.short_text(&member.member);
        bytes.optional_short_text(member.instance.as_deref());
        bytes.short_text(&member.client_id);
        bytes.short_text(&member.client_host);
        bytes.i32(millis(member.rebalance_timeout));
        bytes.i32(millis(member.session_timeout));
        bytes.slice(&member.metadata);
        bytes.slice(&member.assignment);
    }
    bytes.close()
}

fn decode_classic(bytes: &[u8]) -> Result<ClassicValue, DecodeError> {
    let (mut bytes, _) = Reader::open_record(bytes, "GroupMetadataValue", 3..=3)?;
    let protocol_type = bytes.short_text("protocol type")?;
    let generation = bytes.i32("generation")?;
    let protocol = bytes.optional_short_text("protocol")?;
    let leader = bytes.optional_short_text("leader")?;
    let state_since_ms = bytes.i64("state time")?;
    let count = bytes.count("members", 24)?;
    let mut members = Vec::with_capacity(count);
    for _ in 0..count {
        members.push(ClassicMemberValue {
            member: bytes.short_text("member")?,
            instance: bytes.optional_short_text("instance")?,
            client_id: bytes.short_text("client id")?,
            client_host: bytes.short_text("client host")?,
            rebalance_timeout: duration(bytes.i32("rebalance timeout")?),
            session_timeout: duration(bytes.i32("session timeout")?),
            metadata: Bytes::copy_from_slice(bytes.slice("metadata")?),
            assignment: Bytes::copy_from_slice(bytes.slice("assignment")?),
        });
    }
    bytes.close()?;
    Ok(ClassicValue {
        protocol_type,
        generation,
        protocol,
        leader,
        state_since_ms,
        members,
    })
}

/// As milliseconds; what is longer than 24 days is stored as that.
pub(super) fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

pub(super) fn duration(millis: i32) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}
