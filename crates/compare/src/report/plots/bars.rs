//! A panel for each row, a bar from zero for each cell, with its figure at its end and a whisker for its spread. What is next to
//! a guess is pale.

use bench::number;

use super::svg::{GRID, PALE, PAPER, QUIET, SIZE, Svg, TEXT, WIDTH, colour, fit, width, wrap};
use crate::report::columns::Column;
use crate::report::measured::{Measured, title};
use crate::results::{Experiment, Row};

const LEFT: f64 = 16.0;
const GAP: f64 = 10.0;
/// The room of a bar, and of one whose label has two lines.
const BAR: f64 = 20.0;
const TALL_BAR: f64 = 30.0;
const LABEL_LINE: f64 = 13.0;
/// Half of a bar's height.
const HALF: f64 = 7.0;
const ABOVE: f64 = 34.0;
const BELOW: f64 = 14.0;
/// The part of a panel that labels may take.
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
    let least = tops
        .iter()
        .copied()
        .filter(|top| *top > 0.0)
        .fold(f64::INFINITY, f64::min);
    if most <= 0.0 {
        return None;
    }
    let mut svg = Svg::default();
    let scale = if most <= SHARED * least {
        "all panels have one scale"
    } else {
        "each panel has its own scale"
    };
    let heading = format!("{} · {} · {scale}", experiment.title, title(metric));
    svg.title(&heading);
    let across = if experiment.rows.len() > 3 { 2 } else { 1 };
    let room = WIDTH / across as f64;
    let mut below = 36.0;
    for (rows, tops) in experiment.rows.chunks(across).zip(tops.chunks(across)) {
        let panels = rows.iter().zip(tops).enumerate().map(|(index, (row, top))| {
            let scale = if most <= SHARED * least { most } else { *top };
            panel(
                &mut svg,
                row,
                columns,
                metric,
                (room * index as f64, below, room, scale),
            )
        });
        below = panels.fold(below, f64::max);
    }
    Some(svg.finish(below + 4.0))
}

/// Draws one panel and says where it ends.
fn panel(
    svg: &mut Svg,
    row: &Row,
    columns: &[Column<'_>],
    metric: &str,
    (left, top, room, scale): (f64, f64, f64, f64),
) -> f64 {
    let asked: Vec<&Column<'_>> = columns
        .iter()
        .filter(|column| column.cell(row).is_some())
        .collect();
    let label = columns
        .iter()
        .map(|column| width(&column.title, SIZE))
        .fold(0.0, f64::max);
    let label = label.min(room * LABEL_PART);
    let (first, last) = (left + LEFT + label + GAP, left + room - LEFT - 62.0);
    let name = fit(&row.name, 13.0, room - 2.0 * LEFT);
    svg.sized(&name, (left + LEFT, top + 20.0), "start", TEXT, 13.0);
    let labels: Vec<Vec<String>> = asked
        .iter()
        .map(|column| wrap(&column.title, SIZE, label))
        .collect();
    let height = if labels.iter().any(|lines| lines.len() > 1) {
        TALL_BAR
    } else {
        BAR
    };
    let from = top + ABOVE;
    let to = from + height * asked.len() as f64;
    for (index, (column, lines)) in asked.iter().zip(labels).enumerate() {
        let middle = from + height * (index as f64 + 0.5);
        let above = middle - LABEL_LINE / 2.0 * (lines.len() as f64 - 1.0);
        for (line, words) in lines.iter().enumerate() {
            svg.words(
                words,
                (first - GAP, above + LABEL_LINE * line as f64),
                "end",
                TEXT,
            );
        }
        let place =
            |value: f64| first + (last - first) * if scale > 0.0 { value.max(0.0) / scale } else { 0.0 };
        match column.measured(row, metric) {
            Some(measured) => bar(svg, column, &measured, (first, middle), place),
            None => svg.words("no figure", (first + 6.0, middle), "start", QUIET),
        }
    }
    svg.thin([(first, from), (first, to)], GRID, 1.0);
    to + BELOW
}

/// A bar with its whisker and, behind both, its median. Of a common client only the edge has the full colour.
fn bar(
    svg: &mut Svg,
    column: &Column<'_>,
    measured: &Measured,
    (first, middle): (f64, f64),
    place: impl Fn(f64) -> f64,
) {
    let is_guess = measured.guess.is_some();
    let strength = if is_guess { PALE } else { 1.0 };
    let fill = strength * if column.is_best_client { 1.0 } else { 0.25 };
    let mut end = place(measured.median);
    let (upper, lower) = (middle - HALF, middle + HALF);
    let corners = [(first, upper), (end, upper), (end, lower), (first, lower)];
    svg.area(
        &corners,
        (colour(column.ink), fill),
        (colour(column.ink), strength),
    );
    if let Some((least, most)) = measured.spread() {
        let ends = [place(least), place(most)];
        let middle_line = ends.map(|end| (end, middle));
        svg.line(&middle_line, PAPER, 3.0, 1.0, "none");
        svg.thin(middle_line, TEXT, 1.0);
        for end in ends {
            svg.thin([(end, middle - 3.0), (end, middle + 3.0)], TEXT, 1.0);
        }
        end = end.max(ends[1]);
    }
    let ink = if is_guess { QUIET } else { TEXT };
    svg.words(&number::plain(measured.median), (end + 6.0, middle), "start", ink);
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
