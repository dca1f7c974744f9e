//! The journal's files: one is written, the next is ready, the rest wait for layout or for reuse.
//!
//! A file is zero-filled once and then overwritten in place for ever, so that a durable write changes no file-system
//! metadata. Where records come faster than zeros, it is written to before it is filled. Its header carries a sequence that grows with every use; frames carry it too, so that what an earlier
//! use left behind is never taken for new. The sequence is written durably *before* the file's first frame.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use planted::{Bug, planted};
use platform::disk::{Disk, File};
use platform::random::Random;
use record::PartitionId;

use super::frame::{FILE_HEADER_BYTES, FileHeader};
use super::majority::Majority;
use super::{FrameLocation, JournalSizes, PrepareFile, Reserve};
use crate::checksum::JournalIdentity;

/// Files kept ready ahead of the one being written.
const READY_FILES: usize = 1;
/// The extension of a complete file; it has a good header.
pub(super) const COMPLETE: &str = "journal";

/// A journal file with its current use.
pub struct JournalFile {
    pub(crate) name: String,
    pub(crate) file: Arc<dyn File>,
    /// The sequence of its current use.
    pub(crate) sequence: u64,
    /// The sequence of the file before it.
    pub(crate) previous: u64,
    /// See `FrameIdentity`.
    pub(crate) salt: u64,
    /// Its size, which is not the configured one if that has changed since.
    pub(crate) file_bytes: u64,
    /// The partition that most of its bytes belong to, if one does, since it takes no more frames; not known after a start.
    pub(crate) majority: Option<PartitionId>,
    /// Others have bytes in it as well; not known likewise.
    pub(crate) is_shared: bool,
}

impl JournalFile {
    /// The number that names it; `None` if somebody else gave it its name.
    pub(super) fn number(&self) -> Option<u32> {
        number_of(&self.name).filter(|number| file_name(*number) == self.name)
    }
}

fn number_of(name: &str) -> Option<u32> {
    name.split('.').next()?.parse().ok()
}

/// The name of a complete file in the journal's directory.
pub(crate) fn file_name(number: u32) -> String {
    format!("{number:06}.{COMPLETE}")
}

/// The files that recovery found: those in use (the last one is written on at `position`), and those to be reused.
#[derive(Default)]
pub(crate) struct FoundFiles {
    pub(crate) used: Vec<JournalFile>,
    pub(crate) position: u64,
    pub(crate) free: Vec<JournalFile>,
    /// Those that an earlier checkpoint would need, where it is not sure that the one which was read is durable.
    held_back: Vec<JournalFile>,
    /// The numbers of files that are segments: their names are taken.
    pub(crate) held: Vec<u32>,
}

impl FoundFiles {
    /// Has the files before those in use wait for the next checkpoint.
    pub(crate) fn hold_back(&mut self) {
        let first = self.used.first().map_or(0, |file| file.sequence);
        let is_before = |file: &mut JournalFile| file.sequence < first;
        self.held_back.extend(self.free.extract_if(.., is_before));
    }
}

/// The room that is left for frames.
struct Room {
    /// Bytes left in the file that is being written.
    in_file: u64,
    ready_files: u64,
    /// Bytes in each of the ready files.
    file_room: u64,
}

impl Room {
    /// Takes the place of a frame; false if there is none.
    fn take(&mut self, bytes: u64) -> bool {
        if bytes > self.in_file {
            if self.ready_files == 0 || bytes > self.file_room {
                return false;
            }
            self.ready_files -= 1;
            self.in_file = self.file_room;
        }
        self.in_file -= bytes;
        true
    }

    fn bytes(&self) -> u64 {
        self.in_file + self.ready_files * self.file_room
    }
}

pub(crate) struct Files {
    disk: Arc<dyn Disk>,
    random: Random,
    directory: PathBuf,
    identity: JournalIdentity,
    sizes: JournalSizes,
    /// Files with frames that are not released, oldest first; the last one is being written.
    used: VecDeque<JournalFile>,
    /// Where the next frame goes in the file being written.
    position: u64,
    /// Bytes of all frames since the start.
    placed_bytes: u64,
    /// Where the next frame goes, for whoever prepares the next file; beyond any file's end while that is wanted at once.
    written: Arc<AtomicU64>,
    /// Whose bytes the file being written holds.
    majority: Majority,
    ready: VecDeque<JournalFile>,
    free: Vec<JournalFile>,
    /// Files that are free once a checkpoint is durable.
    held_back: Vec<JournalFile>,
    /// Files that the disk refused a header, or its removal: to be removed.
    unfit: Vec<JournalFile>,
    preparing: bool,
    next_sequence: u64,
    next_name: u32,
}

/// The directory of a journal's files.
pub(crate) fn directory(identity: &JournalIdentity) -> PathBuf {
    PathBuf::from(format!("journals/{:03}", identity.journal))
}

impl Files {
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        random: Random,
        identity: JournalIdentity,
        sizes: JournalSizes,
        found: FoundFiles,
    ) -> io::Result<Files> {
        let directory = directory(&identity);
        let all = found.used.iter().chain(&found.free).chain(&found.held_back);
        let next_sequence = all.clone().map(|file| file.sequence + 1).max().unwrap_or(1);
        let next_name = all
            .filter_map(|file| number_of(&file.name))
            .chain(found.held)
            .max();
        let mut files = Files {
            disk,
            random,
            directory,
            identity,
            sizes,
            used: found.used.into(),
            position: found.position,
            placed_bytes: 0,
            written: Arc::new(AtomicU64::new(found.position)),
            majority: Majority::default(),
            ready: VecDeque::new(),
            free: found.free,
            held_back: found.held_back,
            unfit: Vec::new(),
            preparing: false,
            next_sequence,
            next_name: next_name.map_or(0, |name| name + 1),
        };
        if files.used.is_empty() {
            files.prepare_now()?;
            assert!(files.activate(), "an empty journal may have at least one file");
            files.prepare_now()?;
        } else if let Err(error) = files.prepare_now() {
            // A full disk must not keep the node from starting: what is stored can be read, and laid out.
            tracing::warn!(%error, "no journal file is ready; appends wait for one");
        }
        Ok(files)
    }

    /// At start only, on the caller's thread. There may be no file to prepare: then layout will free one.
    fn prepare_now(&mut self) -> io::Result<()> {
        let Some(job) = self.next_preparation() else {
            return Ok(());
        };
        let file = job.run();
        self.prepared(job, file)
    }

    fn activate(&mut self) -> bool {
        let Some(next) = self.ready.pop_front() else {
            return false;
        };
        assert!(
            self.used.back().is_none_or(|last| last.sequence < next.sequence),
            "file sequences only grow"
        );
        let majority = self.dominated().map(|(partition, _)| partition);
        if let Some(complete) = self.used.back_mut() {
            complete.majority = majority;
            complete.is_shared = self.majority.is_shared();
        }
        self.used.push_back(next);
        self.position = FILE_HEADER_BYTES as u64;
        self.written.store(self.position, Ordering::Relaxed);
        self.majority = Majority::default();
        true
    }

    /// The largest frame that an empty file can take.
    fn file_room(&self) -> u64 {
        self.sizes.file_bytes - FILE_HEADER_BYTES as u64
    }

    /// The largest frame of an entry that leaves so much of the reserve.
    pub(super) fn frame_bytes_max(&self, reserve: Reserve) -> u64 {
        self.file_room() - self.sizes.kept_bytes(reserve)
    }

    /// Where the next frame will go, if it fits: (file sequence, position).
    pub(super) fn next_place(&self) -> (u64, u64) {
        let active = self.used.back().expect("one file is always being written");
        (active.sequence, self.position)
    }

    /// Says whether a frame of `total_bytes` has a place now.
    pub(super) fn has_place(&self, total_bytes: u64, reserve: Reserve) -> bool {
        self.has_place_after(0, total_bytes, reserve)
    }

    /// Says whether a frame of `total_bytes` has a place when one of `earlier_bytes` has taken its. Places that are left then must
    /// hold what is kept of the reserve.
    pub(super) fn has_place_after(&self, earlier_bytes: u64, total_bytes: u64, reserve: Reserve) -> bool {
        let mut room = Room {
            in_file: self.active().file_bytes - self.position,
            ready_files: self.ready.len() as u64,
            file_room: self.file_room(),
        };
        let has_place = [earlier_bytes, total_bytes]
            .into_iter()
            .all(|bytes| room.take(bytes));
        has_place && room.bytes() >= self.sizes.kept_bytes(reserve)
    }

    /// Has the next file ready as soon as may be: it is not filled any further.
    pub(super) fn hurry_preparation(&self) {
        self.written.store(u64::MAX, Ordering::Relaxed);
    }

    /// Says whether the next file is being prepared.
    pub(super) fn is_preparing(&self) -> bool {
        self.preparing
    }

    /// The file being written.
    fn active(&self) -> &JournalFile {
        self.used.back().expect("one file is always being written")
    }

    /// The file being written and the partition that most of its bytes belong to, if one does.
    pub(super) fn dominated(&self) -> Option<(PartitionId, &JournalFile)> {
        let written = self.position.saturating_sub(FILE_HEADER_BYTES as u64);
        let active = self.used.back()?;
        self.majority.of(written).map(|partition| (partition, active))
    }

    /// A file that holds frames and takes no more.
    pub(super) fn complete(&self, sequence: u64) -> Option<&JournalFile> {
        self.used
            .iter()
            .rev()
            .skip(1)
            .find(|file| file.sequence == sequence)
    }

    /// The sequence of the oldest file that is not released.
    pub(super) fn oldest(&self) -> u64 {
        self.used
            .front()
            .expect("one file is always being written")
            .sequence
    }

    /// Says whether a file holds frames that are not released.
    pub(super) fn is_used(&self, sequence: u64) -> bool {
        self.used.iter().any(|file| file.sequence == sequence)
    }

    /// Gives `frame` of `total_bytes` its place, moving on to the next file if need be; `majority` says whose bytes it holds.
    /// The caller has asked `has_place`.
    pub(super) fn place(&mut self, total_bytes: u64, frame: u64, majority: Majority) -> FrameLocation {
        let active = self.used.back().expect("one file is always being written");
        if self.position + total_bytes > active.file_bytes {
            assert!(self.activate(), "a frame is not built unless it has a place");
        }
        let active = self.used.back().expect("one file is always being written");
        assert!(
            self.position + total_bytes <= active.file_bytes,
            "a frame lies within its file"
        );
        let position = self.position;
        self.position += total_bytes;
        self.placed_bytes += total_bytes;
        self.written.store(self.position, Ordering::Relaxed);
        self.majority.merge(majority);
        let active = self.active();
        FrameLocation {
            file: active.file.clone(),
            file_sequence: active.sequence,
            salt: active.salt,
            frame_sequence: frame,
            position,
            total_bytes: u32::try_from(total_bytes).expect("a frame is far smaller than 4 GiB"),
        }
    }

    /// Frees the files before the one with `file_sequence`, which recovery will begin with from now on. Those that are
    /// `adopted` are segments now.
    pub(super) fn release_before(&mut self, file_sequence: u64, adopted: &BTreeSet<u64>) {
        self.release_held_back();
        while self.used.len() > 1 && self.used[0].sequence < file_sequence {
            let file = self.used.pop_front().expect("there are two");
            if !adopted.contains(&file.sequence) || planted(Bug::AdoptedFileReused) {
                self.free.push(file);
            }
        }
    }

    /// A checkpoint is durable: no earlier one needs anything any more.
    pub(super) fn release_held_back(&mut self) {
        self.free.append(&mut self.held_back);
    }

    pub(super) fn next_preparation(&mut self) -> Option<PrepareFile> {
        if self.preparing || self.ready.len() >= READY_FILES {
            return None;
        }
        let free = self.free.pop();
        if free.is_none() && !self.has_room_for(1) {
            return None;
        }
        let name = free
            .as_ref()
            .map_or_else(|| self.new_name(), |file| file.name.clone());
        // A file left from a configuration with another size is made anew under its name.
        let existing = free.filter(|file| file.file_bytes == self.sizes.file_bytes);
        self.preparing = true;
        self.next_sequence += 1;
        let before = self.ready.back().or(self.used.back());
        let header = FileHeader {
            sequence: self.next_sequence - 1,
            previous: before.map_or(0, |file| file.sequence),
            file_bytes: self.sizes.file_bytes,
            salt: u64::from_le_bytes(self.random.bytes()),
        };
        Some(PrepareFile {
            disk: self.disk.clone(),
            directory: self.directory.clone(),
            identity: self.identity,
            header,
            name,
            existing,
            written: self.written.clone(),
        })
    }

    fn new_name(&mut self) -> String {
        self.next_name += 1;
        file_name(self.next_name - 1)
    }

    pub(super) fn prepared(&mut self, job: PrepareFile, result: io::Result<JournalFile>) -> io::Result<()> {
        assert!(self.preparing, "a preparation ends once");
        self.preparing = false;
        let file = result.map_err(|error| {
            let path = self.disk.root().join(&job.directory).join(&job.name);
            io::Error::new(
                error.kind(),
                format!("preparing {} failed: {error}", path.display()),
            )
        });
        if file.is_err() && job.existing.is_none() && job.name == file_name(self.next_name.saturating_sub(1))
        {
            // Nothing has that name: what could not be completed was removed again.
            self.next_name -= 1;
        }
        if file.is_err() && !planted(Bug::UnfitFileForgotten) {
            // Its header may be either one now, or half of each. A write that failed is not repeated: another file is tried.
            self.unfit.extend(job.existing);
        }
        self.ready.push_back(file?);
        Ok(())
    }

    /// Says whether the journal may have so many more files than it has on the disk.
    pub(super) fn has_room_for(&self, more: usize) -> bool {
        let at_hand = self.used.len() + self.ready.len() + usize::from(self.preparing);
        let others = self.free.len() + self.held_back.len() + self.unfit.len();
        at_hand + others + more <= self.sizes.files_max || planted(Bug::JournalOutgrown)
    }

    /// Says whether a file of that size could be one of the journal's.
    pub(super) fn fits(&self, file_bytes: u64) -> bool {
        file_bytes == self.sizes.file_bytes
    }

    /// Takes a file to be used again. Nothing may need what is in it, and no checkpoint may name it.
    pub(super) fn take_back(&mut self, file: JournalFile) {
        self.free.push(file);
    }

    /// A file that the journal has no use of and that is to be removed: unfit, or more than it may have (after a start with
    /// smaller sizes, or because it made new ones while others were on their way back). A crash before that leaves a free file.
    pub(super) fn take_surplus(&mut self) -> Option<JournalFile> {
        let unfit = self.unfit.pop();
        unfit.or_else(|| {
            if self.has_room_for(0) {
                None
            } else {
                self.free.pop()
            }
        })
    }

    /// Takes back a file that could not be removed.
    pub(super) fn not_removed(&mut self, file: JournalFile) {
        self.unfit.push(file);
    }

    /// The names of all its files, but for one that is being prepared.
    #[cfg(test)]
    pub(super) fn names(&self) -> Vec<String> {
        let files = self.used.iter().chain(&self.ready);
        let files = files.chain(&self.free).chain(&self.held_back).chain(&self.unfit);
        files.map(|file| file.name.clone()).collect()
    }

    /// The name of a file that holds frames.
    pub(super) fn name_of(&self, sequence: u64) -> Option<String> {
        let file = self.used.iter().find(|file| file.sequence == sequence)?;
        Some(file.name.clone())
    }

    pub(super) fn placed_bytes(&self) -> u64 {
        self.placed_bytes
    }

    pub(super) fn occupied_bytes(&self) -> (u64, u64) {
        let full: u64 = self.used.iter().rev().skip(1).map(|file| file.file_bytes).sum();
        (
            full + self.position,
            self.sizes.files_max as u64 * self.sizes.file_bytes,
        )
    }
}
