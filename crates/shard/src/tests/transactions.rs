//! Transactions that are open in a partition: what operators are told of them, and the end of one that no coordinator knows.

use protocol::ProducerId;
use protocol::leader::EndMarker;

use super::*;

const PRODUCER: i64 = 7;
const EPOCH: i16 = 2;

/// A shard whose producer was given its id.
fn shard_with_producer() -> Rc<Shard> {
    let shard = shard();
    shard.set_next_producer_id(ProducerId(PRODUCER + 1));
    shard
}

/// Appends a batch in a transaction.
fn append_inside(shard: &Shard, sequence: i32) -> AppendAnswer {
    let mut builder = BatchBuilder::new(Compression::None).with_producer(PRODUCER, EPOCH, sequence);
    builder.set_transactional(true);
    builder.append(shard.clock.wall_ms(), None, Some(b"v"), &[]);
    let (request, answer) = AppendRequest::new(FLUSHED, builder.build(), Acks::Quorum);
    let claim = Claim {
        transactional_id: "x".into(),
        adds: false,
    };
    shard.append(request.in_transaction(Some(claim)));
    answer
}

/// Has the question of a batch answered like this.
async fn answer_question(shard: &Shard, answer: Result<(), Unverified>) {
    let asked = timeout(PATIENCE, shard.until_questions()).await;
    asked.expect("a coordinator is asked");
    let question = shard.next_question().expect("it was told of");
    shard.verified(&question, answer);
}

async fn run(test: impl Future<Output = ()>) {
    let tasks = LocalSet::new();
    let test = timeout(PATIENCE, tasks.run_until(test));
    test.await.expect("nothing is waited for in vain");
}

#[tokio::test]
async fn a_transaction_that_no_coordinator_knows_is_told_and_can_be_ended() {
    run(async {
        let shard = shard_with_producer();
        assert_eq!(offset(append(&shard, FLUSHED)).await, 0);
        let first = append_inside(&shard, 0);
        answer_question(&shard, Ok(())).await;
        assert_eq!(offset(first).await, 1);
        assert_eq!(offset(append_inside(&shard, 1)).await, 2);
        let look = |from, max| {
            let open = shard.open_transactions(FLUSHED, Offset(from), max);
            open.expect("it is led here")
        };
        let open = look(0, 10);
        assert_eq!((open.stable, open.tail), (Offset(1), Offset(3)));
        let [found] = open.found[..] else {
            panic!("one is open: {open:?}");
        };
        assert_eq!(
            (found.first_offset, found.producer),
            (Offset(1), ProducerId(PRODUCER))
        );
        assert_eq!((found.producer_epoch, found.coordinator_epoch), (EPOCH, -1));
        assert_eq!(found.last.map(|batch| batch.first_offset), Some(Offset(2)));
        assert!(look(2, 10).found.is_empty() && look(0, 0).found.is_empty());
        assert_eq!(shard.unstable_records().await, [(FLUSHED.topic, 2)].into());

        // In the epoch of its records, as operators have it ended.
        let marker = EndMarker {
            producer: found.producer,
            epoch: found.producer_epoch,
            coordinator_epoch: found.coordinator_epoch.max(0),
            commit: false,
            has_own_epoch: false,
            timestamp_ms: shard.clock.wall_ms(),
        };
        let (request, ended) = AppendRequest::ending(FLUSHED, marker);
        shard.end_transaction(request);
        assert_eq!(offset(ended).await, 3);
        let open = look(0, 10);
        assert_eq!((open.stable, open.tail), (Offset(4), Offset(4)));
        assert!(open.found.is_empty());
        assert!(shard.unstable_records().await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn questions_to_coordinators_are_counted_with_those_that_are_refused() {
    run(async {
        let shard = shard_with_producer();
        let refused = append_inside(&shard, 0);
        answer_question(&shard, Err(Unverified::NotAdded)).await;
        let refusal = outcome(refused).await.expect_err("nobody knows it");
        assert_eq!(refusal, AppendRefusal::Unverified(Unverified::NotAdded));
        let counters = &shard.counters;
        assert_eq!(
            (counters.verifications.get(), counters.refused_verifications.get()),
            (1, 1)
        );
        let taken = append_inside(&shard, 0);
        answer_question(&shard, Ok(())).await;
        assert_eq!(offset(taken).await, 0);
        assert_eq!(
            (counters.verifications.get(), counters.refused_verifications.get()),
            (2, 1)
        );
    })
    .await;
}

/// Appends a batch in a transaction of this epoch.
fn append_in_epoch(shard: &Shard, epoch: i16, sequence: i32) -> AppendAnswer {
    let mut builder = BatchBuilder::new(Compression::None).with_producer(PRODUCER, epoch, sequence);
    builder.set_transactional(true);
    builder.append(shard.clock.wall_ms(), None, Some(b"v"), &[]);
    let (request, answer) = AppendRequest::new(FLUSHED, builder.build(), Acks::Quorum);
    let claim = Claim {
        transactional_id: "x".into(),
        adds: true,
    };
    shard.append(request.in_transaction(Some(claim)));
    answer
}

fn end(shard: &Shard, producer_epoch: i16, commit: bool) -> AppendAnswer {
    let marker = EndMarker {
        producer: ProducerId(PRODUCER),
        epoch: producer_epoch,
        coordinator_epoch: 0,
        commit,
        has_own_epoch: true,
        timestamp_ms: shard.clock.wall_ms(),
    };
    let (request, ended) = AppendRequest::ending(FLUSHED, marker);
    shard.end_transaction(request);
    ended
}

#[tokio::test]
async fn batches_behind_a_question_keep_their_order() {
    run(async {
        let shard = shard_with_producer();
        let answers: Vec<AppendAnswer> = (0..4).map(|sequence| append_inside(&shard, sequence)).collect();
        // Nobody else waits for a coordinator.
        assert_eq!(offset(append(&shard, FLUSHED)).await, 0);
        answer_question(&shard, Ok(())).await;
        for (at, answer) in (1..).zip(answers) {
            assert_eq!(offset(answer).await, at);
        }
        assert!(shard.next_question().is_none(), "one question is enough");
    })
    .await;
}

#[tokio::test]
async fn a_batch_that_comes_before_the_end_of_the_transaction_before_waits_for_that() {
    run(async {
        let shard = shard_with_producer();
        let before = append_in_epoch(&shard, EPOCH, 0);
        answer_question(&shard, Ok(())).await;
        assert_eq!(offset(before).await, 0);
        // The outcome is decided, and the producer goes on; its marker is on its way.
        let next: Vec<AppendAnswer> = (0..3)
            .map(|sequence| append_in_epoch(&shard, EPOCH + 1, sequence))
            .collect();
        let asked = timeout(PATIENCE, shard.until_questions()).await;
        asked.expect("a coordinator is asked");
        let first = shard.next_question().expect("it was told of");
        assert_eq!(first.producer_epoch, EPOCH + 1);
        assert_eq!(offset(end(&shard, EPOCH + 1, true)).await, 1);
        shard.verified(&first, Ok(()));
        answer_question(&shard, Ok(())).await;
        for (at, answer) in (2..).zip(next) {
            assert_eq!(offset(answer).await, at);
        }
        assert!(shard.next_question().is_none());
    })
    .await;
}

#[tokio::test]
async fn a_batch_whose_transaction_before_does_not_end_is_refused_at_last() {
    run(async {
        let shard = shard_with_producer();
        let before = append_in_epoch(&shard, EPOCH, 0);
        answer_question(&shard, Ok(())).await;
        assert_eq!(offset(before).await, 0);
        let next = append_in_epoch(&shard, EPOCH + 1, 0);
        // The coordinator knows of no end that is due.
        answer_question(&shard, Ok(())).await;
        assert!(outcome(next).await.is_err());
        assert!(shard.next_question().is_none(), "it is asked once");
        let busy = append_in_epoch(&shard, EPOCH + 1, 0);
        answer_question(&shard, Err(Unverified::Busy)).await;
        let refused = outcome(busy).await;
        assert_eq!(refused, Err(AppendRefusal::Unverified(Unverified::Busy)));
    })
    .await;
}

#[tokio::test]
async fn an_answer_of_before_a_marker_opens_nothing() {
    run(async {
        let shard = shard_with_producer();
        let late = append_inside(&shard, 0);
        timeout(PATIENCE, shard.until_questions())
            .await
            .expect("a coordinator is asked");
        let question = shard.next_question().expect("it was told of");
        // It has nothing to end, and has come all the same.
        offset(end(&shard, EPOCH + 1, false)).await;
        shard.verified(&question, Ok(()));
        let refused = outcome(late).await;
        assert_eq!(refused, Err(AppendRefusal::Unverified(Unverified::Busy)));
        assert_eq!(offset(append(&shard, FLUSHED)).await, 0);
    })
    .await;
}

#[tokio::test]
#[should_panic(expected = "assertion")]
async fn a_permit_that_survives_a_marker_is_found_out() {
    run(async {
        let shard = shard_with_producer();
        let late = append_inside(&shard, 0);
        timeout(PATIENCE, shard.until_questions())
            .await
            .expect("a coordinator is asked");
        let question = shard.next_question().expect("it was told of");
        planted::with(planted::Bug::PermitSurvives, || {
            drop(end(&shard, EPOCH + 1, false))
        });
        shard.verified(&question, Ok(()));
        let refused = outcome(late).await;
        assert_eq!(refused, Err(AppendRefusal::Unverified(Unverified::Busy)));
    })
    .await;
}

#[tokio::test]
async fn a_later_tenure_is_not_refused_for_an_earlier_one() {
    run(async {
        let shard = shard_with_producer();
        let zombie = append_in_epoch(&shard, EPOCH, 0);
        let next = append_in_epoch(&shard, EPOCH + 1, 0);
        answer_question(&shard, Err(Unverified::Fenced)).await;
        assert_eq!(
            outcome(zombie).await,
            Err(AppendRefusal::Unverified(Unverified::Fenced))
        );
        answer_question(&shard, Ok(())).await;
        assert_eq!(offset(next).await, 0);
    })
    .await;
}

#[tokio::test]
async fn readers_of_committed_records_see_up_to_the_first_open_transaction() {
    run(async {
        let shard = shard_with_producer();
        let read = async |committed_only| {
            let read = ReadRequest {
                partition: FLUSHED,
                from: Offset::ZERO,
                bytes_max: 1 << 20,
                epoch: None,
                from_any: false,
                near: None,
                ordered_until: None,
                committed_only,
            };
            let found = shard.read(read).await.expect("it can be read");
            let batches = found.batches.iter().flat_map(|bytes| record::batches(bytes));
            let offsets = batches
                .map(|batch| batch.expect("whole").0.base_offset.0)
                .collect::<Vec<_>>();
            (offsets, found.stable.0, found.aborted.len())
        };
        assert_eq!(offset(append(&shard, FLUSHED)).await, 0);
        let inside = append_in_epoch(&shard, EPOCH, 0);
        answer_question(&shard, Ok(())).await;
        assert_eq!(offset(inside).await, 1);
        assert_eq!(offset(append(&shard, FLUSHED)).await, 2);
        assert_eq!(read(true).await, (vec![0], 1, 0));
        assert_eq!(read(false).await, (vec![0, 1, 2], 1, 0));
        assert_eq!(offset(end(&shard, EPOCH + 1, false)).await, 3);
        assert_eq!(read(true).await, (vec![0, 1, 2, 3], 4, 1));
        // The same marker once more.
        offset(end(&shard, EPOCH + 1, false)).await;
        assert_eq!(read(true).await, (vec![0, 1, 2, 3], 4, 1));
    })
    .await;
}
