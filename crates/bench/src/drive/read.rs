//! Reading a log from its first record, and what the contract says about each.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use client::{ConsumerOptions, Fetched};

use super::Ropewalk;
use crate::contract::driver::Events;
use crate::contract::payload::{Stamp, crc32};
use crate::contract::{Done, Read};
use crate::reading::{self, Reading, Taker};

/// Reads until all consumers together have what is asked for.
pub(super) fn run(system: &Ropewalk, read: &Read, events: &Events<'_>) -> Result<Done> {
    ensure!(read.consumers > 0, "there must be one consumer at least");
    let stretches = reading::stretches(&mut system.cluster()?, &read.log, None)?;
    ensure!(
        stretches.len() == read.shards as usize,
        "topic {} has {} partitions, not {}",
        read.log,
        stretches.len(),
        read.shards
    );
    let asked = Reading {
        topic: &read.log,
        consumers: read.consumers,
        options: ConsumerOptions {
            bytes_max: i32::try_from(read.request_bytes).context("request_bytes is too large")?,
            ..ConsumerOptions::default()
        },
        are_apart: false,
        records_max: read.records,
    };
    let compared = || Compared {
        verify: read.verify,
        ..Compared::default()
    };
    let had = reading::read(&asked, &stretches, || system.cluster(), compared, &mut &*events)?;
    ensure!(
        had.records >= read.records,
        "the log has {} records for its consumers, not {}",
        had.records,
        read.records
    );
    let sum = |of: fn(&Compared) -> u64| read.verify.then(|| had.takers.iter().map(of).sum());
    Ok(Done {
        seconds: had.seconds,
        records: had.records,
        bytes: had.bytes,
        latency_ns: had.latencies.pairs(),
        crc32_sum: sum(|one| one.crc32_sum),
        out_of_order: sum(|one| one.out_of_order),
        ..Done::default()
    })
}

/// The findings of one consumer.
#[derive(Default)]
struct Compared {
    verify: bool,
    crc32_sum: u64,
    out_of_order: u64,
    /// The number of the last record by partition and producer.
    last: HashMap<(i32, u32), u64>,
}

impl Taker for Compared {
    /// Takes every record apart, as a reader does.
    fn take(&mut self, partition: i32, fetched: &Fetched) -> Result<(u64, u64)> {
        let (mut records, mut bytes) = (0, 0);
        for record in fetched.records() {
            let record = record?;
            let value = record.value.as_deref().unwrap_or_default();
            records += 1;
            bytes += value.len() as u64;
            if self.verify {
                self.compare(partition, value);
            }
            // The value is what a reader reads for: the compiler must not leave it out.
            std::hint::black_box(value);
        }
        Ok((records, bytes))
    }
}

impl Compared {
    fn compare(&mut self, partition: i32, value: &[u8]) {
        self.crc32_sum += crc32(value);
        // A record without a stamp shows in the sum.
        if let Some(stamp) = Stamp::parse(value) {
            let last = self.last.insert((partition, stamp.producer), stamp.sequence);
            self.out_of_order += u64::from(last.is_some_and(|last| stamp.sequence <= last));
        }
    }
}
