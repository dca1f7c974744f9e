//! Questions: the leader of a partition asks a transaction's coordinator whether the transaction may open there (`shard/verifying.rs`).
//!
//! Every question is answered, with a refusal at least: batches wait for it.

use std::rc::Rc;
use std::time::Duration;

use kafka_wire::add_partitions_to_txn::{AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction};
use kafka_wire::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, ErrorCode, Text};
use platform::turns;
use protocol::ProducerId;
use protocol::groups::TopicPartition;
use protocol::transactions::{AddPartitions, VerifyPartitions};
use shard::{Claim, Question, Shard, Unverified};

use tokio::time::timeout;

use crate::core::Core;
use crate::error_codes::transaction_code;

/// The version in which nodes ask each other: the newest, which tells all errors apart.
const VERSION: i16 = 5;
/// The time for which batches wait for an answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// The version of transactions whose partitions are added by leaders.
const ADDED_BY_LEADERS: u8 = 2;

/// Carries the questions of a shard, until the node stops.
pub(crate) async fn carry_questions(core: Rc<Core>, shard: Rc<Shard>) {
    loop {
        shard.until_questions().await;
        while let Some(question) = shard.next_question() {
            let (core, shard) = (core.clone(), shard.clone());
            turns::spawn_own(async move {
                let answer = timeout(PATIENCE, core.verify(&question)).await;
                let answer =
                    answer.unwrap_or_else(|_| Err(Unverified::Unreachable("it does not answer".into())));
                shard.verified(&question, answer);
            });
        }
    }
}

impl Core {
    async fn verify(self: &Rc<Self>, question: &Question) -> Result<(), Unverified> {
        let topic = self.with_metadata(|metadata| {
            let topic = metadata.topic(question.partition.topic);
            topic.map(|topic| topic.name.clone())
        });
        let topic = topic.ok_or_else(|| Unverified::Unreachable("the topic is being deleted".into()))?;
        let place = TopicPartition {
            topic,
            index: question.partition.index,
        };
        let producer = (question.producer, question.producer_epoch);
        let code = self.verify_place(&question.claim, producer, place).await;
        unverified(code)
    }

    /// Has a partition be part of a producer's transaction, or finds that it is. Gives Kafka's code.
    pub(crate) async fn verify_place(
        self: &Rc<Self>,
        claim: &Claim,
        (producer, epoch): (ProducerId, i16),
        place: TopicPartition,
    ) -> ErrorCode {
        let Some((node, _)) = self.transaction_coordinator_of(&claim.transactional_id) else {
            // It may be that this node has not heard of the topic yet.
            return ErrorCode::CoordinatorNotAvailable;
        };
        if node != self.facts.node {
            return self.verify_there(node, claim, (producer, epoch), place).await;
        }
        let (transactional_id, partitions) = (claim.transactional_id.clone(), vec![place]);
        let answer = match claim.adds {
            true => {
                let add = AddPartitions {
                    transactional_id,
                    producer,
                    epoch,
                    partitions,
                    version: ADDED_BY_LEADERS,
                };
                self.ask_transactions(add).await
            }
            false => {
                let verify = VerifyPartitions {
                    transactional_id,
                    producer,
                    epoch,
                    partitions,
                };
                let verified = self.ask_transactions(verify).await;
                verified.map(|verified| {
                    let mut outcomes = verified?.into_iter();
                    outcomes.try_for_each(|partition| partition.outcome)
                })
            }
        };
        match answer {
            Ok(Ok(())) => ErrorCode::None,
            Ok(Err(error)) => transaction_code(&error),
            Err(code) => code,
        }
    }

    async fn verify_there(
        self: &Rc<Self>,
        node: protocol::leader::NodeId,
        claim: &Claim,
        (producer, epoch): (ProducerId, i16),
        place: TopicPartition,
    ) -> ErrorCode {
        let request = AddPartitionsToTxnRequest {
            transactions: vec![AddPartitionsToTxnTransaction {
                transactional_id: Text::from(&*claim.transactional_id),
                producer_id: producer.0,
                producer_epoch: epoch,
                verify_only: !claim.adds,
                topics: vec![AddPartitionsToTxnTopic {
                    name: Text::from(&*place.topic),
                    partitions: vec![place.index],
                }],
            }],
            ..AddPartitionsToTxnRequest::default()
        };
        let told: Option<AddPartitionsToTxnResponse> = self.ask_node(node, request, VERSION).await;
        let code = told.and_then(|told| {
            let result = told.results_by_transaction.into_iter().next()?;
            let topic = result.topic_results.into_iter().next()?;
            let code = topic.results_by_partition.first()?.partition_error_code;
            ErrorCode::from_code(code)
        });
        code.unwrap_or(ErrorCode::NetworkException)
    }
}

/// The meaning of a coordinator's code for the batches that wait.
fn unverified(code: ErrorCode) -> Result<(), Unverified> {
    Err(match code {
        ErrorCode::None => return Ok(()),
        ErrorCode::ConcurrentTransactions => Unverified::Busy,
        ErrorCode::TransactionAbortable => Unverified::NotAdded,
        ErrorCode::ProducerFenced | ErrorCode::InvalidProducerEpoch => Unverified::Fenced,
        ErrorCode::InvalidProducerIdMapping | ErrorCode::TransactionalIdNotFound => {
            Unverified::UnknownProducer
        }
        ErrorCode::InvalidTxnState => Unverified::NoTransaction("none of it is open".into()),
        ErrorCode::InvalidRequest | ErrorCode::TopicAuthorizationFailed => {
            Unverified::NoTransaction(format!("{code:?}"))
        }
        ErrorCode::PolicyViolation => {
            Unverified::NoTransaction("a limit of its coordinator is reached".into())
        }
        code => Unverified::Unreachable(format!("{code:?}")),
    })
}
