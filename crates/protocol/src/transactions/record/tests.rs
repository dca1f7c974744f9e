//! Records read back as they were written, byte by byte as Kafka's schemas say; damaged ones are errors.

use proptest::prelude::*;

use super::*;

fn state() -> IdState {
    let partitions = [("a", 0), ("a", 7), ("bb", 2)];
    IdState {
        phase: TransactionState::PrepareCommit,
        producer: ProducerId(5),
        previous: Some(ProducerId(5)),
        next: Some(ProducerId(6)),
        epoch: 32_767,
        last_epoch: Some(3),
        next_epoch: Some(0),
        timeout_ms: 60_000,
        partitions: Arc::new(
            partitions
                .into_iter()
                .map(|(topic, index)| TopicPartition {
                    topic: Name::from(topic),
                    index,
                })
                .collect(),
        ),
        start_ms: 1_000,
        updated_ms: 2_000,
        version: 2,
    }
}

fn one_of_each() -> Vec<IdState> {
    let mut states = vec![state(), IdState::fresh(ProducerId(9), 1, 77)];
    for phase in TransactionState::ALL {
        states.push(IdState {
            phase,
            partitions: Arc::default(),
            previous: None,
            next: None,
            last_epoch: None,
            next_epoch: None,
            version: 0,
            ..state()
        });
    }
    states
}

#[test]
fn every_record_reads_back_as_it_was_written() {
    for state in one_of_each() {
        let record = encode("id", Some(&state));
        let read = decode(&record.key, record.value.as_deref()).expect("just written");
        assert_eq!(read, (Name::from("id"), Some(state)));
    }
    let record = encode("id", None);
    assert_eq!(decode(&record.key, None), Ok((Name::from("id"), None)));
}

#[test]
fn records_have_the_bytes_of_kafkas_schemas() {
    let record = encode(
        "tx",
        Some(&IdState {
            last_epoch: None,
            next_epoch: None,
            ..state()
        }),
    );
    assert_eq!(&record.key[..], b"\x00\x00\x00\x02tx");
    let expected: Vec<u8> = [
        // Version, producer id, epoch, timeout, status.
        &b"\x00\x01\x00\x00\x00\x00\x00\x00\x00\x05\x7f\xff\x00\x00\xea\x60\x02"[..],
        // Two topics, each with its partitions and no tags.
        b"\x03\x02a\x03\x00\x00\x00\x00\x00\x00\x00\x07\x00\x03bb\x02\x00\x00\x00\x02\x00",
        // Times of the update and of the start.
        b"\x00\x00\x00\x00\x00\x00\x07\xd0\x00\x00\x00\x00\x00\x00\x03\xe8",
        // Three tagged fields: the ids before and after, the client's version.
        b"\x03\x00\x08\x00\x00\x00\x00\x00\x00\x00\x05\x01\x08\x00\x00\x00\x00\x00\x00\x00\x06\x02\x02\x00\x02",
    ]
    .concat();
    assert_eq!(&record.value.expect("a state")[..], &expected[..]);
    // Without a transaction there is no list, and no start.
    let empty = encode("tx", Some(&IdState::fresh(ProducerId(9), 1, 77)));
    let expected = b"\x00\x01\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00\x00\x01\x00\x00\
        \x00\x00\x00\x00\x00\x00\x00\x4d\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x09";
    assert_eq!(&empty.value.expect("a state")[..], expected);
}

#[test]
fn a_record_of_an_older_kafka_is_read() {
    let value = b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x00\x02\x00\x00\xea\x60\x01\
        \x00\x00\x00\x01\x00\x01a\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x07\
        \x00\x00\x00\x00\x00\x00\x07\xd0\x00\x00\x00\x00\x00\x00\x03\xe8";
    let (_, read) = decode(b"\x00\x00\x00\x01t", Some(value)).expect("sound");
    let read = read.expect("a state");
    assert_eq!(
        (read.phase, read.epoch, read.version),
        (TransactionState::Ongoing, 2, 0)
    );
    assert_eq!(read.partitions.len(), 2);
    assert_eq!((read.previous, read.next), (None, None));
    let empty = b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x00\x02\x00\x00\xea\x60\x00\
        \xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x07\xd0\xff\xff\xff\xff\xff\xff\xff\xff";
    let (_, read) = decode(b"\x00\x00\x00\x01t", Some(empty)).expect("sound");
    assert_eq!(read.expect("a state").start_ms, -1);
}

#[test]
fn tagged_fields_of_others_are_passed_over() {
    let record = encode("t", Some(&IdState::fresh(ProducerId(9), 1, 77)));
    let mut value = record.value.expect("a state").to_vec();
    let tags = value.len() - 11;
    assert_eq!(value[tags], 1);
    value[tags] = 2;
    value.extend(b"\x63\x02hi");
    let (_, read) = decode(&record.key, Some(&value)).expect("sound");
    assert_eq!(read, Some(IdState::fresh(ProducerId(9), 1, 77)));
}

#[test]
fn what_cannot_be_is_refused() {
    let sound = encode("t", Some(&state())).value.expect("a state");
    let with = |at: usize, bytes: &[u8]| {
        let mut value = sound.to_vec();
        value[at..at + bytes.len()].copy_from_slice(bytes);
        decode(b"\x00\x00\x00\x01t", Some(&value))
    };
    assert!(matches!(
        with(0, &[0, 2]),
        Err(DecodeError::UnknownVersion { .. })
    ));
    assert!(
        matches!(with(2, &[0xff]), Err(DecodeError::Impossible { .. })),
        "a producer id"
    );
    assert!(
        matches!(with(10, &[0xff]), Err(DecodeError::Impossible { .. })),
        "an epoch"
    );
    assert!(
        matches!(with(12, &[0xff]), Err(DecodeError::Impossible { .. })),
        "a timeout"
    );
    for status in [6, 7, 8, 0xff] {
        assert!(matches!(
            with(16, &[status]),
            Err(DecodeError::UnknownKind { .. })
        ));
    }
    assert!(matches!(
        with(17, b"\xff\xff\xff\xff\x0f"),
        Err(DecodeError::Truncated { .. })
    ));
    assert!(matches!(
        with(17, b"\xff\xff\xff\xff\xff"),
        Err(DecodeError::Impossible { .. })
    ));
    assert!(
        matches!(with(21, &[0xff]), Err(DecodeError::Impossible { .. })),
        "a partition"
    );
    assert!(matches!(
        decode(b"\x00\x01\x00\x01t", None),
        Err(DecodeError::UnknownVersion { .. })
    ));
    assert!(matches!(
        decode(b"\x00\x00\x00\x01tt", None),
        Err(DecodeError::LeftOver { .. })
    ));
}

#[test]
fn a_record_that_was_cut_short_is_an_error() {
    for state in one_of_each() {
        let record = encode("id", Some(&state));
        for length in 0..record.key.len() {
            assert!(decode(&record.key[..length], None).is_err());
        }
        let value = record.value.expect("a state");
        for length in 0..value.len() {
            assert!(
                decode(&record.key, Some(&value[..length])).is_err(),
                "{state:?} cut to {length}"
            );
        }
    }
}

#[test]
fn a_record_takes_at_most_what_is_said() {
    for state in one_of_each() {
        let record = encode("id", Some(&state));
        let bytes = record.key.len() + record.value.map_or(0, |value| value.len());
        assert!(bytes <= record_bytes_at_most("id", state.partitions.iter()));
    }
}

proptest! {
    #[test]
    fn whatever_the_log_holds_is_read_or_refused(
        which in 0..8usize,
        at in 0..120usize,
        byte: u8,
        tail in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let record = encode("id", Some(&one_of_each()[which]));
        let mut value = record.value.map(|value| value.to_vec()).unwrap_or_default();
        if at < value.len() {
            value[at] = byte;
        }
        value.extend(tail);
        let _ = decode(&record.key, Some(&value));
    }
}
