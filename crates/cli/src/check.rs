//! `ropewalk check`: verifies everything that is stored in a directory at rest, and changes nothing.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use server::MetadataAtRest;
use storage::{CheckReport, Fault, JournalIdentity};

use crate::directory::RestingDirectory;
use crate::findings::Findings;
use crate::output::{Output, counted};
use crate::progress::Progress;

const EXAMPLES: &str = "\
Examples:
  ropewalk check ./ropewalk-data
  ropewalk check ./ropewalk-data --json

The node must not be running. Exit code 0: every checksum holds; 1: something
is damaged, and each damaged place is named; 3: something could not be read.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CheckArguments {
    /// The data directory of a node that is not running
    directory: PathBuf,
    /// Report as JSON, a line for each journal, and one for the metadata of a node that is one of several
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &CheckArguments) -> Result<()> {
    let resting = RestingDirectory::open(&arguments.directory)?;
    let mut output = Output::open();
    let mut known = BTreeSet::new();
    let mut findings = Findings::default();
    // The exit code says what was found, also if nobody reads the rest any more.
    let mut printed = Ok(());
    for identity in resting.identity.journal_identities() {
        let mut report = check_journal(&resting, &identity);
        known.append(&mut report.known);
        let is_last = identity.journal as usize + 1 == resting.identity.journals;
        // While something is damaged it is not known which partitions there are.
        if is_last && findings.is_empty() && report.is_sound() {
            match storage::stray_directories(&resting.disk, &known) {
                Ok(strays) => report.orphans.extend(strays),
                Err(fault) => report.faults.push(fault),
            }
        }
        for fault in &report.faults {
            findings.add(fault);
        }
        if printed.is_ok() {
            let line = match arguments.json {
                true => output.json(&as_json(identity.journal, &report)),
                false => output.line(as_text(identity.journal, &report)),
            };
            printed = line.and_then(|()| output.flush());
        }
    }
    if let Some(found) = MetadataAtRest::read(&resting.disk, &resting.identity).transpose() {
        if let Err(fault) = &found {
            findings.add(fault);
        }
        if printed.is_ok() {
            let line = match arguments.json {
                true => output.json(&metadata_as_json(&found)),
                false => output.line(metadata_as_text(&found)),
            };
            printed = line.and_then(|()| output.flush());
        }
    }
    findings
        .verdict("restore what is named from a backup")
        .and(printed)
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
        "journal {journal}: {} in {} with {}; {} with {} in {} ({}, {}): {}",
        counted(report.journal_bytes, "byte"),
        counted(report.frames, "frame"),
        counted(report.journal_batches, "batch"),
        counted(report.partitions, "partition"),
        counted(report.segment_bytes, "byte"),
        counted(report.segments, "segment"),
        counted(report.chunks, "chunk"),
        counted(report.segment_batches, "batch"),
        state(report)
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
    if !report.witnesses.is_empty() {
        let journals = counted(report.witnesses.len(), "journal");
        text += &format!("\n  a witness of {journals} of other nodes");
    }
    let orphans = report
        .orphans
        .iter()
        .map(|file| format!("\n  left over, does not count: {file}"));
    let faults = report.faults.iter().map(|fault| format!("\n  {fault}"));
    text.extend(orphans.chain(faults));
    text
}

fn metadata_as_text(found: &Result<MetadataAtRest, Fault>) -> String {
    match found {
        Ok(found) => format!(
            "metadata of the group: {} with {} behind a snapshot of {}: sound",
            counted(found.entries, "proposal"),
            counted(found.entry_bytes, "byte"),
            counted(found.snapshot_bytes, "byte"),
        ),
        Err(fault) if fault.is_unreadable() => format!("metadata of the group: COULD NOT BE READ\n  {fault}"),
        Err(fault) => format!("metadata of the group: DAMAGED\n  {fault}"),
    }
}

fn metadata_as_json(found: &Result<MetadataAtRest, Fault>) -> Value {
    match found {
        Ok(found) => json!({
            "metadata": "group",
            "sound": true,
            "entries": found.entries,
            "entry_bytes": found.entry_bytes,
            "snapshot_bytes": found.snapshot_bytes,
            "faults": [],
        }),
        Err(fault) => json!({ "metadata": "group", "sound": false, "faults": [fault.to_string()] }),
    }
}

/// The state of a journal, in a few words.
fn state(report: &CheckReport) -> &'static str {
    match report.faults.iter().all(Fault::is_unreadable) {
        _ if report.is_sound() => "sound",
        true => "COULD NOT BE READ",
        false => "DAMAGED",
    }
}

fn as_json(journal: u32, report: &CheckReport) -> Value {
    let told = |unreadable| -> Vec<String> {
        let of_kind = |fault: &&Fault| fault.is_unreadable() == unreadable;
        report
            .faults
            .iter()
            .filter(of_kind)
            .map(ToString::to_string)
            .collect()
    };
    json!({
        "journal": journal,
        "sound": report.is_sound(),
        "frames": report.frames,
        "journal_bytes": report.journal_bytes,
        "journal_batches": report.journal_batches,
        "cut_bytes": report.cut_bytes,
        "mended": report.mended,
        "partitions": report.partitions,
        "segments": report.segments,
        "chunks": report.chunks,
        "segment_batches": report.segment_batches,
        "batches": report.journal_batches + report.segment_batches,
        "segment_bytes": report.segment_bytes,
        "witnesses": report.witnesses.len(),
        "orphans": report.orphans,
        "faults": told(false),
        "unread": told(true),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_and_its_segments_are_counted_apart() {
        let report = CheckReport {
            frames: 2_158,
            journal_bytes: 8_839_168,
            journal_batches: 2_158,
            partitions: 1,
            ..CheckReport::default()
        };
        assert_eq!(
            as_text(0, &report),
            "journal 0: 8839168 bytes in 2158 frames with 2158 batches; \
             1 partition with 0 bytes in 0 segments (0 chunks, 0 batches): sound"
        );
    }
}
