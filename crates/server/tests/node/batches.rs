//! Records in and out: Produce and Fetch in every version.

use bytes::Bytes;
use kafka_wire::{ApiVersionsRequest, ErrorCode, FetchRequest, ProduceRequest};
use record::Compression;

use crate::ask::look;
use crate::support::{
    TestNode, Wire, batch, compressed_batch, eventually, fetch_request, now_ms, produce_request, records_of,
};

/// Where a batch's magic byte stands; before it is what the broker sets.
const MAGIC: usize = 16;

#[test]
fn every_version_produces_and_fetches() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 2, &[]);
    let id = look(&mut wire, "orders").topic_id;
    for (offset, version) in (3..=13).enumerate() {
        for index in 0..2 {
            let mut request = produce_request("orders", index, batch(&[(now_ms(), "x")]), -1);
            request.topic_data[0].topic_id = id;
            let told = wire
                .call(version, &request)
                .responses
                .remove(0)
                .partition_responses
                .remove(0);
            assert_eq!(
                (told.error_code, told.base_offset, told.index),
                (0, offset as i64, index),
                "version {version}"
            );
            assert_eq!(
                (told.log_append_time_ms, told.log_start_offset),
                (-1, if version >= 5 { 0 } else { -1 })
            );
        }
    }
    for version in 4..=18 {
        for index in 0..2 {
            let mut request = fetch_request("orders", index, 4);
            request.topics[0].topic_id = id;
            let mut response = wire.call(version, &request);
            assert_eq!(response.error_code, 0);
            let told = response.responses.remove(0).partitions.remove(0);
            assert_eq!(
                (told.error_code, told.high_watermark, told.partition_index),
                (0, 11, index)
            );
            let offsets: Vec<i64> = records_of(&told).iter().map(|record| record.offset.0).collect();
            assert_eq!(offsets, (4..11).collect::<Vec<_>>(), "version {version}");
        }
    }
}

#[test]
fn batches_come_back_as_they_were_sent() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 5, &[]);
    let all = [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ];
    let long = "long ".repeat(5000);
    for (index, compression) in all.into_iter().enumerate() {
        let sent = compressed_batch(
            compression,
            &[(now_ms(), "short"), (now_ms(), &long), (now_ms(), "")],
        );
        assert_eq!(wire.produce("orders", index as i32, sent.clone()).error_code, 0);
        let fetched = wire.fetch("orders", index as i32, 0);
        let bytes: Vec<u8> = fetched
            .records
            .chunks
            .iter()
            .flat_map(|chunk| chunk.to_vec())
            .collect();
        assert_eq!(bytes.len(), sent.len());
        assert_eq!(
            bytes[MAGIC..],
            sent[MAGIC..],
            "the broker sets offset and epoch only"
        );
    }
}

#[test]
fn acks_are_none_leader_or_all_and_nothing_else() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    for acks in [2, -2, i16::MAX, i16::MIN] {
        let request = produce_request("orders", 0, batch(&[(now_ms(), "x")]), acks);
        let told = wire
            .call(9, &request)
            .responses
            .remove(0)
            .partition_responses
            .remove(0);
        assert_eq!(told.error_code, ErrorCode::InvalidRequiredAcks.code());
    }
    let leader = wire.call(
        9,
        &produce_request("orders", 0, batch(&[(now_ms(), "leader")]), 1),
    );
    assert_eq!(leader.responses[0].partition_responses[0].base_offset, 0);
    // Nobody answers this; the next answer is that of the next request.
    let none = wire.frame(9, &produce_request("orders", 0, batch(&[(now_ms(), "none")]), 0));
    wire.send(&none);
    assert_eq!(wire.call(3, &ApiVersionsRequest::default()).error_code, 0);
    assert_eq!(
        wire.produce("orders", 0, batch(&[(now_ms(), "all")])).base_offset,
        2
    );
    assert_eq!(wire.read_values("orders", 0), ["leader", "none", "all"]);
}

#[test]
fn who_wants_no_answer_is_hung_up_on_when_an_append_is_refused() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 2, &[]);
    let sound = || batch(&[(now_ms(), "x")]);
    for (topic, index, refused) in [
        ("nowhere", 0, sound()),
        // On either core.
        ("orders", 0, Bytes::new()),
        ("orders", 1, Bytes::new()),
    ] {
        let mut producer = node.connect();
        let frames = [
            producer.frame(9, &produce_request("orders", 0, sound(), -1)),
            producer.frame(9, &produce_request("orders", 1, sound(), 0)),
            producer.frame(9, &produce_request(topic, index, refused, 0)),
            producer.frame(9, &produce_request("orders", 0, sound(), -1)),
        ];
        producer.send(&frames[..3].concat());
        let (_, answered) = producer.receive::<ProduceRequest>(9);
        let told = answered.responses[0].partition_responses[0].error_code;
        assert_eq!(told, 0, "what came before is answered");
        producer.send(&frames[3]);
        producer.expect_hang_up();
    }
    eventually("what was not refused is there", || {
        wire.read_values("orders", 1).len() == 3
    });
}

#[test]
fn partitions_that_are_not_there_are_refused() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    for (topic, index) in [
        ("orders", 1),
        ("orders", -1),
        ("orders", i32::MAX),
        ("nowhere", 0),
        ("", 0),
    ] {
        assert_eq!(
            wire.produce(topic, index, batch(&[(now_ms(), "x")])).error_code,
            unknown,
            "{topic}-{index}"
        );
        assert_eq!(wire.fetch(topic, index, 0).error_code, unknown, "{topic}-{index}");
    }
    let mut by_id = produce_request("", 0, batch(&[(now_ms(), "x")]), -1);
    by_id.topic_data[0].topic_id = record::TopicId([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    let told = wire
        .call(13, &by_id)
        .responses
        .remove(0)
        .partition_responses
        .remove(0);
    assert_eq!(
        told.error_code,
        ErrorCode::UnknownTopicId.code(),
        "the metadata's partition is nobody's to write"
    );
    for offset in [-1, 1, i64::MAX, i64::MIN] {
        assert_eq!(
            wire.fetch("orders", 0, offset).error_code,
            ErrorCode::OffsetOutOfRange.code()
        );
    }
}

#[test]
fn a_fetch_at_the_tail_is_woken_by_the_next_record() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 2, &[]);
    let mut readers: Vec<Wire> = (0..4).map(|_| node.connect()).collect();
    for (place, reader) in readers.iter_mut().enumerate() {
        let waiting = FetchRequest {
            max_wait_ms: 25_000,
            min_bytes: 1,
            ..fetch_request("orders", place as i32 % 2, 0)
        };
        let frame = reader.frame(12, &waiting);
        reader.send(&frame);
    }
    for index in 0..2 {
        assert_eq!(
            wire.produce("orders", index, batch(&[(now_ms(), "news")]))
                .error_code,
            0
        );
    }
    for reader in &mut readers {
        let (_, mut response) = reader.receive::<FetchRequest>(12);
        assert_eq!(
            records_of(&response.responses.remove(0).partitions.remove(0)).len(),
            1
        );
    }
}

/// Batches of such a size are received where they stay; what they are must not depend on it.
#[test]
fn large_batches_are_appended_where_they_were_received() {
    let large = "r".repeat(400_000);
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    for version in 3..=12 {
        let told = wire.call(
            version,
            &produce_request("orders", 0, batch(&[(now_ms(), &large)]), -1),
        );
        assert_eq!(
            told.responses[0].partition_responses[0].error_code, 0,
            "version {version}"
        );
        // A small one between them keeps its place.
        assert_eq!(
            wire.produce("orders", 0, batch(&[(now_ms(), "small")]))
                .error_code,
            0
        );
    }
    assert_eq!(node.metric("ropewalk_batches_in_place_total"), 10);
    // Unsound ones are refused as ever, in one piece, in the middle, and behind one that is sound.
    let mut unsound = batch(&[(now_ms(), &large)]).to_vec();
    unsound[200_000] ^= 1;
    let refused = wire.produce("orders", 0, Bytes::from(unsound));
    assert_eq!(refused.error_code, ErrorCode::CorruptMessage.code());
    // Two partitions in one request share its memory: they are copied.
    let mut two = produce_request("orders", 0, batch(&[(now_ms(), &large)]), -1);
    let again = two.topic_data[0].partition_data[0].clone();
    two.topic_data[0].partition_data.push(again);
    let told = wire.call(9, &two).responses.remove(0).partition_responses;
    assert_eq!((told[0].error_code, told[1].error_code), (0, 0));
    assert_eq!(node.metric("ropewalk_batches_in_place_total"), 10);

    let expected: Vec<String> = (0..22)
        .map(|offset| {
            if offset < 20 && offset % 2 == 1 {
                "small".to_owned()
            } else {
                large.clone()
            }
        })
        .collect();
    assert!(wire.read_values("orders", 0) == expected);
    let node = node.kill_and_restart();
    let mut wire = node.connect();
    assert!(
        wire.read_values("orders", 0) == expected,
        "the same after a crash"
    );
}

/// Time that the broker sets is written into the batch, wherever that is.
#[test]
fn a_large_batch_gets_the_time_of_its_append() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[("message.timestamp.type", "LogAppendTime")]);
    let sent = batch(&[(7, &"r".repeat(400_000))]);
    let told = wire.produce("orders", 0, sent);
    assert_eq!(told.error_code, 0);
    assert!(told.log_append_time_ms > 7);
    assert_eq!(node.metric("ropewalk_batches_in_place_total"), 1);
    let records = wire.read_all("orders", 0, 0);
    assert_eq!(records[0].timestamp_ms, told.log_append_time_ms);
}
