//! Faults of a batch, and of one record in it.
//!
//! Nothing here is worth a retry with the same bytes, but for `Truncated`: more bytes may follow.

use super::header::Compression;
use super::marker::ControlPart;

/// Why bytes are not a batch that can be taken or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The bytes end before the batch does: normal at the end of a fetch, where the last batch may be cut.
    #[error("a batch needs {needed} bytes, {given} are here")]
    Truncated {
        /// Bytes that the batch (or its header) needs at least.
        needed: usize,
        /// Bytes that there are.
        given: usize,
    },
    /// A message format other than 2, or no batch at all.
    #[error("message format {magic} is not supported, only 2")]
    UnsupportedMagic {
        /// The format's number in the bytes.
        magic: i8,
    },
    /// The length field is less than a header takes.
    #[error("a batch of {length_bytes} bytes has no room for its header")]
    LengthTooSmall {
        /// The claimed length of the whole batch.
        length_bytes: i64,
    },
    /// More bytes than the one batch that was expected.
    #[error("one batch of {length_bytes} bytes was expected, {given} bytes are here")]
    TrailingBytes {
        /// The whole batch's length.
        length_bytes: usize,
        /// Bytes that there are.
        given: usize,
    },
    /// The bytes changed since their producer summed them up.
    #[error("the batch says its checksum is {stored:#010x}, its bytes say {computed:#010x}")]
    ChecksumMismatch {
        /// The checksum in the header.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// Attribute bits that have no meaning.
    #[error("unknown attribute bits in {attributes:#06x}")]
    UnknownAttributes {
        /// All attribute bits.
        attributes: u16,
    },
    /// A compression code that has no meaning.
    #[error("unknown compression {code}")]
    UnknownCompression {
        /// The code.
        code: u8,
    },
    /// Control batches are written by brokers only.
    #[error("a producer may not write control batches")]
    ControlBatch,
    /// The append time is for the broker to set.
    #[error("a producer may not set the timestamp type to append time")]
    LogAppendTime,
    /// The delete horizon is for compaction to set.
    #[error("a producer may not set a delete horizon")]
    DeleteHorizon,
    /// There are no records, or the count and the last offset disagree.
    #[error("{record_count} records cannot have the last offset delta {last_offset_delta}")]
    RecordCount {
        /// The header's record count.
        record_count: i32,
        /// The header's last offset delta.
        last_offset_delta: i32,
    },
    /// Producer id, epoch and sequence do not belong together.
    #[error(
        "producer id {producer_id}, epoch {producer_epoch} and sequence {base_sequence} \
         do not belong together (transactional: {transactional})"
    )]
    Producer {
        /// The header's producer id.
        producer_id: i64,
        /// The header's producer epoch.
        producer_epoch: i16,
        /// The header's first sequence.
        base_sequence: i32,
        /// The batch is part of a transaction.
        transactional: bool,
    },
    /// One record is malformed.
    #[error("record {index}: {fault}")]
    Record {
        /// The record's place in the batch, from zero.
        index: i32,
        /// The record's fault.
        fault: RecordFault,
    },
    /// A control record's key or value has no room for what it is to tell.
    #[error("the {part} of a control record needs {needed} bytes, it has {given}")]
    ControlTooShort {
        /// The key or the value.
        part: ControlPart,
        /// The fewest bytes that it takes.
        needed: usize,
        /// Bytes that there are.
        given: usize,
    },
    /// A control record's key or value is of a version that cannot be.
    #[error("the {part} of a control record cannot have version {version}")]
    ControlVersion {
        /// The key or the value.
        part: ControlPart,
        /// The version in the bytes.
        version: i16,
    },
    /// Bytes after the last record.
    #[error("bytes follow the last of {record_count} records")]
    TrailingRecords {
        /// The header's record count.
        record_count: i32,
    },
    /// The records are larger than allowed once decompressed.
    #[error("the records decompress to more than {limit_bytes} bytes")]
    DecompressedTooLarge {
        /// The limit that was passed.
        limit_bytes: u64,
    },
    /// The compressed records are not what their compression says.
    #[error("{compression} records: {reason}")]
    Decompress {
        /// The batch's compression.
        compression: Compression,
        /// The decoder's words.
        reason: String,
    },
}

/// A fault of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// The batch ends inside the record.
    #[error("the batch ends inside it")]
    CutShort,
    /// A number has more bits than its type.
    #[error("a number in it is too long")]
    NumberTooLong,
    /// The record's length is negative, too small for any record, or past the batch's end.
    #[error("its length cannot be {length}")]
    Length {
        /// The length in the bytes.
        length: i32,
    },
    /// A key's, value's or header's length is negative (other than null) or past the record's end.
    #[error("a length in it cannot be {length}")]
    FieldLength {
        /// The length in the bytes.
        length: i32,
    },
    /// The number of headers is negative or more than the record has room for.
    #[error("it cannot have {count} headers")]
    HeaderCount {
        /// The count in the bytes.
        count: i32,
    },
    /// More headers than a record may have.
    #[error("it has {count} headers, a record may have {headers_max}")]
    TooManyHeaders {
        /// The count in the bytes.
        count: i32,
        /// The most that are taken.
        headers_max: i32,
    },
    /// The fields take another number of bytes than the record's length says.
    #[error("its length is {length}, its fields take {taken}")]
    LengthMismatch {
        /// The length in the bytes.
        length: i32,
        /// Bytes from its first field to its last.
        taken: u64,
    },
    /// The offset delta is not the record's place in its batch.
    #[error("its offset delta is {offset_delta}")]
    OffsetDelta {
        /// The delta in the bytes.
        offset_delta: i32,
    },
    /// The timestamp is out of range.
    #[error("its timestamp delta {timestamp_delta} is out of range")]
    TimestampDelta {
        /// The delta in the bytes.
        timestamp_delta: i64,
    },
}
