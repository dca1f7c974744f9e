//! The content of the files, line by line, for a person who looks into them. Reads only; no store may be open on them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use platform::disk::Disk;
use record::{Epoch, Offset, PartitionId};

use crate::checkpoint::Checkpoint;
use crate::checksum::JournalIdentity;
use crate::fault::Fault;
use crate::journal::frame::{Entry, EntryKind, FILE_HEADER_BYTES, FileHeader, NONE};
use crate::journal::{FrameLocation, directory, scan, survey};
use crate::segment::{
    Chunk, RECORDS_UNKNOWN, Segment, TIME_UNKNOWN, open_segment, path, read_piece, read_table,
};
use crate::witness::Witness;

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
    /// Its entries.
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
        /// It ends a transaction by aborting it, which begins at this offset.
        aborts: Option<Offset>,
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
    /// A suffix was cut off.
    Accept {
        /// Of this partition,
        partition: PartitionId,
        /// everything from this offset on.
        first: Offset,
        /// The log is that of this epoch's leader from then on; of none, if it was only cut.
        epoch: Option<Epoch>,
        /// The epoch of the record before, if there is one.
        epoch_before: Option<Epoch>,
    },
    /// Nothing of an older epoch is appended any more.
    Promise {
        /// To this partition,
        partition: PartitionId,
        /// than this one,
        epoch: Epoch,
        /// as was promised to this node.
        candidate: i64,
    },
    /// A log begins.
    Base {
        /// This partition's,
        partition: PartitionId,
        /// at this offset.
        first: Offset,
    },
    /// A journal of another node was durable up to a frame.
    Witness(Witness),
}

impl EntryListing {
    /// Whose entry it is, if it is of a partition.
    #[must_use]
    pub fn partition(&self) -> Option<PartitionId> {
        match *self {
            EntryListing::Batch { partition, .. }
            | EntryListing::Trim { partition, .. }
            | EntryListing::Delete { partition }
            | EntryListing::Accept { partition, .. }
            | EntryListing::Promise { partition, .. }
            | EntryListing::Base { partition, .. } => Some(partition),
            EntryListing::Witness(_) => None,
        }
    }
}

/// A segment and its index.
#[derive(Debug)]
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
    /// The number of its compactions.
    pub compactions: u32,
    /// Offsets may be missing in it.
    pub sparse: bool,
    /// The transactions that are aborted in it.
    pub aborted: u32,
    /// The greatest timestamp in it.
    pub max_timestamp_ms: i64,
    /// When it was begun.
    pub created_ms: i64,
    /// Its chunks, in order; none if there is a fault.
    pub chunks: Vec<ChunkListing>,
    /// Why its index cannot be read, if so.
    pub fault: Option<Fault>,
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
    /// The least timestamp in it, if that is known.
    pub min_timestamp_ms: Option<i64>,
    /// The number of its records, if that is known.
    pub records: Option<u32>,
    /// CRC-64/NVME of its identity and its bytes.
    pub checksum: u64,
}

/// The frames of a journal that recovery would replay, in order. If opening a store would fail, those that are whole, with
/// what is wrong. Blocks.
pub fn list_frames(disk: &Arc<dyn Disk>, identity: &JournalIdentity) -> (Vec<FrameListing>, Vec<Fault>) {
    let checkpoint = match Checkpoint::read(disk, identity) {
        Ok(checkpoint) => checkpoint,
        Err(fault) => return (Vec::new(), vec![fault]),
    };
    let start = checkpoint.as_ref().map(|checkpoint| checkpoint.replay);
    let held = checkpoint.map_or_else(BTreeSet::new, |checkpoint| checkpoint.held_files());
    let names = file_names(disk, identity);
    let mut listings = Vec::new();
    let scanned = scan(disk, identity, start, &held, &mut |location, _, entries| {
        listings.push(list_frame(&names, location, entries));
        Ok(())
    });
    let Err(fault) = scanned else {
        return (listings, Vec::new());
    };
    listings.clear();
    let surveyed = survey(disk, identity, start, &held, &mut |location, _, entries| {
        listings.push(list_frame(&names, location, entries));
        Ok(())
    });
    (listings, surveyed.faults_with(fault))
}

fn list_frame(names: &BTreeMap<u64, String>, location: &FrameLocation, entries: &[Entry]) -> FrameListing {
    FrameListing {
        file: names.get(&location.file_sequence).cloned().unwrap_or_default(),
        position: location.position,
        frame: location.frame_sequence,
        bytes: location.total_bytes,
        entries: entries.iter().map(list_entry).collect(),
    }
}

/// The journal's files by their sequences. What is wrong with one is for the scan to say.
fn file_names(disk: &Arc<dyn Disk>, identity: &JournalIdentity) -> BTreeMap<u64, String> {
    let directory = directory(identity);
    let names = disk.list(&directory).unwrap_or_default();
    let sequence = |path: &Path| {
        let block = disk.open(path).ok()?.read(0, FILE_HEADER_BYTES).ok()?;
        Some(FileHeader::decode(&block, identity).ok()?.sequence)
    };
    let paths = names.iter().map(|name| directory.join(name));
    let shown = |path: PathBuf| disk.root().join(path).display().to_string();
    paths
        .filter_map(|path| Some((sequence(&path)?, shown(path))))
        .collect()
}

fn list_entry(entry: &Entry) -> EntryListing {
    let header = entry.header;
    let partition = header.partition;
    match header.kind {
        EntryKind::Batch | EntryKind::AbortBatch => EntryListing::Batch {
            partition,
            epoch: header.epoch,
            first: header.first,
            next: header.next,
            bytes: header.payload_bytes,
            aborts: (header.aborts != NONE).then_some(Offset(header.aborts)),
        },
        EntryKind::Trim => EntryListing::Trim {
            partition,
            log_start: header.first,
        },
        EntryKind::Delete => EntryListing::Delete { partition },
        EntryKind::Accept => EntryListing::Accept {
            partition,
            first: header.first,
            epoch: (header.epoch >= Epoch(0)).then_some(header.epoch),
            epoch_before: header.epoch_before(),
        },
        EntryKind::Promise => EntryListing::Promise {
            partition,
            epoch: header.epoch,
            candidate: header.first.0,
        },
        EntryKind::Base => EntryListing::Base {
            partition,
            first: header.first,
        },
        EntryKind::Witness => EntryListing::Witness(header.witness()),
    }
}

/// The witnesses that the checkpoint has: what frames before those that are listed said of other nodes' journals. Blocks.
///
/// # Errors
/// Damage to the checkpoint, and disk errors.
pub fn list_witnesses(disk: &Arc<dyn Disk>, identity: &JournalIdentity) -> Result<Vec<Witness>, Fault> {
    let checkpoint = Checkpoint::read(disk, identity)?;
    Ok(checkpoint.map_or_else(Vec::new, |checkpoint| checkpoint.witnesses))
}

/// The segments that the checkpoint knows of, of the partitions that are `wanted`, ordered by partition and offset. Each is looked
/// into when it is asked for, which blocks; what is wrong with one is told with it.
///
/// # Errors
/// Damage to the checkpoint, and disk errors.
pub fn list_segments(
    disk: &Arc<dyn Disk>,
    identity: &JournalIdentity,
    mut wanted: impl FnMut(PartitionId) -> bool,
) -> Result<impl Iterator<Item = SegmentListing>, Fault> {
    let checkpoint = Checkpoint::read(disk, identity)?;
    let partitions = checkpoint.map_or_else(Vec::new, |checkpoint| checkpoint.partitions);
    let wanted = partitions.into_iter().filter(move |log| wanted(log.id));
    let segments = wanted.flat_map(|log| log.segments.into_iter().map(move |segment| (log.id, segment)));
    Ok(segments.map(move |(id, segment)| list_segment(disk, identity, id, &segment)))
}

fn list_segment(
    disk: &Arc<dyn Disk>,
    identity: &JournalIdentity,
    partition: PartitionId,
    segment: &Segment,
) -> SegmentListing {
    let shown = |path: PathBuf| disk.root().join(path).display().to_string();
    let read = open_segment(disk, identity, &partition, segment).and_then(|file| read_table(&file, segment));
    let (chunks, fault) = match read {
        Ok(chunks) => (chunks, None),
        Err(fault) => (Vec::new(), Some(fault)),
    };
    SegmentListing {
        partition,
        file: shown(path(&partition, segment.name())),
        adopted: segment.adopted.map(|file| shown(file.path(identity))),
        first: Offset(segment.first),
        next: Offset(segment.next),
        bytes: segment.stored_bytes(),
        sealed: segment.sealed,
        compactions: segment.generation,
        sparse: segment.sparse,
        aborted: segment.aborted,
        max_timestamp_ms: segment.max_timestamp_ms,
        created_ms: segment.created_ms,
        chunks: chunks.iter().map(list_chunk).collect(),
        fault,
    }
}

/// The batches that are stored of a partition that was never trimmed, in order, one behind the other in each element. All of it
/// is in memory: for partitions that are small. Blocks.
///
/// # Errors
/// Damage, and disk errors.
pub fn stored_batches(
    disk: &Arc<dyn Disk>,
    identity: &JournalIdentity,
    id: PartitionId,
) -> Result<Vec<Bytes>, Fault> {
    let checkpoint = Checkpoint::read(disk, identity)?;
    let start = checkpoint.as_ref().map(|checkpoint| checkpoint.replay);
    let held = checkpoint
        .as_ref()
        .map_or_else(BTreeSet::new, Checkpoint::held_files);
    let logs = checkpoint
        .into_iter()
        .flat_map(|checkpoint| checkpoint.partitions);
    let segments = logs.filter(|log| log.id == id).flat_map(|log| log.segments);
    let (mut stored, mut reached) = (Vec::new(), 0);
    for segment in segments {
        let file = open_segment(disk, identity, &id, &segment)?;
        for chunk in read_table(&file, &segment)? {
            let piece = read_piece(&file, &[chunk])?;
            let stretches = piece.stretches_from(i64::MIN).iter();
            stored.extend(stretches.map(|stretch| (i64::MIN, stretch.content.clone())));
        }
        reached = segment.next;
    }
    scan(disk, identity, start, &held, &mut |_, frame, entries| {
        for Entry {
            header,
            payload_start,
        } in entries
        {
            if header.partition != id {
                continue;
            }
            if header.kind == EntryKind::Accept {
                stored.retain(|(first, _)| *first < header.first.0);
            } else if header.kind == EntryKind::Base && header.first.0 >= reached {
                stored.clear();
            } else if header.kind.is_batch() && header.first.0 >= reached {
                let payload = *payload_start..payload_start + header.payload_bytes as usize;
                stored.push((header.first.0, frame.slice(payload)));
            }
        }
        Ok(())
    })?;
    Ok(stored.into_iter().map(|(_, bytes)| bytes).collect())
}

fn list_chunk(chunk: &Chunk) -> ChunkListing {
    ChunkListing {
        first: Offset(chunk.first),
        next: Offset(chunk.next),
        position: chunk.position,
        bytes: chunk.length,
        max_timestamp_ms: chunk.max_timestamp_ms,
        min_timestamp_ms: (chunk.min_timestamp_ms != TIME_UNKNOWN).then_some(chunk.min_timestamp_ms),
        records: (chunk.records != RECORDS_UNKNOWN).then_some(chunk.records),
        checksum: chunk.checksum,
    }
}
