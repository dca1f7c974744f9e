//! The pace at which replicas are filled: as fast as it goes while clients append nothing, and no faster than is allowed while they do. Twice
//! what they append is always allowed for each replica: it must come nearer.

use std::time::Duration;

/// Appends are counted for so long to know their rate. Clients that append nothing for longer are away.
const COUNTED_FOR: Duration = Duration::from_millis(500);
/// Timers are no finer than milliseconds: rests are saved up to this, and one that came out longer is made good up to twice as much.
const REST_MIN: Duration = Duration::from_millis(5);
/// The longest rest, after a batch of any size.
const REST_MAX: Duration = Duration::from_secs(1);

/// The bytes that were sent and appended lately.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The earliest time for more.
    next: Duration,
    counted_from: Duration,
    /// Bytes that had been appended then.
    counted: u64,
    /// Bytes a second that clients append.
    appended_rate: u64,
}

impl Pace {
    /// Takes note that `bytes` are sent now, and that clients have appended so many up to now; tells how long to rest before more. `rate` is
    /// in bytes a second; 0 sets no bound. `filled` replicas are sent what each of them lacks.
    pub(super) fn rest_after(
        &mut self,
        now: Duration,
        bytes: usize,
        appended: u64,
        rate: u64,
        filled: usize,
    ) -> Duration {
        let counted_for = now.saturating_sub(self.counted_from);
        if counted_for >= COUNTED_FOR {
            let millis = u64::try_from(counted_for.as_millis()).unwrap_or(u64::MAX);
            self.appended_rate = (appended - self.counted).saturating_mul(1_000) / millis;
            (self.counted_from, self.counted) = (now, appended);
        }
        if rate == 0 || self.appended_rate == 0 {
            self.next = now;
            return Duration::ZERO;
        }
        let allowed = rate.max(self.appended_rate.saturating_mul(2 * filled as u64));
        let credit_from = now.saturating_sub(2 * REST_MIN);
        let took = Duration::from_secs_f64(bytes as f64 / allowed as f64);
        self.next = (self.next.max(credit_from) + took).min(now + REST_MAX);
        match self.next.saturating_sub(now) {
            rest if rest < REST_MIN => Duration::ZERO,
            rest => rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1_000_000;

    /// Sends pieces of 256 KB for ten seconds, while so many bytes a second are appended; gives the bytes a second that were sent.
    fn sent_rate(appended_rate: u64, rate: u64, filled: usize) -> u64 {
        let (mut pace, mut now, mut sent) = (Pace::default(), Duration::ZERO, 0);
        // Reading one takes a tenth of a millisecond.
        while now < Duration::from_secs(10) {
            now += Duration::from_micros(100);
            sent += 256_000;
            let appended = appended_rate * now.as_micros() as u64 / 1_000_000;
            let rest = pace.rest_after(now, 256_000, appended, rate, filled);
            if rest > Duration::ZERO {
                // A timer's milliseconds, and one more.
                now += Duration::from_millis(rest.as_millis() as u64 + 2);
            }
        }
        sent / 10
    }

    #[test]
    fn nothing_waits_while_clients_are_away_or_no_bound_is_set() {
        assert!(sent_rate(0, MB as u64, 1) > 2_000 * MB as u64);
        assert!(sent_rate(MB as u64, 0, 1) > 2_000 * MB as u64);
    }

    #[test]
    fn beside_clients_as_much_is_sent_as_is_allowed() {
        let mb = MB as u64;
        // Half a second goes by until somebody is seen to append.
        let first = sent_rate(0, mb, 1) / 20;
        let cases = [
            (mb, 64 * mb, 1, 64 * mb),
            (100, mb, 1, mb),
            (100 * mb, 64 * mb, 1, 200 * mb),
            (100 * mb, 64 * mb, 3, 600 * mb),
        ];
        for (appended, rate, filled, allowed) in cases {
            let sent = sent_rate(appended, rate, filled) - first;
            assert!(sent.abs_diff(allowed) < allowed / 5, "{sent} of {allowed}");
        }
    }
}
