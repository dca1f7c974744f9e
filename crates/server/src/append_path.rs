//! The way of an append, part one: a Produce request becomes one batch for each partition, each sent to the core that
//! owns the partition, and one answer when all are committed.
//!
//! Read on in `shard/append.rs` (check, number, stage) and `shard/background.rs` (flush, commit). Everything up to
//! staging, or sending to the owner, happens before the connection's next request is looked at: so appends of a
//! connection keep their order. Only the waiting is done later.

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use kafka_wire::produce::{
    LeaderIdAndEpoch, PartitionProduceData, PartitionProduceResponse, ProduceRequest, ProduceResponse,
    TopicProduceData, TopicProduceResponse,
};
use kafka_wire::{ErrorCode, Text};
use protocol::metadata::Topic;
use record::PartitionId;
use storage::{BatchBytes, SharedMemory};
use tokio::sync::oneshot;

use crate::connection::Connection;
use crate::core::{Core, NodeFacts};
use crate::error_codes::append_code;
use crate::groups::is_internal;
use crate::shard::{Acks, AppendOutcome, AppendRefusal, AppendRequest};

/// What becomes of a batch; nothing comes if the node stops.
pub(crate) type AppendAnswer = oneshot::Receiver<Result<AppendOutcome, AppendRefusal>>;

/// An append under way, or what is to be answered instead.
enum Pending {
    Answer(AppendAnswer),
    Refused(ErrorCode, Option<String>),
}

/// Starts all appends of a request. The answer comes from the future; none for `acks=0`. `memory` is the request's, if it was
/// received where its batch can stay.
pub(crate) fn produce(
    core: &Rc<Core>,
    connection: &Connection,
    request: ProduceRequest,
    version: i16,
    mut memory: Option<SharedMemory>,
) -> impl Future<Output = Option<ProduceResponse>> + use<> {
    let acks = match request.acks {
        0 => Ok(Acks::None),
        1 => Ok(Acks::Leader),
        -1 => Ok(Acks::Quorum),
        _ => Err(ErrorCode::InvalidRequiredAcks),
    };
    let transactional = request.transactional_id.is_some();
    // The answer is looked at only when those before it are out: the client's time runs from here.
    let timeout = Duration::from_millis(request.timeout_ms.max(0) as u64);
    let deadline = tokio::time::Instant::now() + timeout;
    let mut topics = Vec::with_capacity(request.topic_data.len());
    for topic in request.topic_data {
        let mut partitions = Vec::with_capacity(topic.partition_data.len());
        let known = find_topic(core, &topic, version);
        let mut name = topic.name;
        if memory.is_some() {
            // Nothing else of the request may be referred to when its memory is reclaimed.
            name = name.detached();
        }
        for partition in topic.partition_data {
            let index = partition.index;
            let pending = match (&known, acks) {
                _ if transactional => {
                    let why = "transactions are not supported yet; leave transactional.id unset";
                    Pending::Refused(ErrorCode::TransactionalIdAuthorizationFailed, Some(why.into()))
                }
                (_, Err(code)) => Pending::Refused(code, None),
                (Err(code), _) => {
                    let is_internal = *code == ErrorCode::InvalidTopicException;
                    let why = is_internal.then(|| "only the node itself writes to this topic".to_owned());
                    Pending::Refused(*code, why)
                }
                (Ok(known), Ok(acks)) => {
                    start_append(core, connection, known, partition, acks, memory.take())
                }
            };
            partitions.push((index, pending));
        }
        topics.push((name, topic.topic_id, partitions));
    }
    let core = core.clone();
    async move {
        let mut responses = Vec::with_capacity(topics.len());
        for (name, topic_id, partitions) in topics {
            let mut partition_responses = Vec::with_capacity(partitions.len());
            for (index, pending) in partitions {
                partition_responses.push(answer(index, pending, deadline, &core, topic_id).await);
            }
            responses.push(TopicProduceResponse {
                name,
                topic_id,
                partition_responses,
            });
        }
        let response = ProduceResponse {
            responses,
            throttle_time_ms: 0,
            node_endpoints: Vec::new(),
        };
        (request.acks != 0).then_some(response)
    }
}

/// A topic by its name, from version 13 on by its id.
fn find_topic(
    core: &Core,
    topic: &TopicProduceData,
    version: i16,
) -> Result<(record::TopicId, i32), ErrorCode> {
    core.with_metadata(|metadata| {
        let found = match version {
            ..=12 => metadata
                .topic_named(&topic.name)
                .ok_or(ErrorCode::UnknownTopicOrPartition),
            _ => metadata.topic(topic.topic_id).ok_or(ErrorCode::UnknownTopicId),
        };
        let topic: &Topic = found?;
        match is_internal(&topic.name) {
            false => Ok((topic.id, topic.partition_count())),
            // As Kafka: only the node itself writes there.
            true => Err(ErrorCode::InvalidTopicException),
        }
    })
}

fn start_append(
    core: &Rc<Core>,
    connection: &Connection,
    (topic, partition_count): &(record::TopicId, i32),
    partition: PartitionProduceData,
    acks: Acks,
    memory: Option<SharedMemory>,
) -> Pending {
    if !(0..*partition_count).contains(&partition.index) {
        return Pending::Refused(ErrorCode::UnknownTopicOrPartition, None);
    }
    let batch = partition.records.unwrap_or_default();
    let batch = match memory {
        Some(memory) => memory.reclaim(batch),
        None => batch.into(),
    };
    let id = PartitionId {
        topic: *topic,
        index: partition.index,
    };
    connection.note_owner(core.facts.owner_of(id));
    Pending::Answer(send_to_owner(core, id, batch, acks))
}

/// Hands a batch to the core that owns its partition, behind everything handed to it before.
fn send_to_owner(core: &Rc<Core>, partition: PartitionId, batch: BatchBytes, acks: Acks) -> AppendAnswer {
    let shard = core.facts.shard_of(partition);
    if core.facts.core_of(shard) != core.index {
        return append_from_outside(&core.facts, partition, batch, acks);
    }
    let (request, answer) = append_request(partition, batch, acks);
    core.shard(shard).append(request);
    answer
}

/// The same for whoever is on another core than the partition, or on none (HTTP).
pub(crate) fn append_from_outside(
    facts: &NodeFacts,
    partition: PartitionId,
    batch: BatchBytes,
    acks: Acks,
) -> AppendAnswer {
    let (request, answer) = append_request(partition, batch, acks);
    let shard = facts.shard_of(partition);
    facts.mailboxes.send(facts.core_of(shard), move |core| {
        core.shard(shard).append(request)
    });
    answer
}

fn append_request(partition: PartitionId, batch: BatchBytes, acks: Acks) -> (AppendRequest, AppendAnswer) {
    let (reply, answer) = oneshot::channel();
    let request = AppendRequest {
        partition,
        batch,
        acks,
        reply,
    };
    (request, answer)
}

async fn answer(
    index: i32,
    pending: Pending,
    deadline: tokio::time::Instant,
    core: &Core,
    topic_id: record::TopicId,
) -> PartitionProduceResponse {
    let refused = |code: ErrorCode, message: Option<String>| PartitionProduceResponse {
        index,
        error_code: code.code(),
        base_offset: -1,
        log_append_time_ms: -1,
        log_start_offset: -1,
        record_errors: Vec::new(),
        error_message: message.map(Text::from),
        current_leader: LeaderIdAndEpoch::default(),
    };
    let outcome = match pending {
        Pending::Refused(code, message) => return refused(code, message),
        Pending::Answer(answer) => match tokio::time::timeout_at(deadline, answer).await {
            Ok(answered) => answered.unwrap_or(Err(AppendRefusal::Stopping)),
            Err(_) => return refused(ErrorCode::RequestTimedOut, None),
        },
    };
    match outcome {
        Ok(appended) => PartitionProduceResponse {
            base_offset: appended.first_offset.0,
            log_append_time_ms: appended.append_time_ms.unwrap_or(-1),
            log_start_offset: appended.log_start.0,
            ..refused(ErrorCode::None, None)
        },
        Err(refusal) => {
            tracing::debug!(core = core.index, %topic_id, index, %refusal, "an append was refused");
            refused(append_code(&refusal), Some(refusal.to_string()))
        }
    }
}
