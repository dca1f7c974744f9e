//! Reads a topic from its first record to where it ended when the run began.
//!
//! Consumers are threads. Up to as many as there are partitions share them out; more than that read the same partitions
//! over again, each from the start. Offsets must follow each other; a gap (which compaction may leave) is counted.

mod consumer;

use std::sync::atomic::AtomicU64;
use std::time::Instant;

use anyhow::bail;
use serde::Serialize;

use self::consumer::Outcome;
use crate::broker::Broker;
use crate::contract::together;
use crate::latency::{Latency, LatencyRecorder};
use crate::progress::Progress;
use crate::report::{Report, mb_per_s, per_s};
use crate::stretches;
use crate::usage::Usage;

/// How far fetched batches are taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Decode {
    /// Headers only: counts records by their batches' word.
    Headers,
    /// Every record, with its key and value.
    #[default]
    Records,
}

/// What to read, and how.
#[derive(Debug, Clone, clap::Args)]
pub struct ReadOptions {
    /// Where to connect.
    #[command(flatten)]
    pub broker: Broker,
    /// Topic to read
    #[arg(short, long, value_name = "NAME", default_value = "bench")]
    pub topic: String,
    /// Consumers, each a thread with its own connections
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub consumers: u32,
    /// How many records each partition is read, instead of all
    #[arg(short = 'n', long, value_name = "N")]
    pub records: Option<u64>,
    /// Bytes that a fetch may bring
    #[arg(long, default_value_t = 4 << 20, value_parser = clap::value_parser!(i32).range(1..))]
    pub fetch_bytes: i32,
    /// Bytes that are worth an answer before --fetch-wait-ms is over
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i32).range(0..))]
    pub fetch_bytes_min: i32,
    /// How long a fetch may wait for them, in milliseconds
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..))]
    pub fetch_wait_ms: u64,
    /// How far batches are taken apart
    #[arg(long, value_enum, default_value_t)]
    pub decode: Decode,
    /// Do not compare the batches' checksums
    #[arg(long)]
    pub skip_checksums: bool,
    /// The server's process, to report what it used; may be repeated
    #[arg(long = "server-pid", value_name = "PID")]
    pub server_pids: Vec<u32>,
    /// Report as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub struct ReadReport {
    /// Always "read".
    pub workload: &'static str,
    /// The topic.
    pub topic: String,
    /// Its partitions.
    pub partitions: usize,
    /// Consumers.
    pub consumers: u32,
    /// From the first fetch to the last answer.
    pub seconds: f64,
    /// Records read.
    pub records: u64,
    /// The same a second.
    pub records_per_s: f64,
    /// 10^6 bytes of batches, as they came, a second.
    pub mb_per_s: f64,
    /// Bytes of batches, as they came.
    pub bytes: u64,
    /// Fetches.
    pub fetches: u64,
    /// Places where an offset is missing.
    pub offset_gaps: u64,
    /// Latencies of fetches, from when one is waited for: with the next one under way meanwhile, that is less than a
    /// round trip.
    #[serde(flatten)]
    pub latency: Latency,
    /// What it cost; per GB of batches.
    #[serde(flatten)]
    pub usage: Usage,
}

/// Reads as `options` say and reports.
///
/// # Errors
/// If the topic is not there, a fetch fails, or bytes are damaged or out of order.
pub fn run(options: &ReadOptions) -> anyhow::Result<ReadReport> {
    let mut cluster = options.broker.cluster()?;
    let stretches = stretches::find(&mut cluster, &options.topic, options.records)?;
    if stretches.iter().all(|stretch| stretch.first >= stretch.end) {
        bail!("topic {} is empty", options.topic);
    }
    let shares = stretches::share_out(&stretches, options.consumers);
    let had = AtomicU64::new(0);
    let mut progress = Progress::new("read", &options.server_pids);
    let (began, outcomes) = together::run(
        options.consumers,
        "consumer",
        |index| consumer::open(options, &shares[index as usize]),
        |open, _| consumer::run(options, open, &had),
        Instant::now,
        &had,
        &mut progress,
    )?;
    let outcomes = outcomes.into_iter().collect::<anyhow::Result<Vec<Outcome>>>()?;
    let mut report = report(options, stretches.len(), began, &outcomes);
    report.usage = progress.usage(report.bytes);
    Ok(report)
}

fn report(options: &ReadOptions, partitions: usize, began: Instant, outcomes: &[Outcome]) -> ReadReport {
    let latencies = LatencyRecorder::merged(outcomes.iter().map(|outcome| &outcome.latencies));
    let records = outcomes.iter().map(|outcome| outcome.records).sum::<u64>();
    let bytes = outcomes.iter().map(|outcome| outcome.bytes).sum::<u64>();
    let ended = outcomes.iter().filter_map(|outcome| outcome.ended).max();
    let seconds = ended.map_or(0.0, |ended| ended.duration_since(began).as_secs_f64());
    ReadReport {
        workload: "read",
        topic: options.topic.clone(),
        partitions,
        consumers: options.consumers,
        seconds: (seconds * 1000.0).round() / 1000.0,
        records,
        records_per_s: per_s(records as f64, seconds),
        mb_per_s: mb_per_s(bytes, seconds),
        bytes,
        fetches: latencies.count(),
        offset_gaps: outcomes.iter().map(|outcome| outcome.gaps).sum(),
        latency: latencies.summary(),
        usage: Usage::default(),
    }
}

impl Report for ReadReport {}
