//! State as bytes: big-endian integers, lengths before contents.
//!
//! Shared by everything in this crate that is stored (commands, snapshots; the forms that Kafka has for
//! the records of groups stand on it too). A reader checks every length against the bytes that are really
//! there before it allocates, and never reads past the end.

use bytes::{BufMut, Bytes, BytesMut};
use thiserror::Error;

/// Why stored bytes could not be read back. None of these is worth a retry: the bytes are corrupt, or
/// they come from a newer version of this program.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The bytes end inside a value.
    #[error("the bytes end inside {field}: {wanted_bytes} wanted, {left_bytes} left")]
    Truncated {
        /// The value that was being read.
        field: &'static str,
        /// Bytes that the value needs at least.
        wanted_bytes: usize,
        /// Bytes that are left.
        left_bytes: usize,
    },
    /// Written by a version of the format that this program does not know.
    #[error("format version {got} of {format} is not read, the newest known is {known}")]
    UnknownVersion {
        /// The format.
        format: &'static str,
        /// The version found.
        got: u8,
        /// The newest version that can be read.
        known: u8,
    },
    /// Written where nodes know more than this program.
    #[error(
        "the cluster has feature level {got}, and this program knows levels up to {known}: start the node with a release that \
         knows it"
    )]
    UnknownLevel {
        /// The cluster's level.
        got: u16,
        /// The newest level that the program knows.
        known: u16,
    },
    /// A number that stands for one of several things stands for none.
    #[error("{value} is not a known {field}")]
    UnknownKind {
        /// The value that was being read.
        field: &'static str,
        /// The number found.
        value: u8,
    },
    /// A value is there but cannot be right.
    #[error("{field} does not hold a possible value")]
    Impossible {
        /// The value that was being read.
        field: &'static str,
    },
    /// A text is not UTF-8.
    #[error("{field} is not UTF-8")]
    NotUtf8 {
        /// The value that was being read.
        field: &'static str,
    },
    /// Everything was read and bytes are left over.
    #[error("{left_bytes} bytes are left over")]
    LeftOver {
        /// The number.
        left_bytes: usize,
    },
}

/// Reads values from the front of a slice.
pub(crate) struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { left: bytes }
    }

    /// Starts a format that opens with one version byte; refuses versions above `known` and below 1.
    pub(crate) fn open(bytes: &'a [u8], format: &'static str, known: u8) -> Result<Reader<'a>, DecodeError> {
        let mut reader = Reader::new(bytes);
        let got = reader.u8(format)?;
        if got == 0 || got > known {
            return Err(DecodeError::UnknownVersion { format, got, known });
        }
        Ok(reader)
    }

    /// The same where no version but `known` is read.
    pub(crate) fn open_only(
        bytes: &'a [u8],
        format: &'static str,
        known: u8,
    ) -> Result<Reader<'a>, DecodeError> {
        let reader = Reader::open(bytes, format, known)?;
        match bytes[0] {
            got if got < known => Err(DecodeError::UnknownVersion { format, got, known }),
            _ => Ok(reader),
        }
    }

    fn take<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let head = self.take_slice(field, N)?;
        Ok(head.try_into().expect("as many bytes as were asked for"))
    }

    pub(crate) fn take_slice(&mut self, field: &'static str, length: usize) -> Result<&'a [u8], DecodeError> {
        let length = self.bounded(field, length, 1)?;
        let (head, rest) = self.left.split_at(length);
        self.left = rest;
        Ok(head)
    }

    /// `count`, unless so many items of at least `item_bytes_min` each cannot follow: whoever asked may
    /// then reserve room for them.
    pub(crate) fn bounded(
        &self,
        field: &'static str,
        count: usize,
        item_bytes_min: usize,
    ) -> Result<usize, DecodeError> {
        let wanted_bytes = count.saturating_mul(item_bytes_min);
        if wanted_bytes > self.left.len() {
            return Err(DecodeError::Truncated {
                field,
                wanted_bytes,
                left_bytes: self.left.len(),
            });
        }
        Ok(count)
    }

    pub(crate) fn i8(&mut self, field: &'static str) -> Result<i8, DecodeError> {
        Ok(i8::from_be_bytes(self.take(field)?))
    }

    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        Ok(u8::from_be_bytes(self.take(field)?))
    }

    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.take(field)?))
    }

    pub(crate) fn i16(&mut self, field: &'static str) -> Result<i16, DecodeError> {
        Ok(i16::from_be_bytes(self.take(field)?))
    }

    pub(crate) fn i32(&mut self, field: &'static str) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.take(field)?))
    }

    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.take(field)?))
    }

    pub(crate) fn i64(&mut self, field: &'static str) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(self.take(field)?))
    }

    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        Ok(u64::from_be_bytes(self.take(field)?))
    }

    pub(crate) fn bytes_16(&mut self, field: &'static str) -> Result<[u8; 16], DecodeError> {
        self.take(field)
    }

    /// A count of items that take at least `item_bytes_min` each: refused when that many cannot follow.
    pub(crate) fn count(&mut self, field: &'static str, item_bytes_min: usize) -> Result<usize, DecodeError> {
        let count = self.u32(field)? as usize;
        self.bounded(field, count, item_bytes_min)
    }

    pub(crate) fn slice(&mut self, field: &'static str) -> Result<&'a [u8], DecodeError> {
        let length = self.count(field, 1)?;
        self.take_slice(field, length)
    }

    pub(crate) fn text(&mut self, field: &'static str) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.slice(field)?).map_err(|_| DecodeError::NotUtf8 { field })
    }

    /// Everything that is left.
    pub(crate) fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.left)
    }

    /// Ends the reading: nothing may be left.
    pub(crate) fn close(self) -> Result<(), DecodeError> {
        if self.left.is_empty() {
            Ok(())
        } else {
            Err(DecodeError::LeftOver {
                left_bytes: self.left.len(),
            })
        }
    }
}

/// Collects values; the counterpart of [`Reader`].
pub(crate) struct Writer {
    bytes: BytesMut,
}

impl Writer {
    pub(crate) fn new() -> Writer {
        Writer {
            bytes: BytesMut::with_capacity(64),
        }
    }

    /// Has room for so many bytes without growing.
    pub(crate) fn with_capacity(bytes: usize) -> Writer {
        Writer {
            bytes: BytesMut::with_capacity(bytes),
        }
    }

    pub(crate) fn open(version: u8) -> Writer {
        let mut bytes = Writer::new();
        bytes.u8(version);
        bytes
    }

    pub(crate) fn i8(&mut self, value: i8) {
        self.bytes.put_i8(value);
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.put_u8(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes.put_u16(value);
    }

    pub(crate) fn i16(&mut self, value: i16) {
        self.bytes.put_i16(value);
    }

    pub(crate) fn i32(&mut self, value: i32) {
        self.bytes.put_i32(value);
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.bytes.put_i64(value);
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.put_u64(value);
    }

    pub(crate) fn bytes_16(&mut self, value: [u8; 16]) {
        self.put_slice(&value);
    }

    /// The bytes alone, without their length.
    pub(crate) fn put_slice(&mut self, value: &[u8]) {
        self.bytes.put_slice(value);
    }

    pub(crate) fn count(&mut self, count: usize) {
        self.bytes
            .put_u32(u32::try_from(count).expect("nothing in memory has four billion items"));
    }

    pub(crate) fn slice(&mut self, value: &[u8]) {
        self.count(value.len());
        self.put_slice(value);
    }

    pub(crate) fn text(&mut self, value: &str) {
        self.slice(value.as_bytes());
    }

    /// Gives the bytes, to be completed.
    pub(crate) fn into_bytes(self) -> BytesMut {
        self.bytes
    }

    /// Returns the bytes written so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn close(self) -> Bytes {
        self.bytes.freeze()
    }
}
