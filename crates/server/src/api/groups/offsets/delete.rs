//! OffsetDelete: has a group forget offsets.

use std::rc::Rc;

use kafka_wire::offset_delete::{
    OffsetDeleteRequestTopic, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use kafka_wire::{ErrorCode, OffsetDeleteRequest, OffsetDeleteResponse};
use protocol::groups::{Answer, DeleteOffsets, Request, TopicPartition};

use super::super::{ask, name};
use super::Outcomes;
use crate::core::Core;

pub(in crate::api) async fn offset_delete(
    core: Rc<Core>,
    request: OffsetDeleteRequest,
    version: i16,
) -> OffsetDeleteResponse {
    let is_known: Vec<bool> = core.with_metadata(|metadata| {
        let topics = request.topics.iter();
        topics
            .map(|topic| metadata.topic_named(&topic.name).is_some())
            .collect()
    });
    let pick = |answer| match answer {
        Answer::DeleteOffsets(answer) => Some(answer),
        _ => None,
    };
    let delete = Request::DeleteOffsets(read(&request, &is_known));
    match ask(&core, delete, pick).await {
        Ok(outcomes) => told(request.topics, &is_known, Outcomes::new(Ok(outcomes), version)),
        Err(refusal) => OffsetDeleteResponse {
            error_code: refusal.code.code(),
            ..OffsetDeleteResponse::default()
        },
    }
}

fn read(request: &OffsetDeleteRequest, is_known: &[bool]) -> DeleteOffsets {
    let known = request
        .topics
        .iter()
        .zip(is_known)
        .filter(|(_, is_known)| **is_known);
    let partitions = known.flat_map(|(topic, _)| {
        let topic_name = name(&topic.name);
        topic.partitions.iter().map(move |partition| TopicPartition {
            topic: topic_name.clone(),
            index: partition.partition_index,
        })
    });
    DeleteOffsets {
        group: name(&request.group_id),
        partitions: partitions.collect(),
    }
}

/// What became of each partition; of topics that are known, the outcomes say it.
fn told(
    topics: Vec<OffsetDeleteRequestTopic>,
    is_known: &[bool],
    mut outcomes: Outcomes,
) -> OffsetDeleteResponse {
    let topics = topics.into_iter().zip(is_known).map(|(topic, is_known)| {
        let partitions = topic
            .partitions
            .iter()
            .map(|partition| OffsetDeleteResponsePartition {
                partition_index: partition.partition_index,
                error_code: match is_known {
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
