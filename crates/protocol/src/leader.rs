//! The leader of one partition for one epoch: it numbers appends and says what is committed.
//!
//! Stands between the produce handler and the journal. An append takes two steps, so that a journal that refuses
//! (its disk is full) leaves no trace: `check_append` numbers the batch without changing anything, the store takes
//! the bytes, `handle_append` makes the number final. So does a trim: `check_trim`, the store, `handle_trim`. The tail
//! must never move back, and nothing is committed that the ack quorum has not acknowledged.
//!
//! ```text
//!   log_start            tail              next_offset
//!   |  committed, readable |  not yet committed  |
//!   trimmed before         answered up to here   the next batch goes here
//! ```

mod contract;
mod state;
#[cfg(test)]
mod tests;
mod transactions;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use planted::{Bug, planted};
use record::{Epoch, Offset};

pub use contract::{AckError, Action, Append, AppendError, Appended, Checked, Numbered, Sealed, TrimError};
pub use state::{Durability, Found, LeaderState, NodeId, Replica};
pub use transactions::{EndMarker, Inside, Permit, TransactionError};

use crate::epochs::{EpochEnd, Epochs};
use crate::history::{History, Part, Vows};
use crate::producers::{Admission, ProducerId, Producers, Sequence, ShareChange, WrittenBatch};

/// The leader of one partition for one epoch.
#[derive(Debug, Clone)]
pub struct Leader {
    state: LeaderState,
    tail: Offset,
    /// Replicas that a topic wants to hold a batch before it is acknowledged (`min.insync.replicas`), at most all.
    insync_min: usize,
    /// Replicas that hold a batch before it is committed: the ack quorum, or more.
    commit_quorum: usize,
    /// Batches below this were promised to be flushed: their flush acknowledges them, whatever is promised since.
    flushed_until: Offset,
    sealed: bool,
    /// The changes that no action has reported yet.
    due: Due,
    /// The producers that may open a transaction.
    permits: BTreeMap<ProducerId, Permit>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Due {
    durable_here: bool,
    commit: bool,
    abandon: bool,
}

impl Leader {
    /// Opens an epoch at the end of the log. What lies between the tail and the end is committed once the ack quorum has
    /// acknowledged it in this epoch; a leader that is its own ack quorum commits at once what it has made durable.
    ///
    /// # Panics
    /// The state contradicts itself (see [`LeaderState`]): it comes from our own metadata and storage.
    #[must_use]
    pub fn open(mut state: LeaderState) -> Leader {
        state.assert_sound();
        state
            .history
            .epochs
            .open(state.epoch, state.next_offset)
            .expect("the metadata opens only epochs above those whose batches are in the log");
        let mut leader = Leader {
            tail: state.tail,
            insync_min: state.ack_quorum,
            commit_quorum: state.ack_quorum,
            flushed_until: Offset::ZERO,
            sealed: false,
            due: Due::default(),
            permits: BTreeMap::new(),
            state,
        };
        leader.commit();
        leader
    }

    /// Numbers a batch, finds it to be a duplicate, or refuses it. Changes nothing.
    ///
    /// # Errors
    /// See [`AppendError`].
    pub fn check_append(&self, append: &Append, admission: &Admission) -> Result<Checked, AppendError> {
        if self.sealed {
            return Err(AppendError::Sealed {
                epoch: self.state.epoch,
            });
        }
        if append.record_count < 1 {
            return Err(AppendError::InvalidRecordCount {
                got: append.record_count,
            });
        }
        let mut takes_on_producer = false;
        if let Some(stamp) = append.producer {
            match self.producers().check(stamp, append.record_count, admission)? {
                Sequence::Next => {}
                Sequence::First => takes_on_producer = true,
                Sequence::Duplicate(written) => {
                    return Ok(Checked::Duplicate(Appended {
                        first_offset: written.first_offset,
                        next_offset: written.next_offset(),
                    }));
                }
            }
        }
        if self.check_inside(append)? {
            return Ok(Checked::Unverified);
        }
        let part = match append.inside {
            Some(_) => Part::Inside,
            None => Part::Outside,
        };
        let numbered = self.number(append, admission, takes_on_producer, part)?;
        Ok(Checked::New(numbered))
    }

    /// The place of a batch that comes next.
    fn number(
        &self,
        append: &Append,
        admission: &Admission,
        takes_on_producer: bool,
        part: Part,
    ) -> Result<Numbered, AppendError> {
        let first_offset = self.state.next_offset;
        let Some(next) = first_offset.0.checked_add(i64::from(append.record_count)) else {
            let record_count = append.record_count;
            return Err(AppendError::OffsetsExhausted {
                next_offset: first_offset,
                record_count,
            });
        };
        let epoch = self.state.epoch;
        Ok(Numbered {
            first_offset,
            next_offset: Offset(next),
            epoch,
            append: *append,
            admission: *admission,
            takes_on_producer,
            part,
        })
    }

    /// Makes a number final: the store has taken the batch. Call this before anything else is appended.
    ///
    /// # Panics
    /// The number is not the latest one, or the epoch was sealed since: two batches would share offsets.
    pub fn handle_append(&mut self, now: Duration, numbered: Numbered) -> Appended {
        let Numbered {
            first_offset,
            next_offset,
            epoch,
            append,
            admission,
            part,
            ..
        } = numbered;
        assert!(!self.sealed, "a sealed epoch accepts nothing");
        assert_eq!(
            epoch, self.state.epoch,
            "a batch is numbered in the epoch that appends it"
        );
        assert_eq!(
            first_offset, self.state.next_offset,
            "offsets are given out once and without gaps"
        );
        if let Some(stamp) = append.producer {
            let written = WrittenBatch {
                first_sequence: stamp.first_sequence,
                record_count: append.record_count,
                first_offset,
                max_timestamp_ms: append.max_timestamp_ms,
            };
            self.revoke_permit(stamp.id);
            let producers = &mut self.state.history.producers;
            match part {
                Part::Ends(ending) => producers.note_end(now, stamp, &ending, first_offset),
                Part::Inside => {
                    producers.make_way(stamp, &admission);
                    producers.note_inside_from(admission.from, now, stamp, written);
                }
                Part::Outside => {
                    producers.make_way(stamp, &admission);
                    producers.note_from(admission.from, now, stamp, written);
                }
            }
            if planted(Bug::StableFromStaged) {
                producers.settle(next_offset);
            }
        }
        self.state.next_offset = next_offset;
        self.acknowledge_received();
        Appended {
            first_offset,
            next_offset,
        }
    }

    /// A replica (the leader's own among them) has acknowledged everything below `next_offset`: it is durable there, or
    /// with [`Durability::Memory`] received. Late and repeated acknowledgements change nothing, nor does any that
    /// arrives after the seal: whoever sealed may have decided otherwise by then.
    ///
    /// # Errors
    /// See [`AckError`].
    pub fn handle_durable(&mut self, replica: NodeId, next_offset: Offset) -> Result<(), AckError> {
        if self.sealed {
            return Ok(());
        }
        self.acknowledge(replica, next_offset)?;
        if replica == self.state.node {
            self.acknowledge_received();
        }
        Ok(())
    }

    /// Forgets what a replica has acknowledged: it is connected anew, or its disk is in doubt, and says again what it holds.
    /// Committed batches stay committed.
    pub fn handle_lost(&mut self, replica: NodeId) {
        let mut replicas = self.state.replicas.iter_mut();
        if let Some(known) = replicas.find(|known| known.node == replica) {
            known.next_offset = Offset::ZERO;
        }
    }

    /// Has a batch count as acknowledged once so many replicas hold it, at most all and at least the ack quorum (`min.insync.replicas`).
    /// With `all_are_there` nothing is committed before that either, as in Kafka; else the ack quorum commits, and its producers are told.
    pub fn handle_insync_min(&mut self, replicas: u32, all_are_there: bool) {
        let most = self.state.replicas.len();
        self.insync_min = (replicas as usize).clamp(self.state.ack_quorum, most);
        self.commit_quorum = match all_are_there {
            true => self.insync_min,
            false => self.state.ack_quorum,
        };
        if !self.sealed {
            self.commit();
        }
    }

    /// The end of what is committed and on as many replicas as the topic wants.
    #[must_use]
    pub fn held(&self) -> Offset {
        match self.insync_min == self.state.ack_quorum {
            true => self.tail,
            false => self.tail.min(self.state.held_by(self.insync_min)),
        }
    }

    /// Ends the epoch: nothing is appended, committed or trimmed in it any more. A second seal finds the same.
    pub fn handle_seal(&mut self) -> Sealed {
        if !self.sealed {
            self.sealed = true;
            self.due.abandon = self.tail < self.state.next_offset;
        }
        Sealed {
            epoch: self.state.epoch,
            tail: self.tail,
            next_offset: self.state.next_offset,
        }
    }

    /// Opens a later epoch at the end of the same log: this node goes on leading. What was committed stays so, and the rest is once
    /// the ack quorum has acknowledged it. Followers acknowledge anew what they hold; the leader's own replica holds what it held.
    ///
    /// # Panics
    /// The epoch is not above the present one: the metadata opens each once, in their order.
    pub fn handle_epoch(&mut self, epoch: Epoch) {
        self.state
            .history
            .epochs
            .open(epoch, self.state.next_offset)
            .expect("the metadata opens epochs in their order");
        self.state.epoch = epoch;
        self.sealed = false;
        self.due.abandon = false;
        let own = self.state.node;
        let followers = self
            .state
            .replicas
            .iter_mut()
            .filter(|replica| replica.node != own);
        followers.for_each(|follower| follower.next_offset = Offset::ZERO);
    }

    /// Returns the offset where the log would begin if everything below `first_kept` was given up, for DeleteRecords and for
    /// retention. Below the present start nothing is left to give up. Changes nothing.
    ///
    /// # Errors
    /// See [`TrimError`].
    pub fn check_trim(&self, first_kept: Offset) -> Result<Offset, TrimError> {
        if self.sealed {
            return Err(TrimError::Sealed {
                epoch: self.state.epoch,
            });
        }
        if first_kept < Offset::ZERO || first_kept > self.tail {
            return Err(TrimError::OutOfRange {
                log_start: self.state.log_start,
                tail: self.tail,
                got: first_kept,
            });
        }
        Ok(first_kept.max(self.state.log_start))
    }

    /// Has the log begin where `check_trim` has said: the store has taken the trim. It must be durable before it is answered,
    /// and before anything is freed.
    ///
    /// # Panics
    /// The epoch was sealed since, or `log_start` is none that `check_trim` would give.
    pub fn handle_trim(&mut self, log_start: Offset) {
        assert!(!self.sealed, "nothing is given up in a sealed epoch");
        assert!(log_start <= self.tail, "only committed records are given up");
        assert!(log_start >= self.state.log_start, "what was given up is gone");
        if log_start > self.state.log_start {
            self.state.log_start = log_start;
            self.state.history.epochs.trim(log_start);
        }
    }

    /// Changes how much a producer's answer promises from the next append on (`ropewalk.durability`).
    pub fn handle_durability(&mut self, durability: Durability) {
        if (self.state.durability, durability) == (Durability::Flushed, Durability::Memory) {
            self.flushed_until = self.state.next_offset;
        }
        self.state.durability = durability;
    }

    /// Forgets the producers that have been silent for too long.
    pub fn handle_time(&mut self, now: Duration) {
        self.state.history.producers.handle_time(now);
    }

    /// Forgets the producers that cannot retry any more: their memory is needed for others.
    pub fn forget_settled_producers(&mut self, now: Duration) {
        self.state.history.producers.forget_settled(now);
    }

    /// Takes the changes of the addresses' shares since this was called last, for whoever counts them over many partitions.
    pub fn take_share_changes(&mut self) -> Vec<ShareChange> {
        self.state.history.producers.take_share_changes()
    }

    /// Returns the time when [`Leader::handle_time`] has something to do. Nothing breaks if it comes late.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        self.state.history.producers.deadline()
    }

    /// The next thing to be done; call until `None`. What several inputs led to is reported once.
    pub fn next_action(&mut self) -> Option<Action> {
        let Due {
            durable_here,
            commit,
            abandon,
        } = std::mem::take(&mut self.due);
        // One at a time, commits first: they are what somebody waits for.
        if commit {
            self.due = Due {
                durable_here: durable_here && self.durable_here() > self.tail,
                commit: false,
                abandon,
            };
            return Some(Action::Commit {
                tail: self.tail,
                held: self.held(),
            });
        }
        if durable_here {
            self.due = Due {
                abandon,
                ..Due::default()
            };
            return Some(Action::DurableHere {
                next_offset: self.durable_here(),
            });
        }
        abandon.then_some(Action::Abandon { tail: self.tail })
    }

    /// The history up to the tail as bytes for a checkpoint, with the offset it stands for: replay starts there.
    #[must_use]
    pub fn snapshot_history(&self, now: Duration) -> (Offset, Bytes) {
        self.snapshot_history_of(now, self.state.history.vows)
    }

    /// The same for a replica that keeps its vows elsewhere.
    #[must_use]
    pub fn snapshot_history_of(&self, now: Duration, vows: Vows) -> (Offset, Bytes) {
        let history = self.state.history.snapshot_of(now, self.tail, vows);
        (self.tail, history)
    }

    /// Gives up leading: the history of all that was appended, committed or not.
    #[must_use]
    pub fn into_history(self) -> History {
        self.state.history
    }

    /// Returns the end of `epoch` (Kafka's OffsetForLeaderEpoch). One that lies below the log's start ended there, as far as clients are told.
    #[must_use]
    pub fn epoch_end_offset(&self, epoch: Epoch) -> EpochEnd {
        let end = self.state.history.epochs.end_of(epoch, self.state.next_offset);
        match end == EpochEnd::UNDEFINED {
            true => end,
            false => EpochEnd {
                next_offset: end.next_offset.max(self.state.log_start),
                ..end
            },
        }
    }

    /// This leader's epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.state.epoch
    }

    /// The first offset that has not been given up.
    #[must_use]
    pub fn log_start(&self) -> Offset {
        self.state.log_start
    }

    /// The first offset not yet committed (Kafka's high watermark).
    #[must_use]
    pub fn tail(&self) -> Offset {
        self.tail
    }

    /// The offset that the next batch gets.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        self.state.next_offset
    }

    /// The first offset that the leader's own replica has not acknowledged.
    #[must_use]
    pub fn durable_here(&self) -> Offset {
        self.state.own_replica().next_offset
    }

    /// The promise in an acknowledgement.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.state.durability
    }

    /// The epochs of the partition.
    #[must_use]
    pub fn epochs(&self) -> &Epochs {
        &self.state.history.epochs
    }

    /// The idempotent producers of the partition.
    #[must_use]
    pub fn producers(&self) -> &Producers {
        &self.state.history.producers
    }

    /// Acknowledges all that was appended, if having received it is enough: an acknowledgement is also one of all before it.
    fn acknowledge_received(&mut self) {
        let is_enough = self.state.durability == Durability::Memory || planted(Bug::CommittedWhenStaged);
        if is_enough && self.durable_here() >= self.flushed_until {
            self.acknowledge(self.state.node, self.state.next_offset)
                .expect("the leader holds a replica of what it appended");
        }
    }

    fn acknowledge(&mut self, replica: NodeId, next_offset: Offset) -> Result<(), AckError> {
        if next_offset > self.state.next_offset {
            return Err(AckError::BeyondEnd {
                next_offset: self.state.next_offset,
                got: next_offset,
            });
        }
        let own = self.state.node;
        let Some(known) = self.state.replicas.iter_mut().find(|known| known.node == replica) else {
            return Err(AckError::UnknownReplica { replica });
        };
        if next_offset > known.next_offset {
            known.next_offset = next_offset;
            self.commit();
            if replica == own && next_offset > self.tail {
                self.due.durable_here = true;
            }
        }
        Ok(())
    }

    /// Moves the tail to what the ack quorum has acknowledged, or as many more as are waited for.
    fn commit(&mut self) {
        let reached = self.state.held_by(self.commit_quorum);
        assert!(
            reached <= self.state.next_offset,
            "no replica acknowledges what was not appended"
        );
        if reached > self.tail {
            self.tail = reached;
            self.state.history.producers.settle(reached);
            self.due.commit = true;
        }
        assert!(
            self.state.log_start <= self.tail,
            "committed records are never before the start"
        );
    }
}
