//! Gathers the state of a shard's leaders for a checkpoint: the epochs with their first offsets, and the idempotent producers.
//!
//! There may be hundreds of thousands of producers, so the snapshots are taken in slices before the checkpoint is begun. Each is
//! exactly of one offset, its partition's tail when it was taken. Nothing is laid out meanwhile, so what lies behind that offset stays
//! in the journal, from which recovery takes it. Two things can overtake a snapshot: a trim, and a replica's vow. Then another one
//! is taken.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use planted::{Bug, planted};
use platform::slices::Slices;
use protocol::Vows;
use record::{Offset, PartitionId};

use super::{Role, Shard};

/// Producers that are written into snapshots before others of the core have their turn; a partition counts like one of them.
const PRODUCERS_IN_ONE_TURN: usize = 5_000;

/// See the module.
#[derive(Default)]
pub(super) struct Snapshots {
    taken: BTreeMap<PartitionId, (Offset, Bytes, Vows)>,
}

impl Snapshots {
    /// The snapshot of a partition, and the offset before which it reflects every record.
    pub(super) fn take(&mut self, id: PartitionId, role: &Role, now: Duration) -> (Bytes, Offset) {
        match self.taken.remove(&id) {
            Some((next, state, vows))
                if role.log_start() <= next
                    && (role.vows() == vows || planted(Bug::VowOvertakesSnapshot)) =>
            {
                (state, next)
            }
            _ => {
                let (next, state) = role.snapshot(now);
                (state, next)
            }
        }
    }
}

impl Shard {
    /// Takes snapshots of all partitions that were ever written to. The last round of layout is over, and no other begins before
    /// the caller has made use of them.
    pub(super) async fn take_snapshots(&self) -> Snapshots {
        let mut slices = Slices::of_own(PRODUCERS_IN_ONE_TURN);
        let mut snapshots = Snapshots::default();
        for id in self.partition_ids() {
            let producers = self.take_snapshot(id, &mut snapshots);
            slices.did(1 + producers).await;
        }
        snapshots
    }

    /// Gives the number of producers in it.
    fn take_snapshot(&self, id: PartitionId, snapshots: &mut Snapshots) -> usize {
        let partitions = self.partitions.borrow();
        let is_written_to = |role: &&Role| role.tail() > Offset::ZERO;
        let role = partitions.get(&id).map(|partition| &partition.role);
        let Some(role) = role.filter(is_written_to) else {
            return 0;
        };
        let (next, state) = role.snapshot(self.clock.monotonic());
        snapshots.taken.insert(id, (next, state, role.vows()));
        role.leader().map_or(0, |leader| leader.producers().len())
    }
}
