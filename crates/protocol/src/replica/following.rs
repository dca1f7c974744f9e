//! A replica that does as the leader of the latest epoch says: promise, compare, append, accept, commit.
//!
//! Stands between the link and the journal. It must never stage anything for an epoch below one that it promised or was told
//! of, and never say that it holds what it has not compared.

use std::collections::VecDeque;
use std::time::Duration;

use planted::{Bug, planted};
use record::{Epoch, Offset};

use super::contract::{Action, Base, Landmark, Prompt, Refusal, Sworn};
use super::log::{Log, Met};
use crate::history::BatchFacts;
use crate::leader::NodeId;

/// A request of a leader that this replica listens to, and where the answers go.
pub(super) struct Following<'a> {
    pub(super) log: &'a mut Log,
    pub(super) actions: &'a mut VecDeque<Action>,
    pub(super) leader: NodeId,
    /// The leader's epoch. No later one was promised.
    pub(super) epoch: Epoch,
    pub(super) is_certain: bool,
    /// The question of a leader that waits for the beginning of the first batch.
    pub(super) sought: &'a mut Option<Sought>,
}

/// A leader's question for a landmark at an offset.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sought {
    pub(super) leader: NodeId,
    pub(super) epoch: Epoch,
    pub(super) at: Offset,
}

impl Following<'_> {
    /// Carries out a request, or refuses it.
    pub(super) fn handle(mut self, now: Duration, request: &Prompt) {
        let done = match request {
            Prompt::Seal { .. } => self.seal(),
            Prompt::Locate { at, .. } => self.locate(now, *at),
            Prompt::Copy { first, .. } => self.copy(*first),
            Prompt::Compare { landmark, .. } if self.must_meet(landmark) => {
                self.fence();
                match self.log.meet(now, landmark, self.actions) {
                    Ok(Met::At(next_offset)) => {
                        self.log.verify(self.epoch, next_offset);
                        self.acknowledge(next_offset)
                    }
                    Ok(Met::Not { ask }) => self.send(Prompt::Differs {
                        epoch: self.epoch,
                        at: ask,
                    }),
                    Err(refusal) => Err(refusal),
                }
            }
            Prompt::Compare { .. } => self.acknowledge(self.log.next_offset()),
            Prompt::Append {
                writer_before,
                batches,
                ..
            } => self.append(*writer_before, batches),
            Prompt::Accept {
                first, writer_before, ..
            } => self.accept(*first, *writer_before),
            Prompt::Commit { tail, .. } => {
                self.log.hear_tail(self.epoch, *tail);
                Ok(())
            }
            Prompt::Trim { log_start, .. } => self.trim(now, *log_start),
            Prompt::Differs { .. } | Prompt::Refused { .. } => Ok(()),
        };
        self.commit_what_is_here(now);
        if let Err(refusal) = done {
            let epoch = self.epoch;
            self.actions.push_back(Action::Send {
                to: self.leader,
                message: Prompt::Refused { epoch, refusal },
            });
        }
    }

    fn seal(&mut self) -> Result<(), Refusal> {
        self.log.promise(self.epoch, self.actions);
        self.swear(Sworn::Promised {
            epoch: self.epoch,
            standing: self.log.standing(self.is_certain),
            believers: Vec::new(),
        })
    }

    /// Serves a leader that is opening. The answer carries the fence: a seal that was lost must not be passed by.
    fn locate(&mut self, now: Duration, at: Offset) -> Result<(), Refusal> {
        self.fence();
        let log = &*self.log;
        if at < log.log_start() && log.must_find_first() {
            let (leader, epoch, log_start) = (self.leader, self.epoch, log.log_start());
            *self.sought = Some(Sought { leader, epoch, at });
            self.actions.push_back(Action::FindFirst { log_start });
            return Ok(());
        }
        let history = log.history().expect("a follower has its history");
        let landmark = log.landmark(at, || (log.tail(), history.snapshot(now, log.tail())));
        self.swear(Sworn::Located {
            epoch: self.epoch,
            landmark,
        })
    }

    fn copy(&mut self, first: Offset) -> Result<(), Refusal> {
        self.fence();
        if first < self.log.first() || first >= self.log.next_offset() {
            return Err(self.apart());
        }
        self.actions.push_back(Action::Ship {
            to: self.leader,
            epoch: self.epoch,
            first,
            next_offset: self.log.next_offset(),
        });
        Ok(())
    }

    /// A log that has accepted the epoch is a prefix of the leader's. It may yet end where that does not begin any more.
    fn must_meet(&self, landmark: &Landmark) -> bool {
        let ends_below = |base: &Base| base.first > self.log.next_offset();
        let is_left_behind =
            matches!(landmark, Landmark::Base(base) if ends_below(base)) && !planted(Bug::LeftBehindByTrim);
        self.log.accepted() < self.epoch || is_left_behind
    }

    fn append(&mut self, writer_before: Epoch, batches: &[BatchFacts]) -> Result<(), Refusal> {
        let mut before = writer_before;
        let mut held = None;
        for batch in batches {
            let end = (batch.first_offset.0).checked_add(i64::from(batch.record_count));
            let is_sound = batch.record_count > 0 && end.is_some() && batch.epoch <= self.epoch;
            if !is_sound {
                return Err(self.apart());
            }
            if !self.log.holds(batch) {
                self.take(before, batch)?;
            }
            self.log.verify(self.epoch, batch.next_offset());
            before = batch.epoch;
            held = Some(batch.next_offset());
        }
        let whole = self.log.accepted() == self.epoch;
        if planted(Bug::CatchUpKeepsAccepted) && before == self.epoch {
            return self.swear(Sworn::Acknowledged {
                epoch: self.epoch,
                accepted: self.epoch,
                next_offset: self.log.next_offset(),
            });
        }
        match (whole, held) {
            (true, _) => self.acknowledge(self.log.next_offset()),
            (false, Some(next_offset)) => self.acknowledge(next_offset),
            (false, None) => Ok(()),
        }
    }

    fn take(&mut self, writer_before: Epoch, batch: &BatchFacts) -> Result<(), Refusal> {
        let continues = self.log.continues_at(batch.first_offset, writer_before)
            || (planted(Bug::WriterBeforeIgnored) && batch.first_offset >= self.log.first());
        let at_end = batch.first_offset == self.log.next_offset();
        if !at_end || !continues || batch.epoch < self.log.last_writer() {
            return Err(self.apart());
        }
        if batch.epoch < self.epoch {
            self.fence();
        }
        self.log.append(*batch, self.actions);
        Ok(())
    }

    /// An accept that comes again, or late, changes nothing: what was written since must stay.
    fn accept(&mut self, first: Offset, writer_before: Epoch) -> Result<(), Refusal> {
        if self.log.accepted() < self.epoch || planted(Bug::ResentAcceptCuts) {
            let reaches = self.log.continues_at(first, writer_before);
            let short = planted(Bug::AcceptedShort) && first > self.log.next_offset();
            if !reaches && !short {
                return Err(self.apart());
            }
            let first = first.min(self.log.next_offset());
            self.log.accept(self.epoch, first, writer_before, self.actions)?;
        }
        self.acknowledge(self.log.next_offset())
    }

    /// Of a log that is not accepted yet, only what was compared is the leader's. It is committed there, so it is here: a replica that
    /// lacks much could not lay out what it is sent before.
    fn commit_what_is_here(&mut self, now: Duration) {
        let Some(tail) = self.log.heard_tail(self.epoch) else {
            return;
        };
        // A batch that stands for several which compaction took may span it: all of them were committed there.
        let tail = match planted(Bug::CommitsPartOfGap) {
            true => tail,
            false => self.log.end_of_batch(tail),
        };
        if self.log.commit(now, tail.min(self.log.verified(self.epoch))) {
            let tail = self.log.tail();
            self.actions.push_back(Action::Committed { tail });
        }
    }

    fn trim(&mut self, now: Duration, log_start: Offset) -> Result<(), Refusal> {
        if self.log.accepted() != self.epoch || log_start > self.log.next_offset() {
            return Err(self.apart());
        }
        self.log.trim(now, log_start, self.actions);
        self.acknowledge(self.log.next_offset())
    }

    fn fence(&mut self) {
        self.log.promise(self.epoch, self.actions);
    }

    fn apart(&self) -> Refusal {
        Refusal::Apart {
            tail: self.log.tail(),
        }
    }

    fn acknowledge(&mut self, next_offset: Offset) -> Result<(), Refusal> {
        self.swear(Sworn::Acknowledged {
            epoch: self.epoch,
            accepted: self.log.accepted(),
            next_offset,
        })
    }

    fn swear(&mut self, message: Sworn) -> Result<(), Refusal> {
        let to = self.leader;
        self.actions.push_back(Action::SendDurable { to, message });
        Ok(())
    }

    fn send(&mut self, message: Prompt) -> Result<(), Refusal> {
        let to = self.leader;
        self.actions.push_back(Action::Send { to, message });
        Ok(())
    }
}
