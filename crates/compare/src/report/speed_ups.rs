//! How many times as good as another system ours is, through one client for both: for tables whose publication tells a speed-up.

use super::cells;
use super::columns;
use super::comparisons::{is_named_after, is_variant_of};
use super::document::{Line, Text};
use super::measured::{Measured, better};
use crate::results::{Better, Cell, Experiment, Results, Row, SystemFacts};
use bench::number;

/// A line for each of our systems, each variant of the system over which the speed-up is told, and each client that both share
/// in a row; none over one that promises more than ours.
pub(crate) fn lines(results: &Results, experiment: &Experiment, row: &Row, metrics: &[&str]) -> Vec<Line> {
    let over = experiment.speed_up_over.as_deref();
    let (Some(over), Some(first)) = (over, results.systems.first()) else {
        return Vec::new();
    };
    let systems = || results.systems.iter();
    let ours = systems().filter(|our| is_variant_of(our, first));
    let pairs = ours.flat_map(|our| {
        let others = systems().filter(|other| is_named_after(&other.name, over));
        others
            .filter(|other| other.survives <= our.survives)
            .map(move |other| (our, other))
    });
    let pairs = pairs.flat_map(|(our, over)| {
        let those = shared(row, our, over).into_iter();
        those.map(move |cells| (our, over, cells))
    });
    pairs
        .map(|(our, over, [our_cell, other_cell])| {
            let figure = |cell: &Cell, metric: &str| Measured::in_row(row, cell, metric, results.repetitions);
            let cells = metrics
                .iter()
                .map(|metric| speed_up(figure(our_cell, metric), figure(other_cell, metric), metric));
            let label = format!(
                "{} over {}, both through {}: speed-up",
                columns::title(our),
                columns::title(over),
                columns::driver_title(Some(over), &other_cell.driver)
            );
            Line::Cells(Text::from(label), cells.collect())
        })
        .collect()
}

/// The cells of both through the same client.
fn shared<'a>(row: &'a Row, our: &SystemFacts, over: &SystemFacts) -> Vec<[&'a Cell; 2]> {
    let of = |system: &SystemFacts| {
        let name = system.name.clone();
        row.cells.iter().filter(move |cell| cell.system == name)
    };
    of(our)
        .filter_map(|own| Some([own, of(over).find(|other| other.driver == own.driver)?]))
        .collect()
}

/// How many times the better figure ours is: below 1 where it is the worse one. Marked as a table marks either figure.
fn speed_up(ours: Option<Measured>, theirs: Option<Measured>, metric: &str) -> Text {
    let (Some(ours), Some(theirs)) = (ours, theirs) else {
        return Text::from("–");
    };
    let times = match better(metric) {
        Better::Less => theirs.median / ours.median,
        Better::More => ours.median / theirs.median,
        Better::Neither => f64::NAN,
    };
    if !times.is_finite() || !ours.is_like(&theirs) {
        return Text::from("–");
    }
    let mut marks = vec![cells::mark_of(&ours), cells::mark_of(&theirs)];
    marks.dedup();
    Text::from(format!("{}{}", number::factor(times), marks.concat()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::results::Survives;

    fn cell(system: &str, driver: &str, [p50_us, records_per_s, samples]: [f64; 3]) -> Cell {
        let figures = [
            ("p50_us", p50_us),
            ("records_per_s", records_per_s),
            ("samples", samples),
            ("records", 1e6),
        ];
        let run: BTreeMap<String, f64> = figures.map(|(name, value)| (name.to_owned(), value)).into();
        Cell {
            system: system.to_owned(),
            driver: driver.to_owned(),
            runs: vec![run; 3],
            ..Cell::default()
        }
    }

    fn told(cells: Vec<Cell>, over: Option<&str>) -> Vec<Line> {
        let system = |(name, survives): (&str, Survives)| SystemFacts {
            name: name.to_owned(),
            title: name.to_owned(),
            survives,
            ..SystemFacts::default()
        };
        let systems = [
            ("ours", Survives::PowerCut),
            ("ours-memory", Survives::Nothing),
            ("other", Survives::Nothing),
            ("other-flush", Survives::PowerCut),
        ];
        let results = Results {
            systems: systems.map(system).into(),
            repetitions: 3,
            ..Results::default()
        };
        let experiment = Experiment {
            speed_up_over: over.map(str::to_owned),
            ..Experiment::default()
        };
        let row = Row {
            name: "a row".to_owned(),
            parameters: BTreeMap::new(),
            cells,
        };
        lines(
            &results,
            &experiment,
            &row,
            &["p50_us", "records_per_s", "samples"],
        )
    }

    #[test]
    fn a_speed_up_is_told_through_one_client_for_both_alone() {
        let cells = || {
            vec![
                cell("ours", "own", [1.0, 9.0, 1e4]),
                cell("ours", "both", [2.0, 4.0, 1e6]),
                cell("other", "theirs", [50.0, 3.0, 1e6]),
                cell("other", "both", [68.0, 5.0, 1e6]),
            ]
        };
        let lines = told(cells(), Some("other"));
        let [Line::Cells(label, figures)] = lines.as_slice() else {
            panic!("one line: {lines:?}");
        };
        assert_eq!(
            *label,
            Text::from("ours ◆ over other, both through both: speed-up")
        );
        assert_eq!(*figures, ["34×", "0.80×", "–"].map(Text::from));
        assert!(told(cells(), None).is_empty());
    }

    #[test]
    fn a_speed_up_is_told_over_each_variant_that_promises_no_more() {
        let cells = |systems: [&str; 4]| systems.map(|system| cell(system, "both", [2.0, 4.0, 1e6])).into();
        let lines = told(
            cells(["ours", "ours-memory", "other", "other-flush"]),
            Some("other"),
        );
        let labels: Vec<String> = lines
            .iter()
            .map(|line| match line {
                Line::Cells(label, _) => format!("{label:?}"),
                line => panic!("not a line of cells: {line:?}"),
            })
            .collect();
        assert_eq!(labels.len(), 3, "{labels:?}");
        assert!(labels[0].contains("ours ◆ over other,"));
        assert!(labels[1].contains("ours ◆ over other-flush ◆"));
        assert!(labels[2].contains("ours-memory over other,"));
    }

    #[test]
    fn the_speed_up_of_few_samples_is_marked() {
        let lines = told(
            vec![
                cell("ours-memory", "both", [2.0, 4.0, 3.0]),
                cell("other", "both", [68.0, 5.0, 3.0]),
            ],
            Some("other"),
        );
        let [Line::Cells(_, figures)] = lines.as_slice() else {
            panic!("one line: {lines:?}");
        };
        assert_eq!(figures[0], Text::from("34×*"));
    }
}
