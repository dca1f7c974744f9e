//! Things that all transactional ids of a coordinator share while they handle an input: the time, the settings, the outbox.
//!
//! An id asks here for an answer, a durable change, a producer id or markers; it never reaches another id.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::clock::Clock;
use super::contract::{
    Action, Answer, InitProducer, Name, PersistId, StoredRecord, TakeId, Ticket, TransactionError,
};
use super::end::Ender;
use super::markers::Markers;
use super::record;
use super::settings::Settings;
use super::state::{Ending, IdState};
use super::tally::Tally;

/// Bytes that a change takes beside its record.
const CHANGE_BYTES: usize = 256;

/// A change that is on its way to the log.
#[derive(Debug)]
pub(super) struct UnderWay {
    id: PersistId,
    pub(super) transactional_id: Name,
    /// The state that holds from then on; `None` if the id is forgotten.
    pub(super) to: Option<IdState>,
    /// The answer that is given then; if the change was refused, one of the same kind that says so.
    pub(super) answer: Option<(Ticket, Answer)>,
    pub(super) decided_at: Duration,
    /// Bytes that it takes until it is durable, roughly.
    bytes: usize,
}

/// A step that waits for a producer id.
#[derive(Debug)]
pub(super) enum Want {
    Init(Ticket, InitProducer),
    End(Ender, Ending),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) markers: Markers,
    pub(super) tally: Tally,
    /// Bytes of memory that all ids hold, roughly.
    pub(super) held_bytes: usize,
    waiting_bytes: usize,
    actions: VecDeque<Action>,
    under_way: VecDeque<UnderWay>,
    next_persist: u64,
    takes: BTreeMap<TakeId, (Name, Want)>,
    next_take: u64,
}

impl Context {
    pub(super) fn new(settings: Settings, coordinator_epoch: i32, unix_ms_at_zero: i64) -> Context {
        Context {
            settings,
            clock: Clock::new(unix_ms_at_zero),
            markers: Markers::new(coordinator_epoch),
            tally: Tally::default(),
            held_bytes: 0,
            waiting_bytes: 0,
            actions: VecDeque::new(),
            under_way: VecDeque::new(),
            next_persist: 0,
            takes: BTreeMap::new(),
            next_take: 0,
        }
    }

    /// Checks that ids may take more memory.
    pub(super) fn check_growth(&self) -> Result<(), TransactionError> {
        let max = self.settings.held_bytes_max;
        if self.held_bytes >= max {
            let what = "bytes of transactional ids in one coordinator";
            return Err(TransactionError::LimitReached { what, max });
        }
        Ok(())
    }

    /// Says whether so much waits for the log that no more may.
    pub(super) fn is_full(&self) -> bool {
        self.waiting_bytes >= self.settings.waiting_bytes_max
    }

    pub(super) fn answer(&mut self, ticket: Ticket, answer: Answer) {
        self.actions.push_back(Action::Answer { ticket, answer });
    }

    /// Asks for a state to be made durable. It holds once it is, not before.
    pub(super) fn persist(
        &mut self,
        transactional_id: &Name,
        to: Option<IdState>,
        answer: Option<(Ticket, Answer)>,
    ) {
        let record = record::encode(transactional_id, to.as_ref());
        let id = PersistId(self.next_persist);
        self.next_persist += 1;
        let bytes = CHANGE_BYTES + bytes_of(&record);
        self.waiting_bytes += bytes;
        let records = vec![record];
        self.actions.push_back(Action::Persist { id, records });
        self.under_way.push_back(UnderWay {
            id,
            transactional_id: Name::clone(transactional_id),
            to,
            answer,
            decided_at: self.clock.now(),
            bytes,
        });
    }

    /// Takes off the first change: it is durable, or refused.
    pub(super) fn finish_first(&mut self, id: PersistId) -> UnderWay {
        let first = self
            .under_way
            .pop_front()
            .expect("only what was asked for is reported");
        assert_eq!(
            first.id, id,
            "changes are reported in the order in which they were asked for"
        );
        self.waiting_bytes -= first.bytes;
        first
    }

    /// Asks for a producer id, and goes on when there is one.
    pub(super) fn take_producer_id(&mut self, transactional_id: &Name, want: Want) {
        let id = TakeId(self.next_take);
        self.next_take += 1;
        self.takes.insert(id, (Name::clone(transactional_id), want));
        self.actions.push_back(Action::TakeProducerId { id });
    }

    pub(super) fn finish_take(&mut self, id: TakeId) -> (Name, Want) {
        self.takes
            .remove(&id)
            .expect("each producer id was asked for, and is reported once")
    }

    /// Has the partitions of a decided transaction told.
    pub(super) fn send_markers(&mut self, markers: impl IntoIterator<Item = super::WriteMarker>) {
        self.actions.extend(markers.into_iter().map(Action::WriteMarker));
    }

    pub(super) fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
}

fn bytes_of(record: &StoredRecord) -> usize {
    record.key.len() + record.value.as_ref().map_or(0, |value| value.len())
}
