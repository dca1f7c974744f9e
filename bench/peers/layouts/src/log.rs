//! A log that is open: its layout, its committer's thread, and where its shards end.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

use anyhow::{Result, ensure};
use platform::threads;

use crate::committer::{Tails, Unit, commit_all};
use crate::layout::{Layout, LayoutName, Visit};

pub(crate) struct Log {
    layout: Arc<dyn Layout>,
    tails: Arc<Tails>,
    /// None when the committer is to end.
    queue: Option<Sender<Unit>>,
    committer: Option<JoinHandle<()>>,
}

impl Log {
    /// Opens the log of this layout in `folder`; an empty one if there is nothing yet.
    pub(crate) fn open(folder: &Path, layout: LayoutName, shards: u32) -> Result<Log> {
        ensure!(shards > 0, "a log has at least one shard");
        let layout = layout.open(folder)?;
        let positions = (0..shards)
            .map(|shard| layout.tail(shard))
            .collect::<Result<_>>()?;
        let tails = Arc::new(Tails::new(positions));
        let (queue, units) = mpsc::channel();
        let committer = threads::spawn("committer", {
            let (layout, tails) = (layout.clone(), tails.clone());
            move || commit_all(&*layout, &tails, &units)
        })?;
        Ok(Log {
            layout,
            tails,
            queue: Some(queue),
            committer: Some(committer),
        })
    }

    /// Where units go that are to be committed.
    pub(crate) fn queue(&self) -> Sender<Unit> {
        self.queue.clone().expect("it is there until the log is closed")
    }

    pub(crate) fn tails(&self) -> &Tails {
        &self.tails
    }

    /// Refuses a shard that the log does not have.
    pub(crate) fn check_shards(&self, shards: u32) -> Result<()> {
        let own = self.tails.shards();
        ensure!(shards == own, "the log was made with {own} shards, not {shards}");
        Ok(())
    }

    /// Shows the entries of these positions in their order. All of them must lie before the shard's tail.
    pub(crate) fn scan(&self, shard: u32, positions: Range<u64>, visit: &mut Visit<'_>) -> Result<()> {
        self.layout.scan(shard, positions, visit)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(committer) = self.committer.take() {
            // If it died it has said so.
            let _ = committer.join();
        }
    }
}
