//! The batches of an append: from their bytes to the facts that a replica is told.
//!
//! A follower takes the bytes as its leader wrote them, and stores them unchanged: here is the one look at them. It must not let in a
//! batch that this node could not read back, nor offsets between two batches that belong to none. A batch may have fewer records than
//! offsets, or none: compaction has taken the others.

use bytes::Bytes;
use record::{BatchError, BatchHeader, Epoch, Logged, Marker, Offset};
use thiserror::Error;

use crate::history::BatchFacts;
use crate::replica::Prompt;

/// The fault of an append whose bytes are not batches that a replica can take.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BatchesError {
    /// There is no batch.
    #[error("an append without a batch")]
    Empty,
    /// Bytes that are not a whole, sound batch.
    #[error("the batch at byte {at_bytes} of an append: {error}")]
    Unsound {
        /// The place of its first byte.
        at_bytes: usize,
        /// Its fault.
        error: BatchError,
    },
    /// A batch whose offsets or epoch no leader gives out.
    #[error(
        "the batch at byte {at_bytes} of an append has offset {first_offset} and epoch {epoch}, which cannot be"
    )]
    Impossible {
        /// The place of its first byte.
        at_bytes: usize,
        /// The offset of its first record.
        first_offset: Offset,
        /// The epoch that wrote it.
        epoch: Epoch,
    },
    /// A batch that does not begin where the one before it ends. Whoever sends a log with gaps fills them with empty batches.
    #[error(
        "a batch at offset {first_offset} follows one that ends at {expected}: batches with gaps between them cannot be appended"
    )]
    Apart {
        /// The end of the batch before it.
        expected: Offset,
        /// The offset of its first record.
        first_offset: Offset,
    },
    /// A batch of an older epoch behind one of a newer.
    #[error("a batch of epoch {epoch} at offset {first_offset} follows one of epoch {before}")]
    OlderEpoch {
        /// The epoch of the batch before it.
        before: Epoch,
        /// Its epoch.
        epoch: Epoch,
        /// The offset of its first record.
        first_offset: Offset,
    },
}

/// Reads the facts of batches that stand one behind the other. Their records are not looked at: the leader has, and the checksum says
/// that they are the same.
///
/// Takes 72 bytes of memory a batch, of which each has more than 61 bytes.
///
/// # Errors
/// The first thing that is wrong. None of the batches may be taken then.
pub fn facts_of(batches: &Bytes) -> Result<Vec<BatchFacts>, BatchesError> {
    let mut facts: Vec<BatchFacts> = Vec::new();
    let mut at_bytes = 0;
    for batch in record::batches(batches) {
        let unsound = |error| BatchesError::Unsound { at_bytes, error };
        let (header, bytes) = batch.map_err(unsound)?;
        check_sound(&header, bytes).map_err(unsound)?;
        let marker = Marker::read(&header, bytes).map_err(unsound)?;
        let next = check_place(&Logged { header, marker }, at_bytes, facts.last())?;
        facts.push(next);
        at_bytes += bytes.len();
    }
    match facts.is_empty() {
        true => Err(BatchesError::Empty),
        false => Ok(facts),
    }
}

/// Checks what no place in a log could mend.
fn check_sound(header: &BatchHeader, batch: &[u8]) -> Result<(), BatchError> {
    let computed = record::checksum(batch);
    if computed != header.crc {
        return Err(BatchError::ChecksumMismatch {
            stored: header.crc,
            computed,
        });
    }
    let BatchHeader {
        record_count,
        last_offset_delta,
        producer_id,
        producer_epoch,
        base_sequence,
        attributes,
        ..
    } = *header;
    let is_possible = (0..i32::MAX).contains(&last_offset_delta);
    if !is_possible || !(0..=last_offset_delta + 1).contains(&record_count) {
        return Err(BatchError::RecordCount {
            record_count,
            last_offset_delta,
        });
    }
    // A marker is its producer's, and has no place in its sequence.
    let has_place = base_sequence >= 0 || attributes.is_control();
    let is_numbered = (0..i64::MAX).contains(&producer_id) && producer_epoch >= 0 && has_place;
    // A checkpoint with another producer than these could not be read back.
    if !is_numbered && producer_id != -1 {
        return Err(BatchError::Producer {
            producer_id,
            producer_epoch,
            base_sequence,
            transactional: attributes.is_transactional(),
        });
    }
    Ok(())
}

fn check_place(
    batch: &Logged,
    at_bytes: usize,
    before: Option<&BatchFacts>,
) -> Result<BatchFacts, BatchesError> {
    let facts = BatchFacts::of(batch);
    let (epoch, first_offset) = (facts.epoch, facts.first_offset);
    let end = first_offset.0.checked_add(i64::from(facts.record_count));
    if epoch < Epoch(0) || first_offset < Offset::ZERO || end.is_none() {
        return Err(BatchesError::Impossible {
            at_bytes,
            first_offset,
            epoch,
        });
    }
    if let Some(before) = before {
        let expected = before.next_offset();
        if first_offset != expected {
            return Err(BatchesError::Apart {
                expected,
                first_offset,
            });
        }
        if epoch < before.epoch {
            return Err(BatchesError::OlderEpoch {
                before: before.epoch,
                epoch,
                first_offset,
            });
        }
    }
    Ok(facts)
}

impl Prompt<Bytes> {
    /// Makes of a message what [`crate::replica::Replica::handle_prompt`] takes, and gives the bytes of its batches beside it, which
    /// are empty but for an append.
    ///
    /// # Errors
    /// See [`facts_of`].
    pub fn read_facts(self) -> Result<(Prompt, Bytes), BatchesError> {
        let mut bytes = Bytes::new();
        let prompt = self.try_map(|batches| {
            let facts = facts_of(&batches)?;
            bytes = batches;
            Ok(facts)
        })?;
        Ok((prompt, bytes))
    }
}

impl Prompt {
    /// Makes of a message of a replica what is sent: of its batches the bytes, which `batches` has one behind the other. They are of
    /// no use but for an append.
    #[must_use]
    pub fn with_bytes(self, batches: Bytes) -> Prompt<Bytes> {
        let Ok(prompt) = self.try_map(|_| Ok::<_, std::convert::Infallible>(batches));
        prompt
    }
}
