//! Why a transaction coordinator refuses, in Kafka's terms: each variant stands for the error code that its comment names.
//!
//! The server turns these into codes in its one table of codes; the texts are for people.

use std::time::Duration;

use thiserror::Error;

use super::{Name, TransactionState};

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TransactionError {
    /// COORDINATOR_LOAD_IN_PROGRESS: the log is still being replayed. Retry.
    #[error("the coordinator is still loading")]
    CoordinatorLoading,
    /// COORDINATOR_NOT_AVAILABLE: the log did not take the change, or is so far behind that no more may wait for it; nothing was
    /// changed. Retry.
    #[error("the transactions' log did not take the change")]
    NotPersisted,
    /// COORDINATOR_NOT_AVAILABLE: there was no producer id to be had; nothing was changed. Retry.
    #[error("there is no producer id to be had now")]
    NoProducerId,
    /// CONCURRENT_TRANSACTIONS: another change of this id is under way, or its last transaction is still being completed. Retry.
    #[error(
        "another change of the transactional id is under way, or its last transaction is still being completed"
    )]
    ConcurrentTransactions,
    /// INVALID_TXN_STATE: the transaction cannot end like that.
    #[error("a transaction in state {state} cannot end by {wanted}", state = .state.name(), wanted = if *.commit { "a commit" } else { "an abort" })]
    InvalidTxnState {
        /// The id's state.
        state: TransactionState,
        /// The outcome that was asked for.
        commit: bool,
    },
    /// INVALID_PRODUCER_ID_MAPPING: the transactional id is not known, or has another producer id now.
    #[error("the transactional id does not have this producer id")]
    InvalidProducerIdMapping,
    /// PRODUCER_FENCED, in older versions INVALID_PRODUCER_EPOCH: another instance, or the coordinator, has taken over.
    #[error("the producer's epoch is not the current one, {current}")]
    StaleEpoch {
        /// The current epoch.
        current: i16,
    },
    /// INVALID_TRANSACTION_TIMEOUT.
    #[error("a transaction's timeout lies above zero and is at most {max:?}, not {got_ms} ms")]
    InvalidTimeout {
        /// The longest that is allowed.
        max: Duration,
        /// The request's, in milliseconds.
        got_ms: i32,
    },
    /// INVALID_REQUEST: a part of the request is missing or impossible.
    #[error("invalid request: {what}")]
    InvalidRequest {
        /// The one that is refused, and the reason.
        what: &'static str,
    },
    /// TRANSACTION_ABORTABLE: the partition is not in the transaction. Abort it.
    #[error("the partition is not in the transaction")]
    TransactionAbortable,
    /// TRANSACTIONAL_ID_NOT_FOUND.
    #[error("there is no transactional id {transactional_id}")]
    TransactionalIdNotFound {
        /// The id.
        transactional_id: Name,
    },
    /// POLICY_VIOLATION: a limit of this coordinator is reached; a retry does not help.
    #[error("no more than {max} {what}; this limit is fixed")]
    LimitReached {
        /// Of what there are too many.
        what: &'static str,
        /// The limit.
        max: usize,
    },
}
