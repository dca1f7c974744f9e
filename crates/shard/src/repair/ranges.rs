//! Batches that replicas lend each other in the place of damaged ones: wishes go out and come in, and so do answers.
//!
//! A node lends only what it knows to be committed and reads whole from its own disk: it never asks a third one for it. How much is lent
//! at a time is bounded, whatever is asked for.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use platform::turns;
use protocol::leader::NodeId;
use protocol::peer::{RangeAnswer, RangeWish, facts_of};
use record::{Offset, PartitionId};
use storage::{Damage, ReadError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

use crate::Shard;
use crate::role::Role;

/// The longest that an answer is waited for: a node that is there reads what it was asked for, or says no.
const PATIENCE: Duration = Duration::from_secs(2);
/// Wished for at once.
const WISH_BYTES: usize = 1 << 20;
/// Lent at once, but for a batch that is longer.
const LENT_BYTES_MAX: usize = 1 << 20;
/// An answer is shorter than the longest message between nodes, whatever the batch.
const ANSWER_BYTES_MAX: usize = 15 << 20;
/// Answers that are read, or wait to be written, at a time.
const LENT_AT_ONCE: usize = 2;
/// Wishes that wait. More are refused.
const WISHES_MAX: usize = 32;
/// The most that is gathered of a chunk: a batch that fills it may be as long as an answer.
const CHUNK_BYTES_MAX: usize = 2 * ANSWER_BYTES_MAX;

/// A message about ranges, for a link.
#[derive(Debug, Clone)]
pub enum RangeLetter {
    /// A wish.
    Wish(RangeWish),
    /// An answer, and the room that it takes until it is written.
    Answer(RangeAnswer, Option<Arc<OwnedSemaphorePermit>>),
}

/// A wish that was not answered yet.
struct Awaited {
    node: NodeId,
    partition: PartitionId,
    answer: oneshot::Sender<Bytes>,
}

/// See the module.
pub(in crate::repair) type Outgoing = Vec<(NodeId, RangeLetter)>;

/// The wishes and the answers of a shard.
pub(crate) struct Ranges {
    number: Cell<u64>,
    awaited: RefCell<BTreeMap<u64, Awaited>>,
    outgoing: RefCell<Outgoing>,
    lending: Arc<Semaphore>,
    wishes: Cell<usize>,
}

impl Default for Ranges {
    fn default() -> Ranges {
        Ranges {
            number: Cell::new(0),
            awaited: RefCell::default(),
            outgoing: RefCell::default(),
            lending: Arc::new(Semaphore::new(LENT_AT_ONCE)),
            wishes: Cell::new(0),
        }
    }
}

impl Ranges {
    /// Ends the wishes that a node will not answer any more.
    pub(crate) fn forget(&self, node: NodeId) {
        self.awaited
            .borrow_mut()
            .retain(|_, awaited| awaited.node != node);
        self.outgoing.borrow_mut().retain(|(to, _)| *to != node);
    }
}

impl Shard {
    /// The nodes that may lend batches of a partition: its other replicas, the leader first. `None`: they are not known yet.
    pub(in crate::repair) fn lenders(&self, id: PartitionId) -> Option<Vec<NodeId>> {
        let partitions = self.partitions.borrow();
        match partitions.get(&id).map(|partition| &partition.role) {
            Some(Role::Member(member)) => member.replica.others(),
            Some(Role::Lone(_)) | None => Some(Vec::new()),
        }
    }

    /// Gets batches of another replica in the place of damaged ones: from the one that holds `from` on, before `until`; of a chunk all, of
    /// a whole segment some. The batches that come back were checked. `None` if nobody lends them.
    pub(in crate::repair) async fn borrow(
        &self,
        damage: &Damage,
        from: Offset,
        until: Offset,
        bytes_max: usize,
    ) -> Option<Bytes> {
        let until = until.min(damage.range().1);
        if from >= until {
            return None;
        }
        for node in self.lenders(damage.partition()).unwrap_or_default() {
            if !self.replication.is_linked_with(node) {
                continue;
            }
            let Some(lent) = self.gather(node, damage, from, until, bytes_max).await else {
                continue;
            };
            match self.check_lent(damage, from, &lent) {
                Ok(()) => return Some(lent),
                Err(why) if self.is_compacted(damage.partition()) => tracing::info!(
                    partition = %damage.partition(),
                    from = node.0,
                    offset = from.0,
                    why,
                    "a replica has compacted what is damaged here, and cannot lend it"
                ),
                Err(why) => tracing::error!(
                    partition = %damage.partition(),
                    from = node.0,
                    offset = from.0,
                    why,
                    "a replica lends other records than were stored here, which are not taken: the two differ"
                ),
            }
        }
        None
    }

    /// Reads batches that an order names from a node that has them, from the one that holds `from` on, before `until`; `None` if it does not give them.
    pub async fn read_of(
        &self,
        node: NodeId,
        partition: PartitionId,
        (from, until): (Offset, Offset),
        bytes_max: usize,
    ) -> Option<Vec<Bytes>> {
        if !self.replication.is_linked_with(node) {
            return None;
        }
        let wished = (from, until);
        let lent = self
            .wish(node, partition, wished, bytes_max.min(WISH_BYTES))
            .await?;
        match facts_of(&lent) {
            Ok(_) => Some(super::cut(&lent, from, Offset(i64::MAX), bytes_max)),
            Err(error) => {
                tracing::error!(%partition, from = node.0, %error, "a node gives batches that are not sound, which are not taken");
                None
            }
        }
    }

    async fn gather(
        &self,
        node: NodeId,
        damage: &Damage,
        from: Offset,
        until: Offset,
        bytes_max: usize,
    ) -> Option<Bytes> {
        let (mut gathered, mut at) = (BytesMut::new(), from);
        loop {
            let bytes = bytes_max.min(WISH_BYTES);
            let answer = self.wish(node, damage.partition(), (at, until), bytes).await?;
            let end = end_of(&answer).filter(|end| *end > at)?;
            if damage.is_of_index() || (gathered.is_empty() && end >= until) {
                return Some(answer);
            }
            if gathered.len() + answer.len() > CHUNK_BYTES_MAX {
                return None;
            }
            gathered.extend_from_slice(&answer);
            at = end;
            if at >= until {
                return Some(gathered.freeze());
            }
        }
    }

    /// Asks a node; `None` if it does not have them, is gone or says nothing for too long.
    async fn wish(
        &self,
        node: NodeId,
        partition: PartitionId,
        (first, next): (Offset, Offset),
        bytes_max: usize,
    ) -> Option<Bytes> {
        let ranges = &self.ranges;
        let number = ranges.number.get();
        ranges.number.set(number + 1);
        let (answer, answered) = oneshot::channel();
        let awaited = Awaited {
            node,
            partition,
            answer,
        };
        ranges.awaited.borrow_mut().insert(number, awaited);
        let wish = RangeWish {
            partition,
            number,
            first,
            next,
            bytes_max: u32::try_from(bytes_max).unwrap_or(u32::MAX),
        };
        self.send_range(node, RangeLetter::Wish(wish));
        let answered = timeout(PATIENCE, answered).await;
        ranges.awaited.borrow_mut().remove(&number);
        answered.ok()?.ok().filter(|batches| !batches.is_empty())
    }

    fn send_range(&self, to: NodeId, letter: RangeLetter) {
        self.ranges.outgoing.borrow_mut().push((to, letter));
        self.replication.tell_news();
    }

    /// Takes the letters about ranges that are to be sent.
    pub fn take_range_letters(&self) -> Vec<(NodeId, RangeLetter)> {
        std::mem::take(&mut *self.ranges.outgoing.borrow_mut())
    }

    /// Takes note that a wish could not be sent.
    pub fn handle_range_unsent(&self, number: u64) {
        self.ranges.awaited.borrow_mut().remove(&number);
    }

    /// Takes the answer of a node. One that nobody waits for is dropped.
    pub fn handle_range_answer(&self, from: NodeId, answer: RangeAnswer) {
        let mut awaited = self.ranges.awaited.borrow_mut();
        let is_awaited = awaited
            .get(&answer.number)
            .is_some_and(|awaited| (awaited.node, awaited.partition) == (from, answer.partition));
        if is_awaited && let Some(awaited) = awaited.remove(&answer.number) {
            // Whoever asked may have gone.
            let _ = awaited.answer.send(answer.batches);
        }
    }

    /// Takes the wish of a node, and answers it when it is its turn.
    pub fn handle_range_wish(self: &Rc<Self>, from: NodeId, wish: RangeWish) {
        let wishes = self.ranges.wishes.get();
        if wishes >= WISHES_MAX {
            return self.answer_range(from, &wish, Bytes::new(), None);
        }
        self.ranges.wishes.set(wishes + 1);
        let shard = self.clone();
        turns::spawn(async move {
            let room = shard.ranges.lending.clone().acquire_owned().await;
            let room = room.expect("nobody closes it");
            let batches = match shard.replication.is_linked_with(from) {
                true => shard.lend(&wish).await,
                false => Bytes::new(),
            };
            shard.ranges.wishes.set(shard.ranges.wishes.get() - 1);
            shard.answer_range(from, &wish, batches, Some(Arc::new(room)));
        });
    }

    fn answer_range(
        &self,
        to: NodeId,
        wish: &RangeWish,
        batches: Bytes,
        room: Option<Arc<OwnedSemaphorePermit>>,
    ) {
        let answer = RangeAnswer {
            partition: wish.partition,
            number: wish.number,
            batches,
        };
        self.send_range(to, RangeLetter::Answer(answer, room));
    }

    /// Reads what is wished for, as far as it is committed and here.
    async fn lend(self: &Rc<Self>, wish: &RangeWish) -> Bytes {
        let bytes_max = (wish.bytes_max as usize).min(LENT_BYTES_MAX);
        let (mut found, mut bytes, mut from): (Vec<Bytes>, usize, Offset) = (Vec::new(), 0, wish.first);
        while bytes < bytes_max
            && let Some(until) = self.lendable_until(wish).filter(|until| from < *until)
        {
            let read = self
                .find_stored(wish.partition, from, until, bytes_max - bytes)
                .await;
            let batches = match read {
                Ok((batches, _)) => batches,
                Err(ReadError::Damaged(damage)) => {
                    self.note_damage(*damage);
                    break;
                }
                Err(_) => break,
            };
            let read_bytes: usize = batches.iter().map(Bytes::len).sum();
            let is_too_long = bytes + read_bytes > bytes_max && !found.is_empty();
            let Some(end) = batches.last().and_then(end_of) else {
                break;
            };
            if is_too_long || read_bytes > ANSWER_BYTES_MAX {
                break;
            }
            turns::spend(read_bytes);
            found.extend(batches);
            bytes += read_bytes;
            from = end;
        }
        match found.len() {
            1 => found.remove(0),
            _ => found.concat().into(),
        }
    }

    /// The end of what may be lent: not beyond what is known here to be committed, and nothing if its beginning was given up.
    fn lendable_until(&self, wish: &RangeWish) -> Option<Offset> {
        let partitions = self.partitions.borrow();
        match &partitions.get(&wish.partition)?.role {
            role if role.log_start() <= wish.first => Some(wish.next.min(role.tail())),
            _ => None,
        }
    }
}

/// The offset behind batches that lie one behind the other.
fn end_of(batches: &Bytes) -> Option<Offset> {
    let last = record::batches(batches).map_while(Result::ok).last()?;
    Some(last.0.next_offset())
}
