//! Committed batches that one replica asks of another because its own are damaged: the wish, and the answer.
//!
//! The answer is a peer's word: whoever takes it looks at every batch before it believes one ([`super::facts_of`]). A wish must never make
//! the asked node hold more than its own bound, whatever it names.

use bytes::Bytes;
use record::{Offset, PartitionId};

use super::message::{possible, read_offset};
use super::replica::{read_partition, write_partition};
use crate::encoding::{DecodeError, Reader, Writer};

/// A wish for the batches of some offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeWish {
    /// The partition.
    pub partition: PartitionId,
    /// The sender's number for the wish, which the answer repeats.
    pub number: u64,
    /// The first offset that is wanted.
    pub first: Offset,
    /// The offset behind the last one that is wanted.
    pub next: Offset,
    /// The most bytes that are wanted at once, but for a first batch that is longer.
    pub bytes_max: u32,
}

/// The answer to a wish: whole committed batches from the one that holds the first offset on, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeAnswer {
    /// The partition.
    pub partition: PartitionId,
    /// The number of the wish.
    pub number: u64,
    /// The batches, one behind the other. Empty: the sender does not have them, or not now.
    pub batches: Bytes,
}

impl RangeWish {
    pub(super) fn write(&self, writer: &mut Writer) {
        write_partition(writer, &self.partition);
        writer.u64(self.number);
        writer.i64(self.first.0);
        writer.i64(self.next.0);
        writer.put_slice(&self.bytes_max.to_be_bytes());
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<RangeWish, DecodeError> {
        let wish = RangeWish {
            partition: read_partition(reader)?,
            number: reader.u64("number of the wish")?,
            first: read_offset(reader, "first offset")?,
            next: read_offset(reader, "next offset")?,
            bytes_max: reader.u32("most bytes")?,
        };
        possible(wish.first < wish.next, "next offset")?;
        possible(wish.bytes_max > 0, "most bytes")?;
        Ok(wish)
    }
}

impl RangeAnswer {
    /// Writes everything but the batches, which follow.
    pub(super) fn write(&self, writer: &mut Writer) {
        write_partition(writer, &self.partition);
        writer.u64(self.number);
    }

    pub(super) fn read(reader: &mut Reader<'_>, body: &Bytes) -> Result<RangeAnswer, DecodeError> {
        Ok(RangeAnswer {
            partition: read_partition(reader)?,
            number: reader.u64("number of the wish")?,
            batches: body.slice_ref(reader.take_rest()),
        })
    }
}
