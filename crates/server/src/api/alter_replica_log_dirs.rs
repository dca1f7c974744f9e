//! AlterReplicaLogDirs: a replica moves to another directory of its node (KIP-113). A node has one: whoever names that has what was
//! asked for, and no other is known.

use std::path::absolute;
use std::rc::Rc;

use kafka_wire::alter_replica_log_dirs::{
    AlterReplicaLogDir, AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopic,
    AlterReplicaLogDirTopicResult,
};
use kafka_wire::{AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, ErrorCode};
use platform::slices::Slices;
use protocol::metadata::Topic;

use super::Envelope;
use crate::core::Core;

/// Memory that a partition and a topic take in the answer, as it is told and in the frame.
const PARTITION_BYTES: usize = 32;
const TOPIC_BYTES: usize = 512;

/// Partitions and topics that are looked at before others have their turn.
const PARTITIONS_IN_ONE_TURN: usize = 5_000;

pub(super) async fn handle(
    core: Rc<Core>,
    request: AlterReplicaLogDirsRequest,
    Envelope { caller, .. }: Envelope,
) -> (AlterReplicaLogDirsResponse, usize) {
    let topics = request.dirs.iter().flat_map(|dir| &dir.topics);
    let bytes = topics.map(|topic| TOPIC_BYTES + topic.partitions.len() * PARTITION_BYTES);
    let held = core.answers.reserve(caller.address(), bytes.sum()).await;
    let root = core.disk.root();
    let own = absolute(&root).unwrap_or(root).display().to_string();
    let mut slices = Slices::of(PARTITIONS_IN_ONE_TURN);
    let mut results = Vec::new();
    for AlterReplicaLogDir { path, topics } in request.dirs {
        for topic in topics {
            slices.did(1 + topic.partitions.len()).await;
            results.push(answer(&core, *path == *own, topic));
        }
    }
    let response = AlterReplicaLogDirsResponse {
        results,
        ..AlterReplicaLogDirsResponse::default()
    };
    (response, held.bytes())
}

/// Kafka looks at the directory first.
fn answer(core: &Core, is_own: bool, topic: AlterReplicaLogDirTopic) -> AlterReplicaLogDirTopicResult {
    let count = core.with_metadata(|metadata| metadata.topic_named(&topic.name).map(Topic::partition_count));
    let code = |index: i32| match is_own {
        false => ErrorCode::LogDirNotFound,
        true if (0..count.unwrap_or(0)).contains(&index) => ErrorCode::None,
        true => ErrorCode::UnknownTopicOrPartition,
    };
    let partitions = topic.partitions.into_iter();
    AlterReplicaLogDirTopicResult {
        topic_name: topic.name,
        partitions: partitions
            .map(|index| AlterReplicaLogDirPartitionResult {
                partition_index: index,
                error_code: code(index).code(),
            })
            .collect(),
    }
}
