//! Consumers: where they begin, what they skip, and how damage shows.

use std::time::Duration;

use client::fake_broker::Fault;
use client::{
    Advice, ClientError, Cluster, Compression, Consumer, ConsumerOptions, ErrorCode, Offset, Producer,
    ProducerOptions, Start,
};
use kafka_wire::ApiKey;

use crate::started;

/// Appends `batches` batches of ten records whose values are their offsets and whose times are ten times that.
fn fill(cluster: &mut Cluster, batches: i64, compression: Compression) {
    let options = ProducerOptions {
        compression,
        ..ProducerOptions::default()
    };
    let mut producer = Producer::new(cluster, "strand", 0, options).expect("the topic is there");
    for batch in 0..batches {
        for record in batch * 10..batch * 10 + 10 {
            producer.append(record * 10, None, Some(record.to_string().as_bytes()), &[]);
        }
        producer.send(cluster);
    }
    assert!(producer.flush(cluster).iter().all(|done| done.outcome.is_ok()));
}

fn consumer(cluster: &mut Cluster, start: Start, options: ConsumerOptions) -> Consumer {
    Consumer::new(cluster, "strand", 0, start, options).expect("the topic is there")
}

/// Reads to the tail, and checks that each record is the next.
fn read_all(consumer: &mut Consumer) -> Vec<i64> {
    let mut seen = Vec::new();
    loop {
        let fetched = consumer.fetch().expect("sound");
        for record in fetched.records() {
            let record = record.expect("sound");
            assert_eq!(
                record.value.expect("each has one"),
                record.offset.to_string().as_bytes()
            );
            seen.push(record.offset.0);
        }
        if consumer.position() == consumer.tail() {
            return seen;
        }
    }
}

#[test]
fn everything_comes_back_in_order_whatever_the_compression() {
    for compression in [Compression::None, Compression::Zstd, Compression::Snappy] {
        for fetch_ahead in [false, true] {
            let (_broker, mut cluster) = started();
            fill(&mut cluster, 20, compression);
            let options = ConsumerOptions {
                bytes_max: 700,
                fetch_ahead,
                ..ConsumerOptions::default()
            };
            let mut consumer = consumer(&mut cluster, Start::Earliest, options);
            assert_eq!(read_all(&mut consumer), (0..200).collect::<Vec<_>>());
        }
    }
}

#[test]
fn records_before_the_wanted_offset_are_skipped() {
    let (_broker, mut cluster) = started();
    fill(&mut cluster, 5, Compression::None);
    for (start, first) in [
        (Start::Offset(Offset(17)), 17),
        (Start::Timestamp(233), 24),
        (Start::Timestamp(99_999), 50),
        (Start::Latest, 50),
    ] {
        let options = ConsumerOptions {
            wait_max: Duration::ZERO,
            ..ConsumerOptions::default()
        };
        let mut consumer = consumer(&mut cluster, start, options);
        assert_eq!(consumer.position(), Offset(first));
        assert_eq!(
            read_all(&mut consumer),
            (first..50).collect::<Vec<_>>(),
            "{start:?}"
        );
    }
}

#[test]
fn a_batch_cut_at_the_end_is_fetched_again() {
    let (broker, mut cluster) = started();
    fill(&mut cluster, 3, Compression::None);
    let batch_bytes = broker.batches("strand", 0)[0].len();
    broker.inject(ApiKey::Fetch, Fault::Cut(2 * batch_bytes + 20));
    let mut consumer = consumer(&mut cluster, Start::Earliest, ConsumerOptions::default());
    let fetched = consumer.fetch().expect("two whole batches");
    assert_eq!((fetched.record_count(), fetched.next_offset()), (20, Offset(20)));
    assert_eq!(fetched.batches().count(), 2);
    assert_eq!(read_all(&mut consumer), (20..30).collect::<Vec<_>>());
}

#[test]
fn a_batch_that_no_fetch_can_hold_is_an_error() {
    let (broker, mut cluster) = started();
    fill(&mut cluster, 1, Compression::None);
    broker.inject(ApiKey::Fetch, Fault::Cut(70));
    let mut consumer = consumer(&mut cluster, Start::Earliest, ConsumerOptions::default());
    let error = consumer.fetch().expect_err("no whole batch came");
    assert!(
        matches!(
            error,
            ClientError::FetchTooSmall {
                offset: Offset(0),
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn damaged_bytes_are_never_handed_out() {
    let (broker, mut cluster) = started();
    fill(&mut cluster, 2, Compression::None);
    broker.inject(ApiKey::Fetch, Fault::Damage);
    let mut consumer = consumer(&mut cluster, Start::Earliest, ConsumerOptions::default());
    let error = consumer.fetch().expect_err("the checksum does not hold");
    assert!(matches!(error, ClientError::Batch { .. }), "{error}");
    assert_eq!(error.advice(), Advice::Corrupt);
    // The position has not moved: the same records come whole the next time.
    assert_eq!(read_all(&mut consumer), (0..20).collect::<Vec<_>>());
}

#[test]
fn without_checksums_a_malformed_record_ends_the_records() {
    let (broker, mut cluster) = started();
    fill(&mut cluster, 1, Compression::None);
    broker.inject(ApiKey::Fetch, Fault::Damage);
    let options = ConsumerOptions {
        check_checksums: false,
        fetch_ahead: false,
        ..ConsumerOptions::default()
    };
    let mut consumer = consumer(&mut cluster, Start::Earliest, options);
    let fetched = consumer.fetch().expect("headers are sound");
    let mut records = fetched.records();
    assert!(records.next().expect("an error is an item").is_err());
    assert!(records.next().is_none());
}

#[test]
fn trimmed_and_future_offsets_are_out_of_range() {
    let (broker, mut cluster) = started();
    fill(&mut cluster, 3, Compression::None);
    broker.trim("strand", 0, 10);
    for offset in [3, 31] {
        let start = Start::Offset(Offset(offset));
        let mut consumer = consumer(&mut cluster, start, ConsumerOptions::default());
        let error = consumer.fetch().expect_err("it is not there");
        assert_eq!(error.code(), Some(ErrorCode::OffsetOutOfRange));
        let again = consumer.fetch().expect_err("it is still not there");
        assert_eq!(again.code(), error.code(), "the connection serves on");
    }
}

#[test]
fn a_follower_sees_what_comes_and_survives_a_lost_connection() {
    let (broker, mut cluster) = started();
    let options = ConsumerOptions {
        wait_max: Duration::from_millis(5),
        ..ConsumerOptions::default()
    };
    let mut consumer = consumer(&mut cluster, Start::Latest, options);
    assert!(consumer.fetch().expect("nothing is no error").is_empty());
    fill(&mut cluster, 1, Compression::None);
    assert_eq!(read_all_until(&mut consumer, 10), 10);
    broker.disconnect_all();
    let error = loop {
        if let Err(error) = consumer.fetch() {
            break error;
        }
    };
    assert_eq!(error.advice(), Advice::Reconnect);
    consumer.reconnect(&mut cluster).expect("it still listens");
    fill(&mut cluster, 1, Compression::None);
    assert_eq!(read_all_until(&mut consumer, 20), 10);
}

#[test]
fn what_came_is_handed_out_though_the_connection_has_ended_since() {
    let (broker, mut cluster) = started();
    fill(&mut cluster, 2, Compression::None);
    // The first answer is one batch; behind the second, which is fetched ahead, the connection is gone.
    let batch_bytes = broker.batches("strand", 0)[0].len();
    broker.inject(ApiKey::Fetch, Fault::Cut(batch_bytes));
    broker.inject(ApiKey::Fetch, Fault::Reset);
    let mut consumer = consumer(&mut cluster, Start::Earliest, ConsumerOptions::default());
    assert_eq!(consumer.fetch().expect("sound").next_offset(), Offset(10));
    broker.wait_reset();
    let fetched = consumer.fetch().expect("it came before the end");
    assert_eq!(
        (fetched.first_offset(), fetched.next_offset()),
        (Offset(10), Offset(20))
    );
    assert_eq!(consumer.position(), Offset(20));
    let error = consumer.fetch().expect_err("the connection has ended");
    assert_eq!(error.advice(), Advice::Reconnect);
    consumer.reconnect(&mut cluster).expect("it still listens");
    fill(&mut cluster, 1, Compression::None);
    assert_eq!(read_all_until(&mut consumer, 30), 10);
}

fn read_all_until(consumer: &mut Consumer, offset: i64) -> i64 {
    let mut records = 0;
    while consumer.position() < Offset(offset) {
        records += consumer.fetch().expect("sound").record_count();
    }
    records
}
