//! Batches that take long to examine: where they wait, and what comes of them.

use std::sync::mpsc;

use platform::turns::{self, TURN_BYTES};
use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::*;

/// A few KB, and more once they are unpacked than a core examines itself.
const HEAVY_BYTES: usize = 1 << 20;

fn heavy(timestamp_ms: i64) -> Bytes {
    batch(Compression::Gzip, timestamp_ms, HEAVY_BYTES)
}

fn append_heavy(shard: &Shard, partition: PartitionId) -> AppendAnswer {
    let (request, answer) = AppendRequest::new(partition, heavy(shard.clock.wall_ms()), Acks::Quorum);
    shard.append(request);
    answer
}

/// Holds up all examinations until what this returns is dropped.
async fn hold_up(shard: &Rc<Shard>) -> mpsc::Sender<()> {
    let (held_up, released) = mpsc::channel::<()>();
    let (tell, told) = oneshot::channel();
    let shard = Rc::clone(shard);
    turns::spawn(async move {
        let until_released = move || tell.send(()).is_ok() && released.recv().is_err();
        shard.threads.examining.run(until_released).await
    });
    told.await.expect("it is begun before anything else");
    held_up
}

/// Appends a batch that is under way to be examined when this returns, and for as long as that is held up.
async fn begin_heavy(shard: &Rc<Shard>) -> AppendAnswer {
    let answer = append_heavy(shard, FLUSHED);
    assert_eq!(shard.examinations.waiting(), 1);
    while shard.examinations.waiting() > 0 {
        yield_now().await;
    }
    answer
}

fn staged(shard: &Shard) -> u64 {
    shard.store.borrow().staged_before()
}

async fn run(test: impl Future<Output = ()>) {
    let tasks = LocalSet::new();
    let test = timeout(PATIENCE, tasks.run_until(test));
    test.await.expect("nothing is waited for in vain");
}

#[tokio::test]
async fn what_comes_behind_a_heavy_batch_waits_for_it_and_other_partitions_do_not() {
    run(async {
        let shard = unflushed_shard(&SimulatedDisk::new());
        let answers = [
            append_heavy(&shard, FLUSHED),
            append(&shard, FLUSHED),
            append_heavy(&shard, FLUSHED),
            append(&shard, FLUSHED),
        ];
        assert_eq!(staged(&shard), 0);
        let mut beside = append(&shard, MEMORY);
        assert!(beside.try_recv().is_ok(), "it has nothing to wait for");
        shard.start_examining();
        shard.start_flushing();
        for (answer, expected) in answers.into_iter().zip(0..) {
            assert_eq!(offset(answer).await, expected);
        }
    })
    .await;
}

#[tokio::test]
async fn what_comes_while_a_heavy_batch_is_examined_waits_for_it_too() {
    run(async {
        let shard = shard();
        let held_up = hold_up(&shard).await;
        let heavy = begin_heavy(&shard).await;
        let mut light = append(&shard, FLUSHED);
        assert_eq!(staged(&shard), 0);
        assert!(light.try_recv().is_err());
        drop(held_up);
        assert_eq!((offset(heavy).await, offset(light).await), (0, 1));
    })
    .await;
}

/// Appends a batch of the client with this number.
fn append_of(shard: &Shard, client: u8, batch: Bytes) -> AppendAnswer {
    let (request, answer) = AppendRequest::new(FLUSHED, batch, Acks::Quorum);
    shard.append(request.sent_from([127, 0, 0, client].into()));
    answer
}

#[tokio::test]
async fn a_client_waits_for_one_heavy_batch_of_another_and_not_for_all() {
    run(async {
        let shard = shard();
        let held_up = hold_up(&shard).await;
        let now_ms = shard.clock.wall_ms();
        let light = || batch(Compression::None, now_ms, 10);
        let mut answers: Vec<AppendAnswer> = (0..4).map(|_| append_of(&shard, 1, heavy(now_ms))).collect();
        while shard.examinations.waiting() == 4 {
            yield_now().await;
        }
        assert_eq!(offset(append_of(&shard, 2, light())).await, 0, "it is light");
        answers.extend([append_of(&shard, 2, heavy(now_ms)), append_of(&shard, 2, light())]);
        drop(held_up);
        let mut offsets = Vec::new();
        for answer in answers {
            offsets.push(offset(answer).await);
        }
        // The first one is under way; then the clients have one each, in the order they came.
        assert_eq!(offsets, [1, 2, 4, 6, 3, 5]);
        assert_eq!(shard.examinations.waiting(), 0);
        assert_eq!(offset(append_of(&shard, 1, light())).await, 7);
    })
    .await;
}

#[tokio::test]
async fn a_heavy_batch_waits_for_room_in_its_turn() {
    run(async {
        let shard = shard();
        let first = fill_journal(&shard).await;
        let heavy = append_heavy(&shard, FLUSHED);
        let last = append(&shard, FLUSHED);
        while shard.waiting.for_journal.borrow().len() < 3 {
            yield_now().await;
        }
        prepare(&shard);
        shard.append_waiting();
        let first = offset(first).await;
        assert_eq!((offset(heavy).await, offset(last).await), (first + 1, first + 2));
    })
    .await;
}

#[tokio::test]
async fn a_heavy_batch_is_refused_for_its_records_as_any_other() {
    run(async {
        let shard = shard();
        let refused = async |batch: Bytes| {
            let (request, answer) = AppendRequest::new(FLUSHED, batch, Acks::Quorum);
            shard.append(request);
            assert_eq!(shard.examinations.waiting(), 1, "the core does not look at it");
            outcome(answer).await.expect_err("its topic does not take it")
        };
        let now_ms = shard.clock.wall_ms();
        let in_a_week = refused(heavy(now_ms + 7 * 24 * 3_600_000)).await;
        assert!(matches!(in_a_week, AppendRefusal::Records(bad) if bad.has_bad_times()));
        shard.configure_partition(FLUSHED, settings_of(&[("cleanup.policy", "compact")]));
        let keyless = refused(heavy(now_ms)).await;
        assert!(
            matches!(&keyless, AppendRefusal::Records(bad) if bad.named().len() == 1),
            "{keyless:?}"
        );
        assert_eq!(staged(&shard), 0);
    })
    .await;
}

#[tokio::test]
async fn what_a_request_may_unpack_to_is_taken_once_for_each_batch() {
    run(async {
        let shard = shard();
        let batch = heavy(shard.clock.wall_ms());
        let examined = record::examine(&batch, &Limits::default()).expect("it is sound");
        // As much as two of them need.
        let bytes_max = 2 * examined.decompressed_bytes;
        let allowance = Allowance::new(0, bytes_max);
        let append = || {
            let (request, answer) = AppendRequest::new(FLUSHED, batch.clone(), Acks::Quorum);
            shard.append(request.within(Some(allowance.clone())));
            answer
        };
        let (first, second, third) = (append(), append(), append());
        assert_eq!((offset(first).await, offset(second).await), (0, 1));
        let refusal = outcome(third).await.expect_err("nothing is left");
        assert_eq!(refusal, AppendRefusal::RequestDecompressesTooLarge { bytes_max });
    })
    .await;
}

#[tokio::test]
async fn what_nobody_waits_for_any_more_is_not_examined() {
    run(async {
        let shard = shard();
        let held_up = hold_up(&shard).await;
        let first = begin_heavy(&shard).await;
        drop(append_heavy(&shard, FLUSHED));
        let (request, answer) = AppendRequest::new(FLUSHED, heavy(shard.clock.wall_ms()), Acks::None);
        shard.append(request);
        drop(answer);
        let last = append_heavy(&shard, FLUSHED);
        drop(held_up);
        let (first, last) = (offset(first).await, offset(last).await);
        assert_eq!((first, last), (0, 2), "between them is what wanted no answer");
    })
    .await;
}

#[tokio::test]
async fn whoever_waits_to_be_examined_is_told_that_the_shard_stops() {
    run(async {
        let shard = shard();
        let held_up = hold_up(&shard).await;
        let under_way = begin_heavy(&shard).await;
        let behind = append(&shard, FLUSHED);
        shard.drain().await;
        assert_eq!(outcome(behind).await, Err(AppendRefusal::Stopping));
        let frames = staged(&shard);
        drop(held_up);
        assert_eq!(outcome(under_way).await, Err(AppendRefusal::Stopping));
        assert_eq!(staged(&shard), frames);
    })
    .await;
}

#[tokio::test]
async fn a_batch_whose_topic_became_compacted_meanwhile_is_to_be_sent_again() {
    run(async {
        let shard = shard();
        let held_up = hold_up(&shard).await;
        let keyless = begin_heavy(&shard).await;
        shard.configure_partition(FLUSHED, settings_of(&[("cleanup.policy", "compact")]));
        drop(held_up);
        assert_eq!(outcome(keyless).await, Err(AppendRefusal::BecameCompacted));
        assert_eq!(staged(&shard), 0);
    })
    .await;
}

#[tokio::test]
async fn a_batch_of_a_topic_that_is_gone_meanwhile_is_refused() {
    run(async {
        let shard = shard();
        let held_up = hold_up(&shard).await;
        let under_way = begin_heavy(&shard).await;
        let behind = append_heavy(&shard, FLUSHED);
        shard.delete_partition(FLUSHED);
        drop(held_up);
        for answer in [under_way, behind] {
            assert_eq!(outcome(answer).await, Err(AppendRefusal::UnknownPartition));
        }
    })
    .await;
}

#[tokio::test]
async fn what_there_is_room_for_again_is_appended_in_as_many_turns_as_it_takes() {
    run(async {
        let shard = shard();
        let mut answers = vec![fill_journal(&shard).await];
        answers.extend([append(&shard, FLUSHED), append(&shard, FLUSHED)]);
        prepare(&shard);
        turns::spend(TURN_BYTES);
        shard.append_waiting();
        assert_eq!(
            shard.appends_without_room(),
            2,
            "each turn gets on by one at least"
        );
        let mut offsets = Vec::new();
        for answer in answers {
            offsets.push(offset(answer).await);
        }
        assert!(offsets.is_sorted(), "{offsets:?}");
    })
    .await;
}
