//! Percentiles from planted times against exact ones, and what is said where a bucket does not tell.

use super::*;

/// The node's upper bounds in seconds.
const BOUNDS: [f64; 19] = [
    1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0,
    10.0,
];
const METRIC: &str = "ropewalk_produce_latency_seconds";

/// A node's metrics for these times on one core.
fn told(core: u32, seconds: &[f64]) -> String {
    let bounds = BOUNDS.iter().copied().chain([f64::INFINITY]);
    let line = |bound: f64| {
        let up_to = seconds.iter().filter(|time| **time <= bound).count();
        let bound = if bound.is_finite() {
            bound.to_string()
        } else {
            "+Inf".to_owned()
        };
        format!("{METRIC}_bucket{{le=\"{bound}\",core=\"{core}\"}} {up_to}\n")
    };
    bounds.map(line).collect()
}

fn exposition(text: &str) -> Exposition {
    Exposition::parse(text).expect("metrics")
}

fn spread_of(seconds: &[f64]) -> Spread {
    Spread::between(None, &exposition(&told(0, seconds)), METRIC).expect("it is told")
}

/// Between the start and now, of a node that has told these texts.
fn grown(before: &str, now: &str) -> Spread {
    Spread::between(Some(&exposition(before)), &exposition(now), METRIC).expect("it is told")
}

/// The least of ascending times that so many of a thousand are not above.
fn exact(ascending: &[f64], of_thousand: usize) -> f64 {
    ascending[(ascending.len() * of_thousand).div_ceil(1_000).max(1) - 1]
}

#[test]
fn percentiles_are_near_the_exact_ones_where_times_are_spread() {
    // Evenly from 100 µs to 900 µs: interpolation is right but for rounding at the ends of buckets.
    let evenly: Vec<f64> = (1..=8_000).map(|step| 1e-4 + step as f64 * 1e-7).collect();
    // Each next one is 0.1 % longer: from 15 µs to 5 s.
    let widely: Vec<f64> = (0..12_700).map(|step| 15e-6 * 1.001_f64.powi(step)).collect();
    for (times, error_max) in [(evenly, 0.02), (widely, 0.2)] {
        let spread = spread_of(&times);
        assert_eq!(spread.count(), times.len() as u64);
        for (name, _, of_thousand) in TOLD {
            let exact = exact(&times, of_thousand as usize);
            let found = spread.percentile(of_thousand).expect("there are some").seconds;
            // Above 500 µs the next bound is 1 ms, and the times end at 900 µs.
            let error_max = if exact > 5e-4 && exact < 1e-3 {
                0.12
            } else {
                error_max
            };
            assert!(
                (found / exact - 1.0).abs() <= error_max,
                "{name}: {found} for {exact}"
            );
        }
    }
}

#[test]
fn no_percentile_leaves_its_bucket() {
    // All at one place, wherever in its bucket, are the worst for interpolation.
    for at in [1.1e-5, 2.1e-5, 4.9e-5, 5e-5, 3.3e-3, 0.7, 9.99] {
        let spread = spread_of(&vec![at; 1_000]);
        for (.., of_thousand) in TOLD {
            let found = spread.percentile(of_thousand).expect("there are some").seconds;
            assert!((0.4..=2.5).contains(&(found / at)), "{found} for {at}");
        }
    }
}

#[test]
fn a_percentile_in_the_middle_of_a_bucket_is_interpolated() {
    // Half of them up to 100 µs, the other half up to 200 µs.
    let times = [vec![9e-5; 500], vec![1.5e-4; 500]].concat();
    let at = |of_thousand| spread_of(&times).percentile(of_thousand).expect("there are some");
    let estimate = at(990);
    assert!((estimate.seconds - 1.98e-4).abs() < 1e-9, "{estimate:?}");
    assert_eq!(estimate.is, Precision::Estimate);
    assert_eq!(at(500).is, Precision::AtMost, "the last of its bucket");
    assert!((at(500).seconds - 1e-4).abs() < 1e-12);
    assert_eq!(at(500).as_text(), "≤100 µs");
    assert_eq!(at(990).as_text(), "198 µs");
}

#[test]
fn few_times_are_told_by_the_end_of_their_bucket() {
    let spread = spread_of(&[3e-4]);
    for (.., of_thousand) in TOLD {
        let only = spread.percentile(of_thousand).expect("there is one");
        assert_eq!((only.seconds, only.is), (5e-4, Precision::AtMost));
    }
    assert_eq!(spread.as_text(), "p50 ≤500 µs  p99 ≤500 µs  p99.9 ≤500 µs  of 1");
}

#[test]
fn what_is_beyond_all_bounds_is_said_to_be() {
    let spread = spread_of(&[1e-4, 60.0]);
    let longest = spread.percentile(990).expect("there are two");
    assert_eq!((longest.seconds, longest.is), (10.0, Precision::Above));
    assert_eq!(longest.as_text(), ">10 s");
    assert_eq!(spread.as_json()["p99_is"], "above");
}

#[test]
fn only_what_happened_between_two_looks_counts_and_all_cores_do() {
    let before = told(0, &[0.7; 50]) + &told(1, &[3e-5; 10]);
    let now = told(0, &[vec![0.7; 50], vec![3e-4; 4]].concat()) + &told(1, &[3e-5; 12]);
    let spread = grown(&before, &now);
    assert_eq!(spread.count(), 6);
    let filled: Vec<_> = spread.buckets.iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(filled, [&(5e-5, 2), &(5e-4, 4)]);
    assert_eq!(grown(&now, &now).count(), 0);
    assert_eq!(grown(&now, &now).as_text(), "none");
    assert_eq!(grown(&now, &now).as_json()["p50_seconds"], Value::Null);
}

#[test]
fn a_node_that_started_again_and_a_core_that_was_silent_mislead_nobody() {
    let before = told(0, &[0.7; 50]);
    let started_again = told(0, &[3e-4; 4]);
    assert_eq!(grown(&before, &started_again).count(), 4);
    // Samples of core 1 from before it fell silent are not of this interval.
    let awake_again = told(0, &[0.7; 51]) + &told(1, &[3e-5; 1_000]);
    assert_eq!(grown(&before, &awake_again).count(), 1);
}

#[test]
fn what_is_not_told_is_a_dash_and_null() {
    let latencies = Latencies::between(None, &exposition(&told(0, &[3e-4, 3e-4])));
    let lines: Vec<_> = latencies.lines().collect();
    assert_eq!(
        lines,
        [
            (
                "produce",
                "p50 350 µs  p99 ≤500 µs  p99.9 ≤500 µs  of 2  since the start".to_owned()
            ),
            ("fetch", "-".to_owned()),
            ("flush", "-".to_owned()),
        ]
    );
    let json = latencies.as_json();
    let produce = &json["produce"];
    assert_eq!(
        (&produce["count"], &produce["p50_is"]),
        (&json!(2), &json!("estimate"))
    );
    assert!(
        produce["p50_seconds"]
            .as_f64()
            .is_some_and(|p50| (p50 - 3.5e-4).abs() < 1e-9)
    );
    for name in ["p99", "p999"] {
        assert_eq!(produce[format!("{name}_seconds")], 5e-4);
        assert_eq!(produce[format!("{name}_is")], "at_most");
    }
    assert_eq!(
        (&json["fetch"], &json["since_start"]),
        (&Value::Null, &json!(true))
    );
}

#[test]
fn counts_that_no_node_tells_do_no_harm() {
    let huge = format!("{METRIC}_bucket{{le=\"1\"}} 1e300\n{METRIC}_bucket{{le=\"+Inf\"}} -5\n");
    assert_eq!(
        Spread::between(None, &exposition(&huge), METRIC).map(|spread| spread.count()),
        Some(u64::MAX)
    );
    let odd = format!("{METRIC}_bucket 5\n{METRIC}_bucket{{le=\"x\"}} 5\n{METRIC}_bucket{{le=\"NaN\"}} 5\n");
    let spread = Spread::between(None, &exposition(&odd), METRIC).expect("it is told");
    assert_eq!((spread.count(), spread.percentile(500)), (0, None));
    assert_eq!(Spread::between(None, &exposition("x 1\n"), METRIC), None);
}
