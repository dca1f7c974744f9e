//! Purposes of the operations on configs.

use serde_json::{Value, json};

use super::super::super::media_type::MediaType;
use super::super::super::problem::Kind;
use super::super::{answers, reference};
use super::{dry_run, query};

pub(in super::super::super) fn of_topic() -> Value {
    json!({
        "operationId": "topicConfigs",
        "summary": "The configs in force for a topic, and where each comes from",
        "responses": answers("200", "All configs that a topic can have.", "Configs",
            &[Kind::UnknownTopic, Kind::MalformedQuery]),
    })
}

pub(in super::super::super) fn of_group() -> Value {
    json!({
        "operationId": "groupConfigs",
        "summary": "The configs in force for a group, whether it is there or not, and where each comes from",
        "responses": answers("200", "All configs that a group can have.", "Configs", &[Kind::MalformedQuery]),
    })
}

pub(in super::super::super) fn of_node() -> Value {
    json!({
        "operationId": "nodeConfigs",
        "summary": "The configs in force on this node, and where each comes from",
        "responses": answers("200", "What the node was started with, and what can be changed while it runs.", "Configs",
            &[Kind::MalformedQuery]),
    })
}

pub(in super::super::super) fn change_topic() -> Value {
    json!({
        "operationId": "changeTopicConfigs",
        "summary": "Change configs of a topic, all of them or none",
        "parameters": [dry_run()],
        "requestBody": changes(json!({ "retention.ms": "3600000", "segment.bytes": null })),
        "responses": answers("200", CHANGED, "ChangedConfigs", &[&[Kind::UnknownTopic], OF_CHANGE].concat()),
    })
}

pub(in super::super::super) fn change_group() -> Value {
    json!({
        "operationId": "changeGroupConfigs",
        "summary": "Change configs of a group, whether it is there or not, all of them or none",
        "parameters": [dry_run()],
        "requestBody": changes(json!({ "consumer.session.timeout.ms": "60000" })),
        "responses": answers("200", CHANGED, "ChangedConfigs", OF_CHANGE),
    })
}

pub(in super::super::super) fn change_nodes() -> Value {
    let scope = query(
        "scope",
        "Whose configs change: those of all nodes that have no value of their own, or this node's own.",
        json!({ "enum": ["cluster", "node"], "default": "cluster" }),
        json!("cluster"),
    );
    json!({
        "operationId": "changeNodeConfigs",
        "summary": "Change configs of all nodes or of this one, all of them or none",
        "parameters": [scope, dry_run()],
        "requestBody": changes(json!({ "log.retention.ms": "86400000", "log.segment.bytes": null })),
        "responses": answers("200", CHANGED, "ChangedConfigs", OF_CHANGE),
    })
}

const CHANGED: &str = "They hold on every core. What was named is told as it is in force now; of a dry run nothing has changed.";

const OF_CHANGE: &[Kind] = &[Kind::InvalidConfig, Kind::MalformedQuery, Kind::OutcomeUnknown];

fn changes(example: Value) -> Value {
    json!({ "required": true, "content": { MediaType::Json.name(): {
        "schema": reference("NewConfigs"),
        "example": example,
    } } })
}
