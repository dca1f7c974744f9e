//! AlterPartitionReassignments: gives partitions other replicas, or calls that off (KIP-455).

use std::rc::Rc;

use kafka_wire::alter_partition_reassignments::{
    ReassignablePartition, ReassignablePartitionResponse, ReassignableTopic, ReassignableTopicResponse,
};
use kafka_wire::{AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ErrorCode, Text};
use platform::slices::Slices;
use protocol::NodeId;
use protocol::metadata::{Metadata, Plans};
use record::PartitionId;

use super::Envelope;
use super::topic_change::{Refusal, WISHES_IN_ONE_TURN, change, conclude, patience};
use crate::core::Core;
use crate::long::beside;
use crate::owner::find_partition;

/// A partition and the replicas that it is to have; none if it has them, or is getting them.
type Wanted = (PartitionId, Option<Vec<NodeId>>);

pub(super) async fn handle(
    core: Rc<Core>,
    request: AlterPartitionReassignmentsRequest,
    Envelope {
        caller,
        room,
        version,
    }: Envelope,
) -> AlterPartitionReassignmentsResponse {
    let may_change_count = version < 1 || request.allow_replication_factor_change;
    let mut slices = Slices::of(WISHES_IN_ONE_TURN);
    let mut outcomes: Vec<Result<Wanted, Refusal>> = Vec::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            outcomes.push(
                core.with_metadata(|metadata| check(metadata, &topic.name, partition, may_change_count)),
            );
            slices.did(1).await;
        }
    }
    let wanted = outcomes.iter().flatten();
    let wanted = wanted.filter_map(|(id, replicas)| Some((*id, replicas.clone()?)));
    let wanted: Vec<(PartitionId, Vec<NodeId>)> = wanted.collect();
    let plan = |metadata: &Metadata, (id, replicas): (PartitionId, Vec<NodeId>), _: &mut Plans| {
        metadata.plan_replicas(id, &replicas)
    };
    let made = change(
        &core,
        &caller,
        room.clone(),
        patience(request.timeout_ms),
        wanted,
        plan,
    )
    .await;
    let planned = outcomes
        .iter_mut()
        .filter(|outcome| matches!(outcome, Ok((_, Some(_)))));
    conclude(planned, made);
    let (topics, count) = (request.topics, outcomes.len());
    let told = move || {
        let mut outcomes = outcomes.into_iter();
        let told = topics.into_iter().map(|topic| told(topic, &mut outcomes));
        (told.collect(), room)
    };
    let (responses, _room) = beside(&core, count, told).await;
    AlterPartitionReassignmentsResponse {
        allow_replication_factor_change: request.allow_replication_factor_change,
        responses,
        ..AlterPartitionReassignmentsResponse::default()
    }
}

fn check(
    metadata: &Metadata,
    topic: &str,
    wanted: &ReassignablePartition,
    may_change_count: bool,
) -> Result<Wanted, Refusal> {
    let found = find_partition(metadata, topic, wanted.partition_index).ok();
    let found = found.and_then(|id| Some((id, metadata.partition(id)?)));
    let Some((id, state)) = found else {
        let message = "The partition does not exist.";
        return Err(Refusal::new(ErrorCode::UnknownTopicOrPartition, message));
    };
    let Some(replicas) = &wanted.replicas else {
        return match state.target {
            Some(_) => Ok((id, Some(state.replicas.to_vec()))),
            None => Err(Refusal::new(
                ErrorCode::NoReassignmentInProgress,
                "No partition reassignment is in progress.",
            )),
        };
    };
    check_brokers(metadata, replicas)?;
    let is_or_will_be = state.target.as_ref().unwrap_or(&state.replicas);
    if !may_change_count && replicas.len() != state.replicas.len() {
        let message = format!(
            "The replication factor is changed from {} to {}",
            state.replicas.len(),
            replicas.len()
        );
        return Err(Refusal::new(ErrorCode::InvalidReplicationFactor, message));
    }
    let replicas: Vec<NodeId> = replicas.iter().copied().map(NodeId).collect();
    let is_change = replicas[..] != is_or_will_be[..];
    Ok((id, is_change.then_some(replicas)))
}

fn check_brokers(metadata: &Metadata, replicas: &[i32]) -> Result<(), Refusal> {
    let refused = |message: String| Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, message));
    if replicas.is_empty() {
        return refused("The replica list is empty: null calls a change off.".into());
    }
    for (place, broker) in replicas.iter().enumerate() {
        if replicas[..place].contains(broker) {
            return refused(format!("The replica list has broker {broker} more than once."));
        }
        if metadata.node(NodeId(*broker)).is_none() {
            return refused(format!(
                "The replica list has broker {broker}, but no such broker is registered."
            ));
        }
    }
    Ok(())
}

fn told(
    topic: ReassignableTopic,
    outcomes: &mut impl Iterator<Item = Result<Wanted, Refusal>>,
) -> ReassignableTopicResponse {
    let partitions = topic.partitions.iter().zip(outcomes);
    let partitions = partitions.map(|(partition, outcome)| {
        let (code, message): (ErrorCode, Option<Text>) = match outcome {
            Ok(_) => (ErrorCode::None, None),
            Err(refusal) => (refusal.code, refusal.text()),
        };
        ReassignablePartitionResponse {
            partition_index: partition.partition_index,
            error_code: code.code(),
            error_message: message,
        }
    });
    ReassignableTopicResponse {
        partitions: partitions.collect(),
        name: topic.name,
    }
}
