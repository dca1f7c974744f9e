//! An idempotent producer that is the only one of its topic: it sends each record again, to whoever leads, until it is acknowledged.
//!
//! So the record with sequence n stands at offset n. Whoever comes to lead must know exactly what of it was written before; and no leader may say that a sequence is
//! wrong because it missed the ones before.

use std::io;
use std::time::Duration;

use kafka_wire::produce::{PartitionProduceData, TopicProduceData};
use kafka_wire::{ErrorCode, InitProducerIdRequest, ProduceRequest, Text};
use platform::random::SeededRandom;
use record::{BatchBuilder, Compression};
use tokio::time::{Instant, sleep, timeout};

use super::requests::{create, topics};
use super::{PARTITIONS, Shared};
use crate::client::Client;

pub(super) const TOPIC: &str = "sequenced";
/// Between two requests.
const PACE: Duration = Duration::from_millis(20);
/// An answer is waited for no longer: the request is sent again.
const PATIENCE: Duration = Duration::from_secs(4);

/// Writes to partitions of the topic, until the world ends.
pub(super) async fn produce(shared: Shared, mut random: SeededRandom) {
    let mut producer = None;
    let mut next = [0_i32; PARTITIONS as usize];
    // When the next record of each was sent first: it may have been appended then.
    let mut begun = [None; PARTITIONS as usize];
    while !shared.ends.get() {
        sleep(PACE).await;
        if shared.rests.get() {
            continue;
        }
        let node = random.below(shared.nodes.len() as u64) as usize;
        let Some(id) = producer else {
            producer = timeout(PATIENCE, begin(&shared, node))
                .await
                .unwrap_or(Ok(None))
                .unwrap_or(None);
            continue;
        };
        let index = random.below(next.len() as u64) as usize;
        let began = *begun[index].get_or_insert_with(Instant::now);
        let record = (index as i32, id, next[index]);
        match timeout(PATIENCE, send(&shared, node, record, began)).await {
            Ok(Ok(Some(()))) => {
                next[index] += 1;
                begun[index] = None;
            }
            Ok(Ok(None)) => {}
            Ok(Err(error)) => shared
                .trace
                .count(format!("sequenced: connection {:?}", error.kind())),
            Err(_) => shared.trace.count("sequenced: nothing is answered"),
        }
    }
    shared.unfinished.set(shared.unfinished.get() - 1);
}

/// Makes the topic, if it is not there, and takes a producer id.
async fn begin(shared: &Shared, node: usize) -> io::Result<Option<i64>> {
    if !topics(shared, node).await?.contains_key(TOPIC) {
        let replicas = shared.nodes.len().min(3) as i16;
        create(shared, node, TOPIC, replicas, 1).await?;
        return Ok(None);
    }
    producer_id(shared, node).await
}

/// Takes a producer id, if the node can give one.
pub(super) async fn producer_id(shared: &Shared, node: usize) -> io::Result<Option<i64>> {
    let mut client = Client::connect(&shared.net, shared.nodes[node]).await?;
    let request = InitProducerIdRequest {
        transactional_id: None,
        producer_id: -1,
        producer_epoch: -1,
        ..InitProducerIdRequest::default()
    };
    let answer = client.call(&request).await?;
    Ok((answer.error_code == 0).then_some(answer.producer_id))
}

/// Sends the record of this sequence to the partition's leader, as a node knows it; says whether it is acknowledged.
async fn send(
    shared: &Shared,
    node: usize,
    (index, id, sequence): (i32, i64, i32),
    began: Instant,
) -> io::Result<Option<()>> {
    let leaders = topics(shared, node).await?.remove(TOPIC);
    let Some(leader) = leaders.and_then(|leaders| leaders.get(index as usize).copied()) else {
        return Ok(None);
    };
    let value = format!("{sequence} of {TOPIC}-{index}");
    let mut builder = BatchBuilder::new(Compression::None);
    builder.set_producer(id, 0, sequence);
    builder.append(0, None, Some(value.as_bytes()), &[]);
    let mut client = Client::connect(&shared.net, shared.nodes[leader]).await?;
    let request = ProduceRequest {
        acks: -1,
        timeout_ms: 3_000,
        topic_data: vec![TopicProduceData {
            name: Text::from(TOPIC),
            partition_data: vec![PartitionProduceData {
                index,
                records: Some(builder.build()),
                ..PartitionProduceData::default()
            }],
            ..TopicProduceData::default()
        }],
        ..ProduceRequest::default()
    };
    let answer = client.call(&request).await?;
    let told = &answer.responses[0].partition_responses[0];
    let code = ErrorCode::from_code(told.error_code);
    shared.trace.count(format!("sequenced: {code:?}"));
    match code {
        Some(ErrorCode::None) => {}
        Some(
            ErrorCode::OutOfOrderSequenceNumber
            | ErrorCode::DuplicateSequenceNumber
            | ErrorCode::UnknownProducerId
            | ErrorCode::InvalidProducerEpoch
            | ErrorCode::InvalidProducerIdMapping,
        ) => {
            shared.violate(format!(
                "node {leader} tells {code:?} of sequence {sequence} of {TOPIC}-{index}"
            ));
            return Ok(None);
        }
        _ => return Ok(None),
    }
    if told.base_offset != i64::from(sequence) {
        shared.violate(format!(
            "sequence {sequence} of {TOPIC}-{index} is acknowledged at {}, and nobody else writes there",
            told.base_offset
        ));
    }
    shared.note_acknowledged(TOPIC, index, told.base_offset, began);
    shared.note_written(TOPIC, index, told.base_offset + 1);
    let place = (TOPIC.to_owned(), index, told.base_offset);
    shared.records.borrow_mut().insert(place, value);
    Ok(Some(()))
}
