//! Runs that read what the cell keeps from run to run, alone or beside appends.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};

use super::super::driving::Driving;
use super::super::figures;
use super::super::fleet::Way;
use super::super::machine;
use super::super::plan::Load;
use super::super::server::Server;
use super::check::{check, verify};
use super::metering::{Metering, Unwatched, rest};
use super::{Manner, Names, Outcome, RECORDS_WITHIN, Running, Stored, command, create, limit};
use crate::contract::Read;

impl Running<'_> {
    pub(super) fn read(&mut self, load: &Load, consumers: u32, batch_records: u32) -> Result<Outcome> {
        let (server, driving) = self.fleet.have(self.way)?;
        let kept = keep(
            load,
            self.way,
            self.manner,
            server,
            driving,
            self.stored,
            self.names,
        )?;
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
        let (server, driving) = self.fleet.have(self.way)?;
        let kept = keep(
            before,
            self.way,
            self.manner,
            server,
            driving,
            self.stored,
            self.names,
        )?;
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

/// What the cell keeps: made at its first run, and compared then with what was acknowledged.
fn keep<'s>(
    load: &Load,
    way: &Way,
    manner: Manner,
    server: &Server,
    driving: &mut Driving,
    stored: &'s mut Option<Stored>,
    names: &mut Names,
) -> Result<&'s Stored> {
    if stored.is_none() {
        let log = names.next();
        create(&log, load.shards, way, server, driving)?;
        let command = command(&log, load, Manner { rate: None, ..manner });
        let done = driving.append(&command, limit(load, manner), &mut Unwatched)?;
        check(&done, load)?;
        let kept = Stored {
            log,
            load: *load,
            appended: done.appended,
        };
        verify(&kept, &[], driving)?;
        rest(server)?;
        *stored = Some(kept);
    }
    Ok(stored.as_ref().expect("it was made"))
}
