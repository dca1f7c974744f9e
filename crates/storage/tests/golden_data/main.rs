//! Data of each format, as it was written then, can be opened and read in full. Never write these files anew: a new format gets a
//! new folder beside the old ones.
//!
//! `testdata/format-4` has one folder for each kind of history, each a whole node's store in small. `plain`: journal files that were
//! used again, a sealed segment and an open one, all codecs, a trim, a deletion, and batches that are in the journal only. `adopted`:
//! journal files that became segments, with entries of other partitions in them, and two that are still to be removed.
//! `compacted`: compacted segments, one of them made of adopted files, tombstones of two passes, and what they superseded still to
//! be removed. `replicated`: all kinds of entries, logs that begin elsewhere than at 0, have gaps and were cut off. Of `testdata/format-3`,
//! which is not read any more, a checkpoint and a journal file are left: they are refused.

mod adopted;
mod compacted;
mod older;
mod plain;
mod replicated;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use platform::disk::{Disk, RealDisk, SimulatedDisk};
use platform::random::Random;
use record::{
    BatchBuilder, ClusterId, Compression, Epoch, Limits, PartitionId, Record, TopicId, batches, records,
};
use storage::{
    Append, DirectoryId, JournalIdentity, JournalSizes, Read, Recovered, SegmentRolling, Store, StoreConfig,
};

const IDENTITY: JournalIdentity = JournalIdentity {
    cluster: ClusterId(*b"golden cluster 1"),
    directory: DirectoryId([5; 16]),
    node: 7,
    journal: 0,
};
const CONFIG: StoreConfig = StoreConfig {
    identity: IDENTITY,
    journal: JournalSizes {
        file_bytes: 20 << 10,
        files_max: 5,
    },
    layout_trigger_bytes: 8 << 10,
    tail_cache_bytes: 8 << 10,
    chunk_cache_bytes: 64 << 10,
    superseded_bytes_max: 64 << 20,
};
/// Files that three frames of two blocks fill.
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
        &[$(($path, include_bytes!(concat!("../../testdata/", $folder, "/", $path)))),*]
    };
}
pub(crate) use golden;

fn partition(number: u8) -> PartitionId {
    PartitionId {
        topic: TopicId([number; 16]),
        index: i32::from(number),
    }
}

/// The record at an offset; a run of bytes makes it worth compressing.
fn value(number: u8, offset: i64) -> String {
    format!("record {offset} of partition {number} {}", "=".repeat(79))
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

fn open_as(disk: &SimulatedDisk, config: StoreConfig) -> (Store, Recovered) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let (mut store, recovered) = Store::open(disk, Random::SYSTEM, config).expect("nothing is damaged");
    for partition in &recovered.partitions {
        store.open_partition(partition.id, rolling(partition.id));
        store.commit_to(partition.id, partition.next);
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
    append_batch(store, number, records, |first| {
        let sequence = i32::try_from(first).expect("few records");
        let mut builder = BatchBuilder::new(compression).with_producer(11, 0, sequence);
        for offset in first..first + records {
            let key = format!("key {offset}");
            let headers: [(&[u8], Option<&[u8]>); 1] = [(b"header", Some(b"1"))];
            builder.append(
                NOW_MS + offset,
                Some(key.as_bytes()),
                Some(value(number, offset).as_bytes()),
                &headers,
            );
        }
        builder
    });
}

/// Appends the batch of so many records that `build` makes for its first offset; each record's time is its offset after `NOW_MS`.
fn append_batch(store: &mut Store, number: u8, records: i64, build: impl FnOnce(i64) -> BatchBuilder) {
    let id = partition(number);
    store.open_partition(id, rolling(id));
    let (_, first) = store.bounds(id).expect("just opened");
    let batch = build(first.0).build();
    let append = Append {
        epoch: EPOCH,
        first,
        next: first.advance(records),
        max_timestamp_ms: NOW_MS + first.0 + records - 1,
        append_time_ms: None,
        producer_id: None,
        aborts: None,
        reserve: storage::Reserve::Keep,
    };
    store
        .append(id, &append, &mut batch.into())
        .expect("there is room");
}

fn flush(store: &mut Store) {
    while let Some(flush) = store.next_flush() {
        let result = flush.run();
        let durable = store.flushed(flush, result).expect("nothing fails");
        durable
            .into_iter()
            .for_each(|(id, next)| store.commit_to(id, next));
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

fn remove(store: &mut Store) {
    while let Some(job) = store.next_removal() {
        let result = job.run();
        store.removed(job, result).expect("nothing fails");
    }
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

#[test]
fn each_format_has_its_version() {
    for files in [plain::FILES, adopted::FILES, compacted::FILES, replicated::FILES] {
        let (path, checkpoint) = files[0];
        assert!(path.starts_with("checkpoints/"));
        assert_eq!(checkpoint[8..12], u32::to_le_bytes(4));
        let journals = files.iter().filter(|(path, _)| path.starts_with("journals/"));
        for (path, journal) in journals {
            assert_eq!(journal[8..12], u32::to_le_bytes(2), "{path}");
        }
    }
}
