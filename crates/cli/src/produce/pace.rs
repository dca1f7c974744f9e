//! No more than so many records a second, counted from the first: what a slow broker held up is made good.

use std::time::{Duration, Instant};

pub(super) struct Pace {
    records_per_second: u64,
    began: Instant,
    taken: u64,
}

impl Pace {
    /// From `now` on. The rate is one at least.
    pub(super) fn new(records_per_second: u64, now: Instant) -> Pace {
        assert!(records_per_second > 0, "a rate of none would never end");
        Pace {
            records_per_second,
            began: now,
            taken: 0,
        }
    }

    /// Counts one more record, and tells how long it must wait.
    pub(super) fn take(&mut self, now: Instant) -> Duration {
        let seconds = self.taken / self.records_per_second;
        let rest = self.taken % self.records_per_second;
        // Below a second, so it fits; the product of two 64-bit numbers would not.
        let nanos = u128::from(rest) * 1_000_000_000 / u128::from(self.records_per_second);
        let nanos = u64::try_from(nanos).expect("less than a second");
        self.taken += 1;
        let due = Duration::from_secs(seconds) + Duration::from_nanos(nanos);
        due.saturating_sub(now.saturating_duration_since(self.began))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_due_evenly_and_delays_are_made_good() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let mut pace = Pace::new(4, began);
        assert_eq!(pace.take(at(0)), Duration::ZERO);
        assert_eq!(pace.take(at(0)), Duration::from_millis(250));
        assert_eq!(pace.take(at(400)), Duration::from_millis(100));
        assert_eq!(pace.take(at(2_000)), Duration::ZERO, "750 ms is past");
        assert_eq!(pace.take(at(2_000)), Duration::ZERO, "1 s is past");
        let mut fast = Pace::new(u64::MAX, began);
        assert_eq!(fast.take(at(0)), Duration::ZERO);
        assert_eq!(fast.take(at(0)), Duration::ZERO);
    }
}
