//! The time that producers go by: the machine's, but in tests, where it goes on when somebody waits.

use std::time::{Duration, Instant};

/// A clock, and what waits by it.
pub(crate) trait Time: Sync {
    fn now(&self) -> Instant;

    /// Waits for so long, asleep.
    fn sleep(&self, time: Duration);

    /// Waits for a moment, awake: what a processor takes to look again.
    fn spin(&self);
}

pub(crate) struct MachineTime;

impl Time for MachineTime {
    #[inline]
    fn now(&self) -> Instant {
        Instant::now()
    }

    #[inline]
    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }

    #[inline]
    fn spin(&self) {
        std::hint::spin_loop();
    }
}
