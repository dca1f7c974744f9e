//! Records in and out: Produce and Fetch in every version.

use bytes::Bytes;
use kafka_wire::{ApiVersionsRequest, ErrorCode, FetchRequest, MetadataRequest};
use record::Compression;

use crate::support::{
    TestNode, Wire, batch, compressed_batch, fetch_request, now_ms, produce_request, records_of,
};

/// Where a batch's magic byte stands; before it is what the broker sets.
const MAGIC: usize = 16;

fn topic_id(wire: &mut Wire) -> record::TopicId {
    let all = MetadataRequest {
        topics: None,
        ..MetadataRequest::default()
    };
    wire.call(12, &all).topics[0].topic_id
}

fn values(wire: &mut Wire, index: i32) -> Vec<String> {
    let text = |value: Option<Bytes>| String::from_utf8(value.unwrap_or_default().to_vec()).expect("text");
    wire.read_all("orders", index, 0)
        .into_iter()
        .map(|record| text(record.value))
        .collect()
}

#[test]
fn every_version_produces_and_fetches() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 2, &[]);
    let id = topic_id(&mut wire);
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
    // Nobody answers these; the next answer is that of the next request.
    let none = wire.frame(9, &produce_request("orders", 0, batch(&[(now_ms(), "none")]), 0));
    wire.send(&none);
    let none = wire.frame(9, &produce_request("nowhere", 0, Bytes::new(), 0));
    wire.send(&none);
    assert_eq!(wire.call(3, &ApiVersionsRequest::default()).error_code, 0);
    assert_eq!(
        wire.produce("orders", 0, batch(&[(now_ms(), "all")])).base_offset,
        2
    );
    assert_eq!(values(&mut wire, 0), ["leader", "none", "all"]);
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
