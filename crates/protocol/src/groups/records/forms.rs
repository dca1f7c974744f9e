//! Texts and lists as Kafka writes them into the records of its groups' log, old style and compact.
//!
//! These are forms of the one [`Reader`] and [`Writer`] of this crate, which check every length before
//! anything is allocated. Kafka's lists and byte strings of the old style are `count` and `slice` there.

use bytes::Bytes;
use record::TopicId;

use crate::DecodeError;
use crate::encoding::{Reader, Writer};
use crate::groups::Name;

impl Writer {
    /// Starts a record's value with its version, or its key with the type.
    pub(crate) fn open_record(version: i16) -> Writer {
        let mut bytes = Writer::new();
        bytes.i16(version);
        bytes
    }

    pub(crate) fn topic_id(&mut self, id: TopicId) {
        self.bytes_16(id.0);
    }

    pub(crate) fn short_text(&mut self, value: &str) {
        self.i16(i16::try_from(value.len()).expect("names are limited to less than 32 KiB"));
        self.put_slice(value.as_bytes());
    }

    pub(crate) fn optional_short_text(&mut self, value: Option<&str>) {
        match value {
            Some(value) => self.short_text(value),
            None => self.i16(-1),
        }
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
        self.put_slice(value);
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
        self.tagged(0, value);
    }

    /// One of the tagged fields whose number was written before. Their tags ascend.
    pub(crate) fn tagged(&mut self, tag: u32, value: &[u8]) {
        self.varint(tag);
        self.varint(u32::try_from(value.len()).expect("a tagged field is small"));
        self.put_slice(value);
    }

    pub(crate) fn varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.u8((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.u8(value as u8);
    }
}

impl<'a> Reader<'a> {
    /// Reads a record's version and refuses others than these.
    pub(crate) fn open_record(
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

    pub(crate) fn topic_id(&mut self, field: &'static str) -> Result<TopicId, DecodeError> {
        Ok(TopicId(self.bytes_16(field)?))
    }

    pub(crate) fn short_text(&mut self, field: &'static str) -> Result<Name, DecodeError> {
        self.optional_short_text(field)?
            .ok_or(DecodeError::Impossible { field })
    }

    pub(crate) fn optional_short_text(&mut self, field: &'static str) -> Result<Option<Name>, DecodeError> {
        let length = self.i16(field)?;
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| DecodeError::Impossible { field })?;
        name_of(field, self.take_slice(field, length)?).map(Some)
    }

    pub(crate) fn compact_text(&mut self, field: &'static str) -> Result<Name, DecodeError> {
        self.compact_optional_text(field)?
            .ok_or(DecodeError::Impossible { field })
    }

    pub(crate) fn compact_optional_text(&mut self, field: &'static str) -> Result<Option<Name>, DecodeError> {
        let Some(length) = self.varint(field)?.checked_sub(1) else {
            return Ok(None);
        };
        name_of(field, self.take_slice(field, length as usize)?).map(Some)
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
        self.tags(field, [0]).map(|[found]| found)
    }

    /// The tagged fields that are wanted, as far as they are there; other tags are passed over.
    pub(crate) fn tags<const N: usize>(
        &mut self,
        field: &'static str,
        wanted: [u32; N],
    ) -> Result<[Option<&'a [u8]>; N], DecodeError> {
        let mut found = [None; N];
        for _ in 0..self.varint(field)? {
            let tag = self.varint(field)?;
            let length = self.varint(field)?;
            let value = self.take_slice(field, length as usize)?;
            if let Some(place) = wanted.iter().position(|wanted| *wanted == tag) {
                found[place] = Some(value);
            }
        }
        Ok(found)
    }

    fn varint(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        let mut value = 0u64;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.u8(field)?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value).map_err(|_| DecodeError::Impossible { field });
            }
        }
        Err(DecodeError::Impossible { field })
    }
}

pub(super) fn name_of(field: &'static str, bytes: &[u8]) -> Result<Name, DecodeError> {
    std::str::from_utf8(bytes)
        .map(Name::from)
        .map_err(|_| DecodeError::NotUtf8 { field })
}
