//! The systems and drivers that are running: each is started when it is first needed, and all are gone when this is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Error, Result, ensure};

use super::child::{Running, Start};
use super::driving::Driving;
use super::hosts::Hosts;
use super::interrupt::Interrupt;
use super::peer::{Driver, Peer, System};
use super::progress;
use super::server::{Server, Starting};
use super::site::{INSTALLED_WITHIN, Program, Site};

/// One that takes longer than this has something to fetch or to build.
const INSTALLED_SOON: Duration = Duration::from_secs(2);

/// One system through one of its drivers, with its data on the disk or on a RAM disk.
#[derive(Debug, Clone)]
pub(super) struct Way {
    pub(super) system: System,
    pub(super) driver: Driver,
    pub(super) in_memory: bool,
}

/// What tells running systems apart.
type ServerKey = (String, bool);
type DriverKey = (ServerKey, String);

/// All that run.
#[derive(Debug)]
pub(super) struct Fleet {
    nodes: u32,
    hosts: Hosts,
    /// On the disk, and on a RAM disk.
    directories: [PathBuf; 2],
    /// Where what they say on standard error goes; it is kept.
    logs: PathBuf,
    /// How long a driver may be silent in the middle of a load.
    silent_max: Duration,
    interrupt: Interrupt,
    servers: BTreeMap<ServerKey, Server>,
    /// One process of each, or as many as some load needed at once.
    drivers: BTreeMap<DriverKey, Vec<Driving>>,
    /// How many of those, from the first on, have been warmed up, with their systems.
    warm: BTreeMap<DriverKey, usize>,
    /// What came of each folder's installation: who failed is not asked again, which may take half an hour each time.
    installed: BTreeMap<String, Result<(), String>>,
    /// How many were started, for the names of their directories.
    started: u32,
}

impl Way {
    fn server_key(&self) -> ServerKey {
        (self.system.process_key(), self.in_memory)
    }

    fn driver_key(&self) -> DriverKey {
        (self.server_key(), self.driver.name.clone())
    }
}

impl Fleet {
    /// Nothing is running yet.
    pub(super) fn new(
        nodes: u32,
        hosts: Hosts,
        directories: [PathBuf; 2],
        logs: PathBuf,
        silent_max: Duration,
        interrupt: &Interrupt,
    ) -> Fleet {
        Fleet {
            nodes,
            hosts,
            directories,
            logs,
            silent_max,
            interrupt: interrupt.clone(),
            servers: BTreeMap::new(),
            drivers: BTreeMap::new(),
            warm: BTreeMap::new(),
            installed: BTreeMap::new(),
            started: 0,
        }
    }

    /// The running system and driver of `way`.
    pub(super) fn have(&mut self, way: &Way) -> Result<(&mut Server, &mut Driving)> {
        let (server, drivers) = self.have_clients(way, 1)?;
        Ok((server, &mut drivers[0]))
    }

    /// The running system of `way`, and so many processes of its driver.
    pub(super) fn have_clients(
        &mut self,
        way: &Way,
        clients: usize,
    ) -> Result<(&mut Server, &mut [Driving])> {
        let (server_key, driver_key) = (way.server_key(), way.driver_key());
        if !self.servers.contains_key(&server_key) {
            let server = self.start_server(way)?;
            self.servers.insert(server_key.clone(), server);
        }
        while self.drivers.get(&driver_key).map_or(0, Vec::len) < clients {
            let driving = self.start_driver(way)?;
            self.drivers.entry(driver_key.clone()).or_default().push(driving);
        }
        let server = self.servers.get_mut(&server_key).expect("it was put there");
        let drivers = self.drivers.get_mut(&driver_key).expect("they were put there");
        Ok((server, &mut drivers[..clients]))
    }

    fn start_server(&mut self, way: &Way) -> Result<Server> {
        self.install(&way.system.peer)?;
        self.started += 1;
        let directory = &self.directories[usize::from(way.in_memory)];
        let name = format!("{}-{}", self.started, way.system.variant.name);
        progress::show(&format!("starting {}", way.system.variant.title));
        let log = self.logs.join(format!("{name}.log"));
        Server::start(&Starting {
            system: &way.system,
            nodes: self.nodes,
            hosts: &self.hosts,
            number: self.started,
            directory: &directory.join(name),
            log,
            interrupt: &self.interrupt,
        })
    }

    /// One more driver for the system of `way`, which runs.
    pub(super) fn start_driver(&mut self, way: &Way) -> Result<Driving> {
        self.install(&way.driver.peer)?;
        self.started += 1;
        let log = self
            .logs
            .join(format!("{}-driver-{}.log", self.started, way.driver.name));
        let server = self
            .servers
            .get(&way.server_key())
            .context("its system is not running")?;
        Driving::start(
            &way.driver,
            server,
            self.started,
            log,
            self.silent_max,
            &self.interrupt,
        )
    }

    /// Has a folder installed, which is tried once.
    fn install(&mut self, peer: &Peer) -> Result<()> {
        if let Some(before) = self.installed.get(&peer.name) {
            return before.clone().map_err(Error::msg);
        }
        let installed = self.try_to_install(peer);
        // Who was interrupted has not failed.
        self.interrupt.check()?;
        let installed = installed.map_err(|error| self.told(&error));
        self.installed.insert(peer.name.clone(), installed.clone());
        installed.map_err(Error::msg)
    }

    fn try_to_install(&self, peer: &Peer) -> Result<()> {
        let missing = peer.missing_programs();
        ensure!(
            missing.is_empty(),
            "{} needs {}, which is not installed here",
            peer.file.title,
            missing.join(" and ")
        );
        if !peer.file.install.is_empty() {
            let name = format!("the installation of {}", peer.file.title);
            let log = self.logs.join(format!("install-{}.log", peer.name));
            let start = Start {
                name: &name,
                command: &peer.file.install,
                arguments: &[],
                environment: &BTreeMap::new(),
                folder: &peer.folder,
                log: log.clone(),
            };
            let what = format!("installing {} {}", peer.file.title, peer.file.version);
            progress::show(&what);
            let mut running: Running = start.start(&self.interrupt)?;
            let status = match running.ended_within(INSTALLED_SOON)? {
                Some(status) => status,
                None => {
                    progress::say(&format!(
                        "{what}, which may take minutes the first time: {} tells how far it is",
                        log.display()
                    ));
                    running.wait(INSTALLED_WITHIN)?
                }
            };
            ensure!(
                status.success(),
                "{name} failed ({status}){}",
                running.last_words()
            );
            self.install_on_hosts(peer, &what)?;
        }
        Ok(())
    }

    /// The same on each host, one after the other: they may share a file system.
    fn install_on_hosts(&self, peer: &Peer, what: &str) -> Result<()> {
        if peer.file.serve.is_empty() {
            return Ok(());
        }
        for host in &self.hosts.all {
            progress::show(&format!("{what} on {}", host.destination));
            let log = self
                .logs
                .join(format!("install-{}-{}.log", peer.name, host.address));
            let there = Site::there(&self.hosts, host, log, &self.interrupt)?;
            there.install(Program {
                name: format!("the installation of {}", peer.file.title),
                command: peer.file.install.clone(),
                arguments: Vec::new(),
                environment: BTreeMap::new(),
                folder: peer.folder.clone(),
                own: None,
                log: std::env::temp_dir().join(format!("ropewalk-install-{}.log", peer.name)),
            })?;
        }
        Ok(())
    }

    /// Kills the system of `way` at once, and with it its drivers: what they know of it is gone.
    pub(super) fn crash(&mut self, way: &Way) {
        if let Some(server) = self.servers.get_mut(&way.server_key()) {
            server.kill();
        }
        self.drop_drivers(way);
    }

    /// Starts it again on its data; how long that took.
    pub(super) fn start_again(&mut self, way: &Way) -> Result<Duration> {
        self.running(way)?.start_again()
    }

    fn running(&mut self, way: &Way) -> Result<&mut Server> {
        let server = self.servers.get_mut(&way.server_key());
        server.context("its system is not running")
    }

    /// Ends the system of `way` in order and starts it again on its data: what it and its drivers kept in memory is gone.
    pub(super) fn restart(&mut self, way: &Way) -> Result<()> {
        self.drop_drivers(way);
        let server = self.running(way)?;
        server.stop();
        server.start_again()?;
        Ok(())
    }

    /// After a failure: nothing of `way` is trusted any more. It is started anew when it is needed again. A system that `way`
    /// never came to, for want of its driver, is left to those that use it.
    pub(super) fn discard(&mut self, way: &Way) {
        let is_up = self.servers.get(&way.server_key()).is_some_and(Server::is_up);
        if is_up && !self.drivers.contains_key(&way.driver_key()) {
            return;
        }
        self.drop_drivers(way);
        if let Some(mut server) = self.servers.remove(&way.server_key()) {
            server.kill();
            server.remove_data();
        }
    }

    /// A failure in words that are kept: they are read elsewhere, where nobody knows this machine's directories.
    pub(super) fn told(&self, error: &Error) -> String {
        let mut told = format!("{error:#}");
        for directory in &self.directories {
            told = told.replace(&directory.display().to_string(), "DATA");
        }
        told
    }

    /// The number of the system of `way`, if it is running.
    pub(super) fn server_number(&self, way: &Way) -> Option<u32> {
        self.servers.get(&way.server_key()).map(Server::number)
    }

    fn drop_drivers(&mut self, way: &Way) {
        let server_key = way.server_key();
        self.drivers.retain(|(server, _), _| *server != server_key);
        self.warm.retain(|(server, _), _| *server != server_key);
    }

    /// How many clients of `way` have been warmed up, with the system, since they were started.
    pub(super) fn warm_clients(&self, way: &Way) -> usize {
        self.warm.get(&way.driver_key()).copied().unwrap_or(0)
    }

    pub(super) fn set_warm_clients(&mut self, way: &Way, clients: usize) {
        self.warm.insert(way.driver_key(), clients);
    }

    /// Ends in order everything that is none of `needed`.
    pub(super) fn keep_only(&mut self, needed: &[Way]) {
        let servers: BTreeSet<ServerKey> = needed.iter().map(Way::server_key).collect();
        let drivers: BTreeSet<DriverKey> = needed.iter().map(Way::driver_key).collect();
        self.warm.retain(|key, _| drivers.contains(key));
        self.drivers.retain(|key, idle| {
            let is_needed = drivers.contains(key);
            if !is_needed {
                idle.drain(..).for_each(Driving::end);
            }
            is_needed
        });
        self.servers.retain(|key, server| {
            let is_needed = servers.contains(key);
            if !is_needed {
                server.stop();
                server.remove_data();
            }
            is_needed
        });
    }
}

impl Drop for Fleet {
    /// Nothing outlives a comparison, however it ends.
    fn drop(&mut self) {
        self.drivers.clear();
        for server in self.servers.values_mut() {
            server.kill();
            server.remove_data();
        }
    }
}
