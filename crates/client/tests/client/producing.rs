//! Producers: windows, retries that are never second appends, and failures that are told.

use std::time::Duration;

use client::fake_broker::Fault;
use client::{
    Acks, BatchId, ClientError, Cluster, Completion, Compression, ErrorCode, Offset, Producer,
    ProducerOptions,
};
use kafka_wire::ApiKey;

use crate::started;

fn producer(cluster: &mut Cluster, options: ProducerOptions) -> Producer {
    Producer::new(cluster, "strand", 0, options).expect("the topic is there")
}

fn plain() -> ProducerOptions {
    ProducerOptions {
        idempotent: false,
        ..ProducerOptions::default()
    }
}

/// Appends one record alone: its offset.
fn append_one(
    producer: &mut Producer,
    cluster: &mut Cluster,
    value: &[u8],
) -> Result<Option<Offset>, ClientError> {
    producer.append(0, None, Some(value), &[]);
    let batch = producer.send(cluster);
    let [done] = <[Completion; 1]>::try_from(producer.flush(cluster)).expect("one batch was in flight");
    assert_eq!(done.batch, batch);
    done.outcome
}

/// Gathers `records` records and sends them.
fn send(producer: &mut Producer, cluster: &mut Cluster, records: i64) -> BatchId {
    for index in 0..records {
        producer.append(index, Some(b"key"), Some(b"value"), &[(b"h", None)]);
    }
    producer.send(cluster)
}

fn offsets(completions: &[Completion]) -> Vec<i64> {
    completions
        .iter()
        .map(|done| {
            let outcome = done.outcome.as_ref().expect("it was appended");
            outcome.expect("the broker tells").0
        })
        .collect()
}

#[test]
fn batches_complete_in_order_with_their_offsets() {
    let (broker, mut cluster) = started();
    for options in [ProducerOptions::default(), plain()] {
        let mut producer = producer(&mut cluster, options);
        let base = broker.batches("strand", 0).len() as i64 * 3;
        let sent: Vec<BatchId> = (0..10).map(|_| send(&mut producer, &mut cluster, 3)).collect();
        assert!(producer.in_flight() <= 5);
        let done = producer.flush(&mut cluster);
        assert_eq!(done.iter().map(|done| done.batch).collect::<Vec<_>>(), sent);
        let expected: Vec<i64> = (0..10).map(|batch| base + batch * 3).collect();
        assert_eq!(offsets(&done), expected);
        assert!(
            producer.flush(&mut cluster).is_empty(),
            "each completion is told once"
        );
    }
}

#[test]
fn one_append_at_a_time_gives_its_offset() {
    let (_broker, mut cluster) = started();
    let compressed = ProducerOptions {
        compression: Compression::Lz4,
        ..ProducerOptions::default()
    };
    let mut producer = producer(&mut cluster, compressed);
    for expected in 0..5 {
        let offset = append_one(&mut producer, &mut cluster, b"twine").expect("appended");
        assert_eq!(offset, Some(Offset(expected)));
    }
}

#[test]
fn polling_does_not_wait_for_what_does_not_come() {
    let (broker, mut cluster) = started();
    let mut producer = producer(&mut cluster, plain());
    assert!(producer.poll(&mut cluster, Duration::from_secs(20)).is_empty());
    broker.inject(ApiKey::Produce, Fault::Silence);
    send(&mut producer, &mut cluster, 1);
    assert!(producer.poll(&mut cluster, Duration::ZERO).is_empty());
    assert_eq!(producer.in_flight(), 1);
}

#[test]
fn without_acks_nothing_is_awaited() {
    let (_broker, mut cluster) = started();
    let options = ProducerOptions {
        acks: Acks::None,
        ..plain()
    };
    let mut producer = producer(&mut cluster, options);
    for _ in 0..20 {
        send(&mut producer, &mut cluster, 2);
    }
    assert_eq!(producer.in_flight(), 0);
    let done = producer.flush(&mut cluster);
    assert_eq!(done.len(), 20);
    assert!(done.iter().all(|done| matches!(done.outcome, Ok(None))));
}

#[test]
fn a_retry_is_never_a_second_append() {
    for fault in [
        Fault::Close,
        Fault::CloseInside,
        Fault::Refuse(ErrorCode::NotEnoughReplicas),
        Fault::Refuse(ErrorCode::NotLeaderOrFollower),
    ] {
        let (broker, mut cluster) = started();
        let mut producer = producer(&mut cluster, ProducerOptions::default());
        send(&mut producer, &mut cluster, 4);
        producer.flush(&mut cluster);
        broker.inject(ApiKey::Produce, fault);
        for _ in 0..4 {
            send(&mut producer, &mut cluster, 4);
        }
        let done = producer.flush(&mut cluster);
        let mut found = offsets(&done);
        found.sort_unstable();
        assert_eq!(found, [4, 8, 12, 16], "{fault:?}");
        assert_eq!(broker.batches("strand", 0).len(), 5, "{fault:?}");
    }
}

#[test]
fn without_sequence_numbers_an_unknown_outcome_is_reported() {
    let (broker, mut cluster) = started();
    let mut producer = producer(&mut cluster, plain());
    broker.inject(ApiKey::Produce, Fault::Close);
    let error = append_one(&mut producer, &mut cluster, b"once").expect_err("nobody knows");
    assert!(matches!(error, ClientError::Disconnected { .. }), "{error}");
    // The broker had it; it must not be there twice.
    assert_eq!(broker.batches("strand", 0).len(), 1);
    let offset = append_one(&mut producer, &mut cluster, b"twice").expect("over a new connection");
    assert_eq!(offset, Some(Offset(1)));
}

#[test]
fn what_was_surely_not_appended_is_sent_again_without_sequence_numbers() {
    let (broker, mut cluster) = started();
    let mut producer = producer(&mut cluster, plain());
    broker.inject(ApiKey::Produce, Fault::Refuse(ErrorCode::NotLeaderOrFollower));
    let offset = append_one(&mut producer, &mut cluster, b"once").expect("the second attempt succeeds");
    assert_eq!(offset, Some(Offset(0)));
}

#[test]
fn a_refused_batch_does_not_stop_the_next() {
    for options in [ProducerOptions::default(), plain()] {
        let (broker, mut cluster) = started();
        let mut producer = producer(&mut cluster, options);
        broker.inject(ApiKey::Produce, Fault::Refuse(ErrorCode::MessageTooLarge));
        let error = append_one(&mut producer, &mut cluster, b"heavy").expect_err("too large");
        assert_eq!(error.code(), Some(ErrorCode::MessageTooLarge));
        let offset = append_one(&mut producer, &mut cluster, b"light").expect("the next is fine");
        assert_eq!(offset, Some(Offset(0)));
    }
}

#[test]
fn retries_end_and_every_batch_is_told() {
    let (broker, mut cluster) = started();
    let options = ProducerOptions {
        retry_for: Duration::from_millis(1),
        ..ProducerOptions::default()
    };
    let mut producer = producer(&mut cluster, options);
    broker.inject(ApiKey::Produce, Fault::Silence);
    for _ in 0..3 {
        send(&mut producer, &mut cluster, 1);
    }
    drop(broker);
    let done = producer.flush(&mut cluster);
    assert_eq!(done.len(), 3);
    assert!(done[0].outcome.is_err());
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let (_broker, mut cluster) = started();
    let refused = [
        ProducerOptions {
            in_flight_max: 0,
            ..plain()
        },
        ProducerOptions {
            in_flight_max: 6,
            ..ProducerOptions::default()
        },
        ProducerOptions {
            acks: Acks::Leader,
            ..ProducerOptions::default()
        },
    ];
    for options in refused {
        let error = Producer::new(&mut cluster, "strand", 0, options).expect_err("it contradicts itself");
        assert!(matches!(error, ClientError::Options(_)), "{error}");
    }
    assert_eq!("all".parse::<Acks>().ok(), Some(Acks::All));
    assert!("2".parse::<Acks>().is_err());
}

#[test]
fn a_producer_that_waits_tells_why_once() {
    let (broker, mut cluster) = started();
    let (told, heard) = std::sync::mpsc::channel();
    cluster.tell_of_waiting(Duration::ZERO, move |error| {
        told.send(error.code()).expect("heard");
    });
    let mut producer = producer(&mut cluster, ProducerOptions::default());
    for _ in 0..2 {
        for _ in 0..3 {
            broker.inject(ApiKey::Produce, Fault::Refuse(ErrorCode::KafkaStorageError));
        }
        append_one(&mut producer, &mut cluster, b"kept").expect("the fourth attempt is taken");
        let expected = [Some(ErrorCode::KafkaStorageError)];
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), expected);
    }
}
