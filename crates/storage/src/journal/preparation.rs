//! Making a journal file ready for its next use: a job beside the store, run on any thread.
//!
//! A file gets its name when it is complete, and its new sequence is durable before the first frame of that use. A write
//! that failed is not repeated here.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::disk::{Disk, File};

use super::files::JournalFile;
use super::frame::{FILE_HEADER_BYTES, FileHeader};
use crate::checksum::JournalIdentity;
use crate::planted::{Bug, planted};

/// The extension of a file that is being filled; it counts for nothing.
const PREPARING: &str = "preparing";

/// Makes a file ready: creates and zero-fills it if it is new, and writes its header durably. Blocks.
pub struct PrepareFile {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) directory: PathBuf,
    pub(super) identity: JournalIdentity,
    pub(super) header: FileHeader,
    pub(super) name: String,
    pub(super) existing: Option<JournalFile>,
}

impl PrepareFile {
    /// Does the work.
    ///
    /// # Errors
    /// The disk's; a new file that could not be completed is removed again.
    pub fn run(&self) -> io::Result<JournalFile> {
        let file = match &self.existing {
            Some(existing) => {
                self.write_header(&*existing.file)?;
                existing.file.clone()
            }
            None => self.create()?,
        };
        Ok(JournalFile {
            name: self.name.clone(),
            file,
            sequence: self.header.sequence,
            previous: self.header.previous,
            salt: self.header.salt,
            file_bytes: self.header.file_bytes,
            majority: None,
            is_shared: false,
        })
    }

    fn write_header(&self, file: &dyn File) -> io::Result<()> {
        let mut slab = crate::slab::Slab::new(FILE_HEADER_BYTES);
        slab.append(&self.header.encode(&self.identity));
        let block = slab.cut_frame();
        if planted(Bug::SequenceAfterFrame) {
            return file.write(0, &block);
        }
        file.write_durable(0, &block)
    }

    /// The file gets its name when it is complete, so that recovery may take one without a good header for damaged.
    fn create(&self) -> io::Result<Arc<dyn File>> {
        let path = self.directory.join(&self.name);
        let aside = path.with_extension(PREPARING);
        let named = |file: Arc<dyn File>| {
            self.disk.rename(&aside, &path)?;
            if !planted(Bug::NamesNotSynced) {
                self.disk.sync_directory(&self.directory)?;
            }
            Ok(file)
        };
        self.fill(&aside).and_then(named).inspect_err(|_| {
            // What could not be completed must not take the space that a full disk is short of.
            let _ = self.disk.remove(&aside);
            let _ = self.disk.remove(&path);
        })
    }

    fn fill(&self, aside: &Path) -> io::Result<Arc<dyn File>> {
        self.disk.remove(aside)?;
        let file = self.disk.create(aside)?;
        file.fill_with_zeros(self.header.file_bytes)?;
        self.write_header(&*file)?;
        Ok(file)
    }
}
