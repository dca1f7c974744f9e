//! The parts of a simulated node that `platform` has no simulated side for: a clock that drifts and jumps, and blocking jobs that run
//! when the seed says so.

use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use platform::clock::Clock;
use platform::random::SeededRandom;
use platform::work::{Job, Queue, Work};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

/// The wall time at which each simulation begins: 2026-01-01, in milliseconds since 1970.
const BEGIN_WALL_MS: i64 = 1_767_225_600_000;

/// The runtime's time, a little faster or slower, and a wall clock that jumps.
pub(crate) struct DriftingClock {
    began: Instant,
    /// How much time passes here in a thousand of the runtime's.
    per_thousand: u32,
    wall_offset_ms: AtomicI64,
}

impl DriftingClock {
    /// A clock that begins now, and runs up to a tenth too fast or too slow.
    pub(crate) fn new(random: &mut SeededRandom) -> DriftingClock {
        DriftingClock {
            began: Instant::now(),
            per_thousand: 900 + random.below(201) as u32,
            wall_offset_ms: AtomicI64::new(BEGIN_WALL_MS),
        }
    }

    /// Has the wall clock jump.
    pub(crate) fn jump(&self, by_ms: i64) {
        self.wall_offset_ms.fetch_add(by_ms, Ordering::Relaxed);
    }
}

impl Clock for DriftingClock {
    fn monotonic(&self) -> Duration {
        self.began.elapsed() * self.per_thousand / 1_000
    }

    fn wall_ms(&self) -> i64 {
        self.wall_offset_ms.load(Ordering::Relaxed) + self.monotonic().as_millis() as i64
    }
}

/// Runs blocking jobs as tasks of the core that asks, each a while after it was asked for.
pub(crate) struct DelayedWork(Arc<Mutex<SeededRandom>>);

impl DelayedWork {
    /// Work whose delays are those of the generator.
    pub(crate) fn new(random: SeededRandom) -> DelayedWork {
        DelayedWork(Arc::new(Mutex::new(random)))
    }
}

/// Mostly a millisecond or none, seldom many.
fn delay(random: &Mutex<SeededRandom>) -> Duration {
    let mut random = random.lock().unwrap_or_else(PoisonError::into_inner);
    match random.below(100) {
        0 => Duration::from_millis(random.below(200)),
        1..10 => Duration::from_millis(random.below(10)),
        10..50 => Duration::from_millis(1),
        _ => Duration::ZERO,
    }
}

impl Work for DelayedWork {
    fn lane(&self, _name: String) -> io::Result<Box<dyn Queue>> {
        let (jobs, mut queue) = mpsc::unbounded_channel::<Job>();
        let random = self.0.clone();
        tokio::task::spawn_local(async move {
            while let Some(job) = queue.recv().await {
                sleep(delay(&random)).await;
                job();
            }
        });
        Ok(Box::new(DelayedLane(jobs)))
    }

    fn pool(&self) -> Arc<dyn Queue> {
        Arc::new(DelayedPool(self.0.clone()))
    }

    fn may_rest(&self) -> bool {
        false
    }
}

struct DelayedLane(mpsc::UnboundedSender<Job>);

impl Queue for DelayedLane {
    fn push(&self, job: Job) {
        // The lane is gone only when its core is.
        let _ = self.0.send(job);
    }
}

struct DelayedPool(Arc<Mutex<SeededRandom>>);

impl Queue for DelayedPool {
    fn push(&self, job: Job) {
        let delay = delay(&self.0);
        tokio::task::spawn_local(async move {
            sleep(delay).await;
            job();
        });
    }
}
