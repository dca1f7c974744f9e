//! Racks: clients are told where nodes are, and read from the replica in their own (KIP-392).

use std::thread;

use kafka_wire::fetch::PartitionData;
use kafka_wire::{ErrorCode, FetchRequest};

use super::{created, metadata};
use crate::support::{TestNode, Wire, batch, eventually, fetch_request, now_ms};

/// Three nodes in racks a, b and c, and a topic whose one partition the first leads.
fn three_in_racks() -> [TestNode; 3] {
    let peers = ("peer.listen", "127.0.0.1:0");
    let first = TestNode::start_with(&[peers, ("node.rack", "a")]);
    let address = first.peer_address().to_string();
    let join = |rack| TestNode::start_with(&[peers, ("node.rack", rack), ("cluster.join", &address)]);
    let nodes = [join("b"), join("c")];
    let mut wire = first.connect();
    assert_eq!(created(&mut wire, "orders", 1), 0);
    eventually("it is acknowledged", || {
        wire.produce("orders", 0, batch(&[(now_ms(), "one")])).error_code == 0
    });
    let [second, third] = nodes;
    [first, second, third]
}

fn from_rack(rack: &str, from: i64) -> FetchRequest {
    FetchRequest {
        rack_id: rack.into(),
        ..fetch_request("orders", 0, from)
    }
}

fn fetched(wire: &mut Wire, request: &FetchRequest) -> PartitionData {
    wire.call(12, request).responses.remove(0).partitions.remove(0)
}

fn has_records(data: &PartitionData) -> bool {
    data.records.chunks.iter().any(|chunk| !chunk.is_empty())
}

#[test]
fn consumers_read_from_the_replica_in_their_rack() {
    let [first, second, _third] = three_in_racks();
    let (mut leader, mut follower) = (first.connect(), second.connect());
    let brokers = metadata(&mut leader).brokers;
    let racks: Vec<_> = brokers.iter().map(|broker| broker.rack.as_deref()).collect();
    assert_eq!(racks, [Some("a"), Some("b"), Some("c")]);

    // The leader knows what the follower holds once that has acknowledged it.
    let near = from_rack("b", 0);
    eventually("the leader names the replica in the reader's rack", || {
        fetched(&mut leader, &near).preferred_read_replica == 2
    });
    assert!(!has_records(&fetched(&mut leader, &near)));
    // Also where a session has been told before, and nothing is new.
    let mut session = FetchRequest {
        session_epoch: 0,
        ..near.clone()
    };
    for epoch in 0..3 {
        session.session_epoch = epoch;
        let answer = leader.call(12, &session);
        session.session_id = answer.session_id;
        let told = answer.responses[0].partitions[0].preferred_read_replica;
        assert_eq!(told, 2, "fetch {epoch} of the session");
        session.topics.clear();
    }
    for rack in ["", "a", "elsewhere"] {
        let data = fetched(&mut leader, &from_rack(rack, 0));
        assert_eq!(data.preferred_read_replica, -1, "{rack:?}");
        assert!(has_records(&data), "{rack:?}");
    }
    eventually("the follower knows the tail", || {
        let data = fetched(&mut follower, &near);
        assert_eq!(data.error_code, 0);
        assert_eq!(data.preferred_read_replica, -1);
        data.high_watermark == 1
    });
    assert!(has_records(&fetched(&mut follower, &near)));
    let beyond = fetched(&mut follower, &from_rack("b", 9));
    assert_eq!(beyond.error_code, ErrorCode::OffsetOutOfRange.code());

    // What is not there yet is waited for, as at the leader.
    let waiting = thread::spawn(move || {
        let patient = FetchRequest {
            max_wait_ms: 30_000,
            min_bytes: 1,
            ..from_rack("b", 1)
        };
        let data = fetched(&mut follower, &patient);
        (has_records(&data), data.high_watermark, follower)
    });
    assert_eq!(
        leader
            .produce("orders", 0, batch(&[(now_ms(), "two")]))
            .error_code,
        0
    );
    let (has_records, tail, mut follower) = waiting.join().expect("it does not panic");
    assert!(has_records && tail == 2);

    // Who does not say where it is means the leader.
    let data = fetched(&mut follower, &from_rack("", 0));
    assert_eq!(data.error_code, ErrorCode::NotLeaderOrFollower.code());
}

/// A follower that nothing reaches might show an old tail for ever.
#[test]
fn a_replica_that_has_lost_its_leader_serves_nobody() {
    let [first, second, third] = three_in_racks();
    let mut follower = second.connect();
    let near = from_rack("b", 0);
    eventually("the follower serves", || {
        let data = fetched(&mut follower, &near);
        data.error_code == 0 && data.high_watermark == 1
    });
    // The leader goes last, and no epoch begins with neither of the others. The other way round, the follower may lead in between.
    drop((third, first));
    eventually("it serves no more", || {
        fetched(&mut follower, &near).error_code == ErrorCode::NotLeaderOrFollower.code()
    });
}
