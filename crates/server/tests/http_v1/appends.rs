//! Appends over HTTP are appends: durable, in order, in one batch, on the partition that Kafka's clients would choose.

use kafka_wire::ErrorCode;
use platform::disk::SimulatedDisk;
use serde_json::json;

use crate::client::Http;
use crate::support::{TestNode, batch, now_ms};

const RECORDS: &str = "/v1/topics/t/partitions/0/records";

#[test]
fn what_is_appended_in_each_form_is_read_by_a_kafka_client() {
    let node = TestNode::start();
    let http = Http::of(&node);
    http.create("t", 1);
    let before = now_ms();
    let json = r#"[{"key":"k","value":"v","headers":[{"key":"h","value":"x"}],"timestamp_ms":5},
                   {"key_base64":"/w==","value":null}]"#;
    let answer = http.post(RECORDS, "application/json", json);
    assert_eq!(
        answer.json(),
        json!({ "partition": 0, "first_offset": 0, "count": 2 })
    );
    let answer = http.post(RECORDS, "text/plain; charset=utf-8", "one\ntwo\n");
    assert_eq!(
        answer.json(),
        json!({ "partition": 0, "first_offset": 2, "count": 2 })
    );
    let answer = http.post(
        &format!("{RECORDS}?key=a%20b"),
        "application/octet-stream",
        b"\0\xff",
    );
    assert_eq!(
        answer.json(),
        json!({ "partition": 0, "first_offset": 4, "count": 1 })
    );

    let printed = http.get_as(RECORDS, "application/x-ndjson");
    http.create("copy", 1);
    let answer = http.post(
        &RECORDS.replace("/t/", "/copy/"),
        "application/x-ndjson",
        printed.text(),
    );
    assert_eq!(
        answer.json()["count"],
        5,
        "what is read can be appended: {}",
        answer.text()
    );

    let records = node.connect().read_all("t", 0, 0);
    let told: Vec<_> = records
        .iter()
        .map(|record| (record.offset.0, record.key.as_deref(), record.value.as_deref()))
        .collect();
    type Told<'a> = (i64, Option<&'a [u8]>, Option<&'a [u8]>);
    let expected: Vec<Told> = vec![
        (0, Some(b"k"), Some(b"v")),
        (1, Some(b"\xff"), None),
        (2, None, Some(b"one")),
        (3, None, Some(b"two")),
        (4, Some(b"a b"), Some(b"\0\xff")),
    ];
    assert_eq!(told, expected);
    assert_eq!(
        records[0].headers,
        [(b"h".as_slice().into(), Some(b"x".as_slice().into()))]
    );
    assert_eq!(records[0].timestamp_ms, 5);
    for record in &records[1..] {
        assert!((before..=now_ms()).contains(&record.timestamp_ms));
    }
}

#[test]
fn keys_lead_where_kafkas_clients_put_them() {
    let node = TestNode::start();
    let http = Http::of(&node);
    http.create("t", 12);
    for key in ["21", "foobar", "a-little-bit-long-string", "abc", ""] {
        let body = json!([{ "key": key, "value": "v" }]).to_string();
        let answer = http.post("/v1/topics/t/records", "application/json", body);
        let appended = &answer.json()["appended"][0];
        assert_eq!(
            appended["partition"],
            record::partition_of(key.as_bytes(), 12),
            "{key}"
        );
    }
    let answer = http.post("/v1/topics/t/records?key=foobar", "text/plain", "a\nb");
    let appended = &answer.json()["appended"][0];
    assert_eq!(
        (&appended["partition"], &appended["count"]),
        (&record::partition_of(b"foobar", 12).into(), &2.into())
    );
    // Records without a key stay together.
    let answer = http.post("/v1/topics/t/records", "text/plain", "a\nb\nc");
    assert_eq!(answer.json()["appended"].as_array().map(Vec::len), Some(1));
}

#[test]
fn what_is_answered_survives_a_kill() {
    let disk = SimulatedDisk::new();
    let node = TestNode::start_on(&disk, &[]);
    let http = Http::of(&node);
    http.create("t", 1);
    let answer = http.post(RECORDS, "text/plain", "kept");
    assert_eq!(answer.status, 200);
    // The disk as a power cut at this moment leaves it: what was not flushed is lost.
    let after = disk.crash(7);
    drop(node);
    let node = TestNode::start_on(&after, &[]);
    let records = node.connect().read_all("t", 0, 0);
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].value.as_deref(), Some(&b"kept"[..]));
}

#[test]
fn many_writers_over_http_and_kafka_lose_nothing_and_keep_their_order() {
    const WRITERS: usize = 4;
    const EACH: usize = 50;
    let node = TestNode::start();
    let http = Http::of(&node);
    http.create("t", 1);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (http, node) = (&http, &node);
            scope.spawn(move || {
                let mut wire = node.connect();
                for number in 0..EACH {
                    let value = format!("{writer} {number}");
                    if writer % 2 == 0 {
                        let answer = http.post(RECORDS, "application/octet-stream", &value);
                        assert_eq!(answer.status, 200, "{}", answer.text());
                    } else {
                        let produced = wire.produce("t", 0, batch(&[(now_ms(), &value)]));
                        assert_eq!(produced.error_code, ErrorCode::None.code());
                    }
                }
            });
        }
    });
    let records = node.connect().read_all("t", 0, 0);
    assert_eq!(records.len(), WRITERS * EACH);
    for writer in 0..WRITERS {
        let own = records.iter().filter_map(|record| {
            let value = std::str::from_utf8(record.value.as_deref()?).ok()?;
            value.strip_prefix(&format!("{writer} "))?.parse::<usize>().ok()
        });
        assert!(own.eq(0..EACH), "the order of writer {writer}");
    }
}

#[test]
fn log_append_time_is_the_brokers() {
    let node = TestNode::start();
    let http = Http::of(&node);
    let topic = r#"{"name":"t","configs":{"message.timestamp.type":"LogAppendTime"}}"#;
    assert_eq!(http.post("/v1/topics", "application/json", topic).status, 201);
    let before = now_ms();
    http.post(RECORDS, "application/json", r#"[{"value":"v","timestamp_ms":5}]"#);
    let page = http.get(RECORDS).json();
    assert!(
        page["records"][0]["timestamp_ms"].as_i64() >= Some(before),
        "{page}"
    );
}
