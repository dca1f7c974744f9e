//! Bounds on memory: bodies that come slowly, answers that nobody takes, followers that do not read.

use std::io::Write;
use std::time::Duration;

use crate::client::Http;
use crate::support::TestNode;

const RECORDS: &str = "/v1/topics/t/partitions/0/records";

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
    let mut refused = 0;
    while refused == 0 {
        let answer = http.post(RECORDS, "text/plain", vec![b'x'; 900_000]);
        match answer.status {
            503 => {
                assert_eq!(answer.kind(), "busy");
                assert_eq!(answer.header("retry-after"), Some("1"));
                refused += 1;
            }
            // The others' bytes may not be here yet.
            _ => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    // What is small is never in the way of that.
    assert_eq!(http.post(RECORDS, "text/plain", "small").status, 200);
    drop(hanging);
    // The room comes back when the connections are found to be gone.
    while http.post(RECORDS, "text/plain", vec![b'x'; 900_000]).status != 200 {
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn answers_that_nobody_takes_leave_room_for_others_or_have_them_told() {
    let node = TestNode::start_with(&[("limits.answer_bytes_per_core", "1MiB")]);
    let http = Http::of(&node);
    http.create("t", 1);
    for _ in 0..16 {
        let answer = http.post(RECORDS, "text/plain", vec![b'x'; 900_000]);
        assert_eq!(answer.status, 200);
    }
    let request = format!("GET {RECORDS}?bytes=16000000 HTTP/1.1\r\nhost: n\r\n\r\n");
    // More than the network holds, and none of them reads.
    let idle: Vec<_> = (0..8).map(|_| http.open(request.repeat(20).as_bytes())).collect();
    std::thread::sleep(Duration::from_millis(300));
    // Whoever asks meanwhile is answered, one way or the other.
    for _ in 0..3 {
        let answer = http.get(&format!("{RECORDS}?limit=1&bytes=1000"));
        match answer.status {
            200 => assert_eq!(answer.json()["next_offset"], 1),
            _ => assert_eq!(answer.kind(), "busy"),
        }
    }
    assert_eq!(http.get("/health").status, 200);
    drop(idle);
    while http.get(&format!("{RECORDS}?limit=1")).status != 200 {
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_follower_that_does_not_read_is_cut_off() {
    let node = TestNode::start();
    let http = Http::of(&node);
    http.create("t", 1);
    // More than the node, the network and the client hold.
    for _ in 0..20 {
        let answer = http.post(RECORDS, "application/octet-stream", vec![b'x'; 1_000_000]);
        assert_eq!(answer.status, 200);
    }
    let mut events = http.follow(&format!("{RECORDS}?offset=earliest"), &[]);
    // It takes half a minute, in which the follower has its time.
    while node.metric("ropewalk_http_connections_cut_off_total") == 0 {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(events.is_cut());
    assert_eq!(node.metric("ropewalk_http_followers"), 0);
}
