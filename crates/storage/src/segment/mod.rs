//! Segments: one partition's batches laid out contiguously, with the small index that finds them.
//!
//! Written in the background from the journal, a run at a time, never on the way of an append. What counts of a file is
//! said by the checkpoint (`Segment::end`); bytes behind that are left from a run that was never recorded.

mod adopted;
mod end;
mod piece;
mod read;
pub(crate) mod table;
mod write;

use std::path::PathBuf;
use std::sync::Arc;

use record::{ClusterId, PartitionId};

pub(crate) use adopted::AdoptedFile;
pub(crate) use end::{open_segment, verify_end};
pub(crate) use piece::{PIECE_BYTES, Piece, pieces_of};
pub(crate) use read::{SegmentFile, read_piece, read_table};
pub(crate) use table::Chunk;
pub(crate) use write::{Batch, Run, write_run};

use crate::checksum::SegmentIdentity;

/// A loaded index: all chunks of a segment in order.
pub(crate) type Table = Arc<Vec<Chunk>>;

/// What the node keeps in memory of each segment: everything else is in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The first offset, which names the file.
    pub(crate) first: i64,
    /// The offset after the last one.
    pub(crate) next: i64,
    /// The file's bytes that count.
    pub(crate) end: u64,
    pub(crate) max_timestamp_ms: i64,
    /// Wall time of its creation, for rolling by age.
    pub(crate) created_ms: i64,
    /// Complete: never written again.
    pub(crate) sealed: bool,
    /// Where its batches are, if not in its own file: that holds the index alone then.
    pub(crate) adopted: Option<AdoptedFile>,
}

impl Segment {
    /// One that nothing is in yet.
    pub(crate) fn new(first: i64, created_ms: i64) -> Segment {
        Segment {
            first,
            next: first,
            end: 0,
            max_timestamp_ms: i64::MIN,
            created_ms,
            sealed: false,
            adopted: None,
        }
    }

    /// Bytes on disk.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.end + self.adopted.map_or(0, |file| file.bytes)
    }

    pub(crate) fn identity(&self, cluster: ClusterId, partition: PartitionId) -> SegmentIdentity {
        SegmentIdentity {
            cluster,
            partition,
            segment_first: self.first,
        }
    }
}

/// The directory of a partition's segments.
pub(crate) fn directory(partition: &PartitionId) -> PathBuf {
    PathBuf::from(format!("{PARTITIONS}/{partition}"))
}

/// The directory of all partitions' directories.
pub(crate) const PARTITIONS: &str = "partitions";

/// The file of the segment that begins at `first`.
pub(crate) fn path(partition: &PartitionId, first: i64) -> PathBuf {
    directory(partition).join(format!("{first:020}.segment"))
}

#[cfg(test)]
mod tests;
