//! The state of one transactional id, and the states that may follow it.
//!
//! A value: each step makes a new one out of the old, which stays until the new one is durable. No step here decides
//! whether it may be taken; that is `init`'s, `partitions`' and `end`'s.

use std::collections::BTreeSet;
use std::sync::Arc;

use planted::{Bug, planted};

use super::contract::{Initialized, TopicPartition, TransactionState};
use crate::ProducerId;

/// The last epoch that a producer may have. One more is left, for the markers of its last transaction.
pub(super) const LAST_EPOCH: i16 = i16::MAX - 1;

/// See the module. Every field stands in the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IdState {
    pub(super) phase: TransactionState,
    pub(super) producer: ProducerId,
    /// The producer id of the state before: another one only where ids have just changed.
    pub(super) previous: Option<ProducerId>,
    /// The producer id that holds once the transaction is completed, if the epochs of the old one are used up.
    pub(super) next: Option<ProducerId>,
    pub(super) epoch: i16,
    /// The epoch that the same instance had before it asked for another one (KIP-360): so a lost answer is given again.
    /// `None` if another instance took over, or the answer has arrived.
    pub(super) last_epoch: Option<i16>,
    /// Kafka's (KIP-939); kept as it was read, and never written by ourselves.
    pub(super) next_epoch: Option<i16>,
    pub(super) timeout_ms: i32,
    pub(super) partitions: Arc<BTreeSet<TopicPartition>>,
    /// The start of the latest transaction, milliseconds since 1970; -1 if there was none.
    pub(super) start_ms: i64,
    pub(super) updated_ms: i64,
    /// The version of transactions by which the latest step was taken.
    pub(super) version: u8,
}

/// The way in which a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) commit: bool,
    /// Says whether the epoch is raised: always, but for clients before version 2.
    pub(super) bumps_epoch: bool,
    /// The epoch of an instance that has its own transaction aborted and goes on.
    pub(super) last_epoch: Option<i16>,
    /// The producer id to go on with when the epochs are used up.
    pub(super) next: Option<ProducerId>,
}

impl IdState {
    /// A producer with a fresh id.
    pub(super) fn fresh(producer: ProducerId, timeout_ms: i32, now_ms: i64) -> IdState {
        IdState {
            phase: TransactionState::Empty,
            producer,
            previous: Some(producer),
            next: None,
            epoch: 0,
            last_epoch: None,
            next_epoch: None,
            timeout_ms,
            partitions: Arc::default(),
            start_ms: -1,
            updated_ms: now_ms,
            version: 0,
        }
    }

    /// The identity that its holder writes with, or will once the transaction is completed.
    pub(super) fn identity(&self) -> Initialized {
        match self.next {
            Some(producer) => Initialized { producer, epoch: 0 },
            None => Initialized {
                producer: self.producer,
                epoch: self.epoch,
            },
        }
    }

    /// Says whether no epoch is left to go on with.
    pub(super) fn is_used_up(&self) -> bool {
        self.epoch >= LAST_EPOCH
    }

    /// An instance takes over, or goes on if it named its epoch: with the next epoch.
    pub(super) fn raised(&self, timeout_ms: i32, last_epoch: Option<i16>, now_ms: i64) -> IdState {
        assert!(!self.is_used_up(), "used up epochs lead to another id");
        IdState {
            epoch: self.epoch + 1,
            previous: Some(self.producer),
            last_epoch,
            ..IdState::fresh(self.producer, timeout_ms, now_ms)
        }
    }

    /// The same, with another producer id.
    pub(super) fn moved(
        &self,
        producer: ProducerId,
        timeout_ms: i32,
        last_epoch: Option<i16>,
        now_ms: i64,
    ) -> IdState {
        IdState {
            previous: Some(self.producer),
            last_epoch,
            ..IdState::fresh(producer, timeout_ms, now_ms)
        }
    }

    /// An instance asks once more for what it was given.
    pub(super) fn given_again(&self, timeout_ms: i32, now_ms: i64) -> IdState {
        IdState {
            epoch: self.epoch,
            previous: self.previous,
            last_epoch: self.last_epoch,
            ..IdState::fresh(self.producer, timeout_ms, now_ms)
        }
    }

    /// The transaction is open, with these partitions.
    pub(super) fn with_partitions(
        &self,
        partitions: BTreeSet<TopicPartition>,
        version: u8,
        now_ms: i64,
    ) -> IdState {
        let is_open = self.phase == TransactionState::Ongoing;
        IdState {
            phase: TransactionState::Ongoing,
            previous: Some(self.producer),
            next: None,
            // Its holder has used the new epoch, so nobody asks for it again.
            last_epoch: None,
            next_epoch: None,
            partitions: Arc::new(partitions),
            start_ms: if is_open { self.start_ms } else { now_ms },
            updated_ms: now_ms,
            version,
            ..self.clone()
        }
    }

    /// The outcome of the open transaction is decided.
    pub(super) fn prepared(&self, ending: Ending, now_ms: i64) -> IdState {
        let phase = if ending.commit {
            TransactionState::PrepareCommit
        } else {
            TransactionState::PrepareAbort
        };
        let raises = ending.bumps_epoch && !planted(Bug::EpochKeptAtPrepare);
        IdState {
            phase,
            previous: Some(self.producer),
            next: ending.next,
            epoch: self.epoch.saturating_add(i16::from(raises)),
            last_epoch: ending.last_epoch,
            next_epoch: None,
            updated_ms: now_ms,
            version: if ending.bumps_epoch {
                2
            } else {
                self.version.min(1)
            },
            ..self.clone()
        }
    }

    /// All partitions know the outcome.
    pub(super) fn completed(&self, now_ms: i64) -> IdState {
        assert!(self.phase.is_prepared(), "only what is decided is completed");
        let phase = if self.phase.is_commit() {
            TransactionState::CompleteCommit
        } else {
            TransactionState::CompleteAbort
        };
        let Initialized { producer, epoch } = self.identity();
        IdState {
            phase,
            producer,
            previous: Some(self.producer),
            next: None,
            epoch,
            next_epoch: None,
            partitions: Arc::default(),
            updated_ms: now_ms,
            ..self.clone()
        }
    }

    /// An end without any partition: both steps in one, as nobody needs to be told.
    pub(super) fn ended_empty(&self, ending: Ending, now_ms: i64) -> IdState {
        IdState {
            start_ms: now_ms,
            ..self.prepared(ending, now_ms).completed(now_ms)
        }
    }
}
