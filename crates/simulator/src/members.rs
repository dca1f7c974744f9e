//! One seed of a cluster: the first node founds it and the others join; topics are made, written to and deleted through whichever node
//! is there, while nodes are killed, lose their power, stand still, and are cut off from each other.
//!
//! At the end every node knows the same topics: those whose making was answered and whose deletion was not begun, none whose deletion was
//! answered; and what was acknowledged stands where it was told, at the partition's leader.

mod commits;
mod moves;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka_wire::create_topics::CreatableTopic;
use kafka_wire::fetch::{FetchPartition, FetchTopic};
use kafka_wire::produce::{PartitionProduceData, TopicProduceData};
use kafka_wire::{
    CreateTopicsRequest, DeleteTopicsRequest, ErrorCode, FetchRequest, MetadataRequest, ProduceRequest, Text,
};
use platform::net::{Net, SimulatedNet};
use platform::random::SeededRandom;
use record::{BatchBuilder, Compression, Limits};
use server::config::HostPort;
use tokio::time::{Instant, sleep};

use crate::client::Client;
use crate::engine::Engine;
use crate::faults::FaultCounts;
use crate::machine::{KAFKA_PORT, Machine, Started};
use crate::panics;
use crate::run::{Options, Report};
use crate::trace::Trace;

/// Where each node's peers go.
const PEER_PORT: u16 = 9192;
/// Clients that make topics and delete them.
const MAKERS: u64 = 3;
const PARTITIONS: i32 = 5;
const REST: Duration = Duration::from_millis(50);
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
    /// The greatest tail that each node has shown of a partition.
    tails: Shown<(usize, String, i32), i64>,
    ends: Rc<Cell<bool>>,
    /// Clients do nothing for a while.
    rests: Rc<Cell<bool>>,
    /// No topic has one replica: a disk is going to lose something.
    is_copied: bool,
    unfinished: Rc<Cell<u64>>,
    violation: Rc<RefCell<Option<String>>>,
    /// Offsets that groups have committed.
    commits: Rc<RefCell<BTreeMap<String, commits::Commits>>>,
    /// Topics of one replica.
    lone: Rc<RefCell<BTreeSet<String>>>,
    /// The last thing that was tried in vain.
    awaited: Rc<RefCell<String>>,
    trace: Trace,
}

impl Shared {
    fn violate(&self, what: String) {
        self.trace.note(&what);
        self.violation.borrow_mut().get_or_insert(what);
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
        tails: Rc::default(),
        ends: Rc::default(),
        rests: Rc::default(),
        is_copied: options.nodes >= 3 && options.copies,
        unfinished: Rc::new(Cell::new(MAKERS)),
        violation: Rc::default(),
        awaited: Rc::default(),
        commits: Rc::default(),
        lone: Rc::default(),
        trace: trace.clone(),
    };
    let mut cluster = Cluster {
        machines,
        engine,
        net,
        random,
        trace: trace.clone(),
        faults: FaultCounts::default(),
    };
    cluster.begin(&shared).await;
    for maker in 0..MAKERS {
        let random = cluster.random.split();
        cluster.engine.add(make(shared.clone(), maker, random));
    }
    for _ in 0..options.faults {
        if shared.is_over() {
            break;
        }
        cluster.pass().await;
        match shared.is_copied && cluster.random.chance(1, 12) {
            true => cluster.copy_or_restore(&shared).await,
            false => cluster.strike(&shared),
        }
    }
    if !shared.is_over() {
        cluster.make_peace(&shared).await;
    }
    if !shared.is_over() {
        cluster.check(&shared).await;
    }
    if options.nodes >= 3 && !shared.is_over() {
        cluster.go_on_without_one(&shared).await;
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
            moves::settle(&settling, &all_topics(&settling)).await;
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
            let is_over = || unfinished.get() == 0 && all_serve();
            if !engine.run(deadline, || is_over() || one_failed()).await {
                let states: Vec<_> = machines.iter().map(Machine::started).collect();
                return shared.violate(format!(
                    "{} clients do not finish; the nodes: {states:?}",
                    unfinished.get()
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
            write_everywhere(&writing, away).await;
            make_one_more(&writing, away).await;
            commits::check_commits(&writing).await;
            done.set(true);
        });
        if !self.engine.run(Instant::now() + PEACE, || is_done.get()).await {
            let awaited = shared.awaited.borrow().clone();
            shared.violate(format!(
                "node {away} is away, and the others do not go on: {awaited}"
            ));
        }
    }

    async fn check(&mut self, shared: &Shared) {
        let is_done = Rc::new(Cell::new(false));
        let (done, checked) = (is_done.clone(), shared.clone());
        self.engine.add(async move {
            check(&checked).await;
            moves::settle(&checked, &topics_there(&checked)).await;
            commits::check_commits(&checked).await;
            done.set(true);
        });
        if !self
            .engine
            .run(Instant::now() + 2 * PEACE, || is_done.get())
            .await
        {
            let awaited = shared.awaited.borrow().clone();
            shared.violate(format!("the nodes do not come to agree: {awaited}"));
        }
    }
}

/// Waits until each partition of the topics that are there, with three replicas, takes a record at its leader.
async fn write_everywhere(shared: &Shared, away: usize) {
    for name in topics_there(shared) {
        for index in 0..PARTITIONS {
            loop {
                match try_to_write(shared, &name, index, away).await {
                    Ok(true) => break,
                    Ok(false) => *shared.awaited.borrow_mut() = format!("{name}-{index} takes nothing"),
                    Err(error) => {
                        *shared.awaited.borrow_mut() = format!("{name}-{index} takes nothing: {error}");
                    }
                }
                sleep(REST).await;
            }
        }
    }
}

/// The topics that may be there, and that of the groups.
fn all_topics(shared: &Shared) -> Vec<String> {
    let fates = shared.fates.borrow();
    let named = fates.keys().cloned();
    named.chain(["__consumer_offsets".to_owned()]).collect()
}

/// The topics whose making was answered.
fn topics_there(shared: &Shared) -> Vec<String> {
    let fates = shared.fates.borrow();
    let there = fates.iter().filter(|(_, fate)| **fate == Fate::There);
    there.map(|(name, _)| name.clone()).collect()
}

/// Waits until a topic was made by way of a node that is there.
async fn make_one_more(shared: &Shared, away: usize) {
    let node = usize::from(away == 0);
    while !matches!(create(shared, node, "one-more", 1).await, Ok(true)) {
        "no topic can be made".clone_into(&mut shared.awaited.borrow_mut());
        sleep(REST).await;
    }
}

/// Says whether the partition has taken a record, or has one replica, which is away.
async fn try_to_write(shared: &Shared, name: &str, index: i32, away: usize) -> io::Result<bool> {
    let node = usize::from(away == 0);
    let leaders = topics(shared, node).await?.remove(name).unwrap_or_default();
    let Some(leader) = leaders.get(index as usize) else {
        return Ok(true);
    };
    if *leader == away && shared.lone.borrow().contains(name) {
        return Ok(true);
    }
    let mut builder = BatchBuilder::new(Compression::None);
    builder.append(0, None, Some(b"without one"), &[]);
    Ok(append(shared, *leader, name, index, builder.build())
        .await?
        .is_some())
}

/// Waits until all nodes know the same topics, and holds them against what clients were told.
async fn check(shared: &Shared) {
    let first = loop {
        let mut all = Vec::new();
        for node in 0..shared.nodes.len() {
            all.push(topics(shared, node).await);
        }
        match all.iter().all(|topics| {
            topics.is_ok() && Some(topics.as_ref().ok()) == all.first().map(|first| first.as_ref().ok())
        }) {
            true => break all.remove(0).expect("it was seen"),
            false => {
                *shared.awaited.borrow_mut() = format!("they know {all:?}");
                sleep(REST).await;
            }
        }
    };
    for (name, fate) in shared.fates.borrow().iter() {
        match (fate, first.contains_key(name)) {
            (Fate::There, false) => shared.violate(format!("topic {name} was made, and is not there")),
            (Fate::Gone, true) => shared.violate(format!("topic {name} was deleted, and is there")),
            _ => {}
        }
    }
    let records = shared.records.borrow().clone();
    for ((name, index, offset), value) in records {
        // A deletion that nobody waits for any more may come yet.
        if shared.fates.borrow().get(&name) != Some(&Fate::There) {
            continue;
        }
        let found = loop {
            match read_at_leader(shared, &name, index, offset).await {
                Ok(found) => break found,
                Err(error) => {
                    *shared.awaited.borrow_mut() = format!("{value} is not to be had: {error}");
                    sleep(REST).await;
                }
            }
        };
        if found.as_ref() != Some(&value) {
            shared.violate(format!(
                "{value} was acknowledged at {offset} of {name}-{index}, where there is {found:?}"
            ));
        }
    }
}

/// The value at an offset, at the node that leads the partition now.
async fn read_at_leader(shared: &Shared, topic: &str, index: i32, offset: i64) -> io::Result<Option<String>> {
    let leaders = topics(shared, 0).await?.remove(topic).unwrap_or_default();
    match leaders.get(index as usize) {
        Some(leader) => {
            let read = read(shared, *leader, topic, index, offset).await;
            read.map_err(|error| io::Error::new(error.kind(), format!("node {leader}, which leads: {error}")))
        }
        None => Ok(None),
    }
}

/// The leaders of all topics' partitions, as a node knows them.
async fn topics(shared: &Shared, node: usize) -> io::Result<BTreeMap<String, Vec<usize>>> {
    let mut client = Client::connect(&shared.net, shared.nodes[node]).await?;
    let all = MetadataRequest {
        topics: None,
        ..MetadataRequest::default()
    };
    let answer = client.call(&all).await?;
    let of_topic = |topic: kafka_wire::metadata::MetadataResponseTopic| {
        let mut partitions = topic.partitions;
        partitions.sort_by_key(|partition| partition.partition_index);
        let leaders = partitions.iter().map(|partition| place_of(partition.leader_id));
        (topic.name.unwrap_or_default().to_string(), leaders.collect())
    };
    Ok(answer.topics.into_iter().map(of_topic).collect())
}

fn place_of(node: i32) -> usize {
    usize::try_from(node - 1).expect("nodes count up from one")
}

/// The value at an offset, at the node that leads the partition.
async fn read(
    shared: &Shared,
    node: usize,
    topic: &str,
    index: i32,
    offset: i64,
) -> io::Result<Option<String>> {
    let mut client = Client::connect(&shared.net, shared.nodes[node]).await?;
    let request = FetchRequest {
        max_wait_ms: 100,
        max_bytes: 1 << 20,
        topics: vec![FetchTopic {
            topic: Text::from(topic),
            partitions: vec![FetchPartition {
                partition: index,
                current_leader_epoch: -1,
                fetch_offset: offset,
                partition_max_bytes: 64 << 10,
                ..FetchPartition::default()
            }],
            ..FetchTopic::default()
        }],
        ..FetchRequest::default()
    };
    let answer = client.call(&request).await?;
    let data = &answer.responses[0].partitions[0];
    if data.error_code == 0 {
        let mut tails = shared.tails.borrow_mut();
        let shown = tails.entry((node, topic.to_owned(), index)).or_default();
        if data.high_watermark < *shown {
            shared.violate(format!(
                "node {node} shows {topic}-{index} up to {}, and has shown it up to {shown}",
                data.high_watermark
            ));
        }
        *shown = data.high_watermark.max(*shown);
    }
    match ErrorCode::from_code(data.error_code) {
        Some(ErrorCode::None) => {}
        Some(ErrorCode::OffsetOutOfRange | ErrorCode::UnknownTopicOrPartition) => return Ok(None),
        code => return Err(io::Error::other(format!("{code:?}"))),
    }
    // A leader that has just begun does not know yet how far its log is committed.
    if data.high_watermark <= offset {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let bytes = data.records.chunks.concat();
    let bytes = Bytes::from(bytes);
    for batch in record::batches(&bytes).map_while(Result::ok) {
        for record in record::records(batch.1, &Limits::default()).expect("batches are sound") {
            let record = record.expect("records are sound");
            if record.offset.0 == offset {
                let value = record.value.unwrap_or_default();
                return Ok(Some(String::from_utf8_lossy(&value).into_owned()));
            }
        }
    }
    Ok(None)
}

/// Makes topics, writes to them and deletes some, until the world ends.
async fn make(shared: Shared, maker: u64, mut random: SeededRandom) {
    let mut number = 0_u64;
    let mut own: BTreeSet<String> = BTreeSet::new();
    while !shared.ends.get() {
        if shared.rests.get() {
            sleep(REST).await;
            continue;
        }
        let node = random.below(shared.nodes.len() as u64) as usize;
        let done = match random.below(11) {
            9.. if !own.is_empty() => {
                let place = random.below(own.len() as u64) as usize;
                let name = own.iter().nth(place).expect("it is below").clone();
                moves::move_some(&shared, node, &name, PARTITIONS, &mut random)
                    .await
                    .map(|()| true)
            }
            7..9 => commits::commit_some(&shared, node, &format!("group-{maker}"))
                .await
                .map(|()| true),
            0 if !own.is_empty() => {
                let place = random.below(own.len() as u64) as usize;
                let name = own.iter().nth(place).expect("it is below").clone();
                own.remove(&name);
                delete(&shared, node, &name).await
            }
            1..=3 if !own.is_empty() => {
                let place = random.below(own.len() as u64) as usize;
                let name = own.iter().nth(place).expect("it is below").clone();
                number += 1;
                let index = random.below(PARTITIONS as u64) as i32;
                let _ = read(&shared, node, &name, index, 0).await;
                write_all(&shared, node, &name, number).await.map(|()| true)
            }
            _ => {
                number += 1;
                let name = format!("topic-{maker}-{number}");
                let several = shared.nodes.len().min(3) as i16;
                let is_lone = random.below(3) == 0 && !shared.is_copied;
                let replicas = if is_lone { 1 } else { several };
                let made = create(&shared, node, &name, replicas).await;
                if matches!(made, Ok(true)) {
                    own.insert(name.clone());
                    write_all(&shared, node, &name, number).await.map(|()| true)
                } else {
                    made
                }
            }
        };
        match done {
            Ok(_) => shared.trace.count("makers: answered"),
            Err(error) => shared
                .trace
                .count(format!("makers: connection {:?}", error.kind())),
        }
        sleep(REST).await;
    }
    shared.unfinished.set(shared.unfinished.get() - 1);
}

/// Says whether the topic is there now.
async fn create(shared: &Shared, node: usize, name: &str, replicas: i16) -> io::Result<bool> {
    let mut client = Client::connect(&shared.net, shared.nodes[node]).await?;
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: Text::from(name),
            num_partitions: PARTITIONS,
            replication_factor: replicas,
            ..CreatableTopic::default()
        }],
        timeout_ms: 3_000,
        ..CreateTopicsRequest::default()
    };
    shared.fates.borrow_mut().insert(name.to_owned(), Fate::Open);
    if replicas == 1 {
        shared.lone.borrow_mut().insert(name.to_owned());
    }
    let code = client.call(&request).await?.topics[0].error_code;
    let is_made = code == 0;
    if is_made {
        shared.fates.borrow_mut().insert(name.to_owned(), Fate::There);
    } else {
        shared
            .trace
            .count(format!("create: {:?}", ErrorCode::from_code(code)));
    }
    Ok(is_made)
}

async fn delete(shared: &Shared, node: usize, name: &str) -> io::Result<bool> {
    let mut client = Client::connect(&shared.net, shared.nodes[node]).await?;
    let request = DeleteTopicsRequest {
        topic_names: vec![Text::from(name)],
        timeout_ms: 3_000,
        ..DeleteTopicsRequest::default()
    };
    shared.fates.borrow_mut().insert(name.to_owned(), Fate::Open);
    let code = client.call(&request).await?.responses[0].error_code;
    match code {
        0 => drop(shared.fates.borrow_mut().insert(name.to_owned(), Fate::Gone)),
        _ => shared
            .trace
            .count(format!("delete: {:?}", ErrorCode::from_code(code))),
    }
    Ok(false)
}

/// Appends a record to each partition, at its leader.
async fn write_all(shared: &Shared, node: usize, name: &str, number: u64) -> io::Result<()> {
    let leaders = topics(shared, node).await?.remove(name);
    let Some(leaders) = leaders else {
        // The node may have been stopped, and another one asked.
        return Ok(());
    };
    for (index, leader) in (0..).zip(leaders) {
        let value = format!("{number} of {name}-{index}");
        let mut builder = BatchBuilder::new(Compression::None);
        builder.append(0, None, Some(value.as_bytes()), &[]);
        if let Some(offset) = append(shared, leader, name, index, builder.build()).await? {
            let place = (name.to_owned(), index, offset);
            shared.records.borrow_mut().insert(place, value);
        }
    }
    Ok(())
}

async fn append(
    shared: &Shared,
    node: usize,
    topic: &str,
    index: i32,
    batch: Bytes,
) -> io::Result<Option<i64>> {
    let mut client = Client::connect(&shared.net, shared.nodes[node]).await?;
    let request = ProduceRequest {
        acks: -1,
        timeout_ms: 3_000,
        topic_data: vec![TopicProduceData {
            name: Text::from(topic),
            partition_data: vec![PartitionProduceData {
                index,
                records: Some(batch),
            }],
            ..TopicProduceData::default()
        }],
        ..ProduceRequest::default()
    };
    let answer = client.call(&request).await?;
    let told = &answer.responses[0].partition_responses[0];
    if told.error_code != 0 {
        shared
            .trace
            .count(format!("append: {:?}", ErrorCode::from_code(told.error_code)));
        return Ok(None);
    }
    Ok(Some(told.base_offset))
}
