//! OffsetFetch: tells what groups remember, of some partitions or of all.
//!
//! Beside each offset stands the client's note, so that a short request may have a long answer: its room is taken first.

use std::rc::Rc;

use kafka_wire::offset_fetch::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics, OffsetFetchResponseGroup,
    OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
};
use kafka_wire::{ErrorCode, OffsetFetchRequest, OffsetFetchResponse, Text};
use platform::slices::Slices;
use protocol::groups::{FetchOffsets, FetchTopic, FetchedPartition, FetchedTopic, Name};
use protocol::order::keeper_of;

use super::super::super::Envelope;
use super::super::answer_room::{AnswerRoom, Asked, SMALL_BYTES};
use super::super::{Refusal, name, once, text};
use super::FIRST_WITH_TOPIC_IDS;
use crate::core::Core;
use crate::error_codes::group_code;
use crate::order::{twin_name, twin_named, twin_with_id};

/// From these versions on: several groups in a request, an error for the whole fetch.
const FIRST_WITH_SEVERAL_GROUPS: i16 = 8;
const FIRST_WITH_FETCH_ERROR: i16 = 2;

/// In place of an offset where none was committed.
const NO_OFFSET: i64 = -1;
/// In place of an epoch that nobody knows.
const NO_EPOCH: i32 = -1;

/// Bytes that an offset takes beside its note: as it was found, as it is told, and in the frame.
const OFFSET_BYTES: usize = 192;
/// Offsets and topics that are found or told before others have their turn.
const OFFSETS_IN_ONE_TURN: usize = 10_000;
/// So many are a short answer, but for their notes.
const FEW_OFFSETS: usize = SMALL_BYTES / OFFSET_BYTES;

pub(in crate::api) async fn offset_fetch(
    core: Rc<Core>,
    request: OffsetFetchRequest,
    Envelope { version, .. }: Envelope,
) -> OffsetFetchResponse {
    let mut room = AnswerRoom::new(&core.answers);
    if version < FIRST_WITH_SEVERAL_GROUPS {
        return fetch_one(&core, &mut room, &request, version).await;
    }
    let mut slices = Slices::of(OFFSETS_IN_ONE_TURN);
    let mut groups = Vec::with_capacity(request.groups.len());
    for (group, is_first) in once(&core, request.groups, |group| &group.group_id).await {
        groups.push(match is_first {
            true => fetch_group(&core, &mut room, group, (version, request.require_stable)).await,
            false => refused_group(group.group_id, ErrorCode::InvalidRequest),
        });
        slices.did(1 + groups.last().map_or(0, offsets_in)).await;
    }
    OffsetFetchResponse {
        groups,
        ..OffsetFetchResponse::default()
    }
}

/// Has offsets found, and takes the room for telling them. Those of very many partitions are found in parts, and are not all of one
/// moment then; each is one that was committed.
async fn find(
    core: &Rc<Core>,
    room: &mut AnswerRoom,
    fetch: &FetchOffsets,
) -> Result<Vec<FetchedTopic>, Refusal> {
    let Some(topics) = &fetch.topics else {
        return find_part(core, room, fetch.clone()).await;
    };
    let mut found: Vec<FetchedTopic> = Vec::with_capacity(topics.len());
    let mut slices = Slices::of(OFFSETS_IN_ONE_TURN);
    for part in parts_of(topics) {
        let fetch = FetchOffsets {
            group: Name::clone(&fetch.group),
            member: fetch.member.clone(),
            topics: Some(part.topics),
            require_stable: fetch.require_stable,
        };
        let mut topics = find_part(core, room, fetch).await?.into_iter();
        let mut offsets = 0;
        if let (true, Some(last)) = (part.goes_on, found.last_mut()) {
            let rest = topics.next().map_or_else(Vec::new, |topic| topic.partitions);
            offsets += rest.len();
            last.partitions.extend(rest);
        }
        for topic in topics {
            offsets += 1 + topic.partitions.len();
            found.push(topic);
        }
        slices.did(offsets).await;
    }
    Ok(found)
}

async fn find_part(
    core: &Rc<Core>,
    room: &mut AnswerRoom,
    fetch: FetchOffsets,
) -> Result<Vec<FetchedTopic>, Refusal> {
    let asked = asked(fetch.topics.as_deref());
    room.ask(core, asked, fetch, |topics| told_bytes(topics)).await
}

/// The offsets that a coordinator is asked for at once.
struct Part {
    topics: Vec<FetchTopic>,
    /// It begins within the topic that the part before ends with.
    goes_on: bool,
}

/// Parts of so few partitions and topics that finding their offsets leaves others their turn. There is at least one.
fn parts_of(topics: &[FetchTopic]) -> Vec<Part> {
    let part = |goes_on| Part {
        topics: Vec::new(),
        goes_on,
    };
    let (mut parts, mut current, mut left) = (Vec::new(), part(false), OFFSETS_IN_ONE_TURN);
    for topic in topics {
        let mut rest = topic.partitions.as_slice();
        loop {
            let (now, behind) = rest.split_at(rest.len().min(left));
            current.topics.push(FetchTopic {
                topic: Name::clone(&topic.topic),
                partitions: now.to_vec(),
            });
            left = left.saturating_sub(1 + now.len());
            rest = behind;
            if left == 0 {
                parts.push(std::mem::replace(&mut current, part(!rest.is_empty())));
                left = OFFSETS_IN_ONE_TURN;
            }
            if rest.is_empty() {
                break;
            }
        }
    }
    if parts.is_empty() || !current.topics.is_empty() {
        parts.push(current);
    }
    parts
}

/// Even without notes an answer about many partitions is long.
fn asked(topics: Option<&[FetchTopic]>) -> Asked {
    let of_topic = |topic: &FetchTopic| 1 + topic.partitions.len();
    match topics.map(|topics| topics.iter().map(of_topic).sum::<usize>()) {
        Some(0..=FEW_OFFSETS) => Asked::Little,
        _ => Asked::Much,
    }
}

/// Bytes that fetched offsets take: names and notes once as texts and once in the frame.
fn told_bytes(topics: &[FetchedTopic]) -> usize {
    let of_topic = |topic: &FetchedTopic| {
        let committed = topic
            .partitions
            .iter()
            .filter_map(|partition| partition.committed.as_ref().ok()?.as_ref());
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
        require_stable: request.require_stable,
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
        committed: Ok(None),
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
    let (committed, error_code) = match &partition.committed {
        Ok(committed) => (committed.as_ref(), error_code),
        Err(error) => (None, group_code(error).code()),
    };
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
    (version, require_stable): (i16, bool),
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
        require_stable,
    };
    match find(core, room, &fetch).await {
        Ok(fetched) => {
            let mut topics = told_group_topics(core, fetched, by_id).await;
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
                let found = metadata
                    .topic(topic.topic_id)
                    .map(|found| Name::clone(&found.name));
                let twin = || twin_with_id(metadata, topic.topic_id).map(|topic| twin_name(topic).into());
                found.or_else(twin)
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
async fn told_group_topics(
    core: &Core,
    fetched: Vec<FetchedTopic>,
    by_id: bool,
) -> Vec<OffsetFetchResponseTopics> {
    let mut slices = Slices::of(OFFSETS_IN_ONE_TURN);
    let mut told = Vec::with_capacity(fetched.len());
    for topic in fetched {
        let topic_id = core.with_metadata(|metadata| {
            let found = metadata.topic_named(&topic.topic).map(|found| found.id);
            found.or_else(|| twin_named(metadata, &topic.topic).map(|topic| keeper_of(topic.id)))
        });
        let partitions = topic.partitions.iter();
        let partitions = partitions.map(|partition| told_partition(partition, 0));
        if !by_id || topic_id.is_some() {
            told.push(OffsetFetchResponseTopics {
                name: text(&topic.topic),
                topic_id: topic_id.unwrap_or_default(),
                partitions: partitions.collect(),
            });
        }
        slices.did(1 + topic.partitions.len()).await;
    }
    told
}

fn offsets_in(told: &OffsetFetchResponseGroup) -> usize {
    told.topics.iter().map(|topic| 1 + topic.partitions.len()).sum()
}

/// Memory that an answer takes, in bytes, but for notes.
pub(in crate::api) fn fetched_bytes(told: &OffsetFetchResponse) -> usize {
    let of_one = told.topics.iter().map(|topic| 1 + topic.partitions.len());
    let of_groups = told.groups.iter().map(|group| 1 + offsets_in(group));
    of_one.chain(of_groups).sum::<usize>() * OFFSET_BYTES
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
    fn parts_have_all_that_is_asked_for_in_its_order() {
        let topic = |topic: &str, partitions: std::ops::Range<i32>| FetchTopic {
            topic: topic.into(),
            partitions: partitions.collect(),
        };
        let turn = i32::try_from(OFFSETS_IN_ONE_TURN).expect("few");
        let many = [
            topic("a", 0..0),
            topic("b", 0..2 * turn + 7),
            topic("c", 0..turn),
            topic("d", 3..4),
        ];
        for wanted in [&many[..0], &many[..1], &many[1..2], &many[2..3], &many] {
            let parts = parts_of(wanted);
            let mut joined: Vec<FetchTopic> = Vec::new();
            for part in parts {
                let partitions: usize = part.topics.iter().map(|topic| topic.partitions.len()).sum();
                assert!(partitions <= OFFSETS_IN_ONE_TURN, "{partitions}");
                let mut topics = part.topics.into_iter();
                if part.goes_on {
                    let last = joined.last_mut().expect("something goes on");
                    let rest = topics.next().expect("it goes on");
                    assert_eq!(last.topic, rest.topic);
                    last.partitions.extend(rest.partitions);
                }
                joined.extend(topics);
            }
            assert_eq!(joined, wanted);
        }
    }

    #[test]
    fn the_room_for_offsets_is_enough_for_the_answer_and_its_frame() {
        let fetched = |note: &str| FetchedTopic {
            topic: "orders".into(),
            partitions: (0..1_000)
                .map(|index| FetchedPartition {
                    index,
                    committed: Ok(Some(CommittedOffset {
                        offset: Offset(7),
                        leader_epoch: None,
                        metadata: note.into(),
                    })),
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
