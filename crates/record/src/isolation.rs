//! The batches of a fetch that count for readers of committed records: not those of aborted transactions, nor markers.
//!
//! As Kafka's consumers do it (KIP-98): the broker names the aborted transactions by producer and first offset, in the order of these, and each
//! ends at its marker among the batches. A batch that is left out wrongly is lost to its reader, so nothing is guessed here.

use std::collections::{BTreeSet, VecDeque};

use crate::{BatchError, BatchHeader, Marker, Offset};

/// See the module. Batches are to be told in the order of their offsets, none left out.
#[derive(Debug, Clone, Default)]
pub struct CommittedBatches {
    /// Aborted transactions that have not begun among the batches seen.
    ahead: VecDeque<(i64, Offset)>,
    /// The producers whose transaction is one that is aborted, and has not ended.
    aborting: BTreeSet<i64>,
}

impl CommittedBatches {
    /// For batches among which these transactions are aborted: producer and first offset of each, by offset.
    pub fn new(aborted: impl IntoIterator<Item = (i64, Offset)>) -> CommittedBatches {
        let ahead: VecDeque<_> = aborted.into_iter().collect();
        CommittedBatches {
            ahead,
            aborting: BTreeSet::new(),
        }
    }

    /// Says whether the next batch counts.
    ///
    /// # Errors
    /// As [`Marker::read`].
    pub fn take(&mut self, header: &BatchHeader, batch: &[u8]) -> Result<bool, BatchError> {
        while let Some((producer, first)) = self.ahead.front().copied()
            && first <= header.last_offset()
        {
            self.aborting.insert(producer);
            self.ahead.pop_front();
        }
        if header.attributes.is_control() {
            let marker = Marker::read(header, batch)?;
            if let Some(marker) = marker.filter(|marker| !marker.commit) {
                self.aborting.remove(&marker.producer_id);
            }
            return Ok(false);
        }
        let is_aborted = header.attributes.is_transactional() && self.aborting.contains(&header.producer_id);
        Ok(!is_aborted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BatchBuilder, Compression, set_base_offset};

    fn batch(offset: i64, producer: i64, is_inside: bool) -> Vec<u8> {
        let mut builder = BatchBuilder::new(Compression::None).with_producer(producer, 0, 0);
        builder.set_transactional(is_inside);
        builder.append(0, None, Some(b"value"), &[]);
        let mut batch = builder.build().to_vec();
        set_base_offset(&mut batch, Offset(offset));
        batch
    }

    fn marker(offset: i64, producer_id: i64, commit: bool) -> Vec<u8> {
        let marker = Marker {
            producer_id,
            producer_epoch: 0,
            commit,
            coordinator_epoch: 0,
            first: None,
        };
        let mut batch = marker.build(0).to_vec();
        set_base_offset(&mut batch, Offset(offset));
        batch
    }

    #[test]
    fn what_was_aborted_is_left_out_up_to_its_marker() {
        let batches = [
            (batch(0, 1, true), false),
            (batch(1, 2, true), true),
            (batch(2, 1, false), true),
            (batch(3, 1, true), false),
            (marker(4, 1, false), false),
            (batch(5, 1, true), true),
            (marker(6, 2, true), false),
            (batch(7, 2, true), false),
            (marker(8, 1, true), false),
            (batch(9, 3, true), true),
            (marker(10, 2, false), false),
        ];
        let mut committed = CommittedBatches::new([(1, Offset(0)), (2, Offset(7))]);
        for (batch, counts) in batches {
            let header = BatchHeader::read(&batch).expect("whole");
            let taken = committed.take(&header, &batch).expect("sound");
            assert_eq!(taken, counts, "offset {}", header.base_offset);
        }
    }
}
