//! Answered appends are there after the node comes back, however it went.

use crate::ask::configs::{TOPIC, told};
use crate::ask::{deletion, look_at_all};
use crate::support::{TestNode, Wire, batch, now_ms};

const TOPICS: [(&str, i32); 3] = [("orders", 4), ("events", 1), ("logs", 2)];

/// Topics, their ids and how many partitions they have.
fn topics(wire: &mut Wire) -> Vec<(String, record::TopicId, usize)> {
    let topics = look_at_all(wire).into_iter();
    topics
        .map(|topic| {
            let name = topic.name.as_deref().unwrap_or_default().to_owned();
            (name, topic.topic_id, topic.partitions.len())
        })
        .collect()
}

fn value(round: usize, topic: &str, index: i32) -> String {
    format!("{topic}-{index}-{round}")
}

fn append_round(wire: &mut Wire, round: usize) {
    for (topic, partitions) in TOPICS {
        for index in 0..partitions {
            let told = wire.produce(topic, index, batch(&[(now_ms(), &value(round, topic, index))]));
            assert_eq!((told.error_code, told.base_offset), (0, round as i64));
        }
    }
}

fn check(wire: &mut Wire, rounds: usize) {
    for (topic, partitions) in TOPICS {
        for index in 0..partitions {
            let records = wire.read_all(topic, index, 0);
            let found: Vec<_> = records
                .iter()
                .map(|record| record.value.clone().unwrap_or_default())
                .collect();
            let expected: Vec<_> = (0..rounds).map(|round| value(round, topic, index)).collect();
            assert_eq!(found, expected, "{topic}-{index}");
        }
    }
}

#[test]
fn topics_configs_and_records_survive_every_kind_of_stop() {
    let mut node = TestNode::start();
    let mut wire = node.connect();
    for (topic, partitions) in TOPICS {
        wire.create_topic(topic, partitions, &[("retention.ms", "86400000")]);
    }
    let known = topics(&mut wire);
    assert_eq!(known.len(), TOPICS.len());
    let mut rounds = 0;
    for stop in ["drain", "kill", "drain", "kill", "kill"] {
        for _ in 0..3 {
            append_round(&mut wire, rounds);
            rounds += 1;
        }
        check(&mut wire, rounds);
        node = if stop == "drain" {
            node.restart()
        } else {
            node.kill_and_restart()
        };
        wire = node.connect();
        assert_eq!(topics(&mut wire), known);
        assert_eq!(told(&mut wire, TOPIC, "events", "retention.ms").0, "86400000");
        check(&mut wire, rounds);
    }
}

#[test]
fn more_than_the_journal_holds_is_all_there() {
    let mut node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 2, &[]);
    // Several times the journal: the beginning has been laid out in segments, and its files written again.
    let value = "x".repeat(500_000);
    for round in 0..200 {
        assert_eq!(
            wire.produce("orders", round % 2, batch(&[(now_ms(), &value)]))
                .error_code,
            0
        );
    }
    for _ in 0..2 {
        for index in 0..2 {
            let records = wire.read_all("orders", index, 0);
            assert_eq!(records.len(), 100);
            let whole = |record: &record::Record| {
                record
                    .value
                    .as_ref()
                    .is_some_and(|bytes| bytes.len() == value.len())
            };
            assert!(records.iter().all(whole));
        }
        node = node.kill_and_restart();
        wire = node.connect();
    }
}

#[test]
fn a_deleted_topic_stays_deleted() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 2, &[]);
    assert_eq!(wire.produce("orders", 0, batch(&[(now_ms(), "x")])).error_code, 0);
    let deleted = wire.call(5, &deletion("orders", 5_000)).responses.remove(0);
    assert_eq!(deleted.error_code, 0);
    let node = node.kill_and_restart();
    let mut wire = node.connect();
    assert!(topics(&mut wire).is_empty());
    wire.create_topic("orders", 1, &[]);
    let node = node.restart();
    let mut wire = node.connect();
    assert!(wire.read_all("orders", 0, 0).is_empty());
    assert_eq!(
        wire.produce("orders", 0, batch(&[(now_ms(), "y")])).base_offset,
        0
    );
}
