//! The disks of more replicas are lost than a log survives: what is left is opened, and only by an operator's word.

use kafka_wire::create_topics::CreatableReplicaAssignment;
use kafka_wire::elect_leaders::TopicPartitions;
use kafka_wire::{CreateTopicsRequest, ElectLeadersRequest, ErrorCode};
use serde_json::{Value, json};

use super::moving::{ask, set_replicas};
use super::{founder, joined_in_reach, leaders, told_cluster, voters};
use crate::support::{TestNode, Wire, batch, creatable, eventually, now_ms};

const UNCLEAN: i8 = 1;

/// A topic of one partition with these replicas.
fn created(wire: &mut Wire, topic: &str, replicas: &[i32]) {
    let mut wanted = creatable(topic, -1);
    wanted.replication_factor = -1;
    wanted.assignments = vec![CreatableReplicaAssignment {
        partition_index: 0,
        broker_ids: replicas.to_vec(),
    }];
    let request = CreateTopicsRequest {
        topics: vec![wanted],
        timeout_ms: 10_000,
        ..CreateTopicsRequest::default()
    };
    assert_eq!(wire.call(5, &request).topics[0].error_code, 0);
}

fn elected(wire: &mut Wire, topic: &str) -> ErrorCode {
    let request = ElectLeadersRequest {
        election_type: UNCLEAN,
        topic_partitions: Some(vec![TopicPartitions {
            topic: topic.into(),
            partitions: vec![0],
        }]),
        timeout_ms: 10_000,
    };
    let answer = wire.call(2, &request);
    let code = answer.replica_election_results[0].partition_result[0].error_code;
    ErrorCode::from_code(code).expect("a known code")
}

fn code_of_append(wire: &mut Wire, value: &str) -> i16 {
    wire.produce("orders", 0, batch(&[(now_ms(), value)])).error_code
}

fn described(node: &TestNode) -> Value {
    ask(node, "GET", "/v1/topics/orders", &Value::Null).1["partitions"][0].clone()
}

#[test]
fn the_one_replica_that_is_left_goes_on_when_an_operator_says_so() {
    let (first, peers) = founder();
    let others = [(); 4].map(|()| joined_in_reach(&peers));
    let [second, _third, fourth, fifth] = others;
    let mut wire = second.connect();
    eventually("three have a vote", || voters(&mut wire).len() == 3);
    created(&mut wire, "orders", &[4, 5, 2]);
    created(&mut wire, "gone", &[4]);
    let mut leader = fourth.connect();
    let mut acknowledged: Vec<String> = Vec::new();
    for number in 0..20 {
        let value = format!("before {number}");
        eventually("it is acknowledged", || code_of_append(&mut leader, &value) == 0);
        acknowledged.push(value);
    }
    eventually("the last replica has some", || {
        described(&second)["tail"] != json!(0)
    });
    assert_eq!(elected(&mut wire, "orders"), ErrorCode::ElectionNotNeeded);
    let open = |partitions: &Value| {
        let path = "/v1/topics/orders/unclean-opening";
        ask(&first, "POST", path, partitions)
    };
    assert_eq!(open(&json!({})), (200, json!({ "opened": [], "refused": [] })));

    let back = fourth.kill_and_restart_with(&[("peer.listen", "127.0.0.1:0")], |_| {
        drop(fifth);
        let unreachable = ErrorCode::EligibleLeadersNotAvailable;
        eventually("nobody is left of a lone replica", || {
            elected(&mut wire, "gone") == unreachable
        });
        assert_ne!(
            code_of_append(&mut wire, "never"),
            0,
            "nobody gives up what was acknowledged"
        );
        assert_eq!(open(&json!({ "partitions": [1] })).0, 404);
        assert_eq!(open(&json!({ "partitions": ["0"] })).0, 400);
        eventually("it is opened", || {
            open(&json!({ "partitions": [0, 0] })).1["opened"] == json!([0])
        });
        eventually("it is settled without a record", || {
            told_cluster(&first)["changing_replicas"] == 0
        });
        eventually("it goes on", || code_of_append(&mut wire, "after") == 0);
        assert_eq!(elected(&mut wire, "orders"), ErrorCode::ElectionNotNeeded);
    });
    // It held more, perhaps, and gives it up.
    let mut returned = back.connect();
    eventually("the lost leader knows", || {
        leaders(&mut returned, "orders") == [2]
    });
    let epochs = described(&second)["unclean_epochs"].clone();
    assert_eq!(epochs.as_array().map(Vec::len), Some(1), "{epochs}");
    assert_eq!(told_cluster(&first)["unclean_partitions"], 1);
    assert_eq!(set_replicas(&first, "orders", 3).0, 200);
    eventually("others hold it again", || {
        let replicas = described(&second)["replicas"].clone();
        replicas.as_array().is_some_and(|set| set.len() == 3)
    });
    eventually("the epoch with them is open", || {
        told_cluster(&first)["changing_replicas"] == 0 && wire.fetch("orders", 0, 0).error_code == 0
    });
    let values = wire.read_values("orders", 0);
    let (last, kept) = values.split_last().expect("a record");
    assert_eq!(last, "after");
    assert!(acknowledged.starts_with(kept) && !kept.is_empty(), "{kept:?}");
    assert_eq!(
        described(&second)["unclean_epochs"],
        epochs,
        "it is told for ever"
    );
}
