//! `ropewalk inspect`: lists what the journals and segments of a directory at rest hold, and changes nothing.

mod listing;
mod summary;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use platform::disk::Disk;
use serde_json::{Value, json};
use server::TopicNames;
use storage::{Fault, FrameListing, JournalIdentity, SegmentListing};

use self::summary::Summary;
use crate::directory::RestingDirectory;
use crate::failure::note;
use crate::findings::{Findings, line_of};
use crate::output::{Output, OutputClosed};

const EXAMPLES: &str = "\
Examples:
  ropewalk inspect ./ropewalk-data                a line for each partition
  ropewalk inspect ./ropewalk-data journal
  ropewalk inspect ./ropewalk-data segments --json
  ropewalk inspect ./ropewalk-data index --partition orders-0

The node must not be running. What is damaged is named, the rest is listed, and
the exit code is 1 then; 3 if something could not be read. A partition is called
by its topic's name and its index; if the topic was deleted, by the topic's id,
as files are.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InspectArguments {
    /// The data directory of a node that is not running
    directory: PathBuf,
    #[command(subcommand)]
    what: Option<What>,
    /// Only this partition, as TOPIC-INDEX, or all partitions of this topic; TOPIC is a name or an id
    #[arg(long, global = true, value_name = "TOPIC[-INDEX]", value_parser = partition_or_topic)]
    partition: Option<String>,
    /// One JSON object for each partition, frame, segment or chunk
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand, Clone, Copy)]
enum What {
    /// The frames that the journals hold and segments do not, with their entries
    #[command(after_help = "Example:
  ropewalk inspect ./ropewalk-data journal")]
    Journal,
    /// The segments of all partitions
    #[command(after_help = "Example:
  ropewalk inspect ./ropewalk-data segments --json

A partition has none until layout has moved records out of the journal.")]
    Segments,
    /// The index of the segments: where each chunk begins, by offset and byte
    #[command(after_help = "Example:
  ropewalk inspect ./ropewalk-data index --partition orders-0")]
    Index,
}

fn partition_or_topic(text: &str) -> Result<String, String> {
    let is_of_names = |letter: u8| letter.is_ascii_alphanumeric() || b"._-".contains(&letter);
    match !text.is_empty() && text.bytes().all(is_of_names) {
        true => Ok(text.to_owned()),
        false => Err(
            "expected TOPIC or TOPIC-INDEX, of letters, digits, `.`, `_` and `-`; without --partition all are listed"
                .to_owned(),
        ),
    }
}

pub(crate) fn run(arguments: &InspectArguments) -> Result<()> {
    let resting = RestingDirectory::open(&arguments.directory)?;
    let names = TopicNames::read(&resting.disk, &resting.identity).unwrap_or_else(|why| {
        note(&format!("topics have no names here, only ids: {why}"));
        TopicNames::default()
    });
    let mut look = Look {
        disk: &resting.disk,
        names: &names,
        partition: arguments.partition.as_deref(),
        json: arguments.json,
        output: Output::open(),
        found: false,
        findings: Findings::default(),
    };
    match look.list(&resting, arguments.what) {
        // Nobody reads on; but what is damaged was seen, and the exit code says so.
        Err(error) if error.is::<OutputClosed>() && !look.findings.is_empty() => {}
        listed => listed?,
    }
    look.verdict(arguments)
}

/// A directory, and what of it is wanted.
struct Look<'a> {
    disk: &'a Arc<dyn Disk>,
    names: &'a TopicNames,
    partition: Option<&'a str>,
    json: bool,
    output: Output,
    /// Something of what is wanted was found.
    found: bool,
    findings: Findings,
}

impl Look<'_> {
    fn list(&mut self, resting: &RestingDirectory, what: Option<What>) -> Result<()> {
        let mut summary = Summary::default();
        for identity in resting.identity.journal_identities() {
            match what {
                None => self.summarize(&identity, &mut summary)?,
                Some(What::Journal) => self.journal(&identity)?,
                Some(What::Segments) => self.segments(&identity, |look, segment| look.segment(&segment))?,
                Some(What::Index) => self.segments(&identity, |look, segment| look.index(&segment))?,
            }
        }
        if what.is_none() {
            self.summary(&summary)?;
        }
        self.output.flush()
    }

    /// A journal's frames, with the wanted entries; without those that have none. If it is damaged, those that are whole.
    fn frames(&mut self, identity: &JournalIdentity) -> Result<Vec<FrameListing>> {
        let (mut frames, faults) = storage::list_frames(self.disk, identity);
        for fault in &faults {
            self.fault(fault)?;
        }
        let names = self.names;
        if let Some(wanted) = self.partition {
            for frame in &mut frames {
                frame
                    .entries
                    .retain(|entry| entry.partition().is_some_and(|id| names.is_meant(wanted, id)));
            }
            frames.retain(|frame| !frame.entries.is_empty());
        }
        self.found |= !frames.is_empty();
        Ok(frames)
    }

    fn journal(&mut self, identity: &JournalIdentity) -> Result<()> {
        let names = self.names;
        // They are of no partition.
        if self.partition.is_none() {
            self.witnesses(identity)?;
        }
        for frame in self.frames(identity)? {
            self.print(
                || listing::frame_as_json(&frame, names),
                || listing::frame_as_text(&frame, names),
            )?;
        }
        Ok(())
    }

    /// What the frames before those that are listed said of other nodes' journals.
    fn witnesses(&mut self, identity: &JournalIdentity) -> Result<()> {
        match storage::list_witnesses(self.disk, identity) {
            Ok(witnesses) if witnesses.is_empty() => Ok(()),
            Ok(witnesses) => self.print(
                || listing::witnesses_as_json(identity.journal, &witnesses),
                || listing::witnesses_as_text(identity.journal, &witnesses),
            ),
            Err(fault) => self.fault(&fault),
        }
    }

    /// Shows the wanted segments of a journal's partitions to `show`, one after the other.
    fn segments(
        &mut self,
        identity: &JournalIdentity,
        mut show: impl FnMut(&mut Self, SegmentListing) -> Result<()>,
    ) -> Result<()> {
        let (disk, names, wanted) = (self.disk, self.names, self.partition);
        let listed = storage::list_segments(disk, identity, |id| {
            wanted.is_none_or(|wanted| names.is_meant(wanted, id))
        });
        let segments = match listed {
            Ok(segments) => segments,
            Err(fault) => return self.fault(&fault),
        };
        for segment in segments {
            self.found = true;
            if let Some(fault) = &segment.fault {
                self.findings.add(fault);
            }
            show(self, segment)?;
        }
        Ok(())
    }

    fn segment(&mut self, segment: &SegmentListing) -> Result<()> {
        let names = self.names;
        self.print(
            || listing::segment_as_json(segment, names),
            || listing::segment_as_text(segment, names),
        )
    }

    fn index(&mut self, segment: &SegmentListing) -> Result<()> {
        // In JSON a segment has a line only if there is something to say of it that no chunk does.
        if !self.json || segment.fault.is_some() {
            self.segment(segment)?;
        }
        let names = self.names;
        for chunk in &segment.chunks {
            self.print(
                || listing::chunk_as_json(segment, chunk, names),
                || listing::chunk_as_text(chunk),
            )?;
        }
        Ok(())
    }

    fn summarize(&mut self, identity: &JournalIdentity, summary: &mut Summary) -> Result<()> {
        summary.add_frames(&self.frames(identity)?, self.names);
        self.segments(identity, |look, segment| {
            summary.add_segment(&segment, look.names);
            match segment.fault {
                Some(_) => look.segment(&segment),
                None => Ok(()),
            }
        })
    }

    fn summary(&mut self, summary: &Summary) -> Result<()> {
        if self.is_in_vain() {
            return Ok(());
        }
        match self.json {
            true => summary
                .as_json()
                .iter()
                .try_for_each(|line| self.output.json(line)),
            false => self.output.line(summary.as_text()),
        }
    }

    /// Tells of damage that is no segment's. Frames and segments of a journal may hear of the same.
    fn fault(&mut self, fault: &Fault) -> Result<()> {
        if !self.findings.add(fault) {
            return Ok(());
        }
        self.print(|| json!({ "fault": fault.to_string() }), || line_of(fault))
    }

    /// Says if nothing was found of the one that was asked for.
    fn is_in_vain(&self) -> bool {
        self.partition.is_some() && !self.found
    }

    /// The result of the command.
    fn verdict(&self, arguments: &InspectArguments) -> Result<()> {
        let directory = arguments.directory.display();
        self.findings
            .verdict(&format!("`ropewalk check {directory}` looks for more"))?;
        let of_segments = matches!(arguments.what, Some(What::Segments | What::Index));
        match self.partition {
            Some(partition) if !self.found && of_segments => bail!(
                "there are no segments of {partition}; `ropewalk inspect {directory} journal` lists what segments do not hold"
            ),
            Some(partition) if !self.found => bail!(
                "there is nothing of partition {partition}; `ropewalk inspect {directory}` lists what there is"
            ),
            None if !self.found && of_segments => note(&format!(
                "there are no segments yet; `ropewalk inspect {directory} journal` lists what is stored"
            )),
            _ => {}
        }
        Ok(())
    }

    fn print(&mut self, json: impl FnOnce() -> Value, text: impl FnOnce() -> String) -> Result<()> {
        match self.json {
            true => self.output.json(&json()),
            false => self.output.line(text()),
        }
    }
}
