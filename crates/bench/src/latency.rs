//! Latencies: one histogram per thread, merged at the end, so that recording one costs nanoseconds and no lock.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// The longest latency that is told apart: an hour, in nanoseconds.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Latencies of one thread. Three digits are kept of each.
#[derive(Debug, Clone)]
pub struct LatencyRecorder {
    histogram: Histogram<u64>,
}

impl Default for LatencyRecorder {
    fn default() -> LatencyRecorder {
        LatencyRecorder::new()
    }
}

impl LatencyRecorder {
    /// No latencies yet.
    ///
    /// # Panics
    /// Never: the bounds are constants.
    #[must_use]
    pub fn new() -> LatencyRecorder {
        LatencyRecorder {
            histogram: Histogram::new_with_bounds(1, LONGEST_NS, 3)
                .expect("an hour in nanoseconds is a bound"),
        }
    }

    /// Adds one. Those over an hour count as an hour.
    #[inline]
    pub fn record(&mut self, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(LONGEST_NS);
        self.histogram.saturating_record(ns.max(1));
    }

    /// Adds all of another's.
    ///
    /// # Panics
    /// Never: all histograms here have the same bounds.
    pub fn merge(&mut self, other: &LatencyRecorder) {
        self.histogram
            .add(&other.histogram)
            .expect("all have the same bounds");
    }

    /// All of several.
    pub(crate) fn merged<'a>(all: impl Iterator<Item = &'a LatencyRecorder>) -> LatencyRecorder {
        all.fold(LatencyRecorder::new(), |mut merged, one| {
            merged.merge(one);
            merged
        })
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Each latency that occurred, in nanoseconds and rounded up to three digits, and how many there were; ascending.
    #[must_use]
    pub fn pairs(&self) -> Vec<(u64, u64)> {
        self.histogram
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_at_value()))
            .collect()
    }

    /// The figures that reports show; all zero if there are no latencies.
    #[must_use]
    pub fn summary(&self) -> Latency {
        if self.histogram.is_empty() {
            return Latency::default();
        }
        let at = |quantile| us(self.histogram.value_at_quantile(quantile));
        Latency {
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            p9999_us: at(0.9999),
            max_us: us(self.histogram.max()),
            mean_us: round(self.histogram.mean() / 1000.0),
        }
    }
}

/// What reports show of many latencies, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Latency {
    /// The median.
    pub p50_us: f64,
    /// 90 of 100 are not longer.
    pub p90_us: f64,
    /// 99 of 100 are not longer.
    pub p99_us: f64,
    /// 999 of 1,000 are not longer.
    pub p999_us: f64,
    /// 9,999 of 10,000 are not longer.
    pub p9999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// The average.
    pub mean_us: f64,
}

fn us(ns: u64) -> f64 {
    round(ns as f64 / 1000.0)
}

/// To two places: more would be noise.
fn round(us: f64) -> f64 {
    (us * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) -> bool {
        (found - expected).abs() <= expected / 500.0
    }

    #[test]
    fn percentiles_of_a_known_run() {
        let mut recorder = LatencyRecorder::new();
        for us in 1..=10_000 {
            recorder.record(Duration::from_micros(us));
        }
        let summary = recorder.summary();
        assert!(close(summary.p50_us, 5_000.0), "{summary:?}");
        assert!(close(summary.p99_us, 9_900.0), "{summary:?}");
        assert!(close(summary.p9999_us, 9_999.0), "{summary:?}");
        assert!(close(summary.max_us, 10_000.0), "{summary:?}");
        assert!(close(summary.mean_us, 5_000.5), "{summary:?}");
    }

    #[test]
    fn merged_recorders_are_as_one() {
        let (mut one, mut two, mut both) = (
            LatencyRecorder::new(),
            LatencyRecorder::new(),
            LatencyRecorder::new(),
        );
        for us in 1..=1_000u64 {
            let latency = Duration::from_micros(us * us);
            if us % 3 == 0 { &mut one } else { &mut two }.record(latency);
            both.record(latency);
        }
        one.merge(&two);
        assert_eq!((one.count(), one.summary()), (both.count(), both.summary()));
    }

    #[test]
    fn pairs_tell_each_latency_and_how_often_it_occurred() {
        let mut recorder = LatencyRecorder::new();
        assert_eq!(recorder.pairs(), []);
        for ns in [1_500, 700, 700, 3_000_000] {
            recorder.record(Duration::from_nanos(ns));
        }
        let pairs = recorder.pairs();
        let counts: Vec<u64> = pairs.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [2, 1, 1]);
        for ((found, _), ns) in pairs.into_iter().zip([700, 1_500, 3_000_000]) {
            assert!(found >= ns && close(found as f64, ns as f64), "{found} for {ns}");
        }
    }

    #[test]
    fn none_is_zero_and_endless_is_an_hour() {
        let mut recorder = LatencyRecorder::new();
        assert_eq!(recorder.summary(), Latency::default());
        recorder.record(Duration::MAX);
        recorder.record(Duration::ZERO);
        assert!(close(recorder.summary().max_us, 3_600e6));
        assert_eq!(recorder.count(), 2);
    }
}
