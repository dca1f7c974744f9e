//! How many times as good as another system ours is: beside each peer's figure on the first page, and through one client for both in
//! tables whose publication tells a speed-up.

use bench::number;

use super::comparisons::{is_named_after, is_variant_of};
use super::markdown::escape;
use super::measured::{Measured, better};
use super::{cells, columns};
use crate::results::{Better, Cell, Experiment, Results, Row};

/// A line for each of our systems, each variant of the system over which the speed-up is told, and each client that both share
/// in a row; none over one that promises more than ours.
pub(crate) fn lines(
    results: &Results,
    experiment: &Experiment,
    row: &Row,
    metrics: &[&str],
) -> Vec<Vec<String>> {
    let (Some(over), Some(first)) = (&experiment.speed_up_over, results.systems.first()) else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    for our in results.systems.iter().filter(|our| is_variant_of(our, first)) {
        let others = results
            .systems
            .iter()
            .filter(|other| is_named_after(&other.name, over));
        for other in others.filter(|other| other.survives <= our.survives) {
            for [own, theirs] in shared(row, &our.name, &other.name) {
                let client = columns::driver_title(Some(other), &theirs.driver);
                let [one, two] = [our, other].map(columns::title);
                let mut line = vec![escape(&format!(
                    "{one} over {two}, both through {client}: speed-up"
                ))];
                let figure = |cell: &Cell, metric| Measured::in_row(row, cell, metric, results.repetitions);
                line.extend(
                    metrics
                        .iter()
                        .map(|metric| marked(figure(own, metric), figure(theirs, metric), metric)),
                );
                lines.push(line);
            }
        }
    }
    lines
}

/// The cells of both through the same client.
fn shared<'a>(row: &'a Row, our: &str, other: &str) -> Vec<[&'a Cell; 2]> {
    let own = row.cells.iter().filter(|cell| cell.system == our);
    let pairs = own.filter_map(|own| {
        let mut cells = row.cells.iter();
        Some([
            own,
            cells.find(|cell| cell.system == other && cell.driver == own.driver)?,
        ])
    });
    pairs.collect()
}

/// A speed-up as a table shows it, marked as either figure is.
fn marked(ours: Option<Measured>, theirs: Option<Measured>, metric: &str) -> String {
    let both = ours.zip(theirs).filter(|(ours, theirs)| ours.is_like(theirs));
    let told = both.and_then(|(ours, theirs)| {
        let mut marks = vec![cells::mark_of(&ours), cells::mark_of(&theirs)];
        marks.dedup();
        Some(format!(
            "{}{}",
            number::factor(times(&ours, &theirs, metric)?),
            marks.concat()
        ))
    });
    told.unwrap_or_else(|| "–".to_owned())
}

/// How many times the better figure ours is: below 1 where it is the worse one.
pub(crate) fn times(ours: &Measured, theirs: &Measured, metric: &str) -> Option<f64> {
    let times = match better(metric) {
        Better::Less => theirs.median / ours.median,
        Better::More => ours.median / theirs.median,
        Better::Neither => f64::NAN,
    };
    Some(times).filter(|times| times.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Survives, made_up};

    fn cell(system: &str, driver: &str, [p50_us, records_per_s, samples]: [f64; 3]) -> Cell {
        let figures = [
            ("p50_us", p50_us),
            ("records_per_s", records_per_s),
            ("samples", samples),
            ("records", 1e6),
        ];
        Cell {
            driver: driver.to_owned(),
            ..made_up::cell(system, &figures)
        }
    }

    fn told(cells: Vec<Cell>, over: Option<&str>) -> Vec<Vec<String>> {
        let mut results = made_up::results(&["ours", "ours-memory", "other", "other-flush"]);
        for place in [0, 3] {
            results.systems[place].survives = Survives::PowerCut;
        }
        let experiment = Experiment {
            speed_up_over: over.map(str::to_owned),
            ..Experiment::default()
        };
        let row = made_up::row("a row", cells);
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
        let expected = [
            "ours ◆ over other, both through both: speed-up",
            "34×",
            "0.80×",
            "–",
        ];
        assert_eq!(told(cells(), Some("other")), [expected]);
        assert!(told(cells(), None).is_empty());
    }

    #[test]
    fn a_speed_up_is_told_over_each_variant_that_promises_no_more_and_marked_if_it_says_little() {
        let cells = ["ours", "ours-memory", "other", "other-flush"]
            .map(|system| cell(system, "both", [2.0, 4.0, 1e6]));
        let lines = told(cells.into(), Some("other"));
        let labels: Vec<&str> = lines.iter().map(|line| line[0].as_str()).collect();
        assert_eq!(labels.len(), 3, "{labels:?}");
        assert!(labels[0].contains("ours ◆ over other,") && labels[1].contains("ours ◆ over other-flush ◆"));
        assert!(labels[2].contains("ours-memory over other,"));
        let few = [
            cell("ours-memory", "both", [2.0, 4.0, 3.0]),
            cell("other", "both", [68.0, 5.0, 3.0]),
        ];
        assert_eq!(told(few.into(), Some("other"))[0][1], "34×\\*");
    }
}
