//! Batches that must not be stored: damaged, lying, too large, or not a producer's to send.

use bytes::Bytes;
use kafka_wire::produce::PartitionProduceData;
use kafka_wire::{ErrorCode, ProduceResponse};
use record::{BATCH_OVERHEAD_BYTES, BatchBuilder, Compression, checksum};

use crate::support::{TestNode, batch, compressed_batch, now_ms, produce_request, stamped_batch};

// Where the fields of a batch stand.
const BASE_OFFSET: usize = 0;
const LENGTH: usize = 8;
const MAGIC: usize = 16;
const CRC: usize = 17;
const ATTRIBUTES: usize = 22;
const LAST_OFFSET_DELTA: usize = 23;
const RECORD_COUNT: usize = 57;

/// Changes a batch's bytes and makes its checksum fit them again.
fn changed(batch: &[u8], place: usize, bytes: &[u8]) -> Bytes {
    let mut batch = batch.to_vec();
    batch[place..place + bytes.len()].copy_from_slice(bytes);
    let sum = checksum(&batch);
    batch[CRC..CRC + 4].copy_from_slice(&sum.to_be_bytes());
    Bytes::from(batch)
}

#[test]
fn unsound_batches_are_refused_and_leave_nothing_behind() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let good = batch(&[(now_ms(), "a"), (now_ms(), "b")]);
    let mut flipped = good.to_vec();
    *flipped.last_mut().expect("bytes") ^= 1;
    let mut short = good.to_vec();
    short[LENGTH..LENGTH + 4].copy_from_slice(&10i32.to_be_bytes());
    let mut long = good.to_vec();
    long[LENGTH..LENGTH + 4].copy_from_slice(&i32::MAX.to_be_bytes());
    // The second record's offset delta: its record starts behind the first one's.
    let second = BATCH_OVERHEAD_BYTES + 1 + good[BATCH_OVERHEAD_BYTES] as usize / 2;
    let mut transactional = BatchBuilder::new(Compression::None).with_producer(7, 0, 0);
    transactional.set_transactional(true);
    transactional.append(now_ms(), None, Some(b"x"), &[]);
    let (corrupt, invalid) = (ErrorCode::CorruptMessage, ErrorCode::InvalidRecord);
    let cases = [
        ("nothing", Bytes::new(), invalid),
        ("one byte", good.slice(..1), invalid),
        (
            "cut in the header",
            good.slice(..BATCH_OVERHEAD_BYTES - 1),
            invalid,
        ),
        ("cut in the records", good.slice(..good.len() - 1), invalid),
        ("a flipped bit", flipped.into(), corrupt),
        ("a length too small", short.into(), corrupt),
        ("a length too great", long.into(), invalid),
        (
            "an offset of its own",
            changed(&good, BASE_OFFSET, &5i64.to_be_bytes()),
            invalid,
        ),
        ("two batches", [&good[..], &good[..]].concat().into(), invalid),
        ("trailing bytes", [&good[..], b"x"].concat().into(), invalid),
        ("format 0", changed(&good, MAGIC, &[0]), invalid),
        ("format 1", changed(&good, MAGIC, &[1]), invalid),
        ("format 3", changed(&good, MAGIC, &[3]), corrupt),
        (
            "no records",
            changed(&good, RECORD_COUNT, &0i32.to_be_bytes()),
            invalid,
        ),
        (
            "fewer records than there are",
            changed(&good, RECORD_COUNT, &1i32.to_be_bytes()),
            invalid,
        ),
        (
            "a negative count",
            changed(&good, RECORD_COUNT, &(-1i32).to_be_bytes()),
            invalid,
        ),
        (
            "a huge count",
            changed(&good, RECORD_COUNT, &i32::MAX.to_be_bytes()),
            invalid,
        ),
        (
            "a last offset that lies",
            changed(&good, LAST_OFFSET_DELTA, &5i32.to_be_bytes()),
            invalid,
        ),
        (
            "an offset delta that lies",
            changed(&good, second + 3, &[4]),
            invalid,
        ),
        ("a control batch", changed(&good, ATTRIBUTES, &[0x20]), invalid),
        ("an append time", changed(&good, ATTRIBUTES, &[0x08]), invalid),
        ("a delete horizon", changed(&good, ATTRIBUTES, &[0x40]), invalid),
        (
            "unknown attributes",
            changed(&good, ATTRIBUTES - 1, &[0x80]),
            invalid,
        ),
        (
            "an unknown codec",
            changed(&good, ATTRIBUTES, &[5]),
            ErrorCode::UnsupportedCompressionType,
        ),
        (
            "records that are not gzip",
            changed(&good, ATTRIBUTES, &[1]),
            invalid,
        ),
        (
            "records that are not snappy",
            changed(&good, ATTRIBUTES, &[2]),
            invalid,
        ),
        (
            "records that are not lz4",
            changed(&good, ATTRIBUTES, &[3]),
            invalid,
        ),
        (
            "records that are not zstd",
            changed(&good, ATTRIBUTES, &[4]),
            invalid,
        ),
        (
            "a transaction of nobody",
            changed(&good, ATTRIBUTES, &[0x10]),
            invalid,
        ),
        (
            "a transaction",
            transactional.build(),
            ErrorCode::TransactionalIdAuthorizationFailed,
        ),
        (
            "a sequence without an epoch",
            stamped_batch(5, -1, 0, &["x"]),
            invalid,
        ),
        (
            "an epoch without a sequence",
            stamped_batch(5, 0, -1, &["x"]),
            invalid,
        ),
        (
            "a time to come",
            batch(&[(now_ms() + 7_200_000, "x")]),
            ErrorCode::InvalidTimestamp,
        ),
    ];
    for (what, bad, expected) in cases {
        let told = wire.produce("orders", 0, bad);
        assert_eq!(
            ErrorCode::from_code(told.error_code),
            Some(expected),
            "{what}: {:?}",
            told.error_message
        );
        assert_eq!(told.base_offset, -1, "{what}");
        assert!(
            told.error_message.is_some_and(|message| !message.is_empty()),
            "{what}"
        );
    }
    let mut null = produce_request("orders", 0, Bytes::new(), -1);
    null.topic_data[0].partition_data[0].records = None;
    let told = wire
        .call(9, &null)
        .responses
        .remove(0)
        .partition_responses
        .remove(0);
    assert_eq!(told.error_code, invalid.code());
    assert_eq!(
        wire.produce("orders", 0, good).base_offset,
        0,
        "nothing else was stored"
    );
    assert_eq!(wire.read_values("orders", 0), ["a", "b"]);
}

/// Records with these times, some with a key.
fn timed_batch(codec: Compression, records: &[(Option<&str>, i64)]) -> Bytes {
    let mut builder = BatchBuilder::new(codec);
    for (key, time_ms) in records {
        builder.append(*time_ms, key.map(str::as_bytes), Some(b"value"), &[]);
    }
    builder.build()
}

#[test]
fn one_record_has_its_batch_refused_and_is_named() {
    const HOUR_MS: i64 = 3_600_000;
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("recent", 1, &[("message.timestamp.before.max.ms", "600000")]);
    wire.create_topic("table", 1, &[("cleanup.policy", "compact")]);
    wire.create_topic("log", 1, &[]);
    let now = now_ms();
    let (key, time) = (ErrorCode::InvalidRecord, ErrorCode::InvalidTimestamp);
    let cases = [
        (
            "recent",
            vec![(None, now), (None, now - HOUR_MS)],
            Some((time, vec![1])),
        ),
        (
            "recent",
            vec![(None, now - HOUR_MS), (None, now), (None, 0)],
            Some((time, vec![0, 2])),
        ),
        ("recent", vec![(None, now), (None, now - 1)], None),
        // Without a time: that is not the year 1969.
        ("recent", vec![(None, now), (None, -1)], None),
        ("recent", vec![(None, -1)], None),
        ("log", vec![(None, now), (None, now - HOUR_MS)], None),
        (
            "log",
            vec![(None, now), (None, now + 2 * HOUR_MS), (None, now + 3 * HOUR_MS)],
            Some((time, vec![1, 2])),
        ),
        (
            "table",
            vec![(None, now), (Some("a"), now), (None, now), (None, now)],
            Some((key, vec![0, 2, 3])),
        ),
        // A wrong time of any record goes before missing keys, and of one record the key is told.
        (
            "table",
            vec![(None, now + 2 * HOUR_MS), (Some("a"), now + 2 * HOUR_MS)],
            Some((time, vec![0, 1])),
        ),
        ("table", vec![(Some("a"), now), (Some(""), now)], None),
    ];
    for (topic, records, expected) in cases {
        for codec in [Compression::None, Compression::Lz4] {
            let told = wire.produce(topic, 0, timed_batch(codec, &records));
            let what = format!("{topic} {records:?}: {:?}", told.error_message);
            let to_blame: Vec<i32> = told.record_errors.iter().map(|it| it.batch_index).collect();
            let (error, places) = expected.clone().unwrap_or((ErrorCode::None, Vec::new()));
            assert_eq!((told.error_code, to_blame), (error.code(), places), "{what}");
            for record in &told.record_errors {
                let message = record.batch_index_error_message.as_deref().unwrap_or_default();
                let no_key = "Compacted topic cannot accept message without key in topic partition table-0.";
                assert!(
                    message == no_key
                        || message.contains(" is out of range. The timestamp should be within ["),
                    "{message}"
                );
            }
        }
    }
}

#[test]
fn bad_records_are_named_within_bounds() {
    let node = TestNode::start();
    let mut wire = node.connect();
    let partitions = 40;
    wire.create_topic("table", partitions, &[("cleanup.policy", "compact")]);
    let without_keys = vec![(None, now_ms()); 5_000];
    let one = wire.produce("table", 0, timed_batch(Compression::None, &without_keys));
    assert_eq!(one.record_errors.len(), 1_000, "of one batch");
    let batch = timed_batch(Compression::Zstd, &without_keys);
    let mut request = produce_request("table", 0, batch, -1);
    let first = request.topic_data[0].partition_data[0].clone();
    let of_index = |index| PartitionProduceData {
        index,
        ..first.clone()
    };
    request.topic_data[0].partition_data = (0..partitions).map(of_index).collect();
    let told = wire.call(9, &request).responses.remove(0).partition_responses;
    let named: Vec<usize> = told
        .iter()
        .map(|partition| partition.record_errors.len())
        .collect();
    // Which core comes first is open, and two may look at what is left at once.
    assert!(named.iter().all(|named| (1..=1_000).contains(named)), "{named:?}");
    assert!(
        named.iter().sum::<usize>() <= 10_000 + partitions as usize,
        "{named:?}"
    );
    let errors = told.iter().flat_map(|partition| &partition.record_errors);
    let messages = errors.filter_map(|record| record.batch_index_error_message.as_deref());
    assert!(messages.map(str::len).sum::<usize>() < 1_100_000);
}

#[test]
fn zstd_is_for_those_whose_version_knows_it() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    for version in 3..=9 {
        let zstd = compressed_batch(Compression::Zstd, &[(now_ms(), "x")]);
        let told = wire.call(version, &produce_request("orders", 0, zstd, -1));
        let told = &told.responses[0].partition_responses[0];
        let expected = match version {
            ..=6 => ErrorCode::UnsupportedCompressionType,
            _ => ErrorCode::None,
        };
        assert_eq!(told.error_code, expected.code(), "version {version}");
    }
    assert_eq!(wire.read_values("orders", 0).len(), 3);
}

#[test]
fn a_topic_says_how_large_a_batch_may_be() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[("max.message.bytes", "1000")]);
    let value = "x".repeat(2000);
    let too_large = wire.produce("orders", 0, batch(&[(now_ms(), &value)]));
    assert_eq!(too_large.error_code, ErrorCode::MessageTooLarge.code());
    assert!(
        too_large
            .error_message
            .expect("a sentence")
            .contains("max.message.bytes")
    );
    // It counts what is sent, not what it unpacks to.
    assert_eq!(
        wire.produce(
            "orders",
            0,
            compressed_batch(Compression::Zstd, &[(now_ms(), &value)])
        )
        .error_code,
        0
    );
    let mut filling = 0;
    while batch(&[(now_ms(), &value[..filling + 1])]).len() <= 1000 {
        filling += 1;
    }
    assert_eq!(
        wire.produce("orders", 0, batch(&[(now_ms(), &value[..filling])]))
            .error_code,
        0,
        "exactly full"
    );
}

#[test]
fn a_batch_that_unpacks_to_too_much_is_refused() {
    let node = TestNode::start_with(&[("limits.decompressed_bytes", "1MiB")]);
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let zeros = "0".repeat(16 << 20);
    for compression in [
        Compression::Gzip,
        Compression::Zstd,
        Compression::Lz4,
        Compression::Snappy,
    ] {
        let bomb = compressed_batch(compression, &[(now_ms(), &zeros)]);
        assert!(bomb.len() < 1_000_000, "{compression}");
        assert_eq!(
            wire.produce("orders", 0, bomb).error_code,
            ErrorCode::InvalidRecord.code(),
            "{compression}"
        );
    }
    assert_eq!(
        wire.produce("orders", 0, batch(&[(now_ms(), "x")])).base_offset,
        0
    );
}

#[test]
fn the_batches_of_a_request_are_decompressed_to_so_much_together() {
    const BATCHES: usize = 20;
    let node = TestNode::start_with(&[("limits.decompressed_bytes", "1MiB")]);
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    // Each is a thousandth of what it decompresses to, and taken by itself.
    let value = "x".repeat(700_000);
    let bomb = compressed_batch(Compression::Zstd, &[(now_ms(), &value)]);
    assert!(bomb.len() < 1_000, "{}", bomb.len());
    assert_eq!(wire.produce("orders", 0, bomb.clone()).error_code, 0);
    let mut request = produce_request("orders", 0, bomb.clone(), -1);
    let one = request.topic_data[0].partition_data[0].clone();
    request.topic_data[0].partition_data = vec![one; BATCHES];
    let codes_of = |response: ProduceResponse| -> Vec<i16> {
        let topics = response.responses.into_iter();
        topics
            .flat_map(|topic| topic.partition_responses)
            .map(|partition| partition.error_code)
            .collect()
    };
    let codes = codes_of(wire.call(9, &request));
    let taken = codes.iter().filter(|code| **code == 0).count();
    let too_large = ErrorCode::MessageTooLarge.code();
    assert!((1..BATCHES / 2).contains(&taken), "{codes:?}");
    assert!(codes[taken..].iter().all(|code| *code == too_large), "{codes:?}");
    // Batches that nobody made for this are taken, however many they are.
    let words: Vec<String> = (0..2_000)
        .map(|number| format!("{number} of many lines"))
        .collect();
    let lines: Vec<(i64, &str)> = words.iter().map(|line| (now_ms(), line.as_str())).collect();
    let batch = compressed_batch(Compression::Gzip, &lines);
    let one = PartitionProduceData {
        index: 0,
        records: Some(batch),
        ..PartitionProduceData::default()
    };
    request.topic_data[0].partition_data = vec![one; 100];
    let codes = codes_of(wire.call(9, &request));
    assert!(codes.iter().all(|code| *code == 0), "{codes:?}");
}

#[test]
fn a_record_has_a_thousand_headers_and_not_millions() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let batch = |count: usize| {
        let mut builder = BatchBuilder::new(Compression::Gzip);
        builder.append(now_ms(), None, None, &vec![(&b""[..], Some(&b""[..])); count]);
        builder.build()
    };
    for count in [1_000, record::HEADERS_MAX as usize] {
        assert_eq!(wire.produce("orders", 0, batch(count)).error_code, 0, "{count}");
    }
    let refused = wire.produce("orders", 0, batch(4_000_000));
    assert_eq!(refused.error_code, ErrorCode::InvalidRecord.code());
    let why = refused.error_message.expect("a sentence");
    assert!(
        why.contains("4000000 headers, a record may have 10000"),
        "{}",
        &*why
    );
}
