//! Memory for topics is bounded: one address has half of it at most, whichever API it asks; others and the node have their own.

use kafka_wire::create_topics::{CreatableTopic, CreatableTopicConfig};
use kafka_wire::{CreateTopicsRequest, ErrorCode, OffsetCommitResponse};
use record::TopicId;

use crate::ask::configs::{DELETE, SET, TOPIC, alter, change, edit, edits, replacement};
use crate::ask::{code, deletion, look, named, widening};
use crate::support::groups::{commit_request, patiently};
use crate::support::{TestNode, Wire, creatable};

const LIST: &str = "leader.replication.throttled.replicas";
const CONFIG: &str = "limits.metadata_bytes_per_core";
const OTHER_LIST: &str = "follower.replication.throttled.replicas";
/// So many partitions do not fit any more when an address has nearly its share.
const MANY: i32 = 500;
const TIMEOUT_MS: i32 = 10_000;

/// As long as a list may be.
fn list() -> String {
    "0:1,".repeat(8_191) + "0:1"
}

fn with_lists(name: &str, lists: &[&str]) -> CreatableTopic {
    let config = |name: &&str| CreatableTopicConfig {
        name: (*name).into(),
        value: Some(list().into()),
    };
    CreatableTopic {
        configs: lists.iter().map(config).collect(),
        ..creatable(name, 1)
    }
}

fn with_list(name: &str) -> CreatableTopic {
    with_lists(name, &[LIST])
}

fn create(wire: &mut Wire, topic: CreatableTopic) -> (ErrorCode, String) {
    let request = CreateTopicsRequest {
        topics: vec![topic],
        timeout_ms: TIMEOUT_MS,
        ..CreateTopicsRequest::default()
    };
    let told = wire.call(7, &request).topics.remove(0);
    (
        code(told.error_code),
        told.error_message.as_deref().unwrap_or_default().to_owned(),
    )
}

/// A node on which the address of the connection has nearly all of its share, with the topics "long" and "short" among others.
fn nearly_full() -> (TestNode, Wire) {
    let sets = [(CONFIG, "1MiB"), ("topics.default_partitions", "500")];
    let node = TestNode::start_with(&sets);
    let mut wire = node.connect();
    fill(&mut wire, "mine");
    for topic in [with_list("long"), creatable("short", 1)] {
        assert_eq!(create(&mut wire, topic), (ErrorCode::None, String::new()));
    }
    (node, wire)
}

/// Takes so much of an address's share that one more list fits, and no second.
fn fill(wire: &mut Wire, whose: &str) {
    for number in 0..7 {
        let topic = with_lists(&format!("{whose}-{number}"), &[LIST, OTHER_LIST]);
        assert_eq!(create(wire, topic), (ErrorCode::None, String::new()));
    }
}

fn expect_refused((code, message): (ErrorCode, String)) {
    assert_eq!(code, ErrorCode::PolicyViolation, "{message}");
    assert!(message.contains(CONFIG), "{message}");
    assert!(message.contains("delete some"), "{message}");
}

#[test]
fn a_topic_beyond_an_addresss_share_is_refused_and_deletions_make_room() {
    let (node, mut wire) = nearly_full();
    expect_refused(create(&mut wire, with_list("c")));
    assert_eq!(
        look(&mut wire, "c").error_code,
        ErrorCode::UnknownTopicOrPartition.code()
    );
    let mut other = node.connect_from(2);
    fill(&mut other, "theirs");
    // A restart counts the same, for the same.
    let node = node.restart_with(&[(CONFIG, "1MiB")], |_| ());
    let mut wire = node.connect();
    expect_refused(create(&mut wire, with_list("d")));
    let mut other = node.connect_from(2);
    assert_eq!(create(&mut other, with_list("d")).0, ErrorCode::None);
    expect_refused(create(&mut other, with_list("e")));
    let deleted = wire.call(5, &deletion("long", TIMEOUT_MS)).responses.remove(0);
    assert_eq!(code(deleted.error_code), ErrorCode::None);
    assert_eq!(create(&mut wire, with_list("long")).0, ErrorCode::None);
}

#[test]
fn partitions_beyond_an_addresss_share_are_refused() {
    let (_node, mut wire) = nearly_full();
    let mut widen = |count| {
        let told = wire
            .call(3, &widening("short", count, TIMEOUT_MS))
            .results
            .remove(0);
        (
            code(told.error_code),
            told.error_message.as_deref().unwrap_or_default().to_owned(),
        )
    };
    expect_refused(widen(MANY));
    assert_eq!(widen(2).0, ErrorCode::None);
}

#[test]
fn configs_beyond_an_addresss_share_are_refused_one_by_one() {
    let (_node, mut wire) = nearly_full();
    let longer = edits(TOPIC, "short", vec![edit(LIST, SET, Some(&list()))]);
    expect_refused(alter(&mut wire, vec![longer.clone()]).remove(0));
    // A change that makes nothing longer is taken, and a shorter value makes room.
    let same = edit(LIST, SET, Some(&list().replace('1', "2")));
    assert_eq!(change(&mut wire, TOPIC, "long", same), ErrorCode::None);
    assert_eq!(
        change(&mut wire, TOPIC, "long", edit(LIST, DELETE, None)),
        ErrorCode::None
    );
    assert_eq!(alter(&mut wire, vec![longer]).remove(0).0, ErrorCode::None);
}

#[test]
fn configs_beyond_an_addresss_share_are_refused_as_a_whole() {
    let (_node, mut wire) = nearly_full();
    let list = list();
    let mut replace = |topic, configs: &[(&str, Option<&str>)]| {
        let told = wire
            .call(2, &replacement(TOPIC, topic, configs))
            .responses
            .remove(0);
        (
            code(told.error_code),
            told.error_message.as_deref().unwrap_or_default().to_owned(),
        )
    };
    expect_refused(replace("short", &[(LIST, Some(&list))]));
    assert_eq!(replace("long", &[]).0, ErrorCode::None);
    assert_eq!(replace("short", &[(LIST, Some(&list))]).0, ErrorCode::None);
}

#[test]
fn topics_that_are_only_named_are_refused_beyond_an_addresss_share() {
    let (node, mut wire) = nearly_full();
    let told = wire.call(12, &named(&["only-named"])).topics.remove(0);
    assert_eq!(code(told.error_code), ErrorCode::PolicyViolation);
    let told = node
        .connect_from(2)
        .call(12, &named(&["only-named"]))
        .topics
        .remove(0);
    assert_eq!(code(told.error_code), ErrorCode::None);
}

#[test]
fn groups_find_room_for_their_topic_when_clients_have_left_none() {
    let (node, mut mine) = nearly_full();
    let mut theirs = node.connect_from(2);
    fill(&mut theirs, "theirs");
    // Both to the last topic.
    for (whose, wire) in [("mine", &mut mine), ("theirs", &mut theirs)] {
        let create = |number| create(wire, creatable(&format!("{whose}-{number}"), 20));
        let refused = (7..100).map(create).find(|(code, _)| *code != ErrorCode::None);
        expect_refused(refused.expect("there is an end"));
    }
    let request = commit_request(("group", "", -1), ("short", TopicId::default()), &[(0, 1)]);
    let error_code = |answer: &OffsetCommitResponse| answer.topics[0].partitions[0].error_code;
    let committed = patiently(|| mine.call(7, &request), error_code);
    assert_eq!(code(error_code(&committed)), ErrorCode::None);
}
