//! Which partition needs compaction, and how much of it may be touched: looks at numbers in memory.

use std::cmp::Ordering;

use record::{Offset, PartitionId};

use crate::compaction::{CompactionPolicy, tombstones_end};
use crate::partition::PartitionLog;
use crate::segment::Segment;
use crate::store::Store;

/// Why a partition should be compacted.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CompactionNeed {
    /// Bytes of complete segments that no pass has seen.
    pub dirty_bytes: u64,
    /// Their share of all bytes that a pass would read.
    pub dirty_ratio: f64,
    /// Something has waited longer than it may.
    pub is_overdue: bool,
}

impl CompactionNeed {
    /// Which of two needs is the greater: one that has waited too long, else the dirtier.
    pub fn compare(&self, other: &CompactionNeed) -> Ordering {
        let overdue = self.is_overdue.cmp(&other.is_overdue);
        overdue.then(self.dirty_ratio.total_cmp(&other.dirty_ratio))
    }
}

impl Store {
    /// Says whether a partition should be compacted, and how badly. A look at numbers in memory.
    pub fn compaction_need(
        &self,
        id: PartitionId,
        policy: &CompactionPolicy,
        committed: Offset,
        now_ms: i64,
    ) -> Option<CompactionNeed> {
        let log = self.partitions.get(&id)?;
        let segments = self.cleanable(log, policy, committed, now_ms);
        let dirty_from = dirty_from(log);
        let oldest_ms = now_ms.saturating_sub(policy.max_lag_ms);
        let (mut bytes, mut dirty_bytes, mut is_overdue) = (0, 0, false);
        for segment in segments {
            bytes += segment.stored_bytes();
            let dirty = dirty_share(segment, dirty_from);
            dirty_bytes += dirty;
            is_overdue |= dirty > 0 && segment.created_ms < oldest_ms;
        }
        let dirty_ratio = dirty_bytes as f64 / (bytes as f64).max(1.0);
        let end = segments.last().map_or(0, |last| last.next);
        let expired = log.cleaned.iter().any(|cleaned| {
            cleaned.tombstones > 0
                && cleaned.until <= end
                && tombstones_end(cleaned, policy.delete_retention_ms) <= now_ms
        });
        let is_needed = expired || (dirty_bytes > 0 && (is_overdue || dirty_ratio > policy.dirty_ratio_min));
        is_needed.then_some(CompactionNeed {
            dirty_bytes,
            dirty_ratio,
            is_overdue,
        })
    }

    /// The segments that a pass may rewrite: from the first one on, complete, committed, recorded, and old enough.
    pub(super) fn cleanable<'a>(
        &self,
        log: &'a PartitionLog,
        policy: &CompactionPolicy,
        committed: Offset,
        now_ms: i64,
    ) -> &'a [Segment] {
        let end = committed.0.min(log.recorded);
        let youngest_ms = now_ms.saturating_sub(policy.min_lag_ms);
        let is_cleanable = |segment: &&Segment| {
            // An adopted file that the journal has not let go of yet goes back to it when its segment goes.
            let is_journals = segment
                .adopted
                .is_some_and(|file| self.journal.has_file(file.sequence));
            segment.sealed
                && segment.next <= end
                && !is_journals
                && (policy.min_lag_ms == 0 || segment.max_timestamp_ms <= youngest_ms)
        };
        let count = log.segments.iter().take_while(is_cleanable).count();
        &log.segments[..count]
    }
}

/// Where the part begins that no pass has seen.
pub(super) fn dirty_from(log: &PartitionLog) -> i64 {
    let cleaned = log.cleaned.last().map_or(0, |last| last.until);
    cleaned.max(log.log_start)
}

/// The bytes of a segment that no pass has seen, if its offsets have about the same size.
fn dirty_share(segment: &Segment, dirty_from: i64) -> u64 {
    let span = segment.next - segment.first;
    let dirty = (segment.next - dirty_from.max(segment.first)).max(0);
    (u128::from(segment.stored_bytes()) * dirty as u128 / span as u128) as u64
}
