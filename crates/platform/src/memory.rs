//! Memory whose address is a multiple of a disk block, as O_DIRECT demands of every buffer it is given.
//!
//! A durable write is assembled in an `AlignedBuffer`; a read lands in one and is handed on as `Bytes` without a
//! copy. Memory that nobody has written to is never shown: a buffer begins as zeros, or empty with room to read into.
//! Large ones are on huge pages (`runs`). `MemoryPool` lends out buffers that are filled and shared piece by piece, and takes their memory back for the next.
//! `BufMut` is implemented so that a socket can be read into a buffer where its bytes are to stay.
//! `prefetch` is for reading here and there.

mod pool;
mod prefetch;
mod runs;

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use bytes::buf::UninitSlice;
use bytes::{BufMut, Bytes};

use crate::disk::BLOCK_BYTES;

pub use pool::{CutBuffer, MemoryPool};
pub use prefetch::prefetch;
use runs::Run;

/// The pages of a large buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// Small ones: for what is filled little by little, where nobody should wait for a huge page.
    Small,
    /// Huge ones, if the buffer is large: for what goes to the disk in large pieces.
    Huge,
}

/// A fixed-length run of bytes that starts at a multiple of `BLOCK_BYTES`.
pub struct AlignedBuffer {
    start: NonNull<u8>,
    /// Bytes that have been written to.
    length: usize,
    /// Bytes allocated.
    capacity: usize,
    /// The run that the memory is of, if it is not the allocator's.
    run: Option<Run>,
}

// SAFETY: the buffer owns its memory alone, as a Box<[u8]> does; the pointer is never shared or aliased.
unsafe impl Send for AlignedBuffer {}
// SAFETY: through a shared reference the bytes can only be read.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// A buffer of `length` bytes, all zero. Any length is allowed; writes to a file want a multiple of `BLOCK_BYTES`.
    pub fn zeroed(length: usize) -> AlignedBuffer {
        // SAFETY: called with a layout whose size is not zero, which is all that alloc_zeroed asks.
        let mut buffer = AlignedBuffer::allocate(length, |layout| unsafe { alloc_zeroed(layout) });
        buffer.length = length;
        buffer
    }

    /// An empty buffer with room for `capacity` bytes, to be filled from its front; on huge pages, if it is large. Zeroing what a read
    /// overwrites would cost as much as the copy that is saved.
    pub fn with_capacity(capacity: usize) -> AlignedBuffer {
        AlignedBuffer::on(Pages::Huge, capacity)
    }

    /// The same, on these pages.
    pub fn on(pages: Pages, capacity: usize) -> AlignedBuffer {
        if pages == Pages::Huge
            && let Some(run) = Run::of(capacity)
        {
            return AlignedBuffer {
                start: run.start(),
                length: 0,
                capacity,
                run: Some(run),
            };
        }
        // SAFETY: called with a layout whose size is not zero, which is all that alloc asks.
        AlignedBuffer::allocate(capacity, |layout| unsafe { alloc(layout) })
    }

    fn allocate(capacity: usize, allocate: impl FnOnce(Layout) -> *mut u8) -> AlignedBuffer {
        if capacity == 0 {
            return AlignedBuffer {
                start: NonNull::dangling(),
                length: 0,
                capacity,
                run: None,
            };
        }
        let layout = layout_of(capacity);
        match NonNull::new(allocate(layout)) {
            Some(start) => AlignedBuffer {
                start,
                length: 0,
                capacity,
                run: None,
            },
            None => handle_alloc_error(layout),
        }
    }

    /// Lets `read` fill some of the rest from its front, and takes over what it says it has initialised (as `rustix`'s
    /// reads into uninitialised memory do). Returns how much that was.
    pub(crate) fn read_into_rest<E>(
        &mut self,
        read: impl for<'a> FnOnce(
            &'a mut [MaybeUninit<u8>],
        ) -> Result<(&'a mut [u8], &'a mut [MaybeUninit<u8>]), E>,
    ) -> Result<usize, E> {
        // SAFETY: the rest of the allocation (dangling but of no length if there is none), borrowed through nothing else;
        // MaybeUninit asks for no content.
        let rest = unsafe {
            let start = self.start.as_ptr().add(self.length).cast::<MaybeUninit<u8>>();
            std::slice::from_raw_parts_mut(start, self.capacity - self.length)
        };
        let rest_start = rest.as_ptr().cast::<u8>();
        let (filled, _) = read(rest)?;
        assert!(
            filled.is_empty() || filled.as_ptr() == rest_start,
            "the rest is filled from its front"
        );
        let filled = filled.len();
        self.length += filled;
        Ok(filled)
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

// SAFETY: `chunk_mut` is the allocation's rest behind `length`, which stays where it is, and `advance_mut` never passes its end.
unsafe impl BufMut for AlignedBuffer {
    fn remaining_mut(&self) -> usize {
        self.capacity - self.length
    }

    unsafe fn advance_mut(&mut self, count: usize) {
        assert!(count <= self.remaining_mut(), "an aligned buffer must not grow");
        self.length += count;
    }

    fn chunk_mut(&mut self) -> &mut UninitSlice {
        // SAFETY: the rest of the allocation (dangling but of no length if there is none), borrowed through nothing else.
        unsafe { UninitSlice::from_raw_parts_mut(self.start.as_ptr().add(self.length), self.remaining_mut()) }
    }
}

/// The layout of a buffer that is not empty.
fn layout_of(length: usize) -> Layout {
    Layout::from_size_align(length, BLOCK_BYTES)
        .expect("a block is a power of two and no buffer nears isize::MAX")
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        if self.capacity > 0 && self.run.is_none() {
            // SAFETY: allocated by `allocate` with this very layout, and freed only here.
            unsafe { dealloc(self.start.as_ptr(), layout_of(self.capacity)) }
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
    fn fills_from_its_front_and_never_grows() {
        let mut buffer = AlignedBuffer::with_capacity(10);
        buffer.put_slice(b"strand");
        assert_eq!((buffer.as_slice(), buffer.remaining_mut()), (&b"strand"[..], 4));
        buffer.put_slice(b"rope");
        assert_eq!(
            (buffer.as_slice(), buffer.remaining_mut()),
            (&b"strandrope"[..], 0)
        );
        assert!(buffer.chunk_mut().len() == 0);
    }

    #[test]
    fn becomes_bytes_without_a_copy() {
        let mut buffer = AlignedBuffer::zeroed(BLOCK_BYTES);
        buffer[..5].copy_from_slice(b"ropes");
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
