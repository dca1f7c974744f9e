//! A machine with a disk, a clock and a node: started, killed, cut from its power, stopped and continued.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use platform::disk::{Disk, SimulatedDisk};
use platform::net::SimulatedNet;
use platform::random::{Random, SeededRandom};
use protocol::order::Place;
use record::Position;
use server::config::Config;
use server::{Handle, Node, Parts};

use crate::engine::{Engine, UnitId};
use crate::order::{ASKED, OrderBook};
use crate::parts::{DelayedWork, DriftingClock};
use crate::trace::Trace;
use crate::workload::{ORDERED, TOPICS};

/// Where each node's Kafka clients go.
pub(crate) const KAFKA_PORT: u16 = 9092;

/// See the module.
pub(crate) struct Machine {
    address: IpAddr,
    net: SimulatedNet,
    disk: SimulatedDisk,
    clock: Arc<DriftingClock>,
    random: SeededRandom,
    config: Config,
    /// The disk's bytes; `None` for as many as it wants.
    room: Option<u64>,
    trace: Trace,
    alive: Option<Alive>,
    /// An earlier state of the disk.
    copy: Option<SimulatedDisk>,
    /// The order as its nodes have told it.
    order: Option<OrderBook>,
}

/// A node that runs.
struct Alive {
    units: Vec<UnitId>,
    handle: Handle,
    opened: Rc<RefCell<Option<Result<(), String>>>>,
    /// Cores that have stopped in order.
    drained: Arc<AtomicUsize>,
    /// Budgets of which more was taken than there is.
    overdrawn: Arc<Mutex<Vec<String>>>,
}

/// How a start went so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Started {
    /// There is no node.
    Down,
    /// It is not known yet.
    Opening,
    /// It serves.
    Serving,
    /// It could not start.
    Failed(String),
}

impl Machine {
    /// A machine with an empty disk.
    pub(crate) fn new(
        net: &SimulatedNet,
        address: IpAddr,
        cores: usize,
        room: Option<u64>,
        mut random: SeededRandom,
        trace: Trace,
    ) -> Machine {
        let mut config = Config::default();
        config.cores = cores;
        config.pin_threads = false;
        config.idle_poll = Duration::ZERO;
        config.kafka.listen = format!("any:{KAFKA_PORT}");
        config.http.listen = "any:8080".into();
        // As small as they may be, so that files are laid out, adopted, given back and used again all the time.
        config.journal.file_bytes = 1 << 20;
        config.journal.bytes_max = config.journal.file_bytes * (3 + random.below(3));
        config.journal.layout_trigger = config.journal.file_bytes;
        // Four of the largest requests.
        config.limits.in_flight_bytes_per_core = 1 << 20;
        config.cache.tail_bytes = 1 << 20;
        config.cache.chunk_bytes = 1 << 20;
        // A generation is to come about between two faults.
        config.groups.initial_rebalance_delay = Duration::from_millis(50);
        config.groups.session_timeout_min = Duration::from_secs(1);
        let disk = SimulatedDisk::new();
        disk.count_reads(true);
        disk.set_sector_tears(random.chance(1, 2));
        disk.set_capacity(room);
        Machine {
            address,
            net: net.clone(),
            disk,
            clock: Arc::new(DriftingClock::new(&mut random)),
            random,
            config,
            room,
            trace,
            alive: None,
            copy: None,
            order: None,
        }
    }

    /// Where its node's clients connect to.
    pub(crate) fn kafka(&self) -> SocketAddr {
        SocketAddr::new(self.address, KAFKA_PORT)
    }

    /// The machine's address.
    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// The machine's disk as it is now.
    pub(crate) fn disk(&self) -> &SimulatedDisk {
        &self.disk
    }

    /// The machine's clock.
    pub(crate) fn clock(&self) -> &DriftingClock {
        &self.clock
    }

    /// Changes the node's configuration.
    pub(crate) fn configure(&mut self, change: impl FnOnce(&mut Config)) {
        change(&mut self.config);
    }

    /// Has the machine's empty disk become that of a node of the cluster that it is to join.
    pub(crate) fn join(&mut self) -> impl Future<Output = Result<(), String>> + use<> {
        let (parts, config) = (self.parts(), self.config.clone());
        async move {
            Node::join(&parts, &config)
                .await
                .map_err(|error| error.to_string())
        }
    }

    fn parts(&mut self) -> Parts {
        Parts {
            disk: Arc::new(self.disk.clone()),
            clock: self.clock.clone(),
            net: self.net.host(self.address),
            work: Arc::new(DelayedWork::new(self.random.split())),
            random: Random::seeded(self.random.split()),
        }
    }

    /// Starts its node.
    ///
    /// # Errors
    /// It cannot even be assembled.
    pub(crate) fn start(&mut self, engine: &mut Engine) -> Result<(), String> {
        assert!(self.alive.is_none(), "a node runs already");
        let parts = self.parts();
        if let Some(order) = &self.order {
            order.begin();
        }
        let assembled = Node::assemble(parts, self.config.clone(), "0.0.0 (simulated)")
            .map_err(|error| error.to_string())?;
        let mut units: Vec<UnitId> = assembled
            .cores
            .into_iter()
            .map(|core| engine.add(core.live()))
            .collect();
        let opened = Rc::new(RefCell::new(None));
        let (told, opening) = (opened.clone(), assembled.opening);
        units.push(engine.add(async move {
            let outcome = opening.open().await;
            *told.borrow_mut() = Some(outcome.map(|_| ()).map_err(|error| error.to_string()));
        }));
        self.alive = Some(Alive {
            units,
            handle: assembled.handle,
            opened,
            drained: Arc::default(),
            overdrawn: Arc::default(),
        });
        Ok(())
    }

    /// How the last start went.
    pub(crate) fn started(&self) -> Started {
        let Some(alive) = &self.alive else {
            return Started::Down;
        };
        match &*alive.opened.borrow() {
            None => Started::Opening,
            Some(Ok(())) => Started::Serving,
            Some(Err(error)) => Started::Failed(error.clone()),
        }
    }

    /// Asks the node to stop in order; it is killed when it has, or later.
    pub(crate) fn drain(&self) {
        if let Some(alive) = &self.alive {
            let drained = alive.drained.clone();
            alive.handle.drain(move |_| {
                drained.fetch_add(1, Ordering::Relaxed);
            });
        }
    }

    /// Says whether the node has stopped in order.
    pub(crate) fn is_drained(&self) -> bool {
        let drained = |alive: &Alive| alive.drained.load(Ordering::Relaxed) == self.config.cores;
        self.alive.as_ref().is_some_and(drained)
    }

    /// Has the node hold itself against its budgets; returns what was found the last time.
    pub(crate) fn audit(&self) -> Option<String> {
        let alive = self.alive.as_ref()?;
        let overdrawn = alive.overdrawn.clone();
        let found = |overdrawn: &Mutex<Vec<String>>| {
            let mut overdrawn = overdrawn.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *overdrawn)
        };
        let before = found(&overdrawn).pop();
        alive.handle.tell_overdrawn(move |budget| {
            let mut overdrawn = overdrawn.lock().unwrap_or_else(PoisonError::into_inner);
            overdrawn.push(budget);
        });
        before
    }

    /// Has its nodes tell of the order of a topic, from now on.
    pub(crate) fn keep_order(&mut self, order: Option<OrderBook>) {
        self.order = order;
    }

    /// Has the node tell some more of the order; returns what contradicts it.
    pub(crate) fn ask_order(&self) -> Option<String> {
        let (order, alive) = (self.order.as_ref()?, self.alive.as_ref()?);
        let told = order.clone();
        let tell = move |places: Vec<Place>| told.take(&places);
        let topic = TOPICS[ORDERED].0;
        alive
            .handle
            .tell_order(topic, Position(order.wanted()), ASKED, tell);
        order.violation()
    }

    /// Kills the node: its connections end, and what it wrote is still in the machine's page cache.
    pub(crate) fn kill(&mut self, engine: &mut Engine) {
        let Some(alive) = self.alive.take() else { return };
        for unit in alive.units {
            engine.kill(unit);
        }
    }

    /// Cuts the machine's power: the node is gone without a word, and of what was not flushed there is left what the seed says.
    pub(crate) fn cut_power(&mut self, engine: &mut Engine) {
        self.net.vanish(self.address);
        self.kill(engine);
        self.note_operations();
        self.disk = self.disk.crash(self.random.next_u64());
        self.disk.count_reads(true);
        self.trace.note("power is back");
    }

    /// Keeps a copy of the disk as it would be after a power cut.
    pub(crate) fn keep_copy(&mut self) {
        self.copy = Some(self.disk.crash(self.random.next_u64()));
    }

    /// Says whether there is a copy.
    pub(crate) fn has_copy(&self) -> bool {
        self.copy.is_some()
    }

    /// Kills the node, and puts its journals and segments back from the copy, as somebody does who restores a volume. The copy is used up.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn restore(&mut self, engine: &mut Engine) -> io::Result<()> {
        self.kill(engine);
        let copy = self.copy.take().expect("a copy was kept");
        let parts = ["journals", "checkpoints", "partitions"];
        let is_restored = |path: &&PathBuf| parts.iter().any(|part| path.starts_with(part));
        for path in self.disk.paths().iter().filter(is_restored) {
            self.disk.remove(path)?;
            self.disk.sync_directory(path.parent().expect("it is in one"))?;
        }
        for path in copy.paths().iter().filter(is_restored) {
            let bytes = copy.file_bytes(path).expect("it is listed");
            // A partition of then may be none of now.
            match self.disk.create_directory(path.parent().expect("it is in one")) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            self.disk.replace(path, &bytes)?;
        }
        Ok(())
    }

    /// Has the trace take note of all that the disk was told to do.
    pub(crate) fn note_operations(&self) {
        for operation in self.disk.operations() {
            self.trace.note_operation(&operation);
        }
    }

    /// How many cores the node has.
    pub(crate) fn cores(&self) -> usize {
        self.config.cores
    }

    /// Has the disk take no more, and say so, or as much as at first.
    pub(crate) fn fill_disk(&self, is_full: bool) {
        self.disk.set_capacity(if is_full { Some(0) } else { self.room });
    }

    /// Has a core of the node stand still, as one does whose disk or host is slow.
    pub(crate) fn stop_core(&self, engine: &mut Engine, core: usize) {
        if let Some(alive) = &self.alive {
            engine.stop(alive.units[core], true);
        }
    }

    /// Stops the node's process, or has it go on.
    pub(crate) fn stop(&self, engine: &mut Engine, is_stopped: bool) {
        for unit in self.alive.iter().flat_map(|alive| &alive.units) {
            engine.stop(*unit, is_stopped);
        }
    }
}
