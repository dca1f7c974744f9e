//! `ropewalk inspect`: lists what the journals and segments of a directory at rest hold, and changes nothing.

mod listing;
mod summary;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use platform::disk::Disk;
use serde_json::Value;
use storage::{EntryListing, FrameListing, JournalIdentity, SegmentListing};

use self::summary::Summary;
use crate::directory::RestingDirectory;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  ropewalk inspect ./ropewalk-data                a line for each partition
  ropewalk inspect ./ropewalk-data journal
  ropewalk inspect ./ropewalk-data segments --json
  ropewalk inspect ./ropewalk-data index --partition 5f1c0a9e2b7d4c3f8a6e1d2c3b4a5968-0

The node must not be running. A partition is called by its topic's id and its index: `ropewalk topic describe` tells the id.";

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
    };
    let mut summary = Summary::default();
    for identity in resting.identity.journal_identities() {
        match arguments.what {
            None => summary.add(look.frames(&identity)?, look.segments(&identity)?),
            Some(What::Journal) => {
                for frame in look.frames(&identity)? {
                    look.print(
                        || listing::frame_as_json(&frame),
                        || listing::frame_as_text(&frame),
                    )?;
                }
            }
            Some(What::Segments) => {
                for segment in look.segments(&identity)? {
                    look.print(
                        || listing::segment_as_json(&segment),
                        || listing::segment_as_text(&segment),
                    )?;
                }
            }
            Some(What::Index) => look.index(&identity)?,
        }
    }
    if arguments.what.is_none() {
        match arguments.json {
            true => summary
                .as_json()
                .iter()
                .try_for_each(|line| look.output.json(line))?,
            false => look.output.line(summary.as_text())?,
        }
    }
    look.output.flush()?;
    match &arguments.partition {
        Some(partition) if !look.found => bail!(
            "there is nothing of partition {partition}; `ropewalk inspect {}` lists what there is",
            arguments.directory.display()
        ),
        _ => Ok(()),
    }
}

/// A directory, and what of it is wanted.
struct Look<'a> {
    disk: &'a Arc<dyn Disk>,
    partition: Option<&'a str>,
    json: bool,
    output: Output,
    /// Whether there was anything of what is wanted.
    found: bool,
}

impl Look<'_> {
    fn wants(&mut self, partition: &str) -> bool {
        let wants = match self.partition {
            None => true,
            Some(wanted) => {
                let topic = partition.rsplit_once('-').map(|(topic, _)| topic);
                wanted == partition || topic == Some(wanted)
            }
        };
        self.found |= wants;
        wants
    }

    /// A journal's frames, with the wanted entries; without those that have none.
    fn frames(&mut self, identity: &JournalIdentity) -> Result<Vec<FrameListing>> {
        let mut frames = storage::list_frames(self.disk, identity)?;
        if self.partition.is_some() {
            for frame in &mut frames {
                frame
                    .entries
                    .retain(|entry| self.wants(&partition_of(entry).to_string()));
            }
            frames.retain(|frame| !frame.entries.is_empty());
        }
        Ok(frames)
    }

    fn segments(&mut self, identity: &JournalIdentity) -> Result<Vec<SegmentListing>> {
        let mut segments = storage::list_segments(self.disk, identity, None)?;
        segments.retain(|segment| self.wants(&segment.partition.to_string()));
        Ok(segments)
    }

    fn index(&mut self, identity: &JournalIdentity) -> Result<()> {
        for segment in self.segments(identity)? {
            if !self.json {
                self.output.line(listing::segment_as_text(&segment))?;
            }
            for chunk in &segment.chunks {
                self.print(
                    || listing::chunk_as_json(&segment, chunk),
                    || listing::chunk_as_text(chunk),
                )?;
            }
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

fn partition_of(entry: &EntryListing) -> impl std::fmt::Display + use<> {
    match entry {
        EntryListing::Batch { partition, .. }
        | EntryListing::Trim { partition, .. }
        | EntryListing::Delete { partition } => *partition,
    }
}
