//! A read of one partition for some places of an order, and the part of it that no place has had yet.
//!
//! A place has whole batches, but where a page ends inside of a run: then the batch at the end belongs to the next place, too.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Buf, Bytes};
use protocol::order::Place;
use record::{BatchHeader, Offset};

/// Partitions that are read at the same time for one answer. Each brings a whole batch at least.
const PARTITIONS_MAX: usize = 32;
/// The fewest bytes that one partition is read for.
const READ_BYTES_MIN: usize = 16 << 10;

/// See the module. Places of its partition are asked for in their order.
#[derive(Debug)]
pub(crate) struct Cursor {
    /// Whole batches, one or more to an element.
    rest: VecDeque<Bytes>,
    /// The first offset that is kept.
    log_start: Offset,
    /// All that there is of its places was read.
    is_whole: bool,
}

/// The batches of a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The batches that it may have records in.
    pub(crate) batches: Vec<Bytes>,
    /// There are no others: records that are not in these are gone.
    pub(crate) is_complete: bool,
}

impl Cursor {
    /// Of a partition of which these batches were found for places that end at `next`.
    pub(crate) fn of(batches: &[Bytes], log_start: Offset, next: Offset) -> Cursor {
        Cursor {
            is_whole: batches.last().is_none_or(|last| end_of(last) >= Some(next)),
            rest: batches.iter().cloned().collect(),
            log_start,
        }
    }

    /// Of a partition that keeps nothing of its places.
    pub(crate) fn gone(log_start: Offset) -> Cursor {
        Cursor {
            rest: VecDeque::new(),
            log_start,
            is_whole: true,
        }
    }

    /// Takes the batches of a place. It begins where the log does, if that is later.
    pub(crate) fn take(&mut self, place: &mut Place) -> Taken {
        if place.next <= self.log_start {
            return Taken {
                batches: Vec::new(),
                is_complete: true,
            };
        }
        if place.first < self.log_start {
            place.position = place.position_of(self.log_start);
            place.first = self.log_start;
        }
        let (mut taken, mut is_complete) = (Vec::new(), self.is_whole);
        while let Some(first) = self.rest.front_mut() {
            let is_before = |header: &BatchHeader| header.next_offset() <= place.first;
            first.advance(bytes_while(first, is_before));
            let is_within = |header: &BatchHeader| header.next_offset() <= place.next;
            let within = bytes_while(first, is_within);
            taken.push(first.split_to(within));
            if !first.is_empty() {
                is_complete = true;
                // The next one may begin inside of the place, or cannot be read.
                let begins_within =
                    BatchHeader::read(first).map_or(true, |header| header.base_offset < place.next);
                taken.extend(begins_within.then(|| first.clone()));
                break;
            }
            self.rest.pop_front();
        }
        taken.retain(|batches| !batches.is_empty());
        Taken {
            batches: taken,
            is_complete,
        }
    }
}

/// Of each partition of the first places the first offset that is in one of them, and the first behind all of them. Places from the first one on that would have
/// one more partition read than an answer of so many bytes has room for are left out.
pub(crate) fn extents(places: &mut Vec<Place>, bytes_max: usize) -> BTreeMap<i32, (Offset, Offset)> {
    let partitions_max = (bytes_max / READ_BYTES_MIN).clamp(1, PARTITIONS_MAX);
    let mut extents: BTreeMap<i32, (Offset, Offset)> = BTreeMap::new();
    for at in 0..places.len() {
        let place = &places[at];
        if extents.len() == partitions_max && !extents.contains_key(&place.partition) {
            places.truncate(at);
            break;
        }
        let extent = extents
            .entry(place.partition)
            .or_insert((place.first, place.next));
        extent.1 = place.next;
    }
    extents
}

/// Has what is read of partitions begin where they do, as far as that is known. Of one that keeps nothing of it the extent is empty.
pub(crate) fn clip(extents: &mut BTreeMap<i32, (Offset, Offset)>, log_starts: &BTreeMap<i32, Offset>) {
    for (index, (first, next)) in extents {
        if let Some(log_start) = log_starts.get(index) {
            *first = (*first).max(*log_start);
            *next = (*next).max(*first);
        }
    }
}

/// The bytes that each of so many partitions is read for.
pub(crate) fn share_of(bytes_max: usize, partitions: usize) -> usize {
    (bytes_max / partitions.max(1)).max(READ_BYTES_MIN)
}

/// Bytes of the first batches that are so.
fn bytes_while(batches: &Bytes, is_so: impl Fn(&BatchHeader) -> bool) -> usize {
    let headers = record::batches(batches).map_while(|batch| batch.ok().map(|(header, _)| header));
    headers.take_while(is_so).map(|header| header.length_bytes).sum()
}

/// The offset behind whole batches.
fn end_of(batches: &Bytes) -> Option<Offset> {
    let last = record::batches(batches).last()?.ok();
    last.map(|(header, _)| header.next_offset())
}

#[cfg(test)]
mod tests {
    use record::{BatchBuilder, Compression, Position};

    use super::*;

    /// A batch of so many records from an offset on.
    fn batch(first: i64, records: i32) -> Vec<u8> {
        let mut builder = BatchBuilder::new(Compression::None);
        (0..records).for_each(|_| builder.append(0, None, Some(b"value"), &[]));
        let mut batch = builder.build().to_vec();
        record::set_base_offset(&mut batch, Offset(first));
        batch
    }

    fn place(position: u64, first: i64, next: i64) -> Place {
        Place {
            position: Position(position),
            partition: 0,
            first: Offset(first),
            next: Offset(next),
        }
    }

    fn firsts(taken: &Taken) -> Vec<i64> {
        let batches = taken.batches.iter().flat_map(|batches| record::batches(batches));
        batches
            .map(|batch| batch.expect("it is sound").0.base_offset.0)
            .collect()
    }

    #[test]
    fn each_place_has_its_batches_and_what_compaction_took_is_passed_over() {
        let read = [Bytes::from([batch(4, 2), batch(6, 1), batch(9, 3)].concat())];
        // There is more behind that was not read.
        let mut cursor = Cursor::of(&read, Offset(0), Offset(20));
        let found = |cursor: &mut Cursor, first, next| {
            let taken = cursor.take(&mut place(0, first, next));
            (firsts(&taken), taken.is_complete)
        };
        assert_eq!(found(&mut cursor, 0, 2), (vec![], true));
        assert_eq!(found(&mut cursor, 2, 6), (vec![4], true));
        assert_eq!(found(&mut cursor, 6, 8), (vec![6], true));
        // Two places have the batch in which the first ends.
        assert_eq!(found(&mut cursor, 8, 11), (vec![9], true));
        assert_eq!(found(&mut cursor, 11, 15), (vec![9], false), "more was not read");
        let mut whole = Cursor::of(&read, Offset(5), Offset(12));
        let mut trimmed = place(7, 4, 6);
        assert_eq!(firsts(&whole.take(&mut trimmed)), [4]);
        assert_eq!((trimmed.position, trimmed.first), (Position(8), Offset(5)));
        assert_eq!(found(&mut whole, 6, 20), (vec![6, 9], true));
        assert_eq!(found(&mut Cursor::gone(Offset(9)), 5, 9), (vec![], true));
    }

    #[test]
    fn no_more_partitions_are_read_than_an_answer_has_room_for() {
        let place = |partition: i32| Place {
            partition,
            ..place(0, 0, 5)
        };
        let all = || (0..100).map(place).collect::<Vec<Place>>();
        for (bytes, partitions) in [(1, 1), (READ_BYTES_MIN * 3, 3), (1 << 30, PARTITIONS_MAX)] {
            let mut places = all();
            assert_eq!(extents(&mut places, bytes).len(), partitions);
            assert_eq!(places.len(), partitions);
        }
    }
}
