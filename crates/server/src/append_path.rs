//! The way of an append, part one: a Produce request becomes one batch for each partition, each sent to the core that
//! owns the partition, and one answer when all are committed.
//!
//! Read on in `shard/append.rs` (examine, check, number, stage) and `shard/flush.rs` (flush, commit). Everything up to
//! staging or queueing, or sending to the owner, happens before the connection's next request is looked at (`begin`): so
//! appends of a connection keep their order. Only the waiting is done later.

mod begin;
mod record_errors;

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use kafka_wire::produce::{
    LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse, ProduceRequest, ProduceResponse,
    TopicProduceResponse,
};
use kafka_wire::{ErrorCode, Text};
use protocol::leader::NodeId;
use protocol::metadata::Metadata;
use record::{PartitionId, Position, TopicId};
use shard::{AppendOutcome, AppendRefusal, AppendRequest};
use storage::SharedMemory;
use tokio::time::{Instant, timeout_at};

use self::begin::{Pending, Started, begin_all};
use self::record_errors::RecordErrors;
use crate::caller::Caller;
use crate::connection::Connection;
use crate::core::{Core, NodeFacts};
use crate::error_codes::append_code;
use crate::leader_hints::LeaderHints;
use crate::order::{TWIN_PARTITION, Unfound};

/// The least time for which `acks=all` waits, however little a client gives: its time is meant for followers, and where there
/// are none Kafka has the answer at the first look. Here a flush lies between.
pub(crate) const FLUSH_PATIENCE_MIN: Duration = Duration::from_secs(1);
/// The same for a producer that waits for the leader alone, which in Kafka never takes too long. A disk that hangs must not
/// have connections wait for ever.
const LEADER_PATIENCE_MIN: Duration = Duration::from_secs(30);
/// The tail in an answer to an append that did not fail for it.
const NO_TAIL: i64 = -1;
/// Clients know these codes from these versions of Produce on.
const FIRST_WITH_ABORTABLE: i16 = 11;
const FIRST_WITH_CONCURRENT: i16 = 12;
/// The first version whose answer names the leader to a client that asked another node (KIP-951).
const FIRST_WITH_CURRENT_LEADER: i16 = 10;

/// Starts all appends of a request. The answer comes from the future; with `acks=0` nobody wants it. `memory` is the
/// request's, if it was received where its batch can stay.
pub(crate) fn produce(
    core: &Rc<Core>,
    connection: &Rc<Connection>,
    caller: Arc<Caller>,
    request: ProduceRequest,
    version: i16,
    memory: Option<SharedMemory>,
) -> impl Future<Output = ProduceResponse> + use<> {
    // The answer is looked at only when those before it are out: the client's time runs from here.
    let deadline = Instant::now() + patience(&request);
    let begun = begin_all(core, connection, caller, request, version, memory);
    let core = core.clone();
    async move {
        let started = begun.wait().await;
        let mut response = answer_all(&core, started, deadline).await;
        tell_as_known(version, &mut response);
        if version >= FIRST_WITH_CURRENT_LEADER {
            core.with_metadata(|metadata| tell_leaders(metadata, core.facts.node, &mut response));
        }
        response
    }
}

/// Replaces codes about transactions that clients of a version do not know (KIP-890), by those that have them do the same.
fn tell_as_known(version: i16, response: &mut ProduceResponse) {
    let partitions = response.responses.iter_mut();
    for partition in partitions.flat_map(|topic| &mut topic.partition_responses) {
        let code = match ErrorCode::from_code(partition.error_code) {
            Some(ErrorCode::ConcurrentTransactions) if version < FIRST_WITH_CONCURRENT => {
                ErrorCode::NotEnoughReplicas
            }
            Some(ErrorCode::TransactionAbortable) if version < FIRST_WITH_ABORTABLE => {
                ErrorCode::InvalidTxnState
            }
            _ => continue,
        };
        partition.error_code = code.code();
    }
}

/// Says who leads the partitions that are appended to at the wrong node.
fn tell_leaders(metadata: &Metadata, own: NodeId, response: &mut ProduceResponse) {
    let mut hints = LeaderHints::new(metadata, own);
    for topic in &mut response.responses {
        let by_name = || metadata.topic_named(&topic.name).map(|topic| topic.id);
        let id = Some(topic.topic_id)
            .filter(|_| topic.name.is_empty())
            .or_else(by_name);
        let Some(id) = id else { continue };
        for partition in &mut topic.partition_responses {
            let index = partition.index;
            let id = PartitionId { topic: id, index };
            if let Some((leader, epoch)) = hints.hint(id, partition.error_code) {
                partition.current_leader = LeaderIdAndEpoch {
                    leader_id: leader.0,
                    leader_epoch: epoch.0,
                };
            }
        }
    }
    response.node_endpoints = hints.endpoints(|node_id, host, port, rack| NodeEndpoint {
        node_id,
        host,
        port,
        rack,
    });
}

/// The time for which the answers to appends under way are waited for.
fn patience(request: &ProduceRequest) -> Duration {
    let wanted = Duration::from_millis(request.timeout_ms.max(0) as u64);
    wanted.max(match request.acks {
        -1 => FLUSH_PATIENCE_MIN,
        _ => LEADER_PATIENCE_MIN,
    })
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

/// The same for whoever is on another core than the partition, or on none (HTTP).
pub(crate) fn send_from_outside(facts: &NodeFacts, request: AppendRequest) {
    let shard = facts.shard_of(request.partition());
    facts.mailboxes.send(facts.core_of(shard), move |core| {
        core.shard(shard).append(request)
    });
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
        tail: NO_TAIL,
    };
    let (answer, twin) = match pending {
        Pending::Refused((code, why)) => return refused(code, why.map(str::to_owned)),
        Pending::Answer(answer) => (answer, None),
        Pending::OfTwin(topic, answer) => (answer, Some(topic)),
    };
    let outcome = match timeout_at(deadline, answer).await {
        Ok(answered) => answered.unwrap_or(Err(AppendRefusal::Stopping)),
        Err(_) => return refused(ErrorCode::RequestTimedOut, None),
    };
    match (outcome, twin) {
        (Ok(appended), Some(topic)) => match position_of(core, topic, &appended, deadline).await {
            Ok(position) => PartitionProduceResponse {
                base_offset: position.0 as i64,
                log_append_time_ms: appended.append_time_ms.unwrap_or(-1),
                log_start_offset: 0,
                ..refused(ErrorCode::None, None)
            },
            // It is there. An idempotent producer that sends it again has it looked for once more.
            Err(why) => refused(ErrorCode::RequestTimedOut, why),
        },
        (Ok(appended), None) => PartitionProduceResponse {
            base_offset: appended.first_offset.0,
            log_append_time_ms: appended.append_time_ms.unwrap_or(-1),
            log_start_offset: appended.log_start.0,
            ..refused(ErrorCode::None, None)
        },
        (Err(refusal), _) => {
            let topic = name_of(core, topic);
            tracing::debug!(core = core.index, %topic, index, %refusal, "an append was refused");
            let to_blame = match &refusal {
                AppendRefusal::Records(bad) => record_errors.of(bad, &topic, index),
                _ => Vec::new(),
            };
            let tail = match &refusal {
                AppendRefusal::TailMoved { tail, .. } => tail.0 as i64,
                _ => NO_TAIL,
            };
            PartitionProduceResponse {
                record_errors: to_blame,
                tail,
                ..refused(append_code(&refusal), Some(refusal.to_string()))
            }
        }
    }
}

/// The position of a batch that was sent to the twin of a topic. One that was there before is looked for.
///
/// # Errors
/// A sentence why it is not found; none if the time is over.
async fn position_of(
    core: &Core,
    topic: TopicId,
    appended: &AppendOutcome,
    deadline: Instant,
) -> Result<Position, Option<String>> {
    if let Some(position) = appended.position {
        return Ok(position);
    }
    let place = (TWIN_PARTITION, appended.first_offset);
    let asked = core
        .facts
        .mailboxes
        .carry_out(core.facts.home_of(topic), move |core| async move {
            let gone = || Unfound::Fault("the order is not open".into());
            let home = core.home(topic).ok_or_else(gone)?;
            home.position_of(&core, place).await
        });
    let told = |unfound: Unfound| Some(unfound.to_string());
    match timeout_at(deadline, asked).await {
        Ok(found) => found.map_err(Unfound::from).flatten().map_err(told),
        Err(_) => Err(None),
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
