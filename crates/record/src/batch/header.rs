//! The 61 bytes before a batch's records, read as they are: what they promise is checked in `validate`.

use std::fmt;

use super::error::BatchError;
use crate::{Epoch, Offset};

/// Bytes before the records of a batch.
pub const BATCH_OVERHEAD_BYTES: usize = 61;
/// Bytes before the part of a batch that its length field counts: base offset and the length itself.
pub const LOG_OVERHEAD_BYTES: usize = 12;

/// Where the magic byte stands; the same in message formats 0 and 1.
pub(super) const MAGIC_AT: usize = 16;
pub(super) const LENGTH_AT: usize = 8;
pub(super) const LEADER_EPOCH_AT: usize = 12;
pub(super) const CRC_AT: usize = 17;
pub(super) const ATTRIBUTES_AT: usize = 21;
pub(super) const LAST_OFFSET_DELTA_AT: usize = 23;
pub(super) const BASE_TIMESTAMP_AT: usize = 27;
pub(super) const MAX_TIMESTAMP_AT: usize = 35;
pub(super) const PRODUCER_ID_AT: usize = 43;
pub(super) const PRODUCER_EPOCH_AT: usize = 51;
pub(super) const BASE_SEQUENCE_AT: usize = 53;
pub(super) const RECORD_COUNT_AT: usize = 57;

/// The only message format there is.
pub(super) const MAGIC: i8 = 2;

/// The compression of a batch's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// Gzip, one member.
    Gzip,
    /// Snappy: one raw block, or blocks in the frame of the Java library.
    Snappy,
    /// LZ4, one frame.
    Lz4,
    /// Zstandard, one frame (KIP-110).
    Zstd,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Snappy => "snappy",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        })
    }
}

/// The meaning of a batch's timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimestampType {
    /// Each record has the time that its producer gave it.
    CreateTime,
    /// All records have the time of the append, which is the header's largest timestamp.
    LogAppendTime,
}

/// A batch's attribute bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Attributes(pub u16);

impl Attributes {
    pub(super) const COMPRESSION: u16 = 0b111;
    pub(super) const LOG_APPEND_TIME: u16 = 1 << 3;
    const TRANSACTIONAL: u16 = 1 << 4;
    const CONTROL: u16 = 1 << 5;
    const DELETE_HORIZON: u16 = 1 << 6;
    const UNKNOWN: u16 = !0b111_1111;

    /// The attributes of a new producer's batch, outside any transaction.
    #[must_use]
    pub fn of(compression: Compression) -> Attributes {
        Attributes(compression as u16)
    }

    /// The same of records that are compressed this way.
    pub(super) fn with_compression(self, compression: Compression) -> Attributes {
        Attributes(self.0 & !Attributes::COMPRESSION | compression as u16)
    }

    /// The same, inside a transaction or not.
    #[must_use]
    pub fn with_transactional(self, transactional: bool) -> Attributes {
        let others = self.0 & !Self::TRANSACTIONAL;
        Attributes(others | if transactional { Self::TRANSACTIONAL } else { 0 })
    }

    /// The same, of a broker's markers or not.
    pub(super) fn with_control(self, control: bool) -> Attributes {
        let others = self.0 & !Self::CONTROL;
        Attributes(others | if control { Self::CONTROL } else { 0 })
    }

    /// The compression of the records.
    ///
    /// # Errors
    /// `UnknownCompression` if the code has no meaning.
    pub fn compression(self) -> Result<Compression, BatchError> {
        match self.0 & Self::COMPRESSION {
            0 => Ok(Compression::None),
            1 => Ok(Compression::Gzip),
            2 => Ok(Compression::Snappy),
            3 => Ok(Compression::Lz4),
            4 => Ok(Compression::Zstd),
            code => Err(BatchError::UnknownCompression { code: code as u8 }),
        }
    }

    /// The meaning of the timestamps.
    #[must_use]
    pub fn timestamp_type(self) -> TimestampType {
        if self.0 & Self::LOG_APPEND_TIME == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// Says if the batch is part of a transaction.
    #[must_use]
    pub fn is_transactional(self) -> bool {
        self.0 & Self::TRANSACTIONAL != 0
    }

    /// Says if the records are markers of brokers, which no consumer sees.
    #[must_use]
    pub fn is_control(self) -> bool {
        self.0 & Self::CONTROL != 0
    }

    /// Says if the base timestamp is the time when tombstones may go (KIP-534).
    #[must_use]
    pub fn has_delete_horizon(self) -> bool {
        self.0 & Self::DELETE_HORIZON != 0
    }

    /// Says if there are bits that have no meaning.
    #[must_use]
    pub fn has_unknown(self) -> bool {
        self.0 & Self::UNKNOWN != 0
    }
}

/// A batch's header, as the bytes say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// The first record's offset.
    pub base_offset: Offset,
    /// Bytes of the whole batch, with the twelve before the counted part.
    pub length_bytes: usize,
    /// The leader's epoch at the append.
    pub leader_epoch: Epoch,
    /// The message format: 2.
    pub magic: i8,
    /// CRC-32C from the attributes on.
    pub crc: u32,
    /// Compression, timestamp type, and what kind of batch this is.
    pub attributes: Attributes,
    /// The last record's offset, less the base offset.
    pub last_offset_delta: i32,
    /// The timestamp that the records' deltas add to, in milliseconds since 1970; -1 is none.
    pub base_timestamp_ms: i64,
    /// The largest timestamp in the batch, by its producer's word (or the append time).
    pub max_timestamp_ms: i64,
    /// The idempotent producer, or -1.
    pub producer_id: i64,
    /// That producer's epoch, or -1.
    pub producer_epoch: i16,
    /// The first record's sequence number, or -1.
    pub base_sequence: i32,
    /// The number of records; after compaction fewer than offsets.
    pub record_count: i32,
}

impl BatchHeader {
    /// Reads the header of the batch that `bytes` begins with. Only that there is a whole batch of format 2 is checked.
    ///
    /// # Errors
    /// `Truncated` if the header or the batch is not whole, `UnsupportedMagic`, `LengthTooSmall`.
    pub fn read(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
        // Older formats may be shorter than a header; their magic stands at the same place and is the better answer.
        if let Some(&magic) = bytes.get(MAGIC_AT)
            && magic as i8 != MAGIC
        {
            return Err(BatchError::UnsupportedMagic { magic: magic as i8 });
        }
        let truncated = |needed| BatchError::Truncated {
            needed,
            given: bytes.len(),
        };
        let header = bytes
            .first_chunk::<BATCH_OVERHEAD_BYTES>()
            .ok_or_else(|| truncated(BATCH_OVERHEAD_BYTES))?;
        let length_bytes = i64::from(i32_at(header, LENGTH_AT)) + LOG_OVERHEAD_BYTES as i64;
        if length_bytes < BATCH_OVERHEAD_BYTES as i64 {
            return Err(BatchError::LengthTooSmall { length_bytes });
        }
        if length_bytes as usize > bytes.len() {
            return Err(truncated(length_bytes as usize));
        }
        Ok(BatchHeader::from_whole(header, length_bytes as usize))
    }

    fn from_whole(header: &[u8; BATCH_OVERHEAD_BYTES], length_bytes: usize) -> BatchHeader {
        BatchHeader {
            base_offset: Offset(i64_at(header, 0)),
            length_bytes,
            leader_epoch: Epoch(i32_at(header, LEADER_EPOCH_AT)),
            magic: header[MAGIC_AT] as i8,
            crc: i32_at(header, CRC_AT) as u32,
            attributes: Attributes(i16_at(header, ATTRIBUTES_AT) as u16),
            last_offset_delta: i32_at(header, LAST_OFFSET_DELTA_AT),
            base_timestamp_ms: i64_at(header, BASE_TIMESTAMP_AT),
            max_timestamp_ms: i64_at(header, MAX_TIMESTAMP_AT),
            producer_id: i64_at(header, PRODUCER_ID_AT),
            producer_epoch: i16_at(header, PRODUCER_EPOCH_AT),
            base_sequence: i32_at(header, BASE_SEQUENCE_AT),
            record_count: i32_at(header, RECORD_COUNT_AT),
        }
    }

    /// The last record's offset. Saturates on headers that no broker wrote.
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        self.offset_at(self.last_offset_delta)
    }

    /// The offset after the last record's. Saturates on headers that no broker wrote.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        Offset(self.last_offset().0.saturating_add(1))
    }

    /// The last record's sequence number; after `i32::MAX` comes 0. -1 if the producer does not number its records.
    #[must_use]
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return self.base_sequence;
        }
        let last = i64::from(self.base_sequence) + i64::from(self.last_offset_delta);
        (last & i64::from(i32::MAX)) as i32
    }

    /// The offset `delta` after the base offset.
    pub(super) fn offset_at(&self, delta: i32) -> Offset {
        Offset(self.base_offset.0.saturating_add(i64::from(delta)))
    }

    /// The timestamp of a record with this delta; `None` if there is no such time.
    #[inline]
    pub(super) fn timestamp_at(&self, delta: i64) -> Option<i64> {
        match self.attributes.timestamp_type() {
            TimestampType::CreateTime => self.base_timestamp_ms.checked_add(delta),
            TimestampType::LogAppendTime => Some(self.max_timestamp_ms),
        }
    }
}

/// CRC-32C of a whole batch, from the attributes to its end: what its `crc` field should hold.
///
/// # Panics
/// If `batch` is shorter than a header.
#[must_use]
pub fn checksum(batch: &[u8]) -> u32 {
    assert!(
        batch.len() >= BATCH_OVERHEAD_BYTES,
        "a whole batch is summed up, not a part"
    );
    crc_fast::crc32_iscsi(&batch[ATTRIBUTES_AT..])
}

/// Says if a whole batch's bytes are those that its checksum was made of.
///
/// # Panics
/// If `batch` is shorter than a header.
#[must_use]
pub fn checksum_holds(batch: &[u8]) -> bool {
    checksum(batch) == stored_checksum(batch)
}

/// The `crc` field of a whole batch.
pub(super) fn stored_checksum(batch: &[u8]) -> u32 {
    i32_at(batch, CRC_AT) as u32
}

fn i16_at(bytes: &[u8], at: usize) -> i16 {
    i16::from_be_bytes(array_at(bytes, at))
}

fn i32_at(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(array_at(bytes, at))
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(array_at(bytes, at))
}

#[inline]
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("fields lie inside the header")
}
