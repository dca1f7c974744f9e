//! What compaction does to a batch: looks at its keys, and makes a copy with fewer records.
//!
//! A record that stays keeps every byte: the base offset and the base timestamp that its deltas add to are never changed, nor
//! the last offset delta, producer, epoch and sequence. So offsets stay where they are, and consumers step over the gaps. Works
//! on stored batches, which were validated when they were appended; a malformed one is still an error, never a panic.

use std::borrow::Cow;
use std::ops::ControlFlow;

use super::compress::{Limits, compress};
use super::error::{BatchError, RecordFault};
use super::header::{
    ATTRIBUTES_AT, Attributes, BATCH_OVERHEAD_BYTES, BatchHeader, Compression, LENGTH_AT, LOG_OVERHEAD_BYTES,
    MAX_TIMESTAMP_AT, RECORD_COUNT_AT, TimestampType,
};
use super::patch::{put, seal_checksum};
use super::records::decompress;
use super::walk::{SliceSource, Source, take_head, take_length};
use crate::Offset;

/// No record has a time.
const NO_TIMESTAMP: i64 = -1;

/// A record as far as compaction looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyedRecord<'a> {
    /// Its place in the partition.
    pub offset: Offset,
    /// Its key, if it has one.
    pub key: Option<&'a [u8]>,
    /// It has no value: with a key, it says that the key is gone.
    pub is_null: bool,
}

/// What is left of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retained {
    /// Every record: the batch is to be used as it is.
    All,
    /// Some: this batch has them.
    Some(Vec<u8>),
    /// None.
    Nothing,
}

/// Shows the records of the batch that `batch` begins with to `visit`, in order, until that breaks off.
///
/// # Errors
/// As [`super::records`]; a malformed record comes after the sound ones before it were shown.
pub fn visit_keys(
    batch: &[u8],
    limits: &Limits,
    mut visit: impl FnMut(&KeyedRecord<'_>) -> ControlFlow<()>,
) -> Result<(), BatchError> {
    let header = BatchHeader::read(batch)?;
    let body = body_of(&header, batch, limits)?;
    let mut at = 0;
    for index in 0..header.record_count {
        let seen = take_keyed(&header, &body, at).map_err(|fault| BatchError::Record { index, fault })?;
        if visit(&seen.record).is_break() {
            break;
        }
        at = seen.end;
    }
    Ok(())
}

/// Keeps those records of the batch that `batch` begins with that `keep` says yes to; it is asked once for each, in order.
///
/// # Errors
/// As [`super::records`].
pub fn retain(
    batch: &[u8],
    limits: &Limits,
    mut keep: impl FnMut(&KeyedRecord<'_>) -> bool,
) -> Result<Retained, BatchError> {
    let header = BatchHeader::read(batch)?;
    let body = body_of(&header, batch, limits)?;
    let (mut kept, mut count, mut at) = (Vec::new(), 0, 0);
    let mut max_timestamp_ms = NO_TIMESTAMP;
    for index in 0..header.record_count {
        let seen = take_keyed(&header, &body, at).map_err(|fault| BatchError::Record { index, fault })?;
        if keep(&seen.record) {
            // Nothing is copied as long as nothing was left out.
            if count < index {
                kept.extend_from_slice(&body[at..seen.end]);
            }
            count += 1;
            max_timestamp_ms = max_timestamp_ms.max(seen.timestamp_ms);
        } else if count == index {
            kept.extend_from_slice(&body[..at]);
        }
        at = seen.end;
    }
    if at != body.len() {
        let record_count = header.record_count;
        return Err(BatchError::TrailingRecords { record_count });
    }
    Ok(match count {
        0 => Retained::Nothing,
        count if count == header.record_count => Retained::All,
        count => Retained::Some(with_records(&header, batch, &kept, count, max_timestamp_ms)?),
    })
}

/// The batch that `batch` begins with, without its records: what keeps a place in the log when all of them are gone. It still
/// spans its offsets, and says whose batch it was.
///
/// # Errors
/// As `BatchHeader::read`.
pub fn emptied(batch: &[u8]) -> Result<Vec<u8>, BatchError> {
    let header = BatchHeader::read(batch)?;
    let mut empty = batch[..BATCH_OVERHEAD_BYTES].to_vec();
    // Of no bytes there is no compressed form.
    let attributes = header.attributes.with_compression(Compression::None);
    put(&mut empty, ATTRIBUTES_AT, &attributes.0.to_be_bytes());
    complete(&mut empty, 0, NO_TIMESTAMP);
    Ok(empty)
}

struct Seen<'a> {
    record: KeyedRecord<'a>,
    timestamp_ms: i64,
    /// Where the next record begins.
    end: usize,
}

fn take_keyed<'a>(header: &BatchHeader, body: &'a [u8], at: usize) -> Result<Seen<'a>, RecordFault> {
    let mut source = SliceSource::at(body, at);
    let (head, bounds) = take_head(&mut source)?;
    let timestamp_delta = head.timestamp_delta;
    let timestamp_ms = header
        .timestamp_at(timestamp_delta)
        .ok_or(RecordFault::TimestampDelta { timestamp_delta })?;
    let key = match take_length(&mut source, bounds.end)? {
        Some(length) => {
            let start = source.position() as usize;
            source.skip(length)?;
            Some(&body[start..start + length as usize])
        }
        None => None,
    };
    let is_null = take_length(&mut source, bounds.end)?.is_none();
    if source.position() > bounds.end {
        return Err(RecordFault::CutShort);
    }
    Ok(Seen {
        record: KeyedRecord {
            offset: header.offset_at(head.offset_delta),
            key,
            is_null,
        },
        timestamp_ms,
        end: bounds.end as usize,
    })
}

fn body_of<'a>(header: &BatchHeader, batch: &'a [u8], limits: &Limits) -> Result<Cow<'a, [u8]>, BatchError> {
    let body = &batch[BATCH_OVERHEAD_BYTES..header.length_bytes];
    match header.attributes.compression()? {
        // An emptied batch has no bytes that could be decompressed.
        _ if header.record_count <= 0 && body.is_empty() => Ok(Cow::Borrowed(body)),
        Compression::None => Ok(Cow::Borrowed(body)),
        compression => Ok(Cow::Owned(decompress(compression, body, limits)?)),
    }
}

fn with_records(
    header: &BatchHeader,
    batch: &[u8],
    records: &[u8],
    count: i32,
    max_timestamp_ms: i64,
) -> Result<Vec<u8>, BatchError> {
    let mut out = batch[..BATCH_OVERHEAD_BYTES].to_vec();
    compress(header.attributes.compression()?, records, &mut out);
    let max_timestamp_ms = match header.attributes.timestamp_type() {
        // The append's time is all records' time, and stands only there.
        TimestampType::LogAppendTime => header.max_timestamp_ms,
        TimestampType::CreateTime => max_timestamp_ms,
    };
    complete(&mut out, count, max_timestamp_ms);
    Ok(out)
}

/// Fills in what depends on the records, and the checksum.
fn complete(batch: &mut [u8], record_count: i32, max_timestamp_ms: i64) {
    let length = i32::try_from(batch.len() - LOG_OVERHEAD_BYTES).expect("it was larger before");
    put(batch, LENGTH_AT, &length.to_be_bytes());
    put(batch, MAX_TIMESTAMP_AT, &max_timestamp_ms.to_be_bytes());
    put(batch, RECORD_COUNT_AT, &record_count.to_be_bytes());
    seal_checksum(batch);
}

impl Attributes {
    fn with_compression(self, compression: Compression) -> Attributes {
        Attributes(self.0 & !Attributes::COMPRESSION | compression as u16)
    }
}
