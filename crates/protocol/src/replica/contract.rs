//! Assignments, messages, entries to persist and actions: the plain data that goes into a replica and comes out of it.
//!
//! The type of a message says what must be durable before it is sent. A [`Prompt`] claims nothing of its sender's disk and
//! may leave at once. A [`Sworn`] message is true only when everything that its sender persisted before it is durable.

use std::time::Duration;

use bytes::Bytes;
use record::{Epoch, Offset};

use super::lease::Believer;
use crate::epochs::Run;
use crate::history::BatchFacts;
use crate::leader::{self, NodeId};

/// Stands where there is no epoch: nothing was promised or accepted, or no batch was written.
pub const NO_EPOCH: Epoch = Epoch(-1);

/// A replica set and how many of its members must hold a record before it counts as committed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Configuration {
    /// The members, each once.
    pub replicas: Vec<NodeId>,
    /// The ack quorum: between one and all of them.
    pub ack_quorum: usize,
}

impl Configuration {
    /// Returns the number of certain members that must have promised a later epoch, so that at least one of every ack quorum is among them.
    #[must_use]
    pub fn seal_quorum(&self) -> usize {
        self.replicas.len() + 1 - self.ack_quorum
    }
}

/// One epoch of a partition, as the metadata gives it out. An epoch is given out once, with one leader and one configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The epoch.
    pub epoch: Epoch,
    /// Its leader.
    pub leader: NodeId,
    /// The replicas whose acknowledgements commit in it.
    pub configuration: Configuration,
    /// The configurations of earlier epochs that are not settled yet, the latest last. Empty for a new partition only.
    pub earlier: Vec<Configuration>,
    /// Nodes that receive the log and count nowhere: they are to become members of a later configuration.
    pub joining: Vec<NodeId>,
    /// Members whose disks may have lost what they acknowledged. They count nowhere until they are certain again.
    pub uncertain: Vec<NodeId>,
}

impl Assignment {
    /// Says whether earlier configurations than this one may have committed something: the metadata waits for word that its ack quorum holds that.
    pub(super) fn is_unsettled(&self) -> bool {
        self.earlier.len() > 1 || self.earlier.iter().any(|of| *of != self.configuration)
    }
}

/// Another replica, as a leader knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Follower {
    /// Its node.
    pub node: NodeId,
    /// It had all of the log, and is sent every batch as it is appended.
    pub is_live: bool,
    /// Records of this log that it is not known to hold in this epoch.
    pub lacks: u64,
}

/// Where a replica stood when it promised an epoch. Its log does not change after that, but by order of that epoch's leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The epoch whose log it has accepted last.
    pub accepted: Epoch,
    /// The epoch that wrote its last batch.
    pub last_writer: Epoch,
    /// The first offset that has not been given up.
    pub log_start: Offset,
    /// The first offset not known to be committed.
    pub tail: Offset,
    /// The end of its log.
    pub next_offset: Offset,
    /// Says whether the replica still holds all that it ever acknowledged, by its own knowledge of the metadata. Metadata that
    /// the asking leader has may be older than the loss.
    pub is_certain: bool,
}

/// A statement about a log that does not change any more, by which another replica finds the end of what both have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Landmark {
    /// The run of batches that the offset asked for lies in.
    Run(Run),
    /// The log ends here, at the offset asked for or below.
    End(Offset),
    /// The log begins above the offset asked for.
    Base(Base),
}

/// The beginning of a log, and the history that its records below cannot tell any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// The first offset of the log.
    pub first: Offset,
    /// The first run of the log, if it has batches.
    pub run: Option<Run>,
    /// The offset below which `history` covers all batches; at or above `first`.
    pub covered: Offset,
    /// A snapshot of the partition's history ([`crate::History::restore`]).
    pub history: Bytes,
}

/// A message that claims nothing of its sender's disk: it may be sent at once. A replica is handed the facts of its batches; between
/// nodes it has their bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt<Batches = Vec<BatchFacts>> {
    /// Asks for a promise of this epoch, from its leader.
    Seal {
        /// The epoch to promise.
        epoch: Epoch,
    },
    /// Asks the replica with the best log for a landmark, from a leader that is opening.
    Locate {
        /// The leader's epoch.
        epoch: Epoch,
        /// The offset to have a landmark of.
        at: Offset,
    },
    /// Asks the replica with the best log for batches, from a leader that is opening.
    Copy {
        /// The leader's epoch.
        epoch: Epoch,
        /// The offset where the leader's own log ends.
        first: Offset,
    },
    /// Orders a follower to cut off what its log does not have in common with the leader's, found by this landmark.
    Compare {
        /// The leader's epoch.
        epoch: Epoch,
        /// A landmark of the leader's log.
        landmark: Landmark,
    },
    /// Says that a landmark does not suffice: one of another offset is wanted.
    Differs {
        /// The leader's epoch.
        epoch: Epoch,
        /// The offset to have a landmark of.
        at: Offset,
    },
    /// Hands over batches of the log: live ones, ones that a follower lacks, or copies for an opening leader.
    Append {
        /// The epoch of the leader whose log it is, or is becoming.
        epoch: Epoch,
        /// The epoch that wrote the record before the first batch. Two logs whose batches at one offset are of the same epoch
        /// are equal up to there, so this one number compares all before.
        writer_before: Epoch,
        /// The batches, one behind the other; at least one.
        batches: Batches,
    },
    /// Has a follower accept the epoch: its log equals the leader's at the opening once it is cut off at `first`.
    Accept {
        /// The leader's epoch.
        epoch: Epoch,
        /// The offset where the epoch begins.
        first: Offset,
        /// The epoch that wrote the record before.
        writer_before: Epoch,
    },
    /// Tells how far the log is committed.
    Commit {
        /// The leader's epoch.
        epoch: Epoch,
        /// The leader's tail.
        tail: Offset,
    },
    /// Gives up a prefix of the log.
    Trim {
        /// The leader's epoch.
        epoch: Epoch,
        /// The offset where the log begins from now on.
        log_start: Offset,
    },
    /// Refuses a request.
    Refused {
        /// The epoch of the request.
        epoch: Epoch,
        /// The reason.
        refusal: Refusal,
    },
}

/// A message that is true only when everything its sender persisted before it is durable: it must not be sent earlier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sworn {
    /// The sender has promised the epoch, and this is where it stood.
    Promised {
        /// The epoch promised.
        epoch: Epoch,
        /// The state of the sender.
        standing: Standing,
        /// Leaders of earlier epochs that may not know yet that theirs are over. Whoever sends the message puts them in.
        believers: Vec<Believer>,
    },
    /// A landmark of the sender's log, which is fenced against all earlier epochs.
    Located {
        /// The epoch that the sender listens to.
        epoch: Epoch,
        /// The landmark.
        landmark: Landmark,
    },
    /// The sender's log equals that of the epoch's leader up to `next_offset`. It counts for commits where `accepted` is the
    /// epoch itself.
    Acknowledged {
        /// The leader's epoch.
        epoch: Epoch,
        /// The epoch that the sender has accepted.
        accepted: Epoch,
        /// The end of what both hold.
        next_offset: Offset,
    },
}

impl<Batches> Prompt<Batches> {
    /// The epoch that the message belongs to.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        match self {
            Prompt::Seal { epoch }
            | Prompt::Locate { epoch, .. }
            | Prompt::Copy { epoch, .. }
            | Prompt::Compare { epoch, .. }
            | Prompt::Differs { epoch, .. }
            | Prompt::Append { epoch, .. }
            | Prompt::Accept { epoch, .. }
            | Prompt::Commit { epoch, .. }
            | Prompt::Trim { epoch, .. }
            | Prompt::Refused { epoch, .. } => *epoch,
        }
    }

    /// The same message with another form of its batches, if it has any and `form` can be made of them.
    pub(crate) fn try_map<Form, Error>(
        self,
        form: impl FnOnce(Batches) -> Result<Form, Error>,
    ) -> Result<Prompt<Form>, Error> {
        Ok(match self {
            Prompt::Append {
                epoch,
                writer_before,
                batches,
            } => Prompt::Append {
                epoch,
                writer_before,
                batches: form(batches)?,
            },
            Prompt::Seal { epoch } => Prompt::Seal { epoch },
            Prompt::Locate { epoch, at } => Prompt::Locate { epoch, at },
            Prompt::Copy { epoch, first } => Prompt::Copy { epoch, first },
            Prompt::Compare { epoch, landmark } => Prompt::Compare { epoch, landmark },
            Prompt::Differs { epoch, at } => Prompt::Differs { epoch, at },
            Prompt::Accept {
                epoch,
                first,
                writer_before,
            } => Prompt::Accept {
                epoch,
                first,
                writer_before,
            },
            Prompt::Commit { epoch, tail } => Prompt::Commit { epoch, tail },
            Prompt::Trim { epoch, log_start } => Prompt::Trim { epoch, log_start },
            Prompt::Refused { epoch, refusal } => Prompt::Refused { epoch, refusal },
        })
    }
}

impl Sworn {
    /// The epoch that the message belongs to.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        match self {
            Sworn::Promised { epoch, .. }
            | Sworn::Located { epoch, .. }
            | Sworn::Acknowledged { epoch, .. } => *epoch,
        }
    }
}

/// Why a request changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A later epoch was promised or assigned: the sender's is over.
    Fenced {
        /// The earliest epoch that is listened to.
        floor: Epoch,
    },
    /// The request does not continue this log: the leader has to compare.
    Apart {
        /// The first offset here that is not known to be committed. Whatever is below is in the leader's log.
        tail: Offset,
    },
    /// The request would cut off committed records. One of the two histories is broken.
    Committed {
        /// The first offset not known to be committed.
        tail: Offset,
    },
}

/// An entry that the journal has to take, in order, before anything that follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Persist {
    /// A batch at the end of the log. Its bytes are those of the append or message at hand.
    Append {
        /// The batch; its epoch is its writer's.
        batch: BatchFacts,
    },
    /// Everything at `first` and above is cut off, and the epoch is accepted.
    Accept {
        /// The epoch accepted.
        epoch: Epoch,
        /// The offset where it begins.
        first: Offset,
        /// The epoch that wrote the record before.
        writer_before: Epoch,
    },
    /// Everything at `first` and above is cut off. What was accepted stays accepted.
    Cut {
        /// The new end of the log.
        first: Offset,
    },
    /// No earlier epoch is listened to any more.
    Promise {
        /// The epoch promised.
        epoch: Epoch,
    },
    /// The log is empty and begins here; what stood in it before is gone.
    Base(Base),
    /// Everything below `log_start` is given up.
    Trim {
        /// The offset where the log begins from now on.
        log_start: Offset,
    },
}

/// Something that a replica wants done. Actions are carried out in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Stage the entry in the journal. An entry of a *leading* replica (batches, its accept, trims) also goes to all its live
    /// followers ([`super::Replica::live_followers`]), in the frame that holds it and before the flush.
    Persist(Persist),
    /// Send a message at once.
    Send {
        /// Whom to.
        to: NodeId,
        /// The message.
        message: Prompt,
    },
    /// Send a message when everything persisted before it is durable. The receiver may be this node itself.
    SendDurable {
        /// Whom to.
        to: NodeId,
        /// The message.
        message: Sworn,
    },
    /// Read batches of the log from `first` on, at least one and none at `next_offset` or above, and send them as
    /// [`Prompt::Append`], behind the writer that [`super::Replica::writer_before`] gives then; then call [`super::Replica::handle_shipped`].
    /// All that was persisted before must be durable.
    Ship {
        /// Whom to.
        to: NodeId,
        /// The epoch for the message.
        epoch: Epoch,
        /// The first offset to send.
        first: Offset,
        /// The end of the log.
        next_offset: Offset,
    },
    /// Find where the batch that has the record at `log_start`, or the first one behind it, begins, and call [`super::Replica::handle_first`].
    FindFirst {
        /// The log's start.
        log_start: Offset,
    },
    /// Do what the leader asks for. Its tail goes to live followers with the next frame, as [`Prompt::Commit`].
    Leader(leader::Action),
    /// Readers may have everything below `tail` from this follower.
    Committed {
        /// The new tail.
        tail: Offset,
    },
    /// This replica listens to another leader from now on: tell the one before, and keep in mind how long that may believe in itself
    /// ([`super::lease`]).
    Leave {
        /// The leader before.
        leader: NodeId,
        /// Its epoch.
        epoch: Epoch,
        /// The epoch that is listened to.
        floor: Epoch,
    },
    /// Call [`super::Replica::handle_look`] at this time: leaders of earlier epochs know by then that theirs are over.
    Wake {
        /// The time.
        at: Duration,
    },
    /// Tell the metadata that the ack quorum has accepted the epoch: configurations of earlier ones need not be met any more.
    Settled {
        /// The epoch.
        epoch: Epoch,
    },
    /// Tell the metadata that a replica that counted nowhere holds all that is committed. The report names the incarnation of
    /// the link, and is void if the replica was doubted since.
    CaughtUp {
        /// The replica.
        replica: NodeId,
    },
}
