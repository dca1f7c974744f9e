//! Opens a journal behind what a scan has found of it, or makes a new one: from here on the directory is written to.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use planted::{Bug, planted};
use platform::disk::Disk;
use platform::memory::{MemoryPool, Pages};
use platform::random::Random;

use super::frame::FILE_HEADER_BYTES;
use super::majority::Majority;
use super::{Files, FrameLocation, FrameRecord, Journal, JournalSizes, Scanned, directory};
use crate::checkpoint::CHECKPOINTS;
use crate::checksum::JournalIdentity;
use crate::segment::PARTITIONS;
use crate::slab::{FrameMemory, Slab};

/// The usual size of a slab and therefore the largest usual frame: larger flushes gain little and delay those behind.
const SLAB_BYTES: usize = 1 << 20;
/// Slabs kept for the next frames when nothing refers to them any more.
const SLABS_KEPT: usize = 4;

impl Journal {
    /// A journal that goes on after `scanned`; with an empty scan, a new one. Blocks.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        random: Random,
        identity: JournalIdentity,
        sizes: JournalSizes,
        scanned: Scanned,
    ) -> io::Result<Journal> {
        assert!(
            sizes.file_bytes.is_multiple_of(FILE_HEADER_BYTES as u64),
            "journal files are whole blocks"
        );
        assert!(
            sizes.files_max >= 2,
            "one file is written while another is laid out"
        );
        // From here on, not before: what is found damaged or of an unknown version stays as it is.
        create_directories(&disk, &identity)?;
        if let Some(last) = scanned.frames.last()
            && !planted(Bug::LastFrameNotSettled)
        {
            settle(last, scanned.mended)?;
        }
        let next_frame = scanned.next_frame;
        let first_record = next_frame - scanned.frames.len() as u64;
        let records = scanned
            .frames
            .into_iter()
            .map(|location| FrameRecord {
                location,
                memory: FrameMemory::of(&Bytes::new()),
                bytes: Bytes::new(),
                appended: Vec::new(),
            })
            .collect();
        Ok(Journal {
            identity,
            files: Files::open(disk, random, identity, sizes, scanned.files)?,
            slabs: MemoryPool::new(Pages::Small, SLAB_BYTES, SLABS_KEPT),
            large_slabs: MemoryPool::new(Pages::Huge, SLAB_BYTES, SLABS_KEPT),
            slab: Slab::new(0),
            pending_entries: 0,
            pending_appended: Vec::new(),
            pending_majority: Majority::default(),
            records,
            first_record,
            next_flush: next_frame,
            in_flight: false,
            durable_before: next_frame,
            is_closed: scanned.is_closed,
            sealed_bytes: 0,
            released_before: first_record,
            resident_from: next_frame,
            resident_bytes: 0,
            dead: None,
        })
    }
}

/// Writes the last frame once more as it is. It may stem from a flush that never came back, be readable and yet be lost
/// by a power cut; whoever reads it now must find it for ever.
fn settle(last: &FrameLocation, mended: Option<Bytes>) -> io::Result<()> {
    let length = last.total_bytes as usize;
    let frame = mended.map_or_else(|| last.file.read(last.position, length), Ok)?;
    let mut slab = Slab::new(length);
    slab.append(&frame);
    last.file.write_durable(last.position, &slab.cut_frame())
}

/// Creates what directories there are not, and makes their names durable. Also those that were found: the process that
/// made them may have died before it could.
fn create_directories(disk: &Arc<dyn Disk>, identity: &JournalIdentity) -> io::Result<()> {
    let journal = directory(identity);
    let journals = journal.parent().expect("a journal's directory is in another");
    for shared in [journals, Path::new(CHECKPOINTS), Path::new(PARTITIONS)] {
        disk.create_directory(shared)?;
    }
    disk.create_directory(&journal)?;
    if planted(Bug::NamesNotSynced) {
        return Ok(());
    }
    [Path::new(""), journals, &journal, Path::new(CHECKPOINTS)]
        .into_iter()
        .try_for_each(|directory| disk.sync_directory(directory))
}
