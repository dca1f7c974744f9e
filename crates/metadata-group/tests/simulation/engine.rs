//! Runs units (a node, the network) in one thread. Which unit runs next is drawn from the seed; time stands still while any can run.
//!
//! A unit is a `LocalSet`: dropping it is a kill, not polling it a process that is stopped.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use platform::random::SeededRandom;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until};

use crate::trace::Trace;

pub(crate) type UnitId = u32;

type Driver = Arc<Mutex<Option<Waker>>>;

pub(crate) struct Engine {
    units: BTreeMap<UnitId, Unit>,
    next_unit: UnitId,
    random: SeededRandom,
    trace: Trace,
    driver: Driver,
}

struct Unit {
    tasks: LocalSet,
    flag: Arc<Flag>,
    is_stopped: bool,
}

/// Raised when a unit has something to do.
struct Flag {
    is_raised: AtomicBool,
    driver: Driver,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.is_raised.store(true, Ordering::Relaxed);
        let driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner).take();
        driver.into_iter().for_each(Waker::wake);
    }
}

impl Engine {
    pub(crate) fn new(random: SeededRandom, trace: Trace) -> Engine {
        Engine {
            units: BTreeMap::new(),
            next_unit: 0,
            random,
            trace,
            driver: Driver::default(),
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the first task of a unit; it begins the others as a core does"
    )]
    pub(crate) fn add(&mut self, task: impl Future<Output = ()> + 'static) -> UnitId {
        let tasks = LocalSet::new();
        tasks.spawn_local(task);
        let flag = Arc::new(Flag {
            is_raised: AtomicBool::new(true),
            driver: self.driver.clone(),
        });
        let id = self.next_unit;
        self.next_unit += 1;
        let unit = Unit {
            tasks,
            flag,
            is_stopped: false,
        };
        self.units.insert(id, unit);
        id
    }

    pub(crate) fn kill(&mut self, id: UnitId) {
        self.units.remove(&id);
    }

    pub(crate) fn stop(&mut self, id: UnitId, is_stopped: bool) {
        if let Some(unit) = self.units.get_mut(&id) {
            unit.is_stopped = is_stopped;
        }
    }

    /// Runs until `is_done`, which is asked after each step, and until `deadline` at most. Returns whether it came to be.
    pub(crate) async fn run(&mut self, deadline: Instant, is_done: impl Fn() -> bool) -> bool {
        let mut end = Box::pin(sleep_until(deadline));
        poll_fn(|context| {
            loop {
                if is_done() {
                    return Poll::Ready(true);
                }
                if Instant::now() >= deadline {
                    return Poll::Ready(false);
                }
                if !self.step() {
                    *self.driver.lock().unwrap_or_else(PoisonError::into_inner) =
                        Some(context.waker().clone());
                    return end.as_mut().poll(context).map(|()| is_done());
                }
            }
        })
        .await
    }

    fn step(&mut self) -> bool {
        let is_ready = |unit: &Unit| !unit.is_stopped && unit.flag.is_raised.load(Ordering::Relaxed);
        let ready: Vec<UnitId> = self
            .units
            .iter()
            .filter(|(_, unit)| is_ready(unit))
            .map(|(id, _)| *id)
            .collect();
        if ready.is_empty() {
            return false;
        }
        let id = ready[self.random.below(ready.len() as u64) as usize];
        let unit = self.units.get_mut(&id).expect("it is ready");
        self.trace.step(id);
        unit.flag.is_raised.store(false, Ordering::Relaxed);
        let waker = Waker::from(unit.flag.clone());
        let _ = Pin::new(&mut unit.tasks).poll(&mut Context::from_waker(&waker));
        true
    }
}
