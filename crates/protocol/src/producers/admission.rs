//! The choice of the producers that a partition takes on and of those that it forgets.
//!
//! Whoever is remembered stays until it has been silent for so long that it cannot retry any more: the newcomer is refused,
//! not the one that was there, and one from an address that has its share before all others. An unknown producer that begins
//! with another sequence than 0 is accepted only where it may have been forgotten here.

use std::net::IpAddr;
use std::time::Duration;

use planted::{Bug, planted};

use super::entry::Entry;
use super::{ProducerId, Producers, Sequence, SequenceError, ShareChange, Stamp};

/// The facts that a partition must know of its node to take on a producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// The present moment.
    pub now: Duration,
    /// The first producer id that nobody was ever given.
    pub next_id: ProducerId,
    /// Says whether the node has memory for one more.
    pub has_room: bool,
    /// The client's address; `None` for the node itself, and for HTTP.
    pub from: Option<IpAddr>,
}

impl Admission {
    /// Takes on nobody: for logs without idempotent producers.
    pub const NOBODY: Admission = Admission {
        now: Duration::ZERO,
        next_id: ProducerId(0),
        has_room: false,
        from: None,
    };
}

impl Producers {
    /// Takes note that whoever writes here and has an id from `next_id` on is remembered, unless more is known already: for
    /// a partition that begins now, or of whose past nothing else is known.
    pub fn begin_at(&mut self, next_id: ProducerId) {
        self.complete_from.get_or_insert(next_id);
    }

    /// Finds that a producer that is not remembered may begin here.
    pub(super) fn admit(&self, stamp: Stamp, admission: &Admission) -> Result<Sequence, SequenceError> {
        let Stamp {
            id, first_sequence, ..
        } = stamp;
        if id.handed_out() >= admission.next_id {
            return Err(SequenceError::NotHandedOut { id: id.0 });
        }
        // It may have been silent for so long that it was forgotten, or have begun in a topic of the same name that was
        // deleted. Its sequences go on then, and Kafka's brokers accept that, too.
        let may_have_begun = self
            .complete_from
            .is_none_or(|complete_from| id.handed_out() < complete_from);
        // Else it has written nothing here: the batches before this one were refused, or are on their way. Once this one was
        // written, they could not be any more. With this error clients send it again behind them.
        if first_sequence != 0 && !may_have_begun && !planted(Bug::BegunInTheMiddle) {
            return Err(SequenceError::OutOfOrder {
                expected: 0,
                got: first_sequence,
            });
        }
        if self.shares.is_taken(admission.from) {
            let share_max = self.shares.share_max();
            return Err(SequenceError::PartitionShareTaken { share_max });
        }
        let producers_max = self.limits.producers_max;
        let is_full = self.len() >= producers_max;
        match (is_full, admission.has_room) {
            (false, true) => Ok(Sequence::First),
            _ if self.one_may_go(admission.now) => Ok(Sequence::First),
            (true, _) => Err(SequenceError::PartitionFull { producers_max }),
            (false, false) => Err(SequenceError::NodeFull),
        }
    }

    /// Forgets what a newcomer takes the place of, if there is no place for it otherwise.
    pub fn make_way(&mut self, stamp: Stamp, admission: &Admission) {
        if self.entries.contains_key(&stamp.id) {
            return;
        }
        while (self.len() >= self.limits.producers_max || !admission.has_room)
            && self.one_may_go(admission.now)
        {
            self.forget_longest_silent();
            if self.len() < self.limits.producers_max {
                return;
            }
        }
    }

    /// Forgets the producers that cannot retry any more: what they take is needed for others.
    pub fn forget_settled(&mut self, now: Duration) {
        self.forget_silent(now, self.limits.retry_horizon);
    }

    pub(super) fn forget_silent(&mut self, now: Duration, silence: Duration) {
        while self
            .longest_silent()
            .is_some_and(|last_used| last_used.saturating_add(silence) <= now)
        {
            self.forget_longest_silent();
        }
    }

    /// The time when the producer that has been silent longest was heard of last.
    pub(super) fn longest_silent(&self) -> Option<Duration> {
        self.first_to_go().map(|(_, entry)| entry.last_used)
    }

    /// The producer that has been silent longest, of those without an open transaction.
    fn first_to_go(&self) -> Option<(ProducerId, &Entry)> {
        let is_held = |id| self.transactions.holds(id) && !planted(Bug::OpenTransactionForgotten);
        self.in_order().find(|(id, _)| !is_held(*id))
    }

    fn one_may_go(&self, now: Duration) -> bool {
        self.longest_silent()
            .is_some_and(|last_used| last_used.saturating_add(self.limits.retry_horizon) <= now)
    }

    fn forget_longest_silent(&mut self) {
        let (id, _) = self.first_to_go().expect("called when one may go");
        let forgotten = self.entries.swap_remove(&id).expect("it was just found");
        let turn = forgotten.turn.expect("every producer has a turn");
        self.turns.remove(&turn);
        if let Some(client) = forgotten.client {
            let change = ShareChange::Forgotten(client);
            self.shares.note(change);
            self.share_changes.push(change);
        }
        let next = ProducerId(id.handed_out().0 + 1);
        self.complete_from = self.complete_from.map(|known| known.max(next));
    }
}
