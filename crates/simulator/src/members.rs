//! One seed of a cluster: the first node founds it and the others join; topics are made, written to and deleted through whichever node
//! is there, while nodes are killed, lose their power, stand still, and are cut off from each other.
//!
//! At the end every node knows the same topics: those whose making was answered and whose deletion was not begun, none whose deletion was
//! answered; and what was acknowledged stands where it was told, at the partition's leader.

mod askers;
mod checks;
mod commits;
mod left;
mod makers;
mod moves;
mod positions;
mod requests;
mod sequenced;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use platform::net::{Net, SimulatedNet};
use platform::random::SeededRandom;
use server::config::HostPort;
use tokio::time::Instant;

use crate::damage::Damage;
use crate::engine::Engine;
use crate::faults::FaultCounts;
use crate::machine::{KAFKA_PORT, Machine, Started};
use crate::panics;
use crate::run::{Options, Report};
use crate::trace::Trace;
use crate::transactions::Bank;

/// Where each node's peers go.
const PEER_PORT: u16 = 9192;
/// Clients that make topics and delete them.
const MAKERS: u64 = 3;
/// Clients that ask for latest offsets.
const ASKERS: u64 = 6;
/// Partitions that they ask for: the last ones that were written to.
const ASKED_FOR: usize = 8;
/// Clients that read topics in their order, where they have one.
const FOLLOWERS: u64 = 3;
const PARTITIONS: i32 = 5;
const REST: Duration = Duration::from_millis(50);
/// Passes over compacted topics, where there are any.
const COMPACTED_EVERY: Duration = Duration::from_millis(300);
/// Clients write for so long while a node is away.
const WRITTEN: Duration = Duration::from_secs(2);
/// All acknowledgements are heard of after so long: clients wait for them no longer.
const HEARD: Duration = Duration::from_secs(6);
/// The longest that all nodes may take to agree once nothing fails any more.
const PEACE: Duration = Duration::from_secs(120);

/// What is known of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Its making was begun and not answered; or its deletion was.
    Open,
    There,
    Gone,
}

/// Things that clients were shown, for all of them to see.
type Shown<At, What> = Rc<RefCell<BTreeMap<At, What>>>;

/// State that all clients share.
#[derive(Clone)]
struct Shared {
    net: Arc<dyn Net>,
    nodes: Rc<Vec<SocketAddr>>,
    fates: Rc<RefCell<BTreeMap<String, Fate>>>,
    /// Topic, partition and offset of what was acknowledged, with its value.
    records: Shown<(String, i32, i64), String>,
    /// The greatest offset below which records were to be given up.
    trims: Shown<(String, i32), i64>,
    /// The end of what was acknowledged of each partition.
    ends_written: Shown<(String, i32), i64>,
    /// The partitions that were written to last.
    written_last: Rc<RefCell<VecDeque<(String, i32)>>>,
    /// The greatest tail that each node has shown of a partition.
    tails: Shown<(usize, String, i32), i64>,
    ends: Rc<Cell<bool>>,
    /// Clients do nothing for a while.
    rests: Rc<Cell<bool>>,
    /// No topic has one replica: a disk is going to lose something.
    is_copied: bool,
    /// Some topics are compacted.
    has_tables: bool,
    /// Most topics have one order.
    has_orders: bool,
    /// The orders of topics, as they were shown.
    orders: Rc<RefCell<BTreeMap<String, positions::Order>>>,
    unfinished: Rc<Cell<u64>>,
    violation: Rc<RefCell<Option<String>>>,
    /// Offsets that groups have committed.
    commits: Rc<RefCell<BTreeMap<String, commits::Commits>>>,
    /// Topics of one replica.
    lone: Rc<RefCell<BTreeSet<String>>>,
    /// Topics whose records are acknowledged once three replicas hold them.
    wide: Rc<RefCell<BTreeSet<String>>>,
    /// The last thing that was tried in vain.
    awaited: Rc<RefCell<String>>,
    trace: Trace,
}

impl Shared {
    fn violate(&self, what: String) {
        self.trace.note(&what);
        self.violation.borrow_mut().get_or_insert(what);
    }

    /// Takes note that all below `end` was acknowledged.
    fn note_written(&self, topic: &str, index: i32, end: i64) {
        let place = (topic.to_owned(), index);
        let mut ends = self.ends_written.borrow_mut();
        let known = ends.entry(place.clone()).or_default();
        *known = end.max(*known);
        let mut last = self.written_last.borrow_mut();
        last.push_back(place);
        if last.len() > ASKED_FOR {
            last.pop_front();
        }
    }

    fn is_over(&self) -> bool {
        if let Some(panic) = panics::heard() {
            self.violate(panic);
        }
        self.violation.borrow().is_some()
    }
}

/// A cluster's machines and what befalls them.
struct Cluster {
    machines: Vec<Machine>,
    engine: Engine,
    net: SimulatedNet,
    random: SeededRandom,
    trace: Trace,
    faults: FaultCounts,
    /// The clients with transactions.
    bank: Option<Bank>,
    /// A bit that has turned in a segment, and on which node.
    damage: Option<(usize, Damage)>,
}

pub(crate) async fn simulate(seed: u64, options: Options) -> Report {
    let began = Instant::now();
    let mut random = SeededRandom::new(seed);
    let trace = Trace::new(options.shows);
    let net = SimulatedNet::new(random.split());
    let engine = Engine::new(random.split(), trace.clone());
    let address = |node: usize| IpAddr::from([10, 0, 0, u8::try_from(node + 1).expect("few")]);
    let founder = HostPort {
        host: address(0).to_string(),
        port: PEER_PORT,
    };
    let mut machine = |node: usize| {
        let mut machine = Machine::new(
            &net,
            address(node),
            2,
            options.room,
            random.split(),
            trace.clone(),
        );
        machine.configure(|config| {
            config.peer.listen = Some(format!("any:{PEER_PORT}"));
            if options.tables {
                config.compaction.check_interval = COMPACTED_EVERY;
            }
            if node > 0 {
                config.cluster.join = vec![founder.clone()];
            }
        });
        machine
    };
    let machines: Vec<Machine> = (0..options.nodes).map(&mut machine).collect();
    let nodes = (0..options.nodes).map(|node| SocketAddr::new(address(node), KAFKA_PORT));
    let shared = Shared {
        net: net.host(IpAddr::from([10, 0, 1, 1])),
        nodes: Rc::new(nodes.collect()),
        fates: Rc::default(),
        records: Rc::default(),
        trims: Rc::default(),
        ends_written: Rc::default(),
        written_last: Rc::default(),
        tails: Rc::default(),
        ends: Rc::default(),
        rests: Rc::default(),
        is_copied: options.nodes >= 3 && (options.copies || options.bits),
        has_tables: options.nodes >= 3 && options.tables,
        has_orders: options.order,
        orders: Rc::default(),
        unfinished: Rc::new(Cell::new(MAKERS + 1)),
        violation: Rc::default(),
        awaited: Rc::default(),
        commits: Rc::default(),
        lone: Rc::default(),
        wide: Rc::default(),
        trace: trace.clone(),
    };
    let mut cluster = Cluster {
        machines,
        engine,
        net,
        random,
        trace: trace.clone(),
        faults: FaultCounts::default(),
        bank: None,
        damage: None,
    };
    cluster.begin(&shared).await;
    for maker in 0..MAKERS {
        let random = cluster.random.split();
        cluster.engine.add(makers::make(shared.clone(), maker, random));
    }
    let random = cluster.random.split();
    cluster.engine.add(sequenced::produce(shared.clone(), random));
    for _ in 0..ASKERS {
        let random = cluster.random.split();
        cluster.engine.add(askers::ask(shared.clone(), random));
    }
    if options.order {
        for _ in 0..FOLLOWERS {
            let random = cluster.random.split();
            cluster.engine.add(positions::follow(shared.clone(), random));
        }
    }
    if options.transactions {
        let (told, ends) = (shared.clone(), shared.ends.clone());
        let nodes = shared.nodes.to_vec();
        let is_table = shared.has_tables;
        let bank = Bank::new(
            shared.net.clone(),
            nodes,
            ends,
            is_table,
            trace.clone(),
            move |what| {
                told.violate(what);
            },
        );
        bank.begin(&mut cluster.engine, &mut cluster.random);
        cluster.bank = Some(bank);
    }
    for _ in 0..options.faults {
        if shared.is_over() {
            break;
        }
        cluster.pass().await;
        match options.copies && options.nodes >= 3 && cluster.random.chance(1, 12) {
            true => cluster.copy_or_restore(&shared).await,
            false if options.bits && cluster.random.chance(1, 8) => cluster.turn_a_bit(&shared),
            false if options.nodes >= 3 && cluster.random.chance(1, 20) => {
                cluster.leave_behind(&shared).await;
            }
            false => cluster.strike(&shared),
        }
    }
    if !shared.is_over() {
        cluster.make_peace(&shared).await;
    }
    if !shared.is_over() {
        cluster.check(&shared).await;
    }
    // Of five, three are left for the metadata when two are lost.
    let loses_two = options.nodes >= 5 && cluster.random.below(2) == 0;
    match loses_two {
        _ if shared.is_over() || options.nodes < 3 => {}
        true => cluster.go_on_with_one_left(&shared).await,
        false => cluster.go_on_without_one(&shared).await,
    }
    shared.is_over();
    cluster.machines.iter().for_each(Machine::note_operations);
    let acknowledged = shared.records.borrow().len() as u64;
    let violation = shared.violation.borrow().clone();
    Report {
        seed,
        violation,
        trace: trace.hash(),
        steps: trace.steps(),
        acknowledged,
        faults: cluster.faults,
        reached: trace.counts(),
        simulated: began.elapsed(),
    }
}

impl Cluster {
    /// The first node founds the cluster, and the others join it one after the other.
    async fn begin(&mut self, shared: &Shared) {
        for node in 0..self.machines.len() {
            if node > 0 {
                let joining = self.machines[node].join();
                let outcome = Rc::new(RefCell::new(None));
                let told = outcome.clone();
                self.engine.add(async move {
                    let joined = joining.await;
                    *told.borrow_mut() = Some(joined);
                });
                let deadline = Instant::now() + PEACE;
                self.engine.run(deadline, || outcome.borrow().is_some()).await;
                let joined = outcome.borrow_mut().take();
                if let Err(error) = joined.unwrap_or_else(|| Err("it never ends".to_owned())) {
                    return shared.violate(format!("node {node} cannot join: {error}"));
                }
            }
            self.start(shared, node);
            let deadline = Instant::now() + PEACE;
            let machine = &self.machines[node];
            self.engine
                .run(deadline, || machine.started() != Started::Opening)
                .await;
        }
    }

    fn start(&mut self, shared: &Shared, node: usize) {
        if self.machines[node].started() == Started::Down
            && let Err(error) = self.machines[node].start(&mut self.engine)
        {
            shared.violate(format!("node {node} cannot be assembled: {error}"));
        }
    }

    async fn pass(&mut self) {
        let ms = 20 + self.random.below(400);
        self.engine
            .run_until(Instant::now() + Duration::from_millis(ms))
            .await;
    }

    fn strike(&mut self, shared: &Shared) {
        let count = self.machines.len() as u64;
        let (node, other) = (
            self.random.below(count) as usize,
            self.random.below(count) as usize,
        );
        let (one, two) = (self.machines[node].address(), self.machines[other].address());
        let kind = match self.random.below(20) / 2 {
            0 if self.random.below(4) == 0 => {
                for machine in &mut self.machines {
                    machine.cut_power(&mut self.engine);
                }
                "power cut of all"
            }
            0 => {
                self.machines[node].kill(&mut self.engine);
                "kill"
            }
            1 => {
                self.machines[node].cut_power(&mut self.engine);
                "power cut"
            }
            2 if node != other => {
                self.net.cut(one, two);
                "cut off from a node"
            }
            3 => {
                self.net.mend();
                return;
            }
            4 if node != other => match self.net.reset(one, two) {
                0 => return,
                _ => "a node's connections reset",
            },
            5 => {
                self.machines[node].stop(&mut self.engine, true);
                "process stopped"
            }
            6 => {
                self.machines[node].stop(&mut self.engine, false);
                return;
            }
            // A node that gave up its start is started anew.
            _ => {
                self.bury(node);
                return self.start(shared, node);
            }
        };
        self.trace.note(format_args!("{kind}: node {node}"));
        *self.faults.entry(kind).or_default() += 1;
    }

    /// A bit of a segment turns while its node is away, of what two others have, too; the one that had turned before turns back. Whoever
    /// reads there is to be shown what was written.
    fn turn_a_bit(&mut self, shared: &Shared) {
        if let Some((node, damage)) = self.damage.take() {
            damage.repair(self.machines[node].disk());
        }
        let node = self.random.below(self.machines.len() as u64) as usize;
        // It remembers nothing of what it had read.
        self.machines[node].kill(&mut self.engine);
        let drawn = Damage::draw_of_segments(self.machines[node].disk(), &mut self.random);
        if let Some(damage) = drawn {
            self.trace
                .note(format_args!("a bit turns on node {node}: {damage}"));
            *self.faults.entry("a bit of a segment turns").or_default() += 1;
            self.damage = Some((node, damage));
        }
        self.start(shared, node);
    }

    /// Stops a node, or cuts it off from the others, while these are well and clients write; then has it go on: what it knows is old.
    async fn leave_behind(&mut self, shared: &Shared) {
        self.mend_all(shared).await;
        self.engine.run_until(Instant::now() + WRITTEN).await;
        let node = self.random.below(self.machines.len() as u64) as usize;
        let is_stopped = self.random.below(2) == 0;
        let address = self.machines[node].address();
        match is_stopped {
            true => self.machines[node].stop(&mut self.engine, true),
            false => {
                for other in self.machines.iter().map(Machine::address) {
                    self.net.cut(address, other);
                    self.net.cut(other, address);
                }
            }
        }
        let kind = if is_stopped {
            "left behind: stopped"
        } else {
            "left behind: cut off"
        };
        self.trace.note(format_args!("{kind}: node {node}"));
        *self.faults.entry(kind).or_default() += 1;
        self.engine.run_until(Instant::now() + WRITTEN).await;
        self.machines[node].stop(&mut self.engine, false);
        self.net.mend();
        self.pass().await;
    }

    /// Keeps a copy of a node's disk; or has the journals of the node with a copy be those of the copy. Before that all are there for a while, and have
    /// heard of everything that was acknowledged: only what they know of can be missed.
    async fn copy_or_restore(&mut self, shared: &Shared) {
        let Some(node) = self.machines.iter().position(Machine::has_copy) else {
            let node = self.random.below(self.machines.len() as u64) as usize;
            return self.machines[node].keep_copy();
        };
        shared.rests.set(true);
        self.mend_all(shared).await;
        let (is_done, settling) = (Rc::new(Cell::new(false)), shared.clone());
        let done = is_done.clone();
        self.engine.add(async move {
            moves::settle(&settling, &checks::all_topics(&settling)).await;
            done.set(true);
        });
        if !self.engine.run(Instant::now() + PEACE, || is_done.get()).await {
            let awaited = shared.awaited.borrow().clone();
            return shared.violate(format!("replicas are not filled: {awaited}"));
        }
        // With one node away, the restored one has acknowledged records that one other node holds: and that goes before it could give them back.
        let others: Vec<usize> = (0..self.machines.len()).filter(|other| *other != node).collect();
        let (away, holder) = match self.random.below(2) {
            0 => (others[0], others[1]),
            _ => (others[1], others[0]),
        };
        self.machines[away].kill(&mut self.engine);
        shared.rests.set(false);
        self.engine.run_until(Instant::now() + WRITTEN).await;
        shared.rests.set(true);
        // They are heard of meanwhile.
        self.engine.run_until(Instant::now() + HEARD).await;
        if let Err(error) = self.machines[node].restore(&mut self.engine) {
            return shared.violate(format!("a copy cannot be restored: {error}"));
        }
        self.trace
            .note(format_args!("journals restored from a copy: node {node}"));
        *self.faults.entry("journals restored from a copy").or_default() += 1;
        self.start(shared, node);
        let machine = &self.machines[node];
        let serves = || machine.started() != Started::Opening;
        self.engine.run(Instant::now() + PEACE, serves).await;
        if self.machines.len() == 3 {
            self.machines[holder].kill(&mut self.engine);
        }
        self.start(shared, away);
        shared.rests.set(false);
        self.engine.run_until(Instant::now() + WRITTEN).await;
        self.start(shared, holder);
    }

    /// Has all nodes serve, with all connections.
    async fn mend_all(&mut self, shared: &Shared) {
        self.net.mend();
        let deadline = Instant::now() + PEACE;
        while Instant::now() < deadline {
            for node in 0..self.machines.len() {
                self.machines[node].stop(&mut self.engine, false);
                self.bury(node);
                self.start(shared, node);
            }
            let machines = &self.machines;
            let all_serve = || {
                machines
                    .iter()
                    .all(|machine| machine.started() == Started::Serving)
            };
            let soon = Instant::now() + Duration::from_secs(2);
            if self.engine.run(soon, all_serve).await {
                return;
            }
        }
        shared.violate("not all nodes serve, though nothing fails any more".to_owned());
    }

    /// Ends a node that could not start.
    fn bury(&mut self, node: usize) {
        if let Started::Failed(why) = self.machines[node].started() {
            self.trace
                .note(format_args!("node {node} gave up its start: {why}"));
            self.machines[node].kill(&mut self.engine);
        }
    }

    /// Nothing fails any more: the clients finish what they have begun, and all nodes serve.
    async fn make_peace(&mut self, shared: &Shared) {
        self.net.mend();
        for node in 0..self.machines.len() {
            self.machines[node].stop(&mut self.engine, false);
            self.bury(node);
            self.start(shared, node);
        }
        shared.ends.set(true);
        let unfinished = shared.unfinished.clone();
        let deadline = Instant::now() + PEACE;
        loop {
            let (engine, machines) = (&mut self.engine, &self.machines);
            let is = |state: fn(&Started) -> bool| move |machine: &Machine| state(&machine.started());
            let all_serve = || machines.iter().all(is(|state| *state == Started::Serving));
            let one_failed = || {
                machines
                    .iter()
                    .any(is(|state| matches!(state, Started::Failed(_))))
            };
            let bank = self.bank.as_ref();
            let unfinished = || unfinished.get() + bank.map_or(0, Bank::unfinished) as u64;
            let is_over = || unfinished() == 0 && all_serve();
            if !engine.run(deadline, || is_over() || one_failed()).await {
                let states: Vec<_> = machines.iter().map(Machine::started).collect();
                return shared.violate(format!(
                    "{} clients do not finish; the nodes: {states:?}",
                    unfinished()
                ));
            }
            if is_over() {
                return;
            }
            for node in 0..self.machines.len() {
                self.bury(node);
                self.start(shared, node);
            }
        }
    }

    /// A node goes and does not come back: every partition that others hold, too, goes on, and the metadata can be changed.
    async fn go_on_without_one(&mut self, shared: &Shared) {
        let away = self.random.below(self.machines.len() as u64) as usize;
        self.machines[away].kill(&mut self.engine);
        let is_done = Rc::new(Cell::new(false));
        let (done, writing) = (is_done.clone(), shared.clone());
        self.engine.add(async move {
            checks::write_everywhere(&writing, away).await;
            checks::make_one_more(&writing, away).await;
            commits::check_commits(&writing).await;
            done.set(true);
        });
        if !self.engine.run(Instant::now() + PEACE, || is_done.get()).await {
            let awaited = shared.awaited.borrow().clone();
            return shared.violate(format!(
                "node {away} is away, and the others do not go on: {awaited}"
            ));
        }
        self.check_transactions(shared, Some(away)).await;
    }

    /// Holds what committed and aborted transactions have left against what clients were told. With a node away, more are committed before.
    async fn check_transactions(&mut self, shared: &Shared, away: Option<usize>) {
        let Some(bank) = self.bank.clone() else { return };
        let (checked, mut random) = (bank.clone(), self.random.split());
        let is_done = Rc::new(Cell::new(false));
        let done = is_done.clone();
        self.engine.add(async move {
            if let Some(away) = away {
                checked.go_on(away, random.split()).await;
            }
            checked.check(away, false, random).await;
            done.set(true);
        });
        if !self.engine.run(Instant::now() + PEACE, || is_done.get()).await {
            let awaited = bank.awaited();
            shared.violate(format!("transactions are not settled: {awaited}"));
        }
    }

    async fn check(&mut self, shared: &Shared) {
        let is_done = Rc::new(Cell::new(false));
        let (done, checked) = (is_done.clone(), shared.clone());
        self.engine.add(async move {
            checks::check(&checked).await;
            moves::settle(&checked, &checks::topics_there(&checked)).await;
            positions::check(&checked).await;
            commits::check_commits(&checked).await;
            checks::write_where_all_are_wanted(&checked).await;
            done.set(true);
        });
        if !self
            .engine
            .run(Instant::now() + 2 * PEACE, || is_done.get())
            .await
        {
            let awaited = shared.awaited.borrow().clone();
            return shared.violate(format!("the nodes do not come to agree: {awaited}"));
        }
        self.check_transactions(shared, None).await;
    }
}
