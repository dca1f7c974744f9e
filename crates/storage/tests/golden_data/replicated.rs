//! A replica's store: all kinds of entries in its journal, logs that begin elsewhere than at 0, have gaps and were cut off.

use std::sync::Arc;

use bytes::Bytes;
use platform::disk::{Disk, SimulatedDisk};
use record::{BatchBuilder, Compression, Epoch, Logged, Offset};
use storage::{DirectoryId, EntryListing, Store, Witness, check, list_frames, list_segments, list_witnesses};

use super::{
    EPOCH, Files, IDENTITY, MANY, NOW_MS, ROOMY, append, assert_golden, flush, golden, lay_out, load,
    open_as, partition, read_all, rolling, save, value,
};

pub(super) const FILES: Files = golden! { "format-4/replicated":
    "checkpoints/000.checkpoint",
    "journals/000/000000.journal",
    "journals/000/000001.journal",
    "journals/000/000002.journal",
    "journals/000/000003.journal",
    "partitions/04040404040404040404040404040404-4/00000000000000000000.segment",
};

const WITNESS: Witness = Witness {
    node: 9,
    directory: DirectoryId(*b"their directory!"),
    journal: 1,
    frame: 1 << 33,
};
/// In the checkpoint, where the other one is of an earlier frame.
const OLDER_WITNESS: Witness = Witness {
    node: 4,
    frame: 77,
    ..WITNESS
};
const EARLIER: Witness = Witness {
    frame: 1 << 32,
    ..WITNESS
};

/// Offsets of the batches of partition 4, each of `MANY` records: there are gaps between some.
const COPIED: [i64; 7] = [0, 50, 110, 160, 210, 260, 400];

/// Appends a batch of partition `number` as another node wrote it.
fn append_copy(store: &mut Store, number: u8, first: i64, records: i64, aborts: Option<i64>) {
    let mut builder = BatchBuilder::new(Compression::None).with_producer(11, 0, first as i32);
    for offset in first..first + records {
        let (key, value) = (format!("key {offset}"), value(number, offset));
        let header: [(&[u8], Option<&[u8]>); 1] = [(b"header", Some(b"1"))];
        builder.append(
            NOW_MS + offset,
            Some(key.as_bytes()),
            Some(value.as_bytes()),
            &header,
        );
    }
    let mut bytes = builder.build().to_vec();
    record::set_base_offset(&mut bytes, Offset(first));
    record::set_leader_epoch(&mut bytes, EPOCH);
    let id = partition(number);
    store.open_partition(id, rolling(id));
    store
        .append_copy(
            id,
            &mut Bytes::from(bytes).into(),
            aborts.map(Offset),
            storage::Reserve::Keep,
        )
        .expect("there is room");
}

/// Flushes, and commits nothing.
fn flush_only(store: &mut Store) {
    while let Some(flush) = store.next_flush() {
        let result = flush.run();
        store.flushed(flush, result).expect("nothing fails");
    }
}

fn assert_kept(store: &mut Store) {
    // Partition 1 was cut off at 3, 2 begins at 1,000, 4 has gaps.
    for (number, log_start, next) in [(1, 0, 9), (2, 1_000, 1_009)] {
        assert_eq!(
            store.bounds(partition(number)),
            Some((Offset(log_start), Offset(next)))
        );
        let records = read_all(store, number);
        assert!(records.iter().map(|record| record.offset.0).eq(log_start..next));
        records.iter().for_each(|record| assert_golden(number, record));
    }
    let records = read_all(store, 4);
    let expected = COPIED.into_iter().flat_map(|first| first..first + MANY);
    assert!(records.iter().map(|record| record.offset.0).eq(expected));
    records.iter().for_each(|record| assert_golden(4, record));
}

#[test]
fn it_can_be_read_and_written_on() {
    let disk = load(FILES);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let report = check(&shared, &IDENTITY, &mut |_| {}).expect("there is a checkpoint");
    assert!(report.is_sound(), "{:?}", report.faults);
    let (mut store, recovered) = open_as(&disk, ROOMY);
    assert_eq!(recovered.witnesses, [OLDER_WITNESS, WITNESS]);
    let found: Vec<_> = recovered.partitions.iter().map(|found| found.id).collect();
    assert_eq!(found, [1, 2, 3, 4].map(partition), "for 3 something was promised");
    let [first, _, promised, _] = &recovered.partitions[..] else {
        panic!("seen above")
    };
    assert_eq!((first.accepted, first.promised), (Some(Epoch(8)), None));
    let offsets = |batches: &[Logged]| {
        batches
            .iter()
            .map(|batch| batch.header.base_offset.0)
            .collect::<Vec<_>>()
    };
    assert_eq!(offsets(&first.replay), [3, 6]);
    assert_eq!((promised.next, promised.promised), (Offset(0), Some(Epoch(9))));
    assert_eq!(&promised.state[..], b"state up to 0");
    assert_kept(&mut store);
    append(&mut store, 1, Compression::Zstd);
    flush(&mut store);
    lay_out(&mut store);
    let (mut store, _) = open_as(&disk, ROOMY);
    assert_eq!(read_all(&mut store, 1).len(), 12);
}

#[test]
fn it_has_all_kinds_of_entries_and_of_segments() {
    let disk: Arc<dyn Disk> = Arc::new(load(FILES));
    let (frames, faults) = list_frames(&disk, &IDENTITY);
    assert!(faults.is_empty(), "{faults:?}");
    let entries: Vec<_> = frames.iter().flat_map(|frame| frame.entries.clone()).collect();
    type Kind = fn(&EntryListing) -> bool;
    let kinds: [Kind; 7] = [
        |entry| matches!(entry, EntryListing::Batch { aborts: None, .. }),
        |entry| {
            matches!(
                entry,
                EntryListing::Batch {
                    aborts: Some(Offset(1_001)),
                    ..
                }
            )
        },
        |entry| {
            matches!(
                entry,
                EntryListing::Accept {
                    epoch: Some(Epoch(8)),
                    epoch_before: Some(EPOCH),
                    ..
                }
            )
        },
        |entry| matches!(entry, EntryListing::Accept { epoch: None, .. }),
        |entry| {
            matches!(
                entry,
                EntryListing::Promise {
                    epoch: Epoch(9),
                    candidate: 2,
                    ..
                }
            )
        },
        |entry| matches!(entry, EntryListing::Base { .. }),
        |entry| matches!(entry, EntryListing::Witness(_)),
    ];
    for (index, kind) in kinds.iter().enumerate() {
        assert!(entries.iter().any(kind), "{index}: {entries:?}");
    }
    let kept = list_witnesses(&disk, &IDENTITY).expect("sound");
    assert_eq!(kept, [OLDER_WITNESS, EARLIER]);
    let segments: Vec<_> = list_segments(&disk, &IDENTITY, |id| id == partition(4))
        .expect("sound")
        .collect();
    assert!(segments.iter().all(|segment| segment.sparse));
    assert!(
        segments
            .iter()
            .any(|segment| segment.adopted.is_some() && segment.aborted == 1)
    );
}

/// Wrote the folder. Never again: a new format gets a new one.
#[test]
#[ignore = "writes golden data"]
fn write_replicated() {
    let disk = SimulatedDisk::new();
    let (mut store, _) = open_as(&disk, ROOMY);
    for witness in [OLDER_WITNESS, EARLIER] {
        store.witness(&witness).expect("there is room");
    }
    // The first three fill a file, which is adopted.
    for (index, first) in COPIED.into_iter().enumerate() {
        append_copy(&mut store, 4, first, MANY, (index == 1).then_some(first / 2));
        append(&mut store, 5, Compression::None);
        flush(&mut store);
    }
    store.delete_partition(partition(5)).expect("there is room");
    let promised = partition(3);
    store.open_partition(promised, rolling(promised));
    store.promise(promised, Epoch(6), 1).expect("there is room");
    append(&mut store, 1, Compression::Lz4);
    flush(&mut store);
    lay_out(&mut store);
    // From here on nothing is laid out.
    store.promise(promised, Epoch(9), 2).expect("there is room");
    append(&mut store, 1, Compression::Gzip);
    append(&mut store, 1, Compression::Zstd);
    flush_only(&mut store);
    store.cut(partition(1), Offset(6)).expect("there is room");
    store
        .accept(partition(1), Epoch(8), Offset(3), Some(EPOCH))
        .expect("there is room");
    append(&mut store, 1, Compression::None);
    append(&mut store, 1, Compression::Snappy);
    flush_only(&mut store);
    let late = partition(2);
    store.open_partition(late, rolling(late));
    store.begin_at(late, Offset(1_000)).expect("there is room");
    append(&mut store, 2, Compression::None);
    append_copy(&mut store, 2, 1_003, 3, Some(1_001));
    append(&mut store, 2, Compression::None);
    store.witness(&WITNESS).expect("there is room");
    flush_only(&mut store);
    save(&disk, "format-4/replicated");
}
