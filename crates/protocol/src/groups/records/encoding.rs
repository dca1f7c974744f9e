//! Integers, texts and lists as Kafka writes them into the records of its groups' log, old style and compact.
//!
//! A reader checks every length against the bytes that are there before it allocates, and never reads past the end.

use bytes::{BufMut, Bytes, BytesMut};
use record::TopicId;

use crate::DecodeError;
use crate::groups::Name;

/// Collects values.
pub(crate) struct Writer {
    bytes: BytesMut,
}

impl Writer {
    /// Starts with a version, or with the type in a key.
    pub(crate) fn open(version: i16) -> Writer {
        let mut bytes = BytesMut::with_capacity(64);
        bytes.put_i16(version);
        Writer { bytes }
    }

    pub(crate) fn i8(&mut self, value: i8) {
        self.bytes.put_i8(value);
    }

    pub(crate) fn i32(&mut self, value: i32) {
        self.bytes.put_i32(value);
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.bytes.put_i64(value);
    }

    pub(crate) fn topic_id(&mut self, id: TopicId) {
        self.bytes.put_slice(&id.0);
    }

    pub(crate) fn text(&mut self, value: &str) {
        let length = i16::try_from(value.len()).expect("names are limited to less than 32 KiB");
        self.bytes.put_i16(length);
        self.bytes.put_slice(value.as_bytes());
    }

    pub(crate) fn optional_text(&mut self, value: Option<&str>) {
        match value {
            Some(value) => self.text(value),
            None => self.bytes.put_i16(-1),
        }
    }

    pub(crate) fn slice(&mut self, value: &[u8]) {
        self.count(value.len());
        self.bytes.put_slice(value);
    }

    pub(crate) fn count(&mut self, count: usize) {
        self.bytes
            .put_i32(i32::try_from(count).expect("limits are far below two billion"));
    }

    pub(crate) fn compact_text(&mut self, value: &str) {
        self.compact_slice(value.as_bytes());
    }

    pub(crate) fn compact_optional_text(&mut self, value: Option<&str>) {
        match value {
            Some(value) => self.compact_text(value),
            None => self.varint(0),
        }
    }

    pub(crate) fn compact_slice(&mut self, value: &[u8]) {
        self.compact_count(value.len());
        self.bytes.put_slice(value);
    }

    pub(crate) fn compact_count(&mut self, count: usize) {
        self.varint(u32::try_from(count + 1).expect("limits are far below two billion"));
    }

    /// No tagged fields follow.
    pub(crate) fn no_tags(&mut self) {
        self.varint(0);
    }

    /// The one tagged field, with tag 0.
    pub(crate) fn tag_0(&mut self, value: &[u8]) {
        self.varint(1);
        self.varint(0);
        self.varint(u32::try_from(value.len()).expect("a tagged field is small"));
        self.bytes.put_slice(value);
    }

    fn varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.bytes.put_u8((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.put_u8(value as u8);
    }

    pub(crate) fn close(self) -> Bytes {
        self.bytes.freeze()
    }

    /// What was written after the two bytes of the version, for a tagged field.
    pub(crate) fn close_without_version(self) -> Bytes {
        self.bytes.freeze().slice(2..)
    }
}

/// Reads values from the front of a slice.
pub(crate) struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { left: bytes }
    }

    /// Reads a version and refuses others than these.
    pub(crate) fn open(
        bytes: &'a [u8],
        format: &'static str,
        known: std::ops::RangeInclusive<i16>,
    ) -> Result<(Reader<'a>, i16), DecodeError> {
        let mut reader = Reader::new(bytes);
        let got = reader.i16(format)?;
        if known.contains(&got) {
            return Ok((reader, got));
        }
        Err(DecodeError::UnknownVersion {
            format,
            got: u8::try_from(got).unwrap_or(u8::MAX),
            known: u8::try_from(*known.end()).expect("versions are small"),
        })
    }

    fn take<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.left.split_first_chunk::<N>().ok_or(DecodeError::Truncated {
            field,
            wanted_bytes: N,
            left_bytes: self.left.len(),
        })?;
        self.left = rest;
        Ok(*head)
    }

    fn take_slice(&mut self, field: &'static str, length: usize) -> Result<&'a [u8], DecodeError> {
        if length > self.left.len() {
            return Err(DecodeError::Truncated {
                field,
                wanted_bytes: length,
                left_bytes: self.left.len(),
            });
        }
        let (head, rest) = self.left.split_at(length);
        self.left = rest;
        Ok(head)
    }

    pub(crate) fn skip(&mut self, length: usize) -> Result<(), DecodeError> {
        self.take_slice("skipped bytes", length).map(|_| ())
    }

    pub(crate) fn i8(&mut self, field: &'static str) -> Result<i8, DecodeError> {
        Ok(i8::from_be_bytes(self.take(field)?))
    }

    pub(crate) fn i16(&mut self, field: &'static str) -> Result<i16, DecodeError> {
        Ok(i16::from_be_bytes(self.take(field)?))
    }

    pub(crate) fn i32(&mut self, field: &'static str) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.take(field)?))
    }

    pub(crate) fn i64(&mut self, field: &'static str) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(self.take(field)?))
    }

    pub(crate) fn topic_id(&mut self, field: &'static str) -> Result<TopicId, DecodeError> {
        Ok(TopicId(self.take(field)?))
    }

    pub(crate) fn text(&mut self, field: &'static str) -> Result<Name, DecodeError> {
        self.optional_text(field)?
            .ok_or(DecodeError::Impossible { field })
    }

    pub(crate) fn optional_text(&mut self, field: &'static str) -> Result<Option<Name>, DecodeError> {
        let length = self.i16(field)?;
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| DecodeError::Impossible { field })?;
        let bytes = self.take_slice(field, length)?;
        text_of(field, bytes).map(Some)
    }

    pub(crate) fn slice(&mut self, field: &'static str) -> Result<Bytes, DecodeError> {
        let length = self.count(field, 1)?;
        Ok(Bytes::copy_from_slice(self.take_slice(field, length)?))
    }

    /// A count of items that take at least `item_bytes_min` each: refused when that many cannot follow.
    pub(crate) fn count(&mut self, field: &'static str, item_bytes_min: usize) -> Result<usize, DecodeError> {
        let count = usize::try_from(self.i32(field)?).map_err(|_| DecodeError::Impossible { field })?;
        self.bounded(field, count, item_bytes_min)
    }

    pub(crate) fn compact_text(&mut self, field: &'static str) -> Result<Name, DecodeError> {
        self.compact_optional_text(field)?
            .ok_or(DecodeError::Impossible { field })
    }

    pub(crate) fn compact_optional_text(&mut self, field: &'static str) -> Result<Option<Name>, DecodeError> {
        let Some(length) = self.varint(field)?.checked_sub(1) else {
            return Ok(None);
        };
        let bytes = self.take_slice(field, length as usize)?;
        text_of(field, bytes).map(Some)
    }

    pub(crate) fn compact_slice(&mut self, field: &'static str) -> Result<Bytes, DecodeError> {
        let length = self.compact_count(field, 1)?;
        Ok(Bytes::copy_from_slice(self.take_slice(field, length)?))
    }

    pub(crate) fn compact_count(
        &mut self,
        field: &'static str,
        item_bytes_min: usize,
    ) -> Result<usize, DecodeError> {
        let count = self
            .varint(field)?
            .checked_sub(1)
            .ok_or(DecodeError::Impossible { field })?;
        self.bounded(field, count as usize, item_bytes_min)
    }

    /// The tagged field 0, if it is there; other tags are passed over.
    pub(crate) fn tag_0(&mut self, field: &'static str) -> Result<Option<&'a [u8]>, DecodeError> {
        let mut found = None;
        for _ in 0..self.varint(field)? {
            let tag = self.varint(field)?;
            let length = self.varint(field)?;
            let value = self.take_slice(field, length as usize)?;
            if tag == 0 {
                found = Some(value);
            }
        }
        Ok(found)
    }

    fn bounded(
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

    fn varint(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        let mut value = 0u64;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.take::<1>(field)?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value).map_err(|_| DecodeError::Impossible { field });
            }
        }
        Err(DecodeError::Impossible { field })
    }

    /// Ends the reading: nothing may be left.
    pub(crate) fn close(self) -> Result<(), DecodeError> {
        match self.left.len() {
            0 => Ok(()),
            left_bytes => Err(DecodeError::LeftOver { left_bytes }),
        }
    }
}

fn text_of(field: &'static str, bytes: &[u8]) -> Result<Name, DecodeError> {
    std::str::from_utf8(bytes)
        .map(Name::from)
        .map_err(|_| DecodeError::NotUtf8 { field })
}
