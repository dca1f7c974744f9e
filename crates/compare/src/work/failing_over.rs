//! Runs that kill a node while records are appended, one after the other: how long a client waits for its next acknowledgement.
//!
//! Each node is killed once, of a system that was started for it: which one leads is the system's affair, and none may have been
//! through a death before. Killed nodes stay dead. What was acknowledged must be there, each record once.

use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, ensure};

use super::super::figures;
use super::super::plan::Load;
use super::super::record::Run;
use super::check::{check, check_samples, verify};
use super::{Running, Stored, command, limit};
use bench::contract::watch::Watch;
use bench::contract::{Append, Done, LatencyPairs};

/// Appended before it counts: what a client and a system do for the first time takes longer than the death of some nodes.
const WARMUP_RECORDS: u64 = 1_000;
/// When a node is killed, as a share of the time for which records are appended.
const KILLED_AT: f64 = 0.5;

impl Running<'_> {
    /// Appends to as many new systems as each has nodes, and kills another one of each.
    pub(super) fn fail_over(&mut self, load: &Load) -> Result<Run> {
        let (mut latencies, mut stalls_s) = (Vec::new(), Vec::new());
        let mut verified_records = 0;
        for node in 0..self.fleet.nodes() {
            self.fleet.discard(self.way);
            let (done, verified) = self.lose(node as usize, load)?;
            stalls_s.push(done.latency_ns.last().map_or(0.0, |(ns, _)| *ns as f64 / 1e9));
            latencies.push(done.latency_ns);
            verified_records += verified;
        }
        self.fleet.discard(self.way);
        let latency_ns: LatencyPairs = figures::merged(latencies.iter());
        let longest = stalls_s.iter().copied().fold(0.0, f64::max);
        let mean = stalls_s.iter().sum::<f64>() / stalls_s.len() as f64;
        let mut figures = [("stall_max_s", longest), ("stall_mean_s", mean)]
            .map(|(name, seconds)| (name.to_owned(), (seconds * 1e4).round() / 1e4))
            .to_vec();
        if let Some(ns) = figures::median_ns(&latency_ns) {
            figures.push(("p50_us".to_owned(), ns as f64 / 1e3));
        }
        Ok(Run {
            figures: figures.into_iter().collect(),
            latency_ns,
            verified_records: Some(verified_records),
            ..Run::default()
        })
    }

    /// Appends to a new system and kills this node of it meanwhile; what came of that, and how many records were read back.
    fn lose(&mut self, node: usize, load: &Load) -> Result<(Done, u64)> {
        let (server, driving) = self.fleet.have(self.way)?;
        let log = driving.create(load.shards, self.way, server)?;
        let append = Append {
            warmup_records: WARMUP_RECORDS,
            retry: true,
            ..command(&log, load, self.manner)
        };
        let after = Duration::from_secs_f64(append.seconds.unwrap_or(self.manner.seconds) * KILLED_AT);
        let mut blow = Blow::new(server.killing(node)?, after, self.tell);
        let done = driving.append(&append, limit(load, self.manner), &mut blow);
        // However the load went: nobody is killed later than now.
        blow.wait()?;
        let done = done?;
        check(&done, load)?;
        check_samples(&done, &append, self.way.system.peer.file.acknowledges)?;
        ensure!(
            done.seconds >= after.as_secs_f64(),
            "it was over after {} s, before a node was killed",
            done.seconds
        );
        let stored = Stored::new(&log, load, &done, server);
        let verified = verify(&stored, &[], driving)?;
        Ok((done, verified))
    }
}

/// Strikes once, some time after a load began.
struct Blow<'a> {
    /// What it does, until it is on its way.
    strike: Option<Box<dyn FnOnce() -> Result<()> + Send>>,
    after: Duration,
    coming: Option<JoinHandle<Result<()>>>,
    tell: &'a dyn Fn(u64),
}

impl Blow<'_> {
    fn new(
        strike: impl FnOnce() -> Result<()> + Send + 'static,
        after: Duration,
        tell: &dyn Fn(u64),
    ) -> Blow<'_> {
        Blow {
            strike: Some(Box::new(strike)),
            after,
            coming: None,
            tell,
        }
    }

    /// Returns when it has struck, if it ever was on its way.
    fn wait(self) -> Result<()> {
        match self.coming {
            Some(coming) => coming.join().expect("a panic is a bug here"),
            None => Ok(()),
        }
    }
}

impl Watch for Blow<'_> {
    fn started(&mut self) -> Result<()> {
        let after = self.after;
        self.coming = self.strike.take().map(|strike| {
            thread::spawn(move || {
                thread::sleep(after);
                strike()
            })
        });
        Ok(())
    }

    fn progress(&mut self, records: u64) {
        (self.tell)(records);
    }
}
