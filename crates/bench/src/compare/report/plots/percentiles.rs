//! The distribution of latencies: a panel for each row, a curve for each cell. Beyond the percentiles that the samples
//! bear, a curve is pale; all of it is, where latencies decide nothing.

use super::panels::{Curve, Panel, Panels, Reading};
use crate::compare::report::columns::Column;
use crate::compare::report::guesses::{Guess, is_few};
use crate::compare::results::{Cell, Experiment};

/// What is written along x.
const TICKS: [(f64, &str); 6] = [
    (2.0, "50 %"),
    (10.0, "90 %"),
    (100.0, "99 %"),
    (1e3, "99.9 %"),
    (1e4, "99.99 %"),
    (1e5, "99.999 %"),
];

/// The panels of an experiment: of rows that have a distribution.
pub(crate) fn panels(experiment: &Experiment, columns: Vec<Column>) -> Panels<'_> {
    let panels = experiment.rows.iter().filter_map(|row| {
        let curves: Vec<Curve> = columns
            .iter()
            .enumerate()
            .filter_map(|(column, of)| {
                // Such latencies as a whole say nothing of the system.
                let guess = of.measured(row, "p50_us").and_then(|measured| measured.guess);
                let is_guess = guess.is_some_and(|guess| guess != Guess::FewSamples);
                let readings = readings(of.cell(row)?, is_guess);
                (!readings.is_empty()).then_some(Curve { column, readings })
            })
            .collect();
        let title = row.name.clone();
        (!curves.is_empty()).then_some(Panel { title, curves })
    });
    Panels {
        title: &experiment.title,
        x: "percentile".to_owned(),
        y: "latency, µs".to_owned(),
        x_ticks: TICKS.map(|(place, words)| (place, words.to_owned())).to_vec(),
        has_marks: false,
        panels: panels.collect(),
        columns,
    }
}

/// A cell's curve from the median on.
fn readings(cell: &Cell, is_guess: bool) -> Vec<Reading> {
    let samples: f64 = cell
        .runs
        .iter()
        .filter_map(|run| run.get("samples").or_else(|| run.get("records")))
        .sum();
    let mut quantiles: Vec<(f64, f64)> = cell.percentiles.clone();
    quantiles
        .retain(|(quantile, latency)| (0.5..1.0).contains(quantile) && latency.is_finite() && *latency > 0.0);
    quantiles.sort_by(|one, other| one.0.total_cmp(&other.0));
    let readings = quantiles.into_iter().map(|(quantile, latency)| Reading {
        at: (1.0 / (1.0 - quantile), latency),
        range: None,
        is_guess: is_guess || (samples > 0.0 && is_few(samples, quantile)),
    });
    readings.collect()
}
