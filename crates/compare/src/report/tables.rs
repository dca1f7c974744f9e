//! The whole table of an experiment: a block for each row, systems down and metrics across. Figures of its publication stand in lines
//! of their own.

use bench::number;

use super::cells::{self, Notes, Standing};
use super::columns::{self, Column};
use super::markdown::{escape, strong, table};
use super::measured::title;
use super::requests::row_title;
use super::speed_ups;
use crate::results::{Experiment, Published, Results, Row};

/// What stands for a row that only the publication has.
pub(super) const NOT_MEASURED: &str = "not measured";

/// The whole table with the notes below it; empty if nothing was asked or published.
pub(crate) fn whole(results: &Results, experiment: &Experiment) -> String {
    let columns = columns::of(results, experiment);
    if columns.is_empty() && experiment.published.is_empty() {
        return String::new();
    }
    let metrics = metrics(experiment);
    let (mut notes, mut lines) = (Notes::default(), Vec::new());
    let alone = |text: String| {
        let mut line = vec![text];
        line.resize(metrics.len() + 1, String::new());
        line
    };
    for name in row_names(experiment) {
        lines.push(alone(strong(&escape(&row_title(experiment, name)))));
        if let Some(row) = experiment.row(name) {
            lines.extend(block(&columns, row, &metrics, &mut notes));
            lines.extend(speed_ups::lines(results, experiment, &columns, row, &metrics));
        } else {
            lines.push(alone(NOT_MEASURED.to_owned()));
        }
        let published = experiment.published.iter().filter(|one| one.row == name);
        for system in each_once(published.map(|one| one.system.as_str())) {
            let figures = metrics
                .iter()
                .map(|metric| published_cell(experiment, name, system, metric));
            lines.push(std::iter::once(published_title(system)).chain(figures).collect());
        }
    }
    let mut titles = vec![String::new()];
    titles.extend(metrics.iter().map(|metric| escape(title(metric))));
    let mut text = table(&titles, true, &lines);
    for (index, note) in notes.0.iter().enumerate() {
        let gap = if index == 0 { "\n" } else { "" };
        text.push_str(&format!("{gap}- \\[{}\\] {}\n", index + 1, escape(note)));
    }
    text
}

/// A line for each system that was asked in a row.
fn block(columns: &[Column<'_>], row: &Row, metrics: &[&str], notes: &mut Notes) -> Vec<Vec<String>> {
    let standings = metrics
        .iter()
        .map(|metric| cells::standings(columns, row, metric));
    let standings: Vec<Vec<Standing>> = standings.collect();
    let asked = columns
        .iter()
        .enumerate()
        .filter(|(_, column)| column.cell(row).is_some());
    let line = |(place, column): (usize, &Column<'_>)| {
        let by_metric = metrics.iter().zip(&standings);
        let figures =
            by_metric.map(|(metric, standings)| cells::text(column, row, metric, standings[place], notes));
        std::iter::once(escape(&column.title)).chain(figures).collect()
    };
    asked.map(line).collect()
}

/// The names of all rows, those that only the publication has last.
pub(super) fn row_names(experiment: &Experiment) -> Vec<&str> {
    let own = experiment.rows.iter().map(|row| row.name.as_str());
    each_once(own.chain(experiment.published.iter().map(|one| one.row.as_str())))
}

/// The metrics of a table, those that only the publication has last: all that it shows is shown.
fn metrics(experiment: &Experiment) -> Vec<&str> {
    let published = experiment.published.iter().flat_map(|one| one.figures.keys());
    each_once(experiment.metrics.iter().chain(published).map(String::as_str))
}

/// The systems of the publication, in its order.
pub(super) fn published_systems(experiment: &Experiment) -> Vec<&str> {
    each_once(experiment.published.iter().map(|one| one.system.as_str()))
}

fn each_once<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    names.fold(Vec::new(), |mut all, name| {
        if !all.contains(&name) {
            all.push(name);
        }
        all
    })
}

pub(super) fn published_title(system: &str) -> String {
    format!("*{}, published*", escape(system))
}

pub(super) fn published_cell(experiment: &Experiment, row: &str, system: &str, metric: &str) -> String {
    let is_it = |one: &&Published| one.row == row && one.system == system;
    let figure = experiment
        .published
        .iter()
        .filter(is_it)
        .find_map(|one| one.figures.get(metric));
    let figure = figure.filter(|figure| figure.is_finite());
    figure.map_or_else(|| "–".to_owned(), |figure| number::plain(*figure))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::made_up::{self, published};
    use crate::suite::all_plans;

    /// How many cells of a table have a figure.
    fn figures(experiment: &Experiment) -> usize {
        let text = whole(&Results::default(), experiment);
        let cells = text
            .lines()
            .skip(2)
            .flat_map(|line| line.split('|').skip(2).map(str::trim));
        cells.filter(|cell| !cell.is_empty() && *cell != "–").count()
    }

    #[test]
    fn every_published_figure_is_shown() {
        for plan in all_plans() {
            let experiment = plan.filled(Vec::new(), String::new());
            let published = &experiment.published;
            let count: usize = published.iter().map(|published| published.figures.len()).sum();
            assert_eq!(figures(&experiment), count, "{published:?}");
        }
        let one = published(
            "Quay",
            "4 producers",
            &[("mean_us", 4.0), ("mb_per_s_each", 2.26)],
        );
        let experiment = Experiment {
            published: vec![one],
            ..made_up::experiment(&["mean_us", "mb_per_s"], Vec::new())
        };
        assert_eq!(
            figures(&experiment),
            2,
            "also by a metric that only the publication has"
        );
    }
}
