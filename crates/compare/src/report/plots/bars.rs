//! A panel for each row, a bar from zero for each cell, with its figure at its end and a whisker for its spread. What is next to
//! a guess is pale.

use bench::number;
use minijinja::{Value, context};

use super::svg::{self, SIZE, WIDTH, look, width, wrap};
use crate::report::columns::Column;
use crate::report::measured::title;
use crate::results::{Experiment, Row};

/// The part of a panel that labels may take, where two stand side by side.
const LABEL_PART: f64 = 0.4;
/// Up to this many times the least of the panels' largest figures may be the most of them to share a scale.
const SHARED: f64 = 5.0;

/// The whole plot; none if no cell has the metric.
pub(crate) fn draw(experiment: &Experiment, columns: &[Column<'_>], metric: &str) -> Option<String> {
    let top = |row: &Row| {
        let figures = columns.iter().filter_map(|column| column.measured(row, metric));
        figures.map(|measured| measured.most).fold(0.0, f64::max)
    };
    let tops: Vec<f64> = experiment.rows.iter().map(top).collect();
    let most = tops.iter().copied().fold(0.0, f64::max);
    let tall = tops.iter().copied().filter(|top| *top > 0.0);
    let have_one_scale = most <= SHARED * tall.fold(f64::INFINITY, f64::min);
    if most <= 0.0 {
        return None;
    }
    let scale = match have_one_scale {
        true => "all panels have one scale",
        false => "each panel has its own scale",
    };
    let room = if experiment.rows.len() > 3 {
        WIDTH / 2.0
    } else {
        WIDTH
    };
    let widths = columns.iter().map(|column| width(&column.title, SIZE));
    let label = widths.fold(0.0, f64::max).min(room * LABEL_PART);
    let panel = |(row, top): (&Row, &f64)| {
        let scale = if have_one_scale { most } else { *top };
        let asked = columns.iter().filter(|column| column.cell(row).is_some());
        let is_tall = |column: &Column<'_>| wrap(&column.title, SIZE, label).len() > 1;
        context! {
            title => row.name,
            is_tall => asked.clone().any(is_tall),
            bars => asked.map(|column| bar(row, column, metric, (label, scale))).collect::<Vec<_>>(),
        }
    };
    let panels = experiment.rows.iter().zip(&tops).map(panel);
    Some(svg::draw(context! {
        title => format!("{} · {} · {scale}", experiment.title, title(metric)),
        label,
        panels => panels.collect::<Vec<_>>(),
    }))
}

/// A bar with its label of that width, its ends as parts of a scale.
fn bar(row: &Row, column: &Column<'_>, metric: &str, (label, scale): (f64, f64)) -> Value {
    let measured = column.measured(row, metric);
    let part = |value: f64| if scale > 0.0 { value.max(0.0) / scale } else { 0.0 };
    let range = measured.and_then(|measured| measured.spread());
    context! {
        column => look(column),
        label => wrap(&column.title, SIZE, label),
        figure => measured.map(|measured| number::plain(measured.median)),
        median => measured.map(|measured| part(measured.median)),
        range => range.map(|(least, most)| [part(least), part(most)]),
        is_guess => measured.is_some_and(|measured| measured.guess.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::columns;
    use crate::results::made_up;

    fn drawn(title: &str, samples: f64) -> String {
        let mut results = made_up::results(&["ours"]);
        title.clone_into(&mut results.systems[0].title);
        let cell = made_up::cell("ours", &[("p99_us", 9.0), ("samples", samples)]);
        let experiment = made_up::experiment(&["p99_us"], vec![made_up::row("", vec![cell])]);
        draw(&experiment, &columns::of(&results, &experiment), "p99_us").expect("a figure")
    }

    #[test]
    fn a_long_label_has_two_lines_and_a_guess_is_pale() {
        let long = "A system with a name that is much too long for one line of a label, flushing each message at once";
        let labels = |svg: &str| svg.matches("text-anchor=\"end\"").count();
        assert_eq!((labels(&drawn("Ours", 1e6)), labels(&drawn(long, 1e6))), (1, 2));
        let is_pale = |svg: &str| svg.contains("fill-opacity=\"0.3\"");
        assert!(!is_pale(&drawn("Ours", 1e6)) && is_pale(&drawn("Ours", 100.0)));
    }
}
