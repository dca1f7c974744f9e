//! Durations, counted in buckets: of a core's answers, of a journal's flushes.
//!
//! Beside the record's way, and owned by one core's thread as every counter is. Recording must stay cheap: it reads no
//! clock (who records has both moments already), allocates nothing and waits for nothing.

use std::cell::Cell;
use std::time::Duration;

use super::Counter;

/// Upper bounds of all buckets but the last, inclusive, in nanoseconds: 10 µs to 10 s in steps of 1, 2, 5. These are also
/// the bounds that are told, so that what is told is exact. Within a bucket nothing is told apart: a percentile from
/// 10 µs to 10 s is known up to a factor of 2.5 at most.
const BOUNDS_NS: [u64; 19] = {
    const US: u64 = 1_000;
    const MS: u64 = 1_000_000;
    const S: u64 = 1_000_000_000;
    [
        10 * US,
        20 * US,
        50 * US,
        100 * US,
        200 * US,
        500 * US,
        MS,
        2 * MS,
        5 * MS,
        10 * MS,
        20 * MS,
        50 * MS,
        100 * MS,
        200 * MS,
        500 * MS,
        S,
        2 * S,
        5 * S,
        10 * S,
    ]
};

/// The last bucket has no upper bound.
const BUCKETS: usize = BOUNDS_NS.len() + 1;

/// Counts of durations, 176 bytes in all.
#[derive(Default)]
pub struct Histogram {
    counts: [Counter; BUCKETS],
    sum: Cell<Duration>,
}

impl Histogram {
    /// Counts one.
    #[inline]
    pub fn record(&self, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_NS.partition_point(|bound_ns| *bound_ns < took_ns);
        self.counts[bucket].add(1);
        self.sum.set(self.sum.get().saturating_add(took));
    }

    /// The counts up to now.
    pub fn figures(&self) -> HistogramFigures {
        HistogramFigures {
            counts: std::array::from_fn(|bucket| self.counts[bucket].get()),
            sum: self.sum.get(),
        }
    }
}

/// The counts of a histogram at some moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HistogramFigures {
    counts: [u64; BUCKETS],
    sum: Duration,
}

impl HistogramFigures {
    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all durations.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// For each bucket its inclusive upper bound in seconds, infinite for the last, and how many are in it alone.
    pub fn buckets(&self) -> [(f64, u64); BUCKETS] {
        std::array::from_fn(|bucket| {
            let bound_ns = BOUNDS_NS.get(bucket);
            let bound = bound_ns.map_or(f64::INFINITY, |ns| Duration::from_nanos(*ns).as_secs_f64());
            (bound, self.counts[bucket])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Histogram of these, in nanoseconds.
    fn histogram_of(times_ns: &[u64]) -> HistogramFigures {
        let histogram = Histogram::default();
        for ns in times_ns {
            histogram.record(Duration::from_nanos(*ns));
        }
        histogram.figures()
    }

    #[test]
    fn bounds_rise_by_a_factor_of_two_and_a_half_at_most() {
        for pair in BOUNDS_NS.windows(2) {
            assert!(pair[0] < pair[1] && 2 * pair[1] <= 5 * pair[0], "{pair:?}");
        }
        assert_eq!(
            (BOUNDS_NS[0], BOUNDS_NS[BUCKETS - 2]),
            (10_000, 10_000_000_000),
            "10 µs, 10 s"
        );
    }

    #[test]
    fn each_bound_is_the_last_of_its_bucket() {
        for (bucket, bound_ns) in BOUNDS_NS.into_iter().enumerate() {
            let figures = histogram_of(&[bound_ns, bound_ns + 1]);
            let counts = figures.buckets().map(|(_, count)| count);
            assert_eq!((counts[bucket], counts[bucket + 1]), (1, 1), "{bound_ns} ns");
            assert_eq!(figures.count(), 2);
        }
    }

    #[test]
    fn the_shortest_and_the_longest_have_a_bucket() {
        let histogram = Histogram::default();
        histogram.record(Duration::ZERO);
        histogram.record(Duration::MAX);
        histogram.record(Duration::MAX);
        let figures = histogram.figures();
        let buckets = figures.buckets();
        assert_eq!(buckets[0], (0.000_01, 1));
        assert_eq!(buckets[BUCKETS - 1], (f64::INFINITY, 2));
        assert_eq!((figures.count(), figures.sum()), (3, Duration::MAX));
    }

    #[test]
    fn sums_are_exact() {
        let figures = histogram_of(&[1, 10_000, 999_999_999]);
        assert_eq!(figures.sum(), Duration::from_nanos(1_000_010_000));
    }
}
