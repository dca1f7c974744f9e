//! What a comparison found: the whole of `results.json`, of which all reports are made and nothing else.
//!
//! Times are in microseconds (`_us`), memory in 10^6 bytes (`_mb`), volumes in 10^9 bytes (`_gb`), processor time in
//! seconds (`_cpu_s`). The schema is described in `docs/formats/comparison-results.md`; a change of meaning is a new version.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of the schema that is written.
pub const SCHEMA: u32 = 2;

/// The oldest version that is still read, as if it were of today.
pub const OLDEST_SCHEMA: u32 = 1;

/// What the first version said of a run that was not asked, among its failures.
const NOT_ASKED: &str = "not asked: ";

/// From so many repetitions on, the least and the most of them are left out of a range.
const TRIMMED_FROM: usize = 5;

/// Everything that one comparison found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// `SCHEMA`.
    pub schema: u32,
    /// The suite: "quick", "papers" or "field".
    pub suite: String,
    /// What was typed to get it.
    pub command: String,
    /// When it began, RFC 3339.
    pub began: String,
    /// When its last run ended, RFC 3339.
    pub ended: String,
    /// How many nodes each system had.
    pub nodes: u32,
    /// The hosts that these ran on, one on each; empty where all were on one machine with their clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// How often each workload was repeated, in turn with the others.
    pub repetitions: u32,
    /// What else was asked of the runs; none where an earlier build did not tell.
    #[serde(default)]
    pub asked: Option<Asked>,
    /// How it was begun and gone on with; empty where an earlier build did not tell.
    #[serde(default)]
    pub sittings: Vec<Sitting>,
    /// Where it ran.
    pub machine: Machine,
    /// What the machine allows, measured before (first) and after (second) all runs: name of the floor to p50 in µs.
    pub floors: Vec<BTreeMap<String, f64>>,
    /// The columns: each variant of each system.
    pub systems: Vec<SystemFacts>,
    /// The tables.
    pub experiments: Vec<Experiment>,
}

/// How much was asked of the runs, and through which clients.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// How long a timed run was measured.
    pub seconds: f64,
    /// How long what had just been started was loaded before its first run, at least.
    pub warmup_seconds: f64,
    /// The share of the numbers of records that publications name.
    pub scale: f64,
    /// How often a workload was repeated at most, where its deciding figure varied much.
    pub repetitions_max: u32,
    /// Which clients, in the word of the option: "best" or "all".
    pub clients: String,
}

/// One of the times in which the runs of a comparison were made, on the same machine by the same program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sitting {
    /// When it began, RFC 3339.
    pub began: String,
    /// The load of the last minute then.
    pub load: f64,
}

/// The machine, and how quiet it was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The CPU's own name.
    pub cpu: String,
    /// How many of them.
    pub cpus: u32,
    /// Memory, in 10^9 bytes.
    pub memory_gb: f64,
    /// The kernel's version.
    pub kernel: String,
    /// The file system of the data, with its mount options.
    pub file_system: String,
    /// The load of the last minute before the first run.
    pub load_before: f64,
    /// The same after the last run.
    pub load_after: f64,
}

/// One variant of one system.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SystemFacts {
    /// Its name in all cells, for example "kafka-flush".
    pub name: String,
    /// Its title in tables, for example "Kafka, flush each".
    pub title: String,
    /// The system's version.
    pub version: String,
    /// What an acknowledged record survives.
    pub survives: Survives,
    /// The guarantee in words.
    pub durability: String,
    /// What one acknowledgement is for, if it is known.
    #[serde(default)]
    pub acknowledges: Option<Acknowledges>,
    /// What readers must know of how it is used here, in a sentence.
    #[serde(default)]
    pub note: Option<String>,
    /// What was set, in the system's own words: of the server and of each log.
    pub settings: BTreeMap<String, String>,
    /// Its clients, by name.
    pub drivers: BTreeMap<String, DriverFacts>,
    /// Why nothing of it was measured, if so.
    pub failed: Option<String>,
}

/// What a record survives once it is acknowledged. Only systems that promise the same are set side by side as equals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Survives {
    /// Nothing: it may be in the memory of the process alone.
    #[default]
    Nothing,
    /// A crash of the process: it is in the kernel's page cache.
    ProcessCrash,
    /// A power cut: it is on the disk.
    PowerCut,
}

/// What one acknowledgement is for, where a request has several records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Acknowledges {
    /// The whole request.
    Batch,
    /// Each record of its own.
    Record,
}

/// One client.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DriverFacts {
    /// Its title, for example "Java kafka-clients 4.3.1".
    pub title: String,
    /// Its version, as it says itself.
    pub version: String,
    /// Its settings, as it says itself.
    pub settings: BTreeMap<String, String>,
}

/// One table: the same question at several sizes, to several systems.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Its name in commands and file names, for example "shared-logs-1".
    pub name: String,
    /// Its title.
    pub title: String,
    /// What is asked and how, in a sentence or two.
    pub about: String,
    /// Which publication or public workload it follows, with its table or figure; none for our own.
    pub source: Option<String>,
    /// Which loop all its rows have: they are never mixed.
    pub loop_kind: LoopKind,
    /// The metrics that its table shows, best first, for example "p50_us", "records_per_s".
    pub metrics: Vec<String>,
    /// How it is drawn, if it is.
    pub plot: Option<Plot>,
    /// The rows.
    pub rows: Vec<Row>,
    /// Why it was left out as a whole, if so (for example: "comes with the total order").
    pub left_out: Option<String>,
    /// What its publication shows for it; other hardware, never mixed with what was measured.
    pub published: Vec<Published>,
    /// The system over which its publication tells a speed-up, by its name here, if it does.
    pub speed_up_over: Option<String>,
    /// The command that repeats it alone.
    pub command: String,
}

/// How load was offered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopKind {
    /// The next request is sent when one is answered: rates are what the system takes.
    #[default]
    Closed,
    /// Requests are due at fixed times: latency counts from then.
    Open,
    /// No load: a start, or idleness.
    None,
}

/// How an experiment is drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Plot {
    /// A group of bars for each row, one for each cell.
    Bars {
        /// The metric.
        metric: String,
    },
    /// A line for each system and driver over a parameter of the rows; both axes logarithmic.
    Lines {
        /// The parameter along x, for example "batch_records".
        x: String,
        /// The metric along y.
        metric: String,
        /// A parameter whose values make separate lines, if there is one.
        by: Option<String>,
    },
    /// The distribution of latencies for each cell of each row; logarithmic.
    Percentiles,
    /// The same of the times until consumers had the records.
    DeliveryPercentiles,
}

/// One workload of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its name within the table, for example "50 KB".
    pub name: String,
    /// Its parameters: "producers", "consumers", "shards", "record_bytes", "batch_records", "in_flight", "rate", …
    pub parameters: BTreeMap<String, f64>,
    /// One for each system and driver that was asked.
    pub cells: Vec<Cell>,
}

/// One system, through one driver, under one workload.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Of `systems`.
    pub system: String,
    /// Of its drivers; empty where there is none.
    pub driver: String,
    /// Whether this is the system's best client (else it is a common one).
    pub best_client: bool,
    /// Figures of each repetition that succeeded: metric to value. Metrics are those of `METRICS`.
    pub runs: Vec<BTreeMap<String, f64>>,
    /// The distribution of latencies over all repetitions: quantile (0 to 1) and µs; empty if there is none.
    pub percentiles: Vec<(f64, f64)>,
    /// The same of the times from when records were due until consumers had them.
    #[serde(default)]
    pub delivery_percentiles: Vec<(f64, f64)>,
    /// Acknowledged records that were read back and compared.
    pub verified_records: Option<u64>,
    /// Why a repetition (or all of it) failed; one for each failure.
    pub failures: Vec<String>,
    /// Why it was not asked, for a reason that is no failure: it is not meant for this, or promises nothing about it.
    #[serde(default)]
    pub not_asked: Option<String>,
}

/// A figure of a publication.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The system as the publication names it.
    pub system: String,
    /// The row it belongs to.
    pub row: String,
    /// Metric to value, in our units.
    pub figures: BTreeMap<String, f64>,
}

/// Records a second as a multiple of what the first system of the table takes in the same row: how one publication tells it.
pub const TIMES_VERSION_1: &str = "times_version_1";

/// Each metric: its name, its unit as tables show it, and whether more is better.
pub const METRICS: &[(&str, &str, Better)] = &[
    ("p50_us", "p50, µs", Better::Less),
    ("p90_us", "p90, µs", Better::Less),
    ("p95_us", "p95, µs", Better::Less),
    ("p99_us", "p99, µs", Better::Less),
    ("p999_us", "p99.9, µs", Better::Less),
    ("p9999_us", "p99.99, µs", Better::Less),
    ("max_us", "max, µs", Better::Less),
    ("mean_us", "mean, µs", Better::Less),
    ("delivery_p50_us", "end to end p50, µs", Better::Less),
    ("delivery_p99_us", "end to end p99, µs", Better::Less),
    ("delivery_max_us", "end to end max, µs", Better::Less),
    ("records_per_s", "records/s", Better::More),
    ("mb_per_s", "MB/s", Better::More),
    ("records_per_s_each", "records/s each", Better::More),
    ("mb_per_s_each", "MB/s each", Better::More),
    (TIMES_VERSION_1, "times version 1", Better::Neither),
    ("read_records_per_s", "read, records/s", Better::More),
    ("read_mb_per_s", "read, MB/s", Better::More),
    ("server_cpu_s_per_gb", "server CPU s/GB", Better::Less),
    ("server_cpu_us_per_record", "server CPU µs/record", Better::Less),
    ("client_cpu_s_per_gb", "client CPU s/GB", Better::Less),
    ("server_rss_mb", "server RSS, MB", Better::Less),
    ("server_rss_peak_mb", "server RSS at its peak, MB", Better::Less),
    ("written_per_byte", "bytes written/byte", Better::Less),
    ("ready_s", "ready, s", Better::Less),
    ("first_ack_s", "first acknowledgement, s", Better::Less),
    ("stall_leader_s", "leader killed: stall, s", Better::Less),
    ("stall_other_s", "another killed: stall, s", Better::Less),
    ("stored_mb", "MB there to read", Better::Neither),
    ("beside_reads_percent", "of that beside reads, %", Better::Neither),
    ("due_per_s", "due, records/s", Better::Neither),
    ("passes", "passes", Better::Neither),
    ("samples", "samples", Better::Neither),
    ("records", "records", Better::Neither),
    ("seconds", "seconds", Better::Neither),
    ("load", "load of the last minute", Better::Neither),
    ("other_cpus", "CPUs used by others", Better::Neither),
];

/// The percentiles among the metrics: name and quantile.
pub const QUANTILES: &[(&str, f64)] = &[
    ("p50_us", 0.5),
    ("p90_us", 0.9),
    ("p95_us", 0.95),
    ("p99_us", 0.99),
    ("p999_us", 0.999),
    ("p9999_us", 0.9999),
    ("delivery_p50_us", 0.5),
    ("delivery_p99_us", 0.99),
];

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// A smaller figure.
    Less,
    /// A larger figure.
    More,
    /// It only says how much was measured.
    Neither,
}

/// The middle of several repetitions, and how far they were apart: from five on without the least and the most of them, so that
/// further repetitions can tell an accident from a system that is never the same twice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
}

impl Results {
    /// All cells, each with its table and its row.
    pub(crate) fn cells(&self) -> impl Iterator<Item = (&Experiment, &Row, &Cell)> {
        self.experiments.iter().flat_map(|experiment| {
            let rows = experiment.rows.iter();
            rows.flat_map(move |row| row.cells.iter().map(move |cell| (experiment, row, cell)))
        })
    }

    /// The table of this name.
    pub(crate) fn experiment(&self, name: &str) -> Option<&Experiment> {
        self.experiments.iter().find(|experiment| experiment.name == name)
    }

    /// The system of this name.
    pub(crate) fn system(&self, name: &str) -> Option<&SystemFacts> {
        self.systems.iter().find(|system| system.name == name)
    }

    /// What an older version of the schema said, as this one says it.
    pub(super) fn upgraded(mut self) -> Results {
        self.schema = SCHEMA;
        let rows = self
            .experiments
            .iter_mut()
            .flat_map(|experiment| &mut experiment.rows);
        for cell in rows.flat_map(|row| &mut row.cells) {
            let is_refusal = |why: &String| why.starts_with("not asked: meant for");
            if let Some(place) = cell.failures.iter().position(is_refusal) {
                let why = cell.failures.remove(place);
                cell.not_asked = why.strip_prefix(NOT_ASKED).map(str::to_owned);
            }
        }
        self
    }
}

impl Experiment {
    /// The cells of all rows.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.rows.iter().flat_map(|row| &row.cells)
    }

    /// The row of this name.
    pub(crate) fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }
}

impl Cell {
    /// The median and the range of a metric over the repetitions; none if no run has it.
    #[must_use]
    pub fn spread(&self, metric: &str) -> Option<Spread> {
        let mut values: Vec<f64> = self
            .runs
            .iter()
            .filter_map(|run| run.get(metric))
            .copied()
            .collect();
        values.sort_by(f64::total_cmp);
        let trimmed = usize::from(values.len() >= TRIMMED_FROM);
        let last = values.len().checked_sub(1 + trimmed)?;
        let (least, most) = (values[trimmed], values[last]);
        let upper = values[values.len() / 2];
        let lower = values[(values.len() - 1) / 2];
        Some(Spread {
            median: f64::midpoint(lower, upper),
            least,
            most,
        })
    }
}

/// Parts of made-up results, for tests.
#[cfg(test)]
pub(crate) mod made_up {
    use super::*;

    pub(crate) fn results(systems: &[&str]) -> Results {
        let system = |name: &&str| SystemFacts {
            name: (*name).to_owned(),
            title: (*name).to_owned(),
            ..SystemFacts::default()
        };
        Results {
            schema: SCHEMA,
            repetitions: 3,
            systems: systems.iter().map(system).collect(),
            ..Results::default()
        }
    }

    fn named(figures: &[(&str, f64)]) -> BTreeMap<String, f64> {
        let figures = figures.iter();
        figures
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect()
    }

    /// Three runs that are alike.
    pub(crate) fn cell(system: &str, figures: &[(&str, f64)]) -> Cell {
        Cell {
            system: system.to_owned(),
            best_client: true,
            runs: vec![named(figures); 3],
            ..Cell::default()
        }
    }

    pub(crate) fn published(system: &str, row: &str, figures: &[(&str, f64)]) -> Published {
        Published {
            system: system.to_owned(),
            row: row.to_owned(),
            figures: named(figures),
        }
    }

    pub(crate) fn row(name: &str, cells: Vec<Cell>) -> Row {
        Row {
            name: name.to_owned(),
            parameters: BTreeMap::new(),
            cells,
        }
    }

    pub(crate) fn experiment(metrics: &[&str], rows: Vec<Row>) -> Experiment {
        let metrics = metrics.iter().map(|metric| (*metric).to_owned()).collect();
        Experiment {
            name: "table".to_owned(),
            title: "Table".to_owned(),
            metrics,
            rows,
            ..Experiment::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_names_every_metric() {
        let format = include_str!("../../../docs/formats/comparison-results.md");
        for (name, title, _) in METRICS {
            let line = format!("| `{name}` | {title} |");
            assert!(format.contains(&line), "{line}");
        }
    }

    #[test]
    fn a_table_that_lacks_a_field_is_refused_by_its_name() {
        let whole = serde_json::to_value(Experiment::default()).expect("plain data");
        let needed = [
            "name",
            "title",
            "about",
            "loop_kind",
            "metrics",
            "rows",
            "published",
            "command",
        ];
        for field in needed {
            let mut part = whole.clone();
            part.as_object_mut().expect("an object").remove(field);
            let error = serde_json::from_value::<Experiment>(part).expect_err(field);
            assert!(
                error.to_string().contains(&format!("missing field `{field}`")),
                "{error}"
            );
        }
    }

    #[test]
    fn from_five_repetitions_on_one_accident_is_no_spread() {
        let spread = |values: &[f64]| {
            let run = |value: &f64| BTreeMap::from([("p50_us".to_owned(), *value)]);
            let cell = Cell {
                runs: values.iter().map(run).collect(),
                ..Cell::default()
            };
            cell.spread("p50_us")
                .map(|spread| (spread.least, spread.median, spread.most))
        };
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[5.0]), Some((5.0, 5.0, 5.0)));
        assert_eq!(spread(&[5.0, 900.0, 4.0, 6.0]), Some((4.0, 5.5, 900.0)));
        assert_eq!(spread(&[5.0, 900.0, 4.0, 6.0, 5.5]), Some((5.0, 5.5, 6.0)));
    }
}
