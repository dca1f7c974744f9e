//! An operator's work: groups, growing and trimming, watching a node, and looking into its directory at rest.

use std::collections::HashMap;
use std::fs;
use std::time::Instant;

use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::support::{RunningNode, run, run_with_input};

fn node() -> (TempDir, RunningNode) {
    let directory = tempdir().expect("a temporary directory");
    let node = RunningNode::start(&directory);
    (directory, node)
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn with_records(node: &RunningNode, topic: &str) {
    // Records as old as these would be given up at once.
    let create = ["topic", "create", topic, "--config", "retention.ms=-1"];
    node.run(&create).printed();
    let lines: String = (0..10)
        .map(|number| {
            format!(
                "{{\"value\": \"{number}\", \"timestamp_ms\": {}}}\n",
                1_000 * number
            )
        })
        .collect();
    node.run_with_input(&["produce", topic, "--json"], lines.as_bytes())
        .printed();
}

#[test]
fn a_group_is_put_elsewhere_and_its_lag_is_shown() {
    let (_directory, node) = node();
    with_records(&node, "orders");
    assert_eq!(
        node.run(&["group", "list"]).printed(),
        "there are no groups; a consumer with a group.id makes one\n"
    );
    let reset = |target: &[&str]| {
        let all = [
            &["group", "reset", "billing", "--topic", "orders", "--json"],
            target,
        ]
        .concat();
        let set = parsed(&node.run(&all).printed());
        (
            set["dry_run"].clone(),
            set["offsets"][0]["before"].clone(),
            set["offsets"][0]["offset"].clone(),
        )
    };
    let (yes, no) = (Value::from(true), Value::from(false));
    let offset = |offset: i64| Value::from(offset);
    assert_eq!(
        reset(&["--to-offset", "4", "--dry-run"]),
        (yes, Value::Null, offset(4))
    );
    assert_eq!(reset(&["--to-offset", "4"]), (no.clone(), Value::Null, offset(4)));
    assert_eq!(reset(&["--shift", "-3"]), (no.clone(), offset(4), offset(1)));
    assert_eq!(
        reset(&["--shift", "-3"]),
        (no.clone(), offset(1), offset(0)),
        "not below the first"
    );
    assert_eq!(reset(&["--to-time", "@6500"]), (no.clone(), offset(0), offset(7)));
    assert_eq!(reset(&["--to-latest"]), (no.clone(), offset(7), offset(10)));
    assert_eq!(reset(&["--to-earliest"]), (no.clone(), offset(10), offset(0)));
    assert_eq!(reset(&["--to-offset", "8"]), (no, offset(0), offset(8)));

    let described = parsed(&node.run(&["group", "describe", "billing", "--json"]).printed());
    assert_eq!(
        (&described["lag"], &described["offsets"][0]["lag"]),
        (&offset(2), &offset(2))
    );
    let text = node.run(&["group", "describe", "billing"]).printed();
    assert!(text.starts_with("group billing is Empty ("), "{text}");
    assert!(
        text.contains("orders  0          8          10    2    -"),
        "{text}"
    );
    assert!(node.run(&["group", "list"]).printed().contains("billing  Empty"));
    let forget = |of: &str, more: &[&str]| {
        let words = [&["group", "forget", "billing", "--topic", of], more].concat();
        node.run(&words)
    };
    let would = parsed(&forget("orders", &["--dry-run", "--json"]).printed());
    assert_eq!(
        (&would["dry_run"], &would["forgotten"][0]["offset"]),
        (&true.into(), &offset(8))
    );
    let nothing = forget("orders:7", &[]).complaint();
    assert!(nothing.contains("has committed nothing there"), "{nothing}");
    assert!(
        forget("orders:0", &[])
            .printed()
            .ends_with("offsets of group billing were forgotten\n")
    );
    // A group of which nothing is left is gone with that.
    let gone = forget("orders", &[]).complaint();
    assert!(gone.contains("has committed nothing there"), "{gone}");
    node.run(&["group", "reset", "billing", "--topic", "orders", "--to-latest"])
        .printed();
    assert_eq!(
        node.run(&["group", "delete", "billing"]).printed(),
        "deleted group billing\n"
    );
}

#[test]
fn what_a_group_cannot_do_is_told() {
    let (_directory, node) = node();
    with_records(&node, "orders");
    for (arguments, expected) in [
        (&["group", "describe", "nobody"][..], "GROUP_ID_NOT_FOUND"),
        (
            &["group", "describe", "no\x1b[2Jbody"],
            "group no?[2Jbody: GROUP_ID_NOT_FOUND",
        ),
        (
            &["group", "delete", "nobody"],
            "`ropewalk group list` shows what there is",
        ),
        (
            &["group", "reset", "nobody", "--to-latest"],
            "group nobody has committed nothing; name what to set with --topic",
        ),
        (
            &["group", "reset", "nobody", "--topic", "orders:7", "--to-latest"],
            "topic orders has no partition 7, its last one is 0",
        ),
        (
            &["group", "reset", "nobody", "--topic", "orders", "--shift", "1"],
            "there is nothing to shift",
        ),
        (
            &["group", "reset", "nobody", "--topic", "absent", "--to-latest"],
            "`ropewalk topic list` shows what there is",
        ),
    ] {
        let complaint = node.run(arguments).complaint();
        assert!(complaint.contains(expected), "{arguments:?}: {complaint}");
    }
}

#[test]
fn a_topic_grows_and_is_trimmed() {
    let (_directory, node) = node();
    with_records(&node, "orders");
    let grow = ["topic", "grow", "orders", "--partitions", "3"];
    assert_eq!(
        node.run(&grow).printed(),
        "topic orders has 3 partitions, 1 before\n"
    );
    assert_eq!(
        node.run(&grow).complaint(),
        "error: topic orders has 3 partitions already; a topic only grows"
    );
    let trim = |before: &str| {
        let arguments = [
            "topic",
            "trim",
            "orders",
            "--partition",
            "0",
            "--before",
            before,
            "--json",
        ];
        parsed(&node.run(&arguments).printed())["first_offset"].clone()
    };
    assert_eq!(trim("3"), 3);
    assert_eq!(trim("@4500"), 5);
    assert_eq!(node.run(&["consume", "orders", "--max", "1"]).printed(), "5\n");
    assert_eq!(trim("tail"), 10);
    let beyond = ["topic", "trim", "orders", "--partition", "0", "--before", "11"];
    assert_eq!(
        node.run(&beyond).complaint(),
        "error: offset 11 does not exist yet: partition 0 of topic orders goes on at 10"
    );

    let create = ["topic", "create", "orders", "--if-absent"];
    assert_eq!(
        node.run(&create).printed(),
        "topic orders exists, with 3 partitions\n"
    );
    let delete = ["topic", "delete", "orders", "--if-present"];
    assert_eq!(node.run(&delete).printed(), "deleted topic orders\n");
    assert_eq!(node.run(&delete).printed(), "there is no topic orders\n");
    let climbing = node.run(&["topic", "create", "../orders"]).complaint();
    assert!(climbing.contains("INVALID_TOPIC"), "{climbing}");
}

#[test]
fn a_running_node_is_watched() {
    let (_directory, node) = node();
    with_records(&node, "orders");
    node.run(&[
        "group",
        "reset",
        "billing",
        "--topic",
        "orders",
        "--to-offset",
        "4",
    ])
    .printed();
    let http = node.http_address();
    let once = ["top", "--once", "--http", &http];
    let text = node.run(&once).printed();
    for part in [
        "node      ",
        "appends   ",
        "produce   p50 ",
        "fetch     none",
        "flush     p50 ",
        "  since the start\n",
        "flushes   ",
        "caches    ",
        "billing  Empty  6",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let figures = parsed(&node.run(&[&once[..], &["--json"]].concat()).printed());
    assert_eq!(figures["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(figures["groups"][0]["lag"], 6);
    assert_eq!(figures["groups_error"], Value::Null);
    assert_eq!(figures["cluster"], Value::Null, "it is alone");
    assert_eq!(figures["cores"].as_array().map(Vec::len), Some(2));
    assert_eq!(figures["faults"], 0.0);
    assert!(figures["answers"]["count"].as_u64() > Some(0), "{figures}");
    let latency = &figures["latency"];
    assert_eq!(latency["since_start"], true);
    assert!(latency["produce"]["count"].as_u64() > Some(0), "{latency}");
    for timed in ["produce", "flush"] {
        let p50 = latency[timed]["p50_seconds"].as_f64();
        assert!(
            p50 > Some(0.0) && p50 <= latency[timed]["p999_seconds"].as_f64(),
            "{latency}"
        );
    }
    for path in [
        &["appended", "records_per_second"],
        &["flushes", "per_second"],
        &["journal", "bytes"],
    ] {
        assert!(figures[path[0]][path[1]].is_number(), "{path:?}: {figures}");
    }
    let kafka = run(&["top", "--once", "--http", &node.address]).complaint();
    assert!(kafka.contains("/metrics"), "{kafka}");
}

#[test]
fn top_does_not_show_two_nodes_as_one() {
    let ((_one, one), (_other, other)) = (node(), node());
    let mixed = one
        .run(&["top", "--once", "--http", &other.http_address()])
        .complaint();
    assert!(
        mixed.contains(&format!("http://{} is a node of cluster ", other.http_address())),
        "{mixed}"
    );
    assert!(mixed.ends_with("must name the same node"), "{mixed}");
    let command = |http: &str| {
        let mut command = crate::support::ropewalk(&["top", "--once", "--json"]);
        command
            .env("ROPEWALK_BOOTSTRAP", &one.address)
            .env("ROPEWALK_HTTP", http);
        crate::support::Ran::of(command.output().expect("the binary was built"))
    };
    command(&one.http_address()).printed();
    assert_eq!(command(&other.http_address()).code, Some(1));
}

#[test]
fn a_reset_beyond_the_end_says_what_was_set() {
    let (_directory, node) = node();
    with_records(&node, "orders");
    let reset = node.run(&["group", "reset", "billing", "-t", "orders", "--to-offset", "200"]);
    assert_eq!(
        reset.err,
        "note: partition 0 of topic orders has no offset 200: the nearest is 10\n"
    );
    assert!(
        reset
            .printed()
            .starts_with("topic   partition  before  offset\norders  0          -       10\n")
    );
    let sound = node.run(&["group", "reset", "billing", "-t", "orders", "--to-offset", "7"]);
    assert_eq!(sound.err, "");
}

/// Of a topic with one order over its partitions: a cut is shown, and groups go on there.
#[test]
fn a_group_is_put_at_a_cut() {
    let (_directory, node) = node();
    let create = [
        "topic",
        "create",
        "ledger",
        "-p",
        "2",
        "--config",
        "ropewalk.order=total",
    ];
    node.run(&create).printed();
    for (partition, lines) in [("1", "a\n"), ("0", "b\nc\n"), ("1", "d\n")] {
        node.run_with_input(&["produce", "ledger", "--partition", partition], lines.as_bytes())
            .printed();
    }
    let http = node.http_address();
    let cut = |more: &[&str]| node.run(&[&["topic", "cut", "ledger", "--http", &http], more].concat());
    assert_eq!(
        cut(&["--at", "2"]).printed(),
        "position 2\n\npartition  offset\n0          1\n1          1\n"
    );
    let whole = parsed(&cut(&["--json"]).printed());
    assert_eq!(
        (&whole["position"], &whole["offsets"]),
        (&Value::from(4), &Value::from(vec![2, 2]))
    );
    let beyond = cut(&["--at", "5"]);
    assert_eq!(beyond.code, Some(1));
    assert!(beyond.err.contains("position 5"), "{}", beyond.err);
    let reset = [
        "group", "reset", "billing", "--to-cut", "ledger@3", "--http", &http, "--json",
    ];
    let set = parsed(&node.run(&reset).printed());
    let offsets: Vec<&Value> = (0..2).map(|place| &set["offsets"][place]["offset"]).collect();
    assert_eq!(offsets, [&Value::from(2), &Value::from(1)]);
    let refused = node.run(&["group", "reset", "billing", "--to-cut", "ledger"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("NAME@POSITION"), "{}", refused.err);
    with_records(&node, "orders");
    let refused = node.run(&["topic", "cut", "orders", "--http", &http]);
    assert!(refused.err.contains("ropewalk.order"), "{}", refused.err);
}

#[test]
fn a_command_that_waits_for_a_full_disk_says_so() {
    let (directory, node) = node();
    with_records(&node, "orders");
    let to_latest = ["group", "reset", "billing", "-t", "orders", "--to-latest"];
    assert_eq!(node.run(&to_latest).code, Some(0));
    assert_eq!(node.end_with("-TERM").code, Some(0));
    let began = Instant::now();
    let node = RunningNode::start_with(&directory, &["disk.reserve_bytes=1TiB"]);
    let nobody_has_it = node.run(&["group", "reset", "new", "-t", "orders", "--to-earliest"]);
    assert_eq!(nobody_has_it.code, Some(1), "{nobody_has_it:?}");
    let producing = std::thread::spawn({
        let address = node.address.clone();
        move || run_with_input(&["produce", "orders", "-b", &address], b"one\n")
    });
    let reset = node.run(&["group", "reset", "billing", "-t", "orders", "--to-earliest"]);
    assert_eq!(reset.code, Some(1), "{reset:?}");
    let (note, error) = reset.err.split_once('\n').expect("two lines");
    assert!(note.starts_with("note: waiting: "), "{note}");
    for told in [note, error] {
        assert!(told.contains("MiB are free on the disk with "), "{told}");
        assert!(told.contains("disk.reserve_bytes is 1TiB"), "{told}");
    }
    let produced = producing.join().expect("no panic");
    assert_eq!(produced.code, Some(1), "{produced:?}");
    let (note, error) = produced.err.split_once('\n').expect("two lines");
    for told in [note, error] {
        assert!(told.contains("the disk is full: "), "{told}");
        assert!(
            told.contains(" MiB free, disk.reserve_bytes is 1048576 MiB;"),
            "{told}"
        );
    }
    assert!(note.starts_with("note: waiting: "), "{note}");
    // The commands above were refused hundreds of times. The log tells of the disk once a minute.
    let log = node.end_with("-TERM").err;
    let short = log
        .lines()
        .filter(|line| line.contains("appends are refused: the disk"));
    let warnings: Vec<&str> = short.collect();
    let minutes = began.elapsed().as_secs() as usize / 60;
    assert!((1..=1 + minutes).contains(&warnings.len()), "{log}");
    for part in [" WARN ", "free_bytes=", "reserve_bytes=1099511627776"] {
        assert!(warnings[0].contains(part), "{part} in {}", warnings[0]);
    }
    assert!(log.lines().count() < 20, "{log}");
}

#[test]
fn a_directory_at_rest_is_looked_into() {
    let (directory, node) = node();
    with_records(&node, "orders");
    let id = parsed(&node.run(&["topic", "describe", "orders", "--json"]).printed())["id"].clone();
    let partition = format!("{}-0", id.as_str().expect("text"));
    let data = directory.path().join("data");
    let data = data.to_str().expect("text");
    let busy = run(&["inspect", data]).complaint();
    assert_eq!(
        busy,
        format!("error: {data} is in use by a running node; stop it first")
    );
    assert_eq!(node.end_with("-TERM").code, Some(0));

    let checked = run(&["check", data]);
    assert_eq!(checked.err, "", "no bar where no terminal is");
    assert!(checked.printed().lines().all(|line| line.ends_with(": sound")));

    let text = run(&["inspect", data]).printed();
    let line = text.lines().find(|line| line.starts_with("orders-0 "));
    let is_right = |line: &str| line.contains(" 0      10 ") && line.ends_with(&partition);
    assert!(line.is_some_and(is_right), "{text}");
    assert!(text.contains("\n__cluster_metadata-0 "), "{text}");
    for name in [&partition[..], "orders-0", "orders", &partition[..32]] {
        let only = run(&["inspect", data, "--partition", name, "--json"]).printed();
        assert_eq!(only.lines().count(), 1, "{name}");
        let only = parsed(&only);
        assert_eq!(
            (&only["next_offset"], &only["topic"]),
            (&10.into(), &"orders".into())
        );
        assert_eq!(only["partition"], partition.as_str());
    }
    let journal = run(&["inspect", data, "journal", "--partition", "orders-0"]).printed();
    assert!(journal.contains("batch   orders-0 offsets 0.."), "{journal}");
    for what in ["journal", "segments", "index"] {
        for line in run(&["inspect", data, what, "--json"]).printed().lines() {
            assert!(parsed(line).is_object(), "{what}: {line}");
        }
    }
    // Few records stay in the journal.
    for what in ["segments", "index"] {
        let ran = run(&["inspect", data, what]);
        let told = format!(
            "note: there are no segments yet; `ropewalk inspect {data} journal` lists what is stored\n"
        );
        assert_eq!((ran.out.as_str(), ran.err), ("", told));
        let refused = run(&["inspect", data, what, "--partition", &partition]).complaint();
        assert!(
            refused.starts_with(&format!("error: there are no segments of {partition}; ")),
            "{refused}"
        );
    }
    let absent = "orders-1";
    for words in [&["inspect", data][..], &["inspect", data, "journal"]] {
        let ran = run(&[words, &["--partition", absent]].concat());
        assert_eq!(ran.out, "");
        assert_eq!(
            ran.complaint(),
            format!(
                "error: there is nothing of partition {absent}; `ropewalk inspect {data}` lists what there is"
            )
        );
    }
}

/// That chunks cover their segment, lie behind each other in its file, and begin and end with the records that they name.
fn check_chunks(segment: &Value, chunks: &[&Value], times: &HashMap<&str, i64>) {
    let number = |value: &Value| value.as_i64().expect("a number");
    let adopted = segment["adopted_file"].as_str();
    let file = adopted.or(segment["file"].as_str()).expect("a path");
    let bytes = fs::read(file).expect("it is there");
    let partition = segment["partition"].as_str().expect("text");
    let (_, index) = partition.rsplit_once('-').expect("an id and an index");
    let (mut next, mut end) = (number(&segment["first_offset"]), 0);
    for chunk in chunks {
        let first = number(&chunk["first_offset"]);
        assert_eq!(first, next, "{chunk}");
        next = number(&chunk["next_offset"]);
        let last = format!("{index} {}", next - 1);
        assert_eq!(number(&chunk["max_timestamp_ms"]), times[&last[..]], "{chunk}");
        let position = number(&chunk["position"]) as usize;
        assert!(position >= end, "{chunk}");
        end = position + number(&chunk["bytes"]) as usize;
        assert!(end <= bytes.len(), "{chunk}");
        let checksum = chunk["checksum"].as_str().expect("text");
        // Where the batches are in a journal file, its frames have the checksums.
        assert_eq!(checksum == "0000000000000000", adopted.is_some(), "{chunk}");
        if adopted.is_none() {
            assert_eq!(bytes[position..position + 8], first.to_be_bytes(), "{chunk}");
        }
    }
    assert_eq!(next, number(&segment["next_offset"]), "{segment}");
}

#[test]
fn the_index_tells_where_chunks_lie() {
    let (directory, node) = node();
    let keeping = ["--partitions", "4", "--config", "retention.ms=-1"];
    node.run(&[&["topic", "create", "orders"][..], &keeping].concat())
        .printed();
    // More than the journals of both cores hold: the rest is in segments.
    let value = "x".repeat(10_000);
    let line = |number: i64| {
        format!(
            "{{\"value\": \"{value}\", \"timestamp_ms\": {}}}\n",
            1_000 * number
        )
    };
    let lines: String = (0..2_400).map(line).collect();
    node.run_with_input(&["produce", "orders", "--json"], lines.as_bytes())
        .printed();
    let format = "{partition} {offset} {timestamp_ms}";
    let shown = node.run(&["consume", "orders", "--format", format]).printed();
    let times = shown.lines().map(|line| {
        let (place, ms) = line.rsplit_once(' ').expect("three words");
        (place, ms.parse::<i64>().expect("a number"))
    });
    let times: HashMap<&str, i64> = times.collect();
    assert_eq!(node.end_with("-TERM").code, Some(0));

    let data = directory.path().join("data");
    let data = data.to_str().expect("text");
    let listed = |what: &str| -> Vec<Value> {
        let inspect = ["inspect", data, what, "--partition", "orders", "--json"];
        run(&inspect).printed().lines().map(parsed).collect()
    };
    let (segments, chunks) = (listed("segments"), listed("index"));
    assert!(!segments.is_empty());
    let mut checked = 0;
    for segment in &segments {
        let is_its = |chunk: &&Value| {
            chunk["partition"] == segment["partition"] && chunk["segment"] == segment["first_offset"]
        };
        let its: Vec<&Value> = chunks.iter().filter(is_its).collect();
        assert_eq!(segment["chunks"], its.len(), "{segment}");
        check_chunks(segment, &its, &times);
        checked += its.len();
    }
    assert_eq!(checked, chunks.len());
}
