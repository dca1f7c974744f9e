//! Writes Kafka's primitives into one frame. Small values are copied into one buffer; large byte fields only
//! leave a mark of where they belong, so that records go from the cache to the socket without a copy:
//!
//! ```text
//!   small:  [size|header|topic, partition ...|next partition ...]
//!   large:                                   ^ 64 KiB of records
//!   frame:  chunk 0 ─────────────────────────┤ chunk 1 ┤ chunk 2
//! ```

use bytes::{BufMut, Bytes, BytesMut};

use super::{ErrorSet, Float64, RecordChunks, TEXT_BYTES_MAX, Text};

/// Byte fields from this size on become chunks of their own; below, a copy costs less than one more slice.
pub const LARGE_BYTES_MIN: usize = 1024;

/// The size prefix of a frame.
const PREFIX_BYTES: usize = 4;

/// Bytes that a writer's buffer grows by. Most responses fit many times into one such allocation.
const BUFFER_BYTES: usize = 8 * 1024;

/// One message ready for the socket: the size prefix first, then header and body.
#[derive(Debug, Clone, Default)]
pub struct Frame {
    /// The bytes in order, ready for a vectored write. None of them is empty.
    pub chunks: Vec<Bytes>,
    /// The sum of the chunks, prefix included.
    pub total_bytes: usize,
    /// The errors that the message tells.
    pub errors: ErrorSet,
}

impl Frame {
    /// The frame in one piece: for tests and tools, since it copies if there is more than one chunk.
    #[must_use]
    pub fn joined(&self) -> Bytes {
        match self.chunks.as_slice() {
            [only] => only.clone(),
            several => Bytes::from(several.concat()),
        }
    }
}

/// Bytes that the buffer does not hold.
#[derive(Debug)]
struct Large {
    /// Where in the buffer they belong.
    position: usize,
    bytes: Bytes,
}

/// Collects frames, one after the other. Reuse one per connection: frames share its allocations.
#[derive(Debug)]
pub struct Writer {
    small: BytesMut,
    large: Vec<Large>,
    large_bytes: usize,
    errors: ErrorSet,
}

impl Default for Writer {
    fn default() -> Writer {
        Writer::new()
    }
}

impl Writer {
    /// A writer at the start of a frame.
    #[must_use]
    pub fn new() -> Writer {
        let mut writer = Writer {
            small: BytesMut::new(),
            large: Vec::new(),
            large_bytes: 0,
            errors: ErrorSet::default(),
        };
        writer.start_frame();
        writer
    }

    fn start_frame(&mut self) {
        self.large_bytes = 0;
        if self.small.capacity() < BUFFER_BYTES / 8 {
            self.small.reserve(BUFFER_BYTES);
        }
        self.small.put_bytes(0, PREFIX_BYTES);
    }

    /// Bytes of the frame so far, prefix included.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.small.len() + self.large_bytes
    }

    /// Ends the frame: patches its size in and hands out its chunks. The writer is then at the start of the
    /// next one.
    ///
    /// # Panics
    /// If the frame exceeds 2 GiB, which no caller's limits allow.
    #[must_use]
    pub fn finish_frame(&mut self) -> Frame {
        let total_bytes = self.total_bytes();
        let size = i32::try_from(total_bytes - PREFIX_BYTES)
            .expect("limits on reads and requests keep frames below 2 GiB");
        self.small[..PREFIX_BYTES].copy_from_slice(&size.to_be_bytes());
        let mut small = self.small.split().freeze();
        let mut chunks = Vec::with_capacity(2 * self.large.len() + 1);
        let mut start = 0;
        for Large { position, bytes } in self.large.drain(..) {
            if position > start {
                chunks.push(small.split_to(position - start));
                start = position;
            }
            chunks.push(bytes);
        }
        if !small.is_empty() {
            chunks.push(small);
        }
        self.start_frame();
        Frame {
            chunks,
            total_bytes,
            errors: std::mem::take(&mut self.errors),
        }
    }

    /// One byte, signed.
    #[inline]
    pub fn int8(&mut self, value: i8) {
        self.small.put_i8(value);
    }

    /// Two bytes, big-endian, signed.
    #[inline]
    pub fn int16(&mut self, value: i16) {
        self.small.put_i16(value);
    }

    /// The number of an error; zero tells of none.
    #[inline]
    pub fn error_code(&mut self, code: i16) {
        if code != 0 {
            self.errors.insert(code);
        }
        self.int16(code);
    }

    /// Two bytes, big-endian, unsigned.
    #[inline]
    pub fn uint16(&mut self, value: u16) {
        self.small.put_u16(value);
    }

    /// Four bytes, big-endian, signed.
    #[inline]
    pub fn int32(&mut self, value: i32) {
        self.small.put_i32(value);
    }

    /// Eight bytes, big-endian, signed.
    #[inline]
    pub fn int64(&mut self, value: i64) {
        self.small.put_i64(value);
    }

    /// Eight bytes, big-endian: a number of double precision.
    #[inline]
    pub fn float64(&mut self, value: Float64) {
        self.small.put_u64(value.bits());
    }

    /// One byte, 1 or 0.
    #[inline]
    pub fn boolean(&mut self, value: bool) {
        self.small.put_u8(value.into());
    }

    /// Sixteen bytes.
    #[inline]
    pub fn uuid(&mut self, value: [u8; 16]) {
        self.small.put_slice(&value);
    }

    /// Seven bits per byte, the lowest first (KIP-482).
    #[inline]
    pub fn unsigned_varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.small.put_u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.small.put_u8(value as u8);
    }

    /// A compact length: the length plus one, zero for null.
    #[inline]
    fn compact_length(&mut self, length: Option<usize>) {
        let length = length.map_or(0, |length| {
            u32::try_from(length + 1).expect("a field is below 2 GiB, as its frame is")
        });
        self.unsigned_varint(length);
    }

    /// The length of a byte field or the count of an array.
    #[inline]
    fn long_length(&mut self, length: Option<usize>, flexible: bool) {
        if flexible {
            self.compact_length(length);
        } else {
            self.int32(length.map_or(-1, |length| {
                i32::try_from(length).expect("a field is below 2 GiB, as its frame is")
            }));
        }
    }

    /// A text, or null. What exceeds [`TEXT_BYTES_MAX`] is cut off: no peer accepts more, and only
    /// explanations of errors could ever get there.
    #[inline]
    pub fn nullable_text(&mut self, text: Option<&Text>, flexible: bool) {
        let bytes = text.map(|text| &text.as_bytes()[..shortened_length(text)]);
        let length = bytes.map(<[u8]>::len);
        if flexible {
            self.compact_length(length);
        } else {
            self.int16(length.map_or(-1, |length| {
                i16::try_from(length).expect("texts are cut to TEXT_BYTES_MAX")
            }));
        }
        self.small.put_slice(bytes.unwrap_or_default());
    }

    /// A text; see [`Writer::nullable_text`] for its limit.
    #[inline]
    pub fn text(&mut self, text: &Text, flexible: bool) {
        self.nullable_text(Some(text), flexible);
    }

    /// Bytes, or null. Large ones are not copied.
    #[inline]
    pub fn nullable_bytes(&mut self, bytes: Option<&Bytes>, flexible: bool) {
        self.long_length(bytes.map(Bytes::len), flexible);
        if let Some(bytes) = bytes {
            self.chunk(bytes);
        }
    }

    /// Bytes. Large ones are not copied.
    #[inline]
    pub fn bytes(&mut self, bytes: &Bytes, flexible: bool) {
        self.nullable_bytes(Some(bytes), flexible);
    }

    /// The records of a fetched partition: their length, then every chunk. Never null, which some clients do
    /// not expect.
    pub fn record_chunks(&mut self, records: &RecordChunks, flexible: bool) {
        self.long_length(Some(records.total_bytes()), flexible);
        for chunk in &records.chunks {
            self.chunk(chunk);
        }
    }

    /// Copies `bytes` if they are small, else marks where they go.
    fn chunk(&mut self, bytes: &Bytes) {
        if bytes.len() < LARGE_BYTES_MIN {
            self.small.put_slice(bytes);
        } else {
            self.large_bytes += bytes.len();
            self.large.push(Large {
                position: self.small.len(),
                bytes: bytes.clone(),
            });
        }
    }

    /// An array, or null: the count, then every element by `encode`.
    #[inline]
    pub fn nullable_array<T>(
        &mut self,
        elements: Option<&[T]>,
        flexible: bool,
        encode: impl FnMut(&mut Writer, &T),
    ) {
        match elements {
            None => self.long_length(None, flexible),
            Some(elements) => self.array(elements, flexible, encode),
        }
    }

    /// An array: the count, then every element by `encode`.
    #[inline]
    pub fn array<T>(&mut self, elements: &[T], flexible: bool, mut encode: impl FnMut(&mut Writer, &T)) {
        self.long_length(Some(elements.len()), flexible);
        for element in elements {
            encode(self, element);
        }
    }

    /// A struct that may be null: one byte, 1 for present and -1 for null, goes before it (KIP-893).
    #[inline]
    pub fn nullable_struct<T>(&mut self, value: Option<&T>, encode: impl FnOnce(&mut Writer, &T)) {
        match value {
            None => self.int8(-1),
            Some(value) => {
                self.int8(1);
                encode(self, value);
            }
        }
    }

    /// One tagged field (KIP-482): its tag, its size and what `encode` writes. Tags go in ascending order,
    /// after their number.
    pub fn tagged_field(&mut self, tag: u32, encode: impl FnOnce(&mut Writer)) {
        self.unsigned_varint(tag);
        let (start, large_start, start_bytes) = (self.small.len(), self.large.len(), self.total_bytes());
        encode(self);
        let size =
            u32::try_from(self.total_bytes() - start_bytes).expect("a field is below 2 GiB, as its frame is");
        // The size stands before the value but is known only after it: write it behind, then rotate it to the
        // front.
        let value_end = self.small.len();
        self.unsigned_varint(size);
        let size_bytes = self.small.len() - value_end;
        self.small[start..].rotate_right(size_bytes);
        for large in &mut self.large[large_start..] {
            large.position += size_bytes;
        }
    }
}

/// Where `text` is cut so that it fits [`TEXT_BYTES_MAX`] and stays UTF-8.
#[inline]
fn shortened_length(text: &Text) -> usize {
    let mut length = text.as_bytes().len();
    if length > TEXT_BYTES_MAX {
        length = TEXT_BYTES_MAX;
        // At most three bytes: a character has no more than four.
        while !text.is_char_boundary(length) {
            length -= 1;
        }
    }
    length
}
