//! What a shard does beside appending, flushing and reading: keep journal files ready, lay out, checkpoint, remove.
//!
//! Each blocking piece is a job of the store: planned here, run on another thread, applied here. Flushes (`flush.rs`) have a thread
//! of their own, so that nothing here ever stands before one.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use platform::turns;
use platform::work::{Lane, Pool, Work as Workers};
use record::PartitionId;
use storage::{PrepareFile, REMOVAL_PAUSE, RETRY_AFTER};
use tokio::sync::Notify;

use super::compaction::LayoutWaits;
use super::{DiskShortage, Shard, Work};

/// The state of layout, and what asks for it.
pub(super) struct Layout {
    /// Something waits for the journal, and so for layout.
    pub(super) journal_is_full: Cell<bool>,
    /// Some records have waited for layout longer than their topic allows.
    pub(super) is_overdue: Cell<bool>,
    pub(super) waits: RefCell<LayoutWaits>,
    /// A checkpoint was written, or failed to be.
    pub(super) checkpointed: Notify,
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
}

/// What is to be given up or removed later.
#[derive(Default)]
pub(super) struct Removals {
    /// Partitions given up whose deletion the journal had no room for.
    pub(super) refused: RefCell<Vec<PartitionId>>,
    /// How many reasons there are to leave the next removal for later.
    rests: Cell<u32>,
}

/// The threads that work for one shard beside its core. None of them ever waits for what another is asked to do.
pub struct ShardThreads {
    /// Runs flushes, apart from everything else.
    pub(super) flushing: Lane,
    /// Fills journal files.
    filling: Lane,
    /// Whether that leaves the disk to others now and then.
    fills_at_pace: bool,
    /// Lays out, writes checkpoints and removes files: one of these at a time.
    laying_out: Lane,
    /// Looks through stored batches for clients, who choose how long that takes.
    pub(super) looking: Lane,
    /// Examines the batches of appends that a core has no time for.
    pub(super) examining: Lane,
    /// Reads from the disk, and compacts.
    pub(super) pool: Pool,
}

impl ShardThreads {
    /// Starts them.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(work: &dyn Workers, shard: usize) -> io::Result<ShardThreads> {
        let lane = |purpose| Lane::begin(work, format!("{purpose}-{shard}"));
        Ok(ShardThreads {
            flushing: lane("flush")?,
            filling: lane("fill")?,
            fills_at_pace: work.may_rest(),
            laying_out: lane("layout")?,
            looking: lane("look")?,
            examining: lane("examine")?,
            pool: Pool::of(work),
        })
    }
}

impl Shard {
    /// Starts everything else, on the core that calls. All partitions must be open: a checkpoint asks each for its state.
    pub fn start_background(self: &Rc<Self>) {
        turns::spawn(self.clone().prepare_files());
        turns::spawn(self.clone().work_in_background());
    }

    /// Runs background jobs one at a time, whenever one is due.
    async fn work_in_background(self: Rc<Self>) {
        loop {
            let worked = self.lay_out().await | self.checkpoint().await | self.remove_files().await;
            if !worked {
                self.background.notified().await;
            }
        }
    }

    /// Keeps a journal file ready, beside all other jobs: it takes as long as there is time. The others are told how it went:
    /// a full journal may have to be laid out now, a file that is unfit to be removed.
    async fn prepare_files(self: Rc<Self>) {
        loop {
            let job = self.store.borrow_mut().next_preparation();
            let Some(job) = job else {
                self.file_is_wanted.notified().await;
                continue;
            };
            let at_pace = self.threads.fills_at_pace;
            let fill = move |job: &PrepareFile| if at_pace { job.run_at_pace() } else { job.run() };
            let (job, result) = run(&self.threads.filling, job, fill).await;
            let prepared = self.store.borrow_mut().prepared(job, result);
            self.background.notify_one();
            match prepared {
                Ok(()) => {
                    self.note_success(Work::Preparation);
                    self.append_waiting();
                    self.flushing.staged.notify_one();
                }
                Err(error) => self.rest_after(Work::Preparation, &error).await,
            }
        }
    }

    async fn lay_out(self: &Rc<Self>) -> bool {
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
            Ok(()) => self.note_success(Work::Layout),
            Err(fault) => {
                // The round is given up: nobody is ahead of it any more.
                self.append_waiting();
                self.rest_after(Work::Layout, &fault).await;
            }
        }
        true
    }

    async fn checkpoint(self: &Rc<Self>) -> bool {
        if !self.store.borrow().checkpoint_is_due() {
            return false;
        }
        let mut snapshots = self.take_snapshots().await;
        let now = self.clock.monotonic();
        let job = {
            let partitions = self.partitions.borrow();
            // A partition that is given up, but could not be journaled as such yet, has no leader any more.
            let mut state = |id: PartitionId| Some(snapshots.take(id, &partitions.get(&id)?.leader, now));
            self.store.borrow_mut().begin_checkpoint(&mut state)
        };
        self.flushing.staged.notify_one();
        let staged_before = self.store.borrow().staged_before();
        if self.until_flushed(staged_before).await.is_err() {
            // What the checkpoint claims will never be durable: it is not written, and nothing more is laid out.
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
            Ok(()) => self.note_success(Work::Checkpoint),
            Err(error) => self.rest_after(Work::Checkpoint, &error).await,
        }
        true
    }

    async fn remove_files(self: &Rc<Self>) -> bool {
        if self.removals.rests.get() > 0 {
            return false;
        }
        let Some(job) = self.store.borrow_mut().next_removal() else {
            return false;
        };
        if job.wants_pause() {
            self.rest_from_removals(REMOVAL_PAUSE);
        }
        let (job, result) = run(&self.threads.laying_out, job, |job| job.run()).await;
        let removed = self.store.borrow_mut().removed(job, result);
        self.file_is_wanted.notify_one();
        match removed {
            Ok(()) => self.note_success(Work::Removal),
            Err(error) => {
                // Nothing else waits for it: layout goes on.
                self.note_fault(Work::Removal, &error);
                self.rest_from_removals(RETRY_AFTER);
            }
        }
        true
    }

    /// Has the background come back for the next removal after a pause.
    fn rest_from_removals(self: &Rc<Self>, pause: Duration) {
        self.removals.rests.set(self.removals.rests.get() + 1);
        let shard = self.clone();
        turns::spawn(async move {
            tokio::time::sleep(pause).await;
            let rests = shard.removals.rests.get();
            assert!(rests > 0, "each rest ends once");
            shard.removals.rests.set(rests - 1);
            shard.background.notify_one();
        });
    }

    async fn rest_after(&self, work: Work, error: &dyn std::fmt::Display) {
        self.note_fault(work, error);
        if self.appends_without_room() > 0 {
            self.waiting.starved.notify_one();
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }

    /// Refuses appends while the disk has less than its reserve left.
    pub fn set_disk_shortage(&self, shortage: Option<DiskShortage>) {
        let is_short = shortage.is_some();
        if self.disk_shortage.replace(shortage).is_some() != is_short {
            self.store.borrow_mut().set_short_of_space(is_short);
        }
    }
}

/// Runs a blocking job in a lane and brings it back with its outcome.
pub(super) async fn run<J: Send + 'static, T: Send + 'static>(
    lane: &Lane,
    job: J,
    work: impl FnOnce(&J) -> T + Send + 'static,
) -> (J, T) {
    let work = move || {
        let outcome = work(&job);
        (job, outcome)
    };
    lane.run(work).await
}
