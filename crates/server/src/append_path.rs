//! The way of an append, part one: a Produce request becomes one batch for each partition, each sent to the core that
//! owns the partition, and one answer when all are committed.
//!
//! Read on in `shard/append.rs` (check, number, stage) and `shard/background.rs` (flush, commit). Everything up to
//! staging, or sending to the owner, happens before the connection's next request is looked at: so appends of a
//! connection keep their order. Only the waiting is done later.

mod record_errors;

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use kafka_wire::produce::{
    LeaderIdAndEpoch, PartitionProduceData, PartitionProduceResponse, ProduceRequest, ProduceResponse,
    TopicProduceData, TopicProduceResponse,
};
use kafka_wire::{ErrorCode, Text};
use protocol::metadata::is_internal;
use record::{BatchHeader, Compression, PartitionId, TopicId};
use storage::SharedMemory;
use tokio::time::{Instant, timeout_at};

use self::record_errors::RecordErrors;
use crate::connection::Connection;
use crate::core::{Core, NodeFacts};
use crate::error_codes::append_code;
use crate::shard::{Acks, Allowance, AppendAnswer, AppendRefusal, AppendRequest};

/// From here on batches may be compressed with Zstandard (KIP-110): who speaks less may have consumers that cannot read it.
const FIRST_WITH_ZSTD: i16 = 7;
/// What is done is waited for at least so long, however little time a client gives: that is meant for followers, and where
/// there are none Kafka has done it at the first look. Here a flush lies between.
pub(crate) const FLUSH_PATIENCE_MIN: Duration = Duration::from_secs(1);
/// The same for a producer that waits for the leader alone, which in Kafka never takes too long. A disk that hangs must not
/// have connections wait for ever.
const LEADER_PATIENCE_MIN: Duration = Duration::from_secs(30);

/// The appends of one topic, each with its partition's index.
struct Started {
    topic: Text,
    topic_id: TopicId,
    appends: Vec<(i32, Pending)>,
}

/// An append under way, or what is to be answered instead.
enum Pending {
    Answer(AppendAnswer),
    Refused(Refused),
}

/// Why nothing was started, with a sentence where the code does not say enough.
type Refused = (ErrorCode, Option<&'static str>);

/// Starts all appends of a request. The answer comes from the future; with `acks=0` nobody wants it. `memory` is the
/// request's, if it was received where its batch can stay.
pub(crate) fn produce(
    core: &Rc<Core>,
    connection: &Connection,
    request: ProduceRequest,
    version: i16,
    memory: Option<SharedMemory>,
) -> impl Future<Output = ProduceResponse> + use<> {
    // The answer is looked at only when those before it are out: the client's time runs from here.
    let deadline = Instant::now() + patience(&request);
    let started = start_all(core, connection, request, version, memory);
    let core = core.clone();
    async move { answer_all(&core, started, deadline).await }
}

/// How long what was started is waited for.
fn patience(request: &ProduceRequest) -> Duration {
    let wanted = Duration::from_millis(request.timeout_ms.max(0) as u64);
    wanted.max(match request.acks {
        -1 => FLUSH_PATIENCE_MIN,
        _ => LEADER_PATIENCE_MIN,
    })
}

/// Starts the appends of a request, in its order.
fn start_all(
    core: &Rc<Core>,
    connection: &Connection,
    request: ProduceRequest,
    version: i16,
    mut memory: Option<SharedMemory>,
) -> Vec<Started> {
    let acks = acks_of(&request);
    let allowance = allowance(core, &request);
    let mut started = Vec::with_capacity(request.topic_data.len());
    for topic in request.topic_data {
        let known = find_topic(core, &topic, version);
        let mut name = topic.name;
        if memory.is_some() {
            // Nothing else of the request may be referred to when its memory is reclaimed.
            name = name.detached();
        }
        let appends = topic.partition_data.into_iter().map(|partition| {
            let index = partition.index;
            let codec = check_codec(&partition, version);
            let pending = match (&acks, &known, codec) {
                (Ok(acks), Ok(known), Ok(())) => {
                    let allowance = allowance.clone();
                    start_append(
                        core,
                        connection,
                        known,
                        partition,
                        *acks,
                        memory.take(),
                        allowance,
                    )
                }
                (Err(refused), ..) | (_, Err(refused), _) => Pending::Refused(*refused),
                (.., Err(refused)) => Pending::Refused(refused),
            };
            (index, pending)
        });
        started.push(Started {
            topic: name,
            topic_id: topic.topic_id,
            appends: appends.collect(),
        });
    }
    started
}

/// Waits for the appends of a request, one after the other: all are under way.
async fn answer_all(core: &Core, started: Vec<Started>, deadline: Instant) -> ProduceResponse {
    let mut responses = Vec::with_capacity(started.len());
    let mut record_errors = RecordErrors::default();
    for topic in started {
        let mut partition_responses = Vec::with_capacity(topic.appends.len());
        for (index, pending) in topic.appends {
            let of_topic = (&topic.topic, topic.topic_id);
            let answer = answer(core, of_topic, index, pending, deadline, &mut record_errors);
            partition_responses.push(answer.await);
        }
        responses.push(TopicProduceResponse {
            name: topic.topic,
            topic_id: topic.topic_id,
            partition_responses,
        });
    }
    ProduceResponse {
        responses,
        throttle_time_ms: 0,
        node_endpoints: Vec::new(),
    }
}

/// What the producer waits for.
fn acks_of(request: &ProduceRequest) -> Result<Acks, Refused> {
    if request.transactional_id.is_some() {
        let why = "transactions are not supported yet; leave transactional.id unset";
        return Err((ErrorCode::TransactionalIdAuthorizationFailed, Some(why)));
    }
    match request.acks {
        0 => Ok(Acks::None),
        1 => Ok(Acks::Leader),
        -1 => Ok(Acks::Quorum),
        _ => Err((ErrorCode::InvalidRequiredAcks, None)),
    }
}

/// That the batch is compressed in no way that came after the request's version.
fn check_codec(partition: &PartitionProduceData, version: i16) -> Result<(), Refused> {
    if version >= FIRST_WITH_ZSTD {
        return Ok(());
    }
    // What is no batch at all is refused for that, later.
    let batch = partition.records.as_deref().unwrap_or_default();
    let codec = BatchHeader::read(batch).and_then(|header| header.attributes.compression());
    match codec {
        Ok(Compression::Zstd) => {
            let why = "zstd needs version 7 of Produce";
            Err((ErrorCode::UnsupportedCompressionType, Some(why)))
        }
        _ => Ok(()),
    }
}

/// A topic by its name, from version 13 on by its id.
fn find_topic(core: &Core, topic: &TopicProduceData, version: i16) -> Result<(TopicId, i32), Refused> {
    core.with_metadata(|metadata| {
        let (found, unknown) = match version {
            ..=12 => (
                metadata.topic_named(&topic.name),
                ErrorCode::UnknownTopicOrPartition,
            ),
            _ => (metadata.topic(topic.topic_id), ErrorCode::UnknownTopicId),
        };
        match found {
            None => Err((unknown, None)),
            // As Kafka.
            Some(found) if is_internal(&found.name) => {
                let why = "only the node itself writes to this topic";
                Err((ErrorCode::InvalidTopicException, Some(why)))
            }
            Some(found) => Ok((found.id, found.partition_count())),
        }
    })
}

fn start_append(
    core: &Rc<Core>,
    connection: &Connection,
    (topic, partition_count): &(TopicId, i32),
    partition: PartitionProduceData,
    acks: Acks,
    memory: Option<SharedMemory>,
    allowance: Option<Allowance>,
) -> Pending {
    if !(0..*partition_count).contains(&partition.index) {
        return Pending::Refused((ErrorCode::UnknownTopicOrPartition, None));
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
    let (request, answer) = AppendRequest::new(id, batch, acks);
    send_to_owner(core, request.within(allowance));
    Pending::Answer(answer)
}

/// Hands a batch to the core that owns its partition, behind everything handed to it before.
fn send_to_owner(core: &Rc<Core>, request: AppendRequest) {
    let shard = core.facts.shard_of(request.partition());
    match core.facts.core_of(shard) == core.index {
        true => core.shard(shard).append(request),
        false => send_from_outside(&core.facts, request),
    }
}

/// The same for whoever is on another core than the partition, or on none (HTTP).
pub(crate) fn send_from_outside(facts: &NodeFacts, request: AppendRequest) {
    let shard = facts.shard_of(request.partition());
    facts.mailboxes.send(facts.core_of(shard), move |core| {
        core.shard(shard).append(request)
    });
}

/// What compressed batches of a request share, if it has several batches.
fn allowance(core: &Core, request: &ProduceRequest) -> Option<Allowance> {
    let partitions = || request.topic_data.iter().flat_map(|topic| &topic.partition_data);
    // Most have one.
    partitions().nth(1)?;
    let batches = || partitions().filter_map(|partition| partition.records.as_deref());
    let is_compressed = |batch: &[u8]| {
        let codec = BatchHeader::read(batch).and_then(|header| header.attributes.compression());
        codec.is_ok_and(|codec| codec != Compression::None)
    };
    batches().any(is_compressed).then(|| {
        let bytes = batches().map(|batch| batch.len() as u64).sum();
        Allowance::new(bytes, core.facts.config.limits.decompressed_bytes as u64)
    })
}

async fn answer(
    core: &Core,
    topic: (&Text, TopicId),
    index: i32,
    pending: Pending,
    deadline: Instant,
    record_errors: &mut RecordErrors,
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
        Pending::Refused((code, why)) => return refused(code, why.map(str::to_owned)),
        Pending::Answer(answer) => match timeout_at(deadline, answer).await {
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
            let topic = name_of(core, topic);
            tracing::debug!(core = core.index, %topic, index, %refusal, "an append was refused");
            let to_blame = match &refusal {
                AppendRefusal::Records(bad) => record_errors.of(bad, &topic, index),
                _ => Vec::new(),
            };
            PartitionProduceResponse {
                record_errors: to_blame,
                ..refused(append_code(&refusal), Some(refusal.to_string()))
            }
        }
    }
}

/// The name of a topic that a request may have given by its id only.
fn name_of(core: &Core, (named, id): (&Text, TopicId)) -> Text {
    if !named.is_empty() {
        return named.clone();
    }
    let found = core.with_metadata(|metadata| metadata.topic(id).map(|topic| topic.name.to_string()));
    found.map_or_else(|| Text::from(id.to_string()), Text::from)
}
