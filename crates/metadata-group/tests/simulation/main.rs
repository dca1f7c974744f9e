//! Groups of three to five nodes in one thread, from one seed: crashes, torn writes, a bad network, changing voters (docs/simulator.md has the
//! idea, for whole nodes).
//!
//! `METADATA_SEEDS=first..next` chooses other seeds than the few that each test run has; `METADATA_SHOW=seed` writes one seed's trace.

mod engine;
mod failover;
mod history;
mod machine;
mod net;
mod panics;
mod planted_bugs;
mod trace;
mod work;
mod world;

use std::collections::BTreeMap;
use std::ops::Range;

/// The seeds of each test run.
const SEEDS: Range<u64> = 0..100;

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("METADATA_SEEDS") else {
        return SEEDS;
    };
    let parsed = text
        .split_once("..")
        .and_then(|(first, next)| Some(first.parse().ok()?..next.parse().ok()?));
    parsed.expect("METADATA_SEEDS=first..next")
}

#[test]
fn seeds_are_clean() {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut steps, mut wrong) = (0, Vec::new());
    for seed in seeds() {
        let outcome = world::run(seed, false);
        steps += outcome.steps;
        outcome
            .counts
            .iter()
            .for_each(|(what, count)| *counts.entry(what).or_default() += count);
        if let Some(what) = outcome.wrong {
            eprintln!("seed {seed}: {what}");
            wrong.push(seed);
        }
    }
    eprintln!("{} seeds, {steps} steps, {counts:#?}", seeds().count());
    assert!(wrong.is_empty(), "seeds {wrong:?} went wrong");
    for what in [
        "leaders",
        "acknowledged",
        "power cuts in calls",
        "snapshot installed",
        "disks exchanged",
    ] {
        assert!(counts.contains_key(what), "no seed has had {what}");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 1_000..1_010 {
        let (one, other) = (world::run(seed, true), world::run(seed, true));
        let differs = one
            .text
            .lines()
            .zip(other.text.lines())
            .find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed} went two ways");
        assert_eq!(one.hash, other.hash, "the text has all");
        assert_ne!(one.hash, world::run(seed + 100, false).hash, "seeds differ");
    }
}

#[test]
#[ignore = "writes a trace for whoever reads it"]
fn show() {
    let seed = std::env::var("METADATA_SHOW")
        .expect("METADATA_SHOW=seed")
        .parse()
        .expect("a number");
    let outcome = world::run(seed, true);
    eprintln!("{}\n{:?}", outcome.text, outcome.wrong);
}
