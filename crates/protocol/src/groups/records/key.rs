//! The keys of the groups' log: a type and the names of what the record is about.
//!
//! The types and layouts are Kafka's (its coordinator record types 1, 2, 3, 5, 6, 7, 8), and one of our own.

use bytes::Bytes;

use super::{Change, What};
use crate::DecodeError;
use crate::encoding::{Reader, Writer};
use crate::groups::contract::{Name, TopicPartition};
use crate::producers::ProducerId;

/// The thing that a key names, apart from the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Offset(TopicPartition),
    Pending(ProducerId, TopicPartition),
    Classic,
    Consumer,
    Member(Name),
    TargetEpoch,
    Target(Name),
    Current(Name),
}

const OFFSET: i16 = 1;
const CLASSIC: i16 = 2;
const CONSUMER: i16 = 3;
const MEMBER: i16 = 5;
const TARGET_EPOCH: i16 = 6;
const TARGET: i16 = 7;
const CURRENT: i16 = 8;
/// Far from Kafka's types, which it numbers one after the other. Its tools pass over what they do not know.
const PENDING: i16 = 100;

pub(super) fn encode(change: &Change) -> Bytes {
    let (kind, member) = match &change.what {
        What::Offset(..) => (OFFSET, None),
        What::Pending(..) => (PENDING, None),
        What::Classic(_) => (CLASSIC, None),
        What::Consumer(_) => (CONSUMER, None),
        What::Member(member, _) => (MEMBER, Some(member)),
        What::TargetEpoch(_) => (TARGET_EPOCH, None),
        What::Target(member, _) => (TARGET, Some(member)),
        What::Current(member, _) => (CURRENT, Some(member)),
    };
    let mut key = Writer::open_record(kind);
    key.short_text(&change.group);
    if let What::Pending(producer, ..) = &change.what {
        key.i64(producer.0);
    }
    if let What::Offset(partition, _) | What::Pending(_, partition, _) = &change.what {
        key.short_text(&partition.topic);
        key.i32(partition.index);
    }
    if let Some(member) = member {
        key.short_text(member);
    }
    key.close()
}

pub(super) fn decode(bytes: &[u8]) -> Result<(Name, Kind), DecodeError> {
    let mut key = Reader::new(bytes);
    let kind = key.i16("record type")?;
    let group = key.short_text("group")?;
    let kind = match kind {
        // Version 0 of Kafka's key is the same as version 1.
        0 | OFFSET => Kind::Offset(decode_partition(&mut key)?),
        PENDING => {
            let producer = Some(key.i64("producer id")?).filter(|id| *id >= 0);
            let field = "producer id";
            let producer = ProducerId(producer.ok_or(DecodeError::Impossible { field })?);
            Kind::Pending(producer, decode_partition(&mut key)?)
        }
        CLASSIC => Kind::Classic,
        CONSUMER => Kind::Consumer,
        MEMBER => Kind::Member(key.short_text("member")?),
        TARGET_EPOCH => Kind::TargetEpoch,
        TARGET => Kind::Target(key.short_text("member")?),
        CURRENT => Kind::Current(key.short_text("member")?),
        other => {
            return Err(DecodeError::UnknownKind {
                field: "record type",
                value: u8::try_from(other).unwrap_or(u8::MAX),
            });
        }
    };
    key.close()?;
    Ok((group, kind))
}

fn decode_partition(key: &mut Reader<'_>) -> Result<TopicPartition, DecodeError> {
    Ok(TopicPartition {
        topic: key.short_text("topic")?,
        index: key.i32("partition")?,
    })
}
