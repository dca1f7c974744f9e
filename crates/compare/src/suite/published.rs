//! What the publications themselves report, from `published.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Value;

use crate::results::Published;

/// One table: its metrics, and rows of a system, a row's name and a figure for each metric.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    metrics: Vec<String>,
    rows: Vec<Vec<Value>>,
}

/// What is published for a table, and what later measurements of the same publisher add ("zlog", "zlog-later").
pub(super) fn of(name: &str) -> Vec<Published> {
    let mut all: BTreeMap<String, Table> =
        toml::from_str(include_str!("published.toml")).expect("a test reads it");
    let tables = [name.to_owned(), format!("{name}-later")];
    tables
        .iter()
        .filter_map(|name| all.remove(name))
        .flat_map(Table::published)
        .collect()
}

impl Table {
    fn published(self) -> Vec<Published> {
        let row = |row: Vec<Value>| {
            let text = |place: usize| row[place].as_str().expect("a name").to_owned();
            let figures = row[2..].iter().map(|figure| {
                let whole = figure.as_integer().map(|figure| figure as f64);
                whole.or_else(|| figure.as_float()).expect("a figure")
            });
            assert_eq!(
                row.len(),
                self.metrics.len() + 2,
                "a figure for each metric: {row:?}"
            );
            Published {
                system: text(0),
                row: text(1),
                figures: self.metrics.iter().cloned().zip(figures).collect(),
            }
        };
        self.rows.into_iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn figure(table: &str, system: &str, row: &str, metric: &str) -> Option<f64> {
        let shown = of(table);
        let mut found = shown.iter().filter(|one| one.system == system && one.row == row);
        found.find_map(|one| one.figures.get(metric)).copied()
    }

    #[test]
    fn each_figure_is_shown_beside_its_own_row() {
        let shown = of("logrange-100-write");
        let places: BTreeSet<_> = shown.iter().map(|one| (&one.system, &one.row)).collect();
        assert_eq!((shown.len(), places.len()), (24, 24));
        for (table, system, row, metric, value) in [
            ("logrange-100-write", "Logrange", "2:4", "mb_per_s", 375.0),
            ("logrange-100-write", "Kafka 2019", "4:1", "mb_per_s", 100.0),
            ("shared-logs-1", "Kafka", "100 B", "p999_us", 20_010.0),
            (
                "confluo-publish",
                "Confluo, read off",
                "16 × 16384",
                "records_per_s",
                8_370_000.0,
            ),
            (
                "confluo-subscribe",
                "Kafka, read off",
                "1 × 1",
                "records_per_s",
                2_900.0,
            ),
            ("zlog", "ZLog 2", "4 KiB", "times_version_1", 2.45),
            (
                "zlog",
                "ZLog later, bytestream",
                "128 KiB",
                "records_per_s",
                2_373.0,
            ),
        ] {
            assert_eq!(figure(table, system, row, metric), Some(value), "{table}, {row}");
        }
    }

    #[test]
    fn every_table_of_the_file_is_one_of_the_suites() {
        let all: BTreeMap<String, Table> =
            toml::from_str(include_str!("published.toml")).expect("it is sound");
        let tables: BTreeSet<String> = crate::suite::all_plans().map(|plan| plan.name).collect();
        assert!(
            all.keys()
                .all(|name| tables.contains(name.trim_end_matches("-later")))
        );
    }
}
