//! InitProducerId: new ids, instances that take over, instances that go on, and fences.

use super::super::contract::*;
use super::ends::open;
use super::world::*;
use crate::ProducerId;

fn identity(producer: i64, epoch: i16) -> Result<Initialized, TransactionError> {
    let producer = ProducerId(producer);
    Ok(Initialized { producer, epoch })
}

fn stale(current: i16) -> Result<Initialized, TransactionError> {
    Err(TransactionError::StaleEpoch { current })
}

const BUSY: Result<Initialized, TransactionError> = Err(TransactionError::ConcurrentTransactions);

#[test]
fn a_new_id_gets_a_producer_id_and_is_told_when_that_is_durable() {
    let mut world = World::new();
    let ticket = world.ask(init(None));
    assert_eq!(world.now(init(None)), BUSY);
    assert_eq!(world.take(), ProducerId(1_000));
    assert_eq!(world.answer(ticket), None);
    assert_eq!(world.now(init(None)), BUSY);
    world.persist();
    assert_eq!(world.answer(ticket), Some(Answer::Init(identity(1_000, 0))));
    assert_eq!(world.state(), TransactionState::Empty);
    world.assert_replays();
}

#[test]
fn a_new_id_that_fails_leaves_nothing() {
    let mut world = World::new();
    let ticket = world.ask(init(None));
    world.take_fails();
    assert_eq!(
        world.answer(ticket),
        Some(Answer::Init(Err(TransactionError::NoProducerId)))
    );
    assert_eq!(world.coordinator.id_count(), 0);
    let ticket = world.ask(init(None));
    world.take();
    world.refuse();
    assert_eq!(
        world.answer(ticket),
        Some(Answer::Init(Err(TransactionError::NotPersisted)))
    );
    assert_eq!(world.coordinator.id_count(), 0);
}

#[test]
fn an_instance_that_takes_over_gets_the_next_epoch() {
    let mut world = World::new();
    assert_eq!(world.run(init(None)), identity(1_000, 0));
    assert_eq!(world.run(init(None)), identity(1_000, 1));
    assert_eq!(world.now(init(Some((1_000, 0)))), stale(1), "that one is fenced");
    let refused = world.now(add((1_000, 0), &[("a", 0)]));
    assert_eq!(refused, Err(TransactionError::StaleEpoch { current: 1 }));
}

pub(super) fn newcomer_aborts_first() {
    let mut world = open();
    let ticket = world.ask(init(None));
    assert_eq!(world.answer(ticket), None);
    world.persist();
    assert_eq!(world.answer(ticket), Some(Answer::Init(BUSY)));
    assert_eq!(world.state(), TransactionState::PrepareAbort);
    assert_eq!(world.markers.len(), 2);
    for marker in &world.markers {
        assert_eq!(
            (marker.producer_epoch, marker.commit, marker.version),
            (1, false, 2)
        );
    }
    assert_eq!(world.now(init(None)), BUSY, "partitions are not told yet");
    world.settle();
    assert_eq!(world.run(init(None)), identity(1_000, 2));
    assert_eq!(world.now(init(Some((1_000, 0)))), stale(2));
    world.assert_replays();
}

#[test]
fn an_instance_that_takes_over_aborts_an_open_transaction_first() {
    newcomer_aborts_first();
}

#[test]
fn a_fence_that_fails_raises_the_epoch_once() {
    let mut world = open();
    for _ in 0..3 {
        let ticket = world.ask(init(None));
        world.refuse();
        assert_eq!(
            world.answer(ticket),
            Some(Answer::Init(Err(TransactionError::NotPersisted)))
        );
        assert_eq!(world.identity(), (1_000, 0));
    }
    assert_eq!(world.run(init(None)), BUSY);
    assert_eq!(world.identity(), (1_000, 1));
    assert_eq!(world.run(init(None)), identity(1_000, 2));
}

#[test]
fn an_instance_that_names_its_epoch_goes_on() {
    let mut world = World::new();
    assert_eq!(world.run(init(None)), identity(1_000, 0));
    assert_eq!(world.run(init(Some((1_000, 0)))), identity(1_000, 1));
    // The answer is lost: it is given again, even by a coordinator that has only the log.
    assert_eq!(world.run(init(Some((1_000, 0)))), identity(1_000, 1));
    world.restart();
    assert_eq!(world.run(init(Some((1_000, 0)))), identity(1_000, 1));
    // Once the epoch is used nobody asks for it again.
    assert_eq!(world.run(add((1_000, 1), &[("a", 0)])), Ok(()));
    assert_eq!(world.now(init(Some((1_000, 0)))), stale(1));
    assert_eq!(
        world.state(),
        TransactionState::Ongoing,
        "and nothing is aborted for a stale one"
    );
    assert_eq!(world.now(init(Some((7, 1)))), stale(1));
}

#[test]
fn an_instance_that_has_its_own_transaction_aborted_goes_on() {
    let mut world = open();
    assert_eq!(world.run(init(Some((1_000, 0)))), BUSY);
    assert_eq!(world.state(), TransactionState::CompleteAbort);
    world.rest();
    world.restart();
    assert_eq!(world.run(init(Some((1_000, 0)))), identity(1_000, 1));
}

#[test]
fn used_up_epochs_lead_to_another_id() {
    let mut world = World::at_epoch(32_765);
    assert_eq!(world.run(init(None)), identity(1_000, 32_766));
    assert_eq!(world.run(init(Some((1_000, 32_766)))), identity(1_001, 0));
    assert_eq!(
        world.run(init(Some((1_000, 32_766)))),
        identity(1_001, 0),
        "the same again"
    );
    world.restart();
    assert_eq!(world.run(init(Some((1_000, 32_766)))), identity(1_001, 0));
    assert_eq!(world.run(init(None)), identity(1_001, 1));
    assert_eq!(
        world.now(init(Some((1_000, 32_766)))),
        stale(1),
        "another instance took over"
    );
}

#[test]
fn a_fence_of_used_up_epochs_takes_another_id() {
    let mut world = World::at_epoch(32_766);
    assert_eq!(world.run(add((1_000, 32_766), &[("a", 0)])), Ok(()));
    let ticket = world.ask(init(None));
    let next = world.take().0;
    world.persist();
    assert_eq!(world.answer(ticket), Some(Answer::Init(BUSY)));
    assert_eq!(
        (world.markers[0].producer.0, world.markers[0].producer_epoch),
        (1_000, 32_767)
    );
    world.settle();
    assert_eq!(world.run(init(None)), identity(next, 1));
}

#[test]
fn an_id_that_was_forgotten_begins_anew() {
    let mut world = World::new();
    assert_eq!(world.run(init(Some((77, 5)))), identity(1_000, 0));
}

#[test]
fn impossible_timeouts_are_refused() {
    let mut world = World::new();
    for timeout_ms in [0, -1, i32::MIN, 15 * 60 * 1_000 + 1] {
        let refused = world.now(InitProducer {
            timeout_ms,
            ..init(None)
        });
        assert!(
            matches!(refused, Err(TransactionError::InvalidTimeout { .. })),
            "{timeout_ms}"
        );
    }
    let longest = InitProducer {
        timeout_ms: 15 * 60 * 1_000,
        ..init(None)
    };
    assert_eq!(world.run(longest), identity(1_000, 0));
}
