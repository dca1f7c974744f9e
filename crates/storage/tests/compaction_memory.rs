//! Memory and time that the compaction of many bytes takes, on a real file system. For figures, so it is not part of a
//! usual run: `cargo test --release -p storage --test compaction_memory -- --ignored --nocapture`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use platform::clock::{Clock, SystemClock};
use platform::disk::{Disk, RealDisk};
use platform::process::process_usage;
use platform::random::{Random, SeededRandom};
use record::{BatchBuilder, ClusterId, Compression, Epoch, Limits, Offset, PartitionId, TopicId};
use storage::{
    Append, BatchBytes, Compacted, CompactionOrder, CompactionPolicy, DirectoryId, JournalIdentity,
    JournalSizes, SegmentRolling, Store, StoreConfig,
};

const ID: PartitionId = PartitionId {
    topic: TopicId([2; 16]),
    index: 0,
};
const CONFIG: StoreConfig = StoreConfig {
    identity: JournalIdentity {
        cluster: ClusterId([1; 16]),
        directory: DirectoryId([5; 16]),
        node: 1,
        journal: 0,
    },
    journal: JournalSizes {
        file_bytes: 64 << 20,
        files_max: 4,
    },
    layout_trigger_bytes: 32 << 20,
    tail_cache_bytes: 1 << 20,
    chunk_cache_bytes: 1 << 20,
    superseded_bytes_max: 64 << 20,
};
/// A node's own figure.
const KEY_MAP_BYTES: usize = 32 << 20;
const RECORDS: i64 = 200;
const VALUE_BYTES: usize = 1_000;
/// The bytes that are appended, unless this says otherwise in MiB.
const MIB: &str = "ROPEWALK_COMPACT_MIB";
/// The most that a pass may add to the process's memory.
const MEMORY_MAX: u64 = 128 << 20;

/// A batch of records of `keys` different keys.
fn batch(random: &mut SeededRandom, keys: u64) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None);
    let mut value = vec![0; VALUE_BYTES];
    for _ in 0..RECORDS {
        random.fill(&mut value[..64]);
        let key = format!("key-{:012}", random.below(keys));
        builder.append(1_000, Some(key.as_bytes()), Some(&value), &[]);
    }
    builder.build()
}

fn append(store: &mut Store, number: i64, batch: &Bytes) {
    let (first, next) = (Offset(number * RECORDS), Offset((number + 1) * RECORDS));
    let append = Append {
        epoch: Epoch(1),
        first,
        next,
        max_timestamp_ms: 1_000,
        append_time_ms: None,
        producer_id: None,
        aborts: None,
        reserve: storage::Reserve::Keep,
    };
    let mut batch = BatchBytes::from(batch.clone());
    if store.append(ID, &append, &mut batch).is_err() {
        lay_out(store);
        store
            .append(ID, &append, &mut batch)
            .expect("layout has made room");
    }
}

fn flush(store: &mut Store) {
    while let Some(flush) = store.next_flush() {
        let result = flush.run();
        let durable = store.flushed(flush, result).expect("the disk works");
        durable
            .into_iter()
            .for_each(|(id, next)| store.commit_to(id, next));
        prepare(store);
    }
}

fn prepare(store: &mut Store) {
    while let Some(job) = store.next_preparation() {
        let file = job.run();
        store.prepared(job, file).expect("the disk works");
    }
}

/// A round of layout, its checkpoint, and what may go then.
fn lay_out(store: &mut Store) {
    flush(store);
    store.begin_layout();
    while let Some(job) = store.next_layout(1_000) {
        let result = job.run();
        store.laid_out(job, result).expect("the disk works");
    }
    if store.checkpoint_is_due() {
        let job = store.begin_checkpoint(&mut |_| None);
        let result = job.run();
        store.checkpointed(job, result).expect("the disk works");
    }
    prepare(store);
    while let Some(job) = store.next_removal() {
        let result = job.run();
        store.removed(job, result).expect("the disk works");
    }
}

fn resident_bytes() -> u64 {
    process_usage(std::process::id())
        .expect("there is /proc")
        .rss_bytes
}

#[test]
#[ignore = "writes gigabytes; for figures"]
fn compaction_takes_bounded_memory() {
    let mib: u64 = std::env::var(MIB).map_or(1_024, |text| text.parse().expect("a number of MiB"));
    let batches = (mib << 20) as i64 / (RECORDS * VALUE_BYTES as i64);
    let directory = tempfile::tempdir().expect("there is room");
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(directory.path()).expect("it can be made"));
    let (mut store, _) = Store::open(disk, Random::SYSTEM, CONFIG).expect("it is new");
    prepare(&mut store);
    store.open_partition(ID, SegmentRolling::default());
    // Each key about ten times.
    let keys = (batches * RECORDS) as u64 / 10;
    let mut random = SeededRandom::new(5);
    for number in 0..batches {
        append(&mut store, number, &batch(&mut random, keys));
        flush(&mut store);
    }
    lay_out(&mut store);
    let (before, bytes_before) = (resident_bytes(), store.partition_bytes(ID));
    let order = CompactionOrder {
        policy: CompactionPolicy {
            min_lag_ms: 0,
            max_lag_ms: i64::MAX,
            dirty_ratio_min: 0.1,
            delete_retention_ms: 1,
        },
        committed: Offset(batches * RECORDS),
        now_ms: 1_000,
        limits: Limits::default(),
        key_map_bytes: KEY_MAP_BYTES,
        disk_reserve_bytes: 0,
    };
    let clock = SystemClock::new();
    let (began, mut longest) = (clock.monotonic(), Duration::ZERO);
    let (mut most, mut read, mut written, mut passes) = (before, 0, 0, 0);
    while store
        .compaction_need(ID, &order.policy, order.committed, order.now_ms)
        .is_some()
    {
        assert!(
            store.begin_compaction(ID, &order, &[]),
            "it was said to be needed"
        );
        passes += 1;
        while store.is_compacting() {
            let Some(mut job) = store.next_compaction() else {
                lay_out(&mut store);
                continue;
            };
            let step_began = clock.monotonic();
            let result = job.run();
            longest = longest.max(clock.monotonic() - step_began);
            most = most.max(resident_bytes());
            let done = result.as_ref().expect("the disk works");
            (read, written) = (read + done.bytes_read, written + done.bytes_written);
            let compacted = store
                .compacted(job, result, order.now_ms)
                .expect("the disk works");
            assert_ne!(compacted, Compacted::Abandoned);
        }
        lay_out(&mut store);
    }
    eprintln!(
        "{} MiB of {keys} keys in {passes} passes: {} MiB left, {} MiB read, {} MiB written, {:.1} s, longest step {longest:?}, \
         memory {} MiB before, {} MiB at most",
        bytes_before >> 20,
        store.partition_bytes(ID) >> 20,
        read >> 20,
        written >> 20,
        (clock.monotonic() - began).as_secs_f64(),
        before >> 20,
        most >> 20,
    );
    assert!(most - before <= MEMORY_MAX, "{most} bytes, {before} before");
}
