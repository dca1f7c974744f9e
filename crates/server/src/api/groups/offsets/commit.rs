//! OffsetCommit: remembers offsets, of partitions that are there.

use std::rc::Rc;

use kafka_wire::offset_commit::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
};
use kafka_wire::{ErrorCode, OffsetCommitRequest, OffsetCommitResponse, Text};
use protocol::groups::{
    CommitOffsets, CommitPartition, CommittedOffset, Name, OffsetCommitter, TopicPartition,
};
use protocol::metadata::{Metadata, Topic};
use protocol::order::keeper_of;
use record::{Epoch, Offset, TopicId};

use super::super::super::Envelope;
use super::super::super::gather::gather;
use super::super::{Refusal, ask, name, optional_name};
use super::{FIRST_WITH_MEMBER_EPOCHS, FIRST_WITH_TOPIC_IDS, Outcomes};
use crate::caller::Caller;
use crate::core::Core;
use crate::long::Long;
use crate::order::{twin_name, twin_named, twin_with_id};

pub(in crate::api) async fn offset_commit(
    core: Rc<Core>,
    request: OffsetCommitRequest,
    Envelope {
        version,
        caller,
        room,
    }: Envelope,
) -> OffsetCommitResponse {
    let found = core.with_metadata(|metadata| find_topics(metadata, &request.topics, version));
    let commit = read(&request, &found, version, &caller);
    let outcomes = match commit.partitions.is_empty() {
        // Nothing that could be committed: the coordinator has no say in that.
        true => Ok(Vec::new()),
        false => ask(&core, commit)
            .await
            .map_err(|refusal| as_known(refusal, version)),
    };
    let topics = Long::of(&core, request.topics, &room);
    OffsetCommitResponse {
        throttle_time_ms: 0,
        topics: told(&core, &topics, &found, Outcomes::new(outcomes)).await,
    }
}

/// Where members have no epochs, a group that is not there is one in another generation, as in Kafka.
fn as_known(refusal: Refusal, version: i16) -> Refusal {
    match refusal.code {
        ErrorCode::GroupIdNotFound if version < FIRST_WITH_MEMBER_EPOCHS => {
            ErrorCode::IllegalGeneration.into()
        }
        _ => refusal,
    }
}

/// A topic of which offsets are committed.
struct FoundTopic {
    name: Name,
    id: TopicId,
    partition_count: i32,
}

impl FoundTopic {
    /// A group remembers offsets of partitions that are there, as in Kafka: it cannot be made to remember any number.
    fn has(&self, index: i32) -> bool {
        (0..self.partition_count).contains(&index)
    }
}

fn find_topics(
    metadata: &Metadata,
    topics: &[OffsetCommitRequestTopic],
    version: i16,
) -> Vec<Result<FoundTopic, ErrorCode>> {
    let own = |topic: &Topic| FoundTopic {
        name: Name::clone(&topic.name),
        id: topic.id,
        partition_count: topic.partition_count(),
    };
    let twin = |topic: &Topic| FoundTopic {
        name: twin_name(topic).into(),
        id: keeper_of(topic.id),
        partition_count: 1,
    };
    let find = |topic: &OffsetCommitRequestTopic| match version {
        ..FIRST_WITH_TOPIC_IDS => {
            let found = metadata.topic_named(&topic.name).map(own);
            let found = found.or_else(|| twin_named(metadata, &topic.name).map(twin));
            found.ok_or(ErrorCode::UnknownTopicOrPartition)
        }
        _ => {
            let found = metadata.topic(topic.topic_id).map(own);
            let found = found.or_else(|| twin_with_id(metadata, topic.topic_id).map(twin));
            found.ok_or(ErrorCode::UnknownTopicId)
        }
    };
    topics.iter().map(find).collect()
}

fn read(
    request: &OffsetCommitRequest,
    found: &[Result<FoundTopic, ErrorCode>],
    version: i16,
    caller: &Caller,
) -> CommitOffsets {
    let mut partitions = Vec::new();
    for (topic, found) in request.topics.iter().zip(found) {
        let Ok(found) = found else { continue };
        let there = topic
            .partitions
            .iter()
            .filter(|partition| found.has(partition.partition_index));
        partitions.extend(there.map(|partition| commit_partition(found, partition)));
    }
    CommitOffsets {
        group: name(&request.group_id),
        client_host: caller.shown_host(),
        committer: OffsetCommitter {
            member: name(&request.member_id),
            instance: optional_name(request.group_instance_id.as_ref()),
            generation_or_epoch: request.generation_id_or_member_epoch,
            knows_epochs: version >= FIRST_WITH_MEMBER_EPOCHS,
        },
        partitions,
    }
}

fn commit_partition(topic: &FoundTopic, partition: &OffsetCommitRequestPartition) -> CommitPartition {
    let leader_epoch = partition.committed_leader_epoch;
    CommitPartition {
        partition: TopicPartition {
            topic: Name::clone(&topic.name),
            index: partition.partition_index,
        },
        topic_id: topic.id,
        committed: CommittedOffset {
            offset: Offset(partition.committed_offset),
            leader_epoch: (leader_epoch >= 0).then_some(Epoch(leader_epoch)),
            metadata: name(partition.committed_metadata.as_ref().unwrap_or(&Text::default())),
        },
    }
}

/// The answer for each partition; for those that are there, from the outcomes.
async fn told(
    core: &Rc<Core>,
    topics: &[OffsetCommitRequestTopic],
    found: &[Result<FoundTopic, ErrorCode>],
    mut outcomes: Outcomes,
) -> Vec<OffsetCommitResponseTopic> {
    let topics: Vec<_> = topics.iter().zip(found).collect();
    gather(
        core,
        &topics,
        |(topic, _)| &topic.partitions,
        |(_, found), partition| OffsetCommitResponsePartition {
            partition_index: partition.partition_index,
            error_code: match found {
                Ok(found) if found.has(partition.partition_index) => outcomes.next_code(),
                Ok(_) => ErrorCode::UnknownTopicOrPartition.code(),
                Err(code) => code.code(),
            },
        },
        |(topic, _), partitions| OffsetCommitResponseTopic {
            partitions,
            name: topic.name.clone(),
            topic_id: topic.topic_id,
        },
    )
    .await
}
