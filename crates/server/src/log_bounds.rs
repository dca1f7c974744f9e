//! Bounds of partitions' logs, for code outside their cores: the records that there are, and the lags of readers.

use std::rc::Rc;

use kafka_wire::ErrorCode;
use record::{Offset, PartitionId};
use shard::{ReadRefusal, Shard};

use crate::core::Core;
use crate::error_codes::read_code;
use crate::owner::ask_owners;

/// The bounds of a partition's log: the first offset that is kept, and the first that readers are not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogBounds {
    pub(crate) log_start: Offset,
    pub(crate) tail: Offset,
}

impl LogBounds {
    /// The bounds of a partition on the core that owns it.
    ///
    /// # Errors
    /// It is not here, or not led here.
    pub(crate) fn of(shard: &Shard, partition: PartitionId) -> Result<LogBounds, ReadRefusal> {
        let tail = shard.shown_tail(partition)?;
        let log_start = shard.with_leader(partition, |leader| leader.log_start())?;
        Ok(LogBounds { log_start, tail })
    }

    /// The number of offsets between a reader that goes on at `next` and the tail.
    pub(crate) fn behind(self, next: Offset) -> i64 {
        self.tail.0.saturating_sub(next.0).max(0)
    }
}

/// The bounds of many partitions, in order; nothing for those that are not there or whose cores do not tell.
pub(crate) async fn bounds_of(
    core: &Rc<Core>,
    partitions: impl Iterator<Item = Result<PartitionId, ErrorCode>>,
) -> Vec<Option<LogBounds>> {
    let questions = partitions.map(|partition| partition.map(|id| (id, ())));
    let look = |shard: Rc<Shard>, id, ()| async move {
        LogBounds::of(&shard, id).map_err(|refusal| read_code(&refusal))
    };
    let found = ask_owners(core, &None, questions, look).await;
    found.map(Result::ok).collect()
}
