//! Purposes of the operations on transactions.

use serde_json::{Value, json};

use super::super::super::problem::Kind;
use super::super::answers;
use super::{OF_PARTITION, paging, query};

pub(in super::super::super) fn list() -> Value {
    let Value::Array(mut parameters) = paging("this id", "a") else {
        unreachable!("parameters are a list");
    };
    parameters.extend([
        query(
            "state",
            "Only those in one of these states, with commas between.",
            json!({ "type": "string", "pattern":
                "^(Empty|Ongoing|PrepareCommit|PrepareAbort|CompleteCommit|CompleteAbort)(,[A-Za-z]+)*$" }),
            json!("Ongoing"),
        ),
        query(
            "prefix",
            "Only ids that begin so.",
            json!({ "type": "string" }),
            json!("payments-"),
        ),
        query(
            "open_ms",
            "Only those that have been open for so long at least.",
            json!({ "type": "integer", "minimum": 0 }),
            json!(60_000),
        ),
        query(
            "partition",
            "Only those that are not completed and have this partition, as TOPIC:PARTITION.",
            json!({ "type": "string" }),
            Value::Null,
        ),
    ]);
    json!({
        "operationId": "listTransactions",
        "summary": "Transactional ids, each with its latest transaction",
        "description": "Of all nodes; `coordinator` is the one that decides on it. `open_ms` is the time since a transaction began that is not completed.",
        "parameters": parameters,
        "responses": answers("200", "The transactional ids.", "TransactionList",
            &[Kind::UnknownTopic, Kind::UnknownPartition, Kind::MalformedQuery]),
    })
}

pub(in super::super::super) fn describe() -> Value {
    json!({
        "operationId": "describeTransaction",
        "summary": "A transactional id with the partitions of its open transaction",
        "responses": answers("200", "The transactional id.", "Transaction",
            &[Kind::UnknownTransaction, Kind::MalformedQuery]),
    })
}

pub(in super::super::super) fn abort() -> Value {
    let problems = [
        Kind::UnknownTransaction,
        Kind::TransactionNotOpen,
        Kind::MalformedQuery,
        Kind::OutcomeUnknown,
    ];
    let mut responses = answers("200", "It is aborted everywhere.", "Transaction", &problems);
    responses["202"] = answers(
        "202",
        "It is decided that it aborts; some partition does not know yet.",
        "Transaction",
        &[],
    )["202"]
        .clone();
    json!({
        "operationId": "abortTransaction",
        "summary": "Abort an open transaction and fence its producer",
        "description": "As at its timeout: the producer has to begin anew before it can go on.",
        "responses": responses,
    })
}

pub(in super::super::super) fn of_partition() -> Value {
    json!({
        "operationId": "partitionTransactions",
        "summary": "Transactions that are open in a partition, and whether they hang",
        "description": "One hangs if no coordinator knows it: nobody will end it. Null says that not all nodes could be asked.",
        "parameters": paging("this first offset", "0"),
        "responses": answers("200", "What is open, by first offset.", "PartitionTransactions", OF_PARTITION),
    })
}

pub(in super::super::super) fn abort_hanging() -> Value {
    let own = [
        Kind::TransactionNotOpen,
        Kind::TransactionNotHanging,
        Kind::OutcomeUnknown,
    ];
    json!({
        "operationId": "abortHangingTransaction",
        "summary": "Abort a transaction that no coordinator knows, in one partition",
        "responses": answers("200", "It is aborted there.", "AbortedHanging", &[OF_PARTITION, &own].concat()),
    })
}
