//! Topics with one order: what a shard stages of them is cut in the same frame, and their partitions are shown as far as they are ordered.
//!
//! ```text
//!   append ─ stage ─┐
//!   append ─ stage ─┴─ stage_cuts ─ seal ─ flush ─ commit of the strand ─ show_ordered ─ producers and readers
//! ```
//! A *strand* is the log of a topic's cuts on one shard: a partition of its journal like others, each record of which is one entry. Records and their
//! cut are one frame and one flush, but for a batch in memory of its own, whose cut goes with the next frame. Nothing here may show
//! an offset whose position another shard could still lose.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use protocol::leader::{Append, Checked};
use protocol::order::{Cutter, Entry};
use record::{BatchBuilder, Compression, Offset, PartitionId, TopicId};
use storage::{BatchBytes, Reserve};

use super::{AppendRefusal, Shard};

/// Bytes of a batch that has one cut, apart from its runs, and no fewer.
const CUT_BYTES: usize = 256;
/// Bytes of a run.
const RUN_BYTES: usize = 8;

/// Tells the other shards with these numbers that what they wait for in a topic is ordered: [`Shard::show_ordered`]. It must not call this
/// shard back.
pub type TellShards = Rc<dyn Fn(TopicId, &mut dyn Iterator<Item = usize>)>;

/// A shard's part in the order of one topic.
pub struct Order {
    /// Cuts what is staged.
    pub cutter: Cutter,
    /// The partition that keeps the cuts, of a topic of its own.
    pub strand: PartitionId,
    /// Tells other shards.
    pub tell: TellShards,
}

/// The orders of a shard's topics.
#[derive(Default)]
pub(super) struct Orders {
    of: RefCell<BTreeMap<TopicId, Order>>,
    /// Topics that have something staged which is in no cut.
    uncut: RefCell<BTreeSet<TopicId>>,
}

impl Orders {
    /// Takes note of a batch that was staged.
    pub(super) fn note(&self, id: PartitionId, offsets: Range<Offset>) {
        let mut of = self.of.borrow_mut();
        let order = of
            .get_mut(&id.topic)
            .expect("a partition is ordered as long as its topic is");
        order.cutter.note(id.index, offsets);
        self.uncut.borrow_mut().insert(id.topic);
    }
}

impl Shard {
    /// Puts an entry into a strand, in the frame that is built now. Returns its offset.
    ///
    /// # Errors
    /// The strand is not led here, or the journal does not take it.
    pub fn stage_order(&self, strand: PartitionId, entry: &Entry) -> Result<Offset, AppendRefusal> {
        let mut partitions = self.partitions.borrow_mut();
        let partition = partitions.get_mut(&strand);
        let partition = partition.ok_or_else(|| self.absence(strand))?;
        let mut builder = BatchBuilder::new(Compression::None);
        let now_ms = self.clock.wall_ms();
        builder.append(now_ms, None, Some(&entry.encode()), &[]);
        let append = Append {
            record_count: 1,
            max_timestamp_ms: now_ms,
            producer: None,
            transactional: false,
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
            reserve: Reserve::UseHalf,
        };
        let mut batch = BatchBytes::Shared(builder.build());
        let staged = self.store.borrow_mut().append(strand, &place, &mut batch);
        staged.map_err(|error| AppendRefusal::of(error, || self.why_journal_is_full()))?;
        let appended = partition.role.handle_append(now, numbered);
        self.flushing.want();
        Ok(appended.first_offset)
    }

    /// Orders a topic from here on: of each partition that is here, `shown` is the first offset that has no position. What is behind it has one soon.
    ///
    /// # Panics
    /// A partition was shown further, or the strand is not open.
    pub fn open_order(&self, topic: TopicId, order: Order, shown: impl Fn(i32) -> Offset) {
        let mut partitions = self.partitions.borrow_mut();
        let strand = partitions.get_mut(&order.strand);
        strand.expect("it was opened").strand_of = Some(topic);
        self.orders.of.borrow_mut().insert(topic, order);
        let of_topic = |id: &PartitionId| id.topic == topic;
        let mut ids: Vec<PartitionId> = partitions.keys().copied().filter(of_topic).collect();
        ids.sort_unstable();
        for id in ids {
            let partition = partitions.get_mut(&id).expect("it was found");
            let (shown, (_, next)) = (shown(id.index), self.bounds_here(id));
            partition.begin_order(shown);
            if shown < next {
                self.orders.note(id, shown..next);
                self.flushing.want();
            }
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
        let ordered = order.cutter.show(|index, end| {
            if let Some(partition) = partitions.get_mut(&PartitionId { topic, index }) {
                partition.show(end);
            }
        });
        (order.tell)(topic, &mut order.cutter.line().take_waiting(ordered));
    }
}
