//! Replication, on the core that owns the partition: words of other nodes and of the metadata come in, steps are carried out, letters
//! go out.
//!
//! Read from `Shard::hear` on, downwards. A replica is told a word when the journal has room for all that may come of it; until then
//! the word waits, and with it what comes for that replica later. Its steps are then carried out in its order. A batch of a leader
//! goes out with the flush that holds it, before that is run, to each follower or along a chain of them (`chain`). A sworn message leaves only when everything that was staged before it is
//! durable: nothing here may send one earlier.

mod chain;
mod gaps;
mod leases;
mod looks;
mod pace;
mod shipping;
mod steps;
mod words;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem::take;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use planted::{Bug, planted};
use platform::slices::Slices;
use platform::turns;
use protocol::Leader;
use protocol::leader::NodeId;
use protocol::metadata::TopicSettings;
use protocol::replica::lease::Leases;
use protocol::replica::room::UncommittedRoom;
use protocol::replica::{Assignment, Prompt, Refusal, Replica, Stored, Sworn};
use protocol::{Found, History, Vows};
use record::{Offset, PartitionId};
use storage::{Read, RecoveredPartition, Reserve};
use tokio::sync::{Notify, Semaphore};
use tokio::time::sleep;

use chain::Chains;
pub use looks::{FollowerFigures, LedFigures};
use pace::Pace;
use words::{Deferred, Early, Word, tell_contradiction};
pub use words::{Letter, Message};

use super::member::{AtHand, Member, Report, Shipment, split};
use super::{AppendRefusal, NotLed, Partition, Role, Shard, partition, repair};

/// Replicas that hear of a link before others have their turn.
const REPLICAS_IN_ONE_TURN: usize = 200;
/// Bytes of batches on their way to replicas that lack them, of all partitions of a shard.
const SHIPPED_BYTES_MAX: usize = 4 << 20;
/// The longest that followers hear of a tail later than it has moved.
const TAIL_DELAY: Duration = Duration::from_millis(5);
/// All partitions together may hold one of so many parts of the journal for what is not committed.
const UNCOMMITTED_PART: u64 = 4;
/// One partition may hold so many bytes.
const UNCOMMITTED_BYTES_MAX: u64 = 8 << 20;
/// The most entries without a batch that a word leads to: a promise, a cut or an accept, a trim.
const BARE_ENTRIES_MAX: usize = 3;

/// A node that letters reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linked {
    /// Its start that has the link.
    pub start: u64,
    /// It passes letters on.
    pub relays: bool,
}

/// Letters, and work that is left for later, of all replicas of a shard.
pub(super) struct Replication {
    /// The bytes of all partitions that are not committed.
    room: RefCell<UncommittedRoom>,
    /// Words that wait for room in the journal. Their number is bounded by whoever delivers letters ([`Shard::deferred_bytes`]).
    deferred: RefCell<Deferred>,
    early: RefCell<Early>,
    /// The nodes that letters reach.
    linked: RefCell<BTreeMap<NodeId, Linked>>,
    leases: RefCell<Leases>,
    chains: RefCell<Chains>,
    /// A node has listened to this one just now.
    listened: Notify,
    /// Replicas that have to look again, and when.
    wakes: RefCell<BTreeMap<PartitionId, Duration>>,
    /// There are more of them.
    wakes_earlier: Notify,
    /// The nodes that were awaited at the last look.
    awaited: RefCell<BTreeSet<(PartitionId, NodeId)>>,
    /// Room for batches on their way to replicas that lack them.
    shipped: Arc<Semaphore>,
    outgoing: RefCell<Vec<(NodeId, Letter)>>,
    reports: RefCell<Vec<(PartitionId, Report)>>,
    /// There are letters or reports.
    news: Notify,
    /// An epoch is open here, or led here no more.
    leads: Notify,
    /// Messages that are true once the frames before this one are durable; the receiver may be this node.
    sworn: RefCell<VecDeque<(u64, NodeId, PartitionId, Sworn)>>,
    /// Leaders with entries that their followers were not sent.
    unsent: RefCell<BTreeSet<PartitionId>>,
    /// Leaders with followers that do not know the tail.
    moved: RefCell<BTreeSet<PartitionId>>,
    tails: Notify,
    shipments: RefCell<VecDeque<(u64, PartitionId, Shipment)>>,
    /// Starts of logs of which replicas want to know where their batches begin. Each when so many frames are durable.
    finds: RefCell<VecDeque<(u64, PartitionId, Offset)>>,
    /// Partitions of which that could not be read, and is to be tried again.
    finds_again: RefCell<BTreeSet<PartitionId>>,
    ships: Notify,
    pace: RefCell<Pace>,
    /// Some replica's base is in no checkpoint.
    base_is_unsaved: Cell<bool>,
    /// Sworn messages are being sent.
    is_releasing: Cell<bool>,
    /// The journal takes nothing more.
    died: Notify,
}

impl Replication {
    /// The leaders of a shard may hold a quarter of its journal for what is not committed.
    pub(super) fn with_journal(bytes_max: u64, now: Duration) -> Replication {
        let room = UncommittedRoom::new(bytes_max / UNCOMMITTED_PART, UNCOMMITTED_BYTES_MAX);
        Replication {
            room: RefCell::new(room),
            deferred: RefCell::default(),
            early: RefCell::default(),
            linked: RefCell::default(),
            leases: RefCell::new(Leases::new(now)),
            chains: RefCell::default(),
            listened: Notify::new(),
            wakes: RefCell::default(),
            wakes_earlier: Notify::new(),
            awaited: RefCell::default(),
            shipped: Arc::new(Semaphore::new(SHIPPED_BYTES_MAX)),
            outgoing: RefCell::default(),
            reports: RefCell::default(),
            leads: Notify::new(),
            news: Notify::new(),
            sworn: RefCell::default(),
            unsent: RefCell::default(),
            moved: RefCell::default(),
            tails: Notify::new(),
            shipments: RefCell::default(),
            finds: RefCell::default(),
            finds_again: RefCell::default(),
            ships: Notify::new(),
            pace: RefCell::default(),
            base_is_unsaved: Cell::new(false),
            is_releasing: Cell::new(false),
            died: Notify::new(),
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
        self.deferred.borrow_mut().forget(id);
        self.finds.borrow_mut().retain(|(_, of, _)| *of != id);
    }

    fn give_back_room(&self, id: PartitionId, bytes: u64) {
        if bytes > 0 {
            self.room.borrow_mut().give_back(id, bytes);
        }
    }

    /// Says whether letters reach a node, and come from it.
    pub(super) fn is_linked_with(&self, node: NodeId) -> bool {
        self.linked.borrow().contains_key(&node)
    }

    /// There are letters to be taken.
    pub(super) fn tell_news(&self) {
        self.news.notify_one();
    }

    /// Says whether words for a replica wait for room.
    #[cfg(test)]
    pub(super) fn defers(&self, id: PartitionId) -> bool {
        self.deferred.borrow().has(id)
    }
}

impl Shard {
    /// Opens a partition that other nodes hold too: the replica that was recovered, or an empty one. It follows, and is in doubt,
    /// until it is assigned. One that this node has given up, and that comes back, is opened later.
    ///
    /// # Errors
    /// The recovered log contradicts itself: a sentence for the operator.
    pub fn open_replica(
        self: &Rc<Self>,
        id: PartitionId,
        topic: TopicSettings,
        recovered: Option<&RecoveredPartition>,
    ) -> Result<(), String> {
        if recovered.is_none() && !self.store.borrow().may_begin(id) {
            self.open_when_forgotten(id, topic);
            return Ok(());
        }
        self.keep_files(id);
        let (now, limits) = (self.clock.monotonic(), self.settings.producer_limits);
        let stored = recovered.map_or_else(|| Ok(Stored::default()), stored);
        let replica = stored.and_then(|stored| Replica::recover(now, self.settings.node, limits, stored));
        let mut replica = replica.map_err(|error| format!("{id}: {error}"))?;
        replica.handle_durability(topic.durability);
        replica.handle_insync_min(now, topic.insync_replicas_min);
        let mut store = self.store.borrow_mut();
        store.open_partition(id, partition::rolling(&topic));
        assert_eq!(
            store.bounds(id),
            Some((replica.log_start(), replica.next_offset())),
            "replica and store have recovered the same log"
        );
        store.commit_to(id, replica.tail());
        drop(store);
        let unknown_until = self.replication.leases.borrow().unknown_until();
        let role = Role::Member(Box::new(Member::new(replica, unknown_until)));
        let mut partition = Partition::in_role(role, topic);
        if topic.is_ordered {
            partition.await_order(true);
            partition.reporter = self.reporter(id);
        }
        self.partitions.borrow_mut().insert(id, Box::new(partition));
        Ok(())
    }

    /// Starts the tasks that send followers what they lack, and tell them of tails, on the core that calls.
    pub fn start_replication(self: &Rc<Self>) {
        turns::spawn(self.clone().ship_for_ever());
        turns::spawn(self.clone().tell_tails());
        turns::spawn(self.clone().ask_again());
        turns::spawn(self.clone().look_for_preferred());
        turns::spawn(self.clone().wake_replicas());
        repair::start(self);
    }

    /// Takes the metadata's word of a new epoch of a partition.
    ///
    /// # Errors
    /// The partition is not here, or has no other replica.
    pub fn assign(&self, id: PartitionId, assignment: Assignment) -> Result<(), NotLed> {
        let Some(assignment) = self.returning.assign(id, assignment) else {
            return Ok(());
        };
        self.hear(id, Word::Assign(assignment))?;
        let early = self.replication.early.borrow_mut().take(id);
        for (from, letter) in early {
            self.deliver(from, letter);
        }
        Ok(())
    }

    /// Takes the metadata's word that a node's disk may have lost what it acknowledged for a partition.
    ///
    /// # Errors
    /// As [`Shard::assign`].
    pub fn doubt(&self, id: PartitionId, node: NodeId) -> Result<(), NotLed> {
        match self.returning.note_doubt(id, node, true) {
            true => Ok(()),
            false => self.hear(id, Word::Doubt(node)),
        }
    }

    /// Takes the metadata's word that a replica of a partition is certain again.
    ///
    /// # Errors
    /// As [`Shard::assign`].
    pub fn certain(&self, id: PartitionId, node: NodeId) -> Result<(), NotLed> {
        match self.returning.note_doubt(id, node, false) {
            true => Ok(()),
            false => self.hear(id, Word::Certain(node)),
        }
    }

    /// Begins anew with a node whose link was taken: what it has sent before and waits here is dropped. Letters that come later over the
    /// earlier link are the caller's to drop.
    pub async fn handle_link(&self, peer: NodeId, linked: Linked) {
        self.drop_received(peer);
        self.ranges.forget(peer);
        self.replication.linked.borrow_mut().insert(peer, linked);
        let now = self.clock.monotonic();
        self.replication.leases.borrow_mut().handle_link(now, peer);
        self.replication.chains.borrow_mut().forget(peer);
        let mut slices = Slices::of_own(REPLICAS_IN_ONE_TURN);
        for id in self.replica_ids() {
            self.hear_of_link(id, peer, Word::Link(peer));
            slices.did(1).await;
        }
    }

    /// Takes note that letters do not reach a node any more: none are written until [`Shard::handle_link`]. `was_closed` says that the
    /// other node has ended the link in order, or with its process. That counts at once, before this returns for the first time.
    pub async fn handle_link_lost(&self, peer: NodeId, was_closed: bool) {
        let leases = &self.replication.leases;
        leases.borrow_mut().handle_link_lost(peer, was_closed);
        self.drop_received(peer);
        self.replication.linked.borrow_mut().remove(&peer);
        self.ranges.forget(peer);
        self.replication
            .outgoing
            .borrow_mut()
            .retain(|(to, _)| *to != peer);
        let mut slices = Slices::of_own(REPLICAS_IN_ONE_TURN);
        for id in self.replica_ids() {
            self.hear_of_link(id, peer, Word::LinkLost(peer));
            slices.did(1).await;
        }
    }

    /// Tells a replica of a node's link. The entries that this node was to pass on may be lost, too.
    fn hear_of_link(&self, id: PartitionId, peer: NodeId, word: Word) {
        let behind = self.behind_in_chain(id, peer);
        // It may be gone.
        let _ = self.hear(id, word);
        for follower in behind {
            let _ = self.hear(id, Word::Unreached(follower));
        }
    }

    /// The partitions here that other nodes hold, too.
    fn replica_ids(&self) -> Vec<PartitionId> {
        let partitions = self.partitions.borrow();
        let replicas = partitions
            .iter()
            .filter(|(_, partition)| matches!(partition.role, Role::Member(_)));
        let mut ids: Vec<PartitionId> = replicas.map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }

    fn drop_received(&self, peer: NodeId) {
        self.replication.deferred.borrow_mut().drop_of(peer);
        self.replication.early.borrow_mut().drop_of(peer);
    }

    /// The bytes of batches that wait for room in the journal. Where they become too many, the links that they came by have to end.
    pub fn deferred_bytes(&self) -> usize {
        self.replication.deferred.borrow().bytes
    }

    /// Takes a letter of another node. One of an epoch that the metadata has not told of here waits for that: until then nobody knows whether this
    /// replica is the one that it is for, or one that is given up before. Should it be dropped, its sender asks again.
    pub fn deliver(&self, from: NodeId, letter: Letter) {
        let Some((from, letter)) = self.pass_on(from, letter) else {
            return;
        };
        if self.is_early(&letter) {
            return self.replication.early.borrow_mut().keep(from, letter);
        }
        // It may be no replica.
        let _ = self.hear(letter.partition, Word::Message(from, letter.message));
    }

    fn is_early(&self, letter: &Letter) -> bool {
        if letter.message.fences() {
            // It says nothing of a log, and a leader that is behind with the metadata must hear it all the same.
            return false;
        }
        let partitions = self.partitions.borrow();
        match partitions.get(&letter.partition).map(|partition| &partition.role) {
            None => true,
            Some(Role::Member(member)) => letter.message.epoch() > member.replica.assigned(),
            Some(Role::Lone(_)) => false,
        }
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

    /// Returns when some replica has opened an epoch as its leader, or leads no more.
    pub async fn until_leads_change(&self) {
        self.replication.leads.notified().await;
    }

    /// Returns when the journal has died, with replicas that others have to do without.
    pub async fn until_dead(&self) {
        self.replication.died.notified().await;
    }

    pub(super) fn note_dead(&self) {
        self.replication.died.notify_one();
    }

    /// Tells a replica a word, or has the word wait for room and for those before it.
    fn hear(&self, id: PartitionId, word: Word) -> Result<(), NotLed> {
        let waits = self.replication.deferred.borrow().has(id) && !word.is_commit();
        let left = match waits {
            true => Some(word),
            false => self.tell_as_much(id, word)?,
        };
        if let Some(word) = left {
            self.replication.deferred.borrow_mut().push_back(id, word);
        }
        self.release_sworn();
        self.append_committing();
        Ok(())
    }

    /// Goes on with the words that waited for room in the journal.
    pub(super) fn hear_deferred(&self) {
        let waiting: Vec<PartitionId> = self.replication.deferred.borrow().words.keys().copied().collect();
        for id in waiting {
            // The place is kept meanwhile: what comes has to queue.
            let take = || self.replication.deferred.borrow_mut().pop(id);
            while let Some(word) = take() {
                // The partition may have been given up.
                if let Ok(Some(word)) = self.tell_as_much(id, word) {
                    self.replication.deferred.borrow_mut().push_front(id, word);
                    break;
                }
            }
            self.replication.deferred.borrow_mut().tidy(id);
        }
        // What was sworn may be true already.
        self.release_sworn();
    }

    /// Tells a replica as much of a word as there is room for; gives back the rest. One part after the other: of batches that it has already it takes
    /// none, and then no flush would bring the rest its turn.
    fn tell_as_much(&self, id: PartitionId, word: Word) -> Result<Option<Word>, NotLed> {
        let mut bytes = word.batch_bytes();
        let mut left = self.tell(id, word)?;
        while let Some(rest) = left.take_if(|rest| rest.batch_bytes() < bytes) {
            bytes = rest.batch_bytes();
            left = self.tell(id, rest)?;
        }
        Ok(left)
    }

    /// Tells a replica a word, and does what it wants done. Gives back what there is no room for.
    fn tell(&self, id: PartitionId, word: Word) -> Result<Option<Word>, NotLed> {
        let mut partitions = self.partitions.borrow_mut();
        let partition = partitions.get_mut(&id).ok_or(NotLed::UnknownPartition)?;
        let Role::Member(member) = &mut partition.role else {
            return Err(NotLed::NotLeader);
        };
        if member.is_given_up() {
            return Ok(None);
        }
        let (word, left) = match self.part_with_room(word) {
            Ok(parts) => parts,
            Err(word) => {
                self.layout.want_room();
                self.background.notify_one();
                return Ok(Some(word));
            }
        };
        let (now, led) = (self.clock.monotonic(), member.led_epoch());
        let open = led.filter(|_| member.replica.is_open());
        let was_accepted = member.replica.is_accepted();
        let (role, promised) = (member.replica.role(), member.replica.promised());
        let may_end = !matches!(word, Word::Certain(_) | Word::Message(_, Message::Sworn(_)));
        let leader = member.replica.leader().filter(|_| may_end);
        let remembered = leader.map(|leader| leader.producers().clone());
        let mut at_hand = VecDeque::new();
        let replica = &mut member.replica;
        match word {
            Word::Assign(assignment) => replica.handle_assignment(now, assignment),
            Word::Doubt(node) => replica.handle_doubt(now, node),
            Word::Certain(node) => replica.handle_certain(now, node),
            Word::Link(peer) => {
                replica.handle_link(now, peer);
                member.drop_held(peer);
            }
            Word::LinkLost(peer) => {
                replica.handle_link_lost(now, peer);
                member.drop_held(peer);
            }
            Word::Look => replica.handle_look(now),
            Word::First { log_start, first } => replica.handle_first(now, log_start, first),
            Word::Unreached(node) => replica.handle_unreached(node),
            Word::Message(from, Message::Sworn(sworn)) => replica.handle_sworn(now, from, &sworn),
            Word::Message(from, Message::Prompt(prompt, batches)) => {
                tell_contradiction(id, from, &prompt);
                replica.handle_prompt(now, from, &prompt);
                at_hand = split(&batches);
            }
        }
        if (role, promised) != (member.replica.role(), member.replica.promised()) {
            let (role, promised) = (member.replica.role(), member.replica.promised());
            tracing::debug!(node = self.settings.node.0, partition = %id, ?role, %promised, "a replica's role");
        }
        if led != member.led_epoch() {
            // The producers of the epoch that is over are counted no more, those of the one that begins are.
            if let Some(remembered) = remembered {
                self.producer_room.note_gone(&remembered);
            }
            if let Some(leader) = member.replica.leader_mut() {
                self.producer_room.note(0, leader);
            }
        }
        self.carry_out(id, partition, AtHand::Received(at_hand));
        if led.is_some() && led != partition.role.led_epoch() {
            // The epoch that they believe in is over.
            partition.wake_readers();
            if partition.reporter.is_some() {
                // The leader does not abandon what is committed, and nobody tells this node any more when that is ordered.
                partition.refuse_waiting(&AppendRefusal::Abandoned);
            }
        }
        let opened = partition.role.open_leader().ok().map(Leader::epoch);
        let is_accepted = matches!(&partition.role, Role::Member(member) if member.replica.is_accepted());
        if let Some(reporter) = &partition.reporter
            && (open != opened || was_accepted != is_accepted)
        {
            reporter.note();
        }
        if open != opened {
            self.counters.epochs_opened.add(u64::from(opened.is_some()));
            self.counters.epochs_ended.add(u64::from(open.is_some()));
            self.replication.leads.notify_one();
        }
        if !self.replication.deferred.borrow().words.is_empty() {
            // What is committed now may make room for what waits.
            self.layout.want_room();
            self.background.notify_one();
        }
        Ok(left)
    }

    /// Parts a word into what the journal has room for and what it has not: batches may be taken one by one. Gives the word back if
    /// there is no room for any of it.
    fn part_with_room(&self, word: Word) -> Result<(Word, Option<Word>), Word> {
        let store = self.store.borrow();
        let bare = [0; BARE_ENTRIES_MAX];
        match word {
            Word::Message(
                from,
                Message::Prompt(
                    Prompt::Append {
                        epoch,
                        writer_before,
                        batches: mut facts,
                    },
                    bytes,
                ),
            ) => {
                let append = |writer_before, batches, bytes| {
                    let prompt = Prompt::Append {
                        epoch,
                        writer_before,
                        batches,
                    };
                    Word::Message(from, Message::Prompt(prompt, bytes))
                };
                let mut bytes: Vec<Bytes> = split(&bytes).into_iter().map(|(_, batch)| batch).collect();
                let has_room = |count: usize| {
                    let payloads = bytes[..count].iter().map(Bytes::len).chain(bare);
                    store.has_room(payloads, Reserve::Keep)
                };
                let mut count = bytes.len();
                while count > 0 && !has_room(count) {
                    count /= 2;
                }
                let (left, left_bytes) = (facts.split_off(count), bytes.split_off(count));
                let before_left = facts.last().map_or(writer_before, |last| last.epoch);
                let left = (!left.is_empty()).then(|| append(before_left, left, left_bytes));
                match (count, left) {
                    (0, Some(all)) => Err(all),
                    (_, left) => Ok((append(writer_before, facts, bytes), left)),
                }
            }
            word if word.is_commit() || store.has_room(bare, Reserve::UseHalf) => Ok((word, None)),
            word => Err(word),
        }
    }

    fn send(&self, to: NodeId, partition: PartitionId, message: Message) {
        self.send_letter(to, Letter::new(partition, message));
    }

    /// Sends a letter. One to a node that none reach is dropped: all begins anew with the next link.
    fn send_letter(&self, to: NodeId, letter: Letter) {
        if !self.replication.linked.borrow().contains_key(&to) {
            return;
        }
        self.replication.outgoing.borrow_mut().push((to, letter));
        self.replication.news.notify_one();
    }

    /// Has a message sent, to another node's replica or this one's own, once everything that is staged now is durable.
    fn swear(&self, id: PartitionId, to: NodeId, sworn: Sworn) {
        let before = self.store.borrow().staged_before();
        let mut waiting = self.replication.sworn.borrow_mut();
        waiting.push_back((before, to, id, sworn));
    }

    /// Sends what has become true. More may become so as this node's own replicas hear of it: that has its turn in the same loop.
    pub(super) fn release_sworn(&self) {
        if self.replication.is_releasing.replace(true) {
            return;
        }
        let take = || {
            let (store, mut sworn) = (self.store.borrow(), self.replication.sworn.borrow_mut());
            let (before, ..) = sworn.front()?;
            let is_true = *before == 0 || store.is_durable(before - 1) || planted(Bug::SwornBeforeFlush);
            is_true.then(|| sworn.pop_front())?
        };
        while let Some((_, to, partition, sworn)) = take() {
            let message = Message::Sworn(sworn);
            match to == self.settings.node {
                // It may be gone.
                true => drop(self.hear(partition, Word::Message(to, message))),
                false => self.send(to, partition, self.unless_over(partition, message)),
            }
        }
        self.replication.is_releasing.set(false);
    }

    /// A message, or the word that its epoch is over. The leader may have been left while the message waited for its flush and no link was there to say so
    /// on: it would take a late answer for one that listens still.
    fn unless_over(&self, id: PartitionId, message: Message) -> Message {
        let partitions = self.partitions.borrow();
        let Some(Role::Member(member)) = partitions.get(&id).map(|partition| &partition.role) else {
            return message;
        };
        let (epoch, floor) = (message.epoch(), member.replica.floor());
        match epoch < floor && !planted(Bug::SwornToALeftLeader) {
            true => {
                let refusal = Refusal::Fenced { floor };
                Message::Prompt(Prompt::Refused { epoch, refusal }, Vec::new())
            }
            false => message,
        }
    }

    /// After a flush: sends what is true now, and has a checkpoint written that something waits for.
    pub(super) fn note_flushed(&self) {
        if self.replication.base_is_unsaved.get() {
            // Its entry may be durable now.
            self.store.borrow_mut().owe_checkpoint();
        }
        self.release_sworn();
    }

    /// Sends live followers the entries of their leaders, all of which are in frames that are flushed now or next.
    /// Says whether there were any.
    pub(super) fn send_unsent(&self) -> bool {
        if self.replication.unsent.borrow().is_empty() {
            return false;
        }
        let unsent = take(&mut *self.replication.unsent.borrow_mut());
        let mut partitions = self.partitions.borrow_mut();
        for id in unsent {
            let Some(partition) = partitions.get_mut(&id) else {
                continue;
            };
            let (Role::Member(member), route) = (&mut partition.role, partition.topic.route) else {
                continue;
            };
            for prompt in member.take_unsent() {
                // Given up again before it was sent: who is sent the trim finds that it lacks something.
                let Some(batches) = self.unflushed_batches(id, &prompt) else {
                    continue;
                };
                self.send_to_live(id, member, route, &Message::Prompt(prompt, batches));
            }
        }
        true
    }

    /// The bytes of an append that is not flushed yet; none if some of it was given up.
    fn unflushed_batches(&self, id: PartitionId, prompt: &Prompt) -> Option<Vec<Bytes>> {
        let Prompt::Append { batches, .. } = prompt else {
            return Some(Vec::new());
        };
        let (first, last) = (batches.first()?, batches.last()?);
        let mut store = self.store.borrow_mut();
        match store.read(id, first.first_offset, last.next_offset(), usize::MAX) {
            Ok(Read::Ready(bytes)) => Some(bytes),
            Ok(_) => panic!("batches stay in memory until they are flushed"),
            Err(_) => None,
        }
    }

    fn tell_tail_later(&self, id: PartitionId) {
        self.replication.moved.borrow_mut().insert(id);
        self.replication.tails.notify_one();
    }

    /// Tells followers of tails that have moved, a moment later: several moves make one letter.
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
                self.tell_tail(id, member);
            }
        }
    }

    /// Tells live followers of the tail.
    fn tell_tail(&self, id: PartitionId, member: &Member) {
        for to in member.replica.live_followers() {
            self.send_tail(id, member, to);
        }
    }

    fn send_tail(&self, id: PartitionId, member: &Member, to: NodeId) {
        if let Some(leader) = member.replica.leader() {
            let (epoch, tail) = (leader.epoch(), leader.tail());
            let prompt = Prompt::Commit { epoch, tail };
            self.send(to, id, Message::Prompt(prompt, Vec::new()));
        }
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
            let Some(Role::Member(member)) = partitions.get_mut(&id).map(|partition| &mut partition.role)
            else {
                continue;
            };
            for (to, sworn) in member.note_saved(bases) {
                self.swear(id, to, sworn);
            }
        }
        drop(partitions);
        let is_unsaved = !self.unsaved_bases().is_empty();
        self.replication.base_is_unsaved.set(is_unsaved);
        self.release_sworn();
    }
}

/// The replica that recovery found. Where its log has begun anew since the last checkpoint, the history of what was before is lost;
/// whatever was sworn about it was held back until then.
fn stored(recovered: &RecoveredPartition) -> Result<Stored, protocol::RecoverError> {
    let mut vows = Vows {
        promised: recovered.promised,
        accepted: recovered.accepted.max(recovered.written),
    };
    let mut snapshot: &[u8] = &recovered.state;
    if recovered.begun_anew && !snapshot.is_empty() {
        let kept = History::vows_in(snapshot)?;
        vows.promised = vows.promised.max(kept.promised);
        vows.accepted = vows.accepted.max(kept.accepted);
        snapshot = &[];
    }
    let found = Found {
        log_start: recovered.log_start,
        next_offset: recovered.next,
        snapshot,
        batches: &recovered.replay,
    };
    Stored::found(&found, vows)
}
