//! From what a driver and the meters said to the figures of one run.

use std::collections::BTreeMap;
use std::time::Duration;

use bench::contract::{Done, LatencyPairs};

use super::meter::Meter;
use super::results::QUANTILES;

/// Records a second that were due, in the open loop.
pub(crate) const DUE: &str = "due_per_s";
/// What the metrics of deliveries begin with.
const DELIVERY: &str = "delivery_";
/// Where the curve of a distribution has its points: at 1 - 10^-x, in steps of a tenth of x.
const CURVE_STEPS: u32 = 60;

/// What meters and drivers saw between the first and the last measured record.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost {
    /// The system's meters before the load's warm-up, when it was at rest.
    pub(super) at_rest: Meter,
    /// The same then and when.
    pub(super) before: Meter,
    pub(super) after: Meter,
    /// When all that was appended had gone to the disk.
    pub(super) settled: Meter,
    /// The most memory that the system had meanwhile, as far as it was looked at.
    pub(super) rss_peak_bytes: u64,
    /// The load of the last minute, at the end.
    pub(super) load: f64,
    /// How many CPUs were busy with neither the system nor its client nor this program, if that is known.
    pub(super) other_cpus: Option<f64>,
    /// From when the meters were first read until they were read again.
    pub(super) seconds: f64,
    pub(super) client_cpu: Duration,
    /// Whether the system has processes of its own (else all of it is the client's).
    pub(super) has_server: bool,
}

impl Cost {
    /// Adds what a later load cost; what was between them is left out.
    pub(super) fn add(&mut self, later: &Cost) {
        self.after.cpu += later.after.cpu.saturating_sub(later.before.cpu);
        self.after.rss_bytes = self.after.rss_bytes.max(later.after.rss_bytes);
        self.client_cpu += later.client_cpu;
        let peaks = [self.rss_peak_bytes, later.rss_peak_bytes, later.before.rss_bytes];
        self.rss_peak_bytes = peaks.into_iter().max().unwrap_or_default();
        self.load = later.load;
        let seconds = self.seconds + later.seconds;
        self.other_cpus = match (self.other_cpus, later.other_cpus) {
            (Some(cpus), Some(others)) if seconds > 0.0 => {
                Some((cpus * self.seconds + others * later.seconds) / seconds)
            }
            (one, other) => one.or(other),
        };
        self.seconds = seconds;
    }
}

/// The figures of a load of `parties` producers or consumers.
pub(super) fn of_load(done: &Done, parties: u32, cost: &Cost, writes: bool) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    let mut put = |name: &str, value: f64| {
        // JSON has no infinity, and a table no use for it.
        if value.is_finite() {
            figures.insert(name.to_owned(), round(value));
        }
    };
    let (records, bytes) = (done.records as f64, done.bytes as f64);
    put("records", records);
    put("seconds", done.seconds);
    put("records_per_s", records / done.seconds);
    put("mb_per_s", bytes / 1e6 / done.seconds);
    put("records_per_s_each", records / done.seconds / f64::from(parties));
    put("mb_per_s_each", bytes / 1e6 / done.seconds / f64::from(parties));
    put(
        "client_cpu_s_per_gb",
        cost.client_cpu.as_secs_f64() / (bytes / 1e9),
    );
    if cost.has_server {
        // Work that a system puts off is its work all the same.
        let end = if writes {
            cost.after.cpu.max(cost.settled.cpu)
        } else {
            cost.after.cpu
        };
        let cpu = end.saturating_sub(cost.before.cpu).as_secs_f64();
        put("server_cpu_s_per_gb", cpu / (bytes / 1e9));
        put("server_cpu_us_per_record", cpu * 1e6 / records);
        put("server_rss_mb", cost.after.rss_bytes as f64 / 1e6);
        let peak_bytes = cost
            .rss_peak_bytes
            .max(cost.before.rss_bytes)
            .max(cost.after.rss_bytes);
        put("server_rss_peak_mb", peak_bytes as f64 / 1e6);
        if writes {
            // With the warm-up on both sides: the kernel counts a page when it becomes dirty, and may have counted then what is
            // written now.
            let from_bytes = cost.at_rest.written_bytes;
            let written = cost.settled.written_bytes.saturating_sub(from_bytes);
            let appended: u64 = done.appended.iter().sum();
            put(
                "written_per_byte",
                written as f64 / (appended as f64 * bytes / records),
            );
        }
    }
    put("load", cost.load);
    if let Some(cpus) = cost.other_cpus {
        put("other_cpus", cpus);
    }
    put("samples", count(&done.latency_ns) as f64);
    put_latencies(&mut put, "", &done.latency_ns);
    if let Some(mean) = mean_us(&done.latency_ns) {
        put("mean_us", mean);
    }
    if let Some(delivery) = &done.delivery_ns {
        put_latencies(&mut put, DELIVERY, delivery);
    }
    figures
}

/// The percentiles and the longest of latencies whose metrics begin with `prefix`.
fn put_latencies(put: &mut impl FnMut(&str, f64), prefix: &str, pairs: &LatencyPairs) {
    let own = QUANTILES
        .iter()
        .filter(|(name, _)| name.starts_with(DELIVERY) == (prefix == DELIVERY));
    for (name, quantile) in own {
        if let Some(ns) = at_quantile(pairs, *quantile) {
            put(name, ns as f64 / 1e3);
        }
    }
    if let Some((ns, _)) = pairs.last() {
        put(&format!("{prefix}max_us"), *ns as f64 / 1e3);
    }
}

/// The distribution of latencies of several runs: quantile and µs.
pub(super) fn curve<'a>(runs: impl Iterator<Item = &'a LatencyPairs>) -> Vec<(f64, f64)> {
    let pairs = merged(runs);
    let samples = count(&pairs) as f64;
    (0..=CURVE_STEPS)
        .map(|step| 1.0 - 10f64.powf(-f64::from(step) / 10.0))
        // Beyond that there is only the longest one.
        .take_while(|quantile| samples > 0.0 && (1.0 - quantile) * samples >= 1.0)
        .filter_map(|quantile| Some((quantile, at_quantile(&pairs, quantile)? as f64 / 1e3)))
        .collect()
}

pub(super) fn merged<'a>(runs: impl Iterator<Item = &'a LatencyPairs>) -> LatencyPairs {
    let mut merged: BTreeMap<u64, u64> = BTreeMap::new();
    for &(ns, times) in runs.flatten() {
        *merged.entry(ns).or_default() += times;
    }
    merged.into_iter().collect()
}

fn count(pairs: &LatencyPairs) -> u64 {
    pairs.iter().map(|(_, times)| times).sum()
}

/// The one in the middle; none of nothing.
pub(super) fn median_ns(pairs: &LatencyPairs) -> Option<u64> {
    at_quantile(pairs, 0.5)
}

/// The least latency that so large a share of all does not exceed; none of nothing.
fn at_quantile(pairs: &LatencyPairs, quantile: f64) -> Option<u64> {
    let rank = (count(pairs) as f64 * quantile).ceil().max(1.0) as u64;
    let mut passed = 0;
    pairs.iter().find_map(|&(ns, times)| {
        passed += times;
        (passed >= rank).then_some(ns)
    })
}

fn mean_us(pairs: &LatencyPairs) -> Option<f64> {
    let samples = count(pairs);
    let sum: f64 = pairs.iter().map(|&(ns, times)| ns as f64 * times as f64).sum();
    (samples > 0).then(|| sum / samples as f64 / 1e3)
}

/// Four digits: more would be noise.
fn round(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let digits = 4 - value.abs().log10().ceil() as i32;
    if digits <= 0 {
        return value.round();
    }
    let factor = 10f64.powi(digits);
    (value * factor).round() / factor
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done() -> Done {
        Done {
            seconds: 2.0,
            records: 1_000,
            bytes: 100_000,
            latency_ns: vec![(10_000, 500), (20_000, 490), (90_000, 9), (1_000_000, 1)],
            // A quarter as many before they counted.
            appended: vec![750, 500],
            ..Done::default()
        }
    }

    fn meter(cpu_s: u64, rss_bytes: u64, written_bytes: u64) -> Meter {
        Meter {
            cpu: Duration::from_secs(cpu_s),
            rss_bytes,
            written_bytes,
        }
    }

    #[test]
    fn figures_of_a_known_run() {
        let cost = Cost {
            at_rest: meter(0, 0, 25_000),
            before: meter(1, 0, 50_000),
            after: meter(2, 5_000_000, 100_000),
            settled: meter(3, 0, 250_000),
            rss_peak_bytes: 7_000_000,
            load: 0.25,
            other_cpus: Some(0.125),
            seconds: 2.0,
            client_cpu: Duration::from_millis(100),
            has_server: true,
        };
        let figures = of_load(&done(), 4, &cost, true);
        for (name, value) in [
            ("records_per_s", 500.0),
            ("records_per_s_each", 125.0),
            ("mb_per_s", 0.05),
            ("p50_us", 10.0),
            ("p99_us", 20.0),
            ("p999_us", 90.0),
            ("p9999_us", 1_000.0),
            ("max_us", 1_000.0),
            ("mean_us", 16.61),
            ("samples", 1_000.0),
            ("server_cpu_s_per_gb", 20_000.0),
            ("server_cpu_us_per_record", 2_000.0),
            ("server_rss_mb", 5.0),
            ("server_rss_peak_mb", 7.0),
            ("load", 0.25),
            ("other_cpus", 0.125),
            ("written_per_byte", 1.8),
            ("client_cpu_s_per_gb", 1_000.0),
        ] {
            assert_eq!(figures.get(name), Some(&value), "{name}");
        }
    }

    #[test]
    fn what_several_passes_cost_is_added_without_what_was_between() {
        let pass = |from_s, to_s, rss_bytes| Cost {
            before: meter(from_s, 0, 0),
            after: meter(to_s, rss_bytes, 0),
            client_cpu: Duration::from_secs(3),
            has_server: true,
            ..Cost::default()
        };
        let mut all = Cost {
            rss_peak_bytes: 8_000_000,
            load: 0.5,
            other_cpus: Some(0.25),
            seconds: 3.0,
            ..pass(10, 12, 7_000_000)
        };
        all.add(&Cost {
            rss_peak_bytes: 9_000_000,
            load: 1.5,
            other_cpus: Some(1.25),
            seconds: 1.0,
            ..pass(20, 21, 5_000_000)
        });
        let figures = of_load(&done(), 1, &all, false);
        let figure = |name: &str| figures.get(name).copied();
        assert_eq!(figure("server_cpu_s_per_gb"), Some(30_000.0));
        assert_eq!(figure("client_cpu_s_per_gb"), Some(60_000.0));
        assert_eq!(figure("server_rss_mb"), Some(7.0));
        assert_eq!(figure("server_rss_peak_mb"), Some(9.0), "the most of all passes");
        assert_eq!(figure("load"), Some(1.5), "at the end of the last");
        assert_eq!(figure("other_cpus"), Some(0.5), "by how long each took");
    }

    #[test]
    fn nothing_gives_no_figures_that_are_none() {
        let figures = of_load(&Done::default(), 1, &Cost::default(), true);
        assert!(figures.values().all(|value| value.is_finite()), "{figures:?}");
        assert!(!figures.contains_key("p50_us") && !figures.contains_key("records_per_s"));
        assert_eq!(curve(std::iter::empty()), []);
    }

    #[test]
    fn the_curve_ends_where_single_samples_begin() {
        let points = curve([&done().latency_ns, &done().latency_ns].into_iter());
        assert_eq!(points.first(), Some(&(0.0, 10.0)));
        assert!(points.last().is_some_and(|last| last.0 <= 0.9995), "{points:?}");
        assert!(points.windows(2).all(|pair| pair[0].1 <= pair[1].1));
    }
}
