//! Compacted logs that may come of what was appended: the invariants of compaction, checked record by record.

use std::collections::BTreeMap;

use bytes::Bytes;
use record::{BatchHeader, Limits, PartitionId, Record, batches, checksum_holds, records};

use super::history::{Expected, State};
use super::rig::read_log;
use crate::store::Store;

/// Logs that were checked, by partition and bounds: most crash states leave what another one has left.
pub(super) type Checked = BTreeMap<(PartitionId, i64, i64), Vec<Vec<u8>>>;

/// Compares everything that can be read with a state, as far as compaction leaves it.
pub(super) fn compare_compacted(
    store: &mut Store,
    state: &State,
    checked: &mut Checked,
) -> Result<usize, String> {
    let mut compared = 0;
    for (id, expected) in state {
        let bounds = store.bounds(*id).map(|(log_start, next)| (log_start.0, next.0));
        if bounds != Some((expected.log_start, expected.next)) {
            return Err(format!(
                "{id} spans {bounds:?} instead of {}..{}",
                expected.log_start, expected.next
            ));
        }
        let read = read_log(store, *id, 4_000, true).map_err(|error| format!("reading {id}: {error}"))?;
        let before = checked
            .entry((*id, expected.log_start, expected.next))
            .or_default();
        if !before.contains(&read) {
            check_log(id, expected, &read)?;
            before.push(read);
        }
        compared += expected.batches.len();
    }
    Ok(compared)
}

type Batches = BTreeMap<i64, (BatchHeader, Vec<Record>)>;

fn parse(bytes: &[u8]) -> Result<Batches, String> {
    let mut all = Batches::new();
    for batch in batches(bytes) {
        let (header, bytes) = batch.map_err(|error| error.to_string())?;
        if !checksum_holds(bytes) {
            return Err(format!(
                "the batch at {} has another checksum",
                header.base_offset
            ));
        }
        let read = records(bytes, &Limits::default()).map_err(|error| error.to_string())?;
        let read = read.collect::<Result<Vec<_>, _>>();
        let read = read.map_err(|error| error.to_string())?;
        let follows = all
            .last_key_value()
            .is_none_or(|(_, (last, _)): (_, &(BatchHeader, _))| last.next_offset() <= header.base_offset);
        if !follows {
            return Err(format!("the batch at {} is out of order", header.base_offset));
        }
        all.insert(header.base_offset.0, (header, read));
    }
    Ok(all)
}

/// That `found` is what compaction may have made of `expected`.
pub(super) fn check_log(id: &PartitionId, expected: &Expected, found: &[u8]) -> Result<(), String> {
    let appended = parse(&expected.bytes()).map_err(|why| format!("{id}, appended: {why}"))?;
    let found = parse(found).map_err(|why| format!("{id}: {why}"))?;
    for (first, (header, records)) in &found {
        let (original, all) = appended
            .get(first)
            .ok_or_else(|| format!("{id}: nobody appended a batch at {first}"))?;
        check_batch(original, all, header, records)
            .map_err(|why| format!("{id}, batch at {first}: {why}"))?;
    }
    check_latest(&appended, &found, expected.log_start).map_err(|why| format!("{id}: {why}"))
}

fn check_batch(
    original: &BatchHeader,
    all: &[Record],
    header: &BatchHeader,
    records: &[Record],
) -> Result<(), String> {
    let place = |header: &BatchHeader| {
        (
            header.next_offset(),
            header.leader_epoch,
            header.base_timestamp_ms,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
        )
    };
    if place(original) != place(header) {
        return Err(format!("{header:?} was {original:?}"));
    }
    let mut rest = all.iter();
    match records.iter().find(|record| !rest.any(|one| one == *record)) {
        Some(record) => Err(format!(
            "a record at {} that was not appended there",
            record.offset
        )),
        None => Ok(()),
    }
}

/// The latest record of each key is there; or it was a tombstone, and nothing of the key is.
fn check_latest(appended: &Batches, found: &Batches, log_start: i64) -> Result<(), String> {
    let by_key = |batches: &Batches| {
        let mut keys = BTreeMap::<Bytes, Vec<Record>>::new();
        let records = batches.values().flat_map(|(_, records)| records);
        for record in records.filter(|record| record.offset.0 >= log_start) {
            let key = record.key.clone().expect("all have keys here");
            keys.entry(key).or_default().push(record.clone());
        }
        keys
    };
    let found = by_key(found);
    for (key, records) in by_key(appended) {
        let latest = records.last().expect("there is one of each key");
        let left = found.get(&key).map_or(&[][..], |left| left);
        let is_gone = latest.value.is_none() && left.is_empty();
        if left.last() != Some(latest) && !is_gone {
            return Err(format!(
                "of key {key:?} the latest record, at {}, is not the last of {:?}",
                latest.offset,
                left.iter().map(|record| record.offset.0).collect::<Vec<_>>()
            ));
        }
    }
    Ok(())
}
