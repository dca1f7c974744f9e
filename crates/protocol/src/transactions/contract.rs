//! The words in which the server and the transaction coordinator speak: requests, answers, actions, errors.
//!
//! Plain data, independent of any version of Kafka's wire format: the server translates. Nothing here decides.

mod ask;
mod error;
mod requests;

pub use ask::Ask;
pub use error::TransactionError;
pub use requests::{
    AbortTransaction, AddPartitions, DescribeTransaction, DescribedTransaction, EndTransaction, Ended,
    InitProducer, Initialized, ListTransactions, ListedTransaction, TransactionState, VerifiedPartition,
    VerifyPartitions,
};

use crate::ProducerId;
pub use crate::groups::{Name, NotPersisted, PersistId, StoredRecord, Ticket, TopicPartition};

/// Names an [`Action::WriteMarker`]: one partition's part of one transaction's end. No id stands for two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MarkerId(pub u64);

/// Names an [`Action::TakeProducerId`]; ids rise by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TakeId(pub u64);

/// Something that the server must do next.
#[derive(Debug)]
pub enum Action {
    /// Append these records to the transactions' log, all or none of them, in the order of the actions; then say so by
    /// `handle_persisted`. Several may be under way; they are reported in the order of their ids.
    Persist {
        /// The change whose outcome is to be reported.
        id: PersistId,
        /// The records to append; never empty.
        records: Vec<StoredRecord>,
    },
    /// Write a control batch that ends a transaction at one partition, then say so by `handle_marked`. The transaction's outcome
    /// is durable already. The same id may come again after [`Marked::Retry`].
    WriteMarker(WriteMarker),
    /// Take a producer id that nobody has, then say so by `handle_producer_id`.
    TakeProducerId {
        /// The taking whose outcome is to be reported.
        id: TakeId,
    },
    /// Answer a request. Whatever it promises is durable already.
    Answer {
        /// The request's.
        ticket: Ticket,
        /// The answer.
        answer: Answer,
    },
}

/// The end of a transaction at one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteMarker {
    /// The marker whose outcome is to be reported.
    pub id: MarkerId,
    /// The partition.
    pub partition: TopicPartition,
    /// The producer whose transaction it ends.
    pub producer: ProducerId,
    /// The epoch that the marker carries. With `version` 2 it is above the epoch that the transaction's records have.
    pub producer_epoch: i16,
    /// The coordinator's epoch: a partition refuses lower ones than it has seen.
    pub coordinator_epoch: i32,
    /// Says whether the records hold.
    pub commit: bool,
    /// The version of transactions by which it ended: 0 and 1 leave the epoch, 2 raises it (KIP-890, KIP-1228).
    pub version: u8,
}

/// The outcome of an [`Action::WriteMarker`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marked {
    /// The marker is durable at the partition, or was before.
    Done,
    /// The partition could not take it now, or nobody knows: it is to be sent again.
    Retry,
    /// There is no such partition any more, so that there is nothing to end.
    PartitionGone,
    /// The partition knows a coordinator of a higher epoch: this one has nothing to say about the transaction any more.
    Fenced,
}

/// There is no producer id to be had now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoProducerId;

/// A request to a coordinator. A wire request about several transactional ids becomes one of these for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// InitProducerId with a transactional id.
    Init(InitProducer),
    /// AddPartitionsToTxn, AddOffsetsToTxn, or what Produce and TxnOffsetCommit of newer versions add by themselves.
    AddPartitions(AddPartitions),
    /// AddPartitionsToTxn that only verifies.
    Verify(VerifyPartitions),
    /// EndTxn.
    End(EndTransaction),
    /// An abort that no client of Kafka's asks for.
    Abort(AbortTransaction),
    /// DescribeTransactions, for one id.
    Describe(DescribeTransaction),
    /// ListTransactions: those of this coordinator.
    List(ListTransactions),
}

/// The answer to the [`Request`] with the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// To InitProducerId.
    Init(Result<Initialized, TransactionError>),
    /// To AddPartitionsToTxn: all partitions, or none.
    AddPartitions(Result<(), TransactionError>),
    /// To a verification: one outcome for each partition in the order asked, or the reason why none was looked at.
    Verify(Result<Vec<VerifiedPartition>, TransactionError>),
    /// To EndTxn.
    End(Result<Ended, TransactionError>),
    /// To an abort: the transaction that was meant has it as its outcome.
    Abort(Result<(), TransactionError>),
    /// To DescribeTransactions.
    Describe(Result<DescribedTransaction, TransactionError>),
    /// To ListTransactions.
    List(Result<Vec<ListedTransaction>, TransactionError>),
}

impl Request {
    /// The transactional id that the request is about; none for ListTransactions.
    #[must_use]
    pub fn transactional_id(&self) -> Option<&Name> {
        match self {
            Request::Init(request) => Some(&request.transactional_id),
            Request::AddPartitions(request) => Some(&request.transactional_id),
            Request::Verify(request) => Some(&request.transactional_id),
            Request::End(request) => Some(&request.transactional_id),
            Request::Abort(request) => Some(&request.transactional_id),
            Request::Describe(request) => Some(&request.transactional_id),
            Request::List(_) => None,
        }
    }

    /// The answer of this kind that carries an error.
    pub(super) fn refused(&self, error: TransactionError) -> Answer {
        match self {
            Request::Init(_) => Answer::Init(Err(error)),
            Request::AddPartitions(_) => Answer::AddPartitions(Err(error)),
            Request::Verify(_) => Answer::Verify(Err(error)),
            Request::End(_) => Answer::End(Err(error)),
            Request::Abort(_) => Answer::Abort(Err(error)),
            Request::Describe(_) => Answer::Describe(Err(error)),
            Request::List(_) => Answer::List(Err(error)),
        }
    }
}

impl Answer {
    /// The same kind of answer, carrying an error.
    pub(super) fn refused(&self, error: TransactionError) -> Answer {
        match self {
            Answer::Init(_) => Answer::Init(Err(error)),
            Answer::AddPartitions(_) => Answer::AddPartitions(Err(error)),
            Answer::Verify(_) => Answer::Verify(Err(error)),
            Answer::End(_) => Answer::End(Err(error)),
            Answer::Abort(_) => Answer::Abort(Err(error)),
            Answer::Describe(_) => Answer::Describe(Err(error)),
            Answer::List(_) => Answer::List(Err(error)),
        }
    }
}
