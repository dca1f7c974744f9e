//! A panel for each row, a bar from zero for each cell, with its figure at its end and a whisker for its spread.

use super::ink::Ink;
use super::scene::{SIZE, Scene, Shape, Side, WIDTH, fit, width};
use crate::compare::report::columns::Column;
use crate::compare::report::measured::{Measured, title};
use crate::compare::report::number;
use crate::compare::results::{Experiment, Row};

const LEFT: f64 = 16.0;
const GAP: f64 = 10.0;
const BAR: f64 = 20.0;
const ABOVE: f64 = 34.0;
const BELOW: f64 = 14.0;
/// The part of a panel that labels may take.
const LABEL_PART: f64 = 0.4;

/// Up to this many times the least of the panels' largest figures may be the most of them to share a scale.
const SHARED: f64 = 5.0;

/// The whole plot; none if no cell has the metric.
pub(crate) fn scene(experiment: &Experiment, columns: &[Column], metric: &str) -> Option<Scene> {
    let rows: Vec<&Row> = experiment.rows.iter().collect();
    let tops: Vec<f64> = rows.iter().map(|row| top(row, columns, metric)).collect();
    let most = tops.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let is_shared = is_shared(&tops);
    let across = if rows.len() > 3 { 2 } else { 1 };
    let room = WIDTH / across as f64;
    let mut scene = Scene::default();
    let heading = format!("{} · {}", experiment.title, title(metric));
    scene.words(
        fit(&heading, 15.0, WIDTH - 2.0 * LEFT),
        (LEFT, 22.0),
        Side::Right,
        Ink::Text,
        15.0,
    );
    let mut below = 36.0;
    for (line, rows) in rows.chunks(across).enumerate() {
        let mut end: f64 = below;
        for (index, row) in rows.iter().enumerate() {
            let scale = if is_shared {
                most
            } else {
                tops[line * across + index]
            };
            let left = room * index as f64;
            end = end.max(panel(
                &mut scene,
                row,
                columns,
                metric,
                (left, below, room, scale),
            ));
        }
        below = end;
    }
    scene.height = below + 4.0;
    Some(scene)
}

/// Whether all panels of an experiment have one scale.
pub(crate) fn has_shared_scale(experiment: &Experiment, columns: &[Column], metric: &str) -> bool {
    let tops: Vec<f64> = experiment
        .rows
        .iter()
        .map(|row| top(row, columns, metric))
        .collect();
    is_shared(&tops)
}

fn is_shared(tops: &[f64]) -> bool {
    let tops = || tops.iter().copied().filter(|top| *top > 0.0);
    tops().fold(0.0, f64::max) <= SHARED * tops().fold(f64::INFINITY, f64::min)
}

/// The largest figure of a row, with its spread.
fn top(row: &Row, columns: &[Column], metric: &str) -> f64 {
    let figures = columns
        .iter()
        .filter_map(|column| Measured::of(column.cell(row)?, metric));
    figures.map(|measured| measured.most).fold(0.0, f64::max)
}

/// Draws one panel and says where it ends.
fn panel(
    scene: &mut Scene,
    row: &Row,
    columns: &[Column],
    metric: &str,
    (left, top, room, scale): (f64, f64, f64, f64),
) -> f64 {
    let asked: Vec<&Column> = columns
        .iter()
        .filter(|column| column.cell(row).is_some())
        .collect();
    let label = columns
        .iter()
        .map(|column| width(&column.title, SIZE))
        .fold(0.0, f64::max)
        .ceil()
        .min(room * LABEL_PART);
    let first = left + LEFT + label + GAP;
    let last = left + room - LEFT - 62.0;
    scene.words(
        fit(&row.name, 13.0, room - 2.0 * LEFT),
        (left + LEFT, top + 20.0),
        Side::Right,
        Ink::Text,
        13.0,
    );
    let from = top + ABOVE;
    let to = from + BAR * asked.len() as f64;
    for (index, column) in asked.iter().enumerate() {
        let middle = from + BAR * (index as f64 + 0.5);
        let name = fit(&column.title, SIZE, label);
        scene.words(name, (first - GAP, middle), Side::Left, Ink::Text, SIZE);
        let measured = column.cell(row).and_then(|cell| Measured::of(cell, metric));
        let Some(measured) = measured else {
            scene.words("no figure", (first + 6.0, middle), Side::Right, Ink::Quiet, SIZE);
            continue;
        };
        let place =
            |value: f64| first + (last - first) * if scale > 0.0 { value.max(0.0) / scale } else { 0.0 };
        bar(scene, column, (first, place(measured.median)), middle);
        let mut end = place(measured.median);
        if measured.runs > 1 && measured.most > measured.least {
            whisker(scene, (place(measured.least), place(measured.most)), middle);
            end = end.max(place(measured.most));
        }
        scene.words(
            number::plain(measured.median),
            (end + 6.0, middle),
            Side::Right,
            Ink::Text,
            SIZE,
        );
    }
    scene.line(vec![(first, from), (first, to)], Ink::Quiet, 1.0);
    to + BELOW
}

/// A bar; for a common client only its edge is of the full colour.
fn bar(scene: &mut Scene, column: &Column, (first, last): (f64, f64), middle: f64) {
    let (upper, lower) = (middle - BAR * 0.36, middle + BAR * 0.36);
    let ink = Ink::System(column.number);
    let opacity = if column.is_best_client { 1.0 } else { 0.25 };
    let corners = [(first, upper), (last, lower)];
    scene.shapes.push(Shape::Bar {
        corners,
        ink,
        opacity,
    });
    if !column.is_best_client {
        let edge = vec![(first, upper), (last, upper), (last, lower), (first, lower)];
        scene.line(edge, ink, 1.4);
    }
}

/// From the least to the most.
fn whisker(scene: &mut Scene, (least, most): (f64, f64), middle: f64) {
    scene.line(vec![(least, middle), (most, middle)], Ink::Paper, 3.0);
    scene.line(vec![(least, middle), (most, middle)], Ink::Text, 1.0);
    for end in [least, most] {
        scene.line(vec![(end, middle - 3.0), (end, middle + 3.0)], Ink::Text, 1.0);
    }
}
