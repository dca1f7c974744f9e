//! Requests about one topic, to be sent as they are or with a change.

use bytes::Bytes;
use kafka_wire::create_topics::CreatableTopic;
use kafka_wire::fetch::{FetchPartition, FetchRequest, FetchTopic};
use kafka_wire::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};

/// A topic to be made, with whatever is usual.
pub(crate) fn creatable(name: &str, partitions: i32) -> CreatableTopic {
    CreatableTopic {
        name: name.into(),
        num_partitions: partitions,
        replication_factor: -1,
        ..CreatableTopic::default()
    }
}

/// A Produce of one batch.
pub(crate) fn produce_request(topic: &str, index: i32, batch: Bytes, acks: i16) -> ProduceRequest {
    let partition = PartitionProduceData {
        index,
        records: Some(batch),
        ..PartitionProduceData::default()
    };
    let topic = TopicProduceData {
        name: topic.into(),
        partition_data: vec![partition],
        ..TopicProduceData::default()
    };
    ProduceRequest {
        transactional_id: None,
        acks,
        timeout_ms: 30_000,
        topic_data: vec![topic],
    }
}

/// A Fetch of one partition that waits for nothing.
pub(crate) fn fetch_request(topic: &str, index: i32, from: i64) -> FetchRequest {
    let partition = FetchPartition {
        partition: index,
        fetch_offset: from,
        partition_max_bytes: 1 << 20,
        ..FetchPartition::default()
    };
    let topic = FetchTopic {
        topic: topic.into(),
        partitions: vec![partition],
        ..FetchTopic::default()
    };
    FetchRequest {
        max_bytes: 8 << 20,
        session_epoch: -1,
        topics: vec![topic],
        ..FetchRequest::default()
    }
}
