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
#[derive(Debug)]
pub(crate) enum RereadError {
    /// Of the file of that sequence.
    Disk { file: u64, error: io::Error },
    /// Another frame stands where this one should, or a damaged one. Whether the file was rightly reused, the journal knows.
    NotThere(MissingFrame),
}

/// A frame that is not where it should be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MissingFrame {
    /// The file's sequence.
    pub(crate) file: u64,
    pub(crate) frame: u64,
    /// In the file, in bytes.
    pub(crate) position: u64,
}

/// Frames that stand one behind the other are read together, up to so many bytes: a read of the disk costs as much for one small
/// frame as for many.
pub(crate) const SPAN_BYTES_MAX: usize = 256 << 10;
/// Of a read at least this part is shared; less is copied.
const SHARED_PART: usize = 2;

impl FrameBatches {
    /// The batches of all these frames, in order, with as few reads as their places allow. Blocks.
    pub(crate) fn read_all(
        frames: &[FrameBatches],
        journal: &JournalIdentity,
    ) -> Result<Vec<Bytes>, RereadError> {
        let mut batches = Vec::new();
        for span in spans(frames) {
            let batches_before = batches.len();
            let mut read_bytes = 0;
            for (frame, bytes) in span.iter().zip(read_span(span, journal)?) {
                read_bytes += bytes.len();
                batches.extend(frame.slices(&bytes));
            }
            let found = &mut batches[batches_before..];
            if found.iter().map(Bytes::len).sum::<usize>() < read_bytes / SHARED_PART {
                copy(found);
            }
        }
        Ok(batches)
    }

    /// The frames themselves, in order, read in the same way. Blocks.
    pub(crate) fn read_frames(
        frames: &[FrameBatches],
        journal: &JournalIdentity,
    ) -> Result<Vec<Bytes>, RereadError> {
        let mut read = Vec::with_capacity(frames.len());
        for span in spans(frames) {
            read.extend(read_span(span, journal)?);
        }
        Ok(read)
    }

    /// That these bytes are the frame.
    fn check(&self, frame: &Bytes, journal: &JournalIdentity) -> Result<(), RereadError> {
        let location = &self.location;
        let identity = &FrameIdentity {
            journal: *journal,
            salt: location.salt,
        };
        let header = FrameHeader::decode(frame, identity).ok_or_else(|| self.not_there())?;
        let is_the_one = header.file_sequence == location.file_sequence
            && header.frame_sequence == location.frame_sequence
            && header.frame_bytes() == frame.len()
            && header.body_holds(
                &frame[FRAME_HEADER_BYTES..][..header.body_bytes as usize],
                identity,
            );
        is_the_one.then_some(()).ok_or_else(|| self.not_there())
    }

    fn not_there(&self) -> RereadError {
        RereadError::NotThere(MissingFrame {
            file: self.location.file_sequence,
            frame: self.location.frame_sequence,
            position: self.location.position,
        })
    }

    /// The batches in the frame.
    pub(crate) fn slices(&self, frame: &Bytes) -> impl Iterator<Item = Bytes> {
        let ranges = self.ranges.iter();
        ranges.map(|(start, length)| frame.slice(*start as usize..(start + length) as usize))
    }

    /// Says whether most of the frame is other batches than these.
    pub(crate) fn are_the_lesser_part(&self) -> bool {
        let bytes: u64 = self.ranges.iter().map(|(_, length)| u64::from(*length)).sum();
        bytes < u64::from(self.location.total_bytes) / SHARED_PART as u64
    }
}

/// The frames in groups that are read at once.
fn spans(mut frames: &[FrameBatches]) -> impl Iterator<Item = &[FrameBatches]> {
    std::iter::from_fn(move || {
        let (span, behind) = frames.split_at(span_length(frames));
        frames = behind;
        (!span.is_empty()).then_some(span)
    })
}

/// Reads frames that stand one behind the other, and checks each.
fn read_span(span: &[FrameBatches], journal: &JournalIdentity) -> Result<Vec<Bytes>, RereadError> {
    let first = &span[0];
    let bytes = span.iter().map(|frame| frame.location.total_bytes as usize).sum();
    let read = first.location.file.read(first.location.position, bytes);
    let mut read = read.map_err(|error| match error.kind() {
        // A file that is removed meanwhile gets shorter.
        io::ErrorKind::UnexpectedEof => first.not_there(),
        _ => RereadError::Disk {
            file: first.location.file_sequence,
            error,
        },
    })?;
    let frames = span.iter().map(|frame| {
        let bytes = read.split_to(frame.location.total_bytes as usize);
        frame.check(&bytes, journal).map(|()| bytes)
    });
    frames.collect()
}

/// Puts the batches into one memory of just their size.
fn copy(batches: &mut [Bytes]) {
    let mut memory = Bytes::from(batches.concat());
    for batch in batches {
        *batch = memory.split_to(batch.len());
    }
}

/// The number of first frames that stand one behind the other and are not too much to read together: one at least, if there is one.
fn span_length(frames: &[FrameBatches]) -> usize {
    let (mut count, mut bytes) = (0, 0);
    for frame in frames {
        let (first, location) = (&frames[0].location, &frame.location);
        let follows = location.file_sequence == first.file_sequence
            && location.position == first.position + bytes as u64;
        bytes += location.total_bytes as usize;
        if count > 0 && (!follows || bytes > SPAN_BYTES_MAX) {
            break;
        }
        count += 1;
    }
    count
}
