//! Goes over a batch's records without keeping them: over a slice, or over what a decompressor gives piece by piece.
//!
//! The slice's walk is on the way of every append, so it allocates nothing and takes one-byte numbers at once. The
//! stream's memory is one fixed buffer, whatever the lengths in the bytes claim.

use std::ops::{ControlFlow, Range};

use super::compress::{Decompressor, Limits};
use super::error::{BatchError, RecordFault};
use super::header::{BATCH_OVERHEAD_BYTES, BatchHeader, Compression};
use crate::varint::{VARLONG_BYTES_MAX, VarintError, read_varint, read_varlong};

/// The fewest bytes after a record's length: attributes, both deltas, key, value and header count, one byte each.
const RECORD_BYTES_MIN: i32 = 6;
/// The fewest bytes of a record's header: an empty key's length and a null value's.
const HEADER_BYTES_MIN: u64 = 2;
/// A stream's buffer: a few memory pages, so that decompressors are called rarely and the bytes stay in the CPU's cache.
const STREAM_BUFFER_BYTES: usize = 16 * 1024;

/// The part of a record that a walk looks at.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordHead {
    pub(super) timestamp_delta: i64,
    pub(super) offset_delta: i32,
}

/// Bytes that are taken from front to back.
pub(super) trait Source {
    /// Bytes taken so far.
    fn position(&self) -> u64;
    /// Whether bytes up to `end` could exist.
    fn may_reach(&self, end: u64) -> bool;
    /// Takes an `i32`.
    fn varint(&mut self) -> Result<i32, RecordFault>;
    /// Takes an `i64`.
    fn varlong(&mut self) -> Result<i64, RecordFault>;
    /// Takes `count` bytes unseen.
    fn skip(&mut self, count: u64) -> Result<(), RecordFault>;
}

impl From<VarintError> for RecordFault {
    fn from(error: VarintError) -> RecordFault {
        match error {
            VarintError::CutShort => RecordFault::CutShort,
            VarintError::TooLong => RecordFault::NumberTooLong,
        }
    }
}

/// Shows the records of a whole batch to `visit` one by one, with their places in the batch. If `visit` never breaks
/// off, exactly the header's count of records was there and no byte more.
pub(super) fn walk_batch(
    header: &BatchHeader,
    batch: &[u8],
    limits: &Limits,
    visit: impl FnMut(i32, RecordHead) -> Result<ControlFlow<()>, RecordFault>,
) -> Result<(), BatchError> {
    let body = &batch[BATCH_OVERHEAD_BYTES..header.length_bytes];
    let trailing = BatchError::TrailingRecords {
        record_count: header.record_count,
    };
    match header.attributes.compression()? {
        Compression::None => {
            let mut source = SliceSource::new(body);
            match walk_records(&mut source, 0..header.record_count, visit)? {
                ControlFlow::Continue(()) if !source.is_at_end() => Err(trailing),
                _ => Ok(()),
            }
        }
        compression => {
            let mut source = StreamSource::new(Decompressor::new(compression, body, limits)?);
            match walk_records(&mut source, 0..header.record_count, visit) {
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
    mut visit: impl FnMut(i32, RecordHead) -> Result<ControlFlow<()>, RecordFault>,
) -> Result<ControlFlow<()>, BatchError> {
    for index in indexes {
        let seen = walk_record(source).and_then(|head| visit(index, head));
        match seen {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => return Ok(ControlFlow::Break(())),
            Err(fault) => return Err(BatchError::Record { index, fault }),
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Shows the records of `indexes`, which `bytes` begin with, to `visit`, and gives back the bytes behind them.
pub(super) fn walk_part(
    bytes: &[u8],
    indexes: Range<i32>,
    mut visit: impl FnMut(i32, RecordHead) -> Result<(), RecordFault>,
) -> Result<&[u8], BatchError> {
    let mut source = SliceSource::new(bytes);
    // `visit` has no way to break off.
    let _ = walk_records(&mut source, indexes, |index, head| {
        visit(index, head).map(ControlFlow::Continue)
    })?;
    Ok(&bytes[source.at..])
}

#[inline(always)]
fn walk_record<S: Source>(source: &mut S) -> Result<RecordHead, RecordFault> {
    let (head, bounds) = take_head(source)?;
    for _ in 0..2 {
        if let Some(length) = take_length(source, bounds.end)? {
            source.skip(length)?;
        }
    }
    let header_count = take_header_count(source, bounds.end)?;
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

/// Takes a record's header count, which is no more than its bytes have room for.
#[inline(always)]
pub(super) fn take_header_count<S: Source>(source: &mut S, end: u64) -> Result<i32, RecordFault> {
    let count = source.varint()?;
    let room = end.saturating_sub(source.position()) / HEADER_BYTES_MIN;
    if count < 0 || count as u64 > room {
        return Err(RecordFault::HeaderCount { count });
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

/// Records that are in memory as they are.
#[derive(Debug, Clone)]
pub(super) struct SliceSource<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> SliceSource<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> SliceSource<'a> {
        SliceSource { bytes, at: 0 }
    }

    /// The same bytes, the first `at` of them taken.
    pub(super) fn at(bytes: &'a [u8], at: usize) -> SliceSource<'a> {
        SliceSource { bytes, at }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }
}

impl Source for SliceSource<'_> {
    #[inline(always)]
    fn position(&self) -> u64 {
        self.at as u64
    }

    #[inline(always)]
    fn may_reach(&self, end: u64) -> bool {
        end <= self.bytes.len() as u64
    }

    #[inline(always)]
    fn varint(&mut self) -> Result<i32, RecordFault> {
        Ok(read_varint(self.bytes, &mut self.at)?)
    }

    #[inline(always)]
    fn varlong(&mut self) -> Result<i64, RecordFault> {
        Ok(read_varlong(self.bytes, &mut self.at)?)
    }

    #[inline(always)]
    fn skip(&mut self, count: u64) -> Result<(), RecordFault> {
        if count > (self.bytes.len() - self.at) as u64 {
            return Err(RecordFault::CutShort);
        }
        self.at += count as usize;
        Ok(())
    }
}

/// Records that come out of a decompressor, seen through one fixed buffer.
struct StreamSource<'a> {
    decompressor: Decompressor<'a>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes that left the buffer before its present content.
    passed: u64,
    ended: bool,
    /// Why the stream ended early.
    failed: Option<BatchError>,
}

impl<'a> StreamSource<'a> {
    fn new(decompressor: Decompressor<'a>) -> StreamSource<'a> {
        let buffer = vec![0; STREAM_BUFFER_BYTES];
        StreamSource {
            decompressor,
            buffer,
            start: 0,
            end: 0,
            passed: 0,
            ended: false,
            failed: None,
        }
    }

    /// Tries to have `wanted` bytes in the buffer; fewer are there only at the end.
    fn fill(&mut self, wanted: usize) {
        while self.end - self.start < wanted && !self.ended {
            self.buffer.copy_within(self.start..self.end, 0);
            self.passed += self.start as u64;
            self.end -= self.start;
            self.start = 0;
            match self.decompressor.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(count) => self.end += count,
                Err(error) => {
                    self.ended = true;
                    self.failed = Some(error);
                }
            }
        }
    }

    /// After the last record: whether nothing follows, neither records nor compressed bytes.
    fn finish(&mut self) -> Result<bool, BatchError> {
        self.fill(1);
        match self.failed.take() {
            Some(error) => Err(error),
            None if self.start < self.end => Ok(false),
            None => self.decompressor.finish(),
        }
    }
}

impl Source for StreamSource<'_> {
    fn position(&self) -> u64 {
        self.passed + self.start as u64
    }

    /// Nobody knows; the decompressor's limit is what stops a long walk.
    fn may_reach(&self, _end: u64) -> bool {
        true
    }

    #[inline]
    fn varint(&mut self) -> Result<i32, RecordFault> {
        self.fill(VARLONG_BYTES_MAX);
        Ok(read_varint(&self.buffer[..self.end], &mut self.start)?)
    }

    #[inline]
    fn varlong(&mut self) -> Result<i64, RecordFault> {
        self.fill(VARLONG_BYTES_MAX);
        Ok(read_varlong(&self.buffer[..self.end], &mut self.start)?)
    }

    #[inline]
    fn skip(&mut self, mut count: u64) -> Result<(), RecordFault> {
        loop {
            let buffered = count.min((self.end - self.start) as u64);
            self.start += buffered as usize;
            count -= buffered;
            if count == 0 {
                return Ok(());
            }
            self.fill(1);
            if self.start == self.end {
                return Err(RecordFault::CutShort);
            }
        }
    }
}
