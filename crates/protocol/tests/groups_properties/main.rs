//! What must hold for any history of a coordinator: no partition has two owners, epochs and generations only grow, every
//! ticket is answered once, and what replay gives is what was durable.
//!
//! Clients act at random, static members and others, the log is slow and refuses at times, requests get lost. Each seed is
//! one history.

mod embedded;
mod mixed;
mod separate;
#[path = "../support/mod.rs"]
mod support;

use std::time::Duration;

use proptest::prelude::*;
use protocol::groups::{Assignment, ConsumerHeartbeat, MemberPresence, Name};

/// Who acts: what a client is configured to be outlives whatever member it is.
fn instance_of(who: usize) -> Option<Name> {
    who.is_multiple_of(2).then(|| Name::from(format!("i{who}")))
}

/// A heartbeat of the consumer protocol, with nothing that a member need not say.
fn heartbeat(group: &str, member: &Name, presence: MemberPresence, owned: Assignment) -> ConsumerHeartbeat {
    ConsumerHeartbeat {
        group: Name::from(group),
        member: Name::clone(member),
        presence,
        instance: None,
        rack: None,
        client_id: Name::from("c"),
        client_host: Name::from("/h"),
        rebalance_timeout: Some(Duration::from_secs(3600)),
        topics: None,
        regex: None,
        assignor: None,
        owned: Some(owned),
        random: 0,
    }
}

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
