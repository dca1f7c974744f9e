//! A partition on its core: the node's role in it, and the producers and readers that wait for its log to move.

use std::cell::{Cell, OnceCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use planted::{Bug, planted};
use protocol::metadata::TopicSettings;
use protocol::{Action, Leader};
use record::{Offset, Position, TopicId, whole_ms};
use storage::{CompactionPolicy, SegmentRolling};
use tokio::sync::oneshot;

use super::append::{AppendOutcome, AppendRefusal};
use super::claims::Claimed;
use super::reporting::Reporter;
use super::{Role, Watcher};

use crate::{TopicBook, TopicCounters};

/// A producer that waits for its batch.
pub(super) struct Waiting {
    pub(super) next_offset: Offset,
    pub(super) outcome: AppendOutcome,
    /// The position that it was appended for, if it was for one.
    pub(super) wanted: Option<Position>,
    pub(super) reply: oneshot::Sender<Result<AppendOutcome, AppendRefusal>>,
}

pub(crate) struct Partition {
    pub(crate) role: Role,
    pub(crate) topic: TopicSettings,
    pub(super) standing: Standing,
    /// Its log cannot be read, and nobody acts by it: all of it may be given up, even if the topic is only compacted.
    pub(super) is_abandoned: bool,
    /// Wait for the ack quorum, in the order of their offsets.
    pub(super) waiting_committed: VecDeque<Waiting>,
    /// Wait for the leader's own flush only, likewise.
    pub(super) waiting_durable: VecDeque<Waiting>,
    /// Fetches that wait for the tail to move, and how each numbers this partition. Those that gave up are found dead.
    pub(super) readers: Vec<(Weak<Watcher>, u32)>,
    readers_swept: usize,
    /// The tail up to which readers were let and producers answered.
    shown_tail: Offset,
    /// The end of what is ordered, if its topic has one order: nobody is shown more.
    ordered: Option<Offset>,
    /// Tells the scribe of the order what is committed, where that is on a node of several.
    pub(super) reporter: Option<Reporter>,
    /// Its next append, or one that is not committed, whose position is promised or asked for: nothing is reported meanwhile.
    pub(super) claimed: Cell<Option<Claimed>>,
    /// The topic whose cuts it keeps, if it is a strand.
    pub(super) strand_of: Option<TopicId>,
    counters: OnceCell<Rc<TopicCounters>>,
}

/// The records that have stood long enough to go for their age: a backfill brings records that are old when they come, and they
/// are to be read first. Marks of the tail tell; a start has none, and so takes every record for a new one.
#[derive(Default)]
pub(super) struct Standing {
    /// The tail at the last mark.
    marked: Offset,
    /// The tail at the one before.
    stood: Offset,
}

impl Standing {
    /// Notes the tail, once in the time that records have to stand.
    pub(super) fn mark(&mut self, tail: Offset) {
        assert!(self.marked <= tail, "a tail does not move back");
        self.stood = self.marked;
        self.marked = tail;
    }

    /// The first record that has not stood so long, as far as is known.
    pub(super) fn stood_before(&self) -> Offset {
        self.stood
    }
}

/// The store's rolling rule out of a topic's settings.
pub(super) fn rolling(topic: &TopicSettings) -> SegmentRolling {
    SegmentRolling {
        bytes: topic.segment_bytes_max,
        age_ms: whole_ms(topic.segment_age()),
    }
}

/// The store's rule for compaction out of a topic's settings, if it is compacted.
pub(super) fn compaction_policy(topic: &TopicSettings) -> Option<CompactionPolicy> {
    topic.compaction.map(|compaction| CompactionPolicy {
        min_lag_ms: whole_ms(compaction.lag_min),
        max_lag_ms: whole_ms(compaction.lag_max),
        dirty_ratio_min: compaction.dirty_share_min.as_share(),
        delete_retention_ms: whole_ms(compaction.tombstone_retention),
    })
}

impl Partition {
    pub(super) fn in_role(role: Role, topic: TopicSettings) -> Partition {
        Partition {
            shown_tail: role.tail(),
            role,
            topic,
            ordered: None,
            reporter: None,
            claimed: Cell::new(None),
            strand_of: None,
            standing: Standing::default(),
            is_abandoned: false,
            waiting_committed: VecDeque::new(),
            waiting_durable: VecDeque::new(),
            readers: Vec::new(),
            readers_swept: 0,
            counters: OnceCell::new(),
        }
    }

    /// The counters for the use of its topic.
    pub(super) fn counters(&self, topic: TopicId, book: &TopicBook) -> &Rc<TopicCounters> {
        self.counters.get_or_init(|| book.counters_of(topic))
    }

    /// Carries out what the leader wants done.
    pub(super) fn act(&mut self) {
        while let Ok(leader) = self.role.leader_mut()
            && let Some(action) = leader.next_action()
        {
            self.act_on(action);
        }
    }

    /// Does as the leader says: answers producers, wakes readers. It may have led since to the end of its epoch.
    pub(super) fn act_on(&mut self, action: Action) {
        match action {
            Action::Commit { tail, held } => {
                if let Some(reporter) = &self.reporter {
                    reporter.note();
                }
                let (tail, held) = (self.shown_of(tail), self.shown_of(held));
                assert!(
                    self.shown_tail <= tail,
                    "the tail that clients were told never moves back"
                );
                assert!(
                    tail <= self.role.tail(),
                    "producers are told of what the leader has committed"
                );
                self.shown_tail = tail;
                let durable = tail.max(self.durable_here());
                answer(&mut self.waiting_committed, held);
                self.refuse_below(tail, &AppendRefusal::TooFewHold);
                answer(&mut self.waiting_durable, durable);
                self.wake_readers();
            }
            Action::DurableHere { next_offset } => {
                assert!(
                    next_offset <= self.durable_here() || self.role.leader().is_err(),
                    "producers are told of what is flushed"
                );
                answer(&mut self.waiting_durable, next_offset);
            }
            Action::Abandon { .. } => self.refuse_waiting(&AppendRefusal::Abandoned),
        }
    }

    /// The end of what readers may see, and of what producers are acknowledged that wait for the ack quorum.
    pub(super) fn tail(&self) -> Offset {
        self.shown_of(self.role.tail())
    }

    /// As much of what is committed as may be shown.
    pub(super) fn shown_of(&self, committed: Offset) -> Offset {
        match self.ordered {
            Some(ordered) if !planted(Bug::UnorderedShown) => ordered.min(committed),
            _ => committed,
        }
    }

    /// Says whether its topic has one order.
    pub(super) fn is_ordered(&self) -> bool {
        self.ordered.is_some()
    }

    /// Its topic is to have one order: no more is shown until that is open. `is_start` hides all of it: what of it had been shown is known then.
    pub(super) fn await_order(&mut self, is_start: bool) {
        self.ordered = Some(match is_start {
            true => self.role.log_start(),
            false => self.shown_tail,
        });
        self.shown_tail = self.tail();
    }

    /// Its topic has no order any more.
    pub(super) fn end_order(&mut self) {
        self.ordered = None;
        self.reporter = None;
        self.show_more();
    }

    /// These offsets are ordered, with all before them; the first of them has that position.
    pub(super) fn show_at(&mut self, offsets: &Range<Offset>, position: Position) {
        for waiting in &mut self.waiting_committed {
            if waiting.next_offset > offsets.end {
                break;
            }
            let behind = waiting.outcome.first_offset.0 - offsets.start.0;
            if let Ok(behind) = u64::try_from(behind) {
                waiting.outcome.position = Some(Position(position.0 + behind));
            }
        }
        self.show(offsets.end);
    }

    /// All below an offset is ordered.
    pub(super) fn show(&mut self, ordered: Offset) {
        assert!(self.ordered <= Some(ordered), "what is ordered stays so");
        self.ordered = Some(ordered);
        self.show_more();
    }

    /// Shows what may be shown now.
    pub(super) fn show_more(&mut self) {
        let tail = self.role.tail();
        let held = self.role.leader().map_or(tail, Leader::held);
        self.act_on(Action::Commit { tail, held });
    }

    /// The end of what is ordered, if its topic has one order.
    pub(super) fn ordered(&self) -> Option<Offset> {
        self.ordered
    }

    /// The end of what is durable here, if this node leads.
    fn durable_here(&self) -> Offset {
        self.role.leader().map_or(Offset::ZERO, Leader::durable_here)
    }

    /// Checks the order of a leader's offsets:
    ///
    /// ```text
    /// log start ── tail ── next offset
    ///     durable here ───────┘
    /// ```
    pub(super) fn check_bounds(&self, leader: &Leader) {
        assert!(
            leader.log_start() <= leader.tail(),
            "only committed records are given up"
        );
        assert!(
            leader.tail() <= leader.next_offset(),
            "what is committed was appended"
        );
        assert!(
            leader.durable_here() <= leader.next_offset(),
            "what is durable was appended"
        );
        assert!(
            self.shown_tail <= leader.tail(),
            "readers were shown what is committed"
        );
    }

    /// Says if a producer still waits for the outcome of its batch.
    pub(super) fn has_waiting_producers(&self) -> bool {
        !(self.waiting_committed.is_empty() && self.waiting_durable.is_empty())
    }

    /// Registers a fetch to be woken when the tail moves. One that was woken by other partitions may come again while it is
    /// still registered here.
    pub(super) fn watch(&mut self, number: u32, reader: &Arc<Watcher>) {
        if self
            .readers
            .last()
            .is_some_and(|(last, _)| last.as_ptr() == Arc::as_ptr(reader))
        {
            return;
        }
        if self.readers.len() > 2 * self.readers_swept + 8 {
            self.readers.retain(|(reader, _)| reader.strong_count() > 0);
            self.readers.sort_unstable_by_key(|(reader, _)| reader.as_ptr());
            self.readers.dedup_by_key(|(reader, _)| reader.as_ptr());
            self.readers_swept = self.readers.len();
        }
        self.readers.push((Arc::downgrade(reader), number));
    }

    pub(super) fn wake_readers(&mut self) {
        for (reader, number) in self.readers.drain(..) {
            if let Some(reader) = reader.upgrade() {
                reader.wake(number);
            }
        }
    }

    /// Tells all producers that wait of a refusal.
    pub(super) fn refuse_waiting(&mut self, refusal: &AppendRefusal) {
        if let Some(counters) = self.counters.get() {
            let waiting = self.waiting_committed.len() + self.waiting_durable.len();
            counters.failed_appends.add(waiting as u64);
        }
        for waiting in self
            .waiting_committed
            .drain(..)
            .chain(self.waiting_durable.drain(..))
        {
            let _ = waiting.reply.send(Err(refusal.clone()));
        }
    }

    /// Tells the producers whose batches end at `end` or before why they are not acknowledged.
    fn refuse_below(&mut self, end: Offset, refusal: &AppendRefusal) {
        let count = self
            .waiting_committed
            .partition_point(|waiting| waiting.next_offset <= end);
        if let Some(counters) = self.counters.get() {
            counters.failed_appends.add(count as u64);
        }
        for waiting in self.waiting_committed.drain(..count) {
            let _ = waiting.reply.send(Err(refusal.clone()));
        }
    }

    /// The partition is given up.
    pub(super) fn close(mut self) {
        self.refuse_waiting(&AppendRefusal::UnknownPartition);
        self.wake_readers();
    }
}

fn answer(waiting: &mut VecDeque<Waiting>, reached: Offset) {
    while waiting.front().is_some_and(|first| first.next_offset <= reached) {
        let first = waiting.pop_front().expect("there is a first one");
        assert!(
            first.outcome.first_offset < first.next_offset,
            "an answered batch has records"
        );
        let is_elsewhere = |wanted| first.outcome.position.is_some_and(|position| position != wanted);
        let answer = match first.wanted {
            Some(wanted) if is_elsewhere(wanted) => {
                let told = first.outcome.position;
                tracing::error!(
                    ?wanted,
                    ?told,
                    "an append has another position than it was promised"
                );
                Err(AppendRefusal::Abandoned)
            }
            _ => Ok(first.outcome),
        };
        // A client that has gone does not wait any more.
        let _ = first.reply.send(answer);
    }
}
