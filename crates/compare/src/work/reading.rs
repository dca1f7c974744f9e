//! Runs that read what the cell keeps from run to run, alone or beside appends.
//!
//! Every system of a row has the same volume to read, if it wrote it in time, and requests of the same bytes. What was read is
//! counted pass by pass; between passes, clients connect anew, which counts for nobody.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::super::driving::Driving;
use super::super::figures::{self, Cost};
use super::super::plan::Load;
use super::super::record::Run;
use super::super::server::Server;
use super::check::{check, check_read, verify};
use super::metering::{Course, Metering, Unwatched, rest};
use super::together::{as_one, together};
use super::warming::{warm_driver, warm_up};
use super::{LATE, LATE_BY, Manner, RECORDS_WITHIN, Running, Stored, create_for_each, limit};
use bench::contract::{Done, Read};

/// How often a reader looks whether it should begin.
const LOOK: Duration = Duration::from_millis(1);

impl Running<'_> {
    /// Reads what the cell keeps, pass after pass until a run's seconds of reading are over.
    pub(super) fn read(&mut self, load: &Load) -> Result<Run> {
        let consumers = load.consumers;
        let kept = self.keep(load)?;
        let (server, drivers) = self.fleet.have_clients(self.way, kept.len())?;
        // More consumers than shards read the same records again.
        let times = u64::from(consumers.div_ceil(load.shards).max(1));
        let reads = kept.iter().map(|kept| Read {
            consumers,
            request_bytes: load.request_bytes(),
            records: kept.records_to_read() * times,
            ..kept.whole()
        });
        let reads: Vec<Read> = reads.collect();
        let passes = Passes::read(&reads, self.manner.seconds, server, drivers, self.tell)?;
        let mut figures = figures::of_load(&passes.done, load.clients * consumers, &passes.cost, false);
        figures.insert(
            "stored_mb".to_owned(),
            kept.iter().map(Stored::megabytes_to_read).sum(),
        );
        figures.insert("passes".to_owned(), f64::from(passes.count));
        Ok(Run {
            figures,
            latency_ns: passes.done.latency_ns,
            // They were compared when they were made.
            verified_records: self.manner.verify.then(|| kept.iter().map(Stored::records).sum()),
            ..Run::default()
        })
    }

    /// Appends, while a second client reads what is stored: one cold pass, or one after the other.
    pub(super) fn read_meanwhile(&mut self, before: &Load, load: &Load, cold: bool) -> Result<Run> {
        let kept = self.keep(before)?;
        let kept = &kept[0];
        let read = kept.whole();
        if cold {
            self.fleet.restart(self.way)?;
            warm_up(self.way, 1, self.manner.warmup_seconds, self.fleet)?;
        }
        let mut second = self.fleet.start_driver(self.way)?;
        second.describe()?;
        let (server, _) = self.fleet.have(self.way)?;
        warm_driver(self.way, self.manner.warmup_seconds, server, &mut second)?;
        if cold {
            ensure!(
                server.empty_page_cache()?,
                "emptying the page cache is not allowed here: it needs the right to write /proc/sys/vm/drop_caches"
            );
        }
        let course = Course::beside(second.pid());
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| read_beside(&read, &mut second, &course, cold));
            let appended = self.append(load, &course);
            course.end();
            let read = reader.join().expect("a panic is a bug here");
            let (mut outcome, read) = (appended?, read?);
            let per_s = read.records as f64 / read.seconds;
            let mb_per_s = per_s * before.record_bytes as f64 / 1e6;
            for (name, value) in [
                ("read_records_per_s", per_s.round()),
                ("read_mb_per_s", mb_per_s.round()),
                ("stored_mb", kept.megabytes_to_read()),
                ("beside_reads_percent", read.beside_percent(&course).round()),
            ] {
                outcome.figures.insert(name.to_owned(), value);
            }
            Ok(outcome)
        })
    }

    /// What the cell keeps, a log for each client: made at its first run, and compared then with what was acknowledged. A server that
    /// was started anew meanwhile, since another cell that shares it failed, has it no more: then it is made again.
    fn keep(&mut self, load: &Load) -> Result<Vec<Stored>> {
        let (server, drivers) = self.fleet.have_clients(self.way, load.clients as usize)?;
        let first = self.stored.first();
        if first.is_some_and(|stored| stored.server == server.number()) {
            return Ok(self.stored.clone());
        }
        let manner = Manner {
            seconds: self.manner.full_seconds,
            rate: None,
            ..self.manner
        };
        let commands = create_for_each(load, manner, self.way, server, drivers)?;
        let limit = limit(load, manner);
        let parts = together(drivers, &mut Unwatched, &|client, driving, watch| {
            driving.append(&commands[client], limit, watch)
        })?;
        for part in &parts {
            check(&part.done, load)?;
        }
        let stored = Stored::of_each(&commands, load, &parts, server);
        for stored in &stored {
            verify(stored, &[], &mut drivers[0])?;
        }
        rest(server)?;
        self.stored.clone_from(&stored);
        Ok(stored)
    }
}

/// Several times the same reading.
struct Passes {
    count: u32,
    /// What was read in all of them, in their seconds.
    done: Done,
    cost: Cost,
}

impl Passes {
    /// Reads until `seconds` of reading are over, or clients took a multiple of that to begin and end. Each driver has a log of
    /// its own to read.
    fn read(
        reads: &[Read],
        seconds: f64,
        server: &Server,
        drivers: &mut [Driving],
        tell: &dyn Fn(u64),
    ) -> Result<Passes> {
        let end = Instant::now() + Duration::from_secs_f64(seconds * LATE) + LATE_BY;
        let mut passes = Passes::one(reads, server, drivers, tell)?;
        while passes.done.seconds < seconds && Instant::now() < end {
            let next = Passes::one(reads, server, drivers, tell)?;
            passes.count += 1;
            passes.cost.add(&next.cost);
            passes.add(&next.done);
        }
        Ok(passes)
    }

    fn one(reads: &[Read], server: &Server, drivers: &mut [Driving], tell: &dyn Fn(u64)) -> Result<Passes> {
        let mut metering = Metering::new(server, drivers, tell);
        let parts = together(drivers, &mut metering, &|client, driving, watch| {
            driving.read(&reads[client], RECORDS_WITHIN, watch)
        })?;
        for (part, read) in parts.iter().zip(reads) {
            check_read(&part.done, read)?;
        }
        Ok(Passes {
            count: 1,
            cost: metering.cost,
            done: as_one(parts),
        })
    }

    fn add(&mut self, done: &Done) {
        self.done.seconds += done.seconds;
        self.done.records += done.records;
        self.done.bytes += done.bytes;
        let latencies = [&self.done.latency_ns, &done.latency_ns];
        self.done.latency_ns = figures::merged(latencies.into_iter());
    }
}

/// What was read beside an append.
#[derive(Debug, Default)]
struct ReadBeside {
    records: u64,
    /// Of reading, as the driver tells it.
    seconds: f64,
    /// From when to when each pass went.
    passes: Vec<(Instant, Instant)>,
}

impl ReadBeside {
    /// In how much of the append's time something was read, in %: who reads quickly lets appends be alone for the rest.
    fn beside_percent(&self, course: &Course) -> f64 {
        let Some((began, ended)) = course.times() else {
            return 0.0;
        };
        let beside = self.passes.iter().map(|&(from, to)| {
            let (from, to) = (from.max(began), to.min(ended));
            to.saturating_duration_since(from).as_secs_f64()
        });
        100.0 * beside.sum::<f64>() / (ended - began).as_secs_f64()
    }
}

/// Reads from when an append has begun: once, or until it is over.
fn read_beside(read: &Read, driving: &mut Driving, course: &Course, once: bool) -> Result<ReadBeside> {
    while !course.has_begun() && !course.is_over() {
        std::thread::sleep(LOOK);
    }
    ensure!(
        course.has_begun(),
        "the append that it should read beside did not begin"
    );
    let mut found = ReadBeside::default();
    loop {
        let began = Instant::now();
        let done = driving.read(read, RECORDS_WITHIN, &mut Unwatched)?;
        check_read(&done, read)?;
        found.records += done.records;
        found.seconds += done.seconds;
        found.passes.push((began, Instant::now()));
        if once || course.is_over() {
            return Ok(found);
        }
    }
}
