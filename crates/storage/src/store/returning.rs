//! Journal files on their way back: segments adopted them and were given up, and the journal is to use them again.
//!
//! A file is the segment's for as long as the checkpoint on the disk names it, in a segment or as something to be removed:
//! recovery passes over it, and over frames written to it. So it waits for a checkpoint that does not name it, and for
//! the reads of its segment that are under way. After a crash it is the one or the other: a file that no checkpoint
//! names is a free journal file.

use std::collections::BTreeMap;
use std::sync::Arc;

use planted::{Bug, planted};

use super::Store;
use crate::checkpoint::Checkpoint;
use crate::journal::JournalFile;
use crate::segment::{AdoptedFile, Segment};

/// The journal files on their way back, and the reads that hold adopted files.
#[derive(Default)]
pub(super) struct Returning {
    files: Vec<Returned>,
    /// Of adopted files that were read, by their sequences: a read that is under way holds one.
    leases: BTreeMap<u64, Arc<()>>,
}

/// A journal file on its way back.
struct Returned {
    adopted: AdoptedFile,
    file: JournalFile,
}

/// Held by a read while it looks into an adopted file. Empty for other segments.
pub(super) type Lease = Option<Arc<()>>;

impl Returning {
    /// A lease on an adopted file.
    fn lease(&mut self, sequence: u64) -> Arc<()> {
        self.leases.entry(sequence).or_default().clone()
    }

    /// No lease on the file is given out any more.
    pub(super) fn end_lease(&mut self, sequence: u64) {
        self.leases.remove(&sequence);
    }

    fn is_read(&self, sequence: u64) -> bool {
        let lease = self.leases.get(&sequence);
        lease.is_some_and(|lease| Arc::strong_count(lease) > 1) && !planted(Bug::GivenBackWhileRead)
    }

    /// Takes the files that `durable`, the checkpoint on the disk, does not name and nobody reads.
    fn take_free(&mut self, durable: &Checkpoint) -> Vec<JournalFile> {
        if self.files.is_empty() {
            return Vec::new();
        }
        let named = durable.held_files();
        let mut free = Vec::new();
        for returned in std::mem::take(&mut self.files) {
            let AdoptedFile { number, sequence, .. } = returned.adopted;
            if named.contains(&number) || self.is_read(sequence) {
                self.files.push(returned);
                continue;
            }
            self.end_lease(sequence);
            free.push(returned.file);
        }
        free
    }

    #[cfg(test)]
    pub(super) fn file_names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|returned| returned.file.name.as_str())
    }
}

impl Store {
    /// Has the files of segments that are given up removed, so that the disk has their space, instead of going back to the journal;
    /// or no longer. To be called about once a second.
    pub fn set_short_of_space(&mut self, short: bool) {
        self.short_of_space = short;
        self.settle();
    }

    /// Says whether the journal is to have a file back. It never has more files than it may grow to.
    pub(super) fn wants_back(&self, adopted: &AdoptedFile) -> bool {
        !self.short_of_space && self.journal.wants_back(adopted.bytes, self.returning.files.len())
    }

    /// A lease on the journal file that a segment adopted. None is given out any more once the segment is given up.
    pub(super) fn lease(&mut self, segment: &Segment) -> Lease {
        let adopted = segment.adopted?;
        Some(self.returning.lease(adopted.sequence))
    }

    /// Takes what became of an adopted file whose segment is gone: kept for the journal, or removed.
    pub(super) fn settle_adopted(&mut self, adopted: AdoptedFile, kept: Option<JournalFile>) {
        match kept {
            Some(file) if planted(Bug::GivenBackBeforeCheckpoint) => self.journal.take_back(file),
            Some(file) => self.returning.files.push(Returned { adopted, file }),
            None => self.returning.end_lease(adopted.sequence),
        }
    }

    /// Gives back the files that `durable`, the checkpoint on the disk, does not name and nobody reads.
    pub(super) fn give_back(&mut self, durable: &Checkpoint) {
        for file in self.returning.take_free(durable) {
            self.journal.take_back(file);
        }
    }
}
