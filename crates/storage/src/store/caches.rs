//! The caches of what was read from segments, and what is weighed in them.
//!
//! Pieces and the tables that find them keep to budgets in bytes; files are open for as long as they are read now and then. Nothing
//! here is needed: what is not here is read again.

use std::sync::Arc;

use quick_cache::unsync::Cache;
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use record::PartitionId;

use super::read_ahead::ReadAhead;
use crate::segment::{AbortedRange, Chunk, PIECE_BYTES, Piece, SegmentFile, SegmentName, Table};

/// Segment files kept open for reading.
const OPEN_SEGMENTS_MAX: usize = 256;
/// Of the chunk cache's budget, the share that loaded segment indexes may take.
const TABLE_SHARE: usize = 8;
/// More than the index of a segment of 1 GiB takes.
const TABLE_BYTES_MAX: u64 = 1 << 20;

/// The name has a generation: what was read before a compaction is never taken for what is there since.
pub(super) type SegmentKey = (PartitionId, SegmentName);
/// A segment, and which piece of it.
pub(super) type PieceKey = (PartitionId, SegmentName, u64);
pub(super) type PieceCache = Cache<PieceKey, Piece, ByteWeight>;

/// The share of the cache for pieces that were asked for more than once. What is read ahead lives in the rest until it is
/// asked for, so that must hold more than all that is read ahead.
const HOT_SHARE: f64 = 0.4;

/// All that is in memory of segments.
pub(super) struct Caches {
    pub(super) pieces: PieceCache,
    pub(super) tables: Cache<SegmentKey, Table, ByteWeight>,
    /// The transactions that markers in a segment abort.
    pub(super) aborted: Cache<SegmentKey, Listed, ByteWeight>,
    /// Files that are open.
    pub(super) files: Cache<SegmentKey, SegmentFile>,
    /// Pieces that readers will want next.
    pub(super) ahead: ReadAhead,
}

impl Caches {
    /// Empty ones that take `bytes` for pieces, and for tables what those need.
    pub(super) fn new(bytes: usize) -> Caches {
        Caches {
            pieces: piece_cache(bytes),
            tables: Cache::with_weighter(64, table_cache_bytes(bytes as u64), ByteWeight),
            aborted: Cache::with_weighter(64, table_cache_bytes(bytes as u64), ByteWeight),
            files: Cache::new(OPEN_SEGMENTS_MAX),
            ahead: ReadAhead::new(bytes),
        }
    }

    /// Bytes of pieces, tables and lists.
    pub(super) fn bytes(&self) -> u64 {
        self.pieces.weight() + self.tables.weight() + self.aborted.weight()
    }

    /// Lets go of the file and the table of a segment. Nobody asks for its pieces any more, so they make way for others.
    pub(super) fn forget_segment(&mut self, key: &SegmentKey) {
        self.files.remove(key);
        self.tables.remove(key);
        self.aborted.remove(key);
    }
}

/// The transactions that markers in a segment abort, by their markers.
#[derive(Debug, Clone)]
pub(super) struct Listed {
    pub(super) ranges: Arc<[AbortedRange]>,
    /// None of them begins before.
    pub(super) begins_at: i64,
}

impl Listed {
    pub(super) fn of(ranges: Vec<AbortedRange>) -> Listed {
        let begins_at = ranges.iter().map(|range| range.first).min();
        Listed {
            ranges: ranges.into(),
            begins_at: begins_at.unwrap_or(i64::MAX),
        }
    }
}

/// Weighs cache entries by their bytes.
#[derive(Clone)]
pub(super) struct ByteWeight;

impl Weighter<PieceKey, Piece> for ByteWeight {
    fn weight(&self, _: &PieceKey, piece: &Piece) -> u64 {
        piece.held_bytes().max(1) as u64
    }
}

impl Weighter<SegmentKey, Table> for ByteWeight {
    fn weight(&self, _: &SegmentKey, table: &Table) -> u64 {
        (table.len() * size_of::<Chunk>()).max(1) as u64
    }
}

impl Weighter<SegmentKey, Listed> for ByteWeight {
    fn weight(&self, _: &SegmentKey, listed: &Listed) -> u64 {
        size_of_val(&*listed.ranges).max(1) as u64
    }
}

/// A cache of pieces of at most so many bytes.
pub(super) fn piece_cache(bytes_max: usize) -> PieceCache {
    let options = OptionsBuilder::new()
        .estimated_items_capacity(bytes_max / PIECE_BYTES as usize + 1)
        .weight_capacity(bytes_max as u64)
        .hot_allocation(HOT_SHARE)
        .build()
        .expect("all that has no default is set");
    Cache::with_options(
        options,
        ByteWeight,
        DefaultHashBuilder::default(),
        Default::default(),
    )
}

/// The part of the chunk cache's budget that segment indexes may take: at least as much as the largest one, which would otherwise
/// be read again for each read.
fn table_cache_bytes(chunk_cache_bytes: u64) -> u64 {
    match chunk_cache_bytes {
        0 => 0,
        bytes => (bytes / TABLE_SHARE as u64).max(TABLE_BYTES_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_the_largest_segment_has_room_whatever_share_a_journal_has() {
        const OF_A_GIBIBYTE: u64 = 896 << 10;
        for journals in [1, 16, 64] {
            assert!(
                table_cache_bytes((64 << 20) / journals) > OF_A_GIBIBYTE,
                "{journals}"
            );
        }
        assert_eq!(table_cache_bytes(0), 0, "none was wanted");
    }
}
