//! A shard: one journal with the partitions that write to it, owned by one core.
//!
//! Here the pure leader and the store meet: the leader numbers, the store stages, a flush makes durable, the leader says
//! what is committed, and producers and readers that wait are answered. Everything runs on the owning core; only jobs leave it.

mod append;
mod background;
mod claims;
mod compaction;
mod examinations;
mod flush;
mod layout;
mod member;
mod open_transactions;
mod order;
mod partition;
mod producer_room;
mod read;
mod removal;
mod repair;
mod replay;
mod replication;
mod reporting;
mod retention;
mod role;
mod scrub;
mod sharing;
mod snapshots;
mod topic_counters;
mod troubles;
mod unflushed;
mod verifying;
mod waiting_room;
mod watcher;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use platform::clock::Clock;
use platform::counters::{Counter, Histogram};
use protocol::leader::NodeId;
use protocol::metadata::TopicSettings;
use protocol::{Found, Leader, LeaderState, ProducerId, ProducerLimits};
use record::{Epoch, PartitionId};
use storage::{RecoveredPartition, Store};
use tokio::sync::Notify;

pub use append::{
    Acks, Allowance, AppendAnswer, AppendOutcome, AppendRefusal, AppendRequest, BadRecord, BadRecords,
    Conditions, DiskShortage,
};
pub use background::ShardThreads;
pub use claims::Claimed;
use claims::Claims;
use compaction::CompactionCounters;
pub use compaction::{CompactionFigures, CompactionMeans, ReplicatedCompaction};
use examinations::Examinations;
use flush::Flushing;
use layout::Layout;
pub use member::Report;
pub use open_transactions::{OpenTransaction, OpenTransactions};
use order::Orders;
pub use order::{Order, Tell, TellShards};
pub(crate) use partition::Partition;
use producer_room::ProducerRoom;
pub use read::{ReadRefusal, ReadRequest, ReadResult, Watch};
use removal::Removals;
pub use repair::{RangeLetter, RepairCounters};
use repair::{Ranges, Repairs};
pub use replay::{ReplayError, replay_batches};
use replication::Replication;
pub use replication::{FollowerFigures, LedFigures, Letter, Linked, Message};
use reporting::Unreported;
pub use retention::{BY_AGE, BY_SIZE, Outlived, RetentionCounters, Trimmed};
pub use role::NotLed;
use role::Role;
pub use scrub::ScrubCounters;
use sharing::Returning;
pub use topic_counters::{TopicBook, TopicCounters};
pub use troubles::Chore;
use troubles::Troubles;
use verifying::Verifying;
pub use verifying::{Claim, Question, Unverified};
use waiting_room::WaitingRooms;
pub use watcher::Watcher;

/// Partitions that are looked after before others have their turn.
const LOOKED_AFTER_IN_ONE_TURN: usize = 1_000;

/// Settings that a shard takes over from its node.
pub struct ShardSettings {
    /// The node that leads here.
    pub node: NodeId,
    /// Bounds on what each partition remembers of its producers.
    pub producer_limits: ProducerLimits,
    /// Memory for the producers of all partitions, in bytes.
    pub producer_bytes_max: usize,
    /// Small flushes may run on the core's thread.
    pub flush_on_core: bool,
    /// The most bytes that topics in memory are answered before their flush. Behind that, their producers wait for it.
    pub memory_unflushed_bytes_max: usize,
    /// Bounds on what a batch may make its checker do.
    pub batch_limits: record::Limits,
    /// Free bytes that the disk must keep when damaged segments are written anew.
    pub disk_reserve_bytes: u64,
    /// Bytes a second that replicas are sent of what they lack while clients append; 0 sets no bound.
    pub catch_up_rate: u64,
    /// Orders of topics are kept by scribes, perhaps on other nodes, and not by the shards of this one.
    pub has_scribes: bool,
}

/// Counters of one shard since the start; read by the metrics of its core.
#[derive(Default)]
pub struct ShardCounters {
    /// Times from the beginning of a flush to its end.
    pub flush_latency: Histogram,
    /// Bytes that flushes wrote.
    pub flushed_bytes: Counter,
    /// Batches that were staged.
    pub appended_batches: Counter,
    /// Staged batches whose bytes went to the journal from where they were received, without a copy.
    pub batches_in_place: Counter,
    /// Records of staged batches.
    pub appended_records: Counter,
    /// Bytes of staged batches.
    pub appended_bytes: Counter,
    /// Bytes that reads have found.
    pub read_bytes: Counter,
    /// Reads that memory could not answer.
    pub disk_reads: Counter,
    /// Rounds of layout that ended with a checkpoint, written or not.
    pub layout_rounds: Counter,
    /// Failures of the disk, and findings of damage.
    pub faults: Counter,
    /// Epochs that were opened here, of partitions that other nodes hold too.
    pub epochs_opened: Counter,
    /// Epochs of such partitions that ended here.
    pub epochs_ended: Counter,
    /// Bytes of batches that were sent to replicas because they lacked them.
    pub shipped_bytes: Counter,
    /// Questions to coordinators whether a transaction may open here.
    pub verifications: Counter,
    /// Those that were answered by a refusal, or not at all.
    pub refused_verifications: Counter,
    pub(crate) compaction: CompactionCounters,
    /// Counts of scrubbing.
    pub scrub: ScrubCounters,
    /// Counts of damage and repair.
    pub repair: RepairCounters,
    /// Counts of retention by age.
    pub by_age: RetentionCounters,
    /// Counts of retention by size.
    pub by_size: RetentionCounters,
}

/// The stages of a shard's life. Only a serving one accepts clients' appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Starting,
    Serving,
    Draining,
}

/// One journal with its partitions. It stays on the thread that made it.
pub struct Shard {
    /// The shard's number on its node.
    pub index: usize,
    /// Settings that its node handed it.
    pub settings: ShardSettings,
    /// The clock that it was handed.
    pub clock: Arc<dyn Clock>,
    /// Counters since the start.
    pub counters: ShardCounters,
    /// The number of the journal's first frame that recovery did not find.
    pub found_before: u64,
    topic_book: Rc<TopicBook>,
    store: RefCell<Store>,
    /// Each in its own place: a table that grows moves what is in it, all in one turn.
    partitions: RefCell<IndexMap<PartitionId, Box<Partition>>>,
    /// Partitions that would be here, and are on other nodes alone.
    elsewhere: RefCell<BTreeSet<PartitionId>>,
    producer_room: ProducerRoom,
    /// Appends that come before all that wait for room.
    examinations: Examinations,
    /// Appends that wait for room.
    waiting: WaitingRooms,
    flushing: Flushing,
    orders: Orders,
    unreported: Rc<Unreported>,
    claims: Claims,
    verifying: Verifying,
    layout: Layout,
    removals: Removals,
    replication: Replication,
    returning: Returning,
    repairs: Repairs,
    ranges: Ranges,
    replicated_compaction: Cell<ReplicatedCompaction>,
    /// Partitions whose compaction failed, with the moment until which they are left alone.
    compaction_rests: RefCell<BTreeMap<PartitionId, Duration>>,
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
    /// Makes the shard with this number over a store that was recovered. Nothing runs before [`Shard::start_flushing`] and
    /// [`Shard::start_background`], and clients' appends are refused before [`Shard::start_serving`].
    pub fn new(
        index: usize,
        settings: ShardSettings,
        clock: Arc<dyn Clock>,
        topic_book: Rc<TopicBook>,
        store: Store,
        threads: ShardThreads,
    ) -> Rc<Shard> {
        let began = clock.monotonic();
        let replication = Replication::with_journal(store.status().journal_bytes_max, began);
        Rc::new(Shard {
            index,
            producer_room: ProducerRoom::of_bytes(settings.producer_bytes_max),
            settings,
            clock,
            counters: ShardCounters::default(),
            topic_book,
            found_before: store.durable_before(),
            store: RefCell::new(store),
            partitions: RefCell::new(IndexMap::new()),
            elsewhere: RefCell::default(),
            examinations: Examinations::default(),
            waiting: WaitingRooms::default(),
            flushing: Flushing::default(),
            orders: Orders::default(),
            unreported: Rc::default(),
            claims: Claims::default(),
            verifying: Verifying::default(),
            layout: Layout::since(began),
            removals: Removals::default(),
            replication,
            returning: Returning::default(),
            repairs: Repairs::default(),
            ranges: Ranges::default(),
            replicated_compaction: Cell::default(),
            compaction_rests: RefCell::new(BTreeMap::new()),
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

    /// Opens an epoch of a partition that no other node holds: the given one, or the one after the last. A partition that was not recovered begins empty.
    ///
    /// # Errors
    /// The recovered log contradicts itself, or the metadata: a sentence for the operator.
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
            "leader and store have recovered the same log"
        );
        assert_eq!(
            leader.tail(),
            leader.next_offset(),
            "with a replica set of one all that was recovered is committed"
        );
        store.commit_to(id, leader.tail());
        drop(store);
        let mut partition = Partition::in_role(Role::Lone(leader), topic);
        if topic.is_ordered {
            partition.await_order(true);
            partition.reporter = self.reporter(id);
        }
        self.partitions.borrow_mut().insert(id, Box::new(partition));
        Ok(())
    }

    /// Takes note of a partition that only other nodes hold: clients are told that its leader is not here.
    pub fn note_elsewhere(&self, id: PartitionId) {
        self.elsewhere.borrow_mut().insert(id);
    }

    /// Forgets such a partition. Returns false if this is none.
    pub fn forget_elsewhere(&self, id: PartitionId) -> bool {
        self.elsewhere.borrow_mut().remove(&id)
    }

    /// Why a partition that is not here is not led here.
    fn absence(&self, id: PartitionId) -> NotLed {
        match self.elsewhere.borrow().contains(&id) || self.returning.has(id) {
            true => NotLed::NotLeader,
            false => NotLed::UnknownPartition,
        }
    }

    /// Takes changed configs of a topic over for one of its partitions. Nothing happens if the partition is not here.
    pub fn configure_partition(&self, id: PartitionId, topic: TopicSettings) {
        self.returning.configure(id, topic);
        if let Some(partition) = self.partitions.borrow_mut().get_mut(&id) {
            partition.topic = topic;
            match (topic.is_ordered, partition.is_ordered()) {
                (true, false) => {
                    partition.await_order(false);
                    partition.reporter = self.reporter(id);
                }
                (false, true) => partition.end_order(),
                _ => {}
            }
            let now = self.clock.monotonic();
            partition
                .role
                .configure(now, topic.durability, topic.insync_replicas_min);
            self.store
                .borrow_mut()
                .open_partition(id, partition::rolling(&topic));
            // With fewer replicas to wait for, more may be committed.
            self.carry_out(id, partition, member::AtHand::nothing());
        }
    }

    /// Takes note that a log of the node's own could not be read back, and that nothing acts by it: all of it may be trimmed.
    pub fn abandon(&self, id: PartitionId) {
        if let Some(partition) = self.partitions.borrow_mut().get_mut(&id) {
            partition.is_abandoned = true;
        }
    }

    /// The number of the journal's first frame that is not known to be durable. It only rises, over starts too.
    pub fn durable_before(&self) -> u64 {
        self.store.borrow().durable_before()
    }

    /// Returns the reason for which appends to all partitions are refused, if they are.
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

    /// Returns the free space, if the disk has less than its reserve left; also while appends are refused for another reason.
    pub fn disk_shortage(&self) -> Option<DiskShortage> {
        self.disk_shortage.get()
    }

    /// Accepts clients' appends from now on: the epochs that this start opened are committed.
    pub fn start_serving(&self) {
        if self.phase.get() == Phase::Starting {
            self.phase.set(Phase::Serving);
        }
    }

    /// Returns when appends wait for room and a chore that makes some has failed.
    pub async fn until_starved(&self) {
        self.waiting.starved.notified().await;
    }

    /// Takes note that producer ids below this one have been handed out.
    pub fn set_next_producer_id(&self, next_id: ProducerId) {
        self.producer_room.set_next_id(next_id);
    }

    /// The number of idempotent producers that the partitions remember together.
    pub fn producers_remembered(&self) -> usize {
        self.producer_room.remembered()
    }

    /// The bytes that a partition takes on disk, in segments and the journal; `None` if it is not here.
    pub fn partition_bytes(&self, id: PartitionId) -> Option<u64> {
        let store = self.store.borrow();
        store.bounds(id).map(|_| store.partition_bytes(id))
    }

    /// The number of appends that wait for room, in the journal, in memory or for what is not committed.
    pub fn appends_without_room(&self) -> usize {
        self.waiting.len()
    }

    /// Figures of the store at this moment.
    pub fn store_status(&self) -> storage::StoreStatus {
        self.store.borrow().status()
    }

    /// The partitions here, in their order, for looking at all of them in slices.
    fn partition_ids(&self) -> Vec<PartitionId> {
        let mut ids: Vec<PartitionId> = self.partitions.borrow().keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// The number of partitions here.
    pub fn partition_count(&self) -> usize {
        self.partitions.borrow().len()
    }
}

#[cfg(test)]
mod tests;
