//! The driver before a broker in memory, commanded as the harness does.

use client::ApiKey;
use client::ErrorCode;
use client::fake_broker::{FakeBroker, Fault};
use serde_json::json;

use super::*;
use crate::contract::Event;

/// What the driver answers to commands.
fn answers(broker: &FakeBroker, commands: &[serde_json::Value]) -> Vec<Event> {
    let lines: Vec<String> = commands.iter().map(ToString::to_string).collect();
    let mut system = Ropewalk {
        address: broker.address(),
    };
    let mut out = Vec::new();
    serve(&mut system, lines.join("\n").as_bytes(), &mut out).expect("it reads");
    let text = String::from_utf8(out).expect("events are text");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("an event"))
        .collect()
}

fn create(shards: u32) -> serde_json::Value {
    json!({"command": "create", "log": "cord", "shards": shards, "nodes": 1, "settings": {"flush.messages": "1"}})
}

fn append(shards: u32, more: serde_json::Value) -> serde_json::Value {
    let mut append = json!({
        "command": "append", "log": "cord", "shards": shards, "producers": 2, "record_bytes": 64,
        "batch_records": 7, "in_flight": 3, "warmup_records": 31, "records": 1_000,
    });
    let fields = append.as_object_mut().expect("an object");
    fields.extend(more.as_object().expect("an object").clone());
    append
}

fn read(shards: u32, consumers: u32, records: u64) -> serde_json::Value {
    json!({
        "command": "read", "log": "cord", "shards": shards, "consumers": consumers, "record_bytes": 64,
        "request_bytes": 10_000, "records": records, "verify": true,
    })
}

/// The last event, which says that all is done.
fn done(events: &[Event]) -> &Done {
    match events {
        [.., Event::Done(done)] => done,
        other => panic!("not done: {other:?}"),
    }
}

fn crc32_sum(done: &Done) -> u64 {
    let payloads = Payloads::new(64).expect("there is room for the stamp");
    let of_each = (0..).zip(&done.appended);
    of_each
        .map(|(producer, records)| payloads.crc32_sum(producer, 0..*records))
        .sum()
}

#[test]
fn what_was_appended_is_read_back() {
    for shards in [1, 3, 100] {
        let broker = FakeBroker::start();
        let events = answers(&broker, &[create(shards), append(shards, json!({}))]);
        assert_eq!(events[..2], [Event::Created, Event::Started]);
        let appended = done(&events).clone();
        assert_eq!((appended.records, appended.bytes), (1_000, 64_000));
        assert_eq!((appended.errors, &appended.appended[..]), (0, &[516, 515][..]));
        assert_eq!(
            broker.configs("cord"),
            [("flush.messages".to_owned(), "1".to_owned())]
        );
        for consumers in [1, 3] {
            let events = answers(&broker, &[read(shards, consumers, 1_031)]);
            let had = done(&events);
            let times = u64::from(consumers / shards).max(1);
            if consumers <= shards {
                assert_eq!(
                    had.crc32_sum,
                    Some(crc32_sum(&appended)),
                    "{shards} shards, {consumers} consumers"
                );
            }
            assert!(had.records >= 1_031 && had.records <= 1_031 * times, "{had:?}");
            assert_eq!(had.out_of_order, Some(0));
        }
        let delete = json!({"command": "delete", "log": "cord"});
        assert_eq!(answers(&broker, &[delete]), [Event::Deleted]);
    }
}

#[test]
fn consumers_follow_until_all_is_delivered() {
    let broker = FakeBroker::start();
    let more = json!({"rate": 5_000.0, "follow": true});
    let events = answers(&broker, &[create(2), append(2, more)]);
    let done = done(&events);
    let delivered: u64 = done.delivery_ns.iter().flatten().map(|(_, count)| count).sum();
    assert_eq!((done.records, delivered), (1_000, 1_000));
}

#[test]
fn what_a_broker_loses_or_refuses_is_sent_again_where_that_is_asked_and_is_there_once() {
    let faults = [
        Fault::Close,
        Fault::Reset,
        Fault::Refuse(ErrorCode::NotLeaderOrFollower),
        Fault::Refuse(ErrorCode::NotEnoughReplicas),
    ];
    let broker = FakeBroker::start();
    answers(&broker, &[create(2)]);
    for fault in faults {
        broker.inject(ApiKey::Produce, fault);
    }
    let more = json!({"batch_records": 1, "in_flight": 1, "records": 200, "retry": true});
    let events = answers(&broker, &[append(2, more)]);
    let appended = done(&events);
    assert_eq!((appended.errors, appended.records), (0, 200), "{appended:?}");
    let leader = json!({"command": "leader", "log": "cord"});
    assert_eq!(answers(&broker, &[leader]), [Event::Leader { node: Some(1) }]);
    let events = answers(&broker, &[read(2, 1, 231)]);
    assert_eq!(done(&events).crc32_sum, Some(crc32_sum(appended)));
}

#[test]
fn failures_are_counted_or_said() {
    let broker = FakeBroker::start();
    answers(&broker, &[create(2)]);
    broker.inject(ApiKey::Produce, Fault::Refuse(ErrorCode::NotEnoughReplicas));
    let events = answers(&broker, &[append(2, json!({"warmup_records": 0}))]);
    let appended = done(&events);
    assert_eq!((appended.errors, appended.records), (1, 993));
    assert!(appended.first_error.is_some());

    let more = json!({"rate": null, "follow": true});
    let wrong = [
        append(2, json!({"retry": true})),
        read(2, 1, 5_000),
        read(3, 1, 900),
        append(2, json!({"log": "none"})),
        append(2, more),
        create(2),
        json!({"command": "delete", "log": "none"}),
        json!({"command": "dance"}),
    ];
    for command in wrong {
        let events = answers(&broker, &[command]);
        assert!(matches!(events[..], [.., Event::Failed { .. }]), "{events:?}");
    }
    let [Event::Described(described)] = &answers(&broker, &[json!({"command": "describe"})])[..] else {
        panic!("nothing is described");
    };
    assert_eq!(described.client, "ropewalk");
    assert!(described.settings["idempotence"].starts_with("none"));
}
