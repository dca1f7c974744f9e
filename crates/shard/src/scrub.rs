//! Scrubbing: all segments of a shard are read at a pace, so that damage is found while another replica still has what is lost.
//!
//! It reads past the caches and rests after each step, at least as long as that took. It never holds up an append, and changes nothing:
//! what it finds goes the way of damage that a read has met (`repair.rs`).

use std::time::Duration;

use platform::counters::Counter;
use platform::slices::Slices;
use record::{Offset, PartitionId};
use storage::{Scrub, Scrubbed};
use tokio::time::sleep;

use super::compaction::rest_after;
use super::{LOOKED_AFTER_IN_ONE_TURN, Phase, Shard};

/// The pause while there is no room for appends, or the node does not serve yet.
const PAUSE: Duration = Duration::from_millis(50);

/// Counters of scrubbing in one shard since the start.
#[derive(Default)]
pub struct ScrubCounters {
    /// Bytes that were read.
    pub bytes: Counter,
    /// Passes that were carried through.
    pub passes: Counter,
}

impl Shard {
    /// Reads all segments here once, at most so many bytes a second over time. It returns early if the node stops.
    pub async fn scrub(&self, bytes_per_second: u64) {
        let mut slices = Slices::of_own(LOOKED_AFTER_IN_ONE_TURN);
        for id in self.partition_ids() {
            if !self.scrub_partition(id, bytes_per_second).await {
                return;
            }
            slices.did(1).await;
        }
        self.counters.scrub.passes.add(1);
    }

    /// Reads the segments of a partition. False if the node stops.
    async fn scrub_partition(&self, id: PartitionId, bytes_per_second: u64) -> bool {
        let mut from = Offset::ZERO;
        loop {
            let begun = self.store.borrow_mut().begin_scrub(id, from);
            let Some(mut scrub) = begun else {
                return true;
            };
            from = scrub.next();
            let grows = scrub.grows();
            loop {
                match self.phase.get() {
                    Phase::Draining => return false,
                    Phase::Serving if self.appends_without_room() == 0 => {}
                    Phase::Starting | Phase::Serving => {
                        sleep(PAUSE).await;
                        continue;
                    }
                }
                let is_over;
                (scrub, is_over) = self.scrub_a_step(scrub, bytes_per_second).await;
                if is_over {
                    break;
                }
            }
            // The bytes behind it now are its own.
            if grows {
                return true;
            }
        }
    }

    /// Reads on in a segment, and rests. Says whether it is over.
    async fn scrub_a_step(&self, mut scrub: Scrub, bytes_per_second: u64) -> (Scrub, bool) {
        let began = self.clock.monotonic();
        let step = move || {
            let scrubbed = scrub.step();
            (scrub, scrubbed)
        };
        let (scrub, scrubbed) = self.threads.pool.run(step).await;
        let took = self.clock.monotonic() - began;
        let Scrubbed {
            bytes,
            damages,
            unread,
            is_over,
        } = scrubbed;
        self.counters.scrub.bytes.add(bytes);
        // That files are gone which something else took the place of is no damage.
        if !self.store.borrow().has_scrubbed(&scrub) {
            return (scrub, true);
        }
        for damage in damages {
            self.note_damage(damage);
        }
        if let Some(fault) = unread {
            self.counters.faults.add(1);
            tracing::warn!(shard = self.index, %fault, "a segment could not be scrubbed; the next pass tries again");
        }
        sleep(rest_after(took, bytes, bytes_per_second)).await;
        (scrub, is_over)
    }
}
