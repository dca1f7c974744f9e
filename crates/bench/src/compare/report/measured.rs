//! A figure of a table: the median of a cell's repetitions with how far they were apart, and whether two of them differ.
//!
//! What is not a finite number is no figure: nothing of it reaches a report.

use std::collections::BTreeMap;

use crate::compare::figures::DUE;
use crate::compare::results::{Better, Cell, METRICS, QUANTILES};

/// What a single repetition is taken to vary by, for want of a second: a tenth each way.
pub(crate) const UNKNOWN_SPREAD: f64 = 0.1;

/// How many samples must lie above a percentile for it to be one.
const SAMPLES_ABOVE: f64 = 10.0;

/// Processor time is told in ticks of this many seconds (proc_pid_stat(5), at the usual 100 a second).
const TICK_S: f64 = 0.01;

/// A difference of one in fewer ticks than this is more than 5 %.
const TICKS_MIN: f64 = 20.0;

/// The longest of many is longer than that of few: numbers farther apart than this factor are unlike.
const SAMPLES_ALIKE: f64 = 1.5;

/// Who takes less than this part of what is due in the open loop is behind.
const KEPT_UP: f64 = 0.9;

/// Medians that are closer than this part are alike, whatever the ranges: three repetitions each are ranges apart in one pair of
/// equals of ten.
const ALIKE: f64 = 0.05;

/// A figure whose repetitions were farther from the median than this part is not steady.
pub(crate) const UNSTEADY: f64 = 0.3;

/// Why a figure says too little to win or lose anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guess {
    /// A percentile of too few samples.
    FewSamples,
    /// Processor time of too few ticks of the clock that tells it.
    FewTicks,
    /// Latency of a load that was not kept up with: it says how long the load lasted, nothing of the system.
    Behind,
}

/// The median of a metric over the repetitions of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Measured {
    /// The median.
    pub(crate) median: f64,
    /// The least.
    pub(crate) least: f64,
    /// The most.
    pub(crate) most: f64,
    /// How many repetitions have it.
    pub(crate) runs: usize,
    /// Whether it is next to a guess, and why.
    pub(crate) guess: Option<Guess>,
    /// Of how many samples it is the longest, where that matters.
    longest_of: Option<f64>,
}

/// What one figure is beside another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Better, and outside the spread of both.
    Better,
    /// Worse, and outside the spread of both.
    Worse,
    /// Within the spread of either, or nothing that could be better.
    NoDifference,
}

impl Measured {
    /// Of a cell's runs; none if no run has the metric as a finite number.
    pub(crate) fn of(cell: &Cell, metric: &str) -> Option<Self> {
        let spread = cell.spread(metric)?;
        let finite = [spread.median, spread.least, spread.most]
            .iter()
            .all(|v| v.is_finite());
        let runs = cell.runs.iter().filter(|run| run.contains_key(metric)).count();
        finite.then(|| Self {
            median: spread.median,
            least: spread.least,
            most: spread.most,
            runs,
            guess: guess(cell, metric),
            longest_of: longest_of(cell, metric),
        })
    }

    /// Whether it can win or lose anything beside another of the same metric: neither is a guess, and of two longest ones both
    /// are of about as many samples.
    pub(crate) fn can_meet(&self, other: &Self) -> bool {
        let are_alike = match (self.longest_of, other.longest_of) {
            (Some(one), Some(other)) => one.max(other) <= one.min(other) * SAMPLES_ALIKE,
            _ => true,
        };
        self.guess.is_none() && other.guess.is_none() && are_alike
    }

    /// Whether its repetitions were too far apart to say much.
    pub(crate) fn is_unsteady(&self) -> bool {
        self.deviation().is_some_and(|part| part > UNSTEADY)
    }

    /// From where to where the figure may lie: the spread, or what stands for it after a single repetition.
    pub(crate) fn range(&self) -> (f64, f64) {
        if self.runs > 1 {
            return (self.least, self.most);
        }
        let reach = self.median.abs() * UNKNOWN_SPREAD;
        (self.median - reach, self.median + reach)
    }

    /// What this figure is beside another of the same metric.
    pub(crate) fn beside(&self, other: &Self, metric: &str) -> Verdict {
        let (least, most) = self.range();
        let (other_least, other_most) = other.range();
        let is_apart = (self.median - other.median).abs() > ALIKE * other.median.abs();
        let (below, above) = (is_apart && most < other_least, is_apart && least > other_most);
        match better(metric) {
            Better::Less if below => Verdict::Better,
            Better::Less if above => Verdict::Worse,
            Better::More if above => Verdict::Better,
            Better::More if below => Verdict::Worse,
            _ => Verdict::NoDifference,
        }
    }

    /// The farthest repetition from the median, as a part of it; none if there was only one.
    pub(crate) fn deviation(&self) -> Option<f64> {
        if self.runs < 2 || self.median == 0.0 {
            return None;
        }
        let reach = (self.most - self.median).max(self.median - self.least);
        Some(reach / self.median.abs())
    }
}

fn guess(cell: &Cell, metric: &str) -> Option<Guess> {
    let kept_up = least(cell, metric, |run| {
        Some(run.get("records_per_s")? / run.get(DUE)?)
    });
    if kept_up < KEPT_UP && metric.ends_with("_us") {
        return Some(Guess::Behind);
    }
    if let Some((_, quantile)) = QUANTILES.iter().find(|(name, _)| *name == metric) {
        let samples = |run: &Run| run.get("samples").or_else(|| run.get("records")).copied();
        return is_few(least(cell, metric, samples), *quantile).then_some(Guess::FewSamples);
    }
    let ticks = least(cell, metric, |run| Some(processor_seconds(run, metric)? / TICK_S));
    (ticks < TICKS_MIN - 1e-6).then_some(Guess::FewTicks)
}

type Run = BTreeMap<String, f64>;

/// The least of something over the runs that have a metric; infinity if none has it.
fn least(cell: &Cell, metric: &str, of: impl Fn(&Run) -> Option<f64>) -> f64 {
    let runs = cell.runs.iter().filter(|run| run.contains_key(metric));
    runs.filter_map(of).fold(f64::INFINITY, f64::min)
}

/// How much processor time such a metric of a run was computed from.
fn processor_seconds(run: &Run, metric: &str) -> Option<f64> {
    let (value, of) = (run.get(metric)?, |name: &str| run.get(name).copied());
    match metric {
        "server_cpu_s_per_gb" | "client_cpu_s_per_gb" => Some(value * of("mb_per_s")? * of("seconds")? / 1e3),
        "server_cpu_us_per_record" => Some(value * of("records")? / 1e6),
        _ => None,
    }
}

/// Of how many samples a longest one is the longest, in the middle of the repetitions.
fn longest_of(cell: &Cell, metric: &str) -> Option<f64> {
    match metric {
        "max_us" => Some(cell.spread("samples")?.median),
        "delivery_max_us" => Some(cell.spread("records")?.median),
        _ => None,
    }
}

/// Whether so many samples are too few for a quantile.
pub(crate) fn is_few(samples: f64, quantile: f64) -> bool {
    // A little slack: 1 - 0.9999 is not quite a ten-thousandth.
    samples * (1.0 - quantile) < SAMPLES_ABOVE - 1e-6
}

/// Which way a metric is better; one that we do not know is neither.
pub(crate) fn better(metric: &str) -> Better {
    known(metric).map_or(Better::Neither, |(_, _, better)| *better)
}

/// How tables name a metric: with its unit.
pub(crate) fn title(metric: &str) -> &str {
    known(metric).map_or(metric, |(_, title, _)| title)
}

fn known(metric: &str) -> Option<&'static (&'static str, &'static str, Better)> {
    METRICS.iter().find(|(name, _, _)| *name == metric)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(figures: &[(&str, f64)]) -> Cell {
        let figures: Run = figures
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect();
        Cell {
            runs: vec![figures; 3],
            ..Cell::default()
        }
    }

    fn cpu(seconds: f64) -> Measured {
        // 100 MB in 2 s: a tenth of a GB.
        let figures = [
            ("mb_per_s", 50.0),
            ("seconds", 2.0),
            ("server_cpu_s_per_gb", seconds * 10.0),
        ];
        Measured::of(&cell(&figures), "server_cpu_s_per_gb").expect("it is there")
    }

    #[test]
    fn processor_time_of_few_ticks_decides_nothing() {
        assert_eq!(cpu(0.19).guess, Some(Guess::FewTicks));
        assert_eq!(cpu(0.0).guess, Some(Guess::FewTicks));
        assert_eq!(cpu(0.2).guess, None);
        assert!(cpu(0.2).can_meet(&cpu(3.0)) && !cpu(0.01).can_meet(&cpu(3.0)));
        let records = cell(&[("records", 1e4), ("server_cpu_us_per_record", 10.0)]);
        let records = Measured::of(&records, "server_cpu_us_per_record").expect("it is there");
        assert_eq!(records.guess, Some(Guess::FewTicks));
    }

    #[test]
    fn who_is_behind_wins_and_loses_nothing() {
        let latency = |due| {
            let cell = cell(&[
                ("p50_us", 9.0),
                ("samples", 1e4),
                ("records_per_s", 950.0),
                (DUE, due),
            ]);
            Measured::of(&cell, "p50_us").expect("it is there")
        };
        assert_eq!(latency(1_000.0).guess, None);
        assert_eq!(latency(2_000.0).guess, Some(Guess::Behind));
        assert!(!latency(2_000.0).can_meet(&latency(1_000.0)));
    }

    #[test]
    fn what_is_nearly_the_same_differs_in_nothing() {
        let latency = |p50_us| Measured::of(&cell(&[("p50_us", p50_us), ("samples", 1e4)]), "p50_us");
        let latency = |p50_us| latency(p50_us).expect("it is there");
        assert_eq!(
            latency(104.0).beside(&latency(100.0), "p50_us"),
            Verdict::NoDifference
        );
        assert_eq!(latency(106.0).beside(&latency(100.0), "p50_us"), Verdict::Worse);
    }

    #[test]
    fn the_longest_of_few_and_of_many_are_not_set_side_by_side() {
        let longest = |samples| {
            let cell = cell(&[("max_us", 9.0), ("samples", samples)]);
            Measured::of(&cell, "max_us").expect("it is there")
        };
        assert!(longest(1_000.0).can_meet(&longest(1_400.0)));
        assert!(!longest(62.0).can_meet(&longest(500_000.0)));
    }
}
