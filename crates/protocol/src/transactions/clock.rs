//! The time as a coordinator is told it: monotonic for all that waits, the wall clock's for records.
//!
//! A wall clock that jumps ends nothing: what began since the start is as old as monotonic time says, and what was read from
//! the log is as old as the least that the wall clock has shown since says.

use std::time::Duration;

use record::whole_ms;

/// See the module.
#[derive(Debug)]
pub(super) struct Clock {
    /// The latest moment told.
    now: Duration,
    /// The wall clock at `now` zero: the least that it showed since the start, and what it showed last.
    unix_ms_at_zero: [i64; 2],
}

impl Clock {
    pub(super) fn new(unix_ms_at_zero: i64) -> Clock {
        Clock {
            now: Duration::ZERO,
            unix_ms_at_zero: [unix_ms_at_zero; 2],
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.now
    }

    /// A clock that steps back is not believed.
    pub(super) fn advance(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// Takes what the clock on the wall shows at the latest moment told.
    pub(super) fn set_wall_clock(&mut self, unix_ms: i64) {
        let [least, _] = self.unix_ms_at_zero;
        let told = unix_ms.saturating_sub(whole_ms(self.now));
        self.unix_ms_at_zero = [least.min(told), told];
    }

    /// The moment as the clock on the wall shows it: only this goes into records.
    pub(super) fn unix_ms(&self) -> i64 {
        self.unix_ms_at_zero[1].saturating_add(whole_ms(self.now))
    }

    /// The time that has gone at least since a record was dated.
    pub(super) fn age_of(&self, dated_ms: i64) -> Duration {
        let now_ms = self.unix_ms_at_zero[0].saturating_add(whole_ms(self.now));
        Duration::from_millis(u64::try_from(now_ms.saturating_sub(dated_ms)).unwrap_or(0))
    }
}
