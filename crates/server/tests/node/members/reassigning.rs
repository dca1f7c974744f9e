//! Replicas as Kafka's administrators choose them: topics placed by hand, partitions reassigned and left as they are, nodes unregistered.

use std::collections::BTreeMap;

use kafka_wire::alter_partition_reassignments::{ReassignablePartition, ReassignableTopic};
use kafka_wire::create_partitions::{CreatePartitionsAssignment, CreatePartitionsTopic};
use kafka_wire::create_topics::{CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig};
use kafka_wire::list_partition_reassignments::ListPartitionReassignmentsTopics;
use kafka_wire::{
    AlterPartitionReassignmentsRequest, CreatePartitionsRequest, CreateTopicsRequest,
    DescribeTopicPartitionsRequest, ErrorCode, FindCoordinatorRequest, ListPartitionReassignmentsRequest,
    UnregisterBrokerRequest,
};

use super::{
    append_at_leader, created, founder, joined, joined_in_reach, metadata, three_with_votes, values_at_leader,
};
use crate::support::groups::patiently;
use crate::support::{TestNode, Wire, creatable, eventually};

/// A code and its sentence.
type Told = (ErrorCode, String);

fn told(code: i16, message: Option<impl ToString>) -> Told {
    let code = ErrorCode::from_code(code).expect("a known code");
    (
        code,
        message.map_or_else(String::new, |message| message.to_string()),
    )
}

fn done() -> Told {
    (ErrorCode::None, String::new())
}

/// The replicas that a partition is to have; `None` leaves it as it is.
type Wanted<'a> = Option<&'a [i32]>;

/// A topic whose partitions have these replicas.
fn placed(name: &str, sets: &[&[i32]]) -> CreatableTopic {
    let assignment = |(partition_index, brokers): (i32, &&[i32])| CreatableReplicaAssignment {
        partition_index,
        broker_ids: brokers.to_vec(),
    };
    CreatableTopic {
        num_partitions: -1,
        replication_factor: -1,
        assignments: (0..).zip(sets).map(assignment).collect(),
        ..creatable(name, 1)
    }
}

fn create(wire: &mut Wire, topic: CreatableTopic) -> Told {
    let request = CreateTopicsRequest {
        topics: vec![topic],
        timeout_ms: 10_000,
        ..CreateTopicsRequest::default()
    };
    let made = wire.call(7, &request).topics.remove(0);
    told(made.error_code, made.error_message)
}

fn alter_request(topic: &str, index: i32, replicas: Wanted) -> AlterPartitionReassignmentsRequest {
    AlterPartitionReassignmentsRequest {
        timeout_ms: 10_000,
        topics: vec![ReassignableTopic {
            name: topic.into(),
            partitions: vec![ReassignablePartition {
                partition_index: index,
                replicas: replicas.map(<[i32]>::to_vec),
            }],
        }],
        ..AlterPartitionReassignmentsRequest::default()
    }
}

fn send(wire: &mut Wire, version: i16, request: &AlterPartitionReassignmentsRequest) -> Told {
    let answer = wire.call(version, request);
    assert_eq!(told(answer.error_code, answer.error_message), done());
    let partition = &answer.responses[0].partitions[0];
    let asked = &request.topics[0];
    assert_eq!(answer.responses[0].name, asked.name);
    assert_eq!(partition.partition_index, asked.partitions[0].partition_index);
    told(partition.error_code, partition.error_message.as_ref())
}

/// Gives a partition of `orders` other replicas. A change that has to be settled first is waited for, as clients do.
fn alter(wire: &mut Wire, index: i32, replicas: Wanted) -> Told {
    let request = alter_request("orders", index, replicas);
    let mut outcome = done();
    eventually("it is not in the way of another change", || {
        outcome = send(wire, 1, &request);
        !outcome.0.is_retriable()
    });
    outcome
}

/// A partition that changes: index, replicas, adding, removing.
type Changing = (i32, Vec<i32>, Vec<i32>, Vec<i32>);

fn list(wire: &mut Wire, topics: Option<Vec<ListPartitionReassignmentsTopics>>) -> Vec<Changing> {
    let request = ListPartitionReassignmentsRequest {
        timeout_ms: 1_000,
        topics,
    };
    let answer = wire.call(0, &request);
    assert_eq!(told(answer.error_code, answer.error_message), done());
    assert!(answer.topics.iter().all(|topic| topic.name == "orders"));
    let partitions = answer.topics.into_iter().flat_map(|topic| topic.partitions);
    let changing = partitions.map(|one| {
        let (adding, removing) = (one.adding_replicas, one.removing_replicas);
        (one.partition_index, one.replicas, adding, removing)
    });
    changing.collect()
}

/// The partitions of `orders` that change: those that are told of all, and of named ones.
fn under_way(wire: &mut Wire) -> Vec<Changing> {
    let named = |name: &str, indexes: &[i32]| ListPartitionReassignmentsTopics {
        name: name.into(),
        partition_indexes: indexes.to_vec(),
    };
    assert_eq!(
        list(wire, Some(vec![named("orders", &[])])),
        [],
        "of no partition"
    );
    // Others are left out, and whatever is named twice is there once.
    let all = vec![
        named("nothing", &[0]),
        named("orders", &[7, 1, 0, -1, 0]),
        named("orders", &[0]),
    ];
    let mut of_all = Vec::new();
    // Something may be done between the two.
    eventually("both tell the same", || {
        of_all = list(wire, None);
        of_all == list(wire, Some(all.clone()))
    });
    of_all
}

/// The replicas of a topic's partitions, and those that are in sync, by index: as Metadata tells them, and so does DescribeTopicPartitions.
fn replicas(wire: &mut Wire, topic: &str) -> Vec<(Vec<i32>, Vec<i32>)> {
    let mut in_metadata = Vec::new();
    eventually("both tell the same", || {
        in_metadata = replicas_in_metadata(wire, topic);
        in_metadata == replicas_described(wire, topic)
    });
    in_metadata
}

fn replicas_in_metadata(wire: &mut Wire, topic: &str) -> Vec<(Vec<i32>, Vec<i32>)> {
    let topics = metadata(wire).topics.into_iter();
    let found = topics.filter(|found| found.name.as_deref() == Some(topic));
    let mut partitions: Vec<_> = found.flat_map(|topic| topic.partitions).collect();
    partitions.sort_by_key(|partition| partition.partition_index);
    let told = partitions.into_iter();
    told.map(|partition| (partition.replica_nodes, partition.isr_nodes))
        .collect()
}

fn replicas_described(wire: &mut Wire, topic: &str) -> Vec<(Vec<i32>, Vec<i32>)> {
    let topics = wire
        .call(0, &DescribeTopicPartitionsRequest::default())
        .topics
        .into_iter();
    let found = topics.filter(|found| found.name.as_deref() == Some(topic));
    let told = found.flat_map(|topic| topic.partitions);
    told.map(|partition| (partition.replica_nodes, partition.isr_nodes))
        .collect()
}

/// Waits until a partition of `orders` has these replicas, and nothing is told to change.
fn until_held(wire: &mut Wire, index: usize, set: &[i32]) {
    eventually("nothing changes any more", || under_way(wire).is_empty());
    eventually("the partition has its replicas", || {
        let found = replicas(wire, "orders");
        found
            .get(index)
            .is_some_and(|found| found.0 == set && found.1 == set)
    });
}

#[test]
fn a_partition_is_reassigned_and_keeps_its_records() {
    let nodes = three_with_votes();
    let mut wires: BTreeMap<i32, Wire> = (1..).zip(nodes.iter().map(TestNode::connect)).collect();
    let mut wire = nodes[0].connect();
    assert_eq!(create(&mut wire, placed("orders", &[&[1]])), done());
    let mut expected: Vec<String> = (0..20).map(|number| format!("before {number}")).collect();
    for value in &expected {
        append_at_leader(&mut wires, 0, value);
    }
    assert_eq!(under_way(&mut wire), []);
    assert_eq!(alter(&mut wire, 0, Some(&[2, 3])), done());
    // The third node hears of the change, and of its end.
    let mut third = nodes[2].connect();
    eventually("all nodes hear of the change", || {
        replicas(&mut third, "orders") != [(vec![1], vec![1])]
    });
    until_held(&mut third, 0, &[2, 3]);
    assert_eq!(alter(&mut wire, 0, Some(&[2, 3])), done(), "it has them already");
    append_at_leader(&mut wires, 0, "after");
    expected.push("after".to_owned());
    // It is read where the first node has no part of it.
    wires.remove(&1);
    let mut found = values_at_leader(&mut wires, 0);
    found.dedup();
    assert_eq!(found, expected);
    // Another order is another one that leads.
    assert_eq!(alter(&mut wire, 0, Some(&[3, 2])), done());
    until_held(&mut third, 0, &[3, 2]);
    eventually("the first of them leads", || {
        super::leaders(&mut third, "orders") == [3]
    });
    assert_eq!(alter(&mut third, 0, Some(&[1])), done());
    until_held(&mut wire, 0, &[1]);
    let mut wires = BTreeMap::from([(1, nodes[0].connect())]);
    let mut found = values_at_leader(&mut wires, 0);
    found.dedup();
    assert_eq!(found, expected);
}

#[test]
fn a_reassignment_to_a_node_that_is_away_is_called_off() {
    let [founder, second, third] = three_with_votes();
    let peers = founder.peer_address().to_string();
    let mut wire = founder.connect();
    assert_eq!(create(&mut wire, placed("orders", &[&[1, 2], &[1, 2]])), done());
    let in_place = (vec![1, 2], vec![1, 2]);
    let sets = [("cluster.join", &*peers), ("peer.listen", "127.0.0.1:0")];
    let third = third.restart_with(&sets, |_| {
        assert_eq!(alter(&mut wire, 0, Some(&[3])), done());
        assert_eq!(alter(&mut wire, 1, Some(&[3, 2])), done());
        assert_eq!(
            alter(&mut wire, 1, Some(&[3, 2])),
            done(),
            "they are on their way already"
        );
        assert_eq!(
            under_way(&mut wire),
            [
                (0, vec![3, 1, 2], vec![3], vec![1, 2]),
                (1, vec![3, 2, 1], vec![3], vec![1])
            ]
        );
        let filling = (vec![1, 2, 3], vec![1, 2]);
        assert_eq!(replicas(&mut wire, "orders"), [filling.clone(), filling]);
        let fixed = AlterPartitionReassignmentsRequest {
            allow_replication_factor_change: false,
            ..alter_request("orders", 0, Some(&[2, 1]))
        };
        let refused = send(&mut wire, 1, &fixed);
        // It counts those that are to be.
        let sentence = "The replication factor is changed from 1 to 2";
        assert_eq!(
            refused,
            (ErrorCode::InvalidReplicationFactor, sentence.to_owned())
        );
        // One is called off, the other goes another way.
        assert_eq!(alter(&mut wire, 0, None), done());
        assert_eq!(
            under_way(&mut wire),
            [(1, vec![3, 2, 1], vec![3], vec![1])],
            "the other goes on"
        );
        assert_eq!(replicas(&mut wire, "orders")[0], in_place);
        assert_eq!(alter(&mut wire, 1, Some(&[2])), done());
        until_held(&mut wire, 1, &[2]);
        for index in [0, 1] {
            let again = alter(&mut wire, index, None);
            let sentence = "No partition reassignment is in progress.";
            assert_eq!(again, (ErrorCode::NoReassignmentInProgress, sentence.to_owned()));
        }
    });
    let mut back = third.connect();
    eventually("the node that was away knows it", || {
        replicas(&mut back, "orders") == [in_place.clone(), (vec![2], vec![2])]
    });
    assert_eq!(under_way(&mut back), []);
    drop(second);
}

#[test]
fn reassignments_that_cannot_be_are_told() {
    let (founder, peers) = founder();
    // Nobody reaches it: it has no address for that.
    let _other = joined(&peers);
    let mut wire = founder.connect();
    assert_eq!(created(&mut wire, "orders", 1), 0);
    let compacted = CreatableTopic {
        configs: vec![CreatableTopicConfig {
            name: "cleanup.policy".into(),
            value: Some("compact".into()),
        }],
        ..creatable("latest", 1)
    };
    assert_eq!(create(&mut wire, compacted), done());
    let unknown = ErrorCode::UnknownTopicOrPartition;
    let invalid = ErrorCode::InvalidReplicaAssignment;
    let cases: [(&str, i32, Wanted, ErrorCode, &str); 12] = [
        (
            "nothing",
            0,
            Some(&[1]),
            unknown,
            "Unable to find a topic named nothing.",
        ),
        (
            "nothing",
            0,
            None,
            unknown,
            "Unable to find a topic named nothing.",
        ),
        (
            "__cluster_metadata",
            0,
            Some(&[1]),
            unknown,
            "Unable to find a topic named __cluster_metadata.",
        ),
        (
            "orders",
            1,
            Some(&[1]),
            unknown,
            "Unable to find partition orders:1.",
        ),
        ("orders", -1, None, unknown, "Unable to find partition orders:-1."),
        (
            "orders",
            0,
            Some(&[]),
            invalid,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            "orders",
            0,
            Some(&[1, 1]),
            invalid,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            "orders",
            0,
            Some(&[1, 9]),
            invalid,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        ("orders", 0, Some(&[1, 2]), invalid, "--peer"),
        ("latest", 0, Some(&[2]), invalid, "--peer"),
        (
            "orders",
            0,
            None,
            ErrorCode::NoReassignmentInProgress,
            "No partition reassignment is in progress.",
        ),
        ("orders", 0, Some(&[1]), ErrorCode::None, ""),
    ];
    for (topic, index, replicas, code, sentence) in cases {
        for version in [0, 1] {
            let (found, told) = send(&mut wire, version, &alter_request(topic, index, replicas));
            assert_eq!(found, code, "{topic}-{index} {replicas:?}: {told}");
            assert!(told.contains(sentence), "{told:?} does not say {sentence:?}");
            assert_eq!(told.is_empty(), code == ErrorCode::None, "{told}");
        }
    }
    let fixed = |replicas: &[i32]| AlterPartitionReassignmentsRequest {
        allow_replication_factor_change: false,
        ..alter_request("orders", 0, Some(replicas))
    };
    let (code, told) = send(&mut wire, 1, &fixed(&[1, 2]));
    assert_eq!(code, ErrorCode::InvalidReplicationFactor, "{told}");
    assert_eq!(told, "The replication factor is changed from 1 to 2");
    assert_eq!(send(&mut wire, 1, &fixed(&[1])), done());
    // Each partition stands for itself.
    let mut many = alter_request("orders", 0, Some(&[1]));
    many.topics.extend(alter_request("nothing", 0, Some(&[1])).topics);
    many.topics.extend(alter_request("orders", 0, None).topics);
    let codes: Vec<i16> = wire
        .call(1, &many)
        .responses
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|partition| partition.error_code))
        .collect();
    let expected = [ErrorCode::None, unknown, ErrorCode::NoReassignmentInProgress];
    assert_eq!(codes, expected.map(ErrorCode::code));
}

#[test]
fn compacted_topics_and_that_of_the_groups_move_like_others() {
    let nodes = three_with_votes();
    let mut wire = nodes[0].connect();
    let find = FindCoordinatorRequest {
        key: "readers".into(),
        ..FindCoordinatorRequest::default()
    };
    patiently(|| wire.call(2, &find), |found| found.error_code);
    let groups = "__consumer_offsets";
    eventually("it has three replicas", || {
        let found = replicas(&mut wire, groups);
        !found.is_empty() && found.iter().all(|(_, in_sync)| in_sync.len() == 3)
    });
    let moved = alter_request(groups, 0, Some(&[3, 1, 2]));
    eventually("it is moved", || send(&mut wire, 1, &moved).0 == ErrorCode::None);
    eventually("it has its replicas", || {
        replicas(&mut wire, groups)[0] == (vec![3, 1, 2], vec![3, 1, 2])
    });
    let compacted = CreatableTopic {
        configs: vec![CreatableTopicConfig {
            name: "cleanup.policy".into(),
            value: Some("compact".into()),
        }],
        ..placed("latest", &[&[2]])
    };
    assert_eq!(create(&mut wire, compacted), done());
    let widened = alter_request("latest", 0, Some(&[2, 3]));
    assert_eq!(send(&mut wire, 1, &widened), done());
    eventually("it has two replicas", || {
        replicas(&mut wire, "latest")[0] == (vec![2, 3], vec![2, 3])
    });
}

#[test]
fn topics_are_placed_by_hand_and_widened_so() {
    let (founder, peers) = founder();
    let nodes = [joined_in_reach(&peers), joined(&peers)];
    let mut wire = founder.connect();
    eventually("the third node is known", || {
        metadata(&mut wire).brokers.len() == 3
    });
    let sets: [&[i32]; 3] = [&[2, 1], &[1, 2], &[2, 1]];
    let request = CreateTopicsRequest {
        topics: vec![placed("orders", &sets)],
        timeout_ms: 10_000,
        ..CreateTopicsRequest::default()
    };
    let rehearsed = CreateTopicsRequest {
        validate_only: true,
        ..request.clone()
    };
    for request in [rehearsed, request] {
        let made = wire.call(7, &request).topics.remove(0);
        let counts = (made.error_code, made.num_partitions, made.replication_factor);
        assert_eq!(counts, (0, 3, 2), "{:?}", made.error_message);
    }
    let found = |wire: &mut Wire| -> Vec<Vec<i32>> {
        let replicas = replicas(wire, "orders").into_iter();
        replicas.map(|(replicas, _)| replicas).collect()
    };
    assert_eq!(found(&mut wire), sets);
    // A lone replica need not be reached by others.
    assert_eq!(create(&mut wire, placed("lone", &[&[3], &[1]])), done());
    assert_eq!(super::leaders(&mut wire, "lone"), [3, 1]);
    let counted = |num_partitions, replication_factor| CreatableTopic {
        num_partitions,
        replication_factor,
        ..placed("new", &[&[1]])
    };
    let invalid = ErrorCode::InvalidReplicaAssignment;
    for (topic, code, sentence) in [
        (
            placed("new", &[&[1, 2], &[1]]),
            invalid,
            "not consistent with previous partitions, which have 2 replica(s)",
        ),
        (placed("new", &[&[1, 3]]), invalid, "--peer"),
        (placed("new", &[&[4]]), invalid, "broker 4"),
        (
            counted(1, -1),
            ErrorCode::InvalidRequest,
            "numPartitions was not set to -1",
        ),
        (
            counted(-1, 1),
            ErrorCode::InvalidRequest,
            "replication factor was not set to -1",
        ),
    ] {
        let (found, told) = create(&mut wire, topic);
        assert_eq!(found, code, "{told}");
        assert!(told.contains(sentence), "{told:?} does not say {sentence:?}");
    }
    let mut widen = |count, sets: &[&[i32]]| {
        let assignment = |brokers: &&[i32]| CreatePartitionsAssignment {
            broker_ids: brokers.to_vec(),
        };
        let request = CreatePartitionsRequest {
            topics: vec![CreatePartitionsTopic {
                name: "orders".into(),
                count,
                assignments: Some(sets.iter().map(assignment).collect()),
            }],
            timeout_ms: 10_000,
            validate_only: false,
        };
        let result = wire.call(3, &request).results.remove(0);
        told(result.error_code, result.error_message)
    };
    assert_eq!(widen(5, &[&[1, 2]]).0, invalid, "one is missing");
    assert_eq!(widen(4, &[&[1]]).0, invalid, "the others have two");
    assert_eq!(widen(4, &[&[1, 3]]).0, invalid, "nobody reaches the third");
    assert_eq!(widen(5, &[&[1, 2], &[2, 1]]), done());
    let expected = [&sets[..], &[&[1, 2], &[2, 1]]].concat();
    assert_eq!(found(&mut wire), expected);
    let mut wires: BTreeMap<i32, Wire> = [(1, founder.connect()), (2, nodes[0].connect())].into();
    for index in 0..5 {
        append_at_leader(&mut wires, index, "there");
        assert_eq!(values_at_leader(&mut wires, index), ["there"]);
    }
}

#[test]
fn a_node_is_unregistered_once_it_is_stopped_and_holds_nothing() {
    let (founder, peers) = founder();
    let (second, third) = (joined_in_reach(&peers), joined_in_reach(&peers));
    let mut wire = founder.connect();
    assert_eq!(create(&mut wire, placed("orders", &[&[2]])), done());
    let unregister = |wire: &mut Wire, broker_id| {
        let answer = wire.call(0, &UnregisterBrokerRequest { broker_id });
        told(answer.error_code, answer.error_message)
    };
    let unknown = (
        ErrorCode::BrokerIdNotRegistered,
        "Broker ID 9 is not currently registered".to_owned(),
    );
    assert_eq!(unregister(&mut wire, 9), unknown);
    let refused = |outcome: &Told, sentence: &str| {
        outcome.0 == ErrorCode::InvalidRequest && outcome.1.contains(sentence)
    };
    eventually("all are known to run", || {
        (1..=3).all(|node| refused(&unregister(&mut wire, node), "stop it first"))
    });
    drop(second);
    eventually("it holds something", || {
        refused(&unregister(&mut wire, 2), "drain it first")
    });
    drop(third);
    eventually("one that holds nothing is unregistered", || {
        unregister(&mut wire, 3) == done()
    });
    assert_eq!(unregister(&mut wire, 3).0, ErrorCode::BrokerIdNotRegistered);
    let brokers = metadata(&mut wire).brokers.into_iter();
    assert_eq!(brokers.map(|broker| broker.node_id).collect::<Vec<_>>(), [1, 2]);
}
