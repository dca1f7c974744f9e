//! A leader of a topic whose order a scribe keeps: it reports what is committed, and shows what it is told to be ordered.

use planted::{Bug, with};
use protocol::order::{Committed, Ordered};
use record::{Epoch, Position};

use super::*;

const ORDERED: PartitionId = PartitionId {
    topic: TopicId([7; 16]),
    index: 3,
};

fn reporting_shard() -> Rc<Shard> {
    shard_with_order(ORDERED)
}

fn report(epoch: i32, tail: i64) -> Committed {
    Committed {
        partition: ORDERED,
        epoch: Epoch(epoch),
        log_start: Offset::ZERO,
        tail: Offset(tail),
    }
}

fn told(epoch: i32, position: u64, first: i64, next: i64) -> Ordered {
    Ordered {
        partition: ORDERED,
        epoch: Epoch(epoch),
        position: Position(position),
        first: Offset(first),
        next: Offset(next),
    }
}

/// The end of what readers may see, if the leader knows it.
fn shown(shard: &Shard) -> Result<i64, NotLed> {
    shard.shown_tail(ORDERED).map(|tail| tail.0)
}

#[tokio::test]
async fn what_is_committed_is_reported_and_shown_when_it_is_ordered() {
    LocalSet::new()
        .run_until(async {
            let shard = reporting_shard();
            assert_eq!(
                shown(&shard),
                Err(NotLed::NotOpen),
                "nobody has said how far it is ordered"
            );
            assert_eq!(shard.take_order_reports(false), [report(0, 0)]);
            shard.handle_ordered(&told(0, 0, 0, 0));
            assert_eq!(shown(&shard), Ok(0));
            assert_eq!(shard.take_order_reports(true), [], "it is answered");
            let answers: Vec<AppendAnswer> = (0..2).map(|_| append(&shard, ORDERED)).collect();
            timeout(PATIENCE, async {
                while shard.take_order_reports(false) != [report(0, 2)] {
                    shard.until_reports().await;
                }
            })
            .await
            .expect("both are committed");
            assert_eq!(shown(&shard), Ok(0), "they are not ordered yet");
            assert_eq!(shard.take_order_reports(false), [], "they were reported");
            assert_eq!(
                shard.take_order_reports(true),
                [report(0, 2)],
                "the word may be lost"
            );
            shard.handle_ordered(&told(0, 40, 0, 2));
            for (answer, position) in answers.into_iter().zip([40, 41]) {
                let outcome = outcome(answer).await.expect("it is ordered");
                assert_eq!(outcome.position, Some(Position(position)));
            }
            assert_eq!(shown(&shard), Ok(2));
            shard.handle_ordered(&told(0, 40, 0, 1));
            assert_eq!(shown(&shard), Ok(2), "an earlier word takes nothing back");
            assert!(!shard.take_order_reports(true).contains(&report(0, 2)));
        })
        .await;
}

/// Whoever carries reports is woken by each commit, whatever is not answered.
#[tokio::test]
async fn each_commit_is_news() {
    LocalSet::new()
        .run_until(async {
            let shard = reporting_shard();
            assert_eq!(shard.take_order_reports(false), [report(0, 0)]);
            shard.handle_ordered(&told(0, 0, 0, 0));
            for tail in 1..4 {
                let _appended = append(&shard, ORDERED);
                let told = async {
                    shard.until_reports().await;
                    while shard.take_order_reports(false) != [report(0, tail)] {
                        shard.until_reports().await;
                    }
                };
                timeout(PATIENCE, told).await.expect("it is told at once");
            }
        })
        .await;
}

#[tokio::test]
async fn a_later_epoch_shows_nothing_before_it_is_told() {
    LocalSet::new()
        .run_until(async {
            let shard = reporting_shard();
            shard.handle_ordered(&told(0, 0, 0, 0));
            shard.open_epoch(ORDERED, Epoch(1)).expect("it is led here");
            let remembered = with(Bug::OrderedRemembered, || shown(&shard));
            assert_eq!(remembered, Ok(0), "the bug is planted");
            assert_eq!(shown(&shard), Err(NotLed::NotOpen));
            shard.handle_ordered(&told(0, 0, 0, 0));
            assert_eq!(shown(&shard), Err(NotLed::NotOpen), "that is of the epoch before");
            assert_eq!(shard.take_order_reports(false), [report(1, 0)]);
            shard.handle_ordered(&told(1, 0, 0, 0));
            assert_eq!(shown(&shard), Ok(0));
        })
        .await;
}

#[tokio::test]
async fn another_scribe_is_told_anew() {
    LocalSet::new()
        .run_until(async {
            let shard = reporting_shard();
            shard.handle_ordered(&told(0, 0, 0, 0));
            assert_eq!(shard.take_order_reports(true), []);
            shard.report_anew(ORDERED);
            assert_eq!(shard.take_order_reports(false), [report(0, 0)]);
            assert_eq!(shown(&shard), Ok(0), "readers do not wait for that");
            shard.handle_ordered(&told(0, 0, 0, 0));
            assert_eq!(shard.take_order_reports(true), []);
        })
        .await;
}

#[tokio::test]
async fn what_an_order_names_is_read_before_it_is_shown() {
    LocalSet::new()
        .run_until(async {
            let shard = reporting_shard();
            shard.handle_ordered(&told(0, 0, 0, 0));
            let _appended = append(&shard, ORDERED);
            timeout(PATIENCE, shard.until_reports())
                .await
                .expect("it is committed");
            let read = |ordered_until| ReadRequest {
                partition: ORDERED,
                from: Offset::ZERO,
                bytes_max: usize::MAX,
                epoch: None,
                from_any: true,
                near: None,
                ordered_until,
                committed_only: false,
            };
            let unordered = shard.read(read(None)).await.expect("it is led here");
            assert_eq!((unordered.tail, unordered.bytes), (Offset(0), 0));
            let named = shard.read(read(Some(Offset(1)))).await.expect("it is committed");
            assert!(named.bytes > 0, "a page names it");
            let beyond = shard.read(read(Some(Offset(2)))).await;
            assert_eq!(
                beyond.err(),
                Some(ReadRefusal::NotLeader),
                "nobody has committed so much"
            );
        })
        .await;
}
