//! Compaction in a run: its steps are planned, run and applied with everything else in between.

use record::Offset;

use super::{Driver, PARTITIONS};
use crate::compaction::{CompactionPolicy, KEY_BYTES, StepResult};
use crate::fault::Fault;
use crate::store::{Compacted, CompactionJob, CompactionOrder};

/// A step of compaction that is out.
pub(super) enum Compacting {
    Planned(CompactionJob),
    /// And whether it might fail.
    Ran(CompactionJob, Result<StepResult, Fault>, bool),
}

/// The outcome of compaction in a run.
#[derive(Debug, Default, Clone, Copy)]
pub(in super::super) struct CompactionCounts {
    pub(in super::super) passes: usize,
    pub(in super::super) rewritten: usize,
    pub(in super::super) abandoned: usize,
    pub(in super::super) records_removed: u64,
    pub(in super::super) tombstones_removed: u64,
}

/// Everything is dirty at once, and tombstones go soon.
pub(in super::super) const EAGER: CompactionPolicy = CompactionPolicy {
    min_lag_ms: 0,
    max_lag_ms: i64::MAX,
    dirty_ratio_min: 0.0,
    delete_retention_ms: 1_500,
};

/// For the committed tail `committed`, with room for nine keys of twelve.
pub(in super::super) fn order(committed: i64, now_ms: i64) -> CompactionOrder {
    CompactionOrder {
        policy: EAGER,
        committed: Offset(committed),
        now_ms,
        limits: record::Limits::default(),
        key_map_bytes: 12 * KEY_BYTES,
        disk_reserve_bytes: 0,
    }
}

impl Driver {
    /// Plans the next step, runs the one that was planned, or applies the one that was run.
    pub(super) fn compact(&mut self) {
        match self.compacting.take() {
            None => self.compacting = self.plan_compaction().map(Compacting::Planned),
            Some(Compacting::Planned(mut job)) => {
                let result = job.run();
                self.compacting = Some(Compacting::Ran(job, result, self.errors_expected));
            }
            Some(Compacting::Ran(job, result, may_fail)) => {
                let counts = &mut self.compacted;
                match self.store.compacted(job, result, self.now_ms) {
                    Ok(Compacted::More) => {}
                    Ok(Compacted::Rewritten {
                        records_removed,
                        tombstones_removed,
                        ..
                    }) => {
                        counts.rewritten += 1;
                        counts.records_removed += records_removed;
                        counts.tombstones_removed += tombstones_removed;
                    }
                    Ok(Compacted::Done) => counts.passes += 1,
                    Ok(Compacted::Abandoned) => counts.abandoned += 1,
                    Ok(Compacted::NoRoom { .. }) => assert!(may_fail, "there is no end to the disk"),
                    Err(fault) => {
                        assert!(may_fail, "{fault}");
                        self.errors += 1;
                    }
                }
            }
        }
    }

    fn plan_compaction(&mut self) -> Option<CompactionJob> {
        if !self.store.is_compacting() {
            let now_ms = self.now_ms;
            let needs = (0..PARTITIONS).map(|number| self.id(number)).find_map(|id| {
                // Alone on its node, a leader has committed what is durable.
                let committed = self.store.partitions.get(&id)?.laid_out;
                self.store
                    .compaction_need(id, &EAGER, Offset(committed), now_ms)
                    .map(|_| (id, committed))
            });
            let (id, committed) = needs?;
            self.store.begin_compaction(id, &order(committed, now_ms), &[]);
        }
        self.store.next_compaction()
    }
}
