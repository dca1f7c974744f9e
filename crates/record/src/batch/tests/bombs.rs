//! A gigabyte of zeros in a few bytes: given up at the limit, with the memory of a buffer.

use std::io::{Read, Write};

use super::*;

const BOMB_BYTES: usize = 1 << 30;
const LIMITS: Limits = Limits {
    decompressed_bytes_max: 10 << 20,
    snappy_block_bytes_max: 16 << 20,
    zstd_window_log_max: 23,
};

/// One record whose value is zeros up to the end of the bomb.
fn record_start() -> Vec<u8> {
    let mut start = Vec::new();
    crate::varint::put_varint(&mut start, BOMB_BYTES as i64);
    start.extend_from_slice(&[0, 0, 0, 1]);
    crate::varint::put_varint(&mut start, BOMB_BYTES as i64 - 10);
    start
}

fn write_zeros(mut out: impl Write) {
    out.write_all(&record_start()).expect("writes to memory");
    let zeros = vec![0; 1 << 20];
    for _ in 0..BOMB_BYTES >> 20 {
        out.write_all(&zeros).expect("writes to memory");
    }
}

fn assert_stopped(compression: Compression, compressed: &[u8]) {
    let batch = batch_around(compression, 1, compressed);
    let too_large = BatchError::DecompressedTooLarge {
        limit_bytes: LIMITS.decompressed_bytes_max,
    };
    assert_eq!(validate(&batch, &LIMITS), Err(too_large.clone()));
    assert_eq!(find_timestamp(&batch, 0, &LIMITS), Err(too_large.clone()));
    assert_eq!(retain(&batch, &LIMITS, &(), |_| true), Err(too_large.clone()));
    assert_eq!(records(&batch, &LIMITS).err(), Some(too_large));
}

#[test]
fn gzip() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    write_zeros(&mut encoder);
    assert_stopped(Compression::Gzip, &encoder.finish().expect("compresses"));
}

#[test]
fn zstd() {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("level 1 exists");
    write_zeros(&mut encoder);
    assert_stopped(Compression::Zstd, &encoder.finish().expect("compresses"));
}

#[test]
fn lz4() {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    write_zeros(&mut encoder);
    assert_stopped(Compression::Lz4, &encoder.finish().expect("compresses"));
}

#[test]
fn snappy_in_many_blocks() {
    let mut framed = Vec::new();
    let mut first = record_start();
    first.resize(32 * 1024, 0);
    compress::compress(Compression::Snappy, &first, &mut framed);
    let mut zeros = Vec::new();
    compress::compress(Compression::Snappy, &[0; 32 * 1024], &mut zeros);
    // The same block again and again, without the frame's header.
    for _ in 0..BOMB_BYTES / (32 * 1024) {
        framed.extend_from_slice(&zeros[16..]);
    }
    assert_stopped(Compression::Snappy, &framed);
}

#[test]
fn snappy_in_one_block() {
    let mut record = record_start();
    record.resize(64 << 20, 0);
    let raw = snap::raw::Encoder::new()
        .compress_vec(&record)
        .expect("compresses");
    assert_stopped(Compression::Snappy, &raw);
}

#[test]
fn a_snappy_block_may_not_claim_what_its_bytes_cannot_hold() {
    // 8 MiB claimed by a block of six bytes: within every limit, and not believed.
    let claim = [0x80, 0x80, 0x80, 0x04, 0x00, 0x00];
    let batch = batch_around(Compression::Snappy, 1, &claim);
    let error = validate(&batch, &LIMITS).expect_err("refused");
    assert!(matches!(
        error,
        BatchError::Decompress {
            compression: Compression::Snappy,
            ..
        }
    ));
}

#[test]
fn a_zstd_window_beyond_the_limit_is_refused() {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("level 1 exists");
    encoder.window_log(27).expect("a legal window");
    encoder.write_all(&record_start()).expect("compresses");
    std::io::copy(&mut std::io::repeat(0).take(1 << 20), &mut encoder).expect("compresses");
    let batch = batch_around(Compression::Zstd, 1, &encoder.finish().expect("compresses"));
    let error = validate(&batch, &LIMITS).expect_err("refused");
    assert!(matches!(
        error,
        BatchError::Decompress {
            compression: Compression::Zstd,
            ..
        }
    ));
}

/// Streams of Kafka's Java client name the window of their level, which is 128 MiB from level 22 on, however short they are.
#[test]
fn the_largest_zstd_window_of_kafkas_clients_is_taken() {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("level 1 exists");
    encoder.window_log(27).expect("a legal window");
    encoder.write_all(&record_start()).expect("compresses");
    std::io::copy(&mut std::io::repeat(0).take(1 << 20), &mut encoder).expect("compresses");
    let batch = batch_around(Compression::Zstd, 1, &encoder.finish().expect("compresses"));
    let error = validate(&batch, &Limits::default()).err();
    let is_refused = matches!(error, Some(BatchError::Decompress { .. }));
    assert!(!is_refused, "{error:?}");
}
