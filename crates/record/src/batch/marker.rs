//! Markers: the batches of one control record that end a producer's transaction in a partition.
//!
//! A broker writes them, never a client: `examine` refuses a client's control batch. They take an offset like any record,
//! no consumer's program sees them, and readers of committed records learn from them what to leave out. Laid out as
//! Kafka's EndTxnMarker, so that Kafka's own clients read them. Source: KIP-98. A marker that aborts has a record header beside
//! that: the offset where its transaction begins here. So the log alone tells what is aborted, to a follower and to a start.
//!
//! ```text
//!  header: attributes transactional and control, producer id and epoch of the transaction, base sequence -1
//!  key:   | version (0) | type: 0 abort, 1 commit |      two bytes each
//!  value: | version (0) | coordinator epoch       |      two bytes and four
//!  header "ropewalk.first": | first offset        |      eight bytes
//! ```

use bytes::Bytes;

use super::build::BatchBuilder;
use super::compress::Limits;
use super::error::BatchError;
use super::header::{BatchHeader, Compression};
use super::records::records;
use crate::Offset;

/// The version of key and value that is written.
const VERSION: i16 = 0;
const ABORT: i16 = 0;
const COMMIT: i16 = 1;
/// A marker takes its place in no producer's sequence.
const NO_SEQUENCE: i32 = -1;
/// The record header with the first offset that a marker aborts.
const FIRST: &[u8] = b"ropewalk.first";
/// Bytes that a compressed control batch may come to; no broker is known to compress one.
const DECOMPRESSED_BYTES_MAX: u64 = 64 << 10;

/// The end of one producer's transaction in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Marker {
    /// The producer whose transaction ends.
    pub producer_id: i64,
    /// The epoch in which it ends. It may be above that of the transaction's batches: producers of an older one are
    /// fenced by it.
    pub producer_epoch: i16,
    /// True if the transaction's records count, false if readers of committed records leave them out.
    pub commit: bool,
    /// The tenure of the coordinator that decided; partitions refuse markers of an earlier one.
    pub coordinator_epoch: i32,
    /// The offset of the first record that it aborts; `None` for a commit, and where Kafka wrote it.
    pub first: Option<Offset>,
}

impl Marker {
    /// The marker as a whole batch. Its base offset is 0 and its leader epoch none until a broker sets them.
    #[must_use]
    pub fn build(&self, timestamp_ms: i64) -> Bytes {
        let kind = if self.commit { COMMIT } else { ABORT };
        let key = [VERSION.to_be_bytes(), kind.to_be_bytes()].concat();
        let value = [
            &VERSION.to_be_bytes()[..],
            &self.coordinator_epoch.to_be_bytes()[..],
        ]
        .concat();
        let mut builder = BatchBuilder::new(Compression::None).with_producer(
            self.producer_id,
            self.producer_epoch,
            NO_SEQUENCE,
        );
        builder.set_transactional(true);
        builder.set_control(true);
        let first = self.first.map(|first| first.0.to_be_bytes());
        let headers = first.as_ref().map(|first| (FIRST, Some(&first[..])));
        builder.append(timestamp_ms, Some(&key), Some(&value), headers.as_slice());
        builder.build()
    }

    /// Reads the marker that a stored batch is. `None` if it is no control batch, one of another type, or one whose
    /// record is gone. As in Kafka, a later version is read as far as this one goes. `header` is that of `batch`; the
    /// checksum is not looked at.
    ///
    /// # Errors
    /// As `records`, up to the first record; `ControlTooShort` and `ControlVersion` if that is not what brokers write.
    pub fn read(header: &BatchHeader, batch: &[u8]) -> Result<Option<Marker>, BatchError> {
        if !header.attributes.is_control() {
            return Ok(None);
        }
        let Some(record) = records(batch, &Limits::up_to(DECOMPRESSED_BYTES_MAX))?.next() else {
            return Ok(None);
        };
        let record = record?;
        let kind: [u8; 2] = behind_version(ControlPart::Key, record.key.as_deref())?;
        let commit = match i16::from_be_bytes(kind) {
            ABORT => false,
            COMMIT => true,
            _ => return Ok(None),
        };
        let epoch: [u8; 4] = behind_version(ControlPart::Value, record.value.as_deref())?;
        let first = record.headers.iter().find(|(name, _)| &name[..] == FIRST);
        let first = first.and_then(|(_, value)| value.as_deref()?.try_into().ok());
        Ok(Some(Marker {
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch,
            commit,
            coordinator_epoch: i32::from_be_bytes(epoch),
            first: first.map(|first| Offset(i64::from_be_bytes(first))),
        }))
    }
}

/// A field of a control record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlPart {
    /// Its key, which tells its type.
    Key,
    /// Its value.
    Value,
}

impl std::fmt::Display for ControlPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ControlPart::Key => "key",
            ControlPart::Value => "value",
        })
    }
}

/// The `N` bytes behind the version that a control record's key or value begins with. Null has no bytes.
fn behind_version<const N: usize>(part: ControlPart, field: Option<&[u8]>) -> Result<[u8; N], BatchError> {
    let field = field.unwrap_or_default();
    let version = field.split_first_chunk::<2>();
    let Some((version, behind)) = version.and_then(|(version, rest)| Some((version, rest.first_chunk()?)))
    else {
        return Err(BatchError::ControlTooShort {
            part,
            needed: size_of::<i16>() + N,
            given: field.len(),
        });
    };
    let version = i16::from_be_bytes(*version);
    if version < VERSION {
        return Err(BatchError::ControlVersion { part, version });
    }
    Ok(*behind)
}
