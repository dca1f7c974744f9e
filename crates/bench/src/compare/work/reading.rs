//! Runs that read what the cell keeps from run to run, alone or beside appends.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};

use super::super::driving::Driving;
use super::super::figures;
use super::super::machine;
use super::super::plan::Load;
use super::check::{check, verify};
use super::metering::{Metering, Unwatched, rest};
use super::{Manner, Outcome, RECORDS_WITHIN, Running, Stored, command, create, limit};
use crate::contract::Read;

impl Running<'_> {
    pub(super) fn read(&mut self, load: &Load, consumers: u32, batch_records: u32) -> Result<Outcome> {
        let kept = self.keep(load)?;
        let (server, driving) = self.fleet.have(self.way)?;
        // More consumers than shards read the same records again.
        let times = u64::from(consumers.div_ceil(load.shards).max(1));
        let read = Read {
            batch_records,
            consumers,
            records: kept.records() * times,
            ..kept.whole()
        };
        let mut metering = Metering::new(server, driving, self.tell);
        let done = driving.read(&read, RECORDS_WITHIN, &mut metering)?;
        ensure!(
            done.records >= read.records,
            "only {} of {} records were read",
            done.records,
            read.records
        );
        Ok(Outcome {
            figures: figures::of_load(&done, consumers, &metering.cost, false),
            latency_ns: done.latency_ns,
            // They were compared when they were made.
            verified_records: self.manner.verify.then_some(kept.records()),
        })
    }

    /// Appends, while a second client reads what is stored over and over.
    pub(super) fn read_meanwhile(&mut self, before: &Load, load: &Load, cold: bool) -> Result<Outcome> {
        let kept = self.keep(before)?;
        let read = kept.whole();
        let mut second = self.fleet.start_driver(self.way)?;
        second.describe()?;
        if cold {
            ensure!(
                machine::empty_page_cache(),
                "emptying the page cache is not allowed here: it needs the right to write /proc/sys/vm/drop_caches"
            );
        }
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| read_over_and_over(&read, &mut second, &over));
            let appended = self.append(load);
            over.store(true, Ordering::Relaxed);
            let (records, seconds) = reader.join().expect("a panic is a bug here")?;
            let mut outcome = appended?;
            let per_s = records as f64 / seconds;
            let mb_per_s = per_s * before.record_bytes as f64 / 1e6;
            for (name, value) in [("read_records_per_s", per_s), ("read_mb_per_s", mb_per_s)] {
                outcome.figures.insert(name.to_owned(), value.round());
            }
            Ok(outcome)
        })
    }

    /// What the cell keeps: made at its first run, and compared then with what was acknowledged.
    fn keep(&mut self, load: &Load) -> Result<Stored> {
        if let Some(stored) = self.stored {
            return Ok(stored.clone());
        }
        let (server, driving) = self.fleet.have(self.way)?;
        let log = self.names.next();
        create(&log, load.shards, self.way, server, driving)?;
        let manner = Manner {
            rate: None,
            ..self.manner
        };
        let done = driving.append(&command(&log, load, manner), limit(load, manner), &mut Unwatched)?;
        check(&done, load)?;
        let stored = Stored {
            log,
            load: *load,
            appended: done.appended,
        };
        verify(&stored, &[], driving)?;
        rest(server)?;
        *self.stored = Some(stored.clone());
        Ok(stored)
    }
}

/// How many records were read, and in how many seconds of reading.
fn read_over_and_over(read: &Read, driving: &mut Driving, over: &AtomicBool) -> Result<(u64, f64)> {
    let (mut records, mut seconds) = (0, 0.0);
    while !over.load(Ordering::Relaxed) {
        let done = driving.read(read, RECORDS_WITHIN, &mut Unwatched)?;
        records += done.records;
        seconds += done.seconds;
    }
    Ok((records, seconds))
}
