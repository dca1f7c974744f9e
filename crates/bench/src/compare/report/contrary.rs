//! Where a ratio of a publication points the other way here. Of all that publications show, only the direction of a ratio within
//! one machine says anything beside what was measured on another.

use super::columns;
use super::number;
use super::overview::join;
use crate::compare::results::{Experiment, Results, TIMES_VERSION_1};

/// In words, for each system that the publication's figures stand for; empty if all point the same way.
pub(crate) fn to_publication(results: &Results, experiment: &Experiment) -> String {
    let mut told = Vec::new();
    for column in columns::of(results, experiment) {
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
            let is_slower = measured.range().1 < 1.0;
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
    use crate::compare::results::{Cell, Published, Row, SystemFacts};

    fn times(value: f64) -> BTreeMap<String, f64> {
        BTreeMap::from([(TIMES_VERSION_1.to_owned(), value)])
    }

    fn told(measured: [f64; 2]) -> String {
        let row = |name: &str, value: f64| Row {
            name: name.to_owned(),
            parameters: BTreeMap::new(),
            cells: vec![Cell {
                system: "second".to_owned(),
                best_client: true,
                runs: vec![times(value * 0.9), times(value), times(value * 1.1)],
                ..Cell::default()
            }],
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
            systems: vec![SystemFacts {
                name: "second".to_owned(),
                title: "Bytes (Log 2)".to_owned(),
                ..SystemFacts::default()
            }],
            ..Results::default()
        };
        to_publication(&results, &experiment)
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
    }
}
