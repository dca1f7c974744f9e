//! Following by server-sent events: nothing left out, nothing twice, and a clear word at the end.

use record::Compression;

use crate::client::{Event, Events, Http};
use crate::refusals;
use crate::support::{TestNode, compressed_batch, eventually, now_ms};

const RECORDS: &str = "/v1/topics/t/partitions/0/records";

fn start() -> (TestNode, Http) {
    let node = TestNode::start();
    let http = Http::of(&node);
    http.create("t", 1);
    (node, http)
}

fn append(http: &Http, values: &str) {
    let answer = http.post(RECORDS, "text/plain", values);
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// The next event, which is a record with this offset and value.
fn expect(events: &mut Events, offset: i64, value: &str) {
    let Event { id, name, data } = events.next().expect("an event");
    assert_eq!((id, name), (Some(offset), None));
    assert_eq!((&data["offset"], &data["value"]), (&offset.into(), &value.into()));
}

/// The stream ends with this reason.
fn expect_end(events: &mut Events, reason: &str) -> Event {
    let event = events.next().expect("a last event");
    assert_eq!((event.name.as_deref(), event.id), (Some("end"), None));
    assert_eq!(event.data["reason"], reason);
    assert_eq!(events.next(), None, "nothing follows the end");
    event
}

#[test]
fn records_come_as_they_are_committed() {
    let (_node, http) = start();
    append(&http, "before");
    let mut events = http.follow(RECORDS, &[]);
    assert_eq!(events.next_block().as_deref(), Some("id: 0\nretry: 1000"));
    append(&http, "a\nb");
    expect(&mut events, 1, "a");
    expect(&mut events, 2, "b");
    append(&http, "c");
    expect(&mut events, 3, "c");
}

#[test]
fn a_follower_that_was_interrupted_goes_on_behind_what_it_saw() {
    let (_node, http) = start();
    append(&http, "a\nb\nc\nd");
    let mut events = http.follow(&format!("{RECORDS}?offset=earliest"), &[]);
    expect(&mut events, 0, "a");
    expect(&mut events, 1, "b");
    drop(events);
    // As a browser does it: with the address it began with.
    let mut events = http.follow(&format!("{RECORDS}?offset=earliest"), &[("last-event-id", "1")]);
    expect(&mut events, 2, "c");
    expect(&mut events, 3, "d");
    append(&http, "e");
    expect(&mut events, 4, "e");
    let refused = |id: &str| {
        let headers = [("accept", "text/event-stream"), ("last-event-id", id)];
        http.send("GET", RECORDS, &headers, b"").kind()
    };
    assert_eq!(refused("x"), "malformed-header");
    assert_eq!(refused("-2"), "malformed-header");
    assert_eq!(refused("9223372036854775807"), "malformed-header");
    assert_eq!(refused("5"), "offset-out-of-range");
}

#[test]
fn a_follower_that_was_interrupted_before_anything_came_misses_nothing() {
    let (_node, http) = start();
    // At the tail of what is empty, and of what is not.
    for (missed, id) in [(0, "-1"), (1, "0")] {
        let mut events = http.follow(RECORDS, &[]);
        let opening = events.next_block().expect("it begins");
        assert_eq!(opening.lines().next(), Some(format!("id: {id}").as_str()));
        drop(events);
        append(&http, "meanwhile");
        let mut events = http.follow(RECORDS, &[("last-event-id", id)]);
        expect(&mut events, missed, "meanwhile");
    }
}

#[test]
fn a_long_past_is_followed_to_the_present_without_a_gap() {
    const RECORDS_APPENDED: i64 = 3_000;
    let (_node, http) = start();
    for hundred in 0..RECORDS_APPENDED / 100 {
        let lines: Vec<String> = (0..100)
            .map(|one| format!("{:0>100}", hundred * 100 + one))
            .collect();
        append(&http, &lines.join("\n"));
    }
    let mut events = http.follow(&format!("{RECORDS}?offset=earliest"), &[]);
    for offset in 0..RECORDS_APPENDED {
        expect(&mut events, offset, &format!("{offset:0>100}"));
    }
    append(&http, "present");
    expect(&mut events, RECORDS_APPENDED, "present");
}

#[test]
fn a_large_batch_is_unpacked_for_few_pieces() {
    const RECORDS_APPENDED: i64 = 40_000;
    let (node, http) = start();
    let now = now_ms();
    let values: Vec<String> = (0..RECORDS_APPENDED).map(|one| format!("{one:0>40}")).collect();
    let records: Vec<(i64, &str)> = values.iter().map(|value| (now, value.as_str())).collect();
    let batch = compressed_batch(Compression::Gzip, &records);
    assert_eq!(node.connect().produce("t", 0, batch).error_code, 0);
    let mut events = http.follow(&format!("{RECORDS}?offset=earliest"), &[]);
    for (offset, value) in (0..).zip(&values) {
        expect(&mut events, offset, value);
    }
    // Several megabytes of text; pieces of one size would be more than sixty.
    assert!(events.pieces < 16, "{} pieces", events.pieces);
}

#[test]
fn a_deleted_topic_ends_the_stream() {
    let (_node, http) = start();
    append(&http, "a");
    let mut events = http.follow(&format!("{RECORDS}?offset=earliest"), &[]);
    expect(&mut events, 0, "a");
    assert_eq!(http.delete("/v1/topics/t").status, 204);
    expect_end(&mut events, "deleted");
}

#[test]
fn a_stopping_node_ends_the_stream() {
    let (mut node, http) = start();
    append(&http, "a");
    let mut events = http.follow(&format!("{RECORDS}?offset=earliest"), &[]);
    expect(&mut events, 0, "a");
    node.stop();
    expect_end(&mut events, "stopping");
}

#[test]
fn what_is_trimmed_before_it_was_sent_ends_the_stream_with_what_is_left() {
    let (_node, http) = start();
    // More than the node, the network and the client hold for a client that does not read.
    let line = "x".repeat(100 << 10);
    let lines = [line.as_str(); 8].join("\n");
    for _ in 0..24 {
        append(&http, &lines);
    }
    let mut events = http.follow(&format!("{RECORDS}?offset=earliest"), &[]);
    expect(&mut events, 0, &line);
    let trimmed = http.delete(&format!("{RECORDS}?before=190"));
    assert_eq!(trimmed.json()["first_offset"], 190);
    let mut next = 1;
    let end = loop {
        let event = events.next().expect("an event");
        match event.id {
            Some(offset) => {
                assert_eq!(offset, next, "no gap before the end");
                next += 1;
            }
            None => break event,
        }
    };
    assert!(next < 190, "all was sent before it was trimmed");
    assert_eq!(end.name.as_deref(), Some("end"));
    assert_eq!(end.data["reason"], "trimmed");
    assert_eq!(
        (&end.data["first_offset"], &end.data["tail"]),
        (&190.into(), &192.into())
    );
}

#[test]
fn followers_are_counted_and_their_places_come_back() {
    const OF_AN_ADDRESS: usize = 48;
    let (node, http) = start();
    let mut followers: Vec<Events> = (0..OF_AN_ADDRESS).map(|_| http.follow(RECORDS, &[])).collect();
    for follower in &mut followers {
        assert_eq!(follower.next_block().as_deref(), Some("id: -1\nretry: 1000"));
    }
    assert_eq!(node.metric("ropewalk_http_followers"), OF_AN_ADDRESS as u64);
    let refused = http.get_as(RECORDS, "text/event-stream");
    refusals::expect(
        &refused,
        503,
        "busy",
        "48 connections from this address follow partitions",
    );
    assert_eq!(refused.header("retry-after"), Some("1"));
    // Others are served all the same.
    append(&http, "a");
    for follower in &mut followers {
        expect(follower, 0, "a");
    }
    drop(followers);
    eventually("all followers are gone", || {
        node.metric("ropewalk_http_followers") == 0
    });
    let mut events = http.follow(&format!("{RECORDS}?offset=0"), &[]);
    expect(&mut events, 0, "a");
}
