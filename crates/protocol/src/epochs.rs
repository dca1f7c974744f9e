//! The history of a partition as a list of epochs, each with the first offset written in it.
//!
//! Consumers and followers ask it where an epoch ended, to find out whether what they hold is still part
//! of the log. It must never let two epochs overlap or an older epoch follow a newer one.
//!
//! ```text
//!   epoch      0          2     5
//!   offsets    |0 ... 99| 100 | 130 ...
//!   end of 0 = 100, end of 1 = 100 (answered as epoch 0), end of 2 = 130, end of 5 = end of the log
//! ```

use record::{Epoch, Offset};
use thiserror::Error;

use crate::encoding::{DecodeError, Reader, Writer};

/// The epochs of one partition, oldest first. Epochs in which nothing was written are forgotten as soon as
/// the next one opens: the list grows with what the log holds, not with the number of restarts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Epochs {
    /// Epochs and first offsets both strictly rise.
    entries: Vec<Opened>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Opened {
    epoch: Epoch,
    first_offset: Offset,
}

/// Neighbouring batches of one epoch in a log, and the epoch that wrote on behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Run {
    /// The epoch that wrote them.
    pub writer: Epoch,
    /// The offset of the first record.
    pub first_offset: Offset,
    /// The first offset after the last.
    pub next_offset: Offset,
    /// The epoch of the batch at `next_offset`; `None` at the end of the log.
    pub followed_by: Option<Epoch>,
}

/// The answer to "where did this epoch end?" (KIP-101, KIP-279).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochEnd {
    /// The largest known epoch that is not above the one asked for; -1 where none is known.
    pub epoch: Epoch,
    /// The first offset after that epoch; -1 where none is known.
    pub next_offset: Offset,
}

impl EpochEnd {
    /// Kafka's "undefined": the epoch asked for is not known here, or lies in the future.
    pub const UNDEFINED: EpochEnd = EpochEnd {
        epoch: Epoch(-1),
        next_offset: Offset(-1),
    };
}

/// Why an epoch cannot follow those known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum EpochError {
    /// Epochs only rise: whoever asks is a leader of the past.
    #[error("epoch {got} is not above the latest epoch {latest}")]
    NotNewer {
        /// The latest epoch known.
        latest: Epoch,
        /// The epoch that was to be opened.
        got: Epoch,
    },
    /// An epoch cannot begin before the one it follows.
    #[error("epoch {epoch} would begin at {got}, before the latest epoch at {latest}")]
    Overlaps {
        /// The epoch that was to be opened.
        epoch: Epoch,
        /// The offset where the latest epoch begins.
        latest: Offset,
        /// The offset where the new one was to begin.
        got: Offset,
    },
}

const FORMAT: &str = "epoch history";

impl Epochs {
    /// No epoch yet.
    #[must_use]
    pub fn new() -> Epochs {
        Epochs::default()
    }

    /// The latest epoch, if one was ever opened.
    #[must_use]
    pub fn latest(&self) -> Option<Epoch> {
        self.entries.last().map(|last| last.epoch)
    }

    /// Returns the number of epochs that are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Says that no epoch is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Opens `epoch` at `first_offset`, the end of the log. An epoch in which nothing was written gives way.
    ///
    /// # Errors
    /// The epoch is not above the latest, or begins before it; nothing has changed then.
    pub fn open(&mut self, epoch: Epoch, first_offset: Offset) -> Result<(), EpochError> {
        if let Some(last) = self.entries.last() {
            if epoch <= last.epoch {
                return Err(EpochError::NotNewer {
                    latest: last.epoch,
                    got: epoch,
                });
            }
            if first_offset < last.first_offset {
                return Err(EpochError::Overlaps {
                    epoch,
                    latest: last.first_offset,
                    got: first_offset,
                });
            }
            if first_offset == last.first_offset {
                self.entries.pop();
            }
        }
        self.entries.push(Opened { epoch, first_offset });
        self.assert_rising();
        Ok(())
    }

    /// Takes note of a batch found in the log during recovery. Batches come in the order of their offsets.
    ///
    /// # Errors
    /// The batch carries an older epoch than the batches before it: the log is corrupt.
    pub fn replay(&mut self, epoch: Epoch, first_offset: Offset) -> Result<(), EpochError> {
        if self.latest() == Some(epoch) {
            return Ok(());
        }
        self.open(epoch, first_offset)
    }

    /// Returns the end of `epoch`, in the words of Kafka's OffsetForLeaderEpoch. `log_end` is the end of the log, which
    /// is where the latest epoch ends for now.
    #[must_use]
    pub fn end_of(&self, epoch: Epoch, log_end: Offset) -> EpochEnd {
        if self.latest() == Some(epoch) {
            return EpochEnd {
                epoch,
                next_offset: log_end,
            };
        }
        let above = self.entries.partition_point(|opened| opened.epoch <= epoch);
        let Some(next) = self.entries.get(above).filter(|_| epoch >= Epoch(0)) else {
            return EpochEnd::UNDEFINED;
        };
        // Below everything known (trimmed away): the epoch asked for can only have ended where the first begins.
        let known = if above == 0 {
            epoch
        } else {
            self.entries[above - 1].epoch
        };
        EpochEnd {
            epoch: known,
            next_offset: next.first_offset,
        }
    }

    /// The run that `offset` lies in, of a log that ends at `log_end`.
    #[must_use]
    pub fn run_at(&self, offset: Offset, log_end: Offset) -> Option<Run> {
        let above = self
            .entries
            .partition_point(|opened| opened.first_offset <= offset);
        self.run(above.checked_sub(1)?, log_end)
            .filter(|run| offset < run.next_offset)
    }

    /// The run of an epoch, in a log that ends at `log_end`.
    #[must_use]
    pub fn run_of(&self, writer: Epoch, log_end: Offset) -> Option<Run> {
        let index = self
            .entries
            .binary_search_by_key(&writer, |opened| opened.epoch)
            .ok()?;
        self.run(index, log_end)
            .filter(|run| run.first_offset < run.next_offset)
    }

    fn run(&self, index: usize, log_end: Offset) -> Option<Run> {
        let opened = self.entries.get(index)?;
        let next = self.entries.get(index + 1);
        Some(Run {
            writer: opened.epoch,
            first_offset: opened.first_offset,
            next_offset: next.map_or(log_end, |next| next.first_offset),
            followed_by: next.map(|next| next.epoch),
        })
    }

    /// The epoch in which `offset` was, or would be, written.
    #[must_use]
    pub fn at(&self, offset: Offset) -> Option<Epoch> {
        let above = self
            .entries
            .partition_point(|opened| opened.first_offset <= offset);
        above.checked_sub(1).map(|index| self.entries[index].epoch)
    }

    /// Forgets the epochs that lie wholly below `log_start`. The one it falls into goes on to begin where it did: a batch begins there.
    pub fn trim(&mut self, log_start: Offset) {
        let above = self
            .entries
            .partition_point(|opened| opened.first_offset <= log_start);
        if above > 0 {
            self.entries.drain(..above - 1);
        }
        self.assert_rising();
    }

    /// Has the oldest epoch begin at `first`, if it is said to begin above: releases before had it begin where the log was trimmed, which
    /// may be inside a batch.
    pub fn begin_at(&mut self, first: Offset) {
        if let Some(oldest) = self.entries.first_mut() {
            oldest.first_offset = oldest.first_offset.min(first);
        }
    }

    /// Forgets the epochs that begin at `next_offset` or above it: that end of the log is gone.
    pub fn cut_to(&mut self, next_offset: Offset) {
        self.entries.retain(|opened| opened.first_offset < next_offset);
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.count(self.entries.len());
        for opened in &self.entries {
            writer.i32(opened.epoch.0);
            writer.i64(opened.first_offset.0);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Epochs, DecodeError> {
        let count = reader.count(FORMAT, 12)?;
        let mut epochs = Epochs {
            entries: Vec::with_capacity(count),
        };
        for _ in 0..count {
            let epoch = Epoch(reader.i32(FORMAT)?);
            let first_offset = Offset(reader.i64(FORMAT)?);
            let rises = epochs
                .entries
                .last()
                .is_none_or(|last| epoch > last.epoch && first_offset > last.first_offset);
            if !rises || epoch < Epoch(0) || first_offset < Offset::ZERO {
                return Err(DecodeError::Impossible { field: FORMAT });
            }
            epochs.entries.push(Opened { epoch, first_offset });
        }
        Ok(epochs)
    }

    fn assert_rising(&self) {
        if let [.., before, last] = self.entries.as_slice() {
            assert!(
                before.epoch < last.epoch,
                "epochs rise: {} before {}",
                before.epoch,
                last.epoch
            );
            assert!(before.first_offset < last.first_offset, "epochs do not overlap");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Epochs {
        let mut epochs = Epochs::new();
        epochs.open(Epoch(0), Offset(0)).expect("first");
        epochs.open(Epoch(2), Offset(100)).expect("rises");
        epochs.open(Epoch(5), Offset(130)).expect("rises");
        epochs
    }

    fn end(epoch: i32, next_offset: i64) -> EpochEnd {
        EpochEnd {
            epoch: Epoch(epoch),
            next_offset: Offset(next_offset),
        }
    }

    #[test]
    fn an_epoch_ends_where_the_next_begins() {
        let epochs = three();
        assert_eq!(epochs.end_of(Epoch(0), Offset(150)), end(0, 100));
        assert_eq!(epochs.end_of(Epoch(1), Offset(150)), end(0, 100));
        assert_eq!(epochs.end_of(Epoch(2), Offset(150)), end(2, 130));
        assert_eq!(epochs.end_of(Epoch(5), Offset(150)), end(5, 150));
        assert_eq!(epochs.end_of(Epoch(6), Offset(150)), EpochEnd::UNDEFINED);
        assert_eq!(epochs.end_of(Epoch(-1), Offset(150)), EpochEnd::UNDEFINED);
        assert_eq!(Epochs::new().end_of(Epoch(0), Offset(0)), EpochEnd::UNDEFINED);
    }

    #[test]
    fn empty_epochs_give_way() {
        let mut epochs = three();
        for epoch in 6..1000 {
            epochs.open(Epoch(epoch), Offset(140)).expect("rises");
        }
        assert_eq!(epochs.len(), 4);
        assert_eq!(epochs.end_of(Epoch(7), Offset(150)), end(5, 140));
    }

    #[test]
    fn older_epochs_and_overlaps_are_refused() {
        let mut epochs = three();
        let before = epochs.clone();
        assert_eq!(
            epochs.open(Epoch(5), Offset(200)),
            Err(EpochError::NotNewer {
                latest: Epoch(5),
                got: Epoch(5)
            })
        );
        assert!(matches!(
            epochs.open(Epoch(6), Offset(129)),
            Err(EpochError::Overlaps { .. })
        ));
        assert_eq!(epochs, before);
    }

    #[test]
    fn trimming_keeps_the_epoch_of_the_start() {
        let mut epochs = three();
        epochs.trim(Offset(110));
        assert_eq!(epochs.end_of(Epoch(0), Offset(150)), end(0, 100));
        assert_eq!(epochs.at(Offset(110)), Some(Epoch(2)));
        let run = epochs
            .run_at(Offset(110), Offset(150))
            .expect("it lies in the log");
        assert_eq!(run.first_offset, Offset(100));
        epochs.trim(Offset(500));
        assert_eq!((epochs.len(), epochs.latest()), (1, Some(Epoch(5))));
    }

    #[test]
    fn runs_are_found_by_offset_and_by_epoch() {
        let (epochs, log_end) = (three(), Offset(150));
        let run = Run {
            writer: Epoch(2),
            first_offset: Offset(100),
            next_offset: Offset(130),
            followed_by: Some(Epoch(5)),
        };
        for offset in [100, 129] {
            assert_eq!(epochs.run_at(Offset(offset), log_end), Some(run));
        }
        assert_eq!(epochs.run_of(Epoch(2), log_end), Some(run));
        assert_eq!(epochs.run_of(Epoch(3), log_end), None);
        let last = epochs.run_at(Offset(130), log_end).expect("it lies in the log");
        assert_eq!((last.next_offset, last.followed_by), (log_end, None));
        assert_eq!(epochs.run_at(log_end, log_end), None);
        assert_eq!(
            epochs.run_of(Epoch(5), Offset(130)),
            None,
            "nothing was written in it"
        );
    }

    #[test]
    fn a_cut_forgets_epochs_beyond_it() {
        let mut epochs = three();
        epochs.cut_to(Offset(130));
        assert_eq!(epochs.latest(), Some(Epoch(2)));
        assert_eq!(epochs.at(Offset(99)), Some(Epoch(0)));
    }
}
