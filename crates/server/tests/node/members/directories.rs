//! Directories that a cluster does not take: copies, others' and damaged ones; and what is read of one at rest.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use platform::disk::{Disk, RealDisk};
use record::PartitionId;
use server::{MetadataAtRest, Node, StartError, TopicNames};
use storage::NodeIdentity;

use super::{
    append_at_leader, created, founder, joined, metadata, three_with_votes, told_cluster, values_at_leader,
};
use crate::support::{TestNode, Wire, config, eventually};

fn refusal(outcome: Result<Node, StartError>) -> String {
    match outcome {
        Ok(_) => panic!("the node must not start"),
        Err(error) => error.to_string(),
    }
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("there is room");
    for entry in std::fs::read_dir(from).expect("it is there") {
        let entry = entry.expect("it can be listed");
        match entry.file_type().expect("it is known").is_dir() {
            true => copy_all(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).expect("there is room")),
        }
    }
}

/// A directory that is put back from a copy lacks what it has acknowledged since: it is refused, however often it is tried.
#[test]
fn a_directory_that_was_restored_from_a_copy_is_refused() {
    let (_founder, peers) = founder();
    let sets = [("cluster.join", &*peers)];
    let copy = tempfile::tempdir().expect("there is room");
    let node = joined(&peers).restart_with(&sets, |directory| {
        std::fs::copy(directory.join("node.toml"), copy.path().join("node.toml")).expect("it can be copied");
    });
    let node = node.restart_with(&sets, |_| ());
    for _ in 0..3 {
        let refused = refusal(Node::start(config(copy.path(), &sets), "0.0.0"));
        assert!(refused.contains("a copy that was restored"), "{refused}");
    }
    drop(node);
}

#[test]
fn a_second_process_over_a_copy_of_a_directory_ends_the_first() {
    let (_founder, peers) = founder();
    let sets = [("cluster.join", &*peers)];
    let mut first = joined(&peers);
    first.allow_long_turns();
    let copy = tempfile::tempdir().expect("there is room");
    // It has counted its first start.
    std::fs::copy(first.directory().join("node.toml"), copy.path().join("node.toml"))
        .expect("it can be copied");
    let second = Node::start(config(copy.path(), &sets), "0.0.0");
    let first = first.take();
    let death = first.core_death();
    match second {
        Ok(_) => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .build()
                .expect("it needs nothing");
            assert_eq!(
                runtime.block_on(death).map(|died| died.core),
                Some(0),
                "the older start ends"
            );
        }
        Err(error) => panic!("the later start is the one that counts: {error}"),
    }
}

/// The first node's directory is put back from a copy: that node is refused, and no other one takes harm.
#[test]
fn a_copy_of_the_first_node_is_refused_and_ends_nobody() {
    let [founder, second, third] = three_with_votes();
    let mut wire = second.connect();
    let peers = founder.peer_address().to_string();
    let sets = [("peer.listen", &*peers)];
    let copy = tempfile::tempdir().expect("there is room");
    let founder = founder.restart_with(&sets, |directory| copy_all(directory, copy.path()));
    let mut founder = founder.restart_with(&sets, |_| ());
    founder.stop();
    for _ in 0..2 {
        let refused = refusal(Node::start(config(copy.path(), &sets), "0.0.0"));
        assert!(refused.contains("a copy that was restored"), "{refused}");
    }
    let mut other = third.connect();
    for (place, wire) in [&mut wire, &mut other].into_iter().enumerate() {
        let topic = format!("made-{place}");
        eventually("both go on", || created(wire, &topic, 2) == 0);
    }
}

/// A directory without what it has promised to others is nobody's.
#[test]
fn a_member_that_has_lost_its_part_of_the_group_is_refused() {
    let (_founder, peers) = founder();
    let mut other = joined(&peers);
    other.stop();
    std::fs::remove_dir_all(other.directory().join("metadata")).expect("it is there");
    let refused = refusal(other.start_another(&[("cluster.join", &peers)]));
    assert!(refused.contains("metadata/log is missing"), "{refused}");
}

/// A directory at rest: topics have names there, and damage is found.
#[test]
fn what_a_member_keeps_of_the_metadata_is_read_at_rest() {
    let (_founder, peers) = founder();
    let mut other = joined(&peers);
    let mut wire = other.connect();
    assert_eq!(created(&mut wire, "orders", 1), 0);
    let id = metadata(&mut wire).topics.remove(0).topic_id;
    other.stop();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open_to_read(other.directory()).expect("it is there"));
    let identity = NodeIdentity::read(&*disk).expect("it is a node's");
    let names = TopicNames::read(&disk, &identity).expect("it is sound");
    assert_eq!(names.topic(PartitionId { topic: id, index: 0 }), Some("orders"));
    let found = MetadataAtRest::read(&disk, &identity).expect("it is sound");
    assert!(found.is_some_and(|found| found.entries > 0));
    let log = other.directory().join("metadata/log");
    let mut bytes = std::fs::read(&log).expect("it is there");
    // In the body of a frame that others follow.
    let mut frames = (0..bytes.len() - 4).filter(|at| &bytes[*at..*at + 4] == b"RWMF");
    let second = frames.nth(1).expect("something was written");
    bytes[second + 33] ^= 1;
    std::fs::write(&log, bytes).expect("there is room");
    let damaged = MetadataAtRest::read(&disk, &identity)
        .expect_err("a bit has turned")
        .to_string();
    assert!(damaged.contains("metadata/log is damaged"), "{damaged}");
}

#[test]
fn nodes_that_cannot_be_members_are_told_why() {
    let (founder, peers) = founder();
    let _other = joined(&peers);
    let start = |sets: &[(&str, &str)]| {
        let directory = tempfile::tempdir().expect("there is room");
        let refused = refusal(Node::start(config(directory.path(), sets), "0.0.0"));
        let empty = std::fs::read_dir(directory.path())
            .expect("it is there")
            .all(|entry| {
                let name = entry.expect("it can be listed").file_name();
                !name.to_string_lossy().starts_with("node.toml")
            });
        assert!(empty, "nothing is half done: {refused}");
        refused
    };
    let nobody = start(&[("cluster.join", "127.0.0.1:1")]);
    assert!(
        nobody.starts_with("no node at 127.0.0.1:1 (cluster.join) lets this one in: "),
        "{nobody}"
    );
    let taken = start(&[("cluster.join", &peers), ("node.id", "2")]);
    assert!(taken.contains("node 2 exists already"), "{taken}");
    // Kafka's clients are no nodes.
    let port = founder.address().to_string();
    let not_a_peer = start(&[("cluster.join", &port)]);
    assert!(not_a_peer.contains("127.0.0.1"), "{not_a_peer}");
    let mut lone = TestNode::start_with(&[]);
    lone.stop();
    let is_lone = refusal(lone.start_another(&[("cluster.join", &peers)]));
    assert!(
        is_lone.contains("has a cluster of its own") && is_lone.contains("--join"),
        "{is_lone}"
    );
}

/// The journals of one node are those of a moment ago: it is sent what they lack before it counts again.
#[test]
fn a_node_whose_journals_are_restored_from_a_copy_counts_when_it_has_everything_again() {
    let [founder, second, third] = three_with_votes();
    let mut wires: BTreeMap<i32, Wire> = [(1, &founder), (2, &second), (3, &third)]
        .map(|(id, node)| (id, node.connect()))
        .into();
    assert_eq!(created(wires.get_mut(&1).expect("it is there"), "orders", 3), 0);
    let copies = tempfile::tempdir().expect("there is room for a temporary directory");
    let mut expected = Vec::new();
    let mut append = |wires: &mut BTreeMap<i32, Wire>, value: &str| {
        for index in 0..3 {
            append_at_leader(wires, index, value);
        }
        expected.push(value.to_owned());
    };
    append(&mut wires, "before");
    wires.remove(&3);
    let third = third.restart_with(&[("peer.listen", "127.0.0.1:0")], |directory| {
        for part in ["journals", "checkpoints", "partitions"] {
            copy_all(&directory.join(part), &copies.path().join(part));
        }
    });
    let durable = |node: &TestNode| told_cluster(node)["nodes"][2]["durable_frames"].clone();
    let mut at_copy = durable(&third);
    eventually("it tells how far it is", || {
        at_copy = durable(&third);
        at_copy[0].is_u64()
    });
    wires.insert(3, third.connect());
    append(&mut wires, "after");
    eventually("the others have heard that it is further", || {
        let own = durable(&third);
        own != at_copy && own == durable(&founder)
    });
    wires.remove(&3);
    let third = third.restart_with(&[("peer.listen", "127.0.0.1:0")], |directory| {
        for part in ["journals", "checkpoints", "partitions"] {
            let place = directory.join(part);
            std::fs::remove_dir_all(&place).expect("it is there");
            copy_all(&copies.path().join(part), &place);
        }
    });
    assert_eq!(told_cluster(&third)["disk_was_doubted"], true);
    assert_eq!(told_cluster(&founder)["disk_was_doubted"], false);
    wires.insert(3, third.connect());
    append(&mut wires, "back");
    // It holds everything again, with one of the others or the other.
    eventually("it counts again", || {
        let all = metadata(wires.get_mut(&1).expect("it is there")).topics;
        let mut partitions = all.iter().flat_map(|topic| &topic.partitions);
        partitions.all(|partition| partition.isr_nodes.len() == 3)
    });
    wires.remove(&1);
    drop(founder);
    for index in 0..3 {
        let mut found = values_at_leader(&mut wires, index);
        found.dedup();
        assert_eq!(found, expected);
    }
    drop(second);
}
