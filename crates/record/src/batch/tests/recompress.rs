//! A batch in another compression: the same records and the same place, in another form.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::Offset;

const ROOM: usize = 1 << 20;

fn packing(compression: Compression) -> Packing {
    let level = None;
    Packing { compression, level }
}

fn sound(batch: &[u8]) -> Examined {
    examine(batch, &Limits::default()).expect("a sound batch")
}

fn to(batch: &[u8], compression: Compression) -> Vec<u8> {
    let new = super::recompress(
        batch,
        &sound(batch),
        packing(compression),
        &Limits::default(),
        ROOM,
    );
    new.expect("it fits")
}

/// Keys and values that are null, empty and long, headers, and times in any order.
fn various(compression: Compression) -> Vec<u8> {
    let mut builder = BatchBuilder::new(compression).with_producer(77, 3, i32::MAX - 1);
    builder.set_transactional(true);
    let long = "repeated and ".repeat(10_000);
    builder.append(
        1_700_000_000_000,
        Some(b"k"),
        Some(b"v"),
        &[(b"h", None), (b"", Some(b"x"))],
    );
    builder.append(1_600_000_000_000, Some(b"gone"), None, &[]);
    builder.append(1_700_000_000_005, None, Some(long.as_bytes()), &[]);
    builder.append(-1, Some(b""), Some(b""), &[(b"h", Some(b"")), (b"h", Some(b"1"))]);
    builder.build().to_vec()
}

#[test]
fn every_compression_becomes_every_other() {
    let plain = various(Compression::None);
    for from in ALL {
        let batch = various(from);
        let before = BatchHeader::read(&batch).expect("whole");
        for compression in ALL {
            let new = to(&batch, compression);
            let after = sound(&new).header;
            assert_eq!(after.attributes.compression(), Ok(compression));
            assert!(checksum_holds(&new));
            let kept = BatchHeader {
                length_bytes: new.len(),
                crc: after.crc,
                attributes: before.attributes.with_compression(compression),
                ..before
            };
            assert_eq!(after, kept, "{from} to {compression}");
            // Without compression there is one form alone, byte for byte.
            assert!(to(&new, Compression::None) == plain, "{from} to {compression}");
        }
    }
}

/// LZ4's frame with one block that is stored as it is, made by hand.
fn stored_lz4(body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];
    frame.extend_from_slice(&(body.len() as u32 | 1 << 31).to_le_bytes());
    frame.extend_from_slice(body);
    frame.extend_from_slice(&[0; 4]);
    frame
}

#[test]
fn golden_bytes_come_out_of_a_frame_made_by_hand() {
    let (head, body) = GOLDEN.split_at(BATCH_OVERHEAD_BYTES);
    let mut batch = head.to_vec();
    batch.extend(stored_lz4(body));
    let length = (batch.len() - LOG_OVERHEAD_BYTES) as i32;
    put(&mut batch, LENGTH_AT, &length.to_be_bytes());
    batch[header::ATTRIBUTES_AT + 1] |= 3;
    seal_checksum(&mut batch);
    assert_eq!(to(&batch, Compression::None), GOLDEN);
    // Too short and too varied to be compressed: the node writes the very same frame.
    assert_eq!(to(GOLDEN, Compression::Lz4), batch);
}

#[test]
fn what_brokers_wrote_into_a_batch_stays() {
    let mut batch = various(Compression::Gzip);
    set_base_offset(&mut batch, Offset(500));
    set_leader_epoch(&mut batch, crate::Epoch(9));
    set_log_append_time(&mut batch, 1_800_000_000_000);
    // Control, and a delete horizon.
    batch[header::ATTRIBUTES_AT + 1] |= 0b110_0000;
    seal_checksum(&mut batch);
    let header = BatchHeader::read(&batch).expect("whole");
    let examined = Examined {
        header,
        ..sound(&various(Compression::Gzip))
    };
    for compression in ALL {
        let new = super::recompress(&batch, &examined, packing(compression), &Limits::default(), ROOM);
        let new = new.expect("it fits");
        assert!(checksum_holds(&new));
        let read = |batch: &[u8]| -> Vec<Record> {
            let read = records(batch, &Limits::default()).expect("whole");
            read.map(|record| record.expect("sound")).collect()
        };
        assert_eq!(read(&new), read(&batch));
        let after = BatchHeader::read(&new).expect("whole");
        assert_eq!(after.attributes, header.attributes.with_compression(compression));
        assert_eq!(
            (after.base_offset, after.leader_epoch),
            (Offset(500), crate::Epoch(9))
        );
    }
}

#[test]
fn a_batch_may_be_just_as_long_as_its_topic_allows() {
    for from in ALL {
        let batch = various(from);
        let examined = sound(&batch);
        for compression in ALL {
            let bytes = to(&batch, compression).len();
            let within = |bytes_max| {
                super::recompress(
                    &batch,
                    &examined,
                    packing(compression),
                    &Limits::default(),
                    bytes_max,
                )
            };
            assert_eq!(within(bytes).map(|new| new.len()), Ok(bytes));
            let bytes_max = bytes - 1;
            let refused = RecompressError::TooLarge {
                compression,
                bytes_max,
            };
            assert_eq!(within(bytes_max), Err(refused), "{from} to {compression}");
        }
    }
}

#[test]
fn a_bomb_is_put_down_when_it_is_too_long() {
    const BOMB_BYTES: u64 = 1 << 30;
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("level 1 exists");
    std::io::copy(
        &mut std::io::Read::take(std::io::repeat(0), BOMB_BYTES),
        &mut encoder,
    )
    .expect("compresses");
    let batch = batch_around(Compression::Zstd, 1, &encoder.finish().expect("compresses"));
    // As if it had been examined by somebody with more patience.
    let examined = Examined {
        header: BatchHeader::read(&batch).expect("whole"),
        max_timestamp_found_ms: 0,
        decompressed_bytes: BOMB_BYTES,
    };
    let within = |decompressed_bytes_max, compression, bytes_max| {
        let limits = Limits::up_to(decompressed_bytes_max);
        super::recompress(&batch, &examined, packing(compression), &limits, bytes_max)
    };
    let refused = RecompressError::TooLarge {
        compression: Compression::None,
        bytes_max: ROOM,
    };
    assert_eq!(within(2 * BOMB_BYTES, Compression::None, ROOM), Err(refused));
    let limit_bytes = 10 << 20;
    let refused = RecompressError::Batch(BatchError::DecompressedTooLarge { limit_bytes });
    assert_eq!(within(limit_bytes, Compression::Gzip, ROOM), Err(refused));
}

#[test]
fn what_does_not_come_out_is_an_error() {
    for from in ALL.into_iter().filter(|from| *from != Compression::None) {
        let mut batch = various(from);
        let examined = sound(&batch);
        for byte in &mut batch[BATCH_OVERHEAD_BYTES..] {
            *byte ^= 0x5a;
        }
        let limits = Limits::default();
        let new = super::recompress(&batch, &examined, packing(Compression::Lz4), &limits, ROOM);
        assert!(matches!(new, Err(RecompressError::Batch(_))), "{from}: {new:?}");
    }
}

#[test]
fn levels_are_those_that_gzip_and_zstandard_know() {
    let mut builder = BatchBuilder::new(Compression::None);
    for index in 0..3_000_u64 {
        let value = format!("{} {}", index.wrapping_mul(0x9e37_79b9_7f4a_7c15), index % 7);
        builder.append(1_000, None, Some(value.as_bytes()), &[]);
    }
    let batch = builder.build();
    let bytes_at = |compression, level| {
        let packing = Packing { compression, level };
        let new = super::recompress(&batch, &sound(&batch), packing, &Limits::default(), ROOM);
        let new = new.expect("it fits");
        assert!(to(&new, Compression::None) == batch, "{packing:?}");
        new.len()
    };
    for level in [-131_072, -5, 0, 1, 3, 9, 22] {
        bytes_at(Compression::Zstd, Some(level));
    }
    assert!(bytes_at(Compression::Zstd, Some(-100)) > bytes_at(Compression::Zstd, Some(19)));
    assert!(bytes_at(Compression::Gzip, Some(1)) > bytes_at(Compression::Gzip, Some(9)));
    let by_itself = bytes_at(Compression::Gzip, None);
    assert_eq!(bytes_at(Compression::Gzip, Some(-1)), by_itself);
    assert_eq!(bytes_at(Compression::Gzip, Some(6)), by_itself);
    assert_eq!(
        bytes_at(Compression::Zstd, None),
        bytes_at(Compression::Zstd, Some(3))
    );
}

/// At its highest level Zstandard takes 640 MiB for records of unknown length.
#[test]
fn zstandard_is_told_how_long_a_batch_is_and_has_a_small_window_for_a_short_one() {
    let batch = various(Compression::Gzip);
    let records_bytes = sound(&batch).decompressed_bytes;
    let packing = Packing {
        compression: Compression::Zstd,
        level: Some(22),
    };
    let new = super::recompress(&batch, &sound(&batch), packing, &Limits::default(), ROOM);
    let new = new.expect("it fits");
    let told = zstd::zstd_safe::get_frame_content_size(&new[BATCH_OVERHEAD_BYTES..]);
    assert_eq!(told.ok().flatten(), Some(records_bytes));
    let limits = Limits {
        zstd_window_log_max: 17,
        ..Limits::default()
    };
    assert!(records_bytes <= 1 << limits.zstd_window_log_max);
    validate(&new, &limits).expect("a window of 128 KiB is enough");
}

#[test]
fn other_records_than_were_examined_are_not_taken() {
    let batch = various(Compression::Lz4);
    let examined = sound(&batch);
    for decompressed_bytes in [examined.decompressed_bytes - 1, examined.decompressed_bytes + 1] {
        let forged = Examined {
            decompressed_bytes,
            ..examined
        };
        for compression in ALL {
            let new = super::recompress(&batch, &forged, packing(compression), &Limits::default(), ROOM);
            assert!(
                matches!(new, Err(RecompressError::Batch(_))),
                "{compression}: {new:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_records_stay_the_same(
        values in vec(vec(any::<u8>(), 0..40_000), 1..8),
        from in 0..ALL.len(),
        through in 0..ALL.len(),
    ) {
        let batch = |compression| {
            let mut builder = BatchBuilder::new(compression);
            for value in &values {
                builder.append(5, None, Some(value), &[]);
            }
            builder.build()
        };
        let new = to(&batch(ALL[from]), ALL[through]);
        prop_assert_eq!(&to(&new, Compression::None)[..], &batch(Compression::None)[..]);
    }
}
