//! Requests that nobody should send: each is refused for its fault, in words that help, and none harms the node.

use std::io::{Read, Write};

use serde_json::json;

use platform::disk::SimulatedDisk;

use crate::client::{Answer, Http};
use crate::support::{TestNode, eventually, now_ms};

const RECORDS: &str = "/v1/topics/t/partitions/0/records";

fn start_with(sets: &[(&str, &str)]) -> (TestNode, Http) {
    let node = TestNode::start_with(sets);
    let http = Http::of(&node);
    http.create("t", 2);
    (node, http)
}

fn start() -> (TestNode, Http) {
    start_with(&[])
}

/// That it is a refusal of this kind, in a sentence with this word.
pub(crate) fn expect(answer: &Answer, status: u16, kind: &str, word: &str) {
    assert_eq!(
        (answer.status, answer.kind().as_str()),
        (status, kind),
        "{}",
        answer.text()
    );
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let detail = answer.json()["detail"].as_str().expect("a sentence").to_owned();
    assert!(detail.contains(word), "{word:?} in {detail:?}");
}

#[test]
fn paths_that_climb_or_are_no_text() {
    let (_node, http) = start();
    for path in [
        "/v1/topics/../status",
        "/v1/topics/%2e%2e/status",
        "/v1/topics/%2E./partitions/0/records",
        "/v1/topics/a%2Fb",
        "/v1/topics/%ff",
        "/v1/topics/%C3%28",
        "/v1/topics/100%",
        "/v1/topics/%zz",
        "/v1/topics/a%00b",
        "/v1/groups/..",
        "/v1/groups/%2e%2e/status",
        "/v1/groups/a%2F..%2Fb",
        "/v1/groups/a%0ab",
        "/%2e%2e/%2e%2e/etc/passwd",
    ] {
        expect(&http.get(path), 400, "malformed-path", "in the path");
    }
    // Sound, though no topic can have such a name.
    expect(&http.get("/v1/topics/%C3%A9%20x"), 404, "unknown-topic", "é x");
}

#[test]
fn what_the_node_keeps_for_itself_is_only_read() {
    let (_node, http) = start();
    let set = http.patch(
        "/v1/groups/g/offsets",
        r#"[{"topic": "t", "partition": 0, "offset": 0}]"#,
    );
    assert_eq!(set.status, 200, "{}", set.text());
    let records = "/v1/topics/__consumer_offsets/partitions/0/records";
    for append in [records, "/v1/topics/__consumer_offsets/records"] {
        let refused = http.post(append, "text/plain", "x");
        expect(&refused, 403, "internal-topic", "by the node itself");
    }
    let refused = http.delete(&format!("{records}?before=tail"));
    expect(&refused, 403, "internal-topic", "by the node itself");
    assert_eq!(http.get(records).status, 200);
}

#[test]
fn a_topic_that_is_only_compacted_is_not_trimmed() {
    let (node, http) = start();
    let compacted = [("cleanup.policy", "compact")];
    node.connect().create_topic("table", 1, &compacted);
    let refused = http.delete("/v1/topics/table/partitions/0/records?before=tail");
    expect(&refused, 409, "only-compacted", "cleanup.policy");
}

#[test]
fn what_is_not_there() {
    let (_node, http) = start();
    for path in [
        "/v1/topics/u/partitions/0/records",
        "/v1/topics/u",
        "/v1/topics/u/configs",
    ] {
        expect(&http.get(path), 404, "unknown-topic", "\"u\"");
    }
    for partition in ["2", "-1", "x", "99999999999999", "0x0"] {
        let path = format!("/v1/topics/t/partitions/{partition}/records");
        for answer in [
            http.get(&path),
            http.post(&path, "text/plain", "a"),
            http.delete(&path),
        ] {
            expect(&answer, 404, "unknown-partition", "only 0 to 1");
        }
    }
    expect(
        &http.post("/v1/topics/u/records", "text/plain", "a"),
        404,
        "unknown-topic",
        "u",
    );
}

#[test]
fn queries_that_mean_nothing() {
    let (_node, http) = start();
    for (query, parameter) in [
        ("offset=-1", "offset"),
        ("offset=x", "offset"),
        ("offset=", "offset"),
        ("offset=9223372036854775808", "offset"),
        ("offset=1&offset=2", "offset"),
        ("offset=1&timestamp_ms=2", "timestamp_ms"),
        ("timestamp_ms=-1", "timestamp_ms"),
        ("limit=0", "limit"),
        ("limit=100001", "limit"),
        ("bytes=0", "bytes"),
        ("bytes=99999999999", "bytes"),
        ("wait_ms=60001", "wait_ms"),
        ("ofset=1", "ofset"),
    ] {
        let answer = http.get(&format!("{RECORDS}?{query}"));
        expect(&answer, 400, "malformed-query", parameter);
        assert_eq!(answer.json()["parameter"], parameter, "{query}");
    }
    expect(
        &http.get(&format!("{RECORDS}?offset=%zz")),
        400,
        "malformed-query",
        "percent",
    );
    for query in ["", "?before=x", "?before=-1"] {
        expect(
            &http.delete(&format!("{RECORDS}{query}")),
            400,
            "malformed-query",
            "before",
        );
    }
    let keyed = http.post(&format!("{RECORDS}?key=a"), "application/json", "[]");
    expect(&keyed, 400, "malformed-query", "key");
}

#[test]
fn bodies_that_are_not_what_they_say() {
    let (_node, http) = start();
    for media_type in [
        "",
        "application/x-www-form-urlencoded",
        "text/html",
        "application/jsonp",
    ] {
        let answer = http.post(RECORDS, media_type, "[]");
        expect(&answer, 415, "unsupported-media-type", "application/octet-stream");
    }
    // Its bytes would be taken for the records.
    let headers = [("content-type", "text/plain"), ("content-encoding", "gzip")];
    let compressed = http.send("POST", RECORDS, &headers, b"\x1f\x8b");
    expect(&compressed, 415, "unsupported-media-type", "Content-Encoding");
    expect(
        &http.post("/v1/topics", "text/plain", "t"),
        415,
        "unsupported-media-type",
        "application/json",
    );
    for (body, line, column) in [
        ("[{\"value\":\"a\"},\n{\"value\":\"b\",}]", 2, 14),
        ("[{\"value\":\"a\"}", 1, 14),
        ("{\"value\":\"a\"}", 1, 0),
    ] {
        let answer = http.post(RECORDS, "application/json", body);
        expect(&answer, 400, "malformed-body", "");
        let detail = answer.json()["detail"].to_string();
        assert!(
            !detail.contains("line") && !detail.contains("column"),
            "the place is told once: {detail}"
        );
        assert_eq!(answer.json()["line"], line, "{}", answer.text());
        assert_eq!(answer.json()["column"], column, "{}", answer.text());
    }
    for (body, word) in [
        ("[]", "no record"),
        ("[{}]", "record 0"),
        (
            "[{\"value\":\"a\"},{\"value_base64\":\"%\"}]",
            "record 1: value is not Base64",
        ),
        ("[{\"value\":1}]", "text is expected"),
        ("[{\"value\":\"\u{0}\"}]", "control character"),
    ] {
        expect(
            &http.post(RECORDS, "application/json", body),
            400,
            "malformed-body",
            word,
        );
    }
    expect(
        &http.post(RECORDS, "text/plain", ""),
        400,
        "malformed-body",
        "no record",
    );
    // None of it was appended.
    assert_eq!(http.get(RECORDS).json()["tail"], 0);
}

#[test]
fn forms_that_are_not_given() {
    let (_node, http) = start();
    expect(
        &http.get_as(RECORDS, "text/html"),
        406,
        "not-acceptable",
        "text/event-stream",
    );
    expect(
        &http.get_as(RECORDS, "application/json;q=0"),
        406,
        "not-acceptable",
        "application/json",
    );
    expect(
        &http.get_as("/v1/status", "text/event-stream"),
        406,
        "not-acceptable",
        "application/json",
    );
    assert_eq!(http.get_as(RECORDS, "text/html, */*;q=0.1").status, 200);
}

#[test]
fn bodies_that_are_too_large() {
    let (_node, http) = start_with(&[
        ("limits.request_bytes", "2MiB"),
        ("topics.defaults.max.message.bytes", "100000"),
    ]);
    // Beyond what a request may have: refused by what it announces, before a byte of it is there.
    let head = format!(
        "POST {RECORDS} HTTP/1.1\r\nhost: n\r\ncontent-type: text/plain\r\ncontent-length: 2097153\r\n\r\n"
    );
    let answer = http.raw(head.as_bytes());
    expect(&answer, 413, "body-too-large", "2097152");
    assert_eq!(answer.json()["bytes_max"], 2_097_152);
    // The same without saying so before.
    let chunked = format!(
        "POST {RECORDS} HTTP/1.1\r\nhost: n\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    let mut stream = http.open(chunked.as_bytes());
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    for _ in 0..40 {
        if stream.write_all(chunk.as_bytes()).is_err() {
            break;
        }
    }
    let mut answer = Vec::new();
    // The connection may be reset for what nobody read, but no more than the limit was taken.
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 413 "));
    // Within that, but more than the topic takes in one batch.
    for (media_type, body) in [
        ("application/octet-stream", vec![b'x'; 100_000]),
        ("text/plain", b"line\n".repeat(20_000)),
        (
            "application/json",
            format!("[{{\"value\":\"{}\"}}]", "x".repeat(100_000)).into_bytes(),
        ),
    ] {
        let answer = http.post(RECORDS, media_type, body);
        expect(&answer, 413, "body-too-large", "max.message.bytes");
        assert_eq!(answer.json()["bytes_max"], 100_000);
    }
    assert_eq!(
        http.post(RECORDS, "application/octet-stream", vec![b'x'; 99_000])
            .status,
        200
    );
    // Bodies where none is wanted are not read, either.
    let head = "DELETE /v1/topics/t HTTP/1.1\r\nhost: n\r\ncontent-length: 1000000\r\n\r\n";
    expect(&http.raw(head.as_bytes()), 413, "body-too-large", "65536");
    assert_eq!(http.get("/v1/topics/t").status, 200);
}

#[test]
fn records_that_the_topic_does_not_take() {
    let (_node, http) = start_with(&[("topics.defaults.message.timestamp.before.max.ms", "3600000")]);
    let old = json!([{ "value": "a", "timestamp_ms": now_ms() - 7_200_000 }]).to_string();
    expect(
        &http.post(RECORDS, "application/json", &old),
        422,
        "invalid-record",
        "timestamp",
    );
    let keyed = json!([{ "key": "k", "value": "a", "timestamp_ms": now_ms() - 7_200_000 }]).to_string();
    let answer = http.post("/v1/topics/t/records", "application/json", keyed);
    expect(&answer, 422, "invalid-record", "timestamp");
    assert_eq!(answer.json()["appended"], json!([]));
    assert!(answer.json()["partition"].is_u64());
}

#[test]
fn a_part_that_is_refused_does_not_hide_the_part_that_is_durable() {
    let (_node, http) = start_with(&[("topics.defaults.message.timestamp.before.max.ms", "3600000")]);
    // Two keys of different partitions; one record is too old.
    let other = (b'a'..=b'z')
        .find(|key| record::partition_of(&[*key], 2) == 1)
        .map(char::from)
        .expect("one of them");
    let this = (b'a'..=b'z')
        .find(|key| record::partition_of(&[*key], 2) == 0)
        .map(char::from)
        .expect("one of them");
    let body = json!([
        { "key": this.to_string(), "value": "kept" },
        { "key": other.to_string(), "value": "old", "timestamp_ms": now_ms() - 7_200_000 },
    ]);
    let answer = http.post("/v1/topics/t/records", "application/json", body.to_string());
    expect(&answer, 422, "invalid-record", "timestamp");
    assert_eq!(answer.json()["partition"], 1);
    assert_eq!(
        answer.json()["appended"],
        json!([{ "partition": 0, "first_offset": 0, "count": 1 }])
    );
    assert_eq!(http.get(RECORDS).json()["records"][0]["value"], "kept");
}

#[test]
fn methods_that_a_path_does_not_take() {
    let (_node, http) = start();
    for (method, path, allowed) in [
        ("PUT", "/v1/topics", "GET, HEAD, POST"),
        ("POST", "/v1/topics/t", "GET, HEAD, PATCH, DELETE"),
        ("PUT", "/v1/topics/t/configs", "GET, HEAD, PATCH"),
        ("GET", "/v1/groups/g/offsets", "PATCH, DELETE"),
        ("POST", "/v1/groups", "GET, HEAD"),
        ("DELETE", "/v1/configs", "GET, HEAD, PATCH"),
        ("PUT", "/v1/topics/t/records", "GET, HEAD, POST, DELETE"),
        ("PUT", RECORDS, "GET, HEAD, POST, DELETE"),
    ] {
        let answer = http.send(method, path, &[], b"");
        expect(&answer, 405, "method-not-allowed", method);
        assert_eq!(answer.header("allow"), Some(allowed), "{method} {path}");
    }
}

#[test]
fn pages_of_other_origins_change_nothing() {
    let (_node, http) = start();
    let headers = [("content-type", "text/plain"), ("origin", "http://evil.example")];
    let answer = http.send("POST", RECORDS, &headers, b"a");
    expect(&answer, 403, "cross-origin", "origin");
    for (method, path) in [
        ("PATCH", "/v1/topics/t"),
        ("DELETE", "/v1/topics/t"),
        ("DELETE", "/v1/groups/g"),
        ("PATCH", "/v1/groups/g/offsets"),
        ("PATCH", "/v1/configs"),
    ] {
        expect(
            &http.send(method, path, &headers, b""),
            403,
            "cross-origin",
            "origin",
        );
    }
    // A name that is not known for the node's may have been made to lead here.
    let headers = [("content-type", "text/plain"), ("origin", "http://node")];
    let answer = http.send("POST", RECORDS, &headers, b"a");
    expect(&answer, 403, "cross-origin", "kafka.advertised");
    let (_node, http) = start_with(&[("kafka.advertised", "node:9092")]);
    assert_eq!(http.send("POST", RECORDS, &headers, b"a").status, 200);
    assert_eq!(http.get(RECORDS).json()["tail"], 1);
}

#[test]
fn a_node_that_cannot_append_says_why() {
    let disk = SimulatedDisk::new();
    disk.set_capacity(Some(1 << 30));
    let mut node = TestNode::start_on(&disk, &[]);
    Http::of(&node).create("t", 2);
    node.stop();
    let node = TestNode::start_on(&disk, &[("disk.reserve_bytes", "1TiB")]);
    let http = Http::of(&node);
    // The disk is looked at right after the start.
    let mut answer = http.post(RECORDS, "text/plain", "a");
    eventually("an append is refused", || {
        answer = http.post(RECORDS, "text/plain", "a");
        answer.status != 200
    });
    expect(&answer, 503, "unavailable", "the disk is full");
    assert_eq!(http.get(RECORDS).status, 200);
    let status = http.get("/v1/status").json();
    assert_eq!(status["ready"], false);
    assert!(
        status["reasons"].to_string().contains("the disk is full"),
        "{status}"
    );
}
