//! Followers of whole topics: few connections, order within each partition, and what is lost and found again.

use std::collections::BTreeMap;
use std::time::Duration;

use client::fake_broker::{FakeBroker, Fault};
use client::{
    Advice, ClientError, Cluster, ConnectionOptions, ConsumerOptions, ErrorCode, Offset, TopicFollower,
};
use kafka_wire::ApiKey;

/// More than one connection is asked for, and few.
const PARTITIONS: usize = 1_100;

fn started(partitions: usize) -> (FakeBroker, Cluster) {
    let broker = FakeBroker::start();
    broker.create_topic("cords", partitions);
    let cluster = Cluster::connect(&broker.address(), ConnectionOptions::default());
    (broker, cluster.expect("it listens"))
}

/// Follows the first `partitions` from their beginnings.
fn follower(cluster: &mut Cluster, partitions: usize) -> TopicFollower {
    let starts: Vec<(i32, Offset)> = (0..partitions as i32)
        .map(|partition| (partition, Offset::ZERO))
        .collect();
    let topic = cluster.topic("cords").expect("it was created");
    TopicFollower::new(cluster, &topic, &starts, ConsumerOptions::default()).expect("it leads")
}

/// A follower's results: the next offset of each partition, and the partitions that it lost on the way.
#[derive(Debug, Default)]
struct Seen {
    next: BTreeMap<i32, i64>,
    records: usize,
    lost: Vec<i32>,
}

impl Seen {
    /// Follows until `records` have come in all, each the next of its partition.
    fn follow(&mut self, follower: &mut TopicFollower, cluster: &mut Cluster, records: usize) {
        while self.records < records {
            let followed = follower.fetch(cluster).expect("nothing that stays");
            self.lost
                .extend(followed.lost.into_iter().flat_map(|lost| lost.partitions));
            for (partition, fetched) in followed.fetched {
                for record in fetched.records() {
                    let next = self.next.entry(partition).or_default();
                    assert_eq!(record.expect("sound").offset.0, *next, "of partition {partition}");
                    *next += 1;
                    self.records += 1;
                }
            }
        }
        assert_eq!(self.records, records);
    }
}

#[test]
fn many_partitions_are_followed_over_few_connections() {
    let (broker, mut cluster) = started(PARTITIONS);
    for partition in 0..PARTITIONS {
        broker.append("cords", partition, 2);
    }
    let mut follower = follower(&mut cluster, PARTITIONS);
    let mut seen = Seen::default();
    seen.follow(&mut follower, &mut cluster, 2 * PARTITIONS);
    // Records that come while it waits.
    for partition in [0, 700, PARTITIONS - 1] {
        broker.append("cords", partition, 1);
        let records = seen.records + 1;
        seen.follow(&mut follower, &mut cluster, records);
        assert_eq!(seen.next[&(partition as i32)], 3);
    }
    assert!(seen.lost.is_empty());
    // One for metadata, and three for the partitions.
    assert_eq!(broker.requests(ApiKey::ApiVersions), 4);
}

#[test]
fn what_is_lost_is_told_and_found_again_where_it_was() {
    for fault in [
        Fault::Close,
        Fault::Refuse(ErrorCode::NotLeaderOrFollower),
        Fault::Refuse(ErrorCode::UnknownTopicId),
    ] {
        let (broker, mut cluster) = started(3);
        let mut follower = follower(&mut cluster, 3);
        let mut seen = Seen::default();
        broker.append("cords", 1, 5);
        seen.follow(&mut follower, &mut cluster, 5);
        broker.inject(ApiKey::Fetch, fault);
        for partition in 0..3 {
            broker.append("cords", partition, 5);
        }
        seen.follow(&mut follower, &mut cluster, 20);
        // A fetch that was under way before meets no fault, and may have brought all of them.
        if seen.lost.is_empty() {
            let mut followed = std::iter::repeat_with(|| follower.fetch(&mut cluster).expect("retriable"));
            let lost = followed.find_map(|followed| followed.lost);
            let lost = lost.expect("fetches do not end");
            assert_ne!(lost.error.advice(), Advice::Fix);
            seen.lost = lost.partitions;
        }
        seen.lost.sort_unstable();
        assert_eq!(seen.lost, [0, 1, 2], "{fault:?}");
        broker.append("cords", 2, 1);
        seen.follow(&mut follower, &mut cluster, 21);
        assert_eq!(seen.next, BTreeMap::from([(0, 5), (1, 10), (2, 6)]));
    }
}

#[test]
fn a_leader_that_has_lost_what_was_read_is_not_followed_on() {
    for (lost_from, others) in [(3, 4), (5, 1)] {
        let (broker, mut cluster) = started(2);
        let mut follower = follower(&mut cluster, 2);
        let mut seen = Seen::default();
        broker.append("cords", 1, 3);
        broker.append("cords", 1, 2);
        seen.follow(&mut follower, &mut cluster, 5);
        broker.disconnect_all();
        broker.lose_from("cords", 1, lost_from);
        // The same offsets, and others.
        broker.append("cords", 1, others);
        if lost_from == 5 {
            // Nothing of what was read: it goes on.
            seen.follow(&mut follower, &mut cluster, 6);
            continue;
        }
        let error = loop {
            match follower.fetch(&mut cluster) {
                Ok(followed) => assert!(followed.fetched.is_empty(), "it is other records"),
                Err(error) => break error,
            }
        };
        assert!(
            matches!(
                error,
                ClientError::RecordsLost {
                    partition: 1,
                    read_to: Offset(5),
                    kept_to: Offset(3),
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[test]
fn what_came_is_handed_out_before_a_refusal_for_good() {
    let (broker, mut cluster) = started(2);
    broker.append("cords", 0, 5);
    broker.trim("cords", 1, 10);
    let mut follower = follower(&mut cluster, 2);
    let mut seen = Seen::default();
    seen.follow(&mut follower, &mut cluster, 5);
    assert!(!follower.is_done());
    let error = follower.fetch(&mut cluster).expect_err("it is trimmed");
    assert_eq!(error.code(), Some(ErrorCode::OffsetOutOfRange));
}

/// The error that ends the following.
fn failure(follower: &mut TopicFollower, cluster: &mut Cluster) -> ClientError {
    loop {
        if let Err(error) = follower.fetch(cluster) {
            return error;
        }
    }
}

#[test]
fn another_topic_of_the_same_name_is_not_taken_for_the_one_that_was_followed() {
    for records in [0, 3, 9] {
        let (broker, mut cluster) = started(2);
        let mut follower = follower(&mut cluster, 2);
        let mut seen = Seen::default();
        broker.append("cords", 0, 5);
        seen.follow(&mut follower, &mut cluster, 5);
        broker.delete_topic("cords");
        broker.create_topic("cords", 2);
        if records > 0 {
            broker.append("cords", 0, records);
        }
        let error = failure(&mut follower, &mut cluster);
        assert!(
            matches!(error, ClientError::TopicDeleted { made_again: true, .. }),
            "{error}"
        );
        assert!(!error.is_retriable());
    }
}

#[test]
fn a_topic_that_nobody_knows_any_more_ends_the_following() {
    let (broker, mut cluster) = started(2);
    let mut follower = follower(&mut cluster, 2);
    broker.delete_topic("cords");
    let error = failure(&mut follower, &mut cluster);
    assert!(
        matches!(
            error,
            ClientError::TopicDeleted {
                made_again: false,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn partitions_that_a_topic_gets_later_are_followed_from_their_first_record() {
    let (broker, mut cluster) = started(2);
    let mut follower = follower(&mut cluster, 2);
    let mut seen = Seen::default();
    broker.append("cords", 1, 1);
    seen.follow(&mut follower, &mut cluster, 1);
    // That one is not taken for a new one.
    follower.end(1);
    broker.grow_topic("cords", 2);
    broker.append("cords", 3, 4);
    // Two of these are given up before the partition is found.
    broker.trim("cords", 3, 2);
    let mut new = Vec::new();
    while new.is_empty() {
        std::thread::sleep(Duration::from_millis(10));
        new = follower.follow_new(&mut cluster).expect("it is there");
    }
    assert_eq!(new, [2, 3]);
    broker.append("cords", 2, 2);
    broker.append("cords", 0, 1);
    broker.append("cords", 1, 1);
    seen.next.insert(3, 2);
    seen.follow(&mut follower, &mut cluster, 1 + 2 + 2 + 1);
    assert_eq!(seen.next, BTreeMap::from([(0, 1), (1, 1), (2, 2), (3, 4)]));
}

#[test]
fn an_ended_partition_is_not_followed_any_more() {
    let (broker, mut cluster) = started(2);
    let mut follower = follower(&mut cluster, 2);
    let mut seen = Seen::default();
    broker.append("cords", 0, 1);
    seen.follow(&mut follower, &mut cluster, 1);
    follower.end(0);
    broker.append("cords", 0, 7);
    broker.append("cords", 1, 1);
    seen.follow(&mut follower, &mut cluster, 2);
    assert_eq!(seen.next, BTreeMap::from([(0, 1), (1, 1)]));
    follower.end(1);
    assert!(follower.is_done());
}

#[test]
fn a_partition_without_a_leader_is_told_at_the_start() {
    let (_broker, mut cluster) = started(1);
    let starts = [(0, Offset::ZERO), (1, Offset::ZERO)];
    let topic = cluster.topic("cords").expect("it was created");
    let refused = TopicFollower::new(&mut cluster, &topic, &starts, ConsumerOptions::default());
    let error = refused.expect_err("there is one partition");
    assert!(
        matches!(error, ClientError::NoLeader { partition: 1, .. }),
        "{error}"
    );
}
