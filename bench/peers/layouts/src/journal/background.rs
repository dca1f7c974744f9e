//! The store, shared, and the thread that does its jobs in the background: one at a time, never while it holds the store.
//!
//! The thread is only woken when there is a job, so that an append that leads to none costs no more than its flush.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Result, anyhow, bail, ensure};
use bytes::Bytes;
use platform::clock::{Clock, SystemClock};
use platform::threads;
use storage::{CheckpointJob, LayoutJob, PrepareFile, Store};

/// The store, for as long as this is held.
pub(super) type Held<'a> = MutexGuard<'a, Owned>;

/// What both threads take in turn.
pub(super) struct Owned {
    pub(super) store: Store,
    /// A job is on its way; the thread takes the next one by itself.
    working: bool,
    /// An append waits for room.
    stalled: bool,
    /// Why the background does nothing any more.
    failure: Option<String>,
}

struct Shared {
    owned: Mutex<Owned>,
    /// A flush or a job is done.
    progress: Condvar,
}

pub(super) struct Background {
    shared: Arc<Shared>,
    /// None when it is to end.
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

enum Job {
    Prepare(Box<PrepareFile>),
    LayOut(Box<LayoutJob>),
    Checkpoint(Box<CheckpointJob>),
}

impl Background {
    pub(super) fn start(store: Store) -> Result<Background> {
        let shared = Arc::new(Shared {
            owned: Mutex::new(Owned {
                store,
                working: false,
                stalled: false,
                failure: None,
            }),
            progress: Condvar::new(),
        });
        let (jobs, queue) = mpsc::channel();
        let worker = shared.clone();
        let thread = threads::spawn("background", move || worker.work(&queue))?;
        let background = Background {
            shared,
            jobs: Some(jobs),
            thread: Some(thread),
        };
        background.flushed(&mut background.hold());
        Ok(background)
    }

    pub(super) fn hold(&self) -> Held<'_> {
        self.shared.hold()
    }

    /// To be called after each flush: starts what is due now.
    pub(super) fn flushed(&self, held: &mut Held<'_>) {
        if held.working {
            self.shared.progress.notify_all();
        } else if held.failure.is_none()
            && let Some(job) = held.next_job()
        {
            held.working = true;
            let jobs = self.jobs.as_ref().expect("it has not ended");
            jobs.send(job).expect("the thread ends after this does");
        }
    }

    /// Waits until the background may have made room in the journal. Everything staged must be flushed.
    pub(super) fn make_room<'a>(&'a self, mut held: Held<'a>) -> Result<Held<'a>> {
        held.stalled = true;
        self.flushed(&mut held);
        if let Some(failure) = &held.failure {
            bail!("the journal is full: {failure}");
        }
        ensure!(
            held.working,
            "the journal is full, and nothing can be done about it"
        );
        held = self.shared.wait(held);
        held.stalled = false;
        Ok(held)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.jobs = None;
        self.hold()
            .failure
            .get_or_insert_with(|| "the log is closed".to_owned());
        self.shared.progress.notify_all();
        if let Some(thread) = self.thread.take() {
            // If it died it has said so.
            let _ = thread.join();
        }
    }
}

impl Owned {
    fn next_job(&mut self) -> Option<Job> {
        if let Some(job) = self.store.next_preparation() {
            return Some(Job::Prepare(Box::new(job)));
        }
        if self.stalled || self.store.layout_is_due() {
            self.store.begin_layout();
        }
        if let Some(job) = self.store.next_layout(SystemClock::new().wall_ms()) {
            return Some(Job::LayOut(Box::new(job)));
        }
        // Nothing is kept beside the entries.
        let state = |_| None::<(Bytes, _)>;
        let is_due = self.store.checkpoint_is_due();
        is_due.then(|| Job::Checkpoint(Box::new(self.store.begin_checkpoint(&mut { state }))))
    }
}

impl Shared {
    fn hold(&self) -> Held<'_> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, held: Held<'a>) -> Held<'a> {
        self.progress.wait(held).unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, queue: &Receiver<Job>) {
        while let Ok(first) = queue.recv() {
            let mut next = Some(first);
            while let Some(job) = next.take() {
                let done = self.carry_out(job);
                let mut held = self.hold();
                match done {
                    // Also when the log is being closed: what is left is done after the next start.
                    Ok(()) if held.failure.is_none() => next = held.next_job(),
                    Ok(()) => {}
                    Err(error) => {
                        held.failure.get_or_insert(format!("{error:#}"));
                    }
                }
                held.working = next.is_some();
                self.progress.notify_all();
            }
        }
    }

    fn carry_out(&self, job: Job) -> Result<()> {
        match job {
            Job::Prepare(job) => {
                let result = job.run();
                self.hold().store.prepared(*job, result)?;
            }
            Job::LayOut(job) => {
                let result = job.run();
                self.hold().store.laid_out(*job, result)?;
            }
            Job::Checkpoint(job) => {
                self.until_it_may_run(&job)?;
                let result = job.run();
                self.hold().store.checkpointed(*job, result)?;
            }
        }
        Ok(())
    }

    /// A checkpoint must not run ahead of the journal.
    fn until_it_may_run(&self, job: &CheckpointJob) -> Result<()> {
        let mut held = self.hold();
        while !held.store.checkpoint_may_run(job) {
            let reason = held.store.dead().or(held.failure.as_deref());
            if let Some(reason) = reason {
                return Err(anyhow!("no checkpoint can be taken: {reason}"));
            }
            held = self.wait(held);
        }
        Ok(())
    }
}
