//! Kafka's record batch v2 (magic 2): the unit on the wire, in memory, on disk and between nodes.
//!
//! A batch is never decoded to be stored: it is checked (`examine`), numbered in place (`patch`) and passed on byte for
//! byte. Its greatest timestamp, and with it the checksum, changes only if the topic wants log-append time or the header
//! lies. Source: Kafka's documentation of the message format. Formats 0 and 1 are refused by name.
//!
//! ```text
//!  0        8      12      16    17   21     23      27        35       43       51      53      57     61
//!  | base   |length| leader|magic|crc |attri-|last   |base     |max     |producer|producer|base  |record|records…
//!  | offset |      | epoch | (2) |    |butes |offset |timestamp|time-   |id      |epoch   |sequ- |count |
//!  |        |      |       |     |    |      |delta  |         |stamp   |        |        |ence  |      |
//!  length counts from 12 on; crc covers from 21 on, so base offset and leader epoch may change without it.
//! ```

mod build;
mod compress;
mod error;
mod glance;
mod header;
mod logged;
mod marker;
mod patch;
mod recompress;
mod records;
mod resum;
mod retain;
mod snappy;
mod source;
mod split;
mod steps;
mod validate;
mod walk;

#[cfg(test)]
mod tests;

pub use build::{BatchBuilder, RECORD_OVERHEAD_BYTES_MAX};
pub use compress::{Limits, Packing};
pub use error::{BatchError, RecordFault};
pub use header::{
    Attributes, BATCH_OVERHEAD_BYTES, BatchHeader, Compression, LOG_OVERHEAD_BYTES, TimestampType, checksum,
    checksum_holds,
};
pub use logged::Logged;
pub use marker::{ControlPart, Marker};
pub use patch::{set_base_offset, set_leader_epoch, set_log_append_time, set_max_timestamp, set_producer_id};
pub use recompress::{RecompressError, recompress};
pub use records::{Record, Records, find_timestamp, records};
pub use retain::{
    KeyDigest, KeyedRecord, Place, Retained, emptied, placeholder, retain, visit_digests, visit_keys,
};
pub use split::{Batches, batches};
pub use steps::{RecordSteps, Step};
pub use validate::{Examined, examine, validate};
pub use walk::{HEADERS_MAX, STORED_HEADERS_MAX};
