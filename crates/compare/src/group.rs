//! A process group that ends with what started it. Its leader is a guard: a shell that kills all of the group when this process
//! ends in a way that lets it clean up nothing (`kill -9`, no memory left).

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};

/// Its input ends when this process does, however that comes about. What asks the group to end must not end the guard.
const GUARD: &str = "trap '' TERM; echo; read -r _; kill -s KILL 0";

/// Dropped, all in it are killed.
#[derive(Debug)]
pub(super) struct Group {
    /// None when the group is gone: its number may be somebody else's.
    guard: Option<Child>,
}

impl Group {
    /// One with nothing but its guard, which is on watch.
    pub(super) fn new() -> Result<Group> {
        Group::with_guard().context("cannot start sh, which kills what is left if this process is killed")
    }

    fn with_guard() -> io::Result<Group> {
        let mut guard = Command::new("sh")
            .args(["-c", GUARD])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let said = guard.stdout.take().expect("it was piped").read_exact(&mut [0]);
        let group = Group { guard: Some(guard) };
        said.map(|()| group)
    }

    /// Starts a program in it.
    pub(super) fn start(&self, command: &mut Command) -> io::Result<Child> {
        let guard = self
            .guard
            .as_ref()
            .expect("nothing is started in what was killed");
        command.process_group(guard.id().cast_signed()).spawn()
    }

    /// Asks all in it to end.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills all in it, if that was not done before.
    pub(super) fn kill(&mut self) {
        self.signal(Signal::KILL);
        if let Some(mut guard) = self.guard.take() {
            let _ = guard.wait();
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(guard) = &self.guard {
            // An empty group is what is wanted.
            let _ = kill_process_group(Pid::from_child(guard), signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    /// A group with a program that ends only when it is killed.
    fn group() -> (Group, Child) {
        let group = Group::new().expect("a shell");
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' TERM; echo; exec sleep 1000"]);
        let mut child = group.start(command.stdout(Stdio::piped())).expect("a shell");
        // It is deaf as soon as it says something.
        let output = child.stdout.as_mut().expect("it was piped");
        output.read_exact(&mut [0]).expect("it says something");
        (group, child)
    }

    #[test]
    fn a_group_is_killed_by_its_end_or_by_that_of_who_started_it_and_no_other_is() {
        let (mut killed, mut left, mut spared) = (group(), group(), group());
        for (group, _) in [&killed, &left, &spared] {
            group.terminate();
        }
        killed.0.kill();
        // As if this process were gone.
        let guard = left.0.guard.as_mut().expect("it was not killed");
        drop(guard.stdin.take());
        for (_, child) in [&mut killed, &mut left] {
            assert_eq!(child.wait().expect("it is ours").signal(), Some(9));
        }
        assert_eq!(spared.1.try_wait().expect("it is ours"), None);
        drop(spared.0);
        assert_eq!(spared.1.wait().expect("it is ours").signal(), Some(9));
    }
}
