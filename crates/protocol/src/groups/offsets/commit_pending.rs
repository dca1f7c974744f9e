//! TxnOffsetCommit: as OffsetCommit, but the offsets are pending until their transaction ends.

use super::super::context::Context;
use super::super::contract::{Answer, CommitPartition, CommitPending, GroupError, Ticket};
use super::super::group::Group;
use super::super::records::{PendingValue, What};
use crate::producers::ProducerId;

/// Producers that may have pending offsets of one partition. One consumer has it, with one producer; others are left from before.
const PRODUCERS_MAX: usize = 100;

impl Group {
    /// Handles TxnOffsetCommit. The answer comes when the pending offsets are durable.
    pub(crate) fn commit_pending(&mut self, cx: &mut Context, ticket: Ticket, request: CommitPending) {
        let (producer, producer_epoch) = (request.producer, request.producer_epoch);
        let checked = cx.transactions.check_commit(producer, producer_epoch);
        let checked = checked.and_then(|()| self.check_pending_committer(&request.commit));
        if let Err(error) = checked {
            cx.answer(ticket, Answer::CommitPending(Err(error)));
            return;
        }
        let coordinator_epoch = cx.transactions.coordinator_epoch(producer);
        let check = |group: &Group, cx: &Context, wanted: &CommitPartition, before_it| {
            group.check_pending(cx, producer, wanted, before_it)
        };
        let (outcomes, changes) =
            self.plan_commit(cx, request.commit.partitions, check, |partition, offset| {
                let value = PendingValue {
                    producer_epoch,
                    coordinator_epoch,
                    is_overtaken: false,
                    offset,
                };
                What::Pending(producer, partition, Some(value))
            });
        self.commit(cx, ticket, changes, Answer::CommitPending(Ok(outcomes)));
    }

    fn check_pending(
        &self,
        cx: &Context,
        producer: ProducerId,
        wanted: &CommitPartition,
        before_it: usize,
    ) -> Result<(), GroupError> {
        let pendings = &self.offsets.pendings;
        let (partition, max) = (&wanted.partition, cx.settings.offsets_max);
        let bytes = wanted.committed.metadata.len();
        if let Some(known) = pendings.get(producer, partition) {
            return cx.check_growth(bytes > known.value.offset.committed.metadata.len());
        }
        let is_committed = self.offsets.get(&partition.topic, partition.index).is_some();
        let is_full = !is_committed && self.offsets.len() + before_it >= max;
        if is_full || pendings.len() + before_it >= max {
            return Err(GroupError::LimitReached {
                what: "partitions with offsets in a group",
                max,
            });
        }
        if pendings.of(partition).len() >= PRODUCERS_MAX {
            return Err(GroupError::LimitReached {
                what: "producers with pending offsets of one partition",
                max: PRODUCERS_MAX,
            });
        }
        cx.check_growth(true)
    }
}
