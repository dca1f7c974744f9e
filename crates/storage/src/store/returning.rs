//! Journal files on their way back: segments adopted them and were given up, and the journal is to use them again.
//!
//! A file is the segment's for as long as the checkpoint on the disk names it, in a segment or as something to be removed:
//! recovery passes over it, and over frames written to it. So it waits for a checkpoint that does not name it, and for
//! the reads of its segment that are under way. After a crash it is the one or the other: a file that no checkpoint
//! names is a free journal file.

use std::sync::Arc;

use planted::{Bug, planted};

use super::Store;
use crate::checkpoint::Checkpoint;
use crate::journal::JournalFile;
use crate::segment::{AdoptedFile, Segment};

/// A journal file on its way back.
pub(super) struct Returning {
    adopted: AdoptedFile,
    pub(super) file: JournalFile,
}

/// Held by a read while it looks into an adopted file. Empty for other segments.
pub(super) type Lease = Option<Arc<()>>;

impl Store {
    /// Whether files of segments that are given up are to be removed, so that the disk has their space, and none goes back to
    /// the journal.
    pub fn set_short_of_space(&mut self, short: bool) {
        self.short_of_space = short;
    }

    /// Whether the journal is to have a file back. It never has more files than it may grow to.
    pub(super) fn wants_back(&self, adopted: &AdoptedFile) -> bool {
        !self.short_of_space && self.journal.wants_back(adopted.bytes, self.returning.len())
    }

    /// A lease on the journal file that a segment adopted. None is given out any more once the segment is given up.
    pub(super) fn lease(&mut self, segment: &Segment) -> Lease {
        let adopted = segment.adopted?;
        Some(self.leases.entry(adopted.sequence).or_default().clone())
    }

    /// Takes what became of an adopted file whose segment is gone: kept for the journal, or removed.
    pub(super) fn settle_adopted(&mut self, adopted: AdoptedFile, kept: Option<JournalFile>) {
        match kept {
            Some(file) if planted(Bug::GivenBackBeforeCheckpoint) => self.journal.take_back(file),
            Some(file) => self.returning.push(Returning { adopted, file }),
            None => {
                self.leases.remove(&adopted.sequence);
            }
        }
    }

    /// Gives back the files that `durable`, the checkpoint on the disk, does not name and nobody reads.
    pub(super) fn give_back(&mut self, durable: &Checkpoint) {
        if self.returning.is_empty() {
            return;
        }
        let named = durable.held_files();
        for returning in std::mem::take(&mut self.returning) {
            let AdoptedFile { number, sequence, .. } = returning.adopted;
            if named.contains(&number) || self.is_read(sequence) {
                self.returning.push(returning);
                continue;
            }
            self.leases.remove(&sequence);
            self.journal.take_back(returning.file);
        }
    }

    fn is_read(&self, sequence: u64) -> bool {
        let lease = self.leases.get(&sequence);
        lease.is_some_and(|lease| Arc::strong_count(lease) > 1) && !planted(Bug::GivenBackWhileRead)
    }
}
