//! Compressed records as streams, in and out.
//!
//! Decompression works for strangers: what comes out is counted against `Limits`, and no buffer is sized by a claim that
//! the compressed bytes could not make true. Each batch holds exactly one gzip member, LZ4 frame or Zstandard frame.

use std::io::{Cursor, Read, Write};

use flate2::bufread::GzDecoder;
use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};

use super::error::BatchError;
use super::header::Compression;
use super::snappy::{SnappyBlocks, SnappyWriter};

/// A compression, and how hard it tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packing {
    /// The codec.
    pub compression: Compression,
    /// The level, as gzip and Zstandard count theirs; `None` is the codec's default. The other codecs have only one.
    pub level: Option<i32>,
}

/// Bounds on what compressed records cost their reader. Uncompressed batches cost nothing and know no limit but their length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that the records of one batch may have once decompressed.
    pub decompressed_bytes_max: u64,
    /// Bytes of one snappy block, which cannot be decompressed in pieces. A raw block is a whole batch.
    pub snappy_block_bytes_max: usize,
    /// Base-two logarithm of the Zstandard window, and so of the decoder's memory.
    pub zstd_window_log_max: u32,
}

impl Limits {
    /// Allows so many bytes a batch, in one snappy block too, and the largest Zstandard window that Kafka's clients make.
    /// The window has 128 MiB: streams of level 20 and above name it however short they are. Memory is touched only as far
    /// as something comes out.
    #[must_use]
    pub fn up_to(decompressed_bytes_max: u64) -> Limits {
        Limits {
            decompressed_bytes_max,
            snappy_block_bytes_max: usize::try_from(decompressed_bytes_max).unwrap_or(usize::MAX),
            zstd_window_log_max: 27,
        }
    }
}

impl Default for Limits {
    /// Up to 256 MiB a batch: what a node takes unless it is told otherwise.
    fn default() -> Limits {
        Limits::up_to(256 << 20)
    }
}

/// Gives the decompressed records of one batch, front to back. `B` are the compressed bytes: a slice, or shared ones.
pub(super) struct Decompressor<B: AsRef<[u8]>> {
    compression: Compression,
    codec: Codec<B>,
    produced_bytes: u64,
    limit_bytes: u64,
}

enum Codec<B: AsRef<[u8]>> {
    Gzip(Box<GzDecoder<Cursor<B>>>),
    Snappy(SnappyBlocks<B>),
    Lz4(Box<FrameDecoder<Cursor<B>>>),
    Zstd(Box<zstd::stream::read::Decoder<'static, Cursor<B>>>),
}

impl<B: AsRef<[u8]>> Decompressor<B> {
    /// Opens compressed records.
    ///
    /// # Panics
    /// If the records are not compressed: they need no copy.
    pub(super) fn new(
        compression: Compression,
        compressed: B,
        limits: &Limits,
    ) -> Result<Decompressor<B>, BatchError> {
        let codec = match compression {
            Compression::None => panic!("uncompressed records are read where they are"),
            Compression::Gzip => Codec::Gzip(Box::new(GzDecoder::new(Cursor::new(compressed)))),
            Compression::Snappy => Codec::Snappy(SnappyBlocks::new(compressed, limits)?),
            Compression::Lz4 => {
                check_lz4_frame(compressed.as_ref()).map_err(|reason| failed(compression, reason))?;
                Codec::Lz4(Box::new(FrameDecoder::new(Cursor::new(compressed))))
            }
            Compression::Zstd => open_zstd(compressed, limits)
                .map(|decoder| Codec::Zstd(Box::new(decoder)))
                .map_err(|error| failed(compression, error))?,
        };
        let limit_bytes = limits.decompressed_bytes_max;
        Ok(Decompressor {
            compression,
            codec,
            produced_bytes: 0,
            limit_bytes,
        })
    }

    /// Reads some bytes into a buffer that is not empty; zero is the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, BatchError> {
        let compression = self.compression;
        let read = match &mut self.codec {
            Codec::Gzip(decoder) => decoder.read(buffer),
            Codec::Snappy(blocks) => return blocks.read(buffer).and_then(|count| self.count(count)),
            Codec::Lz4(decoder) => decoder.read(buffer),
            Codec::Zstd(decoder) => decoder.read(buffer),
        };
        let count = read.map_err(|error| failed(compression, error))?;
        self.count(count)
    }

    /// Memory that its blocks or its window take at most while the next `bytes` come out. Windows are touched only as far as
    /// something came out.
    pub(super) fn window_bytes(&self, bytes: usize) -> usize {
        match &self.codec {
            Codec::Gzip(_) => 0,
            Codec::Snappy(blocks) => blocks.block_bytes_max(),
            // A block as it came, and what becomes of it.
            Codec::Lz4(decoder) => 2 * lz4_block_bytes(decoder.get_ref().get_ref().as_ref()),
            Codec::Zstd(decoder) => {
                let window_log = zstd_window_log(decoder.get_ref().get_ref().as_ref());
                let window_bytes = window_log.and_then(|log| 1_usize.checked_shl(log));
                let produced_bytes = usize::try_from(self.produced_bytes).unwrap_or(usize::MAX);
                produced_bytes
                    .saturating_add(bytes)
                    .min(window_bytes.unwrap_or(usize::MAX))
            }
        }
    }

    fn count(&mut self, count: usize) -> Result<usize, BatchError> {
        self.produced_bytes += count as u64;
        if self.produced_bytes > self.limit_bytes {
            return Err(BatchError::DecompressedTooLarge {
                limit_bytes: self.limit_bytes,
            });
        }
        Ok(count)
    }

    /// At the end: whether all compressed bytes were used up.
    pub(super) fn finish(&mut self) -> Result<bool, BatchError> {
        Ok(match &mut self.codec {
            Codec::Gzip(decoder) => is_used_up(decoder.get_ref()),
            Codec::Snappy(blocks) => blocks.is_at_end(),
            Codec::Lz4(decoder) => is_used_up(decoder.get_ref()),
            Codec::Zstd(decoder) => is_used_up(decoder.get_ref()),
        })
    }
}

fn is_used_up(input: &Cursor<impl AsRef<[u8]>>) -> bool {
    input.position() == input.get_ref().as_ref().len() as u64
}

pub(super) fn failed(compression: Compression, reason: impl ToString) -> BatchError {
    BatchError::Decompress {
        compression,
        reason: reason.to_string(),
    }
}

fn open_zstd<B: AsRef<[u8]>>(
    compressed: B,
    limits: &Limits,
) -> std::io::Result<zstd::stream::read::Decoder<'static, Cursor<B>>> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(Cursor::new(compressed))?.single_frame();
    decoder.window_log_max(limits.zstd_window_log_max)?;
    Ok(decoder)
}

/// That the bytes are exactly one LZ4 frame, end mark included: the decoder alone would take a frame that is cut between
/// two blocks for a whole one, and an empty block for the end. And that its blocks are independent: Kafka's Java clients
/// read no others.
///
/// Source: the LZ4 frame format, version 1.6.
fn check_lz4_frame(frame: &[u8]) -> Result<(), &'static str> {
    const MAGIC: &[u8] = &[0x04, 0x22, 0x4d, 0x18];
    const CUT: &str = "the frame is cut";
    const INDEPENDENT_BLOCKS: u8 = 1 << 5;
    if frame.get(..MAGIC.len()) != Some(MAGIC) {
        return Err("no frame");
    }
    let flags = *frame.get(MAGIC.len()).ok_or(CUT)?;
    if flags & INDEPENDENT_BLOCKS == 0 {
        return Err("its blocks depend on each other");
    }
    let optional = |bit: u8, bytes: usize| if flags & (1 << bit) == 0 { 0 } else { bytes };
    let (block_checksum, content_checksum) = (optional(4, 4), optional(2, 4));
    // Magic, flags, block descriptor, content size, dictionary id, header checksum.
    let mut at = MAGIC.len() + 2 + optional(3, 8) + optional(0, 4) + 1;
    loop {
        let size = frame.get(at..).and_then(|rest| rest.first_chunk()).ok_or(CUT)?;
        let size = u32::from_le_bytes(*size);
        at += 4;
        if size == 0 {
            break;
        }
        // The top bit says that the block is stored as it is.
        match size & 0x7fff_ffff {
            0 => return Err("a block is empty"),
            bytes => at += bytes as usize + block_checksum,
        }
    }
    match at + content_checksum {
        end if end < frame.len() => Err("bytes follow the frame"),
        end if end > frame.len() => Err(CUT),
        _ => Ok(()),
    }
}

/// The size of an LZ4 frame's blocks, as its descriptor says.
fn lz4_block_size(frame: &[u8]) -> BlockSize {
    match frame.get(5).map_or(0, |descriptor| descriptor >> 4 & 7) {
        7 => BlockSize::Max4MB,
        6 => BlockSize::Max1MB,
        5 => BlockSize::Max256KB,
        _ => BlockSize::Max64KB,
    }
}

/// The same in bytes.
fn lz4_block_bytes(frame: &[u8]) -> usize {
    match lz4_block_size(frame) {
        BlockSize::Max4MB => 4 << 20,
        BlockSize::Max1MB => 1 << 20,
        BlockSize::Max256KB => 256 << 10,
        _ => 64 << 10,
    }
}

/// Base-two logarithm of a window that is as large as a Zstandard frame's, or the next one above.
///
/// Source: RFC 8878, 3.1.1.1.
fn zstd_window_log(frame: &[u8]) -> Option<u32> {
    const SINGLE_SEGMENT: u8 = 1 << 5;
    let (flags, window) = (*frame.get(4)?, *frame.get(5)?);
    if flags & SINGLE_SEGMENT == 0 {
        return Some(10 + u32::from(window >> 3) + u32::from(window & 7 != 0));
    }
    let content_bytes = zstd::zstd_safe::get_frame_content_size(frame).ok()??;
    Some(content_bytes.checked_next_power_of_two()?.ilog2())
}

/// Takes records piece by piece and compresses them: gzip and Zstandard at their default levels, LZ4 and snappy in
/// independent blocks, of 64 KiB unless said otherwise.
pub(super) enum Compressor {
    None(Vec<u8>),
    Gzip(Box<flate2::write::GzEncoder<Vec<u8>>>),
    Snappy(Box<SnappyWriter>),
    Lz4(Box<FrameEncoder<Vec<u8>>>),
    Zstd(Box<zstd::stream::write::Encoder<'static, Vec<u8>>>),
}

const MEMORY: &str = "writing to memory does not fail";
/// The largest window that is written, 8 MiB: packing takes memory of its size.
const ZSTD_WRITTEN_WINDOW_LOG_MAX: u32 = 23;
/// The smallest window that Zstandard knows.
const ZSTD_WINDOW_LOG_MIN: u32 = 10;

impl Compressor {
    /// Appends to `out`.
    pub(super) fn new(compression: Compression, out: Vec<u8>) -> Compressor {
        match compression {
            Compression::None => Compressor::None(out),
            Compression::Gzip => Compressor::gzip(None, out),
            Compression::Snappy => Compressor::Snappy(Box::new(SnappyWriter::new(out))),
            Compression::Lz4 => Compressor::lz4(BlockSize::Max64KB, out),
            Compression::Zstd => Compressor::zstd(None, None, out),
        }
    }

    /// The same for records of exactly `records_bytes`, at the level that is wanted. Knowing how long they are, Zstandard takes no more
    /// memory than they are worth: else it would be 640 MiB at its highest level, however short they are.
    pub(super) fn packing(packing: Packing, records_bytes: u64, out: Vec<u8>) -> Compressor {
        match packing.compression {
            Compression::Gzip => Compressor::gzip(packing.level, out),
            Compression::Zstd => {
                let whole = records_bytes.max(1).next_power_of_two().ilog2();
                let window_log = whole.min(ZSTD_WRITTEN_WINDOW_LOG_MAX);
                let mut compressor = Compressor::zstd(packing.level, Some(window_log), out);
                compressor.pledge(records_bytes);
                compressor
            }
            other => Compressor::new(other, out),
        }
    }

    /// The same for what stays of `original`, in which repetitions may reach as far back as there, up to 8 MiB: else it might
    /// become many times as long.
    pub(super) fn like(compression: Compression, original: &[u8], out: Vec<u8>) -> Compressor {
        match compression {
            Compression::Lz4 => Compressor::lz4(lz4_block_size(original), out),
            Compression::Zstd => {
                let window_log = zstd_window_log(original);
                let allowed = window_log.map(|log| log.min(ZSTD_WRITTEN_WINDOW_LOG_MAX));
                Compressor::zstd(None, allowed, out)
            }
            other => Compressor::new(other, out),
        }
    }

    fn lz4(block_size: BlockSize, out: Vec<u8>) -> Compressor {
        let frame = FrameInfo::new()
            .block_size(block_size)
            .block_mode(BlockMode::Independent);
        Compressor::Lz4(Box::new(FrameEncoder::with_frame_info(frame, out)))
    }

    fn gzip(level: Option<i32>, out: Vec<u8>) -> Compressor {
        let level = level.and_then(|level| u32::try_from(level).ok());
        let level = level.map_or_else(flate2::Compression::default, flate2::Compression::new);
        Compressor::Gzip(Box::new(flate2::write::GzEncoder::new(out, level)))
    }

    fn zstd(level: Option<i32>, window_log: Option<u32>, out: Vec<u8>) -> Compressor {
        let level = level.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL);
        let mut encoder =
            zstd::stream::write::Encoder::new(out, level).expect("Zstandard clamps levels that it has not");
        if let Some(window_log) = window_log {
            encoder
                .window_log(window_log.max(ZSTD_WINDOW_LOG_MIN))
                .expect("no decoder is allowed a larger window than the format knows");
        }
        Compressor::Zstd(Box::new(encoder))
    }

    /// Tells Zstandard how many bytes will be written.
    fn pledge(&mut self, records_bytes: u64) {
        if let Compressor::Zstd(encoder) = self {
            encoder
                .set_pledged_src_size(Some(records_bytes))
                .expect("nothing is written yet");
        }
    }

    pub(super) fn write(&mut self, records: &[u8]) {
        match self {
            Compressor::None(out) => out.extend_from_slice(records),
            Compressor::Gzip(encoder) => encoder.write_all(records).expect(MEMORY),
            Compressor::Snappy(writer) => writer.write(records),
            Compressor::Lz4(encoder) => encoder.write_all(records).expect(MEMORY),
            Compressor::Zstd(encoder) => encoder.write_all(records).expect(MEMORY),
        }
    }

    /// Bytes of the buffer that it appends to, so far; a little more is on its way.
    pub(super) fn out_bytes(&self) -> usize {
        match self {
            Compressor::None(out) => out.len(),
            Compressor::Gzip(encoder) => encoder.get_ref().len(),
            Compressor::Snappy(writer) => writer.out_bytes(),
            Compressor::Lz4(encoder) => encoder.get_ref().len(),
            Compressor::Zstd(encoder) => encoder.get_ref().len(),
        }
    }

    /// Returns the buffer that it appended to, with all of the records.
    pub(super) fn finish(self) -> Vec<u8> {
        match self {
            Compressor::None(out) => out,
            Compressor::Gzip(encoder) => encoder.finish().expect(MEMORY),
            Compressor::Snappy(writer) => writer.finish(),
            Compressor::Lz4(encoder) => encoder.finish().expect(MEMORY),
            Compressor::Zstd(encoder) => encoder.finish().expect(MEMORY),
        }
    }
}

/// Appends `records`, all at once.
pub(super) fn compress(compression: Compression, records: &[u8], out: &mut Vec<u8>) {
    let mut compressor = Compressor::new(compression, std::mem::take(out));
    compressor.write(records);
    *out = compressor.finish();
}
