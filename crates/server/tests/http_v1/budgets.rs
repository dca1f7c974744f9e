//! Bounds on memory: bodies that come slowly, answers that nobody takes, followers that do not read.

use std::io::Write;
use std::net::TcpStream;

use crate::client::Http;
use crate::refusals::expect;
use crate::support::{TestNode, eventually};

const RECORDS: &str = "/v1/topics/t/partitions/0/records";
const OFFSETS: &str = "/v1/groups/g/offsets";

#[test]
fn bodies_that_stay_half_sent_take_no_more_than_their_budget() {
    let node = TestNode::start_with(&[("limits.in_flight_bytes_per_core", "1MiB")]);
    let http = Http::of(&node);
    http.create("t", 1);
    let head = format!(
        "POST {RECORDS} HTTP/1.1\r\nhost: n\r\ncontent-type: text/plain\r\ncontent-length: 1000000\r\n\r\n"
    );
    // Each stops in the middle; together they would have more than there is.
    let part = vec![b'x'; 400_000];
    let mut hanging = Vec::new();
    for _ in 0..4 {
        let mut stream = http.open(head.as_bytes());
        // The last ones are refused, perhaps while they send.
        let _ = stream.write_all(&part);
        hanging.push(stream);
    }
    let append = || http.post(RECORDS, "text/plain", vec![b'x'; 900_000]);
    eventually("a body is refused when the others' bytes are here", || {
        let answer = append();
        let is_refused = answer.status == 503;
        if is_refused {
            expect(&answer, 503, "busy", "limits.in_flight_bytes_per_core");
            assert_eq!(answer.header("retry-after"), Some("1"));
        }
        is_refused
    });
    // A small append is never in the way of that.
    assert_eq!(http.post(RECORDS, "text/plain", "small").status, 200);
    drop(hanging);
    eventually(
        "the room comes back when the connections are found to be gone",
        || append().status == 200,
    );
}

/// A node with little room for answers, and one that takes all of it: nobody reads it, and the network does not hold it.
fn without_room() -> (TestNode, Http, TcpStream) {
    let node = TestNode::start_with(&[("limits.answer_bytes_per_core", "1MiB")]);
    let http = Http::of(&node);
    let topic = r#"{"name":"t","partitions":1,"configs":{"max.message.bytes":"3000000"}}"#;
    assert_eq!(http.post("/v1/topics", "application/json", topic).status, 201);
    // Six times as long as text.
    let large = http.post(RECORDS, "application/octet-stream", vec![0; 2_500_000]);
    assert_eq!(large.status, 200, "{}", large.text());
    assert_eq!(http.post(RECORDS, "text/plain", "small").status, 200);
    let request = format!("GET {RECORDS}?limit=1 HTTP/1.1\r\nhost: n\r\n\r\n");
    let untaken = http.open(request.as_bytes());
    eventually("all room is taken", || read_small(&http) == 503);
    (node, http, untaken)
}

fn read_small(http: &Http) -> u16 {
    http.get(&format!("{RECORDS}?offset=1&bytes=1000")).status
}

#[test]
fn while_an_answer_that_nobody_takes_has_all_room_others_are_told_so() {
    let (_node, http, untaken) = without_room();
    let refused = http.get(&format!("{RECORDS}?offset=1&bytes=1000"));
    expect(&refused, 503, "busy", "limits.answer_bytes_per_core");
    // A small answer, or one that is not made of records, needs none.
    assert_eq!(http.get("/health").status, 200);
    assert_eq!(http.get("/v1/topics").status, 200);
    assert_eq!(http.post(RECORDS, "text/plain", "another").status, 200);
    drop(untaken);
    eventually("the room comes back", || read_small(&http) == 200);
}

#[test]
fn what_is_refused_for_want_of_room_for_its_answer_is_not_done() {
    const PARTITIONS: i32 = 1_500;
    let (_node, http, untaken) = without_room();
    // A change that has been made is told in any case.
    http.create("many", PARTITIONS);
    let described = http.get("/v1/topics/many");
    expect(&described, 503, "busy", "limits.answer_bytes_per_core");
    let entry = |partition: i32| format!(r#"{{"topic":"many","partition":{partition},"offset":0}}"#);
    let entries: Vec<String> = (0..PARTITIONS).map(entry).collect();
    let body = format!("[{}]", entries.join(","));
    expect(
        &http.patch(OFFSETS, &body),
        503,
        "busy",
        "limits.answer_bytes_per_core",
    );
    let group = http.get("/v1/groups/g");
    expect(&group, 404, "unknown-group", "there is no group");
    drop(untaken);
    eventually("the offsets are set", || http.patch(OFFSETS, &body).status == 200);
    assert_eq!(http.get("/v1/groups/g").status, 200);
    assert_eq!(http.get("/v1/topics/many").status, 200);
}

#[test]
fn a_follower_that_does_not_read_is_cut_off() {
    let node = TestNode::start();
    let http = Http::of(&node);
    http.create("t", 1);
    // More than the node, the network and the client hold.
    for _ in 0..200 {
        let answer = http.post(RECORDS, "application/octet-stream", vec![b'x'; 100_000]);
        assert_eq!(answer.status, 200);
    }
    let mut events = http.follow(&format!("{RECORDS}?offset=earliest"), &[]);
    // It takes half a minute, in which the follower has its time.
    eventually("it is cut off", || {
        node.metric("ropewalk_http_connections_cut_off_total") > 0
    });
    assert!(events.is_cut());
    assert_eq!(node.metric("ropewalk_http_followers"), 0);
}
