//! A power cut at every point of a run, with every legal subset of what was not durable: what was acknowledged is there, what
//! is there was appended, batches are whole, and the logs go on.

use std::collections::BTreeSet;

use platform::disk::SimulatedDisk;
use platform::random::SeededRandom;

use super::rig::{check, open, value, values};
use crate::{Log, Logs, Offset};

/// The changes of one log, with the number of operations that the disk had seen when each was known to be done.
struct History {
    name: &'static str,
    appended: Vec<Vec<u8>>,
    /// Where batches begin and end.
    bounds: BTreeSet<i64>,
    /// After so many operations it must be there: the log, its records before an offset, its start.
    created_at: u64,
    acknowledged: Vec<(u64, i64)>,
    trimmed: Vec<(u64, i64)>,
    /// The furthest place that a trim may have reached.
    trim_begun: i64,
}

impl History {
    fn begin(logs: &Logs, disk: &SimulatedDisk, name: &'static str) -> History {
        logs.log(name).expect("there is room");
        History {
            name,
            appended: Vec::new(),
            bounds: BTreeSet::from([0]),
            created_at: disk.operation_count(),
            acknowledged: Vec::new(),
            trimmed: Vec::new(),
            trim_begun: 0,
        }
    }

    fn log(&self, logs: &Logs) -> Log {
        logs.log(self.name).expect("it is there")
    }

    fn append(&mut self, logs: &Logs, disk: &SimulatedDisk, random: &mut SeededRandom) {
        let values: Vec<Vec<u8>> = (0..1 + random.below(3))
            .map(|_| value(random.next_u64() as usize, 1 + random.below(1_500) as usize))
            .collect();
        self.appended.extend(values.iter().cloned());
        let next = self.appended.len() as i64;
        self.bounds.insert(next);
        let offsets = self.log(logs).append_batch(&values).expect("there is room");
        assert_eq!(offsets.end, Offset(next));
        self.acknowledged.push((disk.operation_count(), next));
    }

    fn trim(&mut self, logs: &Logs, disk: &SimulatedDisk, random: &mut SeededRandom) {
        let before = random.below(self.appended.len() as u64 + 1) as i64;
        self.trim_begun = self.trim_begun.max(before);
        self.log(logs).trim(Offset(before)).expect("there is room");
        self.trimmed.push((disk.operation_count(), before));
    }

    /// Compares what a crash left after `completed` operations, and appends to it.
    fn check(&self, logs: &Logs, completed: u64) -> Result<(), String> {
        let known = |facts: &[(u64, i64)]| {
            let known = facts.iter().filter(|(at, _)| *at <= completed);
            known.map(|(_, offset)| *offset).max().unwrap_or(0)
        };
        if !logs.names().iter().any(|name| name == self.name) {
            return match self.created_at <= completed {
                true => Err("a log is gone".into()),
                false => Ok(()),
            };
        }
        let log = self.log(logs);
        let (start, tail) = (log.start().0, log.tail().0);
        if tail < known(&self.acknowledged) {
            return Err(format!(
                "it ends at {tail}, acknowledged was {}",
                known(&self.acknowledged)
            ));
        }
        if !self.bounds.contains(&tail) {
            return Err(format!("it ends at {tail}, inside of a batch"));
        }
        if !(known(&self.trimmed)..=self.trim_begun).contains(&start) {
            return Err(format!("it begins at {start}"));
        }
        if values(&log) != self.appended[start as usize..tail as usize] {
            return Err(format!("of {start}..{tail} something else is there"));
        }
        match log.append(b"after the crash") {
            Ok(offset) if offset == Offset(tail) => Ok(()),
            other => Err(format!("it does not go on: {other:?}")),
        }
    }
}

/// Runs a drawn workload and checks its crash states; how many there were.
fn run(seed: u64, steps: usize) -> usize {
    let mut random = SeededRandom::new(seed);
    let disk = SimulatedDisk::new();
    disk.set_sector_tears(seed.is_multiple_of(2));
    let mut logs = open(&disk);
    let mut histories = ["orders", "users"].map(|name| History::begin(&logs, &disk, name));
    for _ in 0..steps {
        let history = &mut histories[random.below(2) as usize];
        match random.below(20) {
            0 => {
                logs.close();
                logs = open(&disk);
            }
            1 => history.trim(&logs, &disk, &mut random),
            _ => history.append(&logs, &disk, &mut random),
        }
    }
    logs.close();
    let mut states = 0;
    for crashed in disk.crash_states(4, seed) {
        let at = crashed.crash_point().expect("a crash state knows its point");
        let logs = open(&crashed);
        for history in &histories {
            if let Err(why) = history.check(&logs, at.completed) {
                panic!("seed {seed}, {at}, {}: {why}", history.name);
            }
        }
        drop(logs);
        if states % 16 == 0 {
            let report = check(&crashed);
            assert!(report.is_sound(), "seed {seed}, {at}: {report:?}");
        }
        states += 1;
    }
    states
}

#[test]
fn after_any_crash_what_was_acknowledged_is_there() {
    let states: usize = (1..=4).map(|seed| run(seed, 60)).sum();
    assert!(states > 1_000, "only {states} states");
}

#[test]
#[ignore = "takes minutes; for changes to the way of an append"]
fn after_any_crash_of_many_runs_what_was_acknowledged_is_there() {
    (100..140).for_each(|seed| {
        run(seed, 150);
    });
}
