//! Mistakes put in on purpose: each must be seen within a few seeds.

use planted::{Bug, with};

use crate::world;

/// The first seed that fails with a bug, and how.
fn caught(bug: Bug, seeds: u64) -> Option<(u64, String)> {
    with(bug, || {
        (0..seeds).find_map(|seed| Some((seed, world::run(seed, false).wrong?)))
    })
}

#[test]
fn planted_bugs_are_caught() {
    let bugs = [
        Bug::MetadataVoteNotFlushed,
        Bug::MetadataEntriesAckedEarly,
        Bug::MetadataTornTailKept,
        Bug::MetadataTruncationForgotten,
        Bug::MetadataSnapshotNotSaved,
    ];
    let mut missed = Vec::new();
    for bug in bugs {
        match caught(bug, 400) {
            Some((seed, how)) => {
                eprintln!("{bug:?}: seed {seed}: {}", how.lines().next().unwrap_or_default())
            }
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
