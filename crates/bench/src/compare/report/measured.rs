//! A figure of a table: the median of a cell's repetitions with how far they were apart, and whether two of them differ.
//!
//! What is not a finite number is no figure: nothing of it reaches a report.

use crate::compare::results::{Better, Cell, METRICS, QUANTILES};

/// What a single repetition is taken to vary by, for want of a second: a tenth each way.
pub(crate) const UNKNOWN_SPREAD: f64 = 0.1;

/// How many samples must lie above a percentile for it to be one.
const SAMPLES_ABOVE: f64 = 10.0;

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
    /// Whether it is a percentile of too few samples.
    pub(crate) few_samples: bool,
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
            few_samples: has_few_samples(cell, metric),
        })
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
        let (below, above) = (most < other_least, least > other_most);
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

/// Whether a percentile has fewer samples in some repetition than it takes to be one.
fn has_few_samples(cell: &Cell, metric: &str) -> bool {
    let Some((_, quantile)) = QUANTILES.iter().find(|(name, _)| *name == metric) else {
        return false;
    };
    let least = cell
        .runs
        .iter()
        .filter(|run| run.contains_key(metric))
        .filter_map(|run| run.get("samples").or_else(|| run.get("records")))
        .copied()
        .fold(f64::INFINITY, f64::min);
    is_few(least, *quantile)
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
