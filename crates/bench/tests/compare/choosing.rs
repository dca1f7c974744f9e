//! What is chosen: names that do not exist, and what a system is not asked for.

use std::fs;
use std::path::PathBuf;

use bench::compare::results::Cell;
use bench::compare::{self, CompareOptions, Interrupt, Suite};

use super::{Bench, SERVE, cells};

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
