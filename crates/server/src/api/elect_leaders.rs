//! ElectLeaders: tells whether partitions are led by the replica that should lead them (KIP-460). One that should and does not will, as soon
//! as it has everything: nobody need ask.

use std::rc::Rc;

use kafka_wire::elect_leaders::{PartitionResult, ReplicaElectionResult};
use kafka_wire::{ElectLeadersRequest, ElectLeadersResponse, ErrorCode, Text};
use protocol::metadata::Metadata;

use super::Envelope;
use super::gather::gather;
use crate::core::Core;
use crate::long::Long;
use crate::owner::find_partition;

/// The replica named first shall lead.
const PREFERRED: i8 = 0;
/// Any replica shall lead if none that is in sync can.
const UNCLEAN: i8 = 1;

pub(super) async fn handle(
    core: Rc<Core>,
    request: ElectLeadersRequest,
    Envelope { room, .. }: Envelope,
) -> ElectLeadersResponse {
    if ![PREFERRED, UNCLEAN].contains(&request.election_type) {
        return ElectLeadersResponse {
            error_code: ErrorCode::InvalidRequest.code(),
            ..ElectLeadersResponse::default()
        };
    }
    let wanted = request.election_type;
    // When all are asked for, Kafka tells of those that were elected: none needs it.
    let topics = Long::of(&core, request.topic_partitions.unwrap_or_default(), &room);
    let results = gather(
        &core,
        &topics,
        |topic| &topic.partitions,
        |topic, index| core.with_metadata(|metadata| elected(metadata, &topic.topic, *index, wanted)),
        |topic, partition_result| ReplicaElectionResult {
            topic: topic.topic.clone(),
            partition_result,
        },
    );
    ElectLeadersResponse {
        replica_election_results: results.await,
        ..ElectLeadersResponse::default()
    }
}

fn elected(metadata: &Metadata, topic: &str, index: i32, wanted: i8) -> PartitionResult {
    let found = find_partition(metadata, topic, index);
    let state = found.map(|id| metadata.partition(id));
    let (code, message) = match state {
        Ok(Some(state)) if wanted == PREFERRED && state.replicas.first() != Some(&state.leader) => (
            ErrorCode::PreferredLeaderNotAvailable,
            "the preferred replica is away, or lacks something; it leads again as soon as it has everything",
        ),
        Ok(_) if wanted == UNCLEAN => (ErrorCode::ElectionNotNeeded, "the partition has a leader"),
        Ok(_) => (
            ErrorCode::ElectionNotNeeded,
            "its preferred replica leads it already",
        ),
        Err(code) => (code, "This server does not host this topic-partition."),
    };
    PartitionResult {
        partition_id: index,
        error_code: code.code(),
        error_message: Some(Text::from_static(message)),
    }
}
