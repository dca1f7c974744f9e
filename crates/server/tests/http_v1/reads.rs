//! Reads over HTTP: from anywhere, in every form, of batches that any client wrote; and the wait at the tail.

use std::time::{Duration, Instant};

use record::Compression;
use serde_json::{Value, json};

use crate::client::Http;
use crate::support::{PATIENCE, TestNode, batch, compressed_batch, eventually, now_ms};

const RECORDS: &str = "/v1/topics/t/partitions/0/records";

fn offsets(page: &Value) -> Vec<i64> {
    let records = page["records"].as_array().expect("records");
    records
        .iter()
        .map(|record| record["offset"].as_i64().expect("an offset"))
        .collect()
}

/// A topic with ten records in five batches of all compressions, one millisecond apart.
fn filled(node: &TestNode) -> i64 {
    let first_ms = now_ms() - 1_000;
    let mut wire = node.connect();
    wire.create_topic("t", 1, &[]);
    let all = [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ];
    for (place, compression) in all.into_iter().enumerate() {
        let first = first_ms + 2 * place as i64;
        let batch = compressed_batch(compression, &[(first, "a"), (first + 1, "b")]);
        assert_eq!(wire.produce("t", 0, batch).error_code, 0);
    }
    first_ms
}

#[test]
fn a_read_begins_and_ends_where_it_is_told() {
    let node = TestNode::start();
    let first_ms = filled(&node);
    let http = Http::of(&node);
    for (query, expected, next) in [
        ("", 0..10, 10),
        ("?offset=earliest", 0..10, 10),
        ("?offset=latest", 0..0, 10),
        ("?offset=3", 3..10, 10),
        ("?offset=10", 0..0, 10),
        ("?offset=3&limit=4", 3..7, 7),
        ("?limit=1", 0..1, 1),
        ("?bytes=1", 0..1, 1),
        (&format!("?timestamp_ms={}", first_ms + 5), 5..10, 10),
        (&format!("?timestamp_ms={}", first_ms + 500), 0..0, 10),
        ("?timestamp_ms=0", 0..10, 10),
    ] {
        let page = http.get(&format!("{RECORDS}{query}")).json();
        assert_eq!(offsets(&page), expected.collect::<Vec<_>>(), "{query}");
        assert_eq!(page["next_offset"], next, "{query}");
        assert_eq!(
            (&page["first_offset"], &page["tail"]),
            (&0.into(), &10.into()),
            "{query}"
        );
    }
    // Following `next_offset` comes to the end, whatever the limits.
    let (mut next, mut found) = (0, Vec::new());
    while next < 10 {
        let page = http
            .get(&format!("{RECORDS}?offset={next}&limit=3&bytes=150"))
            .json();
        found.extend(offsets(&page));
        next = page["next_offset"].as_i64().expect("an offset");
    }
    assert_eq!(found, (0..10).collect::<Vec<_>>());
}

#[test]
fn lines_say_the_same_as_the_array() {
    let node = TestNode::start();
    filled(&node);
    let http = Http::of(&node);
    let array = http.get(&format!("{RECORDS}?offset=1&limit=5")).json();
    let lines = http.get_as(&format!("{RECORDS}?offset=1&limit=5"), "application/x-ndjson");
    let records: Vec<Value> = lines
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(array["records"], json!(records));
    assert_eq!(lines.header("content-type"), Some("application/x-ndjson"));
    assert_eq!(lines.header("ropewalk-next-offset"), Some("6"));
    assert_eq!(lines.header("ropewalk-first-offset"), Some("0"));
    assert_eq!(lines.header("ropewalk-tail"), Some("10"));
}

/// Waits until a reader's connection is there, beside the one that asks. Most likely it waits for records soon after; what a
/// test says has to hold if it does not yet.
fn see_reader(node: &TestNode) {
    eventually("the reader connects", || {
        node.metric("ropewalk_http_connections") > 1
    });
}

#[test]
fn a_read_waits_for_the_first_record_and_not_longer_than_it_says() {
    let node = TestNode::start();
    let http = Http::of(&node);
    http.create("t", 1);
    let began = Instant::now();
    let page = http.get(&format!("{RECORDS}?wait_ms=200")).json();
    assert!(offsets(&page).is_empty() && began.elapsed() >= Duration::from_millis(200));
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| http.get(&format!("{RECORDS}?offset=0&wait_ms=60000")).json());
        see_reader(&node);
        assert_eq!(http.post(RECORDS, "text/plain", "late").status, 200);
        let page = reading.join().expect("it reads");
        assert_eq!(page["records"][0]["value"], "late");
    });
    assert!(began.elapsed() < PATIENCE);
}

#[test]
fn a_wait_ends_with_the_topic_and_with_the_node() {
    let mut node = TestNode::start();
    let http = Http::of(&node);
    http.create("t", 1);
    http.create("u", 1);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| http.get(&format!("{RECORDS}?wait_ms=60000")));
        see_reader(&node);
        assert_eq!(http.delete("/v1/topics/t").status, 204);
        let kind = waiting.join().expect("it reads").kind();
        assert!(
            matches!(kind.as_str(), "unknown-partition" | "unknown-topic"),
            "{kind}"
        );
        let waiting = scope.spawn(|| http.get("/v1/topics/u/partitions/0/records?wait_ms=60000"));
        see_reader(&node);
        let began = Instant::now();
        node.stop();
        assert!(began.elapsed() < PATIENCE);
        let answer = waiting.join().expect("it reads");
        assert!(matches!(answer.status, 200 | 503), "{}", answer.status);
    });
}

#[test]
fn what_was_trimmed_is_said_to_be_gone() {
    let node = TestNode::start();
    filled(&node);
    let http = Http::of(&node);
    let answer = http.delete(&format!("{RECORDS}?before=4"));
    assert_eq!(answer.json(), json!({ "partition": 0, "first_offset": 4 }));
    // Inside of a batch: the batch is read, the records before are not.
    assert_eq!(offsets(&http.get(RECORDS).json()), (4..10).collect::<Vec<_>>());
    for offset in [3, 11] {
        let answer = http.get(&format!("{RECORDS}?offset={offset}"));
        assert_eq!(
            (answer.status, answer.kind().as_str()),
            (416, "offset-out-of-range")
        );
        let problem = answer.json();
        assert_eq!(
            (&problem["first_offset"], &problem["tail"]),
            (&4.into(), &10.into())
        );
    }
    let beyond = http.delete(&format!("{RECORDS}?before=11"));
    assert_eq!(beyond.kind(), "offset-out-of-range");
    let problem = beyond.json();
    assert_eq!(
        (&problem["first_offset"], &problem["tail"]),
        (&4.into(), &10.into())
    );
    assert_eq!(
        http.delete(&format!("{RECORDS}?before=tail")).json()["first_offset"],
        10
    );
    assert!(offsets(&http.get(RECORDS).json()).is_empty());
    let mut wire = node.connect();
    assert_eq!(wire.produce("t", 0, batch(&[(now_ms(), "next")])).base_offset, 10);
    assert_eq!(offsets(&http.get(RECORDS).json()), [10]);
}

#[test]
fn a_record_that_no_answer_holds_is_named_and_can_be_passed() {
    let node = TestNode::start_with(&[("limits.fetch_bytes", "64KiB")]);
    let http = Http::of(&node);
    http.create("t", 1);
    http.post(RECORDS, "application/octet-stream", vec![b'x'; 65 << 10]);
    http.post(RECORDS, "text/plain", "next");
    let answer = http.get(RECORDS);
    assert_eq!((answer.status, answer.kind().as_str()), (422, "record-too-large"));
    assert_eq!(answer.json()["offset"], 0);
    assert_eq!(offsets(&http.get(&format!("{RECORDS}?offset=1")).json()), [1]);
}
