//! OffsetDelete: has a group forget offsets.

use std::rc::Rc;

use kafka_wire::offset_delete::{
    OffsetDeleteRequestTopic, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use kafka_wire::{ErrorCode, OffsetDeleteRequest, OffsetDeleteResponse};
use platform::slices::Slices;
use protocol::groups::{DeleteOffsets, Name, PartitionOutcome, TopicPartition};

use super::super::super::Envelope;
use super::super::super::gather::gather;
use super::super::{Refusal, ask, name};
use super::Outcomes;
use crate::core::Core;
use crate::long::Long;
use crate::order::twin_named;

/// Partitions that the coordinator is asked about at once: it looks at all of them in one turn. More are done in parts, each when the one
/// before is durable.
const PARTITIONS_AT_ONCE: usize = 2_000;
/// Topics that are looked for before others have their turn.
const TOPICS_IN_ONE_TURN: usize = 1_000;

pub(in crate::api) async fn offset_delete(
    core: Rc<Core>,
    request: OffsetDeleteRequest,
    Envelope { room, .. }: Envelope,
) -> OffsetDeleteResponse {
    let group = name(&request.group_id);
    let topics = Long::of(&core, request.topics, &room);
    let counts = partition_counts(&core, &topics).await;
    let outcomes = match delete_in_parts(&core, group, partitions_there(&topics, &counts)).await {
        Ok(outcomes) => Outcomes::new(Ok(outcomes)),
        Err(refusal) => {
            return OffsetDeleteResponse {
                error_code: refusal.code.code(),
                ..OffsetDeleteResponse::default()
            };
        }
    };
    OffsetDeleteResponse {
        error_code: 0,
        throttle_time_ms: 0,
        topics: told(&core, &topics, &counts, outcomes).await,
    }
}

/// Has the group forget the offsets of all these partitions. A group that ends with its last offset has none of the others.
async fn delete_in_parts(
    core: &Rc<Core>,
    group: Name,
    partitions: impl Iterator<Item = TopicPartition>,
) -> Result<Vec<PartitionOutcome>, Refusal> {
    let mut partitions = partitions.peekable();
    let mut outcomes: Vec<PartitionOutcome> = Vec::new();
    loop {
        let part: Vec<TopicPartition> = partitions.by_ref().take(PARTITIONS_AT_ONCE).collect();
        let delete = DeleteOffsets {
            group: Name::clone(&group),
            partitions: part.clone(),
        };
        match ask(core, delete).await {
            Ok(of_part) => outcomes.extend(of_part),
            Err(refusal) if refusal.code == ErrorCode::GroupIdNotFound && !outcomes.is_empty() => {
                let forgotten = |partition| PartitionOutcome {
                    partition,
                    outcome: Ok(()),
                };
                outcomes.extend(part.into_iter().map(forgotten));
            }
            Err(refusal) => return Err(refusal),
        }
        if partitions.peek().is_none() {
            return Ok(outcomes);
        }
    }
}

/// The number of partitions that each topic has: none, if there is no such topic.
async fn partition_counts(core: &Core, topics: &[OffsetDeleteRequestTopic]) -> Vec<i32> {
    let mut slices = Slices::of(TOPICS_IN_ONE_TURN);
    let mut counts = Vec::with_capacity(topics.len());
    for topic in topics {
        counts.push(core.with_metadata(|metadata| {
            let twin = || i32::from(twin_named(metadata, &topic.name).is_some());
            let found = metadata.topic_named(&topic.name);
            found.map_or_else(twin, |topic| topic.partition_count())
        }));
        slices.did(1).await;
    }
    counts
}

/// The partitions that are there.
fn partitions_there<'a>(
    topics: &'a [OffsetDeleteRequestTopic],
    counts: &'a [i32],
) -> impl Iterator<Item = TopicPartition> + 'a {
    topics.iter().zip(counts).flat_map(|(topic, count)| {
        let topic_name = name(&topic.name);
        let indexes = topic.partitions.iter().map(|partition| partition.partition_index);
        let there = indexes.filter(move |index| (0..*count).contains(index));
        there.map(move |index| TopicPartition {
            topic: topic_name.clone(),
            index,
        })
    })
}

/// The answer for each partition; for those that are there, from the outcomes.
async fn told(
    core: &Rc<Core>,
    topics: &[OffsetDeleteRequestTopic],
    counts: &[i32],
    mut outcomes: Outcomes,
) -> Vec<OffsetDeleteResponseTopic> {
    let topics: Vec<_> = topics.iter().zip(counts).collect();
    gather(
        core,
        &topics,
        |(topic, _)| &topic.partitions,
        |(_, count), partition| OffsetDeleteResponsePartition {
            partition_index: partition.partition_index,
            error_code: match (0..**count).contains(&partition.partition_index) {
                true => outcomes.next_code(),
                false => ErrorCode::UnknownTopicOrPartition.code(),
            },
        },
        |(topic, _), partitions| OffsetDeleteResponseTopic {
            partitions,
            name: topic.name.clone(),
        },
    )
    .await
}
