//! ElectLeaders (KIP-460). The replica that should lead a partition leads it again by itself, as soon as it has everything; a client that asks
//! for it is answered then. An unclean election is held only on request, and only where too few replicas are left for a clean one.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use kafka_wire::elect_leaders::{PartitionResult, ReplicaElectionResult, TopicPartitions};
use kafka_wire::{ElectLeadersRequest, ElectLeadersResponse, ErrorCode, Text};
use platform::slices::Slices;
use protocol::NodeId;
use protocol::metadata::{Metadata, PartitionState, PlanError, Plans};
use record::PartitionId;
use tokio::time::{Instant, sleep};

use super::Envelope;
use super::gather::gather;
use super::topic_change::{Refusal, change, conclude, patience};
use crate::budget::SharedRoom;
use crate::caller::Caller;
use crate::core::Core;
use crate::long::Long;
use crate::owner::find_partition;

/// The replica named first shall lead.
const PREFERRED: i8 = 0;
/// Any replica shall lead if none that is known to hold everything can.
pub(crate) const UNCLEAN: i8 = 1;
/// Between two looks at who leads.
const LOOK: Duration = Duration::from_millis(50);
/// Kafka's words.
const NOT_HOSTED: &str = "This server does not host this topic-partition.";
/// Topics and partitions that are looked at before others have their turn.
const ENTRIES_IN_ONE_TURN: usize = 5_000;

pub(crate) async fn handle(
    core: Rc<Core>,
    request: ElectLeadersRequest,
    Envelope { caller, room, .. }: Envelope,
) -> ElectLeadersResponse {
    let patience = patience(request.timeout_ms);
    let named = request
        .topic_partitions
        .map(|named| Long::of(&core, named, &room));
    match request.election_type {
        PREFERRED => prefer(core, named, room, patience).await,
        UNCLEAN => open_uncleanly(core, named, (&caller, room), patience).await,
        _ => ElectLeadersResponse {
            error_code: ErrorCode::InvalidRequest.code(),
            ..ElectLeadersResponse::default()
        },
    }
}

async fn prefer(
    core: Rc<Core>,
    named: Option<Long<TopicPartitions>>,
    room: SharedRoom,
    patience: Duration,
) -> ElectLeadersResponse {
    let deadline = Instant::now() + patience;
    let displaced = match &named {
        Some(named) => displaced_among(&core, named).await,
        None => find(&core, |_, _, state| is_displaced(state)).await,
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
        |topic, index| core.with_metadata(|metadata| elected(metadata, (&topic.topic, *index), &displaced)),
        told,
    );
    ElectLeadersResponse {
        replica_election_results: results.await,
        ..ElectLeadersResponse::default()
    }
}

/// Opens partitions with what those of their replicas hold that are here, where a clean opening waits for others.
async fn open_uncleanly(
    core: Rc<Core>,
    named: Option<Long<TopicPartitions>>,
    (caller, room): (&Caller, SharedRoom),
    patience: Duration,
) -> ElectLeadersResponse {
    let Some(left) = core.nodes_left().await else {
        return ElectLeadersResponse {
            error_code: ErrorCode::NotController.code(),
            ..ElectLeadersResponse::default()
        };
    };
    let topics = match named {
        Some(named) => named,
        None => {
            let is_stuck = |metadata: &Metadata, id, _: &PartitionState| {
                !matches!(metadata.plan_unclean(id, &left), Err(PlanError::NotStuck { .. }))
            };
            Long::of(&core, by_topic(&core, &find(&core, is_stuck).await), &room)
        }
    };
    let mut slices = Slices::of(ENTRIES_IN_ONE_TURN);
    let (mut wanted, mut outcomes) = (Vec::new(), Vec::new());
    let mut named = BTreeSet::new();
    for topic in &*topics {
        for index in &topic.partitions {
            let found = core.with_metadata(|metadata| find_partition(metadata, &topic.topic, *index));
            let found = found.map_err(|code| Refusal::new(code, NOT_HOSTED));
            let once = found.and_then(|id| match named.insert(id) {
                true => Ok(id),
                false => Err(PlanError::NotStuck { partition: id }.into()),
            });
            outcomes.push(once.map(|id| wanted.push(id)));
            slices.did(1).await;
        }
    }
    let plan = move |metadata: &Metadata, id, _: &mut Plans| metadata.plan_unclean(id, &left);
    let made = change(&core, caller, room, patience, wanted, plan).await;
    conclude(&mut outcomes, made);
    let mut outcomes = outcomes.into_iter();
    let results = gather(
        &core,
        &topics,
        |topic| &topic.partitions,
        |_, index| {
            let refusal = outcomes.next().expect("each has an outcome").err();
            PartitionResult {
                partition_id: *index,
                error_code: refusal.as_ref().map_or(0, |refusal| refusal.code.code()),
                error_message: refusal.and_then(|refusal| refusal.text()),
            }
        },
        told,
    );
    ElectLeadersResponse {
        replica_election_results: results.await,
        ..ElectLeadersResponse::default()
    }
}

fn told(topic: &TopicPartitions, partition_result: Vec<PartitionResult>) -> ReplicaElectionResult {
    ReplicaElectionResult {
        topic: topic.topic.clone(),
        partition_result,
    }
}

/// The partitions, of all there are, that something is so of.
async fn find(
    core: &Rc<Core>,
    is_so: impl Fn(&Metadata, PartitionId, &PartitionState) -> bool,
) -> BTreeSet<PartitionId> {
    let mut slices = Slices::of(ENTRIES_IN_ONE_TURN);
    let mut those = BTreeSet::new();
    for (_, topic) in core.all_topics().await {
        let partitions = core.with_metadata(|metadata| {
            let found = metadata.topic(topic)?;
            for (index, state) in (0..).zip(metadata.partitions(found)) {
                let id = PartitionId { topic, index };
                if is_so(metadata, id, &state) {
                    those.insert(id);
                }
            }
            Some(found.partition_count())
        });
        slices.did(1 + partitions.unwrap_or(0) as usize).await;
    }
    those
}

/// The partitions, of these, that others lead than their first replicas.
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
    displaced: &BTreeSet<PartitionId>,
) -> PartitionResult {
    let found = find_partition(metadata, topic, index);
    let state = found.map(|id| (id, metadata.partition(id)));
    let (code, message) = match state {
        Ok((_, Some(state))) if is_displaced(&state) => (
            ErrorCode::PreferredLeaderNotAvailable,
            Some(
                "the preferred replica is away, or lacks something; it leads again as soon as it has everything",
            ),
        ),
        Ok((id, _)) if displaced.contains(&id) => (ErrorCode::None, None),
        Ok(_) => (
            ErrorCode::ElectionNotNeeded,
            Some("its preferred replica leads it already"),
        ),
        Err(code) => (code, Some(NOT_HOSTED)),
    };
    PartitionResult {
        partition_id: index,
        error_code: code.code(),
        error_message: message.map(Text::from_static),
    }
}
