//! Reads a topic from its first record to where it ended when the run began.
//!
//! Consumers are threads. Up to as many as there are partitions share them out; more than that read the same partitions
//! over again, each from the start. Offsets must follow each other; a gap (which compaction may leave) is counted.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use client::{ConsumerOptions, Fetched};
use serde::Serialize;

use crate::broker::Broker;
use crate::latency::Latency;
use crate::progress::Progress;
use crate::reading::{self, Reading, Taker};
use crate::report::{Report, mb_per_s, per_s};
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
pub fn run(options: &ReadOptions) -> Result<ReadReport> {
    let mut cluster = options.broker.cluster()?;
    let stretches = reading::stretches(&mut cluster, &options.topic, options.records)?;
    if stretches.iter().all(|stretch| stretch.first >= stretch.end) {
        bail!("topic {} is empty", options.topic);
    }
    let asked = Reading {
        topic: &options.topic,
        consumers: options.consumers,
        options: ConsumerOptions {
            wait_max: Duration::from_millis(options.fetch_wait_ms),
            bytes_min: options.fetch_bytes_min,
            bytes_max: options.fetch_bytes,
            check_checksums: !options.skip_checksums,
            ..ConsumerOptions::default()
        },
        are_apart: true,
        records_max: u64::MAX,
    };
    let counted = || Counted {
        decode: options.decode,
        gaps: 0,
    };
    let cluster = || Ok(options.broker.cluster()?);
    let mut progress = Progress::new("read", &options.server_pids);
    let had = reading::read(&asked, &stretches, cluster, counted, &mut progress)?;
    Ok(ReadReport {
        workload: "read",
        topic: options.topic.clone(),
        partitions: stretches.len(),
        consumers: options.consumers,
        seconds: (had.seconds * 1000.0).round() / 1000.0,
        records: had.records,
        records_per_s: per_s(had.records as f64, had.seconds),
        mb_per_s: mb_per_s(had.bytes, had.seconds),
        bytes: had.bytes,
        fetches: had.latencies.count(),
        offset_gaps: had.takers.iter().map(|one| one.gaps).sum(),
        latency: had.latencies.summary(),
        usage: progress.usage(had.bytes),
    })
}

impl Report for ReadReport {}

/// The counts of one consumer; bytes are those of batches, as they came.
struct Counted {
    decode: Decode,
    /// Places where an offset is missing.
    gaps: u64,
}

impl Taker for Counted {
    fn take(&mut self, _partition: i32, fetched: &Fetched) -> Result<(u64, u64)> {
        let (records, gaps) = match self.decode {
            Decode::Headers => count_by_headers(fetched)?,
            Decode::Records => count_by_records(fetched)?,
        };
        self.gaps += gaps;
        Ok((records, fetched.total_bytes() as u64))
    }
}

fn count_by_headers(fetched: &Fetched) -> Result<(u64, u64)> {
    let (mut records, mut gaps) = (0, 0);
    let mut next = fetched.first_offset();
    for batch in fetched.batches() {
        let (header, _) = batch?;
        // Only the first batch may begin before what was asked for.
        gaps += u64::from(header.base_offset > next);
        next = header.next_offset();
        records += u64::from(header.record_count.unsigned_abs());
    }
    Ok((records, gaps))
}

fn count_by_records(fetched: &Fetched) -> Result<(u64, u64)> {
    let (mut records, mut gaps) = (0, 0);
    let mut next = fetched.first_offset();
    for record in fetched.records() {
        let record = record?;
        ensure!(
            record.offset >= next,
            "the record at offset {} comes after the one before {next}",
            record.offset
        );
        gaps += u64::from(record.offset > next);
        next = record.offset.advance(1);
        records += 1;
        // The value is what a reader reads for: the compiler must not leave it out.
        std::hint::black_box(&record.value);
    }
    Ok((records, gaps))
}
