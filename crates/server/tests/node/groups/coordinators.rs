//! Where coordinators are, and the topic that they keep groups in: clients can see it, and nothing that they ask of it takes
//! groups away.

use kafka_wire::{ErrorCode, FindCoordinatorRequest, Text};

use super::{GROUPS, ORDERS, code, commit, committed, find_coordinator, start};
use crate::ask::configs::{TOPIC, told};
use crate::ask::{deletion, look_at_all, trim, widening};
use crate::support::{TestNode, batch, now_ms};

const TIMEOUT_MS: i32 = 10_000;

#[test]
fn a_coordinator_is_found_in_every_version() {
    let node = TestNode::start();
    let mut wire = node.connect();
    for version in 0..=6 {
        let request = FindCoordinatorRequest {
            key: Text::from("readers"),
            key_type: 0,
            coordinator_keys: vec![Text::from("readers"), Text::from("writers")],
        };
        let answer = wire.call(version, &request);
        let port = i32::from(node.address().port());
        match version {
            ..4 => assert_eq!((answer.error_code, answer.node_id, answer.port), (0, 1, port)),
            _ => {
                let found: Vec<_> = answer
                    .coordinators
                    .iter()
                    .map(|found| (found.key.as_str(), found.error_code, found.node_id, found.port))
                    .collect();
                assert_eq!(found, [("readers", 0, 1, port), ("writers", 0, 1, port)]);
            }
        }
    }
    let transaction = FindCoordinatorRequest {
        key: Text::from("mine"),
        key_type: 1,
        ..FindCoordinatorRequest::default()
    };
    let found = wire.call(3, &transaction);
    assert_eq!((code(found.error_code), found.node_id), (ErrorCode::None, 1));
    let shares = FindCoordinatorRequest {
        key_type: 2,
        ..transaction
    };
    assert_eq!(code(wire.call(3, &shares).error_code), ErrorCode::InvalidRequest);
}

#[test]
fn the_groups_topic_is_the_nodes_own() {
    let node = TestNode::start();
    let mut wire = node.connect();
    find_coordinator(&mut wire);
    let topics = look_at_all(&mut wire);
    assert_eq!(topics.len(), 1);
    assert!(topics[0].is_internal && topics[0].name.as_deref() == Some(GROUPS));
    assert_eq!(told(&mut wire, TOPIC, GROUPS, "cleanup.policy").0, "compact");

    let produced = wire.produce(GROUPS, 0, batch(&[(now_ms(), "x")]));
    assert_eq!(code(produced.error_code), ErrorCode::InvalidTopicException);
    let why = produced.error_message.as_deref();
    assert_eq!(why, Some("only the node itself writes to this topic"));
    let deleted = wire.call(5, &deletion(GROUPS, TIMEOUT_MS)).responses.remove(0);
    assert_eq!(code(deleted.error_code), ErrorCode::InvalidTopicException);
}

#[test]
fn the_groups_topic_cannot_be_trimmed_or_widened() {
    let (node, mut wire) = start();
    let told = commit(&mut wire, 8, ("readers", "", -1), ORDERS, &[(0, 7)]);
    assert_eq!(told, [ErrorCode::None]);
    let everything = trim(GROUPS, &[(0, -1), (1, -1), (999, -1)], TIMEOUT_MS);
    let trimmed = wire.call(2, &everything).topics.remove(0).partitions;
    let codes: Vec<ErrorCode> = trimmed
        .iter()
        .map(|partition| code(partition.error_code))
        .collect();
    let own = ErrorCode::InvalidTopicException;
    assert_eq!(codes, [own, own, ErrorCode::UnknownTopicOrPartition]);
    let widened = wire.call(3, &widening(GROUPS, 50, TIMEOUT_MS)).results.remove(0);
    assert_eq!(code(widened.error_code), ErrorCode::InvalidTopicException);
    let node = node.restart();
    assert_eq!(committed(&mut node.connect(), "readers"), [(0, 7)]);
}
