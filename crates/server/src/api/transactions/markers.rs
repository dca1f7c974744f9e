//! WriteTxnMarkers: ends transactions in partitions that this node leads, for a coordinator elsewhere and for `kafka-transactions abort`.

use std::rc::Rc;

use futures_util::{StreamExt, stream};
use kafka_wire::write_txn_markers::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use kafka_wire::{ErrorCode, WriteTxnMarkersRequest, WriteTxnMarkersResponse};
use protocol::ProducerId;
use record::PartitionId;

use super::super::Envelope;
use crate::core::Core;
use crate::owner::find_partition;
use crate::transactions::EndOf;

/// Partitions that one request may name.
const PARTITIONS_MAX: usize = 100_000;
/// Those that are written to side by side.
const AT_ONCE: usize = 256;

pub(in crate::api) async fn write_txn_markers(
    core: Rc<Core>,
    request: WriteTxnMarkersRequest,
    _envelope: Envelope,
) -> WriteTxnMarkersResponse {
    write_markers(&core, request).await
}

/// The same for another node.
pub(crate) async fn write_markers(
    core: &Rc<Core>,
    request: WriteTxnMarkersRequest,
) -> WriteTxnMarkersResponse {
    let named = request.markers.iter().flat_map(|marker| &marker.topics);
    let count: usize = named.map(|topic| topic.partition_indexes.len()).sum();
    let is_too_long = count > PARTITIONS_MAX;
    let mut results = Vec::with_capacity(request.markers.len());
    for marker in request.markers {
        let end = EndOf {
            producer: ProducerId(marker.producer_id),
            producer_epoch: marker.producer_epoch,
            coordinator_epoch: marker.coordinator_epoch,
            commit: marker.transaction_result,
            version: u8::try_from(marker.transaction_version).unwrap_or(0),
        };
        let mut topics = Vec::with_capacity(marker.topics.len());
        for topic in marker.topics {
            let ends = topic.partition_indexes.iter().map(|index| async {
                match is_too_long {
                    true => told(*index, ErrorCode::InvalidRequest),
                    false => end_one(core, &topic.name, *index, end).await,
                }
            });
            topics.push(WritableTxnMarkerTopicResult {
                partitions: stream::iter(ends).buffered(AT_ONCE).collect().await,
                name: topic.name,
            });
        }
        results.push(WritableTxnMarkerResult {
            producer_id: marker.producer_id,
            topics,
        });
    }
    WriteTxnMarkersResponse { markers: results }
}

async fn end_one(core: &Rc<Core>, topic: &str, index: i32, end: EndOf) -> WritableTxnMarkerPartitionResult {
    let is_possible = end.producer.0 >= 0 && end.producer_epoch >= 0 && end.coordinator_epoch >= 0;
    let code = match find(core, topic, index) {
        _ if !is_possible => ErrorCode::InvalidRequest,
        Ok(partition) => core.end_here(partition, end).await,
        Err(code) => code,
    };
    told(index, code)
}

fn told(partition_index: i32, code: ErrorCode) -> WritableTxnMarkerPartitionResult {
    WritableTxnMarkerPartitionResult {
        partition_index,
        error_code: code.code(),
    }
}

/// A partition that this node leads.
fn find(core: &Core, topic: &str, index: i32) -> Result<PartitionId, ErrorCode> {
    let partition = core.with_metadata(|metadata| find_partition(metadata, topic, index))?;
    match core.leader_of(partition) == Some(core.facts.node) {
        true => Ok(partition),
        false => Err(ErrorCode::NotLeaderOrFollower),
    }
}
