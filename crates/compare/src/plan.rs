//! A suite's wishes: tables of workloads, before anything is started. Suites write them as TOML.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::results::{Experiment, LoopKind, Plot, Published, Row};

/// One table to be filled. What results have of it as well is described there.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) about: String,
    source: Option<String>,
    #[serde(default)]
    pub(super) loop_kind: LoopKind,
    #[serde(default)]
    pub(super) metrics: Vec<String>,
    plot: Option<Plot>,
    pub(super) left_out: Option<String>,
    speed_up_over: Option<String>,
    #[serde(skip)]
    pub(super) published: Vec<Published>,
    #[serde(default)]
    pub(super) rows: Vec<RowPlan>,
    /// The variants that are asked: those that the publication compares, or what stands for them. Empty for all that are logs.
    #[serde(default)]
    pub(super) variants: Vec<String>,
    /// Whether the clients that several systems share drive it whatever was asked: where what best clients tell cannot meet.
    #[serde(default)]
    pub(super) common_clients: bool,
    /// Whether all data is kept on a RAM disk.
    #[serde(default)]
    pub(super) in_memory: bool,
}

/// One workload. What it has besides is its work's, which refuses what it does not know.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct RowPlan {
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) work: Work,
    /// Of whose median rate, in the same cell, its load is a share.
    pub(super) maximum: Option<Maximum>,
    /// Why clusters of several nodes are not asked, where they are not.
    pub(super) one_node_only: Option<String>,
}

/// A row of an earlier table of the suite.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Maximum {
    pub(super) table: String,
    pub(super) row: String,
}

/// What is done.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "work", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Work {
    /// Append; measured.
    Append(Load),
    /// Append (unmeasured, once for all repetitions), then read it, pass after pass for a run's seconds; measured.
    Read(Load),
    /// Append at a rate while a second client reads from the first record on; the appends' latency and the reader's rate are
    /// measured.
    ReadMeanwhile {
        /// What is there before.
        stored: Load,
        /// What is appended meanwhile.
        load: Load,
        /// Whether it is one pass, after the system was started again and the page cache emptied; else it is pass after pass.
        cold: bool,
    },
    /// Append, kill everything at once, start again, append one record.
    Restart(Load),
    /// Append, and kill a node in the middle: the leader, then one that does not lead, of a new system each time.
    FailOver(Load),
}

/// Records to append. What is not told is 1, and a run's seconds long.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Load {
    /// Processes, each of which has a log of its own and does all of the rest.
    pub(super) clients: u32,
    pub(super) shards: u32,
    pub(super) producers: u32,
    pub(super) record_bytes: usize,
    pub(super) batch_records: u32,
    pub(super) in_flight: u32,
    /// So many records in all, unless so many times the run's seconds are over before.
    pub(super) records: Option<u64>,
    pub(super) times: Option<f64>,
    /// So many records a second, in the open loop; or this share of a maximum.
    pub(super) rate: Option<f64>,
    pub(super) share_of_maximum: Option<f64>,
    pub(super) follow: bool,
    /// Each batch is a transaction.
    pub(super) transactional: bool,
    /// Of each client that reads, and the payloads that one request may bring, unless it is what others bring.
    pub(super) consumers: u32,
    pub(super) request_bytes: Option<u32>,
}

/// What one request of a reader may bring: Kafka's default. Of large records, so many.
const REQUEST_BYTES: usize = 1 << 20;
const REQUEST_RECORDS_MIN: usize = 4;

/// Payloads that one request for records of a size may bring, in bytes; the same for all systems.
pub(super) fn request_bytes(record_bytes: usize) -> u32 {
    let bytes = REQUEST_BYTES.max(record_bytes.saturating_mul(REQUEST_RECORDS_MIN));
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl Default for Load {
    /// One record after the other, each acknowledged before the next is sent.
    fn default() -> Load {
        Load {
            clients: 1,
            shards: 1,
            producers: 1,
            record_bytes: 1,
            batch_records: 1,
            in_flight: 1,
            records: None,
            times: None,
            rate: None,
            share_of_maximum: None,
            follow: false,
            transactional: false,
            consumers: 1,
            request_bytes: None,
        }
    }
}

impl Load {
    /// For how many times a run's seconds it goes on; none if only its number of records ends it.
    pub(super) fn times(&self) -> Option<f64> {
        self.times.or(self.records.is_none().then_some(1.0))
    }

    /// About how many seconds it takes: of what ends with its records, one run's.
    fn estimate(&self, seconds: f64) -> f64 {
        seconds * self.times().filter(|_| self.records.is_none()).unwrap_or(1.0)
    }

    /// Payloads that one request of its readers may bring.
    pub(super) fn request_bytes(&self) -> u32 {
        let usual = request_bytes(self.record_bytes);
        self.request_bytes.unwrap_or(usual)
    }

    /// What a table's row says of it.
    fn parameters(&self) -> BTreeMap<String, f64> {
        let clients = Some(f64::from(self.clients)).filter(|clients| *clients > 1.0);
        let parameters = [
            ("shards", Some(f64::from(self.shards * self.clients))),
            ("producers", Some(f64::from(self.producers * self.clients))),
            ("record_bytes", Some(self.record_bytes as f64)),
            ("batch_records", Some(f64::from(self.batch_records))),
            ("in_flight", Some(f64::from(self.in_flight))),
            ("clients", clients),
            ("rate", self.rate),
            ("share_of_maximum", self.share_of_maximum),
        ];
        let told = parameters.into_iter();
        told.filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect()
    }
}

impl Work {
    /// The load that is measured, or read.
    pub(super) fn load(&self) -> &Load {
        match self {
            Work::Append(load) | Work::Read(load) | Work::Restart(load) | Work::FailOver(load) => load,
            Work::ReadMeanwhile { load, .. } => load,
        }
    }

    pub(super) fn parameters(&self) -> BTreeMap<String, f64> {
        let mut parameters = self.load().parameters();
        if let Work::Read(load) = self {
            parameters.retain(|name, _| name != "producers" && name != "in_flight");
            parameters.insert("consumers".to_owned(), f64::from(load.consumers * load.clients));
            parameters.insert("request_bytes".to_owned(), f64::from(load.request_bytes()));
        }
        parameters
    }

    /// Says that each run starts the system before it measures, and warms it up then.
    pub(super) fn starts_first(&self) -> bool {
        matches!(self, Work::ReadMeanwhile { cold: true, .. } | Work::FailOver(_))
    }

    /// The payloads that are kept for readers; none where nothing is read back.
    pub(super) fn stored_bytes(&self) -> u64 {
        match self {
            Work::Read(load) | Work::ReadMeanwhile { stored: load, .. } => {
                load.records.unwrap_or(0) * u64::from(load.clients) * load.record_bytes as u64
            }
            Work::Append(_) | Work::Restart(_) | Work::FailOver(_) => 0,
        }
    }

    /// About how many seconds one run takes, for the first estimate: of a second each.
    pub(super) fn seconds(&self, seconds: f64) -> f64 {
        match self {
            Work::Append(load) => load.estimate(seconds),
            Work::Read(_) => seconds,
            Work::ReadMeanwhile { stored, load, .. } => stored.estimate(seconds) + load.estimate(seconds),
            Work::Restart(load) => load.estimate(seconds) + 8.0,
            Work::FailOver(load) => 2.0 * (load.estimate(seconds) + 12.0),
        }
    }
}

impl Plan {
    /// Says whether it asks for transactions, which not all systems have, nor all their clients.
    pub(super) fn is_transactional(&self) -> bool {
        self.rows.iter().any(|row| row.work.load().transactional)
    }

    /// The tables whose figures its rates are shares of.
    pub(super) fn needs(&self) -> impl Iterator<Item = &str> {
        let maxima = self.rows.iter().filter_map(|row| row.maximum.as_ref());
        maxima.map(|maximum| maximum.table.as_str())
    }

    /// The same with what was found.
    pub(super) fn filled(&self, rows: Vec<Row>, command: String) -> Experiment {
        let plan = self.clone();
        Experiment {
            name: plan.name,
            title: plan.title,
            about: plan.about,
            source: plan.source,
            loop_kind: plan.loop_kind,
            metrics: plan.metrics,
            plot: plan.plot,
            rows,
            left_out: plan.left_out,
            published: plan.published,
            speed_up_over: plan.speed_up_over,
            command,
        }
    }
}
