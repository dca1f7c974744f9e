//! The content of the transactions' log: the state of one transactional id as a record, laid out as in Kafka's `__transaction_state`.
//!
//! Stands between the coordinator and the log. The key is Kafka's TransactionLogKey, the value its TransactionLogValue:
//! version 1 is written, 0 and 1 are read. docs/formats/transactions.md has the bytes. Nothing from the log is believed:
//! whatever cannot be read is an error, never a panic.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::contract::{Name, StoredRecord, TopicPartition, TransactionState};
use super::state::IdState;
use crate::encoding::{Reader, Writer};
use crate::{DecodeError, ProducerId};

/// The name of the topic whose partitions hold these records: tools know it and treat it as internal.
pub const TRANSACTIONS_TOPIC: &str = "__transaction_state";

/// Tagged fields: Kafka's, and one that Kafka does not have and passes over.
const PREVIOUS_TAG: u32 = 0;
const NEXT_TAG: u32 = 1;
const VERSION_TAG: u32 = 2;
const NEXT_EPOCH_TAG: u32 = 3;
const LAST_EPOCH_TAG: u32 = 1_000;

/// Bytes of a value without its partitions, at most.
const VALUE_BYTES_MAX: usize = 96;
/// Bytes that a topic takes beside its name, and each of its partitions.
const TOPIC_BYTES_MAX: usize = 12;
const PARTITION_BYTES: usize = 4;

/// Writes the state of an id; none takes the id away.
pub(super) fn encode(transactional_id: &str, state: Option<&IdState>) -> StoredRecord {
    let mut key = Writer::open_record(0);
    key.short_text(transactional_id);
    StoredRecord {
        key: key.close(),
        value: state.map(encode_value),
    }
}

/// Reads a record back.
///
/// # Errors
/// The record is damaged, or of a version that this program does not know.
pub(super) fn decode(key: &[u8], value: Option<&[u8]>) -> Result<(Name, Option<IdState>), DecodeError> {
    let (mut key, _) = Reader::open_record(key, "TransactionLogKey", 0..=0)?;
    let transactional_id = key.short_text("transactional id")?;
    key.close()?;
    Ok((transactional_id, value.map(decode_value).transpose()?))
}

/// The most that a record takes with these partitions, in whatever state.
pub(super) fn record_bytes_at_most<'a>(
    transactional_id: &str,
    partitions: impl Iterator<Item = &'a TopicPartition>,
) -> usize {
    let mut bytes = transactional_id.len() + 4 + VALUE_BYTES_MAX;
    let mut topic: Option<&Name> = None;
    for partition in partitions {
        if topic != Some(&partition.topic) {
            bytes += TOPIC_BYTES_MAX + partition.topic.len();
            topic = Some(&partition.topic);
        }
        bytes += PARTITION_BYTES;
    }
    bytes
}

fn encode_value(state: &IdState) -> Bytes {
    let mut bytes = Writer::open_record(1);
    bytes.i64(state.producer.0);
    bytes.i16(state.epoch);
    bytes.i32(state.timeout_ms);
    bytes.i8(status(state.phase));
    encode_partitions(&mut bytes, state);
    bytes.i64(state.updated_ms);
    bytes.i64(state.start_ms);
    let previous = state.previous.map(|id| id.0.to_be_bytes());
    let next = state.next.map(|id| id.0.to_be_bytes());
    let version = (state.version != 0).then(|| i16::from(state.version).to_be_bytes());
    let next_epoch = state.next_epoch.map(i16::to_be_bytes);
    let last_epoch = state.last_epoch.map(i16::to_be_bytes);
    let tags: [(u32, Option<&[u8]>); 5] = [
        (PREVIOUS_TAG, previous.as_ref().map(|value| &value[..])),
        (NEXT_TAG, next.as_ref().map(|value| &value[..])),
        (VERSION_TAG, version.as_ref().map(|value| &value[..])),
        (NEXT_EPOCH_TAG, next_epoch.as_ref().map(|value| &value[..])),
        (LAST_EPOCH_TAG, last_epoch.as_ref().map(|value| &value[..])),
    ];
    bytes.varint(tags.iter().map(|(_, value)| u32::from(value.is_some())).sum());
    for (tag, value) in tags {
        if let Some(value) = value {
            bytes.tagged(tag, value);
        }
    }
    bytes.close()
}

/// One entry for each topic; an id without any transaction has no list at all, as in Kafka.
fn encode_partitions(bytes: &mut Writer, state: &IdState) {
    if state.phase == TransactionState::Empty {
        bytes.varint(0);
        return;
    }
    let sorted: Vec<&TopicPartition> = state.partitions.iter().collect();
    let by_topic = || sorted.chunk_by(|one, other| one.topic == other.topic);
    bytes.compact_count(by_topic().count());
    for partitions in by_topic() {
        bytes.compact_text(&partitions[0].topic);
        bytes.compact_count(partitions.len());
        for partition in partitions {
            bytes.i32(partition.index);
        }
        bytes.no_tags();
    }
}

fn status(phase: TransactionState) -> i8 {
    match phase {
        TransactionState::Empty => 0,
        TransactionState::Ongoing => 1,
        TransactionState::PrepareCommit => 2,
        TransactionState::PrepareAbort => 3,
        TransactionState::CompleteCommit => 4,
        TransactionState::CompleteAbort => 5,
    }
}

/// Kafka's other two, 6 (dead) and 7 (being fenced), are never stored.
fn phase(status: i8) -> Result<TransactionState, DecodeError> {
    Ok(match status {
        0 => TransactionState::Empty,
        1 => TransactionState::Ongoing,
        2 => TransactionState::PrepareCommit,
        3 => TransactionState::PrepareAbort,
        4 => TransactionState::CompleteCommit,
        5 => TransactionState::CompleteAbort,
        other => {
            return Err(DecodeError::UnknownKind {
                field: "transaction status",
                value: u8::try_from(other).unwrap_or(u8::MAX),
            });
        }
    })
}

fn decode_value(bytes: &[u8]) -> Result<IdState, DecodeError> {
    let (mut bytes, version) = Reader::open_record(bytes, "TransactionLogValue", 0..=1)?;
    let producer = producer_id("producer id", bytes.i64("producer id")?)?;
    let epoch = not_negative("producer epoch", bytes.i16("producer epoch")?)?;
    let timeout_ms = not_negative("timeout", bytes.i32("timeout")?)?;
    let phase = phase(bytes.i8("transaction status")?)?;
    let partitions = match version {
        0 => decode_partitions_0(&mut bytes)?,
        _ => decode_partitions(&mut bytes)?,
    };
    let updated_ms = bytes.i64("update time")?;
    let start_ms = bytes.i64("start time")?;
    let wanted = [
        PREVIOUS_TAG,
        NEXT_TAG,
        VERSION_TAG,
        NEXT_EPOCH_TAG,
        LAST_EPOCH_TAG,
    ];
    let [previous, next, version, next_epoch, last_epoch] = match version {
        0 => [None; 5],
        _ => bytes.tags("tagged fields", wanted)?,
    };
    bytes.close()?;
    Ok(IdState {
        phase,
        producer,
        previous: optional_id("previous producer id", previous)?,
        next: optional_id("next producer id", next)?,
        epoch,
        last_epoch: optional_epoch("last producer epoch", last_epoch)?,
        next_epoch: optional_epoch("next producer epoch", next_epoch)?,
        timeout_ms,
        partitions: Arc::new(partitions),
        start_ms,
        updated_ms,
        version: client_version(version)?,
    })
}

fn decode_partitions(bytes: &mut Reader<'_>) -> Result<BTreeSet<TopicPartition>, DecodeError> {
    let mut partitions = BTreeSet::new();
    let Some(topics) = nullable_count(bytes, "topics", 3)? else {
        return Ok(partitions);
    };
    for _ in 0..topics {
        let topic = bytes.compact_text("topic")?;
        for _ in 0..bytes.compact_count("partitions", PARTITION_BYTES)? {
            let index = not_negative("partition", bytes.i32("partition")?)?;
            let topic = Name::clone(&topic);
            partitions.insert(TopicPartition { topic, index });
        }
        let [] = bytes.tags("tagged fields", [])?;
    }
    Ok(partitions)
}

/// The same in the form that Kafka wrote before the version with tagged fields.
fn decode_partitions_0(bytes: &mut Reader<'_>) -> Result<BTreeSet<TopicPartition>, DecodeError> {
    let mut partitions = BTreeSet::new();
    let topics = bytes.i32("topics")?;
    if topics == -1 {
        return Ok(partitions);
    }
    let topics = usize::try_from(topics).map_err(|_| DecodeError::Impossible { field: "topics" })?;
    for _ in 0..bytes.bounded("topics", topics, 6)? {
        let topic = bytes.short_text("topic")?;
        for _ in 0..bytes.count("partitions", PARTITION_BYTES)? {
            let index = not_negative("partition", bytes.i32("partition")?)?;
            let topic = Name::clone(&topic);
            partitions.insert(TopicPartition { topic, index });
        }
    }
    Ok(partitions)
}

/// The count of a compact list that may be missing: one more than the true one as a varint, 0 for none.
fn nullable_count(
    bytes: &mut Reader<'_>,
    field: &'static str,
    item_bytes_min: usize,
) -> Result<Option<usize>, DecodeError> {
    let mut count = 0_u64;
    for shift in [0, 7, 14, 21, 28] {
        let byte = bytes.u8(field)?;
        count |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            let Some(count) = count.checked_sub(1) else {
                return Ok(None);
            };
            let count = usize::try_from(count).map_err(|_| DecodeError::Impossible { field })?;
            return bytes.bounded(field, count, item_bytes_min).map(Some);
        }
    }
    Err(DecodeError::Impossible { field })
}

fn not_negative<T: Default + PartialOrd>(field: &'static str, value: T) -> Result<T, DecodeError> {
    if value < T::default() {
        return Err(DecodeError::Impossible { field });
    }
    Ok(value)
}

fn producer_id(field: &'static str, value: i64) -> Result<ProducerId, DecodeError> {
    not_negative(field, value).map(ProducerId)
}

/// A tagged producer id; -1 stands for none.
fn optional_id(field: &'static str, tagged: Option<&[u8]>) -> Result<Option<ProducerId>, DecodeError> {
    let Some(tagged) = tagged else { return Ok(None) };
    let mut bytes = Reader::new(tagged);
    let value = bytes.i64(field)?;
    bytes.close()?;
    match value {
        -1 => Ok(None),
        value => producer_id(field, value).map(Some),
    }
}

/// A tagged epoch; -1 stands for none.
fn optional_epoch(field: &'static str, tagged: Option<&[u8]>) -> Result<Option<i16>, DecodeError> {
    match tagged.map(|tagged| short(field, tagged)).transpose()? {
        None | Some(-1) => Ok(None),
        Some(value) => not_negative(field, value).map(Some),
    }
}

fn client_version(tagged: Option<&[u8]>) -> Result<u8, DecodeError> {
    let field = "client transaction version";
    match tagged.map(|tagged| short(field, tagged)).transpose()? {
        None => Ok(0),
        Some(value @ 0..=2) => Ok(value as u8),
        Some(_) => Err(DecodeError::Impossible { field }),
    }
}

fn short(field: &'static str, tagged: &[u8]) -> Result<i16, DecodeError> {
    let mut bytes = Reader::new(tagged);
    let value = bytes.i16(field)?;
    bytes.close()?;
    Ok(value)
}
