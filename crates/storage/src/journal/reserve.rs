//! The journal's reserve: room that records leave for the entries that make room.
//!
//! A full journal is emptied by layout, and layout may need what only a trim or a deletion can free. Those are entries of a
//! journal themselves, so a journal that records may fill to the last block could never be helped.

use super::JournalSizes;
use super::frame::FILE_HEADER_BYTES;

/// The part of a journal file that is kept.
const RESERVE_PART: u64 = 64;
const BLOCK_BYTES: u64 = FILE_HEADER_BYTES as u64;

/// The part of a journal's reserve that an entry may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reserve {
    /// None of it, for records.
    #[default]
    Keep,
    /// Half of it, for entries that may help, and for those that are needed to go on.
    UseHalf,
    /// All of it, for entries that are sure to free room.
    Use,
}

impl JournalSizes {
    /// Bytes that records leave of a journal that has no other file ready. Files below 256 KiB are too small for any.
    pub fn reserve_bytes(&self) -> u64 {
        whole_blocks(self.file_bytes / RESERVE_PART)
    }

    /// Bytes that an entry leaves of it.
    pub(super) fn kept_bytes(&self, reserve: Reserve) -> u64 {
        match reserve {
            Reserve::Keep => self.reserve_bytes(),
            Reserve::UseHalf => whole_blocks(self.reserve_bytes() / 2),
            Reserve::Use => 0,
        }
    }
}

fn whole_blocks(bytes: u64) -> u64 {
    bytes / BLOCK_BYTES * BLOCK_BYTES
}
