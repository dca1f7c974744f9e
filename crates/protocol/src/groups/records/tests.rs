//! Records read back as they were written, byte by byte as Kafka's schemas say; damaged ones are errors.

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use record::{Epoch, Offset, PartitionId, TopicId};

use super::*;
use crate::groups::contract::CommittedOffset;

fn name(text: &str) -> Name {
    Name::from(text)
}

fn assignment() -> Assignment {
    [(1, 0), (1, 300), (7, 2)]
        .into_iter()
        .map(|(topic, index)| PartitionId {
            topic: TopicId([topic; 16]),
            index,
        })
        .collect()
}

fn one_of_each() -> Vec<Change> {
    let partition = TopicPartition {
        topic: name("orders"),
        index: 3,
    };
    let offset = OffsetValue {
        committed: CommittedOffset {
            offset: Offset(42),
            leader_epoch: Some(Epoch(5)),
            metadata: name("note"),
        },
        topic_id: TopicId([9; 16]),
        committed_ms: 1_700_000_000_000,
        maker: None,
        is_copy: false,
    };
    let offset_of_a_maker = OffsetValue {
        maker: Some(name("/10.0.0.9")),
        ..offset.clone()
    };
    let copy = OffsetValue {
        is_copy: true,
        ..offset.clone()
    };
    let pending = PendingValue {
        producer_epoch: 3,
        coordinator_epoch: 12,
        is_overtaken: true,
        offset: offset_of_a_maker.clone(),
    };
    let classic = ClassicValue {
        protocol_type: name("consumer"),
        generation: 4,
        protocol: Some(name("range")),
        leader: Some(name("m-1")),
        state_since_ms: 12,
        members: vec![ClassicMemberValue {
            member: name("m-1"),
            instance: Some(name("one")),
            client_id: name("c"),
            client_host: name("/h"),
            rebalance_timeout: Duration::from_secs(60),
            session_timeout: Duration::from_secs(10),
            metadata: Bytes::from_static(b"wants"),
            assignment: Bytes::from_static(b"gets"),
        }],
    };
    let member = MemberValue {
        instance: None,
        rack: Some(name("r")),
        client_id: name("c"),
        client_host: name("/h"),
        topics: vec![name("a"), name("b")],
        regex: Some(name("x.*")),
        rebalance_timeout: Duration::from_millis(30_001),
        assignor: Some(name("range")),
        classic: Some(ClassicFace {
            session_timeout: Duration::from_secs(45),
            protocols: vec![Protocol {
                name: name("sticky"),
                metadata: Bytes::from_static(&[0; 200]),
            }],
        }),
    };
    let current = CurrentValue {
        epoch: 8,
        previous_epoch: 7,
        progress: Progress::Unrevoked,
        assigned: assignment(),
        revoking: Assignment::default(),
    };
    let whats = vec![
        What::Offset(partition.clone(), Some(offset)),
        What::Offset(partition.clone(), None),
        What::Classic(Some(classic)),
        What::Classic(None),
        What::Consumer(Some(ConsumerValue {
            epoch: 3,
            topics_hash: -77,
        })),
        What::Consumer(None),
        What::Member(name("m"), Some(member.clone())),
        What::Member(
            name("m"),
            Some(MemberValue {
                classic: None,
                ..member
            }),
        ),
        What::Member(name("m"), None),
        What::TargetEpoch(Some(6)),
        What::TargetEpoch(None),
        What::Target(name("m"), Some(assignment())),
        What::Target(name("m"), None),
        What::Current(name("m"), Some(current)),
        What::Current(name("m"), None),
        What::Pending(ProducerId(7), partition.clone(), Some(pending)),
        What::Pending(ProducerId(i64::MAX), partition.clone(), None),
        What::Offset(partition.clone(), Some(copy)),
        What::Offset(partition, Some(offset_of_a_maker)),
    ];
    whats
        .into_iter()
        .map(|what| Change::of(&name("group"), what))
        .collect()
}

#[test]
fn every_record_reads_back_as_it_was_written() {
    for change in one_of_each() {
        let record = change.encode();
        let read = Change::decode(&record.key, record.value.as_deref()).expect("just written");
        assert_eq!(read, change);
    }
}

#[test]
fn offsets_and_group_epochs_have_the_bytes_of_kafkas_schemas() {
    let offset = one_of_each()[0].encode();
    assert_eq!(
        &offset.key[..],
        b"\x00\x01\x00\x05group\x00\x06orders\x00\x00\x00\x03"
    );
    let value = offset.value.expect("an offset");
    // Version 4; offset, leader epoch, compact text, time; one tagged field 0 of 16 bytes.
    assert_eq!(value[..14], [0, 4, 0, 0, 0, 0, 0, 0, 0, 42, 0, 0, 0, 5]);
    assert_eq!(&value[14..19], b"\x05note");
    assert_eq!(value[27..30], [1, 0, 16]);
    assert_eq!(value.len(), 46);
    // With who made the group, a second one: tag 1,000.
    let changes = one_of_each();
    let value = changes.last().expect("there are some").encode().value;
    let value = value.expect("an offset");
    assert_eq!(value[27..30], [2, 0, 16]);
    assert_eq!(&value[46..], b"\xe8\x07\x09/10.0.0.9");
    let epoch = one_of_each()[4].encode();
    assert_eq!(&epoch.key[..], b"\x00\x03\x00\x05group");
    assert_eq!(
        epoch.value.expect("an epoch")[..],
        [0, 0, 0, 0, 0, 3, 1, 0, 8, 255, 255, 255, 255, 255, 255, 255, 179]
    );
}

#[test]
fn a_pending_offset_has_an_offset_within() {
    let changes = one_of_each();
    let [.., pending, _, _, offset] = &changes[..] else {
        panic!("there are some");
    };
    let (pending, offset) = (pending.encode(), offset.encode());
    assert_eq!(
        &pending.key[..],
        b"\x00\x64\x00\x05group\x00\x00\x00\x00\x00\x00\x00\x07\x00\x06orders\x00\x00\x00\x03"
    );
    let value = pending.value.expect("an offset");
    assert_eq!(value[..9], [0, 0, 0, 3, 0, 0, 0, 12, 1]);
    assert_eq!(value[9..], offset.value.expect("an offset"));
}

#[test]
fn producers_that_cannot_be_are_refused() {
    let key = b"\x00\x64\x00\x01g\xff\xff\xff\xff\xff\xff\xff\xff\x00\x01t\x00\x00\x00\x00";
    let field = "producer id";
    let read = Change::decode(key, None);
    assert_eq!(read, Err(DecodeError::Impossible { field }));
    let changes = one_of_each();
    let pending = changes[changes.len() - 4].encode();
    let value = pending.value.expect("an offset");
    for (at, byte, field) in [(2, 0xff, "producer epoch"), (8, 2, "overtaken")] {
        let mut damaged = value.to_vec();
        damaged[at] = byte;
        let read = Change::decode(&pending.key, Some(&damaged));
        assert_eq!(read, Err(DecodeError::Impossible { field }));
    }
}

#[test]
fn an_offset_of_an_older_kafka_is_read() {
    let value =
        b"\x00\x03\x00\x00\x00\x00\x00\x00\x00\x2a\xff\xff\xff\xff\x00\x01n\x00\x00\x00\x00\x00\x00\x00\x07";
    let key = b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00";
    let What::Offset(_, Some(read)) = Change::decode(key, Some(value)).expect("sound").what else {
        panic!("not an offset");
    };
    assert_eq!(read.committed.offset, Offset(42));
    assert_eq!(read.committed.leader_epoch, None);
    assert_eq!(read.committed_ms, 7);
    assert_eq!(read.topic_id, TopicId::default());
}

#[test]
fn unknown_kinds_and_versions_are_refused() {
    assert!(matches!(
        Change::decode(b"\x00\x63\x00\x01g", None),
        Err(DecodeError::UnknownKind { .. })
    ));
    assert!(matches!(
        Change::decode(b"\x00\x02\x00\x01g", Some(b"\x00\x09")),
        Err(DecodeError::UnknownVersion { .. })
    ));
}

#[test]
fn a_record_that_was_cut_short_is_an_error() {
    for change in one_of_each() {
        let record = change.encode();
        for length in 0..record.key.len() {
            assert!(Change::decode(&record.key[..length], None).is_err());
        }
        let Some(value) = record.value else { continue };
        for length in 0..value.len() {
            assert!(
                Change::decode(&record.key, Some(&value[..length])).is_err(),
                "{change:?} cut to {length}"
            );
        }
    }
}

proptest! {
    #[test]
    fn whatever_the_log_holds_is_read_or_refused(
        which in 0..19usize,
        at in 0..200usize,
        byte: u8,
        tail in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let record = one_of_each()[which].encode();
        let mut value = record.value.map(|value| value.to_vec()).unwrap_or_default();
        if at < value.len() {
            value[at] = byte;
        }
        value.extend(tail);
        let _ = Change::decode(&record.key, Some(&value));
    }
}
