//! Searching batches by time, without a node around.

use record::{BatchBuilder, Compression, set_base_offset, set_leader_epoch, set_log_append_time};

use super::*;

/// A batch at `first` whose records have these timestamps.
fn batch(first: i64, compression: Compression, timestamps: &[i64]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(compression);
    for timestamp_ms in timestamps {
        builder.append(*timestamp_ms, None, Some(b"x"), &[]);
    }
    let mut batch = builder.build().to_vec();
    set_base_offset(&mut batch, Offset(first));
    set_leader_epoch(&mut batch, Epoch(7));
    batch
}

fn find(batches: &[Vec<u8>], from: i64, timestamp_ms: i64, pick: Pick) -> Option<(i64, i64)> {
    let batches = [Bytes::from(batches.concat())];
    match sift(&batches, Offset(from), timestamp_ms, pick, &Limits::default()).expect("sound batches") {
        Sifted::Found(found) => {
            assert_eq!(found.epoch, 7, "the epoch is the batch's");
            Some((found.offset, found.timestamp_ms))
        }
        Sifted::Next(_) => None,
    }
}

#[test]
fn the_first_record_since_a_time_is_found_in_any_codec() {
    for compression in [
        Compression::None,
        Compression::Gzip,
        Compression::Zstd,
        Compression::Lz4,
        Compression::Snappy,
    ] {
        let log = [
            batch(10, compression, &[100, 90, 120]),
            batch(13, compression, &[110, 130]),
        ];
        assert_eq!(find(&log, 10, 0, Pick::First), Some((10, 100)));
        assert_eq!(find(&log, 10, 101, Pick::First), Some((12, 120)));
        assert_eq!(find(&log, 10, 121, Pick::First), Some((14, 130)));
        assert_eq!(find(&log, 10, 131, Pick::First), None);
    }
}

#[test]
fn records_below_the_log_start_are_not_found() {
    let log = [
        batch(10, Compression::Lz4, &[100, 90, 120]),
        batch(13, Compression::None, &[110, 130]),
    ];
    assert_eq!(find(&log, 11, 95, Pick::First), Some((12, 120)));
    assert_eq!(find(&log, 11, 80, Pick::First), Some((11, 90)));
    assert_eq!(find(&log, 13, 95, Pick::First), Some((13, 110)));
}

#[test]
fn where_the_append_gave_the_time_the_newest_is_the_last() {
    let mut appended = batch(5, Compression::None, &[1, 2, 3]);
    set_log_append_time(&mut appended, 500);
    assert_eq!(find(&[appended.clone()], 5, 500, Pick::Newest), Some((7, 500)));
    assert_eq!(find(&[appended.clone()], 5, 400, Pick::First), Some((5, 500)));
    assert_eq!(find(&[appended], 6, 400, Pick::First), Some((6, 500)));
    let created = batch(5, Compression::None, &[1, 3, 3]);
    assert_eq!(find(&[created], 5, 3, Pick::Newest), Some((6, 3)));
}

#[test]
fn a_timestamp_means_what_its_version_says() {
    assert_eq!(Query::of(-1, 1), Some(Query::Latest));
    assert_eq!(Query::of(-2, 1), Some(Query::Earliest));
    assert_eq!(Query::of(0, 1), Some(Query::Since(0)));
    for (timestamp, first_version) in [(-3, 7), (-4, 8), (-5, 9), (-6, 11)] {
        assert_eq!(Query::of(timestamp, first_version - 1), None);
        assert!(Query::of(timestamp, first_version).is_some());
    }
    assert_eq!(Query::of(-7, 11), None);
    assert_eq!(Query::of(i64::MIN, 11), None);
}
