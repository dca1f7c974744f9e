//! The distribution of latencies: a panel for each row, a curve for each cell. Beyond the percentiles that the samples
//! bear, a curve is pale; all of it is, where latencies decide nothing.

use std::collections::BTreeMap;

use super::panels::{Curve, Panel, Panels, Reading};
use crate::report::columns::Column;
use crate::report::guesses::{Guess, is_few};
use crate::results::{Cell, Experiment};

/// What is written along x.
const TICKS: [(f64, &str); 6] = [
    (2.0, "50 %"),
    (10.0, "90 %"),
    (100.0, "99 %"),
    (1e3, "99.9 %"),
    (1e4, "99.99 %"),
    (1e5, "99.999 %"),
];

/// The panels of an experiment: of rows that have a distribution, of latencies or of deliveries as the metric of its middle says.
pub(crate) fn panels<'a>(experiment: &'a Experiment, columns: Vec<Column>, metric: &str) -> Panels<'a> {
    let are_deliveries = metric.starts_with("delivery_");
    let panels = experiment.rows.iter().filter_map(|row| {
        let curves: Vec<Curve> = columns
            .iter()
            .enumerate()
            .filter_map(|(column, of)| {
                // Such latencies as a whole say nothing of the system.
                let guess = of.measured(row, metric).and_then(|measured| measured.guess);
                let is_guess = guess.is_some_and(|guess| guess != Guess::FewSamples);
                let cell = of.cell(row)?;
                let curve = match are_deliveries {
                    true => &cell.delivery_percentiles,
                    false => &cell.percentiles,
                };
                let readings = readings(curve, samples(cell, are_deliveries), is_guess);
                (!readings.is_empty()).then_some(Curve { column, readings })
            })
            .collect();
        let title = row.name.clone();
        (!curves.is_empty()).then_some(Panel { title, curves })
    });
    Panels {
        title: &experiment.title,
        x: "percentile".to_owned(),
        y: match are_deliveries {
            true => "end to end, µs".to_owned(),
            false => "latency, µs".to_owned(),
        },
        x_ticks: TICKS.map(|(place, words)| (place, words.to_owned())).to_vec(),
        has_marks: false,
        panels: panels.collect(),
        columns,
    }
}

/// How many samples a cell's curve is made of: each record is delivered by itself.
fn samples(cell: &Cell, are_deliveries: bool) -> f64 {
    let of = |run: &BTreeMap<String, f64>| {
        let samples = run.get("samples").filter(|_| !are_deliveries);
        samples.or_else(|| run.get("records")).copied()
    };
    cell.runs.iter().filter_map(of).sum()
}

/// A cell's curve from the median on.
fn readings(curve: &[(f64, f64)], samples: f64, is_guess: bool) -> Vec<Reading> {
    let mut quantiles = curve.to_vec();
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
