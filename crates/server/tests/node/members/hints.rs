//! A node that does not lead a partition says who does.

use kafka_wire::create_topics::CreatableTopic;
use kafka_wire::{CreateTopicsRequest, ErrorCode};

use super::{founder, joined_in_reach, leaders, metadata};
use crate::support::{batch, creatable, eventually, fetch_request, now_ms, produce_request};

#[test]
fn who_asks_the_wrong_node_is_told_who_leads() {
    let (founder, peers) = founder();
    let second = joined_in_reach(&peers);
    let lone = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            replication_factor: 1,
            ..creatable("orders", 2)
        }],
        timeout_ms: 30_000,
        ..CreateTopicsRequest::default()
    };
    assert_eq!(founder.connect().call(7, &lone).topics[0].error_code, 0);
    let mut wire = second.connect();
    eventually("the second knows the topic", || {
        leaders(&mut wire, "orders") == [1, 2]
    });
    let known = metadata(&mut wire).topics.remove(0);
    let mut partitions = known.partitions.iter();
    let epoch = partitions
        .find(|partition| partition.partition_index == 0)
        .expect("it is there")
        .leader_epoch;
    let port = i32::from(founder.address().port());
    let expected = |is_told: bool| match is_told {
        true => ((1, epoch), vec![(1, port)]),
        false => ((-1, -1), Vec::new()),
    };
    for version in 9..=13 {
        let mut request = produce_request("orders", 0, batch(&[(now_ms(), "one")]), -1);
        request.topic_data[0].topic_id = known.topic_id;
        let response = wire.call(version, &request);
        let told = &response.responses[0].partition_responses[0];
        assert_eq!(told.error_code, ErrorCode::NotLeaderOrFollower.code());
        let leader = (told.current_leader.leader_id, told.current_leader.leader_epoch);
        let endpoints = response.node_endpoints.iter();
        let endpoints = endpoints.map(|found| (found.node_id, found.port)).collect();
        assert_eq!((leader, endpoints), expected(version >= 10), "version {version}");
    }
    for version in 12..=18 {
        let mut request = fetch_request("orders", 0, 0);
        request.topics[0].topic_id = known.topic_id;
        let response = wire.call(version, &request);
        let told = &response.responses[0].partitions[0];
        assert_eq!(told.error_code, ErrorCode::NotLeaderOrFollower.code());
        let leader = (told.current_leader.leader_id, told.current_leader.leader_epoch);
        let endpoints = response.node_endpoints.iter();
        let endpoints = endpoints.map(|found| (found.node_id, found.port)).collect();
        assert_eq!((leader, endpoints), expected(version >= 16), "version {version}");
    }
}
