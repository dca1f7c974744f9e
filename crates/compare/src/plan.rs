//! A suite's wishes: tables of workloads, before anything is started. Suites write them as TOML.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::results::Experiment;

/// One table to be filled.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Plan {
    /// As results have it, without its rows.
    #[serde(flatten)]
    pub(super) shown: Experiment,
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

/// One workload.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct RowPlan {
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) work: Work,
    /// Of whose median rate, in the same cell, its load is a share.
    #[serde(default)]
    pub(super) maximum: Option<Maximum>,
}

/// A row of an earlier table of the suite.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Maximum {
    pub(super) table: String,
    pub(super) row: String,
}

/// What is done.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "work", rename_all = "snake_case")]
pub(super) enum Work {
    /// Append; measured.
    Append(Load),
    /// Append (unmeasured, once for all repetitions), then read it, pass after pass for a run's seconds; measured.
    Read {
        #[serde(flatten)]
        load: Load,
        /// Of each client.
        #[serde(default = "one")]
        consumers: u32,
        /// Payloads that one request may bring, unless it is what others bring.
        #[serde(default)]
        request_bytes: Option<u32>,
    },
    /// Append at a rate while a second client reads from the first record on; the appends' latency and the reader's rate are
    /// measured.
    ReadMeanwhile {
        /// What is there before.
        stored: Load,
        /// What is appended meanwhile.
        #[serde(flatten)]
        load: Load,
        /// Whether it is one pass, after the system was started again and the page cache emptied; else it is pass after pass.
        cold: bool,
    },
    /// Append, kill everything at once, start again, append one record.
    Restart(Load),
}

/// Records to append. What is not told is 1, and a run's seconds long.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(default)]
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
}

/// What one request of a reader may bring: Kafka's default. Of large records, so many.
const REQUEST_BYTES: usize = 1 << 20;
const REQUEST_RECORDS_MIN: usize = 4;

/// Payloads that one request for records of a size may bring, in bytes; the same for all systems.
pub(super) fn request_bytes(record_bytes: usize) -> u32 {
    let bytes = REQUEST_BYTES.max(record_bytes.saturating_mul(REQUEST_RECORDS_MIN));
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn one() -> u32 {
    1
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
            Work::Append(load) | Work::Restart(load) => load,
            Work::Read { load, .. } | Work::ReadMeanwhile { load, .. } => load,
        }
    }

    /// Those of the row.
    pub(super) fn parameters(&self) -> BTreeMap<String, f64> {
        let mut parameters = self.load().parameters();
        if let Work::Read { load, consumers, .. } = self {
            parameters.retain(|name, _| name != "producers" && name != "in_flight");
            parameters.insert("consumers".to_owned(), f64::from(consumers * load.clients));
            parameters.insert("request_bytes".to_owned(), f64::from(self.request_bytes()));
        }
        parameters
    }

    /// Payloads that one request of its readers may bring.
    pub(super) fn request_bytes(&self) -> u32 {
        let usual = request_bytes(self.load().record_bytes);
        match self {
            Work::Read { request_bytes, .. } => request_bytes.unwrap_or(usual),
            _ => usual,
        }
    }

    /// Says that each run starts the system again before it measures, and warms it up then.
    pub(super) fn restarts_first(&self) -> bool {
        matches!(self, Work::ReadMeanwhile { cold: true, .. })
    }

    /// The payloads that are kept for readers; none where nothing is read back.
    pub(super) fn stored_bytes(&self) -> u64 {
        match self {
            Work::Read { load, .. } | Work::ReadMeanwhile { stored: load, .. } => {
                load.records.unwrap_or(0) * u64::from(load.clients) * load.record_bytes as u64
            }
            Work::Append(_) | Work::Restart(_) => 0,
        }
    }

    /// About how many seconds one run takes, for the first estimate: of a second each.
    pub(super) fn seconds(&self, seconds: f64) -> f64 {
        match self {
            Work::Append(load) => load.estimate(seconds),
            Work::Read { .. } => seconds,
            Work::ReadMeanwhile { stored, load, .. } => stored.estimate(seconds) + load.estimate(seconds),
            Work::Restart(load) => load.estimate(seconds) + 8.0,
        }
    }
}

impl Plan {
    /// The tables whose figures its rates are shares of.
    pub(super) fn needs(&self) -> impl Iterator<Item = &str> {
        let maxima = self.rows.iter().filter_map(|row| row.maximum.as_ref());
        maxima.map(|maximum| maximum.table.as_str())
    }
}
