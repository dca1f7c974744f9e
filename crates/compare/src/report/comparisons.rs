//! The first system beside each other one, figure by figure: who is better, and whether the difference counts.
//!
//! Only like is set beside like: the same row, the same metric, the best client of both or the same client of both. Metrics that
//! tell the same in other units count once. Figures of publications never come here.

use super::columns;
use super::measured::{Measured, Verdict, better};
use crate::results::{Better, Cell, Experiment, LoopKind, Results, Row, SystemFacts};
use bench::number;

/// One figure of our system beside the same figure of another.
#[derive(Debug, Clone)]
pub(crate) struct Comparison<'a> {
    pub(crate) experiment: &'a Experiment,
    pub(crate) row: &'a Row,
    pub(crate) metric: &'a str,
    /// Ours: the first system or one of its variants.
    pub(crate) our_system: &'a SystemFacts,
    pub(crate) other_system: &'a SystemFacts,
    /// The client that both had, if it is not the best one of both.
    pub(crate) common_client: Option<&'a str>,
    pub(crate) ours: Measured,
    pub(crate) theirs: Measured,
    /// What ours is beside the other's.
    pub(crate) verdict: Verdict,
    /// Whether it stands for its row in the score: the first of the table's metrics that both have.
    pub(crate) decides: bool,
}

impl Comparison<'_> {
    /// Whether acknowledged records survive the same in both.
    pub(crate) fn is_same_guarantee(&self) -> bool {
        self.our_system.survives == self.other_system.survives
    }

    /// Whether our median is the worse one, whatever that says.
    pub(crate) fn has_worse_median(&self) -> bool {
        match better(self.metric) {
            Better::Less => self.ours.median > self.theirs.median,
            Better::More => self.ours.median < self.theirs.median,
            Better::Neither => false,
        }
    }

    /// How many times the worse figure is the better one.
    pub(crate) fn times(&self) -> Option<f64> {
        number::times(self.ours.median, self.theirs.median)
    }
}

/// All comparisons: the first system with all others, and its variants of another guarantee with those whose guarantee is not the
/// first system's either: who promises what the first does has met it already.
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
                    is_first || (our.survives != first.survives && other.survives != first.survives)
                });
                for other in others {
                    push_pairs(&mut found, results.repetitions, (experiment, row), (our, other));
                }
            }
        }
    }
    found
}

/// Whether a system is the first one, or a variant of it: variants are named after their system.
pub(crate) fn is_variant_of(system: &SystemFacts, first: &SystemFacts) -> bool {
    is_named_after(&system.name, &first.name)
}

/// Whether a name is that of a system, or of one of its variants.
pub(crate) fn is_named_after(name: &str, system: &str) -> bool {
    let rest = name.strip_prefix(system);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// The best client of both, and each client that both have.
fn push_pairs<'a>(
    found: &mut Vec<Comparison<'a>>,
    repetitions: u32,
    (experiment, row): (&'a Experiment, &'a Row),
    (our, other): (&'a SystemFacts, &'a SystemFacts),
) {
    let figure = |cell: &Cell, metric: &str| Measured::in_row(row, cell, metric, repetitions);
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
            let mut told: Vec<&str> = Vec::new();
            for metric in &experiment.metrics {
                let quantity = quantity(metric, experiment.loop_kind);
                let both = figures(metric, figure(our_cell, metric), figure(other_cell, metric));
                if let Some((ours, theirs)) = both
                    && !told.contains(&quantity)
                {
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
                        decides: told.is_empty(),
                    });
                    told.push(quantity);
                }
            }
        }
    }
}

/// Both figures, if the metric can be better or worse and both are more than guesses.
fn figures(metric: &str, ours: Option<Measured>, theirs: Option<Measured>) -> Option<(Measured, Measured)> {
    if better(metric) == Better::Neither {
        return None;
    }
    let (ours, theirs) = (ours?, theirs?);
    ours.can_meet(&theirs).then_some((ours, theirs))
}

/// What a metric tells of: those that tell the same in other units have the same name here. In the closed loop the mean latency
/// is the rate, seen from the other side: so many requests wait all the time.
pub(crate) fn quantity(metric: &str, loop_kind: LoopKind) -> &str {
    match metric {
        "records_per_s" | "mb_per_s" | "records_per_s_each" | "mb_per_s_each" => "rate",
        "mean_us" if loop_kind == LoopKind::Closed => "rate",
        "read_records_per_s" | "read_mb_per_s" => "rate of reading",
        "server_cpu_s_per_gb" | "server_cpu_us_per_record" => "processor time",
        other => other,
    }
}
