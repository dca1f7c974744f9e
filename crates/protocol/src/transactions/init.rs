//! InitProducerId: an instance of a producer takes over its transactional id, and earlier instances are fenced.
//!
//! An open transaction is aborted first, with an epoch above its own; the instance is told to come again. An instance that names the
//! identity it has goes on as itself (KIP-360): it may ask twice and is given the same, but never after another one took over.

use planted::{Bug, planted};

use super::context::{Context, Want};
use super::contract::{Answer, InitProducer, Ticket, TransactionError, TransactionState};
use super::end::Ender;
use super::entry::{Entry, Gate};
use super::state::{Ending, IdState};
use crate::ProducerId;

/// The step that a request leads to.
enum Step {
    /// Abort the open transaction, and be asked again.
    Fence,
    /// Give what was given already.
    Again,
    /// Give the next epoch.
    Raise,
    /// Take another producer id.
    Move,
}

impl Entry {
    pub(super) fn init(&mut self, cx: &mut Context, ticket: Ticket, request: InitProducer) {
        let step = match self.plan_init(cx, &request) {
            Ok(step) => step,
            Err(error) => return cx.answer(ticket, Answer::Init(Err(error))),
        };
        let last_epoch = request.producer.map(|(_, epoch)| epoch);
        let now_ms = cx.clock.unix_ms();
        let to = match (step, &self.state) {
            (Step::Again, Some(state)) => state.given_again(request.timeout_ms, now_ms),
            (Step::Raise, Some(state)) => state.raised(request.timeout_ms, last_epoch, now_ms),
            (Step::Fence, _) => {
                let ending = Ending {
                    last_epoch,
                    ..Ending::by_coordinator()
                };
                return self.end_by(cx, Ender::Newcomer(ticket), ending);
            }
            (Step::Move, _) | (_, None) => {
                return self.wait_for_id(cx, Gate::Changing, Want::Init(ticket, request));
            }
        };
        self.initialize(cx, ticket, to);
    }

    /// Goes on with the producer id that was missing.
    pub(super) fn init_with(
        &mut self,
        cx: &mut Context,
        ticket: Ticket,
        request: &InitProducer,
        producer: ProducerId,
    ) {
        let now_ms = cx.clock.unix_ms();
        let last_epoch = request.producer.map(|(_, epoch)| epoch);
        let to = match &self.state {
            None => IdState::fresh(producer, request.timeout_ms, now_ms),
            Some(state) => state.moved(producer, request.timeout_ms, last_epoch, now_ms),
        };
        self.initialize(cx, ticket, to);
    }

    fn initialize(&mut self, cx: &mut Context, ticket: Ticket, to: IdState) {
        let answer = Answer::Init(Ok(to.identity()));
        self.change(cx, Gate::Changing, to, Some((ticket, answer)));
    }

    fn plan_init(&self, cx: &Context, request: &InitProducer) -> Result<Step, TransactionError> {
        if self.gate != Gate::Open {
            return Err(TransactionError::ConcurrentTransactions);
        }
        if cx.is_full() {
            return Err(TransactionError::NotPersisted);
        }
        // An instance whose id was forgotten begins anew, whatever it names.
        let Some(state) = &self.state else {
            return Ok(Step::Move);
        };
        if state.phase.is_prepared() {
            return Err(TransactionError::ConcurrentTransactions);
        }
        let asks_again = state.was_given_for(request.producer);
        let is_current = request
            .producer
            .is_none_or(|named| named == (state.producer, state.epoch));
        if !is_current && !asks_again {
            let current = state.epoch;
            return Err(TransactionError::StaleEpoch { current });
        }
        Ok(match state.phase {
            TransactionState::Ongoing if !planted(Bug::FencedWithoutAbort) => Step::Fence,
            _ if asks_again => Step::Again,
            _ if state.is_used_up() => Step::Move,
            _ => Step::Raise,
        })
    }
}

impl IdState {
    /// Says whether the current identity was given to an instance that had this one before, and to nobody since.
    fn was_given_for(&self, named: Option<(ProducerId, i16)>) -> bool {
        let Some((producer, epoch)) = named else {
            return false;
        };
        // An id that replaced another one has that as the one before it.
        let before = self.previous.unwrap_or(self.producer);
        self.last_epoch == Some(epoch) && producer == before
    }
}
