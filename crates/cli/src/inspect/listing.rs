//! Frames, segments and chunks, each as text for people and as JSON for scripts.

use serde_json::{Value, json};
use server::TopicNames;
use storage::{ChunkListing, EntryListing, FrameListing, SegmentListing, Witness};

use crate::findings::line_of;
use crate::output::counted;

pub(super) fn frame_as_text(frame: &FrameListing, names: &TopicNames) -> String {
    let mut text = format!(
        "frame {}: {} bytes at {} of {}",
        frame.frame, frame.bytes, frame.position, frame.file
    );
    for entry in &frame.entries {
        let partition = entry
            .partition()
            .map_or_else(String::new, |id| names.partition(id));
        text += &match entry {
            EntryListing::Batch {
                epoch,
                first,
                next,
                bytes,
                aborts,
                ..
            } => {
                let aborts = aborts.map_or_else(String::new, |first| format!(" aborts from {first}"));
                format!("\n  batch   {partition} offsets {first}..{next} epoch {epoch} {bytes} bytes{aborts}")
            }
            EntryListing::Trim { log_start, .. } => {
                format!("\n  trim    {partition} below offset {log_start}")
            }
            EntryListing::Delete { .. } => format!("\n  delete  {partition}"),
            EntryListing::Accept {
                first, epoch: None, ..
            } => format!("\n  cut     {partition} from offset {first}"),
            EntryListing::Accept {
                first,
                epoch: Some(epoch),
                ..
            } => format!("\n  accept  {partition} epoch {epoch} from offset {first}"),
            EntryListing::Promise { epoch, candidate, .. } => {
                format!("\n  promise {partition} epoch {epoch} to node {candidate}")
            }
            EntryListing::Base { first, .. } => format!("\n  base    {partition} at offset {first}"),
            EntryListing::Witness(witness) => witness_as_text(witness),
        };
    }
    text
}

pub(super) fn frame_as_json(frame: &FrameListing, names: &TopicNames) -> Value {
    let entry = |entry: &EntryListing| {
        let topic = entry.partition().and_then(|id| names.topic(id));
        match entry {
            EntryListing::Batch {
                partition,
                epoch,
                first,
                next,
                bytes,
                aborts,
            } => json!({
                "kind": "batch", "topic": topic, "partition": partition.to_string(), "epoch": epoch.0,
                "first_offset": first.0, "next_offset": next.0, "bytes": bytes,
                "aborts_from": aborts.map(|first| first.0),
            }),
            EntryListing::Trim { partition, log_start } => json!({
                "kind": "trim", "topic": topic, "partition": partition.to_string(), "log_start": log_start.0,
            }),
            EntryListing::Delete { partition } => {
                json!({"kind": "delete", "topic": topic, "partition": partition.to_string()})
            }
            EntryListing::Accept {
                partition,
                first,
                epoch,
                epoch_before,
            } => json!({
                "kind": "accept", "topic": topic, "partition": partition.to_string(), "first_offset": first.0,
                "epoch": epoch.map(|epoch| epoch.0), "epoch_before": epoch_before.map(|epoch| epoch.0),
            }),
            EntryListing::Promise {
                partition,
                epoch,
                candidate,
            } => json!({
                "kind": "promise", "topic": topic, "partition": partition.to_string(), "epoch": epoch.0,
                "candidate": candidate,
            }),
            EntryListing::Base { partition, first } => json!({
                "kind": "base", "topic": topic, "partition": partition.to_string(), "first_offset": first.0,
            }),
            EntryListing::Witness(witness) => witness_as_json(witness),
        }
    };
    json!({
        "frame": frame.frame, "file": frame.file, "position": frame.position, "bytes": frame.bytes,
        "entries": frame.entries.iter().map(entry).collect::<Vec<_>>(),
    })
}

/// The witnesses that a journal's checkpoint has.
pub(super) fn witnesses_as_text(journal: u32, witnesses: &[Witness]) -> String {
    let lines = witnesses.iter().map(witness_as_text);
    format!("checkpoint of journal {journal}:{}", lines.collect::<String>())
}

pub(super) fn witnesses_as_json(journal: u32, witnesses: &[Witness]) -> Value {
    let witnesses: Vec<_> = witnesses.iter().map(witness_as_json).collect();
    json!({ "checkpoint_of_journal": journal, "witnesses": witnesses })
}

fn witness_as_text(witness: &Witness) -> String {
    let Witness {
        node,
        directory,
        journal,
        frame,
    } = witness;
    format!("\n  witness node {node} directory {directory} journal {journal} frame {frame}")
}

fn witness_as_json(witness: &Witness) -> Value {
    json!({
        "kind": "witness", "node": witness.node, "directory": witness.directory.to_string(),
        "journal": witness.journal, "frame": witness.frame,
    })
}

pub(super) fn segment_as_text(segment: &SegmentListing, names: &TopicNames) -> String {
    let state = match (segment.sealed, segment.compactions) {
        (false, _) => "open".to_owned(),
        (true, 0) => "sealed".to_owned(),
        (true, passes) => format!("compacted {passes}"),
    };
    let mut text = format!(
        "segment {} offsets {}..{} {} bytes in {} {state}: {}",
        names.partition(segment.partition),
        segment.first,
        segment.next,
        segment.bytes,
        counted(segment.chunks.len(), "chunk"),
        segment.file
    );
    if let Some(file) = &segment.adopted {
        text += &format!("\n  batches in {file}");
    }
    if let Some(fault) = &segment.fault {
        text += &format!("\n  {}", line_of(fault));
    }
    text
}

pub(super) fn segment_as_json(segment: &SegmentListing, names: &TopicNames) -> Value {
    json!({
        "topic": names.topic(segment.partition), "partition": segment.partition.to_string(),
        "file": segment.file, "adopted_file": segment.adopted, "sealed": segment.sealed,
        "compactions": segment.compactions, "sparse": segment.sparse, "aborted_transactions": segment.aborted,
        "first_offset": segment.first.0, "next_offset": segment.next.0, "bytes": segment.bytes,
        "max_timestamp_ms": segment.max_timestamp_ms, "created_ms": segment.created_ms,
        "chunks": segment.chunks.len(), "fault": segment.fault.as_ref().map(ToString::to_string),
    })
}

pub(super) fn chunk_as_text(chunk: &ChunkListing) -> String {
    format!(
        "  chunk   offsets {}..{} {} bytes at {} checksum {:016x}",
        chunk.first, chunk.next, chunk.bytes, chunk.position, chunk.checksum
    )
}

pub(super) fn chunk_as_json(segment: &SegmentListing, chunk: &ChunkListing, names: &TopicNames) -> Value {
    json!({
        "topic": names.topic(segment.partition), "partition": segment.partition.to_string(),
        "segment": segment.first.0,
        "first_offset": chunk.first.0, "next_offset": chunk.next.0, "position": chunk.position,
        "bytes": chunk.bytes, "records": chunk.records,
        "min_timestamp_ms": chunk.min_timestamp_ms, "max_timestamp_ms": chunk.max_timestamp_ms,
        "checksum": format!("{:016x}", chunk.checksum),
    })
}
