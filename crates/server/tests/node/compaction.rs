//! Compacted topics, as clients see them: the latest record of each key stays at its offset, whatever goes around it.

use std::time::Duration;

use bytes::Bytes;
use kafka_wire::ErrorCode;
use record::{BatchBuilder, Compression, Limits, Record};

use crate::ask::configs::{BROKER, set};
use crate::ask::{EARLIEST, LATEST, NEWEST, list_offsets};
use crate::producers::init;
use crate::support::{TestNode, Wire, batch, eventually, now_ms};

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
const ROUNDS: usize = 40;

fn keyed_batch(
    producer: Option<(i64, i32)>,
    codec: Compression,
    first_ms: i64,
    records: &[(String, Option<String>)],
) -> Bytes {
    let mut builder = BatchBuilder::new(codec);
    if let Some((id, first_sequence)) = producer {
        builder.set_producer(id, 0, first_sequence);
    }
    for ((key, value), time_ms) in records.iter().zip(first_ms..) {
        let value = value.as_deref().map(str::as_bytes);
        builder.append(time_ms, Some(key.as_bytes()), value, &[(b"h", Some(b"1"))]);
    }
    builder.build()
}

/// A text that no compression makes small.
fn value(round: usize, key: usize) -> String {
    let mut random = platform::random::SeededRandom::new((round * 1_000 + key) as u64);
    let digits = (0..700).map(|_| format!("{:016x}", random.next_u64()));
    format!("{round} {}", digits.collect::<String>())
}

/// The records that each round appends: key and value. From the middle on, one key is gone.
fn round_of(round: usize) -> Vec<(String, Option<String>)> {
    let record = |key| {
        let is_gone = key == 7 && round >= ROUNDS / 2;
        (format!("key {key}"), (!is_gone).then(|| value(round, key)))
    };
    (0..KEYS).map(record).collect()
}

/// Appends one round; its records' times are `began_ms` and their offset.
fn append_round(wire: &mut Wire, round: usize, began_ms: i64) -> Bytes {
    let codecs = [Compression::None, Compression::Zstd, Compression::Lz4];
    let first = (round * KEYS) as i64;
    // Each round is another producer's, so most of them leave nothing behind but what is remembered of them.
    let producer = Some((500 + round as i64, 0));
    let batch = keyed_batch(producer, codecs[round % 3], began_ms + first, &round_of(round));
    let told = wire.produce("table", 0, batch.clone());
    assert_eq!((told.error_code, told.base_offset), (0, first));
    batch
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

/// That each record is the one that was appended at its offset, and the latest of each key is among them; how many there are.
fn check_rounds(wire: &mut Wire, began_ms: i64) -> usize {
    let found = read_by_batches(wire, "table");
    assert!(found.is_sorted_by(|one, next| one.offset < next.offset));
    for record in &found {
        let offset = usize::try_from(record.offset.0).expect("from 0 on");
        let (key, value) = round_of(offset / KEYS).swap_remove(offset % KEYS);
        assert_eq!(record.key.as_deref(), Some(key.as_bytes()));
        assert_eq!(record.value.as_deref(), value.as_deref().map(str::as_bytes));
        assert_eq!(record.timestamp_ms, began_ms + record.offset.0);
    }
    let last_round = (ROUNDS - 1) * KEYS;
    let latest = found.iter().filter(|record| record.offset.0 >= last_round as i64);
    assert_eq!(latest.count(), KEYS);
    found.len()
}

fn list_offset(wire: &mut Wire, topic: &str, timestamp: i64) -> (i64, i64) {
    let request = list_offsets(topic, &[(0, -1, timestamp)]);
    let found = wire.call(7, &request).topics.remove(0).partitions.remove(0);
    assert_eq!(found.error_code, 0);
    (found.offset, found.timestamp)
}

/// The first record that is not older, of those that are there; ends as they were.
fn check_times(wire: &mut Wire, began_ms: i64) {
    let next = (ROUNDS * KEYS) as i64;
    let offsets = |wire: &mut Wire| -> Vec<i64> {
        let found = read_by_batches(wire, "table");
        found.iter().map(|record| record.offset.0).collect()
    };
    eventually("no pass comes in between", || {
        let before = offsets(wire);
        let asked = (0..next).step_by(37);
        let told: Vec<_> = asked
            .clone()
            .map(|wanted| list_offset(wire, "table", began_ms + wanted))
            .collect();
        if offsets(wire) != before {
            return false;
        }
        let expected = asked.map(|wanted| {
            let there = before.iter().find(|offset| **offset >= wanted);
            let there = *there.expect("the last one stays");
            (there, began_ms + there)
        });
        assert_eq!(told, expected.collect::<Vec<_>>());
        true
    });
    assert_eq!(list_offset(wire, "table", began_ms + next), (-1, -1));
    assert_eq!(list_offset(wire, "table", EARLIEST), (0, -1));
    assert_eq!(list_offset(wire, "table", LATEST), (next, -1));
    assert_eq!(
        list_offset(wire, "table", NEWEST),
        (next - 1, began_ms + next - 1)
    );
}

#[test]
fn the_latest_record_of_each_key_stays_over_restarts_and_producers_are_recognised() {
    let node = TestNode::start_with(&QUICK);
    let mut wire = node.connect();
    wire.create_topic("table", 1, &COMPACTED);
    // With it comes a block of a thousand ids.
    assert_eq!(init(&mut wire), 0);
    let began_ms = now_ms() - 10_000;
    let batches: Vec<Bytes> = (0..ROUNDS)
        .map(|round| append_round(&mut wire, round, began_ms))
        .collect();
    // A complete segment is compacted, an open one is not.
    let mut left = usize::MAX;
    for _ in 0..1_000 {
        left = check_rounds(&mut wire, began_ms);
        if left < ROUNDS / 2 * KEYS {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(left < ROUNDS / 2 * KEYS, "{left} records are left");
    assert!(node.metric("ropewalk_compaction_passes_total") > 0);
    assert!(node.metric("ropewalk_compaction_removed_records_total") > 0);
    let fetched = wire.fetch("table", 0, 0);
    assert_eq!(
        (fetched.log_start_offset, fetched.high_watermark),
        (0, (ROUNDS * KEYS) as i64)
    );
    check_times(&mut wire, began_ms);

    let node = node.kill_and_restart();
    let mut wire = node.connect();
    assert!(check_rounds(&mut wire, began_ms) < ROUNDS / 2 * KEYS);
    check_times(&mut wire, began_ms);
    // Also the first producer's, of which no batch is left.
    for round in [0, 1, ROUNDS - 1] {
        let again = wire.produce("table", 0, batches[round].clone());
        assert_eq!(
            (again.error_code, again.base_offset),
            (0, (round * KEYS) as i64),
            "a duplicate is recognised"
        );
    }
    let next = keyed_batch(
        Some((500, KEYS as i32)),
        Compression::None,
        now_ms(),
        &[("new".into(), None)],
    );
    assert_eq!(wire.produce("table", 0, next).base_offset, (ROUNDS * KEYS) as i64);
}

/// Offsets and keys that are no filler.
fn small_keys(wire: &mut Wire) -> Vec<(i64, String)> {
    let found = read_by_batches(wire, "table").into_iter();
    found
        .map(|record| {
            let key = record.key.expect("keyed").to_vec();
            (record.offset.0, String::from_utf8(key).expect("text"))
        })
        .filter(|(_, key)| !key.starts_with("key"))
        .collect()
}

#[test]
fn tombstones_go_after_their_time_and_nothing_comes_back() {
    let node = TestNode::start_with(&QUICK);
    let mut wire = node.connect();
    let configs: Vec<_> = COMPACTED
        .into_iter()
        .chain([("delete.retention.ms", "1")])
        .collect();
    wire.create_topic("table", 1, &configs);
    let named =
        |names: [&str; 3], value: Option<&str>| names.map(|name| (name.to_owned(), value.map(str::to_owned)));
    let there = named(["a", "b", "c"], Some("there"));
    let gone = named(["a", "b", "none"], None);
    for records in [there, gone] {
        let batch = keyed_batch(None, Compression::Gzip, now_ms(), &records);
        assert_eq!(wire.produce("table", 0, batch).error_code, 0);
    }
    // The second batch too must be in a complete segment, and each pass needs something that is dirty, or a time that is over.
    let mut left = Vec::new();
    for round in 0..400 {
        if round < 30 {
            let batch = keyed_batch(None, Compression::None, now_ms(), &round_of(round));
            assert_eq!(wire.produce("table", 0, batch).error_code, 0);
        }
        left = small_keys(&mut wire);
        if left.len() == 1 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(left, [(2, "c".to_owned())]);
    assert!(node.metric("ropewalk_compaction_removed_tombstones_total") >= 3);
    let node = node.kill_and_restart();
    let mut wire = node.connect();
    assert_eq!(small_keys(&mut wire), [(2, "c".to_owned())]);
}

#[test]
fn an_old_value_is_gone_in_time_though_little_is_appended() {
    // Nothing is looked at before the interval is changed, and nothing is laid out for the sake of its bytes.
    let node = TestNode::start_with(&[("compaction.check_interval", "1d")]);
    let mut wire = node.connect();
    let configs = [
        ("cleanup.policy", "compact"),
        ("max.compaction.lag.ms", "100"),
        ("min.cleanable.dirty.ratio", "1"),
    ];
    wire.create_topic("table", 1, &configs);
    set(&mut wire, BROKER, "1", "log.cleaner.backoff.ms", "10");
    let mut appended = 0;
    eventually("the first value is gone", || {
        let value = Some(appended.to_string());
        let batch = keyed_batch(None, Compression::None, now_ms(), &[("key".into(), value)]);
        let told = wire.produce("table", 0, batch);
        assert_eq!((told.error_code, told.base_offset), (0, appended));
        appended += 1;
        read_by_batches(&mut wire, "table")[0].offset.0 > 0
    });
    let found = read_by_batches(&mut wire, "table");
    let last = found.last().expect("the latest stays");
    assert_eq!(last.offset.0, appended - 1);
    assert!(node.metric("ropewalk_layout_rounds_total") > 0);
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
            now_ms(),
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
    eventually("the old record goes", || {
        wire.fetch("both", 0, 0).error_code == ErrorCode::OffsetOutOfRange.code()
    });
    assert_eq!(wire.read_all("table", 0, 0).len(), 1);
}
