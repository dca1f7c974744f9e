//! What a suite wants measured: tables of workloads, before anything is started.

use std::collections::BTreeMap;

use super::results::{LoopKind, Plot, Published};

/// One table to be filled.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    pub(super) name: &'static str,
    pub(super) title: String,
    pub(super) about: String,
    pub(super) source: Option<&'static str>,
    pub(super) loop_kind: LoopKind,
    /// The metrics that its table shows.
    pub(super) metrics: &'static [&'static str],
    pub(super) plot: Option<Plot>,
    pub(super) rows: Vec<RowPlan>,
    /// Whom it asks.
    pub(super) who: Who,
    /// Whether the clients that several systems share drive it whatever was asked: where what best clients tell cannot meet.
    pub(super) common_clients: bool,
    /// Whether all data is kept on a RAM disk.
    pub(super) in_memory: bool,
    /// Why it cannot be measured yet.
    pub(super) left_out: Option<&'static str>,
    pub(super) published: Vec<Published>,
    /// The variant over which the publication tells a speed-up.
    pub(super) speed_up_over: Option<&'static str>,
}

/// Which of the systems that take part are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// All that are logs.
    Logs,
    /// These variants only: those that the publication compares, or what stands for them.
    Variants(&'static [&'static str]),
}

/// One workload.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RowPlan {
    pub(super) name: String,
    pub(super) work: Work,
}

/// What is done.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Work {
    /// Append; measured.
    Append(Load),
    /// Append (unmeasured, once for all repetitions), then read it, pass after pass for a run's seconds; measured.
    Read {
        load: Load,
        /// Of each client.
        consumers: u32,
        /// Payloads that one request may bring.
        request_bytes: u32,
    },
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
}

/// What is read has so many bytes, whoever wrote it: the fastest readers need a good part of a second for it.
pub(super) const READ_BYTES: u64 = 256_000_000;
/// The same of records of `LARGE` bytes and more, which are read faster.
const READ_LARGE_BYTES: u64 = 512_000_000;
const LARGE: usize = 10_000;
/// Who writes too slowly for that has at least written for so many times a run's seconds: with less, readers do not read the same.
const FILL_TIMES: f64 = 120.0;
/// What one request of a reader may bring: Kafka's default. Of large records, so many.
const REQUEST_BYTES: usize = 1 << 20;
const REQUEST_RECORDS_MIN: usize = 4;
/// In small requests, what so many of them bring is enough to read: all of it would take minutes.
pub(super) const REQUESTS_MAX: u64 = 1 << 14;

/// Payloads that one request for records of a size may bring, in bytes; the same for all systems.
pub(super) fn request_bytes(record_bytes: usize) -> u32 {
    let bytes = REQUEST_BYTES.max(record_bytes.saturating_mul(REQUEST_RECORDS_MIN));
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Records to append.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Load {
    /// Processes, each of which has a log of its own and does all of the rest.
    pub(super) clients: u32,
    pub(super) shards: u32,
    pub(super) producers: u32,
    pub(super) record_bytes: usize,
    pub(super) batch_records: u32,
    pub(super) in_flight: u32,
    pub(super) amount: Amount,
    pub(super) rate: Option<Rate>,
    pub(super) follow: bool,
}

/// How much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Amount {
    /// For so many times the run's seconds.
    Time(f64),
    /// So many records in all.
    Records(u64),
    /// The same, or what is taken within so many times the run's seconds if that is less.
    Within { records: u64, times: f64 },
}

/// How fast, in the open loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rate {
    /// So many records a second.
    Fixed(f64),
    /// This share of what the same cell had as its median rate in a row of an earlier experiment of the suite.
    OfMaximum {
        share: f64,
        experiment: &'static str,
        row: &'static str,
    },
}

impl Load {
    /// One record after the other, each acknowledged before the next is sent.
    pub(super) fn one_by_one(record_bytes: usize) -> Load {
        Load {
            clients: 1,
            shards: 1,
            producers: 1,
            record_bytes,
            batch_records: 1,
            in_flight: 1,
            amount: Amount::Time(1.0),
            rate: None,
            follow: false,
        }
    }

    /// The same from so many processes at once.
    pub(super) fn by_clients(self, clients: u32) -> Load {
        Load { clients, ..self }
    }

    /// The same with so many producers, each on a shard of its own.
    pub(super) fn each_on_its_own(self, producers: u32) -> Load {
        Load {
            shards: producers,
            producers,
            ..self
        }
    }

    /// The same in batches, several of which may wait.
    pub(super) fn in_batches(self, batch_records: u32, in_flight: u32) -> Load {
        Load {
            batch_records,
            in_flight,
            ..self
        }
    }

    /// The same until there is enough to read.
    pub(super) fn to_read(self) -> Load {
        let large = self.record_bytes >= LARGE;
        let bytes = if large { READ_LARGE_BYTES } else { READ_BYTES };
        self.filled_with(bytes, FILL_TIMES)
    }

    /// The same in requests that bring no more than this: so many of them are enough.
    pub(super) fn to_read_by(self, request_bytes: u32) -> Load {
        let bytes = READ_BYTES.min(u64::from(request_bytes) * REQUESTS_MAX);
        self.filled_with(bytes, FILL_TIMES)
    }

    /// The same until there are so many bytes of payloads, or so many times a run's seconds are over.
    pub(super) fn filled_with(self, bytes: u64, times: f64) -> Load {
        let records = (bytes / self.record_bytes as u64).max(1);
        Load {
            amount: Amount::Within { records, times },
            ..self
        }
    }

    /// The number of records that it names, if it names one.
    pub(super) fn records(&self) -> Option<u64> {
        match self.amount {
            Amount::Time(_) => None,
            Amount::Records(records) | Amount::Within { records, .. } => Some(records),
        }
    }

    /// What a table's row says of it.
    fn parameters(&self) -> BTreeMap<String, f64> {
        let mut parameters = BTreeMap::from([
            ("shards".to_owned(), f64::from(self.shards * self.clients)),
            ("producers".to_owned(), f64::from(self.producers * self.clients)),
            ("record_bytes".to_owned(), self.record_bytes as f64),
            ("batch_records".to_owned(), f64::from(self.batch_records)),
            ("in_flight".to_owned(), f64::from(self.in_flight)),
        ]);
        if self.clients > 1 {
            parameters.insert("clients".to_owned(), f64::from(self.clients));
        }
        match self.rate {
            Some(Rate::Fixed(rate)) => {
                parameters.insert("rate".to_owned(), rate);
            }
            Some(Rate::OfMaximum { share, .. }) => {
                parameters.insert("share_of_maximum".to_owned(), share);
            }
            None => {}
        }
        parameters
    }
}

impl Work {
    /// Reads in requests that are the same for all tables.
    pub(super) fn read(load: Load, consumers: u32) -> Work {
        Work::Read {
            load,
            consumers,
            request_bytes: request_bytes(load.record_bytes),
        }
    }

    /// Those of the row.
    pub(super) fn parameters(&self) -> BTreeMap<String, f64> {
        match self {
            Work::Append(load) | Work::Restart(load) => load.parameters(),
            Work::Read {
                load,
                consumers,
                request_bytes,
            } => {
                let mut parameters = load.parameters();
                parameters.remove("producers");
                parameters.remove("in_flight");
                parameters.insert("consumers".to_owned(), f64::from(*consumers * load.clients));
                parameters.insert("request_bytes".to_owned(), f64::from(*request_bytes));
                parameters
            }
            Work::ReadMeanwhile { load, .. } => load.parameters(),
        }
    }

    /// Whether each run starts the system again before it measures, and warms it up then.
    pub(super) fn restarts_first(&self) -> bool {
        matches!(self, Work::ReadMeanwhile { cold: true, .. })
    }

    /// How many processes of a driver it needs.
    pub(super) fn clients(&self) -> u32 {
        match self {
            Work::Append(load) | Work::Read { load, .. } => load.clients,
            Work::ReadMeanwhile { .. } | Work::Restart(_) => 1,
        }
    }

    /// The largest record in it.
    pub(super) fn record_bytes(&self) -> usize {
        match self {
            Work::Append(load) | Work::Restart(load) | Work::Read { load, .. } => load.record_bytes,
            Work::ReadMeanwhile { load, .. } => load.record_bytes,
        }
    }

    /// The payloads that are kept for readers; none where nothing is read back.
    pub(super) fn stored_bytes(&self) -> u64 {
        match self {
            Work::Read { load, .. } | Work::ReadMeanwhile { stored: load, .. } => load
                .records()
                .unwrap_or(0)
                .saturating_mul(u64::from(load.clients))
                .saturating_mul(load.record_bytes as u64),
            Work::Append(_) | Work::Restart(_) => 0,
        }
    }

    /// About how many seconds one run takes, for the first estimate: of a second each.
    pub(super) fn seconds(&self, seconds: f64) -> f64 {
        let of = |load: &Load| match load.amount {
            Amount::Time(times) => times * seconds,
            Amount::Records(_) | Amount::Within { .. } => seconds,
        };
        match self {
            Work::Append(load) => of(load),
            Work::Read { .. } => seconds,
            Work::ReadMeanwhile { stored, load, .. } => of(stored) + of(load),
            Work::Restart(load) => of(load) + 8.0,
        }
    }
}

impl Plan {
    /// The tables whose figures its rates are shares of.
    pub(super) fn needs(&self) -> impl Iterator<Item = &'static str> {
        self.rows.iter().filter_map(|row| match &row.work {
            Work::Append(Load {
                rate: Some(Rate::OfMaximum { experiment, .. }),
                ..
            }) => Some(*experiment),
            _ => None,
        })
    }

    /// A table of all logs, closed loop, on the disk.
    pub(super) fn new(name: &'static str, title: &str, about: &str) -> Plan {
        Plan {
            name,
            title: title.to_owned(),
            about: about.to_owned(),
            source: None,
            loop_kind: LoopKind::Closed,
            metrics: &["p50_us", "p99_us", "records_per_s", "mb_per_s"],
            plot: None,
            rows: Vec::new(),
            who: Who::Logs,
            common_clients: false,
            in_memory: false,
            left_out: None,
            published: Vec::new(),
            speed_up_over: None,
        }
    }

    /// With these rows.
    pub(super) fn rows<N: Into<String>>(mut self, rows: impl IntoIterator<Item = (N, Work)>) -> Plan {
        self.rows.extend(rows.into_iter().map(|(name, work)| RowPlan {
            name: name.into(),
            work,
        }));
        self
    }
}
