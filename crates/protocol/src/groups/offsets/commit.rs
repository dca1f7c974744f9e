//! OffsetCommit: checks who commits and what, and asks for the rest to be made durable.
//!
//! Commits of one group may be under way side by side: the log orders them, and they are applied in its order.

use super::super::consumer::Planning;
use super::super::context::Context;
use super::super::contract::{Answer, CommitOffsets, CommitPartition, GroupError, PartitionOutcome, Ticket};
use super::super::group::Group;
use super::super::records::{Change, OffsetValue, What};

impl Group {
    /// Handles OffsetCommit. The answer comes when the offsets are durable.
    pub(crate) fn commit_offsets(&mut self, cx: &mut Context, ticket: Ticket, request: CommitOffsets) {
        if let Err(error) = self.check_committer(cx, &request) {
            cx.answer(ticket, Answer::CommitOffsets(Err(error)));
            return;
        }
        let mut outcomes = Vec::with_capacity(request.partitions.len());
        let mut changes = Vec::with_capacity(request.partitions.len());
        for wanted in request.partitions {
            let outcome = self.check_commit(cx, &wanted, changes.len());
            let partition = wanted.partition.clone();
            if outcome.is_ok() {
                let value = OffsetValue {
                    committed: wanted.committed,
                    topic_id: wanted.topic_id,
                    committed_ms: cx.unix_ms(),
                    maker: self.maker.clone(),
                };
                changes.push(Change::of(
                    &self.name,
                    What::Offset(wanted.partition, Some(value)),
                ));
            }
            outcomes.push(PartitionOutcome { partition, outcome });
        }
        let answer = Answer::CommitOffsets(Ok(outcomes));
        if changes.is_empty() {
            cx.answer(ticket, answer);
        } else {
            let planning = Planning::of_offsets(&self.name, changes, ticket, answer);
            self.plan(cx, planning);
        }
    }

    fn check_commit(
        &self,
        cx: &Context,
        wanted: &CommitPartition,
        before_it: usize,
    ) -> Result<(), GroupError> {
        let (bytes, bytes_max) = (
            wanted.committed.metadata.len(),
            cx.settings.offset_metadata_bytes_max,
        );
        if bytes > bytes_max {
            return Err(GroupError::OffsetMetadataTooLarge { bytes, bytes_max });
        }
        if wanted.partition.index < 0 {
            return Err(GroupError::InvalidRequest {
                what: "a partition's index is not negative",
            });
        }
        let known = self.offsets.get(&wanted.partition.topic, wanted.partition.index);
        let max = cx.settings.offsets_max;
        // Commits under way are not counted: they overshoot the limit, by no more than has room to be under way.
        if known.is_none() && self.offsets.len() + before_it >= max {
            return Err(GroupError::LimitReached {
                what: "partitions with offsets in a group",
                max,
            });
        }
        cx.check_growth(known.is_none_or(|known| bytes > known.committed.metadata.len()))
    }
}
