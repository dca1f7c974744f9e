//! Counts, for a fetch that waits, the bytes that partitions have for it, and up to which offset they were counted. None of
//! them are held. Thanks to the counts, a look is only at new records, and only in partitions that moved.

use std::collections::BTreeMap;
use std::time::Duration;

use record::Offset;
use shard::ReadRequest;

use super::decision::Sight;
use super::look::{Outcome, Planned, end_of};

/// The least time between two looks of a fetch that has found too little.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// The more partitions a look was at, the longer it is to the next: so many partitions add one interval.
const LOOKED_AT_PER_INTERVAL: usize = 64;

/// Returns the time that a fetch rests after a look at so many partitions.
pub(super) fn rest_after(looked_at: usize) -> Duration {
    let intervals = 1 + looked_at / LOOKED_AT_PER_INTERVAL;
    LOOK_INTERVAL * u32::try_from(intervals).unwrap_or(u32::MAX)
}

/// The count of one partition.
#[derive(Debug, Clone, Copy)]
struct Counted {
    bytes: usize,
    /// Records from here on are not counted yet.
    end: Offset,
    until: Offset,
}

/// See the module. Partitions go by their number among those that the fetch has planned.
#[derive(Debug, Default)]
pub(super) struct Tally {
    counted: BTreeMap<usize, Counted>,
    is_part: bool,
    is_elsewhere: bool,
    has_failed: bool,
}

impl Tally {
    /// Returns the read of what is not counted yet of a partition that has moved. `None` if it may bring no more.
    pub(super) fn rest_of(&self, number: usize, planned: &Planned) -> Option<Planned> {
        let Some(counted) = self.counted.get(&number) else {
            return Some(*planned);
        };
        let bytes_max = planned.read.bytes_max.saturating_sub(counted.bytes);
        let read = ReadRequest {
            from: counted.end,
            bytes_max,
            // What comes now is read here; its reader is told with its next fetch.
            near: None,
            ..planned.read
        };
        (bytes_max > 0).then_some(Planned { read, ..*planned })
    }

    /// Takes note of what a look found of a partition, from `from` on.
    pub(super) fn note(&mut self, number: usize, from: Offset, outcome: &Outcome) {
        let Ok(result) = outcome else {
            self.has_failed = true;
            return;
        };
        self.is_elsewhere |= result.nearer.is_some();
        self.is_part |= result.is_part;
        if from >= result.until && result.bytes == 0 {
            return;
        }
        let counted = self.counted.entry(number).or_insert(Counted {
            bytes: 0,
            end: from,
            until: result.until,
        });
        counted.bytes += result.bytes;
        counted.end = end_of(&result.batches).unwrap_or(counted.end);
        counted.until = result.until;
    }

    /// Says whether anything was counted.
    pub(super) fn is_empty(&self) -> bool {
        self.counted.is_empty()
    }

    /// The partitions that have something.
    pub(super) fn numbers(&self) -> impl Iterator<Item = usize> {
        self.counted.keys().copied()
    }

    /// Sums up all that was counted, for a fetch that has room for `room_bytes`.
    pub(super) fn sight(&self, planned: &[Planned], room_bytes: Option<usize>) -> Sight {
        let available = |(number, counted): (&usize, &Counted)| match counted.end < counted.until {
            true => counted
                .bytes
                .max(planned[*number].read.bytes_max.min(room_bytes.unwrap_or(0))),
            false => counted.bytes,
        };
        Sight {
            found_bytes: self.counted.values().map(|counted| counted.bytes).sum(),
            available_bytes: self.counted.iter().map(available).sum(),
            room_bytes,
            is_part: self.is_part,
            lies_ahead: !self.counted.is_empty(),
            is_elsewhere: self.is_elsewhere,
            has_failed: self.has_failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use kafka_wire::ErrorCode;
    use record::{BatchBuilder, Compression, PartitionId, TopicId};

    use super::*;
    use shard::ReadResult;

    fn planned(place: usize, from: i64, bytes_max: usize) -> Planned {
        let partition = PartitionId {
            topic: TopicId([1; 16]),
            index: place as i32,
        };
        let read = ReadRequest {
            partition,
            from: Offset(from),
            bytes_max,
            epoch: None,
            from_any: false,
            near: None,
            ordered_until: None,
            committed_only: false,
        };
        Planned { place, read }
    }

    /// One batch of one record at this offset, in a partition with this tail.
    fn found(offset: i64, tail: i64) -> Outcome {
        let mut builder = BatchBuilder::new(Compression::None);
        builder.append(0, None, Some(b"value"), &[]);
        let mut batch = builder.build().to_vec();
        record::set_base_offset(&mut batch, Offset(offset));
        let batch = Bytes::from(batch);
        Ok(ReadResult {
            tail: Offset(tail),
            until: Offset(tail),
            bytes: batch.len(),
            batches: vec![batch],
            ..ReadResult::default()
        })
    }

    #[test]
    fn only_what_is_new_is_looked_at() {
        let all = [planned(0, 5, 1 << 20), planned(1, 0, 1 << 20)];
        let mut tally = Tally::default();
        let whole = tally.rest_of(0, &all[0]).expect("nothing is counted");
        assert_eq!(whole.read, all[0].read);
        let first = found(5, 6);
        let bytes = first.as_ref().expect("it is found").bytes;
        tally.note(0, Offset(5), &first);
        let rest = tally.rest_of(0, &all[0]).expect("more may come");
        assert_eq!(
            (rest.read.from, rest.read.bytes_max),
            (Offset(6), (1 << 20) - bytes)
        );
        tally.note(0, Offset(6), &found(6, 7));
        let sight = tally.sight(&all, Some(1 << 20));
        assert_eq!((sight.found_bytes, sight.available_bytes), (2 * bytes, 2 * bytes));
        assert_eq!(tally.numbers().collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn a_partition_that_has_all_it_may_bring_is_not_looked_at_again() {
        let one = [planned(0, 0, 10)];
        let mut tally = Tally::default();
        tally.note(0, Offset(0), &found(0, 9));
        assert!(tally.rest_of(0, &one[0]).is_none());
        let many = [planned(0, 0, 1 << 20)];
        assert_eq!(
            tally.sight(&many, Some(1 << 20)).available_bytes,
            1 << 20,
            "there is more"
        );
    }

    #[test]
    fn a_partition_without_news_and_one_that_failed() {
        let one = [planned(0, 3, 10)];
        let mut tally = Tally::default();
        let nothing = ReadResult {
            tail: Offset(3),
            ..ReadResult::default()
        };
        tally.note(0, Offset(3), &Ok(nothing));
        assert!(tally.is_empty() && !tally.sight(&one, None).lies_ahead);
        tally.note(0, Offset(3), &Err(ErrorCode::UnknownTopicOrPartition));
        assert!(tally.sight(&one, None).has_failed);
    }

    #[test]
    fn the_rest_grows_with_what_was_looked_at() {
        assert_eq!(rest_after(1), LOOK_INTERVAL);
        assert_eq!(rest_after(100 * LOOKED_AT_PER_INTERVAL), 101 * LOOK_INTERVAL);
    }
}
