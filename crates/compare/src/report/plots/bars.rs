//! A panel for each row, a bar from zero for each cell, with its figure at its end and a whisker for its spread. What is next to
//! a guess is pale.

use super::ink::Ink;
use super::panels::PALE;
use super::scene::{self, SIZE, Scene, Shape, Side, fit, wrap};
use crate::report::columns::Column;
use crate::report::measured::{Measured, title};
use crate::results::{Experiment, Row};
use bench::number;

const LEFT: f64 = 16.0;
const GAP: f64 = 10.0;
const BAR: f64 = 20.0;
/// How high a bar is, of its room.
const THICK: f64 = BAR * 0.72;
/// The room of a bar whose label has two lines, and the height of one of these.
const TALL_BAR: f64 = 30.0;
const LABEL_LINE: f64 = 13.0;
const ABOVE: f64 = 34.0;
const BELOW: f64 = 14.0;
/// The part of a panel that labels may take.
const LABEL_PART: f64 = 0.4;

/// Up to this many times the least of the panels' largest figures may be the most of them to share a scale.
const SHARED: f64 = 5.0;

/// The whole plot of a width; none if no cell has the metric.
pub(crate) fn scene(experiment: &Experiment, columns: &[Column], metric: &str, width: f64) -> Option<Scene> {
    let rows: Vec<&Row> = experiment.rows.iter().collect();
    let tops: Vec<f64> = rows.iter().map(|row| top(row, columns, metric)).collect();
    let most = tops.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let is_shared = is_shared(&tops);
    let mut scene = Scene::of_width(width);
    let across = if rows.len() > 3 { scene.panels_across() } else { 1 };
    let room = width / across as f64;
    let heading = format!("{} · {}", experiment.title, title(metric));
    scene.words(
        fit(&heading, 15.0, width - 2.0 * LEFT),
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
    let figures = columns.iter().filter_map(|column| column.measured(row, metric));
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
        .map(|column| scene::width(&column.title, SIZE))
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
    let labels: Vec<Vec<String>> = asked
        .iter()
        .map(|column| wrap(&column.title, SIZE, label))
        .collect();
    let is_tall = labels.iter().any(|lines| lines.len() > 1);
    let height = if is_tall { TALL_BAR } else { BAR };
    let from = top + ABOVE;
    let to = from + height * asked.len() as f64;
    for (index, (column, lines)) in asked.iter().zip(labels).enumerate() {
        let middle = from + height * (index as f64 + 0.5);
        write_label(scene, lines, (first - GAP, middle));
        let Some(measured) = column.measured(row, metric) else {
            scene.words("no figure", (first + 6.0, middle), Side::Right, Ink::Quiet, SIZE);
            continue;
        };
        let place =
            |value: f64| first + (last - first) * if scale > 0.0 { value.max(0.0) / scale } else { 0.0 };
        figure(scene, column, &measured, (first, middle), place);
    }
    scene.line(vec![(first, from), (first, to)], Ink::Quiet, 1.0);
    to + BELOW
}

/// A label of one or two lines around its middle.
fn write_label(scene: &mut Scene, lines: Vec<String>, (right, middle): (f64, f64)) {
    let above = middle - LABEL_LINE / 2.0 * (lines.len() as f64 - 1.0);
    for (line, words) in lines.into_iter().enumerate() {
        let place = (right, above + LABEL_LINE * line as f64);
        scene.words(words, place, Side::Left, Ink::Text, SIZE);
    }
}

/// A bar with its whisker and, behind both, its median.
fn figure(
    scene: &mut Scene,
    column: &Column,
    measured: &Measured,
    (first, middle): (f64, f64),
    place: impl Fn(f64) -> f64,
) {
    let is_guess = measured.guess.is_some();
    let mut end = place(measured.median);
    bar(scene, column, (first, end), middle, is_guess);
    if measured.runs > 1 && measured.most > measured.least {
        whisker(scene, (place(measured.least), place(measured.most)), middle);
        end = end.max(place(measured.most));
    }
    let ink = if is_guess { Ink::Quiet } else { Ink::Text };
    let words = number::plain(measured.median);
    scene.words(words, (end + 6.0, middle), Side::Right, ink, SIZE);
}

/// A bar; for a common client only its edge is of the full colour.
fn bar(scene: &mut Scene, column: &Column, (first, last): (f64, f64), middle: f64, is_guess: bool) {
    let (upper, lower) = (middle - THICK / 2.0, middle + THICK / 2.0);
    let ink = Ink::System(column.ink);
    let strength = if is_guess { PALE } else { 1.0 };
    let opacity = strength * if column.is_best_client { 1.0 } else { 0.25 };
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::report::columns;
    use crate::results::{Cell, Results, SystemFacts};

    const LONG: &str =
        "A system with a name that is much too long for one line of a label, flushing each message at once";

    fn experiment(samples: f64) -> Experiment {
        let figures = [("p99_us".to_owned(), 9.0), ("samples".to_owned(), samples)];
        Experiment {
            metrics: vec!["p99_us".to_owned()],
            rows: vec![Row {
                name: String::new(),
                parameters: BTreeMap::new(),
                cells: vec![Cell {
                    system: "ours".to_owned(),
                    best_client: true,
                    runs: vec![BTreeMap::from(figures); 3],
                    ..Cell::default()
                }],
            }],
            ..Experiment::default()
        }
    }

    fn drawn(title: &str, samples: f64) -> Scene {
        let results = Results {
            repetitions: 3,
            systems: vec![SystemFacts {
                name: "ours".to_owned(),
                title: title.to_owned(),
                ..SystemFacts::default()
            }],
            ..Results::default()
        };
        let experiment = experiment(samples);
        let columns = columns::of(&results, &experiment);
        super::scene(&experiment, &columns, "p99_us", scene::WIDTH).expect("a figure")
    }

    #[test]
    fn a_long_label_has_two_lines_and_room_for_them() {
        let [short, long] = ["Ours", LONG].map(|title| drawn(title, 1e6));
        let labels = |scene: &Scene| {
            let words = scene.shapes.iter();
            let is_label = |shape: &&Shape| matches!(shape, Shape::Words { side: Side::Left, .. });
            words.filter(is_label).count()
        };
        assert_eq!((labels(&short), labels(&long)), (1, 2));
        assert!(long.height > short.height);
    }

    #[test]
    fn a_guess_is_pale() {
        let opacity = |scene: &Scene| {
            let mut shapes = scene.shapes.iter();
            shapes.find_map(|shape| match shape {
                Shape::Bar { opacity, .. } => Some(*opacity),
                _ => None,
            })
        };
        assert_eq!(opacity(&drawn("Ours", 1e6)), Some(1.0));
        assert_eq!(opacity(&drawn("Ours", 100.0)), Some(PALE));
    }
}
