//! Reads Kafka's primitives from one frame. Every byte comes from a peer and may be hostile.
//!
//! Two rules bound what a frame can cost: a length or count is compared with what is left of the frame before
//! anything is allocated, and the arrays of one frame share one budget of memory, since a few bytes on the
//! wire can stand for a struct of hundreds.

mod numbers;

use bytes::Bytes;

use super::{RecordChunks, Text, WireError};

/// The memory that the arrays of one frame may take unless the reader is told otherwise: 64 MiB, a request
/// for about half a million partitions.
pub const DECODED_BYTES_MAX: usize = 64 << 20;

/// The longest text, in bytes. Kafka refuses longer ones in every version, also where the length is a varint.
pub const TEXT_BYTES_MAX: usize = i16::MAX as usize;

/// A frame without its size prefix, and how far it has been read.
#[derive(Debug)]
pub struct Reader {
    frame: Bytes,
    position: usize,
    /// The rest of the budget for arrays.
    memory_bytes: usize,
}

impl Reader {
    /// Starts at the first byte after the frame's size, with a budget of [`DECODED_BYTES_MAX`].
    #[must_use]
    pub fn new(frame: Bytes) -> Reader {
        Reader::with_memory_limit(frame, DECODED_BYTES_MAX)
    }

    /// Starts at the first byte after the frame's size. The elements of all arrays together may take
    /// `memory_bytes_max`.
    #[must_use]
    pub fn with_memory_limit(frame: Bytes, memory_bytes_max: usize) -> Reader {
        Reader {
            frame,
            position: 0,
            memory_bytes: memory_bytes_max,
        }
    }

    /// Bytes not read yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.frame.len() - self.position
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// [`WireError::TrailingBytes`] if the message did not fill its frame.
    pub fn finish(self) -> Result<(), WireError> {
        match self.remaining() {
            0 => Ok(()),
            remaining => Err(WireError::TrailingBytes { remaining }),
        }
    }

    #[inline]
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        match self.frame[self.position..].first_chunk::<N>() {
            Some(bytes) => {
                self.position += N;
                Ok(*bytes)
            }
            None => Err(WireError::Short {
                needed: N,
                remaining: self.remaining(),
            }),
        }
    }

    /// Checks that `length` bytes are left.
    #[inline]
    fn expect_bytes(&self, length: usize) -> Result<(), WireError> {
        if length > self.remaining() {
            return Err(WireError::Short {
                needed: length,
                remaining: self.remaining(),
            });
        }
        Ok(())
    }

    /// The next `length` bytes as a slice of the frame, without a copy.
    #[inline]
    fn slice(&mut self, length: usize) -> Result<Bytes, WireError> {
        self.expect_bytes(length)?;
        let start = self.position;
        self.position += length;
        Ok(self.frame.slice(start..self.position))
    }

    /// A compact length: the length plus one, zero for null.
    #[inline]
    fn compact_length(&mut self) -> Result<Option<usize>, WireError> {
        Ok(self
            .unsigned_varint()?
            .checked_sub(1)
            .map(|length| length as usize))
    }

    #[inline]
    fn text_length(&mut self, flexible: bool) -> Result<Option<usize>, WireError> {
        let length = if flexible {
            self.compact_length()?
        } else {
            plain_length(self.int16()?.into())?
        };
        match length {
            Some(length) if length > TEXT_BYTES_MAX => Err(WireError::TextTooLong { length }),
            length => Ok(length),
        }
    }

    /// The length of a byte field or the count of an array: both are 32 bits wide in versions that are not
    /// flexible.
    #[inline]
    pub(crate) fn long_length(&mut self, flexible: bool) -> Result<Option<usize>, WireError> {
        if flexible {
            self.compact_length()
        } else {
            plain_length(self.int32()?.into())
        }
    }

    /// A text that may be null.
    ///
    /// # Errors
    /// A bad or too long length, or bytes that are not UTF-8.
    #[inline]
    pub fn nullable_text(&mut self, flexible: bool) -> Result<Option<Text>, WireError> {
        match self.text_length(flexible)? {
            None => Ok(None),
            Some(length) => Text::from_utf8(self.slice(length)?).map(Some),
        }
    }

    /// A text.
    ///
    /// # Errors
    /// As [`Reader::nullable_text`], and [`WireError::UnexpectedNull`].
    #[inline]
    pub fn text(&mut self, flexible: bool) -> Result<Text, WireError> {
        self.nullable_text(flexible)?.ok_or(WireError::UnexpectedNull)
    }

    /// Bytes that may be null, as a slice of the frame.
    ///
    /// # Errors
    /// A bad or too long length.
    #[inline]
    pub fn nullable_bytes(&mut self, flexible: bool) -> Result<Option<Bytes>, WireError> {
        match self.long_length(flexible)? {
            None => Ok(None),
            Some(length) => self.slice(length).map(Some),
        }
    }

    /// Bytes, as a slice of the frame.
    ///
    /// # Errors
    /// As [`Reader::nullable_bytes`], and [`WireError::UnexpectedNull`].
    #[inline]
    pub fn bytes(&mut self, flexible: bool) -> Result<Bytes, WireError> {
        self.nullable_bytes(flexible)?.ok_or(WireError::UnexpectedNull)
    }

    /// The records of a fetched partition, in one chunk. Null is read as no records: brokers send either.
    ///
    /// # Errors
    /// As [`Reader::nullable_bytes`].
    #[inline]
    pub fn record_chunks(&mut self, flexible: bool) -> Result<RecordChunks, WireError> {
        Ok(self.nullable_bytes(flexible)?.unwrap_or_default().into())
    }

    /// An array that may be null. `element_bytes_min` is the fewest bytes one element takes on the wire, at
    /// least 1.
    ///
    /// # Errors
    /// A count that the rest of the frame cannot hold or the frame's memory budget does not cover,
    /// both found before anything is allocated; and what `decode` finds.
    pub fn nullable_array<T>(
        &mut self,
        flexible: bool,
        element_bytes_min: usize,
        decode: impl FnMut(&mut Reader) -> Result<T, WireError>,
    ) -> Result<Option<Vec<T>>, WireError> {
        match self.long_length(flexible)? {
            None => Ok(None),
            Some(count) => self.elements(count, element_bytes_min, decode).map(Some),
        }
    }

    /// An array.
    ///
    /// # Errors
    /// As [`Reader::nullable_array`], and [`WireError::UnexpectedNull`].
    pub fn array<T>(
        &mut self,
        flexible: bool,
        element_bytes_min: usize,
        decode: impl FnMut(&mut Reader) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        let count = self.long_length(flexible)?.ok_or(WireError::UnexpectedNull)?;
        self.elements(count, element_bytes_min, decode)
    }

    fn elements<T>(
        &mut self,
        count: usize,
        element_bytes_min: usize,
        mut decode: impl FnMut(&mut Reader) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        assert!(
            element_bytes_min > 0,
            "elements of no bytes would make any count plausible"
        );
        let remaining = self.remaining();
        if count.saturating_mul(element_bytes_min) > remaining {
            return Err(WireError::CountTooLarge {
                count,
                element_bytes_min,
                remaining,
            });
        }
        let element_bytes = size_of::<T>();
        let left_bytes = self.memory_bytes;
        self.memory_bytes = count
            .checked_mul(element_bytes)
            .and_then(|bytes| left_bytes.checked_sub(bytes))
            .ok_or(WireError::TooMany {
                count,
                element_bytes,
                left_bytes,
            })?;
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(decode(self)?);
        }
        Ok(elements)
    }

    /// A struct that may be null: one byte, 1 for present and -1 for null, goes before it (KIP-893).
    ///
    /// # Errors
    /// Another first byte, and what `decode` finds.
    pub fn nullable_struct<T>(
        &mut self,
        decode: impl FnOnce(&mut Reader) -> Result<T, WireError>,
    ) -> Result<Option<T>, WireError> {
        match self.int8()? {
            -1 => Ok(None),
            1 => decode(self).map(Some),
            marker => Err(WireError::NullMarker { marker }),
        }
    }

    /// The tagged fields that end every struct of a flexible version (KIP-482). `known` reads the field of
    /// the tag it is given and says whether it knew it; unknown ones are skipped, since newer peers may add
    /// them at any time.
    ///
    /// # Errors
    /// A field that does not fill exactly its announced size, and what `known` finds.
    #[inline]
    pub fn tagged_fields(
        &mut self,
        mut known: impl FnMut(&mut Reader, u32) -> Result<bool, WireError>,
    ) -> Result<(), WireError> {
        // No allocation hangs on this count, and every turn takes at least two bytes of the frame.
        for _ in 0..self.unsigned_varint()? {
            let tag = self.unsigned_varint()?;
            let announced = self.unsigned_varint()? as usize;
            self.expect_bytes(announced)?;
            let start = self.position;
            if !known(self, tag)? {
                self.position = start + announced;
            }
            let taken = self.position - start;
            if taken != announced {
                return Err(WireError::TagSize {
                    tag,
                    announced,
                    taken,
                });
            }
        }
        Ok(())
    }

    /// Tagged fields of which none is known.
    ///
    /// # Errors
    /// As [`Reader::tagged_fields`].
    #[inline]
    pub fn skip_tagged_fields(&mut self) -> Result<(), WireError> {
        self.tagged_fields(|_, _| Ok(false))
    }
}

/// A length as versions that are not flexible write it: -1 is null, anything lower an error.
#[inline]
fn plain_length(length: i64) -> Result<Option<usize>, WireError> {
    match length {
        -1 => Ok(None),
        length => usize::try_from(length)
            .map(Some)
            .map_err(|_| WireError::NegativeLength { length }),
    }
}
