//! The requests about offsets that are committed in a transaction: they are pending until the transaction ends.
//!
//! The transaction's outcome is decided elsewhere, by the transaction coordinator, which then has it carried out here.

use super::CommitOffsets;
use crate::producers::ProducerId;

/// TxnOffsetCommit: offsets that hold once the producer's transaction is committed, and never if it is aborted. Whoever takes the
/// request asks the transaction coordinator first whether the producer has a transaction with this epoch under way: here nothing
/// else would ever end what a producer without one leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitPending {
    /// The producer whose transaction it is.
    pub producer: ProducerId,
    /// Its epoch.
    pub producer_epoch: i16,
    /// The group, the committer and the offsets. Old clients give neither member nor generation: those are empty and negative.
    pub commit: CommitOffsets,
}

/// The end of a producer's transaction in all groups of this coordinator, as a marker brings it that is for a partition of the
/// groups' topic. May come again as often as the sender likes, with the same outcome each time; what is done already stays done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndTransaction {
    /// The producer.
    pub producer: ProducerId,
    /// The marker's epoch.
    pub producer_epoch: i16,
    /// The epoch of the transaction coordinator that sends the marker.
    pub coordinator_epoch: i32,
    /// The version of the transaction (`transaction.version`): from 2 on a marker's epoch is higher than that of all that it ends
    /// (KIP-890), and a late one ends nothing of the next transaction.
    pub version: i16,
    /// The outcome: committed, or else aborted.
    pub commit: bool,
}

impl EndTransaction {
    /// Says whether it ends what the producer has pending with an epoch.
    pub(crate) fn ends(&self, pending_epoch: i16) -> bool {
        // The last epoch cannot be raised any more.
        match self.version >= 2 && self.producer_epoch < i16::MAX {
            true => pending_epoch < self.producer_epoch,
            false => pending_epoch <= self.producer_epoch,
        }
    }
}
