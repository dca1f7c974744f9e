//! The first system beside each other one, figure by figure: who is better, and whether the difference counts.
//!
//! Only like is set beside like: the same row, the same metric, the best client of both or the same client of both.
//! Figures of publications never come here.

use super::measured::{Measured, Verdict, better};
use super::{columns, number};
use crate::compare::results::{Better, Cell, Experiment, Results, Row, SystemFacts};

/// One figure of our system beside the same figure of another.
#[derive(Debug, Clone)]
pub(crate) struct Comparison<'a> {
    /// The table.
    pub(crate) experiment: &'a Experiment,
    /// The row.
    pub(crate) row: &'a Row,
    /// The metric.
    pub(crate) metric: &'a str,
    /// Ours: the first system or one of its variants.
    pub(crate) our_system: &'a SystemFacts,
    /// The other.
    pub(crate) other_system: &'a SystemFacts,
    /// The client that both had, if it is not the best one of both.
    pub(crate) common_client: Option<&'a str>,
    /// Our figure.
    pub(crate) ours: Measured,
    /// The other's.
    pub(crate) theirs: Measured,
    /// What ours is beside the other's.
    pub(crate) verdict: Verdict,
}

impl Comparison<'_> {
    /// Whether acknowledged records survive the same in both.
    pub(crate) fn is_same_guarantee(&self) -> bool {
        self.our_system.survives == self.other_system.survives
    }

    /// How many times the worse figure is the better one.
    pub(crate) fn times(&self) -> Option<f64> {
        number::times(self.ours.median, self.theirs.median)
    }
}

/// All comparisons: the first system with all others, and its other variants with those whose guarantee they share (if it
/// is not the first system's).
pub(crate) fn all(results: &Results) -> Vec<Comparison<'_>> {
    let Some(first) = results.systems.first() else {
        return Vec::new();
    };
    let (ours, others): (Vec<_>, Vec<_>) = results
        .systems
        .iter()
        .partition(|system| is_variant_of(system, first));
    let mut found = Vec::new();
    for experiment in &results.experiments {
        for row in &experiment.rows {
            for our in &ours {
                let is_first = our.name == first.name;
                let others = others.iter().filter(|other| {
                    is_first || (our.survives != first.survives && our.survives == other.survives)
                });
                for other in others {
                    push_pairs(&mut found, experiment, row, our, other);
                }
            }
        }
    }
    found
}

/// Whether a system is the first one, or a variant of it: variants are named after their system.
pub(crate) fn is_variant_of(system: &SystemFacts, first: &SystemFacts) -> bool {
    let rest = system.name.strip_prefix(first.name.as_str());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// The best client of both, and each client that both have.
fn push_pairs<'a>(
    found: &mut Vec<Comparison<'a>>,
    experiment: &'a Experiment,
    row: &'a Row,
    our: &'a SystemFacts,
    other: &'a SystemFacts,
) {
    let of = |name: &'a str| row.cells.iter().filter(move |cell| cell.system == name);
    for our_cell in of(&our.name) {
        for other_cell in of(&other.name) {
            let are_best = our_cell.best_client && other_cell.best_client;
            let are_common = our_cell.driver == other_cell.driver;
            if !are_best && !are_common {
                continue;
            }
            let driver = columns::driver_title(Some(our), &our_cell.driver);
            let client = (!are_best && !driver.is_empty()).then_some(driver);
            for metric in &experiment.metrics {
                if let Some((ours, theirs)) = figures(our_cell, other_cell, metric) {
                    found.push(Comparison {
                        experiment,
                        row,
                        metric,
                        our_system: our,
                        other_system: other,
                        common_client: client,
                        ours,
                        theirs,
                        verdict: ours.beside(&theirs, metric),
                    });
                }
            }
        }
    }
}

/// Both figures, if the metric can be better or worse and both are more than guesses.
fn figures(our: &Cell, other: &Cell, metric: &str) -> Option<(Measured, Measured)> {
    if better(metric) == Better::Neither {
        return None;
    }
    let (ours, theirs) = (Measured::of(our, metric)?, Measured::of(other, metric)?);
    (!ours.few_samples && !theirs.few_samples).then_some((ours, theirs))
}
