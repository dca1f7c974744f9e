//! What honest systems are measured at: rates, passes of readers, cold reads, shares of a maximum.

use std::collections::BTreeMap;
use std::fs;

use compare::{CompareOptions, Results, Suite};

use super::{Bench, SERVE, cells, is_whole, runs_in};

#[test]
fn honest_systems_are_measured_and_a_second_time_nothing_is_left_to_do() {
    let bench = Bench::new();
    bench.add("able", "honest", SERVE, "");
    bench.add("baker", "honest", SERVE, "");
    let (failures, results) = bench.run(&bench.options());
    assert_eq!(failures, [] as [String; 0]);
    assert!(
        is_whole(&results, "able") && is_whole(&results, "baker"),
        "{results:#?}"
    );
    let asked = results.asked.as_ref().expect("it is told");
    assert_eq!(
        (asked.seconds, asked.scale, asked.repetitions_max),
        (0.05, 0.001, 2)
    );
    assert_eq!(asked.clients, "all");
    assert_eq!(results.systems[0].settings["sleeps"], "yes");
    assert_eq!(results.systems[0].drivers["able"].version, "file_log 1");
    let report = fs::read_to_string(bench.out().join("report.md")).expect("it was written");
    assert!(report.contains("baker"), "{report}");
    assert!(!bench.out().join("data").exists(), "what systems left is removed");
    let runs = runs_in(&bench.out().join("runs.jsonl"));
    let (_, again) = bench.run(&bench.options());
    assert_eq!(runs_in(&bench.out().join("runs.jsonl")), runs);
    assert_eq!(again.experiments, results.experiments);
}

/// Which system was measured after which: a line of the record for each run.
fn order(record: &str, repetition: u64) -> Vec<String> {
    let lines = record.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).expect("a record has JSON only");
        line
    });
    let runs = lines.filter(|line| line["line"] == "run" && line["repetition"] == repetition);
    runs.map(|line| line["system"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn nobody_always_comes_first_or_after_the_same_one() {
    let bench = Bench::new();
    for name in ["able", "baker", "charlie"] {
        bench.add(name, "honest", SERVE, "");
    }
    let options = CompareOptions {
        suite: Suite::Field,
        only: vec!["restart".to_owned()],
        // Promising nothing after a crash, they are not asked: only their turns are told.
        repetitions: 3,
        repetitions_max: 3,
        ..bench.options()
    };
    bench.run(&options);
    let record = fs::read_to_string(bench.out().join("runs.jsonl")).expect("it was written");
    for (repetition, turns) in [
        ["able", "baker", "charlie"],
        ["charlie", "baker", "able"],
        ["able", "baker", "charlie"],
    ]
    .into_iter()
    .enumerate()
    {
        let order = order(&record, repetition as u64);
        let rows: Vec<_> = order.chunks(3).collect();
        assert!(
            rows.len() == 2 && rows.iter().all(|row| *row == turns),
            "{repetition}: {order:?}"
        );
    }
}

/// The figures of all runs of a system.
fn runs<'a>(results: &'a Results, system: &str) -> Vec<&'a BTreeMap<String, f64>> {
    let rows = results.experiments.iter().flat_map(|experiment| &experiment.rows);
    let cells = rows
        .flat_map(|row| &row.cells)
        .filter(|cell| cell.system == system);
    cells.flat_map(|cell| &cell.runs).collect()
}

#[test]
fn readers_read_pass_after_pass_and_it_is_said_how_much_was_there() {
    let bench = Bench::new();
    bench.add("able", "honest", SERVE, "");
    bench.add("slow", "slow", SERVE, "");
    let options = CompareOptions {
        only: vec!["read-back".to_owned()],
        // What is read is written for 120 times as long.
        seconds: 0.02,
        ..bench.options()
    };
    let (failures, results) = bench.run(&options);
    assert_eq!(failures, [] as [String; 0]);
    let slow = runs(&results, "slow");
    assert_eq!(slow.len(), 2);
    for run in runs(&results, "able").iter().chain(&slow) {
        // What the slow one wrote is read in a moment, unless the machine is busy.
        assert!(run["seconds"] >= options.seconds, "{run:?}");
        // The other one may write all that is asked for.
        assert!(run["stored_mb"] > 0.0 && run["stored_mb"] <= 256.0, "{run:?}");
        let read_mb = run["records"] * 100.0 / 1e6;
        assert!(read_mb >= run["stored_mb"] * run["passes"] * 0.9, "{run:?}");
    }
    assert!(slow.iter().all(|run| run["stored_mb"] < 256.0), "{slow:?}");
    let text = fs::read_to_string(bench.out().join("report.md")).expect("it was written");
    assert!(text.contains("MB there to read"), "the column says it");
}

#[test]
fn several_clients_share_a_server_and_count_as_one() {
    let bench = Bench::new();
    bench.add("ropewalk", "honest", SERVE, "");
    let options = CompareOptions {
        suite: Suite::Papers,
        only: ["logrange-100-write", "logrange-100-read"]
            .map(str::to_owned)
            .to_vec(),
        // Of two million.
        scale: 0.000_5,
        ..bench.options()
    };
    let (failures, results) = bench.run(&options);
    assert_eq!(failures, [] as [String; 0]);
    for table in &results.experiments {
        assert_eq!(table.rows.len(), 12);
        for (row, clients, partitions) in [("1:1", 1.0, 1.0), ("2:4", 2.0, 4.0), ("4:8", 4.0, 8.0)] {
            let row = table
                .rows
                .iter()
                .find(|found| found.name == row)
                .expect("it is asked");
            let cell = &row.cells[0];
            assert_eq!(cell.runs.len(), 2, "{row:?}");
            assert_eq!(row.parameters["shards"], clients * partitions);
            // Each producer sends whole batches.
            let records = 1_000.0 * clients * partitions;
            assert!(cell.runs.iter().all(|run| run["records"] >= records), "{row:?}");
            assert!(cell.verified_records >= Some(records as u64), "{row:?}");
        }
    }
    let logs = fs::read_dir(bench.out().join("logs")).expect("it was made");
    let names = logs.map(|entry| {
        entry
            .expect("it is there")
            .file_name()
            .into_string()
            .expect("it is text")
    });
    let drivers = names.filter(|name| name.contains("-driver-")).count();
    assert_eq!(drivers, 4, "they stay from row to row");
}

#[test]
fn a_cold_read_is_made_after_a_restart_and_beside_appends() {
    // Notes each start in the system's folder, where it runs.
    let serve = SERVE.replace("mkdir", "echo start >> starts\nmkdir");
    for (table, restarts) in [("backlog", 0), ("cold-reads", 2)] {
        let bench = Bench::new();
        bench.add("able", "honest", &serve, "");
        let options = CompareOptions {
            suite: Suite::Field,
            only: vec![table.to_owned()],
            // What is read is written for 120 times as long.
            seconds: 0.005,
            ..bench.options()
        };
        let (failures, results) = bench.run(&options);
        // Only root may empty the page cache: for all others the row says so.
        if let [failure, ..] = &failures[..] {
            assert!(
                table == "cold-reads" && failure.contains("drop_caches"),
                "{failure}"
            );
            continue;
        }
        let runs = runs(&results, "able");
        assert_eq!(runs.len(), 2, "{results:#?}");
        for run in runs {
            let has = |metric: &str| run.get(metric).is_some_and(|value| *value > 0.0);
            assert!(
                has("read_mb_per_s") && has("stored_mb") && has("p99_us"),
                "{run:?}"
            );
        }
        let starts = fs::read_to_string(bench.directory.path().join("peers/able/starts"));
        let starts = starts.expect("it was started").lines().count();
        assert_eq!(starts, 1 + restarts, "{table}");
    }
}

#[test]
fn a_share_of_a_maximum_brings_the_maximum_with_it() {
    let bench = Bench::new();
    bench.add("able", "honest", SERVE, "");
    let options = CompareOptions {
        suite: Suite::Field,
        only: vec!["shares".to_owned()],
        ..bench.options()
    };
    let (failures, results) = bench.run(&options);
    assert_eq!(failures, [] as [String; 0]);
    let names: Vec<&str> = results.experiments.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["maximum", "shares"]);
    let due = |run: &&BTreeMap<String, f64>| run.get("due_per_s").is_some_and(|due| *due > 0.0);
    assert!(runs(&results, "able").iter().any(due), "{results:#?}");
}

#[test]
fn what_is_never_the_same_twice_is_measured_more_often_up_to_a_limit() {
    let bench = Bench::new();
    bench.add("uneven", "uneven", SERVE, "");
    let options = CompareOptions {
        only: vec!["one-by-one".to_owned()],
        repetitions_max: 6,
        seconds: 0.4,
        ..bench.options()
    };
    let (failures, results) = bench.run(&options);
    assert_eq!(failures, [] as [String; 0]);
    assert!(
        cells(&results, "uneven").all(|cell| cell.runs.len() == 6),
        "{results:#?}"
    );
    let page = fs::read_to_string(bench.out().join("report.md")).expect("it was written");
    assert!(
        page.contains("- **‡** (") && page.contains("**In its course:**"),
        "{page}"
    );
}
