//! Data of each released format, as it was written then, can be opened and read in full. Never write these files anew for
//! a format that was released: a new format gets a new folder beside the old ones.
//!
//! `testdata/format-1` is a whole node's store in small: journal files that were used again, a sealed segment and an open
//! one, all codecs, a trim, a deletion, and batches that are in the journal only. `testdata/format-2` has adopted journal
//! files besides: segments with entries of other partitions in them, and two that are still to be removed. `testdata/format-3` has
//! compacted segments, one of them made of adopted files, tombstones of two passes, and what they superseded still to be removed.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use platform::disk::{Disk, RealDisk, SimulatedDisk};
use record::{
    BatchBuilder, BatchHeader, ClusterId, Compression, Epoch, Limits, Offset, PartitionId, Record, TopicId,
    batches, records,
};
use storage::{
    Append, CompactionOrder, CompactionPolicy, JournalIdentity, JournalSizes, Read, Recovered,
    SegmentRolling, Store, StoreConfig, check, list_segments,
};

const IDENTITY: JournalIdentity = JournalIdentity {
    cluster: ClusterId(*b"golden cluster 1"),
    node: 7,
    journal: 0,
};
const CONFIG: StoreConfig = StoreConfig {
    identity: IDENTITY,
    journal: JournalSizes {
        file_bytes: 20 << 10,
        files_max: 3,
    },
    layout_trigger_bytes: 8 << 10,
    tail_cache_bytes: 8 << 10,
    chunk_cache_bytes: 64 << 10,
    superseded_bytes_max: 64 << 20,
};
/// Of format 2: files that three frames of two blocks fill.
const ROOMY: StoreConfig = StoreConfig {
    journal: JournalSizes {
        file_bytes: 28 << 10,
        files_max: 9,
    },
    ..CONFIG
};
/// So small that the second run seals a segment.
const ROLLING: SegmentRolling = SegmentRolling {
    bytes: 6 << 10,
    age_ms: 1_000_000,
};
/// Of a partition that may adopt files.
const LARGE: SegmentRolling = SegmentRolling {
    bytes: 32 << 10,
    ..ROLLING
};
/// Records of the batch that nearly fills two blocks of a frame.
const MANY: i64 = 50;
const EPOCH: Epoch = Epoch(3);
const NOW_MS: i64 = 1_700_000_000_000;
const CODECS: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

/// Files by their paths in the store, compiled in: a test touches no file outside of `platform`.
type Files = &'static [(&'static str, &'static [u8])];

macro_rules! golden {
    ($folder:literal: $($path:literal,)*) => {
        &[$(($path, include_bytes!(concat!("../testdata/", $folder, "/", $path)))),*]
    };
}

const FORMAT_1: Files = golden! { "format-1":
    "checkpoints/000.checkpoint",
    "journals/000/000000.journal",
    "journals/000/000001.journal",
    "journals/000/000002.journal",
    "partitions/01010101010101010101010101010101-1/00000000000000000000.segment",
    "partitions/01010101010101010101010101010101-1/00000000000000000045.segment",
    "partitions/02020202020202020202020202020202-2/00000000000000000000.segment",
    "partitions/02020202020202020202020202020202-2/00000000000000000009.segment",
    "partitions/03030303030303030303030303030303-3/00000000000000000000.segment",
};

const FORMAT_2: Files = golden! { "format-2":
    "checkpoints/000.checkpoint",
    "journals/000/000000.journal",
    "journals/000/000001.journal",
    "journals/000/000002.journal",
    "journals/000/000003.journal",
    "journals/000/000004.journal",
    "journals/000/000005.journal",
    "journals/000/000006.journal",
    "partitions/01010101010101010101010101010101-1/00000000000000000000.segment",
    "partitions/04040404040404040404040404040404-4/00000000000000000000.segment",
    "partitions/04040404040404040404040404040404-4/00000000000000000159.segment",
    "partitions/04040404040404040404040404040404-4/00000000000000000318.segment",
    "partitions/04040404040404040404040404040404-4/00000000000000000424.segment",
    "partitions/05050505050505050505050505050505-5/00000000000000000000.segment",
    "partitions/06060606060606060606060606060606-6/00000000000000000000.segment",
};

const FORMAT_3: Files = golden! { "format-3":
    "checkpoints/000.checkpoint",
    "journals/000/000000.journal",
    "journals/000/000001.journal",
    "journals/000/000002.journal",
    "journals/000/000003.journal",
    "journals/000/000004.journal",
    "journals/000/000005.journal",
    "partitions/07070707070707070707070707070707-7/00000000000000000000.1.segment",
    "partitions/07070707070707070707070707070707-7/00000000000000000000.2.segment",
    "partitions/07070707070707070707070707070707-7/00000000000000000108.1.segment",
    "partitions/07070707070707070707070707070707-7/00000000000000000108.segment",
    "partitions/07070707070707070707070707070707-7/00000000000000000117.1.segment",
    "partitions/07070707070707070707070707070707-7/00000000000000000117.segment",
    "partitions/07070707070707070707070707070707-7/00000000000000000126.segment",
    "partitions/08080808080808080808080808080808-8/00000000000000000000.1.segment",
    "partitions/08080808080808080808080808080808-8/00000000000000000000.segment",
};

fn partition(number: u8) -> PartitionId {
    PartitionId {
        topic: TopicId([number; 16]),
        index: i32::from(number),
    }
}

/// The record at an offset; a run of bytes makes it worth compressing.
fn value(number: u8, offset: i64) -> String {
    format!("record {offset} of partition {number} {}", "=".repeat(80))
}

fn assert_golden(number: u8, record: &Record) {
    let offset = record.offset.0;
    assert_eq!(record.timestamp_ms, NOW_MS + offset);
    assert_eq!(record.key, Some(Bytes::from(format!("key {offset}"))));
    assert_eq!(record.value, Some(Bytes::from(value(number, offset))));
    assert_eq!(
        record.headers,
        [(Bytes::from_static(b"header"), Some(Bytes::from_static(b"1")))]
    );
}

fn load(files: Files) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    for (path, content) in files {
        let path = Path::new(path);
        disk.create_directory(path.parent().expect("a file has a directory"))
            .expect("nothing fails");
        disk.replace(path, content).expect("nothing fails");
    }
    disk
}

fn open(disk: &SimulatedDisk) -> (Store, Recovered) {
    open_as(disk, CONFIG)
}

fn open_as(disk: &SimulatedDisk, config: StoreConfig) -> (Store, Recovered) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let (mut store, recovered) = Store::open(disk, config).expect("nothing is damaged");
    for partition in &recovered.partitions {
        store.open_partition(partition.id, rolling(partition.id));
    }
    (store, recovered)
}

/// Partitions 4, 6 and 8 may adopt files.
fn rolling(id: PartitionId) -> SegmentRolling {
    match id.index {
        4 | 6 | 8 => LARGE,
        _ => ROLLING,
    }
}

fn append(store: &mut Store, number: u8, compression: Compression) {
    append_records(store, number, compression, 3);
}

fn append_records(store: &mut Store, number: u8, compression: Compression, records: i64) {
    let id = partition(number);
    store.open_partition(id, rolling(id));
    let (_, first) = store.bounds(id).expect("just opened");
    let mut builder =
        BatchBuilder::new(compression).with_producer(11, 0, i32::try_from(first.0).expect("few records"));
    for offset in first.0..first.0 + records {
        let key = format!("key {offset}");
        let headers: [(&[u8], Option<&[u8]>); 1] = [(b"header", Some(b"1"))];
        builder.append(
            NOW_MS + offset,
            Some(key.as_bytes()),
            Some(value(number, offset).as_bytes()),
            &headers,
        );
    }
    let batch = builder.build();
    let append = Append {
        epoch: EPOCH,
        first,
        next: first.advance(records),
        max_timestamp_ms: NOW_MS + first.0 + records - 1,
        append_time_ms: None,
    };
    store
        .append(id, &append, &mut batch.into())
        .expect("there is room");
}

fn flush(store: &mut Store) {
    while let Some(flush) = store.next_flush() {
        let result = flush.run();
        store.flushed(flush, result).expect("nothing fails");
        prepare(store);
    }
}

fn prepare(store: &mut Store) {
    while let Some(job) = store.next_preparation() {
        let file = job.run();
        store.prepared(job, file).expect("nothing fails");
    }
}

fn lay_out(store: &mut Store) {
    store.begin_layout();
    while let Some(job) = store.next_layout(NOW_MS) {
        let result = job.run();
        store.laid_out(job, result).expect("nothing fails");
    }
    if !store.checkpoint_is_due() {
        return;
    }
    let ends: Vec<_> = (1..=8)
        .map(|number| store.bounds(partition(number)).map(|bounds| bounds.1))
        .collect();
    let job = store.begin_checkpoint(&mut |id| {
        let end = ends[id.index as usize - 1].expect("it is one of these");
        Some((Bytes::from(format!("state up to {end}")), end))
    });
    flush(store);
    let result = job.run();
    store.checkpointed(job, result).expect("nothing fails");
    prepare(store);
}

fn read_all(store: &mut Store, number: u8) -> Vec<Record> {
    let id = partition(number);
    let (log_start, next) = store.bounds(id).expect("it is known");
    let (mut found, mut from) = (Vec::new(), log_start);
    while from < next {
        let mut read = store.read(id, from, next, 2_000).expect("within the bounds");
        let parts = loop {
            match read {
                Read::Ready(parts) | Read::Part(parts) => break parts,
                Read::Job(job) => read = store.finish_read(job.run()).expect("nothing is damaged"),
                Read::UnderWay => panic!("nothing is read ahead"),
            }
        };
        for batch in batches(&parts.concat()) {
            let (header, bytes) = batch.expect("batches are read whole");
            assert_eq!(header.leader_epoch, EPOCH);
            assert!(record::checksum_holds(bytes));
            let records = records(bytes, &Limits::default()).expect("it was let in once");
            found.extend(records.map(|record| record.expect("it was let in once")));
            from = header.next_offset();
        }
    }
    found
}

#[test]
fn format_1_can_be_read() {
    let disk = load(FORMAT_1);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let report = check(&shared, &IDENTITY, &mut |_| {}).expect("there is a checkpoint");
    assert!(report.is_sound(), "{:?}", report.faults);
    assert!(report.frames > 0 && report.segments >= 3 && report.cut_bytes == 0 && !report.mended);

    let (mut store, recovered) = open(&disk);
    let [first, second] = &recovered.partitions[..] else {
        panic!("two partitions are left")
    };
    assert_eq!(
        (first.id, first.log_start, first.next),
        (partition(1), Offset(0), Offset(75))
    );
    assert_eq!(
        (second.id, second.log_start, second.next),
        (partition(2), Offset(4), Offset(15))
    );
    assert_eq!(
        (&first.state[..], &second.state[..]),
        (&b"state up to 60"[..], &b"state up to 12"[..])
    );
    let replayed = |headers: &[BatchHeader]| {
        headers
            .iter()
            .map(|header| header.base_offset.0)
            .collect::<Vec<_>>()
    };
    assert_eq!(replayed(&first.replay), [60, 63, 66, 69, 72]);
    assert_eq!(replayed(&second.replay), [12]);

    for (number, log_start, next) in [(1, 0, 75), (2, 4, 15)] {
        let records = read_all(&mut store, number);
        // A batch is given whole, also if its first records are trimmed.
        let records: Vec<_> = records
            .iter()
            .filter(|record| record.offset.0 >= log_start)
            .collect();
        assert!(records.iter().map(|record| record.offset.0).eq(log_start..next));
        records.iter().for_each(|record| assert_golden(number, record));
    }
}

#[test]
fn format_1_can_be_written_on() {
    let disk = load(FORMAT_1);
    let (mut store, _) = open(&disk);
    append(&mut store, 1, Compression::None);
    flush(&mut store);
    lay_out(&mut store);
    let (mut store, _) = open(&disk);
    let records = read_all(&mut store, 1);
    assert_eq!(records.len(), 78);
    records.iter().for_each(|record| assert_golden(1, record));
}

/// What `write_format_2` appended and left, for each partition: number, log start, next offset, the state of the checkpoint,
/// and how many batches the state does not reflect.
const KEPT: [(u8, i64, i64, &[u8], usize); 3] = [
    (1, 0, 36, b"state up to 33", 1),
    (4, 169, 636, b"state up to 583", 2),
    (5, 0, 54, b"state up to 48", 2),
];

fn assert_kept(store: &mut Store) {
    for (number, log_start, next, ..) in KEPT {
        let records = read_all(store, number);
        let kept = records.iter().filter(|record| record.offset.0 >= log_start);
        assert!(kept.clone().map(|record| record.offset.0).eq(log_start..next));
        kept.for_each(|record| assert_golden(number, record));
    }
}

/// The paths in a folder of the disk.
fn paths_in(disk: &SimulatedDisk, folder: &str) -> Vec<String> {
    let paths = disk.paths().into_iter().map(|path| path.display().to_string());
    paths.filter(|path| path.starts_with(folder)).collect()
}

fn remove(store: &mut Store) {
    while let Some(job) = store.next_removal() {
        let result = job.run();
        store.removed(job, result).expect("nothing fails");
    }
}

#[test]
fn format_2_can_be_read() {
    let disk = load(FORMAT_2);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let report = check(&shared, &IDENTITY, &mut |_| {}).expect("there is a checkpoint");
    assert!(report.is_sound(), "{:?}", report.faults);
    assert!(report.orphans.is_empty(), "{:?}", report.orphans);
    assert!(report.frames > 0 && report.cut_bytes == 0 && !report.mended);

    let (mut store, recovered) = open_as(&disk, ROOMY);
    let found: Vec<_> = recovered
        .partitions
        .iter()
        .map(|found| {
            (
                found.id,
                found.log_start.0,
                found.next.0,
                &*found.state,
                found.replay.len(),
            )
        })
        .collect();
    let kept =
        KEPT.map(|(number, start, next, state, replay)| (partition(number), start, next, state, replay));
    assert_eq!(found, kept);
    assert_kept(&mut store);
}

#[test]
fn adopted_files_of_format_2_go_back_to_the_journal() {
    let disk = load(FORMAT_2);
    let journals = paths_in(&disk, "journals/");
    let (mut store, _) = open_as(&disk, ROOMY);
    remove(&mut store);
    assert_eq!(paths_in(&disk, "journals/"), journals);
    lay_out(&mut store);
    let (mut store, _) = open_as(&disk, ROOMY);
    assert_kept(&mut store);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let report = check(&shared, &IDENTITY, &mut |_| {}).expect("there is a checkpoint");
    assert!(report.is_sound(), "{:?}", report.faults);
}

#[test]
fn format_2_has_adopted_files() {
    let disk = load(FORMAT_2);
    let mut without_index: Vec<_> = FORMAT_2
        .iter()
        .filter(|(path, content)| path.contains("/04040404") && content.len() == 4_096)
        .map(|(path, _)| *path)
        .collect();
    without_index.sort_unstable();
    assert_eq!(
        without_index.len(),
        3,
        "of these one is given up: {without_index:?}"
    );
    // Its records are in no other file: without a journal file of the three they cannot be read.
    let (mut store, _) = open_as(&disk, ROOMY);
    let journals = paths_in(&disk, "journals/");
    // Or these files would go back to the journal.
    store.set_short_of_space(true);
    remove(&mut store);
    let left = paths_in(&disk, "journals/");
    let gone: Vec<_> = journals.iter().filter(|path| !left.contains(path)).collect();
    assert_eq!(
        gone,
        ["journals/000/000000.journal", "journals/000/000001.journal"]
    );
    assert!(paths_in(&disk, "partitions/06060606").is_empty());
    assert!(
        disk.paths()
            .iter()
            .all(|path| path.display().to_string() != without_index[0])
    );
    assert_kept(&mut store);
    // The checkpoint names what is gone until the next one: a start is not to miss it.
    let (mut store, _) = open_as(&disk, ROOMY);
    assert_kept(&mut store);
    let held = left.iter().find(|path| path.ends_with("000002.journal"));
    let held = held.expect("it is a segment");
    disk.remove(Path::new(held)).expect("nothing fails");
    let report =
        check(&(Arc::new(disk) as Arc<dyn Disk>), &IDENTITY, &mut |_| {}).expect("there is a checkpoint");
    assert!(report.faults[0].to_string().contains(held), "{:?}", report.faults);
}

#[test]
fn format_2_can_be_written_on() {
    let disk = load(FORMAT_2);
    let (mut store, _) = open_as(&disk, ROOMY);
    let (_, before) = store.bounds(partition(4)).expect("it is known");
    for _ in 0..4 {
        append_frame(&mut store, 4, Compression::Lz4);
    }
    lay_out(&mut store);
    remove(&mut store);
    let (mut store, _) = open_as(&disk, ROOMY);
    let records = read_all(&mut store, 4);
    let last = records.last().expect("there are some").offset;
    assert_eq!(last.0 + 1, before.0 + 4 * (MANY + 3));
    let kept = records.iter().filter(|record| record.offset.0 >= KEPT[1].1);
    kept.for_each(|record| assert_golden(4, record));
}

#[test]
fn each_format_has_its_version() {
    for (files, version) in [(FORMAT_1, 1), (FORMAT_2, 2), (FORMAT_3, 3)] {
        let (path, checkpoint) = files[0];
        assert!(path.starts_with("checkpoints/"));
        assert_eq!(checkpoint[8..12], u32::to_le_bytes(version));
    }
}

/// A frame of two blocks that nearly all of is one partition's; the rest is partition 5's.
fn append_frame(store: &mut Store, number: u8, codec: Compression) {
    append_records(store, number, Compression::None, MANY);
    append(store, number, codec);
    append(store, 5, codec);
    flush(store);
}

/// How `format-2` was made. Never again once it is released.
#[test]
#[ignore = "writes golden data"]
fn write_format_2() {
    let disk = SimulatedDisk::new();
    let (mut store, _) = open_as(&disk, ROOMY);
    // Files 0 to 2, to be adopted.
    for (number, codec) in [6, 6, 6, 4, 4, 4, 4, 4, 4]
        .into_iter()
        .zip(CODECS.into_iter().cycle())
    {
        append_frame(&mut store, number, codec);
    }
    // File 3, and the first block of the next.
    for codec in CODECS.into_iter().chain([Compression::Zstd]) {
        append(&mut store, 1, codec);
        flush(&mut store);
    }
    append(&mut store, 5, Compression::None);
    flush(&mut store);
    lay_out(&mut store);
    // What is removed by this is still to be removed in the end.
    store
        .trim(partition(4), Offset(3 * (MANY + 3) + 10))
        .expect("there is room");
    store.delete_partition(partition(6)).expect("there is room");
    append(&mut store, 5, Compression::Gzip);
    flush(&mut store);
    // The rest of that file, which is not worth adopting, and all of another, which is.
    for codec in CODECS {
        append_frame(&mut store, 4, codec);
    }
    for codec in CODECS {
        append(&mut store, 1, codec);
        flush(&mut store);
    }
    lay_out(&mut store);
    append(&mut store, 5, Compression::Snappy);
    append(&mut store, 1, Compression::Gzip);
    flush(&mut store);
    append_frame(&mut store, 4, Compression::Zstd);
    save(&disk, "format-2");
}

/// How `format-1` was made. Never again once it is released.
#[test]
#[ignore = "writes golden data"]
fn write_format_1() {
    let disk = SimulatedDisk::new();
    let (mut store, _) = open(&disk);
    for (round, round_codec) in CODECS.into_iter().enumerate() {
        for codec in CODECS {
            append(&mut store, 1, codec);
            flush(&mut store);
        }
        append(&mut store, 2, round_codec);
        if round < 3 {
            append(&mut store, 3, round_codec);
        }
        if round == 3 {
            store.trim(partition(2), Offset(4)).expect("there is room");
            store.delete_partition(partition(3)).expect("there is room");
        }
        flush(&mut store);
        if round < 4 {
            lay_out(&mut store);
        }
    }
    save(&disk, "format-1");
}

/// Writes a folder, and says what `golden!` has to list.
fn save(disk: &SimulatedDisk, folder: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(folder);
    let golden = RealDisk::open(&root).expect("the folder can be made");
    for path in disk.paths() {
        let content = disk.file_bytes(&path).expect("it is listed");
        golden
            .create_directory(path.parent().expect("a file has a directory"))
            .expect("the disk works");
        golden.replace(&path, &content).expect("the disk works");
        eprintln!("    {:?},", path.display().to_string());
    }
}

/// Of partitions 7 and 8 of format 3: few keys, and now and then a tombstone.
fn keyed(number: u8, offset: i64) -> (String, Option<String>) {
    let key = format!("key {}", offset * 7 % 11);
    (key, (offset % 13 != 5).then(|| value(number, offset)))
}

fn append_keyed(store: &mut Store, number: u8, codec: Compression, records: i64) {
    let id = partition(number);
    store.open_partition(id, rolling(id));
    let (_, first) = store.bounds(id).expect("just opened");
    let mut builder =
        BatchBuilder::new(codec).with_producer(12, 1, i32::try_from(first.0).expect("few records"));
    for offset in first.0..first.0 + records {
        let (key, value) = keyed(number, offset);
        let value = value.as_deref().map(str::as_bytes);
        builder.append(NOW_MS + offset, Some(key.as_bytes()), value, &[(b"h", None)]);
    }
    let append = Append {
        epoch: EPOCH,
        first,
        next: first.advance(records),
        max_timestamp_ms: NOW_MS + first.0 + records - 1,
        append_time_ms: None,
    };
    store
        .append(id, &append, &mut builder.build().into())
        .expect("there is room");
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
    assert!(store.begin_compaction(id, &order), "something is complete");
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

/// What `write_format_3` left: number and next offset.
const COMPACTED: [(u8, i64); 2] = [(7, 135), (8, 318)];

/// Of each key the latest record is there, and nothing that was not appended.
fn assert_compacted(store: &mut Store, number: u8, next: i64) {
    let records = read_all(store, number);
    let mut left = std::collections::BTreeMap::new();
    for record in &records {
        let (key, value) = keyed(number, record.offset.0);
        assert_eq!(record.key.as_deref(), Some(key.as_bytes()));
        assert_eq!(record.value.as_deref(), value.as_deref().map(str::as_bytes));
        assert_eq!(record.timestamp_ms, NOW_MS + record.offset.0);
        left.insert(key, record.offset.0);
    }
    let latest: std::collections::BTreeMap<_, _> = (0..next)
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
fn format_3_can_be_read_and_written_on() {
    let disk = load(FORMAT_3);
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

/// How `format-3` was made. Never again once it is released.
#[test]
#[ignore = "writes golden data"]
fn write_format_3() {
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
    // What they superseded is named in the checkpoint, and still there.
    lay_out(&mut store);
    append_keyed(&mut store, 8, Compression::Lz4, 18);
    flush(&mut store);
    save(&disk, "format-3");
}
