//! `ropewalk inspect`: lists what the journals and segments of a directory at rest hold, and changes nothing.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use storage::{EntryListing, FrameListing, SegmentListing};

use crate::directory::RestingDirectory;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  ropewalk inspect ./ropewalk-data journal
  ropewalk inspect ./ropewalk-data segments --json

The node must not be running.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InspectArguments {
    /// The data directory of a node that is not running
    directory: PathBuf,
    #[command(subcommand)]
    what: What,
    /// One JSON object for each frame or segment
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    /// The frames that the journals hold and segments do not, with their entries
    Journal,
    /// The segments of all partitions, with their chunks
    Segments,
}

pub(crate) fn run(arguments: &InspectArguments) -> Result<()> {
    let resting = RestingDirectory::open(&arguments.directory)?;
    let mut output = Output::open();
    for identity in resting.identity.journal_identities() {
        match arguments.what {
            What::Journal => {
                for frame in storage::list_frames(&resting.disk, &identity)? {
                    match arguments.json {
                        true => output.json(&frame_as_json(&frame))?,
                        false => output.line(frame_as_text(&frame))?,
                    }
                }
            }
            What::Segments => {
                for segment in storage::list_segments(&resting.disk, &identity, None)? {
                    match arguments.json {
                        true => output.json(&segment_as_json(&segment))?,
                        false => output.line(segment_as_text(&segment))?,
                    }
                }
            }
        }
    }
    output.flush()
}

fn frame_as_text(frame: &FrameListing) -> String {
    let mut text = format!(
        "frame {}: {} bytes at {} of {}",
        frame.frame, frame.bytes, frame.position, frame.file
    );
    for entry in &frame.entries {
        text += &match entry {
            EntryListing::Batch {
                partition,
                epoch,
                first,
                next,
                bytes,
            } => {
                format!("\n  batch   {partition} offsets {first}..{next} epoch {epoch} {bytes} bytes")
            }
            EntryListing::Trim { partition, log_start } => {
                format!("\n  trim    {partition} below offset {log_start}")
            }
            EntryListing::Delete { partition } => format!("\n  delete  {partition}"),
        };
    }
    text
}

fn frame_as_json(frame: &FrameListing) -> Value {
    let entry = |entry: &EntryListing| match entry {
        EntryListing::Batch {
            partition,
            epoch,
            first,
            next,
            bytes,
        } => json!({
            "kind": "batch", "partition": partition.to_string(), "epoch": epoch.0,
            "first_offset": first.0, "next_offset": next.0, "bytes": bytes,
        }),
        EntryListing::Trim { partition, log_start } => {
            json!({"kind": "trim", "partition": partition.to_string(), "log_start": log_start.0})
        }
        EntryListing::Delete { partition } => json!({"kind": "delete", "partition": partition.to_string()}),
    };
    json!({
        "frame": frame.frame, "file": frame.file, "position": frame.position, "bytes": frame.bytes,
        "entries": frame.entries.iter().map(entry).collect::<Vec<_>>(),
    })
}

fn segment_as_text(segment: &SegmentListing) -> String {
    let state = match (segment.sealed, segment.compactions) {
        (false, _) => "open".to_owned(),
        (true, 0) => "sealed".to_owned(),
        (true, passes) => format!("compacted {passes}"),
    };
    let mut text = format!(
        "segment {} offsets {}..{} {} bytes {state}: {}",
        segment.partition, segment.first, segment.next, segment.bytes, segment.file
    );
    if let Some(file) = &segment.adopted {
        text += &format!("\n  batches in {file}");
    }
    for chunk in &segment.chunks {
        text += &format!(
            "\n  chunk   offsets {}..{} {} bytes at {} checksum {:016x}",
            chunk.first, chunk.next, chunk.bytes, chunk.position, chunk.checksum
        );
    }
    text
}

fn segment_as_json(segment: &SegmentListing) -> Value {
    let chunks = segment.chunks.iter().map(|chunk| {
        json!({
            "first_offset": chunk.first.0, "next_offset": chunk.next.0, "position": chunk.position,
            "bytes": chunk.bytes, "max_timestamp_ms": chunk.max_timestamp_ms,
            "checksum": format!("{:016x}", chunk.checksum),
        })
    });
    json!({
        "partition": segment.partition.to_string(), "file": segment.file, "adopted_file": segment.adopted, "sealed": segment.sealed,
        "compactions": segment.compactions,
        "first_offset": segment.first.0, "next_offset": segment.next.0, "bytes": segment.bytes,
        "max_timestamp_ms": segment.max_timestamp_ms, "created_ms": segment.created_ms,
        "chunks": chunks.collect::<Vec<_>>(),
    })
}
