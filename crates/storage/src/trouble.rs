//! A trouble that lasts, told as one: when it begins, at most once a minute while it goes on, and when it is over.
//!
//! Work that fails on a full disk fails again each time it is tried, and the log often lies on the same disk.

use std::time::Duration;

/// The least time between two lines about one trouble.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// See the module. Times are those of the monotonic clock.
#[derive(Debug, Default)]
pub struct Trouble {
    told_at: Option<Duration>,
    /// Somebody was told that it has begun, and not yet that it is over.
    is_told: bool,
    /// Failures since the last line.
    untold: u64,
}

impl Trouble {
    /// Takes note of a failure. If it is time for a line, returns how many failures that stands for, this one included.
    pub fn note(&mut self, now: Duration) -> Option<u64> {
        self.untold += 1;
        let is_due = self.told_at.is_none_or(|at| now.saturating_sub(at) >= TELL_EVERY);
        is_due.then(|| {
            self.told_at = Some(now);
            self.is_told = true;
            std::mem::take(&mut self.untold)
        })
    }

    /// Takes note that it is over. Returns whether that is to be told: not of a trouble that was too short for a line.
    pub fn end(&mut self) -> bool {
        self.untold = 0;
        std::mem::take(&mut self.is_told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_trouble_is_told_once_then_counted_each_minute_and_its_end_is_told() {
        let mut trouble = Trouble::default();
        assert!(!trouble.end(), "there was none");
        let told: Vec<_> = (0..130)
            .filter_map(|second| Some((second, trouble.note(second * SECOND)?)))
            .collect();
        assert_eq!(told, [(0, 1), (60, 60), (120, 60)]);
        assert!(trouble.end());
        assert!(!trouble.end(), "once");
    }

    #[test]
    fn one_that_comes_and_goes_is_told_once_a_minute_at_most() {
        let mut trouble = Trouble::default();
        let mut lines = 0;
        for second in 0..600 {
            lines += u32::from(trouble.note(second * SECOND).is_some());
            lines += u32::from(trouble.end());
        }
        assert_eq!(lines, 20, "ten begin, and ten end");
    }
}
