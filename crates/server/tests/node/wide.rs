//! Requests of very many entries, which are taken apart beside the core: they are answered as others are, and in their order.

use bytes::Bytes;
use kafka_wire::{ErrorCode, MetadataRequest, OffsetCommitRequest, OffsetFetchRequest, Text};
use record::TopicId;

use crate::ask::named;
use crate::support::groups::{commit_request, patiently};
use crate::support::{TestNode, Wire};

/// Entries of a few bytes that make a request of half a megabyte.
const MANY: i32 = 30_000;
const NOBODY: (&str, &str, i32) = ("readers", "", -1);
const ORDERS: (&str, TopicId) = ("orders", TopicId([0; 16]));
const COMMIT_VERSION: i16 = 8;
const FETCH_VERSION: i16 = 5;

fn committed(wire: &mut Wire) -> i64 {
    let request = OffsetFetchRequest {
        group_id: Text::from("readers"),
        topics: None,
        ..OffsetFetchRequest::default()
    };
    let told = wire.call(FETCH_VERSION, &request);
    told.topics[0].partitions[0].committed_offset
}

#[test]
fn what_comes_behind_a_wide_request_is_begun_behind_it() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let first = commit_request(NOBODY, ORDERS, &[(0, 1)]);
    patiently(
        || wire.call(COMMIT_VERSION, &first),
        |told| told.topics[0].partitions[0].error_code,
    );
    for offset in (10..50).step_by(10) {
        // Of those that are not there nothing is kept.
        let all: Vec<(i32, i64)> = (0..MANY).map(|index| (index, offset)).collect();
        let wide = wire.frame(COMMIT_VERSION, &commit_request(NOBODY, ORDERS, &all));
        let last = wire.frame(
            COMMIT_VERSION,
            &commit_request(NOBODY, ORDERS, &[(0, offset + 1)]),
        );
        wire.send(&[wide, last].concat());
        let (_, told) = wire.receive::<OffsetCommitRequest>(COMMIT_VERSION);
        let codes: Vec<i16> = told.topics[0]
            .partitions
            .iter()
            .map(|told| told.error_code)
            .collect();
        assert_eq!((codes.len(), codes[0]), (MANY as usize, 0));
        let unknown = ErrorCode::UnknownTopicOrPartition.code();
        assert!(codes[1..].iter().all(|code| *code == unknown));
        wire.receive::<OffsetCommitRequest>(COMMIT_VERSION);
        assert_eq!(committed(&mut wire), offset + 1);
    }
}

#[test]
fn a_wide_request_is_answered_in_its_own_order() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 3, &[]);
    let mut names: Vec<String> = (0..MANY).map(|index| format!("no-such-topic-{index}")).collect();
    names.insert(MANY as usize / 2, "orders".into());
    // Named twice, told once.
    names.push("orders".into());
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let request = MetadataRequest {
        allow_auto_topic_creation: false,
        ..named(&names)
    };
    let told = wire.call(9, &request).topics;
    let told_names = told.iter().filter_map(|topic| topic.name.as_deref());
    assert!(told_names.eq(names[..names.len() - 1].iter().copied()));
    assert_eq!(told[MANY as usize / 2].partitions.len(), 3);
}

#[test]
fn a_wide_request_that_is_malformed_ends_its_connection_alone() {
    let node = TestNode::start();
    let mut wire = node.connect();
    let names: Vec<String> = (0..MANY).map(|index| format!("no-such-topic-{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut frame = wire.frame(9, &named(&names));
    // The last name is longer than what is left.
    let at = frame.len() - 20;
    frame[at..].fill(0x7f);
    let before = wire.frame(9, &named(&[]));
    wire.send(&[before, frame].concat());
    assert!(wire.receive_frame().map(|frame: Bytes| frame.len()) > Some(0));
    wire.expect_hang_up();
    wire = node.connect();
    assert_eq!(wire.call(9, &named(&[])).topics.len(), 0);
}
