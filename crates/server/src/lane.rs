//! A thread that runs blocking jobs one after the other, for one purpose: what waits in one lane holds up no other.
//!
//! Work of which clients choose the size must not stand before the layout that makes room for everybody's appends, so the two
//! never share a thread. Work that nobody waits for any more is dropped before it is begun.

use std::io;
use std::sync::mpsc;
use std::thread::JoinHandle;

use platform::threads;
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// See the module. Dropping it waits for the job under way.
pub(crate) struct Lane {
    /// `None` when it ends.
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Lane {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start(name: String) -> io::Result<Lane> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let thread = threads::spawn(name, move || {
            while let Ok(job) = queue.recv() {
                job();
            }
        })?;
        Ok(Lane {
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    /// Lets go of something behind what was asked for before.
    pub(crate) fn let_go(&self, what: impl Send + 'static) {
        self.hand_on(Box::new(move || drop(what)));
    }

    fn hand_on(&self, job: Job) {
        let jobs = self.jobs.as_ref().expect("it is there until it is dropped");
        jobs.send(job).expect("no job has panicked");
    }

    /// Runs `work` behind what was asked for before, and returns its outcome. If the future is dropped before the work is begun, so
    /// is the work.
    ///
    /// # Panics
    /// If `work` does.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (reply, outcome) = oneshot::channel();
        let job = move || {
            if !reply.is_closed() {
                let _ = reply.send(work());
            }
        };
        self.hand_on(Box::new(job));
        outcome.await.expect("no job panics")
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.jobs.take();
        // A job that has panicked has been told.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn work_that_nobody_waits_for_is_not_begun() {
        let lane = Lane::start("lane".into()).expect("a thread");
        let (release, released) = mpsc::channel::<()>();
        let mut busy = Box::pin(lane.run(move || released.recv().is_err()));
        assert!(busy.as_mut().now_or_never().is_none());
        let begun = Arc::new(AtomicU32::new(0));
        let work = || {
            let begun = Arc::clone(&begun);
            lane.run(move || begun.fetch_add(1, Ordering::SeqCst))
        };
        let (mut dropped, mut wanted) = (Box::pin(work()), Box::pin(work()));
        assert!(dropped.as_mut().now_or_never().is_none());
        assert!(wanted.as_mut().now_or_never().is_none());
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
        let lane = Lane::start("lane".into()).expect("a thread");
        let (tell, told) = mpsc::channel();
        lane.let_go(Tells(tell));
        let gone_on = told.recv().expect("it goes");
        assert_ne!(gone_on, std::thread::current().id());
    }

    #[tokio::test]
    async fn lanes_do_not_wait_for_each_other() {
        let lane = |name: &str| Lane::start(name.into()).expect("a thread");
        let (busy, free) = (lane("busy"), lane("free"));
        let (release, released) = mpsc::channel::<()>();
        let mut waits = Box::pin(busy.run(move || released.recv().is_err()));
        assert!(waits.as_mut().now_or_never().is_none());
        assert_eq!(free.run(|| 7).await, 7);
        drop(release);
        assert!(waits.await);
    }
}
