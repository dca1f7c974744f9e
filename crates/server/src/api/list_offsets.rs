//! ListOffsets: the tail, the start, the newest record, or the first record since a time.
//!
//! Searching by time asks the store where to begin and then goes through whole batches: headers first, records only of
//! a batch that may hold the answer, and those off the core, since decompressing takes long. Only committed records
//! from the log start on are found.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use kafka_wire::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsTopic, ListOffsetsTopicResponse,
};
use kafka_wire::{ErrorCode, ListOffsetsRequest, ListOffsetsResponse};
use protocol::metadata::Topic;
use record::{BatchError, BatchHeader, Epoch, Limits, Offset, PartitionId, TimestampType};
use shard::{ReadRefusal, Shard, Watch, Watcher};

use super::Envelope;
use super::gather::gather;
use crate::core::Core;
use crate::error_codes::{led_code, read_code};
use crate::log_bounds::LogBounds;
use crate::long::Long;
use crate::order::{EPOCH, Home, check_epoch, twin_named};
use crate::owner::{ask_cores, ask_owners, find_partition};

/// The isolation level that asks for the end of what is stable, and not the tail (KIP-98).
const READ_COMMITTED: i8 = 1;
/// Read at a time while searching; a batch may be larger.
const SEARCH_BYTES: usize = 256 << 10;
/// The time that the newest record may take to be committed. A flush takes far less.
const COMMIT_PATIENCE: Duration = Duration::from_secs(2);

/// A question about one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Query {
    /// The tail.
    Latest,
    /// The log start.
    Earliest,
    /// The record with the greatest timestamp (KIP-734).
    Newest,
    /// Something about tiered storage, of which there is none.
    Tiered,
    /// The first record with this timestamp or a later one.
    Since(i64),
}

impl Query {
    /// The question that a timestamp means in a version; `None` if it means nothing.
    fn of(timestamp: i64, version: i16) -> Option<Query> {
        let (query, first_version) = match timestamp {
            0.. => (Query::Since(timestamp), 1),
            -1 => (Query::Latest, 1),
            -2 => (Query::Earliest, 1),
            -3 => (Query::Newest, 7),
            // The earliest offset on local disks (KIP-405): all are.
            -4 => (Query::Earliest, 8),
            // The latest tiered one (KIP-1005), and the earliest that waits to be (KIP-1023).
            -5 => (Query::Tiered, 9),
            -6 => (Query::Tiered, 11),
            _ => return None,
        };
        (version >= first_version).then_some(query)
    }
}

/// An offset, and the timestamp and epoch of what lies there, where there is something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found {
    offset: i64,
    timestamp_ms: i64,
    epoch: i32,
}

impl Found {
    const NOTHING: Found = Found {
        offset: -1,
        timestamp_ms: -1,
        epoch: -1,
    };

    fn place(offset: Offset, epoch: Option<Epoch>) -> Found {
        Found {
            offset: offset.0,
            timestamp_ms: -1,
            epoch: epoch.map_or(-1, |epoch| epoch.0),
        }
    }
}

pub(super) async fn handle(
    core: Rc<Core>,
    request: ListOffsetsRequest,
    Envelope { version, room, .. }: Envelope,
) -> ListOffsetsResponse {
    let topics = Long::of(&core, request.topics, &room);
    let count = topics.iter().map(|topic| topic.partitions.len()).sum();
    let (topics, twice) = topics.look(count, named_twice).await;
    let named = topics.iter().flat_map(|topic| {
        let partitions = topic.partitions.iter();
        partitions.map(move |wanted| (&topic.name, wanted))
    });
    let questions = named.zip(&twice).map(|((topic, wanted), twice)| match twice {
        true => Err(ErrorCode::InvalidRequest),
        false => question(&core, topic, wanted, version),
    });
    let committed_only = request.isolation_level == READ_COMMITTED;
    let work = move |core: Rc<Core>, partition, (query, epoch)| async move {
        if let Some(home) = core.home_of_twin(partition) {
            return look_at_twin(&core, &home, query, epoch).await;
        }
        if core.is_twin_elsewhere(partition) {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        let shard = core.shard(core.facts.shard_of(partition)).clone();
        look(&shard, partition, query, epoch, committed_only).await
    };
    let mut found = ask_cores(&core, &room, questions, work).await;
    let topics = gather(
        &core,
        &topics,
        |topic| &topic.partitions,
        |_, wanted| told(wanted, version, found.next().expect("one question, one answer")),
        |topic, partitions| ListOffsetsTopicResponse {
            name: topic.name.clone(),
            partitions,
        },
    );
    ListOffsetsResponse {
        throttle_time_ms: 0,
        topics: topics.await,
    }
}

/// Says of each partition whether the request names it more than once.
fn named_twice(topics: &[ListOffsetsTopic]) -> Vec<bool> {
    let count = topics.iter().map(|topic| topic.partitions.len()).sum();
    let named = topics.iter().flat_map(|topic| {
        let partitions = topic.partitions.iter();
        partitions.map(move |wanted| (&topic.name, wanted.partition_index))
    });
    let mut places = BTreeMap::new();
    let mut twice = vec![false; count];
    for (place, named) in named.enumerate() {
        let first = *places.entry(named).or_insert(place);
        if first < place {
            twice[first] = true;
            twice[place] = true;
        }
    }
    twice
}

/// A partition with what is asked of it and the epoch that the client believes in.
type Question = (PartitionId, (Query, Option<Epoch>));

fn question(
    core: &Core,
    topic: &str,
    wanted: &ListOffsetsPartition,
    version: i16,
) -> Result<Question, ErrorCode> {
    let query = Query::of(wanted.timestamp, version).ok_or(ErrorCode::UnsupportedVersion)?;
    let index = wanted.partition_index;
    let partition = core.with_metadata(|metadata| match twin_named(metadata, topic) {
        Some(topic) if index == 0 => Ok(core.facts.twin_of(topic.id)),
        _ => find_partition(metadata, topic, index),
    })?;
    let epoch = (wanted.current_leader_epoch >= 0).then_some(Epoch(wanted.current_leader_epoch));
    Ok((partition, (query, epoch)))
}

fn told(
    wanted: &ListOffsetsPartition,
    version: i16,
    found: Result<Found, ErrorCode>,
) -> ListOffsetsPartitionResponse {
    let (found, code) = match found {
        Ok(found) => (found, ErrorCode::None),
        // Clients of earlier versions do not know that the offset comes (KIP-207).
        Err(ErrorCode::OffsetNotAvailable) if version < 5 => (Found::NOTHING, ErrorCode::LeaderNotAvailable),
        Err(code) => (Found::NOTHING, code),
    };
    ListOffsetsPartitionResponse {
        partition_index: wanted.partition_index,
        error_code: code.code(),
        timestamp: found.timestamp_ms,
        offset: found.offset,
        leader_epoch: found.epoch,
    }
}

/// Looks on the core that owns the partition.
async fn look(
    shard: &Rc<Shard>,
    id: PartitionId,
    query: Query,
    epoch: Option<Epoch>,
    committed_only: bool,
) -> Result<Found, ErrorCode> {
    let refused = |refusal: ReadRefusal| read_code(&refusal);
    let epoch = shard.check_epoch(id, epoch).map_err(refused)?;
    if !matches!(query, Query::Earliest | Query::Tiered) {
        shard.until_lease(id).await.map_err(led_code)?;
    }
    match query {
        Query::Latest => {
            let end = match committed_only {
                true => shard.shown_stable(id),
                false => shard.shown_tail(id),
            };
            Ok(Found::place(end.map_err(led_code)?, Some(epoch)))
        }
        Query::Earliest => shard
            .with_leader(id, |leader| {
                Found::place(leader.log_start(), leader.epochs().at(leader.log_start()))
            })
            .map_err(led_code),
        Query::Tiered => Ok(Found::NOTHING),
        Query::Newest => {
            let found = newest(shard, id).await?;
            stable_or_nothing(shard, id, found, committed_only)
        }
        Query::Since(timestamp_ms) => {
            let found = search(shard, id, timestamp_ms, Pick::First)
                .await
                .map_err(refused)?;
            stable_or_nothing(shard, id, found.unwrap_or(Found::NOTHING), committed_only)
        }
    }
}

/// The offset that was found, unless it is not stable and the client wants nothing else.
fn stable_or_nothing(
    shard: &Rc<Shard>,
    id: PartitionId,
    found: Found,
    committed_only: bool,
) -> Result<Found, ErrorCode> {
    let is_told = !committed_only || Offset(found.offset) < shard.shown_stable(id).map_err(led_code)?;
    Ok(if is_told { found } else { Found::NOTHING })
}

/// The same of a twin: what the partitions have, by its position.
async fn look_at_twin(
    core: &Rc<Core>,
    home: &Rc<Home>,
    query: Query,
    epoch: Option<Epoch>,
) -> Result<Found, ErrorCode> {
    let refused = |refusal: ReadRefusal| read_code(&refusal);
    check_epoch(epoch).map_err(refused)?;
    match query {
        Query::Latest => {
            home.until_lease().await.map_err(led_code)?;
            Ok(Found::place(home.tail(), Some(EPOCH)))
        }
        Query::Earliest => {
            let first = home.earliest(core).await;
            let first = first.map_err(|unfound| read_code(&unfound.into()))?;
            Ok(Found::place(Offset(first.0 as i64), Some(EPOCH)))
        }
        Query::Tiered => Ok(Found::NOTHING),
        Query::Newest | Query::Since(_) => {
            let found = positions_of(core, home, query).await?.into_iter();
            let found = match query {
                Query::Newest => found.max_by_key(|found| (found.timestamp_ms, found.offset)),
                _ => found.min_by_key(|found| found.offset),
            };
            Ok(found.unwrap_or(Found::NOTHING))
        }
    }
}

/// Asks all partitions of a twin, and gives what they have at its position.
async fn positions_of(core: &Rc<Core>, home: &Rc<Home>, query: Query) -> Result<Vec<Found>, ErrorCode> {
    let topic = home.topic();
    let count = core.with_metadata(|metadata| metadata.topic(topic).map_or(0, Topic::partition_count));
    let questions = (0..count).map(|index| Ok((PartitionId { topic, index }, ())));
    let work = move |shard: Rc<Shard>, id, ()| async move { look(&shard, id, query, None, false).await };
    let answers = ask_owners(core, &None, questions, work).await;
    let mut found = Vec::new();
    for (index, answer) in (0..).zip(answers) {
        let answer = answer?;
        if answer.offset >= 0 {
            let position = home.position_of(core, (index, Offset(answer.offset))).await;
            let position = position.map_err(|unfound| read_code(&unfound.into()))?;
            found.push(Found {
                offset: position.0 as i64,
                epoch: EPOCH.0,
                ..answer
            });
        }
    }
    Ok(found)
}

/// The record with the greatest timestamp. By the batches' word: a batch whose header promises a greater timestamp than
/// its records have hides the others, and so does a batch below the log start whose segment is still there.
async fn newest(shard: &Rc<Shard>, id: PartitionId) -> Result<Found, ErrorCode> {
    let Some(timestamp_ms) = shard.max_timestamp(id).filter(|timestamp_ms| *timestamp_ms >= 0) else {
        return Ok(Found::NOTHING);
    };
    // The store counts what is not committed yet, too. Under load there always is some: wait for it, not around it.
    let appended = shard
        .with_leader(id, |leader| leader.next_offset())
        .map_err(led_code)?;
    if tokio::time::timeout(COMMIT_PATIENCE, committed(shard, id, appended))
        .await
        .is_err()
    {
        return Err(ErrorCode::OffsetNotAvailable);
    }
    let found = search(shard, id, timestamp_ms, Pick::Newest)
        .await
        .map_err(|refusal| read_code(&refusal))?;
    Ok(found.unwrap_or(Found::NOTHING))
}

/// Returns when everything below `until` is committed, or the partition is gone.
async fn committed(shard: &Rc<Shard>, id: PartitionId, until: Offset) {
    let moved = Watcher::new(1);
    while let Ok(tail) = shard.shown_tail(id)
        && tail < until
    {
        shard.watch(&[Watch::lone(id, tail)], &moved);
        moved.woken().await;
    }
}

/// Which record of a batch is meant. They differ where all records have the time of their append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pick {
    /// The first.
    First,
    /// As Kafka's consumers expect of the newest: the last record, if the append gave all the same time.
    Newest,
}

/// The first committed record with a timestamp of at least `timestamp_ms`.
async fn search(
    shard: &Rc<Shard>,
    id: PartitionId,
    timestamp_ms: i64,
    pick: Pick,
) -> Result<Option<Found>, ReadRefusal> {
    let Some(mut from) = shard.locate_timestamp(id, timestamp_ms).await? else {
        return Ok(None);
    };
    let limits = shard.settings.batch_limits;
    loop {
        let LogBounds { log_start, tail } = LogBounds::of(shard, id)?;
        // Retention may have been faster than the search.
        from = from.max(log_start);
        if from >= tail {
            return Ok(None);
        }
        let batches = match shard.read_batches(id, from, tail, SEARCH_BYTES).await {
            Err(ReadRefusal::OutOfRange { log_start, .. }) if from < log_start => continue,
            batches => batches?,
        };
        let sift = move || sift(&batches, from, timestamp_ms, pick, &limits);
        let sifted = shard.look(sift).await;
        match sifted.map_err(|error| ReadRefusal::Fault(error.to_string()))? {
            Sifted::Found(found) => return Ok(Some(found)),
            Sifted::Next(next) if next > from => from = next,
            Sifted::Next(_) => {
                return Err(ReadRefusal::Fault(format!(
                    "nothing can be read at offset {from}"
                )));
            }
        }
    }
}

/// The offset of the first committed record with a timestamp of at least `timestamp_ms`; `None` if there is none.
pub(crate) async fn offset_since(
    shard: &Rc<Shard>,
    id: PartitionId,
    timestamp_ms: i64,
) -> Result<Option<Offset>, ReadRefusal> {
    let found = search(shard, id, timestamp_ms, Pick::First).await?;
    Ok(found.map(|found| Offset(found.offset)))
}

/// The outcome of looking through some batches.
enum Sifted {
    Found(Found),
    /// Nothing, up to here.
    Next(Offset),
}

/// Looks through batches for a record at `from` or later.
fn sift(
    batches: &[Bytes],
    from: Offset,
    timestamp_ms: i64,
    pick: Pick,
    limits: &Limits,
) -> Result<Sifted, BatchError> {
    let mut next = from;
    for batch in batches.iter().flat_map(|batches| record::batches(batches)) {
        let (header, batch) = batch?;
        next = header.next_offset();
        if header.max_timestamp_ms < timestamp_ms || next <= from {
            continue;
        }
        if let Some((offset, timestamp_ms)) = find_in_batch(&header, batch, from, timestamp_ms, pick, limits)?
        {
            let found = Found {
                offset: offset.0,
                timestamp_ms,
                epoch: header.leader_epoch.0,
            };
            return Ok(Sifted::Found(found));
        }
    }
    Ok(Sifted::Next(next))
}

fn find_in_batch(
    header: &BatchHeader,
    batch: &[u8],
    from: Offset,
    timestamp_ms: i64,
    pick: Pick,
    limits: &Limits,
) -> Result<Option<(Offset, i64)>, BatchError> {
    if pick == Pick::Newest && header.attributes.timestamp_type() == TimestampType::LogAppendTime {
        // Compaction leaves the batch its last offset, and perhaps not the record that was there.
        let is_whole = header.record_count == header.last_offset_delta.saturating_add(1);
        let last = match is_whole {
            true => Some(header.last_offset()),
            false => last_record(batch, limits)?,
        };
        return Ok(last.map(|offset| (offset, header.max_timestamp_ms)));
    }
    let found = record::find_timestamp(batch, timestamp_ms, limits)?;
    match found {
        Some((offset, _)) if offset < from => {}
        found => return Ok(found),
    }
    // The log starts inside of this batch, and the record lies before.
    for record in record::records(batch, limits)? {
        let record = record?;
        if record.offset >= from && record.timestamp_ms >= timestamp_ms {
            return Ok(Some((record.offset, record.timestamp_ms)));
        }
    }
    Ok(None)
}

fn last_record(batch: &[u8], limits: &Limits) -> Result<Option<Offset>, BatchError> {
    let mut last = None;
    record::visit_keys(batch, limits, |record| {
        last = Some(record.offset);
        ControlFlow::Continue(())
    })?;
    Ok(last)
}

#[cfg(test)]
mod tests;
