//! DeleteTopics: by name, from version 6 on also by id.

use std::collections::HashSet;
use std::rc::Rc;

use kafka_wire::delete_topics::{DeletableTopicResult, DeleteTopicState};
use kafka_wire::{DeleteTopicsRequest, DeleteTopicsResponse, ErrorCode, Text};
use protocol::metadata::Metadata;
use record::TopicId;

use super::topic_change::{Refusal, change, check_not_internal, conclude, patience};
use crate::core::Core;

/// A topic that was found, or why it is not deleted.
type Found = Result<(Text, TopicId), Refusal>;

pub(crate) async fn handle(
    core: Rc<Core>,
    request: DeleteTopicsRequest,
    version: i16,
) -> DeleteTopicsResponse {
    let named = |name: Text| DeleteTopicState {
        name: Some(name),
        topic_id: TopicId::default(),
    };
    let states = match version {
        ..=5 => request.topic_names.into_iter().map(named).collect(),
        _ => request.topics,
    };
    let mut found = core.with_metadata(|metadata| find(metadata, &states));
    let doomed: Vec<TopicId> = found.iter().flatten().map(|(_, id)| *id).collect();
    let plan = move |metadata: &Metadata| {
        doomed
            .iter()
            .map(|id| metadata.plan_topic_deletion(*id))
            .collect()
    };
    conclude(
        &mut found,
        change(&core, patience(request.timeout_ms), plan).await,
    );
    let responses = states
        .into_iter()
        .zip(found)
        .map(|(state, found)| told(state, found))
        .collect();
    DeleteTopicsResponse {
        throttle_time_ms: 0,
        responses,
    }
}

/// Finds what is meant. A topic that is meant twice is a mistake; the first time counts.
fn find(metadata: &Metadata, states: &[DeleteTopicState]) -> Vec<Found> {
    let mut seen = HashSet::new();
    let mut find = |state: &DeleteTopicState| {
        let found = find_one(metadata, state)?;
        match seen.insert(found.1) {
            true => Ok(found),
            false => Err(Refusal::new(
                ErrorCode::InvalidRequest,
                "the request names this topic twice",
            )),
        }
    };
    states.iter().map(&mut find).collect()
}

fn find_one(metadata: &Metadata, state: &DeleteTopicState) -> Found {
    let by_id = state.topic_id != TopicId::default();
    let (topic, unknown) = match &state.name {
        Some(_) if by_id => {
            return Err(Refusal::new(
                ErrorCode::InvalidRequest,
                "give the topic's name or its id, not both",
            ));
        }
        None if !by_id => {
            return Err(Refusal::new(
                ErrorCode::InvalidRequest,
                "give the topic's name or its id",
            ));
        }
        Some(name) => (metadata.topic_named(name), ErrorCode::UnknownTopicOrPartition),
        None => (metadata.topic(state.topic_id), ErrorCode::UnknownTopicId),
    };
    let topic = topic.ok_or_else(|| Refusal::new(unknown, "there is no such topic"))?;
    check_not_internal(&topic.name)?;
    Ok((Text::from(&*topic.name), topic.id))
}

fn told(state: DeleteTopicState, found: Found) -> DeletableTopicResult {
    match found {
        Ok((name, topic_id)) => DeletableTopicResult {
            name: Some(name),
            topic_id,
            error_code: 0,
            error_message: None,
        },
        Err(refusal) => DeletableTopicResult {
            name: state.name,
            topic_id: state.topic_id,
            error_code: refusal.code.code(),
            error_message: refusal.text(),
        },
    }
}
