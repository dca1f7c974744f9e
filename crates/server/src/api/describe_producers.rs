//! DescribeProducers: what partitions remember of their idempotent producers (KIP-664).

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kafka_wire::describe_producers::{PartitionResponse, ProducerState, TopicResponse};
use kafka_wire::{DescribeProducersRequest, DescribeProducersResponse, ErrorCode, Text};
use protocol::producers::WrittenBatch;
use protocol::{Leader, ProducerId};
use record::PartitionId;
use shard::Shard;

use super::Envelope;
use super::gather::gather;
use crate::core::Core;
use crate::error_codes::led_code;
use crate::long::Long;
use crate::owner::{ask_owners, find_partition};

/// Producers that one answer holds at most.
const PRODUCERS_MAX: usize = 100_000;
/// Memory that telling of a producer and of a partition takes, as it is found, as it is told and in the frame.
const PRODUCER_BYTES: usize = 128;
const PARTITION_BYTES: usize = 160;
/// Stands for what only transactions have, or what a partition does not remember.
const NONE: i32 = -1;

pub(super) async fn handle(
    core: Rc<Core>,
    request: DescribeProducersRequest,
    Envelope { caller, room, .. }: Envelope,
) -> DescribeProducersResponse {
    let topics = Long::of(&core, request.topics, &room);
    let questions = || {
        let (core, mut seen) = (&core, BTreeSet::new());
        let named = topics.iter().flat_map(|topic| {
            let indexes = topic.partition_indexes.iter();
            indexes.map(move |index| (&topic.name, *index))
        });
        named.map(move |(topic, index)| {
            let id = core.with_metadata(|metadata| find_partition(metadata, topic, index))?;
            // Naming a partition a million times must not multiply the answer.
            match seen.insert(id) {
                true => Ok((id, ())),
                false => Err(ErrorCode::InvalidRequest),
            }
        })
    };
    // All producers of a partition, for a request of a few bytes: they are counted before they are told of. What is counted is held
    // until the response is there; whoever writes it holds what its frame takes from then on.
    let count = |shard: Rc<Shard>, id: PartitionId, ()| async move {
        let count = shard.with_leader(id, |leader| leader.producers().len());
        count.map_err(led_code)
    };
    let counts = ask_owners(&core, &room, questions(), count).await;
    let producers_told = counts.flatten().sum::<usize>().min(PRODUCERS_MAX);
    let partitions = topics.iter().map(|topic| topic.partition_indexes.len());
    let gathered_bytes = partitions.sum::<usize>() * PARTITION_BYTES + producers_told * PRODUCER_BYTES;
    let _held = core.answers.reserve(caller.address(), gathered_bytes).await;
    let left = Arc::new(AtomicUsize::new(PRODUCERS_MAX));
    let work = move |shard: Rc<Shard>, id: PartitionId, ()| {
        let left = left.clone();
        async move {
            shard
                .with_leader(id, |leader| producers(leader, &left))
                .map_err(led_code)
                .flatten()
        }
    };
    let mut described = ask_owners(&core, &room, questions(), work).await;
    let topics = gather(
        &core,
        &topics,
        |topic| &topic.partition_indexes,
        |_, index| told(*index, described.next().expect("one question, one answer")),
        |topic, partitions| TopicResponse {
            name: topic.name.clone(),
            partitions,
        },
    );
    DescribeProducersResponse {
        throttle_time_ms: 0,
        topics: topics.await,
    }
}

fn producers(leader: &Leader, room: &AtomicUsize) -> Result<Vec<ProducerState>, ErrorCode> {
    let count = leader.producers().len();
    // Only a sum that must not be exceeded: nothing else hangs on it.
    let taken = room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| {
        room.checked_sub(count)
    });
    match taken {
        Ok(_) => Ok(leader.producers().iter().map(|of| state(leader, of)).collect()),
        Err(_) => Err(ErrorCode::PolicyViolation),
    }
}

fn state(leader: &Leader, (id, epoch, last): (ProducerId, i16, Option<WrittenBatch>)) -> ProducerState {
    let fences = leader.producers().fences_of(id);
    let open = leader.producers().transaction_of(id);
    ProducerState {
        producer_id: id.0,
        producer_epoch: epoch.into(),
        last_sequence: last.map_or(NONE, |batch| batch.last_sequence()),
        last_timestamp: last.map_or(NONE.into(), |batch| batch.max_timestamp_ms),
        coordinator_epoch: fences.map_or(NONE, |(_, coordinator_epoch)| coordinator_epoch),
        current_txn_start_offset: open.map_or(NONE.into(), |open| open.first.0),
    }
}

fn told(partition_index: i32, described: Result<Vec<ProducerState>, ErrorCode>) -> PartitionResponse {
    let (code, active_producers) = match described {
        Ok(producers) => (ErrorCode::None, producers),
        Err(code) => (code, Vec::new()),
    };
    let message = match code {
        ErrorCode::None => None,
        ErrorCode::UnknownTopicOrPartition => Some("This server does not host this topic-partition."),
        ErrorCode::InvalidRequest => Some("the request names this partition twice"),
        ErrorCode::PolicyViolation => {
            Some("the answer would hold too many producers; ask for fewer partitions")
        }
        _ => Some("the node is stopping"),
    };
    PartitionResponse {
        partition_index,
        error_code: code.code(),
        error_message: message.map(Text::from_static),
        active_producers,
    }
}
