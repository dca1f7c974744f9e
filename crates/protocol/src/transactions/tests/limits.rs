//! Limits: whatever grows is refused before it does, and what is refused can be asked again where that helps.

use std::time::Duration;

use super::super::contract::*;
use super::super::{Coordinator, Settings};
use super::world::*;
use crate::groups::Ticket;

const X: (i64, i16) = (1_000, 0);

fn is_limit<T: std::fmt::Debug>(result: Result<T, TransactionError>) -> bool {
    matches!(result, Err(TransactionError::LimitReached { .. }))
}

#[test]
fn nothing_is_taken_before_the_log_is_read() {
    let mut coordinator = Coordinator::new(Settings::default(), 1, 0);
    coordinator.handle_request(Duration::ZERO, Ticket(1), init(None).into());
    let Some(Action::Answer { answer, .. }) = coordinator.next_action() else {
        panic!("no answer");
    };
    assert_eq!(answer, Answer::Init(Err(TransactionError::CoordinatorLoading)));
    assert_eq!(coordinator.deadline(), None);
}

#[test]
fn there_are_so_many_ids_and_no_more() {
    let mut world = World::with(Settings {
        ids_max: 1,
        ..Settings::default()
    });
    world.run(init(None)).expect("the first");
    let other = InitProducer {
        transactional_id: name("y"),
        ..init(None)
    };
    assert!(is_limit(world.now(other)));
    world.run(init(None)).expect("the first again");
    let refused = world.now(InitProducer {
        transactional_id: name(""),
        ..init(None)
    });
    assert!(matches!(refused, Err(TransactionError::InvalidRequest { .. })));
    let long = name(&"i".repeat(32_768));
    let refused = world.now(InitProducer {
        transactional_id: long,
        ..init(None)
    });
    assert!(matches!(refused, Err(TransactionError::InvalidRequest { .. })));
}

#[test]
fn a_transaction_has_so_many_partitions_and_its_record_fits() {
    let settings = Settings {
        partitions_max: 3,
        record_bytes_max: 250,
        ..Settings::default()
    };
    let mut world = World::with(settings);
    world.run(init(None)).expect("a new producer");
    assert!(is_limit(
        world.now(add(X, &[("a", 0), ("a", 1), ("a", 2), ("a", 3)]))
    ));
    assert_eq!(world.run(add(X, &[("a", 0), ("a", 1)])), Ok(()));
    assert!(is_limit(world.now(add(X, &[("a", 2), ("a", 3)]))));
    assert!(is_limit(world.now(add(X, &[(&"t".repeat(200), 0)]))));
    assert_eq!(world.run(add(X, &[("a", 2)])), Ok(()));
}

#[test]
fn memory_is_bounded() {
    let mut world = World::with(Settings {
        held_bytes_max: 700,
        ..Settings::default()
    });
    world.run(init(None)).expect("a new producer");
    assert_eq!(world.run(add(X, &[("a", 0)])), Ok(()));
    assert!(is_limit(world.now(add(X, &[("b", 0)]))));
    assert!(is_limit(world.now(InitProducer {
        transactional_id: name("y"),
        ..init(None)
    })));
    world.run(end(X, true)).expect("an end always has room");
    assert_eq!(world.run(add((1_000, 1), &[("b", 0)])), Ok(()));
}

#[test]
fn while_much_waits_for_the_log_clients_come_again_and_timers_wait() {
    let mut world = World::with(Settings {
        waiting_bytes_max: 1,
        ..Settings::default()
    });
    world.run(init(None)).expect("a new producer");
    world.run(add(X, &[("a", 0)])).expect("opened");
    let other = InitProducer {
        transactional_id: name("y"),
        ..init(None)
    };
    let waiting = world.ask(other);
    world.take();
    assert_eq!(
        world.now(add(X, &[("b", 0)])),
        Err(TransactionError::NotPersisted)
    );
    assert_eq!(world.now(end(X, true)), Err(TransactionError::NotPersisted));
    assert_eq!(world.now(init(None)), Err(TransactionError::NotPersisted));
    world.pass(Duration::from_secs(70));
    assert_eq!(world.persists.len(), 1, "the timeout waits as well");
    world.persist();
    assert!(world.answer(waiting).is_some());
    world.pass(Duration::from_millis(100));
    world.settle();
    assert_eq!(world.state(), TransactionState::CompleteAbort);
}

#[test]
fn an_image_gives_the_same_ids_in_parts() {
    let mut world = World::new();
    for id in ["x", "y", "z"] {
        world
            .run(InitProducer {
                transactional_id: name(id),
                ..init(None)
            })
            .expect("a new producer");
    }
    let (mut records, mut from) = (Vec::new(), Some(name("")));
    while let Some(first) = from {
        let (part, next) = world.coordinator.image_from(&first, 1);
        records.extend(part);
        from = next;
    }
    assert!(world.coordinator.image().eq(records));
}
