//! Figures of two looks at a node that was not there.

use std::time::{Duration, Instant};

use super::super::cluster::tests::a_cluster;
use super::super::exposition::Exposition;
use super::super::lag::{GroupLag, Lag};
use super::super::observer::Observation;
use super::*;

/// A look `seconds` after `began` with these counters.
fn look(began: Instant, seconds: u64, records: u64, flushes: u64) -> Observation {
    let text = format!(
        "ropewalk_build_info{{version=\"1.2.3\"}} 1\nropewalk_uptime_seconds {seconds}\n\
         ropewalk_core_up{{core=\"0\"}} 1\nropewalk_core_up{{core=\"1\"}} 0\n\
         ropewalk_connections{{core=\"0\"}} 3\n\
         ropewalk_appended_records_total{{core=\"0\",journal=\"0\"}} {records}\n\
         ropewalk_appended_records_total{{core=\"0\",journal=\"1\"}} {records}\n\
         ropewalk_flushes_total{{core=\"0\",journal=\"0\"}} {flushes}\n\
         ropewalk_flush_seconds_total{{core=\"0\",journal=\"0\"}} {}\n\
         ropewalk_produce_latency_seconds_bucket{{le=\"0.001\",core=\"0\"}} {records}\n\
         ropewalk_produce_latency_seconds_bucket{{le=\"+Inf\",core=\"0\"}} {records}\n\
         ropewalk_faults_total{{core=\"0\",journal=\"0\"}} 0\n",
        flushes as f64 / 1_000.0
    );
    Observation {
        at: began + Duration::from_secs(seconds),
        time_ms: 5,
        metrics: Exposition::parse(&text).expect("metrics"),
        answers: (1..=200).map(Duration::from_millis).collect(),
        lag: Lag {
            groups: vec![GroupLag {
                name: "billing".to_owned(),
                state: "Stable".to_owned(),
                records: 42,
            }],
            left_out: 7,
            error: None,
        },
    }
}

/// Four seconds, 1,000 records each.
pub(in super::super) fn a_view() -> View {
    let began = Instant::now();
    View::between(&look(began, 10, 5_000, 100), &look(began, 14, 7_000, 180))
}

#[test]
fn rates_and_means_are_over_the_interval() {
    let view = a_view();
    assert_eq!(view.appended_records, Some(1_000.0));
    assert_eq!(view.flushes, Some(20.0));
    assert!(view.flush_seconds.is_some_and(|mean| (mean - 0.001).abs() < 1e-9));
    assert_eq!(view.cores.len(), 2);
    assert_eq!(view.cores[0].records, Some(1_000.0));
    assert!(!view.cores[1].is_up);
    assert_eq!(view.read_bytes, None, "not told");
    let answers = view.answers.expect("some were asked for");
    assert_eq!(
        (answers.count, answers.p50, answers.p99, answers.max),
        (200, 0.1, 0.198, 0.2)
    );
}

#[test]
fn a_node_that_started_again_has_no_negative_rates() {
    let began = Instant::now();
    let view = View::between(&look(began, 10, 5_000, 100), &look(began, 11, 30, 2));
    assert_eq!(view.appended_records, Some(60.0));
    assert!(view.cores[0].records.is_some_and(|rate| rate >= 0.0));
}

/// A look at two cores: what each has appended since its start, if it answered.
fn look_at_cores(began: Instant, seconds: u64, told: [Option<u64>; 2]) -> Observation {
    let lines = |(core, records): (usize, Option<u64>)| {
        let up = u8::from(records.is_some());
        let records = records.map_or_else(String::new, |records| {
            format!("ropewalk_appended_records_total{{core=\"{core}\"}} {records}\n")
        });
        format!("ropewalk_core_up{{core=\"{core}\"}} {up}\n{records}")
    };
    let text: String = told.into_iter().enumerate().map(lines).collect();
    Observation {
        metrics: Exposition::parse(&text).expect("metrics"),
        ..look(began, seconds, 0, 0)
    }
}

#[test]
fn a_core_that_did_not_answer_once_adds_nothing_to_the_rates() {
    let began = Instant::now();
    for (before, now, of_node, of_cores) in [
        (
            [Some(1_000), Some(5_000_000)],
            [Some(1_010), None],
            Some(10.0),
            [Some(10.0), None],
        ),
        (
            [Some(1_000), None],
            [Some(1_010), Some(5_000_000)],
            Some(10.0),
            [Some(10.0), None],
        ),
        ([None, None], [Some(1_010), Some(5_000_000)], None, [None, None]),
        // Began at zero again, each by itself.
        (
            [Some(1_000), Some(50)],
            [Some(5), Some(60)],
            Some(15.0),
            [Some(5.0), Some(10.0)],
        ),
    ] {
        let (before, now) = (look_at_cores(began, 10, before), look_at_cores(began, 11, now));
        let view = View::between(&before, &now);
        assert_eq!(view.appended_records, of_node);
        let rates: Vec<Option<f64>> = view.cores.iter().map(|core| core.records).collect();
        assert_eq!(rates, of_cores);
    }
}

#[test]
fn what_clients_and_others_chose_forges_no_line() {
    let mut view = a_view();
    view.version = "1\n2".to_owned();
    view.lag.groups[0].name = "a\x1b[2Jb\nc".to_owned();
    view.lag.error = Some("asking how far group a\x1b[2Jb is".to_owned());
    let text = view.as_text();
    for part in ["node      1?2, up", "a?[2Jb?c  Stable  42", "group a?[2Jb is"] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    assert!(!text.contains('\x1b'), "{text:?}");
}

#[test]
fn the_same_figures_are_told_as_text_and_as_json() {
    let view = a_view();
    let text = view.as_text();
    for part in [
        "node      1.2.3, up 14 s, 3 connections, - CPUs, -",
        "appends   1 k records/s  -/s  - batches/s",
        "requests  -/s  50 of them from here, to measure the answers",
        "answers   p50 100 ms  p99 198 ms  max 200 ms  of 200",
        "produce   p50 500 µs  p99 990 µs  p99.9 999 µs  of 2 k\n",
        "fetch     -\n",
        "flushes   20/s  1 ms each",
        "1 (silent)",
        "billing  Stable  42",
        "7 more groups",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    let json = view.as_json();
    assert_eq!(json["appended"]["records_per_second"], 1_000.0);
    assert_eq!(json["measuring_requests_per_second"], 50.0);
    assert_eq!(json["groups"][0]["lag"], 42);
    assert_eq!(json["read"]["bytes_per_second"], Value::Null);
    assert_eq!(json["answers"]["p99_seconds"], 0.198);
    assert_eq!(json["latency"]["since_start"], false);
    assert_eq!(json["latency"]["produce"]["count"], 2_000);
    assert_eq!(json["latency"]["fetch"], Value::Null);
    assert_eq!(json["cluster"], Value::Null);
    assert!(!text.contains("cluster"), "{text}");
}

#[test]
fn a_cluster_stands_between_the_node_and_its_cores() {
    let mut view = a_view();
    view.cluster = Some(a_cluster());
    let text = view.as_text();
    let (_, behind) = text.split_once("\nfaults ").expect("the node's last line");
    let begins = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    let words: Vec<String> = behind.lines().skip(1).map(begins).collect();
    let expected = [
        "cluster", "led", "", "node", "2", "3", "", "core", "0", "1", "", "group", "billing", "7",
    ];
    assert_eq!(words, expected, "{text}");
    assert_eq!(view.as_json()["cluster"]["nodes"][1]["away"], true);
}

#[test]
fn one_look_tells_latencies_since_the_start() {
    let began = Instant::now();
    let now = look(began, 14, 7_000, 180);
    let view = View::between(&look(began, 10, 5_000, 100), &now).with_latencies_since_start(&now);
    let line = "produce   p50 500 µs  p99 990 µs  p99.9 999 µs  of 7 k  since the start";
    assert!(view.as_text().contains(line), "{}", view.as_text());
    assert_eq!(view.appended_records, Some(1_000.0), "rates are of the interval");
    assert_eq!(view.as_json()["latency"]["since_start"], true);
}

#[test]
fn one_answer_is_every_percentile() {
    let only = Answers::of(&[Duration::from_millis(3)]).expect("one");
    assert_eq!((only.p50, only.p99, only.max), (0.003, 0.003, 0.003));
    assert_eq!(Answers::of(&[]), None);
}
