//! The steps of a replica, carried out one behind the other: entries are staged, messages sent, news told.
//!
//! Stands behind [`Shard::hear`], and behind appends and trims of leaders. An entry that cannot be staged gives its replica up: it must never go on with a log that
//! is not what it says.

use bytes::Bytes;
use planted::{Bug, planted};
use protocol::Part;
use protocol::leader::{Action as LeaderAction, NodeId};
use protocol::replica::{NO_EPOCH, Persist, Prompt, Refusal, Sworn};
use record::{Epoch, PartitionId};
use storage::{BatchBytes, Reserve, StageError};

use super::Linked;
use super::words::Message;
use crate::member::{AtHand, Report, Step};
use crate::{AppendRefusal, Partition, Role, Shard};

impl Shard {
    /// Does what the replica of a partition wants done.
    pub(crate) fn carry_out(&self, id: PartitionId, partition: &mut Partition, mut at_hand: AtHand) {
        // A scribe names what is committed at once, and reads it where it follows.
        let is_told_at_once = partition.reporter.is_some();
        loop {
            let Role::Member(member) = &mut partition.role else {
                return;
            };
            let Some(step) = member.next_step(&mut at_hand) else {
                break;
            };
            match step {
                Step::Stage(entry, batch) => {
                    if let Err(error) = self.stage_entry(id, &entry, &batch) {
                        tracing::error!(partition = %id, %error, "a replica is given up until the next start");
                        member.give_up();
                        partition.refuse_waiting(&AppendRefusal::Abandoned);
                        partition.wake_readers();
                        return;
                    }
                    if matches!(entry, Persist::Base(_)) {
                        member.note_base();
                        self.replication.base_is_unsaved.set(true);
                    }
                }
                Step::Send(to, prompt) => self.send(to, id, Message::Prompt(prompt, Vec::new())),
                Step::Leave { leader, epoch, floor } => {
                    let refusal = Refusal::Fenced { floor };
                    let prompt = Prompt::Refused { epoch, refusal };
                    self.send(leader, id, Message::Prompt(prompt, Vec::new()));
                    let until = self.replication.leases.borrow().believes_until(leader);
                    member.note_left(leader, until);
                }
                Step::Wake(at) => self.look_again_at(id, at),
                Step::Swear(to, mut sworn) => {
                    if let Sworn::Promised { believers, .. } = &mut sworn
                        && !planted(Bug::BelieversForgotten)
                    {
                        *believers = member.believers(self.clock.monotonic());
                    }
                    match to != self.settings.node && member.unsaved_base().is_some() {
                        true => member.hold(to, sworn),
                        false => self.swear(id, to, sworn),
                    }
                }
                Step::Ship(shipment) => self.ship_later(id, shipment),
                Step::FindFirst(log_start) => self.find_first_later(id, log_start),
                Step::Lead(action) => {
                    match action {
                        LeaderAction::Commit { .. } if is_told_at_once => self.tell_tail(id, member),
                        LeaderAction::Commit { .. } => self.tell_tail_later(id),
                        _ => {}
                    }
                    partition.act_on(action);
                }
                Step::Show => partition.wake_readers(),
                Step::Report(report) => self.report(id, report),
                Step::CaughtUp { epoch, replica } => self.report_caught_up(id, epoch, replica),
            }
        }
        self.settle(id, partition);
    }

    fn report(&self, id: PartitionId, report: Report) {
        self.replication.reports.borrow_mut().push((id, report));
        self.replication.news.notify_one();
    }

    /// Reports a replica that holds all that is committed. One whose link is lost is looked at again with the next.
    fn report_caught_up(&self, id: PartitionId, epoch: Epoch, replica: NodeId) {
        let linked = self.replication.linked.borrow().get(&replica).copied();
        if let Some(Linked { start, .. }) = linked {
            let report = Report::CaughtUp {
                epoch,
                replica,
                start,
            };
            self.report(id, report);
        }
    }

    /// After a replica's steps: tells the store what is committed, gives its room back, and has followers hear of what they lack.
    pub(super) fn settle(&self, id: PartitionId, partition: &mut Partition) {
        let Role::Member(member) = &mut partition.role else {
            return;
        };
        self.replication.give_back_room(id, member.settle());
        if member.has_unsent() {
            self.replication.unsent.borrow_mut().insert(id);
            self.flushing.want();
        }
        if member.look_at_live() {
            self.tell_tail_later(id);
        }
        let (mut store, replica) = (self.store.borrow_mut(), &member.replica);
        assert_eq!(
            store.bounds(id),
            Some((replica.log_start(), replica.next_offset())),
            "replica and store know the same log"
        );
        store.commit_to(id, replica.tail());
    }

    fn stage_entry(&self, id: PartitionId, entry: &Persist, batch: &Bytes) -> Result<(), StageError> {
        let mut store = self.store.borrow_mut();
        match entry {
            Persist::Append { batch: facts } => {
                let mut batch = BatchBytes::from(batch.clone());
                let aborts = match facts.part {
                    Part::Ends(ending) => ending.aborts,
                    _ => None,
                };
                store.append_copy(id, &mut batch, aborts, Reserve::Keep)?;
            }
            Persist::Accept {
                epoch,
                first,
                writer_before,
            } => {
                let before = Some(*writer_before).filter(|before| *before != NO_EPOCH);
                store.accept(id, *epoch, *first, before)?;
            }
            Persist::Cut { first } => {
                store.cut(id, *first)?;
            }
            Persist::Promise { epoch } => {
                store.promise(id, *epoch, self.settings.node.0)?;
            }
            Persist::Base(base) => {
                store.begin_at(id, base.first)?;
            }
            Persist::Trim { log_start } => {
                store.trim(id, *log_start)?;
            }
        }
        self.flushing.want();
        Ok(())
    }
}
