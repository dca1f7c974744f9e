//! Offsets of groups are set and forgotten: places that are there, in bodies that say which.

use serde_json::{Value, json};

use super::{GROUP, OFFSETS, ok, set, set_first, start};
use crate::client::Http;
use crate::refusals::expect;
use crate::support::now_ms;

#[test]
fn a_group_is_told_where_to_go_on() {
    let (_node, http) = start();
    let body = json!([
        { "topic": "orders", "partition": 0, "offset": 3 },
        { "topic": "orders", "partition": 2, "offset": "latest" },
    ]);
    let rehearsed = http.patch(&format!("{OFFSETS}?dry_run=true"), body.to_string());
    let places = |before: Value| {
        json!([
            { "topic": "orders", "partition": 0, "before": before, "offset": 3 },
            { "topic": "orders", "partition": 2, "before": before_of(&before), "offset": 0 },
        ])
    };
    assert_eq!(
        ok(&rehearsed),
        json!({ "dry_run": true, "offsets": places(Value::Null) })
    );
    expect(&http.get(GROUP), 404, "unknown-group", "billing");
    // To ask for what is not there has not even made the topic that groups are kept in.
    assert_eq!(http.get("/v1/status").json()["topics"], 1);

    let done = set(&http, &body);
    assert_eq!(
        ok(&done),
        json!({ "dry_run": false, "offsets": places(Value::Null) })
    );
    let again = set_first(&http, &json!("earliest"));
    assert_eq!(
        ok(&again)["offsets"],
        json!([{ "topic": "orders", "partition": 0, "before": 3, "offset": 1 }])
    );
    let group = ok(&http.get(GROUP));
    assert_eq!(
        group["offsets"],
        json!([
            { "topic": "orders", "partition": 0, "offset": 1, "metadata": "", "first_offset": 1, "tail": 5, "lag": 4 },
            { "topic": "orders", "partition": 2, "offset": 0, "metadata": "", "first_offset": 0, "tail": 0, "lag": 0 },
        ])
    );
    assert_eq!(
        (
            &group["type"],
            &group["state"],
            &group["member_count"],
            &group["members"]
        ),
        (&"classic".into(), &"Empty".into(), &0.into(), &json!([]))
    );
    assert_eq!((&group["protocol"], &group["next"]), (&Value::Null, &Value::Null));
}

/// The other partition was never committed before, either.
fn before_of(first: &Value) -> Value {
    assert!(first.is_null());
    Value::Null
}

#[test]
fn a_time_is_its_first_record_or_the_tail() {
    let (_node, http) = start();
    let at = |timestamp_ms: i64| {
        let entries = json!([{ "topic": "orders", "partition": 0, "timestamp_ms": timestamp_ms }]);
        ok(&set(&http, &entries))["offsets"][0]["offset"].clone()
    };
    assert_eq!(at(now_ms() - 600_000 + 3 * 60_000 - 30_000), 2);
    assert_eq!(at(0), 1, "what was given up is not found");
    assert_eq!(at(now_ms()), 5);
}

#[test]
fn what_is_set_outlasts_restarts() {
    let (node, http) = start();
    ok(&set_first(&http, &json!(4)));
    let node = node.kill_and_restart();
    // A client that asks at once waits until the log of the groups is read.
    let http = Http::of(&node);
    assert_eq!(ok(&http.get(GROUP))["offsets"][0]["offset"], 4);
    assert_eq!(ok(&http.get("/v1/groups"))["groups"][0]["name"], "billing");
}

#[test]
fn what_was_committed_of_a_topic_is_forgotten() {
    let (_node, http) = start();
    http.create("other", 1);
    let entries = json!([
        { "topic": "orders", "partition": 0, "offset": 4 },
        { "topic": "orders", "partition": 1, "offset": 0 },
        { "topic": "other", "partition": 0, "offset": 0 },
    ]);
    ok(&set(&http, &entries));
    let forgotten = http.delete(&format!("{OFFSETS}?topic=orders"));
    assert_eq!(
        ok(&forgotten),
        json!({ "topic": "orders", "forgotten": [{ "partition": 0, "offset": 4 }, { "partition": 1, "offset": 0 }] })
    );
    assert_eq!(ok(&http.get(GROUP))["offsets"].as_array().map(Vec::len), Some(1));
    let again = http.delete(&format!("{OFFSETS}?topic=orders"));
    assert_eq!(ok(&again)["forgotten"], json!([]));

    expect(&http.delete(OFFSETS), 400, "malformed-query", "topic");
    expect(
        &http.delete(&format!("{OFFSETS}?topic=nowhere")),
        404,
        "unknown-topic",
        "nowhere",
    );
    expect(
        &http.delete("/v1/groups/nobody/offsets?topic=orders"),
        404,
        "unknown-group",
        "nobody",
    );
}

#[test]
fn places_that_are_not_there_set_nothing() {
    let (_node, http) = start();
    let sound = json!({ "topic": "orders", "partition": 1, "offset": 0 });
    for (entry, status, kind, word) in [
        (
            json!({ "topic": "nowhere", "partition": 0, "offset": 0 }),
            404,
            "unknown-topic",
            "nowhere",
        ),
        (
            json!({ "topic": "orders", "partition": 3, "offset": 0 }),
            404,
            "unknown-partition",
            "only 0 to 2",
        ),
        (
            json!({ "topic": "orders", "partition": -1, "offset": 0 }),
            404,
            "unknown-partition",
            "only 0 to 2",
        ),
        (
            json!({ "topic": "orders", "partition": 0, "offset": 0 }),
            416,
            "offset-out-of-range",
            "from 1 to 5",
        ),
        (
            json!({ "topic": "orders", "partition": 0, "offset": 6 }),
            416,
            "offset-out-of-range",
            "from 1 to 5",
        ),
        (
            json!({ "topic": "orders", "partition": 0, "offset": i64::MAX }),
            416,
            "offset-out-of-range",
            "from 1 to 5",
        ),
    ] {
        let answer = set(&http, &json!([sound, entry]));
        expect(&answer, status, kind, word);
        assert_eq!(answer.json()["entry"], 1, "{entry}");
    }
    expect(&http.get(GROUP), 404, "unknown-group", "billing");
}

#[test]
fn bodies_that_set_nothing() {
    let (_node, http) = start();
    for (body, word) in [
        ("", "the JSON ends too early"),
        ("[", "the JSON ends too early"),
        ("{}", "an array"),
        ("[]", "no entry"),
        ("[7]", "stands where"),
        (
            r#"[{"topic":"orders","partition":0}]"#,
            "an offset or a timestamp",
        ),
        (
            r#"[{"topic":"orders","partition":0,"offset":-1}]"#,
            "stands where an offset",
        ),
        (
            r#"[{"topic":"orders","partition":0,"offset":"first"}]"#,
            "stands where an offset",
        ),
        (
            r#"[{"topic":"orders","partition":0,"offset":1,"timestamp_ms":1}]"#,
            "not both",
        ),
        (r#"[{"topic":"orders","partition":0,"timestamp_ms":-1}]"#, "1970"),
        (
            r#"[{"topic":"orders","partition":99999999999,"offset":1}]"#,
            "99999999999",
        ),
        (r#"[{"topic":"orders","offset":1}]"#, "partition"),
        (r#"[{"topic":"orders","partition":0,"offset":1,"lag":1}]"#, "lag"),
        (
            r#"[{"topic":"orders","partition":0,"offset":1},{"topic":"orders","partition":0,"offset":2}]"#,
            "a second time",
        ),
    ] {
        expect(&http.patch(OFFSETS, body), 400, "malformed-body", word);
    }
    let many: Vec<Value> = (0..10_001)
        .map(|index| json!({ "topic": "o", "partition": index, "offset": 0 }))
        .collect();
    expect(
        &set(&http, &Value::from(many)),
        400,
        "malformed-body",
        "10000 entries",
    );
    let large = format!(
        "[{{\"topic\":\"{}\",\"partition\":0,\"offset\":0}}]",
        "x".repeat(1 << 20)
    );
    let answer = http.patch(OFFSETS, large);
    expect(&answer, 413, "body-too-large", "1048576");
    assert_eq!(answer.json()["bytes_max"], 1 << 20);
    for media_type in ["", "text/plain", "application/octet-stream"] {
        let answer = http.send("PATCH", OFFSETS, &[("content-type", media_type)], b"[]");
        expect(&answer, 415, "unsupported-media-type", "application/json");
    }
    for query in ["dry_run=1", "dry_run=true&dry_run=true", "dry=true"] {
        let body = r#"[{"topic":"orders","partition":0,"offset":1}]"#;
        let answer = http.patch(&format!("{OFFSETS}?{query}"), body);
        expect(&answer, 400, "malformed-query", "");
    }
    expect(&http.get(GROUP), 404, "unknown-group", "billing");
}
