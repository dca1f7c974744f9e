//! Questions about topics that these tests ask again and again. Those about configs have a file of their own.

pub(crate) mod configs;

use kafka_wire::create_partitions::CreatePartitionsTopic;
use kafka_wire::delete_records::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_wire::list_offsets::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_wire::metadata::{MetadataRequestTopic, MetadataResponseTopic};
use kafka_wire::{
    CreatePartitionsRequest, DeleteRecordsRequest, DeleteTopicsRequest, ErrorCode, ListOffsetsRequest,
    MetadataRequest,
};

use crate::support::Wire;

// The numbers that ListOffsets takes for a timestamp.
pub(crate) const LATEST: i64 = -1;
pub(crate) const EARLIEST: i64 = -2;
pub(crate) const NEWEST: i64 = -3;

pub(crate) fn code(number: i16) -> ErrorCode {
    ErrorCode::from_code(number).expect("one of Kafka's codes")
}

/// Metadata of these topics, which come into being if they may.
pub(crate) fn named(names: &[&str]) -> MetadataRequest {
    let topic = |name: &&str| MetadataRequestTopic {
        name: Some((*name).into()),
        ..MetadataRequestTopic::default()
    };
    MetadataRequest {
        topics: Some(names.iter().map(topic).collect()),
        ..MetadataRequest::default()
    }
}

/// Metadata of one topic, as it is.
pub(crate) fn look(wire: &mut Wire, name: &str) -> MetadataResponseTopic {
    let request = MetadataRequest {
        allow_auto_topic_creation: false,
        ..named(&[name])
    };
    wire.call(12, &request).topics.remove(0)
}

/// Metadata of every topic there is.
pub(crate) fn look_at_all(wire: &mut Wire) -> Vec<MetadataResponseTopic> {
    let request = MetadataRequest {
        topics: None,
        ..MetadataRequest::default()
    };
    wire.call(12, &request).topics
}

/// So many partitions from now on.
pub(crate) fn widening(topic: &str, count: i32, timeout_ms: i32) -> CreatePartitionsRequest {
    CreatePartitionsRequest {
        topics: vec![CreatePartitionsTopic {
            name: topic.into(),
            count,
            assignments: None,
        }],
        timeout_ms,
        validate_only: false,
    }
}

pub(crate) fn deletion(topic: &str, timeout_ms: i32) -> DeleteTopicsRequest {
    DeleteTopicsRequest {
        topic_names: vec![topic.into()],
        timeout_ms,
        ..DeleteTopicsRequest::default()
    }
}

/// Partitions, and where each is to begin.
pub(crate) fn trim(topic: &str, partitions: &[(i32, i64)], timeout_ms: i32) -> DeleteRecordsRequest {
    let partition = |(partition_index, offset): &(i32, i64)| DeleteRecordsPartition {
        partition_index: *partition_index,
        offset: *offset,
    };
    DeleteRecordsRequest {
        topics: vec![DeleteRecordsTopic {
            name: topic.into(),
            partitions: partitions.iter().map(partition).collect(),
        }],
        timeout_ms,
    }
}

/// Partitions, the leader epoch that the client knows of, and the time that is looked for.
pub(crate) fn list_offsets(topic: &str, partitions: &[(i32, i32, i64)]) -> ListOffsetsRequest {
    let partition =
        |(partition_index, current_leader_epoch, timestamp): &(i32, i32, i64)| ListOffsetsPartition {
            partition_index: *partition_index,
            current_leader_epoch: *current_leader_epoch,
            timestamp: *timestamp,
        };
    ListOffsetsRequest {
        replica_id: -1,
        topics: vec![ListOffsetsTopic {
            name: topic.into(),
            partitions: partitions.iter().map(partition).collect(),
        }],
        ..ListOffsetsRequest::default()
    }
}
