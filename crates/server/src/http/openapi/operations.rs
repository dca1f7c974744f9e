//! Purposes of the operations, their parameters, bodies and answers. The table of operations adds the rest.

pub(in super::super) mod configs;
pub(in super::super) mod groups;
pub(in super::super) mod transactions;

use serde_json::{Value, json};

use super::super::media_type::MediaType;
use super::super::problem::Kind;
use super::super::read::{RECORDS, RECORDS_MAX};
use super::{always, answers, no_content, reference};

/// The problems of reading and changing a partition.
const OF_PARTITION: &[Kind] = &[Kind::UnknownTopic, Kind::UnknownPartition, Kind::MalformedQuery];
/// The problems of reading a topic.
const OF_TOPIC: &[Kind] = &[Kind::UnknownTopic, Kind::Unavailable, Kind::MalformedQuery];
/// The problems of changing a topic that is there.
const OF_TOPIC_CHANGE: &[Kind] = &[
    Kind::UnknownTopic,
    Kind::InvalidTopic,
    Kind::MalformedQuery,
    Kind::OutcomeUnknown,
];

fn query(name: &str, what: &str, schema: Value, example: Value) -> Value {
    json!({
        "name": name, "in": "query", "required": false,
        "description": what, "schema": schema, "example": example,
    })
}

/// The parameters of lists that are told some at a time.
fn paging(behind_what: &str, example: &str) -> Value {
    let limit = json!({ "type": "integer", "minimum": 1, "maximum": 10_000, "default": 1_000 });
    let behind = format!("Only those behind {behind_what}: `next` of the answer before.");
    json!([
        query("limit", "How many at most.", limit, json!(100)),
        query("after", &behind, json!({ "type": "string" }), json!(example)),
    ])
}

fn dry_run() -> Value {
    query(
        "dry_run",
        "Says what would be done, and whether it can be, and changes nothing.",
        json!({ "type": "boolean", "default": false }),
        Value::Null,
    )
}

pub(in super::super) fn health() -> Value {
    let mut responses = answers("200", "Every core answers.", "Health", &[]);
    responses["503"] = answers(
        "503",
        "A core does not answer; `reasons` names it.",
        "Health",
        &[],
    )["503"]
        .clone();
    json!({ "operationId": "health", "summary": "Whether the process lives", "responses": responses })
}

pub(in super::super) fn ready() -> Value {
    let mut responses = answers("200", "The node serves in full.", "Health", &[]);
    responses["503"] = answers("503", "It does not; `reasons` says why.", "Health", &[])["503"].clone();
    json!({ "operationId": "ready", "summary": "Whether the node serves in full", "responses": responses })
}

pub(in super::super) fn metrics() -> Value {
    json!({
        "operationId": "metrics",
        "summary": "The node's figures, for Prometheus",
        "responses": { "200": {
            "description": "OpenMetrics text; docs/metrics.md lists what is in it.",
            "content": { MediaType::OpenMetrics.name(): { "schema": { "type": "string" } } },
        } },
    })
}

pub(in super::super) fn openapi() -> Value {
    json!({
        "operationId": "openapi",
        "summary": "This document",
        "responses": { "200": {
            "description": "OpenAPI 3.1.",
            "content": { MediaType::Json.name(): { "schema": { "type": "object", "required": ["openapi", "paths"] } } },
        } },
    })
}

pub(in super::super) fn status() -> Value {
    json!({
        "operationId": "status",
        "summary": "The node at a glance",
        "responses": answers("200", "What is known; null is what a core that does not answer would know.", "Status", &[]),
    })
}

pub(in super::super) fn cluster() -> Value {
    json!({
        "operationId": "cluster",
        "summary": "The cluster as this node sees it",
        "responses": answers("200", "Its nodes, and the group that keeps the metadata.", "Cluster", &[]),
    })
}

const OF_NODE_CHANGE: &[Kind] = &[
    Kind::UnknownNode,
    Kind::InvalidNode,
    Kind::MalformedQuery,
    Kind::OutcomeUnknown,
];

pub(in super::super) fn upgrade_cluster() -> Value {
    json!({
        "operationId": "upgradeCluster",
        "summary": "Raise the feature level to the newest that all nodes know",
        "description": "For after an upgrade that is to stay: a node of an older release is refused then. Without a newer level nothing changes.",
        "responses": answers("200", "This is the cluster then.", "Cluster", &[
            Kind::NodeAway, Kind::MalformedQuery, Kind::OutcomeUnknown,
        ]),
    })
}

pub(in super::super) fn remove_node() -> Value {
    json!({
        "operationId": "removeNode",
        "summary": "Take a stopped node that holds nothing out of the cluster",
        "responses": no_content(
            "It is removed. Its directory is refused if it comes back.",
            &[&[Kind::NodeInUse], OF_NODE_CHANGE].concat(),
        ),
    })
}

pub(in super::super) fn drain_node() -> Value {
    json!({
        "operationId": "drainNode",
        "summary": "Have a node give up all that it holds, and get nothing more",
        "description": "Others are sent what it holds in the background, while appends go on: `replicas` of the node falls to 0.",
        "requestBody": { "required": true, "content": { MediaType::Json.name(): {
            "schema": reference("NewDrain"),
            "example": { "to": null },
        } } },
        "responses": answers("200", "It is to be drained. This is the cluster then.", "Cluster", OF_NODE_CHANGE),
    })
}

pub(in super::super) fn undrain_node() -> Value {
    json!({
        "operationId": "undrainNode",
        "summary": "Let a node hold something again",
        "description": "Partitions that it has given up do not come back by themselves.",
        "responses": answers("200", "It may hold something. This is the cluster then.", "Cluster", OF_NODE_CHANGE),
    })
}

pub(in super::super) fn set_replicas() -> Value {
    json!({
        "operationId": "setReplicas",
        "summary": "Set the number of replicas of each partition of a topic",
        "description": "Nodes that join are sent the log in the background, while appends go on; until then they are in `joining`.",
        "requestBody": { "required": true, "content": { MediaType::Json.name(): {
            "schema": reference("NewReplicas"),
            "example": { "replicas": 1 },
        } } },
        "responses": answers("200", "It is to have them. This is the topic then.", "Topic", OF_TOPIC_CHANGE),
    })
}

pub(in super::super) fn open_uncleanly() -> Value {
    json!({
        "operationId": "openUncleanly",
        "summary": "Open partitions with what is left of them",
        "description": "For partitions whose replicas are lost for good, too many for a clean opening. The replicas that are there become the \
            replica set and keep what they hold; acknowledged records that only the others held are lost. First see that the nodes that are away are \
            stopped. Partitions that do not need it are left as they are, and are in neither list.",
        "requestBody": { "required": true, "content": { MediaType::Json.name(): {
            "schema": reference("NewOpening"),
            "example": { "partitions": [0] },
        } } },
        "responses": answers("200", "These were opened.", "OpenedUncleanly", OF_TOPIC_CHANGE),
    })
}

pub(in super::super) fn list_topics() -> Value {
    json!({
        "operationId": "listTopics",
        "summary": "Topics by name",
        "parameters": paging("this name", "a"),
        "responses": answers("200", "The topics.", "TopicList", &[Kind::MalformedQuery]),
    })
}

pub(in super::super) fn create_topic() -> Value {
    let problems = [
        Kind::TopicExists,
        Kind::InvalidTopic,
        Kind::MalformedQuery,
        Kind::OutcomeUnknown,
    ];
    let mut responses = answers("201", "The topic is there, on every core.", "Topic", &problems);
    responses["201"]["headers"] =
        json!({ "Location": always("The topic's path.", json!({ "type": "string" })) });
    json!({
        "operationId": "createTopic",
        "summary": "Create a topic",
        "requestBody": { "required": true, "content": { MediaType::Json.name(): {
            "schema": reference("NewTopic"),
            "example": { "name": "payments", "partitions": 3, "configs": { "retention.ms": "86400000" } },
        } } },
        "responses": responses,
    })
}

pub(in super::super) fn describe_topic() -> Value {
    json!({
        "operationId": "describeTopic",
        "summary": "A topic and where its partitions stand",
        "responses": answers("200", "The topic.", "Topic", &[Kind::UnknownTopic, Kind::MalformedQuery]),
    })
}

pub(in super::super) fn grow_topic() -> Value {
    json!({
        "operationId": "growTopic",
        "summary": "Give a topic more partitions",
        "description": "Records with a key may then go to another partition than those before with the same key.",
        "requestBody": { "required": true, "content": { MediaType::Json.name(): {
            "schema": reference("NewPartitions"),
            "example": { "partitions": 6 },
        } } },
        "responses": answers("200", "The topic has them, on every core.", "Topic", OF_TOPIC_CHANGE),
    })
}

pub(in super::super) fn delete_topic() -> Value {
    json!({
        "operationId": "deleteTopic",
        "summary": "Delete a topic with its records",
        "responses": no_content("It is gone.", OF_TOPIC_CHANGE),
    })
}

/// The four bodies that an append can have.
fn records_body() -> Value {
    let text = |what: &str, example: &str| json!({ "schema": { "type": "string", "description": what }, "example": example });
    json!({ "required": true, "content": {
        MediaType::Json.name(): {
            "schema": { "type": "array", "minItems": 1, "items": reference("NewRecord") },
            "example": [
                { "key": "a", "value": "one", "headers": [{ "key": "source", "value": "web" }] },
                { "key": "b", "value_base64": "/w==" },
            ],
        },
        MediaType::JsonLines.name(): text(
            "One `NewRecord` a line, as reading with this media type gives them.",
            "{\"key\":\"a\",\"value\":\"one\"}\n{\"key\":\"b\",\"value\":null}\n",
        ),
        MediaType::Text.name(): text("One record a line.", "one\ntwo\n"),
        MediaType::Bytes.name(): text("One record: the body is its value.", "one"),
    } })
}

fn key() -> Value {
    query(
        "key",
        "The key of all records of a body that is not JSON.",
        json!({ "type": "string" }),
        Value::Null,
    )
}

fn key_and(conditions: &[Value]) -> Vec<Value> {
    [&[key()][..], conditions].concat()
}

fn if_tail() -> [Value; 2] {
    let what = "In a topic with one order: append only if the first record gets this position, and all below was ordered before. \
        The records are of one partition then; where other nodes can join, of partition 0.";
    let mut header = query(
        "If-Match",
        "The same as `if_tail`, in quotes.",
        json!({ "type": "string" }),
        Value::Null,
    );
    header["in"] = "header".into();
    [
        query(
            "if_tail",
            what,
            json!({ "type": "integer", "minimum": 0 }),
            Value::Null,
        ),
        header,
    ]
}

fn if_offset() -> Value {
    query(
        "if_offset",
        "Append only if the first record gets this offset.",
        json!({ "type": "integer", "minimum": 0 }),
        Value::Null,
    )
}

fn of_append() -> Vec<Kind> {
    let own = [
        Kind::MalformedHeader,
        Kind::ConditionFailed,
        Kind::NoOrder,
        Kind::InternalTopic,
        Kind::InvalidRecord,
        Kind::OutcomeUnknown,
        Kind::StorageFault,
    ];
    [OF_PARTITION, &own].concat()
}

pub(in super::super) fn append_to_topic() -> Value {
    json!({
        "operationId": "appendToTopic",
        "summary": "Append records, each to the partition that its key chooses as Kafka's clients do (murmur2)",
        "description": "Records without a key go to one partition, any. What goes to one partition is appended as a \
            whole; if a partition refuses, the problem's `appended` says what the others have.",
        "parameters": key_and(&if_tail()),
        "requestBody": records_body(),
        "responses": answers("200", "The records are durable.", "AppendedToTopic", &of_append()),
    })
}

pub(in super::super) fn append_to_partition() -> Value {
    json!({
        "operationId": "appendToPartition",
        "summary": "Append records to a partition: all of them or none",
        "parameters": key_and(&[&if_tail()[..], &[if_offset()]].concat()),
        "requestBody": records_body(),
        "responses": answers("200", "The records are durable, one behind the other from `first_offset` on.", "Appended",
            &of_append()),
    })
}

pub(in super::super) fn read() -> Value {
    let own = [
        Kind::OffsetOutOfRange,
        Kind::RecordTooLarge,
        Kind::StorageFault,
        Kind::MalformedHeader,
    ];
    let mut responses = answers(
        "200",
        "Committed records.",
        "Page",
        &[OF_PARTITION, &own].concat(),
    );
    let text = |what: &str| json!({ "schema": { "type": "string", "description": what } });
    responses["200"]["content"][MediaType::JsonLines.name()] =
        text("One record a line. The headers say where the partition stands.");
    responses["200"]["content"][MediaType::EventStream.name()] = text(
        "The partition is followed: an event for each record, its id the offset; comments in between; an event `end` \
         with a reason (trimmed, deleted, stopping, failed) when it cannot go on. Only `offset`, `timestamp_ms` and \
         `isolation` are taken, and Last-Event-ID, behind which it goes on.",
    );
    let stands = |what: &str| {
        let description = format!("{what} A stream of events does not have it.");
        json!({ "description": description, "schema": { "type": "integer", "minimum": 0 } })
    };
    responses["200"]["headers"] = json!({
        "Ropewalk-Next-Offset": stands("Where to go on."),
        "Ropewalk-First-Offset": stands("The first offset that is kept."),
        "Ropewalk-Tail": stands("The first offset that is not committed yet."),
    });
    let mut parameters = read_parameters();
    let list = parameters.as_array_mut().expect("it is a list");
    list.push(isolation());
    json!({
        "operationId": "readRecords",
        "summary": "Read a partition, wait at its tail, or follow it",
        "parameters": parameters,
        "responses": responses,
    })
}

fn isolation() -> Value {
    query(
        "isolation",
        "`committed` (default): no record of an aborted transaction, and none at or behind the first of an open one. \
         `uncommitted`: these, too.",
        json!({ "type": "string", "enum": ["committed", "uncommitted"], "default": "committed" }),
        json!("committed"),
    )
}

fn position(what: &str, unless_said: &str) -> Value {
    query(
        "position",
        what,
        json!({ "type": "string", "pattern": "^([0-9]+|earliest|latest)$" }),
        json!(unless_said),
    )
}

pub(in super::super) fn read_in_order() -> Value {
    let own = [
        Kind::NoOrder,
        Kind::PositionOutOfRange,
        Kind::RecordTooLarge,
        Kind::StorageFault,
    ];
    let what = "Records of all partitions, in the order that they have for every reader.";
    let mut responses = answers("200", what, "PageInOrder", &[OF_TOPIC, &own].concat());
    let lines =
        json!({ "type": "string", "description": "One record a line. The headers say where to go on." });
    responses["200"]["content"][MediaType::JsonLines.name()] = json!({ "schema": lines });
    let stands = |what: &str| json!({ "description": what, "schema": { "type": "integer", "minimum": 0 } });
    responses["200"]["headers"] = json!({
        "Ropewalk-Next-Position": stands("Where to go on."),
        "Ropewalk-Ordered": stands("The first position that no record has yet."),
    });
    let mut parameters = read_parameters();
    let list = parameters.as_array_mut().expect("it is a list");
    // In place of the offset and the time.
    list.splice(
        ..2,
        [position(
            "Where to begin: a position, `earliest` (default) or `latest`.",
            "earliest",
        )],
    );
    json!({
        "operationId": "readInOrder",
        "summary": "Read a topic with one order (`ropewalk.order=total`) by position, or wait at its end",
        "parameters": parameters,
        "responses": responses,
    })
}

pub(in super::super) fn cut() -> Value {
    let own = [Kind::NoOrder, Kind::PositionOutOfRange, Kind::StorageFault];
    json!({
        "operationId": "cut",
        "summary": "Of each partition, the first offset that has no position below this one: a consistent snapshot of the topic",
        "parameters": [position("A position, or `latest` (default): all that is ordered now.", "latest")],
        "responses": answers("200", "The cut.", "Cut", &[OF_TOPIC, &own].concat()),
    })
}

pub(in super::super) fn trim_in_order() -> Value {
    let own = [
        Kind::InternalTopic,
        Kind::NoOrder,
        Kind::OnlyCompacted,
        Kind::PositionOutOfRange,
        Kind::OffsetOutOfRange,
        Kind::OutcomeUnknown,
        Kind::StorageFault,
    ];
    json!({
        "operationId": "trimInOrder",
        "summary": "Give up the beginning of a topic with one order: each partition at the same cut",
        "parameters": [query("before_position", "The first position that is kept, or `ordered` to keep nothing. Needed.",
            json!({ "type": "string", "pattern": "^([0-9]+|ordered)$" }), json!("0"))],
        "responses": answers("200", "Durably given up.", "TrimmedInOrder", &[OF_TOPIC, &own].concat()),
    })
}

fn read_parameters() -> Value {
    let records = json!({ "type": "integer", "minimum": 1, "maximum": RECORDS_MAX, "default": RECORDS });
    json!([
        query(
            "offset",
            "Where to begin: an offset, `earliest` (default) or `latest` (default of following).",
            json!({ "type": "string", "pattern": "^([0-9]+|earliest|latest)$" }),
            json!("earliest")
        ),
        query(
            "timestamp_ms",
            "Begin at the first record of this time or a later one instead: milliseconds since 1970.",
            json!({ "type": "integer", "minimum": 0 }),
            Value::Null
        ),
        query("limit", "Records in the answer.", records, json!(10)),
        query(
            "bytes",
            "Bytes of text in the answer; at least one record is told.",
            json!({ "type": "integer", "minimum": 1 }),
            json!(65536)
        ),
        query(
            "wait_ms",
            "How long to wait for the first record.",
            json!({ "type": "integer", "minimum": 0, "maximum": 60000, "default": 0 }),
            json!(0)
        ),
    ])
}

pub(in super::super) fn trim() -> Value {
    let own = [
        Kind::InternalTopic,
        Kind::OnlyCompacted,
        Kind::OffsetOutOfRange,
        Kind::OutcomeUnknown,
    ];
    json!({
        "operationId": "trim",
        "summary": "Give up the beginning of a partition",
        "parameters": [query("before", "The first offset that is kept, or `tail` to keep nothing. Needed.",
            json!({ "type": "string", "pattern": "^([0-9]+|tail)$" }), json!("0"))],
        "responses": answers("200", "Durably given up.", "Trimmed", &[OF_PARTITION, &own].concat()),
    })
}
