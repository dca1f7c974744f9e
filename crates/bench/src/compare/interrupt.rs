//! Whether the user wants a comparison to end: every wait looks here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};

/// Set once, by a signal.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

/// The comparison was interrupted; what was measured is kept.
#[derive(Debug, thiserror::Error)]
#[error("interrupted; the same command goes on where it stopped")]
pub struct Interrupted;

impl Interrupt {
    /// Ends the comparison as soon as it looks.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// # Errors
    /// `Interrupted`, if it was set.
    pub(super) fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) {
            bail!(Interrupted);
        }
        Ok(())
    }
}
