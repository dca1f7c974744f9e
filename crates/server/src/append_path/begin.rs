//! The appends of a request, begun one after the other in its order. Where that is too much for one turn, others of the core have
//! theirs in between, and the next request of the connection waits until all are begun: so its appends keep their order.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::FutureExt;
use kafka_wire::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use kafka_wire::{ErrorCode, Text};
use platform::turns;
use protocol::metadata::is_internal;
use record::{BatchHeader, Compression, PartitionId, Position, TopicId};
use shard::{Acks, Allowance, AppendAnswer, AppendRequest, Claim, Conditions};
use storage::SharedMemory;
use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::send_from_outside;
use crate::caller::Caller;
use crate::connection::Connection;
use crate::core::Core;
use crate::order::{TWIN_PARTITION, twin_named, twin_with_id};

/// From here on batches may be compressed with Zstandard (KIP-110): who speaks less may have consumers that cannot read it.
const FIRST_WITH_ZSTD: i16 = 7;

/// From here on a transaction's partitions are added by their leaders (KIP-890).
const FIRST_THAT_ADDS: i16 = 12;

/// The tail of an append that depends on none.
const ANY_TAIL: i64 = -1;

/// The appends of one topic, each with its partition's index.
pub(super) struct Started {
    pub(super) topic: Text,
    pub(super) topic_id: TopicId,
    pub(super) appends: Vec<(i32, Pending)>,
}

/// An append under way, or what is to be answered instead.
pub(super) enum Pending {
    Answer(AppendAnswer),
    /// To the twin of this topic: it is to be answered with its position.
    OfTwin(TopicId, AppendAnswer),
    Refused(Refused),
}

/// A topic that is appended to.
#[derive(Debug, Clone, Copy)]
struct Known {
    id: TopicId,
    partition_count: i32,
    /// By the name or the id of its twin.
    is_twin: bool,
}

/// Why nothing was started, with a sentence where the code does not say enough.
pub(super) type Refused = (ErrorCode, Option<&'static str>);

/// All appends of a request, when they are begun.
pub(super) enum Begun {
    Now(Vec<Started>),
    Later(oneshot::Receiver<Vec<Started>>),
}

impl Begun {
    /// The appends; none if the node stops before they are begun.
    pub(super) async fn wait(self) -> Vec<Started> {
        match self {
            Begun::Now(started) => started,
            Begun::Later(begun) => begun.await.unwrap_or_default(),
        }
    }
}

/// Begins the appends of a request, in this turn and those that it takes besides.
pub(super) fn begin_all(
    core: &Rc<Core>,
    connection: &Rc<Connection>,
    caller: Arc<Caller>,
    request: ProduceRequest,
    version: i16,
    memory: Option<SharedMemory>,
) -> Begun {
    let has_one = batches(&request).nth(1).is_none();
    let is_answered = request.acks != 0;
    let beginning = begin(core.clone(), connection.clone(), caller, request, version, memory);
    if has_one {
        let begun = beginning.now_or_never();
        return Begun::Now(begun.expect("one batch is begun at once"));
    }
    let mut beginning = Box::pin(beginning);
    match (&mut beginning).now_or_never() {
        Some(started) => Begun::Now(started),
        None => go_on(connection, beginning, is_answered),
    }
}

/// Has the rest of a request begun, and its connection's next one wait for that. If nobody waits for the answer any more, neither
/// is what has not been begun.
fn go_on(
    connection: &Connection,
    beginning: impl Future<Output = Vec<Started>> + 'static,
    is_answered: bool,
) -> Begun {
    let (is_begun, held_back) = oneshot::channel();
    connection.hold_back(held_back);
    let (mut reply, begun) = oneshot::channel();
    turns::spawn(async move {
        let _is_begun: oneshot::Sender<()> = is_begun;
        tokio::select! {
            biased;
            started = beginning => drop(reply.send(started)),
            () = reply.closed(), if is_answered => {}
        }
    });
    Begun::Later(begun)
}

/// Begins the appends of a request, in its order; between two of them others of the core may have their turn.
async fn begin(
    core: Rc<Core>,
    connection: Rc<Connection>,
    caller: Arc<Caller>,
    request: ProduceRequest,
    version: i16,
    mut memory: Option<SharedMemory>,
) -> Vec<Started> {
    let acks = acks_of(&request);
    let claim = request.transactional_id.as_ref().map(|id| Claim {
        transactional_id: Arc::from(id.as_str()),
        adds: version >= FIRST_THAT_ADDS,
    });
    let allowance = allowance(&core, &request);
    let mut started = Vec::with_capacity(request.topic_data.len());
    for topic in request.topic_data {
        let known = find_topic(&core, &topic, version);
        let mut name = topic.name;
        if memory.is_some() {
            // Nothing else of the request may be referred to when its memory is reclaimed.
            name = name.detached();
        }
        let mut appends = Vec::with_capacity(topic.partition_data.len());
        for partition in topic.partition_data {
            if !(started.is_empty() && appends.is_empty()) && turns::is_spent() {
                yield_now().await;
            }
            let index = partition.index;
            let codec = check_codec(&partition, version);
            let pending = match (&acks, &known, codec) {
                (Ok(acks), Ok(known), Ok(())) => {
                    let request = (*acks, allowance.clone(), memory.take(), claim.clone());
                    start_append(&core, &connection, &caller, known, partition, request)
                }
                (Err(refused), ..) | (_, Err(refused), _) => Pending::Refused(*refused),
                (.., Err(refused)) => Pending::Refused(refused),
            };
            appends.push((index, pending));
        }
        started.push(Started {
            topic: name,
            topic_id: topic.topic_id,
            appends,
        });
    }
    started
}

/// Returns the acknowledgement that the producer waits for.
fn acks_of(request: &ProduceRequest) -> Result<Acks, Refused> {
    match request.acks {
        0 => Ok(Acks::None),
        1 => Ok(Acks::Leader),
        -1 => Ok(Acks::Quorum),
        _ => Err((ErrorCode::InvalidRequiredAcks, None)),
    }
}

/// Checks that the batch's compression is no newer than the request's version.
fn check_codec(partition: &PartitionProduceData, version: i16) -> Result<(), Refused> {
    if version >= FIRST_WITH_ZSTD {
        return Ok(());
    }
    // Bytes that are no batch at all are refused for that, later.
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
fn find_topic(core: &Core, topic: &TopicProduceData, version: i16) -> Result<Known, Refused> {
    core.with_metadata(|metadata| {
        let (found, unknown) = match version {
            ..=12 => (
                metadata.topic_named(&topic.name),
                ErrorCode::UnknownTopicOrPartition,
            ),
            _ => (metadata.topic(topic.topic_id), ErrorCode::UnknownTopicId),
        };
        let twin = || match version {
            ..=12 => twin_named(metadata, &topic.name),
            _ => twin_with_id(metadata, topic.topic_id),
        };
        match found {
            None => match twin() {
                Some(topic) => Ok(Known {
                    id: topic.id,
                    partition_count: 1,
                    is_twin: true,
                }),
                None => Err((unknown, None)),
            },
            // As Kafka.
            Some(found) if is_internal(&found.name) => {
                let why = "only the node itself writes to this topic";
                Err((ErrorCode::InvalidTopicException, Some(why)))
            }
            Some(found) => Ok(Known {
                id: found.id,
                partition_count: found.partition_count(),
                is_twin: false,
            }),
        }
    })
}

fn start_append(
    core: &Rc<Core>,
    connection: &Connection,
    caller: &Caller,
    known: &Known,
    partition: PartitionProduceData,
    (acks, allowance, memory, claim): (Acks, Option<Allowance>, Option<SharedMemory>, Option<Claim>),
) -> Pending {
    if !(0..known.partition_count).contains(&partition.index) {
        return Pending::Refused((ErrorCode::UnknownTopicOrPartition, None));
    }
    let batch = partition.records.unwrap_or_default();
    let batch = match memory {
        Some(memory) => memory.reclaim(batch),
        None => batch.into(),
    };
    let id = PartitionId {
        topic: known.id,
        index: match known.is_twin {
            true => TWIN_PARTITION,
            false => partition.index,
        },
    };
    connection.note_owner(core.facts.owner_of(id));
    let tail = match partition.if_tail {
        ANY_TAIL => None,
        tail => match u64::try_from(tail) {
            Ok(tail) => Some(Position(tail)),
            Err(_) => {
                return Pending::Refused((
                    ErrorCode::InvalidRequest,
                    Some("the tail of a condition is no position"),
                ));
            }
        },
    };
    // A position is known when it is shown.
    let acks = match acks {
        Acks::Leader if known.is_twin || tail.is_some() => Acks::Quorum,
        acks => acks,
    };
    let (request, answer) = AppendRequest::new(id, batch, acks);
    let request = request
        .sent_from(caller.address())
        .within(allowance)
        .in_transaction(claim);
    let request = request.only_if(Conditions { tail, offset: None });
    send_to_owner(core, if known.is_twin { request.to_twin() } else { request });
    match acks {
        // Nobody is told where it is.
        Acks::None => Pending::Answer(answer),
        _ if known.is_twin => Pending::OfTwin(known.id, answer),
        _ => Pending::Answer(answer),
    }
}

/// Hands a batch to the core that owns its partition, behind everything handed to it before.
fn send_to_owner(core: &Rc<Core>, request: AppendRequest) {
    let shard = core.facts.shard_of(request.partition());
    match core.facts.core_of(shard) == core.index {
        true => core.shard(shard).append(request),
        false => send_from_outside(&core.facts, request),
    }
}

/// The batches of a request; most have one.
fn batches(request: &ProduceRequest) -> impl Iterator<Item = &PartitionProduceData> {
    request.topic_data.iter().flat_map(|topic| &topic.partition_data)
}

/// The allowance that the batches of a request share, if there are several and some are compressed.
fn allowance(core: &Core, request: &ProduceRequest) -> Option<Allowance> {
    batches(request).nth(1)?;
    let records = || batches(request).filter_map(|partition| partition.records.as_deref());
    let is_compressed = |batch: &[u8]| {
        let codec = BatchHeader::read(batch).and_then(|header| header.attributes.compression());
        codec.is_ok_and(|codec| codec != Compression::None)
    };
    records().any(is_compressed).then(|| {
        let bytes = records().map(|batch| batch.len() as u64).sum();
        Allowance::new(bytes, core.facts.config.limits.decompressed_bytes as u64)
    })
}
