//! Runs many small worlds in one thread: each unit (a core, a client) has tasks of its own, and which unit runs next is drawn from the
//! seed. Time stands still while anything can run, and then jumps to the next timer.
//!
//! A unit is a `LocalSet`. Dropping it ends all its tasks where they are, as a kill does; leaving it unpolled is a process that is
//! stopped. Nothing here knows what a unit does.

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

/// Names a unit of one engine.
pub(crate) type UnitId = u32;

/// Units that run in one thread, one at a time.
pub(crate) struct Engine {
    units: BTreeMap<UnitId, Unit>,
    next_unit: UnitId,
    random: SeededRandom,
    trace: Trace,
    /// Wakes the engine itself.
    driver: Arc<Mutex<Option<Waker>>>,
}

struct Unit {
    tasks: LocalSet,
    flag: Arc<Flag>,
    is_stopped: bool,
}

/// Raised when a unit has something to do.
struct Flag {
    is_ready: AtomicBool,
    driver: Arc<Mutex<Option<Waker>>>,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.is_ready.store(true, Ordering::Relaxed);
        let driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner).take();
        driver.into_iter().for_each(Waker::wake);
    }
}

impl Engine {
    /// An engine without units.
    pub(crate) fn new(random: SeededRandom, trace: Trace) -> Engine {
        Engine {
            units: BTreeMap::new(),
            next_unit: 0,
            random,
            trace,
            driver: Arc::default(),
        }
    }

    /// Adds a unit that begins with this task.
    pub(crate) fn add(&mut self, task: impl Future<Output = ()> + 'static) -> UnitId {
        let tasks = LocalSet::new();
        tasks.spawn_local(task);
        let flag = Flag {
            is_ready: AtomicBool::new(true),
            driver: self.driver.clone(),
        };
        let id = self.next_unit;
        self.next_unit += 1;
        self.units.insert(
            id,
            Unit {
                tasks,
                flag: Arc::new(flag),
                is_stopped: false,
            },
        );
        id
    }

    /// Ends a unit where it is.
    pub(crate) fn kill(&mut self, id: UnitId) {
        self.units.remove(&id);
    }

    /// Stops a unit, or has it go on.
    pub(crate) fn stop(&mut self, id: UnitId, is_stopped: bool) {
        if let Some(unit) = self.units.get_mut(&id) {
            unit.is_stopped = is_stopped;
        }
    }

    /// Runs until a moment.
    pub(crate) async fn run_until(&mut self, moment: Instant) {
        self.run(moment, || false).await;
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

    /// Polls one unit of those that have something to do; false if none has.
    fn step(&mut self) -> bool {
        let ready = |unit: &Unit| !unit.is_stopped && unit.flag.is_ready.load(Ordering::Relaxed);
        let count = self.units.values().filter(|unit| ready(unit)).count() as u64;
        if count == 0 {
            return false;
        }
        let place = self.random.below(count) as usize;
        let mut all = self.units.iter_mut().filter(|(_, unit)| ready(unit));
        let (id, unit) = all.nth(place).expect("it was counted");
        self.trace.note_step(*id);
        unit.flag.is_ready.store(false, Ordering::Relaxed);
        let waker = Waker::from(unit.flag.clone());
        // What is over has nothing to do any more, and is not woken again.
        let _ = Pin::new(&mut unit.tasks).poll(&mut Context::from_waker(&waker));
        true
    }
}
