//! Buffers that are filled from their front and shared piece by piece, out of memory that is used again.
//!
//! Fresh memory costs a page fault and a zeroing by the kernel for every page, about as much as the copy into it. A pool
//! keeps some memory that is no longer needed for whoever comes next. A piece that was cut off is never written again:
//! the buffer writes behind it only, and the memory goes back when the buffer and all pieces are gone.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;

use super::{AlignedBuffer, Pages};

/// Lends out aligned buffers of one size, and keeps a few that came back.
pub struct MemoryPool {
    pages: Pages,
    buffer_bytes: usize,
    kept_max: usize,
    kept: Mutex<Vec<AlignedBuffer>>,
}

impl MemoryPool {
    /// A pool of buffers of `buffer_bytes` that keeps at most `kept_max` of them unused.
    pub fn new(pages: Pages, buffer_bytes: usize, kept_max: usize) -> Arc<MemoryPool> {
        Arc::new(MemoryPool {
            pages,
            buffer_bytes,
            kept_max,
            kept: Mutex::new(Vec::new()),
        })
    }

    /// The size of its buffers.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    /// An empty buffer.
    pub fn lend(self: &Arc<Self>) -> CutBuffer {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let memory = kept.unwrap_or_else(|| AlignedBuffer::on(self.pages, self.buffer_bytes));
        CutBuffer::over(memory, Arc::downgrade(self))
    }

    fn take_back(&self, memory: AlignedBuffer) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < self.kept_max {
            kept.push(memory);
        }
    }
}

/// Memory under a buffer and its pieces; goes back to its pool with the last of them.
struct Lent {
    memory: Option<AlignedBuffer>,
    start: NonNull<u8>,
    pool: Weak<MemoryPool>,
}

// SAFETY: the memory is owned by this value alone. Through it, one `CutBuffer` writes only behind what it has cut off, and
// pieces read only what was cut off: nothing that is written is read elsewhere.
unsafe impl Send for Lent {}
// SAFETY: as for Send; shared access reads what nobody writes any more.
unsafe impl Sync for Lent {}

impl Drop for Lent {
    fn drop(&mut self) {
        if let (Some(memory), Some(pool)) = (self.memory.take(), self.pool.upgrade()) {
            pool.take_back(memory);
        }
    }
}

/// A buffer that starts at a multiple of `BLOCK_BYTES` and never grows. What is cut off its front is shared as it is.
pub struct CutBuffer {
    lent: Arc<Lent>,
    capacity: usize,
    /// Bytes before this were cut off.
    begin: usize,
    /// Bytes before this have been written.
    end: usize,
}

impl CutBuffer {
    /// A buffer with memory of its own.
    pub fn new(capacity: usize) -> CutBuffer {
        CutBuffer::over(AlignedBuffer::with_capacity(capacity), Weak::new())
    }

    fn over(memory: AlignedBuffer, pool: Weak<MemoryPool>) -> CutBuffer {
        let (capacity, start) = (memory.capacity, memory.start);
        let memory = Some(memory);
        CutBuffer {
            lent: Arc::new(Lent { memory, start, pool }),
            capacity,
            begin: 0,
            end: 0,
        }
    }

    /// Where its memory begins, and how much it is.
    pub fn memory(&self) -> (usize, usize) {
        (self.lent.start.as_ptr() as usize, self.capacity)
    }

    /// Bytes that can still be appended.
    pub fn room(&self) -> usize {
        self.capacity - self.end
    }

    /// The number of bytes that were appended since the last cut.
    pub fn len(&self) -> usize {
        self.end - self.begin
    }

    /// True if nothing was appended since the last cut.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that were appended since the last cut.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: begin..end lies within the allocation, has been written, and is no piece's.
        unsafe { std::slice::from_raw_parts(self.lent.start.as_ptr().add(self.begin), self.len()) }
    }

    /// The same, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`; the unique borrow of self is the unique borrow of what is not cut off yet.
        unsafe { std::slice::from_raw_parts_mut(self.lent.start.as_ptr().add(self.begin), self.len()) }
    }

    /// Appends.
    ///
    /// # Panics
    /// If there is no room: it would have to move, and lose its alignment.
    pub fn append(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.room(), "a cut buffer must not grow");
        // SAFETY: end..end+len lies within the allocation by the assertion, and nobody else refers to what is behind `end`.
        unsafe {
            let to = self.lent.start.as_ptr().add(self.end);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        self.end += bytes.len();
    }

    /// Cuts off what was appended since the last cut.
    pub fn cut(&mut self) -> Bytes {
        let piece = Piece {
            lent: self.lent.clone(),
            begin: self.begin,
            end: self.end,
        };
        self.begin = self.end;
        Bytes::from_owner(piece)
    }
}

/// A part of a buffer that is never written again.
struct Piece {
    lent: Arc<Lent>,
    begin: usize,
    end: usize,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: begin..end was written before it was cut off, and is not written again while `lent` lives.
        unsafe { std::slice::from_raw_parts(self.lent.start.as_ptr().add(self.begin), self.end - self.begin) }
    }
}

#[cfg(test)]
mod tests {
    use crate::disk::BLOCK_BYTES;

    use super::*;

    #[test]
    fn pieces_stay_as_they_were_cut() {
        let pool = MemoryPool::new(Pages::Small, 2 * BLOCK_BYTES, 1);
        let mut buffer = pool.lend();
        buffer.append(b"first");
        buffer.as_mut_slice()[0] = b'F';
        let first = buffer.cut();
        assert!(buffer.is_empty());
        buffer.append(b"second");
        assert_eq!(buffer.as_slice(), b"second");
        let second = buffer.cut();
        drop(buffer);
        assert_eq!((&first[..], &second[..]), (&b"First"[..], &b"second"[..]));
        assert!((first.as_ptr() as usize).is_multiple_of(BLOCK_BYTES));
    }

    #[test]
    fn memory_comes_back_when_all_pieces_are_gone() {
        let pool = MemoryPool::new(Pages::Small, BLOCK_BYTES, 1);
        let mut buffer = pool.lend();
        buffer.append(b"kept");
        let piece = buffer.cut();
        let address = piece.as_ptr();
        drop(buffer);
        let other = pool.lend();
        assert_ne!(other.as_slice().as_ptr(), address, "a piece still refers to it");
        let slice = piece.slice(1..3);
        drop(piece);
        assert_eq!(&slice[..], b"ep");
        drop(slice);
        let again = pool.lend();
        assert_eq!(again.as_slice().as_ptr(), address);
        assert_eq!((again.len(), again.room()), (0, BLOCK_BYTES));
        // No more than it may keep.
        drop((other, again));
        assert_eq!(pool.kept.lock().expect("nobody panicked").len(), 1);
    }

    #[test]
    #[should_panic(expected = "must not grow")]
    fn a_full_buffer_refuses() {
        CutBuffer::new(10).append(&[0; 11]);
    }
}
