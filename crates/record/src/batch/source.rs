//! Bytes of records, taken from front to back: of a slice, or of what a decompressor gives piece by piece.
//!
//! The slice's side is on the way of every append, so it allocates nothing and takes one-byte numbers at once. The
//! stream's memory is one fixed buffer, whatever the lengths in the bytes claim.

use super::compress::Decompressor;
use super::error::{BatchError, RecordFault};
use crate::varint::{VARLONG_BYTES_MAX, VarintError, read_varint, read_varlong};

/// A stream's buffer: a few memory pages, so that decompressors are called rarely and the bytes stay in the CPU's cache.
const STREAM_BUFFER_BYTES: usize = 16 * 1024;

/// Bytes that are taken from front to back.
pub(super) trait Source {
    /// Bytes taken so far.
    fn position(&self) -> u64;
    /// Says if bytes up to `end` could exist.
    fn may_reach(&self, end: u64) -> bool;
    /// Takes an `i32`.
    fn varint(&mut self) -> Result<i32, RecordFault>;
    /// Takes an `i64`.
    fn varlong(&mut self) -> Result<i64, RecordFault>;
    /// Takes `count` bytes unseen.
    fn skip(&mut self, count: u64) -> Result<(), RecordFault>;
    /// Takes `count` bytes, and shows them piece by piece.
    fn show(&mut self, count: u64, see: impl FnMut(&[u8])) -> Result<(), RecordFault>;
}

impl From<VarintError> for RecordFault {
    fn from(error: VarintError) -> RecordFault {
        match error {
            VarintError::CutShort => RecordFault::CutShort,
            VarintError::TooLong => RecordFault::NumberTooLong,
        }
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

    /// The bytes that are not taken yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
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

    #[inline(always)]
    fn show(&mut self, count: u64, mut see: impl FnMut(&[u8])) -> Result<(), RecordFault> {
        let start = self.at;
        self.skip(count)?;
        see(&self.bytes[start..self.at]);
        Ok(())
    }
}

/// Records that come out of a decompressor, seen through one fixed buffer.
pub(super) struct StreamSource<B: AsRef<[u8]>> {
    decompressor: Decompressor<B>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes that left the buffer before its present content.
    passed: u64,
    ended: bool,
    /// Why the stream ended early.
    pub(super) failed: Option<BatchError>,
}

impl<B: AsRef<[u8]>> StreamSource<B> {
    pub(super) fn new(decompressor: Decompressor<B>) -> StreamSource<B> {
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

    /// See `Decompressor::window_bytes`.
    pub(super) fn window_bytes(&self, bytes: usize) -> usize {
        self.decompressor.window_bytes(bytes)
    }

    /// After the last record: whether nothing follows, neither records nor compressed bytes.
    pub(super) fn finish(&mut self) -> Result<bool, BatchError> {
        self.fill(1);
        match self.failed.take() {
            Some(error) => Err(error),
            None if self.start < self.end => Ok(false),
            None => self.decompressor.finish(),
        }
    }
}

impl<B: AsRef<[u8]>> Source for StreamSource<B> {
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
    fn skip(&mut self, count: u64) -> Result<(), RecordFault> {
        self.show(count, |_| {})
    }

    #[inline]
    fn show(&mut self, mut count: u64, mut see: impl FnMut(&[u8])) -> Result<(), RecordFault> {
        loop {
            let buffered = count.min((self.end - self.start) as u64);
            let start = self.start;
            self.start += buffered as usize;
            see(&self.buffer[start..self.start]);
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
