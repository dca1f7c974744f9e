//! CreatePartitions: makes topics wider.

use std::rc::Rc;

use kafka_wire::create_partitions::{
    CreatePartitionsAssignment, CreatePartitionsTopic, CreatePartitionsTopicResult,
};
use kafka_wire::{CreatePartitionsRequest, CreatePartitionsResponse, ErrorCode, Text};
use protocol::metadata::{Metadata, Plans, Topic};
use record::{PartitionId, TopicId};

use super::Envelope;
use super::create_topics::refuse_placement;
use super::topic_change::{
    Refusal, WISHES_IN_ONE_TURN, change, check_not_internal, check_replicas, conclude, each_once, patience,
    rehearse,
};
use crate::core::Core;
use crate::long::beside;
use platform::slices::Slices;

/// A topic and how many partitions it is to have.
type Wanted = (TopicId, i32);

pub(crate) async fn handle(
    core: Rc<Core>,
    request: CreatePartitionsRequest,
    Envelope { caller, room, .. }: Envelope,
) -> CreatePartitionsResponse {
    let topics = each_once(request.topics, |topic| topic.name.clone()).await;
    let count = topics.len();
    let mut slices = Slices::of(WISHES_IN_ONE_TURN);
    let mut outcomes: Vec<Result<Wanted, Refusal>> = Vec::with_capacity(topics.len());
    for (topic, is_only) in &topics {
        outcomes.push(match is_only {
            true => core.with_metadata(|metadata| check(metadata, topic)),
            false => Err(Refusal::named_twice()),
        });
        let assignments = topic.assignments.as_ref().map_or(0, Vec::len);
        slices.did(1 + assignments).await;
    }
    let wanted: Vec<Wanted> = outcomes.iter().flatten().copied().collect();
    let plan = |metadata: &Metadata, (id, count): Wanted, plans: &mut Plans| {
        metadata.plan_partitions(id, count, plans)
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

fn check(metadata: &Metadata, wanted: &CreatePartitionsTopic) -> Result<Wanted, Refusal> {
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
    if let Some(assignments) = &wanted.assignments {
        check_assignments(metadata, topic, wanted.count - current, assignments)?;
    }
    Ok((topic.id, wanted.count))
}

/// Checks where the client wants the new partitions. On one node there is one such place: what passes is what
/// placing them ourselves comes to.
fn check_assignments(
    metadata: &Metadata,
    topic: &Topic,
    added: i32,
    assignments: &[CreatePartitionsAssignment],
) -> Result<(), Refusal> {
    refuse_placement(metadata)?;
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
    assignments
        .iter()
        .try_for_each(|assignment| check_replicas(metadata, &assignment.broker_ids, replica_count))
}

fn told(name: Text, outcome: Result<Wanted, Refusal>) -> CreatePartitionsTopicResult {
    match outcome {
        Ok(_) => CreatePartitionsTopicResult {
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
