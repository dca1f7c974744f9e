//! Counts of one coordinator's transactions, kept as its ids change: a look at them costs nothing, however many ids there are.
//!
//! Only what is durable counts. Decisions from before the start are not counted again.

use std::collections::BTreeSet;

use super::contract::{Name, TransactionState};
use super::state::IdState;

/// The transactions of one coordinator, as operators watch them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Transactional ids.
    pub ids: usize,
    /// Transactions that have begun and are not completed.
    pub open: usize,
    /// The start of the oldest of these, milliseconds since 1970.
    pub oldest_start_ms: Option<i64>,
    /// Transactions of which it was decided that they commit, since the coordinator's start.
    pub committed: u64,
    /// The same of those that abort, whoever wanted it.
    pub aborted: u64,
    /// Of these, those that took longer than their timeout.
    pub timed_out: u64,
    /// Markers that their partitions have not taken yet.
    pub markers_waiting: usize,
    /// Times that a marker was to be sent again.
    pub markers_retried: u64,
}

impl Figures {
    /// The same of two coordinators together.
    #[must_use]
    pub fn and(self, other: Figures) -> Figures {
        let starts = self.oldest_start_ms.into_iter().chain(other.oldest_start_ms);
        Figures {
            ids: self.ids + other.ids,
            open: self.open + other.open,
            oldest_start_ms: starts.min(),
            committed: self.committed + other.committed,
            aborted: self.aborted + other.aborted,
            timed_out: self.timed_out + other.timed_out,
            markers_waiting: self.markers_waiting + other.markers_waiting,
            markers_retried: self.markers_retried + other.markers_retried,
        }
    }

    /// The part of them that is left when the coordinator is not there any more: the counts of what has happened.
    #[must_use]
    pub fn of_the_past(self) -> Figures {
        Figures {
            committed: self.committed,
            aborted: self.aborted,
            timed_out: self.timed_out,
            markers_retried: self.markers_retried,
            ..Figures::default()
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// By their start.
    open: BTreeSet<(i64, Name)>,
    committed: u64,
    aborted: u64,
    timed_out: u64,
}

impl Tally {
    /// Takes note of an id's next state. `is_timeout` says that nobody but time has asked for it.
    pub(super) fn note(
        &mut self,
        name: &Name,
        from: Option<&IdState>,
        to: Option<&IdState>,
        is_timeout: bool,
    ) {
        let start = |state: Option<&IdState>| {
            let open = state.filter(|state| state.phase.is_open());
            open.map(|state| state.start_ms)
        };
        let (was_open, is_open) = (start(from), start(to));
        if was_open != is_open {
            was_open.map(|start_ms| self.open.remove(&(start_ms, Name::clone(name))));
            is_open.map(|start_ms| self.open.insert((start_ms, Name::clone(name))));
        }
        let was_ongoing = from.is_some_and(|state| state.phase == TransactionState::Ongoing);
        let decided = to.filter(|state| was_ongoing && state.phase.is_prepared());
        let Some(decided) = decided else { return };
        match decided.phase.is_commit() {
            true => self.committed += 1,
            false => {
                self.aborted += 1;
                self.timed_out += u64::from(is_timeout);
            }
        }
    }

    /// The counts so far; the rest is the coordinator's to add.
    pub(super) fn figures(&self) -> Figures {
        Figures {
            open: self.open.len(),
            oldest_start_ms: self.open.first().map(|(start_ms, _)| *start_ms),
            committed: self.committed,
            aborted: self.aborted,
            timed_out: self.timed_out,
            ..Figures::default()
        }
    }
}
