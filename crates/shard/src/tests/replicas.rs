//! Three shards on simulated disks with two partitions: a seed says which job ends, which letter arrives, who crashes or loses its
//! disk, and who leads. Letters go as the bytes of a connection.
//!
//! Whatever happens, what a producer was told stays where it was told, and at the end all replicas hold the same: of a compacted
//! partition, which each compacts when the seed says so, the last value of each key.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use futures_util::FutureExt;
use planted::{Bug, with};
use platform::clock::Clock;
use platform::random::SeededRandom;
use platform::turns;
use platform::work::{Job, Queue, Work};
use protocol::History;
use protocol::metadata::FeatureLevel;
use protocol::peer::{
    self, BatchesError, Decoder, Encoded, Own, Relay, ReplicaMessage, ShardPair, WIRE_VERSIONS,
};
use protocol::replica::lease::GRANT;
use protocol::replica::{Assignment, Configuration, NO_EPOCH, Prompt, Refusal};
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;
use tokio::time::{Instant, advance};

use storage::Recovered;

use super::*;

const NODES: usize = 3;
const ACK_QUORUM: usize = 2;
const STEPS: usize = 3_000;
/// So many rounds bring any run to rest.
const ROUNDS_MAX: usize = 1_000;
/// No node has so many jobs to do while nothing comes.
const JOBS_MAX: usize = 3_000;
/// The lane of flushes: the first that a shard begins.
const FLUSH_LANE: usize = 0;
/// The lane that segments and checkpoints are written in: the third that a shard begins.
const LAYOUT_LANE: usize = 2;
/// Rounds of time without a job or a letter after which nothing more comes: no task waits so long.
const QUIET_ROUNDS: usize = 160;
const SEEDS: u64 = 60;
/// Seeds that have failed: a log began in a gap, or inside a batch of other replicas.
const FAILED: [u64; 2] = [191, 462];
const SMALL_JOURNAL: JournalSizes = JournalSizes {
    file_bytes: 256 << 10,
    files_max: 3,
};
const PARTITIONS: usize = 2;
/// Keys of a compacted partition's records.
const KEYS: usize = 5;
const MEANS: CompactionMeans = CompactionMeans {
    key_map_bytes: 1 << 16,
    bytes_per_second: u64::MAX,
    disk_reserve_bytes: 0,
};
/// More than a flush has of one partition, and than a history.
const MESSAGE_BYTES_MAX: usize = 8 << 20;

fn partition(number: usize) -> PartitionId {
    PartitionId {
        topic: TopicId([3; 16]),
        index: i32::try_from(number).expect("few"),
    }
}

/// The time of the runtime, which passes when it is told to.
struct PausedClock(Instant);

impl Clock for PausedClock {
    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }

    fn wall_ms(&self) -> i64 {
        0
    }
}

/// Runs jobs when it is told to: lane by lane, in the order in which they came.
#[derive(Clone, Default)]
struct Jobs(Arc<Mutex<Vec<VecDeque<Job>>>>);

struct JobLane(Jobs, usize);

impl Jobs {
    fn lanes(&self) -> MutexGuard<'_, Vec<VecDeque<Job>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> JobLane {
        let mut lanes = self.lanes();
        lanes.push(VecDeque::new());
        JobLane(self.clone(), lanes.len() - 1)
    }

    /// Runs the first job of the lane that `choose` picks among those with work, if it picks one; says whether it did.
    fn run_one(&self, choose: impl FnOnce(&[usize]) -> Option<usize>) -> bool {
        let job = {
            let mut lanes = self.lanes();
            let busy: Vec<usize> = (0..lanes.len()).filter(|lane| !lanes[*lane].is_empty()).collect();
            choose(&busy).and_then(|lane| lanes[lane].pop_front())
        };
        job.map(|job| job()).is_some()
    }
}

impl Queue for JobLane {
    fn push(&self, job: Job) {
        self.0.lanes()[self.1].push_back(job);
    }
}

impl Work for Jobs {
    fn lane(&self, _name: String) -> io::Result<Box<dyn Queue>> {
        Ok(Box::new(self.begin()))
    }

    fn pool(&self) -> Arc<dyn Queue> {
        Arc::new(self.begin())
    }

    fn may_rest(&self) -> bool {
        false
    }
}

/// A record as a reader finds it: its offset, key and value.
type Found = (Offset, Option<String>, Option<String>);

/// A running process: its shard, the tasks of it, and its blocking jobs.
struct Process {
    shard: Rc<Shard>,
    tasks: LocalSet,
    jobs: Jobs,
}

struct Node {
    id: NodeId,
    disk: SimulatedDisk,
    process: Option<Process>,
    /// The number of commands of the metadata that it has heard of.
    heard: usize,
}

/// An append whose producer waits, or the offset that it was told.
struct Appended {
    partition: usize,
    key: Option<String>,
    value: String,
    answer: Option<AppendAnswer>,
    outcome: Option<AppendOutcome>,
}

struct Cluster {
    random: SeededRandom,
    runtime: Runtime,
    journal: JournalSizes,
    value_bytes_max: usize,
    /// The settings of each partition: one is sent along a chain, or both, or none; the last one may be compacted.
    topics: [TopicSettings; PARTITIONS],
    /// Much happens before a flush has ended.
    flushes_are_slow: bool,
    /// The node that writes no segments.
    layout_rests: Option<usize>,
    nodes: Vec<Node>,
    links: BTreeMap<(usize, usize), Link>,
    commands: Vec<Command>,
    /// Of each partition the latest epoch, with the members that are in doubt now.
    latest: Vec<Assignment>,
    appended: Vec<Appended>,
    violation: Option<String>,
    reached: Reached,
}

/// The metadata's words, which each node hears in their order.
#[derive(Clone)]
enum Command {
    Assign(usize, Assignment),
    Doubt(NodeId),
    Certain(usize, NodeId),
}

/// One direction of a connection: messages on their way, and the receiver's decoder.
struct Link {
    messages: VecDeque<Encoded>,
    decoder: Decoder,
}

/// The states that runs are to pass through.
#[derive(Debug, Default, Clone, Copy)]
struct Reached {
    /// A log was made to begin elsewhere, and no checkpoint knew of it.
    based: bool,
    /// An append waited for what was not committed.
    crowded: bool,
    /// A replica whose disk was lost became certain again.
    healed: bool,
    /// A follower passed something on.
    relayed: bool,
    /// A replica was sent what compaction had taken.
    filled: bool,
}

fn replication(is_chain: bool) -> (&'static str, &'static str) {
    ("ropewalk.replication", if is_chain { "chain" } else { "quorum" })
}

fn by_chain(is_chain: bool) -> TopicSettings {
    settings_of(&[replication(is_chain)])
}

fn compacted_by_chain(is_chain: bool) -> TopicSettings {
    let settings = settings_of(&[
        replication(is_chain),
        ("cleanup.policy", "compact,delete"),
        ("min.cleanable.dirty.ratio", "0"),
        ("delete.retention.ms", "0"),
    ]);
    // Less than may be configured: few records are appended.
    TopicSettings {
        segment_bytes_max: 16 << 10,
        ..settings
    }
}

fn node_id(index: usize) -> NodeId {
    NodeId(i32::try_from(index).expect("few") + 1)
}

fn index_of(node: NodeId) -> usize {
    usize::try_from(node.0 - 1).expect("a node's")
}

impl Cluster {
    fn new(seed: u64) -> Cluster {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        // In a journal so small, replicas have to wait for room.
        let (journal, value_bytes_max) = match seed % 3 {
            0 => (SMALL_JOURNAL, 14_000),
            _ => (CONFIG.journal, 4_000),
        };
        let last = match seed % 5 < 3 {
            true => compacted_by_chain,
            false => by_chain,
        };
        let mut cluster = Cluster {
            random: SeededRandom::new(seed),
            runtime: runtime.expect("it needs nothing"),
            journal,
            value_bytes_max,
            topics: [by_chain(seed / 2 % 2 == 1), last(seed / 3 % 2 == 1)],
            flushes_are_slow: seed % 2 == 1,
            layout_rests: None,
            nodes: Vec::new(),
            links: BTreeMap::new(),
            commands: Vec::new(),
            latest: (0..PARTITIONS).map(|_| unassigned()).collect(),
            appended: Vec::new(),
            violation: None,
            reached: Reached::default(),
        };
        for index in 0..NODES {
            cluster.nodes.push(Node {
                id: node_id(index),
                disk: SimulatedDisk::new(),
                process: None,
                heard: 0,
            });
        }
        (0..NODES).for_each(|index| cluster.start(index));
        (0..PARTITIONS).for_each(|number| cluster.assign(number, number % NODES));
        cluster
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.random.below(bound as u64)).expect("it is below")
    }

    /// Has `work` done on a node that runs, and its tasks have turns; takes the letters that come of it.
    fn on<T>(&mut self, index: usize, work: impl FnOnce(&Rc<Shard>) -> T) -> Option<T> {
        let process = self.nodes[index].process.as_ref()?;
        let turns = async {
            let outcome = work(&process.shard);
            for _ in 0..10 {
                yield_now().await;
            }
            outcome
        };
        let outcome = self.runtime.block_on(process.tasks.run_until(turns));
        let shard = process.shard.clone();
        for (to, letter) in shard.take_letters() {
            let leader = letter.way.as_ref().map(|way| way.leader);
            self.reached.relayed |= leader.is_some_and(|leader| leader != node_id(index));
            self.reached.filled |= fills_gaps(&letter);
            if let Some(link) = self.links.get_mut(&(index, index_of(to))) {
                link.messages.push_back(encoded(letter));
            }
        }
        for partition in shard.partitions.borrow().values() {
            let Role::Member(member) = &partition.role else {
                panic!("no partition is lone")
            };
            self.reached.based |= member.unsaved_base().is_some();
        }
        self.reached.crowded |= !shard.waiting.for_commit.borrow().is_empty();
        for (id, report) in shard.take_reports() {
            let replica = match report {
                Report::CaughtUp { replica, .. } => replica,
                // The seed chooses who leads.
                Report::Preferred { .. } => continue,
                Report::Settled { .. } => panic!("the replica set never changes"),
            };
            self.reached.healed = true;
            let number = usize::try_from(id.index).expect("a partition's");
            self.latest[number].uncertain.retain(|node| *node != replica);
            self.commands.push(Command::Certain(number, replica));
        }
        for append in &mut self.appended {
            if let Some(answer) = &mut append.answer
                && let Ok(outcome) = answer.try_recv()
            {
                append.answer = None;
                append.outcome = outcome.ok();
            }
        }
        Some(outcome)
    }

    fn start(&mut self, index: usize) {
        let node = &self.nodes[index];
        let (id, jobs, tasks, topics) = (node.id, Jobs::default(), LocalSet::new(), self.topics);
        let config = StoreConfig {
            identity: JournalIdentity {
                node: u32::try_from(id.0).expect("a node's").try_into().expect("small"),
                ..CONFIG.identity
            },
            journal: self.journal,
            ..CONFIG
        };
        let disk: Arc<dyn Disk> = Arc::new(node.disk.clone());
        let random = Random::seeded(self.random.split());
        let opened = Store::open(disk, random, config);
        let (store, recovered): (Store, Recovered) = match opened {
            Ok(opened) => opened,
            Err(fault) => {
                self.violation = Some(format!("node {} cannot start: {fault}", id.0));
                return;
            }
        };
        let settings = ShardSettings {
            node: id,
            producer_limits: ProducerLimits::default(),
            producer_bytes_max: 1 << 20,
            flush_on_core: false,
            memory_unflushed_bytes_max: 8_000,
            batch_limits: Limits::default(),
            disk_reserve_bytes: 0,
            catch_up_rate: 10 << 20,
            has_scribes: false,
        };
        let start = async {
            let threads = ShardThreads::start(&jobs, 0).expect("jobs need none");
            let clock = Arc::new(PausedClock(Instant::now()));
            let shard = Shard::new(0, settings, clock, TopicBook::of_topics(1), store, threads);
            let opened = (0..PARTITIONS).try_for_each(|number| {
                let id = partition(number);
                let found = recovered.partitions.iter().find(|found| found.id == id);
                shard.open_replica(id, topics[number], found)
            });
            prepare(&shard);
            shard.set_next_producer_id(ProducerId(i64::MAX));
            shard.start_serving();
            shard.start_examining();
            shard.start_flushing();
            shard.start_background();
            shard.start_replication();
            opened.map(|()| shard)
        };
        match self.runtime.block_on(tasks.run_until(start)) {
            Ok(shard) => self.nodes[index].process = Some(Process { shard, tasks, jobs }),
            Err(why) => self.violation = Some(format!("node {} cannot start: {why}", id.0)),
        }
        // The metadata is known up to a node's own start before links are served.
        self.nodes[index].heard = self.commands.len();
        for number in 0..PARTITIONS {
            let assignment = self.latest[number].clone();
            if assignment.epoch > NO_EPOCH {
                self.on(index, |shard| shard.assign(partition(number), assignment));
            }
        }
        for peer in (0..NODES).filter(|peer| *peer != index) {
            self.take_link(index, peer);
        }
        // Whoever believed in a process before this one does not any more.
        self.pass_time(u64::try_from(GRANT.as_millis()).expect("short") + 1);
    }

    /// Takes the link of two nodes anew: what was on its way is lost.
    fn take_link(&mut self, one: usize, other: usize) {
        for (from, to) in [(one, other), (other, one)] {
            self.links.remove(&(from, to));
        }
        if self.nodes[one].process.is_some() && self.nodes[other].process.is_some() {
            for (from, to) in [(one, other), (other, one)] {
                self.links.insert((from, to), Link::taken(self.nodes[from].id));
            }
            for (node, peer) in [(one, other), (other, one)] {
                let peer = self.nodes[peer].id;
                self.on(node, |shard| {
                    let shard = shard.clone();
                    turns::spawn(async move { shard.handle_link(peer, LINKED).await });
                });
            }
        }
    }

    fn crash(&mut self, index: usize) {
        let choice = self.random.next_u64();
        let node = &mut self.nodes[index];
        if node.process.take().is_some() {
            node.disk = node.disk.crash(choice);
            for peer in (0..NODES).filter(|peer| *peer != index) {
                self.take_link(index, peer);
            }
        }
    }

    /// Has a node come back with an empty disk, unless another one did and is not whole yet.
    fn lose_disk(&mut self, index: usize) {
        if self.latest.iter().all(|latest| latest.uncertain.is_empty()) {
            self.crash(index);
            let node = self.nodes[index].id;
            self.nodes[index].process = None;
            self.nodes[index].disk = SimulatedDisk::new();
            self.latest
                .iter_mut()
                .for_each(|latest| latest.uncertain.push(node));
            self.commands.push(Command::Doubt(node));
        }
    }

    /// Gives out the next epoch of a partition. Nodes hear of it one by one.
    fn assign(&mut self, number: usize, leader: usize) {
        let latest = &mut self.latest[number];
        latest.earlier = match latest.epoch > NO_EPOCH {
            true => vec![latest.configuration.clone()],
            false => Vec::new(),
        };
        latest.epoch = Epoch(latest.epoch.0 + 1);
        latest.leader = node_id(leader);
        self.commands.push(Command::Assign(number, latest.clone()));
    }

    fn hear(&mut self, index: usize) {
        let heard = self.nodes[index].heard;
        if let Some(command) = self.commands.get(heard).cloned() {
            let told = self.on(index, |shard| match command {
                Command::Assign(number, assignment) => shard.assign(partition(number), assignment),
                Command::Doubt(node) => {
                    (0..PARTITIONS).try_for_each(|number| shard.doubt(partition(number), node))
                }
                Command::Certain(number, node) => shard.certain(partition(number), node),
            });
            if let Some(told) = told {
                told.expect("all partitions are there");
                self.nodes[index].heard += 1;
            }
        }
    }

    fn deliver(&mut self, from: usize, to: usize) -> bool {
        let link = self.links.get_mut(&(from, to));
        let Some((message, link)) = link.and_then(|link| Some((link.messages.pop_front()?, link))) else {
            return false;
        };
        let sender = self.nodes[from].id;
        match link.decode(&message) {
            Ok(letter) => {
                self.on(to, |shard| shard.deliver(sender, letter));
            }
            Err(error) => self.violation = Some(format!("node {} has sent: {error}", sender.0)),
        }
        true
    }

    fn run_job(&mut self, index: usize) -> bool {
        let Some(process) = &self.nodes[index].process else {
            return false;
        };
        let jobs = process.jobs.clone();
        let flush_rests = self.flushes_are_slow && self.random.below(4) > 0;
        let layout_rests = self.layout_rests == Some(index);
        let random = &mut self.random;
        let ran = jobs.run_one(|busy| {
            let rests = |lane| (flush_rests && lane == FLUSH_LANE) || (layout_rests && lane == LAYOUT_LANE);
            let lanes: Vec<_> = busy.iter().copied().filter(|lane| !rests(*lane)).collect();
            let choice = usize::try_from(random.below(lanes.len().max(1) as u64)).expect("few");
            lanes.get(choice).copied()
        });
        self.on(index, |_| ());
        ran
    }

    fn append(&mut self, number: usize, index: usize) {
        let value = format!("{}:", self.appended.len());
        let padded = format!("{value:.<width$}", width = 200 + self.below(self.value_bytes_max));
        let (more, key) = (self.below(3), self.below(KEYS));
        let key = self.topics[number].compaction.map(|_| key.to_string());
        // Each from a producer of its own, or from none.
        let producer = i64::try_from(self.appended.len()).expect("few");
        let answer = self.on(index, |shard| {
            let mut builder = BatchBuilder::new(Compression::None);
            if producer % 2 == 0 {
                builder.set_producer(producer, 0, 0);
            }
            let key = key.as_deref().map(str::as_bytes);
            // Of a few keys nothing is left at times.
            let is_tombstone = key.is_some() && producer % 7 == 0;
            builder.append(0, key, Some(padded.as_bytes()), &[]);
            for _ in 0..more {
                let value = value.as_bytes();
                builder.append(0, key, Some(value).filter(|_| !is_tombstone), &[]);
            }
            let (request, answer) = AppendRequest::new(partition(number), builder.build(), Acks::Quorum);
            shard.append(request);
            answer
        });
        self.appended.push(Appended {
            partition: number,
            key,
            value: padded,
            answer,
            outcome: None,
        });
    }

    /// Has a node give up the first records, if it leads.
    fn trim(&mut self, number: usize, index: usize) {
        let kept = Offset(self.below(2 * self.appended.len() + 1) as i64);
        self.on(index, |shard| {
            let shard = shard.clone();
            turns::spawn(async move { shard.trim(partition(number), kept).await });
        });
    }

    /// Has a node lay out what it has, and compact its part of a partition that needs it, if one does.
    fn compact(&mut self, index: usize) {
        self.on(index, |shard| {
            let shard = shard.clone();
            shard.compact_replicated(ReplicatedCompaction::AllBut(None));
            shard.layout.want_all();
            shard.background.notify_one();
            turns::spawn(async move {
                if let Some((id, _)) = shard.compaction_need().await {
                    shard.compact(id, &|| MEANS).await;
                }
            });
        });
    }

    fn step(&mut self) {
        let (index, peer, number) = (self.below(NODES), self.below(NODES), self.below(PARTITIONS));
        match self.below(1_000) {
            0..400 => {
                self.run_job(index);
            }
            400..800 => {
                self.deliver(index, peer);
            }
            800..880 => {
                let leader = index_of(self.latest[number].leader);
                self.append(number, leader);
            }
            880..950 => self.hear(index),
            950..970 => self.pass_time(10),
            970..980 => self.compact(index),
            980..984 => self.assign(number, index),
            984..988 if index != peer => self.take_link(index, peer),
            988 => self.crash(index),
            989 => (0..NODES).for_each(|index| self.crash(index)),
            990..993 => self.trim(number, index),
            993 => self.lose_disk(index),
            994.. if self.nodes[index].process.is_none() => self.start(index),
            _ => {}
        }
    }

    fn pass_time(&mut self, ms: u64) {
        self.runtime.block_on(advance(Duration::from_millis(ms)));
        for index in 0..NODES {
            self.on(index, |_| ());
        }
    }

    /// Has nothing fail any more: a certain node leads each partition, and all replicas become equal.
    fn calm_down(&mut self) -> Result<(), String> {
        self.flushes_are_slow = false;
        for index in 0..NODES {
            if self.nodes[index].process.is_none() {
                self.start(index);
            }
        }
        let leaders = [0; PARTITIONS].map(|_| self.below(NODES));
        for (number, wanted) in leaders.into_iter().enumerate() {
            let in_doubt = self.latest[number].uncertain.contains(&node_id(wanted));
            let leader = if in_doubt { (wanted + 1) % NODES } else { wanted };
            self.assign(number, leader);
        }
        self.settle();
        for number in 0..PARTITIONS {
            // A batch of the last epoch commits everything before it.
            self.append(number, index_of(self.latest[number].leader));
            self.settle();
            let last = self.appended.last().and_then(|last| last.outcome);
            last.ok_or("the last epoch commits nothing")?;
            let in_doubt = &self.latest[number].uncertain;
            if !in_doubt.is_empty() {
                return Err(format!("{in_doubt:?} is in doubt for ever"));
            }
        }
        Ok(())
    }

    /// Has everything that is under way end, and all that was sent arrive.
    fn settle(&mut self) {
        let mut quiet = 0;
        let mut rounds = 0;
        while quiet < QUIET_ROUNDS {
            rounds += 1;
            if rounds > ROUNDS_MAX {
                self.violation = Some("there is no end".into());
                return;
            }
            let mut did = false;
            for index in 0..NODES {
                while self.nodes[index].process.is_some() && self.nodes[index].heard < self.commands.len() {
                    self.hear(index);
                }
                let mut jobs = 0;
                while self.run_job(index) {
                    jobs += 1;
                    if jobs > JOBS_MAX {
                        self.violation = Some(format!("node {index} works for ever"));
                        return;
                    }
                }
                did |= jobs > 0;
                for peer in 0..NODES {
                    while self.deliver(index, peer) {
                        did = true;
                    }
                }
            }
            self.pass_time(10);
            quiet = if did { 0 } else { quiet + 1 };
        }
    }

    /// The start of a partition's log on a node, and all its records.
    fn records_of(&mut self, index: usize, number: usize) -> Result<(Offset, Vec<Found>), String> {
        let process = self.nodes[index].process.as_ref().expect("nobody is away");
        let (shard, id) = (process.shard.clone(), partition(number));
        let bounds = shard.store.borrow().bounds(id);
        let (start, end) = bounds.ok_or("the partition is gone")?;
        let mut all = Vec::new();
        let mut next = start;
        while next < end {
            let reader = shard.clone();
            let reading = self.on(index, |_| {
                turns::spawn(async move { reader.read_batches(id, next, end, usize::MAX).await })
            });
            let reading = reading.expect("it runs");
            while !reading.is_finished() {
                self.run_job(index);
            }
            let read = self.runtime.block_on(reading).expect("no reader panics");
            let read = read.map_err(|error| error.to_string())?;
            for batch in read.iter().flat_map(|bytes| record::batches(bytes)) {
                let (header, bytes) = batch.expect("a read gives whole batches");
                let records = record::records(bytes, &Limits::default()).expect("they are sound");
                for record in records {
                    let record = record.expect("it is sound");
                    let text = |bytes: Bytes| String::from_utf8_lossy(&bytes).into_owned();
                    all.push((record.offset, record.key.map(text), record.value.map(text)));
                }
                next = header.next_offset();
            }
        }
        // The log may begin inside its first batch.
        all.retain(|(offset, ..)| *offset >= start);
        Ok((start, all))
    }

    /// The same of a log without gaps, and their values alone.
    fn log_of(&mut self, index: usize, number: usize) -> Result<(Offset, Vec<String>), String> {
        let (start, records) = self.records_of(index, number)?;
        let values = records.into_iter().map(|(.., value)| value.unwrap_or_default());
        Ok((start, values.collect()))
    }

    /// Checks that all replicas of a compacted partition have the same last record of each key, know of the same producers, and that what was
    /// acknowledged is where it was told or has a later record of its key.
    fn check_compacted(&mut self, number: usize) -> Result<(), String> {
        let logs = (0..NODES).map(|index| self.records_of(index, number));
        let logs = logs.collect::<Result<Vec<_>, _>>()?;
        // A trim that no quorum has heard of may be on one of them alone.
        let start = logs.iter().map(|(start, _)| *start).max();
        let start = start.expect("there are nodes");
        let mut first_table = None;
        for (index, (_, records)) in logs.into_iter().enumerate() {
            let mut table = BTreeMap::new();
            let at = |offset: Offset| records.iter().find(|(found, ..)| *found == offset);
            for (offset, key, value) in &records {
                table.insert(key.clone(), (*offset, value.clone()));
            }
            for append in self.appended.iter().filter(|append| append.partition == number) {
                let Some(first) = append.outcome.map(|outcome| outcome.first_offset) else {
                    continue;
                };
                let is_there = at(first).is_some_and(|(.., value)| value.as_ref() == Some(&append.value));
                let is_superseded =
                    at(first).is_none() && table.get(&append.key).is_some_and(|(last, _)| *last > first);
                if first >= start && !is_there && !is_superseded {
                    return Err(format!(
                        "node {index} has neither the value {:.8} at {} of partition {number} nor a later one of its key",
                        append.value, first.0
                    ));
                }
            }
            table.retain(|_, (offset, _)| *offset >= start);
            let first_table = first_table.get_or_insert_with(|| table.clone());
            if *first_table != table {
                return Err(format!(
                    "of partition {number}, node {index} has the table {table:?}, node 0 {first_table:?}"
                ));
            }
        }
        let known = (0..NODES)
            .map(|index| self.producers_of(index, number))
            .collect::<Vec<_>>();
        match known.iter().all(|producers| *producers == known[0]) {
            true => Ok(()),
            false => Err(format!(
                "of partition {number}, nodes know of other producers: {known:?}"
            )),
        }
    }

    /// The last batch of each producer, as a node would know them if it led. Of some only the name is left, whose batch was cut off.
    fn producers_of(&mut self, index: usize, number: usize) -> BTreeMap<ProducerId, Offset> {
        let snapshot = self.on(index, |shard| {
            let partitions = shard.partitions.borrow();
            partitions[&partition(number)]
                .role
                .snapshot(shard.clock.monotonic())
                .1
        });
        let bytes = snapshot.expect("nobody is away");
        let history = History::restore(Duration::ZERO, ProducerLimits::default(), &bytes);
        let history = history.expect("it was written just now");
        let producers = history.producers.iter();
        producers
            .filter_map(|(id, _, last)| Some((id, last?.first_offset)))
            .collect()
    }

    fn check(&mut self) -> Result<(), String> {
        self.calm_down()?;
        (0..PARTITIONS).try_for_each(|number| self.check_partition(number))
    }

    fn check_partition(&mut self, number: usize) -> Result<(), String> {
        if self.topics[number].compaction.is_some() {
            return self.check_compacted(number);
        }
        let logs = (0..NODES).map(|index| self.log_of(index, number));
        let logs = logs.collect::<Result<Vec<_>, _>>()?;
        // A trim that no quorum has heard of may be on one of them alone.
        let start = logs.iter().map(|(start, _)| *start).max();
        let start = start.expect("there are nodes");
        let from_start = |(own, values): (Offset, Vec<String>)| {
            let below = usize::try_from(start.0 - own.0).expect("it is no less");
            values.into_iter().skip(below).collect::<Vec<_>>()
        };
        let logs: Vec<_> = logs.into_iter().map(from_start).collect();
        let values = &logs[0];
        for (index, other) in logs.iter().enumerate() {
            let differs = values.iter().zip(other).position(|(one, other)| one != other);
            if other != values {
                return Err(format!(
                    "from {} of partition {number} on, node {index} holds {} records, node 0 {}; the first that differs: {differs:?}",
                    start.0,
                    other.len(),
                    values.len()
                ));
            }
        }
        for append in self.appended.iter().filter(|append| append.partition == number) {
            let Some(outcome) = append.outcome else { continue };
            let Ok(place) = usize::try_from(outcome.first_offset.0 - start.0) else {
                // It was given up.
                continue;
            };
            if values.get(place) != Some(&append.value) {
                return Err(format!(
                    "value {:.8} was acknowledged at {} of partition {number}, where there is {:.8}",
                    append.value,
                    outcome.first_offset.0,
                    values.get(place).map_or("nothing", String::as_str)
                ));
            }
        }
        Ok(())
    }
}

impl Link {
    /// A connection that was taken just now: the sender has said who it is.
    fn taken(sender: NodeId) -> Link {
        let own = Own {
            versions: WIRE_VERSIONS,
            cluster: CONFIG.identity.cluster,
            node: sender,
            directory: CONFIG.identity.directory,
            incarnation: 1,
            shards: 1,
            feature_level: FeatureLevel(1),
            cluster_level: FeatureLevel(1),
            image_offset: Offset::ZERO,
        };
        let mut link = Link {
            messages: VecDeque::new(),
            decoder: Decoder::new(MESSAGE_BYTES_MAX),
        };
        let hello = peer::Message::Hello(own.hello(ShardPair { from: 0, to: 0 }));
        assert_eq!(link.message(&hello.encode()), hello);
        link.decoder.handle_admitted(WIRE_VERSIONS.highest);
        link
    }

    fn message(&mut self, encoded: &Encoded) -> peer::Message {
        let mut received = BytesMut::from(&[&encoded.head[..], &encoded.batches[..]].concat()[..]);
        let message = self.decoder.next_message(&mut received);
        message.expect("it is sound").expect("it is whole")
    }

    fn decode(&mut self, encoded: &Encoded) -> Result<Letter, BatchesError> {
        let (way, partition, message) = match self.message(encoded) {
            peer::Message::Replica { partition, message } => (None, partition, message),
            peer::Message::Relay(relay) => (
                Some(relay.way),
                relay.partition,
                ReplicaMessage::Prompt(relay.prompt),
            ),
            _ => panic!("only replicas talk"),
        };
        let message = match message {
            ReplicaMessage::Prompt(prompt) => {
                let (prompt, batches) = prompt.read_facts()?;
                Message::Prompt(prompt, vec![batches])
            }
            ReplicaMessage::Sworn(sworn) => Message::Sworn(sworn),
        };
        Ok(Letter {
            way,
            ..Letter::new(partition, message)
        })
    }
}

/// Says whether a letter has batches that stand for others which are gone.
fn fills_gaps(letter: &Letter) -> bool {
    let Message::Prompt(_, batches) = &letter.message else {
        return false;
    };
    let mut headers = batches
        .iter()
        .flat_map(|bytes| record::batches(bytes))
        .map_while(Result::ok);
    headers.any(|(header, _)| header.record_count == 0)
}

fn encoded(letter: Letter) -> Encoded {
    let message = match letter.message {
        Message::Prompt(prompt, batches) => {
            ReplicaMessage::Prompt(prompt.with_bytes(batches.concat().into()))
        }
        Message::Sworn(sworn) => ReplicaMessage::Sworn(sworn),
    };
    let partition = letter.partition;
    let message = match (letter.way, message) {
        (Some(way), ReplicaMessage::Prompt(prompt)) => peer::Message::Relay(Relay {
            way,
            partition,
            prompt,
        }),
        (_, message) => peer::Message::Replica { partition, message },
    };
    message.encode()
}

/// Before the first epoch of a partition.
fn unassigned() -> Assignment {
    Assignment {
        epoch: NO_EPOCH,
        leader: node_id(0),
        configuration: Configuration {
            replicas: (0..NODES).map(node_id).collect(),
            ack_quorum: ACK_QUORUM,
        },
        earlier: Vec::new(),
        joining: Vec::new(),
        uncertain: Vec::new(),
    }
}

/// Runs a seed; gives the number of acknowledged appends and what was reached, or the violation.
fn run(seed: u64) -> Result<(usize, Reached), String> {
    let mut cluster = Cluster::new(seed);
    for _ in 0..STEPS {
        cluster.step();
        if let Some(violation) = cluster.violation.take() {
            return Err(violation);
        }
    }
    let checked = cluster.check();
    cluster.violation.map_or(checked, Err)?;
    let acknowledged = cluster.appended.iter().filter(|append| append.outcome.is_some());
    Ok((acknowledged.count(), cluster.reached))
}

#[test]
fn what_was_acknowledged_is_on_every_replica_whatever_fails() {
    let seeds = std::env::var("ROPEWALK_REPLICA_SEEDS").ok();
    let seeds = seeds.map_or(SEEDS, |seeds| seeds.parse().expect("a number of seeds"));
    let (mut appends, mut based, mut crowded, mut healed, mut relayed, mut filled) = (0, 0, 0, 0, 0, 0);
    for seed in (0..seeds).chain(FAILED) {
        let ran = run(seed);
        let (acknowledged, reached) = ran.unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        appends += acknowledged as u64;
        based += u64::from(reached.based);
        crowded += u64::from(reached.crowded);
        healed += u64::from(reached.healed);
        relayed += u64::from(reached.relayed);
        filled += u64::from(reached.filled);
    }
    assert!(
        appends > 10 * seeds,
        "{appends} appends of {seeds} seeds were acknowledged"
    );
    let reached = [based, crowded, healed, relayed, filled];
    assert!(
        !reached.contains(&0),
        "of the seeds, [based, crowded, healed, relayed, filled]: {reached:?}"
    );
}

/// The bytes of the messages that are on their way from one node to another.
fn on_their_way(cluster: &Cluster, from: usize, to: usize) -> usize {
    let messages = cluster.links[&(from, to)].messages.iter();
    messages.map(|message| message.batches.len()).sum()
}

/// Three nodes at rest, of which the first leads both partitions, which are sent along a chain.
fn chain() -> Cluster {
    let mut cluster = Cluster::new(1);
    cluster.topics = [true; 2].map(by_chain);
    for index in 0..NODES {
        cluster.crash(index);
        cluster.start(index);
    }
    (0..PARTITIONS).for_each(|number| cluster.assign(number, 0));
    cluster.settle();
    cluster
}

#[test]
fn along_a_chain_each_node_sends_the_bytes_once() {
    let mut cluster = chain();
    cluster.append(0, 0);
    let value_bytes = cluster.appended[0].value.len();
    let ways = |cluster: &Cluster| {
        [(0, 1), (0, 2), (1, 2)].map(|(from, to)| on_their_way(cluster, from, to) > value_bytes)
    };
    while !ways(&cluster)[0] {
        cluster.run_job(0);
        cluster.pass_time(1);
    }
    assert_eq!(ways(&cluster), [true, false, false]);
    // It is passed on before it is durable there.
    while !ways(&cluster)[2] {
        assert!(cluster.deliver(0, 1), "it is on its way");
    }
    assert_eq!(ways(&cluster), [false, false, true]);
    cluster.settle();
    assert!(cluster.appended[0].outcome.is_some());
    assert_eq!(cluster.check(), Ok(()));
}

/// While nodes are upgraded.
#[test]
fn a_node_that_passes_nothing_on_is_reached_by_the_leader_itself() {
    let mut cluster = chain();
    cluster.on(0, |shard| {
        let shard = shard.clone();
        let linked = Linked {
            relays: false,
            ..LINKED
        };
        turns::spawn(async move { shard.handle_link(node_id(1), linked).await });
    });
    cluster.settle();
    cluster.append(0, 0);
    let ways = |cluster: &Cluster| [(0, 1), (0, 2)].map(|(from, to)| on_their_way(cluster, from, to) > 0);
    while ways(&cluster) == [false, false] {
        cluster.run_job(0);
        cluster.pass_time(1);
    }
    assert_eq!(ways(&cluster), [true, true]);
    cluster.settle();
    assert_eq!(cluster.check(), Ok(()));
}

#[test]
fn what_is_lost_between_two_followers_comes_from_the_leader() {
    let mut cluster = chain();
    cluster.append(0, 0);
    while on_their_way(&cluster, 1, 2) == 0 {
        cluster.run_job(0);
        cluster.pass_time(1);
        cluster.deliver(0, 1);
    }
    let link = cluster.links.get_mut(&(1, 2)).expect("they are linked");
    link.messages.clear();
    // Nothing more is appended.
    cluster.settle();
    assert_eq!(cluster.log_of(2, 0), cluster.log_of(0, 0));
    assert!(cluster.appended[0].outcome.is_some());
}

/// Its disk is slow, or the one before it does not pass things on: nobody can tell, and it is waited for as without a chain.
#[test]
fn a_follower_that_stands_still_in_a_chain_counts_as_before() {
    let mut cluster = chain();
    let live = |cluster: &Cluster| {
        let process = cluster.nodes[0].process.as_ref().expect("nobody crashes");
        let partitions = process.shard.partitions.borrow();
        let Role::Member(member) = &partitions[&partition(0)].role else {
            panic!("no partition is lone")
        };
        member.replica.live_followers().count()
    };
    cluster.append(0, 0);
    for _ in 0..300 {
        // The last one flushes nothing.
        [0, 1]
            .into_iter()
            .for_each(|index| while cluster.run_job(index) {});
        for (from, to) in [(0, 1), (1, 0), (0, 2), (1, 2), (2, 0)] {
            while cluster.deliver(from, to) {}
        }
        cluster.pass_time(10);
        assert_eq!(live(&cluster), 2);
    }
    cluster.settle();
    assert_eq!(cluster.check(), Ok(()));
}

/// It is about an epoch that the metadata has not told of here yet.
#[test]
fn a_fence_ends_a_leader_that_does_not_know_its_own_next_epoch() {
    let mut cluster = Cluster::new(1);
    cluster.settle();
    let epoch = cluster.latest[0].epoch;
    let leads = |cluster: &Cluster| {
        let process = cluster.nodes[0].process.as_ref().expect("nobody crashes");
        process.shard.partitions.borrow()[&partition(0)]
            .role
            .open_leader()
            .is_ok()
    };
    assert!(leads(&cluster));
    let refusal = Refusal::Fenced {
        floor: Epoch(epoch.0 + 2),
    };
    let epoch = Epoch(epoch.0 + 1);
    let prompt = Prompt::Refused { epoch, refusal };
    cluster.on(0, |shard| {
        let letter = Letter::new(partition(0), Message::Prompt(prompt, Vec::new()));
        shard.deliver(node_id(1), letter);
    });
    assert!(!leads(&cluster));
}

#[test]
fn what_is_lost_with_a_follower_comes_from_the_leader() {
    let mut cluster = chain();
    cluster.append(0, 0);
    while on_their_way(&cluster, 0, 1) == 0 {
        cluster.run_job(0);
        cluster.pass_time(1);
    }
    cluster.crash(1);
    cluster.on(0, |shard| {
        let shard = shard.clone();
        turns::spawn(async move { shard.handle_link_lost(node_id(1), true).await });
    });
    // Long before the next look.
    for _ in 0..20 {
        [0, 2]
            .into_iter()
            .for_each(|index| while cluster.run_job(index) {});
        while cluster.deliver(0, 2) || cluster.deliver(2, 0) {}
        cluster.pass_time(5);
    }
    assert!(
        cluster.appended[0].outcome.is_some(),
        "the two others are a quorum"
    );
    assert_eq!(cluster.log_of(2, 0), cluster.log_of(0, 0));
}

#[test]
fn a_message_that_leaves_before_its_flush_is_found() {
    let found = with(Bug::SwornBeforeFlush, || {
        (0..10 * SEEDS).any(|seed| run(seed).is_err())
    });
    assert!(found, "it is found by no seed");
}

/// Each by its seed; where that does not find it any more, by another one.
#[test]
fn what_goes_wrong_with_gaps_is_found() {
    for (bug, seed) in [
        (Bug::GapsNotFilled, 6),
        (Bug::GapsOfNobody, 6),
        (Bug::TombstonesGoEverywhere, 65),
    ] {
        let mut seeds = std::iter::once(seed).chain(0..20 * SEEDS);
        let found = with(bug, || seeds.any(|seed| run(seed).is_err()));
        assert!(found, "{bug:?} is found by no seed");
    }
}

/// One that was filled where nothing was left of several batches, and leads: another one's log ends between two of them.
#[test]
fn the_middle_of_anothers_gap_is_filled() {
    let go_on = || {
        let mut cluster = Cluster::new(0);
        // Many batches to a segment.
        cluster.value_bytes_max = 1;
        cluster.assign(1, 0);
        cluster.settle();
        let append = |cluster: &mut Cluster| {
            // Every other append is nobody's: of those in the compacted partition nothing is remembered.
            (0..2).for_each(|number| cluster.append(number, 0));
            cluster.settle();
        };
        (0..3).for_each(|_| append(&mut cluster));
        cluster.crash(1);
        (0..200).for_each(|_| append(&mut cluster));
        cluster.compact(0);
        cluster.settle();
        cluster.lose_disk(2);
        cluster.start(2);
        cluster.settle();
        assert!(cluster.reached.filled, "a replica is sent a log with gaps");
        cluster.crash(0);
        cluster.assign(1, 2);
        cluster.start(1);
        cluster.settle();
        let end = |cluster: &mut Cluster, index| {
            let bounds = cluster.on(index, |shard| shard.store.borrow().bounds(partition(1)));
            bounds.expect("it runs").expect("it is there").1
        };
        assert_eq!(cluster.appended.len(), 2 * 203);
        cluster.violation.is_none() && end(&mut cluster, 1) == end(&mut cluster, 2)
    };
    assert!(!with(Bug::EmptyBatchesSentOn, go_on));
    assert!(go_on());
}

#[test]
fn a_follower_whose_journal_is_full_goes_on_when_there_is_room() {
    let mut cluster = Cluster::new(0);
    cluster.settle();
    cluster.layout_rests = Some(1);
    let waits = |cluster: &Cluster| {
        let process = cluster.nodes[1].process.as_ref().expect("nobody crashes");
        process.shard.replication.defers(partition(0))
    };
    while !waits(&cluster) {
        cluster.append(0, 0);
        cluster.settle();
        let appended = cluster.appended.last().expect("one");
        assert!(appended.outcome.is_some(), "the two others are a quorum");
    }
    cluster.append(0, 0);
    cluster.layout_rests = None;
    cluster.settle();
    assert!(!waits(&cluster));
    assert_eq!(cluster.check(), Ok(()));
}

/// All of them are true at once: a leader hears its own word about each.
#[test]
fn a_flush_of_very_many_batches_is_heard_of_in_one_loop() {
    let mut cluster = Cluster::new(1);
    cluster.settle();
    let answers = cluster.on(0, |shard| {
        let append = |number: usize| {
            let mut builder = BatchBuilder::new(Compression::None);
            builder.append(0, None, Some(number.to_string().as_bytes()), &[]);
            let (request, answer) = AppendRequest::new(partition(0), builder.build(), Acks::Quorum);
            shard.append(request);
            answer
        };
        (0..1_500).map(append).collect::<Vec<_>>()
    });
    cluster.settle();
    let mut answers = answers.expect("nobody crashes");
    let mut acknowledged = answers.iter_mut().map(|answer| answer.try_recv());
    assert!(acknowledged.all(|answer| matches!(answer, Ok(Ok(_)))));
}

#[test]
fn a_journal_that_dies_with_replicas_is_told_of() {
    let mut cluster = Cluster::new(1);
    cluster.settle();
    let is_dead = |cluster: &mut Cluster| cluster.on(0, |shard| shard.until_dead().now_or_never().is_some());
    assert_eq!(is_dead(&mut cluster), Some(false));
    cluster.nodes[0].disk.fail_when(|call| {
        let fails = call.kind == OperationKind::WriteDurable;
        fails.then_some(FaultKind::Error {
            errno: 5,
            applied: Applied::Nothing,
        })
    });
    cluster.append(0, 0);
    cluster.settle();
    assert_eq!(is_dead(&mut cluster), Some(true));
}

#[test]
fn a_checkpoint_has_the_vows_that_were_made_after_its_snapshots() {
    fn promised() -> Option<Epoch> {
        let mut cluster = Cluster::new(2);
        cluster.settle();
        cluster.append(0, 0);
        cluster.settle();
        cluster.assign(0, 1);
        let assignment = cluster.latest[0].clone();
        let taken = cluster.on(1, |shard| {
            let mut snapshots = shard.take_snapshots().now_or_never().expect("it takes one turn");
            shard.assign(partition(0), assignment).expect("it is here");
            let (partitions, now) = (shard.partitions.borrow(), shard.clock.monotonic());
            snapshots
                .take(partition(0), &partitions[&partition(0)].role, now)
                .0
        });
        let vows = History::vows_in(&taken.expect("it runs"));
        vows.expect("it is sound").promised
    }
    assert_eq!(promised(), Some(Epoch(1)));
    assert_eq!(with(Bug::VowOvertakesSnapshot, promised), Some(Epoch(0)));
}

#[test]
fn a_lost_disk_is_filled_again_with_more_than_its_journal_holds() {
    let mut cluster = Cluster::new(0);
    cluster.settle();
    cluster.lose_disk(2);
    let mut bytes = 0;
    while bytes < 2 * SMALL_JOURNAL.file_bytes * u64::try_from(SMALL_JOURNAL.files_max).expect("few") {
        cluster.append(0, 0);
        cluster.settle();
        let appended = cluster.appended.last().expect("one");
        assert!(appended.outcome.is_some(), "the two others are a quorum");
        bytes += appended.value.len() as u64;
    }
    cluster.start(2);
    // Nothing new is appended: what it is sent has to be committed as it comes.
    cluster.settle();
    let (filled, full) = (cluster.log_of(2, 0), cluster.log_of(0, 0));
    assert_eq!(
        filled.map(|(_, values)| values.len()),
        full.map(|(_, values)| values.len())
    );
    assert_eq!(cluster.check(), Ok(()));
}

#[test]
fn a_replica_that_was_away_for_long_leads_though_its_journal_does_not_hold_what_it_lacks() {
    let lacks = || {
        let mut cluster = Cluster::new(0);
        cluster.settle();
        cluster.crash(2);
        let mut bytes = 0;
        while bytes < 2 * SMALL_JOURNAL.file_bytes * u64::try_from(SMALL_JOURNAL.files_max).expect("few") {
            cluster.append(0, 0);
            cluster.settle();
            bytes += cluster.appended.last().expect("one").value.len() as u64;
        }
        cluster.crash(0);
        cluster.start(2);
        cluster.assign(0, 2);
        cluster.settle();
        let mut count = |node| cluster.log_of(node, 0).expect("it is read").1.len();
        count(1) - count(2)
    };
    assert!(
        with(Bug::CopiedIsUncommitted, lacks) > 0,
        "its journal would hold all"
    );
    assert_eq!(lacks(), 0);
}

/// Clients may have a log begin at any offset, and a batch is copied whole.
#[test]
fn a_lost_disk_is_filled_from_a_log_that_begins_inside_a_batch() {
    let journal_bytes = SMALL_JOURNAL.file_bytes * u64::try_from(SMALL_JOURNAL.files_max).expect("few");
    let fill = |bytes_min: u64| {
        let mut cluster = Cluster::new(0);
        cluster.settle();
        let mut inside = None;
        let mut bytes = 0;
        while inside.is_none() || bytes < bytes_min {
            cluster.append(0, 0);
            cluster.settle();
            let appended = cluster.appended.last().expect("one");
            let outcome = appended.outcome.expect("all are there");
            bytes += appended.value.len() as u64;
            let end = cluster.log_of(0, 0).expect("it is read").1.len();
            let second = Offset(outcome.first_offset.0 + 1);
            inside = inside.or((second < Offset(end as i64)).then_some(second));
        }
        let inside = inside.expect("a batch of several records");
        cluster.on(0, |shard| {
            let shard = shard.clone();
            turns::spawn(async move { shard.trim(partition(0), inside).await });
        });
        cluster.settle();
        cluster.lose_disk(2);
        cluster.start(2);
        cluster.settle();
        let (filled, full) = (cluster.log_of(2, 0), cluster.log_of(0, 0));
        assert_eq!(full.as_ref().map(|(start, _)| *start), Ok(inside));
        filled == full
    };
    for bytes_min in [0, 2 * journal_bytes] {
        assert!(!with(Bug::BeginsInsideBatch, || fill(bytes_min)));
        assert!(fill(bytes_min));
    }
}
