//! A node and the tools that use it, as a user would: every command's output and exit code.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::support::{Ran, RunningNode, ropewalk, run, run_with_input};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

fn node() -> (TempDir, RunningNode) {
    let directory = tempdir().expect("a temporary directory");
    let node = RunningNode::start(&directory);
    (directory, node)
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn the_first_session_of_the_readme_works() {
    let (directory, node) = node();
    assert!(node.greeting[0].starts_with("ropewalk "), "{:?}", node.greeting);
    let produced = node.run_with_input(&["produce", "greetings"], b"one\ntwo\nthree\n");
    assert_eq!(
        produced.err,
        "note: topic greetings did not exist and was created\n"
    );
    assert_eq!(produced.printed(), "");
    assert_eq!(node.run(&["consume", "greetings"]).printed(), "one\ntwo\nthree\n");

    let stopped = node.end_with("-TERM");
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert!(stopped.err.contains("stopped"), "{stopped:?}");

    let node = RunningNode::start(&directory);
    assert_eq!(node.run(&["consume", "greetings"]).printed(), "one\ntwo\nthree\n");
    assert_eq!(node.end_with("-INT").code, Some(0));
}

#[test]
fn a_killed_node_has_what_it_acknowledged() {
    let (directory, node) = node();
    node.run_with_input(&["produce", "greetings"], b"one\ntwo")
        .printed();
    assert_eq!(node.end_with("-KILL").code, None);
    let node = RunningNode::start(&directory);
    assert_eq!(node.run(&["consume", "greetings"]).printed(), "one\ntwo\n");
}

#[test]
fn a_second_node_on_the_same_directory_is_refused() {
    let (directory, _node) = node();
    let data = directory.path().join("data");
    let data = data.to_str().expect("text");
    let complaint = run(&[
        "serve",
        "--data",
        data,
        "--kafka",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
    ])
    .complaint();
    assert!(
        complaint.contains("is in use by another ropewalk process"),
        "{complaint}"
    );
}

#[test]
fn topics_are_created_listed_described_and_deleted() {
    let (_directory, node) = node();
    let none = node.run(&["topic", "list"]).printed();
    assert_eq!(
        none,
        "there are no topics; `ropewalk topic create NAME` makes one\n"
    );
    let create = [
        "topic",
        "create",
        "orders",
        "--partitions",
        "4",
        "--config",
        "retention.ms=60000",
    ];
    assert_eq!(
        node.run(&create).printed(),
        "created topic orders with 4 partitions\n"
    );
    assert!(node.run(&create).complaint().contains("TOPIC_ALREADY_EXISTS"));
    let made = node.run(&["topic", "create", "one", "--json"]).printed();
    assert_eq!(parsed(&made), parsed(r#"{"created": "one", "partitions": 1}"#));
    assert_eq!(
        node.run(&["topic", "list"]).printed(),
        "topic   partitions\none     1\norders  4\n"
    );

    node.run_with_input(&["produce", "orders", "--partition", "2"], b"a\nb\n")
        .printed();
    let text = node.run(&["topic", "describe", "orders"]).printed();
    assert!(
        text.lines()
            .any(|line| line.starts_with("retention.ms ") && line.ends_with("this topic")),
        "{text}"
    );
    let described = parsed(&node.run(&["topic", "describe", "orders", "--json"]).printed());
    let partition = &described["partitions"][2];
    assert_eq!(
        (&partition["first_offset"], &partition["tail"]),
        (&Value::from(0), &Value::from(2))
    );

    assert_eq!(
        node.run(&["topic", "delete", "orders"]).printed(),
        "deleted topic orders\n"
    );
    let gone = node.run(&["topic", "describe", "orders"]).complaint();
    assert!(gone.contains("UNKNOWN_TOPIC_OR_PARTITION"), "{gone}");
    assert!(
        gone.ends_with("`ropewalk topic list` shows what there is"),
        "{gone}"
    );
    let refused = node
        .run(&["topic", "create", "x", "--config", "cleanup.policy=archive"])
        .complaint();
    assert!(refused.contains("INVALID_CONFIG"), "{refused}");
}

#[test]
fn configs_are_read_and_changed_while_the_node_runs() {
    let (directory, node) = node();
    node.run(&["topic", "create", "orders"]).printed();
    let set = [
        "config",
        "set",
        "--topic",
        "orders",
        "retention.ms=5000",
        "segment.ms=6000",
    ];
    let rehearsed: Vec<_> = set.iter().copied().chain(["--dry-run"]).collect();
    assert!(node.run(&rehearsed).printed().contains("could be changed"));
    let get = ["config", "get", "--topic", "orders", "retention.ms"];
    let origin = |node: &RunningNode, get: &[&str]| {
        let text = node.run(get).printed();
        let line = text.lines().nth(1).expect("a heading and a line").to_owned();
        line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(origin(&node, &get), "604800000 default");
    assert_eq!(
        node.run(&set).printed(),
        "topic orders changed: retention.ms = 5000, segment.ms = 6000\n"
    );
    assert_eq!(origin(&node, &get), "5000 this topic");
    let all_nodes = ["config", "set", "--all-nodes", "log.retention.ms=7000", "--json"];
    let changed = parsed(&node.run(&all_nodes).printed());
    assert_eq!(changed["changed"]["log.retention.ms"], "7000");
    let unset = ["config", "unset", "--topic", "orders", "retention.ms"];
    assert_eq!(
        node.run(&unset).printed(),
        "topic orders changed: retention.ms has its default again\n"
    );
    let slip = ["config", "unset", "--topic", "orders", "retention.msec"];
    let refused = node.run(&slip).complaint();
    assert!(refused.contains("has no config retention.msec"), "{refused}");
    assert_eq!(node.end_with("-KILL").code, None);

    let node = RunningNode::start(&directory);
    assert_eq!(origin(&node, &get), "7000 all nodes");
    let described = node.run(&["topic", "describe", "orders"]).printed();
    let line = described.lines().find(|line| line.starts_with("segment.ms "));
    let words: Vec<_> = line.unwrap_or_default().split_whitespace().collect();
    assert_eq!(words, ["segment.ms", "6000", "this", "topic"], "{described}");
    let of_node = parsed(
        &node
            .run(&["config", "get", "--node", "1", "cores", "--json"])
            .printed(),
    );
    assert_eq!(
        (&of_node[0]["value"], &of_node[0]["read_only"]),
        (&Value::from("2"), &Value::from(true))
    );
    // Set is what is set where it was asked for, and not what comes from elsewhere.
    let is_set = |of: &[&str], name: &str| {
        let get = [&["config", "get"], of, &[name, "--json"]].concat();
        parsed(&node.run(&get).printed())[0]["set"].clone()
    };
    node.run(&["config", "set", "--node", "1", "max.connections=9000"])
        .printed();
    assert_eq!(is_set(&["--node", "1"], "max.connections"), true);
    assert_eq!(is_set(&["--node", "1"], "log.retention.ms"), false);
    assert_eq!(is_set(&["--all-nodes"], "log.retention.ms"), true);
    assert_eq!(is_set(&["--topic", "orders"], "retention.ms"), false);
    assert_eq!(is_set(&["--topic", "orders"], "segment.ms"), true);

    let complaints: [(&[&str], &str); 9] = [
        (
            &[
                "config",
                "set",
                "--topic",
                "orders",
                "segment.ms=1",
                "segment.ms=2",
            ],
            "twice",
        ),
        (
            &["config", "set", "--topic", "orders", "no.such=1"],
            "`ropewalk config get --topic NAME` shows what there is",
        ),
        (
            &["config", "set", "--topic", "nowhere", "segment.ms=1"],
            "`ropewalk topic list` shows what there is",
        ),
        (
            &["config", "set", "--node", "1", "cores=1"],
            "set cores in its configuration and start it again",
        ),
        (
            &["config", "get", "--topic", "orders", "no.such"],
            "`ropewalk config get --topic orders` shows",
        ),
        (
            &["config", "get", "--node", "7"],
            "this is node 1; ask node \"7\" at its own address",
        ),
        (&["config", "get", "--node", "1", "core"], "mean cores?"),
        (
            &["config", "get", "--topic", "orders", "log.retention.ms"],
            "did you mean retention.ms?",
        ),
        (&["topic", "describe", "a/b"], "up to 249 ASCII letters"),
    ];
    for (arguments, remedy) in complaints {
        let complaint = node.run(arguments).complaint();
        assert!(complaint.contains(remedy), "{arguments:?}: {complaint}");
    }
}

#[test]
fn keys_choose_partitions_and_keep_their_order() {
    let (_directory, node) = node();
    node.run(&["topic", "create", "keyed", "--partitions", "3"])
        .printed();
    let lines: Vec<String> = (0..20_000)
        .map(|number| format!("key-{}={number}", number % 50))
        .collect();
    let input = lines.join("\n");
    node.run_with_input(&["produce", "keyed", "--key-separator", "="], input.as_bytes())
        .printed();

    let printed = node.run(&["consume", "keyed", "--key-separator", "="]).printed();
    let of_key = |lines: &mut dyn Iterator<Item = String>, key: &str| -> Vec<String> {
        lines
            .filter(|line| line.starts_with(&format!("{key}=")))
            .collect()
    };
    for key in ["key-0", "key-7", "key-49"] {
        let expected = of_key(&mut lines.iter().cloned(), key);
        assert_eq!(of_key(&mut printed.lines().map(str::to_owned), key), expected);
    }
    assert_eq!(printed.lines().count(), lines.len());

    let bad = node
        .run_with_input(&["produce", "keyed", "--key-separator", "="], b"a=1\nb2\n")
        .complaint();
    assert_eq!(
        bad,
        "error: after 1 appended record: line 2 has no key separator \"=\""
    );
}

#[test]
fn a_consumer_begins_and_stops_where_it_is_told() {
    let (_directory, node) = node();
    let lines: String = (0..100).map(|number| format!("{number}\n")).collect();
    node.run_with_input(&["produce", "numbers"], lines.as_bytes())
        .printed();
    assert_eq!(
        node.run(&["consume", "numbers", "--from", "97"]).printed(),
        "97\n98\n99\n"
    );
    assert_eq!(
        node.run(&["consume", "numbers", "--from", "10", "--max", "2"])
            .printed(),
        "10\n11\n"
    );
    assert_eq!(
        node.run(&["consume", "numbers", "--from", "latest"]).printed(),
        ""
    );
    assert_eq!(node.run(&["consume", "numbers", "--from", "100"]).printed(), "");
    let beyond = node.run(&["consume", "numbers", "--from", "101"]).complaint();
    assert_eq!(
        beyond,
        "error: offset 101 does not exist yet: partition 0 of topic numbers goes on at 100"
    );
    let absent = node.run(&["consume", "numbers", "--partition", "1"]).complaint();
    assert_eq!(
        absent,
        "error: topic numbers has no partition 1, its last one is 0"
    );
    let record = parsed(
        &node
            .run(&["consume", "numbers", "--from", "5", "--max", "1", "--json"])
            .printed(),
    );
    assert_eq!(
        (&record["offset"], &record["value"], &record["key"]),
        (&5.into(), &"5".into(), &Value::Null)
    );
    let missing = node.run(&["produce", "absent", "--no-create"]).complaint();
    assert!(missing.contains("UNKNOWN_TOPIC_OR_PARTITION"), "{missing}");
}

#[test]
fn a_follower_sees_records_of_all_partitions_as_they_come() {
    let (_directory, node) = node();
    node.run(&["topic", "create", "live", "--partitions", "2"])
        .printed();
    let arguments = [
        "consume",
        "live",
        "--follow",
        "--max",
        "3",
        "--bootstrap",
        &node.address,
    ];
    let mut follower = ropewalk(&arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let mut lines = BufReader::new(follower.stdout.take().expect("piped")).lines();
    let mut next = || lines.next().expect("not ended").expect("text");
    for (partition, line) in [("0", "first"), ("1", "second"), ("0", "third")] {
        node.run_with_input(&["produce", "live", "--partition", partition], line.as_bytes())
            .printed();
        assert_eq!(next(), line);
    }
    assert_eq!(follower.wait().expect("our child").code(), Some(0));
}

#[test]
fn a_typed_line_is_appended_before_the_input_ends() {
    let (_directory, node) = node();
    node.run(&["topic", "create", "typed"]).printed();
    let mut command = ropewalk(&["produce", "typed", "--bootstrap", &node.address]);
    let mut producer = command
        .stdin(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let mut stdin = producer.stdin.take().expect("piped");
    stdin.write_all(b"now\n").expect("it reads");
    // The follower ends once the record is there; the producer still waits for input then.
    assert_eq!(
        node.run(&["consume", "typed", "--follow", "--max", "1"])
            .printed(),
        "now\n"
    );
    assert!(producer.try_wait().expect("our child").is_none());
    drop(stdin);
    assert_eq!(producer.wait().expect("our child").code(), Some(0));
}

#[test]
fn a_signal_ends_the_input_and_what_was_read_is_appended() {
    let (_directory, node) = node();
    node.run(&["topic", "create", "cut"]).printed();
    let mut command = ropewalk(&["produce", "cut", "--report", "--bootstrap", &node.address]);
    let mut producer = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let mut stdin = producer.stdin.take().expect("piped");
    stdin.write_all(b"one\ntwo\nha").expect("it reads");
    node.run(&["consume", "cut", "--follow", "--max", "2"]).printed();
    let process_id = producer.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &process_id]).status();
    assert!(sent.expect("kill is everywhere").success());
    // Its input is still open: it does not wait for the rest of it.
    let ended = Ran::of(producer.wait_with_output().expect("our child"));
    assert_eq!(
        (ended.code, ended.err.as_str()),
        (Some(143), "note: SIGTERM: appended 2 records to cut\n")
    );
    assert_eq!(parsed(&ended.out)["records"], 2);
    assert_eq!(node.run(&["consume", "cut"]).printed(), "one\ntwo\n");
    drop(stdin);
}

#[test]
fn what_the_node_refuses_is_told() {
    let (_directory, node) = node();
    node.run(&["topic", "create", "small", "--config", "max.message.bytes=100"])
        .printed();
    let input = format!("fits\n{}\n", "x".repeat(200));
    let refused = node
        .run_with_input(&["produce", "small"], input.as_bytes())
        .complaint();
    assert!(refused.contains("MESSAGE_TOO_LARGE"), "{refused}");
    assert!(
        refused.starts_with("error: after 1 appended record: "),
        "{refused}"
    );
    assert_eq!(node.run(&["consume", "small"]).printed(), "fits\n");
}

#[test]
fn a_large_group_settles_in_either_protocol() {
    let (_directory, node) = node();
    for (protocol, interval) in [("consumer", "0.02"), ("classic", "0")] {
        let command = format!(
            "bench members --members 20 --partitions 50 --protocol {protocol} --group {protocol} \
             --heartbeat-interval {interval} --json"
        );
        let words: Vec<_> = command.split(' ').collect();
        let report = parsed(&node.run(&words).printed());
        assert_eq!(report["protocol"], protocol);
        let moved = |after: usize| report["settled"][after]["partitions_moved"].as_u64();
        assert_eq!(moved(0), Some(50), "{report}");
        // 50 among 20 or 21 are two or three for each: those of whoever came or went.
        for after in [1, 2] {
            assert!(matches!(moved(after), Some(2..=3)), "{report}");
        }
    }
    let refused = node
        .run(&["bench", "members", "--heartbeat-interval", "31"])
        .complaint();
    assert!(refused.contains("--heartbeat-interval"), "{refused}");
}

#[test]
fn a_node_can_be_measured() {
    let (directory, node) = node();
    let append = [
        "bench",
        "append",
        "--topic",
        "load",
        "--records",
        "1000",
        "--batch-records",
        "10",
        "--json",
    ];
    let report = parsed(&node.run(&append).printed());
    assert_eq!((&report["records"], &report["errors"]), (&1000.into(), &0.into()));
    // The node is on this machine: the floor of its disk, beside its directory, stands beside the result.
    assert_eq!(report["floor_bytes"], 1000);
    for floor in ["floor_flush_p50_us", "floor_loopback_p50_us"] {
        assert!(report[floor].as_f64() > Some(0.0), "{floor}: {report}");
    }
    assert_eq!(report["floor_disk"].as_str(), directory.path().to_str());
    let left = std::fs::read_dir(directory.path()).expect("readable").count();
    assert_eq!(left, 1, "only the node's directory is there");
    let small = [
        "bench",
        "append",
        "-t",
        "small",
        "-n",
        "1",
        "-c",
        "retention.ms=1h",
        "-r",
        "1",
    ];
    let text = node.run(&small).printed();
    let said = |name: &str, value: &str| {
        let words = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        words.into_iter().any(|words| words == [name, value])
    };
    for (name, value) in [
        ("topic", "small"),
        ("batch_records", "1"),
        ("records", "1"),
        ("acks", "-1"),
    ] {
        assert!(said(name, value), "{name} {value}: {text}");
    }
    let configs = ["config", "get", "-t", "small", "retention.ms"];
    assert!(node.run(&configs).printed().contains("3600000"));
    let report = parsed(
        &node
            .run(&["bench", "read", "--topic", "load", "--json"])
            .printed(),
    );
    assert_eq!(
        (&report["records"], &report["offset_gaps"]),
        (&1000.into(), &0.into())
    );
}

#[test]
fn short_flags_and_units_are_understood() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let node = RunningNode::start(&directory);
    let b = ["-b", &node.address];
    let run = |words: &[&str], input: &[u8]| run_with_input(&[words, &b].concat(), input);
    let create = [
        "topic",
        "create",
        "orders",
        "-p",
        "2",
        "-r",
        "1",
        "-c",
        "retention.ms=7d",
    ];
    run(&create, b"").printed();
    let produce = [
        "produce", "orders", "-p", "1", "-k", "key", "-H", "a=b", "-z", "lz4",
    ];
    run(&produce, b"one\ntwo\nthree\n").printed();
    let consume = [
        "consume",
        "orders",
        "-p",
        "1",
        "-o",
        "1",
        "-n",
        "1",
        "-f",
        "{key} {value} {headers}",
    ];
    assert_eq!(run(&consume, b"").printed(), "key two a=b\n");
    // As kcat has it: the topic by a flag, and what stands first is a file then.
    let file = directory.path().join("lines");
    std::fs::write(&file, "four\n").expect("writable");
    let file = file.to_str().expect("text");
    run(&["produce", "-t", "orders", "-p", "0", file], b"").printed();
    run(&["produce", "-t", "orders", "-p", "0"], b"five\n").printed();
    let consume = ["consume", "-t", "orders", "-p", "0"];
    assert_eq!(run(&consume, b"").printed(), "four\nfive\n");
    let set = ["config", "set", "-t", "orders", "segment.bytes=16MiB"];
    let changed = run(&set, b"").printed();
    assert!(changed.contains("segment.bytes = 16777216"), "{changed}");
    let get = ["config", "get", "-t", "orders", "retention.ms", "--json"];
    let got = run(&get, b"").printed();
    assert!(got.contains("\"value\":\"604800000\""), "{got}");
}
