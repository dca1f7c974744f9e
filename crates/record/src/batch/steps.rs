//! The records of one batch step by step, for readers who stop early and let others go on between two steps.
//!
//! A compressed batch is unpacked only as far as is asked for, and only the bytes of its next record are kept. The records are
//! those that `records` gives.

use bytes::Bytes;

use super::compress::{Decompressor, Limits};
use super::error::{BatchError, RecordFault};
use super::header::{BATCH_OVERHEAD_BYTES, BatchHeader, Compression};
use super::records::{Record, Records, take_rest};
use super::source::{SliceSource, Source, StreamSource};
use super::walk::{RecordHead, take_head};
use crate::Offset;

/// Bytes that a record counts as beside its own: one of a few bytes is some work, too.
const RECORD_WORK_BYTES: usize = 64;
/// The lengths of a record's key and value, and the count of its headers.
const LENGTHS_BYTES_MAX: u64 = 15;
/// A record behind its head that is longer than this is gathered only after a pause.
const LARGE_BYTES: u64 = 64 << 10;

/// The outcome of one step through a batch's records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The next record.
    Record(Record),
    /// The next record is longer than is wanted; the step after this one goes on behind it.
    TooLong {
        /// Its place in the partition.
        offset: Offset,
        /// The bytes of its key, value and headers, and of their lengths.
        bytes: u64,
    },
    /// Enough for one turn, or a large record is next: see `RecordSteps::memory_bytes`, then go on.
    Pause,
    /// There are no more.
    End,
}

/// The records of one batch. Ends after the first error.
pub struct RecordSteps {
    header: BatchHeader,
    body: Body,
}

enum Body {
    Plain(Records),
    Packed(Box<Packed>),
}

impl RecordSteps {
    /// The records of the batch that `batch` is, unpacked within `limits`.
    ///
    /// # Errors
    /// As `records`, where the compressed bytes show it at their beginning.
    pub fn new(batch: &Bytes, limits: &Limits) -> Result<RecordSteps, BatchError> {
        let header = BatchHeader::read(batch)?;
        let body = batch.slice(BATCH_OVERHEAD_BYTES..header.length_bytes);
        let body = match header.attributes.compression()? {
            Compression::None => Body::Plain(Records::new(header, body)),
            compression => {
                let source = StreamSource::new(Decompressor::new(compression, body, limits)?);
                Body::Packed(Box::new(Packed {
                    source,
                    next_index: 0,
                    at: At::Between,
                }))
            }
        };
        Ok(RecordSteps { header, body })
    }

    /// The batch's header.
    #[must_use]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Says whether its records are not compressed: their bytes are the batch's own then.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        matches!(self.body, Body::Plain(_))
    }

    /// Memory that unpacking takes while `work_bytes` more come out: a window, and the record that is being gathered.
    #[must_use]
    pub fn memory_bytes(&self, work_bytes: usize) -> usize {
        match &self.body {
            Body::Plain(_) => 0,
            Body::Packed(packed) => packed.memory_bytes(work_bytes),
        }
    }

    /// Goes on to the next record at `from` or behind it, of at most `bytes_max` bytes. What that takes is taken off
    /// `work_bytes`; with none left there is a pause.
    ///
    /// # Errors
    /// As the iterator of `records`.
    pub fn step(
        &mut self,
        from: Offset,
        bytes_max: usize,
        work_bytes: &mut usize,
    ) -> Result<Step, BatchError> {
        match &mut self.body {
            Body::Plain(records) => plain_step(records, from, work_bytes),
            Body::Packed(packed) => packed.step(&self.header, from, bytes_max as u64, work_bytes),
        }
    }
}

/// Their bytes are there: so none is too long.
fn plain_step(records: &mut Records, from: Offset, work_bytes: &mut usize) -> Result<Step, BatchError> {
    while *work_bytes > 0 {
        let before = records.taken_bytes();
        let Some(record) = records.next().transpose()? else {
            return Ok(Step::End);
        };
        let taken = records.taken_bytes() - before + RECORD_WORK_BYTES;
        *work_bytes = work_bytes.saturating_sub(taken);
        if record.offset >= from {
            return Ok(Step::Record(record));
        }
    }
    Ok(Step::Pause)
}

/// Records that are compressed.
struct Packed {
    source: StreamSource<Bytes>,
    next_index: i32,
    at: At,
}

/// Where between the records, or in one of them, the source stands.
enum At {
    Between,
    /// In one that nobody wants, before its last bytes.
    Passing {
        left: u64,
    },
    /// In one that is gathered behind its head.
    Gathering {
        head: RecordHead,
        length: u64,
        bytes: Vec<u8>,
    },
    Ended,
}

impl Packed {
    fn memory_bytes(&self, work_bytes: usize) -> usize {
        let gathered = match &self.at {
            At::Gathering { length, .. } => usize::try_from(*length).unwrap_or(usize::MAX),
            _ => 0,
        };
        self.source.window_bytes(work_bytes).saturating_add(gathered)
    }

    fn step(
        &mut self,
        header: &BatchHeader,
        from: Offset,
        bytes_max: u64,
        work_bytes: &mut usize,
    ) -> Result<Step, BatchError> {
        while *work_bytes > 0 {
            match self.advance(header, from, bytes_max, work_bytes) {
                Ok(None) => {}
                Ok(Some(step)) => return Ok(step),
                // A decompressor that fails looks like one that ends; its own error says why.
                Err(error) => return Err(self.source.failed.take().unwrap_or(error)),
            }
        }
        Ok(Step::Pause)
    }

    /// Takes a part of what comes next; gives nothing if a step needs more.
    fn advance(
        &mut self,
        header: &BatchHeader,
        from: Offset,
        bytes_max: u64,
        work_bytes: &mut usize,
    ) -> Result<Option<Step>, BatchError> {
        let record_count = header.record_count;
        // An error leaves it ended.
        match std::mem::replace(&mut self.at, At::Ended) {
            At::Ended => Ok(Some(Step::End)),
            At::Between if self.next_index >= record_count => match self.source.finish()? {
                true => Ok(Some(Step::End)),
                false => Err(BatchError::TrailingRecords { record_count }),
            },
            At::Between => {
                self.next_index += 1;
                self.begin(header, from, bytes_max, work_bytes)
            }
            At::Passing { left } => self.pass(left, work_bytes).map(|()| None),
            At::Gathering { head, length, bytes } => {
                let gathered = self.gather(head, length, bytes, work_bytes)?;
                let record = gathered.map(|bytes| take_gathered(header, head, bytes));
                let record = record.transpose().map_err(|fault| self.malformed(fault))?;
                Ok(record.map(Step::Record))
            }
        }
    }

    /// Takes a record's head, and chooses what becomes of the rest.
    fn begin(
        &mut self,
        header: &BatchHeader,
        from: Offset,
        bytes_max: u64,
        work_bytes: &mut usize,
    ) -> Result<Option<Step>, BatchError> {
        let (head, bounds) = take_head(&mut self.source).map_err(|fault| self.malformed(fault))?;
        let left = bounds.end.checked_sub(self.source.position());
        let left = left.ok_or_else(|| self.malformed(RecordFault::CutShort))?;
        *work_bytes = work_bytes.saturating_sub(RECORD_WORK_BYTES);
        let offset = header.offset_at(head.offset_delta);
        if offset >= from && left <= bytes_max.saturating_add(LENGTHS_BYTES_MAX) {
            self.at = At::Gathering {
                head,
                length: left,
                bytes: Vec::new(),
            };
            return Ok((left > LARGE_BYTES).then_some(Step::Pause));
        }
        self.at = At::Passing { left };
        let too_long = Step::TooLong { offset, bytes: left };
        Ok((offset >= from).then_some(too_long))
    }

    fn pass(&mut self, left: u64, work_bytes: &mut usize) -> Result<(), BatchError> {
        let count = left.min(*work_bytes as u64);
        let passed = self.source.skip(count);
        passed.map_err(|fault| self.malformed(fault))?;
        *work_bytes -= count as usize;
        self.at = match left - count {
            0 => At::Between,
            left => At::Passing { left },
        };
        Ok(())
    }

    /// Takes more of a record, and gives it if that was the rest.
    fn gather(
        &mut self,
        head: RecordHead,
        length: u64,
        mut bytes: Vec<u8>,
        work_bytes: &mut usize,
    ) -> Result<Option<Bytes>, BatchError> {
        let count = (length - bytes.len() as u64).min(*work_bytes as u64);
        bytes.reserve_exact(count as usize);
        let shown = self.source.show(count, |piece| bytes.extend_from_slice(piece));
        shown.map_err(|fault| self.malformed(fault))?;
        *work_bytes -= count as usize;
        if bytes.len() as u64 == length {
            self.at = At::Between;
            return Ok(Some(bytes.into()));
        }
        self.at = At::Gathering { head, length, bytes };
        Ok(None)
    }

    fn malformed(&self, fault: RecordFault) -> BatchError {
        let index = self.next_index - 1;
        BatchError::Record { index, fault }
    }
}

/// Takes a record apart whose bytes behind its head are `bytes`.
fn take_gathered(header: &BatchHeader, head: RecordHead, bytes: Bytes) -> Result<Record, RecordFault> {
    let end = bytes.len() as u64;
    let mut source = SliceSource::new(&bytes);
    let record = take_rest(header, head, &mut source, &bytes, end)?;
    match source.position() {
        taken if taken == end => Ok(record),
        taken => Err(RecordFault::LengthMismatch {
            length: end as i32,
            taken,
        }),
    }
}

#[cfg(test)]
mod tests;
