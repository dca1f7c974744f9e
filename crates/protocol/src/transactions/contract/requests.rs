//! The requests about transactions, each with its answer.

use super::{Name, TopicPartition, TransactionError};
use crate::ProducerId;

/// The state of a transactional id: that of its latest transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransactionState {
    /// The producer has its id and epoch, and no transaction since.
    Empty,
    /// Partitions are in the transaction; it is open.
    Ongoing,
    /// It is decided that it commits; partitions are being told.
    PrepareCommit,
    /// It is decided that it aborts; partitions are being told.
    PrepareAbort,
    /// It has committed everywhere.
    CompleteCommit,
    /// It has aborted everywhere.
    CompleteAbort,
}

impl TransactionState {
    /// Every state.
    pub const ALL: [TransactionState; 6] = [
        TransactionState::Empty,
        TransactionState::Ongoing,
        TransactionState::PrepareCommit,
        TransactionState::PrepareAbort,
        TransactionState::CompleteCommit,
        TransactionState::CompleteAbort,
    ];

    /// As Kafka writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TransactionState::Empty => "Empty",
            TransactionState::Ongoing => "Ongoing",
            TransactionState::PrepareCommit => "PrepareCommit",
            TransactionState::PrepareAbort => "PrepareAbort",
            TransactionState::CompleteCommit => "CompleteCommit",
            TransactionState::CompleteAbort => "CompleteAbort",
        }
    }

    /// Says whether the outcome is decided and partitions are being told.
    #[must_use]
    pub fn is_prepared(self) -> bool {
        matches!(
            self,
            TransactionState::PrepareCommit | TransactionState::PrepareAbort
        )
    }

    /// Says whether a transaction has begun and is not completed: its partitions hold back what readers of committed records see.
    #[must_use]
    pub fn is_open(self) -> bool {
        self == TransactionState::Ongoing || self.is_prepared()
    }

    /// Says whether a transaction has ended and none has begun since.
    #[must_use]
    pub fn is_complete(self) -> bool {
        matches!(
            self,
            TransactionState::CompleteCommit | TransactionState::CompleteAbort
        )
    }

    /// Says whether the latest transaction commits; nobody knows before that is decided.
    #[must_use]
    pub fn is_commit(self) -> bool {
        matches!(
            self,
            TransactionState::PrepareCommit | TransactionState::CompleteCommit
        )
    }
}

/// InitProducerId: an instance of a producer takes over the transactional id. An open transaction is aborted first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitProducer {
    /// The transactional id.
    pub transactional_id: Name,
    /// The longest time that its transactions may stay open, in milliseconds.
    pub timeout_ms: i32,
    /// The id and epoch that the instance has already and goes on from (KIP-360).
    pub producer: Option<(ProducerId, i16)>,
}

/// The identity that a producer writes with from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Initialized {
    /// Its id.
    pub producer: ProducerId,
    /// Its epoch.
    pub epoch: i16,
}

/// Partitions that a transaction is about to write to. The first ones open it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddPartitions {
    /// The transactional id.
    pub transactional_id: Name,
    /// The producer.
    pub producer: ProducerId,
    /// Its epoch.
    pub epoch: i16,
    /// The partitions; those that are in already do no harm.
    pub partitions: Vec<TopicPartition>,
    /// The version of transactions that the client speaks: 2 if Produce or TxnOffsetCommit adds them by itself.
    pub version: u8,
}

/// Partitions of which a leader asks whether the open transaction has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyPartitions {
    /// The transactional id.
    pub transactional_id: Name,
    /// The producer.
    pub producer: ProducerId,
    /// Its epoch.
    pub epoch: i16,
    /// The partitions.
    pub partitions: Vec<TopicPartition>,
}

/// The outcome for one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedPartition {
    /// The partition.
    pub partition: TopicPartition,
    /// Success if the open transaction has it; else [`TransactionError::TransactionAbortable`].
    pub outcome: Result<(), TransactionError>,
}

/// EndTxn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndTransaction {
    /// The transactional id.
    pub transactional_id: Name,
    /// The producer.
    pub producer: ProducerId,
    /// Its epoch.
    pub epoch: i16,
    /// Says whether the transaction commits.
    pub commit: bool,
    /// Says whether the client takes another epoch for its next transaction: it is of version 2 (EndTxn from version 5 on).
    pub bumps_epoch: bool,
}

/// An operator ends a transaction that its producer does not end, as its timeout would: the producer is fenced. The answer comes once
/// the outcome is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbortTransaction {
    /// The transactional id.
    pub transactional_id: Name,
    /// The start of the transaction that is meant, milliseconds since 1970: no other one is aborted.
    pub start_ms: i64,
}

/// The outcome is durable. The identity is that of the next transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The producer's id from now on.
    pub producer: ProducerId,
    /// Its epoch from now on.
    pub epoch: i16,
}

/// DescribeTransactions, for one id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribeTransaction {
    /// The transactional id.
    pub transactional_id: Name,
}

/// A transactional id and its latest transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedTransaction {
    /// The transactional id.
    pub transactional_id: Name,
    /// The state.
    pub state: TransactionState,
    /// The longest time that its transactions may stay open, in milliseconds.
    pub timeout_ms: i32,
    /// The start of the latest transaction, milliseconds since 1970; -1 if there was none.
    pub start_ms: i64,
    /// The producer.
    pub producer: ProducerId,
    /// Its epoch.
    pub epoch: i16,
    /// The partitions of a transaction that is not completed, sorted.
    pub partitions: Vec<TopicPartition>,
}

/// ListTransactions. Patterns of ids are the server's to match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListTransactions {
    /// The states; all if empty.
    pub states: Vec<TransactionState>,
    /// The producers; all if empty.
    pub producers: Vec<ProducerId>,
    /// Only those whose latest transaction began longer ago, in milliseconds; all if negative. As in Kafka, an id without a
    /// transaction counts as one that began in 1970.
    pub duration_ms: i64,
    /// Only those whose transaction is not completed and has this partition; all if `None`.
    pub partition: Option<TopicPartition>,
}

/// A transactional id in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTransaction {
    /// The transactional id.
    pub transactional_id: Name,
    /// The producer.
    pub producer: ProducerId,
    /// Its epoch.
    pub epoch: i16,
    /// The state.
    pub state: TransactionState,
    /// The longest time that its transactions may stay open, in milliseconds.
    pub timeout_ms: i32,
    /// The start of the latest transaction, milliseconds since 1970; -1 if there was none.
    pub start_ms: i64,
    /// The number of partitions of a transaction that is not completed.
    pub partition_count: usize,
}
