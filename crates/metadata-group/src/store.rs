//! What a node of the group keeps: the log, the vote, the last snapshot.
//!
//! The log is in memory as a whole, as it is small, and in one file. A change is in memory at once; it is durable when its writer says so, in
//! the order of the changes. A vote is answered, and an entry acknowledged, only then. The store must never lose either, nor say so.

mod at_rest;
mod file;
mod frame;
mod log;
mod open;
mod snapshot;
mod writer;

use std::cell::RefCell;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::rc::Rc;

use bytes::Bytes;
use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader};
use planted::{Bug, planted};
use tokio::sync::{mpsc, oneshot};

pub use self::at_rest::{AtRest, read_at_rest};
use self::log::{Log, Record};
pub use self::open::{StoreError, has_part};
use self::snapshot::Snapshots;
use self::writer::{Change, Done};
use crate::codec::entry_bytes;
use crate::identity::LibraryId;
use crate::library::{Library, LibraryEntry, Snapshot, SnapshotMeta, Vote};

/// The most bytes of entries that are read for one message, but for a single entry that is longer.
const READ_BYTES_MAX: usize = 512 << 10;

/// See the module. Clones are the same store.
#[derive(Clone)]
pub(crate) struct Store(Rc<Inner>);

struct Inner {
    log: Rc<RefCell<Log>>,
    changes: mpsc::UnboundedSender<Change>,
    snapshots: Snapshots,
}

impl Store {
    /// Changes the log, and has the change written.
    fn change(&self, records: Vec<Record>, done: Done) -> io::Result<()> {
        let mut log = self.0.log.borrow_mut();
        for record in &records {
            let applied = log.apply(record.clone());
            applied.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.0))?;
        }
        let change = Change { records, done };
        self.0.changes.send(change).map_err(|_| writer::stopped())
    }

    /// The same, and waits until it is durable.
    async fn change_durably(&self, record: Record) -> io::Result<()> {
        let (done, outcome) = oneshot::channel();
        self.change(vec![record], Done::Waiting(done))?;
        outcome.await.map_err(|_| writer::stopped())?
    }

    /// Makes a snapshot the last one, durably. One that has less than the last one changes nothing.
    pub(crate) async fn save_snapshot(&self, meta: &SnapshotMeta, bytes: Bytes) -> io::Result<()> {
        self.0.snapshots.save(meta, bytes).await
    }

    /// Reads the last snapshot.
    pub(crate) async fn read_snapshot(&self) -> io::Result<Option<Snapshot>> {
        self.0.snapshots.read().await
    }

    /// Says what is in the last snapshot.
    pub(crate) fn snapshot_meta(&self) -> Option<SnapshotMeta> {
        self.0.snapshots.meta()
    }

    fn entries(&self, range: impl RangeBounds<u64>, bytes_max: usize) -> Vec<LibraryEntry> {
        let begin = match range.start_bound() {
            Bound::Included(index) => *index,
            Bound::Excluded(index) => index + 1,
            Bound::Unbounded => 0,
        };
        let log = self.0.log.borrow();
        let wanted = log
            .from(begin)
            .take_while(|entry| range.contains(&entry.log_id.index));
        let mut bytes = 0;
        let mut entries = Vec::new();
        for entry in wanted {
            bytes += entry_bytes(entry);
            if bytes > bytes_max && !entries.is_empty() {
                break;
            }
            entries.push(entry.clone());
        }
        entries
    }
}

impl RaftLogReader<Library> for Store {
    async fn try_get_log_entries<RB>(&mut self, range: RB) -> io::Result<Vec<LibraryEntry>>
    where
        RB: RangeBounds<u64> + Clone + std::fmt::Debug + OptionalSend,
    {
        Ok(self.entries(range, usize::MAX))
    }

    async fn limited_get_log_entries(&mut self, first: u64, next: u64) -> io::Result<Vec<LibraryEntry>> {
        Ok(self.entries(first..next, READ_BYTES_MAX))
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.0.log.borrow().vote())
    }
}

impl RaftLogStorage<Library> for Store {
    type LogReader = Store;

    async fn get_log_state(&mut self) -> io::Result<LogState<Library>> {
        let log = self.0.log.borrow();
        Ok(LogState {
            last_purged_log_id: log.purged(),
            last_log_id: log.last(),
        })
    }

    async fn get_log_reader(&mut self) -> Store {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        if planted(Bug::MetadataVoteNotFlushed) {
            return self.change(vec![Record::Vote(*vote)], Done::Nobody);
        }
        self.change_durably(Record::Vote(*vote)).await
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Library>) -> io::Result<()>
    where
        I: IntoIterator<Item = LibraryEntry>,
    {
        let records = entries.into_iter().map(Record::Entry).collect();
        if planted(Bug::MetadataEntriesAckedEarly) {
            callback.io_completed(Ok(()));
            return self.change(records, Done::Nobody);
        }
        self.change(records, Done::Library(callback))
    }

    async fn truncate_after(&mut self, last: Option<LibraryId>) -> io::Result<()> {
        let next = last.map_or(0, |id| id.index + 1);
        if planted(Bug::MetadataTruncationForgotten) {
            let applied = self.0.log.borrow_mut().apply(Record::Truncate { next });
            return applied.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.0));
        }
        self.change_durably(Record::Truncate { next }).await
    }

    async fn purge(&mut self, last: LibraryId) -> io::Result<()> {
        self.change_durably(Record::Purge(last)).await
    }
}

#[cfg(test)]
mod tests;
