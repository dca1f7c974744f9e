//! Answers of the broker in memory about groups. It coordinates them all, and none has members.

use kafka_wire::delete_groups::DeletableGroupResult;
use kafka_wire::find_coordinator::Coordinator;
use kafka_wire::list_groups::ListedGroup;
use kafka_wire::offset_fetch::{
    OffsetFetchRequestGroup, OffsetFetchResponseGroup, OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions, OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use kafka_wire::{
    DeleteGroupsRequest, DeleteGroupsResponse, ErrorCode, FindCoordinatorRequest, FindCoordinatorResponse,
    ListGroupsResponse, OffsetFetchRequest, OffsetFetchResponse, Text,
};
use record::TopicId;

use super::NODE;
use crate::fake_broker::{Committed, Shared, State};

/// In the list where the request has one, beside it where it has not.
pub(super) fn find_coordinator(shared: &Shared, request: &FindCoordinatorRequest) -> FindCoordinatorResponse {
    let host = Text::from(shared.address.ip().to_string());
    let port = i32::from(shared.address.port());
    let found = |key: &Text| Coordinator {
        key: key.clone(),
        node_id: NODE,
        host: host.clone(),
        port,
        ..Coordinator::default()
    };
    FindCoordinatorResponse {
        node_id: NODE,
        host: host.clone(),
        port,
        coordinators: request.coordinator_keys.iter().map(found).collect(),
        ..FindCoordinatorResponse::default()
    }
}

pub(super) fn list_groups(state: &State) -> ListGroupsResponse {
    let listed = |name: &String| ListedGroup {
        group_id: Text::from(name.as_str()),
        protocol_type: Text::from_static("consumer"),
        group_state: Text::from_static("Empty"),
        group_type: Text::from_static("classic"),
    };
    ListGroupsResponse {
        groups: state.groups.keys().map(listed).collect(),
        ..ListGroupsResponse::default()
    }
}

pub(super) fn delete_groups(state: &mut State, request: &DeleteGroupsRequest) -> DeleteGroupsResponse {
    let delete = |name: &Text| DeletableGroupResult {
        group_id: name.clone(),
        error_code: match state.groups.remove(name.as_str()) {
            Some(_) => 0,
            None => ErrorCode::GroupIdNotFound.code(),
        },
    };
    DeleteGroupsResponse {
        results: request.groups_names.iter().map(delete).collect(),
        ..DeleteGroupsResponse::default()
    }
}

/// Everything that the groups have committed, whatever was asked for.
pub(super) fn offset_fetch(state: &State, request: &OffsetFetchRequest) -> OffsetFetchResponse {
    let group = |asked: &OffsetFetchRequestGroup| OffsetFetchResponseGroup {
        group_id: asked.group_id.clone(),
        topics: committed(state, &asked.group_id)
            .map(|found| newer(state, found))
            .collect(),
        error_code: 0,
    };
    OffsetFetchResponse {
        topics: committed(state, &request.group_id).map(older).collect(),
        groups: request.groups.iter().map(group).collect(),
        ..OffsetFetchResponse::default()
    }
}

fn committed<'a>(state: &'a State, group: &str) -> impl Iterator<Item = &'a Committed> + use<'a> {
    state.groups.get(group).into_iter().flatten()
}

fn older(found: &Committed) -> OffsetFetchResponseTopic {
    OffsetFetchResponseTopic {
        name: Text::from(found.topic.as_str()),
        partitions: vec![OffsetFetchResponsePartition {
            partition_index: found.partition,
            committed_offset: found.offset.0,
            ..OffsetFetchResponsePartition::default()
        }],
    }
}

fn newer(state: &State, found: &Committed) -> OffsetFetchResponseTopics {
    OffsetFetchResponseTopics {
        name: Text::from(found.topic.as_str()),
        topic_id: TopicId(state.topics[&found.topic].id),
        partitions: vec![OffsetFetchResponsePartitions {
            partition_index: found.partition,
            committed_offset: found.offset.0,
            ..OffsetFetchResponsePartitions::default()
        }],
    }
}
