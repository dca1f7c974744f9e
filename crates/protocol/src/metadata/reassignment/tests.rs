//! Replica sets that change: which nodes hold a partition meanwhile, whose promises its next leader wants, and what is refused.

use record::{ClusterId, DirectoryId, Offset, TopicId};

use super::super::image::ImageWriter;
use super::super::{Address, ConfigChange, Home, NewTopic, Plans, TopicConfig, image_parts};
use super::super::{FeatureLevel, METADATA_NAME, Replay};
use super::*;

const TOPIC: TopicId = TopicId([1; 16]);
const PARTITION: PartitionId = PartitionId {
    topic: TOPIC,
    index: 0,
};
const CLUSTER: ClusterId = ClusterId([9; 16]);

fn start(node: i32, start: u64) -> Command {
    let address = |port| Address {
        host: "rope".into(),
        port,
    };
    Command::StartNode {
        node: NodeId(node),
        address: address(9092),
        home: Some(Home {
            directory: DirectoryId([u8::try_from(node).expect("small"); 16]),
            shards: 1,
            peer: Some(address(9192)),
            start,
        }),
        rack: None,
    }
}

/// Nodes 1 to 4 of one cluster, and a topic of one partition.
fn cluster(replicas: i32) -> Metadata {
    let mut image = Metadata::new(TopicConfig::new());
    image
        .apply(&Command::FormatCluster { cluster: CLUSTER })
        .expect("new");
    for node in 1..=4 {
        let Command::StartNode { home: Some(home), .. } = start(node, 1) else {
            unreachable!("it says where it is at home")
        };
        let home = Home { start: 0, ..home };
        if node > 1 {
            let node = NodeId(node);
            image.apply(&Command::JoinNode { node, home }).expect("it is new");
        }
        image.apply(&start(node, 1)).expect("it has joined");
    }
    let topic = NewTopic {
        id: TOPIC,
        name: "rope".into(),
        partition_count: 1,
        replica_count: replicas,
        chosen: None,
        config: Vec::new(),
    };
    let planned = image.plan_topic(&topic, &mut Plans::default()).expect("valid");
    image.apply(&planned).expect("planned");
    image
}

fn nodes(ids: &[i32]) -> Vec<NodeId> {
    ids.iter().copied().map(NodeId).collect()
}

fn set(image: &mut Metadata, replicas: &[i32]) {
    let planned = image.plan_replicas(PARTITION, &nodes(replicas)).expect("valid");
    image.apply(&planned).expect("planned");
    assert_comes_back(image);
}

fn caught_up(image: &mut Metadata, replica: i32) {
    let epoch = epoch(image);
    let at = (NodeId(replica), start_of(image, replica));
    let planned = image.plan_caught_up(PARTITION, epoch, at).expect("it joins");
    image.apply(&planned).expect("planned");
    assert_comes_back(image);
}

fn settled(image: &mut Metadata) {
    let planned = image
        .plan_settled(PARTITION, epoch(image))
        .expect("it is unsettled");
    image.apply(&planned).expect("planned");
}

fn start_of(image: &Metadata, node: i32) -> u64 {
    image.home(NodeId(node)).expect("it says it").start
}

fn epoch(image: &Metadata) -> Epoch {
    image.partition(PARTITION).expect("it is there").epoch
}

/// The image has all of it.
fn assert_comes_back(image: &Metadata) {
    let mut writer = ImageWriter::begin(image, Offset::ZERO);
    while writer.go_on(image, 100) {}
    let mut replay = Replay::new(Metadata::new(TopicConfig::new()));
    for (index, part) in (0..).zip(image_parts(Offset::ZERO, &writer.finish())) {
        replay.take(Offset(index), &part.encode()).expect("sound");
    }
    let (again, _) = replay.finish(CLUSTER).expect("sound");
    assert!(again == *image, "an image has the changes of replicas");
}

/// Epoch, leader, replicas, joining, and the replicas of the earlier configurations.
fn assigned(image: &Metadata) -> (i32, i32, Vec<i32>, Vec<i32>, Vec<Vec<i32>>) {
    let assignment = image.assignment(PARTITION).expect("it is shared");
    let ids = |nodes: &[NodeId]| nodes.iter().map(|node| node.0).collect::<Vec<_>>();
    let earlier = assignment.earlier.iter().map(|of| ids(&of.replicas)).collect();
    (
        assignment.epoch.0,
        assignment.leader.0,
        ids(&assignment.configuration.replicas),
        ids(&assignment.joining),
        earlier,
    )
}

#[test]
fn a_lone_partition_gets_three_replicas_once_two_have_caught_up() {
    let mut image = cluster(1);
    assert_eq!(image.assignment(PARTITION), None);
    set(&mut image, &[1, 2, 3]);
    assert_eq!(assigned(&image), (1, 1, vec![1], vec![2, 3], vec![vec![1]]));
    assert_eq!(image.holders(PARTITION), nodes(&[1, 2, 3]));
    caught_up(&mut image, 3);
    assert_eq!(assigned(&image), (1, 1, vec![1], vec![2, 3], vec![vec![1]]));
    let again = image.plan_caught_up(PARTITION, Epoch(1), (NodeId(3), 1));
    let is_known = PlanError::Refused(ApplyError::NotJoining {
        replica: NodeId(3),
        partition: PARTITION,
    });
    assert_eq!(again, Err(is_known));
    caught_up(&mut image, 2);
    let both = vec![vec![1], vec![1, 2, 3]];
    assert_eq!(assigned(&image), (2, 1, vec![1, 2, 3], vec![], both));
    settled(&mut image);
    assert_eq!(
        assigned(&image),
        (2, 1, vec![1, 2, 3], vec![], vec![vec![1, 2, 3]])
    );
}

#[test]
fn run_3_a_second_change_waits_until_the_first_is_settled_and_nobody_gives_up_before() {
    let mut image = cluster(3);
    set(&mut image, &[2, 3, 4]);
    caught_up(&mut image, 4);
    // The leader is none of the new ones.
    let both = vec![vec![1, 2, 3], vec![2, 3, 4]];
    assert_eq!(assigned(&image), (2, 2, vec![2, 3, 4], vec![], both.clone()));
    assert_eq!(image.holders(PARTITION), nodes(&[2, 3, 4, 1]));
    let refused = image.plan_replicas(PARTITION, &nodes(&[2, 3]));
    let unsettled = ApplyError::ReplicasUnsettled { partition: PARTITION };
    assert_eq!(refused, Err(unsettled.into()));
    // A later epoch has to meet both, too.
    image.apply(&start(2, 2)).expect("it starts again");
    assert_eq!(assigned(&image), (3, 2, vec![2, 3, 4], vec![], both));
    // The report of an earlier epoch says nothing of it.
    let late = image.plan_settled(PARTITION, Epoch(2));
    let passed = ApplyError::EpochPassed {
        current: Epoch(3),
        got: Epoch(2),
    };
    assert_eq!(late, Err(passed.into()));
    settled(&mut image);
    assert_eq!(image.holders(PARTITION), nodes(&[2, 3, 4]));
    set(&mut image, &[2, 3]);
    assert_eq!(assigned(&image).2, [2, 3]);
}

#[test]
fn a_change_can_be_called_off_until_it_is_in_force() {
    let mut image = cluster(3);
    set(&mut image, &[1, 2, 4]);
    assert_eq!(
        assigned(&image),
        (1, 1, vec![1, 2, 3], vec![4], vec![vec![1, 2, 3]])
    );
    let kept = image.plan_kept_replicas(PARTITION).expect("it is under way");
    assert_eq!(
        image.plan_replicas(PARTITION, &nodes(&[1, 2, 3])),
        Ok(kept.clone())
    );
    image.apply(&kept).expect("planned");
    assert_comes_back(&image);
    assert_eq!(
        assigned(&image),
        (2, 1, vec![1, 2, 3], vec![], vec![vec![1, 2, 3]])
    );
    assert_eq!(
        image.plan_kept_replicas(PARTITION),
        Err(PlanError::NoReassignment)
    );
    let again = image.plan_replicas(PARTITION, &nodes(&[1, 2, 3]));
    let unchanged = ApplyError::ReplicasUnchanged { partition: PARTITION };
    assert_eq!(again, Err(unchanged.into()));
    // Fewer are in force at once, and have to be settled.
    set(&mut image, &[2]);
    assert_eq!(
        assigned(&image),
        (3, 2, vec![2], vec![], vec![vec![1, 2, 3], vec![2]])
    );
    assert_eq!(
        image.plan_kept_replicas(PARTITION),
        Err(PlanError::NoReassignment),
        "it is too late"
    );
    let unchanged = ApplyError::ReplicasUnchanged { partition: PARTITION };
    assert_eq!(
        image.plan_replicas(PARTITION, &nodes(&[2])),
        Err(unchanged.into()),
        "nothing has to be settled for what is there"
    );
    settled(&mut image);
    // It stays one that is told of epochs.
    assert_eq!(assigned(&image), (3, 2, vec![2], vec![], vec![vec![2]]));
}

#[test]
fn replica_sets_that_cannot_be_are_refused() {
    let mut image = cluster(2);
    let refused = |image: &Metadata, replicas: &[i32]| {
        let planned = image.plan_replicas(PARTITION, &nodes(replicas));
        planned.expect_err("it cannot be")
    };
    assert_eq!(refused(&image, &[]), ApplyError::InvalidReplicaSet.into());
    assert_eq!(refused(&image, &[1, 1]), ApplyError::InvalidReplicaSet.into());
    let unknown = ApplyError::UnknownNode { node: NodeId(9) };
    assert_eq!(refused(&image, &[1, 9]), unknown.into());
    let elsewhere = PartitionId {
        index: 7,
        ..PARTITION
    };
    let planned = image.plan_replicas(elsewhere, &nodes(&[1]));
    let unknown = ApplyError::UnknownPartition { partition: elsewhere };
    assert_eq!(planned, Err(unknown.into()));
    let alone = Command::StartNode {
        node: NodeId(4),
        address: Address {
            host: "rope".into(),
            port: 9092,
        },
        home: None,
        rack: None,
    };
    image.apply(&alone).expect("it starts");
    let node = NodeId(4);
    assert_eq!(refused(&image, &[1, 4]), PlanError::Unreachable { node });
    let wish = vec![ConfigChange::set("cleanup.policy", "compact")];
    let mut lone = cluster(1);
    let compacted = Command::SetTopicConfig {
        id: TOPIC,
        changes: wish,
        client: None,
    };
    lone.apply(&compacted).expect("valid");
    let level = FeatureLevel(1);
    assert_eq!(refused(&lone, &[1, 2]), PlanError::CompactedMove { level });
    let level = FeatureLevel(3);
    lone.apply(&Command::SetFeatureLevel { level })
        .expect("it is higher");
    let planned = lone.plan_replicas(PARTITION, &nodes(&[1, 2]));
    lone.apply(&planned.expect("all nodes take it")).expect("planned");
}

#[test]
fn a_count_is_met_by_the_nodes_with_the_fewest_replicas_and_the_leader_stays() {
    let image = cluster(2);
    let sets = |count| image.replica_sets_of(TOPIC, count);
    let three: ReplicaSet = nodes(&[1, 2, 3]).into();
    assert_eq!(sets(3), Ok(vec![(PARTITION, three)]));
    let one: ReplicaSet = nodes(&[1]).into();
    assert_eq!(sets(1), Ok(vec![(PARTITION, one)]));
    assert_eq!(sets(2), Ok(vec![]));
    assert_eq!(sets(5), Err(PlanError::ReplicaCount { got: 5, nodes: 4 }));
    assert_eq!(sets(0), Err(PlanError::ReplicaCount { got: 0, nodes: 4 }));
}

#[test]
fn a_drained_node_gives_up_what_it_holds_and_is_removed_then() {
    let mut image = cluster(3);
    let drain = |to| Some(Drain { to });
    let node = NodeId(1);
    let to_itself = image.plan_drain(node, drain(Some(node)));
    assert_eq!(to_itself, Err(ApplyError::DrainedToItself { node }.into()));
    let holds = ApplyError::NodeHolds { node, partitions: 1 };
    assert_eq!(image.plan_removal(node), Err(holds.into()));
    let planned = image.plan_drain(node, drain(None)).expect("valid");
    image.apply(&planned).expect("planned");
    assert_comes_back(&image);
    // It survives a start, and a drained node gets nothing.
    image.apply(&start(1, 2)).expect("it starts");
    assert_eq!(image.node(node).expect("there").drain, drain(None));
    let refused = image.plan_drain(NodeId(2), drain(Some(node)));
    assert_eq!(refused, Err(PlanError::Unreachable { node }));
    let due = image.due_replica_sets(10, |_| true);
    let wanted: ReplicaSet = nodes(&[4, 2, 3]).into();
    assert_eq!(due, vec![(PARTITION, wanted)]);
    // Nobody is there who could take it, or who could give it.
    assert_eq!(image.due_replica_sets(10, |node| node.0 != 4), vec![]);
    assert_eq!(image.due_replica_sets(10, |node| node.0 != 1), vec![]);
    set(&mut image, &[4, 2, 3]);
    assert_eq!(image.due_replica_sets(10, |_| true), vec![]);
    caught_up(&mut image, 4);
    settled(&mut image);
    let back = image.plan_replicas(PARTITION, &nodes(&[1, 2, 3]));
    assert_eq!(back, Err(PlanError::Unreachable { node }));
    let planned = image.plan_removal(node).expect("it holds nothing");
    image.apply(&planned).expect("planned");
    assert_eq!(image.node(node), None);
    let planned = image.plan_removal(node);
    assert_eq!(planned, Err(ApplyError::UnknownNode { node }.into()));
}

/// The racks of nodes 1 to 4; they start anew to tell.
fn in_racks(image: &mut Metadata, racks: [&str; 4]) {
    for (node, rack) in (1..).zip(racks) {
        let Command::StartNode {
            node, address, home, ..
        } = start(node, start_of(image, node) + 1)
        else {
            unreachable!("it is a start")
        };
        let rack = Some(rack.into());
        let start = Command::StartNode {
            node,
            address,
            home,
            rack,
        };
        image.apply(&start).expect("it starts");
    }
    assert_comes_back(image);
}

#[test]
fn replicas_are_put_in_as_many_racks_as_there_are() {
    let mut image = cluster(3);
    in_racks(&mut image, ["a", "a", "b", "c"]);
    let topic = NewTopic {
        id: TopicId([2; 16]),
        name: "twine".into(),
        partition_count: 8,
        replica_count: 3,
        config: Vec::new(),
        chosen: None,
    };
    let planned = image.plan_topic(&topic, &mut Plans::default()).expect("valid");
    let Command::CreateTopic { partitions, .. } = &planned else {
        panic!("a topic is made")
    };
    for set in partitions {
        let in_a = set.iter().filter(|node| node.0 <= 2).count();
        assert_eq!((set.len(), in_a), (3, 1), "{set:?}");
    }
    let leaders: std::collections::BTreeSet<_> = partitions.iter().map(|set| set[0]).collect();
    assert_eq!(leaders.len(), 4, "each leads some");

    // One rack is left beside that of the two that stay, and the other node of the rack that goes.
    let planned = image.plan_drain(NodeId(3), Some(Drain { to: None }));
    image.apply(&planned.expect("valid")).expect("planned");
    let due = image.due_replica_sets(10, |_| true);
    let wanted: ReplicaSet = nodes(&[1, 2, 4]).into();
    assert_eq!(due, vec![(PARTITION, wanted)]);
    let mut image = cluster(2);
    in_racks(&mut image, ["a", "b", "b", "c"]);
    let sets = image.replica_sets_of(TOPIC, 3).expect("there are enough");
    let wanted: ReplicaSet = nodes(&[1, 2, 4]).into();
    assert_eq!(sets, vec![(PARTITION, wanted)]);
}

/// A partition that nobody is there to take over must not hold up those that can be moved.
#[test]
fn sets_that_cannot_change_hold_up_no_other() {
    let mut image = cluster(3);
    let lone = NewTopic {
        id: TopicId([2; 16]),
        name: "twine".into(),
        partition_count: 1,
        replica_count: 1,
        config: Vec::new(),
        chosen: Some(vec![nodes(&[1]).into()]),
    };
    let planned = image.plan_topic(&lone, &mut Plans::default()).expect("valid");
    image.apply(&planned).expect("planned");
    let planned = image
        .plan_drain(NodeId(1), Some(Drain { to: None }))
        .expect("valid");
    image.apply(&planned).expect("planned");
    // Only three are there: the first topic has nobody else, the second has.
    let due = image.due_replica_sets(1, |node| node.0 != 4);
    let second = PartitionId {
        topic: lone.id,
        index: 0,
    };
    assert_eq!(due.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [second]);
    // One that changes counts, also where a client has asked for it, unless it waits for a node.
    set(&mut image, &[1, 2, 4]);
    assert_eq!(image.due_replica_sets(1, |_| true), vec![]);
    assert_eq!(image.due_replica_sets(2, |_| true).len(), 1);
    assert_eq!(image.due_replica_sets(1, |node| node.0 != 4).len(), 1);
}

/// The node that was to take over from a drained one may go, too.
#[test]
fn what_a_drained_node_was_to_get_goes_to_another_one() {
    let mut image = cluster(2);
    let drain = |image: &mut Metadata, node: i32, to: i32| {
        let to = Some(NodeId(to));
        let planned = image.plan_drain(NodeId(node), Some(Drain { to }));
        image.apply(&planned.expect("valid")).expect("planned");
    };
    drain(&mut image, 1, 3);
    set(&mut image, &[3, 2]);
    let is_here = |node: NodeId| node.0 != 3;
    assert_eq!(image.due_replica_sets(10, is_here), vec![], "it may come back");
    drain(&mut image, 3, 4);
    let wanted: ReplicaSet = nodes(&[4, 2]).into();
    assert_eq!(image.due_replica_sets(10, is_here), vec![(PARTITION, wanted)]);
    set(&mut image, &[4, 2]);
    assert_eq!(assigned(&image).3, [4]);
    assert_eq!(image.due_replica_sets(10, is_here), vec![]);
    image.plan_removal(NodeId(3)).expect("it holds nothing");
}

#[test]
fn internal_topics_get_as_many_replicas_as_there_are_nodes_for() {
    let mut image = cluster(1);
    let groups = NewTopic {
        id: TopicId([2; 16]),
        name: "__consumer_offsets".into(),
        partition_count: 1,
        replica_count: 1,
        chosen: None,
        config: Vec::new(),
    };
    assert!(is_internal(&groups.name) && !is_internal(METADATA_NAME));
    let planned = image.plan_topic(&groups, &mut Plans::default()).expect("valid");
    image.apply(&planned).expect("planned");
    let due = image.due_replica_sets(10, |_| true);
    let partition = PartitionId {
        topic: groups.id,
        index: 0,
    };
    let wanted: ReplicaSet = nodes(&[1, 2, 3]).into();
    assert_eq!(due, vec![(partition, wanted)]);
    assert_eq!(image.due_replica_sets(0, |_| true), vec![]);
}

/// Run 42: who has caught up before its disk was doubted is doubted all the same.
#[test]
fn a_disk_in_doubt_counts_again_when_its_present_start_has_caught_up() {
    let mut image = cluster(3);
    let uncertain = |image: &Metadata| image.assignment(PARTITION).expect("it is shared").uncertain;
    let doubt = |image: &mut Metadata, node: i32| {
        let planned = image.plan_doubt(NodeId(node), start_of(image, node));
        image.apply(&planned.expect("it is its start")).expect("planned");
        assert_comes_back(image);
    };
    doubt(&mut image, 2);
    assert_eq!((uncertain(&image), epoch(&image)), (nodes(&[2]), Epoch(0)));
    // Nobody could say what was acknowledged.
    let alone = image.plan_replicas(PARTITION, &nodes(&[2]));
    assert_eq!(
        alone,
        Err(ApplyError::ReplicasInDoubt { partition: PARTITION }.into())
    );
    image
        .plan_replicas(PARTITION, &nodes(&[2, 3]))
        .expect("one holds all");
    let earlier = image
        .plan_caught_up(PARTITION, Epoch(0), (NodeId(2), 1))
        .expect("it is so");
    image.apply(&start(2, 2)).expect("it starts again");
    doubt(&mut image, 2);
    let over = ApplyError::StartOver {
        node: NodeId(2),
        current: 2,
        got: 1,
    };
    assert_eq!(image.apply(&earlier), Err(over.clone()));
    assert_eq!(image.plan_doubt(NodeId(2), 1), Err(over.into()));
    caught_up(&mut image, 2);
    assert_eq!((uncertain(&image), epoch(&image)), (nodes(&[]), Epoch(0)));
    // A node that joins is filled again; the only replica has all there is.
    let mut image = cluster(1);
    set(&mut image, &[1, 2, 3]);
    caught_up(&mut image, 2);
    doubt(&mut image, 1);
    doubt(&mut image, 2);
    assert_eq!(uncertain(&image), nodes(&[]));
    caught_up(&mut image, 3);
    assert_eq!(assigned(&image).3, [2, 3]);
    caught_up(&mut image, 2);
    assert_eq!(assigned(&image).2, [1, 2, 3]);
    // The set before is met by who holds what it acknowledged.
    doubt(&mut image, 1);
    assert_eq!(uncertain(&image), nodes(&[1]));
}

fn planned_uncleanly(image: &Metadata, here: &[i32]) -> Result<Command, PlanError> {
    image.plan_unclean(PARTITION, &nodes(here).into_iter().collect())
}

fn opened_uncleanly(image: &mut Metadata, here: &[i32]) {
    let planned = planned_uncleanly(image, here).expect("too few are here");
    image.apply(&planned).expect("planned");
    assert_comes_back(image);
}

fn doubted(image: &mut Metadata, node: i32) {
    let planned = image
        .plan_doubt(NodeId(node), start_of(image, node))
        .expect("valid");
    image.apply(&planned).expect("planned");
}

#[test]
fn one_that_is_left_leads_by_an_operators_word_and_can_be_given_others() {
    let mut image = cluster(3);
    let partition = PARTITION;
    for enough in [&[1, 2, 3][..], &[2, 3], &[1, 3, 4]] {
        let planned = planned_uncleanly(&image, enough);
        assert_eq!(planned, Err(PlanError::NotStuck { partition }), "{enough:?}");
    }
    assert_eq!(
        planned_uncleanly(&image, &[4]),
        Err(PlanError::NobodyLeft { partition })
    );
    let forged = Command::OpenUncleanly {
        partition,
        epoch: Epoch(1),
        replicas: nodes(&[3, 4]).into(),
    };
    let leader = NodeId(4);
    assert_eq!(
        image.apply(&forged),
        Err(ApplyError::NotAReplica { leader, partition })
    );
    opened_uncleanly(&mut image, &[3, 4]);
    // The others keep what they have until it is certain that this one goes on.
    assert_eq!(assigned(&image), (1, 3, vec![3], vec![], vec![vec![3], vec![3]]));
    assert_eq!(image.holders(PARTITION), nodes(&[3, 1, 2]));
    settled(&mut image);
    assert_eq!(image.holders(PARTITION), nodes(&[3]));
    set(&mut image, &[3, 1, 4]);
    assert_eq!(assigned(&image).3, [1, 4]);
    let state = image.partition(PARTITION).expect("it is there");
    assert_eq!(state.unclean, [Epoch(1)], "it is told for ever");
}

/// Two may each have lost something, and not the same: whoever opens has to hear both.
#[test]
fn all_that_are_left_are_met_before_an_unclean_epoch_opens() {
    let mut image = cluster(3);
    doubted(&mut image, 1);
    doubted(&mut image, 2);
    opened_uncleanly(&mut image, &[1, 2]);
    let of_all = |image: &Metadata| {
        let assignment = image.assignment(PARTITION).expect("it is shared");
        assert!(assignment.uncertain.is_empty(), "what they hold is the log");
        let earlier = assignment.earlier.iter();
        earlier.map(Configuration::seal_quorum).max()
    };
    assert_eq!(assigned(&image).2, [1, 2]);
    assert_eq!(of_all(&image), Some(2));
    let refused = image.plan_replicas(PARTITION, &nodes(&[1, 2, 3]));
    let unsettled = ApplyError::ReplicasUnsettled { partition: PARTITION };
    assert_eq!(refused, Err(unsettled.into()));
    // Nor does a later epoch open without one of them, unless that is given up, too.
    image.apply(&start(1, 2)).expect("it starts again");
    assert_eq!(of_all(&image), Some(2));
    opened_uncleanly(&mut image, &[2]);
    assert_eq!(assigned(&image), (3, 2, vec![2], vec![], vec![vec![2], vec![2]]));
    // Nothing is settled: one that is back counts as left, whoever gave it up.
    assert_eq!(image.holders(PARTITION), nodes(&[2, 1, 3]));
    opened_uncleanly(&mut image, &[3]);
    assert_eq!(assigned(&image).2, [3]);
    let state = image.partition(PARTITION).expect("it is there");
    assert_eq!(state.unclean, [Epoch(1), Epoch(3), Epoch(4)]);
}

#[test]
fn an_unclean_epoch_is_settled_like_another() {
    let mut image = cluster(3);
    doubted(&mut image, 1);
    doubted(&mut image, 2);
    // The one that is certain leads, though another one led.
    opened_uncleanly(&mut image, &[1, 2, 3]);
    assert_eq!((assigned(&image).1, assigned(&image).2), (3, vec![3, 1, 2]));
    settled(&mut image);
    let wanted = (1, 3, vec![3, 1, 2], vec![], vec![vec![3, 1, 2]]);
    assert_eq!(assigned(&image), wanted);
    assert_comes_back(&image);
}

/// Those before may hold what the present ones do not, those that join only some of what others hold.
#[test]
fn who_may_not_give_up_the_log_yet_counts_as_left_and_who_joins_does_not() {
    let mut image = cluster(3);
    set(&mut image, &[2, 3, 4]);
    assert_eq!(
        planned_uncleanly(&image, &[4]),
        Err(PlanError::NobodyLeft { partition: PARTITION })
    );
    caught_up(&mut image, 4);
    opened_uncleanly(&mut image, &[1, 4]);
    assert_eq!(assigned(&image).2, [4, 1]);
}

#[test]
fn the_last_epochs_opened_uncleanly_are_kept() {
    let mut image = cluster(2);
    for _ in 0..2 * UNCLEAN_EPOCHS_MAX {
        doubted(&mut image, 1);
        doubted(&mut image, 2);
        opened_uncleanly(&mut image, &[1, 2]);
    }
    let state = image.partition(PARTITION).expect("it is there");
    assert_eq!(state.unclean.len(), UNCLEAN_EPOCHS_MAX);
    assert_eq!(state.unclean.last(), Some(&state.epoch));
}
