//! Two made-up comparisons beside each other.

mod comparison;

use bench::compare::diff::{self, Diff, Machines};
use bench::compare::report::Verdict;
use bench::compare::results::Results;

/// The same, but for all figures of one system.
fn with_latency_times(system: &str, part: f64) -> Results {
    let mut results = comparison::results();
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
    results
}

fn run(before: &Results, after: &Results) -> Diff {
    diff::run(before, after, Machines::Same).expect("the same suite")
}

#[test]
fn the_same_is_no_difference() {
    let diff = run(&comparison::results(), &comparison::results());
    assert!(diff.changes.len() > 20 && !diff.has_regressions(None));
    assert!(
        diff.changes
            .iter()
            .all(|change| change.verdict == Some(Verdict::NoDifference))
    );
    assert!(diff.only_before.is_empty() && diff.only_after.is_empty() && diff.surroundings.is_empty());
}

#[test]
fn noise_is_told_from_change() {
    let before = comparison::results();
    let noisy = run(&before, &with_latency_times("strand", 1.03));
    assert!(!noisy.has_regressions(None));
    let slower = run(&before, &with_latency_times("wharf", 1.3));
    assert!(slower.has_regressions(None) && slower.has_regressions(Some("wharf")));
    assert!(!slower.has_regressions(Some("strand")));
    let worse = slower
        .changes
        .iter()
        .find(|change| change.verdict == Some(Verdict::Worse))
        .expect("one");
    assert_eq!(
        (worse.place.system.as_str(), worse.metric.as_str()),
        ("wharf", "p50_us")
    );
    let (change, noise) = (
        worse.change_percent.expect("moved"),
        worse.noise_percent.expect("noisy"),
    );
    assert!(
        (change - 30.0).abs() < 0.1 && (5.0..7.0).contains(&noise),
        "{change} {noise}"
    );
    let text = slower.to_string();
    assert!(
        text.contains("\n  +30 % (noise 6 %)  200 -> 260      appends, 100 B: wharf through own, p50, µs\n"),
        "{text}"
    );
    let faster = run(&before, &with_latency_times("wharf", 0.5));
    assert!(!faster.has_regressions(None) && faster.to_string().contains("\nBetter\n  -50 %"));
}

#[test]
fn what_few_of_the_repetitions_found_is_no_change() {
    let before = comparison::results();
    let mut after = with_latency_times("wharf", 1.3);
    let rows = after
        .experiments
        .iter_mut()
        .flat_map(|experiment| &mut experiment.rows);
    for cell in rows.flat_map(|row| &mut row.cells) {
        if cell.system == "wharf" {
            cell.runs.truncate(1);
        }
    }
    let diff = run(&before, &after);
    assert!(!diff.has_regressions(None), "{diff}");
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
    assert!(diff.has_regressions(Some("strand")) && !diff.has_regressions(Some("wharf")));
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
            "cache of strand: not told before, 8 GiB after",
            "version of client own of strand: 1.2 before, 1.3 after",
            "acks of client own of strand: all before, 1 after",
        ]
    );
    assert!(diff.unlike_machines.is_empty());
}

#[test]
fn figures_of_two_machines_are_not_judged_unless_it_is_asked_for() {
    let (before, mut after) = (comparison::results(), with_latency_times("wharf", 1.3));
    after.machine.cpus = 8;
    after.machine.memory_gb = 64.0;
    let unlike = run(&before, &after);
    assert_eq!(
        unlike.unlike_machines,
        ["CPUs: 2 before, 8 after", "memory: 25.2 GB before, 64.0 GB after"]
    );
    assert!(!unlike.has_regressions(None), "nothing is judged");
    let text = unlike.to_string();
    assert!(
        text.contains("Unlike machines") && text.contains("0 worse, 0 better, 0 without a difference"),
        "{text}"
    );
    let json: serde_json::Value = serde_json::from_str(&unlike.to_json().expect("JSON")).expect("JSON");
    assert!(json["changes"][0]["verdict"].is_null());
    let forced = diff::run(&before, &after, Machines::Any).expect("the same suite");
    assert!(forced.unlike_machines.is_empty() && forced.has_regressions(Some("wharf")));
}

#[test]
fn unlike_results_are_refused() {
    let results = comparison::results();
    let mut other = results.clone();
    other.suite = "field".to_owned();
    assert!(
        diff::run(&results, &other, Machines::Same)
            .expect_err("another suite")
            .to_string()
            .contains("suites differ")
    );
    other = results.clone();
    other.schema = 7;
    assert!(
        diff::run(&results, &other, Machines::Same)
            .expect_err("another schema")
            .to_string()
            .contains("schema 7")
    );
}
