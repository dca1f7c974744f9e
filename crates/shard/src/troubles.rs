//! Troubles with a shard's work beside appends and reads. The work may fail again each time it is tried: it is told as one
//! trouble then.

use std::cell::RefCell;
use std::fmt::Display;
use std::sync::Arc;

use storage::Trouble;

use super::Shard;

/// Work that is tried again until it succeeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
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
    /// Changes of consumer groups are journaled.
    GroupChanges,
}

/// Work that gives a full journal room again.
const MAKES_ROOM: [Work; 3] = [Work::Layout, Work::Checkpoint, Work::Preparation];

impl Work {
    const COUNT: usize = Work::GroupChanges as usize + 1;

    /// As the log calls it.
    fn name(self) -> &'static str {
        match self {
            Work::Preparation => "preparing a journal file",
            Work::Layout => "layout",
            Work::Checkpoint => "writing a checkpoint",
            Work::Removal => "removing files",
            Work::Deletion => "giving up the files of deleted partitions",
            Work::Retention => "retention",
            Work::GroupChanges => "journaling changes of consumer groups",
        }
    }
}

/// The troubles of one shard.
#[derive(Default)]
pub(super) struct Troubles(RefCell<[(Trouble, Option<Arc<str>>); Work::COUNT]>);

impl Shard {
    /// Takes note that some work failed, and will be tried again.
    pub fn note_failure(&self, work: Work, error: &dyn Display) {
        let why: Arc<str> = error.to_string().into();
        let times = {
            let (trouble, last) = &mut self.troubles.0.borrow_mut()[work as usize];
            *last = Some(why.clone());
            trouble.note(self.clock.monotonic())
        };
        if let Some(times) = times {
            tracing::warn!(
                shard = self.index,
                times,
                error = &*why,
                "{} failed and is tried again; if the disk is full, delete topics, give them retention, or add space",
                work.name()
            );
        }
    }

    /// Takes note that some work was done.
    pub fn note_success(&self, work: Work) {
        let (trouble, last) = &mut self.troubles.0.borrow_mut()[work as usize];
        if last.take().is_some() && trouble.end() {
            tracing::info!(shard = self.index, "{} works again", work.name());
        }
    }

    /// The same of the disk and damaged data, which are counted.
    pub(super) fn note_fault(&self, work: Work, error: &dyn Display) {
        self.counters.faults.add(1);
        self.note_failure(work, error);
    }

    /// Why the journal has no room, if it has none.
    pub(super) fn why_journal_is_full(&self) -> Arc<str> {
        let troubles = self.troubles.0.borrow();
        let why = MAKES_ROOM
            .into_iter()
            .find_map(|work| Some((work, troubles[work as usize].1.as_deref()?)));
        match why {
            Some((work, error)) => format!("{} failed: {error}", work.name()).into(),
            None => "layout has not caught up with appends yet; try again".into(),
        }
    }
}
