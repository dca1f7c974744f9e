//! A compacted batch is about as well compressed as the batch was, however far back its repetitions reach.

use std::io::Write;

use lz4_flex::frame::{BlockSize, FrameEncoder, FrameInfo};

use super::*;

/// Records with one and the same value, of so many bytes that repeat nothing by themselves.
fn repeating(value_bytes: usize, record_count: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    let value: Vec<u8> = (0..value_bytes).map(|_| byte()).collect();
    let mut builder = BatchBuilder::new(Compression::None);
    for _ in 0..record_count {
        builder.append(1_000, Some(b"key"), Some(&value), &[]);
    }
    builder.build()[BATCH_OVERHEAD_BYTES..].to_vec()
}

/// That a batch of these records without its first one is not much longer than with it.
fn assert_stays_short(compression: Compression, record_count: usize, compressed: &[u8]) {
    let batch = batch_around(compression, record_count as i32, compressed);
    let kept = retain(&batch, &Limits::default(), &(), |record| record.offset.0 > 0);
    let Ok(Retained::Some(kept)) = kept else {
        panic!("{compression}: all but one stay");
    };
    assert!(
        kept.len() <= batch.len() + batch.len() / 2,
        "{compression}: {} bytes became {}",
        batch.len(),
        kept.len()
    );
    let read = records(&kept, &Limits::default()).expect("it can be unpacked");
    let read: Result<Vec<_>, _> = read.collect();
    assert_eq!(read.expect("sound").len(), record_count - 1, "{compression}");
}

#[test]
fn batches_of_our_own_stay_short() {
    for (value_bytes, record_count) in [(33_000, 40), (60_000, 40), (1_000_000, 3)] {
        let body = repeating(value_bytes, record_count);
        for compression in ALL {
            let mut compressed = Vec::new();
            compress::compress(compression, &body, &mut compressed);
            assert_stays_short(compression, record_count, &compressed);
        }
    }
}

#[test]
fn lz4_frames_of_large_blocks_stay_short() {
    let body = repeating(60_000, 40);
    for size in [BlockSize::Max256KB, BlockSize::Max1MB, BlockSize::Max4MB] {
        let frame = FrameInfo::new().block_size(size);
        let mut encoder = FrameEncoder::with_frame_info(frame, Vec::new());
        encoder.write_all(&body).expect("compresses");
        let compressed = encoder.finish().expect("compresses");
        assert!(compressed.len() < body.len() / 2, "a block has many values");
        assert_stays_short(Compression::Lz4, 40, &compressed);
    }
}

#[test]
fn raw_snappy_blocks_stay_short() {
    let body = repeating(4_000, 200);
    let compressed = snap::raw::Encoder::new().compress_vec(&body).expect("compresses");
    assert!(
        compressed.len() < body.len() / 8,
        "{} bytes: each block has the value once",
        compressed.len()
    );
    assert_stays_short(Compression::Snappy, 200, &compressed);
}

#[test]
fn zstandard_frames_of_large_windows_stay_short() {
    // Beyond the window of the level that we compress with, within the largest that is taken.
    let body = repeating(2_500_000, 3);
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).expect("level 3 exists");
    encoder.window_log(23).expect("a legal window");
    encoder.write_all(&body).expect("compresses");
    let with_window = encoder.finish().expect("compresses");
    let mut compressor = zstd::bulk::Compressor::new(3).expect("level 3 exists");
    compressor
        .set_parameter(zstd::zstd_safe::CParameter::WindowLog(23))
        .expect("a legal window");
    // All of it is its own window.
    let single_segment = compressor.compress(&body).expect("compresses");
    for compressed in [with_window, single_segment] {
        assert!(compressed.len() < body.len() / 2, "it looks back as far");
        assert_stays_short(Compression::Zstd, 3, &compressed);
    }
}
