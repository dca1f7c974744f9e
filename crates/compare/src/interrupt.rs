//! Whether the user wants a comparison to end, which every wait asks; and the end of this process at once, if the user wants that.

use std::io;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, bail};

use super::group::Group;

/// Set once, by a signal.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_set: AtomicBool,
    /// Held while something is started.
    starting: Mutex<()>,
}

/// The comparison was interrupted; what was measured is kept.
#[derive(Debug, thiserror::Error)]
#[error("interrupted; the same command goes on where it stopped")]
pub struct Interrupted;

impl Interrupt {
    /// Ends the comparison as soon as it looks.
    pub fn set(&self) {
        self.0.is_set.store(true, Ordering::Relaxed);
    }

    /// Ends this process without cleaning up. All that was started is killed with it: nothing is half started then.
    pub fn exit(&self, status: i32) -> ! {
        let _nothing_is_started = self.starting();
        std::process::exit(status)
    }

    /// # Errors
    /// `Interrupted`, if it was set.
    pub(super) fn check(&self) -> Result<()> {
        if self.0.is_set.load(Ordering::Relaxed) {
            bail!(Interrupted);
        }
        Ok(())
    }

    /// Starts a program in a group.
    pub(super) fn start(&self, group: &Group, command: &mut Command) -> io::Result<Child> {
        let _starting = self.starting();
        group.start(command)
    }

    fn starting(&self) -> MutexGuard<'_, ()> {
        self.0.starting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
