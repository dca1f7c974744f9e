//! How far a comparison is, on standard error: a line for each run with the time that is left, and for each installation that takes its time; where
//! somebody looks, also what is going on between lines, such as how many records the run under way has.

use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// What a run costs besides its load, for the first estimate.
const OVERHEAD: f64 = 1.5;

/// Takes away what stands in a terminal's line, however long it is.
const CLEAR: &str = "\r\x1b[K";

#[derive(Debug)]
pub(super) struct Progress {
    total: usize,
    made: usize,
    /// Seconds of load that the runs to come were estimated at.
    left_s: f64,
    /// Of those that were made, estimated and real.
    estimated_s: f64,
    real_s: f64,
    began: Instant,
    shown: Cell<Instant>,
}

/// Says something that stays, in a line.
pub(super) fn say(what: &str) {
    let clear = if is_looked_at() { CLEAR } else { "" };
    // A terminal that went away is no reason to end a comparison.
    let _ = writeln!(std::io::stderr(), "{clear}{what}");
}

/// Shows what is going on where somebody looks, until something else is told.
pub(super) fn show(what: &str) {
    if is_looked_at() {
        let _ = write!(std::io::stderr(), "{CLEAR}  {what}");
    }
}

/// Whether standard error is a terminal.
fn is_looked_at() -> bool {
    std::io::stderr().is_terminal()
}

impl Progress {
    /// Of runs whose load takes so many seconds each.
    pub(super) fn new(loads: impl Iterator<Item = f64>) -> Progress {
        let estimates: Vec<f64> = loads.map(|seconds| seconds + OVERHEAD).collect();
        Progress {
            total: estimates.len(),
            made: 0,
            left_s: estimates.iter().sum(),
            estimated_s: 0.0,
            real_s: 0.0,
            began: Instant::now(),
            shown: Cell::new(Instant::now()),
        }
    }

    /// One more run is to be made, whose load takes so long.
    pub(super) fn add(&mut self, seconds: f64) {
        self.total += 1;
        self.left_s += seconds + OVERHEAD;
    }

    pub(super) fn begin(&mut self) {
        self.began = Instant::now();
        self.shown.set(self.began);
    }

    /// So many records so far in the run under way.
    pub(super) fn tell(&self, what: &str, records: u64) {
        if self.shown.get().elapsed() > Duration::from_millis(500) {
            self.shown.set(Instant::now());
            show(&format!("{what}: {records} records"));
        }
    }

    /// A run was made in an earlier session: it says nothing of how long the others take.
    pub(super) fn pass_over(&mut self, what: &str, seconds: f64) {
        self.say_run(what, seconds, "made before");
    }

    /// A run is over; `seconds` was the estimate of its load.
    pub(super) fn end(&mut self, what: &str, seconds: f64, found: &str) {
        self.estimated_s += seconds + OVERHEAD;
        self.real_s += self.began.elapsed().as_secs_f64();
        self.say_run(what, seconds, found);
    }

    fn say_run(&mut self, what: &str, seconds: f64, found: &str) {
        self.made += 1;
        self.left_s -= seconds + OVERHEAD;
        let pace = match self.estimated_s > 0.0 {
            true => self.real_s / self.estimated_s,
            false => 1.0,
        };
        let left = time(self.left_s.max(0.0) * pace);
        say(&format!(
            "[{}/{}, {left} left] {what}: {found}",
            self.made, self.total
        ));
    }
}

/// "40 s", "12 min", "1 h 40 min".
fn time(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match minutes {
        0..2 => format!("{} s", seconds.round()),
        2..60 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_well() {
        assert_eq!([40.4, 719.0, 6_000.0].map(time), ["40 s", "12 min", "1 h 40 min"]);
    }
}
