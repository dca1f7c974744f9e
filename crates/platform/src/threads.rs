//! Threads and the processor they run on: one pinned thread per core is how a node is laid out.
//!
//! Also the limit on open descriptors, which belongs to the process as the threads do.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{Builder, JoinHandle, Thread};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Starts a named thread. Names longer than 15 bytes are cut by the system in its listings. Fails if the system gives
/// no more threads.
pub fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.into()).spawn(body)
}

/// Polls a future on the calling thread until it is done; sleeps in between. The future must need no runtime.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(outcome) => return outcome,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Binds the calling thread to one CPU. `InvalidInput` if this process may not use it.
pub fn pin_to_cpu(index: usize) -> io::Result<()> {
    if index >= CpuSet::MAX_CPU {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("there is no CPU {index}"),
        ));
    }
    let mut only = CpuSet::new();
    only.set(index);
    Ok(sched_setaffinity(None, &only)?)
}

/// The CPUs the calling thread may run on, ascending: containers and `taskset` give fewer than the machine has. Empty if
/// the system does not say.
pub fn available_cpus() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|index| set.is_set(*index)).collect(),
        Err(_) => Vec::new(),
    }
}

/// Processor time that the calling thread has used so far. Costs a system call, where a clock costs none.
pub fn cpu_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec.unsigned_abs() as u32)
}

/// Raises the soft limit on open descriptors to the hard one and returns what now holds (`u64::MAX` for no limit).
/// If the system refuses, the old limit stays and is returned.
pub fn raise_descriptor_limit() -> u64 {
    let old = getrlimit(Resource::Nofile);
    if old.current != old.maximum {
        // A refusal is not an error here: the caller reads the limit that holds and sizes itself by it.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: old.maximum,
                maximum: old.maximum,
            },
        );
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_has_one_cpu_and_others_keep_theirs() {
        let before = available_cpus();
        let last = *before.last().expect("the test runs on some CPU");
        let seen = spawn("pinned", move || {
            pin_to_cpu(last).expect("the CPU was listed");
            available_cpus()
        });
        assert_eq!(seen.expect("a thread").join().expect("no panic"), vec![last]);
        assert_eq!(available_cpus(), before);
    }

    #[test]
    fn a_future_that_another_thread_completes_is_waited_for() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        spawn("completes", move || sender.send(7)).expect("a thread");
        assert_eq!(block_on(receiver), Ok(7));
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error() {
        spawn("unpinned", || {
            assert!(pin_to_cpu(CpuSet::MAX_CPU - 1).is_err());
            assert!(pin_to_cpu(usize::MAX).is_err());
        })
        .expect("a thread")
        .join()
        .expect("no panic");
    }

    #[test]
    fn the_time_of_a_thread_is_that_of_its_own_work() {
        let before = cpu_time();
        let worked = spawn("at-work", || {
            let begun = cpu_time();
            while cpu_time() - begun < Duration::from_millis(20) {}
            cpu_time()
        });
        let worked = worked.expect("a thread").join().expect("no panic");
        assert!(worked >= Duration::from_millis(20));
        assert!(
            cpu_time() - before < Duration::from_millis(20),
            "waiting is no work"
        );
    }

    #[test]
    fn the_descriptor_limit_ends_at_the_hard_one() {
        assert_eq!(
            raise_descriptor_limit(),
            getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX)
        );
    }
}
