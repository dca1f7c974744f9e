//! What a shard does beside appending and reading: flush, keep journal files ready, lay out, checkpoint, remove.
//!
//! Each blocking piece is a job of the store: planned here, run on another thread, applied here. Flushes have a thread
//! of their own, so that nothing in the background ever stands before one.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use planted::{Bug, planted};
use platform::turns;
use platform::work::{Lane, Pool, Work as Workers};
use record::PartitionId;
use storage::{Flush, PrepareFile, REMOVAL_PAUSE, RETRY_AFTER};
use tokio::task::yield_now;

use super::{AppendRefusal, DiskShortage, Phase, Shard, Work};

/// How long appends that nobody waits for are gathered before they are flushed (`ropewalk.durability=memory`).
const MEMORY_FLUSH_DELAY: Duration = Duration::from_millis(5);
/// With so much to flush nothing is gained by gathering more, and the disk would rest meanwhile.
pub(super) const MEMORY_GATHERED_BYTES_MAX: usize = 1 << 20;

/// A flush of at most this size may run on the core, as long as flushes usually take at most this long: a core that
/// blocks makes its clients wait, and saves them two hand-overs between threads.
const CORE_FLUSH_BYTES_MAX: usize = 128 << 10;
/// See `CORE_FLUSH_BYTES_MAX`.
pub(super) const CORE_FLUSH_TIME_MAX: Duration = Duration::from_micros(300);

/// The threads that work for one shard beside its core. None of them ever waits for what another is asked to do.
pub struct ShardThreads {
    /// Runs flushes, apart from everything else.
    flushing: Lane,
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
    /// Starts to flush, on the core that calls.
    pub fn start_flushing(self: &Rc<Self>) {
        turns::spawn(self.clone().flush_for_ever());
    }

    /// Starts everything else, on the core that calls. All partitions must be open: a checkpoint asks each for its state.
    pub fn start_background(self: &Rc<Self>) {
        turns::spawn(self.clone().prepare_files());
        turns::spawn(self.clone().work_in_background());
    }

    /// Flushes what is staged, one frame after the other; what arrives meanwhile rides in the next.
    async fn flush_for_ever(self: Rc<Self>) {
        loop {
            let awaited = self.until_flush_is_wanted().await;
            let wanted = self.store.borrow().staged_before();
            while wanted > 0 && !self.store.borrow().is_durable(wanted - 1) {
                // None once the journal is dead: what is staged is never flushed.
                let next = self.store.borrow_mut().next_flush();
                let Some(flush) = next else { break };
                let (flush, result) = self.run_flush(flush, awaited).await;
                self.apply_flush(flush, result);
                if turns::is_spent() {
                    yield_now().await;
                }
            }
        }
    }

    /// Waits until there is something to flush; says whether somebody waits for it.
    async fn until_flush_is_wanted(&self) -> bool {
        let gathered = async {
            self.staged_in_memory.notified().await;
            tokio::time::sleep(MEMORY_FLUSH_DELAY).await;
        };
        tokio::select! {
            biased;
            () = self.staged.notified() => true,
            () = gathered => false,
            () = self.turn_was_spent.notified() => {
                yield_now().await;
                self.append_waiting();
                true
            }
        }
    }

    /// Runs a flush where it is over sooner: on the core itself while that costs less than two hand-overs between
    /// threads, else in the flushes' lane.
    async fn run_flush(&self, flush: Flush, awaited: bool) -> (Flush, io::Result<()>) {
        let bytes = flush.total_bytes();
        let on_core = self.settings.flush_on_core
            && awaited
            && bytes <= CORE_FLUSH_BYTES_MAX
            && self.usual_flush.get() <= CORE_FLUSH_TIME_MAX;
        let began = self.clock.monotonic();
        let outcome = match on_core {
            true => {
                let result = flush.run();
                (flush, result)
            }
            false => run(&self.threads.flushing, flush, Flush::run).await,
        };
        let took = self.clock.monotonic() - began;
        self.usual_flush.set((self.usual_flush.get() * 7 + took) / 8);
        self.counters.flush_latency.record(took);
        self.counters.flushed_bytes.add(bytes as u64);
        outcome
    }

    fn apply_flush(&self, flush: Flush, result: io::Result<()>) {
        let result = if planted(Bug::FlushErrorIgnored) {
            Ok(())
        } else {
            result
        };
        let outcome = self.store.borrow_mut().flushed(flush, result);
        match outcome {
            Ok(durable) => {
                let mut store = self.store.borrow_mut();
                self.answered.borrow_mut().settle(|frame| store.is_durable(frame));
                let mut partitions = self.partitions.borrow_mut();
                for (id, next_offset) in durable {
                    // A partition may have been deleted while its last batch was on its way: nothing of it holds layout up.
                    let Some(partition) = partitions.get_mut(&id) else {
                        store.commit_to(id, next_offset);
                        continue;
                    };
                    partition
                        .leader
                        .handle_durable(self.settings.node, next_offset)
                        .expect("the journal flushes only what this leader appended");
                    store.commit_to(id, partition.leader.tail());
                    partition.act();
                }
            }
            Err(error) => self.step_down(&error.to_string()),
        }
        self.append_waiting();
        self.flushed.notify_waiters();
        self.file_is_wanted.notify_one();
        self.background.notify_one();
    }

    /// A flush failed: what was not acknowledged is of unknown outcome, and nothing is accepted any more.
    fn step_down(&self, reason: &str) {
        tracing::error!(
            shard = self.index,
            reason,
            "the journal is dead; this node accepts no appends to it any more"
        );
        self.counters.faults.add(1);
        let failed = AppendRefusal::FlushFailed(reason.to_string());
        let mut partitions = self.partitions.borrow_mut();
        let mut all: Vec<_> = partitions.iter_mut().collect();
        // So that everybody is told in one order.
        all.sort_unstable_by_key(|(id, _)| **id);
        for (_, partition) in all {
            partition.refuse_waiting(&failed);
            partition.leader.handle_seal();
            partition.act();
        }
        drop(partitions);
        self.refuse_waiting(&AppendRefusal::JournalDead(reason.to_string()));
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
                    self.staged.notify_one();
                }
                Err(error) => self.rest_after(Work::Preparation, &error).await,
            }
        }
    }

    async fn lay_out(self: &Rc<Self>) -> bool {
        let now_ms = self.clock.wall_ms();
        let job = {
            let mut store = self.store.borrow_mut();
            if self.layout_is_overdue.get() && !store.is_laying_out() {
                self.layout_is_overdue.set(false);
                store.begin_overdue_layout();
            } else if store.layout_is_due() || (self.journal_is_full.get() && !store.is_preparing()) {
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
        self.staged.notify_one();
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
        self.checkpointed.notify_waiters();
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
        if self.removal_rests.get() > 0 {
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
        self.removal_rests.set(self.removal_rests.get() + 1);
        let shard = self.clone();
        turns::spawn(async move {
            tokio::time::sleep(pause).await;
            shard.removal_rests.set(shard.removal_rests.get() - 1);
            shard.background.notify_one();
        });
    }

    async fn rest_after(&self, work: Work, error: &dyn std::fmt::Display) {
        self.note_fault(work, error);
        if self.appends_without_room() > 0 {
            self.starved.notify_one();
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

    /// Closes the journal if nothing came into it since the last look. Looks are about a second apart.
    pub fn close_quiet_journal(&self) {
        let mut store = self.store.borrow_mut();
        let staged_before = store.staged_before();
        let is_quiet = self.looked_before.replace(staged_before) == staged_before;
        let is_flushed = staged_before > 0 && store.is_durable(staged_before - 1);
        if is_quiet && is_flushed && store.stage_closing_frame() {
            self.staged.notify_one();
        }
    }

    /// Puts a closing frame behind what is durable.
    async fn close_journal(&self) {
        let staged_before = {
            let mut store = self.store.borrow_mut();
            if !store.stage_closing_frame() {
                return;
            }
            store.staged_before()
        };
        self.staged.notify_one();
        // Should it fail, the records before it are durable all the same.
        let _ = self.until_flushed(staged_before).await;
    }

    /// Refuses appends from now on, and returns when everything staged is durable, or never will be.
    pub async fn drain(&self) {
        self.phase.set(Phase::Draining);
        self.refuse_waiting(&AppendRefusal::Stopping);
        self.staged.notify_one();
        let staged_before = self.store.borrow().staged_before();
        // After a flush that failed nothing more becomes durable.
        if self.until_flushed(staged_before).await.is_ok() {
            self.close_journal().await;
        }
        // The core's threads are waited for.
        self.store.borrow().hurry_preparation();
    }
}

/// Runs a blocking job in a lane and brings it back with its outcome.
async fn run<J: Send + 'static, T: Send + 'static>(
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
