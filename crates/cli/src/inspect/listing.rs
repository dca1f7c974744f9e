//! Frames, segments and chunks, each as text for people and as JSON for scripts.

use serde_json::{Value, json};
use server::TopicNames;
use storage::{ChunkListing, EntryListing, FrameListing, SegmentListing};

use crate::findings::line_of;
use crate::output::counted;

pub(super) fn frame_as_text(frame: &FrameListing, names: &TopicNames) -> String {
    let mut text = format!(
        "frame {}: {} bytes at {} of {}",
        frame.frame, frame.bytes, frame.position, frame.file
    );
    for entry in &frame.entries {
        let partition = names.partition(entry.partition());
        text += &match entry {
            EntryListing::Batch {
                epoch,
                first,
                next,
                bytes,
                ..
            } => {
                format!("\n  batch   {partition} offsets {first}..{next} epoch {epoch} {bytes} bytes")
            }
            EntryListing::Trim { log_start, .. } => {
                format!("\n  trim    {partition} below offset {log_start}")
            }
            EntryListing::Delete { .. } => format!("\n  delete  {partition}"),
        };
    }
    text
}

pub(super) fn frame_as_json(frame: &FrameListing, names: &TopicNames) -> Value {
    let entry = |entry: &EntryListing| {
        let topic = names.topic(entry.partition());
        match entry {
            EntryListing::Batch {
                partition,
                epoch,
                first,
                next,
                bytes,
            } => json!({
                "kind": "batch", "topic": topic, "partition": partition.to_string(), "epoch": epoch.0,
                "first_offset": first.0, "next_offset": next.0, "bytes": bytes,
            }),
            EntryListing::Trim { partition, log_start } => json!({
                "kind": "trim", "topic": topic, "partition": partition.to_string(), "log_start": log_start.0,
            }),
            EntryListing::Delete { partition } => {
                json!({"kind": "delete", "topic": topic, "partition": partition.to_string()})
            }
        }
    };
    json!({
        "frame": frame.frame, "file": frame.file, "position": frame.position, "bytes": frame.bytes,
        "entries": frame.entries.iter().map(entry).collect::<Vec<_>>(),
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
        "compactions": segment.compactions,
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
        "bytes": chunk.bytes, "max_timestamp_ms": chunk.max_timestamp_ms,
        "checksum": format!("{:016x}", chunk.checksum),
    })
}
