//! One producer as one partition remembers it: its epoch, its last batches and the sequence that is next.

use std::num::NonZeroU64;
use std::time::Duration;

use planted::{Bug, planted};
use record::Offset;

use super::{Client, RECENT_BATCHES_MAX, Sequence, SequenceError, WrittenBatch, sequence_after};

/// A producer's last batches: in place, because a partition may have thousands of producers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recent {
    batches: [WrittenBatch; RECENT_BATCHES_MAX],
    count: u8,
}

impl Recent {
    const NONE: Recent = Recent {
        batches: [WrittenBatch {
            first_sequence: 0,
            record_count: 0,
            first_offset: Offset::ZERO,
            max_timestamp_ms: 0,
        }; RECENT_BATCHES_MAX],
        count: 0,
    };

    pub(super) fn as_slice(&self) -> &[WrittenBatch] {
        &self.batches[..usize::from(self.count)]
    }

    /// Adds a batch, in the place of the oldest if there are as many as are kept.
    pub(super) fn push(&mut self, batch: WrittenBatch) {
        if usize::from(self.count) == RECENT_BATCHES_MAX {
            self.batches.rotate_left(1);
            self.count -= 1;
        }
        self.batches[usize::from(self.count)] = batch;
        self.count += 1;
    }

    fn truncate(&mut self, count: usize) {
        assert!(count <= usize::from(self.count), "a cut adds no batches");
        self.count = u8::try_from(count).expect("at most five");
    }
}

/// The tenure of no coordinator.
pub(super) const NO_COORDINATOR: i32 = -1;

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) epoch: i16,
    /// Batches of this epoch, oldest first, each following the one before.
    pub(super) recent: Recent,
    /// The tenure of the coordinator that has ended a transaction of it last; [`NO_COORDINATOR`] if none has.
    pub(super) coordinator_epoch: i32,
    /// The sequence that must come next.
    pub(super) next_sequence: i32,
    pub(super) last_used: Duration,
    /// The producer's place in the order of silence; `None` only while it is being made.
    pub(super) turn: Option<NonZeroU64>,
    /// The address that it was taken on for, since this process started; it is not stored.
    pub(super) client: Option<Client>,
}

impl PartialEq for Entry {
    /// The numbering of turns is left out: two partitions that remember the same may have counted differently. So is the
    /// address, which is not part of the log.
    fn eq(&self, other: &Self) -> bool {
        self.epoch == other.epoch
            && self.recent.as_slice() == other.recent.as_slice()
            && self.next_sequence == other.next_sequence
            && self.coordinator_epoch == other.coordinator_epoch
            && self.last_used == other.last_used
    }
}

impl Entry {
    /// A producer that has written nothing yet; its first batch says where it begins.
    pub(super) fn new(epoch: i16, client: Option<Client>) -> Entry {
        Entry {
            epoch,
            recent: Recent::NONE,
            coordinator_epoch: NO_COORDINATOR,
            next_sequence: 0,
            last_used: Duration::ZERO,
            turn: None,
            client,
        }
    }

    pub(super) fn check(
        &self,
        epoch: i16,
        first_sequence: i32,
        record_count: i32,
    ) -> Result<Sequence, SequenceError> {
        if epoch < self.epoch {
            return Err(SequenceError::StaleEpoch {
                current: self.epoch,
                got: epoch,
            });
        }
        // A new tenure counts from zero: it has settled what the old one left open.
        let expected = if epoch > self.epoch { 0 } else { self.next_sequence };
        if epoch == self.epoch {
            let same = |batch: &&WrittenBatch| {
                batch.first_sequence == first_sequence && batch.record_count == record_count
            };
            // Looked up first: after 2^31 records the sequences come round, but five batches never reach that far.
            if let Some(written) = self.recent.as_slice().iter().find(same) {
                return Ok(match planted(Bug::RetryWrittenAgain) {
                    true => Sequence::Next,
                    false => Sequence::Duplicate(*written),
                });
            }
        }
        if first_sequence != expected && !planted(Bug::SequenceGapAccepted) {
            return Err(SequenceError::OutOfOrder {
                expected,
                got: first_sequence,
            });
        }
        Ok(Sequence::Next)
    }

    pub(super) fn note(&mut self, epoch: i16, batch: WrittenBatch) {
        if epoch != self.epoch {
            self.epoch = epoch;
            self.recent = Recent::NONE;
        }
        self.recent.push(batch);
        self.next_sequence = sequence_after(batch.first_sequence, batch.record_count);
    }

    /// Notes a marker: a higher epoch begins with sequence 0, the same one goes on.
    pub(super) fn note_end(&mut self, epoch: i16, coordinator_epoch: i32) {
        if epoch > self.epoch {
            self.epoch = epoch;
            self.recent = Recent::NONE;
            self.next_sequence = 0;
        }
        self.coordinator_epoch = self.coordinator_epoch.max(coordinator_epoch);
    }

    /// Takes back the batches at `next_offset` and above.
    pub(super) fn cut_to(&mut self, next_offset: Offset) {
        let recent = self.recent.as_slice();
        let kept = recent.partition_point(|batch| batch.first_offset < next_offset);
        let Some(first_gone) = recent.get(kept).copied() else {
            return;
        };
        // Exact for producers that keep at most five batches under way. One that keeps more is asked for a sequence that
        // lies too high and has to begin a new epoch, which is safe; to accept any sequence would let it write twice.
        self.next_sequence = first_gone.first_sequence;
        self.recent.truncate(kept);
    }
}
