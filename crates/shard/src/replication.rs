//! Replication, on the core that owns the partition: messages of other nodes come in, steps are carried out, messages go out.
//!
//! Read from `Shard::deliver` on, downwards. A replica's steps are done in its order; where the journal has no room, they and
//! everything else for that replica wait for some. A batch of a leader goes out with the flush that holds it, before that is run. A
//! sworn message leaves only when everything that was staged before it is durable: nothing here may send one earlier.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::mem::take;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use planted::{Bug, planted};
use platform::turns;
use protocol::history::BatchFacts;
use protocol::leader::{self, NodeId};
use protocol::metadata::TopicSettings;
use protocol::replica::room::UncommittedRoom;
use protocol::replica::{Assignment, NO_EPOCH, Persist, Prompt, Replica, Stored, Sworn};
use protocol::{Found, History, Vows};
use record::PartitionId;
use storage::{BatchBytes, RETRY_AFTER, Read, RecoveredPartition, Reserve, StageError};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::member::{AtHand, Member, Report, Shipment, Step};
use super::{NotLed, Partition, ReadRefusal, Role, Shard, partition};

/// The longest that a follower hears of a tail later than with the next batch.
const TAIL_DELAY: Duration = Duration::from_millis(5);
/// All partitions together may hold one of so many parts of the journal for what is not committed.
const UNCOMMITTED_PART: u64 = 4;
/// One partition may hold so many bytes.
const UNCOMMITTED_BYTES_MAX: u64 = 8 << 20;
/// Read at a time for a replica that lacks batches.
const SHIPMENT_BYTES: usize = 1 << 20;

/// A message from a replica of a partition to another one.
#[derive(Debug, Clone)]
pub struct Letter {
    /// The partition.
    pub partition: PartitionId,
    /// The message.
    pub message: Message,
}

/// Its content.
#[derive(Debug, Clone)]
pub enum Message {
    /// A message that claims nothing of its sender's disk; of an append, with the bytes of the batches, which are checked.
    Prompt(Prompt, Vec<Bytes>),
    /// A message whose sender has made durable what it claims.
    Sworn(Sworn),
}

/// Letters, and work that is left for later, of all replicas of a shard.
pub(super) struct Replication {
    /// The bytes of all partitions that are not committed.
    room: RefCell<UncommittedRoom>,
    outgoing: RefCell<Vec<(NodeId, Letter)>>,
    reports: RefCell<Vec<(PartitionId, Report)>>,
    /// There are letters or reports.
    news: Notify,
    /// Messages that are true once the frames before this one are durable; the receiver may be this node.
    sworn: RefCell<VecDeque<(u64, NodeId, PartitionId, Sworn)>>,
    /// Replicas whose steps wait for room, and what came for them meanwhile.
    stalled: RefCell<BTreeSet<PartitionId>>,
    deferred: RefCell<VecDeque<(NodeId, Letter)>>,
    /// Leaders with batches that their followers were not sent.
    unsent: RefCell<BTreeSet<PartitionId>>,
    /// Leaders whose followers do not know the tail.
    moved: RefCell<BTreeSet<PartitionId>>,
    tails: Notify,
    shipments: RefCell<VecDeque<(u64, PartitionId, Shipment)>>,
    ships: Notify,
    /// Some replica's base is in no checkpoint.
    base_is_unsaved: Cell<bool>,
}

impl Replication {
    /// The leaders of a shard may hold a quarter of its journal for what is not committed.
    pub(super) fn with_journal(bytes_max: u64) -> Replication {
        let room = UncommittedRoom::new(bytes_max / UNCOMMITTED_PART, UNCOMMITTED_BYTES_MAX);
        Replication {
            room: RefCell::new(room),
            outgoing: RefCell::default(),
            reports: RefCell::default(),
            news: Notify::new(),
            sworn: RefCell::default(),
            stalled: RefCell::default(),
            deferred: RefCell::default(),
            unsent: RefCell::default(),
            moved: RefCell::default(),
            tails: Notify::new(),
            shipments: RefCell::default(),
            ships: Notify::new(),
            base_is_unsaved: Cell::new(false),
        }
    }

    /// Says whether a partition may hold a batch of so many bytes that is not committed.
    pub(super) fn has_room(&self, id: PartitionId, bytes: u64) -> bool {
        self.room.borrow().has_room(id, bytes)
    }

    pub(super) fn take_room(&self, id: PartitionId, bytes: u64) {
        self.room.borrow_mut().take(id, bytes);
    }

    /// Forgets a partition that is given up.
    pub(super) fn forget(&self, id: PartitionId) {
        let held = self.room.borrow().held_by(id);
        self.give_back_room(id, held);
        self.stalled.borrow_mut().remove(&id);
    }

    fn give_back_room(&self, id: PartitionId, bytes: u64) {
        if bytes > 0 {
            self.room.borrow_mut().give_back(id, bytes);
        }
    }
}

impl Shard {
    /// Opens a partition that other nodes hold too: the replica that was recovered, or an empty one. It follows, and is in doubt,
    /// until it is assigned.
    ///
    /// # Errors
    /// The recovered log contradicts itself: a sentence for the operator.
    pub fn open_replica(
        &self,
        id: PartitionId,
        topic: TopicSettings,
        recovered: Option<&RecoveredPartition>,
    ) -> Result<(), String> {
        let (now, limits) = (self.clock.monotonic(), self.settings.producer_limits);
        let stored = recovered.map_or_else(|| Ok(Stored::default()), stored);
        let replica = stored.and_then(|stored| Replica::recover(now, self.settings.node, limits, stored));
        let mut replica = replica.map_err(|error| format!("{id}: {error}"))?;
        replica.handle_durability(topic.durability);
        let mut store = self.store.borrow_mut();
        store.open_partition(id, partition::rolling(&topic));
        assert_eq!(
            store.bounds(id),
            Some((replica.log_start(), replica.next_offset())),
            "replica and store have recovered the same log"
        );
        store.commit_to(id, replica.tail());
        let role = Role::Member(Box::new(Member::new(replica)));
        let partition = Partition::in_role(role, topic);
        drop(store);
        self.partitions.borrow_mut().insert(id, Box::new(partition));
        Ok(())
    }

    /// Starts the tasks that send followers what they lack, and tell them of tails, on the core that calls.
    pub fn start_replication(self: &Rc<Self>) {
        turns::spawn(self.clone().ship_for_ever());
        turns::spawn(self.clone().tell_tails());
    }

    /// Takes the metadata's word of a new epoch of a partition.
    ///
    /// # Errors
    /// The partition is not here, or has no other replica.
    pub fn assign(&self, id: PartitionId, assignment: Assignment) -> Result<(), NotLed> {
        let now = self.clock.monotonic();
        self.with_member(id, |replica| replica.handle_assignment(now, assignment))
    }

    /// Takes the metadata's word that a node's disk may have lost what it acknowledged for a partition.
    ///
    /// # Errors
    /// As [`Shard::assign`].
    pub fn doubt(&self, id: PartitionId, node: NodeId) -> Result<(), NotLed> {
        let now = self.clock.monotonic();
        self.with_member(id, |replica| replica.handle_doubt(now, node))
    }

    /// Takes the metadata's word that a replica of a partition is certain again.
    ///
    /// # Errors
    /// As [`Shard::assign`].
    pub fn certain(&self, id: PartitionId, node: NodeId) -> Result<(), NotLed> {
        let now = self.clock.monotonic();
        self.with_member(id, |replica| replica.handle_certain(now, node))
    }

    /// Begins anew with a node whose link was taken. Letters of before that are dropped by the caller.
    pub fn handle_link(&self, peer: NodeId) {
        let now = self.clock.monotonic();
        for id in self.partition_ids() {
            // It may be no replica, or gone.
            let _ = self.with_member(id, |replica| replica.handle_link(now, peer));
        }
    }

    /// Tells the replica of a partition something, and does what it wants done.
    fn with_member(&self, id: PartitionId, tell: impl FnOnce(&mut Replica)) -> Result<(), NotLed> {
        self.with_batches(id, &[], tell)
    }

    /// The same, with the batches of a message at hand.
    fn with_batches(
        &self,
        id: PartitionId,
        batches: &[Bytes],
        tell: impl FnOnce(&mut Replica),
    ) -> Result<(), NotLed> {
        let mut partitions = self.partitions.borrow_mut();
        let partition = partitions.get_mut(&id).ok_or(NotLed::UnknownPartition)?;
        let Role::Member(member) = &mut partition.role else {
            return Err(NotLed::NotLeader);
        };
        if member.is_given_up() {
            return Ok(());
        }
        let led = member.led_epoch();
        tell(&mut member.replica);
        let is_over = led.is_some() && led != member.led_epoch();
        self.carry_out(id, partition, AtHand::received(batches));
        if is_over {
            // The epoch that they believe in is.
            partition.wake_readers();
        }
        drop(partitions);
        self.append_committing();
        Ok(())
    }

    /// Takes a letter of another node. One to a partition that is not here is dropped: who sent it begins anew with the next link.
    pub fn deliver(&self, from: NodeId, letter: Letter) {
        if self.replication.stalled.borrow().contains(&letter.partition) {
            return self.replication.deferred.borrow_mut().push_back((from, letter));
        }
        let (id, now) = (letter.partition, self.clock.monotonic());
        let _ = match &letter.message {
            Message::Prompt(prompt, batches) => {
                self.with_batches(id, batches, |replica| replica.handle_prompt(now, from, prompt))
            }
            Message::Sworn(sworn) => self.with_member(id, |replica| replica.handle_sworn(now, from, sworn)),
        };
    }

    /// Takes the letters to other nodes, in the order in which they have to be sent to each.
    pub fn take_letters(&self) -> Vec<(NodeId, Letter)> {
        take(&mut *self.replication.outgoing.borrow_mut())
    }

    /// Takes the news for the metadata.
    pub fn take_reports(&self) -> Vec<(PartitionId, Report)> {
        take(&mut *self.replication.reports.borrow_mut())
    }

    /// Returns when there are letters or reports.
    pub async fn until_news(&self) {
        self.replication.news.notified().await;
    }

    /// Does what the replica of a partition wants done, as far as there is room.
    pub(super) fn carry_out(&self, id: PartitionId, partition: &mut Partition, at_hand: AtHand) {
        let Role::Member(member) = &mut partition.role else {
            return;
        };
        if member.take_actions(at_hand) {
            self.replication.unsent.borrow_mut().insert(id);
            self.flushing.want();
        }
        let is_done = self.take_steps(id, partition);
        let mut stalled = self.replication.stalled.borrow_mut();
        match is_done {
            true => stalled.remove(&id),
            false => stalled.insert(id),
        };
    }

    /// Takes one step after the other; `false` if the journal has no room for the next one.
    fn take_steps(&self, id: PartitionId, partition: &mut Partition) -> bool {
        loop {
            let Role::Member(member) = &mut partition.role else {
                return true;
            };
            if member.is_given_up() {
                return true;
            }
            let Some(step) = member.next_step() else { break };
            match step {
                Step::Stage(entry, batch) => match self.stage_entry(id, &entry, &batch) {
                    Ok(()) if matches!(entry, Persist::Base(_)) => {
                        member.note_base();
                        self.replication.base_is_unsaved.set(true);
                    }
                    Ok(()) => {}
                    Err(StageError::Full) => {
                        member.put_back(Step::Stage(entry, batch));
                        self.layout.want_room();
                        self.background.notify_one();
                        return false;
                    }
                    Err(error) => {
                        // The journal is dead, or the batch is larger than a file of it, which the leader's is not.
                        tracing::error!(partition = %id, %error, "a replica is given up until the next start");
                        member.give_up();
                    }
                },
                Step::Send(to, prompt) => self.send(to, id, Message::Prompt(prompt, Vec::new())),
                Step::Swear(to, sworn) if to != self.settings.node && member.unsaved_base().is_some() => {
                    member.hold(to, sworn);
                }
                Step::Swear(to, sworn) => self.swear(id, member, to, sworn),
                Step::Ship(shipment) => self.ship_later(id, shipment),
                Step::Lead(action) => {
                    if matches!(action, leader::Action::Commit { .. }) {
                        self.replication.moved.borrow_mut().insert(id);
                        self.replication.tails.notify_one();
                    }
                    partition.act_on(action);
                }
                Step::Show => partition.wake_readers(),
                Step::Report(report) => {
                    self.replication.reports.borrow_mut().push((id, report));
                    self.replication.news.notify_one();
                }
            }
        }
        self.commit_member(id, partition);
        true
    }

    /// Tells the store what is committed, and gives its room back.
    fn commit_member(&self, id: PartitionId, partition: &mut Partition) {
        let Role::Member(member) = &mut partition.role else {
            return;
        };
        self.replication.give_back_room(id, member.settle());
        if member.is_given_up() {
            return;
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
            Persist::Append { .. } => {
                let mut batch = BatchBytes::from(batch.clone());
                store.append_copy(id, &mut batch, None, Reserve::Keep)?;
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

    fn send(&self, to: NodeId, partition: PartitionId, message: Message) {
        let letter = Letter { partition, message };
        self.replication.outgoing.borrow_mut().push((to, letter));
        self.replication.news.notify_one();
    }

    /// Sends a message, or tells this node's own replica, once everything that is staged now is durable.
    fn swear(&self, id: PartitionId, member: &mut Member, to: NodeId, sworn: Sworn) {
        let (before, is_durable) = {
            let store = self.store.borrow();
            let before = store.staged_before();
            (before, before == 0 || store.is_durable(before - 1))
        };
        if !(is_durable || planted(Bug::SwornBeforeFlush)) {
            return self
                .replication
                .sworn
                .borrow_mut()
                .push_back((before, to, id, sworn));
        }
        match to == self.settings.node {
            true => {
                member.replica.handle_sworn(self.clock.monotonic(), to, &sworn);
                member.take_actions(AtHand::nothing());
            }
            false => self.send(to, id, Message::Sworn(sworn)),
        }
    }

    /// After a flush: sends what is true now.
    pub(super) fn release_sworn(&self) {
        if self.replication.base_is_unsaved.get() {
            // Only what is durable is laid out, and now its entry may be.
            self.layout.want_checkpoint();
        }
        loop {
            let next = {
                let store = self.store.borrow();
                let mut sworn = self.replication.sworn.borrow_mut();
                let is_true = |(before, ..): &(u64, _, _, _)| store.is_durable(before - 1);
                match sworn.front().is_some_and(is_true) {
                    true => sworn.pop_front(),
                    false => None,
                }
            };
            let Some((_, to, partition, sworn)) = next else {
                return;
            };
            let message = Message::Sworn(sworn);
            match to == self.settings.node {
                true => self.deliver(to, Letter { partition, message }),
                false => self.send(to, partition, message),
            }
        }
    }

    /// Goes on with replicas that waited for room in the journal, and with what has come for them.
    pub(super) fn retry_stalled(&self) {
        if self.replication.stalled.borrow().is_empty() {
            return;
        }
        let stalled = self.replication.stalled.borrow().clone();
        for id in stalled {
            let mut partitions = self.partitions.borrow_mut();
            match partitions.get_mut(&id) {
                Some(partition) => self.carry_out(id, partition, AtHand::nothing()),
                None => {
                    self.replication.stalled.borrow_mut().remove(&id);
                }
            }
        }
        let deferred = take(&mut *self.replication.deferred.borrow_mut());
        for (from, letter) in deferred {
            self.deliver(from, letter);
        }
    }

    /// Sends live followers the entries of their leaders, all of which are in frames that are flushed now or next.
    pub(super) fn send_unsent(&self) {
        if self.replication.unsent.borrow().is_empty() {
            return;
        }
        let unsent = take(&mut *self.replication.unsent.borrow_mut());
        let mut partitions = self.partitions.borrow_mut();
        for id in unsent {
            let Some(partition) = partitions.get_mut(&id) else {
                continue;
            };
            let Role::Member(member) = &mut partition.role else {
                continue;
            };
            for prompt in member.take_unsent() {
                let batches = self.bytes_of(id, &prompt);
                for to in member.replica.live_followers() {
                    self.send(to, id, Message::Prompt(prompt.clone(), batches.clone()));
                }
            }
        }
    }

    /// The batches of an append that is not flushed yet.
    fn bytes_of(&self, id: PartitionId, prompt: &Prompt) -> Vec<Bytes> {
        let Prompt::Append { batches, .. } = prompt else {
            return Vec::new();
        };
        let (Some(first), Some(last)) = (batches.first(), batches.last()) else {
            return Vec::new();
        };
        let mut store = self.store.borrow_mut();
        match store.read(id, first.first_offset, last.next_offset(), usize::MAX) {
            Ok(Read::Ready(bytes)) => bytes,
            _ => panic!("batches stay in memory until they are flushed"),
        }
    }

    /// Tells followers of the tails that have moved, a moment later: most hear of them with a batch before that.
    async fn tell_tails(self: Rc<Self>) {
        loop {
            self.replication.tails.notified().await;
            sleep(TAIL_DELAY).await;
            let moved = take(&mut *self.replication.moved.borrow_mut());
            let partitions = self.partitions.borrow();
            for id in moved {
                let Some(Role::Member(member)) = partitions.get(&id).map(|partition| &partition.role) else {
                    continue;
                };
                let Some(leader) = member.replica.leader() else {
                    continue;
                };
                let (epoch, tail) = (leader.epoch(), leader.tail());
                for to in member.replica.live_followers() {
                    self.send(
                        to,
                        id,
                        Message::Prompt(Prompt::Commit { epoch, tail }, Vec::new()),
                    );
                }
            }
        }
    }

    fn ship_later(&self, id: PartitionId, shipment: Shipment) {
        let before = self.store.borrow().staged_before();
        let mut shipments = self.replication.shipments.borrow_mut();
        shipments.push_back((before, id, shipment));
        self.replication.ships.notify_one();
    }

    /// Sends replicas the batches that they lack, one piece after the other.
    async fn ship_for_ever(self: Rc<Self>) {
        loop {
            let next = self.replication.shipments.borrow_mut().pop_front();
            let Some((before, id, shipment)) = next else {
                self.replication.ships.notified().await;
                continue;
            };
            if self.until_flushed(before).await.is_err() {
                return;
            }
            if let Err(error) = self.ship(id, &shipment).await {
                tracing::warn!(partition = %id, to = shipment.to.0, %error, "a replica could not be sent what it lacks");
                sleep(RETRY_AFTER).await;
                let now = self.clock.monotonic();
                let _ = self.with_member(id, |replica| replica.handle_link(now, shipment.to));
            }
        }
    }

    async fn ship(self: &Rc<Self>, id: PartitionId, shipment: &Shipment) -> Result<(), ReadRefusal> {
        let (first, until) = (shipment.first, shipment.next_offset);
        let found = self.read_batches(id, first, until, SHIPMENT_BYTES).await;
        let bytes = match found {
            // It was given up or cut off meanwhile: whoever asked for it compares again.
            Err(ReadRefusal::OutOfRange { .. } | ReadRefusal::UnknownPartition) => return Ok(()),
            found => found?,
        };
        let batches = bytes
            .iter()
            .flat_map(|bytes| record::batches(bytes).map_while(Result::ok));
        let batches: Vec<_> = batches.map(|(header, _)| BatchFacts::of(&header)).collect();
        let Some(end) = batches.last().map(BatchFacts::next_offset) else {
            return Ok(());
        };
        let prompt = Prompt::Append {
            epoch: shipment.epoch,
            writer_before: shipment.writer_before,
            batches,
        };
        self.send(shipment.to, id, Message::Prompt(prompt, bytes));
        let _ = self.with_member(id, |replica| replica.handle_shipped(shipment.to, end));
        Ok(())
    }

    /// The bases that the checkpoint which is begun now will have the history of.
    pub(super) fn unsaved_bases(&self) -> Vec<(PartitionId, u64)> {
        if !self.replication.base_is_unsaved.get() {
            return Vec::new();
        }
        let partitions = self.partitions.borrow();
        let unsaved = partitions
            .iter()
            .filter_map(|(id, partition)| match &partition.role {
                Role::Member(member) => Some((*id, member.unsaved_base()?)),
                Role::Lone(_) => None,
            });
        unsaved.collect()
    }

    /// Sends what waited for the checkpoint that has been written.
    pub(super) fn note_saved(&self, saved: Vec<(PartitionId, u64)>) {
        let mut partitions = self.partitions.borrow_mut();
        for (id, bases) in saved {
            let Some(partition) = partitions.get_mut(&id) else {
                continue;
            };
            let Role::Member(member) = &mut partition.role else {
                continue;
            };
            for (to, sworn) in member.note_saved(bases) {
                self.swear(id, member, to, sworn);
            }
        }
        drop(partitions);
        let is_unsaved = !self.unsaved_bases().is_empty();
        self.replication.base_is_unsaved.set(is_unsaved);
    }
}

/// The replica that recovery found. Where its log was made to begin anew since the last checkpoint, the history of what was before is
/// lost; whatever was sworn about it was held back until then.
fn stored(found: &RecoveredPartition) -> Result<Stored, protocol::RecoverError> {
    let mut vows = Vows {
        promised: found.promised,
        accepted: found.accepted,
    };
    let mut snapshot: &[u8] = &found.state;
    if found.begun_anew && !snapshot.is_empty() {
        let kept = History::vows_in(snapshot)?;
        vows.promised = vows.promised.max(kept.promised);
        vows.accepted = vows.accepted.max(kept.accepted);
        snapshot = &[];
    }
    let found = Found {
        log_start: found.log_start,
        next_offset: found.next,
        snapshot,
        batches: &found.replay,
    };
    Stored::found(&found, vows)
}
