//! Purposes of the operations on consumer groups.

use serde_json::{Value, json};

use super::super::super::media_type::MediaType;
use super::super::super::problem::Kind;
use super::super::{answers, no_content, reference};
use super::{dry_run, paging, query};

pub(in super::super::super) fn list() -> Value {
    json!({
        "operationId": "listGroups",
        "summary": "Consumer groups by name",
        "parameters": paging("this name", "a"),
        "responses": answers("200", "The groups.", "GroupList", &[Kind::MalformedQuery]),
    })
}

pub(in super::super::super) fn describe() -> Value {
    json!({
        "operationId": "describeGroup",
        "summary": "A group, its members and its lag",
        "description": "At most 1,000 members are told, and 100,000 partitions of all that they have; `member_count` says \
            how many members there are. `limit` and `after` are about `offsets`.",
        "parameters": paging("this partition, as TOPIC:PARTITION", "a:0"),
        "responses": answers("200", "The group.", "Group",
            &[Kind::UnknownGroup, Kind::InvalidGroup, Kind::MalformedQuery]),
    })
}

pub(in super::super::super) fn delete() -> Value {
    json!({
        "operationId": "deleteGroup",
        "summary": "Delete a group without members, with the offsets that it has committed",
        "responses": no_content("It is gone.", &[Kind::UnknownGroup, Kind::GroupNotEmpty, Kind::InvalidGroup,
            Kind::MalformedQuery, Kind::OutcomeUnknown]),
    })
}

pub(in super::super::super) fn set_offsets() -> Value {
    let problems = [
        Kind::UnknownTopic,
        Kind::UnknownPartition,
        Kind::NoOrder,
        Kind::OffsetOutOfRange,
        Kind::PositionOutOfRange,
        Kind::GroupNotEmpty,
        Kind::InvalidGroup,
        Kind::StorageFault,
        Kind::MalformedQuery,
        Kind::OutcomeUnknown,
    ];
    json!({
        "operationId": "setOffsets",
        "summary": "Say where a group without members goes on",
        "description": "Nothing is set unless every entry can be. A group that is not there is made.",
        "parameters": [dry_run()],
        "requestBody": { "required": true, "content": { MediaType::Json.name(): {
            "schema": { "type": "array", "minItems": 1, "maxItems": 10_000, "items": reference("NewOffset") },
            "example": [
                { "topic": "orders", "partition": 0, "offset": "earliest" },
                { "topic": "payments", "partition": 2, "timestamp_ms": 1_700_000_000_000_i64 },
            ],
        } } },
        "responses": answers("200", "The offsets are committed, in the order of the body.", "SetOffsets", &problems),
    })
}

pub(in super::super::super) fn forget_offsets() -> Value {
    let problems = [
        Kind::UnknownGroup,
        Kind::UnknownTopic,
        Kind::GroupNotEmpty,
        Kind::InvalidGroup,
        Kind::MalformedQuery,
        Kind::OutcomeUnknown,
    ];
    let topic = "The topic whose offsets go. Needed.";
    json!({
        "operationId": "forgetOffsets",
        "summary": "Forget what a group has committed of a topic that no member reads",
        "parameters": [query("topic", topic, json!({ "type": "string" }), json!("orders"))],
        "responses": answers("200", "They are gone.", "ForgottenOffsets", &problems),
    })
}
