//! A node: one thread per core, started over one data directory, until it is drained.
//!
//! The order of a start: lock and identify the directory, bind the addresses, open every core's journals, replay
//! the metadata, open the partitions, then let clients in. Nothing is served before everything is known.

mod start_error;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use platform::clock::{Clock, SystemClock};
use platform::disk::{Disk, DurableWriteMode, Lock, RealDisk};
use platform::threads;
use protocol::leader::NodeId;
use protocol::metadata::{Address, Command};
use storage::{NodeIdentity, identify, look_before_opening, read_last_ran};
use tokio::sync::Semaphore;

use crate::accept::accept_clients;
use crate::config::Config;
use crate::core::{Core, NodeFacts};
use crate::core_death::{CoreDied, DeathNotice, Deaths, death_notices, first_death};
use crate::core_thread::{CorePlan, run_core};
use crate::disk_watch::DiskWatch;
use crate::mailbox::{Mailbox, Mailboxes, mailboxes};
use crate::turns::{self, Turns};

pub use start_error::StartError;

/// Files that are opened for each journal besides the connections of Kafka's clients: its own, those of segments that are read,
/// and a share of what HTTP needs.
const DESCRIPTORS_PER_JOURNAL: u64 = 1_024;
/// Connections that Kafka's clients may have however few files the system lets the node open.
const CONNECTIONS_MIN: u64 = 64;

/// A running node. Dropping it without `drain` stops it at once, as a kill would.
pub struct Node {
    kafka_address: SocketAddr,
    http_address: SocketAddr,
    warnings: Vec<String>,
    /// Why clients' appends were refused when it had started, if they were.
    refusal: Option<String>,
    mailboxes: Mailboxes,
    draining: Arc<Semaphore>,
    deaths: Deaths,
    turns: Turns,
    stop: Vec<tokio::sync::oneshot::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
    http: Option<crate::http::HttpServer>,
    _lock: Box<dyn Lock>,
}

impl Node {
    /// Starts a node of a program whose version people are told in these words; returns when it serves. Blocks meanwhile.
    ///
    /// # Errors
    /// See `StartError`. Nothing is left running then.
    pub fn start(config: Config, version: &'static str) -> Result<Node, StartError> {
        // Before anything is touched: the directory is made if there is none.
        config.check()?;
        look_before_opening(&config.data)?;
        let disk = RealDisk::open(&config.data)
            .map_err(|error| start_error::of_directory(config.data.display().to_string(), error))?;
        Node::start_on(config, Arc::new(disk), version)
    }

    /// The same over a disk that the caller brings, such as a simulated one; `data` is a name in messages only then.
    ///
    /// # Errors
    /// See `StartError`. Nothing is left running then.
    pub fn start_on(config: Config, disk: Arc<dyn Disk>, version: &'static str) -> Result<Node, StartError> {
        config.check()?;
        let lock = lock(&*disk, &config)?;
        let cpus = threads::available_cpus();
        let cores = if config.cores == 0 {
            cpus.len().max(1)
        } else {
            config.cores
        };
        let identity = identify(&*disk, config.node.id, cores)?;
        let kafka = listen(&config.kafka.listen, "kafka.listen")?;
        let http = listen(&config.http.listen, "http.listen")?;
        let (kafka_address, http_address) = (local_address(&kafka)?, local_address(&http)?);
        let descriptors = threads::raise_descriptor_limit();

        let (mailboxes, receivers) = mailboxes(cores);
        let (deaths, death_notices) = death_notices(cores);
        let facts = NodeFacts {
            change_log: Arc::default(),
            node: NodeId(config.node.id),
            cluster: identity.cluster,
            clock: Arc::new(SystemClock::new()) as Arc<dyn Clock>,
            last_ran_ms: read_last_ran(&*disk),
            mailboxes: mailboxes.clone(),
            shards: identity.journals,
            version,
            config: Arc::new(config),
        };
        let mut warnings = warnings(&*disk, &facts, cores, cpus.len());
        let connections_max = connections_max(descriptors, facts.shards);
        let wanted = facts.config.limits.connections;
        warnings.extend(too_few_descriptors(descriptors, wanted, connections_max));
        let mut node = Node {
            kafka_address,
            http_address,
            warnings,
            refusal: None,
            mailboxes,
            draining: Arc::new(Semaphore::new(0)),
            deaths,
            turns: Turns::of(cores),
            stop: Vec::new(),
            threads: Vec::new(),
            http: None,
            _lock: lock,
        };
        let pins = facts.config.pin_threads && cores <= cpus.len();
        let doors = receivers.into_iter().zip(death_notices);
        node.start_cores(&facts, &disk, identity, doors, |index| pins.then(|| cpus[index]))?;
        node.refusal = node.open(&facts, kafka, connections_max)?;
        for core in 0..cores {
            node.mailboxes.send(core, |_| turns::begin_to_count());
        }
        node.http = Some(crate::http::HttpServer::start(http, facts).map_err(StartError::Thread)?);
        Ok(node)
    }

    /// Starts a thread for each core and waits until all have opened their journals.
    fn start_cores(
        &mut self,
        facts: &NodeFacts,
        disk: &Arc<dyn Disk>,
        identity: NodeIdentity,
        doors: impl ExactSizeIterator<Item = (Mailbox, DeathNotice)>,
        cpu: impl Fn(usize) -> Option<usize>,
    ) -> Result<(), StartError> {
        let (opened, outcomes) = mpsc::channel();
        let cores = doors.len();
        for (index, (mailbox, death_notice)) in doors.enumerate() {
            let (stop, stopped) = tokio::sync::oneshot::channel();
            let plan = CorePlan {
                index,
                cpu: cpu(index),
                facts: facts.clone(),
                disk: disk.clone(),
                long_turns: self.turns.of_core(index),
                identity,
                mailbox,
                stop: stopped,
                death_notice,
                opened: opened.clone(),
            };
            let thread = threads::spawn(format!("core-{index}"), move || run_core(plan));
            self.threads.push(thread.map_err(StartError::Thread)?);
            self.stop.push(stop);
        }
        // With the last core that could still answer ends the wait for it.
        drop(opened);
        for _ in 0..cores {
            let outcome = outcomes
                .recv()
                .unwrap_or_else(|_| Err("a core's thread died while it started".into()));
            outcome.map_err(StartError::Storage)?;
        }
        Ok(())
    }

    /// Replays the metadata, opens the partitions on every core, and lets clients in.
    /// Returns why clients' appends are refused for now, if they are.
    fn open(
        &self,
        facts: &NodeFacts,
        kafka: TcpListener,
        connections_max: usize,
    ) -> Result<Option<String>, StartError> {
        let (done, outcome) = mpsc::channel();
        let address = advertised(facts, self.kafka_address);
        let (facts, draining) = (facts.clone(), self.draining.clone());
        self.mailboxes.send(0, move |core| {
            let core = core.clone();
            crate::turns::spawn(async move {
                let opened = open_partitions(&core, &facts, address).await;
                let mut watch = DiskWatch::new(&core);
                let shortage = watch.look().await;
                let opened = opened.and_then(|()| {
                    kafka.set_nonblocking(true).map_err(|error| error.to_string())?;
                    let listener =
                        tokio::net::TcpListener::from_std(kafka).map_err(|error| error.to_string())?;
                    let clients = accept_clients(core.clone(), listener, connections_max, draining);
                    crate::turns::spawn(clients);
                    crate::turns::spawn(watch.go_on());
                    let refusal = core.shard(0).refuses().map(|refusal| refusal.to_string());
                    Ok(shortage.or(refusal))
                });
                let _ = done.send(opened);
            });
        });
        let opened = outcome
            .recv()
            .unwrap_or_else(|_| Err("core 0 died while it opened the partitions".into()));
        opened.map_err(StartError::Storage)
    }

    /// Why clients' appends were refused when the node had started, if they were.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Where Kafka's clients reach this node.
    pub fn kafka_address(&self) -> SocketAddr {
        self.kafka_address
    }

    /// Where its HTTP interface is.
    pub fn http_address(&self) -> SocketAddr {
        self.http_address
    }

    /// Returns the number of cores that it runs.
    pub fn cores(&self) -> usize {
        self.mailboxes.cores()
    }

    /// Things that an operator should know about how this node runs here.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Waits for the death of a core: its thread ended, which nobody had told it to. `None` when the node has stopped in
    /// order. Whoever runs the node should drain it then and end with an error: the dead core's partitions are not served.
    pub fn core_death(&self) -> impl Future<Output = Option<CoreDied>> + Send + use<> {
        first_death(self.deaths.clone())
    }

    /// The turns of the node's cores that were long: a core that is kept busy by one client makes all others wait.
    pub fn turns(&self) -> Turns {
        self.turns.clone()
    }

    /// Stops taking requests, answers those under way, makes everything staged durable and stops. Returns whether all of
    /// this was done within `deadline`. Blocks.
    pub fn drain(mut self, deadline: Duration) -> bool {
        // Wakes every connection and the accept loop; nobody can acquire from a closed semaphore.
        self.draining.close();
        let (done, drained) = mpsc::channel();
        for core in 0..self.mailboxes.cores() {
            let done = done.clone();
            self.mailboxes.send(core, move |core| {
                let draining = core.clone().drain();
                crate::turns::spawn(async move {
                    let _ = done.send(draining.await);
                });
            });
        }
        drop(done);
        let clock = SystemClock::new();
        let mut all = true;
        for _ in 0..self.mailboxes.cores() {
            let left = deadline.saturating_sub(clock.monotonic());
            all &= drained.recv_timeout(left).unwrap_or(false);
        }
        self.stop();
        all
    }

    fn stop(&mut self) {
        for stop in self.stop.drain(..) {
            // A core that died needs no telling.
            let _ = stop.send(());
        }
        if let Some(http) = self.http.take() {
            http.stop();
        }
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a core's thread had panicked");
            }
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop();
    }
}

fn lock(disk: &dyn Disk, config: &Config) -> Result<Box<dyn Lock>, StartError> {
    let directory = config.data.display().to_string();
    disk.lock().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => StartError::InUse(directory),
        _ => start_error::of_directory(directory, error),
    })
}

fn listen(address: &str, key: &'static str) -> Result<TcpListener, StartError> {
    crate::accept::bind(address).map_err(|error| StartError::Listen {
        address: address.to_string(),
        key,
        error,
    })
}

fn local_address(listener: &TcpListener) -> Result<SocketAddr, StartError> {
    listener.local_addr().map_err(StartError::Thread)
}

fn advertised(facts: &NodeFacts, bound: SocketAddr) -> Address {
    let (host, port) = match &facts.config.kafka.advertised {
        Some(advertised) => (advertised.host.clone(), advertised.port),
        None => (bound.ip().to_string(), bound.port()),
    };
    Address {
        host: host.into(),
        port,
    }
}

fn warnings(disk: &dyn Disk, facts: &NodeFacts, cores: usize, cpus: usize) -> Vec<String> {
    let mut warnings = Vec::new();
    if disk.durable_write_mode() == DurableWriteMode::Buffered {
        warnings.push(format!(
            "{} does not support direct I/O (tmpfs?); durable writes go through the page cache and are slower",
            facts.config.data.display()
        ));
    }
    if cores > facts.shards {
        warnings.push(format!(
            "the number of journals was fixed at {} when the directory was made: {} of {cores} cores serve connections \
             only, and have no partitions",
            facts.shards,
            cores - facts.shards
        ));
    }
    if cores > cpus {
        warnings.push(format!(
            "{cores} cores are configured, this machine has {cpus}; threads are not pinned"
        ));
    }
    warnings
}

/// Returns the most connections that Kafka's clients may have: as many as the journals leave of the open files that the system
/// allows, but half of them where that is more. A log that cannot open a file fails as on a broken disk.
fn connections_max(descriptors: u64, journals: usize) -> usize {
    let of_journals = DESCRIPTORS_PER_JOURNAL.saturating_mul(journals as u64);
    let left = descriptors.saturating_sub(of_journals);
    let most = left.max(descriptors / 2).max(CONNECTIONS_MIN);
    usize::try_from(most).unwrap_or(usize::MAX)
}

/// Returns a warning if the system allows so few open files that clients cannot have the connections they may.
fn too_few_descriptors(descriptors: u64, wanted: usize, connections_max: usize) -> Option<String> {
    (connections_max < wanted).then(|| {
        format!(
            "the system allows {descriptors} open files, limits.connections is {wanted}: clients get {connections_max} \
             connections at most, so that the log can open its own files; raise the limit (LimitNOFILE=) or lower the key"
        )
    })
}

/// On core 0: replays the metadata, has every core open its partitions, and journals this start.
///
/// In this order: a journal that is full makes room only when its partitions are open. Until the start is committed no
/// append is accepted, so nothing happens in the epochs that it opens; should it be lost, the next start opens them again.
async fn open_partitions(core: &Rc<Core>, facts: &NodeFacts, address: Address) -> Result<(), String> {
    let mut commands = core.replay_metadata().await?;
    let format = commands.is_empty().then_some(Command::FormatCluster {
        cluster: facts.cluster,
    });
    let start = Command::StartNode {
        node: facts.node,
        address,
    };
    let news: Vec<Command> = format.into_iter().chain([start]).collect();
    commands.extend(news.iter().cloned());
    let commands = Arc::new(commands);
    on_every_core(core, move |core| core.adopt(&commands)).await?;
    let journaling = crate::turns::spawn(journal_start(core.clone(), news));
    tokio::select! {
        journaled = journaling => journaled.expect("journaling a start does not panic"),
        // What is stored can be read all the same, and appends begin as soon as there is room.
        () = core.shard(0).until_starved() => {
            tracing::warn!("this start cannot be journaled yet: appends are refused until there is room on the disk");
            Ok(())
        }
    }
}

/// Commits a start, and has every core accept appends.
async fn journal_start(core: Rc<Core>, news: Vec<Command>) -> Result<(), String> {
    core.journal_start(&news).await.map_err(|error| {
        // Perhaps nobody waits for it any more: then the node serves readers, and goes on refusing appends.
        tracing::error!(%error, "this start cannot be journaled");
        format!("this start cannot be journaled: {error}")
    })?;
    on_every_core(&core, |core| {
        core.shards().for_each(|shard| shard.start_serving());
        Ok(())
    })
    .await
}

async fn on_every_core(
    core: &Core,
    work: impl Fn(&Core) -> Result<(), String> + Clone + Send + 'static,
) -> Result<(), String> {
    let mailboxes = &core.facts.mailboxes;
    for index in 0..mailboxes.cores() {
        let work = work.clone();
        let done = mailboxes
            .call(index, move |core| async move { work(&core) })
            .await;
        done.map_err(|stopping| stopping.to_string())??;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
