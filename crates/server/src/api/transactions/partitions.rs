//! AddPartitionsToTxn: up to version 3 a client's, for one transaction; from version 4 on a broker's, for several, which may only want to know
//! whether the partitions are there (KIP-890).

use std::rc::Rc;

use kafka_wire::add_partitions_to_txn::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult, AddPartitionsToTxnTransaction,
};
use kafka_wire::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, ErrorCode, Text};
use protocol::ProducerId;
use protocol::groups::{GROUPS_TOPIC, TopicPartition};
use protocol::metadata::is_internal;
use protocol::transactions::{AddPartitions, VerifyPartitions};

use super::super::Envelope;
use super::{fenced_as_known, name};
use crate::core::Core;
use crate::error_codes::transaction_code;
use crate::owner::find_partition;

/// Brokers send these versions, clients those before.
const FIRST_OF_BROKERS: i16 = 4;
/// Clients know PRODUCER_FENCED from this version on (KIP-588).
const FIRST_WITH_FENCED: i16 = 2;
/// From this version on a partition that is not there is told by its own code.
const FIRST_WITH_ABORTABLE: i16 = 5;

/// The versions of transactions that clients have who add partitions by themselves, and whose leaders do it for them.
const OF_CLIENTS: u8 = 0;
const OF_LEADERS: u8 = 2;

pub(in crate::api) async fn add_partitions_to_txn(
    core: Rc<Core>,
    request: AddPartitionsToTxnRequest,
    Envelope { version, .. }: Envelope,
) -> AddPartitionsToTxnResponse {
    add_partitions(&core, request, version).await
}

/// The same for another node.
pub(crate) async fn add_partitions(
    core: &Rc<Core>,
    request: AddPartitionsToTxnRequest,
    version: i16,
) -> AddPartitionsToTxnResponse {
    if version < FIRST_OF_BROKERS {
        let transaction = AddPartitionsToTxnTransaction {
            transactional_id: request.v3_and_below_transactional_id,
            producer_id: request.v3_and_below_producer_id,
            producer_epoch: request.v3_and_below_producer_epoch,
            verify_only: false,
            topics: request.v3_and_below_topics,
        };
        return AddPartitionsToTxnResponse {
            results_by_topic_v3_and_below: add(core, &transaction, version).await,
            ..AddPartitionsToTxnResponse::default()
        };
    }
    let mut results = Vec::with_capacity(request.transactions.len());
    for transaction in request.transactions {
        results.push(AddPartitionsToTxnResult {
            topic_results: add(core, &transaction, version).await,
            transactional_id: transaction.transactional_id,
        });
    }
    AddPartitionsToTxnResponse {
        results_by_transaction: results,
        ..AddPartitionsToTxnResponse::default()
    }
}

async fn add(
    core: &Rc<Core>,
    transaction: &AddPartitionsToTxnTransaction,
    version: i16,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let unknown = |topic: &AddPartitionsToTxnTopic, index: i32| {
        // Offsets are added by another request.
        let is_kept =
            is_internal(&topic.name) && (version < FIRST_OF_BROKERS || &*topic.name != GROUPS_TOPIC);
        let found = core.with_metadata(|metadata| find_partition(metadata, &topic.name, index));
        match (found, is_kept) {
            (Err(code), _) => Some(code),
            (Ok(_), true) => Some(ErrorCode::TopicAuthorizationFailed),
            (Ok(_), false) => None,
        }
    };
    let codes: Vec<Vec<Option<ErrorCode>>> = transaction
        .topics
        .iter()
        .map(|topic| {
            topic
                .partitions
                .iter()
                .map(|index| unknown(topic, *index))
                .collect()
        })
        .collect();
    if codes.iter().flatten().any(Option::is_some) {
        return tell(transaction, |topic, partition| {
            codes[topic][partition].unwrap_or(ErrorCode::OperationNotAttempted)
        });
    }
    let partitions = transaction.topics.iter().flat_map(|topic| {
        let topic_name = name(&topic.name);
        topic.partitions.iter().map(move |index| TopicPartition {
            topic: topic_name.clone(),
            index: *index,
        })
    });
    let partitions: Vec<TopicPartition> = partitions.collect();
    let as_known = |code| match code {
        ErrorCode::TransactionAbortable if version < FIRST_WITH_ABORTABLE => ErrorCode::InvalidTxnState,
        code => fenced_as_known(code, version, FIRST_WITH_FENCED),
    };
    if transaction.verify_only {
        return verify(core, transaction, partitions, as_known).await;
    }
    let added = core.ask_transactions(AddPartitions {
        transactional_id: name(&transaction.transactional_id),
        producer: ProducerId(transaction.producer_id),
        epoch: transaction.producer_epoch,
        partitions,
        version: match version < FIRST_OF_BROKERS {
            true => OF_CLIENTS,
            false => OF_LEADERS,
        },
    });
    let code = match added.await {
        Ok(Ok(())) => ErrorCode::None,
        Ok(Err(error)) => as_known(transaction_code(&error)),
        Err(code) => code,
    };
    tell(transaction, |_, _| code)
}

async fn verify(
    core: &Rc<Core>,
    transaction: &AddPartitionsToTxnTransaction,
    partitions: Vec<TopicPartition>,
    as_known: impl Fn(ErrorCode) -> ErrorCode,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let verified = core.ask_transactions(VerifyPartitions {
        transactional_id: name(&transaction.transactional_id),
        producer: ProducerId(transaction.producer_id),
        epoch: transaction.producer_epoch,
        partitions,
    });
    match verified.await {
        Ok(Ok(outcomes)) => {
            let mut outcomes = outcomes.into_iter();
            tell(transaction, |_, _| {
                let outcome = outcomes
                    .next()
                    .expect("one outcome for each partition asked")
                    .outcome;
                outcome
                    .err()
                    .map_or(ErrorCode::None, |error| as_known(transaction_code(&error)))
            })
        }
        Ok(Err(error)) => {
            let code = as_known(transaction_code(&error));
            tell(transaction, |_, _| code)
        }
        Err(code) => tell(transaction, |_, _| code),
    }
}

/// The answer in the shape of the request; `code` is asked for each partition, by the places of its topic and of itself.
fn tell(
    transaction: &AddPartitionsToTxnTransaction,
    mut code: impl FnMut(usize, usize) -> ErrorCode,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let mut results = Vec::with_capacity(transaction.topics.len());
    for (at, topic) in transaction.topics.iter().enumerate() {
        let partitions = topic.partitions.iter().enumerate();
        let told = partitions.map(|(place, index)| AddPartitionsToTxnPartitionResult {
            partition_index: *index,
            partition_error_code: code(at, place).code(),
        });
        results.push(AddPartitionsToTxnTopicResult {
            results_by_partition: told.collect(),
            name: Text::clone(&topic.name),
        });
    }
    results
}
