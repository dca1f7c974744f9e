//! The same seed gives the same run, and seeds that once failed stay mended.

use simulator::{Options, run};

/// Short runs: each meets every kind of thing that a core does, and some faults.
const SHORT: Options = Options {
    nodes: 1,
    faults: 12,
    room: None,
    shows: false,
    copies: false,
    bits: false,
    tables: false,
    order: false,
    transactions: false,
};

#[test]
fn the_same_seed_gives_the_same_trace() {
    let mut traces = Vec::new();
    for seed in 0..100 {
        let (first, again) = (run(seed, SHORT), run(seed, SHORT));
        assert_eq!(first.violation, None, "seed {seed}");
        assert_eq!(
            (first.trace, first.steps),
            (again.trace, again.steps),
            "seed {seed} gave another run"
        );
        traces.push(first.trace);
    }
    traces.sort_unstable();
    traces.dedup();
    assert_eq!(traces.len(), 100, "each seed gives a run of its own");
}

/// A flush that failed told the producers of a shard in the order of a hash map, which differs from run to run.
#[test]
fn seed_1008_gives_the_same_trace() {
    let options = Options::default();
    let (first, again) = (run(1_008, options), run(1_008, options));
    assert_eq!(first.trace, again.trace);
    assert_eq!(first.violation, None);
}

/// A full disk killed the journal, and nobody started the node anew when there was room again.
#[test]
fn seed_10935_goes_on_after_a_full_disk() {
    assert_eq!(run(10_935, Options::default()).violation, None);
}

/// A journal needs its files whole before the node serves.
#[test]
fn a_disk_without_room_is_told() {
    let options = Options {
        room: Some(1 << 20),
        ..SHORT
    };
    let violation = run(0, options).violation.expect("the node cannot start");
    assert!(violation.contains("No space left on device"), "{violation}");
}

const CLUSTER: Options = Options {
    nodes: 3,
    faults: 60,
    room: None,
    shows: false,
    copies: false,
    bits: false,
    tables: false,
    order: false,
    transactions: false,
};

/// The metadata that three nodes come to agree on, under kills, power cuts, stops and cut connections.
#[test]
fn members_of_a_cluster_come_to_agree() {
    for seed in 0..12 {
        assert_eq!(run(seed, CLUSTER).violation, None, "seed {seed}");
    }
    let (first, again) = (run(1, CLUSTER), run(1, CLUSTER));
    assert_eq!((first.trace, first.steps), (again.trace, again.steps));
}

/// One node's journals are put back from a copy: it counts for nothing until it holds everything again.
#[test]
fn disks_that_lack_what_they_acknowledged_lose_nothing() {
    let copies = Options {
        copies: true,
        ..CLUSTER
    };
    let mut restored = 0;
    for seed in 0..6 {
        let report = run(seed, copies);
        assert_eq!(report.violation, None, "seed {seed}");
        restored += report
            .faults
            .get("journals restored from a copy")
            .copied()
            .unwrap_or(0);
    }
    assert!(restored >= 8, "{restored} were restored");
}

/// A node was cut off until the log no longer began where it had stopped: it took nothing in any more.
#[test]
fn seed_4_follows_over_what_was_trimmed() {
    assert_eq!(run(4, CLUSTER).violation, None);
}

/// A replica answered in an epoch in which its node was to begin anew: its leader waited for it no more, and it was never filled.
#[test]
fn seed_7029_with_copies_fills_a_replica_that_comes_back_at_once() {
    let copies = Options {
        copies: true,
        ..CLUSTER
    };
    assert_eq!(run(7029, copies).violation, None);
}

/// A leader was cut off, given its next epoch, of which it did not hear, and left in that: it went on to tell its tail as the latest.
#[test]
fn seed_20226_ends_a_leader_that_is_left_in_an_epoch_that_it_does_not_know() {
    assert_eq!(run(20226, CLUSTER).violation, None);
}

/// Two of five nodes go for good: what has one disk left stays closed until an operator has it opened.
#[test]
fn two_disks_of_three_are_lost_and_an_operator_opens_what_is_left() {
    let five = Options {
        nodes: 5,
        faults: 30,
        ..CLUSTER
    };
    let mut lost = 0;
    for seed in 0..8 {
        let report = run(seed, five);
        assert_eq!(report.violation, None, "seed {seed}");
        lost += report.faults.get("two of three disks lost").copied().unwrap_or(0);
    }
    assert!(lost >= 3, "{lost} lost two");
}

/// Acknowledged records stay at their places on every replica, whatever compaction takes beside them.
#[test]
fn compacted_logs_are_replicated_with_their_gaps() {
    let tables = Options {
        tables: true,
        ..CLUSTER
    };
    for seed in 0..6 {
        assert_eq!(run(seed, tables).violation, None, "seed {seed}");
    }
}

/// Records that others have, too, are shown as they were written.
#[test]
fn bits_that_turn_in_a_segment_are_never_shown() {
    let bits = Options {
        bits: true,
        ..CLUSTER
    };
    let mut turned = 0;
    for seed in 0..6 {
        let report = run(seed, bits);
        assert_eq!(report.violation, None, "seed {seed}");
        turned += report
            .faults
            .get("a bit of a segment turns")
            .copied()
            .unwrap_or(0);
    }
    assert!(turned >= 10, "{turned} bits turned");
}

/// Scribes come and go with the leaders of orders, and every position keeps its record. Once the ends of orders were read page by page and too slowly (31, 129), partitions
/// that had nothing new were not reported to a new scribe (8, 37 of five nodes), and a leader took an old word of positions for the end of what was ordered (2019).
#[test]
fn orders_that_several_nodes_hold_stay_what_they_are() {
    let order = Options {
        order: true,
        faults: 40,
        ..CLUSTER
    };
    for seed in [4, 31, 62, 129, 2019] {
        assert_eq!(run(seed, order).violation, None, "seed {seed}");
    }
    let (first, again) = (run(4, order), run(4, order));
    assert_eq!((first.trace, first.steps), (again.trace, again.steps));
    let five = Options {
        nodes: 5,
        faults: 60,
        ..order
    };
    for seed in [8, 37] {
        assert_eq!(run(seed, five).violation, None, "seed {seed} of five nodes");
    }
}

/// Readers of committed records see each transaction as its client was told, or whole, or not at all; and none stays open.
#[test]
fn transactions_are_seen_whole_or_not_at_all() {
    let alone = Options {
        transactions: true,
        ..Options::default()
    };
    let committed: u64 = (0..10).map(|seed| committed(seed, alone)).sum();
    assert!(committed >= 200, "{committed} were committed");
}

/// The same where nodes come and go.
#[test]
fn transactions_of_several_nodes_are_seen_whole_or_not_at_all() {
    let several = Options {
        faults: 40,
        transactions: true,
        ..CLUSTER
    };
    let compacted = Options {
        tables: true,
        ..several
    };
    let each = [
        (several, 0),
        (several, 1),
        (several, 2),
        (compacted, 0),
        (compacted, 1),
    ];
    let committed: u64 = each.map(|(options, seed)| committed(seed, options)).iter().sum();
    assert!(committed >= 100, "{committed} were committed");
    let (first, again) = (run(3, several), run(3, several));
    assert_eq!(first.violation, None, "seed 3");
    assert_eq!((first.trace, first.steps), (again.trace, again.steps));
}

/// Runs a seed; returns how many transactions its clients were told to be committed.
fn committed(seed: u64, options: Options) -> u64 {
    let report = run(seed, options);
    assert_eq!(report.violation, None, "seed {seed} of {options:?}");
    let committed = report.reached.get("transactions: Committed");
    committed.copied().unwrap_or(0)
}
