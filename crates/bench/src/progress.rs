//! One line on standard error that tells how a run is going, if somebody is there to read it.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often the line is written anew.
const PERIOD: Duration = Duration::from_millis(250);

/// What the workers have done so far; written by them, read for the line.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    records: AtomicU64,
    /// Workers still at work.
    ended: AtomicBool,
}

impl Progress {
    /// Counts records.
    #[inline]
    pub(crate) fn add(&self, records: u64) {
        self.records.fetch_add(records, Ordering::Relaxed);
    }

    /// Ends `show`.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Writes the line until the end, from a thread of its own. Does nothing where standard error is no terminal.
    pub(crate) fn show(&self, what: &str) {
        let mut out = std::io::stderr();
        if !out.is_terminal() {
            return;
        }
        let start = Instant::now();
        let (mut before, mut before_at) = (0, start);
        while !self.ended.load(Ordering::Acquire) {
            std::thread::sleep(PERIOD);
            let (records, now) = (self.records.load(Ordering::Relaxed), Instant::now());
            let rate = (records - before) as f64 / (now - before_at).as_secs_f64();
            let seconds = (now - start).as_secs_f64();
            // A terminal that went away is no reason to end a measurement.
            let _ = write!(out, "\r{what}: {records} records, {rate:.0}/s, {seconds:.0} s   ");
            (before, before_at) = (records, now);
        }
        // Back to an empty line: the report follows.
        let _ = write!(out, "\r{:70}\r", "");
    }
}
