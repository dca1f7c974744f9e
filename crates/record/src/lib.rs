//! The words of the log as types, and Kafka's record batch v2 as bytes.
//!
//! Everything above shares these; nothing here does I/O, looks at a clock or allocates by what a peer claims.

pub mod batch;
mod identity;
mod partitioner;
mod varint;

pub use batch::{
    Attributes, BATCH_OVERHEAD_BYTES, BatchBuilder, BatchError, BatchHeader, Batches, Compression, Examined,
    LOG_OVERHEAD_BYTES, Limits, Record, RecordFault, Records, TimestampType, batches, checksum,
    checksum_holds, examine, find_timestamp, records, set_base_offset, set_leader_epoch, set_log_append_time,
    set_max_timestamp, validate,
};
pub use identity::{ClusterId, Epoch, Offset, PartitionId, Position, TopicId};
pub use partitioner::partition_of;
