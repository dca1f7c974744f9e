//! Says whether the wall clock may be believed for deletion by age.
//!
//! Invariant: what a wall clock that has jumped forward calls old is not deleted until the clock has gone on without another
//! jump for `retention.clock_jump_wait`. A jump shows beside the monotonic clock while the node runs, and at a start beside the
//! time that the node stored while it last ran. It stores only times that it believes. A node that was merely switched off waits
//! as long once, then deletes what is old.

use std::time::Duration;

use record::whole_ms;

/// The least jump that is one: corrections of a clock that is right are far smaller.
const JUMP_MS: i64 = 10 * 60 * 1_000;
/// The least time between the stored one and a start that is taken for a jump.
const GAP_AT_START_MS: i64 = 60 * 60 * 1_000;
/// The time after which the clock is stored anew: so much less than the gap at a start that a restart is no jump, even of a node
/// that died.
const STORE_EVERY: Duration = Duration::from_secs(10 * 60);

/// The outcome of a look at the clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// The wall clock may be believed.
    Trusted,
    /// The same, from now on again.
    TrustedAgain,
    /// It has just jumped by so much.
    Jumped { ahead_ms: i64 },
    /// It jumped before, and has not gone on for long enough since.
    Held,
}

/// See the module.
pub(crate) struct ClockGuard {
    wait: Duration,
    /// Both clocks at the last look; at first, the stored time.
    monotonic: Duration,
    wall_ms: i64,
    jump_ms: i64,
    held_until: Option<Duration>,
    /// When the clock was stored last, by the monotonic one.
    stored_at: Option<Duration>,
}

impl ClockGuard {
    /// `last_ran_ms` is the time that was stored before the start at `now`, if one was.
    pub(crate) fn new(now: Duration, wall_ms: i64, last_ran_ms: Option<i64>, wait: Duration) -> ClockGuard {
        ClockGuard {
            wait,
            monotonic: now,
            wall_ms: last_ran_ms.unwrap_or(wall_ms),
            jump_ms: GAP_AT_START_MS,
            held_until: None,
            stored_at: None,
        }
    }

    /// Returns true if the clock is to be stored now: it is believed, and was not stored for long.
    pub(crate) fn is_to_be_stored(&mut self, now: Duration) -> bool {
        let is_due = self
            .stored_at
            .is_none_or(|at| now.saturating_sub(at) >= STORE_EVERY);
        let is_wanted = is_due && self.held_until.is_none();
        if is_wanted {
            self.stored_at = Some(now);
        }
        is_wanted
    }

    /// Looks at both clocks.
    pub(crate) fn look(&mut self, now: Duration, wall_ms: i64) -> Judgement {
        let expected_ms = self
            .wall_ms
            .saturating_add(whole_ms(now.saturating_sub(self.monotonic)));
        let ahead_ms = wall_ms.saturating_sub(expected_ms);
        let has_jumped = ahead_ms >= self.jump_ms && !self.wait.is_zero();
        (self.monotonic, self.wall_ms, self.jump_ms) = (now, wall_ms, JUMP_MS);
        if has_jumped {
            self.held_until = Some(now + self.wait);
            return Judgement::Jumped { ahead_ms };
        }
        match self.held_until {
            None => Judgement::Trusted,
            Some(until) if now < until => Judgement::Held,
            Some(_) => {
                self.held_until = None;
                Judgement::TrustedAgain
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
    const MINUTE: Duration = Duration::from_secs(60);
    const HOUR: Duration = Duration::from_secs(60 * 60);

    #[test]
    fn a_clock_that_jumps_is_believed_when_it_has_gone_on_for_long_enough() {
        let mut guard = ClockGuard::new(Duration::ZERO, 1_000, None, HOUR);
        assert_eq!(guard.look(MINUTE, 61_000), Judgement::Trusted);
        let jumped = 121_000 + 30 * DAY_MS;
        assert_eq!(
            guard.look(2 * MINUTE, jumped),
            Judgement::Jumped {
                ahead_ms: 30 * DAY_MS
            }
        );
        for minute in 1..60 {
            let at = (2 + minute) * MINUTE;
            assert_eq!(
                guard.look(at, jumped + i64::from(minute) * 60_000),
                Judgement::Held
            );
        }
        let at = 62 * MINUTE;
        assert_eq!(guard.look(at, jumped + 3_600_000), Judgement::TrustedAgain);
        assert_eq!(guard.look(at + MINUTE, jumped + 3_660_000), Judgement::Trusted);
    }

    #[test]
    fn another_jump_begins_the_wait_anew_and_a_step_back_does_not_end_it() {
        let mut guard = ClockGuard::new(Duration::ZERO, 0, None, HOUR);
        assert!(matches!(guard.look(MINUTE, DAY_MS), Judgement::Jumped { .. }));
        assert!(matches!(
            guard.look(30 * MINUTE, 3 * DAY_MS),
            Judgement::Jumped { .. }
        ));
        assert_eq!(guard.look(80 * MINUTE, 80 * 60_000), Judgement::Held);
        assert_eq!(guard.look(90 * MINUTE, 90 * 60_000), Judgement::TrustedAgain);
    }

    #[test]
    fn a_start_long_after_what_was_stored_last_waits_once() {
        let stored = 5 * DAY_MS;
        let mut guard = ClockGuard::new(Duration::ZERO, 35 * DAY_MS, Some(stored), HOUR);
        assert!(matches!(
            guard.look(Duration::ZERO, 35 * DAY_MS),
            Judgement::Jumped { .. }
        ));
        assert_eq!(guard.look(HOUR, 35 * DAY_MS + 3_600_000), Judgement::TrustedAgain);
        let mut soon = ClockGuard::new(Duration::ZERO, stored + 60_000, Some(stored), HOUR);
        assert_eq!(soon.look(Duration::ZERO, stored + 60_000), Judgement::Trusted);
    }

    #[test]
    fn only_a_clock_that_is_believed_is_stored_at_the_first_look_and_every_ten_minutes() {
        let mut guard = ClockGuard::new(Duration::ZERO, 35 * DAY_MS, Some(5 * DAY_MS), HOUR);
        let mut stored = Vec::new();
        for minute in 0..=85 {
            let wall_ms = 35 * DAY_MS + i64::from(minute) * 60_000;
            guard.look(minute * MINUTE, wall_ms);
            if guard.is_to_be_stored(minute * MINUTE) {
                stored.push(minute);
            }
        }
        assert_eq!(stored, [60, 70, 80]);
        let mut guard = ClockGuard::new(Duration::ZERO, 0, None, HOUR);
        guard.look(MINUTE, 60_000);
        assert!(guard.is_to_be_stored(MINUTE));
        guard.look(20 * MINUTE, 30 * DAY_MS);
        assert!(!guard.is_to_be_stored(20 * MINUTE), "it has jumped");
    }

    #[test]
    fn with_no_wait_every_clock_is_believed() {
        let mut guard = ClockGuard::new(Duration::ZERO, 0, Some(0), Duration::ZERO);
        assert_eq!(guard.look(MINUTE, 90 * DAY_MS), Judgement::Trusted);
    }
}
