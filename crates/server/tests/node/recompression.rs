//! `compression.type`: batches that came in another compression than their topic's are compressed anew, and nothing else about them
//! changes.

use bytes::Bytes;
use kafka_wire::fetch::PartitionData;
use kafka_wire::{ErrorCode, ProduceRequest};
use record::{BatchBuilder, BatchHeader, Compression, Record};

use crate::ask::code;
use crate::ask::configs::{BROKER, DELETE, SET, TOPIC, change, edit, set};
use crate::producers::init;
use crate::support::{TestNode, Wire, fetch_request, now_ms, produce_request, records_of};

/// Every value of the config that names a compression, with that.
const CODECS: [(&str, Compression); 5] = [
    ("uncompressed", Compression::None),
    ("gzip", Compression::Gzip),
    ("snappy", Compression::Snappy),
    ("lz4", Compression::Lz4),
    ("zstd", Compression::Zstd),
];

/// Records of all kinds, of a producer whose first sequence this is.
fn various(compression: Compression, producer: i64, first: i32) -> Bytes {
    let mut builder = BatchBuilder::new(compression).with_producer(producer, 0, first);
    let now_ms = now_ms();
    let long = "repeated and ".repeat(3_000);
    builder.append(
        now_ms,
        Some(b"key"),
        Some(b"value"),
        &[(b"h", None), (b"h", Some(b"1"))],
    );
    builder.append(now_ms - 500, Some(b"gone"), None, &[]);
    builder.append(now_ms + 5, Some(b""), Some(long.as_bytes()), &[(b"", Some(b""))]);
    builder.build()
}

fn one(compression: Compression, value: &str) -> Bytes {
    let mut builder = BatchBuilder::new(compression);
    builder.append(now_ms(), Some(b"key"), Some(value.as_bytes()), &[]);
    builder.build()
}

/// The batches as they are stored.
fn stored(fetched: &PartitionData) -> Vec<(BatchHeader, Bytes)> {
    let chunks = fetched.records.chunks.iter();
    let bytes: Vec<u8> = chunks.flat_map(|chunk| chunk.iter().copied()).collect();
    record::batches(&bytes)
        .map(|batch| {
            let (header, batch) = batch.expect("whole batches");
            (header, Bytes::copy_from_slice(batch))
        })
        .collect()
}

fn stored_lengths(wire: &mut Wire, topic: &str) -> Vec<usize> {
    let all = stored(&wire.fetch(topic, 0, 0));
    all.iter().map(|(header, _)| header.length_bytes).collect()
}

fn records_from(batch: &[u8], base_offset: i64) -> Vec<Record> {
    let records = record::records(batch, &record::Limits::default()).expect("sound");
    let shifted = records.map(|record| {
        let record = record.expect("sound");
        let offset = record::Offset(record.offset.0 + base_offset);
        Record { offset, ..record }
    });
    shifted.collect()
}

#[test]
fn batches_are_stored_in_their_topics_compression_and_are_the_same() {
    let node = TestNode::start();
    let mut wire = node.connect();
    let producer = init(&mut wire);
    for (name, wanted) in CODECS {
        wire.create_topic(name, 1, &[("compression.type", name)]);
        let mut expected = Vec::new();
        let mut sent = Vec::new();
        for (place, (_, codec)) in CODECS.iter().enumerate() {
            let first = 3 * place as i32;
            let batch = various(*codec, producer, first);
            let told = wire.produce(name, 0, batch.clone());
            assert_eq!(
                (told.error_code, told.base_offset),
                (0, i64::from(first)),
                "{codec} to {name}"
            );
            expected.extend(records_from(&batch, i64::from(first)));
            sent.push(batch);
        }
        let found = wire.fetch(name, 0, 0);
        assert_eq!(records_of(&found), expected, "{name}");
        for ((header, batch), sent) in stored(&found).iter().zip(&sent) {
            let before = BatchHeader::read(sent).expect("whole");
            assert_eq!(header.attributes.compression(), Ok(wanted));
            let of_producer = |header: &BatchHeader| {
                (
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    header.max_timestamp_ms,
                )
            };
            assert_eq!(of_producer(header), of_producer(&before));
            if before.attributes.compression() == Ok(wanted) {
                assert_eq!(
                    batch[record::BATCH_OVERHEAD_BYTES..],
                    sent[record::BATCH_OVERHEAD_BYTES..]
                );
            }
        }
    }
    let node = node.kill_and_restart();
    let mut wire = node.connect();
    for (name, _) in CODECS {
        assert_eq!(wire.read_all(name, 0, 0).len(), 3 * CODECS.len(), "{name}");
    }
}

#[test]
fn a_retry_is_still_the_same_batch() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[("compression.type", "zstd")]);
    let producer = init(&mut wire);
    for first in [0, 3] {
        let batch = various(Compression::Gzip, producer, first);
        for _ in 0..3 {
            let told = wire.produce("orders", 0, batch.clone());
            assert_eq!((told.error_code, told.base_offset), (0, i64::from(first)));
        }
    }
    let gap = wire.produce("orders", 0, various(Compression::Gzip, producer, 9));
    assert_eq!(code(gap.error_code), ErrorCode::OutOfOrderSequenceNumber);
    assert_eq!(wire.read_all("orders", 0, 0).len(), 6);
}

/// Some are compressed anew and others pass: sequences would be refused out of their order.
#[test]
fn appends_of_a_partition_keep_their_order_whatever_compression_they_come_in() {
    const ROUNDS: usize = 60;
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 3, &[("compression.type", "lz4")]);
    wire.create_topic("others", 1, &[]);
    let producer = init(&mut wire);
    let mut frames = Vec::new();
    for round in 0..ROUNDS {
        let (_, codec) = CODECS[round % CODECS.len()];
        for index in 0..3 {
            let batch = various(codec, producer, 3 * round as i32);
            frames.extend(wire.frame(9, &produce_request("orders", index, batch, -1)));
        }
        let batch = one(codec, "beside");
        frames.extend(wire.frame(9, &produce_request("others", 0, batch, -1)));
    }
    wire.send(&frames);
    for round in 0..ROUNDS {
        for offset in [3 * round, 3 * round, 3 * round, round] {
            let (_, told) = wire.receive::<ProduceRequest>(9);
            let told = &told.responses[0].partition_responses[0];
            assert_eq!((told.error_code, told.base_offset), (0, offset as i64));
        }
    }
    let batches = stored(&wire.fetch("orders", 1, 0));
    let in_lz4 = |(header, _): &(BatchHeader, Bytes)| header.attributes.compression() == Ok(Compression::Lz4);
    assert!(batches.iter().all(in_lz4));
}

#[test]
fn both_forms_are_as_short_as_the_topic_allows() {
    let node = TestNode::start();
    let mut wire = node.connect();
    let configs = [
        ("compression.type", "uncompressed"),
        ("max.message.bytes", "10000"),
    ];
    wire.create_topic("plain", 1, &configs);
    wire.create_topic("packed", 1, &[("compression.type", "gzip"), configs[1]]);
    let long = "x".repeat(20_000);
    let short = one(Compression::Zstd, &long);
    assert!(short.len() < 1_000);
    let refused = wire.produce("plain", 0, short.clone());
    assert_eq!(code(refused.error_code), ErrorCode::MessageTooLarge);
    let told = refused.error_message.expect("a sentence").to_string();
    assert!(told.contains("max.message.bytes"), "{told}");
    let refused = wire.produce("packed", 0, one(Compression::None, &long));
    assert_eq!(code(refused.error_code), ErrorCode::MessageTooLarge);
    assert_eq!(wire.produce("packed", 0, short).error_code, 0);
    assert!(wire.read_all("plain", 0, 0).is_empty());
}

#[test]
fn what_is_wrong_with_a_batch_is_told_as_ever() {
    let node = TestNode::start();
    let mut wire = node.connect();
    let configs = [("compression.type", "zstd"), ("cleanup.policy", "compact")];
    wire.create_topic("compacted", 1, &configs);
    let mut builder = BatchBuilder::new(Compression::Snappy);
    for key in [Some(&b"key"[..]), None] {
        builder.append(now_ms(), key, Some(b"value"), &[]);
    }
    let told = wire.produce("compacted", 0, builder.build());
    assert_eq!(code(told.error_code), ErrorCode::InvalidRecord);
    let places: Vec<i32> = told
        .record_errors
        .iter()
        .map(|record| record.batch_index)
        .collect();
    assert_eq!(places, [1]);
    let mut damaged = one(Compression::Gzip, "value").to_vec();
    *damaged.last_mut().expect("it has bytes") ^= 1;
    let told = wire.produce("compacted", 0, damaged);
    assert_eq!(code(told.error_code), ErrorCode::CorruptMessage);
    let told = wire.produce("compacted", 0, Bytes::from_static(b"no batch"));
    assert_eq!(code(told.error_code), ErrorCode::InvalidRecord);
    assert!(wire.read_all("compacted", 0, 0).is_empty());
}

#[test]
fn records_get_the_time_of_their_append_in_any_form() {
    let node = TestNode::start();
    let mut wire = node.connect();
    let configs = [
        ("compression.type", "snappy"),
        ("message.timestamp.type", "LogAppendTime"),
    ];
    wire.create_topic("orders", 1, &configs);
    let told = wire.produce("orders", 0, various(Compression::Lz4, -1, -1));
    let records = wire.read_all("orders", 0, 0);
    assert_eq!(records.len(), 3);
    assert!(
        records
            .iter()
            .all(|record| record.timestamp_ms == told.log_append_time_ms)
    );
}

#[test]
fn what_is_set_while_the_node_runs_holds_for_the_next_batch() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let mut expected = Vec::new();
    let mut append = |wire: &mut Wire, codec| {
        assert_eq!(
            wire.produce("orders", 0, one(Compression::None, "value"))
                .error_code,
            0
        );
        expected.push(Ok(codec));
    };
    append(&mut wire, Compression::None);
    set(&mut wire, BROKER, "", "compression.type", "gzip");
    append(&mut wire, Compression::Gzip);
    set(&mut wire, TOPIC, "orders", "compression.type", "snappy");
    append(&mut wire, Compression::Snappy);
    set(&mut wire, TOPIC, "orders", "compression.type", "producer");
    append(&mut wire, Compression::None);
    let unset = edit("compression.type", DELETE, None);
    assert_eq!(change(&mut wire, TOPIC, "orders", unset), ErrorCode::None);
    append(&mut wire, Compression::Gzip);
    let found = stored(&wire.fetch("orders", 0, 0));
    let found: Vec<_> = found
        .iter()
        .map(|(header, _)| header.attributes.compression())
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn levels_are_those_of_the_topic() {
    let node = TestNode::start();
    let mut wire = node.connect();
    let text: String = (0..4_000_u64)
        .map(|number| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (number % 50)).to_string())
        .collect();
    for (codec, level, low, high) in [
        ("gzip", "compression.gzip.level", "1", "9"),
        ("zstd", "compression.zstd.level", "-100", "19"),
    ] {
        wire.create_topic(codec, 1, &[("compression.type", codec), (level, low)]);
        assert_eq!(
            wire.produce(codec, 0, one(Compression::None, &text)).error_code,
            0
        );
        set(&mut wire, TOPIC, codec, level, high);
        assert_eq!(
            wire.produce(codec, 0, one(Compression::None, &text)).error_code,
            0
        );
        let lengths = stored_lengths(&mut wire, codec);
        assert!(lengths[0] > lengths[1], "{codec}: {lengths:?}");
    }
    for (name, value) in [
        ("compression.type", "none"),
        ("compression.gzip.level", "10"),
        ("compression.zstd.level", "23"),
        ("compression.lz4.level", "18"),
    ] {
        let refused = change(&mut wire, TOPIC, "gzip", edit(name, SET, Some(value)));
        assert_eq!(refused, ErrorCode::InvalidConfig, "{name}");
    }
}

/// Consumers of before Kafka 2.1 read no Zstandard (KIP-110).
#[test]
fn old_consumers_are_told_that_they_cannot_read_a_topic_in_zstd() {
    let node = TestNode::start();
    let mut wire = node.connect();
    for (topic, codec) in [("old", "lz4"), ("new", "zstd")] {
        wire.create_topic(topic, 1, &[("compression.type", codec)]);
    }
    for (topic, version, expected) in [
        ("old", 9, ErrorCode::None),
        ("new", 9, ErrorCode::UnsupportedCompressionType),
        ("new", 10, ErrorCode::None),
    ] {
        let told = wire.call(version, &fetch_request(topic, 0, 0));
        let told = told.responses[0].partitions[0].error_code;
        assert_eq!(code(told), expected, "{topic} {version}");
    }
}
