//! Answers about many topics take room. Each tells of as many as there is room for, and the rest is asked for again; a client
//! that asks about one topic is served beside those that ask about many and take none of it.

use kafka_wire::create_topics::CreatableTopic;
use kafka_wire::describe_configs::DescribeConfigsResource;
use kafka_wire::{
    ApiKey, CreateTopicsRequest, Decode, DescribeConfigsRequest, DescribeConfigsResponse, ErrorCode, Reader,
    ResponseHeader, Text,
};

use crate::ask::code;
use crate::ask::configs::{TOPIC, all_of};
use crate::support::{TestNode, Wire, creatable, eventually};

/// Bytes that answers may hold here.
const LIMIT_BYTES: u64 = 1 << 20;
const TOPICS: usize = 1_000;
/// Bytes of an answer that tells of one topic, and of all others that there is no room for them.
const LEAST_BYTES: u64 = 256 << 10;
/// Much more than the kernel keeps for a client that reads nothing.
const ANSWERS_PER_READER: usize = 60;
const READERS: usize = 6;
/// Memory that an answer takes for a topic that it has no room to tell of.
const REFUSED_BYTES: u64 = 512;
const HELD: &str = "ropewalk_answer_bytes";

/// The error of a topic for which an answer has no room left.
const NO_ROOM: ErrorCode = ErrorCode::ThrottlingQuotaExceeded;

fn start() -> (TestNode, Wire, Vec<Text>) {
    let node = TestNode::start_with(&[("cores", "1"), ("limits.answer_bytes_per_core", "1MiB")]);
    let mut wire = node.connect();
    let topics: Vec<CreatableTopic> = (0..TOPICS)
        .map(|number| creatable(&format!("topic-{number}"), 1))
        .collect();
    let names = topics.iter().map(|topic| topic.name.clone()).collect();
    let create = CreateTopicsRequest {
        topics,
        ..CreateTopicsRequest::default()
    };
    let made = wire.call(7, &create).topics;
    assert!(made.iter().all(|topic| topic.error_code == 0));
    (node, wire, names)
}

/// All there is to tell of these topics.
fn all_about(names: &[Text]) -> DescribeConfigsRequest {
    DescribeConfigsRequest {
        resources: names.iter().map(|name| all_of(TOPIC, name)).collect(),
        include_synonyms: true,
        include_documentation: true,
    }
}

/// Codes, and how long the answer is.
fn ask(wire: &mut Wire, request: &DescribeConfigsRequest) -> (Vec<ErrorCode>, u64) {
    let frame = wire.frame(4, request);
    wire.send(&frame);
    let answer = wire.receive_frame().expect("an answer comes");
    let answer_bytes = answer.len() as u64;
    let mut reader = Reader::new(answer);
    ResponseHeader::decode(&mut reader, ApiKey::DescribeConfigs, 4).expect("a sound header");
    let answer = DescribeConfigsResponse::decode(&mut reader, 4).expect("a sound answer");
    let codes = answer.results.iter().map(|result| code(result.error_code));
    (codes.collect(), answer_bytes)
}

#[test]
fn what_an_answer_has_no_room_for_is_told_when_it_is_asked_for_again() {
    let (_node, mut wire, names) = start();
    assert!(NO_ROOM.is_retriable());
    let (mut rest, mut rounds) = (&names[..], 0);
    while !rest.is_empty() {
        let (codes, answer_bytes) = ask(&mut wire, &all_about(rest));
        let told = codes.iter().take_while(|code| **code == ErrorCode::None).count();
        assert!(told > 0);
        assert!(codes[told..].iter().all(|code| *code == NO_ROOM));
        assert!(answer_bytes < LIMIT_BYTES, "{answer_bytes}");
        rest = &rest[told..];
        rounds += 1;
    }
    assert!(rounds > 1, "all was told at once");

    let one_config = |name: &Text| DescribeConfigsResource {
        configuration_keys: Some(vec!["retention.ms".into()]),
        ..all_of(TOPIC, name)
    };
    let of_each_a_little = DescribeConfigsRequest {
        resources: names.iter().map(one_config).collect(),
        ..DescribeConfigsRequest::default()
    };
    let (codes, _) = ask(&mut wire, &of_each_a_little);
    assert!(codes.iter().all(|code| *code == ErrorCode::None));
}

#[test]
fn what_clients_do_not_take_is_bounded_and_who_asks_about_one_topic_is_served() {
    let (node, mut wire, names) = start();
    let greedy = node.greedy(READERS, ANSWERS_PER_READER, 4, &all_about(&names));
    let check = || {
        let held = node.metric(HELD);
        let bound = LIMIT_BYTES + LEAST_BYTES + REFUSED_BYTES * TOPICS as u64;
        assert!(held <= bound, "{held} bytes are held");
        held
    };
    eventually("all room is taken", || check() >= LIMIT_BYTES);
    for name in names.iter().take(20) {
        let (codes, _) = ask(&mut wire, &all_about(std::slice::from_ref(name)));
        assert_eq!(codes, [ErrorCode::None]);
        check();
    }
    // A question about many waits until there is room.
    let frame = wire.frame(4, &all_about(&names));
    wire.send(&frame);
    drop(greedy);
    let (_, told) = wire.receive::<DescribeConfigsRequest>(4);
    assert_eq!(code(told.results[0].error_code), ErrorCode::None);
    eventually("all room is given back", || node.metric(HELD) == 0);
}
