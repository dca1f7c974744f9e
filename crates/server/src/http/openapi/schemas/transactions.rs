//! The shapes of transactions.

use serde_json::{Value, json};

use super::super::reference;
use super::{list, object, or_null, text, whole};

pub(super) fn transactions() -> Vec<(&'static str, Value)> {
    let listed = || {
        vec![
            ("id", text()),
            ("state", text()),
            ("producer_id", whole()),
            ("producer_epoch", whole()),
            ("coordinator", whole()),
            ("timeout_ms", whole()),
            ("start_ms", or_null("integer")),
            ("open_ms", or_null("integer")),
            ("partition_count", whole()),
        ]
    };
    let place = object(&[("topic", text()), ("partition", whole())], &[]);
    let described = [listed(), vec![("partitions", list(place))]].concat();
    let missing = |what: &str| json!({ "type": "array", "items": whole(), "description": what });
    let listing = [
        ("transactions", list(reference("ListedTransaction"))),
        ("next", or_null("string")),
        (
            "missing_nodes",
            missing(
                "Nodes whose transactions are not among them: they are away, do not answer, or have not said where they serve HTTP.",
            ),
        ),
    ];
    let mut known = object(&listed(), &[]);
    known["type"] = json!(["object", "null"]);
    known["description"] = "As its coordinator has it; null if none knows it.".into();
    let open = [
        ("first_offset", whole()),
        ("producer_id", whole()),
        ("producer_epoch", whole()),
        ("last_timestamp_ms", or_null("integer")),
        (
            "is_hanging",
            json!({ "type": ["boolean", "null"], "description": "Null if not all nodes could be asked." }),
        ),
        ("transaction", known),
    ];
    let of_partition = [
        ("partition", whole()),
        (
            "stable",
            json!({ "type": "integer", "minimum": 0,
                "description": "The first offset that readers of committed records do not see yet." }),
        ),
        ("tail", whole()),
        ("transactions", list(reference("OpenTransaction"))),
        ("next", or_null("string")),
        (
            "missing_nodes",
            missing("Nodes whose coordinators were not asked."),
        ),
    ];
    let aborted = [
        ("partition", whole()),
        ("first_offset", whole()),
        ("producer_id", whole()),
        ("producer_epoch", whole()),
    ];
    vec![
        ("ListedTransaction", object(&listed(), &[])),
        ("TransactionList", object(&listing, &[])),
        ("Transaction", object(&described, &[])),
        ("OpenTransaction", object(&open, &[])),
        ("PartitionTransactions", object(&of_partition, &[])),
        ("AbortedHanging", object(&aborted, &[])),
    ]
}
