//! Topics made and made wider on purpose: CreateTopics and CreatePartitions.

use kafka_wire::create_partitions::{CreatePartitionsAssignment, CreatePartitionsTopic};
use kafka_wire::create_topics::{CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig};
use kafka_wire::{CreatePartitionsRequest, CreateTopicsRequest, ErrorCode, Text};
use record::TopicId;

use crate::ask::look;
use crate::support::{TestNode, Wire, batch, creatable, now_ms};

const NONE: i16 = 0;

fn topic(name: &str, num_partitions: i32, replication_factor: i16) -> CreatableTopic {
    CreatableTopic {
        replication_factor,
        ..creatable(name, num_partitions)
    }
}

/// Creates one topic and answers the error and its message.
fn create(wire: &mut Wire, topic: CreatableTopic) -> (i16, String) {
    let mut response = wire.call(
        7,
        &CreateTopicsRequest {
            topics: vec![topic],
            ..CreateTopicsRequest::default()
        },
    );
    let result = response.topics.remove(0);
    (
        result.error_code,
        result
            .error_message
            .map_or_else(String::new, |message| message.to_string()),
    )
}

#[test]
fn configs_of_more_topics_than_anybody_reads_are_not_told() {
    let node = TestNode::start();
    let request = CreateTopicsRequest {
        topics: (0..1_010)
            .map(|number| topic(&format!("t{number}"), 1, 1))
            .collect(),
        validate_only: true,
        ..CreateTopicsRequest::default()
    };
    let told = node.connect().call(7, &request).topics;
    let (with, without) = told.split_at(1_000);
    assert!(
        with.iter()
            .all(|topic| topic.error_code == NONE && topic.configs.is_some())
    );
    assert_eq!(without.len(), 10);
    for topic in without {
        assert_eq!((topic.error_code, &topic.configs), (NONE, &None));
        assert_ne!(
            topic.topic_config_error_code, NONE,
            "it is said that they are not told"
        );
    }
}

#[test]
fn created_topics_are_told_with_counts_configs_and_ids() {
    let node = TestNode::start_with(&[
        ("topics.default_partitions", "4"),
        ("topics.defaults.segment.ms", "5000"),
    ]);
    let mut wire = node.connect();
    for version in 2..=7 {
        let name = format!("made-{version}");
        let config = CreatableTopicConfig {
            name: "retention.ms".into(),
            value: Some("1000".into()),
        };
        let wanted = CreatableTopic {
            configs: vec![config],
            ..topic(&name, -1, -1)
        };
        let request = CreateTopicsRequest {
            topics: vec![wanted],
            ..CreateTopicsRequest::default()
        };
        let result = wire.call(version, &request).topics.remove(0);
        assert_eq!((result.error_code, result.name.as_str()), (NONE, name.as_str()));
        if version >= 5 {
            assert_eq!((result.num_partitions, result.replication_factor), (4, 1));
            let configs = result.configs.expect("all configs are told");
            let told = |name: &str| {
                let config = configs
                    .iter()
                    .find(|config| config.name == name)
                    .expect("a known config");
                (
                    config.value.as_deref().map(str::to_owned).unwrap_or_default(),
                    config.config_source,
                )
            };
            assert_eq!(told("retention.ms"), ("1000".into(), 1));
            assert_eq!(told("segment.ms"), ("5000".into(), 4));
            assert_eq!(told("cleanup.policy"), ("delete".into(), 5));
        }
        assert_eq!(result.topic_id != TopicId::default(), version >= 7);
        assert_eq!(look(&mut wire, &name).partitions.len(), 4);
    }
}

#[test]
fn topics_that_cannot_be_are_refused_with_a_sentence() {
    let node = TestNode::start_with(&[("limits.partitions", "20")]);
    let mut wire = node.connect();
    wire.create_topic("taken.name", 1, &[]);
    let assignment = |index, brokers: &[i32]| CreatableReplicaAssignment {
        partition_index: index,
        broker_ids: brokers.to_vec(),
    };
    let assigned = |assignments: Vec<CreatableReplicaAssignment>| CreatableTopic {
        assignments,
        ..topic("assigned", -1, -1)
    };
    let config = |name: &str, value: Option<&str>| CreatableTopic {
        configs: vec![CreatableTopicConfig {
            name: name.into(),
            value: value.map(Text::from),
        }],
        ..topic("configured", 1, 1)
    };
    let twice = ["compact", "delete"].map(|policy| CreatableTopicConfig {
        name: "cleanup.policy".into(),
        value: Some(policy.into()),
    });
    let cases = [
        (topic("taken.name", 0, 1), ErrorCode::TopicAlreadyExists),
        (topic("taken_name", 1, 1), ErrorCode::InvalidTopicException),
        (topic("", 1, 1), ErrorCode::InvalidTopicException),
        (topic("..", 1, 1), ErrorCode::InvalidTopicException),
        (topic("with space", 1, 1), ErrorCode::InvalidTopicException),
        (topic(&"x".repeat(250), 1, 1), ErrorCode::InvalidTopicException),
        (topic("__cluster_metadata", 1, 1), ErrorCode::InvalidRequest),
        (
            topic("__transaction_state", 1, 1),
            ErrorCode::InvalidTopicException,
        ),
        (topic("__share_group_state", 1, 1), ErrorCode::InvalidRequest),
        (
            topic("__consumer_offsets", 1, 1),
            ErrorCode::InvalidTopicException,
        ),
        (topic("none", 0, 1), ErrorCode::InvalidPartitions),
        (topic("negative", -2, 1), ErrorCode::InvalidPartitions),
        (topic("huge", i32::MAX, 1), ErrorCode::PolicyViolation),
        (topic("full", 20, 1), ErrorCode::PolicyViolation),
        (topic("unreplicated", 1, 0), ErrorCode::InvalidReplicationFactor),
        (topic("replicated", 1, 3), ErrorCode::InvalidReplicationFactor),
        (config("no.such.config", Some("1")), ErrorCode::InvalidConfig),
        (config("retention.ms", Some("soon")), ErrorCode::InvalidConfig),
        (config("retention.ms", None), ErrorCode::InvalidConfig),
        (
            config("cleanup.policy", Some("archive")),
            ErrorCode::InvalidConfig,
        ),
        (
            CreatableTopic {
                configs: twice.to_vec(),
                ..topic("configured", 1, 1)
            },
            ErrorCode::InvalidRequest,
        ),
        (
            assigned(vec![assignment(0, &[1]), assignment(0, &[1])]),
            ErrorCode::InvalidReplicaAssignment,
        ),
        (
            assigned(vec![assignment(0, &[1]), assignment(2, &[1])]),
            ErrorCode::InvalidReplicaAssignment,
        ),
        (
            assigned(vec![assignment(-1, &[1])]),
            ErrorCode::InvalidReplicaAssignment,
        ),
        (
            assigned(vec![assignment(0, &[2])]),
            ErrorCode::InvalidReplicaAssignment,
        ),
        (
            assigned(vec![assignment(0, &[1, 1])]),
            ErrorCode::InvalidReplicaAssignment,
        ),
        (
            assigned(vec![assignment(0, &[])]),
            ErrorCode::InvalidReplicaAssignment,
        ),
        (
            CreatableTopic {
                num_partitions: 1,
                ..assigned(vec![assignment(0, &[1])])
            },
            ErrorCode::InvalidRequest,
        ),
    ];
    for (wanted, expected) in cases {
        let what = format!("{wanted:?}");
        let (error, message) = create(&mut wire, wanted);
        assert_eq!(ErrorCode::from_code(error), Some(expected), "{what}: {message}");
        assert!(!message.is_empty(), "{what}");
    }
    assert_eq!(
        create(
            &mut wire,
            assigned(vec![assignment(1, &[1]), assignment(0, &[1])])
        )
        .0,
        NONE
    );
    assert_eq!(look(&mut wire, "assigned").partitions.len(), 2);
}

#[test]
fn a_config_that_is_named_often_leaves_nothing_behind() {
    let node = TestNode::start();
    let mut wire = node.connect();
    // The one would be more than a batch of the metadata usually takes, the other more than one may ever take.
    let wordy = |name: &str, times| {
        let config = CreatableTopicConfig {
            name: "retention.ms".into(),
            value: Some("86400000".into()),
        };
        CreatableTopic {
            configs: vec![config; times],
            ..topic(name, 1, 1)
        }
    };
    for validate_only in [true, false] {
        let request = CreateTopicsRequest {
            topics: vec![wordy("orders", 20_000), wordy("events", 40_000)],
            validate_only,
            ..CreateTopicsRequest::default()
        };
        for refused in wire.call(7, &request).topics {
            let code = ErrorCode::from_code(refused.error_code);
            assert_eq!(
                code,
                Some(ErrorCode::InvalidRequest),
                "{:?}",
                refused.error_message
            );
        }
    }
    assert_eq!(
        look(&mut wire, "orders").error_code,
        ErrorCode::UnknownTopicOrPartition.code()
    );
    wire.create_topic("orders", 1, &[]);
    assert_eq!(
        wire.produce("orders", 0, batch(&[(now_ms(), "x")])).error_code,
        NONE
    );
    let node = node.kill_and_restart();
    let mut wire = node.connect();
    assert_eq!(
        wire.read_all("orders", 0, 0).len(),
        1,
        "the topic is still the same"
    );
}

#[test]
fn each_topic_of_a_request_stands_for_itself() {
    let node = TestNode::start_with(&[("limits.partitions", "10")]);
    let mut wire = node.connect();
    let topics = vec![
        topic("a", 6, 1),
        topic("twice", 1, 1),
        topic("b", 6, 1),
        topic("twice", 1, 1),
        topic("c", 4, 1),
    ];
    let request = CreateTopicsRequest {
        topics,
        ..CreateTopicsRequest::default()
    };
    for validate_only in [true, false] {
        let response = wire.call(
            7,
            &CreateTopicsRequest {
                validate_only,
                ..request.clone()
            },
        );
        let told: Vec<_> = response
            .topics
            .iter()
            .map(|topic| {
                (
                    topic.name.as_str(),
                    ErrorCode::from_code(topic.error_code).expect("a known code"),
                )
            })
            .collect();
        let expected = [
            ("a", ErrorCode::None),
            ("twice", ErrorCode::InvalidRequest),
            ("b", ErrorCode::PolicyViolation),
            ("c", ErrorCode::None),
        ];
        assert_eq!(told, expected, "together they keep within the limit");
        let exists = look(&mut wire, "a").error_code == NONE;
        assert_eq!(exists, !validate_only, "what is only validated is not made");
    }
}

#[test]
fn a_topic_gets_wider_and_never_narrower() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 2, &[]);
    let more = |name: &str, count, assignments: Option<&[&[i32]]>| CreatePartitionsTopic {
        name: name.into(),
        count,
        assignments: assignments.map(|all| {
            all.iter()
                .map(|brokers| CreatePartitionsAssignment {
                    broker_ids: brokers.to_vec(),
                })
                .collect()
        }),
    };
    let cases = [
        (more("orders", 2, None), ErrorCode::InvalidPartitions),
        (more("orders", 1, None), ErrorCode::InvalidPartitions),
        (more("orders", i32::MAX, None), ErrorCode::PolicyViolation),
        (more("nowhere", 3, None), ErrorCode::UnknownTopicOrPartition),
        (
            more("orders", 4, Some(&[&[1]])),
            ErrorCode::InvalidReplicaAssignment,
        ),
        (
            more("orders", 3, Some(&[&[7]])),
            ErrorCode::InvalidReplicaAssignment,
        ),
        (more("orders", 3, Some(&[&[1]])), ErrorCode::None),
        (more("orders", 5, None), ErrorCode::None),
    ];
    for version in 0..=3 {
        let twice = vec![more("orders", 9, None), more("orders", 10, None)];
        let request = CreatePartitionsRequest {
            topics: twice,
            timeout_ms: 5000,
            validate_only: false,
        };
        let told: Vec<i16> = wire
            .call(version, &request)
            .results
            .iter()
            .map(|result| result.error_code)
            .collect();
        assert_eq!(told, [ErrorCode::InvalidRequest.code()], "neither is made");
    }
    for (wanted, expected) in cases {
        let what = format!("{wanted:?}");
        let request = CreatePartitionsRequest {
            topics: vec![wanted],
            timeout_ms: 5000,
            validate_only: false,
        };
        let result = wire.call(3, &request).results.remove(0);
        assert_eq!(
            ErrorCode::from_code(result.error_code),
            Some(expected),
            "{what}: {:?}",
            result.error_message
        );
    }
    assert_eq!(look(&mut wire, "orders").partitions.len(), 5);
    for index in 0..5 {
        assert_eq!(
            wire.produce("orders", index, batch(&[(now_ms(), "x")]))
                .error_code,
            NONE
        );
    }
}

/// Scripts look for these words.
#[test]
fn what_cannot_be_made_is_told_in_kafkas_words() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders.new", 2, &[]);
    let with = |config: &str, value: &str| CreatableTopic {
        configs: vec![CreatableTopicConfig {
            name: config.into(),
            value: Some(value.into()),
        }],
        ..topic("made", 1, 1)
    };
    let assigned = |brokers: &[i32]| CreatableTopic {
        assignments: vec![CreatableReplicaAssignment {
            partition_index: 0,
            broker_ids: brokers.to_vec(),
        }],
        ..topic("made", -1, -1)
    };
    for (wanted, words) in [
        (topic("orders.new", 1, 1), "Topic 'orders.new' already exists."),
        (
            topic("orders_new", 1, 1),
            "Topic 'orders_new' collides with existing topic: orders.new",
        ),
        (
            topic("", 1, 1),
            "Topic name is invalid: the empty string is not allowed",
        ),
        (topic("..", 1, 1), "Topic name is invalid: '..' is not allowed"),
        (
            topic(&"x".repeat(250), 1, 1),
            "is longer than the max allowed length 249",
        ),
        (
            topic("a b", 1, 1),
            "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
        ),
        (
            topic("made", 0, 1),
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            topic("made", 1, 0),
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            topic("made", 1, 3),
            "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because \
             only 1 broker(s) are registered.",
        ),
        (with("nonsense", "1"), "Unknown topic config name: nonsense"),
        (
            with("retention.ms", "soon"),
            "Invalid value soon for configuration retention.ms: ",
        ),
        (
            with("cleanup.policy", "archive"),
            "Invalid value archive for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            assigned(&[9]),
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            assigned(&[1, 1]),
            "The manual partition assignment includes the broker 1 more than once.",
        ),
    ] {
        let (code, told) = create(&mut wire, wanted);
        assert_ne!(code, NONE, "{words}");
        assert!(told.contains(words), "{told:?} is not {words:?}");
    }
    for (count, words) in [
        (2, "Topic already has 2 partition(s)."),
        (
            1,
            "The topic orders.new currently has 2 partition(s); 1 would not be an increase.",
        ),
    ] {
        let request = CreatePartitionsRequest {
            topics: vec![CreatePartitionsTopic {
                name: "orders.new".into(),
                count,
                assignments: None,
            }],
            ..CreatePartitionsRequest::default()
        };
        let told = wire.call(3, &request).results.remove(0);
        assert_eq!(told.error_message.as_deref(), Some(words));
    }
}
