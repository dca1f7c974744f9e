//! Producers and consumers of whole topics: few connections, failures that are told, nothing sent twice.

use std::time::Duration;

use client::fake_broker::{FakeBroker, Fault};
use client::{
    Cluster, Completion, ConnectionOptions, ConsumerOptions, ErrorCode, Offset, OffsetQuery, Stretch,
    TopicConsumer, TopicProducer,
};
use kafka_wire::ApiKey;

/// So many that a connection for each would show.
const PARTITIONS: usize = 200;

fn started() -> (FakeBroker, Cluster) {
    let broker = FakeBroker::start();
    broker.create_topic("cords", PARTITIONS);
    let cluster = Cluster::connect(&broker.address(), ConnectionOptions::default());
    (broker, cluster.expect("it listens"))
}

/// Sends one batch of `records` records whose values name the partition.
fn send(producer: &mut TopicProducer, cluster: &mut Cluster, partition: i32, records: u32) {
    for _ in 0..records {
        producer.append(0, partition.to_string().as_bytes());
    }
    producer.send(cluster, partition);
}

fn wait_for(producer: &mut TopicProducer, batches: usize) -> Vec<Completion> {
    let mut completed = Vec::new();
    while completed.len() < batches {
        producer.poll(Duration::from_secs(10), &mut completed);
    }
    completed
}

fn stretches(cluster: &mut Cluster) -> Vec<Stretch> {
    let topic = cluster.topic("cords").expect("it is there");
    let tails = cluster.offsets(&topic, OffsetQuery::Latest).expect("it leads");
    let stretch = |(partition, end): (i32, Option<Offset>)| Stretch {
        partition,
        first: Offset::ZERO,
        end: end.expect("each has a tail"),
    };
    tails.into_iter().map(stretch).collect()
}

#[test]
fn many_partitions_are_written_and_read_over_few_connections() {
    let (broker, mut cluster) = started();
    let mut producer = TopicProducer::new(&mut cluster, "cords").expect("it leads");
    assert_eq!(producer.partitions(), PARTITIONS);
    for batch in 0..2 * PARTITIONS as i32 {
        send(&mut producer, &mut cluster, batch % PARTITIONS as i32, 3);
    }
    let completed = wait_for(&mut producer, 2 * PARTITIONS);
    assert!(completed.iter().all(|completion| completion.outcome.is_ok()));
    let order: Vec<u64> = completed.iter().map(|completion| completion.batch.0).collect();
    assert_eq!(order, (0..2 * PARTITIONS as u64).collect::<Vec<_>>());

    // Room for one batch of each, so that each partition comes up twice.
    let options = ConsumerOptions {
        bytes_max: 100,
        ..ConsumerOptions::default()
    };
    let stretches = stretches(&mut cluster);
    let consumer = TopicConsumer::new(&mut cluster, "cords", &stretches, options);
    let mut consumer = consumer.expect("it leads");
    let mut read = vec![0; PARTITIONS];
    while let Some(all_fetched) = consumer.fetch().expect("sound") {
        for (partition, fetched) in all_fetched {
            for record in fetched.records() {
                let record = record.expect("sound");
                assert_eq!(record.offset.0, read[partition as usize]);
                assert_eq!(record.value.as_deref(), Some(partition.to_string().as_bytes()));
                read[partition as usize] += 1;
            }
        }
    }
    assert_eq!(read, [6; PARTITIONS]);
    // One each for metadata, appending, asking for offsets and reading.
    assert_eq!(broker.requests(ApiKey::ApiVersions), 4);
    assert!(broker.requests(ApiKey::Fetch) < 20);
}

#[test]
fn a_failure_is_told_and_nothing_is_sent_again() {
    for (fault, failed) in [
        (Fault::Refuse(ErrorCode::NotLeaderOrFollower), 1),
        (Fault::Refuse(ErrorCode::MessageTooLarge), 1),
        (Fault::Close, 3),
    ] {
        let (broker, mut cluster) = started();
        let mut producer = TopicProducer::new(&mut cluster, "cords").expect("it leads");
        broker.inject(ApiKey::Produce, fault);
        for partition in 0..3 {
            send(&mut producer, &mut cluster, partition, 1);
        }
        let completed = wait_for(&mut producer, 3);
        let errors = completed.iter().filter(|completion| completion.outcome.is_err());
        assert_eq!(errors.count(), failed, "{fault:?}");
        // The next batch finds its way.
        send(&mut producer, &mut cluster, 3, 1);
        let completed = wait_for(&mut producer, 1);
        assert!(completed[0].outcome.is_ok(), "{fault:?}: {completed:?}");
        let kept: usize = (0..4)
            .map(|partition| broker.batches("cords", partition).len())
            .sum();
        assert!(kept <= 4, "{fault:?}");
    }
}

#[test]
fn nothing_in_flight_is_not_awaited() {
    let (_broker, mut cluster) = started();
    let mut producer = TopicProducer::new(&mut cluster, "cords").expect("it leads");
    let mut completed = Vec::new();
    producer.poll(Duration::from_secs(20), &mut completed);
    assert!(completed.is_empty());
    // A partition that is not there fails at once.
    send(&mut producer, &mut cluster, 1_000, 1);
    producer.poll(Duration::from_secs(20), &mut completed);
    assert!(completed[0].outcome.is_err());
}
