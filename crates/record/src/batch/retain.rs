//! Compaction of a batch: looks at its keys, and makes a copy with fewer records.
//!
//! Compressed records are seen piece by piece: a small batch may hold hundreds of megabytes. A record that stays keeps its
//! fields, byte for byte: the base offset and the base timestamp that its deltas add to are never changed, nor the last offset
//! delta, producer, epoch and sequence. So offsets stay where they are, and consumers step over the gaps. Works on stored
//! batches, which were validated when they were appended; a malformed one is still an error, never a panic.

use std::ops::ControlFlow;

use super::compress::{Compressor, Limits};
use super::error::{BatchError, RecordFault};
use super::header::{
    ATTRIBUTES_AT, BASE_SEQUENCE_AT, BASE_TIMESTAMP_AT, BATCH_OVERHEAD_BYTES, BatchHeader, Compression,
    LAST_OFFSET_DELTA_AT, LEADER_EPOCH_AT, LENGTH_AT, LOG_OVERHEAD_BYTES, MAGIC, MAGIC_AT, MAX_TIMESTAMP_AT,
    PRODUCER_EPOCH_AT, PRODUCER_ID_AT, RECORD_COUNT_AT, TimestampType,
};
use super::patch::{put, seal_checksum};
use super::source::Source;
use super::walk::{Walk, take_head, take_length, walk_batch_by};
use crate::varint::put_varint;
use crate::{Epoch, Offset};

/// No record has a time.
const NO_TIMESTAMP: i64 = -1;

/// A digest of a key that is shown piece by piece: nobody has to have all of a long one in memory.
pub trait KeyDigest: Clone {
    /// Takes the next bytes of the key.
    fn update(&mut self, piece: &[u8]);
}

/// For who wants to know only whether there is a key.
impl KeyDigest for () {
    fn update(&mut self, _: &[u8]) {}
}

/// A record as far as compaction looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyedRecord<K> {
    /// Its place in the partition.
    pub offset: Offset,
    /// Its time in milliseconds since 1970, as its producer gave it; -1 is none.
    pub timestamp_ms: i64,
    /// The digest of its key, if it has one.
    pub key: Option<K>,
    /// It has no value: with a key, it says that the key is gone.
    pub is_null: bool,
}

/// The rest of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retained {
    /// Every record: the batch is to be used as it is.
    All,
    /// Some: this batch has them.
    Some(Vec<u8>),
    /// None.
    Nothing,
}

/// Shows the times of the records of the batch that `batch` begins with, and which have keys, to `visit`, in order, until
/// that breaks off.
///
/// # Errors
/// As [`super::records`]; what is malformed comes after the sound records before it were shown.
pub fn visit_keys(
    batch: &[u8],
    limits: &Limits,
    visit: impl FnMut(&KeyedRecord<()>) -> ControlFlow<()>,
) -> Result<(), BatchError> {
    visit_digests(batch, limits, &(), visit)
}

/// The same with what becomes of `empty` when it has taken a record's key.
///
/// # Errors
/// As `visit_keys`.
pub fn visit_digests<K: KeyDigest>(
    batch: &[u8],
    limits: &Limits,
    empty: &K,
    visit: impl FnMut(&KeyedRecord<K>) -> ControlFlow<()>,
) -> Result<(), BatchError> {
    let header = &BatchHeader::read(batch)?;
    walk_batch_by(header, batch, limits, &mut Keyed { header, empty, visit })
}

/// Keeps those records of the batch that `batch` begins with that `keep` says yes to; it is asked once for each, in order.
/// Compressed records are gone over twice and never all in memory.
///
/// # Errors
/// As [`super::records`].
pub fn retain<K: KeyDigest>(
    batch: &[u8],
    limits: &Limits,
    empty: &K,
    mut keep: impl FnMut(&KeyedRecord<K>) -> bool,
) -> Result<Retained, BatchError> {
    let header = &BatchHeader::read(batch)?;
    let mut choice = Choice::new();
    let visit = |record: &KeyedRecord<K>| {
        choice.note(keep(record), record.timestamp_ms);
        ControlFlow::Continue(())
    };
    walk_batch_by(header, batch, limits, &mut Keyed { header, empty, visit })?;
    Ok(match choice.kept_count {
        0 => Retained::Nothing,
        count if count == header.record_count => Retained::All,
        _ => Retained::Some(with_chosen(header, batch, limits, &choice)?),
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

/// The place of a batch in a log, and who wrote it: all that is known of one that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its first offset.
    pub first_offset: Offset,
    /// The number of its offsets; at least one.
    pub offset_count: i32,
    /// The leader's epoch that wrote it.
    pub epoch: Epoch,
    /// Its producer with that one's epoch, and the sequence of its first record; `None` if the producer is not idempotent, or is
    /// not known any more.
    pub producer: Option<(i64, i16, i32)>,
}

/// A batch without records, as [`emptied`] leaves one.
///
/// # Panics
/// It has no offsets.
#[must_use]
pub fn placeholder(place: &Place) -> Vec<u8> {
    assert!(place.offset_count > 0, "a batch has offsets");
    let (producer_id, producer_epoch, first_sequence) = place.producer.unwrap_or((-1, -1, -1));
    let mut empty = vec![0; BATCH_OVERHEAD_BYTES];
    put(&mut empty, 0, &place.first_offset.0.to_be_bytes());
    put(&mut empty, LEADER_EPOCH_AT, &place.epoch.0.to_be_bytes());
    empty[MAGIC_AT] = MAGIC as u8;
    put(
        &mut empty,
        LAST_OFFSET_DELTA_AT,
        &(place.offset_count - 1).to_be_bytes(),
    );
    put(&mut empty, BASE_TIMESTAMP_AT, &NO_TIMESTAMP.to_be_bytes());
    put(&mut empty, PRODUCER_ID_AT, &producer_id.to_be_bytes());
    put(&mut empty, PRODUCER_EPOCH_AT, &producer_epoch.to_be_bytes());
    put(&mut empty, BASE_SEQUENCE_AT, &first_sequence.to_be_bytes());
    complete(&mut empty, 0, NO_TIMESTAMP);
    empty
}

/// A walk that looks at keys.
struct Keyed<'a, K, F> {
    header: &'a BatchHeader,
    empty: &'a K,
    visit: F,
}

impl<K: KeyDigest, F: FnMut(&KeyedRecord<K>) -> ControlFlow<()>> Walk for Keyed<'_, K, F> {
    fn take<S: Source>(&mut self, _: i32, source: &mut S) -> Result<ControlFlow<()>, RecordFault> {
        let (head, bounds) = take_head(source)?;
        let timestamp_delta = head.timestamp_delta;
        let timestamp_ms = self
            .header
            .timestamp_at(timestamp_delta)
            .ok_or(RecordFault::TimestampDelta { timestamp_delta })?;
        let mut key = None;
        if let Some(length) = take_length(source, bounds.end)? {
            let digest = key.insert(self.empty.clone());
            source.show(length, |piece| digest.update(piece))?;
        }
        let is_null = take_length(source, bounds.end)?.is_none();
        let rest = bounds.end.checked_sub(source.position());
        source.skip(rest.ok_or(RecordFault::CutShort)?)?;
        Ok((self.visit)(&KeyedRecord {
            offset: self.header.offset_at(head.offset_delta),
            timestamp_ms,
            key,
            is_null,
        }))
    }
}

/// Which records stay: a bit for each.
struct Choice {
    bits: Vec<u64>,
    count: usize,
    kept_count: i32,
    /// The greatest of those that stay.
    max_timestamp_ms: i64,
}

impl Choice {
    fn new() -> Choice {
        Choice {
            bits: Vec::new(),
            count: 0,
            kept_count: 0,
            max_timestamp_ms: NO_TIMESTAMP,
        }
    }

    fn note(&mut self, stays: bool, timestamp_ms: i64) {
        if self.count.is_multiple_of(64) {
            self.bits.push(0);
        }
        if stays {
            self.bits[self.count / 64] |= 1 << (self.count % 64);
            self.kept_count += 1;
            self.max_timestamp_ms = self.max_timestamp_ms.max(timestamp_ms);
        }
        self.count += 1;
    }

    fn stays(&self, index: i32) -> bool {
        self.bits[index as usize / 64] >> (index % 64) & 1 == 1
    }
}

/// A walk that copies the records of a choice.
struct Copying<'a> {
    choice: &'a Choice,
    out: Compressor,
    /// Room for a length.
    length: Vec<u8>,
}

impl Walk for Copying<'_> {
    fn take<S: Source>(&mut self, index: i32, source: &mut S) -> Result<ControlFlow<()>, RecordFault> {
        let length = source.varint()?;
        let bytes = u64::try_from(length).map_err(|_| RecordFault::Length { length })?;
        match self.choice.stays(index) {
            true => {
                self.length.clear();
                put_varint(&mut self.length, i64::from(length));
                self.out.write(&self.length);
                source.show(bytes, |piece| self.out.write(piece))?;
            }
            false => source.skip(bytes)?,
        }
        Ok(ControlFlow::Continue(()))
    }
}

fn with_chosen(
    header: &BatchHeader,
    batch: &[u8],
    limits: &Limits,
    choice: &Choice,
) -> Result<Vec<u8>, BatchError> {
    let compression = header.attributes.compression()?;
    let (head, records) = batch[..header.length_bytes].split_at(BATCH_OVERHEAD_BYTES);
    let mut copying = Copying {
        choice,
        out: Compressor::like(compression, records, head.to_vec()),
        length: Vec::new(),
    };
    walk_batch_by(header, batch, limits, &mut copying)?;
    let mut out = copying.out.finish();
    // Compressed less well than before, it may have become longer.
    if out.len() > i32::MAX as usize {
        let limit_bytes = i32::MAX as u64;
        return Err(BatchError::DecompressedTooLarge { limit_bytes });
    }
    let max_timestamp_ms = match header.attributes.timestamp_type() {
        // The append's time is all records' time, and stands only there.
        TimestampType::LogAppendTime => header.max_timestamp_ms,
        TimestampType::CreateTime => choice.max_timestamp_ms,
    };
    complete(&mut out, choice.kept_count, max_timestamp_ms);
    Ok(out)
}

/// Fills in what depends on the records, and the checksum.
fn complete(batch: &mut [u8], record_count: i32, max_timestamp_ms: i64) {
    let length = i32::try_from(batch.len() - LOG_OVERHEAD_BYTES).expect("a batch is below 2 GiB");
    put(batch, LENGTH_AT, &length.to_be_bytes());
    put(batch, MAX_TIMESTAMP_AT, &max_timestamp_ms.to_be_bytes());
    put(batch, RECORD_COUNT_AT, &record_count.to_be_bytes());
    seal_checksum(batch);
}
