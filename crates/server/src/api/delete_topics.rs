//! DeleteTopics: by name, from version 6 on also by id.

use std::collections::BTreeMap;
use std::rc::Rc;

use kafka_wire::delete_topics::{DeletableTopicResult, DeleteTopicState};
use kafka_wire::{DeleteTopicsRequest, DeleteTopicsResponse, ErrorCode, Text};
use platform::slices::Slices;
use protocol::metadata::{Metadata, Plans};
use record::TopicId;

use super::Envelope;
use super::topic_change::{
    Refusal, WISHES_IN_ONE_TURN, change, check_not_internal, conclude, each_once, patience,
};
use crate::core::Core;
use crate::long::beside;

/// Kafka's sentence on a topic that is not there, word for word: scripts look for it.
const UNKNOWN_NAME: (ErrorCode, &str) = (
    ErrorCode::UnknownTopicOrPartition,
    "This server does not host this topic-partition.",
);
const UNKNOWN_ID: (ErrorCode, &str) = (
    ErrorCode::UnknownTopicId,
    "This server does not host this topic ID.",
);

/// A topic that was found, or why it is not deleted.
type Found = Result<(Text, TopicId), Refusal>;

pub(crate) async fn handle(
    core: Rc<Core>,
    request: DeleteTopicsRequest,
    Envelope {
        version,
        caller,
        room,
    }: Envelope,
) -> DeleteTopicsResponse {
    let named = |name: Text| DeleteTopicState {
        name: Some(name),
        topic_id: TopicId::default(),
    };
    let states = match version {
        ..=5 => request.topic_names.into_iter().map(named).collect(),
        _ => request.topics,
    };
    let states = each_once(states, |state| (state.name.clone(), state.topic_id)).await;
    let count = states.len();
    let mut found = find(&core, &states).await;
    let doomed: Vec<TopicId> = found.iter().flatten().map(|(_, id)| *id).collect();
    let plan = |metadata: &Metadata, id, _: &mut Plans| metadata.plan_topic_deletion(id);
    let patience = patience(request.timeout_ms);
    let made = change(&core, &caller, room.clone(), patience, doomed, plan).await;
    conclude(&mut found, made);
    let told = move || {
        let found = states.into_iter().zip(found);
        let responses = found.map(|((state, _), found)| told(state, found));
        (responses.collect(), room)
    };
    let (responses, _room) = beside(&core, count, told).await;
    DeleteTopicsResponse {
        throttle_time_ms: 0,
        responses,
    }
}

/// Finds what is meant, each with whether it is named only once.
async fn find(core: &Core, states: &[(DeleteTopicState, bool)]) -> Vec<Found> {
    let mut slices = Slices::of(WISHES_IN_ONE_TURN);
    let mut found: Vec<Found> = Vec::with_capacity(states.len());
    for (state, is_only) in states {
        found.push(match is_only {
            true => core.with_metadata(|metadata| find_one(metadata, state)),
            false => Err(Refusal::named_twice()),
        });
        slices.did(1).await;
    }
    // A name and an id may mean the same topic.
    let mut times: BTreeMap<TopicId, usize> = BTreeMap::new();
    for (_, id) in found.iter().flatten() {
        *times.entry(*id).or_default() += 1;
        slices.did(1).await;
    }
    for one in &mut found {
        if one.as_ref().is_ok_and(|(_, id)| times[id] > 1) {
            *one = Err(Refusal::named_twice());
        }
        slices.did(1).await;
    }
    found
}

fn find_one(metadata: &Metadata, state: &DeleteTopicState) -> Found {
    let by_id = state.topic_id != TopicId::default();
    let (topic, unknown) = match &state.name {
        Some(_) if by_id => {
            return Err(Refusal::new(
                ErrorCode::InvalidRequest,
                "You may not specify both topic name and topic id.",
            ));
        }
        None if !by_id => {
            return Err(Refusal::new(
                ErrorCode::InvalidRequest,
                "Neither topic name nor id were specified.",
            ));
        }
        Some(name) => (metadata.topic_named(name), UNKNOWN_NAME),
        None => (metadata.topic(state.topic_id), UNKNOWN_ID),
    };
    let (code, message) = unknown;
    let topic = topic.ok_or_else(|| Refusal::new(code, message))?;
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
