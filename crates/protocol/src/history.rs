//! What a partition knows of its batches beyond their bytes: its epochs and its producers.
//!
//! One value that storage keeps as opaque bytes in a checkpoint. Recovery restores it, cuts it to the end
//! of the log it found, and replays the batches that came after the checkpoint. It must never claim a batch
//! that is not in the log: a producer would be told that a lost batch was written.

use std::time::Duration;

use bytes::Bytes;
use record::{BatchHeader, Epoch, Offset};

use crate::encoding::{DecodeError, Reader, Writer};
use crate::epochs::{EpochError, Epochs};
use crate::producers::{ProducerLimits, Producers, Stamp, WrittenBatch};

/// The epochs and the producers of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// Which epoch wrote which offsets.
    pub epochs: Epochs,
    /// The idempotent producers.
    pub producers: Producers,
}

/// A batch found in the log, as far as the history is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchFacts {
    /// The leader's epoch that wrote it.
    pub epoch: Epoch,
    /// The offset of its first record.
    pub first_offset: Offset,
    /// How many records it has; at least one.
    pub record_count: i32,
    /// The largest timestamp in it, milliseconds since 1970.
    pub max_timestamp_ms: i64,
    /// Its producer; `None` if the producer is not idempotent.
    pub producer: Option<Stamp>,
}

impl BatchFacts {
    /// What the header of a batch in the log says.
    #[must_use]
    pub fn of(header: &BatchHeader) -> BatchFacts {
        BatchFacts {
            epoch: header.leader_epoch,
            first_offset: header.base_offset,
            record_count: header.record_count,
            max_timestamp_ms: header.max_timestamp_ms,
            producer: Stamp::of(header),
        }
    }

    /// The first offset after it.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        self.first_offset.advance(i64::from(self.record_count))
    }
}

/// Why a partition cannot be led over what recovery found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// The snapshot is corrupt or of an unknown version.
    #[error(transparent)]
    Snapshot(#[from] DecodeError),
    /// The batches contradict each other.
    #[error(transparent)]
    Batches(#[from] EpochError),
    /// The log has batches of the epoch that the metadata opens, or of a later one: one of the two is not of this history.
    #[error("the metadata opens epoch {epoch}, which is used already: the log's latest is {latest}")]
    EpochPassed {
        /// The epoch to open.
        epoch: Epoch,
        /// The latest one in the log.
        latest: Epoch,
    },
}

const FORMAT: &str = "partition history";
const VERSION: u8 = 2;

impl History {
    /// The history of a partition in which nothing was ever written.
    #[must_use]
    pub fn new(limits: ProducerLimits) -> History {
        History {
            epochs: Epochs::new(),
            producers: Producers::new(limits),
        }
    }

    /// The history of a log that ends at `next_offset`: out of the bytes of its last snapshot (none, if there never was one)
    /// and the batches that these do not cover.
    ///
    /// # Errors
    /// They are corrupt, or contradict each other.
    pub fn recover(
        now: Duration,
        limits: ProducerLimits,
        snapshot: &[u8],
        next_offset: Offset,
        batches: impl IntoIterator<Item = BatchFacts>,
    ) -> Result<History, RecoverError> {
        let mut history = match snapshot.is_empty() {
            true => History::new(limits),
            false => History::restore(now, limits, snapshot)?,
        };
        history.cut_to(next_offset);
        for batch in batches {
            history.replay(now, &batch)?;
        }
        Ok(history)
    }

    /// Takes note of a batch found in the log. Batches come in the order of their offsets, each once; those that a
    /// snapshot covers already must be left out.
    ///
    /// # Errors
    /// An older epoch follows a newer one: the log is corrupt.
    pub fn replay(&mut self, now: Duration, batch: &BatchFacts) -> Result<(), EpochError> {
        self.epochs.replay(batch.epoch, batch.first_offset)?;
        if let Some(stamp) = batch.producer {
            let written = WrittenBatch {
                first_sequence: stamp.first_sequence,
                record_count: batch.record_count,
                first_offset: batch.first_offset,
                max_timestamp_ms: batch.max_timestamp_ms,
            };
            self.producers.note(now, stamp, written);
        }
        Ok(())
    }

    /// The history of the batches below `next_offset`, as bytes. Pass the offset up to which the checkpoint
    /// stands for the log: batches above it are not claimed, because they may still be lost.
    #[must_use]
    pub fn snapshot(&self, now: Duration, next_offset: Offset) -> Bytes {
        let mut epochs = self.epochs.clone();
        epochs.cut_to(next_offset);
        let mut writer = Writer::open(VERSION);
        epochs.write(&mut writer);
        self.producers.write_below(next_offset, now, &mut writer);
        writer.close()
    }

    /// Reads a snapshot back. Recovery then calls [`History::cut_to`] with the end of the log if that lies below the
    /// offset of the snapshot, and [`History::replay`] for what lies above.
    ///
    /// # Errors
    /// The bytes are corrupt or of an unknown version.
    pub fn restore(now: Duration, limits: ProducerLimits, bytes: &[u8]) -> Result<History, DecodeError> {
        let (version, mut reader) = Reader::open_any(bytes, FORMAT, VERSION)?;
        let epochs = Epochs::read(&mut reader)?;
        let producers = Producers::read(now, limits, version, &mut reader)?;
        reader.close()?;
        Ok(History { epochs, producers })
    }

    /// Forgets what lies at `next_offset` and above.
    pub fn cut_to(&mut self, next_offset: Offset) {
        self.epochs.cut_to(next_offset);
        self.producers.cut_to(next_offset);
    }
}
