//! Figures: what is durable counts, once, and the oldest open transaction is known whatever else comes and goes.

use std::time::Duration;

use super::super::Figures;
use super::super::contract::*;
use super::ends::open;
use super::world::*;

const X: (i64, i16) = (1_000, 0);

fn figures(world: &World) -> Figures {
    world.coordinator.figures()
}

#[test]
fn a_transaction_counts_when_it_is_decided_and_is_open_until_it_is_completed() {
    let mut world = open();
    let begun = figures(&world);
    assert_eq!((begun.ids, begun.open), (1, 1));
    assert_eq!(begun.oldest_start_ms, Some(BEGIN_MS));
    let _ = world.ask(end(X, true));
    assert_eq!(figures(&world), begun, "nothing is durable yet");
    world.persist();
    let decided = Figures {
        committed: 1,
        markers_waiting: 2,
        ..begun
    };
    assert_eq!(figures(&world), decided);
    world.mark(Marked::Retry);
    assert_eq!(
        figures(&world),
        Figures {
            markers_retried: 1,
            ..decided
        }
    );
    world.mark(Marked::Done);
    world.pass(Duration::from_millis(100));
    world.settle();
    let completed = Figures {
        ids: 1,
        committed: 1,
        markers_retried: 1,
        ..Figures::default()
    };
    assert_eq!(figures(&world), completed);
}

#[test]
fn aborts_of_producers_and_those_of_time_are_told_apart() {
    let mut world = open();
    world.run(end(X, false)).expect("aborts");
    let aborted = figures(&world);
    assert_eq!((aborted.aborted, aborted.timed_out), (1, 0));
    assert_eq!(world.run(add((1_000, 1), &[("a", 0)])), Ok(()));
    world.pass(Duration::from_secs(60));
    world.settle();
    let timed_out = figures(&world);
    assert_eq!(
        (timed_out.aborted, timed_out.timed_out, timed_out.open),
        (2, 1, 0)
    );
    // An end without a transaction is none.
    world.run(end((1_000, 2), false)).expect("nothing to abort");
    assert_eq!(figures(&world).aborted, 2);
}

#[test]
fn the_oldest_is_known_and_a_restart_counts_nothing_again() {
    let mut world = open();
    world.pass(Duration::from_secs(5));
    let other = InitProducer {
        transactional_id: name("y"),
        ..init(None)
    };
    world.run(other).expect("a second producer");
    let added = AddPartitions {
        transactional_id: name("y"),
        ..add((1_001, 0), &[("a", 0)])
    };
    assert_eq!(world.run(added), Ok(()));
    assert_eq!(figures(&world).oldest_start_ms, Some(BEGIN_MS));
    world.run(end(X, true)).expect("commits");
    assert_eq!(figures(&world).oldest_start_ms, Some(BEGIN_MS + 5_000));
    world.rest();
    world.restart();
    let found = figures(&world);
    assert_eq!((found.ids, found.open, found.committed), (2, 1, 0));
    assert_eq!(found.oldest_start_ms, Some(BEGIN_MS + 5_000));
}
