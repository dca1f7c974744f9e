//! Snappy records: one raw block (librdkafka, Go clients) or many blocks in the frame of the Java library.
//!
//! A block says how long it is once decompressed and cannot be read in pieces, so a buffer of that length is needed. The
//! claim is believed only as far as the compressed bytes could make it true.
//!
//! ```text
//! frame: 82 53 4e 41 50 50 59 00 | version i32 | compatible i32 | { block length i32 | block }…     (big-endian)
//! ```

use super::compress::{Limits, failed};
use super::error::BatchError;
use super::header::Compression;

const FRAME_MAGIC: &[u8] = b"\x82SNAPPY\0";
const FRAME_HEADER_BYTES: usize = 16;
/// Bytes that we put into one block: as far as snappy's own encoder looks back, also in raw blocks. The Java library does with
/// half of it, and reads any.
const FRAME_BLOCK_BYTES: usize = 64 * 1024;
/// The version that the Java library writes twice.
const FRAME_VERSION: i32 = 1;
/// The densest element of a block turns 3 bytes into 64.
const EXPANSION_MAX: u64 = 22;

/// The blocks of compressed records, decompressed one at a time.
pub(super) struct SnappyBlocks<B> {
    compressed: B,
    /// Where the next block begins.
    next_at: usize,
    framed: bool,
    block: Vec<u8>,
    at: usize,
    block_bytes_max: usize,
    limit_bytes: u64,
}

impl<B: AsRef<[u8]>> SnappyBlocks<B> {
    pub(super) fn new(compressed: B, limits: &Limits) -> Result<SnappyBlocks<B>, BatchError> {
        let bytes = compressed.as_ref();
        let framed = bytes.starts_with(FRAME_MAGIC);
        if framed && bytes.len() < FRAME_HEADER_BYTES {
            return Err(refused("the frame is cut"));
        }
        if bytes.is_empty() {
            return Err(refused("there is no block"));
        }
        Ok(SnappyBlocks {
            compressed,
            next_at: if framed { FRAME_HEADER_BYTES } else { 0 },
            framed,
            block: Vec::new(),
            at: 0,
            block_bytes_max: limits.snappy_block_bytes_max,
            limit_bytes: limits.decompressed_bytes_max,
        })
    }

    /// Reads some bytes; zero is the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, BatchError> {
        while self.at == self.block.len() {
            if self.is_used_up() {
                return Ok(0);
            }
            self.decompress_next()?;
        }
        let count = buffer.len().min(self.block.len() - self.at);
        buffer[..count].copy_from_slice(&self.block[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.is_used_up() && self.at == self.block.len()
    }

    /// Says whether all blocks have been begun.
    fn is_used_up(&self) -> bool {
        self.next_at == self.compressed.as_ref().len()
    }

    /// The longest block once it is decompressed: the present one, and the others by what they say of themselves. What is
    /// malformed ends the search.
    pub(super) fn block_bytes_max(&self) -> usize {
        let mut blocks = Blocks::behind(&self.compressed, self.next_at, self.framed);
        let mut longest = self.block.capacity();
        while !blocks.rest.is_empty() {
            let Ok(Ok(length)) = blocks.next().map(snap::raw::decompress_len) else {
                break;
            };
            longest = longest.max(length);
        }
        longest
    }

    fn decompress_next(&mut self) -> Result<(), BatchError> {
        let mut blocks = Blocks::behind(&self.compressed, self.next_at, self.framed);
        let block = blocks.next()?;
        let next_at = self.compressed.as_ref().len() - blocks.rest.len();
        let claimed = snap::raw::decompress_len(block).map_err(refused)?;
        if claimed as u64 > self.limit_bytes {
            return Err(BatchError::DecompressedTooLarge {
                limit_bytes: self.limit_bytes,
            });
        }
        if claimed > self.block_bytes_max || claimed as u64 > block.len() as u64 * EXPANSION_MAX {
            return Err(refused(format!(
                "a block of {} bytes may not become {claimed}",
                block.len()
            )));
        }
        self.block.resize(claimed, 0);
        self.at = 0;
        snap::raw::Decoder::new()
            .decompress(block, &mut self.block)
            .map_err(refused)?;
        self.next_at = next_at;
        Ok(())
    }
}

/// Compressed blocks one behind the other.
struct Blocks<'a> {
    rest: &'a [u8],
    framed: bool,
}

impl<'a> Blocks<'a> {
    fn behind(compressed: &'a impl AsRef<[u8]>, next_at: usize, framed: bool) -> Blocks<'a> {
        let rest = &compressed.as_ref()[next_at..];
        Blocks { rest, framed }
    }

    fn next(&mut self) -> Result<&'a [u8], BatchError> {
        if !self.framed {
            return Ok(std::mem::take(&mut self.rest));
        }
        let (length, rest) = self
            .rest
            .split_first_chunk()
            .ok_or_else(|| refused("a block's length is cut"))?;
        let length = i32::from_be_bytes(*length);
        let (block, rest) = usize::try_from(length)
            .ok()
            .and_then(|length| rest.split_at_checked(length))
            .ok_or_else(|| refused(format!("a block cannot have {length} bytes")))?;
        self.rest = rest;
        Ok(block)
    }
}

fn refused(reason: impl ToString) -> BatchError {
    failed(Compression::Snappy, reason)
}

/// Appends records in the Java library's frame.
pub(super) struct SnappyWriter {
    out: Vec<u8>,
    encoder: snap::raw::Encoder,
    /// Bytes that do not fill a block yet.
    waiting: Vec<u8>,
}

impl SnappyWriter {
    pub(super) fn new(mut out: Vec<u8>) -> SnappyWriter {
        out.extend_from_slice(FRAME_MAGIC);
        out.extend_from_slice(&FRAME_VERSION.to_be_bytes());
        out.extend_from_slice(&FRAME_VERSION.to_be_bytes());
        SnappyWriter {
            out,
            encoder: snap::raw::Encoder::new(),
            waiting: Vec::new(),
        }
    }

    pub(super) fn write(&mut self, mut records: &[u8]) {
        while self.waiting.len() + records.len() >= FRAME_BLOCK_BYTES {
            let (some, rest) = records.split_at(FRAME_BLOCK_BYTES - self.waiting.len());
            self.waiting.extend_from_slice(some);
            self.end_block();
            records = rest;
        }
        self.waiting.extend_from_slice(records);
    }

    fn end_block(&mut self) {
        let length_at = self.out.len();
        let block_at = length_at + 4;
        let room = snap::raw::max_compress_len(self.waiting.len());
        self.out.resize(block_at + room, 0);
        let length = self
            .encoder
            .compress(&self.waiting, &mut self.out[block_at..])
            .expect("there is room for the largest block");
        self.out.truncate(block_at + length);
        self.out[length_at..block_at].copy_from_slice(&(length as i32).to_be_bytes());
        self.waiting.clear();
    }

    pub(super) fn out_bytes(&self) -> usize {
        self.out.len()
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        if !self.waiting.is_empty() {
            self.end_block();
        }
        self.out
    }
}
