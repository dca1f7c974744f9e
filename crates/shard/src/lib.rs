//! A shard: one journal with the partitions that write to it, owned by one core.
//!
//! Here the pure leader and the store meet: the leader numbers, the store stages, a flush makes durable, the leader says
//! what is committed, and whoever waits is answered. Everything runs on the owning core; only jobs leave it.

// What is decided must not depend on the order of a hash map, which differs from run to run.
#![cfg_attr(not(test), deny(clippy::iter_over_hash_type))]

mod answered;
mod append;
mod background;
mod compaction;
mod examinations;
mod flush;
mod partition;
mod producer_room;
mod read;
mod replay;
mod snapshots;
mod topic_counters;
mod troubles;
mod waiting_room;
mod watcher;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use planted::{Bug, planted};
use platform::clock::Clock;
use platform::counters::{Counter, Histogram};
use platform::slices::Slices;
use protocol::leader::NodeId;
use protocol::metadata::TopicSettings;
use protocol::{Found, Leader, LeaderState, ProducerId, ProducerLimits};
use record::{Epoch, Offset, PartitionId, whole_ms};
use storage::{AgeLimit, RecoveredPartition, StageError, Store};
use tokio::sync::Notify;

pub use append::{
    Acks, Allowance, AppendAnswer, AppendOutcome, AppendRefusal, AppendRequest, BadRecord, BadRecords,
    DiskShortage,
};
pub use background::ShardThreads;
use background::{Layout, Removals};
use compaction::CompactionCounters;
pub use compaction::{CompactionFigures, CompactionMeans};
use examinations::Examinations;
use flush::Flushing;
pub(crate) use partition::Partition;
use producer_room::ProducerRoom;
pub use read::{ReadRefusal, ReadRequest, ReadResult, Watch};
pub use replay::{ReplayError, replay_batches};
pub use topic_counters::{TopicBook, TopicCounters};
use troubles::Troubles;
pub use troubles::Work;
use waiting_room::WaitingRooms;
pub use watcher::Watcher;

/// Partitions that are looked after before others have their turn.
const LOOKED_AFTER_IN_ONE_TURN: usize = 1_000;
/// Deletions that the journal had no room for and that are tried again together.
const DELETED_AGAIN_AT_ONCE: usize = 1_000;

/// What a shard needs to know of its node.
pub struct ShardSettings {
    /// The node that leads here.
    pub node: NodeId,
    /// Bounds on what each partition remembers of its producers.
    pub producer_limits: ProducerLimits,
    /// Memory for the producers of all partitions.
    pub producer_bytes_max: usize,
    /// Whether small flushes may run on the core's thread.
    pub flush_on_core: bool,
    /// The most bytes that topics in memory are answered before their flush. Behind that, their producers wait for it.
    pub memory_unflushed_bytes_max: usize,
    /// Bounds on what a batch may make its checker do.
    pub batch_limits: record::Limits,
}

/// Counters of one shard; read by the metrics of its core.
#[derive(Default)]
pub struct ShardCounters {
    /// Times from the beginning of a flush to its end.
    pub flush_latency: Histogram,
    /// Bytes that flushes wrote.
    pub flushed_bytes: Counter,
    /// Batches that were staged.
    pub appended_batches: Counter,
    /// Those of them whose bytes are in the journal as they came.
    pub batches_in_place: Counter,
    /// Their records.
    pub appended_records: Counter,
    /// Their bytes.
    pub appended_bytes: Counter,
    /// Bytes that reads have found.
    pub read_bytes: Counter,
    /// Reads that memory could not answer.
    pub disk_reads: Counter,
    /// Rounds of layout that ended with a checkpoint, written or not.
    pub layout_rounds: Counter,
    /// Failures of the disk, and damage.
    pub faults: Counter,
    pub(crate) compaction: CompactionCounters,
    /// Counts of retention by age.
    pub by_age: RetentionCounters,
    /// Counts of retention by size.
    pub by_size: RetentionCounters,
}

/// Counts what retention has deleted for one reason.
#[derive(Default)]
pub struct RetentionCounters {
    /// Each of one partition.
    pub trims: Counter,
    /// Records that went.
    pub records: Counter,
    /// Bytes that went.
    pub bytes: Counter,
}

impl RetentionCounters {
    fn note(&self, trimmed: &Trimmed) {
        self.trims.add(1);
        self.records.add((trimmed.next.0 - trimmed.first.0) as u64);
        self.bytes.add(trimmed.bytes);
    }
}

/// The configs by which retention takes records.
pub const BY_AGE: &str = "retention.ms";
/// See `BY_AGE`.
pub const BY_SIZE: &str = "retention.bytes";

/// Where a shard stands in its node's life. Only a serving one accepts clients' appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Starting,
    Serving,
    Draining,
}

/// The records that were given up of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trimmed {
    /// The first offset that was there.
    pub first: Offset,
    /// The first offset that is kept.
    pub next: Offset,
    /// Bytes of segments and the journal, as far as they are counted to the partition.
    pub bytes: u64,
}

/// The records that retention has deleted of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outlived {
    /// The records.
    pub trimmed: Trimmed,
    /// The config that says so.
    pub config: &'static str,
}

/// One journal with its partitions: see the crate.
pub struct Shard {
    /// The shard's number on its node.
    pub index: usize,
    /// Settings that its node handed it.
    pub settings: ShardSettings,
    /// The clock that it was handed.
    pub clock: Arc<dyn Clock>,
    /// What it has counted since the start.
    pub counters: ShardCounters,
    topic_book: Rc<TopicBook>,
    store: RefCell<Store>,
    /// Each in its own place: a table that grows moves what is in it, all in one turn.
    partitions: RefCell<HashMap<PartitionId, Box<Partition>>>,
    producer_room: ProducerRoom,
    /// Appends that come before all that wait for room.
    examinations: Examinations,
    /// Appends that wait for room.
    waiting: WaitingRooms,
    flushing: Flushing,
    layout: Layout,
    removals: Removals,
    /// Partitions whose compaction failed, and until when they are left alone.
    compaction_rests: RefCell<HashMap<PartitionId, Duration>>,
    /// Something was read ahead.
    read_ahead: Notify,
    /// The next journal file may have to be prepared.
    file_is_wanted: Notify,
    /// Background work may be due.
    background: Notify,
    troubles: Troubles,
    /// When all partitions' tails were marked last.
    tails_marked: Cell<Option<Duration>>,
    /// The disk has less than its reserve left: appends are refused.
    disk_shortage: Cell<Option<DiskShortage>>,
    phase: Cell<Phase>,
    threads: ShardThreads,
}

impl Shard {
    /// A shard over a store that was recovered. Nothing runs before `start_flushing` and `start_background`.
    pub fn new(
        index: usize,
        settings: ShardSettings,
        clock: Arc<dyn Clock>,
        topic_book: Rc<TopicBook>,
        store: Store,
        threads: ShardThreads,
    ) -> Rc<Shard> {
        let began = clock.monotonic();
        Rc::new(Shard {
            index,
            producer_room: ProducerRoom::of_bytes(settings.producer_bytes_max),
            settings,
            clock,
            counters: ShardCounters::default(),
            topic_book,
            store: RefCell::new(store),
            partitions: RefCell::new(HashMap::new()),
            examinations: Examinations::default(),
            waiting: WaitingRooms::default(),
            flushing: Flushing::default(),
            layout: Layout::since(began),
            removals: Removals::default(),
            compaction_rests: RefCell::new(HashMap::new()),
            read_ahead: Notify::new(),
            file_is_wanted: Notify::new(),
            background: Notify::new(),
            troubles: Troubles::default(),
            tails_marked: Cell::new(None),
            disk_shortage: Cell::new(None),
            phase: Cell::new(Phase::Starting),
            threads,
        })
    }

    /// Opens an epoch of a partition here, over what recovery found of it: the given one, or the one after the last.
    ///
    /// # Errors
    /// What recovery found contradicts itself, or the metadata: a sentence for the operator.
    pub fn open_partition(
        &self,
        id: PartitionId,
        epoch: Option<Epoch>,
        topic: TopicSettings,
        recovered: Option<&RecoveredPartition>,
    ) -> Result<(), String> {
        let found = recovered.map(|found| Found {
            log_start: found.log_start,
            next_offset: found.next,
            snapshot: &found.state,
            batches: &found.replay,
        });
        let (now, limits) = (self.clock.monotonic(), self.settings.producer_limits);
        let next_id = self.producer_room.next_id();
        let state = LeaderState::recover(self.settings.node, epoch, now, limits, next_id, found)
            .map_err(|error| format!("{id}: {error}"))?;
        let mut leader = Leader::open(LeaderState {
            durability: topic.durability,
            ..state
        });
        // On opening, everything that was found is committed; nobody waits for that.
        while leader.next_action().is_some() {}
        self.producer_room.note(0, &mut leader);
        let mut store = self.store.borrow_mut();
        store.open_partition(id, partition::rolling(&topic));
        assert_eq!(
            store.bounds(id),
            Some((leader.log_start(), leader.next_offset())),
            "leader and store have recovered the same log (invariant 2)"
        );
        assert_eq!(
            leader.tail(),
            leader.next_offset(),
            "with a replica set of one all that was recovered is committed (invariant 3)"
        );
        store.commit_to(id, leader.tail());
        drop(store);
        self.partitions
            .borrow_mut()
            .insert(id, Box::new(Partition::new(leader, topic)));
        Ok(())
    }

    /// Gives a partition up: waiting clients are told, its files go in the background.
    pub fn delete_partition(&self, id: PartitionId) {
        if let Some(partition) = self.partitions.borrow_mut().remove(&id) {
            self.producer_room.note_gone(partition.leader.producers());
            partition.close();
            self.topic_book.leave(id.topic);
        }
        self.give_up_files(id);
        self.background.notify_one();
    }

    /// Says whether the journal had room for that.
    fn give_up_files(&self, id: PartitionId) -> bool {
        let mut store = self.store.borrow_mut();
        let deleted = store.delete_partition(id);
        if deleted.is_err()
            && let Some((_, next)) = store.bounds(id)
        {
            // It has no leader any more that could say so, and must not hold up the layout that makes room.
            store.commit_to(id, next);
        }
        drop(store);
        match deleted {
            Ok(()) => {
                self.note_success(Work::Deletion);
                self.flushing.staged.notify_one();
            }
            Err(StageError::Full) => {
                self.layout.journal_is_full.set(true);
                self.removals.refused.borrow_mut().push(id);
                return false;
            }
            Err(error) => {
                // The metadata says that it is gone; the next start tries again.
                self.note_failure(Work::Deletion, &format!("{id}: {error}"));
            }
        }
        true
    }

    /// Tries the deletions again that the journal had no room for, some at a time: what is staged comes back here when it is flushed.
    fn delete_refused(&self) {
        for _ in 0..DELETED_AGAIN_AT_ONCE {
            let refused = self.removals.refused.borrow_mut().pop();
            let Some(id) = refused else { return };
            if !self.give_up_files(id) {
                return;
            }
        }
    }

    /// Takes changed configs of a topic over for one of its partitions.
    pub fn configure_partition(&self, id: PartitionId, topic: TopicSettings) {
        if let Some(partition) = self.partitions.borrow_mut().get_mut(&id) {
            partition.topic = topic;
            partition.leader.handle_durability(topic.durability);
            self.store
                .borrow_mut()
                .open_partition(id, partition::rolling(&topic));
        }
    }

    /// Looks at a partition's leader; `None` if the partition is not here.
    pub fn with_leader<T>(&self, id: PartitionId, look: impl FnOnce(&Leader) -> T) -> Option<T> {
        self.partitions
            .borrow()
            .get(&id)
            .map(|partition| look(&partition.leader))
    }

    /// Takes note that whoever acts by a log of the node's own could not read it.
    pub fn abandon(&self, id: PartitionId) {
        if let Some(partition) = self.partitions.borrow_mut().get_mut(&id) {
            partition.is_abandoned = true;
        }
    }

    /// Why appends are refused, if they are.
    pub fn refuses(&self) -> Option<AppendRefusal> {
        if let Some(reason) = self.store.borrow().dead() {
            return Some(AppendRefusal::JournalDead(reason.to_string()));
        }
        match self.phase.get() {
            Phase::Starting => Some(AppendRefusal::Starting),
            Phase::Draining => Some(AppendRefusal::Stopping),
            Phase::Serving => self.disk_shortage.get().map(AppendRefusal::DiskFull),
        }
    }

    /// The free space, if the disk has less than its reserve left, whatever else appends are refused for.
    pub fn disk_shortage(&self) -> Option<DiskShortage> {
        self.disk_shortage.get()
    }

    /// Accepts clients' appends from now on: the epochs that this start opened are committed.
    pub fn start_serving(&self) {
        if self.phase.get() == Phase::Starting {
            self.phase.set(Phase::Serving);
        }
    }

    /// Returns when appends wait for room and the background failed to make some.
    pub async fn until_starved(&self) {
        self.waiting.starved.notified().await;
    }

    /// Gives up what lies before `first_kept`; durable on return.
    ///
    /// # Errors
    /// As Kafka's DeleteRecords; and `JournalFull`, when nothing has changed and it may be tried again.
    pub async fn trim(&self, id: PartitionId, first_kept: Offset) -> Result<Trimmed, AppendRefusal> {
        // Before the leader is asked: it is sealed then, and would say no more than that.
        if let Some(reason) = self.store.borrow().dead() {
            return Err(AppendRefusal::JournalDead(reason.to_string()));
        }
        let bytes_before = self.partition_bytes(id).unwrap_or(0);
        let (trimmed, frame) = self.stage_trim(id, first_kept)?;
        self.flushing.staged.notify_one();
        if !planted(Bug::TrimAnsweredEarly) {
            self.until_flushed(frame + 1).await?;
        }
        self.background.notify_one();
        let bytes_left = self.partition_bytes(id).unwrap_or(0);
        Ok(Trimmed {
            bytes: bytes_before.saturating_sub(bytes_left),
            ..trimmed
        })
    }

    /// The store first: where the journal has no room, the leader must not have moved.
    fn stage_trim(&self, id: PartitionId, first_kept: Offset) -> Result<(Trimmed, u64), AppendRefusal> {
        let mut partitions = self.partitions.borrow_mut();
        let partition = partitions.get_mut(&id).ok_or(AppendRefusal::UnknownPartition)?;
        let may_go = partition.is_abandoned && first_kept == partition.leader.tail();
        if partition.topic.is_only_compacted() && !may_go {
            return Err(AppendRefusal::OnlyCompacted);
        }
        let leader = &mut partition.leader;
        let first = leader.log_start();
        let log_start = leader.check_trim(first_kept).map_err(AppendRefusal::Trim)?;
        let staged = self.store.borrow_mut().trim(id, log_start);
        let frame = staged.map_err(|error| AppendRefusal::of(error, || self.why_journal_is_full()))?;
        leader.handle_trim(log_start);
        assert!(
            first <= log_start && log_start <= leader.tail(),
            "the log's start never moves back, nor past what is committed (invariant 6)"
        );
        assert_eq!(
            self.store.borrow().bounds(id),
            Some((leader.log_start(), leader.next_offset())),
            "leader and store have given up the same records (invariant 6)"
        );
        let trimmed = Trimmed {
            first,
            next: log_start,
            bytes: 0,
        };
        Ok((trimmed, frame))
    }

    /// Forgets silent producers, and finds the partitions whose oldest records have outlived their topic's retention. Records
    /// that have stood for less than `stand` go for no age, nor do any without a wall clock to believe.
    pub async fn expire(&self, stand: Duration, wall_ms: Option<i64>) -> Vec<PartitionId> {
        let now = self.clock.monotonic();
        let mark = self
            .tails_marked
            .get()
            .is_none_or(|marked| now.saturating_sub(marked) >= stand);
        if mark {
            self.tails_marked.set(Some(now));
        }
        let mut slices = Slices::of_own(LOOKED_AFTER_IN_ONE_TURN);
        let mut outlived = Vec::new();
        for id in self.partition_ids() {
            if self.expire_one(id, now, mark, wall_ms) {
                outlived.push(id);
            }
            slices.did(1).await;
        }
        outlived
    }

    /// Says whether the partition has records that have outlived their topic's retention.
    fn expire_one(&self, id: PartitionId, now: Duration, mark: bool, wall_ms: Option<i64>) -> bool {
        let mut partitions = self.partitions.borrow_mut();
        // It may have been given up meanwhile.
        let Some(partition) = partitions.get_mut(&id) else {
            return false;
        };
        self.forget_producers(&mut partition.leader, now);
        if mark {
            partition.standing.mark(partition.leader.tail());
        }
        self.outlived_before(id, partition, wall_ms).is_some()
    }

    fn forget_producers(&self, leader: &mut Leader, now: Duration) {
        let before = leader.producers().len();
        leader.handle_time(now);
        if self.producer_room.is_tight() || leader.producers().shares().is_tight() {
            leader.forget_settled_producers(now);
        }
        self.producer_room.note(before, leader);
    }

    /// Takes note that producer ids below this one have been handed out.
    pub fn set_next_producer_id(&self, next_id: ProducerId) {
        self.producer_room.set_next_id(next_id);
    }

    /// The number of idempotent producers that the partitions remember together.
    pub fn producers_remembered(&self) -> usize {
        self.producer_room.remembered()
    }

    /// Gives up what has outlived the retention that a partition's topic has now: it may be another one than when that was found.
    /// Returns what has gone, if anything.
    ///
    /// # Errors
    /// As `trim`.
    pub async fn retain(
        &self,
        id: PartitionId,
        wall_ms: Option<i64>,
    ) -> Result<Option<Outlived>, AppendRefusal> {
        let found = {
            let partitions = self.partitions.borrow();
            let partition = partitions.get(&id);
            partition.and_then(|partition| {
                let next = self.outlived_before(id, partition, wall_ms)?;
                let by_size = self.outlived_before(id, partition, None);
                let by_age = by_size.is_none_or(|by_size| by_size < next);
                Some((next, by_age))
            })
        };
        let Some((next, by_age)) = found else {
            return Ok(None);
        };
        let trimmed = self.trim(id, next).await?;
        let (config, counters) = match by_age {
            true => (BY_AGE, &self.counters.by_age),
            false => (BY_SIZE, &self.counters.by_size),
        };
        counters.note(&trimmed);
        Ok(Some(Outlived { trimmed, config }))
    }

    /// The first record that its topic's retention keeps, if those before it are still there. Without a wall clock none goes for
    /// its age.
    fn outlived_before(
        &self,
        id: PartitionId,
        partition: &Partition,
        wall_ms: Option<i64>,
    ) -> Option<Offset> {
        let age_ms = partition.topic.retention.map(whole_ms);
        let age = age_ms.zip(wall_ms).map(|(age_ms, wall_ms)| AgeLimit {
            oldest_ms: wall_ms.saturating_sub(age_ms),
            stood_before: partition.standing.stood_before(),
        });
        let store = self.store.borrow();
        let start = store.retention_start(id, age, partition.topic.retention_bytes)?;
        // Only committed records can be given up.
        let start = start.min(partition.leader.tail());
        (start > partition.leader.log_start()).then_some(start)
    }

    /// What a partition takes on disk; `None` if it is not here.
    pub fn partition_bytes(&self, id: PartitionId) -> Option<u64> {
        let store = self.store.borrow();
        store.bounds(id).map(|_| store.partition_bytes(id))
    }

    /// How many appends wait for room, in the journal or in memory.
    pub fn appends_without_room(&self) -> usize {
        self.waiting.len()
    }

    /// Where the store stands.
    pub fn store_status(&self) -> storage::StoreStatus {
        self.store.borrow().status()
    }

    /// The partitions that are led here in their order, for whoever looks at all of them in slices.
    fn partition_ids(&self) -> Vec<PartitionId> {
        let mut ids: Vec<PartitionId> = self.partitions.borrow().keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// How many partitions are led here.
    pub fn partition_count(&self) -> usize {
        self.partitions.borrow().len()
    }
}

#[cfg(test)]
mod tests;
