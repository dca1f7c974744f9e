//! ListPartitionReassignments: partitions whose replicas change (KIP-455).

use std::collections::BTreeSet;
use std::rc::Rc;

use kafka_wire::list_partition_reassignments::{
    ListPartitionReassignmentsTopics, OngoingPartitionReassignment, OngoingTopicReassignment,
};
use kafka_wire::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, Text};
use platform::slices::Slices;
use protocol::NodeId;
use protocol::metadata::{Metadata, PartitionState};
use record::{PartitionId, TopicId};

use super::Envelope;
use crate::core::Core;
use crate::long::Long;

/// Topics and partitions that are looked at before others have their turn.
const ENTRIES_IN_ONE_TURN: usize = 5_000;
/// Memory that a partition takes in an answer and in its frame, in bytes.
const PARTITION_BYTES: usize = 256;

/// Also says what the answer takes with its frame, in bytes.
pub(super) async fn handle(
    core: Rc<Core>,
    request: ListPartitionReassignmentsRequest,
    Envelope { caller, room, .. }: Envelope,
) -> (ListPartitionReassignmentsResponse, usize) {
    let under_way = match request.topics {
        None => all(&core).await,
        Some(named) => among(&core, &Long::of(&core, named, &room)).await,
    };
    let bytes = under_way.len() * PARTITION_BYTES;
    let held = core.answers.reserve(caller.address(), bytes).await;
    let mut slices = Slices::of(ENTRIES_IN_ONE_TURN);
    let mut topics: Vec<OngoingTopicReassignment> = Vec::new();
    let mut before: Option<TopicId> = None;
    for id in under_way {
        slices.did(1).await;
        // It may be done by now, or gone.
        let told = core.with_metadata(|metadata| {
            let partition = told(id.index, &metadata.partition(id)?)?;
            Some((Text::from(&*metadata.topic(id.topic)?.name), partition))
        });
        let Some((name, partition)) = told else { continue };
        match topics.last_mut().filter(|_| before == Some(id.topic)) {
            Some(topic) => topic.partitions.push(partition),
            None => topics.push(OngoingTopicReassignment {
                name,
                partitions: vec![partition],
            }),
        }
        before = Some(id.topic);
    }
    let response = ListPartitionReassignmentsResponse {
        error_message: None,
        topics,
        ..ListPartitionReassignmentsResponse::default()
    };
    (response, held.bytes())
}

async fn all(core: &Rc<Core>) -> BTreeSet<PartitionId> {
    let mut slices = Slices::of(ENTRIES_IN_ONE_TURN);
    let mut under_way = BTreeSet::new();
    for (_, id) in core.all_topics().await {
        let partitions = core.with_metadata(|metadata| {
            let topic = metadata.topic(id)?;
            let of_topic = (0..topic.partition_count()).filter(|index| topic.is_changing(*index));
            under_way.extend(of_topic.map(|index| PartitionId { topic: id, index }));
            Some(topic.partition_count())
        });
        slices.did(1 + partitions.unwrap_or(0) as usize).await;
    }
    under_way
}

/// Those of the named partitions that change, each once however often it is named: the answer must not be longer than what is under way.
async fn among(core: &Core, named: &[ListPartitionReassignmentsTopics]) -> BTreeSet<PartitionId> {
    let mut slices = Slices::of(ENTRIES_IN_ONE_TURN);
    let mut under_way = BTreeSet::new();
    for topic in named {
        for index in &topic.partition_indexes {
            under_way.extend(core.with_metadata(|metadata| changing(metadata, &topic.name, *index)));
            slices.did(1).await;
        }
        slices.did(1).await;
    }
    under_way
}

fn changing(metadata: &Metadata, topic: &str, index: i32) -> Option<PartitionId> {
    let topic = metadata.topic_named(topic)?;
    let id = PartitionId {
        topic: topic.id,
        index,
    };
    topic.is_changing(index).then_some(id)
}

/// Tells of a partition to which nodes are added, as Kafka does: the replicas that are to be, and behind them those that go. A change that is in
/// force already, and has to be settled only, is done for clients.
fn told(index: i32, state: &PartitionState) -> Option<OngoingPartitionReassignment> {
    let target = state.target.as_ref()?;
    let leaving = state.replicas.iter().filter(|node| !target.contains(node));
    let leaving = sorted(leaving.copied());
    let all = target.iter().map(|node| node.0);
    Some(OngoingPartitionReassignment {
        partition_index: index,
        replicas: all.chain(leaving.iter().copied()).collect(),
        adding_replicas: sorted(state.joining()),
        removing_replicas: leaving,
    })
}

fn sorted(nodes: impl Iterator<Item = NodeId>) -> Vec<i32> {
    let mut ids: Vec<i32> = nodes.map(|node| node.0).collect();
    ids.sort_unstable();
    ids
}
