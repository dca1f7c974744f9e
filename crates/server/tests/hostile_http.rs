//! Clients over HTTP that mean no good to a node's memory: it stays bounded where it is highest. Alone in its process,
//! because that memory is measured.

#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the node: they open sockets and files themselves"
)]

mod support;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use socket2::SockRef;
use support::{PATIENCE, TestNode, eventually};

const RECORDS: &str = "/v1/topics/t/partitions/0/records";
/// Six times as long as text: more than all the room there is for answers.
const RECORD_BYTES: usize = 1_000_000;
const FOLLOWERS: usize = 48;
const READERS: usize = 24;
/// Bytes of its answer that each reader leaves beyond those that the one before it does.
const LEFT_BYTES: usize = 256 << 10;
/// Of each client.
const RECEIVE_BYTES: usize = 64 << 10;
/// Far more than all limits below allow together, for buffers and the allocator; and far less than headers or followers
/// take that nobody counts.
const GROWTH_BYTES_MAX: u64 = 256 << 20;

const LIMITS: &[(&str, &str)] = &[
    ("limits.in_flight_bytes_per_core", "32MiB"),
    ("limits.answer_bytes_per_core", "4MiB"),
    ("limits.decompressed_bytes", "4MiB"),
    ("cache.tail_bytes", "8MiB"),
    ("cache.chunk_bytes", "4MiB"),
];

/// The most memory that this process has ever had.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the kernel tells");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB"));
    let kibibytes: u64 = peak.expect("a peak").parse().expect("a number");
    kibibytes << 10
}

fn open(node: &TestNode, head: &str, body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(node.http_address()).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
    // The network should not hold most of an answer for a client that does not read.
    let limited = SockRef::from(&stream).set_recv_buffer_size(RECEIVE_BYTES);
    limited.expect("a buffer may be small");
    let head = format!("{head}\r\nhost: n\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).expect("sent");
    stream.write_all(body).expect("sent");
    stream
}

/// The status line and the head of what is answered to a body.
fn post(node: &TestNode, path: &str, media_type: &str, body: &[u8]) -> String {
    let head = format!("POST {path} HTTP/1.1\r\nconnection: close\r\ncontent-type: {media_type}");
    let mut answer = String::new();
    let read = open(node, &head, body).read_to_string(&mut answer);
    read.expect("an answer");
    answer
}

fn get(node: &TestNode, query: &str, accept: &str) -> TcpStream {
    let head = format!("GET {RECORDS}?{query} HTTP/1.1\r\naccept: {accept}");
    open(node, &head, b"")
}

/// Follows the partition and reads no more than how the answer begins.
fn follow(node: &TestNode) -> TcpStream {
    let mut stream = get(node, "offset=earliest", "text/event-stream");
    stream.read_exact(&mut [0; 12]).expect("an answer begins");
    stream
}

/// Asks for one record and all the room that there is, so that readers have it one behind the other.
fn read(node: &TestNode) -> TcpStream {
    get(node, "limit=1&bytes=4194304", "application/json")
}

/// Takes an answer but for so many bytes of its end.
fn take_most(stream: &mut TcpStream, left_bytes: usize) {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a head");
        match line.trim_end().strip_prefix("content-length: ") {
            Some(bytes) => length = bytes.parse().expect("a number"),
            None if line.trim_end().is_empty() => break,
            None => {}
        }
    }
    let wanted = usize::saturating_sub(length, left_bytes) as u64;
    io::copy(&mut reader.take(wanted), &mut io::sink()).expect("most of an answer");
}

#[test]
fn memory_stays_bounded_whatever_is_asked_and_not_taken() {
    let node = TestNode::start_with(LIMITS);
    let topic = r#"{"name":"t","partitions":1,"configs":{"max.message.bytes":"1100000"}}"#;
    let created = post(&node, "/v1/topics", "application/json", topic.as_bytes());
    assert!(created.starts_with("HTTP/1.1 201 "), "{created}");
    for _ in 0..8 {
        let appended = post(&node, RECORDS, "application/octet-stream", &vec![0; RECORD_BYTES]);
        assert!(appended.starts_with("HTTP/1.1 200 "), "{appended}");
    }
    let headers = [b"[{\"headers\":[".as_slice(), &b"{},".repeat(8_000_000), b"{}]}]"].concat();
    let before = peak_bytes();

    let refused = post(&node, RECORDS, "application/json", &headers);
    assert!(refused.starts_with("HTTP/1.1 400 "), "{refused}");

    let following: Vec<TcpStream> = (0..FOLLOWERS).map(|_| follow(&node)).collect();
    eventually("all but one are told that there is no room", || {
        node.metric("ropewalk_http_followers") <= 1
    });
    drop(following);
    eventually("the last one is found to be gone", || {
        node.metric("ropewalk_http_followers") == 0
    });

    let mut readers: Vec<TcpStream> = (0..READERS).map(|_| read(&node)).collect();
    for (place, reader) in readers.iter_mut().enumerate() {
        take_most(reader, place * LEFT_BYTES);
    }
    let growth = peak_bytes() - before;
    assert!(growth < GROWTH_BYTES_MAX, "memory grew by {growth} bytes");
    drop(readers);
    eventually("the room comes back", || {
        let mut answer = [0; 12];
        read(&node).read_exact(&mut answer).expect("an answer begins");
        answer.as_slice() == b"HTTP/1.1 200"
    });
    assert_eq!(node.metric("ropewalk_faults_total"), 0);
}
