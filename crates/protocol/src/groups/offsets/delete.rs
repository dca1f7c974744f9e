//! Offsets that are taken away by request: OffsetDelete, and DeleteGroups, which takes the group with them.
//!
//! Both begin only when nothing of the group is under way, and close its gate: a commit must not slip in between. What is
//! too much for one batch goes in parts, each when the one before is durable; the group goes with the last.

use super::super::context::{Context, Gate, Then};
use super::super::contract::{
    Answer, DeleteGroup, DeleteOffsets, GroupError, Name, PartitionOutcome, Request, Ticket,
};
use super::super::group::Group;
use super::super::records::Change;
use super::Removals;

impl Group {
    /// Handles OffsetDelete. An offset that is not there is deleted already.
    pub(crate) fn delete_offsets(&mut self, cx: &mut Context, ticket: Ticket, request: DeleteOffsets) {
        if let Err(error) = self.check_offsets_deletable() {
            cx.answer(ticket, Answer::DeleteOffsets(Err(error)));
            return;
        }
        let subscribed = self.subscribed(cx);
        let mut removals = Removals::new(cx);
        let mut outcomes = Vec::with_capacity(request.partitions.len());
        for partition in request.partitions.iter().cloned() {
            let topic = &partition.topic;
            let in_use = subscribed.as_ref().is_none_or(|topics| topics.contains(topic));
            let outcome = if in_use {
                Err(GroupError::SubscribedToTopic {
                    topic: Name::clone(topic),
                })
            } else {
                if self.offsets.get(topic, partition.index).is_some() {
                    removals.add(&self.name, partition.clone());
                }
                // They came before.
                for pending in self.offsets.pendings.of(&partition) {
                    removals.add_pending(&self.name, pending.producer, partition.clone());
                }
                Ok(())
            };
            outcomes.push(PartitionOutcome { partition, outcome });
        }
        let answer = Answer::DeleteOffsets(Ok(outcomes));
        let again = Request::DeleteOffsets(request);
        self.take_away(cx, removals, Vec::new(), (ticket, answer), again);
    }

    /// Handles DeleteGroups for this group.
    pub(crate) fn delete(&mut self, cx: &mut Context, ticket: Ticket, request: DeleteGroup) {
        if let Err(error) = self.check_deletable() {
            cx.answer(ticket, Answer::DeleteGroup(Err(error)));
            return;
        }
        let removals = self.offsets.removals(cx, &self.name, |_, _| true, |_| true);
        let answer = Answer::DeleteGroup(Ok(()));
        let again = Request::DeleteGroup(request);
        self.take_away(cx, removals, self.kind_removals(), (ticket, answer), again);
    }

    /// That nobody is in the group, and no open transaction has to do with it.
    fn check_deletable(&self) -> Result<(), GroupError> {
        self.check_empty()?;
        match self.offsets.pendings.len() {
            0 => Ok(()),
            count => Err(GroupError::PendingOffsets { count }),
        }
    }

    /// Takes offsets away, and `rest` with the last of them. If some do not fit, `again` is handled when these are gone.
    fn take_away(
        &self,
        cx: &mut Context,
        removals: Removals,
        rest: Vec<Change>,
        (ticket, answer): (Ticket, Answer),
        again: Request,
    ) {
        let mut changes = removals.changes;
        if removals.are_cut {
            self.persist_before(cx, changes, ticket, again);
            return;
        }
        changes.extend(rest);
        if changes.is_empty() {
            // Nothing is there, or what was is gone by now.
            cx.answer(ticket, answer);
        } else {
            let then = Then::Answer(vec![(ticket, answer)]);
            cx.persist(&self.name, changes, Gate::Closed, then);
        }
    }
}
