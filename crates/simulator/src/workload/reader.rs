//! Readers: one that follows a partition, and one that reads a whole log at the end.

use std::collections::BTreeMap;
use std::io;

use kafka_wire::fetch::{FetchPartition, FetchTopic, PartitionData};
use kafka_wire::list_offsets::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_wire::{ApiKey, ErrorCode, FetchRequest, ListOffsetsRequest, Text};
use platform::random::SeededRandom;
use record::Limits;
use tokio::time::sleep;

use super::{REST, TOPICS, World};
use crate::client::Client;
use crate::history::{Place, Value};

/// Asks for the first offset of a log, and for the one behind its last record.
const EARLIEST: i64 = -2;
const LATEST: i64 = -1;

/// Reads a partition on and on, from somewhere.
pub(crate) async fn read_on(world: World, place: Place, mut random: SeededRandom) {
    let mut position = 0;
    while !world.ends.get() {
        let mut client = world.connect().await;
        if let Err(error) = follow(&world, &mut client, place, &mut position, &mut random).await {
            world.trace.count(format!("Fetch: connection {:?}", error.kind()));
        }
        sleep(REST).await;
    }
    world.unfinished.set(world.unfinished.get() - 1);
}

async fn follow(
    world: &World,
    client: &mut Client,
    place: Place,
    position: &mut i64,
    random: &mut SeededRandom,
) -> io::Result<()> {
    while !world.ends.get() {
        match random.below(50) {
            0 | 2 => *position = world.history.start(place),
            1 => {
                *position = offset_of(world, client, place, LATEST)
                    .await?
                    .unwrap_or(*position)
            }
            _ => {}
        }
        let Some(found) = fetch(world, client, place, *position).await? else {
            sleep(REST).await;
            continue;
        };
        for (offset, value) in found {
            world.history.read(place, offset, value);
            *position = offset + 1;
        }
    }
    Ok(())
}

/// Reads the whole log through the wire; returns its records and its start.
pub(crate) async fn read_all(world: &World, place: Place) -> (BTreeMap<i64, Value>, i64) {
    loop {
        let mut client = world.connect().await;
        if let Ok(Some(all)) = try_read_all(world, &mut client, place).await {
            return all;
        }
        sleep(REST).await;
    }
}

async fn try_read_all(
    world: &World,
    client: &mut Client,
    place: Place,
) -> io::Result<Option<(BTreeMap<i64, Value>, i64)>> {
    let Some(start) = offset_of(world, client, place, EARLIEST).await? else {
        return Ok(None);
    };
    let Some(tail) = offset_of(world, client, place, LATEST).await? else {
        return Ok(None);
    };
    let (mut all, mut position) = (BTreeMap::new(), start);
    while position < tail {
        let Some(found) = fetch(world, client, place, position).await? else {
            return Ok(None);
        };
        for (offset, value) in found {
            world.history.read(place, offset, value);
            all.insert(offset, value);
            position = offset + 1;
        }
    }
    Ok(Some((all, start)))
}

/// Asks for the offset of this name; `None` if it is not told now.
pub(super) async fn offset_of(
    world: &World,
    client: &mut Client,
    place: Place,
    name: i64,
) -> io::Result<Option<i64>> {
    let (topic, index) = place;
    let (tail, start) = (world.history.tail(place), world.history.start(place));
    let request = ListOffsetsRequest {
        topics: vec![ListOffsetsTopic {
            name: Text::from(TOPICS[topic].0),
            partitions: vec![ListOffsetsPartition {
                partition_index: index,
                current_leader_epoch: -1,
                timestamp: name,
            }],
        }],
        ..ListOffsetsRequest::default()
    };
    let answer = client.call(&request).await?;
    let answer = &answer.topics[0].partitions[0];
    if world.reached(ApiKey::ListOffsets, answer.error_code).is_some() {
        return Ok(None);
    }
    match name {
        LATEST => world.history.hear_tail(place, tail, answer.offset),
        _ => world.history.hear_start(place, start, answer.offset),
    }
    Ok(Some(answer.offset))
}

/// The records at a position and behind it, without a gap; `None` after an error.
async fn fetch(
    world: &World,
    client: &mut Client,
    place: Place,
    position: i64,
) -> io::Result<Option<Vec<(i64, Value)>>> {
    let (topic, index) = place;
    let (tail, start) = (world.history.tail(place), world.history.start(place));
    let request = FetchRequest {
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 1 << 20,
        topics: vec![FetchTopic {
            topic: Text::from(TOPICS[topic].0),
            partitions: vec![FetchPartition {
                partition: index,
                current_leader_epoch: -1,
                fetch_offset: position,
                partition_max_bytes: 64 << 10,
                ..FetchPartition::default()
            }],
            ..FetchTopic::default()
        }],
        ..FetchRequest::default()
    };
    let answer = client.call(&request).await?;
    let answer = &answer.responses[0].partitions[0];
    match world.reached(ApiKey::Fetch, answer.error_code) {
        None => {}
        Some(ErrorCode::OffsetOutOfRange) => {
            let Some(earliest) = offset_of(world, client, place, EARLIEST).await? else {
                return Ok(None);
            };
            if position >= earliest && position <= tail {
                world.history.violate(format!(
                    "offset {position} of {place:?} is out of range, though the log begins at {earliest} and had {tail}"
                ));
            }
            return Ok(None);
        }
        Some(_) => return Ok(None),
    }
    world.history.hear_tail(place, tail, answer.high_watermark);
    world.history.hear_start(place, start, answer.log_start_offset);
    Ok(Some(records(world, place, position, answer)))
}

fn records(world: &World, place: Place, position: i64, answer: &PartitionData) -> Vec<(i64, Value)> {
    let bytes = answer.records.chunks.concat();
    let (mut found, mut next) = (Vec::new(), position);
    for batch in record::batches(&bytes) {
        // The last one may be cut, as Kafka cuts it.
        let Ok((_, batch)) = batch else { break };
        if !record::checksum_holds(batch) {
            world
                .history
                .violate(format!("a batch of {place:?} at {next} fails its checksum"));
            return found;
        }
        for record in record::records(batch, &Limits::default()).expect("it is sound") {
            let record = record.expect("it is sound");
            let offset = record.offset.0;
            if offset < position {
                continue;
            }
            if offset != next {
                world
                    .history
                    .violate(format!("{place:?} has offset {offset} where {next} was expected"));
            }
            if offset >= answer.high_watermark {
                world.history.violate(format!(
                    "{place:?} shows offset {offset} at a tail of {}",
                    answer.high_watermark
                ));
            }
            let value = record.value.expect("each has one");
            let value = Value::from_le_bytes(value[..8].try_into().expect("eight bytes"));
            found.push((offset, value));
            next = offset + 1;
        }
    }
    found
}
