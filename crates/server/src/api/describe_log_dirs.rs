//! DescribeLogDirs: the data directory, its disk, and how much of it each partition takes.
//!
//! A partition's size is that of its segments and of what only the journal has yet. The journal's own files, which are
//! larger than what is in them, are nobody's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::absolute;
use std::rc::Rc;

use kafka_wire::describe_log_dirs::{
    DescribableLogDirTopic, DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use kafka_wire::{DescribeLogDirsRequest, DescribeLogDirsResponse, ErrorCode, Text};
use platform::slices::Slices;
use protocol::metadata::Topic;
use record::PartitionId;

use super::Envelope;
use crate::core::Core;
use crate::long::Long;
use crate::owner::ask_owners;

/// Stands for a size that nobody could tell.
const UNKNOWN_BYTES: i64 = -1;

/// Memory that telling of a partition and of a topic takes while the answer is gathered, and in the frame.
const PARTITION_BYTES: usize = 128;
const TOPIC_BYTES: usize = 512;

/// Partitions and topics that are looked up before others have their turn.
const PARTITIONS_IN_ONE_TURN: usize = 5_000;

/// Partitions of one topic.
type Partitions = Vec<PartitionId>;

pub(super) async fn handle(
    core: Rc<Core>,
    request: DescribeLogDirsRequest,
    Envelope { caller, room, .. }: Envelope,
) -> (DescribeLogDirsResponse, usize) {
    // All partitions of the node, for a request of a few bytes. Held until the response is there; whoever writes it holds what its
    // frame takes from then on.
    let held = core
        .answers
        .reserve(caller.address(), gathered_bytes(&core, &request))
        .await;
    let wanted = match request.topics {
        None => all(&core).await,
        Some(topics) => named(&core, &Long::of(&core, topics, &room)).await,
    };
    let questions = wanted.values().flatten().map(|id| Ok((*id, ())));
    let size = |shard: Rc<shard::Shard>, id, ()| async move {
        shard
            .partition_bytes(id)
            .ok_or(ErrorCode::UnknownTopicOrPartition)
    };
    let mut sizes = ask_owners(&core, &room, questions, size).await;
    let mut slices = Slices::of(PARTITIONS_IN_ONE_TURN);
    let mut topics = Vec::with_capacity(wanted.len());
    for (name, ids) in wanted {
        let entries = 1 + ids.len();
        let sizes = ids.iter().zip(&mut sizes);
        // One that was deleted meanwhile takes no room.
        let partitions = sizes.filter_map(|(id, size)| Some(told(id.index, size.ok()?)));
        let partitions = partitions.collect();
        topics.push(DescribeLogDirsTopic { name, partitions });
        slices.did(entries).await;
    }
    let (total_bytes, usable_bytes) = disk_bytes(&core).await;
    let root = core.disk.root();
    let directory = DescribeLogDirsResult {
        log_dir: Text::from(absolute(&root).unwrap_or(root).display().to_string()),
        topics,
        total_bytes,
        usable_bytes,
        ..DescribeLogDirsResult::default()
    };
    let response = DescribeLogDirsResponse {
        results: vec![directory],
        ..DescribeLogDirsResponse::default()
    };
    (response, held.bytes())
}

/// Memory that gathering the answer takes.
fn gathered_bytes(core: &Core, request: &DescribeLogDirsRequest) -> usize {
    let (topics, partitions) = match &request.topics {
        None => core.with_metadata(|metadata| (metadata.topics().len(), metadata.partition_count())),
        Some(topics) => {
            let partitions = topics.iter().map(|topic| topic.partitions.len()).sum();
            (topics.len(), partitions)
        }
    };
    topics * TOPIC_BYTES + partitions * PARTITION_BYTES
}

async fn all(core: &Core) -> BTreeMap<Text, Partitions> {
    let mut slices = Slices::of(PARTITIONS_IN_ONE_TURN);
    let mut all = BTreeMap::new();
    for (name, topic) in core.all_topics().await {
        let count = core.with_metadata(|metadata| metadata.topic(topic).map_or(0, Topic::partition_count));
        let partitions = (0..count).map(|index| PartitionId { topic, index });
        let partitions: Partitions = partitions.collect();
        slices.did(1 + partitions.len()).await;
        all.insert(Text::from(&*name), partitions);
    }
    all
}

/// The partitions that are named and are there, each once: naming one a million times must not multiply the answer.
async fn named(core: &Core, topics: &[DescribableLogDirTopic]) -> BTreeMap<Text, Partitions> {
    let mut slices = Slices::of(PARTITIONS_IN_ONE_TURN);
    let mut indexes: BTreeMap<&Text, BTreeSet<i32>> = BTreeMap::new();
    for topic in topics {
        slices.did(1).await;
        let name = &topic.topic;
        let count = core.with_metadata(|metadata| metadata.topic_named(name).map(Topic::partition_count));
        let Some(count) = count else {
            continue;
        };
        let there = indexes.entry(name).or_default();
        for index in &topic.partitions {
            if (0..count).contains(index) {
                there.insert(*index);
            }
            slices.did(1).await;
        }
    }
    let mut named = BTreeMap::new();
    for (name, indexes) in indexes {
        let topic = core.with_metadata(|metadata| metadata.topic_named(name).map(|topic| topic.id));
        slices.did(1 + indexes.len()).await;
        let ids = |topic| indexes.into_iter().map(move |index| PartitionId { topic, index });
        named.extend(topic.map(|topic| (name.clone(), ids(topic).collect())));
    }
    named
}

fn told(partition_index: i32, bytes: u64) -> DescribeLogDirsPartition {
    DescribeLogDirsPartition {
        partition_index,
        partition_size: clamped(bytes),
        // No replica lags behind: there is one of each partition.
        offset_lag: 0,
        is_future_key: false,
    }
}

/// The size of the directory's disk, and what is free of it.
async fn disk_bytes(core: &Core) -> (i64, i64) {
    let disk = core.disk.clone();
    let look = move || (disk.total_bytes(), disk.free_bytes());
    let (total, free) = core.facts.pool.run(look).await;
    let known = |bytes: std::io::Result<u64>| bytes.map_or(UNKNOWN_BYTES, clamped);
    (known(total), known(free))
}

fn clamped(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
