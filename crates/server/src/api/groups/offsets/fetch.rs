//! OffsetFetch: tells what groups remember, of some partitions or of all.
//!
//! Beside each offset stands the client's note, so that a short request may have a long answer: its room is taken first.

use std::collections::HashMap;
use std::rc::Rc;

use kafka_wire::offset_fetch::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics, OffsetFetchResponseGroup,
    OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
};
use kafka_wire::{ErrorCode, OffsetFetchRequest, OffsetFetchResponse, Text};
use protocol::groups::{FetchOffsets, FetchTopic, FetchedPartition, FetchedTopic, Name};
use record::TopicId;

use super::super::answer_room::{AnswerRoom, Asked, SMALL_BYTES};
use super::super::{Refusal, name, once, text};
use super::FIRST_WITH_TOPIC_IDS;
use crate::core::Core;

/// From these versions on: several groups in a request, an error for the whole fetch.
const FIRST_WITH_SEVERAL_GROUPS: i16 = 8;
const FIRST_WITH_FETCH_ERROR: i16 = 2;

/// In place of an offset where none was committed.
const NO_OFFSET: i64 = -1;
/// In place of an epoch that nobody knows.
const NO_EPOCH: i32 = -1;

/// What an offset takes beside its note: as it was found, as it is told, and in the frame.
const OFFSET_BYTES: usize = 192;
/// So many are a short answer, but for their notes.
const FEW_OFFSETS: usize = SMALL_BYTES / OFFSET_BYTES;

pub(in crate::api) async fn offset_fetch(
    core: Rc<Core>,
    request: OffsetFetchRequest,
    version: i16,
) -> OffsetFetchResponse {
    let mut room = AnswerRoom::new(&core.answers);
    if version < FIRST_WITH_SEVERAL_GROUPS {
        return fetch_one(&core, &mut room, &request, version).await;
    }
    let mut groups = Vec::with_capacity(request.groups.len());
    for (group, is_first) in once(request.groups, |group| &group.group_id) {
        groups.push(match is_first {
            true => fetch_group(&core, &mut room, group, version).await,
            false => refused_group(group.group_id, ErrorCode::InvalidRequest),
        });
    }
    OffsetFetchResponse {
        groups,
        ..OffsetFetchResponse::default()
    }
}

/// Has offsets found, and takes the room for telling them.
async fn find(
    core: &Rc<Core>,
    room: &mut AnswerRoom,
    fetch: &FetchOffsets,
) -> Result<Vec<FetchedTopic>, Refusal> {
    let asked = asked(fetch.topics.as_deref());
    room.ask(core, asked, fetch.clone(), |topics| told_bytes(topics))
        .await
}

/// Even without notes an answer about many partitions is long.
fn asked(topics: Option<&[FetchTopic]>) -> Asked {
    let of_topic = |topic: &FetchTopic| 1 + topic.partitions.len();
    match topics.map(|topics| topics.iter().map(of_topic).sum::<usize>()) {
        Some(0..=FEW_OFFSETS) => Asked::Little,
        _ => Asked::Much,
    }
}

/// What telling offsets takes: names and notes once as texts and once in the frame.
fn told_bytes(topics: &[FetchedTopic]) -> usize {
    let of_topic = |topic: &FetchedTopic| {
        let committed = topic
            .partitions
            .iter()
            .filter_map(|partition| partition.committed.as_ref());
        let notes: usize = committed.map(|committed| committed.metadata.len()).sum();
        2 * (topic.topic.len() + notes) + (1 + topic.partitions.len()) * OFFSET_BYTES
    };
    topics.iter().map(of_topic).sum()
}

/// As versions ask that know one group and no ids.
async fn fetch_one(
    core: &Rc<Core>,
    room: &mut AnswerRoom,
    request: &OffsetFetchRequest,
    version: i16,
) -> OffsetFetchResponse {
    let wanted = |topic: &OffsetFetchRequestTopic| FetchTopic {
        topic: name(&topic.name),
        partitions: topic.partition_indexes.clone(),
    };
    let topics = request.topics.as_ref();
    let fetch = FetchOffsets {
        group: name(&request.group_id),
        member: None,
        topics: topics.map(|topics| topics.iter().map(wanted).collect()),
    };
    match find(core, room, &fetch).await {
        Ok(fetched) => OffsetFetchResponse {
            topics: fetched.iter().map(|topic| told_topic(topic, 0)).collect(),
            ..OffsetFetchResponse::default()
        },
        Err(refusal) => refused_fetch(fetch.topics, refusal.code, version),
    }
}

/// The error stands beside each partition: the first versions have no other place for it, and some clients take an answer
/// without partitions for "nothing committed", whatever else it says.
fn refused_fetch(topics: Option<Vec<FetchTopic>>, code: ErrorCode, version: i16) -> OffsetFetchResponse {
    let refused = |topic: FetchTopic| {
        let partitions = topic.partitions.into_iter().map(nothing_of);
        let topic = FetchedTopic {
            topic: topic.topic,
            partitions: partitions.collect(),
        };
        told_topic(&topic, code.code())
    };
    OffsetFetchResponse {
        topics: topics.unwrap_or_default().into_iter().map(refused).collect(),
        error_code: if version >= FIRST_WITH_FETCH_ERROR {
            code.code()
        } else {
            0
        },
        ..OffsetFetchResponse::default()
    }
}

fn nothing_of(index: i32) -> FetchedPartition {
    FetchedPartition {
        index,
        committed: None,
    }
}

fn told_topic(topic: &FetchedTopic, error_code: i16) -> OffsetFetchResponseTopic {
    let partitions = topic.partitions.iter();
    let told = |partition| as_one_group(told_partition(partition, error_code));
    OffsetFetchResponseTopic {
        name: text(&topic.topic),
        partitions: partitions.map(told).collect(),
    }
}

/// The same in the shape of the versions that know one group.
fn as_one_group(told: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition {
    OffsetFetchResponsePartition {
        partition_index: told.partition_index,
        committed_offset: told.committed_offset,
        committed_leader_epoch: told.committed_leader_epoch,
        metadata: told.metadata,
        error_code: told.error_code,
    }
}

fn told_partition(partition: &FetchedPartition, error_code: i16) -> OffsetFetchResponsePartitions {
    let committed = partition.committed.as_ref();
    let epoch = committed.and_then(|committed| committed.leader_epoch);
    OffsetFetchResponsePartitions {
        partition_index: partition.index,
        committed_offset: committed.map_or(NO_OFFSET, |committed| committed.offset.0),
        committed_leader_epoch: epoch.map_or(NO_EPOCH, |epoch| epoch.0),
        metadata: Some(committed.map_or_else(Text::default, |committed| text(&committed.metadata))),
        error_code,
    }
}

async fn fetch_group(
    core: &Rc<Core>,
    room: &mut AnswerRoom,
    group: OffsetFetchRequestGroup,
    version: i16,
) -> OffsetFetchResponseGroup {
    let by_id = version >= FIRST_WITH_TOPIC_IDS;
    let mut unknown = Vec::new();
    let topics = group.topics.as_ref();
    let topics = topics.map(|topics| find_topics(core, topics, by_id, &mut unknown));
    let member = group.member_id.as_ref().filter(|member| !member.is_empty());
    let fetch = FetchOffsets {
        group: name(&group.group_id),
        member: member.map(|member| (name(member), group.member_epoch)),
        topics,
    };
    match find(core, room, &fetch).await {
        Ok(fetched) => {
            let mut topics = told_group_topics(core, &fetched, by_id);
            topics.extend(unknown);
            OffsetFetchResponseGroup {
                group_id: group.group_id,
                topics,
                error_code: 0,
            }
        }
        Err(refusal) => refused_group(group.group_id, refusal.code),
    }
}

fn refused_group(group_id: Text, code: ErrorCode) -> OffsetFetchResponseGroup {
    OffsetFetchResponseGroup {
        group_id,
        topics: Vec::new(),
        error_code: code.code(),
    }
}

/// The topics by name; what is told of those whose ids nobody knows goes to `unknown`.
fn find_topics(
    core: &Core,
    topics: &[OffsetFetchRequestTopics],
    by_id: bool,
    unknown: &mut Vec<OffsetFetchResponseTopics>,
) -> Vec<FetchTopic> {
    let mut wanted = Vec::with_capacity(topics.len());
    for topic in topics {
        let found = match by_id {
            true => core.with_metadata(|metadata| {
                let found = metadata.topic(topic.topic_id);
                found.map(|found| Name::clone(&found.name))
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
}

fn unknown_topic(topic: &OffsetFetchRequestTopics) -> OffsetFetchResponseTopics {
    let code = ErrorCode::UnknownTopicId.code();
    let partitions = topic.partition_indexes.iter();
    let told = |index: &i32| told_partition(&nothing_of(*index), code);
    OffsetFetchResponseTopics {
        name: Text::default(),
        topic_id: topic.topic_id,
        partitions: partitions.map(told).collect(),
    }
}

/// Topics by id: those that are gone have none, and are left out.
fn told_group_topics(core: &Core, fetched: &[FetchedTopic], by_id: bool) -> Vec<OffsetFetchResponseTopics> {
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
        let partitions = topic.partitions.iter();
        let partitions = partitions.map(|partition| told_partition(partition, 0));
        Some(OffsetFetchResponseTopics {
            name: text(&topic.topic),
            topic_id: topic_id.unwrap_or_default(),
            partitions: partitions.collect(),
        })
    };
    fetched.iter().filter_map(told).collect()
}

#[cfg(test)]
mod tests {
    use kafka_wire::{ApiKey, Writer, frame_response};
    use protocol::groups::CommittedOffset;
    use record::Offset;

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

    #[test]
    fn little_is_asked_for_where_few_partitions_are_named() {
        let topics = |partitions: usize| {
            [FetchTopic {
                topic: "orders".into(),
                partitions: vec![0; partitions],
            }]
        };
        assert_eq!(asked(Some(&topics(100))), Asked::Little);
        assert_eq!(asked(Some(&[])), Asked::Little);
        assert_eq!(asked(Some(&topics(400))), Asked::Much);
        assert_eq!(asked(None), Asked::Much);
    }

    #[test]
    fn the_room_for_offsets_is_enough_for_the_answer_and_its_frame() {
        let fetched = |note: &str| FetchedTopic {
            topic: "orders".into(),
            partitions: (0..1_000)
                .map(|index| FetchedPartition {
                    index,
                    committed: Some(CommittedOffset {
                        offset: Offset(7),
                        leader_epoch: None,
                        metadata: note.into(),
                    }),
                })
                .collect(),
        };
        for note in [String::new(), "x".repeat(4_096)] {
            let fetched = fetched(&note);
            let response = OffsetFetchResponse {
                topics: vec![told_topic(&fetched, 0)],
                ..OffsetFetchResponse::default()
            };
            let frame = frame_response(&mut Writer::new(), ApiKey::OffsetFetch, 7, 1, &response);
            let found = size_of::<FetchedPartition>() * 1_000;
            let told = (size_of::<OffsetFetchResponsePartition>() + note.len()) * 1_000;
            assert!(told_bytes(&[fetched]) >= found + told + frame.total_bytes);
        }
    }
}
