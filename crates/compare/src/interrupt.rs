//! Whether the user wants a comparison to end, which every wait asks; and everything that was started, to be killed at once if the
//! user wants that, and also if this process is killed.

use std::collections::BTreeSet;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use super::watchdog::Watchdog;

/// Set once, by a signal.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_set: AtomicBool,
    started: Mutex<Started>,
}

/// Process groups that were started and not yet killed.
#[derive(Debug, Default)]
struct Started {
    groups: BTreeSet<u32>,
    /// Knows the groups as well. There is none before anything is started.
    watchdog: Option<Watchdog>,
    /// Nothing may be started any more.
    is_over: bool,
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

    /// Kills everything that was started, and lets nothing be started any more: for a process that is about to end without
    /// cleaning up.
    pub fn kill_all(&self) {
        self.set();
        let mut started = self.started();
        started.is_over = true;
        for group in std::mem::take(&mut started.groups) {
            kill_group(group, Signal::KILL);
        }
    }

    /// # Errors
    /// `Interrupted`, if it was set.
    pub(super) fn check(&self) -> Result<()> {
        if self.0.is_set.load(Ordering::Relaxed) {
            bail!(Interrupted);
        }
        Ok(())
    }

    /// Starts a program that leads a group of its own. It is known here before anybody can ask for all to be killed.
    pub(super) fn start(&self, command: &mut Command) -> Result<Child> {
        let mut started = self.started();
        if started.is_over {
            bail!(Interrupted);
        }
        if started.watchdog.is_none() {
            started.watchdog = Some(Watchdog::start()?);
        }
        let child = command.spawn()?;
        started.groups.insert(child.id());
        if let Some(watchdog) = &mut started.watchdog {
            watchdog.started(child.id());
        }
        Ok(child)
    }

    /// Kills the group that this child leads and forgets it. Nothing is done if that was done before: its number may be somebody
    /// else's by now.
    pub(super) fn kill(&self, leader: u32) {
        let mut started = self.started();
        if started.groups.remove(&leader) {
            kill_group(leader, Signal::KILL);
            if let Some(watchdog) = &mut started.watchdog {
                watchdog.killed(leader);
            }
        }
    }

    /// Asks the group that this child leads to end.
    pub(super) fn terminate(&self, leader: u32) {
        let started = self.started();
        if started.groups.contains(&leader) {
            kill_group(leader, Signal::TERM);
        }
    }

    fn started(&self) -> MutexGuard<'_, Started> {
        // The set is whole after each of its steps: a panic elsewhere takes nothing from it.
        self.0.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn kill_group(leader: u32, signal: Signal) {
    let pid = i32::try_from(leader).ok().and_then(Pid::from_raw);
    // An empty group is what is wanted.
    let _ = kill_process_group(pid.expect("a child has a pid"), signal);
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::{CommandExt, ExitStatusExt};

    use super::*;

    #[test]
    fn all_that_was_started_is_killed_and_nothing_is_started_after() {
        let interrupt = Interrupt::default();
        let sleep = || {
            let mut command = Command::new("sleep");
            command.arg("1000").process_group(0);
            command
        };
        let mut children = [(); 2].map(|()| interrupt.start(&mut sleep()).expect("it is there"));
        interrupt.kill(children[0].id());
        assert_eq!(children[0].wait().expect("it is ours").signal(), Some(9));
        interrupt.kill_all();
        assert_eq!(children[1].wait().expect("it is ours").signal(), Some(9));
        assert!(interrupt.check().is_err());
        let refused = interrupt.start(&mut sleep()).expect_err("it is over");
        assert!(refused.is::<Interrupted>(), "{refused:#}");
    }
}
