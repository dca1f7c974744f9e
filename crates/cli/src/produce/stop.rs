//! Tells that a signal has asked for the end. Records read until then are still appended, unless a rate holds them up.

use std::sync::{Arc, OnceLock};

use crate::failure::Ended;
use crate::signals::Signal;

/// One for the whole command; clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Stop(Arc<OnceLock<Signal>>);

impl Stop {
    /// Asks for the end; who was first is remembered.
    pub(super) fn ask(&self, signal: Signal) {
        let _ = self.0.set(signal);
    }

    /// # Errors
    /// The end was asked for.
    pub(super) fn check(&self) -> Result<(), Ended> {
        self.0.get().map_or(Ok(()), |signal| Err(Ended(*signal)))
    }
}
