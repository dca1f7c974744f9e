//! Questions about a partition's offsets, giving up its oldest records, and identities for idempotent producers.

use std::collections::{BTreeMap, HashMap};

use kafka_wire::delete_records::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_wire::list_offsets::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_wire::{
    DeleteRecordsRequest, InitProducerIdRequest, ListOffsetsRequest, ListOffsetsResponse, Text,
};
use record::Offset;

use crate::cluster::{Cluster, TopicMetadata};
use crate::connection::Connection;
use crate::error::{ClientError, Result};
use crate::isolation::Isolation;

/// Which offset of a partition is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetQuery {
    /// The first that is still there.
    Earliest,
    /// The one after the last that readers see, transactions that are open among them.
    Latest,
    /// The first of the first open transaction: where readers of committed records end. As `Latest` if none is open.
    LatestCommitted,
    /// The first whose record is not older than this many milliseconds since 1970.
    Timestamp(i64),
}

impl OffsetQuery {
    /// The number that stands for it on the wire.
    fn timestamp(self) -> i64 {
        match self {
            OffsetQuery::Earliest => -2,
            OffsetQuery::Latest | OffsetQuery::LatestCommitted => -1,
            OffsetQuery::Timestamp(ms) => ms,
        }
    }

    fn isolation(self) -> Isolation {
        match self {
            OffsetQuery::LatestCommitted => Isolation::Committed,
            _ => Isolation::Uncommitted,
        }
    }
}

/// Asks a partition's leader for one of its offsets; `None` if no record is as young as the timestamp.
pub(crate) fn offset_at(
    connection: &mut Connection,
    topic: &str,
    partition: i32,
    query: OffsetQuery,
) -> Result<Option<Offset>> {
    let found = offsets_at(topic, &[partition], query, |request| connection.call(request))?;
    Ok(found[0].1)
}

/// The same of several partitions of one leader, which `call` asks; each with its offset.
fn offsets_at(
    topic: &str,
    partitions: &[i32],
    query: OffsetQuery,
    call: impl FnOnce(&ListOffsetsRequest) -> Result<ListOffsetsResponse>,
) -> Result<Vec<(i32, Option<Offset>)>> {
    let operation =
        |partition| format!("asking for the {query:?} offset of partition {partition} of topic {topic}");
    let asked = |partition: &i32| ListOffsetsPartition {
        partition_index: *partition,
        timestamp: query.timestamp(),
        ..ListOffsetsPartition::default()
    };
    let request = ListOffsetsRequest {
        replica_id: -1,
        isolation_level: query.isolation().level(),
        topics: vec![ListOffsetsTopic {
            name: Text::from(topic),
            partitions: partitions.iter().map(asked).collect(),
        }],
        ..ListOffsetsRequest::default()
    };
    let response = call(&request)?;
    let answers = response.topics.iter().flat_map(|topic| &topic.partitions);
    let answers: HashMap<i32, _> = answers.map(|answer| (answer.partition_index, answer)).collect();
    let offset = |partition: &i32| match answers.get(partition) {
        Some(answer) if answer.error_code == 0 => {
            Ok((*partition, (answer.offset >= 0).then_some(Offset(answer.offset))))
        }
        Some(answer) => Err(ClientError::broker(
            operation(*partition),
            answer.error_code,
            None,
        )),
        None => Err(ClientError::NotAnswered {
            operation: operation(*partition),
        }),
    };
    partitions.iter().map(offset).collect()
}

impl Cluster {
    /// One of a partition's offsets; `None` if no record is as young as the timestamp.
    ///
    /// # Errors
    /// As `leader`, and `Broker`.
    pub fn offset(&mut self, topic: &str, partition: i32, query: OffsetQuery) -> Result<Option<Offset>> {
        let (mut connection, _) = self.connect_leader(topic, partition)?;
        offset_at(&mut connection, topic, partition, query)
    }

    /// One of the offsets of each of a topic's partitions, by ascending partition: one question to each leader.
    ///
    /// # Errors
    /// `NoLeader`, `Broker`, and what a connection meets.
    pub fn offsets(
        &mut self,
        topic: &TopicMetadata,
        query: OffsetQuery,
    ) -> Result<Vec<(i32, Option<Offset>)>> {
        let mut offsets = BTreeMap::new();
        for (broker, partitions) in self.by_leader(topic)? {
            offsets.extend(offsets_at(&topic.name, &partitions, query, |request| {
                self.ask_at(&broker.address, |connection| connection.call(request))
            })?);
        }
        Ok(offsets.into_iter().collect())
    }

    /// The same of those partitions alone whose leaders are up.
    ///
    /// # Errors
    /// `Broker`, and what a connection meets.
    pub fn offsets_of_led(
        &mut self,
        topic: &TopicMetadata,
        query: OffsetQuery,
    ) -> Result<Vec<(i32, Option<Offset>)>> {
        let mut led = topic.clone();
        led.partitions
            .retain(|partition| self.broker_of(partition).is_some());
        self.offsets(&led, query)
    }

    /// Trims a partition: gives up its records before `offset`. Gives the first offset that is then left.
    ///
    /// # Errors
    /// `Broker`, with `OffsetOutOfRange` if the partition does not reach to `offset`.
    pub fn delete_records(&mut self, topic: &str, partition: i32, offset: Offset) -> Result<Offset> {
        let operation = || format!("trimming partition {partition} of topic {topic} to offset {offset}");
        let request = DeleteRecordsRequest {
            topics: vec![DeleteRecordsTopic {
                name: Text::from(topic),
                partitions: vec![DeleteRecordsPartition {
                    partition_index: partition,
                    offset: offset.0,
                }],
            }],
            timeout_ms: self.timeout_ms(),
        };
        let (mut connection, _) = self.connect_leader(topic, partition)?;
        let response = connection.call(&request)?;
        let answer = response.topics.first().and_then(|topic| topic.partitions.first());
        match answer {
            Some(answer) if answer.error_code == 0 => Ok(Offset(answer.low_watermark)),
            Some(answer) => Err(ClientError::broker(operation(), answer.error_code, None)),
            None => Err(ClientError::NotAnswered {
                operation: operation(),
            }),
        }
    }

    /// A new producer id and its epoch, for one idempotent producer. Asked for again while the broker is not ready to give
    /// one: Kafka's first has to load its coordinator.
    ///
    /// # Errors
    /// `Broker`.
    pub fn init_producer_id(&mut self) -> Result<(i64, i16)> {
        let request = InitProducerIdRequest {
            transactional_id: None,
            transaction_timeout_ms: 60_000,
            ..InitProducerIdRequest::default()
        };
        let patience = self.options().request_timeout;
        self.retry(patience, |cluster| {
            let response = cluster.call(&request)?;
            match response.error_code {
                0 => Ok((response.producer_id, response.producer_epoch)),
                code => Err(ClientError::broker("asking for a producer id", code, None)),
            }
        })
    }
}
