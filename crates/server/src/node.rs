//! A node on this machine: a thread for each core and one for HTTP, started over a data directory, until it is drained.
//!
//! The parts of a node and the order in which it starts are in `assembly`; here are only the threads that poll it.

mod assembly;
mod start_error;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use platform::clock::{Clock, SystemClock};
use platform::disk::{Disk, RealDisk};
use platform::net::Bound;
use platform::process::has_huge_pages_everywhere;
use platform::threads;
use platform::turns::{self, Turns, meter_this_thread};
use storage::look_before_opening;
use tokio::task::LocalSet;

use crate::config::Config;
use crate::core::NodeFacts;
use crate::core_death::{CoreDied, first_death};
use crate::core_life::CoreLife;

pub use assembly::{Assembled, Handle, Opening, Parts};
pub use start_error::StartError;

/// Files that are opened for each journal besides the connections of Kafka's clients: its own, those of segments that are read,
/// and a share of what HTTP needs.
const DESCRIPTORS_PER_JOURNAL: u64 = 1_024;
/// Connections that Kafka's clients may have however few files the system lets the node open.
const CONNECTIONS_MIN: u64 = 64;
/// Threads that run a core's other blocking storage jobs, at most: reads and compaction. Shards have threads of their own besides.
const STORAGE_THREADS_MAX: usize = 4;

/// A running node. Dropping it without `drain` stops it at once, as a kill would.
pub struct Node {
    kafka_address: SocketAddr,
    http_address: SocketAddr,
    peer_address: Option<SocketAddr>,
    warnings: Vec<String>,
    /// Why clients' appends were refused when it had started, if they were.
    refusal: Option<String>,
    handle: Handle,
    threads: Vec<JoinHandle<()>>,
    http: Option<crate::http::HttpServer>,
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
        let cpus = threads::available_cpus();
        let descriptors = threads::raise_descriptor_limit();
        let parts = Parts::real(disk.clone());
        let cores = match config.cores {
            0 => cpus.len().max(1),
            configured => configured,
        };
        if !config.cluster.join.is_empty() {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(StartError::Thread)?;
            runtime.block_on(assembly::join(&parts, &config, cores))?;
        }
        let connections_most = |journals| connections_max(descriptors, journals);
        let assembled = assembly::assemble(parts, config, cores, connections_most, version)?;
        let Assembled {
            cores,
            opening,
            handle,
            http,
            facts,
        } = assembled;
        let mut warnings: Vec<String> = assembly::disk_warnings(&*disk, &facts.config)
            .into_iter()
            .collect();
        warnings.extend(self::warnings(&facts, cores.len(), cpus.len()));
        let connections_max = connections_max(descriptors, facts.shards);
        let wanted = facts.config.limits.connections;
        warnings.extend(too_few_descriptors(descriptors, wanted, connections_max));
        let mut node = Node {
            kafka_address: opening.kafka_address()?,
            http_address: local_address(&http)?,
            peer_address: opening.peer_address()?,
            warnings,
            refusal: None,
            handle,
            threads: Vec::new(),
            http: None,
        };
        let pins = facts.config.pin_threads && cores.len() <= cpus.len();
        for (index, core) in cores.into_iter().enumerate() {
            let cpu = pins.then(|| cpus[index]);
            let thread = threads::spawn(format!("core-{index}"), move || run_core(core, cpu));
            node.threads.push(thread.map_err(StartError::Thread)?);
        }
        node.refusal = threads::block_on(opening.open())?;
        for core in 0..node.cores() {
            facts.mailboxes.send(core, |_| turns::begin_to_count());
        }
        let told = assembly::http_told(&facts.config, node.http_address, node.peer_address);
        let mailboxes = facts.mailboxes.clone();
        node.http = Some(crate::http::HttpServer::start(http, facts).map_err(StartError::Thread)?);
        if let Some(address) = told {
            mailboxes.send(0, move |core| core.peers.tell_http(address));
        }
        Ok(node)
    }

    /// Makes a node of these parts, of which nothing runs before it is polled. A configuration that leaves the number of cores open
    /// gives one. HTTP is bound and not served.
    ///
    /// # Errors
    /// See `StartError`.
    pub fn assemble(parts: Parts, config: Config, version: &'static str) -> Result<Assembled, StartError> {
        let (cores, connections_max) = (config.cores.max(1), config.limits.connections);
        assembly::assemble(parts, config, cores, |_| connections_max, version)
    }

    /// Has an empty directory become that of a node of the cluster that the configuration joins, if it joins one; to be called before
    /// [`Node::assemble`].
    ///
    /// # Errors
    /// See `StartError`. The directory is as it was then.
    pub async fn join(parts: &Parts, config: &Config) -> Result<(), StartError> {
        assembly::join(parts, config, config.cores.max(1)).await
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

    /// Where other nodes reach it, if they can.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.peer_address
    }

    /// Returns the number of cores that it runs.
    pub fn cores(&self) -> usize {
        self.handle.cores()
    }

    /// Things that an operator should know about how this node runs here.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Waits for the death of a core: its thread ended, which nobody had told it to. `None` when the node has stopped in
    /// order. Whoever runs the node should drain it then and end with an error: the dead core's partitions are not served.
    pub fn core_death(&self) -> impl Future<Output = Option<CoreDied>> + Send + use<> {
        first_death(self.handle.deaths.clone())
    }

    /// The turns of the node's cores that were long: a core that is kept busy by one client makes all others wait.
    pub fn turns(&self) -> Turns {
        self.handle.turns.clone()
    }

    /// Stops taking requests, answers those under way, makes everything staged durable and stops. Returns whether all of
    /// this was done within `deadline`. Blocks.
    pub fn drain(mut self, deadline: Duration) -> bool {
        let (done, drained) = mpsc::channel();
        self.handle.drain(move |all_took| {
            let _ = done.send(all_took);
        });
        let clock = SystemClock::new();
        let mut all = true;
        for _ in 0..self.cores() {
            let left = deadline.saturating_sub(clock.monotonic());
            all &= drained.recv_timeout(left).unwrap_or(false);
        }
        self.stop();
        all
    }

    fn stop(&mut self) {
        self.handle.stop();
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

/// The thread of one core.
fn run_core(core: CoreLife, cpu: Option<usize>) {
    if let Some(cpu) = cpu
        && let Err(error) = threads::pin_to_cpu(cpu)
    {
        tracing::warn!(core = core.index, cpu, %error, "the core's thread could not be pinned");
    }
    meter_this_thread(core.index, core.facts.clock.clone(), core.long_turns.clone());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(STORAGE_THREADS_MAX)
        .build();
    match runtime {
        Ok(runtime) => LocalSet::new().block_on(&runtime, core.live()),
        Err(error) => {
            let index = core.index;
            core.end_before_birth(format!("core {index} could not start: {error}"));
        }
    }
}

fn local_address(bound: &Bound) -> Result<SocketAddr, StartError> {
    bound.address().map_err(StartError::Thread)
}

fn warnings(facts: &NodeFacts, cores: usize, cpus: usize) -> Vec<String> {
    let mut warnings = Vec::new();
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
    if has_huge_pages_everywhere() {
        warnings.push(
            "this system puts all memory on huge pages, and clears them in the midst of small appends, for milliseconds each: echo madvise > \
             /sys/kernel/mm/transparent_hugepage/enabled"
                .to_owned(),
        );
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

#[cfg(test)]
pub(crate) mod tests;
