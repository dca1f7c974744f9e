//! The first system beside each other one, figure by figure: who is better, and whether the difference counts.
//!
//! Only like is set beside like: the same row, the same metric, the best client of both or the same client of both. Metrics that
//! tell the same in other units count once. Figures of publications never come here.

use super::columns::{self, Column};
use super::measured::{Measured, Verdict, better};
use super::speed_ups;
use crate::results::{Better, Experiment, LoopKind, Results, Row, SystemFacts};

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
        let times = speed_ups::times(&self.ours, &self.theirs, self.metric)?;
        Some(times.max(1.0 / times)).filter(|times| times.is_finite())
    }
}

/// All comparisons: the first system with all others, and its variants of another guarantee with those whose guarantee is not the
/// first system's either: who promises what the first does has met it already. Each with the best client of both, and with each client
/// that both have.
pub(crate) fn all(results: &Results) -> Vec<Comparison<'_>> {
    let mut found = Vec::new();
    let Some(first) = results.systems.first() else {
        return found;
    };
    let is_asked = |our: &SystemFacts, other: &SystemFacts| {
        our.name == first.name || (our.survives != first.survives && other.survives != first.survives)
    };
    for experiment in &results.experiments {
        let columns = columns::of(results, experiment);
        let (ours, others): (Vec<_>, Vec<_>) = columns
            .iter()
            .filter_map(|column| Some((column.facts?, column)))
            .partition(|(system, _)| is_named_after(&system.name, &first.name));
        for row in &experiment.rows {
            for (our_system, our) in &ours {
                for (other_system, other) in &others {
                    if is_asked(our_system, other_system) {
                        push_figures(
                            &mut found,
                            (experiment, row),
                            (our_system, our),
                            (other_system, other),
                        );
                    }
                }
            }
        }
    }
    found
}

/// Says whether a name is that of a system, or of one of its variants, which are named after it.
pub(crate) fn is_named_after(name: &str, system: &str) -> bool {
    let rest = name.strip_prefix(system);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// The figures of a row that can be set side by side; of metrics that tell the same, the first.
fn push_figures<'a>(
    found: &mut Vec<Comparison<'a>>,
    (experiment, row): (&'a Experiment, &'a Row),
    (our_system, our): (&'a SystemFacts, &Column<'a>),
    (other_system, other): (&'a SystemFacts, &Column<'a>),
) {
    let are_best = our.is_best_client && other.is_best_client;
    if !are_best && our.driver != other.driver {
        return;
    }
    let client = our.client();
    let mut told: Vec<&str> = Vec::new();
    for metric in &experiment.metrics {
        let quantity = quantity(metric, experiment.loop_kind);
        if better(metric) == Better::Neither || told.contains(&quantity) {
            continue;
        }
        let both = our.measured(row, metric).zip(other.measured(row, metric));
        if let Some((ours, theirs)) = both.filter(|(ours, theirs)| ours.can_meet(theirs)) {
            found.push(Comparison {
                experiment,
                row,
                metric,
                our_system,
                other_system,
                common_client: (!are_best && !client.is_empty()).then_some(client),
                ours,
                theirs,
                verdict: ours.beside(&theirs, metric),
                decides: told.is_empty(),
            });
            told.push(quantity);
        }
    }
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
