//! Runs many small worlds in one thread: each unit (a core, a client) has tasks of its own, and which unit runs next is drawn from the
//! seed. Time stands still while anything can run, and then jumps to the next timer.
//!
//! A unit is a `LocalSet`. Dropping it ends all its tasks where they are, as a kill does; leaving it unpolled is a process that is
//! stopped. Nothing here knows what a unit does.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    ready: Arc<Ready>,
}

struct Unit {
    tasks: LocalSet,
    waker: Waker,
    is_stopped: bool,
}

/// The units that have something to do, stopped ones too.
#[derive(Default)]
struct Ready(Mutex<Woken>);

#[derive(Default)]
struct Woken {
    units: BTreeSet<UnitId>,
    /// Wakes the engine itself.
    driver: Option<Waker>,
}

impl Ready {
    fn lock(&self) -> MutexGuard<'_, Woken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes one unit.
struct Wakes {
    unit: UnitId,
    ready: Arc<Ready>,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut woken = self.ready.lock();
        woken.units.insert(self.unit);
        let driver = woken.driver.take();
        drop(woken);
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
            ready: Arc::default(),
        }
    }

    /// Adds a unit that begins with this task.
    pub(crate) fn add(&mut self, task: impl Future<Output = ()> + 'static) -> UnitId {
        let tasks = LocalSet::new();
        tasks.spawn_local(task);
        let id = self.next_unit;
        self.next_unit += 1;
        let waker = Waker::from(Arc::new(Wakes {
            unit: id,
            ready: self.ready.clone(),
        }));
        self.ready.lock().units.insert(id);
        self.units.insert(
            id,
            Unit {
                tasks,
                waker,
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
                    self.ready.lock().driver = Some(context.waker().clone());
                    return end.as_mut().poll(context).map(|()| is_done());
                }
            }
        })
        .await
    }

    /// Polls one unit of those that have something to do; false if none has.
    fn step(&mut self) -> bool {
        let mut woken = self.ready.lock();
        // What was killed may be woken still.
        woken.units.retain(|id| self.units.contains_key(id));
        let mut able = woken.units.iter().filter(|id| !self.units[id].is_stopped);
        let count = able.clone().count() as u64;
        if count == 0 {
            return false;
        }
        let place = self.random.below(count) as usize;
        let id = *able.nth(place).expect("it was counted");
        woken.units.remove(&id);
        drop(woken);
        self.trace.note_step(id);
        let unit = self.units.get_mut(&id).expect("it is one of them");
        // What is over has nothing to do any more, and is not woken again.
        let _ = Pin::new(&mut unit.tasks).poll(&mut Context::from_waker(&unit.waker));
        true
    }
}
