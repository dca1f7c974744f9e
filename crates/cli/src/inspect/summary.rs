//! A directory's content of each partition, in one line each.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use server::TopicNames;
use storage::{EntryListing, FrameListing, SegmentListing};

use crate::output::{or_dash, table};

/// Sums by what partitions are called.
#[derive(Default)]
pub(super) struct Summary {
    partitions: BTreeMap<String, Sum>,
}

#[derive(Default)]
struct Sum {
    /// The partition by its topic's id, as in the names of files.
    id: String,
    topic: Option<String>,
    /// The least and the greatest bounds of what is stored; `None` if nothing is.
    first: Option<i64>,
    next: Option<i64>,
    segments: u64,
    segment_bytes: u64,
    /// Of the journal, what segments do not hold: batches and their bytes.
    batches: u64,
    batch_bytes: u64,
}

impl Sum {
    fn reach(&mut self, first: i64, next: i64) {
        self.first = Some(self.first.map_or(first, |known| known.min(first)));
        self.next = Some(self.next.map_or(next, |known| known.max(next)));
    }
}

impl Summary {
    /// Takes a segment in.
    pub(super) fn add_segment(&mut self, segment: &SegmentListing, names: &TopicNames) {
        let id = segment.partition;
        let sum = self.sum(names.partition(id), id.to_string(), names.topic(id));
        sum.reach(segment.first.0, segment.next.0);
        sum.segments += 1;
        sum.segment_bytes += segment.bytes;
    }

    fn sum(&mut self, called: String, id: String, topic: Option<&str>) -> &mut Sum {
        self.partitions.entry(called).or_insert_with(|| Sum {
            id,
            topic: topic.map(str::to_owned),
            ..Sum::default()
        })
    }

    /// Takes in what a journal holds.
    pub(super) fn add_frames(&mut self, frames: &[FrameListing], names: &TopicNames) {
        for entry in frames.iter().flat_map(|frame| &frame.entries) {
            if let EntryListing::Batch {
                partition,
                first,
                next,
                bytes,
                ..
            } = entry
            {
                let id = *partition;
                let sum = self.sum(names.partition(id), id.to_string(), names.topic(id));
                sum.reach(first.0, next.0);
                sum.batches += 1;
                sum.batch_bytes += u64::from(*bytes);
            }
        }
    }

    pub(super) fn as_text(&self) -> String {
        if self.partitions.is_empty() {
            return "no records are stored".to_owned();
        }
        let heading = [
            "partition",
            "first",
            "next",
            "segments",
            "segment bytes",
            "journal batches",
            "journal bytes",
            "id",
        ];
        let mut rows = vec![heading.map(str::to_owned).to_vec()];
        rows.extend(self.partitions.iter().map(|(partition, sum)| {
            vec![
                partition.clone(),
                or_dash(sum.first),
                or_dash(sum.next),
                sum.segments.to_string(),
                sum.segment_bytes.to_string(),
                sum.batches.to_string(),
                sum.batch_bytes.to_string(),
                sum.id.clone(),
            ]
        }));
        table(&rows)
    }

    pub(super) fn as_json(&self) -> Vec<Value> {
        let line = |sum: &Sum| {
            json!({
                "topic": sum.topic, "partition": sum.id, "first_offset": sum.first, "next_offset": sum.next,
                "segments": sum.segments, "segment_bytes": sum.segment_bytes,
                "journaled_batches": sum.batches, "journaled_bytes": sum.batch_bytes,
            })
        };
        self.partitions.values().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_has_a_name_of_its_own() {
        let mut summary = Summary::default();
        summary.sum("orders-0".to_owned(), "0-0".to_owned(), Some("orders"));
        let text = summary.as_text();
        let heading = text.lines().next().expect("a heading");
        let columns: Vec<&str> = heading
            .split("  ")
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .collect();
        let names: std::collections::BTreeSet<_> = columns.iter().collect();
        assert_eq!((columns.len(), names.len()), (8, 8), "{heading}");
    }
}
