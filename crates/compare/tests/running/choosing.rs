//! What is chosen: names that do not exist, and what a system is not asked for.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use compare::results::Cell;
use compare::{self, Clients, CompareOptions, Interrupt, Suite};

use super::{Bench, SERVE, cells, is_whole};

#[test]
fn what_does_not_exist_is_named_with_what_does() {
    let bench = Bench::new();
    bench.add("able", "honest", SERVE, "");
    let wrong = |options: CompareOptions, word: &str| {
        let error = compare::run(&options, "test", &Interrupt::default()).expect_err(word);
        assert!(format!("{error:#}").contains(word), "{error:#}");
    };
    let systems = vec!["charlie".to_owned()];
    wrong(
        CompareOptions {
            systems,
            ..bench.options()
        },
        "only: able",
    );
    let only = vec!["nothing".to_owned()];
    wrong(
        CompareOptions {
            only,
            ..bench.options()
        },
        "one-by-one",
    );
    let peers = PathBuf::from("/no/such/folder");
    wrong(
        CompareOptions {
            peers,
            ..bench.options()
        },
        "--peers",
    );
    wrong(
        CompareOptions {
            seconds: 0.0,
            ..bench.options()
        },
        "--seconds",
    );
}

#[test]
fn a_name_that_nothing_has_is_a_failure_and_harms_no_other() {
    let bench = Bench::new();
    bench.add("able", "honest", SERVE, "");
    let options = CompareOptions {
        systems: vec!["able".to_owned(), "charlie".to_owned()],
        ..bench.options()
    };
    let (failures, results) = bench.run(&options);
    assert!(is_whole(&results, "able"), "{results:#?}");
    assert_eq!(failures, ["charlie: there is no such system, only: able"]);
    let page = fs::read_to_string(bench.out().join("report.md")).expect("it was written");
    assert!(page.contains("there is no such system, only: able"), "{page}");
}

/// Adds lines to the end of a system's `peer.toml`: they belong to its variant.
fn add_lines(bench: &Bench, system: &str, lines: &str) {
    let folder = bench.directory.path().join("peers").join(system);
    let path = folder.join("peer.toml");
    let text = fs::read_to_string(&path).expect("it was written");
    fs::write(&path, text + lines).expect("there is room");
}

#[test]
fn a_variant_for_one_table_is_asked_in_no_other() {
    let bench = Bench::new();
    bench.add("able", "honest", SERVE, "");
    bench.add("baker", "honest", SERVE, "");
    add_lines(&bench, "baker", "only = [\"read-back\"]\n");
    let (failures, results) = bench.run(&bench.options());
    assert_eq!(failures, [] as [String; 0]);
    let tables = results.experiments.iter().filter(|table| {
        let mut cells = table.rows.iter().flat_map(|row| &row.cells);
        cells.any(|cell| cell.system == "baker")
    });
    let tables: Vec<&str> = tables.map(|table| table.name.as_str()).collect();
    assert_eq!(tables, ["read-back"]);

    // Who names it is told when no table that was chosen asks it.
    let elsewhere = CompareOptions {
        systems: vec!["able".to_owned(), "baker".to_owned()],
        only: vec!["one-by-one".to_owned()],
        out: bench.directory.path().join("elsewhere"),
        ..bench.options()
    };
    let failures = compare::run(&elsewhere, "test", &Interrupt::default()).expect("the other one runs");
    assert_eq!(failures, ["baker: none of the chosen tables asks it"]);
}

#[test]
fn a_variant_for_a_table_that_there_is_not_is_a_mistake() {
    let bench = Bench::new();
    bench.add("able", "honest", SERVE, "");
    bench.add("baker", "honest", SERVE, "");
    add_lines(&bench, "baker", "only = [\"read-bakc\"]\n");
    let (failures, _) = bench.run(&bench.options());
    let [failure] = &failures[..] else {
        panic!("one is told: {failures:?}")
    };
    assert!(failure.contains("read-bakc"), "{failure}");
}

#[test]
fn where_best_clients_cannot_meet_the_common_ones_drive_whatever_was_asked() {
    let bench = Bench::new();
    bench.add("kafka", "honest", SERVE, "");
    bench.add("common", "honest", SERVE, "");
    add_lines(&bench, "kafka", "also = [\"common\"]\n");
    let asked = |table: &str| {
        let options = CompareOptions {
            suite: Suite::Papers,
            only: vec![table.to_owned()],
            clients: Clients::Best,
            out: bench.directory.path().join(table),
            ..bench.options()
        };
        let failures = compare::run(&options, "test", &Interrupt::default()).expect("it runs");
        assert_eq!(failures, [] as [String; 0]);
        let results = compare::read_results(&options.out.join("results.json")).expect("it was written");
        let drivers = cells(&results, "kafka").map(|cell| cell.driver.clone());
        drivers.collect::<BTreeSet<String>>()
    };
    assert_eq!(asked("smf").len(), 2);
    assert_eq!(asked("shared-logs-2").len(), 1);
}

#[test]
fn what_is_not_asked_is_no_failure() {
    let bench = Bench::new();
    bench.add("able", "honest", SERVE, "");
    let peer = bench.directory.path().join("peers/able/peer.toml");
    let text = fs::read_to_string(&peer).expect("it was written");
    fs::write(&peer, format!("record_bytes_max = 1000\n{text}")).expect("there is room");
    let (failures, results) = bench.run(&bench.options());
    assert_eq!(failures, [] as [String; 0]);
    let refused: Vec<&Cell> = cells(&results, "able")
        .filter(|cell| cell.not_asked.is_some())
        .collect();
    assert_eq!(refused.len(), 1);
    assert!(refused[0].runs.is_empty() && refused[0].failures.is_empty());
    let page = fs::read_to_string(bench.out().join("report.md")).expect("it was written");
    assert!(
        page.contains("Not asked.") && !page.contains("It failed"),
        "{page}"
    );
    // Nor is one asked to keep more for readers than it is meant for.
    fs::write(&peer, format!("stored_bytes_max = 1000000\n{text}")).expect("there is room");
    let backlog = CompareOptions {
        suite: Suite::Field,
        only: vec!["backlog".to_owned()],
        out: bench.directory.path().join("backlog"),
        ..bench.options()
    };
    let failures = compare::run(&backlog, "test", &Interrupt::default()).expect("nothing is asked");
    assert_eq!(failures, [] as [String; 0]);
    let results = compare::read_results(&backlog.out.join("results.json")).expect("it was written");
    let asked: Vec<_> = cells(&results, "able")
        .map(|cell| cell.not_asked.is_none())
        .collect();
    assert_eq!(asked, [false]);
    // This system promises nothing after a crash, so there is nothing to look for.
    let crash = CompareOptions {
        suite: Suite::Field,
        only: vec!["restart".to_owned()],
        out: bench.directory.path().join("crash"),
        ..bench.options()
    };
    let failures = compare::run(&crash, "test", &Interrupt::default()).expect("nothing is asked");
    assert_eq!(failures, [] as [String; 0]);
}

#[test]
fn who_cannot_be_started_with_three_nodes_is_not_asked_and_told_so() {
    let bench = Bench::new();
    bench.add("able", "honest", SERVE, "");
    bench.add("baker", "honest", SERVE, "");
    let peer = bench.directory.path().join("peers/able/peer.toml");
    let text = fs::read_to_string(&peer).expect("it was written");
    fs::write(&peer, format!("nodes = [1, 3]\n{text}")).expect("there is room");
    let options = CompareOptions {
        nodes: 3,
        ..bench.options()
    };
    let (failures, results) = bench.run(&options);
    assert_eq!(failures, [] as [String; 0]);
    assert!(is_whole(&results, "able"), "{results:#?}");
    let why = "nodes in its peer.toml has 1, but 3 of each were asked for";
    let refused: BTreeSet<_> = cells(&results, "baker")
        .map(|cell| cell.not_asked.clone())
        .collect();
    assert_eq!(refused, BTreeSet::from([Some(why.to_owned())]));
    let page = fs::read_to_string(bench.out().join("report.md")).expect("it was written");
    assert!(page.contains(why), "{page}");
    // Nor is a workload asked that makes no sense with three nodes.
    let shards = CompareOptions {
        suite: Suite::Field,
        only: vec!["shards".to_owned()],
        out: bench.directory.path().join("shards"),
        repetitions: 1,
        ..options
    };
    let failures = compare::run(&shards, "test", &Interrupt::default()).expect("others are asked");
    assert_eq!(failures, [] as [String; 0]);
    let results = compare::read_results(&shards.out.join("results.json")).expect("it was written");
    let asked: Vec<_> = cells(&results, "able")
        .map(|cell| (cell.not_asked.is_none(), cell.runs.len()))
        .collect();
    assert_eq!(asked, [(true, 1), (true, 1), (true, 1), (false, 0)]);
}
