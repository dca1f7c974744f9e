//! Making a journal file ready for its next use: a job beside the store, run on any thread.
//!
//! A file gets its name when it is complete, and its new sequence is durable before the first frame of that use. A write
//! that failed is not repeated here.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use planted::{Bug, planted};
use platform::disk::{Disk, File, Pace};

use super::files::JournalFile;
use super::frame::{FILE_HEADER_BYTES, FileHeader};
use crate::checksum::JournalIdentity;

/// The extension of a file that is being filled; it counts for nothing.
const PREPARING: &str = "preparing";

/// Filling should be ahead of the writes to the file before by this part of a file. While it is, it rests between
/// its writes, and takes a fifth of the time until the file is full.
const LEAD_PART: u64 = 4;
/// So many times as long as its last write took: flushes hardly wait for it then.
const REST: u32 = 4;
/// But no longer than this at once: so long whoever wants the file now may have to wait.
const REST_MAX: Duration = Duration::from_millis(5);
/// Where it is behind by this part of a file, records come faster than zeros, which would take half of the disk from them. Then it
/// rests as long as it may.
const LAG_PART: u64 = 16;
/// If it is still behind when only this part of the file before is left, the file is to be had as it is: flushes as large as
/// those that are so fast lose little by it.
const LEFT_PART: u64 = 4;

/// Makes a file ready: creates and zero-fills it if it is new, and writes its header durably. Blocks.
pub struct PrepareFile {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) directory: PathBuf,
    pub(super) identity: JournalIdentity,
    pub(super) header: FileHeader,
    pub(super) name: String,
    pub(super) existing: Option<JournalFile>,
    /// The end of what is written to the file before it; beyond the end of any file once this one is wanted now.
    pub(super) written: Arc<AtomicU64>,
}

impl PrepareFile {
    /// Does the work at once.
    ///
    /// # Errors
    /// The disk's; a new file that could not be completed is removed again.
    pub fn run(&self) -> io::Result<JournalFile> {
        self.run_at(&|_, _| ControlFlow::Continue(Duration::ZERO))
    }

    /// The same in no hurry while the file that is being written leaves time, and not filled to its end where that leaves none.
    ///
    /// # Errors
    /// As `run`.
    pub fn run_at_pace(&self) -> io::Result<JournalFile> {
        self.run_at(&|filled, took| {
            let written = self.written.load(Ordering::Relaxed);
            pace(filled, written, self.header.file_bytes, took)
        })
    }

    /// Says whether the file is wanted now.
    #[cfg(test)]
    pub(crate) fn is_hurried(&self) -> bool {
        self.written.load(Ordering::Relaxed) == u64::MAX
    }

    fn run_at(&self, pace: Pace<'_>) -> io::Result<JournalFile> {
        let file = match &self.existing {
            Some(existing) => {
                self.write_header(&*existing.file)?;
                existing.file.clone()
            }
            None => self.create(pace)?,
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
    fn create(&self, pace: Pace<'_>) -> io::Result<Arc<dyn File>> {
        let path = self.directory.join(&self.name);
        let aside = path.with_extension(PREPARING);
        let named = |file: Arc<dyn File>| {
            self.disk.rename(&aside, &path)?;
            if !planted(Bug::NamesNotSynced) {
                self.disk.sync_directory(&self.directory)?;
            }
            Ok(file)
        };
        self.fill(&aside, pace).and_then(named).inspect_err(|_| {
            // A file that could not be completed must not take the space that a full disk is short of.
            let _ = self.disk.remove(&aside);
            let _ = self.disk.remove(&path);
        })
    }

    fn fill(&self, aside: &Path, pace: Pace<'_>) -> io::Result<Arc<dyn File>> {
        self.disk.remove(aside)?;
        let file = self.disk.create(aside)?;
        file.fill_with_zeros_at(self.header.file_bytes, pace)?;
        self.write_header(&*file)?;
        Ok(file)
    }
}

/// The rest that filling takes after a write that took so long, if it goes on.
fn pace(filled: u64, written: u64, file_bytes: u64, took: Duration) -> ControlFlow<(), Duration> {
    let is_behind = written >= filled + file_bytes / LAG_PART;
    if is_behind && written >= file_bytes - file_bytes / LEFT_PART {
        ControlFlow::Break(())
    } else if is_behind {
        ControlFlow::Continue(REST_MAX)
    } else if filled < written + file_bytes / LEAD_PART {
        ControlFlow::Continue(Duration::ZERO)
    } else {
        ControlFlow::Continue((took * REST).min(REST_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filling_keeps_ahead_of_the_file_before_at_its_leisure_and_gives_up_behind_it() {
        let (file_bytes, took) = (64 << 20, Duration::from_micros(150));
        let pace = |filled, written, took| pace(filled, written, file_bytes, took);
        let at_once = ControlFlow::Continue(Duration::ZERO);
        assert_eq!(pace(15 << 20, 0, took), at_once, "a lead first");
        assert_eq!(pace(17 << 20, 0, took), ControlFlow::Continue(took * REST));
        assert_eq!(
            pace(63 << 20, 0, Duration::from_secs(1)),
            ControlFlow::Continue(REST_MAX)
        );
        assert_eq!(pace(17 << 20, 2 << 20, took), at_once, "it is caught up with");
        assert_eq!(pace(17 << 20, 20 << 20, took), at_once, "behind, but not by much");
        assert_eq!(
            pace(17 << 20, 21 << 20, took),
            ControlFlow::Continue(REST_MAX),
            "records come faster"
        );
        assert_eq!(pace(17 << 20, 48 << 20, took), ControlFlow::Break(()));
        assert_eq!(pace(45 << 20, 48 << 20, took), at_once, "nearly there");
        assert_eq!(
            pace(63 << 20, u64::MAX, took),
            ControlFlow::Break(()),
            "it is wanted now"
        );
    }
}
