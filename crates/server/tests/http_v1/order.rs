//! Topics with one order over HTTP: each record has its position, for every reader, over starts and crashes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Http;
use crate::support::{PATIENCE, TestNode, batch, now_ms};

const TOTAL: &[(&str, &str)] = &[("ropewalk.order", "total")];
const RECORDS: &str = "/v1/topics/t/records";
const PARTITIONS: i32 = 4;

/// A record as it is told in order.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    position: i64,
    partition: i32,
    offset: i64,
    value: String,
}

impl Told {
    fn read(record: &Value) -> Told {
        Told {
            position: record["position"].as_i64().expect("a position"),
            partition: record["partition"].as_i64().expect("a partition") as i32,
            offset: record["offset"].as_i64().expect("an offset"),
            value: record["value"].as_str().expect("a value").to_owned(),
        }
    }
}

/// All that is ordered, read by so many records at a time.
fn read_all(http: &Http, limit: usize) -> Vec<Told> {
    let (mut next, mut told) = (0, Vec::new());
    loop {
        let page = http
            .get(&format!("{RECORDS}?position={next}&limit={limit}"))
            .json();
        let records = page["records"].as_array().expect("records");
        told.extend(records.iter().map(Told::read));
        next = page["next_position"].as_i64().expect("a position");
        if next == page["ordered"].as_i64().expect("a position") {
            return told;
        }
    }
}

/// Demands positions from 0 on, and each partition's offsets in their order, which are all that it has; and the same of the
/// twin.
fn demand_order(node: &TestNode, told: &[Told]) {
    let mut next: BTreeMap<i32, i64> = BTreeMap::new();
    for (position, record) in (0..).zip(told) {
        assert_eq!(record.position, position);
        let next = next.entry(record.partition).or_default();
        assert_eq!(record.offset, *next, "{record:?}");
        *next += 1;
    }
    for partition in 0..PARTITIONS {
        let values = node.connect().read_values("t", partition);
        let of_partition = told.iter().filter(|record| record.partition == partition);
        let of_partition: Vec<String> = of_partition.map(|record| record.value.clone()).collect();
        assert_eq!(values, of_partition, "partition {partition}");
    }
    let twin = node.connect().read_all("t@total", 0, 0);
    let twin = twin.iter().map(|record| {
        let value = record.value.as_deref().unwrap_or_default();
        (record.offset.0, String::from_utf8_lossy(value).into_owned())
    });
    let positions = told.iter().map(|record| (record.position, record.value.clone()));
    assert!(twin.eq(positions), "the twin has what is told by position");
}

/// Producers on all partitions at the same time. Each value is the producer's number and its own.
fn produce(node: &TestNode, producers: i32, each: i32) {
    thread::scope(|scope| {
        for producer in 0..producers {
            let mut wire = node.connect();
            scope.spawn(move || {
                for number in 0..each {
                    let value = format!("{producer}-{number}");
                    let partition = (producer + number) % PARTITIONS;
                    let answer =
                        wire.produce("t", partition, batch(&[(now_ms(), &value), (now_ms(), "more")]));
                    assert_eq!(answer.error_code, 0);
                }
            });
        }
    });
}

#[test]
fn all_readers_see_one_order_and_a_crash_changes_nothing_of_it() {
    let node = TestNode::start();
    node.connect().create_topic("t", PARTITIONS, TOTAL);
    assert_eq!(read_all(&Http::of(&node), 10), []);
    produce(&node, 6, 50);
    let before = read_all(&Http::of(&node), 1_000);
    assert_eq!(before.len(), 6 * 50 * 2);
    demand_order(&node, &before);
    for limit in [1, 7, 100] {
        assert_eq!(read_all(&Http::of(&node), limit), before, "by {limit}");
    }
    let node = node.kill_and_restart();
    assert_eq!(read_all(&Http::of(&node), 100), before);
    produce(&node, 3, 20);
    let after = read_all(&Http::of(&node), 100);
    assert_eq!(after.len(), before.len() + 3 * 20 * 2);
    assert_eq!(after[..before.len()], before);
    demand_order(&node, &after);
    let node = node.restart().restart();
    assert_eq!(read_all(&Http::of(&node), 100), after);
}

#[test]
fn what_is_acknowledged_before_another_append_begins_comes_before_it() {
    let node = TestNode::start();
    node.connect().create_topic("t", PARTITIONS, TOTAL);
    // Values are the moments of their appends, as one clock counts them.
    let clock = AtomicI64::new(0);
    thread::scope(|scope| {
        for producer in 0..4 {
            let (mut wire, clock) = (node.connect(), &clock);
            scope.spawn(move || {
                for number in 0..60 {
                    let began = clock.fetch_add(1, Ordering::SeqCst);
                    let value = format!("{producer} {number} {began}");
                    let partition = (producer * 3 + number) % PARTITIONS;
                    assert_eq!(wire.produce("t", partition, batch(&[(0, &value)])).error_code, 0);
                }
            });
        }
    });
    let told = read_all(&Http::of(&node), 1_000);
    demand_order(&node, &told);
    // A producer's append has ended when its next one begins.
    let mut numbers: BTreeMap<&str, i64> = BTreeMap::new();
    for record in &told {
        let mut words = record.value.split(' ');
        let (producer, number) = (words.next().expect("a producer"), words.next().expect("a number"));
        let number: i64 = number.parse().expect("a number");
        let next = numbers.entry(producer).or_default();
        assert_eq!(number, *next, "{record:?}");
        *next += 1;
    }
    let moments: Vec<i64> = told
        .iter()
        .map(|record| {
            record
                .value
                .rsplit(' ')
                .next()
                .and_then(|moment| moment.parse().ok())
                .expect("a moment")
        })
        .collect();
    // Four producers have at most four appends under way: no record is behind more than three that began later.
    for (place, moment) in moments.iter().enumerate() {
        let later = moments[..place].iter().filter(|other| *other > moment);
        assert!(later.count() < 4 * 4, "{:?}", told[place]);
    }
}

#[test]
fn a_cut_is_a_snapshot_of_all_partitions() {
    let node = TestNode::start();
    node.connect().create_topic("t", PARTITIONS, TOTAL);
    produce(&node, 4, 25);
    let http = Http::of(&node);
    let told = read_all(&http, 1_000);
    for position in [0, 1, 2, 77, 199, 200] {
        let cut = http.get(&format!("/v1/topics/t/cut?position={position}")).json();
        let mut expected = vec![0; PARTITIONS as usize];
        for record in &told[..position] {
            expected[record.partition as usize] = record.offset + 1;
        }
        assert_eq!(cut, json!({ "position": position, "offsets": expected }));
    }
    let latest = http.get("/v1/topics/t/cut").json();
    assert_eq!(latest["position"], 200);
    assert_eq!(latest, http.get("/v1/topics/t/cut?position=latest").json());
    let beyond = http.get("/v1/topics/t/cut?position=201");
    assert_eq!(
        (beyond.status, beyond.kind()),
        (416, "position-out-of-range".into())
    );
    assert_eq!(beyond.json()["ordered"], 200);
}

#[test]
fn a_live_topic_gets_an_order_over_all_that_it_has_loses_it_and_gets_it_back() {
    let node = TestNode::start();
    node.connect().create_topic("t", PARTITIONS, &[]);
    produce(&node, 4, 10);
    let http = Http::of(&node);
    let refused = http.get(RECORDS);
    assert_eq!((refused.status, refused.kind()), (409, "no-order".into()));
    let order = |http: &Http, order: &str| {
        let body = json!({ "ropewalk.order": order }).to_string();
        let answer = http.patch("/v1/topics/t/configs", body);
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    order(&http, "total");
    let first = read_all(&http, 1_000);
    assert_eq!(first.len(), 80);
    demand_order(&node, &first);
    // Partition after partition.
    assert!(first.is_sorted_by_key(|record| record.partition));
    produce(&node, 4, 10);
    let second = read_all(&http, 1_000);
    assert_eq!(second[..80], first);
    demand_order(&node, &second);
    order(&http, "partition");
    assert_eq!(http.get(RECORDS).status, 409);
    produce(&node, 4, 10);
    let node = node.kill_and_restart();
    let http = Http::of(&node);
    produce(&node, 1, 1);
    order(&http, "total");
    let third = read_all(&http, 1_000);
    assert_eq!(third.len(), 242);
    assert_eq!(third[..160], second, "positions are what they were");
    demand_order(&node, &third);
    let node = node.kill_and_restart();
    assert_eq!(read_all(&Http::of(&node), 1_000), third);
}

#[test]
fn new_partitions_come_into_the_order_and_a_topic_that_is_gone_leaves_nothing() {
    let node = TestNode::start();
    node.connect().create_topic("t", 1, TOTAL);
    let http = Http::of(&node);
    assert_eq!(node.connect().produce("t", 0, batch(&[(0, "a")])).error_code, 0);
    let grown = http.patch("/v1/topics/t", r#"{"partitions":4}"#);
    assert_eq!(grown.status, 200, "{}", grown.text());
    assert_eq!(
        http.get("/v1/topics/t/cut").json()["offsets"],
        json!([1, 0, 0, 0])
    );
    for partition in [3, 1, 0] {
        let appended = node.connect().produce("t", partition, batch(&[(0, "b")]));
        assert_eq!(appended.error_code, 0);
    }
    let told = read_all(&http, 10);
    let places: Vec<i32> = told.iter().map(|record| record.partition).collect();
    assert_eq!(places, [0, 3, 1, 0]);
    let node = node.kill_and_restart();
    let http = Http::of(&node);
    assert_eq!(read_all(&http, 10), told);
    assert_eq!(http.delete("/v1/topics/t").status, 204);
    assert_eq!(http.get(RECORDS).status, 404);
    node.connect().create_topic("t", PARTITIONS, TOTAL);
    assert_eq!(read_all(&http, 10), []);
    produce(&node, 2, 2);
    demand_order(&node, &read_all(&http, 10));
}

#[test]
fn very_many_cuts_go_to_pages_and_are_found_there() {
    let node = TestNode::start();
    node.connect().create_topic("t", PARTITIONS, TOTAL);
    // A run each, for no two neighbours are of one partition.
    let mut wire = node.connect();
    for number in 0..9_000 {
        let value = number.to_string();
        let appended = wire.produce("t", number % PARTITIONS, batch(&[(0, &value)]));
        assert_eq!(appended.error_code, 0);
    }
    let demand = |node: &TestNode| {
        let http = Http::of(node);
        for position in [0, 1, 4_094, 4_095, 4_096, 4_097, 8_191, 8_192, 8_999] {
            let page = http.get(&format!("{RECORDS}?position={position}&limit=3")).json();
            let records = page["records"].as_array().expect("records");
            let numbers = records
                .iter()
                .map(|record| record["value"].as_str().expect("a value"));
            let expected: Vec<String> = (position..9_000.min(position + 3))
                .map(|number| number.to_string())
                .collect();
            assert_eq!(numbers.collect::<Vec<_>>(), expected);
            let cut = http.get(&format!("/v1/topics/t/cut?position={position}")).json();
            let offsets = cut["offsets"].as_array().expect("offsets").iter();
            let offsets: Vec<i64> = offsets
                .map(|offset| offset.as_i64().expect("an offset"))
                .collect();
            let expected = (0..i64::from(PARTITIONS)).map(|partition| (position - partition + 3) / 4);
            assert_eq!(offsets, expected.collect::<Vec<_>>(), "at {position}");
        }
        let told = read_all(&http, 1_000);
        assert_eq!(told.len(), 9_000);
        demand_order(node, &told);
    };
    demand(&node);
    let node = node.kill_and_restart();
    demand(&node);
    let node = node.kill_and_restart();
    demand(&node);
}

#[test]
fn a_read_at_the_end_waits_for_the_next_record() {
    let node = TestNode::start();
    node.connect().create_topic("t", PARTITIONS, TOTAL);
    let http = Http::of(&node);
    let began = Instant::now();
    let page = http.get(&format!("{RECORDS}?position=latest&wait_ms=50")).json();
    assert!(began.elapsed() >= Duration::from_millis(50));
    assert_eq!(
        (&page["records"], &page["next_position"]),
        (&json!([]), &json!(0))
    );
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let wait = PATIENCE.as_millis();
            http.get(&format!("{RECORDS}?position=latest&wait_ms={wait}"))
                .json()
        });
        let mut wire = node.connect();
        let appended = wire.produce("t", 2, batch(&[(0, "a")]));
        assert_eq!(appended.error_code, 0);
        let page = waiting.join().expect("it is answered");
        // It may have begun behind the record.
        if page["records"] != json!([]) {
            assert_eq!(Told::read(&page["records"][0]).partition, 2);
        }
    });
}

#[test]
fn what_cannot_be_is_refused() {
    let node = TestNode::start();
    node.connect().create_topic("t", PARTITIONS, TOTAL);
    let http = Http::of(&node);
    for (query, told) in [
        ("?position=-1", "a whole number, earliest or latest"),
        ("?position=x", "a whole number, earliest or latest"),
        ("?offset=1", "offset"),
        ("?limit=0", "limit"),
    ] {
        let refused = http.get(&format!("{RECORDS}{query}"));
        assert_eq!(refused.status, 400, "{query}");
        assert!(refused.text().contains(told), "{query}: {}", refused.text());
    }
    let beyond = http.get(&format!("{RECORDS}?position=1"));
    assert_eq!(
        (beyond.status, beyond.kind()),
        (416, "position-out-of-range".into())
    );
    let in_memory = json!({ "ropewalk.durability": "memory" }).to_string();
    let refused = http.patch("/v1/topics/t/configs", in_memory);
    assert_eq!((refused.status, refused.kind()), (422, "invalid-config".into()));
    assert!(
        refused.text().contains("needs ropewalk.durability=fsync"),
        "{}",
        refused.text()
    );
    let both = json!({ "name": "u", "partitions": 1, "configs": { "ropewalk.order": "total", "ropewalk.durability": "memory" } });
    let refused = http.post("/v1/topics", "application/json", both.to_string());
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert_eq!(http.get("/v1/topics/u").status, 404);
}

#[test]
fn a_topic_is_trimmed_at_a_cut_and_the_rest_keeps_its_positions() {
    let node = TestNode::start();
    node.connect().create_topic("t", PARTITIONS, TOTAL);
    produce(&node, 4, 25);
    let http = Http::of(&node);
    let told = read_all(&http, 1_000);
    let trim = |before: &str| http.delete(&format!("{RECORDS}{before}"));
    for (before, expected) in [
        ("", (400, "malformed-query")),
        ("?before_position=x", (400, "malformed-query")),
        ("?before=3", (400, "malformed-query")),
        ("?before_position=201", (416, "position-out-of-range")),
    ] {
        let answer = trim(before);
        assert_eq!((answer.status, &*answer.kind()), expected, "{before}");
    }
    assert_eq!(read_all(&http, 1_000), told, "nothing is changed");
    for (before, first) in [(0, 0), (77, 77), (77, 77), (60, 77)] {
        let answer = trim(&format!("?before_position={before}"));
        assert_eq!(answer.json(), json!({ "first_position": first }));
    }
    assert_eq!(read_all(&http, 1_000), told[77..]);
    let node = node.kill_and_restart();
    let http = Http::of(&node);
    assert_eq!(read_all(&http, 1_000), told[77..]);
    let answer = http.delete(&format!("{RECORDS}?before_position=ordered"));
    assert_eq!(answer.json(), json!({ "first_position": 200 }));
    assert_eq!(read_all(&http, 1_000), []);
    produce(&node, 1, 1);
    let rest = read_all(&http, 1_000);
    assert_eq!(
        rest.iter().map(|record| record.position).collect::<Vec<_>>(),
        [200, 201]
    );
    http.create("plain", 1);
    let plain = http.delete("/v1/topics/plain/records?before_position=0");
    assert_eq!((plain.status, plain.kind()), (409, "no-order".into()));
}

#[test]
fn a_group_goes_on_at_a_cut() {
    let node = TestNode::start();
    node.connect().create_topic("t", PARTITIONS, TOTAL);
    produce(&node, 4, 25);
    let http = Http::of(&node);
    http.create("plain", 1);
    let cut = http.get("/v1/topics/t/cut?position=77").json();
    let path = "/v1/groups/readers/offsets";
    let set = |query: &str, body: Value| http.patch(&format!("{path}{query}"), body.to_string());
    let at = |position: i64| json!([{ "topic": "t", "position": position }]);
    let rehearsed = set("?dry_run=true", at(77)).json();
    let done = set("", at(77)).json();
    assert_eq!(rehearsed["offsets"], done["offsets"]);
    let offsets: Vec<&Value> = done["offsets"].as_array().expect("a list").iter().collect();
    assert_eq!(offsets.len(), PARTITIONS as usize);
    for (partition, told) in offsets.iter().enumerate() {
        assert_eq!(told["partition"], partition);
        assert_eq!(told["offset"], cut["offsets"][partition]);
    }
    // It begins where a partition does that has been trimmed behind the cut.
    let trimmed = http.delete("/v1/topics/t/partitions/0/records?before=tail");
    let first = trimmed.json()["first_offset"].clone();
    assert_eq!(set("?dry_run=true", at(77)).json()["offsets"][0]["offset"], first);
    let node = node.kill_and_restart();
    let http = Http::of(&node);
    let set = |query: &str, body: Value| http.patch(&format!("{path}{query}"), body.to_string());
    let group = http.get("/v1/groups/readers").json();
    let lags = group["offsets"].as_array().expect("a list").iter();
    let lag: i64 = lags.map(|told| told["lag"].as_i64().expect("a number")).sum();
    assert_eq!(lag, 200 - 77, "it was committed before the trim");
    for (body, status, kind) in [
        (at(201), 416, "position-out-of-range"),
        (at(-1), 400, "malformed-body"),
        (json!([{ "topic": "plain", "position": 0 }]), 409, "no-order"),
        (json!([{ "topic": "none", "position": 0 }]), 404, "unknown-topic"),
        (
            json!([{ "topic": "t", "position": 0 }, { "topic": "plain", "partition": 0, "offset": 0 }]),
            400,
            "malformed-body",
        ),
    ] {
        let answer = set("", body.clone());
        assert_eq!((answer.status, &*answer.kind()), (status, kind), "{body}");
    }
    assert_eq!(http.get("/v1/groups/readers").json(), group, "nothing is changed");
}
