//! Compaction: of each key in a partition's segments only the latest record stays.
//!
//! A *pass* reads the dirty part of a partition, remembers the last offset of each key in it (`key_map`), and then rewrites
//! the segments from the log's start on, a group at a time (`pass`). Here is the part that runs beside the store; what a pass
//! may touch, and when its segments take the place of others, is in `store/compacting.rs`. It must never drop a record that
//! no later one supersedes, nor change an offset.

mod aborted;
mod key_hash;
mod key_map;
mod output;
mod pass;
mod source;
mod step;
mod verdict;
mod writing;

pub(crate) use aborted::AbortedBatches;
pub use key_map::KEY_BYTES;
pub(crate) use output::{Output, Unwritten, remove_leftovers};
pub(crate) use pass::{Means, Pass, Reach};
pub(crate) use source::Place;
pub use step::{CompactionJob, StepResult};
pub(crate) use step::{CompactionStep, Rewritten};
pub(crate) use verdict::tombstones_end;

/// When and how a partition is compacted. Times in ms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompactionPolicy {
    /// Kafka's `min.compaction.lag.ms`: records younger than this are left alone.
    pub min_lag_ms: i64,
    /// Kafka's `max.compaction.lag.ms`: a segment that waits longer is compacted whatever its share.
    pub max_lag_ms: i64,
    /// Kafka's `min.cleanable.dirty.ratio`: a pass is worth while when more than this share of the bytes is dirty.
    pub dirty_ratio_min: f64,
    /// Kafka's `delete.retention.ms`: how long a tombstone stays after the pass that first found it to be the latest.
    pub delete_retention_ms: i64,
}

/// A pass that was carried through. The tombstones between the end of the one before and its own were seen by it first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cleaned {
    /// Up to this offset each key had one record then.
    pub(crate) until: i64,
    /// Wall time when it ended.
    pub(crate) at_ms: i64,
    /// The number of its tombstones that are still there; those that were trimmed since are counted.
    pub(crate) tombstones: u64,
}

/// More passes than this are not told apart: their tombstones wait for the later time.
const CLEANED_MAX: usize = 256;

/// Returns the passes to remember after one up to `until`, in which so many tombstones of each earlier pass, and of this one,
/// stayed. Of an earlier pass that reached further it has not seen all.
pub(crate) fn remember(earlier: &[Cleaned], tombstones: &[u64], until: i64, at_ms: i64) -> Vec<Cleaned> {
    assert!(
        tombstones.len() == earlier.len() + 1,
        "tombstones are counted for each pass"
    );
    let mut all: Vec<Cleaned> = earlier
        .iter()
        .zip(tombstones)
        .map(|(cleaned, tombstones)| match cleaned.until > until {
            true => *cleaned,
            false => Cleaned {
                tombstones: *tombstones,
                ..*cleaned
            },
        })
        .collect();
    if all.last().is_none_or(|last| last.until < until) {
        all.push(Cleaned {
            until,
            at_ms,
            tombstones: tombstones[earlier.len()],
        });
    }
    // Where no tombstone is left it does not matter whose time counts.
    let last = all.last().map_or(0, |last| last.until);
    all.retain(|cleaned| cleaned.tombstones > 0 || cleaned.until == last);
    while all.len() > CLEANED_MAX {
        let gone = all.remove(0);
        all[0].tombstones += gone.tombstones;
    }
    all
}

#[cfg(test)]
mod tests;
