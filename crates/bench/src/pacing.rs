//! When the next request is due, for runs at a fixed rate.
//!
//! Due times are fixed in advance: a broker that stalls does not slow the schedule down, and the requests that were held
//! up by it count from when they should have been sent. (A loop that waits for each answer asks fewer questions while the
//! broker is slow, and so leaves out the bad latencies: "coordinated omission", Gil Tene.)

use std::time::Duration;

/// The schedule of one producer: request `n` is due at `first + n * interval`.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    first: Duration,
    interval_ns: f64,
    sent: u64,
}

impl Pace {
    /// The schedule of producer `index` of `producers`, which together make `requests_per_s` from `start` on. Producers
    /// take turns, so that no two requests are due at once.
    pub(crate) fn new(start: Duration, requests_per_s: f64, index: usize, producers: usize) -> Pace {
        assert!(requests_per_s > 0.0, "a schedule has a rate");
        let between_ns = 1e9 / requests_per_s;
        Pace {
            first: start + Duration::from_nanos((between_ns * index as f64) as u64),
            interval_ns: between_ns * producers as f64,
            sent: 0,
        }
    }

    /// When the next request should be sent, on the clock of `start`.
    pub(crate) fn due(&self) -> Duration {
        // From the first each time: adding up a rounded interval would drift.
        self.first + Duration::from_nanos((self.interval_ns * self.sent as f64) as u64)
    }

    /// How long that is from `now`; zero if it is due or late.
    pub(crate) fn wait(&self, now: Duration) -> Duration {
        self.due().saturating_sub(now)
    }

    /// Says that the due request was sent.
    pub(crate) fn advance(&mut self) {
        self.sent += 1;
    }
}

#[cfg(test)]
mod tests {
    use platform::clock::{Clock, ManualClock};

    use super::*;

    #[test]
    fn requests_are_due_at_their_times_however_late_the_last_was() {
        let clock = ManualClock::new(0);
        clock.advance(Duration::from_secs(5));
        let mut pace = Pace::new(clock.monotonic(), 1_000.0, 0, 1);
        assert_eq!(pace.wait(clock.monotonic()), Duration::ZERO);
        pace.advance();
        assert_eq!(pace.wait(clock.monotonic()), Duration::from_millis(1));

        // A stall of ten requests: all of them are due, each since its own time.
        clock.advance(Duration::from_millis(10));
        let mut lateness = Vec::new();
        while pace.wait(clock.monotonic()).is_zero() {
            lateness.push((clock.monotonic() - pace.due()).as_millis());
            pace.advance();
        }
        assert_eq!(lateness, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
    }

    #[test]
    fn producers_take_turns_and_make_the_rate_together() {
        let start = Duration::from_secs(1);
        let mut due = Vec::new();
        for index in 0..3 {
            let mut pace = Pace::new(start, 3_000.0, index, 3);
            for _ in 0..1_000 {
                due.push(pace.due());
                pace.advance();
            }
        }
        due.sort_unstable();
        assert_eq!(due[0], start);
        let last = Duration::from_secs(2) - Duration::from_nanos(333_333);
        assert!(due[2_999].abs_diff(last) < Duration::from_micros(1));
        let widest = due.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(widest < Some(Duration::from_nanos(333_400)));
    }

    #[test]
    fn a_long_run_does_not_drift() {
        let mut pace = Pace::new(Duration::ZERO, 30_000.0, 0, 1);
        for _ in 0..30_000 * 3_600 {
            pace.advance();
        }
        assert!(pace.due().abs_diff(Duration::from_secs(3_600)) < Duration::from_micros(1));
    }
}
