//! Conditional appends over HTTP: all or nothing, one writer at a time at the tail, and each mistake named.

use std::thread;

use serde_json::{Value, json};

use crate::client::{Answer, Http};
use crate::support::TestNode;

const PARTITIONS: i32 = 4;
const JSON: &str = "application/json";

fn ordered_topic(node: &TestNode) -> Http {
    let mut wire = node.connect();
    wire.create_topic("t", PARTITIONS, &[("ropewalk.order", "total")]);
    wire.create_topic("plain", 1, &[]);
    Http::of(node)
}

fn append(http: &Http, partition: i32, query: &str, values: &[&str]) -> Answer {
    let path = format!("/v1/topics/t/partitions/{partition}/records{query}");
    let records: Vec<Value> = values.iter().map(|value| json!({ "value": value })).collect();
    http.post(&path, JSON, json!(records).to_string())
}

fn values(http: &Http) -> Vec<String> {
    let page = http.get("/v1/topics/t/records?limit=10000").json();
    let records = page["records"].as_array().expect("records");
    let value = |record: &Value| record["value"].as_str().expect("a value").to_owned();
    records.iter().map(value).collect()
}

#[test]
fn an_append_is_told_its_position_and_may_ask_for_it() {
    let node = TestNode::start();
    let http = ordered_topic(&node);
    let first = append(&http, 2, "", &["a", "b", "c"]).json();
    let told = json!({ "partition": 2, "first_offset": 0, "count": 3, "first_position": 0 });
    assert_eq!(first, told);
    let second = append(&http, 1, "?if_tail=3", &["d"]).json();
    assert_eq!(second["first_position"], 3);
    let refused = append(&http, 0, "?if_tail=3", &["e"]);
    assert_eq!((refused.status, refused.kind()), (412, "condition-failed".into()));
    assert_eq!(refused.json()["ordered"], 4);
    let headers = [("content-type", JSON), ("if-match", "\"4\"")];
    let third = http.send(
        "POST",
        "/v1/topics/t/records",
        &headers,
        br#"[{"value":"e"},{"value":"f"}]"#,
    );
    let third = &third.json()["appended"][0];
    assert_eq!(third["first_position"], 4);
    // Records without a key go to any partition.
    let next = if third["partition"] == 2 { 5 } else { 3 };
    let refused = append(&http, 2, "?if_offset=2", &["g"]);
    assert_eq!((refused.status, refused.kind()), (412, "condition-failed".into()));
    assert_eq!(refused.json()["next_offset"], next);
    let both = format!("?if_offset={next}&if_tail=6");
    assert_eq!(append(&http, 2, &both, &["g"]).status, 200);
    assert_eq!(values(&http), ["a", "b", "c", "d", "e", "f", "g"]);
    // Where there is no order there are offsets.
    let plain = "/v1/topics/plain/partitions/0/records?if_offset=0";
    let appended = http.post(plain, "text/plain", "one").json();
    assert_eq!(appended, json!({ "partition": 0, "first_offset": 0, "count": 1 }));
    assert_eq!(http.post(plain, "text/plain", "one").status, 412);
    let node = node.kill_and_restart();
    let http = Http::of(&node);
    assert_eq!(append(&http, 3, "?if_tail=6", &["h"]).status, 412);
    assert_eq!(append(&http, 3, "?if_tail=7", &["h"]).json()["first_position"], 7);
}

/// Such appends go to one partition there, and the other conditions hold beside.
#[test]
fn where_other_nodes_can_join_partition_0_takes_what_is_for_a_position() {
    let node = TestNode::start_with(&[("peer.listen", "127.0.0.1:0")]);
    let http = ordered_topic(&node);
    assert_eq!(append(&http, 1, "", &["a"]).json()["first_position"], 0);
    let elsewhere = append(&http, 1, "?if_tail=1", &["b"]);
    assert_eq!((elsewhere.status, elsewhere.kind()), (409, "no-order".into()));
    assert!(elsewhere.text().contains("partition 0"), "{}", elsewhere.text());
    let refused = append(&http, 0, "?if_tail=1&if_offset=1", &["b"]);
    assert_eq!(
        (refused.status, refused.json()["next_offset"].clone()),
        (412, json!(0))
    );
    assert_eq!(
        append(&http, 0, "?if_tail=1&if_offset=0", &["b"]).json()["first_position"],
        1
    );
    let refused = append(&http, 0, "?if_tail=1", &["c"]);
    assert_eq!(
        (refused.status, refused.json()["ordered"].clone()),
        (412, json!(2))
    );
    let plain = http.post(
        "/v1/topics/plain/partitions/0/records?if_tail=0",
        "text/plain",
        "one",
    );
    assert_eq!(plain.kind(), "no-order");
    // What was refused has left nothing behind: others go on.
    assert_eq!(append(&http, 2, "", &["c"]).json()["first_position"], 2);
    assert_eq!(values(&http), ["a", "b", "c"]);
}

#[test]
fn writers_at_the_tail_come_one_after_the_other_and_each_knows_what_was_before() {
    let node = TestNode::start();
    let http = ordered_topic(&node);
    const WRITERS: i32 = 4;
    const EACH: usize = 25;
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let http = Http::of(&node);
            scope.spawn(move || {
                let (mut done, mut tail) = (0, 0);
                while done < EACH {
                    // It says what it believes to be before it.
                    let value = format!("{writer} after {tail}");
                    let answer = append(&http, writer, &format!("?if_tail={tail}"), &[&value]);
                    match answer.status {
                        200 => {
                            assert_eq!(answer.json()["first_position"], tail);
                            (done, tail) = (done + 1, tail + 1);
                        }
                        412 => tail = answer.json()["ordered"].as_i64().expect("a position"),
                        _ => panic!("{}", answer.text()),
                    }
                }
            });
        }
    });
    let values = values(&http);
    assert_eq!(values.len(), WRITERS as usize * EACH);
    for (position, value) in values.iter().enumerate() {
        assert!(
            value.ends_with(&format!(" after {position}")),
            "{value} at {position}"
        );
    }
}

#[test]
fn a_condition_that_cannot_be_is_refused_and_nothing_appended() {
    let node = TestNode::start();
    let http = ordered_topic(&node);
    let two_keys = r#"[{"key":"a","value":"1"},{"key":"b","value":"2"},{"key":"c","value":"3"}]"#;
    let send = |path: &str, tag: Option<&str>, body: &str| {
        let mut headers = vec![("content-type", JSON)];
        headers.extend(tag.map(|tag| ("if-match", tag)));
        let answer = http.send("POST", &format!("/v1/topics/{path}"), &headers, body.as_bytes());
        (answer.status, answer.kind())
    };
    let one = r#"[{"value":"1"}]"#;
    for (path, tag, body, expected) in [
        ("t/records?if_tail=x", None, one, (400, "malformed-query")),
        ("t/records?if_tail=-1", None, one, (400, "malformed-query")),
        ("t/records?if_offset=0", None, one, (400, "malformed-query")),
        (
            "t/records?if_tail=0",
            Some("\"0\""),
            one,
            (400, "malformed-query"),
        ),
        ("t/records", Some("0"), one, (400, "malformed-header")),
        ("t/records", Some("*"), one, (400, "malformed-header")),
        ("t/records?if_tail=0", None, two_keys, (400, "malformed-query")),
        (
            "t/partitions/0/records?if_tail=5",
            None,
            one,
            (412, "condition-failed"),
        ),
        (
            "t/partitions/0/records?if_tail=9223372036854775807",
            None,
            one,
            (412, "condition-failed"),
        ),
        (
            "t/partitions/0/records?if_tail=0&if_offset=1",
            None,
            one,
            (412, "condition-failed"),
        ),
        ("plain/records?if_tail=0", None, one, (409, "no-order")),
        (
            "plain/partitions/0/records?if_offset=1",
            None,
            one,
            (412, "condition-failed"),
        ),
    ] {
        let (status, kind) = expected;
        assert_eq!(send(path, tag, body), (status, kind.into()), "{path} {tag:?}");
    }
    assert!(values(&http).is_empty());
    assert_eq!(
        http.get("/v1/topics/plain/partitions/0/records").json()["tail"],
        0
    );
}
