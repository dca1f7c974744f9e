//! One transactional id: its durable state, the change that is under way, and the moment when it must be looked at again.
//!
//! The state changes only when its record is durable, by the very value that was written, so that no failure has to be undone.
//! While a change is under way the gate is closed: other requests are told to come again.
//!
//! One change comes before its record: a transaction is completed as soon as every partition has its marker, for that is durable there, and a
//! coordinator that finds it only decided sends the markers once more, without harm. So the next transaction does not wait for the
//! record of the completion, and mostly stands in its place: the log then has what is decided, and next what is open.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use planted::{Bug, planted};

use super::context::{Context, UnderWay, Want};
use super::contract::{
    Answer, MarkerId, Name, NoProducerId, NotPersisted, Request, Ticket, TopicPartition, TransactionError,
    TransactionState,
};
use super::markers::Job;
use super::record;
use super::state::{Ending, IdState};
use crate::ProducerId;

/// Bytes of memory that an id takes beside its name, and each of its partitions beside the topic's.
const ENTRY_BYTES: usize = 512;
const PARTITION_BYTES: usize = 224;
/// The time for which a completion waits for the id's next change to be written with.
pub(super) const COMPLETION_REST: Duration = Duration::from_millis(100);
/// The pause before a completion is written again that the log refused.
const COMPLETE_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// The pause of what the coordinator does by itself while too much waits for the log.
const FULL_PAUSE: Duration = Duration::from_millis(100);

/// Says what is under way for an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    /// Nothing.
    Open,
    /// A change that leaves an open transaction open.
    Changing,
    /// A change that ends the transaction.
    Ending,
}

/// The markers of the transaction whose outcome is decided.
#[derive(Debug, PartialEq, Eq)]
enum Marking {
    /// None are to be written.
    Idle,
    /// So many of these are not written yet.
    Sent { ids: Range<u64>, left: usize },
    /// Another coordinator writes them.
    GivenUp,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: Name,
    /// `None` until the first one is durable.
    pub(super) state: Option<IdState>,
    pub(super) gate: Gate,
    marking: Marking,
    /// The log has the completed transaction as one that is only decided.
    pub(super) is_unwritten: bool,
    /// The moment when the open transaction began, or else of the latest change; of the start if it was read from the log.
    since: Duration,
    is_replayed: bool,
    /// After a refusal nothing is done before this.
    not_before: Duration,
    /// The moment that is noted for it among the coordinator's.
    pub(super) wake_at: Option<Duration>,
    bytes: usize,
}

impl Entry {
    pub(super) fn new(name: &Name) -> Entry {
        Entry {
            name: Name::clone(name),
            state: None,
            gate: Gate::Open,
            marking: Marking::Idle,
            is_unwritten: false,
            since: Duration::ZERO,
            is_replayed: false,
            not_before: Duration::ZERO,
            wake_at: None,
            bytes: 0,
        }
    }

    /// Says whether there is nothing to remember of it.
    pub(super) fn is_hollow(&self) -> bool {
        self.state.is_none() && self.gate == Gate::Open
    }

    pub(super) fn handle(&mut self, cx: &mut Context, ticket: Ticket, request: Request) {
        match request {
            Request::Init(request) => self.init(cx, ticket, request),
            Request::AddPartitions(request) => self.add_partitions(cx, ticket, request),
            Request::Verify(request) => {
                let answer = Answer::Verify(self.verify(request));
                cx.answer(ticket, answer);
            }
            Request::End(request) => self.end(cx, ticket, &request),
            Request::Abort(request) => self.abort(cx, ticket, &request),
            Request::Describe(_) | Request::List(_) => {
                unreachable!("what only shows is answered without an entry")
            }
        }
    }

    /// The replay is over: whatever was decided is carried out, and what is open has its time.
    pub(super) fn handle_loaded(&mut self, cx: &mut Context) {
        self.since = cx.clock.now();
        self.is_replayed = true;
        self.count_bytes(cx);
        cx.tally.note(&self.name, None, self.state.as_ref(), false);
        if !planted(Bug::MarkersNotSentAgain) {
            self.tell_partitions(cx);
        }
    }

    /// Takes the outcome of the change that was under way.
    pub(super) fn finish(&mut self, cx: &mut Context, done: UnderWay, result: Result<(), NotPersisted>) {
        assert_ne!(
            self.gate,
            Gate::Open,
            "the gate is closed while a change is under way"
        );
        self.gate = Gate::Open;
        if result.is_err() {
            match done.answer {
                Some((ticket, answer)) => cx.answer(ticket, answer.refused(TransactionError::NotPersisted)),
                None => self.not_before = cx.clock.now() + self.pause(cx),
            }
            return;
        }
        // Of what ends a transaction, time alone wants no answer.
        let is_timeout = done.answer.is_none();
        cx.tally
            .note(&self.name, self.state.as_ref(), done.to.as_ref(), is_timeout);
        self.apply(done.to, done.decided_at);
        self.is_unwritten = false;
        self.count_bytes(cx);
        if let Some((ticket, answer)) = done.answer {
            cx.answer(ticket, answer);
        }
        self.tell_partitions(cx);
    }

    /// Takes the producer id that a step waited for.
    pub(super) fn finish_take(
        &mut self,
        cx: &mut Context,
        want: Want,
        result: Result<ProducerId, NoProducerId>,
    ) {
        assert_ne!(
            self.gate,
            Gate::Open,
            "the gate is closed while a producer id is taken"
        );
        self.gate = Gate::Open;
        match (want, result) {
            (Want::Init(ticket, request), Ok(producer)) => self.init_with(cx, ticket, &request, producer),
            (Want::Init(ticket, _), Err(NoProducerId)) => {
                cx.answer(ticket, Answer::Init(Err(TransactionError::NoProducerId)));
            }
            (Want::End(ender, ending), Ok(producer)) => {
                let next = Some(producer);
                self.prepare(cx, ender, Ending { next, ..ending });
            }
            (Want::End(ender, _), Err(NoProducerId)) => {
                self.not_before = cx.clock.now() + self.pause(cx);
                ender.answer(cx, Err(TransactionError::NoProducerId));
            }
        }
    }

    /// Takes the outcome of a marker. Once no partition is left, the transaction is completed.
    pub(super) fn finish_marker(&mut self, cx: &mut Context, id: MarkerId, job: &Job) {
        let (Some(state), Marking::Sent { ids, left }) = (&self.state, &mut self.marking) else {
            return;
        };
        let is_ours = ids.contains(&id.0) || planted(Bug::OldMarkerCounts);
        if !is_ours || !job.is_of(state) || *left == 0 {
            return;
        }
        *left -= 1;
        if *left == 0 || planted(Bug::CompletedBeforeMarkers) {
            self.complete(cx);
        }
    }

    /// Takes word that another coordinator of a higher epoch is there: the transaction is its business.
    pub(super) fn give_up(&mut self, cx: &mut Context, id: MarkerId) {
        if let Marking::Sent { ids, .. } = &self.marking
            && ids.contains(&id.0)
        {
            cx.markers.forget(ids.clone());
            self.marking = Marking::GivenUp;
        }
    }

    /// Does what its time has come for.
    pub(super) fn wake(&mut self, cx: &mut Context) {
        if self.due_at(cx).is_none_or(|at| at > cx.clock.now()) {
            return;
        }
        if cx.is_full() {
            self.not_before = cx.clock.now() + FULL_PAUSE;
            return;
        }
        let state = self.state.as_ref().expect("only a durable state has a time");
        match state.phase {
            TransactionState::Ongoing => self.time_out(cx),
            _ if self.is_unwritten => {
                self.gate = Gate::Changing;
                cx.persist(&self.name, self.state.clone(), None);
            }
            _ => {
                self.gate = Gate::Changing;
                cx.persist(&self.name, None, None);
            }
        }
    }

    /// Finds the moment when there is something to do for it, if nobody asks before. While a change is under way there is none.
    pub(super) fn due_at(&self, cx: &Context) -> Option<Duration> {
        let state = self.state.as_ref().filter(|_| self.gate == Gate::Open)?;
        let (limit, dated_ms) = match state.phase {
            TransactionState::Ongoing => {
                let timeout_ms = u64::try_from(state.timeout_ms).unwrap_or(0);
                (Duration::from_millis(timeout_ms), state.start_ms)
            }
            phase if phase.is_prepared() => return None,
            _ if self.is_unwritten => return Some((self.since + COMPLETION_REST).max(self.not_before)),
            _ => (cx.settings.expiration, state.updated_ms),
        };
        let now = cx.clock.now();
        let mut age = now.saturating_sub(self.since);
        if self.is_replayed {
            age = age.max(cx.clock.age_of(dated_ms));
        }
        Some((now + limit.saturating_sub(age)).max(self.not_before))
    }

    /// Asks for the next state to be made durable.
    pub(super) fn change(
        &mut self,
        cx: &mut Context,
        gate: Gate,
        to: IdState,
        answer: Option<(Ticket, Answer)>,
    ) {
        assert_eq!(
            self.gate,
            Gate::Open,
            "one change of an id is under way at a time"
        );
        self.gate = gate;
        cx.persist(&self.name, Some(to), answer);
    }

    /// Takes a producer id before the step can be taken.
    pub(super) fn wait_for_id(&mut self, cx: &mut Context, gate: Gate, want: Want) {
        assert_eq!(
            self.gate,
            Gate::Open,
            "one change of an id is under way at a time"
        );
        self.gate = gate;
        cx.take_producer_id(&self.name, want);
    }

    /// Says whether the record of a transaction with these partitions would be too large.
    pub(super) fn is_too_large(&self, cx: &Context, partitions: &BTreeSet<TopicPartition>) -> bool {
        record::record_bytes_at_most(&self.name, partitions.iter()) > cx.settings.record_bytes_max
    }

    /// Gives back the bytes that it was counted for.
    pub(super) fn forget_bytes(&mut self, cx: &mut Context) {
        cx.held_bytes -= std::mem::take(&mut self.bytes);
    }

    fn apply(&mut self, to: Option<IdState>, decided_at: Duration) {
        let is_open = |state: &Option<IdState>| {
            let phase = state.as_ref().map(|state| state.phase);
            phase == Some(TransactionState::Ongoing)
        };
        let goes_on = is_open(&self.state) && is_open(&to);
        if !goes_on || planted(Bug::TimeoutFromLastRequest) {
            self.since = decided_at;
            self.is_replayed = false;
        }
        self.marking = Marking::Idle;
        self.state = to;
    }

    /// Sends the markers, if an outcome is decided.
    fn tell_partitions(&mut self, cx: &mut Context) {
        let Some(state) = self.state.as_ref().filter(|state| state.phase.is_prepared()) else {
            return;
        };
        let ids = cx.markers.begin(&self.name, state);
        let left = state.partitions.len();
        assert_eq!(ids.end - ids.start, left as u64, "each partition has its marker");
        for id in ids.clone() {
            let marker = cx.markers.message(MarkerId(id));
            cx.send_markers(marker);
        }
        self.marking = Marking::Sent { ids, left };
        if left == 0 {
            self.complete(cx);
        }
    }

    /// Every partition knows the outcome. This is not durable here, and need not be.
    fn complete(&mut self, cx: &mut Context) {
        let decided = self.state.as_ref().expect("markers belong to a state");
        let completed = Some(decided.completed(cx.clock.unix_ms()));
        cx.tally
            .note(&self.name, self.state.as_ref(), completed.as_ref(), false);
        self.apply(completed, cx.clock.now());
        self.is_unwritten = true;
        self.count_bytes(cx);
    }

    fn pause(&self, cx: &Context) -> Duration {
        if self.is_unwritten {
            COMPLETE_AGAIN_AFTER
        } else {
            cx.settings.check_interval
        }
    }

    fn count_bytes(&mut self, cx: &mut Context) {
        self.forget_bytes(cx);
        let partitions = self.state.as_ref().map(|state| &state.partitions);
        let partition_bytes: usize = partitions
            .into_iter()
            .flat_map(|partitions| partitions.iter())
            .map(|partition| PARTITION_BYTES + partition.topic.len())
            .sum();
        self.bytes = ENTRY_BYTES + self.name.len() + partition_bytes;
        cx.held_bytes += self.bytes;
    }
}
