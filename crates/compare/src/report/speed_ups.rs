//! How many times as good as another system ours is: beside each peer's figure on the first page, and through one client for both in
//! tables whose publication tells a speed-up.

use bench::number;

use super::cells;
use super::columns::Column;
use super::comparisons::is_named_after;
use super::markdown::escape;
use super::measured::{Measured, better};
use crate::results::{Better, Experiment, Results, Row};

/// A line for each of our systems, each variant of the system over which the speed-up is told, and each client that both share
/// in a row; none over one that promises more than ours.
pub(crate) fn lines(
    results: &Results,
    experiment: &Experiment,
    columns: &[Column<'_>],
    row: &Row,
    metrics: &[&str],
) -> Vec<Vec<String>> {
    let (Some(over), Some(first)) = (&experiment.speed_up_over, results.systems.first()) else {
        return Vec::new();
    };
    let asked = || columns.iter().filter(|column| column.cell(row).is_some());
    let ours = asked().filter(|our| is_named_after(our.system, &first.name));
    let pairs = ours.flat_map(|our| asked().map(move |other| (our, other)));
    let is_told = |(our, other): &(&Column<'_>, &Column<'_>)| {
        is_named_after(other.system, over) && our.driver == other.driver && other.survives() <= our.survives()
    };
    let line = |(our, other): (&Column<'_>, &Column<'_>)| {
        let [one, two] = [our, other].map(Column::system_title);
        let label = format!("{one} over {two}, both through {}: speed-up", other.client());
        let figures = metrics
            .iter()
            .map(|metric| marked(our.measured(row, metric), other.measured(row, metric), metric));
        std::iter::once(escape(&label)).chain(figures).collect()
    };
    pairs.filter(is_told).map(line).collect()
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
    use crate::report::columns;
    use crate::results::{Cell, Survives, made_up};

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
        let mut experiment = Experiment {
            speed_up_over: over.map(str::to_owned),
            ..Experiment::default()
        };
        experiment.rows = vec![made_up::row("a row", cells)];
        let (columns, metrics) = (
            columns::of(&results, &experiment),
            ["p50_us", "records_per_s", "samples"],
        );
        lines(&results, &experiment, &columns, &experiment.rows[0], &metrics)
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
