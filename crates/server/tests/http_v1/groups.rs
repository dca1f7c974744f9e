//! Consumer groups over HTTP are those of Kafka's clients: seen, put elsewhere and deleted by the same rules.

mod members;
mod offsets;

use serde_json::{Value, json};

use crate::client::{Answer, Http};
use crate::refusals::expect;
use crate::support::{TestNode, batch, eventually, now_ms};
use members::{Assignment, ClassicMember, ConsumerMember};

const GROUP: &str = "/v1/groups/billing";
const OFFSETS: &str = "/v1/groups/billing/offsets";

/// A node with a topic of three partitions; the first has five records, of which one is given up.
fn start() -> (TestNode, Http) {
    let node = TestNode::start_with(&[
        ("groups.initial_rebalance_delay", "0s"),
        ("groups.lag_check_interval", "10ms"),
    ]);
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
fn groups_are_listed_by_name_some_at_a_time() {
    let (_node, http) = start();
    assert_eq!(
        ok(&http.get("/v1/groups")),
        json!({ "groups": [], "next": null, "missing_nodes": [] })
    );
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
fn metrics_tell_how_far_groups_are_behind() {
    let (node, http) = start();
    ok(&set_first(&http, &json!(2)));
    let read_all =
        r#"[{"topic":"orders","partition":0,"offset":5},{"topic":"orders","partition":1,"offset":0}]"#;
    ok(&http.patch("/v1/groups/audit/offsets", read_all));
    for lag in [
        "{group=\"billing\",topic=\"orders\"} 3",
        "{group=\"audit\",topic=\"orders\"} 0",
    ] {
        let line = format!("\nropewalk_group_lag_records{lag}\n");
        eventually(&line, || node.get("/metrics").contains(&line));
    }
    // More comes than is read.
    assert_eq!(
        node.connect()
            .produce("orders", 0, batch(&[(now_ms(), "x")]))
            .error_code,
        0
    );
    eventually("both are one record further behind", || {
        node.metric("ropewalk_group_lag_records") == 5
    });
    assert_eq!(http.delete("/v1/topics/orders").status, 204);
    eventually("nobody is behind in a topic that is gone", || {
        !node.get("/metrics").contains("\nropewalk_group_lag_records{")
    });
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
    member.commit("orders", 0, 2);
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
