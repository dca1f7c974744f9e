//! Segments that move from one node to another as they are, which is quicker than batch by batch through the journal.
//!
//! ```text
//!   sealed_segments, read_sealed         begin_import ─► Import: written, checked, synced ─► imported ─► checkpoint
//!   on the node that has them            on the one that lacks them                          readers     counts after a crash
//! ```
//! Nothing of an import is in the journal. So it goes on only behind what a checkpoint has laid out, and entries behind it wait
//! until a checkpoint names it: recovery finds the log as it was before, or with the segment, and nothing in between.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use planted::{Bug, planted};
use platform::disk::{BLOCK_BYTES, Disk};
use record::{Epoch, Offset, PartitionId};

use super::Store;
use crate::checksum::JournalIdentity;
use crate::fault::Fault;
use crate::import::{Import, ImportError, ImportedFile, SegmentOffer, marker};
use crate::segment::{Segment, SegmentFile, SegmentName, open_segment};

/// A complete segment, as another node may get it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealedSegment {
    /// Its file can be sent.
    Whole(SegmentOffer),
    /// It stands in a journal file, whose checksums say whose journal that is: its batches are sent instead.
    AsBatches {
        /// The first offset.
        first: Offset,
        /// The offset after the last one.
        next: Offset,
    },
}

/// Reads some of a segment's file, unchecked: who receives it checks the whole.
pub struct SegmentRead {
    disk: Arc<dyn Disk>,
    journal: JournalIdentity,
    partition: PartitionId,
    segment: Segment,
    position: u64,
    length: usize,
}

impl SegmentRead {
    /// Reads; blocks.
    ///
    /// # Errors
    /// The disk's. The file is missing if the segment was given up meanwhile.
    pub fn run(&self) -> Result<Bytes, Fault> {
        let file = open_segment(&self.disk, &self.journal, &self.partition, &self.segment)?;
        let file = SegmentFile {
            patient: true,
            ..file
        };
        file.read(self.position, self.length)
    }
}

/// Imported segments that no durable checkpoint names, by the files that would have the next start remove them.
#[derive(Default)]
pub(super) struct Imports {
    unrecorded: Vec<PathBuf>,
}

impl Imports {
    /// Those that a checkpoint which is taken now is to name.
    pub(super) fn markers(&self) -> Vec<PathBuf> {
        self.unrecorded.clone()
    }

    /// Takes note that a durable checkpoint names these.
    pub(super) fn note_recorded(&mut self, markers: &[PathBuf]) {
        self.unrecorded.retain(|marker| !markers.contains(marker));
    }
}

impl Store {
    /// The complete segments of a partition that hold something at `from` or behind it and are in a durable checkpoint, in order.
    pub fn sealed_segments(&self, id: PartitionId, from: Offset) -> Vec<SealedSegment> {
        let Some(log) = self.partitions.get(&id) else {
            return Vec::new();
        };
        let wanted = log
            .segments
            .iter()
            .filter(|segment| segment.sealed && segment.next > from.0 && segment.next <= log.recorded);
        let sealed = |segment: &Segment| match segment.adopted {
            None => SealedSegment::Whole(SegmentOffer::of(segment)),
            Some(_) => SealedSegment::AsBatches {
                first: Offset(segment.first),
                next: Offset(segment.next),
            },
        };
        wanted.map(sealed).collect()
    }

    /// The read of up to `bytes_max` bytes, whole blocks, of a segment that was offered. `None` if it is not there any more, or ends
    /// at `position`.
    pub fn read_sealed(
        &self,
        id: PartitionId,
        offer: &SegmentOffer,
        position: u64,
        bytes_max: usize,
    ) -> Option<SegmentRead> {
        let log = self.partitions.get(&id)?;
        let name = SegmentName {
            first: offer.first.0,
            generation: offer.generation,
        };
        let segment = log.segments.iter().find(|segment| segment.name() == name)?;
        let is_offered = segment.adopted.is_none() && SegmentOffer::of(segment) == *offer;
        let left = segment.end.checked_sub(position).filter(|left| *left > 0)?;
        let most = (bytes_max / BLOCK_BYTES).max(1) * BLOCK_BYTES;
        is_offered.then(|| SegmentRead {
            disk: self.disk.clone(),
            journal: self.config.identity,
            partition: id,
            segment: *segment,
            position,
            length: left.min(most as u64) as usize,
        })
    }

    /// Begins to take over a segment of another node, which must go on where the log ends; an empty log begins with it.
    /// `writer_before` is the epoch of the record before it, if there is one. Until the import has ended or is dropped, nothing may
    /// be appended to the partition or cut off.
    ///
    /// # Errors
    /// Why it cannot be; nothing has changed then.
    pub fn begin_import(
        &mut self,
        id: PartitionId,
        offer: &SegmentOffer,
        writer_before: Option<Epoch>,
    ) -> Result<Import, ImportError> {
        let segment = offer.segment().map_err(ImportError::NoSegment)?;
        let released_before = self.journal.released_before();
        let log = self.partitions.get_mut(&id);
        let log = log.ok_or(ImportError::UnknownPartition(id))?;
        if log.is_importing() {
            return Err(ImportError::UnderWay(id));
        }
        if log.next != segment.first && log.next != 0 {
            let (first, next) = (offer.first, Offset(log.next));
            return Err(ImportError::Elsewhere { id, first, next });
        }
        let is_covered = log.recorded == log.laid_out || log.imported == log.laid_out;
        let is_clean = is_covered && log.cuts_before <= released_before;
        if log.needs_layout() || !(is_clean || planted(Bug::ImportBesideJournal)) {
            return Err(ImportError::InJournal(id));
        }
        let place = (self.disk.clone(), self.config.identity, id);
        Ok(Import::new(place, segment, writer_before, log.begin_import()))
    }

    /// Puts a segment behind the log's end: readers see it at once, and the next checkpoint names it. From then on it counts after a
    /// crash, and the log goes on; see [`Store::awaits_checkpoint`]. A checkpoint is due by that.
    ///
    /// # Errors
    /// `UnknownPartition` if it was deleted meanwhile; its files go with it.
    pub fn imported(&mut self, file: ImportedFile) -> Result<(), ImportError> {
        let (id, segment) = (file.partition(), file.segment());
        let log = self.partitions.get_mut(&id);
        let log = log.ok_or(ImportError::UnknownPartition(id))?;
        log.import(segment);
        self.imports
            .unrecorded
            .push(marker(&self.config.identity, &id, segment.name()));
        self.compaction.note_owed(true);
        Ok(())
    }

    /// Says whether a segment of the partition was imported that no durable checkpoint names: nothing may be appended, trimmed or cut
    /// off before.
    pub fn awaits_checkpoint(&self, id: PartitionId) -> bool {
        self.partitions
            .get(&id)
            .is_some_and(|log| log.awaits_checkpoint())
    }
}
