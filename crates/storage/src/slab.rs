//! Block-aligned append buffers: where staged bytes lie until they are flushed, and after that while they are cached.
//!
//! A slab is one stretch of memory. Frames are cut off its front one after another, each starting on a block boundary, and
//! are shared from then on without a copy. A slab never grows: growing would move it off its alignment.

use std::sync::Arc;

use bytes::Bytes;
use platform::disk::BLOCK_BYTES;
use platform::memory::{CutBuffer, MemoryPool};

/// Memory with frames in it, one or many: all of it is kept for as long as anything refers to one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameMemory {
    pub(crate) address: usize,
    pub(crate) bytes: usize,
}

impl FrameMemory {
    /// That of a frame that lies alone.
    pub(crate) fn of(frame: &Bytes) -> FrameMemory {
        FrameMemory {
            address: frame.as_ptr() as usize,
            bytes: frame.len(),
        }
    }
}

/// The filled part is the frame being built; the rest is room for more.
pub(crate) struct Slab {
    buffer: CutBuffer,
}

impl Slab {
    /// A slab with room for `capacity` bytes, rounded up to whole blocks.
    pub(crate) fn new(capacity: usize) -> Slab {
        Slab {
            buffer: CutBuffer::new(round_up_to_block(capacity)),
        }
    }

    /// A slab with room for `capacity` bytes, or for more: out of the pool if that has any of the size.
    pub(crate) fn pooled(pool: &Arc<MemoryPool>, capacity: usize) -> Slab {
        match capacity <= pool.buffer_bytes() {
            true => Slab { buffer: pool.lend() },
            false => Slab::new(capacity),
        }
    }

    /// The memory that it cuts frames from.
    pub(crate) fn memory(&self) -> FrameMemory {
        let (address, bytes) = self.buffer.memory();
        FrameMemory { address, bytes }
    }

    /// Bytes that the frame being built can still take, its padding included.
    pub(crate) fn room(&self) -> usize {
        self.buffer.room()
    }

    /// The length of the frame being built.
    pub(crate) fn filled(&self) -> usize {
        self.buffer.len()
    }

    /// The frame being built.
    pub(crate) fn frame(&self) -> &[u8] {
        self.buffer.as_slice()
    }

    /// The frame being built, to patch what was appended.
    pub(crate) fn frame_mut(&mut self) -> &mut [u8] {
        self.buffer.as_mut_slice()
    }

    /// Appends to the frame being built; the caller has asked `room`.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.buffer.append(bytes);
    }

    /// Pads the frame being built to whole blocks, cuts it off and starts the next one behind it.
    pub(crate) fn cut_frame(&mut self) -> Bytes {
        let padding = round_up_to_block(self.filled()) - self.filled();
        self.buffer.append(&[0; BLOCK_BYTES][..padding]);
        let frame = self.buffer.cut();
        assert!(
            (frame.as_ptr() as usize).is_multiple_of(BLOCK_BYTES),
            "a frame starts on a block boundary"
        );
        frame
    }
}

/// The smallest multiple of the block size that holds `bytes`.
pub(crate) fn round_up_to_block(bytes: usize) -> usize {
    bytes.div_ceil(BLOCK_BYTES) * BLOCK_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_aligned_and_keep_their_bytes() {
        let mut slab = Slab::new(3 * BLOCK_BYTES);
        slab.append(&[1; 10]);
        let first = slab.cut_frame();
        slab.append(&[2; BLOCK_BYTES + 1]);
        let second = slab.cut_frame();
        assert_eq!(first.len(), BLOCK_BYTES);
        assert_eq!(second.len(), 2 * BLOCK_BYTES);
        assert_eq!(&first[..11], &[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
        assert_eq!(second[BLOCK_BYTES], 2);
        assert_eq!(second.as_ptr() as usize % BLOCK_BYTES, 0);
    }

    #[test]
    #[should_panic(expected = "must not grow")]
    fn a_full_slab_refuses() {
        let mut slab = Slab::new(BLOCK_BYTES);
        let room = slab.room();
        slab.append(&vec![0; room + 1]);
    }
}
