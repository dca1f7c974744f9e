//! Lines over logarithmic axes, in panels that share both axes: of medians over a parameter of the rows (another parameter makes
//! panels), or of percentiles, a panel for each row. What is next to a guess is pale, and so is what leads to it.

use bench::number;
use minijinja::{Value, context};

use super::svg::{self, look};
use crate::report::columns::Column;
use crate::report::guesses::{Guess, is_few};
use crate::report::measured::title;
use crate::results::{Experiment, Row};

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
    at: (f64, f64),
    /// The least and the most, if there were several.
    range: Option<(f64, f64)>,
    /// Whether it says too little to decide anything.
    is_guess: bool,
}

/// A panel: its title, and a curve for each column.
type Panel = (String, Vec<Vec<Reading>>);

/// An axis of all panels: its title, and the values that are written along it, with their words.
type Along = (String, Vec<(f64, String)>);

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
    let of_panels: Vec<(String, Option<f64>)> = match by {
        None => vec![(String::new(), None)],
        Some(by) => {
            let title = |own: f64| format!("{}: {}", words(by), number::tick(own));
            values(by)
                .into_iter()
                .map(|own| (title(own), Some(own)))
                .collect()
        }
    };
    let panels = of_panels.into_iter().map(|(title, own)| {
        let is_in = |row: &&Row| own.is_none() || by.and_then(|by| value(row, by)) == own;
        let rows: Vec<&Row> = experiment.rows.iter().filter(is_in).collect();
        let curves = columns.iter().map(|column| medians(&rows, column, x, metric));
        (title, curves.collect())
    });
    let x_ticks = values(x).into_iter().map(|value| (value, number::tick(value)));
    let (x, y) = ((words(x), x_ticks.collect()), title(metric));
    draw(experiment, columns, (x, y), panels.collect(), true)
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
        // Each record is delivered by itself.
        let samples = cell.runs.iter().filter_map(|run| {
            let samples = run.get("samples").filter(|_| !are_deliveries);
            samples.or_else(|| run.get("records")).copied()
        });
        let samples: f64 = samples.sum();
        let mut points = match are_deliveries {
            true => cell.delivery_percentiles.clone(),
            false => cell.percentiles.clone(),
        };
        points.retain(|(quantile, us)| (0.5..1.0).contains(quantile) && us.is_finite() && *us > 0.0);
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        let readings = points.into_iter().map(|(quantile, us)| Reading {
            at: (1.0 / (1.0 - quantile), us),
            range: None,
            is_guess: is_guess || (samples > 0.0 && is_few(samples, quantile)),
        });
        Some(readings.collect::<Vec<_>>())
    };
    let panels = experiment.rows.iter().map(|row| {
        let curves = columns
            .iter()
            .map(|column| curve(row, column).unwrap_or_default());
        (row.name.clone(), curves.collect())
    });
    let is_drawn = |(_, curves): &Panel| curves.iter().any(|curve| !curve.is_empty());
    let x_ticks = PERCENTILES.map(|(place, words)| (place, words.to_owned()));
    let y = if are_deliveries {
        "end to end, µs"
    } else {
        "latency, µs"
    };
    let x = ("percentile".to_owned(), x_ticks.to_vec());
    draw(
        experiment,
        columns,
        (x, y),
        panels.filter(is_drawn).collect(),
        false,
    )
}

/// Draws panels, whose points have marks or only the last of each curve that is no guess.
fn draw(
    experiment: &Experiment,
    columns: &[Column<'_>],
    ((x_title, x_ticks), y_title): (Along, &str),
    panels: Vec<Panel>,
    have_marks: bool,
) -> Option<String> {
    let readings = || panels.iter().flat_map(|(_, curves)| curves.iter().flatten());
    let x = Axis::around(readings().map(|reading| reading.at.0))?;
    let y = Axis::around(readings().flat_map(|reading| {
        let (least, most) = reading.range.unwrap_or((reading.at.1, reading.at.1));
        [reading.at.1, least, most]
    }))?;
    let x_ticks = x_ticks.into_iter().map(|(tick, words)| (x.part(tick), words));
    let x_ticks = x_ticks.filter(|(part, _)| (0.0..=1.0).contains(part));
    let y_ticks = y
        .ticks()
        .into_iter()
        .map(|tick| (y.part(tick), number::tick(tick)));
    let panels = panels.iter().map(|(title, curves)| {
        let curves = curves.iter().map(|curve| of_curve(curve, (&x, &y), have_marks));
        context! { title, curves => curves.collect::<Vec<_>>() }
    });
    Some(svg::draw(context! {
        curves => true,
        title => experiment.title,
        columns => columns.iter().map(look).collect::<Vec<_>>(),
        x => context! { title => x_title, ticks => x_ticks.collect::<Vec<_>>() },
        y => context! { title => y_title, ticks => y_ticks.collect::<Vec<_>>() },
        panels => panels.collect::<Vec<_>>(),
    }))
}

/// A curve's readings and lines, as parts of both axes.
fn of_curve(curve: &[Reading], (x, y): (&Axis, &Axis), have_marks: bool) -> Value {
    let last_sure = curve.iter().rposition(|reading| !reading.is_guess);
    let place = |reading: &Reading| (x.part(reading.at.0), y.part(reading.at.1));
    let readings = curve.iter().enumerate().map(|(index, reading)| {
        let ends = reading
            .range
            .map(|(least, most)| [y.part(least).max(0.0), y.part(most)]);
        context! {
            at => place(reading),
            range => ends,
            is_guess => reading.is_guess,
            has_mark => have_marks || last_sure == Some(index),
        }
    });
    let parts = parts(curve).into_iter().map(|(part, is_pale)| {
        context! { points => part.iter().map(place).collect::<Vec<_>>(), is_pale }
    });
    context! { readings => readings.collect::<Vec<_>>(), parts => parts.collect::<Vec<_>>() }
}

/// A curve in parts, each with whether it is pale: what leads to a guess is, and so is what comes from one.
fn parts(curve: &[Reading]) -> Vec<(&[Reading], bool)> {
    let is_pale = |pair: usize| curve[pair].is_guess || curve[pair + 1].is_guess;
    let pairs = curve.len().saturating_sub(1);
    let mut parts = Vec::new();
    let mut first = 0;
    for pair in 0..pairs {
        if pair + 1 == pairs || is_pale(pair + 1) != is_pale(first) {
            parts.push((&curve[first..=pair + 1], is_pale(first)));
            first = pair + 1;
        }
    }
    parts
}

/// A logarithmic axis from one value to another.
#[derive(Debug, Clone, Copy)]
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    /// An axis over all values that are more than nothing, with a little air; none if there are none.
    fn around(values: impl Iterator<Item = f64>) -> Option<Axis> {
        let values = values.filter(|value| value.is_finite() && *value > 0.0);
        let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        // At least half a decade: a flat line should look flat.
        let air = 1.15 * (3.2 / (high / low)).max(1.0).sqrt();
        (high > 0.0).then(|| Axis {
            low: low / air,
            high: high * air,
        })
    }

    /// Where a value lies, from 0 to 1.
    fn part(&self, value: f64) -> f64 {
        (value / self.low).ln() / (self.high / self.low).ln()
    }

    /// Round values: powers of ten, and halves and fifths of them where there is room.
    fn ticks(&self) -> Vec<f64> {
        let Axis { low, high } = *self;
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
        let axis = Axis::around([0.0, 100.0, 4_000.0, f64::NAN].into_iter()).expect("values");
        assert!(axis.low < 100.0 && axis.high > 4_000.0);
        assert_eq!(axis.ticks(), [100.0, 200.0, 500.0, 1_000.0, 2_000.0]);
        assert!(axis.part(100.0) > 0.0 && axis.part(4_000.0) < 1.0);
        assert!(Axis::around([0.0, -1.0].into_iter()).is_none());
    }

    #[test]
    fn what_leads_to_a_guess_and_from_it_is_pale() {
        let readings = [false, false, true, false, false].map(|is_guess| Reading {
            at: (1.0, 1.0),
            range: None,
            is_guess,
        });
        let lengths = |curve: &[Reading]| -> Vec<(usize, bool)> {
            parts(curve)
                .iter()
                .map(|(part, is_pale)| (part.len(), *is_pale))
                .collect()
        };
        assert_eq!(lengths(&readings), [(2, false), (3, true), (2, false)]);
        assert_eq!(lengths(&readings[..2]), [(2, false)]);
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
