//! Single requests of clients to one node, and what their answers show.

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;
use kafka_wire::create_topics::{CreatableTopic, CreatableTopicConfig};
use kafka_wire::delete_records::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_wire::fetch::{FetchPartition, FetchTopic};
use kafka_wire::produce::{PartitionProduceData, PartitionProduceResponse, TopicProduceData};
use kafka_wire::{
    CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest, ErrorCode, FetchRequest, MetadataRequest,
    ProduceRequest, Text,
};
use record::{BatchBuilder, Compression, Limits};
use tokio::time::Instant;

use super::{Fate, PARTITIONS, Shared};
use crate::client::Client;

/// The leaders of all topics' partitions, as a node knows them.
pub(super) async fn topics(shared: &Shared, node: usize) -> io::Result<BTreeMap<String, Vec<usize>>> {
    let mut client = Client::connect(&shared.net, shared.nodes[node]).await?;
    let all = MetadataRequest {
        topics: None,
        ..MetadataRequest::default()
    };
    let answer = client.call(&all).await?;
    let of_topic = |topic: kafka_wire::metadata::MetadataResponseTopic| {
        let mut partitions = topic.partitions;
        partitions.sort_by_key(|partition| partition.partition_index);
        let leaders = partitions.iter().map(|partition| place_of(partition.leader_id));
        (topic.name.unwrap_or_default().to_string(), leaders.collect())
    };
    Ok(answer.topics.into_iter().map(of_topic).collect())
}

pub(super) fn place_of(node: i32) -> usize {
    usize::try_from(node - 1).expect("nodes count up from one")
}

/// Where a value is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// At the leader of the partition: tails that a node shows so never move back.
    Leader,
    /// At any replica: it may know of less than it knew before it started anew.
    Replica,
}

/// The value at an offset of a partition, as a node shows it.
pub(super) async fn read(
    shared: &Shared,
    node: usize,
    topic: &str,
    index: i32,
    offset: i64,
    at: At,
) -> io::Result<Option<String>> {
    let mut client = Client::connect(&shared.net, shared.nodes[node]).await?;
    let request = FetchRequest {
        max_wait_ms: 100,
        max_bytes: 1 << 20,
        // A rack without nodes: whoever says one may read anywhere.
        rack_id: Text::from(if at == At::Replica { "elsewhere" } else { "" }),
        topics: vec![FetchTopic {
            topic: Text::from(topic),
            partitions: vec![FetchPartition {
                partition: index,
                current_leader_epoch: -1,
                fetch_offset: offset,
                partition_max_bytes: 64 << 10,
                ..FetchPartition::default()
            }],
            ..FetchTopic::default()
        }],
        ..FetchRequest::default()
    };
    let answer = client.call(&request).await?;
    let data = &answer.responses[0].partitions[0];
    if data.error_code == 0 && at == At::Leader {
        let mut tails = shared.tails.borrow_mut();
        let shown = tails.entry((node, topic.to_owned(), index)).or_default();
        if data.high_watermark < *shown {
            shared.violate(format!(
                "node {node} shows {topic}-{index} up to {}, and has shown it up to {shown}",
                data.high_watermark
            ));
        }
        *shown = data.high_watermark.max(*shown);
    }
    match ErrorCode::from_code(data.error_code) {
        Some(ErrorCode::None) => {}
        Some(ErrorCode::OffsetOutOfRange | ErrorCode::UnknownTopicOrPartition) => return Ok(None),
        code => return Err(io::Error::other(format!("{code:?}"))),
    }
    // A leader that has just begun does not know yet how far its log is committed.
    if data.high_watermark <= offset {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let bytes = data.records.chunks.concat();
    let bytes = Bytes::from(bytes);
    for batch in record::batches(&bytes).map_while(Result::ok) {
        for record in record::records(batch.1, &Limits::default()).expect("batches are sound") {
            let record = record.expect("records are sound");
            if record.offset.0 == offset {
                let value = record.value.unwrap_or_default();
                return Ok(Some(String::from_utf8_lossy(&value).into_owned()));
            }
        }
    }
    Ok(None)
}

/// The configs of compacted topics: of a few records there are segments to compact, soon.
const COMPACTED: [(&str, &str); 3] = [
    ("cleanup.policy", "compact,delete"),
    ("max.compaction.lag.ms", "400"),
    ("min.cleanable.dirty.ratio", "0"),
];
/// The config of topics that have one order.
const ORDERED: [(&str, &str); 1] = [("ropewalk.order", "total")];
/// Names of compacted topics begin with this.
pub(super) const TABLE: &str = "table";

/// Says whether a topic is compacted, by its name.
pub(super) fn is_table(name: &str) -> bool {
    name.starts_with(TABLE)
}

/// A batch of records. In a compacted topic each is the only one of its key, and stays.
pub(super) fn batch_of(topic: &str, values: &[&str]) -> Bytes {
    batch_by(None, topic, values)
}

/// The same, the first of a producer.
pub(super) fn batch_by(producer: Option<i64>, topic: &str, values: &[&str]) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None);
    if let Some(id) = producer {
        builder.set_producer(id, 0, 0);
    }
    for value in values {
        let key = is_table(topic).then_some(value.as_bytes());
        builder.append(0, key, Some(value.as_bytes()), &[]);
    }
    builder.build()
}

/// Says whether the topic is there now.
pub(super) async fn create(
    shared: &Shared,
    node: usize,
    name: &str,
    replicas: i16,
    insync_min: u32,
) -> io::Result<bool> {
    let mut client = Client::connect(&shared.net, shared.nodes[node]).await?;
    let config = |name: &str, value: &str| CreatableTopicConfig {
        name: Text::from(name),
        value: Some(Text::from(value)),
    };
    let compacted: &[_] = if is_table(name) { &COMPACTED } else { &[] };
    // Every other topic, and the same ones again however often they are made.
    let sum = name.bytes().map(u32::from).sum::<u32>();
    let is_chain = sum % 2 == 1;
    let is_ordered = shared.has_orders && !sum.is_multiple_of(5);
    let ordered: &[_] = if is_ordered { &ORDERED } else { &[] };
    if is_ordered {
        shared.orders.borrow_mut().entry(name.to_owned()).or_default();
    }
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: Text::from(name),
            num_partitions: PARTITIONS,
            replication_factor: replicas,
            configs: [
                config("min.insync.replicas", &insync_min.to_string()),
                config("ropewalk.replication", if is_chain { "chain" } else { "quorum" }),
            ]
            .into_iter()
            .chain(
                compacted
                    .iter()
                    .chain(ordered)
                    .map(|(name, value)| config(name, value)),
            )
            .collect(),
            ..CreatableTopic::default()
        }],
        timeout_ms: 3_000,
        ..CreateTopicsRequest::default()
    };
    shared.fates.borrow_mut().insert(name.to_owned(), Fate::Open);
    if replicas == 1 {
        shared.lone.borrow_mut().insert(name.to_owned());
    }
    if insync_min == 3 {
        shared.wide.borrow_mut().insert(name.to_owned());
    }
    let code = client.call(&request).await?.topics[0].error_code;
    let is_made = code == 0;
    if is_made {
        shared.fates.borrow_mut().insert(name.to_owned(), Fate::There);
    } else {
        shared
            .trace
            .count(format!("create: {:?}", ErrorCode::from_code(code)));
    }
    Ok(is_made)
}

pub(super) async fn delete(shared: &Shared, node: usize, name: &str) -> io::Result<bool> {
    let mut client = Client::connect(&shared.net, shared.nodes[node]).await?;
    let request = DeleteTopicsRequest {
        topic_names: vec![Text::from(name)],
        timeout_ms: 3_000,
        ..DeleteTopicsRequest::default()
    };
    shared.fates.borrow_mut().insert(name.to_owned(), Fate::Open);
    let code = client.call(&request).await?.responses[0].error_code;
    match code {
        0 => drop(shared.fates.borrow_mut().insert(name.to_owned(), Fate::Gone)),
        _ => shared
            .trace
            .count(format!("delete: {:?}", ErrorCode::from_code(code))),
    }
    Ok(false)
}

/// Asks for records before an offset to be given up. They may be, or not, whatever the answer is.
pub(super) async fn trim(
    shared: &Shared,
    node: usize,
    topic: &str,
    index: i32,
    before: i64,
) -> io::Result<()> {
    {
        let mut trims = shared.trims.borrow_mut();
        let asked = trims.entry((topic.to_owned(), index)).or_default();
        *asked = before.max(*asked);
    }
    let mut client = Client::connect(&shared.net, shared.nodes[node]).await?;
    let request = DeleteRecordsRequest {
        topics: vec![DeleteRecordsTopic {
            name: Text::from(topic),
            partitions: vec![DeleteRecordsPartition {
                partition_index: index,
                offset: before,
            }],
        }],
        timeout_ms: 3_000,
    };
    let answer = client.call(&request).await?;
    let code = answer.topics[0].partitions[0].error_code;
    shared
        .trace
        .count(format!("trim: {:?}", ErrorCode::from_code(code)));
    Ok(())
}

pub(super) async fn append(
    shared: &Shared,
    node: usize,
    topic: &str,
    index: i32,
    batch: Bytes,
) -> io::Result<Option<i64>> {
    let began = Instant::now();
    let told = produce(shared, node, (topic, index), batch, ANY_TAIL).await?;
    if told.error_code != 0 {
        shared
            .trace
            .count(format!("append: {:?}", ErrorCode::from_code(told.error_code)));
        return Ok(None);
    }
    shared.note_acknowledged(topic, index, told.base_offset, began);
    Ok(Some(told.base_offset))
}

/// Of an append that does not depend on the tail.
const ANY_TAIL: i64 = -1;

/// Sends a batch to a partition, or to a twin, and returns what is answered.
pub(super) async fn produce(
    shared: &Shared,
    node: usize,
    (topic, index): (&str, i32),
    batch: Bytes,
    if_tail: i64,
) -> io::Result<PartitionProduceResponse> {
    let mut client = Client::connect(&shared.net, shared.nodes[node]).await?;
    let request = ProduceRequest {
        acks: -1,
        timeout_ms: 3_000,
        topic_data: vec![TopicProduceData {
            name: Text::from(topic),
            partition_data: vec![PartitionProduceData {
                index,
                records: Some(batch),
                if_tail,
            }],
            ..TopicProduceData::default()
        }],
        ..ProduceRequest::default()
    };
    let mut answer = client.call(&request).await?;
    Ok(answer.responses[0].partition_responses.remove(0))
}
