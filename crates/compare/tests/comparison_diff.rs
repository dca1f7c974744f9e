//! Two made-up comparisons beside each other.

mod comparison;

use std::collections::BTreeMap;

use compare::diff::{self, Change, Diff, Machines};
use compare::report::Verdict;
use compare::results::{Cell, Experiment, LoopKind, Results, Row, SystemFacts};

/// The same, but for the latencies of one system.
fn with_latency_times(system: &str, part: f64) -> Results {
    let mut results = comparison::results();
    multiply(&mut results, system, part);
    results
}

fn multiply(results: &mut Results, system: &str, part: f64) {
    let cells = results
        .experiments
        .iter_mut()
        .flat_map(|experiment| &mut experiment.rows);
    for cell in cells
        .flat_map(|row| &mut row.cells)
        .filter(|cell| cell.system == system)
    {
        for run in &mut cell.runs {
            run.entry("p50_us".to_owned()).and_modify(|p50| *p50 *= part);
        }
    }
}

fn run(before: &Results, after: &Results) -> Diff {
    diff::run(before, after, Machines::Same, None).expect("the same suite")
}

fn run_about(system: &str, before: &Results, after: &Results) -> Diff {
    diff::run(before, after, Machines::Same, Some(system)).expect("the same suite")
}

#[test]
fn the_same_is_no_difference() {
    let diff = run(&comparison::results(), &comparison::results());
    assert!(diff.changes.len() > 20 && !diff.has_regressions());
    let is_moved = |change: &Change| {
        change
            .verdict
            .is_some_and(|verdict| verdict != Verdict::NoDifference)
    };
    assert!(!diff.changes.iter().any(is_moved));
    assert!(diff.drift.values().all(|times| (times - 1.0).abs() < 1e-9) && !diff.drift.is_empty());
    assert!(diff.only_before.is_empty() && diff.only_after.is_empty() && diff.surroundings.is_empty());
}

#[test]
fn noise_is_told_from_change() {
    let before = comparison::results();
    let noisy = run(&before, &with_latency_times("strand", 1.03));
    assert!(!noisy.has_regressions());
    let slower = run(&before, &with_latency_times("strand", 1.5));
    assert!(slower.has_regressions());
    assert!(run_about("strand", &before, &with_latency_times("strand", 1.5)).has_regressions());
    assert!(!run_about("wharf", &before, &with_latency_times("strand", 1.5)).has_regressions());
    let worse = slower
        .changes
        .iter()
        .find(|change| change.verdict == Some(Verdict::Worse))
        .expect("one");
    assert_eq!(
        (worse.place.system.as_str(), worse.metric.as_str()),
        ("strand", "p50_us")
    );
    let (change, noise) = (
        worse.change_percent.expect("moved"),
        worse.noise_percent.expect("noisy"),
    );
    assert!(
        (change - 50.0).abs() < 0.1 && (13.0..14.0).contains(&noise),
        "{change} {noise}"
    );
    let text = slower.to_string();
    assert!(
        text.contains(
            "\n  +50 % (noise 14 %)  120 -> 180      appends, 100 B: strand through own, p50, µs\n"
        ),
        "{text}"
    );
    let faster = run(&before, &with_latency_times("strand", 0.5));
    assert!(!faster.has_regressions() && faster.to_string().contains("\nBetter\n  -50 %"));
}

#[test]
fn what_the_machine_moved_is_no_change() {
    let before = comparison::results();
    let systems = ["strand", "wharf", "wharf-flush"];
    let slower = |systems: &[&str]| {
        let mut results = comparison::results();
        for system in systems {
            multiply(&mut results, system, 1.5);
        }
        run(&before, &results)
    };
    let drifted = slower(&systems);
    assert!(!drifted.has_regressions() && (drifted.drift["p50_us"] - 1.5).abs() < 1e-9);
    assert!(
        drifted
            .to_string()
            .contains("as multiples of what they were: mean, µs 1.00×; p50, µs 1.50×;"),
        "{drifted}"
    );
    // A port is another at each start, and no change.
    let mut here = before.clone();
    let mut elsewhere = with_latency_times("strand", 1.5);
    for (results, port) in [(&mut here, 7_000), (&mut elsewhere, 8_000)] {
        let uri = format!("zk://127.0.0.1:{port}/ledgers");
        results.systems[2].settings.insert("uri".to_owned(), uri);
        results.systems[3].version = format!("3.{port}");
    }
    let moved = run(&here, &elsewhere);
    assert!(
        moved.has_regressions() && moved.drift.contains_key("p50_us"),
        "{moved}"
    );
    assert_eq!(
        moved.surroundings,
        ["version of wharf-flush: 3.7000 before, 3.8000 after"]
    );
    // Who was changed is no control.
    let mut after = comparison::results();
    for system in systems {
        multiply(&mut after, system, 1.5);
    }
    for system in &mut after.systems {
        system.version = "3.2".to_owned();
    }
    let changed = run(&before, &after);
    assert!(changed.has_regressions() && changed.drift.is_empty(), "{changed}");
}

/// A table of many rows with three figures each, which do not move together, from one distribution; what a seed gives is the same
/// each time.
fn drawn(seed: u64, spread: f64, repetitions: usize) -> Results {
    let mut state = seed;
    // SplitMix64, and the sum of twelve for a bell.
    let mut uniform = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut value = move || 1_000.0 * (1.0 + spread * ((0..12).map(|_| uniform()).sum::<f64>() - 6.0));
    let mut run = move || {
        let metrics = ["p50_us", "server_rss_mb", "records_per_s"];
        let mut run = comparison::figures(&metrics.map(|metric| (metric, value())));
        run.insert("samples".to_owned(), 1e6);
        run
    };
    let mut row = |number: usize| Row {
        name: format!("row {number}"),
        parameters: BTreeMap::new(),
        cells: vec![Cell {
            system: "strand".to_owned(),
            best_client: true,
            runs: (0..repetitions).map(|_| run()).collect(),
            ..Cell::default()
        }],
    };
    Results {
        systems: vec![SystemFacts {
            name: "strand".to_owned(),
            ..SystemFacts::default()
        }],
        experiments: vec![Experiment {
            metrics: ["p50_us", "server_rss_mb", "records_per_s"]
                .map(str::to_owned)
                .to_vec(),
            loop_kind: LoopKind::Closed,
            rows: (0..80).map(&mut row).collect(),
            ..Experiment::default()
        }],
        ..comparison::results()
    }
}

#[test]
fn of_many_figures_of_one_distribution_some_are_worse_and_it_is_no_regression() {
    for repetitions in 2..=7 {
        let (mut worse, mut alarms) = (0, 0);
        for pair in 0..50 {
            let [before, after] = [2 * pair, 2 * pair + 1].map(|seed| drawn(seed, 0.1, repetitions));
            let diff = run(&before, &after);
            let is_worse = |change: &&Change| change.verdict == Some(Verdict::Worse);
            worse += diff.changes.iter().filter(is_worse).count();
            alarms += usize::from(diff.has_regressions());
            let told = "of 240; by chance about 3, and hardly ever more than 7";
            assert!(diff.to_string().contains(told), "{diff}");
        }
        let part = worse as f64 / (50.0 * 240.0);
        assert!(part < 0.013, "{part} of {repetitions} repetitions");
        assert!(alarms <= 2, "{alarms} alarms of {repetitions} repetitions");
    }
}

#[test]
fn a_few_figures_that_are_worse_by_half_are_found_among_many() {
    for pair in 0..20 {
        let mut after = drawn(2 * pair + 1, 0.03, 3);
        for row in &mut after.experiments[0].rows[10..13] {
            let runs = row.cells.iter_mut().flat_map(|cell| &mut cell.runs);
            runs.for_each(|run| *run.get_mut("p50_us").expect("it is there") *= 1.5);
        }
        let diff = run(&drawn(2 * pair, 0.03, 3), &after);
        assert!(diff.has_regressions(), "{diff}");
    }
}

#[test]
fn what_few_of_the_repetitions_found_is_no_change() {
    let before = comparison::results();
    let mut after = with_latency_times("strand", 1.5);
    let rows = after
        .experiments
        .iter_mut()
        .flat_map(|experiment| &mut experiment.rows);
    for cell in rows.flat_map(|row| &mut row.cells) {
        if cell.system == "strand" {
            cell.runs.truncate(1);
        }
    }
    let diff = run(&before, &after);
    assert!(!diff.has_regressions(), "{diff}");
}

#[test]
fn what_only_one_has_is_named_and_what_broke_is_a_regression() {
    let (before, mut after) = (comparison::results(), comparison::results());
    after.systems.retain(|system| system.name != "cove");
    after.systems[0].version = "3.2".to_owned();
    after.experiments.remove(2);
    after.experiments[0].rows.remove(2);
    after.experiments[0].metrics.push("max_us".to_owned());
    let cell = &mut after.experiments[1].rows[0].cells[0];
    cell.runs.clear();
    cell.failures.push("it hung".to_owned());
    let diff = run(&before, &after);
    assert_eq!(
        diff.only_before,
        ["system cove", "row 1 MB of appends", "experiment figure-2"]
    );
    assert_eq!(diff.only_after, ["metric max_us of appends"]);
    assert_eq!(diff.surroundings, ["version of strand: 3.1 before, 3.2 after"]);
    assert!(diff.has_regressions() && !run_about("wharf", &before, &after).has_regressions());
    let text = diff.to_string();
    assert!(
        text.contains("table-1, 100 B: strand through own: it hung"),
        "{text}"
    );
    let json: serde_json::Value = serde_json::from_str(&diff.to_json().expect("JSON")).expect("JSON");
    assert_eq!(json["broken"][0]["why"], "it hung");
    assert_eq!(json["changes"][0]["verdict"], "no_difference");
}

#[test]
fn what_may_explain_a_change_is_named() {
    let (before, mut after) = (comparison::results(), comparison::results());
    after.machine.load_before = 1.5;
    after.floors[0].insert("flush 4 KiB".to_owned(), 90.0);
    after.floors[0].insert("loopback".to_owned(), 18.1);
    let system = &mut after.systems[0];
    system.settings.insert("cache".to_owned(), "8 GiB".to_owned());
    let driver = system.drivers.get_mut("own").expect("it is there");
    driver.version = "1.3".to_owned();
    driver.settings.insert("acks".to_owned(), "1".to_owned());
    let diff = run(&before, &after);
    assert_eq!(
        diff.surroundings,
        [
            "load before the first run: 0.12 before, 1.50 after",
            "floor flush 4 KiB: 55.0 µs before, 90.0 µs after",
            "version of client own of strand: 1.2 before, 1.3 after",
            "acks of client own of strand: all before, 1 after",
            "cache of strand: not told before, 8 GiB after",
        ]
    );
    assert!(diff.unlike_machines.is_empty());
}

#[test]
fn figures_of_two_machines_are_not_judged_unless_it_is_asked_for() {
    let (before, mut after) = (comparison::results(), with_latency_times("strand", 1.5));
    after.machine.cpus = 8;
    after.machine.memory_gb = 64.0;
    let unlike = run(&before, &after);
    assert_eq!(
        unlike.unlike_machines,
        ["CPUs: 2 before, 8 after", "memory: 25.2 GB before, 64.0 GB after"]
    );
    assert!(!unlike.has_regressions(), "nothing is judged");
    let text = unlike.to_string();
    assert!(
        text.contains("Unlike machines") && text.contains("0 worse, 0 better, 0 without a difference"),
        "{text}"
    );
    let json: serde_json::Value = serde_json::from_str(&unlike.to_json().expect("JSON")).expect("JSON");
    assert!(json["changes"][0]["verdict"].is_null());
    let forced = diff::run(&before, &after, Machines::Any, None).expect("the same suite");
    assert!(forced.unlike_machines.is_empty() && forced.has_regressions());
}

#[test]
fn unlike_results_are_refused() {
    let results = comparison::results();
    let mut other = results.clone();
    other.suite = "field".to_owned();
    assert!(
        diff::run(&results, &other, Machines::Same, None)
            .expect_err("another suite")
            .to_string()
            .contains("suites differ")
    );
    other = results.clone();
    other.schema = 7;
    assert!(
        diff::run(&results, &other, Machines::Same, None)
            .expect_err("another schema")
            .to_string()
            .contains("schema 7")
    );
}
