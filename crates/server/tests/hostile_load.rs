//! A producer and a consumer among clients that mean no good: neither ever sees an error, and the node's memory stays
//! bounded. Alone in its process, because that memory is measured.

mod support;

use std::collections::VecDeque;

use bytes::Bytes;
use kafka_wire::{ApiVersionsRequest, FetchRequest};
use record::Compression;
use support::{
    TestNode, Wire, batch, compressed_batch, eventually, fetch_request, now_ms, produce_request, records_of,
};

const ROUNDS: i64 = 200;
const PARTITIONS: i32 = 4;
const IDLE_CONNECTIONS: usize = 200;
/// Hostile connections that are kept; the oldest is dropped for the next.
const HOSTILE_CONNECTIONS: usize = 64;
/// The bytes that all limits below allow together on both cores, and as much again for buffers and the allocator.
const GROWTH_BYTES_MAX: u64 = 96 << 20;
const RESIDENT: &str = "ropewalk_process_resident_memory_bytes";

const LIMITS: &[(&str, &str)] = &[
    ("limits.request_bytes", "8MiB"),
    ("limits.handshake", "2s"),
    ("limits.in_flight_bytes_per_core", "8MiB"),
    ("limits.answer_bytes_per_core", "4MiB"),
    ("limits.decompressed_bytes", "4MiB"),
    ("cache.tail_bytes", "8MiB"),
    ("cache.chunk_bytes", "4MiB"),
];

/// Everything that hostile clients send, made before memory is measured.
struct Arsenal {
    /// A frame announced at the limit, of which the least part comes.
    half_open: Vec<u8>,
    /// An announcement beyond the limit.
    huge: Vec<u8>,
    /// Requests of APIs and versions that nobody serves.
    unknown: Vec<Vec<u8>>,
    /// A flood of batches whose checksum does not hold.
    corrupt: Vec<u8>,
    /// Batches that unpack to more than is allowed, in every compression.
    bombs: Vec<u8>,
    /// Fetches whose answers nobody will take.
    unread: Vec<u8>,
    kept: VecDeque<Wire>,
}

impl Arsenal {
    fn new(wire: &mut Wire) -> Arsenal {
        let mut corrupt = batch(&[(now_ms(), "x")]).to_vec();
        *corrupt.last_mut().expect("bytes") ^= 1;
        let corrupt = produce_request("target", 0, Bytes::from(corrupt), -1);
        let zeros = "0".repeat(16 << 20);
        let codecs = [
            Compression::Gzip,
            Compression::Zstd,
            Compression::Lz4,
            Compression::Snappy,
        ];
        let bombs = codecs.map(|codec| {
            let bomb = compressed_batch(codec, &[(now_ms(), &zeros)]);
            wire.frame(9, &produce_request("target", 1, bomb, -1))
        });
        let unread = FetchRequest {
            max_wait_ms: 600_000,
            min_bytes: 1,
            ..fetch_request("filled", 0, 0)
        };
        Arsenal {
            half_open: [&(8i32 << 20).to_be_bytes()[..], &[0; 64 << 10]].concat(),
            huge: i32::MAX.to_be_bytes().to_vec(),
            unknown: [(999, 0), (0, 99), (36, 1)].map(unserved).to_vec(),
            corrupt: (0..20).flat_map(|_| wire.frame(9, &corrupt)).collect(),
            bombs: bombs.concat(),
            unread: (0..24).flat_map(|_| wire.frame(12, &unread)).collect(),
            kept: VecDeque::new(),
        }
    }

    /// Sends some of everything, each on a connection of its own, and takes no answer.
    fn fire(&mut self, node: &TestNode, round: usize) {
        let mut shots = vec![
            &self.half_open,
            &self.huge,
            &self.unknown[round % self.unknown.len()],
            &self.corrupt,
        ];
        if round.is_multiple_of(8) {
            shots.extend([&self.bombs, &self.unread]);
        }
        for shot in shots {
            let mut wire = node.connect();
            wire.send(shot);
            self.kept.push_back(wire);
        }
        while self.kept.len() > HOSTILE_CONNECTIONS {
            self.kept.pop_front();
        }
    }
}

/// A frame with a request header and nothing sensible behind it.
fn unserved((api_key, version): (i16, i16)) -> Vec<u8> {
    let header = [&api_key.to_be_bytes()[..], &version.to_be_bytes(), &[0; 64]].concat();
    [&(header.len() as i32).to_be_bytes()[..], &header].concat()
}

/// Topics for both sides; the one that is read in vain holds more than answers may.
fn prepare(wire: &mut Wire) {
    wire.create_topic("orders", PARTITIONS, &[]);
    wire.create_topic("target", 2, &[]);
    wire.create_topic("filled", 1, &[]);
    let value = "x".repeat(256 << 10);
    for _ in 0..16 {
        let told = wire.produce("filled", 0, batch(&[(now_ms(), &value)]));
        assert_eq!(told.error_code, 0);
    }
}

/// A connection that has been served once: it may be silent for long.
fn greeted(node: &TestNode) -> Wire {
    let mut wire = node.connect();
    greet(&mut wire);
    wire
}

fn greet(wire: &mut Wire) {
    let versions = ApiVersionsRequest::default();
    assert_eq!(wire.call(3, &versions).error_code, 0);
}

/// Appends one record and reads it back.
fn good_round(producer: &mut Wire, consumer: &mut Wire, round: i64) {
    let (index, offset) = (
        (round % i64::from(PARTITIONS)) as i32,
        round / i64::from(PARTITIONS),
    );
    let value = format!("round {round}");
    let told = producer.produce("orders", index, batch(&[(now_ms(), &value)]));
    assert_eq!(
        (told.error_code, told.base_offset),
        (0, offset),
        "{value}: {:?}",
        told.error_message
    );
    let request = FetchRequest {
        max_wait_ms: 25_000,
        min_bytes: 1,
        ..fetch_request("orders", index, offset)
    };
    let fetched = consumer
        .call(12, &request)
        .responses
        .remove(0)
        .partitions
        .remove(0);
    assert_eq!(fetched.error_code, 0, "{value}");
    let found: Vec<_> = records_of(&fetched)
        .into_iter()
        .map(|record| record.value)
        .collect();
    assert_eq!(found, [Some(Bytes::from(value))]);
}

#[test]
fn good_clients_see_no_error_and_memory_stays_bounded_under_hostile_load() {
    let node = TestNode::start_with(LIMITS);
    let mut producer = node.connect();
    prepare(&mut producer);
    let mut arsenal = Arsenal::new(&mut node.connect());
    let mut idle: Vec<Wire> = (0..IDLE_CONNECTIONS).map(|_| greeted(&node)).collect();
    let mut consumer = greeted(&node);
    good_round(&mut producer, &mut consumer, 0);
    let before = node.metric(RESIDENT);
    let mut highest = before;
    for round in 1..ROUNDS {
        arsenal.fire(&node, round as usize);
        good_round(&mut producer, &mut consumer, round);
        if round % 10 == 0 {
            highest = highest.max(node.metric(RESIDENT));
        }
    }
    let growth = highest - before;
    assert!(growth < GROWTH_BYTES_MAX, "memory grew by {growth} bytes");
    // Two connections of each round end for what they sent.
    let malformed = 2 * (ROUNDS as u64 - 1);
    eventually("all of it has arrived", || {
        node.metric("ropewalk_malformed_requests_total") >= malformed
    });
    idle.iter_mut().for_each(greet);
    assert_eq!(node.metric("ropewalk_faults_total"), 0);
}
