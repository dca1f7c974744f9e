//! The log tells a node's story: where it is, what was changed, and that it stopped.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::tempdir;

use crate::support::RunningNode;

/// The lines of a log that tell of events, without their times.
fn told(err: &str) -> Vec<&str> {
    err.lines()
        .filter_map(|line| line.split_once(" INFO ").map(|(_, told)| told))
        .collect()
}

#[test]
fn each_change_has_a_line() {
    let directory = tempdir().expect("a temporary directory");
    let node = RunningNode::start(&directory);
    let address = format!("kafka={}", node.address);
    for command in [
        "topic create orders --partitions 2 --config retention.ms=-1",
        "topic grow orders --partitions 3",
        "config set --topic orders max.message.bytes=5000",
        "config unset --topic orders max.message.bytes",
        "config set --all-nodes log.retention.ms=7200000",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        node.run(&words).printed();
    }
    node.run_with_input(&["produce", "orders", "--partition", "1"], b"a\nb\nc\nd\n")
        .printed();
    for command in [
        "topic trim orders --partition 1 --before 3",
        "group reset billing --topic orders:1 --to-offset 4",
        "group reset billing --topic orders:1 --to-offset 3",
        "group forget billing --topic orders",
        "group reset billing --topic orders:1 --to-offset 4",
        "group delete billing",
        "topic delete orders",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        node.run(&words).printed();
    }
    let err = node.end_with("-TERM").err;
    let story = [
        &["ready", "version=", &address, "http=", "data=", "cores=2"][..],
        &[
            "a topic was created",
            "topic=\"orders\"",
            "partitions=2",
            "retention.ms=-1",
        ],
        &[
            "a topic was given more partitions",
            "topic=\"orders\"",
            "partitions=3",
        ],
        &[
            "configs of a topic were changed",
            "topic=\"orders\"",
            "max.message.bytes=5000",
        ],
        &[
            "configs of a topic were changed",
            "max.message.bytes back to its default",
        ],
        &[
            "configs of nodes were changed",
            "node=\"all\"",
            "log.retention.ms=7200000",
        ],
        &[
            "records were trimmed",
            "partition=\"orders-1\"",
            "first=0",
            "last=2",
        ],
        &[
            "offsets of a group were set",
            "group=\"billing\"",
            "orders-1 4 to 3",
        ],
        &["offsets of a group were deleted", "group=\"billing\"", "orders-1"],
        &["a group was deleted", "group=\"billing\""],
        &["a topic was deleted", "topic=\"orders\"", "partitions=3"],
        &["stopping", "SIGTERM"],
        &["stopped"],
    ];
    let mut lines = told(&err).into_iter();
    for parts in story {
        let found = lines.any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(found, "{parts:?} in its place of:\n{err}");
    }
    assert!(err.lines().count() < 30, "{err}");
}

#[test]
fn what_retention_deletes_has_a_line() {
    let directory = tempdir().expect("a temporary directory");
    let sets = ["disk.reserve_bytes=0", "retention.check_interval=50ms"];
    let node = RunningNode::start_with(&directory, &sets);
    node.run(&["topic", "create", "orders", "--config", "retention.ms=1"])
        .printed();
    node.run_with_input(&["produce", "orders"], b"a\nb\n").printed();
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let told = node.run(&["topic", "describe", "orders", "--json"]).printed();
        let topic: Value = serde_json::from_str(&told).expect("it is JSON");
        if topic["partitions"][0]["first_offset"] == 2 {
            break;
        }
        assert!(Instant::now() < deadline, "{told}");
        thread::sleep(Duration::from_millis(20));
    }
    let log = node.end_with("-TERM").err;
    let mut lines = told(&log).into_iter();
    let parts = [
        "records have gone by retention",
        "partition=\"orders-0\"",
        "last=1",
        "config=\"retention.ms\"",
    ];
    let found = lines.any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(found, "{log}");
}

#[test]
fn a_node_that_logs_in_json_says_nothing_else() {
    let directory = tempdir().expect("a temporary directory");
    let sets = ["log.format=json", "log.level=debug", "disk.reserve_bytes=0"];
    let node = RunningNode::start_with(&directory, &sets);
    node.run(&["topic", "create", "orders"]).printed();
    let greeting = node.greeting.clone();
    let ended = node.end_with("-TERM");
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    for told in ["a topic was created", "stopped"] {
        assert!(ended.err.contains(told), "{}", ended.err);
    }
    for line in greeting.iter().map(String::as_str).chain(ended.err.lines()) {
        let told: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(told.is_object(), "{line}");
    }
}
