//! Members by the consumer protocol (KIP-848): the node assigns.

use kafka_wire::{ConsumerGroupHeartbeatRequest, CreateTopicsRequest, ErrorCode, Text};

use super::{code, hear, heartbeat, joining, start};
use crate::support::{creatable, eventually};

#[test]
fn a_consumer_group_gets_its_partitions_from_the_node() {
    let (_node, mut wire) = start();
    let joined = hear(&mut wire, &joining("one"));
    assert_eq!(
        code(joined.error_code),
        ErrorCode::None,
        "{:?}",
        joined.error_message
    );
    let assigned = joined.assignment.expect("all partitions are free");
    assert_eq!(assigned.topic_partitions[0].partitions, [0, 1]);
    assert!(joined.member_epoch > 0 && joined.heartbeat_interval_ms > 0);

    let nonsense = wire.call(1, &heartbeat("one", -7));
    assert_eq!(code(nonsense.error_code), ErrorCode::InvalidRequest);
    let hostile = ConsumerGroupHeartbeatRequest {
        subscribed_topic_names: None,
        subscribed_topic_regex: Some(Text::from("(a{1000}){1000}")),
        ..joining("two")
    };
    assert_eq!(
        code(wire.call(1, &hostile).error_code),
        ErrorCode::InvalidRegularExpression
    );
    let left = wire.call(1, &heartbeat("one", -1));
    assert_eq!((code(left.error_code), left.member_epoch), (ErrorCode::None, -1));
}

#[test]
fn a_member_that_comes_back_as_another_instance_frees_the_first() {
    let (_node, mut wire) = start();
    let as_instance = |member: &str, instance: &str| ConsumerGroupHeartbeatRequest {
        instance_id: Some(Text::from(instance)),
        ..joining(member)
    };
    for (member, instance) in [("ann", "one"), ("ann", "two")] {
        let heard = hear(&mut wire, &as_instance(member, instance));
        assert_eq!(code(heard.error_code), ErrorCode::None);
    }
    let left = hear(&mut wire, &heartbeat("ann", -1));
    assert_eq!(code(left.error_code), ErrorCode::None);
    for instance in ["one", "two"] {
        let heard = hear(&mut wire, &as_instance(instance, instance));
        assert_eq!(code(heard.error_code), ErrorCode::None, "{instance}");
    }
}

/// Coordinators are told of all topics of a request at once.
#[test]
fn topics_that_are_made_together_all_come_to_the_member() {
    let (_node, mut wire) = start();
    let by_pattern = ConsumerGroupHeartbeatRequest {
        subscribed_topic_names: None,
        subscribed_topic_regex: Some(Text::from("made-.*")),
        ..joining("ann")
    };
    let joined = hear(&mut wire, &by_pattern);
    assert_eq!(code(joined.error_code), ErrorCode::None);
    let names = ["made-1", "made-2", "made-3"];
    let make = CreateTopicsRequest {
        topics: names.map(|name| creatable(name, 1)).to_vec(),
        ..CreateTopicsRequest::default()
    };
    let made = wire.call(7, &make).topics;
    assert!(made.iter().all(|topic| topic.error_code == 0), "{made:?}");

    let mut epoch = joined.member_epoch;
    let mut has_topics = |count: usize| {
        let heard = wire.call(1, &heartbeat("ann", epoch));
        assert_eq!(code(heard.error_code), ErrorCode::None);
        epoch = heard.member_epoch;
        let assigned = heard.assignment;
        assigned.is_some_and(|assigned| assigned.topic_partitions.len() == count)
    };
    eventually("the member has all three", || has_topics(3));
}
