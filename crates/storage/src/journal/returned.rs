//! Files that come back to the journal after they were segments, and files that it has too many of.
//!
//! The store says which file may come back: it knows what checkpoints name and who reads. Here it is only decided whether
//! the journal has a use of it, and whether it is the file that it should be.

use std::io;
use std::sync::Arc;

use platform::disk::Disk;

use super::frame::{FILE_HEADER_BYTES, FileHeader};
use super::{Journal, JournalFile, directory, file_name};
use crate::checksum::JournalIdentity;
use crate::segment::AdoptedFile;

/// Opens a file that was a segment, to be used as a journal file again. Blocks.
///
/// # Errors
/// It is not there, cannot be read, or its header is not the one of its last use: a start would refuse it if it were free.
pub(crate) fn reopen(
    disk: &Arc<dyn Disk>,
    journal: &JournalIdentity,
    adopted: &AdoptedFile,
) -> io::Result<JournalFile> {
    let name = file_name(adopted.number);
    let file = disk.open(&directory(journal).join(&name))?;
    let block = file.read(0, FILE_HEADER_BYTES)?;
    let header = FileHeader::decode(&block, journal)
        .ok()
        .filter(|header| (header.sequence, header.salt) == (adopted.sequence, adopted.salt))
        .filter(|header| header.file_bytes == adopted.bytes)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "its header is damaged"))?;
    if file.length()? != adopted.bytes {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it was cut"));
    }
    Ok(JournalFile {
        name,
        file,
        sequence: header.sequence,
        previous: header.previous,
        salt: header.salt,
        file_bytes: header.file_bytes,
        majority: None,
        is_shared: false,
    })
}

impl Journal {
    /// Says whether a file of that size is of use when `returning` others are on their way back already.
    pub(crate) fn wants_back(&self, file_bytes: u64, returning: usize) -> bool {
        self.files.fits(file_bytes) && self.files.has_room_for(returning + 1)
    }

    /// Takes a file to be used again. Nothing may need what is in it, and no checkpoint may name it.
    pub(crate) fn take_back(&mut self, file: JournalFile) {
        self.files.take_back(file);
    }

    /// A file that the journal has no use of and that is to be removed.
    pub(crate) fn take_surplus(&mut self) -> Option<JournalFile> {
        self.files.take_surplus()
    }

    /// Takes back a file that could not be removed.
    pub(crate) fn not_removed(&mut self, file: JournalFile) {
        self.files.not_removed(file);
    }

    /// The names of all its files, but for one that is being prepared.
    #[cfg(test)]
    pub(crate) fn file_names(&self) -> Vec<String> {
        self.files.names()
    }

    /// Where the next frame goes, if it fits: the file's sequence, and the position.
    #[cfg(test)]
    pub(crate) fn next_place(&self) -> (u64, u64) {
        self.files.next_place()
    }

    /// The name of a file that holds frames.
    pub(crate) fn name_of(&self, sequence: u64) -> Option<String> {
        self.files.name_of(sequence)
    }
}
