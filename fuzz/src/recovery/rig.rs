//! A tiny store on a simulated disk, its jobs run in place.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use platform::disk::{Disk, SimulatedDisk};
use platform::random::Random;
use record::{BatchBuilder, BatchHeader, ClusterId, Compression, Epoch, Offset, PartitionId};
use storage::{
    Append, DirectoryId, Fault, JournalIdentity, JournalSizes, SegmentRolling, StageError, Store, StoreConfig,
};

pub(super) const IDENTITY: JournalIdentity = JournalIdentity {
    cluster: ClusterId([3; 16]),
    directory: DirectoryId([5; 16]),
    node: 1,
    journal: 0,
};

const CONFIG: StoreConfig = StoreConfig {
    identity: IDENTITY,
    journal: JournalSizes {
        file_bytes: 32 << 10,
        files_max: 3,
    },
    layout_trigger_bytes: 12 << 10,
    tail_cache_bytes: 8 << 10,
    chunk_cache_bytes: 32 << 10,
    superseded_bytes_max: 1 << 20,
};
const ROLLING: SegmentRolling = SegmentRolling {
    bytes: 8 << 10,
    age_ms: 60_000,
};

/// The store's own time; segments are never old.
pub(super) const NOW_MS: i64 = 1_000;

pub(super) fn open(disk: &SimulatedDisk) -> Result<Store, Fault> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let (mut store, recovered) = Store::open(disk, Random::SYSTEM, CONFIG)?;
    for partition in &recovered.partitions {
        store.open_partition(partition.id, ROLLING);
        store.commit_to(partition.id, partition.next);
    }
    Ok(store)
}

/// Appends a batch of two records to a partition, which is made if there is none, and notes its bytes as they will be read.
pub(super) fn append(
    store: &mut Store,
    id: PartitionId,
    value_bytes: usize,
    log: &mut Vec<Vec<u8>>,
) -> Result<(), StageError> {
    store.open_partition(id, ROLLING);
    let (_, first) = store.bounds(id).expect("just opened");
    let batch = two_records(value_bytes, first.0);
    let header = BatchHeader::read(&batch).expect("just built");
    let epoch = Epoch(5);
    let next = first.advance(i64::from(header.record_count));
    let max_timestamp_ms = header.max_timestamp_ms;
    store.append(
        id,
        &Append {
            epoch,
            first,
            next,
            max_timestamp_ms,
            append_time_ms: None,
            producer_id: None,
            aborts: None,
            reserve: storage::Reserve::Keep,
        },
        &mut batch.clone().into(),
    )?;
    let mut stored = batch.to_vec();
    record::set_base_offset(&mut stored, first);
    record::set_leader_epoch(&mut stored, epoch);
    log.push(stored);
    Ok(())
}

fn two_records(value_bytes: usize, first: i64) -> Bytes {
    let mut random = platform::random::SeededRandom::new(first as u64);
    let mut builder = BatchBuilder::new(Compression::None);
    for index in 0..2 {
        let mut value = vec![0; value_bytes];
        random.fill(&mut value);
        builder.append(NOW_MS + first + index, None, Some(&value), &[]);
    }
    builder.build()
}

pub(super) fn open_partition(store: &mut Store, id: PartitionId) {
    store.open_partition(id, ROLLING);
}

/// Flushes, and commits nothing.
pub(super) fn flush_only(store: &mut Store) {
    while let Some(flush) = store.next_flush() {
        let result = flush.run();
        store.flushed(flush, result).expect("nothing fails on this disk");
    }
}

pub(super) fn flush(store: &mut Store) {
    while let Some(flush) = store.next_flush() {
        let result = flush.run();
        let durable = store.flushed(flush, result).expect("nothing fails on this disk");
        durable
            .into_iter()
            .for_each(|(id, next)| store.commit_to(id, next));
    }
}

/// A whole round: steps, checkpoint, and the files that it freed made ready. `ids` are the partitions there may be.
pub(super) fn lay_out<'a>(
    store: &mut Store,
    ids: impl Iterator<Item = &'a PartitionId>,
) -> Result<(), Fault> {
    prepare(store);
    store.begin_layout();
    while let Some(job) = store.next_layout(NOW_MS) {
        let result = job.run();
        store.laid_out(job, result)?;
    }
    if store.checkpoint_is_due() {
        checkpoint(store, ids);
    }
    prepare(store);
    Ok(())
}

fn prepare(store: &mut Store) {
    while let Some(job) = store.next_preparation() {
        let file = job.run();
        store.prepared(job, file).expect("nothing fails on this disk");
    }
}

fn checkpoint<'a>(store: &mut Store, ids: impl Iterator<Item = &'a PartitionId>) {
    // The owner's state reflects all that was staged.
    let ends: BTreeMap<PartitionId, Offset> =
        ids.filter_map(|id| Some((*id, store.bounds(*id)?.1))).collect();
    let end_of = |id: PartitionId| ends.get(&id).copied().unwrap_or(Offset(i64::MAX));
    let job = store.begin_checkpoint(&mut |id| Some((Bytes::from_static(b"state"), end_of(id))));
    flush(store);
    assert!(store.checkpoint_may_run(&job), "everything staged is durable");
    let result = job.run();
    store
        .checkpointed(job, result)
        .expect("nothing fails on this disk");
}

/// Removes the files that nothing refers to.
pub(super) fn remove(store: &mut Store) {
    while let Some(job) = store.next_removal() {
        let result = job.run();
        store.removed(job, result).expect("nothing fails on this disk");
    }
}
