//! The order of topics in a cluster: clients read it by the twins' names, from anywhere on, while faults go on.
//!
//! A position has one record for ever; offsets of a partition rise with positions; what was acknowledged before another append began has the lower one; a topic
//! of which nothing was given up has no holes; and what was appended for one position is there or nowhere.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use bytes::Bytes;
use kafka_wire::fetch::{FetchPartition, FetchTopic};
use kafka_wire::list_offsets::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_wire::metadata::MetadataRequestTopic;
use kafka_wire::{ErrorCode, FetchRequest, ListOffsetsRequest, MetadataRequest, Text};
use platform::random::SeededRandom;
use protocol::order::TWIN_SUFFIX;
use record::Limits;
use tokio::time::{Instant, sleep, timeout};

use super::requests::{batch_by, is_table, place_of, produce};
use super::{Fate, REST, Shared, sequenced};
use crate::client::Client;

/// Another topic is read then.
const PATIENCE: Duration = Duration::from_secs(2);
const EARLIEST: i64 = -2;
const LATEST: i64 = -1;

/// The order of a topic, as it was shown.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The record at each position that was read.
    shown: BTreeMap<i64, String>,
    /// The end of what was shown.
    end: i64,
    acknowledged: Vec<Acknowledged>,
    /// Values that were refused for their position.
    refused: BTreeSet<String>,
    /// Appends that were for a position.
    claims: u64,
}

/// A batch that was acknowledged.
#[derive(Debug, Clone, Copy)]
struct Acknowledged {
    index: i32,
    first: i64,
    began: Instant,
    ended: Instant,
}

impl Shared {
    /// Takes note of a batch that was acknowledged just now.
    pub(super) fn note_acknowledged(&self, topic: &str, index: i32, first: i64, began: Instant) {
        if let Some(order) = self.orders.borrow_mut().get_mut(topic) {
            order.acknowledged.push(Acknowledged {
                index,
                first,
                began,
                ended: Instant::now(),
            });
        }
    }

    fn note_shown(&self, topic: &str, shown: Vec<(i64, String)>, node: usize) {
        let mut orders = self.orders.borrow_mut();
        let order = orders.get_mut(topic).expect("it was made so");
        for (position, value) in shown {
            let known = order.shown.entry(position).or_insert_with(|| value.clone());
            if *known != value {
                self.violate(format!(
                    "position {position} of {topic} was shown as {known}, and node {node} shows {value}"
                ));
            }
            order.end = order.end.max(position + 1);
            let wanted = wanted_of(&value);
            if wanted.is_some_and(|wanted| wanted != position) || order.refused.contains(&value) {
                self.violate(format!("{topic} has {value:?} at position {position}"));
            }
        }
    }
}

/// Reads topics in their order, until the world ends.
pub(super) async fn follow(shared: Shared, mut random: SeededRandom) {
    while !shared.ends.get() {
        sleep(REST).await;
        let chosen = {
            let orders = shared.orders.borrow();
            let count = orders.len().max(1) as u64;
            let order = orders.iter().nth(random.below(count) as usize);
            order.map(|(topic, order)| (topic.clone(), order.end))
        };
        let Some((topic, end)) = chosen else { continue };
        let node = random.below(shared.nodes.len() as u64) as usize;
        let from = match random.below(3) {
            0 => random.below(end as u64 + 1) as i64,
            _ => end,
        };
        let (is_for_position, is_at_end) = (random.below(4) == 0, random.below(4) > 0);
        let read = async {
            let Some(leader) = keeper(&shared, node, &topic).await? else {
                return Ok(None);
            };
            // Nobody else writes to that one.
            if is_for_position && topic != sequenced::TOPIC {
                let tail = if is_at_end {
                    latest(&shared, leader, &topic).await?
                } else {
                    end
                };
                claim(&shared, leader, &topic, tail, &mut random).await?;
            }
            if random.below(3) == 0 {
                latest(&shared, leader, &topic).await?;
            }
            read(&shared, leader, &topic, from).await
        };
        let outcome = match timeout(PATIENCE, read).await {
            Ok(Ok(Some(read))) if read.records > 0 => "twin: read".to_owned(),
            Ok(Ok(Some(_))) => "twin: nothing yet".to_owned(),
            Ok(Ok(None)) => "twin: not there".to_owned(),
            Ok(Err(error)) => format!("twin: {error}"),
            Err(_) => "twin: nothing is answered".to_owned(),
        };
        shared.trace.count(outcome);
    }
}

const FOR: &str = "only at ";

/// The position that a value was appended for.
fn wanted_of(value: &str) -> Option<i64> {
    value.strip_prefix(FOR)?.split_once(' ')?.0.parse().ok()
}

/// Appends to the twin if the tail is this one, and sends the same batch again where it is not known what became of it, or to see that it is told alike.
async fn claim(
    shared: &Shared,
    node: usize,
    topic: &str,
    tail: i64,
    random: &mut SeededRandom,
) -> io::Result<()> {
    let number = {
        let mut orders = shared.orders.borrow_mut();
        let Some(order) = orders.get_mut(topic) else {
            return Ok(());
        };
        order.claims += 1;
        order.claims
    };
    let value = format!("{FOR}{tail} of {topic}, {number}");
    let producer = match random.below(2) {
        0 => sequenced::producer_id(shared, node).await?,
        _ => None,
    };
    let batch = batch_by(producer, topic, &[&value]);
    let times = if producer.is_some() {
        1 + random.below(3)
    } else {
        1
    };
    for _ in 0..times {
        let told = produce(shared, node, (&twin(topic), 0), batch.clone(), tail).await?;
        let code = ErrorCode::from_code(told.error_code);
        shared.trace.count(format!("claim: {code:?}"));
        match code {
            Some(ErrorCode::None) if told.base_offset != tail => shared.violate(format!(
                "node {node} has appended {value:?}, and tells position {}",
                told.base_offset
            )),
            Some(ErrorCode::None) => shared.note_shown(topic, vec![(tail, value.clone())], node),
            Some(ErrorCode::InvalidRecord) => {
                let mut orders = shared.orders.borrow_mut();
                if let Some(order) = orders.get_mut(topic) {
                    if order.shown.get(&tail) == Some(&value) {
                        shared.violate(format!("{value:?} was shown, and node {node} refuses it"));
                    }
                    order.refused.insert(value);
                }
                return Ok(());
            }
            _ => {}
        }
    }
    Ok(())
}

/// The node that keeps a topic's order, as another one knows it.
async fn keeper(shared: &Shared, node: usize, topic: &str) -> io::Result<Option<usize>> {
    let mut client = Client::connect(&shared.net, shared.nodes[node]).await?;
    let request = MetadataRequest {
        topics: Some(vec![MetadataRequestTopic {
            name: Some(twin(topic)),
            ..MetadataRequestTopic::default()
        }]),
        ..MetadataRequest::default()
    };
    let answer = client.call(&request).await?;
    let leader = answer.topics[0].partitions.first();
    Ok(leader.map(|partition| place_of(partition.leader_id)))
}

fn twin(topic: &str) -> Text {
    Text::from(format!("{topic}{TWIN_SUFFIX}"))
}

/// Something that was read of an order.
struct Read {
    records: usize,
    /// The position behind it.
    next: i64,
    tail: i64,
}

async fn read(shared: &Shared, node: usize, topic: &str, from: i64) -> io::Result<Option<Read>> {
    let mut client = Client::connect(&shared.net, shared.nodes[node]).await?;
    let request = FetchRequest {
        max_wait_ms: 200,
        max_bytes: 1 << 20,
        topics: vec![FetchTopic {
            topic: twin(topic),
            partitions: vec![FetchPartition {
                partition: 0,
                current_leader_epoch: -1,
                fetch_offset: from,
                partition_max_bytes: 64 << 10,
                ..FetchPartition::default()
            }],
            ..FetchTopic::default()
        }],
        ..FetchRequest::default()
    };
    let answer = client.call(&request).await?;
    let data = &answer.responses[0].partitions[0];
    match ErrorCode::from_code(data.error_code) {
        Some(ErrorCode::None) => {}
        code => return Err(io::Error::other(format!("{code:?}"))),
    }
    let bytes = Bytes::from(data.records.chunks.concat());
    let mut shown = Vec::new();
    let mut next = from;
    for batch in record::batches(&bytes).map_while(Result::ok) {
        next = batch.0.next_offset().0;
        for record in record::records(batch.1, &Limits::default()).expect("batches are sound") {
            let record = record.expect("records are sound");
            let value = record.value.unwrap_or_default();
            shown.push((record.offset.0, String::from_utf8_lossy(&value).into_owned()));
        }
    }
    if !shown.is_sorted_by(|one, two| one.0 < two.0) {
        shared.violate(format!(
            "node {node} shows {topic} from {from} on out of its order"
        ));
    }
    let records = shown.len();
    shared.note_shown(topic, shown, node);
    Ok(Some(Read {
        records,
        next,
        tail: data.high_watermark,
    }))
}

/// Asks for the end of an order: it is no less than what was shown before.
async fn latest(shared: &Shared, node: usize, topic: &str) -> io::Result<i64> {
    let shown = shared.orders.borrow()[topic].end;
    let told = place(shared, node, topic, LATEST).await?;
    if told < shown {
        shared.violate(format!(
            "node {node} tells that the order of {topic} ends at {told}, and all below {shown} was shown"
        ));
    }
    Ok(told)
}

async fn place(shared: &Shared, node: usize, topic: &str, timestamp: i64) -> io::Result<i64> {
    let mut client = Client::connect(&shared.net, shared.nodes[node]).await?;
    let request = ListOffsetsRequest {
        topics: vec![ListOffsetsTopic {
            name: twin(topic),
            partitions: vec![ListOffsetsPartition {
                partition_index: 0,
                current_leader_epoch: -1,
                timestamp,
            }],
        }],
        ..ListOffsetsRequest::default()
    };
    let answer = client.call(&request).await?;
    let told = &answer.topics[0].partitions[0];
    match ErrorCode::from_code(told.error_code) {
        Some(ErrorCode::None) => Ok(told.offset),
        code => Err(io::Error::other(format!("{code:?}"))),
    }
}

/// Once nothing fails any more: reads each order whole, and holds what was acknowledged against it.
pub(super) async fn check(shared: &Shared) {
    let topics: Vec<String> = shared.orders.borrow().keys().cloned().collect();
    for topic in topics {
        // A deletion that nobody waits for any more may come yet.
        if shared.fates.borrow().get(&topic) != Some(&Fate::There) {
            continue;
        }
        let tail = loop {
            match timeout(PATIENCE, read_whole(shared, &topic)).await {
                Ok(Ok(Some(tail))) => break tail,
                Ok(Ok(None)) => {}
                Ok(Err(error)) => {
                    let awaited = shared.awaited.borrow().clone();
                    shared.trace.note(format_args!("{awaited}: {error}"));
                }
                // It has come as far as is awaited.
                Err(_) => {}
            }
            sleep(REST).await;
        };
        if let Some(violation) = violation(shared, &topic, tail) {
            shared.violate(violation);
        }
    }
}

/// Reads all of an order. Returns its end.
async fn read_whole(shared: &Shared, topic: &str) -> io::Result<Option<i64>> {
    let Some(node) = keeper(shared, 0, topic).await? else {
        return Ok(None);
    };
    let awaited = |what: String| {
        *shared.awaited.borrow_mut() = format!("node {node} tells the order of {topic} {what}")
    };
    awaited("not at all".to_owned());
    let tail = latest(shared, node, topic).await?;
    let mut from = place(shared, node, topic, EARLIEST).await?;
    while from < tail {
        awaited(format!("up to {from} of {tail}"));
        let Some(read) = read(shared, node, topic, from).await? else {
            return Ok(None);
        };
        from = match read.records {
            // All behind was given up.
            0 => read.tail,
            _ => read.next,
        };
    }
    Ok(Some(tail))
}

fn violation(shared: &Shared, topic: &str, tail: i64) -> Option<String> {
    let orders = shared.orders.borrow();
    let order = &orders[topic];
    let is_trimmed = shared.trims.borrow().keys().any(|(of, _)| of == topic);
    let is_whole = !is_trimmed && !is_table(topic);
    if is_whole && order.shown.len() as i64 != tail {
        let (shown, end) = (order.shown.len(), order.end);
        return Some(format!(
            "the order of {topic} ends at {tail}, and {shown} of its positions were shown, up to {end}"
        ));
    }
    let by_value: BTreeMap<&str, i64> = order
        .shown
        .iter()
        .map(|(position, value)| (value.as_str(), *position))
        .collect();
    let records = shared.records.borrow();
    let known = records
        .range((topic.to_owned(), 0, 0)..)
        .take_while(|((of, ..), _)| of == topic);
    let mut positions = BTreeMap::new();
    for ((_, index, offset), value) in known {
        let position = by_value.get(value.as_str()).copied();
        if position.is_none() && is_whole {
            return Some(format!("{value} was acknowledged, and has no position"));
        }
        if let Some(position) = position {
            positions.insert((*index, *offset), position);
        }
    }
    let mut before: Option<((i32, i64), i64)> = None;
    for (place, position) in &positions {
        if let Some((earlier, at)) = before
            && earlier.0 == place.0
            && at >= *position
        {
            return Some(format!(
                "{topic}-{} has offset {} at position {at}, and {} at {position}",
                place.0, earlier.1, place.1
            ));
        }
        before = Some((*place, *position));
    }
    real_time(topic, order, &positions)
}

/// Two appends of which one was acknowledged before the other began, and that have their positions the other way round.
fn real_time(topic: &str, order: &Order, positions: &BTreeMap<(i32, i64), i64>) -> Option<String> {
    let mut placed: Vec<(i64, Acknowledged)> = order
        .acknowledged
        .iter()
        .filter_map(|batch| Some((*positions.get(&(batch.index, batch.first))?, *batch)))
        .collect();
    placed.sort_unstable_by_key(|(position, _)| *position);
    let mut first_ended: Option<(i64, Acknowledged)> = None;
    for (position, batch) in placed.into_iter().rev() {
        if let Some((later, ended)) = first_ended
            && ended.ended < batch.began
        {
            return Some(format!(
                "{topic}-{} has offset {} at position {later}, acknowledged before offset {} of partition {} was sent, which is at {position}",
                ended.index, ended.first, batch.first, batch.index
            ));
        }
        if first_ended.is_none_or(|(_, first)| batch.ended < first.ended) {
            first_ended = Some((position, batch));
        }
    }
    None
}
