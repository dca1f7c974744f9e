//! Answers to a Fetch that cannot have all that it wants: too little room, partitions that are not there, an epoch
//! that is over.

use kafka_wire::fetch::FetchPartition;
use kafka_wire::{ErrorCode, FetchRequest};

use crate::ask::{code, deletion, look};
use crate::support::{TestNode, Wire, batch, eventually, fetch_request, now_ms, records_of};

/// Never awaited: an answer comes before, or the client's own patience is over.
const LONG_MS: i32 = 600_000;

fn append(wire: &mut Wire, value: &str) {
    assert_eq!(
        wire.produce("orders", 0, batch(&[(now_ms(), value)])).error_code,
        0
    );
}

/// A Fetch from an offset of partition 0 that waits for records.
fn patient(topic: &str, from: i64) -> FetchRequest {
    FetchRequest {
        max_wait_ms: LONG_MS,
        min_bytes: 1,
        ..fetch_request(topic, 0, from)
    }
}

/// The same of all these partitions.
fn patient_of(topic: &str, partitions: impl IntoIterator<Item = i32>) -> FetchRequest {
    let mut request = patient(topic, 0);
    let first = request.topics[0].partitions.remove(0);
    let partitions = partitions.into_iter().map(|partition| FetchPartition {
        partition,
        ..first.clone()
    });
    request.topics[0].partitions = partitions.collect();
    request
}

/// A connection whose request has arrived, and waits.
fn waiting(node: &TestNode, request: &FetchRequest) -> Wire {
    let mut reader = node.connect();
    let frame = reader.frame(12, request);
    let requests = node.metric("ropewalk_requests_total");
    reader.send(&frame);
    eventually("the request has arrived", || {
        node.metric("ropewalk_requests_total") > requests
    });
    reader
}

#[test]
fn the_first_batch_comes_however_little_is_wanted() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    append(&mut wire, "a");
    append(&mut wire, "b");
    for (max_bytes, partition_max_bytes) in [(0, 1 << 20), (8 << 20, 0), (0, 0), (-1, -1)] {
        let mut request = FetchRequest {
            max_bytes,
            ..fetch_request("orders", 0, 0)
        };
        request.topics[0].partitions[0].partition_max_bytes = partition_max_bytes;
        let response = wire.call(12, &request);
        let found = records_of(&response.responses[0].partitions[0]).len();
        assert_eq!(found, 1, "{max_bytes}, {partition_max_bytes}");
    }
}

#[test]
fn what_is_not_there_keeps_nobody_from_waiting_for_the_rest() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let mut request = patient_of("orders", [0, 7]);
    request.topics.extend(fetch_request("nowhere", 0, 0).topics);
    let mut reader = waiting(&node, &request);
    append(&mut wire, "a");
    let (_, response) = reader.receive::<FetchRequest>(12);
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    let told: Vec<_> = partitions
        .map(|partition| (code(partition.error_code), records_of(partition).len()))
        .collect();
    let unknown = (ErrorCode::UnknownTopicOrPartition, 0);
    assert_eq!(told, [(ErrorCode::None, 1), unknown, unknown]);

    // Nothing else can come, and what cannot be read does not come by waiting.
    for (topic, from, expected) in [
        ("nowhere", 0, ErrorCode::UnknownTopicOrPartition),
        ("orders", 9, ErrorCode::OffsetOutOfRange),
    ] {
        let response = wire.call(12, &patient(topic, from));
        assert_eq!(code(response.responses[0].partitions[0].error_code), expected);
    }
}

#[test]
fn who_believes_in_an_epoch_that_is_over_is_told_who_leads_now() {
    let node = TestNode::start();
    node.connect().create_topic("orders", 1, &[]);
    let node = node.restart();
    let mut wire = node.connect();
    let topic_id = look(&mut wire, "orders").topic_id;
    for version in 12..=18 {
        let mut request = fetch_request("orders", 0, 0);
        request.topics[0].topic_id = topic_id;
        request.topics[0].partitions[0].current_leader_epoch = 0;
        let response = wire.call(version, &request);
        let told = &response.responses[0].partitions[0];
        assert_eq!(code(told.error_code), ErrorCode::FencedLeaderEpoch);
        let leader = &told.current_leader;
        let endpoints = response.node_endpoints.iter();
        let endpoints: Vec<_> = endpoints.map(|found| (found.node_id, found.port)).collect();
        let expected = match version {
            16.. => ((1, 1), vec![(1, i32::from(node.address().port()))]),
            _ => ((-1, -1), Vec::new()),
        };
        let leader = (leader.leader_id, leader.leader_epoch);
        assert_eq!((leader, endpoints), expected, "version {version}");
    }
}

#[test]
fn behind_an_error_a_session_tells_where_its_partition_stands() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let first = FetchRequest {
        session_epoch: 0,
        ..fetch_request("orders", 0, 0)
    };
    let session_id = wire.call(12, &first).session_id;
    let told = |wire: &mut Wire, session_epoch| -> Vec<ErrorCode> {
        let next = FetchRequest {
            session_id,
            session_epoch,
            topics: Vec::new(),
            ..fetch_request("orders", 0, 0)
        };
        let response = wire.call(12, &next);
        assert_eq!((response.error_code, response.session_id), (0, session_id));
        let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
        partitions.map(|partition| code(partition.error_code)).collect()
    };
    assert!(told(&mut wire, 1).is_empty(), "nothing is new");
    assert_eq!(
        wire.call(5, &deletion("orders", LONG_MS)).responses[0].error_code,
        0
    );
    assert_eq!(told(&mut wire, 2), [ErrorCode::UnknownTopicOrPartition]);
    wire.create_topic("orders", 1, &[]);
    assert_eq!(
        told(&mut wire, 3),
        [ErrorCode::None],
        "though it stands as before"
    );
    assert!(told(&mut wire, 4).is_empty());
}

/// A Fetch of `topic`'s partition 0 that names so many partitions that are not there, too, and waits for records.
fn wide(topic: &str, missing: i32) -> FetchRequest {
    patient_of(topic, std::iter::once(0).chain(1_001..=1_000 + missing))
}

#[test]
fn a_wide_fetch_waits_only_as_long_as_no_other_wants_its_room() {
    // Each takes more than half of it, in a request that is small.
    let node = TestNode::start_with(&[("limits.in_flight_bytes_per_core", "1MiB"), ("cores", "1")]);
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let mut readers = [node.connect(), node.connect()];
    for reader in &mut readers {
        let frame = reader.frame(12, &wide("orders", 1_500));
        assert!(frame.len() < 64 << 10, "{} bytes", frame.len());
        reader.send(&frame);
    }
    // The first is answered though there is nothing; the other waits in its place.
    eventually("one has given way", || {
        readers.iter_mut().any(|reader| reader.has_answer())
    });
    append(&mut wire, "a");
    for reader in &mut readers {
        let (_, response) = reader.receive::<FetchRequest>(12);
        assert_eq!(response.responses[0].partitions.len(), 1_501);
    }
}

#[test]
fn a_fetch_is_answered_before_its_connection_has_been_silent_for_too_long() {
    let node = TestNode::start_with(&[("limits.connection_idle", "4s")]);
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let response = wire.call(12, &patient("orders", 0));
    assert!(records_of(&response.responses[0].partitions[0]).is_empty());
}

#[test]
fn what_comes_to_many_partitions_bit_by_bit_is_counted_together() {
    const PARTITIONS: i32 = 600;
    const VALUE_BYTES: usize = 1_000;
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", PARTITIONS, &[]);
    let mut request = patient_of("orders", 0..PARTITIONS);
    request.min_bytes = 10 * VALUE_BYTES as i32;
    let mut reader = node.connect();
    let frame = reader.frame(12, &request);
    reader.send(&frame);
    let value = "x".repeat(VALUE_BYTES);
    // Two of them twice, on both cores, and before and after it waits.
    let indexes = [0, 599, 300, 301, 0, 7, 8, 9, 10, 599];
    for index in indexes {
        assert!(!reader.has_answer(), "there is too little");
        let appended = wire.produce("orders", index, batch(&[(now_ms(), &value)]));
        assert_eq!(appended.error_code, 0);
    }
    let (_, response) = reader.receive::<FetchRequest>(12);
    let partitions = &response.responses[0].partitions;
    assert_eq!(partitions.len(), PARTITIONS as usize);
    for partition in partitions {
        let index = partition.partition_index;
        let appended = indexes.iter().filter(|appended| **appended == index).count();
        assert_eq!(records_of(partition).len(), appended, "partition {index}");
        assert_eq!(partition.high_watermark, appended as i64, "partition {index}");
    }
}

#[test]
fn a_partition_that_goes_while_a_fetch_of_many_waits_is_told() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 300, &[]);
    wire.create_topic("bills", 1, &[]);
    let mut request = patient_of("orders", 0..300);
    request.min_bytes = 1_000_000;
    request.topics.extend(fetch_request("bills", 0, 0).topics);
    let mut reader = waiting(&node, &request);
    append(&mut wire, "a");
    assert_eq!(
        wire.call(5, &deletion("bills", LONG_MS)).responses[0].error_code,
        0
    );
    let (_, response) = reader.receive::<FetchRequest>(12);
    let bills = &response.responses[1].partitions[0];
    assert_eq!(code(bills.error_code), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(records_of(&response.responses[0].partitions[0]).len(), 1);
}

#[test]
fn a_fetch_of_more_partitions_than_there_may_be_is_refused() {
    let node = TestNode::start_with(&[("limits.partitions", "100")]);
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let response = wire.call(12, &wide("orders", 10_000));
    assert_eq!(code(response.error_code), ErrorCode::InvalidRequest);
    assert_eq!(wire.fetch("orders", 0, 0).error_code, 0, "the connection goes on");
}
