//! How many idempotent producers the partitions of one journal remember together, and how many they may.
//!
//! The bound is on memory, and keeps the journal's checkpoint, which holds them all, far below the size that could not be read back.

use std::cell::Cell;
use std::time::Duration;

use protocol::ProducerId;
use protocol::producers::{Admission, PRODUCER_BYTES};

/// See the module.
pub(super) struct ProducerRoom {
    remembered: Cell<usize>,
    producers_max: usize,
    /// The first producer id that nobody was given.
    next_id: Cell<ProducerId>,
}

impl ProducerRoom {
    pub(super) fn of_bytes(bytes: usize) -> ProducerRoom {
        ProducerRoom {
            remembered: Cell::new(0),
            producers_max: bytes / PRODUCER_BYTES,
            next_id: Cell::new(ProducerId(0)),
        }
    }

    /// On which terms a partition takes a producer on now.
    pub(super) fn admission(&self, now: Duration) -> Admission {
        Admission {
            now,
            next_id: self.next_id.get(),
            has_room: self.remembered.get() < self.producers_max,
        }
    }

    /// Takes note that a partition remembers another number of producers than before.
    pub(super) fn note(&self, before: usize, after: usize) {
        let others = self.remembered.get().checked_sub(before);
        let others = others.expect("every remembered producer is counted");
        self.remembered.set(others + after);
    }

    /// Says whether so much is taken that producers which cannot retry any more should make room.
    pub(super) fn is_tight(&self) -> bool {
        self.remembered.get() > self.producers_max / 4 * 3
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
