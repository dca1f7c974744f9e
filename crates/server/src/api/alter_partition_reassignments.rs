//! AlterPartitionReassignments: gives partitions other replicas, or calls that off (KIP-455).

use std::rc::Rc;

use kafka_wire::alter_partition_reassignments::{
    ReassignablePartitionResponse, ReassignableTopic, ReassignableTopicResponse,
};
use kafka_wire::{AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ErrorCode};
use platform::slices::Slices;
use protocol::NodeId;
use protocol::metadata::{Metadata, Plans};
use record::PartitionId;

use super::topic_change::{Refusal, WISHES_IN_ONE_TURN, change, check_replicas, conclude, patience};
use super::{Envelope, TOPICS_WITHOUT_ROOM_MAX};
use crate::core::Core;
use crate::long::beside;
use crate::owner::find_partition;

/// A partition and the replicas that it is to have; `None` keeps those that it has.
type Wanted = (PartitionId, Option<Vec<NodeId>>);

pub(super) async fn handle(
    core: Rc<Core>,
    request: AlterPartitionReassignmentsRequest,
    Envelope { caller, room, .. }: Envelope,
) -> AlterPartitionReassignmentsResponse {
    let may_change_count = request.allow_replication_factor_change;
    let patience = patience(request.timeout_ms);
    let mut topics = request.topics;
    let count = count(&topics).await;
    if count > TOPICS_WITHOUT_ROOM_MAX {
        core.answers.room().await;
    }
    let mut slices = Slices::of(WISHES_IN_ONE_TURN);
    let (mut wanted, mut outcomes) = (Vec::new(), Vec::with_capacity(count));
    for topic in &mut topics {
        for partition in &mut topic.partitions {
            let (index, replicas) = (partition.partition_index, partition.replicas.take());
            let checked = core
                .with_metadata(|metadata| check(metadata, (&topic.name, index), replicas, may_change_count));
            outcomes.push(checked.map(|one| wanted.push(one)));
            slices.did(1).await;
        }
        slices.did(1).await;
    }
    // On the image that is changed: replicas that are in force by now are not taken back.
    let plan = |metadata: &Metadata, (id, replicas): Wanted, _: &mut Plans| match replicas {
        Some(replicas) => metadata.plan_replicas(id, &replicas),
        None => metadata.plan_kept_replicas(id),
    };
    let made = change(&core, &caller, room.clone(), patience, wanted, plan).await;
    conclude(&mut outcomes, made);
    let told = move || {
        let mut outcomes = outcomes.into_iter();
        let told = topics.into_iter().map(|topic| told(topic, &mut outcomes));
        (told.collect(), room)
    };
    let (responses, _room) = beside(&core, count, told).await;
    AlterPartitionReassignmentsResponse {
        allow_replication_factor_change: may_change_count,
        error_message: None,
        responses,
        ..AlterPartitionReassignmentsResponse::default()
    }
}

/// Topics and partitions.
async fn count(topics: &[ReassignableTopic]) -> usize {
    let mut slices = Slices::of(WISHES_IN_ONE_TURN);
    let mut count = 0;
    for topic in topics {
        count += 1 + topic.partitions.len();
        slices.did(1).await;
    }
    count
}

/// Checks what needs no other image than this core's, in Kafka's order and in its words: scripts look for them.
fn check(
    metadata: &Metadata,
    (topic, index): (&str, i32),
    replicas: Option<Vec<i32>>,
    may_change_count: bool,
) -> Result<Wanted, Refusal> {
    let found = find_partition(metadata, topic, index).ok();
    let Some((id, state)) = found.and_then(|id| Some((id, metadata.partition(id)?))) else {
        let message = match metadata.topic_named(topic) {
            Some(_) => format!("Unable to find partition {topic}:{index}."),
            None => format!("Unable to find a topic named {topic}."),
        };
        return Err(Refusal::new(ErrorCode::UnknownTopicOrPartition, message));
    };
    let Some(replicas) = replicas else {
        return Ok((id, None));
    };
    check_replicas(metadata, &replicas, None)?;
    let count = state.target.as_ref().unwrap_or(&state.replicas).len();
    if !may_change_count && replicas.len() != count {
        let message = format!(
            "The replication factor is changed from {count} to {}",
            replicas.len()
        );
        return Err(Refusal::new(ErrorCode::InvalidReplicationFactor, message));
    }
    Ok((id, Some(replicas.into_iter().map(NodeId).collect())))
}

fn told(
    topic: ReassignableTopic,
    outcomes: &mut impl Iterator<Item = Result<(), Refusal>>,
) -> ReassignableTopicResponse {
    let partitions = topic.partitions.iter().zip(outcomes);
    let partitions = partitions.map(|(partition, outcome)| {
        // Replicas that are there, or on their way, already are no error.
        let refusal = outcome.err().filter(|refusal| refusal.code != ErrorCode::None);
        ReassignablePartitionResponse {
            partition_index: partition.partition_index,
            error_code: refusal.as_ref().map_or(0, |refusal| refusal.code.code()),
            error_message: refusal.and_then(|refusal| refusal.text()),
        }
    });
    ReassignableTopicResponse {
        partitions: partitions.collect(),
        name: topic.name,
    }
}
