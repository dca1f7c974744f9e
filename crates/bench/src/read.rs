//! Reads a topic from its first record to where it ended when the run began.
//!
//! Consumers are threads. Up to as many as there are partitions share them out; more than that read the same partitions
//! over again, each from the start. Offsets must follow each other; a gap (which compaction may leave) is counted.

use std::fmt;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use client::{Cluster, ConnectionOptions, Consumer, ConsumerOptions, Fetched, Offset, OffsetQuery, Start};
use serde::Serialize;

use crate::latency::{Latency, LatencyRecorder};
use crate::progress::Progress;
use crate::report::{mb_per_s, per_s, write_latency, write_usage};
use crate::usage::{Meter, Usage};

/// Below the tail there are records: after so many answers in a row without one they are lost.
const EMPTY_MAX: u32 = 20;

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
    /// Brokers to ask first, host:port, separated by commas
    #[arg(long, default_value = "127.0.0.1:9092")]
    pub bootstrap: String,
    /// Topic to read
    #[arg(long, default_value = "bench")]
    pub topic: String,
    /// Consumers, each a thread with its own connections
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub consumers: u32,
    /// How many records each partition is read, instead of all
    #[arg(long)]
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

impl Default for ReadOptions {
    /// What an empty command line says.
    fn default() -> ReadOptions {
        ReadOptions {
            bootstrap: "127.0.0.1:9092".to_owned(),
            topic: "bench".to_owned(),
            consumers: 1,
            records: None,
            fetch_bytes: 4 << 20,
            fetch_bytes_min: 1,
            fetch_wait_ms: 500,
            decode: Decode::Records,
            skip_checksums: false,
            server_pids: Vec::new(),
            json: false,
        }
    }
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

/// A partition and the offset where reading it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Task {
    partition: i32,
    first: Offset,
    end: Offset,
}

#[derive(Debug)]
struct Outcome {
    records: u64,
    bytes: u64,
    gaps: u64,
    /// Answers in a row without a record.
    empty: u32,
    latencies: LatencyRecorder,
    began: Instant,
    ended: Instant,
}

/// Reads as `options` say and reports.
///
/// # Errors
/// If the topic is not there, a fetch fails, or bytes are damaged or out of order.
pub fn run(options: &ReadOptions) -> anyhow::Result<ReadReport> {
    let mut cluster = Cluster::connect(&options.bootstrap, ConnectionOptions::default())?;
    let tasks = find_tasks(&mut cluster, options)?;
    if tasks.iter().all(|task| task.first >= task.end) {
        bail!("topic {} is empty", options.topic);
    }
    let shares = share_out(&tasks, options.consumers as usize);
    let progress = Progress::default();
    let gate = Barrier::new(shares.len() + 1);
    std::thread::scope(|scope| {
        let workers: Vec<_> = shares
            .iter()
            .map(|share| {
                let (gate, progress) = (&gate, &progress);
                scope.spawn(move || consume(options, share, gate, progress))
            })
            .collect();
        gate.wait();
        let meter = Meter::start(&options.server_pids);
        gate.wait();
        let shown = scope.spawn(|| progress.show("read"));
        let outcomes: Vec<anyhow::Result<Outcome>> = workers
            .into_iter()
            .map(|worker| worker.join().expect("a worker's panic is a bug here"))
            .collect();
        let bytes = outcomes.iter().flatten().map(|outcome| outcome.bytes).sum();
        let usage = meter.and_then(|meter| meter.stop(bytes));
        progress.end();
        shown.join().expect("a panic is a bug here");
        let outcomes = outcomes.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        Ok(report(options, tasks.len(), &outcomes, usage?))
    })
}

/// All partitions, each from its first record to where it ends now.
fn find_tasks(cluster: &mut Cluster, options: &ReadOptions) -> anyhow::Result<Vec<Task>> {
    let name = &options.topic;
    let mut tasks = Vec::new();
    for partition in cluster.topic(name)?.partitions {
        let index = partition.index;
        let mut offset = |query| -> anyhow::Result<Offset> {
            Ok(cluster.offset(name, index, query)?.unwrap_or(Offset::ZERO))
        };
        let first = offset(OffsetQuery::Earliest)?;
        let mut end = offset(OffsetQuery::Latest)?;
        if let Some(records) = options.records {
            end = end.min(first.advance(i64::try_from(records).unwrap_or(i64::MAX / 2)));
        }
        tasks.push(Task {
            partition: index,
            first,
            end,
        });
    }
    Ok(tasks)
}

/// What each consumer reads.
fn share_out(tasks: &[Task], consumers: usize) -> Vec<Vec<Task>> {
    (0..consumers)
        .map(|consumer| {
            if consumers >= tasks.len() {
                return vec![tasks[consumer % tasks.len()]];
            }
            tasks.iter().copied().skip(consumer).step_by(consumers).collect()
        })
        .collect()
}

/// One consumer's work. Always passes the gate twice, also if it cannot work.
fn consume(
    options: &ReadOptions,
    share: &[Task],
    gate: &Barrier,
    progress: &Progress,
) -> anyhow::Result<Outcome> {
    let opened = open(options, share);
    gate.wait();
    gate.wait();
    let began = Instant::now();
    let mut outcome = Outcome {
        records: 0,
        bytes: 0,
        gaps: 0,
        empty: 0,
        latencies: LatencyRecorder::new(),
        began,
        ended: began,
    };
    let mut open = opened?;
    // One fetch of each partition in turn: the others' next answers are under way meanwhile.
    while !open.is_empty() {
        let mut index = 0;
        while index < open.len() {
            let (task, consumer) = &mut open[index];
            read_some(options, *task, consumer, &mut outcome, progress)?;
            if consumer.position() >= task.end {
                open.swap_remove(index);
            } else {
                index += 1;
            }
        }
    }
    outcome.ended = Instant::now();
    Ok(outcome)
}

fn open(options: &ReadOptions, share: &[Task]) -> anyhow::Result<Vec<(Task, Consumer)>> {
    let mut cluster = Cluster::connect(&options.bootstrap, ConnectionOptions::default())?;
    let consumer_options = ConsumerOptions {
        wait_max: Duration::from_millis(options.fetch_wait_ms),
        bytes_min: options.fetch_bytes_min,
        bytes_max: options.fetch_bytes,
        check_checksums: !options.skip_checksums,
        ..ConsumerOptions::default()
    };
    let mut consumers = Vec::with_capacity(share.len());
    for task in share.iter().filter(|task| task.first < task.end) {
        let start = Start::Offset(task.first);
        let options_of_one = consumer_options.clone();
        let consumer = Consumer::new(
            &mut cluster,
            &options.topic,
            task.partition,
            start,
            options_of_one,
        )?;
        consumers.push((*task, consumer));
    }
    Ok(consumers)
}

fn read_some(
    options: &ReadOptions,
    task: Task,
    consumer: &mut Consumer,
    outcome: &mut Outcome,
    progress: &Progress,
) -> anyhow::Result<()> {
    let before = Instant::now();
    let fetched = consumer.fetch()?;
    outcome.latencies.record(before.elapsed());
    ensure!(
        !fetched.is_empty() || fetched.tail() >= task.end,
        "partition {} ended at {} when the run began, and at {} now",
        task.partition,
        task.end,
        fetched.tail()
    );
    outcome.empty = if fetched.is_empty() { outcome.empty + 1 } else { 0 };
    ensure!(
        outcome.empty < EMPTY_MAX,
        "partition {} ends at {}, but nothing comes from {} on",
        task.partition,
        fetched.tail(),
        fetched.next_offset()
    );
    let (records, gaps) = match options.decode {
        Decode::Headers => count_by_headers(&fetched)?,
        Decode::Records => count_by_records(&fetched)?,
    };
    outcome.records += records;
    outcome.gaps += gaps;
    outcome.bytes += fetched.total_bytes() as u64;
    progress.add(records);
    Ok(())
}

fn count_by_headers(fetched: &Fetched) -> anyhow::Result<(u64, u64)> {
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

fn count_by_records(fetched: &Fetched) -> anyhow::Result<(u64, u64)> {
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

fn report(options: &ReadOptions, partitions: usize, outcomes: &[Outcome], usage: Usage) -> ReadReport {
    let mut latencies = LatencyRecorder::new();
    for outcome in outcomes {
        latencies.merge(&outcome.latencies);
    }
    let records = outcomes.iter().map(|outcome| outcome.records).sum::<u64>();
    let bytes = outcomes.iter().map(|outcome| outcome.bytes).sum::<u64>();
    let first = outcomes.iter().map(|outcome| outcome.began).min();
    let last = outcomes.iter().map(|outcome| outcome.ended).max();
    let seconds = first
        .zip(last)
        .map_or(0.0, |(first, last)| last.duration_since(first).as_secs_f64());
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
        usage,
    }
}

impl ReadReport {
    /// The report as `--json` asks: one JSON object on one line, or text.
    ///
    /// # Panics
    /// Never: a report is plain data.
    #[must_use]
    pub fn render(&self, json: bool) -> String {
        if json {
            serde_json::to_string(self).expect("a report is plain data")
        } else {
            self.to_string()
        }
    }
}

impl fmt::Display for ReadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "read         {} records, {} B in {} s ({} consumers, {} partitions, {} fetches, {} offset gaps)",
            self.records,
            self.bytes,
            self.seconds,
            self.consumers,
            self.partitions,
            self.fetches,
            self.offset_gaps
        )?;
        writeln!(
            f,
            "throughput   {:.0} records/s, {:.1} MB/s",
            self.records_per_s, self.mb_per_s
        )?;
        write_latency(f, &self.latency)?;
        write_usage(f, &self.usage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumers_share_partitions_or_read_them_over_again() {
        let tasks: Vec<Task> = (0..3)
            .map(|partition| Task {
                partition,
                first: Offset(0),
                end: Offset(9),
            })
            .collect();
        let read = |consumers| -> Vec<Vec<i32>> {
            share_out(&tasks, consumers)
                .iter()
                .map(|share| share.iter().map(|task| task.partition).collect())
                .collect()
        };
        assert_eq!(read(1), [vec![0, 1, 2]]);
        assert_eq!(read(2), [vec![0, 2], vec![1]]);
        assert_eq!(read(4), [vec![0], vec![1], vec![2], vec![0]]);
    }
}
