//! Reads back every record that an append run was told is there, and compares it.
//!
//! Other records may lie between them: other producers' of this or an earlier run, and batches whose acknowledgement never
//! came. Two acknowledged batches at one offset, a missing one or another value is an error.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, ensure};
use client::{Cluster, Consumer, ConsumerOptions, Offset, Record, Start};

use super::partition::Acknowledged;
use super::ring::Ring;

/// How long the broker may wait for records that are there.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// Below the tail there are records: after so many answers without one they are lost.
const EMPTY_MAX: u32 = 20;

/// How many records were read back and found right: all that `acknowledged` names.
pub(super) fn read_back(
    cluster: &mut Cluster,
    topic: &str,
    acknowledged: Vec<Acknowledged>,
    payloads: &Ring,
) -> anyhow::Result<u64> {
    let mut by_partition: BTreeMap<i32, Vec<Acknowledged>> = BTreeMap::new();
    for batch in acknowledged {
        by_partition.entry(batch.partition).or_default().push(batch);
    }
    let mut verified = 0;
    for (partition, mut expected) in by_partition {
        expected.sort_by_key(|batch| batch.base_offset);
        verified += read_partition(cluster, topic, partition, &expected, payloads)
            .with_context(|| format!("verifying partition {partition} of topic {topic}"))?;
    }
    Ok(verified)
}

fn read_partition<'a>(
    cluster: &mut Cluster,
    topic: &str,
    partition: i32,
    expected: &'a [Acknowledged],
    payloads: &Ring,
) -> anyhow::Result<u64> {
    check_apart(expected)?;
    let Some(first) = expected.first() else {
        return Ok(0);
    };
    let start = Start::Offset(Offset(first.base_offset));
    let options = ConsumerOptions {
        wait_max: WAIT_MAX,
        ..ConsumerOptions::default()
    };
    let mut consumer = Consumer::new(cluster, topic, partition, start, options)?;
    let records = |batch: &'a Acknowledged| (0..batch.records).map(move |within| (batch, within));
    // The acknowledged records in their order: the one that must come next is in front.
    let mut due = expected.iter().flat_map(records).peekable();
    let (mut verified, mut empty) = (0, 0);
    while let Some((batch, within)) = due.peek() {
        let offset = batch.base_offset + i64::from(*within);
        let fetched = consumer.fetch()?;
        ensure!(
            fetched.next_offset() < fetched.tail() || !fetched.is_empty(),
            "the record at offset {offset} was acknowledged, but the partition ends at {}",
            fetched.tail()
        );
        empty = if fetched.is_empty() { empty + 1 } else { 0 };
        ensure!(
            empty < EMPTY_MAX,
            "the record at offset {offset} was acknowledged, but nothing comes from {} on, though the partition ends at {}",
            fetched.next_offset(),
            fetched.tail()
        );
        for record in fetched.records() {
            let record = record?;
            // Records before the one that is due are somebody else's.
            let is_due = |(batch, within): &(&Acknowledged, u32)| {
                record.offset.0 >= batch.base_offset + i64::from(*within)
            };
            if let Some((batch, within)) = due.next_if(is_due) {
                compare(&record, batch, within, payloads)?;
                verified += 1;
            }
        }
    }
    Ok(verified)
}

/// That no two batches were given the same offsets.
fn check_apart(sorted: &[Acknowledged]) -> anyhow::Result<()> {
    for pair in sorted.windows(2) {
        let end = pair[0].base_offset + i64::from(pair[0].records);
        ensure!(
            end <= pair[1].base_offset,
            "two batches were acknowledged at offset {}",
            pair[1].base_offset
        );
    }
    Ok(())
}

/// That a record is that one of an acknowledged batch.
fn compare(record: &Record, batch: &Acknowledged, within: u32, payloads: &Ring) -> anyhow::Result<()> {
    let offset = batch.base_offset + i64::from(within);
    ensure!(
        record.offset.0 == offset,
        "the record at offset {offset} was acknowledged, but is not there"
    );
    let sequence = batch.first_sequence + u64::from(within);
    ensure!(
        record.value.as_deref() == Some(payloads.payload(batch.producer, sequence)),
        "the record at offset {offset} has another value than the one that was acknowledged"
    );
    Ok(())
}
