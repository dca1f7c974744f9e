//! Which topics there are: Metadata, the topics that it brings into being, and DeleteTopics.

use kafka_wire::delete_topics::DeleteTopicState;
use kafka_wire::metadata::MetadataRequestTopic;
use kafka_wire::{DeleteTopicsRequest, ErrorCode, MetadataRequest};
use record::TopicId;

use crate::ask::{look, named};
use crate::support::{TestNode, Wire, batch, now_ms};

const NONE: i16 = 0;

#[test]
fn metadata_tells_brokers_topics_and_leaders_in_every_version() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 3, &[]);
    for version in 0..=13 {
        let all = match version {
            0 => MetadataRequest {
                topics: Some(Vec::new()),
                ..MetadataRequest::default()
            },
            _ => MetadataRequest {
                topics: None,
                ..MetadataRequest::default()
            },
        };
        let response = wire.call(version, &all);
        assert_eq!(response.brokers.len(), 1, "version {version}");
        let broker = &response.brokers[0];
        assert_eq!((broker.node_id, broker.host.as_str()), (1, "127.0.0.1"));
        assert_eq!(broker.port, i32::from(node.address().port()));
        assert_eq!(
            response.topics.len(),
            1,
            "the internal partition is nobody's topic"
        );
        let topic = &response.topics[0];
        assert_eq!(
            (topic.error_code, topic.name.as_deref(), topic.is_internal),
            (NONE, Some("orders"), false)
        );
        assert_eq!(topic.topic_id == TopicId::default(), version < 10);
        for (index, partition) in topic.partitions.iter().enumerate() {
            assert_eq!(
                (partition.partition_index, partition.leader_id),
                (index as i32, 1)
            );
            assert_eq!(
                (&partition.replica_nodes[..], &partition.isr_nodes[..]),
                (&[1][..], &[1][..])
            );
            assert_eq!(partition.leader_epoch, if version >= 7 { 0 } else { -1 });
        }
        assert_eq!(topic.partitions.len(), 3);
        if version >= 1 {
            assert_eq!(response.controller_id, 1);
            assert!(
                wire.call(version, &named(&[])).topics.is_empty(),
                "an empty list means none"
            );
        }
        if version >= 2 {
            assert_eq!(response.cluster_id.expect("a cluster has an id").len(), 32);
        }
        if version >= 8 {
            assert_eq!(topic.topic_authorized_operations, i32::MIN);
        }
    }
}

#[test]
fn topics_are_found_by_id_once_the_version_has_ids() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let id = look(&mut wire, "orders").topic_id;
    let by_id = |topic_id| MetadataRequest {
        topics: Some(vec![MetadataRequestTopic { name: None, topic_id }]),
        ..MetadataRequest::default()
    };
    let found = wire.call(12, &by_id(id)).topics.remove(0);
    assert_eq!((found.error_code, found.name.as_deref()), (NONE, Some("orders")));
    let unknown = wire.call(13, &by_id(TopicId([9; 16]))).topics.remove(0);
    assert_eq!(
        (unknown.error_code, unknown.name),
        (ErrorCode::UnknownTopicId.code(), None)
    );
    let internal = wire
        .call(
            12,
            &by_id(TopicId([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])),
        )
        .topics
        .remove(0);
    assert_eq!(internal.error_code, ErrorCode::UnknownTopicId.code());
    for version in [10, 11] {
        let early = wire.call(version, &by_id(id)).topics.remove(0);
        assert_eq!(early.error_code, ErrorCode::InvalidRequest.code());
    }
}

#[test]
fn a_topic_that_is_only_named_comes_into_being() {
    let node = TestNode::start_with(&[("topics.default_partitions", "2")]);
    let mut wire = node.connect();
    assert_eq!(
        look(&mut wire, "later").error_code,
        ErrorCode::UnknownTopicOrPartition.code()
    );
    let response = wire.call(
        0,
        &named(&["later", "later", "not/a/name", "__cluster_metadata", "later"]),
    );
    let told: Vec<_> = response
        .topics
        .iter()
        .map(|topic| (topic.name.as_deref(), topic.error_code))
        .collect();
    let invalid = ErrorCode::InvalidTopicException.code();
    assert_eq!(
        told,
        [
            (Some("later"), NONE),
            (Some("not/a/name"), invalid),
            // A name like others, of a topic that nobody can make.
            (
                Some("__cluster_metadata"),
                ErrorCode::UnknownTopicOrPartition.code()
            )
        ],
        "each name is answered once"
    );
    assert_eq!(response.topics[0].partitions.len(), 2);
    // Every other connection sees it, whatever core it landed on.
    for _ in 0..4 {
        assert_eq!(look(&mut node.connect(), "later").error_code, NONE);
    }
    let collides = wire.call(12, &named(&["a.b", "a_b"]));
    assert_eq!(
        collides
            .topics
            .iter()
            .map(|topic| topic.error_code)
            .collect::<Vec<_>>(),
        [NONE, invalid]
    );
}

#[test]
fn connections_that_race_to_create_a_topic_all_get_it() {
    let node = TestNode::start();
    let mut wires: Vec<Wire> = (0..8).map(|_| node.connect()).collect();
    let frames: Vec<Vec<u8>> = wires
        .iter_mut()
        .map(|wire| wire.frame(12, &named(&["raced"])))
        .collect();
    for (wire, frame) in wires.iter_mut().zip(&frames) {
        wire.send(frame);
    }
    let mut ids: Vec<TopicId> = Vec::new();
    for wire in &mut wires {
        let (_, response) = wire.receive::<MetadataRequest>(12);
        assert_eq!(response.topics[0].error_code, NONE);
        ids.push(response.topics[0].topic_id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "one topic, not several");
}

#[test]
fn a_long_list_of_names_comes_into_being_step_by_step() {
    let node = TestNode::start();
    let mut wire = node.connect();
    let names: Vec<String> = (0..1_001).map(|number| format!("t{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let later = |wire: &mut Wire| -> Vec<i16> {
        let response = wire.call(12, &named(&names));
        let errors = response.topics.iter().map(|topic| topic.error_code);
        errors.filter(|error| *error != NONE).collect()
    };
    assert_eq!(
        later(&mut wire),
        [ErrorCode::LeaderNotAvailable.code()],
        "clients ask again for these"
    );
    assert!(later(&mut wire).is_empty());
}

#[test]
fn a_node_that_shall_not_create_topics_does_not() {
    let node = TestNode::start_with(&[("topics.auto_create", "false")]);
    let response = node.connect().call(12, &named(&["never"]));
    assert_eq!(
        response.topics[0].error_code,
        ErrorCode::UnknownTopicOrPartition.code()
    );
}

#[test]
fn deleted_topics_are_gone_with_their_records_and_come_back_empty() {
    let node = TestNode::start();
    let mut wire = node.connect();
    for version in 1..=6 {
        let name = format!("doomed-{version}");
        wire.create_topic(&name, 2, &[]);
        let first_id = look(&mut wire, &name).topic_id;
        assert_eq!(wire.produce(&name, 0, batch(&[(now_ms(), "x")])).base_offset, 0);
        let unknown = DeleteTopicState {
            name: Some("nowhere".into()),
            ..DeleteTopicState::default()
        };
        let by_id = DeleteTopicState {
            topic_id: first_id,
            ..DeleteTopicState::default()
        };
        let request = DeleteTopicsRequest {
            topics: if name.ends_with('6') {
                vec![by_id, unknown]
            } else {
                Vec::new()
            },
            topic_names: vec![name.as_str().into(), "nowhere".into()],
            timeout_ms: 5000,
        };
        let told: Vec<i16> = wire
            .call(version, &request)
            .responses
            .iter()
            .map(|topic| topic.error_code)
            .collect();
        let unknown = ErrorCode::UnknownTopicOrPartition.code();
        assert_eq!(told, [NONE, unknown], "version {version}");
        assert_eq!(
            look(&mut wire, &name).error_code,
            ErrorCode::UnknownTopicOrPartition.code()
        );
        let gone = wire.produce(&name, 0, batch(&[(now_ms(), "x")])).error_code;
        assert_eq!(gone, ErrorCode::UnknownTopicOrPartition.code());
        wire.create_topic(&name, 1, &[]);
        assert_ne!(look(&mut wire, &name).topic_id, first_id);
        assert!(wire.read_all(&name, 0, 0).is_empty());
    }
    let states = vec![
        DeleteTopicState {
            name: None,
            topic_id: TopicId([3; 16]),
        },
        DeleteTopicState::default(),
        DeleteTopicState {
            name: Some("doomed-1".into()),
            topic_id: TopicId([3; 16]),
        },
    ];
    let request = DeleteTopicsRequest {
        topics: states,
        timeout_ms: 5000,
        ..DeleteTopicsRequest::default()
    };
    let told: Vec<_> = wire
        .call(6, &request)
        .responses
        .iter()
        .map(|topic| ErrorCode::from_code(topic.error_code))
        .collect();
    let invalid = Some(ErrorCode::InvalidRequest);
    assert_eq!(told, [Some(ErrorCode::UnknownTopicId), invalid, invalid]);
    assert_eq!(look(&mut wire, "doomed-1").error_code, NONE);
}

#[test]
fn a_topic_that_is_named_twice_is_not_deleted() {
    let node = TestNode::start();
    let mut wire = node.connect();
    let topic = |wire: &mut Wire, name: &str| {
        wire.create_topic(name, 1, &[]);
        look(wire, name).topic_id
    };
    let by_name = |name: &str| DeleteTopicState {
        name: Some(name.into()),
        ..DeleteTopicState::default()
    };
    let by_id = |topic_id| DeleteTopicState { name: None, topic_id };
    let [_, b, c, d] = ["a", "b", "c", "d"].map(|name| topic(&mut wire, name));
    let request = DeleteTopicsRequest {
        topics: vec![
            by_name("a"),
            by_id(b),
            by_id(c),
            by_name("a"),
            by_name("c"),
            by_id(b),
            by_id(d),
        ],
        timeout_ms: 5000,
        ..DeleteTopicsRequest::default()
    };
    let told = wire.call(6, &request).responses;
    let told: Vec<_> = told
        .iter()
        .map(|topic| (topic.name.as_deref(), topic.topic_id, topic.error_code))
        .collect();
    let none = TopicId::default();
    let twice = ErrorCode::InvalidRequest.code();
    let expected = [
        (Some("a"), none, twice),
        (None, b, twice),
        // By its id and by its name.
        (None, c, twice),
        (Some("c"), none, twice),
        (Some("d"), d, NONE),
    ];
    assert_eq!(told, expected);
    for (name, is_there) in [("a", true), ("b", true), ("c", true), ("d", false)] {
        assert_eq!(look(&mut wire, name).error_code == NONE, is_there, "{name}");
    }
    let names = DeleteTopicsRequest {
        topic_names: vec!["a".into(), "a".into()],
        timeout_ms: 5000,
        ..DeleteTopicsRequest::default()
    };
    let told = wire.call(5, &names).responses;
    assert_eq!((told.len(), told[0].error_code), (1, twice));
    assert_eq!(look(&mut wire, "a").error_code, NONE);
}
