//! The index of a segment: its chunks, and the trailer that ends each run. Pure encoding and checking, no I/O.
//!
//! ```text
//! segment | run | run | … | run |              a run is what one layout step appended
//! run     | chunk | chunk | … | table | aborted ranges | zeros | trailer |      whole blocks
//! chunk   | batch | batch | … |                a run of whole batches, at least CHUNK_BYTES but for the last
//! ```
//! A chunk is the unit of index and checksum. A table lists the chunks of its run and the transactions that it aborts; the
//! trailer points back to the end of the run before, but for the run that seals the segment: its table lists all. In the file of a
//! segment that adopted a journal file, that run is the only one and has no chunks of its own: its table points there.
//! All integers are little-endian.

use std::ops::Range;

use platform::disk::BLOCK_BYTES;

use crate::checksum::SegmentIdentity;
use crate::journal::frame::{get_u32, get_u64, put_u32, put_u64};

/// The version of a segment's layout that this code writes and reads.
pub(crate) const FORMAT_VERSION: u32 = 3;
/// A chunk is closed by the batch that fills it to this size.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;
pub(crate) const ENTRY_BYTES: usize = 56;
pub(crate) const ABORTED_BYTES: usize = 24;
pub(crate) const TRAILER_BYTES: usize = 128;

const TRAILER_MAGIC: [u8; 8] = *b"RWSEGRUN";
const CHECKED_BYTES: usize = TRAILER_BYTES - 8;
const RESERVED: Range<usize> = 52..CHECKED_BYTES;

/// One chunk: offsets `[first, next)`, bytes `[position, position + length)` of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) first: i64,
    pub(crate) next: i64,
    pub(crate) position: u64,
    pub(crate) length: u32,
    pub(crate) max_timestamp_ms: i64,
    /// No record of it has a lesser timestamp; `TIME_UNKNOWN` if that is not known.
    pub(crate) min_timestamp_ms: i64,
    /// The number of its records; `RECORDS_UNKNOWN` if that is not known.
    pub(crate) records: u32,
    pub(crate) checksum: u64,
}

/// See `Chunk`: nobody looked at each record's time.
pub(crate) const TIME_UNKNOWN: i64 = i64::MIN;
/// See `Chunk`: the batches stand in a journal file, and were not looked at.
pub(crate) const RECORDS_UNKNOWN: u32 = u32::MAX;

/// A transaction that was aborted: its records are of no use to those who read committed ones only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AbortedRange {
    pub(crate) producer_id: i64,
    /// The first record's offset.
    pub(crate) first: i64,
    /// The offset of the record that aborts it.
    pub(crate) marker: i64,
}

/// The content of tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) chunks: Vec<Chunk>,
    /// In the order of their markers, which are in these chunks; what they abort may begin before.
    pub(crate) aborted: Vec<AbortedRange>,
}

impl Index {
    /// Its bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = encode_table(&self.chunks);
        for range in &self.aborted {
            for field in [range.producer_id, range.first, range.marker] {
                bytes.extend_from_slice(&field.to_le_bytes());
            }
        }
        bytes
    }

    /// An index of so many chunks from bytes whose checksum held; `None` if they say what this version does not know.
    pub(crate) fn decode(bytes: &[u8], chunk_count: usize) -> Option<Index> {
        let (chunks, aborted) = bytes.split_at_checked(chunk_count * ENTRY_BYTES)?;
        let range = |bytes: &[u8]| AbortedRange {
            producer_id: get_u64(bytes, 0) as i64,
            first: get_u64(bytes, 8) as i64,
            marker: get_u64(bytes, 16) as i64,
        };
        Some(Index {
            chunks: decode_table(chunks)?,
            aborted: aborted.chunks_exact(ABORTED_BYTES).map(range).collect(),
        })
    }
}

/// Chunks as bytes.
fn encode_table(chunks: &[Chunk]) -> Vec<u8> {
    let mut bytes = vec![0u8; chunks.len() * ENTRY_BYTES];
    for (chunk, entry) in chunks.iter().zip(bytes.chunks_exact_mut(ENTRY_BYTES)) {
        put_u64(entry, 0, chunk.first as u64);
        put_u64(entry, 8, chunk.position);
        put_u32(entry, 16, chunk.length);
        // Each record takes at least a byte, and where compaction left gaps the writer ends chunks in time.
        put_u32(
            entry,
            20,
            u32::try_from(chunk.next - chunk.first).expect("a chunk spans fewer than 2^32 offsets"),
        );
        put_u64(entry, 24, chunk.max_timestamp_ms as u64);
        put_u64(entry, 32, chunk.checksum);
        put_u64(entry, 40, chunk.min_timestamp_ms as u64);
        put_u32(entry, 48, chunk.records);
    }
    bytes
}

/// Chunks from bytes whose checksum held.
fn decode_table(bytes: &[u8]) -> Option<Vec<Chunk>> {
    let chunk = |entry: &[u8]| Chunk {
        first: get_u64(entry, 0) as i64,
        next: get_u64(entry, 0) as i64 + i64::from(get_u32(entry, 20)),
        position: get_u64(entry, 8),
        length: get_u32(entry, 16),
        max_timestamp_ms: get_u64(entry, 24) as i64,
        checksum: get_u64(entry, 32),
        min_timestamp_ms: get_u64(entry, 40) as i64,
        records: get_u32(entry, 48),
    };
    let decode = |entry: &[u8]| (get_u32(entry, 52) == 0).then(|| chunk(entry));
    bytes.chunks_exact(ENTRY_BYTES).map(decode).collect()
}

/// The end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(crate) table_position: u64,
    pub(crate) chunk_count: u32,
    pub(crate) aborted_count: u32,
    pub(crate) table_checksum: u64,
    /// Where the run before ends; zero if this table lists everything from the segment's start.
    pub(crate) previous_end: u64,
    pub(crate) next: i64,
}

/// Why a trailer was not accepted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TrailerError {
    Damaged,
    /// Something stands in the reserved bytes.
    UnknownFields,
    UnknownVersion(u32),
}

impl Trailer {
    /// The trailer as the last bytes before `end`.
    pub(crate) fn encode(&self, identity: &SegmentIdentity, end: u64) -> [u8; TRAILER_BYTES] {
        assert!(
            end.is_multiple_of(BLOCK_BYTES as u64),
            "a run ends on a block boundary"
        );
        let mut bytes = [0u8; TRAILER_BYTES];
        bytes[..8].copy_from_slice(&TRAILER_MAGIC);
        put_u32(&mut bytes, 8, FORMAT_VERSION);
        put_u32(&mut bytes, 12, self.chunk_count);
        put_u64(&mut bytes, 16, self.table_position);
        put_u64(&mut bytes, 24, self.table_checksum);
        put_u64(&mut bytes, 32, self.previous_end);
        put_u64(&mut bytes, 40, self.next as u64);
        put_u32(&mut bytes, 48, self.aborted_count);
        let checksum = identity.checksum(end, &bytes[..CHECKED_BYTES]);
        put_u64(&mut bytes, CHECKED_BYTES, checksum);
        bytes
    }

    /// Reads the trailer that ends at `end`.
    pub(crate) fn decode(
        bytes: &[u8],
        identity: &SegmentIdentity,
        end: u64,
    ) -> Result<Trailer, TrailerError> {
        if bytes.len() != TRAILER_BYTES
            || bytes[..8] != TRAILER_MAGIC
            || get_u64(bytes, CHECKED_BYTES) != identity.checksum(end, &bytes[..CHECKED_BYTES])
        {
            return Err(TrailerError::Damaged);
        }
        match get_u32(bytes, 8) {
            FORMAT_VERSION if bytes[RESERVED].iter().any(|byte| *byte != 0) => {
                Err(TrailerError::UnknownFields)
            }
            FORMAT_VERSION => Ok(Trailer {
                chunk_count: get_u32(bytes, 12),
                aborted_count: get_u32(bytes, 48),
                table_position: get_u64(bytes, 16),
                table_checksum: get_u64(bytes, 24),
                previous_end: get_u64(bytes, 32),
                next: get_u64(bytes, 40) as i64,
            }),
            unknown => Err(TrailerError::UnknownVersion(unknown)),
        }
    }
}
