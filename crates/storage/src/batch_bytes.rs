//! The bytes of a batch on their way into the journal: a part of something shared, which is copied there, or alone in
//! memory that can become a frame of the journal as it is.
//!
//! ```text
//! memory   | what precedes the batch in its request | batch | what follows it |
//! frame             | frame and entry header        | batch | padding     |
//!                   ^ a multiple of the block size
//! ```
//! The receiver lays a request out like that before it knows whether the batch will be taken. While parts of the request are
//! still read, the memory is shared and nothing in it changes; it becomes a frame only once nobody else refers to it. A small entry
//! may follow the batch in its frame.

use std::ops::Deref;
use std::sync::Arc;

use bytes::{BufMut, Bytes};
use platform::memory::AlignedBuffer;

use crate::journal::frame::{ENTRY_HEADER_BYTES, FRAME_HEADER_BYTES};
use crate::slab::round_up_to_block;

/// A batch stays where it was received if what else its request brought is at most this part of it. All that memory may be kept
/// for long, while caches count no more than the batch.
const KEPT_BESIDE_PART: usize = 8;
const HEADERS_BYTES: usize = FRAME_HEADER_BYTES + ENTRY_HEADER_BYTES;
/// Bytes for an entry behind the batch, however little its request brings.
const ROOM_BEHIND: usize = 512;

/// One whole batch.
pub enum BatchBytes {
    /// Part of something that others may hold as well.
    Shared(Bytes),
    /// In memory of its own, most of which it takes.
    Alone(BatchMemory),
}

impl BatchBytes {
    /// Takes the memory out, and leaves nothing.
    pub(crate) fn take_memory(&mut self) -> BatchMemory {
        match std::mem::replace(self, BatchBytes::Shared(Bytes::new())) {
            BatchBytes::Alone(memory) => memory,
            BatchBytes::Shared(_) => panic!("only a batch that is alone has memory of its own"),
        }
    }
}

impl From<Bytes> for BatchBytes {
    fn from(bytes: Bytes) -> BatchBytes {
        BatchBytes::Shared(bytes)
    }
}

impl Deref for BatchBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            BatchBytes::Shared(bytes) => bytes,
            BatchBytes::Alone(memory) => memory.batch(),
        }
    }
}

/// Memory of a request with one large batch in it.
pub struct BatchMemory {
    buffer: AlignedBuffer,
    /// Where the frame begins.
    frame_start: usize,
    /// Where the request begins and ends.
    request_start: usize,
    request_end: usize,
    /// Of the batch; zero until it is known.
    batch_bytes: usize,
    /// Of what follows it in its frame.
    behind_bytes: usize,
}

impl BatchMemory {
    /// A request of at least this size is worth such memory: smaller ones share a frame, and so a flush, with others.
    pub const REQUEST_BYTES_MIN: usize = 256 << 10;

    /// Empty memory for a request of `request_bytes`, whose batch begins at `batch_position` of it.
    pub fn for_request(batch_position: usize, request_bytes: usize) -> BatchMemory {
        let frame_start = round_up_to_block(batch_position.saturating_sub(HEADERS_BYTES));
        let request_start = frame_start + HEADERS_BYTES - batch_position;
        let request_end = request_start + request_bytes;
        let mut buffer = AlignedBuffer::with_capacity(round_up_to_block(request_end + ROOM_BEHIND));
        buffer.put_bytes(0, request_start);
        BatchMemory {
            buffer,
            frame_start,
            request_start,
            request_end,
            batch_bytes: 0,
            behind_bytes: 0,
        }
    }

    /// The size of the memory.
    pub fn bytes(&self) -> usize {
        round_up_to_block(self.request_end + ROOM_BEHIND)
    }

    /// The number of bytes of the request that are missing.
    pub fn missing(&self) -> usize {
        self.request_end - self.buffer.len()
    }

    /// Where the rest of the request goes.
    pub fn rest(&mut self) -> impl BufMut {
        let missing = self.missing();
        (&mut self.buffer).limit(missing)
    }

    /// The request, to be read; and the memory, to come back to when it has been.
    pub fn share(self) -> (Bytes, SharedMemory) {
        assert!(self.missing() == 0, "a request is read when it is there");
        let range = self.request_start..self.request_end;
        let shared = SharedMemory(Arc::new(self));
        (shared.part(range), shared)
    }

    fn batch_start(&self) -> usize {
        self.frame_start + HEADERS_BYTES
    }

    pub(crate) fn batch(&self) -> &[u8] {
        &self.buffer[self.batch_start()..][..self.batch_bytes]
    }

    pub(crate) fn batch_mut(&mut self) -> &mut [u8] {
        let start = self.batch_start();
        &mut self.buffer[start..][..self.batch_bytes]
    }

    /// Says whether so many bytes can stand behind the batch in its frame.
    pub(crate) fn has_room_behind(&self, bytes: usize) -> bool {
        self.frame_start + self.frame_bytes() + bytes <= self.bytes()
    }

    /// Puts bytes behind the batch, and behind those that were put there before. The caller has asked `has_room_behind`.
    pub(crate) fn put_behind(&mut self, bytes: &[u8]) {
        let start = self.frame_start + self.frame_bytes();
        let end = start + bytes.len();
        let lacking = end.saturating_sub(self.buffer.len());
        self.buffer.put_bytes(0, lacking);
        self.buffer[start..end].copy_from_slice(bytes);
        self.behind_bytes += bytes.len();
    }

    /// The frame, without its padding.
    pub(crate) fn frame_mut(&mut self) -> &mut [u8] {
        let bytes = self.frame_bytes();
        &mut self.buffer[self.frame_start..][..bytes]
    }

    fn frame_bytes(&self) -> usize {
        HEADERS_BYTES + self.batch_bytes + self.behind_bytes
    }

    /// The frame's length with its padding.
    pub(crate) fn padded_bytes(&self) -> usize {
        round_up_to_block(self.frame_bytes())
    }

    /// The frame with its padding, from now on shared.
    pub(crate) fn into_padded_frame(mut self) -> Bytes {
        let end = self.frame_start + self.padded_bytes();
        let unpadded_end = self.frame_start + self.frame_bytes();
        // The rest of the request behind it goes; the bytes that a whole block lacks come.
        let overwritten = self.buffer.len().min(end);
        self.buffer[unpadded_end..overwritten].fill(0);
        self.buffer.put_bytes(0, end - overwritten);
        self.buffer.into_bytes().slice(self.frame_start..end)
    }
}

/// Memory whose request is still being read.
pub struct SharedMemory(Arc<BatchMemory>);

impl SharedMemory {
    /// The batch as this memory's own, if `batch` is most of it and all that is still referred to, and lies where a frame can be.
    /// Otherwise the batch as it came.
    pub fn reclaim(self, batch: Bytes) -> BatchBytes {
        let start = self.0.batch_start();
        let in_place = self.0.buffer[start..].as_ptr() == batch.as_ptr();
        let request_bytes = self.0.request_end - self.0.request_start;
        let is_most = request_bytes - batch.len() <= batch.len() / KEPT_BESIDE_PART;
        if !in_place || !is_most {
            return batch.into();
        }
        let batch_bytes = batch.len();
        drop(batch);
        match Arc::try_unwrap(self.0) {
            Ok(memory) => BatchBytes::Alone(BatchMemory {
                batch_bytes,
                ..memory
            }),
            Err(shared) => SharedMemory(shared).part(start..start + batch_bytes).into(),
        }
    }

    fn part(&self, range: std::ops::Range<usize>) -> Bytes {
        Bytes::from_owner(Part(self.0.clone())).slice(range)
    }
}

/// Keeps shared memory alive.
struct Part(Arc<BatchMemory>);

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.0.buffer
    }
}

#[cfg(test)]
mod tests;
