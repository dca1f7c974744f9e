//! Troubles with a shard's chores, its work beside appends and reads. A chore may fail each time it is tried again: the log tells
//! of that as one trouble.

use std::cell::RefCell;
use std::fmt::Display;
use std::sync::Arc;

use storage::Trouble;

use super::Shard;

/// Work beside appends and reads that is tried again until it succeeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chore {
    /// A journal file is kept ready.
    Preparation,
    /// Committed batches are laid out in segments.
    Layout,
    /// A checkpoint is written.
    Checkpoint,
    /// Files that nothing names any more are removed.
    Removal,
    /// The files of deleted partitions are given up.
    Deletion,
    /// Records that have outlived their retention are given up.
    Retention,
    /// Damaged segments are written anew.
    Repair,
    /// Changes of consumer groups are journaled.
    GroupChanges,
    /// Changes of transactions are journaled.
    TransactionChanges,
}

/// Chores that give a full journal room again.
const MAKES_ROOM: [Chore; 3] = [Chore::Layout, Chore::Checkpoint, Chore::Preparation];

impl Chore {
    const COUNT: usize = Chore::TransactionChanges as usize + 1;

    /// As the log calls it.
    fn name(self) -> &'static str {
        match self {
            Chore::Preparation => "preparing a journal file",
            Chore::Layout => "layout",
            Chore::Checkpoint => "writing a checkpoint",
            Chore::Removal => "removing files",
            Chore::Deletion => "giving up the files of deleted partitions",
            Chore::Retention => "retention",
            Chore::Repair => "writing a damaged segment anew",
            Chore::GroupChanges => "journaling changes of consumer groups",
            Chore::TransactionChanges => "journaling changes of transactions",
        }
    }
}

/// The troubles of one shard.
#[derive(Default)]
pub(super) struct Troubles(RefCell<[(Trouble, Option<Arc<str>>); Chore::COUNT]>);

impl Shard {
    /// Takes note that a chore failed, and will be tried again. The log is told the more seldom the longer that goes on.
    pub fn note_failure(&self, chore: Chore, error: &dyn Display) {
        let why: Arc<str> = error.to_string().into();
        let times = {
            let (trouble, last) = &mut self.troubles.0.borrow_mut()[chore as usize];
            *last = Some(why.clone());
            trouble.note(self.clock.monotonic())
        };
        if let Some(times) = times {
            tracing::warn!(
                shard = self.index,
                times,
                error = &*why,
                "{} failed and is tried again; if the disk is full, delete topics, give them retention, or add space",
                chore.name()
            );
        }
    }

    /// Takes note that a chore was done.
    pub fn note_success(&self, chore: Chore) {
        let (trouble, last) = &mut self.troubles.0.borrow_mut()[chore as usize];
        if last.take().is_some() && trouble.end() {
            tracing::info!(shard = self.index, "{} works again", chore.name());
        }
    }

    /// Takes note that a chore failed for the disk or for damaged data, which are counted.
    pub(super) fn note_fault(&self, chore: Chore, error: &dyn Display) {
        self.counters.faults.add(1);
        self.note_failure(chore, error);
    }

    /// The reason why the journal has no room, if it has none.
    pub(super) fn why_journal_is_full(&self) -> Arc<str> {
        let troubles = self.troubles.0.borrow();
        let why = MAKES_ROOM
            .into_iter()
            .find_map(|chore| Some((chore, troubles[chore as usize].1.as_deref()?)));
        match why {
            Some((chore, error)) => format!("{} failed: {error}", chore.name()).into(),
            None => "layout has not caught up with appends yet; try again".into(),
        }
    }
}
