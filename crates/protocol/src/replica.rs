//! One replica of one partition: it follows, opens an epoch, leads it, or stands sealed between two.
//!
//! Stands between the links to other nodes and the journal of its shard (docs/protocols/replication.md). Requests, promises and
//! acknowledgements go in by `handle_*`; entries to persist and messages come out of [`Replica::next_action`], in an order that
//! has to be kept. What must be durable before a message is sent is in the message's type. A replica must never acknowledge
//! what its disk could lose, nor listen to an epoch below one that it has promised.
//!
//! Messages of one epoch may come late, twice and in any order, also from links that were closed: each says on its own
//! what it is true of. Where one is lost, [`Replica::handle_link`] sends again what is open.

mod contract;
mod following;
mod leading;
pub mod lease;
pub mod link;
mod log;
mod opening;
pub mod room;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use planted::{Bug, planted};
use record::{Epoch, Offset};

pub use contract::{
    Action, Assignment, Base, Configuration, Follower, Landmark, NO_EPOCH, Persist, Prompt, Refusal,
    Standing, Sworn,
};
pub use log::Stored;

use crate::epochs::EpochEnd;
use crate::history::{BatchFacts, RecoverError, Vows};
use crate::leader::{
    Append, AppendError, Appended, Checked, Durability, EndMarker, Leader, NodeId, Numbered, TrimError,
};
use crate::producers::{Admission, ProducerLimits, Remembered};
use following::{Following, Sought};
use leading::Leading;
use log::Log;
use opening::Opening;

/// One replica of one partition.
#[derive(Debug, Clone)]
pub struct Replica {
    node: NodeId,
    log: Log,
    durability: Durability,
    insync_min: u32,
    assignment: Option<Assignment>,
    is_certain: bool,
    /// The leader that is listened to, and its epoch, as far as is known since the start.
    listens_to: Option<(NodeId, Epoch)>,
    role: Role,
    /// A leader's question that waits for [`Replica::handle_first`].
    sought: Option<Sought>,
    actions: VecDeque<Action>,
}

#[derive(Debug, Clone)]
enum Role {
    /// Does as the leader of the latest epoch says.
    Following,
    /// Is to lead, and looks for what may be committed.
    Opening(Opening),
    /// Leads.
    Leading(Box<Leading>),
    /// Has led, or was to lead, an epoch that is over or cannot be opened here. Answers as a follower does until it is
    /// assigned to another.
    Sealed,
}

/// The roles by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoleName {
    /// It follows.
    Following,
    /// It opens an epoch.
    Opening,
    /// It leads an epoch.
    Leading,
    /// It waits to be assigned.
    Sealed,
}

impl Replica {
    /// The replica that storage found. It counts as in doubt, and follows, until it is assigned.
    ///
    /// # Errors
    /// The log that was found contradicts itself.
    pub fn recover(
        now: Duration,
        node: NodeId,
        limits: ProducerLimits,
        stored: Stored,
    ) -> Result<Replica, RecoverError> {
        Ok(Replica {
            node,
            log: Log::recover(now, limits, stored)?,
            durability: Durability::Flushed,
            insync_min: 1,
            assignment: None,
            is_certain: false,
            listens_to: None,
            role: Role::Following,
            sought: None,
            actions: VecDeque::new(),
        })
    }

    /// Takes what the metadata says of a new epoch. An older one changes nothing.
    ///
    /// An epoch that this replica has promised already is not opened here: it was opened by this node before it started anew,
    /// or a later one is under way.
    pub fn handle_assignment(&mut self, now: Duration, assignment: Assignment) {
        if self
            .assignment
            .as_ref()
            .is_some_and(|known| known.epoch >= assignment.epoch)
        {
            return;
        }
        self.step_down(now);
        let epoch = assignment.epoch;
        self.listen_to(assignment.leader, epoch);
        self.is_certain = !assignment.uncertain.contains(&self.node);
        let may_open = self.is_certain && (self.log.promised() < epoch || planted(Bug::EpochOpenedAgain));
        self.role = match (assignment.leader == self.node, may_open) {
            (false, _) => Role::Following,
            (true, false) => Role::Sealed,
            (true, true) => {
                let opening = Opening::begin(&assignment, self.node, &mut self.actions);
                self.log.promise(epoch, &mut self.actions);
                let standing = self.log.standing(true);
                self.actions.push_back(Action::SendDurable {
                    to: self.node,
                    message: Sworn::Promised {
                        epoch,
                        standing,
                        believers: Vec::new(),
                    },
                });
                Role::Opening(opening)
            }
        };
        self.assignment = Some(assignment);
    }

    /// Takes a message that claims nothing of its sender's disk. The bytes of its batches are at hand while the actions that
    /// follow are carried out.
    pub fn handle_prompt(&mut self, now: Duration, from: NodeId, message: &Prompt) {
        let epoch = message.epoch();
        match message {
            Prompt::Refused {
                refusal: Refusal::Fenced { floor },
                ..
            } if self.is_ended_by(*floor) => self.step_down(now),
            Prompt::Refused { refusal, .. } if self.leads(epoch) => self.handle_refused(now, from, *refusal),
            Prompt::Differs { at, .. } => {
                if let Role::Leading(leading) = &mut self.role
                    && leading.leader().epoch() == epoch
                {
                    leading.handle_differs(now, from, *at, &mut self.log, &mut self.actions);
                }
            }
            Prompt::Refused { .. } => {}
            Prompt::Append {
                writer_before,
                batches,
                ..
            } if self.leads(epoch) => {
                if let Role::Opening(opening) = &mut self.role {
                    let (log, actions) = (&mut self.log, &mut self.actions);
                    opening.handle_copied(epoch, from, *writer_before, batches, log, actions);
                    self.advance(now);
                }
            }
            _ if self.leads(epoch) => {}
            _ if epoch < self.floor() => self.actions.push_back(Action::Send {
                to: from,
                message: Prompt::Refused {
                    epoch,
                    refusal: Refusal::Fenced { floor: self.floor() },
                },
            }),
            request => self.follow(now, from, epoch, request),
        }
    }

    /// Takes a message whose sender has made durable what it claims.
    pub fn handle_sworn(&mut self, now: Duration, from: NodeId, message: &Sworn) {
        let epoch = message.epoch();
        if !self.leads(epoch) {
            return;
        }
        let (log, actions) = (&mut self.log, &mut self.actions);
        match (&mut self.role, message) {
            (
                Role::Opening(opening),
                Sworn::Promised {
                    standing, believers, ..
                },
            ) => {
                opening.handle_promised(now, from, *standing, believers);
                self.advance(now);
            }
            (Role::Opening(opening), Sworn::Located { landmark, .. }) => {
                opening.handle_located(now, epoch, from, landmark, log, actions);
                self.advance(now);
            }
            (
                Role::Leading(leading),
                Sworn::Acknowledged {
                    accepted,
                    next_offset,
                    ..
                },
            ) => leading.handle_acknowledged(now, from, *accepted, *next_offset, log, actions),
            _ => {}
        }
    }

    /// Begins anew with a node whose link was taken: what was on its way before may be lost. From now on, drop whatever still arrives
    /// that an earlier incarnation of it has sworn.
    pub fn handle_link(&mut self, now: Duration, peer: NodeId) {
        match &mut self.role {
            Role::Opening(opening) => {
                let epoch = self.assignment.as_ref().map_or(NO_EPOCH, |of| of.epoch);
                opening.handle_link(epoch, peer, &mut self.actions);
                self.advance(now);
            }
            Role::Leading(leading) => leading.handle_link(now, peer, &mut self.log, &mut self.actions),
            Role::Following | Role::Sealed => {}
        }
    }

    /// The nodes that owe this replica an answer before it goes on with them. One that owes it for long has lost the question, or did not know
    /// enough to answer it: [`Replica::handle_link`] asks again.
    #[must_use]
    pub fn awaited(&self) -> Vec<NodeId> {
        match &self.role {
            Role::Opening(opening) => {
                let assignment = self.assignment.as_ref().expect("what is opened was assigned");
                opening.awaited(assignment, self.node)
            }
            Role::Leading(leading) => leading.awaited().collect(),
            Role::Following | Role::Sealed => Vec::new(),
        }
    }

    /// Takes note that nothing reaches a node until [`Replica::handle_link`]: an append that would want it is refused, and an opening leader
    /// goes on without it if it can.
    pub fn handle_link_lost(&mut self, now: Duration, peer: NodeId) {
        match &mut self.role {
            Role::Leading(leading) => leading.handle_link_lost(now, peer, &mut self.log, &mut self.actions),
            Role::Opening(opening) => {
                opening.handle_link_lost(peer);
                self.advance(now);
            }
            Role::Following | Role::Sealed => {}
        }
    }

    /// Takes the metadata's word that a member of this epoch is certain again.
    pub fn handle_certain(&mut self, now: Duration, node: NodeId) {
        self.is_certain |= node == self.node;
        if let Some(assignment) = &mut self.assignment {
            assignment.uncertain.retain(|uncertain| *uncertain != node);
        }
        if let Role::Leading(leading) = &mut self.role {
            leading.handle_certain(now, node, &mut self.log, &mut self.actions);
        }
    }

    /// Takes the metadata's word that a node's disk may have lost what it acknowledged.
    pub fn handle_doubt(&mut self, now: Duration, node: NodeId) {
        if node == self.node {
            self.is_certain = false;
            self.step_down(now);
        }
        if let Some(assignment) = &mut self.assignment
            && !assignment.uncertain.contains(&node)
        {
            assignment.uncertain.push(node);
        }
        if let Role::Leading(leading) = &mut self.role {
            leading.handle_doubt(now, node, &mut self.log, &mut self.actions);
        }
    }

    /// Changes how much an acknowledgement promises in epochs that this replica leads (`ropewalk.durability`).
    pub fn handle_durability(&mut self, durability: Durability) {
        self.durability = durability;
        if let Some(leader) = self.leader_mut() {
            leader.handle_durability(durability);
        }
    }

    /// Changes how many replicas hold a batch before it is acknowledged in epochs that this replica leads (`min.insync.replicas`).
    pub fn handle_insync_min(&mut self, now: Duration, replicas: u32) {
        self.insync_min = replicas;
        if let Role::Leading(leading) = &mut self.role {
            leading.handle_insync_min(now, replicas, &mut self.log, &mut self.actions);
        }
    }

    /// Says whether appends wait for more replicas than the ack quorum: then this leader wants a look at them now and then.
    #[must_use]
    pub fn waits_for_more(&self) -> bool {
        self.leading().is_some_and(Leading::waits_for_more)
    }

    /// Has a leader look at how far its members are, and one that opens whether it may.
    pub fn handle_look(&mut self, now: Duration) {
        match &mut self.role {
            Role::Leading(leading) => leading.handle_look(now, &mut self.log, &mut self.actions),
            Role::Opening(_) => self.advance(now),
            Role::Following | Role::Sealed => {}
        }
    }

    /// Sends a live follower again what it lacks: others were to pass that on to it, and may not have. It counts as before.
    pub fn handle_unreached(&mut self, node: NodeId) {
        if let Role::Leading(leading) = &mut self.role {
            leading.handle_unreached(node, &self.log, &mut self.actions);
        }
    }

    /// Says whether an ack quorum listens to this leader, if those nodes do for which `listens` says so: then no later epoch can have been opened without
    /// its knowledge.
    #[must_use]
    pub fn is_listened_to(&self, listens: impl Fn(NodeId) -> bool) -> bool {
        self.leading()
            .is_some_and(|leading| leading.is_listened_to(listens))
    }

    /// Checks that as many replicas are in sync as a producer wants to hold its batch.
    ///
    /// # Errors
    /// `NotEnoughReplicas`; `Sealed` where this replica does not lead.
    pub fn check_insync(&self, wanted: u32) -> Result<(), AppendError> {
        match &self.role {
            Role::Leading(leading) => leading.check_insync(wanted),
            _ => Err(AppendError::Sealed { epoch: self.floor() }),
        }
    }

    /// Takes the answer to an [`Action::FindFirst`]: the batch at `log_start` begins at `first`, or, where compaction has taken that, some batch
    /// began there of which nothing is known but that all up to `log_start` was written in one epoch. All that waited for it goes on, or asks anew
    /// if the log begins elsewhere by now.
    pub fn handle_first(&mut self, now: Duration, log_start: Offset, first: Offset) {
        if log_start == self.log.log_start() && self.log.must_find_first() {
            self.log.note_first(first);
        }
        if let Role::Leading(leading) = &mut self.role {
            leading.handle_first(&self.log, &mut self.actions);
        }
        if let Some(Sought { leader, epoch, at }) = self.sought.take() {
            self.handle_prompt(now, leader, &Prompt::Locate { epoch, at });
        }
    }

    /// The epoch that wrote the record before an offset, for a message with batches from there on; `NO_EPOCH` if the log does not have that record any
    /// more. It has to be asked for when the batches are at hand: the log may have been trimmed since they were ordered.
    #[must_use]
    pub fn writer_before(&self, first: Offset) -> Epoch {
        self.log.writer_before(first)
    }

    /// Where the first batch of the log begins, as far as that is known.
    #[must_use]
    pub fn first(&self) -> Offset {
        self.log.first()
    }

    /// The offset from which on all up to the log's start was written in one epoch: there a batch began, on every replica.
    #[must_use]
    pub fn epoch_at_start(&self) -> Offset {
        self.log.epoch_at_start()
    }

    /// The batches between two offsets that are remembered with their producers. Looks at all producers.
    #[must_use]
    pub fn remembered(&self, first: Offset, next_offset: Offset) -> Remembered {
        let producers = match (&self.role, self.log.history()) {
            (Role::Leading(leading), _) => Some(leading.leader().producers()),
            (_, history) => history.map(|history| &history.producers),
        };
        match producers.filter(|_| !planted(Bug::GapsOfNobody)) {
            Some(producers) => producers.written_between(first, next_offset),
            None => Remembered::default(),
        }
    }

    /// The batches that stood between two offsets of the log and are gone, as far as it can tell: what another replica is to take in their
    /// place. Each offset is in one of them, and is of the epoch that it was written in; producers are named whose batches are remembered.
    /// `None` where the log does not have that part any more.
    #[must_use]
    pub fn batches_gone(
        &self,
        remembered: &Remembered,
        first: Offset,
        next_offset: Offset,
    ) -> Option<Vec<BatchFacts>> {
        self.log.batches_gone(remembered, first, next_offset)
    }

    /// Goes on with a node that was sent batches by an [`Action::Ship`], all below `next_offset`.
    pub fn handle_shipped(&mut self, to: NodeId, next_offset: Offset) {
        if let Role::Leading(leading) = &mut self.role {
            leading.handle_shipped(to, next_offset, &self.log, &mut self.actions);
        }
    }

    /// Numbers a batch. Changes nothing.
    ///
    /// # Errors
    /// See [`AppendError`]; `Sealed` where this replica does not lead.
    pub fn check_append(&self, append: &Append, admission: &Admission) -> Result<Checked, AppendError> {
        match &self.role {
            Role::Leading(leading) => leading.check_append(append, admission),
            _ => Err(AppendError::Sealed { epoch: self.floor() }),
        }
    }

    /// Numbers a marker, as [`Leader::check_marker`] does.
    ///
    /// # Errors
    /// See [`AppendError`]; `Sealed` where this replica does not lead.
    pub fn check_marker(&self, marker: &EndMarker) -> Result<Checked, AppendError> {
        match &self.role {
            Role::Leading(leading) => leading.check_marker(marker),
            _ => Err(AppendError::Sealed { epoch: self.floor() }),
        }
    }

    /// The end of what is decided, as far as this replica knows what is committed (see [`Leader::stable`]).
    #[must_use]
    pub fn stable(&self) -> Offset {
        match self.log.history() {
            Some(history) => {
                let tail = self.log.tail();
                history.producers.stable(tail).max(self.log.log_start()).min(tail)
            }
            None => self.leader().map_or(self.log.log_start(), Leader::stable),
        }
    }

    /// Makes a number final. The entry to persist is among the actions.
    ///
    /// # Panics
    /// This replica does not lead any more, or the number is not the latest.
    pub fn handle_append(&mut self, now: Duration, numbered: Numbered) -> Appended {
        match &mut self.role {
            Role::Leading(leading) => leading.handle_append(now, numbered, &mut self.log, &mut self.actions),
            _ => panic!("only a leader appends"),
        }
    }

    /// Finds where the log would begin, as [`Leader::check_trim`] does.
    ///
    /// # Errors
    /// See [`TrimError`]; `Sealed` where this replica does not lead.
    pub fn check_trim(&self, first_kept: Offset) -> Result<Offset, TrimError> {
        match &self.role {
            Role::Leading(leading) => leading.check_trim(first_kept),
            _ => Err(TrimError::Sealed { epoch: self.floor() }),
        }
    }

    /// Has the log begin where `check_trim` has said. The entry to persist is among the actions.
    ///
    /// # Panics
    /// This replica does not lead any more.
    pub fn handle_trim(&mut self, now: Duration, log_start: Offset) {
        match &mut self.role {
            Role::Leading(leading) => leading.handle_trim(now, log_start, &mut self.log, &mut self.actions),
            _ => panic!("only a leader trims"),
        }
    }

    /// The next thing to be done; call until `None`, and keep the order.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The message by which live followers get an entry that this leader persists; `None` for entries of its own only.
    #[must_use]
    pub fn as_message(&self, entry: &Persist) -> Option<Prompt> {
        match &self.role {
            Role::Leading(leading) => leading.as_message(entry, &self.log),
            _ => None,
        }
    }

    /// The partition's first replica, where this one leads an open epoch in its place and it holds all that is committed.
    #[must_use]
    pub fn preferred(&self) -> Option<NodeId> {
        let first = *self.assignment.as_ref()?.configuration.replicas.first()?;
        let leading = self.leading().filter(|_| self.is_open() && first != self.node)?;
        leading.holds_committed(first).then_some(first)
    }

    /// The first follower that could lead in this leader's place at once.
    #[must_use]
    pub fn successor(&self) -> Option<NodeId> {
        let leading = self.leading()?;
        let mut live = leading.live_followers();
        live.find(|node| leading.holds_committed(*node))
    }

    /// The leader that this replica follows in the latest epoch that it knows of, and that epoch; `None` if it does not follow.
    #[must_use]
    pub fn followed(&self) -> Option<(NodeId, Epoch)> {
        let assignment = self.assignment.as_ref()?;
        let is_latest = assignment.epoch == self.floor() && matches!(self.role, Role::Following);
        is_latest.then_some((assignment.leader, assignment.epoch))
    }

    /// The other replicas, those that are being filled too, as the leader of an epoch sees them; none if this is no leader.
    pub fn followers(&self) -> impl Iterator<Item = Follower> + '_ {
        let next_offset = self.next_offset();
        let leading = self.leading().into_iter();
        leading.flat_map(move |leading| leading.followers(next_offset))
    }

    /// The followers that get every entry of this leader as it is persisted.
    pub fn live_followers(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.leading().into_iter().flat_map(Leading::live_followers)
    }

    /// Returns the state that storage has to find again at a start, with the history of what is committed.
    #[must_use]
    pub fn stored(&self, now: Duration) -> Stored {
        let (covered, history) = match (&self.role, self.log.history()) {
            (Role::Leading(leading), _) => leading.snapshot_history(now),
            (_, Some(history)) => (self.log.tail(), history.snapshot(now, self.log.tail())),
            (_, None) => panic!("only a leader has the history"),
        };
        self.log.stored(covered, history)
    }

    /// The history of what is committed, as bytes for a checkpoint with the offset that it stands for, and the vows up to now:
    /// [`Stored::found`] reads them back.
    #[must_use]
    pub fn snapshot(&self, now: Duration) -> (Offset, Bytes) {
        let vows = self.log.vows();
        match (&self.role, self.log.history()) {
            (Role::Leading(leading), _) => leading.leader().snapshot_history_of(now, vows),
            (_, Some(history)) => (self.log.tail(), history.snapshot_of(now, self.log.tail(), vows)),
            (_, None) => panic!("only a leader has the history"),
        }
    }

    /// The epochs that the replica is bound to.
    #[must_use]
    pub fn vows(&self) -> Vows {
        self.log.vows()
    }

    /// The leader, while its epoch is open or about to commit what it found.
    #[must_use]
    pub fn leader(&self) -> Option<&Leader> {
        self.leading().map(Leading::leader)
    }

    /// The leader, for what concerns its producers and their time.
    pub fn leader_mut(&mut self) -> Option<&mut Leader> {
        match &mut self.role {
            Role::Leading(leading) => Some(leading.leader_mut()),
            _ => None,
        }
    }

    /// Says that the tail is known to be no less than what any earlier leader has shown. Until then the latest offset is not
    /// answered (Kafka: OFFSET_NOT_AVAILABLE).
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.leading()
            .is_some_and(|leading| leading.leader().tail() >= leading.first_offset())
    }

    /// The role.
    #[must_use]
    pub fn role(&self) -> RoleName {
        match &self.role {
            Role::Following => RoleName::Following,
            Role::Opening(_) => RoleName::Opening,
            Role::Leading(_) => RoleName::Leading,
            Role::Sealed => RoleName::Sealed,
        }
    }

    /// The latest epoch that the metadata has told this replica of; `NO_EPOCH` before the first.
    #[must_use]
    pub fn assigned(&self) -> Epoch {
        self.assignment.as_ref().map_or(NO_EPOCH, |of| of.epoch)
    }

    /// The highest epoch promised.
    #[must_use]
    pub fn promised(&self) -> Epoch {
        self.log.promised()
    }

    /// The highest epoch accepted.
    #[must_use]
    pub fn accepted(&self) -> Epoch {
        self.log.accepted()
    }

    /// The first offset that has not been given up.
    #[must_use]
    pub fn log_start(&self) -> Offset {
        self.log.log_start()
    }

    /// The first offset not known to be committed.
    #[must_use]
    pub fn tail(&self) -> Offset {
        self.log.tail()
    }

    /// The end of the log.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        self.log.next_offset()
    }

    /// The other members of the latest epoch that it knows of, its leader first; `None` until it is assigned.
    #[must_use]
    pub fn others(&self) -> Option<Vec<NodeId>> {
        let assignment = self.assignment.as_ref()?;
        let members = assignment.configuration.replicas.iter().copied();
        let mut others: Vec<NodeId> = members.filter(|node| *node != self.node).collect();
        others.sort_by_key(|node| *node != assignment.leader);
        Some(others)
    }

    /// The epoch that wrote the record at an offset of this log; `None` below its beginning.
    #[must_use]
    pub fn writer_at(&self, offset: Offset) -> Option<Epoch> {
        self.log.writer_at(offset)
    }

    /// Returns the end of `epoch` (Kafka's OffsetForLeaderEpoch).
    #[must_use]
    pub fn epoch_end_offset(&self, epoch: Epoch) -> EpochEnd {
        self.log.epoch_end(epoch)
    }

    /// Says whether the ack quorum has accepted the epoch that this replica leads: then nothing that an earlier one has left behind, on whatever replica, can
    /// come back. An epoch may open without (see [`Replica::is_open`]).
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.leading().is_some_and(Leading::is_accepted)
    }

    /// Has the epoch accepted that this replica leads, unless it is or its batches see to that.
    pub fn have_accepted(&mut self) {
        if let Role::Leading(leading) = &mut self.role {
            leading.have_accepted(&mut self.log, &mut self.actions);
        }
    }

    fn leading(&self) -> Option<&Leading> {
        match &self.role {
            Role::Leading(leading) => Some(leading),
            _ => None,
        }
    }

    /// The earliest epoch that is listened to. The metadata's word binds like a promise: a disk that lost a promise is told of
    /// no earlier epoch again.
    #[must_use]
    pub fn floor(&self) -> Epoch {
        match planted(Bug::AssignmentIsNoFloor) {
            true => self.log.promised(),
            false => self.log.promised().max(self.assigned()),
        }
    }

    /// Says whether this replica opens or leads that very epoch.
    fn leads(&self, epoch: Epoch) -> bool {
        let is_assigned = self.assignment.as_ref().is_some_and(|of| of.epoch == epoch);
        is_assigned && matches!(self.role, Role::Opening(_) | Role::Leading(_))
    }

    /// Says whether it leads or opens an epoch that is over where none below `floor` is listened to. The refusal may be of a later epoch that the
    /// metadata has given this node, and of which it has not heard.
    fn is_ended_by(&self, floor: Epoch) -> bool {
        floor > self.assigned() && self.leads(self.assigned())
    }

    fn handle_refused(&mut self, now: Duration, from: NodeId, refusal: Refusal) {
        let goes_on = match &mut self.role {
            Role::Leading(leading) => {
                leading.handle_refused(now, from, refusal, &mut self.log, &mut self.actions)
            }
            Role::Opening(opening) => {
                let epoch = self.assignment.as_ref().map_or(NO_EPOCH, |of| of.epoch);
                match refusal {
                    Refusal::Fenced { floor } => floor <= epoch,
                    _ => {
                        opening.handle_refused(epoch, from, &mut self.actions);
                        true
                    }
                }
            }
            Role::Following | Role::Sealed => true,
        };
        match goes_on {
            true => self.advance(now),
            false => self.step_down(now),
        }
    }

    fn follow(&mut self, now: Duration, from: NodeId, epoch: Epoch, request: &Prompt) {
        if !planted(Bug::AcksAfterSeal) || !matches!(request, Prompt::Seal { .. }) {
            self.step_down(now);
        }
        self.listen_to(from, epoch);
        let following = Following {
            log: &mut self.log,
            actions: &mut self.actions,
            leader: from,
            epoch,
            is_certain: self.is_certain,
            sought: &mut self.sought,
        };
        following.handle(now, request);
    }

    fn advance(&mut self, now: Duration) {
        let (Role::Opening(opening), Some(assignment)) = (&mut self.role, &self.assignment) else {
            return;
        };
        let (log, actions) = (&mut self.log, &mut self.actions);
        if let Some(found) = opening.advance(now, assignment, self.node, log, actions) {
            let leading = Leading::open(now, self.node, assignment, self.durability, &found, log, actions);
            let mut leading = Box::new(leading);
            leading.handle_insync_min(now, self.insync_min, log, actions);
            self.role = Role::Leading(leading);
        }
    }

    /// Takes note of a later epoch's leader, and has the one before be told.
    fn listen_to(&mut self, leader: NodeId, epoch: Epoch) {
        if self.listens_to.is_some_and(|(_, known)| known >= epoch) {
            return;
        }
        if let Some((before, of)) = self.listens_to.replace((leader, epoch))
            && before != leader
            && before != self.node
        {
            self.actions.push_back(Action::Leave {
                leader: before,
                epoch: of,
                floor: epoch,
            });
        }
    }

    /// Ends what this replica leads or opens.
    fn step_down(&mut self, now: Duration) {
        match std::mem::replace(&mut self.role, Role::Sealed) {
            Role::Leading(leading) => leading.step_down(now, &mut self.log, &mut self.actions),
            Role::Opening(_) | Role::Sealed => {}
            Role::Following => self.role = Role::Following,
        }
    }
}
