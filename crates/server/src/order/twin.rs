//! The twin of a topic with one order, `NAME@total`: one partition whose offsets are positions, for Kafka's consumers.
//!
//! It is found by its name and its id alone, and listed nowhere: who subscribes to all topics must not read twice. Its epoch is 0 for ever, for what was shown
//! of it never changes. Batches are those of the partitions, with other base offsets. Appends to it are appends to one partition, answered with positions.

use std::rc::Rc;
use std::sync::{Arc, Weak};

use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use protocol::metadata::{Metadata, Topic};
use protocol::order::{LANE, Place, TWIN_SUFFIX, keeper_of};
use record::{BATCH_OVERHEAD_BYTES, Epoch, Offset, PartitionId, Position, TopicId};
use shard::{ReadRefusal, ReadRequest, ReadResult, Watch, Watcher};

use super::cursor::{Cursor, clip, extents, share_of};
use super::home::{Found, Home, Unfound};
use crate::core::Core;

/// Batches from this size on are not copied for their positions.
const SHARED_BYTES_MIN: usize = 16 << 10;

/// The epoch of all twins.
pub(crate) const EPOCH: Epoch = Epoch(0);

/// The partition that has the records which are appended to the twin: one, so that they have the order there in which they were sent. More
/// at once come from appends to the partitions.
pub(crate) const TWIN_PARTITION: i32 = LANE;

/// The name of a topic's twin.
pub(crate) fn twin_name(topic: &Topic) -> String {
    format!("{}{TWIN_SUFFIX}", topic.name)
}

/// The topic of a twin's name.
pub(crate) fn twin_named<'a>(metadata: &'a Metadata, name: &str) -> Option<&'a Topic> {
    let topic = metadata.topic_named(name.strip_suffix(TWIN_SUFFIX)?)?;
    topic.settings.is_ordered.then_some(topic)
}

/// The topic of a twin's id.
pub(crate) fn twin_with_id(metadata: &Metadata, id: TopicId) -> Option<&Topic> {
    let topic = metadata.topic(keeper_of(id))?;
    topic.settings.is_ordered.then_some(topic)
}

impl From<Unfound> for ReadRefusal {
    fn from(unfound: Unfound) -> ReadRefusal {
        match unfound {
            // As a partition whose core is gone.
            Unfound::Stopping(_) | Unfound::Elsewhere => ReadRefusal::NotLeader,
            Unfound::Fault(why) => ReadRefusal::Fault(why),
        }
    }
}

/// Checks the epoch that a client of a twin believes in.
///
/// # Errors
/// There is no such epoch.
pub(crate) fn check_epoch(wanted: Option<Epoch>) -> Result<Epoch, ReadRefusal> {
    match wanted {
        Some(wanted) if wanted > EPOCH => Err(ReadRefusal::UnknownEpoch {
            wanted,
            current: EPOCH,
        }),
        _ => Ok(EPOCH),
    }
}

impl Home {
    /// Reads the twin as a partition is read.
    ///
    /// # Errors
    /// As a read of a partition.
    pub(crate) async fn read(
        self: &Rc<Self>,
        core: &Rc<Core>,
        request: ReadRequest,
    ) -> Result<ReadResult, ReadRefusal> {
        check_epoch(request.epoch)?;
        let tail = self.tail();
        if request.from > tail && self.until_lease().await.is_err() {
            // Another node has told of more.
            return Err(ReadRefusal::NotLeader);
        }
        if request.from < Offset::ZERO || request.from > tail {
            return Err(ReadRefusal::OutOfRange {
                wanted: request.from,
                log_start: Offset::ZERO,
                tail,
            });
        }
        if request.from == tail && self.is_forsaken() {
            return Err(ReadRefusal::NotLeader);
        }
        let mut result = ReadResult {
            tail,
            stable: tail,
            until: tail,
            ..ReadResult::default()
        };
        if request.bytes_max == 0 {
            return Ok(result);
        }
        let mut from = Position(request.from.0 as u64);
        // Records that are gone are passed over.
        while result.batches.is_empty() && position(from) < tail {
            let found = self.places(core, from, u64::MAX).await?;
            let bytes_max = request.bytes_max;
            if found.places.is_empty() {
                break;
            }
            let next = self.read_places(core, found, bytes_max, &mut result).await?;
            if next <= from {
                return Err(ReadRefusal::Fault(format!(
                    "nothing can be read at position {}",
                    from.0
                )));
            }
            from = next;
        }
        result.bytes = result.batches.iter().map(Bytes::len).sum();
        // More may have been ordered since, and be among them.
        result.tail = self.tail();
        result.is_part = position(from) < result.tail && result.bytes < request.bytes_max;
        Ok(result)
    }

    /// The offset of the next record of the twin.
    pub(crate) fn tail(&self) -> Offset {
        position(self.ordered_now())
    }

    /// Adds batches of places, in their order, until there are so many bytes. Returns the position behind them.
    async fn read_places(
        &self,
        core: &Rc<Core>,
        Found {
            mut places,
            log_starts,
            ..
        }: Found,
        bytes_max: usize,
        result: &mut ReadResult,
    ) -> Result<Position, ReadRefusal> {
        let mut extents = extents(&mut places, bytes_max);
        clip(&mut extents, &log_starts);
        let share = share_of(bytes_max, extents.len());
        let reads = extents.into_iter().map(|(index, extent)| {
            let id = PartitionId {
                topic: self.topic(),
                index,
            };
            let read =
                move |core: Rc<Core>| async move { (index, read_partition(&core, id, extent, share).await) };
            core.facts.mailboxes.call(core.facts.owner_of(id), read)
        });
        let mut cursors = Vec::new();
        for read in join_all(reads).await {
            let (index, cursor) = read.map_err(Unfound::from)?;
            cursors.push((index, cursor?));
        }
        let first = places.first().map_or(Position(0), |first| first.position);
        let (moved, end) = take_batches(places, &mut cursors, bytes_max, first)?;
        result.batches = at_positions(&moved);
        Ok(end)
    }

    /// Has a reader of the twin woken as soon as its tail is beyond what was seen.
    pub(crate) fn watch(&self, watch: &Watch, reader: &Arc<Watcher>) {
        let mut watchers = self.watchers();
        // It may come again while it is registered still.
        let is_other = |other: &Weak<Watcher>| other.as_ptr() != Arc::as_ptr(reader);
        watchers.retain(|(_, number, other)| *number != watch.number || is_other(other));
        watchers.push((watch.seen, watch.number, Arc::downgrade(reader)));
        drop(watchers);
        self.wake();
    }

    /// Wakes all readers of the twin: they look again, and are told that it is gone.
    pub(super) fn wake_all(&self) {
        for (_, number, reader) in self.watchers().drain(..) {
            reader
                .upgrade()
                .into_iter()
                .for_each(|reader| reader.wake(number));
        }
    }

    /// Wakes the readers of the twin for whom there is something, and has the line tell of more.
    pub(crate) fn wake(&self) {
        loop {
            let ordered = self.ordered_now();
            let mut least = None;
            self.watchers().retain(|(seen, number, reader)| {
                let Some(reader) = reader.upgrade() else {
                    return false;
                };
                if *seen < position(ordered) {
                    reader.wake(*number);
                    return false;
                }
                least = Some(least.map_or(*seen, |least: Offset| least.min(*seen)));
                true
            });
            let wanted = least.map(|seen| Position(seen.0 as u64 + 1));
            if self.wait_on_line(wanted) {
                return;
            }
        }
    }
}

/// The position as an offset of the twin.
fn position(position: Position) -> Offset {
    Offset(position.0 as i64)
}

/// The batches of places, with their positions, until there are so many bytes; and the position behind them.
fn take_batches(
    places: Vec<Place>,
    cursors: &mut [(i32, Cursor)],
    bytes_max: usize,
    first: Position,
) -> Result<(Vec<(Bytes, Offset)>, Position), ReadRefusal> {
    let (mut moved, mut bytes, mut end) = (Vec::new(), 0, first);
    for mut place in places {
        let found = cursors.iter_mut().find(|(index, _)| *index == place.partition);
        let (_, cursor) = found.expect("each partition of a place was read");
        let taken = cursor.take(&mut place);
        for batches in &taken.batches {
            for batch in record::batches(batches) {
                let (header, batch) = batch.map_err(|error| ReadRefusal::Fault(error.to_string()))?;
                if bytes > 0 && bytes + batch.len() > bytes_max {
                    return Ok((moved, end));
                }
                let first = place.position.0 as i64 + (header.base_offset.0 - place.first.0);
                let next = Position((first + header.next_offset().0 - header.base_offset.0) as u64);
                // Where a page ends inside of a batch, two places have it.
                if next > end {
                    bytes += batch.len();
                    moved.push((batches.slice_ref(batch), Offset(first)));
                    end = next;
                }
            }
        }
        let is_behind = end < place.end();
        if is_behind && !taken.is_complete {
            return Ok((moved, end));
        }
        end = end.max(place.end());
    }
    Ok((moved, end))
}

/// Batches with other base offsets, which stand outside of their checksums. Of a large one the header alone is copied, and is a part of its own; the last one
/// is whole.
fn at_positions(batches: &[(Bytes, Offset)]) -> Vec<Bytes> {
    let mut parts = Vec::with_capacity(2 * batches.len());
    for (at, (batch, first)) in batches.iter().enumerate() {
        let is_last = at + 1 == batches.len();
        let copied = match is_last || batch.len() < SHARED_BYTES_MIN {
            true => batch.len(),
            false => BATCH_OVERHEAD_BYTES,
        };
        parts.push(at_offset(&batch[..copied], *first));
        if copied < batch.len() {
            parts.push(batch.slice(copied..));
        }
    }
    parts
}

/// A batch, or its header, with another base offset.
fn at_offset(batch: &[u8], first: Offset) -> Bytes {
    let mut moved = BytesMut::from(batch);
    record::set_base_offset(&mut moved, first);
    record::set_leader_epoch(&mut moved, EPOCH);
    moved.freeze()
}

async fn read_partition(
    core: &Core,
    id: PartitionId,
    (first, next): (Offset, Offset),
    bytes_max: usize,
) -> Result<Cursor, ReadRefusal> {
    let mut read = ReadRequest {
        partition: id,
        from: first,
        bytes_max,
        epoch: None,
        from_any: true,
        near: None,
        ordered_until: Some(next),
        committed_only: false,
    };
    if next <= first {
        return Ok(Cursor::gone(first));
    }
    loop {
        match core.read_named(read).await {
            Err(ReadRefusal::OutOfRange { log_start, .. }) if read.from < log_start => {
                if next <= log_start {
                    return Ok(Cursor::gone(log_start));
                }
                read.from = log_start;
            }
            found => {
                let found = found?;
                return Ok(Cursor::of(&found.batches, found.log_start, next));
            }
        }
    }
}
