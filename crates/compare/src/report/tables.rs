//! The table of an experiment, in one of three layouts; and a second one as its publication has it, where the first is not.
//!
//! ```text
//! blocks    a block for each row: systems down, metrics across              no figures of a publication, or many systems
//! metrics   metrics down, rows and systems across                           publications with few rows
//! rows      rows down, metrics and systems across                           publications with many rows
//! ```

use super::cells::{self, Notes, Standing};
use super::columns::{self, Column};
use super::comparisons::is_named_after;
use super::document::{Line, Table, Text};
use super::measured::title;
use super::requests::row_title;
use super::speed_ups;
use crate::results::{Experiment, Published, Results, Row};
use bench::number;

/// A table with more columns than this is not read on one screen: then there is a block for each row.
const COLUMNS_MAX: usize = 12;

/// What stands above figures of a publication.
const PUBLISHED: &str = "published, other hardware";

/// What an experiment found, and beside it what its publication shows; none if there is neither.
pub(crate) fn table(results: &Results, experiment: &Experiment) -> Option<Table> {
    let frame = Frame::of(results, experiment);
    if frame.columns.is_empty() && experiment.published.is_empty() {
        return None;
    }
    Some(match frame.fits_layout() {
        true => frame.as_published(),
        false => frame.blocks(),
    })
}

/// The same in the layout of its publication, with its metrics and the systems that it names beside ours, each through its best
/// client; none where `table` has that layout, or no system that was measured is named.
pub(crate) fn table_as_published(results: &Results, experiment: &Experiment) -> Option<Table> {
    let frame = Frame::of(results, experiment);
    let first = results.systems.first()?;
    if experiment.published.is_empty() || frame.fits_layout() {
        return None;
    }
    let is_named = |column: &Column| {
        let mut published = experiment.published.iter();
        published.any(|published| is_of_system(published, &column.system))
    };
    let is_ours = |column: &Column| is_named_after(&column.system, &first.name);
    let is_shown = |column: &Column| column.is_best_client && (is_ours(column) || is_named(column));
    let has_metric = |metric: &&str| {
        let mut published = experiment.published.iter();
        published.any(|published| published.figures.contains_key(*metric))
    };
    frame.columns.iter().any(is_named).then(|| {
        let shown = frame.columns.iter().map(is_shown).collect();
        let metrics = frame.metrics.iter().copied().filter(has_metric).collect();
        Frame {
            shown,
            metrics,
            ..frame
        }
        .as_published()
    })
}

/// Whether a publication's name of a system, "Kafka 0.11" or "Kafka 2019, 1 client", is that of a system here or of its variants.
fn is_of_system(published: &Published, system: &str) -> bool {
    let word = published.system.split([' ', ',']).next().unwrap_or_default();
    !word.is_empty() && is_named_after(system, &word.to_lowercase())
}

/// The names of all rows, those that only the publication has last.
fn row_names(experiment: &Experiment) -> Vec<&str> {
    let mut names: Vec<&str> = experiment.rows.iter().map(|row| row.name.as_str()).collect();
    for published in &experiment.published {
        if !names.contains(&published.row.as_str()) {
            names.push(&published.row);
        }
    }
    names
}

/// The metrics of a table, those that only the publication has last: all that it shows is shown.
fn metrics(experiment: &Experiment) -> Vec<&str> {
    let mut metrics: Vec<&str> = experiment.metrics.iter().map(String::as_str).collect();
    for metric in experiment
        .published
        .iter()
        .flat_map(|published| published.figures.keys())
    {
        if !metrics.contains(&metric.as_str()) {
            metrics.push(metric);
        }
    }
    metrics
}

/// What all layouts are made of.
struct Frame<'a> {
    results: &'a Results,
    experiment: &'a Experiment,
    metrics: Vec<&'a str>,
    /// All, since the best of a row is the best of all.
    columns: Vec<Column>,
    /// Which of them are shown.
    shown: Vec<bool>,
    rows: Vec<&'a str>,
}

impl<'a> Frame<'a> {
    /// With all systems and metrics.
    fn of(results: &'a Results, experiment: &'a Experiment) -> Self {
        let columns = columns::of(results, experiment);
        Self {
            results,
            experiment,
            metrics: metrics(experiment),
            shown: vec![true; columns.len()],
            columns,
            rows: row_names(experiment),
        }
    }

    /// Whether it is beside a publication, and not too wide for its layout.
    fn fits_layout(&self) -> bool {
        !self.experiment.published.is_empty() && self.as_published().columns.len() <= COLUMNS_MAX
    }

    /// As publications lay their tables out.
    fn as_published(&self) -> Table {
        match self.rows.len() <= self.metrics.len() {
            true => self.metrics_down(),
            false => self.rows_down(),
        }
    }

    fn shown_columns(&self) -> impl Iterator<Item = &Column> {
        let columns = self.columns.iter().zip(&self.shown);
        columns
            .filter(|(_, is_shown)| **is_shown)
            .map(|(column, _)| column)
    }

    fn blocks(&self) -> Table {
        let mut notes = Notes::default();
        let mut lines = Vec::new();
        let published = self.published_systems();
        for name in &self.rows {
            lines.push(Line::Group(row_title(self.experiment, name)));
            if let Some(row) = self.row(name) {
                self.push_block(&mut lines, row, &mut notes);
                let (experiment, metrics) = (self.experiment, &self.metrics);
                lines.extend(speed_ups::lines(self.results, experiment, row, metrics));
            }
            for system in self.shown(name, &published) {
                let metrics = self.metrics.iter();
                let cells = metrics.map(|metric| self.published_cell(name, system, metric));
                lines.push(Line::Cells(Text::from(published_title(system)), cells.collect()));
            }
        }
        let metrics = self.metrics.iter();
        Table {
            columns: metrics.map(|metric| title(metric).to_owned()).collect(),
            lines,
            figures: true,
            notes: notes.0,
            ..Table::default()
        }
    }

    /// A line for each system that was asked in a row.
    fn push_block(&self, lines: &mut Vec<Line>, row: &Row, notes: &mut Notes) {
        let metrics = self.metrics.iter();
        let standings: Vec<Vec<Standing>> = metrics
            .map(|metric| cells::standings(&self.columns, row, metric))
            .collect();
        for (index, column) in self.columns.iter().enumerate() {
            if column.cell(row).is_none() {
                continue;
            }
            let metrics = self.metrics.iter().zip(&standings);
            let cells = metrics
                .map(|(metric, standings)| cells::text(column, row, metric, standings[index], notes))
                .collect();
            lines.push(Line::Cells(Text::from(&column.title), cells));
        }
    }

    fn metrics_down(&self) -> Table {
        let mut notes = Notes::default();
        let published = self.published_systems();
        let mut table = Table {
            label: "metric".to_owned(),
            figures: true,
            ..Table::default()
        };
        for row in &self.rows {
            let title = row_title(self.experiment, row);
            self.push_titles(&mut table, title, &self.shown(row, &published));
        }
        for metric in &self.metrics {
            let cells = self
                .rows
                .iter()
                .flat_map(|row| {
                    let shown = self.shown(row, &published);
                    let mut cells = self.measured_cells(row, metric, &mut notes);
                    cells.extend(
                        shown
                            .iter()
                            .map(|system| self.published_cell(row, system, metric)),
                    );
                    cells
                })
                .collect();
            table.lines.push(Line::Cells(Text::from(title(metric)), cells));
        }
        table.notes = notes.0;
        table
    }

    fn rows_down(&self) -> Table {
        let mut notes = Notes::default();
        let published = self.published_systems();
        let mut table = Table {
            label: "row".to_owned(),
            figures: true,
            ..Table::default()
        };
        for metric in &self.metrics {
            let published = self.that_have(metric, &published);
            self.push_titles(&mut table, title(metric).to_owned(), &published);
        }
        for row in &self.rows {
            let mut cells = Vec::new();
            for metric in &self.metrics {
                cells.extend(self.measured_cells(row, metric, &mut notes));
                let published = self.that_have(metric, &published);
                let published = published.iter();
                cells.extend(published.map(|system| self.published_cell(row, system, metric)));
            }
            let label = Text::from(row_title(self.experiment, row));
            table.lines.push(Line::Cells(label, cells));
        }
        table.notes = notes.0;
        table
    }

    /// A group of columns: what was measured, and what was published.
    fn push_titles(&self, table: &mut Table, group: String, published: &[&str]) {
        let before = table.columns.len();
        let measured = self.shown_columns().map(|column| column.title.clone());
        table.columns.extend(measured);
        let published = published.iter().map(|system| published_title(system));
        table.columns.extend(published);
        table.groups.push((group, table.columns.len() - before));
    }

    fn measured_cells(&self, row: &str, metric: &str, notes: &mut Notes) -> Vec<Text> {
        let Some(row) = self.row(row) else {
            return vec![Text::from("–"); self.shown_columns().count()];
        };
        let standings = cells::standings(&self.columns, row, metric);
        let columns = self.columns.iter().zip(standings).zip(&self.shown);
        let shown = columns.filter(|(_, is_shown)| **is_shown);
        shown
            .map(|((column, standing), _)| cells::text(column, row, metric, standing, notes))
            .collect()
    }

    fn row(&self, name: &str) -> Option<&'a Row> {
        self.experiment.rows.iter().find(|row| row.name == name)
    }

    /// The systems of the publication, in its order.
    fn published_systems(&self) -> Vec<&'a str> {
        let mut systems: Vec<&str> = Vec::new();
        for published in &self.experiment.published {
            if !systems.contains(&published.system.as_str()) {
                systems.push(&published.system);
            }
        }
        systems
    }

    /// Those of them that the publication shows in a row.
    fn shown(&self, row: &str, systems: &[&'a str]) -> Vec<&'a str> {
        let has = |system: &&str| {
            let mut published = self.experiment.published.iter();
            published.any(|published| published.row == row && published.system == *system)
        };
        systems.iter().copied().filter(has).collect()
    }

    /// Those of them that the publication shows with a metric.
    fn that_have(&self, metric: &str, systems: &[&'a str]) -> Vec<&'a str> {
        let has = |system: &&str| {
            let mut published = self.experiment.published.iter();
            published.any(|published| published.system == *system && published.figures.contains_key(metric))
        };
        systems.iter().copied().filter(has).collect()
    }

    fn published_cell(&self, row: &str, system: &str, metric: &str) -> Text {
        let figure = self
            .experiment
            .published
            .iter()
            .filter(|published| published.row == row && published.system == system)
            .find_map(|published| published.figures.get(metric))
            .filter(|figure| figure.is_finite());
        Text::from(figure.map_or_else(|| "–".to_owned(), |figure| number::plain(*figure)))
    }
}

fn published_title(system: &str) -> String {
    format!("{system} ({PUBLISHED})")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::report::document::Span;
    use crate::results::{Cell, LoopKind, SystemFacts};
    use crate::suite::published_of_all_suites;

    fn experiment(metrics: &[&str], published: Vec<Published>) -> Experiment {
        Experiment {
            name: "table".to_owned(),
            title: "Table".to_owned(),
            about: String::new(),
            source: None,
            loop_kind: LoopKind::Closed,
            metrics: metrics.iter().map(|metric| (*metric).to_owned()).collect(),
            plot: None,
            rows: Vec::new(),
            left_out: None,
            published,
            speed_up_over: None,
            command: String::new(),
        }
    }

    fn results() -> Results {
        Results::default()
    }

    /// How many cells of a table have a figure.
    fn shown(experiment: &Experiment) -> usize {
        let table = table(&results(), experiment).expect("something was published");
        let cells = table.lines.iter().filter_map(|line| match line {
            Line::Cells(_, cells) => Some(cells),
            Line::Group(_) => None,
        });
        cells.flatten().filter(|cell| **cell != Text::from("–")).count()
    }

    #[test]
    fn every_published_figure_is_shown() {
        for (metrics, published) in published_of_all_suites() {
            let figures: usize = published.iter().map(|published| published.figures.len()).sum();
            let experiment = experiment(metrics, published);
            if figures > 0 {
                assert_eq!(shown(&experiment), figures, "{:?}", experiment.published);
            }
        }
    }

    #[test]
    fn a_metric_that_only_the_publication_has_is_shown_too() {
        let published = Published {
            system: "Quay".to_owned(),
            row: "4 producers".to_owned(),
            figures: BTreeMap::from([("mean_us".to_owned(), 4.0), ("mb_per_s_each".to_owned(), 2.26)]),
        };
        assert_eq!(shown(&experiment(&["mean_us", "mb_per_s"], vec![published])), 2);
    }

    /// A publication with one metric, beside so many systems with two.
    fn beside_publication(systems: usize) -> Table {
        let figures = |value: f64| BTreeMap::from([("mb_per_s".to_owned(), value)]);
        let published = |row: &str| Published {
            system: "Quay".to_owned(),
            row: row.to_owned(),
            figures: figures(2.26),
        };
        let rows = ["1 thread", "2 threads", "4 threads"];
        let mut experiment = experiment(&["mb_per_s", "records_per_s"], rows.map(published).to_vec());
        experiment.rows = rows
            .map(|name| Row {
                name: name.to_owned(),
                parameters: BTreeMap::new(),
                cells: (0..systems)
                    .map(|number| Cell {
                        system: format!("system {number}"),
                        runs: vec![figures(4.0)],
                        ..Cell::default()
                    })
                    .collect(),
            })
            .to_vec();
        table(&results(), &experiment).expect("figures")
    }

    #[test]
    fn a_publication_takes_no_columns_for_metrics_that_it_has_not() {
        let table = beside_publication(2);
        let groups = [("MB/s".to_owned(), 3), ("records/s".to_owned(), 2)];
        assert_eq!((table.label.as_str(), table.columns.len()), ("row", 5));
        assert_eq!(table.groups, groups);
        let is_whole = |line: &Line| matches!(line, Line::Cells(_, cells) if cells.len() == 5);
        assert!(table.lines.iter().all(is_whole));
    }

    #[test]
    fn what_would_be_too_wide_has_a_block_for_each_row_with_the_publication_in_it() {
        let table = beside_publication(7);
        assert_eq!(table.columns, ["MB/s", "records/s"]);
        assert_eq!(table.lines.len(), 3 * (1 + 7 + 1));
        let last = table.lines.last().expect("many lines");
        let Line::Cells(label, cells) = last else {
            panic!("a line of figures: {last:?}");
        };
        assert_eq!(*label, Text::from("Quay (published, other hardware)"));
        assert_eq!(*cells, [Text::from("2.26"), Text::from("–")]);
    }

    #[test]
    fn what_is_too_wide_for_it_is_also_shown_as_published_with_the_systems_named_there() {
        let names = ["ours", "ours-memory", "quay-flush", "wharf", "cove", "reef"];
        let figures = |rate: f64| {
            let figures = [("mb_per_s", rate), ("records_per_s", rate)];
            BTreeMap::from(figures.map(|(metric, value)| (metric.to_owned(), value)))
        };
        let rows = ["1 thread", "2 threads", "4 threads"];
        let published = rows.map(|row| Published {
            system: "Quay 2019, 1 client".to_owned(),
            row: row.to_owned(),
            figures: BTreeMap::from([("mb_per_s".to_owned(), 2.0)]),
        });
        let mut experiment = experiment(&["mb_per_s", "records_per_s"], published.to_vec());
        let cells = names.iter().enumerate().map(|(number, name)| Cell {
            system: (*name).to_owned(),
            best_client: true,
            runs: vec![figures(10.0 * (number + 1) as f64); 3],
            ..Cell::default()
        });
        let cells: Vec<Cell> = cells.collect();
        experiment.rows = rows
            .map(|name| Row {
                name: name.to_owned(),
                parameters: BTreeMap::new(),
                cells: cells.clone(),
            })
            .to_vec();
        let system = |name: &str| SystemFacts {
            name: name.to_owned(),
            title: name.to_owned(),
            ..SystemFacts::default()
        };
        let results = Results {
            systems: names.map(system).to_vec(),
            repetitions: 3,
            ..Results::default()
        };
        let table = table_as_published(&results, &experiment).expect("it is too wide otherwise");
        let columns = [
            "ours",
            "ours-memory",
            "quay-flush",
            "Quay 2019, 1 client (published, other hardware)",
        ];
        assert_eq!(table.columns, columns);
        assert_eq!(
            table.groups,
            [("MB/s".to_owned(), 4)],
            "what it does not tell is not in it"
        );
        let Line::Cells(_, cells) = &table.lines[0] else {
            panic!("a line of figures");
        };
        let plain = Text::from("30.0").with(Span::Quiet(" ±0 %".to_owned()));
        assert_eq!(cells[2], plain, "not bold: what is not shown is better");
        // With nobody of whom the publication tells, and where all fit into its layout.
        for published in &mut experiment.published {
            published.system = "Scalog".to_owned();
        }
        assert!(table_as_published(&results, &experiment).is_none());
        experiment.published.clear();
        assert!(table_as_published(&results, &experiment).is_none());
    }

    #[test]
    fn only_figures_of_a_publication_take_columns_of_their_own() {
        let cell = Cell {
            system: "ours".to_owned(),
            runs: vec![BTreeMap::from([("mb_per_s".to_owned(), 4.0)])],
            ..Cell::default()
        };
        let mut experiment = experiment(&["mean_us", "mb_per_s"], Vec::new());
        experiment.source = Some("after the shape of a public workload".to_owned());
        experiment.rows.push(Row {
            name: "a row".to_owned(),
            parameters: BTreeMap::new(),
            cells: vec![cell],
        });
        let table = table(&results(), &experiment).expect("a figure");
        assert_eq!(table.columns.len(), 2, "metrics across");
        assert!(matches!(&table.lines[0], Line::Group(name) if name == "a row"));
    }
}
