//! `ropewalk check`: verifies every stored byte of a directory at rest, and changes nothing.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Value, json};
use storage::{CheckReport, JournalIdentity};

use crate::directory::RestingDirectory;
use crate::output::{Output, counted};
use crate::progress::Progress;

const EXAMPLES: &str = "\
Examples:
  ropewalk check ./ropewalk-data
  ropewalk check ./ropewalk-data --json

The node must not be running. Exit code 0: every checksum holds; 1: something
is damaged, and each damaged place is named.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CheckArguments {
    /// The data directory of a node that is not running
    directory: PathBuf,
    /// Report as JSON, a line for each journal
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &CheckArguments) -> Result<()> {
    let resting = RestingDirectory::open(&arguments.directory)?;
    let mut output = Output::open();
    let mut known = BTreeSet::new();
    let mut faults = 0;
    // The exit code says what was found, also if nobody reads the rest any more.
    let mut printed = Ok(());
    for identity in resting.identity.journal_identities() {
        let mut report = check_journal(&resting, &identity);
        known.append(&mut report.known);
        let is_last = identity.journal as usize + 1 == resting.identity.journals;
        // While something is damaged it is not known which partitions there are.
        if is_last && faults == 0 && report.is_sound() {
            match storage::stray_directories(&resting.disk, &known) {
                Ok(strays) => report.orphans.extend(strays),
                Err(fault) => report.faults.push(fault),
            }
        }
        faults += report.faults.len();
        if printed.is_ok() {
            let line = match arguments.json {
                true => output.json(&as_json(identity.journal, &report)),
                false => output.line(as_text(identity.journal, &report)),
            };
            printed = line.and_then(|()| output.flush());
        }
    }
    match faults {
        0 => printed,
        _ => bail!(
            "{} found: restore what is named from a backup",
            counted(faults, "damaged place")
        ),
    }
}

/// Without a checkpoint to go by, that is all there is to report of a journal.
fn check_journal(resting: &RestingDirectory, identity: &JournalIdentity) -> CheckReport {
    let mut progress = Progress::new(format!("journal {}", identity.journal));
    let report = storage::check(&resting.disk, identity, &mut |done| {
        progress.show(done.bytes, done.bytes_total, done.file);
    });
    report.unwrap_or_else(|fault| CheckReport {
        faults: vec![fault],
        ..CheckReport::default()
    })
}

fn as_text(journal: u32, report: &CheckReport) -> String {
    let mut text = format!(
        "journal {journal}: {} frames; {} partitions, {} segments, {} chunks, {} batches, {} bytes: {}",
        report.frames,
        report.partitions,
        report.segments,
        report.chunks,
        report.batches,
        report.segment_bytes,
        if report.is_sound() { "sound" } else { "DAMAGED" }
    );
    if report.cut_bytes > 0 {
        text += &format!(
            "\n  a torn write of {} bytes at the end, never acknowledged: the next start cuts it",
            report.cut_bytes
        );
    }
    if report.mended {
        text += "\n  a single bit of the last frame had turned: the next start mends it";
    }
    let orphans = report
        .orphans
        .iter()
        .map(|file| format!("\n  left over, does not count: {file}"));
    let faults = report.faults.iter().map(|fault| format!("\n  {fault}"));
    text.extend(orphans.chain(faults));
    text
}

fn as_json(journal: u32, report: &CheckReport) -> Value {
    json!({
        "journal": journal,
        "sound": report.is_sound(),
        "frames": report.frames,
        "cut_bytes": report.cut_bytes,
        "mended": report.mended,
        "partitions": report.partitions,
        "segments": report.segments,
        "chunks": report.chunks,
        "batches": report.batches,
        "segment_bytes": report.segment_bytes,
        "orphans": report.orphans,
        "faults": report.faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}
