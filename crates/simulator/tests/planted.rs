//! Planted bugs that a client can notice, each found through the wire. A simulation that finds none proves nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use planted::{Bug, with};
use simulator::{Options, run};

/// A bug that needs more seeds than this is not found: nobody would see it in time.
const SEEDS_MAX: u64 = 500;

/// Each bug with a seed that finds it. `tests/soak planted` tells new ones, as the seeds change with whatever the node does.
const FOUND_BY: [(Bug, u64); 28] = [
    (Bug::AckBeforeFlush, 0),
    (Bug::FrameChecksumIgnored, 2),
    (Bug::StaleFrameAccepted, 0),
    (Bug::TailCutDespiteLaterFrames, 1),
    (Bug::ReleasedBeforeCheckpoint, 1),
    (Bug::RunNotSynced, 0),
    (Bug::RemovedBeforeTrimIsDurable, 46),
    (Bug::SequenceAfterFrame, 0),
    (Bug::NamesNotSynced, 0),
    (Bug::LastFrameNotSettled, 0),
    (Bug::AdoptedFileReused, 7),
    (Bug::RetryWrittenAgain, 0),
    (Bug::ProducersForgotten, 0),
    (Bug::LaterBatchesForgotten, 0),
    (Bug::CommittedWhenStaged, 0),
    (Bug::AnsweredWhenStaged, 0),
    (Bug::RepeatAnsweredEarly, 3),
    (Bug::TrimAnsweredEarly, 4),
    (Bug::UncommittedShown, 0),
    (Bug::FlushErrorIgnored, 0),
    (Bug::MetadataAnsweredEarly, 4),
    (Bug::GroupsAnsweredEarly, 0),
    (Bug::GroupsForgotten, 0),
    (Bug::JournalOutgrown, 13),
    (Bug::ChunkChecksumIgnored, 1),
    (Bug::SequenceGapAccepted, 0),
    (Bug::BegunInTheMiddle, 0),
    (Bug::OldGenerationCommits, 0),
];

/// The same of bugs that three nodes show.
const FOUND_BY_CLUSTER: [(Bug, u64); 1] = [(Bug::LeaseIgnored, 0)];

/// And where bits of their segments turn.
const FOUND_BY_BITS: [(Bug, u64); 1] = [(Bug::ChunkChecksumIgnored, 41)];

/// And where some topics are compacted.
const FOUND_BY_TABLES: [(Bug, u64); 1] = [(Bug::GapsNotFilled, 0)];

/// And where topics have one order.
const FOUND_BY_ORDER: [(Bug, u64); 4] = [
    (Bug::FloorRaisedEarly, 0),
    (Bug::ShownAtOwnFlush, 0),
    (Bug::UnorderedShown, 0),
    (Bug::GapJumped, 6),
];

/// And where such topics are on three nodes.
const FOUND_BY_SCRIBES: [(Bug, u64); 5] = [
    (Bug::PageToldEarly, 106),
    (Bug::OrderedRemembered, 0),
    (Bug::ClaimForgotten, 2),
    (Bug::ClaimReported, 2),
    (Bug::LeftoversForgotten, 300),
];

/// And where clients have transactions.
const FOUND_BY_TRANSACTIONS: [(Bug, u64); 6] = [
    (Bug::RepeatedMarkerRefused, 0),
    (Bug::EndAnsweredBeforePrepare, 2),
    (Bug::CompletedBeforeMarkers, 0),
    (Bug::MarkersNotSentAgain, 0),
    (Bug::EpochKeptAtPrepare, 0),
    (Bug::FencedWithoutAbort, 0),
];

/// And where what these write is compacted, on three nodes.
const FOUND_BY_COMPACTED_TRANSACTIONS: [(Bug, u64); 2] =
    [(Bug::AbortedSupersedes, 0), (Bug::AbortedListLost, 6)];

/// A bug, how the seeds are run that find it, and one that does.
type Planted = (Bug, Options, u64);

fn all() -> Vec<Planted> {
    let cluster = Options {
        nodes: 3,
        faults: 60,
        ..Options::default()
    };
    let bits = Options {
        bits: true,
        ..cluster
    };
    let tables = Options {
        tables: true,
        ..cluster
    };
    let order = Options {
        order: true,
        ..Options::default()
    };
    let scribes = Options {
        order: true,
        ..cluster
    };
    let transactions = Options {
        transactions: true,
        ..Options::default()
    };
    let compacted = Options {
        transactions: true,
        ..tables
    };
    let of = |options: Options| move |(bug, seed): (Bug, u64)| (bug, options, seed);
    let alone = FOUND_BY.into_iter().map(of(Options::default()));
    alone
        .chain(FOUND_BY_CLUSTER.map(of(cluster)))
        .chain(FOUND_BY_BITS.map(of(bits)))
        .chain(FOUND_BY_TABLES.map(of(tables)))
        .chain(FOUND_BY_ORDER.map(of(order)))
        .chain(FOUND_BY_SCRIBES.map(of(scribes)))
        .chain(FOUND_BY_TRANSACTIONS.map(of(transactions)))
        .chain(FOUND_BY_COMPACTED_TRANSACTIONS.map(of(compacted)))
        .collect()
}

/// Runs a seed with a bug; returns what it violates.
fn violated((bug, options, seed): Planted) -> Option<String> {
    with(bug, || run(seed, options).violation)
}

/// Has two threads look for each of some bugs.
fn look_for_each<T: Send>(bugs: &[Planted], look: impl Fn(Planted) -> T + Sync) -> Vec<T> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(planted) = bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = look(*planted);
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    found.push(outcome);
                }
            });
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The first seed that finds a bug.
fn first((bug, options, _): Planted) -> Option<(u64, String)> {
    (0..SEEDS_MAX).find_map(|seed| Some((seed, violated((bug, options, seed))?)))
}

/// Each by its seed. Where that does not find it any more, another must.
#[test]
fn each_bug_is_found_again() {
    let found = look_for_each(&all(), |planted| {
        if violated(planted).is_some() {
            return (planted.0, true);
        }
        let other = first(planted).map(|(seed, _)| seed);
        eprintln!(
            "{:?} is not found by seed {} any more, but by {other:?}",
            planted.0, planted.2
        );
        (planted.0, other.is_some())
    });
    let missed: Vec<_> = found.iter().filter(|(_, is_found)| !is_found).collect();
    assert!(missed.is_empty(), "not found by {SEEDS_MAX} seeds: {missed:?}");
}

#[test]
#[ignore = "minutes"]
fn many_seeds_find_each_bug() {
    let found = look_for_each(&all(), |planted| {
        let (bug, first) = (planted.0, first(planted));
        match &first {
            Some((seed, violation)) => eprintln!("(Bug::{bug:?}, {seed}), // {violation}"),
            None => eprintln!("{bug:?} is not found"),
        }
        first.map(|(seed, _)| seed)
    });
    assert!(
        !found.contains(&None),
        "some bugs are not found by {SEEDS_MAX} seeds"
    );
    let last = found.iter().flatten().max().expect("there are bugs");
    eprintln!(
        "counted: {} planted bugs, the last one found by seed {last}",
        found.len()
    );
}
