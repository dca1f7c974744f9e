//! Counts the idempotent producers that the partitions of one journal remember together, and bounds their number. Those of one
//! client's address may be half of all.
//!
//! The bound is on memory, and keeps the journal's checkpoint, which holds them all, far below the size that could not be read back.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::time::Duration;

use protocol::producers::{Admission, PRODUCER_BYTES, Shares};
use protocol::{Leader, ProducerId, Producers, SequenceError};

/// See the module.
pub(super) struct ProducerRoom {
    remembered: Cell<usize>,
    producers_max: usize,
    shares: RefCell<Shares>,
    /// The first producer id that nobody was given.
    next_id: Cell<ProducerId>,
}

impl ProducerRoom {
    pub(super) fn of_bytes(bytes: usize) -> ProducerRoom {
        let producers_max = bytes / PRODUCER_BYTES;
        ProducerRoom {
            remembered: Cell::new(0),
            producers_max,
            shares: RefCell::new(Shares::of(producers_max)),
            next_id: Cell::new(ProducerId(0)),
        }
    }

    /// The terms on which a partition takes a producer on now. A newcomer needs [`ProducerRoom::check_share`] besides.
    pub(super) fn admission(&self, now: Duration, from: Option<IpAddr>) -> Admission {
        Admission {
            now,
            next_id: self.next_id.get(),
            has_room: self.remembered.get() < self.producers_max,
            from,
        }
    }

    /// Checks that an address has not taken its share yet. Asked only for producers that are not remembered, not for each batch.
    pub(super) fn check_share(&self, from: Option<IpAddr>) -> Result<(), SequenceError> {
        match self.shares.borrow().is_taken(from) {
            true => Err(SequenceError::NodeShareTaken),
            false => Ok(()),
        }
    }

    /// Takes note that a partition remembers other producers than before, and how many it remembered then.
    pub(super) fn note(&self, before: usize, leader: &mut Leader) {
        self.recount(before, leader.producers().len());
        for change in leader.take_share_changes() {
            self.shares.borrow_mut().note(change);
        }
    }

    /// Takes note that a partition is given up with the producers that it remembers.
    pub(super) fn note_gone(&self, producers: &Producers) {
        self.recount(producers.len(), 0);
        self.shares.borrow_mut().give_all_back(producers.shares());
    }

    fn recount(&self, before: usize, after: usize) {
        let others = self.remembered.get().checked_sub(before);
        let others = others.expect("every remembered producer is counted");
        self.remembered.set(others + after);
    }

    /// Says if most of the room is taken, by all or by one client's address: then producers that cannot retry any more should make
    /// some.
    pub(super) fn is_tight(&self) -> bool {
        self.remembered.get() > self.producers_max / 4 * 3 || self.shares.borrow().is_tight()
    }

    pub(super) fn next_id(&self) -> ProducerId {
        self.next_id.get()
    }

    pub(super) fn set_next_id(&self, next_id: ProducerId) {
        self.next_id.set(next_id);
    }

    pub(super) fn remembered(&self) -> usize {
        self.remembered.get()
    }
}
