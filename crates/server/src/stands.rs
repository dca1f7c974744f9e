//! Where partitions stand, for whoever looks from outside their cores: how much there is, and how far others are behind.

use std::rc::Rc;

use kafka_wire::ErrorCode;
use record::{Offset, PartitionId};
use shard::{ReadRefusal, Shard};

use crate::core::Core;
use crate::error_codes::read_code;
use crate::owner::ask_owners;

/// Where a partition stands: the first offset that is kept, and the first that is not committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stands {
    pub(crate) log_start: Offset,
    pub(crate) tail: Offset,
}

impl Stands {
    /// On the core that owns the partition.
    ///
    /// # Errors
    /// It is not here, or not led here.
    pub(crate) fn of(shard: &Shard, partition: PartitionId) -> Result<Stands, ReadRefusal> {
        let stands = shard.with_leader(partition, |leader| Stands {
            log_start: leader.log_start(),
            tail: leader.tail(),
        });
        Ok(stands?)
    }

    /// The number of offsets between a reader that goes on at `next` and the tail.
    pub(crate) fn behind(self, next: Offset) -> i64 {
        self.tail.0.saturating_sub(next.0).max(0)
    }
}

/// Where many partitions stand, in order; nothing for those that are not there or whose cores do not tell.
pub(crate) async fn stands_of(
    core: &Rc<Core>,
    partitions: impl Iterator<Item = Result<PartitionId, ErrorCode>>,
) -> Vec<Option<Stands>> {
    let questions = partitions.map(|partition| partition.map(|id| (id, ())));
    let look = |shard: Rc<Shard>, id, ()| async move {
        Stands::of(&shard, id).map_err(|refusal| read_code(&refusal))
    };
    let found = ask_owners(core, &None, questions, look).await;
    found.map(Result::ok).collect()
}
