//! A compacted batch: the records that stay, each with every byte it had, in a batch that spans the same offsets.

use std::ops::ControlFlow;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::Offset;

const LIMITS: Limits = Limits {
    decompressed_bytes_max: 1 << 20,
    snappy_block_bytes_max: 1 << 20,
    zstd_window_log_max: 23,
};

/// The key itself.
impl KeyDigest for Vec<u8> {
    fn update(&mut self, piece: &[u8]) {
        self.extend_from_slice(piece);
    }
}

/// A stored batch of six records with keys `0`–`2` twice, the fourth of them a tombstone, the last without a key.
fn six(compression: Compression) -> Vec<u8> {
    let mut builder = BatchBuilder::new(compression).with_producer(77, 3, 41);
    for index in 0..6_i64 {
        let key = (index % 3).to_string();
        let key = (index < 5).then_some(key.as_bytes());
        let value = "a value ".repeat(20);
        let value = (index != 3).then_some(value.as_bytes());
        builder.append(1_000 - 10 * index, key, value, &[(b"h", None), (b"", Some(b"x"))]);
    }
    let mut batch = builder.build().to_vec();
    set_base_offset(&mut batch, Offset(500));
    set_leader_epoch(&mut batch, crate::Epoch(9));
    batch
}

fn all_of(batch: &[u8]) -> Vec<Record> {
    let read = records(batch, &LIMITS).expect("a whole batch");
    read.map(|record| record.expect("a sound record")).collect()
}

#[test]
fn keys_are_shown_in_order() {
    for compression in ALL {
        let mut seen = Vec::new();
        visit_digests(&six(compression), &LIMITS, &Vec::new(), |record| {
            seen.push((record.offset.0, record.key.clone(), record.is_null));
            match record.offset.0 {
                505 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        })
        .expect("a sound batch");
        let key = |key: &str| Some(key.as_bytes().to_vec());
        let expected = [
            (500, key("0"), false),
            (501, key("1"), false),
            (502, key("2"), false),
            (503, key("0"), true),
            (504, key("1"), false),
            (505, None, false),
        ];
        assert_eq!(seen, expected);
    }
}

#[test]
fn what_stays_keeps_its_bytes_and_the_batch_its_place() {
    for compression in ALL {
        let batch = six(compression);
        let before = BatchHeader::read(&batch).expect("whole");
        let kept = retain(&batch, &LIMITS, &(), |record| {
            [502, 503].contains(&record.offset.0)
        });
        let Ok(Retained::Some(kept)) = kept else {
            panic!("two of six are some: {kept:?}");
        };
        assert!(checksum_holds(&kept));
        let after = BatchHeader::read(&kept).expect("whole");
        assert_eq!(
            after,
            BatchHeader {
                length_bytes: kept.len(),
                crc: after.crc,
                max_timestamp_ms: 980,
                record_count: 2,
                ..before
            }
        );
        assert_eq!(all_of(&kept), all_of(&batch)[2..4]);
    }
}

#[test]
fn all_or_nothing_makes_no_batch() {
    let batch = six(Compression::Zstd);
    assert_eq!(retain(&batch, &LIMITS, &(), |_| true), Ok(Retained::All));
    assert_eq!(retain(&batch, &LIMITS, &(), |_| false), Ok(Retained::Nothing));
}

#[test]
fn an_emptied_batch_spans_its_offsets_and_can_be_emptied_again() {
    for compression in ALL {
        let batch = six(compression);
        let before = BatchHeader::read(&batch).expect("whole");
        let empty = emptied(&batch).expect("whole");
        let after = BatchHeader::read(&empty).expect("whole");
        assert!(checksum_holds(&empty));
        assert_eq!(
            (after.base_offset, after.next_offset()),
            (Offset(500), Offset(506))
        );
        assert_eq!((after.producer_id, after.producer_epoch), (77, 3));
        assert_eq!(
            (after.base_sequence, after.last_sequence()),
            (41, before.last_sequence())
        );
        assert_eq!(
            (after.record_count, after.length_bytes),
            (0, BATCH_OVERHEAD_BYTES)
        );
        assert!(all_of(&empty).is_empty());
        assert_eq!(find_timestamp(&empty, 0, &LIMITS), Ok(None));
        assert_eq!(retain(&empty, &LIMITS, &(), |_| false), Ok(Retained::Nothing));
        assert_eq!(emptied(&empty).expect("whole"), empty);
    }
}

#[test]
fn a_placeholder_is_what_is_left_of_the_batch_that_it_stands_for() {
    let batch = six(Compression::None);
    let mut empty = emptied(&batch).expect("whole");
    let header = BatchHeader::read(&empty).expect("whole");
    let place = Place {
        first_offset: header.base_offset,
        offset_count: 6,
        epoch: header.leader_epoch,
        producer: Some((77, 3, 41)),
    };
    // Only the base timestamp is not known any more.
    let stands = placeholder(&place);
    assert!(checksum_holds(&stands));
    let mut expected = header;
    let got = BatchHeader::read(&stands).expect("whole");
    (expected.base_timestamp_ms, expected.crc) = (got.base_timestamp_ms, got.crc);
    assert_eq!(got, expected);
    assert_eq!(retain(&stands, &LIMITS, &(), |_| true), Ok(Retained::Nothing));
    let nobodys = Place {
        producer: None,
        ..place
    };
    empty = placeholder(&nobodys);
    let header = BatchHeader::read(&empty).expect("whole");
    let none = (header.producer_id, header.producer_epoch, header.base_sequence);
    assert_eq!(none, (-1, -1, -1));
    assert!(all_of(&empty).is_empty());
}

#[test]
fn the_time_of_the_append_stays() {
    let mut batch = six(Compression::None);
    set_log_append_time(&mut batch, 77_777);
    let Ok(Retained::Some(kept)) = retain(&batch, &LIMITS, &(), |record| record.offset.0 == 504) else {
        panic!("one of six is some");
    };
    assert_eq!(all_of(&kept)[0].timestamp_ms, 77_777);
}

/// Ten records of 100 KiB each, of which the largest part is keys.
fn large(compression: Compression) -> Vec<u8> {
    let mut builder = BatchBuilder::new(compression);
    for index in 0..10_u8 {
        let key: Vec<u8> = (0..100 << 10).map(|at: u32| (at >> 6) as u8 ^ index).collect();
        builder.append(1_000, Some(&key), Some(&[index; 1_000]), &[]);
    }
    builder.build().to_vec()
}

#[test]
fn keys_that_come_in_pieces_are_whole() {
    for compression in ALL {
        let batch = large(compression);
        let mut keys = Vec::new();
        visit_digests(&batch, &LIMITS, &Vec::new(), |record| {
            keys.extend(record.key.clone());
            ControlFlow::Continue(())
        })
        .expect("a sound batch");
        let expected: Vec<Vec<u8>> = all_of(&batch)
            .into_iter()
            .map(|record| record.key.expect("all have keys").to_vec())
            .collect();
        assert!(keys == expected, "{compression}");
        let odd = retain(&batch, &LIMITS, &(), |record| record.offset.0 % 2 == 1);
        let Ok(Retained::Some(odd)) = odd else {
            panic!("five of ten are some");
        };
        let expected: Vec<Record> = all_of(&batch).into_iter().skip(1).step_by(2).collect();
        assert!(all_of(&odd) == expected, "{compression}");
    }
}

/// Records beyond the limit are not unpacked when the first ones are shown: there is never all of a batch in memory.
#[test]
fn records_are_shown_before_the_rest_is_unpacked() {
    for compression in ALL.into_iter().filter(|codec| *codec != Compression::None) {
        let batch = large(compression);
        let few = Limits {
            decompressed_bytes_max: 500 << 10,
            ..LIMITS
        };
        let first = visit_keys(&batch, &few, |_| ControlFlow::Break(()));
        assert_eq!(first, Ok(()), "{compression}");
        let mut asked = 0;
        let kept = retain(&batch, &few, &(), |_| {
            asked += 1;
            true
        });
        assert!(matches!(kept, Err(BatchError::DecompressedTooLarge { .. })));
        assert!((1..5).contains(&asked), "{compression}: {asked}");
    }
}

#[test]
fn a_bomb_and_a_cut_batch_are_errors() {
    let bomb = batch_around(Compression::Gzip, 3, &{
        let mut out = Vec::new();
        super::super::compress::compress(Compression::Gzip, &vec![0; 2 << 20], &mut out);
        out
    });
    // It ends at the first record that is none: the rest is never unpacked.
    assert!(matches!(
        retain(&bomb, &LIMITS, &(), |_| true),
        Err(BatchError::Record { index: 0, .. })
    ));
    let whole = six(Compression::None);
    let cut = batch_around(
        Compression::None,
        6,
        &whole[BATCH_OVERHEAD_BYTES..whole.len() - 7],
    );
    assert!(matches!(
        retain(&cut, &LIMITS, &(), |_| true),
        Err(BatchError::Record { .. })
    ));
    assert!(emptied(&whole[..50]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_choice_of_any_records(
        values in vec(vec(any::<u8>(), 0..200), 1..40),
        choice in any::<u64>(),
        codec in 0..5_usize,
    ) {
        let mut builder = BatchBuilder::new(ALL[codec]);
        for (index, value) in values.iter().enumerate() {
            builder.append(1_000 + index as i64 * 7, Some(&value[..value.len() / 2]), Some(value), &[]);
        }
        let batch = builder.build();
        let stays = |offset: Offset| choice >> (offset.0 % 64) & 1 == 1;
        let expected: Vec<_> = all_of(&batch).into_iter().filter(|record| stays(record.offset)).collect();
        match retain(&batch, &LIMITS, &(), |record| stays(record.offset)).expect("a sound batch") {
            Retained::All => prop_assert_eq!(expected.len(), values.len()),
            Retained::Nothing => prop_assert!(expected.is_empty()),
            Retained::Some(kept) => {
                prop_assert!(checksum_holds(&kept));
                let header = BatchHeader::read(&kept).expect("whole");
                prop_assert_eq!(Some(header.max_timestamp_ms), expected.iter().map(|r| r.timestamp_ms).max());
                prop_assert_eq!(all_of(&kept), expected);
            }
        }
    }

    #[test]
    fn any_bytes_are_an_answer(body in vec(any::<u8>(), 0..300), count in -3..20_i32, codec in 0..5_usize) {
        let batch = batch_around(ALL[codec], count, &body);
        let _ = retain(&batch, &LIMITS, &(), |record| record.offset.0 % 2 == 0);
        let _ = visit_keys(&batch, &LIMITS, |_| ControlFlow::Continue(()));
        prop_assert!(emptied(&batch).is_ok());
    }
}
