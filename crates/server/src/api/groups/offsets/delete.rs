//! OffsetDelete: has a group forget offsets.

use std::rc::Rc;

use kafka_wire::offset_delete::{
    OffsetDeleteRequestTopic, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use kafka_wire::{ErrorCode, OffsetDeleteRequest, OffsetDeleteResponse};
use protocol::groups::{DeleteOffsets, TopicPartition};

use super::super::{ask, name};
use super::Outcomes;
use crate::core::Core;

pub(in crate::api) async fn offset_delete(
    core: Rc<Core>,
    request: OffsetDeleteRequest,
    _version: i16,
) -> OffsetDeleteResponse {
    let counts: Vec<i32> = core.with_metadata(|metadata| {
        let topics = request.topics.iter();
        let found = topics.map(|topic| metadata.topic_named(&topic.name));
        found
            .map(|topic| topic.map_or(0, |topic| topic.partition_count()))
            .collect()
    });
    match ask(&core, read(&request, &counts)).await {
        Ok(outcomes) => told(request.topics, &counts, Outcomes::new(Ok(outcomes))),
        Err(refusal) => OffsetDeleteResponse {
            error_code: refusal.code.code(),
            ..OffsetDeleteResponse::default()
        },
    }
}

/// The partitions that are there. `counts` says how many each topic has: none, if there is no such topic.
fn read(request: &OffsetDeleteRequest, counts: &[i32]) -> DeleteOffsets {
    let topics = request.topics.iter().zip(counts);
    let partitions = topics.flat_map(|(topic, count)| {
        let topic_name = name(&topic.name);
        let indexes = topic.partitions.iter().map(|partition| partition.partition_index);
        let there = indexes.filter(move |index| (0..*count).contains(index));
        there.map(move |index| TopicPartition {
            topic: topic_name.clone(),
            index,
        })
    });
    DeleteOffsets {
        group: name(&request.group_id),
        partitions: partitions.collect(),
    }
}

/// What became of each partition; of those that are there, the outcomes say it.
fn told(
    topics: Vec<OffsetDeleteRequestTopic>,
    counts: &[i32],
    mut outcomes: Outcomes,
) -> OffsetDeleteResponse {
    let topics = topics.into_iter().zip(counts).map(|(topic, count)| {
        let partitions = topic
            .partitions
            .iter()
            .map(|partition| OffsetDeleteResponsePartition {
                partition_index: partition.partition_index,
                error_code: match (0..*count).contains(&partition.partition_index) {
                    true => outcomes.next_code(),
                    false => ErrorCode::UnknownTopicOrPartition.code(),
                },
            });
        OffsetDeleteResponseTopic {
            partitions: partitions.collect(),
            name: topic.name,
        }
    });
    OffsetDeleteResponse {
        error_code: 0,
        throttle_time_ms: 0,
        topics: topics.collect(),
    }
}
