//! Consumer groups over HTTP are those of Kafka's clients: seen, put elsewhere and deleted by the same rules.

mod members;

use serde_json::{Value, json};

use crate::client::{Answer, Http};
use crate::refusals::expect;
use crate::support::{TestNode, batch, now_ms};
use members::{Assignment, ClassicMember, ConsumerMember};

const GROUP: &str = "/v1/groups/billing";
const OFFSETS: &str = "/v1/groups/billing/offsets";

/// A node with a topic of three partitions; the first has five records, of which one is given up.
fn start() -> (TestNode, Http) {
    let node = TestNode::start_with(&[("groups.initial_rebalance_delay", "0s")]);
    let http = Http::of(&node);
    http.create("orders", 3);
    let mut wire = node.connect();
    for timestamp_ms in [1, 2, 3, 4, 5].map(|minute| now_ms() - 600_000 + minute * 60_000) {
        assert_eq!(
            wire.produce("orders", 0, batch(&[(timestamp_ms, "x")]))
                .error_code,
            0
        );
    }
    let trimmed = http.delete("/v1/topics/orders/partitions/0/records?before=1");
    assert_eq!(trimmed.status, 200, "{}", trimmed.text());
    (node, http)
}

fn set(http: &Http, entries: &Value) -> Answer {
    http.patch(OFFSETS, entries.to_string())
}

/// Sets an offset of the first partition.
fn set_first(http: &Http, offset: &Value) -> Answer {
    set(
        http,
        &json!([{ "topic": "orders", "partition": 0, "offset": offset }]),
    )
}

fn ok(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

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
        let entries = json!([{ "topic": "orders", "partition": 0, "timestamp": timestamp_ms }]);
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
    // Whoever asks at once waits until the log of the groups is read.
    let http = Http::of(&node);
    assert_eq!(ok(&http.get(GROUP))["offsets"][0]["offset"], 4);
    assert_eq!(ok(&http.get("/v1/groups"))["groups"][0]["name"], "billing");
}

#[test]
fn groups_are_listed_by_name_some_at_a_time() {
    let (_node, http) = start();
    assert_eq!(ok(&http.get("/v1/groups")), json!({ "groups": [], "next": null }));
    // Of several coordinators, and a name that has to be encoded.
    for name in ["c", "a", "e", "b%20%26%C3%A9", "d"] {
        let body = r#"[{"topic":"orders","partition":1,"offset":0}]"#;
        ok(&http.patch(&format!("/v1/groups/{name}/offsets"), body));
    }
    let names = |list: &Value| -> Vec<String> {
        let groups = list["groups"].as_array().expect("groups");
        groups
            .iter()
            .map(|group| group["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    let all = ok(&http.get("/v1/groups"));
    assert_eq!(names(&all), ["a", "b &é", "c", "d", "e"]);
    assert_eq!(
        all["groups"][0],
        json!({ "name": "a", "type": "classic", "state": "Empty", "protocol_type": null })
    );
    let first = ok(&http.get("/v1/groups?limit=2"));
    assert_eq!((names(&first).len(), &first["next"]), (2, &"b &é".into()));
    let rest = ok(&http.get("/v1/groups?limit=3&after=b%20%26%C3%A9"));
    assert_eq!(
        (names(&rest), &rest["next"]),
        (["c", "d", "e"].map(str::to_owned).to_vec(), &Value::Null)
    );
    assert_eq!(ok(&http.get("/v1/groups/b%20%26%C3%A9"))["name"], "b &é");
}

#[test]
fn offsets_go_by_partition_some_at_a_time() {
    let (_node, http) = start();
    http.create("many", 12);
    let entries: Vec<Value> = (0..12)
        .map(|index| json!({ "topic": "many", "partition": index, "offset": 0 }))
        .collect();
    ok(&set(&http, &Value::from(entries)));
    ok(&set_first(&http, &json!(1)));
    let page = |query: &str| {
        let group = ok(&http.get(&format!("{GROUP}?{query}")));
        let offsets = group["offsets"].as_array().expect("offsets").clone();
        let places = offsets.iter().map(|offset| {
            let topic = offset["topic"].as_str().expect("a name");
            format!("{topic}:{}", offset["partition"])
        });
        (places.collect::<Vec<_>>(), group["next"].clone())
    };
    let (first, next) = page("limit=10");
    assert_eq!(
        (first.len(), first[9].as_str(), next),
        (10, "many:9", "many:9".into())
    );
    assert_eq!(
        page("limit=10&after=many:9").0,
        ["many:10", "many:11", "orders:0"]
    );
    for query in [
        "after=many",
        "after=many:x",
        "after=:-1",
        "limit=0",
        "limit=10001",
        "state=Empty",
    ] {
        let answer = http.get(&format!("{GROUP}?{query}"));
        expect(&answer, 400, "malformed-query", "");
    }
}

#[test]
fn a_group_with_members_is_seen_and_left_alone() {
    let (node, http) = start();
    let assignment = Assignment::Of("orders", &[0, 1]);
    let mut member = ClassicMember::join(&node, "billing", "consumer", assignment);
    member.commit("orders", 0, 2, "so far");
    let group = ok(&http.get(GROUP));
    assert_eq!(
        (
            &group["state"],
            &group["protocol_type"],
            &group["protocol"],
            &group["epoch"]
        ),
        (&"Stable".into(), &"consumer".into(), &"range".into(), &1.into())
    );
    assert_eq!(
        group["members"],
        json!([{
            "id": member.id(), "instance": null, "client_id": "test", "host": "/127.0.0.1",
            "assignment": [{ "topic": "orders", "partitions": [0, 1] }],
        }])
    );
    assert_eq!(
        group["offsets"],
        json!([
            { "topic": "orders", "partition": 0, "offset": 2, "metadata": "so far", "first_offset": 1, "tail": 5, "lag": 3 },
            // Assigned, and nothing committed yet.
            { "topic": "orders", "partition": 1, "offset": null, "metadata": null, "first_offset": 0, "tail": 0, "lag": null },
        ])
    );

    let entries = r#"[{"topic":"orders","partition":0,"offset":1}]"#;
    for path in [OFFSETS.to_owned(), format!("{OFFSETS}?dry_run=true")] {
        let refused = http.patch(&path, entries);
        expect(&refused, 409, "group-not-empty", "1 members");
        assert_eq!(refused.json()["members"], 1);
    }
    expect(&http.delete(GROUP), 409, "group-not-empty", "1 members");
    expect(
        &http.delete(&format!("{OFFSETS}?topic=orders")),
        409,
        "group-not-empty",
        "orders",
    );
    assert_eq!(ok(&http.get(GROUP))["offsets"][0]["offset"], 2);

    member.leave();
    ok(&set_first(&http, &json!(1)));
    let deleted = http.delete(GROUP);
    assert_eq!((deleted.status, deleted.body.len()), (204, 0));
    expect(&http.get(GROUP), 404, "unknown-group", "billing");
}

#[test]
fn assignments_that_are_not_partitions_are_told_as_nothing() {
    let (node, http) = start();
    for (group, protocol_type, assignment) in [
        ("broken", "consumer", Assignment::Bytes(b"everything")),
        (
            "endless",
            "consumer",
            Assignment::Bytes(b"\x00\x00\x7f\xff\xff\xff"),
        ),
        ("negative", "consumer", Assignment::Of("orders", &[-1])),
        ("workers", "connect", Assignment::Of("orders", &[0])),
    ] {
        let _member = ClassicMember::join(&node, group, protocol_type, assignment);
        let told = ok(&http.get(&format!("/v1/groups/{group}")));
        assert_eq!(told["members"][0]["assignment"], Value::Null, "{group}");
        assert_eq!(
            (&told["protocol_type"], &told["offsets"]),
            (&protocol_type.into(), &json!([]))
        );
    }
}

#[test]
fn a_group_by_the_next_protocol_is_told_alike() {
    let (node, http) = start();
    let mut member = ConsumerMember::join(&node, "billing", "one", "orders");
    let group = ok(&http.get(GROUP));
    assert_eq!(
        (
            &group["type"],
            &group["state"],
            &group["protocol"],
            &group["member_count"]
        ),
        (&"consumer".into(), &"Stable".into(), &"uniform".into(), &1.into())
    );
    assert!(group["epoch"].as_i64() > Some(0));
    assert_eq!(
        group["members"][0]["assignment"],
        json!([{ "topic": "orders", "partitions": [0, 1, 2] }])
    );
    assert_eq!(group["offsets"].as_array().map(Vec::len), Some(3));
    assert_eq!(ok(&http.get("/v1/groups"))["groups"][0]["type"], "consumer");
    expect(&set_first(&http, &json!(1)), 409, "group-not-empty", "1 members");
    expect(&http.delete(GROUP), 409, "group-not-empty", "1 members");
    member.leave();
    ok(&set_first(&http, &json!(1)));
    assert_eq!(http.delete(GROUP).status, 204);
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
fn groups_that_are_not_there_and_names_that_none_can_have() {
    let (_node, http) = start();
    let all_refuse = |status: u16, kind: &str, name: &str| {
        let path = format!("/v1/groups/{name}");
        for answer in [
            http.get(&path),
            http.delete(&path),
            http.delete(&format!("{path}/offsets?topic=orders")),
        ] {
            expect(&answer, status, kind, "");
        }
    };
    all_refuse(404, "unknown-group", "nobody");
    ok(&set_first(&http, &json!(1)));
    all_refuse(404, "unknown-group", "nobody");
    assert_eq!(http.get("/v1/groups/nobody").json()["group"], "nobody");
    let long = "x".repeat(600);
    all_refuse(422, "invalid-group", &long);
    let body = r#"[{"topic":"orders","partition":0,"offset":1}]"#;
    expect(
        &http.patch(&format!("/v1/groups/{long}/offsets"), body),
        422,
        "invalid-group",
        "512",
    );
    for name in ["..", "%2e%2e", "a%2fb", "a%5cb", "%00"] {
        let path = format!("/v1/groups/{name}/offsets");
        expect(&http.patch(&path, body), 400, "malformed-path", "in the path");
    }
    assert_eq!(
        ok(&http.get("/v1/groups"))["groups"].as_array().map(Vec::len),
        Some(1)
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
        ("", "line 1"),
        ("[", "line 1"),
        ("{}", "an array"),
        ("[]", "no entry"),
        ("[7]", "line 1"),
        (
            r#"[{"topic":"orders","partition":0}]"#,
            "an offset or a timestamp",
        ),
        (
            r#"[{"topic":"orders","partition":0,"offset":-1}]"#,
            "expected an offset",
        ),
        (
            r#"[{"topic":"orders","partition":0,"offset":"first"}]"#,
            "expected an offset",
        ),
        (
            r#"[{"topic":"orders","partition":0,"offset":1,"timestamp":1}]"#,
            "not both",
        ),
        (r#"[{"topic":"orders","partition":0,"timestamp":-1}]"#, "1970"),
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
