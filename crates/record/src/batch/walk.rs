//! Goes over a batch's records without keeping them, wherever their bytes come from (`source`).
//!
//! On the way of every append, so nothing is allocated here, and lengths are believed only as far as there are bytes.

use std::ops::{ControlFlow, Range};

use super::compress::{Decompressor, Limits};
use super::error::{BatchError, RecordFault};
use super::header::{BATCH_OVERHEAD_BYTES, BatchHeader, Compression};
use super::source::{SliceSource, Source, StreamSource};

/// The fewest bytes after a record's length: attributes, both deltas, key, value and header count, one byte each.
const RECORD_BYTES_MIN: i32 = 6;
/// The fewest bytes of a record's header: an empty key's length and a null value's.
const HEADER_BYTES_MIN: u64 = 2;

/// Headers that a producer's record may have. A header takes two bytes, and as a value in memory more than thirty times that;
/// compressed, thousands of headers may be a few bytes.
pub const HEADERS_MAX: i32 = 10_000;
/// Headers of a record that is stored already: other brokers, and former versions, took more. So many take 4 MiB in memory.
pub const STORED_HEADERS_MAX: i32 = 1 << 16;

/// The part of a record that a walk looks at.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordHead {
    pub(super) timestamp_delta: i64,
    pub(super) offset_delta: i32,
}

/// The receiver of each record of a walk.
pub(super) trait Walk {
    /// Takes the record with this place in the batch, exactly to its end.
    fn take<S: Source>(&mut self, index: i32, source: &mut S) -> Result<ControlFlow<()>, RecordFault>;
}

/// A walk that checks records, and looks at their heads.
struct Heads<F> {
    headers_max: i32,
    visit: F,
}

impl<F: FnMut(i32, RecordHead) -> Result<ControlFlow<()>, RecordFault>> Walk for Heads<F> {
    #[inline(always)]
    fn take<S: Source>(&mut self, index: i32, source: &mut S) -> Result<ControlFlow<()>, RecordFault> {
        let head = walk_record(source, self.headers_max)?;
        (self.visit)(index, head)
    }
}

/// Shows the records of a whole stored batch to `visit` one by one, with their places in the batch. If `visit` never breaks
/// off, exactly the header's count of records was there and no byte more.
pub(super) fn walk_batch(
    header: &BatchHeader,
    batch: &[u8],
    limits: &Limits,
    visit: impl FnMut(i32, RecordHead) -> Result<ControlFlow<()>, RecordFault>,
) -> Result<(), BatchError> {
    // Nothing is kept of a header here, so there may be any number.
    let headers_max = i32::MAX;
    walk_batch_by(header, batch, limits, &mut Heads { headers_max, visit })
}

/// The same by any walk.
pub(super) fn walk_batch_by(
    header: &BatchHeader,
    batch: &[u8],
    limits: &Limits,
    walk: &mut impl Walk,
) -> Result<(), BatchError> {
    let body = &batch[BATCH_OVERHEAD_BYTES..header.length_bytes];
    let trailing = BatchError::TrailingRecords {
        record_count: header.record_count,
    };
    match header.attributes.compression()? {
        Compression::None => {
            let mut source = SliceSource::new(body);
            match walk_records(&mut source, 0..header.record_count, walk)? {
                ControlFlow::Continue(()) if !source.rest().is_empty() => Err(trailing),
                _ => Ok(()),
            }
        }
        compression => {
            let mut source = StreamSource::new(Decompressor::new(compression, body, limits)?);
            match walk_records(&mut source, 0..header.record_count, walk) {
                Ok(ControlFlow::Break(())) => Ok(()),
                Ok(ControlFlow::Continue(())) => match source.finish()? {
                    true => Ok(()),
                    false => Err(trailing),
                },
                // A decompressor that fails looks like one that ends; its own error says why.
                Err(error) => Err(source.failed.take().unwrap_or(error)),
            }
        }
    }
}

#[inline(always)]
fn walk_records<S: Source>(
    source: &mut S,
    indexes: Range<i32>,
    walk: &mut impl Walk,
) -> Result<ControlFlow<()>, BatchError> {
    for index in indexes {
        match walk.take(index, source) {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => return Ok(ControlFlow::Break(())),
            Err(fault) => return Err(BatchError::Record { index, fault }),
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Shows the records of `indexes` of a producer's batch, which `bytes` begin with, to `visit`, and gives back the bytes behind them.
pub(super) fn walk_part(
    bytes: &[u8],
    indexes: Range<i32>,
    mut visit: impl FnMut(i32, RecordHead) -> Result<(), RecordFault>,
) -> Result<&[u8], BatchError> {
    let mut source = SliceSource::new(bytes);
    // `visit` has no way to break off.
    let mut heads = Heads {
        headers_max: HEADERS_MAX,
        visit: |index, head| {
            visit(index, head)?;
            Ok::<_, RecordFault>(ControlFlow::<()>::Continue(()))
        },
    };
    let _ = walk_records(&mut source, indexes, &mut heads)?;
    Ok(source.rest())
}

#[inline(always)]
pub(super) fn walk_record<S: Source>(source: &mut S, headers_max: i32) -> Result<RecordHead, RecordFault> {
    let (head, bounds) = take_head(source)?;
    for _ in 0..2 {
        if let Some(length) = take_length(source, bounds.end)? {
            source.skip(length)?;
        }
    }
    let header_count = take_header_count(source, bounds.end, headers_max)?;
    for _ in 0..header_count {
        skip_header(source, bounds.end)?;
    }
    bounds.check_taken(source.position())?;
    Ok(head)
}

/// Where a record's fields begin and must end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    start: u64,
    pub(super) end: u64,
}

impl Bounds {
    /// That the fields took exactly the record's length.
    #[inline(always)]
    pub(super) fn check_taken(self, position: u64) -> Result<(), RecordFault> {
        if position == self.end {
            return Ok(());
        }
        let length = (self.end - self.start) as i32;
        Err(RecordFault::LengthMismatch {
            length,
            taken: position - self.start,
        })
    }
}

/// Takes everything before a record's key. Record attributes have no meaning yet, so any are taken.
#[inline(always)]
pub(super) fn take_head<S: Source>(source: &mut S) -> Result<(RecordHead, Bounds), RecordFault> {
    let length = source.varint()?;
    let start = source.position();
    let end = start.saturating_add_signed(i64::from(length));
    if length < RECORD_BYTES_MIN || !source.may_reach(end) {
        return Err(RecordFault::Length { length });
    }
    source.skip(1)?;
    let timestamp_delta = source.varlong()?;
    let offset_delta = source.varint()?;
    Ok((
        RecordHead {
            timestamp_delta,
            offset_delta,
        },
        Bounds { start, end },
    ))
}

/// Takes the length of a key or value that must end before `end`; `None` is null.
#[inline(always)]
pub(super) fn take_length<S: Source>(source: &mut S, end: u64) -> Result<Option<u64>, RecordFault> {
    let length = source.varint()?;
    if length == -1 {
        return Ok(None);
    }
    if length < 0 || length as u64 > end.saturating_sub(source.position()) {
        return Err(RecordFault::FieldLength { length });
    }
    Ok(Some(length as u64))
}

/// Takes the length of a header's key, which cannot be null.
#[inline(always)]
pub(super) fn take_header_key_length<S: Source>(source: &mut S, end: u64) -> Result<u64, RecordFault> {
    take_length(source, end)?.ok_or(RecordFault::FieldLength { length: -1 })
}

/// Takes a record's header count, which is no more than its bytes have room for and `headers_max`.
#[inline(always)]
pub(super) fn take_header_count<S: Source>(
    source: &mut S,
    end: u64,
    headers_max: i32,
) -> Result<i32, RecordFault> {
    let count = source.varint()?;
    let room = end.saturating_sub(source.position()) / HEADER_BYTES_MIN;
    if count < 0 || count as u64 > room {
        return Err(RecordFault::HeaderCount { count });
    }
    if count > headers_max {
        return Err(RecordFault::TooManyHeaders { count, headers_max });
    }
    Ok(count)
}

fn skip_header<S: Source>(source: &mut S, end: u64) -> Result<(), RecordFault> {
    let key_length = take_header_key_length(source, end)?;
    source.skip(key_length)?;
    match take_length(source, end)? {
        Some(value_length) => source.skip(value_length),
        None => Ok(()),
    }
}
