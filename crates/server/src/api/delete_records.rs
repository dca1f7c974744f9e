//! DeleteRecords: gives up the beginning of partitions, durably; of a twin, that of all partitions of its topic at the same cut.

use std::rc::Rc;

use kafka_wire::delete_records::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult};
use kafka_wire::{DeleteRecordsRequest, DeleteRecordsResponse, ErrorCode};
use protocol::metadata::{is_internal, is_order_log};
use record::{Offset, PartitionId, Position};
use shard::AppendRefusal;

use super::Envelope;
use super::gather::gather;
use super::topic_change::patience;
use crate::append_path::FLUSH_PATIENCE_MIN;
use crate::core::Core;
use crate::error_codes::append_code;
use crate::long::Long;
use crate::order::{Untrimmed, twin_named};
use crate::owner::{ask_cores, find_partition};

/// Stands for the tail: give up everything that is committed.
const UP_TO_TAIL: i64 = -1;
/// The low watermark where there is an error instead.
const NO_LOW_WATERMARK: i64 = -1;

pub(super) async fn handle(
    core: Rc<Core>,
    request: DeleteRecordsRequest,
    Envelope { room, .. }: Envelope,
) -> DeleteRecordsResponse {
    let topics = Long::of(&core, request.topics, &room);
    let named = topics.iter().flat_map(|topic| {
        let partitions = topic.partitions.iter();
        partitions.map(move |wanted| (&topic.name, wanted))
    });
    let questions = named.map(|(topic, wanted)| {
        let index = wanted.partition_index;
        let found = core.with_metadata(|metadata| match twin_named(metadata, topic) {
            Some(topic) if index == 0 => Ok(core.facts.twin_of(topic.id)),
            // Positions are kept for ever.
            _ if is_order_log(topic) => Err(ErrorCode::InvalidTopicException),
            _ => find_partition(metadata, topic, index),
        });
        found.map(|partition| (partition, wanted.offset))
    });
    let deadline = tokio::time::Instant::now() + patience(request.timeout_ms).max(FLUSH_PATIENCE_MIN);
    let work = move |core, partition, offset| async move {
        let trimmed = tokio::time::timeout_at(deadline, trim(core, partition, offset)).await;
        trimmed.unwrap_or(Err(ErrorCode::RequestTimedOut))
    };
    let mut trimmed = ask_cores(&core, &room, questions, work).await;
    let topics = gather(
        &core,
        &topics,
        |topic| &topic.partitions,
        |topic, wanted| {
            let index = wanted.partition_index;
            let trimmed = trimmed.next().expect("one question, one answer");
            told(index, trimmed.map_err(|code| code_for(&topic.name, code)))
        },
        |topic, partitions| DeleteRecordsTopicResult {
            name: topic.name.clone(),
            partitions,
        },
    );
    DeleteRecordsResponse {
        throttle_time_ms: 0,
        topics: topics.await,
    }
}

/// Trims where the partition is, or the home of the twin. Returns the first offset that is kept.
async fn trim(core: Rc<Core>, partition: PartitionId, offset: i64) -> Result<Offset, ErrorCode> {
    let refused = |refusal: AppendRefusal| append_code(&refusal);
    if let Some(home) = core.home_of_twin(partition) {
        let before = match offset {
            UP_TO_TAIL => None,
            offset => Some(Position(
                u64::try_from(offset).map_err(|_| ErrorCode::OffsetOutOfRange)?,
            )),
        };
        let trimmed = home.trim(&core, before).await;
        return trimmed
            .map(|Position(first)| Offset(first as i64))
            .map_err(|untrimmed| match untrimmed {
                Untrimmed::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
                Untrimmed::Unfound(_) => ErrorCode::KafkaStorageError,
                Untrimmed::Elsewhere { .. } => ErrorCode::PolicyViolation,
                Untrimmed::Refused(refusal) => refused(refusal),
            });
    }
    if core.is_twin_elsewhere(partition) {
        return Err(ErrorCode::NotLeaderOrFollower);
    }
    let first_kept = match offset {
        UP_TO_TAIL => {
            let shard = core.shard(core.facts.shard_of(partition));
            shard
                .shown_tail(partition)
                .map_err(|error| refused(error.into()))?
        }
        offset => Offset(offset),
    };
    core.trim(partition, first_kept).await.map_err(refused)
}

/// Groups would be gone with the next start, so their topic is refused as one that is the node's own; but for a partition whose
/// groups it cannot serve: the whole of that may be given up.
fn code_for(topic: &str, code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::PolicyViolation if is_internal(topic) => ErrorCode::InvalidTopicException,
        code => code,
    }
}

fn told(partition_index: i32, trimmed: Result<Offset, ErrorCode>) -> DeleteRecordsPartitionResult {
    let (low_watermark, code) = match trimmed {
        Ok(first_kept) => (first_kept.0, ErrorCode::None),
        Err(code) => (NO_LOW_WATERMARK, code),
    };
    DeleteRecordsPartitionResult {
        partition_index,
        low_watermark,
        error_code: code.code(),
    }
}
