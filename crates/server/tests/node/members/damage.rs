//! Damaged segments of partitions that several nodes hold: readers notice nothing, and what is lost comes back from another replica.

use std::fs;
use std::path::{Path, PathBuf};

use kafka_wire::create_topics::CreatableTopicConfig;
use kafka_wire::fetch::PartitionData;
use kafka_wire::{CreateTopicsRequest, ErrorCode, FetchRequest};

use super::leaders;
use crate::support::{TestNode, Wire, batch, creatable, eventually, fetch_request, now_ms, records_of};

/// The bytes of each value.
const VALUE_BYTES: usize = 50_000;

/// The racks of the nodes.
const RACKS: [&str; 3] = ["a", "b", "c"];

/// Keys that a test sets at each node.
type Sets = [(&'static str, &'static str); 2];

/// Segments that hold their own bytes, and nobody looks for damage.
const UNSCRUBBED: Sets = [("scrub.rate", "0B"), ("journal.file_bytes", "4MiB")];
/// The same, and somebody does, again and again.
const SCRUBBED: Sets = [("scrub.rate", "64MiB"), ("journal.file_bytes", "4MiB")];

/// Three nodes over directories of their own, each in a rack of its own, and what they are started with.
struct Three {
    nodes: Vec<Option<TestNode>>,
    peers: String,
    sets: Sets,
}

/// The keys of a node, which joins unless it is the first.
fn keys<'a>(sets: Sets, rack: &'a str, listen: &'a str, join: Option<&'a str>) -> Vec<(&'a str, &'a str)> {
    let mut keys = vec![
        ("peer.listen", listen),
        ("journal.layout_trigger", "1MiB"),
        ("scrub.rest", "100ms"),
        ("node.rack", rack),
    ];
    keys.extend(sets);
    keys.extend(join.map(|peers| ("cluster.join", peers)));
    keys
}

impl Three {
    /// With a topic of one partition that all three hold; its segments are no larger than that.
    fn with_topic(sets: Sets, segment_bytes: &str) -> Three {
        let any = "127.0.0.1:0";
        let first = TestNode::start_with(&keys(sets, RACKS[0], any, None));
        let peers = first.peer_address().to_string();
        let join = |rack| TestNode::start_with(&keys(sets, rack, any, Some(&peers)));
        let (second, third) = (join(RACKS[1]), join(RACKS[2]));
        let mut topic = creatable("orders", 1);
        topic.configs.push(CreatableTopicConfig {
            name: "segment.bytes".into(),
            value: Some(segment_bytes.into()),
        });
        let request = CreateTopicsRequest {
            topics: vec![topic],
            timeout_ms: 30_000,
            ..CreateTopicsRequest::default()
        };
        let mut wire = first.connect();
        assert_eq!(wire.call(5, &request).topics[0].error_code, 0);
        let nodes = [first, second, third].map(Some).into();
        Three { nodes, peers, sets }
    }

    /// The keys that a node is started with anew: the first is found where it was.
    fn keys(&self, index: usize) -> Vec<(&str, &str)> {
        match index {
            0 => keys(self.sets, RACKS[0], &self.peers, None),
            _ => keys(self.sets, RACKS[index], "127.0.0.1:0", Some(&self.peers)),
        }
    }

    fn node(&self, index: usize) -> &TestNode {
        self.nodes[index].as_ref().expect("it runs")
    }

    /// Appends what the tests read, until every node has laid the first of it out and has a checkpoint that says so.
    fn filled(self, files: fn(&Path) -> Vec<PathBuf>) -> (Three, Vec<String>) {
        let mut wire = self.node(0).connect();
        let mut values = Vec::new();
        let mut rounds = [None; 3];
        eventually("every node has segments", || {
            let value = format!("{:>VALUE_BYTES$}", values.len());
            let answer = wire.produce("orders", 0, batch(&[(now_ms(), &value)]));
            if answer.error_code == 0 {
                values.push(value);
            }
            let each = self.nodes.iter().flatten().zip(&mut rounds);
            let recorded = each.map(|(node, first)| {
                let rounds = || node.metric("ropewalk_layout_rounds_total");
                match *first {
                    // One round after that in which they were first seen has ended.
                    Some(first) => rounds() > first + 1,
                    None => {
                        *first = (files(node.directory()).len() > 1).then(rounds);
                        false
                    }
                }
            });
            recorded.filter(|is_recorded| *is_recorded).count() == 3
        });
        (self, values)
    }

    /// Starts a node anew, with something done to its directory in between.
    fn restart(&mut self, index: usize, meanwhile: impl FnOnce(&Path)) {
        let node = self.nodes[index].take().expect("it runs");
        self.nodes[index] = Some(node.restart_with(&self.keys(index), meanwhile));
    }

    /// Returns once the first node leads.
    fn until_first_leads(&self) {
        let mut wire = self.node(1).connect();
        eventually("the first leads", || leaders(&mut wire, "orders") == [1]);
    }

    /// So many values, read at a node as its rack does.
    fn read_at(&self, index: usize, count: usize) -> Vec<String> {
        let mut wire = self.node(index).connect();
        let rack = RACKS[index];
        let mut values: Vec<String> = Vec::new();
        eventually("it serves everything", || {
            let data = fetched(&mut wire, rack, values.len() as i64);
            if is_elsewhere(&data) {
                return false;
            }
            assert_eq!(data.error_code, 0, "at offset {}", values.len());
            let at = values.len() as i64;
            let records = records_of(&data).into_iter();
            let behind = records.filter(|record| record.offset.0 >= at);
            values.extend(
                behind.map(|record| {
                    String::from_utf8(record.value.unwrap_or_default().to_vec()).expect("text")
                }),
            );
            values.len() >= count
        });
        values
    }
}

/// Says whether a node does not lead yet, or not follow.
fn is_elsewhere(data: &PartitionData) -> bool {
    let code = ErrorCode::from_code(data.error_code);
    matches!(
        code,
        Some(ErrorCode::NotLeaderOrFollower | ErrorCode::OffsetNotAvailable)
    )
}

fn fetched(wire: &mut Wire, rack: &str, from: i64) -> PartitionData {
    let request = FetchRequest {
        rack_id: rack.into(),
        ..fetch_request("orders", 0, from)
    };
    wire.call(12, &request).responses.remove(0).partitions.remove(0)
}

/// The segments with records of a directory's largest partition, in their order.
fn segments(directory: &Path) -> Vec<PathBuf> {
    let entries = |directory: &Path| {
        let entries = fs::read_dir(directory).into_iter().flatten();
        entries.map(|entry| entry.expect("it can be listed").path())
    };
    let mut partitions: Vec<Vec<PathBuf>> = entries(&directory.join("partitions"))
        .map(|partition| {
            let files = entries(&partition).filter(|file| {
                file.extension().is_some_and(|end| end == "segment")
                    && file.metadata().is_ok_and(|data| data.len() > 256 << 10)
            });
            files.collect()
        })
        .collect();
    partitions.sort_by_key(Vec::len);
    let mut segments = partitions.pop().unwrap_or_default();
    segments.sort();
    segments
}

/// Journal files that became segments: what a node has more than it may have for appends is one, and the oldest.
fn adopted(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory.join("partitions")).into_iter().flatten();
    let partitions = entries.map(|entry| entry.expect("it can be listed").path());
    let indexes = partitions.flat_map(|partition| {
        let files = fs::read_dir(partition).into_iter().flatten();
        files.map(|entry| entry.expect("it can be listed").path())
    });
    // The index alone is small.
    indexes
        .filter(|file| {
            file.extension().is_some_and(|end| end == "segment")
                && file
                    .metadata()
                    .is_ok_and(|data| (1..64 << 10).contains(&data.len()))
        })
        .collect()
}

/// Says whether a segment and the one that is to take its place lie side by side.
fn has_twins(directory: &Path) -> bool {
    let partitions = fs::read_dir(directory.join("partitions")).into_iter().flatten();
    partitions.flatten().any(|partition| {
        let files = fs::read_dir(partition.path()).into_iter().flatten().flatten();
        let names = files.filter_map(|file| file.file_name().into_string().ok());
        let mut firsts: Vec<String> = names
            .filter(|name| name.ends_with(".segment"))
            .map(|name| name[..20].to_owned())
            .collect();
        let count = firsts.len();
        firsts.sort();
        firsts.dedup();
        firsts.len() < count
    })
}

/// Turns bits of a byte, counted from the end if it is negative.
fn turn(file: &Path, at: i64) {
    let mut bytes = fs::read(file).expect("it can be read");
    let at = match at {
        0.. => at as usize,
        _ => bytes.len() - at.unsigned_abs() as usize,
    };
    bytes[at] ^= 0x10;
    fs::write(file, bytes).expect("it can be written");
}

fn until_mended(node: &TestNode, segments: u64) {
    eventually("every damaged segment was written anew", || {
        node.metric("ropewalk_repairs_total") >= segments
    });
}

#[test]
fn a_follower_and_then_the_leader_read_around_damage_and_mend_it() {
    let (mut three, values) = Three::with_topic(UNSCRUBBED, "1048576").filled(segments);
    for index in [1, 0] {
        three.restart(index, |directory| {
            let segments = segments(directory);
            // A batch of one, and the trailer by which everything in the other is found.
            turn(&segments[0], 100_000);
            turn(&segments[1], -100);
        });
        three.until_first_leads();
        assert!(
            three.read_at(index, values.len()) == values,
            "node {} serves all of it",
            index + 1
        );
        let node = three.node(index);
        let lent = node.metric("ropewalk_lent_reads_total");
        let damages = node.metric("ropewalk_damages_total");
        let repairs = node.metric("ropewalk_repairs_total");
        assert!(
            lent >= 2 && damages == 2,
            "node {}: {lent} reads, {damages} damages, {repairs} repairs",
            index + 1
        );
        until_mended(node, 2);
        // From now on nobody is asked.
        three.restart(index, |_| ());
        three.until_first_leads();
        assert!(three.read_at(index, values.len()) == values);
        let node = three.node(index);
        assert_eq!(node.metric("ropewalk_lent_reads_total"), 0);
        assert_eq!(node.metric("ropewalk_damages_total"), 0);
    }
}

#[test]
fn a_journal_file_that_became_a_segment_is_mended() {
    let sets = [("scrub.rate", "0B"), ("journal.file_bytes", "1MiB")];
    let (mut three, values) = Three::with_topic(sets, "1073741824").filled(adopted);
    three.restart(1, |directory| turn(&adopted(directory)[0], -100));
    assert!(three.read_at(1, values.len()) == values);
    assert!(three.node(1).metric("ropewalk_lent_reads_total") >= 1);
    until_mended(three.node(1), 1);
    three.restart(1, |_| ());
    assert!(three.read_at(1, values.len()) == values);
    assert_eq!(three.node(1).metric("ropewalk_lent_reads_total"), 0);
}

#[test]
fn scrubbing_finds_what_nobody_reads_at_different_places_of_all_replicas() {
    let (mut three, values) = Three::with_topic(SCRUBBED, "1048576").filled(segments);
    for index in [2, 1, 0] {
        three.restart(index, |directory| {
            turn(&segments(directory)[0], 100_000 + 200_000 * index as i64);
        });
    }
    for index in 0..3 {
        let node = three.node(index);
        until_mended(node, 1);
        assert_eq!(node.metric("ropewalk_damages_total"), 1);
        eventually("all of it was looked at", || {
            node.metric("ropewalk_scrub_passes_total") >= 2 * 2
                && node.metric("ropewalk_scrubbed_bytes_total") > VALUE_BYTES as u64 * 20
        });
    }
    for index in 0..3 {
        assert!(three.read_at(index, values.len()) == values);
        assert_eq!(three.node(index).metric("ropewalk_lent_reads_total"), 0);
    }
}

#[test]
fn what_no_replica_has_is_refused_until_one_has_it_again() {
    let (mut three, values) = Three::with_topic(UNSCRUBBED, "1048576").filled(segments);
    for index in [2, 1, 0] {
        three.restart(index, |directory| turn(&segments(directory)[0], 100_000));
    }
    three.until_first_leads();
    for (index, rack) in RACKS.into_iter().enumerate() {
        let mut wire = three.node(index).connect();
        let refused = |data: &PartitionData| {
            data.error_code == ErrorCode::KafkaStorageError.code() && records_of(data).is_empty()
        };
        // The first batches lie before the damage, and what lies behind it is served, too.
        let mut refusals = 0;
        for offset in 0..values.len() as i64 {
            let mut data = PartitionData::default();
            eventually("it serves", || {
                data = fetched(&mut wire, rack, offset);
                !is_elsewhere(&data)
            });
            match data.error_code {
                0 => {
                    let found = records_of(&data);
                    assert_eq!(found[0].offset.0, offset, "nothing is skipped");
                    let value = found[0].value.clone().unwrap_or_default();
                    assert!(value == values[offset as usize]);
                }
                _ => {
                    assert!(refused(&data), "{}", data.error_code);
                    refusals += 1;
                }
            }
        }
        assert!(
            (1..5).contains(&refusals),
            "{refusals} are refused at node {}",
            index + 1
        );
    }
    // Two replicas cannot help each other; a third that has it helps both.
    three.restart(2, |directory| turn(&segments(directory)[0], 100_000));
    for index in 0..3 {
        assert!(three.read_at(index, values.len()) == values);
    }
}

/// However far a repair had come when the node was killed: what is read afterwards is what was appended.
#[test]
fn a_node_that_is_killed_while_it_mends_goes_on_later() {
    let (mut three, values) = Three::with_topic(SCRUBBED, "1048576").filled(segments);
    let mut met = 0;
    for round in 0..6 {
        three.restart(1, |directory| {
            for segment in segments(directory) {
                // All of it is lent, which takes longest.
                turn(&segment, -100);
            }
        });
        let node = three.nodes[1].take().expect("it runs");
        let directory = node.directory().to_owned();
        eventually("it mends", || {
            has_twins(&directory) || node.metric("ropewalk_repairs_total") > 0
        });
        std::thread::sleep(std::time::Duration::from_millis(7 * round));
        let node = node.kill_and_restart_with(&three.keys(1), |directory| {
            met += usize::from(has_twins(directory));
        });
        three.nodes[1] = Some(node);
        assert!(three.read_at(1, values.len()) == values, "round {round}");
        let node = three.node(1);
        eventually("it was looked at again, and nothing is damaged any more", || {
            node.metric("ropewalk_scrub_passes_total") >= 2 * 2
        });
        let damages = node.metric("ropewalk_damages_total");
        eventually("what was damaged still is mended", || {
            damages == 0 || node.metric("ropewalk_repairs_total") > 0
        });
    }
    assert!(met > 0, "no kill has met a repair");
}
