//! Compacted segments, and what they superseded.

use std::collections::BTreeMap;
use std::sync::Arc;

use platform::disk::{Disk, SimulatedDisk};
use record::{BatchBuilder, Compression, Limits, Offset};
use storage::{CompactionOrder, CompactionPolicy, Store, check, list_segments};

use super::{
    CODECS, Files, IDENTITY, MANY, NOW_MS, ROOMY, append_batch, flush, golden, lay_out, load, open_as,
    partition, read_all, remove, save, value,
};

pub(super) const FILES: Files = golden! { "format-4/compacted":
    "checkpoints/000.checkpoint",
    "journals/000/000000.journal",
    "journals/000/000001.journal",
    "journals/000/000002.journal",
    "journals/000/000003.journal",
    "journals/000/000004.journal",
    "journals/000/000005.journal",
    "partitions/07070707070707070707070707070707-7/00000000000000000000.1.segment",
    "partitions/07070707070707070707070707070707-7/00000000000000000000.2.segment",
    "partitions/07070707070707070707070707070707-7/00000000000000000036.1.segment",
    "partitions/07070707070707070707070707070707-7/00000000000000000036.segment",
    "partitions/07070707070707070707070707070707-7/00000000000000000090.1.segment",
    "partitions/07070707070707070707070707070707-7/00000000000000000090.segment",
    "partitions/07070707070707070707070707070707-7/00000000000000000120.segment",
    "partitions/07070707070707070707070707070707-7/00000000000000000129.segment",
    "partitions/08080808080808080808080808080808-8/00000000000000000000.1.segment",
    "partitions/08080808080808080808080808080808-8/00000000000000000000.segment",
};

/// Of partitions 7 and 8: few keys, and now and then a tombstone.
fn keyed(number: u8, offset: i64) -> (String, Option<String>) {
    let key = format!("key {}", offset * 7 % 11);
    (key, (offset % 13 != 5).then(|| value(number, offset)))
}

fn append_keyed(store: &mut Store, number: u8, codec: Compression, records: i64) {
    append_batch(store, number, records, |first| {
        let sequence = i32::try_from(first).expect("few records");
        let mut builder = BatchBuilder::new(codec).with_producer(12, 1, sequence);
        for offset in first..first + records {
            let (key, value) = keyed(number, offset);
            let value = value.as_deref().map(str::as_bytes);
            builder.append(NOW_MS + offset, Some(key.as_bytes()), value, &[(b"h", None)]);
        }
        builder
    });
}

/// A whole pass over a partition, at that time.
fn compact(store: &mut Store, number: u8, now_ms: i64) {
    let id = partition(number);
    let order = CompactionOrder {
        policy: CompactionPolicy {
            min_lag_ms: 0,
            max_lag_ms: i64::MAX,
            dirty_ratio_min: 0.0,
            delete_retention_ms: 1_000,
        },
        committed: store.bounds(id).expect("it is known").1,
        now_ms,
        limits: Limits::default(),
        key_map_bytes: 1 << 16,
        disk_reserve_bytes: 0,
    };
    assert!(store.begin_compaction(id, &order, &[]), "something is complete");
    while store.is_compacting() {
        match store.next_compaction() {
            Some(mut job) => {
                let result = job.run();
                store.compacted(job, result, now_ms).expect("nothing fails");
            }
            None => lay_out(store),
        }
    }
}

/// The partitions that `write_compacted` left: number and next offset.
const COMPACTED: [(u8, i64); 2] = [(7, 135), (8, 318)];

/// Of each key the latest record is there, and nothing that was not appended.
fn assert_compacted(store: &mut Store, number: u8, next: i64) {
    let records = read_all(store, number);
    let mut left = BTreeMap::new();
    for record in &records {
        let (key, value) = keyed(number, record.offset.0);
        assert_eq!(record.key.as_deref(), Some(key.as_bytes()));
        assert_eq!(record.value.as_deref(), value.as_deref().map(str::as_bytes));
        assert_eq!(record.timestamp_ms, NOW_MS + record.offset.0);
        left.insert(key, record.offset.0);
    }
    let latest: BTreeMap<_, _> = (0..next)
        .map(|offset| (keyed(number, offset).0, offset))
        .collect();
    for (key, offset) in latest {
        let is_tombstone = keyed(number, offset).1.is_none();
        assert!(
            left.get(&key) == Some(&offset) || (is_tombstone && !left.contains_key(&key)),
            "{key}"
        );
    }
    assert!(
        (records.len() as i64) < next / 2,
        "{} records are left of {next}",
        records.len()
    );
}

#[test]
fn it_can_be_read_and_written_on() {
    let disk = load(FILES);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let report = check(&shared, &IDENTITY, &mut |_| {}).expect("there is a checkpoint");
    assert!(report.is_sound(), "{:?}", report.faults);
    assert!(report.orphans.is_empty(), "{:?}", report.orphans);
    let listed = list_segments(&shared, &IDENTITY, |_| true).expect("sound");
    let listed: Vec<_> = listed.collect();
    for number in [7, 8] {
        let generations = listed
            .iter()
            .filter(|segment| segment.partition == partition(number));
        assert!(generations.map(|segment| segment.compactions).max() >= Some(1));
    }
    let (mut store, _) = open_as(&disk, ROOMY);
    for (number, next) in COMPACTED {
        assert_eq!(store.bounds(partition(number)), Some((Offset(0), Offset(next))));
        assert_compacted(&mut store, number, next);
    }
    let before = disk.paths().len();
    remove(&mut store);
    assert!(
        disk.paths().len() < before,
        "what was superseded is still to be removed"
    );
    for (number, next) in COMPACTED {
        assert_compacted(&mut store, number, next);
        append_keyed(&mut store, number, Compression::Zstd, 6);
        flush(&mut store);
        lay_out(&mut store);
        compact(&mut store, number, NOW_MS + 900_000);
    }
    lay_out(&mut store);
    remove(&mut store);
    let (mut store, _) = open_as(&disk, ROOMY);
    for (number, next) in COMPACTED {
        assert_compacted(&mut store, number, next + 6);
    }
}

/// Wrote the folder. Never again: a new format gets a new one.
#[test]
#[ignore = "writes golden data"]
fn write_compacted() {
    let disk = SimulatedDisk::new();
    let (mut store, _) = open_as(&disk, ROOMY);
    // Files that nearly all of is partition 8's, to be adopted.
    for codec in CODECS.into_iter().chain([Compression::None]) {
        append_keyed(&mut store, 8, Compression::None, MANY);
        append_keyed(&mut store, 7, codec, 3);
        flush(&mut store);
    }
    for codec in CODECS.into_iter().cycle().take(30) {
        append_keyed(&mut store, 7, codec, 3);
        flush(&mut store);
        if store.status().journal_bytes > store.status().journal_bytes_max / 2 {
            lay_out(&mut store);
        }
    }
    lay_out(&mut store);
    compact(&mut store, 7, NOW_MS);
    lay_out(&mut store);
    remove(&mut store);
    for codec in CODECS.into_iter().cycle().take(9) {
        append_keyed(&mut store, 7, codec, 3);
        flush(&mut store);
        lay_out(&mut store);
    }
    compact(&mut store, 7, NOW_MS + 600_000);
    compact(&mut store, 8, NOW_MS + 600_000);
    // The segments that they superseded are named in the checkpoint, and still there.
    lay_out(&mut store);
    append_keyed(&mut store, 8, Compression::Lz4, 18);
    flush(&mut store);
    save(&disk, "format-4/compacted");
}
