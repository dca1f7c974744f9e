//! A line for each system and client over a parameter of the rows; another parameter makes panels.

use super::panels::{Panel, Panels};
use super::scene::Point;
use crate::compare::report::columns::Column;
use crate::compare::report::measured::{Measured, title};
use crate::compare::report::number;
use crate::compare::results::{Experiment, Row};

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
        let lines = columns.iter().enumerate().map(|(number, column)| {
            let points = points(&rows, column, x, metric);
            let sure = points.len();
            (number, points, sure)
        });
        Panel {
            title,
            lines: lines.collect(),
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
fn points(rows: &[&Row], column: &Column, x: &str, metric: &str) -> Vec<Point> {
    let mut points: Vec<Point> = rows
        .iter()
        .filter_map(|row| {
            let measured = Measured::of(column.cell(row)?, metric)?;
            Some((*row.parameters.get(x)?, measured.median))
        })
        .filter(|(x, y)| x.is_finite() && *x > 0.0 && *y > 0.0)
        .collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
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
