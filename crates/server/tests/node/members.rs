//! Several nodes: others join the first, agree with it on the metadata and hold their part of the partitions.

mod chains;
mod damage;
mod directories;
mod figures;
mod groups;
mod hints;
mod insync;
mod moving;
mod racks;
mod reassigning;
mod unclean;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

use kafka_wire::create_topics::CreatableTopicConfig;
use kafka_wire::{
    CreateTopicsRequest, DeleteTopicsRequest, DescribeQuorumRequest, ElectLeadersRequest, ErrorCode,
    MetadataRequest, MetadataResponse,
};

use crate::producers;
use crate::support::{TestNode, Wire, batch, creatable, eventually, now_ms, stamped_batch};

/// The first node of a cluster, and the address where others find it.
fn founder() -> (TestNode, String) {
    let founder = TestNode::start_with(&[("peer.listen", "127.0.0.1:0")]);
    let peers = founder.peer_address().to_string();
    (founder, peers)
}

fn joined(peers: &str) -> TestNode {
    TestNode::start_with(&[("cluster.join", peers)])
}

/// The nodes that have a vote about the metadata.
fn voters(wire: &mut Wire) -> Vec<i32> {
    let request = DescribeQuorumRequest {
        topics: vec![kafka_wire::describe_quorum::TopicRequest {
            topic_name: "__cluster_metadata".into(),
            partitions: vec![kafka_wire::describe_quorum::PartitionRequest::default()],
        }],
    };
    let partition = wire.call(2, &request).topics.remove(0).partitions.remove(0);
    partition
        .current_voters
        .iter()
        .map(|voter| voter.replica_id)
        .collect()
}

/// Three nodes that others reach, each with a vote about the metadata.
fn three_with_votes() -> [TestNode; 3] {
    let (founder, peers) = founder();
    let nodes = [founder, joined_in_reach(&peers), joined_in_reach(&peers)];
    let mut wire = nodes[1].connect();
    eventually("all three have a vote", || voters(&mut wire) == [1, 2, 3]);
    nodes
}

fn metadata(wire: &mut Wire) -> MetadataResponse {
    let all = MetadataRequest {
        topics: None,
        ..MetadataRequest::default()
    };
    wire.call(12, &all)
}

/// Leaders of a topic's partitions, by index, as a node knows them; none if it does not know the topic.
fn leaders(wire: &mut Wire, topic: &str) -> Vec<i32> {
    let topics = metadata(wire).topics.into_iter();
    let found = topics.filter(|found| found.name.as_deref() == Some(topic));
    let mut partitions: Vec<_> = found.flat_map(|topic| topic.partitions).collect();
    partitions.sort_by_key(|partition| partition.partition_index);
    partitions.iter().map(|partition| partition.leader_id).collect()
}

fn created(wire: &mut Wire, topic: &str, partitions: i32) -> i16 {
    created_with(wire, topic, partitions, &[])
}

fn created_with(wire: &mut Wire, topic: &str, partitions: i32, configs: &[(&str, &str)]) -> i16 {
    let mut wanted = creatable(topic, partitions);
    let configs = configs.iter().map(|(name, value)| CreatableTopicConfig {
        name: (*name).into(),
        value: Some((*value).into()),
    });
    wanted.configs.extend(configs);
    let request = CreateTopicsRequest {
        topics: vec![wanted],
        timeout_ms: 30_000,
        ..CreateTopicsRequest::default()
    };
    wire.call(5, &request).topics[0].error_code
}

fn deleted(wire: &mut Wire, topic: &str) -> i16 {
    let request = DeleteTopicsRequest {
        topic_names: vec![topic.into()],
        timeout_ms: 10_000,
        ..DeleteTopicsRequest::default()
    };
    wire.call(5, &request).responses[0].error_code
}

#[test]
fn partitions_go_round_the_nodes_and_each_is_served_by_its_leader() {
    let (founder, peers) = founder();
    let nodes = [founder, joined(&peers), joined(&peers)];
    let mut wires = nodes.each_ref().map(TestNode::connect);
    // The last node knows all: it has joined last.
    assert_eq!(created(&mut wires[2], "orders", 6), 0);
    let led_by = leaders(&mut wires[2], "orders");
    assert_eq!(led_by, [1, 2, 3, 1, 2, 3], "it is there as soon as it is made");
    for wire in &mut wires {
        eventually("every node hears of the topic", || {
            leaders(wire, "orders") == led_by
        });
        let answer = metadata(wire);
        let ports: Vec<(i32, i32)> = answer
            .brokers
            .iter()
            .map(|broker| (broker.node_id, broker.port))
            .collect();
        let expected: Vec<(i32, i32)> = (1..)
            .zip(nodes.iter().map(|node| node.address().port().into()))
            .collect();
        assert_eq!(ports, expected);
    }
    for (index, leader) in (0..).zip(&led_by) {
        for (node, wire) in (1..).zip(&mut wires) {
            let value = format!("{index} at {node}");
            let code = match node == *leader {
                true => 0,
                false => ErrorCode::NotLeaderOrFollower.code(),
            };
            // The core that was asked may know of the topic before the one that owns the partition: until then it is unknown there.
            eventually(&format!("partition {index} at node {node} says {code}"), || {
                let answer = wire.produce("orders", index, batch(&[(now_ms(), &value)]));
                answer.error_code == code
            });
            assert_eq!(wire.fetch("orders", index, 0).error_code, code);
        }
        let wire = &mut wires[*leader as usize - 1];
        assert_eq!(
            wire.read_values("orders", index),
            [format!("{index} at {leader}")]
        );
    }
    assert_eq!(deleted(&mut wires[1], "orders"), 0);
    assert!(leaders(&mut wires[1], "orders").is_empty());
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    for wire in &mut wires {
        eventually("every node forgets the topic", || {
            leaders(wire, "orders").is_empty()
        });
        assert_eq!(
            wire.produce("orders", 1, batch(&[(now_ms(), "late")])).error_code,
            unknown
        );
    }
}

#[test]
fn a_name_is_taken_for_every_node_and_replicas_are_not_promised_beyond_reach() {
    let (founder, peers) = founder();
    let other = joined(&peers);
    let (mut one, mut two) = (founder.connect(), other.connect());
    assert_eq!(created(&mut one, "orders", 1), 0);
    // It is the log that decides, not what the node has heard.
    assert_eq!(
        created(&mut two, "orders", 1),
        ErrorCode::TopicAlreadyExists.code()
    );
    let request = CreateTopicsRequest {
        topics: vec![kafka_wire::create_topics::CreatableTopic {
            replication_factor: 2,
            ..creatable("safe", 1)
        }],
        timeout_ms: 10_000,
        ..CreateTopicsRequest::default()
    };
    let refused = two.call(5, &request).topics.remove(0);
    assert_eq!(refused.error_code, ErrorCode::InvalidReplicationFactor.code());
    let told = refused.error_message.expect("a sentence").to_string();
    assert!(told.contains("2 replicas") && told.contains("--peer"), "{told}");
}

#[test]
fn topics_have_as_many_replicas_as_the_asked_node_is_told() {
    let founder = TestNode::start_with(&[("peer.listen", "127.0.0.1:0"), ("cluster.default_replicas", "2")]);
    let peers = founder.peer_address().to_string();
    let _others = [joined_in_reach(&peers), joined_in_reach(&peers)];
    let mut wire = founder.connect();
    assert_eq!(created(&mut wire, "orders", 3), 0);
    let topics = metadata(&mut wire).topics;
    let counts = topics[0]
        .partitions
        .iter()
        .map(|partition| partition.replica_nodes.len());
    assert_eq!(counts.collect::<Vec<_>>(), [2, 2, 2]);
}

#[test]
fn a_node_comes_back_with_its_records_and_in_a_later_epoch() {
    let (founder, peers) = founder();
    let other = joined(&peers);
    let mut wire = other.connect();
    assert_eq!(created(&mut wire, "orders", 2), 0);
    assert_eq!(
        wire.produce("orders", 1, batch(&[(now_ms(), "kept")])).error_code,
        0
    );
    let epoch = |wire: &mut Wire| {
        let topics = metadata(wire).topics;
        let partitions = topics.iter().flat_map(|topic| &topic.partitions);
        let mut of_other = partitions.filter(|partition| partition.partition_index == 1);
        of_other.next().map(|partition| partition.leader_epoch)
    };
    assert_eq!(epoch(&mut wire), Some(0));
    let other = other.restart_with(&[("cluster.join", &peers)], |_| ());
    let mut wire = other.connect();
    assert_eq!(wire.read_values("orders", 1), ["kept"]);
    assert_eq!(epoch(&mut wire), Some(1));
    let mut wire = founder.connect();
    eventually("the other hears of the start", || epoch(&mut wire) == Some(1));
}

/// A node that others reach, so that it can hold replicas with them.
fn joined_in_reach(peers: &str) -> TestNode {
    TestNode::start_with(&[("cluster.join", peers), ("peer.listen", "127.0.0.1:0")])
}

/// Appends a record at the partition's leader, among these wires by node id, as often as a client would try.
fn append_at_leader(wires: &mut BTreeMap<i32, Wire>, index: i32, value: &str) {
    eventually("the record is acknowledged", || {
        wires.values_mut().any(|wire| {
            wire.produce("orders", index, batch(&[(now_ms(), value)]))
                .error_code
                == 0
        })
    });
}

/// All values of a partition, at its leader.
fn values_at_leader(wires: &mut BTreeMap<i32, Wire>, index: i32) -> Vec<String> {
    let mut found = None;
    eventually("the partition has a leader that serves", || {
        let mut served =
            wires
                .values_mut()
                .filter_map(|wire| match wire.fetch("orders", index, 0).error_code {
                    0 => Some(wire.read_values("orders", index)),
                    _ => None,
                });
        found = served.next();
        found.is_some()
    });
    found.expect("it was found")
}

#[test]
fn records_survive_the_loss_of_their_leader() {
    let (founder, peers) = founder();
    let (second, third) = (joined_in_reach(&peers), joined_in_reach(&peers));
    let connect = |(id, node): (i32, &TestNode)| (id, node.connect());
    let mut wires: BTreeMap<i32, Wire> = [(1, &founder), (2, &second), (3, &third)].map(connect).into();
    assert_eq!(created(wires.get_mut(&1).expect("it is there"), "orders", 3), 0);
    for index in 0..3 {
        append_at_leader(&mut wires, index, "before");
    }
    wires.remove(&2);
    let sets = [("cluster.join", &*peers), ("peer.listen", "127.0.0.1:0")];
    let second = second.restart_with(&sets, |_| {
        for index in 0..3 {
            append_at_leader(&mut wires, index, "meanwhile");
            assert_eq!(values_at_leader(&mut wires, index), ["before", "meanwhile"]);
        }
    });
    // It takes the place of the third, which is away now.
    wires.insert(2, second.connect());
    wires.remove(&3);
    let third = third.restart_with(&sets, |_| {
        for index in 0..3 {
            append_at_leader(&mut wires, index, "after");
            assert_eq!(
                values_at_leader(&mut wires, index),
                ["before", "meanwhile", "after"]
            );
        }
    });
    drop((founder, second, third));
}

/// A node that is stopped in order hands over first, and is given its place back once it has everything.
#[test]
fn leaders_are_handed_over_and_back() {
    let (founder, peers) = founder();
    let (second, third) = (joined_in_reach(&peers), joined_in_reach(&peers));
    let mut wire = founder.connect();
    assert_eq!(created(&mut wire, "orders", 3), 0);
    let mut wires: BTreeMap<i32, Wire> = [(1, &founder), (2, &second), (3, &third)]
        .map(|(id, node)| (id, node.connect()))
        .into();
    for index in 0..3 {
        append_at_leader(&mut wires, index, "one");
    }
    drop(wires);
    let sets = [("cluster.join", &*peers), ("peer.listen", "127.0.0.1:0")];
    let second = second.restart_with(&sets, |_| {
        // It has drained: others lead already, and nobody has had to miss it.
        assert!(!leaders(&mut wire, "orders").contains(&2));
    });
    // Who asks for that waits for it.
    let elect = ElectLeadersRequest {
        topic_partitions: None,
        ..ElectLeadersRequest::default()
    };
    let elected = wire.call(2, &elect).replica_election_results.into_iter();
    let elected = elected.flat_map(|topic| topic.partition_result);
    let elected: Vec<_> = elected.map(|told| (told.partition_id, told.error_code)).collect();
    assert!(
        elected.is_empty() || elected == [(1, 0)],
        "it led before, or was waited for: {elected:?}"
    );
    assert_eq!(leaders(&mut wire, "orders"), [1, 2, 3]);
    let mut own = second.connect();
    eventually("it serves", || own.fetch("orders", 1, 0).error_code == 0);
    assert_eq!(own.read_values("orders", 1), ["one"]);
    drop((founder, third));
}

#[test]
fn without_a_quorum_nothing_is_acknowledged() {
    let (founder, peers) = founder();
    let (second, third) = (joined_in_reach(&peers), joined_in_reach(&peers));
    let mut wire = founder.connect();
    assert_eq!(created(&mut wire, "orders", 1), 0);
    eventually("it is acknowledged", || {
        wire.produce("orders", 0, batch(&[(now_ms(), "one")])).error_code == 0
    });
    let sets = [("cluster.join", &*peers), ("peer.listen", "127.0.0.1:0")];
    let mut third = Some(third);
    let second = second.restart_with(&sets, |_| {
        eventually("one follower is enough", || {
            wire.produce("orders", 0, batch(&[(now_ms(), "two")])).error_code == 0
        });
        drop(third.take());
        eventually("none is not", || {
            let code = wire
                .produce("orders", 0, batch(&[(now_ms(), "never")]))
                .error_code;
            code == ErrorCode::NotEnoughReplicas.code()
        });
    });
    // It brings itself to the leader's log, and then it counts.
    eventually("a follower is back", || {
        wire.produce("orders", 0, batch(&[(now_ms(), "three")]))
            .error_code
            == 0
    });
    let values = wire.read_values("orders", 0);
    assert_eq!((&*values[0], &*values[1]), ("one", "two"));
    assert_eq!(values.last().map(String::as_str), Some("three"));
    drop((founder, second));
}

/// An id that one node has handed out is good at every other one, at once.
#[test]
fn producers_write_to_all_nodes_with_an_id_of_one() {
    let (founder, peers) = founder();
    let nodes = [founder, joined(&peers)];
    let mut wires = nodes.each_ref().map(TestNode::connect);
    assert_eq!(created(&mut wires[0], "orders", 2), 0);
    eventually("the other node hears of the topic", || {
        leaders(&mut wires[1], "orders") == [1, 2]
    });
    // Both nodes' cores want blocks of their own.
    let ids: Vec<i64> = (0..8)
        .map(|number| producers::init(&mut wires[number % 2]))
        .collect();
    for id in &ids {
        for (index, wire) in (0..).zip(&mut wires) {
            let answer = wire.produce("orders", index, stamped_batch(*id, 0, 0, &["once"]));
            assert_eq!(answer.error_code, 0, "id {id} at partition {index}");
        }
    }
    let mut distinct = ids.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), ids.len(), "no id is given twice: {ids:?}");
}

#[test]
fn without_the_only_vote_records_are_served_and_nothing_is_changed() {
    let (founder, peers) = founder();
    let other = joined(&peers);
    let mut wire = other.connect();
    assert_eq!(created(&mut wire, "orders", 2), 0);
    let founder = founder.restart_with(&[("peer.listen", &peers)], |_| {
        assert_eq!(
            wire.produce("orders", 1, batch(&[(now_ms(), "alone")]))
                .error_code,
            0
        );
        eventually("it knows of no leader", || {
            told_cluster(&other)["metadata"]["leader"].is_null()
        });
        eventually("it is told that there is no controller", || {
            created(&mut wire, "more", 1) == ErrorCode::NotController.code()
        });
        assert_eq!(wire.read_values("orders", 1), ["alone"]);
    });
    // Its client tries again until there is a connection.
    eventually("changes are made again", || created(&mut wire, "more", 2) == 0);
    let mut one = founder.connect();
    assert_eq!(leaders(&mut one, "more"), [1, 2]);
    assert_eq!(leaders(&mut one, "orders"), [1, 2]);
}

/// The cluster as a node tells it over HTTP.
fn told_cluster(node: &TestNode) -> serde_json::Value {
    let answer = node.get("/v1/cluster");
    let body = answer.split_once("\r\n\r\n").map_or(&*answer, |(_, body)| body);
    serde_json::from_str(body).expect("JSON")
}

/// The cluster in short: who leads the metadata, who votes, which nodes are here, what they lead.
#[test]
fn a_node_tells_of_its_cluster() {
    let [founder, second, third] = three_with_votes();
    let mut wire = second.connect();
    assert_eq!(created(&mut wire, "orders", 6), 0);
    let all = |cluster: &serde_json::Value, field: &str| -> Vec<serde_json::Value> {
        let nodes = cluster["nodes"].as_array().expect("a list");
        nodes.iter().map(|node| node[field].clone()).collect()
    };
    eventually("the third node knows all", || {
        all(&told_cluster(&third), "leads") == [2, 2, 2]
    });
    let cluster = told_cluster(&third);
    assert_eq!(cluster["metadata"]["voters"], serde_json::json!([1, 2, 3]));
    assert_eq!(cluster["metadata"]["leader"], 1);
    assert_eq!(all(&cluster, "replicas"), [6, 6, 6]);
    assert_eq!(all(&cluster, "here"), [true, true, true]);
    let newest = protocol::metadata::FeatureLevel::NEWEST.0;
    assert_eq!(cluster["feature_level"], newest);
    assert_eq!(all(&cluster, "knows_feature_level"), [newest; 3]);
    let upgrade = |node| moving::ask(node, "POST", "/v1/cluster/upgrade", &serde_json::Value::Null);
    let (status, unchanged) = upgrade(&third);
    assert_eq!(
        (status, &unchanged["feature_level"]),
        (200, &cluster["feature_level"])
    );
    drop(founder);
    eventually("it sees that the first is gone", || {
        let cluster = told_cluster(&third);
        all(&cluster, "here") == [false, true, true] && cluster["metadata"]["leader"] != 1
    });
    assert_eq!(
        all(&told_cluster(&third), "knows_feature_level")[0],
        serde_json::Value::Null
    );
    let (status, refused) = upgrade(&third);
    assert_eq!(
        (status, &refused["node"]),
        (409, &serde_json::json!(1)),
        "{refused}"
    );
    drop(second);
}

#[test]
fn a_node_joins_by_way_of_one_that_does_not_lead() {
    let [founder, _second, _third] = three_with_votes();
    // It hands its office over.
    let founder = founder.restart_with(&[("peer.listen", "127.0.0.1:0")], |_| ());
    let fourth = joined_in_reach(&founder.peer_address().to_string());
    let mut wire = fourth.connect();
    assert_eq!(created(&mut wire, "orders", 4), 0);
    assert_eq!(leaders(&mut wire, "orders"), [1, 2, 3, 4]);
    assert_eq!(voters(&mut wire), [1, 2, 3]);
}

/// A node keeps the addresses of the others: its next start needs none, and the first of the nodes is like any other.
#[test]
fn any_of_three_nodes_may_go_and_comes_back_by_itself() {
    let [founder, second, third] = three_with_votes();
    let mut nodes = [founder, second, third].map(Some);
    let mut wires: BTreeMap<i32, Wire> = (1..).zip(nodes.iter().flatten().map(TestNode::connect)).collect();
    assert_eq!(created(wires.get_mut(&1).expect("it is there"), "orders", 3), 0);
    let mut expected: Vec<String> = Vec::new();
    for (place, gone) in [0, 1, 2, 0].into_iter().enumerate() {
        let id = gone as i32 + 1;
        wires.remove(&id);
        let node = nodes[gone].take().expect("it is there");
        let back = node.restart_with(&[("peer.listen", "127.0.0.1:0")], |_| {
            let topic = format!("made-without-{place}");
            let wire = wires.values_mut().next().expect("two are there");
            eventually("a topic is made without it", || created(wire, &topic, 3) == 0);
            expected.push(format!("{place} without node {id}"));
            for index in 0..3 {
                append_at_leader(&mut wires, index, expected.last().expect("it was pushed"));
                assert_eq!(values_at_leader(&mut wires, index), expected);
            }
        });
        wires.insert(id, back.connect());
        let wire = wires.get_mut(&id).expect("it was put there");
        assert_eq!(leaders(wire, &format!("made-without-{place}")).len(), 3);
        nodes[gone] = Some(back);
    }
}

/// Records and topics of a node that was alone are there when it is the first of several.
#[test]
fn a_node_that_was_alone_becomes_the_first_of_three_in_place() {
    let lone = TestNode::start_with(&[]);
    let mut wire = lone.connect();
    assert_eq!(created(&mut wire, "old", 2), 0);
    assert_eq!(wire.produce("old", 1, batch(&[(now_ms(), "kept")])).error_code, 0);
    let founder = lone.restart_with(&[("peer.listen", "127.0.0.1:0")], |_| ());
    let peers = founder.peer_address().to_string();
    let (second, third) = (joined_in_reach(&peers), joined_in_reach(&peers));
    let mut wire = second.connect();
    assert_eq!(leaders(&mut wire, "old"), [1, 1]);
    assert_eq!(created(&mut wire, "new", 3), 0);
    // Whoever was away for a moment leads later.
    eventually("each node leads a partition", || {
        leaders(&mut wire, "new") == [1, 2, 3]
    });
    let mut wire = founder.connect();
    assert_eq!(wire.read_values("old", 1), ["kept"]);
    // Once it is one of several, it stays that, whatever it is told.
    let founder = founder.restart_with(&[("peer.listen", "127.0.0.1:0")], |_| ());
    let mut wire = founder.connect();
    assert_eq!(wire.read_values("old", 1), ["kept"]);
    eventually("it knows all", || leaders(&mut wire, "new").len() == 3);
    drop((second, third));
}

#[test]
fn strangers_are_hung_up_on_and_disturb_nobody() {
    let (founder, peers) = founder();
    let other = joined(&peers);
    // A message that would never end, one of no node, and a request of Kafka's.
    let endless = [&[0xff, 0xff, 0xff, 0xff, 1][..], &[0; 11]].concat();
    for said in [&endless[..], b"GET / HTTP/1.1\r\n\r\n", &[0; 64]] {
        let mut stranger = TcpStream::connect(&peers).expect("it listens");
        stranger.write_all(said).expect("it is taken");
        let mut answer = Vec::new();
        // Either way it is over.
        let _ = stranger.read_to_end(&mut answer);
        assert_eq!(answer, b"", "strangers are told nothing");
    }
    let mut wire = other.connect();
    assert_eq!(created(&mut wire, "orders", 2), 0);
    drop(founder);
}
