//! ElectLeaders: has partitions led by the replica that should lead them (KIP-460). That replica leads again by itself, as soon as it has
//! everything; a client that asks is answered then.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use kafka_wire::elect_leaders::{PartitionResult, ReplicaElectionResult, TopicPartitions};
use kafka_wire::{ElectLeadersRequest, ElectLeadersResponse, ErrorCode, Text};
use platform::slices::Slices;
use protocol::NodeId;
use protocol::metadata::{Metadata, PartitionState};
use record::PartitionId;
use tokio::time::{Instant, sleep};

use super::Envelope;
use super::gather::gather;
use super::topic_change::patience;
use crate::core::Core;
use crate::long::Long;
use crate::owner::find_partition;

/// The replica named first shall lead.
const PREFERRED: i8 = 0;
/// Any replica shall lead if none that is in sync can.
const UNCLEAN: i8 = 1;
/// Between two looks at who leads.
const LOOK: Duration = Duration::from_millis(50);
/// Topics and partitions that are looked at before others have their turn.
const ENTRIES_IN_ONE_TURN: usize = 5_000;

pub(super) async fn handle(
    core: Rc<Core>,
    request: ElectLeadersRequest,
    Envelope { room, .. }: Envelope,
) -> ElectLeadersResponse {
    let wanted = request.election_type;
    if ![PREFERRED, UNCLEAN].contains(&wanted) {
        return ElectLeadersResponse {
            error_code: ErrorCode::InvalidRequest.code(),
            ..ElectLeadersResponse::default()
        };
    }
    let deadline = Instant::now() + patience(request.timeout_ms);
    let named = request
        .topic_partitions
        .map(|named| Long::of(&core, named, &room));
    let displaced = match (&named, wanted) {
        (_, UNCLEAN) => BTreeSet::new(),
        (Some(named), _) => displaced_among(&core, named).await,
        (None, _) => displaced(&core).await,
    };
    tokio::select! {
        biased;
        () = core.until_draining() => {}
        () = wait_for(&core, displaced.clone(), deadline) => {}
    }
    // When all are asked for, Kafka tells of those that an election was held for.
    let topics = match named {
        Some(named) => named,
        None => Long::of(&core, by_topic(&core, &displaced), &room),
    };
    let results = gather(
        &core,
        &topics,
        |topic| &topic.partitions,
        |topic, index| {
            core.with_metadata(|metadata| elected(metadata, (&topic.topic, *index), wanted, &displaced))
        },
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

/// The partitions that others lead than their first replicas.
async fn displaced(core: &Rc<Core>) -> BTreeSet<PartitionId> {
    let mut slices = Slices::of(ENTRIES_IN_ONE_TURN);
    let mut displaced = BTreeSet::new();
    for (_, topic) in core.all_topics().await {
        let partitions = core.with_metadata(|metadata| {
            let found = metadata.topic(topic)?;
            for (index, state) in (0..).zip(metadata.partitions(found)) {
                if is_displaced(&state) {
                    displaced.insert(PartitionId { topic, index });
                }
            }
            Some(found.partition_count())
        });
        slices.did(1 + partitions.unwrap_or(0) as usize).await;
    }
    displaced
}

async fn displaced_among(core: &Rc<Core>, named: &[TopicPartitions]) -> BTreeSet<PartitionId> {
    let mut slices = Slices::of(ENTRIES_IN_ONE_TURN);
    let mut displaced = BTreeSet::new();
    for topic in named {
        for index in &topic.partitions {
            displaced.extend(core.with_metadata(|metadata| {
                let id = find_partition(metadata, &topic.topic, *index).ok()?;
                metadata.partition(id).filter(is_displaced).map(|_| id)
            }));
            slices.did(1).await;
        }
    }
    displaced
}

fn is_displaced(state: &PartitionState) -> bool {
    state.replicas.first() != Some(&state.leader)
}

/// Waits until their first replicas lead these partitions, or cannot: those that are away, or in doubt.
async fn wait_for(core: &Rc<Core>, mut displaced: BTreeSet<PartitionId>, deadline: Instant) {
    while !displaced.is_empty() && Instant::now() < deadline {
        let here = core.nodes_here().await;
        let mut slices = Slices::of(ENTRIES_IN_ONE_TURN);
        let mut left = BTreeSet::new();
        for id in displaced {
            let state = core.with_metadata(|metadata| metadata.partition(id));
            if state.is_some_and(|state| is_displaced(&state) && may_lead(&state, &here)) {
                left.insert(id);
            }
            slices.did(1).await;
        }
        displaced = left;
        if !displaced.is_empty() {
            sleep(LOOK).await;
        }
    }
}

fn may_lead(state: &PartitionState, here: &BTreeSet<NodeId>) -> bool {
    let first = state.replicas[0];
    here.contains(&first) && !state.uncertain.contains(&first)
}

fn by_topic(core: &Core, displaced: &BTreeSet<PartitionId>) -> Vec<TopicPartitions> {
    let mut topics: Vec<TopicPartitions> = Vec::new();
    let mut before = None;
    for id in displaced {
        if before != Some(id.topic) {
            let name =
                core.with_metadata(|metadata| metadata.topic(id.topic).map(|topic| Text::from(&*topic.name)));
            // It may have been deleted meanwhile.
            let Some(topic) = name else { continue };
            topics.push(TopicPartitions {
                topic,
                partitions: Vec::new(),
            });
            before = Some(id.topic);
        }
        topics.last_mut().expect("it was added").partitions.push(id.index);
    }
    topics
}

fn elected(
    metadata: &Metadata,
    (topic, index): (&str, i32),
    wanted: i8,
    displaced: &BTreeSet<PartitionId>,
) -> PartitionResult {
    let found = find_partition(metadata, topic, index);
    let state = found.map(|id| (id, metadata.partition(id)));
    let (code, message) = match state {
        Ok((_, Some(state))) if wanted == PREFERRED && is_displaced(&state) => (
            ErrorCode::PreferredLeaderNotAvailable,
            Some(
                "the preferred replica is away, or lacks something; it leads again as soon as it has everything",
            ),
        ),
        Ok(_) if wanted == UNCLEAN => (ErrorCode::ElectionNotNeeded, Some("the partition has a leader")),
        Ok((id, _)) if displaced.contains(&id) => (ErrorCode::None, None),
        Ok(_) => (
            ErrorCode::ElectionNotNeeded,
            Some("its preferred replica leads it already"),
        ),
        Err(code) => (code, Some("This server does not host this topic-partition.")),
    };
    PartitionResult {
        partition_id: index,
        error_code: code.code(),
        error_message: message.map(Text::from_static),
    }
}
