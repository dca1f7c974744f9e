//! Partitions: in the transaction when that is durable, and verified as they are then.

use super::super::contract::*;
use super::ends::open;
use super::world::*;

const X: (i64, i16) = (1_000, 0);

fn outcomes(result: Result<Vec<VerifiedPartition>, TransactionError>) -> Vec<bool> {
    let verified = result.expect("looked at");
    for verified in &verified {
        let outcome = &verified.outcome;
        assert!(matches!(
            outcome,
            Ok(()) | Err(TransactionError::TransactionAbortable)
        ));
    }
    verified.iter().map(|verified| verified.outcome.is_ok()).collect()
}

#[test]
fn partitions_are_in_when_that_is_durable() {
    let mut world = World::new();
    world.run(init(None)).expect("a new producer");
    let ticket = world.ask(add(X, &[("a", 0)]));
    assert_eq!(world.answer(ticket), None);
    assert_eq!(outcomes(world.now(verify(X, &[("a", 0)]))), [false]);
    world.persist();
    assert_eq!(world.answer(ticket), Some(Answer::AddPartitions(Ok(()))));
    assert_eq!(
        outcomes(world.now(verify(X, &[("a", 0), ("a", 1)]))),
        [true, false]
    );
    assert_eq!(world.describe().start_ms, BEGIN_MS);
    world.assert_replays();
}

#[test]
fn partitions_that_are_in_are_answered_at_once() {
    let mut world = open();
    assert_eq!(world.now(add(X, &[("b", 3), ("a", 0)])), Ok(()));
    assert!(world.persists.is_empty());
    let ticket = world.ask(add(X, &[("b", 3), ("c", 0)]));
    let busy = Err(TransactionError::ConcurrentTransactions);
    assert_eq!(world.now(add(X, &[("d", 0)])), busy);
    assert_eq!(outcomes(world.now(verify(X, &[("b", 3)]))), [true], "that stays");
    world.persist();
    assert_eq!(world.answer(ticket), Some(Answer::AddPartitions(Ok(()))));
    assert_eq!(world.describe().partitions.len(), 3);
    assert_eq!(world.now(add(X, &[])), Ok(()));
}

#[test]
fn partitions_that_the_log_refuses_are_not_in() {
    let mut world = open();
    let ticket = world.ask(add(X, &[("c", 0)]));
    world.refuse();
    assert_eq!(
        world.answer(ticket),
        Some(Answer::AddPartitions(Err(TransactionError::NotPersisted)))
    );
    assert_eq!(outcomes(world.now(verify(X, &[("c", 0)]))), [false]);
}

#[test]
fn nothing_is_verified_of_a_transaction_that_ends() {
    let mut world = open();
    let _ = world.ask(end(X, true));
    let busy = Err(TransactionError::ConcurrentTransactions);
    assert_eq!(
        world.now(verify(X, &[("a", 0)])),
        busy,
        "the outcome is being written"
    );
    world.persist();
    let next = (1_000, 1);
    assert_eq!(world.now(verify(next, &[("a", 0)])), busy);
    let stale = Err(TransactionError::StaleEpoch { current: 1 });
    assert_eq!(
        world.now(verify(X, &[("a", 0)])),
        stale,
        "before anything that can be retried"
    );
    world.settle();
    assert_eq!(outcomes(world.now(verify(next, &[("a", 0)]))), [false]);
    let unmapped = Err(TransactionError::InvalidProducerIdMapping);
    assert_eq!(world.now(verify((5, 1), &[("a", 0)])), unmapped);
}

#[test]
fn the_next_transaction_does_not_have_the_partitions_of_the_last() {
    let mut world = open();
    world.run(end(X, true)).expect("commits");
    assert_eq!(world.run(add((1_000, 1), &[("z", 9)])), Ok(()));
    assert_eq!(world.describe().partitions, [partition("z", 9)]);
    let ticket = world.ask(end((1_000, 1), true));
    world.persist();
    assert!(world.answer(ticket).is_some());
    assert_eq!(world.markers.len(), 1);
}

#[test]
fn an_unknown_id_has_no_transactions() {
    let mut world = World::new();
    let unmapped = TransactionError::InvalidProducerIdMapping;
    assert_eq!(world.now(add(X, &[("a", 0)])), Err(unmapped.clone()));
    assert_eq!(world.now(verify(X, &[("a", 0)])), Err(unmapped));
    let described = world.now(DescribeTransaction {
        transactional_id: name("x"),
    });
    assert!(matches!(
        described,
        Err(TransactionError::TransactionalIdNotFound { .. })
    ));
}

#[test]
fn ids_are_listed_by_state_producer_and_age() {
    let mut world = open();
    let other = InitProducer {
        transactional_id: name("y"),
        ..init(None)
    };
    world.run(other).expect("a second producer");
    world.pass(std::time::Duration::from_secs(10));
    let all = ListTransactions {
        states: vec![],
        producers: vec![],
        duration_ms: -1,
        partition: None,
    };
    let mut names = |filter: ListTransactions| -> Vec<String> {
        let listed = world.now(filter).expect("listed");
        listed
            .iter()
            .map(|listed| listed.transactional_id.to_string())
            .collect()
    };
    assert_eq!(names(all.clone()), ["x", "y"]);
    assert_eq!(
        names(ListTransactions {
            states: vec![TransactionState::Ongoing],
            ..all.clone()
        }),
        ["x"]
    );
    assert_eq!(
        names(ListTransactions {
            producers: vec![crate::ProducerId(1_001)],
            ..all.clone()
        }),
        ["y"]
    );
    assert_eq!(
        names(ListTransactions {
            duration_ms: 9_999,
            ..all.clone()
        }),
        ["x", "y"]
    );
    assert_eq!(
        names(ListTransactions {
            duration_ms: 10_000,
            ..all.clone()
        }),
        ["y"]
    );
    let mut with = |topic, index| {
        names(ListTransactions {
            partition: Some(partition(topic, index)),
            ..all.clone()
        })
    };
    assert_eq!((with("a", 0), with("a", 9)), (vec!["x".to_owned()], vec![]));
}
