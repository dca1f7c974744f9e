//! Records are read as they were appended, whichever way they were compressed and by whomever.

use std::io::Write;

use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use super::*;

type Field = Option<Vec<u8>>;
type Plain = (i64, Field, Field, Vec<(Vec<u8>, Field)>);

fn plain_record() -> impl Strategy<Value = Plain> {
    let field = || of(vec(any::<u8>(), 0..300));
    (
        0i64..1 << 42,
        field(),
        field(),
        vec((vec(any::<u8>(), 0..70), field()), 0..4),
    )
}

fn append(builder: &mut BatchBuilder, record: &Plain) {
    let (timestamp_ms, key, value, headers) = record;
    let headers: Vec<_> = headers
        .iter()
        .map(|(key, value)| (&key[..], value.as_deref()))
        .collect();
    builder.append(*timestamp_ms, key.as_deref(), value.as_deref(), &headers);
}

fn plain(record: Record) -> Plain {
    let headers = record.headers.into_iter();
    (
        record.timestamp_ms,
        record.key.map(Vec::from),
        record.value.map(Vec::from),
        headers
            .map(|(key, value)| (Vec::from(key), value.map(Vec::from)))
            .collect(),
    )
}

fn read_back(batch: &[u8]) -> Vec<Plain> {
    let records = records(batch, &Limits::default()).expect("a whole batch");
    records
        .map(|record| plain(record.expect("a sound record")))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_compressions(written in vec(plain_record(), 1..60)) {
        for compression in ALL {
            let mut builder = BatchBuilder::new(compression);
            written.iter().for_each(|record| append(&mut builder, record));
            let batch = builder.build();
            let examined = examine(&batch, &Limits::default()).expect("what we build is sound");
            prop_assert_eq!(examined.header.record_count as usize, written.len());
            prop_assert_eq!(examined.max_timestamp_found_ms, examined.header.max_timestamp_ms);
            prop_assert_eq!(&read_back(&batch), &written);
        }
    }
}

/// A body of many records, about 600 KB: longer than any buffer or block.
fn long_body() -> (i32, Vec<u8>) {
    let mut builder = BatchBuilder::new(Compression::None);
    for index in 0..6_000 {
        let value = format!("{index} of many, {}", "repeated ".repeat(index % 20));
        builder.append(1_000, Some(&[index as u8]), Some(value.as_bytes()), &[]);
    }
    let batch = builder.build();
    (6_000, batch[BATCH_OVERHEAD_BYTES..].to_vec())
}

fn assert_same_records(compression: Compression, compressed: &[u8]) {
    let (record_count, body) = long_body();
    let expected = read_back(&batch_around(Compression::None, record_count, &body));
    let batch = batch_around(compression, record_count, compressed);
    validate(&batch, &Limits::default()).expect("other writers' compression is taken");
    assert!(read_back(&batch) == expected, "{compression}: other records");
}

#[test]
fn raw_snappy() {
    let (_, body) = long_body();
    let compressed = snap::raw::Encoder::new().compress_vec(&body).expect("compresses");
    assert_same_records(Compression::Snappy, &compressed);
}

#[test]
fn framed_snappy() {
    let mut compressed = Vec::new();
    compress::compress(Compression::Snappy, &long_body().1, &mut compressed);
    assert_same_records(Compression::Snappy, &compressed);
}

fn lz4_frame(body: &[u8], size: BlockSize, mode: BlockMode) -> Vec<u8> {
    let frame = FrameInfo::new()
        .block_size(size)
        .block_mode(mode)
        .block_checksums(true)
        .content_checksum(true)
        .content_size(Some(body.len() as u64));
    let mut encoder = FrameEncoder::with_frame_info(frame, Vec::new());
    encoder.write_all(body).expect("compresses");
    encoder.finish().expect("compresses")
}

#[test]
fn lz4_frames_of_all_kinds_that_every_client_reads() {
    let (record_count, body) = long_body();
    for size in [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max4MB] {
        assert_same_records(Compression::Lz4, &lz4_frame(&body, size, BlockMode::Independent));
        let linked = lz4_frame(&body, size, BlockMode::Linked);
        let linked = batch_around(Compression::Lz4, record_count, &linked);
        let refused = validate(&linked, &Limits::default()).expect_err("Java clients would not read it");
        assert!(refused.to_string().contains("depend on each other"), "{refused}");
    }
}

#[test]
fn zstd_in_one_call_and_at_high_levels() {
    let (_, body) = long_body();
    for level in [1, 19] {
        let compressed = zstd::bulk::compress(&body, level).expect("compresses");
        assert_same_records(Compression::Zstd, &compressed);
        let compressed = zstd::stream::encode_all(&body[..], level).expect("compresses");
        assert_same_records(Compression::Zstd, &compressed);
    }
}
