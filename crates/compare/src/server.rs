//! A system under measurement while it runs: started by its folder's `serve`, ready when it says so, metered, stopped, killed.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use super::child::{Running, Start, wait_while};
use super::interrupt::Interrupt;
use super::meter::{self, Meter};
use super::peer::System;

/// How long a system may take until it is ready.
const READY_WITHIN: Duration = Duration::from_secs(180);
/// How long it may take to end when asked.
const ENDED_WITHIN: Duration = Duration::from_secs(60);
/// How long its processes may take to be gone when killed.
const KILLED_WITHIN: Duration = Duration::from_secs(10);
/// Where ports are looked for: below those that systems give to clients by themselves.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// A running system. A store that lives in its driver has no process here.
#[derive(Debug)]
pub(super) struct Server {
    system: System,
    nodes: u32,
    directory: PathBuf,
    log: PathBuf,
    first_port: u16,
    /// Of all that were started: data of one is not that of another.
    number: u32,
    process: Option<Running>,
    ready: Ready,
    interrupt: Interrupt,
}

/// What `serve` says when it is ready.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct Ready {
    /// What drivers get.
    pub(super) address: String,
    /// The processes that are the system.
    #[serde(default)]
    pub(super) pids: Vec<u32>,
    /// Those of each node, where one may be lost without the others.
    #[serde(default)]
    pub(super) nodes: Vec<Vec<u32>>,
    /// What was set.
    #[serde(default)]
    pub(super) settings: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct ReadyLine {
    ready: Ready,
}

impl Server {
    /// Starts `system` with its data in `directory`, which is new, and waits until it is ready.
    ///
    /// # Errors
    /// If it is not in time; the message quotes its log.
    pub(super) fn start(
        system: &System,
        nodes: u32,
        number: u32,
        directory: &Path,
        log: PathBuf,
        interrupt: &Interrupt,
    ) -> Result<Server> {
        std::fs::create_dir(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let mut server = Server {
            system: system.clone(),
            nodes,
            directory: std::fs::canonicalize(directory)?,
            log,
            first_port: 0,
            number,
            process: None,
            ready: Ready::default(),
            interrupt: interrupt.clone(),
        };
        if system.peer.file.serve.is_empty() {
            server.ready.address = server.directory.display().to_string();
            return Ok(server);
        }
        server.first_port = free_ports(server.ports())?;
        server.start_process()?;
        Ok(server)
    }

    /// Starts it again after `kill`; how long it took until it was ready.
    pub(super) fn start_again(&mut self) -> Result<Duration> {
        self.start_process()?;
        Ok(self.process.as_ref().map_or(Duration::ZERO, Running::age))
    }

    fn start_process(&mut self) -> Result<()> {
        let mut arguments = vec![
            self.first_port.to_string(),
            self.directory.display().to_string(),
            self.nodes.to_string(),
        ];
        arguments.extend(self.settings_as_arguments());
        let start = Start {
            name: &self.system.variant.title,
            command: &self.system.peer.file.serve,
            arguments: &arguments,
            folder: &self.system.peer.folder,
            log: self.log.clone(),
        };
        let mut process = start.start(&self.interrupt)?;
        let line = process.line(READY_WITHIN)?;
        let ready: ReadyLine = serde_json::from_str(&line).with_context(|| {
            format!(
                "{} should say that it is ready, not: {line}",
                self.system.variant.title
            )
        })?;
        self.ready = ready.ready;
        self.process = Some(process);
        Ok(())
    }

    /// The variant's settings as its commands take them.
    pub(super) fn settings_as_arguments(&self) -> Vec<String> {
        let settings = self.system.variant.serve_settings.iter();
        settings.map(|(name, value)| format!("{name}={value}")).collect()
    }

    /// What it said when it was ready.
    pub(super) fn ready(&self) -> &Ready {
        &self.ready
    }

    pub(super) fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Which of all that were started it is; the same after it was started again on its data.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Whether it was started and not ended since.
    pub(super) fn is_up(&self) -> bool {
        self.is_in_driver() || self.process.is_some()
    }

    /// How many ports it may listen on.
    fn ports(&self) -> u16 {
        self.system.peer.file.ports_per_node * self.nodes as u16
    }

    /// What it has used up to now.
    ///
    /// # Errors
    /// If one of its processes is gone; the message quotes the log.
    pub(super) fn meter(&self) -> Result<Meter> {
        Meter::read(&self.ready.pids).map_err(|error| {
            let words = self.process.as_ref().map(Running::last_words).unwrap_or_default();
            error.context(format!(
                "a process of {} is gone{words}",
                self.system.variant.title
            ))
        })
    }

    /// What its data takes on the disk.
    pub(super) fn stored_bytes(&self) -> u64 {
        meter::stored_bytes(&self.directory)
    }

    /// Removes its data; it must have ended.
    pub(super) fn remove_data(&self) {
        // What cannot be removed is in the directory that the user named, and harms nothing.
        let _ = std::fs::remove_dir_all(&self.directory);
    }

    /// Whether it is a store within its driver's process.
    pub(super) fn is_in_driver(&self) -> bool {
        self.system.peer.file.serve.is_empty()
    }

    /// What kills all processes of one node, and nothing else of it.
    ///
    /// # Errors
    /// If it did not say which those are.
    pub(super) fn killing(&self, node: usize) -> Result<impl FnOnce() -> Result<()> + Send + use<>> {
        let title = self.system.variant.title.clone();
        let pids = self.ready.nodes.get(node).cloned().unwrap_or_default();
        let pids: Vec<Pid> = pids
            .iter()
            .filter_map(|pid| Pid::from_raw(pid.cast_signed()))
            .collect();
        ensure!(
            !pids.is_empty(),
            "{title} does not say which processes its node {} has: \"nodes\" of its ready line",
            node + 1
        );
        Ok(move || {
            for pid in pids {
                kill_process(pid, Signal::KILL)
                    .with_context(|| format!("node {} of {title} was gone before it was killed", node + 1))?;
            }
            Ok(())
        })
    }

    /// Kills all its processes at once, as a crash does.
    pub(super) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
            // They may have been started by another that is gone sooner: until the last is, its ports and files are in use. A process
            // of many threads seems to be gone before its last one has let go of them.
            wait_while(KILLED_WITHIN, || {
                self.ready.pids.iter().any(|&pid| meter::is_alive(pid))
                    || !are_free(self.first_port, self.ports())
            });
        }
    }

    /// Ends it in order.
    pub(super) fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.stop(ENDED_WITHIN);
        }
    }
}

/// The first of `count` free ports in a row.
fn free_ports(count: u16) -> Result<u16> {
    let count = count.max(1);
    let step = usize::from(count.next_power_of_two());
    // Another comparison on this machine would look from the same place: begin somewhere else.
    let begin = (std::process::id() as u16 % 64) * 64;
    let starts = PORTS
        .skip(usize::from(begin))
        .step_by(step)
        .chain(PORTS.step_by(step));
    for first in starts.filter(|first| first + count < PORTS.end) {
        if are_free(first, count) {
            return Ok(first);
        }
    }
    anyhow::bail!(
        "no {count} free ports in a row between {} and {}",
        PORTS.start,
        PORTS.end
    )
}

/// Says whether nobody listens on any of these ports.
fn are_free(first: u16, count: u16) -> bool {
    let ports = first..first + count;
    ports
        .map(|port| TcpListener::bind(("127.0.0.1", port)))
        .collect::<std::io::Result<Vec<TcpListener>>>()
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_are_taken_are_passed_over() {
        let first = free_ports(4).expect("some are free");
        let _taken = TcpListener::bind(("127.0.0.1", first + 2)).expect("it was free");
        assert!(!are_free(first, 4));
        let other = free_ports(4).expect("some are free");
        assert!(!(first..first + 4).contains(&other) && !(other..other + 4).contains(&(first + 2)));
    }
}
