//! Segments: one partition's batches laid out contiguously, with the small index that finds them.
//!
//! Written in the background from the journal, a run at a time, never on the way of an append. What counts of a file is
//! said by the checkpoint (`Segment::end`); bytes behind that are left from a run that was never recorded.

mod adopted;
mod content;
mod end;
mod piece;
mod read;
pub(crate) mod table;
mod write;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use record::{ClusterId, PartitionId};

pub(crate) use adopted::AdoptedFile;
pub(crate) use content::{check_batch, check_chunk};
pub(crate) use end::{open_segment, verify_end};
pub(crate) use piece::{PIECE_BYTES, Piece, pieces_of};
pub(crate) use read::{SegmentFile, read_index, read_piece, read_table};
pub(crate) use table::{AbortedRange, Chunk, Index, RECORDS_UNKNOWN, TIME_UNKNOWN};
pub(crate) use write::{Batch, Run, write_run};

use crate::checksum::SegmentIdentity;

/// A loaded index: all chunks of a segment in order.
pub(crate) type Table = Arc<Vec<Chunk>>;

/// Which of a partition's segments. Two of the same first offset are never of the same generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentName {
    /// The first offset.
    pub(crate) first: i64,
    /// The number of its compactions: layout writes 0.
    pub(crate) generation: u32,
}

impl SegmentName {
    /// The name of a file, if it is that of a segment.
    pub(crate) fn of_file(file: &str) -> Option<SegmentName> {
        let stem = file.strip_suffix(".segment")?;
        let (first, generation) = match stem.split_once('.') {
            Some((first, generation)) => (first, generation.parse().ok()?),
            None => (stem, 0),
        };
        let name = SegmentName {
            first: i64::try_from(first.parse::<u64>().ok()?).ok()?,
            generation,
        };
        // Nothing that only looks like a name: another spelling would be another file.
        (name.to_string() == file).then_some(name)
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.generation {
            0 => write!(formatter, "{:020}.segment", self.first),
            generation => write!(formatter, "{:020}.{generation}.segment", self.first),
        }
    }
}

/// A segment as the node keeps it in memory: everything else is in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The first offset, which names the file.
    pub(crate) first: i64,
    /// See `SegmentName`.
    pub(crate) generation: u32,
    /// Offsets may be missing in it, but for the one before `next`: it was compacted, or its batches came from a log that was.
    pub(crate) sparse: bool,
    /// The offset after the last one.
    pub(crate) next: i64,
    /// The file's bytes that count.
    pub(crate) end: u64,
    pub(crate) max_timestamp_ms: i64,
    /// The number of transactions that its index lists as aborted.
    pub(crate) aborted: u32,
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
            generation: 0,
            sparse: false,
            next: first,
            end: 0,
            max_timestamp_ms: i64::MIN,
            aborted: 0,
            created_ms,
            sealed: false,
            adopted: None,
        }
    }

    /// Bytes on disk.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.end + self.adopted.map_or(0, |file| file.bytes)
    }

    pub(crate) fn name(&self) -> SegmentName {
        SegmentName {
            first: self.first,
            generation: self.generation,
        }
    }

    pub(crate) fn identity(&self, cluster: ClusterId, partition: PartitionId) -> SegmentIdentity {
        SegmentIdentity {
            cluster,
            partition,
            segment: self.name(),
        }
    }
}

/// The directory of a partition's segments.
pub(crate) fn directory(partition: &PartitionId) -> PathBuf {
    PathBuf::from(format!("{PARTITIONS}/{partition}"))
}

/// The directory of all partitions' directories.
pub(crate) const PARTITIONS: &str = "partitions";

/// The file of a segment.
pub(crate) fn path(partition: &PartitionId, name: SegmentName) -> PathBuf {
    directory(partition).join(name.to_string())
}

#[cfg(test)]
mod tests;
