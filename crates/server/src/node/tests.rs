//! Events that only the inside of a node can bring about: a core that dies, a topic of its own that was made otherwise.

use std::task::Poll;
use std::time::Duration;

use kafka_wire::DescribeConfigsRequest;
use kafka_wire::describe_configs::DescribeConfigsResource;
use platform::disk::{Disk, SimulatedDisk};
use platform::random::Random;
use protocol::Durability;
use protocol::groups::GROUPS_TOPIC;
use protocol::leader::NodeId;
use protocol::metadata::{
    Command, ConfigChange, ConfigTarget, ConfigWish, METADATA_PARTITION, Metadata, NewTopic, PlanError,
    Plans, Topic, TopicConfig, fresh_topic_id,
};
use record::{Epoch, Offset, PartitionId};
use storage::identify;

use super::*;
use crate::api::config_resource::TOPIC;
use crate::api::{Envelope, describe_configs};
use crate::caller::{Caller, Listener};
use crate::topic_names::TopicNames;

/// Longer than anything takes that a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);

fn node(cores: usize) -> Node {
    start_on(&SimulatedDisk::new(), cores).expect("the node starts")
}

pub(crate) fn start_on(disk: &SimulatedDisk, cores: usize) -> Result<Node, StartError> {
    Node::start_on(config(cores), Arc::new(disk.clone()), "0.0.0")
}

fn config(cores: usize) -> Config {
    let mut config = Config::default();
    config.cores = cores;
    config.pin_threads = false;
    config.kafka.listen = "127.0.0.1:0".into();
    config.http.listen = "127.0.0.1:0".into();
    config.journal.file_bytes = 1 << 20;
    config.journal.bytes_max = 4 << 20;
    config.journal.layout_trigger = 1 << 20;
    config
}

pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(future)
}

#[test]
fn a_core_that_dies_is_told_of() {
    for core in 0..2 {
        let node = node(2);
        node.handle
            .mailboxes()
            .send(core, |_| panic!("planted: this core dies"));
        assert_eq!(wait(node.core_death()), Some(CoreDied { core }));
        // Still true for whoever asks later.
        assert_eq!(wait(node.core_death()), Some(CoreDied { core }));
        let drained = node.drain(Duration::from_secs(3_600));
        assert!(
            !drained,
            "what the dead core had is not known to be done, and not waited for"
        );
    }
}

#[test]
fn a_core_that_dies_while_it_starts_ends_the_start() {
    let disk = SimulatedDisk::new();
    disk.fail_when(|call| match call.path.starts_with("journals/001") {
        true => panic!("planted: this core dies"),
        false => None,
    });
    let started = start_on(&disk, 2).err().map(|error| error.to_string());
    assert_eq!(started.as_deref(), Some("a core died while it started"));
    disk.clear_faults();
    assert!(
        start_on(&disk, 2).is_ok(),
        "nothing of the first start is left running"
    );
}

#[test]
fn a_node_that_is_stopped_tells_of_no_death() {
    let drained = node(2);
    let death = drained.core_death();
    assert!(drained.drain(Duration::from_secs(3_600)));
    assert_eq!(wait(death), None);
    let dropped = node(1);
    let death = dropped.core_death();
    drop(dropped);
    assert_eq!(wait(death), None);
}

/// A node of two cores whose topics lose records in a power cut unless they say otherwise.
fn start_careless(disk: &SimulatedDisk) -> Node {
    let mut config = config(2);
    let careless = [ConfigChange::set("ropewalk.durability", "memory")];
    config.topics.defaults.change(&careless).expect("valid");
    Node::start_on(config, Arc::new(disk.clone()), "0.0.0").expect("the node starts")
}

/// Changes the metadata as no client could.
pub(crate) fn change(
    node: &Node,
    plan: impl FnOnce(&Metadata) -> Result<Command, PlanError> + Send + 'static,
) {
    let made = node.handle.mailboxes().call(0, |core| async move {
        core.change(plan).await.is_ok_and(|made| made.is_ok())
    });
    assert_eq!(wait(made), Ok(true));
}

/// The facts that the node's cores share.
pub(crate) fn facts_of(node: &Node) -> NodeFacts {
    let facts = node
        .handle
        .mailboxes()
        .call(0, |core| async move { core.facts.clone() });
    wait(facts).expect("the core runs")
}

/// The durability of the partitions of the groups' topic.
fn durabilities(node: &Node) -> Vec<Durability> {
    let of_core = |core| {
        let found = node.handle.mailboxes().call(core, |core| async move {
            let partitions = core.with_metadata(|metadata| {
                let topic = metadata.topic_named(GROUPS_TOPIC).expect("it was made");
                core.own_partitions(topic, 0)
            });
            let durability = |id| {
                let shard = core.shard(core.facts.shard_of(id));
                shard.with_leader(id, |leader| leader.durability()).ok()
            };
            partitions.into_iter().filter_map(durability).collect::<Vec<_>>()
        });
        wait(found).expect("the core runs")
    };
    (0..2).flat_map(of_core).collect()
}

/// The value that clients are told of one config of the groups' topic.
fn told(node: &Node, config: &'static str) -> String {
    let request = DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type: TOPIC,
            resource_name: GROUPS_TOPIC.into(),
            configuration_keys: Some(vec![config.into()]),
        }],
        ..DescribeConfigsRequest::default()
    };
    let described = node.handle.mailboxes().call(0, |core| async move {
        let caller = Caller::at(([127, 0, 0, 1], 7).into(), Listener::Kafka);
        let envelope = Envelope::without_room(4, Arc::new(caller));
        let (described, _) = describe_configs::handle(core, request, envelope).await;
        described.results[0].configs[0].value.clone()
    });
    let value = wait(described).expect("the core runs");
    value.as_deref().unwrap_or_default().to_owned()
}

#[test]
fn a_topic_of_the_groups_that_was_made_otherwise_is_kept_as_they_need_it() {
    let disk = SimulatedDisk::new();
    let node = start_careless(&disk);
    let topic = fresh_topic_id([7; 16]);
    let made_otherwise = NewTopic {
        id: topic,
        name: GROUPS_TOPIC.into(),
        partition_count: 2,
        replica_count: 1,
        chosen: None,
        config: vec![ConfigChange::set("cleanup.policy", "delete")],
    };
    change(&node, move |metadata| {
        metadata.plan_topic(&made_otherwise, &mut Plans::default())
    });
    let check = |node: &Node| {
        assert_eq!(durabilities(node), [Durability::Flushed; 2]);
        assert_eq!(told(node, "ropewalk.durability"), "fsync");
        assert_eq!(told(node, "cleanup.policy"), "compact");
    };
    check(&node);
    let wish = |name: &str, value: &str| ConfigWish::Replace(vec![(name.into(), value.into())]);
    for (target, wish) in [
        (ConfigTarget::Topic(topic), wish("ropewalk.durability", "memory")),
        (ConfigTarget::AllBrokers, wish("log.roll.ms", "5000")),
    ] {
        change(&node, move |metadata| {
            metadata.plan_configs(target, &wish, &mut Plans::default())
        });
        check(&node);
    }
    assert!(node.drain(Duration::from_secs(3_600)));
    check(&start_careless(&disk));
}

#[test]
fn connections_leave_open_files_to_the_log() {
    let of = [
        ((12_048, 2), 10_000),
        ((12_047, 2), 9_999),
        // Half of them where journals might take more.
        ((4_096, 4), 2_048),
        ((512, 2), 256),
        ((64, 1), 64),
        ((0, usize::MAX), 64),
        ((u64::MAX, 0), usize::MAX),
    ];
    for ((descriptors, journals), expected) in of {
        assert_eq!(connections_max(descriptors, journals), expected, "{descriptors}");
    }
}

#[test]
fn a_limit_on_open_files_that_connections_can_reach_is_told_of() {
    assert_eq!(too_few_descriptors(12_048, 10_000, 10_000), None);
    let told = too_few_descriptors(512, 10_000, 256).expect("a warning");
    assert!(
        told.starts_with(
            "the system allows 512 open files, limits.connections is 10000: clients get 256 connections"
        ),
        "{told}"
    );
}

/// Tells when it is dropped.
struct Told(mpsc::Sender<&'static str>, &'static str);

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.0.send(self.1);
    }
}

#[test]
fn a_question_ends_with_its_call_and_a_change_goes_on() {
    let node = node(1);
    let (ended, ends) = mpsc::channel();
    let (begun, begins) = mpsc::channel();
    let (done, release) = (Arc::new(tokio::sync::Notify::new()), ended.clone());

    // Under way when its call is dropped, and never ready.
    let told = Told(ended.clone(), "question");
    let call = node.handle.mailboxes().call(0, move |_| async move {
        let _told = told;
        begun.send(()).expect("waited for");
        std::future::pending::<()>().await
    });
    begins.recv_timeout(PATIENCE).expect("it begins");
    drop(call);
    assert_eq!(ends.recv_timeout(PATIENCE), Ok("question"));

    let wakes = Arc::clone(&done);
    drop(node.handle.mailboxes().carry_out(0, move |_| async move {
        wakes.notified().await;
        release.send("change").expect("waited for");
    }));
    // A request that nobody waits for when the core comes to it is not begun.
    let (hold, held) = mpsc::channel::<()>();
    node.handle
        .mailboxes()
        .send(0, move |_| assert!(held.recv().is_err()));
    let told = Told(ended, "dropped");
    drop(node.handle.mailboxes().call(0, move |_| async move {
        let Told(sender, _) = &told;
        sender.send("begun").expect("waited for");
    }));
    drop(hold);
    assert_eq!(ends.recv_timeout(PATIENCE), Ok("dropped"));
    done.notify_one();
    assert_eq!(ends.recv_timeout(PATIENCE), Ok("change"));
}

/// Has core 0 apply a change, and looks at it after each turn: gives by how many the partitions that are open grew or shrank in one
/// turn at most.
fn longest_step(
    node: &Node,
    plan: impl FnOnce(&Metadata) -> Result<Command, PlanError> + Send + 'static,
) -> usize {
    let watched = node.handle.mailboxes().call(0, |core| async move {
        let commands = [core.with_metadata(plan).expect("it fits")];
        let mut applying = std::pin::pin!(core.apply(&commands));
        let count = || core.shards().map(|shard| shard.partition_count()).sum::<usize>();
        let (mut open, mut longest) = (count(), 0);
        loop {
            let polled = std::future::poll_fn(|context| Poll::Ready(applying.as_mut().poll(context))).await;
            longest = longest.max(open.abs_diff(count()));
            open = count();
            let named = core.with_metadata(Metadata::partition_count);
            assert!(
                named <= open,
                "the image names {named} partitions, {open} are open"
            );
            if let Poll::Ready(applied) = polled {
                assert_eq!(applied, [Ok(())]);
                return longest;
            }
        }
    });
    wait(watched).expect("the core runs")
}

#[test]
fn topics_of_many_partitions_come_and_go_in_slices_that_nobody_sees() {
    let node = node(1);
    let id = fresh_topic_id([5; 16]);
    let wide = NewTopic {
        id,
        name: "wide".into(),
        partition_count: 5_000,
        replica_count: 1,
        chosen: None,
        config: Vec::new(),
    };
    let created = longest_step(&node, move |metadata| {
        metadata.plan_topic(&wide, &mut Plans::default())
    });
    let grown = longest_step(&node, move |metadata| {
        metadata.plan_partitions(id, 9_000, &mut Plans::default())
    });
    let deleted = longest_step(&node, move |metadata| metadata.plan_topic_deletion(id));
    assert_eq!([created, grown, deleted], [1_000; 3], "partitions in one turn");
}

#[test]
fn an_epoch_that_is_opened_while_the_node_runs_is_obeyed_by_the_leader() {
    let node = node(2);
    let topic = NewTopic {
        id: fresh_topic_id([3; 16]),
        name: "led".into(),
        partition_count: 2,
        replica_count: 1,
        chosen: None,
        config: Vec::new(),
    };
    let partitions = [0, 1].map(|index| PartitionId {
        topic: topic.id,
        index,
    });
    change(&node, move |metadata| {
        metadata.plan_topic(&topic, &mut Plans::default())
    });
    // One of them on each core.
    let led = |id: PartitionId, core| {
        let led = node.handle.mailboxes().call(core, move |core| async move {
            let owner = core.facts.owner_of(id);
            let named = core.with_metadata(|metadata| metadata.partition(id).map(|state| state.epoch));
            let led = (owner == core.index).then(|| {
                let shard = core.shard(core.facts.shard_of(id));
                shard
                    .with_leader(id, |leader| leader.epoch())
                    .expect("it is led here")
            });
            (named, led)
        });
        wait(led).expect("the core runs")
    };
    let epochs = |id| [led(id, 0), led(id, 1)];
    for id in partitions {
        let before = epochs(id);
        change(&node, move |metadata| {
            metadata.plan_epoch(id, NodeId(config(2).node.id))
        });
        let owner = usize::from(before[1].1.is_some());
        let (named, led) = before[owner];
        assert_eq!(named, led);
        let next = led.map(|epoch| Epoch(epoch.0 + 1));
        for (core, (named, led)) in epochs(id).into_iter().enumerate() {
            assert_eq!(
                (named, led),
                (next, next.filter(|_| core == owner)),
                "{id} on {core}"
            );
        }
    }
    assert!(node.drain(Duration::from_secs(3_600)));
}

/// Where the metadata log begins and ends.
fn metadata_log(node: &Node) -> (Offset, Offset) {
    let bounds = node.handle.mailboxes().call(0, |core| async move {
        core.shard(0)
            .with_leader(METADATA_PARTITION, |leader| {
                (leader.log_start(), leader.next_offset())
            })
            .expect("core 0 has it")
    });
    wait(bounds).expect("the core runs")
}

/// A core's image, but for the nodes and the epochs, which every start changes.
fn topics_of(node: &Node, core: usize) -> Vec<(String, i32, TopicConfig)> {
    let topics = node.handle.mailboxes().call(core, |core| async move {
        core.with_metadata(|metadata| {
            let topic = |topic: &Topic| {
                (
                    topic.name.to_string(),
                    topic.partition_count(),
                    topic.config.clone(),
                )
            };
            metadata.topics().map(topic).collect()
        })
    });
    wait(topics).expect("the core runs")
}

#[test]
fn a_start_reads_an_image_and_not_every_command_there_ever_was() {
    let disk = SimulatedDisk::new();
    let node = start_on(&disk, 2).expect("the node starts");
    let topic = NewTopic {
        id: fresh_topic_id([7; 16]),
        name: "changing".into(),
        partition_count: 3,
        replica_count: 1,
        chosen: None,
        config: Vec::new(),
    };
    let id = topic.id;
    change(&node, move |metadata| {
        metadata.plan_topic(&topic, &mut Plans::default())
    });
    let mut changes = 0;
    while metadata_log(&node).0 == Offset::ZERO {
        changes += 1;
        assert!(changes < 10_000, "no image was written");
        let retention = changes.to_string();
        change(&node, move |_| {
            let changes = vec![ConfigChange::set("retention.bytes", &retention)];
            Ok(Command::SetTopicConfig {
                id,
                changes,
                client: None,
            })
        });
    }
    let topics = topics_of(&node, 1);
    assert_eq!(topics, topics_of(&node, 0));
    let (start, end) = metadata_log(&node);
    assert!(
        end.0 - start.0 < changes / 2,
        "{changes} changes, the log is {start} to {end}"
    );
    drop(node);

    let again = start_on(&disk, 2).expect("the node starts again");
    assert_eq!(
        (topics_of(&again, 0), topics_of(&again, 1)),
        (topics.clone(), topics)
    );
    assert_eq!(metadata_log(&again), (start, end.advance(1)));
    drop(again);

    let identity = identify(&disk, &Random::SYSTEM, Some(config(2).node.id), 2).expect("a node's directory");
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let names = TopicNames::read(&disk, &identity).expect("sound");
    assert_eq!(names.topic(PartitionId { topic: id, index: 0 }), Some("changing"));
}

#[test]
fn starts_alone_get_an_image_too() {
    let disk = SimulatedDisk::new();
    let mut starts = 0;
    let (start, end) = loop {
        starts += 1;
        assert!(starts < 1_000, "no image was written");
        let node = start_on(&disk, 1).expect("the node starts");
        let (start, end) = metadata_log(&node);
        if start > Offset::ZERO {
            break (start, end);
        }
        assert!(node.drain(Duration::from_secs(3_600)));
    };
    assert!(
        end.0 - start.0 < starts / 2,
        "{starts} starts, the log is {start} to {end}"
    );
}
