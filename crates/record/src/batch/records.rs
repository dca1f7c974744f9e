//! A batch's records one by one, for consumers and tools: the only place where a batch is taken apart.
//!
//! Reads stored batches as well as new ones: offsets may have gaps (compaction), and control batches are read like others.
//! The checksum is not looked at here: `checksum_holds` does that.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::compress::{Decompressor, Limits};
use super::error::{BatchError, RecordFault};
use super::header::{BATCH_OVERHEAD_BYTES, BatchHeader, Compression};
use super::source::{SliceSource, Source};
use super::walk::{
    RecordHead, STORED_HEADERS_MAX, take_head, take_header_count, take_header_key_length, take_length,
    walk_batch,
};
use crate::Offset;

/// Bytes of room that a decompressed batch gets at a time.
const DECOMPRESS_STEP_BYTES: usize = 64 * 1024;

/// One record. Its bytes are parts of one buffer that all records of the batch share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its place in the partition.
    pub offset: Offset,
    /// Its time in milliseconds since 1970: the producer's, or that of the append. -1 is none.
    pub timestamp_ms: i64,
    /// Its key, if it has one.
    pub key: Option<Bytes>,
    /// Its value; a record with a key and no value is a tombstone.
    pub value: Option<Bytes>,
    /// Its headers in their order: keys (text by convention, not checked) and values.
    pub headers: Vec<(Bytes, Option<Bytes>)>,
}

/// The records of the batch that `batch` begins with, decompressed within `limits`.
///
/// # Errors
/// As `BatchHeader::read`; and of compressed batches what decompression says. A malformed record is an error of the
/// iterator, after the sound records before it.
pub fn records(batch: &[u8], limits: &Limits) -> Result<Records, BatchError> {
    let header = BatchHeader::read(batch)?;
    let body = &batch[BATCH_OVERHEAD_BYTES..header.length_bytes];
    let body = match header.attributes.compression()? {
        Compression::None => Bytes::copy_from_slice(body),
        compression => Bytes::from(decompress(compression, body, limits)?),
    };
    Ok(Records::new(header, body))
}

/// Grows with what really comes out, never by a claim.
fn decompress(compression: Compression, compressed: &[u8], limits: &Limits) -> Result<Vec<u8>, BatchError> {
    let mut decompressor = Decompressor::new(compression, compressed, limits)?;
    let mut body = Vec::new();
    let mut length = 0;
    loop {
        if length == body.len() {
            body.resize(length + DECOMPRESS_STEP_BYTES.max(length), 0);
        }
        match decompressor.read(&mut body[length..])? {
            0 => break,
            count => length += count,
        }
    }
    body.truncate(length);
    Ok(body)
}

/// The records of one batch. Ends after the first error.
#[derive(Debug, Clone)]
pub struct Records {
    header: BatchHeader,
    body: Bytes,
    at: usize,
    index: i32,
    ended: bool,
}

impl Records {
    /// The records that `body` is, unpacked.
    pub(super) fn new(header: BatchHeader, body: Bytes) -> Records {
        Records {
            header,
            body,
            at: 0,
            index: 0,
            ended: false,
        }
    }

    /// The batch's header.
    #[must_use]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Bytes of the records that were taken so far.
    pub(super) fn taken_bytes(&self) -> usize {
        self.at
    }

    fn take_record(&mut self) -> Result<Record, RecordFault> {
        let mut source = SliceSource::at(&self.body, self.at);
        let (head, bounds) = take_head(&mut source)?;
        let record = take_rest(&self.header, head, &mut source, &self.body, bounds.end)?;
        bounds.check_taken(source.position())?;
        self.at = bounds.end as usize;
        Ok(record)
    }
}

/// Takes what stands behind a record's head: fields of `body` that end before `end`.
pub(super) fn take_rest(
    header: &BatchHeader,
    head: RecordHead,
    source: &mut SliceSource<'_>,
    body: &Bytes,
    end: u64,
) -> Result<Record, RecordFault> {
    let timestamp_delta = head.timestamp_delta;
    let timestamp_ms = header
        .timestamp_at(timestamp_delta)
        .ok_or(RecordFault::TimestampDelta { timestamp_delta })?;
    let key = take_field(source, body, end)?;
    let value = take_field(source, body, end)?;
    let header_count = take_header_count(source, end, STORED_HEADERS_MAX)?;
    // The count is backed by bytes that are there, but each header takes more than they do: so it is no capacity.
    let mut headers = Vec::new();
    for _ in 0..header_count {
        let key_length = take_header_key_length(source, end)?;
        let key = take_bytes(source, body, key_length)?;
        headers.push((key, take_field(source, body, end)?));
    }
    Ok(Record {
        offset: header.offset_at(head.offset_delta),
        timestamp_ms,
        key,
        value,
        headers,
    })
}

fn take_field(source: &mut SliceSource<'_>, body: &Bytes, end: u64) -> Result<Option<Bytes>, RecordFault> {
    match take_length(source, end)? {
        Some(length) => take_bytes(source, body, length).map(Some),
        None => Ok(None),
    }
}

fn take_bytes(source: &mut SliceSource<'_>, body: &Bytes, length: u64) -> Result<Bytes, RecordFault> {
    let start = source.position() as usize;
    source.skip(length)?;
    Ok(body.slice(start..start + length as usize))
}

impl Iterator for Records {
    type Item = Result<Record, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let record_count = self.header.record_count;
        if self.index >= record_count {
            self.ended = true;
            let whole = self.at == self.body.len();
            return (!whole).then_some(Err(BatchError::TrailingRecords { record_count }));
        }
        let index = self.index;
        self.index += 1;
        let record = self
            .take_record()
            .map_err(|fault| BatchError::Record { index, fault });
        self.ended = record.is_err();
        Some(record)
    }
}

impl std::iter::FusedIterator for Records {}

/// The first record of the batch that `batch` begins with whose time is `timestamp_ms` or later: its offset and time.
///
/// # Errors
/// As `records`, up to the record that is found.
pub fn find_timestamp(
    batch: &[u8],
    timestamp_ms: i64,
    limits: &Limits,
) -> Result<Option<(Offset, i64)>, BatchError> {
    let header = BatchHeader::read(batch)?;
    let mut found = None;
    walk_batch(&header, batch, limits, |_, head| {
        let timestamp_delta = head.timestamp_delta;
        let record_ms = header
            .timestamp_at(timestamp_delta)
            .ok_or(RecordFault::TimestampDelta { timestamp_delta })?;
        if record_ms < timestamp_ms {
            return Ok(ControlFlow::Continue(()));
        }
        found = Some((header.offset_at(head.offset_delta), record_ms));
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}
