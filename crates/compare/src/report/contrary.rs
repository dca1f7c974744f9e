//! Where a ratio of a publication points the other way here. Of all that publications show, only the direction of a ratio within
//! one machine says anything beside what was measured on another.

use bench::number;

use super::columns;
use super::measured::Verdict;
use crate::results::{Experiment, Results, TIMES_VERSION_1};

/// What both are compared by.
const RATE: &str = "records_per_s";

/// The systems that are slower than version 1 here, with their rows, where the publication has them faster; empty if there are none.
pub(crate) fn to_publication(results: &Results, experiment: &Experiment) -> String {
    let columns = columns::of(results, experiment);
    // The table begins with the version that the others are held against.
    let Some(one) = columns.first() else {
        return String::new();
    };
    let mut told = Vec::new();
    for column in &columns {
        // Such systems have the publication's name of them in their titles.
        let published = experiment
            .published
            .iter()
            .filter(|published| column.title.contains(&published.system));
        let mut published = published
            .filter_map(|published| published.figures.get(TIMES_VERSION_1))
            .peekable();
        if published.peek().is_none() || published.any(|times| *times <= 1.0) {
            continue;
        }
        let rows = experiment.rows.iter().filter_map(|row| {
            let measured = column.measured(row, TIMES_VERSION_1)?;
            let (own, of_one) = (column.measured(row, RATE)?, one.measured(row, RATE)?);
            let is_slower = own.can_meet(&of_one) && own.beside(&of_one, RATE) == Verdict::Worse;
            is_slower.then(|| format!("{} ({} times)", row.name, number::plain(measured.median)))
        });
        let rows: Vec<String> = rows.collect();
        if !rows.is_empty() {
            told.push(format!("{} at {}", column.title, rows.join(", ")));
        }
    }
    told.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::made_up;

    /// What is said where version 1 is so steady, and the second so much faster than it.
    fn told_beside(spread: f64, measured: [f64; 2]) -> String {
        let times = |value: f64| [(TIMES_VERSION_1, value), (RATE, 1_000.0 * value)];
        let cell = |system: &str, value: f64, spread: f64| {
            let mut cell = made_up::cell(system, &times(value));
            for (run, part) in cell.runs.iter_mut().zip([1.0 - spread, 1.0, 1.0 + spread]) {
                run.values_mut().for_each(|value| *value *= part);
            }
            cell
        };
        let row = |name: &str, value: f64| {
            made_up::row(name, vec![cell("Log 1", 1.0, spread), cell("Log 2", value, 0.05)])
        };
        let mut experiment =
            made_up::experiment(&[], vec![row("256 B", measured[0]), row("4 KiB", measured[1])]);
        experiment.published = vec![made_up::published("Log 2", "4 KiB", &[(TIMES_VERSION_1, 2.45)])];
        to_publication(&made_up::results(&["Log 1", "Log 2"]), &experiment)
    }

    #[test]
    fn a_ratio_that_points_the_other_way_is_named_with_its_rows() {
        assert_eq!(told_beside(0.02, [0.7, 2.0]), "Log 2 at 256 B (0.7 times)");
        assert_eq!(told_beside(0.02, [1.3, 2.0]), "");
        assert_eq!(told_beside(0.02, [0.95, 2.0]), "", "it may be as fast");
        assert_eq!(told_beside(0.4, [0.7, 2.0]), "", "version 1 was as slow, too");
    }
}
