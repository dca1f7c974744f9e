//! The closing frame: an empty frame behind the last one, written when the journal falls silent or is closed.
//!
//! Behind the last frame nothing proves that it was whole once, so damage in it looks like a flush that a crash cut short. A
//! frame behind it is that proof: it was begun only when the one before it was durable. The closing frame itself holds
//! nothing, so nothing is lost if it is torn or damaged.

use planted::{Bug, planted};
use platform::disk::BLOCK_BYTES;

use super::frame::FRAME_HEADER_BYTES;
use super::{Journal, Reserve};

impl Journal {
    /// Stages a closing frame, if the last frame needs one and there is a place for it. Returns whether it did.
    pub(crate) fn stage_closing_frame(&mut self) -> bool {
        let needs_one = !self.is_closed && self.released_before < self.pending_frame();
        let may_have_one = self.dead.is_none() && self.pending_entries == 0;
        let has_place = self.files.has_place(BLOCK_BYTES as u64, Reserve::UseHalf);
        if !(needs_one && may_have_one && has_place) || planted(Bug::JournalNotClosed) {
            return false;
        }
        self.begin_frame_of(FRAME_HEADER_BYTES, BLOCK_BYTES);
        self.slab.append(&[0; FRAME_HEADER_BYTES]);
        self.end_frame();
        true
    }
}
