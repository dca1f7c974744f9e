//! Group commit among threads: a thread that finds no flush under way runs the next one itself, for all that was staged by then.
//!
//! Invariant: a thread returns only when the frame that holds its records is durable, or the journal is dead. A lone appender
//! hands nothing to another thread: it stages, flushes and returns. Of many, one flushes while the others stage behind it and
//! wait; when its own frame is done, it wakes those whose records are durable and some other, which flushes next.
//! So whenever something is staged and no flush is under way, a thread that waits for it is awake.

use std::io;
use std::sync::{Condvar, PoisonError};

use record::{Offset, PartitionId};
use storage::Flush;

use crate::engine::{Engine, Guard, State};

/// The places where threads wait, by the number of their frame: those whose frame is not durable yet sleep on.
const PLACES: usize = 4;

/// The threads that wait for frames.
#[derive(Default)]
pub(crate) struct Waiters {
    places: [Condvar; PLACES],
}

/// The number of threads that wait in each place. A place may have fewer than this says, and never more: waking nobody is a call
/// to the system as well. Kept in the state.
#[derive(Default)]
pub(crate) struct Waiting([usize; PLACES]);

fn place_of(frame: u64) -> usize {
    (frame % PLACES as u64) as usize
}

impl Waiters {
    fn wake_all(&self, waiting: &mut Waiting, place: usize) {
        if std::mem::take(&mut waiting.0[place]) > 0 {
            self.places[place].notify_all();
        }
    }

    /// Wakes all threads that wait, counted or not: for a thread that panics and may count no more.
    pub(crate) fn wake_all_places(&self) {
        self.places.iter().for_each(Condvar::notify_all);
    }

    /// Wakes all threads that are counted, for when the journal has died.
    fn wake_everybody(&self, waiting: &mut Waiting) {
        (0..PLACES).for_each(|place| self.wake_all(waiting, place));
    }

    /// Wakes one thread in each place where some may wait. In each: a condition may wake a thread that was not meant, so a
    /// count may be too great, and nobody be there to go on.
    fn wake_one_each(&self, waiting: &mut Waiting) {
        for (place, count) in self.places.iter().zip(&mut waiting.0) {
            if *count > 0 {
                *count -= 1;
                place.notify_one();
            }
        }
    }
}

impl Engine {
    /// Returns when everything staged in frames up to `frame` is durable; flushes itself if nobody else does.
    ///
    /// # Errors
    /// The journal is dead: why. What was staged and not durable is of unknown outcome.
    pub(crate) fn until_durable<'a>(&'a self, mut state: Guard<'a>, frame: u64) -> Result<Guard<'a>, String> {
        let mut has_flushed = false;
        loop {
            if state.store.is_durable(frame) {
                if has_flushed {
                    self.waiters.wake_one_each(&mut state.waiting);
                }
                return Ok(state);
            }
            if let Some(reason) = state.store.dead() {
                return Err(reason.to_owned());
            }
            if let Some(flush) = state.store.next_flush() {
                let flushing = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
                drop(state);
                let result = flush.run();
                drop(flushing);
                state = self.state();
                self.apply_flush(&mut state, flush, result);
                has_flushed = true;
                continue;
            }
            let place = place_of(frame);
            state.waiting.0[place] += 1;
            state = self.wait(&self.waiters.places[place], state);
        }
    }

    /// Everything staged so far becomes durable.
    ///
    /// # Errors
    /// As `until_durable`.
    pub(crate) fn until_all_durable<'a>(&'a self, state: Guard<'a>) -> Result<Guard<'a>, String> {
        match state.store.staged_before() {
            0 => Ok(state),
            before => self.until_durable(state, before - 1),
        }
    }

    fn apply_flush(&self, state: &mut State, flush: Flush, result: io::Result<()>) {
        match state.store.flushed(flush, result) {
            Ok(durable) => {
                let place = place_of(state.durable_before);
                state.durable_before += 1;
                state.commit(durable);
                self.waiters.wake_all(&mut state.waiting, place);
                self.note_work(state);
            }
            Err(error) => {
                tracing::error!(%error, "a flush failed; nothing is appended to these logs any more");
                for partition in state.partitions.values_mut() {
                    partition.leader.handle_seal();
                    while partition.leader.next_action().is_some() {}
                }
                self.waiters.wake_everybody(&mut state.waiting);
                self.room.notify_all();
            }
        }
        if state.followers > 0 {
            self.tail_moved.notify_all();
        }
    }
}

impl State {
    /// Moves the tails of the partitions that became durable: from now on readers see these records.
    fn commit(&mut self, durable: Vec<(PartitionId, Offset)>) {
        for (id, next_offset) in durable {
            let leader = &mut self
                .partitions
                .get_mut(&id)
                .expect("the partition was opened")
                .leader;
            leader
                .handle_durable(self.node, next_offset)
                .expect("the journal flushes only what this leader appended");
            while leader.next_action().is_some() {}
            self.store.commit_to(id, leader.tail());
            self.assert_same_log(id);
        }
    }
}
