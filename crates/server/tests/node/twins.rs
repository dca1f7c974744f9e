//! The twin of a topic with one order, over Kafka's protocol: one partition whose offsets are positions.

use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_wire::fetch::FetchRequest;
use kafka_wire::offset_for_leader_epoch::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use kafka_wire::produce::PartitionProduceResponse;
use kafka_wire::{ErrorCode, OffsetForLeaderEpochRequest};
use platform::disk::SimulatedDisk;

use crate::ask::{self, EARLIEST, LATEST, NEWEST, code, list_offsets, look, look_at_all};
use crate::groups::committed;
use crate::producers::init;
use crate::support::groups::{commit_request, patiently};
use crate::support::{
    Flushes, PATIENCE, TestNode, Wire, batch, eventually, fetch_request, now_ms, produce_request, records_of,
    stamped_batch,
};

const TWIN: &str = "t@total";
/// Fetches name topics by their ids from here on.
const FETCH_BY_ID: i16 = 13;

/// A topic with one order, and records of three partitions in it, a tenth of a second apart, from this time on.
fn filled(node: &TestNode) -> i64 {
    let first_ms = now_ms() - 10_000;
    let mut wire = node.connect();
    wire.create_topic("t", 3, &[("ropewalk.order", "total")]);
    for number in 0..9 {
        let value = number.to_string();
        let partition = (number * 2) as i32 % 3;
        let appended = wire.produce("t", partition, batch(&[(first_ms + 100 * number, &value)]));
        assert_eq!(appended.error_code, 0);
    }
    first_ms
}

fn offset_of(wire: &mut Wire, timestamp: i64) -> (i64, i64) {
    let request = list_offsets(TWIN, &[(0, 0, timestamp)]);
    let found = wire.call(7, &request).topics.remove(0).partitions.remove(0);
    assert_eq!(found.error_code, 0);
    (found.offset, found.timestamp)
}

/// The answer to an append to the twin that is for a position.
fn append_for(wire: &mut Wire, topic: &str, batch: Bytes, tail: i64, acks: i16) -> PartitionProduceResponse {
    let mut request = produce_request(topic, 0, batch, acks);
    request.topic_data[0].partition_data[0].if_tail = tail;
    let mut answer = wire.call(12, &request);
    answer.responses.remove(0).partition_responses.remove(0)
}

/// Alone, and where other nodes can join: a condition goes with a request, and a refusal tells the tail.
#[test]
fn an_append_to_a_twin_is_at_its_position_or_nowhere() {
    for settings in [&[][..], &[("peer.listen", "127.0.0.1:0")]] {
        let node = TestNode::start_with(settings);
        filled(&node);
        let mut wire = node.connect();
        let record = |value: &str| batch(&[(now_ms(), value)]);
        eventually("the order is open", || {
            append_for(&mut wire, TWIN, record("at 9"), 9, -1).error_code == 0
        });
        for tail in [9, 0, 11, i64::MAX] {
            let refused = append_for(&mut wire, TWIN, record("nowhere"), tail, -1);
            let told = (code(refused.error_code), refused.base_offset, refused.tail);
            assert_eq!(told, (ErrorCode::InvalidRecord, -1, 10), "{tail}: {refused:?}");
        }
        let mistaken = append_for(&mut wire, TWIN, record("nowhere"), -2, -1);
        assert_eq!(
            (code(mistaken.error_code), mistaken.tail),
            (ErrorCode::InvalidRequest, -1)
        );
        // By the leader alone it is not known.
        assert_eq!(
            append_for(&mut wire, TWIN, record("at 10"), 10, 1).base_offset,
            10
        );
        // Sent again it is told alike, whatever the tail is by now.
        let stamped = stamped_batch(init(&mut wire), 0, 0, &["at 11"]);
        for _ in 0..3 {
            let told = append_for(&mut wire, TWIN, stamped.clone(), 11, -1);
            assert_eq!((told.error_code, told.base_offset), (0, 11), "{told:?}");
        }
        let later = append_for(&mut wire, TWIN, stamped, 12, -1);
        assert_eq!((later.error_code, later.base_offset), (0, 11), "{later:?}");
        assert_eq!(
            append_for(&mut wire, TWIN, record("at 12"), 12, -1).base_offset,
            12
        );
        wire.create_topic("plain", 1, &[]);
        let plain = append_for(&mut wire, "plain", record("nowhere"), 0, -1);
        assert_eq!(
            (code(plain.error_code), plain.tail),
            (ErrorCode::InvalidRecord, -1)
        );
        let values = wire.read_values(TWIN, 0);
        assert_eq!(values[9..], ["at 9", "at 10", "at 11", "at 12"]);
    }
}

#[test]
fn a_twin_is_found_by_its_name_and_its_id_and_listed_nowhere() {
    let node = TestNode::start();
    filled(&node);
    let mut wire = node.connect();
    let twin = look(&mut wire, TWIN);
    assert_eq!((twin.error_code, twin.partitions.len()), (0, 1));
    assert_eq!(twin.partitions[0].leader_epoch, 0);
    let topics = look_at_all(&mut wire);
    let names: Vec<_> = topics.iter().filter_map(|topic| topic.name.as_deref()).collect();
    assert_eq!(names, ["t"]);
    assert_ne!(twin.topic_id, topics[0].topic_id);
    let mut by_id = fetch_request("", 0, 2);
    by_id.topics[0].topic_id = twin.topic_id;
    let found = wire
        .call(FETCH_BY_ID, &by_id)
        .responses
        .remove(0)
        .partitions
        .remove(0);
    let records = records_of(&found);
    let values = records
        .iter()
        .map(|record| record.value.as_deref().unwrap_or_default());
    assert!(values.eq([b"2", b"3", b"4", b"5", b"6", b"7", b"8"]));
    assert_eq!((found.high_watermark, found.log_start_offset), (9, 0));
    for name in ["u@total", "t@totals", "@total"] {
        assert_ne!(look(&mut wire, name).error_code, 0, "{name}");
    }
    wire.create_topic("plain", 1, &[]);
    let none = look(&mut wire, "plain@total");
    assert_eq!(code(none.error_code), ErrorCode::InvalidTopicException);
    let beyond = wire.fetch(TWIN, 0, 10);
    assert_eq!(code(beyond.error_code), ErrorCode::OffsetOutOfRange);
    let other = wire.fetch(TWIN, 1, 0);
    assert_eq!(code(other.error_code), ErrorCode::UnknownTopicOrPartition);
}

#[test]
fn ends_and_times_are_those_of_all_partitions() {
    let node = TestNode::start();
    let first_ms = filled(&node);
    let mut wire = node.connect();
    assert_eq!(offset_of(&mut wire, EARLIEST), (0, -1));
    assert_eq!(offset_of(&mut wire, LATEST), (9, -1));
    assert_eq!(offset_of(&mut wire, NEWEST), (8, first_ms + 800));
    for number in 0..9 {
        let asked = offset_of(&mut wire, first_ms + 100 * number - 50);
        assert_eq!(asked, (number, first_ms + 100 * number));
    }
    assert_eq!(offset_of(&mut wire, first_ms + 5_000), (-1, -1));
    let end = |wire: &mut Wire, epoch| {
        let topic = OffsetForLeaderTopic {
            topic: TWIN.into(),
            partitions: vec![OffsetForLeaderPartition {
                partition: 0,
                current_leader_epoch: 0,
                leader_epoch: epoch,
            }],
        };
        let request = OffsetForLeaderEpochRequest {
            replica_id: -1,
            topics: vec![topic],
        };
        wire.call(4, &request).topics.remove(0).partitions.remove(0)
    };
    assert_eq!(end(&mut wire, 0).end_offset, 9);
    assert_eq!(code(end(&mut wire, 1).error_code), ErrorCode::UnknownLeaderEpoch);
}

#[test]
fn a_fetch_at_the_end_waits_for_any_partition() {
    let node = TestNode::start();
    filled(&node);
    let waits = |wait: Duration| FetchRequest {
        max_wait_ms: wait.as_millis() as i32,
        min_bytes: 1,
        ..fetch_request(TWIN, 0, 9)
    };
    let mut wire = node.connect();
    let began = Instant::now();
    let nothing = wire
        .call(12, &waits(Duration::from_millis(50)))
        .responses
        .remove(0);
    assert!(began.elapsed() >= Duration::from_millis(50));
    assert_eq!(nothing.partitions[0].high_watermark, 9);
    for round in 0..6 {
        let mut request = waits(PATIENCE);
        request.topics[0].partitions[0].fetch_offset = 9 + round;
        let frame = wire.frame(12, &request);
        wire.send(&frame);
        let mut producer = node.connect();
        let appended = producer.produce("t", (round % 3) as i32, batch(&[(0, "more")]));
        assert_eq!(appended.error_code, 0);
        let (_, response) = wire.receive::<FetchRequest>(12);
        let records = records_of(&response.responses[0].partitions[0]);
        assert_eq!(records.len(), 1, "round {round}");
        assert_eq!(records[0].offset.0, 9 + round);
    }
}

#[test]
fn groups_remember_positions_until_the_topic_is_gone() {
    let node = TestNode::start();
    filled(&node);
    let id = look(&mut node.connect(), TWIN).topic_id;
    let commit = |wire: &mut Wire, topic: &str| {
        let request = commit_request(("readers", "", -1), (topic, id), &[(0, 5)]);
        let answer = patiently(
            || wire.call(8, &request),
            |answer| answer.topics[0].partitions[0].error_code,
        );
        answer.topics[0].partitions[0].error_code
    };
    assert_eq!(commit(&mut node.connect(), TWIN), 0);
    let node = node.kill_and_restart();
    let mut wire = node.connect();
    assert_eq!(committed(&mut wire, "readers"), [(0, 5)]);
    let refused = commit_request(("readers", "", -1), ("plain@total", id), &[(0, 5)]);
    let refused = wire.call(8, &refused).topics.remove(0).partitions.remove(0);
    assert_eq!(code(refused.error_code), ErrorCode::UnknownTopicOrPartition);
    let deleted = wire.call(5, &crate::ask::deletion("t", 10_000));
    assert_eq!(deleted.responses[0].error_code, 0);
    assert_eq!(
        look(&mut wire, TWIN).error_code,
        ErrorCode::InvalidTopicException.code()
    );
    eventually("the group forgets it", || {
        committed(&mut wire, "readers").is_empty()
    });
}

#[test]
fn appends_to_a_twin_are_answered_with_their_positions() {
    let node = TestNode::start();
    filled(&node);
    let mut wire = node.connect();
    let place = |wire: &mut Wire, acks| {
        let request = produce_request(TWIN, 0, batch(&[(0, "more"), (0, "yet more")]), acks);
        let mut answer = wire.call(12, &request).responses.remove(0);
        let answer = answer.partition_responses.remove(0);
        (answer.error_code, answer.base_offset)
    };
    assert_eq!(place(&mut wire, -1), (0, 9));
    assert_eq!(
        place(&mut wire, 1),
        (0, 11),
        "a position is known when it is shown"
    );
    let between = wire.produce("t", 2, batch(&[(0, "between")]));
    assert_eq!(between.error_code, 0);
    let mut by_id = produce_request("", 0, batch(&[(0, "by id")]), -1);
    by_id.topic_data[0].topic_id = look(&mut wire, TWIN).topic_id;
    let by_id = wire
        .call(13, &by_id)
        .responses
        .remove(0)
        .partition_responses
        .remove(0);
    assert_eq!((by_id.error_code, by_id.base_offset), (0, 14));
    let values = wire.read_values(TWIN, 0).split_off(9);
    assert_eq!(
        values,
        ["more", "yet more", "more", "yet more", "between", "by id"]
    );
    let frame = wire.frame(12, &produce_request(TWIN, 0, batch(&[(0, "unanswered")]), 0));
    wire.send(&frame);
    eventually("it is there", || offset_of(&mut wire, LATEST).0 == 16);
    let other = wire.produce(TWIN, 1, batch(&[(0, "more")]));
    assert_eq!(code(other.error_code), ErrorCode::UnknownTopicOrPartition);
    wire.create_topic("plain", 1, &[]);
    let none = wire.produce("plain@total", 0, batch(&[(0, "more")]));
    assert_eq!(code(none.error_code), ErrorCode::UnknownTopicOrPartition);
}

/// One producer, on both names of a partition: it counts its batches for each.
#[test]
fn a_producers_sequences_on_the_twin_are_its_own() {
    let node = TestNode::start();
    node.connect()
        .create_topic("t", 3, &[("ropewalk.order", "total")]);
    let mut wire = node.connect();
    let id = init(&mut wire);
    let send = |wire: &mut Wire, topic: &str, sequence, values: &[&str]| {
        let answer = wire.produce(topic, 0, stamped_batch(id, 0, sequence, values));
        (code(answer.error_code), answer.base_offset)
    };
    let done = |place| (ErrorCode::None, place);
    assert_eq!(send(&mut wire, "t", 0, &["a", "b"]), done(0));
    assert_eq!(send(&mut wire, TWIN, 0, &["c"]), done(2));
    assert_eq!(send(&mut wire, "t", 2, &["d"]), done(3));
    assert_eq!(send(&mut wire, TWIN, 1, &["e", "f"]), done(4));
    let other = wire.produce("t", 1, batch(&[(0, "g")]));
    assert_eq!(other.error_code, 0);
    assert_eq!(send(&mut wire, TWIN, 3, &["h"]), done(7));
    let check = |wire: &mut Wire| {
        // Sent again, they are where they were.
        assert_eq!(send(wire, "t", 2, &["d"]), done(3));
        assert_eq!(send(wire, TWIN, 1, &["e", "f"]), done(4));
        assert_eq!(send(wire, TWIN, 3, &["h"]), done(7));
        let gap = send(wire, TWIN, 5, &["x"]);
        assert_eq!(gap.0, ErrorCode::OutOfOrderSequenceNumber);
        assert_eq!(wire.read_values(TWIN, 0).concat(), "abcdefgh");
        assert_eq!(wire.read_values("t", 0).concat(), "abcdefh");
    };
    check(&mut wire);
    let node = node.kill_and_restart();
    let mut wire = node.connect();
    check(&mut wire);
    assert_eq!(send(&mut wire, TWIN, 4, &["i"]), done(8));
    assert_eq!(
        send(&mut wire, "t", 3, &["j"]),
        done(8),
        "an offset of the partition"
    );
    // Nobody takes the place of another: such ids are not handed out.
    let forged = wire.produce("t", 0, stamped_batch(id | 1 << 62, 0, 5, &["x"]));
    assert_eq!(code(forged.error_code), ErrorCode::InvalidProducerIdMapping);
    let forged = wire.produce(TWIN, 0, stamped_batch(id | 1 << 62, 0, 5, &["x"]));
    assert_eq!(code(forged.error_code), ErrorCode::InvalidProducerIdMapping);
    let unknown = wire.produce(TWIN, 0, stamped_batch(id + 1_000_000, 0, 0, &["x"]));
    assert_eq!(code(unknown.error_code), ErrorCode::InvalidProducerIdMapping);
}

#[test]
fn a_damaged_batch_is_no_better_for_going_to_a_twin() {
    let node = TestNode::start();
    filled(&node);
    let mut wire = node.connect();
    let id = init(&mut wire);
    let mut damaged = stamped_batch(id, 0, 0, &["value"]).to_vec();
    *damaged.last_mut().expect("it has bytes") ^= 1;
    let refused = wire.produce(TWIN, 0, damaged);
    assert_eq!(code(refused.error_code), ErrorCode::CorruptMessage);
    assert_eq!(offset_of(&mut wire, LATEST).0, 9);
}

#[test]
fn batches_of_all_sizes_are_read_whole_and_at_their_positions() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("t", 3, &[("ropewalk.order", "total")]);
    let values: Vec<String> = (0..12)
        .map(|number| number.to_string().repeat([5, 9_000, 60_000][number % 3]))
        .collect();
    for (number, value) in values.iter().enumerate() {
        let appended = wire.produce("t", (number % 2) as i32, batch(&[(0, value), (0, "and more")]));
        assert_eq!(appended.error_code, 0);
    }
    let found = wire.read_all(TWIN, 0, 0);
    let expected = values.iter().flat_map(|value| [value.as_str(), "and more"]);
    let found = found.iter().map(|record| {
        let value = record.value.as_deref().unwrap_or_default();
        (record.offset.0, std::str::from_utf8(value).expect("text"))
    });
    assert!(found.eq((0..).zip(expected)), "the twin has all of them");
}

#[test]
fn a_twin_is_trimmed_at_a_cut_of_all_partitions() {
    let node = TestNode::start();
    filled(&node);
    let mut wire = node.connect();
    assert_eq!(offset_of(&mut wire, EARLIEST).0, 0);
    let trim = |wire: &mut Wire, before: i64| {
        let request = ask::trim(TWIN, &[(0, before)], 10_000);
        let trimmed = wire.call(2, &request).topics.remove(0).partitions.remove(0);
        (code(trimmed.error_code), trimmed.low_watermark)
    };
    assert_eq!(trim(&mut wire, 10), (ErrorCode::OffsetOutOfRange, -1));
    assert_eq!(trim(&mut wire, -2), (ErrorCode::OffsetOutOfRange, -1));
    assert_eq!(trim(&mut wire, 4), (ErrorCode::None, 4));
    assert_eq!(offset_of(&mut wire, EARLIEST).0, 4);
    assert_eq!(wire.read_values(TWIN, 0).concat(), "45678");
    // Values were sent to the partitions in turn: 0, 2, 1 and so on.
    let rest = wire.read_all("t", 0, 2);
    assert_eq!(rest[0].value.as_deref(), Some(&b"6"[..]));
    assert_eq!(rest.len(), 1);
    assert_eq!(
        code(wire.fetch("t", 0, 1).error_code),
        ErrorCode::OffsetOutOfRange
    );
    assert_eq!(trim(&mut wire, -1), (ErrorCode::None, 9));
    assert_eq!(
        [offset_of(&mut wire, EARLIEST).0, offset_of(&mut wire, LATEST).0],
        [9, 9]
    );
}

/// Positions that a dead journal has taken are never durable: nobody waits for them, and what was shown stays.
#[test]
fn a_dead_journal_ends_the_order_until_the_next_start() {
    let disk = SimulatedDisk::new();
    let flushes = Flushes::of(&disk, "journals/001");
    let mut node = TestNode::start_on(&disk, &[]);
    let mut wire = node.connect();
    wire.create_topic("t", 2, &[("ropewalk.order", "total")]);
    // One with a partition on each journal, without an order.
    wire.create_topic("plain", 2, &[]);
    for number in 0..6 {
        let appended = wire.produce("t", number % 2, batch(&[(0, &number.to_string())]));
        assert_eq!(appended.error_code, 0);
    }
    let values = |wire: &mut Wire| wire.read_values(TWIN, 0).concat();
    flushes.fail();
    let codes: Vec<i16> = (0..2)
        .map(|index| wire.produce("plain", index, batch(&[(0, "x")])).error_code)
        .collect();
    let storage_error = ErrorCode::KafkaStorageError.code();
    assert!(codes.contains(&0) && codes.contains(&storage_error), "{codes:?}");
    for index in 0..2 {
        let refused = wire.produce("t", index, batch(&[(0, "lost")]));
        assert_eq!(refused.error_code, storage_error, "partition {index}");
    }
    assert_eq!(offset_of(&mut wire, LATEST).0, 6);
    assert_eq!(values(&mut wire), "012345");
    let began = Instant::now();
    let waiting = FetchRequest {
        max_wait_ms: 100,
        min_bytes: 1,
        ..fetch_request(TWIN, 0, 6)
    };
    let waited = wire.call(12, &waiting).responses.remove(0).partitions.remove(0);
    assert_eq!(waited.high_watermark, 6);
    assert!(
        began.elapsed() >= Duration::from_millis(100),
        "nothing more comes"
    );
    node.allow_long_turns();
    node.stop();
    drop(node);
    let disk = disk.crash(1);
    let node = TestNode::start_on(&disk, &[]);
    let mut wire = node.connect();
    assert_eq!(&values(&mut wire)[..6], "012345");
    for index in 0..2 {
        let appended = wire.produce("t", index, batch(&[(0, "!")]));
        assert_eq!(appended.error_code, 0);
    }
    assert!(values(&mut wire).ends_with("!!"));
}

#[test]
fn records_that_are_gone_are_passed_over() {
    let node = TestNode::start();
    filled(&node);
    let mut wire = node.connect();
    // Positions 0, 3 and 6 are partition 0's.
    let trimmed = wire.call(2, &crate::ask::trim("t", &[(0, 2)], 10_000));
    assert_eq!(trimmed.topics[0].partitions[0].error_code, 0);
    let offsets = |wire: &mut Wire, from| {
        let records = wire.read_all(TWIN, 0, from);
        records.iter().map(|record| record.offset.0).collect::<Vec<_>>()
    };
    assert_eq!(offsets(&mut wire, 0), [1, 2, 4, 5, 6, 7, 8]);
    assert_eq!(offsets(&mut wire, 3), [4, 5, 6, 7, 8]);
    let trimmed = wire.call(2, &crate::ask::trim("t", &[(0, -1), (1, -1), (2, -1)], 10_000));
    assert!(
        trimmed.topics[0]
            .partitions
            .iter()
            .all(|partition| partition.error_code == 0)
    );
    assert!(offsets(&mut wire, 0).is_empty());
    assert_eq!(wire.produce("t", 1, batch(&[(0, "new")])).error_code, 0);
    assert_eq!(offsets(&mut wire, 0), [9]);
}
