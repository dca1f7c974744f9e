//! Gathers the state of a shard's leaders for a checkpoint: the epochs with their first offsets, and the idempotent producers.
//!
//! There may be hundreds of thousands of producers, so the snapshots are taken in slices before the checkpoint is begun. Each is
//! exactly of one offset, its partition's tail when it was taken. Nothing is laid out meanwhile, so what lies behind that offset stays
//! in the journal, from which recovery takes it. One thing can overtake a snapshot: a trim. Then another one is taken.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use platform::slices::Slices;
use protocol::Leader;
use record::{Offset, PartitionId};

use super::Shard;

/// Producers that are written into snapshots before others of the core have their turn; a partition counts like one of them.
const PRODUCERS_IN_ONE_TURN: usize = 5_000;

/// See the module.
#[derive(Default)]
pub(super) struct Snapshots {
    taken: BTreeMap<PartitionId, (Offset, Bytes)>,
}

impl Snapshots {
    /// The snapshot of a partition, and the offset before which it reflects every record.
    pub(super) fn take(&mut self, id: PartitionId, leader: &Leader, now: Duration) -> (Bytes, Offset) {
        let taken = self.taken.remove(&id);
        let stands = taken.filter(|(next, _)| leader.log_start() <= *next);
        let (next, state) = stands.unwrap_or_else(|| leader.snapshot_history(now));
        (state, next)
    }
}

impl Shard {
    /// Takes snapshots of all partitions that were ever written to. The last round of layout is over, and no other begins before
    /// the caller has made use of them.
    pub(super) async fn take_snapshots(&self) -> Snapshots {
        let mut slices = Slices::of_own(PRODUCERS_IN_ONE_TURN);
        let mut snapshots = Snapshots::default();
        for id in self.partition_ids() {
            let now = self.clock.monotonic();
            let taken = self.with_leader(id, |leader| {
                let is_written_to = leader.tail() > Offset::ZERO;
                is_written_to.then(|| (leader.producers().len(), leader.snapshot_history(now)))
            });
            let mut producers = 0;
            if let Ok(Some((count, snapshot))) = taken {
                producers = count;
                snapshots.taken.insert(id, snapshot);
            }
            slices.did(1 + producers).await;
        }
        snapshots
    }
}
