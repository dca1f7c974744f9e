//! The end of a transaction: asked for by its producer, forced by a newer instance of it or by an operator, or brought by time.
//!
//! The outcome is durable before anybody hears of it. With version 2 (KIP-890) each end raises the producer's epoch, so that whatever is
//! late belongs to an epoch that is over; an end that comes again is recognized by that, and must get the answer of the first one.

use planted::{Bug, planted};

use super::context::{Context, Want};
use super::contract::{
    AbortTransaction, Answer, EndTransaction, Ended, Initialized, Ticket, TransactionError, TransactionState,
};
use super::entry::{Entry, Gate};
use super::state::{Ending, IdState, LAST_EPOCH};

/// The cause of a transaction's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ender {
    /// Its producer, by EndTxn.
    Producer(Ticket),
    /// Another instance, by InitProducerId, which then has to ask again.
    Newcomer(Ticket),
    /// An operator.
    Operator(Ticket),
    /// Time.
    Timeout,
}

/// The step that EndTxn leads to.
enum Step {
    /// End the open transaction.
    Prepare,
    /// Raise the epoch: there is no open transaction.
    EndEmpty,
    /// Say once more what was said.
    Again,
}

impl Ender {
    /// Its answer once the outcome is durable, or why there is none.
    fn answer_with(self, result: Result<Ended, TransactionError>) -> Option<(Ticket, Answer)> {
        match self {
            Ender::Producer(ticket) => Some((ticket, Answer::End(result))),
            Ender::Newcomer(ticket) => {
                let error = result.err().unwrap_or(TransactionError::ConcurrentTransactions);
                Some((ticket, Answer::Init(Err(error))))
            }
            Ender::Operator(ticket) => Some((ticket, Answer::Abort(result.map(|_| ())))),
            Ender::Timeout => None,
        }
    }

    pub(super) fn answer(self, cx: &mut Context, result: Result<Ended, TransactionError>) {
        if let Some((ticket, answer)) = self.answer_with(result) {
            cx.answer(ticket, answer);
        }
    }
}

impl Ending {
    /// An abort that the coordinator decides on: the producer's epoch is over, whatever version it speaks.
    pub(super) fn by_coordinator() -> Ending {
        Ending {
            commit: false,
            bumps_epoch: true,
            last_epoch: None,
            next: None,
        }
    }
}

impl Entry {
    pub(super) fn end(&mut self, cx: &mut Context, ticket: Ticket, request: &EndTransaction) {
        let ending = Ending {
            commit: request.commit,
            bumps_epoch: request.bumps_epoch,
            ..Ending::by_coordinator()
        };
        match self.plan_end(cx, request) {
            Ok(Step::Prepare | Step::EndEmpty) => self.end_by(cx, Ender::Producer(ticket), ending),
            Ok(Step::Again) => {
                let state = self
                    .state
                    .as_ref()
                    .expect("what is said again was said of a state");
                cx.answer(ticket, Answer::End(Ok(ended(state))));
            }
            Err(error) => cx.answer(ticket, Answer::End(Err(error))),
        }
    }

    /// Aborts the transaction that an operator means.
    pub(super) fn abort(&mut self, cx: &mut Context, ticket: Ticket, request: &AbortTransaction) {
        match self.check_abort(cx, request) {
            Ok(()) => self.end_by(cx, Ender::Operator(ticket), Ending::by_coordinator()),
            Err(error) => cx.answer(ticket, Answer::Abort(Err(error))),
        }
    }

    /// The time of the open transaction is over.
    pub(super) fn time_out(&mut self, cx: &mut Context) {
        self.end_by(cx, Ender::Timeout, Ending::by_coordinator());
    }

    /// Ends the transaction, after taking a producer id if the epochs are used up.
    pub(super) fn end_by(&mut self, cx: &mut Context, ender: Ender, ending: Ending) {
        let state = self.state.as_ref().expect("only a known id has a transaction");
        if ending.bumps_epoch && state.is_used_up() && !planted(Bug::IdKeptAtLastEpoch) {
            return self.wait_for_id(cx, Gate::Ending, Want::End(ender, ending));
        }
        self.prepare(cx, ender, ending);
    }

    /// Has the outcome made durable.
    pub(super) fn prepare(&mut self, cx: &mut Context, ender: Ender, ending: Ending) {
        let state = self.state.as_ref().expect("only a known id has a transaction");
        let now_ms = cx.clock.unix_ms();
        let to = match state.phase {
            TransactionState::Ongoing => state.prepared(ending, now_ms),
            _ => state.ended_empty(ending, now_ms),
        };
        let mut answer = ender.answer_with(Ok(ended(&to)));
        if planted(Bug::EndAnsweredBeforePrepare)
            && let Some((ticket, answer)) = answer.take()
        {
            cx.answer(ticket, answer);
        }
        self.change(cx, Gate::Ending, to, answer);
    }

    fn check_abort(&self, cx: &Context, request: &AbortTransaction) -> Result<(), TransactionError> {
        let Some(state) = self.state.as_ref().filter(|_| self.gate == Gate::Open) else {
            return Err(TransactionError::ConcurrentTransactions);
        };
        if state.phase != TransactionState::Ongoing || state.start_ms != request.start_ms {
            return Err(TransactionError::InvalidTxnState {
                state: state.phase,
                commit: false,
            });
        }
        if cx.is_full() {
            return Err(TransactionError::NotPersisted);
        }
        Ok(())
    }

    fn plan_end(&self, cx: &Context, request: &EndTransaction) -> Result<Step, TransactionError> {
        let Some(state) = &self.state else {
            return Err(TransactionError::ConcurrentTransactions);
        };
        // Before the epoch: an end that comes again while the first one is being written must not fence its own producer (KAFKA-18464).
        if self.gate != Gate::Open {
            return Err(TransactionError::ConcurrentTransactions);
        }
        let step = if request.bumps_epoch {
            state.plan_end(request)?
        } else {
            state.plan_end_before_version_2(request)?
        };
        if cx.is_full() && !matches!(step, Step::Again) {
            return Err(TransactionError::NotPersisted);
        }
        Ok(step)
    }
}

impl IdState {
    fn plan_end(&self, request: &EndTransaction) -> Result<Step, TransactionError> {
        if self.has_ended_for(request) {
            return match request.commit == self.phase.is_commit() {
                true => Ok(Step::Again),
                false => Err(self.cannot_end(request)),
            };
        }
        if self.phase.is_prepared() {
            return Err(TransactionError::ConcurrentTransactions);
        }
        self.check_producer(request)?;
        match self.phase {
            TransactionState::Ongoing => Ok(Step::Prepare),
            // A client that asks for it has records that it has not sent yet: they would be part of the next one (KAFKA-18401).
            _ if request.commit => Err(self.cannot_end(request)),
            _ => Ok(Step::EndEmpty),
        }
    }

    /// Before version 2 the epoch does not tell one transaction from the next: a late request cannot be told from a retry.
    fn plan_end_before_version_2(&self, request: &EndTransaction) -> Result<Step, TransactionError> {
        if self.phase.is_prepared() {
            return Err(TransactionError::ConcurrentTransactions);
        }
        self.check_producer(request)?;
        match self.phase {
            TransactionState::Ongoing => Ok(Step::Prepare),
            phase if phase.is_complete() && phase.is_commit() == request.commit => Ok(Step::Again),
            _ => Err(self.cannot_end(request)),
        }
    }

    /// Says whether the transaction that a request of version 2 is about has its outcome already: the epoch is one higher
    /// since, or the producer has another id as its epochs were used up.
    fn has_ended_for(&self, request: &EndTransaction) -> bool {
        if self.version != 2 || !(self.phase.is_prepared() || self.phase.is_complete()) {
            return false;
        }
        let is_raised = request.producer == self.producer && request.epoch.checked_add(1) == Some(self.epoch);
        let is_moved = self.phase.is_complete()
            && self.producer != request.producer
            && self.previous == Some(request.producer)
            && request.epoch == LAST_EPOCH
            && self.epoch == 0;
        is_raised || is_moved
    }

    fn check_producer(&self, request: &EndTransaction) -> Result<(), TransactionError> {
        if self.producer != request.producer {
            return Err(TransactionError::InvalidProducerIdMapping);
        }
        if self.epoch != request.epoch {
            let current = self.epoch;
            return Err(TransactionError::StaleEpoch { current });
        }
        Ok(())
    }

    fn cannot_end(&self, request: &EndTransaction) -> TransactionError {
        TransactionError::InvalidTxnState {
            state: self.phase,
            commit: request.commit,
        }
    }
}

fn ended(state: &IdState) -> Ended {
    let Initialized { producer, epoch } = state.identity();
    Ended { producer, epoch }
}
