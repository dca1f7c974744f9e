//! Layout: rounds that move committed batches from the journal to segments, each with a checkpoint at its end.
//!
//! A step of a round and its checkpoint are jobs of the store: planned here, run in the background's lane, applied here. A checkpoint
//! may reflect what is only staged, so it waits for that flush; one that claims what never becomes durable is not written.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use platform::slices::Slices;
use record::{Offset, PartitionId};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::background::run;
use super::{Chore, LOOKED_AFTER_IN_ONE_TURN, Shard};

/// Records wait for layout for this part of what their topic lets superseded values live.
const LAYOUT_LAG_PARTS: u32 = 4;

/// The state of layout, and what asks for it.
pub(super) struct Layout {
    /// Something waits for the journal, and so for layout.
    journal_is_full: Cell<bool>,
    /// Some records have waited for layout longer than their topic allows, or all that is durable is to be laid out for another reason.
    is_overdue: Cell<bool>,
    waits: RefCell<LayoutWaits>,
    /// A checkpoint was written, or failed to be.
    checkpointed: Notify,
}

impl Layout {
    /// Nothing waits at this time.
    pub(super) fn since(now: Duration) -> Layout {
        Layout {
            journal_is_full: Cell::new(false),
            is_overdue: Cell::new(false),
            waits: RefCell::new(LayoutWaits::since(now)),
            checkpointed: Notify::new(),
        }
    }

    /// Has a round begin, though none is due: something waits for the journal.
    pub(super) fn want_room(&self) {
        self.journal_is_full.set(true);
    }

    /// Has a round begin over all that is durable, though none is due.
    pub(super) fn want_all(&self) {
        self.is_overdue.set(true);
    }

    /// Takes note that what waited for the journal is tried again.
    pub(super) fn note_room(&self) {
        self.journal_is_full.set(false);
    }

    /// Hears of the next checkpoint that is written, or fails to be.
    pub(super) fn checkpointed(&self) -> Notified<'_> {
        self.checkpointed.notified()
    }

    #[cfg(test)]
    pub(super) fn is_overdue(&self) -> bool {
        self.is_overdue.get()
    }
}

/// The partitions that waited for layout at the last look for that.
struct LayoutWaits {
    looked_at: Duration,
    /// Of a partition with records in the journal alone: where these ended, and since when at the latest some of them wait.
    seen: BTreeMap<PartitionId, (Offset, Duration)>,
}

impl LayoutWaits {
    /// Nothing waited at this time.
    fn since(looked_at: Duration) -> LayoutWaits {
        LayoutWaits {
            looked_at,
            seen: BTreeMap::new(),
        }
    }
}

impl Shard {
    /// Makes one step of a round, which begins if one is due; says whether there was one to make.
    pub(super) async fn lay_out(self: &Rc<Self>) -> bool {
        let now_ms = self.clock.wall_ms();
        let job = {
            let mut store = self.store.borrow_mut();
            if self.layout.is_overdue.get() && !store.is_laying_out() {
                self.layout.is_overdue.set(false);
                store.begin_overdue_layout();
            } else if store.layout_is_due() || (self.layout.journal_is_full.get() && !store.is_preparing()) {
                store.begin_layout();
            }
            store.next_layout(now_ms)
        };
        let Some(job) = job else { return false };
        let (job, result) = run(&self.threads.laying_out, job, |job| job.run()).await;
        let laid_out = self.store.borrow_mut().laid_out(job, result);
        match laid_out {
            Ok(()) => self.note_success(Chore::Layout),
            Err(fault) => {
                // The round is given up: nobody is ahead of it any more.
                self.append_waiting();
                self.rest_after(Chore::Layout, &fault).await;
            }
        }
        true
    }

    /// Ends a round whose steps are made; says whether there was one to end.
    pub(super) async fn checkpoint(self: &Rc<Self>) -> bool {
        if !self.store.borrow().checkpoint_is_due() {
            return false;
        }
        let mut snapshots = self.take_snapshots().await;
        let now = self.clock.monotonic();
        let bases = self.unsaved_bases();
        let job = {
            let partitions = self.partitions.borrow();
            // A partition that is given up, but could not be journaled as such yet, is not there any more.
            let mut state = |id: PartitionId| Some(snapshots.take(id, &partitions.get(&id)?.role, now));
            self.store.borrow_mut().begin_checkpoint(&mut state)
        };
        self.flushing.want();
        let staged_before = self.store.borrow().staged_before();
        if self.until_flushed(staged_before).await.is_err() {
            // The checkpoint reflects records that will never be durable: it is not written, and nothing more is laid out.
            return false;
        }
        assert!(
            self.store.borrow().checkpoint_may_run(&job),
            "everything that the checkpoint reflects is durable"
        );
        let (job, result) = run(&self.threads.laying_out, job, |job| job.run()).await;
        let checkpointed = self.store.borrow_mut().checkpointed(job, result);
        self.counters.layout_rounds.add(1);
        self.layout.checkpointed.notify_waiters();
        self.file_is_wanted.notify_one();
        // The round is over either way.
        self.append_waiting();
        match checkpointed {
            Ok(()) => {
                self.note_saved(bases);
                self.note_success(Chore::Checkpoint);
            }
            Err(error) => self.rest_after(Chore::Checkpoint, &error).await,
        }
        true
    }

    /// Has a round of layout begin if the journal alone has had records of a compacted topic for a good part of what its
    /// `max.compaction.lag.ms` allows: only segments are compacted, and on a node with little to do a round begins much later by
    /// itself. To be called now and then.
    pub async fn lay_out_for_compaction(&self) {
        let now = self.clock.monotonic();
        let last = self.layout.waits.replace(LayoutWaits::since(now));
        let mut slices = Slices::of_own(LOOKED_AFTER_IN_ONE_TURN);
        let mut is_overdue = false;
        for id in self.partition_ids() {
            is_overdue |= self.waits_too_long_for_layout(id, now, &last);
            slices.did(1).await;
        }
        if is_overdue {
            self.layout.is_overdue.set(true);
            self.background.notify_one();
        }
    }

    fn waits_too_long_for_layout(&self, id: PartitionId, now: Duration, last: &LayoutWaits) -> bool {
        let lag_max = {
            let partitions = self.partitions.borrow();
            let partition = partitions.get(&id);
            partition.and_then(|partition| Some(partition.topic.compaction.as_ref()?.lag_max))
        };
        let waiting = self.store.borrow().waits_for_layout(id);
        let (Some(lag_max), Some(waiting)) = (lag_max, waiting) else {
            return false;
        };
        // Anything that was not there at the last look has come since.
        let since = match last.seen.get(&id) {
            Some((end, since)) if waiting.start < *end => *since,
            _ => last.looked_at,
        };
        let mut waits = self.layout.waits.borrow_mut();
        waits.seen.insert(id, (waiting.end, since));
        now.saturating_sub(since) >= lag_max / LAYOUT_LAG_PARTS
    }
}
