//! `--report`: how many records were appended and where they stand, for scripts.

use std::collections::BTreeMap;

use client::Offset;
use serde_json::{Value, json};

use crate::output::counted;

/// The records that are known to be appended.
#[derive(Debug, Default)]
pub(super) struct Report {
    partitions: BTreeMap<usize, Extent>,
}

/// Those of them that are in one partition.
#[derive(Debug, Default)]
struct Extent {
    records: u64,
    /// The first and the last offset that the broker told.
    first_and_last: Option<(i64, i64)>,
}

impl Report {
    /// Takes in a batch; `first` is its first offset, if the broker told it.
    pub(super) fn add(&mut self, partition: usize, records: u64, first: Option<Offset>) {
        let extent = self.partitions.entry(partition).or_default();
        extent.records += records;
        let Some(Offset(first)) = first else { return };
        let last = first + records as i64 - 1;
        extent.first_and_last = Some(match extent.first_and_last {
            Some((lowest, highest)) => (lowest.min(first), highest.max(last)),
            None => (first, last),
        });
    }

    /// The number of records in all.
    pub(super) fn records(&self) -> u64 {
        self.partitions.values().map(|extent| extent.records).sum()
    }

    /// The records appended so far, before a sentence about the failure.
    pub(super) fn until_failure(&self) -> String {
        match self.records() {
            0 => "nothing was appended".to_owned(),
            records => format!("after {}", counted(records, "appended record")),
        }
    }

    pub(super) fn as_json(&self, topic: &str) -> Value {
        let partitions = self.partitions.iter().map(|(partition, extent)| {
            json!({
                "partition": partition,
                "records": extent.records,
                "first_offset": extent.first_and_last.map(|(first, _)| first),
                "last_offset": extent.first_and_last.map(|(_, last)| last),
            })
        });
        json!({
            "topic": topic,
            "records": self.records(),
            "partitions": partitions.collect::<Value>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_add_up_whatever_the_broker_tells_of_them() {
        let mut report = Report::default();
        report.add(2, 5, Some(Offset(10)));
        report.add(2, 1, Some(Offset(3)));
        report.add(2, 4, None);
        report.add(0, 7, None);
        let expected = json!({
            "topic": "t",
            "records": 17,
            "partitions": [
                { "partition": 0, "records": 7, "first_offset": null, "last_offset": null },
                { "partition": 2, "records": 10, "first_offset": 3, "last_offset": 14 },
            ],
        });
        assert_eq!(report.as_json("t"), expected);
    }
}
