//! Makes batches: for the client, the benchmark, internal partitions and tests.
//!
//! Records are written once, behind 61 bytes that are filled in at the end. Without compression that buffer becomes the
//! batch itself.

use bytes::Bytes;

use super::compress::compress;
use super::header::{
    ATTRIBUTES_AT, Attributes, BASE_SEQUENCE_AT, BASE_TIMESTAMP_AT, BATCH_OVERHEAD_BYTES, Compression,
    LAST_OFFSET_DELTA_AT, LEADER_EPOCH_AT, LENGTH_AT, LOG_OVERHEAD_BYTES, MAGIC, MAGIC_AT, MAX_TIMESTAMP_AT,
    PRODUCER_EPOCH_AT, PRODUCER_ID_AT, RECORD_COUNT_AT,
};
use super::patch::{put, seal_checksum};
use crate::varint::{put_varint, varint_bytes};

/// The most bytes that a record without headers takes in a batch beside its key and its value:
///
/// ```text
///  length  attributes  timestamp delta  offset delta  key length  value length  header count
///     5  +     1     +       10       +      5      +     5     +      5      +      1
/// ```
pub const RECORD_OVERHEAD_BYTES_MAX: usize = 32;

/// No producer, epoch, sequence or leader epoch.
const NONE: i32 = -1;

/// Gathers records into one batch, then starts the next. Its base offset is 0 and its leader epoch none until a broker
/// sets them.
#[derive(Debug, Clone)]
pub struct BatchBuilder {
    compression: Compression,
    transactional: bool,
    control: bool,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    /// Room for the header, then the records.
    bytes: Vec<u8>,
    record_count: i32,
    base_timestamp_ms: i64,
    max_timestamp_ms: i64,
}

impl BatchBuilder {
    /// An empty batch of no particular producer.
    #[must_use]
    pub fn new(compression: Compression) -> BatchBuilder {
        BatchBuilder {
            compression,
            transactional: false,
            control: false,
            producer_id: i64::from(NONE),
            producer_epoch: NONE as i16,
            base_sequence: NONE,
            bytes: vec![0; BATCH_OVERHEAD_BYTES],
            record_count: 0,
            base_timestamp_ms: 0,
            max_timestamp_ms: 0,
        }
    }

    /// The same, of an idempotent producer.
    #[must_use]
    pub fn with_producer(mut self, id: i64, epoch: i16, base_sequence: i32) -> BatchBuilder {
        self.set_producer(id, epoch, base_sequence);
        self
    }

    /// Says whose batch this and the next are, and the first record's sequence number. All -1 is nobody's.
    pub fn set_producer(&mut self, id: i64, epoch: i16, base_sequence: i32) {
        self.producer_id = id;
        self.producer_epoch = epoch;
        self.base_sequence = base_sequence;
    }

    /// Says whether this batch and the next are part of a transaction.
    pub fn set_transactional(&mut self, transactional: bool) {
        self.transactional = transactional;
    }

    /// Says whether this batch and the next hold a broker's markers, which no producer may send.
    pub(super) fn set_control(&mut self, control: bool) {
        self.control = control;
    }

    /// Adds a record. Header keys should be UTF-8.
    ///
    /// # Panics
    /// If the batch would pass 2 GiB, which the format cannot say: callers have their own, far lower limit.
    pub fn append(
        &mut self,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) {
        if self.record_count == 0 {
            self.base_timestamp_ms = timestamp_ms;
            self.max_timestamp_ms = timestamp_ms;
        }
        self.max_timestamp_ms = self.max_timestamp_ms.max(timestamp_ms);
        let timestamp_delta = timestamp_ms.wrapping_sub(self.base_timestamp_ms);
        let offset_delta = i64::from(self.record_count);
        let length = 1
            + varint_bytes(timestamp_delta)
            + varint_bytes(offset_delta)
            + field_bytes(key)
            + field_bytes(value)
            + headers_bytes(headers);
        let batch_bytes = self.bytes.len() + varint_bytes(length as i64) + length;
        assert!(batch_bytes <= i32::MAX as usize, "a batch has at most 2 GiB");

        let out = &mut self.bytes;
        out.reserve(batch_bytes - out.len());
        put_varint(out, length as i64);
        out.push(0);
        put_varint(out, timestamp_delta);
        put_varint(out, offset_delta);
        put_field(out, key);
        put_field(out, value);
        put_varint(out, headers.len() as i64);
        for &(key, value) in headers {
            put_field(out, Some(key));
            put_field(out, value);
        }
        assert_eq!(out.len(), batch_bytes, "a record is as long as it says");
        self.record_count += 1;
    }

    /// Records added so far.
    #[must_use]
    pub fn record_count(&self) -> i32 {
        self.record_count
    }

    /// Says if there is no record yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.record_count == 0
    }

    /// Bytes of the batch so far, before compression.
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Drops the records added so far and keeps producer, compression and memory.
    pub fn clear(&mut self) {
        self.bytes.truncate(BATCH_OVERHEAD_BYTES);
        self.record_count = 0;
    }

    /// Finishes the batch. The builder is then empty; an idempotent producer sets the next sequence itself.
    ///
    /// # Panics
    /// If there is no record: there are no empty batches.
    pub fn build(&mut self) -> Bytes {
        self.build_over(self.record_count)
    }

    /// The same for a batch that takes up so many offsets, of which the first ones have its records: as if the others had been compacted away.
    ///
    /// # Panics
    /// As [`BatchBuilder::build`]; or there are more records than offsets.
    pub fn build_over(&mut self, offsets: i32) -> Bytes {
        assert!(self.record_count > 0, "a batch has at least one record");
        assert!(self.record_count <= offsets, "each record has an offset");
        let mut batch = match self.compression {
            Compression::None => {
                // The next batch will be about as long as this one.
                let mut next = Vec::with_capacity(self.bytes.len());
                next.resize(BATCH_OVERHEAD_BYTES, 0);
                std::mem::replace(&mut self.bytes, next)
            }
            compression => {
                let mut batch = vec![0; BATCH_OVERHEAD_BYTES];
                compress(compression, &self.bytes[BATCH_OVERHEAD_BYTES..], &mut batch);
                assert!(batch.len() <= i32::MAX as usize, "a batch has at most 2 GiB");
                batch
            }
        };
        self.write_header(&mut batch, offsets);
        self.clear();
        Bytes::from(batch)
    }

    fn write_header(&self, batch: &mut [u8], offsets: i32) {
        let length = (batch.len() - LOG_OVERHEAD_BYTES) as i32;
        let attributes = Attributes::of(self.compression)
            .with_transactional(self.transactional)
            .with_control(self.control);
        put(batch, 0, &0i64.to_be_bytes());
        put(batch, LENGTH_AT, &length.to_be_bytes());
        put(batch, LEADER_EPOCH_AT, &NONE.to_be_bytes());
        batch[MAGIC_AT] = MAGIC as u8;
        put(batch, ATTRIBUTES_AT, &attributes.0.to_be_bytes());
        put(batch, LAST_OFFSET_DELTA_AT, &(offsets - 1).to_be_bytes());
        put(batch, BASE_TIMESTAMP_AT, &self.base_timestamp_ms.to_be_bytes());
        put(batch, MAX_TIMESTAMP_AT, &self.max_timestamp_ms.to_be_bytes());
        put(batch, PRODUCER_ID_AT, &self.producer_id.to_be_bytes());
        put(batch, PRODUCER_EPOCH_AT, &self.producer_epoch.to_be_bytes());
        put(batch, BASE_SEQUENCE_AT, &self.base_sequence.to_be_bytes());
        put(batch, RECORD_COUNT_AT, &self.record_count.to_be_bytes());
        seal_checksum(batch);
    }
}

fn field_bytes(field: Option<&[u8]>) -> usize {
    field.map_or(1, |bytes| varint_bytes(bytes.len() as i64) + bytes.len())
}

fn headers_bytes(headers: &[(&[u8], Option<&[u8]>)]) -> usize {
    headers
        .iter()
        .fold(varint_bytes(headers.len() as i64), |sum, &(key, value)| {
            sum + field_bytes(Some(key)) + field_bytes(value)
        })
}

fn put_field(out: &mut Vec<u8>, field: Option<&[u8]>) {
    match field {
        Some(bytes) => {
            put_varint(out, bytes.len() as i64);
            out.extend_from_slice(bytes);
        }
        None => put_varint(out, i64::from(NONE)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_numbers_of_a_record_are_the_greatest_overhead() {
        let mut builder = BatchBuilder::new(Compression::None);
        builder.append(0, None, None, &[]);
        // As if so many had come: the offset delta of the next one is as long as it can be.
        builder.record_count = i32::MAX - 1;
        let (before, field) = (builder.length_bytes(), vec![b'f'; 1 << 20]);
        builder.append(i64::MIN, Some(&field), Some(&field), &[]);
        let overhead = builder.length_bytes() - before - 2 * field.len();
        // The lengths of the record and of its fields take less than they could: nobody has 2 GiB to spare.
        let length_bytes_max = varint_bytes(i64::from(i32::MAX));
        let shorter = (length_bytes_max - varint_bytes(field.len() as i64)) * 2 + length_bytes_max
            - varint_bytes(2 * field.len() as i64 + overhead as i64);
        assert_eq!(overhead + shorter, RECORD_OVERHEAD_BYTES_MAX);
    }
}
