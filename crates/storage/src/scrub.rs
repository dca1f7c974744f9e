//! Reads a segment for no reader, to find damage before somebody needs what is lost.
//!
//! It goes past the caches, a few chunks at a time, and leaves the pace to its owner. It changes nothing. Blocks.

use record::{Offset, PartitionId};

use crate::compaction::Place;
use crate::damage::Damage;
use crate::fault::Fault;
use crate::segment::{Chunk, Segment, SegmentFile, SegmentName, read_piece};

/// Read in one step.
const STEP_BYTES: u64 = 256 << 10;
/// Chunks are read together up to here, as compaction does.
const READ_BYTES: u64 = 64 << 10;

/// A segment being read; see the module.
pub struct Scrub {
    place: Place,
    segment: Segment,
    /// Nobody needs what lies below.
    log_start: i64,
    _lease: Option<std::sync::Arc<()>>,
    open: Option<(SegmentFile, Vec<Chunk>)>,
    read: usize,
}

/// The outcome of a step.
#[derive(Debug, Default)]
pub struct Scrubbed {
    /// Bytes that were read.
    pub bytes: u64,
    /// The damage that was found.
    pub damages: Vec<Damage>,
    /// The segment could not be looked at, which says nothing about its bytes.
    pub unread: Option<Fault>,
    /// The segment was read to its end.
    pub is_over: bool,
}

impl Scrub {
    pub(crate) fn new(
        place: Place,
        segment: Segment,
        log_start: i64,
        lease: Option<std::sync::Arc<()>>,
    ) -> Scrub {
        Scrub {
            place,
            segment,
            log_start,
            _lease: lease,
            open: None,
            read: 0,
        }
    }

    /// The partition.
    pub fn partition(&self) -> PartitionId {
        self.place.partition
    }

    pub(crate) fn name(&self) -> SegmentName {
        self.segment.name()
    }

    /// The offset behind the segment.
    pub fn next(&self) -> Offset {
        Offset(self.segment.next)
    }

    /// Says whether it was being appended to: what it gets since is not looked at.
    pub fn grows(&self) -> bool {
        !self.segment.sealed
    }

    /// Reads on.
    pub fn step(&mut self) -> Scrubbed {
        let mut scrubbed = Scrubbed::default();
        if self.open.is_none()
            && let Err(fault) = self.begin()
        {
            self.note(None, fault, &mut scrubbed);
            scrubbed.is_over = true;
            return scrubbed;
        }
        while scrubbed.bytes < STEP_BYTES && scrubbed.unread.is_none() {
            let (file, chunks) = self.open.as_ref().expect("just opened");
            let rest = &chunks[self.read..];
            if rest.is_empty() {
                break;
            }
            let mut bytes = 0;
            let few = rest.iter().take_while(|chunk| {
                bytes += u64::from(chunk.length);
                bytes <= READ_BYTES
            });
            let few = &rest[..few.count().max(1)];
            scrubbed.bytes += few.iter().map(|chunk| u64::from(chunk.length)).sum::<u64>();
            self.read += few.len();
            if read_piece(file, few).is_ok() {
                continue;
            }
            let failed: Vec<_> = few
                .iter()
                .filter_map(|chunk| Some((*chunk, read_piece(file, &[*chunk]).err()?)))
                .collect();
            for (chunk, fault) in failed {
                self.note(Some(chunk), fault, &mut scrubbed);
            }
        }
        let all = self.open.as_ref().map_or(0, |(_, chunks)| chunks.len());
        scrubbed.is_over = self.read == all || scrubbed.unread.is_some();
        scrubbed
    }

    fn begin(&mut self) -> Result<(), Fault> {
        let (file, mut chunks) = self.place.open(&self.segment)?;
        chunks.drain(..chunks.partition_point(|chunk| chunk.next <= self.log_start));
        self.open = Some((file, chunks));
        Ok(())
    }

    fn note(&self, chunk: Option<Chunk>, fault: Fault, scrubbed: &mut Scrubbed) {
        match self.place.damage(self.segment, chunk, fault) {
            Ok(damage) => scrubbed.damages.push(damage),
            Err(fault) => scrubbed.unread = Some(fault),
        }
    }
}
