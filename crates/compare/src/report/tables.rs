//! The tables of an experiment. By one metric: its line on the first page, and the short table, rows down and systems across, with
//! figures of its publication in columns of their own. And the whole table: a block for each row, systems down and metrics across, with
//! figures of its publication in lines of their own.

use bench::number;

use super::cells::{self, Notes, Standing};
use super::columns::{self, Column};
use super::comparisons::{Comparison, is_named_after};
use super::markdown::{escape, strong, table};
use super::measured::title;
use super::requests::row_title;
use super::speed_ups;
use crate::results::{Experiment, Published, Results, Row};

/// What stands for a row that only the publication has.
const NOT_MEASURED: &str = "not measured";

/// An experiment by the one metric that the first page and the short table show.
pub(crate) struct Short<'a> {
    experiment: &'a Experiment,
    metric: &'a str,
    columns: Vec<Column<'a>>,
    /// Ours that takes part: where the first system does not, the first of its variants.
    ours: Option<&'a str>,
    /// Which columns are ours.
    first: &'a str,
}

impl<'a> Short<'a> {
    /// By the first metric by which our system can be compared; if there is none, the first that was measured. None without either.
    pub(crate) fn of(
        results: &'a Results,
        experiment: &'a Experiment,
        found: &[Comparison<'_>],
    ) -> Option<Short<'a>> {
        let columns = columns::of(results, experiment);
        let own = |one: &&Comparison<'_>| std::ptr::eq(one.experiment, experiment);
        let is_compared =
            |metric: &&String| found.iter().filter(own).any(|one| one.metric == metric.as_str());
        let has = |row: &Row, metric: &str| {
            columns
                .iter()
                .any(|column| column.measured(row, metric).is_some())
        };
        let is_measured = |metric: &&String| experiment.rows.iter().any(|row| has(row, metric));
        let metrics = || experiment.metrics.iter();
        let metric = metrics()
            .find(is_compared)
            .or_else(|| metrics().find(is_measured))?;
        let first = &results.systems.first()?.name;
        let ours = columns.iter().find(|column| is_named_after(column.system, first));
        Some(Short {
            experiment,
            metric,
            ours: ours.map(|column| column.system),
            columns,
            first,
        })
    }

    /// Its experiment and its metric.
    pub(crate) fn title(&self) -> String {
        format!("{} · {}", self.experiment.title, title(self.metric))
    }

    /// The columns that are shown, with their places. Common clients take part where the publication tells a speed-up, which only they
    /// can show.
    fn shown(&self) -> impl Iterator<Item = (usize, &Column<'a>)> {
        let has_common = self.experiment.speed_up_over.is_some();
        let columns = self.columns.iter().enumerate();
        columns.filter(move |(_, column)| column.is_best_client || has_common)
    }

    fn titles(&self, first: &str) -> Vec<String> {
        let shown = self.shown().map(|(_, column)| escape(&column.title));
        std::iter::once(first.to_owned()).chain(shown).collect()
    }

    /// How many times as good as a peer's figure ours is, through the same kind of client; none for what is ours.
    fn times(&self, row: &Row, column: &Column<'_>) -> Option<f64> {
        if is_named_after(column.system, self.first) {
            return None;
        }
        let is_alike = |own: &&Column| match column.is_best_client {
            true => own.is_best_client,
            false => own.driver == column.driver,
        };
        let mut own = (self.columns.iter()).filter(|own| Some(own.system) == self.ours);
        let own = own.find(is_alike)?.measured(row, self.metric)?;
        let theirs = column.measured(row, self.metric)?;
        speed_ups::times(&own, &theirs, self.metric).filter(|_| own.can_meet(&theirs))
    }

    /// The table: a line for each row, and with a peer's figure how many times as good ours is.
    pub(crate) fn table(&self) -> String {
        let experiment = self.experiment;
        let is_published = |system: &&str| {
            let mut own = (experiment.published.iter()).filter(|one| one.system == *system);
            own.any(|one| one.figures.contains_key(self.metric))
        };
        let published = published_systems(experiment).into_iter().filter(is_published);
        let published: Vec<&str> = published.collect();
        let mut titles = self.titles("row");
        titles.extend(published.iter().map(|system| published_title(system)));
        let line = |name: &&str| {
            let mut line = vec![escape(name)];
            let row = experiment.row(name);
            line.extend(match row {
                Some(row) => self.cells(row),
                None => vec![NOT_MEASURED.to_owned(); self.shown().count()],
            });
            let published = published.iter();
            line.extend(published.map(|system| published_cell(experiment, name, system, self.metric)));
            line
        };
        let lines: Vec<Vec<String>> = row_names(experiment).iter().map(line).collect();
        table(&titles, true, &lines)
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let standings = cells::standings(&self.columns, row, self.metric);
        let cell = |(place, column): (usize, &Column<'_>)| {
            let Some(measured) = column.measured(row, self.metric) else {
                let why = cells::text(column, row, self.metric, Standing::Alone, &mut Notes::default());
                return why.split(" \\[").next().unwrap_or_default().to_owned();
            };
            let text = cells::median(&measured, standings[place] == Standing::Best);
            match self.times(row, column) {
                Some(times) => format!("{text} ({})", number::factor(times)),
                None => text,
            }
        };
        self.shown().map(cell).collect()
    }

    /// All rows in one line: from the least to the most.
    fn line(&self) -> Vec<String> {
        let rows = || self.experiment.rows.iter();
        let cell = |(_, column): (usize, &Column<'_>)| {
            let medians = rows().filter_map(|row| Some(column.measured(row, self.metric)?.median));
            let times = rows().filter_map(|row| self.times(row, column));
            match (range(medians, number::plain), range(times, number::factor)) {
                (None, _) => "–".to_owned(),
                (Some(medians), None) => medians,
                (Some(medians), Some(times)) => format!("{medians} ({times})"),
            }
        };
        let cells = self.shown().map(cell);
        std::iter::once(escape(&self.title())).chain(cells).collect()
    }
}

/// From the least to the most, or the one that there is.
pub(crate) fn range(figures: impl Iterator<Item = f64>, told: fn(f64) -> String) -> Option<String> {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    let [least, most] = [*figures.first()?, *figures.last()?].map(told);
    match least == most {
        true => Some(most),
        false => Some(format!("{} – {most}", least.trim_end_matches('×'))),
    }
}

/// The tables of the first page: a line for each experiment; those that the same systems take part in share a table.
pub(crate) fn overview(all: &[Short<'_>]) -> String {
    let alike = all.chunk_by(|one, other| one.titles("") == other.titles(""));
    let tables = alike.map(|shorts| {
        let lines: Vec<Vec<String>> = shorts.iter().map(Short::line).collect();
        table(&shorts[0].titles("table"), true, &lines)
    });
    tables.collect::<Vec<_>>().join("\n")
}

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
fn row_names(experiment: &Experiment) -> Vec<&str> {
    let own = experiment.rows.iter().map(|row| row.name.as_str());
    each_once(own.chain(experiment.published.iter().map(|one| one.row.as_str())))
}

/// The metrics of a table, those that only the publication has last: all that it shows is shown.
fn metrics(experiment: &Experiment) -> Vec<&str> {
    let published = experiment.published.iter().flat_map(|one| one.figures.keys());
    each_once(experiment.metrics.iter().chain(published).map(String::as_str))
}

/// The systems of the publication, in its order.
fn published_systems(experiment: &Experiment) -> Vec<&str> {
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

fn published_title(system: &str) -> String {
    format!("*{}, published*", escape(system))
}

fn published_cell(experiment: &Experiment, row: &str, system: &str, metric: &str) -> String {
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
    use crate::report::comparisons;
    use crate::results::Survives;
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

    #[test]
    fn a_row_of_the_short_table_has_ours_each_peer_s_the_ratio_and_what_was_published() {
        let mut results = made_up::results(&["ours", "ours-memory", "quay", "wharf"]);
        for place in [0, 2] {
            results.systems[place].survives = Survives::PowerCut;
        }
        let rate = |system, rate| made_up::cell(system, &[("mb_per_s", rate), ("records_per_s", rate)]);
        let cells = vec![
            rate("ours", 30.0),
            rate("ours-memory", 40.0),
            rate("quay", 10.0),
            rate("wharf", 60.0),
        ];
        let mut experiment = made_up::experiment(
            &["mb_per_s", "records_per_s"],
            vec![made_up::row("1 thread", cells)],
        );
        experiment.published = vec![
            published("Quay 2019", "1 thread", &[("mb_per_s", 2.0)]),
            published("Quay 2019", "9 threads", &[("mb_per_s", 3.0)]),
            published("Pier", "1 thread", &[("p50_us", 3.0)]),
        ];
        results.experiments = vec![experiment];
        let found = comparisons::all(&results);
        let short = Short::of(&results, &results.experiments[0], &found).expect("figures");
        assert_eq!(short.title(), "Table · MB/s");
        let expected = [
            "| row | ours ◆ | ours-memory | quay ◆ | wharf | *Quay 2019, published* |",
            "| --- | ---: | ---: | ---: | ---: | ---: |",
            "| 1 thread | **30.0** | 40.0 | 10.0 (3.0×) | **60.0** (0.50×) | 2.00 |",
            "| 9 threads | not measured | not measured | not measured | not measured | 3.00 |",
        ];
        assert_eq!(short.table().lines().collect::<Vec<_>>(), expected);
        let line = "| Table · MB/s | 30.0 | 40.0 | 10.0 (3.0×) | 60.0 (0.50×) |";
        assert_eq!(overview(&[short]).lines().last(), Some(line));
        assert_eq!(
            range([3.0, 1.5].into_iter(), number::factor).as_deref(),
            Some("1.50 – 3.0×")
        );
        let whole = whole(&results, &results.experiments[0]);
        assert!(
            whole.contains("| quay ◆ | 10.0 ±0 % | 10.0 ±0 % | – |"),
            "{whole}"
        );
        assert!(whole.contains("| *Pier, published* | – | – | 3.00 |"), "{whole}");
        assert!(whole.contains("| not measured |  |  |  |"), "{whole}");
        results.experiments[0].rows[0].cells = Vec::new();
        assert!(Short::of(&results, &results.experiments[0], &[]).is_none());
    }
}
