//! The driver as the harness sees it: commands in, events out.

use std::path::Path;

use bench::contract::driver::serve;
use bench::contract::payload::Payloads;
use bench::contract::{Done, Event};
use serde_json::{Value, json};

use crate::layout::LayoutName;
use crate::system::Layouts;

/// Carries out commands in a driver of its own; the last event of each.
fn drive(directory: &Path, layout: LayoutName, commands: &[Value]) -> Vec<Event> {
    let mut system = Layouts::open(directory.to_owned(), layout).expect("the directory can be made");
    let lines: String = commands.iter().map(|command| format!("{command}\n")).collect();
    let mut out = Vec::new();
    serve(&mut system, lines.as_bytes(), &mut out).expect("all lines can be read");
    let events = String::from_utf8(out).expect("events are text");
    let events = events
        .lines()
        .map(|line| serde_json::from_str(line).expect("an event"));
    events
        .filter(|event| !matches!(event, Event::Started | Event::Progress { .. }))
        .collect()
}

fn append(follow: bool) -> Value {
    json!({"command": "append", "log": "c-17", "shards": 4, "producers": 3, "record_bytes": 100, "batch_records": 5,
        "in_flight": 2, "warmup_records": 60, "records": 3_000, "rate": if follow { json!(20_000) } else { Value::Null },
        "follow": follow})
}

fn read(consumers: u32, records: u64) -> Value {
    json!({"command": "read", "log": "c-17", "shards": 4, "consumers": consumers, "record_bytes": 100,
        "request_bytes": 10_000, "records": records, "verify": true})
}

fn create() -> Value {
    json!({"command": "create", "log": "c-17", "shards": 4, "nodes": 1, "settings": {}})
}

fn done(event: &Event) -> &Done {
    match event {
        Event::Done(done) => done,
        other => panic!("it is not done: {other:?}"),
    }
}

#[test]
fn what_one_driver_appended_another_one_reads() {
    let payloads = Payloads::new(100).expect("there is room for the stamp");
    for layout in LayoutName::ALL {
        let directory = tempfile::tempdir().expect("a directory");
        let events = drive(directory.path(), layout, &[create(), append(false)]);
        assert_eq!(events[0], Event::Created);
        let appended = done(&events[1]);
        assert_eq!(
            (appended.records, appended.bytes, appended.errors),
            (3_000, 300_000, 0)
        );
        assert_eq!(appended.appended, [1_020, 1_020, 1_020]);
        let sum: u64 = (0..3)
            .map(|producer| payloads.crc32_sum(producer, 0..1_020))
            .sum();
        let delete = json!({"command": "delete", "log": "c-17"});
        let events = drive(
            directory.path(),
            layout,
            &[read(3, 3_060), read(3, 3_061), delete, create(), read(1, 1)],
        );
        let had = done(&events[0]);
        assert_eq!(
            (had.records, had.errors, had.out_of_order, had.crc32_sum),
            (3_060, 0, Some(0), Some(sum))
        );
        assert!(matches!(&events[1], Event::Failed { .. }));
        assert_eq!(events[2..4], [Event::Deleted, Event::Created]);
        assert!(
            matches!(&events[4], Event::Failed { .. }),
            "the data went with the log"
        );
    }
}

#[test]
fn more_consumers_than_shards_read_from_the_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let layout = LayoutName::Journal;
    let events = drive(
        directory.path(),
        layout,
        &[create(), append(false), read(8, 6_120)],
    );
    let had = done(&events[2]);
    assert_eq!((had.records, had.errors, had.out_of_order), (6_120, 0, Some(0)));
}

#[test]
fn followers_have_every_measured_record() {
    for layout in LayoutName::ALL {
        let directory = tempfile::tempdir().expect("a directory");
        let events = drive(directory.path(), layout, &[create(), append(true)]);
        let appended = done(&events[1]);
        let delivered = appended.delivery_ns.as_ref().expect("consumers followed");
        assert_eq!(delivered.iter().map(|(_, count)| count).sum::<u64>(), 3_000);
        assert_eq!(appended.errors, 0);
    }
}

#[test]
fn what_cannot_be_done_is_said() {
    let directory = tempfile::tempdir().expect("a directory");
    let why = |event: &Event| match event {
        Event::Failed { why } => why.clone(),
        other => panic!("it did not fail: {other:?}"),
    };
    let bad_name = json!({"command": "create", "log": "../c", "shards": 1, "nodes": 1});
    let three_nodes = json!({"command": "create", "log": "c", "shards": 1, "nodes": 3});
    let commands = [
        read(1, 1),
        bad_name,
        three_nodes,
        create(),
        create(),
        json!({"command": "describe"}),
    ];
    let events = drive(directory.path(), LayoutName::KeyValue, &commands);
    assert_eq!(why(&events[0]), "there is no log c-17: create it first");
    assert!(why(&events[1]).contains("is no name for a log"));
    assert_eq!(why(&events[2]), "there is one node, 3 were asked for");
    assert_eq!(events[3], Event::Created);
    assert_eq!(why(&events[4]), "the log c-17 exists");
    let Event::Described(described) = &events[5] else {
        panic!("it describes itself")
    };
    let store = &described.settings["store"];
    assert!(store.starts_with("fjall 3."), "{store}");
    assert!(include_str!("../../peer.toml").contains(&format!("version = \"{store}\"")));
    let events = drive(directory.path(), LayoutName::Journal, &[read(1, 1)]);
    assert_eq!(
        why(&events[0]),
        "the log c-17 has the layout key-value, not journal"
    );
}
