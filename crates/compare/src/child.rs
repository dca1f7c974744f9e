//! A program that was started for a comparison: in a process group of its own, its standard output as lines, its standard
//! error in a file, and gone when this value is gone.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::group::Group;
use super::identity;
use super::interrupt::Interrupt;

/// How often a wait looks whether it was interrupted.
const LOOK: Duration = Duration::from_millis(100);
/// How long a program may live that has closed its output.
const SILENT_WITHIN: Duration = Duration::from_secs(5);
/// How long a killed one may take to be gone.
const KILLED_WITHIN: Duration = Duration::from_secs(10);
/// How much of a log a message quotes.
const QUOTED_LINES: usize = 3;

#[derive(Debug)]
pub(super) struct Running {
    /// In messages.
    name: String,
    group: Group,
    child: Child,
    began: Instant,
    lines: Receiver<std::io::Result<String>>,
    log: PathBuf,
    interrupt: Interrupt,
}

#[derive(Debug)]
pub(super) struct Start<'a> {
    /// In messages.
    pub(super) name: &'a str,
    /// The program and its arguments; `${ROPEWALK}` is the node's binary.
    pub(super) command: &'a [String],
    pub(super) arguments: &'a [String],
    /// Variables of its environment besides ours.
    pub(super) environment: &'a BTreeMap<String, String>,
    pub(super) folder: &'a Path,
    /// Where its standard error goes.
    pub(super) log: PathBuf,
}

impl Start<'_> {
    pub(super) fn start(self, interrupt: &Interrupt) -> Result<Running> {
        let binary = identity::node_binary()?.to_string_lossy().into_owned();
        let (program, rest) = self.command.split_first().context("an empty command")?;
        let log = File::create(&self.log).with_context(|| format!("cannot write {}", self.log.display()))?;
        let mut command = Command::new(program.replace("${ROPEWALK}", &binary));
        command
            .args(
                rest.iter()
                    .chain(self.arguments)
                    .map(|word| word.replace("${ROPEWALK}", &binary)),
            )
            .current_dir(self.folder)
            .env("ROPEWALK", &binary)
            .envs(self.environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log);
        let (group, began) = (Group::new()?, Instant::now());
        let mut child = interrupt
            .start(&group, &mut command)
            .with_context(|| format!("cannot start {} of {}", program, self.name))?;
        let output = child.stdout.take().expect("it was piped");
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Running {
            name: self.name.to_owned(),
            group,
            child,
            began,
            lines,
            log: self.log,
            interrupt: interrupt.clone(),
        })
    }
}

impl Running {
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its name in messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// How long ago it was started.
    pub(super) fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// The next line it writes.
    ///
    /// # Errors
    /// If it ends or `limit` is over before; if the comparison was interrupted.
    pub(super) fn line(&mut self, limit: Duration) -> Result<String> {
        let end = Instant::now() + limit;
        loop {
            self.interrupt.check()?;
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left.min(LOOK)) {
                Ok(line) => return line.with_context(|| format!("cannot read what {} says", self.name)),
                Err(RecvTimeoutError::Timeout) => {
                    ensure!(
                        !left.is_zero(),
                        "{} said nothing for {:.1} s{}",
                        self.name,
                        limit.as_secs_f64(),
                        self.last_words()
                    );
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let Some(status) = self.ended_within(SILENT_WITHIN)? else {
                        self.kill();
                        bail!(
                            "{} closed its output and lived on; it was killed{}",
                            self.name,
                            self.last_words()
                        );
                    };
                    bail!("{} ended ({status}){}", self.name, self.last_words());
                }
            }
        }
    }

    /// Writes a line to its standard input.
    pub(super) fn say(&mut self, line: &str) -> Result<()> {
        let input = self.child.stdin.as_mut().expect("it was piped");
        let said = writeln!(input, "{line}").and_then(|()| input.flush());
        said.with_context(|| format!("{} does not listen{}", self.name, self.last_words()))
    }

    /// Waits until it ends by itself, once its standard input is closed.
    pub(super) fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        drop(self.child.stdin.take());
        let status = self.ended_within(limit)?;
        status.with_context(|| {
            format!(
                "{} did not end within {} s{}",
                self.name,
                limit.as_secs(),
                self.last_words()
            )
        })
    }

    /// How it ended; none if it has not within `limit`. Its standard input stays open.
    pub(super) fn ended_within(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            self.interrupt.check()?;
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Closes its standard input, and kills its group if it has not ended within `limit`.
    pub(super) fn close(&mut self, limit: Duration) {
        drop(self.child.stdin.take());
        wait_while(limit, || matches!(self.child.try_wait(), Ok(None)));
        self.kill();
    }

    /// Asks it to end, and kills its group if it has not within `limit`.
    pub(super) fn stop(&mut self, limit: Duration) {
        self.group.terminate();
        drop(self.child.stdin.take());
        wait_while(limit, || matches!(self.child.try_wait(), Ok(None)));
        self.kill();
    }

    /// Kills it and everything it started, at once.
    pub(super) fn kill(&mut self) {
        // Also when the program itself has ended: what it started may live on.
        self.group.kill();
        // One that hangs in the kernel cannot be waited for: it is dead as soon as it comes out of there.
        wait_while(KILLED_WITHIN, || matches!(self.child.try_wait(), Ok(None)));
    }

    /// The end of its log, for a message.
    pub(super) fn last_words(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(QUOTED_LINES)..].join(" | ");
        if last.is_empty() {
            String::new()
        } else {
            format!(": {last}")
        }
    }
}

/// Waits for as long as something is so, and no longer than `limit`.
pub(super) fn wait_while(limit: Duration, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while is_so() && Instant::now() < end {
        thread::sleep(Duration::from_millis(1));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str) -> (tempfile::TempDir, Running) {
        let directory = tempfile::tempdir().expect("a directory");
        let command = ["sh", "-c", script].map(str::to_owned);
        let start = Start {
            name: "the script",
            command: &command,
            arguments: &[],
            environment: &BTreeMap::new(),
            folder: directory.path(),
            log: directory.path().join("log"),
        };
        let running = start.start(&Interrupt::default()).expect("there is a shell");
        (directory, running)
    }

    #[test]
    fn one_that_closes_its_output_and_lives_on_is_killed() {
        let (_directory, mut running) = run("echo one; exec >&-; sleep 1000");
        assert_eq!(running.line(Duration::from_secs(60)).expect("it says so"), "one");
        let began = Instant::now();
        let error = running
            .line(Duration::from_secs(60))
            .expect_err("it says no more");
        assert!(error.to_string().contains("lived on"), "{error:#}");
        assert!(began.elapsed() < Duration::from_secs(30));
        assert!(matches!(running.child.try_wait(), Ok(Some(_))));
    }

    #[test]
    fn every_wait_has_its_limit_and_ends_when_interrupted() {
        let (_directory, mut running) = run("sleep 1000");
        let short = Duration::from_millis(200);
        let error = running.line(short).expect_err("it says nothing");
        assert!(error.to_string().contains("said nothing for 0.2 s"), "{error:#}");
        let error = running.wait(short).expect_err("it does not end");
        assert!(error.to_string().contains("did not end"), "{error:#}");
        running.interrupt.set();
        assert!(running.line(Duration::from_secs(1_000)).is_err());
        assert!(running.wait(Duration::from_secs(1_000)).is_err());
    }
}
