//! Lists that clients make as long as they like: requests taken apart, and answers as they grow.
//!
//! Entries have memory of their own, and to let go of hundreds of thousands takes longer than a turn of a core may. Nobody needs the core
//! for that. So a long list is let go of beside it, whenever that is: also when its client is gone.

use std::mem;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use crate::budget::SharedRoom;
use crate::core::Core;

/// Shorter lists go at once: each entry may hold some hundreds of texts.
const MANY: usize = 500;
/// Lists of more entries are not looked at in one turn of the core.
const ENTRIES_MAX: usize = 2_000;

/// See the module.
pub(crate) struct Long<T: Send + 'static> {
    core: Rc<Core>,
    items: Vec<T>,
    /// Taken until the list is gone.
    room: SharedRoom,
}

/// Does work on so many entries that needs nothing of the core: beside it, if it would take longer than a turn. What the work holds, it
/// holds until it is done, also if nobody waits any more: so it takes the room of its request along.
pub(crate) async fn beside<A: Send + 'static>(
    core: &Core,
    entries: usize,
    work: impl FnOnce() -> A + Send + 'static,
) -> A {
    match entries < ENTRIES_MAX {
        true => work(),
        false => core.codec.run(work).await,
    }
}

impl<T: Send + 'static> Long<T> {
    /// A list of a request. Its `room` is taken until the list is gone.
    pub(crate) fn of(core: &Rc<Core>, items: Vec<T>, room: &SharedRoom) -> Long<T> {
        Long {
            core: core.clone(),
            items,
            room: room.clone(),
        }
    }

    /// Nothing yet, and so many items soon.
    pub(crate) fn with_capacity(core: &Rc<Core>, capacity: usize) -> Long<T> {
        Long::of(core, Vec::with_capacity(capacity), &None)
    }

    /// Looks at a whole list, beside the core if it has `entries` that take longer than a turn: a set of very many names alone
    /// takes megabytes, and memory is slow where it was never touched before.
    pub(crate) async fn look<A: Send + 'static>(
        mut self,
        entries: usize,
        look: impl FnOnce(&[T]) -> A + Send + 'static,
    ) -> (Long<T>, A) {
        let (items, room) = (mem::take(&mut self.items), self.room.take());
        let look = move || {
            let answer = look(&items);
            (items, room, answer)
        };
        let (items, room, answer) = beside(&self.core, entries, look).await;
        self.items = items;
        self.room = room;
        (self, answer)
    }

    /// The list itself. Whoever takes it sees to its end.
    pub(crate) fn take(mut self) -> Vec<T> {
        mem::take(&mut self.items)
    }
}

impl<T: Send + 'static> Deref for Long<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.items
    }
}

impl<T: Send + 'static> DerefMut for Long<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.items
    }
}

impl<T: Send + 'static> Drop for Long<T> {
    fn drop(&mut self) {
        if self.items.len() >= MANY {
            let (items, room) = (mem::take(&mut self.items), self.room.take());
            self.core.codec.let_go((items, room));
        }
    }
}
