//! What a broker checks of a batch before it numbers and stores it: after this, every reader can read it.
//!
//! Followers do not check again: they take the leader's bytes by their checksum. Whether the timestamps are near enough
//! to now, or the producer's sequence is the expected one, is for those to say who know the time and the producer.

use std::ops::ControlFlow;

use super::compress::Limits;
use super::error::{BatchError, RecordFault};
use super::header::{BatchHeader, TimestampType, checksum};
use super::walk::{RecordHead, walk_batch};

/// A batch that may be appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Examined {
    /// The header as it stands in the bytes.
    pub header: BatchHeader,
    /// The largest timestamp that a record really has. A header that says otherwise is not refused, as brokers commonly
    /// put it right themselves: who minds compares the two.
    pub max_timestamp_found_ms: i64,
}

/// Checks that `batch` is exactly one whole, sound batch of a producer, and gives back its header.
///
/// # Errors
/// What is wrong first: length, magic, checksum, header fields, then the records in order.
pub fn validate(batch: &[u8], limits: &Limits) -> Result<BatchHeader, BatchError> {
    examine(batch, limits).map(|examined| examined.header)
}

/// Checks like `validate`, and also tells what the records themselves say.
///
/// # Errors
/// As `validate`.
pub fn examine(batch: &[u8], limits: &Limits) -> Result<Examined, BatchError> {
    let header = BatchHeader::read(batch)?;
    if header.length_bytes != batch.len() {
        return Err(BatchError::TrailingBytes {
            length_bytes: header.length_bytes,
            given: batch.len(),
        });
    }
    // First: of damaged bytes nothing else is worth saying.
    let computed = checksum(batch);
    if computed != header.crc {
        return Err(BatchError::ChecksumMismatch {
            stored: header.crc,
            computed,
        });
    }
    check_attributes(&header)?;
    check_counts(&header)?;
    check_producer(&header)?;

    let mut max_timestamp_found_ms = i64::MIN;
    walk_batch(&header, batch, limits, |index, head| {
        let timestamp_ms = check_place(&header, index, head)?;
        max_timestamp_found_ms = max_timestamp_found_ms.max(timestamp_ms);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(Examined {
        header,
        max_timestamp_found_ms,
    })
}

fn check_attributes(header: &BatchHeader) -> Result<(), BatchError> {
    let attributes = header.attributes;
    if attributes.has_unknown() {
        return Err(BatchError::UnknownAttributes {
            attributes: attributes.0,
        });
    }
    attributes.compression()?;
    if attributes.is_control() {
        return Err(BatchError::ControlBatch);
    }
    if attributes.timestamp_type() == TimestampType::LogAppendTime {
        return Err(BatchError::LogAppendTime);
    }
    // Compaction would believe it, and drop tombstones before their time.
    if attributes.has_delete_horizon() {
        return Err(BatchError::DeleteHorizon);
    }
    Ok(())
}

fn check_counts(header: &BatchHeader) -> Result<(), BatchError> {
    let BatchHeader {
        record_count,
        last_offset_delta,
        ..
    } = *header;
    // The right side of the comparison cannot overflow: the left has been seen to be positive.
    if record_count < 1 || record_count - 1 != last_offset_delta {
        return Err(BatchError::RecordCount {
            record_count,
            last_offset_delta,
        });
    }
    Ok(())
}

fn check_producer(header: &BatchHeader) -> Result<(), BatchError> {
    let BatchHeader {
        producer_id,
        producer_epoch,
        base_sequence,
        ..
    } = *header;
    let transactional = header.attributes.is_transactional();
    let coherent = match producer_id {
        -1 => !transactional,
        0.. => producer_epoch >= 0 && base_sequence >= 0,
        _ => false,
    };
    if coherent {
        return Ok(());
    }
    Err(BatchError::Producer {
        producer_id,
        producer_epoch,
        base_sequence,
        transactional,
    })
}

/// That a record stands at its place and its time exists.
#[inline(always)]
fn check_place(header: &BatchHeader, index: i32, head: RecordHead) -> Result<i64, RecordFault> {
    let RecordHead {
        timestamp_delta,
        offset_delta,
    } = head;
    if offset_delta != index {
        return Err(RecordFault::OffsetDelta { offset_delta });
    }
    header
        .timestamp_at(timestamp_delta)
        .ok_or(RecordFault::TimestampDelta { timestamp_delta })
}
