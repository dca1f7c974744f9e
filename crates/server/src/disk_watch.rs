//! Watches the disk's free space, on core 0, for all shards.
//!
//! Whatever the journals hold must fit into segments, and the metadata and checkpoints must still be written: so appends are
//! refused while the disk has less than `disk.reserve_bytes` left.

use std::rc::Rc;
use std::time::Duration;

use shard::DiskShortage;
use storage::Trouble;

use crate::core::Core;

/// The time between two looks at the free space.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct DiskWatch {
    core: Rc<Core>,
    shortage: Trouble,
}

impl DiskWatch {
    pub(crate) fn new(core: &Rc<Core>) -> DiskWatch {
        DiskWatch {
            core: core.clone(),
            shortage: Trouble::default(),
        }
    }

    /// Looks again and again until the node stops.
    pub(crate) async fn go_on(mut self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            self.look().await;
        }
    }

    /// Looks at the free space and has all shards know what comes of it. Returns why appends are refused, if they are.
    pub(crate) async fn look(&mut self) -> Option<String> {
        let disk = self.core.disk.clone();
        let free = self.core.facts.pool.run(move || disk.free_bytes()).await.ok();
        self.core.disk_free_bytes.set(free);
        let reserve = self.core.facts.config.disk.reserve_bytes;
        // Not knowing is no reason to refuse: a full disk will say so itself.
        let short = free.filter(|free| *free < reserve);
        let shortage = short.map(|free_bytes| DiskShortage {
            free_bytes,
            reserve_bytes: reserve,
        });
        self.tell(free, shortage.is_some(), reserve);
        for index in 0..self.core.facts.mailboxes.cores() {
            self.core.facts.mailboxes.send(index, move |core| {
                core.shards().for_each(|shard| shard.set_disk_shortage(shortage))
            });
        }
        shortage.map(|shortage| shortage.to_string())
    }

    /// Tells the operator of a change, and each minute that it lasts.
    fn tell(&mut self, free_bytes: Option<u64>, is_short: bool, reserve_bytes: u64) {
        if is_short {
            if self.shortage.note(self.core.facts.clock.monotonic()).is_some() {
                tracing::warn!(
                    free_bytes,
                    reserve_bytes,
                    "appends are refused: the disk has less than disk.reserve_bytes left; delete topics, give them \
                     retention, or add space"
                );
            }
        } else if self.shortage.end() {
            tracing::info!(free_bytes, reserve_bytes, "appends are taken again");
        }
    }
}
