//! Reads batches back from journal frames that are no longer in memory and not yet in a segment.
//!
//! Whole frames are read and checked, so that a file which has been reused meanwhile is told from a good one. Where little of
//! what was read is wanted, that is copied: a slice would keep the frames in memory, with what is everybody else's in them.

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

/// Frames that stand one behind the other are read together, up to so many bytes: a read of the disk costs as much for one small
/// frame as for many.
pub(crate) const SPAN_BYTES_MAX: usize = 256 << 10;
/// Of a read at least this part is shared; less is copied.
const SHARED_PART: usize = 2;

impl FrameBatches {
    /// The batches. Blocks.
    pub(crate) fn read(&self, journal: &JournalIdentity) -> Result<Vec<Bytes>, RereadError> {
        FrameBatches::read_all(std::slice::from_ref(self), journal)
    }

    /// The batches of all these frames, in order, with as few reads as their places allow. Blocks.
    pub(crate) fn read_all(
        mut frames: &[FrameBatches],
        journal: &JournalIdentity,
    ) -> Result<Vec<Bytes>, RereadError> {
        let mut batches = Vec::new();
        while let Some(first) = frames.first() {
            let (count, bytes) = span(frames);
            let location = &first.location;
            let read = location.file.read(location.position, bytes);
            let mut read = read.map_err(|error| match error.kind() {
                // A file that is removed meanwhile gets shorter.
                io::ErrorKind::UnexpectedEof => RereadError::NotThere,
                _ => RereadError::Disk(error),
            })?;
            let (together, behind) = frames.split_at(count);
            let batches_before = batches.len();
            for frame in together {
                let bytes = read.split_to(frame.location.total_bytes as usize);
                frame.check(&bytes, journal)?;
                batches.extend(frame.slices(&bytes));
            }
            let found = &mut batches[batches_before..];
            if found.iter().map(Bytes::len).sum::<usize>() < bytes / SHARED_PART {
                copy(found);
            }
            frames = behind;
        }
        Ok(batches)
    }

    /// That these bytes are the frame.
    fn check(&self, frame: &Bytes, journal: &JournalIdentity) -> Result<(), RereadError> {
        let location = &self.location;
        let identity = &FrameIdentity {
            journal: *journal,
            salt: location.salt,
        };
        let header = FrameHeader::decode(frame, identity).ok_or(RereadError::NotThere)?;
        let is_the_one = header.file_sequence == location.file_sequence
            && header.frame_sequence == location.frame_sequence
            && header.frame_bytes() == frame.len()
            && header.body_holds(
                &frame[FRAME_HEADER_BYTES..][..header.body_bytes as usize],
                identity,
            );
        is_the_one.then_some(()).ok_or(RereadError::NotThere)
    }

    fn slices(&self, frame: &Bytes) -> impl Iterator<Item = Bytes> {
        let ranges = self.ranges.iter();
        ranges.map(|(start, length)| frame.slice(*start as usize..(start + length) as usize))
    }
}

/// Puts the batches into one memory of just their size.
fn copy(batches: &mut [Bytes]) {
    let mut memory = Bytes::from(batches.concat());
    for batch in batches {
        *batch = memory.split_to(batch.len());
    }
}

/// How many of the first frames stand one behind the other, and their bytes together: one at least.
fn span(frames: &[FrameBatches]) -> (usize, usize) {
    let (mut count, mut bytes) = (0, 0);
    for frame in frames {
        let (first, location) = (&frames[0].location, &frame.location);
        let follows = location.file_sequence == first.file_sequence
            && location.position == first.position + bytes as u64;
        let more = bytes + location.total_bytes as usize;
        if count > 0 && (!follows || more > SPAN_BYTES_MAX) {
            break;
        }
        (count, bytes) = (count + 1, more);
    }
    (count, bytes)
}
