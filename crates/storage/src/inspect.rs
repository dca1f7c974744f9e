//! What is in the files, line by line, for a person who looks into them. Reads only; no store may be open on them.

use std::collections::HashMap;
use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use platform::disk::Disk;
use record::{Epoch, Offset, PartitionId};

use crate::checkpoint::Checkpoint;
use crate::checksum::JournalIdentity;
use crate::fault::Fault;
use crate::journal::frame::{Entry, EntryKind};
use crate::journal::{FrameLocation, directory, scan};
use crate::segment::{open_segment, read_table};

/// A frame of the journal: what one flush made durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameListing {
    /// The journal file.
    pub file: String,
    /// Its first byte in the file.
    pub position: u64,
    /// Its number in the journal's history.
    pub frame: u64,
    /// Its size in bytes, padding included.
    pub bytes: u32,
    /// What it holds.
    pub entries: Vec<EntryListing>,
}

/// An entry of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryListing {
    /// A record batch.
    Batch {
        /// Appended to this partition,
        partition: PartitionId,
        /// in this epoch,
        epoch: Epoch,
        /// from this offset
        first: Offset,
        /// up to, but not including, this one.
        next: Offset,
        /// Its size in bytes.
        bytes: u32,
    },
    /// A prefix was given up.
    Trim {
        /// Of this partition,
        partition: PartitionId,
        /// everything below this offset.
        log_start: Offset,
    },
    /// A partition was given up.
    Delete {
        /// This one.
        partition: PartitionId,
    },
}

/// A segment and its index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentListing {
    /// Whose records it holds.
    pub partition: PartitionId,
    /// Its file.
    pub file: String,
    /// The journal file with its batches, if it adopted one: `file` holds the index alone then.
    pub adopted: Option<String>,
    /// The first offset.
    pub first: Offset,
    /// The offset after the last.
    pub next: Offset,
    /// The bytes on disk that count.
    pub bytes: u64,
    /// Complete: never written again.
    pub sealed: bool,
    /// How often it was compacted; offsets may be missing then.
    pub compactions: u32,
    /// The greatest timestamp in it.
    pub max_timestamp_ms: i64,
    /// When it was begun.
    pub created_ms: i64,
    /// Its chunks, in order.
    pub chunks: Vec<ChunkListing>,
}

/// A chunk of a segment: the unit of checksum, caching and reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkListing {
    /// The first offset.
    pub first: Offset,
    /// The offset after the last.
    pub next: Offset,
    /// Its first byte in the file.
    pub position: u64,
    /// Its size in bytes.
    pub bytes: u32,
    /// The greatest timestamp in it.
    pub max_timestamp_ms: i64,
    /// CRC-64/NVME of its identity and its bytes.
    pub checksum: u64,
}

/// The frames of a journal that recovery would replay, in order. Blocks.
///
/// # Errors
/// As opening a store.
pub fn list_frames(disk: &Arc<dyn Disk>, identity: &JournalIdentity) -> Result<Vec<FrameListing>, Fault> {
    let checkpoint = Checkpoint::read(disk, identity)?;
    let start = checkpoint.as_ref().map(|checkpoint| checkpoint.replay);
    let held = checkpoint.map_or_else(HashSet::new, |checkpoint| checkpoint.held_files());
    let mut listings = Vec::new();
    let mut sequences = Vec::new();
    let mut visit = |location: &FrameLocation, _: &Bytes, entries: &[Entry]| {
        sequences.push(location.file_sequence);
        listings.push(FrameListing {
            file: String::new(),
            position: location.position,
            frame: location.frame_sequence,
            bytes: location.total_bytes,
            entries: entries.iter().map(list_entry).collect(),
        });
        Ok(())
    };
    let scanned = scan(disk, identity, start, &held, &mut visit)?;
    let directory = disk.root().join(directory(identity));
    let name = |name: &str| directory.join(name).display().to_string();
    let names: HashMap<_, _> = scanned
        .files
        .used
        .iter()
        .map(|file| (file.sequence, name(&file.name)))
        .collect();
    for (listing, sequence) in listings.iter_mut().zip(sequences) {
        listing.file = names[&sequence].clone();
    }
    Ok(listings)
}

fn list_entry(entry: &Entry) -> EntryListing {
    let header = entry.header;
    let partition = header.partition;
    match header.kind {
        EntryKind::Batch => EntryListing::Batch {
            partition,
            epoch: header.epoch,
            first: header.first,
            next: header.next,
            bytes: header.payload_bytes,
        },
        EntryKind::Trim => EntryListing::Trim {
            partition,
            log_start: header.first,
        },
        EntryKind::Delete => EntryListing::Delete { partition },
    }
}

/// The segments that the checkpoint knows of, of one partition or of all, ordered by partition and offset. Blocks.
///
/// # Errors
/// Damage to the checkpoint or to an index, and disk errors.
pub fn list_segments(
    disk: &Arc<dyn Disk>,
    identity: &JournalIdentity,
    partition: Option<PartitionId>,
) -> Result<Vec<SegmentListing>, Fault> {
    let Some(checkpoint) = Checkpoint::read(disk, identity)? else {
        return Ok(Vec::new());
    };
    let mut listings = Vec::new();
    for log in checkpoint
        .partitions
        .iter()
        .filter(|log| partition.is_none_or(|wanted| wanted == log.id))
    {
        for segment in &log.segments {
            let file = open_segment(disk, identity, &log.id, segment)?;
            let chunks = read_table(&file, segment)?;
            listings.push(SegmentListing {
                partition: log.id,
                adopted: segment
                    .adopted
                    .map(|file| disk.root().join(file.path(identity)).display().to_string()),
                file: file.path,
                first: Offset(segment.first),
                next: Offset(segment.next),
                bytes: segment.stored_bytes(),
                sealed: segment.sealed,
                compactions: segment.generation,
                max_timestamp_ms: segment.max_timestamp_ms,
                created_ms: segment.created_ms,
                chunks: chunks.iter().map(list_chunk).collect(),
            });
        }
    }
    Ok(listings)
}

fn list_chunk(chunk: &crate::segment::Chunk) -> ChunkListing {
    ChunkListing {
        first: Offset(chunk.first),
        next: Offset(chunk.next),
        position: chunk.position,
        bytes: chunk.length,
        max_timestamp_ms: chunk.max_timestamp_ms,
        checksum: chunk.checksum,
    }
}
