//! No more than so many records a second, counted from the first: what a slow broker held up is made good.
//!
//! Up to a second of it. An input that was silent has held up nothing, and from here the two look alike.

use std::time::{Duration, Instant};

/// A producer that is further behind begins anew.
const BEHIND_MAX: Duration = Duration::from_secs(1);

pub(super) struct Pace {
    records_per_second: u64,
    /// When the first of `taken` was; `None` before it.
    began: Option<Instant>,
    taken: u64,
}

impl Pace {
    /// From the first record on. The rate is one at least.
    pub(super) fn new(records_per_second: u64) -> Pace {
        assert!(records_per_second > 0, "a rate of none would never end");
        Pace {
            records_per_second,
            began: None,
            taken: 0,
        }
    }

    /// Counts one more record, and tells how long it must wait.
    pub(super) fn take(&mut self, now: Instant) -> Duration {
        let passed = self.began.map(|began| now.saturating_duration_since(began));
        let due = self.next_due();
        match passed {
            Some(passed) if passed <= due + BEHIND_MAX => {
                self.taken += 1;
                due.saturating_sub(passed)
            }
            _ => {
                (self.began, self.taken) = (Some(now), 1);
                Duration::ZERO
            }
        }
    }

    /// When the next record is due, after the first.
    fn next_due(&self) -> Duration {
        let seconds = self.taken / self.records_per_second;
        let rest = self.taken % self.records_per_second;
        // Below a second, so it fits; the product of two 64-bit numbers would not.
        let nanos = u128::from(rest) * 1_000_000_000 / u128::from(self.records_per_second);
        let nanos = u64::try_from(nanos).expect("less than a second");
        Duration::from_secs(seconds) + Duration::from_nanos(nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_due_evenly_and_delays_are_made_good() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let mut pace = Pace::new(4);
        assert_eq!(pace.take(at(0)), Duration::ZERO);
        assert_eq!(pace.take(at(0)), Duration::from_millis(250));
        assert_eq!(pace.take(at(400)), Duration::from_millis(100));
        assert_eq!(pace.take(at(1_250)), Duration::ZERO, "750 ms is past");
        assert_eq!(pace.take(at(1_250)), Duration::ZERO, "1 s is past");
        assert_eq!(pace.take(at(1_250)), Duration::ZERO, "1.25 s is now");
        assert_eq!(pace.take(at(1_250)), Duration::from_millis(250));
        let mut fast = Pace::new(u64::MAX);
        assert_eq!(fast.take(at(0)), Duration::ZERO);
        assert_eq!(fast.take(at(0)), Duration::ZERO);
    }

    #[test]
    fn silence_earns_nothing() {
        let began = Instant::now();
        let mut pace = Pace::new(4);
        // Before the first record, and between two.
        for seconds in [10, 3_600] {
            let now = began + Duration::from_secs(seconds);
            for wait in [0, 250, 500] {
                assert_eq!(pace.take(now), Duration::from_millis(wait), "after {seconds} s");
            }
        }
    }
}
