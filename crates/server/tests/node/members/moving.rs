//! Replicas that move: a topic of one node comes to be held by three, a node is drained and removed, and what was given up comes back.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};

use super::{
    append_at_leader, created, founder, joined_in_reach, leaders, told_cluster, values_at_leader, voters,
};
use crate::support::groups::{commit_request, patiently};
use crate::support::{TestNode, Wire, batch, eventually, now_ms};

/// A node's answer to a request over HTTP: the status, and the body as JSON.
pub(super) fn ask(node: &TestNode, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(node.http_address()).expect("it listens");
    stream
        .write_all(format!("{head}{body}").as_bytes())
        .expect("it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (
        status.expect("a status"),
        serde_json::from_str(body).unwrap_or(Value::Null),
    )
}

pub(super) fn set_replicas(node: &TestNode, topic: &str, count: i32) -> (u16, Value) {
    let path = format!("/v1/topics/{topic}/replicas");
    ask(node, "PUT", &path, &json!({ "replicas": count }))
}

/// The replicas of each partition of a topic, sorted; none while nodes join, or where the node does not know the topic.
fn replicas(node: &TestNode, topic: &str) -> Vec<Vec<i64>> {
    let (status, described) = ask(node, "GET", &format!("/v1/topics/{topic}"), &Value::Null);
    let partitions = described["partitions"].as_array().filter(|_| status == 200);
    let sets = partitions.into_iter().flatten().map(|partition| {
        let ids = |field: &str| {
            let ids = partition[field].as_array().into_iter().flatten();
            ids.filter_map(Value::as_i64).collect::<Vec<_>>()
        };
        let mut set = ids("replicas");
        set.sort_unstable();
        ids("joining").is_empty().then_some(set)
    });
    sets.collect::<Option<_>>().unwrap_or_default()
}

/// Waits until a topic has these replicas, and nothing is left to be done.
fn until_held(node: &TestNode, topic: &str, sets: &[&[i64]]) {
    eventually("the topic has its replicas", || replicas(node, topic) == sets);
    eventually("they are settled", || {
        told_cluster(node)["changing_replicas"] == 0
    });
}

fn held_by(node: &TestNode, id: i64) -> Value {
    let cluster = told_cluster(node);
    let nodes = cluster["nodes"].as_array().expect("a list");
    let found = nodes.iter().find(|node| node["node"] == id);
    found.map_or(Value::Null, |node| node["replicas"].clone())
}

fn wires<const COUNT: usize>(nodes: [(i32, &TestNode); COUNT]) -> BTreeMap<i32, Wire> {
    nodes.map(|(id, node)| (id, node.connect())).into()
}

/// Records of before, meanwhile and after are there without the node that had them first.
#[test]
fn a_topic_of_one_node_comes_to_be_held_by_three_while_appends_go_on() {
    let lone = TestNode::start_with(&[]);
    let mut wire = lone.connect();
    assert_eq!(created(&mut wire, "orders", 2), 0);
    let mut expected = Vec::new();
    for number in 0..50 {
        let value = format!("before {number}");
        assert_eq!(
            wire.produce("orders", 0, batch(&[(now_ms(), &value)])).error_code,
            0
        );
        expected.push(value);
    }
    let founder = lone.restart_with(&[("peer.listen", "127.0.0.1:0")], |_| ());
    let peers = founder.peer_address().to_string();
    let (second, third) = (joined_in_reach(&peers), joined_in_reach(&peers));
    eventually("all three have a vote", || {
        voters(&mut second.connect()) == [1, 2, 3]
    });
    let is_done = AtomicBool::new(false);
    let mut wires = wires([(1, &founder), (2, &second), (3, &third)]);
    let meanwhile = thread::scope(|scope| {
        let appending = scope.spawn(|| {
            let mut acknowledged = Vec::new();
            while !is_done.load(Ordering::Relaxed) {
                let value = format!("meanwhile {}", acknowledged.len());
                append_at_leader(&mut wires, 0, &value);
                acknowledged.push(value);
            }
            (wires, acknowledged)
        });
        let (status, told) = set_replicas(&second, "orders", 3);
        assert_eq!(status, 200, "{told}");
        until_held(&third, "orders", &[&[1, 2, 3], &[1, 2, 3]]);
        is_done.store(true, Ordering::Relaxed);
        appending.join().expect("it appends")
    });
    let (mut wires, acknowledged) = meanwhile;
    expected.extend(acknowledged);
    append_at_leader(&mut wires, 0, "after");
    expected.push("after".to_owned());
    wires.remove(&1);
    drop(founder);
    // A producer that tries again may have written a record twice.
    let mut found = values_at_leader(&mut wires, 0);
    found.dedup();
    assert_eq!(found, expected);
    append_at_leader(&mut wires, 1, "without the first");
    drop((second, third));
}

#[test]
fn a_node_is_drained_removed_and_missed_by_nobody() {
    let (founder, peers) = founder();
    let nodes = [joined_in_reach(&peers), joined_in_reach(&peers)];
    eventually("all three have a vote", || {
        voters(&mut nodes[0].connect()) == [1, 2, 3]
    });
    let mut wire = founder.connect();
    assert_eq!(created(&mut wire, "orders", 3), 0);
    let mut wires = wires([(1, &founder), (2, &nodes[0]), (3, &nodes[1])]);
    for index in 0..3 {
        append_at_leader(&mut wires, index, "kept");
    }
    let [second, third] = nodes;
    let refused = ask(&founder, "DELETE", "/v1/cluster/nodes/3", &Value::Null);
    assert_eq!((refused.0, &refused.1["node"]), (409, &json!(3)), "it is running");
    let fourth = joined_in_reach(&peers);
    let drain = "/v1/cluster/nodes/3/drain";
    let (status, told) = ask(&second, "PUT", drain, &json!({ "to": 4 }));
    assert_eq!(status, 200, "{told}");
    for index in 0..3 {
        append_at_leader(&mut wires, index, "meanwhile");
    }
    until_held(&founder, "orders", &[&[1, 2, 4], &[1, 2, 4], &[1, 2, 4]]);
    eventually("it holds nothing", || held_by(&third, 3) == 0);
    wires.remove(&3);
    drop(third);
    eventually("it is removed", || {
        ask(&second, "DELETE", "/v1/cluster/nodes/3", &Value::Null).0 == 204
    });
    eventually("all know that", || held_by(&fourth, 3).is_null());
    let again = ask(&second, "DELETE", "/v1/cluster/nodes/3", &Value::Null);
    assert_eq!(again.0, 404, "{}", again.1);
    eventually("the fourth has its vote", || voters(&mut wire) == [1, 2, 4]);
    wires.insert(4, fourth.connect());
    wires.remove(&1);
    drop(founder);
    for index in 0..3 {
        append_at_leader(&mut wires, index, "after");
        let mut found = values_at_leader(&mut wires, index);
        found.dedup();
        assert_eq!(found, ["kept", "meanwhile", "after"]);
    }
}

/// A partition that a node has given up is gone from it, and is filled anew when the node is a replica again.
#[test]
fn a_replica_that_was_given_up_comes_back() {
    let (founder, peers) = founder();
    let (second, third) = (joined_in_reach(&peers), joined_in_reach(&peers));
    eventually("all three have a vote", || {
        voters(&mut second.connect()) == [1, 2, 3]
    });
    let mut wire = founder.connect();
    assert_eq!(created(&mut wire, "orders", 1), 0);
    let mut wires = wires([(1, &founder), (2, &second), (3, &third)]);
    let mut expected = Vec::new();
    for round in 0..2 {
        append_at_leader(&mut wires, 0, &format!("three {round}"));
        assert_eq!(set_replicas(&founder, "orders", 1).0, 200);
        until_held(&founder, "orders", &[&[1]]);
        append_at_leader(&mut wires, 0, &format!("one {round}"));
        expected.extend([format!("three {round}"), format!("one {round}")]);
        eventually("it can be changed again", || {
            set_replicas(&founder, "orders", 3).0 == 200
        });
        until_held(&founder, "orders", &[&[1, 2, 3]]);
    }
    wires.remove(&1);
    drop(founder);
    let mut found = values_at_leader(&mut wires, 0);
    found.dedup();
    assert_eq!(found, expected);
}

/// The groups of a node that was alone are on three nodes once there are so many, though nobody asks for it.
#[test]
fn groups_of_a_node_that_was_alone_survive_its_loss() {
    let lone = TestNode::start_with(&[]);
    let mut wire = lone.connect();
    assert_eq!(created(&mut wire, "orders", 1), 0);
    let topic = super::metadata(&mut wire).topics.remove(0).topic_id;
    for offset in 1..=20 {
        let commit = commit_request(("readers", "", -1), ("orders", topic), &[(0, offset)]);
        patiently(
            || wire.call(8, &commit),
            |answer| answer.topics[0].partitions[0].error_code,
        );
    }
    let founder = lone.restart_with(&[("peer.listen", "127.0.0.1:0")], |_| ());
    let peers = founder.peer_address().to_string();
    let (second, third) = (joined_in_reach(&peers), joined_in_reach(&peers));
    until_held(&third, "__consumer_offsets", &[&[1, 2, 3], &[1, 2, 3]]);
    let mut wires = wires([(2, &second), (3, &third)]);
    drop(founder);
    assert_eq!(super::groups::committed_at_coordinator(&mut wires), 20);
}

#[test]
fn changes_of_nodes_and_replicas_that_cannot_be_are_told() {
    let (founder, peers) = founder();
    let second = joined_in_reach(&peers);
    let mut wire = founder.connect();
    assert_eq!(created(&mut wire, "orders", 1), 0);
    eventually("the other hears of the topic", || {
        leaders(&mut second.connect(), "orders").len() == 1
    });
    for (count, status, told) in [(5, 422, "2 broker(s)"), (0, 422, "larger than 0")] {
        let (found, problem) = set_replicas(&second, "orders", count);
        assert_eq!(found, status, "{problem}");
        let detail = problem["detail"].as_str().expect("a sentence");
        assert!(detail.contains(told), "{detail}");
    }
    assert_eq!(set_replicas(&founder, "nothing", 1).0, 404);
    let drain = |node: &str, to: Value| {
        let path = format!("/v1/cluster/nodes/{node}/drain");
        let (status, problem) = ask(&founder, "PUT", &path, &json!({ "to": to }));
        (status, problem["detail"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(drain("9", Value::Null).0, 404);
    assert_eq!(drain("two", Value::Null).0, 404);
    let (status, told) = drain("2", json!(2));
    assert!(status == 422 && told.contains("itself"), "{status} {told}");
    assert_eq!(drain("2", json!(9)).0, 404);
    assert_eq!(drain("2", Value::Null).0, 200);
    let undrain = "/v1/cluster/nodes/2/drain";
    assert_eq!(ask(&founder, "DELETE", undrain, &Value::Null).0, 200);
    // Nothing was drained meanwhile that nobody could take.
    assert_eq!(replicas(&founder, "orders"), [[1, 2]]);
}
