//! What must hold for any history of a coordinator: no partition has two owners, epochs and generations only grow, every
//! ticket is answered once, and what replay gives is what was durable.
//!
//! Clients act at random, static members and others, the log is slow and refuses at times, requests get lost. Each seed is
//! one history.

mod embedded;
mod host;
mod member;
mod mixed;
mod separate;
#[path = "../support/mod.rs"]
mod support;
mod transactional;

use planted::{Bug, with};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_keeps_the_promises(seed: u64) {
        let mut world = separate::World::new(seed);
        for _ in 0..300 {
            world.step();
        }
        world.finish();
    }
    #[test]
    fn a_group_that_changes_over_keeps_them_too(seed: u64) {
        let mut world = mixed::World::new(seed);
        for _ in 0..300 {
            world.step();
        }
        world.finish();
    }
    #[test]
    fn transactions_commit_all_and_in_order(seed: u64) {
        transact(seed);
    }
}

fn transact(seed: u64) {
    let mut world = transactional::World::new(seed);
    for _ in 0..300 {
        world.step();
    }
    world.finish();
}

/// Histories that catch none of these prove nothing.
#[test]
fn mistakes_with_transactions_are_caught() {
    for bug in [Bug::PendingShown, Bug::PendingOverridesLater, Bug::StableIgnored] {
        let fails = |seed: &u64| with(bug, || std::panic::catch_unwind(|| transact(*seed))).is_err();
        let caught = (0..100).find(fails);
        let seed = caught.unwrap_or_else(|| panic!("{bug:?} was not caught"));
        eprintln!("{bug:?} is caught by seed {seed}");
    }
}
