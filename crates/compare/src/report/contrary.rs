//! Where a ratio of a publication points the other way here. Of all that publications show, only the direction of a ratio within
//! one machine says anything beside what was measured on another.

use super::columns;
use super::measured::Verdict;
use super::overview::join;
use crate::results::{Experiment, Results, TIMES_VERSION_1};
use bench::number;

/// What both are compared by.
const RATE: &str = "records_per_s";

/// In words, for each system that the publication's figures stand for; empty if all point the same way.
pub(crate) fn to_publication(results: &Results, experiment: &Experiment) -> String {
    let mut told = Vec::new();
    let columns = columns::of(results, experiment);
    // The table begins with the version that the others are held against.
    let Some(one) = columns.first() else {
        return String::new();
    };
    for column in &columns {
        // Such systems have the publication's name of them in their titles.
        let published = experiment.published.iter();
        let published: Vec<f64> = published
            .filter(|published| column.title.contains(&published.system))
            .filter_map(|published| published.figures.get(TIMES_VERSION_1).copied())
            .collect();
        let is_faster = published.iter().all(|times| *times > 1.0);
        if published.is_empty() || !is_faster {
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
            told.push(format!(
                "Unlike in the publication, which has it faster wherever it names a figure, {} is slower than version 1: {}.",
                column.title,
                join(&rows)
            ));
        }
    }
    told.join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::results::{Cell, Published, Row, SystemFacts};

    fn times(value: f64) -> BTreeMap<String, f64> {
        BTreeMap::from([
            (TIMES_VERSION_1.to_owned(), value),
            (RATE.to_owned(), 1_000.0 * value),
        ])
    }

    /// What is said where version 1 is so steady, and the second so much faster than it.
    fn told_beside(spread: f64, measured: [f64; 2]) -> String {
        let cell = |system: &str, value: f64, spread: f64| Cell {
            system: system.to_owned(),
            best_client: true,
            runs: [1.0 - spread, 1.0, 1.0 + spread]
                .map(|part| times(value * part))
                .into(),
            ..Cell::default()
        };
        let row = |name: &str, value: f64| Row {
            name: name.to_owned(),
            parameters: BTreeMap::new(),
            cells: vec![cell("first", 1.0, spread), cell("second", value, 0.05)],
        };
        let experiment = Experiment {
            rows: vec![row("256 B", measured[0]), row("4 KiB", measured[1])],
            published: vec![Published {
                system: "Log 2".to_owned(),
                row: "4 KiB".to_owned(),
                figures: times(2.45),
            }],
            ..Experiment::default()
        };
        let results = Results {
            repetitions: 3,
            systems: [("first", "Keys (Log 1)"), ("second", "Bytes (Log 2)")]
                .map(|(name, title)| SystemFacts {
                    name: name.to_owned(),
                    title: title.to_owned(),
                    ..SystemFacts::default()
                })
                .into(),
            ..Results::default()
        };
        to_publication(&results, &experiment)
    }

    fn told(measured: [f64; 2]) -> String {
        told_beside(0.02, measured)
    }

    #[test]
    fn a_ratio_that_points_the_other_way_is_named_with_its_rows() {
        assert_eq!(
            told([0.7, 2.0]),
            "Unlike in the publication, which has it faster wherever it names a figure, Bytes (Log 2) is slower than version 1: \
             256 B (0.7 times)."
        );
        assert_eq!(told([1.3, 2.0]), "");
        assert_eq!(told([0.95, 2.0]), "", "it may be as fast");
        assert_eq!(told_beside(0.4, [0.7, 2.0]), "", "version 1 was as slow, too");
    }
}
