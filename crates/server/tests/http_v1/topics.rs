//! Topics over HTTP are the topics of Kafka's clients.

use serde_json::{Value, json};

use crate::client::Http;
use crate::refusals::expect;
use crate::support::{TestNode, batch, eventually, now_ms};

#[test]
fn a_topic_lives_and_dies() {
    let node = TestNode::start();
    let http = Http::of(&node);
    let body = json!({ "name": "t", "partitions": 3, "configs": { "retention.ms": "1000000", "ropewalk.durability": "memory" } });
    let answer = http.post("/v1/topics", "application/json", body.to_string());
    assert_eq!(
        (answer.status, answer.header("location")),
        (201, Some("/v1/topics/t"))
    );
    let created = answer.json();
    assert_eq!(created["durability"], "memory");
    assert_eq!(created["partitions"].as_array().map(Vec::len), Some(3));
    node.connect()
        .produce("t", 1, batch(&[(now_ms(), "a"), (now_ms(), "b")]));

    let described = http.get("/v1/topics/t").json();
    assert_eq!(described["id"], created["id"]);
    let partition = &described["partitions"][1];
    assert_eq!(
        (&partition["first_offset"], &partition["tail"]),
        (&0.into(), &2.into())
    );
    assert_eq!(partition["leader"], 1);

    let configs = http.get("/v1/topics/t/configs").json();
    let config = |name: &str| -> Value {
        let all = configs["configs"].as_array().expect("configs");
        all.iter()
            .find(|config| config["name"] == name)
            .cloned()
            .expect("it is known")
    };
    assert_eq!(config("retention.ms")["value"], "1000000");
    assert_eq!(config("retention.ms")["source"], "topic");
    assert_eq!(config("cleanup.policy")["source"], "default");

    let answer = http.delete("/v1/topics/t");
    assert_eq!((answer.status, answer.body.len()), (204, 0));
    assert_eq!(http.get("/v1/topics/t").kind(), "unknown-topic");
    assert_eq!(http.delete("/v1/topics/t").kind(), "unknown-topic");
    assert_eq!(http.get("/v1/topics/t/configs").kind(), "unknown-topic");
}

#[test]
fn a_topic_grows_and_never_shrinks() {
    let node = TestNode::start();
    let http = Http::of(&node);
    http.create("t", 2);
    node.connect().produce("t", 1, batch(&[(now_ms(), "a")]));
    let grow = |name: &str, body: Value| http.patch(&format!("/v1/topics/{name}"), body.to_string());
    let grown = grow("t", json!({ "partitions": 5 }));
    assert_eq!(grown.status, 200);
    let partitions = &grown.json()["partitions"];
    assert_eq!(partitions.as_array().map(Vec::len), Some(5));
    assert_eq!(
        (&partitions[1]["tail"], &partitions[4]["tail"]),
        (&1.into(), &0.into())
    );
    node.connect().produce("t", 4, batch(&[(now_ms(), "b")]));
    for count in [5, 4, 0, -1, 1_000_000] {
        assert_eq!(
            grow("t", json!({ "partitions": count })).kind(),
            "invalid-topic",
            "{count}"
        );
    }
    assert_eq!(grow("u", json!({ "partitions": 5 })).kind(), "unknown-topic");
    for body in [
        json!({}),
        json!({ "partitions": "6" }),
        json!({ "partitions": 6, "name": "u" }),
    ] {
        assert_eq!(grow("t", body.clone()).kind(), "malformed-body", "{body}");
    }
    assert_eq!(
        http.get("/v1/topics/t").json()["partitions"]
            .as_array()
            .map(Vec::len),
        Some(5)
    );
}

#[test]
fn counts_that_are_left_out_are_the_nodes() {
    let node = TestNode::start_with(&[("topics.default_partitions", "5")]);
    let http = Http::of(&node);
    let answer = http.post("/v1/topics", "application/json", r#"{"name":"t"}"#);
    assert_eq!(answer.json()["partitions"].as_array().map(Vec::len), Some(5));
}

#[test]
fn the_list_goes_by_name_some_at_a_time() {
    let node = TestNode::start();
    let http = Http::of(&node);
    assert_eq!(
        http.get("/v1/topics").json(),
        json!({ "topics": [], "next": null })
    );
    for name in ["c", "a", "d", "b"] {
        http.create(name, 2);
    }
    let names = |list: &Value| -> Vec<String> {
        let topics = list["topics"].as_array().expect("topics");
        topics
            .iter()
            .map(|topic| topic["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    let all = http.get("/v1/topics").json();
    assert_eq!(
        (names(&all), &all["next"]),
        (["a", "b", "c", "d"].map(str::to_owned).to_vec(), &Value::Null)
    );
    assert_eq!(all["topics"][0]["partitions"], 2);
    let first = http.get("/v1/topics?limit=3").json();
    assert_eq!((names(&first).len(), &first["next"]), (3, &"c".into()));
    let rest = http.get("/v1/topics?limit=3&after=c").json();
    assert_eq!(
        (names(&rest), &rest["next"]),
        (vec!["d".to_owned()], &Value::Null)
    );
}

#[test]
fn what_no_topic_can_be_is_refused_with_the_reason() {
    let node = TestNode::start();
    let http = Http::of(&node);
    http.create("taken", 1);
    http.create("a.b", 1);
    for (body, status, kind, word) in [
        (r#"{"name":"taken"}"#, 409, "topic-exists", "taken"),
        (r#"{"name":"a_b"}"#, 422, "invalid-topic", "a.b"),
        (r#"{"name":""}"#, 422, "invalid-topic", "name"),
        (r#"{"name":".."}"#, 422, "invalid-topic", ".."),
        (r#"{"name":"a/b"}"#, 422, "invalid-topic", "'/'"),
        (r#"{"name":"é"}"#, 422, "invalid-topic", "ASCII"),
        (
            r#"{"name":"__cluster_metadata"}"#,
            422,
            "invalid-topic",
            "reserved",
        ),
        (
            r#"{"name":"t","partitions":0}"#,
            422,
            "invalid-topic",
            "partitions",
        ),
        (
            r#"{"name":"t","partitions":-1}"#,
            422,
            "invalid-topic",
            "partitions",
        ),
        (
            r#"{"name":"t","partitions":1000000}"#,
            422,
            "invalid-topic",
            "partitions",
        ),
        (
            r#"{"name":"t","replicas":3}"#,
            422,
            "invalid-topic",
            "replication factor",
        ),
        (
            r#"{"name":"t","configs":{"no.such":"1"}}"#,
            422,
            "invalid-topic",
            "no.such",
        ),
        (
            r#"{"name":"t","configs":{"retention.ms":"x"}}"#,
            422,
            "invalid-topic",
            "retention.ms",
        ),
        (
            r#"{"name":"t","configs":{"cleanup.policy":"compact","cleanup.policy":"delete"}}"#,
            422,
            "invalid-topic",
            "cleanup.policy twice",
        ),
        (
            r#"{"name":"t","configs":{"retention.ms":1}}"#,
            400,
            "malformed-body",
            "text is expected",
        ),
        (
            r#"{"name":"t","partitons":1}"#,
            400,
            "malformed-body",
            "partitons",
        ),
        (r#"{"partitions":1}"#, 400, "malformed-body", "name"),
        ("", 400, "malformed-body", "the JSON ends too early"),
    ] {
        let answer = http.post("/v1/topics", "application/json", body);
        assert_eq!(
            (answer.status, answer.kind().as_str()),
            (status, kind),
            "{body}: {}",
            answer.text()
        );
        let detail = answer.json()["detail"].as_str().expect("a sentence").to_owned();
        assert!(detail.contains(word), "{body}: {detail}");
    }
    assert_eq!(
        http.get("/v1/topics").json()["topics"].as_array().map(Vec::len),
        Some(2)
    );
}

#[test]
fn the_status_says_what_there_is() {
    let node = TestNode::start();
    let http = Http::of(&node);
    http.create("t", 3);
    let mut status = Value::Null;
    eventually("the disk is looked at", || {
        status = http.get("/v1/status").json();
        status["disk"]["free_bytes"].is_u64()
    });
    assert_eq!((&status["topics"], &status["partitions"]), (&1.into(), &3.into()));
    assert_eq!((&status["node"], &status["cores"]), (&1.into(), &2.into()));
    assert_eq!((&status["ready"], &status["reasons"]), (&true.into(), &json!([])));
    assert_eq!(status["cluster"].as_str().map(str::len), Some(32));
}

#[test]
fn topics_and_configs_beyond_an_addresss_share_of_memory_are_refused() {
    const CONFIG: &str = "limits.metadata_bytes_per_core";
    let node = TestNode::start_with(&[(CONFIG, "1MiB")]);
    let http = Http::of(&node);
    let create = |name: &str, partitions: usize| {
        let body = json!({ "name": name, "partitions": partitions });
        http.post("/v1/topics", "application/json", body.to_string())
    };
    assert_eq!(create("wide", 7_000).status, 201);
    expect(&create("another", 1_000), 422, "invalid-topic", CONFIG);
    let grown = http.patch("/v1/topics/wide", json!({ "partitions": 8_000 }).to_string());
    expect(&grown, 422, "invalid-topic", CONFIG);
    let lists = ["leader", "follower"].map(|of| format!("{of}.replication.throttled.replicas"));
    let list = "0:1,".repeat(8_000) + "0:1";
    let body = json!({ &lists[0]: &list, &lists[1]: &list }).to_string();
    let configured = http.patch("/v1/topics/wide/configs", body);
    expect(&configured, 422, "invalid-config", CONFIG);
    assert_eq!(http.delete("/v1/topics/wide").status, 204);
    assert_eq!(create("another", 1_000).status, 201);
}
