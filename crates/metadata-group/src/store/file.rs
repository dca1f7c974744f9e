//! The log's file on a disk. A start reads it and makes a new one of what it held; so does whoever finds it full. Between, frames are written
//! behind the last one. All calls block.
//!
//! One write is under way at a time, and nothing in it was acknowledged. So a frame that does not hold is torn, and cut off, if no frame
//! stands behind it; else it is damage, and never skipped.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use planted::{Bug, planted};
use platform::disk::{BLOCK_BYTES, Disk, File};
use platform::memory::AlignedBuffer;

use super::frame::{FRAME_HEADER_BYTES, FileHeader, FrameHeader, FrameIdentity, HeaderFault, whole_blocks};
use super::log::{Log, Record};
use super::open::StoreError;
use crate::GroupIdentity;
use crate::codec::Malformed;

/// Where the log is, and whose it is.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) path: PathBuf,
    pub(super) identity: GroupIdentity,
}

/// An open file, written up to `position`.
pub(super) struct LogFile {
    pub(super) file: Arc<dyn File>,
    identity: FrameIdentity,
    length: u64,
    position: u64,
    /// That of the next frame.
    sequence: u64,
}

/// A file that holds these records alone, in one frame, with room behind it.
pub(super) struct NewFile {
    salt: u64,
    sequence: u64,
    body: Vec<u8>,
    length_min: u64,
}

impl NewFile {
    /// The file of a log.
    pub(super) fn of(log: &Log, salt: u64, sequence: u64, length_min: u64) -> NewFile {
        let mut body = Vec::with_capacity(log.bytes());
        log.records().for_each(|record| record.put(&mut body));
        NewFile {
            salt,
            sequence,
            body,
            length_min,
        }
    }

    /// Puts it in the place of the one before. Durable on return; after a crash either is there, whole.
    pub(super) fn write(self, place: &Place) -> io::Result<LogFile> {
        let identity = FrameIdentity {
            group: place.identity,
            salt: self.salt,
        };
        let header = FileHeader {
            salt: self.salt,
            first: self.sequence,
        };
        let mut content = header.encode(&place.identity);
        let mut frame = vec![0; FRAME_HEADER_BYTES];
        frame.extend_from_slice(&self.body);
        FrameHeader::complete(&mut frame, &identity, self.sequence);
        content.extend_from_slice(&frame);
        let position = content.len() as u64;
        // As much again as is there, so that a file lasts a while.
        let length = self
            .length_min
            .max(2 * position)
            .next_multiple_of(BLOCK_BYTES as u64);
        content.resize(length as usize, 0);
        place.disk.replace(&place.path, &content)?;
        Ok(LogFile {
            file: place.disk.open(&place.path)?,
            identity,
            length,
            position,
            sequence: self.sequence + 1,
        })
    }
}

impl LogFile {
    /// How many bytes a frame of such a body takes.
    pub(super) fn frame_bytes(body_bytes: usize) -> u64 {
        whole_blocks(FRAME_HEADER_BYTES + body_bytes) as u64
    }

    /// Says whether one more frame has room.
    pub(super) fn has_room(&self, body_bytes: usize) -> bool {
        self.position + LogFile::frame_bytes(body_bytes) <= self.length
    }

    pub(super) fn next_sequence(&self) -> u64 {
        self.sequence
    }

    /// Takes the next frame: where it goes, and its bytes. The caller writes it, or never writes again.
    pub(super) fn next_frame(&mut self, body: &[u8]) -> (u64, AlignedBuffer) {
        let mut frame = vec![0; FRAME_HEADER_BYTES];
        frame.extend_from_slice(body);
        FrameHeader::complete(&mut frame, &self.identity, self.sequence);
        let mut aligned = AlignedBuffer::zeroed(frame.len());
        aligned.as_mut_slice().copy_from_slice(&frame);
        let position = self.position;
        self.position += frame.len() as u64;
        self.sequence += 1;
        assert!(self.position <= self.length, "there was room");
        (position, aligned)
    }
}

/// What a file holds.
pub(super) struct Read {
    pub(super) log: Log,
    /// That of the next frame.
    pub(super) sequence: u64,
}

impl Read {
    /// Reads the file, and the log in it.
    pub(super) fn of(place: &Place) -> Result<Read, StoreError> {
        let path = place.path.as_path();
        let file = place.disk.open(path).map_err(|error| failed(path, error))?;
        let length = file.length().map_err(|error| failed(path, error))?;
        if length < BLOCK_BYTES as u64 {
            return Err(damaged(path, 0, "the file has no header"));
        }
        let block = file.read(0, BLOCK_BYTES).map_err(|error| failed(path, error))?;
        let header = FileHeader::decode(&block, &place.identity).map_err(|fault| match fault {
            HeaderFault::Invalid => damaged(path, 0, "the file's header is damaged, or another node's"),
            HeaderFault::UnknownVersion(version) => StoreError::UnknownVersion {
                path: path.to_owned(),
                version,
            },
        })?;
        let scan = Scan {
            path,
            file: &*file,
            identity: FrameIdentity {
                group: place.identity,
                salt: header.salt,
            },
            length,
            position: BLOCK_BYTES as u64,
            sequence: header.first,
        };
        scan.read_all(header.first)
    }
}

/// The way through a file, from frame to frame.
struct Scan<'a> {
    path: &'a Path,
    file: &'a dyn File,
    identity: FrameIdentity,
    length: u64,
    position: u64,
    sequence: u64,
}

impl Scan<'_> {
    fn read_all(mut self, first: u64) -> Result<Read, StoreError> {
        let mut log = Log::default();
        while let Some(body) = self.next_body()? {
            let damaged = |error: Malformed| damaged(self.path, self.position, error.0);
            for record in Record::read_all(body.clone()).map_err(damaged)? {
                log.apply(record).map_err(damaged)?;
            }
            self.position += LogFile::frame_bytes(body.len());
            self.sequence += 1;
        }
        if self.sequence == first {
            return Err(damaged(self.path, self.position, "the first frame is damaged"));
        }
        self.refuse_frames_behind()?;
        Ok(Read {
            log,
            sequence: self.sequence,
        })
    }

    /// The body of the next frame; `None` if there is none that holds.
    fn next_body(&self) -> Result<Option<Bytes>, StoreError> {
        let Some(header) = self.header_at(self.position)? else {
            return Ok(None);
        };
        if header.sequence != self.sequence || self.position + header.frame_bytes() as u64 > self.length {
            return Ok(None);
        }
        let begin = self.position + FRAME_HEADER_BYTES as u64;
        let body = self.file.read(begin, header.body_bytes as usize);
        let body = body.map_err(|error| failed(self.path, error))?;
        let holds = header.body_holds(&body, &self.identity) || planted(Bug::MetadataTornTailKept);
        Ok(holds.then_some(body))
    }

    fn header_at(&self, position: u64) -> Result<Option<FrameHeader>, StoreError> {
        if position + BLOCK_BYTES as u64 > self.length {
            return Ok(None);
        }
        let read = self.file.read(position, FRAME_HEADER_BYTES);
        let bytes = read.map_err(|error| failed(self.path, error))?;
        Ok(FrameHeader::decode(&bytes, &self.identity))
    }

    /// That the log ends here: a frame further on was written after the one here had been durable.
    fn refuse_frames_behind(&self) -> Result<(), StoreError> {
        let behind = self.position + BLOCK_BYTES as u64;
        for position in (behind..self.length).step_by(BLOCK_BYTES) {
            let found = self.header_at(position)?;
            if found.is_some_and(|header| header.sequence > self.sequence) {
                return Err(damaged(
                    self.path,
                    self.position,
                    "a frame is damaged, and others follow it",
                ));
            }
        }
        Ok(())
    }
}

pub(super) fn failed(path: &Path, error: io::Error) -> StoreError {
    StoreError::Failed {
        path: path.to_owned(),
        error,
    }
}

pub(super) fn damaged(path: &Path, position: u64, why: &'static str) -> StoreError {
    StoreError::Damaged {
        path: path.to_owned(),
        position,
        why,
    }
}
