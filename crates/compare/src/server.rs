//! A system under measurement while it runs: started by its folder's `serve`, ready when it says so, metered, stopped, killed. Its
//! nodes are all on this machine, or each on a host of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Error, Result, ensure};
use serde::Deserialize;

use super::child::wait_while;
use super::hosts::Hosts;
use super::interrupt::{Interrupt, Interrupted};
use super::meter::Meter;
use super::peer::System;
use super::site::{Program, Site};

/// How long its ports may be in use after its processes were killed.
const LET_GO_WITHIN: Duration = Duration::from_secs(10);
/// Where ports are looked for: below those that systems give to clients by themselves.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
/// Where all nodes listen that are on this machine.
const LOOPBACK: &str = "127.0.0.1";

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
    parts: Arc<[Part]>,
    ready: Ready,
    is_up: bool,
}

/// A part of it that is in one place: all, or a node.
#[derive(Debug)]
struct Part {
    site: Site,
    /// Where it listens.
    address: String,
    directory: PathBuf,
    /// The directory that is removed at its end.
    own: PathBuf,
    /// Variables that its `serve` is told besides its arguments.
    environment: BTreeMap<String, String>,
}

/// What `serve` says when it is ready.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct Ready {
    /// What drivers get.
    pub(super) address: String,
    /// The processes that are the system: by the part that they are of.
    #[serde(rename = "pids", default)]
    own_pids: Vec<u32>,
    #[serde(skip)]
    pids: Vec<Vec<u32>>,
    /// Those of each node, where one may be lost without the others.
    #[serde(rename = "nodes", default)]
    own_nodes: Vec<Vec<u32>>,
    /// The same with the part that has them.
    #[serde(skip)]
    nodes: Vec<(usize, Vec<u32>)>,
    /// What was set.
    #[serde(default)]
    pub(super) settings: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct ReadyLine {
    ready: Ready,
}

/// Everything that a system is started with.
#[derive(Debug)]
pub(super) struct Starting<'a> {
    pub(super) system: &'a System,
    pub(super) nodes: u32,
    pub(super) hosts: &'a Hosts,
    pub(super) number: u32,
    /// Where its data is: a new directory.
    pub(super) directory: &'a Path,
    pub(super) log: PathBuf,
    pub(super) interrupt: &'a Interrupt,
}

impl Starting<'_> {
    /// All in one place.
    fn here(&self) -> Result<Vec<Part>> {
        std::fs::create_dir(self.directory)
            .with_context(|| format!("cannot make {}", self.directory.display()))?;
        let directory = std::fs::canonicalize(self.directory)?;
        Ok(vec![Part {
            site: Site::here(self.interrupt),
            address: LOOPBACK.to_owned(),
            own: directory.clone(),
            directory,
            environment: BTreeMap::new(),
        }])
    }

    /// A node on each host.
    fn on_hosts(&self) -> Result<Vec<Part>> {
        // One folder there, not two: what is above it is the user's.
        let names = [
            self.directory.parent().and_then(Path::file_name),
            self.directory.file_name(),
        ];
        let name = names
            .map(|name| name.unwrap_or_default().to_string_lossy())
            .join("-");
        let base = self.directory.parent().unwrap_or(self.directory);
        let own = base.with_file_name(name);
        // Of a cluster, for systems that want one: 16 bytes in base64 (URL), as Kafka writes them.
        let cluster = format!("compare{:07}{:07}A", std::process::id(), self.number);
        let parts = self.hosts.all.iter().zip(1..).map(|(host, node)| {
            let environment = [
                ("ROPEWALK_HOSTS", self.hosts.addresses().join(",")),
                ("ROPEWALK_NODE", node.to_string()),
                ("ROPEWALK_CLUSTER", cluster.clone()),
            ];
            let log = self.log.with_extension(format!("{node}.log"));
            Ok(Part {
                site: Site::there(self.hosts, host, log, self.interrupt)?,
                address: host.address.clone(),
                // Hosts may share a file system.
                directory: own.join(node.to_string()),
                own: own.clone(),
                environment: environment.map(|(name, value)| (name.to_owned(), value)).into(),
            })
        });
        parts.collect()
    }
}

impl Server {
    /// Starts a system and waits until it is ready.
    ///
    /// # Errors
    /// If it is not in time; the message quotes its log.
    pub(super) fn start(starting: &Starting<'_>) -> Result<Server> {
        let is_in_driver = starting.system.peer.file.serve.is_empty();
        let parts = match starting.hosts.all.is_empty() || is_in_driver {
            true => starting.here()?,
            false => starting.on_hosts()?,
        };
        let mut server = Server {
            system: starting.system.clone(),
            nodes: starting.nodes,
            directory: parts[0].directory.clone(),
            log: starting.log.clone(),
            first_port: 0,
            number: starting.number,
            parts: parts.into(),
            ready: Ready::default(),
            is_up: is_in_driver,
        };
        if is_in_driver {
            server.ready.address = server.directory.display().to_string();
            return Ok(server);
        }
        server.first_port = free_ports(server.ports(), |first, count| server.are_free(first, count))?;
        // An earlier comparison of the same number may have been cut off from a host.
        server.tried(|part| match part.site.is_here() {
            true => Ok(()),
            false => part.site.remove(&part.own),
        });
        if let Err(error) = server.start_again() {
            server.kill();
            server.remove_data();
            return Err(error);
        }
        Ok(server)
    }

    /// Starts it again after `kill`; how long it took until it was ready.
    pub(super) fn start_again(&mut self) -> Result<Duration> {
        // Also if one fails: the others may be running.
        self.is_up = true;
        let said = self.in_each(|part| part.site.serve(self.program(part)))?;
        let title = &self.system.variant.title;
        let readies = said.iter().map(|(line, _)| {
            let ready: ReadyLine = serde_json::from_str(line)
                .with_context(|| format!("{title} should say that it is ready, not: {line}"))?;
            Ok(ready.ready)
        });
        let readies: Vec<Ready> = readies.collect::<Result<_>>()?;
        self.ready = Ready {
            pids: readies.iter().map(|ready| ready.own_pids.clone()).collect(),
            nodes: (0..)
                .zip(&readies)
                .flat_map(|(part, ready)| ready.own_nodes.iter().map(move |pids| (part, pids.clone())))
                .collect(),
            ..readies[0].clone()
        };
        Ok(said.iter().map(|(_, took)| *took).max().unwrap_or_default())
    }

    /// Does something for each part at once.
    fn in_each<T: Send>(&self, work: impl Fn(&Part) -> Result<T> + Sync) -> Result<Vec<T>> {
        if let [part] = &*self.parts {
            return Ok(vec![work(part)?]);
        }
        thread::scope(|scope| {
            let work = &work;
            let all: Vec<_> = self
                .parts
                .iter()
                .map(|part| scope.spawn(move || work(part)))
                .collect();
            let all = all
                .into_iter()
                .map(|part| part.join().expect("a panic is a bug here"));
            // Those that are under way are waited for, also after one has failed.
            all.collect::<Vec<_>>().into_iter().collect()
        })
    }

    fn program(&self, part: &Part) -> Program {
        let mut arguments = vec![
            self.first_port.to_string(),
            part.directory.display().to_string(),
            self.nodes.to_string(),
        ];
        arguments.extend(self.settings_as_arguments());
        Program {
            name: self.system.variant.title.clone(),
            command: self.system.peer.file.serve.clone(),
            arguments,
            environment: part.environment.clone(),
            folder: self.system.peer.folder.clone(),
            own: (!part.site.is_here()).then(|| part.own.clone()),
            log: match part.site.is_here() {
                true => self.log.clone(),
                false => part.directory.with_extension("log"),
            },
        }
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
        self.is_up
    }

    /// Says that its nodes are on hosts of their own, and only its clients here.
    pub(super) fn is_elsewhere(&self) -> bool {
        !self.parts[0].site.is_here()
    }

    /// How many ports it may listen on.
    fn ports(&self) -> u16 {
        self.system.peer.file.ports_per_node * self.nodes as u16
    }

    fn are_free(&self, first: u16, count: u16) -> Result<bool> {
        let free = self.in_each(|part| part.site.are_free(&part.address, first, count))?;
        Ok(free.into_iter().all(|is_free| is_free))
    }

    /// What it has used up to now.
    ///
    /// # Errors
    /// If one of its processes is gone; the message quotes the log.
    pub(super) fn meter(&self) -> Result<Meter> {
        let mut all = Meter::default();
        for (part, pids) in self.parts.iter().zip(&self.ready.pids) {
            all.add(part.site.meter(pids)?);
        }
        Ok(all)
    }

    /// A function that tells the resident memory of those of its processes that live, in bytes; 0 where a host does not answer, which ends the run
    /// when it is metered next.
    pub(super) fn memory(&self) -> impl Fn() -> u64 + Send + use<> {
        let (parts, pids) = (Arc::clone(&self.parts), self.ready.pids.clone());
        move || {
            let each = parts.iter().zip(&pids);
            each.map(|(part, pids)| part.site.memory(pids).unwrap_or(0)).sum()
        }
    }

    /// What its data takes on the disk.
    pub(super) fn stored_bytes(&self) -> Result<u64> {
        let each = self
            .parts
            .iter()
            .map(|part| part.site.stored_bytes(&part.directory));
        each.sum()
    }

    /// Writes out what the page cache holds back, wherever it has nodes.
    pub(super) fn write_out(&self) -> Result<()> {
        self.in_each(|part| part.site.write_out()).map(drop)
    }

    /// Empties the page cache wherever it has nodes; false where that is not allowed.
    pub(super) fn empty_page_cache(&self) -> Result<bool> {
        let allowed = self.in_each(|part| part.site.empty_page_cache())?;
        Ok(allowed.into_iter().all(|is_allowed| is_allowed))
    }

    /// Removes its data; it must have ended.
    pub(super) fn remove_data(&self) {
        self.tried(|part| part.site.remove(&part.own));
    }

    /// Whether it is a store within its driver's process.
    pub(super) fn is_in_driver(&self) -> bool {
        self.system.peer.file.serve.is_empty()
    }

    /// A function that kills all processes of one node, and nothing else of the system.
    ///
    /// # Errors
    /// If it did not say which those are.
    pub(super) fn killing(&self, node: usize) -> Result<impl FnOnce() -> Result<()> + Send + use<>> {
        let title = self.system.variant.title.clone();
        let (part, pids) = self.ready.nodes.get(node).cloned().unwrap_or_default();
        ensure!(
            !pids.is_empty(),
            "{title} does not say which processes its node {} has: \"nodes\" of its ready line",
            node + 1
        );
        let parts = Arc::clone(&self.parts);
        Ok(move || {
            let killed = parts[part].site.kill_node(&pids);
            killed.with_context(|| format!("node {} of {title} could not be killed", node + 1))
        })
    }

    /// Kills all its processes at once, as a crash does.
    pub(super) fn kill(&mut self) {
        if std::mem::take(&mut self.is_up) && !self.is_in_driver() {
            let each = self.parts.iter().zip(&self.ready.pids);
            let pids: BTreeMap<&Path, &[u32]> = each
                .map(|(part, pids)| (part.directory.as_path(), pids.as_slice()))
                .collect();
            self.tried(|part| {
                part.site
                    .kill(pids.get(part.directory.as_path()).unwrap_or(&&[][..]))
            });
            // A process of many threads seems to be gone before its last one has let go of its ports.
            wait_while(LET_GO_WITHIN, || {
                !self.are_free(self.first_port, self.ports()).unwrap_or(true)
            });
        }
    }

    /// Ends it in order.
    pub(super) fn stop(&mut self) {
        if std::mem::take(&mut self.is_up) && !self.is_in_driver() {
            // One after the other, the first last: others may take their leave of what it alone has.
            for part in self.parts.iter().rev() {
                self.tell_trouble(part.site.stop().err());
            }
        }
    }

    /// Does for each part what must not fail; where a host does not answer, that is told and gone on.
    fn tried(&self, work: impl Fn(&Part) -> Result<()> + Sync) {
        let told = self.in_each(|part| Ok(work(part).err()));
        told.into_iter()
            .flatten()
            .for_each(|error| self.tell_trouble(error));
    }

    fn tell_trouble(&self, error: Option<Error>) {
        // An interruption is told once, at the end.
        if let Some(error) = error.filter(|error| !error.is::<Interrupted>()) {
            super::progress::say(&format!("{}: {error:#}", self.system.variant.title));
        }
    }
}

/// The first of `count` free ports in a row.
fn free_ports(count: u16, are_free: impl Fn(u16, u16) -> Result<bool>) -> Result<u16> {
    let count = count.max(1);
    let step = usize::from(count.next_power_of_two());
    // Another comparison on this machine would look from the same place: begin somewhere else.
    let begin = (std::process::id() as u16 % 64) * 64;
    let starts = PORTS
        .skip(usize::from(begin))
        .step_by(step)
        .chain(PORTS.step_by(step));
    for first in starts.filter(|first| first + count < PORTS.end) {
        if are_free(first, count)? {
            return Ok(first);
        }
    }
    anyhow::bail!(
        "no {count} free ports in a row between {} and {}",
        PORTS.start,
        PORTS.end
    )
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::site::are_free;
    use super::*;

    #[test]
    fn ports_that_are_taken_are_passed_over() {
        let look = |first, count| are_free(LOOPBACK, first, count);
        let first = free_ports(4, look).expect("some are free");
        let _taken = TcpListener::bind((LOOPBACK, first + 2)).expect("it was free");
        assert!(matches!(are_free(LOOPBACK, first, 4), Ok(false)));
        assert!(
            are_free("192.0.2.1", first, 1).is_err(),
            "an address of nobody here"
        );
        let other = free_ports(4, look).expect("some are free");
        assert!(!(first..first + 4).contains(&other) && !(other..other + 4).contains(&(first + 2)));
    }
}
