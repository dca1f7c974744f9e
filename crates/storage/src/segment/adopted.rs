//! A journal file as a segment: when nearly all of a file is one partition's, its bytes are not written a second time.
//!
//! The file stays where it is and as it is, in frames with entries of other partitions among them; the segment's own file
//! holds the index alone. A chunk of such a segment is a run of whole frames, and is checked by what checked them in the
//! journal: each frame's own checksum, which knows the journal, the file's use and the frame's place. Pure but for opening.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use platform::disk::{Disk, File};
use record::PartitionId;

use super::Chunk;
use super::piece::Stretch;
use crate::checksum::{FrameIdentity, JournalIdentity};
use crate::fault::{Doing, Fault};
use crate::journal::frame::{FRAME_HEADER_BYTES, FrameHeader, entries};
use crate::journal::{directory, file_name};

/// The journal file that a segment adopted. The checkpoint keeps it; the journal has no use of it any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AdoptedFile {
    /// It names the file.
    pub(crate) number: u32,
    /// Of its last use as a journal file.
    pub(crate) sequence: u64,
    /// See `FrameIdentity`.
    pub(crate) salt: u64,
    /// Its size.
    pub(crate) bytes: u64,
}

impl AdoptedFile {
    /// Where it is, in the data directory.
    pub(crate) fn path(&self, journal: &JournalIdentity) -> PathBuf {
        directory(journal).join(file_name(self.number))
    }
}

/// An adopted file, open, and what identifies its frames.
#[derive(Clone)]
pub(crate) struct AdoptedFrames {
    pub(super) file: Arc<dyn File>,
    /// For messages.
    pub(super) path: String,
    partition: PartitionId,
    identity: FrameIdentity,
    sequence: u64,
}

impl AdoptedFrames {
    /// Opens the file.
    ///
    /// # Errors
    /// `Damaged` if it is missing, `Disk` for all else.
    pub(super) fn open(
        disk: &Arc<dyn Disk>,
        journal: &JournalIdentity,
        partition: &PartitionId,
        adopted: &AdoptedFile,
    ) -> Result<AdoptedFrames, Fault> {
        let relative = adopted.path(journal);
        let path = disk.root().join(&relative).display().to_string();
        match disk.open(&relative) {
            Ok(file) => Ok(AdoptedFrames {
                file,
                path,
                partition: *partition,
                identity: FrameIdentity {
                    journal: *journal,
                    salt: adopted.salt,
                },
                sequence: adopted.sequence,
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Fault::Damaged {
                file: path,
                position: 0,
                what: "the file is missing".into(),
            }),
            Err(error) => Err(Doing::Opening.failed(error).at(path)),
        }
    }

    /// Adds the partition's batches out of the frames of `chunk`, whose bytes these are, to `found`.
    ///
    /// # Errors
    /// `Damaged` if a frame does not match its checksum, or the batches are not those that the index names.
    pub(super) fn take_batches(
        &self,
        chunk: &Chunk,
        frames: &Bytes,
        found: &mut Vec<Stretch>,
    ) -> Result<(), Fault> {
        let (mut at, mut next) = (0, chunk.first);
        while at < frames.len() {
            let length = self
                .take_frame(chunk, &frames.slice(at..), &mut next, found)
                .ok_or_else(|| {
                    self.damaged(chunk.position + at as u64, "a frame does not match its checksum")
                })?;
            at += length;
        }
        if next != chunk.next {
            return Err(self.damaged(chunk.position, "other batches are there than the index names"));
        }
        Ok(())
    }

    /// Takes the batches of `chunk` that the first of `frames` holds; returns the frame's length.
    fn take_frame(
        &self,
        chunk: &Chunk,
        frames: &Bytes,
        next: &mut i64,
        found: &mut Vec<Stretch>,
    ) -> Option<usize> {
        let header = FrameHeader::decode(frames, &self.identity)?;
        let length = header.frame_bytes();
        let body = frames.get(FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + header.body_bytes as usize)?;
        if header.file_sequence != self.sequence
            || length > frames.len()
            || !header.body_holds(body, &self.identity)
        {
            return None;
        }
        for entry in entries(&header, body).ok()? {
            let is_wanted = entry.header.kind.is_batch()
                && entry.header.partition == self.partition
                && entry.header.first.0 == *next
                && entry.header.next.0 <= chunk.next;
            if is_wanted {
                let start = entry.payload_start;
                *next = entry.header.next.0;
                found.push(Stretch {
                    next: *next,
                    content: frames.slice(start..start + entry.header.payload_bytes as usize),
                });
            }
        }
        Some(length)
    }

    fn damaged(&self, position: u64, what: &str) -> Fault {
        Fault::Damaged {
            file: self.path.clone(),
            position,
            what: what.to_string(),
        }
    }
}
