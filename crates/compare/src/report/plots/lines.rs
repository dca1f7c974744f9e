//! A line for each system and client over a parameter of the rows; another parameter makes panels.

use super::panels::{Curve, Panel, Panels, Reading};
use crate::report::columns::Column;
use crate::report::measured::title;
use crate::results::{Experiment, Row};
use bench::number;

/// The panels of an experiment.
pub(crate) fn panels<'a>(
    experiment: &'a Experiment,
    columns: Vec<Column>,
    (x, metric, by): (&str, &str, Option<&str>),
) -> Panels<'a> {
    let value = |row: &Row, name: &str| row.parameters.get(name).copied().filter(|value| *value > 0.0);
    let values = |name: &str| {
        let mut values: Vec<f64> = experiment
            .rows
            .iter()
            .filter_map(|row| value(row, name))
            .collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    };
    let panel = |title: String, rows: Vec<&Row>| {
        let curves = columns.iter().enumerate().map(|(column, of)| Curve {
            column,
            readings: readings(&rows, of, x, metric),
        });
        Panel {
            title,
            curves: curves.collect(),
        }
    };
    let panels = match by {
        None => vec![panel(String::new(), experiment.rows.iter().collect())],
        Some(by) => values(by)
            .into_iter()
            .map(|own| {
                let rows = experiment.rows.iter().filter(|row| value(row, by) == Some(own));
                panel(format!("{}: {}", words(by), number::tick(own)), rows.collect())
            })
            .collect(),
    };
    Panels {
        title: &experiment.title,
        x: words(x),
        y: title(metric).to_owned(),
        x_ticks: values(x)
            .into_iter()
            .map(|value| (value, number::tick(value)))
            .collect(),
        has_marks: true,
        panels,
        columns,
    }
}

/// The medians of one column over the parameter, in its order.
fn readings(rows: &[&Row], column: &Column, x: &str, metric: &str) -> Vec<Reading> {
    let mut readings: Vec<Reading> = rows
        .iter()
        .filter_map(|row| {
            let measured = column.measured(row, metric)?;
            let is_spread = measured.runs > 1 && measured.most > measured.least;
            Some(Reading {
                at: (*row.parameters.get(x)?, measured.median),
                range: is_spread.then_some((measured.least, measured.most)),
                is_guess: measured.guess.is_some(),
            })
        })
        .filter(|Reading { at: (x, y), .. }| x.is_finite() && *x > 0.0 && *y > 0.0)
        .collect();
    readings.sort_by(|one, other| one.at.0.total_cmp(&other.at.0));
    readings
}

/// A parameter's name in words: "batch_records" is "records in a batch".
pub(crate) fn words(parameter: &str) -> String {
    match parameter {
        "batch_records" => "records in a batch".to_owned(),
        "record_bytes" => "bytes in a record".to_owned(),
        "in_flight" => "requests in flight".to_owned(),
        "rate" => "records due a second".to_owned(),
        other => other.replace('_', " "),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::report::columns;
    use crate::report::plots::scene;
    use crate::results::{Cell, Results, SystemFacts};

    /// A row over 8 shards, whose latencies are of so many samples.
    fn experiment(samples: f64) -> Experiment {
        let run =
            |p99_us: f64| BTreeMap::from([("p99_us".to_owned(), p99_us), ("samples".to_owned(), samples)]);
        Experiment {
            metrics: vec!["p99_us".to_owned()],
            rows: vec![Row {
                name: String::new(),
                parameters: BTreeMap::from([("shards".to_owned(), 8.0)]),
                cells: vec![Cell {
                    system: "ours".to_owned(),
                    best_client: true,
                    runs: [4.0, 5.0, 90.0].map(run).to_vec(),
                    ..Cell::default()
                }],
            }],
            ..Experiment::default()
        }
    }

    #[test]
    fn guesses_are_told_from_figures_and_the_spread_is_shown() {
        let results = Results {
            repetitions: 3,
            systems: vec![SystemFacts {
                name: "ours".to_owned(),
                ..SystemFacts::default()
            }],
            ..Results::default()
        };
        for (samples, is_guess) in [(1e6, false), (100.0, true)] {
            let experiment = experiment(samples);
            let columns = columns::of(&results, &experiment);
            let panels = panels(&experiment, columns, ("shards", "p99_us", None));
            let expected = Reading {
                at: (8.0, 5.0),
                range: Some((4.0, 90.0)),
                is_guess,
            };
            assert_eq!(panels.panels[0].curves[0].readings, [expected]);
            assert!(panels.scene(scene::WIDTH).is_some());
        }
    }
}
