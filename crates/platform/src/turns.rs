//! The turns of a core's tasks, and how much processor time each takes.
//!
//! A turn is one poll of one task: until it ends, nothing else that the core has to do is done. All tasks of a core are begun
//! by `spawn`, which meters them; a turn that took more than `LONG` of the thread's own processor time is counted and told in
//! the log. Time in which the thread does not run, on a busy machine or in a system call that waits, does not count.

use std::cell::{Cell, OnceCell};
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::clock::Clock;
use crate::slices::{Origin, WorkFor, work_for};
use crate::{slices, threads};
use pin_project_lite::pin_project;
use tokio::task::JoinHandle;

/// A longer turn is one too many.
pub const LONG: Duration = Duration::from_millis(20);
/// Work that is begun in one turn, in bytes that are looked through: a millisecond or two, and well below `LONG` for whatever
/// bytes a client may choose.
pub const TURN_BYTES: usize = 2 << 20;
/// The greatest age of the last reading of the processor time when a turn begins. The time that was used since is not the
/// turn's, so a turn must be so much longer to count for sure.
const READING_AGE_MAX: Duration = Duration::from_millis(2);
/// The log tells of at most one long turn in so long.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// The long turns of one core, as any thread may see them.
#[derive(Debug, Default)]
pub struct LongTurns {
    count: AtomicU64,
    longest_ns: AtomicU64,
}

impl LongTurns {
    /// The number of long turns since the node began to serve.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The processor time of the longest; zero if there was none.
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest_ns.load(Ordering::Relaxed))
    }

    /// Only the core itself writes.
    fn note(&self, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.longest_ns.fetch_max(took_ns, Ordering::Relaxed);
    }
}

/// The long turns of a node's cores. Outlives the node.
#[derive(Debug, Clone)]
pub struct Turns {
    of_cores: Vec<Arc<LongTurns>>,
}

impl Turns {
    /// As many cores, none of which has had a turn.
    pub fn of(cores: usize) -> Turns {
        Turns {
            of_cores: (0..cores).map(|_| Arc::default()).collect(),
        }
    }

    /// The long turns of one core.
    pub fn of_core(&self, core: usize) -> Arc<LongTurns> {
        Arc::clone(&self.of_cores[core])
    }

    /// The number of turns on all cores that took more than 20 ms of processor time since the node began to serve.
    pub fn long(&self) -> u64 {
        self.of_cores.iter().map(|core| core.count()).sum()
    }

    /// The processor time of the longest of them; zero if there was none.
    pub fn longest(&self) -> Duration {
        let longest = self.of_cores.iter().map(|core| core.longest());
        longest.max().unwrap_or_default()
    }
}

/// When and at what processor time something was.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Duration,
    cpu: Duration,
}

/// Meters the turns of the thread that it belongs to.
///
/// The processor time is read with a system call, so the clock goes first: no turn took more processor time than time.
struct Meter {
    core: usize,
    clock: Arc<dyn Clock>,
    long: Arc<LongTurns>,
    /// Until the node serves, nobody waits for the core.
    counts: Cell<bool>,
    /// When the last turn ended. The next one begins then or later.
    ended: Cell<Duration>,
    /// At most `READING_AGE_MAX` before that.
    reading: Cell<Reading>,
    tells_from: Cell<Duration>,
}

thread_local! {
    /// The meter of a core's thread, whose tasks are begun in many places; a thread that is no core's has none.
    static METER: OnceCell<Meter> = const { OnceCell::new() };
    /// Work that was done in the turn under way, in bytes.
    static SPENT_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// Counts work to the turn under way: bytes that were looked through, or what takes as long as so many.
pub fn spend(bytes: usize) {
    SPENT_BYTES.set(SPENT_BYTES.get().saturating_add(bytes));
}

/// Says whether the turn under way has done so much that others should have theirs before more is begun.
pub fn is_spent() -> bool {
    SPENT_BYTES.get() >= TURN_BYTES
}

impl Meter {
    fn new(core: usize, clock: Arc<dyn Clock>, long: Arc<LongTurns>) -> Meter {
        let now = clock.monotonic();
        Meter {
            core,
            clock,
            long,
            counts: Cell::new(false),
            ended: Cell::new(now),
            reading: Cell::new(Reading {
                at: now,
                cpu: threads::cpu_time(),
            }),
            tells_from: Cell::new(Duration::ZERO),
        }
    }

    fn begin(&self) {
        self.counts.set(true);
        let now = self.clock.monotonic();
        self.ended.set(now);
        self.read(now);
    }

    fn read(&self, now: Duration) -> Reading {
        let reading = Reading {
            at: now,
            cpu: threads::cpu_time(),
        };
        self.reading.set(reading);
        reading
    }

    /// A turn of a task that was begun at `begun_at` has ended.
    fn note(&self, begun_at: &Location<'_>) {
        let now = self.clock.monotonic();
        let earlier = self.reading.get();
        let began = self.ended.replace(now);
        if now.saturating_sub(earlier.at) < READING_AGE_MAX {
            return;
        }
        let reading = self.read(now);
        let used = reading.cpu.saturating_sub(earlier.cpu);
        // Turns before this one may have used as much as there was time.
        let took = used.saturating_sub(began.saturating_sub(earlier.at));
        if took > LONG && self.counts.get() {
            self.long.note(took);
            self.tell(now, took, begun_at);
        }
    }

    fn tell(&self, now: Duration, took: Duration, begun_at: &Location<'_>) {
        if now < self.tells_from.get() {
            return;
        }
        self.tells_from.set(now + TELL_EVERY);
        tracing::warn!(
            core = self.core,
            cpu_ms = took.as_millis() as u64,
            long_turns = self.long.count(),
            task = %begun_at,
            "a task kept its core to itself for long; other clients of the core waited meanwhile"
        );
    }
}

/// Has the calling thread's turns metered, as those of a core. They count from `begin_to_count` on.
pub fn meter_this_thread(core: usize, clock: Arc<dyn Clock>, long: Arc<LongTurns>) {
    METER.with(|meter| {
        meter.get_or_init(|| Meter::new(core, clock, long));
    });
}

/// The node serves now: from here on long turns of the calling thread count.
pub fn begin_to_count() {
    METER.with(|meter| meter.get().into_iter().for_each(Meter::begin));
}

pin_project! {
    /// A task whose turns are metered.
    struct Metered<F> {
        #[pin]
        task: WorkFor<F>,
        begun_at: &'static Location<'static>,
    }
}

impl<F: Future> Future for Metered<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        slices::begin_of_turn();
        let polled = this.task.poll(context);
        slices::end_of_turn();
        SPENT_BYTES.set(0);
        METER.with(|meter| {
            meter
                .get()
                .into_iter()
                .for_each(|meter| meter.note(this.begun_at))
        });
        polled
    }
}

/// The same task with its turns metered; a long one is told with the place of this call.
#[track_caller]
pub fn metered<F: Future>(task: F) -> impl Future<Output = F::Output> {
    Metered {
        task: work_for(Origin::current(), task),
        begun_at: Location::caller(),
    }
}

/// Begins a task of the core that calls. It works for the same request as the present turn. Every task of a core begins here.
#[track_caller]
pub fn spawn<F>(task: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    spawn_from(Location::caller(), task)
}

/// The same for a task that goes on when the present request is answered: it is the node's own.
#[track_caller]
pub fn spawn_own<F>(task: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    spawn_from(Location::caller(), work_for(None, task))
}

/// The same for a task that is wanted elsewhere: a long turn is told with that place.
pub fn spawn_from<F>(begun_at: &'static Location<'static>, task: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let task = work_for(Origin::current(), task);
    tokio::task::spawn_local(Metered { task, begun_at })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use crate::clock::SystemClock;
    use tokio::task::LocalSet;

    use super::*;

    /// Runs a task on a metered thread and returns what was counted.
    fn turns_of<F: Future<Output = ()> + 'static>(
        counts: bool,
        task: impl FnOnce() -> F + Send + 'static,
    ) -> Turns {
        let turns = Turns::of(1);
        let long = turns.of_core(0);
        let thread = threads::spawn("metered", move || {
            meter_this_thread(0, Arc::new(SystemClock::new()), long);
            if counts {
                begin_to_count();
            }
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime");
            LocalSet::new().block_on(&runtime, async move { spawn(task()).await.expect("no panic") });
        });
        thread.expect("a thread").join().expect("no panic");
        turns
    }

    #[test]
    fn each_turn_has_as_much_to_spend() {
        turns_of(false, || async {
            for _ in 0..3 {
                spend(TURN_BYTES - 1);
                assert!(!is_spent());
                spend(1);
                assert!(is_spent());
                tokio::task::yield_now().await;
            }
            assert!(!is_spent());
        });
    }

    fn work(time: Duration) {
        let begun = threads::cpu_time();
        while threads::cpu_time() - begun < time {}
    }

    /// Waits without working.
    fn block(time: Duration) {
        let (_sender, nothing) = mpsc::channel::<()>();
        assert!(nothing.recv_timeout(time).is_err());
    }

    #[test]
    fn a_turn_of_much_work_is_long() {
        let turns = turns_of(true, || async {
            work(LONG * 2);
            tokio::task::yield_now().await;
            work(LONG * 3);
        });
        assert_eq!(turns.long(), 2);
        assert!(turns.longest() > LONG * 2);
    }

    #[test]
    fn a_turn_that_waits_is_not() {
        let turns = turns_of(true, || async { block(LONG * 3) });
        assert_eq!((turns.long(), turns.longest()), (0, Duration::ZERO));
    }

    #[test]
    fn much_work_in_many_turns_is_not() {
        let turns = turns_of(true, || async {
            for _ in 0..20 {
                work(LONG / 10);
                tokio::task::yield_now().await;
            }
            // As much time has passed, and none of it worked.
            block(LONG * 2);
            tokio::task::yield_now().await;
            work(LONG / 2);
        });
        assert_eq!((turns.long(), turns.longest()), (0, Duration::ZERO));
    }

    #[test]
    fn before_the_node_serves_nothing_counts() {
        let turns = turns_of(false, || async { work(LONG * 2) });
        assert_eq!(turns.long(), 0);
    }
}
