//! One replica of a partition that other nodes hold too.
//!
//! The replica (`protocol::replica`) decides; here its actions become steps, in its own order, each with the bytes that it needs.
//! `replication.rs` carries them out, one behind the other: a message that is true once something is durable must not be sent before
//! that is staged. A replica is told only what its journal has room for, so it is never ahead of what is staged.

use std::collections::VecDeque;

use std::time::Duration;

use bytes::Bytes;
use protocol::leader::{Action as LeaderAction, Leader, NodeId};
use protocol::replica::lease::Believer;
use protocol::replica::{Action, Persist, Prompt, Replica, Sworn};
use record::{Epoch, Offset};

/// See the module.
pub(crate) struct Member {
    pub(super) replica: Replica,
    /// The entries of this leader that live followers were not sent, in order.
    unsent: Vec<Prompt>,
    /// The followers that got every entry at the last look.
    live: Vec<NodeId>,
    /// The ends and bytes of the batches that were appended here and are not committed.
    uncommitted: VecDeque<(Offset, u64)>,
    /// The times that the log has begun anew, and how many of these a checkpoint has: only there is the history of what was before.
    bases: u64,
    bases_saved: u64,
    /// Leaders that were listened to before, and until when they may believe that they lead; `None` stands for any.
    believers: Vec<(Option<NodeId>, Duration)>,
    /// Messages that are true once a checkpoint has the latest base.
    held: Vec<(NodeId, Sworn)>,
    /// An entry could not be staged and never will be: the log is not what the replica says.
    is_given_up: bool,
}

/// The bytes that are at hand while a replica's actions are taken.
pub(super) enum AtHand {
    /// Those of a message, batch by batch with their first offsets; mostly none.
    Received(VecDeque<(Offset, Bytes)>),
    /// None are needed: the entry was staged before the replica was told.
    Staged,
}

impl AtHand {
    /// For actions that take none.
    pub(super) fn nothing() -> AtHand {
        AtHand::Received(VecDeque::new())
    }
}

/// One thing to do for a replica.
pub(super) enum Step {
    /// Stage an entry; of a batch, these bytes.
    Stage(Persist, Bytes),
    /// Send a message.
    Send(NodeId, Prompt),
    /// Send a message once everything that was staged is durable.
    Swear(NodeId, Sworn),
    /// Read batches and send them.
    Ship(Shipment),
    /// Find where the batch at the log's start begins.
    FindFirst(Offset),
    /// Do as the leader says.
    Lead(LeaderAction),
    /// Show readers more.
    Show,
    /// Tell a leader that its epoch is over.
    Leave {
        leader: NodeId,
        epoch: Epoch,
        floor: Epoch,
    },
    /// Have the replica look again at this time.
    Wake(Duration),
    /// Tell the metadata.
    Report(Report),
    /// Tell the metadata that a replica holds all that is committed, and which start of its node.
    CaughtUp { epoch: Epoch, replica: NodeId },
}

/// Batches to be read and sent to a replica that lacks them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shipment {
    pub(super) to: NodeId,
    pub(super) epoch: Epoch,
    pub(super) first: Offset,
    pub(super) next_offset: Offset,
    /// Somebody waits for it: a leader that opens, or producers for a follower that is live. It goes before what fills replicas.
    pub(super) is_urgent: bool,
}

/// News of a partition for the metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// The ack quorum has accepted the epoch: configurations of earlier ones need not be met any more.
    Settled {
        /// The epoch.
        epoch: Epoch,
    },
    /// A replica that counted nowhere holds all that is committed.
    CaughtUp {
        /// The epoch that says so.
        epoch: Epoch,
        /// The replica.
        replica: NodeId,
        /// Its start, by its link.
        start: u64,
    },
    /// The partition's first replica, in whose place this one leads, is as far as this one, and could lead again.
    Preferred {
        /// The replica.
        replica: NodeId,
    },
}

impl Member {
    /// A replica that listens to nobody yet. Until `unknown_until` anybody may believe that it is listened to.
    pub(super) fn new(replica: Replica, unknown_until: Duration) -> Member {
        Member {
            replica,
            unsent: Vec::new(),
            live: Vec::new(),
            uncommitted: VecDeque::new(),
            bases: 0,
            bases_saved: 0,
            believers: vec![(None, unknown_until)],
            held: Vec::new(),
            is_given_up: false,
        }
    }

    /// Says that this replica may say and hear nothing more until the next start.
    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// The epoch that is led here, if one is.
    pub(super) fn led_epoch(&self) -> Option<Epoch> {
        self.replica.leader().map(Leader::epoch)
    }

    /// Takes the next thing that the replica wants done; `None` when there is nothing more.
    pub(super) fn next_step(&mut self, at_hand: &mut AtHand) -> Option<Step> {
        loop {
            let step = match self.replica.next_action()? {
                Action::Persist(entry) => {
                    if let Some(message) = self.replica.as_message(&entry) {
                        self.leave_unsent(message);
                    }
                    match at_hand {
                        AtHand::Staged => continue,
                        AtHand::Received(batches) => {
                            let bytes = bytes_of(&entry, batches);
                            Step::Stage(entry, bytes)
                        }
                    }
                }
                Action::Send { to, message } => Step::Send(to, message),
                Action::SendDurable { to, message } => Step::Swear(to, message),
                Action::Ship {
                    to,
                    epoch,
                    first,
                    next_offset,
                } => {
                    let leads = self.led_epoch() == Some(epoch);
                    let is_live = self.replica.live_followers().any(|node| node == to);
                    Step::Ship(Shipment {
                        to,
                        epoch,
                        first,
                        next_offset,
                        is_urgent: !leads || is_live,
                    })
                }
                Action::FindFirst { log_start } => Step::FindFirst(log_start),
                Action::Leader(action) => Step::Lead(action),
                Action::Committed { .. } => Step::Show,
                Action::Leave { leader, epoch, floor } => Step::Leave { leader, epoch, floor },
                Action::Wake { at } => Step::Wake(at),
                Action::Settled { epoch } => Step::Report(Report::Settled { epoch }),
                Action::CaughtUp { replica } => {
                    let epoch = self.led_epoch().expect("a leader sees who has caught up");
                    Step::CaughtUp { epoch, replica }
                }
            };
            return Some(step);
        }
    }

    /// Joins batches that follow each other into one message.
    fn leave_unsent(&mut self, message: Prompt) {
        if let (
            Some(Prompt::Append {
                epoch: before,
                batches: all,
                ..
            }),
            Prompt::Append { epoch, batches, .. },
        ) = (self.unsent.last_mut(), &message)
            && before == epoch
        {
            return all.extend(batches);
        }
        self.unsent.push(message);
    }

    /// Says that live followers have to be sent something.
    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Takes the entries that live followers were not sent, as far as they are of the epoch that is led here now.
    pub(super) fn take_unsent(&mut self) -> Vec<Prompt> {
        let epoch = self.led_epoch();
        let mut unsent = std::mem::take(&mut self.unsent);
        unsent.retain(|message| Some(message.epoch()) == epoch);
        unsent
    }

    /// Says whether followers get every entry from now on that did not at the last look: these do not know the tail.
    pub(super) fn look_at_live(&mut self) -> bool {
        let mut live = self.replica.live_followers();
        let has_new = !live.all(|node| self.live.contains(&node));
        drop(live);
        self.live.clear();
        self.live.extend(self.replica.live_followers());
        has_new
    }

    /// Takes note of a batch that was appended, by its end.
    pub(super) fn note_uncommitted(&mut self, end: Offset, bytes: u64) {
        self.uncommitted.push_back((end, bytes));
    }

    /// Gives the bytes of the batches that were appended here and are committed or cut off now.
    pub(super) fn settle(&mut self) -> u64 {
        let (tail, end) = (self.replica.tail(), self.replica.next_offset());
        let mut bytes = 0;
        while let Some((of, batch_bytes)) = self.uncommitted.front()
            && *of <= tail
        {
            bytes += batch_bytes;
            self.uncommitted.pop_front();
        }
        while let Some((of, batch_bytes)) = self.uncommitted.back()
            && *of > end
        {
            bytes += batch_bytes;
            self.uncommitted.pop_back();
        }
        bytes
    }

    /// Takes note that a leader is not listened to any more, and until when it may not know.
    pub(super) fn note_left(&mut self, leader: NodeId, until: Duration) {
        self.believers.push((Some(leader), until));
    }

    /// The leaders that may still believe that they lead.
    pub(super) fn believers(&mut self, now: Duration) -> Vec<Believer> {
        self.believers.retain(|(_, until)| *until > now);
        let left = |(node, until): &(Option<NodeId>, Duration)| Believer {
            node: *node,
            left: *until - now,
        };
        self.believers.iter().map(left).collect()
    }

    /// Takes note that the log begins anew.
    pub(super) fn note_base(&mut self) {
        self.bases += 1;
    }

    /// The number of bases up to now, if no checkpoint has the latest.
    pub(super) fn unsaved_base(&self) -> Option<u64> {
        (self.bases > self.bases_saved).then_some(self.bases)
    }

    pub(super) fn hold(&mut self, to: NodeId, message: Sworn) {
        self.held.push((to, message));
    }

    /// Drops what waits to be sent to a node whose link was taken anew.
    pub(super) fn drop_held(&mut self, peer: NodeId) {
        self.held.retain(|(to, _)| *to != peer);
    }

    /// A checkpoint has the history of so many bases: gives the messages that waited for it.
    pub(super) fn note_saved(&mut self, bases: u64) -> Vec<(NodeId, Sworn)> {
        self.bases_saved = self.bases_saved.max(bases);
        match self.unsaved_base() {
            Some(_) => Vec::new(),
            None => std::mem::take(&mut self.held),
        }
    }

    /// Gives up everything that is left to do: the journal does not have what the replica wanted.
    pub(super) fn give_up(&mut self) {
        self.is_given_up = true;
        self.unsent.clear();
        self.held.clear();
        while self.replica.next_action().is_some() {}
        if let Some(leader) = self.replica.leader_mut() {
            leader.handle_seal();
        }
    }
}

/// The batches of a message, one by one with their first offsets.
pub(super) fn split(batches: &[Bytes]) -> VecDeque<(Offset, Bytes)> {
    let each = |bytes: &Bytes| {
        let each = record::batches(bytes).map_while(Result::ok);
        let each = each.map(|(header, batch)| (header.base_offset, bytes.slice_ref(batch)));
        each.collect::<Vec<_>>()
    };
    batches.iter().flat_map(each).collect()
}

/// The bytes of the batch that an entry appends, out of a message whose batches are appended in order.
fn bytes_of(entry: &Persist, received: &mut VecDeque<(Offset, Bytes)>) -> Bytes {
    let Persist::Append { batch } = entry else {
        return Bytes::new();
    };
    loop {
        let (first, bytes) = received
            .pop_front()
            .expect("a replica appends batches of the message at hand");
        if first == batch.first_offset {
            return bytes;
        }
    }
}
