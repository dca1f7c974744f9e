//! The end of a transaction in one group: what is pending becomes the offset, or goes.
//!
//! Begins only when nothing of the group is under way, and closes its gate. So all commits that were taken before it are known,
//! and whether one of them has overtaken what is pending; those that come later stand behind it in the log. Too much
//! for one batch goes in parts, each when the one before is durable. A partition's records are in one part: its pending offset
//! goes in the batch that has the offset, and until then it is unstable.

use planted::{Bug, planted};

use super::super::context::{Context, Gate, Then};
use super::super::contract::{Answer, EndTransaction, Request, Ticket, TopicPartition};
use super::super::group::Group;
use super::super::records::{Change, What};
use super::super::rounds::WORK_AT_ONCE;
use super::super::settings::OFFSET_RECORD_BYTES;

impl Group {
    /// Carries out the end of a transaction.
    pub(crate) fn end_transaction(&mut self, cx: &mut Context, ticket: Ticket, end: EndTransaction) {
        let (mut changes, mut are_cut) = (Vec::new(), false);
        let mut bytes = 0;
        for partition in self.offsets.pendings.of_producer(end.producer) {
            let more = self.end_partition(&end, partition);
            bytes += more
                .iter()
                .map(|change| self.record_bytes(&change.what))
                .sum::<usize>();
            let is_full = bytes > cx.settings.commit_bytes_max || changes.len() >= WORK_AT_ONCE;
            if is_full && !changes.is_empty() {
                are_cut = true;
                break;
            }
            changes.extend(more);
        }
        let answer = Answer::EndTransaction(Ok(()));
        if changes.is_empty() {
            // Nothing was pending, or it is done.
            cx.answer(ticket, answer);
        } else if are_cut {
            self.persist_before(cx, changes, ticket, Request::EndTransaction(end));
        } else {
            let then = Then::Answer(vec![(ticket, answer)]);
            cx.persist(&self.name, changes, Gate::Closed, then);
        }
    }

    fn end_partition(&self, end: &EndTransaction, partition: &TopicPartition) -> Vec<Change> {
        let all = self.offsets.pendings.of(partition);
        let at = all.iter().position(|pending| pending.producer == end.producer);
        let at = at.expect("the producer has something pending there");
        let ended = &all[at];
        if !end.ends(ended.value.producer_epoch) {
            return Vec::new();
        }
        let mut changes = Vec::new();
        let holds = !ended.value.is_overtaken || planted(Bug::PendingOverridesLater);
        if end.commit && holds {
            let offset = ended.value.offset.clone();
            changes.push(What::Offset(partition.clone(), Some(offset)));
            // It stands behind them in the log now, though they were committed later: so they are written again.
            let later = all[at + 1..].iter().map(|later| {
                let value = later.value.clone();
                What::Pending(later.producer, partition.clone(), Some(value))
            });
            changes.extend(later);
        }
        changes.push(What::Pending(end.producer, partition.clone(), None));
        changes
            .into_iter()
            .map(|what| Change::of(&self.name, what))
            .collect()
    }

    /// Returns the bytes that a record of an offset takes, at most.
    fn record_bytes(&self, what: &What) -> usize {
        let (partition, offset) = match what {
            What::Offset(partition, offset) => (partition, offset.as_ref()),
            What::Pending(_, partition, value) => (partition, value.as_ref().map(|value| &value.offset)),
            other => unreachable!("{other:?} is no offset"),
        };
        let noted = offset.map_or(0, |offset| offset.committed.metadata.len());
        OFFSET_RECORD_BYTES + self.name.len() + partition.topic.len() + noted
    }
}
