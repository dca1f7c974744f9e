//! What a workload that a person asked for is watched with: meters around it, and one line on standard error that tells how it
//! is going, if somebody is there to read it.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::contract::watch::Watch;
use crate::usage::{Meter, Usage};

/// How often the line is written anew.
const PERIOD: Duration = Duration::from_millis(250);

/// Meters and a line of progress.
#[derive(Debug)]
pub(crate) struct Progress {
    what: &'static str,
    server_pids: Vec<u32>,
    is_terminal: bool,
    began: Instant,
    /// What the line said last, and when.
    before: (u64, Instant),
    meter: Option<Meter>,
    spent: Option<Usage>,
}

impl Progress {
    /// Of a workload with this name, and of a server with these processes.
    pub(crate) fn new(what: &'static str, server_pids: &[u32]) -> Progress {
        let now = Instant::now();
        Progress {
            what,
            server_pids: server_pids.to_vec(),
            is_terminal: std::io::stderr().is_terminal(),
            began: now,
            before: (0, now),
            meter: None,
            spent: None,
        }
    }

    /// What a workload that moved `bytes` has cost.
    ///
    /// # Panics
    /// If it is not done.
    pub(crate) fn usage(&self, bytes: u64) -> Usage {
        let spent = self
            .spent
            .clone()
            .expect("a workload is done before it is reported");
        spent.of_bytes(bytes)
    }
}

impl Watch for Progress {
    fn period(&self) -> Duration {
        PERIOD
    }

    fn started(&mut self) -> Result<()> {
        self.meter = Some(Meter::start(&self.server_pids)?);
        self.began = Instant::now();
        self.before = (0, self.began);
        Ok(())
    }

    fn progress(&mut self, records: u64) {
        if !self.is_terminal {
            return;
        }
        let (what, now) = (self.what, Instant::now());
        let (before, before_at) = self.before;
        let rate = records.saturating_sub(before) as f64 / (now - before_at).as_secs_f64();
        let seconds = (now - self.began).as_secs_f64();
        // A terminal that went away is no reason to end a measurement.
        let _ = write!(
            std::io::stderr(),
            "\r{what}: {records} records, {rate:.0}/s, {seconds:.0} s   "
        );
        self.before = (records, now);
    }

    fn done(&mut self) -> Result<()> {
        // Read before anything else uses time.
        self.spent = self.meter.take().map(Meter::stop).transpose()?;
        if self.is_terminal {
            // Back to an empty line: the report follows.
            let _ = write!(std::io::stderr(), "\r{:70}\r", "");
        }
        Ok(())
    }
}
