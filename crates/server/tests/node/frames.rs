//! Frames that no sound client sends, and clients that take their time. Each costs its sender the connection, or
//! nothing; never anybody else anything.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use kafka_wire::{
    ApiVersionsRequest, DescribeGroupsRequest, FetchRequest, ListOffsetsRequest, MetadataRequest, Text,
};
use platform::random::SeededRandom;

use crate::ask::named;
use crate::support::{TestNode, Wire, batch, eventually, fetch_request, now_ms, produce_request};

/// Checks that every other client is still served.
fn is_served(node: &TestNode) {
    let response = node.connect().call(3, &ApiVersionsRequest::default());
    assert_eq!(response.error_code, 0, "others are served as before");
}

fn metadata_request(name: &str) -> MetadataRequest {
    MetadataRequest {
        allow_auto_topic_creation: false,
        ..named(&[name])
    }
}

/// A frame with a size that fits it.
fn framed(body: &[u8]) -> Vec<u8> {
    [&(body.len() as i32).to_be_bytes()[..], body].concat()
}

/// A request header of version 1 and a body behind it.
fn request(api_key: i16, version: i16, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(api_key.to_be_bytes());
    bytes.extend(version.to_be_bytes());
    bytes.extend(77i32.to_be_bytes());
    bytes.extend((-1i16).to_be_bytes());
    bytes.extend(body);
    framed(&bytes)
}

#[test]
fn sizes_that_cannot_be_end_the_connection_at_once() {
    let node = TestNode::start_with(&[("limits.request_bytes", "1MiB")]);
    for size in [-1, i32::MIN, i32::MAX, (1 << 20) + 1, 0, 1, 9] {
        let mut wire = node.connect();
        wire.send(&i32::to_be_bytes(size));
        wire.send(&[0; 9]);
        wire.finish_sending();
        wire.expect_hang_up();
    }
    is_served(&node);
}

#[test]
fn what_follows_a_request_in_its_frame_is_not_looked_at() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.call(9, &metadata_request("any"));
    // librdkafka asks for all topics so: a count of one byte, three bytes that it has no use for, and what Kafka reads.
    let all = MetadataRequest {
        topics: None,
        ..MetadataRequest::default()
    };
    for behind in [&[0; 3][..], &[1], &[0xFF; 900]] {
        let frame = wire.frame(9, &all);
        wire.send(&framed(&[&frame[4..], behind].concat()));
        let (_, response) = wire.receive::<MetadataRequest>(9);
        assert_eq!(response.brokers.len(), 1);
    }
    is_served(&node);
}

#[test]
fn apis_and_versions_that_are_not_served_end_the_connection() {
    let node = TestNode::start();
    let unknown_keys = [(-1, 0), (999, 0), (i16::MAX, 0), (7, 0)];
    let unserved = [
        (24, 3),
        (26, 3),
        (36, 1),
        (0, 2),
        (0, 14),
        (1, 3),
        (1, 99),
        (2, 0),
        (3, -1),
        (19, 1),
        (32, 0),
    ];
    for (api_key, version) in unknown_keys.into_iter().chain(unserved) {
        let mut wire = node.connect();
        wire.send(&request(api_key, version, &[0; 64]));
        wire.expect_hang_up();
    }
    is_served(&node);
}

#[test]
fn a_request_cut_anywhere_is_no_request() {
    let node = TestNode::start();
    let mut wire = node.connect();
    let metadata = wire.frame(12, &metadata_request("orders"))[4..].to_vec();
    let fetch = wire.frame(11, &fetch_request("orders", 0, 0))[4..].to_vec();
    let produce = wire.frame(9, &produce_request("orders", 0, batch(&[(1, "x")]), 1))[4..].to_vec();
    for whole in [metadata, fetch, produce] {
        for length in 0..whole.len() {
            let mut wire = node.connect();
            wire.send(&framed(&whole[..length]));
            wire.expect_hang_up();
        }
        // The same inside of a frame that never ends.
        for length in (0..whole.len()).step_by(7) {
            let mut wire = node.connect();
            wire.send(&framed(&whole)[..4 + length]);
            wire.finish_sending();
            wire.expect_hang_up();
        }
    }
    is_served(&node);
}

#[test]
fn counts_and_lengths_that_lie_end_the_connection() {
    let node = TestNode::start();
    let count = |count: i32| count.to_be_bytes().to_vec();
    let name = |length: i16| [&1i32.to_be_bytes()[..], &length.to_be_bytes(), b"ab"].concat();
    let cases = [
        (3, 1, count(i32::MAX)),
        (3, 1, count(-2)),
        (3, 1, count(i32::MIN)),
        (3, 1, name(i16::MAX)),
        (3, 1, name(-1)),
        (3, 1, [&name(2)[..4], &2i16.to_be_bytes(), &[0xff, 0xfe]].concat()),
        (19, 2, count(i32::MAX)),
        (
            0,
            3,
            [
                &(-1i16).to_be_bytes()[..],
                &1i16.to_be_bytes(),
                &[0; 4],
                &i32::MAX.to_be_bytes(),
            ]
            .concat(),
        ),
    ];
    for (api_key, version, body) in cases {
        let mut wire = node.connect();
        wire.send(&request(api_key, version, &body));
        wire.expect_hang_up();
    }
    // Compact lengths: five bytes that never end a number, and tags without end.
    for body in [
        &[0xff; 16][..],
        &[0, 0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0, 1, 0, 0, 0xff],
    ] {
        let mut wire = node.connect();
        wire.send(&request(3, 12, body));
        wire.expect_hang_up();
    }
    is_served(&node);
}

#[test]
fn damaged_requests_are_answered_or_cost_their_connection_and_nothing_else() {
    let node = TestNode::start_with(&[("limits.request_bytes", "1MiB"), ("topics.auto_create", "false")]);
    let mut wire = node.connect();
    wire.create_topic("orders", 2, &[]);
    wire.create_topic("safe", 2, &[]);
    let fetch = FetchRequest {
        max_wait_ms: 0,
        ..fetch_request("orders", 1, 0)
    };
    let frames = [
        wire.frame(
            9,
            &produce_request("orders", 0, batch(&[(now_ms(), "x"), (now_ms(), "y")]), -1),
        ),
        wire.frame(12, &fetch),
        wire.frame(12, &metadata_request("orders")),
        wire.frame(5, &ListOffsetsRequest::default()),
    ];
    assert_eq!(
        wire.produce("safe", 0, batch(&[(now_ms(), "kept")])).error_code,
        0
    );
    let mut random = SeededRandom::new(20);
    for round in 0..600 {
        let mut frame = frames[round % frames.len()].clone();
        for _ in 0..=random.below(3) {
            // The size stays: another is another test's.
            let place = 4 + random.below(frame.len() as u64 - 4) as usize;
            frame[place] ^= 1 << random.below(8);
        }
        let mut wire = node.connect();
        wire.send(&frame);
        wire.finish_sending();
        while wire.receive_frame().is_some() {}
    }
    is_served(&node);
    let kept = node.connect().read_all("safe", 0, 0);
    assert_eq!(kept.len(), 1, "what is sound stays as it is");
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 4, &[]);
    // The first waits at the tail for long; everything behind it is ready at once, on both cores.
    let waiting = FetchRequest {
        max_wait_ms: 400,
        min_bytes: 1,
        ..fetch_request("orders", 0, 0)
    };
    let mut sent = wire.frame(12, &waiting);
    for index in 0..60 {
        sent.extend(match index % 3 {
            0 => wire.frame(
                9,
                &produce_request("orders", 1 + index % 3, batch(&[(now_ms(), "x")]), -1),
            ),
            1 => wire.frame(12, &metadata_request("orders")),
            _ => wire.frame(12, &fetch_request("orders", 3, 0)),
        });
    }
    // In pieces that end where no frame ends.
    sent.chunks(101).for_each(|piece| wire.send(piece));
    let mut answered = Vec::new();
    for _ in 0..61 {
        let frame = wire.receive_frame().expect("an answer");
        answered.push(i32::from_be_bytes(
            frame[..4].try_into().expect("a correlation id"),
        ));
    }
    let first = answered[0];
    assert_eq!(answered, (first..first + 61).collect::<Vec<_>>());
}

#[test]
fn a_client_that_has_sent_everything_still_gets_its_answers() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let waiting = FetchRequest {
        max_wait_ms: 200,
        min_bytes: 1,
        ..fetch_request("orders", 0, 0)
    };
    let frame = [
        wire.frame(12, &waiting),
        wire.frame(12, &metadata_request("orders")),
    ]
    .concat();
    wire.send(&frame);
    wire.finish_sending();
    assert!(wire.receive_frame().is_some() && wire.receive_frame().is_some());
    wire.expect_hang_up();
}

#[test]
fn clients_that_take_their_time_are_cut_off() {
    let node = TestNode::start_with(&[("limits.handshake", "300ms"), ("limits.connection_idle", "1s")]);
    // One that says nothing, one that stops inside of a size, one inside of a frame, one that has been served.
    let silent = node.connect();
    let mut in_size = node.connect();
    in_size.send(&[0, 0]);
    let mut in_frame = node.connect();
    in_frame.send(&[0, 0, 0, 100, 0]);
    let mut idle = node.connect();
    idle.call(3, &ApiVersionsRequest::default());
    for mut wire in [silent, in_size, in_frame, idle] {
        wire.expect_hang_up();
    }
    is_served(&node);
}

#[test]
fn announced_bytes_that_never_come_stop_nobody_for_long() {
    let limits = [
        ("limits.handshake", "500ms"),
        ("limits.in_flight_bytes_per_core", "1MiB"),
    ];
    let node = TestNode::start_with(&limits);
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let mut greedy: Vec<Wire> = (0..12).map(|_| node.connect()).collect();
    for wire in &mut greedy {
        wire.send(&(90i32 << 20).to_be_bytes());
    }
    // Small requests need no room that others hold, and large ones get it in the end.
    is_served(&node);
    let value = "x".repeat(200_000);
    let large = batch(&[(now_ms(), &value)]);
    assert_eq!(wire.produce("orders", 0, large).error_code, 0);
}

/// The beginning of an append of 1 MiB.
fn begun_request(shown_bytes: usize) -> Vec<u8> {
    [&(1i32 << 20).to_be_bytes()[..], &vec![0; shown_bytes]].concat()
}

#[test]
fn silence_ends_only_who_keeps_room_from_others() {
    let node = TestNode::start_with(&[("cores", "1"), ("limits.in_flight_bytes_per_core", "1MiB")]);
    let received = || node.metric("ropewalk_received_bytes_total");
    let mut sent = received();
    let mut show = |wire: &mut Wire, bytes: &[u8]| {
        wire.send(bytes);
        sent += bytes.len() as u64;
        eventually("the node has read it", || received() >= sent);
    };
    let (mut small, mut large, mut waiting) = (node.connect(), node.connect(), node.connect());
    let frame = small.frame(9, &metadata_request("any"));
    let (half, rest) = frame.split_at(frame.len() / 2);
    show(&mut small, half);
    // The first holds some of the room, the second waits for all of it; both are silent after that.
    show(&mut large, &begun_request(128 << 10));
    show(&mut waiting, &begun_request(64 << 10));
    large.expect_hang_up();
    small.send(rest);
    let (_, response) = small.receive::<MetadataRequest>(9);
    assert_eq!(response.brokers.len(), 1);
}

#[test]
fn a_trickle_keeps_room_from_others_no_longer_than_silence() {
    let node = TestNode::start_with(&[
        ("cores", "1"),
        ("limits.in_flight_bytes_per_core", "1MiB"),
        ("limits.handshake", "1h"),
    ]);
    node.connect().create_topic("orders", 1, &[]);
    let mut greedy = node.connect();
    let mut trickling = greedy.another_end();
    greedy.send(&begun_request(128 << 10));
    eventually("it holds room", || node.metric("ropewalk_request_bytes") > 0);
    let mut waiting = node.connect();
    waiting.send(&begun_request(64 << 10));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // A byte at a time, often enough that it is never silent. An end of its own: a failed test ends as well.
            for _ in 0..10_000 {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                trickling.send(&[0]);
                thread::sleep(Duration::from_millis(20));
            }
        });
        produces_much(&node);
        greedy.expect_hang_up();
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn arrays_take_no_more_than_a_multiple_of_their_request() {
    let node = TestNode::start();
    // Names of no letters: a byte each in the frame, thirty times as much in memory.
    let many = DescribeGroupsRequest {
        groups: vec![Text::EMPTY; 1 << 20],
        ..DescribeGroupsRequest::default()
    };
    let mut wire = node.connect();
    let frame = wire.frame(5, &many);
    wire.send(&frame);
    wire.expect_hang_up();
    // As many as anybody has, of three letters each.
    let some = DescribeGroupsRequest {
        groups: (0..10_000)
            .map(|number| Text::from(format!("g{number:02x}")))
            .collect(),
        ..DescribeGroupsRequest::default()
    };
    assert!(!node.connect().call(5, &some).groups.is_empty());
}

#[test]
fn a_connection_that_has_moved_may_be_as_silent_as_before() {
    let node = TestNode::start_with(&[("cores", "2"), ("limits.handshake", "1s")]);
    let mut wire = node.connect();
    wire.create_topic("orders", 2, &[]);
    // One of them is another core's than the connection's, which moves there after so many, and is silent then.
    for partition in 0..2 {
        for _ in 0..32 {
            assert_eq!(
                wire.produce("orders", partition, batch(&[(now_ms(), "x")]))
                    .error_code,
                0
            );
        }
        thread::sleep(Duration::from_millis(1_500));
    }
    assert!(node.metric("ropewalk_connections_moved_total") > 0);
    assert_eq!(wire.produce("orders", 0, batch(&[(now_ms(), "x")])).error_code, 0);
}

#[test]
fn a_fetch_that_waits_does_not_keep_the_node_from_stopping() {
    let mut node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let before = node.metric("ropewalk_requests_total");
    let frame = patient_fetch(&mut wire, 1);
    wire.send(&frame);
    eventually("it is under way", || {
        node.metric("ropewalk_requests_total") > before
    });
    // It would wait for an hour; the deadline is not what ends it.
    assert!(node.take().drain(Duration::from_secs(1_000)));
    let (_, fetched) = wire.receive::<FetchRequest>(12);
    assert_eq!(fetched.responses[0].partitions[0].error_code, 0);
}

/// A node of one core, where all large requests together have 1 MiB.
fn start_with_little_room() -> (TestNode, Wire) {
    let node = TestNode::start_with(&[("cores", "1"), ("limits.in_flight_bytes_per_core", "1MiB")]);
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    (node, wire)
}

/// A request that waits for so many bytes of `orders` for longer than any test.
fn patient_fetch(wire: &mut Wire, min_bytes: i32) -> Vec<u8> {
    let mut request = FetchRequest {
        max_wait_ms: 3_600_000,
        min_bytes,
        ..fetch_request("orders", 0, 0)
    };
    request.topics[0].partitions[0].partition_max_bytes = min_bytes.max(1 << 20);
    wire.frame(12, &request)
}

/// Bytes that follow a request in its frame are not looked at, but take room: here all there is.
fn made_large(mut frame: Vec<u8>) -> Vec<u8> {
    let size = 1i32 << 20;
    frame.resize(4 + size as usize, 0);
    frame[..4].copy_from_slice(&size.to_be_bytes());
    frame
}

/// From then on the request holds its room.
fn send_and_see_it_read(node: &TestNode, wire: &mut Wire, large: &[u8]) {
    let before = node.metric("ropewalk_received_bytes_total");
    wire.send(large);
    eventually("the node has read it", || {
        node.metric("ropewalk_received_bytes_total") >= before + large.len() as u64
    });
}

fn produces_much(node: &TestNode) {
    let large = batch(&[(now_ms(), &"x".repeat(200_000))]);
    assert_eq!(node.connect().produce("orders", 0, large).error_code, 0);
}

#[test]
fn a_large_request_behind_one_that_waits_keeps_no_room() {
    let (node, mut wire) = start_with_little_room();
    let before = node.metric("ropewalk_received_bytes_total");
    let first = patient_fetch(&mut wire, 1);
    let second = made_large(wire.frame(9, &metadata_request("orders")));
    let (head, rest) = second.split_at(4 + 1024);
    let shown = [first.as_slice(), head].concat();
    wire.send(&shown);
    eventually("the node has seen how much is to come", || {
        node.metric("ropewalk_received_bytes_total") >= before + shown.len() as u64
    });
    produces_much(&node);
    wire.send(rest);
    let (_, fetched) = wire.receive::<FetchRequest>(12);
    assert!(
        fetched.responses[0].partitions[0]
            .records
            .chunks
            .iter()
            .any(|chunk| !chunk.is_empty())
    );
    let (_, metadata) = wire.receive::<MetadataRequest>(9);
    assert_eq!(metadata.topics.len(), 1);
}

#[test]
fn a_large_fetch_that_waits_gives_way_to_others() {
    let (node, mut wire) = start_with_little_room();
    let large = made_large(patient_fetch(&mut wire, 1));
    send_and_see_it_read(&node, &mut wire, &large);
    produces_much(&node);
    let (_, fetched) = wire.receive::<FetchRequest>(12);
    assert_eq!(fetched.responses[0].partitions[0].error_code, 0);
}

#[test]
fn a_large_fetch_gives_way_though_records_trickle_in() {
    let (node, mut wire) = start_with_little_room();
    // Records that come one by one take a while to be so much.
    let wanted = 4 << 20;
    let large = made_large(patient_fetch(&mut wire, wanted));
    send_and_see_it_read(&node, &mut wire, &large);
    let mut others = node.connect();
    let has_given_way = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // An end of its own: a failed test ends as well.
            for _ in 0..100_000 {
                let small = batch(&[(now_ms(), "x")]);
                assert_eq!(others.produce("orders", 0, small).error_code, 0);
                if has_given_way.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        produces_much(&node);
        let (_, fetched) = wire.receive::<FetchRequest>(12);
        has_given_way.store(true, Ordering::Relaxed);
        let partition = &fetched.responses[0].partitions[0];
        assert_eq!(partition.error_code, 0);
        let found: usize = partition.records.chunks.iter().map(Bytes::len).sum();
        assert!(found < wanted as usize / 2, "it waited for {found} bytes");
    });
}

#[test]
fn one_address_cannot_take_all_places_and_places_come_back() {
    let node = TestNode::start_with(&[("limits.connections_per_address", "3")]);
    let mut held: Vec<Wire> = (0..3).map(|_| node.connect()).collect();
    for wire in &mut held {
        wire.call(3, &ApiVersionsRequest::default());
    }
    node.connect().expect_hang_up();
    held.pop();
    // The node notices the end of a connection soon, not at once.
    let served = (0..10_000).any(|_| {
        let mut wire = node.connect();
        let frame = wire.frame(3, &ApiVersionsRequest::default());
        wire.send(&frame);
        wire.receive_frame().is_some()
    });
    assert!(served, "a place that is free is given again");
    held.iter_mut()
        .for_each(|wire| assert_eq!(wire.call(3, &ApiVersionsRequest::default()).error_code, 0));
}

#[test]
fn bytes_of_another_protocol_end_the_connection() {
    let node = TestNode::start();
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        &[0xff; 64],
    ] {
        let mut wire = node.connect();
        wire.send(&Bytes::from_static(bytes));
        wire.finish_sending();
        wire.expect_hang_up();
    }
    is_served(&node);
}
