//! Markers: sent until each partition has its own or is gone, after restarts too, and never counted for another transaction.

use std::time::Duration;

use super::super::contract::*;
use super::super::entry::COMPLETION_REST;
use super::ends::open;
use super::world::*;

const X: (i64, i16) = (1_000, 0);
const PAUSE: Duration = Duration::from_millis(100);

/// Two markers are under way.
fn decided() -> World {
    let mut world = open();
    let _ = world.ask(end(X, true));
    world.persist();
    assert_eq!(world.markers.len(), 2);
    world
}

/// Both partitions have theirs; the log does not have that.
fn completed() -> World {
    let mut world = decided();
    world.mark(Marked::Done);
    world.mark(Marked::Done);
    assert_eq!(world.state(), TransactionState::CompleteCommit);
    assert!(world.persists.is_empty());
    world
}

#[test]
fn a_marker_is_sent_again_after_a_pause() {
    let mut world = decided();
    let first = world.mark(Marked::Retry);
    world.mark(Marked::Done);
    assert!(world.markers.is_empty() && world.persists.is_empty());
    assert_eq!(world.coordinator.deadline(), Some(PAUSE));
    world.pass(PAUSE);
    assert_eq!(world.markers, [first]);
    world.mark(Marked::Retry);
    world.pass(PAUSE);
    world.mark(Marked::Done);
    assert_eq!(world.state(), TransactionState::CompleteCommit);
}

#[test]
fn a_partition_that_is_gone_needs_no_marker() {
    let mut world = decided();
    world.mark(Marked::PartitionGone);
    world.mark(Marked::Done);
    assert_eq!(world.state(), TransactionState::CompleteCommit);
}

pub(super) fn restart_sends_markers_again() {
    let mut world = decided();
    world.mark(Marked::Done);
    world.restart();
    assert_eq!(world.markers.len(), 2, "nobody knows which of them arrived");
    for marker in &world.markers {
        assert_eq!((marker.coordinator_epoch, marker.producer_epoch), (2, 1));
        assert!(marker.commit);
    }
    assert_eq!(
        world.now(add((1_000, 1), &[("a", 0)])),
        Err(TransactionError::ConcurrentTransactions)
    );
    world.settle();
    assert_eq!(world.state(), TransactionState::CompleteCommit);
    assert_eq!(world.run(add((1_000, 1), &[("a", 0)])), Ok(()));
}

#[test]
fn after_a_restart_the_markers_of_what_is_decided_are_sent_again() {
    restart_sends_markers_again();
}

#[test]
fn a_completion_that_the_log_refuses_is_written_again() {
    let mut world = completed();
    world.pass(COMPLETION_REST);
    world.refuse();
    assert!(world.persists.is_empty());
    world.pass(Duration::from_secs(1));
    world.persist();
    world.restart();
    assert!(world.markers.is_empty());
    assert_eq!(world.state(), TransactionState::CompleteCommit);
}

#[test]
fn a_completion_is_written_when_it_has_rested() {
    let mut world = completed();
    world.pass(COMPLETION_REST - Duration::from_millis(1));
    assert!(world.persists.is_empty());
    world.pass(Duration::from_millis(1));
    assert_eq!(
        world.now(add((1_000, 1), &[("a", 0)])),
        Err(TransactionError::ConcurrentTransactions),
        "until its record is durable"
    );
    world.persist();
    world.restart();
    assert!(world.markers.is_empty());
    assert_eq!(world.state(), TransactionState::CompleteCommit);
    assert_eq!(world.run(add((1_000, 1), &[("a", 0)])), Ok(()));
}

#[test]
fn the_next_transaction_stands_in_the_place_of_a_completion() {
    let mut world = completed();
    let records = world.log.len();
    assert_eq!(world.run(add((1_000, 1), &[("a", 0)])), Ok(()));
    assert_eq!(world.log.len(), records + 1);
    world.pass(COMPLETION_REST);
    assert!(world.persists.is_empty());
    world.restart();
    assert_eq!(world.state(), TransactionState::Ongoing);
    assert!(
        world.markers.is_empty(),
        "of the transaction before nobody needs to be told"
    );
}

#[test]
fn a_completion_stays_to_be_written_when_the_log_refuses_what_came_in_its_place() {
    let mut world = completed();
    let ticket = world.ask(add((1_000, 1), &[("a", 0)]));
    world.refuse();
    let refused = Answer::AddPartitions(Err(TransactionError::NotPersisted));
    assert_eq!(world.answer(ticket), Some(refused));
    assert_eq!(world.state(), TransactionState::CompleteCommit);
    world.pass(COMPLETION_REST);
    world.persist();
    world.restart();
    assert!(world.markers.is_empty());
}

#[test]
fn after_a_restart_a_completion_that_was_not_written_is_found_again() {
    let mut world = completed();
    world.restart();
    assert_eq!(world.state(), TransactionState::PrepareCommit);
    assert_eq!(world.markers.len(), 2);
    world.settle();
    assert_eq!(world.state(), TransactionState::CompleteCommit);
    assert_eq!(world.run(add((1_000, 1), &[("a", 0)])), Ok(()));
}

pub(super) fn old_markers_count_for_nothing() {
    let mut world = decided();
    let old = world.mark(Marked::Done);
    world.mark_again(&old, Marked::Done);
    assert!(world.persists.is_empty(), "one partition counts once");
    world.settle();
    assert_eq!(world.run(add((1_000, 1), &[("a", 0), ("b", 3)])), Ok(()));
    let _ = world.ask(end((1_000, 1), true));
    world.persist();
    // Late words about the first transaction (KAFKA-16352).
    world.mark_again(&old, Marked::Done);
    world.mark_again(&old, Marked::PartitionGone);
    world.mark_again(&old, Marked::Fenced);
    world.mark_again(&old, Marked::Retry);
    assert!(world.persists.is_empty());
    assert_eq!(world.markers.len(), 2);
    assert_eq!(world.coordinator.deadline(), None);
    world.settle();
    assert_eq!(world.identity(), (1_000, 2));
}

#[test]
fn late_words_about_an_old_marker_count_for_nothing() {
    old_markers_count_for_nothing();
}

#[test]
fn a_fenced_coordinator_leaves_the_transaction_alone() {
    let mut world = decided();
    let fenced = world.mark(Marked::Fenced);
    let other = world.mark(Marked::Done);
    world.mark_again(&fenced, Marked::Done);
    world.mark_again(&other, Marked::Retry);
    world.pass(Duration::from_secs(3_600));
    assert!(world.persists.is_empty() && world.markers.is_empty());
    assert_eq!(world.state(), TransactionState::PrepareCommit);
    assert_eq!(world.coordinator.deadline(), None);
}
