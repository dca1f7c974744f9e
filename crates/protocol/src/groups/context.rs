//! Things that all groups of a coordinator share while they handle an input: the time, the settings, the topics, the outbox.
//!
//! A group asks here for an answer, a durable change or a moment to be woken; it never reaches another group.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use record::whole_ms;

use super::consumer::Planning;
use super::contract::{Action, Answer, GroupError, Name, PersistId, Request, StoredRecord, Ticket};
use super::expressions::Expressions;
use super::pace::{OwnPace, Pace};
use super::records::Change;
use super::settings::Settings;
use super::shares::Shares;
use super::topics::Topics;
use super::transactions::Transactions;

/// The step that follows once a change is durable, or was refused.
#[derive(Debug)]
pub(crate) enum Then {
    /// The answers are given; if the change was refused, answers of the same kinds that say so.
    Answer(Vec<(Ticket, Answer)>),
    /// The request is handled, now that nothing stands in its way; refused if the change was. It waits until then.
    Again(Ticket, Box<Request>),
    /// The leader's assignment of this generation is handed out. So many bytes wait until then.
    HandOut { generation: i32, bytes: usize },
    /// A static member of a stable classic group is back under a new id.
    Replace {
        instance: Name,
        member: Name,
        generation: i32,
        ticket: Ticket,
        answer: Answer,
    },
}

/// Says whether other changes of the group may be decided while one is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    /// They may: they do not depend on this one.
    Open,
    /// They wait: what holds for them is known only when this one is durable.
    Closed,
}

/// A change that is on its way to the log.
#[derive(Debug)]
pub(crate) struct UnderWay {
    pub(crate) id: PersistId,
    pub(crate) group: Name,
    pub(crate) changes: Vec<Change>,
    pub(crate) then: Then,
    pub(crate) gate: Gate,
    /// Bytes that it takes until it is durable, roughly.
    bytes: usize,
}

/// Bytes that a change takes beside its record.
pub(crate) const CHANGE_BYTES: usize = 256;

/// See the module.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) settings: Settings,
    /// Shared with what is planned beside the coordinator.
    pub(crate) topics: Arc<Topics>,
    pub(crate) expressions: Expressions,
    /// The latest moment told.
    pub(crate) now: Duration,
    /// Bytes of memory that all groups hold, roughly.
    pub(crate) held_bytes: usize,
    /// The part of that, and the number of groups, that each client has made.
    pub(crate) shares: Shares,
    /// The client that made the group at work.
    pub(crate) maker: Option<Name>,
    /// The pace of the group at work.
    pub(crate) pace: Pace,
    /// Of groups that have configs of their own.
    pub(crate) paces: BTreeMap<Name, OwnPace>,
    /// Bytes that requests that wait and changes under way take, roughly.
    pub(crate) waiting_bytes: usize,
    pub(crate) transactions: Transactions,
    /// The wall clock at `now` zero: the least that it showed since the start, and what it showed last.
    unix_ms_at_zero: [i64; 2],
    actions: VecDeque<Action>,
    under_way: VecDeque<UnderWay>,
    next_persist: u64,
    /// The wishes of the group at work; taken by the coordinator when the group is done.
    asked: Asked,
}

#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) changes: u32,
    pub(crate) closes: bool,
    pub(crate) wake_at: Option<Duration>,
}

impl Context {
    pub(crate) fn new(settings: Settings, unix_ms_at_zero: i64) -> Context {
        Context {
            pace: Pace::of(&settings, None),
            paces: BTreeMap::new(),
            settings,
            topics: Arc::default(),
            expressions: Expressions::default(),
            now: Duration::ZERO,
            held_bytes: 0,
            shares: Shares::default(),
            maker: None,
            waiting_bytes: 0,
            transactions: Transactions::default(),
            unix_ms_at_zero: [unix_ms_at_zero; 2],
            actions: VecDeque::new(),
            under_way: VecDeque::new(),
            next_persist: 0,
            asked: Asked::default(),
        }
    }

    /// Takes what the clock on the wall shows at the latest moment told.
    pub(crate) fn set_wall_clock(&mut self, unix_ms: i64) {
        let [least, _] = self.unix_ms_at_zero;
        let told = unix_ms.saturating_sub(whole_ms(self.now));
        self.unix_ms_at_zero = [least.min(told), told];
    }

    /// The moment as the clock on the wall shows it: only this goes into records.
    pub(crate) fn unix_ms(&self) -> i64 {
        self.unix_ms_at_zero[1].saturating_add(whole_ms(self.now))
    }

    /// The moment by the least that the clock ever showed: what was dated while it was behind is not old when it is set right,
    /// nor anything while it is ahead.
    pub(crate) fn unix_ms_at_least(&self) -> i64 {
        self.unix_ms_at_zero[0].saturating_add(whole_ms(self.now))
    }

    /// Checks that what makes groups take more memory may be done.
    pub(crate) fn check_growth(&self, grows: bool) -> Result<(), GroupError> {
        let max = self.settings.held_bytes_max;
        if grows && self.held_bytes + self.expressions.held_bytes() >= max {
            let what = "bytes of groups in one coordinator: delete some groups";
            return Err(GroupError::LimitReached { what, max });
        }
        match &self.maker {
            Some(client) if grows => self.shares.check_growth(client, &self.settings),
            _ => Ok(()),
        }
    }

    pub(crate) fn answer(&mut self, ticket: Ticket, answer: Answer) {
        if let Some(answer) = self.note_answer(ticket, answer) {
            self.actions.push_back(Action::Answer { ticket, answer });
        }
    }

    /// Asks for changes to be made durable. They hold once they are, not before.
    pub(crate) fn persist(&mut self, group: &Name, changes: Vec<Change>, gate: Gate, then: Then) {
        assert!(!changes.is_empty(), "nothing to persist is answered at once");
        let records = changes.iter().map(Change::encode).collect();
        self.persist_encoded(group, changes, records, gate, then);
    }

    /// The same for changes whose records are made already.
    pub(crate) fn persist_encoded(
        &mut self,
        group: &Name,
        changes: Vec<Change>,
        records: Vec<StoredRecord>,
        gate: Gate,
        then: Then,
    ) {
        assert_eq!(changes.len(), records.len(), "each change has its record");
        let id = PersistId(self.next_persist);
        self.next_persist += 1;
        self.asked.changes += 1;
        self.asked.closes |= gate == Gate::Closed;
        let bytes = records.iter().map(|record| CHANGE_BYTES + record.bytes()).sum();
        self.waiting_bytes += bytes;
        self.actions.push_back(Action::Persist { id, records });
        self.under_way.push_back(UnderWay {
            id,
            group: Name::clone(group),
            changes,
            then,
            gate,
            bytes,
        });
    }

    /// Has the next change of the group at work planned beside the coordinator. The group's gate is closed meanwhile.
    pub(crate) fn plan(&mut self, planning: Planning) {
        self.asked.changes += 1;
        self.asked.closes = true;
        self.plan_beside(planning);
    }

    /// The same for what changes nothing.
    pub(crate) fn plan_beside(&mut self, planning: Planning) {
        self.waiting_bytes += planning.held_bytes();
        self.actions.push_back(Action::Plan(Box::new(planning)));
    }

    /// Sees to it that the group at work is woken at this moment, or earlier.
    pub(crate) fn wake_at(&mut self, at: Duration) {
        self.asked.wake_at = Some(self.asked.wake_at.map_or(at, |earlier| earlier.min(at)));
    }

    pub(crate) fn take_asked(&mut self) -> Asked {
        std::mem::take(&mut self.asked)
    }

    pub(crate) fn finish_first(&mut self, id: PersistId) -> UnderWay {
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

    pub(crate) fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
}

/// Random bits as Kafka writes them into ids.
pub(crate) fn uuid(random: u128) -> String {
    let hex = format!("{random:032x}");
    format!(
        "{}-{}-{}-{}-{}",
        &hex[0..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..32]
    )
}
