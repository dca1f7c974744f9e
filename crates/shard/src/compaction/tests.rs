//! Passes of one shard over a simulated disk: how they end, and what is made of that.

use std::sync::Arc;

use platform::clock::SystemClock;
use platform::disk::{Disk, SimulatedDisk};
use platform::random::Random;
use platform::work::Threads;
use protocol::ProducerLimits;
use protocol::leader::NodeId;
use protocol::metadata::{ConfigChange, TopicConfig, TopicSettings};
use record::{BatchBuilder, ClusterId, Compression, Epoch, Limits, Offset, TopicId};
use storage::{
    Append, BatchBytes, DirectoryId, JournalIdentity, JournalSizes, SegmentRolling, Store, StoreConfig,
};

use tokio::task::LocalSet;
use tokio::time::Instant;

use super::super::{Acks, AppendRequest, DiskShortage, ShardSettings, ShardThreads};
use super::*;
use crate::TopicBook;

const ID: PartitionId = PartitionId {
    topic: TopicId([7; 16]),
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
        file_bytes: 1 << 20,
        files_max: 3,
    },
    layout_trigger_bytes: 1 << 20,
    tail_cache_bytes: 0,
    chunk_cache_bytes: 1 << 20,
    superseded_bytes_max: u64::MAX,
};
const MEANS: CompactionMeans = CompactionMeans {
    key_map_bytes: 1 << 16,
    bytes_per_second: u64::MAX,
    disk_reserve_bytes: 0,
};
const RECORDS: i64 = 12;
/// Longer than anything takes that is not stuck.
const PATIENCE: Duration = Duration::from_secs(60);

/// A complete segment of records that all have one key.
fn fill(disk: &Arc<dyn Disk>) {
    let (mut store, _) = Store::open(disk.clone(), Random::SYSTEM, CONFIG).expect("it is new");
    while let Some(job) = store.next_preparation() {
        let file = job.run();
        store.prepared(job, file).expect("the disk works");
    }
    let rolling = SegmentRolling {
        bytes: 8 << 10,
        ..SegmentRolling::default()
    };
    store.open_partition(ID, rolling);
    for offset in 0..RECORDS {
        let mut builder = BatchBuilder::new(Compression::None);
        builder.append(1_000, Some(b"key"), Some(&[b'v'; 1_000]), &[]);
        let append = Append {
            epoch: Epoch(0),
            first: Offset(offset),
            next: Offset(offset + 1),
            max_timestamp_ms: 1_000,
            append_time_ms: None,
            producer_id: None,
            aborts: None,
            reserve: storage::Reserve::Keep,
        };
        let mut batch = BatchBytes::from(builder.build());
        store.append(ID, &append, &mut batch).expect("there is room");
    }
    while let Some(flush) = store.next_flush() {
        let result = flush.run();
        let durable = store.flushed(flush, result).expect("the disk works");
        durable
            .into_iter()
            .for_each(|(id, next)| store.commit_to(id, next));
    }
    store.begin_layout();
    while let Some(job) = store.next_layout(1_000) {
        let result = job.run();
        store.laid_out(job, result).expect("the disk works");
    }
    let job = store.begin_checkpoint(&mut |_| None);
    let result = job.run();
    store.checkpointed(job, result).expect("the disk works");
}

/// A compacted topic with these configs besides.
fn topic(configs: &[(&str, &str)]) -> TopicSettings {
    let mut config = TopicConfig::new();
    let all = [("cleanup.policy", "compact")].iter().chain(configs);
    let changes: Vec<ConfigChange> = all.map(|(name, value)| ConfigChange::set(name, value)).collect();
    config.change(&changes).expect("they are known");
    TopicSettings::resolve(&config, &TopicConfig::new())
}

/// A shard that leads the partition, which is compacted.
fn shard() -> Rc<Shard> {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new());
    fill(&disk);
    let (store, recovered) = Store::open(disk, Random::SYSTEM, CONFIG).expect("it is sound");
    let settings = ShardSettings {
        node: NodeId(1),
        producer_limits: ProducerLimits::default(),
        producer_bytes_max: 1 << 20,
        flush_on_core: false,
        memory_unflushed_bytes_max: usize::MAX,
        batch_limits: Limits::default(),
        disk_reserve_bytes: 0,
        catch_up_rate: 0,
        has_scribes: false,
    };
    let threads = ShardThreads::start(&Threads, 0).expect("the system has threads");
    let shard = Shard::new(
        0,
        settings,
        Arc::new(SystemClock::new()),
        TopicBook::of_topics(1),
        store,
        threads,
    );
    shard
        .open_partition(ID, None, topic(&[]), recovered.partitions.first())
        .expect("nothing contradicts it");
    shard.start_serving();
    shard
}

/// Begins a pass as `compact` does.
fn begin(shard: &Shard) {
    let order = shard.compaction_order(ID, &MEANS).expect("it is compacted");
    assert!(shard.store.borrow_mut().begin_compaction(ID, &order, &[]));
}

fn rests(shard: &Shard) -> bool {
    shard.compaction_rests.borrow().contains_key(&ID)
}

#[test]
fn a_step_rests_as_long_as_it_took_and_as_its_bytes_cost() {
    let ms = Duration::from_millis;
    assert_eq!(rest_after(ms(3), 0, 1 << 20), ms(3));
    assert_eq!(rest_after(ms(100), 1 << 20, 1 << 20), ms(900));
    assert_eq!(rest_after(ms(700), 1 << 20, 1 << 20), ms(700));
    assert_eq!(rest_after(ms(5_000), 1 << 20, 1 << 20), ms(5_000));
}

/// Values of one kind fill little of the journal's frames. Of the other they are most of its file, which waits for nothing else
/// until it is complete and can be adopted.
#[tokio::test]
async fn what_waits_for_layout_too_long_for_its_topic_is_laid_out() {
    for value in [vec![0; 1], vec![0; 3_500]] {
        is_laid_out_in_time(&value).await;
    }
}

async fn is_laid_out_in_time(value: &[u8]) {
    let test = async {
        let shard = shard();
        shard.start_flushing();
        shard.start_background();
        shard.lay_out_for_compaction().await;
        assert!(!shard.layout.is_overdue(), "nothing waits");
        for _ in 0..40 {
            let mut builder = BatchBuilder::new(Compression::None);
            builder.append(shard.clock.wall_ms(), Some(b"key"), Some(value), &[]);
            let (request, answer) = AppendRequest::new(ID, builder.build(), Acks::Quorum);
            shard.append(request);
            let appended = answer.await.expect("the shard lives");
            appended.expect("there is room");
        }
        shard.lay_out_for_compaction().await;
        assert!(!shard.layout.is_overdue(), "it may wait for ever");
        shard.configure_partition(ID, topic(&[("max.compaction.lag.ms", "1")]));
        let began = Instant::now();
        while shard.counters.layout_rounds.get() == 0 {
            assert!(began.elapsed() < PATIENCE, "it is laid out");
            shard.lay_out_for_compaction().await;
            tokio::task::yield_now().await;
        }
        assert_eq!(shard.store.borrow().waits_for_layout(ID), None);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_pass_that_came_to_its_end_counts() {
    let shard = shard();
    let (id, _) = shard.compaction_need().await.expect("all of it is dirty");
    shard.compact(id, &|| MEANS).await;
    assert_eq!(shard.counters.compaction.passes.get(), 1);
    assert_eq!(
        shard.counters.compaction.removed_records.get(),
        RECORDS as u64 - 1
    );
    assert!(shard.compaction_need().await.is_none() && !rests(&shard));
}

#[tokio::test]
async fn a_pass_over_what_is_deleted_meanwhile_is_none() {
    let shard = shard();
    begin(&shard);
    shard.delete_partition(ID);
    let ended = shard.make_pass(ID, &|| MEANS, &mut Outcome::default()).await;
    assert_eq!(ended, Some(Compacted::Abandoned));
    assert!(!shard.store.borrow().is_compacting());
}

#[tokio::test]
async fn a_pass_is_given_up_when_the_disk_gets_full() {
    let shard = shard();
    begin(&shard);
    shard.set_disk_shortage(Some(DiskShortage {
        free_bytes: 0,
        reserve_bytes: 1,
    }));
    let ended = shard.make_pass(ID, &|| MEANS, &mut Outcome::default()).await;
    assert_eq!(ended, None);
    assert!(!shard.store.borrow().is_compacting() && rests(&shard));
}

#[tokio::test]
async fn a_pass_that_has_no_room_beside_the_reserve_waits() {
    let shard = shard();
    let careful = CompactionMeans {
        disk_reserve_bytes: u64::MAX,
        ..MEANS
    };
    shard.compact(ID, &|| careful).await;
    assert_eq!(shard.counters.compaction.passes.get(), 0);
    assert_eq!(shard.counters.compaction.failures.get(), 0);
    assert_eq!(shard.counters.compaction.written_bytes.get(), 0);
    assert!(rests(&shard));
}
