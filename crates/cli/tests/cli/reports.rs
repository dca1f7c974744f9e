//! The reports of `produce --report` on the records that were appended.

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::support::RunningNode;

#[test]
fn a_report_tells_where_records_stand() {
    let directory = tempdir().expect("a temporary directory");
    let node = RunningNode::start(&directory);
    node.run(&["topic", "create", "orders", "--partitions", "2"])
        .printed();
    let report = |arguments: &[&str], input: &[u8]| -> Value {
        let all = [&["produce", "orders", "--report"][..], arguments].concat();
        let printed = node.run_with_input(&all, input).printed();
        serde_json::from_str(&printed).expect("JSON")
    };
    let one = |records: u64, first: Option<u64>, last: Option<u64>| {
        let partition =
            json!({ "partition": 1, "records": records, "first_offset": first, "last_offset": last });
        json!({ "topic": "orders", "records": records, "partitions": [partition] })
    };
    let partition = ["--partition", "1"];
    assert_eq!(report(&partition, b"a\nb\n"), one(2, Some(0), Some(1)));
    assert_eq!(report(&partition, b"c\n"), one(1, Some(2), Some(2)));
    // Nobody answers, so nobody tells.
    let unanswered = [&partition[..], &["--acks", "0"]].concat();
    assert_eq!(report(&unanswered, b"d\n"), one(1, None, None));
    let nothing = json!({ "topic": "orders", "records": 0, "partitions": [] });
    assert_eq!(report(&partition, b""), nothing);
}

#[test]
fn a_report_comes_also_after_a_failure() {
    let directory = tempdir().expect("a temporary directory");
    let node = RunningNode::start(&directory);
    node.run(&["topic", "create", "orders"]).printed();
    // Records that are sent before the bad line: more than one batch takes.
    let line = format!("{{\"value\": \"{}\"}}\n", "x".repeat(100_000));
    let input = line.repeat(20) + "none\n";
    let ran = node.run_with_input(&["produce", "orders", "--json", "--report"], input.as_bytes());
    let report: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(report["topic"], "orders");
    let last = report["partitions"][0]["last_offset"].as_u64();
    assert_eq!(last.map(|last| last + 1), report["records"].as_u64(), "{report}");
    let described = node.run(&["topic", "describe", "orders", "--json"]).printed();
    let described: Value = serde_json::from_str(&described).expect("JSON");
    assert_eq!(
        described["partitions"][0]["tail"], report["records"],
        "nothing is left out"
    );
    let complaint = ran.complaint();
    assert!(
        complaint.starts_with("error: after 20 appended records: line 21 "),
        "{complaint}"
    );
}
