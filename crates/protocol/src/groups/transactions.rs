//! The transactions in which groups of this coordinator have pending offsets: of which producers, in which groups, and the ends of
//! transactions that are being carried out.
//!
//! A marker names no group. So this knows for each producer the groups where something of it is pending, or may be as soon as
//! the log has what was taken before the marker: a pending commit that is on its way must not outlive its transaction. What is
//! pending itself stands with each group's offsets, and holds when the log has it.

mod endings;
mod producers;

use std::collections::{BTreeMap, BTreeSet};

use endings::Endings;
use producers::Producers;

use super::Coordinator;
use super::context::Context;
use super::contract::{Answer, EndTransaction, GroupError, Name, Request, Ticket};
use super::group::Group;
use super::records::What;
use super::rounds::WORK_AT_ONCE;
use crate::producers::ProducerId;

/// Bytes that the end of a transaction takes beside its groups, and each of these.
const ENDING_BYTES: usize = 256;
const ENDING_GROUP_BYTES: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    producers: Producers,
    /// The groups in which each producer has pending offsets, as far as the log has them.
    pending: BTreeSet<(ProducerId, Name)>,
    /// The groups for which each producer's pending commits are that were taken and are not answered yet ...
    coming: BTreeMap<(ProducerId, Ticket), Name>,
    /// ... and the producer of each.
    coming_from: BTreeMap<Ticket, ProducerId>,
    endings: Endings,
}

/// The news that a change from the log has of a producer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingNews {
    producer: ProducerId,
    /// The epochs of the producer and of the last transaction coordinator, unless it takes away.
    epochs: Option<(i16, i32)>,
}

impl What {
    /// The news of a producer that the change has; `None` if it is not about pending offsets.
    pub(crate) fn pending_news(&self) -> Option<PendingNews> {
        let What::Pending(producer, _, value) = self else {
            return None;
        };
        let epochs = value.as_ref();
        Some(PendingNews {
            producer: *producer,
            epochs: epochs.map(|value| (value.producer_epoch, value.coordinator_epoch)),
        })
    }
}

impl Transactions {
    /// A group has taken a change from the log.
    pub(crate) fn note(&mut self, group: &Group, news: PendingNews) {
        let PendingNews { producer, epochs } = news;
        if let Some((epoch, coordinator_epoch)) = epochs {
            self.producers.note_pending(producer, epoch, coordinator_epoch);
        }
        let place = (producer, Name::clone(&group.name));
        if group.offsets.pendings().has(producer) {
            self.pending.insert(place);
        } else if self.pending.remove(&place) && !self.has_pending(producer) {
            self.producers.note_settled(producer);
        }
    }

    /// Checks that a producer with this epoch may commit.
    pub(crate) fn check_commit(&self, producer: ProducerId, epoch: i16) -> Result<(), GroupError> {
        self.producers.check_epoch(producer, epoch)
    }

    /// Returns the highest epoch that a transaction coordinator has shown for a producer; -1 if none is known.
    pub(crate) fn coordinator_epoch(&self, producer: ProducerId) -> i32 {
        self.producers.coordinator_epoch(producer)
    }

    /// A pending commit is taken.
    pub(crate) fn note_coming(&mut self, ticket: Ticket, producer: ProducerId, group: &Name) {
        self.coming.insert((producer, ticket), Name::clone(group));
        self.coming_from.insert(ticket, producer);
    }

    /// A pending commit is answered: by now it is pending, or never will be.
    fn forget_coming(&mut self, ticket: Ticket) {
        if let Some(producer) = self.coming_from.remove(&ticket) {
            self.coming.remove(&(producer, ticket));
        }
    }

    fn has_pending(&self, producer: ProducerId) -> bool {
        self.pending_groups(producer).next().is_some()
    }

    fn pending_groups(&self, producer: ProducerId) -> impl Iterator<Item = &Name> + '_ {
        let first = (producer, Name::default());
        let groups = self.pending.range(first..).map(|(of, group)| (*of, group));
        groups
            .take_while(move |(of, _)| *of == producer)
            .map(|(_, group)| group)
    }

    /// The groups that an end of a transaction of this producer concerns.
    fn groups_of(&self, producer: ProducerId) -> BTreeSet<Name> {
        let coming = self
            .coming
            .range((producer, Ticket(0))..=(producer, Ticket(u64::MAX)));
        let coming = coming.map(|(_, group)| group);
        self.pending_groups(producer).chain(coming).cloned().collect()
    }
}

impl Context {
    /// Begins to end a transaction, or answers at once if nothing is to be done.
    fn begin_end(&mut self, ticket: Ticket, end: EndTransaction) -> Result<(), GroupError> {
        self.transactions.producers.check_end(&end)?;
        let groups = self.transactions.groups_of(end.producer);
        self.transactions.producers.note_end(&end);
        if groups.is_empty() {
            self.answer(ticket, Answer::EndTransaction(Ok(())));
            return Ok(());
        }
        let bytes = ENDING_BYTES + groups.len() * ENDING_GROUP_BYTES;
        self.begin_waiting(bytes)?;
        self.transactions
            .endings
            .begin(ticket, end, groups.into_iter().collect(), bytes);
        Ok(())
    }

    /// Keeps the accounts of an answer that is about transactions. Returns it unless it is only that of one of several groups.
    pub(crate) fn note_answer(&mut self, ticket: Ticket, answer: Answer) -> Option<Answer> {
        match answer {
            Answer::EndTransaction(result) => {
                let (result, bytes) = self.transactions.endings.finish_one(ticket, result)?;
                self.end_waiting(bytes);
                Some(Answer::EndTransaction(result))
            }
            Answer::CommitPending(_) => {
                self.transactions.forget_coming(ticket);
                Some(answer)
            }
            other => Some(other),
        }
    }
}

impl Coordinator {
    /// Takes the end of a transaction. Groups that do not get to it at once do with the next actions.
    pub(super) fn end_transaction(&mut self, ticket: Ticket, end: EndTransaction) {
        if let Err(error) = self.cx.begin_end(ticket, end) {
            self.cx.answer(ticket, Answer::EndTransaction(Err(error)));
        }
        self.hand_out_ends();
    }

    /// Hands ends of transactions to the next of their groups, to some at a time: the others follow when these are done.
    pub(super) fn hand_out_ends(&mut self) {
        while let Some((ticket, end)) = self.cx.transactions.endings.next_ready() {
            let mut work = 0;
            while work < WORK_AT_ONCE
                && let Some(name) = self.cx.transactions.endings.next_group(ticket)
            {
                let Some(group) = self.groups.get(&name) else {
                    // All that was pending there is gone.
                    self.cx.answer(ticket, Answer::EndTransaction(Ok(())));
                    continue;
                };
                work += 1 + group.offsets.pendings().len();
                self.at_group(&name, |group, cx| {
                    group.take(cx, ticket, Request::EndTransaction(end));
                });
            }
            // In the place of the round itself, which `next_ready` counts as one that is at work.
            self.cx.answer(ticket, Answer::EndTransaction(Ok(())));
        }
    }
}
