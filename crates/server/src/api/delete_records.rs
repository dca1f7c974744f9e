//! DeleteRecords: gives up the beginning of partitions, durably.

use std::rc::Rc;

use kafka_wire::delete_records::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult};
use kafka_wire::{DeleteRecordsRequest, DeleteRecordsResponse, ErrorCode};
use protocol::metadata::is_internal;
use record::{Offset, PartitionId};
use shard::{AppendRefusal, Shard, Trimmed};

use super::Envelope;
use super::gather::gather;
use super::topic_change::patience;
use crate::append_path::FLUSH_PATIENCE_MIN;
use crate::core::Core;
use crate::error_codes::append_code;
use crate::long::Long;
use crate::owner::{ask_owners, find_partition};

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
        let found = core.with_metadata(|metadata| find_partition(metadata, topic, wanted.partition_index));
        found.map(|partition| (partition, wanted.offset))
    });
    let deadline = tokio::time::Instant::now() + patience(request.timeout_ms).max(FLUSH_PATIENCE_MIN);
    let work = move |shard, partition, offset| async move {
        match tokio::time::timeout_at(deadline, trim(&shard, partition, offset)).await {
            Ok(trimmed) => trimmed.map_err(|refusal| append_code(&refusal)),
            Err(_) => Err(ErrorCode::RequestTimedOut),
        }
    };
    let mut trimmed = ask_owners(&core, &room, questions, work).await;
    let now = core.facts.clock.monotonic();
    let topics = gather(
        &core,
        &topics,
        |topic| &topic.partitions,
        |topic, wanted| {
            let index = wanted.partition_index;
            let trimmed = trimmed.next().expect("one question, one answer");
            if let Ok(trimmed) = trimmed {
                core.facts.change_log.tell_trim(now, &topic.name, index, trimmed);
            }
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

async fn trim(shard: &Rc<Shard>, partition: PartitionId, offset: i64) -> Result<Trimmed, AppendRefusal> {
    let first_kept = match offset {
        UP_TO_TAIL => shard.shown_tail(partition)?,
        offset => Offset(offset),
    };
    shard.trim(partition, first_kept).await
}

/// Groups would be gone with the next start, so their topic is refused as one that is the node's own; but for a partition whose
/// groups it cannot serve: the whole of that may be given up.
fn code_for(topic: &str, code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::PolicyViolation if is_internal(topic) => ErrorCode::InvalidTopicException,
        code => code,
    }
}

fn told(partition_index: i32, trimmed: Result<Trimmed, ErrorCode>) -> DeleteRecordsPartitionResult {
    let (low_watermark, code) = match trimmed {
        Ok(trimmed) => (trimmed.next.0, ErrorCode::None),
        Err(code) => (NO_LOW_WATERMARK, code),
    };
    DeleteRecordsPartitionResult {
        partition_index,
        low_watermark,
        error_code: code.code(),
    }
}
