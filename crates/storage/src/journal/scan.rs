//! Reads a journal after a start or for a check: which frames count, and whether the end is a torn tail or damage.
//!
//! Only one flush is ever on its way, so at most the last frame can be torn, and it was never acknowledged: it is cut.
//! A bad frame with any later frame behind it cannot be a tear: later flushes began only when it was durable. That is
//! damage, reported with the file's name, never skipped.
//!
//! A journal that fell silent or was closed ends with a closing frame (`closing`), so damage in its last records shows.
//!
//! The limit of this: without a closing frame nothing behind the *last* frame proves that it was whole once. If it was
//! acknowledged within the second before a crash and more of it is damaged than a single bit (`mend`), it is taken for torn and
//! cut, unless the checkpoint's states know of its records. The same holds for the last file if it vanishes with its only
//! frames. Replicas close this gap; one disk cannot.

mod survey;
mod tail;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use planted::{Bug, planted};
use platform::disk::{BLOCK_BYTES, Disk, File};

use super::FrameLocation;
use super::files::{COMPLETE, FoundFiles, JournalFile, directory, file_name};
use super::frame::{
    Entry, FILE_HEADER_BYTES, FORMAT_VERSION, FRAME_HEADER_BYTES, FileHeader, FileHeaderError, FrameHeader,
    entries,
};
use crate::checksum::{FrameIdentity, JournalIdentity};
use crate::fault::{Doing, Fault};

pub(crate) use survey::survey;

/// Bytes that are read ahead at first, for most looks at a file find nothing, and at most; frames that are larger are read whole.
const WINDOW_BYTES_MIN: usize = 64 << 10;
const WINDOW_BYTES_MAX: usize = 1 << 20;
/// Sequences that no journal comes near; what is added to them never overflows.
const SEQUENCE_MAX: u64 = i64::MAX as u64;
/// Where a file's first frame stands.
const FIRST_FRAME: u64 = FILE_HEADER_BYTES as u64;

/// Where reading starts: the place of `frame`, the first one that segments do not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplayStart {
    pub(crate) file_sequence: u64,
    pub(crate) position: u64,
    pub(crate) frame: u64,
}

/// The findings of a scan.
#[derive(Default)]
pub(crate) struct Scanned {
    pub(crate) files: FoundFiles,
    /// All frames from the start, in order, without gaps.
    pub(crate) frames: Vec<FrameLocation>,
    /// The sequence of the next frame to be written.
    pub(crate) next_frame: u64,
    /// The last frame is a closing one.
    pub(crate) is_closed: bool,
    /// Bytes of a torn frame that was cut off; it was never acknowledged.
    pub(crate) cut_bytes: u64,
    /// The last frame as it should be, if a bit of it has turned on the disk.
    pub(crate) mended: Option<Bytes>,
}

/// Called with each frame that counts: its place, its bytes, its entries. An error message stops the scan as damage.
pub(crate) type Visit<'a> = dyn FnMut(&FrameLocation, &Bytes, &[Entry]) -> Result<(), String> + 'a;

/// Scans the journal from `start` (`None`: there is no checkpoint, so it must begin with frame 0). The files with `held`
/// numbers are segments, and none of its business. Changes nothing.
pub(crate) fn scan(
    disk: &Arc<dyn Disk>,
    identity: &JournalIdentity,
    start: Option<ReplayStart>,
    held: &BTreeSet<u32>,
    visit: &mut Visit<'_>,
) -> Result<Scanned, Fault> {
    let scan = Scan::new(disk, identity);
    let (free, waiting) = scan.files_from(start, held)?;
    let mut found = Scanned {
        next_frame: start.map_or(0, |start| start.frame),
        ..Scanned::default()
    };
    let idle = scan.follow(waiting, start, &mut found, visit)?;
    scan.refuse_later_frames(&idle, &found)?;
    let idle = scan.finish_tail(idle, &mut found, visit)?;
    found.files.free = free;
    found.files.free.extend(idle);
    found.files.held = held.iter().copied().collect();
    Ok(found)
}

struct Scan<'a> {
    disk: &'a Arc<dyn Disk>,
    identity: &'a JournalIdentity,
    directory: PathBuf,
}

impl<'a> Scan<'a> {
    fn new(disk: &'a Arc<dyn Disk>, identity: &'a JournalIdentity) -> Scan<'a> {
        Scan {
            disk,
            identity,
            directory: directory(identity),
        }
    }

    /// The files before the start, and those from it on: none of these may be missing.
    fn files_from(
        &self,
        start: Option<ReplayStart>,
        held: &BTreeSet<u32>,
    ) -> Result<(Vec<JournalFile>, Vec<JournalFile>), Fault> {
        let mut files = self.open_files(held)?;
        let first_sequence = start.map_or(0, |start| start.file_sequence);
        let from = files.partition_point(|file| file.sequence < first_sequence);
        let waiting = files.split_off(from);
        self.refuse_lost_files(&waiting, start)?;
        Ok((files, waiting))
    }

    /// Of a file, or with no name of the directory.
    fn path(&self, name: &str) -> String {
        let directory = self.disk.root().join(&self.directory);
        let path = if name.is_empty() {
            directory
        } else {
            directory.join(name)
        };
        path.display().to_string()
    }

    fn damaged(&self, name: &str, position: u64, what: String) -> Fault {
        Fault::Damaged {
            file: self.path(name),
            position,
            what,
        }
    }

    fn failed(&self, doing: Doing, name: &str, error: io::Error) -> Fault {
        doing.failed(error).at(self.path(name))
    }

    /// All files but the held ones, in the order of their sequences.
    fn open_files(&self, held: &BTreeSet<u32>) -> Result<Vec<JournalFile>, Fault> {
        let names = self
            .disk
            .list(&self.directory)
            .map_err(|error| self.failed(Doing::Reading, "", error))?;
        let complete = names
            .into_iter()
            .filter(|name| Path::new(name).extension().is_some_and(|end| end == COMPLETE));
        let held: BTreeSet<String> = held.iter().map(|number| file_name(*number)).collect();
        let mut files = complete
            .filter(|name| !held.contains(name))
            .map(|name| self.open_file(name))
            .collect::<Result<Vec<_>, Fault>>()?;
        files.sort_by_key(|file| file.sequence);
        match files.windows(2).find(|pair| pair[0].sequence == pair[1].sequence) {
            Some(pair) => {
                let what = format!(
                    "it has sequence {}, as {} has: one is a copy",
                    pair[1].sequence, pair[0].name
                );
                Err(self.damaged(&pair[1].name, 0, what))
            }
            None => Ok(files),
        }
    }

    fn open_file(&self, name: String) -> Result<JournalFile, Fault> {
        let file = self
            .disk
            .open(&self.directory.join(&name))
            .map_err(|error| self.failed(Doing::Opening, &name, error))?;
        let length = file
            .length()
            .map_err(|error| self.failed(Doing::Reading, &name, error))?;
        let block = self.read(&*file, &name, 0, FILE_HEADER_BYTES.min(length as usize))?;
        match FileHeader::decode(&block, self.identity) {
            Ok(FileHeader {
                sequence,
                previous,
                file_bytes,
                salt,
            }) if file_bytes == length && sequence <= SEQUENCE_MAX => Ok(JournalFile {
                name,
                file,
                sequence,
                previous,
                salt,
                file_bytes,
                majority: None,
                is_shared: false,
            }),
            Ok(header) if header.sequence > SEQUENCE_MAX => {
                let what = format!("there is no sequence {}", header.sequence);
                Err(self.damaged(&name, 0, what))
            }
            Ok(header) => {
                let what = format!(
                    "it is {length} bytes long, but was made with {}",
                    header.file_bytes
                );
                Err(self.damaged(&name, length.min(header.file_bytes), what))
            }
            Err(FileHeaderError::UnknownVersion(version)) => Err(Fault::UnknownVersion {
                file: self.path(&name),
                version,
                known: FORMAT_VERSION,
            }),
            Err(FileHeaderError::UnknownFields) => {
                let what = "its header has fields that this version does not know: a newer one wrote it, or it is damaged";
                Err(self.damaged(&name, 0, what.into()))
            }
            Err(FileHeaderError::Invalid) => {
                Err(self.damaged(&name, 0, "its header is damaged, or another journal's".into()))
            }
        }
    }

    fn frames_of(&self, file: &JournalFile) -> FrameIdentity {
        FrameIdentity {
            journal: *self.identity,
            salt: file.salt,
        }
    }

    fn read(&self, file: &dyn File, name: &str, position: u64, length: usize) -> Result<Bytes, Fault> {
        file.read(position, length)
            .map_err(|error| self.failed(Doing::Reading, name, error))
    }

    /// Each file names the one before it; those from the start on must all be there.
    fn refuse_lost_files(&self, waiting: &[JournalFile], start: Option<ReplayStart>) -> Result<(), Fault> {
        let is_there = |sequence: u64| waiting.iter().any(|file| file.sequence == sequence);
        let missing =
            |sequence: u64| self.damaged("", 0, format!("the file with sequence {sequence} is missing"));
        if let Some(start) = start.filter(|start| !is_there(start.file_sequence)) {
            return Err(missing(start.file_sequence));
        }
        let first_sequence = start.map_or(1, |start| start.file_sequence);
        let behind_the_first = waiting.iter().filter(|file| file.sequence > first_sequence);
        let mut previous = behind_the_first
            .map(|file| file.previous)
            .filter(|previous| *previous >= first_sequence);
        previous
            .find(|previous| !is_there(*previous))
            .map_or(Ok(()), |lost| Err(missing(lost)))
    }

    /// Follows the frames from file to file; gives back the files that hold none of them.
    fn follow(
        &self,
        waiting: Vec<JournalFile>,
        start: Option<ReplayStart>,
        found: &mut Scanned,
        visit: &mut Visit<'_>,
    ) -> Result<Vec<JournalFile>, Fault> {
        let mut position = start.map_or(FIRST_FRAME, |start| start.position);
        let mut idle = Vec::new();
        if let Some(first) = waiting.first().filter(|first| position > first.file_bytes) {
            let what = format!(
                "frame {} should stand behind it, at byte {position}",
                found.next_frame
            );
            return Err(self.damaged(&first.name, first.file_bytes, what));
        }
        for file in waiting {
            let before = found.frames.len();
            let stopped = self.follow_file(&file, position, found, visit)?;
            position = FIRST_FRAME;
            // The first file is being written even if all its frames are released. Another without the next frame is
            // ready, or was never used because its preparation failed.
            if !found.files.used.is_empty() && found.frames.len() == before {
                idle.push(file);
                continue;
            }
            found.files.used.push(file);
            found.files.position = stopped;
        }
        Ok(idle)
    }

    /// Follows the frames of one file; returns the position after the last one.
    fn follow_file(
        &self,
        file: &JournalFile,
        mut position: u64,
        found: &mut Scanned,
        visit: &mut Visit<'_>,
    ) -> Result<u64, Fault> {
        let mut window = Window::default();
        while let Some((header, frame)) = self.frame_at(file, position, found.next_frame, &mut window)? {
            let location = self.take_frame(file, position, &header, &frame, visit)?;
            found.push(location, &header);
            position += frame.len() as u64;
        }
        Ok(position)
    }

    /// Hands a frame on to be looked into.
    fn take_frame(
        &self,
        file: &JournalFile,
        position: u64,
        header: &FrameHeader,
        frame: &Bytes,
        visit: &mut Visit<'_>,
    ) -> Result<FrameLocation, Fault> {
        let body = &frame[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + header.body_bytes as usize];
        let location = FrameLocation {
            file: file.file.clone(),
            file_sequence: file.sequence,
            salt: file.salt,
            frame_sequence: header.frame_sequence,
            position,
            total_bytes: frame.len() as u32,
        };
        let entries = entries(header, body).map_err(|what| {
            self.damaged(&file.name, position, format!("the frame cannot be read: {what}"))
        })?;
        visit(&location, frame, &entries).map_err(|what| self.damaged(&file.name, position, what))?;
        Ok(location)
    }

    /// The whole, undamaged frame `expected` at `position`, if it is there.
    fn frame_at(
        &self,
        file: &JournalFile,
        position: u64,
        expected: u64,
        window: &mut Window,
    ) -> Result<Option<(FrameHeader, Bytes)>, Fault> {
        let Some(block) = self.window(file, position, BLOCK_BYTES, window)? else {
            return Ok(None);
        };
        let Some(header) = FrameHeader::decode(&block, &self.frames_of(file)) else {
            return Ok(None);
        };
        let is_stale = header.file_sequence != file.sequence || header.frame_sequence != expected;
        if is_stale && !planted(Bug::StaleFrameAccepted) {
            return Ok(None);
        }
        let Some(frame) = self.window(file, position, header.frame_bytes(), window)? else {
            return Ok(None);
        };
        let body = &frame[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + header.body_bytes as usize];
        Ok(header
            .body_holds(body, &self.frames_of(file))
            .then_some((header, frame)))
    }

    /// `length` bytes at `position`, read ahead by the window; `None` beyond the file's end.
    fn window(
        &self,
        file: &JournalFile,
        position: u64,
        length: usize,
        window: &mut Window,
    ) -> Result<Option<Bytes>, Fault> {
        if position + length as u64 > file.file_bytes {
            return Ok(None);
        }
        if window.bytes.is_empty() || position < window.position || position + length as u64 > window.end() {
            let ahead = (4 * window.bytes.len()).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX);
            let wanted = ahead.max(length).min((file.file_bytes - position) as usize);
            *window = Window {
                position,
                bytes: self.read(&*file.file, &file.name, position, wanted)?,
            };
        }
        let start = (position - window.position) as usize;
        Ok(Some(window.bytes.slice(start..start + length)))
    }
}

impl Scanned {
    fn push(&mut self, frame: FrameLocation, header: &FrameHeader) {
        self.is_closed = header.entry_count == 0;
        self.frames.push(frame);
        self.next_frame += 1;
    }
}

/// Bytes read ahead from one file.
#[derive(Default)]
struct Window {
    position: u64,
    bytes: Bytes,
}

impl Window {
    fn end(&self) -> u64 {
        self.position + self.bytes.len() as u64
    }
}
