//! Reads of what an order names, on the core of the partition: here, or of the node that leads it.

use record::Offset;
use shard::{ReadRefusal, ReadRequest, ReadResult};

use crate::core::Core;

impl Core {
    /// Reads what an order names of a partition, all of which is committed. A node that does not hold the partition, or has not heard of so much of it, asks the leader.
    ///
    /// # Errors
    /// As a read of a partition.
    pub(crate) async fn read_named(&self, read: ReadRequest) -> Result<ReadResult, ReadRefusal> {
        let shard = self.shard(self.facts.shard_of(read.partition));
        let here = shard.read(read).await;
        let (Err(ReadRefusal::NotLeader | ReadRefusal::UnknownPartition), Some(until)) =
            (&here, read.ordered_until)
        else {
            return here;
        };
        let leader = self.with_metadata(|metadata| Some(metadata.partition(read.partition)?.leader));
        let Some(leader) = leader.filter(|leader| *leader != self.facts.node) else {
            return here;
        };
        let wanted = (read.from, until);
        let found = shard
            .read_of(leader, read.partition, wanted, read.bytes_max)
            .await;
        let batches = found.ok_or(ReadRefusal::NotLeader)?;
        Ok(ReadResult {
            log_start: Offset::ZERO,
            tail: until,
            stable: until,
            until,
            bytes: batches.iter().map(bytes::Bytes::len).sum(),
            batches,
            ..ReadResult::default()
        })
    }
}
