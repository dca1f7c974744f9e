//! Bytes that no honest producer sends: each is an error that says what, and never a panic.

use proptest::prelude::*;

use super::*;

fn checked(batch: &[u8]) -> Result<BatchHeader, BatchError> {
    validate(batch, &Limits::default())
}

/// Reads a batch in every way there is; only a panic is wrong. A batch that passes must be readable to its end.
fn read_in_all_ways(batch: &[u8]) {
    let verdict = checked(batch);
    let read: Option<Vec<_>> = records(batch, &Limits::default())
        .ok()
        .and_then(|records| records.map(Result::ok).collect());
    let _ = find_timestamp(batch, i64::MAX, &Limits::default());
    if let Ok(header) = verdict {
        let read = read.expect("what was let in can be read");
        assert_eq!(read.len(), header.record_count as usize);
        let found = find_timestamp(batch, read[0].timestamp_ms, &Limits::default());
        assert_eq!(found, Ok(Some((read[0].offset, read[0].timestamp_ms))));
    }
}

#[test]
fn every_flipped_bit_is_told_or_outside_the_checksum() {
    for compression in ALL {
        let sound = three_records(compression);
        let header = checked(&sound).expect("sound");
        for bit in 0..sound.len() * 8 {
            let mut flipped = sound.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let outside = matches!(bit / 8, 0..8 | 12..16);
            match checked(&flipped) {
                Ok(other) => {
                    assert!(outside, "bit {bit} of {compression} went unseen");
                    let same = BatchHeader {
                        base_offset: header.base_offset,
                        leader_epoch: header.leader_epoch,
                        ..other
                    };
                    assert_eq!(same, header);
                }
                Err(error) => assert!(!outside, "bit {bit} of {compression}: {error}"),
            }
            // The same damage by someone who knows how to sum up.
            seal_checksum(&mut flipped);
            read_in_all_ways(&flipped);
        }
    }
}

#[test]
fn every_cut_is_told() {
    for compression in ALL {
        let sound = three_records(compression);
        for length in 0..sound.len() {
            let needed = if length < BATCH_OVERHEAD_BYTES {
                BATCH_OVERHEAD_BYTES
            } else {
                sound.len()
            };
            let truncated = BatchError::Truncated {
                needed,
                given: length,
            };
            assert_eq!(checked(&sound[..length]), Err(truncated));
            read_in_all_ways(&sound[..length]);
        }
        // A cut that the header agrees with.
        for length in 0..sound.len() - BATCH_OVERHEAD_BYTES {
            let body = &sound[BATCH_OVERHEAD_BYTES..][..length];
            let batch = batch_around(compression, 3, body);
            assert!(
                checked(&batch).is_err(),
                "{compression} cut to {length} bytes was let in"
            );
            read_in_all_ways(&batch);
        }
    }
}

#[test]
fn nothing_may_follow() {
    for compression in ALL {
        let mut batch = three_records(compression);
        let length_bytes = batch.len();
        batch.push(0);
        let given = batch.len();
        assert_eq!(
            checked(&batch),
            Err(BatchError::TrailingBytes { length_bytes, given })
        );
        // Inside the batch, after the records or after their compression.
        let batch = batch_around(compression, 3, &batch[BATCH_OVERHEAD_BYTES..]);
        assert!(
            checked(&batch).is_err(),
            "{compression} with a byte more was let in"
        );
        // A record more than the header says.
        let fewer = batch_around(
            compression,
            2,
            &three_records(compression)[BATCH_OVERHEAD_BYTES..],
        );
        assert_eq!(
            checked(&fewer),
            Err(BatchError::TrailingRecords { record_count: 2 })
        );
    }
}

fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Result<BatchHeader, BatchError> {
    let mut batch = three_records(Compression::None);
    change(&mut batch);
    seal_checksum(&mut batch);
    checked(&batch)
}

fn with_attributes(attributes: u16) -> Result<BatchHeader, BatchError> {
    changed(|batch| put(batch, header::ATTRIBUTES_AT, &attributes.to_be_bytes()))
}

#[test]
fn attributes_that_are_not_for_producers() {
    assert_eq!(with_attributes(1 << 5), Err(BatchError::ControlBatch));
    assert_eq!(with_attributes(1 << 3), Err(BatchError::LogAppendTime));
    assert_eq!(with_attributes(1 << 6), Err(BatchError::DeleteHorizon));
    for bit in 7..16 {
        let attributes = 1 << bit;
        assert_eq!(
            with_attributes(attributes),
            Err(BatchError::UnknownAttributes { attributes })
        );
    }
    for code in 5..8 {
        let error = BatchError::UnknownCompression { code };
        assert_eq!(with_attributes(u16::from(code)), Err(error));
    }
}

#[test]
fn other_formats_are_named() {
    for magic in [0, 1, 3, -1] {
        let result = changed(|batch| batch[header::MAGIC_AT] = magic as u8);
        assert_eq!(result, Err(BatchError::UnsupportedMagic { magic }));
    }
    // A message of format 1 may be shorter than our header.
    let mut old = [0; 34];
    old[header::MAGIC_AT] = 1;
    assert_eq!(
        BatchHeader::read(&old),
        Err(BatchError::UnsupportedMagic { magic: 1 })
    );
}

#[test]
fn lengths_and_counts() {
    for length in [i32::MIN, -1, 0, 48] {
        let result = changed(|batch| put(batch, LENGTH_AT, &length.to_be_bytes()));
        let length_bytes = i64::from(length) + 12;
        assert_eq!(result, Err(BatchError::LengthTooSmall { length_bytes }));
    }
    for (record_count, last_offset_delta) in [(0, -1), (-1, -2), (i32::MIN, i32::MAX), (3, 3), (2, 2)] {
        let result = changed(|batch| {
            put(batch, RECORD_COUNT_AT, &i32::to_be_bytes(record_count));
            put(batch, LAST_OFFSET_DELTA_AT, &i32::to_be_bytes(last_offset_delta));
        });
        assert_eq!(
            result,
            Err(BatchError::RecordCount {
                record_count,
                last_offset_delta
            })
        );
    }
    // Two thousand million records in a few bytes.
    let many = batch_around(Compression::None, i32::MAX, &[]);
    let fault = RecordFault::CutShort;
    assert_eq!(checked(&many), Err(BatchError::Record { index: 0, fault }));
}

#[test]
fn producers_that_do_not_exist() {
    let producer = |id: i64, epoch: i16, sequence: i32, transactional: bool| {
        let mut builder = BatchBuilder::new(Compression::None).with_producer(id, epoch, sequence);
        builder.set_transactional(transactional);
        builder.append(0, None, None, &[]);
        checked(&builder.build()).is_ok()
    };
    assert!(producer(-1, -1, -1, false));
    assert!(producer(0, 0, 0, false));
    assert!(producer(i64::MAX, i16::MAX, i32::MAX, true));
    assert!(!producer(-1, -1, -1, true));
    assert!(!producer(-2, 0, 0, false));
    assert!(!producer(5, -1, 0, false));
    assert!(!producer(5, 0, -1, false));
}

/// The fault of a batch of one record with these bytes, the same in memory and out of a decompressor.
fn fault_of(record: &[u8]) -> RecordFault {
    let mut faults = ALL.map(|compression| {
        let mut body = Vec::new();
        compress::compress(compression, record, &mut body);
        match checked(&batch_around(compression, 1, &body)) {
            Err(BatchError::Record { index: 0, fault }) => fault,
            other => panic!("{compression}: {other:?}"),
        }
    });
    let in_memory = faults[0];
    // Where a stream ends is not known beforehand: there a length beyond it shows as another fault.
    if in_memory == (RecordFault::Length { length: 7 }) {
        faults[0] = faults[1];
    }
    assert_eq!(faults, [faults[1]; 5]);
    in_memory
}

#[test]
fn malformed_records() {
    let sound: &[u8] = &[12, 0, 0, 0, 1, 1, 0];
    checked(&batch_around(Compression::None, 1, sound)).expect("the smallest record");
    let with = |at: usize, byte: u8| {
        let mut record = sound.to_vec();
        record[at] = byte;
        fault_of(&record)
    };
    assert_eq!(with(0, 1), RecordFault::Length { length: -1 });
    assert_eq!(with(0, 14), RecordFault::Length { length: 7 });
    assert_eq!(fault_of(&[10, 0, 0, 0, 1, 1]), RecordFault::Length { length: 5 });
    assert_eq!(with(3, 2), RecordFault::OffsetDelta { offset_delta: 1 });
    assert_eq!(with(4, 3), RecordFault::FieldLength { length: -2 });
    assert_eq!(with(4, 8), RecordFault::FieldLength { length: 4 });
    assert_eq!(with(5, 4), RecordFault::FieldLength { length: 2 });
    assert_eq!(with(6, 1), RecordFault::HeaderCount { count: -1 });
    assert_eq!(with(6, 2), RecordFault::HeaderCount { count: 1 });
    assert_eq!(fault_of(&[0x80; 12]), RecordFault::NumberTooLong);
    assert_eq!(
        fault_of(&[14, 0, 0, 0, 1, 1, 0, 0]),
        RecordFault::LengthMismatch { length: 7, taken: 6 }
    );
    // A header whose key is null.
    assert_eq!(
        fault_of(&[16, 0, 0, 0, 1, 1, 2, 1, 1]),
        RecordFault::FieldLength { length: -1 }
    );
}

/// A record whose headers are two bytes each: an empty key and an empty value.
fn record_of_headers(count: usize) -> Vec<u8> {
    let mut fields = vec![0, 0, 0, 1, 1];
    crate::varint::put_varint(&mut fields, count as i64);
    fields.resize(fields.len() + 2 * count, 0);
    let mut record = Vec::new();
    crate::varint::put_varint(&mut record, fields.len() as i64);
    record.extend_from_slice(&fields);
    record
}

#[test]
fn records_with_more_headers_than_anybody_sends() {
    let most = HEADERS_MAX as usize;
    checked(&batch_around(Compression::None, 1, &record_of_headers(most))).expect("so many are taken");
    assert_eq!(
        fault_of(&record_of_headers(most + 1)),
        RecordFault::TooManyHeaders {
            count: HEADERS_MAX + 1,
            headers_max: HEADERS_MAX,
        }
    );
}

#[test]
fn stored_records_with_more_headers_than_memory_has_room_for() {
    let read = |count: usize| {
        let mut body = Vec::new();
        compress::compress(Compression::Gzip, &record_of_headers(count), &mut body);
        let batch = batch_around(Compression::Gzip, 1, &body);
        let mut records = records(&batch, &Limits::default()).expect("it is unpacked");
        records
            .next()
            .expect("there is one")
            .map(|record| record.headers.len())
    };
    let most = STORED_HEADERS_MAX as usize;
    assert_eq!(read(most), Ok(most));
    let count = 8 << 20;
    assert_eq!(
        read(count),
        Err(BatchError::Record {
            index: 0,
            fault: RecordFault::TooManyHeaders {
                count: count as i32,
                headers_max: STORED_HEADERS_MAX,
            }
        })
    );
}

#[test]
fn a_time_that_does_not_exist() {
    let mut record = vec![30, 0, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    record.extend_from_slice(&[0, 1, 1, 0]);
    let timestamp_delta = i64::MAX;
    assert_eq!(fault_of(&record), RecordFault::TimestampDelta { timestamp_delta });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        read_in_all_ways(&bytes);
        batches(&bytes).for_each(drop);
    }

    #[test]
    fn any_body(
        body in proptest::collection::vec(any::<u8>(), 0..300),
        compression in proptest::sample::select(&ALL[..]),
        record_count in 1i32..5,
    ) {
        read_in_all_ways(&batch_around(compression, record_count, &body));
    }

    #[test]
    fn sound_compression_of_any_body(
        body in proptest::collection::vec(0u8..20, 0..100),
        compression in proptest::sample::select(&ALL[..]),
        record_count in 1i32..5,
    ) {
        let mut compressed = Vec::new();
        compress::compress(compression, &body, &mut compressed);
        read_in_all_ways(&batch_around(compression, record_count, &compressed));
    }
}
