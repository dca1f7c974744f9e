//! Batches that are compressed anew: in order, and never more of what has grown than a shard has room for.

use tokio::task::yield_now;

use super::super::examinations::GROWN_BYTES_MAX;
use super::*;

/// Far more than a few KB of it unpack to a second time.
const UNPACKED_BYTES: usize = 250_000;

fn uncompressed() -> TopicSettings {
    settings_of(&[("compression.type", "uncompressed")])
}

fn append_packed(shard: &Shard) -> AppendAnswer {
    let batch = batch(Compression::Gzip, shard.clock.wall_ms(), UNPACKED_BYTES);
    let (request, answer) = AppendRequest::new(FLUSHED, batch, Acks::Quorum);
    shard.append(request);
    answer
}

async fn run(test: impl Future<Output = ()>) {
    let tasks = LocalSet::new();
    let test = timeout(PATIENCE, tasks.run_until(test));
    test.await.expect("nothing is waited for in vain");
}

/// Waits until whatever can be compressed anew is so.
async fn settle(shard: &Shard) {
    let here = || (shard.examinations.waiting(), shard.grown_bytes());
    let mut before = None;
    while before != Some(here()) {
        before = Some(here());
        shard.threads.examining.run(|| ()).await;
        for _ in 0..10 {
            yield_now().await;
        }
    }
}

/// Fills the journal, and has more batches wait behind that than may grow while they wait. Returns the answers to come.
async fn have_more_wait_than_may_grow(shard: &Shard) -> (AppendAnswer, Vec<AppendAnswer>) {
    let first = fill_journal(shard).await;
    shard.configure_partition(FLUSHED, uncompressed());
    let count = GROWN_BYTES_MAX / UNPACKED_BYTES + 10;
    let answers = (0..count).map(|_| append_packed(shard)).collect();
    settle(shard).await;
    (first, answers)
}

#[tokio::test]
async fn what_has_grown_and_waits_for_room_is_bounded_and_keeps_its_order() {
    run(async {
        let shard = shard();
        let (first, answers) = have_more_wait_than_may_grow(&shard).await;
        let grown = shard.grown_bytes();
        assert!(
            (GROWN_BYTES_MAX..GROWN_BYTES_MAX + UNPACKED_BYTES).contains(&grown),
            "{grown}"
        );
        assert!(shard.examinations.waiting() > 0, "the rest is as it was sent");

        shard.start_background();
        let first = offset(first).await;
        for (answer, place) in answers.into_iter().zip(1..) {
            assert_eq!(offset(answer).await, first + place);
        }
        assert_eq!(shard.grown_bytes(), 0);
    })
    .await;
}

#[tokio::test]
async fn what_waits_for_others_to_have_room_is_refused_with_them() {
    run(async {
        let shard = shard();
        let (first, answers) = have_more_wait_than_may_grow(&shard).await;
        shard.drain().await;
        for answer in [first].into_iter().chain(answers) {
            assert_eq!(outcome(answer).await, Err(AppendRefusal::Stopping));
        }
    })
    .await;
}
