//! A figure of a table: the median of a cell's repetitions with how far they were apart, and whether two of them differ.
//!
//! What is not a finite number is no figure: nothing of it reaches a report.

use super::guesses::{self, Due, Guess};
use crate::results::{Acknowledges, Better, Cell, METRICS, Row};

/// What a single repetition is taken to vary by, for want of a second: a tenth each way.
pub(crate) const UNKNOWN_SPREAD: f64 = 0.1;

/// The longest of many is longer than that of few: numbers farther apart than this factor are unlike.
const SAMPLES_ALIKE: f64 = 1.5;

/// Medians that are closer than this part are alike, whatever the ranges: three repetitions each are ranges apart in one pair of
/// equals of ten.
const ALIKE: f64 = 0.05;

/// A figure whose repetitions were farther from the median than this part is not steady.
pub(crate) const UNSTEADY: f64 = 0.3;

/// The median of a metric over the repetitions of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Measured {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    /// How many repetitions have it.
    pub(crate) runs: usize,
    /// Whether it is next to a guess, and why.
    pub(crate) guess: Option<Guess>,
    /// Of how many samples it is the longest, where that matters.
    longest_of: Option<f64>,
    /// Whether it is the latency of a batch or of a record, if it is one of these.
    timed: Option<Acknowledges>,
    /// What was due, if it is a rate of the open loop.
    due: Option<Due>,
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
            guess: guesses::of_cell(cell, metric),
            longest_of: longest_of(cell, metric),
            timed: guesses::timed(cell, metric),
            due: guesses::due(cell, metric),
        })
    }

    /// Of a cell among the others of its row, where so many repetitions were asked of each.
    pub(crate) fn in_row(row: &Row, cell: &Cell, metric: &str, repetitions: u32) -> Option<Self> {
        let measured = Self::of(cell, metric)?;
        let guess = measured
            .guess
            .or_else(|| guesses::in_row(row, cell, metric, repetitions));
        Some(Self { guess, ..measured })
    }

    /// Whether it can win or lose anything beside another of the same metric: they are alike, and neither is a guess.
    pub(crate) fn can_meet(&self, other: &Self) -> bool {
        self.guess.is_none() && other.guess.is_none() && self.is_like(other)
    }

    /// Whether it tells of the same as another of the same metric: two longest ones are of about as many samples, two latencies are
    /// both of batches or both of records, and two rates are more than what was asked for.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let longest = self.longest_of.zip(other.longest_of);
        let (timed, due) = (self.timed.zip(other.timed), self.due.zip(other.due));
        longest.is_none_or(|(one, other)| one.max(other) <= one.min(other) * SAMPLES_ALIKE)
            && timed.is_none_or(|(one, other)| one == other)
            && due.is_none_or(|(one, other)| one.can_meet(other))
    }

    /// The least and the most, where repetitions differ.
    pub(crate) fn spread(&self) -> Option<(f64, f64)> {
        (self.runs > 1 && self.most > self.least).then_some((self.least, self.most))
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

/// Of how many samples a longest one is the longest, in the middle of the repetitions.
fn longest_of(cell: &Cell, metric: &str) -> Option<f64> {
    match metric {
        "max_us" => Some(cell.spread("samples")?.median),
        "delivery_max_us" => Some(cell.spread("records")?.median),
        _ => None,
    }
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
    use crate::results::made_up;

    fn cell(figures: &[(&str, f64)]) -> Cell {
        made_up::cell("ours", figures)
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
