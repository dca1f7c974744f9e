//! Carrying: batches that are not committed are staged anew when the frames they stand in keep the journal from being used again.
//!
//! One partition without a quorum would otherwise hold the files of all. Its suffix is cut off and appended again, byte for byte, in one
//! frame: a frame counts as a whole or not at all, so no crash can leave the cut without the batches.

use std::collections::BTreeMap;

use bytes::Bytes;
use record::{BatchHeader, Epoch, Offset, PartitionId};

use super::Store;
use super::layout::LayoutJob;
use crate::journal::frame::{ENTRY_HEADER_BYTES, EntryHeader, EntryKind, NONE};
use crate::journal::{FrameBatches, Reserve, StageError, Staged};
use crate::partition::{PartitionLog, TailBatch};

/// A batch that is carried, and where it stood.
pub(super) struct Carried {
    pub(super) staged: Staged,
    pub(super) bytes: Bytes,
}

/// The batches of a suffix that are at hand, and those that are to be read.
#[derive(Default)]
pub(super) struct CarryPlan {
    pub(super) places: Vec<(Staged, Option<Bytes>)>,
    pub(super) frames: Vec<FrameBatches>,
}

impl CarryPlan {
    /// The batches in order, given the bytes of the frames that were read.
    pub(super) fn gather(&self, frames: &[Bytes]) -> Vec<Carried> {
        let read = self.frames.iter().zip(frames);
        let mut read = read.flat_map(|(wanted, frame)| wanted.slices(frame));
        let carried = |(staged, resident): &(Staged, Option<Bytes>)| Carried {
            staged: *staged,
            bytes: resident
                .clone()
                .or_else(|| read.next())
                .expect("one range per batch not in memory"),
        };
        self.places.iter().map(carried).collect()
    }
}

fn place(batch: &TailBatch) -> Staged {
    Staged {
        frame: batch.frame,
        start: batch.start,
    }
}

impl Store {
    /// The partitions whose suffixes are to be carried so that a round can go beyond `bound`, where the first batch stands that is
    /// not committed, up to `end`; and how far it can go then. Only while the journal is half full: most batches are committed soon.
    /// Nor where what is not committed is half of what is in it: carried, it would take what it frees, again and again.
    pub(super) fn to_carry(&self, bound: u64, end: u64) -> (Vec<PartitionId>, u64) {
        let (occupied, most) = self.journal.occupied_bytes();
        if bound >= end || occupied <= most / 2 {
            return (Vec::new(), end.min(bound));
        }
        let waiting = self.layout.unlaid().filter_map(|id| self.partitions.get(id));
        let holding = waiting.filter_map(|log| Some((log, log.uncommitted().next()?.frame)));
        let (mut carried, mut end, mut uncommitted_bytes) = (Vec::new(), end, 0);
        for (log, frame) in holding {
            uncommitted_bytes += self.carried_bytes(log);
            if frame >= end {
                continue;
            }
            match self.journal.has_place_together(self.carried_bytes(log)) {
                true => carried.push((log.id, frame)),
                // It holds the journal until it is committed or cut off, or until there is room.
                false => end = end.min(frame),
            }
        }
        carried.retain(|(_, frame)| *frame < end);
        if uncommitted_bytes > occupied / 2 {
            return (Vec::new(), end.min(bound));
        }
        (carried.into_iter().map(|(id, _)| id).collect(), end)
    }

    fn carried_bytes(&self, log: &PartitionLog) -> u64 {
        let entry = ENTRY_HEADER_BYTES as u64;
        log.uncommitted()
            .map(|batch| entry + u64::from(batch.length))
            .sum::<u64>()
            + entry
    }

    /// The batches to gather of a partition's suffix; `None` if there is nothing left to carry.
    pub(super) fn plan_carry(&self, log: &PartitionLog) -> Option<CarryPlan> {
        let mut plan = CarryPlan::default();
        for batch in log.uncommitted() {
            let resident = self.journal.resident(place(batch), batch.length as usize);
            if resident.is_none() {
                let range = (batch.start, batch.length);
                match plan.frames.last_mut() {
                    Some(last) if last.location.frame_sequence == batch.frame => last.ranges.push(range),
                    _ => plan.frames.push(FrameBatches {
                        location: self
                            .journal
                            .location(batch.frame)
                            .expect("a frame not laid out is kept"),
                        ranges: vec![range],
                    }),
                }
            }
            plan.places.push((place(batch), resident));
        }
        (!plan.places.is_empty()).then_some(plan)
    }

    /// Stages what was gathered anew. What was committed or cut off meanwhile is left, what was appended is taken along.
    ///
    /// # Errors
    /// The journal has no room, or what was appended meanwhile is not in memory any more; then nothing has changed.
    pub(super) fn carry(&mut self, job: &LayoutJob, gathered: Vec<Carried>) -> Result<(), StageError> {
        let Some(log) = self.partitions.get(&job.partition()) else {
            return Ok(());
        };
        let mut at_hand: BTreeMap<(u64, u32), Bytes> = gathered
            .into_iter()
            .map(|carried| ((carried.staged.frame, carried.staged.start), carried.bytes))
            .collect();
        let batches: Vec<TailBatch> = log.uncommitted().copied().collect();
        let Some(first) = batches.first().map(|batch| batch.first) else {
            return Ok(());
        };
        let mut entries = vec![(
            EntryHeader {
                next: Offset(NONE),
                ..EntryHeader::bare(EntryKind::Accept, log.id, Epoch(NONE as i32), Offset(first))
            },
            Bytes::new(),
        )];
        for batch in &batches {
            let bytes = at_hand
                .remove(&(batch.frame, batch.start))
                .or_else(|| self.journal.resident(place(batch), batch.length as usize))
                .ok_or(StageError::Full)?;
            entries.push((carried_entry(log, batch, &bytes), bytes));
        }
        let staged = self.journal.stage_together(&entries, Reserve::UseHalf)?;
        let log = self.partitions.get_mut(&job.partition()).expect("seen above");
        log.cut(first, staged[0].frame)
            .expect("batches end where the committed ones do");
        for ((batch, staged), (entry, bytes)) in batches.iter().zip(&staged[1..]).zip(&entries[1..]) {
            log.push(TailBatch {
                frame: staged.frame,
                start: staged.start,
                ..*batch
            });
            let header = BatchHeader::read(bytes).expect("it was let in once");
            log.note_kind(&header, entry.aborts);
        }
        Ok(())
    }
}

/// The entry of a batch as it was staged first.
fn carried_entry(log: &PartitionLog, batch: &TailBatch, bytes: &Bytes) -> EntryHeader {
    let header = BatchHeader::read(bytes).expect("it was let in once");
    let marker = header.base_offset.0;
    let aborted = log.aborted.binary_search_by_key(&marker, |range| range.marker);
    let aborts = aborted.map_or(NONE, |index| log.aborted[index].first);
    let kind = if aborts == NONE {
        EntryKind::Batch
    } else {
        EntryKind::AbortBatch
    };
    EntryHeader {
        next: Offset(batch.next),
        payload_bytes: batch.length,
        aborts,
        ..EntryHeader::bare(kind, log.id, header.leader_epoch, Offset(batch.first))
    }
}
