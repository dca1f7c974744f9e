//! The words of the log as types, and Kafka's record batch v2 as bytes.
//!
//! Everything above shares these; nothing here does I/O, looks at a clock or allocates by what a peer claims.

pub mod base64;
pub mod batch;
mod identity;
mod isolation;
mod partitioner;
mod time;
mod varint;

pub use batch::{
    Attributes, BATCH_OVERHEAD_BYTES, BatchBuilder, BatchError, BatchHeader, Batches, Compression,
    ControlPart, Examined, HEADERS_MAX, KeyDigest, KeyedRecord, LOG_OVERHEAD_BYTES, Limits, Logged, Marker,
    Packing, Place, RECORD_OVERHEAD_BYTES_MAX, RecompressError, Record, RecordFault, RecordSteps, Records,
    Retained, STORED_HEADERS_MAX, Step, TimestampType, batches, checksum, checksum_holds, emptied, examine,
    find_timestamp, placeholder, recompress, records, retain, set_base_offset, set_leader_epoch,
    set_log_append_time, set_max_timestamp, set_producer_id, validate, visit_digests, visit_keys,
};
pub use identity::{ClusterId, DirectoryId, Epoch, Offset, PartitionId, Position, TopicId};
pub use isolation::CommittedBatches;
pub use partitioner::partition_of;
pub use time::whole_ms;
