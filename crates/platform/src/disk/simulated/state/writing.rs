//! Writes, syncs and fills of a file's content: as far as there is room, and as the plan of
//! faults says.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::super::change::{ContentChange, Effect, Entry, FileId, Standing};
use super::super::content::Content;
use super::super::faults::{Applied, NO_SPACE, OperationKind, Verdict};
use super::{About, State, answer};
use crate::disk::{BLOCK_BYTES, not_to_shrink};

const BLOCK: u64 = BLOCK_BYTES as u64;
/// The capacity that a disk without a set one claims.
const UNLIMITED_BYTES: u64 = 1 << 40;

impl State {
    /// Writes whole blocks or, for a small file, any bytes at position 0.
    pub(in crate::disk::simulated) fn write(
        &mut self,
        file: FileId,
        about: About<'_>,
        bytes: &Bytes,
    ) -> io::Result<()> {
        let half = bytes.len() / BLOCK_BYTES / 2 * BLOCK_BYTES;
        match self
            .faults
            .judge(about.kind, about.path, about.position, about.length)
        {
            Verdict::Go => self.write_where_room(file, about, bytes.clone()),
            Verdict::Short => {
                self.write_where_room(file, about, bytes.slice(..half))?;
                let rest = About {
                    position: about.position + half as u64,
                    ..about
                };
                self.write_where_room(file, rest, bytes.slice(half..))
            }
            Verdict::Fail { errno, applied } => {
                let taken = match applied {
                    Applied::Nothing => 0,
                    Applied::Part => half,
                    Applied::All => bytes.len(),
                };
                self.write_as(file, about, bytes.slice(..taken), Standing::Doubtful);
                Err(io::Error::from_raw_os_error(errno))
            }
        }
    }

    /// Writes the leading blocks for which there is room; ENOSPC if that is not all.
    fn write_where_room(&mut self, file: FileId, about: About<'_>, bytes: Bytes) -> io::Result<()> {
        let fitting = self.fitting(file, about.position, bytes.len());
        if fitting == bytes.len() {
            let durable = about.kind == OperationKind::WriteDurable;
            let standing = if durable {
                Standing::Durable
            } else {
                Standing::Pending
            };
            self.write_as(file, about, bytes, standing);
            return Ok(());
        }
        self.write_as(file, about, bytes.slice(..fitting), Standing::Pending);
        Err(io::Error::from_raw_os_error(NO_SPACE))
    }

    fn write_as(&mut self, file: FileId, about: About<'_>, bytes: Bytes, standing: Standing) {
        if bytes.is_empty() {
            return;
        }
        let about = About {
            length: bytes.len() as u64,
            ..about
        };
        let change = ContentChange::Write {
            position: about.position,
            bytes,
        };
        self.perform(
            about,
            vec![Effect::Content {
                file,
                change,
                standing,
            }],
        );
    }

    pub(in crate::disk::simulated) fn sync(&mut self, file: FileId, path: &Path) -> io::Result<()> {
        let about = About::whole(OperationKind::Sync, path);
        let verdict = self.faults.judge(about.kind, path, 0, 0);
        let failed = matches!(verdict, Verdict::Fail { .. });
        self.perform(
            about,
            vec![if failed {
                Effect::FailSync { file }
            } else {
                Effect::SyncFile { file }
            }],
        );
        answer(verdict)
    }

    /// Only of a file that no crash brings back: then what a crash would leave of it is nobody's concern.
    pub(in crate::disk::simulated) fn shrink_unnamed(
        &mut self,
        file: FileId,
        path: &Path,
        length: u64,
    ) -> io::Result<()> {
        let about = About {
            kind: OperationKind::ShrinkUnnamed,
            path,
            position: 0,
            length,
        };
        let verdict = self.faults.judge(about.kind, path, 0, length);
        if self.model.may_be_named(file) || self.content(file).length() < length {
            return Err(not_to_shrink(length));
        }
        let is_refused = matches!(
            verdict,
            Verdict::Fail {
                applied: Applied::Nothing,
                ..
            }
        );
        if !is_refused {
            let mut content = Content::clone(&self.content(file));
            content.set_length(length);
            let content = Arc::new(content);
            self.perform(about, vec![Effect::Overwrite { file, content }]);
        }
        answer(verdict)
    }

    pub(in crate::disk::simulated) fn fill_with_zeros(
        &mut self,
        file: FileId,
        path: &Path,
        length: u64,
    ) -> io::Result<()> {
        let about = About {
            kind: OperationKind::FillWithZeros,
            path,
            position: 0,
            length,
        };
        let verdict = self.faults.judge(about.kind, path, 0, length);
        let zeros = |length: u64, standing: Standing| {
            let change = ContentChange::Zeros { position: 0, length };
            Effect::Content {
                file,
                change,
                standing,
            }
        };
        match verdict {
            Verdict::Go | Verdict::Short => {
                if self.fitting(file, 0, length as usize) < length as usize {
                    return Err(io::Error::from_raw_os_error(NO_SPACE));
                }
                self.perform(
                    about,
                    vec![zeros(length, Standing::Pending), Effect::SyncFile { file }],
                );
            }
            Verdict::Fail {
                applied: Applied::Nothing,
                ..
            } => {}
            Verdict::Fail {
                applied: Applied::Part,
                ..
            } => {
                let half = length / BLOCK / 2 * BLOCK;
                self.perform(about, vec![zeros(half, Standing::Doubtful)]);
            }
            Verdict::Fail {
                applied: Applied::All,
                ..
            } => {
                self.perform(
                    about,
                    vec![zeros(length, Standing::Pending), Effect::FailSync { file }],
                );
            }
        }
        answer(verdict)
    }

    /// The number of leading bytes of a write that find room.
    fn fitting(&self, file: FileId, position: u64, length: usize) -> usize {
        if self.capacity.is_none() && !self.faults.full {
            return length;
        }
        let mut free = self.free_bytes();
        let content = self.contents.get(&file);
        let mut fitting = 0;
        while fitting < length {
            if content.is_none_or(|content| content.needs_room(position + fitting as u64)) {
                if free < BLOCK {
                    return fitting;
                }
                free -= BLOCK;
            }
            fitting += BLOCK_BYTES;
        }
        length
    }

    pub(in crate::disk::simulated) fn free_bytes(&self) -> u64 {
        if self.faults.full {
            return 0;
        }
        let files = self.names.values().filter_map(|entry| match entry {
            Entry::File(file) => self.contents.get(file),
            Entry::Directory(_) => None,
        });
        let used: u64 = files.map(|content| content.allocated_bytes()).sum();
        self.total_bytes().saturating_sub(used)
    }

    pub(in crate::disk::simulated) fn total_bytes(&self) -> u64 {
        self.capacity.unwrap_or(UNLIMITED_BYTES)
    }
}
