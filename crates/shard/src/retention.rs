//! Records are given up from the front of a log: by clients (DeleteRecords), and by the retention of their topic.
//!
//! Both are a trim, which is checked by the leader, staged in the store, and only then made final by the leader. Only committed
//! records go; a trim is durable before it is answered.

use std::time::Duration;

use planted::{Bug, planted};
use platform::counters::Counter;
use platform::slices::Slices;
use protocol::Leader;
use protocol::leader::TrimError;
use record::{Epoch, Offset, PartitionId, whole_ms};
use storage::AgeLimit;

use super::append::AppendRefusal;
use super::member::AtHand;
use super::{LOOKED_AFTER_IN_ONE_TURN, Partition, Shard};

/// The config by which retention takes records for their age.
pub const BY_AGE: &str = "retention.ms";
/// The config by which retention takes records of a partition that is too large.
pub const BY_SIZE: &str = "retention.bytes";

/// Counters of retention for one reason.
#[derive(Default)]
pub struct RetentionCounters {
    /// Trims of single partitions.
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
    /// The offsets and bytes.
    pub trimmed: Trimmed,
    /// The config that had them deleted: [`BY_AGE`] or [`BY_SIZE`].
    pub config: &'static str,
}

/// The one who trims a log.
#[derive(Debug, Clone, Copy)]
enum Trimmer {
    Anybody,
    /// The only writer of it, in this epoch.
    Writer(Epoch),
}

impl Shard {
    /// Gives up the records before `first_kept`; durable on return.
    ///
    /// # Errors
    /// `Trim` if the offset is outside of the partition, `OnlyCompacted` if the topic is never trimmed; `JournalFull`, when nothing has
    /// changed and it may be tried again; `FlushFailed`, when the next start decides.
    pub async fn trim(&self, id: PartitionId, first_kept: Offset) -> Result<Trimmed, AppendRefusal> {
        self.trim_as(id, first_kept, Trimmer::Anybody).await
    }

    /// The same of a partition that the node itself keeps, by whoever writes all of its log, in the epoch that it has written in: what goes may
    /// be compacted, since what counts stands behind it.
    ///
    /// # Errors
    /// As of [`Shard::trim`]; `NotLeader` also in another epoch.
    pub async fn trim_own(
        &self,
        id: PartitionId,
        first_kept: Offset,
        epoch: Epoch,
    ) -> Result<Trimmed, AppendRefusal> {
        self.trim_as(id, first_kept, Trimmer::Writer(epoch)).await
    }

    async fn trim_as(
        &self,
        id: PartitionId,
        first_kept: Offset,
        trimmer: Trimmer,
    ) -> Result<Trimmed, AppendRefusal> {
        // Before the leader is asked: it is sealed then, and would say no more than that.
        if let Some(reason) = self.store.borrow().dead() {
            return Err(AppendRefusal::JournalDead(reason.to_string()));
        }
        let bytes_before = self.partition_bytes(id).unwrap_or(0);
        let (trimmed, frame) = self.stage_trim(id, first_kept, trimmer)?;
        self.flushing.want();
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
    fn stage_trim(
        &self,
        id: PartitionId,
        first_kept: Offset,
        trimmer: Trimmer,
    ) -> Result<(Trimmed, u64), AppendRefusal> {
        let mut partitions = self.partitions.borrow_mut();
        let partition = partitions.get_mut(&id).ok_or_else(|| self.absence(id))?;
        let leader = partition.role.leader()?;
        let may_go = match trimmer {
            Trimmer::Anybody => partition.is_abandoned && first_kept == leader.tail(),
            Trimmer::Writer(epoch) if epoch != leader.epoch() => return Err(AppendRefusal::NotLeader),
            Trimmer::Writer(_) => true,
        };
        if partition.topic.is_only_compacted() && !may_go {
            return Err(AppendRefusal::OnlyCompacted);
        }
        let first = leader.log_start();
        let log_start = leader.check_trim(first_kept).map_err(AppendRefusal::Trim)?;
        let tail = partition.tail();
        if first_kept > tail {
            // They are committed, and have no position yet.
            return Err(AppendRefusal::Trim(TrimError::OutOfRange {
                log_start: first,
                tail,
                got: first_kept,
            }));
        }
        let end = leader.next_offset();
        let staged = self.store.borrow_mut().trim(id, log_start);
        let frame = staged.map_err(|error| AppendRefusal::of(error, || self.why_journal_is_full()))?;
        partition.role.handle_trim(self.clock.monotonic(), log_start);
        if let Some(reporter) = &partition.reporter {
            reporter.note_anew();
        }
        assert_eq!(
            self.store.borrow().bounds(id),
            Some((partition.role.log_start(), end)),
            "leader and store have given up the same records"
        );
        self.carry_out(id, partition, AtHand::Staged);
        let trimmed = Trimmed {
            first,
            next: log_start,
            bytes: 0,
        };
        Ok((trimmed, frame))
    }

    /// Forgets silent producers, and returns the partitions whose oldest records have outlived their topic's retention, for
    /// [`Shard::retain`]. Records that have been here for less than `stand` are not deleted for their age, nor are any without a wall
    /// clock (milliseconds since 1970) that can be believed.
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

    /// Says if the partition has records that have outlived their topic's retention.
    fn expire_one(&self, id: PartitionId, now: Duration, mark: bool, wall_ms: Option<i64>) -> bool {
        let mut partitions = self.partitions.borrow_mut();
        // It may have been given up meanwhile.
        let Some(partition) = partitions.get_mut(&id) else {
            return false;
        };
        let Ok(leader) = partition.role.leader_mut() else {
            return false;
        };
        self.forget_producers(leader, now);
        if mark {
            partition.standing.mark(leader.tail());
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

    /// Gives up the records that have outlived the retention of a partition's topic. The settings are looked at anew, for they may
    /// have changed since these records were found. Returns `None` if nothing was to go.
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
        // Only records that were shown can be given up.
        let leader = partition.role.leader().ok()?;
        let start = start.min(partition.tail());
        (start > leader.log_start()).then_some(start)
    }
}
