//! A file that holds room for the reports while systems fill the disk: given back before they are written.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

/// More than the reports of the largest suite take.
const BYTES: u64 = 24 << 20;

/// The room, until this is gone.
#[derive(Debug)]
pub(super) struct Reserve(PathBuf);

impl Reserve {
    /// Keeps room in a folder. Without it, if there is none: then it is said, and the comparison may still go well.
    pub(super) fn keep(folder: &Path) -> Reserve {
        let path = folder.join(".reserve");
        let kept = File::create(&path).and_then(|file| {
            fallocate(&file, FallocateFlags::empty(), 0, BYTES)?;
            Ok(())
        });
        if let Err(error) = kept {
            eprintln!(
                "no room can be kept for the reports in {} ({error}): they may be lost if the disk gets full",
                folder.display()
            );
            let _ = fs::remove_file(&path);
        }
        Reserve(path)
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
