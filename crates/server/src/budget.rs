//! Memory that requests may take together: those of one core while they arrive and until nothing of them is left; and on the
//! HTTP thread bodies, and answers that are not taken yet. Asked for before the memory is taken, and as it is needed: what is
//! only announced holds little. Who gets it, and why nobody waits for ever, says `ledger`.
//!
//! Never a reason to read less of what is small. Nobody keeps room in silence, or for a trickle, while others wait for it: who
//! holds some gets more of it at once or gives up. Room may be given back on any thread; the lock is held for a few steps.

mod ledger;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

pub(crate) use ledger::NoRoom;
use ledger::{ClaimId, Ledger, TURN_LASTS};

/// The longest time in which nothing may come of what room is kept for, while others wait for that room.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct Budget {
    ledger: Shared,
}

/// The book, and whoever looks into it.
#[derive(Clone)]
struct Shared(Arc<Mutex<Ledger>>);

impl Shared {
    fn open(&self) -> MutexGuard<'_, Ledger> {
        // A thread that failed an assertion while it held the lock ends the node anyway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Memory that somebody holds, or may come to hold, until dropped.
pub(crate) struct Room {
    ledger: Shared,
    claim: ClaimId,
}

/// The room of a request, which lives as long as anything that was made of it; a small request has none.
pub(crate) type SharedRoom = Option<Arc<Room>>;

impl Budget {
    /// Room for `bytes_max` bytes, all of it free.
    pub(crate) fn new(bytes_max: usize) -> Budget {
        Budget {
            ledger: Shared(Arc::new(Mutex::new(Ledger::new(bytes_max)))),
        }
    }

    /// Waits for room for `bytes` for a client at this address, or for all there is if they are more.
    pub(crate) async fn room_of(&self, payer: Option<IpAddr>, bytes: usize) -> Room {
        let room = self.claim(payer, bytes);
        room.grow(bytes).await;
        room
    }

    #[cfg(test)]
    pub(crate) async fn room(&self, bytes: usize) -> Room {
        self.room_of(None, bytes).await
    }

    /// Room that may grow up to `bytes`, and is none yet.
    pub(crate) fn claim(&self, payer: Option<IpAddr>, bytes: usize) -> Room {
        Room {
            claim: self.ledger.open().begin(payer, bytes),
            ledger: self.ledger.clone(),
        }
    }

    /// Room for nothing yet, to be resized.
    pub(crate) fn no_room(&self) -> Room {
        self.claim(None, 0)
    }

    /// Makes `room` one for `bytes`: gives back what it holds beyond that, or takes the rest if it is free now.
    pub(crate) fn resize(&self, room: &mut Room, bytes: usize) -> bool {
        room.resize_within(bytes, usize::MAX).is_ok()
    }

    /// Bytes that there are, held or free.
    pub(crate) fn bytes_max(&self) -> usize {
        self.ledger.open().bytes_max()
    }

    /// Bytes that are held.
    pub(crate) fn held_bytes(&self) -> usize {
        self.ledger.open().held_bytes()
    }

    /// Says whether somebody waits for room.
    fn is_wanted(&self) -> bool {
        self.ledger.open().is_wanted()
    }

    /// Returns when there was silence for long enough, and somebody waits for room.
    pub(crate) async fn until_wanted(&self) {
        loop {
            sleep(SILENCE_MAX).await;
            if self.is_wanted() {
                return;
            }
        }
    }
}

impl Room {
    /// Takes all that this room may come to if that is little beside what is free. Otherwise nothing.
    pub(crate) fn take_if_small(&self) -> bool {
        self.ledger.open().meet_small(self.claim)
    }

    /// Waits until this is room for `bytes`, or for all that it may come to if they are more. Nothing is lost if the wait is given
    /// up.
    pub(crate) async fn grow(&self, bytes: usize) {
        let waiting = self.ledger.open().grow(self.claim, bytes, Instant::now());
        let Some(mut told) = waiting else { return };
        let _waiting = Waiting(self);
        loop {
            tokio::select! {
                biased;
                _ = &mut told => return,
                () = sleep(TURN_LASTS) => self.ledger.open().serve(Instant::now()),
            }
        }
    }

    /// Makes this room for `bytes`: gives back what it holds beyond that, or takes the rest if it is free now and its payer does
    /// not come to hold more than `payer_bytes_max` by that.
    pub(crate) fn resize_within(&mut self, bytes: usize, payer_bytes_max: usize) -> Result<(), NoRoom> {
        let mut ledger = self.ledger.open();
        ledger.resize(self.claim, bytes, payer_bytes_max, Instant::now())
    }

    /// Bytes that this room has.
    pub(crate) fn held_bytes(&self) -> usize {
        self.ledger.open().held_by(self.claim)
    }

    /// Says whether it is all that it may come to.
    pub(crate) fn is_whole(&self) -> bool {
        self.ledger.open().missing(self.claim) == 0
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.ledger.open().end(self.claim, Instant::now());
    }
}

/// Waits no more when it is dropped, however the wait ended.
struct Waiting<'a>(&'a Room);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.ledger.open().give_up(self.0.claim, Instant::now());
    }
}

#[cfg(test)]
mod tests;
