//! Markers are Kafka's byte for byte, come back as they were written, and are never taken from a client.

use proptest::prelude::*;

use super::*;
use crate::Offset;

const AT_MS: i64 = 1_700_000_000_000;
const COMMITTED: Marker = Marker {
    producer_id: 77,
    producer_epoch: 3,
    commit: true,
    coordinator_epoch: 9,
    first: None,
};
const ABORTED: Marker = Marker {
    producer_id: (1 << 53) + 5,
    producer_epoch: i16::MAX,
    commit: false,
    coordinator_epoch: i32::MAX,
    first: None,
};

/// Written by kafka-clients 4.3.1: `MemoryRecords.withEndTransactionMarker(0, 1_700_000_000_000, -1, 77, 3,
/// new EndTransactionMarker(COMMIT, 9))`.
#[rustfmt::skip]
const COMMITTED_BY_KAFKA: &[u8] = &[
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // base offset
    0x00, 0x00, 0x00, 0x42, // length: 66 more bytes
    0xff, 0xff, 0xff, 0xff, // leader epoch: none
    0x02, // magic
    0x41, 0x2a, 0x64, 0xdd, // checksum
    0x00, 0x30, // attributes: transactional, control
    0x00, 0x00, 0x00, 0x00, // last offset delta
    0x00, 0x00, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x00, // base timestamp
    0x00, 0x00, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x00, // largest timestamp
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x4d, // producer id
    0x00, 0x03, // producer epoch
    0xff, 0xff, 0xff, 0xff, // base sequence: none
    0x00, 0x00, 0x00, 0x01, // record count
    0x20, 0x00, 0x00, 0x00, // length 16, attributes, deltas 0 and 0
    0x08, 0x00, 0x00, 0x00, 0x01, // key: version 0, commit
    0x0c, 0x00, 0x00, 0x00, 0x00, 0x00, 0x09, // value: version 0, coordinator epoch
    0x00, // no header
];

/// The same with producer 2^53 + 5 of epoch 32,767 and `EndTransactionMarker(ABORT, Integer.MAX_VALUE)`.
#[rustfmt::skip]
const ABORTED_BY_KAFKA: &[u8] = &[
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // base offset
    0x00, 0x00, 0x00, 0x42, // length: 66 more bytes
    0xff, 0xff, 0xff, 0xff, // leader epoch: none
    0x02, // magic
    0xdf, 0xaf, 0x55, 0x0b, // checksum
    0x00, 0x30, // attributes: transactional, control
    0x00, 0x00, 0x00, 0x00, // last offset delta
    0x00, 0x00, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x00, // base timestamp
    0x00, 0x00, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x00, // largest timestamp
    0x00, 0x20, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05, // producer id
    0x7f, 0xff, // producer epoch
    0xff, 0xff, 0xff, 0xff, // base sequence: none
    0x00, 0x00, 0x00, 0x01, // record count
    0x20, 0x00, 0x00, 0x00, // length 16, attributes, deltas 0 and 0
    0x08, 0x00, 0x00, 0x00, 0x00, // key: version 0, abort
    0x0c, 0x00, 0x00, 0x7f, 0xff, 0xff, 0xff, // value: version 0, coordinator epoch
    0x00, // no header
];

fn read(batch: &[u8]) -> Result<Option<Marker>, BatchError> {
    Marker::read(&BatchHeader::read(batch)?, batch)
}

/// A control batch of one record, of the producer of `COMMITTED`.
fn control(key: Option<&[u8]>, value: Option<&[u8]>) -> Vec<u8> {
    control_of(Compression::None, key, value)
}

fn control_of(compression: Compression, key: Option<&[u8]>, value: Option<&[u8]>) -> Vec<u8> {
    let mut builder = BatchBuilder::new(compression).with_producer(77, 3, -1);
    builder.set_transactional(true);
    builder.set_control(true);
    builder.append(AT_MS, key, value, &[]);
    builder.build().to_vec()
}

#[test]
fn golden_bytes() {
    for (marker, by_kafka) in [(COMMITTED, COMMITTED_BY_KAFKA), (ABORTED, ABORTED_BY_KAFKA)] {
        assert_eq!(&marker.build(AT_MS)[..], by_kafka);
        assert!(checksum_holds(by_kafka));
        assert_eq!(read(by_kafka), Ok(Some(marker)));
    }
}

#[test]
fn a_marker_that_a_broker_has_numbered_is_the_same() {
    let mut batch = ABORTED.build(AT_MS).to_vec();
    set_base_offset(&mut batch, crate::Offset(1 << 40));
    set_leader_epoch(&mut batch, crate::Epoch(9));
    set_log_append_time(&mut batch, AT_MS + 5);
    assert!(checksum_holds(&batch));
    assert_eq!(read(&batch), Ok(Some(ABORTED)));
    let header = BatchHeader::read(&batch).expect("whole");
    assert_eq!((header.last_sequence(), header.record_count), (-1, 1));
    assert_eq!(header.next_offset(), crate::Offset((1 << 40) + 1));
}

#[test]
fn a_client_may_send_none() {
    for compression in ALL {
        let batch = control_of(compression, Some(&[0, 0, 0, 1]), Some(&[0; 6]));
        assert_eq!(
            validate(&batch, &Limits::default()),
            Err(BatchError::ControlBatch)
        );
    }
    for marker in [COMMITTED, ABORTED] {
        let batch = marker.build(AT_MS);
        assert_eq!(examine(&batch, &Limits::default()), Err(BatchError::ControlBatch));
    }
}

#[test]
fn records_of_a_transaction_are_no_marker() {
    assert_eq!(read(GOLDEN), Ok(None));
    // Not even one that looks like it.
    let mut builder = BatchBuilder::new(Compression::None).with_producer(77, 3, 0);
    builder.set_transactional(true);
    builder.append(AT_MS, Some(&[0, 0, 0, 1]), Some(&[0; 6]), &[]);
    assert_eq!(read(&builder.build()), Ok(None));
}

#[test]
fn other_control_batches_are_no_marker() {
    // The change of a leader, the beginning and the end of a snapshot and so on, whatever their values are.
    for kind in (2..20).chain([i16::MIN, -1, i16::MAX]) {
        let key = [[0, 0], kind.to_be_bytes()].concat();
        assert_eq!(read(&control(Some(&key), Some(b"anything"))), Ok(None));
        assert_eq!(read(&control(Some(&key), None)), Ok(None));
    }
    // A marker that is gone.
    let empty = emptied(&COMMITTED.build(AT_MS)).expect("whole");
    assert!(BatchHeader::read(&empty).expect("whole").attributes.is_control());
    assert_eq!(read(&empty), Ok(None));
}

#[test]
fn later_versions_are_read_as_far_as_they_are_known() {
    let (key, value) = ([0, 1, 0, 1, 7], [0, 9, 0, 0, 0, 9, 1, 2, 3]);
    for compression in ALL {
        let batch = control_of(compression, Some(&key), Some(&value));
        assert_eq!(read(&batch), Ok(Some(COMMITTED)), "{compression}");
    }
}

#[test]
fn keys_and_values_that_no_broker_writes() {
    let (key, value) = ([0, 0, 0, 1], [0, 0, 0, 0, 0, 9]);
    let refused = |key, value| read(&control(key, value)).expect_err("it cannot be read");
    let too_short = |part, needed, given| BatchError::ControlTooShort { part, needed, given };
    for given in 0..key.len() {
        let error = too_short(ControlPart::Key, 4, given);
        assert_eq!(refused(Some(&key[..given]), Some(&value)), error);
    }
    for given in 0..value.len() {
        let error = too_short(ControlPart::Value, 6, given);
        assert_eq!(refused(Some(&key), Some(&value[..given])), error);
    }
    assert_eq!(refused(None, Some(&value)), too_short(ControlPart::Key, 4, 0));
    assert_eq!(refused(Some(&key), None), too_short(ControlPart::Value, 6, 0));

    let version = |part| BatchError::ControlVersion { part, version: -1 };
    assert_eq!(
        refused(Some(&[0xff, 0xff, 0, 1]), Some(&value)),
        version(ControlPart::Key)
    );
    assert_eq!(
        refused(Some(&key), Some(&[0xff, 0xff, 0, 0, 0, 9])),
        version(ControlPart::Value)
    );
}

#[test]
fn a_cut_marker_is_told() {
    let batch = COMMITTED.build(AT_MS);
    let header = BatchHeader::read(&batch).expect("whole");
    for length in 0..batch.len() {
        let cut = Marker::read(&header, &batch[..length]);
        assert!(matches!(cut, Err(BatchError::Truncated { .. })), "{length}");
    }
    for length in 0..batch.len() - BATCH_OVERHEAD_BYTES {
        let body = &batch[BATCH_OVERHEAD_BYTES..][..length];
        let cut = Marker::read(&header, &batch_around(Compression::None, 1, body));
        assert!(
            matches!(cut, Err(BatchError::Record { index: 0, .. })),
            "{length}"
        );
    }
}

#[test]
fn a_control_batch_that_unpacks_to_much_is_refused() {
    let batch = control_of(Compression::Zstd, Some(&[0, 0, 0, 1]), Some(&vec![0; 1 << 20]));
    assert!(matches!(
        read(&batch),
        Err(BatchError::DecompressedTooLarge { .. })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_marker_comes_back(
        producer_id: i64, producer_epoch: i16, commit: bool, coordinator_epoch: i32, timestamp_ms: i64,
        first: Option<i64>,
    ) {
        let first = first.map(Offset);
        let marker = Marker { producer_id, producer_epoch, commit, coordinator_epoch, first };
        let batch = marker.build(timestamp_ms);
        prop_assert!(checksum_holds(&batch));
        prop_assert_eq!(read(&batch), Ok(Some(marker)));
        prop_assert_eq!(BatchHeader::read(&batch).expect("whole").max_timestamp_ms, timestamp_ms);
    }

    #[test]
    fn noise_never_panics(
        compression in 0usize..ALL.len(),
        record_count: i32,
        body in proptest::collection::vec(any::<u8>(), 0..200),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let header = BatchHeader::read(COMMITTED_BY_KAFKA).expect("whole");
        let _ = Marker::read(&header, &body);
        let _ = Marker::read(&header, &batch_around(ALL[compression], record_count, &body));
        let mut changed = COMMITTED_BY_KAFKA.to_vec();
        for (at, byte) in changes {
            let at = at.index(changed.len());
            changed[at] = byte;
        }
        let _ = Marker::read(&header, &changed);
        let _ = read(&changed);
    }
}
