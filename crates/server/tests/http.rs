//! A running node's HTTP interface, asked as an orchestrator and Prometheus ask it.

// A test is the node's client and stands outside it: real sockets are what it is about.
#![expect(
    clippy::disallowed_methods,
    reason = "the tests are clients, outside the node"
)]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use platform::disk::SimulatedDisk;
use server::Node;
use server::config::Config;
use support::{eventually, http_get as get};

const CORES: usize = 2;
const ROOM_BYTES: u64 = 64 << 20;
const DRAIN: Duration = Duration::from_secs(30);

/// A node over a disk with little room.
fn start(reserve_bytes: u64) -> Node {
    let disk = SimulatedDisk::new();
    disk.set_capacity(Some(ROOM_BYTES));
    let mut config = Config::default();
    config.cores = CORES;
    config.pin_threads = false;
    config.kafka.listen = "127.0.0.1:0".into();
    config.http.listen = "127.0.0.1:0".into();
    config.journal.file_bytes = 1 << 20;
    config.journal.bytes_max = 4 << 20;
    config.journal.layout_trigger = 1 << 20;
    config.disk.reserve_bytes = reserve_bytes;
    Node::start_on(config, Arc::new(disk), "0.0.0").expect("the node starts")
}

/// A metric's value, all its labels added up.
fn sum(metrics: &str, name: &str) -> f64 {
    let samples = metrics.lines().filter_map(|line| line.strip_prefix(name));
    let samples: Vec<f64> = samples
        .filter(|rest| rest.starts_with(['{', ' ']))
        .map(|rest| {
            rest.rsplit(' ')
                .next()
                .and_then(|value| value.parse().ok())
                .expect("a number")
        })
        .collect();
    assert!(!samples.is_empty(), "no {name} in:\n{metrics}");
    samples.iter().sum()
}

/// Opens a Kafka connection and has one ApiVersions request (version 0) answered on it.
fn greet(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff];
    stream.write_all(&request).expect("sent");
    let mut size = [0; 4];
    stream.read_exact(&mut size).expect("an answer");
    let mut answer = vec![0; u32::from_be_bytes(size) as usize];
    stream.read_exact(&mut answer).expect("a whole answer");
    stream
}

#[test]
fn a_running_node_tells_how_it_is() {
    let node = start(0);
    let http = node.http_address();
    for (path, body) in [
        ("/health", "{\"status\":\"ok\"}"),
        ("/ready", "{\"status\":\"ready\"}"),
    ] {
        let answer = get(http, path);
        assert!(
            answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(body),
            "{answer}"
        );
    }
    let connection = greet(node.kafka_address());
    let metrics = get(http, "/metrics");
    assert!(
        metrics.starts_with("HTTP/1.1 200 ") && metrics.ends_with("# EOF\n"),
        "{metrics}"
    );
    for (name, value) in [
        ("ropewalk_cores", CORES as f64),
        ("ropewalk_core_up", CORES as f64),
        ("ropewalk_topics", 0.0),
        ("ropewalk_connections", 1.0),
        ("ropewalk_connections_opened_total", 1.0),
        ("ropewalk_connections_moved_total", 0.0),
        ("ropewalk_requests_total", 1.0),
        ("ropewalk_api_requests_total", 1.0),
        ("ropewalk_received_bytes_total", 14.0),
        ("ropewalk_malformed_requests_total", 0.0),
        ("ropewalk_partitions", 1.0),
        ("ropewalk_journal_dead", 0.0),
        ("ropewalk_disk_full", 0.0),
        ("ropewalk_faults_total", 0.0),
    ] {
        assert_eq!(sum(&metrics, name), value, "{name} in:\n{metrics}");
    }
    // The start itself was journaled.
    for name in [
        "ropewalk_appended_records_total",
        "ropewalk_flushes_total",
        "ropewalk_uptime_seconds",
    ] {
        assert!(sum(&metrics, name) > 0.0, "{name} in:\n{metrics}");
    }
    drop(connection);
    assert!(node.drain(DRAIN));
    assert!(TcpStream::connect(http).is_err(), "nobody listens after a drain");
}

#[test]
fn a_full_disk_makes_a_node_not_ready_and_leaves_it_healthy() {
    let node = start(2 * ROOM_BYTES);
    let http = node.http_address();
    // Each core learns of it by mail, soon after the start.
    let mut answer = String::new();
    eventually("each core says that the disk is full", || {
        answer = get(http, "/ready");
        answer.matches("the disk is full").count() == CORES
    });
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(get(http, "/health").starts_with("HTTP/1.1 200 "));
    assert_eq!(sum(&get(http, "/metrics"), "ropewalk_disk_full"), CORES as f64);
    assert!(node.drain(DRAIN));
}
