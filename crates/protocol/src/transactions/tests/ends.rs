//! The ends of transactions: what is durable when, which retries are known again, and which epochs are over.

use std::time::Duration;

use super::super::contract::*;
use super::world::*;
use crate::ProducerId;

const X: (i64, i16) = (1_000, 0);

fn ended(producer: i64, epoch: i16) -> Result<Ended, TransactionError> {
    let producer = ProducerId(producer);
    Ok(Ended { producer, epoch })
}

fn cannot_end(state: TransactionState, commit: bool) -> Result<Ended, TransactionError> {
    Err(TransactionError::InvalidTxnState { state, commit })
}

fn stale<T>(current: i16) -> Result<T, TransactionError> {
    Err(TransactionError::StaleEpoch { current })
}

/// A producer 1000 of epoch 0 with an open transaction in two partitions.
pub(super) fn open() -> World {
    let mut world = World::new();
    assert_eq!(
        world.run(init(None)),
        Ok(Initialized {
            producer: ProducerId(1_000),
            epoch: 0
        })
    );
    assert_eq!(world.run(add(X, &[("a", 0), ("b", 3)])), Ok(()));
    assert_eq!(world.state(), TransactionState::Ongoing);
    world
}

pub(super) fn commits_in_order() {
    let mut world = open();
    let ticket = world.ask(end(X, true));
    assert_eq!(world.answer(ticket), None, "nothing is told before it is durable");
    assert_eq!(world.markers, [], "no partition is told either");
    assert_eq!(world.state(), TransactionState::Ongoing);
    world.persist();
    assert_eq!(world.answer(ticket), Some(Answer::End(ended(1_000, 1))));
    assert_eq!(world.state(), TransactionState::PrepareCommit);
    let expected: Vec<_> = [partition("a", 0), partition("b", 3)]
        .into_iter()
        .zip(&world.markers)
        .map(|(partition, marker)| WriteMarker {
            id: marker.id,
            partition,
            producer: ProducerId(1_000),
            producer_epoch: 1,
            coordinator_epoch: 1,
            commit: true,
            version: 2,
        })
        .collect();
    assert_eq!(world.markers, expected);
    world.mark(Marked::Done);
    assert!(world.persists.is_empty(), "one partition is not told yet");
    assert_eq!(world.state(), TransactionState::PrepareCommit);
    world.mark(Marked::Done);
    assert_eq!(world.state(), TransactionState::CompleteCommit);
    assert_eq!(world.identity(), (1_000, 1));
    world.assert_replays();
    // The next one, with the epoch that was told.
    assert_eq!(world.run(add((1_000, 1), &[("a", 0)])), Ok(()));
    assert_eq!(world.run(add(X, &[("a", 0)])), stale(1));
}

#[test]
fn a_commit_is_durable_then_told_then_marked_then_completed() {
    commits_in_order();
}

/// An operator's request to end the transaction that began then.
fn abort(start_ms: i64) -> AbortTransaction {
    AbortTransaction {
        transactional_id: name("x"),
        start_ms,
    }
}

#[test]
fn an_operator_aborts_the_transaction_that_is_meant_and_no_other() {
    let mut world = World::new();
    assert_eq!(
        world.now(abort(BEGIN_MS)),
        Err(TransactionError::TransactionalIdNotFound {
            transactional_id: name("x")
        })
    );
    world = open();
    world.pass(Duration::from_secs(1));
    let other = TransactionError::InvalidTxnState {
        state: TransactionState::Ongoing,
        commit: false,
    };
    assert_eq!(world.now(abort(BEGIN_MS + 1_000)), Err(other));
    let ticket = world.ask(abort(BEGIN_MS));
    assert_eq!(world.answer(ticket), None, "nothing is told before it is durable");
    assert_eq!(
        world.now(abort(BEGIN_MS)),
        Err(TransactionError::ConcurrentTransactions)
    );
    world.persist();
    assert_eq!(world.answer(ticket), Some(Answer::Abort(Ok(()))));
    assert_eq!(world.state(), TransactionState::PrepareAbort);
    world.settle();
    assert_eq!(world.state(), TransactionState::CompleteAbort);
    assert_eq!(world.coordinator.figures().timed_out, 0);
    // Its producer is fenced, and nothing is open any more.
    assert_eq!(world.run(add(X, &[("a", 0)])), stale(1));
    let ended = TransactionError::InvalidTxnState {
        state: TransactionState::CompleteAbort,
        commit: false,
    };
    assert_eq!(world.now(abort(BEGIN_MS)), Err(ended));
    world.assert_replays();
}

#[test]
fn an_abort_that_the_log_refuses_is_to_be_asked_for_again() {
    let mut world = open();
    let ticket = world.ask(abort(BEGIN_MS));
    world.refuse();
    assert_eq!(
        world.answer(ticket),
        Some(Answer::Abort(Err(TransactionError::NotPersisted)))
    );
    assert_eq!(world.state(), TransactionState::Ongoing);
    assert_eq!(world.run(abort(BEGIN_MS)), Ok(()));
}

#[test]
fn a_transaction_of_version_1_ends_without_another_epoch() {
    let mut world = open();
    let old = AddPartitions {
        version: 0,
        ..add(X, &[("c", 1)])
    };
    assert_eq!(world.run(old), Ok(()));
    let ticket = world.ask(old_end(X, false));
    world.persist();
    assert_eq!(world.answer(ticket), Some(Answer::End(ended(1_000, 0))));
    let marker = world.markers[0].clone();
    assert_eq!(
        (marker.producer_epoch, marker.version, marker.commit),
        (0, 0, false)
    );
    // While it is being completed, whatever is asked has to come again.
    let busy = TransactionError::ConcurrentTransactions;
    assert_eq!(world.now(old_end(X, false)), Err(busy.clone()));
    assert_eq!(world.now(old_end(X, true)), Err(busy));
    world.settle();
    // The same end again is known; the other one is refused, and so is an end of nothing.
    assert_eq!(world.now(old_end(X, false)), ended(1_000, 0));
    assert_eq!(
        world.now(old_end(X, true)),
        cannot_end(TransactionState::CompleteAbort, true)
    );
    world.run(init(None)).expect("an instance takes over");
    assert_eq!(
        world.now(old_end((1_000, 1), true)),
        cannot_end(TransactionState::Empty, true)
    );
}

#[test]
fn before_version_2_a_late_end_ends_a_later_transaction() {
    // KAFKA-17754 as it remains for old clients: nothing tells the late request from a new one.
    let mut world = open();
    assert_eq!(world.run(old_end(X, true)), ended(1_000, 0));
    assert_eq!(world.run(add(X, &[("a", 0)])), Ok(()));
    assert_eq!(world.run(old_end(X, true)), ended(1_000, 0));
    assert_eq!(world.state(), TransactionState::CompleteCommit);
}

#[test]
fn a_late_end_of_version_2_does_not_touch_a_later_transaction() {
    let mut world = open();
    assert_eq!(world.run(end(X, true)), ended(1_000, 1));
    assert_eq!(world.run(add((1_000, 1), &[("a", 0)])), Ok(()));
    assert_eq!(world.now(end(X, true)), stale(1));
    assert_eq!(world.now(end(X, false)), stale(1));
    assert_eq!(world.state(), TransactionState::Ongoing);
}

#[test]
fn an_end_that_comes_again_gets_the_same_answer() {
    let mut world = open();
    let busy = TransactionError::ConcurrentTransactions;
    let first = world.ask(end(X, true));
    assert_eq!(
        world.now(end(X, true)),
        Err(busy.clone()),
        "the first is being written"
    );
    world.persist();
    assert_eq!(world.answer(first), Some(Answer::End(ended(1_000, 1))));
    assert_eq!(world.now(end(X, true)), ended(1_000, 1));
    assert_eq!(
        world.now(end(X, false)),
        cannot_end(TransactionState::PrepareCommit, false)
    );
    assert_eq!(
        world.now(end((1_000, 1), false)),
        Err(busy),
        "that is the next transaction's"
    );
    world.settle();
    assert_eq!(world.now(end(X, true)), ended(1_000, 1));
    assert_eq!(
        world.now(end(X, false)),
        cannot_end(TransactionState::CompleteCommit, false)
    );
    world.rest();
    world.restart();
    assert_eq!(world.now(end(X, true)), ended(1_000, 1));
    assert_eq!(world.now(end((1_000, 5), true)), stale(1));
}

pub(super) fn empty_end_raises_the_epoch() {
    let mut world = World::new();
    world.run(init(None)).expect("a new producer");
    let first = world.ask(end(X, false));
    // KAFKA-18464: what is under way comes before the epoch.
    let busy = TransactionError::ConcurrentTransactions;
    assert_eq!(world.now(end(X, false)), Err(busy));
    world.persist();
    assert_eq!(world.answer(first), Some(Answer::End(ended(1_000, 1))));
    assert_eq!(world.markers, []);
    assert_eq!(world.state(), TransactionState::CompleteAbort);
    assert_eq!(world.now(end(X, false)), ended(1_000, 1));
    assert_eq!(world.run(end((1_000, 1), false)), ended(1_000, 2));
    world.assert_replays();
}

#[test]
fn a_commit_of_nothing_is_refused() {
    // Its records are on their way (KAFKA-18401): they would be part of a transaction that nobody commits.
    let mut world = World::new();
    world.run(init(None)).expect("a new producer");
    let refused = |state| cannot_end(state, true);
    assert_eq!(world.now(end(X, true)), refused(TransactionState::Empty));
    assert_eq!(world.run(end(X, false)), ended(1_000, 1));
    let next = (1_000, 1);
    assert_eq!(
        world.now(end(next, true)),
        refused(TransactionState::CompleteAbort)
    );
    assert_eq!(world.run(add(next, &[("a", 0)])), Ok(()));
    assert_eq!(world.run(end(next, true)), ended(1_000, 2));
    let last = (1_000, 2);
    assert_eq!(
        world.now(end(last, true)),
        refused(TransactionState::CompleteCommit)
    );
    assert_eq!(world.identity(), last);
    world.assert_replays();
}

#[test]
fn an_abort_without_a_transaction_raises_the_epoch_and_does_not_fence_its_producer() {
    empty_end_raises_the_epoch();
}

pub(super) fn epochs_are_used_up() {
    let mut world = World::at_epoch(32_766);
    let last = (1_000, 32_766);
    assert_eq!(world.run(add(last, &[("a", 0)])), Ok(()));
    let ticket = world.ask(end(last, true));
    assert_eq!(world.answer(ticket), None);
    assert_eq!(
        world.now(end(last, true)),
        Err(TransactionError::ConcurrentTransactions)
    );
    let next = world.take().0;
    world.persist();
    assert_eq!(world.answer(ticket), Some(Answer::End(ended(next, 0))));
    let marker = world.markers[0].clone();
    assert_eq!((marker.producer.0, marker.producer_epoch), (1_000, 32_767));
    assert_eq!(world.now(end(last, true)), ended(next, 0));
    // The producer goes on with its new id before the old transaction is completed: it has to wait, and is not refused.
    let busy = TransactionError::ConcurrentTransactions;
    assert_eq!(world.now(add((next, 0), &[("a", 0)])), Err(busy.clone()));
    assert_eq!(world.now(end((next, 0), false)), Err(busy));
    world.restart();
    assert_eq!(world.markers[0].producer_epoch, 32_767);
    world.settle();
    assert_eq!(world.identity(), (next, 0));
    assert_eq!(world.now(end(last, true)), ended(next, 0));
    assert_eq!(
        world.now(end(last, false)),
        cannot_end(TransactionState::CompleteCommit, false)
    );
    assert_eq!(world.run(add((next, 0), &[("a", 0)])), Ok(()));
    let unmapped = TransactionError::InvalidProducerIdMapping;
    assert_eq!(world.now(end(last, true)), Err(unmapped.clone()));
    assert_eq!(world.now(add(last, &[("a", 0)])), Err(unmapped));
}

#[test]
fn a_producer_whose_epochs_are_used_up_goes_on_with_another_id() {
    epochs_are_used_up();
}

#[test]
fn without_another_id_the_last_transaction_stays_open() {
    let mut world = World::at_epoch(32_766);
    let last = (1_000, 32_766);
    assert_eq!(world.run(add(last, &[("a", 0)])), Ok(()));
    let ticket = world.ask(end(last, true));
    world.take_fails();
    assert_eq!(
        world.answer(ticket),
        Some(Answer::End(Err(TransactionError::NoProducerId)))
    );
    assert_eq!(world.state(), TransactionState::Ongoing);
    assert_eq!(world.run(end(last, true)), ended(1_001, 0));
}

#[test]
fn an_outcome_that_the_log_refuses_is_none() {
    let mut world = open();
    let ticket = world.ask(end(X, true));
    world.refuse();
    assert_eq!(
        world.answer(ticket),
        Some(Answer::End(Err(TransactionError::NotPersisted)))
    );
    assert_eq!(world.state(), TransactionState::Ongoing);
    assert_eq!(world.markers, []);
    assert_eq!(world.run(end(X, false)), ended(1_000, 1));
    assert_eq!(world.state(), TransactionState::CompleteAbort);
}

#[test]
fn ends_of_others_are_refused() {
    let mut world = open();
    let unmapped = TransactionError::InvalidProducerIdMapping;
    assert_eq!(world.now(end((999, 0), true)), Err(unmapped.clone()));
    assert_eq!(world.now(end((1_000, 1), true)), stale(0));
    assert_eq!(world.now(end((1_000, i16::MAX), true)), stale(0));
    let elsewhere = EndTransaction {
        transactional_id: name("y"),
        ..end(X, true)
    };
    assert_eq!(world.now(elsewhere), Err(unmapped));
    assert_eq!(world.state(), TransactionState::Ongoing);
}
