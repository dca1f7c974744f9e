//! Batches that are made, checked and read back; what hostile ones do is in `hostile`, what huge ones do in `bombs`.

mod bombs;
mod growth;
mod hostile;
mod marker;
mod recompress;
mod retain;
mod round_trip;

use super::header::{
    BASE_TIMESTAMP_AT, LAST_OFFSET_DELTA_AT, LENGTH_AT, MAX_TIMESTAMP_AT, PRODUCER_ID_AT, RECORD_COUNT_AT,
};
use super::patch::{put, seal_checksum};
use super::*;

const ALL: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

/// A batch with a sound header around a body that is taken as it is.
fn batch_around(compression: Compression, record_count: i32, body: &[u8]) -> Vec<u8> {
    let mut batch = vec![0; BATCH_OVERHEAD_BYTES];
    batch.extend_from_slice(body);
    put(
        &mut batch,
        LENGTH_AT,
        &((BATCH_OVERHEAD_BYTES - 12 + body.len()) as i32).to_be_bytes(),
    );
    batch[header::MAGIC_AT] = 2;
    put(
        &mut batch,
        header::ATTRIBUTES_AT,
        &Attributes::of(compression).0.to_be_bytes(),
    );
    put(
        &mut batch,
        LAST_OFFSET_DELTA_AT,
        &(record_count.wrapping_sub(1)).to_be_bytes(),
    );
    put(&mut batch, BASE_TIMESTAMP_AT, &1_000i64.to_be_bytes());
    put(&mut batch, MAX_TIMESTAMP_AT, &1_000i64.to_be_bytes());
    // Producer id, epoch and sequence: all -1.
    put(&mut batch, PRODUCER_ID_AT, &[0xff; 14]);
    put(&mut batch, RECORD_COUNT_AT, &record_count.to_be_bytes());
    seal_checksum(&mut batch);
    batch
}

/// Three records at 1000, 1005 and 1003 ms, large enough to be compressed.
fn three_records(compression: Compression) -> Vec<u8> {
    let mut builder = BatchBuilder::new(compression);
    for (timestamp_ms, key) in [(1_000, "first"), (1_005, "second"), (1_003, "third")] {
        let value = key.repeat(40);
        builder.append(timestamp_ms, Some(key.as_bytes()), Some(value.as_bytes()), &[]);
    }
    builder.build().to_vec()
}

/// Written by hand from the format's description, its checksum computed bit by bit elsewhere.
#[rustfmt::skip]
const GOLDEN: &[u8] = &[
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // base offset
    0x00, 0x00, 0x00, 0x45, // length: 69 more bytes
    0xff, 0xff, 0xff, 0xff, // leader epoch: none
    0x02, // magic
    0xd6, 0xa2, 0xab, 0x65, // checksum
    0x00, 0x10, // attributes: transactional
    0x00, 0x00, 0x00, 0x01, // last offset delta
    0x00, 0x00, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x00, // base timestamp
    0x00, 0x00, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x05, // largest timestamp
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x4d, // producer id
    0x00, 0x03, // producer epoch
    0x00, 0x00, 0x00, 0x29, // base sequence
    0x00, 0x00, 0x00, 0x02, // record count
    0x12, 0x00, 0x00, 0x00, 0x02, 0x6b, 0x04, 0x76, 0x31, 0x00, // length 9, attributes, deltas 0 and 0, key "k", value "v1", no header
    0x12, 0x00, 0x0a, 0x02, 0x01, 0x00, 0x02, 0x02, 0x68, 0x01, // length 9, attributes, deltas 5 and 1, null key, empty value, header "h" of null
];

fn golden_builder() -> BatchBuilder {
    let mut builder = BatchBuilder::new(Compression::None).with_producer(77, 3, 41);
    builder.set_transactional(true);
    builder.append(1_700_000_000_000, Some(b"k"), Some(b"v1"), &[]);
    builder.append(1_700_000_000_005, None, Some(b""), &[(b"h", None)]);
    builder
}

#[test]
fn golden_bytes() {
    assert_eq!(&golden_builder().build()[..], GOLDEN);
    let header = validate(GOLDEN, &Limits::default()).expect("a sound batch");
    assert_eq!(header.length_bytes, GOLDEN.len());
    assert_eq!(
        (header.last_sequence(), header.next_offset()),
        (42, crate::Offset(2))
    );
    assert!(header.attributes.is_transactional());
    let second = records(GOLDEN, &Limits::default()).expect("whole").nth(1);
    let second = second.expect("two records").expect("sound");
    assert_eq!(second.timestamp_ms, 1_700_000_000_005);
    assert_eq!((second.key, second.value), (None, Some(bytes::Bytes::new())));
    assert_eq!(second.headers, [(bytes::Bytes::from_static(b"h"), None)]);
}

#[test]
fn sequences_wrap_to_zero() {
    let mut header = BatchHeader::read(GOLDEN).expect("whole");
    header.base_sequence = i32::MAX;
    assert_eq!(header.last_sequence(), 0);
    header.last_offset_delta = 0;
    assert_eq!(header.last_sequence(), i32::MAX);
    header.base_sequence = -1;
    assert_eq!(header.last_sequence(), -1);
}

#[test]
fn numbering_leaves_the_checksum_alone() {
    let mut batch = three_records(Compression::None);
    set_base_offset(&mut batch, crate::Offset(1 << 40));
    set_leader_epoch(&mut batch, crate::Epoch(9));
    assert!(checksum_holds(&batch));
    let header = validate(&batch, &Limits::default()).expect("still sound");
    assert_eq!(header.leader_epoch, crate::Epoch(9));
    assert_eq!(header.last_offset(), crate::Offset((1 << 40) + 2));
    let offsets: Vec<_> = records(&batch, &Limits::default())
        .expect("whole")
        .map(|record| record.expect("sound").offset.0 - (1 << 40))
        .collect();
    assert_eq!(offsets, [0, 1, 2]);
}

#[test]
fn append_time_holds_for_all_records() {
    for compression in ALL {
        let mut batch = three_records(compression);
        set_log_append_time(&mut batch, 7_777);
        assert!(checksum_holds(&batch));
        let header = BatchHeader::read(&batch).expect("whole");
        assert_eq!(header.attributes.timestamp_type(), TimestampType::LogAppendTime);
        assert_eq!(header.attributes.compression(), Ok(compression));
        assert_eq!(
            (header.base_timestamp_ms, header.max_timestamp_ms),
            (1_000, 7_777)
        );
        for record in records(&batch, &Limits::default()).expect("whole") {
            assert_eq!(record.expect("sound").timestamp_ms, 7_777);
        }
        let found = |ms| find_timestamp(&batch, ms, &Limits::default()).expect("sound");
        assert_eq!(found(7_777), Some((crate::Offset(0), 7_777)));
        assert_eq!(found(7_778), None);
    }
}

#[test]
fn a_largest_timestamp_that_lies_is_put_right() {
    for compression in ALL {
        let honest = three_records(compression);
        for lie in [i64::MIN, -1, 0, 1_006, i64::MAX] {
            let mut batch = honest.clone();
            put(&mut batch, MAX_TIMESTAMP_AT, &lie.to_be_bytes());
            seal_checksum(&mut batch);
            let examined = examine(&batch, &Limits::default()).expect("taken all the same");
            set_max_timestamp(&mut batch, examined.max_timestamp_found_ms);
            assert_eq!(batch, honest, "{compression}, {lie}");
        }
    }
}

#[test]
fn a_patch_does_not_hide_damage() {
    for patch in [set_max_timestamp, set_log_append_time] {
        let mut batch = three_records(Compression::None);
        *batch.last_mut().expect("not empty") ^= 1;
        patch(&mut batch, 5);
        assert!(!checksum_holds(&batch));
        *batch.last_mut().expect("not empty") ^= 1;
        assert!(checksum_holds(&batch));
    }
}

#[test]
fn timestamps_are_found_in_offset_order() {
    for compression in ALL {
        let mut batch = three_records(compression);
        set_base_offset(&mut batch, crate::Offset(50));
        let found = |ms| find_timestamp(&batch, ms, &Limits::default()).expect("sound");
        assert_eq!(found(0), Some((crate::Offset(50), 1_000)));
        assert_eq!(found(1_001), Some((crate::Offset(51), 1_005)));
        assert_eq!(found(1_005), Some((crate::Offset(51), 1_005)));
        assert_eq!(found(1_006), None);
    }
}

#[test]
fn the_largest_timestamp_is_what_records_say() {
    let mut batch = three_records(Compression::Zstd);
    put(&mut batch, MAX_TIMESTAMP_AT, &999_999i64.to_be_bytes());
    seal_checksum(&mut batch);
    let examined = examine(&batch, &Limits::default()).expect("taken all the same");
    assert_eq!(examined.header.max_timestamp_ms, 999_999);
    assert_eq!(examined.max_timestamp_found_ms, 1_005);
}

#[test]
fn batches_are_split_and_a_cut_end_is_told() {
    let mut run = three_records(Compression::None);
    let first_bytes = run.len();
    run.extend(three_records(Compression::Lz4));
    let whole: Vec<_> = batches(&run).map(|batch| batch.expect("whole").1.len()).collect();
    assert_eq!(whole, [first_bytes, run.len() - first_bytes]);

    let mut cut = batches(&run[..run.len() - 1]);
    assert!(cut.next().expect("the first").is_ok());
    let error = cut.next().expect("the cut one").expect_err("cut");
    let needed = run.len() - first_bytes;
    assert_eq!(
        error,
        BatchError::Truncated {
            needed,
            given: needed - 1
        }
    );
    assert!(cut.next().is_none());
    assert!(batches(&[]).next().is_none());
}

#[test]
fn a_builder_can_be_used_again() {
    let mut builder = golden_builder();
    builder.clear();
    assert!(builder.is_empty());
    for _ in 0..2 {
        builder.append(5, None, None, &[]);
        assert_eq!(builder.record_count(), 1);
        let batch = builder.build();
        assert_eq!(batch.len(), BATCH_OVERHEAD_BYTES + 7);
        assert_eq!(BatchHeader::read(&batch).expect("whole").base_timestamp_ms, 5);
    }
}
