//! CreatePartitions: makes topics wider.

use std::rc::Rc;

use kafka_wire::create_partitions::{
    CreatePartitionsAssignment, CreatePartitionsTopic, CreatePartitionsTopicResult,
};
use kafka_wire::{CreatePartitionsRequest, CreatePartitionsResponse, ErrorCode, Text};
use protocol::metadata::{Metadata, Plans, ReplicaSet, Topic};
use record::{PartitionId, TopicId};

use super::Envelope;
use super::topic_change::{
    Refusal, WISHES_IN_ONE_TURN, change, check_chosen_count, check_not_internal, check_replicas, conclude,
    each_once, patience, rehearse, replica_set,
};
use crate::core::Core;
use crate::long::beside;
use platform::slices::Slices;

/// A topic, how many partitions it is to have, and the replicas of the new ones if the client has chosen them.
type Wanted = (TopicId, i32, Option<Vec<ReplicaSet>>);

pub(crate) async fn handle(
    core: Rc<Core>,
    request: CreatePartitionsRequest,
    Envelope { caller, room, .. }: Envelope,
) -> CreatePartitionsResponse {
    let topics = each_once(request.topics, |topic| topic.name.clone()).await;
    let count = topics.len();
    let mut slices = Slices::of(WISHES_IN_ONE_TURN);
    let partitions_max = core.facts.config.plan_limits().topic_partitions_max;
    let mut wanted: Vec<Wanted> = Vec::with_capacity(topics.len());
    let mut outcomes = Vec::with_capacity(topics.len());
    for (topic, is_only) in &topics {
        let checked = match is_only {
            true => core.with_metadata(|metadata| check(metadata, topic, partitions_max)),
            false => Err(Refusal::named_twice()),
        };
        outcomes.push(checked.map(|one| wanted.push(one)));
        let assignments = topic.assignments.as_ref().map_or(0, Vec::len);
        slices.did(1 + assignments).await;
    }
    let plan = |metadata: &Metadata, (id, count, chosen): Wanted, plans: &mut Plans| match chosen {
        Some(chosen) => metadata.plan_chosen_partitions(id, count, &chosen, plans),
        None => metadata.plan_partitions(id, count, plans),
    };
    let made = match request.validate_only {
        true => rehearse(&core, &caller, wanted, plan).await,
        false => {
            let patience = patience(request.timeout_ms);
            change(&core, &caller, room.clone(), patience, wanted, plan).await
        }
    };
    conclude(&mut outcomes, made);
    let told = move || {
        let outcomes = topics.into_iter().zip(outcomes);
        let results = outcomes.map(|((topic, _), outcome)| told(topic.name, outcome));
        (results.collect(), room)
    };
    let (results, _room) = beside(&core, count, told).await;
    CreatePartitionsResponse {
        throttle_time_ms: 0,
        results,
    }
}

fn check(
    metadata: &Metadata,
    wanted: &CreatePartitionsTopic,
    partitions_max: i32,
) -> Result<Wanted, Refusal> {
    let topic = metadata
        .topic_named(&wanted.name)
        .ok_or_else(|| Refusal::unknown_topic(&wanted.name))?;
    check_not_internal(&topic.name)?;
    let current = topic.partition_count();
    if wanted.count <= current {
        let message = match wanted.count == current {
            true => format!("Topic already has {current} partition(s)."),
            false => format!(
                "The topic {} currently has {current} partition(s); {} would not be an increase.",
                topic.name, wanted.count
            ),
        };
        return Err(Refusal::new(ErrorCode::InvalidPartitions, message));
    }
    let Some(assignments) = &wanted.assignments else {
        return Ok((topic.id, wanted.count, None));
    };
    check_chosen_count(current + 1, wanted.count as usize, partitions_max)?;
    let chosen = assigned(metadata, topic, wanted.count - current, assignments)?;
    Ok((topic.id, wanted.count, Some(chosen)))
}

/// The replicas that a client has chosen for the new partitions: as many of each as the first partition has.
fn assigned(
    metadata: &Metadata,
    topic: &Topic,
    added: i32,
    assignments: &[CreatePartitionsAssignment],
) -> Result<Vec<ReplicaSet>, Refusal> {
    if assignments.len() != added as usize {
        let message = format!(
            "Attempted to add {added} additional partition(s), but only {} assignment(s) were specified.",
            assignments.len()
        );
        return Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, message));
    }
    let first = metadata.partition(PartitionId {
        topic: topic.id,
        index: 0,
    });
    let replica_count = first.map_or(1, |first| first.replicas.len());
    let sets = assignments.iter().map(|assignment| {
        check_replicas(metadata, &assignment.broker_ids, Some(replica_count))?;
        Ok(replica_set(&assignment.broker_ids))
    });
    sets.collect()
}

fn told(name: Text, outcome: Result<(), Refusal>) -> CreatePartitionsTopicResult {
    match outcome {
        Ok(()) => CreatePartitionsTopicResult {
            name,
            error_code: 0,
            error_message: None,
        },
        Err(refusal) => CreatePartitionsTopicResult {
            name,
            error_code: refusal.code.code(),
            error_message: refusal.text(),
        },
    }
}
