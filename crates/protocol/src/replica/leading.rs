//! A leader whose epoch is open: it brings its followers to its own log and counts what they acknowledge in this epoch.
//!
//! Stands round the [`Leader`] that numbers and commits. It must never count a replica that has not accepted the epoch, one
//! whose disk is in doubt, or one that only stands beside the replica set.
//!
//! ```text
//!   a follower:  comparing ──► catching up ──► live
//!                    ▲              │            │
//!                    └──────────────┴────────────┘  a refusal, or a new link
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use planted::{Bug, planted};
use record::{Epoch, Offset};

use super::contract::{Action, Assignment, Follower, Persist, Prompt, Refusal, Sworn};
use super::log::Log;
use super::opening::{Found, is_same_log};
use crate::history::History;
use crate::leader::{self, Append, AppendError, Appended, Checked, Durability, Leader, LeaderState, NodeId};
use crate::leader::{EndMarker, Numbered, Replica, TrimError};
use crate::producers::Admission;

/// A member that lacks for so long what was appended before is not waited for beyond the ack quorum any more (Kafka's `replica.lag.time.max.ms`).
const LAG_MAX: Duration = Duration::from_secs(10);

/// The leader of an epoch with what it knows of its followers.
#[derive(Debug, Clone)]
pub(super) struct Leading {
    leader: Leader,
    node: NodeId,
    epoch: Epoch,
    first_offset: Offset,
    ack_quorum: usize,
    /// See [`Leader::handle_insync_min`].
    insync_min: u32,
    /// All that receive the log, this node among them.
    peers: Vec<Peer>,
    /// Configurations of earlier epochs have to be met until this epoch is accepted by its ack quorum.
    is_unsettled: bool,
}

#[derive(Debug, Clone)]
struct Peer {
    node: NodeId,
    is_member: bool,
    is_certain: bool,
    stage: Stage,
    /// It has become live since it was compared with last, and goes along.
    is_in_sync: bool,
    /// Since when it lacks something below an offset; `None` if it held all at the last look.
    lacks: Option<(Duration, Offset)>,
    /// The end of what it certainly holds of this epoch's log since its link was taken; `None` until it has accepted the epoch.
    durable: Option<Offset>,
    /// It promised with everything that is committed, and was sent nothing to accept. Only a hint: it counts for no commit.
    held_at_opening: bool,
    is_reported: bool,
    /// It has said in this epoch, since its link was taken, that it listens to this leader.
    listens: bool,
    /// The end of what it is being sent again, of one that is live.
    resent_until: Option<Offset>,
    /// Where it is to be compared with as soon as it is known where the first batch begins.
    sought: Option<Offset>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Comparing,
    CatchingUp,
    Live,
}

impl Peer {
    fn counts(&self) -> bool {
        (self.is_member && self.is_certain) || (!self.is_member && planted(Bug::JoiningCounts))
    }
}

impl Leading {
    /// Opens the epoch over what was found. Unless nothing is uncertain, the epoch is accepted here and by the followers first.
    pub(super) fn open(
        now: Duration,
        node: NodeId,
        assignment: &Assignment,
        durability: Durability,
        found: &Found,
        log: &mut Log,
        actions: &mut VecDeque<Action>,
    ) -> Leading {
        let (epoch, first_offset) = (assignment.epoch, log.next_offset());
        log.commit(now, found.tail);
        log.trim(now, found.log_start, actions);
        let configuration = &assignment.configuration;
        assert!(configuration.replicas.contains(&node), "a leader is a member");
        let tail = match planted(Bug::TailBeforeAccepts) {
            true => first_offset,
            false => log.tail(),
        };
        let leader = Leader::open(LeaderState {
            node,
            epoch,
            log_start: log.log_start(),
            tail,
            next_offset: first_offset,
            durability,
            replicas: replicas(assignment),
            ack_quorum: configuration.ack_quorum,
            history: log.lend_history(now),
        });
        let mut leading = Leading {
            leader,
            node,
            epoch,
            first_offset,
            ack_quorum: configuration.ack_quorum,
            insync_min: 0,
            peers: peers(assignment),
            is_unsettled: assignment.is_unsettled(),
        };
        if !found.is_clean {
            let writer_before = log.last_writer();
            log.accept(epoch, first_offset, writer_before, actions)
                .expect("nothing is cut off at the end");
            leading.acknowledge_own(log, actions);
        }
        if planted(Bug::ShortcutDespiteChange) && found.is_clean && leading.is_unsettled {
            leading.is_unsettled = false;
            actions.push_back(Action::Settled { epoch });
        }
        leading.greet(found, log, actions);
        leading
    }

    /// Brings in those that promised and hold the same; asks the others to compare.
    fn greet(&mut self, found: &Found, log: &Log, actions: &mut VecDeque<Action>) {
        let own = log.standing(true);
        for index in 0..self.peers.len() {
            let peer = &mut self.peers[index];
            peer.listens = found.promised.contains_key(&peer.node);
            if peer.node == self.node {
                peer.stage = Stage::Live;
                peer.is_in_sync = true;
                continue;
            }
            match found.promised.get(&peer.node) {
                Some(standing) if is_same_log(standing, &own) && standing.log_start == own.log_start => {
                    peer.stage = Stage::Live;
                    peer.is_in_sync = true;
                    // One that has not accepted the epoch takes no word of a tail: it may know less of it than others.
                    let knows_all = found.is_clean && standing.tail == found.tail;
                    peer.held_at_opening = knows_all && peer.counts();
                    if !peer.held_at_opening {
                        self.send_accept(index, log, actions);
                    }
                }
                Some(standing) => self.compare(index, standing.tail, log, actions),
                None => self.compare(index, log.last_offset(), log, actions),
            }
        }
    }

    /// Numbers a batch, as [`Leader::check_append`] does, unless so few followers are live that it could not be committed.
    pub(super) fn check_append(
        &self,
        append: &Append,
        admission: &Admission,
    ) -> Result<Checked, AppendError> {
        let replicas = self.live_count();
        let wanted = self.ack_quorum;
        match self.leader.check_append(append, admission)? {
            Checked::New(_) if replicas < wanted => Err(AppendError::NotEnoughReplicas { replicas, wanted }),
            checked => Ok(checked),
        }
    }

    /// The same of a marker.
    pub(super) fn check_marker(&self, marker: &EndMarker) -> Result<Checked, AppendError> {
        let replicas = self.live_count();
        let wanted = self.ack_quorum;
        match self.leader.check_marker(marker)? {
            Checked::New(_) if replicas < wanted => Err(AppendError::NotEnoughReplicas { replicas, wanted }),
            checked => Ok(checked),
        }
    }

    fn live_count(&self) -> usize {
        let live = |peer: &&Peer| peer.counts() && peer.stage == Stage::Live;
        self.peers.iter().filter(live).count()
    }

    pub(super) fn handle_append(
        &mut self,
        now: Duration,
        numbered: Numbered,
        log: &mut Log,
        actions: &mut VecDeque<Action>,
    ) -> Appended {
        let facts = numbered.facts();
        let appended = self.leader.handle_append(now, numbered);
        log.append(facts, actions);
        assert_eq!(
            self.leader.next_offset(),
            log.next_offset(),
            "leader and log end alike"
        );
        self.acknowledge_own(log, actions);
        self.drain(now, log, actions);
        appended
    }

    pub(super) fn check_trim(&self, first_kept: Offset) -> Result<Offset, TrimError> {
        self.leader.check_trim(first_kept)
    }

    pub(super) fn handle_trim(
        &mut self,
        now: Duration,
        log_start: Offset,
        log: &mut Log,
        actions: &mut VecDeque<Action>,
    ) {
        self.leader.handle_trim(log_start);
        log.trim(now, log_start, actions);
    }

    /// Counts what a replica holds in this epoch, and goes on with one that is catching up.
    pub(super) fn handle_acknowledged(
        &mut self,
        now: Duration,
        from: NodeId,
        accepted: Epoch,
        next_offset: Offset,
        log: &mut Log,
        actions: &mut VecDeque<Action>,
    ) {
        let Some(index) = self.index_of(from).filter(|_| next_offset <= log.next_offset()) else {
            return;
        };
        let peer = &mut self.peers[index];
        peer.listens = true;
        if accepted == self.epoch || planted(Bug::AckWithoutAccept) {
            peer.durable = peer.durable.max(Some(next_offset));
            self.count(index);
            self.drain(now, log, actions);
        }
        if self.peers[index].stage == Stage::Comparing {
            self.ship(index, next_offset, log, actions);
        }
        self.report(index, next_offset, actions);
    }

    /// Compares with a replica again that could not go on where it was thought to be. Gives `false` where the epoch is over.
    pub(super) fn handle_refused(
        &mut self,
        now: Duration,
        from: NodeId,
        refusal: Refusal,
        log: &mut Log,
        actions: &mut VecDeque<Action>,
    ) -> bool {
        match (refusal, self.index_of(from)) {
            (Refusal::Fenced { floor }, _) => return floor <= self.epoch,
            (Refusal::Apart { tail }, Some(index)) => {
                self.peers[index].listens = true;
                self.compare(index, tail, log, actions);
                self.drain(now, log, actions);
            }
            _ => {}
        }
        true
    }

    /// Goes on with those that wait for the beginning of the first batch.
    pub(super) fn handle_first(&mut self, log: &Log, actions: &mut VecDeque<Action>) {
        for index in 0..self.peers.len() {
            if let Some(at) = self.peers[index].sought {
                self.compare(index, at, log, actions);
            }
        }
    }

    pub(super) fn handle_differs(
        &mut self,
        now: Duration,
        from: NodeId,
        at: Offset,
        log: &mut Log,
        actions: &mut VecDeque<Action>,
    ) {
        if let Some(index) = self.index_of(from) {
            self.peers[index].listens = true;
            self.compare(index, at, log, actions);
            self.drain(now, log, actions);
        }
    }

    /// Goes on with a replica that was sent the log up to `next_offset`.
    pub(super) fn handle_shipped(
        &mut self,
        to: NodeId,
        next_offset: Offset,
        log: &Log,
        actions: &mut VecDeque<Action>,
    ) {
        let Some(index) = self.index_of(to) else {
            return;
        };
        match self.peers[index].stage {
            Stage::CatchingUp => self.ship(index, next_offset, log, actions),
            Stage::Live => self.resend(index, next_offset, log, actions),
            Stage::Comparing => {}
        }
    }

    /// Sends a live replica again what it is not known to hold.
    pub(super) fn handle_unreached(&mut self, node: NodeId, log: &Log, actions: &mut VecDeque<Action>) {
        if let Some(index) = self.index_of(node)
            && self.peers[index].stage == Stage::Live
        {
            self.peers[index].resent_until = Some(log.next_offset());
            let held = self.peers[index].durable.unwrap_or(self.first_offset);
            self.resend(index, held, log, actions);
        }
    }

    fn resend(&mut self, index: usize, first: Offset, log: &Log, actions: &mut VecDeque<Action>) {
        let peer = &mut self.peers[index];
        let until = peer.resent_until.filter(|until| first < *until);
        let Some(next_offset) = until.filter(|_| first >= log.first()) else {
            peer.resent_until = None;
            return;
        };
        actions.push_back(Action::Ship {
            to: peer.node,
            epoch: self.epoch,
            first,
            next_offset,
        });
    }

    /// Begins anew with a replica whose link was taken: what was on its way may be lost, and its disk may be another.
    pub(super) fn handle_link(
        &mut self,
        now: Duration,
        peer: NodeId,
        log: &mut Log,
        actions: &mut VecDeque<Action>,
    ) {
        if let Some(index) = self.index_of(peer) {
            self.forget(index);
            self.drain(now, log, actions);
            self.compare(index, log.last_offset(), log, actions);
        }
    }

    /// Counts a replica no more that nothing reaches.
    pub(super) fn handle_link_lost(
        &mut self,
        now: Duration,
        peer: NodeId,
        log: &mut Log,
        actions: &mut VecDeque<Action>,
    ) {
        if let Some(index) = self.index_of(peer) {
            self.forget(index);
            self.drain(now, log, actions);
        }
    }

    /// Has appends wait for so many replicas, where so many are in sync ([`Leader::handle_insync_min`]).
    pub(super) fn handle_insync_min(
        &mut self,
        now: Duration,
        insync_min: u32,
        log: &mut Log,
        actions: &mut VecDeque<Action>,
    ) {
        self.insync_min = insync_min;
        self.adjust_quorum();
        self.drain(now, log, actions);
    }

    /// Says whether appends wait for more replicas than the ack quorum.
    pub(super) fn waits_for_more(&self) -> bool {
        self.insync_min as usize > self.ack_quorum
    }

    /// Has a look at how far the members are. One whose disk stands still keeps its link, and must not keep producers and readers waiting.
    pub(super) fn handle_look(&mut self, now: Duration, log: &mut Log, actions: &mut VecDeque<Action>) {
        let end = log.next_offset();
        for peer in self.peers.iter_mut().filter(|peer| peer.node != self.node) {
            let held = peer.durable.unwrap_or(self.first_offset);
            match peer.lacks {
                _ if held >= end => {
                    peer.lacks = None;
                    peer.is_in_sync |= peer.stage == Stage::Live;
                }
                Some((since, wanted)) if held < wanted => {
                    peer.is_in_sync &= now.saturating_sub(since) < LAG_MAX;
                }
                _ => peer.lacks = Some((now, end)),
            }
        }
        self.adjust_quorum();
        self.drain(now, log, actions);
    }

    /// Checks that as many replicas are in sync as a producer wants to hold its batch.
    pub(super) fn check_insync(&self, wanted: u32) -> Result<(), AppendError> {
        let members = self.peers.iter().filter(|peer| peer.is_member).count();
        let (replicas, wanted) = (self.in_sync(), members.min(wanted as usize));
        match wanted <= self.ack_quorum || wanted <= replicas {
            true => Ok(()),
            false => Err(AppendError::NotEnoughReplicas { replicas, wanted }),
        }
    }

    /// Says whether an ack quorum listens to this leader, of those for which `listens` says that they do now. A disk in doubt does not matter: it is
    /// the promise that counts.
    pub(super) fn is_listened_to(&self, listens: impl Fn(NodeId) -> bool) -> bool {
        let does = |peer: &&Peer| {
            let is_other = peer.is_member && peer.node != self.node;
            is_other && peer.listens && listens(peer.node)
        };
        1 + self.peers.iter().filter(does).count() >= self.ack_quorum
    }

    fn in_sync(&self) -> usize {
        let in_sync = |peer: &&Peer| peer.counts() && peer.is_in_sync;
        self.peers.iter().filter(in_sync).count()
    }

    fn adjust_quorum(&mut self) {
        let members = self.peers.iter().filter(|peer| peer.is_member).count();
        let all_are_there = self.in_sync() >= members.min(self.insync_min as usize);
        self.leader.handle_insync_min(self.insync_min, all_are_there);
    }

    /// Counts a replica that the metadata says is certain again.
    pub(super) fn handle_certain(
        &mut self,
        now: Duration,
        node: NodeId,
        log: &mut Log,
        actions: &mut VecDeque<Action>,
    ) {
        if let Some(index) = self.index_of(node) {
            self.peers[index].is_certain = true;
            self.adjust_quorum();
            self.count(index);
            self.drain(now, log, actions);
            self.report_settled(actions);
        }
    }

    /// Counts another replica no more whose disk is in doubt.
    pub(super) fn handle_doubt(
        &mut self,
        now: Duration,
        node: NodeId,
        log: &mut Log,
        actions: &mut VecDeque<Action>,
    ) {
        if let Some(index) = self.index_of(node) {
            self.peers[index].is_certain = false;
            self.forget(index);
            self.drain(now, log, actions);
        }
    }

    /// Ends the epoch; gives the history of what was committed in it back to the log.
    pub(super) fn step_down(mut self, now: Duration, log: &mut Log, actions: &mut VecDeque<Action>) {
        self.leader.handle_seal();
        self.drain(now, log, actions);
        let history = match planted(Bug::UncommittedHistoryKept) {
            true => self.leader.into_history(),
            false => {
                let (_, snapshot) = self.leader.snapshot_history(now);
                History::restore(now, log.limits(), &snapshot).expect("it was just written")
            }
        };
        log.take_back(history);
    }

    pub(super) fn leader(&self) -> &Leader {
        &self.leader
    }

    pub(super) fn leader_mut(&mut self) -> &mut Leader {
        &mut self.leader
    }

    pub(super) fn first_offset(&self) -> Offset {
        self.first_offset
    }

    pub(super) fn snapshot_history(&self, now: Duration) -> (Offset, Bytes) {
        self.leader.snapshot_history(now)
    }

    pub(super) fn live_followers(&self) -> impl Iterator<Item = NodeId> + '_ {
        let live = self.peers.iter().filter(|peer| peer.stage == Stage::Live);
        live.map(|peer| peer.node).filter(|node| *node != self.node)
    }

    pub(super) fn followers(&self, next_offset: Offset) -> impl Iterator<Item = Follower> + '_ {
        let others = self.peers.iter().filter(|peer| peer.node != self.node);
        others.map(move |peer| {
            let is_live = peer.stage == Stage::Live;
            // One that is live has the log as it was at the opening, and may not have been asked for more since.
            let held = match is_live {
                true => self.first_offset,
                false => self.leader.log_start(),
            };
            let held = peer.durable.unwrap_or(held);
            Follower {
                node: peer.node,
                is_live,
                lacks: u64::try_from(next_offset.0 - held.0).unwrap_or(0),
            }
        })
    }

    /// Says whether a live follower counts, and holds all that is committed.
    pub(super) fn holds_committed(&self, node: NodeId) -> bool {
        let peer = self.index_of(node).map(|index| &self.peers[index]);
        peer.is_some_and(|peer| {
            let held = peer.durable.or(peer.held_at_opening.then_some(self.first_offset));
            let reaches = held.is_some_and(|held| held >= self.leader.tail());
            peer.counts() && peer.stage == Stage::Live && reaches
        })
    }

    /// The followers that were asked where they stand, and have not said.
    pub(super) fn awaited(&self) -> impl Iterator<Item = NodeId> + '_ {
        let comparing = self.peers.iter().filter(|peer| peer.stage == Stage::Comparing);
        comparing.map(|peer| peer.node).filter(|node| *node != self.node)
    }

    /// An entry of this leader as the message that live followers get.
    pub(super) fn as_message(&self, entry: &Persist, log: &Log) -> Option<Prompt> {
        let epoch = self.epoch;
        match entry {
            Persist::Append { batch } if batch.epoch == epoch => Some(Prompt::Append {
                epoch,
                writer_before: log.writer_before(batch.first_offset),
                batches: vec![*batch],
            }),
            Persist::Trim { log_start } => Some(Prompt::Trim {
                epoch,
                log_start: *log_start,
            }),
            // Followers are sent the accept when they are brought in.
            _ => None,
        }
    }

    fn index_of(&self, node: NodeId) -> Option<usize> {
        self.peers.iter().position(|peer| peer.node == node)
    }

    fn acknowledge_own(&self, log: &Log, actions: &mut VecDeque<Action>) {
        actions.push_back(Action::SendDurable {
            to: self.node,
            message: Sworn::Acknowledged {
                epoch: self.epoch,
                accepted: self.epoch,
                next_offset: log.next_offset(),
            },
        });
    }

    fn count(&mut self, index: usize) {
        let peer = &self.peers[index];
        if let Some(next_offset) = peer.durable
            && peer.counts()
        {
            self.leader
                .handle_durable(peer.node, next_offset)
                .expect("it is a member and holds no more than the leader");
        }
    }

    /// A replica has to say anew where it stands before anything is sent to it, or counted or reported of it.
    fn forget(&mut self, index: usize) {
        let peer = &mut self.peers[index];
        peer.stage = Stage::Comparing;
        peer.sought = None;
        peer.is_in_sync = false;
        peer.lacks = None;
        peer.is_reported = false;
        peer.listens = false;
        peer.held_at_opening = false;
        if !planted(Bug::AcksOutliveLink) {
            peer.durable = None;
            self.leader.handle_lost(peer.node);
        }
        self.adjust_quorum();
    }

    fn drain(&mut self, now: Duration, log: &mut Log, actions: &mut VecDeque<Action>) {
        while let Some(action) = self.leader.next_action() {
            if let leader::Action::Commit { tail, .. } = action {
                log.commit(now, tail);
            }
            actions.push_back(Action::Leader(action));
        }
    }

    fn compare(&mut self, index: usize, at: Offset, log: &Log, actions: &mut VecDeque<Action>) {
        self.peers[index].stage = Stage::Comparing;
        self.peers[index].is_in_sync = false;
        self.adjust_quorum();
        let is_sought = at < log.log_start() && log.must_find_first();
        self.peers[index].sought = is_sought.then_some(at);
        if is_sought {
            let log_start = log.log_start();
            return actions.push_back(Action::FindFirst { log_start });
        }
        let peer = &self.peers[index];
        // `snapshot_history` needs no time but for the producers' silence, which a new replica counts anew.
        let landmark = log.landmark(at, || self.leader.snapshot_history(Duration::ZERO));
        actions.push_back(Action::Send {
            to: peer.node,
            message: Prompt::Compare {
                epoch: self.epoch,
                landmark,
            },
        });
    }

    /// Sends a replica what it lacks from `first` on, or has it join the live ones.
    fn ship(&mut self, index: usize, first: Offset, log: &Log, actions: &mut VecDeque<Action>) {
        let (to, next_offset) = (self.peers[index].node, log.next_offset());
        if first < log.first() {
            return self.compare(index, first, log, actions);
        }
        self.peers[index].sought = None;
        if first < next_offset {
            self.peers[index].stage = Stage::CatchingUp;
            actions.push_back(Action::Ship {
                to,
                epoch: self.epoch,
                first,
                next_offset,
            });
            return;
        }
        self.peers[index].stage = Stage::Live;
        self.peers[index].is_in_sync = true;
        self.adjust_quorum();
        self.send_accept(index, log, actions);
        self.send_start(index, log, actions);
    }

    /// Has a replica give up what was given up while it was not live.
    fn send_start(&self, index: usize, log: &Log, actions: &mut VecDeque<Action>) {
        let (epoch, log_start) = (self.epoch, log.log_start());
        if log_start > Offset::ZERO {
            let message = Prompt::Trim { epoch, log_start };
            let to = self.peers[index].node;
            actions.push_back(Action::Send { to, message });
        }
    }

    /// Has a replica accept the epoch that nothing was written in yet. Later the first batch of the epoch does that.
    fn send_accept(&self, index: usize, log: &Log, actions: &mut VecDeque<Action>) {
        let peer = &self.peers[index];
        if peer.durable.is_none() && log.next_offset() == self.first_offset {
            actions.push_back(Action::Send {
                to: peer.node,
                message: Prompt::Accept {
                    epoch: self.epoch,
                    first: self.first_offset,
                    writer_before: log.last_writer(),
                },
            });
        }
    }

    /// Says whether the ack quorum has accepted the epoch: nothing that an earlier one has left behind anywhere can come back.
    pub(super) fn is_accepted(&self) -> bool {
        let accepted = |peer: &&Peer| {
            let reaches = peer.durable.is_some_and(|durable| durable >= self.first_offset);
            reaches && peer.counts()
        };
        self.peers.iter().filter(accepted).count() >= self.ack_quorum
    }

    /// Has the epoch accepted that was opened without: nothing was uncertain then among those that promised. The first batch of the epoch does the same.
    pub(super) fn have_accepted(&mut self, log: &mut Log, actions: &mut VecDeque<Action>) {
        if log.next_offset() != self.first_offset {
            return;
        }
        if log.accepted() < self.epoch {
            let writer_before = log.last_writer();
            log.accept(self.epoch, self.first_offset, writer_before, actions)
                .expect("nothing is cut off at the end");
            self.acknowledge_own(log, actions);
        }
        for index in 0..self.peers.len() {
            let peer = &self.peers[index];
            if peer.node != self.node && peer.stage == Stage::Live {
                self.send_accept(index, log, actions);
            }
        }
    }

    /// Tells the metadata once that the ack quorum has accepted the epoch, if earlier configurations wait for that.
    fn report_settled(&mut self, actions: &mut VecDeque<Action>) {
        if self.is_unsettled && self.is_accepted() {
            self.is_unsettled = false;
            actions.push_back(Action::Settled { epoch: self.epoch });
        }
    }

    /// Tells the metadata what it waits for from this epoch.
    fn report(&mut self, index: usize, next_offset: Offset, actions: &mut VecDeque<Action>) {
        self.report_settled(actions);
        // This log at the opening is everything that earlier epochs can have committed. The epoch need not be open: it
        // may be that this very replica is wanted for its ack quorum.
        let committed = self.leader.tail().max(self.first_offset);
        let peer = &mut self.peers[index];
        let holds_all = match planted(Bug::CaughtUpWithoutAccept) {
            true => next_offset >= self.leader.tail(),
            false => peer.durable.is_some_and(|durable| durable >= committed),
        };
        if holds_all && !(peer.is_member && peer.is_certain) && !peer.is_reported {
            peer.is_reported = true;
            actions.push_back(Action::CaughtUp { replica: peer.node });
        }
    }
}

/// The replicas that the leader counts: nothing is acknowledged in the epoch yet.
fn replicas(assignment: &Assignment) -> Vec<Replica> {
    let joining = assignment.joining.iter().filter(|_| planted(Bug::JoiningCounts));
    let members = assignment.configuration.replicas.iter().chain(joining);
    let replica = |node: &NodeId| Replica {
        node: *node,
        next_offset: Offset::ZERO,
    };
    members.map(replica).collect()
}

fn peers(assignment: &Assignment) -> Vec<Peer> {
    let peer = |node: &NodeId, is_member| Peer {
        node: *node,
        is_member,
        is_certain: !assignment.uncertain.contains(node),
        stage: Stage::Comparing,
        is_in_sync: false,
        lacks: None,
        durable: None,
        held_at_opening: false,
        is_reported: false,
        listens: false,
        resent_until: None,
        sought: None,
    };
    let members = &assignment.configuration.replicas;
    let joining = assignment.joining.iter().filter(|node| !members.contains(node));
    let members = members.iter().map(|node| peer(node, true));
    members.chain(joining.map(|node| peer(node, false))).collect()
}
