//! The runs that were made, on disk as they come: a comparison that is interrupted goes on where it stopped.
//!
//! One JSON object a line. The first says what was asked for: runs of another comparison are never mixed in.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::results::DriverFacts;
use crate::contract::LatencyPairs;

/// What all runs of one comparison have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) suite: String,
    pub(super) nodes: u32,
    pub(super) seconds: f64,
    pub(super) scale: f64,
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Moment {
    /// RFC 3339.
    pub(super) at: String,
    /// The load of the last minute.
    pub(super) load: f64,
    /// The floors of the machine; empty if they were not measured.
    pub(super) floors: BTreeMap<String, f64>,
}

/// Which cell a run belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct CellKey {
    pub(super) experiment: String,
    pub(super) row: String,
    pub(super) system: String,
    pub(super) driver: String,
}

/// One repetition in one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    #[serde(flatten)]
    pub(super) cell: CellKey,
    pub(super) repetition: u32,
    /// By metric; empty if it failed.
    pub(super) figures: BTreeMap<String, f64>,
    #[serde(default)]
    pub(super) latency_ns: LatencyPairs,
    /// Records that were read back and compared.
    #[serde(default)]
    pub(super) verified_records: Option<u64>,
    /// Why it failed.
    #[serde(default)]
    pub(super) failure: Option<String>,
}

/// All lines, and the file that gets more.
#[derive(Debug)]
pub(super) struct Record {
    file: File,
    pub(super) lines: Vec<Line>,
}

impl Record {
    /// Opens or makes the record of a comparison.
    ///
    /// # Errors
    /// If another one was asked for there, or a line is not understood (the last may be torn: it is dropped).
    pub(super) fn open(path: &Path, asked: &Asked) -> Result<Record> {
        let named = || format!("the record of runs {}", path.display());
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .with_context(|| format!("cannot open {}", named()))?;
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(named)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64)?;
        file.seek(SeekFrom::End(0))?;
        let lines: Vec<Line> = text[..whole]
            .lines()
            .enumerate()
            .map(|(number, line)| {
                serde_json::from_str(line).with_context(|| format!("line {} of {}", number + 1, named()))
            })
            .collect::<Result<_>>()?;
        let mut record = Record { file, lines };
        match record.lines.first() {
            None => record.add(Line::Asked(asked.clone()))?,
            Some(Line::Asked(before)) => ensure!(
                before == asked,
                "{} is that of another comparison ({before:?}, now {asked:?}): name another --out, or remove it",
                named()
            ),
            Some(_) => anyhow::bail!("{} does not say what was asked for: remove it", named()),
        }
        Ok(record)
    }

    /// Adds a line; it is on disk when this returns.
    pub(super) fn add(&mut self, line: Line) -> Result<()> {
        let mut text = serde_json::to_string(&line).expect("a line is plain data");
        text.push('\n');
        self.file
            .write_all(text.as_bytes())
            .context("cannot write the record of runs")?;
        self.lines.push(line);
        Ok(())
    }

    /// The runs of a cell.
    pub(super) fn runs<'a>(&'a self, cell: &'a CellKey) -> impl Iterator<Item = &'a Run> {
        self.lines.iter().filter_map(move |line| match line {
            Line::Run(run) if run.cell == *cell => Some(run),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(suite: &str) -> Asked {
        Asked {
            suite: suite.to_owned(),
            nodes: 1,
            seconds: 3.0,
            scale: 1.0,
        }
    }

    fn run(repetition: u32) -> Run {
        Run {
            cell: CellKey {
                experiment: "one".to_owned(),
                row: "100 B".to_owned(),
                system: "able".to_owned(),
                driver: "c".to_owned(),
            },
            repetition,
            figures: BTreeMap::from([("p50_us".to_owned(), 12.5)]),
            latency_ns: vec![(12_500, 3)],
            verified_records: Some(3),
            failure: None,
        }
    }

    #[test]
    fn it_goes_on_where_it_stopped_and_drops_a_torn_line() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("runs.jsonl");
        let mut record = Record::open(&path, &asked("quick")).expect("new");
        record.add(Line::Run(run(0))).expect("there is room");
        drop(record);
        let torn = OpenOptions::new().append(true).open(&path).expect("it is there");
        (&torn)
            .write_all(b"{\"line\":\"run\",\"exp")
            .expect("there is room");
        let mut record = Record::open(&path, &asked("quick")).expect("the same");
        assert_eq!(record.runs(&run(0).cell).collect::<Vec<_>>(), [&run(0)]);
        record.add(Line::Run(run(1))).expect("there is room");
        let record = Record::open(&path, &asked("quick")).expect("the same");
        assert_eq!(record.runs(&run(0).cell).count(), 2);
    }

    #[test]
    fn another_comparison_is_not_mixed_in() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("runs.jsonl");
        Record::open(&path, &asked("quick")).expect("new");
        let error = Record::open(&path, &asked("field")).expect_err("another suite");
        assert!(error.to_string().contains("--out"), "{error}");
        std::fs::write(&path, "nonsense\n").expect("there is room");
        assert!(Record::open(&path, &asked("quick")).is_err());
    }
}
