//! Configs over HTTP are those of Kafka's clients: what is in force, changes that hold at once, and what is refused.

use serde_json::{Value, json};

use crate::client::{Answer, Http};
use crate::refusals::expect;
use crate::support::{TestNode, batch, now_ms};

const OF_TOPIC: &str = "/v1/topics/t/configs";
const OF_NODES: &str = "/v1/configs";

fn start() -> (TestNode, Http) {
    let node = TestNode::start_with(&[("topics.defaults.retention.ms", "40000")]);
    let http = Http::of(&node);
    http.create("t", 2);
    (node, http)
}

fn entry(answer: &Answer, name: &str) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let told = answer.json();
    let configs = told["configs"].as_array().expect("configs");
    let found = configs.iter().find(|config| config["name"] == name);
    found.cloned().expect("it is told")
}

/// A config's value and where it comes from.
fn config(answer: &Answer, name: &str) -> (String, String) {
    let entry = entry(answer, name);
    let text = |member: &str| entry[member].as_str().expect("text").to_owned();
    (text("value"), text("source"))
}

fn pair(value: &str, source: &str) -> (String, String) {
    (value.to_owned(), source.to_owned())
}

#[test]
fn a_topics_configs_are_set_and_given_up() {
    let (node, http) = start();
    let body = r#"{"max.message.bytes":"1000","retention.ms":"60000"}"#;

    let rehearsed = http.patch(&format!("{OF_TOPIC}?dry_run=true"), body);
    assert_eq!(rehearsed.json()["dry_run"], true);
    assert_eq!(config(&rehearsed, "retention.ms"), pair("40000", "start"));
    assert_eq!(
        config(&http.get(OF_TOPIC), "retention.ms"),
        pair("40000", "start")
    );

    let changed = http.patch(OF_TOPIC, body);
    assert_eq!(changed.json()["dry_run"], false);
    assert_eq!(changed.json()["configs"].as_array().map(Vec::len), Some(2));
    assert_eq!(config(&changed, "retention.ms"), pair("60000", "topic"));
    // It holds on every core by then.
    let large = "x".repeat(2_000);
    for index in 0..2 {
        let produced = node.connect().produce("t", index, batch(&[(now_ms(), &large)]));
        assert_ne!(produced.error_code, 0, "partition {index}");
    }

    let given_up = http.patch(OF_TOPIC, r#"{"max.message.bytes":null}"#);
    assert_eq!(config(&given_up, "max.message.bytes").1, "default");
    assert_eq!(
        node.connect()
            .produce("t", 0, batch(&[(now_ms(), &large)]))
            .error_code,
        0
    );
    assert_eq!(
        config(&http.get(OF_TOPIC), "retention.ms"),
        pair("60000", "topic")
    );
}

#[test]
fn times_and_sizes_may_have_units() {
    let (_node, http) = start();
    let set = |path: &str, body: &str, name: &str| config(&http.patch(path, body), name).0;
    let of_topic = [
        ("retention.ms", r#"{"retention.ms":"7d"}"#, "604800000"),
        ("segment.bytes", r#"{"segment.bytes":"64MiB"}"#, "67108864"),
    ];
    for (name, body, plain) in of_topic {
        assert_eq!(set(OF_TOPIC, body, name), plain);
    }
    let of_nodes = [
        ("log.retention.ms", r#"{"log.retention.ms":"90s"}"#, "90000"),
        (
            "log.cleaner.dedupe.buffer.size",
            r#"{"log.cleaner.dedupe.buffer.size":"64MiB"}"#,
            "67108864",
        ),
    ];
    for (name, body, plain) in of_nodes {
        assert_eq!(set(OF_NODES, body, name), plain);
    }
    let created = r#"{"name":"new","configs":{"retention.ms":"12h"}}"#;
    assert_eq!(http.post("/v1/topics", "application/json", created).status, 201);
    let told = http.get("/v1/topics/new/configs");
    assert_eq!(config(&told, "retention.ms"), pair("43200000", "topic"));
    let refused = http.patch(OF_TOPIC, r#"{"retention.ms":"7 weeks"}"#);
    expect(&refused, 422, "invalid-config", "7 weeks");
}

#[test]
fn what_the_node_needs_of_its_own_topic_stays() {
    const OF_GROUPS: &str = "/v1/topics/__consumer_offsets/configs";
    let (_node, http) = start();
    let offsets = r#"[{"topic":"t","partition":0,"offset":0}]"#;
    assert_eq!(http.patch("/v1/groups/g/offsets", offsets).status, 200);
    for body in [
        r#"{"cleanup.policy":"delete"}"#,
        r#"{"cleanup.policy":null}"#,
        r#"{"ropewalk.durability":"memory"}"#,
        r#"{"segment.bytes":"209715200","max.message.bytes":"1000"}"#,
    ] {
        for path in [OF_GROUPS.to_owned(), format!("{OF_GROUPS}?dry_run=true")] {
            let refused = http.patch(&path, body);
            expect(&refused, 422, "invalid-config", "keeps for itself");
        }
    }
    let kept = http.get(OF_GROUPS);
    assert_eq!(config(&kept, "cleanup.policy").0, "compact");
    assert_eq!(config(&kept, "segment.bytes").0, "16777216");
    let changed = http.patch(OF_GROUPS, r#"{"segment.bytes":"209715200"}"#);
    assert_eq!(config(&changed, "segment.bytes").0, "209715200");
}

#[test]
fn nodes_have_configs_of_their_own_and_together() {
    let (_node, http) = start();
    let set = |scope: &str, value: Value| {
        let body = json!({ "log.retention.ms": value }).to_string();
        http.patch(&format!("{OF_NODES}{scope}"), body)
    };
    let named = "log.retention.ms";
    assert_eq!(config(&http.get(OF_NODES), named), pair("40000", "start"));
    assert_eq!(config(&set("", json!("30000")), named), pair("30000", "cluster"));
    // The node's own value hides it.
    assert_eq!(
        config(&set("?scope=node", json!("20000")), named),
        pair("20000", "node")
    );
    assert_eq!(
        config(&set("?scope=cluster", json!("35000")), named),
        pair("20000", "node")
    );
    assert_eq!(config(&http.get(OF_TOPIC), "retention.ms"), pair("20000", "node"));
    let rehearsed = set("?scope=node&dry_run=true", Value::Null);
    assert_eq!(config(&rehearsed, named), pair("20000", "node"));
    assert_eq!(
        config(&set("?scope=node", Value::Null), named),
        pair("35000", "cluster")
    );
    assert_eq!(config(&set("", Value::Null), named), pair("40000", "start"));

    let all = http.get(OF_NODES);
    assert_eq!(entry(&all, named)["read_only"], false);
    let fixed = entry(&all, "cores");
    assert_eq!(
        (&fixed["read_only"], &fixed["value"]),
        (&true.into(), &"2".into())
    );
    assert_eq!(fixed["source"], "start");
    assert!(
        fixed["documentation"]
            .as_str()
            .is_some_and(|text| !text.is_empty())
    );
}

#[test]
fn what_cannot_be_set_changes_nothing() {
    let (_node, http) = start();
    let before = http.get(OF_TOPIC).json();
    for (path, body, word) in [
        (OF_TOPIC, r#"{"retention.millis":"1"}"#, "retention.millis"),
        (OF_TOPIC, r#"{"retention.ms":"soon"}"#, "retention.ms"),
        (
            OF_TOPIC,
            r#"{"retention.ms":"1","retention.millis":null}"#,
            "retention.millis",
        ),
        (
            OF_TOPIC,
            r#"{"retention.ms":"1","segment.bytes":"-5"}"#,
            "segment.bytes",
        ),
        (OF_TOPIC, r#"{"retention.ms":"1","retention.ms":"2"}"#, "twice"),
        (
            OF_TOPIC,
            r#"{"file.delete.delay.ms":"-1"}"#,
            "file.delete.delay.ms",
        ),
        (OF_NODES, r#"{"cores":"4"}"#, "while the node runs"),
        (OF_NODES, r#"{"log.retention.years":"1"}"#, "log.retention.years"),
        (
            "/v1/configs?scope=node",
            r#"{"log.segment.bytes":"x"}"#,
            "log.segment.bytes",
        ),
    ] {
        let query = if path.contains('?') { "&" } else { "?" };
        for path in [path.to_owned(), format!("{path}{query}dry_run=true")] {
            expect(&http.patch(&path, body), 422, "invalid-config", word);
        }
    }
    let answer = http.patch(OF_TOPIC, r#"{"retention.ms":"soon"}"#);
    assert_eq!(answer.json()["topic"], "t");
    assert_eq!(http.get(OF_TOPIC).json(), before);
}

#[test]
fn bodies_that_are_no_change() {
    let (_node, http) = start();
    for (body, word) in [
        ("", "the JSON ends too early"),
        ("{", "the JSON ends too early"),
        ("[]", "an object"),
        ("{}", "no entry"),
        (r#"{"retention.ms":1}"#, "text is expected"),
        (r#"{"retention.ms":{}}"#, "text is expected"),
        (r#"{"retention.ms":"1"}x"#, "trailing"),
    ] {
        for path in [OF_TOPIC, OF_NODES] {
            let answer = http.patch(path, body);
            expect(&answer, 400, "malformed-body", word);
            assert!(answer.json()["line"].is_u64());
        }
    }
    let many: serde_json::Map<String, Value> =
        (0..257).map(|index| (format!("c{index}"), Value::Null)).collect();
    let many = Value::from(many).to_string();
    expect(&http.patch(OF_TOPIC, many), 400, "malformed-body", "256 entries");
    let large = format!("{{\"retention.ms\":\"{}\"}}", "1".repeat(64 << 10));
    let answer = http.patch(OF_TOPIC, large);
    expect(&answer, 413, "body-too-large", "65536");
    for path in [OF_TOPIC, OF_NODES] {
        let answer = http.send("PATCH", path, &[("content-type", "text/plain")], b"{}");
        expect(&answer, 415, "unsupported-media-type", "application/json");
    }
}

#[test]
fn queries_and_topics_that_are_not_there() {
    let (_node, http) = start();
    let body = r#"{"retention.ms":"1"}"#;
    expect(
        &http.patch("/v1/topics/u/configs", body),
        404,
        "unknown-topic",
        "\"u\"",
    );
    for (path, parameter) in [
        ("/v1/configs?scope=nodes", "scope"),
        ("/v1/configs?dry_run=yes", "dry_run"),
        ("/v1/configs?dryrun=true", "dryrun"),
        ("/v1/topics/t/configs?scope=node", "scope"),
        ("/v1/topics/t/configs?dry_run", "dry_run"),
    ] {
        let answer = http.patch(path, body);
        expect(&answer, 400, "malformed-query", parameter);
        assert_eq!(answer.json()["parameter"], parameter);
    }
    expect(
        &http.get("/v1/configs?scope=node"),
        400,
        "malformed-query",
        "scope",
    );
    assert_ne!(config(&http.get(OF_TOPIC), "retention.ms").0, "1");
}

#[test]
fn a_group_has_configs_whether_it_is_there_or_not() {
    let (_node, http) = start();
    let of_group = "/v1/groups/readers/configs";
    let session = "consumer.session.timeout.ms";
    assert_eq!(config(&http.get(of_group), session), pair("45000", "default"));
    let changed = http.patch(of_group, json!({ session: "60000" }).to_string());
    assert_eq!(config(&changed, session), pair("60000", "group"));
    let refused = http.patch(of_group, json!({ session: "5" }).to_string());
    expect(&refused, 422, "invalid-config", session);
    assert_eq!(refused.json()["group"], "readers");
    let given_up = http.patch(of_group, json!({ session: null }).to_string());
    assert_eq!(config(&given_up, session), pair("45000", "default"));
}
