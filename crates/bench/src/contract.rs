//! What a driver and the harness of the comparison say to each other: commands and events, one JSON object a line.
//!
//! The words and their meaning stand in `bench/peers/README.md`; this is their shape in Rust, for the harness and for
//! drivers that are written in Rust. It must know no system.

pub mod driver;
pub mod payload;
pub mod producers;
pub(crate) mod time;
pub(crate) mod together;
pub mod watch;

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// What the harness asks of a driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// Name the client, its version and its settings.
    Describe,
    /// Make a log.
    Create(Create),
    /// Remove a log and its data.
    Delete {
        /// Its name.
        log: String,
    },
    /// Name the node that leads its first shard.
    Leader {
        /// Its name.
        log: String,
    },
    /// Append to it.
    Append(Append),
    /// Read it from its first record.
    Read(Read),
}

/// A log that is to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Create {
    /// Its name.
    pub log: String,
    /// How many shards it has.
    pub shards: u32,
    /// How many nodes each record is kept on.
    pub nodes: u32,
    /// Settings of the variant, in the system's own words.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

/// Records that are to be appended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Append {
    /// The log.
    pub log: String,
    /// How many shards it has.
    pub shards: u32,
    /// How many producers append at once.
    pub producers: u32,
    /// Bytes of each payload; at least 16.
    pub record_bytes: usize,
    /// How many records a client may put into one request.
    pub batch_records: u32,
    /// How many requests of one producer may wait for their acknowledgement at once.
    pub in_flight: u32,
    /// Records in all before those that are measured.
    #[serde(default)]
    pub warmup_records: u64,
    /// How many records in all, `seconds` or both: what comes first ends it.
    #[serde(default)]
    pub records: Option<u64>,
    /// For how long.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// Records a second that are due, in all; none is the closed loop.
    #[serde(default)]
    pub rate: Option<f64>,
    /// Whether consumers read at the tail meanwhile.
    #[serde(default)]
    pub follow: bool,
    /// Nodes die meanwhile: records that were not acknowledged are sent again until they are, and are there once.
    #[serde(default)]
    pub retry: bool,
    /// Each batch is a transaction, with its records in one shard after the other.
    #[serde(default)]
    pub transactional: bool,
}

/// Records that are to be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Read {
    /// The log.
    pub log: String,
    /// How many shards it has.
    pub shards: u32,
    /// How many consumers read at once.
    pub consumers: u32,
    /// Bytes of each payload.
    pub record_bytes: usize,
    /// How many bytes of payloads one request for records may bring.
    pub request_bytes: u32,
    /// How many records all consumers together have when it is over.
    pub records: u64,
    /// Whether each record is compared with what it must be.
    #[serde(default)]
    pub verify: bool,
}

/// The number of the node that listens at `leader`, from 1 on, by the address that drivers get.
///
/// # Errors
/// If none of them does.
pub fn node_at(address: &str, leader: &str) -> Result<u32> {
    let place = address.split(',').position(|node| node == leader);
    let place = place.with_context(|| format!("{leader} leads, and is none of {address}"))?;
    Ok(u32::try_from(place + 1)?)
}

/// What a driver answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// To `describe`.
    Described(Described),
    /// To `create`.
    Created,
    /// To `delete`.
    Deleted,
    /// To `leader`.
    Leader {
        /// From 1 on; none where no node leads.
        node: Option<u32>,
    },
    /// The first measured record is about to be sent or asked for.
    Started,
    /// About once a second.
    Progress {
        /// Measured records so far.
        records: u64,
    },
    /// All is done.
    Done(Box<Done>),
    /// Instead of any other answer.
    Failed {
        /// In a sentence.
        why: String,
    },
}

/// The client of a driver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    /// Its name.
    pub client: String,
    /// Its version.
    pub version: String,
    /// Its settings, where they are not its defaults or matter.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

/// Latencies as pairs of nanoseconds and how many there were, ascending.
pub type LatencyPairs = Vec<(u64, u64)>;

/// What came of `append` or `read`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// From `started` to the last acknowledgement or record.
    pub seconds: f64,
    /// Measured records that were acknowledged or read.
    pub records: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Records (or batches, where the driver makes them) that failed.
    pub errors: u64,
    /// Why the first did.
    #[serde(default)]
    pub first_error: Option<String>,
    /// For each producer, how many records were acknowledged, warm-up included. Of `append`.
    #[serde(default)]
    pub appended: Vec<u64>,
    /// Latencies of acknowledgements, or of a client's requests for records.
    #[serde(default)]
    pub latency_ns: LatencyPairs,
    /// From when a record was due until a consumer had it. Of `append` with `follow`.
    #[serde(default)]
    pub delivery_ns: Option<LatencyPairs>,
    /// The sum of the payloads' CRC-32. Of `read` with `verify`.
    #[serde(default)]
    pub crc32_sum: Option<u64>,
    /// Records that came before an earlier one of the same producer in a shard. Of `read` with `verify`.
    #[serde(default)]
    pub out_of_order: Option<u64>,
}
