//! Counters that belong to one thread, as everything of a core does: counting takes no lock and no atomic operation.

mod histogram;

use std::cell::Cell;

pub use histogram::{Histogram, HistogramFigures};

/// Counts what happened since the start; it never goes back.
#[derive(Debug, Default)]
pub struct Counter(Cell<u64>);

impl Counter {
    /// Adds to it.
    #[inline]
    pub fn add(&self, by: u64) {
        self.0.set(self.0.get() + by);
    }

    /// Returns what it has counted.
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}
