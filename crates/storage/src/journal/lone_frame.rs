//! A large batch as a frame of its own: it was received into memory that has room for a frame's headers in front of it, and goes
//! to the disk from where it is. Earlier entries are sealed before it: frames keep the order of appends. One small entry may stand
//! behind it in its frame.

use super::frame::{ENTRY_HEADER_BYTES, EntryHeader, FRAME_HEADER_BYTES};
use super::majority::Majority;
use super::{Journal, Reserve, StageError, Staged};
use crate::batch_bytes::BatchMemory;
use crate::slab::FrameMemory;

impl Journal {
    /// Sees to it that a batch of so many bytes has a place as the next frame.
    pub(crate) fn make_room_for_frame(
        &mut self,
        batch_bytes: usize,
        reserve: Reserve,
    ) -> Result<(), StageError> {
        if let Some(reason) = &self.dead {
            return Err(StageError::Dead(reason.clone()));
        }
        self.make_room_behind(ENTRY_HEADER_BYTES + batch_bytes, reserve)
            .map(drop)
    }

    /// Makes the batch the next frame, without a copy, and puts an entry behind it into the same frame. Room was made before. Returns where the payloads
    /// of both are.
    pub(crate) fn stage_frame(
        &mut self,
        header: &EntryHeader,
        mut memory: BatchMemory,
        behind: Option<(&EntryHeader, &[u8])>,
    ) -> (Staged, Option<Staged>) {
        assert!(
            self.pending_entries == 0,
            "what was staged before is sealed before"
        );
        let entry_bytes = ENTRY_HEADER_BYTES + header.payload_bytes as usize;
        let mut majority = Majority::default();
        majority.count(header.partition, entry_bytes as u64);
        let frame = self.pending_frame();
        let staged = |start: usize| Staged {
            frame,
            start: u32::try_from(start).expect("a request is below 4 GiB"),
        };
        let first = staged(FRAME_HEADER_BYTES + ENTRY_HEADER_BYTES);
        memory.frame_mut()[FRAME_HEADER_BYTES..][..ENTRY_HEADER_BYTES].copy_from_slice(&header.encode());
        let mut appended = vec![(header.partition, header.next.0)];
        let second = behind.map(|(header, payload)| {
            memory.put_behind(&header.encode());
            let start = memory.frame_mut().len();
            memory.put_behind(payload);
            majority.count(header.partition, (ENTRY_HEADER_BYTES + payload.len()) as u64);
            appended.push((header.partition, header.next.0));
            staged(start)
        });
        let location = self.place(memory.padded_bytes(), majority);
        location.complete(self.identity, appended.len() as u32, memory.frame_mut());
        let bytes = memory.into_padded_frame();
        let memory = FrameMemory::of(&bytes);
        self.is_closed = false;
        self.push_sealed(location, bytes, memory, appended);
        (first, second)
    }
}
