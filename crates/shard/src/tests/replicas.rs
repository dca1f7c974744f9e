//! Three shards on simulated disks with one partition: a seed says which job ends, which letter arrives, who crashes and who leads.
//!
//! Whatever happens, what a producer was told stays where it was told, and at the end all replicas hold the same.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use planted::{Bug, with};
use platform::random::SeededRandom;
use platform::turns;
use platform::work::{Job, Queue, Work};
use protocol::History;
use protocol::replica::{Assignment, Configuration};
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;
use tokio::time::advance;

use storage::Recovered;

use super::*;

const NODES: usize = 3;
const ACK_QUORUM: usize = 2;
const STEPS: usize = 3_000;
/// The lane that segments and checkpoints are written in: the third that a shard begins.
const LAYOUT_LANE: usize = 2;
/// Rounds of time without a job or a letter after which nothing more comes: no task waits so long.
const QUIET_ROUNDS: usize = 20;
const SEEDS: u64 = 60;
const SMALL_JOURNAL: JournalSizes = JournalSizes {
    file_bytes: 256 << 10,
    files_max: 3,
};
const SHARED: PartitionId = PartitionId {
    topic: TopicId([3; 16]),
    index: 0,
};

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
    /// The number of assignments that it has heard of.
    heard: usize,
}

/// An append whose producer waits, or the offset that it was told.
struct Appended {
    value: String,
    answer: Option<AppendAnswer>,
    outcome: Option<AppendOutcome>,
}

struct Cluster {
    random: SeededRandom,
    runtime: Runtime,
    journal: JournalSizes,
    value_bytes_max: usize,
    /// The node that writes no segments.
    layout_rests: Option<usize>,
    nodes: Vec<Node>,
    links: BTreeMap<(usize, usize), VecDeque<Letter>>,
    assignments: Vec<Assignment>,
    appended: Vec<Appended>,
    violation: Option<String>,
    reached: Reached,
}

/// The states that runs are to pass through.
#[derive(Debug, Default, Clone, Copy)]
struct Reached {
    /// A log was made to begin elsewhere, and no checkpoint knew of it.
    based: bool,
    /// An append waited for what was not committed.
    crowded: bool,
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
        let mut cluster = Cluster {
            random: SeededRandom::new(seed),
            runtime: runtime.expect("it needs nothing"),
            journal,
            value_bytes_max,
            layout_rests: None,
            nodes: Vec::new(),
            links: BTreeMap::new(),
            assignments: Vec::new(),
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
        cluster.assign(0);
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
        for (to, letter) in process.shard.take_letters() {
            let link = self.links.entry((index, index_of(to))).or_default();
            link.push_back(letter);
        }
        if let Some(Role::Member(member)) = process.shard.partitions.borrow().get(&SHARED).map(|of| &of.role)
        {
            self.reached.based |= member.unsaved_base().is_some();
        }
        self.reached.crowded |= !process.shard.waiting.for_commit.borrow().is_empty();
        for (_, report) in process.shard.take_reports() {
            assert!(
                !matches!(report, Report::Settled { .. }),
                "the replica set never changes"
            );
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
        let (id, jobs, tasks) = (node.id, Jobs::default(), LocalSet::new());
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
        };
        let start = async {
            let threads = ShardThreads::start(&jobs, 0).expect("jobs need none");
            let clock = Arc::new(SystemClock::new());
            let shard = Shard::new(0, settings, clock, TopicBook::of_topics(1), store, threads);
            let found = recovered.partitions.iter().find(|found| found.id == SHARED);
            let opened = shard.open_replica(SHARED, topic("fsync"), found);
            prepare(&shard);
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
        self.nodes[index].heard = self.nodes[index].heard.saturating_sub(1);
        // The metadata is known up to a node's own start before links are served.
        while self.nodes[index].heard < self.assignments.len() {
            self.hear(index);
        }
        for peer in (0..NODES).filter(|peer| *peer != index) {
            self.take_link(index, peer);
        }
    }

    /// Takes the link of two nodes anew: what was on its way is lost.
    fn take_link(&mut self, one: usize, other: usize) {
        for (from, to) in [(one, other), (other, one)] {
            self.links.remove(&(from, to));
        }
        if self.nodes[one].process.is_some() && self.nodes[other].process.is_some() {
            for (node, peer) in [(one, other), (other, one)] {
                let peer = self.nodes[peer].id;
                self.on(node, |shard| shard.handle_link(peer));
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

    /// Gives out the next epoch. Nodes hear of it one by one.
    fn assign(&mut self, leader: usize) {
        let configuration = Configuration {
            replicas: (0..NODES).map(node_id).collect(),
            ack_quorum: ACK_QUORUM,
        };
        let earlier = match self.assignments.is_empty() {
            true => Vec::new(),
            false => vec![configuration.clone()],
        };
        self.assignments.push(Assignment {
            epoch: Epoch(i32::try_from(self.assignments.len()).expect("few")),
            leader: node_id(leader),
            configuration,
            earlier,
            joining: Vec::new(),
            uncertain: Vec::new(),
        });
    }

    fn hear(&mut self, index: usize) {
        let heard = self.nodes[index].heard;
        if let Some(assignment) = self.assignments.get(heard).cloned() {
            let told = self.on(index, |shard| shard.assign(SHARED, assignment));
            self.nodes[index].heard += usize::from(told.is_some());
        }
    }

    fn deliver(&mut self, from: usize, to: usize) -> bool {
        let letter = self.links.get_mut(&(from, to)).and_then(VecDeque::pop_front);
        let Some(letter) = letter else { return false };
        let sender = self.nodes[from].id;
        self.on(to, |shard| shard.deliver(sender, letter));
        true
    }

    fn run_job(&mut self, index: usize) -> bool {
        let Some(process) = &self.nodes[index].process else {
            return false;
        };
        let jobs = process.jobs.clone();
        let (random, rests) = (&mut self.random, self.layout_rests == Some(index));
        let ran = jobs.run_one(|busy| {
            let lanes = busy
                .iter()
                .copied()
                .filter(|lane| !(rests && *lane == LAYOUT_LANE));
            let lanes: Vec<_> = lanes.collect();
            let choice = usize::try_from(random.below(lanes.len().max(1) as u64)).expect("few");
            lanes.get(choice).copied()
        });
        self.on(index, |_| ());
        ran
    }

    fn append(&mut self, index: usize) {
        let value = format!("{}:", self.appended.len());
        let padded = format!("{value:.<width$}", width = 200 + self.below(self.value_bytes_max));
        let answer = self.on(index, |shard| {
            let mut builder = BatchBuilder::new(Compression::None);
            builder.append(0, None, Some(padded.as_bytes()), &[]);
            let (request, answer) = AppendRequest::new(SHARED, builder.build(), Acks::Quorum);
            shard.append(request);
            answer
        });
        self.appended.push(Appended {
            value: padded,
            answer,
            outcome: None,
        });
    }

    /// Has a node give up the first records, if it leads.
    fn trim(&mut self, index: usize) {
        let kept = Offset(self.below(self.appended.len() + 1) as i64);
        self.on(index, |shard| {
            let shard = shard.clone();
            turns::spawn(async move { shard.trim(SHARED, kept).await });
        });
    }

    fn step(&mut self) {
        let (index, peer) = (self.below(NODES), self.below(NODES));
        match self.below(1_000) {
            0..400 => {
                self.run_job(index);
            }
            400..800 => {
                self.deliver(index, peer);
            }
            800..880 => {
                let latest = self.assignments.last().expect("there is one");
                self.append(index_of(latest.leader));
            }
            880..950 => self.hear(index),
            950..980 => self.pass_time(10),
            980..984 => self.assign(index),
            984..988 if index != peer => self.take_link(index, peer),
            988..990 => self.crash(index),
            990 => (0..NODES).for_each(|index| self.crash(index)),
            991..994 => self.trim(index),
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

    /// Nothing fails any more: a node leads, and all replicas become equal.
    fn calm_down(&mut self) -> Result<Vec<(Offset, Vec<String>)>, String> {
        (0..NODES)
            .filter(|index| self.nodes[*index].process.is_none())
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|index| self.start(index));
        let leader = self.below(NODES);
        self.assign(leader);
        self.settle();
        // A batch of the last epoch commits everything before it.
        self.append(leader);
        self.settle();
        let last = self.appended.last().and_then(|last| last.outcome);
        last.ok_or("the last epoch commits nothing")?;
        (0..NODES).map(|index| self.log_of(index)).collect()
    }

    /// Has everything that is under way end, and all that was sent arrive.
    fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < QUIET_ROUNDS {
            let mut did = false;
            for index in 0..NODES {
                self.hear(index);
                while self.run_job(index) {
                    did = true;
                }
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

    /// The start of a node's log, and the values of all its records.
    fn log_of(&mut self, index: usize) -> Result<(Offset, Vec<String>), String> {
        let shard = self.nodes[index]
            .process
            .as_ref()
            .map(|process| process.shard.clone());
        let shard = shard.ok_or_else(|| format!("node {index} does not run"))?;
        let bounds = shard.store.borrow().bounds(SHARED);
        let (start, end) = bounds.ok_or("the partition is gone")?;
        let mut values = Vec::new();
        let mut next = start;
        while next < end {
            let reader = shard.clone();
            let mut reading = self.on(index, |_| {
                turns::spawn(async move { reader.read_batches(SHARED, next, end, usize::MAX).await })
            });
            while reading.as_ref().is_some_and(|reading| !reading.is_finished()) {
                self.run_job(index);
            }
            let reading = reading.take().ok_or("it runs")?;
            let read = self
                .runtime
                .block_on(reading)
                .map_err(|error| error.to_string())?;
            let read = read.map_err(|error| error.to_string())?;
            for batch in read.iter().flat_map(|bytes| record::batches(bytes)) {
                let (header, bytes) = batch.map_err(|error| error.to_string())?;
                for record in record::records(bytes, &Limits::default()).map_err(|error| error.to_string())? {
                    let record = record.map_err(|error| error.to_string())?;
                    let value = record.value.unwrap_or_default();
                    values.push(String::from_utf8_lossy(&value).into_owned());
                }
                next = header.next_offset();
            }
        }
        Ok((start, values))
    }

    fn check(&mut self) -> Result<(), String> {
        let mut logs = self.calm_down()?;
        // A trim that no quorum has heard of may be on one of them alone.
        let start = logs
            .iter()
            .map(|(start, _)| *start)
            .max()
            .expect("there are nodes");
        for (own, values) in &mut logs {
            values.drain(
                ..usize::try_from(start.0 - own.0)
                    .expect("it is no less")
                    .min(values.len()),
            );
        }
        for (index, (_, values)) in logs.iter().enumerate() {
            let differs = logs[0].1.iter().zip(values).position(|(one, other)| one != other);
            if *values != logs[0].1 {
                return Err(format!(
                    "from {} on, node {index} holds {} records, node 0 {}; the first that differs: {differs:?}",
                    start.0,
                    values.len(),
                    logs[0].1.len()
                ));
            }
        }
        let values = &logs[0].1;
        for append in &self.appended {
            let Some(outcome) = append.outcome else { continue };
            let Ok(place) = usize::try_from(outcome.first_offset.0 - start.0) else {
                // It was given up.
                continue;
            };
            if values.get(place) != Some(&append.value) {
                return Err(format!(
                    "value {:.8} was acknowledged at {}, where there is {:.8}",
                    append.value,
                    outcome.first_offset.0,
                    values.get(place).map_or("nothing", String::as_str)
                ));
            }
        }
        Ok(())
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
    cluster.check()?;
    let acknowledged = cluster.appended.iter().filter(|append| append.outcome.is_some());
    Ok((acknowledged.count(), cluster.reached))
}

#[test]
fn what_was_acknowledged_is_on_every_replica_whatever_fails() {
    let seeds = std::env::var("ROPEWALK_REPLICA_SEEDS").ok();
    let seeds = seeds.map_or(SEEDS, |seeds| seeds.parse().expect("a number of seeds"));
    let (mut appends, mut based, mut crowded) = (0, 0, 0);
    for seed in 0..seeds {
        let ran = run(seed);
        let (acknowledged, reached) = ran.unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        appends += acknowledged as u64;
        based += u64::from(reached.based);
        crowded += u64::from(reached.crowded);
    }
    assert!(appends > 10 * seeds, "{appends} appends were acknowledged");
    assert!(based > 0 && crowded > 0, "{based} based, {crowded} crowded");
}

#[test]
fn a_message_that_leaves_before_its_flush_is_found() {
    let found = with(Bug::SwornBeforeFlush, || {
        (0..SEEDS).any(|seed| run(seed).is_err())
    });
    assert!(found, "it is found by no seed");
}

#[test]
fn a_follower_whose_journal_is_full_goes_on_when_there_is_room() {
    let mut cluster = Cluster::new(0);
    cluster.settle();
    cluster.layout_rests = Some(1);
    let is_stalled = |cluster: &Cluster| {
        let process = cluster.nodes[1].process.as_ref().expect("nobody crashes");
        let partitions = process.shard.partitions.borrow();
        matches!(&partitions[&SHARED].role, Role::Member(member) if member.is_stalled())
    };
    while !is_stalled(&cluster) {
        cluster.append(0);
        cluster.settle();
        let appended = cluster.appended.last().expect("one");
        assert!(appended.outcome.is_some(), "the two others are a quorum");
    }
    cluster.append(0);
    cluster.layout_rests = None;
    cluster.settle();
    assert!(!is_stalled(&cluster));
    assert_eq!(cluster.check(), Ok(()));
}

#[test]
fn a_checkpoint_has_the_vows_that_were_made_after_its_snapshots() {
    fn promised() -> Option<Epoch> {
        let mut cluster = Cluster::new(1);
        cluster.settle();
        cluster.append(0);
        cluster.settle();
        cluster.assign(1);
        let assignment = cluster.assignments[1].clone();
        let taken = cluster.on(1, |shard| {
            let mut snapshots = shard.take_snapshots().now_or_never().expect("it takes one turn");
            shard.assign(SHARED, assignment).expect("it is here");
            let (partitions, now) = (shard.partitions.borrow(), shard.clock.monotonic());
            snapshots.take(SHARED, &partitions[&SHARED].role, now).0
        });
        let vows = History::vows_in(&taken.expect("it runs"));
        vows.expect("it is sound").promised
    }
    assert_eq!(promised(), Some(Epoch(1)));
    assert_eq!(with(Bug::VowOvertakesSnapshot, promised), Some(Epoch(0)));
}
