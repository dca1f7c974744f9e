//! DescribeTopicPartitions: topics with their partitions, a page at a time (KIP-966).
//!
//! Topics come by name. A page holds as many partitions as the client wants and the node allows; if there are more, it ends
//! with a cursor, from which the next page goes on.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::rc::Rc;

use kafka_wire::describe_topic_partitions::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use kafka_wire::{DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, ErrorCode, Text};
use protocol::metadata::{Metadata, Topic, check_topic_name, is_internal};

use super::authorized::ON_TOPIC;
use crate::core::Core;

/// Partitions of one page at most, as in Kafka (`max.request.partition.size.limit`).
const PAGE_PARTITIONS_MAX: i32 = 2_000;
/// Memory that telling of a partition takes, as it is told and in the frame.
const PARTITION_BYTES: usize = 384;

pub(super) async fn handle(
    core: Rc<Core>,
    request: DescribeTopicPartitionsRequest,
    _version: i16,
    client: IpAddr,
) -> DescribeTopicPartitionsResponse {
    let limit = request.response_partition_limit.clamp(1, PAGE_PARTITIONS_MAX);
    let names: BTreeSet<&Text> = request.topics.iter().map(|topic| &topic.name).collect();
    if !request
        .cursor
        .as_ref()
        .is_none_or(|cursor| is_sound(cursor, &names))
    {
        return refused(&names);
    }
    let cursor = request.cursor;
    let first = cursor.as_ref().map_or("", |cursor| cursor.topic_name.as_str());
    let partitions = core.with_metadata(|metadata| metadata.partition_count().min(limit as usize));
    // Held until the response is there; whoever writes it holds what its frame takes from then on.
    let _held = core.answers.reserve(client, partitions * PARTITION_BYTES).await;
    core.with_metadata(|metadata| {
        let mut page = Page::new(metadata, cursor.as_ref(), limit as usize);
        match names.is_empty() {
            true => page.fill(metadata.topics_from(first), |page, topic| page.add(topic)),
            false => {
                let named = names.iter().skip_while(|name| name.as_str() < first);
                page.fill(named, |page, name| match metadata.topic_named(name) {
                    Some(topic) => page.add(topic),
                    None => page.add_unknown(name),
                });
            }
        }
        page.response
    })
}

/// A cursor that points into the topics that are asked for. One that was deleted since is no error where all are.
fn is_sound(cursor: &Cursor, names: &BTreeSet<&Text>) -> bool {
    cursor.partition_index >= 0 && (names.is_empty() || names.contains(&cursor.topic_name))
}

/// The answer has no place for an error but beside a topic.
fn refused(names: &BTreeSet<&Text>) -> DescribeTopicPartitionsResponse {
    let topics = names.iter().map(|name| DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::InvalidRequest.code(),
        name: Some((*name).clone()),
        ..DescribeTopicPartitionsResponseTopic::default()
    });
    DescribeTopicPartitionsResponse {
        topics: topics.collect(),
        ..DescribeTopicPartitionsResponse::default()
    }
}

struct Page<'a> {
    metadata: &'a Metadata,
    cursor: Option<&'a Cursor>,
    /// Partitions that still have room.
    room: usize,
    response: DescribeTopicPartitionsResponse,
}

impl<'a> Page<'a> {
    fn new(metadata: &'a Metadata, cursor: Option<&'a Cursor>, room: usize) -> Page<'a> {
        Page {
            metadata,
            cursor,
            room,
            response: DescribeTopicPartitionsResponse::default(),
        }
    }

    /// Adds one after the other as long as more may come.
    fn fill<T>(&mut self, topics: impl Iterator<Item = T>, add: impl Fn(&mut Page<'a>, T) -> bool) {
        for topic in topics {
            if !add(self, topic) {
                return;
            }
        }
    }

    /// Adds a topic, as much of it as there is room for. Says whether more may come.
    fn add(&mut self, topic: &Topic) -> bool {
        let begins_at = self
            .cursor
            .filter(|cursor| cursor.topic_name.as_str() == &*topic.name)
            .map_or(0, |cursor| {
                usize::try_from(cursor.partition_index).expect("checked")
            });
        if self.room == 0 {
            return self.end(topic, begins_at);
        }
        let partitions: Vec<_> = partitions(self.metadata, topic)
            .skip(begins_at)
            .take(self.room)
            .collect();
        let ends_at = begins_at + partitions.len();
        self.room -= partitions.len();
        self.response.topics.push(DescribeTopicPartitionsResponseTopic {
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
        self.response.next_cursor = Some(Cursor {
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
        self.response.topics.push(DescribeTopicPartitionsResponseTopic {
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
        let replicas: Vec<i32> = state.replicas.iter().map(|node| node.0).collect();
        DescribeTopicPartitionsResponsePartition {
            partition_index: index as i32,
            leader_id: state.leader.0,
            leader_epoch: state.epoch.0,
            replica_nodes: replicas.clone(),
            // A replica set of one is always in sync, and nobody waits to be let in again.
            isr_nodes: replicas,
            eligible_leader_replicas: Some(Vec::new()),
            last_known_elr: Some(Vec::new()),
            ..DescribeTopicPartitionsResponsePartition::default()
        }
    })
}
