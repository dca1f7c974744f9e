//! Time, as an argument: whoever needs it is given a `Clock`, so that a simulation can be the one who turns it.
//!
//! Monotonic time orders and measures; wall time is only ever shown or stored, never compared for safety.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// A source of time.
pub trait Clock: Send + Sync + 'static {
    /// Time since the clock was made, also while the machine sleeps. Never goes back.
    fn monotonic(&self) -> Duration;

    /// Milliseconds since 1970 (UTC), negative before. May jump in either direction.
    fn wall_ms(&self) -> i64;
}

/// The operating system's clocks.
#[derive(Debug, Clone)]
pub struct SystemClock {
    start: Duration,
}

/// Time since the machine was started.
fn boot_time() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).expect("a machine does not run before it was started");
    let nanos = u32::try_from(now.tv_nsec).expect("a part of a second");
    Duration::new(seconds, nanos)
}

impl SystemClock {
    /// A clock whose monotonic time starts now.
    pub fn new() -> SystemClock {
        SystemClock { start: boot_time() }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn monotonic(&self) -> Duration {
        boot_time() - self.start
    }

    fn wall_ms(&self) -> i64 {
        let now = SystemTime::now();
        let ms = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        match now.duration_since(UNIX_EPOCH) {
            Ok(after) => ms(after),
            Err(before) => -ms(before.duration()),
        }
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct ManualClock {
    now: Mutex<ManualTime>,
}

#[derive(Debug, Clone, Copy)]
struct ManualTime {
    monotonic: Duration,
    wall_ms: i64,
}

impl ManualClock {
    /// A clock at monotonic zero and the given wall time.
    pub fn new(wall_ms: i64) -> ManualClock {
        ManualClock {
            now: Mutex::new(ManualTime {
                monotonic: Duration::ZERO,
                wall_ms,
            }),
        }
    }

    /// Moves both times on by whole milliseconds of `by`; monotonic time keeps the fraction too.
    pub fn advance(&self, by: Duration) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let before_ms = now.monotonic.as_millis();
        now.monotonic = now.monotonic.saturating_add(by);
        // The fractions add up in the monotonic time, so many small steps move the wall as far as one large one.
        let passed_ms = now.monotonic.as_millis() - before_ms;
        now.wall_ms = now
            .wall_ms
            .saturating_add(i64::try_from(passed_ms).unwrap_or(i64::MAX));
    }

    /// Makes the wall clock jump, in either direction; monotonic time does not notice.
    pub fn set_wall_ms(&self, wall_ms: i64) {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).wall_ms = wall_ms;
    }
}

impl Clock for ManualClock {
    fn monotonic(&self) -> Duration {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).monotonic
    }

    fn wall_ms(&self) -> i64 {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).wall_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_time_is_this_century_and_does_not_go_back() {
        let clock = SystemClock::new();
        assert!(clock.wall_ms() > 1_600_000_000_000);
        let first = clock.monotonic();
        assert!(clock.monotonic() >= first);
    }

    #[test]
    fn manual_time_moves_only_when_told() {
        let clock = ManualClock::new(1_000);
        assert_eq!((clock.monotonic(), clock.wall_ms()), (Duration::ZERO, 1_000));
        for _ in 0..4 {
            clock.advance(Duration::from_micros(500));
        }
        assert_eq!(
            (clock.monotonic(), clock.wall_ms()),
            (Duration::from_millis(2), 1_002)
        );
        clock.set_wall_ms(-7);
        assert_eq!(
            (clock.monotonic(), clock.wall_ms()),
            (Duration::from_millis(2), -7)
        );
    }
}
