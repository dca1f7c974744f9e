//! Memory whose address is a multiple of a disk block, as O_DIRECT demands of every buffer it is given.
//!
//! A durable write is assembled in an `AlignedBuffer`; a read lands in one and is handed on as `Bytes` without a
//! copy. The memory is always initialised: it starts as zeros.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use bytes::Bytes;

use crate::disk::BLOCK_BYTES;

/// A fixed-length run of bytes that starts at a multiple of `BLOCK_BYTES`.
pub struct AlignedBuffer {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the buffer owns its memory alone, as a Box<[u8]> does; the pointer is never shared or aliased.
unsafe impl Send for AlignedBuffer {}
// SAFETY: through a shared reference the bytes can only be read.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// A buffer of `length` bytes, all zero. Any length is allowed; writes to a file want a multiple of `BLOCK_BYTES`.
    pub fn zeroed(length: usize) -> AlignedBuffer {
        if length == 0 {
            return AlignedBuffer {
                start: NonNull::dangling(),
                length,
            };
        }
        let layout = layout_of(length);
        // SAFETY: the layout's size is not zero, which is all that alloc_zeroed asks.
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start) {
            Some(start) => AlignedBuffer { start, length },
            None => handle_alloc_error(layout),
        }
    }

    /// The smallest buffer of whole blocks that holds `bytes`; the rest is zero.
    pub fn padded_from(bytes: &[u8]) -> AlignedBuffer {
        let mut buffer = AlignedBuffer::zeroed(bytes.len().next_multiple_of(BLOCK_BYTES));
        buffer[..bytes.len()].copy_from_slice(bytes);
        buffer
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// True if the length is zero.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `start` is valid for `length` initialised bytes (dangling but non-null for none), and lives as long as self.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    /// The bytes, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`; the unique borrow of self is the unique borrow of the memory.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }

    /// Shares the buffer without copying; it is freed with the last slice of it.
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

/// The layout of a buffer that is not empty.
fn layout_of(length: usize) -> Layout {
    Layout::from_size_align(length, BLOCK_BYTES)
        .expect("a block is a power of two and no buffer nears isize::MAX")
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: allocated by `zeroed` with this very layout, and freed only here.
            unsafe { dealloc(self.start.as_ptr(), layout_of(self.length)) }
        }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.as_mut_slice()
    }
}

impl AsRef<[u8]> for AlignedBuffer {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl std::fmt::Debug for AlignedBuffer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "AlignedBuffer({} bytes)", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_aligned_and_zero_at_any_length() {
        for length in [0, 1, 511, BLOCK_BYTES, BLOCK_BYTES + 1, 1 << 20] {
            let buffer = AlignedBuffer::zeroed(length);
            assert_eq!(buffer.len(), length);
            assert!(buffer.iter().all(|byte| *byte == 0));
            assert!((buffer.as_ptr() as usize).is_multiple_of(BLOCK_BYTES) || length == 0);
        }
    }

    #[test]
    fn becomes_bytes_without_a_copy() {
        let mut buffer = AlignedBuffer::padded_from(b"rope");
        buffer[4] = b's';
        let address = buffer.as_ptr();
        let bytes = buffer.into_bytes();
        assert_eq!(
            (bytes.as_ptr(), bytes.len(), &bytes[..6]),
            (address, BLOCK_BYTES, &b"ropes\0"[..])
        );
        let tail = bytes.slice(2..5);
        drop(bytes);
        assert_eq!(&tail[..], b"pes");
    }
}
