//! Looking for requests a little longer before a core's thread goes to sleep.
//!
//! To wake a thread takes several microseconds, more than most requests need on the core. While requests come within some
//! tens of microseconds after the answers before them, a core looks again instead of sleeping; when they do not, it
//! sleeps at once, so that an idle node uses no CPU. The task must not be a local one: only tasks of the runtime itself let
//! it look at the sockets each time that they yield.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use platform::clock::Clock;
use tokio::sync::Notify;

/// A longer gap counts as this long, so that one pause is soon forgotten.
const GAP_NS_MAX: u64 = 1_000_000;
/// The share of a new gap in the usual one.
const SMOOTHING: u64 = 8;

/// When a core's thread should stay awake. Touched by one thread; atomic only because the runtime's tasks must be `Send`.
pub(crate) struct IdlePoll {
    clock: Arc<dyn Clock>,
    /// The time for which a core looks in vain before it sleeps.
    limit_ns: u64,
    /// When a request came or an answer was written last.
    last_ns: AtomicU64,
    /// The time from there to the next request, smoothed.
    usual_gap_ns: AtomicU64,
    worth_it: Notify,
}

impl IdlePoll {
    /// Looks for at most `limit` in vain; zero never looks.
    pub(crate) fn new(clock: Arc<dyn Clock>, limit: Duration) -> Arc<IdlePoll> {
        Arc::new(IdlePoll {
            clock,
            limit_ns: nanoseconds(limit),
            last_ns: AtomicU64::new(0),
            usual_gap_ns: AtomicU64::new(GAP_NS_MAX),
            worth_it: Notify::new(),
        })
    }

    /// Says if it ever looks.
    pub(crate) fn looks(&self) -> bool {
        self.limit_ns > 0
    }

    /// Takes note that a request has come, and says when.
    pub(crate) fn note_request(&self) -> Duration {
        let now = self.clock.monotonic();
        let now_ns = nanoseconds(now);
        let gap = now_ns
            .saturating_sub(self.last_ns.swap(now_ns, Ordering::Relaxed))
            .min(GAP_NS_MAX);
        let usual = self.usual_gap_ns.load(Ordering::Relaxed);
        self.usual_gap_ns
            .store((usual * (SMOOTHING - 1) + gap) / SMOOTHING, Ordering::Relaxed);
        now
    }

    /// Takes note that an answer was written, and says when.
    pub(crate) fn note_answer(&self) -> Duration {
        let now = self.clock.monotonic();
        self.last_ns.store(nanoseconds(now), Ordering::Relaxed);
        if self.usual_gap_ns.load(Ordering::Relaxed) < self.limit_ns {
            self.worth_it.notify_one();
        }
        now
    }

    /// Keeps the thread that calls awake while it is worth it, for ever.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            self.worth_it.notified().await;
            while self.is_worth_it() {
                tokio::task::yield_now().await;
            }
        }
    }

    fn is_worth_it(&self) -> bool {
        let now_ns = nanoseconds(self.clock.monotonic());
        now_ns.saturating_sub(self.last_ns.load(Ordering::Relaxed)) < self.limit_ns
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct HandClock(Mutex<Duration>);

    impl Clock for HandClock {
        fn monotonic(&self) -> Duration {
            *self.0.lock().expect("nobody panicked")
        }
        fn wall_ms(&self) -> i64 {
            0
        }
    }

    impl HandClock {
        fn advance(&self, time: Duration) {
            *self.0.lock().expect("nobody panicked") += time;
        }
    }

    /// Requests so far apart from the answers before them; whether looking was worth it after the last.
    fn converse(poll: &IdlePoll, clock: &HandClock, gap: Duration, times: u32) -> bool {
        for _ in 0..times {
            clock.advance(gap);
            poll.note_request();
            clock.advance(Duration::from_micros(100));
            poll.note_answer();
        }
        use futures_util::FutureExt;
        let told = poll.worth_it.notified().now_or_never().is_some();
        told && poll.is_worth_it()
    }

    #[test]
    fn a_core_looks_on_while_requests_come_quickly() {
        let clock = Arc::new(HandClock::default());
        let poll = IdlePoll::new(clock.clone(), Duration::from_micros(50));
        assert!(
            !converse(&poll, &clock, Duration::from_millis(5), 3),
            "they are far apart"
        );
        assert!(converse(&poll, &clock, Duration::from_micros(20), 40));
        clock.advance(Duration::from_micros(50));
        assert!(!poll.is_worth_it(), "nothing came");
        assert!(
            !converse(&poll, &clock, Duration::from_millis(5), 3),
            "they are far apart again"
        );
    }

    #[test]
    fn with_no_time_to_look_it_never_does() {
        let clock = Arc::new(HandClock::default());
        let poll = IdlePoll::new(clock.clone(), Duration::ZERO);
        assert!(!converse(&poll, &clock, Duration::from_micros(1), 100));
    }
}
