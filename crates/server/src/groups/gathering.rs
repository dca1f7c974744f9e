//! Changes of groups on their way into the log: those that come while a batch is under way ride together in the next one.
//!
//! A batch is all or nothing. So a change that is long, and may be too long for the log, rides alone: should it be refused,
//! none that came with it is.

use bytes::Bytes;
use protocol::groups::{PersistId, StoredRecord};
use record::{BatchBuilder, Compression, RECORD_OVERHEAD_BYTES_MAX};

/// Changes ride together up to this size.
const BATCH_BYTES: usize = 512 << 10;

/// Changes that wait for their batch.
pub(crate) struct Gathering {
    batch: BatchBuilder,
    ids: Vec<PersistId>,
}

/// A batch, and the changes in it.
pub(crate) struct Gathered {
    pub(crate) ids: Vec<PersistId>,
    pub(crate) batch: Bytes,
}

impl Gathering {
    pub(crate) fn new() -> Gathering {
        Gathering {
            batch: BatchBuilder::new(Compression::None),
            ids: Vec::new(),
        }
    }

    /// Adds a change. Hands out what was gathered before if the two do not fit together.
    pub(crate) fn add(&mut self, now_ms: i64, id: PersistId, records: &[StoredRecord]) -> Option<Gathered> {
        let fits = self.batch.length_bytes() + bytes_of(records) <= BATCH_BYTES;
        let before = if fits { None } else { self.take() };
        for record in records {
            self.batch
                .append(now_ms, Some(&record.key), record.value.as_deref(), &[]);
        }
        self.ids.push(id);
        before
    }

    /// Hands out what was gathered, if anything was.
    pub(crate) fn take(&mut self) -> Option<Gathered> {
        (!self.ids.is_empty()).then(|| Gathered {
            ids: std::mem::take(&mut self.ids),
            batch: self.batch.build(),
        })
    }
}

fn bytes_of(records: &[StoredRecord]) -> usize {
    let of_record = |record: &StoredRecord| {
        RECORD_OVERHEAD_BYTES_MAX + record.key.len() + record.value.as_ref().map_or(0, Bytes::len)
    };
    records.iter().map(of_record).sum()
}

#[cfg(test)]
mod tests {
    use record::Limits;

    use super::*;

    fn change(count: usize, value_bytes: usize) -> Vec<StoredRecord> {
        let record = StoredRecord {
            key: Bytes::from_static(b"key"),
            value: Some(Bytes::from(vec![7; value_bytes])),
        };
        vec![record; count]
    }

    /// The changes of a batch, and how many records it has.
    fn seen(gathered: Option<Gathered>) -> Option<(Vec<u64>, usize)> {
        let Gathered { ids, batch } = gathered?;
        let records = record::records(&batch, &Limits::default()).expect("a sound batch");
        Some((ids.iter().map(|id| id.0).collect(), records.count()))
    }

    #[test]
    fn changes_ride_together_up_to_a_size() {
        let mut gathering = Gathering::new();
        assert!(gathering.take().is_none());
        for id in 0..5 {
            let full = gathering.add(1, PersistId(id), &change(2, 50 << 10));
            assert!(full.is_none(), "{id}");
        }
        let full = gathering.add(1, PersistId(5), &change(2, 50 << 10));
        assert_eq!(seen(full), Some((vec![0, 1, 2, 3, 4], 10)));
        assert_eq!(seen(gathering.take()), Some((vec![5], 2)));
        assert!(gathering.take().is_none());
    }

    #[test]
    fn a_long_change_rides_alone() {
        let mut gathering = Gathering::new();
        for id in 0..2 {
            assert!(gathering.add(1, PersistId(id), &change(1, 10)).is_none());
        }
        let before = gathering.add(1, PersistId(2), &change(3, BATCH_BYTES));
        assert_eq!(seen(before), Some((vec![0, 1], 2)));
        let long = gathering.add(1, PersistId(3), &change(1, 10));
        assert_eq!(seen(long), Some((vec![2], 3)));
        assert_eq!(seen(gathering.take()), Some((vec![3], 1)));
    }

    #[test]
    fn a_record_takes_no_more_than_was_thought() {
        let mut gathering = Gathering::new();
        let records = change(1_000, 0);
        let empty_bytes = gathering.batch.length_bytes();
        gathering.add(0, PersistId(0), &records[..1]);
        gathering.add(i64::MAX, PersistId(1), &records[1..]);
        assert!(gathering.batch.length_bytes() - empty_bytes <= bytes_of(&records));
    }
}
