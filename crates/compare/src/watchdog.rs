//! A process that outlives this one by a moment. When this one ends in a way that lets it clean up nothing (`kill -9`, no memory
//! left), it kills whatever was started and not yet killed.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// Its input ends when this process does, however that comes about.
const SCRIPT: &str = r#"
groups=' '
while read -r what group; do
  case $what in
    started) groups="$groups$group " ;;
    killed) groups="${groups%% $group *} ${groups#* $group }" ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
"#;

/// See the module. Dropped, it does what it would do if this process were gone.
#[derive(Debug)]
pub(super) struct Watchdog {
    shell: Child,
}

impl Watchdog {
    /// Starts it, in a group of its own: what ends this process from the terminal must not end it.
    pub(super) fn start() -> Result<Watchdog> {
        let shell = Command::new("sh")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot start sh, which kills what is left if this process is killed")?;
        Ok(Watchdog { shell })
    }

    /// This process group was started.
    pub(super) fn started(&mut self, group: u32) {
        self.tell("started", group);
    }

    /// This one is gone; its number may be somebody else's from now on.
    pub(super) fn killed(&mut self, group: u32) {
        self.tell("killed", group);
    }

    fn tell(&mut self, what: &str, group: u32) {
        let input = self
            .shell
            .stdin
            .as_mut()
            .expect("it was piped, and is taken by drop only");
        // Somebody has killed it: then nobody watches, which harms nothing that is measured.
        let _ = writeln!(input, "{what} {group}");
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn sleep() -> Child {
        let mut command = Command::new("sleep");
        command.arg("1000").process_group(0).spawn().expect("it is there")
    }

    #[test]
    fn what_is_left_when_nobody_is_there_any_more_is_killed_and_nothing_else() {
        let mut children = [(); 4].map(|()| sleep());
        let mut watchdog = Watchdog::start().expect("a shell");
        for child in &children {
            watchdog.started(child.id());
        }
        for known in [1, 3] {
            watchdog.killed(children[known].id());
        }
        drop(watchdog);
        for left in [0, 2] {
            assert_eq!(children[left].wait().expect("it is ours").signal(), Some(9));
        }
        for spared in [1, 3] {
            let status = children[spared].try_wait().expect("it is ours");
            assert_eq!(status, None, "it was not among those left");
            children[spared].kill().expect("it lives");
            children[spared].wait().expect("it is ours");
        }
    }
}
