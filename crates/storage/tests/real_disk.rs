//! The whole of a store on a real file system, through its public interface: what the simulated disk allows, the real one
//! must do too (alignment, renames of open files, files longer than memory's pages).

use std::sync::Arc;

use bytes::Bytes;
use platform::disk::{Disk, RealDisk};
use platform::random::Random;
use record::{BatchBuilder, ClusterId, Compression, Epoch, Offset, PartitionId, TopicId};
use storage::{
    Append, BatchBytes, DirectoryId, JournalIdentity, JournalSizes, Read, SegmentRolling, Store, StoreConfig,
};

const CONFIG: StoreConfig = StoreConfig {
    identity: JournalIdentity {
        cluster: ClusterId([1; 16]),
        directory: DirectoryId([5; 16]),
        node: 1,
        journal: 0,
    },
    journal: JournalSizes {
        file_bytes: 256 << 10,
        files_max: 3,
    },
    layout_trigger_bytes: 128 << 10,
    tail_cache_bytes: 64 << 10,
    chunk_cache_bytes: 1 << 20,
    superseded_bytes_max: 64 << 20,
};
const ID: PartitionId = PartitionId {
    topic: TopicId([2; 16]),
    index: 0,
};

fn append(store: &mut Store, number: i64) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.append(
        number,
        None,
        Some(&vec![number as u8; 100 + 977 * (number as usize % 9)]),
        &[],
    );
    let mut batch = builder.build().to_vec();
    let append = Append {
        epoch: Epoch(1),
        first: Offset(number),
        next: Offset(number + 1),
        max_timestamp_ms: number,
        append_time_ms: None,
        producer_id: None,
        aborts: None,
        reserve: storage::Reserve::Keep,
    };
    let mut bytes = BatchBytes::from(Bytes::copy_from_slice(&batch));
    if store.append(ID, &append, &mut bytes).is_err() {
        lay_out(store);
        store
            .append(ID, &append, &mut bytes)
            .expect("layout has made room");
    }
    record::set_base_offset(&mut batch, Offset(number));
    record::set_leader_epoch(&mut batch, Epoch(1));
    batch.into()
}

fn flush(store: &mut Store) {
    while let Some(flush) = store.next_flush() {
        let result = flush.run();
        let durable = store.flushed(flush, result).expect("the disk works");
        durable
            .into_iter()
            .for_each(|(id, next)| store.commit_to(id, next));
    }
}

fn lay_out(store: &mut Store) {
    flush(store);
    store.begin_layout();
    while let Some(job) = store.next_layout(1_000) {
        let result = job.run();
        store.laid_out(job, result).expect("the disk works");
    }
    let next = store.bounds(ID).expect("it is open").1;
    let job = store.begin_checkpoint(&mut |_| Some((Bytes::from_static(b"state"), next)));
    let result = job.run();
    store.checkpointed(job, result).expect("the disk works");
    while let Some(job) = store.next_preparation() {
        let file = job.run();
        store.prepared(job, file).expect("the disk works");
    }
    while let Some(job) = store.next_removal() {
        let result = job.run();
        store.removed(job, result).expect("the disk works");
    }
}

fn read_from(store: &mut Store, from: Offset) -> Vec<u8> {
    let (mut all, mut from, next) = (Vec::new(), from.0, store.bounds(ID).expect("it is open").1);
    while from < next.0 {
        let mut read = store
            .read(ID, Offset(from), next, 50_000)
            .expect("it is in range");
        let parts = loop {
            match read {
                Read::Ready(parts) | Read::Part(parts) => break parts.concat(),
                Read::Job(job) => read = store.finish_read(job.run()).expect("nothing is damaged"),
                Read::UnderWay => panic!("nothing is read ahead"),
            }
        };
        from += record::batches(&parts).count() as i64;
        all.extend_from_slice(&parts);
    }
    all
}

#[test]
fn a_store_lives_on_a_real_disk() {
    let directory = tempfile::tempdir().expect("there is a directory for temporary files");
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(directory.path()).expect("it can be written to"));
    let rolling = SegmentRolling {
        bytes: 100 << 10,
        age_ms: i64::MAX,
    };
    let mut appended = Vec::new();
    for _ in 0..4 {
        let (mut store, recovered) =
            Store::open(disk.clone(), Random::SYSTEM, CONFIG).expect("nothing is damaged");
        for found in &recovered.partitions {
            store.commit_to(found.id, found.next);
        }
        assert_eq!((recovered.cut_bytes, recovered.mended), (0, false));
        store.open_partition(ID, rolling);
        assert_eq!(read_from(&mut store, Offset(0)), appended.concat());
        for _ in 0..100 {
            appended.push(append(&mut store, appended.len() as i64));
            if appended.len() % 7 == 0 {
                flush(&mut store);
            }
        }
        flush(&mut store);
        assert_eq!(read_from(&mut store, Offset(0)), appended.concat());
    }
    let (mut store, recovered) =
        Store::open(disk.clone(), Random::SYSTEM, CONFIG).expect("nothing is damaged");
    for found in &recovered.partitions {
        store.commit_to(found.id, found.next);
    }
    store.open_partition(ID, rolling);
    store.trim(ID, Offset(300)).expect("there is room");
    lay_out(&mut store);
    assert_eq!(read_from(&mut store, Offset(300)), appended[300..].concat());
    drop(store);
    let report = storage::check(&disk, &CONFIG.identity, &mut |_| {}).expect("the checkpoint is sound");
    assert!(
        report.is_sound() && report.orphans.is_empty() && report.segments > 0,
        "{report:?}"
    );
}
