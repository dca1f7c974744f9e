//! The metadata as a whole: commands, plans, epochs over restarts, bytes there and back.

use proptest::prelude::*;

use record::DirectoryId;

use super::group_config::{HEARTBEAT_INTERVAL, SESSION_TIMEOUT};
use super::*;
use crate::DecodeError;
use crate::order::order_log_of;

pub(super) fn topic_id(number: u8) -> TopicId {
    TopicId([number; 16])
}

pub(super) fn start(node: i32) -> Command {
    Command::StartNode {
        node: NodeId(node),
        address: Address {
            host: "rope".into(),
            port: 9092,
        },
        home: None,
        rack: None,
    }
}

pub(super) fn new_topic(number: u8, name: &str, partition_count: i32, replica_count: i32) -> NewTopic {
    NewTopic {
        id: topic_id(number),
        name: name.into(),
        partition_count,
        replica_count,
        chosen: None,
        config: Vec::new(),
    }
}

pub(super) fn cluster_of(nodes: i32) -> Metadata {
    let mut image = Metadata::new(TopicConfig::new());
    image
        .apply(&Command::FormatCluster {
            cluster: ClusterId([9; 16]),
        })
        .expect("new");
    (0..nodes).for_each(|node| image.apply(&start(node)).expect("formatted"));
    image
}

/// A topic as it is planned where other nodes reach every node.
pub(super) fn planned(image: &Metadata, topic: &NewTopic, plans: &mut Plans) -> Command {
    let mut reached = image.clone();
    for (number, node) in (1..).zip(reached.nodes.values_mut()) {
        node.home.get_or_insert_with(|| home(number, 1, true));
    }
    reached.plan_topic(topic, plans).expect("valid")
}

fn create(image: &mut Metadata, topic: &NewTopic) {
    let command = planned(image, topic, &mut Plans::default());
    image.apply(&command).expect("planned");
}

#[test]
fn replicas_are_on_nodes_that_others_reach() {
    let mut image = cluster_of(3);
    let plan = |image: &Metadata, replicas, config| {
        let topic = NewTopic {
            config,
            ..new_topic(1, "a", 2, replicas)
        };
        image.plan_topic(&topic, &mut Plans::default())
    };
    let alone = PlanError::UnreachableNodes { got: 2, reachable: 0 };
    assert_eq!(plan(&image, 2, Vec::new()), Err(alone));
    assert_eq!(image.default_replicas(&[], 3), 1);
    for node in [0, 2] {
        let started = started_at_home(node, &home(u8::try_from(node).expect("small"), 1, true));
        image.apply(&started).expect("it starts");
    }
    assert_eq!(image.default_replicas(&[], 3), 2);
    let made = plan(&image, 2, Vec::new()).expect("two are reached");
    image.apply(&made).expect("planned");
    let replicas = |index| {
        image
            .topic(topic_id(1))
            .and_then(|topic| topic.replicas(index))
            .map(|set| set.to_vec())
    };
    assert_eq!(replicas(0), Some(vec![NodeId(0), NodeId(2)]));
    assert_eq!(replicas(1), Some(vec![NodeId(2), NodeId(0)]));
}

#[test]
fn compacted_topics_have_one_replica_until_all_nodes_take_logs_with_gaps() {
    let mut image = cluster_of(3);
    for node in 0..3 {
        let started = started_at_home(node, &home(u8::try_from(node).expect("small"), 1, true));
        image.apply(&started).expect("it starts");
    }
    let compacted = vec![ConfigChange::set("cleanup.policy", "compact")];
    assert_eq!(image.default_replicas(&compacted, 3), 1);
    assert_eq!(image.default_replicas(&[], 3), 3);
    let topic = |config| NewTopic {
        config,
        ..new_topic(1, "a", 1, 3)
    };
    let several = PlanError::CompactedReplicas {
        got: 3,
        level: FeatureLevel(1),
    };
    let refused = image.plan_topic(&topic(compacted.clone()), &mut Plans::default());
    assert_eq!(refused, Err(several.clone()));
    let made = image
        .plan_topic(&topic(Vec::new()), &mut Plans::default())
        .expect("three are reached");
    image.apply(&made).expect("planned");
    let wish = ConfigWish::Replace(vec![("cleanup.policy".into(), "compact".into())]);
    let target = ConfigTarget::Topic(topic_id(1));
    let refused = image.plan_configs(target, &wish, &mut Plans::default());
    assert_eq!(refused, Err(several));
    let level = FeatureLevel(3);
    image
        .apply(&Command::SetFeatureLevel { level })
        .expect("it is higher");
    assert_eq!(image.default_replicas(&compacted, 3), 3);
    let planned = image.plan_configs(target, &wish, &mut Plans::default());
    image
        .apply(&planned.expect("all nodes take it"))
        .expect("planned");
    let other = NewTopic {
        config: compacted,
        ..new_topic(2, "b", 1, 3)
    };
    let planned = image.plan_topic(&other, &mut Plans::default());
    image
        .apply(&planned.expect("all nodes take it"))
        .expect("planned");
}

fn sets(ids: &[&[i32]]) -> Vec<ReplicaSet> {
    let set = |ids: &&[i32]| ids.iter().copied().map(NodeId).collect();
    ids.iter().map(set).collect()
}

/// Three nodes that others reach, and one that they do not.
fn cluster_of_four() -> Metadata {
    let mut image = cluster_of(4);
    for node in 0..3 {
        let started = started_at_home(node, &home(u8::try_from(node).expect("small"), 1, true));
        image.apply(&started).expect("it starts");
    }
    image
}

fn chosen(number: u8, name: &str, replicas: i32, ids: &[&[i32]]) -> NewTopic {
    NewTopic {
        chosen: Some(sets(ids)),
        ..new_topic(number, name, i32::try_from(ids.len()).expect("few"), replicas)
    }
}

fn sets_of(image: &Metadata, number: u8) -> Vec<ReplicaSet> {
    let topic = image.topic(topic_id(number)).expect("it is there");
    image.partitions(topic).map(|state| state.replicas).collect()
}

#[test]
fn replicas_are_where_a_client_has_chosen_them() {
    let mut image = cluster_of_four();
    let plans = &mut Plans::default();
    let ids: [&[i32]; 3] = [&[2, 0], &[1, 2], &[2, 0]];
    let made = image.plan_topic(&chosen(1, "a", 2, &ids), plans).expect("valid");
    image.apply(&made).expect("planned");
    assert_eq!(sets_of(&image, 1), sets(&ids));
    let more = sets(&[&[0, 1], &[1, 0]]);
    let wider = image
        .plan_chosen_partitions(topic_id(1), 5, &more, plans)
        .expect("valid");
    image.apply(&wider).expect("planned");
    assert_eq!(sets_of(&image, 1)[3..], more);
    // Replicas that were chosen for the fourth and fifth are not good for others.
    let again = image.plan_chosen_partitions(topic_id(1), 5, &more, plans);
    assert!(matches!(again, Err(PlanError::PartitionCount { min: 6, .. })));
    let others = image.plan_chosen_partitions(topic_id(1), 6, &more, plans);
    assert_eq!(others, Err(PlanError::ChosenPartitions { got: 2, wanted: 1 }));
    // A lone replica need not be reached.
    let lone = image
        .plan_topic(&chosen(2, "b", 1, &[&[3], &[0]]), plans)
        .expect("valid");
    image.apply(&lone).expect("planned");
    assert_eq!(sets_of(&image, 2), sets(&[&[3], &[0]]));
}

#[test]
fn chosen_replicas_that_cannot_be_are_refused() {
    let mut image = cluster_of_four();
    let drain = image.plan_drain(NodeId(2), Some(Drain { to: None }));
    image.apply(&drain.expect("known")).expect("planned");
    let plans = &mut Plans::of(
        PlanLimits {
            topic_partitions_max: 3,
            replicas_max: 2,
            ..PlanLimits::default()
        },
        None,
    );
    let unreachable = |node| PlanError::Unreachable { node: NodeId(node) };
    let cases: [(i32, &[&[i32]], PlanError); 9] = [
        (
            2,
            &[&[0, 1], &[1]],
            PlanError::ChosenReplicas { got: 1, wanted: 2 },
        ),
        (1, &[&[]], PlanError::ChosenReplicas { got: 0, wanted: 1 }),
        (0, &[&[]], ApplyError::InvalidReplicaSet.into()),
        (2, &[&[0, 3]], unreachable(3)),
        (2, &[&[0, 2]], unreachable(2)),
        (1, &[&[2]], unreachable(2)),
        (2, &[&[1, 1]], ApplyError::InvalidReplicaSet.into()),
        (1, &[&[9]], ApplyError::UnknownNode { node: NodeId(9) }.into()),
        (
            1,
            &[&[0], &[0], &[0], &[0]],
            PlanError::PartitionCount {
                min: 1,
                max: 3,
                got: 4,
            },
        ),
    ];
    for (replicas, ids, expected) in cases {
        let refused = image.plan_topic(&chosen(1, "a", replicas, ids), plans);
        assert_eq!(refused, Err(expected), "{ids:?}");
    }
    let short = NewTopic {
        partition_count: 2,
        ..chosen(1, "a", 1, &[&[0]])
    };
    let refused = image.plan_topic(&short, plans);
    assert_eq!(refused, Err(PlanError::ChosenPartitions { got: 1, wanted: 2 }));
    let compacted = NewTopic {
        config: vec![ConfigChange::set("cleanup.policy", "compact")],
        ..chosen(1, "a", 2, &[&[0, 1]])
    };
    let refused = image.plan_topic(&compacted, plans);
    let level = FeatureLevel(1);
    assert_eq!(refused, Err(PlanError::CompactedReplicas { got: 2, level }));
    let undrain = image.plan_drain(NodeId(2), None).expect("known");
    image.apply(&undrain).expect("planned");
    let many = image.plan_topic(&chosen(1, "a", 3, &[&[0, 1, 2]]), plans);
    assert_eq!(many, Err(PlanError::ReplicasMax { got: 3, max: 2 }));
}

#[test]
fn one_order_is_for_topics_of_clients_where_all_nodes_know_of_it() {
    let total = || vec![ConfigChange::set("ropewalk.order", "total")];
    let ordered = |name: &str| NewTopic {
        config: total(),
        ..new_topic(1, name, 2, 1)
    };
    let started = |start: u64| {
        let mut image = cluster_of(1);
        let home = Some(Home {
            start,
            ..home(1, 1, true)
        });
        let address = Address {
            host: "rope".into(),
            port: 9092,
        };
        let start = Command::StartNode {
            node: NodeId(0),
            address,
            home,
            rack: None,
        };
        image.apply(&start).expect("it is known");
        image
    };
    let plans = &mut Plans::default();
    let alone = started(0);
    assert!(alone.plan_topic(&ordered("a"), plans).is_ok());
    let internal = alone.plan_topic(&ordered("__consumer_offsets"), plans);
    assert_eq!(internal, Err(PlanError::NoOrder(NoOrder::Internal)));
    let mut member = started(1);
    let several = Err(PlanError::NoOrder(NoOrder::Level(FeatureLevel::FIRST)));
    assert_eq!(member.plan_topic(&ordered("a"), plans), several);
    create(&mut member, &new_topic(1, "a", 2, 1));
    let target = ConfigTarget::Topic(topic_id(1));
    let wish = ConfigWish::Replace(vec![("ropewalk.order".into(), "total".into())]);
    assert_eq!(member.plan_configs(target, &wish, plans), several);
    let back = ConfigWish::Replace(vec![("ropewalk.order".into(), "partition".into())]);
    assert!(member.plan_configs(target, &back, plans).is_ok());
    let level = FeatureLevel::NEWEST;
    member
        .apply(&Command::SetFeatureLevel { level })
        .expect("it is higher");
    assert!(member.plan_configs(target, &wish, plans).is_ok());
}

/// Where the lane goes, by whatever way, its order goes.
#[test]
fn the_log_of_an_order_follows_its_lane() {
    let mut image = cluster_of_four();
    let level = FeatureLevel::NEWEST;
    image
        .apply(&Command::SetFeatureLevel { level })
        .expect("it is higher");
    let (ordered, log) = (topic_id(1), order_log_of(topic_id(1)));
    let mut wanted = new_topic(1, "ledger", 2, 2);
    wanted.config = vec![ConfigChange::set("ropewalk.order", "total")];
    create(&mut image, &wanted);
    let command = image.plan_order_log(ordered).expect("the topic is there");
    image.apply(&command).expect("planned");
    let here = |_| true;
    assert_eq!(image.orders_apart(here), []);
    assert!(image.due_replica_sets(9, here).is_empty());
    let (lane, kept) = ([ordered, log])
        .map(|topic| PartitionId { topic, index: 0 })
        .into();
    let leader = image.partition(lane).expect("it is there").leader;
    let set = image.topic(ordered).and_then(|topic| topic.replicas(0).cloned());
    let set = set.expect("it is there");
    let other = *set.iter().find(|node| **node != leader).expect("there are two");
    let command = image.plan_epoch(lane, other).expect("it is a replica");
    image.apply(&command).expect("planned");
    assert_eq!(
        image.orders_apart(|node| node != other),
        [],
        "it cannot lead more"
    );
    assert_eq!(image.orders_apart(here), [(kept, leader, other)]);
    let command = image
        .plan_succession(kept, leader, other)
        .expect("it is a replica");
    image.apply(&command).expect("planned");
    assert_eq!(image.orders_apart(here), []);
    let third = (0..3).map(NodeId).find(|node| !set.contains(node));
    let moved: ReplicaSet = [third.expect("there are three"), other].into();
    let command = image.plan_replicas(lane, &moved).expect("they are there");
    image.apply(&command).expect("planned");
    assert_eq!(image.due_replica_sets(9, here), [(kept, moved)]);
}

#[test]
fn the_log_of_an_order_comes_after_its_topic_and_goes_with_it() {
    let mut image = cluster_of(3);
    let level = FeatureLevel::NEWEST;
    image
        .apply(&Command::SetFeatureLevel { level })
        .expect("it is higher");
    let (ordered, log) = (topic_id(1), order_log_of(topic_id(1)));
    let unknown = PlanError::Refused(ApplyError::UnknownTopic { id: ordered });
    assert_eq!(image.plan_order_log(ordered), Err(unknown));
    let mut wanted = new_topic(1, "ledger", 2, 3);
    wanted.config = vec![ConfigChange::set("ropewalk.order", "total")];
    create(&mut image, &wanted);
    let without: Vec<TopicId> = image.without_order_log().map(|topic| topic.id).collect();
    assert_eq!(without, [ordered]);
    let command = image.plan_order_log(ordered).expect("the topic is there");
    image.apply(&command).expect("planned");
    assert_eq!(image.without_order_log().count(), 0);
    let replicas = |topic: TopicId| image.topic(topic).and_then(|topic| topic.replicas(0).cloned());
    assert_eq!(replicas(log), replicas(ordered));
    let exists = image.plan_order_log(ordered);
    assert!(
        matches!(exists, Err(PlanError::Refused(ApplyError::TopicExists { .. }))),
        "{exists:?}"
    );
    image
        .apply(&Command::DeleteTopic { id: ordered })
        .expect("it is there");
    assert!(image.topic(log).is_none() && image.partition_count() == 0);
    assert_eq!(
        image.apply(&command),
        Err(ApplyError::UnknownTopic { id: ordered }),
        "a log of an order that is gone"
    );
}

#[test]
fn every_epoch_of_a_replicated_partition_has_the_configuration_of_the_one_before() {
    let mut image = cluster_of(3);
    create(&mut image, &new_topic(1, "a", 1, 3));
    let partition = PartitionId {
        topic: topic_id(1),
        index: 0,
    };
    let first = image.assignment(partition).expect("it has three replicas");
    assert_eq!(
        (first.epoch, first.leader, first.configuration.ack_quorum),
        (Epoch(0), NodeId(0), 2)
    );
    assert_eq!(first.earlier, []);
    image.apply(&start(0)).expect("it starts again");
    let second = image.assignment(partition).expect("it has three replicas");
    assert_eq!(
        (second.epoch, &second.earlier[..]),
        (Epoch(1), &[first.configuration][..])
    );
    create(&mut image, &new_topic(2, "b", 1, 1));
    let lone = PartitionId {
        topic: topic_id(2),
        index: 0,
    };
    assert_eq!(image.assignment(lone), None);
}

fn epoch(image: &Metadata, number: u8, index: i32) -> i32 {
    image
        .partition(PartitionId {
            topic: topic_id(number),
            index,
        })
        .expect("exists")
        .epoch
        .0
}

#[test]
fn a_cluster_is_formatted_once_and_first() {
    let mut image = Metadata::new(TopicConfig::new());
    assert_eq!(image.apply(&start(0)), Err(ApplyError::NotFormatted));
    let cluster = ClusterId([1; 16]);
    image.apply(&Command::FormatCluster { cluster }).expect("new");
    let again = image.apply(&Command::FormatCluster {
        cluster: ClusterId([2; 16]),
    });
    assert_eq!(again, Err(ApplyError::AlreadyFormatted { cluster }));
}

#[test]
fn one_start_opens_an_epoch_on_every_partition_led() {
    let mut image = cluster_of(2);
    create(&mut image, &new_topic(1, "a", 4, 2));
    image.apply(&start(0)).expect("known");
    create(&mut image, &new_topic(2, "b", 1, 1));
    assert_eq!([0, 1, 2, 3].map(|index| epoch(&image, 1, index)), [1, 0, 1, 0]);
    assert_eq!(
        epoch(&image, 2, 0),
        0,
        "a partition begins at epoch 0 whatever happened before"
    );
    image.apply(&start(0)).expect("known");
    assert_eq!((epoch(&image, 1, 0), epoch(&image, 2, 0)), (2, 1));
}

#[test]
fn epochs_rise_over_changes_of_leader() {
    let mut image = cluster_of(2);
    create(&mut image, &new_topic(1, "a", 1, 2));
    let partition = PartitionId {
        topic: topic_id(1),
        index: 0,
    };
    let mut last = -1;
    for leader in [1, 0, 1, 1, 0] {
        image.apply(&start(0)).expect("known");
        let open = image.plan_epoch(partition, NodeId(leader)).expect("a replica");
        image.apply(&open).expect("planned");
        assert!(matches!(image.apply(&open), Err(ApplyError::EpochNotNext { .. })));
        assert!(epoch(&image, 1, 0) > last);
        last = epoch(&image, 1, 0);
    }
    let stranger = image.plan_epoch(partition, NodeId(7));
    assert_eq!(
        stranger,
        Err(ApplyError::NotAReplica {
            leader: NodeId(7),
            partition
        }
        .into())
    );
}

#[test]
fn names_are_unique_and_do_not_collide() {
    let mut image = cluster_of(1);
    create(&mut image, &new_topic(1, "a.b", 1, 1));
    let plan = |name| image.plan_topic(&new_topic(2, name, 1, 1), &mut Plans::default());
    assert_eq!(
        plan("a.b"),
        Err(ApplyError::TopicExists { name: "a.b".into() }.into())
    );
    let collides = ApplyError::TopicNameCollides {
        name: "a_b".into(),
        other: "a.b".into(),
    };
    assert_eq!(plan("a_b"), Err(collides.into()));
    assert!(matches!(
        plan("a b"),
        Err(PlanError::Refused(ApplyError::TopicName(_)))
    ));
    image
        .apply(&Command::DeleteTopic { id: topic_id(1) })
        .expect("exists");
    create(&mut image, &new_topic(2, "a_b", 1, 1));
    assert_eq!(image.topic_named("a_b").map(|topic| topic.id), Some(topic_id(2)));
    assert!(image.topic(topic_id(1)).is_none());
}

#[test]
fn counts_have_limits() {
    let image = cluster_of(2);
    let limits = PlanLimits {
        topic_partitions_max: 8,
        partitions_max: 5,
        ..PlanLimits::default()
    };
    let plan = |partitions, replicas| {
        let mut plans = Plans::of(limits, None);
        image.plan_topic(&new_topic(1, "a", partitions, replicas), &mut plans)
    };
    assert_eq!(
        plan(0, 1),
        Err(PlanError::PartitionCount {
            min: 1,
            max: 8,
            got: 0
        })
    );
    assert_eq!(
        plan(-1, 1),
        Err(PlanError::PartitionCount {
            min: 1,
            max: 8,
            got: -1
        })
    );
    assert_eq!(
        plan(9, 1),
        Err(PlanError::PartitionCount {
            min: 1,
            max: 8,
            got: 9
        })
    );
    assert_eq!(plan(6, 1), Err(PlanError::ClusterFull { max: 5, wanted: 6 }));
    assert_eq!(plan(1, 3), Err(PlanError::ReplicaCount { got: 3, nodes: 2 }));
    assert_eq!(plan(1, 0), Err(PlanError::ReplicaCount { got: 0, nodes: 2 }));
}

#[test]
fn no_command_is_too_large_for_the_log() {
    let mut image = cluster_of(8);
    let widest = new_topic(1, &"x".repeat(TOPIC_NAME_BYTES_MAX), 10_000, 8);
    create(&mut image, &widest);
    let wordy = NewTopic {
        config: vec![ConfigChange::set("retention.ms", "1"); 20_000],
        ..new_topic(2, "a", 1, 1)
    };
    let refused = image.plan_topic(&wordy, &mut Plans::default());
    assert!(matches!(refused, Err(PlanError::TooLarge { bytes, .. }) if bytes > COMMAND_BYTES_MAX));
    let wish = ConfigWish::Replace(vec![("segment.ms".into(), "1".into()); 30_000]);
    let refused = image.plan_configs(ConfigTarget::Topic(topic_id(1)), &wish, &mut Plans::default());
    assert!(matches!(refused, Err(PlanError::TooLarge { .. })));
}

#[test]
fn blanks_around_a_value_are_not_read_back() {
    let padded = ConfigChange {
        name: "retention.ms".into(),
        value: Some(format!("{}1", " ".repeat(299_999)).into()),
    };
    let set = |change| Command::SetTopicConfig {
        id: topic_id(1),
        changes: vec![change],
        client: None,
    };
    let read = Command::decode(&set(padded).encode()).expect("just written");
    assert_eq!(read, set(ConfigChange::set("retention.ms", "1")));
}

#[test]
fn of_two_equal_plans_one_is_applied() {
    let mut image = cluster_of(1);
    create(&mut image, &new_topic(1, "a", 1, 1));
    let ids = image.plan_producer_ids().expect("plenty");
    let more = image
        .plan_partitions(topic_id(1), 3, &mut Plans::default())
        .expect("valid");
    for command in [&ids, &more] {
        image.apply(command).expect("first");
        let before = image.clone();
        assert!(image.apply(command).is_err());
        assert_eq!(image, before);
    }
    assert_eq!(image.next_producer_id(), ProducerId(PRODUCER_ID_BLOCK));
    assert_eq!(
        (
            image.partition_count(),
            image.topic(topic_id(1)).map(Topic::partition_count)
        ),
        (3, Some(3))
    );
    let fewer = image.plan_partitions(topic_id(1), 3, &mut Plans::default());
    assert!(matches!(fewer, Err(PlanError::PartitionCount { min: 4, .. })));
}

#[test]
fn topics_are_listed_by_name() {
    let mut image = cluster_of(1);
    for (number, name) in [(1, "pears"), (2, "apples"), (3, "figs")] {
        create(&mut image, &new_topic(number, name, 1, 1));
    }
    let names: Vec<&str> = image.topics().map(|topic| topic.name.as_ref()).collect();
    assert_eq!(names, ["apples", "figs", "pears"]);
}

#[test]
fn commands_of_version_1_name_no_client() {
    let made = Command::CreateTopic {
        id: topic_id(1),
        name: "a".into(),
        partitions: vec![ReplicaSet::from([NodeId(0)])],
        config: Vec::new(),
        client: None,
    };
    let mut bytes = made.encode().to_vec();
    assert_eq!(bytes.pop(), Some(0), "no client");
    bytes[0] = 1;
    assert_eq!(Command::decode(&bytes), Ok(made));
}

#[test]
fn unknown_versions_and_kinds_are_refused() {
    let mut bytes = start(0).encode().to_vec();
    bytes[0] = 9;
    assert!(matches!(
        Command::decode(&bytes),
        Err(DecodeError::UnknownVersion { got: 9, known: 8, .. })
    ));
    assert_eq!(
        Command::decode(&[1, 99]),
        Err(DecodeError::UnknownKind {
            field: "command kind",
            value: 99
        })
    );
    let many = [1, 6]
        .into_iter()
        .chain([0; 16])
        .chain([0xff; 4])
        .collect::<Vec<u8>>();
    assert!(matches!(
        Command::decode(&many),
        Err(DecodeError::Truncated { .. })
    ));
}

fn any_change() -> impl Strategy<Value = ConfigChange> {
    let name = prop::sample::select(vec![
        "retention.ms",
        "segment.bytes",
        "ropewalk.durability",
        "nonsense",
    ]);
    let value = prop::option::of(prop::sample::select(vec!["2000000", "memory", "-1", "7"]));
    (name, value).prop_map(|(name, value)| ConfigChange {
        name: name.into(),
        value: value.map(Into::into),
    })
}

fn group_changes() -> impl Strategy<Value = Vec<ConfigChange>> {
    let name = prop::sample::select(vec![HEARTBEAT_INTERVAL, SESSION_TIMEOUT, "nonsense"]);
    let value = prop::option::of(prop::sample::select(vec!["50000", "7000", "-1"]));
    let change = (name, value).prop_map(|(name, value): (&str, Option<&str>)| ConfigChange {
        name: name.into(),
        value: value.map(Into::into),
    });
    prop::collection::vec(change, 0..3)
}

fn broker_changes() -> impl Strategy<Value = Vec<ConfigChange>> {
    let name = prop::sample::select(vec![
        "log.retention.ms",
        "log.segment.bytes",
        "max.connections",
        "nonsense",
    ]);
    let value = prop::option::of(prop::sample::select(vec!["2000000", "-1", "7"]));
    let change = (name, value).prop_map(|(name, value): (&str, Option<&str>)| ConfigChange {
        name: name.into(),
        value: value.map(Into::into),
    });
    prop::collection::vec(change, 0..3)
}

fn any_home() -> impl Strategy<Value = Home> {
    (0u8..3, 1u16..4, any::<bool>())
        .prop_map(|(directory, shards, has_peer)| home(directory, shards, has_peer))
}

fn home(directory: u8, shards: u16, has_peer: bool) -> Home {
    let peer = Address {
        host: "hemp".into(),
        port: 7000,
    };
    Home {
        directory: DirectoryId([directory; 16]),
        shards,
        peer: has_peer.then_some(peer),
        start: 0,
    }
}

fn started_at_home(node: i32, home: &Home) -> Command {
    let Command::StartNode { node, address, .. } = start(node) else {
        unreachable!("it is a start")
    };
    Command::StartNode {
        node,
        address,
        home: Some(home.clone()),
        rack: None,
    }
}

#[test]
fn a_node_joins_before_it_starts_and_only_over_its_directory() {
    let mut image = Metadata::new(TopicConfig::new());
    let cluster = ClusterId([9; 16]);
    image
        .apply(&Command::FormatCluster { cluster })
        .expect("it is new");
    let homes = [0, 1, 2].map(|directory| home(directory, 2, true));
    image
        .apply(&started_at_home(1, &homes[0]))
        .expect("the first node");
    // Nobody has let it in.
    let unknown = Err(ApplyError::UnknownNode { node: NodeId(2) });
    assert_eq!(image.apply(&started_at_home(2, &homes[1])), unknown);
    let join = image.plan_join(None, &homes[1]).expect("there is room");
    assert_eq!(
        join,
        Command::JoinNode {
            node: NodeId(2),
            home: homes[1].clone()
        }
    );
    image.apply(&join).expect("it was planned");
    assert_eq!(image.home(NodeId(2)), Some(&homes[1]));
    // It serves nobody yet, and gets no replicas.
    assert_eq!(image.nodes().len(), 1);
    // Its id is taken, and its directory has one.
    let taken = ApplyError::NodeExists { node: NodeId(2) };
    assert_eq!(image.plan_join(Some(NodeId(2)), &homes[2]), Err(taken.into()));
    let known = |node: i32, number: u8| ApplyError::OtherDirectory {
        node: NodeId(node),
        directory: DirectoryId([number; 16]),
    };
    assert_eq!(image.plan_join(None, &homes[1]), Err(known(2, 1).into()));
    assert_eq!(image.plan_join(None, &homes[0]), Err(known(1, 0).into()));
    assert_eq!(image.apply(&started_at_home(2, &homes[2])), Err(known(2, 1)));
    image
        .apply(&started_at_home(2, &homes[1]))
        .expect("it has joined");
    let node = image.node(NodeId(2)).expect("it has started");
    assert_eq!((node.incarnation, node.home.as_ref()), (0, Some(&homes[1])));
    // The id of a node that has started stays its directory's.
    assert_eq!(image.apply(&started_at_home(1, &homes[2])), Err(known(1, 0)));
    image
        .apply(&started_at_home(1, &homes[0]))
        .expect("it starts again");
    // A node that counts its starts tells each of them once.
    let second_start = Home {
        start: 2,
        ..homes[1].clone()
    };
    image
        .apply(&started_at_home(2, &second_start))
        .expect("it starts");
    let earlier = Home {
        start: 1,
        ..homes[1].clone()
    };
    for (home, got) in [(&second_start, 2), (&earlier, 1)] {
        let passed = ApplyError::StartPassed {
            node: NodeId(2),
            known: 2,
            got,
        };
        assert_eq!(image.apply(&started_at_home(2, home)), Err(passed));
    }
    let third = image.plan_join(None, &homes[2]).expect("there is room");
    assert!(matches!(third, Command::JoinNode { node: NodeId(3), .. }));
}

#[test]
fn starts_of_versions_without_homes_and_racks_are_read() {
    let bytes = start(7).encode();
    for (version, missing) in [(2, 2), (4, 1)] {
        let old = [&[version], &bytes[1..bytes.len() - missing]].concat();
        assert_eq!(Command::decode(&old), Ok(start(7)));
    }
}

pub(super) fn any_command() -> impl Strategy<Value = Command> {
    let id = (0u8..6).prop_map(topic_id);
    let nodes = prop::collection::vec((0..4).prop_map(NodeId), 0..3).prop_map(ReplicaSet::from);
    let sets = prop::collection::vec(nodes, 0..4);
    let changes = || prop::collection::vec(any_change(), 0..3);
    let client = || prop::option::of(any::<IpAddr>());
    prop_oneof![
        any::<[u8; 16]>().prop_map(|id| Command::FormatCluster {
            cluster: ClusterId(id)
        }),
        (0..4).prop_map(start),
        (0..4, any_home(), prop::option::of("[a-c]")).prop_map(|(node, home, rack)| {
            let Command::StartNode { node, address, .. } = start(node) else {
                unreachable!("it is a start")
            };
            let home = Some(home);
            Command::StartNode {
                node,
                address,
                home,
                rack: rack.map(Into::into),
            }
        }),
        (-1..6, any_home()).prop_map(|(node, home)| Command::JoinNode {
            node: NodeId(node),
            home
        }),
        (id.clone(), "[ab][._][ab]", sets.clone(), changes(), client()).prop_map(
            |(id, name, partitions, config, client)| Command::CreateTopic {
                id,
                name: name.into(),
                partitions,
                config,
                client,
            }
        ),
        id.clone().prop_map(|id| Command::DeleteTopic { id }),
        (id.clone(), 0..4, sets, client()).prop_map(|(id, first_index, partitions, client)| {
            Command::CreatePartitions {
                id,
                first_index,
                partitions,
                client,
            }
        }),
        (id.clone(), changes(), client()).prop_map(|(id, changes, client)| Command::SetTopicConfig {
            id,
            changes,
            client
        }),
        (prop::option::of((-1..3).prop_map(NodeId)), broker_changes())
            .prop_map(|(broker, changes)| Command::SetBrokerConfig { broker, changes }),
        (prop::sample::select(vec!["", "g", "h"]), group_changes()).prop_map(|(group, changes)| {
            Command::SetGroupConfig {
                group: group.into(),
                changes,
            }
        }),
        (0..3i64, 0..4i64).prop_map(|(first, next)| Command::AllocateProducerIds {
            first: ProducerId(first),
            next: ProducerId(next)
        }),
        (
            id.clone(),
            0..3,
            0..4,
            prop::collection::vec((0..4).prop_map(NodeId), 0..4)
        )
            .prop_map(|(topic, index, epoch, replicas)| Command::SetReplicas {
                partition: PartitionId { topic, index },
                epoch: Epoch(epoch),
                replicas: replicas.into(),
            }),
        (
            id.clone(),
            0..3,
            0..4,
            prop::collection::vec((0..4).prop_map(NodeId), 0..4)
        )
            .prop_map(|(topic, index, epoch, replicas)| Command::OpenUncleanly {
                partition: PartitionId { topic, index },
                epoch: Epoch(epoch),
                replicas: replicas.into(),
            }),
        (id.clone(), 0..3, 0..4, 0..4, 0..2u64).prop_map(|(topic, index, epoch, replica, start)| {
            Command::CaughtUp {
                partition: PartitionId { topic, index },
                epoch: Epoch(epoch),
                replica: NodeId(replica),
                start,
            }
        }),
        (0..4, 0..2u64).prop_map(|(node, start)| Command::DoubtNode {
            node: NodeId(node),
            start
        }),
        (id.clone(), 0..3, 0..4).prop_map(|(topic, index, epoch)| Command::Settled {
            partition: PartitionId { topic, index },
            epoch: Epoch(epoch)
        }),
        (0..4, prop::option::of(prop::option::of(0..4))).prop_map(|(node, drain)| Command::DrainNode {
            node: NodeId(node),
            drain: drain.map(|to| Drain { to: to.map(NodeId) })
        }),
        (0..4).prop_map(|node| Command::RemoveNode { node: NodeId(node) }),
        (FeatureLevel::FIRST.0..=FeatureLevel::NEWEST.0).prop_map(|level| Command::SetFeatureLevel {
            level: FeatureLevel(level)
        }),
        (id, 0..3, 0..5, 0..4).prop_map(|(topic, index, epoch, leader)| Command::OpenEpoch {
            partition: PartitionId { topic, index },
            epoch: Epoch(epoch),
            leader: NodeId(leader)
        }),
    ]
}

proptest! {
    #[test]
    fn commands_come_back_from_bytes_and_no_part_of_them_does(command in any_command()) {
        let bytes = command.encode();
        prop_assert_eq!(Command::decode(&bytes), Ok(command));
        for length in 0..bytes.len() {
            prop_assert!(Command::decode(&bytes[..length]).is_err());
        }
    }

    #[test]
    fn replayed_logs_give_the_image_again_and_refused_commands_change_nothing(commands in prop::collection::vec(any_command(), 0..60)) {
        let (mut image, mut replayed) = (cluster_of(2), cluster_of(2));
        for command in &commands {
            let before = image.clone();
            match image.apply(command) {
                Ok(()) => {
                    let again = Command::decode(&command.encode()).expect("just written");
                    replayed.apply(&again).expect("it fitted");
                }
                Err(_) => prop_assert_eq!(&image, &before),
            }
            // Epochs of a partition never fall.
            for topic in before.topics() {
                for index in 0..topic.partition_count() {
                    let id = PartitionId { topic: topic.id, index };
                    let (then, now) = (before.partition(id), image.partition(id));
                    prop_assert!(now.is_none_or(|now| then.is_some_and(|then| then.epoch <= now.epoch)));
                }
            }
        }
        prop_assert_eq!(replayed, image);
    }

    #[test]
    fn hostile_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 1..300)) {
        bytes[0] = 1;
        let _ = Command::decode(&bytes);
    }
}
