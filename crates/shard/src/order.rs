//! Topics with one order: what a shard stages of them is cut in the same frame, and their partitions are shown as far as they are ordered.
//!
//! ```text
//!   append ─ stage ─┐
//!   append ─ stage ─┴─ stage_cuts ─ seal ─ flush ─ commit of the strand ─ show_ordered ─ producers and readers
//! ```
//! A *strand* is the log of a topic's cuts on one shard: a partition of its journal like others, each record of which is one entry. Records and their
//! cut are one frame and one flush, also of a batch in memory of its own, which takes its positions when it is staged. Nothing here may show
//! an offset whose position another shard could still lose. Until the order is open, and where it has ended, nothing more is shown.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use protocol::leader::{Append, Checked, Leader, Numbered};
use protocol::order::{Cutter, Entry, Generation, Page, Shown};
use record::{BatchBuilder, Compression, Offset, PartitionId, Position, TopicId};
use storage::{BatchBytes, Reserve};

use super::append::Unstaged;
use super::member::AtHand;
use super::{AppendRefusal, NotLed, Partition, Role, Shard};

/// Bytes of a batch that has one cut, apart from its runs, and no fewer.
const CUT_BYTES: usize = 256;
/// Bytes of a run.
const RUN_BYTES: usize = 8;

/// Runs that are shown before somebody is told to take them.
const RUNS_SHOWN_MAX: usize = 1_024;

/// Something that a shard has to say to others about the order of a topic.
pub enum Tell<'a> {
    /// All that the shards with these numbers wait for is ordered: [`Shard::show_ordered`].
    Ordered(&'a mut dyn Iterator<Item = usize>),
    /// Very many cuts are shown: [`Shard::take_shown`].
    Take,
    /// This shard makes nothing durable any more, for this reason, and no other one has anything shown from now on: [`Shard::end_order`].
    Ended(Generation, &'a str),
}

/// Says something to others. It must not call the shard back.
pub type TellShards = Rc<dyn Fn(TopicId, Tell<'_>)>;

/// A shard's part in the order of one topic.
pub struct Order {
    /// Cuts what is staged.
    pub cutter: Cutter,
    /// The partition that keeps the cuts, of a topic of its own.
    pub strand: PartitionId,
    /// Tells other shards.
    pub tell: TellShards,
    /// It was told that its cuts are to be taken.
    pub is_full: bool,
}

/// A batch of the node's own, and the place that it has got.
struct OwnBatch {
    place: storage::Append,
    numbered: Numbered,
    batch: Bytes,
}

/// The orders of a shard's topics.
#[derive(Default)]
pub(super) struct Orders {
    of: RefCell<BTreeMap<TopicId, Order>>,
    /// Topics whose order takes nothing more until the node starts again, and why. Cuts that were durable before may be shown yet.
    ended: RefCell<BTreeMap<TopicId, String>>,
    /// Topics that have something staged which is in no cut.
    uncut: RefCell<BTreeSet<TopicId>>,
}

impl Orders {
    /// Takes note of a batch that was staged. One that comes before the order is open is found when it opens.
    pub(super) fn note(&self, id: PartitionId, offsets: Range<Offset>) {
        if self.ended.borrow().contains_key(&id.topic) {
            return;
        }
        if let Some(order) = self.of.borrow_mut().get_mut(&id.topic) {
            order.cutter.note(id.index, offsets);
            self.uncut.borrow_mut().insert(id.topic);
        }
    }

    /// The partition that keeps a topic's cuts here, if its order is open.
    pub(super) fn strand_of(&self, topic: TopicId) -> Option<PartitionId> {
        self.of.borrow().get(&topic).map(|order| order.strand)
    }

    /// Why nothing more of a topic gets a position, if that is so.
    pub(super) fn why_ended(&self, topic: TopicId) -> Option<String> {
        self.ended.borrow().get(&topic).cloned()
    }
}

impl Shard {
    /// Puts an entry into a strand, in the frame that is built now. Returns its offset.
    ///
    /// # Errors
    /// The strand is not led here, or the journal does not take it.
    pub fn stage_order(&self, strand: PartitionId, entry: &Entry) -> Result<Offset, AppendRefusal> {
        self.stage_own(strand, &entry.encode(), 1)
    }

    /// Puts a page behind those before it, in the frame that is built now: its positions are the offsets of its partition.
    ///
    /// # Errors
    /// The partition is not led here, the journal does not take it, or it does not go on where the last one ended.
    pub fn stage_page(&self, pages: PartitionId, page: &Page) -> Result<(), AppendRefusal> {
        let first = i64::try_from(page.first.0).expect("positions are offsets");
        if self.next_offset(pages)? != Offset(first) {
            let other = "the topic's order was opened anew meanwhile".to_owned();
            return Err(AppendRefusal::JournalDead(other));
        }
        let offsets = i32::try_from(page.count()).expect("a page spans fewer positions");
        self.stage_own(pages, &page.encode(), offsets).map(drop)
    }

    /// Stages a record of the node's own that takes up so many offsets.
    fn stage_own(&self, id: PartitionId, value: &Bytes, offsets: i32) -> Result<Offset, AppendRefusal> {
        let mut partitions = self.partitions.borrow_mut();
        let partition = partitions.get_mut(&id).ok_or_else(|| self.absence(id))?;
        let bytes = value.len() as u64;
        let is_member = matches!(partition.role, Role::Member(_));
        if is_member && !self.replication.has_room(id, bytes) {
            let why = "the partition holds as much that is not committed as it may".into();
            return Err(AppendRefusal::JournalFull { why });
        }
        let own = self.number_own(partition, value, offsets)?;
        let staged = self
            .store
            .borrow_mut()
            .append(id, &own.place, &mut BatchBytes::Shared(own.batch));
        staged.map_err(|error| AppendRefusal::of(error, || self.why_journal_is_full()))?;
        let appended = partition.role.handle_append(self.clock.monotonic(), own.numbered);
        self.flushing.want();
        if let Role::Member(member) = &mut partition.role {
            member.note_uncommitted(appended.next_offset, bytes);
            self.replication.take_room(id, bytes);
            partition.act();
            self.carry_out(id, partition, AtHand::Staged);
        }
        Ok(appended.first_offset)
    }

    /// Stages a batch and its cut behind it: in one frame, if it is a frame of its own. With a `tail`, only if its first position is that one.
    pub(super) fn stage_with_cut(
        &self,
        strand: &mut Partition,
        (id, place): (PartitionId, &storage::Append),
        batch: &mut BatchBytes,
        tail: Option<Position>,
    ) -> Result<(), Unstaged> {
        let mut of = self.orders.of.borrow_mut();
        let order = of.get_mut(&id.topic).expect("its strand was found");
        let cut_bytes = CUT_BYTES + RUN_BYTES * (order.cutter.partitions_staged() + 1);
        let mut store = self.store.borrow_mut();
        store
            .make_room_for_two(batch, cut_bytes, place.reserve)
            .map_err(Unstaged::Error)?;
        let (_, entry) = store.bounds(order.strand).expect("it was found");
        let offsets = place.first..place.next;
        let Some(cut) = order.cutter.cut_with(entry, (id.index, offsets), tail) else {
            return Err(Unstaged::Refused(AppendRefusal::TailMoved {
                wanted: tail.expect("nothing else is asked for"),
                tail: order.cutter.line().ordered(),
            }));
        };
        let own = self.number_own(strand, &Entry::Cut(cut).encode(), 1);
        let own = own.expect("a journal that is not dead takes its own");
        store.append_two((id, place, batch), (order.strand, &own.place, own.batch));
        strand.role.handle_append(self.clock.monotonic(), own.numbered);
        Ok(())
    }

    fn number_own(
        &self,
        partition: &Partition,
        value: &Bytes,
        offsets: i32,
    ) -> Result<OwnBatch, AppendRefusal> {
        let mut builder = BatchBuilder::new(Compression::None);
        let now_ms = self.clock.wall_ms();
        builder.append(now_ms, None, Some(value), &[]);
        let append = Append {
            record_count: offsets,
            max_timestamp_ms: now_ms,
            producer: None,
            inside: None,
        };
        let now = self.clock.monotonic();
        let admission = self.producer_room.admission(now, None);
        let checked = partition.role.check_append(&append, &admission);
        let Checked::New(numbered) = checked.map_err(AppendRefusal::Leader)? else {
            unreachable!("a batch without a producer repeats none")
        };
        let place = storage::Append {
            epoch: numbered.epoch,
            first: numbered.first_offset,
            next: numbered.next_offset,
            max_timestamp_ms: now_ms,
            append_time_ms: None,
            producer_id: None,
            aborts: None,
            reserve: Reserve::UseHalf,
        };
        Ok(OwnBatch {
            place,
            numbered,
            batch: builder.build_over(offsets),
        })
    }

    /// Returns when all that was staged so far is durable.
    ///
    /// # Errors
    /// `FlushFailed`: nobody knows what of it is on the disk.
    pub async fn until_staged_is_durable(&self) -> Result<(), AppendRefusal> {
        let staged_before = self.store.borrow().staged_before();
        self.until_flushed(staged_before).await
    }

    /// Orders a topic from here on: of each partition that is here, all below `ordered` has its position. Those behind it have one soon.
    ///
    /// # Panics
    /// A partition was shown further, or the strand is not open.
    pub fn open_order(&self, topic: TopicId, order: Order, ordered: impl Fn(i32) -> Offset) {
        let mut partitions = self.partitions.borrow_mut();
        let strand = partitions.get_mut(&order.strand);
        strand.expect("it was opened").strand_of = Some(topic);
        self.orders.ended.borrow_mut().remove(&topic);
        self.orders.of.borrow_mut().insert(topic, order);
        let of_topic = |id: &PartitionId| id.topic == topic;
        let mut ids: Vec<PartitionId> = partitions.keys().copied().filter(of_topic).collect();
        ids.sort_unstable();
        for id in ids {
            let partition = partitions.get_mut(&id).expect("it was found");
            let (ordered, (_, next)) = (ordered(id.index), self.bounds_here(id));
            partition.show(ordered);
            if ordered < next {
                self.orders.note(id, ordered..next);
                self.flushing.want();
            }
        }
    }

    /// Shows all that is committed of a topic, because its order cannot be opened now: nobody knows how much readers have seen before. All of it gets its
    /// positions with the next opening, before anything that comes later.
    pub fn show_committed(&self, topic: TopicId) {
        let mut partitions = self.partitions.borrow_mut();
        for (_, partition) in partitions.iter_mut().filter(|(id, _)| id.topic == topic) {
            let tail = partition.role.tail();
            partition.show(tail);
        }
    }

    /// Nothing more of a topic gets a position until the node starts again, for this reason, if this is still the generation that is open: what waits for one is
    /// of unknown outcome, what is shown stays so.
    pub fn end_order(&self, topic: TopicId, generation: Generation, reason: &str) {
        let is_open = |order: &Order| order.cutter.generation() == generation;
        if self.orders.of.borrow().get(&topic).is_some_and(is_open) {
            self.show_ordered(topic);
            self.refuse_order(topic, reason);
        }
    }

    /// The same of an order that cannot be opened.
    pub fn refuse_order(&self, topic: TopicId, reason: &str) {
        let before = self.orders.ended.borrow_mut().insert(topic, reason.to_owned());
        if before.is_some() {
            return;
        }
        let failed = AppendRefusal::FlushFailed(reason.to_owned());
        let mut partitions = self.partitions.borrow_mut();
        let of_topic = partitions.iter_mut().filter(|(id, _)| id.topic == topic);
        let mut of_topic: Vec<_> = of_topic.collect();
        // So that everybody is told in one order.
        of_topic.sort_unstable_by_key(|(id, _)| **id);
        for (_, partition) in of_topic {
            partition.refuse_waiting(&failed);
        }
    }

    /// Nothing of a topic gets a position any more, for it has no order. Partitions are shown as far as they are committed once they are
    /// configured so.
    pub fn give_up_order(&self, topic: TopicId) {
        self.orders.of.borrow_mut().remove(&topic);
        self.orders.ended.borrow_mut().remove(&topic);
        self.orders.uncut.borrow_mut().remove(&topic);
    }

    /// The journal is dead: nothing more that it has taken positions for becomes durable.
    pub(super) fn end_orders(&self, reason: &str) {
        let reason = format!("a journal that keeps some of the topic's order is dead: {reason}");
        let told =
            |(topic, order): (&TopicId, &Order)| (*topic, order.cutter.generation(), order.tell.clone());
        let orders: Vec<_> = self.orders.of.borrow().iter().map(told).collect();
        for (topic, generation, tell) in orders {
            self.end_order(topic, generation, &reason);
            tell(topic, Tell::Ended(generation, &reason));
        }
    }

    /// The cuts of a topic that are shown, and were not taken yet, in their order; none if this shard does not order it in this generation.
    pub fn take_shown(&self, topic: TopicId, generation: Generation) -> Vec<Shown> {
        self.show_ordered(topic);
        let mut of = self.orders.of.borrow_mut();
        let order = of.get_mut(&topic);
        let Some(order) = order.filter(|order| order.cutter.generation() == generation) else {
            return Vec::new();
        };
        order.is_full = false;
        order.cutter.take_shown()
    }

    /// The end of what readers may see of a partition.
    ///
    /// # Errors
    /// It is not here, or not led here.
    pub fn shown_tail(&self, id: PartitionId) -> Result<Offset, NotLed> {
        self.look_at_line(id);
        let partitions = self.partitions.borrow();
        let partition = partitions.get(&id).ok_or_else(|| self.absence(id))?;
        let tail = partition.open_leader()?.tail();
        Ok(partition.shown_of(tail))
    }

    /// The end of what is stable of a partition, for readers of committed records.
    ///
    /// # Errors
    /// The partition, or its leader, is not here.
    pub fn shown_stable(&self, id: PartitionId) -> Result<Offset, NotLed> {
        let tail = self.shown_tail(id)?;
        Ok(self.with_leader(id, Leader::stable)?.min(tail))
    }

    /// Shows what is ordered of the partition's topic by now: who saw a record on one shard finds it on every other.
    pub(super) fn look_at_line(&self, id: PartitionId) {
        let has_unshown = |order: &Order| order.cutter.has_unshown();
        if self.orders.of.borrow().get(&id.topic).is_some_and(has_unshown) {
            self.show_ordered(id.topic);
        }
    }

    fn bounds_here(&self, id: PartitionId) -> (Offset, Offset) {
        let bounds = self.store.borrow().bounds(id);
        bounds.expect("what is open has a log")
    }

    /// Stages the cuts of all that was staged, for the frame that is sealed next. Where the journal has no room for one, it comes
    /// as soon as there is some.
    pub(super) fn stage_cuts(&self) {
        let topics = std::mem::take(&mut *self.orders.uncut.borrow_mut());
        for topic in topics {
            if !self.stage_cut(topic) {
                self.orders.uncut.borrow_mut().insert(topic);
            }
        }
    }

    /// Returns false if the journal has no room for it.
    fn stage_cut(&self, topic: TopicId) -> bool {
        if self.orders.why_ended(topic).is_some() {
            return true;
        }
        let mut of = self.orders.of.borrow_mut();
        let Some(order) = of.get_mut(&topic) else {
            return true;
        };
        let bytes = CUT_BYTES + RUN_BYTES * order.cutter.partitions_staged();
        {
            let store = self.store.borrow();
            if store.dead().is_some() {
                return true;
            }
            // Positions that were taken and are in no frame would hold up all other shards.
            if !store.has_room([bytes], Reserve::UseHalf) {
                self.layout.want_room();
                return false;
            }
        }
        let (_, entry) = self.bounds_here(order.strand);
        if let Some(cut) = order.cutter.cut(entry) {
            let staged = self.stage_order(order.strand, &Entry::Cut(cut));
            assert_eq!(staged, Ok(entry), "there was room for it");
        }
        true
    }

    /// Takes note of how far strands are durable, and shows what is ordered by that.
    pub(super) fn commit_strands(&self, strands: &[(TopicId, Offset)]) {
        for (topic, durable) in strands {
            if let Some(order) = self.orders.of.borrow_mut().get_mut(topic) {
                order.cutter.handle_durable(*durable);
            }
            self.show_ordered(*topic);
        }
    }

    /// Shows the partitions of a topic as far as they are ordered now: after a flush, and when another shard has told this one.
    pub fn show_ordered(&self, topic: TopicId) {
        let mut of = self.orders.of.borrow_mut();
        let Some(order) = of.get_mut(&topic) else { return };
        let mut partitions = self.partitions.borrow_mut();
        let ordered = order.cutter.show(|index, offsets, position| {
            if let Some(partition) = partitions.get_mut(&PartitionId { topic, index }) {
                partition.show_at(offsets, position);
            }
        });
        (order.tell)(
            topic,
            Tell::Ordered(&mut order.cutter.line().take_waiting(ordered)),
        );
        if order.cutter.runs_shown() >= RUNS_SHOWN_MAX && !order.is_full {
            order.is_full = true;
            (order.tell)(topic, Tell::Take);
        }
    }
}
