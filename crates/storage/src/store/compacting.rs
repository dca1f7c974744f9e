//! Compaction as the store sees it: which partition needs it, what a pass may touch, and when what it wrote counts.
//!
//! ```text
//!   segments of the partition    | A | B | C |   D   |  open |  journal only
//!   a pass reads and writes      |-- A.1 ----|                          one at a time in a store
//!   put in place: in memory      |    A.1    |   D   |  open |          readers see it at once
//!   the next checkpoint                                                 from then on it counts after a crash
//!   removed                       A, B, C
//! ```
//! A crash before that checkpoint finds A, B and C, after it A.1: the files of the others are kept until it is durable. How much
//! may be on the disk twice for that is bounded. Only complete segments that are committed and in a durable checkpoint are
//! touched; never what the journal alone has.

mod need;

use planted::{Bug, planted};
use record::{Limits, Offset, PartitionId};

pub use need::CompactionNeed;

use super::Store;
use super::aborted::Aborted;
use crate::checkpoint::{Checkpoint, Removal};
use crate::compaction::{
    AbortedBatches, Cleaned, CompactionJob, CompactionPolicy, CompactionStep, Means, Pass, Reach, Rewritten,
    StepResult,
};
use crate::fault::Fault;
use crate::partition::PartitionLog;
use crate::segment::{AbortedRange, Segment, SegmentName};
use need::dirty_from;

/// The order of a pass, with what it may use.
#[derive(Debug, Clone, Copy)]
pub struct CompactionOrder {
    /// When what goes.
    pub policy: CompactionPolicy,
    /// Nothing behind this is touched: it is committed up to here, and no transaction that has begun before is still open.
    pub committed: Offset,
    /// The wall time.
    pub now_ms: i64,
    /// The most that one compressed batch may unpack to.
    pub limits: Limits,
    /// Memory for the keys of the dirty part, `KEY_BYTES` each. With more keys than fit the pass does not reach the end, and
    /// another follows.
    pub key_map_bytes: usize,
    /// Free bytes that the disk must keep, whatever a pass writes.
    pub disk_reserve_bytes: u64,
}

/// The outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compacted {
    /// The pass goes on: ask for the next step.
    More,
    /// A segment was put in the place of others, and the pass goes on: when there is no next step, after a checkpoint.
    Rewritten {
        /// Records that went, tombstones among them.
        records_removed: u64,
        /// Tombstones whose time was over.
        tombstones_removed: u64,
        /// Bytes that segments take less.
        bytes_freed: u64,
    },
    /// The pass is over.
    Done,
    /// The pass is over before its end: the disk has no room for what it was to write next, beside its reserve.
    NoRoom {
        /// The number of bytes.
        bytes: u64,
    },
    /// The pass is over and came to nothing more: what it read was trimmed or deleted, or it had nothing to read.
    Abandoned,
}

/// A segment that another took the place of.
struct Superseded {
    removal: Removal,
    bytes: u64,
}

/// The state of compaction: the pass under way, and what no checkpoint tells yet.
#[derive(Default)]
pub(super) struct Compaction {
    under_way: Option<UnderWay>,
    /// Segments that others were put in the place of: they go once a checkpoint that does not name them is durable.
    superseded: Vec<Superseded>,
    /// The outcome of some pass should be in a checkpoint soon, and is not yet.
    is_owed: bool,
}

impl Compaction {
    /// Says whether a checkpoint is owed to what passes came to.
    pub(super) fn is_owed(&self) -> bool {
        self.is_owed
    }

    /// Says the same, and takes it for paid.
    pub(super) fn take_owed(&mut self) -> bool {
        std::mem::take(&mut self.is_owed)
    }

    /// Says whether a pass over this partition is under way.
    pub(super) fn is_under_way(&self, id: PartitionId) -> bool {
        let under_way = self.under_way.as_ref();
        under_way.is_some_and(|under_way| under_way.partition == id)
    }

    /// Takes note that a checkpoint is owed, if it is.
    pub(super) fn note_owed(&mut self, is_owed: bool) {
        self.is_owed |= is_owed;
    }

    /// The removals of segments that others were put in the place of.
    pub(super) fn superseded(&self) -> impl Iterator<Item = &Removal> {
        self.superseded.iter().map(|superseded| &superseded.removal)
    }
}

/// The pass under way.
struct UnderWay {
    partition: PartitionId,
    /// None while a step is out.
    pass: Option<Box<Pass>>,
}

impl Store {
    /// Begins a pass over a partition of which these transactions were aborted, as [`Store::aborted`] has found them for all that the order
    /// has committed. False if one is under way, or there is nothing that may be touched.
    pub fn begin_compaction(
        &mut self,
        id: PartitionId,
        order: &CompactionOrder,
        aborted: &[Aborted],
    ) -> bool {
        let Some(log) = self.partitions.get(&id) else {
            return false;
        };
        let segments = self
            .cleanable(log, &order.policy, order.committed, order.now_ms)
            .to_vec();
        if segments.is_empty() {
            return false;
        }
        let [low, high] = [self.random.bytes(), self.random.bytes()];
        let means = Means {
            limits: order.limits,
            hash_key: [u64::from_le_bytes(low), u64::from_le_bytes(high)],
            key_map_bytes: order.key_map_bytes,
            disk_reserve_bytes: order.disk_reserve_bytes,
            delete_retention_ms: order.policy.delete_retention_ms,
            now_ms: order.now_ms,
        };
        let ranges = aborted.iter().map(|of| AbortedRange {
            producer_id: of.producer_id,
            first: of.first.0,
            marker: of.marker.0,
        });
        self.begin_pass(id, segments, &means, AbortedBatches::new(ranges.collect()))
    }

    /// Says whether a pass may have left a file that it did not end in the partition, and none has looked since.
    pub fn may_have_leftovers(&self, id: PartitionId) -> bool {
        self.partitions.get(&id).is_some_and(|log| log.unswept)
    }

    /// Begins a pass that only removes what others left, for a partition that is not compacted any more. False if one is under
    /// way.
    pub fn begin_sweep(&mut self, id: PartitionId) -> bool {
        let means = Means {
            limits: Limits::default(),
            hash_key: [0; 2],
            key_map_bytes: 0,
            disk_reserve_bytes: 0,
            delete_retention_ms: 0,
            now_ms: 0,
        };
        self.begin_pass(id, Vec::new(), &means, AbortedBatches::default())
    }

    fn begin_pass(
        &mut self,
        id: PartitionId,
        segments: Vec<Segment>,
        means: &Means,
        aborted: AbortedBatches,
    ) -> bool {
        let Some(log) = self.partitions.get(&id) else {
            return false;
        };
        // The two would give their files the same name.
        let is_repaired = self.repairing == Some(id);
        if self.compaction.under_way.is_some() || is_repaired || self.journal.dead().is_some() {
            return false;
        }
        let (known, cleaned) = (self.files_of(log), log.cleaned.clone());
        let reach = Reach {
            log_start: log.log_start,
            dirty_from: dirty_from(log),
            segment_bytes_max: log.rolling.bytes,
        };
        let leases = segments
            .iter()
            .filter_map(|segment| Some((segment.name(), self.lease(segment)?)))
            .collect();
        let pass = Pass::new(
            (self.disk.clone(), self.config.identity, id),
            reach,
            means,
            segments,
            leases,
            known,
            cleaned,
            aborted,
        );
        self.compaction.under_way = Some(UnderWay {
            partition: id,
            pass: Some(Box::new(pass)),
        });
        true
    }

    /// Says whether a pass is under way.
    pub fn is_compacting(&self) -> bool {
        self.compaction.under_way.is_some()
    }

    /// The next step of the pass under way; none while one is out, or while too much is on the disk twice and waits for a
    /// checkpoint.
    pub fn next_compaction(&mut self) -> Option<CompactionJob> {
        if self.too_much_is_superseded() || self.journal.dead().is_some() {
            return None;
        }
        let pass = self.compaction.under_way.as_mut()?.pass.take()?;
        Some(CompactionJob { pass })
    }

    /// Gives the pass under way up, when no step is out. What it has put in place stays; what it has not ended goes.
    pub fn end_compaction(&mut self) {
        let given_up = self
            .compaction
            .under_way
            .take_if(|under_way| under_way.pass.is_some());
        let Some(UnderWay { partition, pass }) = given_up else {
            return;
        };
        let unfinished = pass.and_then(|pass| pass.unfinished());
        if let Some(name) = unfinished {
            self.removals.push_free(removal(partition, name));
        }
        self.compaction.note_owed(!self.compaction.superseded.is_empty());
    }

    fn too_much_is_superseded(&self) -> bool {
        let bytes: u64 = self
            .compaction
            .superseded
            .iter()
            .map(|superseded| superseded.bytes)
            .sum();
        bytes > 0 && bytes >= self.config.superseded_bytes_max
    }

    /// Applies a step's outcome. `now_ms` is the wall time.
    ///
    /// # Errors
    /// The step's own: the pass is given up, and nothing is lost. What it has put in place stays.
    pub fn compacted(
        &mut self,
        job: CompactionJob,
        result: Result<StepResult, Fault>,
        now_ms: i64,
    ) -> Result<Compacted, Fault> {
        let under_way = self.compaction.under_way.take();
        let UnderWay { partition, pass } = under_way.expect("a step belongs to a pass");
        assert!(pass.is_none(), "a step ends once");
        if let Some(log) = self.partitions.get_mut(&partition) {
            // The first step has swept; one that gives up may not have taken its own away.
            log.unswept = match &result {
                Ok(done) => matches!(done.step, CompactionStep::NoRoom { .. }),
                Err(_) => true,
            };
        }
        let compacted = self.apply_step(partition, job, result, now_ms);
        // With the pass over, or no room for its next step, what it came to is to be recorded now.
        let is_over = self.compaction.under_way.is_none() && !self.compaction.superseded.is_empty();
        let is_owed = is_over || self.too_much_is_superseded();
        self.compaction.note_owed(is_owed);
        compacted
    }

    fn apply_step(
        &mut self,
        partition: PartitionId,
        job: CompactionJob,
        result: Result<StepResult, Fault>,
        now_ms: i64,
    ) -> Result<Compacted, Fault> {
        let step = match result {
            Ok(done) => done.step,
            // That files are gone is no damage then.
            Err(_) if self.was_taken_away(partition, job.pass.segments()) => return Ok(Compacted::Abandoned),
            Err(fault) => return Err(fault),
        };
        let going_on = UnderWay {
            partition,
            pass: Some(job.pass),
        };
        match step {
            CompactionStep::More => {
                self.compaction.under_way = Some(going_on);
                Ok(Compacted::More)
            }
            CompactionStep::Rewritten(rewritten) => {
                let Some(bytes_freed) = self.put_in_place(partition, &rewritten) else {
                    return Ok(Compacted::Abandoned);
                };
                self.compaction.under_way = Some(going_on);
                Ok(Compacted::Rewritten {
                    records_removed: rewritten.records_removed,
                    tombstones_removed: rewritten.tombstones_removed,
                    bytes_freed,
                })
            }
            CompactionStep::Done(cleaned) => match self.remember_pass(partition, cleaned, now_ms) {
                true => Ok(Compacted::Done),
                false => Ok(Compacted::Abandoned),
            },
            CompactionStep::NoRoom { bytes } => Ok(Compacted::NoRoom { bytes }),
            CompactionStep::Swept => Ok(Compacted::Abandoned),
        }
    }

    /// Keeps what a pass that is carried through found. Until its end readers saw what its tombstones have ended: from now on
    /// they have their time. False if the partition is gone.
    fn remember_pass(&mut self, id: PartitionId, mut cleaned: Vec<Cleaned>, now_ms: i64) -> bool {
        let Some(log) = self.partitions.get_mut(&id) else {
            return false;
        };
        let reached_before = log.cleaned.last().map_or(0, |last| last.until);
        if let Some(last) = cleaned.last_mut().filter(|last| last.until > reached_before) {
            last.at_ms = last.at_ms.max(now_ms);
        }
        log.cleaned = cleaned;
        self.compaction.note_owed(true);
        true
    }

    /// Says whether not all of these are segments of the partition any more.
    fn was_taken_away(&self, id: PartitionId, segments: &[Segment]) -> bool {
        segments
            .iter()
            .any(|segment| !self.has_segment((id, segment.name())))
    }

    /// Puts a compacted segment in the place of those that it was made of, if these are still there. Returns how many bytes
    /// less it takes.
    pub(super) fn put_in_place(&mut self, id: PartitionId, rewritten: &Rewritten) -> Option<u64> {
        let Rewritten { old, new, .. } = rewritten;
        let log = self.partitions.get_mut(&id)?;
        let place = log.segments.iter().position(|segment| segment.name() == old[0]);
        let range = place.map(|first| first..first + old.len());
        let range = range.filter(|range| {
            let present = log.segments.get(range.clone()).unwrap_or_default();
            present.iter().map(Segment::name).eq(old.iter().copied())
        });
        let Some(range) = range else {
            // Trimmed while it was written: the file is nobody's.
            self.removals.push_free(removal(id, new.name()));
            return None;
        };
        assert!(
            new.sealed && new.end > 0 && new.next <= log.laid_out,
            "a compacted segment is complete and holds only what was laid out"
        );
        let gone: Vec<Segment> = log.segments.splice(range, [*new]).collect();
        assert!(
            gone.first().map(|first| first.first) == Some(new.first)
                && gone.last().map(|last| last.next) == Some(new.next),
            "a compacted segment spans the offsets of those that it was made of"
        );
        log.forget_tail_before(new.next);
        let mut bytes = 0;
        for segment in &gone {
            bytes += segment.stored_bytes();
            let adopted = self.forget_segment(id, segment);
            let removal = Removal {
                adopted,
                ..removal(id, segment.name())
            };
            match planted(Bug::SupersededRemovedEarly) {
                true => self.removals.push_free(removal),
                false => self.compaction.superseded.push(Superseded {
                    removal,
                    bytes: segment.stored_bytes(),
                }),
            }
        }
        Some(bytes.saturating_sub(new.stored_bytes()))
    }

    /// Takes note of what a checkpoint says that is durable now: segments in it may be compacted, and those that it does not
    /// name, because others took their place, may go.
    pub(super) fn note_recorded(&mut self, checkpoint: &Checkpoint) {
        for partition in &checkpoint.partitions {
            if let Some(log) = self.partitions.get_mut(&partition.id) {
                log.recorded = partition.laid_out;
            }
        }
        let may_go = |superseded: &mut Superseded| checkpoint.removals.contains(&superseded.removal);
        for gone in self.compaction.superseded.extract_if(.., may_go) {
            self.removals.push_free(gone.removal);
        }
    }

    /// The names that files of a partition may have: of its segments, and of what is still to be removed.
    pub(super) fn files_of(&self, log: &PartitionLog) -> Vec<SegmentName> {
        let removals = self.removals.iter().chain(self.compaction.superseded());
        let removed = removals.filter(|removal| removal.partition == log.id);
        let removed = removed.filter_map(|removal| removal.segment);
        log.segments.iter().map(Segment::name).chain(removed).collect()
    }
}

fn removal(partition: PartitionId, name: SegmentName) -> Removal {
    Removal {
        partition,
        segment: Some(name),
        adopted: None,
    }
}
