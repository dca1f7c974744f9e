//! What the publications themselves report, from `published.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Value;

use crate::results::Published;

/// One table: lines of a system, a row and a figure for each metric; or, where its rows are named, of a system and a figure for each
/// row by the one metric.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    metrics: Vec<String>,
    #[serde(default)]
    rows: Vec<String>,
    lines: Vec<Vec<Value>>,
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
        let names = |line: &[Value]| -> Vec<String> {
            let names = line.iter().map_while(Value::as_str);
            names.map(str::to_owned).collect()
        };
        let figures = |line: &[Value]| -> Vec<f64> {
            let whole = |figure: &Value| figure.as_integer().map(|figure| figure as f64);
            let figures = line.iter().map(|figure| whole(figure).or(figure.as_float()));
            figures.map(|figure| figure.expect("a figure")).collect()
        };
        let mut all = Vec::new();
        for line in &self.lines {
            let names = names(line);
            let figures = figures(&line[names.len()..]);
            let (rows, across) = match &names[..] {
                [_, row] => (std::slice::from_ref(row), self.metrics.len()),
                _ => (&self.rows[..], 1),
            };
            assert_eq!(figures.len(), rows.len() * across, "a figure for each: {line:?}");
            all.extend(rows.iter().zip(figures.chunks(across)).map(|(row, figures)| {
                Published {
                    system: names[0].clone(),
                    row: row.clone(),
                    figures: self
                        .metrics
                        .iter()
                        .cloned()
                        .zip(figures.iter().copied())
                        .collect(),
                }
            }));
        }
        all
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
