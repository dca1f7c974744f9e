//! The runs that were made, on disk as they come: a comparison that is interrupted goes on where it stopped.
//!
//! One JSON object a line. The first says what was asked for, and by which build: runs of another comparison are never mixed in.
//! What cannot be written, since the disk is full, is kept in memory and written when there is room: no run is lost for that.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::fleet::Way;
use super::identity;
use super::plan::{Plan, RowPlan};
use super::results::DriverFacts;
use bench::contract::LatencyPairs;

/// What the record says when it may not be gone on with.
const REMEDY: &str = "name another --out, or remove it to measure everything anew";

/// What all runs of one comparison have in common.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    pub(super) suite: String,
    pub(super) nodes: u32,
    /// Where they run, if not on this machine.
    pub(super) hosts: Vec<String>,
    pub(super) seconds: f64,
    pub(super) scale: f64,
    pub(super) warmup_seconds: f64,
    /// Processors and memory: what was measured on another machine does not go beside it.
    pub(super) machine: String,
    /// Where the data is: its device and file system.
    pub(super) disk: String,
    /// This program: version, commit where it is known, and a sum of its bytes.
    pub(super) build: String,
}

/// One thing that was found out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub(super) enum Line {
    /// The first.
    Asked(Asked),
    /// When, and how quiet the machine was.
    Moment(Moment),
    /// What a system said of itself when it was ready.
    System {
        system: String,
        settings: BTreeMap<String, String>,
    },
    /// What a driver said of itself.
    Driver {
        system: String,
        driver: String,
        facts: DriverFacts,
    },
    /// One repetition of one workload.
    Run(Run),
}

/// A beginning or an end of measuring.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Moment {
    /// RFC 3339.
    pub(super) at: String,
    /// The load of the last minute.
    pub(super) load: f64,
    /// The floors of the machine; empty if they were not measured.
    pub(super) floors: BTreeMap<String, f64>,
}

/// Which cell a run belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct CellKey {
    pub(super) experiment: String,
    pub(super) row: String,
    pub(super) system: String,
    pub(super) driver: String,
    /// Of what is measured: a sum over the folders of the system and its driver, with versions and settings. Another one is another
    /// system.
    #[serde(default)]
    pub(super) identity: String,
}

impl CellKey {
    /// That of a workload for one way through a system.
    pub(super) fn of(plan: &Plan, row: &RowPlan, way: &Way) -> CellKey {
        CellKey {
            experiment: plan.name.clone(),
            row: row.name.clone(),
            system: way.system.variant.name.clone(),
            driver: way.driver.name.clone(),
            identity: identity::of(way),
        }
    }

    #[cfg(test)]
    pub(super) fn made_up(row: &str) -> CellKey {
        let [experiment, system, driver, identity] = ["one", "able", "c", "able 1"].map(str::to_owned);
        CellKey {
            experiment,
            row: row.to_owned(),
            system,
            driver,
            identity,
        }
    }
}

/// One repetition in one cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    #[serde(flatten)]
    pub(super) cell: CellKey,
    pub(super) repetition: u32,
    /// By metric; empty if it failed.
    pub(super) figures: BTreeMap<String, f64>,
    #[serde(default)]
    pub(super) latency_ns: LatencyPairs,
    /// From when records were due until consumers had them, where some followed.
    #[serde(default)]
    pub(super) delivery_ns: LatencyPairs,
    /// Records that were read back and compared.
    #[serde(default)]
    pub(super) verified_records: Option<u64>,
    #[serde(default)]
    pub(super) failure: Option<String>,
    /// Whether it failed because acknowledged records were not there: then nothing of its cell counts.
    #[serde(default)]
    pub(super) broke_its_promise: bool,
    /// Why it was not asked, for a reason that is no failure.
    #[serde(default)]
    pub(super) not_asked: Option<String>,
}

impl Run {
    /// Of a cell, with nothing found yet.
    pub(super) fn new(cell: &CellKey, repetition: u32) -> Run {
        Run {
            cell: cell.clone(),
            repetition,
            ..Run::default()
        }
    }

    /// Whether it has figures.
    pub(super) fn succeeded(&self) -> bool {
        self.failure.is_none() && self.not_asked.is_none()
    }
}

/// All lines, and the file that gets more.
#[derive(Debug)]
pub(super) struct Record {
    file: File,
    /// How long the file is, up to the last whole line.
    whole_bytes: u64,
    pub(super) lines: Vec<Line>,
    /// What could not be written yet, as text.
    unwritten: String,
    trouble: Option<String>,
}

impl Record {
    /// Opens or makes the record of a comparison. Runs that failed or were not asked are forgotten: they are tried again. But who
    /// lost acknowledged records has lost them: that is kept, or it would be tried until chance hides it.
    ///
    /// # Errors
    /// If another one was asked for there, or is under way there, or a line is not understood (the last may be torn: it is dropped).
    pub(super) fn open(path: &Path, asked: &Asked) -> Result<Record> {
        let named = || format!("the record of runs {}", path.display());
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .with_context(|| format!("cannot open {}", named()))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).with_context(|| {
            format!(
                "{} is in use by another comparison: wait for its end, or name another --out",
                named()
            )
        })?;
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(named)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64)?;
        let lines: Vec<Line> = text[..whole]
            .lines()
            .enumerate()
            .map(|(number, line)| {
                serde_json::from_str(line).with_context(|| {
                    format!("line {} of {} is not understood: {REMEDY}", number + 1, named())
                })
            })
            .collect::<Result<_>>()?;
        let mut record = Record {
            file,
            whole_bytes: whole as u64,
            lines,
            unwritten: String::new(),
            trouble: None,
        };
        match record.lines.first() {
            None => {
                record.add(Line::Asked(asked.clone()));
                ensure!(
                    record.trouble.is_none(),
                    "cannot write {}: {}",
                    named(),
                    record.trouble.unwrap_or_default()
                );
            }
            Some(Line::Asked(before)) => ensure!(
                before == asked,
                "{} was begun with {}; this is not the same: {REMEDY}",
                named(),
                before.beside(asked)
            ),
            Some(_) => anyhow::bail!("{} does not say what was asked for: {REMEDY}", named()),
        }
        let is_kept =
            |line: &Line| !matches!(line, Line::Run(run) if !run.succeeded() && !run.broke_its_promise);
        record.lines.retain(is_kept);
        Ok(record)
    }

    /// Adds a line; it is on disk when this returns, unless there is no room: then it is kept, and written with a later one.
    pub(super) fn add(&mut self, line: Line) {
        self.unwritten
            .push_str(&serde_json::to_string(&line).expect("a line is plain data"));
        self.unwritten.push('\n');
        self.lines.push(line);
        self.write();
    }

    /// Writes what is not written yet. Why it cannot be, if so.
    pub(super) fn write(&mut self) -> Option<&str> {
        let written = self
            .file
            .write_all(self.unwritten.as_bytes())
            .and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => {
                self.whole_bytes += self.unwritten.len() as u64;
                self.unwritten.clear();
                self.trouble = None;
            }
            Err(error) => {
                // Half a line would spoil the next one.
                let _ = self.file.set_len(self.whole_bytes);
                self.trouble = Some(error.to_string());
            }
        }
        self.trouble.as_deref()
    }

    /// The runs of a cell. Where one was made again, the later one.
    pub(super) fn runs(&self, cell: &CellKey) -> impl Iterator<Item = &Run> + use<'_> {
        let mut latest: BTreeMap<u32, &Run> = BTreeMap::new();
        for line in &self.lines {
            if let Line::Run(run) = line
                && run.cell == *cell
            {
                latest.insert(run.repetition, run);
            }
        }
        latest.into_values()
    }
}

impl Asked {
    /// Options that are not as in another: "warmup_seconds 3.0 (now 5.0)".
    fn beside(&self, now: &Asked) -> String {
        let [before, now] = [self, now].map(|asked| serde_json::to_value(asked).expect("plain data"));
        let fields = before.as_object().into_iter().flatten();
        let differs = fields.filter(|(what, value)| **value != now[what.as_str()]);
        let told = differs.map(|(what, value)| format!("{what} {value} (now {})", now[what.as_str()]));
        told.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests;
