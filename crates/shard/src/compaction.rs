//! Compaction of one partition at a time: which one needs it, and its steps, with a rest after each.
//!
//! A step is a job of the store and runs on a thread of the pool. It reads and writes little, and rests at least as long as it
//! took: what flushes and readers lose to it is bounded whatever there is to compact. The core decides when a core's shards
//! take turns (`maintenance`).

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use planted::{Bug, planted};
use platform::counters::Counter;
use platform::slices::Slices;
use record::{Offset, PartitionId, TopicId};
use storage::{Compacted, CompactionJob, CompactionNeed, CompactionOrder, CompactionPolicy, Fault};

use super::partition::compaction_policy;
use super::{LOOKED_AFTER_IN_ONE_TURN, Partition, Phase, Role, Shard};

/// Time for which a partition is left alone after its compaction failed or found no room: damage does not heal, and a full disk
/// stays full for a while.
const REST_AFTER_FAILURE: Duration = Duration::from_secs(300);
/// The longest wait before looking again for a checkpoint.
const CHECKPOINT_PATIENCE: Duration = Duration::from_secs(1);
/// The pause while there is no room for appends: layout needs the disk more then.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(50);

/// Bounds on the memory, disk and bandwidth that compaction may use.
#[derive(Debug, Clone, Copy)]
pub struct CompactionMeans {
    /// Memory for the keys of one pass, in bytes.
    pub key_map_bytes: usize,
    /// Bytes a second that steps may read and write together, over time.
    pub bytes_per_second: u64,
    /// Free bytes that the disk must keep.
    pub disk_reserve_bytes: u64,
}

/// The logs that are compacted although other nodes hold them, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReplicatedCompaction {
    /// None: a node of an earlier release takes no log with gaps.
    #[default]
    Nothing,
    /// All but those of this topic, which are kept short in another way.
    AllBut(Option<TopicId>),
}

/// Counters of compaction in one shard.
#[derive(Default)]
pub(crate) struct CompactionCounters {
    passes: Counter,
    failures: Counter,
    read_bytes: Counter,
    written_bytes: Counter,
    time: Cell<Duration>,
    removed_records: Counter,
    removed_tombstones: Counter,
    freed_bytes: Counter,
}

/// Figures of compaction in one shard since the start, and the bytes that wait for it.
#[derive(Debug, Clone, Copy, Default)]
pub struct CompactionFigures {
    /// Passes that were made.
    pub passes: u64,
    /// Passes that failed.
    pub failures: u64,
    /// Bytes that passes have read.
    pub read_bytes: u64,
    /// Bytes that passes have written.
    pub written_bytes: u64,
    /// Time that passes took together.
    pub time: Duration,
    /// Records that went.
    pub removed_records: u64,
    /// Tombstones among them.
    pub removed_tombstones: u64,
    /// Bytes that segments shrank by.
    pub freed_bytes: u64,
    /// Bytes of complete segments that wait for a pass that is due.
    pub waiting_bytes: u64,
}

/// The bytes and records that a pass has moved and removed so far.
#[derive(Debug, Default)]
struct Outcome {
    bytes_read: u64,
    bytes_written: u64,
    records_removed: u64,
    bytes_freed: u64,
}

impl Outcome {
    fn bytes_moved(&self) -> u64 {
        self.bytes_read + self.bytes_written
    }
}

impl Shard {
    /// Returns the partition of this shard that needs compaction most. `None` if none does, or the shard does not serve or has no
    /// room on its disk.
    pub async fn compaction_need(&self) -> Option<(PartitionId, CompactionNeed)> {
        if self.phase.get() != Phase::Serving || self.disk_shortage.get().is_some() {
            return None;
        }
        let now = self.clock.monotonic();
        self.compaction_rests.borrow_mut().retain(|_, until| *until > now);
        let needs = self.compaction_needs().await;
        let rests = self.compaction_rests.borrow();
        needs
            .into_iter()
            .filter(|(id, _)| !rests.contains_key(id))
            .max_by(|(_, one), (_, other)| one.compare(other))
    }

    /// Returns the figures of compaction here. It looks at all partitions, in slices.
    pub async fn compaction_figures(&self) -> CompactionFigures {
        let counters = &self.counters.compaction;
        let needs = self.compaction_needs().await;
        CompactionFigures {
            passes: counters.passes.get(),
            failures: counters.failures.get(),
            read_bytes: counters.read_bytes.get(),
            written_bytes: counters.written_bytes.get(),
            time: counters.time.get(),
            removed_records: counters.removed_records.get(),
            removed_tombstones: counters.removed_tombstones.get(),
            freed_bytes: counters.freed_bytes.get(),
            waiting_bytes: needs.iter().map(|(_, need)| need.dirty_bytes).sum(),
        }
    }

    async fn compaction_needs(&self) -> Vec<(PartitionId, CompactionNeed)> {
        let now_ms = self.clock.wall_ms();
        let mut needs = Vec::new();
        if self.store.borrow().dead().is_some() {
            return needs;
        }
        let mut slices = Slices::of_own(LOOKED_AFTER_IN_ONE_TURN);
        for id in self.partition_ids() {
            needs.extend(self.compaction_need_of(id, now_ms).map(|need| (id, need)));
            slices.did(1).await;
        }
        needs
    }

    fn compaction_need_of(&self, id: PartitionId, now_ms: i64) -> Option<CompactionNeed> {
        let (store, partitions) = (self.store.borrow(), self.partitions.borrow());
        let partition = partitions.get(&id)?;
        if !self.may_compact(id, partition) {
            return None;
        }
        match policy_of(partition) {
            Some(policy) => store.compaction_need(id, &policy, partition.role.stable(), now_ms),
            // It was compacted once: there is nothing more to do than to tidy up.
            None => store.may_have_leftovers(id).then(CompactionNeed::default),
        }
    }

    /// Says whether a partition's segments may be touched.
    fn may_compact(&self, id: PartitionId, partition: &Partition) -> bool {
        match &partition.role {
            Role::Lone(_) => true,
            Role::Member(member) => {
                let is_chosen = match self.replicated_compaction.get() {
                    ReplicatedCompaction::Nothing => false,
                    ReplicatedCompaction::AllBut(topic) => topic != Some(id.topic),
                };
                is_chosen && !member.is_given_up()
            }
        }
    }

    /// Says which logs are compacted that other nodes hold, too.
    pub fn compact_replicated(&self, which: ReplicatedCompaction) {
        self.replicated_compaction.set(which);
    }

    /// Makes a pass over a partition. It returns when the pass is done, failed, found no room or was given up because the shard
    /// stops; each outcome is logged and counted. The means are asked for at each step: configs may change meanwhile.
    pub async fn compact(self: &Rc<Self>, id: PartitionId, means: &dyn Fn() -> CompactionMeans) {
        let begun = match self.compaction_order(id, &means()) {
            Some(order) => match self.aborted(id, Offset::ZERO, order.committed).await {
                Ok(aborted) => self.store.borrow_mut().begin_compaction(id, &order, &aborted),
                // It was told when it was found.
                Err(_) => false,
            },
            None => self.store.borrow_mut().begin_sweep(id),
        };
        if !begun {
            // It was needed a moment ago: to ask again at once could go on for ever.
            return self.rest_from_compacting(id);
        }
        let began = self.clock.monotonic();
        let mut outcome = Outcome::default();
        let ended = self.make_pass(id, means, &mut outcome).await;
        self.background.notify_one();
        match ended {
            Some(Compacted::Done) => {
                self.counters.compaction.passes.add(1);
                tracing::info!(
                    shard = self.index,
                    partition = %id,
                    bytes_read = outcome.bytes_read,
                    bytes_written = outcome.bytes_written,
                    bytes_freed = outcome.bytes_freed,
                    records_removed = outcome.records_removed,
                    seconds = (self.clock.monotonic() - began).as_secs_f64(),
                    "a partition was compacted"
                );
            }
            Some(Compacted::NoRoom { bytes }) => {
                tracing::warn!(
                    shard = self.index,
                    partition = %id,
                    bytes,
                    "a compaction waits until the disk has room for these bytes beside its reserve"
                );
                self.rest_from_compacting(id);
            }
            // Given up, or failed, which was told.
            _ => {}
        }
    }

    /// Makes the steps of the pass under way. Returns the outcome of the last one; `None` if the pass was given up or failed.
    async fn make_pass(
        &self,
        id: PartitionId,
        means: &dyn Fn() -> CompactionMeans,
        outcome: &mut Outcome,
    ) -> Option<Compacted> {
        let mut last = None;
        while self.store.borrow().is_compacting() {
            let is_full = self.disk_shortage.get().is_some();
            if is_full || self.phase.get() != Phase::Serving || self.store.borrow().dead().is_some() {
                self.store.borrow_mut().end_compaction();
                if is_full {
                    self.rest_from_compacting(id);
                }
                return None;
            }
            last = Some(self.compact_a_step(id, means, outcome).await?);
        }
        last
    }

    fn compaction_order(&self, id: PartitionId, means: &CompactionMeans) -> Option<CompactionOrder> {
        let partitions = self.partitions.borrow();
        let partition = partitions.get(&id)?;
        Some(CompactionOrder {
            policy: policy_of(partition).filter(|_| self.may_compact(id, partition))?,
            committed: partition.role.stable(),
            now_ms: self.clock.wall_ms(),
            limits: self.settings.batch_limits,
            key_map_bytes: means.key_map_bytes,
            disk_reserve_bytes: means.disk_reserve_bytes,
        })
    }

    /// Makes the next step of the pass under way, and rests after it. `None` if it failed: then the pass is over.
    async fn compact_a_step(
        &self,
        id: PartitionId,
        means: &dyn Fn() -> CompactionMeans,
        outcome: &mut Outcome,
    ) -> Option<Compacted> {
        if self.appends_without_room() > 0 {
            tokio::time::sleep(NO_ROOM_PAUSE).await;
            return Some(Compacted::More);
        }
        let job = self.store.borrow_mut().next_compaction();
        let Some(job) = job else {
            // The segments that were put in place are to be recorded first.
            self.background.notify_one();
            let _ = tokio::time::timeout(CHECKPOINT_PATIENCE, self.layout.checkpointed()).await;
            return Some(Compacted::More);
        };
        let moved_before = outcome.bytes_moved();
        let began = self.clock.monotonic();
        let compacted = self.run_step(job, outcome).await;
        let took = self.clock.monotonic() - began;
        match compacted {
            Ok(compacted) => {
                let bytes = outcome.bytes_moved() - moved_before;
                tokio::time::sleep(rest_after(took, bytes, means().bytes_per_second)).await;
                Some(compacted)
            }
            Err(fault) => {
                self.compaction_failed(id, &fault);
                None
            }
        }
    }

    fn compaction_failed(&self, id: PartitionId, fault: &Fault) {
        self.counters.compaction.failures.add(1);
        self.counters.faults.add(1);
        tracing::warn!(
            shard = self.index,
            partition = %id,
            %fault,
            "a compaction failed; nothing is lost, and it will be tried again"
        );
        self.rest_from_compacting(id);
    }

    /// Runs a step on a thread of the pool, applies it and counts what it did.
    async fn run_step(&self, mut job: CompactionJob, outcome: &mut Outcome) -> Result<Compacted, Fault> {
        let began = self.clock.monotonic();
        let step = move || {
            let result = job.run();
            (job, result)
        };
        let (job, result) = self.threads.pool.run(step).await;
        let took = self.clock.monotonic() - began;
        let counters = &self.counters.compaction;
        counters.time.set(counters.time.get() + took);
        if let Ok(done) = &result {
            outcome.bytes_read += done.bytes_read;
            outcome.bytes_written += done.bytes_written;
            counters.read_bytes.add(done.bytes_read);
            counters.written_bytes.add(done.bytes_written);
        }
        let now_ms = self.clock.wall_ms();
        let compacted = self.store.borrow_mut().compacted(job, result, now_ms);
        if let Ok(Compacted::Rewritten {
            records_removed,
            tombstones_removed,
            bytes_freed,
        }) = compacted
        {
            outcome.records_removed += records_removed;
            outcome.bytes_freed += bytes_freed;
            counters.removed_records.add(records_removed);
            counters.removed_tombstones.add(tombstones_removed);
            counters.freed_bytes.add(bytes_freed);
        }
        compacted
    }

    fn rest_from_compacting(&self, id: PartitionId) {
        let until = self.clock.monotonic() + REST_AFTER_FAILURE;
        self.compaction_rests.borrow_mut().insert(id, until);
    }
}

/// The rule by which a partition is compacted, if it is.
///
/// Each replica compacts its own log, up to what it knows to be committed. Its tombstones stay: another replica that was away may hold
/// an older value of the key, which would come back if that one were sent the rest of a log without the tombstone.
fn policy_of(partition: &Partition) -> Option<CompactionPolicy> {
    let policy = compaction_policy(&partition.topic)?;
    Some(match &partition.role {
        Role::Lone(_) => policy,
        Role::Member(_) if planted(Bug::TombstonesGoEverywhere) => policy,
        Role::Member(_) => CompactionPolicy {
            delete_retention_ms: i64::MAX,
            ..policy
        },
    })
}

/// The rest after a step: as long as the step took, and longer if it has moved more bytes than its share.
pub(super) fn rest_after(took: Duration, bytes: u64, bytes_per_second: u64) -> Duration {
    let share = Duration::from_secs_f64(bytes as f64 / bytes_per_second.max(1) as f64);
    share.saturating_sub(took).max(took)
}

#[cfg(test)]
mod tests;
