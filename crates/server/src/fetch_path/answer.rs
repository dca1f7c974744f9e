//! Makes the answer of a fetch, when all is found that it brings.

use kafka_wire::fetch::{
    AbortedTransaction, FetchResponse, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData,
};
use kafka_wire::{ErrorCode, RecordChunks};
use platform::slices::Slices;
use protocol::leader::NodeId;
use protocol::metadata::Metadata;
use record::{Offset, PartitionId};
use shard::ReadResult;
use storage::Aborted;

use super::look::Outcome;
use crate::core::Core;
use crate::fetch_session::{Opened, Told};
use crate::leader_hints::LeaderHints;

/// Partitions that are told of before others have their turn.
const TOLD_IN_ONE_TURN: usize = 5_000;

/// The answer; a session takes note of what it tells.
pub(super) async fn respond(
    core: &Core,
    opened: Opened,
    outcomes: Vec<Outcome>,
    committed_only: bool,
) -> FetchResponse {
    let mut responses: Vec<FetchableTopicResponse> = Vec::new();
    let mut told: Vec<Told> = Vec::new();
    let mut slices = Slices::of(TOLD_IN_ONE_TURN);
    for (wanted, outcome) in opened.wanted.into_iter().zip(outcomes) {
        slices.did(1).await;
        let stands = outcome
            .as_ref()
            .ok()
            .filter(|result| result.nearer.is_none())
            .map(|result| (result.tail.0, result.stable.0, result.log_start.0));
        let new = match (&outcome, stands) {
            (Ok(result), _) => result.bytes > 0 || result.nearer.is_some() || wanted.told != stands,
            (Err(_), _) => true,
        };
        if opened.incremental && !new {
            continue;
        }
        if opened.session != 0 {
            told.push(Told {
                topic: wanted.topic.clone(),
                partition: wanted.partition.partition,
                stands,
                brings_records: outcome.as_ref().is_ok_and(|result| result.bytes > 0),
            });
        }
        let partition = partition_data(wanted.partition.partition, outcome, committed_only);
        match responses.last_mut() {
            Some(last) if last.topic == wanted.topic.name && last.topic_id == wanted.topic.id => {
                last.partitions.push(partition);
            }
            _ => responses.push(FetchableTopicResponse {
                topic: wanted.topic.name,
                topic_id: wanted.topic.id,
                partitions: vec![partition],
            }),
        }
    }
    core.sessions.borrow_mut().told(opened.session, told);
    FetchResponse {
        session_id: opened.session,
        responses,
        ..FetchResponse::default()
    }
}

/// Says who leads the partitions that the client looks for at the wrong node, or in an epoch that is over.
pub(super) fn tell_leaders(metadata: &Metadata, own: NodeId, response: &mut FetchResponse) {
    let mut hints = LeaderHints::new(metadata, own);
    for topic in &mut response.responses {
        for partition in &mut topic.partitions {
            let id = PartitionId {
                topic: topic.topic_id,
                index: partition.partition_index,
            };
            if let Some((leader, epoch)) = hints.hint(id, partition.error_code) {
                partition.current_leader = LeaderIdAndEpoch {
                    leader_id: leader.0,
                    leader_epoch: epoch.0,
                };
            }
        }
    }
    response.node_endpoints = hints.endpoints(|node_id, host, port, rack| NodeEndpoint {
        node_id,
        host,
        port,
        rack,
    });
}

fn told_aborted(aborted: &Aborted) -> AbortedTransaction {
    AbortedTransaction {
        producer_id: aborted.producer_id,
        first_offset: aborted.first.0,
    }
}

fn partition_data(partition_index: i32, outcome: Outcome, committed_only: bool) -> PartitionData {
    let (error_code, result) = match outcome {
        Ok(result) => (ErrorCode::None, result),
        Err(code) => (
            code,
            ReadResult {
                log_start: Offset(-1),
                tail: Offset(-1),
                stable: Offset(-1),
                ..ReadResult::default()
            },
        ),
    };
    PartitionData {
        partition_index,
        error_code: error_code.code(),
        high_watermark: result.tail.0,
        last_stable_offset: result.stable.0,
        log_start_offset: result.log_start.0,
        current_leader: LeaderIdAndEpoch::default(),
        aborted_transactions: committed_only.then(|| result.aborted.iter().map(told_aborted).collect()),
        preferred_read_replica: result.nearer.map_or(-1, |node| node.0),
        records: RecordChunks {
            chunks: result.batches,
        },
        ..PartitionData::default()
    }
}
