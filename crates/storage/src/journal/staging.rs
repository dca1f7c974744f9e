//! Staging of entries in the frame being built, and the end of that frame: every entry has a place on disk before it is taken.

use bytes::Bytes;
use planted::{Bug, planted};
use record::PartitionId;

use super::frame::{ENTRY_HEADER_BYTES, EntryHeader, FRAME_HEADER_BYTES};
use super::majority::Majority;
use super::{FrameLocation, FrameRecord, Journal, Reserve, StageError, Staged};
use crate::slab::{FrameMemory, Slab, round_up_to_block};

/// Frames that are at least so large cost less on huge pages. Smaller ones would now and then wait for one to be cleared.
const LARGE_FRAME_BYTES: usize = 64 << 10;

impl Journal {
    /// Copies an entry into the frame being built. Where the partition's log ends behind it is noted for the flush.
    pub(crate) fn stage(
        &mut self,
        header: &EntryHeader,
        payload: &[u8],
        reserve: Reserve,
    ) -> Result<Staged, StageError> {
        if let Some(reason) = &self.dead {
            return Err(StageError::Dead(reason.clone()));
        }
        let entry_bytes = ENTRY_HEADER_BYTES + payload.len();
        self.make_room(entry_bytes, reserve)?;
        if self.pending_entries == 0 {
            self.slab.append(&[0; FRAME_HEADER_BYTES]);
        }
        self.slab.append(&header.encode());
        let start = self.slab.filled();
        self.slab.append(payload);
        self.pending_entries += 1;
        self.pending_majority.count(header.partition, entry_bytes as u64);
        if let Some(next) = header.log_end() {
            self.note_appended(header.partition, next);
        }
        Ok(Staged {
            frame: self.pending_frame(),
            start: u32::try_from(start).expect("a slab is below 4 GiB"),
        })
    }

    /// Copies entries into one frame: after a crash all of them count, or none.
    pub(crate) fn stage_together(
        &mut self,
        entries: &[(EntryHeader, Bytes)],
        reserve: Reserve,
    ) -> Result<Vec<Staged>, StageError> {
        if let Some(reason) = &self.dead {
            return Err(StageError::Dead(reason.clone()));
        }
        let sizes = entries
            .iter()
            .map(|(_, payload)| ENTRY_HEADER_BYTES + payload.len());
        let bytes = sizes.sum();
        let alone = self.make_room_behind(bytes, reserve)?;
        self.begin_frame_of(FRAME_HEADER_BYTES + bytes, alone);
        let mut staged = Vec::with_capacity(entries.len());
        for (header, payload) in entries {
            staged.push(self.stage(header, payload, reserve)?);
            if planted(Bug::CarriedInTwoFrames) && staged.len() == 1 {
                self.seal();
            }
        }
        let is_one = staged.windows(2).all(|pair| pair[0].frame == pair[1].frame);
        assert!(
            is_one || planted(Bug::CarriedInTwoFrames),
            "room was made for one frame"
        );
        Ok(staged)
    }

    /// Sees to it that entries can be staged in one frame which have so many bytes together, but for the header of one.
    pub(crate) fn make_room_in_frame(
        &mut self,
        payload_bytes: usize,
        reserve: Reserve,
    ) -> Result<(), StageError> {
        if let Some(reason) = &self.dead {
            return Err(StageError::Dead(reason.clone()));
        }
        self.make_room(ENTRY_HEADER_BYTES + payload_bytes, reserve)
    }

    /// Says whether entries with payloads of these lengths can all be staged now, in one frame or in several.
    pub(crate) fn has_room(&self, payloads: impl IntoIterator<Item = usize>, reserve: Reserve) -> bool {
        let alone = |payload| round_up_to_block(FRAME_HEADER_BYTES + ENTRY_HEADER_BYTES + payload) as u64;
        let filled = round_up_to_block(self.slab.filled()) as u64;
        // In one frame they might all go to the next file; in frames of their own, each has blocks of its own.
        let together = filled + payloads.into_iter().map(alone).sum::<u64>();
        together <= self.files.frame_bytes_max(reserve) && self.files.has_place(together, reserve)
    }

    /// The bytes of a payload staged in the frame being built, to patch offsets and times before anyone sees them.
    pub(crate) fn staged_mut(&mut self, staged: Staged, length: usize) -> &mut [u8] {
        assert!(
            staged.frame == self.pending_frame(),
            "only the frame being built may be changed"
        );
        &mut self.slab.frame_mut()[staged.start as usize..staged.start as usize + length]
    }

    /// Has no flush that is still to come report more of a partition than what is left of it.
    pub(crate) fn note_cut(&mut self, partition: PartitionId, first: i64) {
        let waiting = self.durable_before - self.first_record;
        let frames = self.records.iter_mut().skip(waiting as usize);
        let appended = frames
            .map(|record| &mut record.appended)
            .chain([&mut self.pending_appended]);
        for (_, next) in appended.flatten().filter(|(id, _)| *id == partition) {
            *next = first.min(*next);
        }
    }

    fn note_appended(&mut self, partition: PartitionId, next: i64) {
        match self.pending_appended.last_mut() {
            Some(last) if last.0 == partition => last.1 = next,
            _ => self.pending_appended.push((partition, next)),
        }
    }

    /// Sees to it that the frame being built can take the entry *and* will have a place: what is staged can always be
    /// flushed, or a checkpoint that waits for it could never free the files that it waits for.
    fn make_room(&mut self, entry_bytes: usize, reserve: Reserve) -> Result<(), StageError> {
        if self.pending_entries > 0 {
            let together = round_up_to_block(self.slab.filled() + entry_bytes) as u64;
            let fits = entry_bytes <= self.slab.room() && together <= self.files.frame_bytes_max(reserve);
            if fits && self.files.has_place(together, reserve) {
                return Ok(());
            }
        }
        let alone = self.make_room_behind(entry_bytes, reserve)?;
        self.begin_frame_of(FRAME_HEADER_BYTES + entry_bytes, alone);
        Ok(())
    }

    /// Sees to it that the next frame, of so many bytes, has memory.
    pub(super) fn begin_frame_of(&mut self, bytes: usize, total_bytes: usize) {
        if bytes > self.slab.room() {
            let pool = match total_bytes < LARGE_FRAME_BYTES {
                true => &self.slabs,
                false => &self.large_slabs,
            };
            self.slab = Slab::pooled(pool, total_bytes);
        }
    }

    /// Ends the frame being built, if the entry has a place in the one behind it, all alone. Says how long that one is.
    pub(super) fn make_room_behind(
        &mut self,
        entry_bytes: usize,
        reserve: Reserve,
    ) -> Result<usize, StageError> {
        let frame_bytes_max = self.files.frame_bytes_max(reserve);
        let alone = round_up_to_block(FRAME_HEADER_BYTES + entry_bytes);
        if alone as u64 > frame_bytes_max {
            let file_bytes = frame_bytes_max - FRAME_HEADER_BYTES as u64;
            return Err(StageError::TooLarge {
                bytes: entry_bytes,
                file_bytes,
            });
        }
        let filled = round_up_to_block(self.slab.filled()) as u64;
        let has_place = self.files.has_place_after(filled, alone as u64, reserve);
        if !has_place {
            self.files.hurry_preparation();
            return Err(StageError::Full);
        }
        if self.pending_entries > 0 {
            self.seal();
        }
        Ok(alone)
    }

    /// Ends the frame being built and gives it its place on disk.
    pub(super) fn seal(&mut self) {
        assert!(self.pending_entries > 0, "only a closing frame is empty");
        self.end_frame();
    }

    /// Gives the frame being built its place on disk, with as many entries as it has.
    pub(super) fn end_frame(&mut self) {
        let majority = std::mem::take(&mut self.pending_majority);
        let location = self.place(round_up_to_block(self.slab.filled()), majority);
        let entries = std::mem::take(&mut self.pending_entries);
        location.complete(self.identity, entries, self.slab.frame_mut());
        let appended = std::mem::take(&mut self.pending_appended);
        let bytes = self.slab.cut_frame();
        self.is_closed = entries == 0;
        self.push_sealed(location, bytes, self.slab.memory(), appended);
    }

    /// Gives the next frame its place on disk.
    pub(super) fn place(&mut self, total_bytes: usize, majority: Majority) -> FrameLocation {
        let frame = self.pending_frame();
        self.files.place(total_bytes as u64, frame, majority)
    }

    /// Puts a sealed frame behind those that wait for their flush.
    pub(super) fn push_sealed(
        &mut self,
        location: FrameLocation,
        bytes: Bytes,
        memory: FrameMemory,
        appended: Vec<(PartitionId, i64)>,
    ) {
        self.resident_bytes += bytes.len();
        self.sealed_bytes += location.total_bytes as usize;
        self.records.push_back(FrameRecord {
            location,
            bytes,
            memory,
            appended,
        });
    }
}
