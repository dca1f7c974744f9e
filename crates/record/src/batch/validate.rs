//! A broker's checks of a batch before it numbers and stores it: after this, every reader can read it.
//!
//! Followers do not check again: they take the leader's bytes by their checksum. Whether the timestamps are near enough
//! to now, or the producer's sequence is the expected one, is for those to say who know the time and the producer.

use std::ops::ControlFlow;

use super::compress::Limits;
use super::error::{BatchError, RecordFault};
use super::glance::{TIMESTAMP_DELTA_MAX, take_run};
use super::header::{BATCH_OVERHEAD_BYTES, BatchHeader, Compression, TimestampType, checksum};
use super::source::Source;
use super::walk::{HEADERS_MAX, RecordHead, Walk, walk_batch_by, walk_part, walk_record};

/// A run of fewer common records is not worth the look for the next one soon.
const WORTHWHILE_RUN: i32 = 8;
/// The records that are then walked before that look.
const WALKED_RECORDS: i32 = 32;

/// A batch that may be appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Examined {
    /// The header as it stands in the bytes.
    pub header: BatchHeader,
    /// The largest timestamp that a record really has. A header that says otherwise is not refused, as brokers commonly
    /// put it right themselves: who minds compares the two.
    pub max_timestamp_found_ms: i64,
    /// The bytes that its records were decompressed to; 0 if they are not compressed.
    pub decompressed_bytes: u64,
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

    let (max_timestamp_found_ms, decompressed_bytes) = match header.attributes.compression()? {
        Compression::None => (check_records(&header, &batch[BATCH_OVERHEAD_BYTES..])?, 0),
        _ => {
            let mut checking = Checking {
                header: &header,
                max_timestamp_ms: i64::MIN,
                bytes: 0,
            };
            walk_batch_by(&header, batch, limits, &mut checking)?;
            (checking.max_timestamp_ms, checking.bytes)
        }
    };
    Ok(Examined {
        header,
        max_timestamp_found_ms,
        decompressed_bytes,
    })
}

/// The check of compressed records: the largest timestamp, and how many bytes they are.
struct Checking<'a> {
    header: &'a BatchHeader,
    max_timestamp_ms: i64,
    bytes: u64,
}

impl Walk for Checking<'_> {
    fn take<S: Source>(&mut self, index: i32, source: &mut S) -> Result<ControlFlow<()>, RecordFault> {
        let timestamp_ms = check_place(self.header, index, walk_record(source, HEADERS_MAX)?)?;
        self.max_timestamp_ms = self.max_timestamp_ms.max(timestamp_ms);
        self.bytes = source.position();
        Ok(ControlFlow::Continue(()))
    }
}

/// The same, of records that are in memory as they are: most at a glance, and the general walk goes on whenever that does
/// not suffice. So what is found does not depend on what a glance can see.
fn check_records(header: &BatchHeader, mut records: &[u8]) -> Result<i64, BatchError> {
    let record_count = header.record_count;
    // Times that do not exist are the general walk's to find.
    let (earliest, latest) = (-TIMESTAMP_DELTA_MAX, TIMESTAMP_DELTA_MAX);
    let exists = |delta| header.base_timestamp_ms.checked_add(delta).is_some();
    let glance_end = if exists(earliest) && exists(latest) {
        record_count
    } else {
        0
    };
    let mut max_timestamp_ms = i64::MIN;
    let mut index = 0;
    while index < record_count {
        let run = take_run(records, index as u32, glance_end as u32);
        let taken = run.next_index as i32 - index;
        if taken > 0 {
            let timestamp_ms = header.base_timestamp_ms + i64::from(run.timestamp_delta_max);
            max_timestamp_ms = max_timestamp_ms.max(timestamp_ms);
        }
        let walk_start = run.next_index as i32;
        // Where common records are rare, looking for them costs more than it saves.
        let walked = if taken < WORTHWHILE_RUN { WALKED_RECORDS } else { 1 };
        index = walk_start.saturating_add(walked).min(record_count);
        records = walk_part(run.rest, walk_start..index, |index, head| {
            let timestamp_ms = check_place(header, index, head)?;
            max_timestamp_ms = max_timestamp_ms.max(timestamp_ms);
            Ok(())
        })?;
    }
    if !records.is_empty() {
        return Err(BatchError::TrailingRecords { record_count });
    }
    Ok(max_timestamp_ms)
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
