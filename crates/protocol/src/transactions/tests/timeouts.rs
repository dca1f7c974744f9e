//! Time: transactions that stay open too long, ids that nobody uses, and clocks that jump.

use std::time::Duration;

use super::super::contract::*;
use super::ends::open;
use super::world::*;

const X: (i64, i16) = (1_000, 0);
const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) fn times_out_from_its_start() {
    let mut world = open();
    world.pass(59 * SECOND);
    assert_eq!(world.run(add(X, &[("late", 0)])), Ok(()));
    assert!(world.persists.is_empty());
    world.pass(SECOND);
    assert_eq!(
        world.persists.len(),
        1,
        "a minute after its start, whatever came since"
    );
    world.persist();
    assert_eq!(world.state(), TransactionState::PrepareAbort);
    assert_eq!(world.markers.len(), 3);
    assert_eq!(
        (world.markers[0].producer_epoch, world.markers[0].version),
        (1, 2)
    );
    world.settle();
    assert_eq!(world.identity(), (1_000, 1));
    let refused = TransactionError::InvalidTxnState {
        state: TransactionState::CompleteAbort,
        commit: true,
    };
    assert_eq!(
        world.now(end(X, true)),
        Err(refused),
        "nothing of it was committed"
    );
    assert_eq!(
        world.now(old_end(X, true)),
        Err(TransactionError::StaleEpoch { current: 1 })
    );
}

#[test]
fn a_transaction_times_out_from_its_start_and_its_producer_is_fenced() {
    times_out_from_its_start();
}

#[test]
fn the_next_transaction_has_its_whole_time() {
    let mut world = open();
    world.pass(50 * SECOND);
    world.run(end(X, true)).expect("commits");
    assert_eq!(world.run(add((1_000, 1), &[("a", 0)])), Ok(()));
    world.pass(59 * SECOND);
    assert!(world.persists.is_empty());
    world.pass(SECOND);
    assert_eq!(world.persists.len(), 1);
}

#[test]
fn an_abort_that_the_log_refuses_is_tried_again_and_raises_the_epoch_once() {
    let mut world = open();
    world.pass(60 * SECOND);
    world.refuse();
    assert!(world.persists.is_empty());
    world.pass(9 * SECOND);
    assert!(world.persists.is_empty());
    world.pass(SECOND);
    world.settle();
    assert_eq!(world.identity(), (1_000, 1));
}

#[test]
fn a_change_under_way_comes_before_the_timeout() {
    let mut world = open();
    let ticket = world.ask(end(X, true));
    world.pass(120 * SECOND);
    assert_eq!(world.persists.len(), 1);
    world.refuse();
    assert!(matches!(
        world.answer(ticket),
        Some(Answer::End(Err(TransactionError::NotPersisted)))
    ));
    world.pass(Duration::ZERO);
    assert_eq!(world.persists.len(), 1, "now it is aborted");
    world.settle();
    assert_eq!(world.state(), TransactionState::CompleteAbort);
}

#[test]
fn what_is_decided_never_times_out() {
    let mut world = open();
    let _ = world.ask(end(X, true));
    world.persist();
    world.pass(10 * DAY);
    assert!(world.persists.is_empty());
    assert_eq!(world.state(), TransactionState::PrepareCommit);
    world.restart();
    world.pass(10 * DAY);
    assert_eq!(world.state(), TransactionState::PrepareCommit);
}

#[test]
fn an_open_transaction_goes_on_with_its_time_after_a_restart() {
    let mut world = open();
    world.pass(20 * SECOND);
    world.restart_after(10 * SECOND, 0);
    assert_eq!(world.coordinator.deadline(), Some(30 * SECOND));
    world.pass(30 * SECOND);
    world.settle();
    assert_eq!(world.state(), TransactionState::CompleteAbort);
}

#[test]
fn a_wall_clock_that_jumps_aborts_nothing() {
    let mut world = open();
    let day_ms = 24 * 60 * 60 * 1_000;
    world.coordinator.handle_wall_clock(world.now, BEGIN_MS + day_ms);
    world.pass(59 * SECOND);
    assert!(world.persists.is_empty());
    // A start while the clock is behind: the transaction has its whole time once more, not for ever.
    world.restart_after(Duration::ZERO, -day_ms);
    world.pass(59 * SECOND);
    assert!(world.persists.is_empty());
    world.pass(SECOND);
    assert_eq!(world.persists.len(), 1);
    // A start while the clock is ahead, which is noticed in time.
    let mut world = open();
    world.restart_after(Duration::ZERO, 50 * 1_000);
    world.coordinator.handle_wall_clock(SECOND, BEGIN_MS + 1_000);
    world.pass(59 * SECOND);
    assert!(world.persists.is_empty());
    world.pass(SECOND);
    assert_eq!(world.persists.len(), 1);
}

#[test]
fn idle_ids_are_forgotten_and_open_ones_are_not() {
    let mut world = World::new();
    world.run(init(None)).expect("a new producer");
    world.pass(6 * DAY);
    assert_eq!(world.run(init(None)).map(|given| given.epoch), Ok(1));
    world.pass(7 * DAY - SECOND);
    assert!(world.persists.is_empty(), "the last change counts");
    world.restart();
    world.pass(SECOND);
    world.refuse();
    assert_eq!(world.coordinator.id_count(), 1);
    world.pass(10 * SECOND);
    assert_eq!(
        world.now(init(None)),
        Err(TransactionError::ConcurrentTransactions)
    );
    world.persist();
    assert_eq!(world.coordinator.id_count(), 0);
    assert_eq!(world.coordinator.held_bytes(), 0);
    assert_eq!(world.log.last().expect("a record").value, None);
    world.assert_replays();
}
