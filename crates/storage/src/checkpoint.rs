//! The checkpoint of one journal: what segments hold, and where the journal must be read from.
//!
//! One small file, replaced atomically after every round of layout. It alone says what of a segment counts; without
//! it the journal's files could not be reused. What a partition's owner wants kept (`state`) is opaque here.

mod verify;

pub(crate) use verify::OFFSET_MAX;

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use planted::{Bug, planted};
use platform::disk::Disk;
use record::{PartitionId, TopicId};

use crate::checksum::{DirectoryId, JournalIdentity};
use crate::compaction::Cleaned;
use crate::encoding::{Decoder, Encoder};
use crate::fault::{Doing, Fault};
use crate::journal::ReplayStart;
use crate::segment::{AdoptedFile, Segment, SegmentName};
use crate::witness::Witness;

/// The version that is written and read.
const FORMAT_VERSION: u32 = 4;
const MAGIC: [u8; 8] = *b"RWCHKPNT";
const HEADER_BYTES: usize = 8 + 4 + 4 + 8;
/// The directory of all journals' checkpoints.
pub(crate) const CHECKPOINTS: &str = "checkpoints";
/// A guard against reading something that cannot be a checkpoint: far above 100,000 partitions.
const FILE_BYTES_MAX: usize = 1 << 30;
const SEGMENT_BYTES_MIN: usize = 8 * 5 + 4 * 4;
/// Bits of a segment's flags: it is complete; offsets may be missing in it.
const SEALED: u32 = 1;
const SPARSE: u32 = 2;
const PARTITION_BYTES_MIN: usize = 20 + 8 + 8 + 8 + 4 + 4 + 4;
const CLEANED_BYTES: usize = 8 + 8 + 8;
const REMOVAL_BYTES_MIN: usize = 20 + 8 + 4 + 4;
const WITNESS_BYTES: usize = 4 + 16 + 4 + 8;

/// A partition as of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartitionCheckpoint {
    pub(crate) id: PartitionId,
    pub(crate) log_start: i64,
    pub(crate) laid_out: i64,
    pub(crate) segments: Vec<Segment>,
    /// See `PartitionLog::cleaned`.
    pub(crate) cleaned: Vec<Cleaned>,
    /// `state` reflects the records before this offset.
    pub(crate) state_next: i64,
    pub(crate) state: Bytes,
}

impl PartitionCheckpoint {
    /// About what it takes, in memory as on the disk.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let segments = size_of_val(self.segments.as_slice()) + size_of_val(self.cleaned.as_slice());
        (size_of::<PartitionCheckpoint>() + segments + self.state.len()) as u64
    }
}

/// Files to be removed; kept in the checkpoint until they are gone, so that a crash leaks none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) partition: PartitionId,
    /// The segment, or all of the partition.
    pub(crate) segment: Option<SegmentName>,
    /// The journal file that the segment adopted.
    pub(crate) adopted: Option<AdoptedFile>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) replay: ReplayStart,
    pub(crate) partitions: Vec<PartitionCheckpoint>,
    pub(crate) removals: Vec<Removal>,
    /// Those that the journal had, one for each journal of another node, in ascending order.
    pub(crate) witnesses: Vec<Witness>,
}

fn path(identity: &JournalIdentity) -> PathBuf {
    PathBuf::from(format!("{CHECKPOINTS}/{:03}.checkpoint", identity.journal))
}

/// The path of a journal's checkpoint, for messages.
pub(crate) fn file_name(disk: &Arc<dyn Disk>, identity: &JournalIdentity) -> String {
    disk.root().join(path(identity)).display().to_string()
}

fn damaged(file: &str, what: &str) -> Fault {
    Fault::Damaged {
        file: file.to_string(),
        position: 0,
        what: what.to_string(),
    }
}

impl Checkpoint {
    /// The numbers of the journal files that are not the journal's any more: segments, or about to be removed.
    pub(crate) fn held_files(&self) -> BTreeSet<u32> {
        let segments = self.partitions.iter().flat_map(|partition| &partition.segments);
        let adopted = segments.filter_map(|segment| segment.adopted);
        let removed = self.removals.iter().filter_map(|removal| removal.adopted);
        adopted.chain(removed).map(|file| file.number).collect()
    }

    /// The checkpoint of a journal; `None` if none was written yet.
    pub(crate) fn read(
        disk: &Arc<dyn Disk>,
        identity: &JournalIdentity,
    ) -> Result<Option<Checkpoint>, Fault> {
        let file = file_name(disk, identity);
        let bytes = match disk.read_whole(&path(identity), FILE_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Doing::Reading.failed(error).at(file)),
        };
        let damaged = |what: &str| damaged(&file, what);
        if bytes.len() < HEADER_BYTES || bytes[..8] != MAGIC {
            return Err(damaged("it is not a checkpoint"));
        }
        let (header, payload) = bytes.split_at(HEADER_BYTES);
        let checksum = u64::from_le_bytes(header[16..].try_into().expect("eight bytes"));
        if identity.checksum(&[&header[..16], payload]) != checksum {
            return Err(damaged("it does not match its checksum, or is another journal's"));
        }
        let version = u32::from_le_bytes(header[8..12].try_into().expect("four bytes"));
        if version != FORMAT_VERSION {
            return Err(Fault::UnknownVersion {
                file,
                version,
                known: FORMAT_VERSION,
            });
        }
        if header[12..16] != [0; 4] {
            return Err(damaged(
                "its header has fields that this version does not know: a newer one wrote it",
            ));
        }
        let (directory, payload) = payload
            .split_first_chunk::<16>()
            .ok_or_else(|| damaged("it names no directory"))?;
        if DirectoryId(*directory) != identity.directory {
            return Err(damaged(&format!(
                "it was written for directory {}, and this is directory {}",
                DirectoryId(*directory),
                identity.directory
            )));
        }
        let checkpoint =
            decode(payload).ok_or_else(|| damaged("its checksum holds but its content does not"))?;
        checkpoint.verify().map_err(|what| damaged(&what))?;
        Ok(Some(checkpoint))
    }

    /// Writes the checkpoint once more as it is, if there is one; durable on return. The process that wrote it may have ended before that was sure, or
    /// after its sync had failed: after a power cut the one before it would be read. Blocks.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn settle(disk: &Arc<dyn Disk>, identity: &JournalIdentity) -> io::Result<()> {
        if planted(Bug::CheckpointNotSettled) {
            return Ok(());
        }
        let path = path(identity);
        match disk.read_whole(&path, FILE_BYTES_MAX) {
            Ok(bytes) if is_whole(&bytes, identity) => disk.replace(&path, &bytes),
            Ok(_) => Err(io::Error::other("the checkpoint does not read as it did before")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Replaces the checkpoint on disk; durable on return. Blocks.
    ///
    /// # Errors
    /// The disk's; and if it is larger than what is read back, for nothing could be opened with it.
    pub(crate) fn write(&self, disk: &Arc<dyn Disk>, identity: &JournalIdentity) -> io::Result<()> {
        self.write_up_to(FILE_BYTES_MAX, disk, identity)
    }

    fn write_up_to(
        &self,
        bytes_max: usize,
        disk: &Arc<dyn Disk>,
        identity: &JournalIdentity,
    ) -> io::Result<()> {
        let payload = self.encode(&identity.directory);
        let file_bytes = HEADER_BYTES + payload.len();
        if file_bytes > bytes_max {
            return Err(io::Error::other(format!(
                "the checkpoint would have {file_bytes} bytes, the most is {bytes_max}; remember fewer idempotent producers \
                 (producers.per_partition_max), or have fewer partitions"
            )));
        }
        let mut bytes = Vec::with_capacity(file_bytes);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        let checksum = identity.checksum(&[&bytes, &payload]);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes.extend_from_slice(&payload);
        let path = path(identity);
        disk.create_directory(path.parent().expect("the checkpoint is in a directory"))?;
        disk.replace(&path, &bytes)
    }

    fn encode(&self, directory: &DirectoryId) -> Vec<u8> {
        let mut encoder = Encoder {
            bytes: directory.0.to_vec(),
        };
        encoder.u64(self.replay.file_sequence);
        encoder.u64(self.replay.position);
        encoder.u64(self.replay.frame);
        encoder.u32(self.partitions.len() as u32);
        for partition in &self.partitions {
            encode_id(&mut encoder, &partition.id);
            encoder.i64(partition.log_start);
            encoder.i64(partition.laid_out);
            encoder.i64(partition.state_next);
            encoder.blob(&partition.state);
            encoder.u32(partition.segments.len() as u32);
            for segment in &partition.segments {
                encoder.i64(segment.first);
                encoder.i64(segment.next);
                encoder.u64(segment.end);
                encoder.i64(segment.max_timestamp_ms);
                encoder.i64(segment.created_ms);
                let sealed = if segment.sealed { SEALED } else { 0 };
                let sparse = if segment.sparse { SPARSE } else { 0 };
                encoder.u32(sealed | sparse);
                encoder.u32(segment.generation);
                encoder.u32(segment.aborted);
                encode_adopted(&mut encoder, segment.adopted.as_ref());
            }
            encoder.u32(partition.cleaned.len() as u32);
            for cleaned in &partition.cleaned {
                encoder.i64(cleaned.until);
                encoder.i64(cleaned.at_ms);
                encoder.u64(cleaned.tombstones);
            }
        }
        encoder.u32(self.removals.len() as u32);
        for removal in &self.removals {
            encode_id(&mut encoder, &removal.partition);
            encoder.i64(removal.segment.map_or(-1, |name| name.first));
            encoder.u32(removal.segment.map_or(0, |name| name.generation));
            encode_adopted(&mut encoder, removal.adopted.as_ref());
        }
        encoder.u32(self.witnesses.len() as u32);
        for witness in &self.witnesses {
            encoder.u32(witness.node as u32);
            encoder.bytes.extend_from_slice(&witness.directory.0);
            encoder.u32(witness.journal);
            encoder.u64(witness.frame);
        }
        encoder.bytes
    }
}

fn encode_id(encoder: &mut Encoder, id: &PartitionId) {
    encoder.bytes.extend_from_slice(&id.topic.0);
    encoder.u32(id.index as u32);
}

/// One word that says whether anything follows, as most segments adopt nothing.
fn encode_adopted(encoder: &mut Encoder, adopted: Option<&AdoptedFile>) {
    encoder.u32(u32::from(adopted.is_some()));
    if let Some(file) = adopted {
        encoder.u32(file.number);
        encoder.u64(file.sequence);
        encoder.u64(file.salt);
        encoder.u64(file.bytes);
    }
}

fn decode(payload: &[u8]) -> Option<Checkpoint> {
    let mut decoder = Decoder { rest: payload };
    let replay = ReplayStart {
        file_sequence: decoder.u64()?,
        position: decoder.u64()?,
        frame: decoder.u64()?,
    };
    let count = decoder.count(PARTITION_BYTES_MIN)?;
    let partitions = (0..count)
        .map(|_| decode_partition(&mut decoder))
        .collect::<Option<Vec<_>>>()?;
    let count = decoder.count(REMOVAL_BYTES_MIN)?;
    let removals = (0..count)
        .map(|_| decode_removal(&mut decoder))
        .collect::<Option<Vec<_>>>()?;
    let count = decoder.count(WITNESS_BYTES)?;
    let witnesses = (0..count)
        .map(|_| decode_witness(&mut decoder))
        .collect::<Option<Vec<_>>>()?;
    decoder.rest.is_empty().then_some(Checkpoint {
        replay,
        partitions,
        removals,
        witnesses,
    })
}

fn decode_id(decoder: &mut Decoder<'_>) -> Option<PartitionId> {
    let topic = TopicId(decoder.take(16)?.try_into().ok()?);
    Some(PartitionId {
        topic,
        index: decoder.u32()? as i32,
    })
}

fn decode_partition(decoder: &mut Decoder<'_>) -> Option<PartitionCheckpoint> {
    let id = decode_id(decoder)?;
    let (log_start, laid_out, state_next) = (decoder.i64()?, decoder.i64()?, decoder.i64()?);
    let state = Bytes::copy_from_slice(decoder.blob()?);
    let count = decoder.count(SEGMENT_BYTES_MIN)?;
    let segments = (0..count)
        .map(|_| decode_segment(decoder))
        .collect::<Option<Vec<_>>>()?;
    let count = decoder.count(CLEANED_BYTES)?;
    let cleaned = (0..count)
        .map(|_| decode_cleaned(decoder))
        .collect::<Option<Vec<_>>>()?;
    Some(PartitionCheckpoint {
        id,
        log_start,
        laid_out,
        segments,
        cleaned,
        state_next,
        state,
    })
}

fn decode_segment(decoder: &mut Decoder<'_>) -> Option<Segment> {
    let (first, next, end) = (decoder.i64()?, decoder.i64()?, decoder.u64()?);
    let (max_timestamp_ms, created_ms) = (decoder.i64()?, decoder.i64()?);
    let flags = decoder.u32()?;
    if flags & !(SEALED | SPARSE) != 0 {
        return None;
    }
    Some(Segment {
        first,
        next,
        end,
        max_timestamp_ms,
        created_ms,
        sealed: flags & SEALED != 0,
        sparse: flags & SPARSE != 0,
        generation: decoder.u32()?,
        aborted: decoder.u32()?,
        adopted: decode_adopted(decoder)?,
    })
}

fn decode_cleaned(decoder: &mut Decoder<'_>) -> Option<Cleaned> {
    Some(Cleaned {
        until: decoder.i64()?,
        at_ms: decoder.i64()?,
        tombstones: decoder.u64()?,
    })
}

fn decode_adopted(decoder: &mut Decoder<'_>) -> Option<Option<AdoptedFile>> {
    match decoder.u32()? {
        0 => Some(None),
        1 => Some(Some(AdoptedFile {
            number: decoder.u32()?,
            sequence: decoder.u64()?,
            salt: decoder.u64()?,
            bytes: decoder.u64()?,
        })),
        _ => None,
    }
}

fn decode_removal(decoder: &mut Decoder<'_>) -> Option<Removal> {
    let partition = decode_id(decoder)?;
    let first = decoder.i64()?;
    let generation = decoder.u32()?;
    let segment = match first {
        -1 => None,
        0.. => Some(SegmentName { first, generation }),
        // To take it for a whole partition would remove what nobody gave up.
        _ => return None,
    };
    Some(Removal {
        partition,
        segment,
        adopted: decode_adopted(decoder)?,
    })
}

fn decode_witness(decoder: &mut Decoder<'_>) -> Option<Witness> {
    Some(Witness {
        node: decoder.u32()? as i32,
        directory: DirectoryId(decoder.take(16)?.try_into().ok()?),
        journal: decoder.u32()?,
        frame: decoder.u64()?,
    })
}

/// Says whether these bytes are a checkpoint of this journal as it was written.
fn is_whole(bytes: &[u8], identity: &JournalIdentity) -> bool {
    let Some((header, payload)) = bytes.split_at_checked(HEADER_BYTES) else {
        return false;
    };
    let checksum = identity.checksum(&[&header[..16], payload]);
    header[..8] == MAGIC && header[16..] == checksum.to_le_bytes()
}

#[cfg(test)]
mod tests;
