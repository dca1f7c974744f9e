//! Compacted topics, as clients see them: the latest record of each key stays at its offset, whatever goes around it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use kafka_wire::ErrorCode;
use record::{BatchBuilder, Compression, Limits, Record};

use crate::support::{TestNode, Wire, batch, now_ms};

/// So that little data makes complete segments, and looks at what to compact are frequent.
const QUICK: [(&str, &str); 4] = [
    ("journal.file_bytes", "1MiB"),
    ("journal.bytes_max", "16MiB"),
    ("journal.layout_trigger", "1MiB"),
    ("compaction.check_interval", "20ms"),
];
const COMPACTED: [(&str, &str); 3] = [
    ("cleanup.policy", "compact"),
    ("segment.bytes", "1048576"),
    ("min.cleanable.dirty.ratio", "0.1"),
];
const KEYS: usize = 20;

fn keyed_batch(
    producer: Option<(i64, i32)>,
    codec: Compression,
    records: &[(String, Option<String>)],
) -> Bytes {
    let mut builder = BatchBuilder::new(codec);
    if let Some((id, first_sequence)) = producer {
        builder.set_producer(id, 0, first_sequence);
    }
    for (key, value) in records {
        let value = value.as_deref().map(str::as_bytes);
        builder.append(now_ms(), Some(key.as_bytes()), value, &[(b"h", Some(b"1"))]);
    }
    builder.build()
}

/// What no compression makes small.
fn value(round: usize, key: usize) -> String {
    let mut random = platform::random::SeededRandom::new((round * 1_000 + key) as u64);
    let digits = (0..700).map(|_| format!("{:016x}", random.next_u64()));
    format!("{round} {}", digits.collect::<String>())
}

/// All records by batches, so that ones without records do not end it.
fn read_by_batches(wire: &mut Wire, topic: &str) -> Vec<Record> {
    let (mut from, mut found) = (0, Vec::new());
    loop {
        let fetched = wire.fetch(topic, 0, from);
        assert_eq!(fetched.error_code, 0);
        let bytes: Vec<u8> = fetched
            .records
            .chunks
            .iter()
            .flat_map(|chunk| chunk.to_vec())
            .collect();
        if bytes.is_empty() {
            assert_eq!(from, fetched.high_watermark, "a fetch gets on up to the end");
            return found;
        }
        for batch in record::batches(&bytes) {
            let (header, batch) = batch.expect("whole batches");
            assert!(record::checksum_holds(batch) && header.next_offset().0 > from);
            let records = record::records(batch, &Limits::default()).expect("sound");
            found.extend(records.map(|record| record.expect("sound")));
            from = header.next_offset().0;
        }
    }
}

fn latest(records: &[Record]) -> BTreeMap<Bytes, Record> {
    let keyed = records
        .iter()
        .map(|record| (record.key.clone().expect("keyed"), record.clone()));
    keyed.collect()
}

#[test]
fn the_latest_record_of_each_key_stays_over_restarts_and_producers_are_recognised() {
    let node = TestNode::start_with(&QUICK);
    let mut wire = node.connect();
    wire.create_topic("table", 1, &COMPACTED);
    let codecs = [Compression::None, Compression::Zstd, Compression::Lz4];
    let mut last = None;
    for round in 0..40_usize {
        let records: Vec<_> = (0..KEYS)
            .map(|key| {
                (
                    format!("key {key}"),
                    Some(value(round, key)).filter(|_| key != 7 || round < 20),
                )
            })
            .collect();
        let batch = keyed_batch(Some((500, (round * KEYS) as i32)), codecs[round % 3], &records);
        let told = wire.produce("table", 0, batch.clone());
        assert_eq!((told.error_code, told.base_offset), (0, (round * KEYS) as i64));
        last = Some(batch);
    }
    let expected = latest(&read_by_batches(&mut wire, "table"));
    assert_eq!(expected.len(), KEYS);
    // 40 rounds were appended; what is complete is compacted, what is open is not.
    let mut left = usize::MAX;
    for _ in 0..1_000 {
        left = read_by_batches(&mut wire, "table").len();
        if left < 20 * KEYS {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(left < 20 * KEYS, "{left} records are left");
    assert!(node.metric("ropewalk_compaction_passes_total") > 0);
    assert!(node.metric("ropewalk_compaction_removed_records_total") > 0);
    assert_eq!(latest(&read_by_batches(&mut wire, "table")), expected);
    let fetched = wire.fetch("table", 0, 0);
    assert_eq!(
        (fetched.log_start_offset, fetched.high_watermark),
        (0, (40 * KEYS) as i64)
    );

    let node = node.kill_and_restart();
    let mut wire = node.connect();
    assert_eq!(latest(&read_by_batches(&mut wire, "table")), expected);
    let again = wire.produce("table", 0, last.expect("there were rounds"));
    assert_eq!(
        (again.error_code, again.base_offset),
        (0, (39 * KEYS) as i64),
        "a duplicate is recognised"
    );
    let next = keyed_batch(
        Some((500, (40 * KEYS) as i32)),
        Compression::None,
        &[("new".into(), None)],
    );
    assert_eq!(wire.produce("table", 0, next).base_offset, (40 * KEYS) as i64);
}

#[test]
fn a_record_without_a_key_has_its_batch_refused() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("table", 1, &COMPACTED);
    wire.create_topic("both", 1, &[("cleanup.policy", "delete,compact")]);
    for topic in ["table", "both"] {
        for codec in [Compression::None, Compression::Gzip] {
            let mut builder = BatchBuilder::new(codec);
            builder.append(now_ms(), Some(b"key"), Some(b"value"), &[]);
            builder.append(now_ms(), None, Some(b"value"), &[]);
            let told = wire.produce(topic, 0, builder.build());
            assert_eq!(
                ErrorCode::from_code(told.error_code),
                Some(ErrorCode::InvalidRecord)
            );
            assert!(
                told.error_message
                    .is_some_and(|message| message.contains("no key"))
            );
        }
        assert!(wire.read_all(topic, 0, 0).is_empty());
        // A tombstone, and an empty key, are keys.
        let sound = keyed_batch(
            None,
            Compression::None,
            &[("key".into(), None), (String::new(), None)],
        );
        assert_eq!(wire.produce(topic, 0, sound).error_code, 0);
    }
    wire.create_topic("log", 1, &[]);
    assert_eq!(
        wire.produce("log", 0, batch(&[(now_ms(), "no key")])).error_code,
        0
    );
}

#[test]
fn a_topic_that_is_only_compacted_keeps_old_records() {
    let node = TestNode::start_with(&[("retention.check_interval", "10ms")]);
    let mut wire = node.connect();
    let old = [("retention.ms", "1"), ("retention.bytes", "1")];
    wire.create_topic("table", 1, &[old[0], old[1], ("cleanup.policy", "compact")]);
    wire.create_topic("both", 1, &[old[0], old[1], ("cleanup.policy", "compact,delete")]);
    for topic in ["table", "both"] {
        let mut builder = BatchBuilder::new(Compression::None);
        builder.append(now_ms() - 60_000, Some(b"key"), Some(b"value"), &[]);
        assert_eq!(wire.produce(topic, 0, builder.build()).error_code, 0);
    }
    while wire.fetch("both", 0, 0).error_code != ErrorCode::OffsetOutOfRange.code() {}
    assert_eq!(wire.read_all("table", 0, 0).len(), 1);
}

#[test]
fn the_nodes_own_metadata_outlives_every_default() {
    let node = TestNode::start_with(&[
        ("retention.check_interval", "10ms"),
        ("topics.defaults.retention.ms", "1"),
        ("topics.defaults.cleanup.policy", "compact,delete"),
    ]);
    let mut wire = node.connect();
    wire.create_topic("kept", 3, &[]);
    std::thread::sleep(Duration::from_millis(200));
    let node = node.restart();
    let mut wire = node.connect();
    let told = wire.produce(
        "kept",
        2,
        keyed_batch(None, Compression::None, &[("key".into(), None)]),
    );
    assert_eq!(told.error_code, 0);
}
