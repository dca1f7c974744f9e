//! One shard over a simulated disk: what there is no room for waits in order, or leaves everything as it was; what the
//! caches have no room for is found all the same; and what contradicts the metadata is not opened.

mod claims;
mod epochs;
mod examinations;
mod leases;
mod lending;
mod order;
mod recompression;
mod replicas;
mod reporting;
mod sharing;
mod transactions;
mod waiting;
mod writers;

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use platform::clock::SystemClock;
use platform::disk::{Applied, Disk, FaultKind, OperationKind, SimulatedDisk};
use platform::random::Random;
use platform::work::Threads;
use protocol::metadata::{ConfigChange, TopicConfig};
use record::{BatchBuilder, ClusterId, Compression, Limits, Logged, Offset, TopicId};
use storage::{Append, DirectoryId, JournalIdentity, JournalSizes, Reserve, SegmentRolling, StoreConfig};
use tokio::task::LocalSet;
use tokio::time::timeout;

use super::append::AppendOutcome;
use super::*;

const LINKED: Linked = Linked {
    start: 1,
    relays: true,
};
const CONFIG: StoreConfig = StoreConfig {
    identity: JournalIdentity {
        cluster: ClusterId([1; 16]),
        directory: DirectoryId([5; 16]),
        node: 1,
        journal: 0,
    },
    journal: JournalSizes {
        file_bytes: 512 << 10,
        files_max: 8,
    },
    layout_trigger_bytes: 16 << 10,
    tail_cache_bytes: 1 << 20,
    chunk_cache_bytes: 0,
    superseded_bytes_max: u64::MAX,
};
/// A few batches.
const MEMORY_UNFLUSHED_BYTES_MAX: usize = 8_000;
/// Longer than anything takes that is not stuck.
const PATIENCE: Duration = Duration::from_secs(30);
/// EIO, as errno(3) numbers it.
const INPUT_OUTPUT_ERROR: i32 = 5;

/// Of a topic whose appends are answered when they are flushed.
const FLUSHED: PartitionId = PartitionId {
    topic: TopicId([1; 16]),
    index: 0,
};
/// Of one whose appends are answered before.
const MEMORY: PartitionId = PartitionId {
    topic: TopicId([2; 16]),
    index: 0,
};

fn topic(durability: &str) -> TopicSettings {
    settings_of(&[("ropewalk.durability", durability)])
}

fn settings_of(configs: &[(&str, &str)]) -> TopicSettings {
    let changes = configs.iter().map(|(name, value)| ConfigChange::set(name, value));
    let mut config = TopicConfig::new();
    config
        .change(&changes.collect::<Vec<_>>())
        .expect("they are known");
    TopicSettings::resolve(&config, &TopicConfig::new())
}

/// A shard that serves and flushes. Nothing goes on in its background yet.
fn shard() -> Rc<Shard> {
    let shard = unflushed_shard(&SimulatedDisk::new());
    shard.start_examining();
    shard.start_flushing();
    shard
}

/// A shard that serves, and does not flush yet what it stages.
fn unflushed_shard(disk: &SimulatedDisk) -> Rc<Shard> {
    let shard = starting_shard(disk);
    shard.start_serving();
    shard
}

/// A shard that has its partitions open, and does not serve yet.
fn starting_shard(disk: &SimulatedDisk) -> Rc<Shard> {
    shard_with(disk, &[(FLUSHED, topic("fsync")), (MEMORY, topic("memory"))])
}

/// A shard with these partitions, as the disk has them.
fn shard_with(disk: &SimulatedDisk, partitions: &[(PartitionId, TopicSettings)]) -> Rc<Shard> {
    shard_of(disk, partitions, false)
}

/// The same of a node whose orders scribes keep, perhaps.
fn shard_of(
    disk: &SimulatedDisk,
    partitions: &[(PartitionId, TopicSettings)],
    has_scribes: bool,
) -> Rc<Shard> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let (store, recovered) = Store::open(disk, Random::SYSTEM, CONFIG).expect("it is sound");
    let settings = ShardSettings {
        node: NodeId(1),
        producer_limits: ProducerLimits::default(),
        producer_bytes_max: 1 << 20,
        flush_on_core: false,
        memory_unflushed_bytes_max: MEMORY_UNFLUSHED_BYTES_MAX,
        batch_limits: Limits::default(),
        disk_reserve_bytes: 0,
        catch_up_rate: 0,
        has_scribes,
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
    for (id, topic) in partitions {
        let found = recovered.partitions.iter().find(|found| found.id == *id);
        shard
            .open_partition(*id, None, *topic, found)
            .expect("its log is sound");
    }
    prepare(&shard);
    shard
}

/// A shard at work with one partition, whose topic's order a scribe keeps.
fn shard_with_order(partition: PartitionId) -> Rc<Shard> {
    let ordered = settings_of(&[("ropewalk.order", "total")]);
    let shard = shard_of(&SimulatedDisk::new(), &[(partition, ordered)], true);
    shard.start_examining();
    shard.start_flushing();
    shard.start_serving();
    shard
}

/// Gets the next journal file ready.
fn prepare(shard: &Shard) {
    loop {
        let job = shard.store.borrow_mut().next_preparation();
        let Some(job) = job else { return };
        let file = job.run();
        let prepared = shard.store.borrow_mut().prepared(job, file);
        prepared.expect("the disk works");
    }
}

fn append_as(shard: &Shard, partition: PartitionId, value_bytes: usize, acks: Acks) -> AppendAnswer {
    let batch = batch(Compression::None, shard.clock.wall_ms(), value_bytes);
    let (request, answer) = AppendRequest::new(partition, batch, acks);
    shard.append(request);
    answer
}

/// A batch of one record.
fn batch(compression: Compression, timestamp_ms: i64, value_bytes: usize) -> Bytes {
    let mut builder = BatchBuilder::new(compression);
    let value = vec![b'v'; value_bytes];
    builder.append(timestamp_ms, None, Some(&value), &[]);
    builder.build()
}

fn append(shard: &Shard, partition: PartitionId) -> AppendAnswer {
    append_as(shard, partition, 1_000, Acks::Quorum)
}

async fn outcome(answer: AppendAnswer) -> Result<AppendOutcome, AppendRefusal> {
    let answered = timeout(PATIENCE, answer).await;
    answered
        .expect("it is answered in time")
        .expect("the shard lives")
}

async fn offset(answer: AppendAnswer) -> i64 {
    outcome(answer).await.expect("it was appended").first_offset.0
}

/// Appends until the journal has no room for the smallest frame; the answer to the append that waits for some.
async fn fill_journal(shard: &Shard) -> AppendAnswer {
    loop {
        let answer = append(shard, FLUSHED);
        if !shard.waiting.for_journal.borrow().is_empty() {
            return answer;
        }
        offset(answer).await;
    }
}

/// Appends, flushed or not, until one waits for room in the journal; the answer to that one.
fn append_until_journal_is_full(shard: &Shard) -> AppendAnswer {
    loop {
        let answer = append(shard, FLUSHED);
        if !shard.waiting.for_journal.borrow().is_empty() {
            return answer;
        }
    }
}

/// Appends in memory, where nothing is flushed yet, until one waits for that; the answer to that one.
async fn append_until_memory_is_full(shard: &Shard) -> AppendAnswer {
    loop {
        let answer = append(shard, MEMORY);
        if shard.appends_without_room() > 0 {
            return answer;
        }
        offset(answer).await;
    }
}

/// Begins a round of layout, which nobody goes on with, and appends in memory until one waits for its end; the answer to that one.
async fn append_until_layout_is_overtaken(shard: &Shard) -> AppendAnswer {
    offset(append(shard, FLUSHED)).await;
    shard.store.borrow_mut().begin_layout();
    loop {
        let answer = append(shard, MEMORY);
        if shard.store.borrow().layout_is_overtaken() && shard.appends_without_room() > 0 {
            return answer;
        }
        offset(answer).await;
    }
}

#[tokio::test]
async fn only_topics_in_memory_wait_for_a_round_of_layout_that_they_have_overtaken() {
    let test = async {
        let shard = shard();
        let waiting = append_until_layout_is_overtaken(&shard).await;
        offset(append(&shard, FLUSHED)).await;
        assert_eq!(shard.appends_without_room(), 1, "a flush is no room for it");
        shard.start_background();
        offset(waiting).await;
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn what_was_promised_to_be_flushed_is_so_before_it_is_answered_whatever_the_topic_becomes() {
    let test = async {
        let shard = unflushed_shard(&SimulatedDisk::new());
        let mut promised = append(&shard, FLUSHED);
        shard.configure_partition(FLUSHED, topic("memory"));
        let mut behind = append(&shard, FLUSHED);
        let tail = || shard.with_leader(FLUSHED, Leader::tail).ok();
        assert_eq!(
            tail(),
            Some(Offset::ZERO),
            "readers see nothing that is not flushed"
        );
        assert!(promised.try_recv().is_err() && behind.try_recv().is_err());
        shard.start_flushing();
        assert_eq!((offset(promised).await, offset(behind).await), (0, 1));
        // From here on it is a topic in memory like others.
        assert_eq!(offset(append(&shard, FLUSHED)).await, 2);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn retention_that_was_lifted_meanwhile_takes_nothing() {
    let test = async {
        let shard = shard();
        shard.start_background();
        let keeping = |bytes: &str| settings_of(&[("retention.bytes", bytes), ("segment.bytes", "1048576")]);
        shard.configure_partition(FLUSHED, keeping("1"));
        while shard
            .expire(Duration::ZERO, Some(shard.clock.wall_ms()))
            .await
            .is_empty()
        {
            offset(append_as(&shard, FLUSHED, 30_000, Acks::Quorum)).await;
        }
        shard.configure_partition(FLUSHED, keeping("-1"));
        shard
            .retain(FLUSHED, Some(shard.clock.wall_ms()))
            .await
            .expect("there is nothing to do");
        let start = || shard.with_leader(FLUSHED, Leader::log_start).ok();
        assert_eq!(start(), Some(Offset::ZERO));
        shard.configure_partition(FLUSHED, keeping("1"));
        shard
            .retain(FLUSHED, Some(shard.clock.wall_ms()))
            .await
            .expect("the journal has room");
        assert!(start() > Some(Offset::ZERO));
    };
    LocalSet::new()
        .run_until(timeout(PATIENCE, test))
        .await
        .expect("segments are laid out");
}

#[tokio::test]
async fn a_backfill_stands_before_it_goes_for_its_age() {
    const LONG: Duration = Duration::from_secs(3_600);
    let test = async {
        let shard = shard();
        shard.start_background();
        shard.configure_partition(FLUSHED, settings_of(&[("retention.ms", "1")]));
        let backfill = || {
            let mut builder = BatchBuilder::new(Compression::None);
            builder.append(1_000, None, Some(b"old when it comes"), &[]);
            let (request, answer) = AppendRequest::new(FLUSHED, builder.build(), Acks::Quorum);
            shard.append(request);
            answer
        };
        offset(backfill()).await;
        for _ in 0..3 {
            assert!(
                shard.expire(LONG, Some(shard.clock.wall_ms())).await.is_empty(),
                "however often it is looked at"
            );
        }
        offset(backfill()).await;
        let now_ms = Some(shard.clock.wall_ms());
        assert!(shard.expire(Duration::ZERO, now_ms).await.contains(&FLUSHED));
        let by_no_clock = shard.retain(FLUSHED, None).await;
        assert_eq!(by_no_clock, Ok(None), "no clock is to be believed");
        let outlived = shard.retain(FLUSHED, now_ms).await;
        let outlived = outlived.expect("the journal has room").expect("one is old");
        let Trimmed { first, next, .. } = outlived.trimmed;
        assert_eq!((first, next), (Offset(0), Offset(1)));
        assert_eq!(outlived.config, "retention.ms");
        let start = shard.with_leader(FLUSHED, Leader::log_start).ok();
        assert_eq!(start, Some(Offset(1)), "the second one stands for less");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn nobody_waits_for_a_round_of_layout_that_was_given_up() {
    let test = async {
        let disk = SimulatedDisk::new();
        let shard = unflushed_shard(&disk);
        shard.start_flushing();
        let waiting = append_until_layout_is_overtaken(&shard).await;
        // Every flush lets those try again who wait: none is under way any more.
        let staged_before = shard.store.borrow().staged_before();
        shard.until_flushed(staged_before).await.expect("the disk works");
        // All but the journal goes wrong.
        disk.fail_when(|call| {
            let is_journal = call.path.starts_with("journals");
            (!is_journal).then_some(FaultKind::Error {
                errno: INPUT_OUTPUT_ERROR,
                applied: Applied::Nothing,
            })
        });
        shard.start_background();
        offset(waiting).await;
        assert_eq!(shard.counters.layout_rounds.get(), 0, "none was ended");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn only_topics_in_memory_wait_for_what_they_answered_to_be_flushed() {
    let test = async {
        let shard = unflushed_shard(&SimulatedDisk::new());
        let first = append_until_memory_is_full(&shard).await;
        let flushed = append(&shard, FLUSHED);
        assert_eq!(shard.appends_without_room(), 1, "it does not wait");
        let second = append(&shard, MEMORY);
        assert_eq!(shard.appends_without_room(), 2);
        shard.start_flushing();
        assert_eq!(offset(flushed).await, 0);
        assert_eq!(offset(first).await + 1, offset(second).await);
        assert_eq!(shard.appends_without_room(), 0);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn topics_in_memory_wait_for_what_they_answered_and_not_for_what_others_stage() {
    let test = async {
        let shard = unflushed_shard(&SimulatedDisk::new());
        while shard.store.borrow().unflushed_bytes() <= MEMORY_UNFLUSHED_BYTES_MAX {
            let _answer = append(&shard, FLUSHED);
        }
        let beyond = append_until_memory_is_full(&shard).await;
        let answered_bytes = shard.waiting.unflushed.borrow().bytes();
        let one_more = MEMORY_UNFLUSHED_BYTES_MAX + 2_000;
        assert!((MEMORY_UNFLUSHED_BYTES_MAX..one_more).contains(&answered_bytes));
        shard.start_flushing();
        offset(beyond).await;
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn who_is_not_in_memory_any_more_waits_behind_what_came_before() {
    let test = async {
        let shard = unflushed_shard(&SimulatedDisk::new());
        let first = append_until_memory_is_full(&shard).await;
        shard.configure_partition(MEMORY, topic("fsync"));
        let second = append(&shard, MEMORY);
        assert_eq!(shard.appends_without_room(), 2);
        shard.start_flushing();
        assert_eq!(offset(first).await + 1, offset(second).await);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn what_waits_in_either_queue_keeps_its_order() {
    let test = async {
        let shard = unflushed_shard(&SimulatedDisk::new());
        let mut answers = vec![append_until_memory_is_full(&shard).await];
        let _waiting = append_until_journal_is_full(&shard);
        shard.configure_partition(MEMORY, topic("fsync"));
        answers.extend([append(&shard, MEMORY), append(&shard, MEMORY)]);
        assert_eq!(shard.waiting.for_journal.borrow().len(), 3);
        assert_eq!(shard.waiting.for_memory.borrow().len(), 1);
        shard.start_flushing();
        shard.start_background();
        let mut offsets = Vec::new();
        for answer in answers {
            offsets.push(offset(answer).await);
        }
        assert!(offsets.is_sorted(), "{offsets:?}");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn nobody_waits_for_a_flush_that_failed() {
    let test = async {
        let disk = SimulatedDisk::new();
        let shard = unflushed_shard(&disk);
        let waiting = append_until_memory_is_full(&shard).await;
        let staged = append(&shard, FLUSHED);
        disk.fail_when(|_| {
            Some(FaultKind::Error {
                errno: INPUT_OUTPUT_ERROR,
                applied: Applied::Nothing,
            })
        });
        shard.start_flushing();
        let refused = outcome(waiting).await;
        assert!(
            matches!(refused, Err(AppendRefusal::JournalDead(_))),
            "{refused:?}"
        );
        // A batch on its way to the disk may be there at the next start.
        let unknown = outcome(staged).await;
        assert!(
            matches!(unknown, Err(AppendRefusal::FlushFailed(_))),
            "{unknown:?}"
        );
        assert_eq!(shard.appends_without_room(), 0);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn whoever_waits_is_told_that_the_shard_stops() {
    let test = async {
        let shard = unflushed_shard(&SimulatedDisk::new());
        let for_memory = append_until_memory_is_full(&shard).await;
        let for_journal = append_until_journal_is_full(&shard);
        shard.start_flushing();
        shard.drain().await;
        for answer in [for_memory, for_journal] {
            assert_eq!(outcome(answer).await, Err(AppendRefusal::Stopping));
        }
        assert_eq!(shard.appends_without_room(), 0);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_journal_that_falls_silent_is_closed_once() {
    let test = async {
        let shard = shard();
        let frames = || shard.store.borrow().staged_before();
        offset(append(&shard, FLUSHED)).await;
        shard.close_quiet_journal();
        assert_eq!(frames(), 1, "something came since the last look");
        shard.close_quiet_journal();
        assert_eq!(frames(), 2);
        shard
            .until_flushed(2)
            .await
            .expect("the closing frame is flushed as any other");
        for _ in 0..3 {
            shard.close_quiet_journal();
        }
        assert_eq!(frames(), 2, "an idle shard writes nothing");
        offset(append(&shard, FLUSHED)).await;
        shard.drain().await;
        assert_eq!(frames(), 4, "a stop does not wait for silence");
        assert!(shard.store.borrow().is_durable(3));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_journal_that_appends_have_filled_has_room_for_trims_and_deletions() {
    let test = async {
        let shard = shard();
        let waiting = fill_journal(&shard).await;
        assert_eq!(
            shard.trim(FLUSHED, Offset(1)).await.map(|trimmed| trimmed.next),
            Ok(Offset(1))
        );
        shard.delete_partition(MEMORY);
        assert!(shard.partition_bytes(MEMORY).is_none(), "that is journaled");
        assert!(!shard.waiting.for_journal.borrow().is_empty());
        prepare(&shard);
        shard.append_waiting();
        offset(waiting).await;
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn what_may_use_the_reserve_does_not_wait_behind_records_and_is_refused_with_the_cause() {
    let test = async {
        let shard = shard();
        let waiting = fill_journal(&shard).await;
        assert_eq!(offset(help(&shard)).await, 0);
        shard.note_failure(Chore::Layout, &"no space left");
        let refusal = use_up_reserve(&shard).await;
        let why = "layout failed: no space left".into();
        assert_eq!(refusal, AppendRefusal::JournalFull { why });
        prepare(&shard);
        shard.append_waiting();
        offset(waiting).await;
    };
    LocalSet::new().run_until(test).await;
}

/// Appends what may use all of the journal's reserve.
fn help(shard: &Shard) -> AppendAnswer {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.append(0, None, Some(b"help"), &[]);
    let (request, answer) = AppendRequest::new(MEMORY, builder.build(), Acks::Quorum);
    shard.append(request.with_reserve(Reserve::Use).at_once());
    answer
}

/// Does so until there is no room for that either; the refusal.
async fn use_up_reserve(shard: &Shard) -> AppendRefusal {
    loop {
        if let Err(refusal) = outcome(help(shard)).await {
            return refusal;
        }
        // A batch that is in memory only would ride in the same frame.
        let staged_before = shard.store.borrow().staged_before();
        shard.flushing.want();
        let flushed = shard.until_flushed(staged_before).await;
        flushed.expect("the disk works");
    }
}

/// Trims as long as the journal's reserve has room for that; how far.
async fn trim_until_journal_is_full(shard: &Shard) -> Offset {
    let mut log_start = Offset(0);
    while shard.trim(FLUSHED, log_start.advance(1)).await.is_ok() {
        log_start = log_start.advance(1);
    }
    log_start
}

#[tokio::test]
async fn a_trim_that_the_journal_has_no_room_for_changes_nothing() {
    let test = async {
        let shard = shard();
        let waiting = fill_journal(&shard).await;
        let trimmed = trim_until_journal_is_full(&shard).await;
        let log_start = || shard.with_leader(FLUSHED, Leader::log_start).ok();
        assert_eq!(log_start(), Some(trimmed));
        prepare(&shard);
        shard.append_waiting();
        offset(waiting).await;
        let further = trimmed.advance(1);
        assert_eq!(
            shard.trim(FLUSHED, further).await.map(|trimmed| trimmed.next),
            Ok(further)
        );
        assert_eq!(log_start(), Some(further));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_deletion_that_the_journal_has_no_room_for_is_made_when_it_has_some() {
    let test = async {
        let shard = shard();
        let _waiting = fill_journal(&shard).await;
        use_up_reserve(&shard).await;
        shard.delete_partition(MEMORY);
        assert_eq!(shard.with_leader(MEMORY, |_| ()), Err(NotLed::UnknownPartition));
        assert!(shard.partition_bytes(MEMORY).is_some(), "that is not journaled");
        prepare(&shard);
        shard.append_waiting();
        assert!(shard.partition_bytes(MEMORY).is_none());
    };
    LocalSet::new().run_until(test).await;
}

#[test]
fn an_epoch_that_the_log_has_passed_is_refused_in_a_sentence() {
    let shard = starting_shard(&SimulatedDisk::new());
    let mut builder = BatchBuilder::new(Compression::None);
    builder.append(0, None, Some(b"value"), &[]);
    let mut batch = builder.build().to_vec();
    record::set_leader_epoch(&mut batch, Epoch(3));
    let id = PartitionId { index: 1, ..FLUSHED };
    let recovered = RecoveredPartition {
        id,
        log_start: Offset(0),
        next: Offset(1),
        state: bytes::Bytes::new(),
        begun_anew: false,
        replay: vec![Logged::read(&batch).expect("it was just built")],
        promised: None,
        accepted: None,
        written: None,
    };
    let append = Append {
        epoch: Epoch(3),
        first: Offset(0),
        next: Offset(1),
        max_timestamp_ms: 0,
        append_time_ms: None,
        producer_id: None,
        aborts: None,
        reserve: Reserve::Keep,
    };
    let mut store = shard.store.borrow_mut();
    store.open_partition(id, SegmentRolling::default());
    let staged = store.append(id, &append, &mut bytes::Bytes::from(batch).into());
    staged.expect("there is room");
    drop(store);
    let open = |epoch| shard.open_partition(id, Some(epoch), topic("fsync"), Some(&recovered));
    let refused = open(Epoch(3)).expect_err("the log has come to it already");
    let expected = format!("{id}: the metadata opens epoch 3, which is used already");
    assert!(refused.starts_with(&expected), "{refused}");
    assert_eq!(shard.with_leader(id, |_| ()), Err(NotLed::UnknownPartition));
    assert_eq!(open(Epoch(4)), Ok(()));
}

#[test]
fn a_full_disk_is_told_whatever_else_appends_are_refused_for() {
    let shard = starting_shard(&SimulatedDisk::new());
    let shortage = DiskShortage {
        free_bytes: 0,
        reserve_bytes: 1,
    };
    shard.set_disk_shortage(Some(shortage));
    assert_eq!(shard.refuses(), Some(AppendRefusal::Starting));
    assert_eq!(shard.disk_shortage(), Some(shortage));
    shard.start_serving();
    assert_eq!(shard.refuses(), Some(AppendRefusal::DiskFull(shortage)));
    shard.set_disk_shortage(None);
    assert_eq!((shard.refuses(), shard.disk_shortage()), (None, None));
}

#[tokio::test]
async fn who_wants_no_acks_is_not_refused() {
    let test = async {
        let shard = shard();
        let accepted = outcome(append_as(&shard, FLUSHED, 10, Acks::None)).await;
        assert_eq!(accepted.expect("there is room").first_offset, Offset(0));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_batch_that_no_journal_file_can_hold_is_told_so() {
    let test = async {
        let shard = shard();
        let refusal = outcome(append_as(&shard, FLUSHED, 600_000, Acks::Quorum)).await;
        let refusal = refusal.expect_err("it never fits");
        assert!(matches!(refusal, AppendRefusal::TooLargeForJournal { .. }));
        assert!(refusal.to_string().contains("journal.file_bytes"), "{refusal}");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_time_is_found_in_a_segment_whose_index_the_cache_has_no_room_for() {
    let test = async {
        let shard = shard();
        shard.start_background();
        for _ in 0..20 {
            offset(append(&shard, FLUSHED)).await;
        }
        loop {
            let checkpointed = shard.layout.checkpointed();
            if shard.counters.layout_rounds.get() > 0 {
                break;
            }
            checkpointed.await;
        }
        let located = timeout(PATIENCE, shard.locate_timestamp(FLUSHED, 0)).await;
        assert_eq!(located.expect("the search ends"), Ok(Some(Offset(0))));
    };
    LocalSet::new().run_until(test).await;
}

#[test]
fn readers_that_come_again_are_not_piled_up() {
    let shard = unflushed_shard(&SimulatedDisk::new());
    let readers = [Watcher::new(1), Watcher::new(1)];
    for _ in 0..1_000 {
        for reader in &readers {
            shard.watch(&[Watch::lone(FLUSHED, Offset::ZERO)], reader);
        }
    }
    let registered = shard.partitions.borrow()[&FLUSHED].readers.len();
    assert!(registered < 50, "{registered}");
}

#[tokio::test]
async fn what_cannot_be_removed_does_not_keep_layout_from_going_on() {
    let test = async {
        let disk = SimulatedDisk::new();
        let shard = unflushed_shard(&disk);
        shard.start_flushing();
        shard.start_background();
        let append_much = async || {
            for _ in 0..300 {
                offset(append(&shard, FLUSHED)).await;
            }
        };
        offset(append(&shard, MEMORY)).await;
        append_much().await;
        let attempts = Arc::new(AtomicU64::new(0));
        let counter = attempts.clone();
        disk.fail_when(move |call| {
            (call.kind == OperationKind::RemoveDirectory).then(|| {
                counter.fetch_add(1, Ordering::Relaxed);
                FaultKind::Error {
                    errno: INPUT_OUTPUT_ERROR,
                    applied: Applied::Nothing,
                }
            })
        });
        loop {
            let checkpointed = shard.layout.checkpointed();
            if shard.store.borrow_mut().delete_partition(MEMORY).is_ok() {
                break;
            }
            let made_room = timeout(PATIENCE, checkpointed).await;
            made_room.expect("the journal gets room");
        }
        let before = shard.counters.layout_rounds.get();
        append_much().await;
        let rounds = shard.counters.layout_rounds.get() - before;
        // It is tried once a second.
        let attempts = attempts.load(Ordering::Relaxed);
        assert!(
            attempts > 0 && rounds > 2 * attempts,
            "{attempts} beside {rounds}"
        );
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn snapshots_are_taken_in_slices_each_of_one_offset() {
    let test = async {
        let shard = shard();
        for index in 1..=10_000 {
            let id = PartitionId { index, ..FLUSHED };
            let opened = shard.open_partition(id, None, topic("fsync"), None);
            opened.expect("it is new");
        }
        for id in [FLUSHED, MEMORY] {
            assert_eq!(offset(append(&shard, id)).await, 0);
        }
        let mut turns = 0;
        let mut taking = std::pin::pin!(shard.take_snapshots());
        let mut snapshots = std::future::poll_fn(|context| {
            turns += 1;
            taking.as_mut().poll(context)
        })
        .await;
        assert_eq!(turns, 3, "of 5,000 partitions each");

        // Records behind it are not in them; a trim makes them worthless.
        for id in [FLUSHED, MEMORY] {
            assert_eq!(offset(append(&shard, id)).await, 1);
        }
        shard.trim(MEMORY, Offset(2)).await.expect("the journal has room");
        let now = shard.clock.monotonic();
        let partitions = shard.partitions.borrow();
        let mut next_of = |id| snapshots.take(id, &partitions[&id].role, now).1;
        assert_eq!([FLUSHED, MEMORY].map(&mut next_of), [Offset(1), Offset(2)]);
        // Taken once.
        assert_eq!(next_of(FLUSHED), Offset(2));
    };
    LocalSet::new()
        .run_until(timeout(PATIENCE, test))
        .await
        .expect("appends are flushed");
}
