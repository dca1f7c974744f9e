//! The bytes of one simulated file, kept by block so that copies of a whole disk are cheap. A block that was written whole is a part of
//! what was written: the view of the process, the platter and the disks that crashes leave share it.
//!
//! A hole and a written zero read alike but differ in what they cost: writing into a hole needs room on the disk.

use bytes::Bytes;

use crate::disk::BLOCK_BYTES;

const BLOCK: u64 = BLOCK_BYTES as u64;
/// The bytes of a range without data. Most of a journal file is such a range when a node starts, and need not be copied.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

#[derive(Debug, Clone)]
enum Block {
    Hole,
    Zeros,
    /// As long as a block.
    Data(Bytes),
}

impl Block {
    /// Changes a part of the block, in a copy: others may share what it was.
    fn change(&mut self, change: impl FnOnce(&mut [u8])) {
        let mut bytes = match self {
            Block::Data(bytes) => bytes.to_vec(),
            Block::Hole | Block::Zeros => vec![0; BLOCK_BYTES],
        };
        change(&mut bytes);
        *self = Block::Data(bytes.into());
    }
}

/// The content of a file: `blocks` covers `[0, length)`; what lies behind the length in the last block is zero.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    length: u64,
    blocks: Vec<Block>,
}

impl Content {
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Extends with a hole if shorter.
    pub(super) fn grow(&mut self, length: u64) {
        if length > self.length {
            self.length = length;
            self.blocks.resize(length.div_ceil(BLOCK) as usize, Block::Hole);
        }
    }

    pub(super) fn set_length(&mut self, length: u64) {
        if length >= self.length {
            return self.grow(length);
        }
        self.blocks.truncate(length.div_ceil(BLOCK) as usize);
        self.length = length;
        let kept = (length % BLOCK) as usize;
        if kept > 0
            && let Some(block @ Block::Data(_)) = self.blocks.last_mut()
        {
            // Bytes that were cut off must not come back when the file grows again.
            block.change(|bytes| bytes[kept..].fill(0));
        }
    }

    /// Writes at any alignment, growing as needed.
    pub(super) fn write(&mut self, position: u64, bytes: &Bytes) {
        self.grow(position + bytes.len() as u64);
        let mut done = 0;
        while done < bytes.len() {
            let at = position + done as u64;
            let inside = (at % BLOCK) as usize;
            let count = (BLOCK_BYTES - inside).min(bytes.len() - done);
            let block = &mut self.blocks[(at / BLOCK) as usize];
            let part = bytes.slice(done..done + count);
            match count {
                BLOCK_BYTES => *block = Block::Data(part),
                _ => block.change(|old| old[inside..inside + count].copy_from_slice(&part)),
            }
            done += count;
        }
    }

    /// Writes zeros over whole blocks, growing as needed.
    pub(super) fn write_zeros(&mut self, position: u64, length: u64) {
        assert!(
            position.is_multiple_of(BLOCK) && length.is_multiple_of(BLOCK),
            "zeros are written by the block"
        );
        self.grow(position + length);
        self.blocks[(position / BLOCK) as usize..((position + length) / BLOCK) as usize].fill(Block::Zeros);
    }

    /// The bytes of a range inside the file.
    pub(super) fn read(&self, position: u64, length: usize) -> Bytes {
        assert!(
            position + length as u64 <= self.length,
            "the caller has checked the range"
        );
        if length <= ZEROS.len() && self.is_zero(position / BLOCK * BLOCK, position % BLOCK + length as u64) {
            return Bytes::from_static(&ZEROS[..length]);
        }
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let at = position + bytes.len() as u64;
            let inside = (at % BLOCK) as usize;
            let count = (BLOCK_BYTES - inside).min(length - bytes.len());
            match &self.blocks[(at / BLOCK) as usize] {
                Block::Data(data) => bytes.extend_from_slice(&data[inside..inside + count]),
                Block::Hole | Block::Zeros => bytes.extend_from_slice(&ZEROS[..count]),
            }
        }
        bytes.into()
    }

    /// Says whether a block-aligned range holds no data; beyond the end there is none.
    pub(super) fn is_zero(&self, position: u64, length: u64) -> bool {
        let first = (position / BLOCK) as usize;
        let count = length.div_ceil(BLOCK) as usize;
        !self
            .blocks
            .iter()
            .skip(first)
            .take(count)
            .any(|block| matches!(block, Block::Data(_)))
    }

    /// Bytes of room the file takes.
    pub(super) fn allocated_bytes(&self) -> u64 {
        BLOCK
            * self
                .blocks
                .iter()
                .filter(|block| !matches!(block, Block::Hole))
                .count() as u64
    }

    /// Says whether the block at `position` would take room when written.
    pub(super) fn needs_room(&self, position: u64) -> bool {
        matches!(
            self.blocks.get((position / BLOCK) as usize),
            None | Some(Block::Hole)
        )
    }

    pub(super) fn flip_bit(&mut self, bit: u64) {
        let flipped = self.read(bit / 8, 1)[0] ^ (1 << (bit % 8));
        self.write(bit / 8, &Bytes::copy_from_slice(&[flipped]));
    }
}
