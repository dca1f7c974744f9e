//! The shapes of consumer groups.

use serde_json::{Value, json};

use super::super::reference;
use super::{boolean, closed, list, object, or_null, text, whole};

pub(super) fn groups() -> Vec<(&'static str, Value)> {
    let kind = json!({ "enum": ["classic", "consumer"] });
    let listed = [
        ("name", text()),
        ("type", kind.clone()),
        ("state", text()),
        ("protocol_type", or_null("string")),
    ];
    let group = [
        ("name", text()),
        ("type", kind),
        ("state", text()),
        ("protocol_type", or_null("string")),
        ("protocol", or_null("string")),
        ("epoch", whole()),
        ("member_count", whole()),
        ("members", list(reference("Member"))),
        ("offsets", list(reference("GroupOffset"))),
        ("next", or_null("string")),
    ];
    let assigned = object(&[("topic", text()), ("partitions", list(whole()))], &[]);
    let member = [
        ("id", text()),
        ("instance", or_null("string")),
        ("client_id", text()),
        ("host", text()),
        (
            "assignment",
            json!({
                "type": ["array", "null"], "items": assigned,
                "description": "Null if it is not a consumer's, cannot be read, or is too long to be told.",
            }),
        ),
    ];
    let listing = [
        ("groups", list(reference("ListedGroup"))),
        ("next", or_null("string")),
        (
            "missing_nodes",
            json!({
                "type": "array", "items": whole(),
                "description": "Nodes whose groups are not among them: they are away, do not answer, or have not said where they serve HTTP.",
            }),
        ),
    ];
    let mut schemas = vec![
        ("ListedGroup", object(&listed, &[])),
        ("GroupList", object(&listing, &[])),
        ("Group", object(&group, &[])),
        ("Member", object(&member, &[])),
    ];
    schemas.extend(offsets());
    schemas
}

fn offsets() -> Vec<(&'static str, Value)> {
    let place = || vec![("topic", text()), ("partition", whole())];
    let with = |more: &[(&'static str, Value)]| [place(), more.to_vec()].concat();
    let told = with(&[
        ("offset", or_null("integer")),
        ("metadata", or_null("string")),
        ("first_offset", or_null("integer")),
        ("tail", or_null("integer")),
        ("lag", or_null("integer")),
    ]);
    let wanted = json!({
        "type": ["integer", "string"], "minimum": 0, "pattern": "^(earliest|latest)$",
        "description": "A number from `first_offset` to `tail`, `earliest` or `latest`.",
    });
    let time = json!({
        "type": "integer", "minimum": 0,
        "description": "Instead: the first record of this time or a later one, in milliseconds since 1970; else the tail.",
    });
    let position = json!({
        "type": "integer", "minimum": 0,
        "description": "Instead of all these, in a topic with one order: the cut of all partitions at this position.",
    });
    let new = with(&[("offset", wanted), ("timestamp_ms", time), ("position", position)]);
    let set = with(&[("before", or_null("integer")), ("offset", whole())]);
    let forgotten = object(&[("partition", whole()), ("offset", whole())], &[]);
    vec![
        ("GroupOffset", object(&told, &[])),
        (
            "NewOffset",
            closed(&new, &["partition", "offset", "timestamp_ms", "position"]),
        ),
        (
            "SetOffsets",
            object(
                &[("dry_run", boolean()), ("offsets", list(object(&set, &[])))],
                &[],
            ),
        ),
        (
            "ForgottenOffsets",
            object(&[("topic", text()), ("forgotten", list(forgotten))], &[]),
        ),
    ]
}
