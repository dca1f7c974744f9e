//! Appends to a topic: producers in a closed loop, or at a fixed rate with latencies counted from the intended times.
//!
//! The producers and their payloads are those of the comparison (`contract::producers`, `contract::payload`). Each has a connection and a
//! partition of its own (several share one where there are more producers than partitions). Latency is that of one batch; at a
//! rate, that of each record, from when it was due.

mod partition;
mod ring;
mod verify;

use std::sync::Mutex;

use anyhow::{Context, bail};
use client::{Acks, Cluster, Compression, NewTopic};
use serde::Serialize;

use self::partition::PartitionAppender;
use self::ring::Ring;
use crate::broker::Broker;
use crate::contract::Append;
use crate::contract::producers::{self, Batches, Schedule};
use crate::contract::time::MachineTime;
use crate::floor::Beside;
use crate::latency::Latency;
use crate::progress::Progress;
use crate::report::{Report, counted, mb_per_s, per_s};
use crate::usage::Usage;

/// What to append, and how.
#[derive(Debug, Clone, clap::Args)]
pub struct AppendOptions {
    /// Where to connect.
    #[command(flatten)]
    pub broker: Broker,
    /// Topic to append to; created if it does not exist
    #[arg(short, long, value_name = "NAME", default_value = "bench")]
    pub topic: String,
    /// Partitions to append to
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub partitions: u32,
    /// Replicas of each partition, if the topic is created; the broker's default unless given
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i16).range(1..))]
    pub replicas: Option<i16>,
    /// Bytes of each record's value
    #[arg(long, default_value_t = 100)]
    pub record_bytes: usize,
    /// Records in each batch; at a --rate, the most: a batch is what is due when there is room for it
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub batch_records: u32,
    /// Batches of one producer that may wait for their acknowledgement at once
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub in_flight: u32,
    /// Producers, each a thread with its own connection
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub producers: u32,
    /// How long to append
    #[arg(long, default_value_t = 10.0, conflicts_with = "records")]
    pub seconds: f64,
    /// How many records to append in all, instead of for a time
    #[arg(short = 'n', long, value_name = "N")]
    pub records: Option<u64>,
    /// Records a second in all; without it, each producer sends as soon as it may
    #[arg(long, value_parser = parse_rate)]
    pub rate: Option<f64>,
    /// When an append counts as done: 0, 1 or all
    #[arg(long, default_value = "all")]
    pub acks: Acks,
    /// Number the batches, so that a retry is never a second append
    #[arg(long)]
    pub idempotent: bool,
    /// Compress batches: none, gzip, snappy, lz4 or zstd
    #[arg(short = 'z', long, value_name = "CODEC", default_value = "none", value_parser = parse_compression)]
    pub compression: Compression,
    /// Create the topic with ropewalk.durability set to this
    #[arg(long)]
    pub durability: Option<String>,
    /// Create the topic with this config, such as retention.ms=1h; may be repeated (flush.messages=1 makes Kafka flush each batch)
    #[arg(short, long = "config", value_name = "NAME=VALUE", value_parser = parse_config)]
    pub configs: Vec<(String, String)>,
    /// Records to append in all before measuring
    #[arg(long, default_value_t = 0)]
    pub warmup_records: u64,
    /// The server's process, to report what it used; may be repeated
    #[arg(long = "server-pid", value_name = "PID")]
    pub server_pids: Vec<u32>,
    /// Read every acknowledged record back and compare it
    #[arg(long)]
    pub verify: bool,
    /// Report as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub struct AppendReport {
    /// Always "append".
    pub workload: &'static str,
    /// The topic.
    pub topic: String,
    /// Partitions appended to.
    pub partitions: u32,
    /// Producers.
    pub producers: u32,
    /// Bytes of each value.
    pub record_bytes: usize,
    /// Records of each batch; at a rate, the most.
    pub batch_records: u32,
    /// Batches in flight of each producer.
    pub in_flight: u32,
    /// When an append counted as done: 0, 1 or -1 (all).
    pub acks: i16,
    /// Records a second that were asked for, if the rate was fixed.
    pub rate: Option<f64>,
    /// From the first batch sent to the last answered.
    pub seconds: f64,
    /// Records acknowledged (with acks=0: sent).
    pub records: u64,
    /// The same a second.
    pub records_per_s: f64,
    /// 10^6 bytes of values a second.
    pub mb_per_s: f64,
    /// Latencies of batches; at a rate, of records, from when each was due.
    #[serde(flatten)]
    pub latency: Latency,
    /// What it cost.
    #[serde(flatten)]
    pub usage: Usage,
    /// Batches that failed.
    pub errors: u64,
    /// Why the first of them did.
    pub first_error: Option<String>,
    /// Records read back and found right, if that was asked for.
    pub verified_records: Option<u64>,
    /// Times that the machine alone takes for one batch.
    #[serde(flatten)]
    pub floor: Beside,
}

/// Appends as `options` say and reports. Failed batches are reported, not returned as an error.
///
/// # Errors
/// If it could not begin, or a record that was acknowledged cannot be read back.
pub fn run(options: &AppendOptions) -> anyhow::Result<AppendReport> {
    if options.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
        bail!("--rate must be more than 0");
    }
    if !options.seconds.is_finite() || options.seconds < 0.0 {
        bail!("--seconds must not be negative");
    }
    let mut cluster = options.broker.cluster()?;
    prepare_topic(&mut cluster, options)?;
    let batch_bytes = options
        .record_bytes
        .saturating_mul(options.batch_records as usize);
    let floor = Beside::measure(&mut cluster, batch_bytes);
    let payloads = Ring::new(options.record_bytes);
    let acknowledged = Mutex::new(Vec::new());
    let load = load(options);
    let mut progress = Progress::new("append", &options.server_pids);
    let connect = |number| PartitionAppender::connect(options, number, &payloads, &acknowledged);
    let schedule = Schedule::new(&load);
    let (done, latencies) = producers::produce_by(
        &MachineTime,
        &load,
        Batches::ByDriver,
        &schedule,
        connect,
        &mut progress,
    )?;
    let usage = progress.usage(done.bytes);
    let verified_records = match options.verify {
        true => {
            let acknowledged = acknowledged.into_inner().expect("nobody died while adding");
            Some(verify::read_back(
                &mut cluster,
                &options.topic,
                acknowledged,
                &payloads,
            )?)
        }
        false => None,
    };
    Ok(AppendReport {
        workload: "append",
        topic: options.topic.clone(),
        partitions: options.partitions,
        producers: options.producers,
        record_bytes: options.record_bytes,
        batch_records: options.batch_records,
        in_flight: options.in_flight,
        acks: options.acks.code(),
        rate: options.rate,
        seconds: (done.seconds * 1000.0).round() / 1000.0,
        records: done.records,
        records_per_s: per_s(done.records as f64, done.seconds),
        mb_per_s: mb_per_s(done.bytes, done.seconds),
        latency: latencies.summary(),
        usage,
        errors: done.errors,
        first_error: done.first_error,
        verified_records,
        floor,
    })
}

/// The same in the words of the contract.
fn load(options: &AppendOptions) -> Append {
    // No time at all is no record at all.
    let no_time = (options.seconds <= 0.0).then_some(0);
    let records = options.records.or(no_time);
    Append {
        log: options.topic.clone(),
        // Each producer sees one: its own partition.
        shards: 1,
        producers: options.producers,
        record_bytes: options.record_bytes,
        batch_records: options.batch_records,
        in_flight: options.in_flight,
        warmup_records: options.warmup_records,
        records,
        seconds: records.is_none().then_some(options.seconds),
        rate: options.rate,
        follow: false,
        retry: false,
        transactional: false,
    }
}

/// Creates the topic unless it exists with enough partitions.
fn prepare_topic(cluster: &mut Cluster, options: &AppendOptions) -> anyhow::Result<()> {
    let name = &options.topic;
    let partitions = i32::try_from(options.partitions).context("--partitions is too large")?;
    let mut topic = NewTopic::new(name, partitions);
    topic.replication_factor = options.replicas.unwrap_or(-1);
    topic.configs = options.configs.clone();
    let durability = options.durability.iter();
    let durability = durability.map(|durability| ("ropewalk.durability".to_owned(), durability.clone()));
    topic.configs.extend(durability);
    let (found, is_made) = Broker::have_topic(cluster, &topic)?;
    if !is_made && !topic.configs.is_empty() {
        bail!("topic {name} exists already, so its configs cannot be set: use another or delete it");
    }
    if found.partitions.len() < options.partitions as usize {
        bail!(
            "topic {name} has {}, not {partitions}: use another or delete it",
            counted(found.partitions.len() as u64, "partition")
        );
    }
    Ok(())
}

impl Report for AppendReport {}

pub(crate) fn parse_config(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is not name=value")),
    }
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok();
    rate.filter(|rate| rate.is_finite() && *rate > 0.0)
        .ok_or_else(|| "expected a number more than 0".to_owned())
}

pub(crate) fn parse_compression(text: &str) -> Result<Compression, String> {
    [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ]
    .into_iter()
    .find(|compression| compression.to_string() == text)
    .ok_or_else(|| format!("{text:?} is none of none, gzip, snappy, lz4, zstd"))
}
