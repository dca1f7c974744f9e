//! Blocking jobs of a simulated node: tasks of its unit, each a while after it was asked for.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use platform::random::SeededRandom;
use platform::work::{Job, Queue, Work};
use tokio::sync::mpsc;
use tokio::time::sleep;

pub(crate) struct DelayedWork {
    random: Arc<Mutex<SeededRandom>>,
    /// How slow the disk of this run is, from 0.
    slowness: u64,
}

impl DelayedWork {
    pub(crate) fn new(random: SeededRandom, slowness: u64) -> DelayedWork {
        DelayedWork {
            random: Arc::new(Mutex::new(random)),
            slowness,
        }
    }
}

fn delay(random: &Mutex<SeededRandom>, slowness: u64) -> Duration {
    let mut random = random.lock().unwrap_or_else(PoisonError::into_inner);
    let us = match random.below(200) {
        0 => random.below(150_000),
        1..20 => random.below(10_000),
        _ => random.below(500),
    };
    Duration::from_micros(us * (1 + slowness))
}

impl Work for DelayedWork {
    fn lane(&self, _name: String) -> io::Result<Box<dyn Queue>> {
        let (jobs, mut queue) = mpsc::unbounded_channel::<Job>();
        let (random, slowness) = (self.random.clone(), self.slowness);
        drop(platform::turns::spawn_own(async move {
            while let Some(job) = queue.recv().await {
                sleep(delay(&random, slowness)).await;
                job();
            }
        }));
        Ok(Box::new(DelayedLane(jobs)))
    }

    fn pool(&self) -> Arc<dyn Queue> {
        Arc::new(DelayedPool(self.random.clone(), self.slowness))
    }

    fn may_rest(&self) -> bool {
        false
    }
}

struct DelayedLane(mpsc::UnboundedSender<Job>);

impl Queue for DelayedLane {
    fn push(&self, job: Job) {
        let _ = self.0.send(job);
    }
}

struct DelayedPool(Arc<Mutex<SeededRandom>>, u64);

impl Queue for DelayedPool {
    fn push(&self, job: Job) {
        let delay = delay(&self.0, self.1);
        drop(platform::turns::spawn_own(async move {
            sleep(delay).await;
            job();
        }));
    }
}
