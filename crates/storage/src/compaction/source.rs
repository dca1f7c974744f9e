//! Reads the batches of some segments in order, a bounded portion at a time, past the caches: what compaction reads once
//! must not push out what consumers read again. Blocks.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use platform::disk::Disk;
use record::PartitionId;

use crate::checksum::JournalIdentity;
use crate::damage::{Damage, Lost};
use crate::fault::Fault;
use crate::segment::{Chunk, Segment, SegmentFile, open_segment, read_piece, read_table};

/// Chunks are taken together up to here. A larger one comes whole, though the disk is asked for it step by step: nobody waits for
/// compaction, and the journal's small writes are not to wait either.
const READ_BYTES: usize = 64 << 10;

/// Where the segments are.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) journal: JournalIdentity,
    pub(crate) partition: PartitionId,
}

impl Place {
    /// Opens a segment with its table of chunks, to be read past the caches while nobody waits.
    pub(crate) fn open(&self, segment: &Segment) -> Result<(SegmentFile, Vec<Chunk>), Fault> {
        let mut file = open_segment(&self.disk, &self.journal, &self.partition, segment)?;
        file.patient = true;
        let chunks = read_table(&file, segment)?;
        Ok((file, chunks))
    }

    /// The damage that a fault tells of, in a chunk of a segment or in its index, as [`Damage::of`] has it.
    pub(crate) fn damage(
        &self,
        segment: Segment,
        chunk: Option<Chunk>,
        fault: Fault,
    ) -> Result<Damage, Fault> {
        let lost = Lost {
            partition: self.partition,
            segment,
            identity: segment.identity(self.journal.cluster, self.partition),
            chunk,
        };
        Damage::of(lost, fault)
    }
}

pub(super) struct Source {
    place: Place,
    /// Chunks that end at or before this offset are passed over.
    from: i64,
    waiting: VecDeque<Segment>,
    open: Option<Open>,
}

struct Open {
    file: SegmentFile,
    chunks: Vec<Chunk>,
    read: usize,
}

/// Whole batches of a portion of a segment.
pub(super) struct Portion {
    pub(super) contents: Vec<Bytes>,
    /// Bytes of all of them.
    pub(super) bytes: u64,
    /// For messages: the file, and where in it the portion begins.
    pub(super) file: String,
    pub(super) position: u64,
}

impl Portion {
    /// That what was read is not what it should be.
    pub(super) fn damaged(&self, what: impl ToString) -> Fault {
        Fault::Damaged {
            file: self.file.clone(),
            position: self.position,
            what: what.to_string(),
        }
    }
}

impl Source {
    pub(super) fn new(place: Place, segments: &[Segment], from: i64) -> Source {
        Source {
            place,
            from,
            waiting: segments
                .iter()
                .filter(|segment| segment.next > from)
                .copied()
                .collect(),
            open: None,
        }
    }

    /// The next portion; `None` behind the last.
    ///
    /// # Errors
    /// Damage, and the disk's.
    pub(super) fn next(&mut self) -> Result<Option<Portion>, Fault> {
        loop {
            if let Some(portion) = self.open.as_mut().map(Open::next).transpose()?.flatten() {
                return Ok(Some(portion));
            }
            let Some(segment) = self.waiting.pop_front() else {
                return Ok(None);
            };
            let (file, mut chunks) = self.place.open(&segment)?;
            chunks.drain(..chunks.partition_point(|chunk| chunk.next <= self.from));
            self.open = Some(Open {
                file,
                chunks,
                read: 0,
            });
        }
    }
}

impl Open {
    fn next(&mut self) -> Result<Option<Portion>, Fault> {
        let rest = &self.chunks[self.read..];
        let Some(first) = rest.first() else {
            return Ok(None);
        };
        let mut bytes = 0;
        let few = rest.iter().take_while(|chunk| {
            bytes += chunk.length as usize;
            bytes <= READ_BYTES
        });
        let count = few.count().max(1);
        let read = read_piece(&self.file, &rest[..count])?;
        let stretches = read.stretches_from(i64::MIN).iter();
        let portion = Portion {
            bytes: rest[..count].iter().map(|chunk| u64::from(chunk.length)).sum(),
            file: self.file.path.clone(),
            position: first.position,
            contents: stretches.map(|stretch| stretch.content.clone()).collect(),
        };
        self.read += count;
        Ok(Some(portion))
    }
}
