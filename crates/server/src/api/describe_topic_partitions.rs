//! DescribeTopicPartitions: topics with their partitions, a page at a time (KIP-966).
//!
//! Topics come by name. A page holds as many partitions as the client wants and the node allows; if there are more, it ends
//! with a cursor, from which the next page goes on.

use std::rc::Rc;

use kafka_wire::describe_topic_partitions::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic, TopicRequest,
};
use kafka_wire::{DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, ErrorCode, Text};
use platform::slices::Slices;
use protocol::metadata::{Metadata, Topic, check_topic_name, is_internal};

use super::Envelope;
use super::authorized::ON_TOPIC;
use crate::core::Core;
use crate::long::Long;

/// Partitions of one page at most, as in Kafka (`max.request.partition.size.limit`).
const PAGE_PARTITIONS_MAX: i32 = 2_000;
/// Names that are looked up before others have their turn.
const NAMES_IN_ONE_TURN: usize = 2_000;
/// Memory that telling of a partition takes, as it is told and in the frame.
const PARTITION_BYTES: usize = 384;

pub(super) async fn handle(
    core: Rc<Core>,
    request: DescribeTopicPartitionsRequest,
    Envelope { caller, room, .. }: Envelope,
) -> DescribeTopicPartitionsResponse {
    let limit = request.response_partition_limit.clamp(1, PAGE_PARTITIONS_MAX);
    let count = request.topics.len();
    let topics = Long::of(&core, request.topics, &room);
    let (topics, names) = topics.look(count, in_order).await;
    drop(topics);
    let names = Long::of(&core, names, &room);
    let cursor = request.cursor;
    if !cursor.as_ref().is_none_or(|cursor| is_sound(cursor, &names)) {
        return refused(&core, &names).await;
    }
    let first = cursor.as_ref().map_or("", |cursor| cursor.topic_name.as_str());
    let partitions = core.with_metadata(|metadata| metadata.partition_count().min(limit as usize));
    // Held until the response is there; whoever writes it holds what its frame takes from then on.
    let _held = core
        .answers
        .reserve(caller.address(), partitions * PARTITION_BYTES)
        .await;
    let mut page = Page {
        cursor: cursor.as_ref(),
        room: limit as usize,
        topics: Long::with_capacity(&core, names.len()),
        next_cursor: None,
    };
    if names.is_empty() {
        core.with_metadata(|metadata| {
            let mut topics = metadata.listed_from(first);
            topics.all(|topic| page.add(metadata, topic))
        });
    }
    let mut slices = Slices::of(NAMES_IN_ONE_TURN);
    for name in names
        .iter()
        .skip(names.partition_point(|name| name.as_str() < first))
    {
        let more_may_come = core.with_metadata(|metadata| match metadata.topic_named(name) {
            Some(topic) => page.add(metadata, topic),
            None => page.add_unknown(name),
        });
        if !more_may_come {
            break;
        }
        slices.did(1).await;
    }
    DescribeTopicPartitionsResponse {
        topics: page.topics.take(),
        next_cursor: page.next_cursor,
        ..DescribeTopicPartitionsResponse::default()
    }
}

/// Names that are asked for in order, each once.
fn in_order(topics: &[TopicRequest]) -> Vec<Text> {
    let mut names: Vec<Text> = topics.iter().map(|topic| topic.name.clone()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// A cursor that points into the topics that are asked for. One that was deleted since is no error where all are.
fn is_sound(cursor: &Cursor, names: &[Text]) -> bool {
    let is_named = || names.binary_search(&cursor.topic_name).is_ok();
    cursor.partition_index >= 0 && (names.is_empty() || is_named())
}

/// The answer has no place for an error but beside a topic.
async fn refused(core: &Rc<Core>, names: &[Text]) -> DescribeTopicPartitionsResponse {
    let mut topics = Long::with_capacity(core, names.len());
    let mut slices = Slices::of(NAMES_IN_ONE_TURN);
    for name in names {
        topics.push(DescribeTopicPartitionsResponseTopic {
            error_code: ErrorCode::InvalidRequest.code(),
            name: Some(name.clone()),
            ..DescribeTopicPartitionsResponseTopic::default()
        });
        slices.did(1).await;
    }
    DescribeTopicPartitionsResponse {
        topics: topics.take(),
        ..DescribeTopicPartitionsResponse::default()
    }
}

struct Page<'a> {
    cursor: Option<&'a Cursor>,
    /// Partitions that still have room.
    room: usize,
    topics: Long<DescribeTopicPartitionsResponseTopic>,
    next_cursor: Option<Cursor>,
}

impl Page<'_> {
    /// Adds a topic, as much of it as there is room for. Says whether more may come.
    fn add(&mut self, metadata: &Metadata, topic: &Topic) -> bool {
        let begins_at = self
            .cursor
            .filter(|cursor| cursor.topic_name.as_str() == &*topic.name)
            .map_or(0, |cursor| {
                usize::try_from(cursor.partition_index).expect("checked")
            });
        if self.room == 0 {
            return self.end(topic, begins_at);
        }
        let partitions: Vec<_> = partitions(metadata, topic)
            .skip(begins_at)
            .take(self.room)
            .collect();
        let ends_at = begins_at + partitions.len();
        self.room -= partitions.len();
        self.topics.push(DescribeTopicPartitionsResponseTopic {
            name: Some(Text::from(&*topic.name)),
            topic_id: topic.id,
            is_internal: is_internal(&topic.name),
            partitions,
            topic_authorized_operations: ON_TOPIC,
            ..DescribeTopicPartitionsResponseTopic::default()
        });
        ends_at >= topic.partition_count() as usize || self.end(topic, ends_at)
    }

    fn end(&mut self, topic: &Topic, partition: usize) -> bool {
        self.next_cursor = Some(Cursor {
            topic_name: Text::from(&*topic.name),
            partition_index: partition as i32,
        });
        false
    }

    fn add_unknown(&mut self, name: &Text) -> bool {
        let error = match check_topic_name(name) {
            Ok(()) => ErrorCode::UnknownTopicOrPartition,
            Err(_) => ErrorCode::InvalidTopicException,
        };
        self.topics.push(DescribeTopicPartitionsResponseTopic {
            error_code: error.code(),
            name: Some(name.clone()),
            is_internal: is_internal(name),
            topic_authorized_operations: ON_TOPIC,
            ..DescribeTopicPartitionsResponseTopic::default()
        });
        true
    }
}

fn partitions<'a>(
    metadata: &'a Metadata,
    topic: &'a Topic,
) -> impl Iterator<Item = DescribeTopicPartitionsResponsePartition> + 'a {
    metadata.partitions(topic).enumerate().map(|(index, state)| {
        DescribeTopicPartitionsResponsePartition {
            partition_index: index as i32,
            leader_id: state.leader.0,
            leader_epoch: state.epoch.0,
            replica_nodes: state.holding().map(|node| node.0).collect(),
            // Only its leader knows who is behind, and tells nobody yet.
            isr_nodes: state.certain().map(|node| node.0).collect(),
            eligible_leader_replicas: Some(Vec::new()),
            last_known_elr: Some(Vec::new()),
            ..DescribeTopicPartitionsResponsePartition::default()
        }
    })
}
