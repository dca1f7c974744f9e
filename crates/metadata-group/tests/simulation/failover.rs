//! How long a group of three is without a leader when that is killed, in simulated time: a good network, a disk that flushes in half a
//! millisecond mostly.

use std::time::Duration;

use bytes::Bytes;
use metadata_group::Settings;
use platform::random::SeededRandom;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::history::History;
use crate::machine::{Change, Machine};
use crate::net::Net;
use crate::trace::Trace;

fn leader(machines: &[Machine]) -> Option<usize> {
    let leads = |machine: &Machine| machine.group().is_some_and(|group| group.status().is_leader);
    machines.iter().position(leads)
}

async fn pass(engine: &mut Engine, ms: u64) {
    engine
        .run(Instant::now() + Duration::from_millis(ms), || false)
        .await;
}

/// The times from each kill to the next leader's first commit.
async fn kill_leaders(seed: u64) -> Vec<Duration> {
    let mut random = SeededRandom::new(seed);
    let (trace, history) = (Trace::new(false), History::default());
    let mut engine = Engine::new(random.split(), trace.clone());
    let (net, delivering) = Net::new(random.split(), trace.clone(), history.clone());
    engine.add(delivering);
    net.calm();
    let new = |node| {
        let (net, history, trace) = (net.clone(), history.clone(), trace.clone());
        Machine::new(node, Settings::default(), net, history, trace, random.split())
    };
    let mut machines: Vec<Machine> = (1..=3).map(new).collect();
    machines
        .iter_mut()
        .for_each(|machine| machine.start(&mut engine, machine.member.node == 1));
    pass(&mut engine, 1_000).await;
    for at in [1, 2] {
        for change in [
            Change::AddLearner(machines[at].member),
            Change::AddVoter(machines[at].member),
        ] {
            drop(machines[0].change(change));
            pass(&mut engine, 1_000).await;
        }
    }
    let mut times = Vec::new();
    let mut value = 0_u64;
    for _ in 0..10 {
        let killed = leader(&machines).expect("all is calm");
        machines[killed].kill(&mut engine);
        let began = Instant::now();
        while leader(&machines).is_none() {
            pass(&mut engine, 1).await;
        }
        let before = history.acknowledged_count();
        while history.acknowledged_count() == before {
            // A new leader takes nothing before a majority has answered it.
            value += 1;
            if let Some(next) = leader(&machines) {
                machines[next].propose(Bytes::copy_from_slice(&value.to_le_bytes()));
            }
            pass(&mut engine, 2).await;
            assert!(began.elapsed() < Duration::from_secs(10), "nothing is committed");
        }
        times.push(began.elapsed());
        machines[killed].start(&mut engine, false);
        pass(&mut engine, 1_500).await;
    }
    assert_eq!(history.wrong(), None);
    times
}

#[test]
#[ignore = "measures, in simulated time"]
fn time_from_a_killed_leader_to_the_next_commit() {
    let mut times = Vec::new();
    for seed in 0..20 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        times.extend(runtime.expect("a runtime").block_on(kill_leaders(seed)));
    }
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    eprintln!(
        "of {}: p10 {:?}, p50 {:?}, p90 {:?}, max {:?}",
        times.len(),
        at(10),
        at(50),
        at(90),
        at(100)
    );
}
