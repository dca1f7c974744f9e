//! Lines over logarithmic axes, in panels that share both axes: of medians over a parameter of the rows (another parameter makes
//! panels), or of percentiles, a panel for each row. What is next to a guess is pale, and so is what leads to it.

use bench::number;

use super::svg::{GRID, PALE, Point, QUIET, SIZE, Svg, TEXT, WIDTH, colour, dashes, fit, width};
use crate::report::columns::Column;
use crate::report::guesses::{Guess, is_few};
use crate::report::measured::title;
use crate::results::{Experiment, Row};

const LEFT: f64 = 62.0;
const RIGHT: f64 = 34.0;
const HEIGHT: f64 = 250.0;
const ABOVE: f64 = 34.0;
const BELOW: f64 = 52.0;
const LEGEND_LINE: f64 = 22.0;
const LEGEND_MARK: f64 = 30.0;
/// Whiskers are behind the curves.
const WHISKER: f64 = 0.5;
/// What is written along an axis of percentiles.
const PERCENTILES: [(f64, &str); 6] = [
    (2.0, "50 %"),
    (10.0, "90 %"),
    (100.0, "99 %"),
    (1e3, "99.9 %"),
    (1e4, "99.99 %"),
    (1e5, "99.999 %"),
];

/// One figure of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Reading {
    at: Point,
    /// The least and the most, if there were several.
    range: Option<(f64, f64)>,
    /// Whether it says too little to decide anything.
    is_guess: bool,
}

/// A panel: its title, and a curve for each column.
type Panel = (String, Vec<Vec<Reading>>);

/// What all panels share, and the panels.
struct Plot<'a> {
    title: &'a str,
    x: String,
    y: String,
    /// The values along x that are written, with their words.
    x_ticks: Vec<(f64, String)>,
    /// Whether each point has its mark.
    has_marks: bool,
    columns: &'a [Column<'a>],
    panels: Vec<Panel>,
}

/// Medians over a parameter; none if there is nothing to draw.
pub(crate) fn over_parameter(
    experiment: &Experiment,
    columns: &[Column<'_>],
    (x, metric, by): (&str, &str, Option<&str>),
) -> Option<String> {
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
    let panel = |title: String, own: Option<f64>| {
        let is_in = |row: &&Row| own.is_none() || by.and_then(|by| value(row, by)) == own;
        let rows: Vec<&Row> = experiment.rows.iter().filter(is_in).collect();
        (
            title,
            columns
                .iter()
                .map(|column| medians(&rows, column, x, metric))
                .collect(),
        )
    };
    let panels = match by {
        None => vec![panel(String::new(), None)],
        Some(by) => {
            let title = |own: f64| format!("{}: {}", words(by), number::tick(own));
            values(by)
                .into_iter()
                .map(|own| panel(title(own), Some(own)))
                .collect()
        }
    };
    let x_ticks = values(x).into_iter().map(|value| (value, number::tick(value)));
    Plot {
        title: &experiment.title,
        x: words(x),
        y: title(metric).to_owned(),
        x_ticks: x_ticks.collect(),
        has_marks: true,
        columns,
        panels,
    }
    .draw()
}

/// The medians of one column over the parameter, in its order.
fn medians(rows: &[&Row], column: &Column<'_>, x: &str, metric: &str) -> Vec<Reading> {
    let reading = |row: &&Row| {
        let measured = column.measured(row, metric)?;
        Some(Reading {
            at: (*row.parameters.get(x)?, measured.median),
            range: measured.spread(),
            is_guess: measured.guess.is_some(),
        })
    };
    let mut readings: Vec<Reading> = rows.iter().filter_map(reading).collect();
    readings.retain(|Reading { at: (x, y), .. }| x.is_finite() && *x > 0.0 && *y > 0.0);
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

/// Distributions of latencies or of deliveries, as the metric of their middle says. Beyond the percentiles that the samples bear, a
/// curve is pale; all of it is, where latencies decide nothing.
pub(crate) fn percentiles(experiment: &Experiment, columns: &[Column<'_>], metric: &str) -> Option<String> {
    let are_deliveries = metric.starts_with("delivery_");
    let curve = |row: &Row, column: &Column<'_>| {
        let cell = column.cell(row)?;
        // Such latencies as a whole say nothing of the system.
        let guess = column.measured(row, metric).and_then(|measured| measured.guess);
        let is_guess = guess.is_some_and(|guess| guess != Guess::FewSamples);
        let points = if are_deliveries {
            &cell.delivery_percentiles
        } else {
            &cell.percentiles
        };
        // Each record is delivered by itself.
        let samples = cell.runs.iter().filter_map(|run| {
            let samples = run.get("samples").filter(|_| !are_deliveries);
            samples.or_else(|| run.get("records")).copied()
        });
        let samples: f64 = samples.sum();
        let mut points = points.clone();
        points.retain(|(quantile, us)| (0.5..1.0).contains(quantile) && us.is_finite() && *us > 0.0);
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        let readings = points.into_iter().map(|(quantile, us)| Reading {
            at: (1.0 / (1.0 - quantile), us),
            range: None,
            is_guess: is_guess || (samples > 0.0 && is_few(samples, quantile)),
        });
        Some(readings.collect::<Vec<_>>())
    };
    let panel = |row: &Row| {
        let curves: Vec<_> = columns
            .iter()
            .map(|column| curve(row, column).unwrap_or_default())
            .collect();
        (row.name.clone(), curves)
    };
    let panels = experiment.rows.iter().map(panel);
    Plot {
        title: &experiment.title,
        x: "percentile".to_owned(),
        y: if are_deliveries {
            "end to end, µs"
        } else {
            "latency, µs"
        }
        .to_owned(),
        x_ticks: PERCENTILES
            .map(|(place, words)| (place, words.to_owned()))
            .to_vec(),
        has_marks: false,
        columns,
        panels: panels
            .filter(|(_, curves)| curves.iter().any(|curve| !curve.is_empty()))
            .collect(),
    }
    .draw()
}

impl Plot<'_> {
    fn draw(&self) -> Option<String> {
        let readings = || self.panels.iter().flat_map(|(_, curves)| curves.iter().flatten());
        let x_ends = ends_around(readings().map(|reading| reading.at.0))?;
        let y_ends = ends_around(readings().flat_map(|reading| {
            let (least, most) = reading.range.unwrap_or((reading.at.1, reading.at.1));
            [reading.at.1, least, most]
        }))?;
        let mut svg = Svg::default();
        svg.title(self.title);
        let top = self.draw_legend(&mut svg) + 6.0;
        let across = self.panels.len().min(2);
        let room = WIDTH / across as f64;
        let height = if across == 1 { HEIGHT + 70.0 } else { HEIGHT };
        for (index, (title, curves)) in self.panels.iter().enumerate() {
            let left = room * (index % across) as f64 + LEFT;
            let top = top + (height + ABOVE + BELOW) * (index / across) as f64 + ABOVE;
            let x = Axis {
                ends: x_ends,
                from: left,
                to: left + room - LEFT - RIGHT,
            };
            let y = Axis {
                ends: y_ends,
                from: top + height,
                to: top,
            };
            self.draw_frame(&mut svg, title, &x, &y);
            for (column, curve) in self.columns.iter().zip(curves) {
                self.draw_curve(&mut svg, column, curve, (&x, &y));
            }
        }
        Some(svg.finish(top + (height + ABOVE + BELOW) * self.panels.len().div_ceil(across) as f64))
    }

    /// Which mark is which system: above the plot, in as many lines as it takes. Says where it ends.
    fn draw_legend(&self, svg: &mut Svg) -> f64 {
        let (mut left, mut middle) = (16.0, 49.0);
        for column in self.columns {
            let text = fit(&column.title, SIZE, WIDTH - 32.0 - LEGEND_MARK);
            let room = LEGEND_MARK + width(&text, SIZE);
            if left > 16.0 && left + room > WIDTH - 16.0 {
                (left, middle) = (16.0, middle + LEGEND_LINE);
            }
            let ends = [(left, middle), (left + LEGEND_MARK - 8.0, middle)];
            svg.line(&ends, colour(column.ink), 2.0, 1.0, dashes(column.ink));
            svg.mark(
                column.ink,
                !column.is_best_client,
                (left + LEGEND_MARK / 2.0 - 4.0, middle),
                1.0,
            );
            svg.words(&text, (left + LEGEND_MARK, middle), "start", TEXT);
            left += room + LEGEND_LINE;
        }
        middle + LEGEND_LINE / 2.0
    }

    fn draw_frame(&self, svg: &mut Svg, title: &str, x: &Axis, y: &Axis) {
        let (first, last, top, bottom) = (x.from, x.to, y.to, y.from);
        for tick in y.ticks() {
            let height = y.place(tick);
            svg.thin([(first, height), (last, height)], GRID, 1.0);
            svg.words(&number::tick(tick), (first - 8.0, height), "end", QUIET);
        }
        let mut taken = f64::NEG_INFINITY;
        for (tick, words) in &self.x_ticks {
            let place = x.place(*tick);
            if place < first - 0.5 || place > last + 0.5 {
                continue;
            }
            svg.thin([(place, top), (place, bottom)], GRID, 1.0);
            let half = width(words, SIZE) / 2.0;
            if place - half > taken + 6.0 {
                svg.words(words, (place, bottom + 14.0), "middle", QUIET);
                taken = place + half;
            }
        }
        svg.words(&self.y, (first - LEFT + 16.0, top - 14.0), "start", QUIET);
        let title = fit(title, 13.0, last - first - width(&self.y, SIZE));
        svg.sized(&title, (last, top - 14.0), "end", TEXT, 13.0);
        svg.words(
            &self.x,
            (f64::midpoint(first, last), bottom + 34.0),
            "middle",
            QUIET,
        );
    }

    fn draw_curve(&self, svg: &mut Svg, column: &Column<'_>, curve: &[Reading], (x, y): (&Axis, &Axis)) {
        let ink = colour(column.ink);
        let place = |reading: &Reading| (x.place(reading.at.0), y.place(reading.at.1));
        for reading in curve {
            let Some((least, most)) = reading.range else {
                continue;
            };
            let opacity = if reading.is_guess { PALE } else { WHISKER };
            let middle = x.place(reading.at.0);
            let ends = [least, most].map(|value| y.place(value.clamp(y.ends.0, y.ends.1)));
            svg.thin(ends.map(|end| (middle, end)), ink, opacity);
            for end in ends {
                svg.thin([(middle - 3.0, end), (middle + 3.0, end)], ink, opacity);
            }
        }
        for (part, opacity) in parts(curve) {
            let points: Vec<Point> = part.iter().map(place).collect();
            svg.line(&points, ink, 2.0, opacity, dashes(column.ink));
        }
        let last_sure = curve.iter().rposition(|reading| !reading.is_guess);
        for (index, reading) in curve.iter().enumerate() {
            if self.has_marks || last_sure == Some(index) {
                let opacity = if reading.is_guess { PALE } else { 1.0 };
                svg.mark(column.ink, !column.is_best_client, place(reading), opacity);
            }
        }
    }
}

/// A curve in parts, each with how strongly it is drawn: what leads to a guess is pale, and so is what comes from one.
fn parts(curve: &[Reading]) -> Vec<(&[Reading], f64)> {
    let is_pale = |pair: usize| curve[pair].is_guess || curve[pair + 1].is_guess;
    let pairs = curve.len().saturating_sub(1);
    let mut parts = Vec::new();
    let mut first = 0;
    for pair in 0..pairs {
        if pair + 1 == pairs || is_pale(pair + 1) != is_pale(first) {
            parts.push((&curve[first..=pair + 1], if is_pale(first) { PALE } else { 1.0 }));
            first = pair + 1;
        }
    }
    parts
}

/// A logarithmic axis from one value to another, along so many pixels.
#[derive(Debug, Clone, Copy)]
struct Axis {
    ends: (f64, f64),
    from: f64,
    to: f64,
}

/// The ends of an axis over all values that are more than nothing, with a little air; none if there are none.
fn ends_around(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let values = values.filter(|value| value.is_finite() && *value > 0.0);
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    // At least half a decade: a flat line should look flat.
    let air = (3.2 / (high / low)).max(1.0).sqrt();
    (high > 0.0).then(|| (low / (1.15 * air), high * 1.15 * air))
}

impl Axis {
    /// Where a value lies.
    fn place(&self, value: f64) -> f64 {
        let (low, high) = self.ends;
        self.from + (self.to - self.from) * (value / low).ln() / (high / low).ln()
    }

    /// Round values: powers of ten, and halves and fifths of them where there is room.
    fn ticks(&self) -> Vec<f64> {
        let (low, high) = self.ends;
        let decades = (high / low).log10();
        let steps: &[f64] = if decades <= 3.2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let every = if decades > 8.0 { 2 } else { 1 };
        let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
        let powers = powers.filter(|power| power % every == 0);
        let ticks = powers.flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)));
        ticks.filter(|tick| (low..=high).contains(tick)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::columns;
    use crate::results::made_up;

    #[test]
    fn an_axis_has_room_and_round_ticks() {
        let ends = ends_around([0.0, 100.0, 4_000.0, f64::NAN].into_iter()).expect("values");
        let axis = Axis {
            ends,
            from: 0.0,
            to: 100.0,
        };
        assert!(ends.0 < 100.0 && ends.1 > 4_000.0);
        assert_eq!(axis.ticks(), [100.0, 200.0, 500.0, 1_000.0, 2_000.0]);
        assert!(axis.place(100.0) > 0.0 && axis.place(4_000.0) < 100.0);
        assert!(ends_around([0.0, -1.0].into_iter()).is_none());
    }

    #[test]
    fn what_leads_to_a_guess_and_from_it_is_pale() {
        let readings = [false, false, true, false, false].map(|is_guess| Reading {
            at: (1.0, 1.0),
            range: None,
            is_guess,
        });
        let lengths = |curve: &[Reading]| -> Vec<(usize, f64)> {
            parts(curve)
                .iter()
                .map(|(part, opacity)| (part.len(), *opacity))
                .collect()
        };
        assert_eq!(lengths(&readings), [(2, 1.0), (3, PALE), (2, 1.0)]);
        assert_eq!(lengths(&readings[..2]), [(2, 1.0)]);
        assert!(lengths(&readings[..1]).is_empty() && lengths(&[]).is_empty());
    }

    #[test]
    fn guesses_are_told_from_figures_and_the_spread_is_shown() {
        let results = made_up::results(&["ours"]);
        for (samples, is_guess) in [(1e6, false), (100.0, true)] {
            let mut cell = made_up::cell("ours", &[("p99_us", 5.0), ("samples", samples)]);
            cell.runs[0].insert("p99_us".to_owned(), 4.0);
            cell.runs[2].insert("p99_us".to_owned(), 90.0);
            let mut experiment = made_up::experiment(&["p99_us"], vec![made_up::row("", vec![cell])]);
            experiment.rows[0].parameters.insert("shards".to_owned(), 8.0);
            let columns = columns::of(&results, &experiment);
            let found = medians(&[&experiment.rows[0]], &columns[0], "shards", "p99_us");
            assert_eq!(
                found,
                [Reading {
                    at: (8.0, 5.0),
                    range: Some((4.0, 90.0)),
                    is_guess
                }]
            );
            assert!(over_parameter(&experiment, &columns, ("shards", "p99_us", None)).is_some());
        }
    }
}
