//! The threads of a shard, and the order of its work beside appending, flushing and reading: one file after the other is made ready
//! for the journal, and beside that layout (`layout.rs`), checkpoints and removals (`removal.rs`) have turns.
//!
//! Each blocking piece is a job of the store: planned on the core, run on another thread, applied on the core. Flushes (`flush.rs`)
//! have a thread of their own, so that nothing here ever stands before one.

use std::io;
use std::rc::Rc;

use platform::turns;
use platform::work::{Lane, Pool, Work};
use storage::{PrepareFile, RETRY_AFTER};

use super::{Chore, DiskShortage, Shard};

/// The threads that work for one shard beside its core. Each has jobs of its own kind, so that none waits behind another kind.
pub struct ShardThreads {
    /// Runs flushes, apart from everything else.
    pub(super) flushing: Lane,
    /// Fills journal files.
    filling: Lane,
    /// Filling leaves the disk to others now and then.
    fills_at_pace: bool,
    /// Lays out, writes checkpoints and removes files: one of these at a time.
    pub(super) laying_out: Lane,
    /// Looks through stored batches for clients, who choose how long that takes.
    pub(super) looking: Lane,
    /// Examines the batches of appends that a core has no time for.
    pub(super) examining: Lane,
    /// Reads from the disk, and compacts.
    pub(super) pool: Pool,
}

impl ShardThreads {
    /// Starts the threads of the shard with this number, each named after its purpose.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(work: &dyn Work, shard: usize) -> io::Result<ShardThreads> {
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
    /// Starts tasks on the core that calls: one keeps journal files ready, one lays out, writes checkpoints and removes files. All
    /// partitions must be open: a checkpoint asks each for its state.
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

    /// Keeps a journal file ready, beside all other jobs: it takes as long as there is time. The other chores are woken after each
    /// file: a full journal may have to be laid out now, or a file that is unfit to be removed.
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
                    self.note_success(Chore::Preparation);
                    self.append_waiting();
                    self.flushing.want();
                }
                Err(error) => self.rest_after(Chore::Preparation, &error).await,
            }
        }
    }

    pub(super) async fn rest_after(&self, chore: Chore, error: &dyn std::fmt::Display) {
        self.note_fault(chore, error);
        if self.appends_without_room() > 0 {
            self.waiting.starved.notify_one();
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }

    /// Refuses appends while the disk has less than its reserve left; `None` has them taken again.
    pub fn set_disk_shortage(&self, shortage: Option<DiskShortage>) {
        self.disk_shortage.set(shortage);
        self.store.borrow_mut().set_short_of_space(shortage.is_some());
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
