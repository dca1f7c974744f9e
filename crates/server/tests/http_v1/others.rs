//! Three nodes: each answers what only another can, as if it were that one.

use std::net::{TcpListener, TcpStream};

use record::{BatchBuilder, Compression};
use serde_json::{Value, json};

use crate::client::{Answer, Http};
use crate::refusals::expect;
use crate::support::{TestNode, eventually};

const RECORDS: &str = "/v1/topics/orders/partitions";

/// Three nodes; a topic of six partitions of one replica, two for each node.
fn three() -> ([TestNode; 3], [Http; 3]) {
    let (nodes, https) = three_with(&[]);
    for http in &https {
        eventually("every node knows the topic and what the others tell", || {
            let found = http.get("/v1/topics/orders");
            found.status == 200 && tails(&found.json()).iter().all(|tail| *tail == json!(0))
        });
    }
    (nodes, https)
}

/// The same, the third with these settings as well.
fn three_with(settings: &[(&str, &str)]) -> ([TestNode; 3], [Http; 3]) {
    let own = [
        ("peer.listen", "127.0.0.1:0"),
        ("cluster.default_replicas", "1"),
        ("groups.lag_check_interval", "10ms"),
    ];
    let first = TestNode::start_with(&own);
    let peers = first.peer_address().to_string();
    let join = [("cluster.join", peers.as_str())];
    let second = TestNode::start_with(&[&own[..], &join].concat());
    let third = TestNode::start_with(&[&own[..], &join, settings].concat());
    let nodes = [first, second, third];
    let https = nodes.each_ref().map(Http::of);
    https[0].create("orders", 6);
    (nodes, https)
}

/// Appends so many records by their keys; gives the number of partitions that they went to.
fn append_by_keys(http: &Http, topic: &str, count: i64) -> usize {
    let lines: String = (0..count)
        .map(|key| format!("{{\"key\":\"{key}\",\"value\":\"v\"}}\n"))
        .collect();
    let path = format!("/v1/topics/{topic}/records");
    let appended = ok(&http.post(&path, "application/x-ndjson", lines));
    let appended = appended["appended"].as_array().expect("a list");
    let counts = appended
        .iter()
        .map(|one| one["count"].as_i64().expect("a number"));
    assert_eq!(counts.sum::<i64>(), count);
    appended.len()
}

fn of_partitions(topic: &Value, member: &str) -> Vec<Value> {
    let partitions = topic["partitions"].as_array().expect("a list");
    partitions
        .iter()
        .map(|partition| partition[member].clone())
        .collect()
}

fn tails(topic: &Value) -> Vec<Value> {
    of_partitions(topic, "tail")
}

fn ok(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[test]
fn any_node_appends_to_reads_and_trims_any_partition() {
    let (_nodes, https) = three();
    let leaders = of_partitions(&ok(&https[1].get("/v1/topics/orders")), "leader");
    assert_eq!(leaders, [1, 2, 3, 1, 2, 3].map(Value::from));
    for (at, http) in https.iter().enumerate() {
        for partition in 0..3 {
            let path = format!("{RECORDS}/{partition}/records");
            let appended = ok(&http.post(&path, "text/plain", format!("node {at}\nagain\n")));
            assert_eq!(
                appended,
                json!({ "partition": partition, "first_offset": 2 * at, "count": 2 })
            );
        }
    }
    for http in &https {
        for partition in 0..3 {
            let read = http.get(&format!("{RECORDS}/{partition}/records?offset=4"));
            assert_eq!(read.header("ropewalk-tail"), Some("6"));
            let values = read.json()["records"].as_array().expect("a list").clone();
            assert_eq!(values[0]["value"], "node 2");
            let missing = http.get(&format!("{RECORDS}/{partition}/records?offset=7"));
            assert_eq!(
                (missing.status, missing.kind().as_str()),
                (416, "offset-out-of-range")
            );
        }
        assert_eq!(
            tails(&ok(&http.get("/v1/topics/orders"))),
            [6, 6, 6, 0, 0, 0].map(Value::from)
        );
    }
    let trimmed = ok(&https[0].delete(&format!("{RECORDS}/2/records?before=5")));
    assert_eq!(trimmed, json!({ "partition": 2, "first_offset": 5 }));
    let firsts = of_partitions(&ok(&https[1].get("/v1/topics/orders")), "first_offset");
    assert_eq!(firsts[2], 5);
}

#[test]
fn records_go_where_their_keys_lead_on_whatever_node_that_is() {
    let (_nodes, https) = three();
    assert_eq!(
        append_by_keys(&https[1], "orders", 60),
        6,
        "sixty keys lead to six partitions"
    );
    let told = ok(&https[2].get("/v1/topics/orders"));
    assert_eq!(tails(&told).iter().filter_map(Value::as_i64).sum::<i64>(), 60);
    // What a batch cannot be is refused by its leader, and told by the node that was asked.
    let configs = json!({ "cleanup.policy": "compact" }).to_string();
    let compacted = https[0].patch("/v1/topics/orders/configs", configs);
    assert_eq!(compacted.status, 200, "{}", compacted.text());
    eventually("the leader has heard of that", || {
        let refused = https[1].post("/v1/topics/orders/records", "text/plain", "no key");
        refused.status == 422 && refused.kind() == "invalid-record"
    });
}

#[test]
fn a_partition_of_another_node_is_followed() {
    let (_nodes, https) = three();
    let path = format!("{RECORDS}/1/records");
    let mut events = https[2].follow(&format!("{path}?offset=earliest"), &[]);
    for value in ["first", "second"] {
        ok(&https[0].post(&path, "text/plain", value));
        let event = events.next().expect("it goes on");
        assert_eq!(event.data["value"], value);
    }
}

#[test]
fn groups_are_at_every_node() {
    let (_nodes, https) = three();
    for partition in 0..6 {
        ok(&https[0].post(
            &format!("{RECORDS}/{partition}/records"),
            "text/plain",
            "one\ntwo",
        ));
    }
    let names: Vec<String> = (0..12).map(|number| format!("group-{number:02}")).collect();
    for (number, name) in names.iter().enumerate() {
        let entries: Vec<Value> = (0..6)
            .map(|partition| json!({ "topic": "orders", "partition": partition, "offset": 1 }))
            .collect();
        let path = format!("/v1/groups/{name}/offsets");
        eventually("the coordinators are there", || {
            let set = https[number % 3].patch(&path, json!(entries).to_string());
            assert!([200, 503].contains(&set.status), "{}", set.text());
            set.status == 200
        });
    }
    for http in &https {
        let listed = ok(&http.get("/v1/groups"));
        assert_eq!(listed["missing_nodes"], json!([]));
        let found: Vec<&str> = listed["groups"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|group| group["name"].as_str())
            .collect();
        assert_eq!(found, names);
        let described = ok(&http.get("/v1/groups/group-03"));
        let lags = described["offsets"].as_array().expect("a list").iter();
        assert_eq!(
            lags.map(|told| told["lag"].clone()).collect::<Vec<_>>(),
            vec![json!(1); 6]
        );
    }
    // Pages miss none, wherever their groups are.
    let (mut told, mut next) = (Vec::new(), Some(String::new()));
    while let Some(after) = next {
        let page = ok(&https[1].get(&format!("/v1/groups?limit=5&after={after}")));
        let groups = page["groups"].as_array().expect("a list");
        told.extend(
            groups
                .iter()
                .map(|group| group["name"].as_str().expect("a name").to_owned()),
        );
        next = page["next"].as_str().map(str::to_owned);
    }
    assert_eq!(told, names);
    // By place and by time, whoever leads the partitions.
    let entries: Vec<Value> = (0..6)
        .map(|partition| match partition % 3 {
            0 => json!({ "topic": "orders", "partition": partition, "offset": "latest" }),
            1 => json!({ "topic": "orders", "partition": partition, "offset": "earliest" }),
            _ => json!({ "topic": "orders", "partition": partition, "timestamp_ms": 1 }),
        })
        .collect();
    for (name, http) in names.iter().zip(&https) {
        let set = ok(&http.patch(&format!("/v1/groups/{name}/offsets"), json!(entries).to_string()));
        let offsets = set["offsets"].as_array().expect("a list").iter();
        let offsets: Vec<Value> = offsets.map(|set| set["offset"].clone()).collect();
        assert_eq!(offsets, [2, 0, 0, 2, 0, 0].map(Value::from));
    }
    let beyond = json!([{ "topic": "orders", "partition": 1, "offset": 3 }]).to_string();
    let refused = https[0].patch("/v1/groups/group-00/offsets", beyond);
    assert_eq!((refused.status, refused.json()["entry"].clone()), (416, json!(0)));
    for (name, http) in names.iter().zip(https.iter().cycle()) {
        let forgotten = ok(&http.delete(&format!("/v1/groups/{name}/offsets?topic=orders")));
        assert_eq!(forgotten["forgotten"].as_array().expect("a list").len(), 6);
        assert!([204, 404].contains(&http.delete(&format!("/v1/groups/{name}")).status));
    }
    assert_eq!(ok(&https[2].get("/v1/groups"))["groups"], json!([]));
}

#[test]
fn a_request_is_handed_on_once() {
    let (_nodes, https) = three();
    // Another node would have said so by mistake: it is not asked in turn.
    let path = format!("{RECORDS}/1/records");
    let refused = https[0].send("GET", &path, &[("ropewalk-handed-on", "3")], b"");
    expect(&refused, 503, "unavailable", "does not lead");
    let batch = [
        ("ropewalk-handed-on", "3"),
        ("content-type", "application/vnd.ropewalk.batch"),
    ];
    let malformed = https[1].send("POST", &path, &batch, b"no batch");
    expect(&malformed, 400, "malformed-body", "batch");
    let mut of_producer = BatchBuilder::new(Compression::None).with_producer(7, 0, 0);
    of_producer.append(1, None, Some(b"value"), &[]);
    let refused = https[1].send("POST", &path, &batch, &of_producer.build());
    expect(&refused, 400, "malformed-body", "producer");
    // The node that asks knows of a topic that this one may hear of yet.
    let unheard = https[1].send(
        "GET",
        "/v1/topics/new/partitions/0/records",
        &[("ropewalk-handed-on", "3")],
        b"",
    );
    expect(&unheard, 503, "unavailable", "has not heard");
}

#[test]
fn a_node_that_is_away_is_named() {
    let (mut nodes, https) = three();
    let last = std::mem::replace(&mut nodes[2], TestNode::start());
    drop(last);
    eventually("its absence is seen", || {
        let refused = https[0].get(&format!("{RECORDS}/2/records"));
        refused.status == 503 && refused.json()["node"] == 3
    });
    assert_eq!(ok(&https[1].get("/v1/groups"))["missing_nodes"], json!([3]));
    let told = ok(&https[1].get("/v1/topics/orders"));
    assert_eq!(
        tails(&told),
        [json!(0), json!(0), Value::Null, json!(0), json!(0), Value::Null]
    );
}

#[test]
fn a_batch_is_taken_from_nodes_alone() {
    let (_nodes, https) = three();
    let path = format!("{RECORDS}/1/records");
    for http in &https {
        let refused = http.post(&path, "application/vnd.ropewalk.batch", "no batch");
        expect(&refused, 415, "unsupported-media-type", "application/json");
    }
}

#[test]
fn a_follower_is_told_when_the_node_that_it_asked_stops() {
    let (nodes, https) = three();
    let path = format!("{RECORDS}/1/records");
    let mut events = https[2].follow(&format!("{path}?offset=earliest"), &[]);
    ok(&https[0].post(&path, "text/plain", "first"));
    assert_eq!(events.next().expect("it is passed on").data["value"], "first");
    let [_first, second, mut third] = nodes;
    let stopping = std::thread::spawn(move || third.stop());
    let end = events.next().expect("why it ends");
    assert_eq!(
        (end.name.as_deref(), &end.data),
        (Some("end"), &json!({ "reason": "stopping" }))
    );
    assert!(events.next().is_none(), "that was the end");
    stopping.join().expect("it stops");
    drop(second);
}

#[test]
fn one_request_goes_to_hundreds_of_partitions_of_other_nodes() {
    let (_nodes, https) = three();
    https[0].create("wide", 300);
    eventually("all know the topic", || {
        https.iter().all(|http| {
            let found = http.get("/v1/topics/wide");
            found.status == 200 && tails(&found.json()).iter().all(|tail| *tail == json!(0))
        })
    });
    let partitions = append_by_keys(&https[1], "wide", 3_000);
    assert!(partitions > 250, "{partitions} partitions");
}

#[test]
fn a_node_that_says_nothing_holds_up_no_other() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let silent_at = silent.local_addr().expect("it is bound").to_string();
    // It takes every connection, and reads nothing.
    std::thread::spawn(move || silent.incoming().collect::<Vec<_>>());
    let (_nodes, https) = three_with(&[("http.advertised", &silent_at)]);
    let append = || https[0].post(&format!("{RECORDS}/1/records"), "text/plain", "one");
    eventually("another node is asked", || append().status == 200);
    // Partitions that it leads are asked for until no more is handed on to it.
    let read = format!("GET {RECORDS}/2/records HTTP/1.1\r\nhost: node\r\n\r\n");
    let mut waiting: Vec<TcpStream> = Vec::new();
    eventually("as much as may be is handed on", || {
        let stream = https[0].open(read.as_bytes());
        stream.set_nonblocking(true).expect("a socket");
        waiting.push(stream);
        waiting
            .iter()
            .any(|stream| is_told(stream, "handed on to node 3, which is the most"))
    });
    // Others are asked as before.
    assert_eq!(ok(&append())["first_offset"], 1);
    // It is left out of what all tell.
    let told = tails(&ok(&https[0].get("/v1/topics/orders")));
    assert_eq!(
        told,
        [json!(0), json!(2), Value::Null, json!(0), json!(0), Value::Null]
    );
    assert_eq!(ok(&https[0].get("/v1/groups"))["missing_nodes"], json!([3]));
}

/// Says whether an answer with these words has come.
fn is_told(stream: &TcpStream, words: &str) -> bool {
    let mut answer = [0; 4_096];
    let read = stream.peek(&mut answer).unwrap_or(0);
    String::from_utf8_lossy(&answer[..read]).contains(words)
}
