//! Blocking jobs: who makes a node says where they run. A real one has threads; a simulated one runs them when its seed says so.
//!
//! A lane runs its jobs one after the other, for one purpose: what waits in one lane holds up no other. A pool runs several at a
//! time. Work that nobody waits for any more is dropped before it is begun.

use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::threads;

/// A blocking job with all that it needs.
pub type Job = Box<dyn FnOnce() + Send>;

/// Where jobs are put to be run. Dropping it drops those that are not begun, and waits for the one under way.
pub trait Queue: Send + Sync {
    /// Has a job run; never blocks.
    fn push(&self, job: Job);
}

/// The source of lanes and of the pool.
pub trait Work: Send + Sync + 'static {
    /// Begins a queue whose jobs run one after the other in the order in which they come.
    ///
    /// # Errors
    /// The system has no thread left.
    fn lane(&self, name: String) -> io::Result<Box<dyn Queue>>;

    /// Returns a queue whose jobs do not wait for each other, but for threads.
    fn pool(&self) -> Arc<dyn Queue>;

    /// Returns whether a job may rest on its thread between two pieces of its work. Where jobs have no thread, nobody may.
    fn may_rest(&self) -> bool {
        true
    }
}

/// Runs jobs one after the other.
pub struct Lane(Box<dyn Queue>);

impl Lane {
    /// Begins a lane. Of a real one's name, the system shows 15 bytes.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn begin(work: &dyn Work, name: String) -> io::Result<Lane> {
        work.lane(name).map(Lane)
    }

    /// Runs `work` behind what was asked for before, and returns its outcome. If the future is dropped before the work is
    /// begun, so is the work.
    ///
    /// # Panics
    /// If `work` does.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        run(&*self.0, work).await
    }

    /// Lets go of something behind what was asked for before.
    pub fn let_go(&self, what: impl Send + 'static) {
        self.0.push(Box::new(move || drop(what)));
    }
}

/// Runs jobs that need not wait for each other.
#[derive(Clone)]
pub struct Pool(Arc<dyn Queue>);

impl Pool {
    /// The pool of this work.
    pub fn of(work: &dyn Work) -> Pool {
        Pool(work.pool())
    }

    /// Runs `work` and returns its outcome. If the future is dropped before the work is begun, so is the work.
    ///
    /// # Panics
    /// If `work` does.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        run(&*self.0, work).await
    }
}

async fn run<T: Send + 'static>(queue: &dyn Queue, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (reply, outcome) = oneshot::channel();
    queue.push(Box::new(move || {
        if !reply.is_closed() {
            let _ = reply.send(work());
        }
    }));
    outcome.await.expect("no job panics")
}

/// Runs jobs on threads of the operating system: a thread for each lane, and for the pool those that the runtime (tokio) of the
/// calling thread keeps for blocking work.
#[derive(Debug, Clone, Copy, Default)]
pub struct Threads;

impl Work for Threads {
    fn lane(&self, name: String) -> io::Result<Box<dyn Queue>> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let thread = threads::spawn(name, move || {
            while let Ok(job) = queue.recv() {
                job();
            }
        })?;
        Ok(Box::new(Thread {
            jobs: Some(jobs),
            thread: Some(thread),
        }))
    }

    fn pool(&self) -> Arc<dyn Queue> {
        Arc::new(RuntimeThreads)
    }
}

/// The thread of a lane.
struct Thread {
    /// `None` when it ends.
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Queue for Thread {
    fn push(&self, job: Job) {
        let jobs = self.jobs.as_ref().expect("it is there until it is dropped");
        jobs.send(job).expect("no job has panicked");
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.jobs.take();
        // A job that has panicked has been told.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct RuntimeThreads;

impl Queue for RuntimeThreads {
    fn push(&self, job: Job) {
        tokio::task::spawn_blocking(job);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_pending<F: Future>(future: std::pin::Pin<&mut F>) -> bool {
        matches!(
            future.poll(&mut Context::from_waker(Waker::noop())),
            Poll::Pending
        )
    }

    fn lane(name: &str) -> Lane {
        Lane::begin(&Threads, name.into()).expect("a thread")
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_is_not_begun() {
        let lane = lane("lane");
        let (release, released) = mpsc::channel::<()>();
        let mut busy = pin!(lane.run(move || released.recv().is_err()));
        assert!(is_pending(busy.as_mut()));
        let begun = Arc::new(AtomicU32::new(0));
        let work = || {
            let begun = Arc::clone(&begun);
            lane.run(move || begun.fetch_add(1, Ordering::SeqCst))
        };
        let (mut dropped, mut wanted) = (Box::pin(work()), pin!(work()));
        assert!(is_pending(dropped.as_mut()) && is_pending(wanted.as_mut()));
        drop(dropped);
        drop(release);
        assert!(busy.await);
        assert_eq!(wanted.await, 0, "it is the first that was begun");
        assert_eq!(begun.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn what_is_let_go_of_goes_on_the_thread_of_the_lane() {
        struct Tells(mpsc::Sender<std::thread::ThreadId>);
        impl Drop for Tells {
            fn drop(&mut self) {
                let _ = self.0.send(std::thread::current().id());
            }
        }
        let lane = lane("lane");
        let (tell, told) = mpsc::channel();
        lane.let_go(Tells(tell));
        let gone_on = told.recv().expect("it goes");
        assert_ne!(gone_on, std::thread::current().id());
    }

    #[tokio::test]
    async fn lanes_do_not_wait_for_each_other() {
        let (busy, free) = (lane("busy"), lane("free"));
        let (release, released) = mpsc::channel::<()>();
        let mut waits = pin!(busy.run(move || released.recv().is_err()));
        assert!(is_pending(waits.as_mut()));
        assert_eq!(free.run(|| 7).await, 7);
        drop(release);
        assert!(waits.await);
    }

    #[tokio::test]
    async fn jobs_of_the_pool_do_not_wait_for_each_other() {
        let pool = Pool::of(&Threads);
        let (release, released) = mpsc::channel::<()>();
        let mut waits = pin!(pool.run(move || released.recv().is_err()));
        assert!(is_pending(waits.as_mut()));
        assert_eq!(pool.run(|| 7).await, 7);
        drop(release);
        assert!(waits.await);
    }
}
