//! Groups: how far they are, whatever the age of the broker; what is asked for that; and answers that get lost.

use std::time::Duration;

use client::fake_broker::{FakeBroker, Fault};
use client::{ApiKey, Cluster, ErrorCode, GroupOffset, Offset, OffsetQuery};

use crate::{options, started};

fn offset(topic: &str, partition: i32, offset: i64) -> GroupOffset {
    GroupOffset {
        topic: topic.to_owned(),
        partition,
        offset: Offset(offset),
    }
}

/// A broker with two groups that have committed something.
fn with_groups() -> (FakeBroker, Cluster) {
    let (broker, cluster) = started();
    broker.create_topic("hemp", 1);
    broker.commit("billing", "strand", 1, Offset(7));
    broker.commit("billing", "hemp", 0, Offset(3));
    broker.commit("audit", "strand", 0, Offset(5));
    (broker, cluster)
}

#[test]
fn the_offsets_of_groups_are_found_at_brokers_of_any_age() {
    // Brokers that find coordinators and fetch offsets for several groups at once or not, with names of topics or ids.
    for (find_last, fetch_last, finds, fetches, topics_asked) in [
        (3, 7, 3, 3, 0),
        (3, 9, 3, 1, 0),
        (6, 7, 1, 3, 0),
        (6, 9, 1, 1, 0),
        (6, 10, 1, 1, 1),
    ] {
        let (broker, _) = with_groups();
        broker.offer_up_to(ApiKey::FindCoordinator, find_last);
        broker.offer_up_to(ApiKey::OffsetFetch, fetch_last);
        let mut cluster =
            Cluster::connect(&broker.address(), options(Duration::from_secs(20))).expect("it listens");
        let offsets = cluster.offsets_of_groups(&["billing", "audit", "nobody"]);
        let offsets = offsets.expect("an answer");
        assert_eq!(offsets["billing"], [offset("hemp", 0, 3), offset("strand", 1, 7)]);
        assert_eq!(offsets["audit"], [offset("strand", 0, 5)]);
        assert_eq!(offsets["nobody"], []);
        let asked = [ApiKey::FindCoordinator, ApiKey::OffsetFetch, ApiKey::Metadata];
        let asked = asked.map(|api| broker.requests(api));
        assert_eq!(asked, [finds, fetches, topics_asked], "{find_last}, {fetch_last}");
    }
}

#[test]
fn connections_to_single_brokers_are_kept() {
    let (broker, mut cluster) = with_groups();
    for _ in 0..3 {
        assert_eq!(cluster.groups().expect("an answer").len(), 2);
        cluster
            .offsets_of_groups(&["billing", "audit"])
            .expect("an answer");
        for topic in cluster.topics().expect("an answer") {
            cluster.offsets(&topic, OffsetQuery::Latest).expect("an answer");
        }
    }
    // One for what any broker answers, one for what this one does.
    assert_eq!(broker.requests(ApiKey::ApiVersions), 2);
    // One that has ended meanwhile is made anew.
    broker.disconnect_all();
    let strand = cluster.topic("strand").expect("an answer");
    cluster.offsets(&strand, OffsetQuery::Latest).expect("an answer");
    assert_eq!(broker.requests(ApiKey::ApiVersions), 4);
}

#[test]
fn a_list_of_groups_is_asked_for_again_over_a_new_connection() {
    let (broker, mut cluster) = with_groups();
    broker.inject(ApiKey::ListGroups, Fault::Close);
    let groups = cluster.groups().expect("the second answer");
    let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["audit", "billing"]);
    assert_eq!(broker.requests(ApiKey::ListGroups), 2);
}

#[test]
fn a_deletion_whose_answer_is_lost_is_done() {
    let (broker, mut cluster) = with_groups();
    broker.inject(ApiKey::DeleteGroups, Fault::Close);
    cluster.delete_group("billing").expect("the first attempt did it");
    assert_eq!(broker.requests(ApiKey::DeleteGroups), 2);
    let again = cluster.delete_group("billing").expect_err("it is gone");
    assert_eq!(again.code(), Some(ErrorCode::GroupIdNotFound));
}
