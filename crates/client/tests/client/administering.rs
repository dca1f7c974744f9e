//! Metadata and topics.

use std::time::Duration;

use client::fake_broker::{FakeBroker, Fault};
use client::{Advice, ApiKey, ClientError, Cluster, ConfigResource, ErrorCode, NewTopic};

use crate::{options, started};

#[test]
fn the_first_bootstrap_address_that_answers_is_taken() {
    let broker = FakeBroker::start();
    let bootstrap = format!("127.0.0.1:1, {}", broker.address());
    let mut cluster =
        Cluster::connect(&bootstrap, options(Duration::from_secs(20))).expect("the second listens");
    let metadata = cluster.metadata(None).expect("an answer");
    assert_eq!(metadata.brokers[0].address, broker.address());
}

#[test]
fn an_idle_connection_that_ended_is_made_anew() {
    let (broker, mut cluster) = started();
    cluster.topics().expect("an answer");
    broker.disconnect_all();
    assert_eq!(cluster.topics().expect("over a new connection").len(), 1);
}

#[test]
fn topics_are_created_described_listed_and_deleted() {
    let (broker, mut cluster) = started();
    let mut topic = NewTopic::new("hemp", 3);
    topic.configs = vec![("ropewalk.durability".to_owned(), "memory".to_owned())];
    cluster.create_topic(&topic).expect("it is new");
    assert_eq!(
        broker.configs("hemp"),
        [("ropewalk.durability".to_owned(), "memory".to_owned())]
    );
    let again = cluster.create_topic(&topic).expect_err("it is there");
    assert_eq!(again.code(), Some(ErrorCode::TopicAlreadyExists));
    assert_eq!(
        again.to_string(),
        "creating topic hemp: TOPIC_ALREADY_EXISTS (it is there)"
    );

    let found = cluster
        .wait_topic("hemp", Duration::from_secs(20))
        .expect("it is there");
    assert_eq!(found.partitions.len(), 3);
    let hemp = ConfigResource::Topic("hemp".to_owned());
    let configs = cluster.configs(&hemp).expect("it is there");
    assert!(configs[0].is_set(&hemp) && configs[0].value.as_deref() == Some("memory"));
    let names: Vec<String> = cluster
        .topics()
        .expect("an answer")
        .into_iter()
        .map(|topic| topic.name)
        .collect();
    assert_eq!(names, ["hemp", "strand"]);

    cluster.delete_topic("hemp").expect("it is there");
    let gone = cluster.topic("hemp").expect_err("it is gone");
    assert_eq!(gone.code(), Some(ErrorCode::UnknownTopicOrPartition));
    assert_eq!(gone.advice(), Advice::Redirect);
}

#[test]
fn a_partition_that_is_not_there_has_no_leader() {
    let (_broker, mut cluster) = started();
    let error = cluster.leader("strand", 7).expect_err("two partitions");
    assert!(matches!(&error, ClientError::Broker { operation, .. } if operation.contains("partition 7")));
    let error = cluster
        .wait_topic("none", Duration::ZERO)
        .expect_err("it does not come");
    assert_eq!(error.code(), Some(ErrorCode::UnknownTopicOrPartition));
}

#[test]
fn what_a_young_cluster_cannot_answer_yet_is_asked_again() {
    let (broker, mut cluster) = started();
    for code in [
        ErrorCode::CoordinatorLoadInProgress,
        ErrorCode::CoordinatorNotAvailable,
    ] {
        broker.inject(ApiKey::InitProducerId, Fault::Refuse(code));
    }
    let (id, _) = cluster.init_producer_id().expect("the third answer");
    assert!(id >= 0);
    // The metadata names a leader that does not know it yet.
    broker.inject(ApiKey::ListOffsets, Fault::Refuse(ErrorCode::NotLeaderOrFollower));
    cluster
        .wait_topic("strand", Duration::from_secs(20))
        .expect("the second answer");
    assert_eq!(broker.requests(ApiKey::ListOffsets), 2);

    broker.inject(
        ApiKey::InitProducerId,
        Fault::Refuse(ErrorCode::ClusterAuthorizationFailed),
    );
    let error = cluster.init_producer_id().expect_err("that does not pass");
    assert_eq!(error.code(), Some(ErrorCode::ClusterAuthorizationFailed));
}

#[test]
fn a_broker_that_refuses_for_now_is_asked_less_and_less_often() {
    let broker = FakeBroker::start();
    let patience = Duration::from_millis(800);
    let mut cluster = Cluster::connect(&broker.address(), options(patience)).expect("it listens");
    for _ in 0..1_000 {
        let refusal = Fault::Refuse(ErrorCode::CoordinatorNotAvailable);
        broker.inject(ApiKey::InitProducerId, refusal);
    }
    let (told, heard) = std::sync::mpsc::channel();
    cluster.tell_of_waiting(Duration::from_millis(10), move |error| {
        told.send(error.code()).expect("heard");
    });
    let refused = cluster.init_producer_id().expect_err("it always refuses");
    assert_eq!(refused.code(), Some(ErrorCode::CoordinatorNotAvailable));
    // A sleep takes at least its time: after 50, 100, 200 and 400 ms, and at the end.
    let asked = broker.requests(ApiKey::InitProducerId);
    assert!(asked <= 6, "{asked} questions in {patience:?}");
    let expected = [Some(ErrorCode::CoordinatorNotAvailable)];
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), expected, "told once");
}
