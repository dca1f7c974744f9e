//! ListPartitionReassignments: partitions whose replicas change (KIP-455).

use std::rc::Rc;

use kafka_wire::list_partition_reassignments::{
    ListPartitionReassignmentsTopics, OngoingPartitionReassignment, OngoingTopicReassignment,
};
use kafka_wire::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, Text};
use platform::slices::Slices;
use protocol::metadata::{Metadata, PartitionState, Topic};
use record::PartitionId;

use super::Envelope;
use crate::core::Core;
use crate::long::Long;

/// Topics that are looked at before others have their turn; partitions that are named count like them.
const TOPICS_IN_ONE_TURN: usize = 500;

pub(super) async fn handle(
    core: Rc<Core>,
    request: ListPartitionReassignmentsRequest,
    Envelope { room, .. }: Envelope,
) -> ListPartitionReassignmentsResponse {
    let mut slices = Slices::of(TOPICS_IN_ONE_TURN);
    let mut topics = Vec::new();
    match request.topics {
        None => {
            for (_, id) in core.all_topics().await {
                topics.extend(core.with_metadata(|metadata| of_topic(metadata, metadata.topic(id)?)));
                slices.did(1).await;
            }
        }
        Some(named) => {
            let named = Long::of(&core, named, &room);
            for wanted in named.iter() {
                topics.extend(core.with_metadata(|metadata| of_partitions(metadata, wanted)));
                slices.did(1 + wanted.partition_indexes.len()).await;
            }
        }
    }
    ListPartitionReassignmentsResponse {
        error_message: None,
        topics,
        ..ListPartitionReassignmentsResponse::default()
    }
}

fn of_topic(metadata: &Metadata, topic: &Topic) -> Option<OngoingTopicReassignment> {
    let partitions = (0..).zip(metadata.partitions(topic));
    let partitions = partitions.filter_map(|(index, state)| under_way(index, &state));
    told(&topic.name, partitions.collect())
}

/// Those that are not there, or do not change, are left out.
fn of_partitions(
    metadata: &Metadata,
    wanted: &ListPartitionReassignmentsTopics,
) -> Option<OngoingTopicReassignment> {
    let topic = metadata.topic_named(&wanted.name)?.id;
    let partitions = wanted.partition_indexes.iter();
    let partitions = partitions.filter_map(|index| {
        let id = PartitionId { topic, index: *index };
        under_way(*index, &metadata.partition(id)?)
    });
    told(&wanted.name, partitions.collect())
}

fn told(name: &str, partitions: Vec<OngoingPartitionReassignment>) -> Option<OngoingTopicReassignment> {
    (!partitions.is_empty()).then(|| OngoingTopicReassignment {
        name: Text::from(name),
        partitions,
    })
}

fn under_way(index: i32, state: &PartitionState) -> Option<OngoingPartitionReassignment> {
    let target = state.target.as_ref()?;
    let leaving = state.replicas.iter().filter(|node| !target.contains(node));
    Some(OngoingPartitionReassignment {
        partition_index: index,
        replicas: state.holding().map(|node| node.0).collect(),
        adding_replicas: state.joining().map(|node| node.0).collect(),
        removing_replicas: leaving.map(|node| node.0).collect(),
    })
}
