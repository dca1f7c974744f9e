//! `ropewalk txn`: what it shows of transactions, and how it ends them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use crate::support::{Ran, RunningNode, run};

fn node() -> (TempDir, RunningNode) {
    let directory = tempdir().expect("a temporary directory");
    let node = RunningNode::start(&directory);
    (directory, node)
}

fn txn(node: &RunningNode, arguments: &[&str]) -> Ran {
    let http = node.http_address();
    run(&[&["txn"], arguments, &["--http", &http]].concat())
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// A connection of a producer, as the oldest of them are.
struct Wire(TcpStream);

impl Wire {
    fn connect(node: &RunningNode) -> Wire {
        Wire(TcpStream::connect(&node.address).expect("the node listens"))
    }

    /// Sends a request and takes its answer, without what stands before both.
    fn call(&mut self, key: i16, version: i16, body: &[&[u8]]) -> Vec<u8> {
        let head = [
            &key.to_be_bytes()[..],
            &version.to_be_bytes(),
            &7_i32.to_be_bytes(),
            &string("test"),
        ];
        let frame = [head.concat(), body.concat()].concat();
        let length = i32::try_from(frame.len()).expect("a short one").to_be_bytes();
        self.0.write_all(&[&length[..], &frame].concat()).expect("sent");
        let mut length = [0; 4];
        self.0.read_exact(&mut length).expect("an answer comes");
        let mut answer = vec![0; i32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut answer).expect("all of it");
        answer.split_off(4)
    }

    /// Begins a transaction of one partition; gives the producer's id.
    fn begin(&mut self, id: &str, topic: &str, partition: i32) -> i64 {
        // FindCoordinator, InitProducerId, AddPartitionsToTxn.
        let is_found = |answer: &[u8]| answer[4..6] == [0, 0];
        let mut tries = 0;
        while !is_found(&self.call(10, 1, &[&string(id), &[1]])) {
            tries += 1;
            assert!(tries < 1_000, "there is a coordinator");
            std::thread::sleep(Duration::from_millis(10));
        }
        let answer = loop {
            let answer = self.call(22, 1, &[&string(id), &60_000_i32.to_be_bytes()]);
            if is_found(&answer) {
                break answer;
            }
            tries += 1;
            assert!(tries < 1_000, "the coordinator has read its log");
            std::thread::sleep(Duration::from_millis(10));
        };
        let (producer, epoch) = (&answer[6..14], &answer[14..16]);
        let one = 1_i32.to_be_bytes();
        let added = self.call(
            24,
            0,
            &[
                &string(id),
                producer,
                epoch,
                &one,
                &string(topic),
                &one,
                &partition.to_be_bytes(),
            ],
        );
        assert!(added.ends_with(&[0, 0]), "it is added: {added:?}");
        i64::from_be_bytes(producer.try_into().expect("eight bytes"))
    }
}

fn string(text: &str) -> Vec<u8> {
    let length = i16::try_from(text.len()).expect("a short one").to_be_bytes();
    [&length[..], text.as_bytes()].concat()
}

#[test]
fn transactions_are_listed_described_and_aborted() {
    let (_directory, node) = node();
    node.run(&["topic", "create", "orders", "--partitions", "4"])
        .printed();
    let none = "there are no transactional ids; a producer with a transactional.id makes one\n";
    assert_eq!(txn(&node, &["list"]).printed(), none);
    assert_eq!(txn(&node, &["list", "--json"]).printed(), "[]\n");
    let mut wire = Wire::connect(&node);
    let producer = wire.begin("payments 1", "orders", 3);
    wire.begin("reports", "orders", 0);

    let listed = parsed(&txn(&node, &["list", "--json"]).printed());
    assert_eq!(
        (&listed[0]["id"], &listed[1]["id"]),
        (&json!("payments 1"), &json!("reports"))
    );
    let text = txn(&node, &["list", "--state", "ongoing", "--prefix", "pay"]).printed();
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows.len(), 2, "{text}");
    assert!(rows[1].starts_with("payments 1  Ongoing"), "{text}");
    let of_partition = txn(&node, &["list", "--partition", "orders:3", "--json"]).printed();
    assert_eq!(parsed(&of_partition).as_array().map(Vec::len), Some(1));
    assert_eq!(
        txn(&node, &["list", "--open-for", "1h"]).printed(),
        "no transaction is so\n"
    );

    let text = txn(&node, &["describe", "payments 1"]).printed();
    assert!(
        text.starts_with("transaction payments 1 is Ongoing: open for "),
        "{text}"
    );
    assert!(
        text.contains(&format!("producer {producer} with epoch 0, ")),
        "{text}"
    );
    assert!(text.ends_with("topic   partition\norders  3\n"), "{text}");
    let described = parsed(&txn(&node, &["describe", "payments 1", "--json"]).printed());
    assert_eq!(
        described["partitions"],
        json!([{ "topic": "orders", "partition": 3 }])
    );

    let text = txn(&node, &["abort", "payments 1"]).printed();
    assert_eq!(text, "aborted transaction payments 1; its producer is fenced\n");
    let aborted = parsed(&txn(&node, &["abort", "reports", "--json"]).printed());
    assert_eq!(
        (&aborted["state"], &aborted["producer_epoch"]),
        (&json!("CompleteAbort"), &json!(1))
    );
}

#[test]
fn what_cannot_be_is_told() {
    let (_directory, node) = node();
    node.run(&["topic", "create", "orders"]).printed();
    let complaint = |arguments: &[&str]| txn(&node, arguments).complaint();
    assert_eq!(
        complaint(&["describe", "nobody"]),
        "error: there is no transactional id \"nobody\""
    );
    assert_eq!(
        complaint(&["abort", "nobody"]),
        "error: there is no transactional id \"nobody\""
    );
    assert!(complaint(&["list", "--partition", "nothing:0"]).contains("there is no topic \"nothing\""));
    assert!(complaint(&["describe", "a/b"]).contains("hides a slash"));
    let place = ["--partition", "orders:0", "--first-offset", "5"];
    assert!(complaint(&[&["abort"], &place[..]].concat()).contains("no transaction whose first offset is 5"));
    let hanging = txn(&node, &["hanging", "--topic", "nothing"]).complaint();
    assert!(hanging.contains("there is no topic \"nothing\""), "{hanging}");
    for (arguments, word) in [
        (&["list", "--state", "open"][..], "Ongoing"),
        (&["list", "--open-for", "soon"], "15m"),
        (&["list", "--partition", "orders"], "TOPIC:PARTITION"),
        (&["abort"], "required"),
        (&["abort", "--partition", "orders:0"], "--first-offset"),
        (
            &["abort", "x", "--partition", "orders:0", "--first-offset", "5"],
            "cannot be used with",
        ),
    ] {
        let ran = txn(&node, arguments);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains(word), "{ran:?}");
    }
    let nowhere = run(&["txn", "list", "--http", "127.0.0.1:1"]).complaint();
    assert!(nowhere.contains("--http names another address"), "{nowhere}");
}

#[test]
fn what_hangs_is_looked_for_everywhere() {
    let (_directory, node) = node();
    assert_eq!(txn(&node, &["hanging"]).printed(), "no transaction hangs\n");
    node.run(&["topic", "create", "orders", "--partitions", "4"])
        .printed();
    Wire::connect(&node).begin("x", "orders", 3);
    // Nothing is written in it yet: no reader waits.
    assert_eq!(
        txn(&node, &["hanging", "--all"]).printed(),
        "no transaction is open\n"
    );
    assert_eq!(
        txn(&node, &["hanging", "--topic", "orders:3", "--json"]).printed(),
        "[]\n"
    );
    let ran = txn(&node, &["hanging", "--topic", "orders:9"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.err.contains("orders:9 cannot be looked at") && ran.err.contains("1 partition could not"),
        "{ran:?}"
    );
}
