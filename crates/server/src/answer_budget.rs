//! The memory of a core's answers: what readers may have found and what clients have not taken yet, counted in one place.
//!
//! A reader asks before it reads and gives back what it did not find; whoever writes an answer holds what it takes until
//! it is written. Nobody waits for room while holding any, so nobody waits for ever. Of each client's address one long answer at a
//! time stands in the line for room: however many an address wants, others wait for one of them. All of it belongs to one core's
//! thread.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::{Rc, Weak};

use tokio::sync::{Mutex, MutexGuard, Notify};

/// No read is granted more than this part of what is left: the first that come cannot leave the others nothing.
const SHARE: usize = 8;
/// No read is granted less, if it is left: a read of one byte still takes a chunk of a segment into memory.
const GRANT_BYTES_MIN: usize = 64 << 10;
/// An answer that takes no more than this is gathered whether there is room or not.
const GATHERED_BYTES_MIN: usize = 64 << 10;

/// See the module.
pub(crate) struct AnswerBudget {
    bytes_max: usize,
    held_bytes: Cell<usize>,
    /// Told whenever there is room again.
    freed: Notify,
    turn: Mutex<()>,
    /// The turn of the one that looks for room, among those that wait to gather a long answer.
    gathering: Mutex<()>,
    /// The lines in front of that one, one for each address that has any.
    lines: RefCell<BTreeMap<IpAddr, Weak<Mutex<()>>>>,
    /// Told whenever something is given back, for that one.
    freed_some: Notify,
}

/// Memory that somebody holds, until dropped.
pub(crate) struct Held {
    budget: Rc<AnswerBudget>,
    bytes: usize,
}

impl AnswerBudget {
    /// Room for `bytes_max` bytes, all of it free.
    pub(crate) fn new(bytes_max: usize) -> Rc<AnswerBudget> {
        Rc::new(AnswerBudget {
            bytes_max,
            held_bytes: Cell::new(0),
            freed: Notify::new(),
            turn: Mutex::new(()),
            gathering: Mutex::new(()),
            lines: RefCell::default(),
            freed_some: Notify::new(),
        })
    }

    /// Takes room for a read that wants `bytes`, or for part of it: at least one byte. `None` if nothing is left.
    pub(crate) fn grant(self: &Rc<Self>, bytes: usize) -> Option<Held> {
        let left = self.left();
        let share = (left / SHARE).max(GRANT_BYTES_MIN);
        let granted = bytes.max(GRANT_BYTES_MIN).min(share).min(left);
        (granted > 0).then(|| self.hold(granted))
    }

    /// Counts memory that an answer takes, whether there is room for it or not: the answer is there. That is how more than
    /// the limit can be held: a read's first batch may be larger than its grant, and answers without records ask for none.
    pub(crate) fn hold(self: &Rc<Self>, bytes: usize) -> Held {
        self.held_bytes.set(self.held_bytes.get() + bytes);
        Held {
            budget: self.clone(),
            bytes,
        }
    }

    /// Waits for room for a long answer whose size is known before it is gathered, and takes it: until that much is left, or half
    /// of all if it is more. `client` is the address that it is for.
    pub(crate) async fn reserve(self: &Rc<Self>, client: IpAddr, bytes: usize) -> Held {
        if bytes > GATHERED_BYTES_MIN {
            let line = self.line_of(client);
            let _first_of_client = line.turn.lock().await;
            let _first = self.gathering.lock().await;
            while self.left() < bytes.min(self.bytes_max / 2) {
                self.freed_some.notified().await;
            }
            return self.hold(bytes);
        }
        self.hold(bytes)
    }

    fn line_of(self: &Rc<Self>, client: IpAddr) -> Line {
        let mut lines = self.lines.borrow_mut();
        let known = lines.get(&client).and_then(Weak::upgrade);
        let turn = known.unwrap_or_default();
        lines.insert(client, Rc::downgrade(&turn));
        Line {
            budget: self.clone(),
            client,
            turn,
        }
    }

    /// Waits for the turn to find what an answer says, where nobody knows beforehand how long that is: what was found and is
    /// not counted yet is one answer's then. Nobody waits for room while it is their turn.
    pub(crate) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Waits until something is left.
    pub(crate) async fn room(&self) {
        while self.is_used_up() {
            self.freed.notified().await;
        }
        // There may be some for the next one, too.
        self.freed.notify_one();
    }

    /// The bytes that are held.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes.get()
    }

    /// Says if most of it is held, so that grants become small or end.
    pub(crate) fn is_scarce(&self) -> bool {
        self.left() < self.bytes_max / 4
    }

    /// Says if nothing is left.
    pub(crate) fn is_used_up(&self) -> bool {
        self.left() == 0
    }

    fn left(&self) -> usize {
        self.bytes_max.saturating_sub(self.held_bytes.get())
    }
}

/// A place in the line of one address. An address without places takes no memory.
struct Line {
    budget: Rc<AnswerBudget>,
    client: IpAddr,
    turn: Rc<Mutex<()>>,
}

impl Drop for Line {
    fn drop(&mut self) {
        if Rc::strong_count(&self.turn) == 1 {
            self.budget.lines.borrow_mut().remove(&self.client);
        }
    }
}

impl Held {
    /// The bytes that are held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Holds so much more, whether there is room for it or not.
    pub(crate) fn grow(&mut self, bytes: usize) {
        self.budget.held_bytes.set(self.budget.held_bytes.get() + bytes);
        self.bytes += bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let held_bytes = self.budget.held_bytes.get();
        assert!(held_bytes >= self.bytes, "what is given back was held");
        self.budget.held_bytes.set(held_bytes - self.bytes);
        self.budget.freed.notify_one();
        self.budget.freed_some.notify_one();
    }
}

#[cfg(test)]
mod tests;
