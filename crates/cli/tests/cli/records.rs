//! Records that produce reads and consume prints: every form of input and output, and refusals.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::support::{RunningNode, ropewalk};

/// The time that something immediate may take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(20);

fn node() -> (TempDir, RunningNode) {
    let directory = tempdir().expect("a temporary directory");
    let node = RunningNode::start(&directory);
    (directory, node)
}

/// A topic that keeps records however old they say they are.
fn create(node: &RunningNode, topic: &str, partitions: &str) {
    let create = [
        "topic",
        "create",
        topic,
        "--config",
        "retention.ms=-1",
        "--partitions",
        partitions,
    ];
    node.run(&create).printed();
}

/// A follower, and its lines as they come.
fn follow(node: &RunningNode, arguments: &[&str]) -> (Child, Receiver<String>) {
    let bootstrap = ["--bootstrap", &node.address];
    let all = [&["consume"], arguments, &["--follow"], &bootstrap[..]].concat();
    let mut follower = ropewalk(&all)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let lines = BufReader::new(follower.stdout.take().expect("piped")).lines();
    let (give, take) = channel();
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if give.send(line).is_err() {
                return;
            }
        }
    });
    (follower, take)
}

#[test]
fn a_followed_record_is_printed_without_another_one_arriving() {
    let (_directory, node) = node();
    node.run(&["topic", "create", "live"]).printed();
    for shape in [&["--format", "{value}"][..], &["--json"]] {
        let (mut follower, lines) = follow(&node, &[&["live", "--from", "earliest"], shape].concat());
        // First the records that are there, and then each new one alone: the follower waits at the broker meanwhile.
        for number in 0..3 {
            let value = format!("{}-{number}", shape[0]);
            node.run_with_input(&["produce", "live"], value.as_bytes())
                .printed();
            loop {
                let line = lines.recv_timeout(PATIENCE).expect("it came, and is printed");
                if line.contains(&value) {
                    break;
                }
            }
        }
        follower.kill().expect("our child");
        follower.wait().expect("our child");
    }
}

#[test]
fn a_follower_ends_where_it_is_told() {
    let (_directory, node) = node();
    create(&node, "ends", "2");
    let record = |partition: &str, ms: i64| {
        let line = format!("{{\"value\": \"{ms}\", \"timestamp_ms\": {ms}}}");
        let produce = ["produce", "ends", "--json", "--partition", partition];
        node.run_with_input(&produce, line.as_bytes()).printed();
    };
    let (mut follower, lines) = follow(&node, &["ends", "--until", "@3000"]);
    for (partition, ms) in [
        ("0", 1_000),
        ("1", 2_000),
        ("0", 3_000),
        ("1", 2_500),
        ("1", 9_000),
    ] {
        record(partition, ms);
    }
    assert_eq!(follower.wait().expect("our child").code(), Some(0));
    let mut printed: Vec<String> = lines.iter().collect();
    printed.sort();
    assert_eq!(printed, ["1000", "2000", "2500"]);

    let (mut follower, lines) = follow(&node, &["ends", "--partition", "0", "--until", "2"]);
    assert_eq!(follower.wait().expect("our child").code(), Some(0));
    assert_eq!(lines.iter().collect::<Vec<_>>(), ["1000", "3000"]);

    let behind_end = ["ends", "--partition", "0", "--from", "latest", "--until", "2"];
    let (mut follower, lines) = follow(&node, &behind_end);
    assert_eq!(follower.wait().expect("our child").code(), Some(0));
    assert_eq!(lines.iter().count(), 0);
}

#[test]
fn consume_begins_and_ends_at_offsets_times_and_ages() {
    let (_directory, node) = node();
    create(&node, "times", "1");
    let lines: String = (0..10)
        .map(|number| {
            format!(
                "{{\"value\": \"{number}\", \"timestamp_ms\": {}}}\n",
                1_000 * number
            )
        })
        .collect();
    node.run_with_input(&["produce", "times", "--json"], lines.as_bytes())
        .printed();
    node.run_with_input(&["produce", "times"], b"now\n").printed();
    for (arguments, expected) in [
        (&["--from", "3", "--until", "5"][..], "3\n4\n"),
        (&["--until", "1"], "0\n"),
        (&["--until", "0"], ""),
        (&["--from", "9", "--until", "1000"], "9\nnow\n"),
        (&["--from", "@7500", "--until", "@9000"], "8\n"),
        (&["--from", "1970-01-01T00:00:09Z"], "9\nnow\n"),
        (&["--from", "2026-01-01T00:00:00Z"], "now\n"),
        (&["--from", "1h"], "now\n"),
        (&["--from", "9", "--until", "1h"], "9\n"),
        (&["--last", "2"], "9\nnow\n"),
        (&["--last", "1000", "--max", "1"], "0\n"),
        (&["--from", "@99999999999999"], ""),
    ] {
        let all = [&["consume", "times"], arguments].concat();
        assert_eq!(node.run(&all).printed(), expected, "{arguments:?}");
    }
}

#[test]
fn an_offset_is_of_one_partition() {
    let (_directory, node) = node();
    node.run(&["topic", "create", "many", "--partitions", "3"])
        .printed();
    for partition in ["0", "1", "2"] {
        node.run_with_input(
            &["produce", "many", "--partition", partition],
            partition.as_bytes(),
        )
        .printed();
    }
    for arguments in [
        &["--from", "0"][..],
        &["--until", "1"],
        &["--from", "0", "--partition", "0,1"],
    ] {
        let complaint = node.run(&[&["consume", "many"], arguments].concat()).complaint();
        assert!(
            complaint.starts_with("error: an offset means one partition, but ")
                && complaint.ends_with("--partition names one"),
            "{complaint}"
        );
    }
    assert_eq!(
        node.run(&["consume", "many", "--partition", "2,0,2"]).printed(),
        "0\n2\n"
    );
    let absent = node.run(&["consume", "many", "--partition", "1,7"]).complaint();
    assert_eq!(absent, "error: topic many has no partition 7, its last one is 2");
}

#[test]
fn a_format_says_what_is_printed() {
    let (_directory, node) = node();
    create(&node, "shown", "1");
    let record = r#"{"key": "k", "value": "v{}", "headers": [{"key": "a", "value": "1"}, {"key": "b"}], "timestamp_ms": 1500}"#;
    node.run_with_input(&["produce", "shown", "--json"], record.as_bytes())
        .printed();
    let format = r"{topic}/{partition}:{offset}\t{time} {timestamp_ms} {key}={value} {key:hex} {value_bytes} {headers} {{}}";
    assert_eq!(
        node.run(&["consume", "shown", "--format", format]).printed(),
        "shown/0:0\t1970-01-01T00:00:01.500Z 1500 k=v{} 6b 3 a=1,b= {}\n"
    );
    let nulls = ["consume", "shown", "--format", "{value}", "--delimiter", r"\0"];
    assert_eq!(node.run(&nulls).printed(), "v{}\0");
    let nothing = ["consume", "shown", "--delimiter", ""];
    assert_eq!(node.run(&nothing).printed(), "v{}");
}

#[test]
fn a_topic_is_copied_with_everything_in_it() {
    let (_directory, node) = node();
    create(&node, "one", "1");
    create(&node, "two", "1");
    let records = concat!(
        r#"{"key": "k", "value": "v", "headers": [{"key": "h", "value_base64": "/w=="}], "timestamp_ms": 5}"#,
        "\n",
        r#"{"key_base64": "AP8=", "value": null, "timestamp_ms": 6}"#,
        "\n",
        r#"{"value": "é\n", "timestamp_ms": 7}"#,
        "\n",
    );
    node.run_with_input(&["produce", "one", "--json"], records.as_bytes())
        .printed();
    let printed = node.run(&["consume", "one", "--json"]).printed();
    node.run_with_input(&["produce", "two", "--json"], printed.as_bytes())
        .printed();
    assert_eq!(node.run(&["consume", "two", "--json"]).printed(), printed);
    let lines: Vec<Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines[0]["headers"][0]["value_base64"], "/w==");
    assert_eq!(
        (&lines[1]["key_base64"], &lines[1]["value"]),
        (&"AP8=".into(), &Value::Null)
    );
    assert_eq!(lines[2]["value"], "é\n");
}

/// The body of the node's answer to a request over HTTP: method and path, further headers, body.
fn over_http(node: &RunningNode, asked: &str, header: &str, body: &str) -> String {
    let length = body.len();
    let head = format!("{asked} HTTP/1.0\r\nConnection: close\r\n{header}\r\nContent-Length: {length}");
    let mut stream = TcpStream::connect(node.http_address()).expect("it listens");
    write!(stream, "{head}\r\n\r\n{body}").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.contains(" 200 "), "{answer}");
    body.to_owned()
}

#[test]
fn what_is_read_over_http_can_be_produced_and_the_reverse() {
    let (_directory, node) = node();
    for topic in ["one", "two", "three"] {
        create(&node, topic, "1");
    }
    let records = concat!(
        r#"{"key": "k", "value": "v", "headers": [{"key": "h", "value_base64": "/w=="}, {"key_base64": "/g=="}], "timestamp_ms": 5}"#,
        "\n",
        r#"{"key_base64": "AP8=", "value": null, "timestamp_ms": 6}"#,
        "\n",
        r#"{"value_base64": "/wE=", "timestamp_ms": 7}"#,
        "\n",
    );
    node.run_with_input(&["produce", "one", "--json"], records.as_bytes())
        .printed();
    let printed = node.run(&["consume", "one", "--json"]).printed();

    let one = "GET /v1/topics/one/partitions/0/records";
    let read = over_http(&node, one, "Accept: application/x-ndjson", "");
    node.run_with_input(&["produce", "two", "--json"], read.as_bytes())
        .printed();
    assert_eq!(node.run(&["consume", "two", "--json"]).printed(), printed);

    let three = "POST /v1/topics/three/partitions/0/records";
    let array = format!("[{}]", printed.trim_end().replace('\n', ","));
    over_http(&node, three, "Content-Type: application/json", &array);
    assert_eq!(node.run(&["consume", "three", "--json"]).printed(), printed);
}

#[test]
fn files_become_records_in_their_order() {
    let (directory, node) = node();
    let file = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        fs::write(&path, bytes).expect("writable");
        path.to_str().expect("text").to_owned()
    };
    let (first, last) = (file("first", b"a\nb"), file("last", b"d\n"));
    node.run_with_input(&["produce", "lines", &first, "-", &last], b"c")
        .printed();
    assert_eq!(node.run(&["consume", "lines"]).printed(), "a\nb\nc\nd\n");

    let picture = file("picture", b"\x00\n\xff");
    let whole = [
        "produce", "whole", "--whole", "--key", "k", "--header", "type=png", &picture, &first,
    ];
    node.run(&whole).printed();
    let printed = node
        .run(&["consume", "whole", "--format", "{key} {value:hex} {headers}"])
        .printed();
    assert_eq!(printed, "k 000aff type=png\nk 610a62 type=png\n");

    let apart = [
        "produce",
        "apart",
        "--delimiter",
        r"\0\0",
        "--compression",
        "zstd",
    ];
    node.run_with_input(&apart, b"one\0two\0\0three\0\0").printed();
    let shown = ["consume", "apart", "--format", "{value:hex}"];
    assert_eq!(node.run(&shown).printed(), "6f6e650074776f\n7468726565\n");
}

#[test]
fn what_is_no_record_is_told_with_its_place() {
    let (directory, node) = node();
    let path = directory.path().join("bad");
    fs::write(&path, "a:1\nb\n").expect("writable");
    let path = path.to_str().expect("text");
    node.run(&["topic", "create", "t"]).printed();
    let bad = node
        .run(&["produce", "t", "--key-separator", ":", path])
        .complaint();
    assert_eq!(
        bad,
        "error: after 1 appended record: line 2 has no key separator \":\""
    );
    let of_several = ["produce", "t", "--key-separator", ":", "-", path];
    let bad = node.run_with_input(&of_several, b"x:y\n").complaint();
    assert_eq!(
        bad,
        format!("error: after 2 appended records: line 2 of {path} has no key separator \":\"")
    );
    // Records before the bad lines are there.
    assert_eq!(
        node.run(&["consume", "t", "--key-separator", ":"]).printed(),
        "a:1\nx:y\na:1\n"
    );
    let bad = node
        .run_with_input(&["produce", "t", "--json"], b"{\"vlaue\": 1}")
        .complaint();
    let expected = "error: nothing was appended: line 1 is no record (there is no field `vlaue`, expected one of `key`, ";
    assert!(bad.starts_with(expected), "{bad}");
    let bad = node
        .run_with_input(&["produce", "t", "--json", "--whole"], b"[]")
        .complaint();
    let expected = "error: nothing was appended: record 1 is no record (";
    assert!(bad.starts_with(expected), "{bad}");
    let climbing = node.run_with_input(&["produce", "../t"], b"x").complaint();
    assert!(climbing.contains("INVALID_TOPIC"), "{climbing}");
}

#[test]
fn a_failure_is_told_with_all_that_was_appended() {
    let (_directory, node) = node();
    node.run(&[
        "topic",
        "create",
        "keyed",
        "--partitions",
        "4",
        "--config",
        "cleanup.policy=compact",
    ])
    .printed();
    // The last has no key, which its topic refuses; the others go to all partitions, at the same time.
    let mut records: Vec<String> = (0..40)
        .map(|key| format!(r#"{{"key":"{key}","value":"v"}}"#))
        .collect();
    records.push(r#"{"value":"v"}"#.to_owned());
    let failed = node.run_with_input(
        &["produce", "keyed", "--json", "--report"],
        records.join("\n").as_bytes(),
    );
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let report: Value = serde_json::from_str(&failed.out).expect("JSON");
    let appended = node.run(&["consume", "keyed"]).printed().lines().count();
    assert_eq!(report["records"], appended);
    // The refusal may come before the other partitions' records are sent.
    let told = match appended {
        0 => "error: nothing was appended: ".to_owned(),
        _ => format!("error: after {appended} appended records: "),
    };
    assert!(failed.err.starts_with(&told), "{failed:?}");
}

#[test]
fn a_separator_may_be_what_cannot_be_typed() {
    let (_directory, node) = node();
    let separated = ["produce", "tabs", "--key-separator", r"\t"];
    node.run_with_input(&separated, b"k\tv\n").printed();
    let shown = ["consume", "tabs", "--key-separator", r"\t=\x3e"];
    assert_eq!(node.run(&shown).printed(), "k\t=>v\n");
    let bad = node.run_with_input(&separated, b"k v\n").complaint();
    assert!(bad.ends_with(r#"line 1 has no key separator "\t""#), "{bad}");
}

#[test]
fn a_topic_of_small_batches_gets_small_batches() {
    let (_directory, node) = node();
    node.run(&["topic", "create", "small", "--config", "max.message.bytes=200"])
        .printed();
    let lines: String = (0..1_000).map(|number| format!("{number}\n")).collect();
    node.run_with_input(&["produce", "small"], lines.as_bytes())
        .printed();
    assert_eq!(node.run(&["consume", "small"]).printed(), lines);
}

#[test]
fn a_rate_is_kept() {
    let (_directory, node) = node();
    node.run(&["topic", "create", "paced"]).printed();
    let began = Instant::now();
    node.run_with_input(&["produce", "paced", "--rate", "5"], b"1\n2\n3\n4\n5\n6\n")
        .printed();
    // Five periods lie between the first and the last, however late the first was and the others after it.
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(1), "{took:?}");
    let printed = node.run(&["consume", "paced"]).printed();
    assert_eq!(printed, "1\n2\n3\n4\n5\n6\n");
}

#[test]
fn each_line_of_a_slow_input_goes_out_at_once() {
    let (_directory, node) = node();
    node.run(&["topic", "create", "slow"]).printed();
    let (mut follower, lines) = follow(&node, &["slow"]);
    let mut producer = ropewalk(&["produce", "slow", "--bootstrap", &node.address])
        .stdin(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let mut input = producer.stdin.take().expect("piped");
    for line in ["one", "two"] {
        writeln!(input, "{line}").expect("it reads");
        assert_eq!(lines.recv_timeout(PATIENCE).expect("it came"), line);
    }
    drop(input);
    assert_eq!(producer.wait().expect("our child").code(), Some(0));
    follower.kill().expect("our child");
    follower.wait().expect("our child");
}
