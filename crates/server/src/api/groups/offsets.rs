//! OffsetCommit, OffsetFetch and OffsetDelete: where groups are.
//!
//! Names and ids of topics are found here, in the metadata; coordinators know topics by name.

use std::collections::HashMap;
use std::rc::Rc;

use kafka_wire::offset_commit::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
};
use kafka_wire::offset_delete::{OffsetDeleteResponsePartition, OffsetDeleteResponseTopic};
use kafka_wire::offset_fetch::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponseGroup,
    OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
};
use kafka_wire::{
    ErrorCode, OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest, OffsetDeleteResponse,
    OffsetFetchRequest, OffsetFetchResponse, Text,
};
use protocol::groups::{
    Answer, CommitOffsets, CommitPartition, CommittedOffset, DeleteOffsets, FetchOffsets, FetchTopic,
    FetchedPartition, FetchedTopic, GroupError, Name, OffsetCommitter, PartitionOutcome, Request,
    TopicPartition,
};
use protocol::metadata::{Metadata, Topic};
use record::{Epoch, Offset, TopicId};

use super::{Refusal, ask, for_each, name, once, optional_name, text};
use crate::core::Core;
use crate::error_codes::group_code;

/// From these versions on: topics by id, several groups in a request, codes of the consumer protocol, an error for the whole
/// fetch.
const FIRST_WITH_TOPIC_IDS: i16 = 10;
const FIRST_WITH_SEVERAL_GROUPS: i16 = 8;
const FIRST_WITH_MEMBER_EPOCHS: i16 = 9;
const FIRST_WITH_FETCH_ERROR: i16 = 2;

/// In place of an offset where none was committed.
const NO_OFFSET: i64 = -1;
/// In place of an epoch that nobody knows.
const NO_EPOCH: i32 = -1;

pub(in crate::api) async fn offset_commit(
    core: Rc<Core>,
    request: OffsetCommitRequest,
    version: i16,
) -> OffsetCommitResponse {
    let found = core.with_metadata(|metadata| find_topics(metadata, &request.topics, version));
    let mut partitions = Vec::new();
    for (topic, found) in request.topics.iter().zip(&found) {
        let Ok(found) = found else { continue };
        let there = topic
            .partitions
            .iter()
            .filter(|partition| found.has(partition.partition_index));
        partitions.extend(there.map(|partition| commit_partition(found, partition)));
    }
    let commit = CommitOffsets {
        group: name(&request.group_id),
        committer: OffsetCommitter {
            member: name(&request.member_id),
            instance: optional_name(request.group_instance_id.as_ref()),
            generation_or_epoch: request.generation_id_or_member_epoch,
        },
        partitions,
    };
    let pick = |answer| match answer {
        Answer::CommitOffsets(answer) => Some(answer),
        _ => None,
    };
    let outcomes = match commit.partitions.is_empty() {
        // Nothing that could be committed: the coordinator has no say in that.
        true => Ok(Vec::new()),
        false => ask(&core, Request::CommitOffsets(commit), pick).await,
    };
    let mut outcomes = Outcomes::new(outcomes, version);
    let topics = request.topics.into_iter().zip(found).map(|(topic, found)| {
        let partitions = topic
            .partitions
            .iter()
            .map(|partition| OffsetCommitResponsePartition {
                partition_index: partition.partition_index,
                error_code: match &found {
                    Ok(found) if found.has(partition.partition_index) => outcomes.next_code(),
                    Ok(_) => ErrorCode::UnknownTopicOrPartition.code(),
                    Err(code) => code.code(),
                },
            });
        OffsetCommitResponseTopic {
            partitions: partitions.collect(),
            name: topic.name,
            topic_id: topic.topic_id,
        }
    });
    let topics = topics.collect();
    OffsetCommitResponse {
        throttle_time_ms: 0,
        topics,
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
    let find = |topic: &OffsetCommitRequestTopic| match version {
        ..FIRST_WITH_TOPIC_IDS => metadata
            .topic_named(&topic.name)
            .ok_or(ErrorCode::UnknownTopicOrPartition),
        _ => metadata.topic(topic.topic_id).ok_or(ErrorCode::UnknownTopicId),
    };
    let found = |topic: &Topic| FoundTopic {
        name: Name::clone(&topic.name),
        id: topic.id,
        partition_count: topic.partition_count(),
    };
    topics.iter().map(|topic| find(topic).map(found)).collect()
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

/// What became of partitions, in the order asked; or one refusal for all of them.
struct Outcomes {
    each: std::vec::IntoIter<PartitionOutcome>,
    all: Option<i16>,
    version: i16,
}

impl Outcomes {
    fn new(outcomes: Result<Vec<PartitionOutcome>, Refusal>, version: i16) -> Outcomes {
        let (each, all) = match outcomes {
            Ok(each) => (each, None),
            Err(refusal) => (Vec::new(), Some(known_code(refusal.code, version).code())),
        };
        Outcomes {
            each: each.into_iter(),
            all,
            version,
        }
    }

    fn next_code(&mut self) -> i16 {
        let next = || {
            let outcome = self
                .each
                .next()
                .expect("one outcome for each partition asked")
                .outcome;
            outcome
                .err()
                .map_or(0, |error| known_code(group_code(&error), self.version).code())
        };
        self.all.unwrap_or_else(next)
    }
}

/// Old clients do not know the consumer protocol's code for "heartbeat first": Kafka tells them that their version does not do.
fn known_code(code: ErrorCode, version: i16) -> ErrorCode {
    match code {
        ErrorCode::StaleMemberEpoch if version < FIRST_WITH_MEMBER_EPOCHS => ErrorCode::UnsupportedVersion,
        code => code,
    }
}

pub(in crate::api) async fn offset_fetch(
    core: Rc<Core>,
    request: OffsetFetchRequest,
    version: i16,
) -> OffsetFetchResponse {
    if version >= FIRST_WITH_SEVERAL_GROUPS {
        let groups = once(request.groups, |group| &group.group_id);
        let fetch = |(group, is_first)| fetch_group(&core, group, is_first, version);
        let groups = for_each(groups, fetch).await;
        return OffsetFetchResponse {
            groups,
            ..OffsetFetchResponse::default()
        };
    }
    let topics = request.topics.as_ref().map(|topics| {
        let topics = topics.iter().map(|topic| FetchTopic {
            topic: name(&topic.name),
            partitions: topic.partition_indexes.clone(),
        });
        topics.collect::<Vec<_>>()
    });
    let fetch = FetchOffsets {
        group: name(&request.group_id),
        member: None,
        topics: topics.clone(),
    };
    match ask(&core, Request::FetchOffsets(fetch), pick_fetched).await {
        Ok(fetched) => OffsetFetchResponse {
            topics: fetched.iter().map(|topic| told_topic(topic, 0)).collect(),
            ..OffsetFetchResponse::default()
        },
        Err(refusal) => refused_fetch(topics, known_code(refusal.code, version), version),
    }
}

fn pick_fetched(answer: Answer) -> Option<Result<Vec<FetchedTopic>, GroupError>> {
    match answer {
        Answer::FetchOffsets(answer) => Some(answer),
        _ => None,
    }
}

/// The error stands beside each partition: the first versions have no other place for it, and some clients take an answer
/// without partitions for "nothing committed", whatever else it says.
fn refused_fetch(topics: Option<Vec<FetchTopic>>, code: ErrorCode, version: i16) -> OffsetFetchResponse {
    let nothing = |topic: FetchTopic| FetchedTopic {
        topic: topic.topic,
        partitions: topic
            .partitions
            .into_iter()
            .map(|index| FetchedPartition {
                index,
                committed: None,
            })
            .collect(),
    };
    let topics = topics.unwrap_or_default().into_iter().map(nothing);
    OffsetFetchResponse {
        topics: topics.map(|topic| told_topic(&topic, code.code())).collect(),
        error_code: if version >= FIRST_WITH_FETCH_ERROR {
            code.code()
        } else {
            0
        },
        ..OffsetFetchResponse::default()
    }
}

fn told_topic(topic: &FetchedTopic, error_code: i16) -> OffsetFetchResponseTopic {
    let partitions = topic.partitions.iter().map(|partition| {
        let (offset, epoch, metadata) = told_offset(partition);
        OffsetFetchResponsePartition {
            partition_index: partition.index,
            committed_offset: offset,
            committed_leader_epoch: epoch,
            metadata: Some(metadata),
            error_code,
        }
    });
    OffsetFetchResponseTopic {
        name: text(&topic.topic),
        partitions: partitions.collect(),
    }
}

fn told_offset(partition: &FetchedPartition) -> (i64, i32, Text) {
    partition.committed.as_ref().map_or_else(
        || (NO_OFFSET, NO_EPOCH, Text::default()),
        |committed| {
            let epoch = committed.leader_epoch.map_or(NO_EPOCH, |epoch| epoch.0);
            (committed.offset.0, epoch, text(&committed.metadata))
        },
    )
}

async fn fetch_group(
    core: &Rc<Core>,
    group: OffsetFetchRequestGroup,
    is_first: bool,
    version: i16,
) -> OffsetFetchResponseGroup {
    if !is_first {
        return OffsetFetchResponseGroup {
            group_id: group.group_id,
            topics: Vec::new(),
            error_code: ErrorCode::InvalidRequest.code(),
        };
    }
    let by_id = version >= FIRST_WITH_TOPIC_IDS;
    let mut unknown = Vec::new();
    let topics = group.topics.as_ref().map(|topics| {
        let mut wanted = Vec::with_capacity(topics.len());
        for topic in topics {
            let found = match by_id {
                true => core.with_metadata(|metadata| {
                    metadata
                        .topic(topic.topic_id)
                        .map(|topic| Name::clone(&topic.name))
                }),
                false => Some(name(&topic.name)),
            };
            match found {
                Some(topic_name) => wanted.push(FetchTopic {
                    topic: topic_name,
                    partitions: topic.partition_indexes.clone(),
                }),
                None => unknown.push(unknown_topic(topic)),
            }
        }
        wanted
    });
    let member = group.member_id.as_ref().filter(|member| !member.is_empty());
    let fetch = FetchOffsets {
        group: name(&group.group_id),
        member: member.map(|member| (name(member), group.member_epoch)),
        topics,
    };
    match ask(core, Request::FetchOffsets(fetch), pick_fetched).await {
        Ok(fetched) => {
            let mut topics = told_group_topics(core, &fetched, by_id);
            topics.extend(unknown);
            OffsetFetchResponseGroup {
                group_id: group.group_id,
                topics,
                error_code: 0,
            }
        }
        Err(refusal) => OffsetFetchResponseGroup {
            group_id: group.group_id,
            topics: Vec::new(),
            error_code: known_code(refusal.code, version).code(),
        },
    }
}

fn unknown_topic(topic: &OffsetFetchRequestTopics) -> OffsetFetchResponseTopics {
    let partitions = topic
        .partition_indexes
        .iter()
        .map(|index| OffsetFetchResponsePartitions {
            partition_index: *index,
            committed_offset: NO_OFFSET,
            committed_leader_epoch: NO_EPOCH,
            metadata: Some(Text::default()),
            error_code: ErrorCode::UnknownTopicId.code(),
        });
    OffsetFetchResponseTopics {
        name: Text::default(),
        topic_id: topic.topic_id,
        partitions: partitions.collect(),
    }
}

/// Topics by id: those that are gone have none, and are left out.
fn told_group_topics(
    core: &Rc<Core>,
    fetched: &[FetchedTopic],
    by_id: bool,
) -> Vec<OffsetFetchResponseTopics> {
    let ids: HashMap<&str, TopicId> = core.with_metadata(|metadata| {
        let known = |topic: &&FetchedTopic| metadata.topic_named(&topic.topic).map(|found| found.id);
        let found = fetched
            .iter()
            .filter_map(|topic| Some((&*topic.topic, known(&topic)?)));
        found.collect()
    });
    let told = |topic: &FetchedTopic| {
        let topic_id = ids.get(&*topic.topic).copied();
        if by_id && topic_id.is_none() {
            return None;
        }
        let partitions = topic.partitions.iter().map(|partition| {
            let (offset, epoch, metadata) = told_offset(partition);
            OffsetFetchResponsePartitions {
                partition_index: partition.index,
                committed_offset: offset,
                committed_leader_epoch: epoch,
                metadata: Some(metadata),
                error_code: 0,
            }
        });
        Some(OffsetFetchResponseTopics {
            name: text(&topic.topic),
            topic_id: topic_id.unwrap_or_default(),
            partitions: partitions.collect(),
        })
    };
    fetched.iter().filter_map(told).collect()
}

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
    let known = request
        .topics
        .iter()
        .zip(&is_known)
        .filter(|(_, is_known)| **is_known);
    let partitions = known.flat_map(|(topic, _)| {
        topic.partitions.iter().map(|partition| TopicPartition {
            topic: name(&topic.name),
            index: partition.partition_index,
        })
    });
    let delete = DeleteOffsets {
        group: name(&request.group_id),
        partitions: partitions.collect(),
    };
    let pick = |answer| match answer {
        Answer::DeleteOffsets(answer) => Some(answer),
        _ => None,
    };
    let outcomes = match ask(&core, Request::DeleteOffsets(delete), pick).await {
        Ok(outcomes) => outcomes,
        Err(refusal) => {
            return OffsetDeleteResponse {
                error_code: refusal.code.code(),
                ..OffsetDeleteResponse::default()
            };
        }
    };
    let mut outcomes = Outcomes::new(Ok(outcomes), version);
    let topics = request.topics.into_iter().zip(is_known).map(|(topic, is_known)| {
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
    let topics = topics.collect();
    OffsetDeleteResponse {
        error_code: 0,
        throttle_time_ms: 0,
        topics,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_fetch_says_so_beside_every_partition() {
        let asked = || {
            Some(vec![FetchTopic {
                topic: "orders".into(),
                partitions: vec![0, 7],
            }])
        };
        let code = ErrorCode::CoordinatorLoadInProgress;
        for (version, at_the_top) in [(1, 0), (2, code.code()), (7, code.code())] {
            let refused = refused_fetch(asked(), code, version);
            assert_eq!(refused.error_code, at_the_top);
            let told: Vec<_> = refused.topics[0]
                .partitions
                .iter()
                .map(|partition| {
                    (
                        partition.partition_index,
                        partition.committed_offset,
                        partition.error_code,
                    )
                })
                .collect();
            assert_eq!(told, [(0, NO_OFFSET, code.code()), (7, NO_OFFSET, code.code())]);
        }
    }
}
