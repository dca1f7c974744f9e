//! OffsetCommit: checks who commits and what, and asks for the rest to be made durable.
//!
//! Commits of one group may be under way side by side: the log orders them, and they are applied in its order.

use super::super::consumer::Planning;
use super::super::context::Context;
use super::super::contract::{
    Answer, CommitOffsets, CommitPartition, GroupError, PartitionOutcome, Ticket, TopicPartition,
};
use super::super::group::Group;
use super::super::records::{Change, OffsetValue, What};

impl Group {
    /// Handles OffsetCommit. The answer comes when the offsets are durable.
    pub(crate) fn commit_offsets(&mut self, cx: &mut Context, ticket: Ticket, request: CommitOffsets) {
        if let Err(error) = self.check_committer(cx, &request) {
            cx.answer(ticket, Answer::CommitOffsets(Err(error)));
            return;
        }
        let check = |group: &Group, cx: &Context, wanted: &CommitPartition, before_it| {
            group.check_commit(cx, wanted, before_it)
        };
        let (outcomes, changes) = self.plan_commit(cx, request.partitions, check, |partition, value| {
            What::Offset(partition, Some(value))
        });
        self.commit(cx, ticket, changes, Answer::CommitOffsets(Ok(outcomes)));
    }

    /// The answer for each wanted offset, and the changes for those that `check` lets through; it is told the number of those
    /// before.
    pub(super) fn plan_commit(
        &self,
        cx: &Context,
        all_wanted: Vec<CommitPartition>,
        check: impl Fn(&Group, &Context, &CommitPartition, usize) -> Result<(), GroupError>,
        change: impl Fn(TopicPartition, OffsetValue) -> What,
    ) -> (Vec<PartitionOutcome>, Vec<Change>) {
        let mut outcomes = Vec::with_capacity(all_wanted.len());
        let mut changes = Vec::with_capacity(all_wanted.len());
        for wanted in all_wanted {
            let outcome = check_wanted(cx, &wanted).and_then(|()| check(self, cx, &wanted, changes.len()));
            let partition = wanted.partition.clone();
            if outcome.is_ok() {
                let value = OffsetValue {
                    committed: wanted.committed,
                    topic_id: wanted.topic_id,
                    committed_ms: cx.unix_ms(),
                    maker: self.maker.clone(),
                    is_copy: false,
                };
                changes.push(Change::of(&self.name, change(wanted.partition, value)));
            }
            outcomes.push(PartitionOutcome { partition, outcome });
        }
        (outcomes, changes)
    }

    /// Has the changes of a commit made durable, and then the answer given.
    pub(super) fn commit(&mut self, cx: &mut Context, ticket: Ticket, changes: Vec<Change>, answer: Answer) {
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
        let bytes = wanted.committed.metadata.len();
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

/// Checks what must be right of any commit.
fn check_wanted(cx: &Context, wanted: &CommitPartition) -> Result<(), GroupError> {
    let bytes = wanted.committed.metadata.len();
    let bytes_max = cx.settings.offset_metadata_bytes_max;
    if bytes > bytes_max {
        return Err(GroupError::OffsetMetadataTooLarge { bytes, bytes_max });
    }
    if wanted.partition.index < 0 {
        return Err(GroupError::InvalidRequest {
            what: "a partition's index is not negative",
        });
    }
    Ok(())
}
