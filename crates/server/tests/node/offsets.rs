//! Places in a partition: ListOffsets, OffsetForLeaderEpoch, DeleteRecords.

use kafka_wire::list_offsets::ListOffsetsPartitionResponse;
use kafka_wire::offset_for_leader_epoch::{EpochEndOffset, OffsetForLeaderPartition, OffsetForLeaderTopic};
use kafka_wire::{ErrorCode, OffsetForLeaderEpochRequest};
use record::{BatchBuilder, Compression};

use crate::ask::{EARLIEST, LATEST, NEWEST, code, list_offsets, trim};
use crate::support::{TestNode, Wire, batch, compressed_batch, now_ms, produce_request, records_of};

const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

fn list(wire: &mut Wire, version: i16, index: i32, timestamp: i64) -> ListOffsetsPartitionResponse {
    let request = list_offsets("orders", &[(index, -1, timestamp)]);
    wire.call(version, &request).topics.remove(0).partitions.remove(0)
}

/// Offset, timestamp and leader epoch of what was found without an error.
fn found(response: &ListOffsetsPartitionResponse) -> (i64, i64, i32) {
    assert_eq!(response.error_code, 0);
    (response.offset, response.timestamp, response.leader_epoch)
}

fn delete(wire: &mut Wire, version: i16, index: i32, offset: i64) -> (i64, i16) {
    let request = trim("orders", &[(index, offset)], 10_000);
    let result = wire.call(version, &request).topics.remove(0).partitions.remove(0);
    (result.low_watermark, result.error_code)
}

fn epoch_end(wire: &mut Wire, version: i16, index: i32, current: i32, asked: i32) -> EpochEndOffset {
    let partition = OffsetForLeaderPartition {
        partition: index,
        current_leader_epoch: current,
        leader_epoch: asked,
    };
    let topic = OffsetForLeaderTopic {
        topic: "orders".into(),
        partitions: vec![partition],
    };
    let request = OffsetForLeaderEpochRequest {
        replica_id: -1,
        topics: vec![topic],
    };
    wire.call(version, &request).topics.remove(0).partitions.remove(0)
}

#[test]
fn ends_and_times_are_found_in_every_version_and_codec() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 3, &[]);
    let t = now_ms() - 10_000;
    // Partition 0 stays empty; the others are on different cores.
    for (index, compression) in [(1, Compression::None), (2, Compression::Zstd)] {
        for first in [0, 10, 20] {
            let records = [(t + first, "a"), (t + first + 5, "b"), (t + first + 2, "c")];
            assert_eq!(
                wire.produce("orders", index, compressed_batch(compression, &records))
                    .error_code,
                0
            );
        }
    }
    for version in 1..=11 {
        let epoch = if version >= 4 { 0 } else { -1 };
        assert_eq!(found(&list(&mut wire, version, 0, LATEST)), (0, -1, epoch));
        assert_eq!(found(&list(&mut wire, version, 0, EARLIEST)), (0, -1, epoch));
        assert_eq!(found(&list(&mut wire, version, 0, t)), (-1, -1, -1));
        for index in [1, 2] {
            assert_eq!(found(&list(&mut wire, version, index, LATEST)), (9, -1, epoch));
            assert_eq!(found(&list(&mut wire, version, index, EARLIEST)), (0, -1, epoch));
            assert_eq!(found(&list(&mut wire, version, index, 0)), (0, t, epoch));
            assert_eq!(found(&list(&mut wire, version, index, t + 3)), (1, t + 5, epoch));
            assert_eq!(found(&list(&mut wire, version, index, t + 6)), (3, t + 10, epoch));
            assert_eq!(
                found(&list(&mut wire, version, index, t + 25)),
                (7, t + 25, epoch)
            );
            assert_eq!(found(&list(&mut wire, version, index, t + 26)), (-1, -1, -1));
        }
    }
    assert_eq!(found(&list(&mut wire, 7, 2, NEWEST)), (7, t + 25, 0));
    assert_eq!(found(&list(&mut wire, 11, 0, NEWEST)), (-1, -1, -1));
    assert_eq!(found(&list(&mut wire, 8, 1, EARLIEST_LOCAL)), (0, -1, 0));
    assert_eq!(found(&list(&mut wire, 9, 1, LATEST_TIERED)), (-1, -1, -1));
    assert_eq!(
        found(&list(&mut wire, 11, 1, EARLIEST_PENDING_UPLOAD)),
        (-1, -1, -1)
    );
}

#[test]
fn the_newest_record_is_not_the_last_one_when_times_are_out_of_order() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let t = now_ms() - 10_000;
    wire.produce("orders", 0, batch(&[(t + 7, "a"), (t + 90, "b")]));
    wire.produce("orders", 0, batch(&[(t + 50, "c"), (t + 60, "d")]));
    assert_eq!(found(&list(&mut wire, 7, 0, NEWEST)), (1, t + 90, 0));
}

#[test]
fn the_newest_record_is_found_while_others_are_under_way() {
    let node = TestNode::start();
    let mut wire = node.connect();
    let mut producer = node.connect();
    wire.create_topic("orders", 2, &[]);
    let t = now_ms() - 10_000;
    for index in 0..2 {
        wire.produce("orders", index, batch(&[(t, "first")]));
    }
    let mut before = [(0, t); 2];
    for round in 1..200 {
        let index = (round % 2) as usize;
        // Nobody waits for the answer: the record is staged, on its way to the disk, or there.
        let request = produce_request("orders", index as i32, batch(&[(t + round, "x")]), 0);
        let frame = producer.frame(9, &request);
        producer.send(&frame);
        let (offset, timestamp_ms, _) = found(&list(&mut wire, 7, index as i32, NEWEST));
        assert!(
            (offset, timestamp_ms) >= before[index],
            "round {round}: {offset}, {timestamp_ms}"
        );
        before[index] = (offset, timestamp_ms);
    }
}

#[test]
fn with_append_times_the_brokers_clock_counts() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[("message.timestamp.type", "LogAppendTime")]);
    let before = now_ms();
    let appended = wire.produce("orders", 0, batch(&[(1, "a"), (2, "b")]));
    assert!((before..=now_ms()).contains(&appended.log_append_time_ms));
    let time = appended.log_append_time_ms;
    assert_eq!(found(&list(&mut wire, 7, 0, before)), (0, time, 0));
    assert_eq!(found(&list(&mut wire, 7, 0, NEWEST)), (1, time, 0));
    let records = records_of(&wire.fetch("orders", 0, 0));
    assert!(records.iter().all(|record| record.timestamp_ms == time));
}

#[test]
fn what_cannot_be_listed_says_why() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 2, &[]);
    for (timestamp, first_version) in [
        (NEWEST, 7),
        (EARLIEST_LOCAL, 8),
        (LATEST_TIERED, 9),
        (EARLIEST_PENDING_UPLOAD, 11),
        (-7, 12),
    ] {
        for version in 1..first_version.min(12) {
            let told = list(&mut wire, version, 0, timestamp);
            assert_eq!(
                told.error_code,
                ErrorCode::UnsupportedVersion.code(),
                "{timestamp} in {version}"
            );
        }
    }
    let partitions = [
        (0, -1, LATEST),
        (1, 0, LATEST),
        (0, -1, EARLIEST),
        (2, -1, LATEST),
        (-1, -1, LATEST),
        (i32::MAX, -1, LATEST),
    ];
    let response = wire
        .call(11, &list_offsets("orders", &partitions))
        .topics
        .remove(0);
    let told: Vec<_> = response
        .partitions
        .iter()
        .map(|partition| ErrorCode::from_code(partition.error_code))
        .collect();
    let (twice, unknown) = (
        Some(ErrorCode::InvalidRequest),
        Some(ErrorCode::UnknownTopicOrPartition),
    );
    assert_eq!(
        told,
        [twice, Some(ErrorCode::None), twice, unknown, unknown, unknown]
    );
    let nowhere = wire
        .call(5, &list_offsets("nowhere", &[(0, -1, LATEST)]))
        .topics
        .remove(0)
        .partitions
        .remove(0);
    assert_eq!(nowhere.error_code, ErrorCode::UnknownTopicOrPartition.code());
    let ahead = wire
        .call(5, &list_offsets("orders", &[(0, 1, LATEST)]))
        .topics
        .remove(0)
        .partitions
        .remove(0);
    assert_eq!(ahead.error_code, ErrorCode::UnknownLeaderEpoch.code());
}

#[test]
fn records_are_given_up_from_the_start_and_never_beyond_the_tail() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 2, &[]);
    let t = now_ms() - 10_000;
    for index in 0..2 {
        wire.produce(
            "orders",
            index,
            batch(&[(t, "a"), (t + 1, "b"), (t + 2, "c"), (t + 3, "d")]),
        );
    }
    let out_of_range = (-1, ErrorCode::OffsetOutOfRange.code());
    for (version, index) in [(0, 0), (1, 1), (2, 0)] {
        assert_eq!(delete(&mut wire, version, index, 5), out_of_range);
        assert_eq!(delete(&mut wire, version, index, -2), out_of_range);
        assert_eq!(delete(&mut wire, version, index, i64::MAX), out_of_range);
        assert_eq!(delete(&mut wire, version, index, 2), (2, 0));
        assert_eq!(
            delete(&mut wire, version, index, 1),
            (2, 0),
            "what is gone stays gone"
        );
        assert_eq!(found(&list(&mut wire, 5, index, EARLIEST)), (2, -1, 0));
        assert_eq!(
            found(&list(&mut wire, 5, index, 0)),
            (2, t + 2, 0),
            "not what was given up"
        );
        assert_eq!(
            wire.fetch("orders", index, 1).error_code,
            ErrorCode::OffsetOutOfRange.code()
        );
        let kept = wire.read_all("orders", index, 2);
        assert_eq!(kept.first().map(|record| record.offset.0), Some(2));
    }
    assert_eq!(delete(&mut wire, 2, 0, -1), (4, 0));
    assert_eq!(found(&list(&mut wire, 7, 0, NEWEST)), (-1, -1, -1));
    assert_eq!(
        wire.produce("orders", 0, batch(&[(t, "e")])).base_offset,
        4,
        "offsets go on"
    );
    assert_eq!(
        delete(&mut wire, 2, 2, 0),
        (-1, ErrorCode::UnknownTopicOrPartition.code())
    );
    // And all of that is still so after a restart.
    let node = node.restart();
    let mut wire = node.connect();
    assert_eq!(list(&mut wire, 5, 0, EARLIEST).offset, 4);
    assert_eq!(list(&mut wire, 5, 1, EARLIEST).offset, 2);
}

#[test]
fn what_goes_by_its_keys_does_not_go_by_its_offsets() {
    let node = TestNode::start();
    let mut wire = node.connect();
    for (topic, policy, expected) in [
        ("table", "compact", ErrorCode::PolicyViolation),
        ("both", "compact,delete", ErrorCode::None),
        ("log", "delete", ErrorCode::None),
        ("archive", "", ErrorCode::None),
    ] {
        wire.create_topic(topic, 1, &[("cleanup.policy", policy)]);
        let mut builder = BatchBuilder::new(Compression::None);
        builder.append(now_ms(), Some(b"key"), Some(b"value"), &[]);
        assert_eq!(wire.produce(topic, 0, builder.build()).error_code, 0);
        let told = wire.call(2, &trim(topic, &[(0, -1)], 10_000));
        let told = code(told.topics[0].partitions[0].error_code);
        assert_eq!(told, expected, "{policy}");
        let is_trimmed = wire.fetch(topic, 0, 0).error_code != 0;
        assert_eq!(is_trimmed, expected == ErrorCode::None, "{policy}");
    }
}

#[test]
fn epochs_end_where_the_next_begins() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    wire.produce("orders", 0, batch(&[(now_ms(), "a"), (now_ms(), "b")]));
    let node = node.restart();
    let mut wire = node.connect();
    wire.produce("orders", 0, batch(&[(now_ms(), "c")]));
    for version in 2..=4 {
        let told = |end: EpochEndOffset| (end.error_code, end.leader_epoch, end.end_offset);
        assert_eq!(told(epoch_end(&mut wire, version, 0, -1, 0)), (0, 0, 2));
        assert_eq!(told(epoch_end(&mut wire, version, 0, 1, 1)), (0, 1, 3));
        assert_eq!(told(epoch_end(&mut wire, version, 0, -1, 2)), (0, -1, -1));
        assert_eq!(told(epoch_end(&mut wire, version, 0, -1, -1)), (0, -1, -1));
        let error = |end: EpochEndOffset| ErrorCode::from_code(end.error_code);
        assert_eq!(
            error(epoch_end(&mut wire, version, 0, 0, 0)),
            Some(ErrorCode::FencedLeaderEpoch)
        );
        assert_eq!(
            error(epoch_end(&mut wire, version, 0, 9, 0)),
            Some(ErrorCode::UnknownLeaderEpoch)
        );
        assert_eq!(
            error(epoch_end(&mut wire, version, 5, -1, 0)),
            Some(ErrorCode::UnknownTopicOrPartition)
        );
    }
    // Times lead to the epoch that their record was written in.
    assert_eq!(list(&mut wire, 5, 0, 0).leader_epoch, 0);
    assert_eq!(list(&mut wire, 5, 0, LATEST).leader_epoch, 1);
}
