//! Offsets that are taken away by request: OffsetDelete, and DeleteGroups, which takes the group with them.
//!
//! Both begin only when nothing of the group is under way, and close its gate: a commit must not slip in between.

use super::super::context::{Context, Gate, Then};
use super::super::contract::{Answer, DeleteOffsets, GroupError, Name, PartitionOutcome, Ticket};
use super::super::group::Group;
use super::super::records::{Change, What};

impl Group {
    /// Handles OffsetDelete. An offset that is not there is deleted already.
    pub(crate) fn delete_offsets(&mut self, cx: &mut Context, ticket: Ticket, request: DeleteOffsets) {
        if let Err(error) = self.check_offsets_deletable() {
            cx.answer(ticket, Answer::DeleteOffsets(Err(error)));
            return;
        }
        let subscribed = self.subscribed(cx);
        let mut changes = Vec::new();
        let mut outcomes = Vec::with_capacity(request.partitions.len());
        for partition in request.partitions {
            let topic = &partition.topic;
            let in_use = subscribed.as_ref().is_none_or(|topics| topics.contains(topic));
            let outcome = if in_use {
                Err(GroupError::SubscribedToTopic {
                    topic: Name::clone(topic),
                })
            } else {
                if self.offsets.get(topic, partition.index).is_some() {
                    changes.push(Change::of(&self.name, What::Offset(partition.clone(), None)));
                }
                Ok(())
            };
            outcomes.push(PartitionOutcome { partition, outcome });
        }
        let answer = Answer::DeleteOffsets(Ok(outcomes));
        if changes.is_empty() {
            cx.answer(ticket, answer);
        } else {
            cx.persist(
                &self.name,
                changes,
                Gate::Closed,
                Then::Answer(vec![(ticket, answer)]),
            );
        }
    }

    /// Handles DeleteGroups for this group.
    pub(crate) fn delete(&mut self, cx: &mut Context, ticket: Ticket) {
        let members = self.member_count();
        if members > 0 {
            cx.answer(
                ticket,
                Answer::DeleteGroup(Err(GroupError::NonEmptyGroup { members })),
            );
            return;
        }
        let mut changes = self.offsets.removals(&self.name, |_, _| true);
        changes.extend(self.kind_removals());
        let answer = Answer::DeleteGroup(Ok(()));
        if changes.is_empty() {
            cx.answer(ticket, answer);
        } else {
            cx.persist(
                &self.name,
                changes,
                Gate::Closed,
                Then::Answer(vec![(ticket, answer)]),
            );
        }
    }
}
