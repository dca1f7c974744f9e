//! Looks at the transactions that are open in the partitions led here, for operators. Nothing changes.

use std::collections::BTreeMap;

use platform::slices::Slices;
use protocol::ProducerId;
use protocol::producers::WrittenBatch;
use record::{Offset, PartitionId, TopicId};

use super::role::NotLed;
use super::{LOOKED_AFTER_IN_ONE_TURN, Shard};

/// A transaction that is open in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenTransaction {
    /// The offset of its first record in the partition.
    pub first_offset: Offset,
    /// Its producer.
    pub producer: ProducerId,
    /// The producer's epoch.
    pub producer_epoch: i16,
    /// The epoch of the coordinator that has ended the producer's transaction before; -1 if none has.
    pub coordinator_epoch: i32,
    /// The producer's latest batch in the partition, if that is remembered.
    pub last: Option<WrittenBatch>,
}

/// Some of the transactions that are open in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenTransactions {
    /// The end of what readers of committed records see.
    pub stable: Offset,
    /// The end of what is committed to the log.
    pub tail: Offset,
    /// In the order of their first offsets.
    pub found: Vec<OpenTransaction>,
}

impl Shard {
    /// The transactions that are open in a partition, from the first offset on, so many at most.
    ///
    /// # Errors
    /// The partition is not led here.
    pub fn open_transactions(
        &self,
        id: PartitionId,
        from: Offset,
        max: usize,
    ) -> Result<OpenTransactions, NotLed> {
        self.with_leader(id, |leader| {
            let producers = leader.producers();
            let tail = leader.tail();
            let open = producers.transactions_from(from);
            let open = open.take_while(|(first_offset, _)| *first_offset < tail);
            let found = open.take(max).map(|(first_offset, producer)| {
                let fences = producers.fences_of(producer);
                let (producer_epoch, coordinator_epoch) =
                    fences.expect("a producer is remembered while its transaction is open");
                OpenTransaction {
                    first_offset,
                    producer,
                    producer_epoch,
                    coordinator_epoch,
                    last: producers.last_of(producer),
                }
            });
            OpenTransactions {
                stable: leader.stable(),
                tail,
                found: found.collect(),
            }
        })
    }

    /// The greatest number of records between the tail of a partition led here and what readers of committed records see of it, by
    /// topic; of topics where there are some.
    pub async fn unstable_records(&self) -> BTreeMap<TopicId, u64> {
        let mut by_topic: BTreeMap<TopicId, u64> = BTreeMap::new();
        let mut slices = Slices::of_own(LOOKED_AFTER_IN_ONE_TURN);
        // By place: partitions may come and go between two slices, and those are told of the next time.
        for place in 0..self.partition_count() {
            if let Some((&PartitionId { topic, .. }, partition)) = self.partitions.borrow().get_index(place)
                && let Ok(leader) = partition.role.open_leader()
                && let unstable @ 1.. = leader.tail().0 - leader.stable().0
            {
                let most = by_topic.entry(topic).or_default();
                *most = (*most).max(unstable.cast_unsigned());
            }
            slices.did(1).await;
        }
        by_topic
    }
}
