//! Writes the segment that takes the place of others, for compaction and for repair: runs of a bounded size, each synced, the last one sealing it.
//!
//! Nothing counts of it until a checkpoint names it; before that its name is durable and every run synced. A run is written only
//! if the disk keeps its reserve beside it. Blocks.

use std::collections::VecDeque;

use planted::{Bug, planted};
use record::BatchHeader;

use super::source::Place;
use crate::fault::{Doing, Failed, Fault};
use crate::segment::{
    AbortedRange, Batch, Index, Run, Segment, SegmentFile, SegmentName, directory, path, write_run,
};

/// Batches are gathered up to this size: what one run holds in memory, twice while it is written.
const RUN_BYTES: usize = 1 << 20;
/// Stays free beside the reserve: between the look at the disk and the write, the pass of each other core may write a run.
const MARGIN_BYTES: u64 = 32 * RUN_BYTES as u64;

/// Why a segment is not written on.
pub(crate) enum Unwritten {
    /// With a run of so many bytes more the disk would not keep its reserve.
    NoRoom {
        bytes: u64,
    },
    Fault(Fault),
}

impl From<Fault> for Unwritten {
    fn from(fault: Fault) -> Unwritten {
        Unwritten::Fault(fault)
    }
}

pub(crate) struct Output {
    place: Place,
    /// Free bytes that the disk must keep.
    disk_reserve_bytes: u64,
    file: SegmentFile,
    segment: Segment,
    index: Index,
    /// The transactions that batches still to be written abort, in the order of their markers.
    aborted: VecDeque<AbortedRange>,
    gathered: Vec<Batch>,
    gathered_bytes: usize,
}

impl Output {
    /// Begins the file of `segment`, of which only its name, its end, its age and whether offsets may be missing count. Its markers abort
    /// the given transactions.
    pub(crate) fn create(
        place: &Place,
        disk_reserve_bytes: u64,
        segment: Segment,
        aborted: Vec<AbortedRange>,
    ) -> Result<Output, Fault> {
        let relative = path(&place.partition, segment.name());
        let name = place.disk.root().join(&relative).display().to_string();
        let file = place
            .disk
            .create(&relative)
            .map_err(|error| Doing::Creating.failed(error).at(&name))?;
        Ok(Output {
            place: place.clone(),
            disk_reserve_bytes,
            file: SegmentFile {
                file,
                identity: segment.identity(place.journal.cluster, place.partition),
                path: name,
                adopted: None,
                patient: false,
            },
            segment: Segment {
                end: 0,
                max_timestamp_ms: i64::MIN,
                sealed: true,
                aborted: u32::try_from(aborted.len()).expect("a segment has fewer batches"),
                adopted: None,
                ..segment
            },
            index: Index::default(),
            aborted: aborted.into(),
            gathered: Vec::new(),
            gathered_bytes: 0,
        })
    }

    /// Adds one batch behind those before it. Takes a copy: a slice would keep all that was read with it in memory.
    pub(crate) fn push(&mut self, header: &BatchHeader, bytes: Vec<u8>) -> Result<(), Unwritten> {
        if self.gathered_bytes >= RUN_BYTES {
            self.write(false)?;
        }
        self.gathered_bytes += bytes.len();
        self.gathered.push(Batch {
            first: header.base_offset.0,
            next: header.next_offset().0,
            max_timestamp_ms: header.max_timestamp_ms,
            bytes: bytes.into(),
        });
        Ok(())
    }

    /// Seals the segment; all of it is durable on return, its name too.
    ///
    /// # Errors
    /// The disk's, or that it has no room; or damage, if the batches do not end where the segments did that they come from.
    pub(crate) fn finish(&mut self) -> Result<Segment, Unwritten> {
        let reached = self
            .gathered
            .last()
            .map_or(self.segment.first, |batch| batch.next);
        if reached != self.segment.next {
            let what = format!(
                "the batches before it end at offset {reached} instead of {}",
                self.segment.next
            );
            return Err(Unwritten::Fault(Fault::Damaged {
                file: self.file.path.clone(),
                position: 0,
                what,
            }));
        }
        self.write(true)?;
        if !planted(Bug::NamesNotSynced) {
            self.place
                .disk
                .sync_directory(&directory(&self.place.partition))
                .map_err(|error| Doing::Syncing.failed(error).at(&self.file.path))?;
        }
        Ok(self.segment)
    }

    fn write(&mut self, seal: bool) -> Result<(), Unwritten> {
        self.check_room()?;
        let batches = std::mem::take(&mut self.gathered);
        self.gathered_bytes = 0;
        let next = batches.last().map_or(i64::MIN, |batch| batch.next);
        let ended = self.aborted.partition_point(|range| range.marker < next);
        let aborted: Vec<AbortedRange> = self.aborted.drain(..ended).collect();
        let run = Run {
            identity: self.file.identity,
            start: self.segment.end,
            seal: seal.then_some(&self.index),
            aborted: &aborted,
        };
        let (chunks, end) =
            write_run(&*self.file.file, &run, &batches).map_err(|failed| failed.at(&self.file.path))?;
        self.segment.end = end;
        let newest = batches.iter().map(|batch| batch.max_timestamp_ms).max();
        self.segment.max_timestamp_ms = self.segment.max_timestamp_ms.max(newest.unwrap_or(i64::MIN));
        self.index.chunks.extend(chunks);
        self.index.aborted.extend(aborted);
        Ok(())
    }

    /// Not knowing what is free is no reason to end here: a full disk will say so itself.
    fn check_room(&self) -> Result<(), Unwritten> {
        let free_bytes = self.place.disk.free_bytes().unwrap_or(u64::MAX);
        let bytes = self.gathered_bytes as u64;
        match free_bytes >= self.disk_reserve_bytes.saturating_add(MARGIN_BYTES + bytes) {
            true => Ok(()),
            false => Err(Unwritten::NoRoom { bytes }),
        }
    }

    /// The fault of batches that were to be written.
    pub(crate) fn damaged(&self, what: String) -> Fault {
        self.file.damaged(self.segment.end, what)
    }

    /// Takes note that offsets are missing.
    pub(crate) fn note_gap(&mut self) {
        self.segment.sparse = true;
    }

    /// Bytes written so far.
    pub(crate) fn written(&self) -> u64 {
        self.segment.end
    }

    /// Takes the file away again: nothing names it.
    pub(crate) fn abandon(self) {
        let path = path(&self.place.partition, self.segment.name());
        if let Err(error) = self.place.disk.remove(&path) {
            tracing::warn!(%error, file = self.file.path, "an unfinished compacted segment is left; the next pass removes it");
        }
    }
}

/// Removes what passes before this one left unfinished: compacted segments that are not `known`. Only one pass at a time
/// writes such files, and this one has not begun to.
pub(crate) fn remove_leftovers(place: &Place, known: &[SegmentName]) -> Result<(), Fault> {
    let directory = directory(&place.partition);
    let at = |failed: Failed| failed.at(place.disk.root().join(&directory).display().to_string());
    let names = place.disk.list(&directory);
    let names = names.map_err(|error| at(Doing::Reading.failed(error)))?;
    for name in names.iter().filter_map(|name| SegmentName::of_file(name)) {
        if name.generation > 0 && !known.contains(&name) {
            let path = path(&place.partition, name);
            let removed = place.disk.remove(&path);
            removed.map_err(|error| at(Doing::Removing.failed(error)))?;
        }
    }
    Ok(())
}
