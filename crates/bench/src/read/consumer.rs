//! One consumer of a read run: fetches from each partition of its share in turn, and takes apart what came as far as was asked.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use client::{Consumer, ConsumerOptions, Fetched, Start, Stretch};

use super::{Decode, ReadOptions};
use crate::latency::LatencyRecorder;

/// Below the tail there are records: after so many answers in a row without one they are lost.
const EMPTY_MAX: u32 = 20;

/// A partition that is not read to its end yet.
pub(super) struct Open {
    stretch: Stretch,
    consumer: Consumer,
    /// Answers in a row without a record.
    empty: u32,
}

#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) records: u64,
    /// Of batches, as they came.
    pub(super) bytes: u64,
    /// Places where an offset is missing.
    pub(super) gaps: u64,
    pub(super) latencies: LatencyRecorder,
    pub(super) ended: Option<Instant>,
}

/// Connects to the leaders of a consumer's share: a connection for each partition, so that a server with several cores answers
/// each from the core that owns it.
pub(super) fn open(options: &ReadOptions, share: &[Stretch]) -> Result<Vec<Open>> {
    let mut cluster = options.broker.cluster()?;
    let how = ConsumerOptions {
        wait_max: Duration::from_millis(options.fetch_wait_ms),
        bytes_min: options.fetch_bytes_min,
        bytes_max: options.fetch_bytes,
        check_checksums: !options.skip_checksums,
        ..ConsumerOptions::default()
    };
    let with_records = share.iter().filter(|stretch| stretch.first < stretch.end);
    with_records
        .map(|stretch| {
            let (partition, start) = (stretch.partition, Start::Offset(stretch.first));
            let consumer = Consumer::new(&mut cluster, &options.topic, partition, start, how.clone())?;
            Ok(Open {
                stretch: *stretch,
                consumer,
                empty: 0,
            })
        })
        .collect()
}

/// Reads all of them to their ends.
pub(super) fn run(options: &ReadOptions, mut open: Vec<Open>, had: &AtomicU64) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    // One fetch of each partition in turn: the others' next answers are under way meanwhile.
    while !open.is_empty() {
        let mut index = 0;
        while index < open.len() {
            let before = outcome.records;
            read_some(options, &mut open[index], &mut outcome)?;
            had.fetch_add(outcome.records - before, Ordering::Relaxed);
            if open[index].consumer.position() >= open[index].stretch.end {
                open.swap_remove(index);
            } else {
                index += 1;
            }
        }
    }
    outcome.ended = Some(Instant::now());
    Ok(outcome)
}

fn read_some(options: &ReadOptions, open: &mut Open, outcome: &mut Outcome) -> Result<()> {
    let Stretch { partition, end, .. } = open.stretch;
    let before = Instant::now();
    let fetched = open.consumer.fetch()?;
    outcome.latencies.record(before.elapsed());
    ensure!(
        !fetched.is_empty() || fetched.tail() >= end,
        "partition {partition} ended at {end} when the run began, and at {} now",
        fetched.tail()
    );
    open.empty = if fetched.is_empty() { open.empty + 1 } else { 0 };
    ensure!(
        open.empty < EMPTY_MAX,
        "partition {partition} ends at {}, but nothing comes from {} on",
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
    Ok(())
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
