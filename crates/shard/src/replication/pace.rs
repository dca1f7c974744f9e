//! The pace at which replicas are sent what they lack: as fast as it goes while clients append nothing, and no faster than is
//! allowed while they do. Twice what they append is always allowed: a replica must come nearer.

use std::time::Duration;

/// For so long what is appended is counted before it is called a rate. Clients that append nothing for longer are away.
const COUNTED_FOR: Duration = Duration::from_millis(500);

/// What was sent and appended lately.
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
    /// in bytes a second; 0 sets no bound.
    pub(super) fn rest_after(&mut self, now: Duration, bytes: usize, appended: u64, rate: u64) -> Duration {
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
        let allowed = rate.max(self.appended_rate.saturating_mul(2));
        self.next = self.next.max(now) + Duration::from_secs_f64(bytes as f64 / allowed as f64);
        self.next - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1_000_000;

    /// Sends pieces of 256 KB for ten seconds, while so many bytes a second are appended; gives the bytes a second that were sent.
    fn sent_rate(appended_rate: u64, rate: u64) -> u64 {
        let (mut pace, mut now, mut sent) = (Pace::default(), Duration::ZERO, 0);
        // Reading one takes a tenth of a millisecond.
        while now < Duration::from_secs(10) {
            now += Duration::from_micros(100);
            sent += 256_000;
            let appended = appended_rate * now.as_micros() as u64 / 1_000_000;
            now += pace.rest_after(now, 256_000, appended, rate);
        }
        sent / 10
    }

    #[test]
    fn nothing_waits_while_clients_are_away_or_no_bound_is_set() {
        assert!(sent_rate(0, MB as u64) > 2_000 * MB as u64);
        assert!(sent_rate(MB as u64, 0) > 2_000 * MB as u64);
    }

    #[test]
    fn beside_clients_as_much_is_sent_as_is_allowed() {
        let mb = MB as u64;
        // Half a second goes by until somebody is seen to append.
        let first = sent_rate(0, mb) / 20;
        for (appended, rate, allowed) in [
            (mb, 64 * mb, 64 * mb),
            (100, mb, mb),
            (100 * mb, 64 * mb, 200 * mb),
        ] {
            let sent = sent_rate(appended, rate) - first;
            assert!(sent.abs_diff(allowed) < allowed / 5, "{sent} of {allowed}");
        }
    }
}
