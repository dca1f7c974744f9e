//! Reads batches back from journal frames that are no longer in memory and not yet in a segment.
//!
//! The whole frame is read and checked, so that a file which has been reused meanwhile is told from a good one.

use std::io;

use bytes::Bytes;

use super::FrameLocation;
use super::frame::{FRAME_HEADER_BYTES, FrameHeader};
use crate::checksum::{FrameIdentity, JournalIdentity};

/// Some batches of one frame, in order.
pub(crate) struct FrameBatches {
    pub(crate) location: FrameLocation,
    /// First byte and length of each, counted from the frame's first byte.
    pub(crate) ranges: Vec<(u32, u32)>,
}

/// Why a frame could not be read back.
pub(crate) enum RereadError {
    Disk(io::Error),
    /// Another frame stands there, or a damaged one. Whether the file was rightly reused, the journal knows.
    NotThere,
}

impl FrameBatches {
    /// The batches, as slices of one read. Blocks.
    pub(crate) fn read(&self, journal: &JournalIdentity) -> Result<Vec<Bytes>, RereadError> {
        let location = &self.location;
        let identity = &FrameIdentity {
            journal: *journal,
            salt: location.salt,
        };
        let frame = location
            .file
            .read(location.position, location.total_bytes as usize)
            .map_err(RereadError::Disk)?;
        let header = FrameHeader::decode(&frame, identity).ok_or(RereadError::NotThere)?;
        let is_the_one = header.file_sequence == location.file_sequence
            && header.frame_sequence == location.frame_sequence
            && header.frame_bytes() == frame.len()
            && header.body_holds(
                &frame[FRAME_HEADER_BYTES..][..header.body_bytes as usize],
                identity,
            );
        if !is_the_one {
            return Err(RereadError::NotThere);
        }
        Ok(self
            .ranges
            .iter()
            .map(|(start, length)| frame.slice(*start as usize..(start + length) as usize))
            .collect())
    }
}
