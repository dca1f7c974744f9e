//! The shapes of bodies and answers as JSON Schema (draft 2020-12, as OpenAPI 3.1 takes it).

mod groups;
mod transactions;

use serde_json::{Map, Value, json};

use super::reference;
use crate::record_json::HEADERS_MAX;

/// An object of these members, all of them there but for the optional. Answers may gain others.
fn object(members: &[(&str, Value)], optional: &[&str]) -> Value {
    let required: Vec<&str> = members
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| !optional.contains(name))
        .collect();
    let properties: Map<String, Value> = members
        .iter()
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
        .collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

/// The same of a body, where any other member is refused.
fn closed(members: &[(&str, Value)], optional: &[&str]) -> Value {
    let mut object = object(members, optional);
    object["additionalProperties"] = false.into();
    object
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn whole() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

fn boolean() -> Value {
    json!({ "type": "boolean" })
}

fn or_null(kind: &str) -> Value {
    json!({ "type": [kind, "null"] })
}

fn list(of: Value) -> Value {
    json!({ "type": "array", "items": of })
}

fn coded(what: &str) -> Value {
    json!({ "type": "string", "contentEncoding": "base64", "description": what })
}

/// All of them by name.
pub(super) fn schemas() -> Value {
    let mut schemas = Map::new();
    let all = [
        records(),
        topics(),
        configs(),
        groups::groups(),
        transactions::transactions(),
        node(),
    ];
    for (name, schema) in all.into_iter().flatten() {
        schemas.insert(name.to_owned(), schema);
    }
    schemas.into()
}

fn records() -> Vec<(&'static str, Value)> {
    let bytes = "Instead of the text, for bytes that are not UTF-8.";
    let key_and_value = || {
        vec![
            ("key", or_null("string")),
            ("key_base64", coded(bytes)),
            ("value", or_null("string")),
            ("value_base64", coded(bytes)),
        ]
    };
    let of_header = ["key", "key_base64", "value", "value_base64"];
    let with = |more: &[(&'static str, Value)]| [key_and_value(), more.to_vec()].concat();
    let mut new_headers = list(reference("NewHeader"));
    new_headers["maxItems"] = HEADERS_MAX.into();
    let record = with(&[
        ("offset", whole()),
        ("timestamp_ms", or_null("integer")),
        ("headers", list(reference("Header"))),
    ]);
    let in_order = [&[("position", whole()), ("partition", whole())], &record[..]].concat();
    let page_in_order = [
        ("records", list(reference("RecordInOrder"))),
        ("next_position", whole()),
        ("ordered", whole()),
    ];
    let cut = [("position", whole()), ("offsets", list(whole()))];
    let optional = ["key", "key_base64", "value", "value_base64", "headers"];
    let mut new = new_record(&with(&[("headers", new_headers)]), &optional);
    new["description"] =
        json!("`value` or `value_base64` is needed; with a key, a `value` of null is a tombstone.");
    let appended = [
        ("partition", whole()),
        ("first_offset", whole()),
        ("count", whole()),
        ("first_position", whole()),
    ];
    let page = [
        ("records", list(reference("Record"))),
        ("next_offset", whole()),
        ("first_offset", whole()),
        ("tail", whole()),
    ];
    vec![
        ("Header", object(&key_and_value(), &of_header)),
        ("NewHeader", closed(&key_and_value(), &of_header)),
        ("Record", object(&record, &optional)),
        ("NewRecord", new),
        ("Appended", object(&appended, &["first_position"])),
        (
            "AppendedToTopic",
            object(&[("appended", list(reference("Appended")))], &[]),
        ),
        ("Page", object(&page, &[])),
        ("RecordInOrder", object(&in_order, &optional)),
        ("PageInOrder", object(&page_in_order, &[])),
        ("Cut", object(&cut, &[])),
        ("TrimmedInOrder", object(&[("first_position", whole())], &[])),
        (
            "Trimmed",
            object(&[("partition", whole()), ("first_offset", whole())], &[]),
        ),
    ]
}

/// A record to append: it may have the members of a record that was read, so that that one can be appended again.
fn new_record(members: &[(&'static str, Value)], optional: &[&str]) -> Value {
    let when = json!({
        "type": ["integer", "null"], "minimum": 0,
        "description": "Milliseconds since 1970; without it, or with null, the moment of the append.",
    });
    let stood = |kind: &str| json!({ "type": kind, "description": "Where a record that was read stood. Left aside." });
    let more = [
        ("timestamp_ms", when),
        ("topic", stood("string")),
        ("partition", stood("integer")),
        ("offset", stood("integer")),
        ("position", stood("integer")),
    ];
    let names: Vec<&str> = more.iter().map(|(name, _)| *name).collect();
    closed(&[members, &more].concat(), &[optional, &names[..]].concat())
}

fn topics() -> Vec<(&'static str, Value)> {
    let durability = json!({ "enum": ["fsync", "memory"] });
    let listed = [
        ("name", text()),
        ("id", text()),
        ("partitions", whole()),
        ("durability", durability.clone()),
    ];
    let partition = [
        ("partition", whole()),
        ("leader", json!({ "type": "integer" })),
        ("epoch", whole()),
        ("first_offset", or_null("integer")),
        ("tail", or_null("integer")),
        ("replicas", list(whole())),
        ("joining", list(whole())),
        ("unclean_epochs", list(whole())),
    ];
    let topic = [
        ("name", text()),
        ("id", text()),
        ("durability", durability),
        ("partitions", list(reference("Partition"))),
    ];
    let new = [
        ("name", text()),
        ("partitions", or_null("integer")),
        ("replicas", or_null("integer")),
        (
            "configs",
            json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        ),
    ];
    vec![
        ("ListedTopic", object(&listed, &[])),
        (
            "TopicList",
            object(
                &[
                    ("topics", list(reference("ListedTopic"))),
                    ("next", or_null("string")),
                ],
                &[],
            ),
        ),
        ("Partition", object(&partition, &[])),
        ("Topic", object(&topic, &[])),
        ("NewTopic", closed(&new, &["partitions", "replicas", "configs"])),
        (
            "NewPartitions",
            closed(&[("partitions", json!({ "type": "integer", "minimum": 2 }))], &[]),
        ),
        (
            "NewReplicas",
            closed(&[("replicas", json!({ "type": "integer", "minimum": 1 }))], &[]),
        ),
        (
            "NewOpening",
            closed(&[("partitions", list(whole()))], &["partitions"]),
        ),
        (
            "OpenedUncleanly",
            object(
                &[
                    ("opened", list(whole())),
                    (
                        "refused",
                        list(object(&[("partition", whole()), ("detail", text())], &[])),
                    ),
                ],
                &[],
            ),
        ),
    ]
}

fn configs() -> Vec<(&'static str, Value)> {
    let config = [
        ("name", text()),
        ("value", text()),
        (
            "source",
            json!({ "enum": ["topic", "group", "node", "cluster", "start", "default"] }),
        ),
        ("read_only", boolean()),
        ("documentation", text()),
    ];
    let configs = || ("configs", list(reference("Config")));
    let new = json!({
        "type": "object", "minProperties": 1, "maxProperties": 256,
        "additionalProperties": { "type": ["string", "null"] },
        "description": "Values by name. Null gives a value up: what stands behind it holds then.",
    });
    vec![
        ("Config", object(&config, &[])),
        ("Configs", object(&[configs()], &[])),
        (
            "ChangedConfigs",
            object(&[("dry_run", boolean()), configs()], &[]),
        ),
        ("NewConfigs", new),
    ]
}

fn node() -> Vec<(&'static str, Value)> {
    let disk = [("free_bytes", or_null("integer")), ("reserve_bytes", whole())];
    let status = [
        ("version", text()),
        ("node", whole()),
        ("cluster", text()),
        ("cores", whole()),
        ("uptime_ms", whole()),
        ("topics", or_null("integer")),
        ("partitions", or_null("integer")),
        ("disk", object(&disk, &[])),
        ("ready", boolean()),
        ("reasons", list(text())),
    ];
    let group = [
        ("leader", or_null("integer")),
        ("term", whole()),
        ("voters", list(whole())),
        ("learners", list(whole())),
        ("offset", or_null("integer")),
    ];
    let mut group = object(&group, &[]);
    group["type"] = json!(["object", "null"]);
    group["description"] = "Null where the node is alone, and keeps the metadata in its journal.".into();
    let member = [
        ("node", whole()),
        ("kafka", text()),
        ("peer", or_null("string")),
        ("here", boolean()),
        ("rack", or_null("string")),
        ("knows_feature_level", or_null("integer")),
        ("replicas", whole()),
        ("leads", whole()),
        (
            "durable_frames",
            json!({ "type": ["array", "null"], "items": { "type": "integer", "minimum": 0 } }),
        ),
        ("is_drained", boolean()),
        ("drained_to", or_null("integer")),
    ];
    let cluster = [
        ("cluster", text()),
        ("node", whole()),
        ("feature_level", whole()),
        ("metadata", group),
        ("nodes", list(object(&member, &[]))),
        ("changing_replicas", whole()),
        ("unclean_partitions", whole()),
        ("disk_was_doubted", boolean()),
    ];
    let health = [("status", text()), ("reasons", list(text()))];
    vec![
        ("Status", object(&status, &[])),
        ("Cluster", object(&cluster, &[])),
        ("NewDrain", closed(&[("to", or_null("integer"))], &["to"])),
        ("Health", object(&health, &["reasons"])),
        (
            "Problem",
            json!({
                "type": "object",
                "description": "RFC 9457. Kinds have further members, such as `first_offset` and `tail` of an offset out of range.",
                "properties": {
                    "type": text(), "title": text(), "detail": text(),
                    "status": { "type": "integer" },
                },
                "required": ["type", "title", "status", "detail"], "additionalProperties": true,
            }),
        ),
    ]
}
