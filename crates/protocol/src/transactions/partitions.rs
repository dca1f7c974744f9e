//! The partitions of a transaction: added before anything is written to them, and verified by leaders that are about to.
//!
//! A partition counts as added when that is durable, not before: else a crash would leave records in it that no marker
//! ever ends.

use std::collections::BTreeSet;
use std::sync::Arc;

use planted::{Bug, planted};

use super::context::Context;
use super::contract::{
    AddPartitions, Answer, Ticket, TopicPartition, TransactionError, TransactionState, VerifiedPartition,
    VerifyPartitions,
};
use super::entry::{Entry, Gate};
use super::state::IdState;
use crate::ProducerId;

impl Entry {
    pub(super) fn add_partitions(&mut self, cx: &mut Context, ticket: Ticket, request: AddPartitions) {
        match self.plan_addition(cx, request) {
            Ok(Some(to)) => {
                let answer = Answer::AddPartitions(Ok(()));
                self.change(cx, Gate::Changing, to, Some((ticket, answer)));
            }
            Ok(None) => cx.answer(ticket, Answer::AddPartitions(Ok(()))),
            Err(error) => cx.answer(ticket, Answer::AddPartitions(Err(error))),
        }
    }

    /// The state with the partitions; `None` if they are in already.
    fn plan_addition(
        &self,
        cx: &Context,
        request: AddPartitions,
    ) -> Result<Option<IdState>, TransactionError> {
        // Before the producer is looked at: one whose id is just being changed may have heard of the new one already.
        let is_busy = self.gate != Gate::Open || self.is_being_completed();
        if is_busy && !planted(Bug::EpochBeforePending) {
            return Err(TransactionError::ConcurrentTransactions);
        }
        assert!(
            request.version <= 2,
            "the server knows no newer version of transactions"
        );
        let state = self.state_of(request.producer, request.epoch)?;
        if is_busy {
            return Err(TransactionError::ConcurrentTransactions);
        }
        let is_open = state.phase == TransactionState::Ongoing;
        if request.partitions.is_empty() {
            return Ok(None);
        }
        if is_open
            && request
                .partitions
                .iter()
                .all(|partition| state.partitions.contains(partition))
        {
            return Ok(None);
        }
        if cx.is_full() {
            return Err(TransactionError::NotPersisted);
        }
        cx.check_growth()?;
        let known = is_open.then_some(&state.partitions);
        let partitions = self.joined(cx, known.map(Arc::as_ref), request.partitions)?;
        let now_ms = cx.clock.unix_ms();
        Ok(Some(state.with_partitions(partitions, request.version, now_ms)))
    }

    /// All partitions together, unless they are too many for one transaction or for its record.
    fn joined(
        &self,
        cx: &Context,
        known: Option<&BTreeSet<TopicPartition>>,
        added: Vec<TopicPartition>,
    ) -> Result<BTreeSet<TopicPartition>, TransactionError> {
        let max = cx.settings.partitions_max;
        let too_many = TransactionError::LimitReached {
            what: "partitions in one transaction",
            max,
        };
        if added.len() > max {
            return Err(too_many);
        }
        let mut partitions = known.cloned().unwrap_or_default();
        partitions.extend(added);
        if partitions.len() > max {
            return Err(too_many);
        }
        if self.is_too_large(cx, &partitions) {
            return Err(TransactionError::LimitReached {
                what: "bytes of one transaction's partitions",
                max: cx.settings.record_bytes_max,
            });
        }
        Ok(partitions)
    }

    /// Looks for partitions in the open transaction. A change under way that adds more is no hindrance; one that ends it is.
    pub(super) fn verify(
        &self,
        request: VerifyPartitions,
    ) -> Result<Vec<VerifiedPartition>, TransactionError> {
        if self.state.is_none() || self.gate == Gate::Ending {
            return Err(TransactionError::ConcurrentTransactions);
        }
        let state = self.state_of(request.producer, request.epoch)?;
        if self.is_being_completed() {
            return Err(TransactionError::ConcurrentTransactions);
        }
        let verified = request.partitions.into_iter().map(|partition| VerifiedPartition {
            outcome: match state.partitions.contains(&partition) {
                true => Ok(()),
                false => Err(TransactionError::TransactionAbortable),
            },
            partition,
        });
        Ok(verified.collect())
    }

    pub(super) fn is_being_completed(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.phase.is_prepared())
    }

    /// The state, if the producer is the current one.
    fn state_of(&self, producer: ProducerId, epoch: i16) -> Result<&IdState, TransactionError> {
        let state = self.state.as_ref().filter(|state| state.producer == producer);
        let state = state.ok_or(TransactionError::InvalidProducerIdMapping)?;
        if state.epoch != epoch {
            let current = state.epoch;
            return Err(TransactionError::StaleEpoch { current });
        }
        Ok(state)
    }
}
