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
}
