//! A panic of the background, or of whoever has the state: nobody waits for ever, what is stored is read, and the directory is
//! let go of, when nobody writes to it any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use platform::clock::{Clock, SystemClock};
use platform::disk::SimulatedDisk;
use platform::threads;

use super::gate::Gate;
use super::rig::{log, open, settings, value, values};
use crate::engine::Phase;
use crate::{AppendError, Log, Logs, Offset};

/// A clock at whose sight the background panics when it is told to.
#[derive(Default)]
struct FrighteningClock {
    system: SystemClock,
    /// Asked for before a layout is planned, without the state.
    frightens_by_wall: AtomicBool,
    /// Asked for while a checkpoint is planned, with the state.
    frightens_by_monotonic: AtomicBool,
}

impl Clock for FrighteningClock {
    fn monotonic(&self) -> Duration {
        frighten(&self.frightens_by_monotonic);
        self.system.monotonic()
    }

    fn wall_ms(&self) -> i64 {
        frighten(&self.frightens_by_wall);
        self.system.wall_ms()
    }
}

fn frighten(wanted: &AtomicBool) {
    let is_background = std::thread::current().name() == Some("ropewalk-logs");
    assert!(
        !(is_background && wanted.load(Ordering::SeqCst)),
        "the test wants this panic"
    );
}

fn open_with(disk: &SimulatedDisk, clock: &Arc<FrighteningClock>) -> Logs {
    Logs::open_on(Arc::new(disk.clone()), clock.clone(), settings()).expect("nothing is wrong with the disk")
}

#[test]
fn without_a_background_appends_are_refused_when_there_is_no_room() {
    let disk = SimulatedDisk::new();
    let clock = Arc::new(FrighteningClock::default());
    let logs = open_with(&disk, &clock);
    let orders = log(&logs, "orders");
    clock.frightens_by_wall.store(true, Ordering::SeqCst);
    let mut appends = (0..10_000).map(|number| orders.append(&value(number, 3_000)));
    let refusal = appends.find_map(Result::err);
    let refusal = refusal.expect("nothing is laid out, and the journal is small");
    assert!(
        matches!(&refusal, AppendError::Dead { reason } if reason.contains("panic")),
        "{refusal}"
    );
    assert_eq!(orders.append(&value(0, 3_000)), Err(refusal));
    let stored = values(&orders);
    assert_eq!(orders.tail(), Offset(stored.len() as i64));
    logs.close();
    assert!(values(&log(&open(&disk), "orders")) == stored);
}

#[test]
fn half_a_change_ends_all_calls_but_closing() {
    let disk = SimulatedDisk::new();
    let clock = Arc::new(FrighteningClock::default());
    let logs = open_with(&disk, &clock);
    let orders = log(&logs, "orders");
    clock.frightens_by_monotonic.store(true, Ordering::SeqCst);
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let (appender, count) = (orders.clone(), acknowledged.clone());
    let appending = threads::spawn("test", move || {
        for number in 0..10_000 {
            if appender.append(&value(number, 3_000)).is_err() {
                return;
            }
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let ended = appending.expect("the system has threads").join();
    assert!(ended.is_err(), "an append panics as the background did");
    logs.close();
    let again = open(&disk);
    let found = values(&log(&again, "orders")).len();
    assert!(found >= acknowledged.load(Ordering::SeqCst), "{found}");
    drop(orders);
}

/// Panics with the state, as a mistake in a change would.
fn change_half(orders: &Log) {
    let orders = orders.clone();
    let changing = threads::spawn("test", move || {
        let _state = orders.owner.engine.state();
        panic!("the test wants this panic");
    });
    assert!(changing.expect("the system has threads").join().is_err());
}

#[test]
fn whoever_waits_panics_with_half_a_change_and_closing_waits_for_the_flush_under_way() {
    let disk = SimulatedDisk::new();
    let logs = open(&disk);
    let orders = log(&logs, "orders");
    let engine = orders.owner.engine.clone();
    let gate = Gate::before(&disk);
    gate.close();
    let append = |number| {
        let orders = orders.clone();
        threads::spawn("test", move || orders.append(&value(number, 100))).expect("the system has threads")
    };
    let flushing = append(0);
    gate.until_one_waits();
    let behind = append(1);
    let mut follower = orders.follow(Offset(0)).expect("its place is known");
    let following = threads::spawn("test", move || follower.next());
    while engine.state().followers == 0 || engine.state().store.staged_before() < 2 {
        std::thread::yield_now();
    }
    change_half(&orders);
    assert!(behind.join().is_err(), "nobody flushes for it any more");
    assert!(following.expect("the system has threads").join().is_err());
    let closing = threads::spawn("test", move || logs.close());
    while engine.state_to_end().phase == Phase::Open {
        std::thread::yield_now();
    }
    // So that it might have gone on, if it does not wait.
    (0..1_000).for_each(|_| std::thread::yield_now());
    assert_ne!(engine.state_to_end().phase, Phase::Closed, "a flush is under way");
    gate.open();
    assert!(flushing.join().is_err());
    let closed = closing.expect("the system has threads").join();
    closed.expect("it does not panic");
    let again = open(&disk);
    assert!(values(&log(&again, "orders")).len() <= 2);
}
