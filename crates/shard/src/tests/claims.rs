//! Appends that depend on the tail, where a scribe keeps the order: they wait for a promise, and their leader keeps silent meanwhile.

use planted::{Bug, with};
use protocol::ProducerId;
use protocol::order::{Committed, LANE, Ordered};
use record::{BatchBuilder, Epoch, Position};

use super::*;
use crate::{Claimed, Conditions};

const ORDERED: PartitionId = PartitionId {
    topic: TopicId([7; 16]),
    index: LANE,
};
const TOTAL: [(&str, &str); 1] = [("ropewalk.order", "total")];

/// A shard whose partition the scribe has answered: nothing of it is ordered.
fn claiming_shard() -> Rc<Shard> {
    let shard = shard_with_order(ORDERED);
    shard.handle_ordered(&told(0, 0, 0));
    assert_eq!(shard.take_order_reports(true), []);
    shard
}

fn told(position: u64, first: i64, next: i64) -> Ordered {
    Ordered {
        partition: ORDERED,
        epoch: Epoch(0),
        position: Position(position),
        first: Offset(first),
        next: Offset(next),
    }
}

fn report(epoch: i32, tail: i64) -> Committed {
    Committed {
        partition: ORDERED,
        epoch: Epoch(epoch),
        log_start: Offset::ZERO,
        tail: Offset(tail),
    }
}

fn begun(first: i64) -> Result<Option<Claimed>, AppendRefusal> {
    Ok(Some(Claimed {
        epoch: Epoch(0),
        first: Offset(first),
    }))
}

/// Appends a batch, of a producer if there is a sequence, that is for a position.
fn append_for(shard: &Shard, position: u64, sequence: Option<i32>) -> AppendAnswer {
    let mut builder = BatchBuilder::new(Compression::None);
    if let Some(sequence) = sequence {
        builder.set_producer(4, 1, sequence);
    }
    builder.append(0, None, Some(b"value"), &[]);
    let (request, answer) = AppendRequest::new(ORDERED, builder.build(), Acks::Quorum);
    let tail = Some(Position(position));
    shard.append(request.only_if(Conditions { tail, offset: None }));
    answer
}

async fn reported(shard: &Shard, tail: i64) {
    let told = async {
        while shard.take_order_reports(true) != [report(0, tail)] {
            shard.until_reports().await;
        }
    };
    timeout(PATIENCE, told).await.expect("it is committed");
}

#[tokio::test]
async fn what_is_for_a_position_waits_for_the_promise_and_its_leader_is_silent_until_it_is_committed() {
    let test = async {
        let shard = claiming_shard();
        let answer = append_for(&shard, 9, None);
        assert_eq!(shard.claiming(), [ORDERED]);
        assert_eq!(shard.next_claim(ORDERED), Some(Position(9)));
        assert_eq!(shard.next_offset(ORDERED), Ok(Offset(0)), "it is not staged");
        assert_eq!(shard.begin_claim(ORDERED), begun(0));
        assert_eq!(shard.begin_claim(ORDERED), Ok(None), "one at a time");
        shard.report_anew(ORDERED);
        assert_eq!(
            shard.take_order_reports(true),
            [],
            "another scribe must not go on"
        );
        let spoken = with(Bug::ClaimReported, || shard.take_order_reports(true));
        assert_eq!(spoken, [report(0, 0)], "the bug is planted");
        shard.append_claimed(ORDERED, Position(9));
        assert_eq!(shard.next_offset(ORDERED), Ok(Offset(1)));
        assert_eq!(shard.next_claim(ORDERED), None);
        shard.end_claim(ORDERED);
        assert_eq!(shard.take_order_reports(true), [], "it is staged");
        reported(&shard, 1).await;
        shard.handle_ordered(&told(9, 0, 1));
        let outcome = outcome(answer).await.expect("it is ordered");
        assert_eq!(outcome.position, Some(Position(9)));
        assert_eq!(shard.begin_claim(ORDERED), begun(1));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_claim_that_comes_to_nothing_ends() {
    let test = async {
        let shard = claiming_shard();
        // The client goes.
        drop(append_for(&shard, 0, None));
        assert_eq!(shard.next_claim(ORDERED), None);
        drop(append_for(&shard, 0, None));
        assert_eq!(shard.begin_claim(ORDERED), begun(0));
        shard.append_claimed(ORDERED, Position(0));
        assert_eq!(
            shard.take_order_reports(false),
            [report(0, 0)],
            "the promise is to end"
        );
        // Another append gets the offset.
        let refused = append_for(&shard, 0, None);
        assert_eq!(shard.begin_claim(ORDERED), begun(0));
        let other = append(&shard, ORDERED);
        shard.append_claimed(ORDERED, Position(0));
        let moved = AppendRefusal::TailMoved {
            wanted: Position(0),
            tail: Position(0),
        };
        assert_eq!(outcome(refused).await, Err(moved.clone()));
        reported(&shard, 1).await;
        shard.handle_ordered(&told(0, 0, 1));
        outcome(other).await.expect("it is ordered");
        // The scribe refuses.
        let refused = append_for(&shard, 0, None);
        assert_eq!(shard.begin_claim(ORDERED), begun(1));
        shard.end_claim(ORDERED);
        shard.refuse_claim(ORDERED, Position(0), moved.clone());
        assert_eq!(outcome(refused).await, Err(moved));
        assert_eq!(shard.next_claim(ORDERED), None);
        // Nobody is there to promise anything.
        let refused = [append_for(&shard, 1, None), append_for(&shard, 1, None)];
        shard.refuse_claims(ORDERED, &AppendRefusal::OrderNotOpen);
        for refused in refused {
            assert_eq!(outcome(refused).await, Err(AppendRefusal::OrderNotOpen));
        }
        let stopped = append_for(&shard, 1, None);
        shard.drain().await;
        assert_eq!(outcome(stopped).await, Err(AppendRefusal::Stopping));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn what_is_there_already_asks_for_no_position() {
    let test = async {
        let shard = claiming_shard();
        shard.set_next_producer_id(ProducerId(5));
        let first = append_for(&shard, 0, Some(0));
        assert_eq!(shard.begin_claim(ORDERED), begun(0));
        shard.append_claimed(ORDERED, Position(0));
        reported(&shard, 1).await;
        shard.handle_ordered(&told(0, 0, 1));
        let first = outcome(first).await.expect("it is the tail");
        for position in [0, 1] {
            let again = outcome(append_for(&shard, position, Some(0))).await;
            assert_eq!(again.expect("it is there").first_offset, first.first_offset);
            assert_eq!(shard.next_claim(ORDERED), None);
        }
        assert_eq!(shard.begin_claim(ORDERED), begun(1), "no claim was left behind");
    };
    LocalSet::new().run_until(test).await;
}

/// The order is given up and taken up again while something is staged that was promised a position.
#[tokio::test]
async fn a_promise_is_remembered_whatever_the_order_becomes() {
    let test = async {
        let shard = claiming_shard();
        let answer = append_for(&shard, 0, None);
        assert_eq!(shard.begin_claim(ORDERED), begun(0));
        shard.append_claimed(ORDERED, Position(0));
        shard.configure_partition(ORDERED, settings_of(&[]));
        shard.configure_partition(ORDERED, settings_of(&TOTAL));
        assert_eq!(shard.take_order_reports(true), [], "it is not committed");
        reported(&shard, 1).await;
        // Another one was given the position.
        shard.handle_ordered(&told(0, 0, 0));
        shard.handle_ordered(&told(3, 0, 1));
        assert_eq!(outcome(answer).await, Err(AppendRefusal::Abandoned));
        let late = append_for(&shard, 4, None);
        assert_eq!(shard.begin_claim(ORDERED), begun(1));
        shard.configure_partition(ORDERED, settings_of(&[]));
        shard.append_claimed(ORDERED, Position(4));
        assert_eq!(outcome(late).await, Err(AppendRefusal::NoOrder));
        assert_eq!(shard.next_offset(ORDERED), Ok(Offset(1)), "nothing was appended");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn an_epoch_ends_what_was_claimed_in_it() {
    let test = async {
        let shard = claiming_shard();
        assert_eq!(shard.begin_claim(ORDERED), begun(0));
        shard.open_epoch(ORDERED, Epoch(1)).expect("it is led here");
        assert_eq!(shard.take_order_reports(true), [report(1, 0)]);
    };
    LocalSet::new().run_until(test).await;
}
