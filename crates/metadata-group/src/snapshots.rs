//! When a snapshot is taken: when the entries since the last one have so many bytes, whatever their number.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::Notify;

use crate::library::Raft;

/// How much the image has taken in since its last snapshot.
pub(crate) struct Growth {
    bytes: Cell<u64>,
    bytes_max: u64,
    enough: Notify,
}

impl Growth {
    pub(crate) fn new(bytes_max: u64) -> Rc<Growth> {
        Rc::new(Growth {
            bytes: Cell::new(0),
            bytes_max,
            enough: Notify::new(),
        })
    }

    pub(crate) fn add(&self, bytes: usize) {
        // An entry without bytes takes room, too.
        self.bytes.set(self.bytes.get() + bytes as u64 + 32);
        // Again with each entry: while a snapshot is saved, no other is taken.
        if self.bytes.get() >= self.bytes_max {
            self.enough.notify_one();
        }
    }

    pub(crate) fn reset(&self) {
        self.bytes.set(0);
    }
}

/// Has snapshots taken until the group ends.
pub(crate) async fn take_for_ever(growth: Rc<Growth>, raft: Raft) {
    loop {
        growth.enough.notified().await;
        if raft.trigger().snapshot().await.is_err() {
            return;
        }
    }
}
