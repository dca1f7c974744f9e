//! Consumer groups of a cluster: each is coordinated by the leader of its partition, whichever node that is.

use std::collections::BTreeMap;

use kafka_wire::delete_records::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_wire::offset_fetch::OffsetFetchRequestTopic;
use kafka_wire::{
    DeleteRecordsRequest, ErrorCode, FindCoordinatorRequest, OffsetCommitResponse, OffsetFetchRequest,
};
use record::TopicId;

use super::{created, founder, joined, metadata, three_with_votes};
use crate::support::groups::{commit_request, patiently};
use crate::support::{TestNode, Wire, eventually};

#[test]
fn groups_are_coordinated_by_the_node_that_leads_their_partition() {
    let (founder, peers) = founder();
    let nodes = [founder, joined(&peers)];
    let mut wires = nodes.each_ref().map(TestNode::connect);
    assert_eq!(created(&mut wires[1], "orders", 1), 0);
    let mut coordinators = Vec::new();
    for group in (0..8).map(|number| format!("group-{number}")) {
        let find = FindCoordinatorRequest {
            key: group.as_str().into(),
            ..FindCoordinatorRequest::default()
        };
        let found = wires.each_mut().map(|wire| {
            let found = patiently(|| wire.call(2, &find), |found| found.error_code);
            (found.node_id, found.port)
        });
        assert_eq!(found[0], found[1], "both nodes know the coordinator of {group}");
        let (node, port) = found[0];
        assert_eq!(port, i32::from(nodes[node as usize - 1].address().port()));
        coordinators.push(node);
        let code = |answer: &OffsetCommitResponse| {
            let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
            partitions.map(|partition| partition.error_code).sum::<i16>()
        };
        for (number, wire) in (1..).zip(&mut wires) {
            let commit = commit_request((&group, "", -1), ("orders", TopicId::default()), &[(0, 7)]);
            match number == node {
                true => drop(patiently(|| wire.call(8, &commit), code)),
                false => assert_eq!(code(&wire.call(8, &commit)), ErrorCode::NotCoordinator.code()),
            }
        }
    }
    assert!(
        coordinators.contains(&1) && coordinators.contains(&2),
        "{coordinators:?}"
    );
}

/// The node that coordinates a group now, by what it answers to a commit of an offset of `orders`.
fn commit_at_coordinator(wires: &mut BTreeMap<i32, Wire>, topic: TopicId, offset: i64) -> i32 {
    let commit = commit_request(("readers", "", -1), ("orders", topic), &[(0, offset)]);
    let mut coordinator = None;
    eventually("somebody coordinates the group", || {
        coordinator = wires.iter_mut().find_map(|(node, wire)| {
            let answer = wire.call(8, &commit);
            let codes = answer.topics.iter().flat_map(|topic| &topic.partitions);
            codes
                .map(|partition| partition.error_code)
                .all(|code| code == 0)
                .then_some(*node)
        });
        coordinator.is_some()
    });
    coordinator.expect("it was found")
}

/// The offset that the group has committed, at whichever node tells it.
pub(super) fn committed_at_coordinator(wires: &mut BTreeMap<i32, Wire>) -> i64 {
    let request = OffsetFetchRequest {
        group_id: "readers".into(),
        topics: Some(vec![OffsetFetchRequestTopic {
            name: "orders".into(),
            partition_indexes: vec![0],
        }]),
        ..OffsetFetchRequest::default()
    };
    let mut committed = None;
    eventually("the coordinator has read its log", || {
        committed = wires.values_mut().find_map(|wire| {
            let answer = wire.call(5, &request);
            (answer.error_code == 0).then(|| answer.topics[0].partitions[0].committed_offset)
        });
        committed.is_some()
    });
    committed.expect("it was told")
}

/// Its offsets are on several nodes, and the log that keeps them stays short.
#[test]
fn groups_survive_the_loss_of_their_coordinator() {
    const COMMITS: i64 = 400;
    let [founder, second, third] = three_with_votes();
    let mut wire = second.connect();
    let mut nodes = [founder, second, third].map(Some);
    let mut wires: BTreeMap<i32, Wire> = (1..).zip(nodes.iter().flatten().map(TestNode::connect)).collect();
    assert_eq!(created(&mut wire, "orders", 1), 0);
    let topic = metadata(&mut wire).topics.remove(0).topic_id;
    let mut offset = 0;
    for _ in 0..3 {
        let mut coordinator = 0;
        for _ in 0..COMMITS {
            offset += 1;
            coordinator = commit_at_coordinator(&mut wires, topic, offset);
        }
        wires.remove(&coordinator);
        let place = coordinator as usize - 1;
        let node = nodes[place].take().expect("it is there");
        let back = node.restart_with(&[("peer.listen", "127.0.0.1:0")], |_| {
            assert_eq!(committed_at_coordinator(&mut wires), offset);
            offset += 1;
            assert_ne!(commit_at_coordinator(&mut wires, topic, offset), coordinator);
        });
        wires.insert(coordinator, back.connect());
        nodes[place] = Some(back);
        assert_eq!(committed_at_coordinator(&mut wires), offset);
    }
    for wire in wires.values_mut() {
        let deletion = DeleteRecordsRequest {
            topics: vec![DeleteRecordsTopic {
                name: "__consumer_offsets".into(),
                partitions: [0, 1]
                    .map(|partition_index| DeleteRecordsPartition {
                        partition_index,
                        offset: -1,
                    })
                    .to_vec(),
            }],
            timeout_ms: 5_000,
        };
        let answer = wire.call(2, &deletion);
        let codes = answer.topics.iter().flat_map(|topic| &topic.partitions);
        assert!(
            codes.map(|partition| partition.error_code).all(|code| code != 0),
            "groups are not deleted so"
        );
    }
    let starts = wires.values_mut().flat_map(|wire| {
        let fetched = [0, 1].map(|index| wire.fetch("__consumer_offsets", index, offset));
        fetched.map(|partition| partition.log_start_offset)
    });
    assert!(
        starts.max().is_some_and(|start| start > COMMITS),
        "the log was written anew"
    );
}
