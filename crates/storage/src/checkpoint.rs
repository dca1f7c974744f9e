//! The checkpoint of one journal: what segments hold, and where the journal must be read from.
//!
//! One small file, replaced atomically after every round of layout. It alone says what of a segment counts; without
//! it the journal's files could not be reused. What a partition's owner wants kept (`state`) is opaque here.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use platform::disk::Disk;
use record::{PartitionId, TopicId};

use crate::checksum::JournalIdentity;
use crate::encoding::{Decoder, Encoder};
use crate::fault::Fault;
use crate::journal::ReplayStart;
use crate::segment::Segment;

const FORMAT_VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"RWCHKPNT";
const HEADER_BYTES: usize = 8 + 4 + 4 + 8;
/// The directory of all journals' checkpoints.
pub(crate) const CHECKPOINTS: &str = "checkpoints";
/// A guard against reading something that cannot be a checkpoint: far above 100,000 partitions.
const FILE_BYTES_MAX: usize = 1 << 30;
const SEGMENT_BYTES: usize = 8 * 5 + 4;
const PARTITION_BYTES_MIN: usize = 20 + 8 + 8 + 8 + 4 + 4;
const REMOVAL_BYTES: usize = 20 + 8;

/// A partition as of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartitionCheckpoint {
    pub(crate) id: PartitionId,
    pub(crate) log_start: i64,
    pub(crate) laid_out: i64,
    pub(crate) segments: Vec<Segment>,
    /// `state` reflects the records before this offset.
    pub(crate) state_next: i64,
    pub(crate) state: Vec<u8>,
}

/// Files to be removed; kept in the checkpoint until they are gone, so that a crash leaks none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) partition: PartitionId,
    /// The segment, or all of the partition.
    pub(crate) segment: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) replay: ReplayStart,
    pub(crate) partitions: Vec<PartitionCheckpoint>,
    pub(crate) removals: Vec<Removal>,
}

fn path(identity: &JournalIdentity) -> PathBuf {
    PathBuf::from(format!("{CHECKPOINTS}/{:03}.checkpoint", identity.journal))
}

impl Checkpoint {
    /// The checkpoint of a journal; `None` if none was written yet.
    pub(crate) fn read(
        disk: &Arc<dyn Disk>,
        identity: &JournalIdentity,
    ) -> Result<Option<Checkpoint>, Fault> {
        let path = path(identity);
        let file = disk.root().join(&path).display().to_string();
        let bytes = match disk.read_whole(&path, FILE_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Fault::Disk { file, error }),
        };
        let damaged = |what: &str| Fault::Damaged {
            file: file.clone(),
            position: 0,
            what: what.to_string(),
        };
        if bytes.len() < HEADER_BYTES || bytes[..8] != MAGIC {
            return Err(damaged("it is not a checkpoint"));
        }
        let (header, payload) = bytes.split_at(HEADER_BYTES);
        let checksum = u64::from_le_bytes(header[16..].try_into().expect("eight bytes"));
        if identity.checksum(&[&header[..16], payload]) != checksum {
            return Err(damaged("it does not match its checksum, or is another journal's"));
        }
        match u32::from_le_bytes(header[8..12].try_into().expect("four bytes")) {
            FORMAT_VERSION => decode(payload)
                .map(Some)
                .ok_or_else(|| damaged("its checksum holds but its content does not")),
            version => Err(Fault::UnknownVersion { file, version }),
        }
    }

    /// Replaces the checkpoint on disk; durable on return. Blocks.
    pub(crate) fn write(&self, disk: &Arc<dyn Disk>, identity: &JournalIdentity) -> io::Result<()> {
        let payload = self.encode();
        let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
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

    fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder { bytes: Vec::new() };
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
                encoder.u32(u32::from(segment.sealed));
            }
        }
        encoder.u32(self.removals.len() as u32);
        for removal in &self.removals {
            encode_id(&mut encoder, &removal.partition);
            encoder.i64(removal.segment.unwrap_or(-1));
        }
        encoder.bytes
    }
}

fn encode_id(encoder: &mut Encoder, id: &PartitionId) {
    encoder.bytes.extend_from_slice(&id.topic.0);
    encoder.u32(id.index as u32);
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
    let count = decoder.count(REMOVAL_BYTES)?;
    let removals = (0..count)
        .map(|_| decode_removal(&mut decoder))
        .collect::<Option<Vec<_>>>()?;
    decoder.rest.is_empty().then_some(Checkpoint {
        replay,
        partitions,
        removals,
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
    let state = decoder.blob()?.to_vec();
    let count = decoder.count(SEGMENT_BYTES)?;
    let segments = (0..count)
        .map(|_| decode_segment(decoder))
        .collect::<Option<Vec<_>>>()?;
    Some(PartitionCheckpoint {
        id,
        log_start,
        laid_out,
        segments,
        state_next,
        state,
    })
}

fn decode_segment(decoder: &mut Decoder<'_>) -> Option<Segment> {
    Some(Segment {
        first: decoder.i64()?,
        next: decoder.i64()?,
        end: decoder.u64()?,
        max_timestamp_ms: decoder.i64()?,
        created_ms: decoder.i64()?,
        sealed: decoder.u32()? != 0,
    })
}

fn decode_removal(decoder: &mut Decoder<'_>) -> Option<Removal> {
    let partition = decode_id(decoder)?;
    let segment = decoder.i64()?;
    Some(Removal {
        partition,
        segment: (segment >= 0).then_some(segment),
    })
}

#[cfg(test)]
mod tests {
    use platform::disk::SimulatedDisk;
    use record::ClusterId;

    use super::*;

    const IDENTITY: JournalIdentity = JournalIdentity {
        cluster: ClusterId([1; 16]),
        node: 2,
        journal: 3,
    };

    fn checkpoint() -> Checkpoint {
        let partition = |number: u8, segments: i64| PartitionCheckpoint {
            id: PartitionId {
                topic: TopicId([number; 16]),
                index: i32::from(number),
            },
            log_start: 5,
            laid_out: 10 * segments,
            segments: (0..segments)
                .map(|index| Segment {
                    first: 10 * index,
                    next: 10 * index + 10,
                    end: 4_096,
                    max_timestamp_ms: -1,
                    created_ms: 77,
                    sealed: index + 1 < segments,
                })
                .collect(),
            state_next: 99,
            state: vec![number; usize::from(number)],
        };
        let whole = Removal {
            partition: partition(8, 0).id,
            segment: None,
        };
        Checkpoint {
            replay: ReplayStart {
                file_sequence: 4,
                position: 8_192,
                frame: 6,
            },
            partitions: vec![partition(0, 0), partition(1, 3), partition(200, 1)],
            removals: vec![
                whole,
                Removal {
                    segment: Some(0),
                    ..whole
                },
            ],
        }
    }

    #[test]
    fn it_reads_back() {
        let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new());
        assert_eq!(Checkpoint::read(&disk, &IDENTITY).expect("nothing fails"), None);
        let empty = Checkpoint {
            partitions: Vec::new(),
            removals: Vec::new(),
            ..checkpoint()
        };
        for written in [checkpoint(), empty, checkpoint()] {
            written.write(&disk, &IDENTITY).expect("nothing fails");
            assert_eq!(
                Checkpoint::read(&disk, &IDENTITY).expect("nothing fails"),
                Some(written)
            );
        }
    }

    #[test]
    fn content_that_does_not_add_up_is_none() {
        let encoded = checkpoint().encode();
        assert_eq!(decode(&encoded), Some(checkpoint()));
        for length in 0..encoded.len() {
            assert_eq!(decode(&encoded[..length]), None, "{length} bytes");
        }
        assert_eq!(decode(&[&encoded[..], b"x"].concat()), None);
        // A count of more partitions than the bytes could hold is not believed, whatever it says.
        let mut many = encoded;
        many[24..28].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(decode(&many), None);
    }
}
