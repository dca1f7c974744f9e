//! `ropewalk inspect`: lists what the journals and segments of a directory at rest hold, and changes nothing.

mod listing;
mod summary;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use platform::disk::Disk;
use serde_json::{Value, json};
use storage::{EntryListing, Fault, FrameListing, JournalIdentity, SegmentListing};

use self::summary::Summary;
use crate::directory::RestingDirectory;
use crate::output::{Output, counted};

const EXAMPLES: &str = "\
Examples:
  ropewalk inspect ./ropewalk-data                a line for each partition
  ropewalk inspect ./ropewalk-data journal
  ropewalk inspect ./ropewalk-data segments --json
  ropewalk inspect ./ropewalk-data index --partition 5f1c0a9e2b7d4c3f8a6e1d2c3b4a5968-0

The node must not be running. What is damaged is named, the rest is listed, and the exit code is 1 then.
A partition is called by its topic's id and its index: `ropewalk topic describe` tells the id.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InspectArguments {
    /// The data directory of a node that is not running
    directory: PathBuf,
    #[command(subcommand)]
    what: Option<What>,
    /// Only this partition, as TOPIC_ID-INDEX, or all partitions of this topic, as TOPIC_ID
    #[arg(long, global = true, value_name = "ID")]
    partition: Option<String>,
    /// One JSON object for each partition, frame, segment or chunk
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand, Clone, Copy)]
enum What {
    /// The frames that the journals hold and segments do not, with their entries
    Journal,
    /// The segments of all partitions
    Segments,
    /// The index of the segments: where each chunk begins, by offset and byte
    Index,
}

pub(crate) fn run(arguments: &InspectArguments) -> Result<()> {
    let resting = RestingDirectory::open(&arguments.directory)?;
    let mut look = Look {
        disk: &resting.disk,
        partition: arguments.partition.as_deref(),
        json: arguments.json,
        output: Output::open(),
        found: false,
        faults: Vec::new(),
    };
    let mut summary = Summary::default();
    for identity in resting.identity.journal_identities() {
        match arguments.what {
            None => look.summarize(&identity, &mut summary)?,
            Some(What::Journal) => look.journal(&identity)?,
            Some(What::Segments) => look.segments(&identity, |look, segment| look.segment(&segment))?,
            Some(What::Index) => look.segments(&identity, |look, segment| look.index(&segment))?,
        }
    }
    if arguments.what.is_none() {
        look.summary(&summary)?;
    }
    look.output.flush()?;
    look.verdict(&arguments.directory)
}

/// A directory, and what of it is wanted.
struct Look<'a> {
    disk: &'a Arc<dyn Disk>,
    partition: Option<&'a str>,
    json: bool,
    output: Output,
    /// Whether there was anything of what is wanted.
    found: bool,
    /// What is damaged, each place once.
    faults: Vec<String>,
}

impl Look<'_> {
    /// A journal's frames, with the wanted entries; without those that have none. If it is damaged, those before.
    fn frames(&mut self, identity: &JournalIdentity) -> Result<Vec<FrameListing>> {
        let (mut frames, fault) = storage::list_frames(self.disk, identity);
        if let Some(fault) = fault {
            self.fault(&fault)?;
        }
        if let Some(wanted) = self.partition {
            for frame in &mut frames {
                frame
                    .entries
                    .retain(|entry| is_wanted(wanted, partition_of(entry)));
            }
            frames.retain(|frame| !frame.entries.is_empty());
        }
        self.found |= !frames.is_empty();
        Ok(frames)
    }

    fn journal(&mut self, identity: &JournalIdentity) -> Result<()> {
        for frame in self.frames(identity)? {
            self.print(
                || listing::frame_as_json(&frame),
                || listing::frame_as_text(&frame),
            )?;
        }
        Ok(())
    }

    /// Shows the wanted segments of a journal's partitions to `show`, one after the other.
    fn segments(
        &mut self,
        identity: &JournalIdentity,
        mut show: impl FnMut(&mut Self, SegmentListing) -> Result<()>,
    ) -> Result<()> {
        let (disk, wanted) = (self.disk, self.partition);
        let listed = storage::list_segments(disk, identity, |id| {
            wanted.is_none_or(|wanted| is_wanted(wanted, id))
        });
        let segments = match listed {
            Ok(segments) => segments,
            Err(fault) => return self.fault(&fault),
        };
        for segment in segments {
            self.found = true;
            self.faults
                .extend(segment.fault.as_ref().map(ToString::to_string));
            show(self, segment)?;
        }
        Ok(())
    }

    fn segment(&mut self, segment: &SegmentListing) -> Result<()> {
        self.print(
            || listing::segment_as_json(segment),
            || listing::segment_as_text(segment),
        )
    }

    fn index(&mut self, segment: &SegmentListing) -> Result<()> {
        // In JSON a segment has a line only if there is something to say of it that no chunk does.
        if !self.json || segment.fault.is_some() {
            self.segment(segment)?;
        }
        for chunk in &segment.chunks {
            self.print(
                || listing::chunk_as_json(segment, chunk),
                || listing::chunk_as_text(chunk),
            )?;
        }
        Ok(())
    }

    fn summarize(&mut self, identity: &JournalIdentity, summary: &mut Summary) -> Result<()> {
        summary.add_frames(&self.frames(identity)?);
        self.segments(identity, |look, segment| {
            summary.add_segment(&segment);
            match segment.fault {
                Some(_) => look.segment(&segment),
                None => Ok(()),
            }
        })
    }

    fn summary(&mut self, summary: &Summary) -> Result<()> {
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
        let text = fault.to_string();
        if self.faults.contains(&text) {
            return Ok(());
        }
        self.print(|| json!({ "fault": text }), || format!("DAMAGED: {text}"))?;
        self.faults.push(text);
        Ok(())
    }

    /// What the command comes to.
    fn verdict(&self, directory: &Path) -> Result<()> {
        if !self.faults.is_empty() {
            bail!(
                "{} found; `ropewalk check {}` looks for more",
                counted(self.faults.len(), "damaged place"),
                directory.display()
            );
        }
        match self.partition {
            Some(partition) if !self.found => bail!(
                "there is nothing of partition {partition}; `ropewalk inspect {}` lists what there is",
                directory.display()
            ),
            _ => Ok(()),
        }
    }

    fn print(&mut self, json: impl FnOnce() -> Value, text: impl FnOnce() -> String) -> Result<()> {
        match self.json {
            true => self.output.json(&json()),
            false => self.output.line(text()),
        }
    }
}

/// Whether `wanted`, a partition or a topic, names this partition.
fn is_wanted(wanted: &str, partition: impl Display) -> bool {
    let partition = partition.to_string();
    let topic = partition.rsplit_once('-').map(|(topic, _)| topic);
    wanted == partition || topic == Some(wanted)
}

fn partition_of(entry: &EntryListing) -> impl Display + use<> {
    match entry {
        EntryListing::Batch { partition, .. }
        | EntryListing::Trim { partition, .. }
        | EntryListing::Delete { partition } => *partition,
    }
}
