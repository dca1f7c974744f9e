//! Two made-up comparisons beside each other.

mod comparison;

use bench::compare::diff;
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

#[test]
fn the_same_is_no_difference() {
    let diff = diff::run(&comparison::results(), &comparison::results()).expect("the same suite");
    assert!(diff.changes.len() > 20 && !diff.has_regressions(None));
    assert!(
        diff.changes
            .iter()
            .all(|change| change.verdict == Verdict::NoDifference)
    );
    assert!(diff.only_before.is_empty() && diff.only_after.is_empty() && diff.surroundings.is_empty());
}

#[test]
fn noise_is_told_from_change() {
    let before = comparison::results();
    let noisy = diff::run(&before, &with_latency_times("strand", 1.03)).expect("the same suite");
    assert!(!noisy.has_regressions(None));
    let slower = diff::run(&before, &with_latency_times("wharf", 1.3)).expect("the same suite");
    assert!(slower.has_regressions(None) && slower.has_regressions(Some("wharf")));
    assert!(!slower.has_regressions(Some("strand")));
    let worse = slower
        .changes
        .iter()
        .find(|change| change.verdict == Verdict::Worse)
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
    let faster = diff::run(&before, &with_latency_times("wharf", 0.5)).expect("the same suite");
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
    let diff = diff::run(&before, &after).expect("the same suite");
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
    let diff = diff::run(&before, &after).expect("the same suite");
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
fn unlike_results_are_refused() {
    let results = comparison::results();
    let mut other = results.clone();
    other.suite = "field".to_owned();
    assert!(
        diff::run(&results, &other)
            .expect_err("another suite")
            .to_string()
            .contains("suites differ")
    );
    other = results.clone();
    other.schema = 7;
    assert!(
        diff::run(&results, &other)
            .expect_err("another schema")
            .to_string()
            .contains("schema 7")
    );
}
